/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RIVULET_DEVFREQ_H
#define RIVULET_DEVFREQ_H

#include "rivulet_device.h"

void rvl_load_switch(struct rvl_load *load, bool was_busy);
int rvl_devfreq_init(struct rvl_device *rdev);
void rvl_devfreq_fini(struct rvl_device *rdev);

#endif
