/* SPDX-License-Identifier: MIT */
/* Small things that several passes need. */
#ifndef RVL_PASS_H
#define RVL_PASS_H

#include "graph/graph.h"

/** The only reader of @t if there is exactly one and @t is no graph output; else NULL. */
struct rvl_node *rvl_only_user(const struct rvl_tensor *t);

/** Notes on @n that @other is done in it. */
void rvl_note_fused(struct rvl_graph *g, struct rvl_node *n, const struct rvl_node *other);

/** The value of a constant float tensor of one element. */
bool rvl_const_f32(const struct rvl_tensor *t, float *out);

/** A constant tensor of one element per channel, float, no infinities or NaN; NULL if it is none. */
const float *rvl_const_vector(const struct rvl_tensor *t, int64_t n);

/**
 * Takes the one-input node @n out of the way: readers of its result read its input. A graph
 * output keeps its name by taking over the input's producer. Returns 1 if done, 0 if it cannot be
 * (an input or constant that is an output under another name), or a negative errno.
 */
int rvl_node_bypass(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err);

/**
 * Whether every result is an element of input 0, so that results do not depend on scale or zero
 * point. The node may have several outputs, and other inputs that say which elements are taken.
 */
bool rvl_op_moves(const struct rvl_node *n);

/** Whether every result is an element of one of the inputs, all of which are data. */
bool rvl_op_joins(const struct rvl_node *n);

/** Whether every result is an element of input 0 or the constant *value, which input 2 holds. */
bool rvl_op_pads(const struct rvl_node *n, float *value);

/**
 * Whether all operands but the first are constants of one value, or of one for each index of one
 * axis of the first, so that each result is a function of one value. *axis: that axis, or
 * RVL_AXIS_NONE. There are no more tables than a kernel takes.
 */
bool rvl_op_of_one_value(const struct rvl_node *n, int32_t *axis);

#endif
