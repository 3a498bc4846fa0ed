// SPDX-License-Identifier: MIT
/* Runs, strips, bursts and words of a transfer: docs/isa.md 3.2, the table of 3.3. */
#include "machine.h"

static bool in_fifo(const struct cyc_xfer *x)
{
	return x->kind == RIVULET_XFER_BLOCK || x->kind == RIVULET_XFER_INTERLEAVED;
}

static int64_t joined_words(const struct cyc_xfer *x)
{
	int64_t word = x->lanes * x->elem, row = x->cols * word;

	if (x->kind == RIVULET_XFER_INTERLEAVED)
		return x->ch_pitch == x->channels * x->elem ? x->cols : 1;
	if (x->moved < word)
		return 1;
	if (x->rows > 1 && x->row_pitch != row)
		return x->cols;
	if (x->blks > 1 && x->blk_pitch != x->rows * row)
		return x->rows * x->cols;
	return x->blks * x->rows * x->cols;
}

static int64_t taps(const struct cyc_xfer *x)
{
	return x->gather.ch * x->gather.kh * x->gather.kw;
}

static int64_t gather_piece(const struct cyc_xfer *x, int64_t half)
{
	int64_t k = cyc_up(taps(x), x->lanes);
	int64_t s = 0;

	while (k * (s * x->gather.sx + (x->gather.kw - 1) * x->gather.dx + 1) <= half &&
	       s < x->cols)
		s++;
	return s;
}

/* Computes the fields that follow from the others. */
void cyc_xfer_finish(const struct rivulet_board *b, struct cyc_xfer *x)
{
	int64_t half = b->row_bytes / (2 * x->lanes * x->elem);

	if (in_fifo(x)) {
		x->joined = joined_words(x);
		return;
	}
	x->piece = x->kind == RIVULET_XFER_GATHER ? gather_piece(x, half) : half;
	x->piece = x->piece ? x->piece : 1;
	x->pieces = cyc_up(x->cols, x->piece);
}

uint64_t cyc_xfer_strips(const struct cyc_xfer *x)
{
	if (x->kind == RIVULET_XFER_PLANAR)
		return x->blks * x->rows * x->pieces;
	return x->kind == RIVULET_XFER_GATHER ? x->rows * x->pieces : 1;
}

static int64_t valid_of(const struct cyc_xfer *x, int64_t blk)
{
	int64_t left = x->channels - blk * x->lanes;

	return left < 0 ? 0 : (int64_t)cyc_min(left, x->lanes);
}

static uint64_t strip_runs(const struct cyc_xfer *x, uint64_t strip)
{
	switch (x->kind) {
	case RIVULET_XFER_BLOCK:
		return x->blks * x->rows * x->cols / x->joined;
	case RIVULET_XFER_INTERLEAVED:
		return x->rows * x->cols / x->joined;
	case RIVULET_XFER_PLANAR:
		return valid_of(x, strip / (x->rows * x->pieces));
	default:
		return x->gather.pixel ? x->gather.kh : x->gather.ch * x->gather.kh;
	}
}

static int64_t piece_cols(const struct cyc_xfer *x, int64_t piece)
{
	return cyc_min(x->piece, x->cols - piece * x->piece);
}

static struct cyc_run_of_bytes block_run(const struct cyc_xfer *x, uint64_t run)
{
	int64_t k = run * x->joined, word = x->lanes * x->elem;
	int64_t col = k % x->cols, row = k / x->cols % x->rows, blk = k / (x->cols * x->rows);

	return (struct cyc_run_of_bytes){ x->offset + blk * x->blk_pitch + row * x->row_pitch +
						  col * word,
					  x->joined * x->moved };
}

static struct cyc_run_of_bytes pixel_run(const struct cyc_xfer *x, uint64_t run)
{
	int64_t k = run * x->joined;

	return (struct cyc_run_of_bytes){ x->offset + k / x->cols * x->row_pitch +
						  k % x->cols * x->ch_pitch,
					  x->joined * x->channels * x->elem };
}

static struct cyc_run_of_bytes plane_run(const struct cyc_xfer *x, uint64_t strip, uint64_t run)
{
	int64_t piece = strip % x->pieces, row = strip / x->pieces % x->rows;
	int64_t c = strip / (x->pieces * x->rows) * x->lanes + run;

	return (struct cyc_run_of_bytes){ x->offset + c * x->ch_pitch + row * x->row_pitch +
						  piece * x->piece * x->elem,
					  piece_cols(x, piece) * x->elem };
}

