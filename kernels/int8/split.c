/* SPDX-License-Identifier: MIT */
/* Splits weights for exact products of bytes: see struct rvl_i8_rest. */
#include <errno.h>

#include "int8/product.h"
#include "qmath.h"
#include "sizes.h"

#define QUADS_OF_STEP 6	/* at least, for each step, under half of a block's columns */
#define QUADS_OF_STEP_SORTED 20	/* where rows can be sorted */

#define PAIRS (RVL_I8_QUAD / 2)
#define HALF_PLACES (16 / RVL_I8_PLACE_BITS)

/* Whether a pair has a rest. This is called for every pair, so it makes one comparison. */
static bool has_rest(int32_t a, int32_t b)
{
	return (uint32_t)(a + b + RVL_I8_MOST_PAIR) > 2 * RVL_I8_MOST_PAIR;
}

static int32_t rest_of(int32_t a, int32_t b)
{
	return a + b - rvl_clamp(a + b, -RVL_I8_MOST_PAIR, RVL_I8_MOST_PAIR);
}

/* A step that may have columns left for rests of the next pairs. */
struct window {
	int64_t tap, quad;	/* at which it begins */
	unsigned int taken;	/* columns, as bits */
};

/* A pair begins one step at most, so that no steps but these may have columns left. */
#define LAST (RVL_I8_WINDOW * PAIRS)

/* The steps of half of a block. */
struct steps {
	int64_t n, quads;	/* quads: of a tap */
	struct window last[LAST];
};

static struct steps no_steps(int64_t kc)
{
	return (struct steps) { .quads = kc / RVL_I8_QUAD };
}

static struct window *window_of(struct steps *s, int64_t step)
{
	return s->last + step % LAST;
}

/* The first step that has a window with this quad, and one of the columns left; or the next step. */
static int64_t step_for(struct steps *s, int64_t tap, int64_t quad, unsigned int columns)
{
	int64_t i = s->n < LAST ? 0 : s->n - LAST;

	for (; i < s->n; i++) {
		const struct window *w = window_of(s, i);

		if (w->tap == tap && quad < w->quad + RVL_I8_WINDOW && columns & ~w->taken)
			break;
	}
	return i;
}

/*
 * Moves columns that have a rest in a pair of this quad from @columns to *@taken, those of the step that is
 * returned. Pairs come in order. A window at the end of a tap begins before its first quad.
 */
static int64_t take(struct steps *s, int64_t tap, int64_t quad, unsigned int *columns, unsigned int *taken)
{
	int64_t i = step_for(s, tap, quad, *columns);
	struct window *w = window_of(s, i);

	if (i == s->n) {
		s->n++;
		*w = (struct window) { tap, rvl_least(quad, s->quads - RVL_I8_WINDOW), 0 };
	}
	*taken = *columns & ~w->taken;
	w->taken |= *taken;
	*columns &= ~*taken;
	return i;
}

/* ---- whether weights are split ---- */

/* Which of up to eight columns have a rest in the pair of channel @c, as bits. */
static unsigned int source_columns(const struct rvl_i8_source *s, int64_t column, int64_t columns, int64_t tap,
				   int64_t c)
{
	unsigned int with = 0;

	for (int64_t n = 0; n < columns; n++)
		if (has_rest(s->weight(s->ctx, column + n, tap, c), s->weight(s->ctx, column + n, tap, c + 1)))
			with |= 1U << n;
	return with;
}

/* The steps of up to eight columns, or more than @most. */
static int64_t steps_of(const struct rvl_i8_source *s, int64_t column, int64_t columns, int64_t most)
{
	struct steps steps = no_steps(s->kc);

	for (int64_t t = 0; t < s->taps && steps.n <= most; t++) {
		for (int64_t c = 0; c < s->kc && steps.n <= most; c += RVL_I8_QUAD / PAIRS) {
			unsigned int left = source_columns(s, column, columns, t, c), taken;

			while (left)
				take(&steps, t, c / RVL_I8_QUAD, &left, &taken);
		}
	}
	return steps.n;
}

