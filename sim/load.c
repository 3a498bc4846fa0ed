// SPDX-License-Identifier: MIT
/* The LOAD engine: memory to scratchpad, in the four layouts of enum rivulet_xfer. */
#include "engine.h"

#include <string.h>

/* The tile in INP that a LOAD writes: where a source pixel goes, and which bytes of its word. */
struct tile {
	uint8_t *inp;
	const struct rivulet_config *cfg;
	const struct rivulet_insn_load *l;
	uint64_t tn;
	uint64_t rows, cols;   /* padding and replication included */
	uint64_t rep_y, rep_x; /* pixels written per source pixel */
	uint64_t first, count; /* bytes of a word */
	uint8_t flip;
};

static struct tile tile_of(struct rvl_core *c, const struct rivulet_config *cfg,
			   const struct rivulet_insn_load *l)
{
	bool masked = l->kind == RIVULET_XFER_BLOCK && cfg->l_chan.count;
	struct tile t = {
		.inp = c->inp,
		.cfg = cfg,
		.l = l,
		.tn = c->board->tn,
		.rep_y = cfg->l_chan.rep_y + 1,
		.rep_x = cfg->l_chan.rep_x + 1,
		.first = masked ? cfg->l_chan.dst_ch : 0,
		.count = masked ? cfg->l_chan.count : c->board->tn,
		.flip = l->flip ? 0x80 : 0,
	};

	t.rows = l->rows * t.rep_y + cfg->l_pad.top + cfg->l_pad.bottom;
	t.cols = l->cols * t.rep_x + cfg->l_pad.left + cfg->l_pad.right;
	return t;
}

static uint8_t *word(const struct tile *t, uint64_t blk, uint64_t row, uint64_t col)
{
	uint64_t w =
		t->l->addr + blk * t->cfg->l_dst.blk_pitch + row * t->cfg->l_dst.row_pitch + col;

	return t->inp + w * t->tn;
}

static void fill_words(const struct tile *t, uint64_t blk, uint64_t row, uint64_t col, uint64_t n)
{
	uint8_t *p = word(t, blk, row, col);

	if (t->count == t->tn) {
		memset(p, t->cfg->l_chan.fill, n * t->tn);
		return;
	}
	for (uint64_t i = 0; i < n; i++)
		memset(p + i * t->tn + t->first, t->cfg->l_chan.fill, t->count);
}

/* Fills the border around the pixels of one block. */
static void fill_border(const struct tile *t, uint64_t blk)
{
	const struct rivulet_insn_l_pad *p = &t->cfg->l_pad;

	for (uint64_t y = 0; y < t->rows; y++) {
		if (y < (uint64_t)p->top || y >= t->rows - p->bottom) {
			fill_words(t, blk, y, 0, t->cols);
			continue;
		}
		fill_words(t, blk, y, 0, p->left);
		fill_words(t, blk, y, t->cols - p->right, p->right);
	}
}

static void fill_all(const struct tile *t)
{
	for (int64_t b = 0; b < t->l->blks; b++)
		for (uint64_t y = 0; y < t->rows; y++)
			fill_words(t, b, y, 0, t->cols);
}

/* Writes bytes [lo, lo + n) of the word of source pixel (y, x), once for each replication. */
static void put(const struct tile *t, uint64_t blk, uint64_t y, uint64_t x, uint64_t lo,
		const uint8_t *from, uint64_t n)
{
	uint64_t row = y * t->rep_y + t->cfg->l_pad.top, col = x * t->rep_x + t->cfg->l_pad.left;

	for (uint64_t r = 0; r < t->rep_y; r++) {
		for (uint64_t s = 0; s < t->rep_x; s++) {
			uint8_t *to = word(t, blk, row + r, col + s) + lo;

			for (uint64_t i = 0; i < n; i++)
				to[i] = from[i] ^ t->flip;
		}
	}
}

