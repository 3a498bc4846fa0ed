// SPDX-License-Identifier: MIT
#include "queue.h"

#include <string.h>

/* The queue and what it acts on during one step. */
struct step {
	struct rvl_queue *q;
	const struct rvl_window *w;
	const struct rvl_queue_ops *ops;
	void *ctx;
	/*
	 * Request numbers are read before the slots, so that a slot that was written before a
	 * request is seen with it.
	 */
	uint32_t reset, abort, resume, level, hold;
};

/* Acknowledges a request: its number in the queue's state and in the window, and an interrupt. */
static void acknowledge(struct step *s, uint32_t reg, uint32_t *ack, uint32_t req)
{
	*ack = req;
	rvl_wr(s->w, reg, req);
	s->q->irq = true;
}

static void read_requests(struct step *s)
{
	s->reset = rvl_rd(s->w, RIVULET_REG_RESET_REQ);
	s->abort = rvl_rd(s->w, RIVULET_REG_ABORT_REQ);
	s->resume = rvl_rd(s->w, RIVULET_REG_RESUME_REQ);
	s->level = rvl_rd(s->w, RIVULET_REG_LEVEL_REQ);
	s->hold = rvl_rd(s->w, RIVULET_REG_HOLD_REQ);
}

/* Takes entries whose seq was written, in order, at most two outstanding ones. */
static bool take(struct step *s)
{
	struct rvl_queue *q = s->q;
	bool any = false;

	while (q->live && q->taken - q->done < 2) {
		uint32_t seq = q->taken + 1, i = seq & 1;
		uint32_t base = i ? RIVULET_REG_SLOT1_ADDR_LO : RIVULET_REG_SLOT0_ADDR_LO;
		uint64_t addr;

		if (rvl_rd(s->w, base + 8) != seq)
			break;
		addr = rvl_rd(s->w, base) | (uint64_t)rvl_rd(s->w, base + 4) << 32;
		memset(&q->slot[i], 0, sizeof(q->slot[i]));
		q->slot[i].e.seq = seq;
		s->ops->fetch(s->ctx, addr, &q->slot[i].e);
		q->slot[i].queued = true;
		q->taken = seq;
		any = true;
	}
	return any;
}

static bool is_queued(const struct rvl_queue *q, uint32_t seq)
{
	return q->slot[seq & 1].queued && q->slot[seq & 1].e.seq == seq;
}

static void stop(struct step *s, bool reset)
{
	s->q->stopping = true;
	s->ops->stop(s->ctx, reset);
}

static void finish_reset(struct step *s)
{
	struct rvl_queue *q = s->q;
	uint32_t base = rvl_rd(s->w, RIVULET_REG_RESET_BASE);

	q->active = q->running = q->stopping = q->aborting = q->frozen = false;
	memset(q->slot, 0, sizeof(q->slot));
	memset(&q->cur, 0, sizeof(q->cur));
	s->ops->clear(s->ctx);
	q->done = q->current = q->taken = base;
	q->live = true;
	rvl_wr(s->w, RIVULET_REG_FROZEN, 0);
	rvl_wr(s->w, RIVULET_REG_CURRENT_SEQ, base);
	rvl_wr(s->w, RIVULET_REG_DONE_SEQ, base);
	rvl_wr(s->w, RIVULET_REG_EPOCH, ++q->epoch);
	if (s->abort != q->ack_abort) {
		rvl_wr(s->w, RIVULET_REG_ABORT_RESULT, RIVULET_ABORT_NONE);
		acknowledge(s, RIVULET_REG_ABORT_ACK, &q->ack_abort, s->abort);
	}
	if (s->resume != q->ack_resume)
		acknowledge(s, RIVULET_REG_RESUME_ACK, &q->ack_resume, s->resume);
	acknowledge(s, RIVULET_REG_RESET_ACK, &q->ack_reset, s->reset);
}

