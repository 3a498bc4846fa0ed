/* SPDX-License-Identifier: MIT */
#include "graph/extreme.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Elements of an operator's inputs and results whose values are computed: they are sizes. */
#define MOST_VALUES 64
#define MOST_SCRATCH (1 << 16)

static const struct rvl_extreme *of(const struct rvl_tensor *t)
{
	return t && !t->data ? t->extreme : NULL;
}

bool rvl_extreme_reads(const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_in; i++)
		if (of(n->in[i]))
			return true;
	return false;
}

/* The call of @n in case @e; false where the shape of an input is not known. */
static bool call_at(const struct rvl_node *n, int e, struct rvl_call *c)
{
	rvl_node_call(n, c);
	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct rvl_extreme *x = of(n->in[i]);

		if (!x)
			continue;
		if (!x[e].shaped)
			return false;
		c->in[i].shape = x[e].shape;
		c->in[i].data = (void *)(uintptr_t)x[e].data;
	}
	return true;
}

/* Applies the shape rule; dimensions that the data of this operator decide are 0 in the case of it. */
static int infer_at(struct rvl_call *c, int e)
{
	int rc = rvl_op_infer(c);

	for (uint32_t i = 0; i < c->n_out && !rc && e == RVL_EXTREME_NONE; i++)
		for (int d = 0; d < c->out[i].shape.rank; d++)
			if (c->varies >> d & 1)
				c->out[i].shape.dim[d] = 0;
	return rc;
}

/* Results of the same rank get the larger one of both dimensions. */
static void widen(struct rvl_call *c, const struct rvl_call *other)
{
	for (uint32_t i = 0; i < c->n_out; i++) {
		const struct rvl_shape *s = &other->out[i].shape;
		struct rvl_shape *y = &c->out[i].shape;

		for (int d = 0; d < y->rank && s->rank == y->rank; d++)
			if (s->dim[d] > y->dim[d])
				y->dim[d] = s->dim[d];
	}
}

int rvl_extreme_infer(const struct rvl_node *n, struct rvl_call *c, int rc)
{
	struct rvl_call at;

	if (!call_at(n, RVL_EXTREME_MOST, &at) || infer_at(&at, RVL_EXTREME_MOST))
		return rc;
	*c = at;
	if (call_at(n, RVL_EXTREME_NONE, &at) && !infer_at(&at, RVL_EXTREME_NONE))
		widen(c, &at);
	c->bounded = true;
	return 0;
}

/* Whether the results are few values that follow from those of the inputs. */
static bool has_values(const struct rvl_call *c)
{
	int64_t n = 0;

	if (c->bounded || c->def->work || c->def->flags & RVL_OP_RANDOM)
		return false;
	for (uint32_t i = 0; i < c->n_in && !(c->def->flags & RVL_OP_NEEDS_NO_DATA); i++) {
		if (rvl_has(c, i) && !c->in[i].data)
			return false;
		n += rvl_has(c, i) ? rvl_count(&c->in[i]) : 0;
	}
	for (uint32_t i = 0; i < c->n_out; i++)
		n += rvl_wants(c, i) ? rvl_count(&c->out[i]) : 0;
	return n >= 0 && n <= MOST_VALUES;
}

/* Computes the results into the arena; their data stays NULL where the operator fails. */
static int compute(struct rvl_graph *g, struct rvl_call *c)
{
	int64_t scratch = c->def->scratch ? c->def->scratch(c) : 0;
	int rc = 0;

	if (scratch < 0 || scratch > MOST_SCRATCH)
		return 0;
	c->scratch = aligned_alloc(64, ((size_t)scratch + 64) / 64 * 64);
	for (uint32_t i = 0; i < c->n_out && !rc; i++) {
		int64_t n = rvl_wants(c, i) ? rvl_count(&c->out[i]) : 0;

		c->out[i].data = rvl_arena_alloc(g->arena, (size_t)n * 8 + 8);
		rc = c->out[i].data ? 0 : -ENOMEM;
	}
	if (!c->scratch)
		rc = -ENOMEM;
	if (!rc && c->def->run(c))
		for (uint32_t i = 0; i < c->n_out; i++)
			c->out[i].data = NULL;
	free(c->scratch);
	return rc;
}

static int note_at(struct rvl_graph *g, struct rvl_node *n, int e)
{
	struct rvl_call c;
	bool shaped = call_at(n, e, &c) && !infer_at(&c, e);
	int rc = shaped && has_values(&c) ? compute(g, &c) : 0;

	for (uint32_t i = 0; i < n->n_out && !rc; i++)
		if (n->out[i])
			n->out[i]->extreme[e] = (struct rvl_extreme) {
				.shaped = shaped, .shape = c.out[i].shape, .data = c.out[i].data,
			};
	return rc;
}

int rvl_extreme_note(struct rvl_graph *g, struct rvl_node *n)
{
	int rc = 0;

	for (uint32_t i = 0; i < n->n_out; i++) {
		if (!n->out[i])
			continue;
		n->out[i]->extreme = rvl_arena_array(g->arena, RVL_EXTREMES, sizeof(struct rvl_extreme));
		if (!n->out[i]->extreme)
			return -ENOMEM;
	}
	for (int e = 0; e < RVL_EXTREMES && !rc; e++)
		rc = note_at(g, n, e);
	return rc;
}
