/* SPDX-License-Identifier: MIT */
/*
 * Few columns of a product, behind the last whole vector of columns. A vector has the rows of a panel of
 * a, because a vector of columns would be mostly empty. The results have the bits of tile.h, which is
 * included before. Before it: V_LOAD_PANEL loads the rows of a panel at one k and nothing behind them.
 */
#ifndef RVL_FLOAT_FEW_H
#define RVL_FLOAT_FEW_H

#define FEW_SUMS 8	/* that hide the latency of an addition */

/* Panel @at of rows, column @j. */
INLINE void store_column(const struct rvl_f32_gemm_call *c, int64_t at, int j, vec sum)
{
	int64_t row = at * MR, n = c->rows - row < MR ? c->rows - row : MR;
	float added[VL] = { 0 }, bias[VL] = { 0 }, y[VL];
	vec v;

	for (int64_t i = 0; c->c && i < n; i++)
		added[i] = c->c[(row + i) * c->c_row + j];
	for (int64_t i = 0; c->bias && i < n; i++)
		bias[i] = c->bias[row + i];
	v = V_FMA(V_SET1(c->scale), sum, V_LOAD(added));
	if (c->bias)
		v = V_ADD(v, V_LOAD(bias));
	V_STORE(y, V_CLAMP(v, V_SET1(c->lo), V_SET1(c->hi)));
	for (int64_t i = 0; i < n; i++)
		c->y[(row + i) * c->y_row + j] = y[i];
}

/* Panels of rows from panel @at on. @panels and @cols are constant. */
INLINE void sum_few(const struct rvl_f32_gemm_call *c, int64_t a_panel, int64_t at, int panels, int cols)
{
	const float *a = c->a + at * a_panel, *b = c->b;
	vec sum[FEW_SUMS];

#pragma GCC unroll 8
	for (int i = 0; i < panels * cols; i++)
		sum[i] = V_ZERO;
	for (int64_t k = c->k; k > 0; k--, a += MR, b += c->b_row) {
#pragma GCC unroll 8
		for (int i = 0; i < panels; i++) {
			vec v = k > 1 ? V_LOAD(a + i * a_panel) : V_LOAD_PANEL(a + i * a_panel);

#pragma GCC unroll 4
			for (int j = 0; j < cols; j++)
				sum[i * cols + j] = V_FMA(v, V_SET1(b[j]), sum[i * cols + j]);
		}
	}
#pragma GCC unroll 8
	for (int i = 0; i < panels; i++)
#pragma GCC unroll 4
		for (int j = 0; j < cols; j++)
			store_column(c, at + i, j, sum[i * cols + j]);
}

/* @cols is constant. */
INLINE void few_columns(const struct rvl_f32_gemm_call *c, int64_t a_panel, int cols)
{
	int64_t at = 0, panels = (c->rows + MR - 1) / MR;

	for (; at + FEW_SUMS / cols <= panels; at += FEW_SUMS / cols)
		sum_few(c, a_panel, at, FEW_SUMS / cols, cols);
	for (; at < panels; at++)
		sum_few(c, a_panel, at, 1, cols);
}

static TARGET void few(const struct rvl_f32_gemm_call *c, int64_t a_panel)
{
	if (c->cols == 1)
		few_columns(c, a_panel, 1);
	else if (c->cols == 2)
		few_columns(c, a_panel, 2);
	else if (c->cols == 3)
		few_columns(c, a_panel, 3);
	else
		few_columns(c, a_panel, 4);
}

#endif
