/* SPDX-License-Identifier: MIT */
/* The operations of a convolution layer: tiles, groups of output blocks, chunks of the reduction.
 */
#include "npu/epilogue.h"
#include "rivulet_footprint.h"

#include <errno.h>
#include <stdlib.h>

/* Slots of one operand; what each holds. The oldest is replaced. */
struct cache {
	int64_t base, words, slots, next;
	uint64_t (*key)[2];
};

/* A result tile: on drain (y, x, h, w) and before the pool (cy, cx, ch, cw). */
struct tile {
	uint64_t index;
	int64_t n, y, x, h, w;
	int64_t cy, cx, ch, cw;
	int64_t all; /* rows of a block in ACC, of which these are a piece or all */
};

/* What was loaded ahead of the first tile, and what is next of the weights. */
struct early {
	int64_t group, chunk, chunks; /* next ones, and those that are loaded or begun */
	int64_t done, words, to;      /* of the next chunk: loaded, all; the WGT word of its slot */
	uint64_t at;		      /* byte of the file where the next chunk begins */
};

struct conv {
	struct rvl_emission e;
	struct rvl_nest nest;
	int64_t ratio, nty, ntx, tiles, groups;
	struct rvl_ocgroup *group;
	struct rvl_chunk *chunk;
	uint64_t *wgt_off; /* of each group, in the file */
	struct cache in, wgt, prm;
	int64_t acc, out, b, bits; /* first words of these slots */
	int64_t loaded, image; /* past the last row of the operand in its ring, of which image */
	int64_t params;		   /* WGT word of those of the group, where a tile is a chunk */
	int64_t acc_half;    /* words of half of ACC */
	int64_t chunks;	     /* of all groups */
	struct early early;
};

/* The slot for @a, @b: true when it holds that already. */
static bool cached(struct cache *c, uint64_t a, uint64_t b, int64_t *addr)
{
	for (int64_t i = 0; i < c->slots; i++) {
		if (c->key[i][0] == a + 1 && c->key[i][1] == b) {
			*addr = c->base + i * c->words;
			return true;
		}
	}
	*addr = c->base + c->next * c->words;
	c->key[c->next][0] = a + 1;
	c->key[c->next][1] = b;
	c->next = (c->next + 1) % c->slots;
	return false;
}

/* First and past-last source position of outputs [at, at + n), at least one of [0, bound). */
static void window(int64_t at, int64_t n, int64_t stride, int64_t pad, int64_t first, int64_t taps,
		   int64_t dilation, int64_t bound, int64_t out[2])
{
	int64_t lo = at * stride - pad + first * dilation;
	int64_t hi = lo + (n - 1) * stride + (taps - 1) * dilation + 1;

	out[0] = rvl_clamp(lo, 0, bound - 1);
	out[1] = rvl_clamp(hi, out[0] + 1, bound);
}

void rvl_rows_read(const struct rvl_layer *l, int64_t y, int64_t h, int64_t rows[2])
{
	const struct rvl_window *p = &l->e.pwin, *w = &l->p.win;

	if (!l->mode) {
		rows[0] = y;
		rows[1] = y + h;
		if (l->e.pool)
			window(y, h, p->sy, p->top, 0, p->kh, p->dy, l->in.v.h, rows);
		return;
	}
	if (l->e.pool) {
		window(y, h, p->sy, p->top, 0, p->kh, p->dy, l->p.oh, rows);
		y = rows[0];
		h = rows[1] - rows[0];
	}
	window(y, h, w->sy, w->top, 0, w->kh, w->dy, l->in.v.h, rows);
}

static struct tile tile_at(const struct conv *c, uint64_t index)
{
	const struct rvl_tiling *t = &c->e.l->t;
	const struct rvl_window *p = &c->e.l->e.pwin;
	int64_t rows = rvl_result_rows(c->e.l), cols = rvl_result_cols(c->e.l);
	uint64_t per = c->nty * c->ntx;
	struct tile r = { .index = index, .n = index / per };
	int64_t span[2];

	r.y = (int64_t)(index % per) / c->ntx * t->th;
	r.x = (int64_t)(index % per) % c->ntx * t->tw;
	r.h = rvl_min(t->th, rows - r.y);
	r.w = rvl_min(t->tw, cols - r.x);
	if (!c->e.l->e.pool) {
		r.cy = r.y;
		r.cx = r.x;
		r.ch = r.all = r.h;
		r.cw = r.w;
		return r;
	}
	window(r.y, r.h, p->sy, p->top, 0, p->kh, p->dy, c->e.l->p.oh, span);
	r.cy = span[0];
	r.ch = r.all = span[1] - span[0];
	window(r.x, r.w, p->sx, p->left, 0, p->kw, p->dx, c->e.l->p.ow, span);
	r.cx = span[0];
	r.cw = span[1] - span[0];
	return r;
}

/* Input rectangle that a chunk reads for a tile. */
static struct rvl_box input_box(const struct conv *c, const struct tile *t,
				const struct rvl_ocgroup *g, const struct rvl_chunk *k)
{
	const struct rvl_window *w = &c->e.l->p.win;
	struct rvl_box b = { .n = t->n, .b0 = g->ib0 + k->i0, .bn = (g->on - 1) * g->step + k->in };
	int64_t y[2], x[2];

	window(t->cy, t->ch, w->sy, w->top, k->ky, k->kh, w->dy, c->e.l->in.v.h, y);
	window(t->cx, t->cw, w->sx, w->left, k->kx, k->kw, w->dx, rvl_operand_cols(&c->e.l->in), x);
	b.y = y[0];
	b.h = y[1] - y[0];
	b.x = x[0];
	b.w = x[1] - x[0];
	return b;
}

