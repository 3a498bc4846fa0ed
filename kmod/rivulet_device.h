/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RIVULET_DEVICE_H
#define RIVULET_DEVICE_H

#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <drm/gpu_scheduler.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "rivulet_accel.h"
#include "rivulet_dev.h"

struct devfreq;
struct rvl_bus_ops;
struct rvl_dump;
struct rvl_job;

/* Entries of the device's queue: CURRENT and NEXT. */
#define RVL_QUEUE_SLOTS		2
/* Of jobs: high, normal, low. */
#define RVL_PRIORITIES		3
/* Jobs that one file may have queued; each pins its buffers. */
#define RVL_MAX_QUEUED		4096

/* What the device reads and writes for one queue slot, in coherent memory. */
struct rvl_slot_mem {
	struct rivulet_desc desc __aligned(RIVULET_DESC_ALIGN);
	struct rivulet_status status __aligned(RIVULET_DESC_ALIGN);
};

/* Time the device had at least one job, for devfreq. */
struct rvl_load {
	ktime_t since;		/* start of the present state */
	bool is_busy;		/* the present state */
	ktime_t busy;
	ktime_t idle;
	ktime_t busy_total;	/* since probe */
};

/* What hwmon goes by. */
struct rvl_sense {
	struct drm_rivulet_counters counters;	/* last read, or as the device went to sleep */
	u64 time, energy;	/* when power was computed last; ns, pJ */
	long microwatt;
};

/* One NPU. Lives until the last file, buffer and dma-buf of it are gone. */
struct rvl_device {
	struct drm_device drm;
	const struct rvl_bus_ops *bus;
	void *bus_data;
	void __iomem *win;		/* register window */
	void __iomem *bell;		/* ivshmem registers; absent elsewhere */
	atomic_t rings;			/* of a doorbell that is a word */
	bool clocked;			/* the system owns the clock, */
	int rate_level;			/* which has this level's rate; -1: not set yet */
	int irq;			/* 0: none, the queue is polled, */
	struct hrtimer tick;		/* by this */
	struct drm_rivulet_device info;	/* constant after probe, but for current_level */

	struct drm_gpu_scheduler sched;
	struct rvl_slot_mem *mem;	/* RVL_QUEUE_SLOTS of them */
	dma_addr_t mem_dma;

	/* Guards what follows up to @load, and the DRV registers of the queue; taken in the IRQ. */
	spinlock_t lock;
	struct rvl_job *slot[RVL_QUEUE_SLOTS];	/* in the device's hands, by seq & 1 */
	/* While not @live (a reset, sleep), jobs wait here, oldest first, and none is issued. */
	struct rvl_job *wait[RVL_QUEUE_SLOTS];
	u32 waiting;
	bool live;			/* written with request_lock held too */
	u32 level;			/* wanted */
	u32 seq;			/* last one issued */
	u64 fence_seqno;
	bool dead;			/* wedged or unplugged: no job is issued any more */
	int dead_error;			/* what its jobs get */
	struct rvl_load load;

	struct mutex request_lock;	/* one ABORT or RESET at a time; may sleep */

	u64 fence_context;
	atomic_t next_client;
	/* Alive, for debugfs and the last look at removal. */
	atomic_t buffers, jobs, clients;
	atomic_long_t list_bytes;	/* of all page lists */
	spinlock_t bo_lock;		/* of @bos, the buffers that are mapped for the device */
	struct list_head bos;
	atomic_t mapped;		/* of them, and of those about to be freed */
	struct devfreq *devfreq;
	struct rvl_dump *dump;
	struct rvl_sense sense;		/* under request_lock */
	bool own_pm;			/* runtime PM is enabled by us, not by the bus */
};

/* One open file. Jobs and fences keep it past the file; it keeps device and module. */
struct rvl_client {
	struct kref ref;
	struct work_struct work;	/* frees it */
	struct rvl_device *rdev;
	u32 tag;			/* told to the device, never 0 */
	struct rvl_queue {
		struct drm_sched_entity entity;
		struct mutex submit_lock;	/* order of arming = order of pushing */
	} queue[RVL_PRIORITIES];	/* highest first */
	struct xarray perfmons;		/* struct rvl_perfmon */
	struct xarray writable;		/* handle -> object that it may write; absent: read-only */
	atomic_t queued;		/* jobs not yet freed */
	atomic64_t busy_ns;		/* device time of retired jobs */
	atomic64_t cycles;
	unsigned int hangs;		/* since @hang_since; under rvl_device.request_lock */
	unsigned long hang_since;	/* jiffies */
	bool banned;			/* for good */
};

static inline struct rvl_device *to_rvl(struct drm_device *drm)
{
	return container_of(drm, struct rvl_device, drm);
}

extern struct workqueue_struct *rvl_wq;
extern const struct file_operations rvl_fops;
extern const struct attribute_group *rvl_groups[];

void rvl_debugfs_init(struct rvl_device *rdev);
void rvl_hwmon_init(struct rvl_device *rdev);

#endif
