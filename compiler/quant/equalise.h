/* SPDX-License-Identifier: MIT */
/* Cross-layer equalisation: it gives the channels between two convolutions equal ranges. */
#ifndef RVL_EQUALISE_H
#define RVL_EQUALISE_H

#include "graph/graph.h"

/**
 * Scales each channel between two products so that it has the same share of the ranges of the weights
 * on both sides. Between them may be operators that commute with positive factors: Relu, and
 * those that move values within a channel. The results of the graph change by rounding only. To be called after
 * rvl_prepare().
 */
int rvl_equalise(struct rvl_graph *g, struct rvl_err *err);

#endif
