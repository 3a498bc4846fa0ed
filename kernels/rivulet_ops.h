/* SPDX-License-Identifier: MIT */
/*
 * The operators of Rivulet: one table of them, the element types, shapes and the attribute record.
 * These are shared by the graph of the compiler, the kernels, and the CPU steps of a program file,
 * so numbers in this file are part of the program format and never change their meaning.
 */
#ifndef RIVULET_OPS_H
#define RIVULET_OPS_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rivulet_types.h"

#define RVL_MAX_RANK RIVULET_MAX_DIMS
#define RVL_MAX_IN 32
#define RVL_MAX_OUT 16

#define RVL_TYPE_ENUM(name, num, text, size, npy, onnx) RVL_TYPE_##name = (num),
/* Element types: those of a program's tensors, and NONE. */
enum rvl_type { RVL_TYPE_NONE = 0, RIVULET_DTYPES(RVL_TYPE_ENUM) RVL_TYPE_COUNT };
#undef RVL_TYPE_ENUM

/* Properties of all nodes of an operator. */
enum rvl_trait {
	/* work and result are proportional to the operands, so that it may be folded */
	RVL_TRAIT_LINEAR = 1 << 0,
	RVL_TRAIT_RENAMES = 1 << 1,	/* the result is the operand's bytes in another shape */
	RVL_TRAIT_MOVES = 1 << 2,	/* every result is an element of the operand, unchanged */
	/* a channel of the result depends on the same channel of the operand only */
	RVL_TRAIT_CHANNELS = 1 << 3,
	RVL_TRAIT_PRODUCT = 1 << 4,	/* a convolution or matrix product with weights as input 1 */
	RVL_TRAIT_CLAMPS = 1 << 5,	/* the kernel clamps its float result to attr.f_lo, attr.f_hi */
	RVL_TRAIT_MADE = 1 << 6,	/* quantised, made by fusion, and in no model */
	/* The kernel computes on images in NHWC too, ... */
	RVL_TRAIT_NHWC = 1 << 7,	/* ... where all its images have that layout; */
	RVL_TRAIT_NHWC_EACH = 1 << 8,	/* ... and reorders an operand that has the other one. */
	/*
	 * The kernel computes the places that it reads and writes from the shapes alone: memory that
	 * another process changes during the run cannot lead it outside its operands. A pool that
	 * remembers where the largest element of a window is chooses among the positions of the
	 * window, whatever the elements are when it reads them again. Q_AVERAGE_POOL, Q_RESCALE,
	 * Q_TABLE and the stochastic products look a byte up in tables that have an entry for each
	 * value of a byte.
	 */
	RVL_TRAIT_PLACES = 1 << 9,
	/* The kernel addresses pitches: of images in NHWC those of their pixels, ... */
	RVL_TRAIT_PIXELS = 1 << 10,
	RVL_TRAIT_PIXELS_IN = 1 << 11,	/* ... of the inputs only; */
	RVL_TRAIT_PITCHES = 1 << 12,	/* or any pitches of either side; */
	RVL_TRAIT_PITCHES_BYTES = 1 << 13,	/* or any of the operands that are quantised bytes. */
	RVL_TRAIT_PAIR = 1 << 14,	/* inputs 0 and 1 are operands of one kind, as those of a sum */
	/* It has no kernel: passes know it by its number, and its row computes it. */
	RVL_TRAIT_ROW = 1 << 15,
	RVL_TRAIT_BITS = 1 << 16,	/* it reads or makes tensors of bits, which lie in uint64 */
};

/* The least and the most inputs of a kernel whose operator has no row. */
#define RVL_INPUTS(least, most) { (least), (most), false }
#define RVL_INPUTS_OF_ROW { 0, 0, true }

struct rvl_inputs {
	uint32_t least, most;
	bool of_row;	/* those of the newest row that names the kernel */
};

