// SPDX-License-Identifier: MIT
/* The device: carries out the decisions of the queue with the core, memory and time. */
#include "device.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_crc32c.h"

#define TICK_NS	 20000000ull /* the longest interval between changes of PROGRESS */
_Static_assert(RVL_DESC_BITS == 8 * sizeof(struct rivulet_desc), "a bit of it can be flipped");

/*
 * Transitions of one step. The limit keeps a driver that floods requests from blocking the device.
 */
#define LOOK_MAX 64

bool rvl_exec_brief(struct rvl_exec *x)
{
	if (x->clear)
		rvl_core_clear(x->core);
	rvl_core_begin(x->core, &x->job);
	x->begun = true;
	if (!rvl_core_go(x->core, true, &x->st))
		return false;
	/* @done hands @x back to the device, so @x must not be accessed after this. */
	atomic_store_explicit(&x->done, true, memory_order_release);
	return true;
}

void rvl_exec_run(struct rvl_exec *x)
{
	if (!x->begun && rvl_exec_brief(x))
		return;
	rvl_core_go(x->core, false, &x->st);
	atomic_store_explicit(&x->done, true, memory_order_release);
}

/* The number that entry @seq gets when it starts, if all entries before it start too. */
static uint64_t next_number(const struct rivulet_sim *s, uint32_t seq)
{
	const struct rvl_queue *q = &s->queue;
	uint32_t other = ~seq & 1;
	bool ahead = q->slot[other].queued && !q->slot[other].e.fault && !q->slot[other].aborted;

	return s->started + ahead + 1;
}

static void dev_fetch(void *ctx, uint64_t addr, struct rvl_entry *e)
{
	struct rivulet_sim *s = ctx;
	struct rivulet_desc *d = &s->desc[e->seq & 1];

	e->fault = rvl_desc_copy(&s->ops.bus, addr, d);
	if (e->fault)
		return;
	rvl_inject_flip(&s->inject, d->client, next_number(s, e->seq), d);
	e->fault = rvl_desc_check(&s->ops.bus, e->seq, s->board.levels, d);
	if (e->fault)
		return;
	e->min_level = d->min_level;
	e->irq = d->flags & RIVULET_DESC_IRQ;
	for (uint32_t i = 0; i < RIVULET_LEVELS; i++)
		e->variants |= (uint32_t) !!d->variant[i].length << i;
}

static void start_injected(struct rivulet_sim *s)
{
	s->started++;
	rvl_inject_bind(&s->inject, s->client, s->started);
	if (rvl_inject_hit(&s->inject, RVL_INJECT_dead, s->started, NULL))
		s->dead = true;
	if (rvl_inject_hit(&s->inject, RVL_INJECT_allones, s->started, NULL))
		rvl_device_unplug(s);
}

static bool late_dma(struct rivulet_sim *s)
{
	return rvl_inject_hit(&s->inject, RVL_INJECT_late_dma, s->started, NULL);
}

static void dev_start(void *ctx, const struct rvl_entry *e, uint32_t level)
{
	struct rivulet_sim *s = ctx;
	const struct rivulet_desc *d = &s->desc[e->seq & 1];
	struct rvl_exec *x = &s->exec;

	x->job = (struct rvl_job){
		.regions = { .bus = &s->ops.bus, .bad.slot = RIVULET_NO_SLOT },
		.variant = d->variant[level],
		.abort = &x->abort,
		.progress = &s->insns,
	};
	memcpy(x->job.regions.region, d->region, sizeof(d->region));
	memset(&x->st, 0, sizeof(x->st));
	x->clear = !s->has_client || s->client != d->client;
	s->has_client = true;
	s->client = d->client;
	x->begun = false;
	s->stopped = s->reset = s->outrun = false;
	s->insns_before = atomic_load_explicit(&s->insns, memory_order_relaxed);
	atomic_store(&x->abort, false);
	atomic_store(&x->done, false);
	rvl_pace_start(s);
	s->followed += s->retires;
	start_injected(s);
	x->job.drop_token = rvl_inject_hit(&s->inject, RVL_INJECT_lost_token, s->started, NULL);
	/* With the injection late_dma the program runs only at RESET. */
	if (!late_dma(s))
		s->runner.start(s->runner.ctx, x);
}

static bool outruns_abort(struct rivulet_sim *s)
{
	return rvl_inject_hit(&s->inject, RVL_INJECT_outrun_abort, s->started, NULL);
}

/* Whether an injection keeps the job from ending, despite its ABORT or RESET. */
static bool hangs(struct rivulet_sim *s)
{
	if (late_dma(s) || rvl_inject_hit(&s->inject, RVL_INJECT_stuck, s->started, NULL))
		return !s->reset;
	if (outruns_abort(s))
		return !s->outrun && !s->stopped;
	return rvl_inject_hit(&s->inject, RVL_INJECT_hang, s->started, NULL) && !s->stopped;
}

