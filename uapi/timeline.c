// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/*
 * The times at which instructions start and end (docs/isa.md 3), by a discrete event simulation.
 * Events are starts and ends of instructions, dispatches, grants of bursts, and the moments at
 * which two engines begin or cease to delay each other.
 */
#include "dma.h"
#include "rivulet_dev.h"
#include "rivulet_footprint.h"
#include "work.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define NEVER	     DMA_NEVER
#define FETCH_INSNS  (RIVULET_FETCH_BYTES / RIVULET_INSN_BYTES)

struct entry {
	struct rivulet_insn raw;
	uint64_t time; /* of dispatch */
	uint32_t index;
};

/* An instruction that has started. */
struct flight {
	struct rivulet_event e;
	bool known; /* e.end is */
};

struct queue {
	struct entry *fifo;
	uint32_t head;
	uint32_t count;
	uint64_t place;	      /* when the last place that was freed can be taken */
	uint64_t engine_free; /* NEVER: not known yet */
	uint64_t retired;     /* end of the last instruction whose end is known */
	/* in a ring; the place behind them is where the head of the queue is decoded */
	struct flight flight[RIVULET_FLIGHT + 1];
	uint32_t first, flying;
	bool decoded; /* the head is; fault is that of its decoding */
	int fault;
};

/* An instruction in the fetch buffer, or in the burst that will bring it. */
struct fetched {
	struct rivulet_insn raw;
	int rc;		/* of the fetch function */
	uint64_t there; /* its last beat */
};

struct fetcher {
	struct fetched place[RIVULET_FETCH_PLACES];
	uint32_t head, count;	    /* in the buffer, or in the burst that was requested */
	struct fetched burst[FETCH_INSNS];
	uint32_t n;		    /* of the burst that is requested next */
	uint32_t next;		    /* index of its first instruction */
	uint64_t position;	    /* of the stream's first byte in its page */
	bool over;		    /* the program ends with the burst */
	/* dispatch cannot take the next instruction before this cycle */
	uint64_t free;
};

enum end_state { END_AHEAD, END_REACHED, END_DONE };

/*
 * Events that can be next, by the unit that they are an event of. Events of one cycle are handled in
 * this order.
 */
enum unit {
	UNIT_END, /* of the first instruction of each queue that has started */
	UNIT_WORK = UNIT_END + RIVULET_QUEUES,
	UNIT_DISPATCH,
	UNIT_START, /* of the head of each queue */
	UNIT_GRANT = UNIT_START + RIVULET_QUEUES,
	UNITS
};

#define UNIT_BITS 4 /* of an event's key: its cycle, and in the lowest bits its unit */

#define STALE(unit) (1u << (unit))
#define STALE_ENDS   ((STALE(RIVULET_QUEUES) - 1) << UNIT_END)
#define STALE_STARTS ((STALE(RIVULET_QUEUES) - 1) << UNIT_START)
#define STALE_WORK                                                                                 \
	(STALE(UNIT_END + RIVULET_Q_CONV) | STALE(UNIT_END + RIVULET_Q_ALU) | STALE(UNIT_WORK))

struct rivulet_timeline {
	const struct rivulet_board *board;
	rivulet_fetch_fn fetch;
	void *ctx;
	struct rivulet_config config;
	struct rivulet_timeline_stats stats;
	struct queue queue[RIVULET_QUEUES];
	uint32_t tokens[RIVULET_QUEUES][RIVULET_QUEUES]; /* [from][to] */
	struct fetcher f;
	struct work work; /* of CONV and ALU */
	uint64_t now;
	uint32_t next; /* index of the next instruction to dispatch */
	enum end_state end;
	bool stopped; /* no further instruction starts */
	/*
	 * Keys of the next events of the units, or NEVER. The smallest key is that of the next event,
	 * because the units of equal cycles are in their order.
	 */
	uint64_t key[UNITS];
	uint64_t beside_grants; /* the smallest key of all units but UNIT_GRANT */
	uint32_t stale;	    /* units whose next event has to be found again */
	enum dma_user who;  /* of the next grant */
	struct rivulet_event last; /* END, or where the fault is */
	struct dma dma;		   /* behind what is zero at the start */
};