/*
 * The operators that have kernels of their own beside their rows in the table of descriptors.
 *
 * X(identifier, number, name, the number of the kernel's inputs,
 *   kernel: rvl_setup_NAME, shape rule: infer_NAME of compiler/graph/shape.c, quantised form,
 *   traits, summary)
 *
 * The form of an operator that has none is the operator itself. compiler/npu/constraint.c has a row
 * of the same identifier. A column or a row that is missing is an error of the compiler.
 *
 * An operator of ONNX or of ONNX Runtime has rows in the table of descriptors, which say its domain,
 * opsets, operands and attributes. Its kernel takes the inputs of its newest row; an attribute of an
 * older opset stays an attribute only if struct rvl_attr has it. The operators that are in no model
 * are made by fusion and by the back end: their scales and zero points are constants of their tensors.
 */
#define RVL_OPS(X) \
	X(UNSUPPORTED, 0, "Unsupported", RVL_INPUTS(0, 32), \
	  none, none, UNSUPPORTED, 0, \
	  "an operator that cannot be executed; the node holds the reason") \
	X(QUANTIZE, 1, "QuantizeLinear", RVL_INPUTS_OF_ROW, \
	  quantize, quantize, QUANTIZE, RVL_TRAIT_LINEAR | RVL_TRAIT_NHWC | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS, \
	  "y = saturate(rint(x / scale) + zero point)") \
	X(DEQUANTIZE, 2, "DequantizeLinear", RVL_INPUTS_OF_ROW, \
	  dequantize, quantize, DEQUANTIZE, RVL_TRAIT_LINEAR | RVL_TRAIT_NHWC | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS, \
	  "y = (x - zero point) * scale") \
	X(QLINEAR_CONV, 3, "QLinearConv", RVL_INPUTS_OF_ROW, \
	  none, qlinear_conv, Q_CONV, RVL_TRAIT_ROW, \
	  "quantised convolution, scales as inputs") \
	X(QLINEAR_MATMUL, 4, "QLinearMatMul", RVL_INPUTS_OF_ROW, \
	  none, qlinear_matmul, Q_MATMUL, RVL_TRAIT_ROW, \
	  "quantised matrix product, scales as inputs") \
	X(CONV, 5, "Conv", RVL_INPUTS(2, 4), \
	  conv, conv, Q_CONV, RVL_TRAIT_PRODUCT | RVL_TRAIT_CLAMPS | RVL_TRAIT_PLACES, \
	  "float 2-D convolution, plus an image of the result's shape that the compiler joins to it") \
	X(GEMM, 6, "Gemm", RVL_INPUTS_OF_ROW, \
	  gemm, gemm, Q_MATMUL, RVL_TRAIT_PRODUCT | RVL_TRAIT_CLAMPS | RVL_TRAIT_PLACES, \
	  "alpha * op(A) * op(B) + beta * C") \
	X(MATMUL, 7, "MatMul", RVL_INPUTS_OF_ROW, \
	  matmul, matmul, Q_MATMUL, RVL_TRAIT_PRODUCT | RVL_TRAIT_CLAMPS | RVL_TRAIT_PLACES, \
	  "matrix product, batched with broadcasting") \
	X(RELU, 8, "Relu", RVL_INPUTS_OF_ROW, \
	  unary, same, Q_RESCALE, RVL_TRAIT_LINEAR | RVL_TRAIT_PLACES | RVL_TRAIT_PITCHES, \
	  "max(x, 0)") \
	X(CLIP, 9, "Clip", RVL_INPUTS_OF_ROW, \
	  unary, same, Q_RESCALE, RVL_TRAIT_LINEAR | RVL_TRAIT_PITCHES, \
	  "min(max(x, low), high)") \
	X(ADD, 10, "Add", RVL_INPUTS_OF_ROW, \
	  binary, binary, Q_ADD, RVL_TRAIT_LINEAR | RVL_TRAIT_CLAMPS | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PITCHES | RVL_TRAIT_PAIR, \
	  "a + b with broadcasting") \
	X(MUL, 11, "Mul", RVL_INPUTS_OF_ROW, \
	  binary, binary, Q_MUL, RVL_TRAIT_LINEAR | RVL_TRAIT_CLAMPS | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PITCHES | RVL_TRAIT_PAIR, \
	  "a * b with broadcasting") \
	X(MAX_POOL, 12, "MaxPool", RVL_INPUTS_OF_ROW, \
	  pool, pool, MAX_POOL, \
	  RVL_TRAIT_MOVES | RVL_TRAIT_CHANNELS | RVL_TRAIT_NHWC | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS, \
	  "largest value under a 2-D window; also on quantised tensors") \
	X(AVERAGE_POOL, 13, "AveragePool", RVL_INPUTS_OF_ROW, \
	  pool, pool, Q_AVERAGE_POOL, RVL_TRAIT_PLACES, \
	  "mean under a 2-D window") \
	X(GLOBAL_AVERAGE_POOL, 14, "GlobalAveragePool", RVL_INPUTS_OF_ROW, \
	  global_pool, global, Q_GLOBAL_AVERAGE_POOL, RVL_TRAIT_PLACES, \
	  "mean of every channel") \
	X(GLOBAL_MAX_POOL, 15, "GlobalMaxPool", RVL_INPUTS_OF_ROW, \
	  global_pool, global, GLOBAL_MAX_POOL, \
	  RVL_TRAIT_MOVES | RVL_TRAIT_CHANNELS | RVL_TRAIT_NHWC | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS_IN, \
	  "largest value of every channel") \
	X(FLATTEN, 16, "Flatten", RVL_INPUTS_OF_ROW, \
	  move, flatten, FLATTEN, \
	  RVL_TRAIT_LINEAR | RVL_TRAIT_RENAMES | RVL_TRAIT_MOVES | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PITCHES, \
	  "reshape to a matrix, split at an axis") \
	X(RESHAPE, 17, "Reshape", RVL_INPUTS_OF_ROW, \
	  move, reshape, RESHAPE, \
	  RVL_TRAIT_LINEAR | RVL_TRAIT_RENAMES | RVL_TRAIT_MOVES | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PITCHES, \
	  "the same elements in another shape") \
	X(TRANSPOSE, 18, "Transpose", RVL_INPUTS_OF_ROW, \
	  transpose, transpose, TRANSPOSE, \
	  RVL_TRAIT_LINEAR | RVL_TRAIT_MOVES | RVL_TRAIT_NHWC_EACH | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PITCHES, \
	  "permute the axes") \
	X(SOFTMAX, 19, "Softmax", RVL_INPUTS_OF_ROW, \
	  softmax, softmax, SOFTMAX, RVL_TRAIT_LINEAR | RVL_TRAIT_PLACES, \
	  "softmax along an axis, or over all axes from one on (before opset 13)") \
	X(BATCH_NORM, 20, "BatchNormalization", RVL_INPUTS_OF_ROW, \
	  bn, same, BATCH_NORM, RVL_TRAIT_LINEAR | RVL_TRAIT_CLAMPS, \
	  "(x - mean) / sqrt(var + eps) * scale + bias per channel") \
	X(IDENTITY, 21, "Identity", RVL_INPUTS_OF_ROW, \
	  move, same, IDENTITY, \
	  RVL_TRAIT_LINEAR | RVL_TRAIT_RENAMES | RVL_TRAIT_MOVES | RVL_TRAIT_CHANNELS | RVL_TRAIT_NHWC | \
	  RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PITCHES, \
	  "copy") \
	X(CONSTANT, 22, "Constant", RVL_INPUTS(0, 0), \
	  none, none, CONSTANT, 0, \
	  "a constant; becomes an initialiser when the model is read") \
	X(QLINEAR_ADD, 23, "QLinearAdd", RVL_INPUTS_OF_ROW, \
	  none, binary, Q_ADD, RVL_TRAIT_ROW, \
	  "quantised a + b, scales as inputs") \
	X(QLINEAR_MUL, 24, "QLinearMul", RVL_INPUTS_OF_ROW, \
	  none, binary, Q_MUL, RVL_TRAIT_ROW, \
	  "quantised a * b, scales as inputs") \
	X(QGEMM, 25, "QGemm", RVL_INPUTS_OF_ROW, \
	  none, qgemm, Q_MATMUL, RVL_TRAIT_ROW, \
	  "quantised Gemm, scales as inputs") \
	X(QLINEAR_GLOBAL_AVERAGE_POOL, 26, "QLinearGlobalAveragePool", RVL_INPUTS_OF_ROW, \
	  none, global, Q_GLOBAL_AVERAGE_POOL, RVL_TRAIT_ROW, \
	  "quantised mean of every channel, scales as inputs") \
	X(QLINEAR_AVERAGE_POOL, 27, "QLinearAveragePool", RVL_INPUTS_OF_ROW, \
	  none, pool, Q_AVERAGE_POOL, RVL_TRAIT_ROW, \
	  "quantised mean under a window, scales as inputs") \
	X(Q_CONV, 40, "QConv", RVL_INPUTS(2, 3), \
	  qconv, none, Q_CONV, \
	  RVL_TRAIT_PRODUCT | RVL_TRAIT_MADE | RVL_TRAIT_NHWC_EACH | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS, \
	  "quantised convolution (x, w[, bias int32])") \
	X(Q_MATMUL, 41, "QMatMul", RVL_INPUTS(2, 3), \
	  qmatmul, none, Q_MATMUL, RVL_TRAIT_PRODUCT | RVL_TRAIT_MADE | RVL_TRAIT_PLACES, \
	  "quantised matrix product (a, b[, bias int32])") \
	X(Q_ADD, 42, "QAdd", RVL_INPUTS(2, 2), \
	  qbinary, none, Q_ADD, RVL_TRAIT_MADE | RVL_TRAIT_NHWC | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS | RVL_TRAIT_PAIR, \
	  "quantised a + b") \
	X(Q_MUL, 43, "QMul", RVL_INPUTS(2, 2), \
	  qbinary, none, Q_MUL, RVL_TRAIT_MADE | RVL_TRAIT_NHWC | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS | RVL_TRAIT_PAIR, \
	  "quantised a * b") \
	X(Q_AVERAGE_POOL, 44, "QAveragePool", RVL_INPUTS(1, 1), \
	  pool, none, Q_AVERAGE_POOL, RVL_TRAIT_MADE | RVL_TRAIT_NHWC | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS, \
	  "quantised mean under a 2-D window") \
	X(Q_GLOBAL_AVERAGE_POOL, 45, "QGlobalAveragePool", RVL_INPUTS(1, 1), \
	  global_pool, none, Q_GLOBAL_AVERAGE_POOL, \
	  RVL_TRAIT_MADE | RVL_TRAIT_NHWC | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS_IN, \
	  "quantised mean of every channel") \
	X(Q_RESCALE, 46, "QRescale", RVL_INPUTS(1, 1), \
	  rescale, none, Q_RESCALE, RVL_TRAIT_MADE | RVL_TRAIT_NHWC | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS, \
	  "dequantise, clamp, quantise: 8 bits to 8 bits") \
	X(Q_TABLE, 47, "QTable", RVL_INPUTS(1, 3), \
	  q_table, none, Q_TABLE, RVL_TRAIT_MADE | RVL_TRAIT_NHWC | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PIXELS, \
	  "dequantise, an element-wise function of the table of descriptors, clamp, quantise") \
	X(Q_GENERAL, 48, "QGeneral", RVL_INPUTS(1, 32), \
	  q_general, none, Q_GENERAL, RVL_TRAIT_MADE | RVL_TRAIT_PITCHES_BYTES, \
	  "dequantise, an operator of the table of descriptors, clamp, quantise") \
	X(GENERAL, 50, "General", RVL_INPUTS(0, 32), \
	  general, none, GENERAL, RVL_TRAIT_LINEAR, \
	  "an operator of the table of descriptors, which it names; any shape and type of its row") \
	X(PACK_BLOCKED, 60, "PackBlocked", RVL_INPUTS(1, 1), \
	  blocked, none, PACK_BLOCKED, RVL_TRAIT_PLACES, \
	  "NCHW bytes to the device's channel blocks; made by the back end") \
	X(UNPACK_BLOCKED, 61, "UnpackBlocked", RVL_INPUTS(1, 1), \
	  blocked, none, UNPACK_BLOCKED, RVL_TRAIT_PLACES, \
	  "the device's channel blocks to NCHW bytes; made by the back end") \
	X(REORDER, 62, "Reorder", RVL_INPUTS(1, 1), \
	  reorder, none, REORDER, RVL_TRAIT_MOVES | RVL_TRAIT_NHWC_EACH | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_PITCHES, \
	  "the same image in another layout; made by the pass of layouts") \
	X(B_SIGN, 70, "BinarySign", RVL_INPUTS(2, 2), \
	  b_sign, none, B_SIGN, RVL_TRAIT_MADE | RVL_TRAIT_NHWC_EACH | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_BITS, \
	  "one bit for each element: whether it reaches the threshold of its channel (x, threshold)") \
	X(B_CONV, 71, "BinaryConv", RVL_INPUTS(2, 8), \
	  b_conv, none, B_CONV, RVL_TRAIT_MADE | RVL_TRAIT_NHWC_EACH | RVL_TRAIT_PLACES | \
	  RVL_TRAIT_BITS, \
	  "convolution of bits by bits, then scale, bias, shortcut, PRelu and the bits of the result " \
	  "(x, w[, scale, bias, threshold, shortcut, shortcut scale, prelu])") \
	X(B_MAX_POOL, 72, "BinaryMaxPool", RVL_INPUTS(1, 1), \
	  b_pool, none, B_MAX_POOL, RVL_TRAIT_MADE | RVL_TRAIT_PLACES | RVL_TRAIT_BITS, \
	  "disjunction of the bits under a 2-D window") \
	X(CHAIN, 80, "Chain", RVL_INPUTS(1, 32), \
	  chain, none, CHAIN, RVL_TRAIT_PLACES, \
	  "operators on images, computed in stripes of rows, or a quantised convolution with the " \
	  "quantisation of its image; made by the back end")

