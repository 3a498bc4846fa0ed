/* SPDX-License-Identifier: MIT */
/*
 * Static proof that a command stream is sound: legal instructions, balanced tokens, no deadlock, no
 * hazard in a scratchpad or in memory. Independent of time: only what tokens order counts as
 * ordered.
 */
#ifndef RVL_ISA_CHECK_H
#define RVL_ISA_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "rivulet_board.h"
#include "rivulet_dev.h"
#include "rivulet_isa.h"

#define RVL_ISA_NO_INSN UINT32_MAX

/* P(NAME, meaning) */
#define RVL_ISA_PROBLEMS(P)                                                                        \
	P(NONE, "sound")                                                                           \
	P(ILLEGAL, "the device would refuse the instruction")                                      \
	P(SPAD, "an address outside a scratchpad")                                                 \
	P(SLOT, "bytes outside a slot, an unbound slot, or a write to a read-only one")            \
	P(NO_END, "the last instruction is not END, or END stands elsewhere")                      \
	P(TOKEN_MISSING, "a pop that no push serves")                                              \
	P(TOKEN_LEFT, "a push that no pop takes")                                                  \
	P(TOKEN_OVERFLOW, "a counter could pass 255")                                              \
	P(DEADLOCK,                                                                                \
	  "queues that wait for each other, or a queue too short for the order of the stream")     \
	P(RAW, "a read that nothing orders after a write it may need")                             \
	P(WAR, "a write that nothing orders after a read of the old value")                        \
	P(WAW, "two writes that nothing orders")                                                   \
	P(UNWRITTEN, "a read of words that were never written")

#define RVL_ISA_PROBLEM_ENUM(name, doc) RVL_ISA_##name,
enum rvl_isa_problem { RVL_ISA_PROBLEMS(RVL_ISA_PROBLEM_ENUM) };

/** struct rvl_isa_slot - what will be bound to a region slot; size 0: nothing */
struct rvl_isa_slot {
	uint64_t size;
	bool write;
};

/**
 * struct rvl_isa_report - the first problem found
 * @first, @second: instructions by index in the stream, RVL_ISA_NO_INSN where there is none
 * @mem, @word: where in a scratchpad; RIVULET_MEMS and a byte offset where in memory
 * @text: one line that names the problem and disassembles both
 */
struct rvl_isa_report {
	enum rvl_isa_problem problem;
	uint32_t first, second;
	enum rivulet_mem mem;
	uint64_t word;
	char text[1024];
};

/**
 * rvl_isa_check() - prove a command stream sound on @b
 * @slots: RIVULET_SLOTS entries, no two of the same memory; NULL leaves slots unchecked
 * Scratchpads count as unwritten when the stream starts. Time is linear in instructions and in the
 * contiguous pieces that they touch. Returns 0, -EINVAL with @out, or -ENOMEM.
 */
int rvl_isa_check(const struct rivulet_board *b, const struct rivulet_insn *stream, uint32_t count,
		  const struct rvl_isa_slot *slots, struct rvl_isa_report *out);

/** rvl_isa_problem_name() - "RAW" ... for messages */
const char *rvl_isa_problem_name(enum rvl_isa_problem p);

#endif
