/* SPDX-License-Identifier: MIT */
/* --calibrate and the options that belong to it: how a float model is quantised. */
#ifndef RVL_TOOL_QUANTISE_H
#define RVL_TOOL_QUANTISE_H

#include "data/examples.h"
#include "rivulet_compiler.h"
#include "verb.h"

#define RVL_QUANTISE_PATHS 256
#define RVL_QUANTISE_KEEP 256

/** struct rvl_list - values of an option that is given several times */
struct rvl_list {
	const char *value[RVL_QUANTISE_KEEP];
	uint32_t n;
};

/** struct rvl_quantise_args - all zero: models stay as they are */
struct rvl_quantise_args {
	struct rvl_list path, keep_float;
	struct rvl_picture_options picture;
	const char *range, *activations, *correct, *mixed, *bits, *bits_loss, *wide;
	bool equalise;
	uint64_t percentile; /* in 1/10000 % */
	/* By rvl_quantise_fill(); rvl_quantise_clear(). */
	struct rvl_examples examples;
	struct rivulet_model_input *input;
	uint32_t inputs;
};

int rvl_list_add(void *member, const char *value);
int rvl_percentile_parse(void *member, const char *value);

/* Entries of an option table; @m is the path of a struct rvl_quantise_args. */
#define RVL_QUANTISE_OPTIONS(type, m)                                                              \
	{ "calibrate", 0, "[NAME=]PATH", "quantise a float model by examples: pictures, .npy, .npz, " \
	  ".pb, or a folder; repeatable", RVL_CALL(type, m.path, rvl_list_add) },                  \
	{ "range", 0, "METHOD", "of activations: auto (default), min-max, percentile, entropy, mse", \
	  RVL_MEMBER(type, m.range) },                                                             \
	{ "percentile", 0, "P", "of --range percentile (99.99)",                                   \
	  RVL_CALL(type, m.percentile, rvl_percentile_parse) },                                    \
	{ "activations", 0, "uint8|int8", "type of quantised activations (uint8)",                 \
	  RVL_MEMBER(type, m.activations) },                                                       \
	{ "bias-correction", 0, "auto|yes|no", "biases take up the mean error of rounded weights (auto)", \
	  RVL_MEMBER(type, m.correct) },                                                           \
	{ "equalise", 0, NULL, "first scale the channels between convolutions to equal ranges",    \
	  RVL_MEMBER(type, m.equalise) },                                                          \
	{ "wide-binary", 0, "auto|yes|no", "images between binary layers int16 (auto: where SNR gains)", \
	  RVL_MEMBER(type, m.wide) },                                                              \
	{ "mixed", 0, "DB", "keep the layers float that hurt most, until outputs have this SNR",   \
	  RVL_MEMBER(type, m.mixed) },                                                             \
	{ "bits", 0, "MEAN", "1 to 8: fewer bits for weights, where they harm least, MEAN on average",  \
	  RVL_MEMBER(type, m.bits) },                                                              \
	{ "bits-loss", 0, "P", "as few bits as leave all but P % of the examples their class",      \
	  RVL_MEMBER(type, m.bits_loss) },                                                         \
	{ "keep-float", 0, "NODE", "a node that stays float; repeatable",                          \
	  RVL_CALL(type, m.keep_float, rvl_list_add) },                                            \
	RVL_PICTURE_OPTIONS(type, m.picture)

/**
 * rvl_quantise_check() - parse the texts of options. Needs no model. 0 or an enum rvl_exit
 */
int rvl_quantise_check(struct rvl_quantise_args *a, struct rivulet_quantise *q);
/**
 * rvl_quantise_fill() - the same, and read the examples of a model into o->quantise
 * @o: batch, symbol and frozen inputs are set. @path names the model. 0 or an enum rvl_exit
 */
int rvl_quantise_fill(struct rvl_quantise_args *a, const char *path, const struct rvl_blob *onnx,
		      struct rivulet_compile_options *o);
bool rvl_quantise_given(const struct rvl_quantise_args *a);
void rvl_quantise_clear(struct rvl_quantise_args *a);

#endif
