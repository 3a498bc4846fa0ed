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

/** enum rvl_fit - how a picture of another size or shape becomes one of the wanted size */
enum rvl_fit {
	RVL_FIT_NONE,	 /* it does not: -EINVAL */
	RVL_FIT_CROP,	 /* scaled to cover, the middle is taken; the aspect ratio is kept */
	RVL_FIT_PAD,	 /* scaled to fit inside, centred on black; the aspect ratio is kept */
	RVL_FIT_STRETCH, /* each side scaled by itself */
};
/** rvl_fit_name(), rvl_fit_find() - "crop"; -1 when there is none of that name */
const char *rvl_fit_name(enum rvl_fit fit);
int rvl_fit_find(const char *name);
/** rvl_image_fit() - a new picture of @w x @h, bilinear. 0, -EINVAL or -ENOMEM */
int rvl_image_fit(const struct rvl_image *src, uint32_t w, uint32_t h, enum rvl_fit fit, struct rvl_image *out);

/**
 * rvl_idx_read() - an IDX file of unsigned bytes (MNIST's format), plain or gzip. @ndim: what it
 * must have
 */
int rvl_idx_read(const char *path, uint32_t ndim, struct rvl_array *out);

/** rvl_picture() - grey images side by side, two pixel rows a line; @labels under each */
void rvl_picture(FILE *f, uint32_t count, const uint8_t *const *pixels, uint32_t w, uint32_t h,
		 const char *const *labels, bool colour);

#endif
