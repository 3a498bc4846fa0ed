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

/* Taps of a pass, and the cycles of a pixel in it. */
struct pass {
	uint32_t taps, cycles;
	uint8_t bank[LANES_MOST]; /* turns at each bank */
};

/* Counts the turns of result row @y in all passes. */
static void count_row(const struct rivulet_board *b, const struct rivulet_lanes *l,
		      const struct rivulet_insn_c_kernel *k, const struct rivulet_insn_c_input *in,
		      int64_t y, uint32_t pass, struct pass *p)
{
	*p = (struct pass){ .cycles = 1 };
	for (uint32_t t = 0; t < l->taps; t++) {
		int64_t row = y * k->sy + t / k->kw * k->dy + k->org_y;
		int64_t col = t % k->kw * k->dx, bank;

		if (l->tap[t].pass != pass || row < 0 || row >= in->rows)
			continue;
		if (in->wrap)
			row = (in->phase + row) % in->wrap;
		bank = (row * in->row_pitch + col) % b->dn;
		p->taps++;
		if (++p->bank[bank] > p->cycles)
			p->cycles = p->bank[bank];
	}
}

static uint32_t taps_of(const struct rivulet_lanes *l, uint32_t pass)
{
	uint32_t n = 0;

	for (uint32_t t = 0; t < l->taps; t++)
		n += l->tap[t].pass == pass;
	return n;
}

struct rivulet_lanes_time rivulet_lanes_time(const struct rivulet_board *b,
					     const struct rivulet_lanes *l,
					     const struct rivulet_insn_c_kernel *k,
					     const struct rivulet_insn_c_input *in, int64_t rows)
{
	bool clear = in->row_pitch % b->dn == RIVULET_LANES_SKEW % b->dn &&
		     !(in->wrap * in->row_pitch % b->dn);
	struct rivulet_lanes_time time = { 0, 0 };

	for (uint32_t i = 0; i < l->passes; i++) {
		struct pass p = { taps_of(l, i), 1, { 0 } };

		for (int64_t y = 0; y < (clear ? 1 : rows); y++) {
			if (!clear)
				count_row(b, l, k, in, y, i, &p);
			time.cycles += p.cycles * (clear ? rows : 1);
			time.full += p.taps == p.cycles * b->dn ? p.cycles * (clear ? rows : 1) : 0;
		}
	}
	return time;
}

int64_t rivulet_lanes_pitch(const struct rivulet_board *b, int64_t cols)
{
	int64_t rest = (RIVULET_LANES_SKEW - cols) % (int64_t)b->dn;

	return cols + (rest < 0 ? rest + b->dn : rest);
}
