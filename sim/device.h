/* SPDX-License-Identifier: MIT */
/* The device around the queue. Server and tests use it for what rivulet_sim.h does not offer. */
#ifndef RVL_SIM_DEVICE_H
#define RVL_SIM_DEVICE_H

#include <stdio.h>

#include "inject.h"
#include "queue.h"
#include "rivulet_sim.h"

/* initial reading of the sensor; the model does not simulate heat */
#define RVL_ROOM_MDEG	25000

/**
 * struct rvl_exec - one program on the core; between start() and @done only the runner accesses it
 */
struct rvl_exec {
	struct rvl_core *core;
	struct rvl_job job;
	struct rivulet_status st;
	/* the scratchpads hold another client's data and are cleared first */
	bool clear;
	bool begun;		/* by rvl_exec_brief() */
	atomic_bool abort;
	atomic_bool done;
};

/**
 * rvl_exec_brief() - begin a program, and run it if it is short; false: rvl_exec_run() must run the
 * rest
 */
bool rvl_exec_brief(struct rvl_exec *x);
/** rvl_exec_run() - run the program or its rest; sets @done last */
void rvl_exec_run(struct rvl_exec *x);

/** struct rvl_runner - runs programs; without one, rivulet_sim_step() runs them */
struct rvl_runner {
	void (*start)(void *ctx, struct rvl_exec *x);
	void *ctx;
};

/** struct rvl_timing - of CURRENT, device time in ns */
struct rvl_timing {
	uint64_t start;
	uint64_t end;		/* known once @end_known */
	uint64_t due;		/* host time, ns: not retired before */
	uint64_t late;		/* delay by the injection "slow", ns; 0 after rvl_device_hurry() */
	bool hurried;
	bool end_known;
};

/** struct rivulet_sim - the device */
struct rivulet_sim {
	struct rivulet_board board;
	struct rvl_window window;
	struct rivulet_sim_ops ops;
	struct rvl_queue queue;
	struct rvl_exec exec;
	struct rvl_runner runner;
	struct rivulet_desc desc[2];	/* by seq & 1, copied once */
	struct rvl_inject inject;
	struct rvl_timing t;
	struct rivulet_counters count;
	uint32_t count_seq;
	uint32_t client;
	bool has_client;
	bool stopped;		/* an ABORT or a RESET asks CURRENT to end */
	bool reset;		/* a RESET asks it */
	bool outrun;		/* an injection lets CURRENT end before its ABORT is served */
	bool dead;		/* injected */
	uint64_t stalled_until;	/* host time, ns; no request is served before */
	bool unplugged;		/* the device is unplugged and its window reads all ones */
	uint64_t power_on;	/* host time, ns */
	uint64_t fast_time;	/* device time at pace=fast */
	/* device time at which the retiring entry ended; 0: none, or it retired late */
	uint64_t chain;
	bool retires;		/* an entry retires, so a job that starts was NEXT */
	uint64_t followed;	/* number of jobs that started at a retirement */
	uint64_t seen;		/* device time up to which idle energy is counted */
	uint64_t busy_seen;
	double idle_pj;
	uint64_t started;	/* jobs, for injections */
	uint64_t retired;	/* number of the job that retires now; 0: none that ran */
	_Atomic uint32_t insns;	/* retired, counted by the core */
	uint32_t insns_before;	/* CURRENT started */
	uint32_t ticks;		/* of waiting for device time */
	/* replaces the window of an unplugged device */
	_Atomic uint32_t dead_window[RVL_WINDOW_WORDS];
};

/** rvl_device_run_by() - set the runner of programs, e.g. a thread; before the first step */
void rvl_device_run_by(struct rivulet_sim *s, const struct rvl_runner *r);

/** rvl_device_unplug() - fill the window with ones and ignore the driver from then on */
void rvl_device_unplug(struct rivulet_sim *s);

/** rvl_device_hurry() - end the delay of the running job by "slow"; false: none runs */
bool rvl_device_hurry(struct rivulet_sim *s);

/**
 * rvl_device_stall() - serve no request and retire no job for @ms from this call on; 0 ends a stall
 */
void rvl_device_stall(struct rivulet_sim *s, uint32_t ms);

/** rvl_device_doorbell() - the value of DOORBELL_PEER, before the driver looks */
void rvl_device_doorbell(struct rivulet_sim *s, uint32_t value);

/** rvl_device_energy() - the energy counter, pJ: jobs and the idle time between them */
uint64_t rvl_device_energy(const struct rivulet_sim *s);

#define RVL_CONSUME_MAX_J 1000000u
#define RVL_PJ_PER_J	  1000000000000ull

/** rvl_device_consume() - add to the energy counter, to simulate a device that has run for long */
void rvl_device_consume(struct rivulet_sim *s, uint64_t pj);

/** rvl_device_temperature() - set the reading of the sensor */
void rvl_device_temperature(struct rivulet_sim *s, int32_t millidegree);

/* desc.c: copy the descriptor at @addr, then check the copy; 0 or an enum rivulet_fault */
uint32_t rvl_desc_copy(const struct rvl_bus *bus, uint64_t addr, struct rivulet_desc *d);
uint32_t rvl_desc_check(const struct rvl_bus *bus, uint32_t seq, uint32_t levels,
			const struct rivulet_desc *d);

/* pace.c: host time; device time now; duration of @cycles at a level; all ns */
uint64_t rvl_pace_host(const struct rivulet_sim *s);
uint64_t rvl_pace_now(const struct rivulet_sim *s);
uint64_t rvl_pace_ns(const struct rivulet_board_level *l, uint64_t cycles);
/* pace.c: a job starts; may it retire?; how long until it may (ns); it retires */
void rvl_pace_start(struct rivulet_sim *s);
bool rvl_pace_over(struct rivulet_sim *s);
uint64_t rvl_pace_wait(const struct rivulet_sim *s);
void rvl_pace_retire(struct rivulet_sim *s);

/* counters.c: add a retired entry; bring the window up to date */
void rvl_count_retired(struct rivulet_sim *s, const struct rivulet_status *st);
void rvl_count_publish(struct rivulet_sim *s);

#endif
