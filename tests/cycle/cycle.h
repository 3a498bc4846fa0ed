/* SPDX-License-Identifier: MIT */
/*
 * The cycle-stepped model: the time of a command stream by the rules of docs/isa.md 3, computed
 * cycle by cycle. It moves no data. Byte 0 of every slot is at the start of a page.
 */
#ifndef RVL_TEST_CYCLE_H
#define RVL_TEST_CYCLE_H

#include <stddef.h>
#include <stdint.h>

#include "rivulet_board.h"
#include "rivulet_isa.h"

/** struct cyc_times - the cycles at which one instruction started and ended */
struct cyc_times {
	uint64_t start, end;
};

/** struct cyc_result - times of a job, by queue where there is an index */
struct cyc_result {
	uint64_t cycles;
	uint64_t busy[RIVULET_QUEUES]; /* as *_busy of the status (isa.md 3.7) */
	uint64_t span[RIVULET_QUEUES]; /* from start to end, LOAD, CONV, ALU, STORE only */
};

/**
 * cyc_run() - step a command stream to its end
 * @at: bus address of the first instruction, modulo 4096
 * @times: NULL, or one element for each of the @count instructions
 * Returns 0; -EINVAL if an instruction cannot be decoded or the last is not END, -EDEADLK if no
 * further event is possible, -ENOMEM.
 */
int cyc_run(const struct rivulet_board *b, const struct rivulet_insn *code, uint32_t count,
	    uint64_t at, struct cyc_result *r, struct cyc_times *times);

#endif
