// SPDX-License-Identifier: MIT
/* A generator of random command streams for the comparison of the models of time. */
#include "streams.h"

#include <stdbool.h>
#include <stdlib.h>

#include "chance.h"

struct maker {
	const struct rivulet_board *b;
	struct rivulet_insn *code;
	uint32_t count;
	uint64_t seed;
	int64_t last; /* queue of the last instruction that did work; -1: none */
};

static int64_t pick(struct maker *m, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(splitmix(&m->seed) % (uint64_t)(hi - lo + 1));
}

static bool chance(struct maker *m, int64_t of)
{
	return !pick(m, 0, of - 1);
}

static void put(struct maker *m, struct rivulet_decoded d)
{
	if (rivulet_encode(&d, &m->code[m->count++], NULL))
		abort(); /* a field in this file is out of range */
}

#define PUT(m, name, ...)                                                                          \
	put(m, (struct rivulet_decoded){ .form = RIVULET_FORM_##name, .name = { __VA_ARGS__ } })

/* Adds an instruction. Often it waits for the previous one, which then pushes a token. */
static void put_work(struct maker *m, struct rivulet_decoded d, int64_t queue)
{
	struct rivulet_decoded give = { .form = RIVULET_FORM_sync };

	if (m->last >= 0 && m->last != queue && pick(m, 0, 2)) {
		give.h.queue = m->last;
		give.h.push = 1 << queue;
		put(m, give);
		d.h.pop = 1 << m->last;
	}
	put(m, d);
	m->last = queue;
}

static void put_gather(struct maker *m, struct rivulet_insn_load *v)
{
	int64_t kh = pick(m, 1, 3), kw = pick(m, 1, 3), ch = pick(m, 1, 3);

	v->blks = (kh * kw * ch + m->b->tn - 1) / m->b->tn;
	PUT(m, l_gather, .kh = kh, .kw = kw, .sy = pick(m, 1, 2), .sx = pick(m, 1, 2), .dy = 1,
	    .dx = 1, .ch = ch, .pixel = chance(m, 2) ? pick(m, ch, 5) : 0);
	PUT(m, l_bounds, .org_y = pick(m, -2, 1), .org_x = pick(m, -2, 1), .rows = pick(m, 4, 20),
	    .cols = pick(m, 4, 40));
}

static void put_load_shape(struct maker *m, const struct rivulet_insn_load *v)
{
	int64_t channels = pick(m, 1, v->blks * m->b->tn);
	int64_t pixel = chance(m, 2) ? channels : channels + pick(m, 0, 9);
	bool planes = v->kind != RIVULET_XFER_INTERLEAVED;
	int64_t row = v->cols * (v->kind == RIVULET_XFER_BLOCK ? m->b->tn : planes ? 1 : pixel);

	row += chance(m, 2) ? pick(m, 0, 40) : 0;
	PUT(m, l_src, .row_pitch = row, .blk_pitch = row * v->rows,
	    .ch_pitch = planes ? row * v->rows : pixel);
	PUT(m, l_dst, .row_pitch = pick(m, 16, 40), .blk_pitch = pick(m, 200, 500));
	PUT(m, l_chan, .channels = channels, .rep_x = chance(m, 6), .rep_y = chance(m, 6),
	    .count = chance(m, 6) ? pick(m, 1, m->b->tn) : 0);
	PUT(m, l_pad, .top = chance(m, 3), .bottom = chance(m, 3), .left = chance(m, 3),
	    .right = chance(m, 3));
}

static void put_load_inp(struct maker *m)
{
	struct rivulet_decoded d = { .form = RIVULET_FORM_load };

	d.load = (struct rivulet_insn_load){ .kind = pick(m, 0, 3),
					     .slot = 1,
					     .addr = pick(m, 0, 1000),
					     .offset = pick(m, 0, 9000),
					     .rows = pick(m, 1, 12),
					     .cols = pick(m, 1, 24),
					     .blks = pick(m, 1, 3) };
	if (d.load.kind == RIVULET_XFER_GATHER)
		put_gather(m, &d.load);
	put_load_shape(m, &d.load);
	put_work(m, d, RIVULET_Q_LOAD);
}

static void put_load_other(struct maker *m)
{
	bool acc = chance(m, 2);
	struct rivulet_decoded d = { .form = RIVULET_FORM_load };

	d.load = (struct rivulet_insn_load){ .mem = acc ? RIVULET_MEM_ACC : RIVULET_MEM_WGT,
					     .slot = 1,
					     .addr = pick(m, 0, 700),
					     .offset = pick(m, 0, 9000),
					     .rows = 1,
					     .cols = pick(m, 1, 200),
					     .blks = 1 };
	put_work(m, d, RIVULET_Q_LOAD);
}

/* Half of the pitches and most of the rings cause conflicts. */
static void put_taps(struct maker *m)
{
	int64_t dn = m->b->dn, pitch = pick(m, 16, 40);

	if (chance(m, 2))
		pitch += (3 + dn * 40 - pitch) % dn;
	PUT(m, c_kernel, .kh = pick(m, 1, 5), .kw = pick(m, 1, 5), .sy = pick(m, 1, 2),
	    .sx = pick(m, 1, 2), .dy = pick(m, 1, 2), .dx = pick(m, 1, 2), .org_y = -chance(m, 2),
	    .org_x = -chance(m, 2));
	PUT(m, c_input, .row_pitch = pitch, .blk_pitch = pick(m, 200, 500), .rows = pick(m, 4, 16),
	    .cols = pick(m, 4, 16), .wrap = chance(m, 3) ? pick(m, 5, 12) : 0,
	    .phase = pick(m, 0, 4));
	PUT(m, c_mode, .mult = pick(m, 0, 3), .first = pick(m, 0, m->b->tn - 1));
}

/* Pixels of one, two or four to a word, with pitches that cause conflicts and such that do not. */
static void put_binary(struct maker *m)
{
	PUT(m, c_kernel, .kh = pick(m, 1, 5), .kw = pick(m, 1, 7), .sy = pick(m, 1, 2),
	    .sx = pick(m, 1, 3), .dy = pick(m, 1, 2), .dx = pick(m, 1, 2), .org_y = -chance(m, 2),
	    .org_x = -chance(m, 2));
	PUT(m, c_input, .row_pitch = pick(m, 4, 40), .blk_pitch = pick(m, 200, 500),
	    .rows = pick(m, 4, 16), .cols = pick(m, 4, 16), .wrap = chance(m, 3) ? pick(m, 5, 12) : 0,
	    .phase = pick(m, 0, 4));
	PUT(m, c_mode, .lanes = pick(m, 0, 2), .border = chance(m, 2));
}

/* Weights of any bits in slices that all fit the engines, with and without indices. */
static void put_planes(struct maker *m)
{
	static const int64_t pairs[][2] = { { 1, 1 }, { 1, 2 }, { 1, 4 }, { 1, 8 }, { 2, 1 }, { 2, 4 }, { 2, 8 },
					    { 3, 3 }, { 3, 6 }, { 4, 1 }, { 4, 4 }, { 4, 8 }, { 5, 5 }, { 6, 3 },
					    { 7, 7 }, { 8, 2 }, { 8, 4 }, { 8, 8 } };
	const int64_t *pair = pairs[pick(m, 0, sizeof(pairs) / sizeof(pairs[0]) - 1)];

	PUT(m, c_mode, .planes = pair[0], .group = pair[1],
	    .dn = chance(m, 2) ? m->b->tn : pick(m, 1, m->b->tn));
}

static void put_conv(struct maker *m)
{
	struct rivulet_decoded d = { .form = RIVULET_FORM_conv };

	d.conv = (struct rivulet_insn_conv){ .inp = pick(m, 0, 1000),
					     .acc = pick(m, 0, 600),
					     .rows = pick(m, 1, 6),
					     .cols = pick(m, 1, 16),
					     .icb = pick(m, 1, 3),
					     .ocb = pick(m, 1, 2) };
	PUT(m, c_kernel, .kh = pick(m, 1, 3), .kw = pick(m, 1, 3), .sy = pick(m, 1, 2),
	    .sx = pick(m, 1, 2), .dy = 1, .dx = 1, .org_y = -chance(m, 2), .org_x = -chance(m, 2));
	PUT(m, c_input, .row_pitch = pick(m, 16, 40), .blk_pitch = pick(m, 200, 500),
	    .rows = pick(m, 4, 16), .cols = pick(m, 4, 40));
	PUT(m, c_out, .row_pitch = pick(m, 16, 20), .blk_pitch = 128);
	if (m->b->modes >> RIVULET_MODE_SPARSE & 1 && chance(m, 2)) {
		d.conv.mode = RIVULET_MODE_SPARSE;
		PUT(m, c_mode, .dn = pick(m, 1, m->b->tn));
	} else if (m->b->modes >> RIVULET_MODE_TAPS & 1 && chance(m, 2)) {
		d.conv.mode = RIVULET_MODE_TAPS;
		put_taps(m);
	} else if (m->b->modes >> RIVULET_MODE_BINARY & 1) {
		d.conv.mode = RIVULET_MODE_BINARY;
		put_binary(m);
	} else if (m->b->modes >> RIVULET_MODE_BITPLANE & 1) {
		d.conv.mode = RIVULET_MODE_BITPLANE;
		put_planes(m);
	}
	put_work(m, d, RIVULET_Q_CONV);
}

/* int16 operands and results, and bits, with or without them. */
static void put_real(struct maker *m, struct rivulet_insn_alu *a)
{
	bool only = chance(m, 3);

	a->real = 1;
	a->rq = a->slope = a->lut = a->pool = 0;
	a->pack = chance(m, 2);
	a->bin = a->bin && !(only && a->pack);
	a->b = a->bin ? a->b : 0;
	PUT(m, a_type, .a = !a->src && chance(m, 2), .b = chance(m, 2), .d = chance(m, 2),
	    .prelu = !(only && a->pack) && chance(m, 2));
	PUT(m, a_pack, .d = pick(m, 0, 1000), .row = pick(m, 16, 40), .blk = pick(m, 200, 500),
	    .first = m->b->tm * pick(m, 0, 7), .lanes = pick(m, 0, 2), .only = only);
}

static void put_alu(struct maker *m)
{
	bool acc = !chance(m, 3);
	struct rivulet_decoded d = { .form = RIVULET_FORM_alu };

	d.alu = (struct rivulet_insn_alu){ .src = acc,
					   .a = pick(m, 0, 600),
					   .d = pick(m, 0, 1000),
					   .rows = pick(m, 1, 8),
					   .cols = pick(m, 1, 16),
					   .blks = pick(m, 1, 2),
					   .rq = acc,
					   .slope = chance(m, 4),
					   .lut = chance(m, 4),
					   .pool = chance(m, 3) ? pick(m, 1, 3) : 0,
					   .bin = chance(m, 3) ? pick(m, 1, 3) : 0 };
	d.alu.b = d.alu.bin ? pick(m, 0, 1000) : 0;
	if (m->b->modes >> RIVULET_MODE_BINARY & 1 && chance(m, 2))
		put_real(m, &d.alu);
	else if (m->b->modes >> RIVULET_MODE_BINARY & 1)
		PUT(m, a_type, .a = 0);
	PUT(m, a_src, .a_row = pick(m, 16, 20), .a_blk = 128, .b_row = pick(m, 16, 40),
	    .b_blk = pick(m, 200, 500));
	PUT(m, a_dst, .row = pick(m, 16, 40), .blk = pick(m, 200, 500));
	PUT(m, a_pool, .kh = pick(m, 1, 3), .kw = pick(m, 1, 3), .sy = 1, .sx = 1,
	    .org_y = -chance(m, 2), .rows = 8, .cols = 16);
	PUT(m, a_rect, .y_hi = 8, .x_hi = 16);
	put_work(m, d, RIVULET_Q_ALU);
}

static void put_store(struct maker *m)
{
	bool acc = chance(m, 3);
	int64_t lanes = acc ? m->b->tm : m->b->tn, elem = acc ? 4 : 1, channels, pixel, row;
	struct rivulet_decoded d = { .form = RIVULET_FORM_store };

	d.store = (struct rivulet_insn_store){ .mem = acc ? RIVULET_MEM_ACC : RIVULET_MEM_INP,
					       .kind = pick(m, 0, 2),
					       .slot = 2,
					       .addr = pick(m, 0, 600),
					       .offset = pick(m, 0, 9000),
					       .rows = pick(m, 1, 8),
					       .cols = pick(m, 1, 16),
					       .blks = pick(m, 1, 2) };
	channels = pick(m, 1, d.store.blks * lanes);
	pixel = elem * (chance(m, 2) ? channels : channels + pick(m, 0, 9));
	row = d.store.cols * (d.store.kind == RIVULET_XFER_BLOCK ? lanes * elem : pixel);
	row += chance(m, 2) ? pick(m, 0, 40) : 0;
	PUT(m, s_dst, .row_pitch = row, .blk_pitch = row * d.store.rows, .ch_pitch = pixel);
	PUT(m, s_src, .row_pitch = pick(m, 16, 20), .blk_pitch = 128);
	PUT(m, s_chan, .channels = channels);
	put_work(m, d, RIVULET_Q_STORE);
}

uint32_t cyc_random_stream(const struct rivulet_board *b, uint64_t seed, struct rivulet_insn *code)
{
	static void (*const puts[])(struct maker *) = { put_load_inp, put_load_inp, put_load_other,
							put_conv,     put_alu,	    put_store };
	struct maker m = { b, code, 0, seed * 0x9e3779b97f4a7c15, -1 };

	for (int64_t n = pick(&m, 4, 60); n; n--)
		puts[pick(&m, 0, 5)](&m);
	PUT(&m, sync, .kind = RIVULET_SYNC_END);
	return m.count;
}
