// SPDX-License-Identifier: GPL-2.0-only
/*
 * A device without an interrupt: while it has a job, a timer looks whether it is done. An idle
 * device costs nothing, and all else that the driver waits for it polls anyway.
 */
#include <linux/hrtimer.h>

#include "rivulet_drv.h"
#include "rivulet_job.h"

/* A look costs a microsecond or so; a job is found out at most an eighth of its time late. */
#define RVL_TICK_MIN_NS		(50 * NSEC_PER_USEC)
#define RVL_TICK_MAX_NS		NSEC_PER_MSEC

/* How long to the next look; negative without a job. Called with rdev->lock held. */
static s64 rvl_tick_ns(struct rvl_device *rdev)
{
	s64 age = -1, ns;
	u32 i;

	for (i = 0; i < RVL_QUEUE_SLOTS; i++) {
		if (!rdev->slot[i])
			continue;
		ns = ktime_to_ns(ktime_sub(ktime_get(), rdev->slot[i]->issued_at));
		age = max(age, ns);
	}
	return age < 0 ? age : clamp_t(s64, age / 8, RVL_TICK_MIN_NS, RVL_TICK_MAX_NS);
}

static enum hrtimer_restart rvl_tick(struct hrtimer *timer)
{
	struct rvl_device *rdev = container_of(timer, struct rvl_device, tick);
	enum hrtimer_restart again = HRTIMER_NORESTART;
	unsigned long flags;
	s64 ns;

	rvl_irq(0, rdev);
	spin_lock_irqsave(&rdev->lock, flags);
	ns = rvl_tick_ns(rdev);
	/* Whoever issued a job meanwhile may have queued the timer already. */
	if (ns >= 0 && !hrtimer_is_queued(timer)) {
		hrtimer_forward_now(timer, ns_to_ktime(ns));
		again = HRTIMER_RESTART;
	}
	spin_unlock_irqrestore(&rdev->lock, flags);
	return again;
}

/**
 * rvl_poll_init - before the first job
 * @rdev: the NPU
 */
void rvl_poll_init(struct rvl_device *rdev)
{
	hrtimer_init(&rdev->tick, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	rdev->tick.function = rvl_tick;
}

/**
 * rvl_poll_start - a job was issued: look for its end, if no interrupt will tell
 * @rdev: the NPU
 *
 * Called with rdev->lock held.
 */
void rvl_poll_start(struct rvl_device *rdev)
{
	lockdep_assert_held(&rdev->lock);
	if (!rdev->irq && !hrtimer_is_queued(&rdev->tick))
		hrtimer_start(&rdev->tick, ns_to_ktime(RVL_TICK_MIN_NS), HRTIMER_MODE_REL);
}

/**
 * rvl_poll_stop - after the last job
 * @rdev: the NPU
 */
void rvl_poll_stop(struct rvl_device *rdev)
{
	hrtimer_cancel(&rdev->tick);
}
