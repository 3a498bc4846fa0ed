/* SPDX-License-Identifier: MIT */
/* The operations of pools, element-wise layers, tables and copies: load, one ALU pass, store. */
#include "npu/epilogue.h"

#include <stdlib.h>

struct plain {
	struct rvl_emission e;
	int64_t in, b, out, bits; /* first words */
	int64_t nty, ntx, nb; /* tiles */
};

/* Rows (or columns) of the source that results [at, at + n) need. */
static void source(const struct rvl_layer *l, int64_t at, int64_t n, int dim, int64_t out[2])
{
	const struct rvl_window *p = &l->e.pwin;
	int64_t bound = dim ? l->in.v.w : l->in.v.h, lo, hi;

	out[0] = at;
	out[1] = at + n;
	if (!l->e.pool)
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

/* The words of bits of a tile, which has all channels then. */
static struct rvl_spad bits_at(const struct plain *p, const struct rvl_box *r)
{
	const struct rvl_layer *l = p->e.l;
	int64_t cols = rvl_div_up(r->w, rvl_max(l->bits.pixels, 1));

	if (!l->has_bits)
		return (struct rvl_spad){ 0, 0, 0 };
	return (struct rvl_spad){ p->bits + (int64_t)(p->e.at % l->t.bit_slots) * l->t.bit_words, cols,
				  r->h * cols };
}

static void store_bits(const struct plain *p, const struct rvl_box *r)
{
	const struct rvl_layer *l = p->e.l;
	struct rvl_spad at = bits_at(p, r);
	struct rvl_box box = *r;

	box.x = r->x / l->bits.pixels;
	box.w = at.row;
	box.bn = rvl_div_up(l->bits.v.c, p->e.s->board->tn);
	rvl_emit_store(p->e.s, &l->bits, &box, at.addr, at.row, at.blk);
}

static void pass(struct plain *p, const struct rvl_box *r, const struct rvl_box *src,
		 const struct rvl_spad *in, int64_t b, const struct rvl_spad *out)
{
	struct rvl_alu_pass a = {
		.a = in->addr,
		.a_row = in->row,
		.a_blk = in->blk,
		.b = { b, r->w, r->h * r->w },
		.d = *out,
		.table = p->e.table,
		.rows = r->h,
		.cols = r->w,
		.blks = r->bn,
		.block0 = r->b0,
		.bits = bits_at(p, r),
		.out_blks = r->bn,
		.res = *r,
		.src = *src,
	};

	rvl_epilogue_run(p->e.s, p->e.l, &a);
}

/* Where the results of a tile go: a slot of their own, or where other layers read them in INP. */
static struct rvl_spad result_at(const struct plain *p, const struct rvl_box *r)
{
	const struct rvl_tiling *t = &p->e.l->t;
	const struct rvl_ring *to = p->e.l->to;
	int64_t slot = t->out_slots ? p->out + p->e.at % t->out_slots * t->out_words : 0, row;

	if (!to)
		return (struct rvl_spad){ slot, r->w, r->h * r->w };
	row = to->guard + (r->n * to->image + r->y) % to->rows;
	return (struct rvl_spad){ to->base + r->b0 * rvl_ring_pitch(to) + row * to->width + r->x,
				  to->width, rvl_ring_pitch(to) };
}

/* The tile number @at: images, rows, columns, blocks. */
static struct rvl_box tile_at(const struct plain *p, uint64_t at)
{
	const struct rvl_tiling *t = &p->e.l->t;
	const struct rvl_view *v = rvl_plain_view(p->e.l);
	int64_t blocks = rvl_div_up(v->c, p->e.s->board->tn);
	struct rvl_box r = { .b0 = at % p->nb * t->og };

	at /= p->nb;
	r.x = at % p->ntx * t->tw;
	at /= p->ntx;
	r.y = at % p->nty * t->th;
	r.n = at / p->nty;
	r.h = rvl_min(t->th, v->h - r.y);
	r.w = rvl_min(t->tw, v->w - r.x);
	r.bn = rvl_min(t->og, blocks - r.b0);
	return r;
}

/* The phases of the result's rectangle @r, each block of each by itself; they are those of @src. */
static void load_phases(struct plain *p, const struct rvl_box *r, const struct rvl_box *src, int64_t in)
{
	const struct rvl_layer *l = p->e.l;
	const struct rvl_repeat *rep = &l->rep;
	int64_t blocks = l->out.v.c / p->e.s->board->tn; /* of a phase: lower.c */

	for (int64_t i = 0; i < r->bn * rep->rows * rep->cols; i++) {
		int64_t b = i / (rep->rows * rep->cols), y = i / rep->cols % rep->rows, x = i % rep->cols;
		struct rvl_box box = *src;

		box.b0 = (y * rep->cols + x) * blocks + r->b0 + b;
		box.bn = 1;
		rvl_emit_phase(p->e.s, &l->in, &box,
			       &(struct rvl_lattice){ in + (b * r->h + y) * r->w + x, rep->rows * r->w,
						      rep->cols });
	}
}

/* Part @k of a line of results [@at, @at + @n): 0 in front of the operand, 1 inside of it, 2 behind it. */
struct piece {
	int64_t at, n;	   /* of the result */
	int64_t from, len; /* of the operand: a position that is repeated, or as many */
};

static struct piece piece_of(int64_t at, int64_t n, int64_t first, int64_t size, int k)
{
	const int64_t end[4] = { at, rvl_clamp(first, at, at + n), rvl_clamp(first + size, at, at + n), at + n };
	struct piece p = { .at = end[k], .n = end[k + 1] - end[k] };

	p.from = rvl_clamp(p.at - first, 0, size - 1);
	p.len = k == 1 ? p.n : 1;
	return p;
}

/* The result's rectangle @r of an image and copies of its edges, in up to nine parts. */
static void load_edges(struct plain *p, const struct rvl_box *r, int64_t in)
{
	const struct rvl_layer *l = p->e.l;

	for (int i = 0; i < 9; i++) {
		struct piece y = piece_of(r->y, r->h, l->rep.top, l->in.v.h, i / 3);
		struct piece x = piece_of(r->x, r->w, l->rep.left, l->in.v.w, i % 3);
		struct rvl_repeat rep = { .rows = 1, .cols = 1 };
		struct rvl_box box = *r;

		if (!y.n || !x.n)
			continue;
		rep.rows = y.n / y.len;
		rep.cols = x.n / x.len;
		box.y = y.from;
		box.h = y.len;
		box.x = x.from;
		box.w = x.len;
		rvl_emit_part(p->e.s, &l->in, &box, &rep,
			      &(struct rvl_spad){ in + (y.at - r->y) * r->w + x.at - r->x, r->w, r->h * r->w });
	}
}

/* The pixels of which the result's rectangle @r consists; tiles begin and end between them. */
static void load_repeated(struct plain *p, const struct rvl_box *r, int64_t in)
{
	const struct rvl_repeat *rep = &p->e.l->rep;
	struct rvl_box src = *r;

	src.y /= rep->rows;
	src.h /= rep->rows;
	src.x /= rep->cols;
	src.w /= rep->cols;
	if (rep->edge)
		load_edges(p, r, in);
	else if (rep->phases)
		load_phases(p, r, &src, in);
	else
		rvl_emit_repeat(p->e.s, &p->e.l->in, &src, rep, in);
}

/*
 * The rows of the source in the ring; those that go on behind its end are behind it too, or before
 * its first row.
 */
static struct rvl_spad in_ring(const struct rvl_ring *r, const struct rvl_box *src)
{
	int64_t at = (src->n * r->image + src->y) % r->rows;

	if (at + src->h > r->rows + r->below)
		at -= r->rows;
	return (struct rvl_spad){ r->base + src->b0 * rvl_ring_pitch(r) + (r->guard + at) * r->width +
					  src->x,
				  r->width, rvl_ring_pitch(r) };
}

static void load(struct plain *p, const struct rvl_operand *o, const struct rvl_box *box, int64_t addr)
{
	struct rvl_box words = rvl_words_of(o, *box);

	rvl_emit_load(p->e.s, o, &words, addr);
}

/* Where the source of a tile is in INP: in the ring that another layer fills, or loaded. */
static struct rvl_spad take_source(struct plain *p, const struct rvl_box *src)
{
	const struct rvl_layer *l = p->e.l;
	const struct rvl_tiling *t = &l->t;
	struct rvl_spad in = { p->in, src->w, src->h * src->w };

	if (l->from)
		return in_ring(l->from, src);
	in.addr += p->e.at % t->in_slots * t->in_words;
	if (l->rep.rows) /* no pool: @src is the result's rectangle */
		load_repeated(p, src, in.addr);
	else
		load(p, &l->in, src, in.addr);
	return in;
}

static void next(struct rvl_emission *e)
{
	struct plain *p = (struct plain *)e;
	const struct rvl_layer *l = e->l;
	const struct rvl_tiling *t = &l->t;
	int64_t b = t->b_slots ? p->b + e->at % t->b_slots * t->out_words : 0;
	struct rvl_box r = tile_at(p, e->at), src = source_box(l, &r), words;
	struct rvl_spad in = take_source(p, &src), out = result_at(p, &r);

	if (l->spread)
		rvl_emit_spread(e->s, &l->b, &r, b);
	else if (l->has_b)
		rvl_emit_load(e->s, &l->b, &r, b);
	if (l->e.stages)
		pass(p, &r, &src, &in, b, &out);
	else
		out = in;
	words = rvl_words_of(&l->out, r);
	if (!l->e.only && !l->to)
		rvl_emit_store(e->s, &l->out, &words, out.addr, out.row, out.blk);
	if (l->has_bits)
		store_bits(p, &r);
}

static void reads(const struct rvl_emission *e, int64_t rows[2])
{
	struct rvl_box r = tile_at((const struct plain *)e, e->at);

	rvl_rows_read(e->l, r.y, r.h, rows);
	rows[0] += r.n * e->l->from->image;
	rows[1] += r.n * e->l->from->image;
}

/* Rows are made when all their columns and blocks are. */
static int64_t made(const struct rvl_emission *e)
{
	struct rvl_box r = tile_at((const struct plain *)e, e->at);

	return r.n * e->l->to->image + r.y;
}

static uint64_t tiles_to(const struct rvl_emission *e, int64_t row)
{
	const struct plain *p = (const struct plain *)e;
	int64_t image = e->l->to->image,
		tiles = row / image * p->nty + row % image / e->l->t.th + 1;

	return tiles * p->ntx * p->nb;
}

static void finish(struct rvl_emission *e)
{
	free(e);
}

struct rvl_words3 rvl_plain_words(const struct rvl_layer *l)
{
	const struct rvl_tiling *t = &l->t;

	return (struct rvl_words3){
		.mem[RIVULET_MEM_INP] = t->in_slots * t->in_words +
					(t->out_slots + t->b_slots) * t->out_words +
					t->bit_slots * t->bit_words,
		.mem[RIVULET_MEM_WGT] = rvl_epilogue_words(l),
	};
}

struct rvl_emission *rvl_plain_open(struct rvl_stream *s, const struct rvl_layer *l,
				    const struct rvl_words3 *at)
{
	const struct rvl_tiling *t = &l->t;
	const struct rvl_view *v = rvl_plain_view(l);
	struct plain *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->e.next = next;
	p->e.reads = reads;
	p->e.made = made;
	p->e.tiles_to = tiles_to;
	p->e.close = finish;
	p->in = at->mem[RIVULET_MEM_INP];
	p->out = p->in + t->in_slots * t->in_words;
	p->b = p->out + t->out_slots * t->out_words;
	p->bits = p->b + t->b_slots * t->out_words;
	p->e.table = at->mem[RIVULET_MEM_WGT];
	p->nty = rvl_div_up(v->h, t->th);
	p->ntx = rvl_div_up(v->w, t->tw);
	p->nb = rvl_div_up(rvl_div_up(v->c, s->board->tn), t->og);
	p->e.count = v->n * p->nty * p->ntx * p->nb;
	return &p->e;
}