static void load_gather(const struct conv *c, const struct tile *t, int64_t blocks, int64_t addr)
{
	const struct rvl_layer *l = c->e.l;
	const struct rvl_window *w = &l->p.win;
	const struct rvl_view *v = &l->in.v;
	struct rivulet_decoded src = { .l_src = { .row_pitch = v->inter ? v->w * v->c : v->w,
						  .ch_pitch = v->inter ? 0 : v->h * v->w } };
	struct rivulet_decoded dst = { .l_dst = { .row_pitch = t->cw,
						  .blk_pitch = t->all * t->cw } };
	struct rvl_spad to = { addr, t->cw, t->all * t->cw };
	struct rivulet_decoded chan = { .l_chan = { .fill = l->in.zp } };
	struct rivulet_decoded gat = { .l_gather = { .kh = w->kh,
						     .kw = w->kw,
						     .sy = w->sy,
						     .sx = w->sx,
						     .dy = w->dy,
						     .dx = w->dx,
						     .ch = v->c,
						     .pixel = v->inter ? v->c : 0 } };
	struct rivulet_decoded bounds = { .l_bounds = { .org_y = t->cy * w->sy - w->top,
							.org_x = t->cx * w->sx - w->left,
							.rows = v->h,
							.cols = v->w } };
	struct rivulet_decoded d = { .load = { .mem = RIVULET_MEM_INP,
					       .addr = addr,
					       .slot = l->in.s->slot,
					       .kind = RIVULET_XFER_GATHER,
					       .flip = !!l->in.flip,
					       .offset =
						       l->in.s->offset + t->n * v->c * v->h * v->w,
					       .rows = t->ch,
					       .cols = t->cw,
					       .blks = blocks } };
	struct rvl_insn_op *op;

	rvl_emit_cfg(c->e.s, RIVULET_FORM_l_src, &src);
	rvl_emit_cfg(c->e.s, RIVULET_FORM_l_dst, &dst);
	rvl_emit_cfg(c->e.s, RIVULET_FORM_l_chan, &chan);
	c->e.s->replicates = false;
	rvl_emit_cfg(c->e.s, RIVULET_FORM_l_gather, &gat);
	rvl_emit_cfg(c->e.s, RIVULET_FORM_l_bounds, &bounds);
	op = rvl_emit(c->e.s, RIVULET_FORM_load, RIVULET_Q_LOAD, &d);
	rvl_touch_blocks(op, &to, t->ch, t->cw, blocks, true);
	op->access[op->accesses++] = (struct rvl_op_access){
		.at = RVL_AT_STORE,
		.o = &l->in,
		.box = { { t->n, t->n + 1 }, { 0, v->c }, { 0, v->h }, { 0, v->w } }
	};
}

/* Where the tile's input is in INP, and how CONV walks it. */
struct feed {
	int64_t addr;
	int64_t blks; /* that the instructions of the chunk read from @addr on */
	int64_t words; /* of a row */
	int64_t wgt_pitch; /* WGT words between output blocks */
	struct rivulet_insn_c_kernel kernel;
	struct rivulet_insn_c_input input;
};

static struct feed gathered(const struct tile *t, const struct rvl_chunk *k)
{
	return (struct feed){
		.kernel = { .kh = 1, .kw = 1, .sy = 1, .sx = 1, .dy = 1, .dx = 1 },
		.input = { .row_pitch = t->cw,
			   .blk_pitch = t->all * t->cw,
			   .rows = t->ch,
			   .cols = t->cw },
		.blks = k->in,
		.words = t->cw,
	};
}

static struct feed feed_gather(struct conv *c, const struct tile *t, const struct rvl_chunk *k)
{
	struct feed f = gathered(t, k);

	if (!cached(&c->in, t->index, 0, &f.addr))
		load_gather(c, t, k->in, f.addr);
	return f;
}

/* The words of a rectangle of pixels. */
static struct rvl_box word_box(const struct conv *c, const struct rvl_box *b)
{
	int64_t pixels = rvl_max(c->e.l->in.pixels, 1);
	struct rvl_box w = *b;

	w.x = b->x / pixels;
	w.w = rvl_div_up(b->x + b->w, pixels) - w.x;
	return w;
}

/* @b: words. */
static struct feed feed_box(const struct conv *c, const struct tile *t, const struct rvl_chunk *k,
			    const struct rvl_box *b)
{
	const struct rvl_window *w = &c->e.l->p.win;
	int64_t pitch = rvl_row_pitch(c->e.s->board, &c->nest, b->w);
	int64_t pixels = rvl_max(c->e.l->in.pixels, 1);

	return (struct feed){
		.kernel = {
			.kh = k->kh, .kw = k->kw,
			.sy = t->ch > 1 ? w->sy : 1, .sx = t->cw > 1 ? w->sx : 1,
			.dy = k->kh > 1 ? w->dy : 1, .dx = k->kw > 1 ? w->dx : 1,
			.org_y = t->cy * w->sy - w->top + k->ky * w->dy - b->y,
			.org_x = t->cx * w->sx - w->left + k->kx * w->dx - b->x * pixels,
		},
		.input = { .row_pitch = pitch, .blk_pitch = b->h * pitch, .rows = b->h,
			   .cols = b->w * pixels },
		.blks = b->bn,
		.words = b->w,
	};
}

/* What tells apart the parts of a tile's operand. */
static uint64_t part_key(const struct rvl_chunk *k, const struct rvl_box *b)
{
	return (uint64_t)k->part << 36 | (uint64_t)b->b0 << 13 | b->bn;
}

static struct feed feed_direct(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
			       const struct rvl_chunk *k)
{
	struct rvl_box pixels = input_box(c, t, g, k), b = word_box(c, &pixels);
	struct feed f = feed_box(c, t, k, &b);

	if (!cached(&c->in, t->index, part_key(k, &b), &f.addr))
		rvl_emit_load_rows(c->e.s, &c->e.l->in, &b, f.addr, f.input.row_pitch);
	return f;
}

