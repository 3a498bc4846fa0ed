/* SPDX-License-Identifier: MIT */
/* What the micro-kernels of arm64 share. They see uint8 activations as int8, less 128. */
#ifndef RVL_INT8_NEON_H
#define RVL_INT8_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "int8/int8.h"

/* Where tables need fewer instructions (scripts/count-arm64-kernels). */
#define RVL_I8_TABLE_BITS_NEON \
	{ [RVL_I8_SEVERAL_ROWS] = 2, [RVL_I8_ONE_ROW] = 4, [RVL_I8_ONE_ROW_LARGE] = 4 }
#define RVL_I8_TABLE_BITS_DOTPROD { [RVL_I8_ONE_ROW] = 1, [RVL_I8_ONE_ROW_LARGE] = 1 }

#define INLINE static inline __attribute__((always_inline))

/* Four requantised sums without the zero point. Not a number becomes the lower bound. */
INLINE int32x4_t rvl_neon_rounded(int32x4_t sum, const float *scale, const struct rvl_i8_post *post)
{
	float32x4_t v = vmulq_f32(vcvtq_f32_s32(sum), vld1q_f32(scale));

	v = vmaxnmq_f32(v, vdupq_n_f32(post->lo));
	return vcvtnq_s32_f32(vminq_f32(v, vdupq_n_f32(post->hi)));
}

/* Eight results. */
INLINE uint8x8_t rvl_neon_narrow(int32x4_t a, int32x4_t b, const float *scale,
				 const struct rvl_i8_post *post)
{
	int16x8_t v = vcombine_s16(vmovn_s32(rvl_neon_rounded(a, scale, post)),
				   vmovn_s32(rvl_neon_rounded(b, scale + 4, post)));

	v = vaddq_s16(v, vdupq_n_s16((int16_t)post->zp));
	return vreinterpret_u8_s8(vmovn_s16(v));
}

INLINE void rvl_neon_store8(uint8_t *y, int n, uint8x8_t v)
{
	uint8_t out[8];

	if (n >= 8) {
		vst1_u8(y, v);
		return;
	}
	vst1_u8(out, v);
	memcpy(y, out, n < 0 ? 0 : (size_t)n);
}

/* Four sums, rounded without a clamp, as int16 that saturate. */
INLINE int16x4_t rvl_neon_rounded16(int32x4_t sum, const float *scale)
{
	return vqmovn_s32(vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(sum), vld1q_f32(scale))));
}

/* Sixteen results. Where no scaled sum reaches 2^31, the clamp of the result suffices. */
INLINE uint8x16_t rvl_neon_narrow16(const int32x4_t sum[4], const float *scale,
				    const struct rvl_i8_post *post)
{
	int16x8_t zp = vdupq_n_s16((int16_t)post->zp), lo, hi;

	if (!post->bounded)
		return vcombine_u8(rvl_neon_narrow(sum[0], sum[1], scale, post),
				   rvl_neon_narrow(sum[2], sum[3], scale + 8, post));
	lo = vcombine_s16(rvl_neon_rounded16(sum[0], scale), rvl_neon_rounded16(sum[1], scale + 4));
	hi = vcombine_s16(rvl_neon_rounded16(sum[2], scale + 8), rvl_neon_rounded16(sum[3], scale + 12));
	lo = vqaddq_s16(lo, zp);
	hi = vqaddq_s16(hi, zp);
	if (post->clamps) {
		int16x8_t least = vdupq_n_s16((int16_t)post->least), most = vdupq_n_s16((int16_t)post->most);

		lo = vminq_s16(vmaxq_s16(lo, least), most);
		hi = vminq_s16(vmaxq_s16(hi, least), most);
	}
	if (post->u8)
		return vcombine_u8(vqmovun_s16(lo), vqmovun_s16(hi));
	return vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(lo), vqmovn_s16(hi)));
}

/* The first @n of sixteen bytes. */
INLINE void rvl_neon_store16(uint8_t *y, int64_t n, uint8x16_t v)
{
	uint8_t out[16];

	if (n >= 16) {
		vst1q_u8(y, v);
		return;
	}
	vst1q_u8(out, v);
	memcpy(y, out, (size_t)n);
}

/* Sixteen bytes of a row as int8. */
INLINE int8x16_t rvl_neon_load16(const uint8_t *p, const int x_u8)
{
	uint8x16_t v = vld1q_u8(p);

	return vreinterpretq_s8_u8(x_u8 ? veorq_u8(v, vdupq_n_u8(0x80)) : v);
}

/* The same where only @n bytes may exist. */
INLINE int8x16_t rvl_neon_load_part(const uint8_t *p, int64_t n, const int x_u8)
{
	uint8_t part[16] = { 0 };

	if (n < 16) {
		memcpy(part, p, (size_t)n);
		p = part;
	}
	return rvl_neon_load16(p, x_u8);
}

extern const struct rvl_i8_dw rvl_i8_dw_dotprod;
void rvl_neon_requant16(const int32_t *sum, const float *scale, const struct rvl_i8_post *post,
			uint8_t *dst);

#endif
