// SPDX-License-Identifier: MIT
/*
 * Depthwise CONV: each row of the array computes one channel, and the taps of the kernel are
 * summands. The order of the passes has no effect on the sums, so that each tap is added to all
 * channels of a pixel in one loop, which the compiler makes vectors of.
 */
#include "conv_taps.h"
#include "rivulet_lanes.h"

#include <string.h>

#define WORD_MOST 64 /* tm and tn of a board */

struct taps {
	struct rvl_core *c;
	const struct rivulet_config *cfg;
	const struct rivulet_insn_conv *v;
	struct rivulet_lanes lanes;
	bool straight;		     /* channel m of the word belongs to row m */
	uint8_t channel[WORD_MOST];  /* of each row */
	int8_t pad[WORD_MOST];	     /* a word of the padding value */
	int8_t weight[RIVULET_LANES_TAPS][WORD_MOST];
};

/* The weights of each tap, row by row. */
static void take_weights(struct taps *t, int64_t o, int64_t i)
{
	const struct rivulet_board *b = t->c->board;
	const struct rivulet_insn_c_out *out = &t->cfg->c_out;
	const int8_t *w = (const int8_t *)t->c->wgt +
			  RIVULET_WGT_WORD *
				  (t->v->wgt + o * out->wgt_oc_pitch + i * out->wgt_ic_pitch);

	for (uint32_t k = 0; k < t->lanes.taps; k++) {
		const struct rivulet_lane *l = &t->lanes.tap[k];
		const int8_t *pass = w + l->pass * t->lanes.words * RIVULET_WGT_WORD;

		for (uint32_t m = 0; m < b->tm; m++)
			t->weight[k][m] = pass[m * b->dn + l->lane];
	}
}

static void take_channels(struct taps *t, int64_t o)
{
	const struct rivulet_board *b = t->c->board;

	t->straight = true;
	for (uint32_t m = 0; m < b->tm; m++) {
		t->channel[m] = rivulet_lanes_channel(b, &t->cfg->c_mode, o, m);
		t->straight = t->straight && t->channel[m] == m;
	}
}

/* The word that tap @k of a pixel reads; @base is the block's first. */
static const int8_t *word_of(const struct taps *t, int64_t base, int64_t y, int64_t x, uint32_t k)
{
	const struct rivulet_insn_c_kernel *n = &t->cfg->c_kernel;
	int64_t row = rvl_conv_row(&t->cfg->c_input, y * n->sy + k / n->kw * n->dy + n->org_y);
	int64_t col = x * n->sx + k % n->kw * n->dx + n->org_x;

	if (row < 0 || col < 0 || col >= t->cfg->c_input.cols)
		return t->pad;
	return (const int8_t *)t->c->inp + (base + row + col) * t->c->board->tn;
}

static void add_straight(uint32_t *restrict sum, const int8_t *restrict x, const int8_t *restrict w,
			 uint32_t n)
{
	for (uint32_t m = 0; m < n; m++)
		sum[m] += (uint32_t)((int16_t)x[m] * (int16_t)w[m]);
}

static void add_chosen(const struct taps *t, uint32_t *sum, const int8_t *x, const int8_t *w)
{
	for (uint32_t m = 0; m < t->c->board->tm; m++)
		sum[m] += (uint32_t)(x[t->channel[m]] * w[m]);
}

static void add_row(const struct taps *t, int64_t base, int64_t y, uint32_t *acc)
{
	uint32_t tm = t->c->board->tm;

	for (int64_t x = 0; x < t->v->cols; x++, acc += tm) {
		for (uint32_t k = 0; k < t->lanes.taps; k++) {
			const int8_t *word = word_of(t, base, y, x, k);

			if (t->straight)
				add_straight(acc, word, t->weight[k], tm);
			else
				add_chosen(t, acc, word, t->weight[k]);
		}
	}
}

/* One row of results. Rows may share words of ACC, so that each is complete before the next. */
static int output_row(struct taps *t, int64_t o, int64_t y)
{
	const struct rivulet_insn_c_out *out = &t->cfg->c_out;
	int64_t base = t->v->inp + o * out->inp_oc_pitch;
	uint32_t tm = t->c->board->tm;
	uint32_t *acc =
		(uint32_t *)t->c->acc + (t->v->acc + o * out->blk_pitch + y * out->row_pitch) * tm;

	if (!t->v->keep)
		memset(acc, 0, t->v->cols * tm * sizeof(*acc));
	for (int64_t i = 0; i < t->v->icb; i++) {
		if (rvl_core_aborted(t->c))
			return RVL_ABORTED;
		if (!y || t->v->icb > 1)
			take_weights(t, o, i);
		add_row(t, base + i * t->cfg->c_input.blk_pitch, y, acc);
	}
	return 0;
}

int rvl_conv_taps(struct rvl_core *c, const struct rivulet_config *cfg,
		  const struct rivulet_insn_conv *v)
{
	struct taps t = { .c = c, .cfg = cfg, .v = v };
	int r = 0;

	rivulet_lanes_of(c->board, &cfg->c_kernel, &t.lanes);
	memset(t.pad, cfg->c_pad.value, sizeof(t.pad));
	for (int64_t o = 0; !r && o < v->ocb; o++) {
		take_channels(&t, o);
		for (int64_t y = 0; !r && y < v->rows; y++)
			r = output_row(&t, o, y);
	}
	return r;
}
