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
	for (int i = 0; i < 4 * c->rows && c->sums; i++)
		vst1q_s32(c->sums + 4 * i, sum[i / 4][i % 4]);
	for (int i = 0; i < c->rows && !c->sums; i++)
		rvl_neon_store16(c->y + i * c->y_stride, c->cols,
				 rvl_neon_narrow16(sum[i], c->scale, c->post));
}

static void gemm(const struct rvl_i8_gemm_call *c)
{
	if (c->x_u8)
		tile(c, 1);
	else
		tile(c, 0);
}

/* ---- depthwise ---- */

/* Adds the products of four taps. Byte t of dword c of v[j] is tap t of channel 4 j + c. */
INLINE void add_taps(int32x4_t sum[4], const uint8_t *const *p, int64_t at, int64_t n, const int8x16_t w[4],
		     const int x_u8)
{
	int8x16_t x0 = rvl_neon_load_part(p[0] + at, n, x_u8), x1 = rvl_neon_load_part(p[1] + at, n, x_u8);
	int8x16_t x2 = rvl_neon_load_part(p[2] + at, n, x_u8), x3 = rvl_neon_load_part(p[3] + at, n, x_u8);
	int16x8_t a = vreinterpretq_s16_s8(vzip1q_s8(x0, x1)), b = vreinterpretq_s16_s8(vzip2q_s8(x0, x1));
	int16x8_t c = vreinterpretq_s16_s8(vzip1q_s8(x2, x3)), d = vreinterpretq_s16_s8(vzip2q_s8(x2, x3));

	sum[0] = vdotq_s32(sum[0], vreinterpretq_s8_s16(vzip1q_s16(a, c)), w[0]);
	sum[1] = vdotq_s32(sum[1], vreinterpretq_s8_s16(vzip2q_s16(a, c)), w[1]);
	sum[2] = vdotq_s32(sum[2], vreinterpretq_s8_s16(vzip1q_s16(b, d)), w[2]);
	sum[3] = vdotq_s32(sum[3], vreinterpretq_s8_s16(vzip2q_s16(b, d)), w[3]);
}

#define KEPT 3	/* groups of four taps whose weights stay in registers from pixel to pixel */

/* Channels [@at, @at + @n) of all pixels; @groups of four taps if there are KEPT, else 0. */
INLINE void dw_tile(const struct rvl_i8_dw_call *c, int64_t at, int64_t n, const int groups, const int x_u8)
{
	const int8_t *w = (const int8_t *)c->w + at * c->taps;
	int8x16_t kept[KEPT][4], now[4];

	for (int g = 0; g < groups; g++)
		for (int j = 0; j < 4; j++)
			kept[g][j] = vld1q_s8(w + 64 * g + 16 * j);
	for (int64_t x = 0; x < c->pixels; x++) {
		int32x4_t sum[4];

#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			sum[j] = vld1q_s32(c->bias + at + 4 * j);
#pragma GCC unroll 3
		for (int g = 0; g < groups; g++)
			add_taps(sum, c->p + 4 * g, x * c->x_step + at, n, kept[g], x_u8);
		for (int64_t t = 4 * groups; t < c->taps; t += 4) {
#pragma GCC unroll 4
			for (int j = 0; j < 4; j++)
				now[j] = vld1q_s8(w + 16 * t + 16 * j);
			add_taps(sum, c->p + t, x * c->x_step + at, n, now, x_u8);
		}
		rvl_neon_store16(c->y + x * c->y_stride + at, n,
				 rvl_neon_narrow16(sum, c->scale + at, c->post));
	}
}

INLINE void dw_tiles(const struct rvl_i8_dw_call *c, const int groups, const int x_u8)
{
	int64_t at = 0;

	for (; at + 16 <= c->channels; at += 16)
		dw_tile(c, at, 16, groups, x_u8);
	if (at < c->channels)
		dw_tile(c, at, c->channels - at, groups, x_u8);
}

static void dw(const struct rvl_i8_dw_call *c)
{
	if (c->taps == 4 * KEPT && c->x_u8)
		dw_tiles(c, KEPT, 1);
	else if (c->taps == 4 * KEPT)
		dw_tiles(c, KEPT, 0);
	else if (c->x_u8)
		dw_tiles(c, 0, 1);
	else
		dw_tiles(c, 0, 0);
}

const struct rvl_i8_dw rvl_i8_dw_dotprod = { .nr = 16, .kr = 4, .run = dw };

const struct rvl_i8_kernels rvl_i8_dotprod = {
	.mr = MR, .nr = NR, .kr = 4, .offset = { 0, -128 }, .gemm = gemm,
	.tables = &rvl_i8_tables_neon, .table_bits = RVL_I8_TABLE_BITS_DOTPROD,
	.dw = &rvl_i8_dw_dotprod, .convert = &rvl_i8_convert_base,
	.requant = rvl_neon_requant16,
};
#endif
