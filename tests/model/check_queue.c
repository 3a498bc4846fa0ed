// SPDX-License-Identifier: MIT
/*
 * Model checker of the queue protocol. It runs an abstract driver and the device's queue.c through
 * every interleaving of their single writes, within bounds. Both sides have a store buffer: each
 * written word becomes visible to the other side at any later time, in order, also between two
 * reads of the device. Doorbells and interrupts coalesce, and one may be lost. A running job may
 * end, fault or be drained at any time.
 *
 * Checked in every state: each job retires once, with its status visible first; nothing starts
 * while frozen or held, nor after an ABORT or RESET of the job was acknowledged; only descriptors
 * that the driver keeps are fetched; a queued job never runs at a level below its min_level, unless
 * that was forced. Checked in every final state: all jobs have retired, all requests are
 * acknowledged and nothing runs, so there is no deadlock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"

#define JOBS	    4
#define FIFO	    20
#define BASE	    0xfffffffdu
#define STACK	    4096
#define DRV_WORDS   20
#define RACE_READS  8 /* within one step; later ones would find what the next step finds */
#define RACE_WRITES 5

/* A write in a store buffer: to a register, or one of these. */
enum { W_DOORBELL = 0xf000, W_IRQ, W_STATUS };

struct write {
	uint16_t what;
	uint16_t job;
	uint32_t value;
};

struct fifo {
	uint32_t n;
	struct write w[FIFO];
};

enum kind { GOOD, MIN1, BAD };
enum runner { IDLE, RUNNING, ENDED };

struct job {
	uint32_t seq;
	uint8_t kind;
	uint8_t submitted; /* the device may read the descriptor, which the driver keeps */
	uint8_t retired;
	uint8_t status; /* visible state; 0: none */
	uint8_t abort_asked;
	uint8_t dead; /* its ABORT or RESET was acknowledged: it must not run */
	uint8_t low;  /* a level below its min_level was requested before the job became visible */
	uint8_t ran;
};

struct limits {
	const char *name;
	uint8_t jobs, faults, aborts, resets, holds, levels, forces, lost_irqs, lost_bells;
	uint8_t kind[JOBS];
};

struct state {
	struct rvl_queue q;
	uint32_t drv[DRV_WORDS]; /* 0x400..0x44f as the device sees them */
	uint32_t dev[16];	 /* 0x800..0x83f as the driver sees them */
	struct fifo from_drv, from_dev;
	struct job job[JOBS];
	struct limits left;
	/* device side */
	uint8_t bell, again, runner, stop, run_job;
	struct rvl_outcome outcome;
	/* driver side */
	uint8_t irq, phase, abort_open, reset_open, hold_open, holding, level_open, forced;
	uint8_t irq_was_lost, bell_was_lost;
	uint32_t last, done, abort_seq;
	uint32_t req[5]; /* reset, abort, resume, level, hold */
};

static struct state *now; /* the state that the operations of queue.c act on */
static _Atomic uint32_t words[RVL_WINDOW_WORDS];
static const char *violation;
static const struct limits *current_limits;
static int race_after, race_writes;

static void flush_drv(struct state *s);

static void require(bool ok, const char *what)
{
	if (!ok && !violation)
		violation = what;
}

static void push(struct fifo *f, uint32_t what, uint32_t job, uint32_t value)
{
	require(f->n < FIFO, "the store buffer of the model is full");
	if (f->n < FIFO)
		f->w[f->n++] = (struct write){ what, job, value };
}

static struct job *job_of_seq(struct state *s, uint32_t seq)
{
	for (int i = 0; i < JOBS; i++)
		if (s->job[i].submitted && s->job[i].seq == seq)
			return &s->job[i];
	return NULL;
}

/* Callbacks of queue.c in the device. */

static bool next_waits(const struct rvl_queue *q, uint32_t done)
{
	return q->slot[(done + 1) & 1].queued && !q->frozen && !q->held && q->current == done;
}

static void dev_trace(void *ctx, uint32_t reg, uint32_t value)
{
	(void)ctx;
	if (reg == RIVULET_REG_HELD && value)
		require(now->runner == IDLE, "HELD while a job runs");
	if (reg == RIVULET_REG_DONE_SEQ)
		require(!next_waits(&now->q, value), "NEXT is not promoted before DONE_SEQ");
	push(&now->from_dev, reg, 0, value);
}

