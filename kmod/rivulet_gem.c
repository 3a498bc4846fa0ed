// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers: allocation, the device's view of their pages, mapping, the rights of a file's handles,
 * and CPU access. Sharing by dma-buf is in rivulet_prime.c.
 */
#include <drm/drm_utils.h>
#include <linux/dma-buf.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-resv.h>
#include <linux/iommu.h>

#include "rivulet_device.h"

/* Charge the calling user with @size bytes. Returns the account, for the buffer, or an ERR_PTR. */
static struct rvl_account *rvl_gem_charge(size_t size)
{
	struct rvl_account *account = rvl_account_get();
	int ret;

	if (!account)
		return ERR_PTR(-ENOMEM);
	ret = rvl_account_charge(account, size);
	if (!ret)
		return account;
	rvl_account_put(account);
	return ERR_PTR(ret);
}

static void rvl_gem_uncharge(struct rvl_account *account, size_t size)
{
	rvl_account_uncharge(account, size);
	rvl_account_put(account);
}

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
	struct page **pages = NULL;
	bool mapped = bo->base.sgt && !bo->outlives;
	dma_addr_t pool_dma = bo->pool_dma;
	size_t size = obj->size;

	scoped_guard(spinlock, &rdev->bo_lock)
		list_del_init(&bo->node);
	rvl_gem_free_list(bo);
	if (bo->counted)
		atomic_dec(&rdev->buffers);
	if (bo->account)
		rvl_gem_uncharge(bo->account, obj->size);
	kvfree(bo->cpu_writer);
	if (bo->contiguous)
		pages = rvl_contig_detach(bo);
	/* This ends the mapping for DMA, after which the pages may be freed. */
	drm_gem_shmem_free(&bo->base);
	if (pages)
		rvl_contig_free(rdev, pages, size, pool_dma);
	if (mapped)
		rvl_gem_unmapped(rdev);
}

/*
 * An exporter may keep a mapping for as long as its attachment exists, so the attachment is
 * replaced by one that was never mapped.
 */
static void rvl_gem_reattach(struct rvl_bo *bo)
{
	struct drm_gem_object *obj = &bo->base.base;
	struct dma_buf_attachment *old = obj->import_attach;
	struct dma_buf_attachment *bare = dma_buf_attach(bo->source, obj->dev->dev);

	dma_buf_unmap_attachment_unlocked(old, bo->base.sgt, DMA_BIDIRECTIONAL);
	if (IS_ERR(bare))
		return;
	/* The core reads import_attach with this lock held. */
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

/* A buffer that the device may still write stays mapped until the buffer is freed. */
static void rvl_gem_leave_mapped(struct rvl_bo *bo)
{
	bo->outlives = true;
	rvl_gem_unmapped(to_rvl(bo->base.base.dev));
}

/*
 * End every mapping of a buffer for the DMA of an unplugged device. No new mapping can be made
 * then. The buffers keep their contents, for userspace and for other devices.
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
		if (bo->quarantined)
			rvl_gem_leave_mapped(bo);
		else
			rvl_gem_unmap(bo);
		drm_gem_object_put(&bo->base.base);
		spin_lock(&rdev->bo_lock);
	}
	spin_unlock(&rdev->bo_lock);
	/* Buffers whose last reference another thread has just dropped are unmapped there. */
	wait_var_event(&rdev->mapped, !atomic_read(&rdev->mapped));
}

/*
 * Does the file hold any handle with the right to write the object? A mapping names the object and
 * not a handle, so any such handle makes it writable.
 */
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

/*
 * A mapping of the device node has the rights of the file's handles. One of a dma-buf has those of
 * the dma-buf's own file, which the core has checked.
 */
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
	/* Not the helper, which reads obj->dma_buf: that is cleared with the last handle. */
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

/*
 * A handle is closed, either alone or because its file is closed. A file that can then not write
 * the buffer gives back the pages that it had synced for writing. Its stores to them are discarded.
 */
static void rvl_gem_close(struct drm_gem_object *obj, struct drm_file *file)
{
	struct rvl_client *client = file->driver_priv;

	if (client->closing || !rvl_rights_any(file, obj))
		rvl_access_forget(to_rvl_bo(obj), client->tag);
}

