/* SPDX-License-Identifier: MIT */
/*
 * Values kept in INP: a value that several layers read lies there as a whole, from the layer that
 * makes it to the last one that reads it, so that neither STORE nor LOAD moves it. Between them the
 * buffers of all layers take the rest of INP. At most two values are kept at a time, one at each
 * end of INP; a result may take the place of its second operand, or of what its cascade reads.
 *
 * Before that, the cascades are joined and divided where that costs less: the search of cascade.c
 * has priced them behind single layers.
 *
 * Values are tried in the order in which they are made. Cascades stay as they are divided, but are
 * cut again for the words that are left. A value is kept where the layers around it take less time
 * by the timeline, a number of bytes counting as a cycle.
 */
#include "npu/backend.h"
#include "npu/chain.h"
#include "npu/choice.h"
#include "npu/epilogue.h"
#include "rivulet_footprint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CUTS 3 /* of a group whose timelines are compared: the best by the estimate */

/* Layers that take turns, or one layer, and the words of INP that its buffers may take. */
struct group {
	uint32_t first, n;
	int64_t lo, hi;
};

/* A value that is kept: the layer that makes it, and the groups from that layer's to the last
 * reader's. */
struct kept {
	struct rvl_ring *ring;
	uint32_t maker, from, last;
};

struct keeper {
	struct rvl_backend *be;
	struct rvl_layer **l;
	const struct rvl_choice *alone; /* as each layer is cut without a cascade */
	uint32_t n, groups, values, changes;
	bool operands; /* results may take the places of operands, not only of second ones */
	bool whole;    /* weights load early, beside layers before: a change costs what the step costs with it */
	struct group *group;
	struct kept *value;
	struct rvl_ring *ring; /* of each layer whose result stays inside its cascade */
	/* while a value is tried: layers @saved to @past_saved, their rings, and all groups as they were */
	struct rvl_choice *choice;
	struct rvl_ring *rings;
	uint32_t room; /* of both */
	struct group *before;
	uint32_t groups_before, saved, past_saved;
};

static uint32_t past(const struct group *g)
{
	return g->first + g->n;
}

static uint32_t group_of(const struct keeper *k, uint32_t layer)
{
	uint32_t g = 0;

	while (past(&k->group[g]) <= layer)
		g++;
	return g;
}

/* ---- which values ---- */

static bool made_whole(const struct keeper *k, const struct rvl_layer *l)
{
	const struct rvl_store *s = l->out.s;

	if (!l->mode && (!l->e.stages || rvl_blocks(k->be->board, &l->out.v) !=
						 rvl_blocks_made(k->be->board, &l->out.v)))
		return false;
	return !l->to && !l->has_bits && !l->in.flat && !l->out.pixels && !l->e.real &&
	       l->out.v.n == 1 && s->blocked && s->place == RIVULET_PLACE_ARENA && !s->base &&
	       !s->has_parts && !s->crosses;
}

/* Whether layer @i can read the value, which is its operand, in INP. */
static bool reads_whole(const struct keeper *k, uint32_t i, const struct rvl_view *v)
{
	const struct rvl_layer *l = k->l[i];

	if (k->group[group_of(k, i)].first != i || l->has_bits || l->in.pixels ||
	    !rvl_view_equal(&l->in.v, v))
		return false;
	return l->mode ? !l->p.gather : l->e.pool && !l->has_b;
}

static bool adds_whole(const struct rvl_layer *l, const struct rvl_view *v)
{
	return l->mode && rvl_epilogue_has(l, &rvl_stage_second) && !l->has_bits && !l->b.pixels &&
	       rvl_view_equal(&l->b.v, v);
}

/* The last layer that reads what layer @maker makes, if all readers can read it in INP; else 0. */
static uint32_t last_reader(const struct keeper *k, uint32_t maker)
{
	const struct rvl_operand *o = &k->l[maker]->out;
	uint32_t last = 0, found = 0;

	for (uint32_t i = maker + 1; i < k->n && found < o->s->readers; i++) {
		const struct rvl_layer *l = k->l[i];
		bool in = l->in.s == o->s, b = l->has_b && l->b.s == o->s;

		if (!in && !b)
			continue;
		if ((in && !reads_whole(k, i, &o->v)) || (b && !adds_whole(l, &o->v)))
			return 0;
		last = i;
		found += in + b;
	}
	return found == o->s->readers ? last : 0; /* else a layer before it reads it, or one of another step */
}

