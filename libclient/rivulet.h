/* SPDX-License-Identifier: MIT */
/*
 * librivulet: the Rivulet NPU for programs. It has two independent parts:
 *
 *   struct rivulet_client   the daemon: load an ONNX model, bind tensors, run, wait or poll
 *   struct rivulet_device   the accel node itself: buffers, jobs, fences by ioctl
 *
 * Results. Functions return 0, a documented non-negative number, or a negative errno;
 * rivulet_last_error() then has one line that names what failed. Output parameters are written only
 * on success.
 *
 * Ownership. Objects are opaque and counted: _ref() returns its argument, _unref() returns NULL,
 * and both accept NULL. The caller owns the descriptors that functions store, which are
 * close-on-exec, and keeps those that it passes. The library never logs, never exits, installs no
 * signal handler and starts no thread.
 *
 * Threads. A device, its buffers, fences, queues and monitors may be used by any thread at any
 * time. A client and the models and requests made from it may be used by one thread at a time; the
 * caller locks. Different clients are independent.
 */
#ifndef RIVULET_H
#define RIVULET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rivulet_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Structs that a caller allocates begin with their size:
 *
 *   struct rivulet_run_options o = { .size = sizeof(o) };
 *
 * A later version of the library appends fields. A field that one side does not know is zero for
 * the other: a program that sets a field that the library does not know gets -E2BIG, and a size
 * below the first version's -EINVAL.
 */

/*
 * Structs of the kernel's interface: a program that uses them includes rivulet_accel.h. They keep
 * their size as long as the library is librivulet.so.1.
 */
struct drm_rivulet_client;
struct drm_rivulet_clock;
struct drm_rivulet_counters;
struct drm_rivulet_device;
struct drm_rivulet_job;
struct drm_rivulet_range;
struct drm_rivulet_region;
struct drm_rivulet_variant;

struct rivulet_device;
struct rivulet_buffer;
struct rivulet_fence;
struct rivulet_job_queue;
struct rivulet_perfmon;
struct rivulet_client;
struct rivulet_model;
struct rivulet_request;
struct rivulet_stream;

/**
 * rivulet_last_error() - one line about the last call of this thread that failed, or ""
 * Valid until the thread's next call into the library.
 */
const char *rivulet_last_error(void);

/** rivulet_version() - version of the library, "0.1.0" */
const char *rivulet_version(void);

/* ---- devices ---- */

/**
 * rivulet_device_open() - open an accel node
 * @path: the node, or NULL for the first /dev/accel/accelN, then /dev/dri/renderDN, whose driver is
 * "rivulet"
 * -ENOENT: no such node; -ENODEV: the node belongs to another driver, or (NULL) no node is a
 * Rivulet's;
 * -EACCES: the node is there but not for this user; -EPROTO: the driver speaks another version.
 */
int rivulet_device_open(const char *path, struct rivulet_device **out);
/** rivulet_device_open_fd() - the same on an open node; the fd is duplicated */
int rivulet_device_open_fd(int fd, struct rivulet_device **out);
struct rivulet_device *rivulet_device_ref(struct rivulet_device *dev);
struct rivulet_device *rivulet_device_unref(struct rivulet_device *dev);
/** rivulet_device_fd() - the DRM fd, owned by the device */
int rivulet_device_fd(const struct rivulet_device *dev);
/** rivulet_device_path() - the node's path, or "fd:N" */
const char *rivulet_device_path(const struct rivulet_device *dev);
/** rivulet_device_info() - geometry and levels, which never change */
const struct drm_rivulet_device *rivulet_device_info(const struct rivulet_device *dev);
/** rivulet_device_clock() - the V/F level in force */
int rivulet_device_clock(struct rivulet_device *dev, struct drm_rivulet_clock *out);
/** rivulet_device_counters() - totals of all clients since power on; -EACCES without CAP_PERFMON */
int rivulet_device_counters(struct rivulet_device *dev, struct drm_rivulet_counters *out);
/**
 * rivulet_device_client() - this device object as a client of the driver: hangs, ban, device time,
 * energy, memory
 */
int rivulet_device_client(struct rivulet_device *dev, struct drm_rivulet_client *out);

/* ---- buffers ---- */

/** rivulet_buffer_create() - zeroed memory of the device; @size bytes, rounded up to pages */
int rivulet_buffer_create(struct rivulet_device *dev, uint64_t size, struct rivulet_buffer **out);
/**
 * rivulet_buffer_create_as() - the same, with a kind of CPU mapping
 * @flags: DRM_RIVULET_BO_WC, write-combined: fast to fill, slow to read; DRM_RIVULET_BO_CACHED:
 * cached on every platform, with rivulet_buffer_begin() and _end() around what the CPU does; or 0:
 * cached where that needs neither.
 * DRM_RIVULET_BO_CONTIGUOUS, alone or with _CACHED: physically contiguous pages; -ENOMEM where no
 * such run is free.
 */
int rivulet_buffer_create_as(struct rivulet_device *dev, uint64_t size, uint32_t flags,
			     struct rivulet_buffer **out);
/**
 * rivulet_buffer_import() - a dma-buf of anybody (camera, udmabuf, DMA heap, another device)
 * Importing the same dma-buf twice returns the same buffer with one more reference. A dma-buf
 * opened read-only becomes a read-only buffer.
 */
