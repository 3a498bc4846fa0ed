/* SPDX-License-Identifier: MIT */
/*
 * The graph of the compiler: what the ONNX reader makes, the passes change, the interpreter runs
 * and the back end lowers.
 *
 * Ownership: a graph owns one arena; nodes, tensors, names, arrays and constants live in it until
 * rvl_graph_free(). Constant data may instead borrow from the model's bytes (zero copy), so the
 * buffer given to rvl_onnx_load() must outlive the graph. Pointers to nodes and tensors are stable;
 * the arrays g->nodes and g->tensors may be reallocated by any function that adds to them.
 *
 * Invariants, checked by rvl_graph_verify():
 * - g->nodes is in topological order and holds only live nodes;
 * - a tensor has at most one producer, and is exactly one of: graph input, constant, produced;
 * - node->in[i] may be NULL (an optional input that is absent), node->out[i] for i > 0 too;
 * - after rvl_shape_infer() every live tensor has a type and a shape without unknowns.
 *
 * The dimensions of activations are in the order NCHW and those of weights [M, C/group, kh, kw], as
 * in ONNX, whatever the order of the elements in memory is (rvl_tensor.layout). The blocked layout is
 * the back end's.
 *
 * Quantised tensors: a type of U8 or S8 (S32 for a bias) and quant.n > 0. After rvl_pass_fuse()
 * every tensor at a Q_* operator is quantised, all its parameters constant.
 */
#ifndef RVL_GRAPH_H
#define RVL_GRAPH_H

#include "base/arena.h"
#include "base/err.h"
#include "rivulet_kernels.h"

struct rvl_graph;
struct rvl_node;

/* Hard limits on the size of a model. Each limit is checked where the object is created. */
#define RVL_MAX_NODES 16384		/* of a model */
/* of a graph; passes may add nodes before they remove others */
#define RVL_MAX_GRAPH_NODES 65536
#define RVL_MAX_TENSORS 65536
#define RVL_MAX_DIM (1 << 24)
#define RVL_MAX_NAME 1024
#define RVL_MAX_TENSOR_BYTES ((int64_t)1 << 30)
#define RVL_MAX_GRAPH_BYTES ((size_t)2 << 30)

/*
 * Quantisation of a tensor: real = (q - zp[c]) * scale[c].
 * n = 0: not quantised. n = 1: per tensor. n > 1: per channel along @axis (n = dim[axis]).
 * zp is always given as int32, whatever the tensor's type. After BatchNorm folding a scale of
 * weights may be negative; it is never 0, NaN or infinite.
 */
struct rvl_quant {
	uint32_t n;
	int32_t axis;
	const float *scale;
	const int32_t *zp;
	/* the model gives none: scale 1, zero point 0, so that the NPU can move the bytes */
	bool plain;
};

/* A tensor where all sizes that only a run knows are the most that they can be, or 0. */
enum { RVL_EXTREME_MOST, RVL_EXTREME_NONE, RVL_EXTREMES };

struct rvl_extreme {
	bool shaped;			/* the shape is known */
	struct rvl_shape shape;
	const void *data;		/* its values, or NULL */
};

