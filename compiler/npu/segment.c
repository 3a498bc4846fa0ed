/* SPDX-License-Identifier: MIT */
/*
 * The segment planner: which words of the scratchpads each layer of a step gets, and whose tile is
 * emitted next. Layers follow one another, each in buffers behind those of the layer before it, so
 * that the weights of the next layer load while this one computes. The layers of a cascade take
 * turns: a tile is emitted as soon as the rows that it reads are made.
 */
#include "npu/stream.h"
#include "rivulet_footprint.h"

#include <errno.h>
#include <stdlib.h>

/* Buffers are taken in a circle; what a layer takes at once is disjoint. */
struct pads {
	int64_t size, next;
};

struct segment {
	struct rvl_stream *s;
	struct pads pad[RIVULET_MEMS];
	struct rvl_emission **e; /* of the group of layers that takes turns */
	uint32_t n;
};

static int64_t take(struct segment *g, int mem, int64_t words)
{
	struct pads *p = &g->pad[mem];
	int64_t at = p->next + words <= p->size ? p->next : 0;

	if (words > p->size && !g->s->rc)
		g->s->rc = rvl_fail(g->s->err, -EINVAL,
				    "internal: layer %u needs %lld words of a scratchpad of %lld",
				    g->s->layer, (long long)words, (long long)p->size);
	p->next = at + words;
	return at;
}

/* Layers from @l on whose results stay in INP, and the one that ends the cascade. */
static uint32_t group_length(struct rvl_layer *const *l, uint32_t left)
{
	uint32_t n = 1;

	while (n < left && l[n - 1]->to)
		n++;
	return n;
}

/* Buffers of all layers of the group and of their rings. */
static void open_group(struct segment *g, struct rvl_layer *const *l, uint32_t first)
{
	struct rvl_words3 sum = { { 0 } }, at;

	for (uint32_t i = 0; i < g->n; i++) {
		struct rvl_words3 w = rvl_layer_words(l[i]);

		for (int m = 0; m < RIVULET_MEMS; m++)
			sum.mem[m] += w.mem[m];
		sum.mem[RIVULET_MEM_INP] += l[i]->to ? rvl_ring_words(l[i]->to) : 0;
	}
	g->s->layer = first;
	for (int m = 0; m < RIVULET_MEMS; m++)
		at.mem[m] = take(g, m, sum.mem[m]);
	for (uint32_t i = 0; i < g->n && !g->s->rc; i++) {
		struct rvl_words3 w = rvl_layer_words(l[i]);

		g->e[i] = rvl_emission_open(g->s, l[i], first + i, &at);
		for (int m = 0; m < RIVULET_MEMS; m++)
			at.mem[m] += w.mem[m];
		if (!l[i]->to)
			continue;
		l[i]->to->base = at.mem[RIVULET_MEM_INP];
		at.mem[RIVULET_MEM_INP] += rvl_ring_words(l[i]->to);
	}
}

static void advance(struct segment *g, uint32_t i);

/* Makes the rows that the next tile of layer @i reads, and those ahead that overwrite none of them. */
static void make_rows(struct segment *g, uint32_t i)
{
	struct rvl_emission *p = g->e[i - 1];
	const struct rvl_ring *r = p->l->to;
	int64_t rows[2], th = p->l->t.th;

	g->e[i]->reads(g->e[i], rows);
	while (p->at < p->count && !g->s->rc) {
		int64_t made = p->made(p);
		bool room = made + th - r->rows <= rows[0];

		if (made >= rows[1] && (!room || made >= rows[1] + r->lead * th))
			return;
		if (!room)
			g->s->rc = rvl_fail(g->s->err, -EINVAL,
					    "internal: layer %u needs more rows than its ring has",
					    g->e[i]->layer);
		else
			advance(g, i - 1);
	}
}

static void advance(struct segment *g, uint32_t i)
{
	if (i)
		make_rows(g, i);
	if (!g->s->rc)
		rvl_emission_next(g->e[i]);
}

static void emit_group(struct segment *g, struct rvl_layer *const *l, uint32_t first)
{
	const struct rvl_emission *last;

	g->e = calloc(g->n, sizeof(struct rvl_emission *));
	if (!g->e) {
		g->s->rc = -ENOMEM;
		return;
	}
	open_group(g, l, first);
	last = g->e[g->n - 1];
	while (!g->s->rc && last->at < last->count)
		advance(g, g->n - 1);
	for (uint32_t i = 0; i < g->n; i++)
		rvl_emission_close(g->e[i]);
	free(g->e);
}

void rvl_segment_emit(struct rvl_stream *s, struct rvl_layer *const *l, uint32_t n, uint32_t first)
{
	struct segment g = { .s = s };

	for (int m = 0; m < RIVULET_MEMS; m++)
		g.pad[m].size = rivulet_mem_words(s->board, m);
	for (uint32_t i = 0; i < n && !s->rc; i += g.n) {
		g.n = group_length(l + i, n - i);
		emit_group(&g, l + i, first + i);
	}
}
