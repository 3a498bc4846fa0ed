/* SPDX-License-Identifier: MIT */
/* Loops over bytes, which the compiler vectorises for each instruction set. */
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <string.h>

#include "float/float.h"
#include "sizes.h"

#define INLINE static inline __attribute__((always_inline))

#define LOOPS(name, type)                                                                          \
	INLINE void convert_##name(const struct rvl_f32_bytes_call *c, const type *x, int64_t n)   \
	{                                                                                          \
		for (int64_t r = 0; r < c->rows; r++) {                                            \
			const type *from = x + r * c->x_row;                                       \
			float *y = c->y + r * c->y_row;                                            \
			for (int64_t i = 0; i < n; i++)                                            \
				y[i] = (float)(from[i] - c->zero);                                 \
		}                                                                                  \
	}

LOOPS(u8, uint8_t)
LOOPS(s8, int8_t)

/* Columns [i, n) of row @r. */
#define SUMS(name, type)                                                                           \
	INLINE void sum_##name(const struct rvl_f32_sum_call *c, int64_t r, int64_t i)             \
	{                                                                                          \
		const int16_t *v = c->v + r * c->v_row;                                            \
		const type *restrict w = c->w;                                                     \
		uint32_t *restrict y = c->y + r * c->y_row;                                        \
		for (int64_t j = 0; j < c->k; j++, w += c->w_row)                                  \
			for (int64_t l = i; l < c->n; l++)                                         \
				y[l] += (uint32_t)(v[j] * w[l]);                                   \
	}

SUMS(u8, uint8_t)
SUMS(s8, int8_t)

static void sum_rest(const struct rvl_f32_sum_call *c, int64_t i)
{
	for (int64_t r = 0; i < c->n && r < c->rows; r++) {
		if (c->u8)
			sum_u8(c, r, i);
		else
			sum_s8(c, r, i);
	}
}

static void sum_base(const struct rvl_f32_sum_call *c)
{
	sum_rest(c, 0);
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))
#define COLS 16		/* that are summed side by side, */
#define ROWS 4		/* and rows */
#define NEAR 64		/* bytes: weights of so many columns at most lie in adjacent lines */
#define BLOCK 8		/* rows of weights, which lie apart, that stay in the first-level cache */

/* Adds products of two rows of weights and as many values of each row of v, which are a pair of int16. */
INLINE AVX2 void add_pair(__m128i first, __m128i second, const int32_t *pair, int rows, bool u8,
			  __m256i sum[ROWS][2])
{
	__m128i low = _mm_unpacklo_epi8(first, second), high = _mm_unpackhi_epi8(first, second);
	__m256i w0 = u8 ? _mm256_cvtepu8_epi16(low) : _mm256_cvtepi8_epi16(low);
	__m256i w1 = u8 ? _mm256_cvtepu8_epi16(high) : _mm256_cvtepi8_epi16(high);

#pragma GCC unroll 4
	for (int r = 0; r < rows; r++) {
		__m256i v = _mm256_set1_epi32(pair[r]);

		sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(v, w0));
		sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(v, w1));
	}
}

/* Rows [row, row + rows), columns [i, i + COLS), products [j, past). @rows and @u8 are constant. */
INLINE AVX2 void sum_tile(const struct rvl_f32_sum_call *c, int64_t row, int rows, int64_t i, int64_t j,
			  int64_t past, bool u8)
{
	const uint8_t *w = (const uint8_t *)c->w + i + j * c->w_row;
	const int16_t *v = c->v + row * c->v_row;
	__m256i sum[ROWS][2];
	int32_t pair[ROWS];

#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
		sum[r][0] = sum[r][1] = _mm256_setzero_si256();
	for (; j + 2 <= past; j += 2, w += 2 * c->w_row) {
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++)
			memcpy(&pair[r], v + r * c->v_row + j, sizeof(pair[r]));
		add_pair(_mm_loadu_si128((const __m128i *)w),
			 _mm_loadu_si128((const __m128i *)(w + c->w_row)), pair, rows, u8, sum);
	}
	if (j < past) {
		for (int r = 0; r < rows; r++)
			pair[r] = (uint16_t)v[r * c->v_row + j];
		add_pair(_mm_loadu_si128((const __m128i *)w), _mm_setzero_si128(), pair, rows, u8, sum);
	}
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++) {
		__m256i *y = (__m256i *)(c->y + (row + r) * c->y_row + i);

		_mm256_storeu_si256(y, _mm256_add_epi32(_mm256_loadu_si256(y), sum[r][0]));
		_mm256_storeu_si256(y + 1, _mm256_add_epi32(_mm256_loadu_si256(y + 1), sum[r][1]));
	}
}

INLINE AVX2 void sum_all(const struct rvl_f32_sum_call *c, bool u8)
{
	int64_t block = c->n <= NEAR ? c->k : BLOCK, whole = c->n / COLS * COLS;

	for (int64_t j = 0; j < c->k; j += block) {
		int64_t past = rvl_least(j + block, c->k);

		for (int64_t i = 0; i < whole; i += COLS) {
			int64_t r = 0;

			for (; r + ROWS <= c->rows; r += ROWS)
				sum_tile(c, r, ROWS, i, j, past, u8);
			for (; r < c->rows; r++)
				sum_tile(c, r, 1, i, j, past, u8);
		}
	}
	sum_rest(c, whole);
}

static AVX2 void sum_avx2(const struct rvl_f32_sum_call *c)
{
	if (c->u8)
		sum_all(c, true);
	else
		sum_all(c, false);
}
#endif

#define SET(set, sums, target)                                                                          \
	static target void convert_##set(const struct rvl_f32_bytes_call *c)                       \
	{                                                                                          \
		if (c->u8 && c->n == 16)                                                           \
			convert_u8(c, c->x, 16);                                                   \
		else if (c->u8)                                                                    \
			convert_u8(c, c->x, c->n);                                                 \
		else if (c->n == 16)                                                               \
			convert_s8(c, c->x, 16);                                                   \
		else                                                                               \
			convert_s8(c, c->x, c->n);                                                 \
	}                                                                                          \
	const struct rvl_f32_bytes rvl_f32_bytes_##set = { .convert = convert_##set,               \
							   .sum = sums };

SET(base, sum_base, )
#ifdef __x86_64__
SET(avx2, sum_avx2, __attribute__((target("avx2"))))
SET(avx512, sum_avx2, __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"))))
#endif
