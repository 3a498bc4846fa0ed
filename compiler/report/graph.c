/* SPDX-License-Identifier: MIT */
/*
 * The graph, drawn in ranks: the rank of a row is the length of the longest path to it; a row that
 * depends on no other is one rank above the first row that reads it. Within a rank the rows are in the
 * order of the mean place of the rows that they depend on, those that depend on none last, from the
 * left edge on, where a browser begins to show a drawing that is wider than its window.
 */
#include <errno.h>
#include <stdlib.h>

#include "report/draw.h"

#define BOX_W 216
#define BOX_H 40
#define GAP_X 20
#define GAP_Y 26
#define LAST  1e9 /* key of rows at the end of their rank */
#define SIDE  90 /* on the right of the boxes, for edges that skip ranks */

struct node {
	uint32_t row, rank;
	double key;  /* mean place of the rows before */
	double x, y; /* upper left corner */
};

struct graph {
	const struct rivulet_explain *e;
	struct node *node;   /* by row */
	struct node **order; /* by rank, then place */
	double width, height;
};

static void find_ranks(struct graph *g)
{
	/* Rows are in the order of execution: every edge leads to a later row. */
	for (uint32_t i = 0; i < g->e->n_edges; i++) {
		struct node *to = &g->node[g->e->edges[i].to];
		uint32_t least = g->node[g->e->edges[i].from].rank + 1;

		if (to->rank < least)
			to->rank = least;
	}
}

/* Moves the rows that depend on no other down to their first reader: the rest has its final ranks. */
static int lower_sources(struct graph *g)
{
	uint32_t *first = calloc(g->e->n_rows + 1, sizeof(*first));

	if (!first)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->e->n_edges; i++) {
		const struct rivulet_explain_edge *edge = &g->e->edges[i];
		uint32_t rank = g->node[edge->to].rank;

		if (!first[edge->from] || rank < first[edge->from])
			first[edge->from] = rank;
	}
	/* A row has a rank above 0 exactly if it depends on another. */
	for (uint32_t i = 0; i < g->e->n_rows; i++)
		if (g->node[i].rank == 0 && first[i] > 1) {
			g->node[i].rank = first[i] - 1;
			g->node[i].key = LAST;
		}
	free(first);
	return 0;
}

static int by_rank(const void *a, const void *b)
{
	const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->key < y->key || x->key > y->key)
		return x->key < y->key ? -1 : 1;
	return x->row < y->row ? -1 : 1;
}

static int by_edge_end(const void *a, const void *b)
{
	const struct rivulet_explain_edge *x = a, *y = b;

	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* One rank from order[@first] on, @n nodes. */
static void place_rank(struct graph *g, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct node *v = g->order[first + i];

		v->x = GAP_X + i * (double)(BOX_W + GAP_X);
		v->y = GAP_Y + v->rank * (double)(BOX_H + GAP_Y);
	}
}

static uint32_t rank_size(const struct graph *g, uint32_t first)
{
	uint32_t n = 0;

	while (first + n < g->e->n_rows && g->order[first + n]->rank == g->order[first]->rank)
		n++;
	return n;
}

/* The keys of a rank depend on the places of the ranks above it. */
static void find_keys(struct graph *g, const struct rivulet_explain_edge *edges, uint32_t rank)
{
	for (uint32_t i = 0, n; i < g->e->n_edges; i += n) {
		struct node *to = &g->node[edges[i].to];
		double sum = 0;

		for (n = 0; i + n < g->e->n_edges && edges[i + n].to == edges[i].to; n++)
			sum += g->node[edges[i + n].from].x;
		if (to->rank == rank)
			to->key = sum / n;
	}
}

