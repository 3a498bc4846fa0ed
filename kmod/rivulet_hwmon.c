// SPDX-License-Identifier: GPL-2.0-only
/* What the device measures, for sensors(1) and for whoever counts joules: hwmon and sysfs. */
#include <linux/hwmon.h>

#include "rivulet_device.h"

/* Power is an average over at least so much device time. */
#define RVL_POWER_NS	(100 * NSEC_PER_MSEC)

static long rvl_power(struct rvl_sense *sense)
{
	u64 time = sense->counters.time - sense->time;
	u64 energy = sense->counters.energy - sense->energy;

	if (time >= RVL_POWER_NS) {
		/* pJ/ns is mW. */
		sense->microwatt = div64_u64(energy * 1000, time);
		sense->time += time;
		sense->energy += energy;
	}
	return sense->microwatt;
}

/* Asleep, the device burns nothing that it could count, and its sensor is off. */
static int rvl_hwmon_read(struct device *dev, enum hwmon_sensor_types type, u32 attr, int channel,
			  long *value)
{
	struct rvl_device *rdev = dev_get_drvdata(dev);
	struct rvl_sense *sense = &rdev->sense;
	int ret = 0;

	guard(mutex)(&rdev->request_lock);
	if (rdev->live)
		ret = rvl_hw_read_counters(rdev, &sense->counters);
	else if (type == hwmon_temp)
		return -EAGAIN;
	if (type == hwmon_temp)
		*value = (s32)rvl_rd(rdev, RIVULET_REG_TEMPERATURE);
	else if (type == hwmon_power)
		*value = rdev->live ? rvl_power(sense) : 0;
	else
		*value = min_t(u64, div_u64(sense->counters.energy, 1000000),
			       LONG_MAX);
	return ret;
}

static umode_t rvl_hwmon_visible(const void *data, enum hwmon_sensor_types type, u32 attr,
				 int channel)
{
	const struct rvl_device *rdev = data;

	if (type == hwmon_temp)
		return rdev->info.flags & DRM_RIVULET_DEVICE_SENSOR ? 0444 : 0;
	/* Power and energy tell what all clients compute; fdinfo tells each its own. */
	return type == hwmon_power || type == hwmon_energy ? 0440 : 0444;
}

static const struct hwmon_ops rvl_hwmon_ops = {
	.is_visible = rvl_hwmon_visible,
	.read = rvl_hwmon_read,
};

static const struct hwmon_channel_info *const rvl_hwmon_channels[] = {
	HWMON_CHANNEL_INFO(chip, HWMON_C_REGISTER_TZ),
	HWMON_CHANNEL_INFO(power, HWMON_P_AVERAGE),
	HWMON_CHANNEL_INFO(energy, HWMON_E_INPUT),
	HWMON_CHANNEL_INFO(temp, HWMON_T_INPUT),
	NULL
};

static const struct hwmon_chip_info rvl_hwmon_chip = {
	.ops = &rvl_hwmon_ops,
	.info = rvl_hwmon_channels,
};

/* Power, energy, temperature where there is a sensor. The NPU works without them. */
void rvl_hwmon_init(struct rvl_device *rdev)
{
	struct device *hwmon;

	if (!IS_REACHABLE(CONFIG_HWMON))
		return;
	hwmon = devm_hwmon_device_register_with_info(rdev->drm.dev, "rivulet", rdev,
						     &rvl_hwmon_chip, NULL);
	if (IS_ERR(hwmon))
		drm_warn(&rdev->drm, "no hwmon (%pe)\n", hwmon);
}

static ssize_t npu_busy_time_us_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", div_u64(rvl_load_busy(dev_get_drvdata(dev)), 1000));
}
static DEVICE_ATTR_RO(npu_busy_time_us);

static struct attribute *rvl_attrs[] = {
	&dev_attr_npu_busy_time_us.attr,
	NULL
};

static const struct attribute_group rvl_group = {
	.attrs = rvl_attrs,
};

/* Of the device that the driver is bound to. */
const struct attribute_group *rvl_groups[] = {
	&rvl_group,
	NULL
};
