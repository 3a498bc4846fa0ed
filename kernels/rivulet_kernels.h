/* SPDX-License-Identifier: MIT */
/*
 * CPU operators. An operator is prepared once (weights packed, tables made, the fastest kernel of
 * this processor chosen) and run many times on plain pointers. Arithmetic: docs/numerics.md.
 *
 * Nothing here knows the graph or the program file. A struct rvl_kernel_desc describes an operator
 * completely; rvl_desc_pack() and rvl_desc_unpack() convert it to and from bytes of a program file.
 */
#ifndef RIVULET_KERNELS_H
#define RIVULET_KERNELS_H

#include "rivulet_op.h"

/* Quantisation of an argument: n = 0 none, 1 per tensor, dim[axis] per channel. Borrowed. */
struct rvl_kernel_quant {
	uint32_t n;
	int32_t axis;
	const float *scale;
	const int32_t *zp;
};

/* One operand. type NONE = absent (an optional input). */
struct rvl_kernel_arg {
	enum rvl_type type;
	struct rvl_shape shape;
	struct rvl_kernel_quant quant;
	const void *data;	/* bytes of a constant input, else NULL; must outlive the kernel */
	enum rivulet_layout layout;	/* PLAIN or NHWC */
	/* Elements lie @pitch bytes apart, by dimension of @shape; else they are dense in @layout. */
	bool pitched;
	int64_t pitch[RVL_MAX_RANK];
};

/* The layouts in which a kernel takes its images: the operands of rank 4 that are no parameters. */
enum rvl_layouts {
	RVL_LAYOUTS_PLAIN,	/* PLAIN */
	RVL_LAYOUTS_SAME,	/* PLAIN or NHWC, the same for all whose bytes differ between the two */
	RVL_LAYOUTS_EACH,	/* any for each of them */
};

struct rvl_kernel_desc {
	enum rvl_op op;
	uint32_t n_in;
	uint32_t n_out;
	struct rvl_attr attr;	/* as after shape inference: pads explicit, axes not negative */
	/*
	 * Of RVL_OP_GENERAL, RVL_OP_Q_TABLE and RVL_OP_Q_GENERAL: the operator's descriptor, and
	 * its attributes by index in def->attrs. Borrowed. Else NULL.
	 */
	const struct rvl_op_def *def;
	struct rvl_attr_value value[RVL_MAX_ATTRS];
	/* Of RVL_OP_CHAIN: what rvl_chain_pack() wrote, a multiple of 8 bytes. Borrowed. */
	const void *parts;
	uint32_t parts_size;
	/*
	 * Of RVL_OP_Q_CONV inside a chain: the kernel reads operand 0, dense in PLAIN, as float32 and quantises it
	 * so. in[0] describes the quantised image. Borrowed, and not in a packed descriptor. Else NULL.
	 */
	const struct rvl_i8_quantize *quantise;
	struct rvl_kernel_arg in[RVL_MAX_IN];
	struct rvl_kernel_arg out[RVL_MAX_OUT];
};

/* Part @i of a loop, as one of the calls that use the memory of @lane. */
typedef void (*rvl_part_fn)(void *arg, uint32_t lane, uint32_t i);

/*
 * Splits work over threads: calls fn(arg, lane, i) once for every i < n, in any order, then returns. Calls
 * at the same time have different lanes, which are less than @lanes (at least 1), so that a lane may have
 * memory that serves one call after the other.
 *
 * If the run is stopped, calls may be left out, and the threads that execute the kernel leave it by
 * longjmp(), at any instruction. Between rvl_kernel_run() and its return a kernel therefore owns
 * nothing: it allocates no memory, opens no file and takes no lock, it writes to its outputs and its
 * scratch only, and it calls no function that does otherwise. Of the C library it uses string.h,
 * math.h and snprintf(). scripts/check-style lists the functions.
 */
struct rvl_pool {
	void (*parallel)(void *ctx, uint32_t lanes, uint32_t n, rvl_part_fn fn, void *arg);
	void *ctx;
	uint32_t threads;	/* number of threads that share the work; a hint for splitting it */
};

struct rvl_kernel;

/** The layouts that the kernel of @d takes, whatever the present ones are. */
enum rvl_layouts rvl_kernel_layouts(const struct rvl_kernel_desc *d);

