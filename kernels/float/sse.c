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

#include "float/tile.h"
#include "float/transform.h"

TILES(1)
TILES(2)
TILES(4)

static void gemm(const struct rvl_f32_gemm_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_gemm_call *c) = {
		tile_1, tile_2, tile_4, tile_4,
	};

	tiles[c->rows - 1](c);
}

const struct rvl_f32_kernels rvl_f32_sse = {
	.mr = MR, .nr = NR, .vl = VL, .gemm = gemm, .taps = taps,
	.winograd_in = winograd_in, .winograd_out = winograd_out,
	.gemv = gemv, .put = put, .math = &rvl_f32_math_base, .bytes = &rvl_f32_bytes_base,
};
#endif
