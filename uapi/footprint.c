// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/* Legality and footprint of single instructions. */
#include "rivulet_footprint.h"

#include <string.h>

#include "rivulet_binary_conv.h"
#include "rivulet_lanes.h"
#include "rivulet_planes.h"
#include "rivulet_sc.h"
#include "rivulet_sparse.h"

#define IMPLEMENTED                                                                                \
	(1 << RIVULET_MODE_DENSE | 1 << RIVULET_MODE_SPARSE | 1 << RIVULET_MODE_BINARY |           \
	 1 << RIVULET_MODE_BITPLANE | 1 << RIVULET_MODE_STOCHASTIC | 1 << RIVULET_MODE_TAPS)
#define SCALE_MAX 20 /* log2: sums stay below 2^31 */

uint32_t rivulet_mem_word(const struct rivulet_board *b, enum rivulet_mem mem)
{
	switch (mem) {
	case RIVULET_MEM_INP:
		return b->tn;
	case RIVULET_MEM_WGT:
		return RIVULET_WGT_WORD;
	default:
		return 4 * b->tm;
	}
}

uint32_t rivulet_mem_words(const struct rivulet_board *b, enum rivulet_mem mem)
{
	const uint32_t bytes[] = { b->inp_bytes, b->wgt_bytes, b->acc_bytes };

	return bytes[mem] / rivulet_mem_word(b, mem);
}

/* The positions org + i * stride, i < n, that are inside [0, bound): the first and past the last. */
static struct rivulet_span steps_inside(int64_t org, int64_t n, int64_t stride, int64_t bound)
{
	int64_t first = org < 0 ? (-org + stride - 1) / stride : 0;
	int64_t last = org < bound ? (bound - 1 - org) / stride : -1;

	if (last > n - 1)
		last = n - 1;
	if (first > last)
		return (struct rivulet_span){ 0, 0 };
	return (struct rivulet_span){ org + first * stride, org + last * stride + 1 };
}

struct rivulet_span rivulet_taps(int64_t org, int64_t n, int64_t stride, int64_t taps,
				 int64_t dilation, int64_t bound)
{
	struct rivulet_span hull = { 0, 0 };

	for (int64_t k = 0; k < taps; k++) {
		struct rivulet_span s = steps_inside(org + k * dilation, n, stride, bound);

		if (s.lo >= s.hi)
			continue;
		if (hull.lo >= hull.hi)
			hull = s;
		hull.lo = s.lo < hull.lo ? s.lo : hull.lo;
		hull.hi = s.hi > hull.hi ? s.hi : hull.hi;
	}
	return hull;
}

static int field(bool ok)
{
	return ok ? 0 : RIVULET_FAULT_FIELD;
}

static bool mask_ok(const struct rivulet_board *b, int64_t src, int64_t dst, int64_t count)
{
	return !count || (src + count <= b->tn && dst + count <= b->tn);
}

static int check_gather(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_load *l)
{
	const struct rivulet_insn_l_gather *g = &c->l_gather;

	return field(g->kh && g->kw && g->sy && g->sx && g->dy && g->dx && g->ch &&
		     (!g->pixel || g->pixel >= g->ch) && g->ch * g->kh * g->kw <= l->blks * b->tn && rivulet_gather_strip(b, g));
}

static int check_load(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_load *l)
{
	const struct rivulet_insn_l_chan *ch = &c->l_chan;

	if (l->mem >= RIVULET_MEMS || l->kind >= RIVULET_XFERS || !l->rows || !l->cols || !l->blks)
		return RIVULET_FAULT_FIELD;
	if (l->mem != RIVULET_MEM_INP)
		return field(l->kind == RIVULET_XFER_BLOCK && !l->flip);
	switch (l->kind) {
	case RIVULET_XFER_BLOCK:
		return field(mask_ok(b, ch->src_ch, ch->dst_ch, ch->count));
	case RIVULET_XFER_GATHER:
		return check_gather(b, c, l);
	default:
		return field(ch->channels && ch->channels <= l->blks * b->tn);
	}
}

static int check_store(const struct rivulet_board *b, const struct rivulet_config *c,
		       const struct rivulet_insn_store *s)
{
	const struct rivulet_insn_s_chan *ch = &c->s_chan;
	bool acc = s->mem == RIVULET_MEM_ACC;

	if ((s->mem != RIVULET_MEM_INP && !acc) || s->kind >= RIVULET_XFER_GATHER || !s->rows ||
	    !s->cols || !s->blks || (acc && s->flip))
		return RIVULET_FAULT_FIELD;
	if (s->kind == RIVULET_XFER_BLOCK)
		return field(acc || mask_ok(b, ch->src_ch, ch->dst_ch, ch->count));
	return field(ch->channels && ch->channels <= s->blks * (acc ? b->tm : b->tn));
}