struct rvl_tensor {
	const char *name;		/* never NULL, unique in the graph */
	uint32_t id;			/* index in g->tensors */
	enum rvl_type type;		/* NONE until known */
	bool shaped;			/* shape is known */
	bool is_input;			/* a graph input */
	/* a graph output (also when it is a constant or an input) */
	bool is_output;
	bool declared;			/* the model declared type and shape (value_info) */
	struct rvl_shape shape;
	struct rvl_quant quant;
	/* constant, else NULL; little endian, dense, element aligned */
	const void *data;
	/* why no kernel can take this tensor ("element type string"), else NULL */
	const char *bad;
	bool nibbles;			/* a constant of 4-bit values, which DequantizeLinear alone takes */
	bool bounded;			/* @shape is an upper bound; a run determines the shape */
	struct rvl_extreme *extreme;	/* RVL_EXTREMES of them if shape or values follow from such a shape, else NULL */
	/*
	 * Set for an input or output of the model whose type is converted for computation (float16,
	 * bfloat16, float64): the float32 tensor that the nodes read or make instead. Else NULL.
	 */
	struct rvl_tensor *computed;
	/*
	 * The tensor in whose store this one lies, from byte @base_at on; NULL: it has its own store.
	 * Set by rvl_pass_views() and rvl_pass_pitches(); then @base has a store of its own.
	 */
	struct rvl_tensor *base;
	uint64_t base_at;
	/*
	 * Set by rvl_pass_pitches(), on tensors with a base: elements lie @pitch bytes apart, by
	 * dimension, and @base_at is the lowest byte of any. Else they are dense in @layout.
	 */
	bool pitched;
	int64_t pitch[RVL_MAX_RANK];
	/* NHWC: set by rvl_pass_layout(), on images that are no inputs, outputs or constants */
	enum rivulet_layout layout;
	bool npu_bytes;			/* bits that only the NPU has, as int8 of +1 and -1 */
	bool holds_output;		/* a view of it is a graph output: its store is the output's */
	struct rvl_node *producer;	/* NULL for graph inputs and constants */
	struct rvl_node **users;	/* nodes that read it, one entry for each use */
	uint32_t n_users;
	uint32_t cap_users;
};

enum rvl_place {
	RVL_PLACE_CPU = 0,
	RVL_PLACE_NPU = 1,
};

/*
 * What shape inference does with a node of control flow (If, Loop, Scan), whose subgraphs only the
 * reader can read. expand() either appends new nodes to the graph and removes @n, or it changes
 * nothing and sets *why. The new nodes may be of control flow, too.
 */
struct rvl_control {
	int (*expand)(struct rvl_graph *g, struct rvl_node *n, const char **why, struct rvl_err *err);
};

struct rvl_node_chain;

struct rvl_node {
	const char *name;		/* never NULL; "Conv_12" style when the model gave none */
	const char *op_type;		/* as the model wrote it, for messages ("QLinearConv") */
	uint32_t id;			/* stable number, order of creation */
	enum rvl_op op;
	struct rvl_attr attr;
	/*
	 * The operator's row in the table of descriptors and its attributes, or NULL. @op is
	 * RVL_OP_GENERAL where no special kernel takes the node. Otherwise @op selects the meaning
	 * of @attr.
	 */
	const struct rvl_op_def *def;
	const struct rvl_attr_value *value;
	const struct rvl_control *control;	/* or NULL; @op is UNSUPPORTED */
	uint32_t n_in;
	uint32_t n_out;
	struct rvl_tensor *in[RVL_MAX_IN];
	struct rvl_tensor *out[RVL_MAX_OUT];
	enum rvl_place place;		/* set by rvl_pass_partition() */
	uint32_t segment;		/* index in g->segs, set by rvl_pass_partition() */
	/*
	 * One line. For UNSUPPORTED: why nothing runs the node. On the CPU: why it is not on the
	 * NPU. On the NPU: NULL. The text is static or owned by the arena.
	 */
	const char *reason;
	const char *note;		/* one more line for the account of a compilation, or NULL */
	const char *fused;		/* names of the nodes fused into it, "a+b+c", or NULL */
	bool stochastic;		/* its products are streams where a variant has a length */
	bool free;			/* its results are views: nothing executes it (rvl_pass_views()) */
	bool copies;			/* made by rvl_pass_views() to copy a value that is no view */
	struct rvl_node_chain *chain;	/* whose step computes it, or NULL; set by rvl_pass_chains() */
};

/* Nodes that one step of the CPU computes together, in order; only the last result is read outside. */
struct rvl_node_chain {
	uint32_t n;
	struct rvl_node *node[RVL_CHAIN_MAX];
};

/* A run of nodes g->nodes[first .. first + count) of one place, in order of execution. */
struct rvl_segment {
	enum rvl_place place;
	uint32_t first;
	uint32_t count;
};

/* What tensors have of a file beside the model. Several may have the same bytes. */
struct rvl_shared {
	struct rvl_shared *next;
	const char *location;
	uint64_t end;			/* the largest end of a tensor's bytes */
	uint64_t sum;			/* of the bytes of all tensors */
};

