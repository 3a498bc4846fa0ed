// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/* Cycles, port beats and bytes of single instructions (docs/isa.md, "Time"). */
#include "rivulet_binary_conv.h"
#include "rivulet_cost.h"
#include "rivulet_footprint.h"
#include "rivulet_lanes.h"
#include "rivulet_planes.h"
#include "rivulet_sparse.h"
#include "runs.h"

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
	TAKE(a_lut, a_lut) TAKE(a_pack, a_pack) TAKE(a_type, a_type)
	TAKE(a_sum, a_sum) TAKE(a_ext, a_ext) TAKE(a_slope, a_slope)
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

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Cycles of a word at its scratchpad: LOAD, and STORE of BLOCK. */
static uint64_t word_cycles(const struct rivulet_board *b, enum rivulet_mem mem)
{
	return mem == RIVULET_MEM_ACC ? (4 * b->tm + RIVULET_ACC_ACCESS - 1) / RIVULET_ACC_ACCESS : 1;
}

struct shape {
	int64_t kind;
	uint64_t at; /* address of the first byte */
	uint64_t rows, cols, blks;
	uint64_t row_pitch, blk_pitch, ch_pitch;
	uint64_t channels, src_ch, count; /* count: bytes moved of each word, 0: all */
	uint64_t word, elem;
};

static void add_runs(const struct rivulet_board *b, const struct rivulet_runs *r,
		     struct rivulet_bursts *sum, uint64_t *bytes)
{
	rivulet_bursts_add(b, r, sum);
	*bytes += r->len * r->dim[0].n * r->dim[1].n * r->dim[2].n;
}

/* Runs that abut are one run. The last block or row has no gap behind it. */
static void block_runs(const struct rivulet_board *b, const struct shape *s,
		       struct rivulet_bursts *sum, uint64_t *bytes)
{
	struct rivulet_runs r = { .at = s->at,
				  .len = s->cols * s->word,
				  .dim = { { s->blks, s->blk_pitch }, { s->rows, s->row_pitch }, { 1, 0 } } };

	if (s->count && s->count < s->word) {
		r.at += s->src_ch;
		r.len = s->count;
		r.dim[2].n = s->cols;
		r.dim[2].pitch = s->word;
	} else if (s->rows == 1 || s->row_pitch == r.len) {
		r.len *= s->rows;
		r.dim[1].n = 1;
		if (s->blks == 1 || s->blk_pitch == r.len) {
			r.len *= s->blks;
			r.dim[0].n = 1;
		}
	}
	add_runs(b, &r, sum, bytes);
}

static void interleaved_runs(const struct rivulet_board *b, const struct shape *s,
			     struct rivulet_bursts *sum, uint64_t *bytes)
{
	uint64_t pixel = s->channels * s->elem;
	struct rivulet_runs r = { .at = s->at,
				  .len = pixel,
				  .dim = { { s->rows, s->row_pitch }, { s->cols, s->ch_pitch }, { 1, 0 } } };

	if (s->ch_pitch == pixel) {
		r.len = s->cols * pixel;
		r.dim[1].n = 1;
	}
	add_runs(b, &r, sum, bytes);
}

/* Each row of a channel, in strips of the row buffer. */
static void planar_runs(const struct rivulet_board *b, const struct shape *s,
			struct rivulet_bursts *sum, uint64_t *bytes)
{
	uint64_t strip = rivulet_strip(b, s->word), whole = s->cols / strip;
	struct rivulet_runs r = { .at = s->at,
				  .len = strip * s->elem,
				  .dim = { { s->channels, s->ch_pitch }, { s->rows, s->row_pitch },
					   { whole, strip * s->elem } } };

	if (whole)
		add_runs(b, &r, sum, bytes);
	r.at += whole * strip * s->elem;
	r.len = s->cols % strip * s->elem;
	r.dim[2].n = 1;
	if (r.len)
		add_runs(b, &r, sum, bytes);
}

uint64_t rivulet_strip(const struct rivulet_board *b, uint64_t word)
{
	uint64_t strip = b->row_bytes / (2 * word);

	return strip ? strip : 1;
}

static void shape_runs(const struct rivulet_board *b, const struct shape *s,
		       struct rivulet_bursts *sum, uint64_t *bytes)
{
	if (s->kind == RIVULET_XFER_BLOCK)
		block_runs(b, s, sum, bytes);
	else if (s->kind == RIVULET_XFER_PLANAR)
		planar_runs(b, s, sum, bytes);
	else
		interleaved_runs(b, s, sum, bytes);
}

