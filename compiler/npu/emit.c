/* SPDX-License-Identifier: MIT */
/*
 * Operations into a stream: configuration is written only where it changes, every operation records
 * what it reads and writes.
 */
#include "npu/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPS		 (1u << 21) /* of a stream, with its END */
#define PROF_RECORDS_MAX 1048575
#define MAX_WORDS	 16383 /* columns of one LOAD or STORE */

#define CHUNK 1024

/* Of an operation: itself, its places in the lists of the schedule, its instruction and its layer. */
#define OP_BYTES (sizeof(struct rvl_insn_op) + 2 * sizeof(uint32_t) + sizeof(struct rivulet_insn))

/* Room for so many accesses. Those of an operation are next to each other. */
struct rvl_op_accesses {
	struct rvl_op_accesses *next;
	uint32_t used;
	struct rvl_op_access of[CHUNK];
};

void rvl_stream_init(struct rvl_stream *s, const struct rivulet_board *b, bool prof,
		     struct rvl_err *err)
{
	memset(s, 0, sizeof(*s));
	s->board = b;
	s->prof = prof;
	s->most = MAX_OPS;
	s->err = err;
}

void rvl_stream_free(struct rvl_stream *s)
{
	while (s->accesses) {
		struct rvl_op_accesses *next = s->accesses->next;

		rvl_arena_uncount(s->arena, sizeof(*s->accesses));
		free(s->accesses);
		s->accesses = next;
	}
	rvl_arena_uncount(s->arena, s->cap * OP_BYTES);
	free(s->op);
	s->op = NULL;
	s->cap = 0;
}

/*
 * Room for the accesses of the next operation, behind those of the last one, to which none are added
 * from here on.
 */
static struct rvl_op_access *new_accesses(struct rvl_stream *s)
{
	struct rvl_op_accesses *a = s->accesses;

	if (a && s->last_op < s->n)
		a->used += s->op[s->last_op].accesses;
	if (!a || a->used + RVL_OP_ACCESSES > CHUNK) {
		a = rvl_arena_count(s->arena, sizeof(*a)) ? malloc(sizeof(*a)) : NULL;
		if (!a)
			return NULL;
		a->next = s->accesses;
		a->used = 0;
		s->accesses = a;
	}
	return a->of + a->used;
}

/* Makes room for one operation more. */
static int grow(struct rvl_stream *s)
{
	uint32_t cap = s->cap ? 2 * s->cap : 1024;
	struct rvl_insn_op *p;

	if (s->n < s->cap)
		return 0;
	if (!rvl_arena_count(s->arena, (cap - s->cap) * OP_BYTES))
		return -ENOMEM;
	p = realloc(s->op, cap * sizeof(*p));
	if (!p) {
		rvl_arena_uncount(s->arena, (cap - s->cap) * OP_BYTES);
		return -ENOMEM;
	}
	s->op = p;
	s->cap = cap;
	return 0;
}

static struct rvl_insn_op *append(struct rvl_stream *s, bool cfg)
{
	struct rvl_op_access *access = NULL;

	if (s->rc)
		return NULL;
	if (s->n + 1 >= s->most) {
		s->rc = rvl_fail(s->err, -E2BIG, "a command stream of more than %u instructions",
				 s->most);
		return NULL;
	}
	if (!cfg)
		access = new_accesses(s);
	if ((!cfg && !access) || grow(s)) {
		s->rc = rvl_fail(s->err, -ENOMEM, "no memory for a command stream");
		return NULL;
	}
	if (!cfg)
		s->last_op = s->n;
	s->op[s->n] = (struct rvl_insn_op){ .cfg = cfg, .layer = s->layer, .access = access };
	return &s->op[s->n++];
}

static int encode(struct rvl_stream *s, enum rivulet_form form, enum rivulet_queue q,
		  const struct rivulet_decoded *d, struct rivulet_insn *out)
{
	struct rivulet_decoded t = *d;
	const char *bad = "";
	int rc;

	t.form = form;
	t.h.queue = q;
	rc = rivulet_encode(&t, out, &bad);
	if (rc)
		s->rc = rvl_fail(s->err, rc, "internal: field %s of %s does not fit in layer %u",
				 bad, rivulet_form_table(form)->name, s->layer);
	return rc;
}

