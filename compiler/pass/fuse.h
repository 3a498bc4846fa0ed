/* SPDX-License-Identifier: MIT */
/*
 * What the two files of fusion share (fuse.c for QDQ patterns, fuse_qlinear.c for QLinear
 * operators).
 */
#ifndef RVL_FUSE_H
#define RVL_FUSE_H

#include "graph/graph.h"

/* A quantised operand: the tensor of bytes and its parameters, borrowed. */
struct rvl_qsource {
	struct rvl_tensor *t;
	uint32_t n;
	int32_t axis;
	const float *scale;
	int32_t *zp;		/* in the arena */
};

/**
 * Parameters from a scale and a zero point tensor (NULL = 0) for @t. False unless both are
 * constant, of fitting size, and every scale positive and finite.
 */
bool rvl_qsource_of(struct rvl_graph *g, struct rvl_tensor *t, const struct rvl_tensor *scale,
		    const struct rvl_tensor *zp, int32_t axis, struct rvl_qsource *out);

/** Whether @s may become the parameters of its tensor: the tensor has none, or the same. */
bool rvl_quant_fits(const struct rvl_qsource *s);

/**
 * Whether both operands can be adopted: operands of the same tensor must have the same parameters.
 */
bool rvl_quant_agree(const struct rvl_qsource *a, const struct rvl_qsource *b);

/** Gives the tensor the parameters of @s. rvl_quant_fits() must have returned true for it. */
int rvl_quant_adopt(struct rvl_graph *g, const struct rvl_qsource *s, struct rvl_err *err);

/** Turns a node with QLinear operands into a Q_* node. 0: done, or the node is of another kind. */
int rvl_fuse_qlinear(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err);

/** docs/numerics.md 2: a ratio that cannot overflow the conversion to int32. */
bool rvl_add_ratio_ok(float s, float ys);

/** docs/numerics.md 1: the range onnxruntime accepts for a global mean. */
bool rvl_mean_scale_ok(float xs, float ys, int64_t n);

#endif
