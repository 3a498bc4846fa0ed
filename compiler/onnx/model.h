/* SPDX-License-Identifier: MIT */
/*
 * The messages of an ONNX file as views on its bytes: what onnx_model.c finds and onnx_load.c
 * turns into a graph. Internal to the reader.
 */
#ifndef RVL_ONNX_MODEL_H
#define RVL_ONNX_MODEL_H

#include "graph/graph.h"
#include "onnx/wire.h"

#define RVL_ONNX_MAX_INTS 256	/* values of an integer list attribute that is looked at */
#define RVL_ONNX_MAX_STRINGS 16
#define RVL_ONNX_MAX_ATTRS 64
#define RVL_ONNX_MAX_IO 1024	/* inputs or outputs of one node */
#define RVL_ONNX_MIN_IR 3
#define RVL_ONNX_MAX_IR 14
#define RVL_ONNX_MAX_OPSET 28

/* A repeated message field: the fields as read, in order. */
struct rvl_onnx_list {
	struct rvl_field *f;
	uint32_t n;
};

struct rvl_onnx_model {
	int64_t ir_version;
	int64_t opset;		/* of ai.onnx; 0 = not imported, its operators are refused then */
	bool imports_onnx;
	int64_t ms_opset;	/* of com.microsoft; 0 = not imported */
	struct rvl_span producer;
	struct rvl_msg file;
	struct rvl_msg graph;
	struct rvl_span graph_name;
	struct rvl_onnx_list nodes;
	struct rvl_onnx_list initializers;
	struct rvl_onnx_list inputs;
	struct rvl_onnx_list outputs;
	struct rvl_onnx_list value_infos;
};

/* Type and shape of a ValueInfoProto. */
struct rvl_onnx_value {
	struct rvl_span name;
	int64_t elem_type;		/* 0 = not a tensor, or not given */
	bool has_shape;
	struct rvl_shape shape;		/* -1 = symbolic or unknown */
	bool too_deep;			/* more than RVL_MAX_RANK dimensions */
};

struct rvl_onnx_attr {
	struct rvl_span name;
	size_t at;
	int64_t type;			/* AttributeProto.AttributeType */
	int64_t i;
	float f;
	struct rvl_span s;
	bool has_tensor;
	struct rvl_field tensor;	/* BYTES of the TensorProto */
	int64_t ints[RVL_ONNX_MAX_INTS];
	uint32_t n_ints;
	float floats[RVL_ONNX_MAX_INTS];
	uint32_t n_floats;
	struct rvl_span strings[RVL_ONNX_MAX_STRINGS];
	uint32_t n_strings;
	bool too_long;			/* a list has more values than are kept */
};

struct rvl_onnx_node {
	size_t at;
	struct rvl_span name;
	struct rvl_span op_type;
	struct rvl_span domain;
	struct rvl_span in[RVL_ONNX_MAX_IO];
	uint32_t n_in;
	struct rvl_span out[RVL_ONNX_MAX_IO];
	uint32_t n_out;
	struct rvl_onnx_attr attr[RVL_ONNX_MAX_ATTRS];
	uint32_t n_attr;
};

/* ---- onnx_model.c ---- */

/** Finds the parts of a ModelProto. The lists come from @g's arena. */
int rvl_onnx_scan(struct rvl_graph *g, const void *buf, size_t len, struct rvl_onnx_model *m,
		  struct rvl_err *err);

/** Reads one ValueInfoProto. */
int rvl_onnx_value(const struct rvl_onnx_model *m, const struct rvl_field *f,
		   struct rvl_onnx_value *v);

/* ---- onnx_node.c ---- */

/** Reads one NodeProto into @n (large: the caller keeps one and reuses it). */
int rvl_onnx_node(const struct rvl_onnx_model *m, const struct rvl_field *f,
		  struct rvl_onnx_node *n);

/** The attribute of this name, or NULL. */
const struct rvl_onnx_attr *rvl_onnx_attr(const struct rvl_onnx_node *n, const char *name);

/** Compares a span with a C string. */
bool rvl_span_is(struct rvl_span s, const char *str);

/** A terminated copy; -EBADMSG for a NUL inside, -E2BIG beyond RVL_MAX_NAME. */
int rvl_span_name(struct rvl_graph *g, struct rvl_span s, const char **out, struct rvl_err *err);

/* ---- onnx_tensor.c ---- */

/** Element type of a TensorProto.DataType; RVL_TYPE_NONE if there is no kernel for it. */
enum rvl_type rvl_onnx_type(int64_t data_type);

/** Name of a TensorProto.DataType ("double"), for messages. */
const char *rvl_onnx_type_name(int64_t data_type);

/**
 * Reads a TensorProto as a new constant, named @name or (NULL) as it says itself; without a name
 * of its own it gets a made-up one. The data borrows from the file if it is aligned there.
 */
int rvl_onnx_tensor(struct rvl_graph *g, struct rvl_msg m, const char *name,
		    struct rvl_tensor **out);

/** float32 for the float types that are only stored, every other type as it is. */
enum rvl_type rvl_onnx_computed_type(enum rvl_type t);

/** Converts a constant of such a type to float32. */
int rvl_onnx_computed(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_err *err);

/* ---- onnx_attr.c ---- */

/**
 * The attributes of @on by @def's definitions: an array of rvl_op_attrs(@def) in the arena. *why:
 * what is wrong with the first one that cannot be taken, or NULL. Errors: -ENOMEM, -EBADMSG.
 */
int rvl_onnx_attr_values(struct rvl_graph *g, const struct rvl_onnx_model *m,
			 const struct rvl_onnx_node *on, const struct rvl_op_def *def,
			 struct rvl_attr_value **out, const char **why);

/* ---- onnx_ops.c ---- */

/**
 * Turns one NodeProto into a node of the graph: operator, attributes, constants that older opsets
 * keep in attributes. What cannot be taken becomes UNSUPPORTED with a reason.
 */
int rvl_onnx_import(struct rvl_graph *g, const struct rvl_onnx_model *m,
		    const struct rvl_onnx_node *on, struct rvl_err *err);

#endif
