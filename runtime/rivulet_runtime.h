/* SPDX-License-Identifier: MIT */
/*
 * The runtime executes program files: NPU steps through a back end (the kernel by libclient, or the
 * linked device model), CPU steps on a worker pool, both overlapping as far as the steps' tensors
 * allow.
 *
 *   workers   worker threads; shared by any number of runtimes
 *   runtime   one back end (one DRM file, or one linked model) and one pollable fd
 *   image     a checked program in the back end's memory (slot 0), kernels prepared
 *   exec      one instance of an image: arena, bindings, one run at a time
 *
 * Threads. A runtime belongs to one thread, which starts, cancels and dispatches its runs. Any
 * thread may load and release images, make execs, and bind or release an exec that has no run,
 * while no other thread uses that object; reference counts are atomic. Only rivulet_exec_wait() and
 * the _unref() of a running exec block.
 * Poll rivulet_runtime_fd() for input and call rivulet_runtime_dispatch(): it advances every run
 * and calls back.
 *
 * Errors: negative errno, one line in @err (struct rivulet_runtime_error), no logging.
 */
#ifndef RIVULET_RUNTIME_H
#define RIVULET_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rivulet_board.h"
#include "rivulet_dev.h"
#include "rivulet_program.h"

struct rivulet_device;
struct rivulet_buffer;
struct rivulet_perfmon;
struct rivulet_workers;
struct rivulet_runtime;
struct rivulet_image;
struct rivulet_exec;

#define RIVULET_RUNTIME_ERROR_SIZE 512

struct rivulet_runtime_error {
	char text[RIVULET_RUNTIME_ERROR_SIZE];
};

/* ---- workers ---- */

/**
 * rivulet_workers_new() - @threads workers, 0: one per processor of this process, at most 64
 * Installs a handler for SIGURG, the signal by which a CPU step of a cancelled run is interrupted.
 */
int rivulet_workers_new(uint32_t threads, struct rivulet_workers **out);
struct rivulet_workers *rivulet_workers_ref(struct rivulet_workers *p);
/** rivulet_workers_unref() - the last one waits for the workers */
struct rivulet_workers *rivulet_workers_unref(struct rivulet_workers *p);
uint32_t rivulet_workers_threads(const struct rivulet_workers *p);

/* ---- runtime ---- */

/** rivulet_runtime_new_device() - back end: the kernel. Both arguments are referenced */
int rivulet_runtime_new_device(struct rivulet_device *dev, struct rivulet_workers *pool,
			       struct rivulet_runtime **out, struct rivulet_runtime_error *err);
/**
 * rivulet_runtime_new_sim() - back end: the model linked in, unpaced, at the highest level; @board
 * is copied
 */
int rivulet_runtime_new_sim(const struct rivulet_board *board, struct rivulet_workers *pool,
			    struct rivulet_runtime **out, struct rivulet_runtime_error *err);
/** rivulet_runtime_new_cpu() - no back end: only programs without NPU steps can be loaded */
int rivulet_runtime_new_cpu(struct rivulet_workers *pool, struct rivulet_runtime **out,
			    struct rivulet_runtime_error *err);
struct rivulet_runtime *rivulet_runtime_ref(struct rivulet_runtime *rt);
struct rivulet_runtime *rivulet_runtime_unref(struct rivulet_runtime *rt);
/**
 * rivulet_runtime_fd() - readable when rivulet_runtime_dispatch() has something to do; owned by the
 * runtime
 */
int rivulet_runtime_fd(const struct rivulet_runtime *rt);
/**
 * rivulet_runtime_dispatch() - advance without blocking. Runs that ended by it, or negative errno
 */
int rivulet_runtime_dispatch(struct rivulet_runtime *rt);
/** rivulet_runtime_board() - geometry, levels and name of the back end */
const struct rivulet_board *rivulet_runtime_board(const struct rivulet_runtime *rt);
/** rivulet_runtime_target() - what the compiler must make programs for */
void rivulet_runtime_target(const struct rivulet_runtime *rt, struct rivulet_target *t);
/**
 * rivulet_runtime_set_offload() - for a thread that must never be busy for long
 * By default the thread that starts and dispatches runs also does small CPU steps and the copying
 * of bound plain memory. With @offload the workers do all work whose amount the program or its user
 * decides.
 * Set it before the first run.
 */
void rivulet_runtime_set_offload(struct rivulet_runtime *rt, bool offload);
/**
 * rivulet_runtime_set_level() - model only (-EOPNOTSUPP on the kernel, where devfreq sets it);
 * takes effect at the next NPU step
 */
int rivulet_runtime_set_level(struct rivulet_runtime *rt, uint32_t level);
/**
 * rivulet_runtime_set_paced() - model only: an NPU step completes when its device time has passed
 * By default it completes when the model has computed it. -EOPNOTSUPP: the device paces itself.
 */