/*
 * Checks the configuration of a stochastic CONV. Circuits with state need the whole sum in one
 * instruction.
 */
static int check_stream(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_conv *v)
{
	const struct rivulet_insn_c_mode *m = &c->c_mode;
	uint64_t in, out, taps = c->c_kernel.kh * c->c_kernel.kw;

	if (m->circuit >= RIVULET_SC_CIRCUIT_COUNT)
		return RIVULET_FAULT_MODE;
	rivulet_conv_channels(b, m, v, &in, &out);
	if (m->length < RIVULET_SC_MIN || m->length > RIVULET_SC_MAX || m->scale > SCALE_MAX ||
	    in > (uint64_t)v->icb * b->tn || out > (uint64_t)v->ocb * b->tm)
		return RIVULET_FAULT_FIELD;
	return field(m->circuit == RIVULET_SC_AND_BIN ||
		     (!v->keep && in * taps <= RIVULET_SC_TERMS_MAX));
}

/* Every block begins where its passes are in different banks of WGT. */
static bool banks_apart(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_conv *v)
{
	struct rivulet_sparse s = rivulet_sparse_of(b, b->dn);

	return !(v->wgt % s.align) && !(c->c_out.wgt_oc_pitch % s.align) &&
	       !(c->c_out.wgt_ic_pitch % s.align);
}

static int check_sparse(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_conv *v)
{
	return field(c->c_mode.dn && c->c_mode.dn <= b->tn && banks_apart(b, c, v));
}

static int check_taps(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_conv *v)
{
	int64_t mult = c->c_mode.mult ? c->c_mode.mult : 1;

	return field(c->c_mode.first < mult * b->tn && banks_apart(b, c, v));
}

static int check_binary(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_conv *v)
{
	const struct rivulet_insn_c_mode *m = &c->c_mode;
	uint64_t from, to, all = (uint64_t)v->icb * (8 * b->tn >> m->lanes);

	rivulet_binary_channels(b, m, v, &from, &to);
	return field(1u << m->lanes <= RIVULET_BINARY_LANES && from < all && to <= all &&
		     banks_apart(b, c, v));
}

static int check_conv(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_conv *v)
{
	const struct rivulet_insn_c_kernel *k = &c->c_kernel;
	const struct rivulet_insn_c_mode *m = &c->c_mode;

	if (!(IMPLEMENTED >> v->mode & 1) || !(b->modes >> v->mode & 1))
		return RIVULET_FAULT_MODE;
	if (m->wfmt)
		return RIVULET_FAULT_MODE;
	if (!v->rows || !v->cols || !v->icb || !v->ocb || !k->kh || !k->kw || !k->sy || !k->sx ||
	    !k->dy || !k->dx)
		return RIVULET_FAULT_FIELD;
	if (v->mode == RIVULET_MODE_SPARSE)
		return check_sparse(b, c, v);
	if (v->mode == RIVULET_MODE_TAPS)
		return check_taps(b, c, v);
	if (v->mode == RIVULET_MODE_BINARY)
		return check_binary(b, c, v);
	if (v->mode == RIVULET_MODE_BITPLANE)
		return field(rivulet_planes_valid(b, m) && banks_apart(b, c, v));
	return v->mode == RIVULET_MODE_STOCHASTIC ? check_stream(b, c, v) : 0;
}

/* The channels of a word of A are whole bytes of one pixel of bits. */
static bool pack_ok(const struct rivulet_board *b, const struct rivulet_config *c,
		    const struct rivulet_insn_alu *a)
{
	const struct rivulet_insn_a_pack *p = &c->a_pack;
	int64_t channels = a->src ? b->tm : b->tn;

	if (!a->pack)
		return true;
	return 1u << p->lanes <= RIVULET_BINARY_LANES && !a->dst && !(channels % 8) &&
	       !((8 * b->tn >> p->lanes) % channels) && !(p->first % channels);
}

