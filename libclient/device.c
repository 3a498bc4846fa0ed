// SPDX-License-Identifier: MIT
/* The accel node: finding and opening it, and the driver's queries. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xf86drm.h>

#include "priv.h"
#include "rivulet_dev.h"

#define DRIVER_NAME "rivulet"
#define DRIVER_MAJOR 2
#define MAX_NODES 64

/*
 * Is the fd that of a Rivulet, with an interface that this library knows? Within a major version the
 * kernel interface is only extended, so the minor version does not matter.
 */
static int check_driver(int fd, const char *path)
{
	drmVersionPtr v = drmGetVersion(fd);
	int r = 0;

	if (!v)
		return rvl_lib_fail(ENODEV, "%s is no DRM or accel node: %s", path, strerror(errno));
	if (!v->name || strcmp(v->name, DRIVER_NAME))
		r = rvl_lib_fail(ENODEV, "%s belongs to driver %s, not to %s", path,
			     v->name ? v->name : "(none)", DRIVER_NAME);
	else if (v->version_major != DRIVER_MAJOR)
		r = rvl_lib_fail(EPROTO, "%s: driver interface %d.%d, this library needs %d.x: "
			     "install module and library of one release", path, v->version_major,
			     v->version_minor, DRIVER_MAJOR);
	drmFreeVersion(v);
	return r;
}

static int query(int fd, uint32_t type, void *out, uint32_t size, const char *path)
{
	struct drm_rivulet_query q = { .type = type, .size = size, .pointer = (uintptr_t)out };

	memset(out, 0, size);
	if (!drmIoctl(fd, DRM_IOCTL_RIVULET_QUERY, &q))
		return 0;
	if (errno == EACCES)
		return rvl_lib_fail(EACCES, "%s: query %u needs privilege (CAP_PERFMON)", path, type);
	return rvl_lib_fail(errno, "%s: the driver refused query %u: %s", path, type,
			    strerror(errno));
}

/* Callers derive sizes and loop bounds from these numbers, so impossible ones are refused here. */
static int check_info(const struct drm_rivulet_device *d, const char *path)
{
	if (d->dev_version >> 16 != RIVULET_DEV_VERSION >> 16)
		return rvl_lib_fail(EPROTO, "%s: device version %u.%u, this library speaks %u.x", path,
				d->dev_version >> 16, d->dev_version & 0xffff,
				RIVULET_DEV_VERSION >> 16);
	if (!d->tm || !d->tn || !d->dn || !d->level_count || d->level_count > DRM_RIVULET_MAX_LEVELS ||
	    strnlen(d->name, sizeof(d->name)) == sizeof(d->name))
		return rvl_lib_fail(EPROTO, "%s: the driver reports a device that cannot be", path);
	return 0;
}

/* Owns the fd from the call on, also when it fails. */
static int device_new(int fd, const char *path, struct rivulet_device **out)
{
	struct rivulet_device *dev = calloc(1, sizeof(*dev));
	int r;

	if (!dev) {
		rvl_lib_close(fd);
		return rvl_lib_fail(ENOMEM, "out of memory");
	}
	atomic_init(&dev->refs, 1);
	dev->fd = fd;
	snprintf(dev->path, sizeof(dev->path), "%s", path);
	pthread_mutex_init(&dev->lock, NULL);
	r = check_driver(fd, path);
	if (!r)
		r = query(fd, DRM_RIVULET_QUERY_DEVICE, &dev->info, sizeof(dev->info), path);
	if (!r)
		r = check_info(&dev->info, path);
	if (r) {
		rivulet_device_unref(dev);
		return r;
	}
	*out = dev;
	return 0;
}

static int open_path(const char *path, struct rivulet_device **out)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == EACCES)
		return rvl_lib_fail(EACCES, "%s: permission denied: is this user in the node's group?",
				path);
	if (fd < 0)
		return rvl_lib_fail(errno, "%s: %s", path, strerror(errno));
	return device_new(fd, path, out);
}

/*
 * A node of another driver (-ENODEV) is passed over. A Rivulet that cannot be used ends the search.
 * The first node that this user may not open is kept in @denied, for the error text.
 */
static int find_in(const char *dir, int first, struct rivulet_device **out, char *denied)
{
	char path[64];
	int r;

	for (int i = first; i < first + MAX_NODES; i++) {
		snprintf(path, sizeof(path), "%s%d", dir, i);
		if (access(path, F_OK))
			continue;
		r = open_path(path, out);
		if (r == -EACCES && !*denied)
			strcpy(denied, path);
		if (r == 0 || r == -EPROTO || r == -ENOMEM)
			return r;
	}
	return -ENODEV;
}

int rivulet_device_open(const char *path, struct rivulet_device **out)
{
	char denied[64] = "";
	int r;

	if (path)
		return open_path(path, out);
	r = find_in("/dev/accel/accel", 0, out, denied);
	if (r == -ENODEV)
		r = find_in("/dev/dri/renderD", 128, out, denied);
	if (r == -ENODEV && *denied)
		return rvl_lib_fail(EACCES, "%s: permission denied, and no other node is a Rivulet's",
				denied);
	if (r == -ENODEV)
		return rvl_lib_fail(ENODEV, "no Rivulet device: neither /dev/accel/accel* nor "
				"/dev/dri/renderD* has driver " DRIVER_NAME);
	return r;
}

int rivulet_device_open_fd(int fd, struct rivulet_device **out)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	char path[32];

	snprintf(path, sizeof(path), "fd:%d", fd);
	if (own < 0)
		return rvl_lib_fail(errno, "%s: %s", path, strerror(errno));
	return device_new(own, path, out);
}

struct rivulet_device *rivulet_device_ref(struct rivulet_device *dev)
{
	if (dev)
		atomic_fetch_add(&dev->refs, 1);
	return dev;
}

struct rivulet_device *rivulet_device_unref(struct rivulet_device *dev)
{
	if (!dev || atomic_fetch_sub(&dev->refs, 1) != 1)
		return NULL;
	rvl_lib_close(dev->fd);	/* destroys the default queue */
	pthread_mutex_destroy(&dev->lock);
	free(dev);
	return NULL;
}

int rivulet_device_fd(const struct rivulet_device *dev)
{
	return dev->fd;
}

const char *rivulet_device_path(const struct rivulet_device *dev)
{
	return dev->path;
}

const struct drm_rivulet_device *rivulet_device_info(const struct rivulet_device *dev)
{
	return &dev->info;
}

int rivulet_device_clock(struct rivulet_device *dev, struct drm_rivulet_clock *out)
{
	return query(dev->fd, DRM_RIVULET_QUERY_CLOCK, out, sizeof(*out), dev->path);
}

int rivulet_device_counters(struct rivulet_device *dev, struct drm_rivulet_counters *out)
{
	return query(dev->fd, DRM_RIVULET_QUERY_COUNTERS, out, sizeof(*out), dev->path);
}

int rivulet_device_client(struct rivulet_device *dev, struct drm_rivulet_client *out)
{
	return query(dev->fd, DRM_RIVULET_QUERY_CLIENT, out, sizeof(*out), dev->path);
}
