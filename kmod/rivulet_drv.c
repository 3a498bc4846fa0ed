// SPDX-License-Identifier: GPL-2.0-only
/*
 * Probe, the ioctl table, queries. 1af4:1110 is any ivshmem device, so probe looks before it
 * touches: a device that does not carry our magic is left as it was found.
 */
#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_managed.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "rivulet_compat.h"
#include "rivulet_devfreq.h"
#include "rivulet_gem.h"
#include "rivulet_hw.h"
#include "rivulet_job.h"

#define IVSHMEM_VENDOR		0x1af4
#define IVSHMEM_DEVICE		0x1110
#define IVSHMEM_REGS		0	/* BAR of the doorbell */
#define IVSHMEM_MEMORY		2	/* BAR of the shared memory */
#define IVSHMEM_REGS_SIZE	256

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

	info.current_level = rvl_hw_level(rdev);
	return rvl_copy_out(q, &info, sizeof(info));
}

static int rvl_query_counters(struct rvl_device *rdev, struct drm_rivulet_query *q)
{
	struct drm_rivulet_counters counters = {};
	int ret = 0;

	if (q->pointer)
		ret = rvl_hw_read_counters(rdev, &counters);
	return ret ?: rvl_copy_out(q, &counters, sizeof(counters));
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

#if IS_ENABLED(CONFIG_DRM_ACCEL) && !defined(RVL_RENDER_NODE)
#define RVL_NODE_FEATURE	DRIVER_COMPUTE_ACCEL
#define RVL_NODE_FOPS		DRM_ACCEL_FOPS
#else
#define RVL_NODE_FEATURE	DRIVER_RENDER
#define RVL_NODE_FOPS		DRM_GEM_FOPS
#endif

const struct file_operations rvl_fops = {
	.owner = THIS_MODULE,
	RVL_NODE_FOPS,
	.show_fdinfo = drm_show_fdinfo,
};

static const struct drm_driver rvl_driver = {
	.driver_features = RVL_NODE_FEATURE | DRIVER_GEM | DRIVER_SYNCOBJ |
			   DRIVER_SYNCOBJ_TIMELINE,
	.open = rvl_client_open,
	.postclose = rvl_client_close,
	.gem_create_object = rvl_gem_create_object,
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
	.minor = 0,
};

/* Read the magic through a mapping of its own, with the device as firmware or user left it. */
static int rvl_pci_look(struct pci_dev *pdev)
{
	size_t size = pci_resource_len(pdev, IVSHMEM_MEMORY);
	void __iomem *win;
	u16 command;
	int ret;

	if (pdev->class >> 8 != PCI_CLASS_MEMORY_RAM || size < RIVULET_WINDOW_SIZE ||
	    pci_resource_len(pdev, IVSHMEM_REGS) != IVSHMEM_REGS_SIZE ||
	    !(pci_resource_flags(pdev, IVSHMEM_MEMORY) & IORESOURCE_MEM))
		return -ENODEV;
	pci_read_config_word(pdev, PCI_COMMAND, &command);
	if (!(command & PCI_COMMAND_MEMORY) && pci_enable_device_mem(pdev))
		return -ENODEV;
	win = ioremap(pci_resource_start(pdev, IVSHMEM_MEMORY), RIVULET_WINDOW_SIZE);
	ret = win ? rvl_hw_identify(win, size) : -ENODEV;
	if (win)
		iounmap(win);
	if (!(command & PCI_COMMAND_MEMORY)) {
		pci_disable_device(pdev);
		pci_write_config_word(pdev, PCI_COMMAND, command);
	}
	return ret;
}

static int rvl_pci_map(struct rvl_device *rdev)
{
	struct pci_dev *pdev = rdev->pdev;
	int ret;

	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	ret = pcim_iomap_regions(pdev, BIT(IVSHMEM_REGS) | BIT(IVSHMEM_MEMORY), "rivulet");
	if (ret)
		return ret;
	rdev->bell = pcim_iomap_table(pdev)[IVSHMEM_REGS];
	rdev->win = pcim_iomap_table(pdev)[IVSHMEM_MEMORY];
	return dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
}

static void rvl_mem_release(struct drm_device *drm, void *arg)
{
	struct rvl_device *rdev = arg;

	dma_free_coherent(drm->dev, RVL_QUEUE_SLOTS * sizeof(*rdev->mem), rdev->mem,
			  rdev->mem_dma);
}

/* Freed with the last file, not with the device: a late write must not hit other memory. */
static int rvl_mem_setup(struct rvl_device *rdev)
{
	rdev->mem = dma_alloc_coherent(rdev->drm.dev, RVL_QUEUE_SLOTS * sizeof(*rdev->mem),
				       &rdev->mem_dma, GFP_KERNEL);
	if (!rdev->mem)
		return -ENOMEM;
	return drmm_add_action_or_reset(&rdev->drm, rvl_mem_release, rdev);
}

static int rvl_irq_setup(struct rvl_device *rdev)
{
	struct pci_dev *pdev = rdev->pdev;
	int ret;

	ret = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSIX | PCI_IRQ_MSI);
	if (ret < 0)
		return ret;
	rdev->irq = pci_irq_vector(pdev, 0);
	ret = request_irq(rdev->irq, rvl_irq, 0, "rivulet", rdev);
	if (ret)
		pci_free_irq_vectors(pdev);
	return ret;
}

