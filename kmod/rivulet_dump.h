/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RIVULET_DUMP_H
#define RIVULET_DUMP_H

#include "rivulet_device.h"

struct drm_printer;

/* What userspace is told by uevent: RIVULET_EVENT, RIVULET_REASON. */
enum rvl_event { RVL_EVENT_HANG, RVL_EVENT_FORCED, RVL_EVENT_LOST, RVL_EVENT_COUNT };

int rvl_dump_setup(struct rvl_device *rdev);
void rvl_dump_take(struct rvl_device *rdev, struct rvl_job *job, const char *reason);
void rvl_dump_seal(struct rvl_device *rdev, struct rvl_job *job);
void rvl_event_send(struct rvl_device *rdev, enum rvl_event event);
void rvl_regs_print(struct rvl_device *rdev, struct drm_printer *p);

#endif