int rivulet_buffer_import(struct rivulet_device *dev, int dmabuf, struct rivulet_buffer **out);
/**
 * rivulet_buffer_export() - a new dma-buf fd
 * -EACCES: @writable, of a read-only buffer; -EOPNOTSUPP: not @writable, of imported memory that
 * is.
 */
int rivulet_buffer_export(struct rivulet_buffer *buf, bool writable, int *dmabuf);
/**
 * rivulet_buffer_map() - CPU address, mapped once and kept until the last unref
 * A read-only buffer is mapped for reading. Reads and writes race with running jobs: wait first.
 */
int rivulet_buffer_map(struct rivulet_buffer *buf, void **ptr);
/**
 * rivulet_buffer_wait() - wait until the CPU may access a buffer
 * @access: DRM_RIVULET_ACCESS_READ waits for jobs and other drivers that write the buffer,
 * DRM_RIVULET_ACCESS_WRITE also for those that read it, or both
 * @deadline: CLOCK_MONOTONIC ns; 0 polls, INT64_MAX waits
 * -ETIME: still in use at @deadline. A wait that a signal interrupts is continued.
 */
int rivulet_buffer_wait(struct rivulet_buffer *buf, uint32_t access, int64_t deadline);
/**
 * rivulet_buffer_sync() - make parts of a buffer visible to the CPU or to the device; never waits
 * @op: enum drm_rivulet_sync_op
 * @access: what the CPU will do, or has done; as above
 * @ranges: @count of them, ascending, without overlap, up to DRM_RIVULET_MAX_RANGES; count 0: the
 * whole buffer
 * Needed for imported buffers, and where rivulet_buffer_flags() has
 * DRM_RIVULET_BO_CACHED. -EACCES: WRITE to a read-only buffer.
 */
int rivulet_buffer_sync(struct rivulet_buffer *buf, uint32_t op, uint32_t access,
			const struct drm_rivulet_range *ranges, uint32_t count);
/**
 * rivulet_buffer_begin() - before a CPU access: rivulet_buffer_wait(), then rivulet_buffer_sync()
 * for the CPU
 */
int rivulet_buffer_begin(struct rivulet_buffer *buf, uint32_t access,
			 const struct drm_rivulet_range *ranges, uint32_t count, int64_t deadline);
/** rivulet_buffer_end() - after a CPU access: rivulet_buffer_sync() for the device */
int rivulet_buffer_end(struct rivulet_buffer *buf, uint32_t access,
		       const struct drm_rivulet_range *ranges, uint32_t count);
struct rivulet_buffer *rivulet_buffer_ref(struct rivulet_buffer *buf);
struct rivulet_buffer *rivulet_buffer_unref(struct rivulet_buffer *buf);
/** rivulet_buffer_size() - bytes */
uint64_t rivulet_buffer_size(const struct rivulet_buffer *buf);
/** rivulet_buffer_flags() - DRM_RIVULET_BO_* */
uint32_t rivulet_buffer_flags(const struct rivulet_buffer *buf);
/** rivulet_buffer_handle() - GEM handle on the device's fd; do not close it */
uint32_t rivulet_buffer_handle(const struct rivulet_buffer *buf);

/* ---- jobs and fences: programs submitted without the daemon ---- */

/** rivulet_fence_new() - a syncobj without a fence yet; put its handle into a job's out_syncs */
int rivulet_fence_new(struct rivulet_device *dev, struct rivulet_fence **out);
struct rivulet_fence *rivulet_fence_ref(struct rivulet_fence *fence);
struct rivulet_fence *rivulet_fence_unref(struct rivulet_fence *fence);
/** rivulet_fence_handle() - the syncobj */
uint32_t rivulet_fence_handle(const struct rivulet_fence *fence);
/**
 * rivulet_fence_wait() - until the job is done or @deadline (CLOCK_MONOTONIC ns; 0 polls, INT64_MAX
 * waits)
 * -ETIME when it is not done by then; a job's own failure is in rivulet_fence_status().
 */
int rivulet_fence_wait(struct rivulet_fence *fence, int64_t deadline);
/**
 * rivulet_fence_fd() - a sync_file: readable once the job is done; -EINVAL before it was submitted
 */
int rivulet_fence_fd(struct rivulet_fence *fence, int *sync_file);
/**
 * rivulet_fence_status() - 1: done, 0: not yet, negative: the errno the job ended with
 * @sync_file: of rivulet_fence_fd()
 */
int rivulet_fence_status(int sync_file);

/**
 * rivulet_job_queue_new() - a queue, whose jobs run in the order of submission
 * @priority: DRM_RIVULET_PRIORITY_*. -EACCES: HIGH without CAP_SYS_NICE; -EBUSY: this device object
 * has DRM_RIVULET_MAX_QUEUES of them.
 */
int rivulet_job_queue_new(struct rivulet_device *dev, int32_t priority, struct rivulet_job_queue **out);
struct rivulet_job_queue *rivulet_job_queue_ref(struct rivulet_job_queue *queue);
/**
 * rivulet_job_queue_unref() - the last one destroys the queue; its jobs that have not started end
 * with -ESRCH
 */
struct rivulet_job_queue *rivulet_job_queue_unref(struct rivulet_job_queue *queue);

