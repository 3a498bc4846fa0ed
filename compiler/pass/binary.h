/* SPDX-License-Identifier: MIT */
/*
 * What the files of the search for binary layers share (docs/compiler.md, 11): binary_sign.c finds
 * inputs of two values, binary_weights.c weights of two values, binary.c makes the layers,
 * binary_fold.c computes in them what follows them, binary_concat.c behind a Concat, too, and binary_join.c joins signs with layers.
 */
#ifndef RVL_PASS_BINARY_H
#define RVL_PASS_BINARY_H

#include "graph/graph.h"
#include "rivulet_bits.h"

/* A tensor of the values -size and size, which follow from a comparison of another one. */
struct rvl_signs {
	struct rvl_tensor *x;	/* the other one: float, of the same shape */
	int64_t channels;
	float *threshold;	/* [channels]: the value is one of them where x >= threshold, ... */
	bool *inverted;		/* [channels]: ... -size if set, else size */
	float size;
	bool sign_of_zero;	/* a Sign, which is 0 at 0 in ONNX */
};

/**
 * Whether @t is such a tensor. -ENOENT: it is none; then *why is a sentence if it is nearly one, else
 * NULL. Other errors are those of memory.
 */
int rvl_binary_signs(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_signs *s,
		     const char **why, struct rvl_err *err);

/** Float constant with one value, or one for each channel of an image @x; element c * *step is that of channel c. */
const float *rvl_channel_constant(const struct rvl_tensor *t, const struct rvl_shape *x, int64_t *step);

/** The operand of a node of two that is constant by channel (0 or 1), or -1. The other one is computed. */
int rvl_constant_operand(const struct rvl_node *n);

/** Whether the node is an operator of the table of descriptors with this name. */
bool rvl_is_general(const struct rvl_node *n, const char *name);

/* Weights of the values -size[m] and size[m] in each output channel, as rows of a convolution. */
struct rvl_binary_weights {
	int64_t m, channels, kh, kw;	/* channels: of a group */
	const float *data;
	int64_t at_m, at_c, at_tap;	/* elements between neighbours in @data */
	float *size;			/* [m] */
	bool both;			/* there are weights of either sign */
};

/** Whether the weights have two values in each channel; else *why, in the arena of @g. */
bool rvl_binary_sizes(struct rvl_graph *g, struct rvl_binary_weights *w, const char **why);

/**
 * Their bits as a constant. @inverted: input channels whose bits are inverted, of all groups, or NULL.
 */
int rvl_binary_pack(struct rvl_graph *g, const struct rvl_binary_weights *w, int64_t group,
		    const bool *inverted, struct rvl_tensor **out, struct rvl_err *err);

/** Moves operators behind BinaryConv into it. */
int rvl_binary_fold(struct rvl_graph *g, struct rvl_err *err);

/** Moves operators by channel behind a Concat of layers in front of it, and into the layers. */
int rvl_binary_concat(struct rvl_graph *g, struct rvl_err *err);

/** Makes BinarySign of the result of a BinaryConv an output of it. */
int rvl_binary_join(struct rvl_graph *g, struct rvl_err *err);

/** Takes the quantisation around a BinarySign or BinaryConv into it; other nodes stay. */
int rvl_binary_quantise(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err);

/**
 * Replaces binary layers by ONNX's operators of the graph's opset, which compute the same bits unless
 * a summand is below 2^-28 times what it is added to. Takes the quantisation around them in first.
 * -EOPNOTSUPP: the opset lacks an operator.
 */
int rvl_binary_unfold(struct rvl_graph *g, struct rvl_err *err);

/** A constant of @n floats as input @i of the node. */
int rvl_binary_floats(struct rvl_graph *g, struct rvl_node *n, uint32_t i, const float *v, int64_t rows,
		      int64_t cols, struct rvl_err *err);

/** The constant floats of input @i of a BinaryConv, or NULL. */
const float *rvl_binary_input(const struct rvl_node *n, uint32_t i);

/** Whether @t is the operand of a BinarySign or the shortcut of a BinaryConv. */
bool rvl_binary_reads(const struct rvl_node *n, const struct rvl_tensor *t);
/** That operand becomes the quantised tensor @q. */
int rvl_binary_read(struct rvl_graph *g, struct rvl_node *n, struct rvl_tensor *q, struct rvl_err *err);
/** The image that a BinaryConv makes becomes the quantised tensor @q. */
int rvl_binary_make(struct rvl_graph *g, struct rvl_node *n, struct rvl_tensor *q, struct rvl_err *err);

#endif