struct rivulet_timeline *rivulet_timeline_free(struct rivulet_timeline *t)
{
	if (!t)
		return NULL;
	for (int q = 0; q < RIVULET_QUEUES; q++)
		free(t->queue[q].fifo);
	free(t);
	return NULL;
}

struct rivulet_timeline *rivulet_timeline_new(const struct rivulet_board *b, rivulet_fetch_fn fetch,
					      void *ctx)
{
	struct rivulet_timeline *t = malloc(sizeof(*t));

	if (!t)
		return NULL;
	memset(t, 0, offsetof(struct rivulet_timeline, dma));
	t->board = b;
	t->fetch = fetch;
	t->ctx = ctx;
	t->stale = STALE(UNITS) - 1;
	dma_init(&t->dma, b);
	t->work.half = rivulet_mem_words(b, RIVULET_MEM_ACC) / 2;
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		t->queue[q].fifo = calloc(b->queue_depth, sizeof(struct entry));
		if (!t->queue[q].fifo)
			return rivulet_timeline_free(t);
	}
	return t;
}

void rivulet_timeline_place(struct rivulet_timeline *t, uint32_t slot, uint64_t position)
{
	t->config.base[slot] = position % RIVULET_PAGE_BYTES;
}

void rivulet_timeline_stream_at(struct rivulet_timeline *t, uint64_t position)
{
	t->f.position = position % RIVULET_PAGE_BYTES;
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
				      .sparse_macs = s->sparse_macs,
				      .binary_macs = s->binary_macs,
				      .plane_macs = s->plane_macs,
				      .plane_adds = s->plane_adds,
				      .stream_macs = s->stream_macs,
				      .stream_fj = s->stream_fj };
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t cap(const struct rivulet_timeline *t)
{
	return (uint64_t)t->board->cycle_cap << 20;
}

static int fault_at(struct rivulet_timeline *t, uint32_t index, int fault)
{
	t->last = (struct rivulet_event){ .index = index };
	return fault;
}

/* ---- fetch and dispatch ---- */

static bool is_end(const struct rivulet_insn *in)
{
	return (in->w[0] & 0xf) == RIVULET_OP_SYNC && (in->w[0] >> 16 & 3) == RIVULET_SYNC_END;
}

/* Reads the instructions of the next burst, up to the next aligned address. */
static void read_burst(struct rivulet_timeline *t)
{
	struct fetcher *f = &t->f;
	uint64_t at = f->position + (uint64_t)f->next * RIVULET_INSN_BYTES;
	uint32_t most = FETCH_INSNS - at % RIVULET_FETCH_BYTES / RIVULET_INSN_BYTES;

	while (!f->over && f->n < most) {
		struct fetched *p = &f->burst[f->n];

		p->rc = t->fetch(t->ctx, f->next + f->n, &p->raw);
		f->over = p->rc != 0;
		f->n += p->rc != 1;
		t->stale |= STALE(UNIT_DISPATCH);
	}
}

static uint64_t burst_beats(const struct rivulet_timeline *t)
{
	uint32_t port = t->board->port_bytes;
	uint64_t from = t->f.position + (uint64_t)t->f.next * RIVULET_INSN_BYTES;

	return (from + t->f.n * RIVULET_INSN_BYTES - 1) / port - from / port + 1;
}

/* Requests the next burst if the buffer has room for it. */
static void ask_fetch(struct rivulet_timeline *t)
{
	struct fetcher *f = &t->f;

	if (!f->n)
		read_burst(t);
	if (!f->n || t->dma.transfer[DMA_FETCH].on || f->count + f->n > RIVULET_FETCH_PLACES)
		return;
	dma_ask(&t->dma, burst_beats(t), t->now);
	t->stale |= STALE(UNIT_GRANT);
}