/* Words between rows as the readers need them: those that take several taps in a pass need a pitch.
 */
static int64_t width_of(const struct keeper *k, const struct rvl_operand *o)
{
	int64_t width = o->v.w;

	for (uint32_t i = 0; i < k->n; i++) {
		const struct rvl_layer *l = k->l[i];
		struct rvl_nest nest = { 0 };

		if (l->in.s != o->s || !l->mode)
			continue;
		l->mode->nest(k->be->board, l, &nest);
		width = rvl_max(width, rvl_row_pitch(k->be->board, &nest, o->v.w));
	}
	return width;
}

/* ---- where a value lies ---- */

/* Rows of the operand that the next tile of @l reads, and whether it has one; @y: rows that it has made. */
static bool next_reads(const struct rvl_layer *l, int64_t y, int64_t rows[2])
{
	if (y >= rvl_result_rows(l))
		return false;
	rvl_rows_read(l, y, rvl_min(l->t.th, rvl_result_rows(l) - y), rows);
	return true;
}

/* Whether the next tile of layer @i of @n can be made, as turns.c decides; @y: rows that each has made. */
static bool can_go(struct rvl_layer *const *l, uint32_t n, uint32_t i, const int64_t *y)
{
	uint32_t reader = i + 1 < n ? i + 1 : 0;
	int64_t rows[2], past = y[i] + l[i]->t.th, room = reader ? l[i]->to->rows : 0;

	if (!next_reads(l[i], y[i], rows) || (i && y[i - 1] < rows[1]))
		return false;
	if (!next_reads(l[reader], y[reader], rows) || (reader && (l[i]->to->chunk || l[i]->to->taps)))
		return true;
	return past - room <= rows[0];
}

/*
 * Whether the layers of a cascade can write rows of the result over those of the value that the first
 * of them reads, each behind the rows that are still read. What one tile allows another one does not
 * take back, so that the order of turns does not matter.
 */
static bool in_place_works(const struct keeper *k, const struct group *g)
{
	struct rvl_layer *const *l = k->l + g->first;
	const struct rvl_layer *end = l[g->n - 1];
	int64_t y[RVL_CHAIN] = { 0 };
	bool goes = true, left = true;

	if (!end->to || !l[0]->from || end->to->base != l[0]->from->base)
		return true;
	while (goes && left) {
		goes = left = false;
		for (uint32_t i = 0; i < g->n; i++) {
			bool can = can_go(l, g->n, i, y);

			y[i] = can ? rvl_min(y[i] + l[i]->t.th, rvl_result_rows(l[i])) : y[i];
			goes |= can;
			left |= y[i] < rvl_result_rows(l[i]);
		}
	}
	return !left;
}

/*
 * Whether the result of @maker may take the place of @v: of its second operand, or of what the first
 * layer of its cascade reads.
 */
static bool may_replace(const struct keeper *k, uint32_t maker, const struct kept *v,
			const struct rvl_ring *r)
{
	const struct group *g = &k->group[v->last];

	if ((k->l[maker]->b_from != v->ring && (!k->operands || k->l[g->first]->from != v->ring)) ||
	    past(g) != maker + 1 || v->ring->width != r->width || v->ring->blocks != r->blocks ||
	    v->ring->rows != r->rows)
		return false;
	for (uint32_t i = g->first; i < maker; i++)
		if (k->l[i]->b_from == v->ring)
			return false;
	return g->n > 1 || k->l[maker]->from != v->ring;
}

/* The value whose place the result of @maker may take, or NULL. */
static const struct kept *replaced(const struct keeper *k, uint32_t maker, const struct rvl_ring *r)
{
	for (uint32_t i = 0; i < k->values; i++)
		if (may_replace(k, maker, &k->value[i], r))
			return &k->value[i];
	return NULL;
}

