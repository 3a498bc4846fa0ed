// SPDX-License-Identifier: MIT
#include "int8/shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "chance.h"
#include "rivulet_kernels.h"

#define PAGE ((size_t)4096)
#define CHANNELS 512

static uint64_t seed;

static __attribute__((noreturn)) void die(const char *why)
{
	fprintf(stderr, "%s\n", why);
	abort();
}

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)(xorshift(&seed) >> 32) % n;
}

/* ---- guarded memory ---- */

struct guarded {
	uint8_t *map, *p;
	size_t mapped, size;
};

/* @size bytes aligned to @align between two guard pages, next to one of them. */
static struct guarded guarded(size_t size, size_t align)
{
	size_t inner = (size + PAGE - 1) / PAGE * PAGE;
	struct guarded g = { .mapped = inner + 2 * PAGE, .size = size };
	size_t gap = rnd(2) ? 0 : (inner - size) / align * align;

	g.map = mmap(NULL, g.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g.map == MAP_FAILED || (inner && mprotect(g.map + PAGE, inner, PROT_READ | PROT_WRITE)))
		die("no memory");
	g.p = g.map + PAGE + gap;
	for (size_t i = 0; i < size; i++)
		g.p[i] = (uint8_t)rnd(256);
	return g;
}

static void drop(struct guarded *g)
{
	munmap(g->map, g->mapped);
}

/* ---- random products ---- */

struct product {
	struct rvl_kernel_desc d;
	float scale[3][CHANNELS];
	int32_t zp[3][CHANNELS];
	struct guarded x, w, b, y, ref;
};

static enum rvl_type byte_type(void)
{
	return rnd(2) ? RVL_TYPE_U8 : RVL_TYPE_S8;
}

static int32_t any_zero(enum rvl_type t)
{
	return (int32_t)rnd(256) - (t == RVL_TYPE_U8 ? 0 : 128);
}

static void operand(struct product *p, int i, struct rvl_kernel_arg *a, uint32_t n, int32_t axis)
{
	for (uint32_t c = 0; c < n; c++) {
		p->scale[i][c] = 0.002f + 0.048f * (float)rnd(1 << 16) / 65536.0f;
		p->zp[i][c] = any_zero(a->type);
	}
	a->quant = (struct rvl_kernel_quant) { .n = n, .axis = axis, .scale = p->scale[i],
					       .zp = p->zp[i] };
}

static size_t bytes_of(const struct rvl_kernel_arg *a)
{
	return (size_t)rvl_shape_count(&a->shape) * rvl_type_size(a->type);
}

static int32_t weight_zero(enum rvl_type t)
{
	switch (rnd(4)) {
	case 0:
		return any_zero(t);
	case 1:
		return t == RVL_TYPE_U8 ? 0 : -128;	/* differences that only three bytes hold */
	default:
		return t == RVL_TYPE_U8 ? 128 : 0;
	}
}

/* Quantisation and memory of a product with @n output channels whose shapes are set. */
static void complete(struct product *p, int64_t n, int32_t axis)
{
	struct rvl_kernel_desc *d = &p->d;
	int32_t zero = weight_zero(d->in[1].type);

	d->n_in = 2 + rnd(2);
	d->n_out = 1;
	operand(p, 0, &d->in[0], 1, 0);
	operand(p, 1, &d->in[1], rnd(2) ? 1 : (uint32_t)n, axis);
	operand(p, 2, &d->out[0], 1, 0);
	for (int64_t i = 0; i < n; i++)
		p->zp[1][i] = zero;
	p->scale[2][0] *= 40;
	if (!rnd(3))
		d->attr.q_lo = p->zp[2][0];
	if (!rnd(8))
		d->attr.q_hi = p->zp[2][0] - 50 + (int32_t)rnd(150);
	p->x = guarded(bytes_of(&d->in[0]), 1);
	p->w = guarded(bytes_of(&d->in[1]), 1);
	p->b = guarded((size_t)n * 4, 4);
	p->y = guarded(bytes_of(&d->out[0]), 1);
	p->ref = guarded(bytes_of(&d->out[0]), 1);
	for (int64_t i = 0; i < n; i++)
		((int32_t *)(void *)p->b.p)[i] = (int32_t)rnd(20000) - 10000;
	d->in[1].data = p->w.p;
	if (d->n_in < 3)
		return;
	d->in[2] = (struct rvl_kernel_arg) { .type = RVL_TYPE_S32, .data = p->b.p,
					     .shape = { .rank = 1, .dim = { n } } };
}

static void drop_product(struct product *p)
{
	drop(&p->x);
	drop(&p->w);
	drop(&p->b);
	drop(&p->y);
	drop(&p->ref);
}

static void shape4(struct rvl_kernel_arg *a, enum rvl_type t, int64_t n, int64_t c, int64_t h,
		   int64_t w)
{
	*a = (struct rvl_kernel_arg) { .type = t, .shape = { .rank = 4, .dim = { n, c, h, w } } };
}

