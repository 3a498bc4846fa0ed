// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
#include "work.h"

#define NEVER	   UINT64_MAX
#define MOST_DELAY (16 * WORK_UNIT) /* of 1024 words of STORE */

static uint64_t less(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- workers ---- */

static void update_left(struct worker *w, uint64_t now)
{
	uint64_t done = (now - w->since) * w->rate;

	w->left -= less(done, w->left);
	w->since = now;
}

static uint64_t end_of(const struct worker *w)
{
	if (!w->on || (!w->rate && w->left))
		return NEVER;
	return w->since + (w->left ? (w->left + w->rate - 1) / w->rate : 0);
}

static void begin(struct worker *w, uint64_t cycles, uint64_t now)
{
	w->on = true;
	w->left = cycles * WORK_UNIT;
	w->since = now;
	w->rate = WORK_UNIT;
}

/* The shares of @n words from @at on that are in each half of ACC. */
static void halves(struct worker *w, uint64_t half, uint64_t at, uint64_t n)
{
	uint64_t low = at >= half ? 0 : less(half - at, n);

	w->low = low * WORK_UNIT / n;
	w->high = WORK_UNIT - w->low;
}

/* Of 1024 cycles, @free access neither half. */
static void use_less(struct worker *w, uint64_t free)
{
	w->low = w->low * (WORK_UNIT - free) / WORK_UNIT;
	w->high = w->high * (WORK_UNIT - free) / WORK_UNIT;
}

/* Of 1024 accesses, the number for which both workers use the same half. */
static uint32_t meetings(const struct worker *a, const struct worker *b)
{
	return (a->low * b->low + a->high * b->high) / WORK_UNIT;
}

/* ---- rates ---- */

/*
 * While the ALU makes results of @result cycles, it takes a cycle from CONV for each word that it
 * reads.
 */
static void share_acc(struct work *w)
{
	uint32_t meet = meetings(&w->conv, &w->alu);
	uint64_t period = w->cost.result, reads = w->cost.reads;

	if (period < 2 * reads) { /* each read waits until CONV has had its access */
		w->alu.rate -= meet - meet * period / (2 * reads);
		period = 2 * reads;
	}
	w->conv.rate -= meet * reads / period;
}

/*
 * CONV in taps mode reads all banks of INP in some passes, in which the ALU gets no word of INP. In
 * the others, an engine that waits once is behind CONV and does not meet it again.
 */
static void share_inp(struct work *w)
{
	uint64_t most = (WORK_UNIT - w->full) * w->cost.result;

	if (w->full && most < WORK_UNIT * w->cost.inp_reads)
		w->alu.rate = less(w->alu.rate, most / w->cost.inp_reads);
	if (!w->alu.rate)
		w->alu.rate = 1;
}

static void set_rates(struct work *w, uint64_t now)
{
	update_left(&w->conv, now);
	update_left(&w->alu, now);
	w->conv.rate = w->alu.rate = WORK_UNIT;
	if (!w->conv.on || !w->alu.on || !w->loop)
		return;
	if (w->stage == ALU_RESULTS) {
		share_acc(w);
		share_inp(w);
	} else if (w->stage != ALU_DRAIN) { /* CONV reads WGT in the first cycles of its inner loop */
		w->alu.rate = WORK_UNIT - WORK_UNIT * w->weights / w->loop;
	}
}

/* ---- ALU ---- */

static uint64_t stage_cycles(const struct work *w)
{
	switch (w->stage) {
	case ALU_TABLE:
		return w->cost.table;
	case ALU_SETUP:
		return w->cost.setup;
	case ALU_RESULTS:
		return w->cost.words * w->cost.result;
	default:
		return RIVULET_ALU_FILL;
	}
}

/* Moves on to the next stage that takes any cycles. */
static void next_stage(struct work *w, uint64_t now)
{
	do {
		if (w->stage == ALU_RESULTS && --w->blocks)
			w->stage = ALU_SETUP;
		else
			w->stage++;
	} while (!stage_cycles(w));
	w->alu.left = stage_cycles(w) * WORK_UNIT;
	w->alu.since = now;
}

static void alu_halves(struct work *w, const struct rivulet_config *c,
		       const struct rivulet_insn_alu *a)
{
	uint64_t rows = a->pool ? c->a_pool.rows : a->rows;
	uint64_t cols = a->pool ? c->a_pool.cols : a->cols;

	w->alu.low = w->alu.high = 0;
	if (!rows || !cols)
		return;
	if (a->src)
		halves(&w->alu, w->half, a->a,
		       (a->blks - 1) * c->a_src.a_blk + (rows - 1) * c->a_src.a_row + cols);
	else if (a->dst)
		halves(&w->alu, w->half, a->d,
		       (a->blks - 1) * c->a_dst.blk + (a->rows - 1) * c->a_dst.row + a->cols);
}

static void start_alu(struct work *w, const struct rivulet_config *c,
		      const struct rivulet_event *e, uint64_t now)
{
	const struct rivulet_insn_alu *a = &e->insn.alu;

	w->cost = e->cost;
	w->blocks = e->cost.blocks;
	w->stage = ALU_TABLE;
	begin(&w->alu, e->cost.table, now);
	alu_halves(w, c, a);
	w->writes = WORK_UNIT * e->cost.writes / e->cost.result;
	if (!e->cost.table)
		next_stage(w, now);
}

/* ---- both ---- */

void work_start(struct work *w, const struct rivulet_config *c, const struct rivulet_event *e,
		uint64_t now)
{
	const struct rivulet_insn_conv *v = &e->insn.conv;

	if (e->insn.form == RIVULET_FORM_alu) {
		start_alu(w, c, e, now);
	} else {
		begin(&w->conv, e->cost.engine, now);
		w->loop = e->cost.words;
		w->weights = e->cost.weights;
		w->full = e->cost.inp_full;
		halves(&w->conv, w->half, v->acc,
		       (v->ocb - 1) * c->c_out.blk_pitch + (v->rows - 1) * c->c_out.row_pitch +
			       v->cols);
		use_less(&w->conv, e->cost.acc_free);
	}
	set_rates(w, now);
}

uint64_t work_end(const struct work *w, enum rivulet_form form)
{
	if (form == RIVULET_FORM_conv)
		return end_of(&w->conv);
	return w->stage == ALU_DRAIN ? end_of(&w->alu) : NEVER;
}

void work_done(struct work *w, enum rivulet_form form, uint64_t now)
{
	if (form == RIVULET_FORM_conv)
		w->conv.on = false;
	else
		w->alu.on = false;
	set_rates(w, now);
}

uint64_t work_change(const struct work *w)
{
	return w->stage == ALU_DRAIN ? NEVER : end_of(&w->alu);
}

uint64_t work_run(struct work *w, uint64_t now, uint64_t until)
{
	uint64_t next = now;

	do {
		now = next;
		next_stage(w, now);
		set_rates(w, now);
		next = work_change(w);
	} while (next < until && next < end_of(&w->conv));
	return now;
}

uint32_t work_inp_writes(const struct work *w)
{
	return w->alu.on && w->stage == ALU_RESULTS ? w->writes : 0;
}

uint32_t work_inp_delay(const struct work *w)
{
	uint64_t free = WORK_UNIT - w->full;

	if (!w->conv.on || !w->full)
		return 0;
	return less(w->full * WORK_UNIT / (free ? free : 1), MOST_DELAY);
}

void work_delay_conv(struct work *w, const struct rivulet_config *c,
		     const struct rivulet_decoded *d, uint64_t words, uint64_t now)
{
	struct worker t = { 0 };

	if (!w->conv.on || !w->loop)
		return;
	if (d->form == RIVULET_FORM_load)
		halves(&t, w->half, d->load.addr,
		       (d->load.blks - 1) * c->l_dst.blk_pitch +
			       (d->load.rows - 1) * c->l_dst.row_pitch + d->load.cols);
	else
		halves(&t, w->half, d->store.addr,
		       (d->store.blks - 1) * c->s_src.blk_pitch +
			       (d->store.rows - 1) * c->s_src.row_pitch + d->store.cols);
	update_left(&w->conv, now);
	w->conv.left += words * meetings(&w->conv, &t);
}
