/* SPDX-License-Identifier: MIT */
/* Time of command streams by the device's timeline: nothing is executed, no data is touched. */
#include "npu/backend.h"

#include <errno.h>
#include <string.h>

struct stream {
	const uint8_t *cmd;
	uint32_t n;
};

static int fetch(void *ctx, uint32_t index, struct rivulet_insn *out)
{
	const struct stream *s = ctx;

	if (index >= s->n)
		return 1;
	memcpy(out, s->cmd + (size_t)index * sizeof(*out), sizeof(*out));
	return 0;
}

static const char *fault_meaning(int fault)
{
#define MEANING(name, value, slot, doc)                                                            \
	case value:                                                                                \
		return doc;
	switch (fault) {
		RIVULET_FAULTS(MEANING)
	default:
		return "unknown fault";
	}
#undef MEANING
}

/* Which layers use the array. */
static void mark_array(const struct stream *s, const uint32_t *layer, struct rvl_layer_cost *cost)
{
	for (uint32_t i = 0; i < s->n; i++) {
		struct rivulet_insn in;

		fetch((void *)s, i, &in);
		if ((in.w[0] & 0xf) == RIVULET_OP_CONV && layer[i] != RVL_NONE)
			cost[layer[i]].array = true;
	}
}

/* Cycles of a segment so far: all before @end count for a layer. */
struct account {
	uint64_t end;
	uint64_t array; /* the array has worked since then; INT64_MAX: it is idle */
};

/*
 * Each cycle of the segment counts for one layer. Work of the array and the wait before it count
 * for the layer that the work belongs to. A layer without work of the array counts the cycles that
 * it adds while the array is idle.
 */
static void charge(struct rvl_layer_cost *c, const struct rivulet_event *e, struct account *a)
{
	uint64_t end = c->array ? e->end : (uint64_t)rvl_min(e->end, a->array);

	c->read_bytes += e->cost.read_bytes + sizeof(struct rivulet_insn);
	c->write_bytes += e->cost.write_bytes;
	c->macs += e->cost.macs;
	c->port_busy += e->cost.port;
	if (e->insn.form == RIVULET_FORM_conv)
		c->conv_busy += e->end - e->start;
	if (e->insn.form == RIVULET_FORM_alu)
		c->alu_busy += e->end - e->start;
	if ((c->array && e->insn.h.queue != RIVULET_Q_CONV) || end <= a->end)
		return;
	c->cycles += end - a->end;
	a->end = end;
}

/* What the first work of the array in a layer waits for. */
struct first_work {
	uint32_t layer;		      /* whose work the array did last, or RVL_NONE */
	uint64_t conv, store, weights; /* ends of the last CONV, STORE, and LOAD of weights of a layer */
	uint32_t weights_of;
};

static void note_wait(struct first_work *f, const struct rivulet_event *e, uint32_t layer,
		      struct rivulet_explain_segment *seg)
{
	uint64_t ready = f->conv > f->store ? f->conv : f->store;

	if (e->done && e->insn.form == RIVULET_FORM_conv)
		f->conv = e->end;
	else if (e->done && e->insn.form == RIVULET_FORM_store)
		f->store = e->end;
	else if (e->done && e->insn.form == RIVULET_FORM_load &&
		 e->insn.load.mem == RIVULET_MEM_WGT && layer != f->layer) {
		f->weights = e->end;
		f->weights_of = layer;
	}
	if (e->done || e->insn.form != RIVULET_FORM_conv || layer == f->layer)
		return;
	if (f->layer != RVL_NONE) {
		seg->layer_wait += e->start - f->conv;
		if (f->weights_of == layer && f->weights > ready)
			seg->weight_wait += f->weights - ready;
	}
	f->layer = layer;
}

const char *rvl_bound(uint64_t array, uint64_t alu, uint64_t port)
{
	if (array >= alu && array >= port)
		return "array";
	return alu >= port ? "ALU" : "port";
}