/* The queue asks only for an ABORT of the running entry. */
static bool dev_outruns_abort(void *ctx)
{
	struct rivulet_sim *s = ctx;

	s->outrun |= outruns_abort(s);
	return outruns_abort(s) && atomic_load_explicit(&s->exec.done, memory_order_acquire);
}

static bool dev_ended(void *ctx, struct rvl_outcome *o)
{
	struct rivulet_sim *s = ctx;
	struct rvl_exec *x = &s->exec;

	if (!atomic_load_explicit(&x->done, memory_order_acquire) || hangs(s) || !rvl_pace_over(s))
		return false;
	*o = (struct rvl_outcome){ x->st.state, x->st.fault };
	if (rvl_inject_hit(&s->inject, RVL_INJECT_internal, s->started, NULL))
		*o = (struct rvl_outcome){ RIVULET_STATE_FAULT, RIVULET_FAULT_INTERNAL };
	return true;
}

static void dev_stop(void *ctx, bool reset)
{
	struct rivulet_sim *s = ctx;

	if (late_dma(s)) {
		if (reset && !s->reset)
			s->runner.start(s->runner.ctx, &s->exec);
		s->reset |= reset;
		s->stopped = s->reset;
		return;
	}
	s->stopped = true;
	s->reset |= reset;
	atomic_store(&s->exec.abort, true);
}

/*
 * Copies @st through the report slot. The copy has seq 0, because the seq would tell its reader how
 * many jobs others have run. A failed copy is a fault of an entry that had none.
 */
static void write_report(struct rivulet_sim *s, const struct rivulet_desc *d,
			 struct rivulet_status *st)
{
	struct rvl_regions *r = &s->exec.job.regions;
	struct rivulet_status copy = *st;

	copy.seq = 0;
	copy.crc = rivulet_crc32c(0, &copy, offsetof(struct rivulet_status, crc));
	if (d->report_slot == RIVULET_NO_SLOT ||
	    !rvl_region_write(r, d->report_slot, d->report_offset, &copy, sizeof(copy)) ||
	    st->state == RIVULET_STATE_FAULT)
		return;
	st->state = RIVULET_STATE_FAULT;
	st->fault = RIVULET_FAULT_REPORT;
	st->fault_slot = r->bad.slot;
	st->fault_offset = r->bad.offset;
}

static void write_status(struct rivulet_sim *s, const struct rivulet_desc *d,
			 struct rivulet_status *st)
{
	void *p = rvl_bus_map(&s->ops.bus, d->status, sizeof(*st), true);

	st->crc = rivulet_crc32c(0, st, offsetof(struct rivulet_status, crc));
	if (s->queue.running &&
	    rvl_inject_hit(&s->inject, RVL_INJECT_corrupt_status, s->started, NULL))
		st->crc ^= 1;
	/*
	 * The address was valid when the descriptor was checked. If the memory was removed since, the

	 * status is dropped.
	 */
	if (p)
		memcpy(p, st, sizeof(*st));
}

static void finish_run(struct rivulet_sim *s, struct rivulet_status *st)
{
	struct rivulet_work *w = &s->exec.job.work;

	s->retired = s->started;
	rvl_pace_retire(s);
	*st = s->exec.st;
	w->cycles = st->cycles; /* an entry that was stopped took the time until the stop */
	st->energy = rivulet_board_energy_pj(&s->board, s->queue.level, w);
	/* The next entry starts at this one's end, unless this one retired late. */
	s->chain = rvl_pace_now(s) - st->end < TICK_NS ? st->end : 0;
}

static void dev_report(void *ctx, const struct rvl_entry *e, bool ran, struct rvl_outcome *o)
{
	struct rivulet_sim *s = ctx;
	const struct rivulet_desc *d = &s->desc[e->seq & 1];
	struct rivulet_status st = { .fault_slot = RIVULET_NO_SLOT };

	if (ran) {
		finish_run(s, &st);
	} else {
		st.start = st.end = rvl_pace_now(s);
		s->chain = 0;
	}
	st.seq = e->seq;
	st.state = o->state;
	st.fault = o->fault;
	st.level = st.variant = s->queue.level;
	if (ran)
		write_report(s, d, &st);
	if (!e->fault)
		write_status(s, d, &st);
	o->state = st.state;
	o->fault = st.fault;
	rvl_count_retired(s, &st);
	s->retires = true;
}

static void dev_clear(void *ctx)
{
	struct rivulet_sim *s = ctx;

	rvl_core_clear(s->exec.core);
	s->has_client = false;
}