/* Copies rows of whole words, the common case, directly from memory. */
static int block_words(struct rvl_core *c, const struct rivulet_config *cfg,
		       const struct rivulet_insn_load *l, uint8_t *base, uint64_t word_bytes,
		       uint64_t skip)
{
	for (int64_t b = 0; b < l->blks; b++) {
		for (int64_t y = 0; y < l->rows; y++) {
			uint64_t w = l->addr + b * cfg->l_dst.blk_pitch + y * cfg->l_dst.row_pitch;
			uint64_t off =
				l->offset + b * cfg->l_src.blk_pitch + y * cfg->l_src.row_pitch;
			int fault = rvl_core_aborted(c) ?
					    RVL_ABORTED :
					    rvl_region_read(c->regions, l->slot, off,
							    base + (w + skip) * word_bytes,
							    l->cols * word_bytes);

			if (fault)
				return fault;
		}
	}
	return 0;
}

static int load_plain(struct rvl_core *c, const struct rivulet_config *cfg,
		      const struct rivulet_insn_load *l)
{
	if (l->mem == RIVULET_MEM_WGT)
		return block_words(c, cfg, l, c->wgt, RIVULET_WGT_WORD, 0);
	return block_words(c, cfg, l, (uint8_t *)c->acc, 4 * c->board->tm, 0);
}

static int block_row(struct rvl_core *c, const struct tile *t, uint64_t b, uint64_t y)
{
	const struct rivulet_config *cfg = t->cfg;
	uint64_t src = t->count == t->tn ? 0 : cfg->l_chan.src_ch, cols = t->l->cols;
	uint64_t off = t->l->offset + b * cfg->l_src.blk_pitch + y * cfg->l_src.row_pitch + src;
	int fault =
		rvl_region_read(c->regions, t->l->slot, off, c->row, (cols - 1) * t->tn + t->count);

	for (uint64_t x = 0; !fault && x < cols; x++)
		put(t, b, y, x, t->first, c->row + x * t->tn, t->count);
	return fault;
}

static int load_block(struct rvl_core *c, const struct tile *t)
{
	const struct rivulet_insn_l_pad *p = &t->cfg->l_pad;
	uint64_t skip = p->top * t->cfg->l_dst.row_pitch + p->left;

	for (int64_t b = 0; b < t->l->blks; b++)
		fill_border(t, b);
	if (t->rep_y == 1 && t->rep_x == 1 && t->count == t->tn && !t->flip)
		return block_words(c, t->cfg, t->l, c->inp, t->tn, skip);
	for (int64_t b = 0; b < t->l->blks; b++) {
		for (int64_t y = 0; y < t->l->rows; y++) {
			int r = rvl_core_aborted(c) ? RVL_ABORTED : block_row(c, t, b, y);

			if (r)
				return r;
		}
	}
	return 0;
}

static int load_planar(struct rvl_core *c, const struct tile *t)
{
	const struct rivulet_insn_l_src *s = &t->cfg->l_src;

	fill_all(t);
	for (int64_t ch = 0; ch < t->cfg->l_chan.channels; ch++) {
		for (int64_t y = 0; y < t->l->rows; y++) {
			uint64_t off = t->l->offset + ch * s->ch_pitch + y * s->row_pitch;
			int fault = rvl_core_aborted(c) ? RVL_ABORTED :
							  rvl_region_read(c->regions, t->l->slot,
									  off, c->row, t->l->cols);

			if (fault)
				return fault;
			for (int64_t x = 0; x < t->l->cols; x++)
				put(t, ch / t->tn, y, x, ch % t->tn, c->row + x, 1);
		}
	}
	return 0;
}

static int interleaved_pixel(struct rvl_core *c, const struct tile *t, uint64_t y, uint64_t x)
{
	const struct rivulet_insn_l_src *s = &t->cfg->l_src;
	uint64_t channels = t->cfg->l_chan.channels;
	uint64_t off = t->l->offset + y * s->row_pitch + x * s->ch_pitch;
	int fault = rvl_region_read(c->regions, t->l->slot, off, c->row, channels);

	for (uint64_t ch = 0; !fault && ch < channels; ch += t->tn)
		put(t, ch / t->tn, y, x, 0, c->row + ch,
		    channels - ch < t->tn ? channels - ch : t->tn);
	return fault;
}

