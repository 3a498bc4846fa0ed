/* SPDX-License-Identifier: MIT */
/*
 * exp, sigmoid, tanh, erf, erfc and HardSwish of float32, sums and products. The loops have no branches, so that
 * the compiler vectorises them for each instruction set. A product and an addition are rounded separately in
 * every set (-ffp-contract=off), so that the results have the same bits everywhere; tables of
 * quantised functions are made of them. The polynomials are those of Cephes, but for tanh.
 */
#include <math.h>
#include <string.h>

#include "float/float.h"

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t bits_of(float v)
{
	uint32_t u;

	memcpy(&u, &v, sizeof(u));
	return u;
}

INLINE float float_of(uint32_t u)
{
	float v;

	memcpy(&v, &u, sizeof(v));
	return v;
}

/* 2^n for -126 <= n <= 127 */
INLINE float power(int32_t n)
{
	return float_of((uint32_t)(n + 127) << 23);
}

#define TO_INT 12582912.0f	/* 1.5 * 2^23: the lowest bits of a number added to it are its integer */

/* e^r * 2^n with |r| <= log(2) / 2. Two factors, because 2^n may be infinite or denormal. */
INLINE float exp_of(float x)
{
	float t, n, r, p;
	int32_t i, half;

	x = x < -104.0f ? -104.0f : x;
	x = x > 89.0f ? 89.0f : x;
	t = x * 1.44269504f + TO_INT;
	n = t - TO_INT;
	i = (int32_t)(bits_of(t) - bits_of(TO_INT));
	r = x - n * 0.693359375f;	/* exact: the factor has 10 bits */
	r = r - n * -2.12194440e-4f;
	p = 1.9875691500e-4f;
	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * (r * r) + r + 1.0f;
	half = i >> 1;
	/* Of NaN the bits are no integer; the product is NaN whatever the factors are. */
	half = half < -64 ? -64 : half > 64 ? 64 : half;
	i -= half;
	i = i < -126 ? -126 : i > 127 ? 127 : i;
	return p * power(half) * power(i);
}

INLINE float sigmoid_of(float x)
{
	return 1.0f / (1.0f + exp_of(-x));
}

/* x p(x^2) / q(x^2), the quotient of Eigen (Core/MathFunctionsImpl.h); 1 in float beyond the bound. */
INLINE float tanh_of(float x)
{
	float z, p, q;

	x = x < -7.90531110763549805f ? -7.90531110763549805f : x;
	x = x > 7.90531110763549805f ? 7.90531110763549805f : x;
	z = x * x;
	p = -2.76076847742355e-16f;
	p = p * z + 2.00018790482477e-13f;
	p = p * z - 8.60467152213735e-11f;
	p = p * z + 5.12229709037114e-08f;
	p = p * z + 1.48572235717979e-05f;
	p = p * z + 6.37261928875436e-04f;
	p = p * z + 4.89352455891786e-03f;
	q = 1.19825839466702e-06f;
	q = q * z + 1.18534705686654e-04f;
	q = q * z + 2.26843463243900e-03f;
	q = q * z + 4.89352518554385e-03f;
	return x * p / q;
}

/* For |x| < 1. */
INLINE float small_erf(float x)
{
	float z = x * x, p = 7.853861353153693e-5f;

	p = p * z - 8.010193625184903e-4f;
	p = p * z + 5.188327685732524e-3f;
	p = p * z - 2.685381193529856e-2f;
	p = p * z + 1.128358514861418e-1f;
	p = p * z - 3.761262582423300e-1f;
	p = p * z + 1.128379165726710e0f;
	return x * p;
}

/* 1 / x^2 = @y; 1 <= x < 2 */
INLINE float near_factor(float y)
{
	float p = 2.326819970068386e-2f;

	p = p * y - 1.387039388740657e-1f;
	p = p * y + 3.687424674597105e-1f;
	p = p * y - 5.824733027278666e-1f;
	p = p * y + 6.210004621745983e-1f;
	p = p * y - 4.944515323274145e-1f;
	p = p * y + 3.404879937665872e-1f;
	p = p * y - 2.741127028184656e-1f;
	return p * y + 5.638259427386472e-1f;
}