/* Stages of the int8 results with the types of A_TYPE: only an average makes an int8 of an int16. */
static bool types_ok(const struct rivulet_config *c, const struct rivulet_insn_alu *a)
{
	const struct rivulet_insn_a_type *t = &c->a_type;
	bool only = a->pack && c->a_pack.only;

	if (a->real)
		return !a->rq && !a->slope && !a->lut && !a->pool && !a->dst && a->bin <= RIVULET_BIN_ADD &&
		       !(t->a && a->src) && !(only && (a->bin || t->prelu));
	if (!t->a)
		return true;
	return !a->src && !a->rq && !a->slope && !a->lut && !a->dst &&
	       (a->pool > RIVULET_POOL_MAX || (only && !a->bin));
}

static int check_alu(const struct rivulet_board *b, const struct rivulet_config *c,
		     const struct rivulet_insn_alu *a)
{
	const struct rivulet_insn_a_pool *p = &c->a_pool;
	const struct rivulet_insn_a_type *t = &c->a_type;
	bool params = a->rq || (a->real && !(a->pack && c->a_pack.only));
	uint64_t length = c->a_rq.length;

	if ((a->pack || a->real || t->a) &&
	    !(b->modes >> RIVULET_MODE_BINARY & 1))
		return RIVULET_FAULT_MODE;
	if (!a->rows || !a->cols || !a->blks)
		return RIVULET_FAULT_FIELD;
	if ((a->src && !a->rq && !a->real) || (a->dst && (a->src || b->tn != b->tm)))
		return RIVULET_FAULT_FIELD;
	if ((!a->bin && a->b) || (!params && a->prm))
		return RIVULET_FAULT_FIELD;
	if (a->rq && length && (length < RIVULET_SC_MIN || length > RIVULET_SC_MAX))
		return RIVULET_FAULT_FIELD;
	if (!pack_ok(b, c, a) || !types_ok(c, a))
		return RIVULET_FAULT_FIELD;
	return field(!a->pool || (p->kh && p->kw && p->sy && p->sx));
}

static int check_sync(const struct rivulet_insn_sync *s)
{
	if (s->kind > RIVULET_SYNC_END)
		return RIVULET_FAULT_FIELD;
	return field(s->kind != RIVULET_SYNC_END || !(s->pop | s->push));
}

int rivulet_insn_check(const struct rivulet_board *b, const struct rivulet_config *c,
		       const struct rivulet_decoded *d)
{
	switch (d->form) {
	case RIVULET_FORM_load:
		return check_load(b, c, &d->load);
	case RIVULET_FORM_conv:
		return check_conv(b, c, &d->conv);
	case RIVULET_FORM_alu:
		return check_alu(b, c, &d->alu);
	case RIVULET_FORM_store:
		return check_store(b, c, &d->store);
	case RIVULET_FORM_sync:
		return check_sync(&d->sync);
	case RIVULET_FORM_q_prof:
		return field(d->q_prof.offset % 8 == 0);
	default:
		return 0;
	}
}

static struct rivulet_access *add(struct rivulet_footprint *f, enum rivulet_mem mem, uint64_t addr)
{
	struct rivulet_access *a = &f->access[f->count++];

	*a = (struct rivulet_access){
		.mem = mem, .addr = addr, .grps = 1, .blks = 1, .rows = 1, .cols = 1
	};
	return a;
}

static void blocks(struct rivulet_access *a, uint64_t blks, uint64_t pitch)
{
	a->blks = blks;
	a->blk_pitch = pitch;
}

static void rows(struct rivulet_access *a, uint64_t n, uint64_t pitch, uint64_t cols)
{
	a->rows = n;
	a->row_pitch = pitch;
	a->cols = cols;
}

static void load_words(const struct rivulet_config *c, const struct rivulet_insn_load *l,
		       struct rivulet_footprint *f)
{
	struct rivulet_access *a = add(f, l->mem, l->addr);
	uint64_t y = l->rows, x = l->cols;

	if (l->mem == RIVULET_MEM_INP) {
		y = y * (c->l_chan.rep_y + 1) + c->l_pad.top + c->l_pad.bottom;
		x = x * (c->l_chan.rep_x + 1) + c->l_pad.left + c->l_pad.right;
	}
	a->write = true;
	blocks(a, l->blks, c->l_dst.blk_pitch);
	rows(a, y, c->l_dst.row_pitch, x);
}

struct layout {
	int64_t kind, rows, cols, blks, channels, src, count;
	uint64_t row_pitch, blk_pitch, ch_pitch, word, elem;
};

/* @blks x @rows runs of @run bytes. */
static void extent(struct rivulet_extent *e, uint64_t first, uint64_t blks, uint64_t blk_pitch,
		   uint64_t rows_, uint64_t row_pitch, uint64_t run)
{
	e->first = first;
	e->blks = blks;
	e->blk_pitch = blk_pitch;
	e->rows = rows_;
	e->row_pitch = row_pitch;
	e->run = run;
	e->end = first + (blks - 1) * blk_pitch + (rows_ - 1) * row_pitch + run;
}

