/* SPDX-License-Identifier: MIT */
/* 16 bits for the images of binary layers, which a residual network adds to one another. */
#ifndef RVL_WIDE_H
#define RVL_WIDE_H

#include "quant/insert.h"

/** Whether rvl_widen() will find images, in a graph that is not changed yet. */
bool rvl_may_widen(const struct rvl_graph *g, const struct rvl_seen *seen);

/**
 * Behind rvl_insert(): makes the float images of BinaryConv int16, with ranges from @seen, by tensor
 * id, of the @tensors that the graph had before. Binary layers read the integers. A DequantizeLinear
 * makes the float values for others.
 */
int rvl_widen(struct rvl_graph *g, const struct rvl_seen *seen, uint32_t tensors, struct rvl_err *err);

#endif