static const struct drm_gem_object_funcs rvl_gem_funcs = {
	.free = rvl_gem_free,
	.close = rvl_gem_close,
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
	spin_lock_init(&bo->sync_lock);
	INIT_LIST_HEAD(&bo->node);
	return &bo->base.base;
}

/*
 * Check that the mapped pages are whole device pages and cover @size, and report whether they are
 * contiguous. Returns 0 or -EINVAL.
 */
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

/* What the pages of a buffer have in common for the CPU's access. */
struct rvl_sgt_kind {
	bool needs_sync;	/* some page is not coherent, or bounced */
	bool bounced;		/* some page is replaced by a bounce buffer */
};

/*
 * With a narrow DMA mask only some pages of a buffer are bounced, so that each page is checked.
 * dma_dev_need_sync() is not used, because it is true for every device on a kernel that debugs DMA.
 */
static struct rvl_sgt_kind rvl_sgt_kind(struct device *dev, struct sg_table *sgt)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);
	bool direct = !domain || !(domain->type & __IOMMU_DOMAIN_PAGING);
	bool coherent = dev_is_dma_coherent(dev);
	struct rvl_sgt_kind kind = {};
	struct scatterlist *sg;
	unsigned int i, off;

	for_each_sgtable_dma_sg(sgt, sg, i) {
		for (off = 0; off < sg_dma_len(sg) && !kind.bounced; off += RIVULET_PAGE_SIZE) {
			dma_addr_t addr = sg_dma_address(sg) + off;

			if (!dma_need_sync(dev, addr))
				continue;
			kind.needs_sync = true;
			/* Where the device snoops the caches, only bounce buffers need a sync. */
			kind.bounced = coherent || (direct && rvl_in_bounce_buffer(dev, addr));
		}
	}
	return kind;
}

/*
 * Record whether CPU and device see the same bytes of the buffer only after a sync. Returns 0,
 * -ENOMEM, or -EOPNOTSUPP for bounced pages that would never be synced: nobody syncs after a store
 * to a write-combined page, and another exporter does not know of this driver's bounce buffers.
 */
static int rvl_gem_describe_sync(struct rvl_bo *bo, struct sg_table *sgt, size_t pages)
{
	struct drm_device *drm = bo->base.base.dev;
	struct rvl_sgt_kind kind = rvl_sgt_kind(drm->dev, sgt);
	bool foreign = bo->source || bo->base.map_wc;

	if (kind.bounced && foreign) {
		drm_dbg_prime(drm, "%s pages beyond the device's DMA addresses are refused\n",
			      bo->source ? "imported" : "write-combined");
		return -EOPNOTSUPP;
	}
	if (foreign || !kind.needs_sync)
		return 0;
	bo->needs_sync = true;
	bo->cpu_writer = kvcalloc(pages, sizeof(*bo->cpu_writer), GFP_KERNEL_ACCOUNT);
	return bo->cpu_writer ? 0 : -ENOMEM;
}

