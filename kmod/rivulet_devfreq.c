// SPDX-License-Identifier: GPL-2.0-only
/*
 * Frequency scaling. The levels of the device are the operating points. A device with a clock of
 * its own changes its level between two jobs, so that the driver does not wait for a request.
 */
#include <linux/devfreq.h>
#include <linux/pm_opp.h>

#include "rivulet_device.h"

/*
 * Account the time until now as idle or busy, and note the new state. Called at every change of the
 * queue, with rvl_device.lock held.
 */
void rvl_load_update(struct rvl_device *rdev)
{
	struct rvl_load *load = &rdev->load;
	u64 now = ktime_get_ns();

	lockdep_assert_held(&rdev->lock);
	load->ns[load->is_busy] += now - load->since;
	load->since = now;
	load->is_busy = rdev->slot[0] || rdev->slot[1];
}

/* Idle and busy time since the last call, ns, in @ns[0] and @ns[1]. */
void rvl_load_take(struct rvl_device *rdev, u64 *ns)
{
	struct rvl_load *load = &rdev->load;
	u32 i;

	guard(rvl_lock)(rdev);
	rvl_load_update(rdev);
	for (i = 0; i < 2; i++) {
		ns[i] = load->ns[i] - load->taken[i];
		load->taken[i] = load->ns[i];
	}
}

/* Start a new interval of rvl_load_take(), because the load before a reset predicts nothing. */
void rvl_load_forget(struct rvl_device *rdev)
{
	u64 ns[2];

	rvl_load_take(rdev, ns);
}

/* Time since probe for which the device had a job, ns. */
u64 rvl_load_busy(struct rvl_device *rdev)
{
	guard(rvl_lock)(rdev);
	rvl_load_update(rdev);
	return rdev->load.ns[true];
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
	u64 ns[2];

	rvl_devfreq_current(dev, &st->current_frequency);
	rvl_load_take(rdev, ns);
	st->busy_time = ns[true];
	st->total_time = ns[true] + ns[false];
	return 0;
}

static struct devfreq_dev_profile rvl_devfreq_profile = {
	.polling_ms = 50,
	.is_cooling_device = true,
	.timer = DEVFREQ_TIMER_DELAYED,
	.target = rvl_devfreq_target,
	.get_cur_freq = rvl_devfreq_current,
	.get_dev_status = rvl_devfreq_status,
};

/* Each operating point of the Device Tree must be a level. A level may be without one. */
static int rvl_check_opps(struct rvl_device *rdev)
{
	struct device *dev = rdev->drm.dev;
	unsigned long hz = 0;
	struct dev_pm_opp *opp;

	for (;;) {
		opp = dev_pm_opp_find_freq_ceil(dev, &hz);
		if (IS_ERR(opp))
			return 0;
		dev_pm_opp_put(opp);
		if (rdev->info.level[rvl_level_of(rdev, hz)].hz != hz) {
			drm_err(&rdev->drm, "operating point %lu Hz is no level\n", hz);
			return -EINVAL;
		}
		hz++;
	}
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

/* Add operating points and the devfreq device. Returns 0, or a negative errno with all undone. */
int rvl_devfreq_init(struct rvl_device *rdev)
{
	struct device *dev = rdev->drm.dev;
	struct devfreq_dev_profile *profile;
	struct devfreq *devfreq;
	int ret;

	profile = devm_kmemdup(dev, &rvl_devfreq_profile, sizeof(*profile), GFP_KERNEL);
	if (!profile)
		return -ENOMEM;
	rvl_devfreq_current(dev, &profile->initial_freq);
	ret = rvl_add_opps(rdev);
	if (ret)
		goto err_opps;
	/* The system's clock gets the rate of the present level before the first job. */
	ret = rvl_queue_set_level(rdev, rvl_queue_level(rdev));
	if (ret)
		goto err_opps;
	devfreq = devfreq_add_device(dev, profile, DEVFREQ_GOV_SIMPLE_ONDEMAND, NULL);
	if (IS_ERR(devfreq)) {
		ret = PTR_ERR(devfreq);
		goto err_opps;
	}
	rdev->devfreq = devfreq;
	return 0;

err_opps:
	dev_pm_opp_remove_all_dynamic(dev);
	return ret;
}

/* Undo rvl_devfreq_init(). Does nothing after that failed. */
void rvl_devfreq_fini(struct rvl_device *rdev)
{
	if (!rdev->devfreq)
		return;
	devfreq_remove_device(rdev->devfreq);
	dev_pm_opp_remove_all_dynamic(rdev->drm.dev);
	rdev->devfreq = NULL;
}
