/* SPDX-License-Identifier: MIT */
/* Micro-kernels without vector units. */
#include <stdint.h>
#include <string.h>

#define TARGET
#define vec float
#define VL 1
#define NV 4
#define MR 2
#define V_ZERO 0.0f
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_SET1(v) (v)
#define V_ADD(a, b) ((a) + (b))
#define V_FMA(a, b, c) ((a) * (b) + (c))
#define V_CLAMP(v, lo, hi) ((v) < (lo) ? (lo) : (v) > (hi) ? (hi) : (v))

#define ivec uint32_t
#define P_ZERO 0
#define P_LOAD(p) word(p)
#define P_STORE(p, v) (*(p) = (v))
#define P_SET1(p) word(p)
#define P_ADD(a, b) ((a) + (b))
#define P_MADD madd
#define P_KEEP(v) ((void)(v))

static inline uint32_t word(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The sum of the products of a pair. */
static inline uint32_t madd(uint32_t a, uint32_t b)
{
	return (uint32_t)((int16_t)a * (int16_t)b) + (uint32_t)((int16_t)(a >> 16) * (int16_t)(b >> 16));
}

#include "float/pairs.h"
#include "float/transform.h"

TILES(1)
TILES(2)

PAIR_TILES(1)
PAIR_TILES(2)

static void gemm(const struct rvl_f32_gemm_call *c)
{
	if (c->rows == 1)
		tile_1(c);
	else
		tile_2(c);
}

static void pairs(const struct rvl_f32_pairs_call *c)
{
	if (c->rows == 1)
		pairs_1(c);
	else
		pairs_2(c);
}

const struct rvl_f32_kernels rvl_f32_scalar = {
	.mr = MR, .nr = NR, .vl = VL, .gemm = gemm, .pairs = pairs, .taps = taps,
	.winograd_in = winograd_in, .winograd_out = winograd_out,
	.gemv = gemv, .math = &rvl_f32_math_base, .bytes = &rvl_f32_bytes_base,
};
