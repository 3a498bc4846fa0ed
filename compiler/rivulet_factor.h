/* SPDX-License-Identifier: MIT */
/* The products of a model by additions alone (docs/ibtf.md): how many, in which form. */
#ifndef RIVULET_FACTOR_H
#define RIVULET_FACTOR_H

#include "rivulet_compiler.h"
#include "rivulet_ibtf.h"

/** struct rivulet_factor_row - one convolution or matrix product; counts are sums over its groups
 */
struct rivulet_factor_row {
	char *node;
	uint32_t groups; /* each of them a product of @n inputs and @m kernels */
	uint32_t n, m, p;
	uint64_t windows; /* how often the product is computed in an inference */
	struct rivulet_ibtf_choice
		of; /* for one window; @of.form: with the fewest additions in all groups */
	uint32_t narrowest, widest; /* columns of the fitted slices */
};

/** struct rivulet_factor - all products with constant weights, in the order of execution */
struct rivulet_factor {
	struct rivulet_factor_row *rows;
	uint32_t n_rows;
	uint32_t left_out; /* products without constant weights, with batches of matrices as
			      weights, of binary layers, or of other operators than Conv,
			      ConvTranspose, Gemm, MatMul and their integer and quantised forms */
};

/**
 * rivulet_factor_model() - count the additions of a model's products
 * @opt: batch, symbol, shapes, files and frozen inputs
 * @bits: of the weights, 2 to 8: wider ones, and those of float products, are rounded to so many,
 * with the largest magnitude of each kernel as the largest value; 0: as they are, float to 8
 * @out: to be freed with rivulet_factor_free() in any case. Errors as rivulet_compile();
 * -EINVAL for weights that are infinite or NaN.
 */
int rivulet_factor_model(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
			 uint32_t bits, struct rivulet_factor *out, struct rvl_err *err);
void rivulet_factor_free(struct rivulet_factor *f);

/** rivulet_factor_sums() - a row with the sums over all rows of counts times windows, and of
 * storage */
struct rivulet_factor_row rivulet_factor_sums(const struct rivulet_factor *f);

/** rivulet_factor_csv() - the rows as comma-separated values, RFC 4180; -ENOMEM */
int rivulet_factor_csv(const struct rivulet_factor *f, struct rivulet_blob *out);

#endif
