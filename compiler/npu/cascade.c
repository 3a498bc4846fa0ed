/* SPDX-License-Identifier: MIT */
/*
 * Cascades: a convolution whose result only the next one reads leaves it in INP. Rows of it lie in a
 * ring; the two layers take turns, so that neither STORE nor LOAD moves the value. Both share the
 * scratchpads, so their tiles are smaller: a cascade is taken only where the timeline of the pair is
 * shorter than without, and those of a step only where the timeline of the step is.
 */
#include "npu/backend.h"
#include "npu/stream.h"
#include "rivulet_footprint.h"

#include <errno.h>
#include <stdlib.h>

#define WORTH_TRYING 103 /* per cent of the array's time; below, there is nothing to gain */
#define TIMED	     3	 /* cuts of a pair whose timeline is compared: the best by the tiler's estimate */

/* How a pair is cut. */
struct cut {
	struct rvl_layer a, b;
	struct rvl_ring ring;
	uint64_t cost;
};

struct pair {
	struct rvl_backend *be;
	struct rvl_layer **l;		/* two */
	struct rvl_layer *form[2];	/* those of each layer; @forms of them */
	uint32_t forms[2];
	const struct rvl_layer *is[2];	/* the forms that are being tried */
	struct cut best[TIMED];
	uint32_t found;
};

/* ---- which layers ---- */

static uint32_t readers(const struct rvl_backend *be, const struct rvl_store *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < be->n_layers; i++) {
		const struct rvl_layer *l = be->layer[i];

		n += (l->in.s == s) + (l->has_b && l->b.s == s);
	}
	return n;
}

static bool crosses_steps(const struct rvl_backend *be, const struct rvl_store *s)
{
	for (uint32_t i = 0; i < be->n_steps; i++) {
		const struct rvl_bstep *t = &be->step[i];

		for (uint32_t j = 0; j < t->nread; j++)
			if (be->store[t->read[j]->id] == s)
				return true;
		for (uint32_t j = 0; j < t->nwrite; j++)
			if (be->store[t->write[j]->id] == s)
				return true;
	}
	return false;
}

/* Whether @b alone reads what @a makes, as the same image. */
static bool linked(const struct rvl_backend *be, const struct rvl_layer *a, const struct rvl_layer *b)
{
	const struct rvl_store *s = a->out.s;

	return a->mode && b->mode && !a->from && b->in.s == s && s->blocked &&
	       s->place == RIVULET_PLACE_ARENA && !s->base && !s->has_parts && rvl_view_equal(&a->out.v, &b->in.v) &&
	       readers(be, s) == 1 && !crosses_steps(be, s);
}

/* ---- cuts of a pair ---- */

/*
 * Rows that the ring must have: for each tile of @b, from the first that it reads to the last that
 * the producer's tiles make to cover it, and those of the tiles ahead.
 */
static int64_t rows_needed(const struct cut *c)
{
	int64_t th = c->a.t.th, most = 0;

	for (int64_t y = 0; y < c->b.out.v.h; y += c->b.t.th) {
		int64_t rows[2];

		rvl_rows_read(&c->b, y, rvl_min(c->b.t.th, c->b.out.v.h - y), rows);
		most = rvl_max(most, rvl_div_up(rows[1], th) * th - rows[0]);
	}
	return rvl_div_up(most, th) * th + c->ring.lead * th;
}

/* Rows of the value by which the consumer's tiles of @th rows advance. */
static int64_t rows_per_tile(const struct rvl_layer *b, int64_t th)
{
	int64_t rows = th * b->p.win.sy * (b->e.pool ? b->e.pwin.sy : 1);

	return rvl_clamp(rows, 1, b->in.v.h);
}

static void size_ring(const struct rivulet_board *b, struct cut *c)
{
	struct rvl_ring *r = &c->ring;

	r->width = c->a.out.v.w;
	r->blocks = rvl_div_up(c->a.p.m, b->tm) * (b->tm / b->tn);
	r->image = rvl_div_up(c->a.out.v.h, c->a.t.th) * c->a.t.th;
	r->rows = rvl_min(rows_needed(c), r->image * c->a.out.v.n);
}

static bool fits(const struct rivulet_board *b, const struct cut *c)
{
	struct rvl_words3 wa = rvl_layer_words(&c->a), wb = rvl_layer_words(&c->b);
	int64_t ring = rvl_ring_words(&c->ring);

	for (int m = 0; m < RIVULET_MEMS; m++)
		if (wa.mem[m] + wb.mem[m] + (m == RIVULET_MEM_INP ? ring : 0) >
		    rivulet_mem_words(b, m))
			return false;
	return true;
}

