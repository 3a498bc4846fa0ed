/* SPDX-License-Identifier: MIT */
/* The exponentials of a Softmax. */
#include "float/softmax.h"

#include "isa.h"

#define PART 256	/* elements at a time */

double rvl_f32_exp_line(const float *x, int64_t n, int64_t step, float top, float *y)
{
	double sum = 0.0;
	float part[PART];

	for (int64_t at = 0; at < n; at += PART) {
		int64_t left = n - at < PART ? n - at : PART;

		for (int64_t i = 0; i < left; i++)
			part[i] = x[(at + i) * step] - top;
		rvl_f32_kernels()->math->exp(part, left, part);
		for (int64_t i = 0; i < left; i++) {
			y[(at + i) * step] = part[i];
			sum += (double)part[i];
		}
	}
	return sum;
}