/**
 * rivulet_device_submit() - queue all jobs, or on any error none; see struct drm_rivulet_submit
 * @refused: on error the index of the job at fault, or @count if it is none in particular. May be
 * NULL.
 * The jobs go to a queue of the device object's own, of normal priority.
 */
int rivulet_device_submit(struct rivulet_device *dev, const struct drm_rivulet_job *jobs, uint32_t count,
			  uint32_t *refused);
/** struct rivulet_submit_options - how jobs are queued; all zero is the default */
struct rivulet_submit_options {
	size_t size;	/* sizeof(struct rivulet_submit_options), set by the caller */
	struct rivulet_job_queue *queue;	/* NULL: that of rivulet_device_submit() */
	int *fence_fd;	/* not NULL: gets a sync_file of the last job, as of rivulet_fence_fd() */
};
/**
 * rivulet_device_submit_with() - the same with options; NULL are the defaults
 * Without an error the caller closes *@fence_fd; with one it is -1.
 */
int rivulet_device_submit_with(struct rivulet_device *dev, const struct drm_rivulet_job *jobs, uint32_t count,
			       const struct rivulet_submit_options *opts, uint32_t *refused);

/** RIVULET_PERF_VALUES - values of a performance monitor that this library knows */
#define RIVULET_PERF_VALUES	(DRM_RIVULET_PERF_ENERGY + 1)
/**
 * rivulet_perfmon_new() - a set of counters, all zero; put its id into the perfmon field of jobs to
 * be counted
 * -EBUSY: this device object has DRM_RIVULET_MAX_PERFMONS of them.
 */
int rivulet_perfmon_new(struct rivulet_device *dev, struct rivulet_perfmon **out);
struct rivulet_perfmon *rivulet_perfmon_ref(struct rivulet_perfmon *mon);
/** rivulet_perfmon_unref() - jobs that it counted run on */
struct rivulet_perfmon *rivulet_perfmon_unref(struct rivulet_perfmon *mon);
uint32_t rivulet_perfmon_id(const struct rivulet_perfmon *mon);
/**
 * rivulet_perfmon_read() - sums over its jobs that have ended, in the order of enum
 * drm_rivulet_perf
 * @reset: count from zero again after this; no job is lost or counted twice
 * @count: of @values, RIVULET_PERF_VALUES for all; what the driver does not have is 0. A job is in
 * the sums before its fence is signalled.
 */
int rivulet_perfmon_read(struct rivulet_perfmon *mon, bool reset, uint64_t *values, uint32_t count);
/**
 * rivulet_perfmon_counter() - name of a value, "conv_busy", and if asked its unit, "cycles"; NULL:
 * there is none
 */
const char *rivulet_perfmon_counter(uint32_t counter, const char **unit);

/**
 * rivulet_check_program() - validate an untrusted program file, and that it was made for this
 * device
 * @dev: NULL skips the second. -EINVAL: damaged; -ENOEXEC: for another target, the property is
 * named.
 * Later calls rely on the check.
 */
int rivulet_check_program(const struct rivulet_device *dev, const void *data, size_t size);
/**
 * rivulet_job_variants() - the command streams of one NPU step of a checked program
 * @program: the program file in memory, as rivulet_check_program() accepted it
 * @variants: array of DRM_RIVULET_MAX_LEVELS, written completely
 * Returns the number of entries that a job needs, 0 when @step is no NPU step of the program.
 */
uint32_t rivulet_job_variants(const void *program, uint32_t step,
			      struct drm_rivulet_variant *variants);
/**
 * rivulet_job_from_step() - a job for one NPU step of a checked program
 * @program: the program file in memory; @image: a buffer with the same bytes, bound to slot 0
 * @arena: bound to slot 1, or NULL when the program has none
 * @io: inputs, then outputs, each bound from offset 0 on
 * @report: bound to slot 15, gets the status at @report_offset; NULL for none
 * @regions: array of DRM_RIVULET_MAX_REGIONS; @variants: array of DRM_RIVULET_MAX_LEVELS
 * Fills @job, @regions and @variants; the arrays must exist until the job is submitted. Levels that
 * the device does not have are left out. The caller sets syncs and deadline.
 * -EINVAL: not an NPU step, or it names a slot that was not given.
 */
int rivulet_job_from_step(const void *program, uint32_t step,
			  struct rivulet_buffer *image, struct rivulet_buffer *arena,
			  struct rivulet_buffer *const *io, uint32_t io_count,
			  struct rivulet_buffer *report, uint64_t report_offset,
			  struct drm_rivulet_job *job, struct drm_rivulet_region *regions,
			  struct drm_rivulet_variant *variants);

