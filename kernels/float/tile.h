/* SPDX-License-Identifier: MIT */
/*
 * The micro-kernels on float32 for any vector unit. Before it is included: TARGET, vec, VL (floats
 * of a vector), MR, NV (vectors of a row of a tile), V_ZERO, V_LOAD, V_STORE, V_SET1, V_ADD, V_FMA(a,
 * b, c) = a * b + c, V_CLAMP(v, lo, hi), which returns what is not a number. After it: TILES(rows)
 * for each number of rows.
 */
#ifndef RVL_FLOAT_TILE_H
#define RVL_FLOAT_TILE_H

#include "float/float.h"

#define NR (NV * VL)
#define INLINE static inline __attribute__((always_inline)) TARGET

#define LINE 64		/* bytes of a line of the cache */
#define AHEAD 4096	/* bytes behind the panel of a that is read: beyond the page to which processors read ahead */

/* Steps along k that read no more than a line of a. */
#define STEPS (MR * (int)sizeof(float) >= LINE ? 1 : LINE / (MR * (int)sizeof(float)))

/* Scales a sum, adds what the tile adds, and stores it. */
INLINE void store_row(const struct rvl_f32_gemm_call *c, int i, int vectors, const vec *sum)
{
	vec lo = V_SET1(c->lo), hi = V_SET1(c->hi), scale = V_SET1(c->scale);

#pragma GCC unroll 8
	for (int j = 0; j < vectors; j++) {
		vec v = c->c ? V_LOAD(c->c + i * c->c_row + j * VL) : V_ZERO;

		v = V_FMA(scale, sum[j], v);
		if (c->bias)
			v = V_ADD(v, V_SET1(c->bias[i]));
		V_STORE(c->y + i * c->y_row + j * VL, V_CLAMP(v, lo, hi));
	}
}

/* Adds the products at one k. */
INLINE void add_step(vec sum[MR][NV], const float *a, const float *b, int rows, int vectors)
{
	vec w[NV];

#pragma GCC unroll 8
	for (int j = 0; j < vectors; j++)
		w[j] = V_LOAD(b + j * VL);
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++) {
		vec v = V_SET1(a[i]);

#pragma GCC unroll 8
		for (int j = 0; j < vectors; j++)
			sum[i][j] = V_FMA(v, w[j], sum[i][j]);
	}
}

/* @rows is constant; the panel of a has MR rows, whatever it is. */
INLINE void tile(const struct rvl_f32_gemm_call *c, int rows, int vectors)
{
	const float *a = c->a, *b = c->b;
	vec sum[MR][NV];
	int64_t k = c->k;

#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (int j = 0; j < vectors; j++)
			sum[i][j] = V_ZERO;
	/* The rows of the result are read from memory while the products are summed. */
	for (int i = 0; i < c->rows; i++) {
		__builtin_prefetch(c->y + i * c->y_row, 1);
		__builtin_prefetch(c->y + i * c->y_row + vectors * VL - 1, 1);
	}
	for (; c->far && k >= STEPS; k -= STEPS, a += STEPS * MR, b += STEPS * c->b_row) {
		__builtin_prefetch((const void *)((uintptr_t)a + AHEAD), 0, 2);
#pragma GCC unroll 8
		for (int s = 0; s < STEPS; s++)
			add_step(sum, a + s * MR, b + s * c->b_row, rows, vectors);
	}
	for (; k > 0; k--, a += MR, b += c->b_row)
		add_step(sum, a, b, rows, vectors);
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
		if (i < c->rows)
			store_row(c, i, vectors, sum[i]);
}

#define TILES(rows) \
	static TARGET void tile_##rows(const struct rvl_f32_gemm_call *c) \
	{ \
		if (c->cols > VL) \
			tile(c, rows, NV); \
		else \
			tile(c, rows, 1); \
	}

#define TAP_ROWS 4	/* that are summed side by side */