/* Keeps the cuts of the least estimated cost, in order. */
static void keep(struct pair *p, const struct cut *c)
{
	uint32_t at = p->found < TIMED ? p->found++ : TIMED - 1;

	if (at == TIMED - 1 && p->found == TIMED && p->best[at].cost &&
	    p->best[at].cost <= c->cost)
		return;
	for (; at && p->best[at - 1].cost > c->cost; at--)
		p->best[at] = p->best[at - 1];
	p->best[at] = *c;
}

/* Tiles of @th result rows; the consumer has first choice of the words that the ring leaves. */
static void try_cut(struct pair *p, int64_t th, int64_t lead, int64_t wgt_b)
{
	const struct rivulet_board *b = p->be->board;
	struct cut c = { .a = *p->is[0], .b = *p->is[1], .ring = { .lead = lead } };
	struct rvl_room room = { .inp = rivulet_mem_words(b, RIVULET_MEM_INP),
				 .wgt = wgt_b,
				 .acc = rivulet_mem_words(b, RIVULET_MEM_ACC),
				 .th = th };

	c.a.to = &c.ring;
	c.b.from = &c.ring;
	c.a.t.th = rows_per_tile(&c.b, th);
	c.b.t.th = th;
	size_ring(b, &c);
	room.inp = (room.inp - rvl_ring_words(&c.ring)) / 2;
	if (room.inp <= 0 || !rvl_tile_within(b, &c.b, &room))
		return;
	room.inp = rivulet_mem_words(b, RIVULET_MEM_INP) - rvl_ring_words(&c.ring) -
		   rvl_layer_words(&c.b).mem[RIVULET_MEM_INP];
	room.wgt = rivulet_mem_words(b, RIVULET_MEM_WGT) -
		   rvl_layer_words(&c.b).mem[RIVULET_MEM_WGT];
	room.th = c.a.t.th;
	if (!rvl_tile_within(b, &c.a, &room))
		return;
	size_ring(b, &c);
	if (!fits(b, &c))
		return;
	c.cost = c.a.t.cost + c.b.t.cost;
	keep(p, &c);
}

/* Heights from the whole image down; half, a quarter or three quarters of WGT for the consumer. */
static void search(struct pair *p)
{
	int64_t wgt = rivulet_mem_words(p->be->board, RIVULET_MEM_WGT);

	for (int64_t th = p->l[1]->out.v.h;; th = (th + 1) / 2) {
		for (int64_t part = 1; part <= 3; part++)
			try_cut(p, th, 1, wgt * part / 4);
		try_cut(p, th, 0, wgt / 2);
		if (th == 1)
			return;
	}
}

/* ---- decisions ---- */

static void link(struct rvl_layer **l, const struct cut *c, struct rvl_ring *ring)
{
	*ring = c->ring;
	*l[0] = c->a;
	*l[1] = c->b;
	l[0]->to = ring;
	l[1]->from = ring;
	for (int i = 0; i < 2; i++)
		rvl_note_form(l[i]);
}

/* The array's time of both layers: a lower bound for every schedule. */
static uint64_t array_time(const struct pair *p)
{
	return rvl_array_time(p->be->board, p->is[0]) + rvl_array_time(p->be->board, p->is[1]);
}

/* What was chosen for a pair. */
struct choice {
	struct rvl_layer l[2];
	struct rvl_ring ring;
	uint64_t cycles;
	bool taken;
};

/* Times the best cuts of the forms that are being tried; @c is the fastest so far. */
static int time_cuts(struct pair *p, struct rvl_ring *ring, struct choice *c)
{
	struct rivulet_explain_segment seg = { 0 };
	int rc = 0;

	p->found = 0;
	search(p);
	for (uint32_t i = 0; i < p->found && !rc; i++) {
		link(p->l, &p->best[i], ring);
		rc = rvl_time_layers(p->be, p->l, 2, &seg);
		if (!rc && seg.cycles < c->cycles)
			*c = (struct choice){ { *p->l[0], *p->l[1] }, *ring, seg.cycles, true };
	}
	return rc;
}

/*
 * Takes the cut whose timeline is the shortest, if it is shorter than without a cascade. All forms
 * of the layers are tried: what is fastest alone need not be so where both share the scratchpads.
 */
