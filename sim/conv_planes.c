// SPDX-License-Identifier: MIT
/*
 * Bit-plane CONV. Buckets and fold give the integers of a product (docs/ibtf.md), so that the model
 * takes the weights out of their planes and multiplies.
 */
#include "conv_planes.h"
#include "rivulet_planes.h"

#include <string.h>

#define WORD_MOST 64 /* tm and tn of a board */

struct planes {
	struct rvl_core *c;
	const struct rivulet_config *cfg;
	const struct rivulet_insn_conv *v;
	struct rivulet_planes p;
	int8_t pad[WORD_MOST];		      /* a word of the padding value */
	uint8_t channel[WORD_MOST];	      /* of each row; WORD_MOST: none */
	int32_t weight[WORD_MOST][WORD_MOST]; /* row, kernel */
};

/* The rows of one tap. */
static void take_weights(struct planes *s, const uint8_t *at)
{
	const struct rivulet_board *b = s->c->board;
	const uint8_t *codes = at + s->p.indices * RIVULET_WGT_WORD;

	for (uint32_t r = 0; r < s->p.rows; r++) {
		s->channel[r] = s->p.indices ? at[r] : r;
		if (s->channel[r] >= b->tn)
			s->channel[r] = WORD_MOST;
		for (uint32_t m = 0; m < b->tm; m++)
			s->weight[r][m] = rivulet_planes_weight(b, &s->p, codes, r, m);
	}
}

static void add_rows(const struct planes *s, const int8_t *x, uint32_t *restrict sum)
{
	uint32_t tm = s->c->board->tm;

	for (uint32_t r = 0; r < s->p.rows; r++) {
		const int32_t *w = s->weight[r];
		int32_t value;

		if (s->channel[r] == WORD_MOST || !x[s->channel[r]])
			continue;
		value = x[s->channel[r]];
		for (uint32_t m = 0; m < tm; m++)
			sum[m] += (uint32_t)(value * w[m]);
	}
}

/* Adds a tap to a row of results. */
static void add_tap(const struct planes *s, int64_t base, int64_t y, int64_t ky, int64_t kx,
		    uint32_t *acc)
{
	const struct rivulet_insn_c_kernel *k = &s->cfg->c_kernel;
	int64_t row = rvl_conv_row(&s->cfg->c_input, y * k->sy + ky * k->dy + k->org_y);
	uint32_t tn = s->c->board->tn;

	for (int64_t x = 0; x < s->v->cols; x++, acc += s->c->board->tm) {
		int64_t col = x * k->sx + kx * k->dx + k->org_x;
		bool in = row >= 0 && col >= 0 && col < s->cfg->c_input.cols;

		add_rows(s, in ? (const int8_t *)s->c->inp + (base + row + col) * tn : s->pad, acc);
	}
}

/* One row of results. Rows may share words of ACC, so that each is complete before the next. */
static int output_row(struct planes *s, int64_t o, int64_t y)
{
	const struct rivulet_insn_c_out *out = &s->cfg->c_out;
	const struct rivulet_insn_c_kernel *k = &s->cfg->c_kernel;
	uint32_t tm = s->c->board->tm, step = rivulet_planes_words(&s->p) * RIVULET_WGT_WORD;
	uint32_t *acc =
		(uint32_t *)s->c->acc + (s->v->acc + o * out->blk_pitch + y * out->row_pitch) * tm;

	if (!s->v->keep)
		memset(acc, 0, s->v->cols * tm * sizeof(*acc));
	for (int64_t i = 0; i < s->v->icb; i++) {
		const uint8_t *w =
			s->c->wgt + RIVULET_WGT_WORD * (s->v->wgt + o * out->wgt_oc_pitch +
							i * out->wgt_ic_pitch);
		int64_t base = s->v->inp + o * out->inp_oc_pitch + i * s->cfg->c_input.blk_pitch;

		if (rvl_core_aborted(s->c))
			return RVL_ABORTED;
		for (int64_t t = 0; t < k->kh * k->kw; t++, w += step) {
			take_weights(s, w);
			add_tap(s, base, y, t / k->kw, t % k->kw, acc);
		}
	}
	return 0;
}

int rvl_conv_planes(struct rvl_core *c, const struct rivulet_config *cfg,
		    const struct rivulet_insn_conv *v)
{
	struct planes s = {
		.c = c, .cfg = cfg, .v = v, .p = rivulet_planes_of(c->board, &cfg->c_mode)
	};
	int r = 0;

	memset(s.pad, (int)cfg->c_pad.value, sizeof(s.pad));
	for (int64_t o = 0; !r && o < v->ocb; o++)
		for (int64_t y = 0; !r && y < v->rows; y++)
			r = output_row(&s, o, y);
	return r;
}
