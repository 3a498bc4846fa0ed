/* SPDX-License-Identifier: MIT */
/*
 * From sums to bytes, for a register size that the including file defines: TARGET, vec, vecps and half
 * (registers), HALF (dwords of one), MR, the functions of RVL_I8_RANGE() for vec, and operations V_NAME.
 */
#ifndef RVL_INT8_NARROW_H
#define RVL_INT8_NARROW_H

#include <string.h>

#include "int8/int8.h"

#define INLINE static inline __attribute__((always_inline))
#define NR (2 * HALF)

/* Sums as scaled floats, below 2^31 after the clamp if the scales do not imply it. */
TARGET INLINE vec rounded(vec sum, const float *scale, const struct rvl_i8_post *post)
{
	vecps v = V_MULPS(V_CVTI(sum), V_LOADPS(scale));

	return V_CVTPS(post->bounded ? v : V_MINPS(V_SET1PS(post->hi), v));
}

/* 16-bit results of two registers of sums, lane by lane, without the zero point. */
TARGET INLINE vec narrow(vec lo, vec hi, const float *scale, const struct rvl_i8_post *post)
{
	return V_PACKS32(rounded(lo, scale, post), rounded(hi, scale + HALF, post));
}

TARGET INLINE void store_part(uint8_t *y, half v, int64_t n)
{
	uint8_t out[16];

	if (n >= NR) {
		V_STORE_BYTES(y, v);
		return;
	}
	_mm_storeu_si128((__m128i *)out, v);
	memcpy(y, out, (size_t)n);
}

/* All rows of @rows but perhaps the last one exist. */
TARGET INLINE void store_tile(const struct rvl_i8_gemm_call *c, vec sum[MR][2], const int rows)
{
	const struct range range = range_of(c->post);
	vec v[MR];

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++)
		v[i] = narrow(sum[i][0], sum[i][1], c->scale, c->post);
	place(v, rows, &range);
#pragma GCC unroll 8
	for (int i = 0; i < rows; i += 2) {
		vec bytes = V_ROWS(bytes_of(v[i], v[i + 1 < rows ? i + 1 : i], &range));
		uint8_t *y = c->y + i * c->y_stride;

		store_part(y, V_FIRST(bytes), c->cols);
		if (i + 2 < rows || i + 1 < c->rows)
			store_part(y + c->y_stride, V_SECOND(bytes), c->cols);
	}
}

TARGET INLINE void begin_sums(const struct rvl_i8_gemm_call *c, vec sum[MR][2], const int rows)
{
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		sum[i][0] = V_LOAD(c->bias);
		sum[i][1] = V_LOAD(c->bias + HALF);
	}
}

/* Keeps gcc 12 from spilling sums inside the loop before it, and from changing the order of additions. */
TARGET INLINE void keep(vec sum[MR][2], const int rows)
{
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++)
		__asm__("" : "+x"(sum[i][0]), "+x"(sum[i][1]));
}

TARGET INLINE void store_sums(int32_t *sums, vec sum[MR][2], const int rows)
{
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++, sums += NR) {
		V_STORE(sums, sum[i][0]);
		V_STORE(sums + HALF, sum[i][1]);
	}
}

TARGET INLINE void end_sums(const struct rvl_i8_gemm_call *c, vec sum[MR][2], const int rows)
{
	keep(sum, rows);
	if (c->sums)
		store_sums(c->sums, sum, rows);
	else
		store_tile(c, sum, rows);
}

/*
 * gemm() for up to four or six rows from TILE(n), which defines tile_n(). A number of rows that has no
 * function of its own is computed by the next larger one.
 */
#define CHOOSE(...) \
	static void gemm(const struct rvl_i8_gemm_call *c) \
	{ \
		static void (*const tiles[MR])(const struct rvl_i8_gemm_call *c) = { __VA_ARGS__ }; \
		tiles[c->rows - 1](c); \
	}
#define GEMM_OF_FOUR TILE(1) TILE(2) TILE(4) CHOOSE(tile_1, tile_2, tile_4, tile_4)
#define GEMM_OF_SIX \
	TILE(1) TILE(2) TILE(4) TILE(6) CHOOSE(tile_1, tile_2, tile_4, tile_4, tile_6, tile_6)

TARGET static void requant16(const int32_t *sum, const float *scale, const struct rvl_i8_post *post,
			     uint8_t *dst)
{
	const struct range range = range_of(post);

	for (int i = 0; i < 16; i += NR) {
		vec v = narrow(V_LOAD(sum + i), V_LOAD(sum + i + HALF), scale + i, post);

		place(&v, 1, &range);
		store_part(dst + i, V_FIRST(V_ROWS(bytes_of(v, v, &range))), NR);
	}
}

#endif
