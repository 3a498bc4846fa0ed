/* SPDX-License-Identifier: MIT */
/*
 * The table of operators: one descriptor for each operator and each opset at which its meaning
 * changes. The reader of models, the inference of shapes, the constant folder, the interpreter, the
 * runtime and docs/operators.md all work from it, so an operator is added in one file of
 * kernels/op/: every file there defines `const struct rvl_op_def rvl_ops_FILE[]`, and make collects
 * them.
 *
 * A descriptor computes on struct rvl_call: the node's attributes and its operands with type, shape
 * and, where known, data. The shape rule and the computation see the same call.
 */
#ifndef RIVULET_OP_H
#define RIVULET_OP_H

#include "rivulet_ops.h"

#define RVL_MAX_ATTRS 24
#define RVL_WHY_MAX 160

struct rvl_pool;
struct rvl_call;

enum rvl_attr_kind {
	RVL_ATTR_INT = 1,
	RVL_ATTR_FLOAT,
	RVL_ATTR_STRING,
	RVL_ATTR_INTS,
	RVL_ATTR_FLOATS,
	RVL_ATTR_STRINGS,
	RVL_ATTR_TENSOR,	/* read as one dimension */
	RVL_ATTR_IGNORED,	/* an attribute of any kind, which inference ignores */
};

/* An attribute that an operator knows. The values are the default; required: there is none. */
struct rvl_attr_def {
	const char *name;	/* NULL ends a list */
	enum rvl_attr_kind kind;
	bool required;
	bool fixed;		/* models cannot give it: this opset has its default alone */
	int32_t from, until;	/* opsets of the row that define it: until is the first that does not; 0: all */
	int64_t i;
	float f;
	const char *s;
	const char *choices;	/* STRING, INT: allowed values, separated by '|'; NULL: any */
};

#define RVL_INT(n, value) { .name = (n), .kind = RVL_ATTR_INT, .i = (value) }
/* An integer that the opset does not define: it has the value by which later opsets default. */
#define RVL_FIXED(n, value) { .name = (n), .kind = RVL_ATTR_INT, .i = (value), .fixed = true }
/* An integer that is 0 or 1. */
#define RVL_FLAG(n, value) { .name = (n), .kind = RVL_ATTR_INT, .i = (value), .choices = "0|1" }
#define RVL_INT_REQUIRED(n) { .name = (n), .kind = RVL_ATTR_INT, .required = true }
#define RVL_FLOAT(n, value) { .name = (n), .kind = RVL_ATTR_FLOAT, .f = (value) }
#define RVL_STRING(n, value, list) \
	{ .name = (n), .kind = RVL_ATTR_STRING, .s = (value), .choices = (list) }
#define RVL_STRING_REQUIRED(n, list) \
	{ .name = (n), .kind = RVL_ATTR_STRING, .required = true, .choices = (list) }
#define RVL_INTS(n) { .name = (n), .kind = RVL_ATTR_INTS }
#define RVL_INTS_REQUIRED(n) { .name = (n), .kind = RVL_ATTR_INTS, .required = true }
#define RVL_FLOATS(n) { .name = (n), .kind = RVL_ATTR_FLOATS }
#define RVL_STRINGS(n) { .name = (n), .kind = RVL_ATTR_STRINGS }
#define RVL_TENSOR(n) { .name = (n), .kind = RVL_ATTR_TENSOR }
#define RVL_IGNORED(n) { .name = (n), .kind = RVL_ATTR_IGNORED }
/* Attributes that only some opsets of a row define. */
#define RVL_IGNORED_UNTIL(n, opset) { .name = (n), .kind = RVL_ATTR_IGNORED, .until = (opset) }
#define RVL_IGNORED_FROM(n, opset) { .name = (n), .kind = RVL_ATTR_IGNORED, .from = (opset) }
#define RVL_FLAG_FROM(n, value, opset) \
	{ .name = (n), .kind = RVL_ATTR_INT, .i = (value), .choices = "0|1", .from = (opset) }