/* The first and the last source column inside the bounds that a tap of the piece needs. */
static bool gather_hull(const struct cyc_xfer *x, int64_t piece, int64_t *lo, int64_t *hi)
{
	int64_t from = piece * x->piece, to = from + piece_cols(x, piece);

	*lo = INT64_MAX;
	*hi = -1;
	for (int64_t col = from; col < to; col++) {
		for (int64_t kx = 0; kx < x->gather.kw; kx++) {
			int64_t c = x->bounds.org_x + col * x->gather.sx + kx * x->gather.dx;

			if (c < 0 || c >= x->bounds.cols)
				continue;
			*lo = c < *lo ? c : *lo;
			*hi = c > *hi ? c : *hi;
		}
	}
	return *hi >= 0;
}

static struct cyc_run_of_bytes gather_run(const struct cyc_xfer *x, uint64_t strip, uint64_t run)
{
	int64_t ky = run % x->gather.kh, c = run / x->gather.kh, lo, hi;
	int64_t row =
		x->bounds.org_y + (int64_t)(strip / x->pieces) * x->gather.sy + ky * x->gather.dy;

	if (row < 0 || row >= x->bounds.rows || !gather_hull(x, strip % x->pieces, &lo, &hi))
		return (struct cyc_run_of_bytes){ 0 };
	if (x->gather.pixel)
		return (struct cyc_run_of_bytes){ x->offset + row * x->row_pitch +
							  lo * x->gather.pixel,
						  (hi - lo) * x->gather.pixel + x->gather.ch };
	return (struct cyc_run_of_bytes){ x->offset + c * x->ch_pitch + row * x->row_pitch + lo,
					  hi - lo + 1 };
}

static struct cyc_run_of_bytes run_at(const struct cyc_xfer *x, uint64_t strip, uint64_t run)
{
	switch (x->kind) {
	case RIVULET_XFER_BLOCK:
		return block_run(x, run);
	case RIVULET_XFER_INTERLEAVED:
		return pixel_run(x, run);
	case RIVULET_XFER_PLANAR:
		return plane_run(x, strip, run);
	default:
		return gather_run(x, strip, run);
	}
}

bool cyc_strip_empty(const struct cyc_xfer *x, uint64_t strip)
{
	for (uint64_t r = 0; r < strip_runs(x, strip); r++)
		if (run_at(x, strip, r).len)
			return false;
	return true;
}

/* Moves on to the next run that has bytes. Returns false after the last one. */
static bool next_run(const struct cyc_xfer *x, struct cyc_cursor *c)
{
	while (!c->rest.len && c->strip < cyc_xfer_strips(x)) {
		if (c->run < strip_runs(x, c->strip)) {
			c->rest = run_at(x, c->strip, c->run++);
			continue;
		}
		c->strip++;
		c->run = 0;
	}
	return c->rest.len;
}

struct cyc_burst cyc_cut(const struct rivulet_board *b, const struct cyc_xfer *x,
			 struct cyc_cursor *c)
{
	uint64_t p = b->port_bytes, end, from;

	if (!next_run(x, c))
		return (struct cyc_burst){ .strip = c->strip };
	from = c->rest.addr;
	end = cyc_min(from + c->rest.len, (from / 4096 + 1) * 4096);
	end = cyc_min(end, (from / p + b->burst_bytes / p) * p);
	c->rest.addr = end;
	c->rest.len -= end - from;
	return (struct cyc_burst){ from, end - from, (end - 1) / p - from / p + 1, c->strip };
}

uint64_t cyc_xfer_words(const struct cyc_xfer *x)
{
	return x->blks * x->rows * x->cols;
}

static struct cyc_word gather_word(const struct cyc_xfer *x, int64_t k)
{
	int64_t row = k / (x->cols * x->blks), rest = k % (x->cols * x->blks);
	int64_t piece = rest / (x->piece * x->blks), cols = piece_cols(x, piece);

	rest %= x->piece * x->blks;
	return (struct cyc_word){ rest / cols, row, piece * x->piece + rest % cols };
}

struct cyc_word cyc_word_at(const struct cyc_xfer *x, uint64_t k)
{
	int64_t n = k;

	if (x->kind == RIVULET_XFER_GATHER)
		return gather_word(x, n);
	if (x->kind == RIVULET_XFER_INTERLEAVED)
		return (struct cyc_word){ n % x->blks, n / x->blks / x->cols,
					  n / x->blks % x->cols };
	return (struct cyc_word){ n / x->cols / x->rows, n / x->cols % x->rows, n % x->cols };
}

uint64_t cyc_strip_of(const struct cyc_xfer *x, const struct cyc_word *w)
{
	int64_t row = x->kind == RIVULET_XFER_PLANAR ? w->blk * x->rows + w->row : w->row;

	return row * x->pieces + w->col / x->piece;
}

uint64_t cyc_word_bytes(const struct cyc_xfer *x, const struct cyc_word *w)
{
	return x->kind == RIVULET_XFER_BLOCK ? x->moved : valid_of(x, w->blk) * x->elem;
}
