/* SPDX-License-Identifier: MIT */
/*
 * Constants of the layers as the device reads them: weight blocks of tm x tn bytes in the order the
 * stream loads them, {bias, factor} of each output channel, tables.
 */
#include "npu/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Summand @term of a weight in [-255, 255]. */
static int8_t summand(int v, uint32_t term)
{
	for (uint32_t t = 0; t < term; t++)
		v -= rvl_clamp(v, -128, 127);
	return rvl_clamp(v, -128, 127);
}

struct block {
	int64_t oc, ib; /* output block (tm), input block (tn) of the whole layer */
	int64_t ky, kx;
	uint32_t term;
};

/*
 * One row of a block: the weights of output @m for product channels [k, k + n); those that are not
 * there stay 0. Of gathered patches, k is (c * kh + ky) * kw + kx already.
 */
static void pack_row(const struct rvl_layer *l, const struct block *b, int64_t m, int64_t k,
		     int64_t n, int8_t *out)
{
	int64_t taps = l->win.kh * l->win.kw, cpg = l->in.v.c / l->group;
	int64_t c0 = m / (l->m / l->group) * cpg, c1 = c0 + cpg, stride = taps;
	const int16_t *w = l->w + (m * cpg - c0) * taps + b->ky * l->win.kw + b->kx;

	if (l->gather) {
		w = l->w + m * cpg * taps;
		c1 = cpg * taps;
		stride = 1;
	}
	for (int64_t i = rvl_max(k, c0); i < rvl_min(k + n, c1); i++)
		out[i - k] = summand(w[i * stride], b->term);
}

/* The memory at @out is zero. */
static void pack_block(const struct rivulet_board *b, const struct rvl_layer *l,
		       const struct block *k, int8_t *out)
{
	int64_t m0 = k->oc * b->tm;

	for (int64_t m = m0; m < rvl_min(m0 + b->tm, l->m); m++)
		pack_row(l, k, m, k->ib * b->tn, b->tn, out + (m - m0) * b->tn);
}

static void pack_chunk(const struct rivulet_board *b, const struct rvl_layer *l,
		       const struct rvl_ocgroup *g, const struct rvl_chunk *c, int8_t *out)
{
	for (int64_t o = 0; o < g->on; o++) {
		for (int64_t i = 0; i < c->in; i++) {
			for (int64_t tap = 0; tap < c->kh * c->kw; tap++) {
				struct block k = { .oc = g->o0 + o,
						   .ib = g->ib0 + o * g->step + c->i0 + i,
						   .ky = c->ky + tap / c->kw,
						   .kx = c->kx + tap % c->kw,
						   .term = c->term };

				pack_block(b, l, &k, out);
				out += b->tm * b->tn;
			}
		}
	}
}

static int pack_group(struct rvl_backend *be, const struct rvl_layer *l,
		      const struct rvl_ocgroup *g)
{
	int64_t n = rvl_chunks(l, &l->t, g, NULL);
	struct rvl_chunk *c = calloc(n, sizeof(*c));
	int rc = c ? 0 : -ENOMEM;

	if (!rc)
		rvl_chunks(l, &l->t, g, c);
	for (int64_t i = 0; i < n && !rc; i++) {
		size_t bytes = rvl_chunk_words(be->board, &c[i], g->on) * RIVULET_WGT_WORD;
		uint64_t at;

		rc = rvl_bytes_add(&be->consts, NULL, bytes, RIVULET_WGT_WORD, &at);
		if (!rc)
			pack_chunk(be->board, l, g, &c[i], (int8_t *)be->consts.data + at);
	}
	free(c);
	return rc;
}

static int pack_weights(struct rvl_backend *be, struct rvl_layer *l)
{
	int64_t n = rvl_ocgroups(be->board, l, l->t.og, NULL);
	struct rvl_ocgroup *g = calloc(n, sizeof(*g));
	int rc = g ? 0 : -ENOMEM;
	size_t before;

	if (!rc)
		rc = rvl_bytes_add(&be->consts, NULL, 0, RIVULET_PROGRAM_ALIGN, &l->wgt_off);
	before = be->consts.size;
	if (!rc)
		rvl_ocgroups(be->board, l, l->t.og, g);
	for (int64_t i = 0; i < n && !rc; i++)
		rc = pack_group(be, l, &g[i]);
	be->weight_bytes += be->consts.size - before;
	free(g);
	return rc;
}

/*
 * {bias, factor} of each channel. The bias of int8 products has the input's zero point folded in; streams
 * have none, because X is the byte of the uint8 tensor.
 */
static int pack_params(struct rvl_backend *be, const struct rvl_layer *l, const int32_t *bias,
		       uint64_t *off)
{
	int64_t tm = be->board->tm, lanes = rvl_div_up(l->m, tm) * tm;
	uint8_t *p;
	int rc = rvl_bytes_add(&be->consts, NULL, lanes * 8, RIVULET_PROGRAM_ALIGN, off);

	if (rc)
		return rc;
	p = be->consts.data + *off;
	for (int64_t m = 0; m < l->m; m++) {
		memcpy(p + m * 8, &bias[m], 4);
		memcpy(p + m * 8 + 4, &l->mult[m], 4);
	}
	*off += be->const_off;
	return 0;
}

/* One set serves all lengths: the ALU turns it into that of streams. */
static int pack_all_params(struct rvl_backend *be, struct rvl_layer *l)
{
	bool streams = l->stochastic && be->g->sc_longest;
	int rc = 0;

	if (streams)
		rc = pack_params(be, l, l->raw_bias, &l->prm_off[1]);
	if (!rc && (!streams || rvl_variants_have_int8(be)))
		rc = pack_params(be, l, l->bias, &l->prm_off[0]);
	return rc;
}

int rvl_pack_layer(struct rvl_backend *be, struct rvl_layer *l)
{
	int rc = 0;

	if (l->kind == RVL_LAYER_CONV) {
		rc = pack_all_params(be, l);
		if (!rc)
			rc = pack_weights(be, l);
		l->wgt_off += be->const_off;
	} else if (l->kind == RVL_LAYER_LUT) {
		rc = rvl_bytes_add(&be->consts, l->lut, sizeof(l->lut), RIVULET_PROGRAM_ALIGN,
				   &l->lut_off);
		l->lut_off += be->const_off;
	}
	return rc;
}
