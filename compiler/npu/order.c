/* SPDX-License-Identifier: MIT */
/*
 * The order of the tiles of a cascade that looks ahead. Orders grow by a tile at a time; of those with
 * equally many tiles, the ones are continued that can end soonest: when the array would be done with all
 * tiles if it never waited again, or the ALU. Of two that have the same tiles of each layer behind them,
 * only the better one is.
 */
#include "npu/order.h"

#include <errno.h>
#include <string.h>

#define WIDTH	   16  /* orders that are continued */
#define MOST_TILES 512 /* of a cascade; an order of more takes long to find */

/* The clock behind the first tiles of an order. */
struct node {
	struct {
		uint64_t at;
		int64_t array, alu, loaded;
	} m[RVL_CHAIN];
	int64_t conv, alu, half[2], *log;
	uint32_t turn;
	struct rvl_busy left;	   /* of all engines' work */
	int64_t end, sum;	   /* the end of all at the soonest; of all engines */
	uint32_t parent, member;   /* the order without its last tile, and whose tile that is */
};

struct list {
	struct node node[WIDTH];
	uint32_t n;
};

/* How the orders of a length continue those that are shorter by one. */
struct steps {
	uint32_t parent[WIDTH];
	uint8_t member[WIDTH];
};

struct finder {
	struct rvl_turns *t;
	struct list list[2];
	struct node next;
	struct steps *steps;
	uint64_t tiles;
	int64_t *logs;
};

static void leave(const struct rvl_turns *t, struct node *n)
{
	for (uint32_t i = 0; i < t->n; i++) {
		n->m[i].at = t->m[i].e->at;
		n->m[i].array = t->m[i].array;
		n->m[i].alu = t->m[i].alu;
		n->m[i].loaded = t->m[i].loaded;
	}
	n->conv = t->conv;
	n->alu = t->alu;
	memcpy(n->half, t->half, sizeof(n->half));
	n->turn = t->turn;
	memcpy(n->log, t->log, t->logged * sizeof(*t->log));
}

static void enter(struct rvl_turns *t, const struct node *n)
{
	for (uint32_t i = 0; i < t->n; i++) {
		t->m[i].e->at = n->m[i].at;
		t->m[i].array = n->m[i].array;
		t->m[i].alu = n->m[i].alu;
		t->m[i].loaded = n->m[i].loaded;
	}
	t->conv = n->conv;
	t->alu = n->alu;
	memcpy(t->half, n->half, sizeof(t->half));
	t->turn = n->turn;
	memcpy(t->log, n->log, t->logged * sizeof(*t->log));
}

static bool same_tiles(const struct node *a, const struct node *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (a->m[i].at != b->m[i].at)
			return false;
	return true;
}

static bool ends_sooner(const struct node *a, const struct node *b)
{
	return a->end != b->end ? a->end < b->end : a->sum < b->sum;
}

/* Where @n belongs before it is moved to its place: the node that it replaces, or the end; WIDTH: nowhere. */
static uint32_t place_of(const struct list *l, const struct node *n, uint32_t members)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (same_tiles(&l->node[i], n, members))
			return ends_sooner(n, &l->node[i]) ? i : WIDTH;
	if (l->n < WIDTH)
		return l->n;
	return ends_sooner(n, &l->node[WIDTH - 1]) ? WIDTH - 1 : WIDTH;
}

/* Keeps @n among the best of its length; the list is in order. */
static void keep(const struct rvl_turns *t, struct list *l, const struct node *n)
{
	uint32_t at = place_of(l, n, t->n);
	int64_t *log;

	if (at == WIDTH)
		return;
	l->n += at == l->n;
	log = l->node[at].log;
	for (; at && ends_sooner(n, &l->node[at - 1]); at--)
		l->node[at] = l->node[at - 1];
	l->node[at] = *n;
	l->node[at].log = log;
	memcpy(log, n->log, t->logged * sizeof(*log));
}