/** -EINVAL, with one line in @why, if an operand of @d has a layout that its kernel does not take. */
int rvl_kernel_check_layouts(const struct rvl_kernel_desc *d, char *why);

/**
 * Whether input @i is one of the images of an operator whose kernel takes more than PLAIN. @def: that
 * of RVL_OP_GENERAL.
 */
bool rvl_kernel_image(enum rvl_op op, const struct rvl_op_def *def, uint32_t i);

/* The pitches that a kernel addresses in an operand. */
enum rvl_pitches {
	RVL_PITCHES_NONE,	/* only dense operands */
	/*
	 * Images in NHWC whose channels are dense and whose pixels are evenly spaced, as parts of the
	 * channels of another image are
	 */
	RVL_PITCHES_PIXELS,
	RVL_PITCHES_ANY,
};

/** Those of operand @i: the inputs, then the outputs. */
enum rvl_pitches rvl_kernel_pitches(const struct rvl_kernel_desc *d, uint32_t i);

/** -EINVAL, with one line in @why, if an operand of @d has pitches that its kernel does not address. */
int rvl_kernel_check_pitches(const struct rvl_kernel_desc *d, char *why);

/** Whether PLAIN and NHWC are different orders of the elements of this shape. */
bool rvl_layout_matters(const struct rvl_shape *s);

/** The name of a layout, as reports print it. */
const char *rvl_layout_text(enum rivulet_layout layout);

/**
 * Prepares an operator. @reference: use only the scalar rvl_ref_* code. The kernel owns what it
 * packs, borrows constant data, and copies quantisation parameters.
 * -EINVAL: shapes, types or attributes that do not fit together, with one line in @why (RVL_WHY_MAX bytes,
 * may be NULL); -EOPNOTSUPP: no kernel for this operator with these types; -ENOMEM.
 */
int rvl_kernel_new(const struct rvl_kernel_desc *d, bool reference, struct rvl_kernel **out,
		   char *why);

/** Frees a kernel; NULL is allowed. */
void rvl_kernel_free(struct rvl_kernel *k);

/** Bytes of packed weights and tables that the kernel owns. */
size_t rvl_kernel_bytes(const struct rvl_kernel *k);

/** Bytes of scratch memory that one run needs. */
size_t rvl_kernel_scratch(const struct rvl_kernel *k);

/*
 * Most bytes that the kernels of a program keep together, and that one needs as workspace. It bounds
 * what a small hostile file can allocate.
 */
#define RVL_KERNELS_MOST (1ull << 30)

/* Memory of the kernels of a program. */
struct rvl_kernels_need {
	uint64_t kept;		/* packed weights and tables of all */
	uint64_t scratch;	/* the largest workspace */
};

/**
 * Adds a kernel. Beyond RVL_KERNELS_MOST: -E2BIG, and @why, of RVL_WHY_MAX bytes, has the sizes. The
 * compiler and the loader of programs both call it.
 */
int rvl_kernels_add(struct rvl_kernels_need *need, const struct rvl_kernel *k, char *why);

/**
 * Runs once. in[i]/out[i] are the first elements, which lie as the descriptor says, aligned; absent ones are NULL, a constant's
 * entry is ignored or equal to its data; outputs do not overlap inputs (they may be the same
 * pointer for Identity, Reshape and Flatten). @scratch: rvl_kernel_scratch() bytes, 64-byte
 * aligned. @pool may be NULL (one thread). A kernel may run on several threads at once with
 * different @scratch.
 * -EINVAL where the data of an operand is invalid (scales of QLinear operators, shape of Reshape).
 */
int rvl_kernel_run(const struct rvl_kernel *k, const void *const *in, void *const *out,
		   void *scratch, const struct rvl_pool *pool);

/**
 * The same for operands whose shapes are known at run time only. in[i] has the true shape; out[i]
 * has the shape of the descriptor, which is an upper bound, and gets the true one. Only kernels of
 * RVL_OP_GENERAL take shapes other than those of their descriptor. @why: RVL_WHY_MAX bytes or NULL.
 */
int rvl_kernel_run_values(const struct rvl_kernel *k, const struct rvl_value *in,
			  struct rvl_value *out, void *scratch, const struct rvl_pool *pool,
			  char *why);

