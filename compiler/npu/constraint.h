/* SPDX-License-Identifier: MIT */
/* What the NPU does with each operator. */
#ifndef RVL_CONSTRAINT_H
#define RVL_CONSTRAINT_H

#include "graph/graph.h"

struct rvl_layer;

#define RVL_NPU_CONDITIONS 4

/* How a layer takes the operator that reads its result into its epilogue. */
enum rvl_joins {
	RVL_JOINS_NOT,
	RVL_JOINS_AS_SECOND,	/* as an operation with a second operand */
	RVL_JOINS_AS_POOL,
	RVL_JOINS_AS_TABLE,	/* as a table of all values */
	RVL_JOINS_AS_SLOPES,	/* as factors by channel and side of zero */
	RVL_JOINS_AS_BITS,	/* as a second result */
};

/* One condition under which the NPU computes an operator. */
struct rvl_condition {
	const char *doc;	/* for docs/operators.md; NULL: the operator never runs on the NPU */
	/* NULL if the node fulfils it, else one line why not (static or in the arena). */
	const char *(*check)(struct rvl_graph *g, const struct rvl_node *n);
};

struct rvl_npu_op {
	struct rvl_condition condition[RVL_NPU_CONDITIONS];	/* the first without check ends them */
	/* rvl_layer_build() of this operator; NULL: none */
	struct rvl_layer *(*build)(struct rvl_graph *g, const struct rvl_node *n, bool values,
				   const char **why);
	enum rvl_joins joins;
};

/** The row of an operator, which every number of the table of operators has. */
const struct rvl_npu_op *rvl_npu_op(enum rvl_op op);

/** How a layer takes node @n. */
enum rvl_joins rvl_npu_joins(const struct rvl_node *n);

/** NULL if the NPU's datapath computes this node, else one line why not. Geometry is not asked. */
const char *rvl_npu_reject(struct rvl_graph *g, const struct rvl_node *n);

/**
 * Whether the NPU's average pool gives onnxruntime's result for every possible image: tries all sums
 * that the window, scales and zero points allow. The node's tensors must be quantised.
 */
bool rvl_average_exact(const struct rvl_node *n);

#endif
