/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RIVULET_DRV_H
#define RIVULET_DRV_H

#include <linux/pm_runtime.h>

#include "rivulet_device.h"

/*
 * What differs between the attachments of one device (docs/device.md). Any member but @irq_setup
 * may be absent; each may sleep.
 */
struct rvl_bus_ops {
	/* Sets rdev->irq, or leaves it 0 where there is none: the driver polls. */
	int (*irq_setup)(struct rvl_device *rdev);
	void (*irq_teardown)(struct rvl_device *rdev);
	/* Let the device master the bus, or make sure that it cannot. */
	void (*master)(struct rvl_device *rdev, bool on);
	/* Clocks and supply, around the time that the registers are used. */
	int (*power)(struct rvl_device *rdev, bool on);
	/* Of a clocked device: the level's rate and voltage. Nothing runs meanwhile. */
	int (*set_rate)(struct rvl_device *rdev, u32 level);
};

struct rvl_device *rvl_device_alloc(struct device *dev, const struct rvl_bus_ops *bus);
int rvl_device_start(struct rvl_device *rdev);
void rvl_device_remove(struct rvl_device *rdev);
void rvl_device_shutdown(struct rvl_device *rdev);
void rvl_bus_master(struct rvl_device *rdev, bool on);

extern const struct dev_pm_ops rvl_pm_ops;
void rvl_pm_init(struct rvl_device *rdev);
void rvl_pm_fini(struct rvl_device *rdev);
int rvl_pm_enter(struct rvl_device *rdev, int *idx);
void rvl_pm_exit(struct rvl_device *rdev, int idx);

static inline void rvl_pm_put(struct rvl_device *rdev)
{
	pm_runtime_mark_last_busy(rdev->drm.dev);
	pm_runtime_put_autosuspend(rdev->drm.dev);
}

int rvl_pci_register(void);
void rvl_pci_unregister(void);
int rvl_platform_register(void);
void rvl_platform_unregister(void);

#endif