/* The rows are in INP already: CONV reads them in the ring. */
static struct feed feed_ring(const struct conv *c, const struct tile *t,
			     const struct rvl_ocgroup *g, const struct rvl_chunk *k)
{
	const struct rvl_ring *r = c->e.l->from;
	struct rvl_box b = input_box(c, t, g, k);
	struct feed f = feed_box(c, t, k, &b);

	f.input.row_pitch = r->width;
	f.input.blk_pitch = rvl_ring_pitch(r);
	f.addr = r->base + b.b0 * f.input.blk_pitch + b.x;
	if (r->kept) {
		f.addr += b.y * r->width;
		return f;
	}
	f.input.wrap = r->rows;
	f.input.phase = (t->n * r->image + b.y) % r->rows;
	return f;
}

/*
 * The operand passes through a ring. Rows that a tile has in common with the one before are there
 * already; new ones take the places of the oldest.
 */
static struct feed feed_rows(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
			     const struct rvl_chunk *k)
{
	int64_t rows = c->e.l->t.in_ring, base = c->in.base;
	struct rvl_box b = input_box(c, t, g, k), part = b;
	struct feed f = feed_box(c, t, k, &b);
	const struct rvl_repeat once = { .rows = 1, .cols = 1 };

	f.input.blk_pitch = rows * f.input.row_pitch;
	f.input.wrap = rows;
	f.input.phase = b.y % rows;
	f.addr = base;
	if (c->image != t->n || c->loaded < b.y)
		c->loaded = b.y;
	c->image = t->n;
	for (part.y = c->loaded; part.y < b.y + b.h; part.y += part.h) {
		part.h = rvl_min(b.y + b.h - part.y, rows - part.y % rows);
		rvl_emit_part(c->e.s, &c->e.l->in, &part, &once,
			      &(struct rvl_spad){ base + part.y % rows * f.input.row_pitch,
						  f.input.row_pitch, f.input.blk_pitch });
	}
	c->loaded = rvl_max(c->loaded, part.y);
	return f;
}

static struct feed feed_of(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
			   const struct rvl_chunk *k)
{
	if (c->e.l->from)
		return feed_ring(c, t, g, k);
	if (c->e.l->t.in_ring)
		return feed_rows(c, t, g, k);
	return c->e.l->p.gather ? feed_gather(c, t, k) : feed_direct(c, t, g, k);
}

/* In a ring, the rows before and behind its end. */
static void touch_feed(struct rvl_insn_op *op, const struct feed *f)
{
	const struct rivulet_insn_c_input *in = &f->input;
	struct rvl_spad at = { f->addr + in->phase * in->row_pitch, in->row_pitch, in->blk_pitch };
	int64_t first = in->wrap ? rvl_min(in->rows, in->wrap - in->phase) : in->rows;

	rvl_touch_blocks(op, &at, first, f->words, f->blks, false);
	at.addr = f->addr;
	if (first < in->rows)
		rvl_touch_blocks(op, &at, in->rows - first, f->words, f->blks, false);
}

/* Words by which weights of a block are aligned in every mode. */
static int64_t wgt_align(const struct rivulet_board *b)
{
	int64_t align = b->tn;

	while (align > 1 && align % 2 == 0 && align * RIVULET_WGT_WORD > b->tn)
		align /= 2;
	return align;
}

/*
 * A pitch between blocks or rows of which there is one stays what it was, so that the configuration
 * is written less often.
 */
static void config_out(struct rvl_stream *s, const struct rivulet_insn_conv *v,
		       struct rivulet_insn_c_out out)
{
	const struct rivulet_insn_c_out *last = &s->c_out;
	int64_t align = wgt_align(s->board);
	struct rivulet_decoded d;

	if (v->rows == 1)
		out.row_pitch = last->row_pitch;
	if (v->icb == 1 && last->wgt_ic_pitch % align == 0)
		out.wgt_ic_pitch = last->wgt_ic_pitch;
	if (v->ocb == 1) {
		out.blk_pitch = last->blk_pitch;
		out.inp_oc_pitch = last->inp_oc_pitch;
		if (last->wgt_oc_pitch % align == 0)
			out.wgt_oc_pitch = last->wgt_oc_pitch;
	}
	s->c_out = out;
	d = (struct rivulet_decoded){ .c_out = out };
	rvl_emit_cfg(s, RIVULET_FORM_c_out, &d);
}

/* Whether a tap may be outside of the rows and columns that are in INP, and is padding. */
static bool reads_padding(const struct feed *f, const struct tile *t)
{
	const struct rivulet_insn_c_kernel *k = &f->kernel;

	return k->org_y < 0 || k->org_x < 0 ||
	       k->org_y + (t->ch - 1) * k->sy + (k->kh - 1) * k->dy >= f->input.rows ||
	       k->org_x + (t->cw - 1) * k->sx + (k->kw - 1) * k->dx >= f->input.cols;
}

/* One CONV: the blocks of a run of a chunk, whose weights begin at @wgt. */
static void run_blocks(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
		       const struct rvl_chunk *k, const struct feed *f, int64_t wgt, int64_t acc,
		       bool keep)
{
	int64_t words = rvl_chunk_words(&c->nest, k, g->on);
	struct rivulet_decoded kernel = { .c_kernel = f->kernel }, input = { .c_input = f->input };
	struct rivulet_decoded pad = { .c_pad = { .value = c->e.l->in.zp } };
	struct rivulet_insn_c_out out = { .row_pitch = t->cw,
					  .blk_pitch = t->all * t->cw,
					  .wgt_ic_pitch = rvl_chunk_words(&c->nest, k, 1) / k->in,
					  .wgt_oc_pitch = f->wgt_pitch,
					  .inp_oc_pitch = g->on > 1 ? g->step * f->input.blk_pitch :
								      0 };
	struct rivulet_decoded d = { .conv = { .keep = keep,
					       .inp = f->addr,
					       .wgt = wgt,
					       .acc = acc,
					       .rows = t->ch,
					       .cols = t->cw,
					       .icb = k->in,
					       .ocb = g->on } };
	struct rvl_insn_op *op;

	rvl_emit_cfg(c->e.s, RIVULET_FORM_c_kernel, &kernel);
	rvl_emit_cfg(c->e.s, RIVULET_FORM_c_input, &input);
	if (reads_padding(f, t))
		rvl_emit_cfg(c->e.s, RIVULET_FORM_c_pad, &pad);
	config_out(c->e.s, &d.conv, out);
	rvl_mode_at(c->e.l, c->e.s->length)->emit(c->e.s, c->e.l, g, k, &d.conv);
	op = rvl_emit(c->e.s, RIVULET_FORM_conv, RIVULET_Q_CONV, &d);
	touch_feed(op, f);
	rvl_touch_spad(op, RVL_AT_WGT, wgt, (g->on - 1) * f->wgt_pitch + words / g->on, false);
	rvl_touch_spad(op, RVL_AT_ACC, acc, ((g->on - 1) * t->all + t->ch) * t->cw, true);
}

