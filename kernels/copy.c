/* SPDX-License-Identifier: MIT */
/* The copy of elements between two tensors with any pitches: all operators that move values use it. */
#include <stdlib.h>
#include <string.h>

#include "int8/product.h"
#include "internal.h"
#include "sizes.h"

void rvl_copy_dim(struct rvl_copy *b, int64_t dim, int64_t from, int64_t to)
{
	b->dim[b->rank] = dim;
	b->from[b->rank] = from;
	b->to[b->rank++] = to;
}

#define COPY_STRIDED(type) do { \
	const type *x = src; \
	type *y = dst; \
	for (int64_t i = 0; i < n; i++) \
		y[i * to] = x[i * from]; \
} while (0)

void rvl_copy_row(const void *src, int64_t from, void *dst, int64_t to, int64_t n, size_t size)
{
	if (from == 1 && to == 1)
		memcpy(dst, src, (size_t)n * size);
	else if (size == 1)
		COPY_STRIDED(uint8_t);
	else if (size == 2)
		COPY_STRIDED(uint16_t);
	else if (size == 4)
		COPY_STRIDED(uint32_t);
	else
		COPY_STRIDED(uint64_t);
}

static void swap_dims(struct rvl_copy *b, int i, int j)
{
	struct rvl_copy old = *b;

	b->dim[i] = old.dim[j];
	b->from[i] = old.from[j];
	b->to[i] = old.to[j];
	b->dim[j] = old.dim[i];
	b->from[j] = old.from[i];
	b->to[j] = old.to[i];
}

/*
 * The dimensions in the order of the result's memory, the innermost last, without those of one
 * element and merged where both sides continue.
 */
static void order(const struct rvl_copy *of, struct rvl_copy *b)
{
	int n = 0;

	*b = *of;
	for (int d = 1; d < b->rank; d++)
		for (int k = d; k && llabs(b->to[k - 1]) < llabs(b->to[k]); k--)
			swap_dims(b, k - 1, k);
	for (int d = 0; d < b->rank; d++) {
		bool joins = n && b->from[n - 1] == b->from[d] * b->dim[d] &&
			     b->to[n - 1] == b->to[d] * b->dim[d];

		if (b->dim[d] == 1)
			continue;
		n -= joins;
		b->dim[n] = joins ? b->dim[n] * b->dim[d] : b->dim[d];
		b->from[n] = b->from[d];
		b->to[n++] = b->to[d];
	}
	b->rank = n;
	if (!n)
		rvl_copy_dim(b, 1, 1, 1);
}

/* Steps @index to the next row; @x and @y are the places of its first elements. */
static void next_row(const struct rvl_copy *b, int64_t *index, int64_t *x, int64_t *y)
{
	for (int d = b->rank - 2; d >= 0; d--) {
		*x += b->from[d];
		*y += b->to[d];
		if (++index[d] < b->dim[d])
			return;
		*x -= b->from[d] * b->dim[d];
		*y -= b->to[d] * b->dim[d];
		index[d] = 0;
	}
}

static void copy_rows(void *arg, int64_t first, int64_t past)
{
	const struct rvl_copy *b = arg;
	int64_t index[2 * RVL_MAX_RANK], at = first, x = 0, y = 0, size = (int64_t)b->size;
	int last = b->rank - 1;

	for (int d = last - 1; d >= 0; d--) {
		index[d] = at % b->dim[d];
		at /= b->dim[d];
		x += index[d] * b->from[d];
		y += index[d] * b->to[d];
	}
	for (int64_t i = first; i < past; i++) {
		rvl_copy_row((const char *)b->x + x * size, b->from[last], (char *)b->y + y * size,
			     b->to[last], b->dim[last], b->size);
		next_row(b, index, &x, &y);
	}
}

#define SIDE 64	/* elements of a tile along each dimension */
#define PART 16384	/* bytes that a part of the work has at least */

/*
 * The innermost dimension of the source is another one than that of the result: rows of the result
 * would read a byte of each line. Tiles of both dimensions are transposed instead.
 */
