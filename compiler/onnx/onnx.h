/* SPDX-License-Identifier: MIT */
/* Reading ONNX models. */
#ifndef RVL_ONNX_H
#define RVL_ONNX_H

#include "base/files.h"
#include "graph/graph.h"

/* The shape of an input, and the value of a dimension's name (dim_param). */
struct rvl_onnx_shape {
	const char *input;
	struct rvl_shape shape;
};

struct rvl_onnx_symbol {
	const char *name;
	int64_t value;
};

struct rvl_onnx_opts {
	int64_t batch;		/* value for a symbolic first dimension; 0 = 1 */
	int64_t symbol;		/* value for any other symbolic dimension; 0 = refuse it */
	/*
	 * A shape decides before a named symbol, that before @batch and @symbol. A dimension's name
	 * has the value that a shape gives it in the whole model.
	 */
	const struct rvl_onnx_shape *shapes;
	uint32_t n_shapes;
	const struct rvl_onnx_symbol *symbols;
	uint32_t n_symbols;
	const struct rivulet_files *files;	/* NULL: tensors in other files are refused */
	size_t memory;		/* most bytes of the graph's arena; 0: RVL_MAX_GRAPH_BYTES */
	size_t memory_held;	/* of these, bytes that its caller holds from the start on */
	size_t memory_per_byte;	/* by which it is raised for each byte of data in other files */
};

/**
 * Reads an ONNX ModelProto. @buf must outlive the graph (initialisers are not copied where their
 * alignment allows). @opts may be NULL. Operators that are unknown or have unsupported attributes
 * become RVL_OP_UNSUPPORTED nodes with a reason; malformed bytes are -EBADMSG with the field and
 * byte offset, limits -E2BIG, external data without opts->files -EOPNOTSUPP. Shapes are not inferred yet.
 */
int rvl_onnx_load(const void *buf, size_t len, const struct rvl_onnx_opts *opts,
		  struct rvl_graph **out, struct rvl_err *err);

/** A TensorProto file (ONNX test data). The tensor is a constant in @g, named @name or its own. */
int rvl_onnx_load_tensor(struct rvl_graph *g, const void *buf, size_t len, const char *name,
			 struct rvl_tensor **out, struct rvl_err *err);

/** Name of attribute @i that gives the value of a Constant; NULL behind the last. */
const char *rvl_onnx_constant_attr(size_t i);

/** Name of composition @i, an operator that becomes nodes of others; NULL behind the last. */
const char *rvl_onnx_body_op(size_t i, const char **domain);

#endif