/* A pending RESET excludes all other requests, because RESET discards their effects. */
static bool serve_reset(struct step *s)
{
	struct rvl_outcome o;

	if (s->q->running)
		stop(s, true);
	if (s->q->running && !s->ops->ended(s->ctx, &o))
		return false;
	finish_reset(s);
	return true;
}

static bool serve_abort(struct step *s)
{
	struct rvl_queue *q = s->q;
	uint32_t seq, result = RIVULET_ABORT_NONE;

	if (s->abort == q->ack_abort || q->aborting || (q->active && !q->running))
		return false;
	seq = rvl_rd(s->w, RIVULET_REG_ABORT_SEQ);
	if (q->running && seq == q->current) {
		if (s->ops->outruns_abort && s->ops->outruns_abort(s->ctx))
			return false;
		q->aborting = true;
		q->abort_req = s->abort;
		stop(s, false);
		return true;
	}
	if (is_queued(q, seq)) {
		q->slot[seq & 1].aborted = true;
		result = RIVULET_ABORT_NEXT;
	}
	rvl_wr(s->w, RIVULET_REG_ABORT_RESULT, result);
	acknowledge(s, RIVULET_REG_ABORT_ACK, &q->ack_abort, s->abort);
	return true;
}

static bool serve_resume(struct step *s)
{
	struct rvl_queue *q = s->q;

	if (s->resume == q->ack_resume)
		return false;
	if (q->frozen && rvl_rd(s->w, RIVULET_REG_RESUME_SEQ) == q->frozen_seq) {
		q->frozen = false;
		rvl_wr(s->w, RIVULET_REG_FROZEN, 0);
	}
	acknowledge(s, RIVULET_REG_RESUME_ACK, &q->ack_resume, s->resume);
	return true;
}

/* A release is served at any time, a hold only while no entry is CURRENT. */
static bool serve_hold(struct step *s, bool boundary)
{
	struct rvl_queue *q = s->q;
	bool hold;

	if (s->hold == q->ack_hold)
		return false;
	hold = rvl_rd(s->w, RIVULET_REG_HOLD_VALUE) != 0;
	if (hold && !boundary)
		return false;
	if (hold != q->held)
		s->ops->level(s->ctx, q->level);
	q->held = hold;
	rvl_wr(s->w, RIVULET_REG_HELD, hold);
	acknowledge(s, RIVULET_REG_HOLD_ACK, &q->ack_hold, s->hold);
	return true;
}

static bool level_deferred(const struct rvl_queue *q, uint32_t level)
{
	for (int i = 0; i < 2; i++)
		if (q->slot[i].queued && !q->slot[i].aborted && !q->slot[i].e.fault &&
		    q->slot[i].e.min_level > level)
			return true;
	return false;
}

static bool serve_level(struct step *s)
{
	struct rvl_queue *q = s->q;
	uint32_t value, level;

	if (s->level == q->ack_level)
		return false;
	value = rvl_rd(s->w, RIVULET_REG_LEVEL_VALUE);
	level = value & ~RIVULET_LEVEL_FORCE;
	/*
	 * The level value may already be that of a newer request. Slots that were written before
	 * that request must count for its deferral, so they are read after the value.
	 */
	take(s);
	if (level < q->levels) {
		if (!(value & RIVULET_LEVEL_FORCE) && level_deferred(q, level))
			return false;
		s->ops->level(s->ctx, level);
		q->level = level;
		rvl_wr(s->w, RIVULET_REG_LEVEL_CUR, level);
	}
	acknowledge(s, RIVULET_REG_LEVEL_ACK, &q->ack_level, s->level);
	return true;
}

