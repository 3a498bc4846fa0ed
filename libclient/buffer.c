// SPDX-License-Identifier: MIT
/*
 * Buffers. The kernel returns the same handle for each import of a dma-buf, and closing that handle
 * closes it for all its users. So a device lists its buffers, an import that returns a listed handle
 * returns the listed buffer with one more reference, and one lock guards lookup and close.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xf86drm.h>

#include "priv.h"

static void gem_close(struct rivulet_device *dev, uint32_t handle)
{
	struct drm_gem_close c = { .handle = handle };

	drmIoctl(dev->fd, DRM_IOCTL_GEM_CLOSE, &c);
}

/* With dev->lock. NULL without memory. */
static struct rivulet_buffer *buffer_new(struct rivulet_device *dev, uint32_t handle, uint64_t size,
					 uint32_t flags)
{
	struct rivulet_buffer *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	atomic_init(&b->refs, 1);
	b->dev = rivulet_device_ref(dev);
	b->handle = handle;
	b->size = size;
	b->flags = flags;
	b->next = dev->buffers;
	dev->buffers = b;
	return b;
}

/* Make a buffer of a handle that is not listed. With dev->lock. Closes the handle on error. */
static int buffer_of_handle(struct rivulet_device *dev, uint32_t handle, struct rivulet_buffer **out)
{
	struct drm_rivulet_bo_info info = { .handle = handle };
	int err = 0;

	if (drmIoctl(dev->fd, DRM_IOCTL_RIVULET_BO_INFO, &info)) {
		err = errno;
	} else {
		*out = buffer_new(dev, handle, info.size, info.flags);
		if (!*out)
			err = ENOMEM;
	}
	if (err)
		gem_close(dev, handle);
	return -err;
}

int rivulet_buffer_create_as(struct rivulet_device *dev, uint64_t size, uint32_t flags,
			     struct rivulet_buffer **out)
{
	struct drm_rivulet_bo_create c = { .size = size, .flags = flags };
	struct rivulet_buffer *b;
	int r;

	if (!size || size > DRM_RIVULET_MAX_BO_SIZE)
		return rvl_lib_fail(EINVAL, "a buffer has 1 to %llu bytes, not %llu",
				DRM_RIVULET_MAX_BO_SIZE, (unsigned long long)size);
	if (drmIoctl(dev->fd, DRM_IOCTL_RIVULET_BO_CREATE, &c))
		return rvl_lib_fail(errno, "%s: no buffer of %llu bytes: %s", dev->path,
				(unsigned long long)size, strerror(errno));
	pthread_mutex_lock(&dev->lock);
	/* BO_INFO returns the flags that make a difference on this platform. */
	r = buffer_of_handle(dev, c.handle, &b);
	pthread_mutex_unlock(&dev->lock);
	if (r)
		return rvl_lib_fail(-r, "%s: no buffer of %llu bytes: %s", dev->path,
				(unsigned long long)size, strerror(-r));
	*out = b;
	return 0;
}

int rivulet_buffer_create(struct rivulet_device *dev, uint64_t size, struct rivulet_buffer **out)
{
	return rivulet_buffer_create_as(dev, size, 0, out);
}

/*
 * One more reference to a listed buffer, with dev->lock. The import may have changed whether the
 * handle may be written, so its flags are read again.
 */
static int buffer_again(struct rivulet_buffer *b)
{
	struct drm_rivulet_bo_info info = { .handle = b->handle };

	if (drmIoctl(b->dev->fd, DRM_IOCTL_RIVULET_BO_INFO, &info))
		return -errno;
	b->flags = info.flags;
	atomic_fetch_add(&b->refs, 1);
	return 0;
}

int rivulet_buffer_import(struct rivulet_device *dev, int dmabuf, struct rivulet_buffer **out)
{
	struct rivulet_buffer *b;
	uint32_t handle;
	int r = 0;

	pthread_mutex_lock(&dev->lock);
	if (drmPrimeFDToHandle(dev->fd, dmabuf, &handle)) {
		r = -errno;
	} else {
		for (b = dev->buffers; b && b->handle != handle; b = b->next)
			;
		r = b ? buffer_again(b) : buffer_of_handle(dev, handle, &b);
		if (!r)
			*out = b;
	}
	pthread_mutex_unlock(&dev->lock);
	if (r)
		return rvl_lib_fail(-r, "%s: cannot import dma-buf fd %d: %s", dev->path, dmabuf,
				strerror(-r));
	return 0;
}

int rivulet_buffer_export(struct rivulet_buffer *buf, bool writable, int *dmabuf)
{
	if (writable && buf->flags & DRM_RIVULET_BO_READONLY)
		return rvl_lib_fail(EACCES, "%s: buffer %u is read-only", buf->dev->path, buf->handle);
	if (drmPrimeHandleToFD(buf->dev->fd, buf->handle, DRM_CLOEXEC | (writable ? DRM_RDWR : 0),
			       dmabuf))
		return rvl_lib_fail(errno, "%s: cannot export buffer %u: %s", buf->dev->path,
				buf->handle, strerror(errno));
	return 0;
}

