/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The work of CONV and ALU, and how they delay each other at ACC and WGT (docs/isa.md 3.5, 3.6).
 * While two engines work at the same time, each delay is a constant reduction of the rate of work.
 * Internal to uapi/.
 */
#ifndef RIVULET_WORK_H
#define RIVULET_WORK_H

#include "rivulet_cost.h"

#define WORK_UNIT 1024u /* a cycle's work; a rate of 1024 is full speed */

/* Work that is done at a rate. */
struct worker {
	bool on;
	uint64_t left, since; /* in 1/1024 cycles, at cycle @since */
	uint32_t rate;
	uint32_t low, high; /* of 1024 words of ACC that it accesses, the number in each half */
};

enum alu_stage { ALU_TABLE, ALU_SETUP, ALU_RESULTS, ALU_DRAIN };

struct work {
	uint64_t half; /* words of ACC in its lower half */
	struct worker conv, alu;
	uint64_t loop; /* CONV: cycles of the inner loop; 0: CONV delays no other engine */
	uint64_t weights; /* CONV: of these, cycles that read WGT */
	uint64_t full;	  /* CONV: of 1024 cycles, those that read all banks of INP */
	enum alu_stage stage;
	struct rivulet_cost cost; /* ALU */
	uint64_t blocks;	  /* ALU: not yet done, including the present one */
	uint32_t writes;	  /* ALU: INP words written in 1024 result cycles */
};

/** work_start() - a CONV or ALU starts */
void work_start(struct work *w, const struct rivulet_config *c, const struct rivulet_event *e,
		uint64_t now);
/** work_end() - its end if nothing changes, or UINT64_MAX if that is not known yet */
uint64_t work_end(const struct work *w, enum rivulet_form form);
void work_done(struct work *w, enum rivulet_form form, uint64_t now);
/**
 * work_change() - the cycle in which the ALU enters its next stage, for work_run(), or UINT64_MAX
 */
uint64_t work_change(const struct work *w);
/**
 * work_run() - the ALU enters its next stage at cycle @now, and those that follow it before cycle @until
 * and before the end of CONV
 *
 * Return: the cycle in which it entered the last of them
 */
uint64_t work_run(struct work *w, uint64_t now, uint64_t until);
/** work_inp_writes() - words that the ALU writes to INP in 1024 cycles at its present rate */
uint32_t work_inp_writes(const struct work *w);
/** work_inp_delay() - of 1024 words that STORE reads from INP, the cycles that it waits for CONV */
uint32_t work_inp_delay(const struct work *w);
/**
 * work_delay_conv() - transfer @d takes @words cycles from CONV, as far as both use the same half
 * of ACC
 */
void work_delay_conv(struct work *w, const struct rivulet_config *c,
		     const struct rivulet_decoded *d, uint64_t words, uint64_t now);

#endif
