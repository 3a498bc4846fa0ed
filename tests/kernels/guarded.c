// SPDX-License-Identifier: MIT
#include "kernels/guarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "chance.h"

#define PAGE ((size_t)4096)

static uint64_t seed;

void test_seed(long i)
{
	seed = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
}

void test_die(const char *why)
{
	fprintf(stderr, "%s\n", why);
	abort();
}

uint32_t test_rnd(uint32_t n)
{
	return (uint32_t)(xorshift(&seed) >> 32) % n;
}

/* ---- guarded memory ---- */

struct test_guarded test_guarded(size_t size, size_t align)
{
	size_t inner = (size + PAGE - 1) / PAGE * PAGE;
	struct test_guarded g = { .mapped = inner + 2 * PAGE, .size = size };
	size_t gap = test_rnd(2) ? 0 : (inner - size) / align * align;

	g.map = mmap(NULL, g.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g.map == MAP_FAILED || (inner && mprotect(g.map + PAGE, inner, PROT_READ | PROT_WRITE)))
		test_die("no memory");
	g.p = g.map + PAGE + gap;
	for (size_t i = 0; i < size; i++)
		g.p[i] = (uint8_t)test_rnd(256);
	return g;
}

void test_drop(struct test_guarded *g)
{
	munmap(g->map, g->mapped);
}

size_t test_bytes(const struct rvl_kernel_arg *a)
{
	return (size_t)rvl_shape_count(&a->shape) * rvl_type_size(a->type);
}

void test_image(struct rvl_kernel_arg *a, enum rvl_type t, int64_t n, int64_t c, int64_t h,
		   int64_t w)
{
	*a = (struct rvl_kernel_arg) { .type = t, .shape = { .rank = 4, .dim = { n, c, h, w } } };
}

void test_matrix(struct rvl_kernel_arg *a, enum rvl_type t, int64_t rows, int64_t cols, bool trans)
{
	*a = (struct rvl_kernel_arg) {
		.type = t, .shape = { .rank = 2, .dim = { trans ? cols : rows, trans ? rows : cols } },
	};
}

int64_t test_axis(struct rvl_attr *a, int i, int64_t n, uint32_t most)
{
	int32_t reach;

	do {
		a->kernel[i] = test_rnd(3) ? 1 + (int32_t)test_rnd(3) : 1 + (int32_t)test_rnd(most);
		a->stride[i] = 1 + (int32_t)test_rnd(3);
		a->dilation[i] = test_rnd(3) ? 1 : 1 + (int32_t)test_rnd(3);
		a->pad[i] = (int32_t)test_rnd((uint32_t)a->kernel[i] + 1);
		a->pad[i + 2] = (int32_t)test_rnd((uint32_t)a->kernel[i] + 1);
		reach = a->dilation[i] * (a->kernel[i] - 1) + 1;
	} while (n + a->pad[i] + a->pad[i + 2] < reach);
	return (n + a->pad[i] + a->pad[i + 2] - reach) / a->stride[i] + 1;
}

/* ---- a run ---- */

/* The scratch memory of a run; before and after the parts of one loop; 1 + the lane that wrote a byte. */
struct sharing {
	struct test_guarded scratch;
	uint8_t *before, *after;
	uint32_t *written;
};

/* Each byte belongs to one lane, because threads run lanes at the same time. */
static void take_written(const struct sharing *s, uint32_t lane)
{
	size_t step;

	for (size_t at = 0; at < s->scratch.size; at += step) {
		uint8_t *p = s->scratch.p + at;

		step = s->scratch.size - at < 64 ? s->scratch.size - at : 64;
		if (!memcmp(p, s->before + at, step))
			continue;
		for (size_t i = 0; i < step; i++) {
			if (p[i] == s->before[at + i])
				continue;
			if (s->written[at + i] && s->written[at + i] != 1 + lane)
				test_die("two lanes write the same scratch memory");
			s->written[at + i] = 1 + lane;
			s->after[at + i] = p[i];
		}
		memcpy(p, s->before + at, step);
	}
}

/* No part sees what another part of the same loop has written. */
static void backwards(void *ctx, uint32_t lanes, uint32_t n, rvl_part_fn fn, void *arg)
{
	const struct sharing *s = ctx;

	memcpy(s->before, s->scratch.p, s->scratch.size);
	memcpy(s->after, s->scratch.p, s->scratch.size);
	memset(s->written, 0, s->scratch.size * sizeof(*s->written));
	while (n-- > 0) {
		fn(arg, n % lanes, n);
		take_written(s, n % lanes);
	}
	memcpy(s->scratch.p, s->after, s->scratch.size);
}

void test_run(const struct rvl_kernel_desc *d, bool reference, const void *const *in,
	      const struct test_guarded *y, uint32_t threads)
{
	test_run_outputs(d, reference, in, (void *[]) { y->p }, threads);
}

void test_run_outputs(const struct rvl_kernel_desc *d, bool reference, const void *const *in,
		      void *const *out, uint32_t threads)
{
	struct sharing s;
	const struct rvl_pool pool = { .parallel = backwards, .threads = threads, .ctx = &s };
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;
	int rc = rvl_kernel_new(d, reference, &k, why);

	if (rc)
		test_die(why);
	s.scratch = test_guarded(rvl_kernel_scratch(k), 64);
	s.written = malloc(s.scratch.size * sizeof(*s.written) + 1);
	s.before = malloc(2 * s.scratch.size + 1);
	s.after = s.before + s.scratch.size;
	if (!s.written || !s.before)
		test_die("no memory");
	rc = rvl_kernel_run(k, in, out, s.scratch.p, threads ? &pool : NULL);
	if (rc)
		test_die("the kernel does not run");
	test_drop(&s.scratch);
	free(s.written);
	free(s.before);
	rvl_kernel_free(k);
}

const char *test_each_set(bool (*differs)(void *arg), void *arg)
{
	struct rvl_cpu_set set;

	for (uint32_t i = 0; rvl_cpu_set(i, &set); i++) {
		if (!set.available)
			continue;
		if (rvl_cpu_force(set.name, NULL))
			test_die("a set cannot be forced");
		if (differs(arg))
			return set.name;
	}
	return NULL;
}
