/* SPDX-License-Identifier: MIT */
/* Registers of 256 bits for narrow.h and madd.h. The including file defines TARGET. */
#ifndef RVL_INT8_V256_H
#define RVL_INT8_V256_H

#include <immintrin.h>

#include "int8/range.h"

#define vec __m256i
#define vecps __m256
#define half __m128i
#define HALF 8
#define V_LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define V_STORE(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define V_LOAD_BYTES(p) _mm_loadu_si128((const __m128i *)(p))
#define V_STORE_BYTES(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define V_CVTU _mm256_cvtepu8_epi16
#define V_CVTS _mm256_cvtepi8_epi16
#define V_MADD _mm256_madd_epi16
#define V_ADD32 _mm256_add_epi32
#define V_SUB32 _mm256_sub_epi32
#define V_SRA32 _mm256_srai_epi32
#define V_SLL32 _mm256_slli_epi32
#define V_SLL16 _mm256_slli_epi16
#define V_MUL32 _mm256_mullo_epi32
#define V_SRL32 _mm256_srli_epi32
#define V_OR _mm256_or_si256
#define V_ADD16 _mm256_add_epi16
#define V_SUB16 _mm256_sub_epi16
#define V_SET1_16 _mm256_set1_epi16
#define V_SET1_32 _mm256_set1_epi32
#define V_UNPACKLO16 _mm256_unpacklo_epi16
#define V_UNPACKHI16 _mm256_unpackhi_epi16
#define V_PACKS32 _mm256_packs_epi32
/* Bytes of two rows, one after the other, whose sums in their natural order were narrowed lane by lane. */
#define V_ROWS(v) _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
/* Of two pixels whose sums were in the order of rvl_i8_dw_channel(). */
#define V_PIXELS(v) _mm256_permute4x64_epi64(v, 0xd8)
#define V_FIRST(v) _mm256_castsi256_si128(v)
#define V_SECOND(v) _mm256_extracti128_si256(v, 1)
#define V_XOR _mm256_xor_si256
#define V_SET1_8 _mm256_set1_epi8
#define V_SET1PS _mm256_set1_ps
#define V_LOADPS _mm256_loadu_ps
#define V_MINPS _mm256_min_ps
#define V_MULPS _mm256_mul_ps
#define V_CVTI _mm256_cvtepi32_ps
#define V_CVTPS _mm256_cvtps_epi32

RVL_I8_RANGE(TARGET, , vec, _mm256)

#endif