int64_t rivulet_gather_strip(const struct rivulet_board *b, const struct rivulet_insn_l_gather *g)
{
	int64_t blocks = (g->ch * g->kh * g->kw + b->tn - 1) / b->tn;
	int64_t room = b->row_bytes / (2 * b->tn) / blocks, first = (g->kw - 1) * g->dx + 1;

	return room < first ? 0 : (room - first) / g->sx + 1;
}

/*
 * The runs of kernel row @ky: for each result row whose source row is inside the bounds, all
 * channels.
 */
static void gather_tap(const struct rivulet_board *b, const struct rivulet_config *c,
		       const struct rivulet_insn_load *l, int64_t ky, const struct rivulet_span *x,
		       struct rivulet_cost *cost, struct rivulet_bursts *sum)
{
	const struct rivulet_insn_l_gather *g = &c->l_gather;
	const struct rivulet_insn_l_bounds *o = &c->l_bounds;
	int64_t org = o->org_y + ky * g->dy;
	int64_t lo = org < 0 ? (-org + g->sy - 1) / g->sy : 0;
	int64_t hi = o->rows > org ? (o->rows - org + g->sy - 1) / g->sy : 0;
	struct rivulet_runs r = { .len = x->hi - x->lo };

	if (hi > l->rows)
		hi = l->rows;
	if (lo >= hi)
		return;
	r.at = c->base[l->slot] + l->offset + (org + lo * g->sy) * c->l_src.row_pitch + x->lo;
	r.dim[0].n = g->ch;
	r.dim[0].pitch = c->l_src.ch_pitch;
	if (g->pixel) { /* all channels are one run */
		r.at += x->lo * (g->pixel - 1);
		r.len = (x->hi - x->lo - 1) * g->pixel + g->ch;
		r.dim[0].n = 1;
	}
	r.dim[1].n = hi - lo;
	r.dim[1].pitch = g->sy * c->l_src.row_pitch;
	r.dim[2].n = 1;
	add_runs(b, &r, sum, &cost->read_bytes);
}

static void gather_runs(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_load *l, struct rivulet_cost *cost,
			struct rivulet_bursts *sum)
{
	const struct rivulet_insn_l_gather *g = &c->l_gather;
	const struct rivulet_insn_l_bounds *o = &c->l_bounds;
	int64_t strip = rivulet_gather_strip(b, g);

	for (int64_t at = 0; at < l->cols; at += strip) {
		int64_t n = l->cols - at < strip ? l->cols - at : strip;
		struct rivulet_span x =
			rivulet_taps(o->org_x + at * g->sx, n, g->sx, g->kw, g->dx, o->cols);

		for (int64_t ky = 0; ky < g->kh && x.lo < x.hi; ky++)
			gather_tap(b, c, l, ky, &x, cost, sum);
	}
	cost->strips = l->rows * ((l->cols + strip - 1) / strip);
}

static void hold_port(const struct rivulet_board *b, const struct rivulet_bursts *sum,
		      struct rivulet_cost *cost)
{
	cost->bursts = sum->bursts;
	cost->beats = sum->beats;
	cost->port = sum->beats + sum->bursts * b->burst_gap;
}

/* Words that LOAD writes: of data, and of padding. */
static void load_words(const struct rivulet_board *b, const struct rivulet_config *c,
		       const struct rivulet_insn_load *l, struct rivulet_cost *cost)
{
	uint64_t rows = l->rows, cols = l->cols, all;

	if (l->mem == RIVULET_MEM_INP) {
		rows *= c->l_chan.rep_y + 1;
		cols *= c->l_chan.rep_x + 1;
		all = (rows + c->l_pad.top + c->l_pad.bottom) *
		      (cols + c->l_pad.left + c->l_pad.right);
		cost->pad = (all - rows * cols) * l->blks;
	}
	cost->words = rows * cols * l->blks;
	cost->spad = cost->words * word_cycles(b, l->mem);
}