static int load_interleaved(struct rvl_core *c, const struct tile *t)
{
	fill_all(t);
	for (int64_t y = 0; y < t->l->rows; y++) {
		for (int64_t x = 0; x < t->l->cols; x++) {
			int r = rvl_core_aborted(c) ? RVL_ABORTED : interleaved_pixel(c, t, y, x);

			if (r)
				return r;
		}
	}
	return 0;
}

/*
 * Patch channels of one source row: (ch, ky) and all kx, for every output column. @at is the byte of
 * column cols.lo, and columns are @step bytes apart.
 */
static void gather_row(const struct tile *t, int64_t ch, int64_t y, int64_t ky,
		       struct rivulet_span cols, const uint8_t *at, int64_t step)
{
	const struct rivulet_insn_l_gather *g = &t->cfg->l_gather;

	for (int64_t kx = 0; kx < g->kw; kx++) {
		uint64_t k = (ch * g->kh + ky) * g->kw + kx;
		int64_t from = t->cfg->l_bounds.org_x + kx * g->dx;

		for (int64_t x = 0; x < t->l->cols; x++) {
			int64_t col = from + x * g->sx;

			if (col >= cols.lo && col < cols.hi)
				put(t, k / t->tn, y, x, k % t->tn, at + (col - cols.lo) * step, 1);
		}
	}
}

/* The rows of channel @ch, or of all channels where they are adjacent. */
static int gather_channel(struct rvl_core *c, const struct tile *t, int64_t ch,
			  struct rivulet_span cols)
{
	const struct rivulet_insn_l_gather *g = &t->cfg->l_gather;
	const struct rivulet_insn_l_bounds *o = &t->cfg->l_bounds;
	int64_t step = g->pixel ? g->pixel : 1, channels = g->pixel ? g->ch : 1;

	for (int64_t y = 0; y < t->l->rows; y++) {
		for (int64_t ky = 0; ky < g->kh; ky++) {
			int64_t row = o->org_y + y * g->sy + ky * g->dy;
			uint64_t off = t->l->offset + ch * t->cfg->l_src.ch_pitch +
				       row * t->cfg->l_src.row_pitch + cols.lo * step;
			int fault;

			if (row < 0 || row >= o->rows)
				continue;
			fault = rvl_core_aborted(c) ? RVL_ABORTED :
						      rvl_region_read(c->regions, t->l->slot, off,
								      c->row,
								      (cols.hi - cols.lo - 1) * step +
									      channels);
			if (fault)
				return fault;
			for (int64_t i = 0; i < channels; i++)
				gather_row(t, ch + i, y, ky, cols, c->row + i, step);
		}
	}
	return 0;
}

static int load_gather(struct rvl_core *c, const struct tile *t)
{
	const struct rivulet_insn_l_gather *g = &t->cfg->l_gather;
	const struct rivulet_insn_l_bounds *o = &t->cfg->l_bounds;
	struct rivulet_span cols = rivulet_taps(o->org_x, t->l->cols, g->sx, g->kw, g->dx, o->cols);
	int r = 0;

	fill_all(t);
	if (cols.lo >= cols.hi)
		return 0;
	for (int64_t ch = 0; !r && ch < (g->pixel ? 1 : g->ch); ch++)
		r = gather_channel(c, t, ch, cols);
	return r;
}

int rvl_load(struct rvl_core *c, const struct rivulet_config *cfg,
	     const struct rivulet_insn_load *l)
{
	struct tile t;

	if (l->mem != RIVULET_MEM_INP)
		return load_plain(c, cfg, l);
	t = tile_of(c, cfg, l);
	switch (l->kind) {
	case RIVULET_XFER_BLOCK:
		return load_block(c, &t);
	case RIVULET_XFER_PLANAR:
		return load_planar(c, &t);
	case RIVULET_XFER_INTERLEAVED:
		return load_interleaved(c, &t);
	default:
		return load_gather(c, &t);
	}
}
