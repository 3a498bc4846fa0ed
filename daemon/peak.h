/* SPDX-License-Identifier: MIT */
/* The highest of recent values: those of the epoch at hand and of the one before. */
#ifndef RVL_PEAK_H
#define RVL_PEAK_H

#include <stdint.h>

/** struct rvl_peak - zeroed: nothing was seen */
struct rvl_peak {
	uint64_t epoch, highest, before;
};

/** rvl_peak_add() - take a value; @epoch, which never falls, is the caller's clock or counter */
static inline void rvl_peak_add(struct rvl_peak *p, uint64_t epoch, uint64_t value)
{
	if (epoch != p->epoch) {
		p->before = epoch == p->epoch + 1 ? p->highest : 0;
		p->highest = 0;
		p->epoch = epoch;
	}
	p->highest = value > p->highest ? value : p->highest;
}

/** rvl_peak() - the highest value since the epoch before the last one */
static inline uint64_t rvl_peak(const struct rvl_peak *p)
{
	return p->highest > p->before ? p->highest : p->before;
}

#endif
