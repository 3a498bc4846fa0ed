// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
#include "dma.h"

#include <string.h>

#define SLOW_UNIT 1024

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The part of @total that belongs to step @i of @n; the parts differ by one at most. */
static uint64_t share(uint64_t total, uint64_t i, uint64_t n)
{
	return total * (i + 1) / n - total * i / n;
}

/* ---- FIFO ---- */

static void fifo_pop(struct dma_fifo *f)
{
	f->used -= f->bytes[f->head];
	f->head = (f->head + 1) % DMA_FIFO_MAX;
	f->count--;
}

/* The first cycle, @at or later, in which the FIFO has room for @bytes more. */
static uint64_t fifo_room(struct dma_fifo *f, uint64_t bytes, uint64_t at)
{
	while (f->count && (f->used + bytes > f->size || f->count == DMA_FIFO_MAX)) {
		at = later(at, f->release[f->head]);
		fifo_pop(f);
	}
	return at;
}

static void fifo_put(struct dma_fifo *f, uint64_t bytes, uint64_t release)
{
	uint32_t at = (f->head + f->count++) % DMA_FIFO_MAX;

	f->bytes[at] = bytes;
	f->release[at] = release;
	f->used += bytes;
}

/* ---- an instruction ---- */

static uint64_t strip_of(const struct dma_transfer *t, uint64_t step)
{
	return step * t->cost.strips / t->steps;
}

static bool first_of_strip(const struct dma_transfer *t)
{
	return !t->step || strip_of(t, t->step) != strip_of(t, t->step - 1);
}

static bool last_of_strip(const struct dma_transfer *t)
{
	return t->step + 1 == t->steps || strip_of(t, t->step) != strip_of(t, t->step + 1);
}

/*
 * The bytes of the FIFO that a step needs: whole beats for LOAD, the bytes that go to memory for
 * STORE.
 */
static uint64_t step_bytes(const struct dma *d, const struct dma_transfer *t)
{
	if (t == &d->transfer[DMA_STORE])
		return share(t->cost.write_bytes, t->step, t->steps);
	return share(t->cost.beats, t->step, t->steps) * d->board->port_bytes;
}

/* Sets the cycle in which LOAD requests the next burst, which needs room in the buffer. */
static void ready_load(struct dma *d, uint64_t at)
{
	struct dma_transfer *t = &d->transfer[DMA_LOAD];

	if (!t->cost.strips)
		at = fifo_room(&t->fifo, step_bytes(d, t), at);
	else if (first_of_strip(t))
		at = later(at, t->strip[0]);
	t->ready = at;
}

static uint64_t delayed(uint64_t words, uint32_t slow)
{
	return words + words * slow / SLOW_UNIT;
}

/*
 * Sets the cycle in which STORE requests the next burst: it first reads the words of the burst, or
 * of the strip, from the scratchpad.
 */
static void ready_store(struct dma *d, uint32_t slow)
{
	struct dma_transfer *t = &d->transfer[DMA_STORE];
	uint64_t words;

	if (!t->cost.strips) {
		words = delayed(share(t->cost.spad, t->step, t->steps), slow);
		t->spad = fifo_room(&t->fifo, step_bytes(d, t), t->spad) + words;
		t->ready = t->spad;
	} else if (first_of_strip(t)) {
		words = share(t->cost.spad, strip_of(t, t->step), t->cost.strips);
		t->spad = later(t->spad, t->strip[0]) + delayed(words, slow);
		t->ready = t->spad;
	}
}

static void prepare(struct dma *d, enum dma_user who, uint64_t at, uint32_t slow)
{
	if (who == DMA_LOAD)
		ready_load(d, at);
	else
		ready_store(d, slow);
}

