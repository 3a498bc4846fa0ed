// SPDX-License-Identifier: MIT
/* The daemon's clock. */
#include "util.h"

static uint64_t monotonic(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

uint64_t (*rvl_clock)(void) = monotonic;
