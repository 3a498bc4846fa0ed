/* SPDX-License-Identifier: MIT */
/* The passes, one file each. */
#ifndef RVL_PASSES_H
#define RVL_PASSES_H

#include "graph/graph.h"

/** Evaluates nodes whose inputs are all constant, except those that dequantise weights. */
int rvl_pass_fold(struct rvl_graph *g, struct rvl_err *err);

/** Removes Identity, reshapes that change nothing, and nodes that no output depends on. */
int rvl_pass_clean(struct rvl_graph *g, struct rvl_err *err);

/**
 * Makes BinarySign and BinaryConv of layers whose inputs and weights have two values, and computes in
 * them what follows. A layer that is only nearly binary stays and has a note. Needs folded constants.
 */
int rvl_pass_binary(struct rvl_graph *g, struct rvl_err *err);
/** For an NPU that makes bits: a BinaryMaxPool of the bits of bytes is BinarySign of their MaxPool. */
int rvl_pass_binary_pool(struct rvl_graph *g, struct rvl_err *err);

/**
 * Folds BatchNormalization, and Add and Mul of a constant for each channel, into the float weights of
 * the Conv or Gemm before it or into the BatchNormalization before it; and Relu and Clip into the clamp
 * (f_lo, f_hi) of the Conv, Gemm, MatMul, Add, Mul or BatchNormalization before them. A Sum of two
 * floats becomes an Add.
 */
int rvl_pass_fold_bn(struct rvl_graph *g, struct rvl_err *err);

/**
 * Makes convolutions and pools of one dimension, between bytes, those of images with one row, and means of
 * all positions global pools.
 */
int rvl_pass_lines(struct rvl_graph *g, struct rvl_err *err);

/**
 * Inserts a QuantizeLinear and a DequantizeLinear behind results of which a consumer is not quantised,
 * so that fusion and the NPU take the operator (rvl_graph.reconstruct).
 */
int rvl_pass_reconstruct(struct rvl_graph *g, struct rvl_err *err);

/** Makes linear interpolation by whole factors, between bytes, what the NPU computes (rvl_graph.word). */
int rvl_pass_blend(struct rvl_graph *g, struct rvl_err *err);

/** Makes each transposed convolution between bytes the convolutions that compute its phases. */
int rvl_pass_transposed(struct rvl_graph *g, struct rvl_err *err);

/** Moves DequantizeLinear below, and QuantizeLinear above, operators that only move values. */
int rvl_pass_commute(struct rvl_graph *g, struct rvl_err *err);

/**
 * Fuses DequantizeLinear - op [- BN] [- Relu|Clip] - QuantizeLinear, and QLinear operators, to Q_*
 * operators.
 */
int rvl_pass_fuse(struct rvl_graph *g, struct rvl_err *err);

/** Makes one operator of those that compute HardSwish of float32. For the graph behind rvl_pass_fuse(). */
int rvl_pass_hard_swish(struct rvl_graph *g, struct rvl_err *err);
/** Makes a PRelu between bytes with a slope for each channel what the NPU computes (rvl_graph.word). */
int rvl_pass_slopes(struct rvl_graph *g, struct rvl_err *err);

/** Makes a Pad of bytes, with the zero point as value, padding of the convolution that reads it. */
int rvl_pass_fold_pad(struct rvl_graph *g, struct rvl_err *err);

/** Makes a MaxPool of bytes with a large window one along each axis of the image (rvl_graph.word). */
int rvl_pass_pools(struct rvl_graph *g, struct rvl_err *err);

/** Makes matrix products of permuted and flattened images products of the images (rvl_graph.word). */
int rvl_pass_flattened(struct rvl_graph *g, struct rvl_err *err);

/**
 * Converts uint8 weights, and weights with a zero point, to int8 with zero point 0 where that is
 * exact.
 */
int rvl_pass_s8_weights(struct rvl_graph *g, struct rvl_err *err);

/**
 * Marks every quantised convolution and matrix product stochastic, except those of @keep: names,
 * "first" or "last". -EOPNOTSUPP: the error names a node that cannot be stochastic. -ENOENT: it
 * names a word of @keep that matches no node.
 */
int rvl_sc_mark(struct rvl_graph *g, const char *const *keep, uint32_t n_keep, struct rvl_err *err);

/** Evaluates the remaining DequantizeLinear of constants, which are weights of float operators. */
int rvl_pass_fold_weights(struct rvl_graph *g, struct rvl_err *err);

/**
 * Decides which tensors lie in the store of another one (rvl_tensor.base), so that the operators
 * between them become free; inserts copies of what cannot. All these views are dense. @images: also
 * those of images. Without, they are left to rvl_pass_pitches(), which follows the layouts.
 */
int rvl_pass_views(struct rvl_graph *g, bool images, struct rvl_err *err);

/**
 * Makes more tensors views, whose elements lie apart, where the steps of the CPU that make and read
 * them address pitches. For the partitioned graph, after rvl_pass_layout().
 */
int rvl_pass_pitches(struct rvl_graph *g, struct rvl_err *err);

/**
 * Makes @y, whose bytes are those of @x in the same order, and its views lie in the store of @x.
 * False if they must have stores of their own. For passes after rvl_pass_views(); they call
 * rvl_views_settle() at their end, which makes every view name the tensor that has the store.
 */
bool rvl_view_whole(struct rvl_graph *g, struct rvl_tensor *y, struct rvl_tensor *x);
void rvl_views_settle(struct rvl_graph *g);

/**
 * Decides which images lie in NHWC (rvl_tensor.layout), and inserts a Reorder where the steps that
 * make and read one disagree. For the partitioned graph, after rvl_pass_views(). @reads: whether a
 * layer of the NPU reads its operands in NHWC as fast as PLAIN; NULL: none does.
 */
typedef bool (*rvl_nhwc_fn)(const struct rvl_node *n, void *arg);
int rvl_pass_layout(struct rvl_graph *g, rvl_nhwc_fn reads, void *arg, struct rvl_err *err);

/**
 * Makes float convolutions of one tap on the CPU add the image that an addition behind them adds. Before
 * the graph is partitioned.
 */
int rvl_pass_residual(struct rvl_graph *g, struct rvl_err *err);

/**
 * Makes chains of the steps of the CPU between which large images lie (rvl_node.chain). For the
 * partitioned graph, after all passes that change layouts and views.
 */
int rvl_pass_chains(struct rvl_graph *g, struct rvl_err *err);

/* The passes before partition, in order: a table so that tests and `explain` can walk it. */
struct rvl_pass {
	const char *name;
	int (*run)(struct rvl_graph *g, struct rvl_err *err);
};

extern const struct rvl_pass rvl_passes[];
extern const unsigned int rvl_n_passes;

/** rvl_shape_infer(), then all of rvl_passes with rvl_graph_verify() after each. */
int rvl_optimise(struct rvl_graph *g, struct rvl_err *err);

#endif
