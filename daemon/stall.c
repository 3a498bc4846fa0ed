// SPDX-License-Identifier: MIT
#include "stall.h"

#include <time.h>

#include "util.h"

#define EPOCH_NS (60 * NSEC_PER_SEC)

/*
 * sd-event calls this before it waits for the next event. Its own time stamp is still that of the
 * event before, so that the difference is what the handlers have taken.
 */
static int before_waiting(sd_event_source *source, void *data)
{
	struct rvl_stall *s = data;
	uint64_t now = rvl_now(), woken;

	if (sd_event_now(sd_event_source_get_event(source), CLOCK_MONOTONIC, &woken))
		return 0;	/* positive: the loop has not waited yet */
	woken *= 1000;
	if (now <= woken)
		return 0;
	rvl_peak_add(&s->recent, now / EPOCH_NS, now - woken);
	s->longest = now - woken > s->longest ? now - woken : s->longest;
	return 0;
}

static int on_time(sd_event_source *source, uint64_t usec, void *data)
{
	(void)source;
	(void)usec;
	(void)data;
	return 0;
}

int rvl_stall_start(struct rvl_stall *s, sd_event *event)
{
	/* Only enabled sources are prepared; this one never fires. */
	int r = sd_event_add_time(event, &s->source, CLOCK_MONOTONIC, UINT64_MAX, 0, on_time, s);

	return r < 0 ? r : sd_event_source_set_prepare(s->source, before_waiting);
}

void rvl_stall_stop(struct rvl_stall *s)
{
	s->source = sd_event_source_disable_unref(s->source);
}

uint64_t rvl_stall_recent(const struct rvl_stall *s)
{
	return rvl_peak(&s->recent);
}
