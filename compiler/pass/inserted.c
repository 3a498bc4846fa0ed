/* SPDX-License-Identifier: MIT */
#include "pass/inserted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int rvl_inserted_add(struct rvl_inserted_list *all, struct rvl_graph *g, struct rvl_node *n, uint32_t pos,
	       bool behind, struct rvl_err *err)
{
	if (all->n == all->cap) {
		uint32_t cap = all->cap ? 2 * all->cap : 16;
		struct rvl_inserted *list = realloc(all->list, cap * sizeof(*list));

		if (!list)
			return rvl_fail(err, -ENOMEM, "no memory for new nodes");
		all->list = list;
		all->cap = cap;
	}
	n->place = RVL_PLACE_CPU;
	n->segment = g->nodes[pos]->segment;
	all->list[all->n++] = (struct rvl_inserted) { n, pos, behind };
	return 0;
}

static int by_place(const void *x, const void *y)
{
	const struct rvl_inserted *a = x, *b = y;

	if (a->pos != b->pos)
		return a->pos < b->pos ? -1 : 1;
	if (a->behind != b->behind)
		return a->behind ? 1 : -1;
	return (a->node->id > b->node->id) - (a->node->id < b->node->id);
}

static void merge(const struct rvl_inserted_list *all, struct rvl_graph *g, uint32_t n_nodes,
		  struct rvl_node **order)
{
	uint32_t k = 0, n = 0;

	if (all->n)
		qsort(all->list, all->n, sizeof(*all->list), by_place);
	for (uint32_t i = 0; i < n_nodes; i++) {
		while (k < all->n && all->list[k].pos == i && !all->list[k].behind)
			order[n++] = all->list[k++].node;
		order[n++] = g->nodes[i];
		while (k < all->n && all->list[k].pos == i)
			order[n++] = all->list[k++].node;
	}
	memcpy(g->nodes, order, n * sizeof(*order));
	for (uint32_t s = 0; s < g->n_segs; s++)
		g->segs[s].count = 0;
	for (uint32_t i = 0; i < n && g->n_segs; i++) {
		struct rvl_segment *s = &g->segs[g->nodes[i]->segment];

		if (!s->count++)
			s->first = i;
	}
}

int rvl_inserted_place(struct rvl_inserted_list *all, struct rvl_graph *g, uint32_t n_nodes,
		   struct rvl_err *err)
{
	struct rvl_node **order = calloc(g->n_nodes + 1u, sizeof(*order));

	if (order)
		merge(all, g, n_nodes, order);
	free(order);
	free(all->list);
	*all = (struct rvl_inserted_list) { .list = NULL };
	return order ? 0 : rvl_fail(err, -ENOMEM, "no memory for new nodes");
}
