/* SPDX-License-Identifier: MIT */
/*
 * A driver and a device in one process, behind the client library. The functions of libdrm that the
 * library calls, and ioctl(), are replaced at link time (NPU_WRAPS in tests/part.mk). The node is a
 * memfd that holds all buffers, so that mmap() works as on a real node. Jobs run on the linked
 * model.
 */
#ifndef RVL_FAKE_NPU_H
#define RVL_FAKE_NPU_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/sync_file.h>
#include <xf86drm.h>

#include "rivulet.h"
#include "rivulet_accel.h"
#include "rivulet_crc32c.h"
#include "rivulet_sim.h"

#define NPU_MEMORY  (64u << 20)
#define NPU_LOG	    64
#define NPU_HANDLES 256

struct npu_job {
	struct drm_rivulet_job job;
	struct drm_rivulet_region region[RIVULET_SLOTS];
	struct drm_rivulet_variant variant[RIVULET_LEVELS];
	struct drm_rivulet_sync out;
	int done;   /* eventfd whose duplicate is the job's sync_file */
	int status; /* of its fence: 0 not signalled, 1, or negative errno */
	bool ran;
};

/* Another device that fills an imported buffer. */
struct npu_producer {
	void (*done)(uint8_t *bytes); /* called when it has finished, before the wait returns */
	uint32_t waits;		      /* number of waits until then; UINT32_MAX: never */
	uint32_t access;	      /* for which the first wait was */
};

/* Names of the calls that can be refused. */
enum npu_call {
	NPU_CREATE,
	NPU_MAP,
	NPU_SYNCOBJ,
	NPU_SUBMIT,
	NPU_SYNC_FILE,
	NPU_IMPORT,
	NPU_SYNC,
	NPU_CALLS
};

static struct {
	struct rivulet_board board;
	struct drm_rivulet_device info;
	int fd;
	uint8_t *mem;
	struct {
		uint64_t at, size;
		uint32_t flags;
		bool open;
		/* Its producer, with a fence. A wait that is not its last one ends by its time. */
		struct npu_producer *producer;
		uint32_t cpu; /* accesses of the CPU that have begun and not ended */
	} bo[NPU_HANDLES];
	uint32_t handles, syncobjs, open_syncobjs, monitors;
	uint64_t used;
	uint32_t waits; /* for a fence */
	struct npu_job log[NPU_LOG];
	uint32_t jobs;
	bool hold; /* jobs wait for npu_run() */
	void (*held)(void); /* called after a job was held; may call npu_run() */
	/* Answers a job instead of the model. */
	void (*answer)(struct npu_job *j, struct rivulet_status *st);
	int refuse[NPU_CALLS];	   /* errno, or 0 */
	uint32_t after[NPU_CALLS]; /* number of calls that succeed before the refusal */
	bool plain_sync_file;	   /* the sync_file cannot be polled */
	uint64_t counter[RIVULET_PERF_VALUES], counter_next[RIVULET_PERF_VALUES]; /* after a reset */
	uint32_t counter_reads;
	uint32_t level;
	struct rivulet_sim *sim;
	struct rvl_bus bus;
	uint8_t window[RIVULET_WINDOW_SIZE] __attribute__((aligned(64)));
} npu;

static inline bool npu_refuses(enum npu_call call)
{
	if (!npu.refuse[call])
		return false;
	if (npu.after[call]) {
		npu.after[call]--;
		return false;
	}
	errno = npu.refuse[call];
	return true;
}

static inline void *npu_map(void *ctx, uint64_t addr, uint64_t len, bool write)
{
	(void)ctx;
	(void)len;
	(void)write;
	return (void *)(uintptr_t)addr;
}

/* Bytes of a region of a job, as the device sees them. */
static inline uint8_t *npu_bytes(const struct drm_rivulet_region *r)
{
	return npu.mem + npu.bo[r->handle].at + r->offset;
}

