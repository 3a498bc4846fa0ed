/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* The ioctls of /dev/rivulet-harness, by which a test does what only the kernel can do. */
#ifndef RIVULET_HARNESS_H
#define RIVULET_HARNESS_H

#include <linux/ioctl.h>
#include <linux/types.h>

/** struct harness_fence - a fence in the reservation of a dma-buf */
struct harness_fence {
	/** @dmabuf: Input: descriptor of the dma-buf */
	__s32 dmabuf;
	/** @usage: Input: enum dma_resv_usage of the fence; KERNEL is 0, BOOKKEEP is 3 */
	__u32 usage;
	/** @count: Output of HARNESS_COUNT: unsignalled fences of just that usage */
	__u32 count;
	/** @pad: zero */
	__u32 pad;
};

/** struct harness_devt - a device number */
struct harness_devt {
	__u32 major;
	__u32 minor;
};

/** struct harness_late - a delay at one point of the driver */
struct harness_late {
	/** @function: Input: name of a function, ended by a zero byte */
	char function[56];
	/** @ms: Input: length of the delay, at most 10,000 */
	__u32 ms;
	/** @pad: zero */
	__u32 pad;
};

/* Add a fence, which HARNESS_SIGNAL or the close of the file signals; one for each file. */
#define HARNESS_ADD	_IOW('H', 0, struct harness_fence)
#define HARNESS_SIGNAL	_IO('H', 1)
#define HARNESS_COUNT	_IOWR('H', 2, struct harness_fence)
/* Register a device of that number until the file is closed, so that no other device gets it. */
#define HARNESS_DEVT	_IOW('H', 3, struct harness_devt)
/*
 * Delay a kernel worker once: when @function, or what it calls, reads the time for the first time.
 * The delay does not sleep and leaves interrupts as they are. One at a time; the close of the file
 * ends it.
 */
#define HARNESS_LATE	_IOW('H', 4, struct harness_late)
/* Has the delay begun? Returns 0 or 1. */
#define HARNESS_BEGUN	_IO('H', 5)

#endif
