/* SPDX-License-Identifier: MIT */
/*
 * Layers whose inputs and weights have one bit: BinarySign, BinaryConv and BinaryMaxPool
 * (docs/numerics.md, 13; docs/compiler.md, 11). A bit of 1 is the number +1, a bit of 0 is -1.
 *
 * A tensor of bits has the type uint64 and the shape [N, H, W * words]: the channels of a pixel are
 * in words = ceil(C / 64) adjacent words. Channel c is bit c mod 64 of word c / 64; bits behind the
 * last channel are 0.
 */
#ifndef RIVULET_BITS_H
#define RIVULET_BITS_H

#include <stdint.h>

/* Inputs of BinaryConv. */
enum rvl_b_in {
	RVL_B_X,		/* bits [N, H, W * words] */
	RVL_B_W,		/* bits [M, kh, kw, words of C / group channels] */
	RVL_B_SCALE,		/* float [M]; absent if output 0 is bits */
	RVL_B_BIAS,		/* float [M]; absent if output 0 is bits */
	RVL_B_THRESHOLD,	/* float [M] for bits of a float result, int32 [M] for others */
	RVL_B_SHORTCUT,		/* image of the size of the result */
	RVL_B_SHORTCUT_SCALE,	/* float [M] */
	RVL_B_PRELU,		/* float [2, M]: slopes below 0, then what is added behind */
	RVL_B_INPUTS,
};

/* Sums of products have magnitudes up to this one, so that float32 holds them exactly. */
#define RVL_B_MOST_PRODUCTS ((int64_t)1 << 24)

/* Bound of factors and summands, so that no finite operand makes an infinite or undefined result. */
#define RVL_B_MOST_PARAMETER 0x1p60f

/** Words that hold the bits of @channels channels. */
static inline int64_t rvl_b_words(int64_t channels)
{
	return (channels + 63) / 64;
}

#endif
