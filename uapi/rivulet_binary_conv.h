/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Binary CONV: which taps share a pass, and the cycles of the passes with the conflicts of their
 * words in the banks of INP (docs/isa.md 3.5, 5).
 */
#ifndef RIVULET_BINARY_CONV_H
#define RIVULET_BINARY_CONV_H

#include "rivulet_board.h"
#include "rivulet_isa.h"

#define RIVULET_BINARY_LANES 4 /* taps of a pass at most */

/** struct rivulet_binary - the passes of a kernel */
struct rivulet_binary {
	uint32_t lanes;	   /* taps of a pass, and pixels of an INP word */
	uint32_t channels; /* of a pixel of a block */
	uint32_t taps, passes;
	uint32_t reads;	   /* of WGT in an inner loop */
	uint32_t words;	   /* of WGT, of a pass */
};

/** rivulet_binary_of() - @lanes_log2 is C_MODE.lanes, below 3 */
struct rivulet_binary rivulet_binary_of(const struct rivulet_board *b, uint32_t lanes_log2,
					const struct rivulet_insn_c_kernel *k);

/**
 * struct rivulet_binary_time - cycles of all passes of one input block and output block
 * @full: of them, those that read all banks of INP
 */
struct rivulet_binary_time {
	uint64_t cycles, full;
};

struct rivulet_binary_time rivulet_binary_time(const struct rivulet_board *b,
					       const struct rivulet_binary *n,
					       const struct rivulet_insn_c_kernel *k,
					       const struct rivulet_insn_c_input *in, int64_t rows,
					       int64_t cols);

/** rivulet_binary_clear() - whether rows at a pitch of @words have no conflict without a ring */
bool rivulet_binary_clear(const struct rivulet_board *b, const struct rivulet_binary *n,
			  const struct rivulet_insn_c_kernel *k, int64_t words);

/** rivulet_binary_channels() - input channels [@from, @to) of a CONV that are valid */
void rivulet_binary_channels(const struct rivulet_board *b, const struct rivulet_insn_c_mode *m,
			     const struct rivulet_insn_conv *v, uint64_t *from, uint64_t *to);

#endif