/* The weights of an output block are together, those of its tail at the end. */
static void run_chunk(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
		      const struct rvl_chunk *k, struct feed *f, int64_t wgt, int64_t acc, bool keep)
{
	struct rvl_chunk run = *k;

	f->wgt_pitch = rvl_chunk_words(&c->nest, k, 1);
	for (int64_t at = 0; at < k->in; at += run.in) {
		run.i0 = k->i0 + at;
		run.in = rvl_chunk_run(&c->nest, k, at);
		run_blocks(c, t, g, &run, f, wgt, acc, keep || at);
		wgt += rvl_chunk_words(&c->nest, &run, 1);
		f->addr += run.in * f->input.blk_pitch;
		f->blks -= run.in;
	}
}

static int64_t load_params(struct conv *c, const struct rvl_ocgroup *g)
{
	const struct rvl_mode *mode = rvl_mode_at(c->e.l, c->e.s->length);
	int64_t bytes = c->e.s->board->tm * 8, addr;

	if (!cached(&c->prm, g->o0, 0, &addr))
		rvl_emit_load_wgt(c->e.s, c->e.l->p.prm_off[mode->isa] + g->o0 * bytes,
				  g->on * bytes / RIVULET_WGT_WORD, addr);
	return addr;
}

/* At most @most words of the chunk that is loaded early; returns how many. */
static int64_t load_piece(struct conv *c, int64_t most)
{
	struct early *y = &c->early;
	int64_t words = rvl_min(y->words - y->done, most);

	rvl_emit_load_wgt(c->e.s, y->at + y->done * RIVULET_WGT_WORD, words, y->to + y->done);
	y->done += words;
	return words;
}

/* The WGT word of chunk @i of group @gi, whose weights begin at byte @at of the file. */
static int64_t load_weights(struct conv *c, int64_t gi, int64_t i, int64_t words, uint64_t at)
{
	int64_t wgt;

	if (!cached(&c->wgt, gi, i, &wgt))
		rvl_emit_load_wgt(c->e.s, at, words, wgt);
	else if (c->early.done && c->early.group == gi && c->early.chunk == i)
		load_piece(c, words); /* the rest */
	return wgt;
}

/*
 * Chunk @i of the reduction of a tile and group, whose weights begin at byte @at of the file;
 * returns where they end. Weights are loaded first, because they depend on no other operation.
 */
static uint64_t reduce_chunk(struct conv *c, const struct tile *t, int64_t gi, int64_t i,
			     uint64_t at, int64_t acc, int64_t *prm)
{
	const struct rvl_ocgroup *g = &c->group[gi];
	const struct rvl_chunk *k = &c->chunk[i];
	int64_t words = rvl_chunk_words(&c->nest, k, g->on);
	int64_t wgt = load_weights(c, gi, i, words, at);
	struct feed f;

	if (!i)
		*prm = load_params(c, g);
	f = feed_of(c, t, g, k);
	if (!i)
		rvl_emission_constants(&c->e);
	run_chunk(c, t, g, k, &f, wgt, acc, i > 0);
	return at + words * RIVULET_WGT_WORD;
}

/* ---- the first tile of a step, by pieces ---- */

/* @t's rows from row @first of its operand before the pool on. */
static struct tile piece_of(const struct tile *t, int64_t first, int64_t rows)
{
	struct tile p = *t;

	p.cy += first;
	p.ch = rvl_min(rows, t->ch - first);
	return p;
}

/* The slot of the whole tile's operand, or the first word of its ring, which feed_rows() finds. */
static struct rvl_spad slot_of(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
			       const struct rvl_chunk *k, struct rvl_box *whole)
{
	struct rvl_spad at = { c->in.base, t->cw, t->all * t->cw };
	bool gather = c->e.l->p.gather;

	*whole = input_box(c, t, g, k);
	if (c->e.l->t.in_ring)
		return at;
	cached(&c->in, t->index, gather ? 0 : part_key(k, whole), &at.addr);
	if (gather)
		return at;
	at.row = rvl_row_pitch(c->e.s->board, &c->nest, whole->w);
	at.blk = whole->h * at.row;
	return at;
}

/*
 * Loads the rows up to the end of the piece @t that those before it had not; @loaded: past the last row that is
 * there. Rows between two windows are loaded, too: groups of output blocks that follow take the tile as a whole.
 */
static struct feed feed_piece(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
			      const struct rvl_chunk *k, const struct rvl_spad *slot, const struct rvl_box *whole,
			      int64_t *loaded)
{
	const struct rvl_repeat once = { .rows = 1, .cols = 1 };
	struct rvl_box b = input_box(c, t, g, k), part = b;
	struct rvl_spad to = *slot;
	struct feed f;

	if (c->e.l->t.in_ring)
		return feed_rows(c, t, g, k);
	if (c->e.l->p.gather) {
		f = gathered(t, k);
		f.addr = slot->addr + *loaded * t->cw;
		load_gather(c, t, k->in, f.addr);
		*loaded += t->ch;
		return f;
	}
	f = feed_box(c, t, k, &b);
	f.input.blk_pitch = slot->blk;
	f.addr = slot->addr + (b.y - whole->y) * slot->row;
	part.y = whole->y + *loaded;
	part.h = b.y + b.h - part.y;
	to.addr += (part.y - whole->y) * slot->row;
	if (part.h > 0)
		rvl_emit_part(c->e.s, &c->e.l->in, &part, &once, &to);
	*loaded = rvl_max(*loaded, b.y + b.h - whole->y);
	return f;
}