/* Makes some of the driver's writes visible between two reads of the device. */
static void dev_reading(void *ctx, uint32_t reg)
{
	(void)ctx;
	(void)reg;
	if (race_after-- != 0)
		return;
	while (race_writes && now->from_drv.n) {
		race_writes--;
		flush_drv(now);
	}
	for (int i = 0; i < DRV_WORDS; i++)
		words[0x400 / 4 + i] = now->drv[i];
}

static void dev_fetch(void *ctx, uint64_t addr, struct rvl_entry *e)
{
	struct job *j;

	(void)ctx;
	require(addr >= 1 && addr <= JOBS, "a descriptor address that was never written");
	j = &now->job[(addr - 1) % JOBS];
	require(j->submitted && j->seq == e->seq, "a descriptor that the driver does not keep");
	e->irq = true;
	e->variants = 3;
	e->min_level = j->kind == MIN1;
	e->fault = j->kind == BAD ? RIVULET_FAULT_DESC_CRC : 0;
}

static void dev_start(void *ctx, const struct rvl_entry *e, uint32_t level)
{
	struct job *j = job_of_seq(now, e->seq);

	(void)ctx;
	require(j != NULL, "started an entry that the driver does not keep");
	require(now->runner == IDLE, "started while another job runs");
	require(level == now->q.level && level >= e->min_level, "started at a wrong level");
	require(!now->q.frozen && !now->q.held, "started while frozen or held");
	if (!j)
		return;
	require(!j->dead, "started after its ABORT or RESET was acknowledged");
	require(!j->ran, "started twice");
	j->ran = 1;
	now->runner = RUNNING;
	now->stop = 0;
	now->run_job = j - now->job;
}

static bool dev_ended(void *ctx, struct rvl_outcome *o)
{
	(void)ctx;
	if (now->runner == ENDED)
		*o = now->outcome;
	return now->runner == ENDED;
}

static void dev_stop(void *ctx, bool reset)
{
	(void)ctx;
	(void)reset;
	now->stop = 1;
}

static void check_no_variant(const struct job *j)
{
	require(j->low || now->forced, "NO_VARIANT for a job that was queued before the level");
}

static void dev_report(void *ctx, const struct rvl_entry *e, bool ran, struct rvl_outcome *o)
{
	struct job *j = job_of_seq(now, e->seq);

	(void)ctx;
	require(j != NULL, "retired what is not the driver's");
	if (!j)
		return;
	require(ran == (now->runner == ENDED), "retired before it ended");
	if (o->state == RIVULET_STATE_ABORTED)
		require(j->abort_asked, "ABORTED without being asked");
	if (o->state == RIVULET_STATE_NO_VARIANT)
		check_no_variant(j);
	if (!e->fault)
		push(&now->from_dev, W_STATUS, j - now->job, o->state);
	if (ran)
		now->runner = IDLE;
}

static void dev_clear(void *ctx)
{
	(void)ctx;
	require(now->runner != RUNNING, "RESET acknowledged while a job runs");
	now->runner = IDLE;
}

static void dev_level(void *ctx, uint32_t level)
{
	(void)ctx;
	(void)level;
}

static void dev_irq(void *ctx)
{
	(void)ctx;
	push(&now->from_dev, W_IRQ, 0, 0);
}

static const struct rvl_queue_ops ops = { dev_fetch,  dev_start, dev_ended, dev_stop,
					  dev_report, dev_clear, dev_level, dev_irq, NULL };
static const struct rvl_window window = { .word = words,
					  .trace = dev_trace,
					  .reading = dev_reading };

/* One step of the device. After @reads of its reads, @writes of the driver's become visible. */
static void device_step(struct state *s, int reads, int writes)
{
	race_after = reads;
	race_writes = writes;
	for (int i = 0; i < DRV_WORDS; i++)
		words[0x400 / 4 + i] = s->drv[i];
	s->bell = 0;
	s->again = rvl_queue_step(&s->q, &window, &ops, NULL);
}

/* The driver. */

static uint32_t see(const struct state *s, uint32_t reg)
{
	return s->dev[(reg - 0x800) / 4];
}

