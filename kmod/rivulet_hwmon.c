// SPDX-License-Identifier: GPL-2.0-only
/* Power, energy and temperature as hwmon, and the device's busy time in sysfs. */
#include <linux/hwmon.h>
#include <linux/math64.h>

#include "rivulet_device.h"

/* Power is averaged over at least this much device time. */
#define RVL_POWER_NS	(100 * NSEC_PER_MSEC)
#define RVL_PJ_PER_UJ	1000000

/* The last reading may be days old, so that the product below may need more than 64 bits. */
static long rvl_power(struct rvl_sense *sense)
{
	u64 time = sense->counters.time - sense->time;
	u64 energy = sense->counters.energy - sense->energy;

	if (time >= RVL_POWER_NS) {
		/* One pJ/ns is one mW. */
		sense->microwatt = mul_u64_u64_div_u64(energy, 1000, time);
		sense->time += time;
		sense->energy += energy;
	}
	return sense->microwatt;
}

/* While the device sleeps, the counters are those read when it was held. Needs request_lock. */
static int rvl_sense_update(struct rvl_device *rdev)
{
	return rdev->live ? rvl_hw_read_counters(rdev, &rdev->sense.counters) : 0;
}

static int rvl_read_temperature(struct rvl_device *rdev, long *value)
{
	if (!rdev->live)
		return -EAGAIN;
	*value = (s32)rvl_rd(rdev, RIVULET_REG_TEMPERATURE);
	return 0;
}

static int rvl_read_power(struct rvl_device *rdev, long *value)
{
	int ret = rvl_sense_update(rdev);

	if (ret)
		return ret;
	*value = rdev->live ? rvl_power(&rdev->sense) : 0;
	return 0;
}

static int rvl_hwmon_read(struct device *dev, enum hwmon_sensor_types type, u32 attr, int channel,
			  long *value)
{
	struct rvl_device *rdev = dev_get_drvdata(dev);

	guard(mutex)(&rdev->request_lock);
	if (type == hwmon_temp)
		return rvl_read_temperature(rdev, value);
	return rvl_read_power(rdev, value);
}

/* This is not a channel of hwmon, whose values are long: 32 bits of microjoules end at 2,147 J. */
static ssize_t energy1_input_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct rvl_device *rdev = dev_get_drvdata(dev);
	int ret;

	guard(mutex)(&rdev->request_lock);
	ret = rvl_sense_update(rdev);
	if (ret)
		return ret;
	return sysfs_emit(buf, "%llu\n", div_u64(rdev->sense.counters.energy, RVL_PJ_PER_UJ));
}

/* Only root may read it, because it shows what all clients compute. fdinfo has a client's share. */
static struct device_attribute dev_attr_energy1_input = __ATTR(energy1_input, 0440,
							       energy1_input_show, NULL);

static struct attribute *rvl_hwmon_attrs[] = {
	&dev_attr_energy1_input.attr,
	NULL
};
ATTRIBUTE_GROUPS(rvl_hwmon);

static umode_t rvl_hwmon_visible(const void *data, enum hwmon_sensor_types type, u32 attr,
				 int channel)
{
	const struct rvl_device *rdev = data;

	switch (type) {
	case hwmon_temp:
		return rdev->info.flags & DRM_RIVULET_DEVICE_SENSOR ? 0444 : 0;
	case hwmon_power:
		return 0440;
	default:
		return 0444;
	}
}

static const struct hwmon_ops rvl_hwmon_ops = {
	.is_visible = rvl_hwmon_visible,
	.read = rvl_hwmon_read,
};

static const struct hwmon_channel_info *const rvl_hwmon_channels[] = {
	HWMON_CHANNEL_INFO(chip, HWMON_C_REGISTER_TZ),
	HWMON_CHANNEL_INFO(power, HWMON_P_AVERAGE),
	HWMON_CHANNEL_INFO(temp, HWMON_T_INPUT),
	NULL
};

static const struct hwmon_chip_info rvl_hwmon_chip = {
	.ops = &rvl_hwmon_ops,
	.info = rvl_hwmon_channels,
};

/* Register power, energy, and temperature where there is a sensor. A failure is not fatal. */
void rvl_hwmon_init(struct rvl_device *rdev)
{
	struct device *hwmon;

	if (!IS_REACHABLE(CONFIG_HWMON))
		return;
	hwmon = devm_hwmon_device_register_with_info(rdev->drm.dev, "rivulet", rdev,
						     &rvl_hwmon_chip, rvl_hwmon_groups);
	if (IS_ERR(hwmon))
		drm_warn(&rdev->drm, "no hwmon (%pe)\n", hwmon);
}

static ssize_t npu_busy_time_us_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", div_u64(rvl_load_busy(dev_get_drvdata(dev)), 1000));
}

static struct device_attribute dev_attr_npu_busy_time_us = __ATTR(npu_busy_time_us, 0440,
								  npu_busy_time_us_show, NULL);

static struct attribute *rvl_attrs[] = {
	&dev_attr_npu_busy_time_us.attr,
	NULL
};

static const struct attribute_group rvl_group = {
	.attrs = rvl_attrs,
};

/* Attributes of the bus's device; the driver core creates and removes them. */
const struct attribute_group *rvl_groups[] = {
	&rvl_group,
	NULL
};
