// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ioctl table, queries, and what brings a device up and down whatever bus it sits on; the
 * buses are in rivulet_pci.c and rivulet_platform.c.
 */
#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_managed.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>

#include "rivulet_compat.h"
#include "rivulet_devfreq.h"
#include "rivulet_drv.h"
#include "rivulet_dump.h"
#include "rivulet_gem.h"
#include "rivulet_hw.h"
#include "rivulet_job.h"

static int rvl_copy_out(struct drm_rivulet_query *q, const void *data, u32 size)
{
	u32 len = min(q->size, size);

	if (q->pointer && copy_to_user(u64_to_user_ptr(q->pointer), data, len))
		return -EFAULT;
	q->size = size;
	return 0;
}

static int rvl_query_device(struct rvl_device *rdev, struct drm_rivulet_query *q)
{
	struct drm_rivulet_device info = rdev->info;

	info.current_level = rvl_queue_level(rdev);
	return rvl_copy_out(q, &info, sizeof(info));
}

static int rvl_query_counters(struct rvl_device *rdev, struct drm_rivulet_query *q)
{
	struct drm_rivulet_counters counters = {};
	int ret = 0, idx;

	if (q->pointer) {
		ret = rvl_pm_enter(rdev, &idx);
		if (ret)
			return ret;
		ret = rvl_hw_read_counters(rdev, &counters);
		rvl_pm_exit(rdev, idx);
	}
	return ret ?: rvl_copy_out(q, &counters, sizeof(counters));
}

static int rvl_query_client(struct rvl_client *client, struct drm_rivulet_query *q)
{
	struct drm_rivulet_client info = {
		.flags = READ_ONCE(client->banned) ? DRM_RIVULET_CLIENT_BANNED : 0,
		.hangs = READ_ONCE(client->hangs),
	};

	return rvl_copy_out(q, &info, sizeof(info));
}

static int rvl_ioctl_query(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_query *q = data;
	int ret, idx;

	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	switch (q->type) {
	case DRM_RIVULET_QUERY_DEVICE:
		ret = rvl_query_device(to_rvl(drm), q);
		break;
	case DRM_RIVULET_QUERY_COUNTERS:
		ret = rvl_query_counters(to_rvl(drm), q);
		break;
	case DRM_RIVULET_QUERY_CLIENT:
		ret = rvl_query_client(file->driver_priv, q);
		break;
	default:
		ret = -EINVAL;
	}
	drm_dev_exit(idx);
	return ret;
}

/* RENDER_ALLOW matters on a render node; an accel node does not ask. */
#define RVL_IOCTL(n, func) DRM_IOCTL_DEF_DRV(RIVULET_##n, func, DRM_RENDER_ALLOW)

static const struct drm_ioctl_desc rvl_ioctls[] = {
	RVL_IOCTL(QUERY, rvl_ioctl_query),
	RVL_IOCTL(BO_CREATE, rvl_ioctl_bo_create),
	RVL_IOCTL(BO_MAP, rvl_ioctl_bo_map),
	RVL_IOCTL(BO_INFO, rvl_ioctl_bo_info),
	RVL_IOCTL(SUBMIT, rvl_ioctl_submit),
	RVL_IOCTL(BO_ACCESS, rvl_ioctl_bo_access),
	RVL_IOCTL(PERFMON_CREATE, rvl_ioctl_perfmon_create),
	RVL_IOCTL(PERFMON_DESTROY, rvl_ioctl_perfmon_destroy),
	RVL_IOCTL(PERFMON_READ, rvl_ioctl_perfmon_read),
};

static void rvl_show_fdinfo(struct drm_printer *p, struct drm_file *file)
{
	struct rvl_device *rdev = to_rvl(file->minor->dev);
	struct rvl_client *client = file->driver_priv;
	const struct drm_rivulet_device *d = &rdev->info;

	drm_printf(p, "drm-engine-npu:\t%lld ns\n", atomic64_read(&client->busy_ns));
	drm_printf(p, "drm-cycles-npu:\t%lld\n", atomic64_read(&client->cycles));
	drm_printf(p, "drm-maxfreq-npu:\t%llu Hz\n", d->level[d->level_count - 1].hz);
	drm_show_memory_stats(p, file);
}

/*
 * The core denies a render node what takes a master, but not an accel node, whose files have none
 * either: these two follow the pointer.
 */