/* With dev->lock. */
static int map_locked(struct rivulet_buffer *buf)
{
	struct drm_rivulet_bo_map m = { .handle = buf->handle };
	int prot = PROT_READ | (buf->flags & DRM_RIVULET_BO_READONLY ? 0 : PROT_WRITE);
	void *p;

	if (drmIoctl(buf->dev->fd, DRM_IOCTL_RIVULET_BO_MAP, &m))
		return -errno;
	p = mmap(NULL, buf->size, prot, MAP_SHARED, buf->dev->fd, m.offset);
	if (p == MAP_FAILED)
		return -errno;
	buf->map = p;
	return 0;
}

int rivulet_buffer_map(struct rivulet_buffer *buf, void **ptr)
{
	int r = 0;

	pthread_mutex_lock(&buf->dev->lock);
	if (!buf->map)
		r = map_locked(buf);
	*ptr = buf->map;
	pthread_mutex_unlock(&buf->dev->lock);
	if (r)
		return rvl_lib_fail(-r, "%s: cannot map buffer %u (%llu bytes): %s", buf->dev->path,
				buf->handle, (unsigned long long)buf->size, strerror(-r));
	return 0;
}

int rivulet_buffer_wait(struct rivulet_buffer *buf, uint32_t access, int64_t deadline)
{
	struct drm_rivulet_bo_wait w = {
		.handle = buf->handle, .flags = access, .timeout_ns = deadline,
	};

	if (!drmIoctl(buf->dev->fd, DRM_IOCTL_RIVULET_BO_WAIT, &w))
		return 0;
	if (errno == ETIME)
		return rvl_lib_fail(ETIME, "%s: buffer %u is still in use", buf->dev->path, buf->handle);
	return rvl_lib_fail(errno, "%s: waiting for buffer %u: %s", buf->dev->path, buf->handle,
			    strerror(errno));
}

int rivulet_buffer_sync(struct rivulet_buffer *buf, uint32_t op, uint32_t access,
			const struct drm_rivulet_range *ranges, uint32_t count)
{
	struct drm_rivulet_bo_sync s = {
		.handle = buf->handle, .flags = access, .op = op, .count = count,
		.ranges = (uintptr_t)ranges,
	};

	if (!drmIoctl(buf->dev->fd, DRM_IOCTL_RIVULET_BO_SYNC, &s))
		return 0;
	return rvl_lib_fail(errno, "%s: CPU access to buffer %u: %s", buf->dev->path, buf->handle,
			    strerror(errno));
}

int rivulet_buffer_begin(struct rivulet_buffer *buf, uint32_t access,
			 const struct drm_rivulet_range *ranges, uint32_t count, int64_t deadline)
{
	int r = rivulet_buffer_wait(buf, access, deadline);

	return r ? r : rivulet_buffer_sync(buf, DRM_RIVULET_SYNC_FOR_CPU, access, ranges, count);
}

int rivulet_buffer_end(struct rivulet_buffer *buf, uint32_t access,
		       const struct drm_rivulet_range *ranges, uint32_t count)
{
	return rivulet_buffer_sync(buf, DRM_RIVULET_SYNC_FOR_DEVICE, access, ranges, count);
}

struct rivulet_buffer *rivulet_buffer_ref(struct rivulet_buffer *buf)
{
	if (buf)
		atomic_fetch_add(&buf->refs, 1);
	return buf;
}

static void unlink_buffer(struct rivulet_buffer *buf)
{
	struct rivulet_buffer **p = &buf->dev->buffers;

	while (*p != buf)
		p = &(*p)->next;
	*p = buf->next;
}

struct rivulet_buffer *rivulet_buffer_unref(struct rivulet_buffer *buf)
{
	struct rivulet_device *dev;
	bool last;

	if (!buf)
		return NULL;
	dev = buf->dev;
	pthread_mutex_lock(&dev->lock);
	last = atomic_fetch_sub(&buf->refs, 1) == 1;
	if (last) {
		unlink_buffer(buf);
		if (buf->map)
			munmap(buf->map, buf->size);
		gem_close(dev, buf->handle);
		free(buf);
	}
	pthread_mutex_unlock(&dev->lock);
	if (last)
		rivulet_device_unref(dev);
	return NULL;
}

uint64_t rivulet_buffer_size(const struct rivulet_buffer *buf)
{
	return buf->size;
}

uint32_t rivulet_buffer_flags(const struct rivulet_buffer *buf)
{
	return buf->flags;
}

uint32_t rivulet_buffer_handle(const struct rivulet_buffer *buf)
{
	return buf->handle;
}
