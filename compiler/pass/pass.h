/* SPDX-License-Identifier: MIT */
/* Helpers that several passes use. */
#ifndef RVL_PASS_H
#define RVL_PASS_H

#include "graph/graph.h"
#include "rivulet_op.h"

/* Channels of a PRelu on the NPU. Each costs the search of a factor; a model of 1 KB can have millions. */
#define RVL_MOST_SLOPES 16384

/** The only reader of @t if there is exactly one and @t is no graph output; else NULL. */
struct rvl_node *rvl_only_user(const struct rvl_tensor *t);

/**
 * Whether @n, an operator with a window, has one window, which is the whole image without padding.
 * onnxruntime computes an AveragePool of bytes with such a window as QLinearGlobalAveragePool.
 */
bool rvl_window_of_image(const struct rvl_node *n);

/** Adds @other to the names of the nodes that @n computes (struct rvl_node, @fused). */
void rvl_note_fused(struct rvl_graph *g, struct rvl_node *n, const struct rvl_node *other);

/** The value of a constant float tensor of one element. */
bool rvl_const_f32(const struct rvl_tensor *t, float *out);

/** A constant tensor of one element per channel, float, no infinities or NaN; NULL if it is none. */
const float *rvl_const_vector(const struct rvl_tensor *t, int64_t n);

/**
 * Whether the data decide the extent of a result. Such a node is not folded by a pass: the shapes of what
 * reads it follow from its bound. (The reader folds small ones before it infers those.)
 */
bool rvl_has_bound(const struct rvl_node *n);

#define RVL_LARGE_CONSTANT 65536	/* bytes of a constant that is not kept */

/** Frees a large constant once no node reads it and it is no output. @t may be NULL. */
void rvl_constant_release(struct rvl_graph *g, struct rvl_tensor *t);

/**
 * Removes the one-input node @n: readers of its result read its input. If the result is a graph
 * output, the input's producer makes it under its name. Returns 1 if done, 0 if that is not
 * possible (an input or constant that is an output under another name), or a negative errno.
 */
int rvl_node_bypass(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err);

/**
 * Whether a QuantizeLinear or DequantizeLinear has one scale and zero point for the whole tensor, which
 * are constant, and the scale positive. A scale that a run computes may reverse the order of values.
 */
bool rvl_scale_is_constant(const struct rvl_node *q);
/** The two of such a node on bytes. */
float rvl_scale_of(const struct rvl_node *q);
int32_t rvl_zero_of(const struct rvl_node *q);

/**
 * Adds the DequantizeLinear of @bytes into @y with the scale and zero point of @like, a
 * DequantizeLinear or QuantizeLinear.
 */
int rvl_dequantise_as(struct rvl_graph *g, const struct rvl_node *like, struct rvl_tensor *bytes,
		      int32_t axis, struct rvl_tensor *y, struct rvl_err *err);

/** Adds the QuantizeLinear of @x into @bytes; @zp may be NULL. */
int rvl_quantise(struct rvl_graph *g, struct rvl_tensor *x, struct rvl_tensor *scale, struct rvl_tensor *zp,
		 struct rvl_tensor *bytes, struct rvl_err *err);

/** Adds the DequantizeLinear of @x into @floats; @zp may be NULL. */
int rvl_dequantise(struct rvl_graph *g, struct rvl_tensor *x, struct rvl_tensor *scale, struct rvl_tensor *zp,
		   struct rvl_tensor *floats, struct rvl_err *err);

/* An attribute of a node of the table of descriptors. */
struct rvl_named_value {
	const char *name;
	struct rvl_attr_value value;
};

/**
 * Adds a node of @def that makes @y; its operands are absent. The attributes of @set have values, whose
 * lists must live as long as the graph; the others have their defaults.
 */
int rvl_node_of_role(struct rvl_graph *g, const struct rvl_op_def *def, const struct rvl_named_value *set,
		     uint32_t count, struct rvl_tensor *y, struct rvl_node **n, struct rvl_err *err);

/**
 * Whether every result is an element of input 0, so that results do not depend on scale or zero
 * point. The node may have several outputs, and other inputs that say which elements are taken.
 */
bool rvl_op_moves(const struct rvl_node *n);

/**
 * Whether fusion would make the operator, whose operands are dequantised bytes, one between bytes if
 * its result had a scale, which the model does not give it. Products only, and a BatchNormalization
 * behind one.
 */
bool rvl_op_lacks_scale(const struct rvl_node *n);

/**
 * Makes a mean of all positions of each channel a GlobalAveragePool, and a Reshape where the axes are
 * dropped. Returns 1 if done, 0 if @mean is another operator, or a negative errno.
 */
int rvl_pool_of_mean(struct rvl_graph *g, struct rvl_node *mean, struct rvl_err *err);

/**
 * Makes float convolutions with constant weights, pools and normalisations of one dimension those of images with
 * one row, of which calibration quantises them.
 */
int rvl_lines_of_floats(struct rvl_graph *g, struct rvl_err *err);

/** Why rvl_pass_transposed() leaves a transposed convolution between bytes; NULL for other nodes. */
const char *rvl_transposed_lack(const struct rvl_node *n);

/** Whether every result is an element of one of the inputs, all of which are data. */
bool rvl_op_joins(const struct rvl_node *n);

/** Whether every result is an element of input 0 or the constant *value, which input 2 holds. */
bool rvl_op_pads(const struct rvl_node *n, float *value);

/**
 * The pads of a Pad of 4 dimensions, those in front of each axis, then those behind, if they are known
 * and only those of the pixels are not 0; else NULL. @list: memory for them.
 */
const int64_t *rvl_pixel_pads(const struct rvl_node *n, int64_t list[8]);
/** Adds such pads to those of a convolution. */
void rvl_add_padding(struct rvl_node *conv, const int64_t *pads);

/** Whether every result is a weighted mean of elements of input 0, the only computed operand. */
bool rvl_op_blends(const struct rvl_node *n);

/**
 * Whether the operator computes one float result from float operands, element by element or by
 * rvl_op_blends(), so that a kernel computes it between bytes (Q_GENERAL).
 */
bool rvl_op_maps_floats(const struct rvl_node *n);

/**
 * Whether all operands but the first are constants of one value, or of one for each index of one
 * axis of the first, so that each result is a function of one value. *axis: that axis, or
 * RVL_AXIS_NONE. There are no more tables than a kernel takes.
 */
bool rvl_op_of_one_value(const struct rvl_node *n, int32_t *axis);

/** Adds the node that makes @y, which has the elements of @x in another shape. */
int rvl_add_reshape(struct rvl_graph *g, struct rvl_tensor *x, struct rvl_tensor *y, struct rvl_err *err);

/** Whether @n is a PRelu between bytes whose constant slopes differ by axis 1 only. */
bool rvl_prelu_by_channel(const struct rvl_node *n);

#endif
