/* SPDX-License-Identifier: MIT */
/* Micro-kernels without vector units. */
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

#include "float/tile.h"
#include "float/transform.h"

TILES(1)
TILES(2)

static void gemm(const struct rvl_f32_gemm_call *c)
{
	if (c->rows == 1)
		tile_1(c);
	else
		tile_2(c);
}

const struct rvl_f32_kernels rvl_f32_scalar = {
	.mr = MR, .nr = NR, .vl = VL, .gemm = gemm, .taps = taps,
	.winograd_in = winograd_in, .winograd_out = winograd_out,
	.gemv = gemv, .math = &rvl_f32_math_base, .bytes = &rvl_f32_bytes_base,
};
