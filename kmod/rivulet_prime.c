// SPDX-License-Identifier: GPL-2.0-only
/*
 * Export and import of dma-bufs with access rights. A dma-buf has one struct file and with it one
 * mode, but the core caches one dma-buf per object and imports its own exports as the object
 * itself. The cached dma-buf is therefore always the writable one, and each read-only export is a
 * separate dma-buf, recognised by its mode. The rights of an imported handle follow from the mode
 * of the dma-buf.
 */
#include <drm/drm_prime.h>
#include <linux/dma-buf.h>
#include <linux/file.h>

#include "rivulet_device.h"

RVL_IMPORT_DMA_BUF;

static bool rvl_file_writable(struct dma_buf *buf)
{
	return buf->file->f_mode & FMODE_WRITE;
}

/*
 * A mapping through another driver's import arrives here with the permissions of that driver's
 * node. The mode of the dma-buf's own file decides, so that no importer offers more than the
 * export.
 */
static int rvl_dma_buf_mmap(struct dma_buf *buf, struct vm_area_struct *vma)
{
	if (!rvl_file_writable(buf)) {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	return drm_gem_dmabuf_mmap(buf, vma);
}

/*
 * The access that a holder of @buf may have. The holder of a read-only dma-buf only reads, whatever
 * direction it names.
 */
static struct rvl_access rvl_dma_buf_access(struct dma_buf *buf, enum dma_data_direction dir)
{
	bool writer = rvl_file_writable(buf);

	return (struct rvl_access) {
		.write = writer && dir != DMA_FROM_DEVICE,
		.writer = writer ? RVL_TAG_DMA_BUF : 0,
	};
}

/* The last reference to the dma-buf is dropped: pages synced to write through it are given back. */
static void rvl_dma_buf_release(struct dma_buf *buf)
{
	if (rvl_file_writable(buf))
		rvl_access_forget(to_rvl_bo(buf->priv), RVL_TAG_DMA_BUF);
	drm_gem_dmabuf_release(buf);
}

static int rvl_begin_cpu_access(struct dma_buf *buf, enum dma_data_direction dir)
{
	struct rvl_access access = rvl_dma_buf_access(buf, dir);
	struct drm_gem_object *obj = buf->priv;
	int ret;

	ret = rvl_access_wait(obj, access.write, MAX_SCHEDULE_TIMEOUT);
	if (!ret)
		rvl_access_sync(to_rvl_bo(obj), 0, obj->size, &access);
	return ret;
}

static int rvl_end_cpu_access(struct dma_buf *buf, enum dma_data_direction dir)
{
	struct rvl_access access = rvl_dma_buf_access(buf, dir);

	access.for_device = true;
	if (access.write)
		rvl_access_sync(to_rvl_bo(buf->priv), 0, buf->size, &access);
	return 0;
}

static const struct dma_buf_ops rvl_dma_buf_ops = {
	.cache_sgt_mapping = true,
	.attach = drm_gem_map_attach,
	.detach = drm_gem_map_detach,
	.map_dma_buf = drm_gem_map_dma_buf,
	.unmap_dma_buf = drm_gem_unmap_dma_buf,
	.release = rvl_dma_buf_release,
	.mmap = rvl_dma_buf_mmap,
	.vmap = drm_gem_dmabuf_vmap,
	.vunmap = drm_gem_dmabuf_vunmap,
	.begin_cpu_access = rvl_begin_cpu_access,
	.end_cpu_access = rvl_end_cpu_access,
};

static bool rvl_is_own(struct dma_buf *buf, struct drm_device *drm)
{
	return buf->ops == &rvl_dma_buf_ops && ((struct drm_gem_object *)buf->priv)->dev == drm;
}

/* drm_gem_object_funcs.export: the dma-buf that the core caches. */
struct dma_buf *rvl_prime_export(struct drm_gem_object *obj, int flags)
{
	struct dma_buf_export_info info = {
		.exp_name = KBUILD_MODNAME,
		.owner = THIS_MODULE,
		.ops = &rvl_dma_buf_ops,
		.size = obj->size,
		.flags = flags,
		.priv = obj,
		.resv = obj->resv,
	};

	return drm_gem_dmabuf_export(obj->dev, &info);
}

/*
 * drm_driver.gem_prime_import. A writable export of this device is imported as the object itself,
 * if it is the one that the core caches.
 */
struct drm_gem_object *rvl_prime_import(struct drm_device *drm, struct dma_buf *buf)
{
	struct drm_gem_object *obj = buf->priv;
	int idx;

	if (rvl_is_own(buf, drm) && rvl_file_writable(buf) &&
	    (!obj->dma_buf || obj->dma_buf == buf)) {
		drm_gem_object_get(obj);
		return obj;
	}
	if (!drm_dev_enter(drm, &idx))
		return ERR_PTR(-ENODEV);
	obj = drm_gem_prime_import_dev(drm, buf, drm->dev);
	drm_dev_exit(idx);
	return obj;
}

static struct dma_buf *rvl_export_readonly(struct drm_gem_object *obj)
{
	struct dma_buf *source = to_rvl_bo(obj)->source;

	if (!source)
		return rvl_prime_export(obj, O_RDONLY | O_CLOEXEC);
	/* The dma-buf of another exporter has its own mode, which cannot be changed. */
	if (rvl_file_writable(source))
		return ERR_PTR(-EOPNOTSUPP);
	get_dma_buf(source);
	return source;
}

/* Is @buf the dma-buf that an export of @obj returns? */
static bool rvl_exports(struct dma_buf *buf, struct drm_gem_object *obj)
{
	struct dma_buf *source = to_rvl_bo(obj)->source;

	return source ? buf == source : buf->priv == obj;
}

/*
 * The core looks the handle up again. Another thread of the caller may have given the number to
 * another object since the rights were checked, so that the result is checked too.
 */
static struct dma_buf *rvl_export_writable(struct drm_file *file, struct drm_gem_object *obj,
					   u32 handle, u32 flags)
{
	struct dma_buf *buf;
	int ret = 0;

	if (!rvl_rights_writable(file->driver_priv, handle, obj))
		return ERR_PTR(-EACCES);
	buf = drm_gem_prime_handle_to_dmabuf(obj->dev, file, handle, flags);
	if (IS_ERR(buf))
		return buf;
	if (!rvl_exports(buf, obj))
		ret = -ENOENT;
	else if (!rvl_file_writable(buf))
		ret = -EACCES;
	if (!ret)
		return buf;
	dma_buf_put(buf);
	return ERR_PTR(ret);
}

/*
 * drm_driver.prime_handle_to_fd. With DRM_RDWR the handle must be writable (-EACCES). Without, the
 * dma-buf is read-only for everyone who gets it, whatever the handle may do.
 */
int rvl_prime_handle_to_fd(struct drm_device *drm, struct drm_file *file, u32 handle, u32 flags,
			   int *prime_fd)
{
	struct drm_gem_object *obj __free(rvl_obj) = drm_gem_object_lookup(file, handle);
	struct dma_buf *buf;
	int fd;

	if (!obj)
		return -ENOENT;
	fd = get_unused_fd_flags(flags & O_CLOEXEC);
	if (fd < 0)
		return fd;
	if (flags & DRM_RDWR)
		buf = rvl_export_writable(file, obj, handle, flags);
	else
		buf = rvl_export_readonly(obj);
	if (IS_ERR(buf)) {
		put_unused_fd(fd);
		return PTR_ERR(buf);
	}
	fd_install(fd, buf->file);
	*prime_fd = fd;
	return 0;
}

/*
 * May the holder of @buf write the object that the core's import returned? Another thread of the
 * caller may have changed both the descriptor and the handle meanwhile, so that neither is trusted.
 * An object of another exporter has the mode of that exporter's dma-buf. An object of this device
 * must be the one that @buf exports.
 */
static bool rvl_import_writable(struct drm_gem_object *obj, struct dma_buf *buf)
{
	if (to_rvl_bo(obj)->source)
		return rvl_file_writable(to_rvl_bo(obj)->source);
	return READ_ONCE(obj->dma_buf) == buf && rvl_file_writable(buf);
}

static int rvl_import_other(struct drm_device *drm, struct drm_file *file, int fd,
			    struct dma_buf *buf, u32 *handle)
{
	struct drm_gem_object *obj __free(rvl_obj) = NULL;
	int ret;

	ret = drm_gem_prime_fd_to_handle(drm, file, fd, handle);
	if (ret)
		return ret;
	obj = drm_gem_object_lookup(file, *handle);
	if (!obj)
		return -ENOENT;
	/* After a failure the handle stays, read-only, because the file may have had it before. */
	return rvl_rights_set(file->driver_priv, *handle, obj, rvl_import_writable(obj, buf));
}

/* Import a read-only export of this device: the object gets another handle, which may not write. */
static int rvl_import_readonly(struct drm_file *file, struct dma_buf *buf, u32 *handle)
{
	int ret;

	ret = drm_gem_handle_create(file, buf->priv, handle);
	if (ret)
		return ret;
	return rvl_rights_set(file->driver_priv, *handle, buf->priv, false);
}

/* drm_driver.prime_fd_to_handle. */
int rvl_prime_fd_to_handle(struct drm_device *drm, struct drm_file *file, int fd, u32 *handle)
{
	struct dma_buf *buf;
	int ret;

	buf = dma_buf_get(fd);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	if (rvl_is_own(buf, drm) && !rvl_file_writable(buf))
		ret = rvl_import_readonly(file, buf, handle);
	else
		ret = rvl_import_other(drm, file, fd, buf, handle);
	dma_buf_put(buf);
	return ret;
}
