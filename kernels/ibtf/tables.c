/* SPDX-License-Identifier: MIT */
/* The dual form: tables of the sums of all subsets of a group of inputs. */
#include <string.h>

#include "ibtf/slices.h"

static uint32_t group_size(const struct rivulet_ibtf_shape *s, uint32_t at, uint32_t g)
{
	return s->n - at < g ? s->n - at : g;
}

/* Adds that fill a table: one for each subset of two inputs or more. */
static uint64_t table_adds(uint32_t g)
{
	return (1ull << g) - 1 - g;
}

/* Without __builtin_popcount(), which may call a function of the compiler's library. */
static uint32_t count_bits(uint32_t v)
{
	uint32_t n = 0;

	for (; v; v &= v - 1)
		n++;
	return n;
}

/* Adds of one kernel: one for each column and group with a bit, but for the first one of a column.
 */
static uint64_t kernel_adds(const struct rivulet_ibtf_shape *s, const int16_t *w, uint32_t g)
{
	uint32_t mask = (1u << s->p) - 1, used = 0;
	uint64_t adds = 0;

	for (uint32_t at = 0; at < s->n; at += g) {
		uint32_t n = group_size(s, at, g), any = 0;

		for (uint32_t i = 0; i < n; i++)
			any |= (uint16_t)w[at + i];
		adds += count_bits(any & mask);
		used |= any & mask;
	}
	return adds - count_bits(used);
}

uint64_t rivulet_ibtf_tables_count(const struct rivulet_ibtf_shape *s, const int16_t *w, uint32_t g)
{
	uint64_t adds = rvl_ibtf_shift_adds(s) + s->n / g * table_adds(g);

	if (s->n % g)
		adds += table_adds(s->n % g);
	for (uint32_t k = 0; k < s->m; k++)
		adds += kernel_adds(s, w + (size_t)k * s->n, g);
	return adds;
}

void rivulet_ibtf_tables_factorise(const struct rivulet_ibtf_shape *s, const int16_t *w, uint32_t g,
				   uint16_t *codes)
{
	uint32_t columns = rvl_ibtf_columns(s);

	for (uint32_t at = 0; at < s->n; at += g, codes += columns) {
		uint32_t n = group_size(s, at, g);

		for (uint32_t c = 0; c < columns; c++) {
			const int16_t *kernel = w + (size_t)(c / s->p) * s->n + at;
			uint32_t code = 0;

			for (uint32_t i = 0; i < n; i++)
				code |= (uint32_t)((uint16_t)kernel[i] >> c % s->p & 1) << i;
			codes[c] = (uint16_t)code;
		}
	}
}

static void fill_table(const int32_t *x, uint32_t n, uint32_t *table)
{
	table[0] = 0;
	for (uint32_t v = 1; v < 1u << n; v++)
		table[v] = table[v & (v - 1)] + (uint32_t)x[__builtin_ctz(v)];
}

void rivulet_ibtf_tables_run(const struct rivulet_ibtf_shape *s, uint32_t g, const uint16_t *codes,
			     const int32_t *x, uint32_t *table, int32_t *y)
{
	uint32_t columns = rvl_ibtf_columns(s);

	memset(y, 0, s->m * sizeof(*y));
	for (uint32_t at = 0; at < s->n; at += g, codes += columns) {
		fill_table(x + at, group_size(s, at, g), table);
		/* Shifts are linear, so that the entries need no sum for each column of their own.
		 */
		for (uint32_t c = 0; c < columns; c++)
			rvl_ibtf_combine(s, &table[codes[c]], c, 1, y);
	}
}
