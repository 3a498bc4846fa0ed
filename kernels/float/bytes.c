/* SPDX-License-Identifier: MIT */
/* Loops over bytes, which the compiler vectorises for each instruction set. */
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <string.h>

#include "float/product.h"
#include "sizes.h"

#define INLINE static inline __attribute__((always_inline))

#define LOOPS(name, type)                                                                          \
	INLINE void widen_##name(const struct rvl_f32_bytes_call *c, int64_t n)                    \
	{                                                                                          \
		int16_t zero = (int16_t)c->zero;                                                   \
		for (int64_t r = 0; r < c->rows; r++) {                                            \
			const type *x = (const type *)c->x + r * c->x_row;                         \
			int16_t *restrict y = (int16_t *)c->y + r * c->y_row;                      \
			for (int64_t i = 0; i < n; i++)                                            \
				y[i] = (int16_t)(x[i] - zero);                                     \
		}                                                                                  \
	}                                                                                          \
	INLINE void pair_##name(const struct rvl_f32_bytes_call *c, int64_t n)                     \
	{                                                                                          \
		int32_t zero = c->zero;                                                            \
		float *y = c->y;                                                                   \
		const type *x = c->x;                                                              \
		for (int64_t r = 0; r + 2 <= c->rows; r += 2, x += 2 * c->x_row, y += c->y_row)    \
			for (int64_t i = 0; i < n; i++)                                            \
				y[i] = rvl_f32_pair(x[i] - zero, x[c->x_row + i] - zero);          \
		for (int64_t i = 0; i < n && c->rows % 2; i++)                                     \
			y[i] = rvl_f32_pair(x[i] - zero, 0);                                       \
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

/* Columns [i, n) of row @r, in panels of pairs. */
#define PAIRED_SUMS(name, type)                                                                    \
	INLINE void sum_paired_##name(const struct rvl_f32_sum_call *c, int64_t r, int64_t i)      \
	{                                                                                          \
		const int16_t *v = c->v + r * c->v_row;                                            \
		for (; i < c->n; i += RVL_F32_PAIR_COLS) {                                         \
			const type *w = (const type *)c->w + i / RVL_F32_PAIR_COLS * c->panel;     \
			uint32_t *restrict y = c->y + r * c->y_row + i;                            \
			int64_t cols = rvl_least(c->n - i, RVL_F32_PAIR_COLS);                     \
			for (int64_t j = 0; j < c->k; j += 2, w += 2 * RVL_F32_PAIR_COLS) {        \
				int32_t v0 = v[j], v1 = j + 1 < c->k ? v[j + 1] : 0;               \
				for (int64_t l = 0; l < cols; l++)                                 \
					y[l] += (uint32_t)(v0 * w[2 * l] + v1 * w[2 * l + 1]);     \
			}                                                                          \
		}                                                                                  \
	}

PAIRED_SUMS(u8, uint8_t)
PAIRED_SUMS(s8, int8_t)

/* Columns from @i on; in panels of pairs, @i is the first one of a panel. */
static void sum_rest(const struct rvl_f32_sum_call *c, int64_t i)
{
	for (int64_t r = 0; c->panel && i < c->n && r < c->rows; r++) {
		if (c->u8)
			sum_paired_u8(c, r, i);
		else
			sum_paired_s8(c, r, i);
	}
	if (c->panel)
		return;
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
#define LINE 64		/* columns of one row that are summed side by side */
#define LINE_BLOCK 16	/* rows of weights under it that are summed together */
#define AHEAD 256	/* bytes */
#define PAIRED_ROWS 6	/* in panels of pairs, */
#define PAIRED_PANELS 4	/* and panels of one row */
#define BLOCK 8		/* rows of weights, which lie apart, that stay in the first-level cache */

/* Two int16, which need not be aligned as an int32 is, in every element. */
INLINE AVX2 __m256i pair_of(const int16_t *v)
{
	int32_t pair;

	memcpy(&pair, v, sizeof(pair));
	return _mm256_set1_epi32(pair);
}

/* Adds the products of pairs of weights, of 8 columns each, and of a pair of each row of @v. @rows is constant. */
INLINE AVX2 void add_products(__m128i low, __m128i high, const int16_t *v, int64_t v_row, int rows, bool u8,
			      __m256i (*sum)[2])
{
	__m256i w0 = u8 ? _mm256_cvtepu8_epi16(low) : _mm256_cvtepi8_epi16(low);
	__m256i w1 = u8 ? _mm256_cvtepu8_epi16(high) : _mm256_cvtepi8_epi16(high);

#pragma GCC unroll 8
	for (int r = 0; r < rows; r++) {
		__m256i pair = pair_of(v + r * v_row);

		sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(pair, w0));
		sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(pair, w1));
		/* One row after the other: gcc would keep the products of all rows and spill sums. */
		__asm__("" : "+x"(sum[r][0]), "+x"(sum[r][1]));
	}
}

