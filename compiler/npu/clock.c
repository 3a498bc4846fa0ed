/* SPDX-License-Identifier: MIT */
/*
 * The clock of layers that take turns: when the array could begin the next tile of each, and what a tile
 * takes of the engines. A tile can be emitted when the rows that it reads are made, and when the rows that
 * it makes overwrite none that are still read.
 */
#include "npu/clock.h"
#include "rivulet_cost.h"

/* What the next tile takes of the cycles of all: the last tiles of an image may have fewer rows. */
static void next_tile(struct rvl_turn *m)
{
	int64_t strips = m->tall ? rvl_div_up(m->rows, m->tall) : 1;
	int64_t images = m->tall ? m->e->l->out.v.n : 1;
	int64_t tiles = rvl_max((int64_t)m->e->count / (images * strips), 1); /* of a strip of rows */
	int64_t at = (int64_t)m->e->at / tiles % strips * m->tall;
	int64_t rows = m->tall ? rvl_min(m->tall, m->rows - at) : 1;
	int64_t all = tiles * images * rvl_max(m->rows, 1);

	m->array = m->sum.array * rows / all;
	m->alu = m->sum.alu * rows / all;
}

/* Room for a time of each tile of @e. */
static int64_t *take_log(struct rvl_turns *t, const struct rvl_emission *e)
{
	int64_t *log = t->log + t->logged;

	t->logged += rvl_max(e->count, 1);
	return log;
}

void rvl_clock_add(struct rvl_turns *t, struct rvl_emission *e, bool exact)
{
	struct rvl_turn *m = &t->m[t->n++];

	m->e = e;
	m->halves = e->l->t.acc_slots > 1;
	m->done = take_log(t, e);
	m->sum = rvl_layer_busy(e->s->board, e->l);
	if (exact && !rvl_takes_parts(e->l)) {
		m->tall = e->l->t.th;
		m->rows = rvl_result_rows(e->l);
	}
	next_tile(m);
	if (!rvl_takes_taps(e->l) && !(exact && rvl_takes_blocks(e->l)))
		return;
	m->load = m->loaded = rvl_chunk_cycles(e->s->board, e->l);
	m->slots = e->l->t.wgt_slots;
	m->used = take_log(t, e);
}

/*
 * Whether the next tile of the last member replaces only rows of a kept value that the first member
 * has read; the sum may take the place of its second operand.
 */
static bool replaces_read(const struct rvl_turns *t, const struct rvl_emission *e)
{
	const struct rvl_emission *first = t->m[0].e;
	int64_t rows[2];

	if (first->l->from->base != e->l->to->base || first->at == first->count)
		return true;
	first->reads(first, rows);
	return e->made(e) + e->l->t.th <= rows[0];
}

static bool has_room(const struct rvl_turns *t, uint32_t i)
{
	const struct rvl_emission *e = t->m[i].e, *reader;
	const struct rvl_ring *r = e->l->to;
	int64_t rows[2];

	if (!r || r->chunk || r->taps)
		return true;
	if (r->kept)
		return !t->m[0].e->l->from || replaces_read(t, e);
	reader = t->m[i + 1].e;
	if (reader->at == reader->count)
		return true;
	reader->reads(reader, rows);
	return e->made(e) + e->l->t.th - r->rows <= rows[0];
}

int64_t rvl_clock_operand(const struct rvl_turns *t, uint32_t i)
{
	const struct rvl_turn *p = &t->m[i ? i - 1 : 0];
	const struct rvl_emission *e = t->m[i].e;
	int64_t rows[2];

	if (!i)
		return 0;
	e->reads(e, rows);
	if (p->e->made(p->e) < rows[1])
		return RVL_NEVER;
	return p->done[p->e->tiles_to(p->e, rows[1] - 1) - 1];
}

int64_t rvl_clock_start(const struct rvl_turns *t, uint32_t i)
{
	int64_t at;

	if (t->m[i].e->at == t->m[i].e->count || !has_room(t, i))
		return RVL_NEVER;
	at = rvl_clock_operand(t, i);
	if (at == RVL_NEVER)
		return RVL_NEVER;
	at = rvl_max(rvl_max(t->conv, t->m[i].loaded), at);
	return t->m[i].halves ? rvl_max(t->half[t->turn % 2], at) : at;
}

/* The port loads the weights of the chunk behind the one that is chosen, as soon as a slot is free. */
static void advance_port(struct rvl_turn *m, int64_t now)
{
	int64_t next = m->e->at + 1;

	m->used[m->e->at] = now;
	m->loaded = rvl_max(m->loaded, next >= m->slots ? m->used[next - m->slots] : 0) + m->load;
}

static void advance(struct rvl_turns *t, uint32_t i)
{
	struct rvl_turn *m = &t->m[i];

	if (m->array) {
		t->conv = rvl_clock_start(t, i) + m->array;
		t->alu = rvl_max(t->alu, t->conv) + m->alu;
		if (m->halves)
			t->half[t->turn++ % 2] = t->alu;
	} else {
		t->alu = rvl_max(t->alu, rvl_clock_operand(t, i)) + m->alu;
	}
	m->done[m->e->at] = t->alu;
	if (m->used)
		advance_port(m, t->conv);
}

void rvl_clock_pass(struct rvl_turns *t, uint32_t i)
{
	advance(t, i);
	t->m[i].e->at++;
	next_tile(&t->m[i]);
}

void rvl_clock_emit(struct rvl_turns *t, uint32_t i)
{
	if (t->n > 1)
		advance(t, i);
	rvl_emission_next(t->m[i].e);
	next_tile(&t->m[i]);
}
