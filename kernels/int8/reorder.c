/* SPDX-License-Identifier: MIT */
/* Transposes matrices of bytes in blocks of 16 by 16, with the vector registers that any target has. */
#include "int8/product.h"

#include <string.h>

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

void rvl_i8_transpose(const uint8_t *x, int64_t x_pitch, int64_t rows, int64_t cols, uint8_t *y,
		      int64_t y_pitch)
{
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
