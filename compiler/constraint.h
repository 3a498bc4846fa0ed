/* SPDX-License-Identifier: MIT */
#ifndef RVL_CONSTRAINT_H
#define RVL_CONSTRAINT_H

#include "graph.h"

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

/* What the reader knows of one operator. */
struct rvl_onnx_op {
	const char *op_type;
	const char *domain;
	enum rvl_op op;
	int since;		/* first opset */
};

/** Operator number @i of the reader's table; false behind the last. */
bool rvl_onnx_op(size_t i, struct rvl_onnx_op *out);

/** Name of attribute @k of operator @i of the reader's table; NULL behind the last. */
const char *rvl_onnx_op_attr(size_t i, size_t k);

#endif
