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

/*
 * Pairs that the fullest row of a block keeps. The last input block of a layer often has fewer
 * channels than the others, so that it may take fewer passes. Blocks that would take as many passes
 * as dense ones are dense.
 */
struct kept {
	uint32_t all, tail;
	int64_t blocks; /* of an output block; 1: there is no tail */
};

/* Without patches gathered, and with. */
struct own {
	struct kept k[2];
};

static const struct kept *kept_of(const struct rvl_layer *l)
{
	const struct own *o = l->p.own;

	return &o->k[l->p.gather];
}

/* Passes of a block with @kept pairs are fewer than those of a dense block. */
static bool pays(const struct rivulet_board *b, uint32_t kept)
{
	return rivulet_sparse_of(b, kept).passes < b->tn / b->dn;
}

static uint32_t passes_of(const struct rivulet_board *b, uint32_t kept)
{
	return pays(b, kept) ? rivulet_sparse_of(b, kept).passes : b->tn / b->dn;
}

/* Whether the last block takes fewer passes than the others. */
static bool has_tail(const struct rivulet_board *b, const struct kept *k)
{
	return k->blocks > 1 && passes_of(b, k->tail) < passes_of(b, k->all);
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
 * The most weights of output @m, not zero, that fall in one block. Its row has the products of
 * channels from @c0 on; those of channels [@from, @end) count. Both may be inside a block.
 */
static uint32_t row_most(const struct rvl_product *p, int64_t tn, int64_t m, int64_t c0,
			 int64_t from, int64_t end, int64_t taps)
{
	uint32_t most = 0;

	for (int64_t c = from; c < end; c += tn - c % tn) {
		int64_t past = rvl_min(c - c % tn + tn, end);

		for (int64_t tap = 0; tap < taps; tap++)
			most = rvl_max(most, count_run(&p->w, m, (c - c0) * taps + tap,
						       (past - c0) * taps, taps));
	}
	return most;
}

/*
 * Pairs of the fullest row, of the channels [@from, @end) of a group, or tn as soon as a row has so
 * many that the dense mode is as fast. Gathered patches have one tap, and products as channels.
 */
static uint32_t fullest_row(const struct rivulet_board *b, const struct rvl_layer *l, int64_t from,
			    int64_t end, int64_t taps)
{
	const struct rvl_product *p = &l->p;
	uint32_t most = 1;

	for (int64_t m = 0; m < p->m; m++) {
		int64_t c0 = m / (p->m / p->group) * (l->in.v.c / p->group);

		most = rvl_max(most, row_most(p, b->tn, m, c0, c0 + from, c0 + end, taps));
		if (!pays(b, most))
			return b->tn;
	}
	return most;
}

/*
 * Whether the last block is computed apart. A product of one pixel waits for its weights, so that
 * fewer passes gain nothing there.
 */
static bool tail_pays(const struct rivulet_board *b, const struct rvl_layer *l,
		      const struct kept *k)
{
	return l->in.v.n * l->p.oh * l->p.ow > 1 && has_tail(b, k);
}

static struct kept count_kept(const struct rivulet_board *b, const struct rvl_layer *l, bool gather)
{
	int64_t taps = l->p.win.kh * l->p.win.kw, channels = l->in.v.c * (gather ? taps : 1);
	struct kept k = { .all = b->tn, .tail = b->tn, .blocks = 1 };
	int64_t last = rvl_div_up(channels, b->tn) - 1;

	if (l->p.group > 1) { /* patches of a grouped layer are never gathered */
		k.all = gather ? b->tn : fullest_row(b, l, 0, l->in.v.c / l->p.group, taps);
		return k;
	}
	taps = gather ? 1 : taps;
	k.tail = fullest_row(b, l, last * b->tn, channels, taps);
	k.all = last ? fullest_row(b, l, 0, last * b->tn, taps) : k.tail;
	k.blocks = last + 1;
	if (!tail_pays(b, l, &k)) { /* all alike */
		k.all = rvl_max(k.all, k.tail);
		k.blocks = 1;
	}
	return k;
}

static bool fewer_passes(const struct rivulet_board *b, const struct kept *k)
{
	return pays(b, k->all) || has_tail(b, k);
}

static bool form(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l)
{
	struct own o = { { count_kept(b, l, false), count_kept(b, l, true) } }, *own;

	if (!fewer_passes(b, &o.k[0]) && !fewer_passes(b, &o.k[1]))
		return false;
	own = rvl_arena_alloc(g->arena, sizeof(*own));
	if (!own)
		return false;
	*own = o;
	l->p.own = own;
	return true;
}

/* WGT words of a block; one that is dense takes no indices. */
static int64_t words_of(const struct rivulet_board *b, uint32_t kept)
{
	struct rivulet_sparse s = rivulet_sparse_of(b, kept);

	return pays(b, kept) ? rivulet_sparse_words(&s) : b->tm * b->tn / RIVULET_WGT_WORD;
}

static void nest(const struct rivulet_board *b, const struct rvl_layer *l, struct rvl_nest *n)
{
	const struct kept *k = kept_of(l);

	rvl_dense_nest(b, l, n);
	n->block_words = words_of(b, k->all);
	if (!has_tail(b, k))
		return;
	n->tail = k->blocks - 1;
	n->tail_words = words_of(b, k->tail);
}

static uint64_t array(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs)
{
	const struct kept *k = kept_of(l);
	uint64_t passes = passes_of(b, k->all);

	if (!has_tail(b, k))
		return pairs * passes;
	return pairs / k->blocks * ((k->blocks - 1) * passes + passes_of(b, k->tail));
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

/* Pairs of input block @ib. */
static uint32_t kept_at(const struct rivulet_board *b, const struct rvl_layer *l, int64_t ib)
{
	const struct kept *k = kept_of(l);

	return has_tail(b, k) && ib == k->blocks - 1 ? k->tail : k->all;
}

/* The summands of a weight are not zero only where it is not, so that each term fits its pairs. */
static void pack(const struct rivulet_board *b, const struct rvl_layer *l,
		 const struct rvl_block *k, int8_t *out)
{
	uint32_t kept = kept_at(b, l, k->ib);
	struct rivulet_sparse s = rivulet_sparse_of(b, kept);
	int8_t dense[64 * 64] = { 0 };

	if (!pays(b, kept)) {
		rvl_dense_pack(b, l, k, out);
		return;
	}
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
	uint32_t kept = kept_at(s->board, l, k->i0);
	struct rivulet_decoded mode = { .c_mode = { .dn = kept } };

	(void)g;
	conv->mode = RIVULET_MODE_DENSE;
	if (!pays(s->board, kept))
		return;
	rvl_emit_cfg(s, RIVULET_FORM_c_mode, &mode);
	conv->mode = RIVULET_MODE_SPARSE;
}

static void describe(const struct rvl_layer *l, char *text, size_t size, uint32_t length)
{
	const struct kept *k = l ? kept_of(l) : NULL;

	(void)length;
	if (!l)
		return;
	if (k->blocks > 1)
		snprintf(text, size,
			 "sparse: at most %u weights of a block's row, %u of the last block's",
			 k->all, k->tail);
	else
		snprintf(text, size, "sparse: at most %u weights of a block's row", k->all);
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