struct tiles {
	struct rvl_copy b;	/* the dimension that the source has inside is the last but one */
	int64_t rows, cols;	/* of tiles */
};

static void transpose_tile(const struct rvl_copy *b, const char *x, char *y, int64_t rows, int64_t cols)
{
	int inner = b->rank - 1, outer = inner - 1, row = inner, other = outer;
	int64_t size = (int64_t)b->size, n = cols, times = rows;

	if (size == 1 && b->to[inner] == 1) {
		rvl_i8_transpose((const uint8_t *)x, b->from[inner], cols, rows, (uint8_t *)y,
				 b->to[outer]);
		return;
	}
	if (rows > cols) {	/* the copies of few elements take longer */
		row = outer;
		other = inner;
		n = rows;
		times = cols;
	}
	for (int64_t i = 0; i < times; i++)
		rvl_copy_row(x + i * b->from[other] * size, b->from[row], y + i * b->to[other] * size,
			     b->to[row], n, b->size);
}

/* Tiles [first, past), those of the last two dimensions together. */
static void copy_tiles(void *arg, int64_t first, int64_t past)
{
	const struct tiles *t = arg;
	const struct rvl_copy *b = &t->b;
	int outer = b->rank - 2, inner = b->rank - 1;

	for (int64_t i = first; i < past; i++) {
		int64_t r = i / t->cols % t->rows * SIDE, c = i % t->cols * SIDE;
		int64_t at = i / t->cols / t->rows, x = r * b->from[outer] + c * b->from[inner];
		int64_t y = r * b->to[outer] + c * b->to[inner];

		for (int d = outer - 1; d >= 0; d--) {
			x += at % b->dim[d] * b->from[d];
			y += at % b->dim[d] * b->to[d];
			at /= b->dim[d];
		}
		transpose_tile(b, (const char *)b->x + x * (int64_t)b->size,
			       (char *)b->y + y * (int64_t)b->size,
			       rvl_least(b->dim[outer] - r, SIDE), rvl_least(b->dim[inner] - c, SIDE));
	}
}

/*
 * Makes the dimension that the source has inside the last but one. False if rows of the result are copied, also
 * because the source has few elements inside.
 */
static bool is_transposed(struct rvl_copy *b)
{
	int inner = b->rank - 1, d = inner - 1;

	if (b->rank < 2 || b->from[inner] == 1)
		return false;
	while (d >= 0 && b->from[d] != 1)
		d--;
	if (d < 0 || b->dim[d] < 4)
		return false;
	for (; d < inner - 1; d++)
		swap_dims(b, d, d + 1);
	return true;
}

static void run_tiles(struct tiles *t, const struct rvl_pool *pool)
{
	const struct rvl_copy *b = &t->b;
	int64_t n = 1, rows = rvl_least(SIDE, b->dim[b->rank - 2]), cols = rvl_least(SIDE, b->dim[b->rank - 1]);

	t->rows = rvl_ceil_div(b->dim[b->rank - 2], SIDE);
	t->cols = rvl_ceil_div(b->dim[b->rank - 1], SIDE);
	for (int d = 0; d < b->rank - 2; d++)
		n *= b->dim[d];
	rvl_parallel_range(pool, n * t->rows * t->cols, 1 + PART / (rows * cols * (int64_t)b->size), copy_tiles, t);
}

void rvl_copy_run(const struct rvl_copy *of, const struct rvl_pool *pool)
{
	struct tiles t;
	struct rvl_copy *b = &t.b;
	int64_t rows = 1, bytes;

	order(of, b);
	for (int d = 0; d < b->rank - 1; d++)
		rows *= b->dim[d];
	bytes = b->dim[b->rank - 1] * (int64_t)b->size;
	if (!rows || !bytes)
		return;
	if (is_transposed(b))
		run_tiles(&t, pool);
	else
		rvl_parallel_range(pool, rows, 1 + PART / bytes, copy_rows, b);
}
