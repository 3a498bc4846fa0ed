/* SPDX-License-Identifier: MIT */
/* Runs, from their submission to their answer. fair.h has the order of runs. */
#ifndef RVL_SCHEDULER_H
#define RVL_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "cache.h"
#include "fair.h"
#include "peak.h"
#include "rivulet_proto.h"
#include "util.h"

struct rvl_instance;
struct rvl_manager;
struct rvl_user;

struct rvl_run {
	struct rvl_list link;	/* among those under way, or ended */
	struct rvl_instance *instance;
	struct rvl_user *user;
	uint32_t serial;
	uint32_t levels;	/* that it can run at */
	bool demands;		/* of a user of PolicyUsers=: the level is one of these while it is admitted */
	uint32_t min_level;	/* lower ones wait in the device until it has run */
	uint32_t variant;	/* 1 + level whose commands it runs; 0: the device's level's */
	struct rvl_slot slot;
	bool running, ended;
	int error;		/* 0: as the runtime says; or why it was given up */
	struct rvl_text text;	/* with @error */
	uint64_t started;
	uint64_t end_by;	/* MaxRunSec= after @started */
	bool overdue;		/* was cancelled at @end_by; takes no slot */
};

struct rvl_sched {
	struct rvl_fair fair;		/* queued runs, in it by their slots */
	struct rvl_list running;
	struct rvl_list ended;		/* called back, not yet answered */
	uint32_t queued;
	uint32_t n_running;		/* without those that are overdue */
	uint32_t gone_epoch;		/* a run ended with -ENODEV on this one; 0: none did */
	uint64_t last_end;		/* when a run ended last */
	struct rvl_peak longest;	/* ns that any run kept the device, by minutes */
	sd_event_source *kick;		/* answers and starts runs, not in the runtime's callbacks */
	sd_event_source *timer;		/* kicks when an idle device has waited for a user long enough */
	sd_event_source *limit;		/* at the earliest end_by */
	struct rvl_totals totals;
};

/**
 * rvl_sched_submit() - queue a run; -EINVAL, -EBUSY, -ENODEV, -EPERM, -EDQUOT, -ETIME and others
 * with @err
 */
int rvl_sched_submit(struct rvl_instance *x, const struct rivulet_msg_run *req,
		     struct rvl_text *err);
/** rvl_sched_cancel() - end a run by @why, -ECANCELED or -ENODEV; it is answered and freed later */
void rvl_sched_cancel(struct rvl_run *run, int why, const char *text);
int rvl_sched_start(struct rvl_manager *m);
/** rvl_sched_stop() - cancel all runs and wait for them until @deadline; whether all have ended */
bool rvl_sched_stop(struct rvl_manager *m, uint64_t deadline);

#endif
