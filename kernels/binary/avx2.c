/* SPDX-License-Identifier: MIT */
/*
 * Binary tiles of AVX2: 4 pixels by 8 channels, the ones of a byte by two look-ups of its halves. Counts
 * of bytes reach at most 8 for each word, so that 31 words fit a byte.
 */
#ifdef __x86_64__
#include <immintrin.h>

#include "binary/binary.h"

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE2 static inline __attribute__((always_inline)) TARGET

enum { MR = 4, NR = 8, VECTORS = 2, MOST = 31 };

INLINE2 __m256i ones(__m256i v, __m256i table, __m256i low)
{
	__m256i a = _mm256_shuffle_epi8(table, _mm256_and_si256(v, low));
	__m256i b = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi64(v, 4), low));

	return _mm256_add_epi8(a, b);
}

/* The low halves of the 64-bit lanes of a pixel's vectors, stored as the one vector that post() loads. */
INLINE2 void store(int32_t *pop, __m256i wide[MR][VECTORS])
{
#pragma GCC unroll 4
	for (int i = 0; i < MR; i++) {
		__m256 both = _mm256_shuffle_ps((__m256)wide[i][0], (__m256)wide[i][1], 0x88);

		_mm256_storeu_si256((__m256i *)(pop + i * NR), _mm256_permute4x64_epi64((__m256i)both, 0xd8));
	}
}

INLINE2 void widen(__m256i wide[MR][VECTORS], __m256i bytes[MR][VECTORS])
{
#pragma GCC unroll 4
	for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
		for (int j = 0; j < VECTORS; j++) {
			__m256i sad = _mm256_sad_epu8(bytes[i][j], _mm256_setzero_si256());

			wide[i][j] = _mm256_add_epi64(wide[i][j], sad);
			bytes[i][j] = _mm256_setzero_si256();
		}
}

/* Loops over pixels and vectors are unrolled, so that each sum of bytes has a register. */
TARGET static void count(const struct rvl_b_call *c)
{
	const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
					       0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
	const __m256i low = _mm256_set1_epi8(15);
	__m256i wide[MR][VECTORS], b[MR][VECTORS];
	const uint64_t *w = c->w, *x[MR];
	int64_t room = MOST;

#pragma GCC unroll 4
	for (int i = 0; i < MR; i++) {
		x[i] = c->x[i];
#pragma GCC unroll 4
		for (int j = 0; j < VECTORS; j++)
			wide[i][j] = b[i][j] = _mm256_setzero_si256();
	}
	for (int64_t r = 0; r < c->runs; r++)
		for (int64_t k = c->off[r]; k < c->off[r] + c->run; k++, w += NR) {
			__m256i w0 = _mm256_loadu_si256((const __m256i *)w);
			__m256i w1 = _mm256_loadu_si256((const __m256i *)(w + 4));

#pragma GCC unroll 4
			for (int i = 0; i < MR; i++) {
				__m256i v = _mm256_set1_epi64x((long long)x[i][k]);

				b[i][0] = _mm256_add_epi8(b[i][0], ones(_mm256_xor_si256(v, w0), table, low));
				b[i][1] = _mm256_add_epi8(b[i][1], ones(_mm256_xor_si256(v, w1), table, low));
			}
			if (--room)
				continue;
			widen(wide, b);
			room = MOST;
		}
	widen(wide, b);
	store(c->pop, wide);
}

#define POST post
#define LANES 8
#define FMA(a, b, c) ((post_f)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define ROUND(v) ((post_i)_mm256_cvtps_epi32((__m256)(v)))
#define MAX(v, l) ((post_f)_mm256_max_ps((__m256)(v), (__m256)(l)))
#define MIN(v, h) ((post_f)_mm256_min_ps((__m256)(v), (__m256)(h)))
#define BELOW_0(u, a) ((post_f)_mm256_blendv_ps((__m256)(u), (__m256)(a), \
	_mm256_cmp_ps((__m256)(u), _mm256_setzero_ps(), _CMP_LT_OQ)))
#define REACH_F(u, t) \
	((uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)(u), (__m256)(t), _CMP_GE_OQ)))
#define REACH_I(q, t) \
	(~(uint32_t)_mm256_movemask_ps((__m256)_mm256_cmpgt_epi32((__m256i)(t), (__m256i)(q))) & 255)
#define LOAD_S8(p) ((post_i)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#define LOAD_U8(p) ((post_i)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#define LOAD_S16(p) ((post_i)_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(p))))
#include "binary/post.h"

const struct rvl_b_kernels rvl_b_avx2 = { "avx2", MR, NR, count, post };
#endif
