// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runtime and system sleep. A device that sleeps is held, raises no interrupt, and none of its
 * registers is used. A RESET wakes it, so that it may have lost all state. Each job holds a
 * runtime-PM reference until it is freed, so that runtime suspend happens only without jobs. At
 * system sleep the device sleeps when the running job has ended; the next job waits in memory.
 */
#include <linux/devfreq.h>

#include "rivulet_device.h"

/* Waking takes a reset of some hundred microseconds, too long between jobs of one program. */
#define RVL_AUTOSUSPEND_MS	100

/* Enable clocks and supplies, after which registers may be used. Returns 0 or a negative errno. */
int rvl_power_on(struct rvl_device *rdev)
{
	int ret = 0;

	if (rdev->bus->power)
		ret = rdev->bus->power(rdev, true);
	if (!ret)
		WRITE_ONCE(rdev->powered, true);
	return ret;
}

/* Undo rvl_power_on(). Does nothing if that failed. */
void rvl_power_off(struct rvl_device *rdev)
{
	if (!rdev->powered)
		return;
	WRITE_ONCE(rdev->powered, false);
	if (rdev->bus->power)
		rdev->bus->power(rdev, false);
}

/*
 * Runtime PM keeps every error but -EBUSY and -EAGAIN as a permanent error of the device. After
 * -EBUSY it tries again only if the device was busy after the autosuspend timer was set.
 */
static int rvl_sleep(struct device *dev)
{
	struct rvl_device *rdev = dev_get_drvdata(dev);

	/* These two do nothing without devfreq. */
	devfreq_suspend_device(rdev->devfreq);
	if (rvl_queue_sleep(rdev)) {
		devfreq_resume_device(rdev->devfreq);
		pm_runtime_mark_last_busy(dev);
		return -EBUSY;
	}
	rvl_power_off(rdev);
	return 0;
}

/*
 * Runtime PM keeps every error of a resume, even -EAGAIN, and tries no later one. This therefore
 * returns none: a device without power, or one that does not answer a reset, is declared lost, and
 * its jobs end with an error.
 */
static int rvl_wake(struct device *dev)
{
	struct rvl_device *rdev = dev_get_drvdata(dev);
	int ret = rvl_power_on(rdev);

	if (ret) {
		drm_err(&rdev->drm, "cannot enable the clocks (%d): the device is lost\n", ret);
		rvl_queue_lose(rdev, -EIO);
	} else {
		rvl_queue_wake(rdev);
	}
	devfreq_resume_device(rdev->devfreq);
	return 0;
}

/* System sleep uses the runtime callbacks, and skips a device that is suspended already. */
const struct dev_pm_ops rvl_pm_ops = {
	SYSTEM_SLEEP_PM_OPS(pm_runtime_force_suspend, pm_runtime_force_resume)
	RUNTIME_PM_OPS(rvl_sleep, rvl_wake, NULL)
};

void rvl_pm_put(struct rvl_device *rdev)
{
	pm_runtime_mark_last_busy(rdev->drm.dev);
	pm_runtime_put_autosuspend(rdev->drm.dev);
}

/* End the access that rvl_pm_enter() began. */
void rvl_pm_exit(struct rvl_device *rdev, int idx)
{
	rvl_pm_put(rdev);
	drm_dev_exit(idx);
}

/*
 * Wake the device and keep it awake until rvl_pm_exit(), so that its registers may be used. Returns
 * 0, -ENODEV if the device was removed, or -EIO if it has no power.
 */
int rvl_pm_enter(struct rvl_device *rdev, int *idx)
{
	int ret;

	if (!drm_dev_enter(&rdev->drm, idx))
		return -ENODEV;
	ret = pm_runtime_resume_and_get(rdev->drm.dev);
	if (ret) {
		drm_dev_exit(*idx);
		return ret;
	}
	if (READ_ONCE(rdev->powered))
		return 0;
	rvl_pm_exit(rdev, *idx);
	return -EIO;
}

/* Allow runtime sleep. The bus has enabled runtime PM and holds a reference, which this drops. */
void rvl_pm_init(struct rvl_device *rdev)
{
	struct device *dev = rdev->drm.dev;

	pm_runtime_set_autosuspend_delay(dev, RVL_AUTOSUSPEND_MS);
	pm_runtime_use_autosuspend(dev);
	pm_runtime_allow(dev);
	rvl_pm_put(rdev);
}

/* Wake the device and keep it awake, by the reference that rvl_pm_init() dropped. */
void rvl_pm_fini(struct rvl_device *rdev)
{
	pm_runtime_get_sync(rdev->drm.dev);
	pm_runtime_forbid(rdev->drm.dev);
	pm_runtime_dont_use_autosuspend(rdev->drm.dev);
}
