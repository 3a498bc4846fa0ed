// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/*
 * The circuits. Product bits of all inputs are counted by column (a column is a cycle) in
 * bit-sliced counters, 64 columns at once. Circuits with state then process the counts in order.
 */
#include "rivulet_sc.h"

#include <string.h>

#define WORDS	(RIVULET_SC_MAX / 64)
#define PLANES	16 /* counts below 2^16 */
#define UGEMM_LIMIT (INT64_C(1) << 30) /* its accumulator saturates; twice the value, like @acc */

struct columns {
	uint64_t plane[PLANES][WORDS];
};

static void add_bits(struct columns *c, const uint64_t *bits, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++) {
		uint64_t carry = bits[i];

		for (int p = 0; carry && p < PLANES; p++) {
			uint64_t next = c->plane[p][i] & carry;

			c->plane[p][i] ^= carry;
			carry = next;
		}
	}
}

static int32_t column(const struct columns *c, uint32_t t)
{
	int32_t n = 0;

	for (int p = 0; p < PLANES; p++)
		n |= (int32_t)(c->plane[p][t / 64] >> t % 64 & 1) << p;
	return n;
}

static uint32_t magnitude(int16_t w)
{
	return w < 0 ? -w : w;
}

/* Columns of the positive and of the negative products. */
static void count_signed(const struct rivulet_sc *s, const uint16_t *x, const int16_t *w, size_t n,
			 struct columns *pos, struct columns *neg)
{
	memset(pos, 0, sizeof(*pos));
	memset(neg, 0, sizeof(*neg));
	for (size_t i = 0; i < n; i++) {
		const uint64_t *a = s->x[x[i]], *b = s->w[magnitude(w[i])];
		uint64_t both[WORDS];

		for (uint32_t j = 0; j < s->words; j++)
			both[j] = a[j] & b[j];
		add_bits(w[i] < 0 ? neg : pos, both, s->words);
	}
}

static int64_t and_count(const struct rivulet_sc *s, const uint16_t *x, const int16_t *w, size_t n)
{
	int64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		const uint64_t *a = s->x[x[i]], *b = s->w[magnitude(w[i])];
		int32_t ones = 0;

		for (uint32_t j = 0; j < s->words; j++)
			ones += __builtin_popcountll(a[j] & b[j]);
		sum += w[i] < 0 ? -ones : ones;
	}
	return sum;
}

/*
 * The remainders of the accumulators over all blocks correct the last ones, so that the output is
 * the sum rounded to S.
 */
static int64_t and_loop(const struct rivulet_sc *s, uint32_t scale, int64_t sum)
{
	int64_t half = scale / 2, out = (sum < 0 ? sum - half : sum + half) / (int64_t)scale;
	int64_t most = s->length;

	return scale * (out > most ? most : out < -most ? -most : out);
}

/*
 * In each cycle, one bit of +1, -1 or 0 is output. Each block starts with an empty accumulator and
 * drops its remainder.
 */
static int64_t and_acc(const struct rivulet_sc *s, const struct rivulet_sc_adder *a,
		       const uint16_t *x, const int16_t *w, size_t n)
{
	uint32_t part = (s->length + a->blocks - 1) / a->blocks;
	struct columns pos, neg;
	int64_t out = 0, acc = 0, scale = a->scale;

	count_signed(s, x, w, n, &pos, &neg);
	for (uint32_t t = 0; t < s->length; t++) {
		if (t % part == 0)
			acc = 0;
		acc += column(&pos, t) - column(&neg, t);
		if (acc >= scale) {
			out++;
			acc -= scale;
		} else if (acc <= -scale) {
			out--;
			acc += scale;
		}
	}
	return out * scale;
}

/*
 * Two adders that saturate at one bit per cycle. The multiplexer selects the first, or the
 * complement of the second.
 */
static int64_t and_sep(const struct rivulet_sc *s, const struct rivulet_sc_adder *a,
		       const uint16_t *x, const int16_t *w, size_t n)
{
	struct columns pos, neg;
	int64_t up = 0, down = 0, ones = 0, scale = a->scale;

	count_signed(s, x, w, n, &pos, &neg);
	for (uint32_t t = 0; t < s->length; t++) {
		bool p, m;

		up += column(&pos, t);
		down += column(&neg, t);
		p = up >= scale;
		m = down >= scale;
		up -= p ? scale : 0;
		down -= m ? scale : 0;
		ones += s->select[t] >> 31 ? p : !m;
	}
	return (2 * ones - s->length) * scale;
}

