/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Userspace interface of rivulet.ko, a DRM accel driver, version 2.0. docs/uapi.md describes how
 * the calls work together. Every struct has the same layout for 32- and 64-bit callers. Reserved
 * and pad fields must be zero; unknown flags are refused with -EINVAL. Buffer handles are GEM
 * handles, syncobj handles are those of the DRM core.
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

#define DRM_RIVULET_QUERY		0x00
#define DRM_RIVULET_BO_CREATE		0x01
#define DRM_RIVULET_BO_MAP		0x02
#define DRM_RIVULET_BO_INFO		0x03
#define DRM_RIVULET_BO_WAIT		0x04
#define DRM_RIVULET_BO_SYNC		0x05
#define DRM_RIVULET_QUEUE_CREATE	0x06
#define DRM_RIVULET_QUEUE_DESTROY	0x07
#define DRM_RIVULET_SUBMIT		0x08
#define DRM_RIVULET_PERFMON_CREATE	0x09
#define DRM_RIVULET_PERFMON_DESTROY	0x0a
#define DRM_RIVULET_PERFMON_READ	0x0b

#define DRM_RIVULET_MAX_JOBS	64	/* jobs of one submit */
#define DRM_RIVULET_MAX_SYNCS	64	/* in-syncs, and likewise out-syncs, of one job */
#define DRM_RIVULET_MAX_REGIONS	16	/* slots of a job */
#define DRM_RIVULET_MAX_LEVELS	8	/* V/F levels of a device */
#define DRM_RIVULET_MAX_CIRCUITS 6	/* stochastic circuits of a device */
#define DRM_RIVULET_MAX_BO_SIZE	0x80000000ull	/* bytes of one buffer */
#define DRM_RIVULET_MAX_RANGES	64	/* ranges of one BO_SYNC */
#define DRM_RIVULET_MAX_QUEUES	16	/* queues of one file */
#define DRM_RIVULET_MAX_PERFMONS 64	/* performance monitors of one file */

/** enum drm_rivulet_query_type - what DRM_IOCTL_RIVULET_QUERY returns */
enum drm_rivulet_query_type {
	/** @DRM_RIVULET_QUERY_DEVICE: struct drm_rivulet_device: what never changes */
	DRM_RIVULET_QUERY_DEVICE = 0,
	/** @DRM_RIVULET_QUERY_CLOCK: struct drm_rivulet_clock: the V/F level in force */
	DRM_RIVULET_QUERY_CLOCK = 1,
	/** @DRM_RIVULET_QUERY_CLIENT: struct drm_rivulet_client: the calling file */
	DRM_RIVULET_QUERY_CLIENT = 2,
	/** @DRM_RIVULET_QUERY_COUNTERS: struct drm_rivulet_counters: all clients; CAP_PERFMON */
	DRM_RIVULET_QUERY_COUNTERS = 3,
};

/**
 * struct drm_rivulet_query - read one struct about the device or the caller
 *
 * The structs are only ever extended at their end. The kernel copies as many bytes as both sides
 * know, and fills what the caller knows beyond that with zeros.
 */
struct drm_rivulet_query {
	/** @type: Input: enum drm_rivulet_query_type */
	__u32 type;
	/** @size: Input: bytes at @pointer. Output: bytes of the struct that the kernel knows */
	__u32 size;
	/** @pointer: Input: address of the struct; 0: only @size is returned */
	__u64 pointer;
};

/** struct drm_rivulet_level - one V/F level */
struct drm_rivulet_level {
	/** @hz: clock frequency, Hz */
	__u64 hz;
	/** @microvolt: supply voltage, microvolt */
	__u32 microvolt;
	/** @fj_per_mac: energy of one int8 MAC, femtojoule */
	__u32 fj_per_mac;
	/** @fj_per_byte: energy of one DMA byte, femtojoule */
	__u32 fj_per_byte;
	/** @static_uw: static power, microwatt */
	__u32 static_uw;
};

/** struct drm_rivulet_circuit - cost of one bit of a product in a stochastic circuit */
struct drm_rivulet_circuit {
	/** @millicycles: duration, thousandths of a cycle; 0: the device does not have it */
	__u32 millicycles;
	/** @fj: energy at the highest level, femtojoule */
	__u32 fj;
};

