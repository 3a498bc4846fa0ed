/* SPDX-License-Identifier: MIT */
/* The ioctl fuzzer: what fuzz_ioctl.c, fuzz_calls.c, fuzz_rows.c and fuzz_submit.c share. */
#ifndef RIVULET_TEST_FUZZ_H
#define RIVULET_TEST_FUZZ_H

#include <stdatomic.h>
#include <sys/types.h>

#include "chance.h"
#include "vm.h"

#define FUZZ_FILES	3	/* open nodes of a worker */
#define FUZZ_HANDLES	8	/* buffers of a file; the first holds the programs */
#define FUZZ_SYNCS	8	/* syncobjs of a file */
#define FUZZ_PERFMONS	4	/* performance monitors of a file */
#define FUZZ_QUEUES	4	/* queues of a file */
#define FUZZ_BUFS	8	/* dma-buf descriptors */
#define FUZZ_SHARED	4	/* the first of these, which every worker inherits */
#define FUZZ_FENCES	6	/* sync_file descriptors */
#define FUZZ_TIMELINES	2	/* sw_sync descriptors, where the kernel has them */
#define FUZZ_MAPS	6
#define FUZZ_WINDOW	(2u << 20)	/* bytes of address space of each */
#define FUZZ_WORKERS	4
#define FUZZ_THREADS	4
#define FUZZ_ROWS	64
#define FUZZ_HISTORY	32
#define FUZZ_BYTES	48	/* of an argument that the history keeps */
#define FUZZ_PROGRAMS	16	/* at the multiples of FUZZ_PROGRAM_SIZE of a file's first buffer */
#define FUZZ_PROGRAM_SIZE 1024
#define FUZZ_CODE_SIZE	(FUZZ_PROGRAMS * FUZZ_PROGRAM_SIZE)

/** struct fuzz_record - one call of the history; @error: -1 until it returns */
struct fuzz_record {
	uint16_t row;
	int16_t error;
	int32_t fd;
	uint32_t request;
	uint8_t bytes[FUZZ_BYTES];
};

/** struct fuzz_trace - the last calls of one thread, in memory that outlives its process */
struct fuzz_trace {
	_Atomic uint64_t calls;
	struct fuzz_record record[FUZZ_HISTORY];
};

/** struct fuzz_shared - in memory that all processes share */
struct fuzz_shared {
	uint64_t seed;
	uint32_t round;
	bool racing;		/* threads close and replace each other's descriptors */
	bool unplugs;		/* the device is unbound or unplugged in this round */
	bool sw_sync;		/* the kernel has SW_SYNC */
	uint32_t threads;	/* of a worker */
	uint64_t quota;		/* calls of a thread in a round */
	char node[64];
	char debugfs[64];
	char programs[FUZZ_PROGRAMS][FUZZ_PROGRAM_SIZE];
	uint32_t program_length[FUZZ_PROGRAMS];
	int inherited[FUZZ_SHARED];	/* dma-bufs of all workers */
	_Atomic uint64_t ioctls;
	_Atomic uint32_t findings;
	_Atomic uint64_t accepted[FUZZ_ROWS], refused[FUZZ_ROWS];
	struct fuzz_trace trace[FUZZ_WORKERS][FUZZ_THREADS];
};

/** struct fuzz_pool - objects of one worker's threads; an empty entry is -1 (descriptor) or 0 */
struct fuzz_pool {
	_Atomic int file[FUZZ_FILES];
	_Atomic uint32_t handle[FUZZ_FILES][FUZZ_HANDLES];
	_Atomic uint32_t size[FUZZ_FILES][FUZZ_HANDLES];
	_Atomic uint32_t sync[FUZZ_FILES][FUZZ_SYNCS];
	_Atomic uint32_t perfmon[FUZZ_FILES][FUZZ_PERFMONS];
	_Atomic uint32_t queue[FUZZ_FILES][FUZZ_QUEUES];
	_Atomic int buf[FUZZ_BUFS];
	_Atomic int fence[FUZZ_FENCES];
	_Atomic int timeline[FUZZ_TIMELINES];
	/* A mapping never leaves its window, so that no thread unmaps memory of another kind. */
	uint8_t *window;
	_Atomic uint32_t mapped[FUZZ_MAPS];
	int programs, scratch, udmabuf, heap;	/* open until the worker exits */
};

/** struct fuzz_chunk - input to mutate; bit n of @pointers: 8 bytes from 8 * n on are an address */
struct fuzz_chunk {
	void *p;
	uint32_t size;
	uint32_t pointers;
};

