/* SPDX-License-Identifier: MIT */
/*
 * Binary tiles of AVX-512: 6 pixels by 32 channels with VPOPCNTDQ, which counts the ones of 64-bit
 * lanes, and 4 by 16 with BW, by two look-ups of each byte's halves.
 */
#ifdef __x86_64__
#include <immintrin.h>

#include "binary/binary.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define TARGET_VPOPCNT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq")))

enum { MR = 6, NR = 32, VECTORS = 4, BW_MR = 4, BW_NR = 16, MOST = 31 };

/*
 * The low halves of the 64-bit lanes of @a and @b, to be stored as one vector: a load of post() that
 * took two stores would wait until both have reached the cache.
 */
static inline __attribute__((always_inline)) TARGET __m512i low_halves(__m512i a, __m512i b)
{
	const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);

	return _mm512_permutex2var_epi32(a, even, b);
}

/* Loops over pixels and vectors are unrolled, so that each sum has a register. */
TARGET_VPOPCNT static void count(const struct rvl_b_call *c)
{
	const uint64_t *w = c->w, *x[MR];
	__m512i sum[MR][VECTORS];

#pragma GCC unroll 6
	for (int i = 0; i < MR; i++) {
		x[i] = c->x[i];
#pragma GCC unroll 6
		for (int j = 0; j < VECTORS; j++)
			sum[i][j] = _mm512_setzero_si512();
	}
	for (int64_t r = 0; r < c->runs; r++)
		for (int64_t k = c->off[r]; k < c->off[r] + c->run; k++, w += NR) {
			__m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 8);
			__m512i w2 = _mm512_loadu_si512(w + 16), w3 = _mm512_loadu_si512(w + 24);

#pragma GCC unroll 6
			for (int i = 0; i < MR; i++) {
				__m512i v = _mm512_set1_epi64((long long)x[i][k]);

#define ADD(j) sum[i][j] = _mm512_add_epi64(sum[i][j], _mm512_popcnt_epi64(_mm512_xor_si512(v, w##j)))
				ADD(0);
				ADD(1);
				ADD(2);
				ADD(3);
#undef ADD
			}
		}
#pragma GCC unroll 6
	for (int i = 0; i < MR; i++)
#pragma GCC unroll 6
		for (int j = 0; j < VECTORS; j += 2)
			_mm512_storeu_si512(c->pop + i * NR + j * 8, low_halves(sum[i][j], sum[i][j + 1]));
}

static inline __attribute__((always_inline)) TARGET __m512i ones(__m512i v, __m512i table, __m512i low)
{
	__m512i a = _mm512_shuffle_epi8(table, _mm512_and_si512(v, low));
	__m512i b = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi64(v, 4), low));

	return _mm512_add_epi8(a, b);
}

/* Adds at most MOST words, which lie together, to @sum. */
TARGET static const uint64_t *add_words(__m512i sum[BW_MR][2], const uint64_t *const *x, int64_t at,
					int64_t n, const uint64_t *w)
{
	const __m512i table = _mm512_broadcast_i32x4(
		_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
	const __m512i low = _mm512_set1_epi8(15), zero = _mm512_setzero_si512();
	__m512i b[BW_MR][2];

#pragma GCC unroll 6
	for (int i = 0; i < BW_MR; i++)
		b[i][0] = b[i][1] = zero;
	for (int64_t k = at; k < at + n; k++, w += BW_NR) {
		__m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 8);

#pragma GCC unroll 6
		for (int i = 0; i < BW_MR; i++) {
			__m512i v = _mm512_set1_epi64((long long)x[i][k]);

			b[i][0] = _mm512_add_epi8(b[i][0], ones(_mm512_xor_si512(v, w0), table, low));
			b[i][1] = _mm512_add_epi8(b[i][1], ones(_mm512_xor_si512(v, w1), table, low));
		}
	}
#pragma GCC unroll 6
	for (int i = 0; i < BW_MR; i++)
#pragma GCC unroll 6
		for (int j = 0; j < 2; j++)
			sum[i][j] = _mm512_add_epi64(sum[i][j], _mm512_sad_epu8(b[i][j], zero));
	return w;
}

TARGET static void count_bw(const struct rvl_b_call *c)
{
	const uint64_t *w = c->w;
	__m512i sum[BW_MR][2];

	for (int i = 0; i < BW_MR; i++)
		sum[i][0] = sum[i][1] = _mm512_setzero_si512();
	for (int64_t r = 0; r < c->runs; r++)
		for (int64_t i = 0; i < c->run; i += MOST)
			w = add_words(sum, c->x, c->off[r] + i, c->run - i < MOST ? c->run - i : MOST, w);
	for (int i = 0; i < BW_MR; i++)
		_mm512_storeu_si512(c->pop + i * BW_NR, low_halves(sum[i][0], sum[i][1]));
}

#define POST post
#define LANES 16
#define FMA(a, b, c) ((post_f)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define ROUND(v) ((post_i)_mm512_cvtps_epi32((__m512)(v)))
#define MAX(v, l) ((post_f)_mm512_max_ps((__m512)(v), (__m512)(l)))
#define MIN(v, h) ((post_f)_mm512_min_ps((__m512)(v), (__m512)(h)))
#define BELOW_0(u, a) ((post_f)_mm512_mask_mov_ps((__m512)(u), \
	_mm512_cmp_ps_mask((__m512)(u), _mm512_setzero_ps(), _CMP_LT_OQ), (__m512)(a)))
#define REACH_F(u, t) ((uint32_t)_mm512_cmp_ps_mask((__m512)(u), (__m512)(t), _CMP_GE_OQ))
#define REACH_I(q, t) ((uint32_t)_mm512_cmpge_epi32_mask((__m512i)(q), (__m512i)(t)))
#define LOAD_S8(p) ((post_i)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#define LOAD_U8(p) ((post_i)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#define LOAD_S16(p) ((post_i)_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)(p))))
#include "binary/post.h"

#define REACH reach
#include "binary/reach.h"

const struct rvl_b_kernels rvl_b_avx512 = { "avx512bw", BW_MR, BW_NR, count_bw, post, reach };
const struct rvl_b_kernels rvl_b_vpopcnt = { "vpopcntdq", MR, NR, count, post, reach };
#endif
