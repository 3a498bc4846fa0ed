/* SPDX-License-Identifier: MIT */
/* Binary tiles without vector instructions. */
#include <math.h>

#include "binary/binary.h"

enum { NR = 8 };

static void count(const struct rvl_b_call *c)
{
	const uint64_t *w = c->w;
	int32_t pop[NR] = { 0 };

	for (int64_t r = 0; r < c->runs; r++)
		for (int64_t i = 0; i < c->run; i++, w += NR)
			for (int j = 0; j < NR; j++)
				pop[j] += rvl_b_ones(c->x[0][c->off[r] + i] ^ w[j]);
	for (int j = 0; j < NR; j++)
		c->pop[j] = pop[j];
}

#define TARGET
#define POST post
#define LANES 4
typedef float scalar_f __attribute__((vector_size(16)));
typedef int32_t scalar_i __attribute__((vector_size(16)));

static scalar_f fma_lanes(scalar_f a, scalar_f b, scalar_f c)
{
	for (int i = 0; i < LANES; i++)
		c[i] = fmaf(a[i], b[i], c[i]);
	return c;
}

static scalar_f rint_lanes(scalar_f v)
{
	for (int i = 0; i < LANES; i++)
		v[i] = rintf(v[i]);
	return v;
}

static scalar_f below_0(scalar_f u, scalar_f a)
{
	for (int i = 0; i < LANES; i++)
		u[i] = u[i] < 0 ? a[i] : u[i];
	return u;
}

static scalar_f most(scalar_f v, scalar_f l)
{
	for (int i = 0; i < LANES; i++)
		v[i] = v[i] > l[i] ? v[i] : l[i];
	return v;
}

static scalar_f least(scalar_f v, scalar_f h)
{
	for (int i = 0; i < LANES; i++)
		v[i] = v[i] < h[i] ? v[i] : h[i];
	return v;
}

static uint32_t reach_f(scalar_f u, scalar_f t)
{
	uint32_t bits = 0;

	for (int i = 0; i < LANES; i++)
		bits |= (uint32_t)(u[i] >= t[i]) << i;
	return bits;
}

static uint32_t reach_i(scalar_i q, scalar_i t)
{
	uint32_t bits = 0;

	for (int i = 0; i < LANES; i++)
		bits |= (uint32_t)(q[i] >= t[i]) << i;
	return bits;
}

#define FMA fma_lanes
#define RINT rint_lanes
#define MAX most
#define MIN least
#define BELOW_0 below_0
#define REACH_F reach_f
#define REACH_I reach_i
#include "binary/post.h"

#define REACH reach
#include "binary/reach.h"

const struct rvl_b_kernels rvl_b_scalar = { "scalar", 1, NR, count, post, reach };
