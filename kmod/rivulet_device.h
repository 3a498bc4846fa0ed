/* SPDX-License-Identifier: GPL-2.0-only */
/* Structures that the driver's files share, then the functions of each file. */
#ifndef RIVULET_DEVICE_H
#define RIVULET_DEVICE_H

#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem_shmem_helper.h>
#include <drm/drm_managed.h>
#include <drm/drm_print.h>
#include <drm/gpu_scheduler.h>
#include <linux/cleanup.h>
#include <linux/dma-mapping.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pm_runtime.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "rivulet_accel.h"
#include "rivulet_compat.h"
#include "rivulet_dev.h"

struct devfreq;
struct dma_fence_chain;
struct drm_syncobj;
struct rvl_account;
struct rvl_device;
struct rvl_dump;

/* Entries of the device's queue: CURRENT and NEXT. */
#define RVL_QUEUE_SLOTS		2
/* Values of a performance monitor. */
#define RVL_PERF_VALUES		(DRM_RIVULET_PERF_ENERGY + 1)
/* Jobs that one file may have queued; each pins its buffers. */
#define RVL_MAX_QUEUED		4096
/* Jobs that all files of one user may have queued. */
#define RVL_MAX_USER_QUEUED	(4 * RVL_MAX_QUEUED)
/*
 * How long a HOLD is waited for. devfreq and autosuspend wait for the short time, because both try
 * again later. The sleep of the system waits for the long time, because the running job must end
 * first.
 */
#define RVL_HOLD_MS		200
#define RVL_HOLD_LONG_MS	5000

/* What a bus provides (docs/device.md, section 1). Each operation may sleep. */
struct rvl_bus_ops {
	/* The interrupt's number, 0 if there is none and the driver is to poll, or -errno. */
	int (*irq)(struct rvl_device *rdev);
	/*
	 * Allow the device to master the bus, or prevent it. Returns whether it is certain that the
	 * device does not access memory after the call.
	 */
	bool (*master)(struct rvl_device *rdev, bool on);
	/* Enable or disable the clocks that registers need; optional. */
	int (*power)(struct rvl_device *rdev, bool on);
	/* Set the system's clock to the rate and voltage of a level, while no job runs. */
	int (*set_rate)(struct rvl_device *rdev, u32 level);
};

/* Descriptor and status of one queue slot, in coherent memory. */
struct rvl_slot_mem {
	struct rivulet_desc desc __aligned(RIVULET_DESC_ALIGN);
	struct rivulet_status status __aligned(RIVULET_DESC_ALIGN);
};

/* Idle and busy time of the device, for devfreq; busy: it has at least one job. */
struct rvl_load {
	bool is_busy;		/* the state since @since */
	u64 since;		/* time of the last update; ns */
	u64 ns[2];		/* idle and busy, since probe */
	u64 taken[2];		/* part of @ns that devfreq has read */
};

/* State of the sensors. */
struct rvl_sense {
	/* last values read; while the device sleeps, those from before */
	struct drm_rivulet_counters counters;
	u64 time, energy;	/* at the last computation of power; ns, pJ */
	long microwatt;
};

/* What a device that left a RESET unanswered may still write (rivulet_quarantine.c). */
struct rvl_quarantine {
	bool active;		/* it holds a reference to the NPU and one to the module */
	u32 count;		/* of @obj, of which each holds a reference */
	struct drm_gem_object *obj[RVL_QUEUE_SLOTS * DRM_RIVULET_MAX_REGIONS];
	struct list_head node;	/* in rvl_quarantined while @active without a binding */
};

/* One NPU. It is freed with the last file, buffer, dma-buf and fence of it. */
struct rvl_device {
	struct drm_device drm;
	const struct rvl_bus_ops *bus;
	void __iomem *win;		/* register window */
	void __iomem *bell;		/* ivshmem registers; absent elsewhere */
	atomic_t rings;			/* last value of the doorbell word */
	struct clk_bulk_data *clks;
	int clk_count;			/* 0: the device owns its clock */
	/* Level whose rate the clock has, -1: unknown; written under rate_lock and request_lock. */
	int rate_level;
	struct reset_control *reset;	/* or NULL */
	int irq;			/* 0: none, the queue is polled */
	struct hrtimer tick;		/* polls it */
	struct drm_rivulet_device info;	/* constant after probe */

	struct drm_gpu_scheduler sched;
	struct rvl_slot_mem *mem;	/* RVL_QUEUE_SLOTS of them */
	dma_addr_t mem_dma;

