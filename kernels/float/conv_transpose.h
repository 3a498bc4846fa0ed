/* SPDX-License-Identifier: MIT */
/* Transposed convolutions of float32 images of any number of dimensions. */
#ifndef RVL_FLOAT_CONV_TRANSPOSE_H
#define RVL_FLOAT_CONV_TRANSPOSE_H

#include "float/conv.h"

/** Floats of the packed weights, which are [group, c_group, m_group, taps] before. */
int64_t rvl_f32_conv_transpose_packed(const struct rvl_f32_conv *v);
void rvl_f32_pack_conv_transpose(const struct rvl_f32_conv *v, float *dst);

/** Bytes of scratch memory of a run. */
int64_t rvl_f32_conv_transpose_scratch(const struct rvl_f32_conv *v);

/** @scratch is aligned to 64. The fields added, lo and hi are not used. The pool may be NULL. */
void rvl_f32_conv_transpose_run(const struct rvl_f32_conv *v, float *scratch,
				const struct rvl_pool *pool);

#endif
