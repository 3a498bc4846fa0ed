/* SPDX-License-Identifier: MIT */
/* Inserts QuantizeLinear and DequantizeLinear into a float graph. */
#ifndef RVL_INSERT_H
#define RVL_INSERT_H

#include "quant/choose.h"
#include "quant/observe.h"

/* Parameters of the values of one tensor. */
struct rvl_params {
	float scale;
	int32_t zp;
	enum rvl_type type; /* U8 or S8 */
};

/**
 * Puts a pair around every tensor of @c, with params[] by tensor id. The weights of its products
 * become int8 bytes of c->bits bits with a scale for each row, their biases int32. @seen: by tensor id, means of the
 * channels of the products' inputs, by which biases take up the mean error of the weights; NULL:
 * they do not. The bytes of tensor NAME are NAME/quantised. The arrays of @c are invalid for the
 * graph that results.
 */
int rvl_insert(struct rvl_graph *g, const struct rvl_chosen *c, const struct rvl_params *params,
	       const struct rvl_seen *seen, struct rvl_err *err);

#define RVL_QUANTISED_SUFFIX "/quantised"

/* Rows of a product's weights: element i of row m is at m * row + i * step. */
struct rvl_rows {
	int64_t n, len, row, step;
	int32_t axis;
};

struct rvl_rows rvl_rows_of(const struct rvl_node *n);

/**
 * The scale of one row of weights of 1 to 8 bits. With 8, the largest magnitude is 127 steps; with
 * fewer, the sum of the squared errors is least.
 */
float rvl_row_scale(const struct rvl_rows *r, const float *w, int64_t m, uint32_t bits);

/** One weight as the byte it becomes: -127 to 127 with 8 bits, else two's complement. */
int8_t rvl_row_quantise(float w, float scale, uint32_t bits);

#endif
