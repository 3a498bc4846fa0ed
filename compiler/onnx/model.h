/* SPDX-License-Identifier: MIT */
/*
 * The messages of an ONNX file as views on its bytes: what model.c finds and load.c
 * turns into a graph. Internal to the reader.
 */
#ifndef RVL_ONNX_MODEL_H
#define RVL_ONNX_MODEL_H

#include "graph/graph.h"
#include "onnx/onnx.h"
#include "onnx/wire.h"

#define RVL_ONNX_MAX_INTS 256	/* values of an integer list attribute that is looked at */
#define RVL_ONNX_MAX_STRINGS 16
#define RVL_ONNX_MAX_ATTRS 64
#define RVL_ONNX_MAX_IO 1024	/* inputs or outputs of one node */
#define RVL_ONNX_MIN_IR 3
#define RVL_ONNX_MAX_IR 14
#define RVL_ONNX_MAX_OPSET 28

#define RVL_ONNX_MAX_DEPTH 12	/* subgraphs and functions inside one another */

/* A repeated message field: the fields as read, in order. */
struct rvl_onnx_list {
	struct rvl_field *f;
	uint32_t n;
};

/* The names of inputs or outputs. */
struct rvl_onnx_names {
	struct rvl_span *name;
	uint32_t n;
};

/* A GraphProto that is an attribute. */
struct rvl_onnx_subgraph {
	struct rvl_span bytes;
	struct rvl_onnx_list nodes, initializers;
	struct rvl_onnx_names inputs, outputs;
	const char *constants;	/* prefix of the names of its initializers; NULL: not read yet */
	struct rvl_onnx_subgraph *next;
};

/* A FunctionProto of the model: the body of an operator. */
struct rvl_onnx_function {
	struct rvl_span name, domain, overload;
	struct rvl_onnx_list inputs, outputs;	/* names */
	struct rvl_onnx_list nodes;
	struct rvl_onnx_list defaults;		/* attributes with their values */
	struct rvl_span *default_name;
	bool imports_onnx;
	int64_t opset, ms_opset;
};

/* A name of a scope that stands for a tensor made outside of it; NULL: an absent operand. */
struct rvl_onnx_alias {
	struct rvl_span name;
	struct rvl_tensor *t;
};

/* An attribute of the node that calls a function: the bytes of its AttributeProto. */
struct rvl_onnx_given {
	struct rvl_span name;
	struct rvl_field f;
};

/*
 * Where the names of a subgraph or function body are looked up. The tensors that the body makes
 * have the prefix before their names. A subgraph reads the names of the scope around it as well.
 */
struct rvl_onnx_scope {
	const struct rvl_onnx_scope *outer;	/* NULL: the graph of the model */
	bool closed;				/* a function: names outside are not seen */
	uint32_t depth;
	const char *prefix;
	struct rvl_onnx_alias *alias;
	uint32_t n_alias;
	struct rvl_onnx_given *given;
	uint32_t n_given;
	const struct rvl_onnx_function *fn;	/* of a call: its formal inputs and defaults */
};

/* A name of dimensions and their value. */
struct rvl_onnx_known {
	struct rvl_span name;
	int64_t value;
	bool used;
};

struct rvl_onnx_node;
struct rvl_onnx_cache;

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
	struct rvl_onnx_function *functions;
	uint32_t n_functions;
	struct rvl_onnx_known *known;		/* names of dimensions with their values */
	uint32_t n_known, max_known;
	struct rvl_onnx_cache *cache;		/* the subgraphs that were read */
	bool inner;				/* a subgraph: its value_infos are not read */
	const struct rvl_onnx_scope *scope;	/* of the nodes that are read; NULL: the model's graph */
	/* rvl_onnx_import(): a node may hold subgraphs, whose nodes are imported in turn */
	int (*import)(struct rvl_graph *g, const struct rvl_onnx_model *m,
		      const struct rvl_onnx_node *on, struct rvl_err *err);
};

/* Type and shape of a ValueInfoProto. */
struct rvl_onnx_value {
	struct rvl_span name;
	int64_t elem_type;		/* 0 = not a tensor, or not given */
	bool has_shape;
	struct rvl_shape shape;		/* -1 = symbolic or unknown */
	struct rvl_span symbol[RVL_MAX_RANK];	/* names of the symbolic dimensions */
	bool too_deep;			/* more than RVL_MAX_RANK dimensions */
};