static void fetch_granted(struct rivulet_timeline *t)
{
	struct fetcher *f = &t->f;
	uint64_t from = f->position + (uint64_t)f->next * RIVULET_INSN_BYTES;
	uint32_t port = t->board->port_bytes;

	for (uint32_t i = 0; i < f->n; i++) {
		struct fetched *p = &f->place[(f->head + f->count++) % RIVULET_FETCH_PLACES];

		*p = f->burst[i];
		p->there = t->now + t->board->mem_latency +
			   ((from + (i + 1) * RIVULET_INSN_BYTES - 1) / port - from / port);
	}
	t->stats.read_bytes += (uint64_t)f->n * RIVULET_INSN_BYTES;
	f->next += f->n;
	f->n = 0;
	t->stale |= STALE(UNIT_DISPATCH);
}

/* The cycle in which the next instruction is dispatched, or is found invalid or missing. */
static uint64_t next_dispatch(const struct rivulet_timeline *t)
{
	const struct fetcher *f = &t->f;
	const struct fetched *p = &f->place[f->head];
	const struct queue *q;
	uint64_t at;

	if (t->end != END_AHEAD || t->stopped)
		return NEVER;
	if (!f->count)
		return f->over && !f->n ? later(t->now, f->free) : NEVER;
	at = later(p->there, f->free);
	if (p->rc || is_end(&p->raw))
		return at;
	q = &t->queue[p->raw.w[0] >> 4 & 3];
	return q->count == t->board->queue_depth ? NEVER : later(at, q->place);
}

/* END must be the last instruction. */
static int check_end(struct rivulet_timeline *t)
{
	struct rivulet_insn beyond;

	if (t->f.count > 1 || t->f.n ||
	    (!t->f.over && t->fetch(t->ctx, t->next + 1, &beyond) != 1))
		return -RIVULET_FAULT_NO_END;
	t->end = END_REACHED;
	return 0;
}

static int dispatch(struct rivulet_timeline *t)
{
	struct fetcher *f = &t->f;
	struct fetched *p = &f->place[f->head];
	uint32_t number = p->raw.w[0] >> 4 & 3;
	struct queue *q = &t->queue[number];

	t->stale |= STALE(UNIT_DISPATCH);
	if (!f->count)
		return fault_at(t, t->next, -RIVULET_FAULT_NO_END);
	if (p->rc)
		return fault_at(t, t->next, p->rc);
	if (is_end(&p->raw))
		return fault_at(t, t->next, check_end(t));
	if (!q->count)
		t->stale |= STALE(UNIT_START + number);
	q->fifo[(q->head + q->count++) % t->board->queue_depth] =
		(struct entry){ p->raw, t->now, t->next++ };
	f->head = (f->head + 1) % RIVULET_FETCH_PLACES;
	f->count--;
	f->free = t->now + 1;
	return 0;
}

/*
 * Dispatches the next instruction, and those that follow it before cycle @until, while the other units
 * have nothing to do with them.
 */
static int dispatch_until(struct rivulet_timeline *t, uint64_t until)
{
	uint64_t at;
	int r;

	do {
		r = dispatch(t);
		if (r || t->stale != STALE(UNIT_DISPATCH))
			return r;
		ask_fetch(t);
		at = next_dispatch(t);
		if (t->stale != STALE(UNIT_DISPATCH) || at >= until)
			return 0;
		t->now = at;
	} while (true);
}

/* ---- start ---- */

static struct flight *flight_at(struct queue *q, uint32_t n)
{
	return &q->flight[(q->first + n) % (RIVULET_FLIGHT + 1)];
}

static void decode_head(struct queue *q)
{
	if (q->decoded)
		return;
	q->fault = rivulet_decode(&q->fifo[q->head].raw, &flight_at(q, q->flying)->e.insn);
	q->decoded = true;
}

static bool tokens_there(const struct rivulet_timeline *t, int to, uint32_t pop)
{
	for (; pop; pop &= pop - 1)
		if (!t->tokens[__builtin_ctz(pop)][to])
			return false;
	return true;
}

/* The first cycle in which the head of queue @q has been dispatched and its engine is free. */
static uint64_t head_ready(const struct queue *q)
{
	return later(q->fifo[q->head].time, q->engine_free);
}

