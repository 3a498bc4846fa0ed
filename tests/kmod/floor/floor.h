/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* The interface of floor.ko for tests/bench/bench_driver.c. */
#ifndef RIVULET_FLOOR_H
#define RIVULET_FLOOR_H

#ifdef __KERNEL__
#include <drm/drm.h>
#else
#include <drm.h>
#endif

/** enum floor_kind - what the doorbell starts */
enum floor_kind {
	/** @FLOOR_BELL: a request that the device only acknowledges, by an interrupt */
	FLOOR_BELL = 0,
	/** @FLOOR_ENTRY: an empty program, whose entry is prepared once and issued each time */
	FLOOR_ENTRY = 1,
};

/** struct floor_submit - one job through drm_sched, its fence into a syncobj */
struct floor_submit {
	/** @sync: Input: binary syncobj */
	__u32 sync;
	/** @kind: Input: enum floor_kind */
	__u32 kind;
	/** @code: Input, for FLOOR_ENTRY: its one instruction */
	__u64 code[2];
};

/** FLOOR_SUBMIT - queue a job */
#define FLOOR_SUBMIT	DRM_IOW(DRM_COMMAND_BASE + 0, struct floor_submit)
/** FLOOR_RAW - ring, and sleep until the interrupt: no scheduler, no fence */
#define FLOOR_RAW	DRM_IO(DRM_COMMAND_BASE + 1)

#endif
