/* SPDX-License-Identifier: MIT */
/*
 * Depthwise kernels for AVX512-VNNI. A tile has 64 channels. Those behind the last whole one are computed
 * in registers of 128 or 256 bits if these hold them, which read their lanes of the same weights.
 */
#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#include "int8/range.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define INLINE static inline __attribute__((always_inline))
#define DW_NR 64

/* ---- 512 bits ---- */

RVL_I8_RANGE(TARGET, _512, __m512i, _mm512)
#define NAME(x) x##_512
#define OP(x) _mm512_##x
#define vec __m512i
#define vecps __m512
#define BYTES 64
#define XOR _mm512_xor_si512
#define DPBUSD _mm512_dpbusd_epi32

TARGET INLINE __m512i load_part_512(const uint8_t *p, int64_t n)
{
	return _mm512_maskz_loadu_epi8((__mmask64)((1ull << n) - 1), p);
}

TARGET INLINE void store_part_512(uint8_t *p, __m512i v, int64_t n)
{
	_mm512_mask_storeu_epi8(p, (__mmask64)((1ull << n) - 1), v);
}

#include "int8/dw_dot.h"

/* ---- 256 bits ---- */

RVL_I8_RANGE(TARGET, _256, __m256i, _mm256)
#define NAME(x) x##_256
#define OP(x) _mm256_##x
#define vec __m256i
#define vecps __m256
#define BYTES 32
#define XOR _mm256_xor_si256
#define DPBUSD _mm256_dpbusd_epi32

TARGET INLINE __m256i load_part_256(const uint8_t *p, int64_t n)
{
	return _mm256_maskz_loadu_epi8((__mmask32)((1ull << n) - 1), p);
}

TARGET INLINE void store_part_256(uint8_t *p, __m256i v, int64_t n)
{
	_mm256_mask_storeu_epi8(p, (__mmask32)((1ull << n) - 1), v);
}

#include "int8/dw_dot.h"

/* ---- 128 bits ---- */

RVL_I8_RANGE(TARGET, _128, __m128i, _mm)
#define NAME(x) x##_128
#define OP(x) _mm_##x
#define vec __m128i
#define vecps __m128
#define BYTES 16
#define XOR _mm_xor_si128
#define DPBUSD _mm_dpbusd_epi32

TARGET INLINE __m128i load_part_128(const uint8_t *p, int64_t n)
{
	return _mm_maskz_loadu_epi8((__mmask16)((1ull << n) - 1), p);
}

TARGET INLINE void store_part_128(uint8_t *p, __m128i v, int64_t n)
{
	_mm_mask_storeu_epi8(p, (__mmask16)((1ull << n) - 1), v);
}

#include "int8/dw_dot.h"

/* ---- all ---- */

static void dw(const struct rvl_i8_dw_call *c)
{
	for (int64_t at = 0; at < c->channels; at += DW_NR) {
		if (c->channels - at > 32)
			tile_512(c, at);
		else if (c->channels - at > 16)
			tile_256(c, at);
		else
			tile_128(c, at);
	}
}

const struct rvl_i8_dw rvl_i8_dw_avx512 = { .nr = DW_NR, .kr = 4, .run = dw, .slide = &rvl_i8_slide_dot };
#endif
