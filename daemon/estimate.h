/* SPDX-License-Identifier: MIT */
/* Times and levels of a program. */
#ifndef RVL_ESTIMATE_H
#define RVL_ESTIMATE_H

#include <stdint.h>

#include "rivulet_board.h"

struct rvl_program;

/** struct rvl_override - 1 + the level whose variant or clock all levels use; 0: each its own */
struct rvl_override {
	uint32_t variant, clock;
};
/**
 * rvl_program_expected_ns() - the usual time of one run at @level of @board
 * The time measured at that level; without one, the time measured at another level, scaled by the
 * compiler's estimates for the two; without that, the compiler's estimate. 0: @board has no such
 * level (no device).
 */
uint64_t rvl_program_expected_ns(const struct rvl_program *p, const struct rivulet_board *board,
				 uint32_t level, struct rvl_override over);
/**
 * rvl_program_worst_ns() - the time that one run takes at most at @level of @board
 * An eighth more than the longest of the recent runs there; else than the expected time.
 */
uint64_t rvl_program_worst_ns(const struct rvl_program *p, const struct rivulet_board *board,
			      uint32_t level, struct rvl_override over);
/**
 * rvl_program_promised_ns() - the time that admission counts for one run at @level of @board
 * The worst time. A program that has run at no level has only the estimate of its user's file, and
 * counts at least @any, the longest recent run of any program.
 */
uint64_t rvl_program_promised_ns(const struct rvl_program *p, const struct rivulet_board *board,
				 uint32_t level, struct rvl_override over, uint64_t any);
/**
 * rvl_program_accurate() - levels from which on upward the program's expected accuracy is @ppm
 * Returns a mask within @p->levels; 0: no level reaches it, or it is not known.
 */
uint32_t rvl_program_accurate(const struct rvl_program *p, uint32_t ppm);

#endif
