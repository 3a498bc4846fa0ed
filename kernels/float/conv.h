/* SPDX-License-Identifier: MIT */
/* Convolutions of float32 images [N, C, D1, ...] as products, and depthwise ones. */
#ifndef RVL_FLOAT_CONV_H
#define RVL_FLOAT_CONV_H

#include "float/product.h"
#include "window.h"

/* A convolution. Weights are [m, c_group, taps], or their packed form. */
struct rvl_f32_conv {
	struct rvl_window w;
	int64_t images, group, m_group, c_group;
	int64_t in, out, taps;		/* elements of a plane and of a kernel */
	const float *x, *weights;
	const float *packed;		/* weights as rvl_f32_pack_conv() leaves them, or NULL */
	const float *bias;		/* one for each output channel, or NULL */
	const float *added;		/* of the shape of the result, or NULL */
	float lo, hi;
	float *y;
	bool fixed;			/* every run has these weights and this shape */
	/*
	 * Pairs of integers, whose results are @sums: as in a product. A pair of channels counts as one
	 * channel in c_group, x and the weights.
	 */
	bool exact;
	int32_t *sums;
};

/** Completes in, out and taps. */
void rvl_f32_conv_init(struct rvl_f32_conv *v);

/** Floats of the packed weights; 0: the kernels read them as they are. */
int64_t rvl_f32_conv_packed(const struct rvl_f32_conv *v);
void rvl_f32_pack_conv(const struct rvl_f32_conv *v, float *dst);

/** The same where @weight gives element @at of the weights. */
void rvl_f32_pack_conv_by(const struct rvl_f32_conv *v, float (*weight)(const void *ctx, int64_t at),
			  const void *ctx, float *dst);

/** Bytes of scratch memory of a run. v->packed says only whether the weights are packed. */
int64_t rvl_f32_conv_scratch(const struct rvl_f32_conv *v);
void rvl_f32_conv_run(const struct rvl_f32_conv *v, void *scratch, const struct rvl_pool *pool);

#endif
