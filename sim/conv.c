// SPDX-License-Identifier: MIT
/*
 * The CONV engine for int8, dense and sparse; conv_taps.c is the depthwise one,
 * conv_binary.c the binary one, conv_planes.c the one by bit planes, conv_sc.c the stochastic one. The
 * scalar code is the definition. The vector code of conv_simd.c gives the same bits, and runs where the
 * host and the shape allow it.
 */
#include "conv_binary.h"
#include "conv_planes.h"
#include "conv_simd.h"
#include "conv_sparse.h"
#include "conv_taps.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "accumulators leave as host integers");

static uint32_t dot(const int8_t *x, const int8_t *w, uint32_t n)
{
	int32_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += x[i] * w[i];
	return sum;
}

struct site {
	const struct rvl_core *c;
	const struct rivulet_config *cfg;
	const struct rivulet_insn_conv *v;
	struct rivulet_sparse pairs; /* sparse: the format of the weights */
	uint32_t block_bytes;	     /* of the weights of a tap */
	uint8_t pad[64];	     /* a word of the padding value */
	int64_t o, y, x;
};

/* Adds one tap of one input block to the tm sums of an output word. */
static void add_tap(const struct site *s, const uint8_t *x, const uint8_t *w, uint32_t *sum)
{
	const struct rivulet_board *b = s->c->board;

	if (s->v->mode == RIVULET_MODE_SPARSE) {
		rvl_sparse_add(b, &s->pairs, (const int8_t *)x, w, sum);
		return;
	}
	for (uint32_t m = 0; m < b->tm; m++)
		sum[m] += dot((const int8_t *)x, (const int8_t *)w + m * b->tn, b->tn);
}

/* Adds the contribution of input block i. */
static void add_block(const struct site *s, int64_t i, uint32_t *sum)
{
	const struct rivulet_insn_c_kernel *k = &s->cfg->c_kernel;
	const struct rivulet_insn_c_out *out = &s->cfg->c_out;
	int64_t base = s->v->inp + s->o * out->inp_oc_pitch + i * s->cfg->c_input.blk_pitch;
	const uint8_t *w = s->c->wgt + RIVULET_WGT_WORD * (s->v->wgt + s->o * out->wgt_oc_pitch +
							   i * out->wgt_ic_pitch);

	for (int64_t ky = 0; ky < k->kh; ky++) {
		int64_t row = rvl_conv_row(&s->cfg->c_input, s->y * k->sy + ky * k->dy + k->org_y);

		for (int64_t kx = 0; kx < k->kw; kx++, w += s->block_bytes) {
			int64_t tx = s->x * k->sx + kx * k->dx + k->org_x;
			bool in = row >= 0 && tx >= 0 && tx < s->cfg->c_input.cols;

			add_tap(s, in ? s->c->inp + (base + row + tx) * s->c->board->tn : s->pad,
				w, sum);
		}
	}
}

static void output_word(const struct site *s)
{
	uint32_t tm = s->c->board->tm, sum[64] = { 0 };
	uint64_t at =
		s->v->acc + s->o * s->cfg->c_out.blk_pitch + s->y * s->cfg->c_out.row_pitch + s->x;
	uint32_t *acc = (uint32_t *)s->c->acc + at * tm;

	for (int64_t i = 0; i < s->v->icb; i++)
		add_block(s, i, sum);
	for (uint32_t m = 0; m < tm; m++)
		acc[m] = s->v->keep ? acc[m] + sum[m] : sum[m];
}

/* The reference: rvl_conv() gives the same bits on every host. */
static int conv_scalar(struct rvl_core *c, const struct rivulet_config *cfg,
		       const struct rivulet_insn_conv *v)
{
	struct site s = { .c = c,
			  .cfg = cfg,
			  .v = v,
			  .pairs = rivulet_sparse_of(c->board, cfg->c_mode.dn),
			  .block_bytes = c->board->tm * c->board->tn };

	if (v->mode == RIVULET_MODE_SPARSE)
		s.block_bytes = rivulet_sparse_words(&s.pairs) * RIVULET_WGT_WORD;
	memset(s.pad, cfg->c_pad.value, sizeof(s.pad));
	for (s.o = 0; s.o < v->ocb; s.o++) {
		for (s.y = 0; s.y < v->rows; s.y++) {
			for (s.x = 0; s.x < v->cols; s.x++) {
				if (rvl_core_aborted(c))
					return RVL_ABORTED;
				output_word(&s);
			}
		}
	}
	return 0;
}

int rvl_conv(struct rvl_core *c, const struct rivulet_config *cfg,
	     const struct rivulet_insn_conv *v)
{
	int r;

	if (v->mode == RIVULET_MODE_STOCHASTIC)
		return rvl_conv_stochastic(c, cfg, v);
	if (v->mode == RIVULET_MODE_TAPS)
		return rvl_conv_taps(c, cfg, v);
	if (v->mode == RIVULET_MODE_BINARY)
		return rvl_conv_binary(c, cfg, v);
	if (v->mode == RIVULET_MODE_BITPLANE)
		return rvl_conv_planes(c, cfg, v);
	r = rvl_conv_simd(c, cfg, v);
	return r == RVL_CONV_SCALAR ? conv_scalar(c, cfg, v) : r;
}
