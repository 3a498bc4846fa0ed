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

/* Whether a pair of quad @c of tap @tap is beyond under up to HALF columns. */
static bool has_rest(const struct rvl_i8_source *s, int64_t column, int64_t columns, int64_t tap, int64_t c)
{
	for (int64_t i = c; i < c + RVL_I8_QUAD; i += 2)
		for (int64_t n = column; n < column + columns; n++)
			if (is_beyond(s->weight(s->ctx, n, tap, i), s->weight(s->ctx, n, tap, i + 1)))
				return true;
	return false;
}

/* The quads that have a rest under up to HALF columns, or more than @most. */
static int64_t rests_of(const struct rvl_i8_source *s, int64_t column, int64_t columns, int64_t most)
{
	int64_t rests = 0;

	for (int64_t t = 0; t < s->taps && rests <= most; t++)
		for (int64_t c = 0; c < s->kc && rests <= most; c += RVL_I8_QUAD)
			rests += has_rest(s, column, columns, t, c);
	return rests;
}

static bool are_rests_few(const struct rvl_i8_source *s)
{
	int64_t quads = s->groups * rvl_ceil_div(s->n, HALF) * s->taps * (s->kc / RVL_I8_QUAD);
	int64_t left = quads / REST_SHARE;

	for (int64_t g = 0; g < s->groups && left >= 0; g++)
		for (int64_t n = 0; n < s->n && left >= 0; n += HALF)
			left -= rests_of(s, g * s->n + n, rvl_least(HALF, s->n - n), left);
	return left >= 0;
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

/* Moves what the pairs of a quad have beyond from @w to @rest. No second weight is beyond alone. */
static void split_quad(int8_t *w, int8_t *rest)
{
	memset(rest, 0, RVL_I8_REST);
	for (int i = 0; i < RVL_I8_REST; i += 2) {
		int32_t sum = w[i] + w[i + 1];

		rest[i] = (int8_t)(sum - rvl_clamp(sum, -RVL_I8_MOST_PAIR, RVL_I8_MOST_PAIR));
		w[i] = (int8_t)(w[i] - rest[i]);
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
