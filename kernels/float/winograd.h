/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of 3x3 taps of stride 1 by the algorithm F(4x4, 3x3) of Winograd: the results are
 * divided into tiles of 4x4, and a tile takes 36 products for each pair of channels instead of 144.
 * Method: A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015; the points
 * of the polynomials after B. Barabasz and others, "Error Analysis and Improving the Accuracy of
 * Winograd Convolution for Deep Neural Networks", 2018: section 11 of docs/numerics.md.
 */
#ifndef RVL_FLOAT_WINOGRAD_H
#define RVL_FLOAT_WINOGRAD_H

#include <stdbool.h>
#include <stdint.h>

#define RVL_WINOGRAD_IN 6	/* rows and columns of the patch under a tile */
#define RVL_WINOGRAD_OUT 4	/* of a tile */
/* The points are 0, a, -a, b, -b and infinity. All factors of the transforms are exact in float. */
#define RVL_WINOGRAD_A 0.75
#define RVL_WINOGRAD_B 1.5
/* Times the square of 2^40 it is no float: from there on results are computed tap by tap. */
#define RVL_WINOGRAD_OVERFLOW 0x1p48f

struct rvl_f32_conv;
struct rvl_pool;

/**
 * Whether the convolution takes less time by tiles, by an estimate from its shape. Only where v->fixed
 * says that every run has the weights and the shape that were packed.
 */
bool rvl_f32_is_winograd(const struct rvl_f32_conv *v);

/** Floats of the transformed weights. */
int64_t rvl_f32_winograd_packed(const struct rvl_f32_conv *v);
void rvl_f32_pack_winograd(const struct rvl_f32_conv *v, float *dst);

/** Bytes of scratch memory of a run with any number of threads. */
int64_t rvl_f32_winograd_scratch(const struct rvl_f32_conv *v);

/** @scratch is aligned to 64. The pool may be NULL. */
void rvl_f32_winograd_run(const struct rvl_f32_conv *v, float *scratch, const struct rvl_pool *pool);

#endif
