/* SPDX-License-Identifier: MIT */
/* How late the event loop may be: the longest time that it spent in one handler lately. */
#ifndef RVL_STALL_H
#define RVL_STALL_H

#include <systemd/sd-event.h>

#include "peak.h"

/** struct rvl_stall - zeroed before the start and after the stop */
struct rvl_stall {
	sd_event_source *source;
	struct rvl_peak recent;	/* ns, by minutes */
	uint64_t longest;	/* ns, since the start */
};

/** rvl_stall_start() - measure each turn of the loop; 0 or a negative errno */
int rvl_stall_start(struct rvl_stall *s, sd_event *event);
void rvl_stall_stop(struct rvl_stall *s);
/** rvl_stall_recent() - ns, of the last one to two minutes */
uint64_t rvl_stall_recent(const struct rvl_stall *s);

#endif