int rivulet_runtime_set_paced(struct rivulet_runtime *rt, bool paced);
/**
 * rivulet_runtime_monitor() - count the NPU steps that start after this call in @mon; NULL: in none
 * @mon: of the runtime's device; referenced. -EOPNOTSUPP: the model has no monitors.
 */
int rivulet_runtime_monitor(struct rivulet_runtime *rt, struct rivulet_perfmon *mon);

/**
 * struct rivulet_level_total - NPU work done at one level since the runtime began, from status
 * reports
 */
struct rivulet_level_total {
	uint64_t jobs;
	uint64_t cycles;
	uint64_t device_ns;	/* promotion to last write, summed */
	uint64_t energy_pj;
	uint64_t macs;
	uint64_t conv_busy;	/* cycles */
	uint64_t read_bytes;
	uint64_t write_bytes;
};
/** rivulet_runtime_totals() - RIVULET_LEVELS entries, owned by the runtime */
const struct rivulet_level_total *rivulet_runtime_totals(const struct rivulet_runtime *rt);

/* ---- image ---- */

/**
 * rivulet_image_load() - copy a program file into the back end, check it, and compare it with the
 * target
 * @data: untrusted bytes, not kept. -EINVAL: the file is damaged; -ENOEXEC: made for another
 * target;
 * -EOPNOTSUPP: a CPU step has no kernel.
 */
int rivulet_image_load(struct rivulet_runtime *rt, const void *data, size_t size,
		       struct rivulet_image **out, struct rivulet_runtime_error *err);
/**
 * rivulet_image_load_within() - the same; -EDQUOT once the prepared CPU steps need more than @limit
 * bytes
 */
int rivulet_image_load_within(struct rivulet_runtime *rt, const void *data, size_t size,
			      uint64_t limit, struct rivulet_image **out,
			      struct rivulet_runtime_error *err);
struct rivulet_image *rivulet_image_ref(struct rivulet_image *img);
struct rivulet_image *rivulet_image_unref(struct rivulet_image *img);
/** rivulet_image_program() - the checked file; tensors 0 .. inputs + outputs - 1 are the graph's */
const struct rivulet_program *rivulet_image_program(const struct rivulet_image *img);
/**
 * rivulet_image_bytes() - what its prepared CPU steps hold or will, workspace of the workers
 * included
 */
uint64_t rivulet_image_bytes(const struct rivulet_image *img);
/** rivulet_image_exec_bytes() - what each rivulet_exec_new() of it takes */
uint64_t rivulet_image_exec_bytes(const struct rivulet_image *img);

/* ---- exec ---- */

/**
 * rivulet_exec_new() - allocates the arena and the report buffer; every input and output starts
 * unbound
 */
int rivulet_exec_new(struct rivulet_image *img, struct rivulet_exec **out,
		     struct rivulet_runtime_error *err);
struct rivulet_exec *rivulet_exec_ref(struct rivulet_exec *x);
/**
 * rivulet_exec_unref() - the last one cancels a run and waits for the steps that are under way; no
 * callback
 */
struct rivulet_exec *rivulet_exec_unref(struct rivulet_exec *x);
struct rivulet_image *rivulet_exec_image(const struct rivulet_exec *x);

/* Binding: @tensor 0 .. inputs + outputs - 1; -EBUSY during a run; -EINVAL when it does not fit. */

/**
 * rivulet_exec_bind_memory() - plain memory of the caller, which must exist until the tensor is
 * bound to other memory
 * The model works in it directly; for the kernel it is copied into a buffer at the start, and out
 * at the end.
 */
int rivulet_exec_bind_memory(struct rivulet_exec *x, uint32_t tensor, void *data, size_t size,
			     struct rivulet_runtime_error *err);
/**
 * rivulet_exec_bind_buffer() - a buffer of the runtime's device, from @offset on; referenced
 * (kernel only)
 */
int rivulet_exec_bind_buffer(struct rivulet_exec *x, uint32_t tensor, struct rivulet_buffer *buf,
			     uint64_t offset, struct rivulet_runtime_error *err);
/**
 * rivulet_exec_bind_fd() - a dma-buf (imported) or a memfd (mapped, then as plain memory), from
 * @offset on
 * A memfd must be sealed against shrinking (-EPERM), or its owner could kill the process by
 * truncating it.
 * Another process may change the memory during a run. So a tensor whose data a CPU step uses as an
 * address is copied: an input when a run starts, an output when it has succeeded.
 * A run waits for the fences of a dma-buf: NPU steps in the kernel, CPU steps and copies on a
 * worker before the first step. A cancel and the deadline end that wait.
 * A run whose output shares bytes with an input, both in place, is refused at its start (-EINVAL),
 * because steps may write to an output before all have read the input.
 * Outputs need a writable fd. The fd stays the caller's.
 */