static void dev_level(void *ctx, uint32_t level)
{
	(void)level; /* idle energy up to the change is counted at the old level */
	rvl_count_publish(ctx);
}

static void raise_irq(struct rivulet_sim *s)
{
	s->count.irqs++;
	if (s->ops.irq)
		s->ops.irq(s->ops.ctx);
}

static void dev_irq(void *ctx)
{
	struct rivulet_sim *s = ctx;
	uint64_t job = s->retired;

	s->retired = 0;
	if (rvl_rd(&s->window, RIVULET_REG_IRQ_ENABLE) != 1)
		return;
	if (rvl_inject_hit(&s->inject, RVL_INJECT_lost_irq, job, NULL))
		return;
	raise_irq(s);
	if (rvl_inject_hit(&s->inject, RVL_INJECT_dup_irq, job, NULL))
		raise_irq(s);
}

static const struct rvl_queue_ops queue_ops = {
	.fetch = dev_fetch,
	.start = dev_start,
	.ended = dev_ended,
	.stop = dev_stop,
	.report = dev_report,
	.clear = dev_clear,
	.level = dev_level,
	.irq = dev_irq,
	.outruns_abort = dev_outruns_abort,
};

static void inline_start(void *ctx, struct rvl_exec *x)
{
	(void)ctx;
	rvl_exec_run(x);
}

static void put(struct rivulet_sim *s, uint32_t reg, uint32_t value)
{
	atomic_store_explicit(&s->window.word[reg / 4], value, memory_order_relaxed);
}

static void put_levels(struct rivulet_sim *s)
{
	for (uint32_t i = 0; i < s->board.levels; i++) {
		const struct rivulet_board_level *l = &s->board.level[i];
		uint32_t at = RIVULET_REG_LEVEL_TABLE + i * sizeof(struct rivulet_level);

		put(s, at, l->hz);
		put(s, at + 4, l->hz >> 32);
		put(s, at + 8, l->microvolt);
		put(s, at + 12, l->fj_per_mac);
		put(s, at + 16, l->fj_per_byte);
		put(s, at + 20, l->static_uw);
	}
}

static void put_geometry(struct rivulet_sim *s)
{
	const struct rivulet_board *b = &s->board;

	put(s, RIVULET_REG_TM, b->tm);
	put(s, RIVULET_REG_TN, b->tn);
	put(s, RIVULET_REG_DN, b->dn);
	put(s, RIVULET_REG_INP_BYTES, b->inp_bytes);
	put(s, RIVULET_REG_WGT_BYTES, b->wgt_bytes);
	put(s, RIVULET_REG_ACC_BYTES, b->acc_bytes);
	put(s, RIVULET_REG_PORT_BYTES, b->port_bytes);
	put(s, RIVULET_REG_MEM_LATENCY, b->mem_latency);
	put(s, RIVULET_REG_BURST_BYTES, b->burst_bytes);
	put(s, RIVULET_REG_BURST_GAP, b->burst_gap);
	put(s, RIVULET_REG_BURSTS, b->bursts);
	put(s, RIVULET_REG_ROW_BYTES, b->row_bytes);
	put(s, RIVULET_REG_ALU_LANES, b->alu_lanes);
	put(s, RIVULET_REG_QUEUE_DEPTH, b->queue_depth);
	put(s, RIVULET_REG_MODES, b->modes);
	put(s, RIVULET_REG_ISA_VERSION, RIVULET_ISA_VERSION);
	put(s, RIVULET_REG_LEVEL_COUNT, b->levels);
	put(s, RIVULET_REG_CYCLE_CAP, b->cycle_cap);
	put(s, RIVULET_REG_DMA_BITS, b->dma_bits);
	for (uint32_t i = 0; i < RIVULET_STREAM_WORDS; i++)
		put(s, RIVULET_REG_STREAM + 4 * i, b->stream[i]);
	put(s, RIVULET_REG_FLAGS, RIVULET_FLAG_SENSOR | (b->pace_real ? RIVULET_FLAG_REAL : 0));
	put(s, RIVULET_REG_TEMPERATURE, RVL_ROOM_MDEG);
}

/* The magic is written last, so that a driver that sees it sees all other words. */
static void put_identity(struct rivulet_sim *s)
{
	uint32_t id[3] = { RIVULET_MAGIC, RIVULET_DEV_VERSION, RIVULET_WINDOW_SIZE }, name[8];

	memcpy(name, s->board.name, sizeof(name));
	for (uint32_t i = 0; i < 8; i++)
		put(s, RIVULET_REG_NAME + 4 * i, name[i]);
	put(s, RIVULET_REG_DOORBELL_PEER, RIVULET_NO_PEER);
	put(s, RIVULET_REG_VERSION, id[1]);
	put(s, RIVULET_REG_WINDOW_SIZE, id[2]);
	put(s, RIVULET_REG_ID_CRC, rivulet_crc32c(0, id, sizeof(id)));
	atomic_store(&s->window.word[RIVULET_REG_MAGIC / 4], id[0]);
}

