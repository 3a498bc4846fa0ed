/* SPDX-License-Identifier: MIT */
/* Micro-kernels for every arm64 processor, on products of 16 bits; depthwise for all of them. */
#ifdef __aarch64__
#include "int8/neon.h"

#define MR 4
#define NR 8

void rvl_neon_requant16(const int32_t *sum, const float *scale, const struct rvl_i8_post *post,
			uint8_t *dst)
{
	for (int i = 0; i < 16; i += 8)
		vst1_u8(dst + i, rvl_neon_narrow(vld1q_s32(sum + i), vld1q_s32(sum + i + 4), scale + i,
						 post));
}

/* ---- matrix product ---- */

/* Eight bytes of a row as int16, less 128 where they are uint8; zeros where they do not exist. */
INLINE int16x8_t widen8(const uint8_t *p, int64_t n, const int x_u8)
{
	uint8_t part[8] = { 0 };
	uint8x8_t v;

	if (n < 8) {
		memcpy(part, p, (size_t)n);
		p = part;
	}
	v = vld1_u8(p);
	if (x_u8)
		return vreinterpretq_s16_u16(vsubl_u8(v, vdup_n_u8(128)));
	return vmovl_s8(vreinterpret_s8_u8(v));
}

#define LANE(k) { \
	int16x8_t v = vmovl_s8(vld1_s8(w + (k) * NR)); \
	_Pragma("GCC unroll 4") \
	for (int i = 0; i < MR; i++) { \
		sum[i][0] = vmlal_laneq_s16(sum[i][0], vget_low_s16(v), x[i], k); \
		sum[i][1] = vmlal_high_laneq_s16(sum[i][1], v, x[i], k); \
	} \
}

/* Eight channels of every row. Channels that do not exist are zeros times any weights. */
INLINE void step(int32x4_t sum[MR][2], const int16x8_t x[MR], const int8_t *w)
{
	LANE(0)
	LANE(1)
	LANE(2)
	LANE(3)
	LANE(4)
	LANE(5)
	LANE(6)
	LANE(7)
}

/* The last channels of a row, fewer than eight. No weight behind those of the row is read. */
INLINE void last_steps(int32x4_t sum[MR][2], const int16x8_t x[MR], const int8_t *w, int64_t n)
{
	int8_t part[8 * NR] = { 0 };

	memcpy(part, w, (size_t)(n * NR));
	step(sum, x, part);
}

INLINE void gemm_tile(const struct rvl_i8_gemm_call *c, const int x_u8)
{
	int32x4_t sum[MR][2];
	const int8_t *w = c->w;

#pragma GCC unroll 4
	for (int i = 0; i < MR; i++) {
		sum[i][0] = vld1q_s32(c->bias);
		sum[i][1] = vld1q_s32(c->bias + 4);
	}
	for (int64_t t = 0; t < c->taps; t++) {
		for (int64_t k = 0; k < c->kc; k += 8) {
			int64_t n = c->kc - k < 8 ? c->kc - k : 8;
			int16x8_t x[MR];

#pragma GCC unroll 4
			for (int i = 0; i < MR; i++)
				x[i] = widen8(c->a[t * MR + i] + k, n, x_u8);
			if (n == 8)
				step(sum, x, w);
			else
				last_steps(sum, x, w, n);
			w += n * NR;
		}
	}
	for (int i = 0; i < c->rows && c->sums; i++) {
		vst1q_s32(c->sums + i * NR, sum[i][0]);
		vst1q_s32(c->sums + i * NR + 4, sum[i][1]);
	}
	for (int i = 0; i < c->rows && !c->sums; i++)
		rvl_neon_store8(c->y + i * c->y_stride, c->cols,
				rvl_neon_narrow(sum[i][0], sum[i][1], c->scale, c->post));
}

static void gemm(const struct rvl_i8_gemm_call *c)
{
	if (c->x_u8)
		gemm_tile(c, 1);
	else
		gemm_tile(c, 0);
}

/* ---- depthwise ---- */

INLINE void pixel(const struct rvl_i8_dw_call *c, int64_t at, int64_t pixel, int64_t n,
		  const int x_u8)
{
	const int8_t *w = (const int8_t *)c->w + at * c->taps;
	int32x4_t sum[4];

#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		sum[i] = vld1q_s32(c->bias + at + 4 * i);
	for (int64_t t = 0; t < c->taps; t++, w += 16) {
		int8x16_t x = rvl_neon_load_part(c->p[t] + pixel * c->x_step + at, n, x_u8), v = vld1q_s8(w);
		int16x8_t lo = vmull_s8(vget_low_s8(x), vget_low_s8(v)), hi = vmull_high_s8(x, v);

		sum[0] = vaddw_s16(sum[0], vget_low_s16(lo));
		sum[1] = vaddw_high_s16(sum[1], lo);
		sum[2] = vaddw_s16(sum[2], vget_low_s16(hi));
		sum[3] = vaddw_high_s16(sum[3], hi);
	}
	rvl_neon_store16(c->y + pixel * c->y_stride + at, n, rvl_neon_narrow16(sum, c->scale + at, c->post));
}

INLINE void dw_tiles(const struct rvl_i8_dw_call *c, const int x_u8)
{
	int64_t at = 0;

	for (; at + 16 <= c->channels; at += 16)
		for (int64_t x = 0; x < c->pixels; x++)
			pixel(c, at, x, 16, x_u8);
	for (int64_t x = 0; x < c->pixels && at < c->channels; x++)
		pixel(c, at, x, c->channels - at, x_u8);
}

static void dw(const struct rvl_i8_dw_call *c)
{
	if (c->x_u8)
		dw_tiles(c, 1);
	else
		dw_tiles(c, 0);
}

const struct rvl_i8_kernels rvl_i8_neon = {
	.mr = MR, .nr = NR, .kr = 1, .offset = { 0, -128 }, .gemm = gemm,
	.tables = &rvl_i8_tables_neon, .table_bits = RVL_I8_TABLE_BITS_NEON,
	.dw = &(const struct rvl_i8_dw) { .nr = 16, .kr = 1, .run = dw }, .convert = &rvl_i8_convert_base,
	.requant = rvl_neon_requant16,
};
#endif
