/* SPDX-License-Identifier: MIT */
/*
 * The transforms of F(4x4, 3x3) for any vector unit (float/winograd.c). To be included after
 * float/tile.h. A row holds one element of NR or more tiles, so that all lanes do the same.
 */
#ifndef RVL_FLOAT_TRANSFORM_H
#define RVL_FLOAT_TRANSFORM_H

#include "float/winograd.h"

#define P_A V_SET1((float)RVL_WINOGRAD_A)
#define P_B V_SET1((float)RVL_WINOGRAD_B)
#define A2 (RVL_WINOGRAD_A * RVL_WINOGRAD_A)
#define B2 (RVL_WINOGRAD_B * RVL_WINOGRAD_B)
#define TIMES(factor, x, y) V_FMA(V_SET1((float)(factor)), x, y)

/* r = B^T d: the polynomials of the points 0, a, -a, b, -b and infinity. */
INLINE void transform_patch(const vec *d, vec *r)
{
	vec even = TIMES(-B2, d[2], d[4]), odd = TIMES(-B2, d[1], d[3]);

	r[0] = TIMES(A2 * B2, d[0], TIMES(-(A2 + B2), d[2], d[4]));
	r[1] = TIMES(RVL_WINOGRAD_A, odd, even);
	r[2] = TIMES(-RVL_WINOGRAD_A, odd, even);
	even = TIMES(-A2, d[2], d[4]);
	odd = TIMES(-A2, d[1], d[3]);
	r[3] = TIMES(RVL_WINOGRAD_B, odd, even);
	r[4] = TIMES(-RVL_WINOGRAD_B, odd, even);
	r[5] = TIMES(A2 * B2, d[1], TIMES(-(A2 + B2), d[3], d[5]));
}

static TARGET void winograd_in(const float *d, int64_t d_row, float *v, int64_t v_row)
{
	for (int64_t l = 0; l < NR; l += VL) {
		vec t[RVL_WINOGRAD_IN][RVL_WINOGRAD_IN], in[RVL_WINOGRAD_IN], out[RVL_WINOGRAD_IN];

		for (int j = 0; j < RVL_WINOGRAD_IN; j++) {
#pragma GCC unroll 8
			for (int i = 0; i < RVL_WINOGRAD_IN; i++)
				in[i] = V_LOAD(d + (i * RVL_WINOGRAD_IN + j) * d_row + l);
			transform_patch(in, out);
#pragma GCC unroll 8
			for (int i = 0; i < RVL_WINOGRAD_IN; i++)
				t[i][j] = out[i];
		}
		for (int i = 0; i < RVL_WINOGRAD_IN; i++) {
			transform_patch(t[i], out);
#pragma GCC unroll 8
			for (int j = 0; j < RVL_WINOGRAD_IN; j++)
				V_STORE(v + (i * RVL_WINOGRAD_IN + j) * v_row + l, out[j]);
		}
	}
}

/* r = A^T m */
INLINE void transform_products(const vec *m, vec *r)
{
	vec sum_a = V_ADD(m[1], m[2]), sum_b = V_ADD(m[3], m[4]);
	vec apart_a = TIMES(-1, m[2], m[1]), apart_b = TIMES(-1, m[4], m[3]);

	r[0] = V_ADD(m[0], V_ADD(sum_a, sum_b));
	r[1] = TIMES(RVL_WINOGRAD_A, apart_a, TIMES(RVL_WINOGRAD_B, apart_b, V_ZERO));
	r[2] = TIMES(A2, sum_a, TIMES(B2, sum_b, V_ZERO));
	r[3] = TIMES(A2 * RVL_WINOGRAD_A, apart_a, TIMES(B2 * RVL_WINOGRAD_B, apart_b, m[5]));
}

static TARGET void winograd_out(const float *m, int64_t n, float bias, float lo, float hi, float *y,
				float *bounded)
{
	vec least = V_SET1(lo), most = V_SET1(hi), b = V_SET1(bias);

	for (int64_t l = 0; l < n; l += VL) {
		vec t[RVL_WINOGRAD_OUT][RVL_WINOGRAD_IN], in[RVL_WINOGRAD_IN], out[RVL_WINOGRAD_OUT];
		vec squares = V_ZERO;

		for (int j = 0; j < RVL_WINOGRAD_IN; j++) {
#pragma GCC unroll 8
			for (int i = 0; i < RVL_WINOGRAD_IN; i++)
				in[i] = V_LOAD(m + (i * RVL_WINOGRAD_IN + j) * n + l);
			transform_products(in, out);
#pragma GCC unroll 4
			for (int i = 0; i < RVL_WINOGRAD_OUT; i++)
				t[i][j] = out[i];
		}
		for (int i = 0; i < RVL_WINOGRAD_OUT; i++) {
			transform_products(t[i], out);
#pragma GCC unroll 4
			for (int j = 0; j < RVL_WINOGRAD_OUT; j++) {
				squares = V_FMA(out[j], out[j], squares);
				V_STORE(y + (i * RVL_WINOGRAD_OUT + j) * n + l,
					V_CLAMP(V_ADD(out[j], b), least, most));
			}
		}
		/* Infinite from the limit on, and an infinity times 0 is NaN. */
		squares = V_FMA(squares, V_SET1(RVL_WINOGRAD_OVERFLOW), V_ZERO);
		V_STORE(bounded + l, V_FMA(squares, V_ZERO, V_ZERO));
	}
}

#undef A2
#undef B2

#endif
