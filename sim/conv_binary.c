// SPDX-License-Identifier: MIT
/*
 * Binary CONV: the operand of a pass is the pixels of several taps side by side, with a mask of the
 * bits that take part. A product of two of them is 1 where the bits are equal, else -1.
 */
#include "conv_binary.h"
#include "rivulet_binary_conv.h"

#include <string.h>

#define WORD_MOST 64 /* tm and tn of a board, a multiple of 4 */
#define CHUNKS	  (WORD_MOST / 4)

struct binary {
	struct rvl_core *c;
	const struct rivulet_config *cfg;
	const struct rivulet_insn_conv *v;
	struct rivulet_binary n;
	uint32_t bytes;		  /* of a pixel */
	uint64_t from, to;	  /* valid channels */
	uint8_t valid[WORD_MOST]; /* channels of the block at hand, by the bytes of a pixel */
};

/* The operand of a pass, in chunks of four bytes. */
struct operand {
	uint32_t bits[CHUNKS], mask[CHUNKS];
	int32_t count; /* bits of the mask */
};

static void take_block(struct binary *u, uint64_t i)
{
	memset(u->valid, 0, sizeof(u->valid));
	for (uint32_t n = 0; n < u->n.channels; n++) {
		uint64_t channel = i * u->n.channels + n;

		if (channel >= u->from && channel < u->to)
			u->valid[n / 8] |= 1 << n % 8;
	}
}

/* The pixel that tap @tap of (@y, @x) reads, or NULL outside the bounds. */
static const uint8_t *pixel_of(const struct binary *u, int64_t base, int64_t y, int64_t x,
			       uint32_t tap)
{
	const struct rivulet_insn_c_kernel *k = &u->cfg->c_kernel;
	int64_t row = rvl_conv_row(&u->cfg->c_input, y * k->sy + tap / k->kw * k->dy + k->org_y);
	int64_t col = x * k->sx + tap % k->kw * k->dx + k->org_x;

	if (row < 0 || col < 0 || col >= u->cfg->c_input.cols)
		return NULL;
	return u->c->inp + (base + row) * u->c->board->tn + col * u->bytes;
}

static void take_operand(const struct binary *u, int64_t base, int64_t y, int64_t x, uint32_t pass,
			 struct operand *w)
{
	uint8_t *bits = (uint8_t *)w->bits, *mask = (uint8_t *)w->mask;

	memset(w, 0, sizeof(*w));
	for (uint32_t j = 0; j < u->n.lanes; j++, bits += u->bytes, mask += u->bytes) {
		uint32_t tap = pass * u->n.lanes + j;
		const uint8_t *p;

		if (tap >= u->n.taps)
			break;
		p = pixel_of(u, base, y, x, tap);
		if (!p && u->cfg->c_mode.border)
			continue;
		memcpy(mask, u->valid, u->bytes);
		if (p)
			memcpy(bits, p, u->bytes);
		else
			memset(bits, (int)u->cfg->c_pad.value, u->bytes);
	}
	for (uint32_t i = 0; i < u->c->board->tn / 4; i++)
		w->count += __builtin_popcount(w->mask[i]);
}

static void add_pass(const struct binary *u, const struct operand *x, const uint8_t *w,
		     uint32_t *sum)
{
	uint32_t chunks = u->c->board->tn / 4;

	for (uint32_t m = 0; m < u->c->board->tm; m++) {
		int32_t differ = 0;

		for (uint32_t i = 0; i < chunks; i++, w += 4) {
			uint32_t bits;

			memcpy(&bits, w, sizeof(bits));
			differ += __builtin_popcount((bits ^ x->bits[i]) & x->mask[i]);
		}
		sum[m] += (uint32_t)(x->count - 2 * differ);
	}
}

static void add_row(const struct binary *u, int64_t o, int64_t i, int64_t y, uint32_t *acc)
{
	const struct rivulet_insn_c_out *out = &u->cfg->c_out;
	uint32_t tm = u->c->board->tm, pass_bytes = u->n.words * RIVULET_WGT_WORD;
	int64_t base = u->v->inp + o * out->inp_oc_pitch + i * u->cfg->c_input.blk_pitch;
	const uint8_t *w = u->c->wgt + RIVULET_WGT_WORD * (u->v->wgt + o * out->wgt_oc_pitch +
							   i * out->wgt_ic_pitch);

	for (int64_t x = 0; x < u->v->cols; x++, acc += tm) {
		for (uint32_t p = 0; p < u->n.passes; p++) {
			struct operand operand;

			take_operand(u, base, y, x, p, &operand);
			add_pass(u, &operand, w + p * pass_bytes, acc);
		}
	}
}

/* One row of results. Rows may share words of ACC, so that each is complete before the next. */
static int output_row(struct binary *u, int64_t o, int64_t y)
{
	const struct rivulet_insn_c_out *out = &u->cfg->c_out;
	uint32_t tm = u->c->board->tm;
	uint32_t *acc =
		(uint32_t *)u->c->acc + (u->v->acc + o * out->blk_pitch + y * out->row_pitch) * tm;

	if (!u->v->keep)
		memset(acc, 0, u->v->cols * tm * sizeof(*acc));
	for (int64_t i = 0; i < u->v->icb; i++) {
		if (rvl_core_aborted(u->c))
			return RVL_ABORTED;
		take_block(u, i);
		add_row(u, o, i, y, acc);
	}
	return 0;
}

int rvl_conv_binary(struct rvl_core *c, const struct rivulet_config *cfg,
		    const struct rivulet_insn_conv *v)
{
	struct binary u = { .c = c,
			    .cfg = cfg,
			    .v = v,
			    .n = rivulet_binary_of(c->board, cfg->c_mode.lanes, &cfg->c_kernel) };
	int r = 0;

	u.bytes = u.n.channels / 8;
	rivulet_binary_channels(c->board, &cfg->c_mode, v, &u.from, &u.to);
	for (int64_t o = 0; !r && o < v->ocb; o++)
		for (int64_t y = 0; !r && y < v->rows; y++)
			r = output_row(&u, o, y);
	return r;
}