/* Rows of the first piece: the array works for longer than a burst takes; 0: the tile is not divided. */
static int64_t first_rows(const struct conv *c, const struct tile *t, int64_t gi, int64_t chunks)
{
	const struct rvl_layer *l = c->e.l;
	const struct rvl_chunk *k = &c->chunk[0];
	int64_t pairs = t->cw * k->kh * k->kw * k->in * c->group[gi].on, row;

	if (c->e.s->acc_turn > 1 || l->from || chunks > 1 || l->in.pixels || c->early.chunks)
		return 0;
	row = l->mode->array(c->e.s->board, l, pairs);
	return rvl_max(1, rvl_div_up(c->e.s->board->mem_latency, rvl_max(row, 1)));
}

/*
 * The array begins when the first rows of the operand are there, while those that follow load: each piece
 * has as many rows as all before it.
 */
static void reduce_pieces(struct conv *c, const struct tile *t, int64_t gi, int64_t acc, int64_t *prm, int64_t rows)
{
	const struct rvl_ocgroup *g = &c->group[gi];
	const struct rvl_chunk *k = &c->chunk[0];
	int64_t words = rvl_chunk_words(&c->nest, k, g->on), loaded = 0;
	int64_t wgt = load_weights(c, gi, 0, words, c->wgt_off[gi]);
	struct rvl_box whole;
	struct rvl_spad slot = slot_of(c, t, g, k, &whole);

	for (int64_t first = 0; first < t->ch; first += rows, rows = first) {
		struct tile piece = piece_of(t, first, rows);
		struct feed f = feed_piece(c, &piece, g, k, &slot, &whole, &loaded);

		run_chunk(c, &piece, g, k, &f, wgt, acc + first * t->cw, false);
	}
	*prm = load_params(c, g);
	rvl_emission_constants(&c->e);
}

/* Whether chunk @i is in WGT as a whole, at word *at. */
static bool is_loaded(const struct conv *c, int64_t gi, int64_t i, int64_t *at)
{
	if (c->early.done && c->early.group == gi && c->early.chunk == i)
		return false;
	for (int64_t k = 0; k < c->wgt.slots; k++) {
		if (c->wgt.key[k][0] != (uint64_t)gi + 1 || c->wgt.key[k][1] != (uint64_t)i)
			continue;
		*at = c->wgt.base + k * c->wgt.words;
		return true;
	}
	return false;
}

/*
 * Joins chunk @i with those that follow, while the weights of an output block lie one behind another in WGT
 * and its operand does so in INP: a CONV has to fill the array only once. Returns how many they are.
 */
static int64_t join_chunks(struct conv *c, int64_t gi, int64_t i, int64_t n)
{
	struct rvl_chunk *k = &c->chunk[i];
	int64_t joined = 1, at, next;

	if (c->group[gi].on > 1 || !c->e.l->from || c->nest.tail || c->e.l->p.terms > 1 ||
	    !is_loaded(c, gi, i, &at))
		return 1;
	for (; i + joined < n && is_loaded(c, gi, i + joined, &next); joined++) {
		const struct rvl_chunk *b = &c->chunk[i + joined];

		if (b->ky != k->ky || b->kx != k->kx || next != at + rvl_chunk_words(&c->nest, k, 1) ||
		    k->in + b->in > RVL_MOST_COUNT)
			break;
		k->in += b->in;
	}
	return joined;
}

/* The whole reduction of one tile and group. */
static void reduce(struct conv *c, const struct tile *t, int64_t gi, int64_t acc, int64_t *prm)
{
	int64_t n = rvl_chunks(c->e.l, &c->nest, &c->e.l->t, &c->group[gi], c->chunk);
	int64_t rows = first_rows(c, t, gi, n);
	uint64_t at = c->wgt_off[gi];

	if (rows && rows < t->ch) {
		reduce_pieces(c, t, gi, acc, prm, rows);
		return;
	}
	for (int64_t i = 0; i < n;) {
		int64_t joined = join_chunks(c, gi, i, n);

		at = reduce_chunk(c, t, gi, i, at, acc, prm);
		i += joined;
	}
}

/* Where the results of a tile go: a slot of their own, or the ring that the next layer reads. */
static struct rvl_spad result_at(const struct conv *c, const struct tile *t,
				 const struct rvl_ocgroup *g)
{
	const struct rvl_tiling *tl = &c->e.l->t;
	const struct rvl_ring *r = c->e.l->to;
	int64_t blk;

	if (!r)
		return (struct rvl_spad){ c->out + c->e.at % rvl_max(tl->out_slots, 1) * tl->out_words, t->w,
					  t->h * t->w };
	blk = rvl_ring_pitch(r);
	return (struct rvl_spad){
		r->base + g->o0 * c->ratio * blk +
			(r->guard + (t->n * r->image + t->y) % r->rows) * r->width + t->x,
		r->width, blk
	};
}

/* Where the second operand of a tile is: in a slot of its own, or kept in INP. */
static struct rvl_spad second_at(const struct conv *c, const struct tile *t,
				 const struct rvl_ocgroup *g)
{
	const struct rvl_tiling *tl = &c->e.l->t;
	const struct rvl_ring *r = c->e.l->b_from;
	int64_t slot = tl->b_slots ? c->b + c->e.at % tl->b_slots * tl->out_words : 0;

	if (!r)
		return (struct rvl_spad){ slot, t->w, t->h * t->w };
	return (struct rvl_spad){ r->base + g->o0 * c->ratio * rvl_ring_pitch(r) + t->y * r->width +
					  t->x,
				  r->width, rvl_ring_pitch(r) };
}

