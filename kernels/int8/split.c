/* SPDX-License-Identifier: MIT */
/* Splits weights for exact products of bytes: see struct rvl_i8_rest. */
#include <errno.h>
#include <string.h>

#include "int8/product.h"
#include "qmath.h"
#include "sizes.h"

#define REST_SHARE 10	/* of the quads, one of how many may have a rest */
#define HALF (RVL_I8_REST / RVL_I8_QUAD)	/* columns */

static bool is_beyond(int32_t a, int32_t b)
{
	return a + b > RVL_I8_MOST_PAIR || a + b < -RVL_I8_MOST_PAIR;
}

/* Whether any pair of four inputs from @at on, counted over all taps, is beyond under up to HALF columns. */
static bool has_rest(const struct rvl_i8_source *s, int64_t column, int64_t columns, int64_t at)
{
	for (int64_t i = at; i < at + RVL_I8_QUAD; i += 2) {
		int64_t tap = i / s->kc, c = i % s->kc;

		for (int64_t n = column; n < column + columns; n++)
			if (is_beyond(s->weight(s->ctx, n, tap, c), s->weight(s->ctx, n, tap, c + 1)))
				return true;
	}
	return false;
}

/* Whether few enough weights have a rest. */
static bool are_rests_few(const struct rvl_i8_source *s)
{
	int64_t rests = 0, most = s->groups * rvl_ceil_div(s->n, HALF) * s->taps * s->kc / RVL_I8_QUAD / REST_SHARE;

	for (int64_t g = 0; g < s->groups; g++)
		for (int64_t n = 0; n < s->n; n += HALF)
			for (int64_t at = 0; at < s->taps * s->kc; at += RVL_I8_QUAD) {
				rests += has_rest(s, g * s->n + n, rvl_least(HALF, s->n - n), at);
				if (rests > most)
					return false;
			}
	return true;
}

bool rvl_i8_splits(const struct rvl_i8_mat *m, const struct rvl_i8_source *s)
{
	return m->f->split && m->planes == 1 && !s->scattered && !s->tiled && s->kc && !(s->kc % RVL_I8_QUAD) &&
	       s->kc / RVL_I8_QUAD <= UINT16_MAX && s->taps <= UINT16_MAX && are_rests_few(s);
}

static bool is_rest(const int8_t *w)
{
	for (int i = 0; i < RVL_I8_REST; i += 2)
		if (is_beyond(w[i], w[i + 1]))
			return true;
	return false;
}

/* Moves what the pairs of a quad have beyond from @w to @rest. Both weights of such a pair have one sign. */
static void split_quad(int8_t *w, int8_t *rest)
{
	for (int i = 0; i < RVL_I8_REST; i += 2) {
		int32_t sum = w[i] + w[i + 1], beyond = sum - rvl_clamp(sum, -RVL_I8_MOST_PAIR, RVL_I8_MOST_PAIR);

		rest[i] = (int8_t)rvl_clamp(beyond, w[i] < 0 ? w[i] : 0, w[i] < 0 ? 0 : w[i]);
		rest[i + 1] = (int8_t)(beyond - rest[i]);
		w[i] = (int8_t)(w[i] - rest[i]);
		w[i + 1] = (int8_t)(w[i + 1] - rest[i + 1]);
	}
}

/* Where the next rest is written. */
struct rests {
	int8_t *w;
	struct rvl_i8_rest_place *place;
};

/* Splits the weights of half of a block. Returns how many rests they have. */
static int64_t split_half(const struct rvl_i8_mat *m, int8_t *w, struct rests *to)
{
	const struct rvl_i8_rest_place *first = to->place;

	for (int64_t t = 0; t < m->taps; t++) {
		for (int64_t q = 0; q < m->kc / RVL_I8_QUAD; q++, w += 2 * RVL_I8_REST) {
			if (!is_rest(w))
				continue;
			split_quad(w, to->w);
			*to->place++ = (struct rvl_i8_rest_place) { (uint16_t)t, (uint16_t)q };
			to->w += RVL_I8_REST;
		}
	}
	return to->place - first;
}

int rvl_i8_split(struct rvl_kernel *k, struct rvl_i8_mat *m)
{
	int64_t bytes = rvl_i8_block_bytes(m), blocks = m->groups * m->blocks, n = 0;
	struct rvl_i8_rest *rest = rvl_kernel_mem(k, blocks, sizeof(*rest));
	int8_t *w = m->w;
	struct rests to;

	for (int64_t i = 0; i < blocks * bytes; i += RVL_I8_REST)
		n += is_rest(w + i);
	to.w = rvl_kernel_mem(k, n, RVL_I8_REST);
	to.place = rvl_kernel_mem(k, n, sizeof(*to.place));
	if (!rest || !to.w || !to.place)
		return -ENOMEM;
	for (int64_t b = 0; b < blocks; b++, w += bytes) {
		rest[b].w = to.w;
		rest[b].place = to.place;
		for (int half = 0; half < 2; half++)
			rest[b].n[half] = split_half(m, w + half * RVL_I8_REST, &to);
	}
	m->rest = rest;
	return 0;
}
