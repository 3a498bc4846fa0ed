/* SPDX-License-Identifier: MIT */
/*
 * Micro-kernels for arm64 with SMMLA, which multiplies two rows by two columns of eight channels
 * each.
 */
#ifdef __aarch64__
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")
#include "int8/neon.h"

#define MR 8
#define NR 8

/* Eight channels of two rows as int8. */
INLINE int8x16_t two_rows(const uint8_t *p, const uint8_t *q, const int x_u8)
{
	uint8x16_t v = vcombine_u8(vld1_u8(p), vld1_u8(q));

	return vreinterpretq_s8_u8(x_u8 ? veorq_u8(v, vdupq_n_u8(0x80)) : v);
}

INLINE void store_row(const struct rvl_i8_gemm_call *c, int row, int64x2_t low, int64x2_t high)
{
	int32x4_t a = vreinterpretq_s32_s64(low), b = vreinterpretq_s32_s64(high);

	if (row >= c->rows)
		return;
	if (c->sums) {
		vst1q_s32(c->sums + row * NR, a);
		vst1q_s32(c->sums + row * NR + 4, b);
		return;
	}
	rvl_neon_store8(c->y + row * c->y_stride, c->cols, rvl_neon_narrow(a, b, c->scale, c->post));
}

/* sum[i][j]: rows 2 i and 2 i + 1 by columns 2 j and 2 j + 1. */
INLINE void store_rows(const struct rvl_i8_gemm_call *c, int row, const int32x4_t sum[4])
{
	int64x2_t s[4];

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		s[j] = vreinterpretq_s64_s32(sum[j]);
	store_row(c, row, vzip1q_s64(s[0], s[1]), vzip1q_s64(s[2], s[3]));
	store_row(c, row + 1, vzip2q_s64(s[0], s[1]), vzip2q_s64(s[2], s[3]));
}

INLINE void tile(const struct rvl_i8_gemm_call *c, const int x_u8)
{
	const uint8_t *const *a = c->a;
	const int8_t *w = c->w;
	int32x4_t sum[4][4];

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		int32x2_t bias = vld1_s32(c->bias + 2 * j);

#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			sum[i][j] = vcombine_s32(bias, bias);
	}
	for (int64_t t = 0; t < c->taps; t++, a += MR) {
		for (int64_t k = 0; k < c->kc; k += 8, w += 64) {
#pragma GCC unroll 4
			for (int i = 0; i < 4; i++) {
				int8x16_t x = two_rows(a[2 * i] + k, a[2 * i + 1] + k, x_u8);

#pragma GCC unroll 4
				for (int j = 0; j < 4; j++)
					sum[i][j] = vmmlaq_s32(sum[i][j], x, vld1q_s8(w + 16 * j));
			}
		}
	}
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		store_rows(c, 2 * i, sum[i]);
}

static void gemm(const struct rvl_i8_gemm_call *c)
{
	if (c->x_u8)
		tile(c, 1);
	else
		tile(c, 0);
}

const struct rvl_i8_kernels rvl_i8_i8mm = {
	.mr = MR, .nr = NR, .kr = 8, .offset = { 0, -128 }, .gemm = gemm,
	.tables = &rvl_i8_tables_neon,
	.dw = &rvl_i8_dw_dotprod, .convert = &rvl_i8_convert_base,
	.requant = rvl_neon_requant16,
};
#endif
