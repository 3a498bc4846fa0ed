// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers: allocation, the device's view of their pages, mapping, what a file may do with each of
 * its handles, and the CPU's turn at them. Sharing is in rivulet_prime.c.
 */
#include <drm/drm_utils.h>
#include <linux/dma-buf.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-resv.h>

#include "rivulet_device.h"

static void rvl_gem_free_list(struct rvl_bo *bo)
{
	struct drm_device *drm = bo->base.base.dev;

	if (!bo->list)
		return;
	atomic_long_sub(bo->list_bytes, &to_rvl(drm)->list_bytes);
	dma_free_coherent(drm->dev, bo->list_bytes, bo->list, bo->list_dma);
	bo->list = NULL;
}

static void rvl_gem_unmapped(struct rvl_device *rdev)
{
	if (atomic_dec_and_test(&rdev->mapped))
		wake_up_var(&rdev->mapped);
}

static void rvl_gem_free(struct drm_gem_object *obj)
{
	struct rvl_device *rdev = to_rvl(obj->dev);
	struct rvl_bo *bo = to_rvl_bo(obj);
	bool mapped = bo->base.sgt;

	scoped_guard(spinlock, &rdev->bo_lock)
		list_del_init(&bo->node);
	rvl_gem_free_list(bo);
	if (bo->counted)
		atomic_dec(&rdev->buffers);
	drm_gem_shmem_free(&bo->base);
	if (mapped)
		rvl_gem_unmapped(rdev);
}

/* An exporter may keep the mapping as long as the attachment: replace that by one without. */
static void rvl_gem_reattach(struct rvl_bo *bo)
{
	struct drm_gem_object *obj = &bo->base.base;
	struct dma_buf_attachment *old = obj->import_attach;
	struct dma_buf_attachment *bare = dma_buf_attach(bo->source, obj->dev->dev);

	dma_buf_unmap_attachment_unlocked(old, bo->base.sgt, DMA_BIDIRECTIONAL);
	if (IS_ERR(bare))
		return;
	/* The core looks at it under this lock. */
	scoped_guard(mutex, &obj->dev->object_name_lock)
		obj->import_attach = bare;
	dma_buf_detach(bo->source, old);
}

static void rvl_gem_unmap(struct rvl_bo *bo)
{
	rvl_gem_free_list(bo);
	if (bo->source) {
		rvl_gem_reattach(bo);
	} else {
		dma_unmap_sgtable(bo->base.base.dev->dev, bo->base.sgt, DMA_BIDIRECTIONAL, 0);
		sg_free_table(bo->base.sgt);
		kfree(bo->base.sgt);
	}
	bo->base.sgt = NULL;
	rvl_gem_unmapped(to_rvl(bo->base.base.dev));
}

/*
 * End every mapping of a buffer for the DMA of a device that is unplugged, so that nobody maps
 * another one. The buffers stay what they are to user space and to other devices.
 */
void rvl_gem_unmap_all(struct rvl_device *rdev)
{
	struct rvl_bo *bo;

	spin_lock(&rdev->bo_lock);
	while ((bo = list_first_entry_or_null(&rdev->bos, struct rvl_bo, node))) {
		list_del_init(&bo->node);
		if (!kref_get_unless_zero(&bo->base.base.refcount))
			continue;
		spin_unlock(&rdev->bo_lock);
		rvl_gem_unmap(bo);
		drm_gem_object_put(&bo->base.base);
		spin_lock(&rdev->bo_lock);
	}
	spin_unlock(&rdev->bo_lock);
	/* For those that others are freeing. */
	wait_var_event(&rdev->mapped, !atomic_read(&rdev->mapped));
}

/* Does this file hold any handle that may write the object? Mappings are per object. */
static bool rvl_rights_any(struct drm_file *file, struct drm_gem_object *obj)
{
	struct rvl_client *client = file->driver_priv;
	unsigned long handle;
	bool any = false;
	void *entry;

	spin_lock(&file->table_lock);
	xa_for_each(&client->writable, handle, entry)
		any |= entry == to_rvl_bo(obj)->right && idr_find(&file->object_idr, handle) == obj;
	spin_unlock(&file->table_lock);
	return any;
}