int rivulet_exec_bind_fd(struct rivulet_exec *x, uint32_t tensor, int fd, uint64_t offset,
			 struct rivulet_runtime_error *err);

/** struct rivulet_exec_params - of one run; all zero is the default */
struct rivulet_exec_params {
	int64_t deadline;	/* CLOCK_MONOTONIC ns, 0: none; passed on as the fences' hint */
	uint32_t min_level;	/* the device defers lower levels until its NPU steps have run */
	uint32_t variant;	/* 1 + level whose commands run, whatever the device's level is; 0: its own */
	bool soft;		/* the deadline is only that hint: a late run goes on to its end */
	/*
	 * The next call for this run is rivulet_exec_wait() without a limit of time. Its last CPU steps
	 * may then run in that call, without the time that handing them to a worker takes. Not with a
	 * deadline that ends the run, which the calling thread could not see meanwhile.
	 */
	bool waits;
	void (*done)(struct rivulet_exec *x, void *data);	/* from dispatch or wait, once; may be NULL */
	void *data;
	/*
	 * On whose behalf it runs, or NULL; only compared. When the CPU steps of other owners
	 * occupy all workers, a spare thread runs those of this one, as long as there are at most
	 * 16 such owners.
	 */
	const void *owner;
};

/**
 * rivulet_exec_start() - begin a run. 0: it will end and call back, never from inside this call
 * -EBUSY: one is under way; -EINVAL: a tensor is not bound (named).
 */
int rivulet_exec_start(struct rivulet_exec *x, const struct rivulet_exec_params *params,
		       struct rivulet_runtime_error *err);
/**
 * rivulet_exec_cancel() - no further step starts; ends with -ECANCELED once the NPU steps under way
 * are done. CPU steps under way are left at once, and their outputs are then undefined.
 */
void rivulet_exec_cancel(struct rivulet_exec *x);
/** rivulet_exec_wait() - dispatch until this run ended; its result, or -ETIMEDOUT (-1: no limit) */
int rivulet_exec_wait(struct rivulet_exec *x, int timeout_ms);

/**
 * struct rivulet_exec_result - of the last run
 * @error: 0, -ETIME (deadline), -ECANCELED, -EIO (a step failed), -ENODEV (the device is gone),
 * another errno with which the driver or a CPU kernel refused a step, or -EINPROGRESS
 * @step, @status: the step at fault and its report; step is RIVULET_NO_STEP when there is none
 * @text: one line: step, layer, fault, slot, offset
 */
#define RIVULET_NO_STEP 0xffffffffu
struct rivulet_exec_result {
	int error;
	uint32_t step;
	struct rivulet_status status;
	char text[RIVULET_RUNTIME_ERROR_SIZE];
	uint64_t start_ns;	/* CLOCK_MONOTONIC */
	uint64_t end_ns;
	uint64_t cpu_ns;	/* summed over CPU steps */
	uint64_t device_ns;	/* summed over NPU steps, as are the rest */
	uint64_t cycles;
	uint64_t energy_pj;
	uint64_t macs;
	uint64_t conv_busy;
	uint64_t read_bytes;
	uint64_t write_bytes;
	uint32_t npu_steps;
	uint32_t cpu_steps;
	uint32_t level_min;	/* of its NPU steps; 0 without any */
	uint32_t level_max;
};
const struct rivulet_exec_result *rivulet_exec_result(const struct rivulet_exec *x);

/**
 * rivulet_exec_shape() - the dimensions of a tensor after a run, RIVULET_MAX_DIMS at most in @dim.
 * They differ from the program's where the tensor is RIVULET_TENSOR_BOUNDED.
 * Returns their number, or -ERANGE
 */
int rivulet_exec_shape(const struct rivulet_exec *x, uint32_t tensor, uint64_t *dim);

/** struct rivulet_step_report - one step of the last run */
struct rivulet_step_report {
	bool ran;
	uint64_t start_ns;	/* CLOCK_MONOTONIC: issued */
	uint64_t end_ns;	/* completion seen */
	struct rivulet_status status;	/* NPU steps; host byte order */
	uint32_t worker;	/* CPU steps: 1 + number of the worker, 0: the thread of the runtime */
};
/**
 * rivulet_exec_prof() - PROF records that a step of the last run wrote; NULL when it writes none
 * @count: records of struct rivulet_prof there is room for; unused ones are zero
 */
const void *rivulet_exec_prof(const struct rivulet_exec *x, uint32_t step, size_t *count);
/** rivulet_exec_step() - NULL when @step is out of range */
const struct rivulet_step_report *rivulet_exec_step(const struct rivulet_exec *x, uint32_t step);

#endif