/** DRM_RIVULET_DEVICE_PACED - flag: completions are paced to real time, as hardware's are */
#define DRM_RIVULET_DEVICE_PACED	0x1
/** DRM_RIVULET_DEVICE_SENSOR - flag: the device measures its temperature (hwmon) */
#define DRM_RIVULET_DEVICE_SENSOR	0x2

/** enum drm_rivulet_mode - arithmetic that a device may have; a bit number of @modes */
enum drm_rivulet_mode {
	/** @DRM_RIVULET_MODE_DENSE: int8 x int8 */
	DRM_RIVULET_MODE_DENSE = 0,
	/** @DRM_RIVULET_MODE_SPARSE: int8 x int8, weights as (value, index) pairs */
	DRM_RIVULET_MODE_SPARSE = 1,
	/** @DRM_RIVULET_MODE_BINARY: +-1 x +-1 */
	DRM_RIVULET_MODE_BINARY = 2,
	/** @DRM_RIVULET_MODE_BITPLANE: int8 x weights of fewer bits, one plane at a time */
	DRM_RIVULET_MODE_BITPLANE = 3,
	/** @DRM_RIVULET_MODE_STOCHASTIC: bitstreams */
	DRM_RIVULET_MODE_STOCHASTIC = 4,
	/** @DRM_RIVULET_MODE_TAPS: int8 x int8, depthwise: several taps of a channel at once */
	DRM_RIVULET_MODE_TAPS = 5,
};

/** enum drm_rivulet_circuit_id - index of a stochastic circuit in @circuit */
enum drm_rivulet_circuit_id {
	/** @DRM_RIVULET_CIRCUIT_AND_BIN: AND, signed binary accumulator */
	DRM_RIVULET_CIRCUIT_AND_BIN = 0,
	/** @DRM_RIVULET_CIRCUIT_AND_LOOP: AND, stream adder, output revised over all blocks */
	DRM_RIVULET_CIRCUIT_AND_LOOP = 1,
	/** @DRM_RIVULET_CIRCUIT_AND_ACC: AND, stream adder in each block, no revision */
	DRM_RIVULET_CIRCUIT_AND_ACC = 2,
	/** @DRM_RIVULET_CIRCUIT_AND_SEP: AND, positive and negative adders, one multiplexer */
	DRM_RIVULET_CIRCUIT_AND_SEP = 3,
	/** @DRM_RIVULET_CIRCUIT_UGEMM: bipolar, conditional streams, stream adder */
	DRM_RIVULET_CIRCUIT_UGEMM = 4,
	/** @DRM_RIVULET_CIRCUIT_XNOR_MUX: bipolar XNOR, multiplexer over all inputs */
	DRM_RIVULET_CIRCUIT_XNOR_MUX = 5,
};

/** struct drm_rivulet_device - geometry, levels and abilities; all output, constant */
struct drm_rivulet_device {
	/** @dev_version: version of the device specification, major << 16 | minor */
	__u32 dev_version;
	/** @isa_version: version of the instruction set */
	__u32 isa_version;
	/** @tm: rows of the array */
	__u32 tm;
	/** @tn: columns of the array */
	__u32 tn;
	/** @dn: multipliers per row */
	__u32 dn;
	/** @inp_bytes: input scratchpad, bytes */
	__u32 inp_bytes;
	/** @wgt_bytes: weight scratchpad, bytes */
	__u32 wgt_bytes;
	/** @acc_bytes: accumulator scratchpad, bytes */
	__u32 acc_bytes;
	/** @port_bytes: bytes that the DMA port moves in a cycle */
	__u32 port_bytes;
	/** @mem_latency: cycles from a DMA request to its first data */
	__u32 mem_latency;
	/** @queue_depth: instructions that each of the device's instruction queues holds */
	__u32 queue_depth;
	/** @modes: bit n is set: the device has enum drm_rivulet_mode n */
	__u32 modes;
	/** @cycle_cap: cycles / 2^20 that a job may take */
	__u32 cycle_cap;
	/** @flags: DRM_RIVULET_DEVICE_* */
	__u32 flags;
	/** @name: board name, NUL padded */
	char name[32];
	/** @level_count: entries of @level */
	__u32 level_count;
	/** @sc_lanes: stochastic products made at once; 0: no stochastic mode */
	__u32 sc_lanes;
	/** @sc_blocks: parts of a bitstream that a lane makes at once */
	__u32 sc_blocks;
	/** @pad: zero */
	__u32 pad;
	/** @level: V/F levels, slowest first */
	struct drm_rivulet_level level[DRM_RIVULET_MAX_LEVELS];
	/** @circuit: stochastic circuits, indexed by enum drm_rivulet_circuit_id */
	struct drm_rivulet_circuit circuit[DRM_RIVULET_MAX_CIRCUITS];
	/** @burst_bytes: longest burst of the DMA port; 0: 256 */
	__u32 burst_bytes;
	/** @burst_gap: cycles that a burst holds the port after its beats; 0: 2 */
	__u32 burst_gap;
	/** @bursts: bursts outstanding at most; 0: 8 */
	__u32 bursts;
	/** @row_bytes: row buffer of LOAD, and another of STORE, bytes; 0: 16384 */
	__u32 row_bytes;
	/** @alu_lanes: values that the ALU takes in a cycle; 0: 8 */
	__u32 alu_lanes;
	/** @pad2: zero */
	__u32 pad2;
};

