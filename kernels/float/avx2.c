/* SPDX-License-Identifier: MIT */
/* Micro-kernels for AVX2 with FMA. */
#ifdef __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))
#define vec __m256
#define VL 8
#define NV 2
#define MR 6
#define V_ZERO _mm256_setzero_ps()
#define V_LOAD _mm256_loadu_ps
#define V_STORE _mm256_storeu_ps
#define V_SET1 _mm256_set1_ps
#define V_ADD _mm256_add_ps
#define V_FMA _mm256_fmadd_ps
#define V_CLAMP(v, lo, hi) _mm256_min_ps(hi, _mm256_max_ps(lo, v))

#define ivec __m256i
#define P_ZERO _mm256_setzero_si256()
#define P_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define P_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define P_SET1(p) _mm256_castps_si256(_mm256_broadcast_ss(p))
#define P_ADD _mm256_add_epi32
#define P_MADD _mm256_madd_epi16
#define P_KEEP(v) __asm__("" : "+x"(v))

#define V_LOAD_PANEL(p) _mm256_maskload_ps(p, _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0))

#include "float/pairs.h"
#include "float/transform.h"

#include "float/few.h"

TILES(1)
TILES(2)
TILES(4)
TILES(6)
PAIR_TILES(1)
PAIR_TILES(2)
PAIR_TILES(4)
PAIR_TILES(6)

static void gemm(const struct rvl_f32_gemm_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_gemm_call *c) = {
		tile_1, tile_2, tile_4, tile_4, tile_6, tile_6,
	};

	tiles[c->rows - 1](c);
}

static void pairs(const struct rvl_f32_pairs_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_pairs_call *c) = {
		pairs_1, pairs_2, pairs_4, pairs_4, pairs_6, pairs_6,
	};

	tiles[c->rows - 1](c);
}

const struct rvl_f32_kernels rvl_f32_avx2 = {
	.mr = MR, .nr = NR, .vl = VL, .gemm = gemm, .few = few, .pairs = pairs, .taps = taps,
	.winograd_in = winograd_in, .winograd_out = winograd_out,
	.gemv = gemv, .put = put, .math = &rvl_f32_math_avx2, .bytes = &rvl_f32_bytes_avx2,
};
#endif