/** struct fuzz_arrays - the arrays that a submit points to */
struct fuzz_arrays {
	uint8_t jobs[(DRM_RIVULET_MAX_JOBS + 1) * 4096];
	struct drm_rivulet_region region[4][DRM_RIVULET_MAX_REGIONS];
	struct drm_rivulet_variant variant[4][DRM_RIVULET_MAX_LEVELS];
	struct drm_rivulet_sync in[4][DRM_RIVULET_MAX_SYNCS];
	struct drm_rivulet_sync out[4][DRM_RIVULET_MAX_SYNCS];
};

/** struct fuzz_thread - one thread that makes calls */
struct fuzz_thread {
	struct fuzz_shared *shared;
	struct fuzz_pool *pool;
	struct fuzz_trace *trace;
	struct fuzz_arrays *arrays;
	uint8_t *edge;		/* two pages, of which the second is not mapped */
	uint64_t random;
	uint32_t point;		/* last one used for a timeline */
	bool child;		/* was forked by a thread, and does not fork itself */
};

struct fuzz_row;

/** struct fuzz_call - one call */
struct fuzz_call {
	struct fuzz_thread *t;
	const struct fuzz_row *row;
	uint32_t file, slot;	/* indices of the file that it uses, and of its result */
	int fd;
	unsigned long request;
	union {
		uint8_t bytes[16384];	/* the largest size that a request number can encode */
		struct drm_rivulet_query query;
		struct drm_rivulet_bo_create bo_create;
		struct drm_rivulet_bo_map bo_map;
		struct drm_rivulet_bo_info bo_info;
		struct drm_rivulet_bo_wait bo_wait;
		struct drm_rivulet_bo_sync bo_sync;
		struct drm_rivulet_queue_create queue_create;
		struct drm_rivulet_queue_destroy queue_destroy;
		struct drm_rivulet_perfmon_create perfmon_create;
		struct drm_rivulet_perfmon_destroy perfmon_destroy;
		struct drm_rivulet_perfmon_read perfmon_read;
		struct drm_rivulet_submit submit;
		struct drm_gem_close gem_close;
		struct drm_prime_handle prime;
		struct drm_syncobj_create sync_create;
		struct drm_syncobj_destroy sync_destroy;
		struct drm_syncobj_handle sync_handle;
		struct drm_syncobj_transfer sync_transfer;
		struct drm_syncobj_timeline_wait sync_wait;
		struct drm_syncobj_timeline_array sync_array;
	} *arg;
	struct fuzz_chunk chunk[24];
	uint32_t chunks;
	bool wild;		/* some address may be invalid, so that EFAULT is expected */
};

/** enum fuzz_target - kind of the descriptor that an ioctl is called on */
enum fuzz_target {
	FUZZ_FILE, FUZZ_BUF, FUZZ_FENCE, FUZZ_TIMELINE, FUZZ_UDMABUF, FUZZ_HEAP, FUZZ_NONE,
};

/** struct fuzz_row - one kind of call. A new ioctl needs a new row in fuzz_rows.c. */
struct fuzz_row {
	const char *name;
	unsigned long request;		/* 0: @run is no ioctl */
	enum fuzz_target target;
	uint16_t weight;			/* relative frequency */
	uint16_t mutate;			/* percentage of calls that are mutated */
	void (*make)(struct fuzz_call *c);	/* fills a valid argument, and adds its chunks */
	void (*fix)(struct fuzz_call *c);	/* after mutation: removes what disturbs the test */
	void (*done)(struct fuzz_call *c);	/* after success: keeps the result */
	int (*run)(struct fuzz_call *c);	/* instead of an ioctl; -1 and errno on failure */
	const short *errors;		/* expected errno values, 0 at the end */
};

extern const struct fuzz_row fuzz_rows[];
uint32_t fuzz_row_count(void);

uint64_t fuzz_random(struct fuzz_thread *t);
uint32_t fuzz_below(struct fuzz_thread *t, uint32_t n);
bool fuzz_percent(struct fuzz_thread *t, uint32_t percent);
void fuzz_chunk(struct fuzz_call *c, void *p, size_t size, uint32_t pointers);
void fuzz_start(struct fuzz_thread *t);
void fuzz_call(struct fuzz_thread *t);
void fuzz_finding(struct fuzz_shared *sh, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void fuzz_dump(struct fuzz_shared *sh, const struct fuzz_trace *trace, uint32_t count);

/* The submit ioctl: fuzz_submit.c. */
void fuzz_make_submit(struct fuzz_call *c);
void fuzz_fix_submit(struct fuzz_call *c);
void fuzz_make_programs(struct fuzz_shared *sh, uint32_t tn);

#endif
