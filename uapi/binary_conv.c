// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
#include "rivulet_binary_conv.h"

#include <string.h>

#define KERNEL_MOST 31
#define OUTSIDE	    INT64_MIN
#define WAYS_OF_ROW 3
#define WAYS	    (WAYS_OF_ROW * WAYS_OF_ROW * WAYS_OF_ROW * WAYS_OF_ROW)

struct rivulet_binary rivulet_binary_of(const struct rivulet_board *b, uint32_t lanes_log2,
					const struct rivulet_insn_c_kernel *k)
{
	uint32_t lanes = 1u << lanes_log2, taps = k->kh * k->kw;

	return (struct rivulet_binary){
		.lanes = lanes,
		.channels = 8 * b->tn / lanes,
		.taps = taps,
		.passes = (taps + lanes - 1) / lanes,
		.reads = b->tn / b->dn,
		.words = b->tm * b->tn / RIVULET_WGT_WORD,
	};
}

void rivulet_binary_channels(const struct rivulet_board *b, const struct rivulet_insn_c_mode *m,
			     const struct rivulet_insn_conv *v, uint64_t *from, uint64_t *to)
{
	uint64_t all = (uint64_t)v->icb * (8 * b->tn >> m->lanes);

	*from = m->first;
	*to = m->valid ? *from + (uint64_t)m->valid : all;
}

/* What the words of a pixel depend on. */
struct site {
	const struct rivulet_board *b;
	const struct rivulet_binary *n;
	const struct rivulet_insn_c_kernel *k;
	int64_t pitch;
	int64_t row[KERNEL_MOST]; /* of INP, of each kernel row relative to the first inside */
};

struct turns {
	uint32_t cycles, full;
};

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* One word of a pass: its place, and its turn at the bank. */
struct word {
	int64_t row, col;
	uint32_t bank, turn;
};

/*
 * The turn of @w behind @used other words. Returns false if the word is one of them, which is read
 * once.
 */
static bool take_turn(const struct word *used, uint32_t n, struct word *w)
{
	w->turn = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (used[i].row == w->row && used[i].col == w->col)
			return false;
		w->turn += used[i].bank == w->bank;
	}
	return true;
}

/* The cycles of a pixel of column @x in pass @pass. */
static struct turns turns_of(const struct site *s, uint32_t pass, int64_t x)
{
	struct word word[RIVULET_BINARY_LANES], *w;
	int64_t dn = s->b->dn, lanes = s->n->lanes;
	uint32_t used = 0, at[RIVULET_BINARY_LANES] = { 0 };
	struct turns t = { 1, 0 };

	for (uint32_t i = 0; i < s->n->lanes; i++) {
		uint32_t tap = pass * s->n->lanes + i;

		if (tap >= s->n->taps || s->row[tap / s->k->kw] == OUTSIDE)
			continue;
		w = &word[used];
		w->row = s->row[tap / s->k->kw];
		w->col = floor_div(x * s->k->sx + tap % s->k->kw * s->k->dx + s->k->org_x, lanes);
		w->bank = ((w->row * s->pitch + w->col) % dn + dn) % dn;
		if (!take_turn(word, used, w))
			continue;
		used++;
		t.full += ++at[w->turn] == s->b->dn;
		t.cycles = w->turn >= t.cycles ? w->turn + 1 : t.cycles;
	}
	return t;
}

/* Cycles of a row of @cols pixels in pass @pass; columns repeat every @lanes pixels. */
static struct rivulet_binary_time row_time(const struct site *s, int64_t cols, uint32_t pass)
{
	struct rivulet_binary_time sum = { 0, 0 };
	int64_t lanes = s->n->lanes;

	for (int64_t x = 0; x < lanes && x < cols; x++) {
		struct turns t = turns_of(s, pass, x);
		uint64_t n = (cols - x + lanes - 1) / lanes;

		sum.cycles += n * t.cycles;
		sum.full += n * t.full;
	}
	return sum;
}

/* Kernel rows of the taps of a pass, at most as many as there are lanes. */
struct kernel_rows {
	int64_t first, last;
};

