// SPDX-License-Identifier: MIT
#include "float/shapes.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/guarded.h"

#define INPUTS 4
#define TOLERANCE 1e-5

struct product {
	struct rvl_kernel_desc d;
	struct test_guarded in[INPUTS], y, again, ref, bound;
	bool special;		/* with infinities and NaN */
	bool extreme;		/* a * alpha and b * alpha leave the range of floats */
};

static struct test_guarded floats(const struct rvl_kernel_arg *a)
{
	struct test_guarded g = test_guarded(test_bytes(a), 4);
	float *v = (float *)(void *)g.p;

	for (size_t i = 0; i < g.size / sizeof(*v); i++)
		v[i] = ((float)test_rnd(1 << 20) - (1 << 19)) / (1 << 17);
	return g;
}

static void make_special(struct test_guarded *g)
{
	static const float values[] = { INFINITY, -INFINITY, NAN, -0.0f, 1e-42f };
	float *v = (float *)(void *)g->p;
	uint32_t n = (uint32_t)(g->size / sizeof(*v));

	for (int i = 0; i < 2 && n; i++)
		v[test_rnd(n)] = values[test_rnd(5)];
}

static void multiply(struct test_guarded *g, float by)
{
	float *v = (float *)(void *)g->p;

	for (size_t i = 0; i < g->size / sizeof(*v); i++)
		v[i] *= by;
}

static void complete(struct product *p)
{
	struct rvl_kernel_desc *d = &p->d;

	d->n_out = 1;
	p->special = !test_rnd(8);
	if (!test_rnd(3))
		d->attr.f_lo = 0;
	if (!test_rnd(6))
		d->attr.f_hi = 6;
	for (uint32_t i = 0; i < d->n_in; i++) {
		p->in[i] = floats(&d->in[i]);
		/* Infinite weights times padding are no numbers; the reference leaves the padding out. */
		if (p->special && (i != 1 || d->op != RVL_OP_CONV))
			make_special(&p->in[i]);
	}
	if (p->extreme) {
		multiply(&p->in[0], 1e-20f);
		multiply(&p->in[1], 1e30f);
	}
	p->y = test_guarded(test_bytes(&d->out[0]), 4);
	p->again = test_guarded(test_bytes(&d->out[0]), 4);
	p->ref = test_guarded(test_bytes(&d->out[0]), 4);
	p->bound = test_guarded(test_bytes(&d->out[0]), 4);
	if (test_rnd(4))
		d->in[1].data = p->in[1].p;
	else if (d->op != RVL_OP_CONV && !test_rnd(3))
		d->in[0].data = p->in[0].p;
}

static void set_conv(struct product *p, int64_t images, int64_t cg, int64_t mg, int64_t h, int64_t w,
		     int64_t oh, int64_t ow)
{
	const struct rvl_attr *a = &p->d.attr;
	int64_t group = a->group;

	p->d.op = RVL_OP_CONV;
	p->d.n_in = 2 + test_rnd(2);
	test_image(&p->d.in[0], RVL_TYPE_F32, images, cg * group, h, w);
	test_image(&p->d.in[1], RVL_TYPE_F32, mg * group, cg, a->kernel[0], a->kernel[1]);
	p->d.in[2] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { 1, { mg * group } } };
	test_image(&p->d.out[0], RVL_TYPE_F32, images, mg * group, oh, ow);
	if (test_rnd(5))
		return;
	p->d.n_in = 4;	/* an image is added */
	p->d.in[3] = p->d.out[0];
}

/* One axis with any stride and dilation, over at most @most results. Returns the input's size. */
static int64_t wide_axis(struct rvl_attr *a, int i, uint32_t most, int64_t *out)
{
	int64_t n;

	a->kernel[i] = 1 + (int32_t)test_rnd(4);
	a->stride[i] = 1 + (int32_t)test_rnd(test_rnd(2) ? 2 : 9);
	a->dilation[i] = 1 + (int32_t)test_rnd(test_rnd(2) ? 1 : 60);
	*out = 1 + test_rnd(most);
	n = (*out - 1) * a->stride[i] + (int64_t)(a->kernel[i] - 1) * a->dilation[i] + 1;
	a->pad[i] = (int32_t)test_rnd(n / 2 < 80 ? (uint32_t)n / 2 + 1 : 80);
	a->pad[i + 2] = a->pad[i] / 2;
	return n - a->pad[i] - a->pad[i + 2];
}