/** struct drm_rivulet_clock - the V/F level in force; all output */
struct drm_rivulet_clock {
	/** @level: index into the levels; of a suspended device the one that it resumes with */
	__u32 level;
	/** @pad: zero */
	__u32 pad;
	/** @hz: its clock frequency, Hz */
	__u64 hz;
};

/** DRM_RIVULET_CLIENT_BANNED - flag: hung the device too often; its jobs are refused, -ECANCELED */
#define DRM_RIVULET_CLIENT_BANNED	0x1

/** struct drm_rivulet_client - what the driver records about the calling file; all output */
struct drm_rivulet_client {
	/** @flags: DRM_RIVULET_CLIENT_* */
	__u32 flags;
	/** @hangs: aborted jobs of the window that counts for the ban */
	__u32 hangs;
	/** @busy_ns: device time of its jobs, ns */
	__u64 busy_ns;
	/** @cycles: device cycles of its jobs */
	__u64 cycles;
	/** @energy_pj: energy of its jobs, picojoule, static part included */
	__u64 energy_pj;
	/** @pinned: bytes of buffers that the calling user has pinned, by whatever file */
	__u64 pinned;
	/** @pinned_limit: bytes that this user may have pinned; ~0: no limit */
	__u64 pinned_limit;
};

/** struct drm_rivulet_counters - device totals since power on; all output */
struct drm_rivulet_counters {
	/** @jobs: jobs retired */
	__u64 jobs;
	/** @faults: of these, with a fault */
	__u64 faults;
	/** @time: device time, ns */
	__u64 time;
	/** @busy: device time with a job running, ns */
	__u64 busy;
	/** @cycles: cycles of all jobs */
	__u64 cycles;
	/** @load_busy: cycles in which the LOAD engine worked */
	__u64 load_busy;
	/** @conv_busy: cycles in which the CONV engine worked */
	__u64 conv_busy;
	/** @alu_busy: cycles in which the ALU engine worked */
	__u64 alu_busy;
	/** @store_busy: cycles in which the STORE engine worked */
	__u64 store_busy;
	/** @stalls: cycles in which engines waited for a token, summed over the engines */
	__u64 stalls;
	/** @read_bytes: bytes of DMA from memory */
	__u64 read_bytes;
	/** @write_bytes: bytes of DMA to memory */
	__u64 write_bytes;
	/** @macs: multiplications done, padding included */
	__u64 macs;
	/** @energy: picojoule, static part included */
	__u64 energy;
	/** @overruns: paced completions that came later than device time */
	__u64 overruns;
	/** @irqs: interrupts raised */
	__u64 irqs;
	/** @resets: resets */
	__u64 resets;
};

/** DRM_RIVULET_BO_READONLY - flag of a handle: no writable mapping, slot or export */
#define DRM_RIVULET_BO_READONLY	0x1
/** DRM_RIVULET_BO_IMPORTED - flag: the memory belongs to another exporter */
#define DRM_RIVULET_BO_IMPORTED	0x2
/**
 * DRM_RIVULET_BO_WC - flag: write-combined for the CPU: fast to fill, slow to read. BO_CREATE fails
 * with EOPNOTSUPP when the device can reach some page through a bounce buffer only.
 */
#define DRM_RIVULET_BO_WC	0x4
/**
 * DRM_RIVULET_BO_CACHED - flag: the CPU maps it cached even where the device does not snoop the
 * CPU's caches. There each CPU access stands between two BO_SYNC. BO_INFO shows the flag only where
 * BO_SYNC is needed.
 */
