// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
#include "dma.h"

#include <stddef.h>
#include <string.h>

#define SLOW_UNIT 1024

/* The loop over the bursts of an instruction keeps a transfer in registers. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

static ALWAYS_INLINE uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- parts ---- */

static void divide(struct dma_parts *p, uint64_t total, uint64_t n)
{
	*p = (struct dma_parts){ .each = total / n, .rest = total % n, .n = n };
}

static ALWAYS_INLINE uint64_t take(struct dma_parts *p)
{
	p->sum += p->rest;
	if (p->sum < p->n)
		return p->each;
	p->sum -= p->n;
	return p->each + 1;
}

/* ---- FIFO ---- */

static ALWAYS_INLINE void fifo_pop(struct dma_fifo *f)
{
	f->used -= f->bytes[f->head];
	f->head = (f->head + 1) % DMA_FIFO_MAX;
	f->count--;
}

/* The first cycle, @at or later, in which the FIFO has room for @bytes more. */
static ALWAYS_INLINE uint64_t fifo_room(struct dma_fifo *f, uint64_t bytes, uint64_t at)
{
	while (f->count && (f->used + bytes > f->size || f->count == DMA_FIFO_MAX)) {
		at = later(at, f->release[f->head]);
		fifo_pop(f);
	}
	return at;
}

static ALWAYS_INLINE void fifo_put(struct dma_fifo *f, uint64_t bytes, uint64_t release)
{
	uint32_t at = (f->head + f->count++) % DMA_FIFO_MAX;

	f->bytes[at] = bytes;
	f->release[at] = release;
	f->used += bytes;
}

/* ---- an instruction ---- */

/*
 * The bytes of the FIFO that a step needs are whole beats for LOAD, and the bytes that go to memory
 * for STORE.
 */
static void divide_steps(const struct dma *d, struct dma_transfer *t, const struct rivulet_cost *c)
{
	uint64_t strips = c->strips < t->steps ? c->strips : t->steps;

	divide(&t->bursts, c->bursts, t->steps);
	divide(&t->beats, c->beats, t->steps);
	if (t == &d->transfer[DMA_STORE])
		divide(&t->bytes, c->write_bytes, t->steps);
	t->stripped = strips;
	divide(&t->strips, strips, t->steps);
	divide(&t->words, c->spad, strips ? strips : t->steps);
	t->part.last = true;
}

static ALWAYS_INLINE void next_step(const struct dma *d, enum dma_user who, struct dma_transfer *t)
{
	t->part.bursts = take(&t->bursts);
	t->part.beats = take(&t->beats);
	t->part.first = t->part.last;
	t->part.last = !t->stripped || take(&t->strips);
	if (t->part.first)
		t->part.words = take(&t->words);
	if (who == DMA_STORE)
		t->part.bytes = take(&t->bytes);
	else
		t->part.bytes = t->part.beats * d->board->port_bytes;
}

/* Sets the cycle in which LOAD requests the next burst, which needs room in the buffer. */
static ALWAYS_INLINE void ready_load(struct dma_transfer *t, uint64_t at)
{
	if (!t->stripped)
		at = fifo_room(t->fifo, t->part.bytes, at);
	else if (t->part.first)
		at = later(at, t->strip[0]);
	t->ready = at;
}

static ALWAYS_INLINE uint64_t delayed(uint64_t words, uint32_t slow)
{
	return slow ? words + words * slow / SLOW_UNIT : words;
}

/*
 * Sets the cycle in which STORE requests the next burst: it first reads the words of the burst, or
 * of the strip, from the scratchpad.
 */
static ALWAYS_INLINE void ready_store(struct dma_transfer *t, uint32_t slow)
{
	uint64_t words = delayed(t->part.words, slow);

	if (!t->stripped) {
		t->spad = fifo_room(t->fifo, t->part.bytes, t->spad) + words;
		t->ready = t->spad;
	} else if (t->part.first) {
		t->spad = later(t->spad, t->strip[0]) + words;
		t->ready = t->spad;
	}
}

