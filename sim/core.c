// SPDX-License-Identifier: MIT
/* Runs one job along the timeline, from its first instruction to END, a fault or an abort. */
#include "engine.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 4096u /* of the command stream, mapped at a time */

/*
 * Cycles of work that may run on the thread that serves the driver: some microseconds of the host.
 */
#define BRIEF_CYCLES 1024
#define LATER	     (-2) /* beside RVL_ABORTED: the rest of the program takes longer */

/* The command stream. The timeline fetches it in order, never before @base. */
struct stream {
	struct rvl_regions *regions;
	const struct rivulet_variant *variant;
	const uint8_t *piece; /* mapped bytes [base, base + len) of the stream */
	uint64_t base;
	uint64_t len;
	bool drop_token;
};

/* The program in progress, from rvl_core_begin() to the rvl_core_go() that ends it. */
struct rvl_run {
	struct rvl_job *job;
	struct stream stream;
	struct rivulet_timeline *t;
	const struct rivulet_event *e; /* the timeline's last */
	bool held; /* the timeline has returned @e, which is not executed yet */
};

struct rvl_core *rvl_core_new(const struct rivulet_board *b)
{
	struct rvl_core *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->board = b;
	/* a vector load may read past the last word */
	c->inp = calloc(1, b->inp_bytes + 64);
	c->wgt = calloc(1, b->wgt_bytes + 64);
	c->acc = calloc(1, b->acc_bytes + 64);
	c->row = malloc(RVL_ROW_BYTES);
	c->run = calloc(1, sizeof(*c->run));
	return c->inp && c->wgt && c->acc && c->row && c->run ? c : rvl_core_free(c);
}

struct rvl_core *rvl_core_free(struct rvl_core *c)
{
	if (!c)
		return NULL;
	free(c->inp);
	free(c->wgt);
	free(c->acc);
	free(c->row);
	if (c->run)
		rivulet_timeline_free(c->run->t);
	free(c->run);
	free(c->conv);
	free(c->sc);
	free(c);
	return NULL;
}

void rvl_core_clear(struct rvl_core *c)
{
	memset(c->inp, 0, c->board->inp_bytes);
	memset(c->wgt, 0, c->board->wgt_bytes);
	memset(c->acc, 0, c->board->acc_bytes);
}

/* Maps the piece at @at: up to the end of a page if that is accessible, else one instruction. */
static int map_piece(struct stream *s, uint64_t at)
{
	uint64_t offset = s->variant->offset + at, left = s->variant->length - at;
	uint64_t len = PIECE - offset % PIECE, got;
	void *p;

	if (len > left)
		len = left;
	if (rvl_region_span(s->regions, s->variant->slot, offset, len, false, &p, &got)) {
		int fault = rvl_region_span(s->regions, s->variant->slot, offset,
					    RIVULET_INSN_BYTES, false, &p, &got);

		if (fault)
			return -RIVULET_FAULT_FETCH;
	}
	s->piece = p;
	s->base = at;
	s->len = got;
	return 0;
}

/* In a list whose first byte is not 16-byte aligned, an instruction can cross two pages. */
static int fetch_split(struct stream *s, uint64_t at, void *raw)
{
	if (rvl_region_read(s->regions, s->variant->slot, s->variant->offset + at, raw,
			    RIVULET_INSN_BYTES))
		return -RIVULET_FAULT_FETCH;
	return 0;
}

/* Removes the tokens that an instruction pushes. Returns whether it pushed any. */
static bool drop_pushes(struct rivulet_insn *in)
{
	struct rivulet_decoded d;

	if (rivulet_decode(in, &d) || !d.h.push)
		return false;
	d.h.push = 0;
	return !rivulet_encode(&d, in, NULL);
}

static int fetch(void *ctx, uint32_t index, struct rivulet_insn *out)
{
	struct stream *s = ctx;
	uint64_t at = (uint64_t)index * RIVULET_INSN_BYTES;
	uint64_t raw[2];
	int r = 0;

	if (at >= s->variant->length)
		return 1;
	if (!s->piece || at < s->base || at + RIVULET_INSN_BYTES > s->base + s->len)
		r = map_piece(s, at);
	if (r)
		return r;
	if (at + RIVULET_INSN_BYTES > s->base + s->len)
		r = fetch_split(s, at, raw);
	else
		memcpy(raw, s->piece + (at - s->base), sizeof(raw));
	out->w[0] = le64toh(raw[0]);
	out->w[1] = le64toh(raw[1]);
	if (s->drop_token)
		s->drop_token = !drop_pushes(out);
	return r;
}