struct rvl_graph {
	struct rvl_arena *arena;
	const char *name;
	const char *producer;		/* producer_name of the model, may be "" */
	int64_t ir_version;
	int64_t opset;			/* of the ai.onnx domain */
	struct rvl_node **nodes;
	uint32_t n_nodes, cap_nodes;
	struct rvl_tensor **tensors;
	uint32_t n_tensors, cap_tensors;
	struct rvl_tensor **inputs;	/* without those that have an initialiser */
	uint32_t n_inputs;
	struct rvl_tensor **outputs;
	uint32_t n_outputs;
	struct rvl_segment *segs;	/* after rvl_pass_partition() */
	uint32_t n_segs;
	/*
	 * The user accepts average pools whose results differ by one from onnxruntime's, which sums
	 * them in float. Without it, a Q_AVERAGE_POOL that is not provably exact stays on the CPU
	 * (average.c; docs/numerics.md, 4).
	 */
	bool npu_average_pool;
	bool npu_no_wide; /* layouts are not chosen, so that the NPU takes no images of int16 */
	uint32_t word;			/* channels of a word of the target's NPU; 0: it has none */
	bool reconstruct;		/* float consumers evict no operator from the NPU: reconstruct.c */
	const char *binary_note; /* of how many bits the images of binary layers are, and why; or NULL */
	bool no_binary;			/* rvl_pass_binary() changes nothing */
	bool calibrated;		/* images that binary layers make were quantised by examples */
	/*
	 * Why a binary layer of @m output channels in @group groups is to be int8 on the target, or NULL;
	 * the function is NULL where each may be binary.
	 */
	const char *(*keeps_int8)(const void *target, int64_t m, int64_t group);
	const void *target;
	bool npu_bits;			/* the target's NPU makes bits */
	uint32_t sc_longest;		/* longest stream of any variant; 0: none */
	/* pools tried for exactness; limited, because a trial takes long */
	uint32_t average_tries;
	const struct rivulet_files *files;	/* while a model is read, or NULL */
	bool float64;			/* its float64 tensors are computed as such, not in float32 */
	bool from_files;		/* data came from files */
	uint8_t files_hash[32];		/* SHA-256 of the one before and that of the next data from a file */
	struct rvl_shared *shared;	/* of the files whose data tensors have */
	uint64_t given;			/* bytes of the constants that the model has */
	size_t memory_per_byte;		/* of the arena's limit, for each byte of data in other files */
	uint64_t folded;		/* bytes of those that folding made and nobody released */
	uint64_t moved;			/* bytes of operands and results of the others that it computed */
	uint64_t worked;		/* multiply-accumulates of costly operators that folding computed */
	uint32_t expanded;		/* nodes of subgraphs and function bodies read so far */
	uint32_t next_scope;
	uint32_t next_node_id;
	uint32_t next_name;
	void *name_index;		/* hash of names, private to graph.c */
};

/* ---- construction and changes ---- */

/** An empty graph, or NULL. Free with rvl_graph_free(). */
struct rvl_graph *rvl_graph_new(void);
/** The same in *@out, for a graph that may hold what the limit of memory leaves beside @with now. -ENOMEM. */
int rvl_graph_beside(const struct rvl_graph *with, struct rvl_graph **out, struct rvl_err *err);

/** NULL is allowed. */
void rvl_graph_free(struct rvl_graph *g);

/**
 * A new tensor without type, shape, data or producer. @name is copied; NULL makes up a unique one.
 * -EEXIST if the name is taken, -E2BIG beyond the limits, -ENOMEM.
 */
int rvl_tensor_new(struct rvl_graph *g, const char *name, struct rvl_tensor **out,
		   struct rvl_err *err);

/** The tensor of this name, or NULL. */
struct rvl_tensor *rvl_tensor_find(const struct rvl_graph *g, const char *name);

/** A new tensor with the type, shape and quantisation of @like. */
int rvl_tensor_like(struct rvl_graph *g, const struct rvl_tensor *like, struct rvl_tensor **out,
		    struct rvl_err *err);

/** A new constant; @data of rvl_tensor_bytes() is copied into the arena. */
int rvl_tensor_const(struct rvl_graph *g, const char *name, enum rvl_type type,
		     const struct rvl_shape *shape, const void *data, struct rvl_tensor **out,
		     struct rvl_err *err);