	/*
	 * Guards the fields up to @load and the driver's registers of slots, RESUME and LEVEL.
	 * Taken in the interrupt handler.
	 */
	spinlock_t lock;
	struct rvl_job *slot[RVL_QUEUE_SLOTS];	/* jobs that the device has, by seq & 1 */
	/* Jobs that wait, oldest first, while the queue is not @live: during a reset or sleep. */
	struct rvl_job *wait[RVL_QUEUE_SLOTS];
	u32 waiting;
	bool live;			/* jobs are issued; written under request_lock too */
	struct rvl_quarantine quarantine; /* written under request_lock too */
	u32 level;			/* the level requested last */
	u32 seq;			/* last one issued */
	u64 fence_seqno;
	int dead;			/* errno of all jobs of a lost or removed device, or 0 */
	bool powered;			/* registers may be used; written at probe, sleep, wake */
	struct rvl_load load;

	/*
	 * Held for one ABORT, RESET or HOLD at a time and its acknowledge. Recovery takes it, so
	 * that its holders neither allocate nor wait for the clock framework.
	 */
	struct mutex request_lock;
	struct mutex rate_lock;		/* one rate change at a time; outside request_lock */
	bool rate_changing;		/* the device is held for one; under request_lock */
	struct delayed_work level_retry; /* repeats a level request that the device did not serve */

	u64 fence_context;
	atomic_t next_client;
	struct device *pool;		/* contiguous buffers are allocated for it */
	/* Objects alive, for debugfs and the check for leaks. */
	atomic_t buffers, jobs, clients;
	atomic_long_t list_bytes;	/* of all page lists */
	spinlock_t bo_lock;		/* of @bos, the buffers that are mapped for the device */
	struct list_head bos;
	atomic_t mapped;		/* number of them, and of those being freed */
	struct devfreq *devfreq;
	struct rvl_dump *dump;
	struct rvl_sense sense;		/* under request_lock */
};

static inline struct rvl_device *to_rvl(struct drm_device *drm)
{
	return container_of(drm, struct rvl_device, drm);
}

/* rvl_device.lock for a scope. sparse cannot see the end of a scope, so both ends are hidden. */
DEFINE_LOCK_GUARD_1(rvl_lock, struct rvl_device,
		    spin_lock_irqsave(&_T->lock->lock, _T->flags); __release(&_T->lock->lock),
		    __acquire(&_T->lock->lock); spin_unlock_irqrestore(&_T->lock->lock, _T->flags),
		    unsigned long flags)

static inline u32 rvl_rd(struct rvl_device *rdev, u32 reg)
{
	return readl(rdev->win + reg);
}

/*
 * A buffer: shmem pages or an imported dma-buf, pinned for its whole life and mapped until the
 * device is removed. The device sees it as one span where it is contiguous, else through a list of
 * its pages.
 */
struct rvl_bo {
	struct drm_gem_shmem_object base;
	dma_addr_t span;	/* the first page, without a list all of them */
	__le64 *list;		/* page addresses for the device, or NULL */
	dma_addr_t list_dma;
	size_t list_bytes;
	bool counted;		/* in rvl_device.buffers */
	bool contiguous;	/* the pages were allocated for rvl_device.pool, at @pool_dma */
	dma_addr_t pool_dma;
	bool quarantined;	/* the buffer must stay mapped when the device is removed */
	/* the buffer stayed mapped at removal, and @mapped of the device does not count it */
	bool outlives;
	bool needs_sync;	/* some page of the mapped buffer is not coherent, or is bounced */
	/* Held for the sync of one page; guards @cpu_writer. */
	spinlock_t sync_lock;
	/*
	 * By page: tag of the client that has synced the page for writing and has not given it
	 * back, or 0. NULL unless @needs_sync.
	 */
	u32 *cpu_writer;
	struct rvl_account *account;	/* of the user who is charged for the size */
	/*
	 * a number that no other buffer gets; a handle that may write has it in rvl_client.writable
	 */
	void *right;
	/* the dma-buf that was imported, kept by the attachment; NULL: allocated here */
	struct dma_buf *source;
	struct list_head node;	/* in rvl_device.bos while mapped */
};

/* A CPU access, for rvl_access_sync(). */
struct rvl_access {
	bool for_device;	/* the access ends; otherwise it begins */
	bool write;		/* the access writes, or reads and writes */
	u32 writer;		/* tag of the accessing client if it may write the buffer, else 0 */
};

/* The tag of all who access a buffer through its writable dma-buf. No client has this tag. */
#define RVL_TAG_DMA_BUF		U32_MAX

