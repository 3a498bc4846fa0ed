// SPDX-License-Identifier: GPL-2.0-only
/*
 * A minimal driver with drm_sched: one queue, one job in it, one fence, and a hard interrupt
 * handler that signals the fence. bench_driver binds it in place of rivulet, to separate the time
 * that rivulet adds to a job from the time of the machine. It checks no input and recovers from no
 * fault, so that it is for the bench only.
 */
#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_managed.h>
#include <drm/drm_syncobj.h>
#include <linux/crc32c.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "floor.h"
#include "rivulet_compat.h"
#include "rivulet_dev.h"

#define FLOOR_BELL_REG		12	/* of BAR0 */
#define FLOOR_TRIES		2000	/* milliseconds that a reset may take */

/* Device memory of the one entry. */
struct floor_mem {
	struct rivulet_desc desc __aligned(RIVULET_DESC_ALIGN);
	struct rivulet_status status __aligned(RIVULET_DESC_ALIGN);
	__le64 code[2];
};

struct floor_job {
	struct drm_sched_job base;
	struct floor_device *dev;
	/* the job's until run_job, which also gives the device a reference */
	struct dma_fence *fence;
	enum floor_kind kind;
};

struct floor_device {
	struct drm_device drm;
	void __iomem *win, *bell;
	int irq;
	struct drm_gpu_scheduler sched;
	struct drm_sched_entity entity;
	struct mutex submit_lock;	/* makes the order of pushing that of arming */
	struct floor_mem *mem;
	dma_addr_t dma;
	u64 context, fences;

	/* protects the members below; it is also the lock of every fence */
	spinlock_t lock;
	u32 requests, seq;		/* last ones made */
	u32 acked;			/* RESUME_ACK as the last interrupt found it */
	struct dma_fence *pending;
	wait_queue_head_t rung;		/* FLOOR_RAW */
};

static struct floor_device *to_floor(struct drm_device *drm)
{
	return container_of(drm, struct floor_device, drm);
}

static u32 floor_rd(struct floor_device *f, u32 reg)
{
	return readl(f->win + reg);
}

static void floor_wr(struct floor_device *f, u32 reg, u32 value)
{
	writel(value, f->win + reg);
}

static void floor_ring(struct floor_device *f)
{
	writel(floor_rd(f, RIVULET_REG_DOORBELL_PEER), f->bell + FLOOR_BELL_REG);
}

/* Issues a RESUME. Nothing is frozen, so the device only acknowledges it. */
static void floor_request(struct floor_device *f)
{
	floor_wr(f, RIVULET_REG_RESUME_REQ, ++f->requests);
	floor_ring(f);
}

static void floor_issue(struct floor_device *f)
{
	u32 seq = ++f->seq;
	u32 regs = seq & 1 ? RIVULET_REG_SLOT1_ADDR_LO : RIVULET_REG_SLOT0_ADDR_LO;
	struct rivulet_desc *d = &f->mem->desc;

	d->seq = cpu_to_le32(seq);
	d->crc = cpu_to_le32(~crc32c(~0u, d, offsetof(struct rivulet_desc, crc)));
	dma_wmb();
	floor_wr(f, regs, lower_32_bits(f->dma));
	floor_wr(f, regs + 4, upper_32_bits(f->dma));
	floor_wr(f, regs + 8, seq);
	floor_ring(f);
}

static void floor_prepare(struct floor_device *f)
{
	struct rivulet_desc *d = &f->mem->desc;
	int i;

	d->magic = cpu_to_le32(RIVULET_DESC_MAGIC);
	d->size = cpu_to_le32(sizeof(*d));
	d->client = cpu_to_le32(1);
	d->flags = cpu_to_le32(RIVULET_DESC_IRQ);
	d->report_slot = cpu_to_le32(RIVULET_NO_SLOT);
	d->status = cpu_to_le64(f->dma + offsetof(struct floor_mem, status));
	d->region[0].addr = cpu_to_le64(f->dma + offsetof(struct floor_mem, code));
	d->region[0].limit = cpu_to_le64(sizeof(f->mem->code));
	d->region[0].flags = cpu_to_le32(RIVULET_REGION_VALID);
	for (i = 0; i < floor_rd(f, RIVULET_REG_LEVEL_COUNT); i++)
		d->variant[i].length = cpu_to_le32(sizeof(f->mem->code));
}

