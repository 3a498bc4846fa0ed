/* SPDX-License-Identifier: MIT */
/* Small arithmetic. */
#ifndef RVL_MATH_H
#define RVL_MATH_H

#include <stdint.h>

static inline int64_t rvl_div_up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static inline int64_t rvl_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t rvl_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t rvl_clamp(int64_t v, int64_t lo, int64_t hi)
{
	return rvl_min(rvl_max(v, lo), hi);
}

#endif
