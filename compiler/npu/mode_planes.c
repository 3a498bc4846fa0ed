/* SPDX-License-Identifier: MIT */
/*
 * Weights of few bits as 0/1 planes: inputs are added into buckets by their bits of several
 * columns, and the buckets fold at the end of a pixel. A layer has the bits of its widest weight,
 * and the slices that take the fewest cycles; of a block only the inputs are kept that any kernel
 * needs.
 */
#include "npu/mode.h"
#include "rivulet_cost.h"
#include "rivulet_planes.h"

#include <stdio.h>
#include <string.h>

/* What form() computes once: without patches gathered, and with. */
struct own {
	struct rivulet_insn_c_mode mode[2];
};

static const struct rivulet_insn_c_mode *mode_of(const struct rvl_layer *l)
{
	const struct own *o = l->p.own;

	return &o->mode[l->p.gather];
}

static struct rivulet_planes planes_of(const struct rivulet_board *b, const struct rvl_layer *l)
{
	return rivulet_planes_of(b, mode_of(l));
}

/* ---- bits ---- */

static uint32_t bits_of(int v)
{
	uint32_t bits = 1;

	while (v < -(1 << (bits - 1)) || v >= 1 << (bits - 1))
		bits++;
	return bits;
}

/* The summands of a weight that needs several have 8 bits. */
static uint32_t widest(const struct rvl_product *p)
{
	uint32_t bits = 1;

	for (int64_t m = 0; m < p->w.m && bits < RIVULET_PLANES_BITS; m++)
		for (int64_t k = 0; k < p->w.k; k++)
			bits = rvl_max(bits, bits_of(rvl_weight(&p->w, m, k)));
	return rvl_min(bits, RIVULET_PLANES_BITS);
}

/* ---- rows ---- */

/* Channels of a block for which any kernel has a weight, in their order; returns how many. */
static uint32_t rows_of(const struct rivulet_board *b, const int8_t *dense, uint8_t *channel)
{
	uint32_t rows = 0;

	for (uint32_t n = 0; n < b->tn; n++) {
		bool any = false;

		for (uint32_t m = 0; m < b->tm; m++)
			any = any || dense[m * b->tn + n];
		if (any)
			channel[rows++] = n;
	}
	return rows;
}

static uint32_t rows_of_block(const struct rivulet_board *b, const struct rvl_layer *l,
			      struct rvl_block *k)
{
	uint32_t most = 0;
	uint8_t channel[64];

	for (k->term = 0; k->term < l->p.terms; k->term++) {
		int8_t dense[64 * 64] = { 0 };

		rvl_dense_pack(b, l, k, dense);
		most = rvl_max(most, rows_of(b, dense, channel));
	}
	return most;
}

/* Rows of the fullest block, or tn where indices would save no cycle. */
static uint32_t fullest(const struct rivulet_board *b, const struct rvl_layer *l,
			const struct rvl_nest *n)
{
	int64_t blocks = rvl_div_up(n->channels, b->tn), taps = n->kh * n->kw;
	uint32_t most = 1;

	for (int64_t i = 0; i < rvl_div_up(l->p.m, b->tm) * blocks * taps; i++) {
		struct rvl_block k = { .oc = i / taps / blocks,
				       .ib = i / taps % blocks,
				       .ky = i % taps / n->kw,
				       .kx = i % taps % n->kw };

		most = rvl_max(most, rows_of_block(b, l, &k));
		if (most + 1 >= b->tn)
			return b->tn;
	}
	return most;
}

/* ---- form ---- */

/* Input blocks that an output block reads. */
static int64_t blocks_of(const struct rivulet_board *b, const struct rvl_layer *l,
			 const struct rvl_nest *n)
{
	int64_t read = rvl_min(b->tm, l->p.m) * l->p.group / rvl_max(l->p.m, 1);

	return rvl_div_up(n->channels / l->p.group * rvl_max(read, 1), b->tn);
}

static uint64_t output_block_cycles(const struct rivulet_board *b, const struct rvl_layer *l,
				    const struct rvl_nest *n, const struct rivulet_insn_c_mode *m)
{
	struct rivulet_planes p = rivulet_planes_of(b, m);

	return rivulet_planes_time(b, &p, blocks_of(b, l, n) * n->kh * n->kw, l->p.oh, l->p.ow)
		.cycles;
}

/* The slices of the fewest cycles. False: the board has too few engines for any. */
static bool choose_slices(const struct rivulet_board *b, struct rvl_layer *l,
			  struct rivulet_insn_c_mode *m)
{
	struct rivulet_insn_c_mode best = *m;
	uint64_t least = UINT64_MAX;
	struct rvl_nest n;

