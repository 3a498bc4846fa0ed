/* SPDX-License-Identifier: MIT */
/*
 * Operators that make rows x cols pixels of each pixel of an image: repeated, as nearest interpolation by
 * whole factors does, or each from channels of its own, as DepthToSpace does; and those that repeat the
 * pixels at the edges of an image.
 */
#ifndef RVL_REPEAT_H
#define RVL_REPEAT_H

#include "graph/graph.h"

/* What LOAD writes of one pixel: rows and columns, 32 at most. */
struct rvl_repeat {
	int64_t rows, cols;
	bool phases; /* pixel (y, x) of them has the channels from (y * cols + x) times those of the result on */
	bool edge;   /* rows and cols are 1, and the image is in the result from (top, left) on */
	int64_t top, left;
};

/** rvl_repeat_costs_too_much() - whether the images of @n are too large to run it on them */
bool rvl_repeat_costs_too_much(const struct rvl_node *n);
/**
 * Whether each pixel of the result of @n, an image of 4 dimensions of bytes, has values of the pixel of
 * the operand whose indices are those of the result divided by @rep, as @rep says. The operator's own
 * computation decides: it runs on images whose bytes are the indices of their elements. False if
 * that costs too much.
 */
bool rvl_repeats_pixels(const struct rvl_node *n, struct rvl_repeat *rep);

#endif
