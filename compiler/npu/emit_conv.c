/* SPDX-License-Identifier: MIT */
/* The operations of a convolution layer: tiles, groups of output blocks, chunks of the reduction.
 */
#include "npu/stream.h"
#include "rivulet_footprint.h"
#include "rivulet_sc.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_KEYS 512

/* Slots of one operand; what each holds. The oldest is replaced. */
struct cache {
	int64_t base, words, slots, next;
	uint64_t key[MAX_KEYS][2];
};

/* A result tile: on drain (y, x, h, w) and before the pool (cy, cx, ch, cw). */
struct tile {
	uint64_t index;
	int64_t n, y, x, h, w;
	int64_t cy, cx, ch, cw;
};

struct conv {
	struct rvl_stream *s;
	const struct rvl_layer *l;
	int64_t ratio, nty, ntx, tiles, groups;
	struct rvl_ocgroup *group;
	struct rvl_chunk *chunk;
	uint64_t *wgt_off; /* of each group, in the file */
	struct cache in, wgt, prm;
	int64_t acc, out, b; /* first words of these slots */
	int64_t acc_half;    /* words of half of ACC */
	uint64_t turn;
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

static struct tile tile_at(const struct conv *c, uint64_t index)
{
	const struct rvl_tiling *t = &c->l->t;
	const struct rvl_window *p = &c->l->pwin;
	const struct rvl_view *v = &c->l->out.v;
	uint64_t per = c->nty * c->ntx;
	struct tile r = { .index = index, .n = index / per };
	int64_t span[2];

	r.y = (int64_t)(index % per) / c->ntx * t->th;
	r.x = (int64_t)(index % per) % c->ntx * t->tw;
	r.h = rvl_min(t->th, v->h - r.y);
	r.w = rvl_min(t->tw, v->w - r.x);
	if (!c->l->pool) {
		r.cy = r.y;
		r.cx = r.x;
		r.ch = r.h;
		r.cw = r.w;
		return r;
	}
	window(r.y, r.h, p->sy, p->top, 0, p->kh, p->dy, c->l->oh, span);
	r.cy = span[0];
	r.ch = span[1] - span[0];
	window(r.x, r.w, p->sx, p->left, 0, p->kw, p->dx, c->l->ow, span);
	r.cx = span[0];
	r.cw = span[1] - span[0];
	return r;
}

/* Input rectangle that a chunk reads for a tile. */
static struct rvl_box input_box(const struct conv *c, const struct tile *t,
				const struct rvl_ocgroup *g, const struct rvl_chunk *k)
{
	const struct rvl_window *w = &c->l->win;
	struct rvl_box b = { .n = t->n, .b0 = g->ib0 + k->i0, .bn = (g->on - 1) * g->step + k->in };
	int64_t y[2], x[2];

	window(t->cy, t->ch, w->sy, w->top, k->ky, k->kh, w->dy, c->l->in.v.h, y);
	window(t->cx, t->cw, w->sx, w->left, k->kx, k->kw, w->dx, c->l->in.v.w, x);
	b.y = y[0];
	b.h = y[1] - y[0];
	b.x = x[0];
	b.w = x[1] - x[0];
	return b;
}

static void load_gather(const struct conv *c, const struct tile *t, int64_t blocks, int64_t addr)
{
	const struct rvl_layer *l = c->l;
	const struct rvl_window *w = &l->win;
	const struct rvl_view *v = &l->in.v;
	struct rivulet_decoded src = { .l_src = { .row_pitch = v->w, .ch_pitch = v->h * v->w } };
	struct rivulet_decoded dst = { .l_dst = { .row_pitch = t->cw,
						  .blk_pitch = t->ch * t->cw } };
	struct rivulet_decoded chan = { .l_chan = { .fill = l->in.zp } };
	struct rivulet_decoded gat = { .l_gather = { .kh = w->kh,
						     .kw = w->kw,
						     .sy = w->sy,
						     .sx = w->sx,
						     .dy = w->dy,
						     .dx = w->dx,
						     .ch = v->c } };
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

	rvl_emit_cfg(c->s, RIVULET_FORM_l_src, &src);
	rvl_emit_cfg(c->s, RIVULET_FORM_l_dst, &dst);
	rvl_emit_cfg(c->s, RIVULET_FORM_l_chan, &chan);
	c->s->replicates = false;
	rvl_emit_cfg(c->s, RIVULET_FORM_l_gather, &gat);
	rvl_emit_cfg(c->s, RIVULET_FORM_l_bounds, &bounds);
	op = rvl_emit(c->s, RIVULET_FORM_load, RIVULET_Q_LOAD, &d);
	rvl_touch_spad(op, RVL_AT_INP, addr, blocks * t->ch * t->cw, true);
	op->access[op->accesses++] = (struct rvl_op_access){
		.at = RVL_AT_STORE,
		.o = &l->in,
		.box = { { t->n, t->n + 1 }, { 0, v->c }, { 0, v->h }, { 0, v->w } }
	};
}

/* Where the tile's input is in INP, and how CONV walks it. */
struct feed {
	int64_t addr, words;
	struct rivulet_insn_c_kernel kernel;
	struct rivulet_insn_c_input input;
};

static struct feed feed_gather(struct conv *c, const struct tile *t, const struct rvl_chunk *k)
{
	struct feed f = {
		.kernel = { .kh = 1, .kw = 1, .sy = 1, .sx = 1, .dy = 1, .dx = 1 },
		.input = { .row_pitch = t->cw,
			   .blk_pitch = t->ch * t->cw,
			   .rows = t->ch,
			   .cols = t->cw },
		.words = k->in * t->ch * t->cw,
	};

