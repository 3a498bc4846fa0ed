/* SPDX-License-Identifier: MIT */
/* Random instructions that no compiler emits: any layout, unaligned, with many conflicts. */
#ifndef RVL_TEST_CYCLE_STREAMS_H
#define RVL_TEST_CYCLE_STREAMS_H

#include <stdint.h>

#include "rivulet_board.h"
#include "rivulet_isa.h"

#define CYC_STREAM_MOST 512

/**
 * cyc_random_stream() - a stream that ends, of at most CYC_STREAM_MOST instructions including END
 * The stream is not sound (isa.md 8): engines may access the same words at the same time. Its time
 * is defined nevertheless. Returns the number of instructions.
 */
uint32_t cyc_random_stream(const struct rivulet_board *b, uint64_t seed, struct rivulet_insn *code);

#endif