static struct kernel_rows rows_of(const struct site *s, uint32_t pass)
{
	uint32_t tap = pass * s->n->lanes, last = tap + s->n->lanes - 1;

	if (last >= s->n->taps)
		last = s->n->taps - 1;
	return (struct kernel_rows){ tap / s->k->kw, last / s->k->kw };
}

/*
 * The rows of INP of result row @y in a pass. The value tells apart all ways in which they lie to
 * each other: a row is outside, or behind the one before it by the dilation, or that less the ring.
 */
static uint32_t take_rows(struct site *s, const struct rivulet_insn_c_input *in, int64_t y,
			  const struct kernel_rows *r)
{
	int64_t first = OUTSIDE, before = 0;
	uint32_t way = 0;

	for (int64_t ky = r->first; ky <= r->last; ky++) {
		int64_t row = y * s->k->sy + ky * s->k->dy + s->k->org_y;

		way *= WAYS_OF_ROW;
		s->row[ky] = OUTSIDE;
		if (row < 0 || row >= in->rows)
			continue;
		row = in->wrap ? (in->phase + row) % in->wrap : row;
		way += row < before ? 2 : 1;
		first = first == OUTSIDE ? row : first;
		s->row[ky] = row - first;
		before = row;
	}
	return way;
}

/* Whether no two words of a pass conflict while all taps are inside the bounds. */
static bool no_conflict(struct site *s)
{
	for (int64_t ky = 0; ky < s->k->kh; ky++)
		s->row[ky] = ky * s->k->dy;
	for (uint32_t i = 0; i < s->n->passes; i++)
		for (int64_t x = 0; x < s->n->lanes; x++)
			if (turns_of(s, i, x).cycles > 1)
				return false;
	return true;
}

/* An inner loop is at least as long as the reads of WGT for the next one. */
static uint64_t loop(const struct rivulet_binary *n, uint64_t cycles)
{
	return cycles < n->reads ? n->reads : cycles;
}

/* Rows may conflict in some places only. Those that lie to each other in one way take one time. */
static struct rivulet_binary_time pass_time(struct site *s, const struct rivulet_insn_c_input *in,
					    int64_t rows, int64_t cols, uint32_t pass)
{
	struct rivulet_binary_time known[WAYS] = { { 0, 0 } }, sum = { 0, 0 };
	struct kernel_rows r = rows_of(s, pass);

	for (int64_t y = 0; y < rows; y++) {
		struct rivulet_binary_time *t = &known[take_rows(s, in, y, &r)];

		if (!t->cycles)
			*t = row_time(s, cols, pass);
		sum.cycles += t->cycles;
		sum.full += t->full;
	}
	return sum;
}

static struct rivulet_binary_time sum_passes(struct site *s, const struct rivulet_insn_c_input *in,
					     int64_t rows, int64_t cols)
{
	struct rivulet_binary_time all = { 0, 0 };

	for (uint32_t i = 0; i < s->n->passes; i++) {
		struct rivulet_binary_time t = pass_time(s, in, rows, cols, i);

		all.cycles += loop(s->n, t.cycles);
		all.full += t.full;
	}
	return all;
}

struct rivulet_binary_time rivulet_binary_time(const struct rivulet_board *b,
					       const struct rivulet_binary *n,
					       const struct rivulet_insn_c_kernel *k,
					       const struct rivulet_insn_c_input *in, int64_t rows,
					       int64_t cols)
{
	struct site s = { .b = b, .n = n, .k = k, .pitch = in->row_pitch };
	bool apart = b->dn > n->lanes && in->wrap * in->row_pitch % b->dn == 0;

	if (apart && no_conflict(&s))
		return (struct rivulet_binary_time){ .cycles = n->passes * loop(n, rows * cols) };
	return sum_passes(&s, in, rows, cols);
}

bool rivulet_binary_clear(const struct rivulet_board *b, const struct rivulet_binary *n,
			  const struct rivulet_insn_c_kernel *k, int64_t words)
{
	struct site s = { .b = b, .n = n, .k = k, .pitch = words };

	return no_conflict(&s);
}
