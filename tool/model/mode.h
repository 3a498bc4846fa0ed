/* SPDX-License-Identifier: MIT */
/* How products are computed: --mode and the options that belong to it. */
#ifndef RVL_TOOL_MODE_H
#define RVL_TOOL_MODE_H

#include "data/array.h"
#include "model/quantise.h"
#include "rivulet_compiler.h"
#include "verb.h"

#define RVL_MODE_KEEP 256

/** struct rvl_mode - --mode and what goes with it; all zero is int8 */
struct rvl_mode {
	const char *mode, *lengths;
	uint64_t length;
	const char *keep[RVL_MODE_KEEP];
	uint32_t n_keep;
	struct rvl_quantise_args quantise; /* rvl_mode_clear() */
};
/** rvl_mode_keep() - stores a --keep-int8; @member is a struct rvl_mode */
int rvl_mode_keep(void *member, const char *value);
/*
 * Entries of an option table; RVL_KEEP_OPTIONS alone is for verbs that choose mode and length
 * themselves.
 */
#define RVL_KEEP_OPTIONS(type, m)                                                                  \
	{ "keep-int8", 0, "NODE", "sc: a node, first or last stays int8; repeatable",              \
	  RVL_CALL(type, m, rvl_mode_keep) },                                                      \
	RVL_QUANTISE_OPTIONS(type, m.quantise)
#define RVL_MODE_OPTIONS(type, m)                                                                  \
	{ "mode", 0, "int8|sc", "products: int8, or stochastic bitstreams (int8)",                 \
	  RVL_MEMBER(type, m.mode) },                                                              \
	{ "length", 0, "BITS", "sc: of a bitstream at every level (64)", RVL_MEMBER(type, m.length), \
	  .least = 8, .most = 256 },                                                               \
	{ "lengths", 0, "L0,L1,...", "sc: by level, slowest first: bits, int8, or - for no variant", \
	  RVL_MEMBER(type, m.lengths) },                                                           \
	RVL_KEEP_OPTIONS(type, m)
#define RVL_BATCH_HELP "value of a symbolic first dimension (1)"

/**
 * rvl_mode_fill() - into compile options for a board of so many levels; examples are left to
 * rvl_quantise_fill(). 0 or an enum rvl_exit
 */
int rvl_mode_fill(struct rvl_mode *m, uint32_t levels, struct rivulet_compile_options *o);
/** rvl_mode_clear() - what rvl_quantise_fill() has read */
void rvl_mode_clear(struct rvl_mode *m);
/** rvl_mode_given() - whether any of them was given */
bool rvl_mode_given(const struct rvl_mode *m);

#endif