static const char *floor_name(struct dma_fence *fence)
{
	return "floor";
}

static const struct dma_fence_ops floor_fence_ops = {
	.get_driver_name = floor_name,
	.get_timeline_name = floor_name,
};

static struct dma_fence *floor_run_job(struct drm_sched_job *sched_job)
{
	struct floor_job *job = container_of(sched_job, struct floor_job, base);
	struct floor_device *f = job->dev;
	unsigned long flags;

	spin_lock_irqsave(&f->lock, flags);
	dma_fence_init(job->fence, &floor_fence_ops, &f->lock, f->context, ++f->fences);
	f->pending = dma_fence_get(job->fence);
	if (job->kind == FLOOR_ENTRY)
		floor_issue(f);
	else
		floor_request(f);
	spin_unlock_irqrestore(&f->lock, flags);
	return job->fence;
}

static enum drm_gpu_sched_stat floor_timedout(struct drm_sched_job *sched_job)
{
	pr_err("floor: the device does not answer\n");
	return RVL_SCHED_STAT_OK;
}

static void floor_free_job(struct drm_sched_job *sched_job)
{
	drm_sched_job_cleanup(sched_job);
	kfree(container_of(sched_job, struct floor_job, base));
}

static const struct drm_sched_backend_ops floor_sched_ops = {
	.run_job = floor_run_job,
	.timedout_job = floor_timedout,
	.free_job = floor_free_job,
};

static irqreturn_t floor_irq(int irq, void *arg)
{
	struct floor_device *f = arg;

	spin_lock(&f->lock);
	WRITE_ONCE(f->acked, floor_rd(f, RIVULET_REG_RESUME_ACK));
	if (f->pending && f->acked == f->requests &&
	    floor_rd(f, RIVULET_REG_DONE_SEQ) == f->seq) {
		dma_fence_signal_locked(f->pending);
		dma_fence_put(f->pending);
		f->pending = NULL;
	}
	spin_unlock(&f->lock);
	wake_up(&f->rung);
	return IRQ_HANDLED;
}

static struct floor_job *floor_job_new(struct floor_device *f, enum floor_kind kind)
{
	struct floor_job *job = kzalloc(sizeof(*job), GFP_KERNEL);

	if (!job)
		return NULL;
	job->fence = kzalloc(sizeof(*job->fence), GFP_KERNEL);
	job->dev = f;
	job->kind = kind;
	if (job->fence && !rvl_sched_job_init(&job->base, &f->entity, f, 0))
		return job;
	kfree(job->fence);
	kfree(job);
	return NULL;
}

static int floor_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct floor_device *f = to_floor(drm);
	struct floor_submit *args = data;
	struct drm_syncobj *sync = drm_syncobj_find(file, args->sync);
	struct floor_job *job;

	if (!sync)
		return -ENOENT;
	job = floor_job_new(f, args->kind);
	if (!job) {
		drm_syncobj_put(sync);
		return -ENOMEM;
	}
	mutex_lock(&f->submit_lock);
	f->mem->code[0] = cpu_to_le64(args->code[0]);
	f->mem->code[1] = cpu_to_le64(args->code[1]);
	drm_sched_job_arm(&job->base);
	drm_syncobj_replace_fence(sync, &job->base.s_fence->finished);
	drm_sched_entity_push_job(&job->base);
	mutex_unlock(&f->submit_lock);
	drm_syncobj_put(sync);
	return 0;
}

static int floor_ioctl_raw(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct floor_device *f = to_floor(drm);

	spin_lock_irq(&f->lock);
	floor_request(f);
	spin_unlock_irq(&f->lock);
	return wait_event_interruptible(f->rung, READ_ONCE(f->acked) == f->requests);
}

static const struct drm_ioctl_desc floor_ioctls[] = {
	{ .cmd = FLOOR_SUBMIT, .func = floor_ioctl_submit, .name = "SUBMIT" },
	{ .cmd = FLOOR_RAW, .func = floor_ioctl_raw, .name = "RAW" },
};

DEFINE_DRM_ACCEL_FOPS(floor_fops);

static const struct drm_driver floor_driver = {
	.driver_features = DRIVER_COMPUTE_ACCEL | DRIVER_GEM | DRIVER_SYNCOBJ |
			   DRIVER_SYNCOBJ_TIMELINE,
	.ioctls = floor_ioctls,
	.num_ioctls = ARRAY_SIZE(floor_ioctls),
	.fops = &floor_fops,
	.name = "floor",
	.desc = "bare scheduler on the doorbell of an NPU",
	.major = 1,
};

