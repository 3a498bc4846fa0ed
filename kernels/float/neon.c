/* SPDX-License-Identifier: MIT */
/* Micro-kernels for NEON. */
#ifdef __aarch64__
#include <arm_neon.h>

#define TARGET
#define vec float32x4_t
#define VL 4
#define NV 2
#define MR 8
#define V_ZERO vdupq_n_f32(0)
#define V_LOAD vld1q_f32
#define V_STORE vst1q_f32
#define V_SET1 vdupq_n_f32
#define V_ADD vaddq_f32
#define V_FMA(a, b, c) vfmaq_f32(c, a, b)
#define V_CLAMP(v, lo, hi) vminq_f32(vmaxq_f32(v, lo), hi)

#include "float/tile.h"
#include "float/transform.h"

TILES(1)
TILES(2)
TILES(4)
TILES(6)
TILES(8)

static void gemm(const struct rvl_f32_gemm_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_gemm_call *c) = {
		tile_1, tile_2, tile_4, tile_4, tile_6, tile_6, tile_8, tile_8,
	};

	tiles[c->rows - 1](c);
}

const struct rvl_f32_kernels rvl_f32_neon = {
	.mr = MR, .nr = NR, .vl = VL, .gemm = gemm, .taps = taps,
	.winograd_in = winograd_in, .winograd_out = winograd_out,
	.gemv = gemv, .put = put, .math = &rvl_f32_math_base, .bytes = &rvl_f32_bytes_base,
};
#endif