static void drv_write(struct state *s, uint32_t reg, uint32_t value)
{
	push(&s->from_drv, reg, 0, value);
}

static void drv_ring(struct state *s)
{
	push(&s->from_drv, W_DOORBELL, 0, 0);
}

static void drv_request(struct state *s, int which, uint32_t value)
{
	static const uint32_t reg[] = { RIVULET_REG_RESET_REQ, RIVULET_REG_ABORT_REQ,
					RIVULET_REG_RESUME_REQ, RIVULET_REG_LEVEL_REQ,
					RIVULET_REG_HOLD_REQ };

	drv_write(s, reg[which] - 4, value);
	drv_write(s, reg[which], ++s->req[which]);
	drv_ring(s);
}

static int next_job(const struct state *s)
{
	for (int i = 0; i < current_limits->jobs; i++)
		if (!s->job[i].submitted && !s->job[i].retired)
			return i;
	return -1;
}

static void submit(struct state *s, int i)
{
	uint32_t slot = ++s->last & 1 ? RIVULET_REG_SLOT1_ADDR_LO : RIVULET_REG_SLOT0_ADDR_LO;
	struct job *j = &s->job[i];

	*j = (struct job){ .seq = s->last, .kind = j->kind, .submitted = 1 };
	drv_write(s, slot, i + 1);
	drv_write(s, slot + 8, s->last);
	drv_ring(s);
}

static void retire(struct job *j)
{
	require(!j->retired, "retired twice");
	require(j->status || j->kind == BAD, "retired without a status");
	j->retired = 1;
	j->submitted = 0;
}

/* Phase 1 of the interrupt handler: handles all entries up to DONE_SEQ. */
static void handle_done(struct state *s)
{
	uint32_t done = see(s, RIVULET_REG_DONE_SEQ);

	require((int32_t)(done - s->done) >= 0 && (int32_t)(s->last - done) >= 0,
		"DONE_SEQ went back or too far");
	while (s->done != done && !violation) {
		struct job *j = job_of_seq(s, ++s->done);

		require(j != NULL, "DONE_SEQ passed an entry that was not submitted");
		if (j)
			retire(j);
	}
}

static void handle_frozen(struct state *s)
{
	if (see(s, RIVULET_REG_RESUME_ACK) != s->req[2] || !see(s, RIVULET_REG_FROZEN))
		return;
	drv_request(s, 2, see(s, RIVULET_REG_FROZEN_SEQ));
}

/*
 * After a RESET the statuses show which entries retired before it. The others are submitted again.
 */
static void handle_reset(struct state *s)
{
	s->reset_open = s->abort_open = 0;
	s->done = s->last;
	require(s->runner == IDLE, "RESET acknowledged while a job runs");
	for (int i = 0; i < current_limits->jobs; i++) {
		struct job *j = &s->job[i];

		if (!j->submitted)
			continue;
		if (j->status)
			retire(j);
		j->submitted = 0;
	}
}

static void handle_abort(struct state *s)
{
	struct job *j = job_of_seq(s, s->abort_seq);

	s->abort_open = 0;
	if (see(s, RIVULET_REG_ABORT_RESULT) == RIVULET_ABORT_NONE)
		require(!j || j->status || j->kind == BAD, "ABORT had no effect on a queued job");
	if (j)
		j->dead = 1;
	require(s->runner != RUNNING || s->job[s->run_job].seq != s->abort_seq,
		"ABORT acknowledged while the job runs");
}

static void handle_acks(struct state *s)
{
	if (s->reset_open && see(s, RIVULET_REG_RESET_ACK) == s->req[0])
		handle_reset(s);
	/*
	 * The acknowledge that a RESET gives to an ABORT does not show the state of the ABORT's
	 * entry.
	 */
	if (s->abort_open && !s->reset_open && see(s, RIVULET_REG_ABORT_ACK) == s->req[1])
		handle_abort(s);
	if (s->hold_open && see(s, RIVULET_REG_HOLD_ACK) == s->req[4])
		s->hold_open = 0;
	if (see(s, RIVULET_REG_LEVEL_ACK) == s->req[3])
		s->level_open = 0;
}

/*
 * The handler reads in three steps. While a RESET is pending, it reads only the RESET's
 * acknowledge.
 */
