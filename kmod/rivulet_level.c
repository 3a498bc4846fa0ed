// SPDX-License-Identifier: GPL-2.0-only
/*
 * The V/F level. A device with a clock of its own changes level at a job boundary, after one
 * register write. For a device with the system's clock, level and rate change together while the
 * device is held.
 *
 * rate_lock is held around the clock framework, which takes locks under which others allocate.
 * Recovery never takes it. Where both are needed, request_lock is taken inside and is not held
 * during set_rate.
 *
 * A device with the system's clock may not change to a level at once: the running job may be too
 * long to wait for, or a queued job may need a higher level. The driver then repeats the request
 * until the level is in force or another one is requested. It does not rely on devfreq, of which
 * only some governors repeat a request.
 */
#include "rivulet_device.h"

/* The interval at which a level is requested again. The polling interval of devfreq is the same. */
#define RVL_LEVEL_RETRY_MS	50

/* Would the device defer the level, because a queued job has a higher minimum? */
static bool rvl_level_deferred(struct rvl_device *rdev, u32 level)
{
	u32 i;

	guard(rvl_lock)(rdev);
	for (i = 0; i < RVL_QUEUE_SLOTS; i++)
		if (rdev->slot[i] && le32_to_cpu(rdev->slot[i]->desc.min_level) > level)
			return true;
	return false;
}

static u32 rvl_level_request(struct rvl_device *rdev, u32 level)
{
	guard(rvl_lock)(rdev);
	return rvl_hw_set_level(rdev, level);
}

/* Make a device without running jobs change its level. After a failure it keeps its level. */
static int rvl_level_take(struct rvl_device *rdev, u32 level, unsigned int ms)
{
	u32 before = rvl_hw_level(rdev);
	int ret = rvl_hw_wait_level(rdev, rvl_level_request(rdev, level), ms);

	/* The device would serve a pending request later, when its clock has another rate. */
	if (ret)
		rvl_level_request(rdev, before);
	return ret;
}

/*
 * Set the level after a RESET, before any job is issued. It is the level requested last, but with
 * the system's clock the level that the present rate belongs to.
 */
void rvl_level_restore(struct rvl_device *rdev)
{
	lockdep_assert_held(&rdev->request_lock);
	if (!rdev->clk_count)
		rvl_level_take(rdev, READ_ONCE(rdev->level), RVL_HOLD_LONG_MS);
	else if (rdev->rate_level >= 0)
		rvl_level_take(rdev, rdev->rate_level, RVL_HOLD_LONG_MS);
}

/* With the system's clock: is @level in force, and does the clock have its rate? */
static bool rvl_level_settled(struct rvl_device *rdev, u32 level)
{
	return rvl_hw_level(rdev) == level && rdev->rate_level == level;
}

/*
 * If a device with the system's clock does not have the level requested last, repeat the request
 * later. Allocates nothing and waits for nothing, because recovery calls it too.
 */
static void rvl_level_check(struct rvl_device *rdev)
{
	if (rdev->live && !rvl_level_settled(rdev, READ_ONCE(rdev->level)))
		queue_delayed_work(rvl_wq, &rdev->level_retry,
				   msecs_to_jiffies(RVL_LEVEL_RETRY_MS));
}

/*
 * After a reset the level may differ from the level requested last: a request may have come after
 * rvl_level_restore(), or the system's clock has the rate of another level. Called with rdev->lock
 * held.
 */
void rvl_level_catch_up(struct rvl_device *rdev)
{
	if (rdev->clk_count)
		rvl_level_check(rdev);
	else if (rvl_hw_level(rdev) != rdev->level)
		rvl_hw_set_level(rdev, rdev->level);
}

/*
 * No job runs before the device wakes, so that its clock gets the rate of the level requested last.
 */
void rvl_level_wake(struct rvl_device *rdev)
{
	u32 level = READ_ONCE(rdev->level);
	int ret;

	lockdep_assert_held(&rdev->rate_lock);
	if (!rdev->clk_count || rdev->live || rdev->dead || rdev->rate_level == level)
		return;
	ret = rdev->bus->set_rate(rdev, level);
	rdev->rate_level = ret ? -1 : level;
	if (ret)
		drm_warn(&rdev->drm, "the rate of level %u cannot be set (%d)\n", level, ret);
}

