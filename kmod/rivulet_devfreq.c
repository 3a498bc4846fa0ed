// SPDX-License-Identifier: GPL-2.0-only
/*
 * Frequency scaling. The device's level table becomes the operating points; choosing one writes a
 * request and returns, because the device changes level at a job boundary and may defer a level
 * that a queued job could not run at. The frequency in force is the device's to tell.
 */
#include <drm/drm_print.h>
#include <linux/devfreq.h>
#include <linux/pm_opp.h>

#include "rivulet_devfreq.h"
#include "rivulet_drv.h"
#include "rivulet_job.h"

#define RVL_POLL_MS	50

/* Account the time until now; the state may have changed. Called with rvl_device.lock held. */
void rvl_load_update(struct rvl_device *rdev)
{
	struct rvl_load *load = &rdev->load;
	ktime_t now = ktime_get(), step = ktime_sub(now, load->since);

	lockdep_assert_held(&rdev->lock);
	if (load->is_busy) {
		load->busy = ktime_add(load->busy, step);
		load->busy_total = ktime_add(load->busy_total, step);
	} else {
		load->idle = ktime_add(load->idle, step);
	}
	load->since = now;
	load->is_busy = rdev->slot[0] || rdev->slot[1];
}

/* Time for which the device had a job, since probe. */
ktime_t rvl_load_busy(struct rvl_device *rdev)
{
	unsigned long flags;
	ktime_t busy;

	spin_lock_irqsave(&rdev->lock, flags);
	rvl_load_update(rdev);
	busy = rdev->load.busy_total;
	spin_unlock_irqrestore(&rdev->lock, flags);
	return busy;
}

static u32 rvl_level_of(struct rvl_device *rdev, unsigned long hz)
{
	u32 level = rdev->info.level_count - 1;

	while (level && rdev->info.level[level].hz > hz)
		level--;
	return level;
}

static int rvl_devfreq_target(struct device *dev, unsigned long *freq, u32 flags)
{
	struct rvl_device *rdev = dev_get_drvdata(dev);
	struct dev_pm_opp *opp;

	opp = devfreq_recommended_opp(dev, freq, flags);
	if (IS_ERR(opp))
		return PTR_ERR(opp);
	dev_pm_opp_put(opp);
	return rvl_queue_set_level(rdev, rvl_level_of(rdev, *freq));
}

static int rvl_devfreq_current(struct device *dev, unsigned long *freq)
{
	struct rvl_device *rdev = dev_get_drvdata(dev);

	*freq = rdev->info.level[rvl_queue_level(rdev)].hz;
	return 0;
}

static int rvl_devfreq_status(struct device *dev, struct devfreq_dev_status *st)
{
	struct rvl_device *rdev = dev_get_drvdata(dev);
	struct rvl_load *load = &rdev->load;
	unsigned long flags;

	rvl_devfreq_current(dev, &st->current_frequency);
	spin_lock_irqsave(&rdev->lock, flags);
	rvl_load_update(rdev);
	st->busy_time = ktime_to_ns(load->busy);
	st->total_time = ktime_to_ns(ktime_add(load->busy, load->idle));
	load->busy = 0;
	load->idle = 0;
	spin_unlock_irqrestore(&rdev->lock, flags);
	return 0;
}

static struct devfreq_dev_profile rvl_devfreq_profile = {
	.polling_ms = RVL_POLL_MS,
	.is_cooling_device = true,
	.timer = DEVFREQ_TIMER_DELAYED,
	.target = rvl_devfreq_target,
	.get_cur_freq = rvl_devfreq_current,
	.get_dev_status = rvl_devfreq_status,
};

/* The tree's operating points, which may be fewer than the device's levels, but no others. */
static int rvl_check_opps(struct rvl_device *rdev)
{
	struct device *dev = rdev->drm.dev;
	unsigned long hz = 0;
	struct dev_pm_opp *opp;

	while (opp = dev_pm_opp_find_freq_ceil(dev, &hz), !IS_ERR(opp)) {
		dev_pm_opp_put(opp);
		if (rdev->info.level[rvl_level_of(rdev, hz)].hz != hz) {
			drm_err(&rdev->drm, "operating point %lu Hz is no level\n", hz);
			return -EINVAL;
		}
		hz++;
	}
	return 0;
}

static int rvl_add_opps(struct rvl_device *rdev)
{
	struct drm_rivulet_level *l;
	u32 i;
	int ret;

	if (dev_pm_opp_get_opp_count(rdev->drm.dev) > 0)
		return rvl_check_opps(rdev);
	for (i = 0; i < rdev->info.level_count; i++) {
		struct dev_pm_opp_data opp = { .level = i };

		l = &rdev->info.level[i];
		opp.freq = l->hz;
		opp.u_volt = l->microvolt;
		ret = dev_pm_opp_add_dynamic(rdev->drm.dev, &opp);
		if (ret)
			return ret;
	}
	return 0;
}

/**
 * rvl_devfreq_init - operating points and governor
 * @rdev: the NPU
 *
 * Returns 0 or a negative errno, after which there is nothing to undo.
 */
int rvl_devfreq_init(struct rvl_device *rdev)
{
	struct device *dev = rdev->drm.dev;
	struct devfreq_dev_profile *profile;
	struct devfreq *devfreq;
	int ret;

	profile = devm_kmemdup(dev, &rvl_devfreq_profile, sizeof(*profile), GFP_KERNEL);
	if (!profile)
		return -ENOMEM;
	ret = rvl_add_opps(rdev);
	if (ret)
		goto err_opps;
	rvl_devfreq_current(dev, &profile->initial_freq);
	/* A clock that is ours has the level's rate before the first job. */
	ret = rvl_queue_set_level(rdev, rvl_queue_level(rdev));
	if (ret)
		goto err_opps;
	devfreq = devfreq_add_device(dev, profile, DEVFREQ_GOV_SIMPLE_ONDEMAND, NULL);
	ret = PTR_ERR_OR_ZERO(devfreq);
	if (ret)
		goto err_opps;
	rdev->devfreq = devfreq;
	return 0;

err_opps:
	dev_pm_opp_remove_all_dynamic(dev);
	return ret;
}

/**
 * rvl_devfreq_fini - undo rvl_devfreq_init(), which may have failed
 * @rdev: the NPU
 */
void rvl_devfreq_fini(struct rvl_device *rdev)
{
	if (!rdev->devfreq)
		return;
	devfreq_remove_device(rdev->devfreq);
	dev_pm_opp_remove_all_dynamic(rdev->drm.dev);
	rdev->devfreq = NULL;
}
