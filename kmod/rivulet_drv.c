// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ioctl table, queries, and the start and removal of a device on any bus. The module registers
 * a driver for each bus.
 */
#include <drm/drm_accel.h>
#include <drm/drm_ioctl.h>
#include <linux/capability.h>
#include <linux/nospec.h>
#include <linux/pci.h>
#include <linux/platform_device.h>

#include "rivulet_device.h"

/*
 * Copy the part of a struct that caller and driver know. The rest of the caller's struct becomes
 * zero.
 */
static int rvl_copy_out(struct drm_rivulet_query *q, const void *data, u32 size)
{
	void __user *user = u64_to_user_ptr(q->pointer);

	if (copy_to_user(user, data, min(q->size, size)) ||
	    (q->size > size && clear_user(user + size, q->size - size)))
		return -EFAULT;
	q->size = size;
	return 0;
}

static int rvl_query_device(struct rvl_client *client, void *out)
{
	*(struct drm_rivulet_device *)out = client->rdev->info;
	return 0;
}

static int rvl_query_clock(struct rvl_client *client, void *out)
{
	struct drm_rivulet_clock *clock = out;

	clock->level = rvl_queue_level(client->rdev);
	clock->hz = client->rdev->info.level[clock->level].hz;
	return 0;
}

static int rvl_query_client(struct rvl_client *client, void *out)
{
	rvl_client_query(client, out);
	return 0;
}

/* Device-wide counters show what other clients do. */
static int rvl_query_counters(struct rvl_client *client, void *out)
{
	struct rvl_device *rdev = client->rdev;
	int ret, idx;

	if (!perfmon_capable())
		return -EACCES;
	ret = rvl_pm_enter(rdev, &idx);
	if (ret)
		return ret;
	ret = rvl_hw_read_counters(rdev, out);
	rvl_pm_exit(rdev, idx);
	return ret;
}

/* @size: bytes of the struct; @first: bytes that it had in version 2.0. */
struct rvl_query {
	u32 size, first;
	int (*fill)(struct rvl_client *client, void *out);
};

#define RVL_QUERY(type, name, last)						\
	[DRM_RIVULET_QUERY_##type] = {						\
		.size = sizeof(struct drm_rivulet_##name),			\
		.first = offsetofend(struct drm_rivulet_##name, last),		\
		.fill = rvl_query_##name,					\
	}

static const struct rvl_query rvl_queries[] = {
	RVL_QUERY(DEVICE, device, circuit),
	RVL_QUERY(CLOCK, clock, hz),
	RVL_QUERY(CLIENT, client, pinned_limit),
	RVL_QUERY(COUNTERS, counters, resets),
};

union rvl_query_out {
	struct drm_rivulet_device device;
	struct drm_rivulet_clock clock;
	struct drm_rivulet_client client;
	struct drm_rivulet_counters counters;
};

static int rvl_ioctl_query(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_query *q = data;
	const struct rvl_query *query;
	union rvl_query_out out = {};
	int ret;

	if (q->type >= ARRAY_SIZE(rvl_queries))
		return -EINVAL;
	query = &rvl_queries[array_index_nospec(q->type, ARRAY_SIZE(rvl_queries))];
	if (!q->pointer) {
		q->size = query->size;
		return 0;
	}
	if (q->size < query->first || q->size > PAGE_SIZE)
		return -EINVAL;
	ret = query->fill(file->driver_priv, &out);
	if (ret)
		return ret;
	return rvl_copy_out(q, &out, query->size);
}

/*
 * DRM checks DRM_RENDER_ALLOW on render nodes only, so that the flag has no effect on accel nodes.
 */
#define RVL_IOCTL(n, func) DRM_IOCTL_DEF_DRV(RIVULET_##n, func, DRM_RENDER_ALLOW)

static const struct drm_ioctl_desc rvl_ioctls[] = {
	RVL_IOCTL(QUERY, rvl_ioctl_query),
	RVL_IOCTL(BO_CREATE, rvl_ioctl_bo_create),
	RVL_IOCTL(BO_MAP, rvl_ioctl_bo_map),
	RVL_IOCTL(BO_INFO, rvl_ioctl_bo_info),
	RVL_IOCTL(BO_WAIT, rvl_ioctl_bo_wait),
	RVL_IOCTL(BO_SYNC, rvl_ioctl_bo_sync),
	RVL_IOCTL(QUEUE_CREATE, rvl_ioctl_queue_create),
	RVL_IOCTL(QUEUE_DESTROY, rvl_ioctl_queue_destroy),
	RVL_IOCTL(SUBMIT, rvl_ioctl_submit),
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
	drm_printf(p, "rivulet-energy-npu:\t%lld pJ\n", atomic64_read(&client->energy_pj));
	drm_show_memory_stats(p, file);
}

/*
 * These ioctls dereference the file's master. Files of accel and render nodes have none, but the
 * core refuses the ioctls on render nodes only.
 */
static bool rvl_needs_master(unsigned int cmd)
{
	return _IOC_NR(cmd) == _IOC_NR(DRM_IOCTL_GET_UNIQUE) ||
	       _IOC_NR(cmd) == _IOC_NR(DRM_IOCTL_GET_MAGIC);
}

/* This runs before the core closes the file's handles, one after another. */
static int rvl_release(struct inode *inode, struct file *filp)
{
	struct drm_file *file = filp->private_data;
	struct rvl_client *client = file->driver_priv;

	client->closing = true;
	return drm_release(inode, filp);
}

static long rvl_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	if (rvl_needs_master(cmd))
		return -EACCES;
	return drm_ioctl(filp, cmd, arg);
}

#ifdef CONFIG_COMPAT
static long rvl_compat_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	if (rvl_needs_master(cmd))
		return -EACCES;
	return drm_compat_ioctl(filp, cmd, arg);
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
	.release = rvl_release,
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
	.major = 2,
	.minor = 0,
};

