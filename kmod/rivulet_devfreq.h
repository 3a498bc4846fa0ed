/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RIVULET_DEVFREQ_H
#define RIVULET_DEVFREQ_H

#include "rivulet_device.h"

void rvl_load_update(struct rvl_device *rdev);
ktime_t rvl_load_busy(struct rvl_device *rdev);
int rvl_devfreq_init(struct rvl_device *rdev);
void rvl_devfreq_fini(struct rvl_device *rdev);

#endif