static bool are_steps_few(const struct rvl_i8_source *s, int64_t quads_of_step)
{
	int64_t quads = s->groups * rvl_ceil_div(s->n, RVL_I8_HALF) * s->taps * (s->kc / RVL_I8_QUAD);
	int64_t left = quads / quads_of_step;

	for (int64_t g = 0; g < s->groups && left >= 0; g++)
		for (int64_t n = 0; n < s->n && left >= 0; n += RVL_I8_HALF)
			left -= steps_of(s, g * s->n + n, rvl_least(RVL_I8_HALF, s->n - n), left);
	return left >= 0;
}

bool rvl_i8_splits(const struct rvl_i8_mat *m, const struct rvl_i8_source *s, bool sorts)
{
	return m->f->split && m->planes == 1 && !s->scattered && !s->tiled && !(s->kc % RVL_I8_QUAD) &&
	       s->kc / RVL_I8_QUAD >= RVL_I8_WINDOW && s->taps * (s->kc / RVL_I8_QUAD) <= UINT16_MAX + 1 &&
	       are_steps_few(s, sorts ? QUADS_OF_STEP_SORTED : QUADS_OF_STEP);
}

/* ---- splitting ---- */

/* Which columns have a rest in the pair whose weights in the first one are @w, as bits. */
static unsigned int packed_columns(const int8_t *w)
{
	unsigned int with = 0;

	for (int n = 0; n < RVL_I8_HALF; n++, w += RVL_I8_QUAD)
		with |= (unsigned int)has_rest(w[0], w[1]) << n;
	return with;
}

/* Moves the rest of a pair of column @n to a step. What is left of the first weight is an int8, too. */
static void split_pair(int8_t *w, int n, unsigned int place, struct rvl_i8_rest_step *to)
{
	int32_t rest = rest_of(w[n * RVL_I8_QUAD], w[n * RVL_I8_QUAD + 1]);

	to->place[n / HALF_PLACES] |= (uint16_t)(place << n % HALF_PLACES * RVL_I8_PLACE_BITS);
	to->w[n] = (int8_t)rest;
	w[n * RVL_I8_QUAD] = (int8_t)(w[n * RVL_I8_QUAD] - rest);
}

/* Splits the weights of a pair of a quad, unless @to is NULL. */
static void split_pairs(struct steps *s, int64_t tap, int64_t quad, int pair, int8_t *w, struct rvl_i8_rest_step *to)
{
	unsigned int left = packed_columns(w), taken;

	while (left) {
		int64_t i = take(s, tap, quad, &left, &taken), first = window_of(s, i)->quad;
		unsigned int place = (unsigned int)(quad - first) | (pair ? RVL_I8_SECOND_PAIR : 0);

		if (!to)
			continue;
		to[i].quad = (uint16_t)(tap * s->quads + first);
		for (int n = 0; n < RVL_I8_HALF; n++)
			if (taken >> n & 1)
				split_pair(w, n, place, to + i);
	}
}

/* Splits the weights of half of a block, unless @to is NULL. Returns how many steps they have. */
static int64_t split_half(const struct rvl_i8_mat *m, int64_t block, int half, struct rvl_i8_rest_step *to)
{
	int8_t *w = (int8_t *)m->w + block * rvl_i8_block_bytes(m) + half * RVL_I8_HALF * RVL_I8_QUAD;
	struct steps s = no_steps(m->kc);

	for (int64_t t = 0; t < m->taps; t++)
		for (int64_t q = 0; q < s.quads; q++, w += m->f->nr * RVL_I8_QUAD)
			for (int pair = 0; pair < PAIRS; pair++)
				split_pairs(&s, t, q, pair, w + 2 * pair, to);
	return s.n;
}

int rvl_i8_split(struct rvl_kernel *k, struct rvl_i8_mat *m)
{
	int64_t halves = 2 * m->groups * m->blocks, n = 0;
	struct rvl_i8_rest *rest = rvl_kernel_mem(k, halves / 2, sizeof(*rest));
	struct rvl_i8_rest_step *step;

	if (!rest)
		return -ENOMEM;
	for (int64_t i = 0; i < halves; i++) {
		rest[i / 2].n[i % 2] = split_half(m, i / 2, i % 2, NULL);
		n += rest[i / 2].n[i % 2];
	}
	step = rvl_kernel_mem(k, n, sizeof(*step));
	if (!step)
		return -ENOMEM;
	for (int64_t i = 0; i < halves; i++) {
		if (i % 2 == 0)
			rest[i / 2].step = step;
		step += split_half(m, i / 2, i % 2, step);
	}
	m->rest = rest;
	return 0;
}
