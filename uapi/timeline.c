// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/*
 * When each instruction starts and ends. Events come out in the order of their start, so every
 * token that a queue head could have by that time is known: a head without one starts later than
 * the event that will push it. Tokens and FIFO places therefore need no simulation cycle by cycle.
 */
#include "rivulet_cost.h"
#include "rivulet_dev.h"
#include "rivulet_footprint.h"

#include <stdlib.h>
#include <string.h>

struct token {
	uint64_t time;
	uint32_t index; /* of the instruction that pushed it */
};

/* Tokens of one (from, to) pair in the order of their time, in flight included. */
struct channel {
	struct token *ring;
	uint32_t size; /* power of two */
	uint32_t head;
	uint32_t count;
};

struct entry {
	struct rivulet_insn raw;
	uint64_t time; /* of dispatch */
	uint32_t index;
};

struct queue {
	struct entry *fifo;
	uint32_t head;
	uint32_t count;
	uint64_t engine_free;
	uint64_t retired; /* end of the last instruction */
	bool decoded;	  /* insn and fault are those of the head */
	int fault;
	struct rivulet_decoded insn;
};

enum fetch_state { FETCH_RUNNING, FETCH_END, FETCH_FAULT, FETCH_FINISHED };

struct rivulet_timeline {
	const struct rivulet_board *board;
	rivulet_fetch_fn fetch;
	void *ctx;
	struct rivulet_config config;
	struct rivulet_timeline_stats stats;
	struct queue queue[RIVULET_QUEUES];
	struct channel channel[RIVULET_QUEUES][RIVULET_QUEUES]; /* [from][to] */
	uint64_t port_free;
	/* the dispatcher */
	enum fetch_state state;
	int fetch_fault;
	uint64_t fetch_time; /* earliest dispatch of the next instruction */
	uint32_t next;	     /* its index */
	bool held;	     /* it was fetched, and waits for a place in queue @full */
	int full;
	struct rivulet_insn raw;
};

struct rivulet_timeline *rivulet_timeline_free(struct rivulet_timeline *t)
{
	if (!t)
		return NULL;
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		free(t->queue[q].fifo);
		for (int to = 0; to < RIVULET_QUEUES; to++)
			free(t->channel[q][to].ring);
	}
	free(t);
	return NULL;
}

struct rivulet_timeline *rivulet_timeline_new(const struct rivulet_board *b, rivulet_fetch_fn fetch,
					      void *ctx)
{
	struct rivulet_timeline *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->board = b;
	t->fetch = fetch;
	t->ctx = ctx;
	t->fetch_time = b->mem_latency;
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		t->queue[q].fifo = calloc(b->queue_depth, sizeof(struct entry));
		if (!t->queue[q].fifo)
			return rivulet_timeline_free(t);
	}
	return t;
}

const struct rivulet_config *rivulet_timeline_config(const struct rivulet_timeline *t)
{
	return &t->config;
}

const struct rivulet_timeline_stats *rivulet_timeline_stats(const struct rivulet_timeline *t)
{
	return &t->stats;
}

struct rivulet_work rivulet_timeline_work(const struct rivulet_timeline_stats *s)
{
	return (struct rivulet_work){ .macs = s->macs - s->stream_macs,
				      .bytes = s->read_bytes + s->write_bytes,
				      .cycles = s->cycles,
				      .stream_macs = s->stream_macs,
				      .stream_fj = s->stream_fj };
}

static const struct token *peek(const struct channel *c, uint32_t i)
{
	return &c->ring[(c->head + i) & (c->size - 1)];
}

/* More than TOKEN_MAX tokens there at @now: the first one too many, else NULL. */
static const struct token *surplus(const struct channel *c, uint64_t now)
{
	const struct token *t;

	if (c->count <= RIVULET_TOKEN_MAX)
		return NULL;
	t = peek(c, RIVULET_TOKEN_MAX);
	return t->time <= now ? t : NULL;
}

static int grow(struct channel *c)
{
	uint32_t size = c->size ? 2 * c->size : 16;
	struct token *ring = malloc(size * sizeof(*ring));

	if (!ring)
		return -1;
	for (uint32_t i = 0; i < c->count; i++)
		ring[i] = *peek(c, i);
	free(c->ring);
	c->ring = ring;
	c->size = size;
	c->head = 0;
	return 0;
}

static int push(struct channel *c, uint64_t time, uint32_t index)
{
	if (c->count == c->size && grow(c))
		return -RIVULET_FAULT_INTERNAL;
	c->ring[(c->head + c->count++) & (c->size - 1)] = (struct token){ time, index };
	return 0;
}

