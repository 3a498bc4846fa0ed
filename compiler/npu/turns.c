/* SPDX-License-Identifier: MIT */
/*
 * Whose tile of a cascade is emitted next. A tile can be emitted when the rows that it reads are made,
 * and when the rows that it makes overwrite none that are still read. Of several such tiles the one is
 * chosen that leaves the array and the ALU idle for the fewest cycles, by a clock of both and of the
 * halves of ACC between them. Tiles that keep the ALU busy for long alternate with those that keep the
 * array busy, so that neither waits for the other.
 */
#include "npu/stream.h"
#include "rivulet_cost.h"

#include <errno.h>
#include <stdlib.h>

#define NEVER INT64_MAX

struct member {
	struct rvl_emission *e;
	int64_t array, alu; /* cycles of a tile and group of output blocks, on average; array 0: ALU alone */
	bool halves;	    /* its accumulators lie in the halves of ACC in turn */
	int64_t *done;	    /* when the ALU has drained them, by number */
	/* Of a layer that takes rows of its window: */
	int64_t load;	/* cycles of the port for the weights of a chunk */
	int64_t slots;	/* for them */
	int64_t loaded; /* when those of the next chunk are there */
	int64_t *used;	/* when the array is done with them, by number */
};

struct rvl_turns {
	struct rvl_stream *s;
	uint32_t n;
	int64_t conv, alu; /* when they are idle */
	int64_t half[2];   /* when the halves of ACC are drained */
	uint32_t turn;
	struct member m[];
};

static int add_member(struct rvl_turns *t, struct rvl_emission *e)
{
	struct member *m = &t->m[t->n++];
	struct rvl_busy busy = rvl_layer_busy(e->s->board, e->l);
	int64_t count = e->count ? e->count : 1;

	m->e = e;
	m->halves = e->l->t.acc_slots > 1;
	m->done = calloc(count, sizeof(*m->done));
	m->array = busy.array / count;
	m->alu = busy.alu / count;
	if (!rvl_takes_taps(e->l))
		return m->done ? 0 : -ENOMEM;
	m->load = m->loaded = rvl_chunk_cycles(e->s->board, e->l);
	m->slots = e->l->t.wgt_slots;
	m->used = calloc(count, sizeof(*m->used));
	return m->done && m->used ? 0 : -ENOMEM;
}

struct rvl_turns *rvl_turns_free(struct rvl_turns *t)
{
	for (uint32_t i = 0; t && i < t->n; i++) {
		free(t->m[i].done);
		free(t->m[i].used);
	}
	free(t);
	return NULL;
}

struct rvl_turns *rvl_turns_new(struct rvl_emission *const *e, uint32_t n)
{
	struct rvl_turns *t = calloc(1, sizeof(*t) + n * sizeof(t->m[0]));
	int rc = t ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < n && !rc; i++)
		rc = add_member(t, e[i]);
	if (rc)
		return rvl_turns_free(t);
	t->s = e[0]->s;
	return t;
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

/* When the operand of the next tile of member @i is there; NEVER where it is not made yet. */
static int64_t operand_at(const struct rvl_turns *t, uint32_t i)
{
	const struct member *p = &t->m[i ? i - 1 : 0];
	const struct rvl_emission *e = t->m[i].e;
	int64_t rows[2];

	if (!i)
		return 0;
	e->reads(e, rows);
	if (p->e->made(p->e) < rows[1])
		return NEVER;
	return p->done[p->e->tiles_to(p->e, rows[1] - 1) - 1];
}

/* The cycle in which the array could begin the next tile of member @i, or NEVER. */
static int64_t start_of(const struct rvl_turns *t, uint32_t i)
{
	int64_t at;

	if (t->m[i].e->at == t->m[i].e->count || !has_room(t, i))
		return NEVER;
	at = operand_at(t, i);
	if (at == NEVER)
		return NEVER;
	at = rvl_max(rvl_max(t->conv, t->m[i].loaded), at);
	return t->m[i].halves ? rvl_max(t->half[t->turn % 2], at) : at;
}

/*
 * Where the last layer takes rows of its window, its weights pass through few slots: the port must
 * not wait for the array, so that tiles of later layers come first and only the array's time counts.
 */
static bool takes_taps(const struct rvl_turns *t)
{
	return t->m[t->n - 1].used;
}

/*
 * Cycles in which the array or the ALU has nothing to do if the next tile is one of member @i. The array does
 * not wait for a tile of the ALU alone.
 */
static int64_t idle_of(const struct rvl_turns *t, uint32_t i)
{
	int64_t at = start_of(t, i);

	if (!t->m[i].array && at != NEVER)
		return rvl_max(0, operand_at(t, i) - t->alu);
	if (takes_taps(t) && at != NEVER)
		return at - t->conv;
	return at == NEVER ? NEVER : at - t->conv + rvl_max(0, at + t->m[i].array - t->alu);
}

/* By which a tile lengthens what the ALU has to do behind the array, as it is best now. */
static int64_t merit(const struct rvl_turns *t, uint32_t i)
{
	int64_t gain = t->m[i].alu - t->m[i].array;

	if (takes_taps(t))
		return 0;
	return t->alu > t->conv ? -gain : gain;
}

static uint32_t choose(const struct rvl_turns *t)
{
	int64_t least = NEVER, best = INT64_MIN;
	uint32_t chosen = t->n;

	for (uint32_t i = t->n; i-- > 0;) {
		int64_t idle = idle_of(t, i), gain = merit(t, i);

		if (idle > least || (idle == least && gain <= best) || idle == NEVER)
			continue;
		least = idle;
		best = gain;
		chosen = i;
	}
	return chosen;
}

/* The port loads the weights of the chunk behind the one that is chosen, as soon as a slot is free. */
static void advance_port(struct member *m, int64_t now)
{
	int64_t next = m->e->at + 1;

	m->used[m->e->at] = now;
	m->loaded = rvl_max(m->loaded, next >= m->slots ? m->used[next - m->slots] : 0) + m->load;
}

static void advance_clock(struct rvl_turns *t, uint32_t i)
{
	struct member *m = &t->m[i];

	if (m->array) {
		t->conv = start_of(t, i) + m->array;
		t->alu = rvl_max(t->alu, t->conv) + m->alu;
		if (m->halves)
			t->half[t->turn++ % 2] = t->alu;
	} else {
		t->alu = rvl_max(t->alu, operand_at(t, i)) + m->alu;
	}
	m->done[m->e->at] = t->alu;
	if (m->used)
		advance_port(m, t->conv);
}

void rvl_turns_next(struct rvl_turns *t)
{
	uint32_t i = t->n > 1 ? choose(t) : 0;

	if (i == t->n) {
		t->s->rc = rvl_fail(t->s->err, -EINVAL,
				    "internal: layer %u needs more rows than its ring has",
				    t->m[i - 1].e->layer);
		return;
	}
	if (t->n > 1)
		advance_clock(t, i);
	rvl_emission_next(t->m[i].e);
}