static void interrupt(struct state *s)
{
	if (s->phase == 0)
		s->irq = 0;
	if (s->phase == 0 && !s->reset_open)
		handle_done(s);
	if (s->phase == 1 && !s->reset_open)
		handle_frozen(s);
	if (s->phase == 2)
		handle_acks(s);
	s->phase = (s->phase + 1) % 3;
}

static void start_reset(struct state *s)
{
	drv_write(s, RIVULET_REG_SLOT0_SEQ, s->last);
	drv_write(s, RIVULET_REG_SLOT1_SEQ, s->last);
	drv_request(s, 0, s->last);
	s->reset_open = 1;
}

static void request_level(struct state *s, uint32_t level)
{
	drv_request(s, 3, level);
	s->level_open = 1;
	s->forced |= level >> 31;
}

/* Writes become visible. */

static struct write pop(struct fifo *f)
{
	struct write w = f->w[0];

	f->n--;
	memmove(f->w, f->w + 1, f->n * sizeof(w));
	memset(&f->w[f->n], 0, sizeof(w));
	return w;
}

/*
 * The job becomes visible and is now queued. Notes whether a level below its min_level was
 * requested before.
 */
static void job_visible(struct state *s, uint32_t seq)
{
	struct job *j = job_of_seq(s, seq);
	uint32_t asked = s->drv[(RIVULET_REG_LEVEL_VALUE - 0x400) / 4] & ~RIVULET_LEVEL_FORCE;
	bool pending = s->drv[(RIVULET_REG_LEVEL_REQ - 0x400) / 4] != s->q.ack_level;

	if (j && j->kind == MIN1)
		j->low = s->q.level < 1 || (pending && asked < 1);
}

static void flush_drv(struct state *s)
{
	struct write w = pop(&s->from_drv);

	if (w.what == W_DOORBELL) {
		s->bell = 1;
		return;
	}
	s->drv[(w.what - 0x400) / 4] = w.value;
	if (w.what == RIVULET_REG_SLOT0_SEQ || w.what == RIVULET_REG_SLOT1_SEQ)
		job_visible(s, w.value);
}

/*
 * Checks an entry that DONE_SEQ passes: its status is visible, and so is the freeze by its fault. A
 * RESET sets DONE_SEQ, too.
 */
static void check_done(struct state *s, uint32_t seq)
{
	const struct job *j = job_of_seq(s, seq);

	if (!j || s->reset_open)
		return;
	require(j->status || j->kind == BAD, "DONE_SEQ before the status");
	if (j->status == RIVULET_STATE_FAULT)
		require(see(s, RIVULET_REG_FROZEN) && see(s, RIVULET_REG_FROZEN_SEQ) == seq,
			"DONE_SEQ before FROZEN");
}

static void flush_dev(struct state *s)
{
	struct write w = pop(&s->from_dev);

	if (w.what == W_IRQ) {
		s->irq = 1;
	} else if (w.what == W_STATUS) {
		require(!s->job[w.job].status, "two statuses");
		s->job[w.job].status = w.value;
	} else if (w.what >= 0x800) {
		if (w.what == RIVULET_REG_DONE_SEQ)
			check_done(s, w.value);
		s->dev[(w.what - 0x800) / 4] = w.value;
	}
}

/* The events that are possible in a state. */

enum event {
	EV_DEV_STEP,
	EV_DEV_FLUSH,
	EV_DRV_FLUSH,
	EV_IRQ,
	EV_SUBMIT,
	EV_END,
	EV_FAULT,
	EV_DRAINED,
	EV_ABORT_A,
	EV_ABORT_B,
	EV_RESET,
	EV_HOLD,
	EV_RELEASE,
	EV_LEVEL_0,
	EV_LEVEL_1,
	EV_LEVEL_FORCE,
	EV_LOSE_IRQ,
	EV_LOSE_BELL,
	EV_TIMER,
	EV_RACE,
	EV_COUNT = EV_RACE + RACE_READS * RACE_WRITES
};

static const char *const event_names[EV_RACE + 1] = {
	"device steps",
	"device's write visible",
	"driver's write visible",
	"interrupt handler",
	"submit",
	"job ends",
	"job faults",
	"job drained",
	"ABORT older",
	"ABORT newer",
	"RESET",
	"HOLD",
	"release",
	"LEVEL 0",
	"LEVEL 1",
	"LEVEL 0 forced",
	"interrupt lost",
	"doorbell lost",
	"timer",
	"device steps while the driver writes",
};