/*
 * The weight's sequence advances separately for ones and for zeroes of x, so that one dimension
 * serves both operands.
 */
static void conditional(const struct rivulet_sc *s, uint32_t x, uint32_t w, uint64_t out[WORDS])
{
	uint32_t next[2] = { 0, 0 };

	memset(out, 0, WORDS * sizeof(*out));
	for (uint32_t t = 0; t < s->length; t++) {
		uint32_t one = s->x[x][t / 64] >> t % 64 & 1;
		bool bit = w > s->r1[next[one]++];

		out[t / 64] |= (uint64_t)(one ? bit : !bit) << t % 64;
	}
}

static int64_t ugemm(const struct rivulet_sc *s, uint32_t scale, const uint16_t *x,
		     const int16_t *w, size_t n)
{
	int64_t acc = 0, ones = 0, offset = (int64_t)n - scale, step = 2 * (int64_t)scale;
	struct columns all;

	memset(&all, 0, sizeof(all));
	for (size_t i = 0; i < n; i++) {
		uint64_t bits[WORDS];

		conditional(s, x[i], w[i], bits);
		add_bits(&all, bits, s->words);
	}
	for (uint32_t t = 0; t < s->length; t++) {
		acc += 2 * column(&all, t) - offset;
		acc = acc > UGEMM_LIMIT ? UGEMM_LIMIT : acc < -UGEMM_LIMIT ? -UGEMM_LIMIT : acc;
		if (acc >= step) {
			ones++;
			acc -= step;
		}
	}
	return (2 * ones - s->length) * scale;
}

/* Cycle t selects input select[t] of the next power of two. Missing inputs are zero. */
static int64_t xnor_mux(const struct rivulet_sc *s, const uint16_t *x, const int16_t *w, size_t n)
{
	uint32_t lg = 0;
	int64_t ones = 0;

	while ((size_t)1 << lg < n)
		lg++;
	for (uint32_t t = 0; t < s->length; t++) {
		size_t i = lg ? s->select[t] >> (32 - lg) : 0;
		uint32_t a, b;

		if (i >= n) {
			ones += t & 1;
			continue;
		}
		a = s->x[x[i]][t / 64] >> t % 64 & 1;
		b = s->w[w[i]][t / 64] >> t % 64 & 1;
		ones += a == b;
	}
	return (2 * ones - s->length) * (int64_t)(UINT64_C(1) << lg);
}

int32_t rivulet_sc_sum(const struct rivulet_sc *s, const struct rivulet_sc_adder *a,
		       const uint16_t *x, const int16_t *w, size_t n)
{
	switch (a->circuit) {
	case RIVULET_SC_AND_LOOP:
		return (int32_t)and_loop(s, a->scale, and_count(s, x, w, n));
	case RIVULET_SC_AND_ACC:
		return (int32_t)and_acc(s, a, x, w, n);
	case RIVULET_SC_AND_SEP:
		return (int32_t)and_sep(s, a, x, w, n);
	case RIVULET_SC_UGEMM:
		return (int32_t)ugemm(s, a->scale, x, w, n);
	case RIVULET_SC_XNOR_MUX:
		return (int32_t)xnor_mux(s, x, w, n);
	default:
		return (int32_t)and_count(s, x, w, n);
	}
}

int32_t rivulet_sc_sum_serial(uint32_t bits, uint32_t length, const uint16_t *x, const int16_t *w,
			      size_t n)
{
	uint32_t r1[RIVULET_SC_MAX], r2[RIVULET_SC_MAX];
	int32_t acc = 0;

	rivulet_sobol(1, length, r1);
	rivulet_sobol(2, length, r2);
	for (uint32_t t = 0; t < length; t++)
		for (size_t i = 0; i < n; i++)
			if (x[i] > r1[t] >> (32 - bits) && magnitude(w[i]) > r2[t] >> (32 - bits))
				acc += w[i] < 0 ? -1 : 1;
	return acc;
}
