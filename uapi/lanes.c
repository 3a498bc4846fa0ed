// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
#include "rivulet_lanes.h"
#include "rivulet_sparse.h"

#define LANES_MOST 64 /* dn of a board */

void rivulet_lanes_of(const struct rivulet_board *b, const struct rivulet_insn_c_kernel *k,
		      struct rivulet_lanes *l)
{
	struct rivulet_sparse values = rivulet_sparse_of(b, b->dn);
	uint16_t used[LANES_MOST] = { 0 }, first = 0;

	l->passes = 0;
	l->taps = k->kh * k->kw;
	l->words = values.values;
	l->align = values.align;
	for (uint32_t t = 0; t < l->taps; t++) {
		uint32_t lane = (RIVULET_LANES_SKEW * (t / k->kw) * k->dy + t % k->kw * k->dx) % b->dn;

		l->tap[t].lane = lane;
		if (++used[lane] > l->passes)
			l->passes = used[lane];
	}
	for (uint32_t lane = 0; lane < b->dn; lane++) {
		uint16_t n = used[lane];

		used[lane] = first;
		first += n;
	}
	for (uint32_t t = 0; t < l->taps; t++)
		l->tap[t].pass = used[l->tap[t].lane]++ % l->passes;
}

/* The taps pass by pass: kernel row, and bank of the column in a row that begins in bank 0. */
struct order {
	uint16_t first[RIVULET_LANES_TAPS + 1]; /* of each pass */
	uint8_t ky[RIVULET_LANES_TAPS], bank[RIVULET_LANES_TAPS];
};

static void order_taps(const struct rivulet_board *b, const struct rivulet_lanes *l,
		       const struct rivulet_insn_c_kernel *k, struct order *o)
{
	uint16_t at[RIVULET_LANES_TAPS + 1] = { 0 };

	for (uint32_t t = 0; t < l->taps; t++)
		at[l->tap[t].pass + 1]++;
	for (uint32_t i = 0; i < l->passes; i++) {
		at[i + 1] += at[i];
		o->first[i] = at[i];
	}
	o->first[l->passes] = l->taps;
	for (uint32_t t = 0; t < l->taps; t++) {
		uint16_t n = at[l->tap[t].pass]++;

		o->ky[n] = t / k->kw;
		o->bank[n] = t % k->kw * k->dx % b->dn;
	}
}

#define OUTSIDE (-1)

/* The banks in which the rows of the taps of result row @y begin. */
static void row_banks(const struct rivulet_board *b, const struct rivulet_insn_c_kernel *k,
		      const struct rivulet_insn_c_input *in, int64_t y, int8_t *bank)
{
	for (int64_t ky = 0; ky < k->kh; ky++) {
		int64_t row = y * k->sy + ky * k->dy + k->org_y;

		bank[ky] = OUTSIDE;
		if (row < 0 || row >= in->rows)
			continue;
		if (in->wrap)
			row = (in->phase + row) % in->wrap;
		bank[ky] = row * in->row_pitch % b->dn;
	}
}

/* Adds the cycles of a pixel in pass @i. */
static void add_pass(const struct rivulet_board *b, const struct order *o, const int8_t *row,
		     uint32_t i, struct rivulet_lanes_time *time)
{
	uint8_t turns[LANES_MOST] = { 0 };
	uint32_t taps = 0, cycles = 1;

	for (uint32_t n = o->first[i]; n < o->first[i + 1]; n++) {
		uint32_t bank = row[o->ky[n]] + o->bank[n];

		if (row[o->ky[n]] == OUTSIDE)
			continue;
		bank -= bank < b->dn ? 0 : b->dn;
		taps++;
		if (++turns[bank] > cycles)
			cycles = turns[bank];
	}
	time->cycles += cycles;
	time->full += taps == cycles * b->dn ? cycles : 0;
}

struct rivulet_lanes_time rivulet_lanes_time(const struct rivulet_board *b,
					     const struct rivulet_lanes *l,
					     const struct rivulet_insn_c_kernel *k,
					     const struct rivulet_insn_c_input *in, int64_t rows)
{
	bool clear = in->row_pitch % b->dn == RIVULET_LANES_SKEW % b->dn &&
		     !(in->wrap * in->row_pitch % b->dn);
	struct rivulet_lanes_time time = { 0, 0 };
	struct order o;
	int8_t bank[31];

	order_taps(b, l, k, &o);
	for (uint32_t i = 0; clear && i < l->passes; i++) {
		time.cycles += rows;
		time.full += o.first[i + 1] - o.first[i] == (int)b->dn ? rows : 0;
	}
	for (int64_t y = 0; !clear && y < rows; y++) {
		row_banks(b, k, in, y, bank);
		for (uint32_t i = 0; i < l->passes; i++)
			add_pass(b, &o, bank, i, &time);
	}
	return time;
}

int64_t rivulet_lanes_pitch(const struct rivulet_board *b, int64_t cols)
{
	int64_t rest = (RIVULET_LANES_SKEW - cols) % (int64_t)b->dn;

	return cols + (rest < 0 ? rest + b->dn : rest);
}
