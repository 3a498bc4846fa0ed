/* SPDX-License-Identifier: MIT */
/* Which nodes run on the NPU, and in which segments. */
#ifndef RVL_PARTITION_H
#define RVL_PARTITION_H

#include "graph/graph.h"

/*
 * What the back end may add to the NPU's constraints (geometry, scratchpad sizes).
 * Returns NULL if the device can run the node, else one line why not (static or in the arena).
 */
typedef const char *(*rvl_npu_fits_fn)(struct rvl_graph *g, const struct rvl_node *n, void *arg);

/**
 * Places every node and groups the nodes into the fewest segments, so that no path leaves a segment
 * and re-enters it. Reorders g->nodes so that every segment is contiguous, fills g->segs and the
 * reasons. @fits may be NULL.
 */
int rvl_pass_partition(struct rvl_graph *g, rvl_npu_fits_fn fits, void *arg, struct rvl_err *err);

#endif
