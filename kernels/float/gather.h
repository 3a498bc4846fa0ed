/* SPDX-License-Identifier: MIT */
#ifndef RVL_FLOAT_GATHER_H
#define RVL_FLOAT_GATHER_H

#include "float/product.h"

struct rvl_f32_conv;

#define RVL_F32_PATCH (8 << 10) /* floats of memory for copied channels */

/** Gathers the elements under the taps of a convolution, which is the context of the source. */
void rvl_f32_gather(const struct rvl_f32_source *s, int64_t at, int64_t first, int64_t n,
		    int64_t k0, int64_t kc, int width, float *mem, float *dst);

/** Estimates the time of an element that rvl_f32_gather() writes, in products. */
int64_t rvl_f32_gather_cost(const struct rvl_f32_conv *v);

#endif
