/* SPDX-License-Identifier: MIT */
/* Quantised products with packed weights: what the operators call. */
#ifndef RVL_INT8_PRODUCT_H
#define RVL_INT8_PRODUCT_H

#include "int8/int8.h"
#include "internal.h"

/* Weights w - wz of output channel @n over all groups, in [-255, 255]. */
struct rvl_i8_source {
	int32_t (*weight)(const void *ctx, int64_t n, int64_t tap, int64_t c);
	const void *ctx;
	int64_t groups, n;	/* groups, and output channels of each */
	int64_t rows;		/* that a run multiplies */
	int64_t taps, kc;	/* kernel positions, channels of each */
	bool slides;		/* depthwise, windows as of struct rvl_i8_slide */
	bool scattered;		/* the activations of a position are not adjacent */
	bool tiled;		/* packed for transforms of 3 x 3 as well: int8/winograd.h */
};

/*
 * Packed weights. Those that do not fit the packed type, as int8 may not hold weights with a zero
 * point, are sums of two or three values: taps = planes * kernel positions, and every plane reads
 * the same activations. Where the channels of a tap are not adjacent, or do not fill the steps of the
 * kernel, a row is gathered: taps is 1, and kc covers all planes and positions.
 */
struct rvl_i8_mat {
	const struct rvl_i8_kernels *f;
	const struct rvl_i8_dw *dw;	/* depthwise, else NULL */
	const struct rvl_i8_slide *slide;	/* the order of its taps, which are the positions; or NULL */
	int64_t groups, n, blocks;	/* blocks: of f->nr columns, per group */
	int64_t taps, kc;
	int64_t planes, positions, channels;	/* planes, and the source's taps and kc */
	bool gathers;
	bool x_u8;
	bool widens;		/* rows are copied by the set's widen() or widen_less() */
	const struct rvl_i8_winograd *filter;	/* 3 x 3, computed in tiles: int8/winograd.h; or NULL */
	bool wide;		/* depthwise: the weights are int16 */
	bool floats;		/* the results are floats */
	int bits;		/* of the weights where the set has tables, else 0 */
	bool is_signed;		/* ... in two's complement */
	void *w;		/* int8, int16, or bits */
	const struct rvl_i8_rest *rest;	/* [groups * blocks], of weights that are split; or NULL */
	int32_t less;		/* what a set that sorts quads subtracts from the values */
	int32_t *bias;
	float *scale;
	struct rvl_i8_post post;
};

/** Clamp and zero point of results. */
struct rvl_i8_post rvl_i8_post(int32_t lo, int32_t hi, int32_t zp, bool u8);

/** Packs the weights of a matrix product or convolution; NULL without memory. */
struct rvl_i8_mat *rvl_i8_pack(struct rvl_kernel *k, const struct rvl_i8_source *s,
			       const struct rvl_qparams *q);

/**
 * Whether the weights of @s are split: the set of @m has kernels for that, few weights have a rest, fewer if the
 * kernels that sort quads could be used (@sorts), a tap has the quads of a window at least, and the quads of all
 * taps can be counted by 16 bits. Rows of uint8 are then read where they lie.
 */
bool rvl_i8_splits(const struct rvl_i8_mat *m, const struct rvl_i8_source *s, bool sorts);
/** Splits the packed weights of @m, which has those kernels. Returns 0 or -ENOMEM. */
int rvl_i8_split(struct rvl_kernel *k, struct rvl_i8_mat *m);

/**
 * Packs the weights of a depthwise convolution: s->groups is 1, s->n the channels, s->kc 1. NULL
 * without memory; *fits is false if there are more taps than the kernel takes.
 */
struct rvl_i8_mat *rvl_i8_pack_dw(struct rvl_kernel *k, const struct rvl_i8_source *s,
				  const struct rvl_qparams *q, bool *fits);

struct rvl_i8_job;

/*
 * Prepares rows @row to @row + n - 1 of a group. Where the weights gather, @dst is bytes [n][kc];
 * else pointers [positions][mr], of which those behind the last row are filled by the caller.
 */
typedef void (*rvl_i8_fill_fn)(const struct rvl_i8_job *j, int64_t group, int64_t row, int n,
			       void *dst);

/*
 * Prepares as int16 [n][kc] the rows that fill() would gather. May write RVL_I8_BEYOND bytes more. Values
 * behind those of a row may be any, because they have no weights.
 */
typedef void (*rvl_i8_wide_fn)(const struct rvl_i8_job *j, int64_t row, int n, int16_t *dst);

/* A product: y[row * y_stride + group * n + column]. */
struct rvl_i8_job {
	const struct rvl_i8_mat *m;
	int64_t rows;
	rvl_i8_fill_fn fill;
	rvl_i8_wide_fn wide;	/* of one group, with weights that gather; or NULL */
	const void *ctx;
	const uint8_t *dense;	/* rows of the only group that lie one behind the other, whole; or NULL */
	int64_t first;		/* row at which rvl_i8_run_rows() begins */
	uint8_t *y;
	int64_t y_stride;
	/* Where the results are floats: y[row * row_step + column * column_step] */
	struct {
		float *y, lo, hi;
		int64_t row_step, column_step;
		const float *added;	/* to each column; or NULL */
	} f32;
	uint8_t *scratch;	/* rvl_i8_scratch() or rvl_i8_rows_scratch() bytes, aligned to 64 */
};

/** y[c * y_pitch + r] = x[r * x_pitch + c] for @rows rows and @cols columns of bytes. */
void rvl_i8_transpose(const uint8_t *x, int64_t x_pitch, int64_t rows, int64_t cols, uint8_t *y,
		      int64_t y_pitch);

/** Bytes of the packed weights of a block of columns. */
static inline int64_t rvl_i8_block_bytes(const struct rvl_i8_mat *m)
{
	int64_t weights = m->taps * m->kc * m->f->nr;

	return m->bits ? weights * m->bits / 8 : weights;
}

int64_t rvl_i8_scratch(const struct rvl_i8_mat *m, int64_t rows);
void rvl_i8_run(const struct rvl_i8_job *j, const struct rvl_pool *pool);

/** Bytes that rvl_i8_run_rows() needs for any number of rows. */
int64_t rvl_i8_rows_scratch(const struct rvl_i8_mat *m);
/** Computes rows [j->first, j->first + j->rows) on this thread. */
void rvl_i8_run_rows(const struct rvl_i8_job *j);

#endif
