/* SPDX-License-Identifier: MIT */
/* Slices: codes, cuts, adds and storage. */
#include "ibtf/slices.h"

#include <string.h>

static size_t round_up(size_t n)
{
	return (n + 15) & ~(size_t)15;
}

size_t rivulet_ibtf_scratch(const struct rivulet_ibtf_shape *s)
{
	size_t columns = rvl_ibtf_columns(s) + 1ul;

	return round_up(s->n * sizeof(uint16_t)) + (1u << RIVULET_IBTF_WIDEST) +
	       round_up(columns * sizeof(uint64_t)) + columns;
}

struct rvl_ibtf_scratch rvl_ibtf_scratch(const struct rivulet_ibtf_shape *s, void *memory)
{
	uint8_t *at = memory;
	struct rvl_ibtf_scratch r;

	r.code = (uint16_t *)at;
	at += round_up(s->n * sizeof(uint16_t));
	r.seen = at;
	at += 1u << RIVULET_IBTF_WIDEST;
	r.best = (uint64_t *)at;
	at += round_up((rvl_ibtf_columns(s) + 1ul) * sizeof(uint64_t));
	r.last = at;
	return r;
}

/* ---- codes ---- */

void rvl_ibtf_add_column(const struct rivulet_ibtf_shape *s, const int16_t *w, uint32_t c,
			 uint32_t at, uint16_t *code)
{
	const int16_t *kernel = w + (size_t)(c / s->p) * s->n;
	uint32_t bit = c % s->p, n = s->n;

	if (!at)
		memset(code, 0, n * sizeof(*code));
	for (uint32_t i = 0; i < n; i++)
		code[i] |= (uint16_t)(((uint16_t)kernel[i] >> bit & 1) << at);
}

uint32_t rvl_ibtf_rows(const uint16_t *code, uint32_t n)
{
	uint32_t rows = 0;

	for (uint32_t i = 0; i < n; i++)
		rows += code[i] != 0;
	return rows;
}

uint32_t rvl_ibtf_distinct(const uint16_t *code, uint32_t n, uint32_t a, uint8_t *seen)
{
	uint32_t distinct = 0;

	memset(seen, 0, 1u << a);
	for (uint32_t i = 0; i < n; i++)
		seen[code[i]] = 1;
	for (uint32_t v = 1; v < 1u << a; v++)
		distinct += seen[v];
	return distinct;
}

void rivulet_ibtf_factorise(const struct rivulet_ibtf_shape *s, const int16_t *w,
			    const struct rivulet_ibtf_slices *cut, uint16_t *codes)
{
	for (uint32_t i = 0, c = 0; i < cut->n; c += cut->width[i++])
		rvl_ibtf_codes(s, w, c, cut->width[i], codes + (size_t)i * s->n);
}

/* ---- adds ---- */

/* Of one slice whose codes are known; a slice without any bit is left out of the product. */
static uint64_t slice_adds(uint32_t rows, uint32_t distinct, uint32_t a)
{
	return rows ? rows - distinct + rvl_ibtf_fold_adds(a) : 0;
}

void rivulet_ibtf_parts(const struct rivulet_ibtf_shape *s, const int16_t *w,
			const struct rivulet_ibtf_slices *cut, void *scratch,
			struct rivulet_ibtf_parts *out)
{
	struct rvl_ibtf_scratch r = rvl_ibtf_scratch(s, scratch);

	*out = (struct rivulet_ibtf_parts){ .columns = rvl_ibtf_shift_adds(s) };
	for (uint32_t i = 0, c = 0; i < cut->n; c += cut->width[i++]) {
		uint32_t rows;

		rvl_ibtf_codes(s, w, c, cut->width[i], r.code);
		rows = rvl_ibtf_rows(r.code, s->n);
		out->rows += rows;
		out->first += rvl_ibtf_distinct(r.code, s->n, cut->width[i], r.seen);
		out->fold += rows ? rvl_ibtf_fold_adds(cut->width[i]) : 0;
	}
}

uint64_t rivulet_ibtf_count(const struct rivulet_ibtf_shape *s, const int16_t *w,
			    const struct rivulet_ibtf_slices *cut, void *scratch)
{
	struct rivulet_ibtf_parts p;

	rivulet_ibtf_parts(s, w, cut, scratch, &p);
	return p.rows - p.first + p.fold + p.columns;
}

/* ---- storage ---- */

#define DISTANCES 8 /* the widest field of a distance, in bits */

/*
 * Adds the bits of one slice by columns, for each width of the distance. A distance that the field
 * cannot hold takes further pairs with the code 0, each of which stands for 2^d inputs.
 */
static void add_pairs(const uint16_t *code, uint32_t n, uint32_t a, uint64_t *bits)
{
	for (uint32_t i = 0, last = 0; i < n; i++) {
		if (!code[i])
			continue;
		for (uint32_t d = 1; d <= DISTANCES; d++)
			bits[d - 1] += (uint64_t)(a + d) * (1 + ((i - last) >> d));
		last = i;
	}
}

uint64_t rivulet_ibtf_storage(const struct rivulet_ibtf_shape *s, const int16_t *w,
			      const struct rivulet_ibtf_slices *cut, void *scratch)
{
	struct rvl_ibtf_scratch r = rvl_ibtf_scratch(s, scratch);
	uint64_t least = (uint64_t)s->n * rvl_ibtf_columns(s), bits[DISTANCES] = { 0 };

	for (uint32_t i = 0, c = 0; i < cut->n; c += cut->width[i++]) {
		rvl_ibtf_codes(s, w, c, cut->width[i], r.code);
		add_pairs(r.code, s->n, cut->width[i], bits);
	}
	for (uint32_t d = 0; d < DISTANCES; d++)
		least = bits[d] < least ? bits[d] : least;
	return least;
}