/* The words of bits of a tile, which all groups of output blocks fill. */
static struct rvl_spad bits_at(const struct conv *c, const struct tile *t)
{
	const struct rvl_layer *l = c->e.l;
	int64_t cols = rvl_div_up(t->w, rvl_max(l->bits.pixels, 1));

	if (!l->has_bits)
		return (struct rvl_spad){ 0, 0, 0 };
	return (struct rvl_spad){ c->bits + (int64_t)(t->index % l->t.bit_slots) * l->t.bit_words, cols,
				  t->h * cols };
}

static void store_bits(const struct conv *c, const struct tile *t)
{
	const struct rvl_layer *l = c->e.l;
	struct rvl_spad at = bits_at(c, t);
	struct rvl_box box = { .n = t->n, .y = t->y, .h = t->h,
			       .x = t->x / l->bits.pixels, .w = at.row,
			       .bn = rvl_div_up(l->bits.v.c, c->e.s->board->tn) };

	rvl_emit_store(c->e.s, &l->bits, &box, at.addr, at.row, at.blk);
}

static void drain(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g, int64_t acc,
		  int64_t prm, const struct rvl_spad *b, const struct rvl_spad *out)
{
	struct rvl_alu_pass a = {
		.acc = true,
		.a = acc,
		.a_row = t->cw,
		.a_blk = t->ch * t->cw,
		.a_words = g->on * t->ch * t->cw - (c->e.l->e.pool ? 0 : t->ch - t->h) * t->cw,
		.b = *b,
		.d = *out,
		.prm = prm,
		.table = c->e.table,
		.rows = t->h,
		.cols = t->w,
		.blks = g->on,
		.block0 = g->o0,
		.bits = bits_at(c, t),
		.out_blks = g->on * c->ratio,
		.res = { .y = t->y, .x = t->x },
		.src = { .y = t->cy, .h = t->ch, .x = t->cx, .w = t->cw },
	};

	rvl_epilogue_run(c->e.s, c->e.l, &a);
}

/* Rows of a tile, from its row @first on, written to @out once more. */
static void drain_rows(struct conv *c, const struct tile *t, int64_t first, int64_t rows,
		       const struct rvl_ocgroup *g, int64_t acc, int64_t prm,
		       const struct rvl_spad *out)
{
	struct rvl_spad none = { 0, t->w, rows * t->w };
	struct tile part = *t;

	part.y += first;
	part.h = rows;
	drain(c, &part, g, acc + first * t->cw, prm, &none, out);
}

/* The last rows of the ring are also written before it, as far as a tile has some of them. */
static void drain_guard(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
			int64_t acc, int64_t prm, const struct rvl_spad *out)
{
	const struct rvl_ring *r = c->e.l->to;
	struct rvl_spad before = *out;
	int64_t at, first;

	if (!r || !r->guard || t->y + t->h == rvl_result_rows(c->e.l))
		return;
	at = (t->n * r->image + t->y) % r->rows;
	first = rvl_max(0, r->rows - r->guard - at);
	before.addr += (first - r->rows) * r->width;
	if (first < t->h)
		drain_rows(c, t, first, t->h - first, g, acc, prm, &before);
}

/* The first rows of the ring are also written behind it, as far as a tile has some of them. */
static void drain_below(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
			int64_t acc, int64_t prm, const struct rvl_spad *out)
{
	const struct rvl_ring *r = c->e.l->to;
	struct rvl_spad behind = *out;
	int64_t at;

	if (!r || !r->below || t->n * r->image + t->y < r->rows) /* nothing is before these rows */
		return;
	at = (t->n * r->image + t->y) % r->rows;
	behind.addr += r->rows * r->width;
	if (at < r->below)
		drain_rows(c, t, 0, rvl_min(t->h, r->below - at), g, acc, prm, &behind);
}

/* Operand B; blocks past its last channel get its last block, for the ALU reads whole ACC words. */
static void load_second(struct conv *c, struct rvl_box box, int64_t addr, int64_t blocks)
{
	struct rvl_box last = box;

	rvl_emit_load(c->e.s, &c->e.l->b, &box, addr);
	last.b0 = box.b0 + box.bn - 1;
	last.bn = 1;
	for (int64_t i = box.bn; i < blocks; i++)
		rvl_emit_load(c->e.s, &c->e.l->b, &last, addr + i * box.h * box.w);
}

/*
 * Two accumulator tiles lie in different halves of ACC, also from one layer to the next, because
 * CONV and ALU delay each other in the same half.
 */
static int64_t next_acc(struct conv *c)
{
	return c->acc + c->e.s->acc_turn++ % c->e.l->t.acc_slots * c->acc_half;
}

/* Tile and group of a unit, in the order of the two outer loops. */
static void unit_of(const struct conv *c, uint64_t at, uint64_t *tile, int64_t *group)
{
	uint64_t tiles = c->tiles, groups = c->groups;

	*tile = c->e.l->t.oc_outer ? at % tiles : at / groups;
	*group = c->e.l->t.oc_outer ? at / tiles : at % groups;
}

/* From the sums of a tile and group to what is stored. */
static void finish_tile(struct conv *c, const struct tile *t, int64_t gi, int64_t acc, int64_t prm)
{
	const struct rvl_layer *l = c->e.l;
	const struct rvl_ocgroup *g = &c->group[gi];
	int64_t blocks = rvl_div_up(l->p.m, c->e.s->board->tn);
	struct rvl_spad out = result_at(c, t, g), b = second_at(c, t, g);
	struct rvl_box box = {
		.n = t->n, .b0 = g->o0 * c->ratio, .y = t->y, .h = t->h, .x = t->x, .w = t->w
	};

	box.bn = rvl_min(g->on * c->ratio, blocks - box.b0);
	if (rvl_loads_b(l))
		load_second(c, rvl_words_of(&l->b, box), b.addr, g->on * c->ratio << l->b.v.wide);
	drain(c, t, g, acc, prm, &b, &out);
	drain_guard(c, t, g, acc, prm, &out);
	drain_below(c, t, g, acc, prm, &out);
	box = rvl_words_of(&l->out, box);
	if (!l->to && !l->e.only)
		rvl_emit_store(c->e.s, &l->out, &box, out.addr, out.row, out.blk);
	if (l->has_bits && gi == c->groups - 1)
		store_bits(c, t);
}