/*
 * A PROF record goes to the place that Q_PROF names at the start of the instruction, because a
 * later CFG may change Q_PROF.
 */
static void reserve_prof(struct rvl_core *c, const struct rivulet_event *e)
{
	unsigned int q = e->insn.h.queue;
	struct rvl_prof_target *t = &c->prof[q];
	struct rvl_prof_ring *r = &c->reserved[q];

	r->place[(r->head + r->count++) % RIVULET_FLIGHT] = *t;
	if (!t->limit)
		return;
	t->limit--;
	t->offset += sizeof(struct rivulet_prof);
}

static int write_prof(struct rvl_core *c, const struct rivulet_event *e)
{
	unsigned int q = e->insn.h.queue;
	struct rvl_prof_ring *r = &c->reserved[q];
	const struct rvl_prof_target *t;
	struct rivulet_prof rec = {
		.tag = htole32(e->tag),
		.queue = htole32(q),
		.start = htole64(e->start),
		.end = htole64(e->end),
	};

	if (!r->count) /* the start and the end of END are one event */
		reserve_prof(c, e);
	t = &r->place[r->head];
	r->head = (r->head + 1) % RIVULET_FLIGHT;
	r->count--;
	return t->limit ? rvl_region_write(c->regions, t->slot, t->offset, &rec, sizeof(rec)) : 0;
}

static int run_engine(struct rvl_core *c, const struct rivulet_config *cfg,
		      const struct rivulet_decoded *d)
{
	struct rivulet_footprint foot;
	int fault = rivulet_footprint_of(c->board, cfg, d, &foot);

	if (fault)
		return fault;
	switch (d->form) {
	case RIVULET_FORM_load:
		return rvl_load(c, cfg, &d->load);
	case RIVULET_FORM_conv:
		return rvl_conv(c, cfg, &d->conv);
	case RIVULET_FORM_alu:
		return rvl_alu(c, cfg, &d->alu);
	case RIVULET_FORM_store:
		return rvl_store(c, cfg, &d->store);
	case RIVULET_FORM_q_prof:
		c->prof[d->h.queue] = (struct rvl_prof_target){ d->q_prof.slot, d->q_prof.offset,
								d->q_prof.limit };
		return 0;
	default:
		return 0;
	}
}

/* A CONV takes long at any size. Other instructions only copy, limited by the width of the port. */
static bool is_brief(const struct rivulet_event *e)
{
	return e->start + e->cost.port + e->cost.engine <= BRIEF_CYCLES &&
	       e->insn.form != RIVULET_FORM_conv;
}

static int start_insn(struct rvl_core *c, const struct rivulet_event *e)
{
	int fault;

	if (rvl_core_aborted(c))
		return RVL_ABORTED;
	fault = run_engine(c, rivulet_timeline_config(c->run->t), &e->insn);
	if (!fault && e->insn.h.prof)
		reserve_prof(c, e);
	return fault;
}

static int end_insn(struct rvl_core *c, const struct rivulet_event *e)
{
	int fault = e->insn.h.prof ? write_prof(c, e) : 0;

	if (!fault && c->run->job->progress)
		atomic_fetch_add_explicit(c->run->job->progress, 1, memory_order_relaxed);
	return fault;
}

/*
 * Runs all events, or with @brief only those before the first one that takes long. Returns 0, a
 * fault, RVL_ABORTED or LATER.
 */
static int run_events(struct rvl_core *c, bool brief)
{
	struct rvl_run *run = c->run;
	int r = 1;

	while (run->held || (r = rivulet_timeline_next(run->t, &run->e)) == 1) {
		const struct rivulet_event *e = run->e;
		int fault;

		run->held = brief && !e->done && !is_brief(e);
		if (run->held)
			return LATER;
		fault = e->done ? end_insn(c, e) : start_insn(c, e);
		if (fault)
			return fault;
	}
	return -r;
}