/* Describe mapped pages for the device and for rvl_access_sync(). Freeing the buffer undoes it. */
static int rvl_gem_describe(struct rvl_bo *bo, struct sg_table *sgt)
{
	struct drm_gem_object *obj = &bo->base.base;
	size_t pages = obj->size / RIVULET_PAGE_SIZE;
	struct rvl_device *rdev = to_rvl(obj->dev);
	bool contiguous;
	int ret;

	/* From here on every error path ends in rvl_gem_free(), which undoes the counts. */
	bo->counted = true;
	atomic_inc(&rdev->buffers);
	atomic_inc(&rdev->mapped);
	scoped_guard(spinlock, &rdev->bo_lock)
		list_add(&bo->node, &rdev->bos);
	ret = rvl_sgt_check(sgt, obj->size, &contiguous);
	if (ret)
		return ret;
	ret = rvl_gem_describe_sync(bo, sgt, pages);
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
 * above the size limit, -EINVAL when a page list cannot name the exporter's pages, -EOPNOTSUPP when
 * the device can reach some of them through a bounce buffer only.
 */
struct drm_gem_object *rvl_gem_import_sg_table(struct drm_device *drm,
					       struct dma_buf_attachment *attach,
					       struct sg_table *sgt)
{
	struct rvl_account *account;
	struct drm_gem_object *obj;
	size_t size;
	int ret;

	if (attach->dmabuf->size > DRM_RIVULET_MAX_BO_SIZE)
		return ERR_PTR(-EFBIG);
	/* The size of the object, which rvl_gem_free() uncharges. */
	size = PAGE_ALIGN(attach->dmabuf->size);
	account = rvl_gem_charge(size);
	if (IS_ERR(account))
		return ERR_CAST(account);
	obj = drm_gem_shmem_prime_import_sg_table(drm, attach, sgt);
	if (IS_ERR(obj)) {
		rvl_gem_uncharge(account, size);
		return obj;
	}
	to_rvl_bo(obj)->account = account;
	to_rvl_bo(obj)->source = attach->dmabuf;
	ret = rvl_gem_describe(to_rvl_bo(obj), sgt);
	if (!ret)
		return obj;
	/* The caller still owns the mapping, so an object without one is freed. */
	to_rvl_bo(obj)->base.sgt = NULL;
	rvl_gem_unmapped(to_rvl(drm));
	drm_gem_object_put(obj);
	return ERR_PTR(ret);
}

/* Describe a part of a buffer to the device. The caller has checked that it lies inside. */
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
 * Record whether a file may write through a handle that it was just given. A handle without a
 * record is read-only. That holds between the publication of a handle and this call, and for
 * handles that are created where the driver is not called. Returns 0 or -ENOMEM.
 */
int rvl_rights_set(struct rvl_client *client, u32 handle, struct drm_gem_object *obj,
		   bool writable)
{
	void *right = to_rvl_bo(obj)->right;

	return xa_err(writable ? xa_store(&client->writable, handle, right, GFP_KERNEL)
			       : xa_erase(&client->writable, handle));
}

/* May the file write @obj through @handle? The record may be that of an earlier object. */
bool rvl_rights_writable(struct rvl_client *client, u32 handle, struct drm_gem_object *obj)
{
	return xa_load(&client->writable, handle) == to_rvl_bo(obj)->right;
}

static bool rvl_gem_flags_valid(u32 flags)
{
	switch (flags) {
	case 0:
	case DRM_RIVULET_BO_WC:
	case DRM_RIVULET_BO_CACHED:
	case DRM_RIVULET_BO_CONTIGUOUS:
	case DRM_RIVULET_BO_CONTIGUOUS | DRM_RIVULET_BO_CACHED:
		return true;
	default:
		return false;
	}
}

/* Fill a new buffer with pages and map them for the device. Freeing the buffer undoes it. */
static int rvl_gem_populate(struct rvl_bo *bo, u32 flags)
{
	struct sg_table *sgt;
	int ret;

	if (flags & DRM_RIVULET_BO_CONTIGUOUS) {
		ret = rvl_contig_attach(bo);
		if (ret)
			return ret;
	}
	sgt = drm_gem_shmem_get_pages_sgt(&bo->base);
	if (IS_ERR(sgt))
		return PTR_ERR(sgt);
	return rvl_gem_describe(bo, sgt);
}

/* A new buffer, pinned and mapped. Returns the object or an ERR_PTR. */
static struct drm_gem_object *rvl_gem_create(struct drm_device *drm, size_t size, u32 flags,
					     bool wc)
{
	struct drm_gem_shmem_object *shmem;
	struct rvl_account *account;
	int ret;

	size = PAGE_ALIGN(size);
	account = rvl_gem_charge(size);
	if (IS_ERR(account))
		return ERR_CAST(account);
	shmem = drm_gem_shmem_create(drm, size);
	if (IS_ERR(shmem)) {
		rvl_gem_uncharge(account, size);
		return ERR_CAST(shmem);
	}
	to_rvl_bo(&shmem->base)->account = account;
	shmem->map_wc = wc;
	ret = rvl_gem_populate(to_rvl_bo(&shmem->base), flags);
	if (!ret)
		return &shmem->base;
	drm_gem_object_put(&shmem->base);
	return ERR_PTR(ret);
}

/*
 * If the caller has not chosen, a buffer is cached where the device snoops the caches, and
 * write-combined elsewhere. A write-combined buffer that would need bounce buffers is cached, too.
 */
static struct drm_gem_object *rvl_gem_create_default(struct drm_device *drm, size_t size, u32 flags)
{
	struct drm_gem_object *obj;

	if (!dev_is_dma_coherent(drm->dev)) {
		obj = rvl_gem_create(drm, size, flags, true);
		if (obj != ERR_PTR(-EOPNOTSUPP))
			return obj;
	}
	return rvl_gem_create(drm, size, flags, false);
}

int rvl_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_bo_create *args = data;
	struct drm_gem_object *obj;
	int ret, idx;

	if (!rvl_gem_flags_valid(args->flags) || !args->size ||
	    args->size > DRM_RIVULET_MAX_BO_SIZE)
		return -EINVAL;
	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	if (args->flags & (DRM_RIVULET_BO_WC | DRM_RIVULET_BO_CACHED))
		obj = rvl_gem_create(drm, args->size, args->flags,
				     args->flags & DRM_RIVULET_BO_WC);
	else
		obj = rvl_gem_create_default(drm, args->size, args->flags);
	drm_dev_exit(idx);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	args->size = obj->size;
	ret = drm_gem_handle_create(file, obj, &args->handle);
	if (!ret) {
		ret = rvl_rights_set(file->driver_priv, args->handle, obj, true);
		if (ret)
			drm_gem_handle_delete(file, args->handle);
	}
	/* The handle has a reference of its own. */
	drm_gem_object_put(obj);
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
	else if (to_rvl_bo(obj)->needs_sync)
		args->flags |= DRM_RIVULET_BO_CACHED;
	if (to_rvl_bo(obj)->contiguous)
		args->flags |= DRM_RIVULET_BO_CONTIGUOUS;
	return 0;
}

