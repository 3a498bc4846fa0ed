/* SPDX-License-Identifier: MIT */
/* Cross-layer equalisation: the channels between two convolutions get ranges alike. */
#ifndef RVL_EQUALISE_H
#define RVL_EQUALISE_H

#include "graph/graph.h"

/**
 * Scales each channel between two products so that it has the same share of the ranges of the weights
 * on both sides. Between them there may be what commutes with positive factors: Relu and moves of
 * values within a channel. The results of the graph change by rounding only. To be called after
 * rvl_prepare().
 */
int rvl_equalise(struct rvl_graph *g, struct rvl_err *err);

#endif