/* An end of INP that is free in all groups of @v from @first on; false where neither is. */
static bool take_end(struct keeper *k, const struct kept *v, uint32_t first, bool low)
{
	int64_t all = rivulet_mem_words(k->be->board, RIVULET_MEM_INP),
		words = rvl_ring_words(v->ring);

	for (uint32_t g = first; g <= v->last; g++)
		if ((low ? k->group[g].lo != 0 : k->group[g].hi != all) ||
		    k->group[g].hi - k->group[g].lo <= words)
			return false;
	for (uint32_t g = first; g <= v->last; g++)
		*(low ? &k->group[g].lo : &k->group[g].hi) = low ? words : all - words;
	return true;
}

static bool place(struct keeper *k, const struct kept *v)
{
	int64_t all = rivulet_mem_words(k->be->board, RIVULET_MEM_INP);
	const struct kept *old = replaced(k, v->maker, v->ring);
	bool low = true;

	if (old) {
		low = old->ring->base == 0;
		v->ring->base = old->ring->base;
		return v->last == v->from || take_end(k, v, v->from + 1, low);
	}
	if (!take_end(k, v, v->from, true)) {
		low = false;
		if (!take_end(k, v, v->from, false))
			return false;
	}
	v->ring->base = low ? 0 : all - rvl_ring_words(v->ring);
	return true;
}

/* ---- cuts ---- */

static void limit(const struct keeper *k, const struct group *g)
{
	k->l[g->first]->inp[0] = g->lo;
	k->l[g->first]->inp[1] = g->hi;
}

/* Candidates for a group: the layers of each, cut. */
struct cuts {
	struct rvl_chain c[2 * CUTS];
	uint32_t n;
};

static void cut_single(const struct keeper *k, const struct group *g, struct cuts *cuts)
{
	const struct rivulet_board *b = k->be->board;
	struct rvl_layer form = *k->l[g->first];
	struct rvl_room room = { g->hi - g->lo, rvl_wgt_words(b),
				 rivulet_mem_words(b, RIVULET_MEM_ACC), INT16_MAX, 0, false };
	struct rvl_tiling t[CUTS];

	if (form.mode) {
		cuts->n = rvl_cuts(b, &form, &room, t, CUTS);
	} else {
		cuts->n = rvl_tile_within(b, &form, &room);
		t[0] = form.t;
	}
	for (uint32_t i = 0; i < cuts->n; i++) {
		cuts->c[i] = (struct rvl_chain){ .n = 1 };
		cuts->c[i].l[0] = form;
		cuts->c[i].l[0].t = t[i];
	}
}

static void cut_cascade(const struct keeper *k, const struct group *g, struct cuts *cuts)
{
	struct rvl_chain_cuts best = { .cut = cuts->c, .most = CUTS }, parts = { .most = CUTS };
	struct rvl_chain form = { .n = g->n, .inp = g->hi - g->lo };

	for (uint32_t i = 0; i < g->n; i++)
		form.l[i] = *k->l[g->first + i];
	rvl_chain_search(k->be->board, &form, &best);
	parts.cut = cuts->c + best.n;
	rvl_chain_search_parts(k->be->board, &form, &parts);
	cuts->n = best.n + parts.n;
}

static void use(const struct keeper *k, const struct group *g, const struct rvl_chain *c)
{
	rvl_chain_use(c, k->l + g->first, k->ring + g->first);
	limit(k, g);
}

/* ---- the cost ---- */

/* Of the layers of groups [@first, @last], or of all where a change has an effect on all. */
static int cost_of(const struct keeper *k, uint32_t first, uint32_t last, uint64_t *cost)
{
	uint32_t a = k->group[first].first, end = past(&k->group[last]);

	if (k->whole) {
		a = 0;
		end = k->n;
	}
	return rvl_cost_layers(k->be, k->l + a, end - a, cost);
}

static uint32_t after(const struct keeper *k, uint32_t g)
{
	return rvl_min(g + 1, k->groups - 1);
}

