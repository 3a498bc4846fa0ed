/* SPDX-License-Identifier: MIT */
/* What quantised convolutions and matrix products have in common. */
#ifndef RVL_QPRODUCT_H
#define RVL_QPRODUCT_H

#include "internal.h"

/** Whether the operand is quantised to 8 bits, with one scale or, if @per_channel, several. */
bool rvl_q_is_byte(const struct rvl_kernel_arg *a, bool per_channel);

/**
 * Whether operands and result are those of a quantised product: bytes, or of CONV, GEMM and MATMUL,
 * bytes and floats.
 */
bool rvl_q_fits(const struct rvl_kernel_desc *d);

/** k->q with the bias, which a run gets. */
struct rvl_qparams rvl_q_with_bias(const struct rvl_kernel *k, const void *const *in);

/** Sets k->q for @channels output channels, from the operands and the attributes; scales times @alpha. */
int rvl_q_params(struct rvl_kernel *k, int64_t channels, float alpha, char *why);

/** Frees the parameters of channels: packed weights have scales and corrected biases of their own. */
void rvl_q_drop_params(struct rvl_kernel *k, int64_t channels);

/* Where the weights of a product lie. */
struct rvl_q_weights {
	const struct rvl_kernel *k;
	const void *w;
	int64_t row, tap, col;	/* strides: output channel, tap, channel */
	int64_t merged;		/* groups of a convolution that are computed as one */
};

/** A weight less its zero point, for struct rvl_i8_source. @ctx: struct rvl_q_weights. */
int32_t rvl_q_weight(const void *ctx, int64_t n, int64_t tap, int64_t c);

#endif
