/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between kernels behind one name. Kbuild probes the headers for them. */
#ifndef RIVULET_COMPAT_H
#define RIVULET_COMPAT_H

#include <drm/gpu_scheduler.h>
#include <linux/dma-direct.h>
#include <linux/swiotlb.h>

#ifdef RVL_HAVE_NS_TOKEN
#define RVL_IMPORT_DMA_BUF	MODULE_IMPORT_NS(DMA_BUF)
#else
#define RVL_IMPORT_DMA_BUF	MODULE_IMPORT_NS("DMA_BUF")
#endif

#ifdef RVL_HAVE_SCHED_STAT_RESET
#define RVL_SCHED_STAT_OK	DRM_GPU_SCHED_STAT_RESET
#else
#define RVL_SCHED_STAT_OK	DRM_GPU_SCHED_STAT_NOMINAL
#endif

static inline int rvl_sched_init(struct drm_gpu_scheduler *sched,
				 const struct drm_sched_backend_ops *ops, u32 credits,
				 long timeout, const char *name, struct device *dev)
{
#ifdef RVL_HAVE_SCHED_INIT_ARGS
	const struct drm_sched_init_args args = {
		.ops = ops,
		.num_rqs = DRM_SCHED_PRIORITY_COUNT,
		.credit_limit = credits,
		.timeout = timeout,
		.name = name,
		.dev = dev,
	};

	return drm_sched_init(sched, &args);
#else
	return drm_sched_init(sched, ops, NULL, DRM_SCHED_PRIORITY_COUNT, credits, 0, timeout,
			      NULL, NULL, name, dev);
#endif
}

/*
 * Does a directly mapped address of a device that does not snoop lie in a bounce buffer? With
 * dynamic pools the search for a page's pool is not exported. A device that was given any bounce
 * buffer is then taken to have only such.
 */
static inline bool rvl_in_bounce_buffer(struct device *dev, dma_addr_t addr)
{
#ifdef CONFIG_SWIOTLB_DYNAMIC
	return READ_ONCE(dev->dma_uses_io_tlb);
#else
	return swiotlb_find_pool(dev, dma_to_phys(dev, addr));
#endif
}

static inline int rvl_sched_job_init(struct drm_sched_job *job, struct drm_sched_entity *entity,
				     void *owner, u64 client_id)
{
#ifdef RVL_HAVE_SCHED_CLIENT_ID
	return drm_sched_job_init(job, entity, 1, owner, client_id);
#else
	return drm_sched_job_init(job, entity, 1, owner);
#endif
}

#endif
