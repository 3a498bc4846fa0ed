// SPDX-License-Identifier: MIT
/* How long a program takes at a level, and how accurate it is there. */
#include "cache.h"
#include "estimate.h"
#include "peak.h"
#include "rivulet_board.h"
#include "util.h"

/*
 * The highest estimate. Cycle counts come from the user's file, and sums of estimates must neither wrap
 * nor keep others from being promised anything for ever.
 */
#define RECKONED_MAX (3600 * NSEC_PER_SEC)

static uint64_t add_sat(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The compiler's estimate; 0: the board has no such level. */
static uint64_t reckoned_ns(const struct rvl_program *p, const struct rivulet_board *b, uint32_t level,
			    struct rvl_override over)
{
	uint32_t variant = over.variant ? over.variant - 1 : level;
	uint32_t clock = over.clock ? over.clock - 1 : level;
	double ns;

	if (level >= b->levels || !b->level[clock].hz)
		return 0;
	ns = (double)p->cycles_at[variant] * 1e9 / (double)b->level[clock].hz;
	return ns < (double)RECKONED_MAX ? (uint64_t)ns : RECKONED_MAX;
}

static uint64_t usual(const struct rvl_level_stat *at)
{
	return at->measured_ns;
}

static uint64_t longest(const struct rvl_level_stat *at)
{
	return rvl_peak(&at->longest);
}

/*
 * What @measured says of @level. Where nothing was measured at @level, the estimate, plus the
 * longest time that runs at another level took beyond their own estimate: host and CPU steps.
 */
static uint64_t time_at(const struct rvl_program *p, const struct rivulet_board *board, uint32_t level,
			struct rvl_override over, uint64_t (*measured)(const struct rvl_level_stat *at))
{
	uint64_t here = reckoned_ns(p, board, level, over), there, extra = 0;

	if (level >= board->levels)
		return 0;
	if (measured(&p->at[level]))
		return measured(&p->at[level]);
	for (uint32_t l = 0; l < board->levels; l++) {
		there = reckoned_ns(p, board, l, over);
		if (measured(&p->at[l]) > there && measured(&p->at[l]) - there > extra)
			extra = measured(&p->at[l]) - there;
	}
	return add_sat(here, extra);
}

uint64_t rvl_program_expected_ns(const struct rvl_program *p, const struct rivulet_board *board,
				 uint32_t level, struct rvl_override over)
{
	return time_at(p, board, level, over, usual);
}

uint64_t rvl_program_worst_ns(const struct rvl_program *p, const struct rivulet_board *board,
			      uint32_t level, struct rvl_override over)
{
	uint64_t ns = time_at(p, board, level, over, longest);

	return add_sat(ns, ns / 8);
}

static bool is_measured(const struct rvl_program *p)
{
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		if (p->at[l].runs)
			return true;
	return false;
}

uint64_t rvl_program_promised_ns(const struct rvl_program *p, const struct rivulet_board *board,
				 uint32_t level, struct rvl_override over, uint64_t any)
{
	uint64_t worst = rvl_program_worst_ns(p, board, level, over);

	return is_measured(p) || worst > any ? worst : any;
}

uint32_t rvl_program_accurate(const struct rvl_program *p, uint32_t ppm)
{
	uint32_t mask = 0;

	for (uint32_t l = RIVULET_LEVELS; l-- > 0;) {
		if (!(p->levels >> l & 1))
			continue;
		/* Levels that this board does not have say nothing. */
		if (!p->file->level[l].accuracy && !mask)
			continue;
		if (p->file->level[l].accuracy < ppm)
			break;
		mask |= 1u << l;
	}
	return mask;
}
