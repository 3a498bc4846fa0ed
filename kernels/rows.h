/* SPDX-License-Identifier: MIT */
/*
 * Kernels that can compute some rows of an image from the rows of their operands that those need.
 * kernels/chain.c runs several of them stripe by stripe.
 */
#ifndef RVL_ROWS_H
#define RVL_ROWS_H

#include "internal.h"

#define RVL_ROW_IMAGES 2	/* operands of such a kernel that are images; they are the first ones */

/* Rows of one image. The calling thread computes them alone. */
struct rvl_rows {
	/*
	 * Where row 0 of an operand or of the result is, or would be: only the rows that are read or
	 * written need to exist. Rows lie one behind the other, as the kernel's descriptor says. in[0] is of
	 * float32 if the descriptor has @quantise.
	 */
	const uint8_t *in[RVL_ROW_IMAGES];
	uint8_t *out;
	int64_t first, past;	/* rows of the result */
	uint8_t *scratch;	/* what the kernel's scratch() asks for, aligned to 64 bytes */
};

struct rvl_row_kernel {
	uint32_t images;	/* operands that are images */
	bool window;		/* reads rows under the windows of rvl_kernel.g, else those it writes */
	void (*run)(const struct rvl_kernel *k, const struct rvl_rows *r);
	/* Bytes for at most @rows rows; NULL: none. */
	int64_t (*scratch)(const struct rvl_kernel *k, int64_t rows);
};

extern const struct rvl_row_kernel rvl_rows_qconv, rvl_rows_max_pool, rvl_rows_qaverage, rvl_rows_qbinary,
	rvl_rows_table;

struct rvl_row_range {
	int64_t first, past;
};

/** Rows of the images that @k reads for rows @r of its result, inside the image. */
struct rvl_row_range rvl_rows_under(const struct rvl_kernel *k, struct rvl_row_range r);

#endif