static ALWAYS_INLINE void prepare(const struct dma *d, enum dma_user who, struct dma_transfer *t,
				  uint64_t at, uint32_t slow)
{
	next_step(d, who, t);
	if (who == DMA_LOAD)
		ready_load(t, at);
	else
		ready_store(t, slow);
}

void dma_start(struct dma *d, enum dma_user who, const struct rivulet_cost *cost, uint64_t now)
{
	struct dma_transfer *t = &d->transfer[who];

	t->step = 0;
	t->steps = cost->bursts < DMA_STEPS_MAX ? cost->bursts : DMA_STEPS_MAX;
	t->spad = who == DMA_LOAD ? later(t->spad, now) + cost->pad : now;
	t->on = t->steps > 0;
	if (!t->on) {
		t->spad += cost->spad;
		return;
	}
	divide_steps(d, t, cost);
	prepare(d, who, t, now, 0);
}

/*
 * Accounts for the words that the fill stage writes for a step whose beats arrive in cycles @first
 * to @data.
 */
static ALWAYS_INLINE uint64_t fill(struct dma_transfer *t, uint64_t first, uint64_t data,
				   uint32_t slow)
{
	uint64_t words = delayed(t->part.words, slow);

	if (!t->stripped) {
		t->spad = later(later(t->spad, first) + words, data);
		fifo_put(t->fifo, t->part.bytes, t->spad);
		return words;
	}
	if (!t->part.last)
		return 0;
	t->spad = later(t->spad, data) + words;
	t->strip[0] = t->strip[1];
	t->strip[1] = t->spad;
	return words;
}

static ALWAYS_INLINE uint64_t send(struct dma_transfer *t, uint64_t sent)
{
	if (!t->stripped) {
		fifo_put(t->fifo, t->part.bytes, sent);
		return t->part.words;
	}
	if (!t->part.last)
		return 0;
	t->strip[0] = t->strip[1];
	t->strip[1] = sent;
	return t->part.words;
}

/* ---- the port ---- */

void dma_init(struct dma *d, const struct rivulet_board *b)
{
	memset(d, 0, offsetof(struct dma, fifo));
	d->board = b;
	d->last = DMA_STORE;
	for (int i = 0; i < DMA_USERS; i++) {
		d->transfer[i].fifo = &d->fifo[i];
		d->fifo[i].head = d->fifo[i].count = 0;
		d->fifo[i].used = 0;
		d->fifo[i].size = (uint64_t)b->bursts * b->burst_bytes;
	}
}

void dma_ask(struct dma *d, uint64_t beats, uint64_t now)
{
	struct dma_transfer *t = &d->transfer[DMA_FETCH];

	t->on = true;
	t->part.bursts = 1;
	t->part.beats = beats;
	t->steps = 1;
	t->step = 0;
	t->ready = now;
}

/* The first cycle in which the port can grant a burst. */
static ALWAYS_INLINE uint64_t port_ready(const struct dma *d)
{
	uint64_t at = d->free;

	if (d->grants >= d->board->bursts)
		at = later(at, d->grant[(d->grants - d->board->bursts) % DMA_GRANTS] +
				       d->board->mem_latency);
	return at;
}

uint64_t dma_next(const struct dma *d, enum dma_user *who)
{
	uint64_t port = port_ready(d), best = DMA_NEVER;

	for (int i = 0; i < DMA_USERS; i++) {
		uint64_t at = later(port, d->transfer[i].ready);

		if (!d->transfer[i].on || at > best)
			continue;
		/*
		 * For the same cycle FETCH is granted first, then the one of LOAD and STORE that
		 * was not granted last.
		 */
		if (at == best && (*who == DMA_FETCH || d->last != DMA_LOAD))
			continue;
		best = at;
		*who = i;
	}
	return best;
}