#define DRM_RIVULET_BO_CACHED	0x8
/**
 * DRM_RIVULET_BO_CONTIGUOUS - flag: physically contiguous, from the pool that the device's
 * memory-region names, else from the machine's CMA area or page allocator. For boards without an
 * IOMMU: the device reads no page list. May be combined with DRM_RIVULET_BO_CACHED. BO_CREATE
 * fails with ENOMEM when no such run of pages is free.
 */
#define DRM_RIVULET_BO_CONTIGUOUS	0x10

/** struct drm_rivulet_bo_create - allocate a zeroed buffer */
struct drm_rivulet_bo_create {
	/** @size: Input: bytes, 1 to DRM_RIVULET_MAX_BO_SIZE. Output: rounded up to pages */
	__u64 size;
	/**
	 * @flags: Input: DRM_RIVULET_BO_WC, DRM_RIVULET_BO_CACHED, or neither: no BO_SYNC is
	 * needed; DRM_RIVULET_BO_CONTIGUOUS
	 */
	__u32 flags;
	/** @handle: Output */
	__u32 handle;
};

/** struct drm_rivulet_bo_map - get the offset at which the device node maps a buffer */
struct drm_rivulet_bo_map {
	/** @handle: Input */
	__u32 handle;
	/** @pad: zero */
	__u32 pad;
	/** @offset: Output: for mmap(); a read-only handle maps with PROT_READ only */
	__u64 offset;
};

/** struct drm_rivulet_bo_info - properties of a handle */
struct drm_rivulet_bo_info {
	/** @handle: Input */
	__u32 handle;
	/** @flags: Output: DRM_RIVULET_BO_* */
	__u32 flags;
	/** @size: Output: bytes */
	__u64 size;
};

/** DRM_RIVULET_ACCESS_READ - flag: the CPU reads */
#define DRM_RIVULET_ACCESS_READ		0x1
/** DRM_RIVULET_ACCESS_WRITE - flag: the CPU writes */
#define DRM_RIVULET_ACCESS_WRITE	0x2

/**
 * struct drm_rivulet_bo_wait - wait until the CPU may access a buffer
 *
 * READ waits for the jobs and other drivers that write the buffer, WRITE also for those that read
 * it. Jobs whose region had DRM_RIVULET_REGION_NO_IMPLICIT_SYNC are not waited for.
 */
struct drm_rivulet_bo_wait {
	/** @handle: Input */
	__u32 handle;
	/** @flags: Input: DRM_RIVULET_ACCESS_*, at least one */
	__u32 flags;
	/** @timeout_ns: Input: absolute, CLOCK_MONOTONIC ns; -ETIME after it. In the past: polls */
	__s64 timeout_ns;
};

/** struct drm_rivulet_range - some bytes of a buffer */
struct drm_rivulet_range {
	/** @offset: Input: first byte */
	__u64 offset;
	/** @size: Input: bytes, 1 or more */
	__u64 size;
};

/** enum drm_rivulet_sync_op - direction of DRM_IOCTL_RIVULET_BO_SYNC */
enum drm_rivulet_sync_op {
	/** @DRM_RIVULET_SYNC_FOR_CPU: what the device wrote becomes visible to the CPU */
	DRM_RIVULET_SYNC_FOR_CPU = 0,
	/** @DRM_RIVULET_SYNC_FOR_DEVICE: what the CPU wrote becomes visible to the device */
	DRM_RIVULET_SYNC_FOR_DEVICE = 1,
};

/**
 * struct drm_rivulet_bo_sync - make parts of a buffer visible to the CPU or to the device
 *
 * Waits for nothing. Costs nothing where the device snoops the CPU's caches.
 */
struct drm_rivulet_bo_sync {
	/** @handle: Input */
	__u32 handle;
	/** @flags: Input: DRM_RIVULET_ACCESS_*, at least one: what the CPU will do, or has done */
	__u32 flags;
	/** @op: Input: enum drm_rivulet_sync_op */
	__u32 op;
	/** @count: Input: ranges, up to DRM_RIVULET_MAX_RANGES; 0: the whole buffer */
	__u32 count;
	/** @ranges: Input: array of struct drm_rivulet_range, ascending, without overlap */
	__u64 ranges;
};