/* Runs when the last reference to the device is gone. */
static void rvl_report_leaks(struct drm_device *drm, void *arg)
{
	struct rvl_device *rdev = arg;
	int clients = atomic_read(&rdev->clients);
	int buffers = atomic_read(&rdev->buffers);
	int jobs = atomic_read(&rdev->jobs);

	if (buffers || jobs || clients)
		dev_err(drm->dev, "leaked: %d buffers, %d jobs, %d clients\n", buffers, jobs,
			clients);
}

/* The bus driver's binding removes the interrupt handler itself. */
static void rvl_irq_stop(struct rvl_device *rdev)
{
	if (rdev->powered)
		rvl_hw_irq_enable(rdev, false);
	hrtimer_cancel(&rdev->tick);
}

/* The device reports the width of its addresses. Its bus, an IOMMU or dma-ranges may narrow it. */
static int rvl_set_dma_width(struct rvl_device *rdev)
{
	u32 bits = rvl_hw_dma_bits(rdev);
	int ret;

	if (bits < 32 || bits > 64) {
		drm_err(&rdev->drm, "%u bits of DMA address reported, 32 to 64 are possible\n",
			bits);
		return -EPROTO;
	}
	ret = dma_set_mask_and_coherent(rdev->drm.dev, DMA_BIT_MASK(bits));
	if (ret)
		drm_err(&rdev->drm, "no memory can be addressed by %u bits of DMA address\n",
			bits);
	return ret;
}

/* This runs when the binding ends. */
static void rvl_slot_mem_release(void *data)
{
	struct rvl_device *rdev = data;

	if (!rdev->quarantine.active)
		rvl_slot_mem_free(rdev);
}

/*
 * The RESET comes before bus mastering and interrupts are enabled: a job of an earlier driver or
 * kernel must not write into memory that has other users.
 */
static int rvl_bring_up(struct rvl_device *rdev)
{
	int ret;

	ret = rvl_hw_read_info(rdev);
	if (ret)
		return ret;
	ret = rvl_set_dma_width(rdev);
	if (ret)
		return ret;
	ret = rvl_contig_init(rdev);
	if (ret)
		return ret;
	ret = rvl_queue_start(rdev);
	if (ret)
		return dev_err_probe(rdev->drm.dev, ret, "the NPU does not answer a reset\n");
	rvl_quarantine_rebind(rdev->drm.dev);
	ret = rvl_slot_mem_alloc(rdev);
	if (ret)
		return ret;
	ret = devm_add_action_or_reset(rdev->drm.dev, rvl_slot_mem_release, rdev);
	if (ret)
		return ret;
	ret = drmm_add_action_or_reset(&rdev->drm, rvl_report_leaks, rdev);
	if (ret)
		return ret;
	ret = rvl_dump_setup(rdev);
	if (ret)
		return ret;
	ret = rvl_sched_setup(rdev);
	if (ret)
		return ret;
	rdev->bus->master(rdev, true);
	ret = rdev->bus->irq(rdev);
	if (ret > 0) {
		rdev->irq = ret;
		ret = devm_request_irq(rdev->drm.dev, ret, rvl_irq, 0, "rivulet", rdev);
	}
	if (ret)
		return dev_err_probe(rdev->drm.dev, ret, "no interrupt\n");
	rvl_hw_irq_enable(rdev, rdev->irq);
	return 0;
}