	rvl_dense_nest(b, l, &n);
	m->dn = fullest(b, l, &n);
	for (m->group = 1; m->group <= RIVULET_PLANES_WIDEST; m->group++) {
		uint64_t cycles = rivulet_planes_valid(b, m) ? output_block_cycles(b, l, &n, m) :
							       UINT64_MAX;

		if (cycles < least) {
			least = cycles;
			best = *m;
		}
	}
	*m = best;
	return least < UINT64_MAX;
}

static bool form(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l)
{
	struct own *own = rvl_arena_alloc(g->arena, sizeof(*own));
	uint32_t bits = widest(&l->p);
	bool gather = l->p.gather, any = true;

	if (!own)
		return false;
	memset(own, 0, sizeof(*own));
	for (uint32_t i = 0; i < 2; i++) {
		own->mode[i].planes = bits;
		l->p.gather = i;
		if (!i || l->p.group == 1) /* patches of a grouped layer are never gathered */
			any = choose_slices(b, l, &own->mode[i]) && any;
	}
	l->p.gather = gather;
	l->p.own = own;
	return any;
}

static void nest(const struct rivulet_board *b, const struct rvl_layer *l, struct rvl_nest *n)
{
	struct rivulet_planes p = planes_of(b, l);

	rvl_dense_nest(b, l, n);
	n->block_words = rivulet_planes_words(&p);
}

/* Every pixel folds once for each output block. */
static uint64_t array(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs)
{
	struct rivulet_planes p = planes_of(b, l);
	struct rvl_nest n;
	uint64_t blocks;

	rvl_dense_nest(b, l, &n);
	blocks = blocks_of(b, l, &n) * n.kh * n.kw;
	return rivulet_planes_time(b, &p, blocks, 1, rvl_div_up(pairs, blocks)).cycles;
}

/* A part that does not end the reduction folds its buckets, too. */
static uint64_t part(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs)
{
	struct rivulet_planes p = planes_of(b, l);

	return rivulet_planes_time(b, &p, 0, 1, pairs).cycles;
}

/* A tap takes a cycle for each of the pixels that are computed at once. */
static uint64_t cycles(const struct rivulet_board *b, uint64_t macs, uint32_t length)
{
	(void)length;
	return macs / (b->tm * b->tn);
}

static void pack(const struct rivulet_board *b, const struct rvl_layer *l,
		 const struct rvl_block *k, int8_t *out)
{
	struct rivulet_planes p = planes_of(b, l);
	uint8_t *indices = (uint8_t *)out, *codes = indices + p.indices * RIVULET_WGT_WORD,
		channel[64];
	int8_t dense[64 * 64] = { 0 };
	uint32_t rows = b->tn;

	rvl_dense_pack(b, l, k, dense);
	for (uint32_t n = 0; n < b->tn; n++)
		channel[n] = n;
	if (p.indices) {
		rows = rows_of(b, dense, channel);
		memset(indices, b->tn, p.rows); /* rows that add nothing */
		memcpy(indices, channel, rows);
	}
	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t m = 0; m < b->tm; m++)
			rivulet_planes_put(b, &p, codes, r, m, dense[m * b->tn + channel[r]]);
}

static void emit(struct rvl_stream *s, const struct rvl_layer *l, const struct rvl_ocgroup *g,
		 const struct rvl_chunk *k, struct rivulet_insn_conv *conv)
{
	struct rivulet_decoded mode = { .c_mode = *mode_of(l) };

	(void)g;
	(void)k;
	rvl_emit_cfg(s, RIVULET_FORM_c_mode, &mode);
	conv->mode = RIVULET_MODE_BITPLANE;
}

static void describe(const struct rvl_layer *l, char *text, size_t size, uint32_t length)
{
	(void)length;
	if (l)
		snprintf(text, size, "bit planes: %d bits, slices of %d columns",
			 (int)mode_of(l)->planes, (int)mode_of(l)->group);
}

const struct rvl_mode rvl_mode_planes = {
	.name = "planes",
	.isa = RIVULET_MODE_BITPLANE,
	.missing = "this board has no bucket engines",
	.rival = true,
	.own_size = sizeof(struct own),
	.form = form,
	.nest = nest,
	.array = array,
	.part = part,
	.energy = rivulet_planes_fj,
	.cycles = cycles,
	.pack = pack,
	.emit = emit,
	.describe = describe,
};