/* The cycle in which the head of queue @to can start, or NEVER if that is not known yet. */
static uint64_t next_start(struct rivulet_timeline *t, int to)
{
	struct queue *q = &t->queue[to];

	if (!q->count || q->engine_free == NEVER || t->stopped)
		return NEVER;
	decode_head(q);
	if (q->fault)
		return later(head_ready(q), t->now);
	if (q->flying == RIVULET_FLIGHT ||
	    !tokens_there(t, to, flight_at(q, q->flying)->e.insn.h.pop))
		return NEVER;
	return later(head_ready(q), t->now);
}

static bool is_transfer(const struct rivulet_cost *c)
{
	return c->spad || c->bursts;
}

static bool is_work(enum rivulet_form form)
{
	return form == RIVULET_FORM_conv || form == RIVULET_FORM_alu;
}

static void set_end(struct queue *q, struct flight *f, uint64_t end)
{
	f->e.end = q->retired = later(end, q->retired);
	f->known = true;
}

/* Occupies engine and port from the start of an instruction on. */
static void occupy(struct rivulet_timeline *t, int queue, struct flight *f)
{
	enum dma_user who = queue == RIVULET_Q_LOAD ? DMA_LOAD : DMA_STORE;
	struct queue *q = &t->queue[queue];

	if (is_work(f->e.insn.form)) {
		work_start(&t->work, &t->config, &f->e, t->now);
		q->engine_free = NEVER;
		t->stale |= STALE_WORK;
	} else if (is_transfer(&f->e.cost)) {
		t->stale |= STALE(UNIT_GRANT);
		dma_start(&t->dma, who, &f->e.cost, t->now);
		q->engine_free = t->dma.transfer[who].on ? NEVER : t->now + 1;
		if (!t->dma.transfer[who].on)
			set_end(q, f, t->dma.transfer[who].spad);
	} else {
		q->engine_free = t->now + 1;
		set_end(q, f, t->now + 1);
	}
}

static void account(struct rivulet_timeline *t, int queue, const struct rivulet_event *e,
		    uint64_t ready)
{
	struct rivulet_timeline_stats *s = &t->stats;

	s->stalls[queue] += e->start - ready;
	s->busy[queue] += is_work(e->insn.form) ? 0 : e->cost.engine + e->cost.port;
	s->read_bytes += e->cost.read_bytes;
	s->write_bytes += e->cost.write_bytes;
	s->macs += e->cost.macs;
	s->sparse_macs += e->cost.sparse_macs;
	s->binary_macs += e->cost.binary_macs;
	s->plane_macs += e->cost.plane_macs;
	s->plane_adds += e->cost.plane_adds;
	s->stream_macs += e->cost.stream_macs;
	s->stream_fj += e->cost.stream_fj;
}

/*
 * Whether an instruction takes longer than the cap. The single terms are checked first, so that no
 * sum overflows.
 */
static bool too_long(const struct rivulet_timeline *t, const struct rivulet_cost *c)
{
	return c->engine > cap(t) || c->port > cap(t) || c->spad > cap(t) || c->pad > cap(t) ||
	       t->now + c->engine + c->port > cap(t) || t->now + c->spad + c->pad > cap(t);
}

static void leave_queue(struct rivulet_timeline *t, struct queue *q)
{
	if (q->count == t->board->queue_depth) {
		q->place = t->now + 1;
		t->stale |= STALE(UNIT_DISPATCH);
	}
	q->head = (q->head + 1) % t->board->queue_depth;
	q->count--;
	q->decoded = false;
}

static int start(struct rivulet_timeline *t, int queue, const struct rivulet_event **out)
{
	struct queue *q = &t->queue[queue];
	uint64_t ready = head_ready(q);
	struct flight *f = flight_at(q, q->flying);
	struct rivulet_event *e = &f->e;
	int r;

	e->index = q->fifo[q->head].index;
	if (q->fault)
		return fault_at(t, e->index, -q->fault);
	for (uint32_t pop = e->insn.h.pop; pop; pop &= pop - 1)
		t->tokens[__builtin_ctz(pop)][queue]--;
	leave_queue(t, q);
	r = rivulet_insn_check(t->board, &t->config, &e->insn);
	if (r)
		return fault_at(t, e->index, -r);
	rivulet_config_set(&t->config, &e->insn);
	e->tag = t->config.q_tag[queue].tag;
	rivulet_cost_of(t->board, &t->config, &e->insn, &e->cost);
	if (too_long(t, &e->cost))
		return fault_at(t, e->index, -RIVULET_FAULT_ENDLESS);
	f->known = e->done = false;
	e->start = t->now;
	e->end = 0;
	account(t, queue, e, ready);
	q->flying++;
	occupy(t, queue, f);
	t->stale |= STALE(UNIT_START + queue) | STALE(UNIT_END + queue);
	*out = e;
	return 1;
}