/* What opsets before 6 said about memory. */
#define RVL_CONSUMED RVL_IGNORED_UNTIL("consumed_inputs", 6)
#define RVL_ATTRS(...) ((const struct rvl_attr_def[]) { __VA_ARGS__, { .name = NULL } })

/*
 * The value of an attribute, at the index of its definition. What it points to belongs to the
 * graph's arena or to the bytes of a program. An attribute that is not given has the default of the
 * definition, lists then have no elements.
 */
struct rvl_attr_value {
	bool given;
	enum rvl_type type;	/* TENSOR: of its elements */
	uint32_t n;		/* elements of a list or tensor; STRING: bytes */
	int64_t i;
	float f;
	const void *data;	/* int64_t, float, or elements; strings, each ended by NUL */
};

#define RVL_RANK_COMPILED (-1)

/*
 * An operand. type NONE: absent. A shape of rank RVL_RANK_COMPILED, which only the functions of
 * rivulet_kernels.h take, stands for that of the kernel's descriptor.
 */
struct rvl_value {
	enum rvl_type type;
	struct rvl_shape shape;
	void *data;		/* first element; inputs are only read; NULL in a shape rule: known at run time only */
	/*
	 * Bytes from one index of a dimension to the next, which may be negative or 0; NULL: dense, row
	 * major. Only operands that the row declares (rvl_op_def.pitched) have pitches.
	 */
	const int64_t *pitch;
};

/*
 * Elements that an operator copies: element (i0, i1, …) of the box lies at from_at + i0 * from[0] +
 * i1 * from[1] + … of input @in and at to_at + i0 * to[0] + … of output @out, both row major.
 */
struct rvl_op_box {
	uint32_t in, out;
	int64_t from_at, to_at;
	int32_t rank;
	int64_t dim[2 * RVL_MAX_RANK], from[2 * RVL_MAX_RANK], to[2 * RVL_MAX_RANK];
};

struct rvl_op_boxes {
	uint32_t n;
	struct rvl_op_box box[RVL_MAX_IN];
};

/* A call of an operator. */
struct rvl_call {
	const struct rvl_op_def *def;
	const struct rvl_attr_value *attr;	/* by index in def->attrs */
	uint32_t n_in, n_out;			/* the last one is present */
	struct rvl_value in[RVL_MAX_IN];
	struct rvl_value out[RVL_MAX_OUT];
	/*
	 * A shape rule sets it when the shape of the outputs is known at run time only: their
	 * shapes are then upper bounds, and rvl_op_def.run sets the true ones.
	 */
	bool bounded;
	uint32_t varies;	/* bit d: dimension d of the outputs is the one that the data of this operator decide */
	/* A shape rule failed because data that decides the shape is known at run time only. */
	bool unknown;
	struct rvl_op_boxes *boxes;		/* not NULL: run() lists its boxes and copies nothing */
	void *scratch;				/* def->scratch() bytes, 64-byte aligned */
	const float *packed;			/* what def->pack() wrote, for these shapes; or NULL */
	const struct rvl_pool *pool;		/* NULL: one thread */
	char why[RVL_WHY_MAX];			/* one line, when a function returns an error */
};

/* Sets of element types. */
#define RVL_T(name) (1u << RVL_TYPE_##name)
/*
 * float16 and bfloat16 are converted at the inputs and outputs of a model. So is float64, unless all
 * operators of the model take it.
 */
#define RVL_T_FLOAT RVL_T(F32)
#define RVL_T_SIGNED (RVL_T(S8) | RVL_T(S16) | RVL_T(S32) | RVL_T(S64))
#define RVL_T_UNSIGNED (RVL_T(U8) | RVL_T(U16) | RVL_T(U32) | RVL_T(U64))
#define RVL_T_INT (RVL_T_SIGNED | RVL_T_UNSIGNED)
#define RVL_T_NUMBER (RVL_T_INT | RVL_T_FLOAT)
#define RVL_T_ANY (RVL_T_NUMBER | RVL_T(BOOL))
#define RVL_T_INDEX (RVL_T(S32) | RVL_T(S64))
#define RVL_T_REAL (RVL_T_NUMBER | RVL_T(F64))
#define RVL_T_MOVED (RVL_T_ANY | RVL_T(F64))
#define RVL_T_STORED (RVL_T_ANY | RVL_T(F16) | RVL_T(BF16) | RVL_T(F64))

