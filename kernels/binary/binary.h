/* SPDX-License-Identifier: MIT */
/* What the files of binary layers share. The operators are described in rivulet_bits.h. */
#ifndef RVL_BINARY_H
#define RVL_BINARY_H

#include "internal.h"
#include "rivulet_bits.h"

/* What BinaryConv computes from a sum. Arrays have one element for each output channel. */
struct rvl_b_post {
	float lo, hi;			/* clamp of the sum */
	const float *scale, *bias;	/* NULL: the bits are those of the sum */
	const float *shortcut_scale;	/* NULL: no shortcut */
	const float *slope, *after;	/* NULL: no PRelu */
	const float *t_float;		/* at most one of both */
	const int32_t *t_int;
	enum rvl_type y, shortcut;
	int32_t y_zero, shortcut_zero;
	int32_t q_lo, q_hi;		/* clamp of an integer result */
};

struct rvl_b_conv {
	struct rvl_b_post post;
	int64_t words, group_words, out_words;	/* of a pixel, of a group's channels, of a pixel's result */
	int32_t padding;		/* what a position of the padding counts as: 0, 1 or -1 */
	struct rvl_pitch sp;		/* of the shortcut */
};

/** Element @at of an integer tensor. */
int32_t rvl_b_integer(enum rvl_type type, const void *data, int64_t at);

/** Whether an operand is a tensor of bits: words of @channels channels for each of n * h * w pixels. */
bool rvl_b_is_image(const struct rvl_kernel_arg *a, int64_t channels, const int64_t nhw[3]);

/** Whether operand @i is a constant of one element of @type for each of @n channels. */
bool rvl_b_is_vector(const struct rvl_kernel_desc *d, uint32_t i, enum rvl_type type, int64_t n);

/** Images of the operand as [N, C, H, W]; a matrix [N, C] has one pixel. */
bool rvl_b_image_shape(const struct rvl_shape *s, int64_t nchw[4]);
/** Its pitches. */
struct rvl_pitch rvl_b_pitch(const struct rvl_kernel_arg *a);

/** The scalar reference of BinaryConv. */
int rvl_b_conv_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
		   void *scratch, const struct rvl_pool *pool);

#endif