/* ---- end ---- */

static uint64_t next_end(const struct rivulet_timeline *t, int queue)
{
	const struct queue *q = &t->queue[queue];
	const struct flight *f = &q->flight[q->first];

	if (!q->flying)
		return NEVER;
	if (f->known)
		return f->e.end;
	return is_work(f->e.insn.form) ? work_end(&t->work, f->e.insn.form) : NEVER;
}

static int push_tokens(struct rivulet_timeline *t, int queue, const struct rivulet_event *e)
{
	for (uint32_t push = e->insn.h.push; push; push &= push - 1) {
		int to = __builtin_ctz(push);

		if (++t->tokens[queue][to] > RIVULET_TOKEN_MAX)
			return fault_at(t, e->index, -RIVULET_FAULT_TOKEN_OVERFLOW);
		t->stale |= STALE(UNIT_START + to);
	}
	return 1;
}

static int end(struct rivulet_timeline *t, int queue, const struct rivulet_event **out)
{
	struct queue *q = &t->queue[queue];
	struct flight *f = flight_at(q, 0);

	if (!f->known) {
		work_done(&t->work, f->e.insn.form, t->now);
		set_end(q, f, t->now);
		q->engine_free = t->now;
		t->stats.busy[queue] += t->now - f->e.start;
		t->stale |= STALE_WORK;
	}
	f->e.done = true;
	q->first = (q->first + 1) % (RIVULET_FLIGHT + 1);
	q->flying--;
	t->stats.cycles = later(t->stats.cycles, f->e.end);
	t->stats.retired++;
	t->stale |= STALE(UNIT_START + queue) | STALE(UNIT_END + queue);
	*out = &f->e;
	return push_tokens(t, queue, &f->e);
}

/* ---- keys of events ---- */

/* Cycles beyond the cap that do not fit in a key become the last one that does. */
static uint64_t key_of(enum unit unit, uint64_t at)
{
	uint64_t last = (NEVER >> UNIT_BITS) - 1;

	return at == NEVER ? NEVER : (at < last ? at : last) << UNIT_BITS | unit;
}

/* The cycle of a key; of NEVER, one that no event has. */
static uint64_t cycle_of(uint64_t key)
{
	return key >> UNIT_BITS;
}

/* ---- grants ---- */

static struct flight *last_flight(struct queue *q)
{
	return flight_at(q, q->flying - 1);
}

/* Of 1024 words of a transfer, the number that wait a cycle for a bank of INP. */
static uint32_t slowdown(const struct rivulet_timeline *t, const struct flight *f)
{
	if (f->e.insn.form == RIVULET_FORM_store && f->e.insn.store.mem == RIVULET_MEM_INP)
		return work_inp_delay(&t->work);
	if (f->e.insn.form != RIVULET_FORM_load || f->e.insn.load.mem != RIVULET_MEM_INP)
		return 0;
	return work_inp_writes(&t->work) / t->board->dn;
}

static bool uses_acc(const struct rivulet_decoded *d)
{
	return d->form == RIVULET_FORM_load ? d->load.mem == RIVULET_MEM_ACC :
					      d->store.mem == RIVULET_MEM_ACC;
}

static void take_acc(struct rivulet_timeline *t, const struct flight *f, uint64_t cycles)
{
	const struct rivulet_decoded *d = &f->e.insn;
	uint64_t per = f->e.cost.words ? f->e.cost.spad / f->e.cost.words : 1;

	if (!uses_acc(d) || !cycles)
		return;
	work_delay_conv(&t->work, &t->config, d, cycles / (per ? per : 1), t->now);
	t->stale |= STALE_WORK;
}

