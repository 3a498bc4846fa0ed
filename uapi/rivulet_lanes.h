/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Tap lanes: depthwise CONV takes dn taps of a channel at once, one from each bank of INP
 * (docs/isa.md 5).
 */
#ifndef RIVULET_LANES_H
#define RIVULET_LANES_H

#include "rivulet_board.h"
#include "rivulet_isa.h"

#define RIVULET_LANES_SKEW 3 /* row pitch, modulo dn, for which no taps of a pass conflict */
#define RIVULET_LANES_TAPS (31 * 31)

/** struct rivulet_lane - where a tap is computed */
struct rivulet_lane {
	uint16_t pass;
	uint8_t lane;
};

/** struct rivulet_lanes - the passes of a kernel, and the taps in the order ky, kx */
struct rivulet_lanes {
	uint32_t passes, taps;
	uint32_t words; /* of WGT, of a pass */
	uint32_t align; /* WGT words; every block begins at a multiple of it */
	struct rivulet_lane tap[RIVULET_LANES_TAPS];
};

/** rivulet_lanes_of() - @k has at most 31 x 31 taps */
void rivulet_lanes_of(const struct rivulet_board *b, const struct rivulet_insn_c_kernel *k,
		      struct rivulet_lanes *l);

/**
 * struct rivulet_lanes_time - cycles of one column of @rows pixels, all passes
 * @full: of them, those that read all banks of INP
 */
struct rivulet_lanes_time {
	uint64_t cycles, full;
};

/** rivulet_lanes_time() - with the conflicts of the rows at @in */
struct rivulet_lanes_time rivulet_lanes_time(const struct rivulet_board *b,
					     const struct rivulet_lanes *l,
					     const struct rivulet_insn_c_kernel *k,
					     const struct rivulet_insn_c_input *in, int64_t rows);

/** rivulet_lanes_pitch() - the least row pitch from @cols on that has no conflict without a ring */
int64_t rivulet_lanes_pitch(const struct rivulet_board *b, int64_t cols);

/** rivulet_lanes_channel() - byte of the INP word that row @m of output block @o multiplies */
static inline uint32_t rivulet_lanes_channel(const struct rivulet_board *b,
					     const struct rivulet_insn_c_mode *mode, int64_t o,
					     uint32_t m)
{
	return (mode->first + o * b->tm + m) / (mode->mult ? mode->mult : 1) % b->tn;
}

#endif
