/* SPDX-License-Identifier: MIT */
/* Arithmetic on sizes that are not negative and whose sums fit. */
#ifndef RVL_SIZES_H
#define RVL_SIZES_H

#include <stdint.h>

static inline int64_t rvl_least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t rvl_ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/* The next multiple of @step. */
static inline int64_t rvl_round_up(int64_t n, int64_t step)
{
	return rvl_ceil_div(n, step) * step;
}

#endif
