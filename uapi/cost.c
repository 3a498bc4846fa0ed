// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/* Cycles, port beats and bytes of single instructions (docs/isa.md, "Time"). */
#include "rivulet_cost.h"
#include "rivulet_footprint.h"

#include <string.h>

void rivulet_config_set(struct rivulet_config *c, const struct rivulet_decoded *d)
{
#define TAKE(form_, member_)                                                                       \
	case RIVULET_FORM_##form_:                                                                 \
		c->member_ = d->form_;                                                             \
		break;
	switch (d->form) {
	/* clang-format off */
	TAKE(l_src, l_src) TAKE(l_dst, l_dst) TAKE(l_chan, l_chan) TAKE(l_pad, l_pad)
	TAKE(l_gather, l_gather) TAKE(l_bounds, l_bounds)
	TAKE(c_kernel, c_kernel) TAKE(c_input, c_input) TAKE(c_pad, c_pad) TAKE(c_out, c_out)
	TAKE(c_mode, c_mode)
	TAKE(a_src, a_src) TAKE(a_dst, a_dst) TAKE(a_rq, a_rq) TAKE(a_scale, a_scale)
	TAKE(a_out, a_out) TAKE(a_pool, a_pool) TAKE(a_div, a_div) TAKE(a_rect, a_rect)
	TAKE(a_lut, a_lut) TAKE(a_pack, a_pack)
	TAKE(s_dst, s_dst) TAKE(s_src, s_src) TAKE(s_chan, s_chan)
	TAKE(q_tag, q_tag[d->h.queue]) TAKE(q_prof, q_prof[d->h.queue])
	/* clang-format on */
	default:
		break;
	}
#undef TAKE
}