/* Bytes of the fields of a form, from the header on. */
#define FORM_BYTES(name, table) [RIVULET_FORM_##name] = sizeof(struct rivulet_insn_##name),
static const uint8_t form_bytes[RIVULET_FORM_COUNT] = { RIVULET_ISA_FORMS(FORM_BYTES) };

/* Whether the queue of @form is configured with the fields of @d already; else remembers them. */
static bool given(struct rvl_stream *s, enum rivulet_form form, const struct rivulet_decoded *d)
{
	struct rivulet_decoded *last = &s->given[form];

	if (last->form == form && !memcmp(&last->h, &d->h, form_bytes[form]))
		return true;
	memcpy(&last->h, &d->h, form_bytes[form]);
	last->form = RIVULET_FORM_COUNT; /* until it is part of the stream */
	return false;
}

static void config(struct rvl_stream *s, enum rivulet_form form, enum rivulet_queue q,
		   const struct rivulet_decoded *d)
{
	int index = rivulet_form_table(form)->index;
	struct rivulet_insn insn, none = { { 0, 0 } };
	struct rvl_insn_op *op;

	if (s->rc || encode(s, form, q, d, &insn))
		return;
	if (s->shadowed[q][index] && !memcmp(&s->shadow[q][index], &insn, sizeof(insn)))
		return;
	if (!s->shadowed[q][index] && !(insn.w[0] >> 32) && insn.w[1] == none.w[1])
		return; /* all zero is the state at the start */
	op = append(s, true);
	if (!op)
		return;
	s->shadow[q][index] = insn;
	s->shadowed[q][index] = true;
	op->insn = insn;
	op->queue = q;
}

void rvl_emit_cfg(struct rvl_stream *s, enum rivulet_form form, const struct rivulet_decoded *d)
{
	if (given(s, form, d))
		return;
	config(s, form, rivulet_form_table(form)->queue, d);
	if (!s->rc)
		s->given[form].form = form;
}

/* The first instructions of a profiled stream: where each queue's records go, patched at the end.
 */
void rvl_emit_prof_setup(struct rvl_stream *s)
{
	for (int q = 0; s->prof && q < RIVULET_QUEUES; q++) {
		struct rivulet_decoded d = { .q_prof = { .slot = RIVULET_SLOT_PROF, .limit = 1 } };

		config(s, RIVULET_FORM_q_prof, q, &d);
	}
}

/* Each queue gets room for exactly its own operations, one queue behind the other. */
void rvl_emit_prof_finish(struct rvl_stream *s)
{
	uint64_t count[RIVULET_QUEUES] = { 0 }, at = 0;

	for (uint32_t i = 0; i < s->n; i++)
		count[s->op[i].queue] += !s->op[i].cfg;
	for (int q = 0; s->prof && !s->rc && q < RIVULET_QUEUES; q++) {
		struct rivulet_decoded d = { .q_prof = { .slot = RIVULET_SLOT_PROF,
							 .offset = at,
							 .limit = rvl_min(count[q],
									  PROF_RECORDS_MAX) } };

		encode(s, RIVULET_FORM_q_prof, q, &d, &s->op[q].insn);
		at += d.q_prof.limit * sizeof(struct rivulet_prof);
	}
}

struct rvl_insn_op *rvl_emit(struct rvl_stream *s, enum rivulet_form form, enum rivulet_queue q,
			     const struct rivulet_decoded *d)
{
	struct rivulet_decoded t = *d;
	struct rivulet_insn insn;
	struct rvl_insn_op *op;

	s->sink.accesses = 0;
	s->sink.access = s->sunk;
	if (s->prof) {
		struct rivulet_decoded tag = { .q_tag.tag = s->layer };

		t.h.prof = 1;
		config(s, RIVULET_FORM_q_tag, q, &tag);
	}
	if (s->rc || encode(s, form, q, &t, &insn))
		return &s->sink;
	op = append(s, false);
	if (!op)
		return &s->sink;
	op->insn = insn;
	op->queue = q;
	return op;
}

static struct rvl_op_access *touch(struct rvl_insn_op *op)
{
	return &op->access[op->accesses < RVL_OP_ACCESSES ? op->accesses++ : RVL_OP_ACCESSES - 1];
}

void rvl_touch_spad(struct rvl_insn_op *op, int at, int64_t lo, int64_t words, bool write)
{
	struct rvl_op_access *a = touch(op);

	*a = (struct rvl_op_access){ .at = at, .write = write, .lo = lo, .hi = lo + words };
}