/*
 * The cycles for which a step holds the port. A step of several bursts takes at least the time for
 * which they are outstanding, divided by the bursts that may be outstanding.
 */
static ALWAYS_INLINE uint64_t hold(const struct dma *d, const struct dma_transfer *t)
{
	uint64_t bursts = t->part.bursts, cycles = t->part.beats + bursts * d->board->burst_gap;

	if (bursts == 1)
		return cycles;
	return later(cycles, bursts * d->board->mem_latency / d->board->bursts);
}

static ALWAYS_INLINE struct dma_grant serve(struct dma *d, enum dma_user who, struct dma_transfer *t,
					    uint64_t now, uint32_t slow)
{
	uint64_t beats = t->part.beats, first = now + d->board->mem_latency;
	struct dma_grant g = { .free = now + hold(d, t), .last = t->step + 1 == t->steps };

	d->grant[d->grants++ % DMA_GRANTS] = now;
	d->free = g.free;
	if (who == DMA_LOAD)
		g.words = fill(t, first, first + beats, slow);
	else if (who == DMA_STORE)
		g.words = send(t, now + beats);
	if (who != DMA_FETCH)
		d->last = who;
	g.end = who == DMA_LOAD ? t->spad : first + beats;
	t->step++;
	t->on = !g.last;
	if (t->on)
		prepare(d, who, t, g.free, slow);
	return g;
}

struct dma_grant dma_serve(struct dma *d, enum dma_user who, uint64_t now, uint32_t slow)
{
	return serve(d, who, &d->transfer[who], now, slow);
}

static bool alone(const struct dma *d, enum dma_user who)
{
	for (int i = 0; i < DMA_USERS; i++)
		if (i != (int)who && d->transfer[i].on)
			return false;
	return true;
}

/* ---- steps that repeat ---- */

#define STATE_MOST 32 /* bursts outstanding, and steps in a FIFO, of a state */
#define STATES	   5  /* that are compared of a run before it is taken not to repeat */
#define LEAST	   16 /* steps of a run in which equal states are looked for */

/*
 * What the grants of a transfer depend on, if its steps are equal: cycles relative to that of the
 * next grant, of the bursts outstanding and of the steps in the FIFO.
 */
struct state {
	uint64_t free, spad, ready, count;
	uint64_t release[STATE_MOST], bytes[STATE_MOST], grant[STATE_MOST];
};

/*
 * The search for two equal states: the first two that follow one another, where the port is always
 * busy, and then such that are as many steps apart as bursts may be outstanding.
 */
struct repeat {
	uint64_t wait;	   /* steps to the next state; 0: none */
	uint64_t period;   /* steps from @state to the next state */
	uint64_t at, busy; /* of @state: cycle of the next grant, and dma_run.busy */
	uint32_t states;   /* taken so far */
	struct state state;
};

static bool all_equal(const struct dma_transfer *t)
{
	return !t->stripped && !t->bursts.rest && !t->beats.rest && !t->words.rest &&
	       !t->bytes.rest;
}

static void repeat_init(struct repeat *p, const struct dma *d, const struct dma_transfer *t,
			uint64_t at, uint64_t until)
{
	uint64_t step = t->part.beats + d->board->burst_gap;

	p->states = 0;
	p->wait = 0;
	if (t->steps - t->step > LEAST && until - at > LEAST * step && all_equal(t) &&
	    d->board->bursts <= STATE_MOST && d->grants >= d->board->bursts)
		p->wait = 1;
}

/* False where the FIFO has too many steps for a state. */
static bool state_of(const struct dma *d, const struct dma_transfer *t, uint64_t at,
		     struct state *s)
{
	const struct dma_fifo *f = t->fifo;