/** DRM_RIVULET_PRIORITY_LOW - behind all others */
#define DRM_RIVULET_PRIORITY_LOW	(-1)
/** DRM_RIVULET_PRIORITY_NORMAL - the default */
#define DRM_RIVULET_PRIORITY_NORMAL	0
/** DRM_RIVULET_PRIORITY_HIGH - before all others; needs CAP_SYS_NICE, else -EACCES */
#define DRM_RIVULET_PRIORITY_HIGH	1

/** struct drm_rivulet_queue_create - create a queue, whose jobs run in the order of submission */
struct drm_rivulet_queue_create {
	/** @priority: Input: DRM_RIVULET_PRIORITY_* */
	__s32 priority;
	/** @flags: Input: 0 */
	__u32 flags;
	/** @queue: Output: handle, valid for this file, never 0 */
	__u32 queue;
	/** @pad: zero */
	__u32 pad;
};

/**
 * struct drm_rivulet_queue_destroy - destroy a queue
 *
 * Jobs that the device has got run on; the others end with -ESRCH.
 */
struct drm_rivulet_queue_destroy {
	/** @queue: Input */
	__u32 queue;
	/** @pad: zero */
	__u32 pad;
};

/** enum drm_rivulet_perf - index of a value of a performance monitor; only ever appended to */
enum drm_rivulet_perf {
	/** @DRM_RIVULET_PERF_JOBS: jobs: jobs that ended on the device */
	DRM_RIVULET_PERF_JOBS = 0,
	/** @DRM_RIVULET_PERF_FAILED: jobs: of these, with an error */
	DRM_RIVULET_PERF_FAILED = 1,
	/** @DRM_RIVULET_PERF_TIME: ns: device time */
	DRM_RIVULET_PERF_TIME = 2,
	/** @DRM_RIVULET_PERF_CYCLES: cycles: cycles of the jobs */
	DRM_RIVULET_PERF_CYCLES = 3,
	/** @DRM_RIVULET_PERF_LOAD_BUSY: cycles: the LOAD engine worked */
	DRM_RIVULET_PERF_LOAD_BUSY = 4,
	/** @DRM_RIVULET_PERF_CONV_BUSY: cycles: the CONV engine worked */
	DRM_RIVULET_PERF_CONV_BUSY = 5,
	/** @DRM_RIVULET_PERF_ALU_BUSY: cycles: the ALU engine worked */
	DRM_RIVULET_PERF_ALU_BUSY = 6,
	/** @DRM_RIVULET_PERF_STORE_BUSY: cycles: the STORE engine worked */
	DRM_RIVULET_PERF_STORE_BUSY = 7,
	/** @DRM_RIVULET_PERF_STALLS: cycles: engines waited for tokens, summed over the engines */
	DRM_RIVULET_PERF_STALLS = 8,
	/** @DRM_RIVULET_PERF_READ_BYTES: bytes: DMA from memory */
	DRM_RIVULET_PERF_READ_BYTES = 9,
	/** @DRM_RIVULET_PERF_WRITE_BYTES: bytes: DMA to memory */
	DRM_RIVULET_PERF_WRITE_BYTES = 10,
	/** @DRM_RIVULET_PERF_MACS: MACs: multiplications done, padding included */
	DRM_RIVULET_PERF_MACS = 11,
	/** @DRM_RIVULET_PERF_ENERGY: pJ: energy, static part included */
	DRM_RIVULET_PERF_ENERGY = 12,
};

/** struct drm_rivulet_perfmon_create - create a set of counters for the caller's own jobs */
struct drm_rivulet_perfmon_create {
	/** @flags: Input: 0 */
	__u32 flags;
	/** @perfmon: Output: handle, valid for this file, never 0 */
	__u32 perfmon;
};

/** struct drm_rivulet_perfmon_destroy - destroy a performance monitor; its jobs run on */
struct drm_rivulet_perfmon_destroy {
	/** @perfmon: Input */
	__u32 perfmon;
	/** @pad: zero */
	__u32 pad;
};

/** DRM_RIVULET_PERFMON_RESET - flag: set to zero after this reading, atomically with it */
#define DRM_RIVULET_PERFMON_RESET	0x1

/**
 * struct drm_rivulet_perfmon_read - read all values of a performance monitor, a consistent set
 *
 * A job is counted before its fence signals.
 */