static void layout_extent(const struct layout *l, uint64_t offset, struct rivulet_extent *e)
{
	switch (l->kind) {
	case RIVULET_XFER_BLOCK:
		extent(e, offset + l->src, l->blks, l->blk_pitch, l->rows, l->row_pitch,
		       (l->cols - 1) * l->word + (l->count ? (uint64_t)l->count : l->word));
		break;
	case RIVULET_XFER_PLANAR:
		extent(e, offset, l->channels, l->ch_pitch, l->rows, l->row_pitch,
		       l->cols * l->elem);
		break;
	default:
		extent(e, offset, l->rows, l->row_pitch, l->cols, l->ch_pitch,
		       l->channels * l->elem);
		break;
	}
}

static void gather_extent(const struct rivulet_config *c, const struct rivulet_insn_load *l,
			  struct rivulet_extent *e)
{
	const struct rivulet_insn_l_gather *g = &c->l_gather;
	const struct rivulet_insn_l_bounds *b = &c->l_bounds;
	struct rivulet_span y = rivulet_taps(b->org_y, l->rows, g->sy, g->kh, g->dy, b->rows);
	struct rivulet_span x = rivulet_taps(b->org_x, l->cols, g->sx, g->kw, g->dx, b->cols);

	if (y.lo >= y.hi || x.lo >= x.hi) {
		e->used = false;
		return;
	}
	if (g->pixel) {
		extent(e, l->offset + y.lo * c->l_src.row_pitch + x.lo * g->pixel, 1, 0, y.hi - y.lo,
		       c->l_src.row_pitch, (x.hi - x.lo - 1) * g->pixel + g->ch);
		return;
	}
	extent(e, l->offset + y.lo * c->l_src.row_pitch + x.lo, g->ch, c->l_src.ch_pitch,
	       y.hi - y.lo, c->l_src.row_pitch, x.hi - x.lo);
}

static void load_bytes(const struct rivulet_board *b, const struct rivulet_config *c,
		       const struct rivulet_insn_load *l, struct rivulet_footprint *f)
{
	bool masked = l->mem == RIVULET_MEM_INP && c->l_chan.count;
	struct layout y = {
		.kind = l->kind,
		.rows = l->rows,
		.cols = l->cols,
		.blks = l->blks,
		.channels = c->l_chan.channels,
		.src = masked ? c->l_chan.src_ch : 0,
		.count = masked ? c->l_chan.count : 0,
		.row_pitch = c->l_src.row_pitch,
		.blk_pitch = c->l_src.blk_pitch,
		.ch_pitch = c->l_src.ch_pitch,
		.word = rivulet_mem_word(b, l->mem),
		.elem = 1,
	};

	f->dma = (struct rivulet_extent){ .used = true, .slot = l->slot };
	if (l->kind == RIVULET_XFER_GATHER)
		gather_extent(c, l, &f->dma);
	else
		layout_extent(&y, l->offset, &f->dma);
}

static void store_words(const struct rivulet_config *c, const struct rivulet_insn_store *s,
			struct rivulet_footprint *f)
{
	struct rivulet_access *a = add(f, s->mem, s->addr);

	a->read = true;
	blocks(a, s->blks, c->s_src.blk_pitch);
	rows(a, s->rows, c->s_src.row_pitch, s->cols);
}

static void store_bytes(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_store *s, struct rivulet_footprint *f)
{
	bool acc = s->mem == RIVULET_MEM_ACC, masked = !acc && c->s_chan.count;
	struct layout y = {
		.kind = s->kind,
		.rows = s->rows,
		.cols = s->cols,
		.blks = s->blks,
		.channels = c->s_chan.channels,
		.src = masked ? c->s_chan.dst_ch : 0,
		.count = masked ? c->s_chan.count : 0,
		.row_pitch = c->s_dst.row_pitch,
		.blk_pitch = c->s_dst.blk_pitch,
		.ch_pitch = c->s_dst.ch_pitch,
		.word = rivulet_mem_word(b, s->mem),
		.elem = acc ? 4 : 1,
	};

	f->dma = (struct rivulet_extent){ .used = true, .write = true, .slot = s->slot };
	layout_extent(&y, s->offset, &f->dma);
}