struct rvl_onnx_attr {
	struct rvl_span name;
	struct rvl_field field;		/* BYTES of the AttributeProto */
	struct rvl_span ref;		/* the attribute of the calling node that it stands for */
	bool has_graph;
	struct rvl_field graph;		/* BYTES of the GraphProto */
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
	struct rvl_span overload;
	struct rvl_span in[RVL_ONNX_MAX_IO];
	uint32_t n_in;
	struct rvl_span out[RVL_ONNX_MAX_IO];
	uint32_t n_out;
	struct rvl_onnx_attr attr[RVL_ONNX_MAX_ATTRS];
	uint32_t n_attr;
};

/* ---- model.c ---- */

/** Finds the parts of a ModelProto. The lists come from @g's arena. */
int rvl_onnx_scan(struct rvl_graph *g, const void *buf, size_t len, struct rvl_onnx_model *m,
		  struct rvl_err *err);

/** Reads one ValueInfoProto. */
int rvl_onnx_value(const struct rvl_onnx_model *m, const struct rvl_field *f,
		   struct rvl_onnx_value *v);

/** Finds the parts of a GraphProto that is an attribute: the lists of @m, which was copied. */
int rvl_onnx_scan_graph(struct rvl_graph *g, struct rvl_msg graph, struct rvl_onnx_model *m,
			struct rvl_err *err);

/* ---- subgraph.c ---- */

/** An empty m->cache. */
int rvl_onnx_cache_new(struct rvl_graph *g, struct rvl_onnx_model *m, struct rvl_err *err);

/** The subgraph in the bytes of @f, which is read the first time only. */
int rvl_onnx_subgraph(struct rvl_graph *g, const struct rvl_onnx_model *m,
		      const struct rvl_field *f, struct rvl_onnx_subgraph **out, struct rvl_err *err);

/** A scope inside that of @m in which the initializers of @s have their names. */
int rvl_onnx_enter_subgraph(struct rvl_graph *g, const struct rvl_onnx_model *m, const char *name,
			    struct rvl_onnx_subgraph *s, struct rvl_onnx_scope **out,
			    struct rvl_err *err);

/** The tensor in the bytes of @f, which is read the first time only, then named @name or by itself. */
int rvl_onnx_constant(struct rvl_graph *g, const struct rvl_onnx_model *m,
		      const struct rvl_field *f, const char *name, struct rvl_tensor **out,
		      struct rvl_err *err);

/* ---- dims.c ---- */

/** Puts together what the options say of dimensions. -ENOENT, -EINVAL: they do not fit the model. */
int rvl_onnx_dims(struct rvl_graph *g, struct rvl_onnx_model *m, const struct rvl_onnx_opts *o,
		  struct rvl_err *err);

/** Replaces symbolic dimensions by their values. Returns whether none is left. */
bool rvl_onnx_fix(const struct rvl_onnx_model *m, const struct rvl_onnx_opts *o,
		  struct rvl_onnx_value *v);

/* ---- function.c ---- */

/** Finds the parts of a FunctionProto. */
int rvl_onnx_scan_function(struct rvl_graph *g, const struct rvl_msg *file,
			   const struct rvl_field *f, struct rvl_onnx_function *fn);

/** The function that a node calls, or NULL. */
const struct rvl_onnx_function *rvl_onnx_function(const struct rvl_onnx_model *m,
						  const struct rvl_onnx_node *on);

/** Puts the nodes of a function's body in the place of a node that calls it. */
int rvl_onnx_call(struct rvl_graph *g, const struct rvl_onnx_model *m,
		  const struct rvl_onnx_node *on, const struct rvl_onnx_function *fn,
		  struct rvl_err *err);

/* ---- bodies.c ---- */

/** Whether a node is an operator that is a composition of others. */
bool rvl_onnx_has_body(const struct rvl_onnx_node *on);

/** Puts the nodes of such an operator in its place, or sets *why and does nothing. */
int rvl_onnx_body(struct rvl_graph *g, const struct rvl_onnx_model *m,
		  const struct rvl_onnx_node *on, const char **why, struct rvl_err *err);

/* ---- scope.c ---- */

