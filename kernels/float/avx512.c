/* SPDX-License-Identifier: MIT */
/* Micro-kernels for AVX-512. */
#ifdef __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw")))
#define vec __m512
#define VL 16
#define NV 2
#define MR 12
#define V_ZERO _mm512_setzero_ps()
#define V_LOAD _mm512_loadu_ps
#define V_STORE _mm512_storeu_ps
#define V_SET1 _mm512_set1_ps
#define V_ADD _mm512_add_ps
#define V_FMA _mm512_fmadd_ps
#define V_CLAMP(v, lo, hi) _mm512_min_ps(hi, _mm512_max_ps(lo, v))

#define V_STORE_PART(p, v, n) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1), v)

#define ivec __m512i
#define P_ZERO _mm512_setzero_si512()
#define P_LOAD(p) _mm512_loadu_si512(p)
#define P_STORE(p, v) _mm512_storeu_si512(p, v)
#define P_SET1(p) _mm512_castps_si512(_mm512_set1_ps(*(p)))
#define P_ADD _mm512_add_epi32
#define P_MADD _mm512_madd_epi16
#define P_KEEP(v) __asm__("" : "+v"(v))

#define V_LOAD_PANEL(p) _mm512_maskz_loadu_ps((1 << MR) - 1, p)

#include "float/pairs.h"
#include "float/transform.h"

#include "float/few.h"

TILES(1)
TILES(2)
TILES(4)
TILES(6)
TILES(8)
TILES(10)
TILES(12)
PAIR_TILES(1)
PAIR_TILES(2)
PAIR_TILES(4)
PAIR_TILES(6)
PAIR_TILES(8)
PAIR_TILES(10)
PAIR_TILES(12)

static void gemm(const struct rvl_f32_gemm_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_gemm_call *c) = {
		tile_1, tile_2, tile_4, tile_4, tile_6, tile_6,
		tile_8, tile_8, tile_10, tile_10, tile_12, tile_12,
	};

	tiles[c->rows - 1](c);
}

static void pairs(const struct rvl_f32_pairs_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_pairs_call *c) = {
		pairs_1, pairs_2, pairs_4, pairs_4, pairs_6, pairs_6,
		pairs_8, pairs_8, pairs_10, pairs_10, pairs_12, pairs_12,
	};

	tiles[c->rows - 1](c);
}

const struct rvl_f32_kernels rvl_f32_avx512 = {
	.mr = MR, .nr = NR, .vl = VL, .gemm = gemm, .few = few, .few_beside = 2, .pairs = pairs, .taps = taps,
	.winograd_in = winograd_in, .winograd_out = winograd_out,
	.gemv = gemv, .put = put, .math = &rvl_f32_math_avx512, .bytes = &rvl_f32_bytes_avx512,
};
#endif
