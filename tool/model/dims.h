/* SPDX-License-Identifier: MIT */
/* Shapes of inputs and values of dimensions: --shape and --symbol. */
#ifndef RVL_TOOL_DIMS_H
#define RVL_TOOL_DIMS_H

#include "rivulet_compiler.h"
#include "verb.h"

#define RVL_DIMS_MAX 256

/** struct rvl_dims - the values of all --shape and --symbol; all zero is none */
struct rvl_dims {
	uint64_t symbol; /* without a name */
	uint32_t n_shapes, n_names;
	struct rivulet_input_shape shape[RVL_DIMS_MAX];
	struct rivulet_dimension name[RVL_DIMS_MAX];
};

/** rvl_dims_shape() - stores a --shape; @member is a struct rvl_dims */
int rvl_dims_shape(void *member, const char *value);
/** rvl_dims_symbol() - stores a --symbol; @member is a struct rvl_dims */
int rvl_dims_symbol(void *member, const char *value);
/** rvl_dims_given() - whether any of them was given; rvl_dims_named() - other than --symbol N */
bool rvl_dims_given(const struct rvl_dims *d);
bool rvl_dims_named(const struct rvl_dims *d);
/** rvl_dims_fill() - into compile options, which point into @d */
void rvl_dims_fill(const struct rvl_dims *d, struct rivulet_compile_options *o);
void rvl_dims_clear(struct rvl_dims *d);

/* Entries of an option table. */
#define RVL_DIMS_OPTIONS(type, m)                                                                  \
	{ "symbol", 0, "[NAME=]N", "value of a named symbolic dimension, or of all others; repeatable", \
	  RVL_CALL(type, m, rvl_dims_symbol) },                                                    \
	{ "shape", 0, "NAME=D0,D1,...", "shape of an input; repeatable",                           \
	  RVL_CALL(type, m, rvl_dims_shape) }

#endif
