/* SPDX-License-Identifier: MIT */
/* Convolutions of 3 x 3 at distance 1 by the transforms of struct rvl_i8_winograd. */
#ifndef RVL_INT8_WINOGRAD_H
#define RVL_INT8_WINOGRAD_H

#include "int8/product.h"

/* The images of a convolution. */
struct rvl_i8_wino_shape {
	int64_t oh, ow;		/* results */
	int64_t pixels;		/* without the padding */
};

/* A convolution with the weights @m, and its images: y[(oy * ow + ox) * y_stride + channel]. */
struct rvl_i8_wino_job {
	const struct rvl_i8_mat *m;
	struct rvl_i8_wino_shape shape;
	/*
	 * The pixels under the tile of result (oy, ox), from channel @channel on, in the image or its padding, by
	 * rows: as many along each axis as m->filter says.
	 */
	void (*pixels)(const void *ctx, int64_t oy, int64_t ox, int64_t channel, const uint8_t **p);
	const void *ctx;
	uint8_t *y;
	int64_t y_stride;
	uint8_t *scratch;	/* rvl_i8_wino_scratch() bytes, aligned to 64 */
};

/**
 * The filter that takes the least time by an estimate, of those that are exact with the weights; NULL where
 * the product should be computed directly.
 */
const struct rvl_i8_winograd *rvl_i8_wino_choose(const struct rvl_i8_mat *m, const struct rvl_i8_wino_shape *s);
/** Bytes of workspace for the filter @f. */
int64_t rvl_i8_wino_scratch(const struct rvl_i8_mat *m, const struct rvl_i8_winograd *f,
			    const struct rvl_i8_wino_shape *s);
void rvl_i8_wino_run(const struct rvl_i8_wino_job *j, const struct rvl_pool *pool);

#endif
