/* SPDX-License-Identifier: MIT */
#ifndef RVL_FLOAT_SOFTMAX_H
#define RVL_FLOAT_SOFTMAX_H

#include <stdint.h>

/** y[i * step] = exp(x[i * step] - top) for i < n; y may be x. Returns their sum. */
double rvl_f32_exp_line(const float *x, int64_t n, int64_t step, float top, float *y);

/** Softmax of adjacent rows of @n elements, of which there is one; y may be x. */
void rvl_f32_softmax_rows(const float *x, int64_t rows, int64_t n, float *y);

/** Softmax of adjacent columns of @n elements, of which there is one, @step apart; y may be x. */
void rvl_f32_softmax_columns(const float *x, int64_t n, int64_t columns, int64_t step, float *y);

#endif