/* One axis of a window over @n positions; returns the number of results. */
static int64_t random_axis(struct rvl_attr *a, int i, int64_t n, uint32_t most)
{
	int32_t reach;

	do {
		a->kernel[i] = rnd(3) ? 1 + (int32_t)rnd(3) : 1 + (int32_t)rnd(most);
		a->stride[i] = 1 + (int32_t)rnd(3);
		a->dilation[i] = rnd(3) ? 1 : 1 + (int32_t)rnd(3);
		a->pad[i] = (int32_t)rnd((uint32_t)a->kernel[i] + 1);
		a->pad[i + 2] = (int32_t)rnd((uint32_t)a->kernel[i] + 1);
		reach = a->dilation[i] * (a->kernel[i] - 1) + 1;
	} while (n + a->pad[i] + a->pad[i + 2] < reach);
	return (n + a->pad[i] + a->pad[i + 2] - reach) / a->stride[i] + 1;
}

static void random_conv(struct product *p)
{
	int64_t group = 1, cg = 1 + rnd(rnd(4) ? 40 : 150), mg = 1 + rnd(rnd(4) ? 40 : 150);
	int64_t h = 1 + rnd(9), w = 1 + rnd(30), oh, ow, images = 1 + !rnd(6);

	switch (rnd(6)) {
	case 3:		/* depthwise, with more outputs than inputs */
		group = 1 + rnd(40);
		cg = 1;
		mg = 1 + rnd(4);
		break;
	case 0:		/* depthwise */
	case 1:
		group = 1 + rnd(rnd(2) ? 40 : 200);
		cg = mg = 1;
		break;
	case 2:
		group = 1 + rnd(6);
		cg = 1 + rnd(12);
		mg = 1 + rnd(40);
	}
	p->d.op = RVL_OP_Q_CONV;
	p->d.attr.group = (int32_t)group;
	oh = random_axis(&p->d.attr, 0, h, group == 1 ? 4 : rnd(20) ? 7 : 20);
	ow = random_axis(&p->d.attr, 1, w, group == 1 ? 4 : rnd(20) ? 7 : 20);
	shape4(&p->d.in[0], byte_type(), images, cg * group, h, w);
	shape4(&p->d.in[1], rnd(4) ? RVL_TYPE_S8 : RVL_TYPE_U8, mg * group, cg, p->d.attr.kernel[0],
	       p->d.attr.kernel[1]);
	shape4(&p->d.out[0], byte_type(), images, mg * group, oh, ow);
	complete(p, mg * group, 0);
}

static void shape2(struct rvl_kernel_arg *a, enum rvl_type t, int64_t rows, int64_t cols, bool trans)
{
	*a = (struct rvl_kernel_arg) {
		.type = t, .shape = { .rank = 2, .dim = { trans ? cols : rows, trans ? rows : cols } },
	};
}

static void random_matmul(struct product *p)
{
	int64_t m = 1 + rnd(60), n = 1 + rnd(200), k = rnd(rnd(3) ? 64 : 300);

	p->d.op = RVL_OP_Q_MATMUL;
	p->d.attr.trans_a = !rnd(4);
	p->d.attr.trans_b = rnd(2);
	shape2(&p->d.in[0], byte_type(), m, k, p->d.attr.trans_a);
	shape2(&p->d.in[1], rnd(4) ? RVL_TYPE_S8 : RVL_TYPE_U8, k, n, p->d.attr.trans_b);
	shape2(&p->d.out[0], byte_type(), m, n, false);
	complete(p, n, p->d.attr.trans_b ? 0 : 1);
}

static void random_product(struct product *p)
{
	memset(p, 0, sizeof(*p));
	rvl_attr_init(&p->d.attr);
	if (rnd(4))
		random_conv(p);
	else
		random_matmul(p);
}

/* ---- comparison ---- */

static void backwards(void *ctx, uint32_t n, void (*fn)(void *arg, uint32_t i), void *arg)
{
	(void)ctx;
	while (n-- > 0)
		fn(arg, n);
}

static void run(const struct product *p, bool reference, const struct guarded *y)
{
	const struct rvl_pool pool = { .parallel = backwards, .threads = 2 };
	const void *in[3] = { p->x.p, p->w.p, p->b.p };
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;
	struct guarded scratch;
	int rc = rvl_kernel_new(&p->d, reference, &k, why);

	if (rc)
		die(why);
	scratch = guarded(rvl_kernel_scratch(k), 64);
	rc = rvl_kernel_run(k, in, (void *[]) { y->p }, scratch.p, rnd(2) ? &pool : NULL);
	if (rc)
		die("the kernel does not run");
	drop(&scratch);
	rvl_kernel_free(k);
}

const char *int8_compare(long i)
{
	const char *differs = NULL;
	struct rvl_cpu_set set;
	struct product p;

	seed = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
	random_product(&p);
	run(&p, true, &p.ref);
	for (uint32_t s = 0; rvl_cpu_set(s, &set) && !differs; s++) {
		if (!set.available)
			continue;
		if (rvl_cpu_force(set.name, NULL))
			die("a set cannot be forced");
		memset(p.y.p, 0x5a, p.y.size);
		run(&p, false, &p.y);
		if (memcmp(p.y.p, p.ref.p, p.y.size))
			differs = set.name;
	}
	drop_product(&p);
	return differs;
}