static void place(struct graph *g, const struct rivulet_explain_edge *edges)
{
	uint32_t widest = 1, n;

	for (uint32_t i = 0; i < g->e->n_rows; i += n) {
		n = rank_size(g, i);
		widest = n > widest ? n : widest;
		g->height = g->order[i]->rank + 1;
	}
	g->width = widest * (double)(BOX_W + GAP_X) + GAP_X + SIDE;
	g->height = g->height * (BOX_H + GAP_Y) + GAP_Y;
	for (uint32_t i = 0; i < g->e->n_rows; i += n) {
		n = rank_size(g, i);
		/* A rank of one node has nothing to sort; most ranks are such. */
		if (n > 1 && n < 64)
			find_keys(g, edges, g->order[i]->rank);
		qsort(g->order + i, n, sizeof(*g->order), by_rank);
		place_rank(g, i, n);
	}
}

static void draw_edge(struct rvl_out *o, const struct node *a, const struct node *b)
{
	double x1 = a->x + BOX_W / 2., y1 = a->y + BOX_H, x2 = b->x + BOX_W / 2., y2 = b->y;
	double side = (a->x > b->x ? a->x : b->x) + BOX_W + 16 +
		      4. * (b->rank - a->rank > 16 ? 16 : b->rank - a->rank);

	if (b->rank == a->rank + 1)
		rvl_put(o, "<path d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f\"/>\n", x1, y1, x1,
			y1 + GAP_Y / 2., x2, y2 - GAP_Y / 2., x2, y2);
	else
		rvl_put(o, "<path d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f\"/>\n", a->x + BOX_W,
			a->y + BOX_H / 2., side, a->y + BOX_H / 2., side, b->y + BOX_H / 2.,
			b->x + BOX_W, b->y + BOX_H / 2.);
}

static void draw_node(struct rvl_out *o, const struct rivulet_explain *e, const struct node *v)
{
	const struct rivulet_explain_row *r = &e->rows[v->row];

	rvl_put(o,
		"<g class=\"%s\"><rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"5\">",
		rvl_row_class(r), v->x, v->y, BOX_W, BOX_H);
	rvl_xml_row_title(o, r);
	rvl_put(o, "</rect><text x=\"%.0f\" y=\"%.0f\">", v->x + 8, v->y + 16);
	rvl_xml_text(o, *r->node ? r->node : "(no name)", 28);
	rvl_put(o, "</text><text class=\"small\" x=\"%.0f\" y=\"%.0f\">step %u: ", v->x + 8,
		v->y + 32, r->step);
	rvl_xml_text(o, r->op, 16);
	rvl_put(o, " ");
	rvl_xml_text(o, r->out, 18);
	rvl_put(o, "</text></g>\n");
}

static void draw(struct rvl_out *o, const struct graph *g)
{
	rvl_put(o,
		"<svg class=\"graph\" xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		"height=\"%.0f\" "
		"role=\"img\" aria-label=\"the graph\">\n<g class=\"edges\">\n",
		g->width, g->height);
	for (uint32_t i = 0; i < g->e->n_edges; i++)
		draw_edge(o, &g->node[g->e->edges[i].from], &g->node[g->e->edges[i].to]);
	rvl_put(o, "</g>\n");
	for (uint32_t i = 0; i < g->e->n_rows; i++)
		draw_node(o, g->e, &g->node[i]);
	rvl_put(o, "</svg>\n");
}

int rvl_draw_graph(struct rvl_out *o, const struct rivulet_explain *e)
{
	struct rivulet_explain_edge *edges = calloc(e->n_edges + 1, sizeof(*edges));
	struct graph g = { .e = e,
			   .node = calloc(e->n_rows + 1, sizeof(*g.node)),
			   .order = calloc(e->n_rows + 1, sizeof(*g.order)) };
	int rc = edges && g.node && g.order ? 0 : -ENOMEM;

	if (!rc) {
		for (uint32_t i = 0; i < e->n_edges; i++)
			edges[i] = e->edges[i];
		qsort(edges, e->n_edges, sizeof(*edges), by_edge_end);
		for (uint32_t i = 0; i < e->n_rows; i++) {
			g.node[i].row = i;
			g.order[i] = &g.node[i];
		}
		find_ranks(&g);
		rc = lower_sources(&g);
	}
	if (!rc) {
		qsort(g.order, e->n_rows, sizeof(*g.order), by_rank);
		place(&g, edges);
		draw(o, &g);
	}
	free(edges);
	free(g.node);
	free(g.order);
	return rc;
}