/* When the port has loaded the weights that are left for a last layer of a few slots, at the soonest. */
static int64_t port_end(const struct rvl_turns *t)
{
	const struct rvl_turn *m = &t->m[t->n - 1];
	int64_t left = m->e->count - m->e->at;

	if (!m->slots || !left)
		return 0;
	return rvl_max(m->loaded + (left - 1) * m->load, t->conv + (left - m->slots) * m->load);
}

static void bound(const struct rvl_turns *t, struct node *n)
{
	int64_t array = t->conv + n->left.array, alu = t->alu + n->left.alu, port = port_end(t);

	n->end = rvl_max(rvl_max(array, alu), port);
	n->sum = array + alu + port;
}

/* The orders that continue @from, which is number @number of its list. */
static void grow(struct finder *f, const struct node *from, uint32_t number, struct list *to)
{
	struct rvl_turns *t = f->t;
	struct node *n = &f->next;

	for (uint32_t i = 0; i < t->n; i++) {
		enter(t, from);
		if (rvl_clock_start(t, i) == RVL_NEVER)
			continue;
		n->left.array = from->left.array - t->m[i].array;
		n->left.alu = from->left.alu - t->m[i].alu;
		rvl_clock_pass(t, i);
		leave(t, n);
		bound(t, n);
		n->parent = number;
		n->member = i;
		keep(t, to, n);
	}
}

static void note_steps(struct steps *s, const struct list *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		s->parent[i] = l->node[i].parent;
		s->member[i] = l->node[i].member;
	}
}

/* The best order, from its last tile to the first. */
static int take_order(struct finder *f)
{
	struct rvl_turns *t = f->t;
	uint32_t at = 0;

	t->order = rvl_scratch(t->s->arena, f->tiles, 1);
	if (!t->order)
		return -ENOMEM;
	for (uint64_t i = f->tiles; i-- > 0; at = f->steps[i].parent[at])
		t->order[i] = f->steps[i].member[at];
	return 0;
}

static int search(struct finder *f)
{
	struct rvl_turns *t = f->t;
	struct node start = { .log = f->logs + 2 * WIDTH * t->logged };
	struct list *now = &f->list[0];

	leave(t, &start);
	now->n = 1;
	leave(t, &now->node[0]);
	for (uint32_t i = 0; i < t->n; i++) {
		now->node[0].left.array += t->m[i].sum.array;
		now->node[0].left.alu += t->m[i].sum.alu;
	}
	for (uint64_t at = 0; at < f->tiles && now->n; at++) {
		struct list *to = &f->list[(at + 1) % 2];

		to->n = 0;
		for (uint32_t i = 0; i < now->n; i++)
			grow(f, &now->node[i], i, to);
		note_steps(&f->steps[at], to);
		now = to;
	}
	enter(t, &start);
	return now->n ? take_order(f) : 0;
}

int rvl_order_find(struct rvl_turns *t)
{
	struct rvl_arena *arena = t->s->arena;
	struct finder *f = rvl_scratch(arena, 1, sizeof(*f));
	int rc = -ENOMEM;

	if (!f)
		return rc;
	f->t = t;
	for (uint32_t i = 0; i < t->n; i++)
		f->tiles += t->m[i].e->count;
	if (f->tiles > MOST_TILES) {
		rvl_scratch_free(f);
		return 0;
	}
	f->logs = rvl_scratch(arena, (2 * WIDTH + 2) * t->logged, sizeof(*f->logs));
	f->steps = rvl_scratch(arena, f->tiles, sizeof(*f->steps));
	for (uint32_t i = 0; i < 2 * WIDTH && f->logs; i++)
		f->list[i / WIDTH].node[i % WIDTH].log = f->logs + i * t->logged;
	f->next.log = f->logs ? f->logs + (2 * WIDTH + 1) * t->logged : NULL;
	if (f->logs && f->steps)
		rc = search(f);
	rvl_scratch_free(f->logs);
	rvl_scratch_free(f->steps);
	rvl_scratch_free(f);
	return rc;
}