/* Rights: those of the file's handles, or of a dma-buf's own file, which the core has checked. */
static int rvl_gem_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	struct dma_buf *source = to_rvl_bo(obj)->source;
	struct file *filp = vma->vm_file;
	int ret;

	if (filp->f_op == &rvl_fops && !rvl_rights_any(filp->private_data, obj)) {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	if (!source)
		return drm_gem_shmem_mmap(to_drm_gem_shmem_obj(obj), vma);
	/* The helper asks obj->dma_buf, which goes with the last handle, perhaps just now. */
	vma->vm_private_data = NULL;
	vma->vm_ops = NULL;
	ret = dma_buf_mmap(source, vma, 0);
	if (!ret)
		drm_gem_object_put(obj);
	return ret;
}

static enum drm_gem_object_status rvl_gem_status(struct drm_gem_object *obj)
{
	return DRM_GEM_OBJECT_RESIDENT;
}

static const struct drm_gem_object_funcs rvl_gem_funcs = {
	.free = rvl_gem_free,
	.export = rvl_prime_export,
	.print_info = drm_gem_shmem_object_print_info,
	.pin = drm_gem_shmem_object_pin,
	.unpin = drm_gem_shmem_object_unpin,
	.get_sg_table = drm_gem_shmem_object_get_sg_table,
	.vmap = drm_gem_shmem_object_vmap,
	.vunmap = drm_gem_shmem_object_vunmap,
	.mmap = rvl_gem_mmap,
	.status = rvl_gem_status,
	.vm_ops = &drm_gem_shmem_vm_ops,
};

/* drm_driver.gem_create_object: an empty buffer for the shmem helper. */
struct drm_gem_object *rvl_gem_create_object(struct drm_device *drm, size_t size)
{
	struct rvl_bo *bo = kzalloc(sizeof(*bo), GFP_KERNEL);
	static atomic_long_t rights;

	if (!bo)
		return ERR_PTR(-ENOMEM);
	bo->right = xa_mk_value(atomic_long_inc_return(&rights) & LONG_MAX);
	bo->base.base.funcs = &rvl_gem_funcs;
	INIT_LIST_HEAD(&bo->node);
	return &bo->base.base;
}

/* Bytes mapped, and whether they are whole device pages; -EINVAL if not. */
static int rvl_sgt_check(struct sg_table *sgt, size_t size, bool *contiguous)
{
	struct scatterlist *sg;
	dma_addr_t next = 0;
	size_t total = 0;
	unsigned int i;

	*contiguous = true;
	for_each_sgtable_dma_sg(sgt, sg, i) {
		if (!IS_ALIGNED(sg_dma_address(sg) | sg_dma_len(sg), RIVULET_PAGE_SIZE))
			return -EINVAL;
		if (i && sg_dma_address(sg) != next)
			*contiguous = false;
		next = sg_dma_address(sg) + sg_dma_len(sg);
		total = size_add(total, sg_dma_len(sg));
	}
	return total < size ? -EINVAL : 0;
}

static void rvl_fill_list(struct rvl_bo *bo, struct sg_table *sgt, size_t pages)
{
	struct scatterlist *sg;
	unsigned int i, off;
	size_t n = 0;

	for_each_sgtable_dma_sg(sgt, sg, i) {
		for (off = 0; off < sg_dma_len(sg) && n < pages; off += RIVULET_PAGE_SIZE)
			bo->list[n++] = cpu_to_le64(sg_dma_address(sg) + off);
	}
}

/* Make the device's view of mapped pages; freed with the buffer. */
static int rvl_gem_describe(struct rvl_bo *bo, struct sg_table *sgt)
{
	struct drm_gem_object *obj = &bo->base.base;
	size_t pages = obj->size / RIVULET_PAGE_SIZE;
	struct rvl_device *rdev = to_rvl(obj->dev);
	bool contiguous;
	int ret;

	/* From here on every way out is rvl_gem_free(). */
	bo->counted = true;
	atomic_inc(&rdev->buffers);
	atomic_inc(&rdev->mapped);
	scoped_guard(spinlock, &rdev->bo_lock)
		list_add(&bo->node, &rdev->bos);
	ret = rvl_sgt_check(sgt, obj->size, &contiguous);
	if (ret)
		return ret;
	bo->span = sg_dma_address(sgt->sgl);
	if (contiguous)
		return 0;
	bo->list_bytes = array_size(pages, sizeof(*bo->list));
	bo->list = dma_alloc_coherent(obj->dev->dev, bo->list_bytes, &bo->list_dma,
				      GFP_KERNEL | __GFP_NOWARN);
	if (!bo->list)
		return -ENOMEM;
	atomic_long_add(bo->list_bytes, &rdev->list_bytes);
	rvl_fill_list(bo, sgt, pages);
	return 0;
}

