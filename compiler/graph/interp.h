/* SPDX-License-Identifier: MIT */
/* The reference interpreter of a graph. */
#ifndef RVL_INTERP_H
#define RVL_INTERP_H

#include "graph/graph.h"

/**
 * Runs a node whose inputs are all constant, makes its outputs constants and removes the node.
 * Returns 1 if that was done, 0 if the node is of another kind, or a negative errno.
 */
int rvl_node_evaluate(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err);

struct rvl_interp;

/** Prepares a graph (shapes inferred, nothing UNSUPPORTED). @reference: only rvl_ref_* kernels. */
int rvl_interp_new(const struct rvl_graph *g, bool reference, struct rvl_interp **out,
		   struct rvl_err *err);
void rvl_interp_free(struct rvl_interp *it);

/** Copies @bytes into graph input @i. -EINVAL if the size is not the tensor's. */
int rvl_interp_set(struct rvl_interp *it, uint32_t i, const void *data, size_t bytes,
		   struct rvl_err *err);

/** Runs all nodes in order. */
int rvl_interp_run(struct rvl_interp *it, struct rvl_err *err);

/** The bytes of any tensor of the graph after a run; NULL if it has none. Owned by @it. */
const void *rvl_interp_data(const struct rvl_interp *it, const struct rvl_tensor *t);

/**
 * The shape of any tensor after a run. It can be smaller than the tensor's shape where that is a
 * bound.
 */
const struct rvl_shape *rvl_interp_shape(const struct rvl_interp *it, const struct rvl_tensor *t);

#endif
