// SPDX-License-Identifier: MIT
/*
 * CONV: a working cycle processes one pixel; a stochastic CONV takes a computed number of cycles.
 * A sparse one reads WGT twice in each inner loop, which then has two cycles at least; a binary one
 * reads it tn / dn times. A taps or a binary one reads several banks of INP in a cycle.
 * docs/isa.md 3.5.
 */
#include "machine.h"

static const struct cyc_want nothing = { CYC_NONE, 0 };

static uint64_t stochastic_cycles(const struct cyc_machine *m)
{
	const struct rivulet_board *b = m->board;
	const struct cyc_conv *c = &m->conv;
	const struct rivulet_insn_c_mode *s = &m->config.c_mode;
	const uint32_t mcycles[] = { b->sc_and_bin_mcycles, b->sc_and_loop_mcycles,
				     b->sc_and_acc_mcycles, b->sc_and_sep_mcycles,
				     b->sc_ugemm_mcycles,   b->sc_xnor_mux_mcycles };
	uint64_t in = s->valid ? s->valid : c->v.icb * b->tn;
	uint64_t out = s->out ? s->out : c->v.ocb * b->tm;
	uint64_t products = c->v.rows * c->v.cols * c->k.kh * c->k.kw * in * out;
	uint64_t part = cyc_up(s->length, b->sc_blocks);
	uint64_t unit = 1000ull * b->sc_lanes;

	return (products * part * mcycles[s->circuit] + unit - 1) / unit + CYC_FILL;
}

/* Taps are numbered by lane, then in their order; a lane has as many as there are passes at most. */
static int64_t lane_of(const struct cyc_machine *m, int64_t tap)
{
	const struct rivulet_insn_c_kernel *k = &m->conv.k;

	return (3 * (tap / k->kw) * k->dy + tap % k->kw * k->dx) % m->board->dn;
}

static void count_passes(struct cyc_machine *m)
{
	struct cyc_conv *c = &m->conv;

	int64_t taps = c->k.kh * c->k.kw, lane[31 * 31];

	c->passes = 0;
	for (int64_t tap = 0; tap < taps; tap++)
		lane[tap] = lane_of(m, tap);
	for (int64_t tap = 0; tap < taps; tap++) {
		int64_t same = 0;

		c->pass_of[tap] = 0;
		for (int64_t other = 0; other < taps; other++) {
			same += lane[other] == lane[tap];
			c->pass_of[tap] += lane[other] < lane[tap] ||
					   (lane[other] == lane[tap] && other < tap);
		}
		c->passes = cyc_max(c->passes, same);
	}
	for (int64_t tap = 0; tap < taps; tap++)
		c->pass_of[tap] %= c->passes;
}

/*
 * The turns of the pixel at hand at each bank, and the banks that are read in this turn; columns
 * outside the bounds have turns without a read.
 */
static uint64_t bank_turns(const struct cyc_machine *m, int64_t *turns)
{
	const struct cyc_conv *c = &m->conv;
	int64_t used[64] = { 0 };
	uint64_t banks = 0;

	*turns = 1;
	for (int64_t tap = 0; tap < c->k.kh * c->k.kw; tap++) {
		int64_t ty = c->y * c->k.sy + tap / c->k.kw * c->k.dy + c->k.org_y;
		int64_t tx = c->x * c->k.sx + tap % c->k.kw * c->k.dx + c->k.org_x, bank;
		int64_t ring = c->in.wrap ? (c->in.phase + ty) % c->in.wrap : ty;

		if (c->pass_of[tap] != c->pass || ty < 0 || ty >= c->in.rows)
			continue;
		bank = c->v.inp + c->o * c->out.inp_oc_pitch + c->i * c->in.blk_pitch +
		       ring * c->in.row_pitch + tx;
		bank = (bank % m->board->dn + m->board->dn) % m->board->dn;
		if (used[bank]++ == c->turn && tx >= 0 && tx < c->in.cols)
			banks |= 1ull << bank;
		*turns = cyc_max(*turns, used[bank]);
	}
	return banks;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return (a - ((a % b + b) % b)) / b;
}

/*
 * The turns of the pixel at hand in a binary pass, and the banks that are read in this turn. The
 * taps of a pass that lie in one word read it once.
 */
static uint64_t word_turns(const struct cyc_machine *m, int64_t *turns)
{
	const struct cyc_conv *c = &m->conv;
	int64_t used[64] = { 0 }, seen[4][2], words = 0;
	uint64_t banks = 0;

	*turns = 1;
	for (int64_t tap = c->pass * c->pixels; tap < (c->pass + 1) * c->pixels; tap++) {
		int64_t ty = c->y * c->k.sy + tap / c->k.kw * c->k.dy + c->k.org_y;
		int64_t tx = c->x * c->k.sx + tap % c->k.kw * c->k.dx + c->k.org_x;
		int64_t ring = c->in.wrap ? (c->in.phase + ty) % c->in.wrap : ty;
		int64_t col = floor_div(tx, c->pixels), bank;
		bool again = false;

		if (tap >= c->k.kh * c->k.kw || ty < 0 || ty >= c->in.rows)
			continue;
		bank = c->v.inp + c->o * c->out.inp_oc_pitch + c->i * c->in.blk_pitch +
		       ring * c->in.row_pitch + col;
		bank -= floor_div(bank, m->board->dn) * m->board->dn;
		for (int64_t i = 0; i < words; i++)
			again = again || (seen[i][0] == ring && seen[i][1] == col);
		if (again)
			continue;
		seen[words][0] = ring;
		seen[words++][1] = col;
		if (used[bank]++ == c->turn)
			banks |= 1ull << bank;
		*turns = cyc_max(*turns, used[bank]);
	}
	return banks;
}

