// SPDX-License-Identifier: MIT
/*
 * One cycle of the model: ends, dispatch and starts, the port, the scratchpads. docs/isa.md 3.1,
 * 3.2, 3.6.
 */
#include "cycle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#define IDLE_LIMIT (1u << 20) /* cycles without any event after which the job counts as stuck */

/* ---- ends ---- */

static bool is_work(const struct rivulet_decoded *d)
{
	return d->form == RIVULET_FORM_load || d->form == RIVULET_FORM_conv ||
	       d->form == RIVULET_FORM_alu || d->form == RIVULET_FORM_store;
}

static void account(struct cyc_machine *m, uint32_t queue, uint32_t index)
{
	const struct cyc_times *t = &m->times[index];

	if (!is_work(&m->insn[index])) {
		m->r->busy[queue]++;
		return;
	}
	m->r->span[queue] += t->end - t->start;
	if (queue == RIVULET_Q_CONV || queue == RIVULET_Q_ALU)
		m->r->busy[queue] += t->end - t->start;
}

static void end_instructions(struct cyc_machine *m)
{
	for (uint32_t q = 0; q < RIVULET_QUEUES; q++) {
		struct cyc_queue *u = &m->queue[q];

		while (u->retired < u->started) {
			uint32_t i = u->list[u->retired];

			if (m->times[i].end > m->now)
				break;
			m->times[i].end = m->now;
			for (uint32_t to = 0; to < RIVULET_QUEUES; to++)
				m->queue[to].token[q] += m->insn[i].h.push >> to & 1;
			u->retired++;
			account(m, q, i);
			m->progress = m->now;
		}
	}
}

/* ---- dispatch and start ---- */

static void dispatch(struct cyc_machine *m)
{
	struct cyc_fetch *f = &m->fetch;
	struct cyc_queue *u;

	if (f->dispatched + 1 >= m->count || f->dispatched >= f->next ||
	    f->arrival[f->dispatched] > m->now)
		return;
	u = &m->queue[m->insn[f->dispatched].h.queue];
	if (u->dispatched - u->started >= m->board->queue_depth)
		return;
	u->list[u->dispatched++] = f->dispatched++;
	f->places++;
	m->progress = m->now;
}

static bool engine_free(const struct cyc_machine *m, uint32_t q)
{
	const struct cyc_queue *u = &m->queue[q];

	switch (q) {
	case RIVULET_Q_LOAD:
		return m->now >= u->free_at && m->now >= m->load.free_at;
	case RIVULET_Q_STORE:
		return m->now >= u->free_at && m->now >= m->store.free_at;
	default:
		return u->started == u->retired;
	}
}

static bool may_start(const struct cyc_machine *m, uint32_t q)
{
	const struct cyc_queue *u = &m->queue[q];
	int64_t pop;

	if (u->started == u->dispatched || u->started - u->retired >= CYC_FLIGHT ||
	    !engine_free(m, q))
		return false;
	pop = m->insn[u->list[u->started]].h.pop;
	for (uint32_t from = 0; from < RIVULET_QUEUES; from++)
		if (pop >> from & 1 && !u->token[from])
			return false;
	return true;
}

static void configure(struct cyc_config *c, const struct rivulet_decoded *d)
{
	switch (d->form) {
#define CYC_TAKE(name)                                                                             \
	case RIVULET_FORM_##name:                                                                  \
		c->name = d->name;                                                                 \
		break;
		CYC_FORMS(CYC_TAKE)
#undef CYC_TAKE
	default:
		break;
	}
}

static void start(struct cyc_machine *m, uint32_t q, uint32_t index)
{
	const struct rivulet_decoded *d = &m->insn[index];

	switch (d->form) {
	case RIVULET_FORM_load:
		cyc_load_start(m, index);
		break;
	case RIVULET_FORM_conv:
		cyc_conv_start(m, index);
		break;
	case RIVULET_FORM_alu:
		cyc_alu_start(m, index);
		break;
	case RIVULET_FORM_store:
		cyc_store_start(m, index);
		break;
	default:
		configure(&m->config, d);
		m->times[index].end = m->now + 1;
		m->queue[q].free_at = m->now + 1;
	}
}

static void start_instructions(struct cyc_machine *m)
{
	for (uint32_t q = 0; q < RIVULET_QUEUES; q++) {
		struct cyc_queue *u = &m->queue[q];
		uint32_t i;

		if (!may_start(m, q))
			continue;
		i = u->list[u->started++];
		for (uint32_t from = 0; from < RIVULET_QUEUES; from++)
			u->token[from] -= m->insn[i].h.pop >> from & 1;
		m->times[i] = (struct cyc_times){ m->now, CYC_NEVER };
		m->progress = m->now;
		start(m, q, i);
	}
}

