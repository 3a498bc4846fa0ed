/* SPDX-License-Identifier: MIT */
/* Range, scale and zero point of a tensor from the counts of its values. */
#ifndef RVL_RANGE_H
#define RVL_RANGE_H

#include "quant/observe.h"

struct rvl_range {
	float lo, hi; /* lo <= 0 <= hi */
};

/** The range by one of the methods but AUTO. @percentile: 50 to 100. */
struct rvl_range rvl_range_of(const struct rvl_seen *s, enum rivulet_range method,
			      double percentile);

/**
 * Scale and zero point with which @type, U8 or S8, covers a range. Where nothing is negative, the
 * zero point is the least value: products of such tensors may be stochastic.
 */
void rvl_range_params(struct rvl_range r, enum rvl_type type, float *scale, int32_t *zp);

#endif
