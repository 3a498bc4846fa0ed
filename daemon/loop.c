// SPDX-License-Identifier: MIT
#include "loop.h"

#include "util.h"

#define EPOCH_NS (60 * NSEC_PER_SEC)

static int dispatch(struct rvl_loop *loop, sd_event *event)
{
	uint64_t start = rvl_now(), now, took;
	int r = sd_event_dispatch(event);

	now = rvl_now();
	took = now - start;
	loop->turns++;
	loop->busy_ns += took;
	loop->stall_ns = took > loop->stall_ns ? took : loop->stall_ns;
	rvl_peak_add(&loop->recent, now / EPOCH_NS, took);
	return r;
}

int rvl_loop_run(struct rvl_loop *loop, sd_event *event)
{
	int r = 0, code = 0;

	while (r >= 0 && sd_event_get_state(event) != SD_EVENT_FINISHED) {
		r = sd_event_prepare(event);
		if (!r)
			r = sd_event_wait(event, UINT64_MAX);
		if (r > 0)
			r = dispatch(loop, event);
	}
	if (r >= 0)
		r = sd_event_get_exit_code(event, &code);
	return r < 0 ? r : code;
}

uint64_t rvl_loop_recent(const struct rvl_loop *loop)
{
	return rvl_peak(&loop->recent);
}