enum rvl_op_flag {
	RVL_OP_ELEMENTWISE = 1 << 0,	/* each result depends on the operands at its own place */
	RVL_OP_MOVES = 1 << 1,		/* every result is an element of input 0, unchanged */
	RVL_OP_NEEDS_NO_DATA = 1 << 2,	/* the result follows from the shapes of the inputs */
	RVL_OP_RANDOM = 1 << 3,		/* must not be folded */
	RVL_OP_MOVES_IF_NEAREST = 1 << 4, /* MOVES where attribute mode is "nearest" and nothing is extrapolated */
	RVL_OP_JOINS = 1 << 5,		/* every result is an element of one of the inputs, unchanged */
	/* Every result is an element of input 0 or, where mode is "constant", the value of input 2 (absent: 0). */
	RVL_OP_PADS = 1 << 6,
	RVL_OP_BOXES = 1 << 7,		/* copies boxes of elements and nothing else: see rvl_call.boxes */
	RVL_OP_BLENDS = 1 << 8,		/* every result is a weighted mean of elements of input 0 */
	/* BLENDS where attribute mode is "linear" or "bilinear" and nothing is extrapolated. */
	RVL_OP_BLENDS_IF_LINEAR = 1 << 9,
	RVL_OP_FLAT_AXES = 1 << 10,	/* the axes from attribute axis on count as one */
};

/*
 * What a rewrite of the compiler needs an operator for. The row of a role has the operands and
 * attributes that ONNX gave the operator at the opset of rvl_op_of_role().
 */
enum rvl_role {
	RVL_ROLE_NONE,
	/* Channels become blocks of pixels: attributes blocksize and, from opset 11, mode. */
	RVL_ROLE_CHANNELS_TO_PIXELS,
	RVL_ROLE_CUT,	/* a part of every axis: starts, ends, axes as inputs 1 to 3 */
	RVL_ROLE_JOIN,	/* the operands one behind the other: attribute axis */
	RVL_ROLE_TRANSPOSED_CONV,
	RVL_ROLE_MEAN,	/* along axes */
	RVL_ROLE_PRELU,	/* slopes as input 1 */
	RVL_ROLE_PAD,	/* from opset 11: attribute mode, pads as input 1 */
};

/*
 * An operator from one opset on, until another row of the same name and domain with a later one.
 * Types are sets of RVL_T(): those of inputs 0 to 3; from the fourth on that of input 3 holds; an
 * empty set stands for that of input 0. same: bit i says that input i has the type of input 0;
 * with RVL_SAME_ALL all have.
 */
#define RVL_SAME_ALL 0xffffffffu
#define RVL_ANY_NUMBER_IN RVL_MAX_IN	/* variadic; the reader splits a node with more inputs */

/* Sets of operands: input i (from 30 on: all those), and all outputs. */
#define RVL_PITCHED_IN(i) (1u << ((i) < 30 ? (i) : 30))
#define RVL_PITCHED_OUT (1u << 31)
#define RVL_PITCHED_ALL 0xffffffffu