enum rvl_op {
#define RVL_OP_ENUM(id, num, ...) RVL_OP_##id = (num),
	RVL_OPS(RVL_OP_ENUM)
#undef RVL_OP_ENUM
};

/* A shape. rank 0 is a scalar with one element; a dimension may be 0. */
struct rvl_shape {
	int32_t rank;
	int64_t dim[RVL_MAX_RANK];
};

enum rvl_auto_pad {
	RVL_PAD_EXPLICIT = 0,	/* pad[] is used */
	RVL_PAD_SAME_UPPER = 1,
	RVL_PAD_SAME_LOWER = 2,
	RVL_PAD_VALID = 3,
};

/*
 * Attributes of a node: one flat record for all operators, so that it is copied, compared and
 * serialised as bytes. rvl_attr_init() gives every field its neutral value.
 */
struct rvl_attr {
	int32_t kernel[2];	/* height, width */
	int32_t stride[2];
	int32_t dilation[2];
	int32_t pad[4];		/* top, left, bottom, right; final after shape inference */
	int32_t auto_pad;	/* enum rvl_auto_pad; EXPLICIT after shape inference */
	int32_t group;
	int32_t ceil_mode;
	/* AveragePool: 1: the padding counts. BinaryConv: what a position of the padding is: 0, 1, -1 */
	int32_t count_include_pad;
	int32_t storage_order;	/* MaxPool with indices: 1 = column major */
	int32_t axis;		/* non-negative after shape inference */
	int32_t flat_softmax;	/* Softmax before opset 13: all axes >= axis together */
	int32_t allowzero;	/* Reshape: a 0 is a 0 */
	int32_t trans_a;
	int32_t trans_b;
	int32_t channels_last;
	/* PackBlocked, UnpackBlocked: channels of a block (tn). BinaryConv, BinaryMaxPool: of the input */
	int32_t block;
	int32_t perm_rank;	/* Transpose: 0 = reverse all axes (until shape inference) */
	int32_t perm[RVL_MAX_RANK];
	float alpha;
	float beta;
	float epsilon;
	/* Fused clamp of a float result, bounds of Clip, clamp of BinaryConv's sums; -INFINITY = none */
	float f_lo;
	float f_hi;
	int32_t q_lo;		/* fused clamp of a quantised result, in units of the output type; */
	int32_t q_hi;		/* q_lo = zero point is a fused Relu. INT32_MIN/MAX = the type's range */
	int32_t sc_length;	/* Q_CONV, Q_MATMUL: bits of a stream, 8..256; 0: int8 arithmetic */
	int32_t sc_circuit;	/* enum rivulet_sc_circuit */
	int32_t sc_scale;	/* log2 of the adder's scale, where the circuit has one */
	int32_t sc_blocks;	/* parts of a stream; 0: 1 */
};

