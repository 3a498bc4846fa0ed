/* SPDX-License-Identifier: MIT */
/*
 * Scalar references: plain loops that compute what docs/numerics.md specifies. Tests compare every
 * faster kernel with them, and they run where there is no faster kernel.
 */
#ifndef RVL_REF_H
#define RVL_REF_H

#include "internal.h"

/**
 * Quantised convolution of all images and groups. x, y: images with the geometry's pitches;
 * w: [M, C/group, kh, kw].
 */
void rvl_ref_qconv(const struct rvl_conv_geom *g, const struct rvl_qparams *q, const void *x,
		   const void *w, void *y);

/** One quantised matrix product. */
void rvl_ref_qmatmul(const struct rvl_matmul_geom *g, const struct rvl_qparams *q, const void *a,
		     const void *b, void *y);

/** Float convolution, sums in double; b may be NULL; result clamped to [lo, hi]. */
void rvl_ref_conv(const struct rvl_conv_geom *g, const float *x, const float *w, const float *b,
		  float lo, float hi, float *y);

/** One float matrix product, sums in double. */
void rvl_ref_matmul(const struct rvl_matmul_geom *g, const float *a, const float *b, float *y);

/** Spans of QLinearAdd and QLinearMul; ia, ib are 0 (one value for the span) or 1. */
void rvl_ref_qadd(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia, const void *b,
		  int64_t ib, void *y);
void rvl_ref_qmul(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia, const void *b,
		  int64_t ib, void *y);

/** QLinearGlobalAveragePool of one channel of @n values; scale as docs/numerics.md 1 has it. */
int32_t rvl_ref_qmean(const void *x, int64_t n, bool u8, int32_t xz, float scale, int32_t yz,
		      int32_t lo, int32_t hi);

/** The scale of a channel: f32(f32(xs * ws) / ys). */
float rvl_requant_scale(float xs, float ws, float ys);

#endif
