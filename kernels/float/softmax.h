/* SPDX-License-Identifier: MIT */
#ifndef RVL_FLOAT_SOFTMAX_H
#define RVL_FLOAT_SOFTMAX_H

#include <stdint.h>

/** y[i * step] = exp(x[i * step] - top) for i < n; y may be x. Returns their sum. */
double rvl_f32_exp_line(const float *x, int64_t n, int64_t step, float top, float *y);

#endif