void dma_start(struct dma *d, enum dma_user who, const struct rivulet_cost *cost, uint64_t now)
{
	struct dma_transfer *t = &d->transfer[who];

	t->cost = *cost;
	t->step = 0;
	t->steps = cost->bursts < DMA_STEPS_MAX ? cost->bursts : DMA_STEPS_MAX;
	if (t->cost.strips > t->steps)
		t->cost.strips = t->steps;
	t->spad = who == DMA_LOAD ? later(t->spad, now) + cost->pad : now;
	t->on = t->steps > 0;
	if (t->on)
		prepare(d, who, now, 0);
	else
		t->spad += cost->spad;
}

/*
 * Accounts for the words that the fill stage writes for a step whose beats arrive in cycles @first
 * to @data.
 */
static uint64_t fill(struct dma *d, uint64_t first, uint64_t data, uint32_t slow)
{
	struct dma_transfer *t = &d->transfer[DMA_LOAD];
	uint64_t words;

	if (!t->cost.strips) {
		words = delayed(share(t->cost.spad, t->step, t->steps), slow);
		t->spad = later(later(t->spad, first) + words, data);
		fifo_put(&t->fifo, step_bytes(d, t), t->spad);
		return words;
	}
	if (!last_of_strip(t))
		return 0;
	words = delayed(share(t->cost.spad, strip_of(t, t->step), t->cost.strips), slow);
	t->spad = later(t->spad, data) + words;
	t->strip[0] = t->strip[1];
	t->strip[1] = t->spad;
	return words;
}

static uint64_t send(struct dma *d, uint64_t sent)
{
	struct dma_transfer *t = &d->transfer[DMA_STORE];

	if (!t->cost.strips) {
		fifo_put(&t->fifo, step_bytes(d, t), sent);
		return share(t->cost.spad, t->step, t->steps);
	}
	if (!last_of_strip(t))
		return 0;
	t->strip[0] = t->strip[1];
	t->strip[1] = sent;
	return share(t->cost.spad, strip_of(t, t->step), t->cost.strips);
}

/* ---- the port ---- */

void dma_init(struct dma *d, const struct rivulet_board *b)
{
	memset(d, 0, sizeof(*d));
	d->board = b;
	d->last = DMA_STORE;
	for (int i = 0; i < DMA_USERS; i++)
		d->transfer[i].fifo.size = (uint64_t)b->bursts * b->burst_bytes;
}

void dma_ask(struct dma *d, uint64_t beats, uint64_t now)
{
	struct dma_transfer *t = &d->transfer[DMA_FETCH];

	t->on = true;
	t->cost = (struct rivulet_cost){ .bursts = 1, .beats = beats };
	t->steps = 1;
	t->step = 0;
	t->ready = now;
}

/* The first cycle in which the port can grant a burst. */
static uint64_t port_ready(const struct dma *d)
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
static uint64_t hold(const struct dma *d, const struct dma_transfer *t, uint64_t beats)
{
	uint64_t bursts = share(t->cost.bursts, t->step, t->steps);
	uint64_t cycles = beats + bursts * d->board->burst_gap;

	if (bursts == 1)
		return cycles;
	return later(cycles, bursts * d->board->mem_latency / d->board->bursts);
}

struct dma_grant dma_serve(struct dma *d, enum dma_user who, uint64_t now, uint32_t slow)
{
	struct dma_transfer *t = &d->transfer[who];
	uint64_t beats = share(t->cost.beats, t->step, t->steps);
	uint64_t first = now + d->board->mem_latency;
	struct dma_grant g = { .free = now + hold(d, t, beats), .last = t->step + 1 == t->steps };

	d->grant[d->grants++ % DMA_GRANTS] = now;
	d->free = g.free;
	if (who == DMA_LOAD)
		g.words = fill(d, first, first + beats, slow);
	else if (who == DMA_STORE)
		g.words = send(d, now + beats);
	if (who != DMA_FETCH)
		d->last = who;
	g.end = who == DMA_LOAD ? t->spad : first + beats;
	t->step++;
	t->on = !g.last;
	if (t->on)
		prepare(d, who, g.free, slow);
	return g;
}