static bool all_ended(const struct cyc_machine *m)
{
	const struct cyc_fetch *f = &m->fetch;

	if (f->dispatched + 1 < m->count || f->next < m->count || f->arrival[m->count - 1] > m->now)
		return false;
	for (uint32_t q = 0; q < RIVULET_QUEUES; q++)
		if (m->queue[q].retired < m->queue[q].dispatched)
			return false;
	return true;
}

/* ---- the port ---- */

/* Instructions of the next burst of the fetch unit; 0: it requests none. */
static uint32_t fetch_asks(const struct cyc_machine *m)
{
	const struct cyc_fetch *f = &m->fetch;
	uint64_t addr = f->at + 16ull * f->next;
	uint32_t n = cyc_min((256 - addr % 256) / 16, m->count - f->next);

	return n <= f->places ? n : 0;
}

static uint64_t fetch_granted(struct cyc_machine *m, uint32_t n)
{
	struct cyc_fetch *f = &m->fetch;
	uint64_t p = m->board->port_bytes, addr = f->at + 16ull * f->next, last = 0;

	for (uint32_t i = 0; i < n; i++) {
		last = (addr + 16 * i + 15) / p - addr / p;
		f->arrival[f->next + i] = m->now + m->board->mem_latency + last;
	}
	f->next += n;
	f->places -= n;
	return last + 1;
}

static bool port_full(struct cyc_machine *m)
{
	struct cyc_port *p = &m->port;

	while (p->head < p->tail && p->expiry[p->head % m->board->bursts] <= m->now)
		p->head++;
	return p->tail - p->head >= m->board->bursts;
}

/* Grants a burst to LOAD or STORE. Returns its beats, or 0 if neither requests one. */
static uint64_t grant_data(struct cyc_machine *m)
{
	bool load = cyc_load_asks(m), store = cyc_store_asks(m);
	uint64_t beats;

	if (!load && !store)
		return 0;
	m->port.store_last = store && !(load && m->port.store_last);
	if (m->port.store_last) {
		beats = m->store.burst.beats;
		cyc_store_granted(m);
	} else {
		beats = m->load.burst.beats;
		cyc_load_granted(m);
	}
	m->r->busy[m->port.store_last ? RIVULET_Q_STORE : RIVULET_Q_LOAD] +=
		beats + m->board->burst_gap;
	return beats;
}

static void grant(struct cyc_machine *m)
{
	struct cyc_port *p = &m->port;
	uint32_t fetch;
	uint64_t beats;

	if (m->now < p->free_at || port_full(m))
		return;
	fetch = fetch_asks(m);
	beats = fetch ? fetch_granted(m, fetch) : grant_data(m);
	if (!beats)
		return;
	p->free_at = m->now + beats + m->board->burst_gap;
	p->expiry[p->tail++ % m->board->bursts] = m->now + m->board->mem_latency;
	m->progress = m->now;
}

/* ---- the scratchpads ---- */

/* The accesses that the engines request in this cycle, and which of them are granted. */
struct access {
	struct cyc_want conv, alu_read, alu_write, load, store;
	bool got_conv, got_alu_read, got_alu_write, got_load, got_store;
};

static bool same(const struct cyc_want *a, const struct cyc_want *b)
{
	return a->mem == b->mem && a->unit == b->unit;
}

static void take_half(const struct cyc_want *w, uint32_t half, bool *taken, bool *got)
{
	if (*taken || w->mem != CYC_ACC || w->unit != half)
		return;
	*taken = true;
	*got = true;
}

static bool wants_half(const struct cyc_want *w, uint32_t half)
{
	return w->mem == CYC_ACC && w->unit == half;
}

static void arbitrate_half(struct cyc_machine *m, struct access *a, uint32_t half)
{
	bool others = wants_half(&a->alu_read, half) || wants_half(&a->alu_write, half) ||
		      wants_half(&a->load, half) || wants_half(&a->store, half);
	bool conv = wants_half(&a->conv, half), taken = false;

	if (conv && !(others && m->acc_conv[half])) {
		a->got_conv = true;
		m->acc_conv[half] = true;
		return;
	}
	if (!others)
		return;
	take_half(&a->alu_write, half, &taken, &a->got_alu_write);
	take_half(&a->alu_read, half, &taken, &a->got_alu_read);
	take_half(&a->load, half, &taken, &a->got_load);
	take_half(&a->store, half, &taken, &a->got_store);
	m->acc_conv[half] = false;
}

static void arbitrate_reads(struct cyc_machine *m, struct access *a)
{
	uint64_t conv = 0;

	if (a->alu_read.mem != CYC_INP && a->store.mem != CYC_INP)
		return;
	if (a->got_conv)
		conv = cyc_conv_banks(m);
	if (a->alu_read.mem == CYC_INP)
		a->got_alu_read = !(conv >> a->alu_read.unit & 1);
	if (a->store.mem == CYC_INP)
		a->got_store = !(conv >> a->store.unit & 1) &&
			       !(a->got_alu_read && same(&a->store, &a->alu_read));
}

