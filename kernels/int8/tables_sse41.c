/* SPDX-License-Identifier: MIT */
/* Products by tables for SSE4.1: PSHUFB in registers of 128 bits. */
#ifdef __x86_64__
#include "int8/v128.h"
#define MR 4
#define PAIR 2
#define COLUMNS 16

#include "int8/narrow.h"

#define T_LOAD V_LOAD
#define T_ZERO _mm_setzero_si128
#define T_LOW(c) _mm_and_si128(c, _mm_set1_epi8(15))
#define T_HIGH(c) T_LOW(_mm_srli_epi16(c, 4))
#define T_TABLE V_LOAD
#define T_LOOKUP _mm_shuffle_epi8
#define T_ADD8 _mm_add_epi8
/* Bytes of @lo plus 16 times those of @hi, by columns 0 to 7 and 8 to 15. */
#define T_WIDEN(sum, lo, hi) ({ \
	const vec weight = _mm_set1_epi16(0x1001); \
	(sum)[0] = _mm_add_epi16((sum)[0], _mm_maddubs_epi16(_mm_unpacklo_epi8(lo, hi), weight)); \
	(sum)[1] = _mm_add_epi16((sum)[1], _mm_maddubs_epi16(_mm_unpackhi_epi8(lo, hi), weight)); \
})
#define T_STORE(out, sum) (V_STORE(out, (sum)[0]), V_STORE((out) + 8, (sum)[1]))

#define BUILD __m128i
#define B_SET1(v) _mm_set1_epi8((char)(v))
#define B_ADD _mm_add_epi8
#define B_SHUFFLE _mm_shuffle_epi8
#define B_BROADCAST V_LOAD
#define B_STORE V_STORE
#define B_BOTH(low, high, tables) (build_lanes(low, tables), build_lanes(high, (tables) + 16))
#include "int8/tables_x86.h"

const struct rvl_i8_kernels rvl_i8_tables_sse41 = {
	.mr = MR, .nr = COLUMNS, .kr = KR, .widened = TABLE_BYTES, .offset = { 128, 0 },
	.gemm = gemm, .widen = build_tables, .convert = &rvl_i8_convert_base, .requant = requant16,
};
#endif
