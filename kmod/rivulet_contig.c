// SPDX-License-Identifier: GPL-2.0-only
/*
 * Physically contiguous buffers. Their pages are from the device's reserved pool where the Device
 * Tree names one (memory-region), otherwise from the machine's CMA area or page allocator. The
 * device then needs no page list for the buffer.
 */
#include <drm/drm_managed.h>
#include <linux/dma-mapping.h>
#include <linux/of.h>
#include <linux/of_reserved_mem.h>

#include "rivulet_device.h"

/*
 * The pool belongs to a separate struct device, which lives as long as the DRM device. Buffers
 * outlive the binding to the NPU, and their pages must be returned to the pool that they came from.
 * The separate device is on no bus and behind no IOMMU, so that an allocation from it maps nothing.
 */
static void rvl_pool_free(struct device *pool)
{
	kfree(pool);
}

static void rvl_pool_release(struct drm_device *drm, void *pool)
{
	of_reserved_mem_device_release(pool);
	put_device(pool);
}

/*
 * Set up the pool of a device whose DMA width is known. Returns 0, or an error when the pool that
 * the Device Tree names cannot be used.
 */
int rvl_contig_init(struct rvl_device *rdev)
{
	struct device *npu = rdev->drm.dev, *pool;
	int ret = 0;

	pool = kzalloc(sizeof(*pool), GFP_KERNEL);
	if (!pool)
		return -ENOMEM;
	device_initialize(pool);
	pool->release = rvl_pool_free;
	pool->coherent_dma_mask = npu->coherent_dma_mask;
	pool->dma_mask = &pool->coherent_dma_mask;
	set_dev_node(pool, dev_to_node(npu));
	ret = dev_set_name(pool, "%s-pool", dev_name(npu));
	if (!ret && npu->of_node) {
		ret = of_reserved_mem_device_init_by_idx(pool, npu->of_node, 0);
		if (ret == -ENODEV)	/* no memory-region */
			ret = 0;
	}
	if (ret) {
		put_device(pool);
		return dev_err_probe(npu, ret, "the memory-region cannot be used\n");
	}
	rdev->pool = pool;
	return drmm_add_action_or_reset(&rdev->drm, rvl_pool_release, pool);
}

/*
 * Give a new buffer zeroed contiguous pages in place of shmem pages. The use count of pages starts
 * at 1, so that the helper uses these pages and allocates no others. rvl_contig_detach() resets the
 * count. Returns 0, or -ENOMEM when no such run of pages is free.
 */
int rvl_contig_attach(struct rvl_bo *bo)
{
	struct drm_gem_shmem_object *shmem = &bo->base;
	struct device *pool = to_rvl(shmem->base.dev)->pool;
	size_t count = shmem->base.size >> PAGE_SHIFT, i;
	struct page **pages, *first;

	pages = kvmalloc_array(count, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	first = dma_alloc_pages(pool, shmem->base.size, &bo->pool_dma, DMA_BIDIRECTIONAL,
				GFP_KERNEL | __GFP_NOWARN);
	if (!first) {
		kvfree(pages);
		return -ENOMEM;
	}
	for (i = 0; i < count; i++)
		pages[i] = nth_page(first, i);
	shmem->pages = pages;
	shmem->pages_use_count = 1;
	bo->contiguous = true;
	return 0;
}

/*
 * Take the pages out of a buffer that is mapped nowhere, so that the helper does not free them. The
 * caller frees them by rvl_contig_free() once their DMA mapping is removed.
 */
struct page **rvl_contig_detach(struct rvl_bo *bo)
{
	struct page **pages = bo->base.pages;

	bo->base.pages = NULL;
	bo->base.pages_use_count = 0;
	return pages;
}

void rvl_contig_free(struct rvl_device *rdev, struct page **pages, size_t size, dma_addr_t dma)
{
	dma_free_pages(rdev->pool, size, pages[0], dma, DMA_BIDIRECTIONAL);
	kvfree(pages);
}