static void take_stats(const struct rivulet_timeline_stats *s, struct rivulet_explain_segment *seg,
		       uint32_t instructions)
{
	seg->instructions = instructions;
	seg->cycles = s->cycles;
	memcpy(seg->busy, s->busy, sizeof(seg->busy));
	seg->port_busy = s->port_busy;
	seg->read_bytes = s->read_bytes;
	seg->write_bytes = s->write_bytes;
	seg->array_macs = s->macs;
	seg->sparse_macs = s->sparse_macs;
	seg->binary_macs = s->binary_macs;
	seg->plane_macs = s->plane_macs;
	seg->plane_adds = s->plane_adds;
	seg->stream_macs = s->stream_macs;
	seg->stream_fj = s->stream_fj;
}

int rvl_estimate_stream(const struct rivulet_board *b, const void *cmd, size_t bytes,
			const uint32_t *layer, struct rvl_layer_cost *cost,
			struct rivulet_explain_segment *seg, struct rvl_err *err)
{
	struct stream s = { .cmd = cmd, .n = bytes / sizeof(struct rivulet_insn) };
	struct rivulet_timeline *t = rivulet_timeline_new(b, fetch, &s);
	struct first_work first = { .layer = RVL_NONE, .weights_of = RVL_NONE };
	const struct rivulet_event *e;
	struct account account = { .array = INT64_MAX };
	uint64_t last_end = 0, read = 0;
	uint32_t last = RVL_NONE, at;
	int rc;

	if (!t)
		return -ENOMEM;
	if (layer && cost)
		mark_array(&s, layer, cost);
	while ((rc = rivulet_timeline_next(t, &e)) == 1) {
		if (layer)
			note_wait(&first, e, layer[e->index], seg);
		if (e->insn.form == RIVULET_FORM_conv)
			account.array = e->done ? INT64_MAX : e->start;
		if (!e->done || !layer || !cost || layer[e->index] == RVL_NONE)
			continue;
		charge(&cost[layer[e->index]], e, &account);
		read += e->cost.read_bytes + sizeof(struct rivulet_insn);
		if (e->end >= last_end) {
			last_end = e->end;
			last = layer[e->index];
		}
	}
	if (last != RVL_NONE) { /* what drains at the end, and END itself */
		cost[last].cycles += rivulet_timeline_stats(t)->cycles - account.end;
		cost[last].read_bytes += rivulet_timeline_stats(t)->read_bytes - read;
	}
	take_stats(rivulet_timeline_stats(t), seg, s.n);
	at = e->index;
	rivulet_timeline_free(t);
	/* FAULT_INTERNAL: the timeline had no memory. Other faults are those of the stream. */
	if (rc == -RIVULET_FAULT_INTERNAL)
		return rvl_fail(err, -ENOMEM, "no memory to time a command stream");
	if (rc < 0)
		return rvl_fail(err, -EINVAL, "the device would refuse instruction %u of %u: %s",
				at, s.n, fault_meaning(-rc));
	return 0;
}

uint64_t rvl_spans_pause(uint64_t cycles)
{
	return cycles / 1500;
}

int rvl_spans_add(struct rvl_bytes *spans, uint32_t *last, const struct rivulet_explain_span *piece,
		  uint64_t pause)
{
	struct rivulet_explain_span *s = (struct rivulet_explain_span *)spans->data;

	if (last[piece->queue] != RVL_NONE)
		s += last[piece->queue];
	if (last[piece->queue] == RVL_NONE || s->row != piece->row || piece->start > s->end + pause) {
		last[piece->queue] = spans->size / sizeof(*s);
		return rvl_bytes_add(spans, piece, sizeof(*piece), 1, NULL);
	}
	/* An engine may begin an instruction before the last bytes of the one before have arrived. */
	s->port += piece->port;
	if (piece->end <= s->end)
		return 0;
	s->busy += piece->end - (piece->start > s->end ? piece->start : s->end);
	s->end = piece->end;
	return 0;
}