/*
 * drm_driver.gem_prime_import_sg_table. Takes over @sgt, which is mapped, on success only. -EFBIG
 * above the size limit, -EINVAL when a page list cannot name the exporter's pages.
 */
struct drm_gem_object *rvl_gem_import_sg_table(struct drm_device *drm,
					       struct dma_buf_attachment *attach,
					       struct sg_table *sgt)
{
	struct drm_gem_object *obj;
	int ret;

	if (attach->dmabuf->size > DRM_RIVULET_MAX_BO_SIZE)
		return ERR_PTR(-EFBIG);
	obj = drm_gem_shmem_prime_import_sg_table(drm, attach, sgt);
	if (IS_ERR(obj))
		return obj;
	to_rvl_bo(obj)->source = attach->dmabuf;
	ret = rvl_gem_describe(to_rvl_bo(obj), sgt);
	if (!ret)
		return obj;
	/* The caller still owns the mapping: free an object that has none. */
	to_rvl_bo(obj)->base.sgt = NULL;
	rvl_gem_unmapped(to_rvl(drm));
	drm_gem_object_put(obj);
	return ERR_PTR(ret);
}

/* Describe a part of a buffer, which the caller saw to lie inside, to the device. */
void rvl_gem_region(struct drm_gem_object *obj, u64 offset, u64 size, bool write,
		    struct rivulet_region *out)
{
	struct rvl_bo *bo = to_rvl_bo(obj);
	u32 flags = RIVULET_REGION_VALID | (write ? RIVULET_REGION_WRITE : 0);
	u64 page = offset / RIVULET_PAGE_SIZE;

	if (bo->list) {
		flags |= RIVULET_REGION_LIST;
		out->addr = cpu_to_le64(bo->list_dma + page * sizeof(*bo->list));
		out->first = cpu_to_le32(offset % RIVULET_PAGE_SIZE);
	} else {
		out->addr = cpu_to_le64(bo->span + offset);
	}
	out->limit = cpu_to_le64(size);
	out->flags = cpu_to_le32(flags);
}

/*
 * Note what a file may do with a handle it was just given. A handle that nobody noted is read-only,
 * so that the moment between publishing a handle and this call, and any way to get a handle that
 * the driver does not see, err on the safe side. Returns 0 or -ENOMEM.
 */
int rvl_rights_set(struct rvl_client *client, u32 handle, struct drm_gem_object *obj,
		   bool writable)
{
	void *right = to_rvl_bo(obj)->right;

	return xa_err(writable ? xa_store(&client->writable, handle, right, GFP_KERNEL)
			       : xa_erase(&client->writable, handle));
}

/* May the file write @obj through @handle? A note may be left from the number's earlier owner. */
bool rvl_rights_writable(struct rvl_client *client, u32 handle, struct drm_gem_object *obj)
{
	return xa_load(&client->writable, handle) == to_rvl_bo(obj)->right;
}

/* The caller puts *@obj, whatever this returns. */
static int rvl_gem_create(struct drm_device *drm, size_t size, u32 flags,
			  struct drm_gem_object **obj)
{
	struct drm_gem_shmem_object *shmem = drm_gem_shmem_create(drm, size);
	struct sg_table *sgt;

	if (IS_ERR(shmem))
		return PTR_ERR(shmem);
	*obj = &shmem->base;
	shmem->map_wc = flags ? flags & DRM_RIVULET_BO_WC : !dev_is_dma_coherent(drm->dev);
	sgt = drm_gem_shmem_get_pages_sgt(shmem);
	return PTR_ERR_OR_ZERO(sgt) ?: rvl_gem_describe(to_rvl_bo(*obj), sgt);
}