static void next(struct rvl_emission *e)
{
	struct conv *c = (struct conv *)e;
	int64_t acc = next_acc(c), gi, prm = 0;
	uint64_t index;
	struct tile t;

	unit_of(c, e->at, &index, &gi);
	t = tile_at(c, index);
	reduce(c, &t, gi, acc, &prm);
	finish_tile(c, &t, gi, acc, prm);
}

/* One chunk of the only tile and group; the last one finishes it. @wgt_off passes the weights. */
static void next_chunk(struct rvl_emission *e)
{
	struct conv *c = (struct conv *)e;
	struct tile t = tile_at(c, 0);

	c->wgt_off[0] = reduce_chunk(c, &t, 0, e->at, c->wgt_off[0], c->acc, &c->params);
	if (e->at + 1 == e->count)
		finish_tile(c, &t, 0, c->acc, c->params);
}

/* Takes the slot of the next chunk, which is one of the group's @n. */
static void begin_chunk(struct conv *c, const struct rvl_ocgroup *g)
{
	struct early *y = &c->early;

	if (!y->chunk)
		y->at = c->wgt_off[y->group];
	y->words = rvl_chunk_words(&c->nest, &c->chunk[y->chunk], g->on);
	cached(&c->wgt, y->group, y->chunk, &y->to);
	y->chunks++;
}

static void end_chunk(struct conv *c, int64_t n)
{
	struct early *y = &c->early;

	y->at += y->words * RIVULET_WGT_WORD;
	y->done = 0;
	if (++y->chunk < n)
		return;
	y->chunk = 0;
	y->group++;
}

/*
 * Of the first tile that is not begun: LOAD is then not late for it behind weights of other layers. Where
 * groups of output blocks read blocks of their own, of the next group, which needs the slot first.
 */
static void load_operand(struct rvl_emission *e)
{
	struct conv *c = (struct conv *)e;
	const struct rvl_tiling *tl = &e->l->t;
	uint64_t index = rvl_div_up(e->at, c->groups);
	struct tile t;
	int64_t gi = 0;

	if (e->l->p.group > 1)
		unit_of(c, e->at, &index, &gi);
	if (e->l->from || tl->oc_outer || (tl->in_slots < 2 && !tl->in_ring) || index >= (uint64_t)c->tiles ||
	    rvl_chunks(e->l, &c->nest, tl, &c->group[gi], c->chunk) > 1)
		return;
	t = tile_at(c, index);
	feed_of(c, &t, &c->group[gi], &c->chunk[0]);
}

/* As reduce() loads them for the first tile, which then finds them in the slots. */
static int64_t preload(struct rvl_emission *e, int64_t most, int64_t groups)
{
	struct conv *c = (struct conv *)e;
	struct early *y = &c->early;
	int64_t loaded = 0;

	while (loaded < most && y->group < rvl_min(groups, c->groups) && (y->done || y->chunks < c->wgt.slots)) {
		const struct rvl_ocgroup *g = &c->group[y->group];
		int64_t n = rvl_chunks(e->l, &c->nest, &e->l->t, g, c->chunk);

		if (!y->done)
			begin_chunk(c, g);
		loaded += load_piece(c, most - loaded);
		if (y->done < y->words)
			break;
		if (!y->chunk && y->group < c->prm.slots) {
			load_params(c, g);
			loaded += c->prm.words;
		}
		end_chunk(c, n);
	}
	return loaded;
}

/* Only layers with tiles outside take part in a cascade, each as wide as the value. */
static void reads(const struct rvl_emission *e, int64_t rows[2])
{
	const struct conv *c = (const struct conv *)e;
	uint64_t index;
	int64_t gi;
	struct tile t;

	if (rvl_takes_taps(e->l)) {
		const struct rvl_window *w = &e->l->p.win;

		window(0, 1, w->sy, w->top, c->chunk[e->at].ky, c->chunk[e->at].kh, w->dy, e->l->in.v.h,
		       rows);
		return;
	}
	if (rvl_takes_blocks(e->l)) {
		rows[0] = c->chunk[e->at].i0;
		rows[1] = rows[0] + c->chunk[e->at].in;
		return;
	}
	unit_of(c, e->at, &index, &gi);
	t = tile_at(c, index);
	rvl_rows_read(e->l, t.y, t.h, rows);
	rows[0] += t.n * e->l->from->image;
	rows[1] += t.n * e->l->from->image;
}

static int64_t made(const struct rvl_emission *e)
{
	const struct conv *c = (const struct conv *)e;
	int64_t row = e->at / c->groups / c->ntx; /* of tiles */

	if (e->l->to->chunk)
		return e->at < e->count ? c->group[e->at].o0 * c->ratio : e->l->to->blocks;
	return row / c->nty * e->l->to->image + row % c->nty * e->l->t.th;
}

static uint64_t tiles_to(const struct rvl_emission *e, int64_t row)
{
	const struct conv *c = (const struct conv *)e;
	int64_t g = 0;

	if (!e->l->to->chunk)
		return (row / e->l->t.th + 1) * c->ntx * c->groups;
	while (g + 1 < c->groups && c->group[g + 1].o0 * c->ratio <= row)
		g++;
	return g + 1;
}

static void finish(struct rvl_emission *e)
{
	struct conv *c = (struct conv *)e;

	free(c->group);
	free(c->wgt_off);
	free(c->chunk);
	free(c->in.key);
	free(c->wgt.key);
	free(c->prm.key);
	free(c);
}

