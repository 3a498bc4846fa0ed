/* SPDX-License-Identifier: MIT */
/* Micro-kernels for every x86-64. */
#ifdef __x86_64__
#include <emmintrin.h>

#define TARGET
#define vec __m128
#define VL 4
#define NV 2
#define MR 4
#define V_ZERO _mm_setzero_ps()
#define V_LOAD _mm_loadu_ps
#define V_STORE _mm_storeu_ps
#define V_SET1 _mm_set1_ps
#define V_ADD _mm_add_ps
#define V_FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define V_CLAMP(v, lo, hi) _mm_min_ps(hi, _mm_max_ps(lo, v))

#define ivec __m128i
#define P_ZERO _mm_setzero_si128()
#define P_LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define P_STORE(p, v) _mm_storeu_si128((__m128i *)(void *)(p), v)
#define P_SET1(p) _mm_castps_si128(_mm_set1_ps(*(p)))
#define P_ADD _mm_add_epi32
#define P_MADD _mm_madd_epi16
#define P_KEEP(v) __asm__("" : "+x"(v))

#include "float/pairs.h"
#include "float/transform.h"

TILES(1)
TILES(2)
TILES(4)
PAIR_TILES(1)
PAIR_TILES(2)
PAIR_TILES(4)

static void gemm(const struct rvl_f32_gemm_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_gemm_call *c) = {
		tile_1, tile_2, tile_4, tile_4,
	};

	tiles[c->rows - 1](c);
}

static void pairs(const struct rvl_f32_pairs_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_pairs_call *c) = {
		pairs_1, pairs_2, pairs_4, pairs_4,
	};

	tiles[c->rows - 1](c);
}

const struct rvl_f32_kernels rvl_f32_sse = {
	.mr = MR, .nr = NR, .vl = VL, .gemm = gemm, .pairs = pairs, .taps = taps,
	.winograd_in = winograd_in, .winograd_out = winograd_out,
	.gemv = gemv, .put = put, .math = &rvl_f32_math_base, .bytes = &rvl_f32_bytes_base,
};
#endif