/* Leaves the cut of a group as it is, but for buffers of what is kept; false if it does not fit. */
static bool keep_cut(const struct keeper *k, const struct group *g)
{
	int64_t words = 0;

	limit(k, g);
	for (uint32_t i = g->first; i < past(g); i++) {
		struct rvl_layer *l = k->l[i];

		if (l->from)
			l->t.in_slots = l->t.in_ring = 0;
		if (l->b_from)
			l->t.b_slots = 0;
		if (l->to)
			l->t.out_slots = 0;
		words += rvl_layer_words(k->be->board, l).mem[RIVULET_MEM_INP];
		words += rvl_continues(l) ? rvl_ring_words(l->to) : 0;
	}
	return words <= g->hi - g->lo && in_place_works(k, g);
}

/* Cuts group @g anew; *cost is RVL_TOO_LONG if no cut fits. */
static int cut_anew(struct keeper *k, uint32_t g, uint64_t *cost)
{
	const struct group *now = &k->group[g];
	struct cuts *cuts = calloc(1, sizeof(*cuts));
	uint32_t best = 0;
	int rc = cuts ? 0 : -ENOMEM;

	*cost = RVL_TOO_LONG;
	if (rc)
		return rc;
	if (now->n == 1)
		cut_single(k, now, cuts);
	else
		cut_cascade(k, now, cuts);
	for (uint32_t i = 0; i < cuts->n && !rc; i++) {
		uint64_t time;

		use(k, now, &cuts->c[i]);
		if (!in_place_works(k, now))
			continue;
		rc = cost_of(k, g ? g - 1 : 0, g, &time);
		if (rc || time >= *cost)
			continue;
		*cost = time;
		best = i;
	}
	if (!rc && *cost != RVL_TOO_LONG)
		use(k, now, &cuts->c[best]);
	free(cuts);
	return rc;
}

/* ---- decisions ---- */

/* Only the layers of groups [@first, @last] change until restore(). */
static int save(struct keeper *k, uint32_t first, uint32_t last)
{
	uint32_t from = k->group[first].first, n = past(&k->group[last]) - from;

	if (n > k->room) {
		rvl_scratch_free(k->choice);
		rvl_scratch_free(k->rings);
		k->choice = rvl_scratch(k->be->g->arena, n, sizeof(*k->choice));
		k->rings = rvl_scratch(k->be->g->arena, n, sizeof(*k->rings));
		k->room = k->choice && k->rings ? n : 0;
	}
	if (n > k->room)
		return -ENOMEM;
	k->saved = from;
	k->past_saved = from + n;
	rvl_choices_of(k->l + from, n, k->choice);
	memcpy(k->rings, k->ring + from, n * sizeof(*k->rings));
	memcpy(k->before, k->group, k->groups * sizeof(*k->group));
	k->groups_before = k->groups;
	return 0;
}

static void restore(struct keeper *k)
{
	uint32_t n = k->past_saved - k->saved;

	rvl_choices_use(k->l + k->saved, n, k->choice);
	memcpy(k->ring + k->saved, k->rings, n * sizeof(*k->rings));
	k->groups = k->groups_before;
	memcpy(k->group, k->before, k->groups * sizeof(*k->group));
}

/* ---- other divisions ---- */

/* Group @g and the next one as one cascade, if that costs less: then *taken is true. */
static int try_merge(struct keeper *k, uint32_t g, bool *taken)
{
	struct group *a = &k->group[g];
	uint32_t first = g ? g - 1 : 0;
	uint64_t before, cost;
	int rc;

	*taken = false;
	if (g + 1 == k->groups || a->n + a[1].n > RVL_CHAIN || !k->l[a->first]->mode ||
	    !rvl_linked(k->l[past(a) - 1], k->l[past(a)]))
		return 0;
	rc = cost_of(k, first, after(k, g + 1), &before);
	if (!rc)
		rc = save(k, g, g + 1);
	if (rc)
		return rc;
	a->n += a[1].n;
	memmove(a + 1, a + 2, (k->groups - g - 2) * sizeof(*a));
	k->groups--;
	rc = cut_anew(k, g, &cost);
	if (!rc && cost != RVL_TOO_LONG)
		rc = cost_of(k, first, after(k, g), &cost);
	*taken = !rc && cost < before;
	if (!*taken)
		restore(k);
	return rc;
}

