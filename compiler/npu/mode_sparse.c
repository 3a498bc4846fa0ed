/* SPDX-License-Identifier: MIT */
/*
 * Block-sparse int8: of each row of a tm x tn block only the weights that are not zero, as (value,
 * index) pairs. Any weights qualify whose fullest row leaves fewer passes than a dense block has;
 * depthwise layers always do, because each row of their diagonal blocks has one weight.
 */
#include "npu/mode.h"
#include "rivulet_cost.h"
#include "rivulet_sparse.h"

#include <stdio.h>

/* Pairs that the fullest row keeps: without patches gathered, and with. */
struct kept {
	uint32_t n[2];
};

static uint32_t kept_of(const struct rvl_layer *l)
{
	const struct kept *k = l->p.own;

	return k->n[l->p.gather];
}

/* Passes of a block with @kept pairs are fewer than those of a dense block. */
static bool pays(const struct rivulet_board *b, uint32_t kept)
{
	return rivulet_sparse_of(b, kept).passes < b->tn / b->dn;
}

/* Weights that are not zero of products [@k, @end), @step apart, of output @m. */
static uint32_t count_run(const struct rvl_weights *w, int64_t m, int64_t k, int64_t end,
			  int64_t step)
{
	uint32_t n = 0;

	for (; k < end; k += step)
		n += !!rvl_weight(w, m, k);
	return n;
}

/*
 * The most weights of output @m that fall in one block, not zero. Channels begin at @c0 of the
 * reduction, which may be inside a block. Gathered patches have one tap, and products as channels.
 */
static uint32_t row_most(const struct rvl_product *p, int64_t tn, int64_t m, int64_t c0,
			 int64_t channels, int64_t taps)
{
	uint32_t most = 0;

	for (int64_t c = c0; c < c0 + channels; c += tn - c % tn) {
		int64_t end = rvl_min(c - c % tn + tn, c0 + channels);

		for (int64_t tap = 0; tap < taps; tap++)
			most = rvl_max(most, count_run(&p->w, m, (c - c0) * taps + tap,
						       (end - c0) * taps, taps));
	}
	return most;
}

/* Pairs of the fullest row, or tn as soon as one has so many that the dense mode is as fast. */
static uint32_t fullest_row(const struct rivulet_board *b, const struct rvl_layer *l, bool gather)
{
	const struct rvl_product *p = &l->p;
	int64_t taps = p->win.kh * p->win.kw, cpg = l->in.v.c / p->group;
	uint32_t most = 1;

	for (int64_t m = 0; m < p->m; m++) {
		int64_t first = m / (p->m / p->group) * cpg;

		most = rvl_max(most, gather ? row_most(p, b->tn, m, 0, cpg * taps, 1) :
					      row_most(p, b->tn, m, first, cpg, taps));
		if (!pays(b, most))
			return b->tn;
	}
	return most;
}

static bool form(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l)
{
	struct kept k = { { fullest_row(b, l, false), b->tn } }, *own;

	if (l->p.group == 1) /* patches of a grouped layer are never gathered */
		k.n[1] = fullest_row(b, l, true);
	if (!pays(b, k.n[0]) && !pays(b, k.n[1]))
		return false;
	own = rvl_arena_alloc(g->arena, sizeof(*own));
	if (!own)
		return false;
	*own = k;
	l->p.own = own;
	return true;
}

static void nest(const struct rivulet_board *b, const struct rvl_layer *l, struct rvl_nest *n)
{
	struct rivulet_sparse s = rivulet_sparse_of(b, kept_of(l));

	rvl_dense_nest(b, l, n);
	n->block_words = rivulet_sparse_words(&s);
}

static uint64_t array(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs)
{
	return rivulet_sparse_cycles(b, kept_of(l), pairs);
}

/* Of the least number of pairs: one of tn. */
static uint64_t cycles(const struct rivulet_board *b, uint64_t macs, uint32_t length)
{
	(void)length;
	return macs / (b->tm * b->tn);
}

/* Pair @at of row @m: pass at / dn. */
static void put_pair(const struct rivulet_board *b, const struct rivulet_sparse *s, uint8_t *out,
		     int64_t m, uint32_t at, int8_t value, uint32_t index)
{
	uint8_t *pass = out + at / b->dn * (s->values + s->indices) * RIVULET_WGT_WORD;
	uint32_t i = m * b->dn + at % b->dn;

	pass[i] = value;
	rivulet_sparse_put(s, pass + s->values * RIVULET_WGT_WORD, i, index);
}

/* The summands of a weight are not zero only where it is not, so that each term fits its pairs. */
static void pack(const struct rivulet_board *b, const struct rvl_layer *l,
		 const struct rvl_block *k, int8_t *out)
{
	struct rivulet_sparse s = rivulet_sparse_of(b, kept_of(l));
	int8_t dense[64 * 64] = { 0 };

	rvl_dense_pack(b, l, k, dense);
	for (int64_t m = 0; m < b->tm; m++) {
		const int8_t *row = dense + m * b->tn;
		uint32_t at = 0;

		for (uint32_t n = 0; n < b->tn; n++)
			if (row[n])
				put_pair(b, &s, (uint8_t *)out, m, at++, row[n], n);
	}
}

static void emit(struct rvl_stream *s, const struct rvl_layer *l, const struct rvl_ocgroup *g,
		 const struct rvl_chunk *k, struct rivulet_insn_conv *conv)
{
	struct rivulet_decoded mode = { .c_mode = { .dn = kept_of(l) } };

	(void)g;
	(void)k;
	rvl_emit_cfg(s, RIVULET_FORM_c_mode, &mode);
	conv->mode = RIVULET_MODE_SPARSE;
}

static void describe(const struct rvl_layer *l, char *text, size_t size, uint32_t length)
{
	(void)length;
	if (l)
		snprintf(text, size, "sparse: at most %u weights of a block's row", kept_of(l));
}

const struct rvl_mode rvl_mode_sparse = {
	.name = "sparse",
	.isa = RIVULET_MODE_SPARSE,
	.own_size = sizeof(struct kept),
	.missing = "this board's array has no sparse mode",
	.form = form,
	.nest = nest,
	.array = array,
	.energy = rivulet_sparse_fj,
	.cycles = cycles,
	.pack = pack,
	.emit = emit,
	.describe = describe,
};
