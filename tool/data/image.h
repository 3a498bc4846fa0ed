/* SPDX-License-Identifier: MIT */
/* Pictures: from files, to another size, and on a terminal. */
#ifndef RVL_TOOL_IMAGE_H
#define RVL_TOOL_IMAGE_H

#include <stdio.h>

#include "data/array.h"

#define RVL_IMAGE_SIDE 16384u	/* pixels at most, each way */

/** struct rvl_image - 8 bits a sample, interleaved; owns @data */
struct rvl_image {
	uint32_t w, h, channels;	/* 1 grey, 3 RGB */
	uint8_t *data;
};

/** rvl_image_read() - PNG, or binary PGM or PPM. 0 or an enum rvl_exit */
int rvl_image_read(const char *path, struct rvl_image *out);
int rvl_pnm_parse(const uint8_t *p, size_t size, struct rvl_image *out, char *why);

/** rvl_idx_read() - an IDX file of unsigned bytes (MNIST's format), plain or gzip. @ndim: what it must have */
int rvl_idx_read(const char *path, uint32_t ndim, struct rvl_array *out);

/** rvl_picture() - grey images side by side, two pixel rows a line; @labels under each */
void rvl_picture(FILE *f, uint32_t count, const uint8_t *const *pixels, uint32_t w, uint32_t h,
		 const char *const *labels, bool colour);

#endif