/* Each layer of group @g by itself, if that costs less. */
static int try_split(struct keeper *k, uint32_t g, bool *taken)
{
	struct group *a = &k->group[g];
	uint32_t first = g ? g - 1 : 0, n = a->n;
	uint64_t before, cost;
	int rc;

	*taken = false;
	if (n == 1)
		return 0;
	rc = cost_of(k, first, after(k, g), &before);
	if (!rc)
		rc = save(k, g, g);
	if (rc)
		return rc;
	memmove(a + n, a + 1, (k->groups - g - 1) * sizeof(*a));
	k->groups += n - 1;
	for (uint32_t i = 0; i < n; i++) {
		rvl_choice_use(k->l[a->first + i], &k->alone[a->first + i]);
		a[i] = (struct group){ .first = a->first + i, .n = 1, .hi = a->hi };
		limit(k, &a[i]);
	}
	rc = cost_of(k, first, after(k, g + n - 1), &cost);
	*taken = !rc && cost < before;
	if (!*taken)
		restore(k);
	return rc;
}

/* The layers of group @g as two groups, of which the first has @n layers, if that costs less. */
static int try_part(struct keeper *k, uint32_t g, uint32_t n, bool *taken)
{
	struct group *a = &k->group[g];
	uint64_t before, cost = 0, rest = 0;
	int rc;

	if (a->n - n > 1 && !k->l[a->first + n]->mode) /* a cascade begins with a product */
		return 0;
	rc = cost_of(k, g, g, &before);
	if (!rc)
		rc = save(k, g, g);
	if (rc)
		return rc;
	memmove(a + 2, a + 1, (k->groups - g - 1) * sizeof(*a));
	k->groups++;
	a[1] = (struct group){ .first = a->first + n, .n = a->n - n, .hi = a->hi };
	a->n = n;
	for (uint32_t i = a->first; i < past(&a[1]); i++)
		rvl_choice_use(k->l[i], &k->alone[i]);
	limit(k, a);
	limit(k, &a[1]);
	if (a->n > 1)
		rc = cut_anew(k, g, &cost);
	if (!rc && cost != RVL_TOO_LONG && a[1].n > 1)
		rc = cut_anew(k, g + 1, &rest);
	if (!rc && cost != RVL_TOO_LONG && rest != RVL_TOO_LONG)
		rc = cost_of(k, g, g + 1, &cost);
	*taken = !rc && cost < before && rest != RVL_TOO_LONG;
	if (!*taken)
		restore(k);
	return rc;
}

/* Group @g as two groups, wherever that costs less. */
static int try_parts(struct keeper *k, uint32_t g, bool *taken)
{
	int rc = 0;

	*taken = false;
	for (uint32_t n = 1; n < k->group[g].n && !rc && !*taken; n++)
		rc = try_part(k, g, n, taken);
	return rc;
}

/*
 * The division into cascades was found with each layer by itself in front of a cascade. Here the
 * layers around are as they are.
 */
static int divide_again(struct keeper *k)
{
	bool merged, split;
	int rc = 0;

	for (uint32_t g = 0; g < k->groups && !rc; g += !merged) {
		rc = try_merge(k, g, &merged);
		if (!rc && !merged)
			rc = try_split(k, g, &split);
		if (!rc && !merged && !split && k->whole)
			rc = try_parts(k, g, &split);
		k->changes += !rc && (merged || split);
	}
	return rc;
}

/* ---- kept values ---- */

/* Lets all layers that use the value find it in INP. */
static void connect(const struct keeper *k, const struct kept *v)
{
	struct rvl_layer *maker = k->l[v->maker];
	const struct rvl_store *s = maker->out.s;

	maker->to = v->ring;
	for (uint32_t i = v->maker + 1; i < past(&k->group[v->last]); i++) {
		struct rvl_layer *l = k->l[i];

		if (l->in.s == s)
			l->from = v->ring;
		if (l->has_b && l->b.s == s)
			l->b_from = v->ring;
	}
}