int rvl_spans_of_stream(const struct rivulet_board *b, const void *cmd, size_t bytes,
			const uint32_t *layer, struct rivulet_explain_span base, uint64_t pause,
			struct rvl_bytes *spans)
{
	struct stream s = { .cmd = cmd, .n = bytes / sizeof(struct rivulet_insn) };
	struct rivulet_timeline *t = rivulet_timeline_new(b, fetch, &s);
	uint32_t last[RIVULET_QUEUES] = { RVL_NONE, RVL_NONE, RVL_NONE, RVL_NONE };
	const struct rivulet_event *e;
	int rc = t ? 0 : -ENOMEM;

	while (!rc && rivulet_timeline_next(t, &e) == 1) {
		struct rivulet_explain_span piece = base;

		if (!e->done || e->insn.form == RIVULET_FORM_sync || e->end <= e->start)
			continue;
		piece.queue = e->insn.h.queue;
		piece.row = layer ? layer[e->index] : base.row;
		piece.start = e->start;
		piece.end = e->end;
		piece.busy = e->end - e->start;
		piece.port = e->cost.port;
		rc = rvl_spans_add(spans, last, &piece, pause);
	}
	rivulet_timeline_free(t);
	return rc;
}

void rvl_add_work(struct rivulet_work *w, const struct rivulet_explain_segment *seg)
{
	w->macs += seg->array_macs - seg->stream_macs;
	w->bytes += seg->read_bytes + seg->write_bytes;
	w->cycles += seg->cycles;
	w->sparse_macs += seg->sparse_macs;
	w->binary_macs += seg->binary_macs;
	w->plane_macs += seg->plane_macs;
	w->plane_adds += seg->plane_adds;
	w->stream_macs += seg->stream_macs;
	w->stream_fj += seg->stream_fj;
}

void rvl_estimate_level(const struct rivulet_board *b, uint32_t level,
			const struct rivulet_work *w, struct rivulet_estimate_row *row)
{
	row->level = level;
	row->hz = b->level[level].hz;
	row->cycles = w->cycles;
	row->seconds = (double)w->cycles / (double)row->hz;
	row->joule = (double)rivulet_job_pj(b, level, w, rvl_modes_energy(b, level, w)) * 1e-12;
}

int rvl_work_at(const struct rivulet_program *program, const struct rivulet_board *board,
		uint32_t level, struct rivulet_work *w, struct rvl_err *err)
{
	const struct rivulet_step *s = rivulet_program_steps(program);
	const uint8_t *base = (const uint8_t *)program;

	*w = (struct rivulet_work){ 0 };
	for (uint32_t i = 0; i < program->steps; i++) {
		const struct rivulet_step_variant *v = &s[i].variant[level];
		struct rivulet_explain_segment seg = { 0 };
		int rc;

		if (s[i].kind != RIVULET_STEP_NPU || !v->length)
			continue;
		rc = rvl_estimate_stream(board, base + v->offset, v->length, NULL, NULL, &seg, err);
		if (rc)
			return rc;
		rvl_add_work(w, &seg);
	}
	return 0;
}

/* Whether two levels run the same command streams. */
static bool same_streams(const struct rivulet_program *program, uint32_t a, uint32_t b)
{
	const struct rivulet_step *s = rivulet_program_steps(program);

	for (uint32_t i = 0; i < program->steps; i++)
		if (s[i].variant[a].offset != s[i].variant[b].offset ||
		    s[i].variant[a].length != s[i].variant[b].length)
			return false;
	return true;
}

int rivulet_estimate(const struct rivulet_program *program, const struct rivulet_board *board,
		     struct rivulet_estimate_row *rows, struct rvl_err *err)
{
	struct rivulet_work w = { 0 };

	for (uint32_t l = 0; l < board->levels; l++) {
		int rc = l && same_streams(program, l, l - 1) ? 0 :
								rvl_work_at(program, board, l, &w, err);

		if (rc)
			return rc;
		rvl_estimate_level(board, l, &w, &rows[l]);
		rows[l].length = program->level[l].length;
	}
	return board->levels;
}