/*
 * The driver acts between interrupts, and only if the store buffer has room for the writes of one
 * action.
 */
static bool driver_ready(const struct state *s)
{
	return s->from_drv.n <= 2 && !s->phase;
}

static bool can_abort(const struct state *s, int i)
{
	uint32_t seq = s->done + 1 + i;

	return driver_ready(s) && s->left.aborts && !s->abort_open && !s->reset_open &&
	       (int32_t)(s->last - seq) >= 0;
}

/* A race in which the driver has too few writes left is the same as a plain step. */
static bool race_possible(const struct state *s, enum event e)
{
	return s->from_drv.n >= 1 + (e - EV_RACE) % RACE_WRITES;
}

static bool device_can(const struct state *s, enum event e)
{
	if (e >= EV_RACE && race_possible(s, e))
		e = EV_DEV_STEP;
	switch (e) {
	case EV_DEV_STEP:
		return s->from_dev.n <= 2 && (s->bell || s->again || s->runner == ENDED);
	case EV_DEV_FLUSH:
		return s->from_dev.n;
	case EV_END:
		return s->runner == RUNNING;
	case EV_FAULT:
		return s->runner == RUNNING && s->left.faults;
	case EV_DRAINED:
		return s->runner == RUNNING && s->stop;
	default:
		return false;
	}
}

static bool driver_can(const struct state *s, enum event e)
{
	switch (e) {
	case EV_DRV_FLUSH:
		return s->from_drv.n;
	case EV_IRQ:
		return (s->irq || s->phase) && s->from_drv.n <= 6;
	case EV_SUBMIT:
		return driver_ready(s) && !s->reset_open && s->last - s->done < 2 &&
		       next_job(s) >= 0;
	case EV_ABORT_A:
	case EV_ABORT_B:
		return can_abort(s, e - EV_ABORT_A);
	case EV_RESET:
		return driver_ready(s) && s->left.resets && !s->reset_open;
	case EV_HOLD:
		return driver_ready(s) && s->left.holds && !s->hold_open && !s->holding;
	case EV_RELEASE:
		return driver_ready(s) && s->holding && !s->hold_open;
	case EV_LEVEL_0:
	case EV_LEVEL_1:
		return driver_ready(s) && s->left.levels;
	case EV_LEVEL_FORCE:
		return driver_ready(s) && s->left.forces;
	case EV_LOSE_IRQ:
		return s->irq && s->left.lost_irqs;
	case EV_LOSE_BELL:
		return s->bell && s->left.lost_bells;
	case EV_TIMER:
		return !s->phase && (s->irq_was_lost || s->bell_was_lost) && s->from_drv.n <= 2;
	default:
		return false;
	}
}

static void end_job(struct state *s, uint32_t state, uint32_t fault)
{
	s->runner = ENDED;
	s->outcome = (struct rvl_outcome){ state, fault };
}

static void driver_event(struct state *s, enum event e)
{
	switch (e) {
	case EV_SUBMIT:
		submit(s, next_job(s));
		break;
	case EV_ABORT_A:
	case EV_ABORT_B:
		s->left.aborts--;
		s->abort_seq = s->done + 1 + (e - EV_ABORT_A);
		s->abort_open = 1;
		if (job_of_seq(s, s->abort_seq))
			job_of_seq(s, s->abort_seq)->abort_asked = 1;
		drv_request(s, 1, s->abort_seq);
		break;
	case EV_RESET:
		s->left.resets--;
		start_reset(s);
		break;
	case EV_HOLD:
	case EV_RELEASE:
		s->left.holds -= e == EV_HOLD;
		s->holding = e == EV_HOLD;
		s->hold_open = 1;
		drv_request(s, 4, e == EV_HOLD);
		break;
	case EV_LEVEL_0:
	case EV_LEVEL_1:
		s->left.levels--;
		request_level(s, e - EV_LEVEL_0);
		break;
	case EV_LEVEL_FORCE:
		s->left.forces--;
		request_level(s, RIVULET_LEVEL_FORCE);
		break;
	default:
		/* A timer finds no change, so the driver runs its handler and rings again. */
		s->irq_was_lost = s->bell_was_lost = 0;
		s->irq = 1;
		drv_ring(s);
		break;
	}
}