static bool find_value(const struct keeper *k, uint32_t maker, struct kept *v)
{
	const struct rvl_layer *l = k->l[maker];
	const struct rivulet_board *b = k->be->board;
	uint32_t last = made_whole(k, l) ? last_reader(k, maker) : 0;

	if (!last)
		return false;
	*v->ring = (struct rvl_ring){ .rows = l->out.v.h,
				      .image = l->out.v.h,
				      .kept = true,
				      .width = width_of(k, &l->out),
				      .blocks = rvl_blocks_made(b, &l->out.v) };
	v->maker = maker;
	v->from = group_of(k, maker);
	v->last = group_of(k, last);
	return true;
}

/* Keeps the value if that costs less. */
static int try_value(struct keeper *k, const struct kept *v)
{
	uint32_t first = v->from ? v->from - 1 : 0, last = after(k, v->last);
	uint64_t before, cost = 0;
	int rc = cost_of(k, first, last, &before);

	if (!rc)
		rc = save(k, v->from, v->last);
	if (rc || !place(k, v))
		return rc;
	connect(k, v);
	for (uint32_t g = v->from; g <= v->last && !rc && cost != RVL_TOO_LONG; g++)
		if (!keep_cut(k, &k->group[g]))
			rc = cut_anew(k, g, &cost);
	if (!rc && cost != RVL_TOO_LONG)
		rc = cost_of(k, first, last, &cost);
	if (!rc && cost < before)
		k->value[k->values++] = *v;
	else
		restore(k);
	return rc;
}

static int try_values(struct keeper *k)
{
	int rc = 0;

	for (uint32_t i = 0; i < k->n && !rc; i++) {
		struct kept v = { .ring = rvl_arena_alloc(k->be->g->arena, sizeof(*v.ring)) };

		if (!v.ring)
			return -ENOMEM;
		if (find_value(k, i, &v))
			rc = try_value(k, &v);
	}
	return rc;
}

/* The groups, whose rings are moved to k->ring. */
static void list_groups(struct keeper *k)
{
	for (uint32_t i = 0; i < k->n; i = past(&k->group[k->groups++])) {
		struct group *g = &k->group[k->groups];

		*g = (struct group){ .first = i,
				     .hi = rivulet_mem_words(k->be->board, RIVULET_MEM_INP) };
		for (; k->l[i + g->n]->to; g->n++) {
			k->ring[i + g->n] = *k->l[i + g->n]->to;
			k->l[i + g->n]->to = k->l[i + g->n + 1]->from = &k->ring[i + g->n];
		}
		g->n++;
		limit(k, g);
	}
}

/* Results that took the places of operands. */
static uint32_t count_operands(const struct keeper *k)
{
	uint32_t n = 0;

	for (uint32_t g = 0; g < k->groups; g++) {
		const struct rvl_layer *first = k->l[k->group[g].first], *end = k->l[past(&k->group[g]) - 1];

		n += first->from && end->to && end->to->base == first->from->base &&
		     end->b_from != first->from;
	}
	return n;
}

int rvl_keep_values(struct rvl_backend *be, struct rvl_layer **l, const struct rvl_choice *alone,
		    uint32_t n, struct rvl_keep *keep)
{
	struct keeper k = { .be = be, .l = l, .alone = alone, .n = n, .operands = keep->operands, .whole = l[0]->early };
	int rc = -ENOMEM;

	k.ring = rvl_arena_array(be->g->arena, n, sizeof(*k.ring));
	k.group = rvl_scratch(be->g->arena, 2 * (size_t)n, sizeof(*k.group));
	k.value = rvl_scratch(be->g->arena, n, sizeof(*k.value));
	k.before = k.group + n;
	if (k.ring && k.group && k.value) {
		list_groups(&k);
		rc = divide_again(&k);
	}
	if (!rc)
		rc = try_values(&k);
	keep->changes = k.changes + k.values;
	keep->taken = rc ? 0 : count_operands(&k);
	rvl_scratch_free(k.group);
	rvl_scratch_free(k.value);
	rvl_scratch_free(k.choice);
	rvl_scratch_free(k.rings);
	return rc;
}
