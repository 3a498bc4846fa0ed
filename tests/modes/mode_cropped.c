/* SPDX-License-Identifier: MIT */
/*
 * Dense products of a kernel without the rows and columns at its edges in which all weights are
 * zero: fewer taps, and the same sums.
 */
#include "modes/mode_cropped.h"
#include "npu/mode.h"
#include "rivulet_cost.h"

#include <stdio.h>

int mode_cropped_margin;

/* The node's kernel, and the tap of it that is the first of the cropped one. */
struct crop {
	int64_t kh, kw, y, x;
};

struct box {
	int64_t lo[2], hi[2];
};

/* The taps that some output uses; products are numbered channel, row, column. */
static struct box used_taps(const struct rvl_product *p)
{
	int64_t kw = p->win.kw, taps = p->win.kh * kw;
	struct box b = { { taps, taps }, { 0, 0 } };

	for (int64_t m = 0; m < p->w.m; m++) {
		for (int64_t k = 0; k < p->w.k; k++) {
			int64_t at[2] = { k % taps / kw, k % kw };

			for (int i = 0; i < 2 && rvl_weight(&p->w, m, k); i++) {
				b.lo[i] = rvl_min(b.lo[i], at[i] - mode_cropped_margin);
				b.hi[i] = rvl_max(b.hi[i], at[i] + 1 + mode_cropped_margin);
			}
		}
	}
	return b;
}

static bool form(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l)
{
	struct rvl_window *w = &l->p.win;
	struct crop *c = rvl_arena_alloc(g->arena, sizeof(*c));
	struct box box = used_taps(&l->p);

	(void)b;
	if (!c || box.lo[0] >= box.hi[0] || box.hi[0] - box.lo[0] == w->kh)
		return false;
	*c = (struct crop){ w->kh, w->kw, box.lo[0], box.lo[1] };
	l->p.own = c;
	w->kh = box.hi[0] - box.lo[0];
	w->kw = box.hi[1] - box.lo[1];
	w->top -= box.lo[0] * w->dy;
	w->left -= box.lo[1] * w->dx;
	return true;
}

static uint64_t cycles(const struct rivulet_board *b, uint64_t macs, uint32_t length)
{
	(void)length;
	return macs / rivulet_board_peak(b) / 1000;
}

/* The weight of output @m, channel @c of its group and tap (@y, @x) of the cropped kernel. */
static int weight(const struct rvl_product *p, int64_t m, int64_t c, int64_t y, int64_t x)
{
	const struct crop *o = p->own;

	y += o->y;
	x += o->x;
	if (y < 0 || y >= o->kh || x < 0 || x >= o->kw)
		return 0;
	return rvl_weight(&p->w, m, (c * o->kh + y) * o->kw + x);
}

static void pack(const struct rivulet_board *b, const struct rvl_layer *l,
		 const struct rvl_block *k, int8_t *out)
{
	const struct rvl_product *p = &l->p;
	int64_t kw = p->win.kw, taps = p->gather ? p->win.kh * kw : 1;
	int64_t cpg = l->in.v.c / p->group, m0 = k->oc * b->tm;

	for (int64_t m = m0; m < rvl_min(m0 + b->tm, p->m); m++) {
		int64_t c0 = m / (p->m / p->group) * cpg;

		for (int64_t n = 0; n < b->tn; n++) {
			int64_t i = k->ib * b->tn + n, c = i / taps - c0, tap = i % taps;

			if (c >= 0 && c < cpg)
				out[(m - m0) * b->tn + n] = rvl_summand(
					weight(p, m, c, k->ky + tap / kw, k->kx + tap % kw), k->term);
		}
	}
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

static void describe(const struct rvl_layer *l, char *text, size_t size, uint32_t length)
{
	(void)l;
	(void)length;
	snprintf(text, size, "kernel cropped");
}

const struct rvl_mode rvl_mode_cropped = {
	.name = "cropped",
	.isa = RIVULET_MODE_DENSE,
	.missing = "this board's array has no dense mode",
	.form = form,
	.nest = rvl_dense_nest,
	.array = rvl_dense_array,
	.energy = rivulet_dense_fj,
	.cycles = cycles,
	.pack = pack,
	.emit = emit,
	.describe = describe,
};