static void happen(struct state *s, enum event e)
{
	now = s;
	if (e >= EV_RACE) {
		device_step(s, 1 + (e - EV_RACE) / RACE_WRITES, 1 + (e - EV_RACE) % RACE_WRITES);
		return;
	}
	switch (e) {
	case EV_DEV_STEP:
		device_step(s, -1, 0);
		break;
	case EV_DEV_FLUSH:
		flush_dev(s);
		break;
	case EV_DRV_FLUSH:
		flush_drv(s);
		break;
	case EV_IRQ:
		interrupt(s);
		break;
	case EV_END:
		end_job(s, RIVULET_STATE_DONE, 0);
		break;
	case EV_FAULT:
		s->left.faults--;
		end_job(s, RIVULET_STATE_FAULT, RIVULET_FAULT_OPCODE);
		break;
	case EV_DRAINED:
		end_job(s, RIVULET_STATE_ABORTED, 0);
		break;
	case EV_LOSE_IRQ:
		s->left.lost_irqs--;
		s->irq = 0;
		s->irq_was_lost = 1;
		break;
	case EV_LOSE_BELL:
		s->left.lost_bells--;
		s->bell = 0;
		s->bell_was_lost = 1;
		break;
	default:
		driver_event(s, e);
	}
}

static void check_final(const struct state *s)
{
	for (int i = 0; i < current_limits->jobs; i++)
		require(s->job[i].retired, "final state with a job that never retired");
	require(s->runner == IDLE && !s->q.active, "final state with something CURRENT");
	require(!s->q.frozen && !s->q.held, "final state frozen or held");
	require(!s->abort_open && !s->reset_open && !s->hold_open && !s->level_open,
		"final state with a request that was not acknowledged");
}

/* The visited set: 64-bit hashes, open addressing. */

struct set {
	uint64_t *slot;
	size_t mask, count;
};

static uint64_t hash(const struct state *s)
{
	const uint64_t *w = (const uint64_t *)s;
	uint64_t h = 0x9e3779b97f4a7c15u, g = 0x2545f4914f6cdd1du;

	for (size_t i = 0; i < sizeof(*s) / 8; i++) {
		h = (h ^ w[i]) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
		g = (g + w[i]) * 0xc4ceb9fe1a85ec53u ^ g >> 29;
	}
	h ^= g * 0x9fb21c651e98df25u;
	h ^= h >> 29;
	return h ? h : 1;
}

static void grow(struct set *v)
{
	struct set n = { calloc(2 * (v->mask + 1), 8), 2 * v->mask + 1, v->count };

	if (!n.slot) {
		fputs("check_queue: no memory\n", stderr);
		exit(2);
	}
	for (size_t i = 0; i <= v->mask; i++) {
		size_t at = v->slot[i] & n.mask;

		if (!v->slot[i])
			continue;
		while (n.slot[at])
			at = (at + 1) & n.mask;
		n.slot[at] = v->slot[i];
	}
	free(v->slot);
	*v = n;
}

static bool visit(struct set *v, const struct state *s)
{
	uint64_t h = hash(s);
	size_t at = h & v->mask;

	for (; v->slot[at]; at = (at + 1) & v->mask)
		if (v->slot[at] == h)
			return false;
	v->slot[at] = h;
	if (++v->count * 3 > v->mask * 2)
		grow(v);
	return true;
}

/* Depth-first search. The stack is the counterexample. */

struct frame {
	struct state s;
	int next; /* next event to try */
	bool any; /* an event was possible */
};

static struct frame *stack;

static void init_state(struct state *s, const struct limits *l)
{
	memset(s, 0, sizeof(*s));
	now = s;
	current_limits = l;
	s->left = *l;
	s->last = s->done = BASE;
	for (int i = 0; i < JOBS; i++)
		s->job[i].kind = l->kind[i];
	rvl_queue_init(&s->q, &window, 2);
	memset(&s->from_dev, 0, sizeof(s->from_dev));
	start_reset(s);
}

static void print_trace(int depth)
{
	for (int i = 0; i < depth && stack[i].next; i++) {
		int e = stack[i].next - 1;

		fprintf(stderr, "%4d %s\n", i, event_names[e < EV_RACE ? e : EV_RACE]);
	}
	fprintf(stderr, "violated: %s\n", violation);
}