/* One access for a run of ring rows; x covers the columns. */
static void conv_rows(const struct rivulet_config *c, const struct rivulet_insn_conv *v,
		      struct rivulet_footprint *f, uint64_t row, uint64_t n, struct rivulet_span x)
{
	const struct rivulet_insn_c_input *in = &c->c_input;
	struct rivulet_access *a = add(f, RIVULET_MEM_INP, v->inp + row * in->row_pitch + x.lo);

	a->read = true;
	a->grps = c->c_out.inp_oc_pitch ? v->ocb : 1;
	a->grp_pitch = c->c_out.inp_oc_pitch;
	blocks(a, v->icb, in->blk_pitch);
	rows(a, n, in->row_pitch, x.hi - x.lo);
}

static void conv_input(const struct rivulet_config *c, const struct rivulet_insn_conv *v,
		       struct rivulet_footprint *f)
{
	const struct rivulet_insn_c_kernel *k = &c->c_kernel;
	const struct rivulet_insn_c_input *in = &c->c_input;
	struct rivulet_span y = rivulet_taps(k->org_y, v->rows, k->sy, k->kh, k->dy, in->rows);
	struct rivulet_span x = rivulet_taps(k->org_x, v->cols, k->sx, k->kw, k->dx, in->cols);
	int64_t n = y.hi - y.lo, first, low;

	if (n <= 0 || x.lo >= x.hi)
		return;
	if (v->mode == RIVULET_MODE_BINARY) { /* words hold several pixels */
		x.lo >>= c->c_mode.lanes;
		x.hi = ((x.hi - 1) >> c->c_mode.lanes) + 1;
	}
	if (!in->wrap || n >= in->wrap) {
		conv_rows(c, v, f, in->wrap ? 0 : y.lo, in->wrap ? in->wrap : n, x);
		return;
	}
	first = (in->phase + y.lo) % in->wrap;
	low = first + n > in->wrap ? first + n - in->wrap : 0;
	conv_rows(c, v, f, first, n - low, x);
	if (low)
		conv_rows(c, v, f, 0, low, x);
}

static uint64_t taps_words(const struct rivulet_board *b, const struct rivulet_config *c)
{
	struct rivulet_lanes l;

	rivulet_lanes_of(b, &c->c_kernel, &l);
	return l.passes * l.words;
}

/* WGT words of the weights of one output block and input block, all taps. */
static uint64_t weight_words(const struct rivulet_board *b, const struct rivulet_config *c,
			     const struct rivulet_insn_conv *v)
{
	struct rivulet_sparse s = rivulet_sparse_of(b, c->c_mode.dn);
	uint64_t taps = c->c_kernel.kh * c->c_kernel.kw;

	if (v->mode == RIVULET_MODE_TAPS)
		return taps_words(b, c);
	if (v->mode == RIVULET_MODE_BINARY) {
		struct rivulet_binary n = rivulet_binary_of(b, c->c_mode.lanes, &c->c_kernel);

		return n.passes * n.words;
	}
	if (v->mode == RIVULET_MODE_BITPLANE) {
		struct rivulet_planes p = rivulet_planes_of(b, &c->c_mode);

		return taps * rivulet_planes_words(&p);
	}
	if (v->mode == RIVULET_MODE_SPARSE)
		return taps * rivulet_sparse_words(&s);
	return taps * (b->tm * b->tn / RIVULET_WGT_WORD);
}

static void conv_words(const struct rivulet_board *b, const struct rivulet_config *c,
		       const struct rivulet_insn_conv *v, struct rivulet_footprint *f)
{
	struct rivulet_access *a;

	conv_input(c, v, f);
	a = add(f, RIVULET_MEM_WGT, v->wgt);
	a->read = true;
	blocks(a, v->ocb, c->c_out.wgt_oc_pitch);
	rows(a, v->icb, c->c_out.wgt_ic_pitch, weight_words(b, c, v));
	a = add(f, RIVULET_MEM_ACC, v->acc);
	a->read = v->keep;
	a->write = true;
	blocks(a, v->ocb, c->c_out.blk_pitch);
	rows(a, v->rows, c->c_out.row_pitch, v->cols);
}

