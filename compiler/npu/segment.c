/* SPDX-License-Identifier: MIT */
/*
 * The segment planner: which words of the scratchpads each layer of a step gets, and whose tile is
 * emitted next. Layers follow one another, each in buffers behind those of the layer before it, so
 * that the weights of the next layer load while this one computes. Where prefetch.c decides so, they
 * load ahead of the last tiles of this one. The layers of a cascade take turns (turns.c).
 *
 * In a step whose weights load early, layers that follow are opened as soon as their buffers in WGT are
 * beside those of all open layers, and take slots for more weights where there is room. Their weights
 * load in pieces between the tiles, for as many cycles as the port has nothing else to do. By the estimate,
 * a tile has the part of them that it has of the busiest engine's time.
 */
#include "npu/stream.h"
#include "rivulet_cost.h"
#include "rivulet_footprint.h"

#include <errno.h>
#include <stdlib.h>

/* Buffers are taken in a circle from @first to @size; what a layer takes at once is disjoint. */
struct pads {
	int64_t first, size, next;
};

#define MOST_OPEN 8   /* groups */
#define LARGE_SHARE 3 /* of WGT: one in so many words is much */
#define PIECE	  128 /* words of WGT; fewer cost more than their bytes */

/* Layers that take turns. */
struct group {
	struct rvl_layer *const *l;
	struct rvl_emission **e; /* NULL: not open */
	struct rvl_turns *turns;
	uint32_t n, first;
	struct rvl_words3 at, size; /* of all its buffers */
	struct rvl_busy busy;	    /* all its tiles, and of the port all that they move */
};