#define RVL_ACCESS_FLAGS (DRM_RIVULET_ACCESS_READ | DRM_RIVULET_ACCESS_WRITE)

/*
 * Wait until the CPU may read or, with @write, write a buffer. @timeout: jiffies, 0: only poll.
 * Returns 0, -ETIME or -ERESTARTSYS.
 */
int rvl_access_wait(struct drm_gem_object *obj, bool write, unsigned long timeout)
{
	long left = dma_resv_wait_timeout(obj->resv, dma_resv_usage_rw(write), true, timeout);

	if (left < 0)
		return left;
	return left ? 0 : -ETIME;
}

/*
 * Called with bo->sync_lock held: a reader that found a page unwritten must have synced it before a
 * writer may record the page and store to it.
 */
static void rvl_sync_page(struct rvl_bo *bo, u64 at, u64 len, const struct rvl_access *access)
{
	struct device *dev = bo->base.base.dev->dev;
	size_t page = at / RIVULET_PAGE_SIZE;
	dma_addr_t dma = bo->span + at;

	if (bo->list)
		dma = le64_to_cpu(bo->list[page]) + at % RIVULET_PAGE_SIZE;
	if (access->for_device) {
		dma_sync_single_for_device(dev, dma, len, DMA_BIDIRECTIONAL);
		/*
		 * After a page was given back in part, the rest of it may hold stores that are not
		 * synced.
		 */
		if (len == RIVULET_PAGE_SIZE)
			bo->cpu_writer[page] = 0;
		return;
	}
	/*
	 * Invalidating the caches, or copying from a bounce buffer, would discard what a writer has
	 * stored in the page and has not given to the device. Only a writer may discard its stores.
	 */
	if (!access->writer && bo->cpu_writer[page])
		return;
	if (access->write)
		bo->cpu_writer[page] = access->writer;
	dma_sync_single_for_cpu(dev, dma, len, DMA_BIDIRECTIONAL);
}

/*
 * Make bytes of a buffer visible to the CPU, or to the device. Does nothing for a buffer that needs
 * no sync, for an imported one, and after the device was removed.
 */
void rvl_access_sync(struct rvl_bo *bo, u64 at, u64 size, const struct rvl_access *access)
{
	struct drm_device *drm = bo->base.base.dev;
	u64 len, last = at + size;
	int idx;

	if (!bo->needs_sync || !drm_dev_enter(drm, &idx))
		return;
	/* Page by page, because the pages of one span need not be contiguous for the CPU. */
	for (; at < last; at += len) {
		len = min(last - at, RIVULET_PAGE_SIZE - at % RIVULET_PAGE_SIZE);
		scoped_guard(spinlock, &bo->sync_lock)
			rvl_sync_page(bo, at, len, access);
	}
	drm_dev_exit(idx);
}

