/* SPDX-License-Identifier: MIT */
/*
 * Binary: products of one bit by one bit, 8 x tn channels at once. The taps of a kernel are one
 * piece. Where a word holds several pixels, a pass takes as many taps, and the rows of the operand
 * lie at a pitch for which the words of a pass are in different banks.
 */
#include "npu/mode.h"
#include "rivulet_binary_conv.h"
#include "rivulet_cost.h"

#include <stdio.h>
#include <string.h>

static const struct rvl_binary_layer *own_of(const struct rvl_layer *l)
{
	return l->p.own;
}

static bool takes(const struct rvl_node *n)
{
	return n->op == RVL_OP_B_CONV;
}

static uint32_t log2_of(int64_t n)
{
	uint32_t bits = 0;

	while (n >> (bits + 1))
		bits++;
	return bits;
}

bool rvl_binary_form(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l)
{
	const struct rvl_window *w = &l->p.win;
	struct rivulet_insn_c_kernel k = { .kh = w->kh, .kw = w->kw, .sy = w->sy, .sx = w->sx,
					   .dy = w->dy, .dx = w->dx, .org_y = -w->top, .org_x = -w->left };
	struct rvl_binary_layer *own = rvl_arena_alloc(g->arena, sizeof(*own));
	struct rivulet_binary n;

	if (!own)
		return false;
	*own = (struct rvl_binary_layer){ .lanes = log2_of(l->in.pixels),
					  .channels = l->node->attr.block,
					  .padding = l->node->attr.count_include_pad };
	n = rivulet_binary_of(b, own->lanes, &k);
	own->passes = n.passes;
	for (int64_t pitch = 0; pitch < b->dn && n.lanes > 1; pitch++)
		if (rivulet_binary_clear(b, &n, &k, pitch))
			own->clear |= (uint64_t)1 << pitch;
	l->p.own = own;
	return true;
}

static void nest(const struct rivulet_board *b, const struct rvl_layer *l, struct rvl_nest *n)
{
	int64_t words = b->tm * b->tn / RIVULET_WGT_WORD;

	*n = (struct rvl_nest){ .kh = l->p.win.kh,
				.kw = l->p.win.kw,
				.channels = l->in.v.c,
				.block_words = words,
				.lane_words = own_of(l)->passes * words,
				.clear = own_of(l)->clear,
				.bits = true };
}

static uint64_t array(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs)
{
	(void)b;
	return pairs / (l->p.win.kh * l->p.win.kw) * own_of(l)->passes;
}

static uint64_t cycles(const struct rivulet_board *b, uint64_t macs, uint32_t length)
{
	(void)length;
	return macs / (8 * b->tm * b->tn);
}

/* The bytes of channels of the model's bits are those of the array's. */
static void pack(const struct rivulet_board *b, const struct rvl_layer *l,
		 const struct rvl_block *k, int8_t *out)
{
	const struct rvl_tensor *w = l->node->in[1];
	int64_t bytes = w->shape.dim[3] * 8, taps = l->p.win.kh * l->p.win.kw;
	int64_t lanes = (int64_t)1 << own_of(l)->lanes, lane = b->tn / lanes, first = k->ib * lane;
	int64_t m0 = k->oc * b->tm, n = rvl_min(lane, bytes - first);

	for (int64_t m = m0; m < rvl_min(m0 + b->tm, w->shape.dim[0]) && n > 0; m++) {
		const int8_t *row = (const int8_t *)w->data + m * taps * bytes;

		for (int64_t t = 0; t < taps; t++)
			memcpy(out + (t / lanes * b->tm + m - m0) * b->tn + t % lanes * lane,
			       row + t * bytes + first, n);
	}
}

static void emit(struct rvl_stream *s, const struct rvl_layer *l, const struct rvl_ocgroup *g,
		 const struct rvl_chunk *k, struct rivulet_insn_conv *conv)
{
	const struct rvl_binary_layer *own = own_of(l);
	int64_t block = 8 * s->board->tn >> own->lanes;
	int64_t left = own->channels - (g->ib0 + k->i0) * block;
	struct rivulet_decoded mode = { .c_mode = { .lanes = own->lanes,
						    .border = !own->padding,
						    .valid = left < k->in * block ? left : 0 } };

	rvl_emit_cfg(s, RIVULET_FORM_c_mode, &mode);
	conv->mode = RIVULET_MODE_BINARY;
}

static void describe(const struct rvl_layer *l, char *text, size_t size, uint32_t length)
{
	(void)length;
	if (l)
		snprintf(text, size, "binary: %u pass%s of %d tap%s", own_of(l)->passes,
			 own_of(l)->passes == 1 ? "" : "es", 1 << own_of(l)->lanes,
			 own_of(l)->lanes ? "s" : "");
}

const struct rvl_mode rvl_mode_binary = {
	.name = "binary",
	.isa = RIVULET_MODE_BINARY,
	.missing = "this board's array has no binary mode",
	.direct = true,
	.own_size = sizeof(struct rvl_binary_layer),
	.takes = takes,
	.nest = nest,
	.array = array,
	.energy = rivulet_binary_fj,
	.cycles = cycles,
	.pack = pack,
	.emit = emit,
	.describe = describe,
};
