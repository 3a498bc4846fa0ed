/* SPDX-License-Identifier: MIT */
/* The operations of pools, element-wise layers, tables and copies: load, one ALU pass, store. */
#include "npu/stream.h"

struct plain {
	struct rvl_stream *s;
	const struct rvl_layer *l;
	int64_t in, b, out, lut; /* first words */
	uint64_t turn;
};

/* Rows (or columns) of the source that results [at, at + n) need. */
static void source(const struct rvl_layer *l, int64_t at, int64_t n, int dim, int64_t out[2])
{
	const struct rvl_window *p = &l->pwin;
	int64_t bound = dim ? l->in.v.w : l->in.v.h, lo, hi;

	out[0] = at;
	out[1] = at + n;
	if (l->kind != RVL_LAYER_POOL)
		return;
	lo = at * (dim ? p->sx : p->sy) - (dim ? p->left : p->top);
	hi = lo + (n - 1) * (dim ? p->sx : p->sy) +
	     ((dim ? p->kw : p->kh) - 1) * (dim ? p->dx : p->dy) + 1;
	out[0] = rvl_clamp(lo, 0, bound - 1);
	out[1] = rvl_clamp(hi, out[0] + 1, bound);
}

static struct rvl_box source_box(const struct rvl_layer *l, const struct rvl_box *r)
{
	struct rvl_box b = *r;
	int64_t y[2], x[2];

	source(l, r->y, r->h, 0, y);
	source(l, r->x, r->w, 1, x);
	b.y = y[0];
	b.h = y[1] - y[0];
	b.x = x[0];
	b.w = x[1] - x[0];
	return b;
}

static void pass(struct plain *p, const struct rvl_box *r, const struct rvl_box *src, int64_t in,
		 int64_t b, int64_t out)
{
	const struct rvl_layer *l = p->l;
	int64_t px = r->h * r->w, lut = l->kind == RVL_LAYER_LUT;
	struct rivulet_decoded a = {
		.a_src = { .a_row = src->w, .a_blk = src->h * src->w, .b_row = r->w, .b_blk = px }
	};
	struct rivulet_decoded dst = { .a_dst = { .row = r->w, .blk = px } };
	struct rivulet_decoded d = { .alu = { .a = in,
					      .b = l->bin ? b : 0,
					      .d = out,
					      .rows = r->h,
					      .cols = r->w,
					      .blks = r->bn,
					      .lut = lut,
					      .pool = l->pool,
					      .bin = l->bin } };
	struct rvl_insn_op *op;

	rvl_emit_cfg(p->s, RIVULET_FORM_a_src, &a);
	rvl_emit_cfg(p->s, RIVULET_FORM_a_dst, &dst);
	rvl_emit_pool(p->s, l, r, src);
	op = rvl_emit(p->s, RIVULET_FORM_alu, RIVULET_Q_ALU, &d);
	rvl_touch_spad(op, RVL_AT_INP, in, src->bn * src->h * src->w, false);
	rvl_touch_spad(op, RVL_AT_INP, out, r->bn * px, true);
	if (l->bin)
		rvl_touch_spad(op, RVL_AT_INP, b, r->bn * px, false);
	if (lut)
		rvl_touch_spad(op, RVL_AT_WGT, p->lut, 256 / RIVULET_WGT_WORD, false);
}

static void rectangle(struct plain *p, const struct rvl_box *r)
{
	const struct rvl_layer *l = p->l;
	const struct rvl_tiling *t = &l->t;
	int64_t in = p->in + p->turn % t->in_slots * t->in_words;
	int64_t out = p->out + p->turn % t->out_slots * t->out_words;
	int64_t b = t->b_slots ? p->b + p->turn % t->b_slots * t->out_words : 0;
	struct rvl_box src = source_box(l, r);

	p->turn++;
	rvl_emit_load(p->s, &l->in, &src, in);
	if (l->spread)
		rvl_emit_spread(p->s, &l->b, r, b);
	else if (l->has_b)
		rvl_emit_load(p->s, &l->b, r, b);
	if (l->kind != RVL_LAYER_COPY)
		pass(p, r, &src, in, b, out);
	else
		out = in;
	rvl_emit_store(p->s, &l->out, r, out, r->w, r->h * r->w);
}

static void take_table(struct plain *p)
{
	struct rivulet_decoded d = { 0 };

	p->lut = rvl_take(p->s, RIVULET_MEM_WGT, 256 / RIVULET_WGT_WORD);
	d.a_lut.addr = p->lut;
	rvl_emit_load_wgt(p->s, p->l->lut_off, 256 / RIVULET_WGT_WORD, p->lut);
	rvl_emit_cfg(p->s, RIVULET_FORM_a_lut, &d);
}

void rvl_emit_plain_layer(struct rvl_stream *s, const struct rvl_layer *l)
{
	const struct rvl_tiling *t = &l->t;
	const struct rvl_view *v = &l->out.v;
	int64_t blocks = rvl_div_up(v->c, s->board->tn);
	struct plain p = { .s = s, .l = l };
	struct rvl_box r;

	p.in = rvl_take(s, RIVULET_MEM_INP,
			t->in_slots * t->in_words + (t->out_slots + t->b_slots) * t->out_words);
	p.out = p.in + t->in_slots * t->in_words;
	p.b = p.out + t->out_slots * t->out_words;
	if (l->kind == RVL_LAYER_LUT)
		take_table(&p);
	rvl_emit_alu_stages(s, l);
	for (r.n = 0; r.n < v->n; r.n++) {
		for (r.y = 0; r.y < v->h; r.y += t->th) {
			for (r.x = 0; r.x < v->w; r.x += t->tw) {
				for (r.b0 = 0; r.b0 < blocks; r.b0 += t->og) {
					r.h = rvl_min(t->th, v->h - r.y);
					r.w = rvl_min(t->tw, v->w - r.x);
					r.bn = rvl_min(t->og, blocks - r.b0);
					rectangle(&p, &r);
				}
			}
		}
	}
}
