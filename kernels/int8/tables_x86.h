/* SPDX-License-Identifier: MIT */
/* build16() of tables.h, in a register BUILD of 128 or 256 bits with the operations B_NAME. */
#ifndef RVL_INT8_TABLES_X86_H
#define RVL_INT8_TABLES_X86_H

#include "int8/tables.h"

/* The sums of the subsets of each group of four bytes, in every lane of @v by itself. */
TARGET INLINE void build_lanes(BUILD v, uint8_t *table)
{
#pragma GCC unroll 4
	for (int g = 0; g < 4; g++) {
		const BUILD first = B_SET1(4 * g);
		BUILD sum[4];

#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			sum[j] = B_SHUFFLE(v, B_ADD(first, B_BROADCAST(subsets[j])));
		B_STORE(table + (size_t)32 * g, B_ADD(B_ADD(sum[0], sum[1]), B_ADD(sum[2], sum[3])));
	}
}

TARGET INLINE void build16(const uint8_t *x, bool u8, uint8_t *tables)
{
	const __m128i nibble = _mm_set1_epi8(15);
	__m128i v = _mm_loadu_si128((const __m128i *)x), low, high;

	v = _mm_xor_si128(v, _mm_set1_epi8(u8 ? 0 : (char)0x80));
	low = _mm_and_si128(v, nibble);
	high = _mm_and_si128(_mm_srli_epi16(v, 4), nibble);
	B_BOTH(low, high, tables);
}

#endif