void rvl_touch_blocks(struct rvl_insn_op *op, const struct rvl_spad *d, int64_t rows, int64_t cols,
		      int64_t blks, bool write)
{
	int64_t words = (rows - 1) * d->row + cols;

	if (words == d->blk)
		rvl_touch_spad(op, RVL_AT_INP, d->addr, blks * words, write);
	else
		*touch(op) = (struct rvl_op_access){ .at = RVL_AT_INP,
						     .write = write,
						     .lo = d->addr,
						     .hi = d->addr + words,
						     .step = d->blk,
						     .runs = blks };
}

static void touch_store(const struct rvl_stream *s, struct rvl_insn_op *op,
			const struct rvl_operand *o, const struct rvl_box *b, bool write)
{
	int64_t tn = s->board->tn;
	struct rvl_op_access *a = touch(op);

	*a = (struct rvl_op_access){
		.at = RVL_AT_STORE,
		.write = write,
		.o = o,
		.box = { { b->n, b->n + 1 },
			 { b->b0 * tn, (b->b0 + b->bn) * tn },
			 { b->y, b->y + b->h },
			 { b->x, b->x + b->w } },
	};
}

/* Where a rectangle lies in memory, for both directions. */
struct place {
	enum rivulet_xfer kind;
	uint64_t offset, row_pitch, blk_pitch, ch_pitch;
	int64_t channels;
	uint8_t flip;
};

static struct place blocked_place(const struct rvl_operand *o, const struct rvl_box *b, int64_t tn)
{
	const struct rvl_view *v = &o->v;
	uint64_t row = v->w * tn, blk = v->h * row, image = (rvl_div_up(v->c, tn) << v->wide) * blk;

	return (struct place){
		.kind = RIVULET_XFER_BLOCK,
		.offset = o->s->offset + b->n * image + b->b0 * blk + b->y * row + b->x * tn,
		.row_pitch = row,
		.blk_pitch = blk,
	};
}

static struct place plain_place(const struct rvl_operand *o, const struct rvl_box *b, int64_t tn)
{
	const struct rvl_view *v = &o->v;
	int64_t c0 = b->b0 * tn, bytes = v->c << v->wide; /* of a pixel */
	struct place p = {
		.channels = rvl_min(bytes - c0, b->bn * tn),
		.flip = o->flip,
		.offset = o->s->offset + (uint64_t)b->n * bytes * v->h * v->w,
	};

	if (v->inter) {
		p.kind = RIVULET_XFER_INTERLEAVED;
		p.ch_pitch = bytes;
		p.row_pitch = v->w * bytes;
		p.offset += b->y * p.row_pitch + b->x * p.ch_pitch + c0;
	} else {
		p.kind = RIVULET_XFER_PLANAR;
		p.row_pitch = v->w;
		p.ch_pitch = v->h * v->w;
		p.offset += c0 * p.ch_pitch + b->y * p.row_pitch + b->x;
	}
	return p;
}

struct rvl_box rvl_words_of(const struct rvl_operand *o, struct rvl_box box)
{
	box.b0 <<= o->v.wide;
	box.bn <<= o->v.wide;
	return box;
}

static struct place place_of(const struct rvl_stream *s, const struct rvl_operand *o,
			     const struct rvl_box *b)
{
	int64_t tn = s->board->tn;

	struct place p = o->s->blocked || o->flat ? blocked_place(o, b, tn) : plain_place(o, b, tn);

	if (o->flat)
		p.flip = o->flip;
	return p;
}

/* Pixels of INP written for each one read, and words between rows and blocks. */
struct spread {
	int64_t rows, cols, pitch, blk;
};

