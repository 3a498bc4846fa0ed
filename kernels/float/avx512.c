/* SPDX-License-Identifier: MIT */
/* Micro-kernels for AVX-512. */
#ifdef __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))
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

#include "float/tile.h"
#include "float/transform.h"

TILES(1)
TILES(2)
TILES(4)
TILES(6)
TILES(8)
TILES(10)
TILES(12)

static void gemm(const struct rvl_f32_gemm_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_gemm_call *c) = {
		tile_1, tile_2, tile_4, tile_4, tile_6, tile_6,
		tile_8, tile_8, tile_10, tile_10, tile_12, tile_12,
	};

	tiles[c->rows - 1](c);
}

const struct rvl_f32_kernels rvl_f32_avx512 = {
	.mr = MR, .nr = NR, .vl = VL, .gemm = gemm, .taps = taps,
	.winograd_in = winograd_in, .winograd_out = winograd_out,
	.gemv = gemv, .put = put, .math = &rvl_f32_math_avx512, .bytes = &rvl_f32_bytes_avx512,
};
#endif