static void report(struct rivulet_status *st, const struct rivulet_timeline_stats *s)
{
	st->cycles = htole64(s->cycles);
	st->load_busy = htole64(s->busy[RIVULET_Q_LOAD]);
	st->conv_busy = htole64(s->busy[RIVULET_Q_CONV]);
	st->alu_busy = htole64(s->busy[RIVULET_Q_ALU]);
	st->store_busy = htole64(s->busy[RIVULET_Q_STORE]);
	st->stalls = htole64(s->stalls[0] + s->stalls[1] + s->stalls[2] + s->stalls[3]);
	st->read_bytes = htole64(s->read_bytes);
	st->write_bytes = htole64(s->write_bytes);
	st->macs = htole64(s->macs);
}

static bool names_slot(int fault)
{
#define SLOT(name, value, slot, doc)                                                               \
	case value:                                                                                \
		return slot;
	switch (fault) {
		RIVULET_FAULTS(SLOT)
	default:
		return false;
	}
#undef SLOT
}

static void outcome(struct rvl_core *c, struct rivulet_status *st, int r, uint32_t index,
		    uint32_t retired)
{
	bool slot = r > 0 && names_slot(r);

	st->state = htole32(!r		     ? RIVULET_STATE_DONE :
			    r == RVL_ABORTED ? RIVULET_STATE_ABORTED :
					       RIVULET_STATE_FAULT);
	st->fault = htole32(r > 0 ? r : RIVULET_FAULT_NONE);
	st->fault_slot = htole32(slot ? c->regions->bad.slot : RIVULET_NO_SLOT);
	st->fault_offset = htole64(slot ? c->regions->bad.offset : 0);
	st->insn = htole32(r > 0 ? index : retired);
}

/* The length must be a multiple of an instruction, and the end must not exceed 64 bits. */
static bool stream_ok(const struct rivulet_variant *v)
{
	uint64_t end;

	return v->offset % RIVULET_INSN_BYTES == 0 && v->length % RIVULET_INSN_BYTES == 0 &&
	       !__builtin_add_overflow(v->offset, (uint64_t)v->length, &end);
}

/* Sets the offset of each slot in its page, because bursts end at page boundaries. */
static void place_slots(struct rivulet_timeline *t, const struct rvl_job *job)
{
	for (uint32_t i = 0; i < RIVULET_SLOTS; i++) {
		const struct rivulet_region *r = &job->regions.region[i];

		rivulet_timeline_place(t, i, r->flags & RIVULET_REGION_LIST ? r->first : r->addr);
		if (i == job->variant.slot)
			rivulet_timeline_stream_at(t, (r->flags & RIVULET_REGION_LIST ? r->first :
										  r->addr) +
							      job->variant.offset);
	}
}

void rvl_core_begin(struct rvl_core *c, struct rvl_job *job)
{
	struct rvl_run *run = c->run;

	*run = (struct rvl_run){ .job = job };
	run->stream = (struct stream){ .regions = &job->regions, .variant = &job->variant,
				       .drop_token = job->drop_token };
	run->t = rivulet_timeline_new(c->board, fetch, &run->stream);
	if (run->t)
		place_slots(run->t, job);
	c->regions = &job->regions;
	c->abort = job->abort;
	memset(c->prof, 0, sizeof(c->prof));
	memset(c->reserved, 0, sizeof(c->reserved));
}

bool rvl_core_go(struct rvl_core *c, bool brief, struct rivulet_status *st)
{
	static const struct rivulet_timeline_stats none;
	struct rvl_run *run = c->run;
	const struct rivulet_timeline_stats *stats = run->t ? rivulet_timeline_stats(run->t) :
		&none;
	struct rvl_job *job = run->job;
	uint32_t index = 0; /* of the instruction that faults */
	int r = RIVULET_FAULT_INTERNAL;

	if (!stream_ok(&job->variant)) {
		c->regions->bad = (struct rvl_access){ job->variant.slot, job->variant.offset };
		r = RIVULET_FAULT_FETCH;
	} else if (run->t) {
		r = run_events(c, brief);
	}
	if (r == LATER)
		return false;
	if (run->e)
		index = run->e->index;
	if (r > 0 && run->t)
		rivulet_timeline_drain(run->t);
	report(st, stats);
	job->work = rivulet_timeline_work(stats);
	outcome(c, st, r, index, stats->retired);
	run->t = rivulet_timeline_free(run->t);
	c->regions = NULL;
	c->abort = NULL;
	return true;
}

void rvl_core_run(struct rvl_core *c, struct rvl_job *job, struct rivulet_status *st)
{
	rvl_core_begin(c, job);
	rvl_core_go(c, false, st);
}
