/* SPDX-License-Identifier: MIT */
/*
 * Products of matrices of float32: y = clamp(a * b + added + bias), a batch of them. An operand is
 * packed once, or piece by piece in the scratch memory of a run.
 */
#ifndef RVL_FLOAT_PRODUCT_H
#define RVL_FLOAT_PRODUCT_H

#include <stddef.h>
#include <string.h>

#include "float/float.h"

struct rvl_pool;
struct rvl_f32_source;

/*
 * Writes pieces of adjacent panels, [panel][kc][width]: for k0 <= k < k0 + kc the elements of @n rows
 * (of a) or columns (of b) from @first on, then zeros up to @width. @at: where the matrix begins in
 * the operand. @mem: fill_floats of the source.
 */
typedef void (*rvl_f32_fill_fn)(const struct rvl_f32_source *s, int64_t at, int64_t first, int64_t n,
				int64_t k0, int64_t kc, int width, float *mem, float *dst);

#define RVL_F32_FILL_COST 12	/* where adjacent elements are copied */

/* An operand. Element k of row or column i lies at data[at + k * k_step + i * step], unless fill is set. */
struct rvl_f32_source {
	const float *data;
	int64_t k_step, step;
	rvl_f32_fill_fn fill;
	int64_t fill_floats;	/* memory of fill */
	int64_t fill_cost;	/* time of fill for an element, in products: RVL_F32_FILL_COST, or more */
	const void *ctx;	/* of fill */
	const float *packed;	/* [matrix][panel][k][width], or NULL */
	int64_t matrix;		/* floats of one packed matrix */
	int64_t elements;	/* of one matrix in the operand that was packed */
};

/* Where the matrices of a product begin. */
struct rvl_f32_place {
	int64_t a, b, y;
	int64_t added, bias;
};

struct rvl_f32_job {
	const struct rvl_f32_kernels *f;
	int64_t batches, m, n, k;
	struct rvl_f32_source a, b;
	void (*locate)(const void *ctx, int64_t batch, struct rvl_f32_place *at);
	const void *ctx;
	float scale;		/* of the sums of products */
	/* Element (i, j) adds @added_scale * added[i * added_row + j * added_col]; NULL: nothing. */
	const float *added;
	int64_t added_row, added_col;
	float added_scale;
	const float *bias;	/* one for each row; NULL: nothing */
	float lo, hi;
	float *y;
	int64_t y_row;
	/*
	 * Each element of the operands is a pair of integers of -255 to 255 as rvl_f32_pair() makes it,
	 * and the sums of their products, modulo 2^32, are written to @sums instead of y. Operand b has
	 * fill(). Scale, clamp and what is added are not used.
	 */
	bool exact;
	int32_t *sums;
};

/** The bits of a pair of int16: an element of an exact product. */
static inline float rvl_f32_pair(int32_t first, int32_t second)
{
	uint32_t both = (uint32_t)(uint16_t)first | (uint32_t)(uint16_t)second << 16;
	float f;

	memcpy(&f, &both, sizeof(f));
	return f;
}

/** Floats of the packed form of one matrix of @n rows or columns. */
int64_t rvl_f32_packed(int64_t n, int64_t k, int width);

/**
 * Packs bytes [k, n] in panels for struct rvl_f32_sum_call, 2 * rvl_f32_packed() of ceil(k / 2) and
 * RVL_F32_PAIR_COLS of them.
 */
void rvl_f32_pack_pairs(const uint8_t *x, int64_t k, int64_t n, uint8_t *dst);

/** Packs the matrix that begins at @at of the operand. @dst: rvl_f32_packed() floats. */
void rvl_f32_pack(const struct rvl_f32_source *s, int64_t at, int64_t n, int64_t k, int width,
		  float *dst);

/**
 * Makes one product of a batch whose matrices of a are adjacent rows and which has one matrix b.
 * @count_a, @count_b: elements of the operands. Before anything is packed.
 */
void rvl_f32_merge(struct rvl_f32_job *j, int64_t count_a, int64_t count_b);

/** Bytes of scratch memory of a run. The sources say only whether they are packed. */
int64_t rvl_f32_scratch(const struct rvl_f32_job *j);

/** @scratch: rvl_f32_scratch() bytes, aligned to 64. The pool may be NULL. */
void rvl_f32_run(const struct rvl_f32_job *j, float *scratch, const struct rvl_pool *pool);

#endif