static void load_cost(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_load *l, struct rivulet_cost *cost)
{
	bool inp = l->mem == RIVULET_MEM_INP;
	struct shape s = {
		.kind = l->kind,
		.at = c->base[l->slot] + (uint64_t)l->offset,
		.rows = l->rows,
		.cols = l->cols,
		.blks = l->blks,
		.row_pitch = c->l_src.row_pitch,
		.blk_pitch = c->l_src.blk_pitch,
		.ch_pitch = c->l_src.ch_pitch,
		.channels = c->l_chan.channels,
		.src_ch = c->l_chan.src_ch,
		.count = inp ? c->l_chan.count : 0,
		.word = rivulet_mem_word(b, l->mem),
		.elem = 1,
	};
	struct rivulet_bursts sum = { 0 };

	load_words(b, c, l, cost);
	if (l->kind == RIVULET_XFER_PLANAR)
		cost->strips = s.blks * s.rows * ((s.cols - 1) / rivulet_strip(b, s.word) + 1);
	/* the instruction will fault with SPAD, so an estimate suffices */
	if (cost->words > rivulet_mem_words(b, l->mem))
		sum.bursts = sum.beats = cost->words;
	else if (l->kind == RIVULET_XFER_GATHER)
		gather_runs(b, c, l, cost, &sum);
	else
		shape_runs(b, &s, &sum, &cost->read_bytes);
	hold_port(b, &sum, cost);
}

static void store_cost(const struct rivulet_board *b, const struct rivulet_config *c,
		       const struct rivulet_insn_store *t, struct rivulet_cost *cost)
{
	bool acc = t->mem == RIVULET_MEM_ACC, block = t->kind == RIVULET_XFER_BLOCK;
	uint64_t lanes = acc ? b->tm : b->tn;
	struct shape s = {
		.kind = t->kind,
		.at = c->base[t->slot] + (uint64_t)t->offset,
		.rows = t->rows,
		.cols = t->cols,
		.blks = block ? (uint64_t)t->blks : (c->s_chan.channels + lanes - 1) / lanes,
		.row_pitch = c->s_dst.row_pitch,
		.blk_pitch = c->s_dst.blk_pitch,
		.ch_pitch = c->s_dst.ch_pitch,
		.channels = c->s_chan.channels,
		.src_ch = c->s_chan.dst_ch,
		.count = acc ? 0 : c->s_chan.count,
		.word = rivulet_mem_word(b, t->mem),
		.elem = acc ? 4 : 1,
	};
	struct rivulet_bursts sum = { 0 };

	if (t->kind == RIVULET_XFER_PLANAR)
		cost->strips = s.blks * s.rows * ((s.cols - 1) / rivulet_strip(b, s.word) + 1);
	cost->words = s.rows * s.cols * s.blks;
	cost->spad = cost->words * (acc && !block ? s.word / b->tn : word_cycles(b, t->mem));
	shape_runs(b, &s, &sum, &cost->write_bytes);
	hold_port(b, &sum, cost);
}

void rivulet_conv_channels(const struct rivulet_board *b, const struct rivulet_insn_c_mode *m,
			   const struct rivulet_insn_conv *v, uint64_t *in, uint64_t *out)
{
	*in = m->valid ? (uint64_t)m->valid : (uint64_t)v->icb * b->tn;
	*out = m->out ? (uint64_t)m->out : (uint64_t)v->ocb * b->tm;
}

uint64_t rivulet_dense_cycles(const struct rivulet_board *b, uint64_t blocks)
{
	return mul(blocks, b->tn / b->dn);
}

uint64_t rivulet_sparse_cycles(const struct rivulet_board *b, uint32_t kept, uint64_t blocks)
{
	return mul(blocks, rivulet_sparse_of(b, kept).passes);
}

uint64_t rivulet_stream_cycles(const struct rivulet_board *b, uint32_t circuit, uint32_t length,
			       uint64_t macs)
{
	uint64_t bits = (length + b->sc_blocks - 1) / b->sc_blocks;
	uint64_t time = mul(mul(macs, bits), rivulet_board_mcycles(b, circuit));
	uint64_t per = (uint64_t)1000 * b->sc_lanes;

	return time == UINT64_MAX ? UINT64_MAX : time / per + !!(time % per);
}

/*
 * A lane makes one product after the other, and the blocks of a product in parallel. Padding
 * channels are not multiplied.
 */
