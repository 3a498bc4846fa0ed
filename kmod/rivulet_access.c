// SPDX-License-Identifier: GPL-2.0-only
/*
 * The CPU's turn at a buffer: wait for those who use it, and where the device does not see the
 * CPU's caches write back or throw away just the bytes in question.
 */
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_utils.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>

#include "rivulet_gem.h"

#define RVL_ACCESS_FLAGS (DRM_RIVULET_ACCESS_READ | DRM_RIVULET_ACCESS_WRITE | \
			  DRM_RIVULET_ACCESS_END)

/**
 * rvl_access_needed - must CPU access to a buffer of ours stand between begin and end?
 * @bo: buffer, not imported
 */
bool rvl_access_needed(struct rvl_bo *bo)
{
	/* Not dma_dev_need_sync(), which a kernel that debugs DMA says of any device. */
	return !bo->base.map_wc && dma_need_sync(bo->base.base.dev->dev, bo->span);
}

/**
 * rvl_access_wait - wait until the CPU may touch a buffer
 * @obj: buffer
 * @write: will it write? Then readers are waited for too
 * @timeout: jiffies; 0 only looks
 *
 * Returns 0, -ETIME, or -ERESTARTSYS when a signal came first.
 */
int rvl_access_wait(struct drm_gem_object *obj, bool write, unsigned long timeout)
{
	long left = dma_resv_wait_timeout(obj->resv, dma_resv_usage_rw(write), true, timeout);

	return left < 0 ? left : left ? 0 : -ETIME;
}

/**
 * rvl_access_sync - hand bytes of a buffer to the CPU, or back; nothing where caches are coherent
 * or the device is gone
 * @bo: buffer, not imported
 * @at: first byte
 * @size: bytes
 * @end: back?
 */
void rvl_access_sync(struct rvl_bo *bo, u64 at, u64 size, bool end)
{
	struct drm_device *drm = bo->base.base.dev;
	u64 len, last = at + size;
	int idx;

	if (!rvl_access_needed(bo) || !drm_dev_enter(drm, &idx))
		return;
	/* Page by page, because the pages of one span need not lie together for the CPU. */
	for (; at < last; at += len) {
		u64 in_page = at % RIVULET_PAGE_SIZE;
		dma_addr_t dma = bo->list ? le64_to_cpu(bo->list[at / RIVULET_PAGE_SIZE]) + in_page
					  : bo->span + at;

		len = min(last - at, RIVULET_PAGE_SIZE - in_page);
		if (end)
			dma_sync_single_for_device(drm->dev, dma, len, DMA_BIDIRECTIONAL);
		else
			dma_sync_single_for_cpu(drm->dev, dma, len, DMA_BIDIRECTIONAL);
	}
	drm_dev_exit(idx);
}

static int rvl_check_ranges(const struct drm_rivulet_range *r, u32 count, u64 size)
{
	u64 from = 0, end;
	u32 i;

	for (i = 0; i < count; i++) {
		if (!r[i].size || r[i].offset < from ||
		    check_add_overflow(r[i].offset, r[i].size, &end) || end > size)
			return -EINVAL;
		from = end;
	}
	return 0;
}

static int rvl_access(struct drm_gem_object *obj, const struct drm_rivulet_bo_access *args,
		      const struct drm_rivulet_range *r)
{
	bool end = args->flags & DRM_RIVULET_ACCESS_END;
	bool write = args->flags & DRM_RIVULET_ACCESS_WRITE;
	struct dma_buf *source = to_rvl_bo(obj)->source;
	enum dma_data_direction dir = write ? DMA_BIDIRECTIONAL : DMA_FROM_DEVICE;
	int ret = 0;
	u32 i;

	if (!end)
		ret = rvl_access_wait(obj, write, drm_timeout_abs_to_jiffies(args->timeout));
	if (ret)
		return ret;
	/* Another exporter knows its memory, but no ranges. */
	if (source)
		return end ? dma_buf_end_cpu_access(source, dir)
			   : dma_buf_begin_cpu_access(source, dir);
	/* What was only read need not be written back. */
	if (end && !write)
		return 0;
	for (i = 0; i < args->count; i++)
		rvl_access_sync(to_rvl_bo(obj), r[i].offset, r[i].size, end);
	if (!args->count)
		rvl_access_sync(to_rvl_bo(obj), 0, obj->size, end);
	return 0;
}

/* DRM_IOCTL_RIVULET_BO_ACCESS */
int rvl_ioctl_bo_access(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_range range[DRM_RIVULET_MAX_RANGES];
	struct drm_rivulet_bo_access *args = data;
	struct drm_gem_object *obj;
	int ret;

	if ((args->flags & ~RVL_ACCESS_FLAGS) || !(args->flags & ~DRM_RIVULET_ACCESS_END) ||
	    args->pad || args->count > DRM_RIVULET_MAX_RANGES)
		return -EINVAL;
	if (copy_from_user(range, u64_to_user_ptr(args->ranges), args->count * sizeof(*range)))
		return -EFAULT;
	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	ret = rvl_check_ranges(range, args->count, obj->size);
	if (!ret && (args->flags & DRM_RIVULET_ACCESS_WRITE) &&
	    !rvl_rights_writable(file->driver_priv, args->handle, obj))
		ret = -EACCES;
	if (!ret)
		ret = rvl_access(obj, args, range);
	drm_gem_object_put(obj);
	return ret;
}