	if (!cached(&c->in, t->index, 0, &f.addr))
		load_gather(c, t, k->in, f.addr);
	return f;
}

static struct feed feed_direct(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
			       const struct rvl_chunk *k)
{
	const struct rvl_window *w = &c->l->win;
	struct rvl_box b = input_box(c, t, g, k);
	struct feed f = {
		.kernel = {
			.kh = k->kh, .kw = k->kw,
			.sy = t->ch > 1 ? w->sy : 1, .sx = t->cw > 1 ? w->sx : 1,
			.dy = k->kh > 1 ? w->dy : 1, .dx = k->kw > 1 ? w->dx : 1,
			.org_y = t->cy * w->sy - w->top + k->ky * w->dy - b.y,
			.org_x = t->cx * w->sx - w->left + k->kx * w->dx - b.x,
		},
		.input = { .row_pitch = b.w, .blk_pitch = b.h * b.w, .rows = b.h, .cols = b.w },
		.words = b.bn * b.h * b.w,
	};

	if (!cached(&c->in, t->index, (uint64_t)k->part << 36 | (uint64_t)b.b0 << 13 | b.bn,
		    &f.addr))
		rvl_emit_load(c->s, &c->l->in, &b, f.addr);
	return f;
}

static bool uses_streams(const struct conv *c)
{
	return c->l->stochastic && c->s->length;
}

/* Streams, and which channels there are: padding would take their time too. 0 says all. */
static void emit_stream_mode(struct conv *c, const struct rvl_ocgroup *g, const struct rvl_chunk *k)
{
	const struct rvl_layer *l = c->l;
	int64_t tn = c->s->board->tn, tm = c->s->board->tm;
	int64_t channels = l->gather ? l->in.v.c * l->win.kh * l->win.kw : l->in.v.c;
	int64_t in = rvl_min(channels - (g->ib0 + k->i0) * tn, k->in * tn);
	int64_t out = rvl_min(l->m - g->o0 * tm, g->on * tm);
	struct rivulet_decoded mode = { .c_mode = { .circuit = RIVULET_SC_AND_BIN,
						    .length = c->s->length } };

	mode.c_mode.valid = l->group > 1 || in == k->in * tn ? 0 : in;
	mode.c_mode.out = out == g->on * tm ? 0 : out;
	rvl_emit_cfg(c->s, RIVULET_FORM_c_mode, &mode);
}

static void run_chunk(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g,
		      const struct rvl_chunk *k, const struct feed *f, int64_t wgt, int64_t acc,
		      bool keep)
{
	int64_t words = rvl_chunk_words(c->s->board, k, g->on);
	int64_t block = c->s->board->tm * c->s->board->tn / RIVULET_WGT_WORD;
	struct rivulet_decoded kernel = { .c_kernel = f->kernel }, input = { .c_input = f->input };
	struct rivulet_decoded pad = { .c_pad = { .value = c->l->in.zp } };
	struct rivulet_decoded out = {
		.c_out = { .row_pitch = t->cw,
			   .blk_pitch = t->ch * t->cw,
			   .wgt_ic_pitch = k->kh * k->kw * block,
			   .wgt_oc_pitch = words / g->on,
			   .inp_oc_pitch = g->on > 1 ? g->step * f->input.blk_pitch : 0 }
	};
	bool streams = uses_streams(c);
	struct rivulet_decoded d = { .conv = { .mode = streams ? RIVULET_MODE_STOCHASTIC :
								 RIVULET_MODE_DENSE,
					       .keep = keep,
					       .inp = f->addr,
					       .wgt = wgt,
					       .acc = acc,
					       .rows = t->ch,
					       .cols = t->cw,
					       .icb = k->in,
					       .ocb = g->on } };
	struct rvl_insn_op *op;

	rvl_emit_cfg(c->s, RIVULET_FORM_c_kernel, &kernel);
	rvl_emit_cfg(c->s, RIVULET_FORM_c_input, &input);
	rvl_emit_cfg(c->s, RIVULET_FORM_c_pad, &pad);
	rvl_emit_cfg(c->s, RIVULET_FORM_c_out, &out);
	if (streams)
		emit_stream_mode(c, g, k);
	op = rvl_emit(c->s, RIVULET_FORM_conv, RIVULET_Q_CONV, &d);
	rvl_touch_spad(op, RVL_AT_INP, f->addr, f->words, false);
	rvl_touch_spad(op, RVL_AT_WGT, wgt, words, false);
	rvl_touch_spad(op, RVL_AT_ACC, acc, g->on * t->ch * t->cw, true);
}

static int64_t load_params(struct conv *c, const struct rvl_ocgroup *g)
{
	int64_t bytes = c->s->board->tm * 8, addr;

	if (!cached(&c->prm, g->o0, 0, &addr))
		rvl_emit_load_wgt(c->s, c->l->prm_off[uses_streams(c)] + g->o0 * bytes,
				  g->on * bytes / RIVULET_WGT_WORD, addr);
	return addr;
}

/* All of the reduction of one tile and group; weights first, for they wait for nobody. */
static void reduce(struct conv *c, const struct tile *t, int64_t gi, int64_t acc, int64_t *prm)
{
	const struct rvl_ocgroup *g = &c->group[gi];
	int64_t n = rvl_chunks(c->l, &c->l->t, g, c->chunk);
	uint64_t at = c->wgt_off[gi];

	for (int64_t i = 0; i < n; i++) {
		const struct rvl_chunk *k = &c->chunk[i];
		int64_t words = rvl_chunk_words(c->s->board, k, g->on), wgt;
		struct feed f;

		if (!cached(&c->wgt, gi, i, &wgt))
			rvl_emit_load_wgt(c->s, at, words, wgt);
		at += words * RIVULET_WGT_WORD;
		if (!i)
			*prm = load_params(c, g);
		f = c->l->gather ? feed_gather(c, t, k) : feed_direct(c, t, g, k);
		run_chunk(c, t, g, k, &f, wgt, acc, i > 0);
	}
}

static void drain(struct conv *c, const struct tile *t, const struct rvl_ocgroup *g, int64_t acc,
		  int64_t prm, int64_t b, int64_t out)
{
	int64_t px = t->h * t->w, words = g->on * c->ratio * px;
	const struct rvl_box res = { .y = t->y, .x = t->x };
	const struct rvl_box full = { .y = t->cy, .h = t->ch, .x = t->cx, .w = t->cw };
	struct rivulet_decoded src = {
		.a_src = { .a_row = t->cw, .a_blk = t->ch * t->cw, .b_row = t->w, .b_blk = px }
	};
	struct rivulet_decoded dst = { .a_dst = { .row = t->w, .blk = px } };
	struct rivulet_decoded d = { .alu = { .src = 1,
					      .a = acc,
					      .b = c->l->bin ? b : 0,
					      .d = out,
					      .prm = prm,
					      .rows = t->h,
					      .cols = t->w,
					      .blks = g->on,
					      .rq = 1,
					      .pool = c->l->pool,
					      .bin = c->l->bin } };
	struct rvl_insn_op *op;

	rvl_emit_cfg(c->s, RIVULET_FORM_a_src, &src);
	rvl_emit_cfg(c->s, RIVULET_FORM_a_dst, &dst);
	rvl_emit_pool(c->s, c->l, &res, &full);
	op = rvl_emit(c->s, RIVULET_FORM_alu, RIVULET_Q_ALU, &d);
	rvl_touch_spad(op, RVL_AT_ACC, acc, g->on * t->ch * t->cw, false);
	rvl_touch_spad(op, RVL_AT_WGT, prm, c->l->t.prm_words, false);
	rvl_touch_spad(op, RVL_AT_INP, out, words, true);
	if (c->l->bin)
		rvl_touch_spad(op, RVL_AT_INP, b, words, false);
}

/* Operand B; blocks past its last channel get its last block, for the ALU reads whole ACC words. */
static void load_second(struct conv *c, const struct rvl_box *box, int64_t addr, int64_t blocks)
{
	struct rvl_box last = *box;

	rvl_emit_load(c->s, &c->l->b, box, addr);
	last.b0 = box->b0 + box->bn - 1;
	last.bn = 1;
	for (int64_t i = box->bn; i < blocks; i++)
		rvl_emit_load(c->s, &c->l->b, &last, addr + i * box->h * box->w);
}

/*
 * Two accumulator tiles lie in different halves of ACC, also from one layer to the next, because
 * CONV and ALU delay each other in the same half.
 */
static int64_t next_acc(struct conv *c)
{
	return c->acc + c->s->acc_turn++ % c->l->t.acc_slots * c->acc_half;
}

static void unit(struct conv *c, uint64_t tile, int64_t gi)
{
	const struct rvl_tiling *tl = &c->l->t;
	const struct rvl_ocgroup *g = &c->group[gi];
	struct tile t = tile_at(c, tile);
	int64_t acc = next_acc(c);
	int64_t out = c->out + c->turn % tl->out_slots * tl->out_words;
	int64_t b = tl->b_slots ? c->b + c->turn % tl->b_slots * tl->out_words : 0, prm = 0;
	int64_t blocks = rvl_div_up(c->l->m, c->s->board->tn);
	struct rvl_box box = {
		.n = t.n, .b0 = g->o0 * c->ratio, .y = t.y, .h = t.h, .x = t.x, .w = t.w
	};

	box.bn = rvl_min(g->on * c->ratio, blocks - box.b0);
	reduce(c, &t, gi, acc, &prm);
	if (c->l->has_b)
		load_second(c, &box, b, g->on * c->ratio);
	drain(c, &t, g, acc, prm, b, out);
	rvl_emit_store(c->s, &c->l->out, &box, out, t.w, t.h * t.w);
	c->turn++;
}

static void take_buffers(struct conv *c)
{
	const struct rvl_tiling *t = &c->l->t;
	int64_t in = t->in_slots * t->in_words, out = t->out_slots * t->out_words;
	int64_t wgt = t->wgt_slots * t->wgt_words;
	int64_t inp = rvl_take(c->s, RIVULET_MEM_INP, in + out + t->b_slots * t->out_words);
	int64_t w = rvl_take(c->s, RIVULET_MEM_WGT, wgt + t->prm_slots * t->prm_words);

	c->in = (struct cache){ .base = inp, .words = t->in_words, .slots = t->in_slots };
	c->out = inp + in;
	c->b = inp + in + out;
	c->wgt = (struct cache){ .base = w, .words = t->wgt_words, .slots = t->wgt_slots };
	c->prm = (struct cache){ .base = w + wgt, .words = t->prm_words, .slots = t->prm_slots };
	c->acc = t->acc_slots == 1 ? rvl_take(c->s, RIVULET_MEM_ACC, t->acc_words) : 0;
	c->acc_half = rivulet_mem_words(c->s->board, RIVULET_MEM_ACC) / 2;
}

static int prepare(struct conv *c)
{
	const struct rivulet_board *b = c->s->board;
	int64_t most = 0;
	uint64_t at = c->l->wgt_off;

	c->group = calloc(c->groups, sizeof(*c->group));
	c->wgt_off = calloc(c->groups, sizeof(*c->wgt_off));
	if (!c->group || !c->wgt_off)
		return -ENOMEM;
	rvl_ocgroups(b, c->l, c->l->t.og, c->group);
	for (int64_t g = 0; g < c->groups; g++)
		most = rvl_max(most, rvl_chunks(c->l, &c->l->t, &c->group[g], NULL));
	c->chunk = calloc(most, sizeof(*c->chunk));
	if (!c->chunk)
		return -ENOMEM;
	for (int64_t g = 0; g < c->groups; g++) {
		int64_t n = rvl_chunks(c->l, &c->l->t, &c->group[g], c->chunk);

		c->wgt_off[g] = at;
		for (int64_t i = 0; i < n; i++)
			at += rvl_chunk_words(b, &c->chunk[i], c->group[g].on) * RIVULET_WGT_WORD;
	}
	return 0;
}

void rvl_emit_conv_layer(struct rvl_stream *s, const struct rvl_layer *l)
{
	struct conv *c = calloc(1, sizeof(*c));
	int64_t units;

	if (!c) {
		s->rc = -ENOMEM;
		return;
	}
	c->s = s;
	c->l = l;
	c->ratio = s->board->tm / s->board->tn;
	c->nty = rvl_div_up(l->out.v.h, l->t.th);
	c->ntx = rvl_div_up(l->out.v.w, l->t.tw);
	c->tiles = l->out.v.n * c->nty * c->ntx;
	c->groups = rvl_ocgroups(s->board, l, l->t.og, NULL);
	take_buffers(c);
	rvl_emit_alu_stages(s, l);
	if (prepare(c) && !s->rc)
		s->rc = -ENOMEM;
	units = c->tiles * c->groups;
	for (int64_t i = 0; i < units && !s->rc; i++) {
		int64_t inner = l->t.oc_outer ? c->tiles : c->groups;
		int64_t tile = l->t.oc_outer ? i % inner : i / inner;

		unit(c, tile, l->t.oc_outer ? i / inner : i % inner);
	}
	free(c->group);
	free(c->wgt_off);
	free(c->chunk);
	free(c);
}