struct rvl_op_def {
	const char *name;	/* NULL ends a list */
	const char *domain;	/* NULL: ai.onnx */
	int32_t since;
	int32_t until;		/* first opset that lacks the operator; 0: none */
	uint32_t least_in, most_in;
	uint32_t optional;	/* bit i: input i may be absent although it is before least_in */
	uint32_t least_out, most_out;	/* 0: one output */
	uint32_t types[4];
	uint32_t same;
	uint32_t flags;		/* enum rvl_op_flag */
	uint32_t pitched;	/* RVL_PITCHED_*: the operands whose pitches run() addresses */
	const struct rvl_attr_def *attrs;	/* NULL: none */
	/*
	 * Shape rule: types and shapes of the outputs from those of the inputs, whose data may be
	 * NULL. Returns 0 or rvl_op_fail().
	 */
	int (*infer)(struct rvl_call *c);
	/*
	 * Of an element-wise operator whose broadcasting is not that of opset 7: gives input @i the
	 * shape whose last dimensions belong to the last ones of input 0. It is called behind infer().
	 * NULL: every input has that shape.
	 */
	void (*align)(const struct rvl_call *c, uint32_t i, struct rvl_shape *s);
	/*
	 * Computes. Returns 0, or rvl_op_fail() where the data of an operand is invalid. It may be
	 * left by longjmp() at any instruction; see struct rvl_pool. Memory that it needs beyond its
	 * stack is scratch.
	 */
	int (*run)(struct rvl_call *c);
	/* Bytes of c->scratch for these shapes; NULL: none. */
	int64_t (*scratch)(const struct rvl_call *c);
	/*
	 * Floats that pack() writes, once when the kernel is made, from inputs whose data is known then;
	 * 0: nothing is to be packed. Both are NULL for an operator that packs nothing.
	 */
	int64_t (*packed)(const struct rvl_call *c);
	void (*pack)(const struct rvl_call *c, float *dst);
	/*
	 * An operator of RVL_OPS whose kernel and quantised form are tried first. It takes the
	 * attributes that struct rvl_attr has; the others must have their defaults. 0: none.
	 */
	enum rvl_op kernel;
	/*
	 * Of an operator whose time is not in proportion to operands and results: an upper bound of it
	 * in multiply-accumulates, from shapes and attributes. It is called behind infer(). INT64_MAX: they
	 * do not bound it. NULL: the time is in proportion.
	 */
	int64_t (*work)(const struct rvl_call *c);
	enum rvl_role role;	/* by which a rewrite finds it */
	const char *doc;	/* what it computes, for docs/operators.md */
};

/* The end of a list of descriptors. */
#define RVL_OPS_END { .name = NULL }

/** The descriptor of an operator for a model's opset; NULL if there is none. @domain may be NULL. */
const struct rvl_op_def *rvl_op_find(const char *domain, const char *name, int64_t opset);

/** The newest row of a role up to a model's opset; NULL if there is none. */
const struct rvl_op_def *rvl_op_of_role(enum rvl_role role, int64_t opset);

/** The newest row whose operator has this kernel of RVL_OPS; NULL if there is none. */
const struct rvl_op_def *rvl_op_of_kernel(enum rvl_op kernel);

/** Row @i of the whole table; NULL behind the last one. */
const struct rvl_op_def *rvl_op_at(uint32_t i);

/** Whether input @i, which is before @def->least_in, may be absent. */
static inline bool rvl_op_may_lack(const struct rvl_op_def *def, uint32_t i)
{
	return i < 32 && def->optional >> i & 1;
}

/** Whether models of this opset can give the attribute. */
static inline bool rvl_attr_defined(const struct rvl_attr_def *a, int64_t opset)
{
	return !a->fixed && opset >= a->from && (!a->until || opset < a->until);
}

/** Number of attributes in the definition. */
uint32_t rvl_op_attrs(const struct rvl_op_def *def);