/** Sets neutral attributes: kernel 1, stride 1, no padding, no clamp. */
static inline void rvl_attr_init(struct rvl_attr *a)
{
	*a = (struct rvl_attr) {
		.kernel = { 1, 1 }, .stride = { 1, 1 }, .dilation = { 1, 1 }, .group = 1,
		.alpha = 1.0f, .beta = 1.0f, .epsilon = 1e-5f,
		.f_lo = -INFINITY, .f_hi = INFINITY, .q_lo = INT32_MIN, .q_hi = INT32_MAX,
	};
}

/** Whether a lower bound of a clamp, as f_lo, changes finite numbers. Clip-6 has -FLT_MAX for no bound. */
static inline bool rvl_bounds_below(float lo)
{
	return !(lo <= -FLT_MAX);
}

/** Whether an upper bound of a clamp, as f_hi, changes finite numbers. */
static inline bool rvl_bounds_above(float hi)
{
	return !(hi >= FLT_MAX);
}

/** Whether f_lo and f_hi bound nothing. */
static inline bool rvl_is_unclamped(const struct rvl_attr *a)
{
	return !rvl_bounds_below(a->f_lo) && !rvl_bounds_above(a->f_hi);
}

/** Whether f_lo and f_hi are those of a Relu. */
static inline bool rvl_is_relu_clamp(const struct rvl_attr *a)
{
	return a->f_lo == 0 && !rvl_bounds_above(a->f_hi);
}