	s->free = d->free - at;
	s->spad = t->spad - at;
	s->ready = t->ready - at;
	s->count = f->count;
	if (f->count > STATE_MOST)
		return false;
	for (uint32_t i = 0; i < f->count; i++) {
		s->release[i] = f->release[(f->head + i) % DMA_FIFO_MAX] - at;
		s->bytes[i] = f->bytes[(f->head + i) % DMA_FIFO_MAX];
	}
	for (uint32_t i = 0; i < d->board->bursts; i++)
		s->grant[i] = d->grant[(d->grants - 1 - i) % DMA_GRANTS] - at;
	return true;
}

static bool same_state(const struct state *a, const struct state *b, uint32_t bursts)
{
	return a->free == b->free && a->spad == b->spad && a->ready == b->ready &&
	       a->count == b->count &&
	       !memcmp(a->release, b->release, a->count * sizeof(*a->release)) &&
	       !memcmp(a->bytes, b->bytes, a->count * sizeof(*a->bytes)) &&
	       !memcmp(a->grant, b->grant, bursts * sizeof(*a->grant));
}

/* Makes @n steps, after which all cycles are @cycles later. */
static void skip(struct dma *d, struct dma_transfer *t, uint64_t n, uint64_t cycles)
{
	struct dma_fifo *f = t->fifo;

	t->step += n;
	t->spad += cycles;
	t->ready += cycles;
	d->free += cycles;
	for (uint32_t i = 0; i < f->count; i++)
		f->release[(f->head + i) % DMA_FIFO_MAX] += cycles;
	for (uint32_t i = 0; i < d->board->bursts; i++)
		d->grant[(d->grants - 1 - i) % DMA_GRANTS] += cycles;
}

/*
 * Skips the steps in which the state repeats before cycle @until. @at: of the next grant; returns
 * that of the grant behind the skipped ones.
 */
static uint64_t skip_repeats(struct dma *d, struct dma_transfer *t, struct repeat *p, uint64_t at,
			     uint64_t until, struct dma_run *r)
{
	uint64_t each = at - p->at, n;
	struct state now;

	if (p->states == STATES || !state_of(d, t, at, &now))
		return at;
	if (!p->states || !same_state(&p->state, &now, d->board->bursts)) {
		p->period = p->wait = p->states ? d->board->bursts : 1;
		p->states++;
		p->state = now;
		p->at = at;
		p->busy = r->busy;
		return at;
	}
	if (at >= until || t->step + 1 >= t->steps)
		return at;
	n = (t->steps - 1 - t->step) / p->period;
	if (n > (until - at) / each)
		n = (until - at) / each;
	skip(d, t, n * p->period, n * each);
	r->busy += n * (r->busy - p->busy);
	r->last += n * each;
	return at + n * each;
}

/* The grants of dma_run(), without questions whose answers @who gives. */
static ALWAYS_INLINE uint64_t run(struct dma *d, enum dma_user who, uint64_t at, uint64_t until,
				  uint32_t slow, struct dma_run *r)
{
	struct dma_transfer t = d->transfer[who];
	struct repeat p;

	repeat_init(&p, d, &t, at, until);
	while (t.step + 1 < t.steps && at < until) {
		struct dma_grant g = serve(d, who, &t, at, slow);

		r->last = at;
		r->busy += g.free - at;
		at = later(port_ready(d), t.ready);
		if (p.wait && !--p.wait)
			at = skip_repeats(d, &t, &p, at, until, r);
	}
	d->transfer[who] = t;
	return at;
}

struct dma_run dma_run(struct dma *d, enum dma_user who, uint64_t at, uint64_t until, uint32_t slow)
{
	struct dma_run r = { .last = at, .next = at };

	const struct dma_transfer *t = &d->transfer[who];

	if (at >= until || t->step + 1 >= t->steps || !alone(d, who))
		return r;
	if (who == DMA_LOAD)
		r.next = run(d, DMA_LOAD, at, until, slow, &r);
	else if (who == DMA_STORE)
		r.next = run(d, DMA_STORE, at, until, slow, &r);
	return r;
}
