/* SPDX-License-Identifier: MIT */
/* Registers of 128 bits for narrow.h and madd.h. */
#ifndef RVL_INT8_V128_H
#define RVL_INT8_V128_H

#include <immintrin.h>

#include "int8/range.h"

#define TARGET __attribute__((target("sse4.1")))
#define vec __m128i
#define vecps __m128
#define half __m128i
#define HALF 4
#define V_LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define V_STORE(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define V_LOAD_BYTES(p) _mm_loadl_epi64((const __m128i *)(p))
#define V_STORE_BYTES(p, v) _mm_storel_epi64((__m128i *)(p), v)
#define V_CVTU _mm_cvtepu8_epi16
#define V_CVTS _mm_cvtepi8_epi16
#define V_MADD _mm_madd_epi16
#define V_ADD32 _mm_add_epi32
#define V_SUB32 _mm_sub_epi32
#define V_SRA32 _mm_srai_epi32
#define V_SLL32 _mm_slli_epi32
#define V_SLL16 _mm_slli_epi16
#define V_MUL32 _mm_mullo_epi32
#define V_SRL32 _mm_srli_epi32
#define V_OR _mm_or_si128
#define V_ADD16 _mm_add_epi16
#define V_SUB16 _mm_sub_epi16
#define V_SET1_16 _mm_set1_epi16
#define V_SET1_32 _mm_set1_epi32
#define V_UNPACKLO16 _mm_unpacklo_epi16
#define V_UNPACKHI16 _mm_unpackhi_epi16
#define V_PACKS32 _mm_packs_epi32
#define V_ROWS(v) (v)
#define V_PIXELS(v) (v)
#define V_FIRST(v) (v)
#define V_SECOND(v) _mm_srli_si128(v, 8)
#define V_SET1PS _mm_set1_ps
#define V_LOADPS _mm_loadu_ps
#define V_MINPS _mm_min_ps
#define V_MULPS _mm_mul_ps
#define V_CVTI _mm_cvtepi32_ps
#define V_CVTPS _mm_cvtps_epi32

RVL_I8_RANGE(TARGET, , vec, _mm)

#endif
