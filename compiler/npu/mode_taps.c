/* SPDX-License-Identifier: MIT */
/*
 * Depthwise int8 by tap lanes: the dn multipliers of a row take dn taps of the row's channel, each
 * from another bank of INP. The taps of a kernel are one piece, and the rows of the operand lie at
 * a pitch for which the taps of a pass are in different banks.
 */
#include "npu/mode.h"
#include "rivulet_cost.h"
#include "rivulet_lanes.h"

#include <stdio.h>

#define MAX_KERNEL   31
#define MAX_STRIDE   31
#define MAX_DILATION 63
#define MAX_MULT     255 /* output channels of an input channel */

static void lanes_of(const struct rivulet_board *b, const struct rvl_window *w,
		     struct rivulet_lanes *lanes)
{
	struct rivulet_insn_c_kernel k = { .kh = w->kh, .kw = w->kw, .dy = w->dy, .dx = w->dx };

	rivulet_lanes_of(b, &k, lanes);
}

static bool fields_hold(const struct rvl_window *w)
{
	return w->kh <= MAX_KERNEL && w->kw <= MAX_KERNEL && w->sy <= MAX_STRIDE &&
	       w->sx <= MAX_STRIDE && w->dy <= MAX_DILATION && w->dx <= MAX_DILATION;
}

/* What form() computes once: WGT words of a block, and passes. */
struct own {
	uint32_t words, passes;
};

static const struct own *own_of(const struct rvl_layer *l)
{
	return l->p.own;
}

/* Each group has one input channel. */
static bool form(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l)
{
	struct rivulet_lanes lanes;
	struct own *own;

	if (l->p.group != l->in.v.c || l->p.m / l->p.group > MAX_MULT || !fields_hold(&l->p.win))
		return false;
	own = rvl_arena_alloc(g->arena, sizeof(*own));
	if (!own)
		return false;
	lanes_of(b, &l->p.win, &lanes);
	*own = (struct own){ lanes.passes * lanes.words, lanes.passes };
	l->p.own = own;
	return true;
}

static void nest(const struct rivulet_board *b, const struct rvl_layer *l, struct rvl_nest *n)
{
	rvl_dense_nest(b, l, n);
	n->lane_words = own_of(l)->words;
}

static uint64_t array(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs)
{
	(void)b;
	return pairs / (l->p.win.kh * l->p.win.kw) * own_of(l)->passes;
}

static uint64_t cycles(const struct rivulet_board *b, uint64_t macs, uint32_t length)
{
	(void)length;
	return macs / rivulet_board_peak(b);
}

/* Its products count as those of the sparse mode, which have a multiplexer too. */
static double energy(const struct rivulet_board *b, uint32_t level, const struct rivulet_work *w)
{
	(void)b;
	(void)level;
	(void)w;
	return 0;
}

/* All taps of a block; rows whose channel is not in the input block keep weights of 0. */
static void pack(const struct rivulet_board *b, const struct rvl_layer *l,
		 const struct rvl_block *k, int8_t *out)
{
	int64_t m0 = k->oc * b->tm, mult = l->p.m / l->p.group, tn = b->tn;
	struct rivulet_lanes lanes;

	lanes_of(b, &l->p.win, &lanes);
	for (int64_t m = m0; m < rvl_min(m0 + b->tm, l->p.m); m++) {
		int8_t *row = out + (m - m0) * b->dn;

		for (uint32_t t = 0; t < lanes.taps && m / mult / tn == k->ib; t++)
			row[lanes.tap[t].pass * lanes.words * RIVULET_WGT_WORD + lanes.tap[t].lane] =
				rvl_summand(rvl_weight(&l->p.w, m, t), k->term);
	}
}

static void emit(struct rvl_stream *s, const struct rvl_layer *l, const struct rvl_ocgroup *g,
		 const struct rvl_chunk *k, struct rivulet_insn_conv *conv)
{
	int64_t mult = l->p.m / l->p.group;
	struct rivulet_decoded mode = {
		.c_mode = { .mult = mult, .first = g->o0 * s->board->tm % (mult * s->board->tn) }
	};

	(void)k;
	rvl_emit_cfg(s, RIVULET_FORM_c_mode, &mode);
	conv->mode = RIVULET_MODE_TAPS;
}

static void describe(const struct rvl_layer *l, char *text, size_t size, uint32_t length)
{
	uint32_t passes = l ? own_of(l)->passes : 0;

	(void)length;
	if (l)
		snprintf(text, size, "tap lanes: %u pass%s", passes, passes == 1 ? "" : "es");
}

const struct rvl_mode rvl_mode_taps = {
	.name = "taps",
	.isa = RIVULET_MODE_TAPS,
	.own_size = sizeof(struct own),
	.missing = "this board's array has no tap lanes",
	.direct = true,
	.form = form,
	.nest = nest,
	.array = array,
	.energy = energy,
	.cycles = cycles,
	.pack = pack,
	.emit = emit,
	.describe = describe,
};
