/* SPDX-License-Identifier: MIT */
/* Pictures as the input of a model: size, layout, normalisation, quantisation. */
#ifndef RVL_TOOL_PICTURE_INPUT_H
#define RVL_TOOL_PICTURE_INPUT_H

#include "data/image.h"

/** struct rvl_picture_options - --resize, --layout, --mean, --std; all NULL is the default */
struct rvl_picture_options {
	const char *fit_name, *layout, *mean_text, *std_text;
	enum rvl_fit fit;	/* this and the rest by rvl_picture_options_check() */
	float mean[3], std[3];	/* of the channels R, G, B, or of grey in [0] */
};

/* Entries of an option table; @m is the path of a struct rvl_picture_options. */
#define RVL_PICTURE_OPTIONS(type, m)                                                               \
	{ "resize", 0, "HOW", "a picture of another size: crop (default), pad, stretch or none",   \
	  RVL_MEMBER(type, m.fit_name) },                                                          \
	{ "mean", 0, "M|R,G,B", "subtracted from samples of 0 to 1 (0)",                           \
	  RVL_MEMBER(type, m.mean_text) },                                                         \
	{ "std", 0, "S|R,G,B", "and what they are then divided by (1)",                            \
	  RVL_MEMBER(type, m.std_text) },                                                          \
	{ "layout", 0, "nchw|nhwc", "of the input (by its shape)", RVL_MEMBER(type, m.layout) }

/** struct rvl_picture_target - an input that takes pictures; @name is borrowed */
struct rvl_picture_target {
	const char *name;
	enum rivulet_dtype dtype;
	uint32_t ndim;
	uint64_t dim[RIVULET_MAX_DIMS];
	float scale;		/* of bytes; 0: samples as they are */
	int32_t zero_point;
	uint32_t c, h, w;	/* this and the rest by rvl_picture_target_set() */
	bool nhwc;
};

/** rvl_picture_options_check() - parse the texts. 0 or an enum rvl_exit */
int rvl_picture_options_check(struct rvl_picture_options *o);
/** rvl_picture_options_given() - whether any of them was given */
bool rvl_picture_options_given(const struct rvl_picture_options *o);
/** rvl_picture_target_set() - find layout and size from the shape. 0 or an enum rvl_exit */
int rvl_picture_target_set(const struct rvl_picture_options *o, struct rvl_picture_target *t);
/**
 * rvl_picture_put() - a picture, fitted, normalised and quantised, into @memory, dense and of the
 * target's shape. @what names it in errors. 0 or an enum rvl_exit
 */
int rvl_picture_put(const struct rvl_picture_options *o, const struct rvl_picture_target *t,
		    const struct rvl_image *img, const char *what, void *memory);
/** rvl_grey_of() - of one RGB pixel: 299 R + 587 G + 114 B, in thousandths */
uint8_t rvl_grey_of(const uint8_t *rgb);

#endif