/* Two slots of accumulators are the halves of ACC, which all layers share. */
struct rvl_words3 rvl_product_words(const struct rvl_layer *l)
{
	const struct rvl_tiling *t = &l->t;

	return (struct rvl_words3){
		.mem[RIVULET_MEM_INP] = rvl_in_words(t) +
					(t->out_slots + t->b_slots) * t->out_words +
					t->bit_slots * t->bit_words,
		.mem[RIVULET_MEM_WGT] = t->wgt_slots * t->wgt_words + t->prm_slots * t->prm_words +
					rvl_epilogue_words(l),
		.mem[RIVULET_MEM_ACC] = t->acc_slots == 1 ? t->acc_words : 0,
	};
}

static int make_cache(struct cache *c, int64_t base, int64_t words, int64_t slots)
{
	*c = (struct cache){ .base = base, .words = words, .slots = slots };
	c->key = calloc(slots + 1, sizeof(*c->key));
	return c->key ? 0 : -ENOMEM;
}

/* @more words of WGT are for more parameters first, of which each group needs some with its first weights. */
static int divide_buffers(struct conv *c, const struct rvl_words3 *at, int64_t more)
{
	const struct rvl_tiling *t = &c->e.l->t;
	int64_t inp = at->mem[RIVULET_MEM_INP], wgt = at->mem[RIVULET_MEM_WGT];
	int64_t prm = rvl_min(c->groups - t->prm_slots, more / rvl_max(t->prm_words, 1));
	int64_t chunks = rvl_min(c->chunks - t->wgt_slots, (more - prm * t->prm_words) / t->wgt_words);
	int64_t slots = t->wgt_slots + rvl_max(chunks, 0);
	int rc = make_cache(&c->in, inp, t->in_words, t->in_slots);

	if (!rc)
		rc = make_cache(&c->wgt, wgt, t->wgt_words, slots);
	if (!rc)
		rc = make_cache(&c->prm, wgt + slots * t->wgt_words, t->prm_words,
				t->prm_slots + rvl_max(prm, 0));
	c->out = inp + rvl_in_words(t);
	c->b = c->out + t->out_slots * t->out_words;
	c->bits = c->b + t->b_slots * t->out_words;
	c->e.table = c->prm.base + c->prm.slots * t->prm_words;
	c->acc = t->acc_slots == 1 ? at->mem[RIVULET_MEM_ACC] : 0;
	c->acc_half = rivulet_mem_words(c->e.s->board, RIVULET_MEM_ACC) / 2;
	return rc;
}

/* Groups of output blocks, and where the weights of each begin. */
static int make_groups(struct conv *c)
{
	const struct rvl_layer *l = c->e.l;
	int64_t most = 0;
	uint64_t at = l->p.wgt_off;

	c->group = calloc(c->groups, sizeof(*c->group));
	c->wgt_off = calloc(c->groups, sizeof(*c->wgt_off));
	if (!c->group || !c->wgt_off)
		return -ENOMEM;
	rvl_ocgroups(c->e.s->board, l, l->t.og, c->group);
	for (int64_t g = 0; g < c->groups; g++)
		most = rvl_max(most, rvl_chunks(l, &c->nest, &l->t, &c->group[g], NULL));
	c->chunk = calloc(most, sizeof(*c->chunk));
	if (!c->chunk)
		return -ENOMEM;
	for (int64_t g = 0; g < c->groups; g++) {
		int64_t n = rvl_chunks(l, &c->nest, &l->t, &c->group[g], c->chunk);

		c->wgt_off[g] = at;
		c->chunks += n;
		for (int64_t i = 0; i < n; i++)
			at += rvl_chunk_words(&c->nest, &c->chunk[i], c->group[g].on) *
			      RIVULET_WGT_WORD;
	}
	return 0;
}

#define MOST_SLOTS 512 /* of weights; each chunk is looked for among them */

int64_t rvl_product_more_words(const struct rivulet_board *b, const struct rvl_layer *l)
{
	const struct rvl_tiling *t = &l->t;
	int64_t groups = rvl_ocgroups(b, l, t->og, NULL), chunks;
	struct rvl_ocgroup g = { .on = t->og };
	struct rvl_nest nest;

	if (l->p.group > 1)
		return 0;
	l->mode->nest(b, l, &nest);
	g.ibn = rvl_div_up(nest.channels, b->tn);
	chunks = rvl_min(groups * rvl_chunks(l, &nest, t, &g, NULL), MOST_SLOTS);
	return rvl_max(chunks - t->wgt_slots, 0) * t->wgt_words + (groups - t->prm_slots) * t->prm_words;
}

struct rvl_emission *rvl_product_open(struct rvl_stream *s, const struct rvl_layer *l,
				   const struct rvl_words3 *at, int64_t more)
{
	struct conv *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->e = (struct rvl_emission){ .s = s,
				      .l = l,
				      .next = next,
				      .reads = reads,
				      .made = made,
				      .tiles_to = tiles_to,
				      .preload = preload,
				      .operand = load_operand,
				      .close = finish };
	l->mode->nest(s->board, l, &c->nest);
	c->ratio = s->board->tm / s->board->tn;
	c->nty = rvl_div_up(rvl_result_rows(l), l->t.th);
	c->ntx = rvl_div_up(rvl_result_cols(l), l->t.tw);
	c->tiles = l->out.v.n * c->nty * c->ntx;
	c->groups = rvl_ocgroups(s->board, l, l->t.og, NULL);
	c->e.count = c->tiles * c->groups;
	if (!make_groups(c) && !divide_buffers(c, at, more)) {
		if (rvl_takes_parts(
			    l)) { /* make_groups() has listed the chunks of the only group */
			c->e.next = next_chunk;
			c->e.count = rvl_chunks(l, &c->nest, &l->t, &c->group[0], NULL);
		}
		return &c->e;
	}
	finish(&c->e);
	return NULL;
}