static inline const struct drm_rivulet_region *npu_region(const struct npu_job *j, uint32_t slot)
{
	for (uint32_t i = 0; i < j->job.region_count; i++)
		if (j->region[i].slot == slot)
			return &j->region[i];
	return NULL;
}

static inline void npu_execute(struct npu_job *j, struct rivulet_status *st)
{
	struct rvl_job job = { .regions.bus = &npu.bus };
	uint32_t level = npu.level < j->job.min_level ? j->job.min_level : npu.level;

	for (uint32_t i = 0; i < j->job.region_count; i++) {
		const struct drm_rivulet_region *r = &j->region[i];

		job.regions.region[r->slot] = (struct rivulet_region){
			.addr = (uintptr_t)npu_bytes(r),
			.limit = r->size,
			.flags = RIVULET_REGION_VALID |
				 (r->flags & DRM_RIVULET_REGION_WRITE ? RIVULET_REGION_WRITE : 0)
		};
	}
	ck_assert_uint_lt(level, j->job.variant_count);
	job.variant = (struct rivulet_variant){ .offset = j->variant[level].offset,
						.length = j->variant[level].length,
						.slot = j->variant[level].slot };
	rivulet_sim_run(npu.sim, &job, 1, level, st);
}

static inline void npu_seal(struct rivulet_status *st)
{
	st->crc = rivulet_crc32c(0, st, offsetof(struct rivulet_status, crc));
}

/* Runs the jobs that were held, in order, up to @count of them. */
static inline void npu_run(uint32_t count)
{
	for (uint32_t i = 0; count && i < npu.jobs; i++) {
		struct npu_job *j = &npu.log[i];
		struct rivulet_status st = { 0 };

		if (j->ran)
			continue;
		j->status = 1;
		(npu.answer ? npu.answer : npu_execute)(j, &st);
		memcpy(npu_bytes(npu_region(j, j->job.report_slot)) + j->job.report_offset, &st,
		       sizeof(st));
		j->ran = true;
		eventfd_write(j->done, 1);
		count--;
	}
}

/*
 * Returns an eventfd with a high number, so that the next descriptor of the program has the number
 * that it would have without it.
 */
static inline int npu_event(void)
{
	int low = eventfd(0, EFD_CLOEXEC), high = fcntl(low, F_DUPFD_CLOEXEC, 500);

	ck_assert_int_ge(high, 0);
	close(low);
	return high;
}

static inline int npu_submit(struct drm_rivulet_submit *s)
{
	struct npu_job *j = &npu.log[npu.jobs];

	if (npu_refuses(NPU_SUBMIT))
		return -1;
	ck_assert(npu.jobs < NPU_LOG && s->count == 1 && s->stride == sizeof(j->job) &&
		  s->queue == 1);
	*j = (struct npu_job){ .job = *(const struct drm_rivulet_job *)(uintptr_t)s->jobs };
	memcpy(j->region, (void *)(uintptr_t)j->job.regions,
	       j->job.region_count * sizeof(j->region[0]));
	memcpy(j->variant, (void *)(uintptr_t)j->job.variants,
	       j->job.variant_count * sizeof(j->variant[0]));
	j->out = *(const struct drm_rivulet_sync *)(uintptr_t)j->job.out_syncs;
	j->done = npu_event();
	npu.jobs++;
	if (!npu.hold)
		npu_run(1);
	else if (npu.held)
		npu.held();
	return 0;
}

static inline int npu_create(struct drm_rivulet_bo_create *c)
{
	if (npu_refuses(NPU_CREATE))
		return -1;
	c->handle = ++npu.handles;
	ck_assert_uint_lt(c->handle, NPU_HANDLES);
	c->size = (c->size + 4095) / 4096 * 4096;
	ck_assert_uint_le(npu.used + c->size, NPU_MEMORY);
	npu.bo[c->handle].at = npu.used;
	npu.bo[c->handle].size = c->size;
	npu.bo[c->handle].flags = c->flags;
	npu.bo[c->handle].open = true;
	npu.used += c->size;
	return 0;
}