static void rvl_irq_teardown(struct rvl_device *rdev)
{
	rvl_hw_irq_enable(rdev, false);
	free_irq(rdev->irq, rdev);
	pci_free_irq_vectors(rdev->pdev);
}

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
	spin_lock_init(&rdev->level_lock);
	/* Released by the drm device, like the memory around it. */
	mutex_init(&rdev->request_lock);
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
	ret = drmm_add_action_or_reset(&rdev->drm, rvl_last_look, rdev);
	if (!ret)
		ret = rvl_mem_setup(rdev);
	if (!ret)
		ret = rvl_sched_setup(rdev);
	if (ret)
		return ret;
	pci_set_master(rdev->pdev);
	ret = rvl_irq_setup(rdev);
	if (ret)
		return dev_err_probe(rdev->drm.dev, ret, "no interrupt\n");
	rvl_hw_irq_enable(rdev, true);
	return 0;
}

static int rvl_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct rvl_device *rdev;
	int ret;

	ret = rvl_pci_look(pdev);
	if (ret)
		return ret;
	rdev = devm_drm_dev_alloc(&pdev->dev, &rvl_driver, struct rvl_device, drm);
	if (IS_ERR(rdev))
		return PTR_ERR(rdev);
	rdev->pdev = pdev;
	rvl_init_locks(rdev);
	pci_set_drvdata(pdev, rdev);
	ret = rvl_pci_map(rdev);
	if (!ret)
		ret = rvl_bring_up(rdev);
	if (ret)
		return ret;
	ret = rvl_devfreq_init(rdev);
	if (ret)
		drm_warn(&rdev->drm, "no frequency scaling (%d): the level stays\n", ret);
	ret = drm_dev_register(&rdev->drm, 0);
	if (ret)
		goto err_irq;
	rvl_debugfs_init(rdev);
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

/* Files may stay open: their jobs end with -ENODEV and their calls fail from here on. */
static void rvl_remove(struct pci_dev *pdev)
{
	struct rvl_device *rdev = pci_get_drvdata(pdev);

	drm_dev_unplug(&rdev->drm);
	rvl_devfreq_fini(rdev);
	rvl_queue_stop(rdev, -ENODEV);
	rvl_irq_teardown(rdev);
}

static void rvl_shutdown(struct pci_dev *pdev)
{
	struct rvl_device *rdev = pci_get_drvdata(pdev);

	rvl_queue_stop(rdev, -ENODEV);
}

static const struct pci_device_id rvl_ids[] = {
	{ PCI_DEVICE_SUB(IVSHMEM_VENDOR, IVSHMEM_DEVICE, IVSHMEM_VENDOR, 0x1100) },
	{ }
};
MODULE_DEVICE_TABLE(pci, rvl_ids);

static struct pci_driver rvl_pci_driver = {
	.name = "rivulet",
	.id_table = rvl_ids,
	.probe = rvl_probe,
	.remove = rvl_remove,
	.shutdown = rvl_shutdown,
};
module_pci_driver(rvl_pci_driver);

MODULE_DESCRIPTION("Rivulet NPU");
MODULE_LICENSE("GPL");
MODULE_VERSION(RVL_VERSION);
MODULE_SOFTDEP("pre: governor_simpleondemand");
