/* SPDX-License-Identifier: MIT */
/*
 * The segment planner: which words of the scratchpads each layer of a step gets, and whose tile is
 * emitted next. Layers follow one another, each in buffers behind those of the layer before it, so
 * that the weights of the next layer load while this one computes. Where prefetch.c decides so, they
 * load ahead of the last tiles of this one. The layers of a cascade take turns (turns.c).
 */
#include "npu/stream.h"
#include "rivulet_footprint.h"

#include <errno.h>
#include <stdlib.h>

/* Buffers are taken in a circle from @first to @size; what a layer takes at once is disjoint. */
struct pads {
	int64_t first, size, next;
};

/* Layers that take turns. */
struct group {
	struct rvl_layer *const *l;
	struct rvl_emission **e; /* NULL: not open */
	struct rvl_turns *turns;
	uint32_t n, first;
	struct rvl_words3 at, size; /* of all its buffers */
};

struct segment {
	struct rvl_stream *s;
	struct pads pad[RIVULET_MEMS];
};

static int64_t next_at(const struct pads *p, int64_t words)
{
	int64_t at = rvl_max(p->next, p->first);

	return at + words <= p->size ? at : p->first;
}

static int64_t take(struct segment *g, int mem, int64_t words)
{
	struct pads *p = &g->pad[mem];
	int64_t at = next_at(p, words);

	if (at + words > p->size && !g->s->rc)
		g->s->rc = rvl_fail(g->s->err, -EINVAL,
				    "internal: layer %u needs %lld words of a scratchpad of %lld",
				    g->s->layer, (long long)words, (long long)(p->size - p->first));
	p->next = at + words;
	return at;
}

/* Layers from @l on whose results stay in INP, and the one that ends the cascade. */
static uint32_t group_length(struct rvl_layer *const *l, uint32_t left)
{
	uint32_t n = 1;

	while (n < left && rvl_continues(l[n - 1]))
		n++;
	return n;
}

static struct group group_at(struct rvl_layer *const *l, uint32_t left, uint32_t first)
{
	struct group g = { .l = l, .first = first };

	if (!left)
		return g;
	g.n = group_length(l, left);
	for (uint32_t i = 0; i < g.n; i++) {
		struct rvl_words3 w = rvl_layer_words(l[i]);

		for (int m = 0; m < RIVULET_MEMS; m++)
			g.size.mem[m] += w.mem[m];
		g.size.mem[RIVULET_MEM_INP] += rvl_continues(l[i]) ? rvl_ring_words(l[i]->to) : 0;
	}
	return g;
}

/* Values that are kept in INP beside the group lie at its ends. */
static void leave_kept(struct segment *s, const struct group *g)
{
	const int64_t *inp = g->l[0]->inp;

	s->pad[RIVULET_MEM_INP].first = inp[0];
	s->pad[RIVULET_MEM_INP].size = inp[1] ? inp[1] :
						rivulet_mem_words(s->s->board, RIVULET_MEM_INP);
}

/* Buffers of all layers of the group and of their rings. */
static void open_group(struct segment *s, struct group *g)
{
	struct rvl_words3 at;

	g->e = calloc(g->n, sizeof(struct rvl_emission *));
	if (!g->e) {
		s->s->rc = -ENOMEM;
		return;
	}
	s->s->layer = g->first;
	leave_kept(s, g);
	for (int m = 0; m < RIVULET_MEMS; m++)
		g->at.mem[m] = take(s, m, g->size.mem[m]);
	/* Sums that stay while layers take turns are behind the slots of the second half. */
	if (g->n > 1)
		g->at.mem[RIVULET_MEM_ACC] =
			s->pad[RIVULET_MEM_ACC].size - g->size.mem[RIVULET_MEM_ACC];
	at = g->at;
	for (uint32_t i = 0; i < g->n && !s->s->rc; i++) {
		struct rvl_words3 w = rvl_layer_words(g->l[i]);

		g->e[i] = rvl_emission_open(s->s, g->l[i], g->first + i, &at);
		for (int m = 0; m < RIVULET_MEMS; m++)
			at.mem[m] += w.mem[m];
		if (!rvl_continues(g->l[i]))
			continue;
		g->l[i]->to->base = at.mem[RIVULET_MEM_INP];
		at.mem[RIVULET_MEM_INP] += rvl_ring_words(g->l[i]->to);
	}
	if (!s->s->rc)
		g->turns = rvl_turns_new(g->e, g->n);
	if (!s->s->rc && !g->turns)
		s->s->rc = -ENOMEM;
}

static void close_group(struct group *g)
{
	for (uint32_t i = 0; g->e && i < g->n; i++)
		rvl_emission_close(g->e[i]);
	free(g->e);
	g->e = NULL;
	g->turns = rvl_turns_free(g->turns);
}

/* Whether the weights of @next can be loaded while @g still needs its own. */
static bool has_room_beside(const struct segment *s, const struct group *g,
			    const struct group *next)
{
	int64_t words = next->size.mem[RIVULET_MEM_WGT];
	int64_t at = next_at(&s->pad[RIVULET_MEM_WGT], words);
	int64_t used = g->at.mem[RIVULET_MEM_WGT];

	return at + words <= used || used + g->size.mem[RIVULET_MEM_WGT] <= at;
}

/* The tiles of @g. Before the last ones, @next is opened and its first weights are loaded. */
static void emit_group(struct segment *s, struct group *g, struct group *next)
{
	const struct rvl_emission *last;

	if (!g->e)
		open_group(s, g);
	if (s->s->rc)
		return;
	last = g->e[g->n - 1];
	while (!s->s->rc && last->at < last->count) {
		if (next->n && !next->e && last->count - last->at <= next->l[0]->ahead &&
		    has_room_beside(s, g, next)) {
			open_group(s, next);
			if (!s->s->rc)
				rvl_emission_preload(next->e[0]);
		}
		rvl_turns_next(g->turns);
	}
}

void rvl_segment_emit(struct rvl_stream *s, struct rvl_layer *const *l, uint32_t n, uint32_t first)
{
	struct segment g = { .s = s };
	struct group now = group_at(l, n, first);

	for (int m = 0; m < RIVULET_MEMS; m++)
		g.pad[m].size = rivulet_mem_words(s->board, m);
	for (uint32_t i = now.n; now.n; i += now.n) {
		struct group next = group_at(l + i, n - i, first + i);

		if (!s->rc)
			emit_group(&g, &now, &next);
		close_group(&now);
		now = next;
	}
}
