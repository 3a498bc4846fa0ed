/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RIVULET_JOB_H
#define RIVULET_JOB_H

#include <drm/gpu_scheduler.h>
#include <linux/interrupt.h>

#include "rivulet_device.h"

struct drm_exec;
struct rvl_outcome;

/* What the jobs attached to it did, summed. */
struct rvl_perfmon {
	struct kref ref;	/* the file's, and each attached job's */
	u64 value[DRM_RIVULET_PERF_COUNT];	/* under rvl_device.lock */
};

/* The hardware's fence; the core's, which submit gives away, keeps it. */
struct rvl_fence {
	struct dma_fence base;
	struct rvl_client *client;	/* counted: keeps module and device, whose names fences tell */
	spinlock_t lock;	/* the fence's own, so that it may outlive the device */
};

/* One job. Made by submit, owned by the scheduler from the push to free_job. */
struct rvl_job {
	struct drm_sched_job base;
	struct rvl_device *rdev;
	struct rvl_client *client;	/* counted */
	struct rvl_perfmon *perfmon;	/* counted, or NULL */
	struct rivulet_desc desc;	/* all but seq, status, crc */

	/* Buffers, each once however many slots show it; @write if any slot may write it. */
	struct drm_gem_object *obj[DRM_RIVULET_MAX_REGIONS];
	bool write[DRM_RIVULET_MAX_REGIONS];
	u32 obj_count;

	struct rvl_fence *fence;	/* unborn until run_job, which gives it away */
	bool issued;			/* @fence is initialised */

	/* While in the device's hands, under rvl_device.lock. */
	u32 seq;
	int verdict;			/* error decided by the driver, before the device's */
	u32 progress;			/* the device's progress when last looked at */
	ktime_t issued_at;		/* or later: when it became the first in the queue */
	struct rivulet_status status;	/* of a retired job */
};

static inline struct rvl_job *to_rvl_job(struct drm_sched_job *job)
{
	return container_of(job, struct rvl_job, base);
}

int rvl_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file);

struct rvl_job *rvl_job_alloc(struct rvl_device *rdev, struct rvl_client *client);
void rvl_job_free(struct rvl_job *job);

int rvl_sched_setup(struct rvl_device *rdev);

struct rvl_perfmon *rvl_perfmon_get(struct rvl_client *client, u32 id);
void rvl_perfmon_put(struct rvl_perfmon *perfmon);
void rvl_perfmon_add(struct rvl_perfmon *perfmon, const struct rivulet_status *st,
		     const struct rvl_outcome *out);
bool rvl_client_blame(struct rvl_client *client);
void rvl_client_put(struct rvl_client *client);
int rvl_client_open(struct drm_device *drm, struct drm_file *file);
void rvl_client_close(struct drm_device *drm, struct drm_file *file);
int rvl_ioctl_perfmon_create(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_perfmon_destroy(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_perfmon_read(struct drm_device *drm, void *data, struct drm_file *file);

irqreturn_t rvl_irq(int irq, void *arg);
void rvl_poll_init(struct rvl_device *rdev);
void rvl_poll_start(struct rvl_device *rdev);
void rvl_poll_stop(struct rvl_device *rdev);
int rvl_queue_start(struct rvl_device *rdev);
int rvl_queue_force_reset(struct rvl_device *rdev);
int rvl_queue_sleep(struct rvl_device *rdev);
void rvl_queue_wake(struct rvl_device *rdev);
int rvl_queue_set_level(struct rvl_device *rdev, u32 level);
u32 rvl_queue_level(struct rvl_device *rdev);
void rvl_queue_stop(struct rvl_device *rdev, int error);

#endif
