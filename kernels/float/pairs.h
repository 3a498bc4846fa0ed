/* SPDX-License-Identifier: MIT */
/*
 * The micro-kernel on pairs of int16 for any vector unit. Before it is included: what tile.h needs,
 * and ivec (VL numbers of 32 bits), P_ZERO, P_LOAD, P_STORE, P_SET1, P_ADD, and P_MADD(a, b), the sums
 * of the products of pairs. After it: PAIR_TILES(rows) for each number of rows.
 */
#ifndef RVL_FLOAT_PAIRS_H
#define RVL_FLOAT_PAIRS_H

#include "float/tile.h"

/* @rows is constant; the panel of a has MR rows, whatever it is. */
INLINE void pair_tile(const struct rvl_f32_pairs_call *c, int rows, int vectors)
{
	const float *a = c->a, *b = c->b;
	ivec sum[MR][NV];

#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (int j = 0; j < vectors; j++)
			sum[i][j] = P_ZERO;
	for (int64_t k = c->k; k > 0; k--, a += MR, b += NR) {
		ivec w[NV];

#pragma GCC unroll 8
		for (int j = 0; j < vectors; j++)
			w[j] = P_LOAD(b + j * VL);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			ivec v = P_SET1(a + i);

#pragma GCC unroll 8
			for (int j = 0; j < vectors; j++) {
				ivec s = P_ADD(sum[i][j], P_MADD(v, w[j]));

				/* One after the other: gcc would keep all products and spill sums. */
				P_KEEP(s);
				sum[i][j] = s;
			}
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (int j = 0; j < vectors; j++) {
			uint32_t *y = c->y + i * c->y_row + j * VL;

			if (i < c->rows)
				P_STORE(y, c->add ? P_ADD(P_LOAD(y), sum[i][j]) : sum[i][j]);
		}
}

#define PAIR_TILES(rows) \
	static TARGET void pairs_##rows(const struct rvl_f32_pairs_call *c) \
	{ \
		if (c->cols > VL) \
			pair_tile(c, rows, NV); \
		else \
			pair_tile(c, rows, 1); \
	}

#endif
