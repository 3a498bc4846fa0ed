/* SPDX-License-Identifier: MIT */
/* What the files of the library share: error text, device, buffer. */
#ifndef RVL_LIBCLIENT_PRIV_H
#define RVL_LIBCLIENT_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "rivulet.h"
#include "rivulet_accel.h"

#define RVL_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/** rvl_lib_fail() - note this thread's error text. Returns -@err; @err is a positive errno */
int rvl_lib_fail(int err, const char *fmt, ...) RVL_PRINTF(2, 3);
/** rvl_lib_close() - close without touching errno; negative fds are ignored. Returns -1 */
int rvl_lib_close(int fd);
/** rvl_lib_now() - CLOCK_MONOTONIC, ns */
int64_t rvl_lib_now(void);

struct rivulet_device {
	atomic_int refs;
	int fd;
	char path[64];
	struct drm_rivulet_device info;
	/* Guards what follows, and the closing of handles against their import. */
	pthread_mutex_t lock;
	struct rivulet_buffer *buffers;
	uint32_t queue;			/* for submits without one; 0: not created yet */
};

/** struct rivulet_buffer - one GEM handle; a device has at most one for a handle */
struct rivulet_buffer {
	atomic_int refs;		/* drops to 0 only under dev->lock */
	struct rivulet_device *dev;	/* referenced */
	struct rivulet_buffer *next;
	uint32_t handle;
	uint32_t flags;
	uint64_t size;
	void *map;			/* under dev->lock; NULL until asked for */
};

#endif
