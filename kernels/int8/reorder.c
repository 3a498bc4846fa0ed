/* SPDX-License-Identifier: MIT */
/*
 * Transposes matrices of bytes in blocks of 16 by 16, with the vector registers that any target has,
 * or with those of AVX2 in blocks of 32 rows.
 */
#include "int8/convert.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <string.h>

#include "int8/product.h"
#include "isa.h"

#define SIDE 16

typedef uint8_t bytes16 __attribute__((vector_size(SIDE)));

static inline bytes16 zip_low(bytes16 a, bytes16 b)
{
	return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static inline bytes16 zip_high(bytes16 a, bytes16 b)
{
	return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
				       31);
}

/* Interleaving row i with row i + 8 four times transposes the block. */
static inline __attribute__((always_inline)) void zip_rows(const bytes16 in[SIDE], bytes16 out[SIDE])
{
#pragma GCC unroll 8
	for (int i = 0; i < SIDE / 2; i++) {
		out[2 * i] = zip_low(in[i], in[i + SIDE / 2]);
		out[2 * i + 1] = zip_high(in[i], in[i + SIDE / 2]);
	}
}

static inline __attribute__((always_inline)) void transpose(bytes16 a[SIDE])
{
	bytes16 b[SIDE];

	zip_rows(a, b);
	zip_rows(b, a);
	zip_rows(a, b);
	zip_rows(b, a);
}

static void whole_block(const uint8_t *x, int64_t x_pitch, uint8_t *y, int64_t y_pitch)
{
	bytes16 a[SIDE];

#pragma GCC unroll 16
	for (int i = 0; i < SIDE; i++)
		memcpy(&a[i], x + i * x_pitch, SIDE);
	transpose(a);
#pragma GCC unroll 16
	for (int i = 0; i < SIDE; i++)
		memcpy(y + i * y_pitch, &a[i], SIDE);
}

static void part_block(const uint8_t *x, int64_t x_pitch, int64_t rows, int64_t cols, uint8_t *y,
		       int64_t y_pitch)
{
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < cols; c++)
			y[c * y_pitch + r] = x[r * x_pitch + c];
}

/*
 * Interleaves two or four rows, which is a transposition whose result has no gaps: rows i and i + rows / 2, once for
 * two rows, twice for four.
 */
static inline __attribute__((always_inline)) void interleave(const uint8_t *x, int64_t x_pitch, const int rows,
							     int64_t cols, uint8_t *y)
{
	int64_t c = 0;

	for (; c + SIDE <= cols; c += SIDE, x += SIDE, y += rows * SIDE) {
		bytes16 a[4], b[4];

		for (int i = 0; i < rows; i++)
			memcpy(&a[i], x + i * x_pitch, SIDE);
		for (int n = 1; n < rows; n *= 2) {
			for (int i = 0; i < rows / 2; i++) {
				b[2 * i] = zip_low(a[i], a[i + rows / 2]);
				b[2 * i + 1] = zip_high(a[i], a[i + rows / 2]);
			}
			memcpy(a, b, (size_t)rows * SIDE);
		}
		memcpy(y, a, (size_t)rows * SIDE);
	}
	part_block(x, x_pitch, rows, cols - c, y, rows);
}

void rvl_i8_transpose_base(const uint8_t *x, int64_t x_pitch, int64_t rows, int64_t cols, uint8_t *y,
			   int64_t y_pitch)
{
	if (rows == y_pitch && (rows == 2 || rows == 4)) {
		if (rows == 2)
			interleave(x, x_pitch, 2, cols, y);
		else
			interleave(x, x_pitch, 4, cols, y);
		return;
	}
	for (int64_t r = 0; r < rows; r += SIDE) {
		for (int64_t c = 0; c < cols; c += SIDE) {
			const uint8_t *from = x + r * x_pitch + c;
			uint8_t *to = y + c * y_pitch + r;

			if (r + SIDE <= rows && c + SIDE <= cols)
				whole_block(from, x_pitch, to, y_pitch);
			else
				part_block(from, x_pitch, rows - r < SIDE ? rows - r : SIDE,
					   cols - c < SIDE ? cols - c : SIDE, to, y_pitch);
		}
	}
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))
#define ROWS (2 * SIDE)	/* of a block in registers of 256 bits */

/* Row i and row i + SIDE are the halves of a register, so that a store has the bytes of ROWS rows. */
AVX2 static inline __m256i two_rows(const uint8_t *x, int64_t x_pitch)
{
	__m128i upper = _mm_loadu_si128((const __m128i *)x);
	__m128i lower = _mm_loadu_si128((const __m128i *)(x + SIDE * x_pitch));

	return _mm256_inserti128_si256(_mm256_castsi128_si256(upper), lower, 1);
}

AVX2 static inline __attribute__((always_inline)) void zip_two_rows(const __m256i in[SIDE], __m256i out[SIDE])
{
#pragma GCC unroll 8
	for (int i = 0; i < SIDE / 2; i++) {
		out[2 * i] = _mm256_unpacklo_epi8(in[i], in[i + SIDE / 2]);
		out[2 * i + 1] = _mm256_unpackhi_epi8(in[i], in[i + SIDE / 2]);
	}
}

/* ROWS rows of SIDE columns. */
AVX2 static void tall_block(const uint8_t *x, int64_t x_pitch, uint8_t *y, int64_t y_pitch)
{
	__m256i a[SIDE], b[SIDE];

#pragma GCC unroll 16
	for (int i = 0; i < SIDE; i++)
		a[i] = two_rows(x + i * x_pitch, x_pitch);
	zip_two_rows(a, b);
	zip_two_rows(b, a);
	zip_two_rows(a, b);
	zip_two_rows(b, a);
#pragma GCC unroll 16
	for (int i = 0; i < SIDE; i++)
		_mm256_storeu_si256((__m256i *)(y + i * y_pitch), a[i]);
}

AVX2 void rvl_i8_transpose_avx2(const uint8_t *x, int64_t x_pitch, int64_t rows, int64_t cols, uint8_t *y,
				int64_t y_pitch)
{
	int64_t tall = rows - rows % ROWS, wide = cols - cols % SIDE;

	for (int64_t r = 0; r < tall; r += ROWS)
		for (int64_t c = 0; c < wide; c += SIDE)
			tall_block(x + r * x_pitch + c, x_pitch, y + c * y_pitch + r, y_pitch);
	if (wide < cols)
		rvl_i8_transpose_base(x + wide, x_pitch, tall, cols - wide, y + wide * y_pitch, y_pitch);
	if (tall < rows)
		rvl_i8_transpose_base(x + tall * x_pitch, x_pitch, rows - tall, cols, y + tall, y_pitch);
}
#endif

void rvl_i8_transpose(const uint8_t *x, int64_t x_pitch, int64_t rows, int64_t cols, uint8_t *y,
		      int64_t y_pitch)
{
	rvl_i8_kernels()->convert->transpose(x, x_pitch, rows, cols, y, y_pitch);
}