static bool possible(const struct state *s, enum event e)
{
	bool device = e <= EV_DEV_FLUSH || (e >= EV_END && e <= EV_DRAINED) || e >= EV_RACE;

	return device ? device_can(s, e) : driver_can(s, e);
}

/* One step of the search from the top of the stack. Returns the new depth. */
static int advance(struct set *visited, int depth, uint64_t *transitions)
{
	struct frame *f = &stack[depth - 1];

	while (f->next < EV_COUNT) {
		enum event e = f->next++;

		if (!possible(&f->s, e))
			continue;
		f->any = true;
		(*transitions)++;
		stack[depth] = (struct frame){ .s = f->s };
		happen(&stack[depth].s, e);
		if (violation || visit(visited, &stack[depth].s))
			return depth + 1;
	}
	if (!f->any)
		check_final(&f->s);
	return violation ? depth : depth - 1;
}

static int explore(const struct limits *l, uint64_t *states)
{
	struct set visited = { calloc(1 << 20, 8), (1 << 20) - 1, 0 };
	uint64_t transitions = 0;
	int depth = 1, deepest = 0;

	memset(stack, 0, sizeof(*stack));
	init_state(&stack[0].s, l);
	visit(&visited, &stack[0].s);
	while (depth && depth < STACK && !violation) {
		depth = advance(&visited, depth, &transitions);
		deepest = depth > deepest ? depth : deepest;
	}
	require(depth < STACK, "the search's own stack is full");
	printf("%-28s %10zu states %11llu transitions, depth %d\n", l->name, visited.count,
	       (unsigned long long)transitions, deepest);
	if (violation)
		print_trace(depth);
	*states += visited.count;
	free(visited.slot);
	return violation ? 1 : 0;
}

static const struct limits scenarios[] = {
	{ .name = "plain", .jobs = 4 },
	{ .name = "faults", .jobs = 4, .faults = 3, .kind = { GOOD, BAD, GOOD } },
	{ .name = "abort", .jobs = 3, .aborts = 2, .faults = 1 },
	{ .name = "abort, bad descriptor", .jobs = 3, .aborts = 2, .kind = { GOOD, BAD } },
	{ .name = "reset", .jobs = 3, .resets = 2, .faults = 1 },
	{ .name = "reset, abort", .jobs = 3, .resets = 1, .aborts = 1 },
	{ .name = "hold", .jobs = 3, .holds = 2, .faults = 1 },
	{ .name = "hold, reset", .jobs = 2, .holds = 1, .resets = 1 },
	{ .name = "hold, abort", .jobs = 2, .holds = 1, .aborts = 1, .faults = 1 },
	{ .name = "level", .jobs = 3, .levels = 2, .faults = 1, .kind = { GOOD, MIN1, GOOD } },
	{ .name = "level forced",
	  .jobs = 3,
	  .levels = 1,
	  .forces = 1,
	  .kind = { GOOD, MIN1, MIN1 } },
	{ .name = "level, abort", .jobs = 3, .levels = 1, .aborts = 1, .kind = { GOOD, MIN1 } },
	{ .name = "level, hold", .jobs = 2, .levels = 1, .holds = 1, .kind = { GOOD, MIN1 } },
	{ .name = "level, reset", .jobs = 2, .levels = 1, .resets = 1, .kind = { MIN1, MIN1 } },
	{ .name = "lost interrupt", .jobs = 3, .faults = 1, .aborts = 1, .lost_irqs = 1 },
	{ .name = "lost doorbell", .jobs = 3, .faults = 1, .aborts = 1, .lost_bells = 1 },
};

int main(void)
{
	uint64_t states = 0;
	int failed = 0, ran = 0;

	stack = calloc(STACK + 1, sizeof(*stack));
	if (!stack)
		return 2;
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++, ran++) {
		violation = NULL;
		failed += explore(&scenarios[i], &states);
	}
	free(stack);
	printf("figure model.states %llu states\n", (unsigned long long)states);
	printf("figure model.violations %d violations\n", failed);
	printf("%d passed, %d failed\n", ran - failed, failed);
	return failed ? 1 : 0;
}
