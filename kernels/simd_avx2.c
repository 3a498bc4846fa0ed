/* SPDX-License-Identifier: MIT */
/* Micro-kernels for AVX2. Products of 16-bit values in pairs: exact for any zero point. */
#include "internal.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,fma")))

AVX2 static inline __m256i broadcast_pair(const int16_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return _mm256_set1_epi32(v);
}

AVX2 static inline void mac(__m256i acc[2], const int16_t *x, __m256i w0, __m256i w1)
{
	__m256i a = broadcast_pair(x);

	acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(a, w0));
	acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(a, w1));
}

AVX2 void rvl_ukernel_avx2(const int16_t *const a[RVL_MR], const struct rvl_gemm *g,
			   const int16_t *w, const int32_t *bias, int32_t c[RVL_MR * RVL_NR])
{
	__m256i b0 = _mm256_load_si256((const __m256i *)bias);
	__m256i b1 = _mm256_load_si256((const __m256i *)(bias + 8));
	__m256i acc0[2] = { b0, b1 }, acc1[2] = { b0, b1 };
	__m256i acc2[2] = { b0, b1 }, acc3[2] = { b0, b1 };
	int64_t pairs = (g->kc + 1) / 2;

	for (int64_t t = 0; t < g->taps; t++) {
		int64_t off = g->tap_off[t];
		const int16_t *x0 = a[0] + off, *x1 = a[1] + off;
		const int16_t *x2 = a[2] + off, *x3 = a[3] + off;

		for (int64_t p = 0; p < 2 * pairs; p += 2, w += 2 * RVL_NR) {
			__m256i w0 = _mm256_load_si256((const __m256i *)w);
			__m256i w1 = _mm256_load_si256((const __m256i *)(w + 16));

			mac(acc0, x0 + p, w0, w1);
			mac(acc1, x1 + p, w0, w1);
			mac(acc2, x2 + p, w0, w1);
			mac(acc3, x3 + p, w0, w1);
		}
	}
	for (int j = 0; j < 2; j++) {
		_mm256_store_si256((__m256i *)(c + 8 * j), acc0[j]);
		_mm256_store_si256((__m256i *)(c + 16 + 8 * j), acc1[j]);
		_mm256_store_si256((__m256i *)(c + 32 + 8 * j), acc2[j]);
		_mm256_store_si256((__m256i *)(c + 48 + 8 * j), acc3[j]);
	}
}

AVX2 static inline __m256i requant8(const int32_t *c, const float *scale, const struct rvl_gemm *g)
{
	__m256 v = _mm256_cvtepi32_ps(_mm256_load_si256((const __m256i *)c));

	v = _mm256_mul_ps(v, _mm256_load_ps(scale));
	v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(g->f_lo)), _mm256_set1_ps(g->f_hi));
	return _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(g->yz));
}

/* The results fit a byte of either sign, so the low bytes are gathered without saturation. */
AVX2 void rvl_requant_avx2(const int32_t *c, const float *scale, const struct rvl_gemm *g,
			   uint8_t *dst)
{
	__m256i pick = _mm256_set1_epi32(0x0c080400);
	__m256i lane = _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4);
	__m256i q0 = _mm256_shuffle_epi8(requant8(c, scale, g), pick);
	__m256i q1 = _mm256_shuffle_epi8(requant8(c + 8, scale + 8, g), pick);

	q0 = _mm256_permutevar8x32_epi32(q0, lane);
	q1 = _mm256_permutevar8x32_epi32(q1, lane);
	_mm_storel_epi64((__m128i *)dst, _mm256_castsi256_si128(q0));
	_mm_storel_epi64((__m128i *)(dst + 8), _mm256_castsi256_si128(q1));
}

/*
 * Interleaving two taps puts channels 0-3, 8-11 into one register and 4-7, 12-15 into the other;
 * the accumulators keep that order until the end.
 */
AVX2 void rvl_dw_tile_avx2(const int16_t *const *x, int64_t taps, const int16_t *w,
			   const int32_t *bias, int32_t acc[16])
{
	__m256i b0 = _mm256_load_si256((const __m256i *)bias);
	__m256i b1 = _mm256_load_si256((const __m256i *)(bias + 8));
	__m256i lo = _mm256_permute2x128_si256(b0, b1, 0x20);
	__m256i hi = _mm256_permute2x128_si256(b0, b1, 0x31);

	for (int64_t t = 0; t < taps; t += 2, w += 32) {
		__m256i x0 = _mm256_loadu_si256((const __m256i *)x[t]);
		__m256i x1 = _mm256_loadu_si256((const __m256i *)x[t + 1]);
		__m256i w0 = _mm256_load_si256((const __m256i *)w);
		__m256i w1 = _mm256_load_si256((const __m256i *)(w + 16));

		lo = _mm256_add_epi32(lo, _mm256_madd_epi16(_mm256_unpacklo_epi16(x0, x1),
							    _mm256_unpacklo_epi16(w0, w1)));
		hi = _mm256_add_epi32(hi, _mm256_madd_epi16(_mm256_unpackhi_epi16(x0, x1),
							    _mm256_unpackhi_epi16(w0, w1)));
	}
	_mm256_store_si256((__m256i *)acc, _mm256_permute2x128_si256(lo, hi, 0x20));
	_mm256_store_si256((__m256i *)(acc + 8), _mm256_permute2x128_si256(lo, hi, 0x31));
}
#endif
