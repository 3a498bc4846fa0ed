/* SPDX-License-Identifier: MIT */
/* Which layers may leave a value in INP for one another, and what layers cost. */
#include "npu/backend.h"

#define BYTES_COST 64 /* bytes of the port that weigh as much as a cycle: they cost energy */

static void note_crossing(const struct rvl_backend *be, struct rvl_tensor *const *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (t[i] && be->store[t[i]->id])
			be->store[t[i]->id]->crosses = true;
}

void rvl_count_readers(const struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->n_layers; i++) {
		const struct rvl_layer *l = be->layer[i];

		l->in.s->readers++;
		if (l->has_b)
			l->b.s->readers++;
	}
	for (uint32_t i = 0; i < be->n_steps; i++) {
		note_crossing(be, be->step[i].read, be->step[i].nread);
		note_crossing(be, be->step[i].write, be->step[i].nwrite);
	}
}

/* Whether @b can read what @a makes in a ring; where @b has no product, rows of it are copied. */
static bool reads_ring(const struct rvl_layer *a, const struct rvl_layer *b)
{
	if (b->mode)
		return true;
	return a->mode && b->e.pool && !b->has_b && b->in.v.n == 1 && !b->in.flat && !a->e.pool &&
	       !a->has_b;
}

/* Whether @l can write its result to a ring; a pool, if it is not the first of the cascade. */
static bool makes_ring(const struct rvl_layer *l)
{
	return l->mode || (l->e.pool && !l->has_b && l->out.v.n == 1);
}

bool rvl_linked(const struct rvl_layer *a, const struct rvl_layer *b)
{
	const struct rvl_store *s = a->out.s;

	return makes_ring(a) && !a->has_bits && !a->out.v.wide && !(b->mode && b->has_bits) &&
	       !b->in.pixels &&
	       reads_ring(a, b) && b->in.s == s && s->blocked && s->place == RIVULET_PLACE_ARENA &&
	       !s->base && !s->has_parts && rvl_view_equal(&a->out.v, &b->in.v) &&
	       s->readers == 1 && !s->crosses;
}

double rvl_segment_joule(const struct rvl_backend *be, const struct rivulet_explain_segment *seg)
{
	struct rivulet_estimate_row row;
	struct rivulet_work w = { 0 };

	rvl_add_work(&w, seg);
	rvl_estimate_level(be->board, be->board->levels - 1, &w, &row);
	return row.joule;
}

bool rvl_segment_better(const struct rvl_backend *be, const struct rivulet_explain_segment *a,
			const struct rivulet_explain_segment *b)
{
	double ja, jb;

	if (a->cycles == RVL_TOO_LONG || b->cycles == RVL_TOO_LONG)
		return a->cycles < b->cycles;
	if (be->opt->measure == RIVULET_BY_CYCLES && a->cycles != b->cycles)
		return a->cycles < b->cycles;
	ja = rvl_segment_joule(be, a);
	jb = rvl_segment_joule(be, b);
	return ja < jb || (ja == jb && a->cycles < b->cycles);
}

uint64_t rvl_segment_cost(const struct rvl_backend *be, const struct rivulet_explain_segment *seg)
{
	if (seg->cycles == RVL_TOO_LONG)
		return RVL_TOO_LONG;
	if (be->opt->measure == RIVULET_BY_ENERGY)
		return (uint64_t)(rvl_segment_joule(be, seg) * 1e12);
	return seg->cycles + (seg->read_bytes + seg->write_bytes) / BYTES_COST;
}