static void alu_operand_a(const struct rivulet_config *c, const struct rivulet_insn_alu *a,
			  uint64_t words, struct rivulet_footprint *f)
{
	const struct rivulet_insn_a_pool *p = &c->a_pool;
	int64_t dy = c->a_div.dy ? c->a_div.dy : 1, dx = c->a_div.dx ? c->a_div.dx : 1;
	struct rivulet_span y = { 0, a->rows }, x = { 0, a->cols };
	struct rivulet_access *w;

	if (a->pool) {
		y = rivulet_taps(p->org_y, a->rows, p->sy, p->kh, dy, p->rows);
		x = rivulet_taps(p->org_x, a->cols, p->sx, p->kw, dx, p->cols);
	}
	if (y.lo >= y.hi || x.lo >= x.hi)
		return;
	w = add(f, a->src ? RIVULET_MEM_ACC : RIVULET_MEM_INP, a->a + y.lo * c->a_src.a_row + x.lo);
	w->read = true;
	blocks(w, a->blks * words, c->a_src.a_blk);
	rows(w, y.hi - y.lo, c->a_src.a_row, x.hi - x.lo);
}

static void alu_constants(struct rivulet_footprint *f, uint64_t addr, uint64_t words)
{
	struct rivulet_access *w;

	if (!words)
		return;
	w = add(f, RIVULET_MEM_WGT, addr);
	w->read = true;
	w->cols = words;
}

/* Words of bits are written in part. */
static void alu_bits(const struct rivulet_board *b, const struct rivulet_config *c,
		     const struct rivulet_insn_alu *a, uint64_t channels, struct rivulet_footprint *f)
{
	const struct rivulet_insn_a_pack *p = &c->a_pack;
	uint64_t block = 8 * b->tn >> p->lanes, first = p->first / block;
	struct rivulet_access *w = add(f, RIVULET_MEM_INP, p->d + first * p->blk);

	w->write = true;
	blocks(w, (p->first + a->blks * channels - 1) / block - first + 1, p->blk);
	rows(w, a->rows, p->row, ((a->cols - 1) >> p->lanes) + 1);
}

static void alu_words(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_alu *a, struct rivulet_footprint *f)
{
	struct rivulet_alu_words n = rivulet_alu_words(b, c, a);
	struct rivulet_access *w;

	alu_operand_a(c, a, n.a, f);
	alu_constants(f, a->prm, a->blks * n.params);
	alu_constants(f, c->a_ext.addr, a->blks * n.ext);
	alu_constants(f, c->a_lut.addr, a->lut ? 256 / RIVULET_WGT_WORD : 0);
	if (n.b) {
		w = add(f, RIVULET_MEM_INP, a->b);
		w->read = true;
		blocks(w, a->blks * n.b, c->a_src.b_blk);
		rows(w, a->rows, c->a_src.b_row, a->cols);
	}
	if (n.bits)
		alu_bits(b, c, a, n.channels, f);
	if (!n.d)
		return;
	w = add(f, a->dst ? RIVULET_MEM_ACC : RIVULET_MEM_INP, a->d);
	w->write = true;
	blocks(w, a->blks * n.d, c->a_dst.blk);
	rows(w, a->rows, c->a_dst.row, a->cols);
}

static bool inside(const struct rivulet_board *b, const struct rivulet_access *a)
{
	uint64_t last = a->addr + (a->grps - 1) * a->grp_pitch + (a->blks - 1) * a->blk_pitch +
			(a->rows - 1) * a->row_pitch + a->cols - 1;

	return last < rivulet_mem_words(b, a->mem);
}

/*
 * A LOAD that only writes padding uses no port time, so this limit bounds the words that it writes.
 */
static bool overfull(const struct rivulet_board *b, const struct rivulet_decoded *d,
		     const struct rivulet_access *a)
{
	return d->form == RIVULET_FORM_load &&
	       a->blks * a->rows * a->cols > rivulet_mem_words(b, a->mem);
}

int rivulet_footprint_of(const struct rivulet_board *b, const struct rivulet_config *c,
			 const struct rivulet_decoded *d, struct rivulet_footprint *f)
{
	f->count = 0;
	f->dma = (struct rivulet_extent){ .used = false };
	if (d->form == RIVULET_FORM_load) {
		load_words(c, &d->load, f);
		load_bytes(b, c, &d->load, f);
	} else if (d->form == RIVULET_FORM_store) {
		store_words(c, &d->store, f);
		store_bytes(b, c, &d->store, f);
	} else if (d->form == RIVULET_FORM_conv) {
		conv_words(b, c, &d->conv, f);
	} else if (d->form == RIVULET_FORM_alu) {
		alu_words(b, c, &d->alu, f);
	}
	for (int i = 0; i < f->count; i++)
		if (!inside(b, &f->access[i]) || overfull(b, d, &f->access[i]))
			return RIVULET_FAULT_SPAD;
	return 0;
}