int rvl_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_gem_object *obj __free(rvl_obj) = NULL;
	struct drm_rivulet_bo_create *args = data;
	int ret, idx;

	if ((args->flags && args->flags != DRM_RIVULET_BO_WC &&
	     args->flags != DRM_RIVULET_BO_CACHED) || !args->size ||
	    args->size > DRM_RIVULET_MAX_BO_SIZE)
		return -EINVAL;
	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	ret = rvl_gem_create(drm, args->size, args->flags, &obj);
	drm_dev_exit(idx);
	if (ret)
		return ret;
	args->size = obj->size;
	/* The handle keeps the object; without one it goes. */
	ret = drm_gem_handle_create(file, obj, &args->handle);
	if (ret)
		return ret;
	ret = rvl_rights_set(file->driver_priv, args->handle, obj, true);
	if (ret)
		drm_gem_handle_delete(file, args->handle);
	return ret;
}

int rvl_ioctl_bo_map(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_bo_map *args = data;
	struct drm_gem_object *obj __free(rvl_obj) = NULL;

	if (args->pad)
		return -EINVAL;
	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	args->offset = drm_vma_node_offset_addr(&obj->vma_node);
	return 0;
}

int rvl_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_bo_info *args = data;
	struct drm_gem_object *obj __free(rvl_obj) = drm_gem_object_lookup(file, args->handle);

	if (!obj)
		return -ENOENT;
	args->size = obj->size;
	args->flags = 0;
	if (!rvl_rights_writable(file->driver_priv, args->handle, obj))
		args->flags |= DRM_RIVULET_BO_READONLY;
	if (to_rvl_bo(obj)->source)
		args->flags |= DRM_RIVULET_BO_IMPORTED;
	else if (to_rvl_bo(obj)->base.map_wc)
		args->flags |= DRM_RIVULET_BO_WC;
	else if (rvl_access_needed(to_rvl_bo(obj)))
		args->flags |= DRM_RIVULET_BO_CACHED;
	return 0;
}

#define RVL_ACCESS_FLAGS (DRM_RIVULET_ACCESS_READ | DRM_RIVULET_ACCESS_WRITE | \
			  DRM_RIVULET_ACCESS_END)

/* Must CPU access to a buffer of ours stand between begin and end? */
bool rvl_access_needed(struct rvl_bo *bo)
{
	/* Not dma_dev_need_sync(), which a kernel that debugs DMA says of any device. */
	return !bo->base.map_wc && dma_need_sync(bo->base.base.dev->dev, bo->span);
}

/* Wait until the CPU may read, or @write, a buffer; 0 only looks. 0, -ETIME or -ERESTARTSYS. */
int rvl_access_wait(struct drm_gem_object *obj, bool write, unsigned long timeout)
{
	long left = dma_resv_wait_timeout(obj->resv, dma_resv_usage_rw(write), true, timeout);

	return left < 0 ? left : left ? 0 : -ETIME;
}

/* Hand bytes to the CPU, or back; nothing where caches are coherent or the device is gone. */
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

static bool rvl_ranges_valid(const struct drm_rivulet_range *r, u32 count, u64 size)
{
	u64 from = 0, end;
	u32 i;

	for (i = 0; i < count; i++) {
		if (!r[i].size || r[i].offset < from ||
		    check_add_overflow(r[i].offset, r[i].size, &end) || end > size)
			return false;
		from = end;
	}
	return true;
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

int rvl_ioctl_bo_access(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_range range[DRM_RIVULET_MAX_RANGES];
	struct drm_rivulet_bo_access *args = data;
	struct drm_gem_object *obj __free(rvl_obj) = NULL;

	if ((args->flags & ~RVL_ACCESS_FLAGS) || !(args->flags & ~DRM_RIVULET_ACCESS_END) ||
	    args->pad || args->count > DRM_RIVULET_MAX_RANGES)
		return -EINVAL;
	if (copy_from_user(range, u64_to_user_ptr(args->ranges), args->count * sizeof(*range)))
		return -EFAULT;
	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	if (!rvl_ranges_valid(range, args->count, obj->size))
		return -EINVAL;
	if ((args->flags & DRM_RIVULET_ACCESS_WRITE) &&
	    !rvl_rights_writable(file->driver_priv, args->handle, obj))
		return -EACCES;
	return rvl_access(obj, args, range);
}