struct segment {
	struct rvl_stream *s;
	struct pads pad[RIVULET_MEMS];
	struct rvl_layer *const *l;
	uint32_t n, listed; /* layers, and those in groups so far */
	uint32_t first;	    /* tag of the first layer */
	struct group group[MOST_OPEN]; /* whose tiles are emitted, and those that follow */
	uint32_t groups;
	int64_t credit; /* cycles of the port that weights of groups that follow may take */
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

static struct group group_at(const struct rivulet_board *b, struct rvl_layer *const *l, uint32_t left,
			     uint32_t first)
{
	struct group g = { .l = l, .first = first };

	if (!left)
		return g;
	g.n = group_length(l, left);
	for (uint32_t i = 0; i < g.n; i++) {
		struct rvl_words3 w = rvl_layer_words(b, l[i]);

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

static struct rvl_busy busy_of(const struct segment *s, const struct group *g)
{
	struct rvl_busy sum = { 0 };

	for (uint32_t i = 0; i < g->n; i++) {
		struct rvl_busy e = rvl_layer_busy(s->s->board, g->l[i]);

		sum.array += e.array;
		sum.alu += e.alu;
		sum.port += e.port;
	}
	return sum;
}

/* Cycles of the port beside a tile of the group: its part of the busiest engine's time. */
static int64_t idle_beside(const struct group *g, const struct rvl_busy *tile)
{
	bool alu = g->busy.alu > g->busy.array;
	int64_t all = alu ? g->busy.alu : g->busy.array;

	return rvl_max(all - g->busy.port, 0) * (alu ? tile->alu : tile->array) / rvl_max(all, 1);
}

/*
 * Words of WGT that are free behind the buffers of @g, which is not open, if they begin at word @at, up to
 * those of an open group; below 0: they do not fit. The first buffers of the group that follows have room
 * beside them.
 */
static int64_t room_behind(const struct segment *s, const struct group *g, int64_t at)
{
	int64_t past = at + g->size.mem[RIVULET_MEM_WGT], end = s->pad[RIVULET_MEM_WGT].size;

	for (const struct group *o = s->group; o < g; o++) {
		int64_t used = o->at.mem[RIVULET_MEM_WGT];

		if (o->e && used + o->size.mem[RIVULET_MEM_WGT] > at)
			end = rvl_min(end, used);
	}
	if (past > end)
		return -1;
	if (g + 1 < s->group + s->groups)
		end -= g[1].size.mem[RIVULET_MEM_WGT];
	return rvl_max(end - past, 0);
}

/* The same where the group has its buffers: behind those of the group before it, or at the start of WGT. */
static int64_t choose_place(struct segment *s, const struct group *g)
{
	struct pads *p = &s->pad[RIVULET_MEM_WGT];
	int64_t next = room_behind(s, g, next_at(p, g->size.mem[RIVULET_MEM_WGT]));
	int64_t start = room_behind(s, g, p->first);

	if (start <= next)
		return next;
	p->next = p->first;
	return start;
}

/* Words of WGT that more slots of the group's only layer, or of one that takes rows of its window, would take. */
static int64_t wanted_words(const struct segment *s, const struct group *g)
{
	const struct rvl_layer *last = g->n ? g->l[g->n - 1] : NULL;

	if (!last || !g->l[0]->early || (g->n > 1 && !rvl_takes_taps(last)))
		return 0;
	return rvl_layer_more_words(s->s->board, last);
}

/*
 * Whether the group is opened now rather than when a group before it is done: an open layer keeps the slots
 * that it has, and one with many weights may find few of them free.
 */
static bool worth_opening(struct segment *s, const struct group *g)
{
	int64_t room = choose_place(s, g);

	return wanted_words(s, g) <= room || room * LARGE_SHARE >= s->pad[RIVULET_MEM_WGT].size;
}

/* Words of WGT for more slots: those that are wanted, or that are free. */
static int64_t more_words(struct segment *s, const struct group *g)
{
	int64_t wanted = rvl_wgt_round(s->s->board, wanted_words(s, g));

	return wanted ? rvl_min(wanted, rvl_max(choose_place(s, g), 0)) : 0;
}

/* Buffers of all layers of the group and of their rings. */
static void open_group(struct segment *s, struct group *g)
{
	struct rvl_words3 at;
	int64_t more;

	g->e = calloc(g->n, sizeof(struct rvl_emission *));
	if (!g->e) {
		s->s->rc = -ENOMEM;
		return;
	}
	s->s->layer = g->first;
	leave_kept(s, g);
	more = more_words(s, g);
	g->size.mem[RIVULET_MEM_WGT] += more;
	for (int m = 0; m < RIVULET_MEMS; m++)
		g->at.mem[m] = take(s, m, g->size.mem[m]);
	/* Sums that stay while layers take turns are behind the slots of the second half. */
	if (g->n > 1)
		g->at.mem[RIVULET_MEM_ACC] =
			s->pad[RIVULET_MEM_ACC].size - g->size.mem[RIVULET_MEM_ACC];
	at = g->at;
	for (uint32_t i = 0; i < g->n && !s->s->rc; i++) {
		struct rvl_words3 w = rvl_layer_words(s->s->board, g->l[i]);

		g->e[i] = rvl_emission_open(s->s, g->l[i], g->first + i, &at, i + 1 < g->n ? 0 : more);
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
	if (!s->s->rc && g->l[0]->early)
		g->busy = busy_of(s, g);
}

static void close_group(struct group *g)
{
	for (uint32_t i = 0; g->e && i < g->n; i++)
		rvl_emission_close(g->e[i]);
	free(g->e);
	g->e = NULL;
	g->turns = rvl_turns_free(g->turns);
}

/* Whether the weights of @next can be loaded while the groups before it still need their own. */
static bool has_room_beside(const struct segment *s, const struct group *next)
{
	int64_t words = next->size.mem[RIVULET_MEM_WGT];
	int64_t at = next_at(&s->pad[RIVULET_MEM_WGT], words);

	for (const struct group *g = s->group; g < next; g++) {
		int64_t used = g->at.mem[RIVULET_MEM_WGT];

		if (at + words > used && used + g->size.mem[RIVULET_MEM_WGT] > at)
			return false;
	}
	return true;
}

/* Adds the next group to the list; false where there is none. */
static bool list_group(struct segment *s)
{
	if (s->groups == MOST_OPEN || s->listed == s->n)
		return false;
	s->group[s->groups] = group_at(s->s->board, s->l + s->listed, s->n - s->listed,
					  s->first + s->listed);
	s->listed += s->group[s->groups++].n;
	return true;
}

/* Whether group number @i, and the one behind it, are listed, and it is open or can be opened now. */
static bool open_early(struct segment *s, uint32_t i)
{
	while (s->groups < i + 2 && list_group(s))
		;
	if (i >= s->groups || s->group[i].e)
		return i < s->groups;
	if (!worth_opening(s, &s->group[i]) || !has_room_beside(s, &s->group[i]))
		return false;
	open_group(s, &s->group[i]);
	return !s->s->rc;
}

/* The layer of the group whose tiles are emitted whose weights may load early: one that has taken none. */
static uint32_t first_unread(const struct group *g)
{
	const struct rvl_emission *last = g->e[g->n - 1];

	return rvl_takes_taps(last->l) && !last->at ? g->n - 1 : g->n;
}

/* Loads weights of the groups that follow, in order, for as many cycles as there is credit. */
static void load_early(struct segment *s)
{
	const struct rivulet_board *b = s->s->board;
	int64_t piece = rivulet_port_cycles(b, 1, PIECE * RIVULET_WGT_WORD, true);

	for (uint32_t i = 0; s->credit >= piece && open_early(s, i); i++) {
		struct group *g = &s->group[i];

		for (uint32_t k = i ? 0 : first_unread(g); k < g->n && s->credit >= piece; k++) {
			int64_t words = rvl_emission_preload(g->e[k], s->credit / piece * PIECE, false);

			s->credit -= words ? rivulet_port_cycles(b, 1, words * RIVULET_WGT_WORD, true) : 0;
		}
	}
}

/* What is not used is not saved for long, because it would delay the operands of a tile. */
static void add_credit(struct segment *s, const struct rvl_busy *tile)
{
	int64_t idle = idle_beside(&s->group[0], tile);
	int64_t piece = rivulet_port_cycles(s->s->board, 1, PIECE * RIVULET_WGT_WORD, true);

	s->credit = rvl_min(s->credit + idle, rvl_max(idle, piece));
}

/* The tiles of the first group. Before the last ones, the next one is opened and its first weights are loaded. */
static void emit_group(struct segment *s)
{
	struct group *g = &s->group[0], *next = &s->group[1];
	const struct rvl_emission *last;
	struct rvl_busy tile;

	if (!g->e)
		open_group(s, g);
	if (s->s->rc)
		return;
	last = g->e[g->n - 1];
	while (!s->s->rc && last->at < last->count) {
		if (s->groups > 1 && last->count - last->at <= next->l[0]->ahead &&
		    (next->e || has_room_beside(s, next))) {
			if (!next->e)
				open_group(s, next);
			if (!s->s->rc)
				rvl_emission_preload(next->e[0], INT64_MAX, true);
		}
		tile = rvl_turns_next(g->turns);
		if (s->s->rc || !g->l[0]->early)
			continue;
		if (g->e[0]->operand)
			g->e[0]->operand(g->e[0]);
		add_credit(s, &tile);
		load_early(s);
	}
}

void rvl_segment_emit(struct rvl_stream *s, struct rvl_layer *const *l, uint32_t n, uint32_t first)
{
	struct segment g = { .s = s, .l = l, .n = n, .first = first };

	for (int m = 0; m < RIVULET_MEMS; m++)
		g.pad[m].size = m == RIVULET_MEM_WGT ? rvl_wgt_words(s->board) : rivulet_mem_words(s->board, m);
	list_group(&g);
	while (g.groups) {
		if (g.groups < 2)
			list_group(&g);
		if (!s->rc)
			emit_group(&g);
		close_group(&g.group[0]);
		g.groups--;
		for (uint32_t i = 0; i < g.groups; i++)
			g.group[i] = g.group[i + 1];
	}
}