/** Bytes of the dense tensor (0 is possible), or -1 when type or shape are unknown or too large. */
int64_t rvl_tensor_bytes(const struct rvl_tensor *t);

/** Bytes from the lowest to the highest of any element: those of the tensor unless it is pitched. */
int64_t rvl_tensor_span(const struct rvl_tensor *t);

/** Sets per-tensor (n = 1) or per-channel parameters, copied. -EINVAL on a scale that is 0 or NaN. */
int rvl_tensor_set_quant(struct rvl_graph *g, struct rvl_tensor *t, uint32_t n, int32_t axis,
			 const float *scale, const int32_t *zp, struct rvl_err *err);

/**
 * A new node, appended to g->nodes. The caller keeps the order topological, or calls
 * rvl_graph_sort(). Attributes are neutral, inputs and outputs absent.
 */
int rvl_node_new(struct rvl_graph *g, enum rvl_op op, const char *name, struct rvl_node **out,
		 struct rvl_err *err);
/** A new node that computes as @n, with its attributes; inputs and outputs are absent. */
int rvl_node_like(struct rvl_graph *g, const struct rvl_node *n, const char *name,
		  struct rvl_node **out, struct rvl_err *err);

/**
 * A new node of RVL_OP_GENERAL. @value: rvl_op_attrs(@def) attributes, which must live as long as
 * the graph.
 */
int rvl_node_general(struct rvl_graph *g, const struct rvl_op_def *def,
		     const struct rvl_attr_value *value, const char *name, struct rvl_node **out,
		     struct rvl_err *err);

/** Sets input @i (NULL = absent) and updates users[] of the old and of the new tensor. */
int rvl_node_set_in(struct rvl_graph *g, struct rvl_node *n, uint32_t i, struct rvl_tensor *t,
		    struct rvl_err *err);

/** Sets output @i; the tensor's producer becomes @n. A former output loses its producer. */
void rvl_node_set_out(struct rvl_node *n, uint32_t i, struct rvl_tensor *t);

/** Removes a node from the graph: its inputs lose a user, its outputs their producer. */
void rvl_node_remove(struct rvl_graph *g, struct rvl_node *n);

/** Makes all readers of @from (graph outputs included) read @to. */
int rvl_tensor_replace(struct rvl_graph *g, struct rvl_tensor *from, struct rvl_tensor *to,
		       struct rvl_err *err);

/** Adds to the list of graph inputs or outputs. */
int rvl_graph_add_input(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_err *err);
int rvl_graph_add_output(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_err *err);

/**
 * Turns a graph input into a constant with a copy of @data (@bytes must match its declared type
 * and shape). -ENOENT if there is no such input, -EINVAL if the size differs.
 */
int rvl_graph_freeze(struct rvl_graph *g, const char *input, const void *data, size_t bytes,
		     struct rvl_err *err);

/** The present nodes of @g, in its arena, for a pass that adds and removes nodes. -ENOMEM. */
int rvl_graph_nodes(struct rvl_graph *g, struct rvl_node ***list, uint32_t *n, struct rvl_err *err);
/** Stable topological sort of g->nodes. -ELOOP names a node on a cycle. */
int rvl_graph_sort(struct rvl_graph *g, struct rvl_err *err);

/** Checks every invariant above; -EINVAL names the node or tensor that breaks one. */
int rvl_graph_verify(const struct rvl_graph *g, struct rvl_err *err);

/**
 * A deep copy of structure and attributes; constant data is shared, so @g must outlive the copy. Both
 * together stay within the limit of memory of @g. -ENOMEM.
 */
int rvl_graph_clone(const struct rvl_graph *g, struct rvl_graph **out, struct rvl_err *err);

/**
 * Returns -EOPNOTSUPP if a node is UNSUPPORTED. The error names the first such node, its reason,
 * and the number of further ones.
 */
int rvl_graph_check_supported(const struct rvl_graph *g, struct rvl_err *err);

