/* SPDX-License-Identifier: MIT */
/* What the datapath of the NPU computes. */
#ifndef RVL_CONSTRAINT_H
#define RVL_CONSTRAINT_H

#include "graph/graph.h"

/* One condition under which the NPU computes an operator. */
struct rvl_constraint {
	enum rvl_op op;
	const char *doc;	/* sentence for docs/operators.md; NULL: this operator never runs there */
	/* NULL if the node fulfils it, else one line why not (static or in the arena). */
	const char *(*check)(struct rvl_graph *g, const struct rvl_node *n);
};

/** The table of all conditions. */
const struct rvl_constraint *rvl_constraints(size_t *n);

/**
 * Whether the NPU's average pool gives onnxruntime's result for every possible image: tries all sums
 * that the window, scales and zero points allow. The node's tensors must be quantised.
 */
bool rvl_average_exact(const struct rvl_node *n);

/** NULL if the NPU's datapath computes this node, else one line why not. Geometry is not asked. */
const char *rvl_npu_reject(struct rvl_graph *g, const struct rvl_node *n);

#endif