/* Number of pages whose writers are changed while the lock is held once. */
#define RVL_WRITER_BATCH	4096

/*
 * Clear the recorded writer of some pages where it is @writer. With @writer 0, clear every writer.
 */
static void rvl_writers_forget(struct rvl_bo *bo, size_t first, size_t end, u32 writer)
{
	size_t page = first, stop;

	while (page < end) {
		stop = min(end, page + RVL_WRITER_BATCH);
		scoped_guard(spinlock, &bo->sync_lock) {
			for (; page < stop; page++)
				if (!writer || bo->cpu_writer[page] == writer)
					bo->cpu_writer[page] = 0;
		}
		cond_resched();
	}
}

/*
 * The device will write bytes of a buffer. The CPU writers recorded for their pages are cleared, so
 * that a writer that does not call FOR_DEVICE hides no result from readers.
 */
void rvl_access_end(struct rvl_bo *bo, u64 at, u64 size)
{
	if (bo->needs_sync)
		rvl_writers_forget(bo, at / RIVULET_PAGE_SIZE,
				   (at + size - 1) / RIVULET_PAGE_SIZE + 1, 0);
}

/* Clear the records of @writer on all pages of the buffer, because it has lost its access. */
void rvl_access_forget(struct rvl_bo *bo, u32 writer)
{
	if (bo->needs_sync)
		rvl_writers_forget(bo, 0, bo->base.base.size / RIVULET_PAGE_SIZE, writer);
}

int rvl_ioctl_bo_wait(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_gem_object *obj __free(rvl_obj) = NULL;
	struct drm_rivulet_bo_wait *args = data;
	bool write = args->flags & DRM_RIVULET_ACCESS_WRITE;

	if (!args->flags || (args->flags & ~RVL_ACCESS_FLAGS))
		return -EINVAL;
	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	return rvl_access_wait(obj, write, drm_timeout_abs_to_jiffies(args->timeout_ns));
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

/* Another exporter syncs its own memory, and always the whole buffer. */
static int rvl_sync_source(struct dma_buf *source, const struct rvl_access *access)
{
	enum dma_data_direction dir = access->write ? DMA_BIDIRECTIONAL : DMA_FROM_DEVICE;

	return access->for_device ? dma_buf_end_cpu_access(source, dir) :
				    dma_buf_begin_cpu_access(source, dir);
}

static int rvl_sync_ranges(struct drm_gem_object *obj, const struct drm_rivulet_range *r, u32 count,
			   const struct rvl_access *access)
{
	u32 i;

	if (!rvl_ranges_valid(r, count, obj->size))
		return -EINVAL;
	if (access->write && !access->writer)
		return -EACCES;
	if (to_rvl_bo(obj)->source)
		return rvl_sync_source(to_rvl_bo(obj)->source, access);
	/* Bytes that were only read need no write-back. */
	if (access->for_device && !access->write)
		return 0;
	for (i = 0; i < count; i++)
		rvl_access_sync(to_rvl_bo(obj), r[i].offset, r[i].size, access);
	if (!count)
		rvl_access_sync(to_rvl_bo(obj), 0, obj->size, access);
	return 0;
}

int rvl_ioctl_bo_sync(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_gem_object *obj __free(rvl_obj) = NULL;
	struct drm_rivulet_range *range __free(kfree) = NULL;
	struct rvl_client *client = file->driver_priv;
	struct drm_rivulet_bo_sync *args = data;
	struct rvl_access access = {
		.for_device = args->op == DRM_RIVULET_SYNC_FOR_DEVICE,
		.write = args->flags & DRM_RIVULET_ACCESS_WRITE,
	};

	if (!args->flags || (args->flags & ~RVL_ACCESS_FLAGS) ||
	    args->op > DRM_RIVULET_SYNC_FOR_DEVICE || args->count > DRM_RIVULET_MAX_RANGES)
		return -EINVAL;
	/* The array is not on the stack, because DRM_RIVULET_MAX_RANGES entries take a kilobyte. */
	range = memdup_array_user(u64_to_user_ptr(args->ranges), args->count, sizeof(*range));
	if (IS_ERR(range))
		return PTR_ERR(range);
	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	if (rvl_rights_writable(client, args->handle, obj))
		access.writer = client->tag;
	return rvl_sync_ranges(obj, range, args->count, &access);
}