static void stream_cost(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_conv *v, struct rivulet_cost *cost)
{
	const struct rivulet_insn_c_mode *m = &c->c_mode;
	uint64_t in, out;

	rivulet_conv_channels(b, m, v, &in, &out);
	cost->macs = mul(v->rows * v->cols * c->c_kernel.kh * c->c_kernel.kw, in * out);
	cost->stream_macs = cost->macs;
	cost->stream_fj = mul(mul(cost->macs, m->length), rivulet_board_bit_fj(b, m->circuit));
	cost->engine = rivulet_stream_cycles(b, m->circuit, m->length, cost->macs);
}

static void dense_cost(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_conv *v, struct rivulet_cost *cost)
{
	uint64_t blocks = mul(v->rows * v->cols * c->c_kernel.kh * c->c_kernel.kw, v->icb * v->ocb);

	cost->words = v->rows * v->cols;
	cost->weights = 1;
	cost->macs = mul(blocks, b->tm * b->tn);
	cost->engine = rivulet_dense_cycles(b, blocks);
}

/* An inner loop is at least as long as the reads of values and indices for the next one. */
static void sparse_cost(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_conv *v, struct rivulet_cost *cost)
{
	uint64_t taps = c->c_kernel.kh * c->c_kernel.kw, pixels = v->rows * v->cols;
	uint64_t loops = rivulet_sparse_cycles(b, c->c_mode.dn, mul(taps, v->icb * v->ocb));

	cost->words = most(pixels, RIVULET_SPARSE_READS);
	cost->weights = RIVULET_SPARSE_READS;
	cost->macs = mul(mul(loops, pixels), b->tm * b->dn);
	cost->sparse_macs = cost->macs;
	cost->engine = mul(loops, cost->words);
}

static void taps_cost(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_conv *v, struct rivulet_cost *cost)
{
	struct rivulet_lanes l;
	struct rivulet_lanes_time column;
	uint64_t blocks = v->icb * v->ocb;

	rivulet_lanes_of(b, &c->c_kernel, &l);
	column = rivulet_lanes_time(b, &l, &c->c_kernel, &c->c_input, v->rows);
	cost->words = v->rows * v->cols;
	cost->weights = 1;
	cost->macs = mul(mul(cost->words * l.passes, blocks), b->tm * b->dn);
	cost->sparse_macs = cost->macs;
	cost->engine = mul(mul(column.cycles, v->cols), blocks);
	cost->inp_full = column.full * RIVULET_SHARE / column.cycles;
}

static void binary_cost(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_conv *v, struct rivulet_cost *cost)
{
	struct rivulet_binary n = rivulet_binary_of(b, c->c_mode.lanes, &c->c_kernel);
	struct rivulet_binary_time block =
		rivulet_binary_time(b, &n, &c->c_kernel, &c->c_input, v->rows, v->cols);
	uint64_t blocks = v->icb * v->ocb;

	cost->words = block.cycles / n.passes;
	cost->weights = n.reads;
	cost->macs = mul(mul(mul(v->rows * v->cols, n.passes), blocks), 8 * b->tm * b->tn);
	cost->binary_macs = cost->macs;
	cost->engine = mul(block.cycles, blocks);
	cost->inp_full = block.full * RIVULET_SHARE / block.cycles;
}

/* The buckets of a pixel are kept until all its inputs are added, so that weights are read again. */
static void planes_cost(const struct rivulet_board *b, const struct rivulet_config *c,
			const struct rivulet_insn_conv *v, struct rivulet_cost *cost)
{
	struct rivulet_planes p = rivulet_planes_of(b, &c->c_mode);
	uint64_t blocks = mul(v->icb, c->c_kernel.kh * c->c_kernel.kw), results = v->rows * v->cols * v->ocb;
	struct rivulet_planes_time t = rivulet_planes_time(b, &p, blocks, v->rows, v->cols);

	cost->words = t.cycles;
	cost->weights = t.weights;
	cost->acc_free = RIVULET_SHARE - t.acc * RIVULET_SHARE / t.cycles;
	cost->macs = mul(mul(results, blocks), b->tm * b->tn);
	cost->plane_macs = cost->macs;
	cost->plane_adds = mul(results, rivulet_planes_adds(b, &p, blocks));
	cost->engine = mul(t.cycles, v->ocb);
}