static void emit_load(struct rvl_stream *s, const struct rvl_operand *o, const struct place *p,
		      const struct rvl_box *box, struct spread rep, int64_t addr)
{
	int64_t w = box->w * rep.cols, h = box->h * rep.rows;
	struct rivulet_decoded src = { .l_src = { .row_pitch = p->row_pitch,
						  .blk_pitch = p->blk_pitch,
						  .ch_pitch = p->ch_pitch } };
	struct rivulet_decoded dst = { .l_dst = { .row_pitch = rep.pitch, .blk_pitch = rep.blk } };
	struct rivulet_decoded ch = { .l_chan = { .channels = p->channels,
						  .fill = o->zp,
						  .rep_x = rep.cols - 1,
						  .rep_y = rep.rows - 1 } };
	struct rivulet_decoded d = { .load = { .mem = RIVULET_MEM_INP,
					       .addr = addr,
					       .slot = o->s->slot,
					       .kind = p->kind,
					       .flip = !!p->flip,
					       .offset = p->offset,
					       .rows = box->h,
					       .cols = box->w,
					       .blks = box->bn } };
	struct rvl_insn_op *op;

	rvl_emit_cfg(s, RIVULET_FORM_l_src, &src);
	rvl_emit_cfg(s, RIVULET_FORM_l_dst, &dst);
	if (p->kind != RIVULET_XFER_BLOCK || s->replicates || h * w > box->h * box->w)
		rvl_emit_cfg(s, RIVULET_FORM_l_chan, &ch);
	s->replicates = h * w > box->h * box->w;
	op = rvl_emit(s, RIVULET_FORM_load, RIVULET_Q_LOAD, &d);
	rvl_touch_blocks(op, &(struct rvl_spad){ addr, rep.pitch, rep.blk }, h, w, box->bn, true);
	touch_store(s, op, o, box, false);
}

/* @part.h words, @to->col apart in INP, @part.bn times, @to->row apart. */
static void load_lattice(struct rvl_stream *s, const struct rvl_operand *o, const struct place *p,
			 const struct rvl_box *part, const struct rvl_lattice *to)
{
	struct rivulet_decoded src = { .l_src = { .row_pitch = p->row_pitch,
						  .blk_pitch = p->blk_pitch,
						  .ch_pitch = p->ch_pitch } };
	struct rivulet_decoded dst = { .l_dst = { .row_pitch = to->col, .blk_pitch = to->row } };
	struct rivulet_decoded ch = { .l_chan = { .channels = p->channels, .fill = o->zp } };
	struct rivulet_decoded d = { .load = { .mem = RIVULET_MEM_INP,
					       .addr = to->addr,
					       .slot = o->s->slot,
					       .kind = p->kind,
					       .flip = !!p->flip,
					       .offset = p->offset,
					       .rows = part->h,
					       .cols = 1,
					       .blks = part->bn } };
	struct rvl_box all = { .n = part->n, .b0 = part->b0, .bn = 1, .h = o->v.h, .w = o->v.w };
	struct rvl_insn_op *op;

	rvl_emit_cfg(s, RIVULET_FORM_l_src, &src);
	rvl_emit_cfg(s, RIVULET_FORM_l_dst, &dst);
	if (p->kind != RIVULET_XFER_BLOCK || s->replicates)
		rvl_emit_cfg(s, RIVULET_FORM_l_chan, &ch);
	s->replicates = false;
	op = rvl_emit(s, RIVULET_FORM_load, RIVULET_Q_LOAD, &d);
	rvl_touch_spad(op, RVL_AT_INP, to->addr, (part->bn - 1) * to->row + (part->h - 1) * to->col + 1, true);
	touch_store(s, op, o, &all, false);
}

void rvl_emit_load_rows(struct rvl_stream *s, const struct rvl_operand *o,
			const struct rvl_box *box, int64_t addr, int64_t pitch)
{
	struct place p = place_of(s, o, box);

	emit_load(s, o, &p, box, (struct spread){ 1, 1, pitch, box->h * pitch }, addr);
}

void rvl_emit_load(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		   int64_t addr)
{
	rvl_emit_load_rows(s, o, box, addr, box->w);
}

void rvl_emit_repeat(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		     const struct rvl_repeat *rep, int64_t addr)
{
	int64_t pitch = box->w * rep->cols;
	const struct spread times = { rep->rows, rep->cols, pitch, box->h * rep->rows * pitch };
	struct place p = place_of(s, o, box);

	emit_load(s, o, &p, box, times, addr);
}

void rvl_emit_part(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		   const struct rvl_repeat *rep, const struct rvl_spad *to)
{
	const struct spread times = { rep->rows, rep->cols, to->row, to->blk };
	struct place p = place_of(s, o, box);

	emit_load(s, o, &p, box, times, to->addr);
}

/*
 * LOAD has a pitch of rows and one of blocks in INP, none of columns. The columns are therefore the rows of
 * the instruction and the rows are its blocks, where the memory has them at regular places too; else each
 * row is an instruction.
 */
