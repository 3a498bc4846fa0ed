// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices for tests of the power policy: a battery and mains whose properties root writes in sysfs,
 * where each write sends a uevent as real ones do; a thermal zone whose temperature is a parameter;
 * and a limit on another device's frequency, as a cooling device sets it.
 */
#include <linux/device.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/pm_qos.h>
#include <linux/power_supply.h>
#include <linux/thermal.h>

#define FULL_UWH	50000000

/* ---- battery and mains ---- */

static int values[] = {
	[POWER_SUPPLY_PROP_STATUS] = POWER_SUPPLY_STATUS_DISCHARGING,
	[POWER_SUPPLY_PROP_PRESENT] = 1,
	[POWER_SUPPLY_PROP_ONLINE] = 0,
	[POWER_SUPPLY_PROP_ENERGY_FULL] = FULL_UWH,
	[POWER_SUPPLY_PROP_ENERGY_NOW] = FULL_UWH,
	[POWER_SUPPLY_PROP_CAPACITY] = 100,
};

static const enum power_supply_property battery_props[] = {
	POWER_SUPPLY_PROP_STATUS, POWER_SUPPLY_PROP_PRESENT, POWER_SUPPLY_PROP_ENERGY_FULL,
	POWER_SUPPLY_PROP_ENERGY_NOW, POWER_SUPPLY_PROP_CAPACITY,
};

static const enum power_supply_property mains_props[] = { POWER_SUPPLY_PROP_ONLINE };

static int get(struct power_supply *psy, enum power_supply_property p,
	       union power_supply_propval *v)
{
	v->intval = READ_ONCE(values[p]);
	return 0;
}

static int set(struct power_supply *psy, enum power_supply_property p,
	       const union power_supply_propval *v)
{
	WRITE_ONCE(values[p], v->intval);
	power_supply_changed(psy);
	return 0;
}

static int writeable(struct power_supply *psy, enum power_supply_property p)
{
	return 1;
}

static const struct power_supply_desc descs[] = {
	{ .name = "machine-battery", .type = POWER_SUPPLY_TYPE_BATTERY,
	  .properties = battery_props, .num_properties = ARRAY_SIZE(battery_props),
	  .get_property = get, .set_property = set, .property_is_writeable = writeable },
	{ .name = "machine-mains", .type = POWER_SUPPLY_TYPE_MAINS,
	  .properties = mains_props, .num_properties = ARRAY_SIZE(mains_props),
	  .get_property = get, .set_property = set, .property_is_writeable = writeable },
};

static struct power_supply *supplies[ARRAY_SIZE(descs)];

/* ---- the thermal zone ---- */

static int temp = 40000;
module_param(temp, int, 0644);
MODULE_PARM_DESC(temp, "of the thermal zone, millidegrees Celsius; trips at 90 and 100 degrees");

static int get_temp(struct thermal_zone_device *zone, int *out)
{
	*out = READ_ONCE(temp);
	return 0;
}

static const struct thermal_zone_device_ops zone_ops = { .get_temp = get_temp };
static const struct thermal_trip trips[] = {
	{ .temperature = 90000, .hysteresis = 2000, .type = THERMAL_TRIP_PASSIVE },
	{ .temperature = 100000, .hysteresis = 2000, .type = THERMAL_TRIP_HOT },
};

static struct thermal_zone_device *zone;

/* ---- the frequency limit ---- */

static struct device *capped;
static struct dev_pm_qos_request cap_request;
static DEFINE_MUTEX(cap_lock);

static void uncap(void)
{
	if (!capped)
		return;
	dev_pm_qos_remove_request(&cap_request);
	put_device(capped);
	capped = NULL;
}

/* "BDF KHZ", or "off" */
static int cap_set(const char *text, const struct kernel_param *kp)
{
	char name[20];
	s32 khz;
	int r;

	guard(mutex)(&cap_lock);
	uncap();
	if (sysfs_streq(text, "off"))
		return 0;
	if (sscanf(text, "%19s %d", name, &khz) != 2)
		return -EINVAL;
	capped = bus_find_device_by_name(&pci_bus_type, NULL, name);
	if (!capped)
		return -ENODEV;
	r = dev_pm_qos_add_request(capped, &cap_request, DEV_PM_QOS_MAX_FREQUENCY, khz);
	if (r < 0) {
		put_device(capped);
		capped = NULL;
	}
	return r < 0 ? r : 0;
}

static const struct kernel_param_ops cap_ops = { .set = cap_set };
module_param_cb(cap, &cap_ops, NULL, 0200);
MODULE_PARM_DESC(cap, "device and the most kHz that it may have, or \"off\"");

/* ---- load and unload ---- */

static void leave(void)
{
	uncap();
	if (!IS_ERR_OR_NULL(zone))
		thermal_zone_device_unregister(zone);
	for (int i = 0; i < ARRAY_SIZE(supplies); i++)
		if (!IS_ERR_OR_NULL(supplies[i]))
			power_supply_unregister(supplies[i]);
}

static int __init machine_init(void)
{
	struct power_supply_config cfg = {};
	int r = 0;

	for (int i = 0; !r && i < ARRAY_SIZE(supplies); i++) {
		supplies[i] = power_supply_register(NULL, &descs[i], &cfg);
		r = PTR_ERR_OR_ZERO(supplies[i]);
	}
	if (!r) {
		zone = thermal_zone_device_register_with_trips("machine", trips,
							       ARRAY_SIZE(trips), NULL,
							       &zone_ops, NULL, 0, 0);
		r = PTR_ERR_OR_ZERO(zone);
	}
	r = r ?: thermal_zone_device_enable(zone);
	if (r)
		leave();
	return r;
}
module_init(machine_init);

static void __exit machine_exit(void)
{
	leave();
}
module_exit(machine_exit);

MODULE_DESCRIPTION("Battery, mains, heat and a cap that a test writes");
MODULE_LICENSE("GPL");
