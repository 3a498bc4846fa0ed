// SPDX-License-Identifier: MIT
/* The tables for AVX-512BW with a model of its registers, pairs of 256 bits, for processors without it. */
#ifdef __x86_64__
#include <immintrin.h>

#include "int8/shapes.h"

#define RVL_TABLES512_MODEL
#define TARGET __attribute__((target("avx2,fma")))
#define KERNELS int8_tables512_model
#define MODEL static inline __attribute__((always_inline, target("avx2")))

struct pair {
	__m256i v[2];
};

#define EACH(name, half) \
	MODEL struct pair name(struct pair a, struct pair b) \
	{ \
		return (struct pair) { { half(a.v[0], b.v[0]), half(a.v[1], b.v[1]) } }; \
	}
EACH(pair_add8, _mm256_add_epi8)
EACH(pair_add16, _mm256_add_epi16)
EACH(pair_madd, _mm256_maddubs_epi16)
EACH(pair_shuffle, _mm256_shuffle_epi8)
EACH(pair_unpacklo, _mm256_unpacklo_epi8)
EACH(pair_unpackhi, _mm256_unpackhi_epi8)
EACH(pair_and, _mm256_and_si256)

MODEL struct pair pair_of(__m256i v)
{
	return (struct pair) { { v, v } };
}

MODEL struct pair pair_load(const void *p)
{
	return (struct pair) { { _mm256_loadu_si256(p), _mm256_loadu_si256((const __m256i *)p + 1) } };
}

MODEL struct pair pair_high(struct pair c)
{
	return pair_and((struct pair) { { _mm256_srli_epi16(c.v[0], 4), _mm256_srli_epi16(c.v[1], 4) } },
			pair_of(_mm256_set1_epi8(15)));
}

MODEL __m128i pair_lane(struct pair v, int i)
{
	return i % 2 ? _mm256_extracti128_si256(v.v[i / 2], 1) : _mm256_castsi256_si128(v.v[i / 2]);
}

#define REGISTER struct pair
#define T_LOAD pair_load
#define T_ZERO() pair_of(_mm256_setzero_si256())
#define T_LOW(c) pair_and(c, pair_of(_mm256_set1_epi8(15)))
#define T_HIGH pair_high
#define T_TABLE(p) pair_of(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(p))))
#define T_LOOKUP pair_shuffle
#define T_ADD8 pair_add8
#define T_ADD16 pair_add16
#define T_MADD pair_madd
#define T_UNPACKLO pair_unpacklo
#define T_UNPACKHI pair_unpackhi
#define T_SET1_16(v) pair_of(_mm256_set1_epi16(v))
#define T_LANE pair_lane

#include "../../kernels/int8/tables_avx512.c"
#endif