#ifndef V_STORE_PART
/* The first @n floats of a vector. */
INLINE void store_part(float *y, vec v, int64_t n)
{
	float part[VL];

	V_STORE(part, v);
	for (int i = 0; i < n; i++)
		y[i] = part[i];
}
#define V_STORE_PART store_part
#endif

/* A vector of results, of which @n are left. */
INLINE void store_sum(float *y, vec v, int64_t n)
{
	if (n >= VL)
		V_STORE(y, v);
	else
		V_STORE_PART(y, v, n);
}

/* @vectors vectors at @at of @rows adjacent rows from @row on. @rows and @vectors are constant. */
INLINE void sum_taps(const struct rvl_f32_taps_call *c, int64_t row, int64_t at, int rows, int vectors)
{
	vec sum[TAP_ROWS][2], lo = V_SET1(c->lo), hi = V_SET1(c->hi);
	int64_t left = c->n - at;
	float *y = c->y + row * c->y_row + at;

	at += row * c->p_row;
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < vectors; j++)
			sum[i][j] = V_SET1(c->bias);
	for (int64_t t = 0; t < c->taps; t++) {
		const float *p = c->p[t] + at;
		vec w = V_SET1(c->w[t]);

#pragma GCC unroll 8
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < vectors; j++)
				sum[i][j] = V_FMA(w, V_LOAD(p + i * c->p_row + j * VL), sum[i][j]);
	}
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++, y += c->y_row)
		for (int j = 0; j < vectors; j++)
			store_sum(y + j * VL, V_CLAMP(sum[i][j], lo, hi), left - j * VL);
}

/* Adjacent rows from @row on. @rows is constant. */
INLINE void rows_of_taps(const struct rvl_f32_taps_call *c, int64_t row, int rows)
{
	int64_t i = 0;

	for (; i + VL < c->n; i += 2 * VL)
		sum_taps(c, row, i, rows, 2);
	if (i < c->n)
		sum_taps(c, row, i, rows, 1);
}

static TARGET void taps(const struct rvl_f32_taps_call *c)
{
	int64_t row = 0;

	for (; row + TAP_ROWS <= c->rows; row += TAP_ROWS)
		rows_of_taps(c, row, TAP_ROWS);
	for (; row < c->rows; row++)
		rows_of_taps(c, row, 1);
}

#if NV == 2
static TARGET void put(const float *x, const int64_t *off, int64_t k, int64_t n, float *y)
{
	for (; k > 0; k--, off++, y += NR) {
		V_STORE(y, V_LOAD(x + *off));
		V_STORE(y + n - VL, V_LOAD(x + *off + n - VL));
	}
}
#endif

/* ---- a matrix by a vector ---- */

#define GEMV_ROWS 4	/* that are summed side by side */

/* @rows is constant. The lanes of a sum are added in their order, then what no vector holds. */
INLINE void sum_rows(const struct rvl_f32_gemv_call *c, int64_t row, int rows)
{
	const float *m = c->m + row * c->row;
	vec sum[GEMV_ROWS];
	int64_t k = 0;

#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
		sum[i] = V_ZERO;
	for (; k + VL <= c->n; k += VL) {
		vec v = V_LOAD(c->v + k);

#pragma GCC unroll 4
		for (int i = 0; i < rows; i++)
			sum[i] = V_FMA(V_LOAD(m + i * c->row + k), v, sum[i]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++) {
		float lane[VL], all = 0;

		V_STORE(lane, sum[i]);
		for (int j = 0; j < VL; j++)
			all += lane[j];
		for (int64_t j = k; j < c->n; j++)
			all += m[i * c->row + j] * c->v[j];
		c->y[row + i] += all;
	}
}

static TARGET void gemv(const struct rvl_f32_gemv_call *c)
{
	int64_t row = 0;

	for (; row + GEMV_ROWS <= c->rows; row += GEMV_ROWS)
		sum_rows(c, row, GEMV_ROWS);
	for (; row < c->rows; row++)
		sum_rows(c, row, 1);
}

#endif
