/* SPDX-License-Identifier: MIT */
/*
 * From 16-bit results without the zero point to bytes of the result's type, for registers of any size.
 * With few products a sum, each instruction for every sum costs a percent of the time. Most clamps are the
 * range of the type itself, and most zero points of uint8 behind a Relu are 0.
 */
#ifndef RVL_INT8_RANGE_H
#define RVL_INT8_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "int8/int8.h"

/*
 * For the type @reg, whose intrinsic functions begin with @op, functions compiled for @target. The range is
 * made before the first results are stored: for all that the compiler knows, these may change what @post
 * points to.
 */
#define RVL_I8_RANGE(target, suffix, reg, op) \
	struct range##suffix { \
		reg zp, least, most; \
		bool adds, clamps, u8; \
	}; \
	target static inline __attribute__((always_inline)) struct range##suffix range_of##suffix( \
		const struct rvl_i8_post *post) \
	{ \
		return (struct range##suffix) { \
			.zp = op##_set1_epi16((int16_t)post->zp), \
			.least = op##_set1_epi16((int16_t)post->least), \
			.most = op##_set1_epi16((int16_t)post->most), \
			.adds = post->zp, .clamps = post->clamps, .u8 = post->u8, \
		}; \
	} \
	/* Adds the zero point to @n registers, and clamps them. */ \
	target static inline __attribute__((always_inline)) void place##suffix( \
		reg *v, const int n, const struct range##suffix *r) \
	{ \
		if (r->adds) \
			_Pragma("GCC unroll 12") for (int i = 0; i < n; i++) \
				v[i] = op##_adds_epi16(v[i], r->zp); \
		if (r->clamps) \
			_Pragma("GCC unroll 12") for (int i = 0; i < n; i++) \
				v[i] = op##_min_epi16(op##_max_epi16(v[i], r->least), r->most); \
	} \
	target static inline __attribute__((always_inline)) reg bytes_of##suffix( \
		reg a, reg b, const struct range##suffix *r) \
	{ \
		return r->u8 ? op##_packus_epi16(a, b) : op##_packs_epi16(a, b); \
	}

#endif