void rvl_emit_phase(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		    const struct rvl_lattice *to)
{
	struct place p = place_of(s, o, box);
	bool blocked = p.kind == RIVULET_XFER_BLOCK;
	int64_t pixel = blocked ? s->board->tn : p.kind == RIVULET_XFER_INTERLEAVED ? p.ch_pitch : 1;
	struct rvl_box part = { .n = box->n, .b0 = box->b0, .bn = blocked ? box->h : 1, .h = box->w, .w = 1 };

	for (int64_t y = 0; y < box->h; y += part.bn) {
		struct place q = p;

		q.offset += y * p.row_pitch;
		q.row_pitch = pixel;
		q.blk_pitch = p.row_pitch;
		load_lattice(s, o, &q, &part, &(struct rvl_lattice){ to->addr + y * to->row, to->row, to->col });
	}
}

void rvl_emit_spread(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		     int64_t addr)
{
	struct rvl_box pixel = { .b0 = box->b0, .bn = box->bn, .h = 1, .w = 1 };
	struct place p;

	if (o->v.c > 1) {
		p = place_of(s, o, &pixel);
	} else {
		pixel.b0 = 0;
		p = place_of(s, o, &pixel);
		p.kind = RIVULET_XFER_PLANAR;
		p.channels = box->bn * s->board->tn;
		p.ch_pitch = 0;
	}
	emit_load(s, o, &p, &pixel, (struct spread){ box->h, box->w, box->w, box->h * box->w }, addr);
}

void rvl_emit_store(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		    int64_t addr, int64_t row_pitch, int64_t blk_pitch)
{
	struct place p = place_of(s, o, box);
	struct rivulet_decoded dst = { .s_dst = { .row_pitch = p.row_pitch,
						  .blk_pitch = p.blk_pitch,
						  .ch_pitch = p.ch_pitch } };
	struct rivulet_decoded src = { .s_src = { .row_pitch = row_pitch,
						  .blk_pitch = blk_pitch } };
	struct rivulet_decoded ch = { .s_chan = { .channels = p.channels } };
	struct rivulet_decoded d = { .store = { .mem = RIVULET_MEM_INP,
						.addr = addr,
						.slot = o->s->slot,
						.kind = p.kind,
						.flip = !!p.flip,
						.offset = p.offset,
						.rows = box->h,
						.cols = box->w,
						.blks = box->bn } };
	struct rvl_insn_op *op;

	rvl_emit_cfg(s, RIVULET_FORM_s_dst, &dst);
	rvl_emit_cfg(s, RIVULET_FORM_s_src, &src);
	if (p.kind != RIVULET_XFER_BLOCK)
		rvl_emit_cfg(s, RIVULET_FORM_s_chan, &ch);
	op = rvl_emit(s, RIVULET_FORM_store, RIVULET_Q_STORE, &d);
	rvl_touch_spad(op, RVL_AT_INP, addr,
		       (box->bn - 1) * blk_pitch + (box->h - 1) * row_pitch + box->w, false);
	touch_store(s, op, o, box, true);
}

void rvl_emit_load_wgt(struct rvl_stream *s, uint64_t offset, int64_t words, int64_t addr)
{
	while (words > 0) {
		int64_t n = rvl_min(words, MAX_WORDS);
		struct rivulet_decoded d = { .load = { .mem = RIVULET_MEM_WGT,
						       .addr = addr,
						       .slot = RIVULET_SLOT_PROGRAM,
						       .kind = RIVULET_XFER_BLOCK,
						       .offset = offset,
						       .rows = 1,
						       .cols = n,
						       .blks = 1 } };
		struct rvl_insn_op *op = rvl_emit(s, RIVULET_FORM_load, RIVULET_Q_LOAD, &d);

		rvl_touch_spad(op, RVL_AT_WGT, addr, n, true);
		addr += n;
		words -= n;
		offset += n * RIVULET_WGT_WORD;
	}
}

int rvl_stream_code(const struct rvl_stream *s, struct rivulet_insn *out)
{
	struct rivulet_decoded end = { .form = RIVULET_FORM_sync,
				       .sync.kind = RIVULET_SYNC_END,
				       .sync.queue = RIVULET_Q_STORE };

	for (uint32_t i = 0; i < s->n; i++)
		out[i] = s->op[i].insn;
	return rivulet_encode(&end, &out[s->n], NULL);
}
