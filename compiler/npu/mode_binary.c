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

static const struct rvl_binary_layer *own_of(const struct rvl_layer *l)
{
	return l->p.own;
}

static bool takes(const struct rvl_node *n)
{
	return n->op == RVL_OP_B_CONV;
}

const char *rvl_binary_keeps_int8(const void *board, int64_t m, int64_t group)
{
	const struct rivulet_board *b = board;

	if (!(b->modes >> RIVULET_MODE_BINARY & 1))
		return "int8: this board's array has no binary mode";
	return group > 1 && m / group % b->tm ?
		       "int8: the output channels of its groups are no multiple of the binary array's rows" : NULL;
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
				.bits = true,
				.group_channels = own_of(l)->channels / l->p.group,
				.block_channels = 8 * b->tn >> own_of(l)->lanes };
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

/* Where the weights of a pass begin for row @m and tap @t of the kernel. */
static uint8_t *lane_at(const struct rivulet_board *b, const struct rvl_layer *l, int64_t m,
			int64_t t, int8_t *out)
{
	int64_t lanes = (int64_t)1 << own_of(l)->lanes;

	return (uint8_t *)out + (t / lanes * b->tm + m) * b->tn + t % lanes * (b->tn / lanes);
}

/* The channels of a group begin anywhere in a block, those of its weights at bit 0. */
static void pack_group(const struct rvl_layer *l, const uint64_t *w, int64_t first, int64_t channels,
		       uint8_t *out)
{
	int64_t cpg = own_of(l)->channels / l->p.group;

	for (int64_t n = rvl_max(first, 0); n < rvl_min(first + cpg, channels); n++)
		if (w[(n - first) / 64] >> (n - first) % 64 & 1)
			out[n / 8] |= 1 << n % 8;
}

static void pack(const struct rivulet_board *b, const struct rvl_layer *l,
		 const struct rvl_block *k, int8_t *out)
{
	const struct rvl_tensor *w = l->node->in[1];
	int64_t words = w->shape.dim[3], taps = l->p.win.kh * l->p.win.kw, m0 = k->oc * b->tm;
	int64_t channels = 8 * b->tn >> own_of(l)->lanes, mpg = l->p.m / l->p.group;

	for (int64_t m = m0; m < rvl_min(m0 + b->tm, l->p.m); m++) {
		int64_t first = m / mpg * (own_of(l)->channels / l->p.group) - k->ib * channels;
		const uint64_t *row = (const uint64_t *)w->data + m * taps * words;

		for (int64_t t = 0; t < taps; t++)
			pack_group(l, row + t * words, first, channels, lane_at(b, l, m - m0, t, out));
	}
}

/* Of the channels of the chunk, those of the group. */
static void emit(struct rvl_stream *s, const struct rvl_layer *l, const struct rvl_ocgroup *g,
		 const struct rvl_chunk *k, struct rivulet_insn_conv *conv)
{
	const struct rvl_binary_layer *own = own_of(l);
	int64_t block = 8 * s->board->tn >> own->lanes, cpg = own->channels / l->p.group;
	int64_t group = g->o0 * s->board->tm / (l->p.m / l->p.group);
	int64_t first = group * cpg - (g->ib0 + k->i0) * block;
	int64_t from = rvl_max(first, 0), to = rvl_min(first + cpg, k->in * block);
	struct rivulet_decoded mode = { .c_mode = { .lanes = own->lanes,
						    .border = !own->padding,
						    .first = from,
						    .valid = to < k->in * block ? to - from : 0 } };

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