/** Whether nodes of an operator name a row of the table of descriptors. */
static inline bool rvl_op_names_def(enum rvl_op op)
{
	return op == RVL_OP_GENERAL || op == RVL_OP_Q_TABLE || op == RVL_OP_Q_GENERAL;
}

/** Name of a type ("uint8"); "none" for a number outside the table. */
const char *rvl_type_name(enum rvl_type t);

/** Bytes of one element; 0 for RVL_TYPE_NONE or a number outside the table. */
size_t rvl_type_size(enum rvl_type t);

/** enum rvl_trait of an operator; 0 if the number is not in the table. */
uint32_t rvl_op_traits(enum rvl_op op);

/** The operator that fusion makes of it between quantised tensors; itself if there is none. */
enum rvl_op rvl_op_quantised(enum rvl_op op);

/** The ONNX or internal name of an operator; NULL if the number is not in the table. */
const char *rvl_op_name(enum rvl_op op);

/**
 * Elements of a shape, or -1 if a dimension is negative or the product of those that are not 0
 * exceeds 2^40.
 * Every size is computed here, so that no shape from outside can overflow an allocation.
 */
int64_t rvl_shape_count(const struct rvl_shape *s);

/** Whether two shapes have the same rank and dimensions. */
bool rvl_shape_equal(const struct rvl_shape *a, const struct rvl_shape *b);

/** Numpy broadcasting of two shapes into *out. -EINVAL when they do not fit together. */
int rvl_shape_broadcast(const struct rvl_shape *a, const struct rvl_shape *b,
			struct rvl_shape *out);

#endif