/*
 * ---- the daemon ----
 *
 * Blocking. rivulet_open(), rivulet_model_load(), rivulet_model_load_memory(),
 * rivulet_model_wait(), rivulet_request_run(), rivulet_request_prepare(), rivulet_request_wait(),
 * rivulet_request_wait_any(), rivulet_stream_new(), rivulet_stream_take(), rivulet_client_ping(),
 * rivulet_client_status(),
 * rivulet_client_policy() and rivulet_client_wait_device() wait for the daemon. No other function
 * does. The functions called _start() begin an operation, return 0, and leave its result to
 * _result(), to a callback from rivulet_client_dispatch(), or to _wait(). An error that is known at
 * once is returned by _start() itself, and nothing is called back then.
 *
 * Reconnection. The daemon may be restarted, and the device removed and added, under an open
 * client. An operation under way then ends, once, with -ECONNRESET or -ENODEV. Every later call
 * connects again where that is needed; requests load their model again (its file is kept in
 * memory), open an instance on the device that is present, and bind the same memory. While there is
 * no daemon, calls fail with -ENOENT or -ECONNREFUSED; without a device runs fail with -ENODEV. A
 * buffer of a removed device cannot be bound again: -ENODEV names the tensor, which needs another
 * buffer. After a violation of the protocol (-EBADMSG, -EPROTO) the client does not connect again.
 *
 * Errors of every call that talks to the daemon, besides those it lists: -ENOENT and -ECONNREFUSED:
 * no daemon listens on the socket; -EACCES: this user may not connect; -ECONNRESET: the daemon
 * ended the connection;
 * -ETIMEDOUT: no answer in 30 s or in the time given; -EPROTO: no common protocol version;
 * -EBADMSG: the daemon sent a malformed message; -EDQUOT: a limit of rivuletd.conf(5) for this
 * user, named in the text.
 */

/**
 * rivulet_open() - connect to the daemon and agree on a protocol version; blocks
 * @socket: path, or NULL for $RIVULETD_SOCKET (ignored in set-id programs), else
 * /run/rivuletd/rivuletd.sock
 * -ENAMETOOLONG: @socket is longer than a socket's path may be.
 */
int rivulet_open(const char *socket, struct rivulet_client **out);
/**
 * rivulet_open_start() - the same without blocking
 * rivulet_client_result() is 0 once the connection is made. The client can be used at once:
 * operations begun before wait for the connection.
 */
int rivulet_open_start(const char *socket, struct rivulet_client **out);
struct rivulet_client *rivulet_client_ref(struct rivulet_client *c);
/** rivulet_client_unref() - models and requests keep the client they were made from */
struct rivulet_client *rivulet_client_unref(struct rivulet_client *c);
/**
 * rivulet_client_result() - 0: connected; -EINPROGRESS: connecting; else why there is no connection
 */
int rivulet_client_result(const struct rivulet_client *c);
/**
 * rivulet_client_connect_start() - connect again in the background
 * @timeout_ms: attempts are repeated every 100 ms until then; 0: one attempt; -1: no limit
 * Its end is reported by rivulet_client_on_change() and rivulet_client_result(). Does nothing when
 * connected. An operation connects by itself, so this is needed only by a program that waits
 * for the daemon to return without an operation of its own.
 */
int rivulet_client_connect_start(struct rivulet_client *c, int timeout_ms);
/**
 * rivulet_client_fd() - one descriptor to poll for input, the same for the client's whole life
 * When it is readable, call rivulet_client_dispatch(). Owned by the client.
 */
int rivulet_client_fd(const struct rivulet_client *c);
/**
 * rivulet_client_dispatch() - handle what has arrived and call the callbacks; never blocks
 * Returns the number of runs, loads and questions that ended, or why there is no connection
 * (-ECONNRESET, -EBADMSG, ...) once the ends that it caused are reported. Operations under way go on only inside
 * dispatch and blocking calls.
 */
int rivulet_client_dispatch(struct rivulet_client *c);
/**
 * rivulet_client_on_change() - @fn is called from dispatch after the connection or the device came
 * or went
 * rivulet_client_result() and rivulet_client_info() say what is there. NULL: no callback.
 */
void rivulet_client_on_change(struct rivulet_client *c,
			      void (*fn)(struct rivulet_client *c, void *data), void *data);

/** struct rivulet_daemon_info - the daemon, its device, and the limits of this user */
struct rivulet_daemon_info {
	size_t size;		/* sizeof(struct rivulet_daemon_info), set by the caller */
	uint32_t protocol;	/* version agreed on; 0 before the first connection */
	uint32_t features;	/* enum rivulet_feature */
	bool present;		/* a device is present */
	uint32_t levels;	/* voltage/frequency levels of the device */
	uint64_t max_model;	/* bytes of one model file */
	uint64_t max_bytes;	/* bytes of bound memory */
	uint32_t max_models;
	uint32_t max_requests;
	uint32_t max_runs;	/* queued and running */
	char version[64];	/* of the daemon */
	char device[64];	/* node, or sim:BOARD; "" without a device */
	char board[64];		/* "" without a device */
};
/** rivulet_client_info() - as last reported; dispatch and blocking calls keep it up to date */
int rivulet_client_info(const struct rivulet_client *c, struct rivulet_daemon_info *info);
/**
 * rivulet_client_ping() - 0 when the daemon answers within @timeout_ms; connects where needed;
 * blocks
 */
int rivulet_client_ping(struct rivulet_client *c, int timeout_ms);
/**
 * rivulet_client_ping_start() - the same without blocking
 * @done: called once, from dispatch, with 0 or a negative errno, for which rivulet_last_error() has
 * the line; NULL: nothing is called. The same holds for the two functions below. Any number of
 * questions may be under way. The last rivulet_client_unref() forgets those that have not ended.
 */
int rivulet_client_ping_start(struct rivulet_client *c, int timeout_ms,
			      void (*done)(struct rivulet_client *c, int result, void *data), void *data);