/* A depthwise convolution whose planes are divided into strips. */
static void random_strips(struct product *p)
{
	int64_t oh, ow, h, w;
	bool flat = test_rnd(3) == 0;

	p->d.attr.group = 1 + (int32_t)test_rnd(2);
	h = wide_axis(&p->d.attr, 0, flat ? 2 : 150, &oh);
	w = wide_axis(&p->d.attr, 1, flat ? 20000 : 300, &ow);
	set_conv(p, 1, 1, 1 + test_rnd(2), h, w, oh, ow);
}

static void random_conv(struct product *p)
{
	int64_t group = 1, cg = 1 + test_rnd(test_rnd(4) ? 20 : 120), images = 1 + !test_rnd(6);
	int64_t mg = 1 + test_rnd(test_rnd(4) ? 40 : 150), h = 1 + test_rnd(9), w = 1 + test_rnd(40);
	int64_t oh, ow;

	switch (test_rnd(5)) {
	case 0:		/* depthwise, maybe with more outputs than inputs */
		group = 1 + test_rnd(20);
		cg = 1;
		mg = 1 + test_rnd(4);
		break;
	case 1:
		group = 1 + test_rnd(6);
		cg = 1 + test_rnd(12);
	}
	p->d.attr.group = (int32_t)group;
	oh = test_axis(&p->d.attr, 0, h, test_rnd(20) ? 5 : 12);
	ow = test_axis(&p->d.attr, 1, w, test_rnd(20) ? 5 : 12);
	set_conv(p, images, cg, mg, h, w, oh, ow);
}

/* A convolution whose only window is the whole image. */
static void random_whole(struct product *p)
{
	struct rvl_attr *a = &p->d.attr;

	a->group = 1 + (test_rnd(3) ? 0 : (int32_t)test_rnd(3));
	for (int i = 0; i < 2; i++) {
		a->kernel[i] = 1 + (int32_t)test_rnd(test_rnd(2) ? 1 : 4);
		a->stride[i] = 1 + (int32_t)test_rnd(3);
		a->dilation[i] = 1 + (a->kernel[i] == 1 ? (int32_t)test_rnd(3) : 0);
	}
	set_conv(p, 1 + test_rnd(test_rnd(3) ? 1 : 9), 1 + test_rnd(test_rnd(2) ? 20 : 500), 1 + test_rnd(70),
		 a->kernel[0], a->kernel[1], 1, 1);
}

/* A convolution that may be computed by tiles. */
static void random_tiles(struct product *p)
{
	struct rvl_attr *a = &p->d.attr;
	bool deep = !test_rnd(12);
	int64_t in[2], out[2];

	a->group = 1 + (int32_t)test_rnd(2);
	for (int i = 0; i < 2; i++) {
		a->kernel[i] = 3;
		a->stride[i] = a->dilation[i] = 1;
		a->pad[i] = (int32_t)test_rnd(2);
		a->pad[i + 2] = (int32_t)test_rnd(2);
		in[i] = 7 + test_rnd(i && !test_rnd(8) ? 80 : 10);
		out[i] = in[i] + a->pad[i] + a->pad[i + 2] - 2;
	}
	set_conv(p, 1, deep ? 250 + test_rnd(50) : 4 + test_rnd(20), 4 + test_rnd(deep ? 8 : 40), in[0],
		 in[1], out[0], out[1]);
}

/* Sizes about those at which the product is divided, and small ones. */
static int64_t size(void)
{
	if (!test_rnd(100))
		return 470 + test_rnd(60);
	return test_rnd(20) ? 1 + test_rnd(40) : 90 + test_rnd(150);
}

static int64_t inner(void)
{
	return test_rnd(4) ? test_rnd(50) : test_rnd(1000);
}

static void random_gemm(struct product *p)
{
	int64_t m = size(), n = size(), k = inner();
	struct rvl_kernel_arg *c = &p->d.in[2];

	p->d.op = RVL_OP_GEMM;
	p->d.n_in = 2 + test_rnd(2);
	p->d.attr.trans_a = test_rnd(2);
	p->d.attr.trans_b = test_rnd(2);
	p->d.attr.alpha = test_rnd(2) ? 1 : 0.75f;
	p->d.attr.beta = test_rnd(2) ? 1 : -1.5f;
	p->extreme = !test_rnd(6);
	if (p->extreme)
		p->d.attr.alpha = 1e10f;
	test_matrix(&p->d.in[0], RVL_TYPE_F32, m, k, p->d.attr.trans_a);
	test_matrix(&p->d.in[1], RVL_TYPE_F32, k, n, p->d.attr.trans_b);
	test_matrix(c, RVL_TYPE_F32, test_rnd(2) ? m : 1, test_rnd(2) ? n : 1, false);
	if (c->shape.dim[0] == 1 && test_rnd(2))
		c->shape = (struct rvl_shape) { 1, { c->shape.dim[1] } };
	test_matrix(&p->d.out[0], RVL_TYPE_F32, m, n, false);
}

