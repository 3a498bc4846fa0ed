/* SPDX-License-Identifier: MIT */
/*
 * Dense int8: every weight of a tm x tn block is multiplied. A weight minus its zero point may need
 * several int8 summands, each a pass of its own over the same operands.
 */
#include "npu/mode.h"
#include "rivulet_cost.h"

/* Any product, as the node has it. */
static bool form(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l)
{
	(void)g;
	(void)b;
	(void)l;
	return true;
}

/* Gathered patches are channels of a 1x1 kernel. */
void rvl_dense_nest(const struct rivulet_board *b, const struct rvl_layer *l, struct rvl_nest *n)
{
	int64_t taps = l->p.win.kh * l->p.win.kw;

	*n = (struct rvl_nest){ .kh = l->p.gather ? 1 : l->p.win.kh,
				.kw = l->p.gather ? 1 : l->p.win.kw,
				.channels = l->in.v.c * (l->p.gather ? taps : 1),
				.block_words = b->tm * b->tn / RIVULET_WGT_WORD };
}

uint64_t rvl_dense_array(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs)
{
	(void)l;
	return rivulet_dense_cycles(b, pairs);
}

static uint64_t cycles(const struct rivulet_board *b, uint64_t macs, uint32_t length)
{
	(void)length;
	return macs / rivulet_board_peak(b);
}

int8_t rvl_summand(int v, uint32_t term)
{
	for (uint32_t t = 0; t < term; t++)
		v -= rvl_clamp(v, -128, 127);
	return rvl_clamp(v, -128, 127);
}

/*
 * One row of a block: the weights of output @m for product channels [k, k + n); those that are not
 * there stay 0. Of gathered patches, k is (c * kh + ky) * kw + kx already.
 */
static void pack_row(const struct rvl_layer *l, const struct rvl_block *b, int64_t m, int64_t k,
		     int64_t n, int8_t *out)
{
	const struct rvl_product *p = &l->p;
	bool whole = p->group == 1; /* without divisions, which take longer than a short row */
	int64_t taps = p->win.kh * p->win.kw, cpg = whole ? l->in.v.c : l->in.v.c / p->group;
	int64_t c0 = whole ? 0 : m / (p->m / p->group) * cpg, c1 = c0 + cpg;
	int64_t stride = taps, tap = b->ky * p->win.kw + b->kx, step, first, past;
	const uint8_t *w;
	int flip, zp;

	if (p->gather) {
		c1 = cpg * taps;
		stride = 1;
		tap = 0;
	}
	step = stride * p->w.k_stride;
	first = rvl_max(k, c0);
	past = rvl_min(k + n, c1);
	w = rvl_weights_at(&p->w, m, (first - c0) * stride + tap, &flip, &zp);
	if (p->terms == 1) {
		for (int64_t i = first; i < past; i++, w += step)
			out[i - k] = (int8_t)(*w ^ flip) + flip - zp;
		return;
	}
	for (int64_t i = first; i < past; i++, w += step)
		out[i - k] = rvl_summand((int8_t)(*w ^ flip) + flip - zp, b->term);
}

void rvl_dense_pack(const struct rivulet_board *b, const struct rvl_layer *l,
		    const struct rvl_block *k, int8_t *out)
{
	int64_t m0 = k->oc * b->tm;

	for (int64_t m = m0; m < rvl_min(m0 + b->tm, l->p.m); m++)
		pack_row(l, k, m, k->ib * b->tn, b->tn, out + (m - m0) * b->tn);
}

static void emit(struct rvl_stream *s, const struct rvl_layer *l, const struct rvl_ocgroup *g,
		 const struct rvl_chunk *k, struct rivulet_insn_conv *conv)
{
	(void)s;
	(void)l;
	(void)g;
	(void)k;
	conv->mode = RIVULET_MODE_DENSE;
}

const struct rvl_mode rvl_mode_dense = {
	.name = "dense",
	.isa = RIVULET_MODE_DENSE,
	.missing = "this board's array has no dense mode",
	.form = form,
	.nest = rvl_dense_nest,
	.array = rvl_dense_array,
	.energy = rivulet_dense_fj,
	.cycles = cycles,
	.pack = rvl_dense_pack,
	.emit = emit,
};
