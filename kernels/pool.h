/* SPDX-License-Identifier: MIT */
#ifndef RVL_POOL_H
#define RVL_POOL_H

#include <float.h>

#include "internal.h"

/**
 * Sets element @i of @y to the least finite value: the maximum of a window that lies in the padding
 * alone.
 */
static inline void rvl_put_least(enum rvl_type t, void *y, int64_t i)
{
	if (t == RVL_TYPE_F32)
		((float *)y)[i] = -FLT_MAX;
	else
		((uint8_t *)y)[i] = t == RVL_TYPE_S8 ? 0x80 : 0;
}

/* The taps of one window along one axis: first and one past the last that lie inside. */
struct rvl_pool_taps {
	int64_t at;	/* input position of tap 0, may be negative */
	int64_t first, last;
	int64_t padded;	/* taps that lie inside the padded input */
};

/** The taps of result @out along @axis. */
struct rvl_pool_taps rvl_pool_taps(const struct rvl_conv_geom *g, const int32_t pad[4], int axis,
				   int64_t out);

/* The numbers of QLinearAveragePool. */
struct rvl_qaverage {
	bool x_u8, y_u8;
	float xs, ys;
	int32_t xz, yz;
	int32_t lo, hi;
};

/** The result of a window of @n elements whose dequantised values have this sum. */
int32_t rvl_qaverage(float sum, int64_t n, const struct rvl_qaverage *p);

/** The dequantised value of each byte. */
void rvl_qaverage_values(const struct rvl_qaverage *p, float value[256]);

/** QLinearAveragePool as onnxruntime computes it: in float32, in this order (numerics 4). */
void rvl_ref_qaverage_pool(const struct rvl_conv_geom *g, const int32_t pad[4],
			   bool include_pad, const struct rvl_qaverage *p, const void *x, void *y);

/* ---- pools of images in NCHW, row by row: op_pool_rows.c ---- */

/** Whether the windows are narrow enough. */
bool rvl_pool_has_rows(const struct rvl_conv_geom *g);

/** MaxPool of all images, without indices. Of float32 what is not a number is no maximum. */
void rvl_pool_max_rows(const struct rvl_kernel *k, const void *x, void *y,
		       const struct rvl_pool *pool);

/** Means of bytes, with the bits of rvl_ref_qaverage_pool(), or of float32 where @p is NULL. */
void rvl_pool_average_rows(const struct rvl_kernel *k, const struct rvl_qaverage *p, const void *x,
			   void *y, const struct rvl_pool *pool);

#endif