/* The level was latched just before, so the variant is that of the level. */
static bool promote(struct step *s)
{
	struct rvl_queue *q = s->q;
	uint32_t seq = q->current + 1;
	bool aborted = q->slot[seq & 1].aborted;

	if (!q->live || q->frozen || q->held || !is_queued(q, seq))
		return false;
	q->cur = q->slot[seq & 1].e;
	memset(&q->slot[seq & 1], 0, sizeof(q->slot[0]));
	q->current = seq;
	q->active = true;
	rvl_wr(s->w, RIVULET_REG_CURRENT_SEQ, seq);
	if (aborted)
		q->outcome = (struct rvl_outcome){ RIVULET_STATE_ABORTED, 0 };
	else if (q->cur.fault)
		q->outcome = (struct rvl_outcome){ RIVULET_STATE_FAULT, q->cur.fault };
	else if (q->level < q->cur.min_level || !(q->cur.variants >> q->level & 1))
		q->outcome = (struct rvl_outcome){ RIVULET_STATE_NO_VARIANT, 0 };
	else
		q->running = true;
	if (q->running)
		s->ops->start(s->ctx, &q->cur, q->level);
	return true;
}

static bool boundary(struct step *s)
{
	bool any = serve_hold(s, true);

	any |= serve_level(s);
	return promote(s) || any;
}

static void freeze(struct step *s, uint32_t seq, uint32_t fault)
{
	s->q->frozen = true;
	s->q->frozen_seq = seq;
	rvl_wr(s->w, RIVULET_REG_FROZEN_FAULT, fault);
	rvl_wr(s->w, RIVULET_REG_FROZEN_SEQ, seq);
	rvl_wr(s->w, RIVULET_REG_FROZEN, 1);
}

static void finish_abort(struct step *s)
{
	s->q->aborting = false;
	rvl_wr(s->w, RIVULET_REG_ABORT_RESULT, RIVULET_ABORT_CURRENT);
	acknowledge(s, RIVULET_REG_ABORT_ACK, &s->q->ack_abort, s->q->abort_req);
}

/* CURRENT has ended: writes its status, serves the boundary, and writes DONE_SEQ. */
static void retire(struct step *s, struct rvl_outcome o)
{
	struct rvl_queue *q = s->q;
	struct rvl_entry e = q->cur;
	bool ran = q->running, aborting = q->aborting;

	if (aborting && o.state != RIVULET_STATE_FAULT)
		o = (struct rvl_outcome){ RIVULET_STATE_ABORTED, 0 };
	s->ops->report(s->ctx, &e, ran, &o);
	q->active = q->running = q->stopping = false;
	memset(&q->cur, 0, sizeof(q->cur));
	memset(&q->outcome, 0, sizeof(q->outcome));
	if (o.state == RIVULET_STATE_FAULT || aborting)
		freeze(s, e.seq, o.fault);
	q->irq |= e.irq || e.fault || q->frozen;
	boundary(s);
	q->done = e.seq;
	rvl_wr(s->w, RIVULET_REG_DONE_SEQ, e.seq);
	if (aborting)
		finish_abort(s);
}

static bool try_retire(struct step *s)
{
	struct rvl_queue *q = s->q;
	struct rvl_outcome o = q->outcome;

	if (!q->active || (q->running && !s->ops->ended(s->ctx, &o)))
		return false;
	retire(s, o);
	return true;
}

static bool transition(struct step *s)
{
	struct rvl_queue *q = s->q;
	bool any = take(s);

	if (s->reset != q->ack_reset)
		return serve_reset(s) || any;
	any |= serve_abort(s);
	if (try_retire(s))
		return true;
	any |= serve_resume(s);
	any |= serve_hold(s, false);
	if (!q->active)
		any |= boundary(s);
	return any;
}

void rvl_queue_init(struct rvl_queue *q, const struct rvl_window *w, uint32_t levels)
{
	memset(q, 0, sizeof(*q));
	q->levels = levels;
	q->level = levels - 1;
	rvl_wr(w, RIVULET_REG_LEVEL_CUR, q->level);
}

bool rvl_queue_step(struct rvl_queue *q, const struct rvl_window *w,
		    const struct rvl_queue_ops *ops, void *ctx)
{
	struct step s = { .q = q, .w = w, .ops = ops, .ctx = ctx };
	bool any;

	read_requests(&s);
	any = transition(&s);
	if (q->irq)
		ops->irq(ctx);
	q->irq = false;
	return any;
}
