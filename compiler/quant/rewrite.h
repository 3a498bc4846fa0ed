/* SPDX-License-Identifier: MIT */
/* Operators of a float graph in forms that have quantised counterparts. */
#ifndef RVL_REWRITE_H
#define RVL_REWRITE_H

#include "graph/graph.h"

/**
 * A mean of all pixels, as ReduceMean or AveragePool, becomes GlobalAveragePool. Zeros in front of a
 * convolution become its padding. A transposed convolution becomes a convolution whose channels are
 * spread over pixels. Results are the
 * same but for the order of float sums. Shapes must be inferred.
 */
int rvl_rewrite(struct rvl_graph *g, struct rvl_err *err);

/**
 * Factors and summands by channel, and BatchNormalization, that stand between two products: a
 * BatchNormalization where it can be folded into the convolution in front of it, else a depthwise
 * convolution of 1 x 1.
 */
int rvl_rewrite_scales(struct rvl_graph *g, struct rvl_err *err);

#endif