static bool rvl_needs_master(unsigned int cmd)
{
	return _IOC_NR(cmd) == _IOC_NR(DRM_IOCTL_GET_UNIQUE) ||
	       _IOC_NR(cmd) == _IOC_NR(DRM_IOCTL_GET_MAGIC);
}

static long rvl_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return rvl_needs_master(cmd) ? -EACCES : drm_ioctl(filp, cmd, arg);
}

#ifdef CONFIG_COMPAT
static long rvl_compat_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return rvl_needs_master(cmd) ? -EACCES : drm_compat_ioctl(filp, cmd, arg);
}
#else
#define rvl_compat_ioctl	NULL
#endif

#if IS_ENABLED(CONFIG_DRM_ACCEL) && !defined(RVL_RENDER_NODE)
#define RVL_NODE_FEATURE	DRIVER_COMPUTE_ACCEL
#define RVL_NODE_OPEN		accel_open
#else
#define RVL_NODE_FEATURE	DRIVER_RENDER
#define RVL_NODE_OPEN		drm_open
#endif

const struct file_operations rvl_fops = {
	.owner = THIS_MODULE,
	.open = RVL_NODE_OPEN,
	.release = drm_release,
	.unlocked_ioctl = rvl_ioctl,
	.compat_ioctl = rvl_compat_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.mmap = drm_gem_mmap,
	.show_fdinfo = drm_show_fdinfo,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

static const struct drm_driver rvl_driver = {
	.driver_features = RVL_NODE_FEATURE | DRIVER_GEM | DRIVER_SYNCOBJ |
			   DRIVER_SYNCOBJ_TIMELINE,
	.open = rvl_client_open,
	.postclose = rvl_client_close,
	.gem_create_object = rvl_gem_create_object,
	.gem_prime_import = rvl_prime_import,
	.gem_prime_import_sg_table = rvl_gem_import_sg_table,
	.prime_handle_to_fd = rvl_prime_handle_to_fd,
	.prime_fd_to_handle = rvl_prime_fd_to_handle,
	.show_fdinfo = rvl_show_fdinfo,
	.ioctls = rvl_ioctls,
	.num_ioctls = ARRAY_SIZE(rvl_ioctls),
	.fops = &rvl_fops,
	.name = "rivulet",
	.desc = "Rivulet NPU",
#ifdef RVL_HAVE_DRIVER_DATE
	.date = "20261121",
#endif
	.major = 1,
	.minor = 1,
};

static void rvl_last_look(struct drm_device *drm, void *arg)
{
	struct rvl_device *rdev = arg;
	int buffers = atomic_read(&rdev->buffers), jobs = atomic_read(&rdev->jobs);
	int clients = atomic_read(&rdev->clients);

	if (buffers || jobs || clients)
		dev_err(drm->dev, "leaked: %d buffers, %d jobs, %d clients\n", buffers, jobs,
			clients);
}

static void rvl_init_locks(struct rvl_device *rdev)
{
	spin_lock_init(&rdev->lock);
	spin_lock_init(&rdev->bo_lock);
	INIT_LIST_HEAD(&rdev->bos);
	/* Released by the drm device, like the memory around it. */
	mutex_init(&rdev->request_lock);
}

/**
 * rvl_bus_master - let the device master the bus, or see to it that it cannot
 * @rdev: the NPU
 * @on: may it?
 */
void rvl_bus_master(struct rvl_device *rdev, bool on)
{
	if (rdev->bus->master)
		rdev->bus->master(rdev, on);
}

static void rvl_irq_teardown(struct rvl_device *rdev)
{
	rvl_hw_irq_enable(rdev, false);
	if (rdev->irq)
		rdev->bus->irq_teardown(rdev);
	else
		rvl_poll_stop(rdev);
}

/* Reset first, DMA and interrupts after: what ran before us must not write into our pages. */
static int rvl_bring_up(struct rvl_device *rdev)
{
	int ret;

	ret = rvl_hw_read_info(rdev);
	if (ret)
		return ret;
	ret = rvl_queue_start(rdev);
	if (ret)
		return dev_err_probe(rdev->drm.dev, ret, "the NPU does not answer a reset\n");
	rdev->mem = dmam_alloc_coherent(rdev->drm.dev, RVL_QUEUE_SLOTS * sizeof(*rdev->mem),
					&rdev->mem_dma, GFP_KERNEL);
	if (!rdev->mem)
		return -ENOMEM;
	ret = drmm_add_action_or_reset(&rdev->drm, rvl_last_look, rdev);
	if (!ret)
		ret = rvl_dump_setup(rdev);
	if (!ret)
		ret = rvl_sched_setup(rdev);
	if (ret)
		return ret;
	rvl_bus_master(rdev, true);
	ret = rdev->bus->irq_setup(rdev);
	if (ret)
		return dev_err_probe(rdev->drm.dev, ret, "no interrupt\n");
	rvl_hw_irq_enable(rdev, rdev->irq);
	return 0;
}

/**
 * rvl_device_alloc - an NPU that nobody knows yet, freed with @dev and its last user
 * @dev: the bus's device; its driver data becomes the result
 * @bus: the attachment
 *
 * Returns the NPU, whose windows the caller sets, or an ERR_PTR.
 */
struct rvl_device *rvl_device_alloc(struct device *dev, const struct rvl_bus_ops *bus)
{
	struct rvl_device *rdev = devm_drm_dev_alloc(dev, &rvl_driver, struct rvl_device, drm);

	if (IS_ERR(rdev))
		return rdev;
	rdev->bus = bus;
	dma_set_max_seg_size(dev, UINT_MAX);
	rvl_init_locks(rdev);
	rvl_poll_init(rdev);
	dev_set_drvdata(dev, rdev);
	return rdev;
}

/**
 * rvl_device_start - bring up an NPU whose windows are mapped, and publish it
 * @rdev: the NPU; powered
 *
 * Returns 0 or a negative errno, after which the device is quiet.
 */
int rvl_device_start(struct rvl_device *rdev)
{
	int ret = rvl_bring_up(rdev);

	if (ret)
		return ret;
	ret = rvl_devfreq_init(rdev);
	if (ret)
		drm_warn(&rdev->drm, "no frequency scaling (%d): the level stays\n", ret);
	ret = drm_dev_register(&rdev->drm, 0);
	if (ret)
		goto err_irq;
	rvl_debugfs_init(rdev);
	rvl_hwmon_init(rdev);
	rvl_pm_init(rdev);
	drm_info(&rdev->drm, "%s: %u x %u array, %u lanes, %u levels to %llu MHz\n",
		 rdev->info.name, rdev->info.tm, rdev->info.tn, rdev->info.dn,
		 rdev->info.level_count,
		 div_u64(rdev->info.level[rdev->info.level_count - 1].hz, 1000000));
	return 0;

err_irq:
	rvl_devfreq_fini(rdev);
	rvl_irq_teardown(rdev);
	return ret;
}

/**
 * rvl_device_remove - undo rvl_device_start()
 * @rdev: the NPU
 *
 * Files may stay open: their jobs end with -ENODEV and their calls fail from here on, and no
 * memory stays mapped for the device's DMA.
 */
void rvl_device_remove(struct rvl_device *rdev)
{
	drm_dev_unplug(&rdev->drm);
	rvl_pm_fini(rdev);
	rvl_devfreq_fini(rdev);
	rvl_queue_stop(rdev, -ENODEV);
	rvl_irq_teardown(rdev);
	rvl_gem_unmap_all(rdev);
}

/**
 * rvl_device_shutdown - no DMA from here on: the next kernel's memory is not ours
 * @rdev: the NPU
 */
void rvl_device_shutdown(struct rvl_device *rdev)
{
	pm_runtime_get_sync(rdev->drm.dev);
	rvl_queue_stop(rdev, -ENODEV);
	rvl_hw_irq_enable(rdev, false);
}

struct workqueue_struct *rvl_wq;	/* clients being freed */

static int __init rvl_init(void)
{
	int ret;

	rvl_wq = alloc_workqueue("rivulet", WQ_UNBOUND, 0);
	if (!rvl_wq)
		return -ENOMEM;
	ret = rvl_platform_register();
	if (IS_ENABLED(CONFIG_PCI) && !ret) {
		ret = rvl_pci_register();
		if (ret)
			rvl_platform_unregister();
	}
	if (ret)
		destroy_workqueue(rvl_wq);
	return ret;
}
module_init(rvl_init);

static void __exit rvl_exit(void)
{
	if (IS_ENABLED(CONFIG_PCI))
		rvl_pci_unregister();
	rvl_platform_unregister();
	destroy_workqueue(rvl_wq);
}
module_exit(rvl_exit);

MODULE_DESCRIPTION("Rivulet NPU");
MODULE_LICENSE("GPL");
MODULE_VERSION(RVL_VERSION);
MODULE_SOFTDEP("pre: governor_simpleondemand");