static void grant(struct rivulet_timeline *t, enum dma_user who)
{
	enum rivulet_queue number = who == DMA_STORE ? RIVULET_Q_STORE : RIVULET_Q_LOAD;
	struct queue *q = &t->queue[number];
	struct flight *f = last_flight(q);
	struct dma_grant g;

	g = dma_serve(&t->dma, who, t->now, who == DMA_FETCH ? 0 : slowdown(t, f));
	t->stats.port_busy += g.free - t->now;
	if (who == DMA_FETCH) {
		fetch_granted(t);
		return;
	}
	take_acc(t, f, g.words);
	if (!g.last)
		return;
	q->engine_free = g.free;
	set_end(q, f, g.end);
	t->stale |= STALE(UNIT_START + number) | STALE(UNIT_END + number);
}

/*
 * Grants the bursts from cycle @at on, before cycle @until, in which no other unit can have a part.
 * Returns the cycle of the burst that follows them.
 */
static uint64_t grant_run(struct rivulet_timeline *t, uint64_t at, uint64_t until)
{
	struct queue *q = &t->queue[t->who == DMA_STORE ? RIVULET_Q_STORE : RIVULET_Q_LOAD];
	struct dma_run r;

	if (t->who == DMA_FETCH || uses_acc(&last_flight(q)->e.insn))
		return at;
	r = dma_run(&t->dma, t->who, at, until, slowdown(t, last_flight(q)));
	t->now = r.last;
	t->stats.port_busy += r.busy;
	return r.next;
}

/*
 * Grants the next burst, and those that follow it before cycle @until, while the other units have
 * nothing to do with them.
 */
static void grant_until(struct rivulet_timeline *t, uint64_t until)
{
	uint64_t at = cycle_of(t->key[UNIT_GRANT]);

	do {
		at = grant_run(t, at, until);
		if (at >= until)
			break;
		t->now = at;
		grant(t, t->who);
		at = dma_next(&t->dma, &t->who);
	} while (!t->stale && at < until);
	t->key[UNIT_GRANT] = key_of(UNIT_GRANT, at);
}

/* ---- the job's end ---- */

/* No instruction can start: reports the first one that waits. */
static int deadlock(struct rivulet_timeline *t)
{
	uint32_t index = UINT32_MAX;

	for (int i = 0; i < RIVULET_QUEUES; i++) {
		struct queue *q = &t->queue[i];

		if (q->count && q->fifo[q->head].index < index)
			index = q->fifo[q->head].index;
	}
	return fault_at(t, index, -RIVULET_FAULT_DEADLOCK);
}

static bool drained(const struct rivulet_timeline *t)
{
	for (int q = 0; q < RIVULET_QUEUES; q++)
		if (t->queue[q].count || t->queue[q].flying)
			return false;
	return true;
}

/* All queues are empty and everything has ended. */
static int run_end(struct rivulet_timeline *t)
{
	struct rivulet_event *e = &t->last;
	int r = rivulet_decode(&t->f.place[t->f.head].raw, &e->insn);

	e->index = t->next;
	if (!r)
		r = rivulet_insn_check(t->board, &t->config, &e->insn);
	if (r)
		return -r;
	e->start = t->now;
	e->cost.engine = 1;
	e->end = e->start + 1;
	if (e->end > cap(t))
		return -RIVULET_FAULT_ENDLESS;
	e->done = true;
	account(t, e->insn.h.queue, e, e->start);
	t->stats.cycles = e->end;
	t->stats.retired++;
	t->end = END_DONE;
	return 1;
}

/* ---- events ---- */

static void set_key(struct rivulet_timeline *t, enum unit unit, uint64_t at)
{
	t->key[unit] = key_of(unit, at);
}