static void conv_cost(const struct rivulet_board *b, const struct rivulet_config *c,
		      const struct rivulet_insn_conv *v, struct rivulet_cost *cost)
{
	if (v->mode == RIVULET_MODE_STOCHASTIC)
		stream_cost(b, c, v, cost);
	else if (v->mode == RIVULET_MODE_SPARSE)
		sparse_cost(b, c, v, cost);
	else if (v->mode == RIVULET_MODE_TAPS)
		taps_cost(b, c, v, cost);
	else if (v->mode == RIVULET_MODE_BINARY)
		binary_cost(b, c, v, cost);
	else if (v->mode == RIVULET_MODE_BITPLANE)
		planes_cost(b, c, v, cost);
	else
		dense_cost(b, c, v, cost);
	if (cost->engine < UINT64_MAX - RIVULET_CONV_FILL)
		cost->engine += RIVULET_CONV_FILL;
}

uint64_t rivulet_port_cycles(const struct rivulet_board *b, uint64_t n, uint64_t len, bool aligned)
{
	uint64_t port = b->port_bytes, full = b->burst_bytes / port, beats, bursts;

	if (!len)
		return 0;
	beats = aligned ? (len + port - 1) / port : (len - 1 + port / 2) / port + 1;
	bursts = (beats + full - 1) / full;
	return mul(n, most(beats + bursts * b->burst_gap, bursts * b->mem_latency / b->bursts));
}

uint64_t rivulet_alu_result(const struct rivulet_board *b, uint64_t channels,
			    const struct rivulet_alu_stages *s)
{
	uint64_t turn = (channels + b->alu_lanes - 1) / b->alu_lanes, ratio = channels / b->tn;
	uint64_t turns = s->positions * (1 + s->slopes) + s->average + s->second;

	return most(most(turn * turns, s->positions + s->second * ratio), ratio);
}

uint64_t rivulet_alu_setup(uint64_t channels, bool slopes)
{
	return most(RIVULET_ALU_COPY, (slopes ? 2 : 1) * channels / 2);
}

struct rivulet_alu_words rivulet_alu_words(const struct rivulet_board *b,
					   const struct rivulet_config *c,
					   const struct rivulet_insn_alu *a)
{
	const struct rivulet_insn_a_type *t = &c->a_type;
	bool only = a->pack && c->a_pack.only, prelu = a->real && t->prelu;
	struct rivulet_alu_words w = { .channels = a->src ? b->tm : b->tn, .bits = a->pack };
	uint64_t parts = w.channels / b->tn, values = w.channels * 4 / RIVULET_WGT_WORD;

	if (a->rq || (a->real && !only))
		w.params = 2 * values;
	w.ext = (a->real && a->bin ? values : 0) + (prelu || a->slope ? 2 * values : 0) +
		(a->pack ? values : 0);
	w.a = t->a && !a->src ? 2 : 1;
	w.b = a->bin ? parts * (a->real && t->b ? 2 : 1) : 0;
	w.d = only ? 0 : a->dst ? 1 : parts * (a->real && t->d ? 2 : 1);
	w.turns = (a->pool ? (uint64_t)(c->a_pool.kh * c->a_pool.kw) : 1) * (1 + a->slope) +
		  (a->pool > RIVULET_POOL_MAX) + !!a->bin + prelu;
	return w;
}

static void alu_cost(const struct rivulet_board *b, const struct rivulet_config *c,
		     const struct rivulet_insn_alu *a, struct rivulet_cost *cost)
{
	struct rivulet_alu_words w = rivulet_alu_words(b, c, a);
	uint64_t positions = a->pool ? c->a_pool.kh * c->a_pool.kw : 1;
	uint64_t lanes = (w.channels + b->alu_lanes - 1) / b->alu_lanes;
	uint64_t reads = positions * w.a + w.b, writes = w.d + w.bits;

	cost->table = a->lut ? RIVULET_ALU_COPY : 0;
	cost->setup = w.params + w.ext ? most(RIVULET_ALU_COPY, w.params + w.ext) : 0;
	cost->reads = positions * w.a;
	cost->inp_reads = (a->src ? 0 : cost->reads) + w.b;
	cost->writes = a->dst ? 0 : writes;
	cost->result = most(most(lanes * w.turns, reads), writes);
	cost->words = a->rows * a->cols;
	cost->blocks = a->blks;
	cost->engine = cost->table + a->blks * (cost->setup + cost->words * cost->result) +
		       RIVULET_ALU_FILL;
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
		break;
	case RIVULET_FORM_alu:
		alu_cost(b, c, &d->alu, cost);
		break;
	default:
		cost->engine = 1;
		break;
	}
}