/*
 * Allocate an NPU. It is freed when @dev and its last user are gone. @dev: the bus's device, whose
 * driver data becomes the result. Returns the NPU, whose windows the caller sets, or an ERR_PTR.
 */
struct rvl_device *rvl_device_alloc(struct device *dev, const struct rvl_bus_ops *bus)
{
	struct rvl_device *rdev;

	rdev = devm_drm_dev_alloc(dev, &rvl_driver, struct rvl_device, drm);
	if (IS_ERR(rdev))
		return rdev;
	rdev->bus = bus;
	dma_set_max_seg_size(dev, UINT_MAX);
	spin_lock_init(&rdev->lock);
	spin_lock_init(&rdev->bo_lock);
	INIT_LIST_HEAD(&rdev->bos);
	mutex_init(&rdev->request_lock);
	rvl_level_init(rdev);
	dev_set_drvdata(dev, rdev);
	return rdev;
}

/*
 * Bring up an NPU whose windows are mapped, and publish it. After an error the NPU is idle, raises
 * no interrupt and masters no memory, and the driver uses no register, so that its clocks may
 * stop.
 */
int rvl_device_start(struct rvl_device *rdev)
{
	int ret;

	ret = rvl_bring_up(rdev);
	if (ret)
		goto err_queue;
	ret = rvl_devfreq_init(rdev);
	if (ret)
		drm_warn(&rdev->drm, "no frequency scaling (%d): the level does not change\n", ret);
	ret = drm_dev_register(&rdev->drm, 0);
	if (ret)
		goto err_devfreq;
	rvl_debugfs_init(rdev);
	rvl_hwmon_init(rdev);
	rvl_pm_init(rdev);
	drm_info(&rdev->drm, "%s: %u x %u array, %u lanes, %u levels to %llu MHz\n",
		 rdev->info.name, rdev->info.tm, rdev->info.tn, rdev->info.dn,
		 rdev->info.level_count,
		 div_u64(rdev->info.level[rdev->info.level_count - 1].hz, 1000000));
	return 0;

err_devfreq:
	rvl_devfreq_fini(rdev);
	rvl_irq_stop(rdev);
err_queue:
	if (rdev->live)
		rvl_queue_stop(rdev, -ENODEV);
	rvl_level_stop(rdev);
	return ret;
}

/* Undo rvl_device_start(). Files may stay open; their jobs and calls get -ENODEV from here on. */
void rvl_device_remove(struct rvl_device *rdev)
{
	drm_dev_unplug(&rdev->drm);
	rvl_pm_fini(rdev);
	rvl_devfreq_fini(rdev);
	rvl_queue_stop(rdev, -ENODEV);
	rvl_level_stop(rdev);
	rvl_irq_stop(rdev);
	rvl_gem_unmap_all(rdev);
	rvl_quarantine_unbind(rdev);
}

/* End all DMA, because after kexec the next kernel uses the memory. */
void rvl_device_shutdown(struct rvl_device *rdev)
{
	pm_runtime_get_sync(rdev->drm.dev);
	rvl_queue_stop(rdev, -ENODEV);
	rvl_level_stop(rdev);
	rvl_irq_stop(rdev);
}

struct workqueue_struct *rvl_wq;	/* frees jobs and clients */

static int __init rvl_init(void)
{
	int ret;

	rvl_wq = alloc_workqueue("rivulet", WQ_UNBOUND, 0);
	if (!rvl_wq)
		return -ENOMEM;
	ret = platform_driver_register(&rvl_platform_driver);
	if (IS_ENABLED(CONFIG_PCI) && !ret) {
		ret = pci_register_driver(&rvl_pci_driver);
		if (ret)
			platform_driver_unregister(&rvl_platform_driver);
	}
	if (ret)
		destroy_workqueue(rvl_wq);
	return ret;
}
module_init(rvl_init);

static void __exit rvl_exit(void)
{
	if (IS_ENABLED(CONFIG_PCI))
		pci_unregister_driver(&rvl_pci_driver);
	platform_driver_unregister(&rvl_platform_driver);
	destroy_workqueue(rvl_wq);
}
module_exit(rvl_exit);

MODULE_DESCRIPTION("Rivulet NPU");
MODULE_LICENSE("GPL");
MODULE_VERSION(RVL_VERSION);
MODULE_SOFTDEP("pre: governor_simpleondemand");