/* [b1 or 1, b2 or 1, rows, cols] */
static struct rvl_kernel_arg batched(const int64_t *batch, int64_t rows, int64_t cols)
{
	return (struct rvl_kernel_arg) {
		.type = RVL_TYPE_F32,
		.shape = { 4, { test_rnd(3) ? batch[0] : 1, test_rnd(3) ? batch[1] : 1, rows, cols } },
	};
}

static void random_matmul(struct product *p)
{
	int64_t m = size(), n = size(), k = inner();
	int64_t batch[2] = { 1 + test_rnd(3), 1 + test_rnd(2) };
	struct rvl_shape *y = &p->d.out[0].shape;

	p->d.op = RVL_OP_MATMUL;
	p->d.n_in = 2;
	p->d.in[0] = batched(batch, m, k);
	p->d.in[1] = batched(batch, k, n);
	p->d.out[0] = batched(batch, m, n);
	for (int i = 0; i < 2; i++)
		y->dim[i] = p->d.in[0].shape.dim[i] > p->d.in[1].shape.dim[i] ?
			    p->d.in[0].shape.dim[i] : p->d.in[1].shape.dim[i];
}

static void random_product(struct product *p)
{
	memset(p, 0, sizeof(*p));
	rvl_attr_init(&p->d.attr);
	if (!test_rnd(40))
		random_strips(p);
	else if (!test_rnd(24))
		random_tiles(p);
	else if (!test_rnd(24))
		random_whole(p);
	else if (test_rnd(2))
		random_conv(p);
	else if (test_rnd(2))
		random_gemm(p);
	else
		random_matmul(p);
	complete(p);
}

static void drop_product(struct product *p)
{
	for (uint32_t i = 0; i < p->d.n_in; i++)
		test_drop(&p->in[i]);
	test_drop(&p->y);
	test_drop(&p->again);
	test_drop(&p->ref);
	test_drop(&p->bound);
}

/* ---- comparison ---- */

static void run(const struct product *p, bool reference, const struct test_guarded *y,
		uint32_t threads)
{
	test_run(&p->d, reference, (const void *[]) { p->in[0].p, p->in[1].p, p->in[2].p, p->in[3].p }, y,
		 threads);
}

/* The product of absolute values, without a clamp. */
static void find_bound(const struct product *p)
{
	struct product abs = *p;

	for (uint32_t i = 0; i < p->d.n_in; i++) {
		float *v;

		abs.in[i] = test_guarded(p->in[i].size, 4);
		v = memcpy(abs.in[i].p, p->in[i].p, p->in[i].size);
		for (size_t k = 0; k < p->in[i].size / sizeof(*v); k++)
			v[k] = fabsf(v[k]);
		abs.d.in[i].data = NULL;
	}
	abs.d.attr.f_lo = -INFINITY;
	abs.d.attr.f_hi = INFINITY;
	abs.d.attr.beta = fabsf(p->d.attr.beta);
	run(&abs, true, &p->bound, 0);
	for (uint32_t i = 0; i < p->d.n_in; i++)
		test_drop(&abs.in[i]);
}

static bool is_close(float y, float ref, float bound)
{
	if (isnan(ref) || isnan(y))
		return isnan(ref) && isnan(y);
	if (isinf(ref) || isinf(y))
		return y == ref;
	return fabs((double)y - (double)ref) <= TOLERANCE * (double)bound + (double)FLT_MIN;
}

static bool all_close(const struct product *p)
{
	const float *y = (const float *)(void *)p->y.p, *ref = (const float *)(void *)p->ref.p;
	const float *bound = (const float *)(void *)p->bound.p;

	for (size_t i = 0; i < p->y.size / sizeof(*y); i++)
		if (!is_close(y[i], ref[i], bound[i]))
			return false;
	return true;
}

static bool differs_now(void *arg)
{
	const struct product *p = arg;

	memset(p->y.p, 0x5a, p->y.size);
	memset(p->again.p, 0xa5, p->again.size);
	run(p, false, &p->y, 0);
	run(p, false, &p->again, 1 + test_rnd(22));
	return !all_close(p) || memcmp(p->y.p, p->again.p, p->y.size);
}

const char *float_compare(long i)
{
	const char *differs;
	struct product p;

	test_seed(i);
	random_product(&p);
	run(&p, true, &p.ref, 0);
	find_bound(&p);
	differs = test_each_set(differs_now, &p);
	drop_product(&p);
	return differs;
}
