/* SPDX-License-Identifier: MIT */
/*
 * Micro-kernels on float32, one set for each instruction set. Both operands of a product are packed
 * in panels of the set's width. The order of summation is section 11 of docs/numerics.md.
 */
#ifndef RVL_FLOAT_H
#define RVL_FLOAT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * One tile: y = min(max(scale * (sum of a * b) + c + bias, lo), hi). A value that is not a number passes
 * through the clamp.
 */
struct rvl_f32_gemm_call {
	const float *a;		/* [k][mr] */
	const float *b;		/* k rows, b_row floats apart, of the columns of the tile */
	int64_t b_row;
	int64_t k;
	float scale;
	const float *c;		/* added, rows c_row apart; NULL: nothing */
	int64_t c_row;
	const float *bias;	/* [rows], added to each row; NULL: nothing */
	float *y;
	int64_t y_row;
	int rows;		/* 1 to mr */
	int cols;		/* nr, or that of one vector: all of c and y */
	bool far;		/* a is in no cache as near as the second level */
	float lo, hi;
};

/*
 * @rows rows of @n results: y[i] = clamped bias + sum of w[t] * p[t][i]. Each row of p is readable
 * to the next multiple of the vector.
 */
struct rvl_f32_taps_call {
	const float *const *p;
	int64_t p_row;		/* floats between rows */
	const float *w;
	int64_t taps, n, rows;
	float *y;
	int64_t y_row;
	float bias, lo, hi;
};

/* y[i] += sum of m[i * row + k] * v[k] for k < n and i < rows. */
struct rvl_f32_gemv_call {
	const float *m;
	int64_t row, rows;
	const float *v;
	int64_t n;
	float *y;
};

/* y[i] = a[i] + b[i], or a[i] * b[i], within [lo, hi]; what is not a number stays so. */
struct rvl_f32_binary_call {
	const float *a, *b;
	bool one_a, one_b;	/* a[0], b[0] instead; not both */
	int64_t n;
	float *y;		/* may be a or b */
	float lo, hi;
};

/*
 * Functions of @n numbers; y may be x. Every set gives the same bits, within 1e-6 of the exact value
 * (float/math.c).
 */
struct rvl_f32_math {
	void (*exp)(const float *x, int64_t n, float *y);
	void (*sigmoid)(const float *x, int64_t n, float *y);
	void (*tanh)(const float *x, int64_t n, float *y);
	void (*erf)(const float *x, int64_t n, float *y);
	void (*erfc)(const float *x, int64_t n, float *y);
	void (*hard_swish)(const float *x, int64_t n, float *y);
	void (*add)(const struct rvl_f32_binary_call *c);
	void (*mul)(const struct rvl_f32_binary_call *c);
};

/* @rows rows of @n bytes, less their zero point. */
struct rvl_f32_bytes_call {
	const void *x;
	bool u8;
	int32_t zero;
	int64_t x_row, rows, n;
	void *y;
	int64_t y_row;
};

#define RVL_F32_PAIR_COLS 16	/* of a panel of pairs of bytes */

/*
 * y[r * y_row + i] += sum of v[r * v_row + j] * w[j * w_row + i] for j < k, modulo 2^32, for r < rows
 * and i < n. |v| <= 255; w: bytes. Or, where @panel is not 0, w is in panels of RVL_F32_PAIR_COLS
 * columns, @panel bytes apart, [j / 2][column][2], of which the last one is whole, whatever @n is; the
 * byte after an odd k may be any.
 */
struct rvl_f32_sum_call {
	const int16_t *v;
	int64_t v_row, rows, k;
	const void *w;
	bool u8;
	int64_t w_row, n;
	int64_t panel;
	uint32_t *y;
	int64_t y_row;
};

/* Functions of bytes; every set gives the same bits. */
struct rvl_f32_bytes {
	/* int16 y[r * y_row + i] = x[r * x_row + i] - zero */
	void (*widen)(const struct rvl_f32_bytes_call *c);
	/*
	 * Two rows of bytes to one of pairs, which rvl_f32_kernels.pairs() takes: the int16 of rows 2 r
	 * and 2 r + 1, or 0 behind the last row, to the halves of the 32 bits at y[r * y_row + i].
	 */
	void (*pair)(const struct rvl_f32_bytes_call *c);
	void (*sum)(const struct rvl_f32_sum_call *c);
};

/*
 * One tile of integers: the sums of the products of pairs of int16, modulo 2^32. A pair takes the place
 * of a float in panels.
 */
struct rvl_f32_pairs_call {
	const float *a;		/* [k][mr] */
	const float *b;		/* [k][nr] */
	int64_t k;
	bool add;		/* to y */
	uint32_t *y;
	int64_t y_row;
	int rows;		/* 1 to mr */
	int cols;		/* nr, or that of one vector: all of y */
};

#define RVL_F32_MR 12	/* most rows and columns of a tile */
#define RVL_F32_NR 32
#define RVL_F32_VL 16	/* most floats of a vector */
#define RVL_F32_FEW 4	/* most columns that are no tile */

struct rvl_f32_kernels {
	int mr, nr, vl;
	void (*gemm)(const struct rvl_f32_gemm_call *c);
	/*
	 * As gemm for 1 to RVL_F32_FEW columns of any number of rows, whose panels are @a_panel floats
	 * apart: a vector holds rows. The columns may begin inside a panel of b. NULL: none.
	 */
	void (*few)(const struct rvl_f32_gemm_call *c, int64_t a_panel);
	int few_beside;		/* most columns that it takes faster than a tile, beside a vector of the same panel */
	void (*pairs)(const struct rvl_f32_pairs_call *c);
	void (*taps)(const struct rvl_f32_taps_call *c);
	void (*gemv)(const struct rvl_f32_gemv_call *c);
	/* y[j * nr + i] = x[off[j] + i] for j < k and i < n; vl <= n <= nr. NULL: none. */
	void (*put)(const float *x, const int64_t *off, int64_t k, int64_t n, float *y);
	/* The patches of nr tiles, element by element in 36 rows, to their transforms. */
	void (*winograd_in)(const float *d, int64_t d_row, float *v, int64_t v_row);
	/*
	 * 36 rows of @n products of transforms, one for each tile, to 16 rows of clamped sums with
	 * @bias. bounded[i] is 0 where the squares of the sums of tile i, without the bias, times
	 * RVL_WINOGRAD_OVERFLOW are finite, else NaN. @n: a multiple of vl.
	 */
	void (*winograd_out)(const float *m, int64_t n, float bias, float lo, float hi, float *y,
			     float *bounded);
	const struct rvl_f32_math *math;
	const struct rvl_f32_bytes *bytes;
};

extern const struct rvl_f32_bytes rvl_f32_bytes_base;
#ifdef __x86_64__
extern const struct rvl_f32_bytes rvl_f32_bytes_avx2, rvl_f32_bytes_avx512;
#endif

extern const struct rvl_f32_math rvl_f32_math_base;
#ifdef __x86_64__
extern const struct rvl_f32_math rvl_f32_math_avx2, rvl_f32_math_avx512;
#endif

extern const struct rvl_f32_kernels rvl_f32_scalar;
#ifdef __x86_64__
extern const struct rvl_f32_kernels rvl_f32_sse, rvl_f32_avx2, rvl_f32_avx512;
#endif
#ifdef __aarch64__
extern const struct rvl_f32_kernels rvl_f32_neon;
#endif

#endif
