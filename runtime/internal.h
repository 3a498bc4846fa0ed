/* SPDX-License-Identifier: MIT */
/*
 * Internals of the runtime. One thread owns a runtime and all state of its runs: it issues steps
 * and, in dispatch, takes completions. Workers and the model's thread use only the struct
 * rvl_rt_task that they were given, and return it through the completion list. The only locks are
 * the pool's and that list's.
 */
#ifndef RVL_RUNTIME_INTERNAL_H
#define RVL_RUNTIME_INTERNAL_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>

#include "rivulet_kernels.h"
#include "rivulet_runtime.h"

#define RVL_RT_WINDOW 256	/* steps that may be looked at ahead of the first one not done */
#define RVL_RT_WORDS (RVL_RT_WINDOW / 64)
#define RVL_RT_REPORT 256	/* bytes between status reports */

/** rvl_rt_fail() - write @err (may be NULL) and return -@code; @code is a positive errno */
int rvl_rt_fail(struct rivulet_runtime_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/** rvl_rt_now() - CLOCK_MONOTONIC, ns */
int64_t rvl_rt_now(void);

/* ---- memory of a back end ---- */

/**
 * struct rvl_rt_mem - bytes that CPU and NPU can reach; plain data, released by backend->mem_free
 */
struct rvl_rt_mem {
	void *host;
	uint64_t size;
	struct rivulet_buffer *buf;	/* kernel back end; referenced */
	uint64_t offset;		/* of byte 0 in @buf */
	void *heap;			/* to free, or NULL */
	void *map;			/* own mapping to undo (memfds), or NULL */
	uint64_t map_size;
};

/* ---- one step of one run ---- */

enum rvl_rt_state { RVL_RT_WAITING = 0, RVL_RT_RUNNING, RVL_RT_DONE };

/**
 * struct rvl_rt_task - a step of an exec, while a worker or the back end runs it and before and
 * after
 */
struct rvl_rt_task {
	void (*work)(struct rvl_rt_task *t);	/* run by a pool thread */
	struct rvl_rt_task *next;		/* pool queue, model queue or completion list */
	struct rivulet_exec *x;
	const void *owner;			/* of the run; see rivulet_exec_params */
	uint32_t step;
	uint32_t chain;				/* steps that its worker runs, this one first */
	uint32_t state;				/* enum rvl_rt_state; the owner's thread only */
	int error;				/* filled by who ran it: 0 or negative errno */
	struct rivulet_step_report report;
	struct rvl_rt_mem prof;			/* PROF records of the step; empty without any */
	int sync_fd;				/* kernel back end: registered in the runtime's epoll, or -1 */
	struct rivulet_fence *fence;		/* kernel back end: kept from run to run */
	char why[RVL_WHY_MAX];			/* CPU steps: what was wrong with an operand */
};

/** struct rvl_rt_npu_job - what a back end needs to run an NPU step */
struct rvl_rt_npu_job {
	const struct rivulet_step *step;
	const struct rvl_rt_mem *slot[RIVULET_SLOTS];	/* NULL: not used */
	uint64_t report_offset;
	int64_t deadline;
	uint32_t min_level;
};

/** struct rvl_rt_backend - who runs NPU steps; all are called by the runtime's thread */
struct rvl_rt_backend {
	int (*mem_alloc)(struct rivulet_runtime *rt, uint64_t size, struct rvl_rt_mem *out,
			 struct rivulet_runtime_error *err);
	/**
	 * submit - start a job; its end comes by rvl_rt_complete() or by t->sync_fd. Jobs run in
	 * order
	 */
	int (*submit)(struct rivulet_runtime *rt, const struct rvl_rt_npu_job *job,
		      struct rvl_rt_task *t, struct rivulet_runtime_error *err);
	/** synced - t->sync_fd is readable: close it, fill t->error */
	void (*synced)(struct rivulet_runtime *rt, struct rvl_rt_task *t);
	int (*set_level)(struct rivulet_runtime *rt, uint32_t level);
	void (*destroy)(struct rivulet_runtime *rt);
	bool plain_memory;	/* NPU steps reach any memory of the process */
};

struct rivulet_runtime {
	atomic_int refs;	/* images may be loaded and released by other threads */
	bool offload;		/* CPU steps and copies run on the pool, whatever their size */
	const struct rvl_rt_backend *backend;
	struct rivulet_workers *pool;	/* referenced */
	struct rivulet_board board;
	struct rivulet_device *dev;	/* kernel back end */
	struct rivulet_perfmon *mon;	/* kernel back end; referenced, or NULL */
	struct rvl_rt_sim *sim;		/* model back end */
	int epoll;
	int event;			/* eventfd: completions, or finished runs not reported yet */
	int timer;			/* timerfd: the earliest deadline */
	pthread_mutex_t lock;		/* @completed, from any thread */
	struct rvl_rt_task *completed;
	struct rivulet_exec *active;	/* runs under way */
	struct rivulet_exec *finished;	/* ended, callback due */
	struct rivulet_level_total total[RIVULET_LEVELS];
};

/** rvl_rt_new() - the part of a runtime that is the same for all back ends */
int rvl_rt_new(struct rivulet_workers *pool, const struct rvl_rt_backend *b,
	       struct rivulet_runtime **out, struct rivulet_runtime_error *err);
/** rvl_rt_complete() - a task is done; from any thread */
void rvl_rt_complete(struct rivulet_runtime *rt, struct rvl_rt_task *t);
/** rvl_rt_mem_free() - release and clear; cleared memory is fine */
void rvl_rt_mem_free(struct rvl_rt_mem *m);
/** rvl_rt_heap_alloc() - zeroed memory of the process, for back ends that reach all of it */
int rvl_rt_heap_alloc(struct rivulet_runtime *rt, uint64_t size, struct rvl_rt_mem *out,
		      struct rivulet_runtime_error *err);
/** rvl_rt_poll() - take events, waiting up to @timeout_ms; finished runs stay on rt->finished */
int rvl_rt_poll(struct rivulet_runtime *rt, int timeout_ms);
/** rvl_rt_deliver() - call back for runs on rt->finished. Returns their number */
int rvl_rt_deliver(struct rivulet_runtime *rt);
/** rvl_rt_arm() - set the timer to the earliest deadline of the active runs */
void rvl_rt_arm(struct rivulet_runtime *rt);

/* ---- workers.c ---- */

/** rvl_rt_workers_push() - run t->work(t) on a worker */
void rvl_rt_workers_push(struct rivulet_workers *p, struct rvl_rt_task *t);
/** rvl_rt_worker() - number of the calling worker thread, from 1; 0 on any other thread */
uint32_t rvl_rt_worker(void);
/**
 * struct rvl_rt_exit - where a thread leaves the kernel that it executes
 * @stop: of the run that the kernel belongs to, or NULL
 */
struct rvl_rt_exit {
	const atomic_bool *stop;
	jmp_buf to;
};
/**
 * rvl_rt_workers_exit() - set the exit of the kernel that the calling thread begins to execute
 * From then on, and until it is set to NULL, the thread jumps to @e->to when @e->stop is true: at
 * once, at the end of a parallel loop, or at any instruction on rvl_rt_workers_interrupt(). Before
 * the jump, the exit is set to NULL and all parts of the kernel's loops have ended.
 */
void rvl_rt_workers_exit(struct rvl_rt_exit *e);
/** rvl_rt_workers_interrupt() - make all workers look at the @stop of the kernels they execute */
void rvl_rt_workers_interrupt(struct rivulet_workers *p);
/** rvl_rt_workers_kernel() - the pool as the kernels know it; valid as long as @p */
const struct rvl_pool *rvl_rt_workers_kernel(struct rivulet_workers *p);

/* ---- image.c ---- */

/** struct rvl_rt_cpu_step - a CPU step, prepared */
struct rvl_rt_cpu_step {
	struct rvl_kernel *kernel;
	size_t scratch;
	bool inlined;		/* so little work that handing it to a worker costs more */
	uint8_t n_in, n_out;
	uint32_t in[RVL_MAX_IN];	/* tensor numbers, UINT32_MAX: absent */
	uint32_t out[RVL_MAX_OUT];
};

struct rivulet_image {
	atomic_int refs;
	struct rivulet_runtime *rt;		/* referenced */
	struct rvl_rt_mem mem;			/* the file; slot 0 */
	const struct rivulet_program *prog;	/* in mem.host */
	struct rvl_rt_cpu_step *cpu;		/* by step; empty for NPU steps */
	uint64_t (*deps)[RVL_RT_WORDS];		/* by step: bit b: step - 1 - b comes first */
	uint32_t *report;			/* by step: number among the NPU steps */
	/* By input, then output: a CPU step uses it; and uses its data as addresses, see bind.c. */
	bool *on_cpu, *addresses;
	uint32_t npu_steps;
	uint32_t tail;				/* this step and all behind it run on the CPU */
	uint32_t io_slots;			/* slots that any NPU step uses */
	uint64_t prof_size;			/* bytes of PROF records of all steps */
	struct rvl_kernels_need need;
};

/** rvl_rt_overlap() - whether the byte ranges of two tensors that steps write have bytes in common */
bool rvl_rt_overlap(const struct rivulet_tensor *a, const struct rivulet_tensor *b);
/** rvl_rt_aliased() - whether a CPU step writes bytes that it also reads, or writes twice */
bool rvl_rt_aliased(const struct rivulet_image *img, const struct rivulet_step *s);
/** rvl_rt_deps() - fill img->deps. -ENOMEM */
int rvl_rt_deps(struct rivulet_image *img);
/** rvl_rt_depends() - whether step @i must wait for step @j < i */
bool rvl_rt_depends(const struct rivulet_image *img, uint32_t i, uint32_t j);

/**
 * rvl_rt_prof_bytes() - room for a PROF record of every instruction of the longest variant of step
 * @i
 */
uint64_t rvl_rt_prof_bytes(const struct rivulet_image *img, uint32_t i);

/* ---- exec.c, bind.c ---- */

/** struct rvl_rt_binding - where an input or output is */
struct rvl_rt_binding {
	bool bound;
	bool writable;
	struct rvl_rt_mem mem;		/* what CPU and NPU steps use */
	void *user;			/* memory that @mem is a copy of, or NULL */
	/*
	 * A dma-buf that CPU steps or the copy access, so that a run waits for its fences;
	 * referenced, or NULL.
	 */
	struct rivulet_buffer *from;
	uint64_t from_offset;		/* of the tensor in @from */
	bool open;			/* the CPU's access to @from has begun and not ended */
};

struct rivulet_exec {
	int refs;
	struct rivulet_image *img;	/* referenced */
	struct rvl_rt_mem arena, reports;
	struct rvl_rt_binding *bind;
	struct rvl_shape *shape;	/* by tensor: of bounded ones, as the last step found it */
	struct rvl_rt_task *task;	/* by step */
	struct rvl_rt_task copy;	/* prepares the run, later hands its outputs out */
	bool prepared;			/* of this run: @task is reset and the inputs are copied */
	struct rivulet_exec_params params;
	struct rivulet_exec_result result;
	bool busy;			/* from start until the callback */
	bool stopping;			/* no further step is issued */
	atomic_bool abandoned;		/* workers leave its CPU steps; any thread */
	struct rvl_rt_task *held;	/* the last CPU steps, which rivulet_exec_wait() runs; or NULL */
	uint32_t first;			/* first step that is not done */
	uint32_t running;
	struct rivulet_exec *next, **link;	/* rt->active or rt->finished */
};

/** rvl_rt_exec_done() - a task of a run ended */
void rvl_rt_exec_done(struct rvl_rt_task *t);
/** rvl_rt_exec_stop() - issue no further step; the first reason becomes the result */
void rvl_rt_exec_stop(struct rivulet_exec *x, int error, const char *text);
/** rvl_rt_check_bound() - -EINVAL: an output has bytes of an input, both used in place */
int rvl_rt_check_bound(const struct rivulet_exec *x, struct rivulet_runtime_error *err);
/**
 * rvl_rt_begin_bound() - wait for the fences of dma-bufs, and copy inputs that steps do not use in
 * place
 * Ends with -ECANCELED soon after x->abandoned is set. The error and its text are in x->copy.
 */
void rvl_rt_begin_bound(struct rivulet_exec *x);
/**
 * rvl_rt_end_bound() - copy outputs out if the run has @succeeded, and end the access to dma-bufs
 * The first error and its text are in x->copy.
 */
void rvl_rt_end_bound(struct rivulet_exec *x, bool succeeded);
/** rvl_rt_unbind() - release what a binding holds */
void rvl_rt_unbind(struct rvl_rt_binding *b);
/** rvl_rt_cpu_run() - run a CPU step on this thread; fills t->error and times */
void rvl_rt_cpu_run(struct rvl_rt_task *t);

#endif
