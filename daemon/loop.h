/* SPDX-License-Identifier: MIT */
/* The event loop, measured: how long one of its callbacks keeps all clients waiting. */
#ifndef RVL_LOOP_H
#define RVL_LOOP_H

#include <stdint.h>
#include <systemd/sd-event.h>

#include "peak.h"

/** struct rvl_loop - CLOCK_MONOTONIC, so time that other processes took from the callback counts */
struct rvl_loop {
	uint64_t stall_ns;	/* longest callback since the start */
	uint64_t busy_ns;	/* all callbacks */
	uint64_t turns;		/* number of callbacks */
	struct rvl_peak recent;	/* longest callback, ns, by minutes */
};

/** rvl_loop_run() - as sd_event_loop(): until sd_event_exit() or an exit signal; its code or an error */
int rvl_loop_run(struct rvl_loop *loop, sd_event *event);
/** rvl_loop_recent() - longest callback of the last one to two minutes, ns */
uint64_t rvl_loop_recent(const struct rvl_loop *loop);

#endif