static int try_pair(struct pair *p)
{
	struct choice c = { .l = { *p->l[0], *p->l[1] } };
	struct rivulet_explain_segment seg = { 0 };
	struct rvl_ring *ring = rvl_arena_alloc(p->be->g->arena, sizeof(*ring));
	int rc = ring ? rvl_time_layers(p->be, p->l, 2, &seg) : -ENOMEM;

	c.cycles = seg.cycles;
	p->is[0] = &c.l[0];
	p->is[1] = &c.l[1];
	if (rc || (c.cycles != RVL_TOO_LONG && c.cycles * 100 <= array_time(p) * WORTH_TRYING))
		return rc;
	for (uint32_t i = 0; i < p->forms[0] * p->forms[1] && !rc; i++) {
		p->is[0] = &p->form[0][i / p->forms[1]];
		p->is[1] = &p->form[1][i % p->forms[1]];
		if (array_time(p) < c.cycles)
			rc = time_cuts(p, ring, &c);
	}
	*p->l[0] = c.l[0];
	*p->l[1] = c.l[1];
	*ring = c.ring;
	return rc;
}

static int try_at(struct rvl_backend *be, uint32_t first)
{
	struct pair p = { .be = be, .l = be->layer + first };
	struct rvl_layer *form = calloc((size_t)rvl_forms_most() * 2, sizeof(*form));
	int rc;

	if (!form)
		return -ENOMEM;
	for (uint32_t i = 0; i < 2; i++) {
		p.form[i] = form + i * rvl_forms_most();
		p.forms[i] = rvl_forms(be, &be->lowered[first + i], p.form[i]);
	}
	rc = try_pair(&p);
	free(form);
	return rc;
}

static int pairs_of(struct rvl_backend *be, const struct rvl_bstep *step, uint32_t *taken)
{
	int rc = 0;

	for (uint32_t i = step->layer0; i + 1 < step->layer0 + step->layers && !rc; i++) {
		if (!linked(be, be->layer[i], be->layer[i + 1]))
			continue;
		rc = try_at(be, i);
		*taken += !!be->layer[i]->to;
	}
	return rc;
}

/* Without a cascade the layers are as they were. */
static int compare_step(struct rvl_backend *be, struct rvl_bstep *step,
			const struct rvl_layer *before, uint32_t taken)
{
	struct rvl_layer **l = be->layer + step->layer0;
	struct rivulet_explain_segment with = { 0 }, without = { 0 };
	struct rvl_layer *plain = malloc(step->layers * sizeof(*plain));
	int rc = plain ? rvl_time_layers(be, l, step->layers, &with) : -ENOMEM;

	for (uint32_t i = 0; i < step->layers && !rc; i++) {
		plain[i] = *l[i];
		*l[i] = before[i];
	}
	if (!rc)
		rc = rvl_time_layers(be, l, step->layers, &without);
	if (!rc && with.cycles < without.cycles) {
		for (uint32_t i = 0; i < step->layers; i++)
			*l[i] = plain[i];
		be->cascades += taken;
		if (without.cycles != RVL_TOO_LONG)
			be->cascade_bytes +=
				(int64_t)(without.read_bytes + without.write_bytes) -
				(int64_t)(with.read_bytes + with.write_bytes);
	}
	free(plain);
	return rc;
}

static int cascade_step(struct rvl_backend *be, struct rvl_bstep *step)
{
	struct rvl_layer **l = be->layer + step->layer0;
	struct rvl_layer *before = malloc(step->layers * sizeof(*before));
	uint32_t taken = 0;
	int rc = before ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < step->layers && !rc; i++)
		before[i] = *l[i];
	if (!rc)
		rc = pairs_of(be, step, &taken);
	if (!rc && taken)
		rc = compare_step(be, step, before, taken);
	free(before);
	return rc;
}

static void note_layers(struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->n_layers; i++) {
		struct rvl_layer *l = be->layer[i];
		const char *what = l->to ? "result stays in INP" : "operand stays in INP";

		if (l->to || l->from)
			l->note = l->note ? rvl_graph_printf(be->g, "%s; %s", l->note, what) : what;
	}
}

int rvl_cascade(struct rvl_backend *be)
{
	int rc = 0;

	/* With stochastic layers there is no cascade, for the reason that rvl_choose_layers() has. */
	if (be->opt->no_cascade || be->opt->stochastic || !be->board)
		return 0;
	for (uint32_t i = 0; i < be->n_steps && !rc; i++)
		if (be->step[i].npu)
			rc = cascade_step(be, &be->step[i]);
	if (!rc)
		note_layers(be);
	return rc;
}
