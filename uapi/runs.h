/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* Division of runs of bytes into bursts of the DMA port (docs/isa.md 3.2). Internal to uapi/. */
#ifndef RIVULET_RUNS_H
#define RIVULET_RUNS_H

#include <stdint.h>

#include "rivulet_cost.h"

#define RUN_DIMS     3

/** struct rivulet_runs - dim[0].n x dim[1].n x dim[2].n runs of @len bytes at the pitches given */
struct rivulet_runs {
	uint64_t at; /* address of the first one */
	uint64_t len;
	struct {
		uint64_t n, pitch;
	} dim[RUN_DIMS];
};

/** struct rivulet_bursts - bursts, and beats of all of them */
struct rivulet_bursts {
	uint64_t bursts, beats;
};

/** rivulet_bursts_add() - add the bursts of all runs of @r, whose counts are 1 or more, to @sum */
void rivulet_bursts_add(const struct rivulet_board *b, const struct rivulet_runs *r,
			struct rivulet_bursts *sum);

#endif
