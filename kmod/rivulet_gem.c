// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers: allocation, the device's view of their pages, mapping, and what a file may do with
 * each of its handles. Sharing is in rivulet_prime.c.
 */
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/idr.h>
#include <linux/overflow.h>
#include <linux/scatterlist.h>

#include "rivulet_gem.h"

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

	spin_lock(&rdev->bo_lock);
	if (!list_empty(&bo->node))
		list_del(&bo->node);
	spin_unlock(&rdev->bo_lock);
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
	mutex_lock(&obj->dev->object_name_lock);
	obj->import_attach = bare;
	mutex_unlock(&obj->dev->object_name_lock);
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

/**
 * rvl_gem_unmap_all - end every mapping of a buffer for the device's DMA
 * @rdev: the NPU, unplugged: nobody maps another one
 *
 * The buffers stay what they are to user space and to other devices.
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
	bool live;
	void *entry;

	xa_for_each(&client->writable, handle, entry) {
		if (entry != obj)
			continue;
		spin_lock(&file->table_lock);
		live = idr_find(&file->object_idr, handle) == obj;
		spin_unlock(&file->table_lock);
		if (live)
			return true;
	}
	return false;
}

/*
 * A mapping through the device node has the rights of the file's handles; one through a dma-buf
 * has those of the dma-buf's own file, which the core has checked.
 */
static int rvl_gem_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	struct file *filp = vma->vm_file;

	if (filp->f_op == &rvl_fops && !rvl_rights_any(filp->private_data, obj)) {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	return drm_gem_shmem_mmap(to_drm_gem_shmem_obj(obj), vma);
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

/**
 * rvl_gem_create_object - drm_driver.gem_create_object: an empty buffer for the shmem helper
 * @drm: DRM device
 * @size: bytes
 */
struct drm_gem_object *rvl_gem_create_object(struct drm_device *drm, size_t size)
{
	struct rvl_bo *bo = kzalloc(sizeof(*bo), GFP_KERNEL);

	if (!bo)
		return ERR_PTR(-ENOMEM);
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
	spin_lock(&rdev->bo_lock);
	list_add(&bo->node, &rdev->bos);
	spin_unlock(&rdev->bo_lock);
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

/**
 * rvl_gem_import_sg_table - drm_driver.gem_prime_import_sg_table
 * @drm: DRM device
 * @attach: the core's attachment
 * @sgt: its pages, mapped
 *
 * Takes over @sgt on success only. Returns the object or an ERR_PTR: -EFBIG above the size limit,
 * -EINVAL when the exporter's pages cannot be named by a page list.
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

/**
 * rvl_gem_region - describe a part of a buffer to the device
 * @obj: buffer
 * @offset: first byte, with @size inside the buffer (checked by the caller)
 * @size: bytes
 * @write: may the device write?
 * @out: result
 */
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

/**
 * rvl_rights_set - note what a file may do with a handle it was just given
 * @client: the file
 * @handle: GEM handle
 * @obj: buffer
 * @writable: may it write?
 *
 * A handle that nobody noted is read-only, so that the moment between publishing a handle and
 * this call, and any way to get a handle that the driver does not see, err on the safe side.
 * Returns 0 or -ENOMEM.
 */
int rvl_rights_set(struct rvl_client *client, u32 handle, struct drm_gem_object *obj,
		   bool writable)
{
	if (!writable) {
		xa_erase(&client->writable, handle);
		return 0;
	}
	return xa_err(xa_store(&client->writable, handle, obj, GFP_KERNEL));
}

/**
 * rvl_rights_writable - may the file write @obj through @handle?
 * @client: the file
 * @handle: GEM handle
 * @obj: buffer
 *
 * The object is compared too: a note may be left from an earlier owner of the number.
 */
bool rvl_rights_writable(struct rvl_client *client, u32 handle, struct drm_gem_object *obj)
{
	return xa_load(&client->writable, handle) == obj;
}

static struct rvl_bo *rvl_gem_create(struct drm_device *drm, size_t size, u32 flags)
{
	struct drm_gem_shmem_object *shmem;
	struct sg_table *sgt;
	int ret;

	shmem = drm_gem_shmem_create(drm, size);
	if (IS_ERR(shmem))
		return ERR_CAST(shmem);
	shmem->map_wc = flags ? flags & DRM_RIVULET_BO_WC : !dev_is_dma_coherent(drm->dev);
	sgt = drm_gem_shmem_get_pages_sgt(shmem);
	ret = PTR_ERR_OR_ZERO(sgt);
	if (!ret)
		ret = rvl_gem_describe(to_rvl_bo(&shmem->base), sgt);
	if (!ret)
		return to_rvl_bo(&shmem->base);
	drm_gem_object_put(&shmem->base);
	return ERR_PTR(ret);
}

/* DRM_IOCTL_RIVULET_BO_CREATE */
int rvl_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_bo_create *args = data;
	struct drm_gem_object *obj;
	struct rvl_bo *bo;
	int ret, idx;

	if ((args->flags && args->flags != DRM_RIVULET_BO_WC &&
	     args->flags != DRM_RIVULET_BO_CACHED) || !args->size ||
	    args->size > DRM_RIVULET_MAX_BO_SIZE)
		return -EINVAL;
	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	bo = rvl_gem_create(drm, args->size, args->flags);
	drm_dev_exit(idx);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	obj = &bo->base.base;
	args->size = obj->size;
	ret = drm_gem_handle_create(file, obj, &args->handle);
	if (!ret) {
		ret = rvl_rights_set(file->driver_priv, args->handle, obj, true);
		if (ret)
			drm_gem_handle_delete(file, args->handle);
	}
	/* The handle keeps the object; without one this frees it. */
	drm_gem_object_put(obj);
	return ret;
}

/* DRM_IOCTL_RIVULET_BO_MAP */
int rvl_ioctl_bo_map(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_bo_map *args = data;
	struct drm_gem_object *obj;

	if (args->pad)
		return -EINVAL;
	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	args->offset = drm_vma_node_offset_addr(&obj->vma_node);
	drm_gem_object_put(obj);
	return 0;
}

/* DRM_IOCTL_RIVULET_BO_INFO */
int rvl_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_bo_info *args = data;
	struct drm_gem_object *obj;

	obj = drm_gem_object_lookup(file, args->handle);
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
	drm_gem_object_put(obj);
	return 0;
}