void cyc_conv_start(struct cyc_machine *m, uint32_t index)
{
	struct cyc_conv *c = &m->conv;

	*c = (struct cyc_conv){ .active = true,
				.index = index,
				.v = m->insn[index].conv,
				.k = m->config.c_kernel,
				.in = m->config.c_input,
				.out = m->config.c_out,
				.passes = m->board->tn / m->board->dn };
	c->reads = 1;
	if (c->v.mode == RIVULET_MODE_SPARSE) {
		c->passes = cyc_up(m->config.c_mode.dn, m->board->dn);
		c->reads = 2;
	}
	if (c->v.mode == RIVULET_MODE_TAPS)
		count_passes(m);
	if (c->v.mode == RIVULET_MODE_BINARY) {
		c->pixels = 1ll << m->config.c_mode.lanes;
		c->passes = cyc_up(c->k.kh * c->k.kw, c->pixels);
		c->reads = m->board->tn / m->board->dn;
	}
	if (c->v.mode == RIVULET_MODE_BITPLANE)
		cyc_planes_start(m);
	if (c->v.mode != RIVULET_MODE_STOCHASTIC)
		return;
	m->times[index].end = m->now + stochastic_cycles(m);
	c->active = false;
}

/* The word of ACC that a working cycle reads and writes. */
struct cyc_want cyc_conv_wants(const struct cyc_machine *m)
{
	const struct cyc_conv *c = &m->conv;
	int64_t x = c->x;

	if (!c->active)
		return nothing;
	if (c->idle || (c->v.mode == RIVULET_MODE_BITPLANE && !cyc_planes_writes(c, &x)))
		return (struct cyc_want){ CYC_FREE, 0 };
	return cyc_acc(m, c->v.acc + c->o * c->out.blk_pitch + c->y * c->out.row_pitch + x);
}

/* The banks of INP that a working cycle reads. */
uint64_t cyc_conv_banks(const struct cyc_machine *m)
{
	const struct cyc_conv *c = &m->conv;
	int64_t ty = c->y * c->k.sy + c->ky * c->k.dy + c->k.org_y, turns, x = c->x;
	int64_t ring = c->in.wrap ? (c->in.phase + ty) % c->in.wrap : ty, tx;

	if (c->v.mode == RIVULET_MODE_BITPLANE && !cyc_planes_looks(c, &x))
		return 0;
	tx = x * c->k.sx + c->kx * c->k.dx + c->k.org_x;
	if (c->v.mode == RIVULET_MODE_TAPS)
		return bank_turns(m, &turns);
	if (c->v.mode == RIVULET_MODE_BINARY)
		return c->idle ? 0 : word_turns(m, &turns);
	if (c->idle || ty < 0 || ty >= c->in.rows || tx < 0 || tx >= c->in.cols)
		return 0;
	return 1ull << cyc_inp(m, c->v.inp + c->o * c->out.inp_oc_pitch + c->i * c->in.blk_pitch +
					  ring * c->in.row_pitch + tx).unit;
}

/* Whether a working cycle reads the weights of a pass. */
bool cyc_conv_reads_weights(const struct cyc_machine *m)
{
	const struct cyc_conv *c = &m->conv;

	return c->v.mode == RIVULET_MODE_BITPLANE ? cyc_planes_reads(c) : c->loop < c->reads;
}

/* Counts @n up to @end. Returns true when it starts again at 0. */
static bool wraps(int64_t *n, int64_t end)
{
	if (++*n < end)
		return false;
	*n = 0;
	return true;
}

/* Whether the pixel at hand is the last of its inner loop, and this is its last turn. */
static bool ends_loop(struct cyc_machine *m, bool all_taps)
{
	struct cyc_conv *c = &m->conv;
	int64_t turns = 1;

	if (all_taps && c->v.mode == RIVULET_MODE_TAPS)
		bank_turns(m, &turns);
	else if (all_taps)
		word_turns(m, &turns);
	return wraps(&c->turn, turns) && wraps(&c->x, c->v.cols) && wraps(&c->y, c->v.rows);
}

/* Does the work of a working cycle. */
void cyc_conv_step(struct cyc_machine *m)
{
	struct cyc_conv *c = &m->conv;
	bool all_taps = c->v.mode == RIVULET_MODE_TAPS || c->v.mode == RIVULET_MODE_BINARY;

	if (c->v.mode == RIVULET_MODE_BITPLANE) {
		if (!cyc_planes_step(c))
			return;
		m->times[c->index].end = m->now + 1 + CYC_FILL;
		c->active = false;
		return;
	}
	c->loop++;
	if (!c->idle && !ends_loop(m, all_taps))
		return;
	/* All pixels are done, and reads of WGT may be left. */
	c->idle = c->loop < c->reads;
	if (c->idle)
		return;
	c->loop = 0;
	if (!wraps(&c->pass, c->passes) || !wraps(&c->kx, all_taps ? 1 : c->k.kw) ||
	    !wraps(&c->ky, all_taps ? 1 : c->k.kh) || !wraps(&c->i, c->v.icb) ||
	    !wraps(&c->o, c->v.ocb))
		return;
	m->times[c->index].end = m->now + 1 + CYC_FILL;
	c->active = false;
}
