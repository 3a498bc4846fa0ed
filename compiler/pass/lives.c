/* SPDX-License-Identifier: MIT */
#include "pass/lives.h"

#include <errno.h>
#include <stdlib.h>

#include "base/math.h"

/* A reshape's result counts as another name of its operand. */
static void find_uses(struct rvl_lives *l, const struct rvl_graph *g)
{
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		const struct rvl_node *n = g->nodes[i];
		bool name = rvl_op_renames(n->op) && !n->copies;

		for (uint32_t j = 0; j < n->n_in; j++) {
			uint32_t *last = n->in[j] ? &l->last_use[n->in[j]->id] : NULL;
			uint32_t use = name ? rvl_max(i, l->last_use[n->out[0]->id]) : i;

			if (last)
				*last = rvl_max(*last, use);
		}
	}
}

/* A store is used as long as its views; half of it as long as the views of half of it. */
static void find_stores(struct rvl_lives *l, const struct rvl_graph *g)
{
	for (uint32_t i = 0; i < g->n_tensors; i++)
		l->store[i] = (struct rvl_life) { l->last_use[i], l->last_use[i] };
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct rvl_tensor *t = g->tensors[i];

		if (t->base)
			rvl_life_extend(l, t->base, (uint64_t)rvl_max(rvl_tensor_bytes(t), 0),
					l->last_use[i]);
	}
}

int rvl_lives_new(struct rvl_lives *l, const struct rvl_graph *g, struct rvl_err *err)
{
	l->store = calloc(g->n_tensors + 1u, sizeof(*l->store));
	l->last_use = calloc(g->n_tensors + 1u, sizeof(*l->last_use));
	if (!l->store || !l->last_use)
		return rvl_fail(err, -ENOMEM, "no memory for views");
	find_uses(l, g);
	find_stores(l, g);
	return 0;
}

void rvl_lives_free(struct rvl_lives *l)
{
	free(l->store);
	free(l->last_use);
}

/* Bytes that the caller binds are there for the whole run. */
static bool in_arena(const struct rvl_tensor *root)
{
	return !root->is_input && !root->is_output && !root->holds_output && !root->data;
}

static bool is_half(const struct rvl_tensor *root, uint64_t bytes)
{
	return bytes >= (uint64_t)rvl_tensor_bytes(root) / 2;
}

bool rvl_life_fits(const struct rvl_lives *l, const struct rvl_tensor *root, uint64_t bytes,
		   uint32_t last)
{
	return !in_arena(root) || last <= l->store[root->id].half || is_half(root, bytes);
}

void rvl_life_extend(struct rvl_lives *l, const struct rvl_tensor *root, uint64_t bytes,
		     uint32_t last)
{
	struct rvl_life *s = &l->store[root->id];

	s->last = rvl_max(s->last, last);
	if (is_half(root, bytes))
		s->half = rvl_max(s->half, last);
}

bool rvl_life_fits_joined(const struct rvl_lives *l, const struct rvl_tensor *root,
			  const struct rvl_tensor *whole)
{
	const struct rvl_life *own = &l->store[root->id], *w = &l->store[whole->id];

	return !in_arena(whole) || own->last <= w->half ||
	       (is_half(whole, (uint64_t)rvl_tensor_bytes(root)) && own->last <= own->half);
}

void rvl_life_extend_joined(struct rvl_lives *l, const struct rvl_tensor *root,
			    const struct rvl_tensor *whole)
{
	struct rvl_life *w = &l->store[whole->id];

	w->last = rvl_max(w->last, l->store[root->id].last);
	if (is_half(whole, (uint64_t)rvl_tensor_bytes(root)))
		w->half = rvl_max(w->half, l->store[root->id].half);
}
