/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Userspace interface of rivulet.ko, a DRM accel driver. docs/uapi.md tells how the calls fit
 * together. Every struct has the same layout for 32- and 64-bit callers; reserved and pad fields
 * must be zero; unknown flags are refused with -EINVAL. Handles are GEM handles, syncobjs are the
 * core's.
 */
#ifndef RIVULET_ACCEL_H
#define RIVULET_ACCEL_H

#ifdef __KERNEL__
#include <drm/drm.h>
#else
#include <drm.h>
#endif

#if defined(__cplusplus)
extern "C" {
#endif

#define DRM_RIVULET_QUERY	0x00
#define DRM_RIVULET_BO_CREATE	0x01
#define DRM_RIVULET_BO_MAP	0x02
#define DRM_RIVULET_BO_INFO	0x03
#define DRM_RIVULET_SUBMIT	0x04
#define DRM_RIVULET_BO_ACCESS	0x05
#define DRM_RIVULET_PERFMON_CREATE	0x06
#define DRM_RIVULET_PERFMON_DESTROY	0x07
#define DRM_RIVULET_PERFMON_READ	0x08

#define DRM_RIVULET_MAX_JOBS	64	/* jobs of one submit */
#define DRM_RIVULET_MAX_SYNCS	64	/* in, and out, syncobjs of one job */
#define DRM_RIVULET_MAX_REGIONS	16	/* slots of a job */
#define DRM_RIVULET_MAX_LEVELS	8
#define DRM_RIVULET_STREAM_WORDS	14
#define DRM_RIVULET_MAX_BO_SIZE	0x80000000ull
#define DRM_RIVULET_MAX_RANGES	64	/* ranges of one CPU access */
#define DRM_RIVULET_MAX_PERFMONS 64	/* of one file */

/** enum drm_rivulet_query_type - what DRM_IOCTL_RIVULET_QUERY returns */
enum drm_rivulet_query_type {
	/** @DRM_RIVULET_QUERY_DEVICE: struct drm_rivulet_device */
	DRM_RIVULET_QUERY_DEVICE = 0,
	/** @DRM_RIVULET_QUERY_COUNTERS: struct drm_rivulet_counters */
	DRM_RIVULET_QUERY_COUNTERS = 1,
	/** @DRM_RIVULET_QUERY_CLIENT: struct drm_rivulet_client */
	DRM_RIVULET_QUERY_CLIENT = 2,
};

/** struct drm_rivulet_query - read a property set of the device */
struct drm_rivulet_query {
	/** @type: Input: enum drm_rivulet_query_type */
	__u32 type;
	/** @size: Input: bytes at @pointer. Output: bytes the kernel knows; the shorter wins */
	__u32 size;
	/** @pointer: Input: where the struct goes; 0 asks only for @size */
	__u64 pointer;
};

/** struct drm_rivulet_level - one V/F level */
struct drm_rivulet_level {
	/** @hz: clock, Hz */
	__u64 hz;
	/** @microvolt: supply */
	__u32 microvolt;
	/** @fj_per_mac: femtojoule per int8 MAC */
	__u32 fj_per_mac;
	/** @fj_per_byte: femtojoule per DMA byte */
	__u32 fj_per_byte;
	/** @static_uw: static power, microwatt */
	__u32 static_uw;
};

/** struct drm_rivulet_device - geometry and abilities; output, constant but for the last fields */
struct drm_rivulet_device {
	/** @dev_version: of the device specification, major << 16 | minor */
	__u32 dev_version;
	/** @isa_version: of the instructions */
	__u32 isa_version;
	/** @tm: rows of the array */
	__u32 tm;
	/** @tn: columns of the array */
	__u32 tn;
	/** @dn: multipliers per row */
	__u32 dn;
	/** @inp_bytes: input scratchpad */
	__u32 inp_bytes;
	/** @wgt_bytes: weight scratchpad */
	__u32 wgt_bytes;
	/** @acc_bytes: accumulator scratchpad */
	__u32 acc_bytes;
	/** @port_bytes: DMA bytes per cycle */
	__u32 port_bytes;
	/** @mem_latency: DMA latency, cycles */
	__u32 mem_latency;
	/** @queue_depth: instructions per queue */
	__u32 queue_depth;
	/** @modes: CONV modes, bit n = mode n */
	__u32 modes;
	/** @cycle_cap: cycles / 2^20 that a job may take */
	__u32 cycle_cap;
	/** @level_count: entries of @level */
	__u32 level_count;
	/** @level: slowest first */
	struct drm_rivulet_level level[DRM_RIVULET_MAX_LEVELS];
	/** @name: board name, NUL padded */
	char name[32];
	/** @current_level: in force now */
	__u32 current_level;
	/** @flags: bit 0: the device paces completions to real time */
	__u32 flags;
	/** @stream: stochastic lanes, as register STREAM has them; zero without */
	__u32 stream[DRM_RIVULET_STREAM_WORDS];
};

/** struct drm_rivulet_counters - device totals since power on, see docs/device.md; all output */
struct drm_rivulet_counters {
	/** @value: in the order of RIVULET_COUNTERS in rivulet_dev.h */
	__u64 value[16];
	/** @epoch: resets since power on */
	__u64 epoch;
};

/** DRM_RIVULET_CLIENT_BANNED - hung the device too often: its jobs are refused, -ECANCELED */
#define DRM_RIVULET_CLIENT_BANNED	0x1

/** struct drm_rivulet_client - what the driver thinks of the calling file; all output */
struct drm_rivulet_client {
	/** @flags: DRM_RIVULET_CLIENT_* */
	__u32 flags;
	/** @hangs: its jobs that were aborted because they hung, of the window that counts */
	__u32 hangs;
};

/** DRM_RIVULET_BO_READONLY - the handle's right: no writable mapping, no rw slot, no rw export */
#define DRM_RIVULET_BO_READONLY	0x1
/** DRM_RIVULET_BO_IMPORTED - the memory belongs to another exporter */
#define DRM_RIVULET_BO_IMPORTED	0x2
/** DRM_RIVULET_BO_WC - write-combined for the CPU: fast to fill, slow to read, no BO_ACCESS */
#define DRM_RIVULET_BO_WC	0x4
/**
 * DRM_RIVULET_BO_CACHED - the CPU maps it cached even where the device does not see the CPU's
 * caches: there what it does stands between calls of BO_ACCESS. BO_INFO shows the flag only there
 */
#define DRM_RIVULET_BO_CACHED	0x8

/** struct drm_rivulet_bo_create - allocate a zeroed buffer */
struct drm_rivulet_bo_create {
	/** @size: Input: bytes, 1 to DRM_RIVULET_MAX_BO_SIZE. Output: rounded up to pages */
	__u64 size;
	/** @flags: Input: DRM_RIVULET_BO_WC, _CACHED, or 0: what needs no BO_ACCESS here */
	__u32 flags;
	/** @handle: Output */
	__u32 handle;
};

/** struct drm_rivulet_bo_map - where to mmap a buffer on the device node */
struct drm_rivulet_bo_map {
	/** @handle: Input */
	__u32 handle;
	/** @pad: zero */
	__u32 pad;
	/** @offset: Output: for mmap; read-only handles map with PROT_READ only */
	__u64 offset;
};

/** struct drm_rivulet_bo_info - what a handle is */
struct drm_rivulet_bo_info {
	/** @handle: Input */
	__u32 handle;
	/** @flags: Output: DRM_RIVULET_BO_* */
	__u32 flags;
	/** @size: Output: bytes */
	__u64 size;
};

/** DRM_RIVULET_ACCESS_READ - the CPU will read, or has read */
#define DRM_RIVULET_ACCESS_READ		0x1
/** DRM_RIVULET_ACCESS_WRITE - the CPU will write, or has written */
#define DRM_RIVULET_ACCESS_WRITE	0x2
/** DRM_RIVULET_ACCESS_END - the access is over; without it, it begins */
#define DRM_RIVULET_ACCESS_END		0x4

/** struct drm_rivulet_range - some bytes of a buffer */
struct drm_rivulet_range {
	/** @offset: Input: first byte */
	__u64 offset;
	/** @size: Input: bytes, 1 or more */
	__u64 size;
};

/**
 * struct drm_rivulet_bo_access - begin or end the CPU's access to parts of a buffer
 *
 * The beginning waits for the jobs and other drivers that write the buffer and, for a write, that
 * read it. Where the device does not see the CPU's caches only these bytes are written back or
 * thrown away.
 */
struct drm_rivulet_bo_access {
	/** @handle: Input: buffer */
	__u32 handle;
	/** @flags: Input: DRM_RIVULET_ACCESS_*, one of READ and WRITE at least */
	__u32 flags;
	/** @ranges: Input: array of struct drm_rivulet_range, ascending, without overlap */
	__u64 ranges;
	/** @count: Input: ranges, up to DRM_RIVULET_MAX_RANGES; 0: the whole buffer */
	__u32 count;
	/** @pad: zero */
	__u32 pad;
	/** @timeout: Input: CLOCK_MONOTONIC ns; the beginning waits so long, then -ETIME */
	__s64 timeout;
};

/** DRM_RIVULET_PRIORITY_LOW - behind all others */
#define DRM_RIVULET_PRIORITY_LOW	(-1)
/** DRM_RIVULET_PRIORITY_NORMAL - what needs no thought */
#define DRM_RIVULET_PRIORITY_NORMAL	0
/** DRM_RIVULET_PRIORITY_HIGH - before all others; needs CAP_SYS_NICE, else -EACCES */
#define DRM_RIVULET_PRIORITY_HIGH	1

/** enum drm_rivulet_perf - what a performance monitor counts of its jobs; appended to, never reordered */
enum drm_rivulet_perf {
	/** @DRM_RIVULET_PERF_JOBS: jobs: jobs that ended on the device */
	DRM_RIVULET_PERF_JOBS,
	/** @DRM_RIVULET_PERF_FAILED: jobs: of these, with an error */
	DRM_RIVULET_PERF_FAILED,
	/** @DRM_RIVULET_PERF_TIME: ns: device time of the jobs */
	DRM_RIVULET_PERF_TIME,
	/** @DRM_RIVULET_PERF_CYCLES: cycles: cycles of the jobs */
	DRM_RIVULET_PERF_CYCLES,
	/** @DRM_RIVULET_PERF_LOAD_BUSY: cycles: LOAD engine working */
	DRM_RIVULET_PERF_LOAD_BUSY,
	/** @DRM_RIVULET_PERF_CONV_BUSY: cycles: CONV engine working */
	DRM_RIVULET_PERF_CONV_BUSY,
	/** @DRM_RIVULET_PERF_ALU_BUSY: cycles: ALU engine working */
	DRM_RIVULET_PERF_ALU_BUSY,
	/** @DRM_RIVULET_PERF_STORE_BUSY: cycles: STORE engine working */
	DRM_RIVULET_PERF_STORE_BUSY,
	/** @DRM_RIVULET_PERF_STALLS: cycles: engines waiting for tokens, summed */
	DRM_RIVULET_PERF_STALLS,
	/** @DRM_RIVULET_PERF_READ_BYTES: bytes: DMA from memory */
	DRM_RIVULET_PERF_READ_BYTES,
	/** @DRM_RIVULET_PERF_WRITE_BYTES: bytes: DMA to memory */
	DRM_RIVULET_PERF_WRITE_BYTES,
	/** @DRM_RIVULET_PERF_MACS: MACs: multiplications done, padding included */
	DRM_RIVULET_PERF_MACS,
	/** @DRM_RIVULET_PERF_ENERGY: pJ: energy, static part included */
	DRM_RIVULET_PERF_ENERGY,
	/** @DRM_RIVULET_PERF_COUNT: how many there are */
	DRM_RIVULET_PERF_COUNT,
};

/** struct drm_rivulet_perfmon - make or destroy a set of counters that jobs can be attached to */
struct drm_rivulet_perfmon {
	/** @id: Output of PERFMON_CREATE, never 0; input of PERFMON_DESTROY: its jobs run on */
	__u32 id;
	/** @flags: Input: 0 */
	__u32 flags;
};

/** DRM_RIVULET_PERFMON_RESET - from zero again after this reading; nothing is lost between */
#define DRM_RIVULET_PERFMON_RESET	0x1

/** struct drm_rivulet_perfmon_read - a consistent set; a job counts before its fence signals */
struct drm_rivulet_perfmon_read {
	/** @id: Input */
	__u32 id;
	/** @flags: Input: DRM_RIVULET_PERFMON_* */
	__u32 flags;
	/** @values: Input: where the array of __u64 goes, in the order of enum drm_rivulet_perf */
	__u64 values;
	/** @count: Input: room at @values. Output: counters the kernel has; the fewer win */
	__u32 count;
	/** @pad: zero */
	__u32 pad;
};

/** DRM_RIVULET_REGION_WRITE - the job may write through the slot */
#define DRM_RIVULET_REGION_WRITE 0x1

/** struct drm_rivulet_region - one slot of a job */
struct drm_rivulet_region {
	/** @slot: Input: 0 to 15, each at most once */
	__u32 slot;
	/** @handle: Input: buffer */
	__u32 handle;
	/** @offset: Input: byte of the buffer that is offset 0 of the slot */
	__u64 offset;
	/** @size: Input: bytes, 1 or more, inside the buffer */
	__u64 size;
	/** @flags: Input: DRM_RIVULET_REGION_* */
	__u32 flags;
	/** @pad: zero */
	__u32 pad;
};

/** struct drm_rivulet_variant - command stream of one level */
struct drm_rivulet_variant {
	/** @offset: Input: bytes in @slot, multiple of 16 */
	__u64 offset;
	/** @length: Input: bytes, multiple of 16; 0: none for this level */
	__u32 length;
	/** @slot: Input: bound slot that holds it */
	__u32 slot;
};

/** struct drm_rivulet_sync - a syncobj, or a point of a timeline syncobj */
struct drm_rivulet_sync {
	/** @handle: Input */
	__u32 handle;
	/** @pad: zero */
	__u32 pad;
	/** @point: Input: timeline point; 0: binary */
	__u64 point;
};

/** DRM_RIVULET_NO_REPORT - no status copy wanted */
#define DRM_RIVULET_NO_REPORT	0xffffffff

/** struct drm_rivulet_job - one job */
struct drm_rivulet_job {
	/** @regions: Input: array of struct drm_rivulet_region */
	__u64 regions;
	/** @variants: Input: array of struct drm_rivulet_variant, indexed by level */
	__u64 variants;
	/** @in_syncs: Input: array of struct drm_rivulet_sync to wait for */
	__u64 in_syncs;
	/** @out_syncs: Input: array of struct drm_rivulet_sync to signal */
	__u64 out_syncs;
	/** @region_count: Input: 1 to 16 */
	__u32 region_count;
	/** @variant_count: Input: 1 to 8 */
	__u32 variant_count;
	/** @in_sync_count: Input */
	__u32 in_sync_count;
	/** @out_sync_count: Input */
	__u32 out_sync_count;
	/** @min_level: Input: lower level requests wait for this job; below the device's count */
	__u32 min_level;
	/** @report_slot: Input: writable, gets struct rivulet_status; or DRM_RIVULET_NO_REPORT */
	__u32 report_slot;
	/** @report_offset: Input: bytes in that slot, multiple of 8 */
	__u64 report_offset;
	/** @deadline: Input: CLOCK_MONOTONIC ns, a hint for its and the awaited fences; 0: none */
	__s64 deadline;
	/** @flags: Input: 0 */
	__u32 flags;
	/** @error: Output: 0, or the negative errno that refused this job */
	__s32 error;
	/** @perfmon: Input: performance monitor that counts it, or 0 */
	__u32 perfmon;
	/** @pad: zero */
	__u32 pad;
};

/** DRM_RIVULET_SUBMIT_FENCE_FD - @fence_fd wanted */
#define DRM_RIVULET_SUBMIT_FENCE_FD 0x1

/**
 * struct drm_rivulet_submit - queue an array of jobs
 *
 * Each file has one queue for each priority, whose jobs run in order. Each slot's buffer is fenced
 * for the job, as a writer when the slot is written. When a job is refused, none after it is
 * queued; those before it are.
 */
struct drm_rivulet_submit {
	/** @jobs: Input: array of @count structs of @stride bytes */
	__u64 jobs;
	/** @count: Input: 1 to DRM_RIVULET_MAX_JOBS */
	__u32 count;
	/** @stride: Input: sizeof(struct drm_rivulet_job) as the caller knows it */
	__u32 stride;
	/** @flags: Input: DRM_RIVULET_SUBMIT_* */
	__u32 flags;
	/** @queued: Output: jobs queued; on error, the index of the one refused */
	__u32 queued;
	/** @fence_fd: Output, if asked for and without error: sync_file of the last job's fence */
	__s32 fence_fd;
	/** @priority: Input: DRM_RIVULET_PRIORITY_* */
	__s32 priority;
};

#define DRM_IOCTL_RIVULET_QUERY                                                                    \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_QUERY, struct drm_rivulet_query)
#define DRM_IOCTL_RIVULET_BO_CREATE                                                                \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_BO_CREATE, struct drm_rivulet_bo_create)
#define DRM_IOCTL_RIVULET_BO_MAP                                                                   \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_BO_MAP, struct drm_rivulet_bo_map)
#define DRM_IOCTL_RIVULET_BO_INFO                                                                  \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_BO_INFO, struct drm_rivulet_bo_info)
#define DRM_IOCTL_RIVULET_SUBMIT                                                                   \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_SUBMIT, struct drm_rivulet_submit)
#define DRM_IOCTL_RIVULET_BO_ACCESS                                                                \
	DRM_IOW(DRM_COMMAND_BASE + DRM_RIVULET_BO_ACCESS, struct drm_rivulet_bo_access)
#define DRM_IOCTL_RIVULET_PERFMON_CREATE                                                           \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_PERFMON_CREATE, struct drm_rivulet_perfmon)
#define DRM_IOCTL_RIVULET_PERFMON_DESTROY                                                          \
	DRM_IOW(DRM_COMMAND_BASE + DRM_RIVULET_PERFMON_DESTROY, struct drm_rivulet_perfmon)
#define DRM_IOCTL_RIVULET_PERFMON_READ                                                             \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_PERFMON_READ, struct drm_rivulet_perfmon_read)

#if defined(__cplusplus)
}
#endif

#endif