struct drm_rivulet_perfmon_read {
	/** @perfmon: Input */
	__u32 perfmon;
	/** @flags: Input: DRM_RIVULET_PERFMON_RESET or 0 */
	__u32 flags;
	/** @values: Input: array of __u64, indexed by enum drm_rivulet_perf */
	__u64 values;
	/** @count: Input: entries of @values. Output: entries that the kernel knows */
	__u32 count;
	/** @pad: zero */
	__u32 pad;
};

/** DRM_RIVULET_REGION_WRITE - flag: the job may write through the slot */
#define DRM_RIVULET_REGION_WRITE		0x1
/**
 * DRM_RIVULET_REGION_NO_IMPLICIT_SYNC - flag: the job does not wait for the buffer's readers and
 * writers, and they do not wait for it. The kernel's own fences are waited for. A buffer that is
 * bound to several slots is synchronised according to its slots without the flag.
 */
#define DRM_RIVULET_REGION_NO_IMPLICIT_SYNC	0x2

/** struct drm_rivulet_region - bind a part of a buffer to a slot of a job */
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

/** struct drm_rivulet_variant - command stream for one V/F level */
struct drm_rivulet_variant {
	/** @offset: Input: bytes in @slot, multiple of 16 */
	__u64 offset;
	/** @length: Input: bytes, multiple of 16; 0: none for this level, other fields zero */
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

/** DRM_RIVULET_NO_REPORT - value of @report_slot: no report is wanted */
#define DRM_RIVULET_NO_REPORT	0xffffffff

/** struct drm_rivulet_job - one job; all input */
struct drm_rivulet_job {
	/** @regions: Input: array of struct drm_rivulet_region */
	__u64 regions;
	/** @variants: Input: array of struct drm_rivulet_variant, indexed by level */
	__u64 variants;
	/** @in_syncs: Input: array of struct drm_rivulet_sync to wait for */
	__u64 in_syncs;
	/** @out_syncs: Input: array of struct drm_rivulet_sync to signal */
	__u64 out_syncs;
	/** @region_count: Input: 1 to DRM_RIVULET_MAX_REGIONS */
	__u32 region_count;
	/** @variant_count: Input: 1 to DRM_RIVULET_MAX_LEVELS */
	__u32 variant_count;
	/** @in_sync_count: Input: 0 to DRM_RIVULET_MAX_SYNCS */
	__u32 in_sync_count;
	/** @out_sync_count: Input: 0 to DRM_RIVULET_MAX_SYNCS */
	__u32 out_sync_count;
	/** @min_level: Input: requests for lower levels wait for this job; below @level_count */
	__u32 min_level;
	/** @report_slot: Input: writable slot for struct drm_rivulet_report, or NO_REPORT */
	__u32 report_slot;
	/** @report_offset: Input: bytes in that slot, multiple of 8 */
	__u64 report_offset;
	/**
	 * @deadline_ns: Input: CLOCK_MONOTONIC ns, a hint for its and the awaited fences; 0: none
	 */
	__s64 deadline_ns;
	/** @flags: Input: 0 */
	__u32 flags;
	/** @perfmon: Input: performance monitor that counts it, or 0 */
	__u32 perfmon;
};

/** DRM_RIVULET_SUBMIT_FENCE_FD - flag: @fence_fd is wanted */
#define DRM_RIVULET_SUBMIT_FENCE_FD 0x1

/**
 * struct drm_rivulet_submit - queue an array of jobs: all of them, or on any error none
 *
 * A job may wait for what an earlier job of the same array signals. Each slot's buffer gets the
 * job's fence: as a writer if the slot is writable, else as a reader.
 */
struct drm_rivulet_submit {
	/** @jobs: Input: array of @count structs of @stride bytes */
	__u64 jobs;
	/** @count: Input: 1 to DRM_RIVULET_MAX_JOBS */
	__u32 count;
	/** @stride: Input: sizeof(struct drm_rivulet_job) as the caller knows it */
	__u32 stride;
	/** @queue: Input: handle of the queue */
	__u32 queue;
	/** @flags: Input: DRM_RIVULET_SUBMIT_* */
	__u32 flags;
	/** @refused: Output on error: index of the job at fault; @count: no job in particular */
	__u32 refused;
	/** @fence_fd: Output if asked for and without error: sync_file of the last job's fence */
	__s32 fence_fd;
};

/** enum drm_rivulet_state - how a job was retired; @state of a report */
enum drm_rivulet_state {
	/** @DRM_RIVULET_STATE_NONE: not retired yet */
	DRM_RIVULET_STATE_NONE = 0,
	/** @DRM_RIVULET_STATE_DONE: ended well */
	DRM_RIVULET_STATE_DONE = 1,
	/** @DRM_RIVULET_STATE_FAULT: stopped by a fault */
	DRM_RIVULET_STATE_FAULT = 2,
	/** @DRM_RIVULET_STATE_ABORTED: aborted by the driver */
	DRM_RIVULET_STATE_ABORTED = 3,
	/** @DRM_RIVULET_STATE_NO_VARIANT: it has no command stream for the level in force */
	DRM_RIVULET_STATE_NO_VARIANT = 4,
};

/** enum drm_rivulet_fault - why a job was stopped; @fault of a report */
enum drm_rivulet_fault {
	/** @DRM_RIVULET_FAULT_NONE: no fault */
	DRM_RIVULET_FAULT_NONE = 0,
	/** @DRM_RIVULET_FAULT_DESC_BUS: the descriptor is outside memory */
	DRM_RIVULET_FAULT_DESC_BUS = 1,
	/** @DRM_RIVULET_FAULT_DESC_CRC: the descriptor's checksum is wrong */
	DRM_RIVULET_FAULT_DESC_CRC = 2,
	/** @DRM_RIVULET_FAULT_DESC_FIELD: a descriptor field is out of range or not zero */
	DRM_RIVULET_FAULT_DESC_FIELD = 3,
	/** @DRM_RIVULET_FAULT_SLOT_INVALID: an access through a slot that is not valid */
	DRM_RIVULET_FAULT_SLOT_INVALID = 4,
	/** @DRM_RIVULET_FAULT_SLOT_LIMIT: an access beyond the slot's byte limit */
	DRM_RIVULET_FAULT_SLOT_LIMIT = 5,
	/** @DRM_RIVULET_FAULT_SLOT_WRAP: an address computation that left 64 bits */
	DRM_RIVULET_FAULT_SLOT_WRAP = 6,
	/** @DRM_RIVULET_FAULT_SLOT_WRITE: a write through a read-only slot */
	DRM_RIVULET_FAULT_SLOT_WRITE = 7,
	/** @DRM_RIVULET_FAULT_SLOT_BUS: the slot's page list or span leads outside memory */
	DRM_RIVULET_FAULT_SLOT_BUS = 8,
	/** @DRM_RIVULET_FAULT_FETCH: the command stream is outside its slot, or misaligned */
	DRM_RIVULET_FAULT_FETCH = 9,
	/** @DRM_RIVULET_FAULT_RESERVED: a reserved instruction bit is set */
	DRM_RIVULET_FAULT_RESERVED = 10,
	/** @DRM_RIVULET_FAULT_OPCODE: no such instruction, configuration index, or queue for it */
	DRM_RIVULET_FAULT_OPCODE = 11,
	/** @DRM_RIVULET_FAULT_FIELD: an instruction or configuration field has an illegal value */
	DRM_RIVULET_FAULT_FIELD = 12,
	/** @DRM_RIVULET_FAULT_MODE: this device does not implement the mode */
	DRM_RIVULET_FAULT_MODE = 13,
	/** @DRM_RIVULET_FAULT_SPAD: an address outside a scratchpad */
	DRM_RIVULET_FAULT_SPAD = 14,
	/** @DRM_RIVULET_FAULT_TOKEN_OVERFLOW: a token counter passed 255 */
	DRM_RIVULET_FAULT_TOKEN_OVERFLOW = 15,
	/** @DRM_RIVULET_FAULT_DEADLOCK: every queue waits for a token that no queue can push */
	DRM_RIVULET_FAULT_DEADLOCK = 16,
	/** @DRM_RIVULET_FAULT_ENDLESS: more cycles than CYCLE_CAP */
	DRM_RIVULET_FAULT_ENDLESS = 17,
	/**
	 * @DRM_RIVULET_FAULT_NO_END: the last instruction is not SYNC END, or END stands elsewhere
	 */
	DRM_RIVULET_FAULT_NO_END = 18,
	/** @DRM_RIVULET_FAULT_REPORT: the status copy could not be written through its slot */
	DRM_RIVULET_FAULT_REPORT = 19,
	/** @DRM_RIVULET_FAULT_INTERNAL: the device failed by itself */
	DRM_RIVULET_FAULT_INTERNAL = 20,
};

/** DRM_RIVULET_NO_SLOT - value of @fault_slot: the fault names no slot */
#define DRM_RIVULET_NO_SLOT	0xffffffff

/**
 * struct drm_rivulet_report - what the device writes to @report_slot before the fence signals
 *
 * All output, little endian.
 */
struct drm_rivulet_report {
	/** @reserved0: zero; the device's number of the job would count the jobs of others */
	__le32 reserved0;
	/** @state: enum drm_rivulet_state */
	__le32 state;
	/** @fault: enum drm_rivulet_fault */
	__le32 fault;
	/** @fault_slot: slot of the access at fault, or DRM_RIVULET_NO_SLOT */
	__le32 fault_slot;
	/** @fault_offset: offset of that access in the slot, bytes */
	__le64 fault_offset;
	/** @insn: index of the instruction at fault, else instructions retired */
	__le32 insn;
	/** @level: V/F level that was in force */
	__le32 level;
	/** @variant: index of the command stream that ran */
	__le32 variant;
	/** @pad: zero */
	__le32 pad;
	/** @cycles: device cycles of the job */
	__le64 cycles;
	/** @start: device time at which it started, ns */
	__le64 start;
	/** @end: device time of its last write, ns */
	__le64 end;
	/** @energy: picojoule, static part included */
	__le64 energy;
	/** @load_busy: cycles in which the LOAD engine worked */
	__le64 load_busy;
	/** @conv_busy: cycles in which the CONV engine worked */
	__le64 conv_busy;
	/** @alu_busy: cycles in which the ALU engine worked */
	__le64 alu_busy;
	/** @store_busy: cycles in which the STORE engine worked */
	__le64 store_busy;
	/** @stalls: cycles in which engines waited for tokens, summed over the engines */
	__le64 stalls;
	/** @read_bytes: bytes of DMA from memory */
	__le64 read_bytes;
	/** @write_bytes: bytes of DMA to memory */
	__le64 write_bytes;
	/** @macs: multiplications done, padding included */
	__le64 macs;
	/** @reserved: zero */
	__le32 reserved[5];
	/** @crc: CRC32C of all bytes before it */
	__le32 crc;
};

#define DRM_IOCTL_RIVULET_QUERY                                                                    \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_QUERY, struct drm_rivulet_query)
#define DRM_IOCTL_RIVULET_BO_CREATE                                                                \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_BO_CREATE, struct drm_rivulet_bo_create)
#define DRM_IOCTL_RIVULET_BO_MAP                                                                   \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_BO_MAP, struct drm_rivulet_bo_map)
#define DRM_IOCTL_RIVULET_BO_INFO                                                                  \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_BO_INFO, struct drm_rivulet_bo_info)
#define DRM_IOCTL_RIVULET_BO_WAIT                                                                  \
	DRM_IOW(DRM_COMMAND_BASE + DRM_RIVULET_BO_WAIT, struct drm_rivulet_bo_wait)
#define DRM_IOCTL_RIVULET_BO_SYNC                                                                  \
	DRM_IOW(DRM_COMMAND_BASE + DRM_RIVULET_BO_SYNC, struct drm_rivulet_bo_sync)
#define DRM_IOCTL_RIVULET_QUEUE_CREATE                                                             \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_QUEUE_CREATE, struct drm_rivulet_queue_create)
#define DRM_IOCTL_RIVULET_QUEUE_DESTROY                                                            \
	DRM_IOW(DRM_COMMAND_BASE + DRM_RIVULET_QUEUE_DESTROY, struct drm_rivulet_queue_destroy)
#define DRM_IOCTL_RIVULET_SUBMIT                                                                   \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_SUBMIT, struct drm_rivulet_submit)
#define DRM_IOCTL_RIVULET_PERFMON_CREATE                                                           \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_PERFMON_CREATE, struct drm_rivulet_perfmon_create)
#define DRM_IOCTL_RIVULET_PERFMON_DESTROY                                                          \
	DRM_IOW(DRM_COMMAND_BASE + DRM_RIVULET_PERFMON_DESTROY, struct drm_rivulet_perfmon_destroy)
#define DRM_IOCTL_RIVULET_PERFMON_READ                                                             \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_RIVULET_PERFMON_READ, struct drm_rivulet_perfmon_read)

#if defined(__cplusplus)
}
#endif

#endif