/*
 * Adds products of two rows of weights and as many values of each row of v, which are a pair of int16
 * at @v. A row of v is read when it is needed, because the sums of four rows fill the registers.
 */
INLINE AVX2 void add_pair(__m128i first, __m128i second, const int16_t *v, int64_t v_row, int rows,
			  bool u8, __m256i sum[ROWS][2])
{
	add_products(_mm_unpacklo_epi8(first, second), _mm_unpackhi_epi8(first, second), v, v_row, rows, u8,
		     sum);
}

INLINE AVX2 void add_to(uint32_t *y, const __m256i sum[2])
{
	__m256i *to = (__m256i *)y;

	_mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), sum[0]));
	_mm256_storeu_si256(to + 1, _mm256_add_epi32(_mm256_loadu_si256(to + 1), sum[1]));
}

/* Rows [row, row + rows), columns [i, i + COLS), products [j, past). @rows and @u8 are constant. */
INLINE AVX2 void sum_tile(const struct rvl_f32_sum_call *c, int64_t row, int rows, int64_t i, int64_t j,
			  int64_t past, bool u8)
{
	const uint8_t *w = (const uint8_t *)c->w + i + j * c->w_row;
	const int16_t *v = c->v + row * c->v_row;
	int16_t last[2 * ROWS] = { 0 };
	__m256i sum[ROWS][2];

#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
		sum[r][0] = sum[r][1] = _mm256_setzero_si256();
	for (; j + 2 <= past; j += 2, w += 2 * c->w_row)
		add_pair(_mm_loadu_si128((const __m128i *)w),
			 _mm_loadu_si128((const __m128i *)(w + c->w_row)), v + j, c->v_row, rows, u8, sum);
	if (j < past) {
		for (int r = 0; r < rows; r++)
			last[2 * r] = v[r * c->v_row + j];
		add_pair(_mm_loadu_si128((const __m128i *)w), _mm_setzero_si128(), last, 2, rows, u8, sum);
	}
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
		add_to(c->y + (row + r) * c->y_row + i, sum[r]);
}

/* Columns [i, i + LINE) of one row, products [j, past). */
INLINE AVX2 void sum_line(const struct rvl_f32_sum_call *c, int64_t i, int64_t j, int64_t past, bool u8)
{
	const uint8_t *w = (const uint8_t *)c->w + i + j * c->w_row;
	__m256i sum[LINE / COLS][2];
	int16_t last[2] = { 0 };

#pragma GCC unroll 4
	for (int g = 0; g < LINE / COLS; g++)
		sum[g][0] = sum[g][1] = _mm256_setzero_si256();
	for (; j + 2 <= past; j += 2, w += 2 * c->w_row) {
		/* Rows lie too far apart for the processor to find out what is read next. */
		__builtin_prefetch(w + AHEAD);
		__builtin_prefetch(w + c->w_row + AHEAD);
#pragma GCC unroll 4
		for (int g = 0; g < LINE / COLS; g++)
			add_pair(_mm_loadu_si128((const __m128i *)w + g),
				 _mm_loadu_si128((const __m128i *)(w + c->w_row) + g), c->v + j, 0, 1, u8,
				 sum + g);
	}
	if (j < past) {
		last[0] = c->v[j];
#pragma GCC unroll 4
		for (int g = 0; g < LINE / COLS; g++)
			add_pair(_mm_loadu_si128((const __m128i *)w + g), _mm_setzero_si128(), last, 0, 1, u8,
				 sum + g);
	}
#pragma GCC unroll 4
	for (int g = 0; g < LINE / COLS; g++)
		add_to(c->y + i + g * COLS, sum[g]);
}

