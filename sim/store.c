// SPDX-License-Identifier: MIT
/* The STORE engine: scratchpad to memory. */
#include "engine.h"

#include <string.h>

/* One STORE: the position of its words and the size of an element. */
struct source {
	const uint8_t *base;
	const struct rivulet_config *cfg;
	const struct rivulet_insn_store *s;
	uint64_t word, elem; /* bytes */
	uint64_t lanes;	     /* channels of a word */
	uint8_t flip;
};

static const uint8_t *word(const struct source *s, uint64_t blk, uint64_t y, uint64_t x)
{
	uint64_t w = s->s->addr + blk * s->cfg->s_src.blk_pitch + y * s->cfg->s_src.row_pitch + x;

	return s->base + w * s->word;
}

/* Flipping uses the row buffer. Only INP words are flipped, and they fit into it. */
static int write_run(struct rvl_core *c, const struct source *s, uint64_t off, const uint8_t *p,
		     uint64_t n)
{
	if (rvl_core_aborted(c))
		return RVL_ABORTED;
	if (s->flip) {
		for (uint64_t i = 0; i < n; i++)
			c->row[i] = p[i] ^ s->flip;
		p = c->row;
	}
	return rvl_region_write(c->regions, s->s->slot, off, p, n);
}

static int store_masked_row(struct rvl_core *c, const struct source *s, const uint8_t *p,
			    uint64_t off)
{
	const struct rivulet_insn_s_chan *m = &s->cfg->s_chan;
	int r = 0;

	for (int64_t x = 0; !r && x < s->s->cols; x++)
		r = write_run(c, s, off + x * s->word + m->dst_ch, p + x * s->word + m->src_ch,
			      m->count);
	return r;
}

static int store_block(struct rvl_core *c, const struct source *s)
{
	bool masked = s->s->mem == RIVULET_MEM_INP && s->cfg->s_chan.count;

	for (int64_t b = 0; b < s->s->blks; b++) {
		for (int64_t y = 0; y < s->s->rows; y++) {
			uint64_t off = s->s->offset + b * s->cfg->s_dst.blk_pitch +
				       y * s->cfg->s_dst.row_pitch;
			const uint8_t *p = word(s, b, y, 0);
			int r = masked ? store_masked_row(c, s, p, off) :
					 write_run(c, s, off, p, s->s->cols * s->word);

			if (r)
				return r;
		}
	}
	return 0;
}

/* The row of one channel, collected in the row buffer: at most 16383 elements of 4 bytes. */
static int store_plane_row(struct rvl_core *c, const struct source *s, uint64_t ch, uint64_t y)
{
	uint64_t off = s->s->offset + ch * s->cfg->s_dst.ch_pitch + y * s->cfg->s_dst.row_pitch;
	const uint8_t *p = word(s, ch / s->lanes, y, 0) + ch % s->lanes * s->elem;
	uint64_t n = s->s->cols;

	if (rvl_core_aborted(c))
		return RVL_ABORTED;
	for (uint64_t x = 0; x < n; x++)
		memcpy(c->row + x * s->elem, p + x * s->word, s->elem);
	for (uint64_t i = 0; s->flip && i < n; i++)
		c->row[i] ^= s->flip;
	return rvl_region_write(c->regions, s->s->slot, off, c->row, n * s->elem);
}

static int store_planar(struct rvl_core *c, const struct source *s)
{
	int r = 0;

	for (int64_t ch = 0; ch < s->cfg->s_chan.channels; ch++)
		for (int64_t y = 0; !r && y < s->s->rows; y++)
			r = store_plane_row(c, s, ch, y);
	return r;
}

/* All channels of one pixel: at most 65535 elements of 4 bytes. */
static int store_pixel(struct rvl_core *c, const struct source *s, uint64_t y, uint64_t x)
{
	uint64_t off = s->s->offset + y * s->cfg->s_dst.row_pitch + x * s->cfg->s_dst.ch_pitch;
	uint64_t channels = s->cfg->s_chan.channels;

	if (rvl_core_aborted(c))
		return RVL_ABORTED;
	for (uint64_t ch = 0; ch < channels; ch += s->lanes) {
		uint64_t n = channels - ch < s->lanes ? channels - ch : s->lanes;

		memcpy(c->row + ch * s->elem, word(s, ch / s->lanes, y, x), n * s->elem);
	}
	for (uint64_t i = 0; s->flip && i < channels; i++)
		c->row[i] ^= s->flip;
	return rvl_region_write(c->regions, s->s->slot, off, c->row, channels * s->elem);
}

static int store_interleaved(struct rvl_core *c, const struct source *s)
{
	int r = 0;

	for (int64_t y = 0; y < s->s->rows; y++)
		for (int64_t x = 0; !r && x < s->s->cols; x++)
			r = store_pixel(c, s, y, x);
	return r;
}

int rvl_store(struct rvl_core *c, const struct rivulet_config *cfg,
	      const struct rivulet_insn_store *insn)
{
	bool acc = insn->mem == RIVULET_MEM_ACC;
	struct source s = {
		.base = acc ? (const uint8_t *)c->acc : c->inp,
		.cfg = cfg,
		.s = insn,
		.word = rivulet_mem_word(c->board, insn->mem),
		.elem = acc ? 4 : 1,
		.lanes = acc ? c->board->tm : c->board->tn,
		.flip = insn->flip ? 0x80 : 0,
	};

	if (insn->kind == RIVULET_XFER_BLOCK)
		return store_block(c, &s);
	if (insn->kind == RIVULET_XFER_PLANAR)
		return store_planar(c, &s);
	return store_interleaved(c, &s);
}