static inline int npu_query(const struct drm_rivulet_query *q)
{
	ck_assert_uint_eq(q->type, DRM_RIVULET_QUERY_DEVICE);
	memcpy((void *)(uintptr_t)q->pointer, &npu.info, sizeof(npu.info));
	return 0;
}

static inline int npu_wait(const struct drm_rivulet_bo_wait *w)
{
	struct npu_producer *p = npu.bo[w->handle].producer;

	if (!p)
		return 0;
	p->access |= w->flags;
	if (p->waits) {
		p->waits -= p->waits != UINT32_MAX;
		errno = ETIME;
		return -1;
	}
	npu.bo[w->handle].producer = NULL;
	p->done(npu.mem + npu.bo[w->handle].at);
	return 0;
}

static inline int npu_sync(const struct drm_rivulet_bo_sync *s)
{
	if (npu_refuses(NPU_SYNC))
		return -1;
	ck_assert(s->count <= 1);
	if (s->op == DRM_RIVULET_SYNC_FOR_CPU) {
		ck_assert_ptr_null(npu.bo[s->handle].producer);
		npu.bo[s->handle].cpu++;
	} else {
		ck_assert_uint_gt(npu.bo[s->handle].cpu--, 0);
	}
	return 0;
}

/* Reads the first monitor: all values are @counter, which the flag RESET clears. */
static inline int npu_monitor_read(struct drm_rivulet_perfmon_read *p)
{
	ck_assert(p->perfmon == 41 && p->count <= RIVULET_PERF_VALUES);
	memcpy((void *)(uintptr_t)p->values, npu.counter, p->count * sizeof(npu.counter[0]));
	npu.counter_reads++;
	if (p->flags & DRM_RIVULET_PERFMON_RESET)
		memcpy(npu.counter, npu.counter_next, sizeof(npu.counter));
	return 0;
}

int __wrap_drmIoctl(int fd, unsigned long request, void *arg);
int __wrap_drmIoctl(int fd, unsigned long request, void *arg)
{
	struct drm_rivulet_bo_info *info = arg;
	struct drm_rivulet_bo_map *map = arg;
	struct drm_gem_close *gem = arg;

	(void)fd;
	switch (request) {
	case DRM_IOCTL_RIVULET_QUERY:
		return npu_query(arg);
	case DRM_IOCTL_RIVULET_BO_CREATE:
		return npu_create(arg);
	case DRM_IOCTL_RIVULET_BO_INFO:
		info->size = npu.bo[info->handle].size;
		info->flags = npu.bo[info->handle].flags;
		return 0;
	case DRM_IOCTL_RIVULET_BO_WAIT:
		return npu_wait(arg);
	case DRM_IOCTL_RIVULET_BO_SYNC:
		return npu_sync(arg);
	case DRM_IOCTL_RIVULET_BO_MAP:
		map->offset = npu.bo[map->handle].at;
		return npu_refuses(NPU_MAP) ? -1 : 0;
	case DRM_IOCTL_GEM_CLOSE:
		ck_assert(npu.bo[gem->handle].open);
		npu.bo[gem->handle].open = false;
		return 0;
	case DRM_IOCTL_RIVULET_QUEUE_CREATE:
		((struct drm_rivulet_queue_create *)arg)->queue = 1;
		return 0;
	case DRM_IOCTL_RIVULET_SUBMIT:
		return npu_submit(arg);
	case DRM_IOCTL_RIVULET_PERFMON_CREATE:
		((struct drm_rivulet_perfmon_create *)arg)->perfmon = 40 + ++npu.monitors;
		return 0;
	case DRM_IOCTL_RIVULET_PERFMON_DESTROY:
		npu.monitors--;
		return 0;
	case DRM_IOCTL_RIVULET_PERFMON_READ:
		return npu_monitor_read(arg);
	}
	ck_abort_msg("ioctl 0x%lx is not known here", request);
}

