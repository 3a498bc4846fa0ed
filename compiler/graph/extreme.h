/* SPDX-License-Identifier: MIT */
/*
 * Sizes that only a run knows. Where an operator decides by data how many elements it makes (NonZero,
 * NonMaxSuppression), its rule gives the most. What follows from such a size, as the length of a Range
 * or the sizes of a Reshape, is computed here for two cases: all such sizes of the graph are the most,
 * and all are 0. The larger one of both results is the bound of what a run needs. It is no proof for a
 * size in between: the kernels compare the true shapes with the bounds in each run.
 */
#ifndef RVL_GRAPH_EXTREME_H
#define RVL_GRAPH_EXTREME_H

#include "graph/graph.h"

/** Whether the size or the values of an input of @n follow from a size that only a run knows. */
bool rvl_extreme_reads(const struct rvl_node *n);

/**
 * The shape rule of @n, of the table of descriptors, with the inputs of both cases: c->out become the
 * bounds of its results. @c has been inferred with result @rc, and stays so where the rule fails for the
 * largest sizes. Returns @rc then, else 0.
 */
int rvl_extreme_infer(const struct rvl_node *n, struct rvl_call *c, int rc);

/** Notes shapes and values of the results of @n, whose shape rule succeeded, in both cases. -ENOMEM. */
int rvl_extreme_note(struct rvl_graph *g, struct rvl_node *n);

#endif