static bool is_end(const struct rivulet_insn *in)
{
	return (in->w[0] & 0xf) == RIVULET_OP_SYNC && (in->w[0] >> 16 & 3) == RIVULET_SYNC_END;
}

static void fetch_fault(struct rivulet_timeline *t, int fault)
{
	t->state = FETCH_FAULT;
	t->fetch_fault = fault;
}

/* END must be the last instruction. */
static void meet_end(struct rivulet_timeline *t)
{
	struct rivulet_insn beyond;

	if (t->fetch(t->ctx, t->next + 1, &beyond) == 1)
		t->state = FETCH_END;
	else
		fetch_fault(t, -RIVULET_FAULT_NO_END);
}

static bool fetch_next(struct rivulet_timeline *t)
{
	int r;

	if (t->held)
		return true;
	r = t->fetch(t->ctx, t->next, &t->raw);
	if (r == 1)
		fetch_fault(t, -RIVULET_FAULT_NO_END);
	else if (r)
		fetch_fault(t, r);
	else if (is_end(&t->raw))
		meet_end(t);
	else
		t->held = true;
	return t->held;
}

/* Put instructions into the queues until one is full. */
static void dispatch(struct rivulet_timeline *t)
{
	while (t->state == FETCH_RUNNING && fetch_next(t)) {
		int to = t->raw.w[0] >> 4 & 3;
		struct queue *q = &t->queue[to];

		t->full = to;
		if (q->count == t->board->queue_depth)
			return;
		q->fifo[(q->head + q->count++) % t->board->queue_depth] =
			(struct entry){ t->raw, t->fetch_time++, t->next++ };
		t->held = false;
	}
}

static void decode_head(struct queue *q)
{
	if (q->decoded)
		return;
	q->fault = rivulet_decode(&q->fifo[q->head].raw, &q->insn);
	q->decoded = true;
}

/* Earliest start of the head of @to, without tokens in @free; false when a token was not pushed
 * yet. */
static bool earliest(struct rivulet_timeline *t, int to, uint64_t *free_at, uint64_t *start)
{
	struct queue *q = &t->queue[to];
	uint64_t at = q->fifo[q->head].time;

	decode_head(q);
	if (at < q->engine_free)
		at = q->engine_free;
	*free_at = at;
	for (int from = 0; !q->fault && from < RIVULET_QUEUES; from++) {
		const struct channel *c = &t->channel[from][to];

		if (!(q->insn.h.pop >> from & 1))
			continue;
		if (!c->count)
			return false;
		if (at < peek(c, 0)->time)
			at = peek(c, 0)->time;
	}
	*start = at;
	return true;
}

static int fault_at(struct rivulet_event *e, uint32_t index, int fault)
{
	e->index = index;
	return fault;
}

static int take_tokens(struct rivulet_timeline *t, int to, struct rivulet_event *e)
{
	for (int from = 0; from < RIVULET_QUEUES; from++) {
		struct channel *c = &t->channel[from][to];
		const struct token *over;

		if (!(e->insn.h.pop >> from & 1))
			continue;
		over = surplus(c, e->start);
		if (over)
			return fault_at(e, over->index, -RIVULET_FAULT_TOKEN_OVERFLOW);
		c->head++;
		c->count--;
	}
	return 0;
}

static int give_tokens(struct rivulet_timeline *t, int from, struct rivulet_event *e)
{
	for (int to = 0; to < RIVULET_QUEUES; to++) {
		struct channel *c = &t->channel[from][to];
		const struct token *over;
		int r;

		if (!(e->insn.h.push >> to & 1))
			continue;
		r = push(c, e->end, e->index);
		if (r)
			return r;
		over = surplus(c, e->start);
		if (over)
			return fault_at(e, over->index, -RIVULET_FAULT_TOKEN_OVERFLOW);
	}
	return 0;
}

/* Engine and port time of one instruction from its start on. */
static void occupy(struct rivulet_timeline *t, struct queue *q, struct rivulet_event *e)
{
	uint64_t begin = e->start;

	if (!e->cost.beats) {
		q->engine_free = e->end = begin + e->cost.engine;
	} else {
		if (begin < t->port_free)
			begin = t->port_free;
		q->engine_free = t->port_free = begin + e->cost.beats;
		e->end = q->engine_free + t->board->mem_latency;
	}
	if (e->end < q->retired)
		e->end = q->retired;
	q->retired = e->end;
}

