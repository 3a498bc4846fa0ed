// SPDX-License-Identifier: MIT
/*
 * Products by buckets on one core of the CPU beside the int8 kernels, which multiply: a layer of
 * 576 inputs and 64 kernels, 32 pixels at a time, for weights of 1 to 8 bits. Buckets make int32
 * sums of inputs that lie ready as int16; the int8 kernels requantise, too. Each time is the least
 * of several; time of this thread, so that other load that preempts it does not count.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ibtf/cases.h"
#include "int8/product.h"
#include "isa.h"

#define INPUTS	576
#define KERNELS 64
#define ROUNDS	15
#define REPEATS 20

static _Alignas(64) int16_t x[INPUTS * RIVULET_IBTF_LANES];
static _Alignas(64) int32_t y[KERNELS * RIVULET_IBTF_LANES];
static struct rivulet_ibtf_lanes scratch;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* 1e9 multiplications of the product a second. */
static double best_rate(void (*once)(void *arg), void *arg)
{
	double least = INFINITY;

	for (int i = 0; i < ROUNDS; i++) {
		double start = now();

		for (int k = 0; k < REPEATS; k++)
			once(arg);
		least = fmin(least, now() - start);
	}
	return (double)INPUTS * KERNELS * RIVULET_IBTF_LANES * REPEATS / least / 1e9;
}

/* ---- int8 ---- */

struct gemm {
	const struct rvl_i8_kernels *f;
	int8_t *w;
	uint8_t *a;
};

static void run_gemm(void *arg)
{
	static const int32_t bias[64];
	static const float scale[64];
	struct rvl_i8_post post = rvl_i8_post(INT8_MIN, INT8_MAX, 0, false);
	const struct gemm *g = arg;
	static uint8_t out[64 * 64];

	post.bounded = true;
	for (int row = 0; row < RIVULET_IBTF_LANES; row += g->f->mr)
		for (int n = 0; n < KERNELS; n += g->f->nr) {
			const uint8_t *rows[64];
			struct rvl_i8_gemm_call c = { .a = rows,
						      .taps = 1,
						      .kc = INPUTS,
						      .w = g->w + (size_t)n * INPUTS,
						      .bias = bias,
						      .scale = scale,
						      .y = out,
						      .y_stride = 64,
						      .cols = g->f->nr,
						      .x_u8 = true,
						      .post = &post };

			c.rows = RIVULET_IBTF_LANES - row < g->f->mr ? RIVULET_IBTF_LANES - row :
								       g->f->mr;
			for (int i = 0; i < g->f->mr; i++)
				rows[i] = g->a + (size_t)(row + (i < c.rows ? i : 0)) * INPUTS;
			g->f->gemm(&c);
		}
}

static double int8_rate(const struct rvl_i8_kernels *f)
{
	struct gemm g = { f, calloc(INPUTS, KERNELS + 64),
			  calloc(INPUTS, RIVULET_IBTF_LANES + 64) };
	double rate;

	if (!g.w || !g.a)
		abort();
	rate = best_rate(run_gemm, &g);
	free(g.w);
	free(g.a);
	return rate;
}

/* ---- buckets ---- */

struct buckets {
	struct ibtf_product p;
	uint16_t *codes;
	enum rivulet_ibtf_vector v;
};

static void run_buckets(void *arg)
{
	const struct buckets *b = arg;

	rivulet_ibtf_run_lanes(&b->p.shape, &b->p.cut, b->codes, x, b->v, &scratch, y);
}

/* The rate with the width of slices that is best here. */
static double buckets_rate(uint32_t bits, enum rivulet_ibtf_vector v, uint32_t *width)
{
	struct rivulet_ibtf_shape s = { .n = INPUTS, .m = KERNELS, .p = bits, .is_signed = true };
	uint64_t seed = bits;
	struct buckets b = { .v = v };
	double best = 0;

	ibtf_product_new(&b.p, s, bits == 1 ? 0.5 : 0,
			 &seed); /* else all weights of 1 bit were -1 */
	b.codes = calloc((size_t)INPUTS * KERNELS * bits, sizeof(*b.codes));
	if (!b.codes)
		abort();
	for (uint32_t a = 3; a <= RIVULET_IBTF_LANES_WIDEST; a++) {
		double rate;

		rivulet_ibtf_cut_evenly(&s, a, &b.p.cut);
		rivulet_ibtf_factorise(&s, b.p.w, &b.p.cut, b.codes);
		rate = best_rate(run_buckets, &b);
		*width = rate > best ? a : *width;
		best = fmax(best, rate);
	}
	free(b.codes);
	ibtf_product_free(&b.p);
	return best;
}

/* ---- */

int main(void)
{
	static const char *const vector[] = { "128", "avx2", "avx512" };
	static const uint32_t widths[] = { 1, 2, 3, 4, 6, 8 };
#define ISA(id, name, doc, i8, f32) { RVL_ISA_##id, name, &i8 },
	static const struct {
		enum rvl_isa isa;
		const char *name;
		const struct rvl_i8_kernels *f;
	} sets[] = { RVL_ISAS(ISA) };
#undef ISA
	uint64_t seed = 1;

	for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i++)
		x[i] = (int16_t)(seed = seed * 6364136223846793005u + 1442695040888963407u,
				 seed >> 56);
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		if (rvl_isa_available(sets[i].isa))
			printf("figure ibtf.cpu.int8.%s %.1f GMAC/s\n", sets[i].name,
			       int8_rate(sets[i].f));
	for (int v = 0; v < RIVULET_IBTF_VECTORS; v++)
		for (size_t i = 0; rivulet_ibtf_has((enum rivulet_ibtf_vector)v) && i < 6; i++) {
			uint32_t a = 0;
			double rate = buckets_rate(widths[i], (enum rivulet_ibtf_vector)v, &a);

			printf("figure ibtf.cpu.buckets.%s.%u %.1f GMAC/s\n", vector[v], widths[i],
			       rate);
			printf("slices of %u columns\n", a);
		}
	return 0;
}
