/* SPDX-License-Identifier: MIT */
/* Operations of tables_x86.h: the low nibbles in one half of a register, the high ones in the other. */
#ifndef RVL_INT8_BUILD256_H
#define RVL_INT8_BUILD256_H

#include <immintrin.h>

#define BUILD __m256i
#define B_SET1(v) _mm256_set1_epi8((char)(v))
#define B_ADD _mm256_add_epi8
#define B_SHUFFLE _mm256_shuffle_epi8
#define B_BROADCAST(p) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(p)))
#define B_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define B_BOTH(low, high, tables) build_lanes(_mm256_set_m128i(high, low), tables)

#endif