/* Drops the reference of a looked-up buffer at the end of a scope. */
DEFINE_FREE(rvl_obj, struct drm_gem_object *, drm_gem_object_put(_T))

static inline struct rvl_bo *to_rvl_bo(struct drm_gem_object *obj)
{
	return container_of(to_drm_gem_shmem_obj(obj), struct rvl_bo, base);
}

/* A queue of a file. The jobs of a queue run in order. */
struct rvl_client_queue {
	refcount_t ref;			/* of the handle, and of each submit under way */
	struct rcu_head rcu;
	struct drm_sched_entity entity;
	struct mutex submit_lock;	/* makes arming and pushing one step; guards @destroyed */
	bool destroyed;			/* no job may be pushed */
	struct work_struct stop;
};

/*
 * One open file. Its jobs and fences hold references to it, so that it may outlive the file. It
 * holds a reference to the device and one to the module.
 */
struct rvl_client {
	refcount_t ref;
	struct work_struct work;	/* frees it */
	struct rvl_device *rdev;
	u32 tag;			/* client tag in descriptors, never 0 or RVL_TAG_DMA_BUF */
	bool closing;			/* the file's last reference is gone */
	struct xarray queues;		/* struct rvl_client_queue */
	struct xarray perfmons;		/* struct rvl_perfmon */
	/* handle -> rvl_bo.right of the object; absent: read-only */
	struct xarray writable;
	atomic_t queued;		/* jobs not yet freed */
	struct rvl_account *account;	/* of the user who opened the file; counts the jobs too */
	atomic64_t busy_ns;		/* device time of retired jobs */
	atomic64_t cycles;
	atomic64_t energy_pj;
	unsigned int hangs;		/* since @hang_since; under rvl_device.lock */
	unsigned long hang_since;	/* jiffies */
	bool banned;			/* permanently */
};

/* Sums over the jobs that are attached to the monitor. */
struct rvl_perfmon {
	refcount_t ref;		/* the file's, and each attached job's */
	u64 value[RVL_PERF_VALUES];	/* under rvl_device.lock */
};

/* The fence that the device signals, and the parent of the scheduler's finished fence. */
struct rvl_fence {
	struct dma_fence base;
	struct rvl_client *client;	/* a reference: keeps module and device */
	spinlock_t lock;	/* not the device's, which the fence may outlive */
};

/* A syncobj that a job is to signal. */
struct rvl_out {
	struct drm_syncobj *syncobj;
	/* for a timeline point; NULL for a binary syncobj, and after the point was added */
	struct dma_fence_chain *chain;
	u64 point;
};

/* One job. Submit owns it until the push, the scheduler from there to free_job. */
struct rvl_job {
	struct drm_sched_job base;
	struct work_struct work;	/* frees it */
	struct rvl_device *rdev;
	struct rvl_client *client;	/* counted */
	struct rvl_perfmon *perfmon;	/* counted, or NULL */
	struct rivulet_desc desc;	/* all but seq, status, crc */

	/* Each buffer of the job once, and the usage with which the job's fence is added. */
	struct drm_gem_object *obj[DRM_RIVULET_MAX_REGIONS];
	enum dma_resv_usage usage[DRM_RIVULET_MAX_REGIONS];
	u32 obj_count;

	struct rvl_fence *fence;	/* initialised by run_job */
	bool issued;			/* @fence is initialised */

	/* While the device has the job: guarded by rvl_device.lock. */
	u32 seq;
	int verdict;			/* error that the driver decided, or 0 */
	u32 progress;			/* PROGRESS at the last check */
	ktime_t issued_at;		/* when it was issued, or became the first in the queue */
	struct rivulet_status status;	/* of a retired job */

	/* Until the push. */
	struct list_head node;		/* in rvl_submit.jobs */
	s64 deadline_ns;		/* CLOCK_MONOTONIC, or 0 */
	bool scheduled;			/* drm_sched_job_init() has succeeded */
	u32 out_count;			/* of @out, each with a reference to its syncobj */
	struct rvl_out out[];
};

static inline struct rvl_job *to_rvl_job(struct drm_sched_job *job)
{
	return container_of(job, struct rvl_job, base);
}

/* Uevents: RIVULET_EVENT, RIVULET_REASON. */
enum rvl_event { RVL_EVENT_HANG, RVL_EVENT_FORCED, RVL_EVENT_LOST, RVL_EVENT_COUNT };