/** Formats c->why. Always returns -EINVAL. */
int rvl_op_fail(struct rvl_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** Checks number and types of the operands against the definition, then calls its shape rule. */
int rvl_op_infer(struct rvl_call *c);

/**
 * Lists what an operator of RVL_OP_BOXES copies. Types, shapes and attributes of the call are those
 * of a run; data is needed only of the operands that describe the boxes (axes, sizes). Returns 0 or
 * a negative errno where there are too many boxes or they are known at run time only.
 */
int rvl_op_list_boxes(struct rvl_call *c, struct rvl_op_boxes *boxes);

/* ---- attributes: @name must be one of the definition's ---- */

int64_t rvl_attr_int(const struct rvl_call *c, const char *name);
float rvl_attr_float(const struct rvl_call *c, const char *name);
/** Never NULL: "" where there is neither a value nor a default. */
const char *rvl_attr_string(const struct rvl_call *c, const char *name);
/** String @i of a STRINGS attribute, or NULL. */
const char *rvl_attr_string_at(const struct rvl_call *c, const char *name, uint32_t i);
bool rvl_attr_is(const struct rvl_call *c, const char *name, const char *value);
bool rvl_attr_given(const struct rvl_call *c, const char *name);
/** The list, *n elements; NULL where *n is 0. */
const int64_t *rvl_attr_ints(const struct rvl_call *c, const char *name, uint32_t *n);
const float *rvl_attr_floats(const struct rvl_call *c, const char *name, uint32_t *n);
const struct rvl_attr_value *rvl_attr_tensor(const struct rvl_call *c, const char *name);

/* ---- operands ---- */

static inline bool rvl_has(const struct rvl_call *c, uint32_t i)
{
	return i < c->n_in && c->in[i].type != RVL_TYPE_NONE;
}

static inline bool rvl_wants(const struct rvl_call *c, uint32_t i)
{
	return i < c->n_out && c->out[i].type != RVL_TYPE_NONE;
}

static inline int64_t rvl_count(const struct rvl_value *v)
{
	return rvl_shape_count(&v->shape);
}

#define RVL_WORK_EXP 16	/* multiply-accumulates that take the time of one exponential or power */

/** a * b of numbers that are not negative; INT64_MAX where an operand is, or the product is too large. */
int64_t rvl_work(int64_t a, int64_t b);

/** The type that a model's tensors of TensorProto type @onnx are computed in; NONE: not supported. */
enum rvl_type rvl_type_of_onnx(int64_t onnx);

/** Output @i gets this type and shape. */
void rvl_set_out(struct rvl_call *c, uint32_t i, enum rvl_type type, const struct rvl_shape *shape);

/** Shape rule: every output has type and shape of input 0. */
int rvl_infer_same(struct rvl_call *c);
/** Shape rule: one output of input 0's type, all inputs broadcast (multidirectional). */
int rvl_infer_broadcast(struct rvl_call *c);
/** Shape rule: the same with a bool output. */
int rvl_infer_broadcast_bool(struct rvl_call *c);

/**
 * Makes *axis, counted from the end where negative, one of 0 to @rank - 1.
 * Fails with a sentence that names the axis and the rank.
 */
int rvl_fix_axis(struct rvl_call *c, int64_t *axis, int64_t rank);

/**
 * The integers of input @i, int32 or int64, into @list. Fails where there are more than @max, or
 * where they are known at run time only ("its input 1 must be a constant").
 */
int rvl_int_input(struct rvl_call *c, uint32_t i, int64_t *list, uint32_t max, uint32_t *n);

/**
 * A list of axes from attribute @attr, where the definition has it and it is given, else from input
 * @i, as a set of bits of the axes of a tensor of @rank. *given: false where there is neither.
 */
int rvl_axes(struct rvl_call *c, const char *attr, uint32_t i, int64_t rank, uint32_t *set,
	     bool *given);

/** Element @i as a number; 64-bit integers lose what a double cannot hold. */
double rvl_element(enum rvl_type type, const void *data, int64_t i);
/** Element @i of an integer or bool type. */
int64_t rvl_element_int(enum rvl_type type, const void *data, int64_t i);

float rvl_f16_to_f32(uint16_t h);
uint16_t rvl_f32_to_f16(float f);
float rvl_bf16_to_f32(uint16_t h);
uint16_t rvl_f32_to_bf16(float f);

/* ---- loops ---- */

/** Calls fn(arg, i) for every i < n, on the threads of the call. */
void rvl_for(const struct rvl_call *c, uint32_t n, void (*fn)(void *arg, uint32_t i), void *arg);

/** Splits [0, n) into pieces of at least @grain and calls fn(arg, first, past) for each, threaded. */
void rvl_for_range(const struct rvl_call *c, int64_t n, int64_t grain,
		   void (*fn)(void *arg, int64_t first, int64_t past), void *arg);

/* Row-major strides, in elements. */
void rvl_strides(const struct rvl_shape *s, int64_t *stride);
/** Those of an operand: its pitches in elements, or row-major ones. */
void rvl_value_strides(const struct rvl_value *v, int64_t *stride);
/** Strides of @s read as a tensor of shape @to, 0 where it is broadcast; it must fit. */
void rvl_broadcast_strides(const struct rvl_shape *s, const struct rvl_shape *to, int64_t *stride);

/* Elements of one tensor and their places in another. Strides are in elements and have a sign. */
struct rvl_copy {
	const void *x;		/* the first element */
	void *y;
	size_t size;		/* bytes of an element */
	int rank;
	int64_t dim[2 * RVL_MAX_RANK], from[2 * RVL_MAX_RANK], to[2 * RVL_MAX_RANK];
};

/** Adds an innermost dimension. */
void rvl_copy_dim(struct rvl_copy *b, int64_t dim, int64_t from, int64_t to);
/** Copies all elements, on the threads of the pool, which may be NULL. */
void rvl_copy_run(const struct rvl_copy *b, const struct rvl_pool *pool);
/** Copies @n elements of @size bytes that are @from and @to elements apart. */
void rvl_copy_row(const void *src, int64_t from, void *dst, int64_t to, int64_t n, size_t size);

/* Elements of operand @x of a call and their places in operand @y, from the first ones on. */
struct rvl_region {
	const struct rvl_value *x, *y;
	int64_t x_at, y_at;
	struct rvl_copy copy;
};

struct rvl_region rvl_region_between(const struct rvl_value *x, int64_t from,
				     const struct rvl_value *y, int64_t to);
/** Adds an innermost dimension, or makes the last one longer where both tensors allow it. */
void rvl_region_dim(struct rvl_region *b, int64_t dim, int64_t from, int64_t to);
/** Copies the elements, or lists the box where the call wants a list. */
void rvl_region_copy(const struct rvl_call *c, struct rvl_region *b);
/** The same of a box of @rank more dimensions. */
void rvl_region_copy_dims(const struct rvl_call *c, struct rvl_region *b, const int64_t *dim,
			  const int64_t *from, const int64_t *to, int rank);

/*
 * Element-wise computation in rows: operands are converted to the class in which the function
 * computes, broadcast, and handed over as runs of n elements; the result is converted to the type of
 * output 0. All operands of a type that is computed as it stands and is not broadcast are used in place.
 */
enum rvl_class { RVL_CLASS_F32, RVL_CLASS_S64, RVL_CLASS_U64, RVL_CLASS_F64 };

union rvl_row {
	float *f;
	int64_t *s;
	uint64_t *u;
	double *d;
};

typedef void (*rvl_row_fn)(const struct rvl_call *c, int64_t n, union rvl_row y,
			   const union rvl_row *x);

#define RVL_ROWS_MAX 3	/* operands of an element-wise computation */

/**
 * Inputs in class @in, result in class @out; output 0 has the broadcast shape. Fails beyond
 * RVL_ROWS_MAX operands. @fn: x[i] of an absent operand has no meaning.
 */
int rvl_rows(struct rvl_call *c, enum rvl_class in, enum rvl_class out, rvl_row_fn fn);

/**
 * The same of the first @n operands in rows of type @in, with a result in rows of type @out. @fn finds
 * elements of the type at x[i].u and y.u.
 */
int rvl_rows_typed(struct rvl_call *c, uint32_t n, enum rvl_type in, enum rvl_type out, rvl_row_fn fn);

/** The class that a type is computed in: float32, float64, unsigned (bool too) or signed. */
enum rvl_class rvl_class_of(enum rvl_type type);

/** Copies @n elements with conversion by C's rules, but floats saturate and NaN becomes 0 as integer. */
void rvl_convert(enum rvl_type to, void *dst, enum rvl_type from, const void *src, int64_t n);

#endif