static void account(struct rivulet_timeline *t, int queue, const struct rivulet_event *e,
		    uint64_t free_at)
{
	struct rivulet_timeline_stats *s = &t->stats;

	s->stalls[queue] += e->start - free_at;
	s->busy[queue] += e->cost.engine + e->cost.beats;
	s->port_busy += e->cost.beats;
	s->read_bytes += e->cost.read_bytes;
	s->write_bytes += e->cost.write_bytes;
	s->macs += e->cost.macs;
	s->stream_macs += e->cost.stream_macs;
	s->stream_fj += e->cost.stream_fj;
	if (s->cycles < e->end)
		s->cycles = e->end;
	s->retired++;
}

static uint64_t cap(const struct rivulet_timeline *t)
{
	return (uint64_t)t->board->cycle_cap << 20;
}

static int run_head(struct rivulet_timeline *t, int queue, uint64_t free_at,
		    struct rivulet_event *e)
{
	struct queue *q = &t->queue[queue];
	int r;

	e->index = q->fifo[q->head].index;
	if (q->fault)
		return -q->fault;
	e->insn = q->insn;
	r = take_tokens(t, queue, e);
	if (r)
		return r;
	q->head = (q->head + 1) % t->board->queue_depth;
	q->count--;
	q->decoded = false;
	if (t->held && t->full == queue && t->fetch_time < e->start)
		t->fetch_time = e->start;
	r = rivulet_insn_check(t->board, &t->config, &e->insn);
	if (r)
		return -r;
	rivulet_config_set(&t->config, &e->insn);
	rivulet_cost_of(t->board, &t->config, &e->insn, &e->cost);
	if (e->cost.engine > cap(t) || e->cost.beats > cap(t))
		return -RIVULET_FAULT_ENDLESS;
	occupy(t, q, e);
	if (e->end > cap(t))
		return -RIVULET_FAULT_ENDLESS;
	account(t, queue, e, free_at);
	r = give_tokens(t, queue, e);
	return r ? r : 1;
}

/* Nobody can start any more: the first instruction that waits. */
static int deadlock(struct rivulet_timeline *t, struct rivulet_event *e)
{
	e->index = UINT32_MAX;
	for (int i = 0; i < RIVULET_QUEUES; i++) {
		struct queue *q = &t->queue[i];

		if (q->count && q->fifo[q->head].index < e->index)
			e->index = q->fifo[q->head].index;
	}
	return -RIVULET_FAULT_DEADLOCK;
}

static int check_channels(struct rivulet_timeline *t, struct rivulet_event *e)
{
	for (int from = 0; from < RIVULET_QUEUES; from++) {
		for (int to = 0; to < RIVULET_QUEUES; to++) {
			const struct token *over = surplus(&t->channel[from][to], UINT64_MAX);

			if (over)
				return fault_at(e, over->index, -RIVULET_FAULT_TOKEN_OVERFLOW);
		}
	}
	return 0;
}

/* All queues are empty; END itself takes one cycle after the last of them has retired. */
static int run_end(struct rivulet_timeline *t, struct rivulet_event *e)
{
	int r = rivulet_decode(&t->raw, &e->insn);

	e->index = t->next;
	if (!r)
		r = rivulet_insn_check(t->board, &t->config, &e->insn);
	if (r)
		return -r;
	r = check_channels(t, e);
	if (r)
		return r;
	e->start = t->fetch_time > t->stats.cycles ? t->fetch_time : t->stats.cycles;
	e->cost = (struct rivulet_cost){ .engine = 1 };
	e->end = e->start + 1;
	if (e->end > cap(t))
		return -RIVULET_FAULT_ENDLESS;
	account(t, e->insn.h.queue, e, e->start);
	t->state = FETCH_FINISHED;
	return 1;
}

static bool drained(const struct rivulet_timeline *t)
{
	for (int q = 0; q < RIVULET_QUEUES; q++)
		if (t->queue[q].count)
			return false;
	return true;
}

int rivulet_timeline_next(struct rivulet_timeline *t, struct rivulet_event *e)
{
	uint64_t start, free_at, best_free = 0;
	int best = -1;

	if (t->state == FETCH_FINISHED)
		return 0;
	dispatch(t);
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		if (!t->queue[q].count || !earliest(t, q, &free_at, &start))
			continue;
		if (best < 0 || start < e->start) {
			best = q;
			best_free = free_at;
			e->start = start;
		}
	}
	if (t->state == FETCH_FAULT && (best < 0 || t->fetch_time < e->start))
		return fault_at(e, t->next, t->fetch_fault);
	if (best >= 0)
		return run_head(t, best, best_free, e);
	if (t->state == FETCH_END && drained(t))
		return run_end(t, e);
	return deadlock(t, e);
}