/* Resets the device, because an earlier driver may have left any state. */
static int floor_reset(struct floor_device *f)
{
	u32 number = floor_rd(f, RIVULET_REG_RESET_REQ) + 1;
	int i;

	floor_wr(f, RIVULET_REG_RESET_BASE, 0);
	floor_wr(f, RIVULET_REG_SLOT0_SEQ, 0);
	floor_wr(f, RIVULET_REG_SLOT1_SEQ, 0);
	floor_wr(f, RIVULET_REG_RESET_REQ, number);
	floor_ring(f);
	for (i = 0; i < FLOOR_TRIES && floor_rd(f, RIVULET_REG_RESET_ACK) != number; i++)
		usleep_range(1000, 2000);
	f->requests = floor_rd(f, RIVULET_REG_RESUME_REQ);
	return i < FLOOR_TRIES ? 0 : -ETIMEDOUT;
}

static int floor_map(struct floor_device *f, struct pci_dev *pdev)
{
	int ret;

	ret = pcim_enable_device(pdev);
	if (!ret)
		ret = pcim_iomap_regions(pdev, BIT(0) | BIT(2), "floor");
	if (ret)
		return ret;
	f->bell = pcim_iomap_table(pdev)[0];
	f->win = pcim_iomap_table(pdev)[2];
	if (floor_rd(f, RIVULET_REG_MAGIC) != RIVULET_MAGIC)
		return -ENODEV;
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	f->mem = dmam_alloc_coherent(&pdev->dev, sizeof(*f->mem), &f->dma, GFP_KERNEL);
	return ret ?: f->mem ? 0 : -ENOMEM;
}

static int floor_start(struct floor_device *f, struct pci_dev *pdev)
{
	struct drm_gpu_scheduler *sched = &f->sched;
	int ret;

	ret = floor_reset(f);
	if (ret)
		return ret;
	floor_prepare(f);
	pci_set_master(pdev);
	ret = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSIX | PCI_IRQ_MSI);
	if (ret < 0)
		return ret;
	f->irq = pci_irq_vector(pdev, 0);
	ret = request_irq(f->irq, floor_irq, 0, "floor", f);
	if (ret)
		return ret;
	ret = rvl_sched_init(sched, &floor_sched_ops, 1, HZ, "floor", &pdev->dev);
	if (!ret)
		ret = drm_sched_entity_init(&f->entity, DRM_SCHED_PRIORITY_NORMAL, &sched, 1, NULL);
	floor_wr(f, RIVULET_REG_IRQ_ENABLE, 1);
	return ret ?: drm_dev_register(&f->drm, 0);
}

static int floor_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct floor_device *f;
	int ret;

	f = devm_drm_dev_alloc(&pdev->dev, &floor_driver, struct floor_device, drm);
	if (IS_ERR(f))
		return PTR_ERR(f);
	spin_lock_init(&f->lock);
	mutex_init(&f->submit_lock);
	init_waitqueue_head(&f->rung);
	f->context = dma_fence_context_alloc(1);
	pci_set_drvdata(pdev, f);
	ret = floor_map(f, pdev);
	return ret ?: floor_start(f, pdev);
}

/* No job is left, because the bench waits for all jobs and closes its file first. */
static void floor_remove(struct pci_dev *pdev)
{
	struct floor_device *f = pci_get_drvdata(pdev);

	drm_dev_unplug(&f->drm);
	floor_wr(f, RIVULET_REG_IRQ_ENABLE, 0);
	drm_sched_entity_destroy(&f->entity);
	drm_sched_fini(&f->sched);
	free_irq(f->irq, f);
	pci_free_irq_vectors(pdev);
}

/* There is no modalias, so that only the bench loads the module. */
static const struct pci_device_id floor_ids[] = {
	{ PCI_DEVICE_SUB(0x1af4, 0x1110, 0x1af4, 0x1100) },
	{ }
};

static struct pci_driver floor_pci_driver = {
	.name = "rivulet-floor",
	.id_table = floor_ids,
	.probe = floor_probe,
	.remove = floor_remove,
};
module_pci_driver(floor_pci_driver);

MODULE_DESCRIPTION("Floor of what a job can cost, for rivulet's bench");
MODULE_LICENSE("GPL");
