/* SPDX-License-Identifier: MIT */
/*
 * Chains of operators: of images, which are computed in stripes of rows (chain.c), of operators on
 * elements, which are computed in blocks of them (chain_elements.c), and of a convolution and the
 * quantisation of its image.
 */
#ifndef RVL_KERNELS_CHAIN_H
#define RVL_KERNELS_CHAIN_H

#include "int8/convert.h"
#include "internal.h"

/* One operator. */
struct rvl_chain_link {
	struct rvl_kernel *k;	/* of elements: of a whole block of them */
	struct rvl_kernel *rest;	/* of elements: of the last block, or NULL */
	struct rvl_kernel_arg y;	/* its whole result */
	uint32_t in[RVL_CHAIN_IN];
	int64_t stride;		/* rows of its result for one of the last result */
	int64_t rows;		/* of its result in memory */
	int64_t row_bytes;
	int64_t at;		/* of these rows, or of a block, in the memory of a band */
};

/* A QuantizeLinear in front of the operators, which the first one of them does as it reads its operand. */
struct rvl_chain_front {
	bool exists;
	uint32_t in;		/* the chain's operand that is quantised */
	struct rvl_kernel_arg y;
	struct rvl_i8_quantize q;
};

struct rvl_chain {
	struct rvl_chain_front front;
	uint32_t n;
	struct rvl_chain_link link[RVL_CHAIN_MAX];
	int64_t height;		/* rows of the last result in a stripe; 0: there are no stripes */
	int64_t work_at;	/* scratch of the operators in the memory of a band */
	int64_t band_bytes;
};

/** Makes the kernels of the next link of a chain of elements from the descriptor, which it changes. */
int rvl_chain_element_link(struct rvl_kernel *k, struct rvl_chain_link *l, struct rvl_kernel_desc *d,
			   char *why);

/** Lays out the blocks of a chain of elements that has all its links. */
void rvl_chain_elements(struct rvl_kernel *k);

#endif