drmVersionPtr __wrap_drmGetVersion(int fd);
drmVersionPtr __wrap_drmGetVersion(int fd)
{
	static drmVersion v = { .version_major = 2, .name_len = 7, .name = (char *)"rivulet" };

	(void)fd;
	return &v;
}

void __wrap_drmFreeVersion(drmVersionPtr v);
void __wrap_drmFreeVersion(drmVersionPtr v)
{
	(void)v;
}

/* Every import creates a new buffer of two pages. */
int __wrap_drmPrimeFDToHandle(int fd, int dmabuf, uint32_t *handle);
int __wrap_drmPrimeFDToHandle(int fd, int dmabuf, uint32_t *handle)
{
	struct drm_rivulet_bo_create c = { .size = 8192 };

	(void)fd;
	(void)dmabuf;
	if (npu_refuses(NPU_IMPORT) || npu_create(&c))
		return -1;
	*handle = c.handle;
	return 0;
}

int __wrap_drmSyncobjCreate(int fd, uint32_t flags, uint32_t *handle);
int __wrap_drmSyncobjCreate(int fd, uint32_t flags, uint32_t *handle)
{
	(void)fd;
	(void)flags;
	if (npu_refuses(NPU_SYNCOBJ))
		return -1;
	*handle = 70 + npu.syncobjs++;
	npu.open_syncobjs++;
	return 0;
}

int __wrap_drmSyncobjDestroy(int fd, uint32_t handle);
int __wrap_drmSyncobjDestroy(int fd, uint32_t handle)
{
	(void)fd;
	(void)handle;
	npu.open_syncobjs--;
	return 0;
}

/* Waiting for a job runs the jobs that are held. */
int __wrap_drmSyncobjWait(int fd, uint32_t *handles, unsigned int n, int64_t timeout,
			  unsigned int flags, uint32_t *first);
int __wrap_drmSyncobjWait(int fd, uint32_t *handles, unsigned int n, int64_t timeout,
			  unsigned int flags, uint32_t *first)
{
	(void)fd;
	(void)flags;
	(void)first;
	ck_assert(n == 1 && handles[0] == npu.log[npu.jobs - 1].out.handle && timeout == INT64_MAX);
	npu.waits++;
	npu_run(NPU_LOG);
	return 0;
}

/* The last job that signals @syncobj, or NULL. */
static inline struct npu_job *npu_job_of(uint32_t syncobj)
{
	for (uint32_t i = npu.jobs; i-- > 0;)
		if (npu.log[i].out.handle == syncobj)
			return &npu.log[i];
	ck_abort_msg("no job signals syncobj %u", syncobj);
}

static int npu_sync_fd[1024]; /* by descriptor: 1 + number of its job */

int __wrap_drmSyncobjExportSyncFile(int fd, uint32_t handle, int *sync_file);
int __wrap_drmSyncobjExportSyncFile(int fd, uint32_t handle, int *sync_file)
{
	struct npu_job *j = npu_job_of(handle);

	(void)fd;
	if (npu_refuses(NPU_SYNC_FILE))
		return -1;
	*sync_file = npu.plain_sync_file ? open("/dev/null", O_RDONLY | O_CLOEXEC) :
					   fcntl(j->done, F_DUPFD_CLOEXEC, 0);
	ck_assert(*sync_file >= 0 && *sync_file < 1024);
	npu_sync_fd[*sync_file] = 1 + (int)(j - npu.log);
	return 0;
}

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
	struct sync_file_info *info;
	va_list ap;

	va_start(ap, request);
	info = va_arg(ap, void *);
	va_end(ap);
	if (request != SYNC_IOC_FILE_INFO)
		return __real_ioctl(fd, request, info);
	ck_assert(fd >= 0 && fd < 1024 && npu_sync_fd[fd]);
	info->status = npu.log[npu_sync_fd[fd] - 1].status;
	return 0;
}