struct rivulet_sim *rivulet_sim_new(const struct rivulet_board *b, void *window,
				    const struct rivulet_sim_ops *ops)
{
	struct rivulet_sim *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->board = *b;
	s->ops = *ops;
	s->ops.bus.bits = s->board.dma_bits;
	s->window.word = window;
	s->runner.start = inline_start;
	s->exec.core = rvl_core_new(&s->board);
	if (!s->exec.core)
		return rivulet_sim_free(s);
	atomic_init(&s->exec.done, true);
	s->power_on = rvl_pace_host(s);
	memset(window, 0, RIVULET_WINDOW_SIZE);
	rvl_queue_init(&s->queue, &s->window, b->levels);
	put_geometry(s);
	put_levels(s);
	put_identity(s);
	return s;
}

struct rivulet_sim *rivulet_sim_free(struct rivulet_sim *s)
{
	if (!s)
		return NULL;
	rvl_core_free(s->exec.core);
	free(s);
	return NULL;
}

void rvl_device_run_by(struct rivulet_sim *s, const struct rvl_runner *r)
{
	s->runner = *r;
}

void rvl_device_doorbell(struct rivulet_sim *s, uint32_t value)
{
	put(s, RIVULET_REG_DOORBELL_PEER, value);
}

/* Fills the window with ones. Later writes of the device go to a window that no driver sees. */
void rvl_device_unplug(struct rivulet_sim *s)
{
	if (s->unplugged)
		return;
	s->unplugged = true;
	atomic_store(&s->exec.abort, true);
	for (uint32_t i = 0; i < RVL_WINDOW_WORDS; i++)
		atomic_store_explicit(&s->window.word[i], UINT32_MAX, memory_order_release);
	s->window.word = s->dead_window;
}

bool rvl_device_hurry(struct rivulet_sim *s)
{
	/* Jobs that were queued before may not have started yet. */
	rivulet_sim_step(s);
	s->t.hurried = true;
	s->t.late = 0;
	return s->queue.running;
}

void rvl_device_stall(struct rivulet_sim *s, uint32_t ms)
{
	s->stalled_until = rvl_pace_host(s) + ms * 1000000ull;
}

void rvl_device_temperature(struct rivulet_sim *s, int32_t millidegree)
{
	put(s, RIVULET_REG_TEMPERATURE, (uint32_t)millidegree);
}

/* Returns when the running entry must be stepped next if no doorbell rings. */
static uint64_t next_due(struct rivulet_sim *s)
{
	uint64_t wait;

	if (!s->queue.running || s->unplugged || s->dead)
		return UINT64_MAX;
	if (hangs(s))
		return UINT64_MAX;
	if (!atomic_load(&s->exec.done))
		return TICK_NS;
	s->ticks++;
	wait = rvl_pace_wait(s);
	return wait < TICK_NS ? wait : TICK_NS;
}

uint64_t rivulet_sim_step(struct rivulet_sim *s)
{
	uint64_t due, host = rvl_pace_host(s);
	int n = 0;

	if (host < s->stalled_until)
		return s->stalled_until - host;
	while (!s->unplugged && !s->dead && n < LOOK_MAX &&
	       rvl_queue_step(&s->queue, &s->window, &queue_ops, s)) {
		s->chain = 0;
		s->retires = false;
		n++;
	}
	s->chain = 0;
	s->retires = false;
	due = n == LOOK_MAX ? 0 : next_due(s);
	rvl_count_publish(s);
	return due;
}

void rivulet_sim_run(struct rivulet_sim *s, struct rvl_job *job, uint32_t client, uint32_t level,
		     struct rivulet_status *st)
{
	memset(st, 0, sizeof(*st));
	st->fault_slot = RIVULET_NO_SLOT;
	st->state = RIVULET_STATE_NO_VARIANT;
	if (!job->regions.bus)
		job->regions.bus = &s->ops.bus;
	if (level < s->board.levels && job->variant.length) {
		const struct rivulet_board_level *l = &s->board.level[level];

		if (!s->has_client || s->client != client)
			rvl_core_clear(s->exec.core);
		s->has_client = true;
		s->client = client;
		rvl_core_run(s->exec.core, job, st);
		st->start = s->fast_time;
		st->end = st->start + rvl_pace_ns(l, st->cycles);
		st->energy = rivulet_board_energy_pj(&s->board, level, &job->work);
		s->fast_time = st->end;
	}
	st->level = st->variant = level;
	st->crc = rivulet_crc32c(0, st, offsetof(struct rivulet_status, crc));
}
