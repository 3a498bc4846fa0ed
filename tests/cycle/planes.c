// SPDX-License-Identifier: MIT
/*
 * Bit-plane CONV: for each group of pixels all taps, the fold, and the results; docs/isa.md 3.5.
 */
#include "machine.h"

void cyc_planes_start(struct cyc_machine *m)
{
	const struct rivulet_insn_c_mode *s = &m->config.c_mode;
	int64_t engines = m->board->tm * m->board->dn,
		slices = cyc_up(m->board->tm * s->planes, s->group);
	struct cyc_planes *p = &m->conv.planes;

	*p = (struct cyc_planes){ .rows = s->dn, .first = s->dn < m->board->tn, .most = 1 };
	while (p->most * 2 <= 4 * m->board->dn && p->most * 2 * slices <= engines)
		p->most *= 2;
	/* One of the two quotients is 0, or both are 1. */
	p->parts = cyc_max(s->planes / s->group, s->group / s->planes);
	for (int64_t a = 0; a < s->group; a++)
		p->fold += 2 * (1ll << a) + 1;
	p->row_bits = m->board->tm * s->planes;
	p->piece_bits = 8 * m->board->tm * m->board->dn;
}

static int64_t pixels(const struct cyc_conv *c)
{
	return cyc_min(c->planes.most, c->v.cols - c->x);
}

bool cyc_planes_writes(const struct cyc_conv *c, int64_t *column)
{
	*column = c->x + c->loop % pixels(c);
	return c->planes.phase == CYC_PLANES_RESULTS;
}

/* Whether a row has bits of a piece that no row before it has. */
bool cyc_planes_reads(const struct cyc_conv *c)
{
	const struct cyc_planes *p = &c->planes;
	int64_t row = c->loop - p->first;

	if (p->phase != CYC_PLANES_TAP || row >= p->rows)
		return false;
	if (row < 0)
		return true;
	for (int64_t bit = row * p->row_bits; bit < (row + 1) * p->row_bits; bit++)
		if (bit % p->piece_bits == 0)
			return true;
	return false;
}

/* The column of the pixel whose word is read in this cycle. */
bool cyc_planes_looks(const struct cyc_conv *c, int64_t *column)
{
	*column = c->x + c->loop;
	return c->planes.phase == CYC_PLANES_TAP && c->loop < pixels(c);
}

static int64_t phase_cycles(const struct cyc_conv *c)
{
	const struct cyc_planes *p = &c->planes;

	if (p->phase == CYC_PLANES_TAP)
		return cyc_max(p->rows + p->first, pixels(c));
	return p->phase == CYC_PLANES_FOLD ? p->fold : pixels(c) * p->parts;
}

static bool wraps(int64_t *n, int64_t end)
{
	if (++*n < end)
		return false;
	*n = 0;
	return true;
}

/* Does the work of a working cycle. Returns whether it was the last one. */
bool cyc_planes_step(struct cyc_conv *c)
{
	struct cyc_planes *p = &c->planes;

	if (++c->loop < phase_cycles(c))
		return false;
	c->loop = 0;
	if (p->phase == CYC_PLANES_TAP) {
		if (wraps(&c->kx, c->k.kw) && wraps(&c->ky, c->k.kh) && wraps(&c->i, c->v.icb))
			p->phase = CYC_PLANES_FOLD;
		return false;
	}
	if (p->phase == CYC_PLANES_FOLD) {
		p->phase = CYC_PLANES_RESULTS;
		return false;
	}
	p->phase = CYC_PLANES_TAP;
	c->x += pixels(c);
	if (c->x < c->v.cols)
		return false;
	c->x = 0;
	return wraps(&c->y, c->v.rows) && wraps(&c->o, c->v.ocb);
}
