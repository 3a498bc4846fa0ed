/* SPDX-License-Identifier: MIT */
/* Micro-kernels for arm64 with SDOT, which adds four products of int8 by int8. */
#ifdef __aarch64__
#pragma GCC target("arch=armv8.2-a+dotprod")
#include "int8/neon.h"

#define MR 4
#define NR 16

#define LANE(k) { \
	_Pragma("GCC unroll 4") \
	for (int j = 0; j < 4; j++) { \
		int8x16_t v = vld1q_s8(w + 64 * (k) + 16 * j); \
		_Pragma("GCC unroll 4") \
		for (int i = 0; i < MR; i++) \
			sum[i][j] = vdotq_laneq_s32(sum[i][j], v, x[i], k); \
	} \
}

/* Sixteen channels of every row. */
INLINE void step16(int32x4_t sum[MR][4], const int8x16_t x[MR], const int8_t *w)
{
	LANE(0)
	LANE(1)
	LANE(2)
	LANE(3)
}

INLINE int8x16_t load4(const uint8_t *p, const int x_u8)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return vreinterpretq_s8_u32(vdupq_n_u32(x_u8 ? v ^ 0x80808080 : v));
}

INLINE void step4(int32x4_t sum[MR][4], const int8x16_t x[MR], const int8_t *w)
{
	LANE(0)
}

INLINE void tile(const struct rvl_i8_gemm_call *c, const int x_u8)
{
	const int8_t *w = c->w;
	int32x4_t sum[MR][4];
	int8x16_t x[MR];

#pragma GCC unroll 4
	for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			sum[i][j] = vld1q_s32(c->bias + 4 * j);
	for (int64_t t = 0; t < c->taps; t++) {
		int64_t k = 0;

		for (; k + 16 <= c->kc; k += 16, w += 256) {
#pragma GCC unroll 4
			for (int i = 0; i < MR; i++)
				x[i] = rvl_neon_load16(c->a[t * MR + i] + k, x_u8);
			step16(sum, x, w);
		}
		for (; k < c->kc; k += 4, w += 64) {
#pragma GCC unroll 4
			for (int i = 0; i < MR; i++)
				x[i] = load4(c->a[t * MR + i] + k, x_u8);
			step4(sum, x, w);
		}
	}
	for (int i = 0; i < c->rows; i++) {
		uint8_t *y = c->y + i * c->y_stride;

		rvl_neon_store8(y, c->cols, rvl_neon_narrow(sum[i][0], sum[i][1], c->scale, c->post));
		rvl_neon_store8(y + 8, c->cols - 8, rvl_neon_narrow(sum[i][2], sum[i][3], c->scale + 8,
								    c->post));
	}
}

static void gemm(const struct rvl_i8_gemm_call *c)
{
	if (c->x_u8)
		tile(c, 1);
	else
		tile(c, 0);
}

const struct rvl_i8_kernels rvl_i8_dotprod = {
	.mr = MR, .nr = NR, .kr = 4, .offset = { 0, -128 }, .gemm = gemm,
	.dw = { { .nr = 16, .kr = 1, .run = rvl_neon_dw } }, .convert = &rvl_i8_convert_base, .requant = rvl_neon_requant16,
};
#endif
