/* SPDX-License-Identifier: MIT */
/*
 * Products by tables for AVX-512BW: VPSHUFB in registers of 512 bits. tests/int8 compiles this file with
 * a model of these.
 */
#ifdef __x86_64__
#ifndef RVL_TABLES512_MODEL
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#define KERNELS rvl_i8_tables_avx512
#define T_LOAD(p) _mm512_loadu_si512(p)
#define T_ZERO _mm512_setzero_si512
#define T_LOW(c) _mm512_and_si512(c, _mm512_set1_epi8(15))
#define T_HIGH(c) T_LOW(_mm512_srli_epi16(c, 4))
#define T_TABLE(p) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(p)))
#define T_LOOKUP _mm512_shuffle_epi8
#define T_ADD8 _mm512_add_epi8
#define T_ADD16 _mm512_add_epi16
#define T_MADD _mm512_maddubs_epi16
#define T_UNPACKLO _mm512_unpacklo_epi8
#define T_UNPACKHI _mm512_unpackhi_epi8
#define T_SET1_16 _mm512_set1_epi16
#define T_LANE(v, i) _mm512_extracti32x4_epi32(v, i)
#define REGISTER __m512i
#endif
#define MR 4
#define PAIR 4
#define COLUMNS 64
#include "int8/v256.h"

#include "int8/narrow.h"

/* Bytes of @lo plus 16 times those of @hi: the first and the second eight columns of each lane. */
#define T_WIDEN(sum, lo, hi) ({ \
	const REGISTER weight = T_SET1_16(0x1001); \
	(sum)[0] = T_ADD16((sum)[0], T_MADD(T_UNPACKLO(lo, hi), weight)); \
	(sum)[1] = T_ADD16((sum)[1], T_MADD(T_UNPACKHI(lo, hi), weight)); \
})
#define STORE_LANE(out, sum, i) \
	(_mm_storeu_si128((__m128i *)((out) + 16 * (i)), T_LANE((sum)[0], i)), \
	 _mm_storeu_si128((__m128i *)((out) + 16 * (i) + 8), T_LANE((sum)[1], i)))
#define T_STORE(out, sum) \
	(STORE_LANE(out, sum, 0), STORE_LANE(out, sum, 1), STORE_LANE(out, sum, 2), STORE_LANE(out, sum, 3))

#undef vec	/* of v256.h, whose registers narrow the sums */
#define vec REGISTER
#include "int8/build256.h"
#include "int8/tables_x86.h"

const struct rvl_i8_kernels KERNELS = {
	.mr = MR, .nr = COLUMNS, .kr = KR, .widened = TABLE_BYTES, .offset = { 128, 0 },
	.gemm = gemm, .widen = build_tables, .convert = &rvl_i8_convert_avx2, .requant = requant16,
};
#endif