/** The tensor that a node reads by this name; NULL where it stands for an absent operand. */
int rvl_onnx_reads(struct rvl_graph *g, const struct rvl_onnx_model *m, struct rvl_span name,
		   struct rvl_tensor **out, struct rvl_err *err);

/** The tensor that a node makes by this name. */
int rvl_onnx_makes(struct rvl_graph *g, const struct rvl_onnx_model *m, struct rvl_span name,
		   struct rvl_tensor **out, struct rvl_err *err);

/**
 * A new scope inside that of @m, with room for @n_alias aliases. Its prefix is unique in the graph
 * and begins with @name. -E2BIG beyond RVL_ONNX_MAX_DEPTH.
 */
int rvl_onnx_enter(struct rvl_graph *g, const struct rvl_onnx_model *m, const char *name,
		   uint32_t n_alias, struct rvl_onnx_scope **out, struct rvl_err *err);

/** Reads the nodes of a list in the scope of @m. -E2BIG where bodies expand to too many nodes. */
int rvl_onnx_nodes(struct rvl_graph *g, const struct rvl_onnx_model *m,
		   const struct rvl_onnx_list *nodes, struct rvl_err *err);

/** Reads initializers into the scope of @m. */
int rvl_onnx_constants(struct rvl_graph *g, const struct rvl_onnx_model *m,
		       const struct rvl_onnx_list *initializers, struct rvl_err *err);

/** A node that copies @from to @to, which has no producer. */
int rvl_onnx_copy(struct rvl_graph *g, struct rvl_tensor *from, struct rvl_tensor *to,
		  struct rvl_err *err);

/* ---- control.c ---- */

/** Whether a node is If, Loop or Scan of ai.onnx. */
bool rvl_onnx_is_control(const struct rvl_onnx_node *on);

/**
 * Keeps what shape inference needs to put the nodes of the subgraphs in the place of @n, which is
 * connected and UNSUPPORTED until then.
 */
int rvl_onnx_control(struct rvl_graph *g, const struct rvl_onnx_model *m,
		     const struct rvl_onnx_node *on, struct rvl_node *n, struct rvl_err *err);

/* ---- node.c ---- */

/** Reads one NodeProto into @n (large: the caller keeps one and reuses it). */
int rvl_onnx_node(const struct rvl_onnx_model *m, const struct rvl_field *f,
		  struct rvl_onnx_node *n);

/** The attribute of this name, or NULL. */
const struct rvl_onnx_attr *rvl_onnx_attr(const struct rvl_onnx_node *n, const char *name);

/** Compares a span with a C string. */
bool rvl_span_is(struct rvl_span s, const char *str);

/** A terminated copy; -EBADMSG for a NUL inside, -E2BIG beyond RVL_MAX_NAME. */
int rvl_span_name(struct rvl_graph *g, struct rvl_span s, const char **out, struct rvl_err *err);

/* ---- tensor.c ---- */

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

/** The name in a TensorProto. */
int rvl_onnx_tensor_name(struct rvl_msg m, struct rvl_span *name);

/** float32 for the float types that the graph only stores, every other type as it is. */
enum rvl_type rvl_onnx_computed_type(const struct rvl_graph *g, enum rvl_type t);

/** Converts a constant of such a type to float32. */
int rvl_onnx_computed(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_err *err);

/* ---- float64.c ---- */

/** Sets g->float64 before tensors are read. */
int rvl_onnx_float64(struct rvl_graph *g, const struct rvl_onnx_model *m, struct rvl_err *err);

/* ---- attr.c ---- */

/**
 * The attributes of @on by @def's definitions: an array of rvl_op_attrs(@def) in the arena. *why:
 * what is wrong with the first one that cannot be taken, or NULL. Errors: -ENOMEM, -EBADMSG.
 */
int rvl_onnx_attr_values(struct rvl_graph *g, const struct rvl_onnx_model *m,
			 const struct rvl_onnx_node *on, const struct rvl_op_def *def,
			 struct rvl_attr_value **out, const char **why);

/* ---- ops.c ---- */

/**
 * Turns one NodeProto into a node of the graph: operator, attributes, constants that older opsets
 * keep in attributes. What cannot be taken becomes UNSUPPORTED with a reason.
 */
int rvl_onnx_import(struct rvl_graph *g, const struct rvl_onnx_model *m,
		    const struct rvl_onnx_node *on, struct rvl_err *err);

#endif