extern struct workqueue_struct *rvl_wq;
extern const struct file_operations rvl_fops;
struct rvl_device *rvl_device_alloc(struct device *dev, const struct rvl_bus_ops *bus);
int rvl_device_start(struct rvl_device *rdev);
void rvl_device_remove(struct rvl_device *rdev);
void rvl_device_shutdown(struct rvl_device *rdev);
extern struct pci_driver rvl_pci_driver;
extern struct platform_driver rvl_platform_driver;

extern const struct dev_pm_ops rvl_pm_ops;
int rvl_power_on(struct rvl_device *rdev);
void rvl_power_off(struct rvl_device *rdev);
void rvl_pm_init(struct rvl_device *rdev);
void rvl_pm_fini(struct rvl_device *rdev);
int rvl_pm_enter(struct rvl_device *rdev, int *idx);
void rvl_pm_put(struct rvl_device *rdev);
void rvl_pm_exit(struct rvl_device *rdev, int idx);

int rvl_hw_identify(void __iomem *win, size_t size);
int rvl_hw_read_info(struct rvl_device *rdev);
u32 rvl_hw_dma_bits(struct rvl_device *rdev);
int rvl_hw_read_counters(struct rvl_device *rdev, struct drm_rivulet_counters *out);
u32 rvl_hw_level(struct rvl_device *rdev);
u32 rvl_hw_done(struct rvl_device *rdev);
bool rvl_hw_gone(struct rvl_device *rdev);
bool rvl_hw_frozen_at(struct rvl_device *rdev, u32 seq);
void rvl_hw_issue(struct rvl_device *rdev, u32 seq, const struct rivulet_desc *desc);
bool rvl_hw_retired(struct rvl_device *rdev, u32 seq);
int rvl_hw_outcome(struct rvl_device *rdev, u32 seq, struct rivulet_status *st, u64 *ns);
void rvl_hw_resume(struct rvl_device *rdev, u32 seq);
int rvl_hw_abort(struct rvl_device *rdev, u32 seq);
int rvl_hw_reset(struct rvl_device *rdev, u32 base);
int rvl_hw_hold(struct rvl_device *rdev, unsigned int ms);
void rvl_hw_release(struct rvl_device *rdev);
u32 rvl_hw_set_level(struct rvl_device *rdev, u32 level);
int rvl_hw_wait_level(struct rvl_device *rdev, u32 request, unsigned int ms);
void rvl_hw_irq_enable(struct rvl_device *rdev, bool on);

/* rivulet_job.c */
struct rvl_job *rvl_job_alloc(struct rvl_device *rdev, struct rvl_client *client, u32 outs);
void rvl_job_free(struct rvl_job *job);
void rvl_job_issue(struct rvl_job *job);
void rvl_job_finish(struct rvl_job *job, int error);
void rvl_job_retire(struct rvl_job *job);
void rvl_queue_service(struct rvl_device *rdev);
int rvl_sched_setup(struct rvl_device *rdev);
irqreturn_t rvl_irq(int irq, void *arg);

/* rivulet_recover.c */
long rvl_timeout_jiffies(void);
enum drm_gpu_sched_stat rvl_sched_timedout(struct drm_sched_job *sched_job);
void rvl_queue_take(struct rvl_device *rdev);
void rvl_queue_die(struct rvl_device *rdev, int error, bool quiet);
int rvl_queue_restart(struct rvl_device *rdev);
int rvl_queue_reset(struct rvl_device *rdev, enum rvl_event event);
void rvl_queue_lose(struct rvl_device *rdev, int error);
int rvl_queue_force_reset(struct rvl_device *rdev);

/* rivulet_quarantine.c */
void rvl_quarantine_jobs(struct rvl_device *rdev);
void rvl_quarantine_release(struct rvl_device *rdev);
void rvl_quarantine_unbind(struct rvl_device *rdev);
void rvl_quarantine_rebind(struct device *dev);

/* rivulet_queue.c */
int rvl_slot_mem_alloc(struct rvl_device *rdev);
void rvl_slot_mem_free(struct rvl_device *rdev);
int rvl_queue_start(struct rvl_device *rdev);
int rvl_queue_sleep(struct rvl_device *rdev);
void rvl_queue_wake(struct rvl_device *rdev);
void rvl_queue_stop(struct rvl_device *rdev, int error);

/* rivulet_level.c */
void rvl_level_restore(struct rvl_device *rdev);
void rvl_level_catch_up(struct rvl_device *rdev);
void rvl_level_wake(struct rvl_device *rdev);
void rvl_level_init(struct rvl_device *rdev);
void rvl_level_stop(struct rvl_device *rdev);
int rvl_queue_set_level(struct rvl_device *rdev, u32 level);
u32 rvl_queue_level(struct rvl_device *rdev);

