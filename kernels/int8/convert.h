/* SPDX-License-Identifier: MIT */
/* Quantisation, dequantisation and tables of bytes, over adjacent elements. */
#ifndef RVL_INT8_CONVERT_H
#define RVL_INT8_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

struct rvl_qbinary;

/* A sum or product of @n elements; @ia and @ib, the steps of the operands, are 0 or 1. */
typedef void rvl_i8_binary_fn(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia,
			      const void *b, int64_t ib, void *y);

/* y[i] = rvl_quantize(x[i], scale, zp, lo, hi), as bytes */
struct rvl_i8_quantize {
	float scale;
	int32_t zp, lo, hi;
};

/* y[i] = sum[i] * scale[i] + added[i], clamped; @added may be NULL */
struct rvl_i8_floats {
	const float *scale, *added;
	float lo, hi;
};

/* y[c * y_pitch + r] = x[r * x_pitch + c] for @rows rows and @cols columns of bytes. */
typedef void rvl_i8_transpose_fn(const uint8_t *x, int64_t x_pitch, int64_t rows, int64_t cols, uint8_t *y,
				 int64_t y_pitch);

/* One set of functions for each width of registers; all give the same bits. */
struct rvl_i8_convert {
	void (*quantize)(const struct rvl_i8_quantize *q, const float *x, int64_t n, uint8_t *y);
	/* y[i] = (x[i] - zp) * scale, of uint8 and of int8 */
	void (*dequantize_u8)(const uint8_t *x, int64_t n, float scale, int32_t zp, float *y);
	void (*dequantize_s8)(const uint8_t *x, int64_t n, float scale, int32_t zp, float *y);
	void (*scale)(const struct rvl_i8_floats *f, const int32_t *sum, int64_t n, float *y);
	/* Pixels of three channels from planes that are @pitch bytes apart */
	void (*interleave3)(const uint8_t *x, int64_t pitch, int64_t n, uint8_t *y);
	/* As rvl_ref_qadd() and rvl_ref_qmul() */
	rvl_i8_binary_fn *add, *mul;
	/* y[i] = table[x[i]]; @y may be @x */
	void (*look_up)(const uint8_t table[256], const uint8_t *x, int64_t n, uint8_t *y);
	rvl_i8_transpose_fn *transpose;
	/* y[i] = the largest of p[t][i] for t < @taps, at least 1; bytes are compared XOR @flip, as uint8 */
	void (*largest)(const uint8_t *const *p, int64_t taps, uint8_t flip, int64_t n, uint8_t *y);
};

extern const struct rvl_i8_convert rvl_i8_convert_base;
extern rvl_i8_transpose_fn rvl_i8_transpose_base;
#ifdef __x86_64__
extern rvl_i8_transpose_fn rvl_i8_transpose_avx2;
extern rvl_i8_binary_fn rvl_i8_add_avx2, rvl_i8_mul_avx2, rvl_i8_add_avx512, rvl_i8_mul_avx512;
extern const struct rvl_i8_convert rvl_i8_convert_avx2, rvl_i8_convert_avx512;
#endif
#ifdef __aarch64__
extern rvl_i8_binary_fn rvl_i8_add_neon, rvl_i8_mul_neon;
#endif

#endif
