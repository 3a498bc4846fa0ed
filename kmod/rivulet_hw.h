/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RIVULET_HW_H
#define RIVULET_HW_H

#include "rivulet_device.h"

/* How the driver sees that a job ended. */
struct rvl_outcome {
	int error;
	u64 device_ns;
	u64 cycles;
};

int rvl_hw_identify(void __iomem *win, size_t size);
int rvl_hw_read_info(struct rvl_device *rdev);
int rvl_hw_read_counters(struct rvl_device *rdev, struct drm_rivulet_counters *out);
int rvl_hw_temperature(struct rvl_device *rdev, long *millidegree);
u32 rvl_hw_level(struct rvl_device *rdev);
u32 rvl_hw_progress(struct rvl_device *rdev);
u32 rvl_hw_done(struct rvl_device *rdev);
bool rvl_hw_gone(struct rvl_device *rdev);
bool rvl_hw_frozen_at(struct rvl_device *rdev, u32 seq);

void rvl_hw_issue(struct rvl_device *rdev, u32 seq, const struct rivulet_desc *desc);
bool rvl_hw_retired(struct rvl_device *rdev, u32 seq);
void rvl_hw_outcome(struct rvl_device *rdev, u32 seq, struct rivulet_status *st,
		    struct rvl_outcome *out);
void rvl_hw_resume(struct rvl_device *rdev, u32 seq);

int rvl_hw_abort(struct rvl_device *rdev, u32 seq);
int rvl_hw_reset(struct rvl_device *rdev, u32 base);
/* A HOLD waits for the job in front: devfreq, which tries again, less long than sleep. */
#define RVL_HOLD_MS		200
#define RVL_HOLD_LONG_MS	5000

int rvl_hw_hold(struct rvl_device *rdev, bool on, unsigned int ms);
u32 rvl_hw_set_level(struct rvl_device *rdev, u32 level);
int rvl_hw_wait_level(struct rvl_device *rdev, u32 request, unsigned int ms);
void rvl_hw_irq_enable(struct rvl_device *rdev, bool on);

#endif