/* Finds the next events of the units again for which that is due. */
static void refresh(struct rivulet_timeline *t)
{
	uint32_t stale = t->stale, some;

	t->stale = 0;
	for (some = stale & STALE_ENDS; some; some &= some - 1) {
		int q = __builtin_ctz(some) - UNIT_END;

		set_key(t, UNIT_END + q, next_end(t, q));
	}
	if (stale & STALE(UNIT_WORK))
		set_key(t, UNIT_WORK, work_change(&t->work));
	if (stale & STALE(UNIT_DISPATCH))
		set_key(t, UNIT_DISPATCH, next_dispatch(t));
	for (some = stale & STALE_STARTS; some; some &= some - 1) {
		int q = __builtin_ctz(some) - UNIT_START;

		set_key(t, UNIT_START + q, next_start(t, q));
	}
	if (stale & STALE(UNIT_GRANT))
		set_key(t, UNIT_GRANT, dma_next(&t->dma, &t->who));
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The key of the next event, or NEVER. */
static uint64_t next_event(struct rivulet_timeline *t)
{
	uint64_t even = NEVER, odd = NEVER;

	refresh(t);
	for (enum unit unit = 0; unit < UNIT_GRANT; unit += 2) { /* without branches */
		even = smaller(even, t->key[unit]);
		odd = smaller(odd, t->key[unit + 1]);
	}
	t->beside_grants = smaller(even, odd);
	return smaller(t->beside_grants, t->key[UNIT_GRANT]);
}

/* The first cycle of an event of another unit than @unit, or behind the cap. */
static uint64_t cycle_beside(struct rivulet_timeline *t, enum unit unit)
{
	uint64_t first = NEVER;

	t->key[unit] = NEVER;
	for (enum unit i = 0; i < UNITS; i++)
		first = smaller(first, t->key[i]);
	return smaller(cycle_of(first), cap(t) + 1);
}

static int no_event(struct rivulet_timeline *t)
{
	if (t->end == END_REACHED && drained(t)) {
		t->now = later(t->now, t->stats.cycles);
		return run_end(t);
	}
	return deadlock(t);
}

static uint32_t oldest(const struct rivulet_timeline *t)
{
	uint32_t index = t->next;

	for (int i = 0; i < RIVULET_QUEUES; i++) {
		const struct queue *q = &t->queue[i];

		if (q->flying && q->flight[q->first].e.index < index)
			index = q->flight[q->first].e.index;
	}
	return index;
}

/* Returns 1 with an event for the caller, 0 without one, or a fault. @key: of the next event. */
static int handle(struct rivulet_timeline *t, uint64_t key, const struct rivulet_event **e)
{
	enum unit unit = key & ((1u << UNIT_BITS) - 1);

	t->now = cycle_of(key);
	switch (unit) {
	case UNIT_WORK:
		t->now = work_run(&t->work, t->now, cycle_beside(t, UNIT_WORK));
		t->stale |= STALE_WORK;
		return 0;
	case UNIT_DISPATCH:
		return dispatch_until(t, cycle_beside(t, UNIT_DISPATCH));
	case UNIT_GRANT:
		grant_until(t, smaller(cycle_of(t->beside_grants), cap(t) + 1));
		return 0;
	default:
		return unit < UNIT_WORK ? end(t, unit - UNIT_END, e) :
					  start(t, unit - UNIT_START, e);
	}
}

void rivulet_timeline_drain(struct rivulet_timeline *t)
{
	const struct rivulet_event *e;
	uint64_t key;

	t->stopped = true;
	t->dma.transfer[DMA_FETCH].on = false;
	t->stale = STALE(UNITS) - 1;
	while (cycle_of(key = next_event(t)) <= cap(t))
		handle(t, key, &e);
	t->stats.cycles = later(t->stats.cycles, t->now);
}

int rivulet_timeline_next(struct rivulet_timeline *t, const struct rivulet_event **e)
{
	int r = 0;

	*e = &t->last;
	if (t->end == END_DONE)
		return 0;
	while (!r) {
		uint64_t key;

		ask_fetch(t);
		key = next_event(t);
		if (key == NEVER)
			return no_event(t);
		if (cycle_of(key) > cap(t))
			return fault_at(t, oldest(t), -RIVULET_FAULT_ENDLESS);
		r = handle(t, key, e);
	}
	return r;
}
