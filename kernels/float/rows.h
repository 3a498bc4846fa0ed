/* SPDX-License-Identifier: MIT */
/* Copies of parts of rows of float32 images. */
#ifndef RVL_FLOAT_ROWS_H
#define RVL_FLOAT_ROWS_H

#include <string.h>

#include "sizes.h"
#include "window.h"

/* Four floats of any alignment. */
typedef uint32_t rvl_quad __attribute__((vector_size(16), aligned(4), may_alias));

static inline void rvl_f32_copy(float *dst, const float *src, int64_t n)
{
	int64_t i = 0;

	if (n >= 64) {
		memcpy(dst, src, (size_t)n * sizeof(*dst));
		return;
	}
	for (; i + 4 <= n; i += 4)
		*(rvl_quad *)(dst + i) = *(const rvl_quad *)(src + i);
	if (n >= 4)	/* the last quad may overlap the one before */
		*(rvl_quad *)(dst + n - 4) = *(const rvl_quad *)(src + n - 4);
	else
		for (; i < n; i++)
			dst[i] = src[i];
}

static inline void rvl_f32_copy_apart(float *dst, const float *src, int64_t n, int64_t step)
{
	int64_t i = 0;

	/* The second vector has one element more than the results need, so the last ones are left. */
	for (; step == 2 && i + 4 < n; i += 4)
		*(rvl_quad *)(dst + i) =
			__builtin_shufflevector(*(const rvl_quad *)(src + 2 * i),
						*(const rvl_quad *)(src + 2 * i + 4), 0, 2, 4, 6);
	if (i) {	/* they may overlap, and begin one element early */
		src += 2 * n - 9;
		*(rvl_quad *)(dst + n - 4) =
			__builtin_shufflevector(*(const rvl_quad *)src, *(const rvl_quad *)(src + 4),
						1, 3, 5, 7);
		return;
	}
	for (; i < n; i++)
		dst[i] = src[i * step];
}

static inline void rvl_f32_zero(float *dst, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		dst[i] = 0;
}

/* Results [*lead, *past) of @n have the element at @x0 + i * stride inside the row. */
static inline void rvl_f32_inside(const struct rvl_window_axis *a, int64_t x0, int64_t n,
				  int64_t *lead, int64_t *past)
{
	*lead = 0;
	*past = n;
	if (x0 >= 0 && x0 + (n - 1) * a->stride < a->n)
		return;
	*past = x0 < a->n ? rvl_least(rvl_ceil_div(a->n - x0, a->stride), n) : 0;
	*lead = x0 < 0 ? rvl_least(rvl_ceil_div(-x0, a->stride), *past) : 0;
}

/* Elements of a row at @x0, @x0 + stride, ...; zeros where the row has none. */
static inline void rvl_f32_copy_row(const struct rvl_window_axis *x, const float *row, int64_t x0,
				    int64_t n, float *dst)
{
	int64_t lead, past;

	rvl_f32_inside(x, x0, n, &lead, &past);
	rvl_f32_zero(dst, lead);
	if (past <= lead)
		past = lead;
	else if (x->stride == 1)
		rvl_f32_copy(dst + lead, row + x0 + lead, past - lead);
	else
		rvl_f32_copy_apart(dst + lead, row + x0 + lead * x->stride, past - lead, x->stride);
	rvl_f32_zero(dst + past, n - past);
}

#endif