/** printf into the arena, for reasons and names; NULL without memory. */
const char *rvl_graph_printf(struct rvl_graph *g, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- queries ---- */

/** Whether the result is the operand's bytes in another shape. */
static inline bool rvl_op_renames(enum rvl_op op)
{
	return rvl_op_traits(op) & RVL_TRAIT_RENAMES;
}

/** A convolution or matrix product between quantised tensors, made by fusion. */
static inline bool rvl_is_quant_product(const struct rvl_node *n)
{
	uint32_t both = RVL_TRAIT_PRODUCT | RVL_TRAIT_MADE;

	return (rvl_op_traits(n->op) & both) == both;
}

/** Multiplications of a convolution or matrix product, padding counted; 0 of any other node. */
uint64_t rvl_node_macs(const struct rvl_node *n);

/**
 * Whether a layer of the NPU sees the operands of the node as images, in whichever layout. The only
 * Q_GENERAL on the NPU is PRelu by channel.
 */
static inline bool rvl_layer_of_images(const struct rvl_node *n)
{
	return !n->free && !rvl_op_renames(n->op) && n->op != RVL_OP_TRANSPOSE &&
	       (n->op == RVL_OP_Q_GENERAL || rvl_op_traits(n->op) & (RVL_TRAIT_NHWC | RVL_TRAIT_NHWC_EACH));
}

/** 8-bit type with parameters. */
static inline bool rvl_is_quant8(const struct rvl_tensor *t)
{
	return t && (t->type == RVL_TYPE_U8 || t->type == RVL_TYPE_S8) && t->quant.n > 0;
}

/** 8-bit type with one scale and one zero point for the whole tensor. */
static inline bool rvl_is_quant8_tensor(const struct rvl_tensor *t)
{
	return rvl_is_quant8(t) && t->quant.n == 1;
}

/** int16 with one scale and one zero point for the whole tensor. */
static inline bool rvl_is_quant16_tensor(const struct rvl_tensor *t)
{
	return t && t->type == RVL_TYPE_S16 && t->quant.n == 1;
}

/*
 * A quantised tensor as a device sees it that computes on int8: the same bytes XOR @flip, read as
 * int8, with zero point @zp. For a uint8 tensor flip is 0x80 and zp is the zero point - 128; for
 * int8 flip is 0. Scales and real values are the same, so the result does not change.
 */
struct rvl_as_s8 {
	uint8_t flip;
	int32_t zp;
};

static inline struct rvl_as_s8 rvl_tensor_as_s8(const struct rvl_tensor *t)
{
	bool u8 = t->type == RVL_TYPE_U8;
	int32_t zp = t->quant.n ? t->quant.zp[0] : 0;

	return (struct rvl_as_s8) { .flip = u8 ? 0x80 : 0, .zp = u8 ? zp - 128 : zp };
}

/**
 * The clamp of a node's quantised output in units of its type, limited to the range of the type.
 */
void rvl_node_q_range(const struct rvl_node *n, int32_t *lo, int32_t *hi);

/**
 * The properties of a node that a kernel needs: types, shapes, quantisation and constant data of
 * its tensors. Everything is borrowed from the graph.
 */
void rvl_node_desc(const struct rvl_node *n, struct rvl_kernel_desc *d);

/**
 * The same of the kernel that computes a chain; its parts are of the graph's arena. @in, of RVL_MAX_IN:
 * the tensors of its inputs. -ENOMEM, or -E2BIG.
 */
int rvl_chain_desc(struct rvl_graph *g, const struct rvl_node_chain *chain, struct rvl_kernel_desc *d,
		   struct rvl_tensor **in);
/** Whether the node is the last of a chain. */
bool rvl_ends_chain(const struct rvl_node *n);
/** Whether the chain begins with a quantisation, which its first operator does. */
bool rvl_has_front(const struct rvl_node_chain *c);

/** A node of the table of descriptors as its shape rule sees it: no outputs yet. */
void rvl_node_call(const struct rvl_node *n, struct rvl_call *c);

/**
 * Computes types and shapes of all tensors from those of the graph inputs. Resolves auto_pad,
 * negative axes and default permutations in the attributes, and checks every node's arguments
 * against each other. A node whose rank or types no kernel takes becomes UNSUPPORTED with a reason,
 * and its outputs keep the declared shape. Inconsistent shapes are -EINVAL, and the error names the
 * node and the tensors.
 */
int rvl_shape_infer(struct rvl_graph *g, struct rvl_err *err);

#endif
