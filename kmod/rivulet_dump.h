/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RIVULET_DUMP_H
#define RIVULET_DUMP_H

#include "rivulet_device.h"

struct drm_printer;

#define RVL_REG_ONE(name, offset, writer, doc) +1
/* Registers with a name. */
enum { RVL_REGS = 0 RIVULET_REGS(RVL_REG_ONE) };
#undef RVL_REG_ONE

/* What userspace is told by uevent. E(NAME, RIVULET_EVENT, RIVULET_REASON) */
#define RVL_EVENTS(E)				\
	E(HANG, "RESET", "hang")		\
	E(FORCED, "RESET", "forced")		\
	E(LOST, "LOST", "unresponsive")

#define RVL_EVENT_ENUM(name, event, reason) RVL_EVENT_##name,
enum rvl_event { RVL_EVENTS(RVL_EVENT_ENUM) RVL_EVENT_COUNT };
#undef RVL_EVENT_ENUM

int rvl_dump_setup(struct rvl_device *rdev);
void rvl_dump_stop(struct rvl_device *rdev);
void rvl_dump_take(struct rvl_device *rdev, struct rvl_job *job, const char *reason);
void rvl_dump_seal(struct rvl_device *rdev, struct rvl_job *job);
void rvl_event_send(struct rvl_device *rdev, enum rvl_event event);

void rvl_regs_read(struct rvl_device *rdev, u32 *value);
void rvl_regs_print(struct drm_printer *p, const u32 *value);

#endif
