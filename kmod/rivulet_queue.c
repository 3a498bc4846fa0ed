// SPDX-License-Identifier: GPL-2.0-only
/* The queue as a whole: its start at probe, its stop at removal, sleep and wake. */
#include "rivulet_device.h"

/* The first seq is near the wrap, so that every device crosses the wrap within its first jobs. */
#define RVL_FIRST_SEQ	((u32)-32)

/*
 * The queue slots' memory. devm does not free it, because a device in quarantine may still write
 * it.
 */
int rvl_slot_mem_alloc(struct rvl_device *rdev)
{
	rdev->mem = dma_alloc_coherent(rdev->drm.dev, RVL_QUEUE_SLOTS * sizeof(*rdev->mem),
				       &rdev->mem_dma, GFP_KERNEL);
	return rdev->mem ? 0 : -ENOMEM;
}

void rvl_slot_mem_free(struct rvl_device *rdev)
{
	if (rdev->mem)
		dma_free_coherent(rdev->drm.dev, RVL_QUEUE_SLOTS * sizeof(*rdev->mem), rdev->mem,
				  rdev->mem_dma);
	rdev->mem = NULL;
}

/* Bring the device into a known state. Returns 0, or -ETIMEDOUT when it does not answer. */
int rvl_queue_start(struct rvl_device *rdev)
{
	int ret;

	rdev->seq = RVL_FIRST_SEQ;
	rdev->level = rvl_hw_level(rdev);
	rdev->load.since = ktime_get_ns();
	guard(mutex)(&rdev->request_lock);
	ret = rvl_hw_reset(rdev, rdev->seq);
	if (ret)
		return ret;
	rvl_hw_release(rdev);
	rdev->live = true;
	return 0;
}

static bool rvl_queue_idle(struct rvl_device *rdev)
{
	guard(rvl_lock)(rdev);
	return !rdev->slot[0] && !rdev->slot[1];
}

/* Retire the job that ended before the device was held. The job behind it waits in memory. */
static void rvl_queue_park(struct rvl_device *rdev)
{
	scoped_guard(rvl_lock, rdev)
		rvl_queue_service(rdev);
	rvl_queue_take(rdev);
}

/*
 * Stop the queue: the running job ends, the next one waits in memory, and no register is used
 * afterwards. An idle device serves HOLD at once, so that a short wait shows whether it answers.
 * Returns 0, or -EBUSY if the device did not stop in time; the queue then continues.
 */
int rvl_queue_sleep(struct rvl_device *rdev)
{
	unsigned int ms = rvl_queue_idle(rdev) ? RVL_HOLD_MS : RVL_HOLD_LONG_MS;

	guard(mutex)(&rdev->rate_lock);
	guard(mutex)(&rdev->request_lock);
	if (!rdev->live)
		return 0;
	if (rvl_hw_hold(rdev, ms) == -ETIMEDOUT) {
		rvl_hw_release(rdev);
		return -EBUSY;
	}
	rvl_queue_park(rdev);
	rvl_hw_read_counters(rdev, &rdev->sense.counters);
	rvl_hw_irq_enable(rdev, false);
	return 0;
}

/* Undo rvl_queue_sleep(), even if the device has lost its state. */
void rvl_queue_wake(struct rvl_device *rdev)
{
	guard(mutex)(&rdev->rate_lock);
	rvl_level_wake(rdev);
	guard(mutex)(&rdev->request_lock);
	if (rdev->live || rdev->dead)
		return;
	rvl_hw_irq_enable(rdev, rdev->irq);
	rvl_queue_restart(rdev);
}

/* Reset a device that is to stop. Returns whether it has acknowledged that it masters no memory. */
static bool rvl_queue_silence(struct rvl_device *rdev, bool lost)
{
	int ret;

	/* A lost device is reset once more only if its answer can release memory. */
	if (lost && (!rdev->quarantine.active || !rdev->powered))
		return false;
	ret = rvl_hw_reset(rdev, rdev->seq);
	if (ret == -ETIMEDOUT)
		drm_warn(&rdev->drm, "the device does not answer a reset\n");
	return !ret;
}

/* Stop the device for good and end its jobs with @error. */
void rvl_queue_stop(struct rvl_device *rdev, int error)
{
	bool lost, quiet;

	scoped_guard(mutex, &rdev->request_lock) {
		scoped_guard(rvl_lock, rdev) {
			lost = rdev->dead;
			WRITE_ONCE(rdev->dead, error);
		}
		rvl_queue_take(rdev);
		quiet = rvl_queue_silence(rdev, lost);
		rvl_queue_die(rdev, error, quiet);
	}
	if (quiet)
		rvl_quarantine_release(rdev);
}