/**
 * rivulet_client_status() - a sealed memfd with @size bytes of JSON: daemon, device, models; blocks
 * The descriptor is the caller's. docs/protocol.md has the keys.
 */
int rivulet_client_status(struct rivulet_client *c, int *fd, uint64_t *size);
/**
 * rivulet_client_status_start() - the same without blocking
 * @done: gets the descriptor, which is the program's to close, and the size; -1 and 0 with an error
 */
int rivulet_client_status_start(struct rivulet_client *c,
				void (*done)(struct rivulet_client *c, int result, int fd, uint64_t size,
					     void *data), void *data);
/**
 * rivulet_client_wait_device() - wait until a daemon answers and has a device; blocks
 * @timeout_ms: -ETIMEDOUT after that; -1: no limit. Errors that waiting cannot
 * remove are returned at once.
 */
int rivulet_client_wait_device(struct rivulet_client *c, int timeout_ms);

/** struct rivulet_level_state - the voltage/frequency level that the power policy chose */
struct rivulet_level_state {
	size_t size;		/* sizeof(struct rivulet_level_state), set by the caller */
	uint32_t level;
	uint32_t reason;	/* enum rivulet_policy_reason */
	uint32_t flags;		/* enum rivulet_policy_flag */
	uint32_t charge;	/* of the batteries, parts per million; 0 unless the flag KNOWN is set */
	uint64_t hz;
};
/** rivulet_client_level() - as last reported; -ENODATA: the daemon has no device or no policy */
int rivulet_client_level(const struct rivulet_client *c, struct rivulet_level_state *out);
/**
 * rivulet_client_on_level() - @fn is called from dispatch after level, reserve or emergency changed
 * Of several changes since the last dispatch only the last is reported. NULL: no callback.
 */
void rivulet_client_on_level(struct rivulet_client *c,
			     void (*fn)(struct rivulet_client *c, const struct rivulet_level_state *l,
					void *data), void *data);

/** struct rivulet_policy_state - of the power policy; times in ns, charge in parts per million */
struct rivulet_policy_state {
	size_t size;		/* sizeof(struct rivulet_policy_state), set by the caller */
	uint32_t mode;		/* enum rivulet_policy_mode */
	uint32_t fixed;		/* level of mode FIXED */
	uint32_t source;	/* enum rivulet_policy_source: who chose the mode */
	uint32_t flags;		/* enum rivulet_policy_flag */
	uint32_t level;
	uint32_t levels;	/* of the device; 0: no device, and the fields below mean nothing */
	uint32_t reason;	/* enum rivulet_policy_reason */
	uint32_t allowed;	/* bit n: no run under way or of PolicyUsers= lacks level n */
	uint32_t charge;
	uint32_t drain;		/* per second */
	int32_t temperature;	/* millidegrees Celsius; INT32_MIN: no thermal zone */
	uint32_t hysteresis;
	uint32_t reserve;
	uint32_t used;		/* number of levels in use, fastest first in @use */
	uint64_t dwell;		/* after a change before the level may rise */
	uint64_t changed;	/* CLOCK_MONOTONIC; 0: never */
	uint32_t use[RIVULET_MAX_LEVELS];
	uint32_t threshold[RIVULET_MAX_LEVELS];	/* at or below [i]: level use[i + 1] */
	uint64_t hz[RIVULET_MAX_LEVELS];
	uint64_t residency[RIVULET_MAX_LEVELS];
	uint64_t entries[RIVULET_MAX_LEVELS];	/* changes to each level */
};
/**
 * rivulet_client_policy() - ask for the policy's state after changing its mode; blocks
 * @mode: enum rivulet_policy_mode; RIVULET_POLICY_KEEP only asks. @level: of mode FIXED, else 0.
 * @out may be NULL.
 * -EPERM: this user may not change the mode (PolicyUsers= of the daemon); -ERANGE: the device has
 * no such level;
 * -EINVAL: no such mode; -EOPNOTSUPP: the daemon has no policy.
 */
int rivulet_client_policy(struct rivulet_client *c, uint32_t mode, uint32_t level,
			  struct rivulet_policy_state *out);
/**
 * rivulet_client_policy_start() - the same without blocking
 * @done: gets the state, which is valid during the call; NULL with an error
 */
int rivulet_client_policy_start(struct rivulet_client *c, uint32_t mode, uint32_t level,
				void (*done)(struct rivulet_client *c, int result,
					     const struct rivulet_policy_state *state, void *data),
				void *data);

/**
 * struct rivulet_load_options - how to load a model; NULL, or all fields but size zero, is the
 * default
 */
struct rivulet_load_options {
	size_t size;		/* sizeof(struct rivulet_load_options), set by the caller */
	const char *name;	/* for status and journal; NULL: the file's name */
	bool program;		/* the file is a compiled program, not ONNX */
	bool require_npu;	/* refuse a model with steps on the CPU: -EOPNOTSUPP */
	uint32_t batch;		/* value of a symbolic first dimension; 0: 1 */
	uint32_t symbol;	/* value of other symbolic dimensions; 0: refuse them */
	bool keep_program;	/* for rivulet_model_program() */
	uint32_t timeout_ms;	/* for the daemon's answer to the load; 0: 120,000 */
};

