/* SPDX-License-Identifier: MIT */
/*
 * Changes to a step that is decided, one group of layers after the other, each of which is kept if the
 * timeline is shorter for it. The layers of a cascade look ahead when they take turns (order.c).
 *
 * In a step of few layers, whose weights load early, each group is also cut again as the whole step is then
 * fastest: from more cuts than the estimate prefers, with pools that are made row by row, and with rings
 * that hold whole values.
 */
#include "npu/backend.h"
#include "npu/chain.h"
#include "npu/choice.h"
#include "rivulet_footprint.h"

#include <errno.h>

#define CUTS	   8 /* of a kind whose timelines are compared: the best by the estimate */
#define KINDS	   4 /* of cuts: pools row by row or not, rings of whole values or not */
#define IDLE_SHARE 128 /* of the cycles of a cascade, in which the array is idle; below, nothing is tried */
#define SWEEPS	   4 /* over the groups of a step of few layers, while something changes */
#define MOST_WORK  (1u << 19) /* instructions of the streams that are timed for a step; beyond, no more cuts are tried */

struct refiner {
	struct rvl_backend *be;
	struct rvl_layer **l;
	uint32_t n, changes;
	struct rvl_ring *ring; /* of the layers that were cut again, by their number */
	uint64_t work;	       /* instructions of the streams that were timed */
};

/* Layers that take turns, or one layer. */
struct group {
	uint32_t first, n;
};

static struct group group_from(const struct refiner *r, uint32_t first)
{
	struct group g = { first, 1 };

	while (rvl_continues(r->l[first + g.n - 1]))
		g.n++;
	return g;
}

/* Where weights load early, a change costs what the step costs with it, else what the group alone costs. */
static int time_of(struct refiner *r, const struct group *g, struct rivulet_explain_segment *seg)
{
	bool all = r->l[0]->early;
	int rc;

	*seg = (struct rivulet_explain_segment){ 0 };
	rc = rvl_time_layers(r->be, r->l + (all ? 0 : g->first), all ? r->n : g->n, seg);
	r->work += seg->instructions;
	return rc;
}

static int cost_of(struct refiner *r, const struct group *g, uint64_t *cost)
{
	struct rivulet_explain_segment seg;
	int rc = time_of(r, g, &seg);

	*cost = rvl_segment_cost(r->be, &seg);
	return rc;
}

static int try_look(struct refiner *r, const struct group *g)
{
	struct rvl_layer *l = r->l[g->first];
	struct rivulet_explain_segment before, with;
	int rc = 0;

	if (g->n == 1 || l->look)
		return 0;
	rc = time_of(r, g, &before);
	if (rc || (before.cycles - before.busy[RIVULET_Q_CONV]) * IDLE_SHARE < before.cycles)
		return rc;
	l->look = true;
	rc = time_of(r, g, &with);
	l->look = !rc && rvl_segment_better(r->be, &with, &before);
	r->changes += l->look;
	return rc;
}

/* ---- other cuts ---- */

/* Of a layer by itself, also those that compute a reduction in one piece. */
static uint32_t cuts_of_single(const struct refiner *r, const struct group *g, struct rvl_chain *c)
{
	const struct rivulet_board *b = r->be->board;
	struct rvl_layer form = *r->l[g->first];
	struct rvl_room room = { .inp = form.inp[1] ? form.inp[1] - form.inp[0] :
						      rivulet_mem_words(b, RIVULET_MEM_INP),
				 .wgt = rvl_wgt_words(b),
				 .acc = rivulet_mem_words(b, RIVULET_MEM_ACC),
				 .th = INT16_MAX };
	struct rvl_tiling t[2 * CUTS];
	uint32_t n;

	if (!form.mode)
		return 0;
	n = rvl_cuts(b, &form, &room, t, CUTS);
	room.whole = true;
	n += rvl_cuts(b, &form, &room, t + n, CUTS);
	for (uint32_t i = 0; i < n; i++) {
		c[i] = (struct rvl_chain){ .n = 1 };
		c[i].l[0] = form;
		c[i].l[0].t = t[i];
	}
	return n;
}

