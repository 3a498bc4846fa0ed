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

#define ivec int32x4_t
#define P_ZERO vdupq_n_s32(0)
#define P_LOAD(p) vld1q_s32((const int32_t *)(const void *)(p))
#define P_STORE(p, v) vst1q_s32((int32_t *)(void *)(p), v)
#define P_SET1(p) vreinterpretq_s32_f32(vld1q_dup_f32(p))
#define P_ADD vaddq_s32
#define P_MADD madd
#define P_KEEP(v) ((void)(v))

/* The sums of the products of pairs. */
static inline int32x4_t madd(int32x4_t a, int32x4_t b)
{
	int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);

	return vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}

#include "float/pairs.h"
#include "float/transform.h"

TILES(1)
TILES(2)
TILES(4)
TILES(6)
TILES(8)
PAIR_TILES(1)
PAIR_TILES(2)
PAIR_TILES(4)
PAIR_TILES(6)
PAIR_TILES(8)

static void gemm(const struct rvl_f32_gemm_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_gemm_call *c) = {
		tile_1, tile_2, tile_4, tile_4, tile_6, tile_6, tile_8, tile_8,
	};

	tiles[c->rows - 1](c);
}

static void pairs(const struct rvl_f32_pairs_call *c)
{
	static void (*const tiles[MR])(const struct rvl_f32_pairs_call *c) = {
		pairs_1, pairs_2, pairs_4, pairs_4, pairs_6, pairs_6, pairs_8, pairs_8,
	};

	tiles[c->rows - 1](c);
}

const struct rvl_f32_kernels rvl_f32_neon = {
	.mr = MR, .nr = NR, .vl = VL, .gemm = gemm, .pairs = pairs, .taps = taps,
	.winograd_in = winograd_in, .winograd_out = winograd_out,
	.gemv = gemv, .put = put, .math = &rvl_f32_math_base, .bytes = &rvl_f32_bytes_base,
};
#endif
