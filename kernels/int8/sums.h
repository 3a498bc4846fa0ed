/* SPDX-License-Identifier: MIT */
/*
 * Products of bytes by constant weights whose zero points only a run knows, by the micro-kernels of a set
 * that multiplies bytes. The results are int32, modulo 2^32.
 */
#ifndef RVL_INT8_SUMS_H
#define RVL_INT8_SUMS_H

#include "rivulet_op.h"
#include "window.h"

/* Weight [@n][@taps][@channels] of a matrix or convolution, distances in elements. */
struct rvl_i8_weights {
	const void *data;
	bool u8;		/* packed less 128 */
	int64_t n, taps, channels;
	int64_t n_step, tap_step, channel_step;
};

/** Whether the micro-kernels of this machine multiply bytes. */
bool rvl_i8_has_sums(void);

/** Channels of a tap as packed: a multiple of what the micro-kernels multiply at a time. */
int64_t rvl_i8_sums_channels(int64_t channels);

/** Bytes of packed weights; those of a block of columns follow one another. */
int64_t rvl_i8_sums_bytes(const struct rvl_i8_weights *w);

/** Packs weights into @dst, aligned to 64. */
void rvl_i8_sums_pack(const struct rvl_i8_weights *w, void *dst);

/* Rows times packed weights. */
struct rvl_i8_sums {
	const void *packed;
	int64_t n, k;		/* columns, and bytes of a row */
	int32_t zero;		/* of the rows */
	bool x_u8;
};

/** Columns of a block, and rows of a tile. */
int64_t rvl_i8_sums_nr(void);
int64_t rvl_i8_sums_mr(void);

/** Sums of the packed weights of each column. */
static inline const int32_t *rvl_i8_sums_columns(const struct rvl_i8_sums *s)
{
	return s->packed;
}

/**
 * Sums of @rows rows less their zero point by the columns of block @b: @y[row][rvl_i8_sums_nr()], of
 * RVL_I8_TILE elements aligned to 64. Row i reads s->k / @taps bytes at a[t * rvl_i8_sums_mr() + i] for
 * each tap t; all pointers are valid, whatever @rows is.
 */
void rvl_i8_sums_tile(const struct rvl_i8_sums *s, int64_t b, const uint8_t *const *a, int64_t taps, int rows,
		      int32_t *y);

/* A convolution of images [images][group][c_group][in] by packed weights, one matrix for each group. */
struct rvl_i8_sums_conv {
	const struct rvl_call *c;
	struct rvl_window w;
	int64_t images, group, m_group, c_group;
	int64_t in, out, taps;		/* elements of a plane and of a kernel */
	const void *x;
	bool x_u8;
	int32_t zero;			/* of the images */
	const void *packed;		/* of group g: rvl_i8_sums_conv_bytes() / group * g bytes behind */
	const int32_t *zeros;		/* [group * m_group] of the packed weights; NULL: all are 0 */
	int32_t *y;			/* [images][group][m_group][out] */
};

/** Whether such a convolution takes less time with bytes than with int16. */
bool rvl_i8_sums_conv_fits(const struct rvl_i8_sums_conv *v);

/** Bytes of the packed weights, and the weights of group @g. */
int64_t rvl_i8_sums_conv_bytes(const struct rvl_i8_sums_conv *v);
void rvl_i8_sums_conv_pack(const struct rvl_i8_sums_conv *v, const void *weights, bool u8, void *dst);

/** Bytes of the workspace of rvl_i8_sums_conv_run(), aligned to 64. */
int64_t rvl_i8_sums_conv_scratch(const struct rvl_i8_sums_conv *v);
void rvl_i8_sums_conv_run(const struct rvl_i8_sums_conv *v, void *scratch);

#endif
