/* SPDX-License-Identifier: MIT */
/* Sets weights of a float graph to zero, so that sparse layers skip them. */
#ifndef RVL_PRUNE_H
#define RVL_PRUNE_H

#include "graph/graph.h"
#include "rivulet_compiler.h"

/**
 * Prunes the constant weights of the products of a float graph to a share of zeros: of each run of 16
 * input channels of a row, those of the largest magnitudes stay. The first product, convolutions with
 * groups and weights that several nodes read are spared. Counts weights in @r. -EINVAL: nothing can
 * be pruned.
 */
int rvl_prune(struct rvl_graph *g, const struct rivulet_prune *p, struct rivulet_prune_report *r,
	      struct rvl_err *err);

#endif