void rvl_load_update(struct rvl_device *rdev);
void rvl_load_forget(struct rvl_device *rdev);
void rvl_load_take(struct rvl_device *rdev, u64 *ns);
u64 rvl_load_busy(struct rvl_device *rdev);
int rvl_devfreq_init(struct rvl_device *rdev);
void rvl_devfreq_fini(struct rvl_device *rdev);

int rvl_dump_setup(struct rvl_device *rdev);
void rvl_dump_take(struct rvl_device *rdev, struct rvl_job *job, const char *reason);
void rvl_dump_seal(struct rvl_device *rdev, struct rvl_job *job, int error);
void rvl_event_send(struct rvl_device *rdev, enum rvl_event event);
void rvl_regs_print(struct rvl_device *rdev, struct drm_printer *p);

extern const struct attribute_group *rvl_groups[];
void rvl_debugfs_init(struct rvl_device *rdev);
void rvl_hwmon_init(struct rvl_device *rdev);

struct rvl_perfmon *rvl_perfmon_get(struct rvl_client *client, u32 handle);
void rvl_perfmon_put(struct rvl_perfmon *perfmon);
void rvl_perfmon_add(struct rvl_perfmon *perfmon, const struct rivulet_status *st,
		     u64 ns, int error);
struct rvl_client_queue *rvl_client_queue_get(struct rvl_client *client, u32 handle);
void rvl_client_queue_put(struct rvl_client_queue *queue);
void rvl_client_query(struct rvl_client *client, struct drm_rivulet_client *out);
void rvl_client_blame(struct rvl_client *client);
void rvl_client_put(struct rvl_client *client);
int rvl_client_open(struct drm_device *drm, struct drm_file *file);
void rvl_client_close(struct drm_device *drm, struct drm_file *file);

struct rvl_account *rvl_account_get(void);
void rvl_account_put(struct rvl_account *account);
int rvl_account_charge(struct rvl_account *account, u64 bytes);
void rvl_account_uncharge(struct rvl_account *account, u64 bytes);
bool rvl_account_add_job(struct rvl_account *account);
void rvl_account_remove_job(struct rvl_account *account);
void rvl_account_query(struct drm_rivulet_client *out);

struct drm_gem_object *rvl_gem_create_object(struct drm_device *drm, size_t size);
struct drm_gem_object *rvl_gem_import_sg_table(struct drm_device *drm,
					       struct dma_buf_attachment *attach,
					       struct sg_table *sgt);
int rvl_contig_init(struct rvl_device *rdev);
int rvl_contig_attach(struct rvl_bo *bo);
struct page **rvl_contig_detach(struct rvl_bo *bo);
void rvl_contig_free(struct rvl_device *rdev, struct page **pages, size_t size, dma_addr_t dma);
void rvl_gem_unmap_all(struct rvl_device *rdev);
void rvl_gem_region(struct drm_gem_object *obj, u64 offset, u64 size, bool write,
		    struct rivulet_region *out);
bool rvl_access_needed(struct rvl_bo *bo);
int rvl_access_wait(struct drm_gem_object *obj, bool write, unsigned long timeout);
void rvl_access_sync(struct rvl_bo *bo, u64 at, u64 size, const struct rvl_access *access);
void rvl_access_end(struct rvl_bo *bo, u64 at, u64 size);
void rvl_access_forget(struct rvl_bo *bo, u32 writer);
int rvl_rights_set(struct rvl_client *client, u32 handle, struct drm_gem_object *obj,
		   bool writable);
bool rvl_rights_writable(struct rvl_client *client, u32 handle, struct drm_gem_object *obj);
struct dma_buf *rvl_prime_export(struct drm_gem_object *obj, int flags);
struct drm_gem_object *rvl_prime_import(struct drm_device *drm, struct dma_buf *buf);
int rvl_prime_handle_to_fd(struct drm_device *drm, struct drm_file *file, u32 handle, u32 flags,
			   int *prime_fd);
int rvl_prime_fd_to_handle(struct drm_device *drm, struct drm_file *file, int fd, u32 *handle);

/* One for each ioctl, which uapi/rivulet_accel.h describes. */
int rvl_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_bo_map(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_bo_wait(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_bo_sync(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_queue_create(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_queue_destroy(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_perfmon_create(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_perfmon_destroy(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_perfmon_read(struct drm_device *drm, void *data, struct drm_file *file);

#endif