/* An instruction set of the CPU operators. */
struct rvl_cpu_set {
	const char *name, *doc;
	bool available;		/* on this processor */
	bool used;
	bool forced;		/* by the environment variable RIVULET_ISA */
};

/** Set number @i, the least preferred first. Returns false behind the last one. */
bool rvl_cpu_set(uint32_t i, struct rvl_cpu_set *set);

/**
 * Checks the environment variable RIVULET_ISA, which forces a set. -EINVAL with one line in @why
 * (RVL_WHY_MAX bytes): it names an unknown set, or one that the processor does not have.
 */
int rvl_cpu_check(char *why);

/**
 * For tests and benchmarks: kernels prepared from now on use set @name; NULL: the one of the start. Must not
 * be called while kernels are prepared. Errors as rvl_cpu_check() has them.
 */
int rvl_cpu_force(const char *name, char *why);

/*
 * Q_TABLE: constant operands that differ along one axis of the operand make a table of 256 bytes for
 * each index of that axis. There are at most so many tables, with at most so many bytes for each
 * element of the operand: tables cost memory and time at each start, whatever the operand's size.
 */
#define RVL_MAX_TABLES 4096
#define RVL_MAX_TABLE_BYTES 16

#define RVL_AXIS_NONE (-1)
#define RVL_AXIS_SEVERAL (-2)

/**
 * The axis of input @x of an element-wise operator along which its input @i, broadcast to it by the
 * rule of the operator, has its elements. RVL_AXIS_NONE: it has one element; RVL_AXIS_SEVERAL: it has
 * no such axis. The call needs its descriptor (or NULL), its attributes and the shapes of its inputs.
 */
int32_t rvl_constant_axis(const struct rvl_call *c, uint32_t x, uint32_t i);

/** Whether a Q_TABLE may have a table for each index of axis @axis of its operand @x. */
bool rvl_tables_fit(const struct rvl_shape *x, int32_t axis);

/* ---- chains of operators ---- */

#define RVL_CHAIN_MAX 12	/* operators */
#define RVL_CHAIN_IN 3		/* operands of each */
#define RVL_CHAIN_MADE 0x10000u
/* Bytes of rows of all results between the operators, which are to stay in the second-level cache. */
#define RVL_CHAIN_BYTES (128 << 10)

/*
 * An operator of a chain, behind those whose results it reads. Operand i is input in[i] of the chain,
 * or, from RVL_CHAIN_MADE on, the result of an operator before it; what @d says of an absent one does
 * not matter. The last operator makes the result of the chain; the others are read by operators behind
 * them only. The first one may be a quantisation, which only operand 0 of the second one, a quantised
 * convolution, reads.
 */
struct rvl_chain_part {
	const struct rvl_kernel_desc *d;
	uint32_t in[RVL_CHAIN_IN];
};

/** Writes the parts of a chain. Returns the size, as rvl_desc_pack() does. */
int64_t rvl_chain_pack(const struct rvl_chain_part *parts, uint32_t n, void *buf, size_t size);

/** Whether the kernel can be in a chain: it computes rows of an image in NHWC. */
bool rvl_kernel_joins(const struct rvl_kernel *k);

/** Whether it can be in a chain of element-wise operators on float32, whose results are PLAIN. */
bool rvl_desc_joins_elements(const struct rvl_kernel_desc *d);

/** Rows of a stripe; 0 of kernels that are not computed in stripes. */
int64_t rvl_chain_height(const struct rvl_kernel *k);

/* ---- descriptors as bytes ---- */

/**
 * Writes a descriptor without constant data and pitches as position-independent little-endian bytes.
 * Returns the size; with @buf NULL or @size too small nothing is written. -E2BIG beyond 1 MiB.
 */
int64_t rvl_desc_pack(const struct rvl_kernel_desc *d, void *buf, size_t size);

/**
 * Reads it back, checking every number and bound; quantisation and attributes point into @buf,
 * which must be 8-byte aligned and outlive the descriptor. -EBADMSG on anything wrong. The caller adds data and pitches.
 */
int rvl_desc_unpack(const void *buf, size_t size, struct rvl_kernel_desc *d);

/** The operator's name in ONNX, for messages; "unknown operator" where the bytes hold none. */
const char *rvl_desc_op_name(const void *buf, size_t size);

#endif
