/* SPDX-License-Identifier: MIT */
/*
 * Binary tiles of NEON: 4 pixels by 8 channels. CNT counts the ones of bytes; 31 words fit a byte.
 */
#ifdef __aarch64__
#include <arm_neon.h>

#include "binary/binary.h"

enum { MR = 4, NR = 8, VECTORS = 4, MOST = 31 };

/* Adds at most MOST words, which lie together, to @sum. */
static const uint64_t *add_words(uint64x2_t sum[MR][VECTORS], const uint64_t *const *x, int64_t at,
				 int64_t n, const uint64_t *w)
{
	uint8x16_t b[MR][VECTORS];

	for (int i = 0; i < MR; i++)
		for (int j = 0; j < VECTORS; j++)
			b[i][j] = vdupq_n_u8(0);
	for (int64_t k = at; k < at + n; k++, w += NR)
#pragma GCC unroll 4
		for (int j = 0; j < VECTORS; j++) {
			uint64x2_t v = vld1q_u64(w + 2 * j);

#pragma GCC unroll 4
			for (int i = 0; i < MR; i++) {
				uint64x2_t d = veorq_u64(v, vdupq_n_u64(x[i][k]));

				b[i][j] = vaddq_u8(b[i][j], vcntq_u8(vreinterpretq_u8_u64(d)));
			}
		}
	for (int i = 0; i < MR; i++)
		for (int j = 0; j < VECTORS; j++)
			sum[i][j] = vaddq_u64(sum[i][j], vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(b[i][j]))));
	return w;
}

static void count(const struct rvl_b_call *c)
{
	const uint64_t *w = c->w;
	uint64x2_t sum[MR][VECTORS];

	for (int i = 0; i < MR; i++)
		for (int j = 0; j < VECTORS; j++)
			sum[i][j] = vdupq_n_u64(0);
	for (int64_t r = 0; r < c->runs; r++)
		for (int64_t i = 0; i < c->run; i += MOST)
			w = add_words(sum, c->x, c->off[r] + i, c->run - i < MOST ? c->run - i : MOST, w);
	for (int i = 0; i < MR; i++)
		for (int j = 0; j < VECTORS; j++)
			vst1_s32(c->pop + i * NR + j * 2, vreinterpret_s32_u32(vmovn_u64(sum[i][j])));
}

static inline uint32_t signs(uint32x4_t v)
{
	static const uint32_t weight[4] = { 1, 2, 4, 8 };

	return vaddvq_u32(vandq_u32(v, vld1q_u32(weight)));
}

#define TARGET
#define POST post
#define LANES 4
#define FMA(a, b, c) ((post_f)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define RINT(v) ((post_f)vrndnq_f32((float32x4_t)(v)))
/* VMAX and VMIN would keep a NaN. */
#define CHOOSE(mask, a, b) ((post_f)vbslq_f32((mask), (float32x4_t)(a), (float32x4_t)(b)))
#define MAX(v, l) CHOOSE(vcgtq_f32((float32x4_t)(v), (float32x4_t)(l)), v, l)
#define MIN(v, h) CHOOSE(vcltq_f32((float32x4_t)(v), (float32x4_t)(h)), v, h)
#define BELOW_0(u, a) CHOOSE(vcltzq_f32((float32x4_t)(u)), a, u)
#define REACH_F(u, t) signs(vcgeq_f32((float32x4_t)(u), (float32x4_t)(t)))
#define REACH_I(q, t) signs(vcgeq_s32((int32x4_t)(q), (int32x4_t)(t)))
#include "binary/post.h"

#define REACH reach
#include "binary/reach.h"

const struct rvl_b_kernels rvl_b_neon = { "neon", MR, NR, count, post, reach };
#endif