static uint64_t mul(uint64_t a, uint64_t b)
{
	uint64_t r;

	return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* n runs of len bytes each. */
static void runs(const struct rivulet_board *b, uint64_t n, uint64_t len, struct rivulet_cost *cost,
		 uint64_t *bytes)
{
	cost->beats = mul(n, (len + b->port_bytes - 1) / b->port_bytes);
	*bytes = mul(n, len);
}

struct shape {
	uint64_t rows, cols, blks;
	uint64_t row_pitch, blk_pitch, ch_pitch;
	uint64_t channels, count; /* count: bytes moved of each word, 0: all */
	uint64_t word, elem;
};

/* Runs that abut are one; the last block or row has nothing after it that could interrupt. */
static void block_cost(const struct rivulet_board *b, const struct shape *s,
		       struct rivulet_cost *cost, uint64_t *bytes)
{
	uint64_t n = s->rows * s->blks, len = s->cols * s->word;

	if (s->count && s->count < s->word) {
		runs(b, n * s->cols, s->count, cost, bytes);
		return;
	}
	if (s->rows == 1 || s->row_pitch == len) {
		n /= s->rows;
		len *= s->rows;
		if (s->blks == 1 || s->blk_pitch == len) {
			n = 1;
			len *= s->blks;
		}
	}
	runs(b, n, len, cost, bytes);
}

static void interleaved_cost(const struct rivulet_board *b, const struct shape *s,
			     struct rivulet_cost *cost, uint64_t *bytes)
{
	uint64_t pixel = s->channels * s->elem;

	if (s->ch_pitch == pixel)
		runs(b, s->rows, s->cols * pixel, cost, bytes);
	else
		runs(b, s->rows * s->cols, pixel, cost, bytes);
}

static void xfer_cost(const struct rivulet_board *b, int64_t kind, const struct shape *s,
		      struct rivulet_cost *cost, uint64_t *bytes)
{
	if (kind == RIVULET_XFER_BLOCK)
		block_cost(b, s, cost, bytes);
	else if (kind == RIVULET_XFER_PLANAR)
		runs(b, s->channels * s->rows, s->cols * s->elem, cost, bytes);
	else
		interleaved_cost(b, s, cost, bytes);
}

/* Distinct positions org + i * stride + k * dilation inside [0, bound). */
static uint64_t distinct(int64_t org, int64_t n, int64_t stride, int64_t taps, int64_t dilation,
			 int64_t bound)
{
	uint64_t seen[65536 / 64] = { 0 };
	uint64_t count = 0;

	for (int64_t i = 0; i < n; i++) {
		for (int64_t k = 0; k < taps; k++) {
			int64_t p = org + i * stride + k * dilation;

			if (p < 0 || p >= bound || seen[p / 64] >> p % 64 & 1)
				continue;
			seen[p / 64] |= UINT64_C(1) << p % 64;
			count++;
		}
	}
	return count;
}

/* Source rows are fetched once each, from the first to the last column that any tap needs. */
static void gather_cost(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_load *l, struct rivulet_cost *cost)
{
	const struct rivulet_insn_l_gather *g = &c->l_gather;
	const struct rivulet_insn_l_bounds *o = &c->l_bounds;
	struct rivulet_span x = rivulet_taps(o->org_x, l->cols, g->sx, g->kw, g->dx, o->cols);
	uint64_t rows = distinct(o->org_y, l->rows, g->sy, g->kh, g->dy, o->rows);

	if (x.lo < x.hi)
		runs(b, rows * g->ch, x.hi - x.lo, cost, &cost->read_bytes);
}

static void load_cost(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_load *l, struct rivulet_cost *cost)
{
	struct shape s = {
		.rows = l->rows,
		.cols = l->cols,
		.blks = l->blks,
		.row_pitch = c->l_src.row_pitch,
		.blk_pitch = c->l_src.blk_pitch,
		.ch_pitch = c->l_src.ch_pitch,
		.channels = c->l_chan.channels,
		.count = l->mem == RIVULET_MEM_INP ? c->l_chan.count : 0,
		.word = rivulet_mem_word(b, l->mem),
		.elem = 1,
	};

	if (l->kind == RIVULET_XFER_GATHER)
		gather_cost(b, c, l, cost);
	else
		xfer_cost(b, l->kind, &s, cost, &cost->read_bytes);
}

static void store_cost(const struct rivulet_board *b, const struct rivulet_config *c,
		       const struct rivulet_insn_store *t, struct rivulet_cost *cost)
{
	bool acc = t->mem == RIVULET_MEM_ACC;
	struct shape s = {
		.rows = t->rows,
		.cols = t->cols,
		.blks = t->blks,
		.row_pitch = c->s_dst.row_pitch,
		.blk_pitch = c->s_dst.blk_pitch,
		.ch_pitch = c->s_dst.ch_pitch,
		.channels = c->s_chan.channels,
		.count = acc ? 0 : c->s_chan.count,
		.word = rivulet_mem_word(b, t->mem),
		.elem = acc ? 4 : 1,
	};

	xfer_cost(b, t->kind, &s, cost, &cost->write_bytes);
}

void rivulet_conv_channels(const struct rivulet_board *b, const struct rivulet_insn_c_mode *m,
			   const struct rivulet_insn_conv *v, uint64_t *in, uint64_t *out)
{
	*in = m->valid ? (uint64_t)m->valid : (uint64_t)v->icb * b->tn;
	*out = m->out ? (uint64_t)m->out : (uint64_t)v->ocb * b->tm;
}

/* Lanes make one product after the other, its blocks side by side: no padding is multiplied. */
static void stream_cost(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_conv *v, struct rivulet_cost *cost)
{
	const struct rivulet_insn_c_mode *m = &c->c_mode;
	uint64_t bits = (m->length + b->sc_blocks - 1) / b->sc_blocks, in, out, time;
	uint64_t per = (uint64_t)1000 * b->sc_lanes;

	rivulet_conv_channels(b, m, v, &in, &out);
	cost->macs = mul(v->rows * v->cols * c->c_kernel.kh * c->c_kernel.kw, in * out);
	cost->stream_macs = cost->macs;
	cost->stream_fj = mul(mul(cost->macs, m->length), rivulet_board_bit_fj(b, m->circuit));
	time = mul(mul(cost->macs, bits), rivulet_board_mcycles(b, m->circuit));
	cost->engine = time / per + !!(time % per);
	if (time == UINT64_MAX)
		cost->engine = UINT64_MAX;
}

static void dense_cost(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_conv *v, struct rivulet_cost *cost)
{
	uint64_t blocks = mul(v->rows * v->cols * c->c_kernel.kh * c->c_kernel.kw, v->icb * v->ocb);

	cost->macs = mul(blocks, b->tm * b->tn);
	cost->engine = mul(blocks, b->tn / b->dn);
}

static void conv_cost(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_conv *v, struct rivulet_cost *cost)
{
	if (v->mode == RIVULET_MODE_STOCHASTIC)
		stream_cost(b, c, v, cost);
	else
		dense_cost(b, c, v, cost);
	if (cost->engine < UINT64_MAX - RIVULET_CONV_FILL)
		cost->engine += RIVULET_CONV_FILL;
}

static uint64_t alu_cost(const struct rivulet_config *c, const struct rivulet_insn_alu *a)
{
	uint64_t words = a->rows * a->cols * a->blks;

	if (a->pool)
		words *= c->a_pool.kh * c->a_pool.kw;
	return words + RIVULET_ALU_FILL;
}

void rivulet_cost_of(const struct rivulet_board *b, const struct rivulet_config *c,
		     const struct rivulet_decoded *d, struct rivulet_cost *cost)
{
	memset(cost, 0, sizeof(*cost));
	switch (d->form) {
	case RIVULET_FORM_load:
		load_cost(b, c, &d->load, cost);
		break;
	case RIVULET_FORM_store:
		store_cost(b, c, &d->store, cost);
		break;
	case RIVULET_FORM_conv:
		conv_cost(b, c, &d->conv, cost);
		return;
	case RIVULET_FORM_alu:
		cost->engine = alu_cost(c, &d->alu);
		return;
	default:
		cost->engine = 1;
		return;
	}
	if (!cost->beats)
		cost->beats = 1;
}