INLINE AVX2 void sum_all(const struct rvl_f32_sum_call *c, bool u8)
{
	int64_t block = c->n <= NEAR ? c->k : BLOCK, whole = c->n / COLS * COLS;
	int64_t lines = c->rows == 1 ? c->n / LINE * LINE : 0;

	for (int64_t j = 0; lines && j < c->k; j += LINE_BLOCK)
		for (int64_t i = 0; i < lines; i += LINE)
			sum_line(c, i, j, rvl_least(j + LINE_BLOCK, c->k), u8);
	for (int64_t j = 0; j < c->k; j += block) {
		int64_t past = rvl_least(j + block, c->k);

		for (int64_t i = lines; i < whole; i += COLS) {
			int64_t r = 0;

			for (; r + ROWS <= c->rows; r += ROWS)
				sum_tile(c, r, ROWS, i, j, past, u8);
			for (; r < c->rows; r++)
				sum_tile(c, r, 1, i, j, past, u8);
		}
	}
	sum_rest(c, whole);
}

/* Products of a pair of bytes in each of 16 columns, and of as many rows of @v, are added. */
INLINE AVX2 void add_paired(const uint8_t *w, const int16_t *v, int64_t v_row, int rows, bool u8,
			    __m256i (*sum)[2])
{
	const __m128i *pairs = (const __m128i *)w;

	add_products(_mm_loadu_si128(pairs), _mm_loadu_si128(pairs + 1), v, v_row, rows, u8, sum);
}

/* Adds sums to the first @n of 16 columns. */
INLINE AVX2 void add_part(uint32_t *y, int64_t n, const __m256i sum[2])
{
	uint32_t part[COLS];

	if (n >= COLS) {
		add_to(y, sum);
		return;
	}
	_mm256_storeu_si256((__m256i *)part, sum[0]);
	_mm256_storeu_si256((__m256i *)part + 1, sum[1]);
	for (int64_t i = 0; i < n; i++)
		y[i] += part[i];
}

/* Rows [row, row + rows) of a panel. @rows and @u8 are constant. */
INLINE AVX2 void sum_panel(const struct rvl_f32_sum_call *c, int64_t row, int rows, int64_t i, bool u8)
{
	const uint8_t *w = (const uint8_t *)c->w + i / COLS * c->panel;
	const int16_t *v = c->v + row * c->v_row;
	int16_t last[2 * PAIRED_ROWS] = { 0 };
	__m256i sum[PAIRED_ROWS][2];
	int64_t j = 0;

#pragma GCC unroll 8
	for (int r = 0; r < rows; r++)
		sum[r][0] = sum[r][1] = _mm256_setzero_si256();
	for (; j + 2 <= c->k; j += 2, w += 2 * COLS)
		add_paired(w, v + j, c->v_row, rows, u8, sum);
	if (j < c->k) {
		for (int r = 0; r < rows; r++)
			last[2 * r] = v[r * c->v_row + j];
		add_paired(w, last, 2, rows, u8, sum);
	}
#pragma GCC unroll 8
	for (int r = 0; r < rows; r++)
		add_part(c->y + (row + r) * c->y_row + i, c->n - i, sum[r]);
}

