/* SPDX-License-Identifier: MIT */
/* The scalar arithmetic of docs/numerics.md. Built with -ffp-contract=off: no hidden fma. */
#ifndef RVL_QMATH_H
#define RVL_QMATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static inline int32_t rvl_ld8(const void *p, int64_t i, bool u8)
{
	return u8 ? ((const uint8_t *)p)[i] : ((const int8_t *)p)[i];
}

static inline void rvl_st8(void *p, int64_t i, int32_t v)
{
	((uint8_t *)p)[i] = (uint8_t)v;
}

static inline int32_t rvl_qmin(bool u8)
{
	return u8 ? 0 : -128;
}

static inline int32_t rvl_qmax(bool u8)
{
	return u8 ? 255 : 127;
}

static inline int32_t rvl_clamp(int32_t v, int32_t lo, int32_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* min(max(v, lo), hi); NaN becomes lo, as maxps with the bound second does. */
static inline float rvl_clampf(float v, float lo, float hi)
{
	v = v > lo ? v : lo;
	return v < hi ? v : hi;
}

/* The same for a float result: NaN stays NaN. */
static inline float rvl_clip(float v, float lo, float hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* Accumulators wrap modulo 2^32 as the vector units do; signed overflow would be undefined. */
static inline int32_t rvl_wrap_add(int32_t a, int32_t b)
{
	return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline int32_t rvl_wrap_mul(int32_t a, int32_t b)
{
	return (int32_t)((uint32_t)a * (uint32_t)b);
}

/* Section 1. [lo, hi] lies within the type's range. */
static inline int32_t rvl_requant(int32_t acc, float scale, int32_t zp, int32_t lo, int32_t hi)
{
	float v = (float)acc * scale;

	v = rvl_clampf(v, (float)(lo - zp), (float)(hi - zp));
	return (int32_t)rintf(v) + zp;
}

/* Section 5. */
static inline int32_t rvl_quantize(float x, float scale, int32_t zp, int32_t lo, int32_t hi)
{
	float v = x / scale;

	v = rvl_clampf(v, (float)(lo - zp), (float)(hi - zp));
	return (int32_t)rintf(v) + zp;
}

/*
 * Scale and zero point for @n values as uint8. The range includes 0, so that 0 is exact; all zeros
 * have the scale 1.
 */
static inline void rvl_dynamic_scale(const float *x, int64_t n, float *scale, int32_t *zero)
{
	float least[8] = { 0 }, most[8] = { 0 }, low = 0, high = 0;
	int64_t i = 0;

	/* Comparisons leave out what is not a number. */
	for (; i + 8 <= n; i += 8)
		for (int k = 0; k < 8; k++) {
			least[k] = x[i + k] < least[k] ? x[i + k] : least[k];
			most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
		}
	for (int k = 0; k < 8; k++) {
		low = fminf(low, least[k]);
		high = fmaxf(high, most[k]);
	}
	for (; i < n; i++) {
		low = fminf(low, x[i]);
		high = fmaxf(high, x[i]);
	}
	*scale = low == high ? 1 : (high - low) / 255;
	*zero = (int32_t)rintf(rvl_clampf(0 - low / *scale, 0, 255));
}

static inline float rvl_dequantize(int32_t q, float scale, int32_t zp)
{
	return (float)((int32_t)((uint32_t)q - (uint32_t)zp)) * scale;
}

/* (int32) rint(v) of sections 2 and 3, cvtps2dq: what does not fit becomes the least number. */
static inline int32_t rvl_cvt(float v)
{
	if (!(v < 2147483648.0f && v >= -2147483648.0f))
		return INT32_MIN;
	return (int32_t)rintf(v);
}

#endif