static void arbitrate(struct cyc_machine *m, struct access *a)
{
	arbitrate_half(m, a, 0);
	arbitrate_half(m, a, 1);
	a->got_conv |= a->conv.mem == CYC_FREE;
	arbitrate_reads(m, a);
	if (a->alu_write.mem == CYC_INP)
		a->got_alu_write = true;
	if (a->load.mem == CYC_INP)
		a->got_load = !same(&a->load, &a->alu_write);
	if (a->alu_read.mem == CYC_WGT)
		a->got_alu_read = !(a->got_conv && cyc_conv_reads_weights(m));
	a->got_alu_read |= a->alu_read.mem == CYC_FREE;
	a->got_load |= a->load.mem == CYC_FREE;
	a->got_store |= a->store.mem == CYC_FREE;
}

static void access_scratchpads(struct cyc_machine *m)
{
	struct access a = {
		.conv = cyc_conv_wants(m),
		.alu_read = cyc_alu_reads(m),
		.alu_write = cyc_alu_writes(m),
		.load = cyc_load_wants(m),
		.store = cyc_store_wants(m),
	};

	arbitrate(m, &a);
	if (a.got_conv)
		cyc_conv_step(m);
	cyc_alu_step(m, a.got_alu_read, a.got_alu_write);
	cyc_load_step(m, a.got_load);
	cyc_store_step(m, a.got_store);
	if (a.got_conv || a.got_alu_read || a.got_load || a.got_store)
		m->progress = m->now;
}

/* ---- a job ---- */

/* Whether no further event is possible: the oldest instructions of all queues wait for an event. */
static bool stuck(const struct cyc_machine *m)
{
	if (m->now - m->progress <= IDLE_LIMIT)
		return false;
	for (uint32_t q = 0; q < RIVULET_QUEUES; q++) {
		const struct cyc_queue *u = &m->queue[q];

		if (u->retired < u->started && m->times[u->list[u->retired]].end != CYC_NEVER)
			return false;
	}
	return true;
}

static int step(struct cyc_machine *m)
{
	for (;; m->now++) {
		end_instructions(m);
		dispatch(m);
		start_instructions(m);
		if (all_ended(m))
			break;
		grant(m);
		access_scratchpads(m);
		if (stuck(m))
			return -EDEADLK;
	}
	m->times[m->count - 1] = (struct cyc_times){ m->now, m->now + 1 };
	m->r->busy[m->insn[m->count - 1].h.queue]++;
	m->r->cycles = m->now + 1;
	return 0;
}

static int decode(struct cyc_machine *m, const struct rivulet_insn *code)
{
	const struct rivulet_decoded *last = &m->insn[m->count - 1];

	for (uint32_t i = 0; i < m->count; i++)
		if (rivulet_decode(&code[i], &m->insn[i]))
			return -EINVAL;
	return last->form == RIVULET_FORM_sync && last->sync.kind == RIVULET_SYNC_END ? 0 : -EINVAL;
}

static int allocate(struct cyc_machine *m)
{
	int rc = cyc_load_init(m);

	if (!rc)
		rc = cyc_store_init(m);
	m->insn = calloc(m->count, sizeof(*m->insn));
	m->fetch.arrival = calloc(m->count, sizeof(*m->fetch.arrival));
	m->port.expiry = calloc(m->board->bursts, sizeof(*m->port.expiry));
	m->times = calloc(m->count, sizeof(*m->times));
	for (uint32_t q = 0; q < RIVULET_QUEUES; q++) {
		m->queue[q].list = calloc(m->count, sizeof(uint32_t));
		rc = m->queue[q].list ? rc : -ENOMEM;
	}
	return m->insn && m->fetch.arrival && m->port.expiry && m->times ? rc : -ENOMEM;
}

static void release(struct cyc_machine *m)
{
	for (uint32_t q = 0; q < RIVULET_QUEUES; q++)
		free(m->queue[q].list);
	free(m->load.fifo);
	free(m->store.leave);
	free(m->insn);
	free(m->fetch.arrival);
	free(m->port.expiry);
	free(m->times);
	free(m);
}

int cyc_run(const struct rivulet_board *b, const struct rivulet_insn *code, uint32_t count,
	    uint64_t at, struct cyc_result *r, struct cyc_times *times)
{
	struct cyc_machine *m = calloc(1, sizeof(*m));
	int rc;

	memset(r, 0, sizeof(*r));
	if (!m || !count) {
		free(m);
		return m ? -EINVAL : -ENOMEM;
	}
	m->board = b;
	m->count = count;
	m->r = r;
	m->fetch.at = at;
	m->fetch.places = CYC_PLACES;
	rc = allocate(m);
	if (!rc)
		rc = decode(m, code);
	if (!rc)
		rc = step(m);
	if (!rc && times)
		memcpy(times, m->times, count * sizeof(*times));
	release(m);
	return rc;
}
