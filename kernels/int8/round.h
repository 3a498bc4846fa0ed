/* SPDX-License-Identifier: MIT */
/*
 * Conversions of floats to bytes without branches, which the compiler vectorises for each set. No
 * function of the C library rounds, because SSE2 has no instruction for it.
 */
#ifndef RVL_INT8_ROUND_H
#define RVL_INT8_ROUND_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define TO_INT 12582912.0f	/* 1.5 * 2^23: adding it rounds to integers, half to even */

INLINE int32_t rvl_float_bits(float v)
{
	int32_t u;

	memcpy(&u, &v, sizeof(u));
	return u;
}

/* The clamp leaves numbers below 2^9 in magnitude. NaN becomes @lo. */
INLINE uint8_t rvl_round_to_byte(float v, float lo, float hi, int32_t zp)
{
	v = v > lo ? v : lo;
	v = v < hi ? v : hi;
	return (uint8_t)(rvl_float_bits(v + TO_INT) - rvl_float_bits(TO_INT) + zp);
}

/* The same of rvl_cvt(v), clamped: what int32 cannot hold becomes @lo. */
INLINE uint8_t rvl_cvt_to_byte(float v, float lo, float hi)
{
	return rvl_round_to_byte(v < 2147483648.0f ? v : lo, lo, hi, 0);
}

#endif