INLINE AVX2 void sum_some(const struct rvl_f32_sum_call *c, int64_t row, int64_t rows, int64_t i, bool u8)
{
	if (rows == 6)
		sum_panel(c, row, 6, i, u8);
	else if (rows == 5)
		sum_panel(c, row, 5, i, u8);
	else if (rows == 4)
		sum_panel(c, row, 4, i, u8);
	else if (rows == 3)
		sum_panel(c, row, 3, i, u8);
	else if (rows == 2)
		sum_panel(c, row, 2, i, u8);
	else
		sum_panel(c, row, 1, i, u8);
}

/* One row of PAIRED_PANELS panels, whose sums do not wait for one another. */
INLINE AVX2 void sum_panels(const struct rvl_f32_sum_call *c, int64_t row, int64_t i, bool u8)
{
	const uint8_t *w = (const uint8_t *)c->w + i / COLS * c->panel;
	const int16_t *v = c->v + row * c->v_row;
	__m256i sum[PAIRED_PANELS][1][2];
	int16_t last[2] = { 0 };
	int64_t j = 0;

#pragma GCC unroll 4
	for (int p = 0; p < PAIRED_PANELS; p++)
		sum[p][0][0] = sum[p][0][1] = _mm256_setzero_si256();
	for (; j + 2 <= c->k; j += 2, w += 2 * COLS)
#pragma GCC unroll 4
		for (int p = 0; p < PAIRED_PANELS; p++)
			add_paired(w + p * c->panel, v + j, 0, 1, u8, sum[p]);
	if (j < c->k) {
		last[0] = v[j];
#pragma GCC unroll 4
		for (int p = 0; p < PAIRED_PANELS; p++)
			add_paired(w + p * c->panel, last, 0, 1, u8, sum[p]);
	}
#pragma GCC unroll 4
	for (int p = 0; p < PAIRED_PANELS; p++)
		add_part(c->y + row * c->y_row + i + p * COLS, c->n - i - p * COLS, sum[p][0]);
}

/* Rows are spread evenly. */
INLINE AVX2 void sum_paired(const struct rvl_f32_sum_call *c, bool u8)
{
	int64_t i = 0, r, step = rvl_ceil_div(c->rows, rvl_ceil_div(c->rows, PAIRED_ROWS));

	for (; c->rows == 1 && i + (PAIRED_PANELS - 1) * COLS < c->n; i += PAIRED_PANELS * COLS)
		sum_panels(c, 0, i, u8);
	for (; i < c->n; i += COLS)
		for (r = 0; r < c->rows; r += step)
			sum_some(c, r, rvl_least(step, c->rows - r), i, u8);
}

static AVX2 void sum_avx2(const struct rvl_f32_sum_call *c)
{
	if (c->panel && c->u8)
		sum_paired(c, true);
	else if (c->panel)
		sum_paired(c, false);
	else if (c->u8)
		sum_all(c, true);
	else
		sum_all(c, false);
}
#endif

#define CALL(name, set, target)                                                                    \
	static target void name##_##set(const struct rvl_f32_bytes_call *c)                        \
	{                                                                                          \
		if (c->u8 && c->n == 16)                                                           \
			name##_u8(c, 16);                                                          \
		else if (c->u8)                                                                    \
			name##_u8(c, c->n);                                                        \
		else if (c->n == 16)                                                               \
			name##_s8(c, 16);                                                          \
		else                                                                               \
			name##_s8(c, c->n);                                                        \
	}

#define SET(set, sums, target)                                                                     \
	CALL(widen, set, target)                                                                   \
	CALL(pair, set, target)                                                                    \
	const struct rvl_f32_bytes rvl_f32_bytes_##set = { .widen = widen_##set,                   \
							   .pair = pair_##set, .sum = sums };

SET(base, sum_base, )
#ifdef __x86_64__
SET(avx2, sum_avx2, __attribute__((target("avx2"))))
SET(avx512, sum_avx2, __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"))))
#endif