static uint32_t cuts_of_cascade(const struct refiner *r, const struct group *g, struct rvl_chain *c)
{
	const int64_t *inp = r->l[g->first]->inp;
	uint32_t n = 0;

	for (uint32_t kind = 0; kind < KINDS; kind++) {
		struct rvl_chain_cuts cuts = { .cut = c + n, .most = CUTS };
		struct rvl_chain form = {
			.n = g->n, .inp = inp[1] - inp[0], .fine = kind & 1, .deep = kind & 2
		};

		for (uint32_t i = 0; i < g->n; i++)
			form.l[i] = *r->l[g->first + i];
		rvl_chain_search(r->be->board, &form, &cuts);
		n += cuts.n;
	}
	return n;
}

/* Takes the cut @c if it costs less than *least. */
static int try_cut(struct refiner *r, const struct group *g, const struct rvl_chain *c, uint64_t *least)
{
	struct rvl_layer **l = r->l + g->first;
	struct rvl_choice before[RVL_CHAIN];
	struct rvl_ring ring[RVL_CHAIN];
	uint64_t cost;
	int rc;

	rvl_choices_of(l, g->n, before);
	rvl_chain_use(c, l, ring);
	rc = cost_of(r, g, &cost);
	if (rc || cost >= *least) {
		rvl_choices_use(l, g->n, before);
		return rc;
	}
	rvl_chain_use(c, l, r->ring + g->first);
	*least = cost;
	r->changes++;
	return 0;
}

/*
 * Whether the group's result takes the place of what its first layer reads, which the order of its rows
 * must allow: keep.c.
 */
static bool is_in_place(const struct refiner *r, const struct group *g)
{
	const struct rvl_ring *from = r->l[g->first]->from, *to = r->l[g->first + g->n - 1]->to;

	return from && to && from->base == to->base;
}

static int try_cuts(struct refiner *r, const struct group *g)
{
	struct rvl_chain *c;
	uint64_t least;
	uint32_t n;
	int rc;

	if (is_in_place(r, g) || r->work >= MOST_WORK)
		return 0;
	c = rvl_scratch(r->be->g->arena, KINDS * CUTS, sizeof(*c));
	rc = c ? cost_of(r, g, &least) : -ENOMEM;
	n = rc ? 0 : g->n == 1 ? cuts_of_single(r, g, c) : cuts_of_cascade(r, g, c);
	for (uint32_t i = 0; i < n && r->work < MOST_WORK && !rc; i++) {
		rc = try_cut(r, g, &c[i], &least);
		c[i].l[0].look = !c[i].l[0].look;
		if (!rc && g->n > 1)
			rc = try_cut(r, g, &c[i], &least);
	}
	rvl_scratch_free(c);
	return rc;
}

/* ---- all groups ---- */

static int sweep(struct refiner *r)
{
	struct group g;
	int rc = 0;

	for (uint32_t i = 0; i < r->n && !rc; i += g.n) {
		g = group_from(r, i);
		rc = try_look(r, &g);
		if (!rc && r->l[0]->early)
			rc = try_cuts(r, &g);
	}
	return rc;
}

static int sweeps(struct refiner *r)
{
	uint32_t before = 0;
	int rc;

	if (r->l[0]->early) {
		r->ring = rvl_arena_array(r->be->g->arena, r->n, sizeof(*r->ring));
		if (!r->ring)
			return -ENOMEM;
	}
	rc = sweep(r);
	for (uint32_t i = 1; i < SWEEPS && r->l[0]->early && r->changes > before && !rc; i++) {
		before = r->changes;
		rc = sweep(r);
	}
	return rc;
}

int rvl_refine(struct rvl_backend *be, struct rvl_layer **l, uint32_t n)
{
	struct refiner r = { .be = be, .l = l, .n = n };
	struct rvl_choice *before = rvl_scratch(be->g->arena, n, sizeof(*before));
	struct rivulet_explain_segment with = { 0 }, without = { 0 };
	int rc = before ? rvl_time_layers(be, l, n, &without) : -ENOMEM;

	if (!rc) {
		rvl_choices_of(l, n, before);
		rc = sweeps(&r);
	}
	if (!rc && r.changes)
		rc = rvl_time_layers(be, l, n, &with);
	if (!rc && r.changes && !rvl_segment_better(be, &with, &without))
		rvl_choices_use(l, n, before);
	rvl_scratch_free(before);
	return rc;
}
