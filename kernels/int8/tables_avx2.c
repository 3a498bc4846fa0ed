/* SPDX-License-Identifier: MIT */
/* Products by tables for AVX2: VPSHUFB in registers of 256 bits. */
#ifdef __x86_64__
#define TARGET __attribute__((target("avx2,fma")))
#define MR 4
#define PAIR 2
#define COLUMNS 32
#include "int8/v256.h"

#include "int8/narrow.h"

#define T_LOAD V_LOAD
#define T_ZERO _mm256_setzero_si256
#define T_LOW(c) _mm256_and_si256(c, _mm256_set1_epi8(15))
#define T_HIGH(c) T_LOW(_mm256_srli_epi16(c, 4))
#define T_TABLE(p) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(p)))
#define T_LOOKUP _mm256_shuffle_epi8
#define T_ADD8 _mm256_add_epi8
/* Bytes of @lo plus 16 times those of @hi: the first and the second eight columns of each lane. */
#define T_WIDEN(sum, lo, hi) ({ \
	const vec weight = _mm256_set1_epi16(0x1001); \
	(sum)[0] = _mm256_add_epi16((sum)[0], _mm256_maddubs_epi16(_mm256_unpacklo_epi8(lo, hi), weight)); \
	(sum)[1] = _mm256_add_epi16((sum)[1], _mm256_maddubs_epi16(_mm256_unpackhi_epi8(lo, hi), weight)); \
})
#define T_STORE(out, sum) \
	(V_STORE(out, _mm256_permute2x128_si256((sum)[0], (sum)[1], 0x20)), \
	 V_STORE((out) + 16, _mm256_permute2x128_si256((sum)[0], (sum)[1], 0x31)))

#include "int8/build256.h"
#include "int8/tables_x86.h"

const struct rvl_i8_kernels rvl_i8_tables_avx2 = {
	.mr = MR, .nr = COLUMNS, .kr = KR, .widened = TABLE_BYTES, .offset = { 128, 0 },
	.gemm = gemm, .widen = build_tables, .convert = &rvl_i8_convert_avx2, .requant = requant16,
};
#endif