/*
 * Hold the device and make it change to @level, the level requested last. Returns whether the
 * caller must change the clock; if so, rvl_rate_end() must follow. A device whose job is too long,
 * or whose next job needs its present level, keeps level and rate, and the request is repeated
 * later.
 */
static bool rvl_rate_begin(struct rvl_device *rdev, u32 level)
{
	guard(mutex)(&rdev->request_lock);
	if (!rdev->live || rvl_level_settled(rdev, level))
		return false;
	if (rvl_level_deferred(rdev, level)) {
		rvl_level_check(rdev);
		return false;
	}
	if (rvl_hw_hold(rdev, RVL_HOLD_MS) || rvl_level_take(rdev, level, RVL_HOLD_MS) ||
	    rdev->rate_level == level) {
		rvl_hw_release(rdev);
		rvl_level_check(rdev);
		return false;
	}
	rdev->rate_level = -1;
	rdev->rate_changing = true;
	return true;
}

/* The clock has the rate of @level, or with @error the rate that it had before. */
static void rvl_rate_end(struct rvl_device *rdev, u32 level, u32 before, int error)
{
	guard(mutex)(&rdev->request_lock);
	rdev->rate_changing = false;
	if (!error)
		rdev->rate_level = level;
	/* A device that was lost meanwhile is not accessed. */
	if (!rdev->live)
		return;
	if (error)
		rvl_level_request(rdev, before);
	rvl_hw_release(rdev);
	/* A reset during the change may have given the device another level. */
	if (!error)
		rvl_level_check(rdev);
}

/* Make the device and its clock change to the level requested last. */
static int rvl_level_apply(struct rvl_device *rdev)
{
	u32 level = READ_ONCE(rdev->level), before;
	int ret;

	lockdep_assert_held(&rdev->rate_lock);
	before = rvl_queue_level(rdev);
	if (!rvl_rate_begin(rdev, level))
		return 0;
	ret = rdev->bus->set_rate(rdev, level);
	rvl_rate_end(rdev, level, before, ret);
	return ret;
}

static int rvl_level_set_clock(struct rvl_device *rdev, u32 level)
{
	guard(mutex)(&rdev->rate_lock);
	WRITE_ONCE(rdev->level, level);
	return rvl_level_apply(rdev);
}

static void rvl_level_retry(struct work_struct *work)
{
	struct rvl_device *rdev = container_of(to_delayed_work(work), struct rvl_device,
					       level_retry);
	int ret;

	scoped_guard(mutex, &rdev->rate_lock)
		ret = rvl_level_apply(rdev);
	if (ret)
		drm_warn(&rdev->drm, "the rate of level %u cannot be set (%d)\n",
			 READ_ONCE(rdev->level), ret);
}

void rvl_level_init(struct rvl_device *rdev)
{
	mutex_init(&rdev->rate_lock);
	INIT_DELAYED_WORK(&rdev->level_retry, rvl_level_retry);
}

/* Cancel the work that repeats a request. No other caller requests a level after this. */
void rvl_level_stop(struct rvl_device *rdev)
{
	cancel_delayed_work_sync(&rdev->level_retry);
}

/*
 * Request a V/F level, for the present or for when the device wakes. Returns 0 or the clock's
 * error. May sleep.
 */
int rvl_queue_set_level(struct rvl_device *rdev, u32 level)
{
	if (rdev->clk_count)
		return rvl_level_set_clock(rdev, level);
	guard(rvl_lock)(rdev);
	WRITE_ONCE(rdev->level, level);
	if (rdev->live)
		rvl_hw_set_level(rdev, level);
	return 0;
}

/* The level in force. For a device that sleeps, the level that it will wake with. */
u32 rvl_queue_level(struct rvl_device *rdev)
{
	guard(rvl_lock)(rdev);
	return rdev->live ? rvl_hw_level(rdev) : rdev->level;
}