/* The description of a board as the driver reports it. */
static inline void npu_describe(const struct rivulet_board *b, struct drm_rivulet_device *d)
{
	*d = (struct drm_rivulet_device){ .dev_version = RIVULET_DEV_VERSION,
					  .isa_version = RIVULET_ISA_VERSION,
					  .tm = b->tm,
					  .tn = b->tn,
					  .dn = b->dn,
					  .inp_bytes = b->inp_bytes,
					  .wgt_bytes = b->wgt_bytes,
					  .acc_bytes = b->acc_bytes,
					  .burst_bytes = b->burst_bytes,
					  .burst_gap = b->burst_gap,
					  .bursts = b->bursts,
					  .row_bytes = b->row_bytes,
					  .alu_lanes = b->alu_lanes,
					  .port_bytes = b->port_bytes,
					  .mem_latency = b->mem_latency,
					  .queue_depth = b->queue_depth,
					  .modes = b->modes,
					  .cycle_cap = b->cycle_cap,
					  .level_count = b->levels,
					  .sc_lanes = b->sc_lanes,
					  .sc_blocks = b->sc_blocks };
	memcpy(d->name, b->name, sizeof(d->name));
	for (uint32_t i = 0; i < b->levels; i++)
		d->level[i] = (struct drm_rivulet_level){ .hz = b->level[i].hz,
							  .microvolt = b->level[i].microvolt,
							  .fj_per_mac = b->level[i].fj_per_mac,
							  .fj_per_byte = b->level[i].fj_per_byte,
							  .static_uw = b->level[i].static_uw };
	for (uint32_t i = 0; i < DRM_RIVULET_MAX_CIRCUITS; i++)
		d->circuit[i] = (struct drm_rivulet_circuit){ .millicycles = b->stream[2 + 2 * i],
							      .fj = b->stream[3 + 2 * i] };
}

static inline void npu_setup(const char *board)
{
	struct rivulet_sim_ops ops = { .bus = { .map = npu_map } };
	struct rivulet_board wide;
	char text[256];

	ck_assert_msg(!rivulet_board_load(&npu.board, board, text, sizeof(text)), "%s", text);
	npu_describe(&npu.board, &npu.info);
	npu.fd = memfd_create("npu", MFD_CLOEXEC);
	ck_assert(npu.fd >= 0 && !ftruncate(npu.fd, NPU_MEMORY));
	npu.mem = mmap(NULL, NPU_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, npu.fd, 0);
	ck_assert_ptr_ne(npu.mem, MAP_FAILED);
	npu.bus = ops.bus;
	npu.level = npu.board.levels - 1;
	wide = npu.board;
	wide.dma_bits = 64; /* bus addresses are host addresses */
	npu.sim = rivulet_sim_new(&wide, npu.window, &ops);
	ck_assert_ptr_nonnull(npu.sim);
}

static inline struct rivulet_device *npu_device(void)
{
	struct rivulet_device *dev;

	ck_assert_msg(!rivulet_device_open_fd(npu.fd, &dev), "%s", rivulet_last_error());
	return dev;
}

/* Asserts that everything that was created has been destroyed. */
static inline void npu_teardown(void)
{
	for (uint32_t i = 0; i < NPU_HANDLES; i++)
		ck_assert_msg(!npu.bo[i].open, "buffer %u is still open", i);
	ck_assert_uint_eq(npu.open_syncobjs, 0);
	ck_assert_uint_eq(npu.monitors, 0);
	for (uint32_t i = 0; i < npu.jobs; i++)
		close(npu.log[i].done);
	rivulet_sim_free(npu.sim);
	munmap(npu.mem, NPU_MEMORY);
	close(npu.fd);
}

#endif