/**
 * rivulet_model_load() - compile a model on the daemon, or find it in the daemon's cache; blocks
 * @path: an ONNX file, or a program with options->program. It may change afterwards.
 * -ENOENT: also no such file; -EINVAL: empty or not a regular file, or a malformed model; -EFBIG:
 * above the daemon's limit; -EIO: the file shrank while it was read; -EOPNOTSUPP: an operator that
 * is not supported;
 * -ENODEV: the daemon has no device; -ENOEXEC: a program for another device; -E2BIG, -EFAULT: the
 * compiler exceeded its limits or crashed. The text has the compiler's line about node, operator
 * and reason.
 */
int rivulet_model_load(struct rivulet_client *c, const char *path,
		       const struct rivulet_load_options *opts, struct rivulet_model **out);
/** rivulet_model_load_memory() - the same from @size bytes of memory, which are copied; blocks */
int rivulet_model_load_memory(struct rivulet_client *c, const void *data, size_t size,
			      const struct rivulet_load_options *opts, struct rivulet_model **out);
/**
 * rivulet_model_load_start() - begin a load; never blocks
 * The file is copied in pieces of 1 MiB by dispatch. Until rivulet_model_result() is 0 the model
 * has no tensors and no requests can be made of it. A load that failed stays failed; release the
 * model and begin another.
 */
int rivulet_model_load_start(struct rivulet_client *c, const char *path,
			     const struct rivulet_load_options *opts, struct rivulet_model **out);
/** rivulet_model_load_memory_start() - the same from memory, which is copied before this returns */
int rivulet_model_load_memory_start(struct rivulet_client *c, const void *data, size_t size,
				    const struct rivulet_load_options *opts,
				    struct rivulet_model **out);
/** rivulet_model_result() - of the load: 0, -EINPROGRESS, or its negative errno */
int rivulet_model_result(const struct rivulet_model *m);
/** rivulet_model_error() - the line about a load that failed, or ""; valid while the model is */
const char *rivulet_model_error(const struct rivulet_model *m);
/**
 * rivulet_model_wait() - wait until the load ends; its result, or -ETIMEDOUT after @timeout_ms (-1:
 * no limit)
 */
int rivulet_model_wait(struct rivulet_model *m, int timeout_ms);
/**
 * rivulet_model_on_loaded() - @fn is called once, from dispatch or wait, when the load ends; NULL:
 * no callback
 */
void rivulet_model_on_loaded(struct rivulet_model *m,
			     void (*fn)(struct rivulet_model *m, void *data), void *data);
struct rivulet_model *rivulet_model_ref(struct rivulet_model *m);
/**
 * rivulet_model_unref() - a load under way is given up; requests keep the model they were made from
 */
struct rivulet_model *rivulet_model_unref(struct rivulet_model *m);

/** struct rivulet_tensor_info - an input or output of a model */
struct rivulet_tensor_info {
	size_t size;		/* sizeof(struct rivulet_tensor_info), set by the caller */
	const char *name;	/* in the model; valid while the model is */
	enum rivulet_dtype dtype;
	bool output;
	uint32_t ndim;		/* dimensions in @dim */
	uint64_t dim[RIVULET_MAX_DIMS];	/* ONNX's order, outermost first */
	uint64_t bytes;		/* of the data: dense, row major, native byte order */
	float scale;		/* value = scale * (element - zero_point); 0: not quantised */
	int32_t zero_point;
	bool bounded;		/* each run finds the shape of this output; see rivulet_request_tensor() */
};

/** struct rivulet_model_info - what the daemon reported about a loaded model */
struct rivulet_model_info {
	size_t size;		/* sizeof(struct rivulet_model_info), set by the caller */
	uint32_t npu_steps;
	uint32_t cpu_steps;
	bool cached;		/* the program was in the daemon's cache */
	uint64_t program_size;	/* bytes */
	uint64_t arena_size;	/* bytes of a request besides its inputs and outputs */
	uint64_t compile_ns;	/* 0 when cached */
	uint64_t macs;		/* of one run */
	uint64_t cycles;	/* of one run at the highest level, estimated */
	uint64_t expected_ns;	/* of one run at the highest level, estimated; 0: no device */
	uint8_t hash[32];	/* SHA-256 of the file */
};
int rivulet_model_info(const struct rivulet_model *m, struct rivulet_model_info *info);
/**
 * rivulet_model_inputs(), rivulet_model_outputs() - their numbers; 0 before the model is loaded
 * A tensor's number counts the inputs first, then the outputs.
 */
uint32_t rivulet_model_inputs(const struct rivulet_model *m);
uint32_t rivulet_model_outputs(const struct rivulet_model *m);
/**
 * rivulet_model_tensor() - an input or output as the model has it
 * Of a bounded output, @dim and @bytes are upper bounds: its memory must have room for @bytes, and
 * rivulet_request_tensor() has the shape of a run. -ERANGE when @index is inputs + outputs or more.
 */
int rivulet_model_tensor(const struct rivulet_model *m, uint32_t index,
			 struct rivulet_tensor_info *info);
/** rivulet_model_find() - number of the tensor called @name, or -ENOENT */
int rivulet_model_find(const struct rivulet_model *m, const char *name);
/**
 * rivulet_model_program() - a new read-only descriptor of the program, the caller's; -ENODATA
 * without keep_program
 */