/* ---- cuts ---- */

void rivulet_ibtf_cut_evenly(const struct rivulet_ibtf_shape *s, uint32_t a,
			     struct rivulet_ibtf_slices *out)
{
	uint32_t columns = rvl_ibtf_columns(s);

	out->n = 0;
	for (uint32_t c = 0; c < columns; c += a)
		out->width[out->n++] = (uint8_t)(columns - c < a ? columns - c : a);
}

/* A kernel's planes in as few slices as possible, of widths that differ by at most one. */
static void cut_kernel(uint32_t p, uint32_t a, struct rivulet_ibtf_slices *out)
{
	uint32_t slices = (p + a - 1) / a;

	for (uint32_t i = 0; i < slices; i++)
		out->width[out->n++] = (uint8_t)(p * (i + 1) / slices - p * i / slices);
}

void rivulet_ibtf_cut_kernels(const struct rivulet_ibtf_shape *s, uint32_t a,
			      struct rivulet_ibtf_slices *out)
{
	uint32_t kernels = a / s->p;

	if (kernels) {
		rivulet_ibtf_cut_evenly(s, kernels * s->p, out);
		return;
	}
	out->n = 0;
	for (uint32_t k = 0; k < s->m; k++)
		cut_kernel(s->p, a, out);
}

/* Whether no slice of @a columns has fewer adds than slices of one column each. */
static bool too_wide(uint32_t a, uint32_t n)
{
	return (1ull << a) - 1 - 2 * a >= (uint64_t)(a - 1) * n;
}

/*
 * Tries all slices that begin at column @c. The different codes of a slice are counted only where
 * it would improve the path if it used all its buckets.
 */
static void extend(const struct rivulet_ibtf_shape *s, const int16_t *w, uint32_t c,
		   const struct rvl_ibtf_scratch *r)
{
	uint32_t left = rvl_ibtf_columns(s) - c;

	for (uint32_t a = 1; a <= left && a <= RIVULET_IBTF_WIDEST; a++) {
		uint32_t rows, buckets = (1u << a) - 1;
		uint64_t adds;

		if (a > 2 && too_wide(a, s->n))
			break;
		rvl_ibtf_add_column(s, w, c + a - 1, a - 1, r->code);
		rows = rvl_ibtf_rows(r->code, s->n);
		if (r->best[c] + slice_adds(rows, rows < buckets ? rows : buckets, a) >=
		    r->best[c + a])
			continue;
		adds = r->best[c] +
		       slice_adds(rows, rvl_ibtf_distinct(r->code, s->n, a, r->seen), a);
		if (adds < r->best[c + a]) {
			r->best[c + a] = adds;
			r->last[c + a] = (uint8_t)a;
		}
	}
}

/* The widths lie last to first in r->last. */
static void trace_back(uint32_t columns, const struct rvl_ibtf_scratch *r,
		       struct rivulet_ibtf_slices *out)
{
	uint32_t at;

	out->n = 0;
	for (uint32_t c = columns; c; c -= r->last[c])
		out->n++;
	at = out->n;
	for (uint32_t c = columns; c; c -= r->last[c])
		out->width[--at] = r->last[c];
}

uint64_t rivulet_ibtf_cut_best(const struct rivulet_ibtf_shape *s, const int16_t *w, void *scratch,
			       struct rivulet_ibtf_slices *out)
{
	struct rvl_ibtf_scratch r = rvl_ibtf_scratch(s, scratch);
	uint32_t columns = rvl_ibtf_columns(s);

	for (uint32_t c = 0; c <= columns; c++)
		r.best[c] = c ? UINT64_MAX : 0;
	for (uint32_t c = 0; c < columns; c++)
		extend(s, w, c, &r);
	trace_back(columns, &r, out);
	return r.best[columns] + rvl_ibtf_shift_adds(s);
}

/* ---- execution ---- */

void rvl_ibtf_combine(const struct rivulet_ibtf_shape *s, const uint32_t *sum, uint32_t first,
		      uint32_t n, int32_t *y)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t kernel = (first + i) / s->p, bit = (first + i) % s->p;
		uint32_t z = sum[i] << bit;

		z = s->is_signed && bit == s->p - 1 ? -z : z;
		y[kernel] = (int32_t)((uint32_t)y[kernel] + z);
	}
}

/*
 * Halves the buckets once for each column, the highest first: the upper half is the column's sum,
 * and joins the lower half, which has the same lower bits.
 */
static void fold(uint32_t *bucket, uint32_t a, uint32_t *sum)
{
	for (uint32_t j = a; j--;) {
		uint32_t half = 1u << j;

		sum[j] = 0;
		for (uint32_t v = 0; v < half; v++) {
			sum[j] += bucket[v + half];
			bucket[v] += bucket[v + half];
		}
	}
}

void rivulet_ibtf_run(const struct rivulet_ibtf_shape *s, const struct rivulet_ibtf_slices *cut,
		      const uint16_t *codes, const int32_t *x, uint32_t *buckets, int32_t *y)
{
	memset(y, 0, s->m * sizeof(*y));
	for (uint32_t i = 0, c = 0; i < cut->n; c += cut->width[i++], codes += s->n) {
		uint32_t sum[RIVULET_IBTF_WIDEST];

		memset(buckets, 0, sizeof(*buckets) << cut->width[i]);
		for (uint32_t k = 0; k < s->n; k++)
			buckets[codes[k]] += (uint32_t)x[k];
		fold(buckets, cut->width[i], sum);
		rvl_ibtf_combine(s, sum, c, cut->width[i], y);
	}
}
