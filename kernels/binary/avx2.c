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
		}
}

INLINE2 void clear(__m256i sum[MR][VECTORS])
{
#pragma GCC unroll 4
	for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
		for (int j = 0; j < VECTORS; j++)
			sum[i][j] = _mm256_setzero_si256();
}

/*
 * Adds @n words of each pixel from @k on. Loops over pixels and vectors are unrolled, so that each sum of
 * bytes has a register; one vector of weights at a time leaves enough of them.
 */
INLINE2 void add_words(__m256i b[MR][VECTORS], const uint64_t *const x[MR], int64_t k, int64_t n,
		       const uint64_t *w)
{
	const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
					       0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
	const __m256i low = _mm256_set1_epi8(15);

	for (int64_t past = k + n; k < past; k++, w += NR)
#pragma GCC unroll 4
		for (int j = 0; j < VECTORS; j++) {
			__m256i v = _mm256_loadu_si256((const __m256i *)(w + j * 4));

#pragma GCC unroll 4
			for (int i = 0; i < MR; i++) {
				__m256i d = _mm256_xor_si256(v, _mm256_set1_epi64x((long long)x[i][k]));

				b[i][j] = _mm256_add_epi8(b[i][j], ones(d, table, low));
			}
		}
}

/* Bytes of up to MOST words, of as many runs, are added before they are widened. */
TARGET static void count(const struct rvl_b_call *c)
{
	const uint64_t *const x[MR] = { c->x[0], c->x[1], c->x[2], c->x[3] }, *w = c->w;
	__m256i wide[MR][VECTORS], b[MR][VECTORS];
	int64_t r = 0, i = 0;

	clear(wide);
	while (r < c->runs) {
		int64_t room = MOST;

		clear(b);
		while (room && r < c->runs) {
			int64_t n = c->run - i < room ? c->run - i : room;

			add_words(b, x, c->off[r] + i, n, w);
			w += n * NR;
			room -= n;
			i = i + n < c->run ? i + n : 0;
			r += !i;
		}
		widen(wide, b);
	}
	store(c->pop, wide);
}

/* The low bytes, or the low halves, of lanes. */
INLINE2 void store_8(void *p, __m256i q)
{
	const __m256i bytes = _mm256_set1_epi32(0x0c080400);
	__m256i v = _mm256_shuffle_epi8(q, bytes);

	_mm_storel_epi64(p, _mm_unpacklo_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}

INLINE2 void store_16(void *p, __m256i q)
{
	_mm_storeu_si128(p, _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1)));
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
#define STORE_8(p, q) store_8((p), (__m256i)(q))
#define STORE_16(p, q) store_16((p), (__m256i)(q))
#include "binary/post.h"

#define REACH reach
#include "binary/reach.h"

const struct rvl_b_kernels rvl_b_avx2 = { "avx2", MR, NR, count, post, reach };
#endif
