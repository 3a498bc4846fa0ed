/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RIVULET_GEM_H
#define RIVULET_GEM_H

#include <drm/drm_gem_shmem_helper.h>

#include "rivulet_device.h"

struct dma_buf;

/*
 * A buffer: shmem pages or an imported dma-buf, pinned for its whole life and mapped until the
 * device goes. That sees it as one span when it is contiguous, else through a list of its pages.
 */
struct rvl_bo {
	struct drm_gem_shmem_object base;
	dma_addr_t span;	/* the first page, without a list all of them */
	__le64 *list;		/* page addresses for the device, or NULL */
	dma_addr_t list_dma;
	size_t list_bytes;
	bool counted;		/* in rvl_device.buffers */
	struct dma_buf *source;	/* imported from, kept by the attachment; NULL: a buffer of ours */
	struct list_head node;	/* in rvl_device.bos while mapped */
};

static inline struct rvl_bo *to_rvl_bo(struct drm_gem_object *obj)
{
	return container_of(to_drm_gem_shmem_obj(obj), struct rvl_bo, base);
}

struct drm_gem_object *rvl_gem_create_object(struct drm_device *drm, size_t size);
struct drm_gem_object *rvl_gem_import_sg_table(struct drm_device *drm,
					       struct dma_buf_attachment *attach,
					       struct sg_table *sgt);
void rvl_gem_unmap_all(struct rvl_device *rdev);
void rvl_gem_region(struct drm_gem_object *obj, u64 offset, u64 size, bool write,
		    struct rivulet_region *out);

bool rvl_access_needed(struct rvl_bo *bo);
int rvl_access_wait(struct drm_gem_object *obj, bool write, unsigned long timeout);
void rvl_access_sync(struct rvl_bo *bo, u64 at, u64 size, bool end);

int rvl_rights_set(struct rvl_client *client, u32 handle, struct drm_gem_object *obj,
		   bool writable);
bool rvl_rights_writable(struct rvl_client *client, u32 handle, struct drm_gem_object *obj);

struct dma_buf *rvl_prime_export(struct drm_gem_object *obj, int flags);
struct drm_gem_object *rvl_prime_import(struct drm_device *drm, struct dma_buf *buf);
int rvl_prime_handle_to_fd(struct drm_device *drm, struct drm_file *file, u32 handle, u32 flags,
			   int *prime_fd);
int rvl_prime_fd_to_handle(struct drm_device *drm, struct drm_file *file, int fd, u32 *handle);

int rvl_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_bo_map(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file);
int rvl_ioctl_bo_access(struct drm_device *drm, void *data, struct drm_file *file);

#endif
