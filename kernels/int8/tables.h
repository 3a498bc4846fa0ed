/* SPDX-License-Identifier: MIT */
/*
 * Products with weights of few bits by tables of sums. Of each group of four inputs a table holds the
 * sums of all 16 subsets, and each bit of the weights of a column selects an entry with its four bits of
 * the group: the dual form of docs/ibtf.md with g = 4. A byte shuffle looks up an entry for each byte of
 * a register. An entry has two bytes, the sums of the low and of the high nibbles of the inputs, at most
 * 60 each, so that four groups are added as bytes, and 64 groups as 16 bits. The sums are exact. (The
 * method is that of T-MAC, Wei et al., arXiv:2407.00088, which rounds the entries to bytes.)
 *
 * Tables take the place of the widened rows of struct rvl_i8_gemm_call: [kc / 4][2][16] bytes. The
 * codes of a block of columns are [plane][kc / 8][COLUMNS], the first group in the low nibble; the
 * highest plane is negative in two's complement.
 *
 * Defined by the including file: TARGET, vec (a register of COLUMNS bytes), MR, PAIR (rows that share
 * the codes in registers), the operations T_NAME, requant16(), and build16() behind this file.
 */
#ifndef RVL_INT8_TABLES_H
#define RVL_INT8_TABLES_H

#include <string.h>

#include "int8/int8.h"

#ifndef INLINE
#define INLINE static inline __attribute__((always_inline))
#endif

#define KR 16	      /* inputs of a step: their entries are added as bytes */
#define TABLE_BYTES 8 /* for each input */
#define SEGMENT 16    /* steps whose sums are added as 16 bits: 16 * 16 * 255 < 2^16 */

#define SUBSET(i, j) ((i) >> (j) & 1 ? (j) : 0x80)
#define SUBSETS(j) \
	{ \
		SUBSET(0, j), SUBSET(1, j), SUBSET(2, j), SUBSET(3, j), SUBSET(4, j), SUBSET(5, j), \
		SUBSET(6, j), SUBSET(7, j), SUBSET(8, j), SUBSET(9, j), SUBSET(10, j), SUBSET(11, j), \
		SUBSET(12, j), SUBSET(13, j), SUBSET(14, j), SUBSET(15, j), \
	}

/* Which byte a shuffle puts at place i of the summand of input j: j where i has the input, else 0. */
static const uint8_t subsets[4][16] = { SUBSETS(0), SUBSETS(1), SUBSETS(2), SUBSETS(3) };

/*
 * Makes the tables of 16 inputs. int8 inputs are offset by 128, for which the packed bias corrects.
 */
TARGET INLINE void build16(const uint8_t *x, bool u8, uint8_t *tables);

TARGET static void build_tables(const uint8_t *const *p, int64_t runs, int64_t step, int64_t n, bool u8, void *dst)
{
	uint8_t *to = dst;

	for (int64_t run = 0; run < runs; run++, to += n * TABLE_BYTES)
		for (int64_t i = 0; i < n; i += KR)
			build16(p[run * step] + i, u8, to + i * TABLE_BYTES);
}

/* Adds the entries of 16 inputs of each row. */
TARGET INLINE void add_step(vec sum[PAIR][2], const uint8_t *const table[PAIR], int64_t at,
			    const uint8_t *code, const int rows)
{
	vec lo[PAIR], hi[PAIR];

#pragma GCC unroll 2
	for (int i = 0; i < 2; i++) {
		vec c = T_LOAD(code + i * COLUMNS), first = T_LOW(c), second = T_HIGH(c);

#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			const uint8_t *t = table[r] + at + (int64_t)64 * i;
			vec a = T_ADD8(T_LOOKUP(T_TABLE(t), first), T_LOOKUP(T_TABLE(t + 32), second));
			vec b = T_ADD8(T_LOOKUP(T_TABLE(t + 16), first), T_LOOKUP(T_TABLE(t + 48), second));

			lo[r] = i ? T_ADD8(lo[r], a) : a;
			hi[r] = i ? T_ADD8(hi[r], b) : b;
		}
	}
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
		T_WIDEN(sum[r], lo[r], hi[r]);
}

/* Adds @factor times the sums of at most SEGMENT steps to @total. */
TARGET INLINE void add_segment(uint32_t (*total)[COLUMNS], const uint8_t *const table[PAIR], int64_t at,
			       const uint8_t *code, int64_t steps, uint32_t factor, const int rows)
{
	uint16_t out[COLUMNS];
	vec sum[PAIR][2];

#pragma GCC unroll 4
	for (int r = 0; r < rows; r++)
		sum[r][0] = sum[r][1] = T_ZERO();
	for (int64_t i = 0; i < steps; i++)
		add_step(sum, table, at + i * KR * TABLE_BYTES, code + i * 2 * COLUMNS, rows);
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++) {
		T_STORE(out, sum[r]);
		for (int j = 0; j < COLUMNS; j++)
			total[r][j] += factor * out[j];
	}
}

TARGET INLINE void tile(const struct rvl_i8_gemm_call *c, int row, const int rows)
{
	const uint8_t *table[PAIR], *code = c->w;
	uint32_t total[PAIR][COLUMNS];
	uint8_t y[COLUMNS];

	for (int r = 0; r < rows; r++) {
		table[r] = c->a[row + r];
		memcpy(total[r], c->bias, sizeof(total[r]));
	}
	for (int plane = 0; plane < c->planes; plane++) {
		uint32_t factor = 1u << plane;

		if (c->is_signed && plane == c->planes - 1)
			factor = -factor;
		for (int64_t at = 0; at < c->kc; at += (int64_t)SEGMENT * KR) {
			int64_t steps = (c->kc - at) / KR < SEGMENT ? (c->kc - at) / KR : SEGMENT;

			add_segment(total, table, at * TABLE_BYTES, code, steps, factor, rows);
			code += steps * 2 * COLUMNS;
		}
	}
	for (int r = 0; r < rows; r++) {
		for (int j = 0; j < COLUMNS; j += 16)
			requant16((const int32_t *)total[r] + j, c->scale + j, c->post, y + j);
		memcpy(c->y + (row + r) * c->y_stride, y, (size_t)c->cols);
	}
}

TARGET static void gemm(const struct rvl_i8_gemm_call *c)
{
	int row = 0;

	for (; row + PAIR <= c->rows; row += PAIR)
		tile(c, row, PAIR);
	for (; row < c->rows; row++)
		tile(c, row, 1);
}

#endif
