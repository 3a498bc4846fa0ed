/* SPDX-License-Identifier: MIT */
/* Long work: progress on standard error, and an interrupt that leaves time to print results. */
#ifndef RVL_TOOL_PROGRESS_H
#define RVL_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct rvl_progress - work of one or several parts; all zero before the first
 * On a terminal one line is rewritten from 0.5 s on; elsewhere a line is printed every @every
 * seconds, so that a short command prints none and a log of a long one stays short.
 */
struct rvl_progress {
	char what[96];	/* printed in front */
	const char *unit;
	uint64_t total; /* 0: unknown */
	double every;	/* seconds between lines; 0: 10 */
	double started, last;
	bool terminal, shown;
};

/** rvl_progress_start() - begin a part; @unit is what is counted, in the plural */
void rvl_progress_start(struct rvl_progress *p, uint64_t total, const char *unit, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/** rvl_progress_at() - @done of the total; prints when it is time */
void rvl_progress_at(struct rvl_progress *p, uint64_t done);
/** rvl_progress_end() - remove the line from the terminal, after the last part */
void rvl_progress_end(struct rvl_progress *p);

/**
 * rvl_interrupt_catch() - from now on the first SIGINT or SIGTERM is only noted
 * The second one ends the process. A signal that the parent ignores stays ignored.
 */
void rvl_interrupt_catch(void);
/** rvl_interrupted() - the signal's number, 0 while there was none */
int rvl_interrupted(void);
/** rvl_interrupt_reset() - forget it, and let signals end the process again */
void rvl_interrupt_reset(void);

#endif