int rivulet_model_program(struct rivulet_model *m, int *fd);

/**
 * rivulet_request_new() - a set of bindings of a loaded model, run any number of times, one run at
 * a time
 * -EINPROGRESS: the model is not loaded yet. A load that failed gives its error.
 */
int rivulet_request_new(struct rivulet_model *m, struct rivulet_request **out);
struct rivulet_request *rivulet_request_ref(struct rivulet_request *r);
/**
 * rivulet_request_unref() - a run in flight is cancelled; memory bound to it is not touched
 * afterwards
 */
struct rivulet_request *rivulet_request_unref(struct rivulet_request *r);

/*
 * Binding gives a tensor its memory, until another call for the same tensor. It sends
 * nothing: BIND is sent when the request is next started or prepared, and what the daemon refuses
 * is the error of that operation (-EPERM: a kind of file that it does not take, -EACCES: an output
 * in read-only memory, -EINVAL: too small). All three: -ERANGE: no such tensor; -EBUSY: a run is
 * in flight;
 * -EINVAL: the offset is no multiple of 64.
 */

/**
 * rivulet_bind_buffer() - zero copy: the tensor is at @offset of a buffer; the request keeps a
 * reference
 */
int rivulet_bind_buffer(struct rivulet_request *r, uint32_t tensor, struct rivulet_buffer *buf,
			uint64_t offset);
/**
 * rivulet_bind_dmabuf() - zero copy: the tensor is at @offset of a dma-buf, which is duplicated;
 * -EBADF: it is none
 */
int rivulet_bind_dmabuf(struct rivulet_request *r, uint32_t tensor, int dmabuf, uint64_t offset);
/**
 * rivulet_bind_memory() - plain memory of @size bytes, at least the tensor's
 * An input is copied by rivulet_request_start(), which may be given other data once it has
 * returned; an output is copied when the run ends, before its callback; of a bounded output
 * only the bytes of the shape that the run found. @data stays the caller's and must exist until
 * then.
 */
int rivulet_bind_memory(struct rivulet_request *r, uint32_t tensor, void *data, size_t size);

/** struct rivulet_run_options - how to run; NULL, or all fields but size zero, is the default */
struct rivulet_run_options {
	size_t size;		/* sizeof(struct rivulet_run_options), set by the caller */
	int64_t deadline;	/* CLOCK_MONOTONIC ns, 0: none; docs/protocol.md has the order of runs */
	bool hard;		/* end with -ETIME at once rather than miss the deadline */
	int32_t priority;	/* -1 low, 0 normal, 1 high: -EPERM unless HighPriorityUsers= names the user */
	uint32_t min_accuracy;	/* least expected accuracy, parts per million; 0: any */
};

/**
 * rivulet_request_start() - begin a run; never blocks
 * -EBUSY: one is in flight; -EINVAL: an unbound tensor, which is named, or a bad option; -E2BIG: an
 * option that this library does not know.
 * Results of a run: 0; -ECANCELED; -ETIME: a hard deadline cannot be met; -ENODEV: no device;
 * -EOPNOTSUPP: no level has the accuracy asked for; -EBUSY: no level is left that all admitted
 * models can run at; -EAGAIN: in the battery's reserve or an emergency; -EIO: the device reported a
 * fault, which the text names.
 */
int rivulet_request_start(struct rivulet_request *r, const struct rivulet_run_options *opts);
/**
 * rivulet_request_wait() - wait until the run ends; its result, or -ETIMEDOUT after @timeout_ms
 * (-1: no limit)
 */
int rivulet_request_wait(struct rivulet_request *r, int timeout_ms);
/**
 * rivulet_request_wait_any() - wait until one of several runs ends
 * @requests: @count of them, of any clients; NULL entries are skipped
 * Returns the index of the one that ended first and was not reported before;
 * rivulet_request_result() has its result. Its callback is called. -ETIMEDOUT: none ended in
 * @timeout_ms; -ENODATA: none is under way.
 */
int rivulet_request_wait_any(struct rivulet_request *const *requests, uint32_t count, int timeout_ms);
/** rivulet_request_run() - start and wait; blocks */
int rivulet_request_run(struct rivulet_request *r, const struct rivulet_run_options *opts);
/**
 * rivulet_request_prepare_start() - do everything that a first run needs except running: never
 * blocks
 * Connects, loads the model again where needed, opens the instance and binds what is bound. Its end
 * is reported like a run's. Optional: a run does the same.
 */
int rivulet_request_prepare_start(struct rivulet_request *r);
/** rivulet_request_prepare() - the same; blocks */
int rivulet_request_prepare(struct rivulet_request *r);
/**
 * rivulet_request_cancel() - ask for the end; the run ends with -ECANCELED unless it was faster.
 * -EALREADY: no run
 */
int rivulet_request_cancel(struct rivulet_request *r);
/**
 * rivulet_request_result() - of the last run: 0, -EINPROGRESS, its negative errno, or -ENODATA
 * before the first
 */
int rivulet_request_result(const struct rivulet_request *r);
/**
 * rivulet_request_error() - the line about a run that failed: step, layer, fault, slot, offset; or
 * ""
 */
const char *rivulet_request_error(const struct rivulet_request *r);
/**
 * rivulet_request_on_done() - @fn is called from dispatch or wait when a run ends; NULL: no
 * callback
 */