/* x >= 2 */
INLINE float far_factor(float y)
{
	float p = -1.047766399936249e1f;

	p = p * y + 1.297719955372516e1f;
	p = p * y - 7.495518717768503e0f;
	p = p * y + 2.921019019210786e0f;
	p = p * y - 1.015265279202700e0f;
	p = p * y + 4.218463358204948e-1f;
	p = p * y - 2.820767439740514e-1f;
	return p * y + 5.641895067754075e-1f;
}

/* erfc of x >= 1. The square is divided, because its rounding error would be that of the exponential. */
INLINE float large_erfc(float x)
{
	float high, low, q, y, e;

	x = x > 11.0f ? 11.0f : x;
	high = float_of(bits_of(x) & 0xfffff000u);
	low = x - high;
	e = exp_of(-high * high) * exp_of(-low * (x + high));
	q = 1.0f / x;
	y = q * q;
	return e * q * (x < 2.0f ? near_factor(y) : far_factor(y));
}

INLINE float erf_of(float x)
{
	float a = fabsf(x);

	return a < 1.0f ? small_erf(x) : copysignf(1.0f - large_erfc(a), x);
}

INLINE float erfc_of(float x)
{
	float a = fabsf(x), tail = large_erfc(a);

	return a < 1.0f ? 1.0f - small_erf(x) : x < 0.0f ? 2.0f - tail : tail;
}

/* x times HardSigmoid of x, whose alpha is 1/6. What is not a number stays so. */
INLINE float hard_swish_of(float x)
{
	float v = x * (1.0f / 6.0f) + 0.5f;

	v = v < 0.0f ? 0.0f : v;
	return x * (v > 1.0f ? 1.0f : v);
}

/* The flags are constant. */
INLINE void combine(const struct rvl_f32_binary_call *c, bool mul, bool one_a, bool one_b, bool bounded)
{
	const float *a = c->a, *b = c->b;
	float *y = c->y, lo = c->lo, hi = c->hi;

	for (int64_t i = 0; i < c->n; i++) {
		float va = a[one_a ? 0 : i], vb = b[one_b ? 0 : i], v = mul ? va * vb : va + vb;

		if (bounded) {
			v = lo > v ? lo : v;
			v = hi < v ? hi : v;
		}
		y[i] = v;
	}
}

INLINE void combine_any(const struct rvl_f32_binary_call *c, bool mul, bool bounded)
{
	if (c->one_a)
		combine(c, mul, true, false, bounded);
	else if (c->one_b)
		combine(c, mul, false, true, bounded);
	else
		combine(c, mul, false, false, bounded);
}

#define BINARY(name, is_mul, set, target) \
	static target void name##_##set(const struct rvl_f32_binary_call *c) \
	{ \
		if (c->lo > -INFINITY || c->hi < INFINITY) \
			combine_any(c, is_mul, true); \
		else \
			combine_any(c, is_mul, false); \
	}

#define FUNCTION(name, set, target) \
	static target void name##_##set(const float *x, int64_t n, float *y) \
	{ \
		for (int64_t i = 0; i < n; i++) \
			y[i] = name##_of(x[i]); \
	}

#define FUNCTIONS(set, target) \
	FUNCTION(exp, set, target) \
	FUNCTION(sigmoid, set, target) \
	FUNCTION(tanh, set, target) \
	FUNCTION(erf, set, target) \
	FUNCTION(erfc, set, target) \
	FUNCTION(hard_swish, set, target) \
	BINARY(add, false, set, target) \
	BINARY(mul, true, set, target) \
	const struct rvl_f32_math rvl_f32_math_##set = { \
		.exp = exp_##set, .sigmoid = sigmoid_##set, .tanh = tanh_##set, .erf = erf_##set, \
		.erfc = erfc_##set, .hard_swish = hard_swish_##set, .add = add_##set, .mul = mul_##set, \
	};

FUNCTIONS(base, )
#ifdef __x86_64__
FUNCTIONS(avx2, __attribute__((target("avx2"))))
FUNCTIONS(avx512, __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"))))
#endif