void rivulet_request_on_done(struct rivulet_request *r,
			     void (*fn)(struct rivulet_request *r, void *data), void *data);

/** struct rivulet_run_stats - of the last run, if it ended well; times in ns */
struct rivulet_run_stats {
	size_t size;		/* sizeof(struct rivulet_run_stats), set by the caller */
	uint64_t start;		/* CLOCK_MONOTONIC: when the first step started */
	uint64_t end;		/* when the last step had finished */
	uint64_t queue_ns;	/* in the daemon, before @start */
	uint64_t npu_ns;	/* device time of its NPU steps */
	uint64_t cpu_ns;	/* of its CPU steps */
	uint64_t expected_ns;	/* from start to end, as estimated at admission */
	uint64_t cycles;	/* of the device */
	uint64_t macs;		/* padding included */
	uint64_t conv_busy;	/* cycles in which the array worked */
	uint64_t read_bytes;	/* by the device */
	uint64_t write_bytes;
	uint64_t energy_pj;	/* of the device */
	uint32_t npu_steps;
	uint32_t cpu_steps;
	uint32_t level_min;	/* voltage/frequency levels that its NPU steps ran at */
	uint32_t level_max;
	uint32_t length;	/* stochastic bitstream length, bits; 0: none */
	uint32_t accuracy;	/* parts per million expected; 0: unknown */
	bool late;		/* ended after its deadline */
};
/** rivulet_request_stats() - -ENODATA unless the last run has ended well */
int rivulet_request_stats(const struct rivulet_request *r, struct rivulet_run_stats *stats);

/**
 * rivulet_request_tensor() - an input or output as the last run left it
 * @info: as of rivulet_model_tensor(). Of a bounded output, @dim is the shape that the run found, and
 * its dense elements are the first @bytes bytes of the memory that is bound to it; the bytes after
 * them are undefined. 0 bytes: the run found no element. @name is valid while the model is.
 * -ERANGE: no such tensor; -ENODATA: a bounded output, and the last run has not ended well.
 */
int rivulet_request_tensor(const struct rivulet_request *r, uint32_t tensor,
			   struct rivulet_tensor_info *info);

/*
 * ---- streams: frames of one model, several in flight ----
 *
 * A request runs once at a time, and the NPU idles while CPU steps of the run compute. A stream is a
 * ring of requests: while the NPU runs a frame, CPU steps of the frames after it run. The results are
 * taken in the order in which the frames were submitted. A frame that fails does not affect others.
 *
 *	struct rivulet_request *r;
 *
 *	while (read_frame(&picture)) {
 *		if (!rivulet_stream_next(s))
 *			use_result(rivulet_stream_take(s, -1, &r), r);
 *		fill(rivulet_stream_next(s), &picture);
 *		rivulet_stream_submit(s, NULL);
 *	}
 *	while (rivulet_stream_take(s, -1, &r) != -ENODATA)
 *		use_result(rivulet_request_result(r), r);
 */

/** RIVULET_STREAM_DEPTH - one frame before its NPU steps, one in them, and one after them */
#define RIVULET_STREAM_DEPTH 3
/**
 * rivulet_stream_new() - a ring of @depth requests of a loaded model; 0: RIVULET_STREAM_DEPTH; blocks
 * Each request has its working memory in the daemon from here on. If a limit of the user or the
 * memory allows fewer, but one at least, the ring is smaller. -EINVAL: more than 64. Otherwise as
 * rivulet_request_prepare().
 */
int rivulet_stream_new(struct rivulet_model *m, uint32_t depth, struct rivulet_stream **out);
struct rivulet_stream *rivulet_stream_ref(struct rivulet_stream *s);
/** rivulet_stream_unref() - frames in flight are cancelled */
struct rivulet_stream *rivulet_stream_unref(struct rivulet_stream *s);
/** rivulet_stream_depth() - requests in the ring: frames that may be in flight */
uint32_t rivulet_stream_depth(const struct rivulet_stream *s);
/**
 * rivulet_stream_request() - the request at @place of the ring, from 0, for binding its tensors
 * before the first frame; owned by the stream; NULL: no such place. The requests of a ring must not
 * share outputs. Only the stream starts them.
 */
struct rivulet_request *rivulet_stream_request(const struct rivulet_stream *s, uint32_t place);
/** rivulet_stream_next() - the request of the next frame, to be filled; NULL: all are in flight */
struct rivulet_request *rivulet_stream_next(const struct rivulet_stream *s);
/**
 * rivulet_stream_submit() - start the next frame; never blocks
 * -EAGAIN: as many frames as the ring has requests are in flight. Otherwise as
 * rivulet_request_start(); after an error the frame is not in flight.
 */
int rivulet_stream_submit(struct rivulet_stream *s, const struct rivulet_run_options *opts);
/**
 * rivulet_stream_take() - wait for the oldest frame; its result, as rivulet_request_wait()
 * @frame: its request, whose outputs are valid until the request is the next one and is filled or
 * submitted. NULL if no frame ended: -ETIMEDOUT after @timeout_ms, or -ENODATA: none is in flight.
 */
int rivulet_stream_take(struct rivulet_stream *s, int timeout_ms, struct rivulet_request **frame);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
