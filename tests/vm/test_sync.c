// SPDX-License-Identifier: MIT
/*
 * Fences of other drivers: implicit sync of imported and exported buffers, sync_files, the core's
 * waits. A fence of vgem that the test signals holds the jobs, so that no test depends on time.
 */
#include "../kmod/harness/harness.h"
#include "vm.h"

#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* A client whose job reads (@write: writes) gated memory in place of its own. */
static struct vm_client gated(struct vm_gate *g, bool write)
{
	struct vm_client c = vm_client();
	struct vm_buf *b = write ? &c.to : &c.from;

	vm_buf_free(b);
	b->size = 4096;
	OK(!vm_import(c.fd, g->dmabuf, &b->handle));
	EQ(vm_buf_flags(c.fd, b->handle), DRM_RIVULET_BO_IMPORTED);
	vm_buf_map(b);
	return c;
}

static int submit(struct vm_client *c)
{
	struct vm_job j;

	vm_client_job(c, &j);
	OK(!vm_submit(c->fd, &j));
	return vm_sync_file(c->fd, c->sync);
}

/* A job waits for another driver's writer, and reads what that has written. */
static void implicit_reader(void)
{
	struct vm_gate g = vm_gate(4096, true);
	struct vm_client c = gated(&g, false);
	int file = submit(&c);

	OK(vm_file_waits(file));
	vm_noise(c.from.map, 4096, 71);
	vm_gate_open(&g);
	EQ(vm_file_result(file), 0);
	OK(!memcmp(c.to.map, c.from.map, 4096));
}

/* A job that writes waits for another driver's reader, and a job that reads does not. */
static void implicit_writer(void)
{
	struct vm_gate g = vm_gate(4096, false);
	struct vm_client reader = gated(&g, false), writer = gated(&g, true);
	int file;

	EQ(vm_file_result(submit(&reader)), 0);
	file = submit(&writer);
	OK(vm_file_waits(file));
	vm_gate_open(&g);
	EQ(vm_file_result(file), 0);
}

static int export_sync_file(int dmabuf, uint32_t flags)
{
	struct dma_buf_export_sync_file e = { .flags = flags };

	OK(!ioctl(dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &e));
	return e.fd;
}

/* Other drivers see the jobs on shared memory as writers and readers. */
static void implicit_out(void)
{
	struct vm_gate g = vm_gate(4096, true), other = vm_gate(4096, false);
	struct vm_client c = gated(&g, false);
	int own, files[4];

	vm_gate_open(&other);
	vm_buf_free(&c.to);
	c.to.size = 4096;
	OK(!vm_import(c.fd, other.dmabuf, &c.to.handle));
	vm_buf_map(&c.to);
	OK(!vm_export(c.fd, c.code.handle, DRM_RDWR, &own));
	files[0] = submit(&c);
	/*
	 * A reader of the target waits for the job, and so does a writer of the commands, but not a
	 * reader.
	 */
	files[1] = export_sync_file(other.dmabuf, DMA_BUF_SYNC_READ);
	files[2] = export_sync_file(own, DMA_BUF_SYNC_WRITE);
	files[3] = export_sync_file(own, DMA_BUF_SYNC_READ);
	EQ(vm_file_result(files[3]), 0);
	OK(vm_file_waits(files[1]));
	OK(vm_file_waits(files[2]));
	OK(vm_file_waits(other.dmabuf));
	vm_gate_open(&g);
	for (int i = 0; i < 3; i++)
		EQ(vm_file_result(files[i]), 0);
	OK(vm_file_ends(other.dmabuf));
}

/* A fence that IMPORT_SYNC_FILE adds to an exported buffer holds another file's job. */
static void implicit_import(void)
{
	struct vm_gate g = vm_gate(4096, true);
	struct vm_client held = gated(&g, false), other = vm_client();
	struct dma_buf_import_sync_file i = { .flags = DMA_BUF_SYNC_WRITE };
	int dmabuf, file;

	i.fd = submit(&held);
	OK(!vm_export(other.fd, other.from.handle, DRM_RDWR, &dmabuf));
	OK(!ioctl(dmabuf, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &i));
	close(i.fd);
	file = submit(&other);
	OK(vm_file_waits(file));
	vm_gate_open(&g);
	EQ(vm_file_result(file), 0);
}

/*
 * A file is closed, and its device may be unbound, while its job waits for another driver. The job
 * and its fence, whose names refer to both, end later.
 */
static void closed_while_waiting(void)
{
	struct vm_gate g = vm_gate(4096, true);
	struct vm_client c = gated(&g, false);
	int file = submit(&c);
	char name[64];

	vm_device_name(name);
	OK(!munmap(c.code.map, 4096) && !munmap(c.from.map, 4096) && !munmap(c.to.map, 4096));
	OK(!close(c.fd));
	OK(vm_file_waits(file));
	vm_driver_file("unbind", name);
	vm_gate_open(&g);
	EQ(vm_file_result(file), -ESRCH);
	vm_driver_file("bind", name);
}

/* From a syncobj into a sync_file, through another file's syncobj, into a job. */
static void sync_file(void)
{
	struct vm_gate g = vm_gate(4096, true);
	struct vm_client first = gated(&g, false), second = vm_client();
	struct drm_syncobj_handle h = {
		.handle = vm_sync_new(second.fd),
		.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE,
	};
	struct vm_job j;

	h.fd = submit(&first);
	OK(!ioctl(second.fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &h));
	vm_client_job(&second, &j);
	vm_job_in(&j, h.handle, 0);
	OK(!vm_submit(second.fd, &j));
	FAILS(vm_sync_wait(second.fd, second.sync, 0, 100), ETIME);
	vm_gate_open(&g);
	EQ(vm_sync_result(second.fd, second.sync), 0);
	OK(!vm_sync_wait(first.fd, first.sync, 0, 0));
}

/* In @fd, a syncobj with the fence of a job that waits for a gate. */
static uint32_t gated_sync(int fd, struct vm_gate *g)
{
	struct vm_client c = gated(g, false);
	struct drm_syncobj_handle h = {
		.handle = vm_sync_new(fd), .fd = submit(&c),
		.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE,
	};

	OK(!ioctl(fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &h));
	close(h.fd);
	return h.handle;
}

/*
 * A job waits for each of three in-syncs, of which @last signals last, and signals all its
 * out-syncs.
 */
static void array_waits(int last)
{
	struct vm_client c = vm_client();
	uint32_t out[4] = { c.sync, vm_sync_new(c.fd), vm_sync_new(c.fd), vm_sync_new(c.fd) };
	uint64_t point[4] = { 0, 5, 0, 1ull << 33 };
	struct vm_gate g[3];
	struct vm_job j;
	int file;

	vm_copy_job(&j, &c.code, &c.from, &c.to, 4096);
	for (int i = 0; i < 3; i++) {
		g[i] = vm_gate(4096, true);
		vm_job_in(&j, gated_sync(c.fd, &g[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		vm_job_out(&j, out[i], point[i]);
	OK(!vm_submit(c.fd, &j));
	file = vm_sync_file(c.fd, c.sync);
	for (int i = 0; i < 3; i++)
		if (i != last)
			vm_gate_open(&g[i]);
	OK(vm_file_waits(file));
	vm_gate_open(&g[last]);
	EQ(vm_file_result(file), 0);
	for (int i = 0; i < 4; i++)
		OK(!vm_sync_wait(c.fd, out[i], point[i], VM_WAIT_MS));
}

static void arrays(void)
{
	for (int last = 0; last < 3; last++)
		array_waits(last);
}

/* 0 or a negative errno. Of binary syncobjs the points are 0. */
static int wait_syncs(int fd, const uint32_t *sync, const uint64_t *points, uint32_t count,
		      int64_t until, uint32_t flags, uint32_t *first)
{
	struct drm_syncobj_timeline_wait w = {
		.handles = (uintptr_t)sync, .points = (uintptr_t)points, .count_handles = count,
		.timeout_nsec = until, .flags = flags,
	};
	int ret = ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &w) ? -errno : 0;

	if (first)
		*first = w.first_signaled;
	return ret;
}

static uint64_t point_reached(int fd, uint32_t sync)
{
	uint64_t value = 99;
	struct drm_syncobj_timeline_array q = {
		.handles = (uintptr_t)&sync, .points = (uintptr_t)&value, .count_handles = 1,
	};

	OK(!ioctl(fd, DRM_IOCTL_SYNCOBJ_QUERY, &q));
	return value;
}

struct waiter {
	int fd;
	uint32_t sync;
	int result;
};

/* Waits for a fence that does not exist yet. */
static void *wait_ahead(void *arg)
{
	struct waiter *w = arg;
	uint64_t point = 0;

	w->result = wait_syncs(w->fd, &w->sync, &point, 1, INT64_MAX,
			       DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, NULL);
	return NULL;
}

/* DRM_IOCTL_SYNCOBJ_EVENTFD, which the release's headers do not know yet. */
struct syncobj_eventfd {
	uint32_t handle;
	uint32_t flags;
	uint64_t point;
	int32_t fd;
	uint32_t pad;
};
#define SYNCOBJ_EVENTFD	DRM_IOWR(0xcf, struct syncobj_eventfd)

/* The core's waits: all, any, before the submit, by eventfd; and query and transfer of points. */
static void core_waits(void)
{
	struct vm_gate g = vm_gate(4096, true);
	struct vm_client held = gated(&g, false), quick = vm_client();
	uint32_t timeline = vm_sync_new(held.fd), copy = vm_sync_new(held.fd), first = 9;
	uint32_t both[2] = { vm_sync_new(held.fd), timeline };
	struct syncobj_eventfd ev = { .handle = timeline, .point = 7 };
	struct waiter w = { .fd = held.fd, .sync = both[0] };
	struct drm_syncobj_transfer t = {
		.src_handle = timeline, .dst_handle = copy, .src_point = 7, .dst_point = 3,
	};
	struct drm_syncobj_array now = { .handles = (uintptr_t)both, .count_handles = 1 };
	uint64_t points[2] = { 0, 7 };
	pthread_t thread;
	struct vm_job j;

	ev.fd = eventfd(0, EFD_CLOEXEC);
	OK(ev.fd >= 0 && !pthread_create(&thread, NULL, wait_ahead, &w));
	vm_client_job(&held, &j);
	vm_job_out(&j, timeline, 7);
	OK(!vm_submit(held.fd, &j));
	vm_client_submit(&quick, 1);
	OK(!ioctl(held.fd, SYNCOBJ_EVENTFD, &ev));
	OK(!ioctl(held.fd, DRM_IOCTL_SYNCOBJ_TRANSFER, &t));
	EQ(wait_syncs(quick.fd, &quick.sync, points, 1, INT64_MAX, 0, &first), 0);
	EQ(first, 0);
	OK(vm_file_waits(ev.fd));
	EQ(point_reached(held.fd, timeline), 0);
	/* One syncobj of the array is signalled: a wait for any ends, a wait for all does not. */
	OK(!ioctl(held.fd, DRM_IOCTL_SYNCOBJ_SIGNAL, &now));
	EQ(wait_syncs(held.fd, both, points, 2, INT64_MAX, 0, &first), 0);
	EQ(first, 0);
	EQ(wait_syncs(held.fd, both, points, 2, 0, DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL, NULL), -ETIME);
	vm_gate_open(&g);
	EQ(wait_syncs(held.fd, both, points, 2, INT64_MAX, DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL, NULL),
	   0);
	OK(vm_file_ends(ev.fd));
	EQ(point_reached(held.fd, timeline), 7);
	OK(!vm_sync_wait(held.fd, copy, 3, VM_WAIT_MS));
	OK(!pthread_join(thread, NULL));
	EQ(w.result, 0);
}

/* SYNC_IOC_SET_DEADLINE, which the release's headers do not define yet. */
struct set_deadline {
	uint64_t deadline_ns;
	uint64_t pad;
};
#define SET_DEADLINE	_IOW(SYNC_IOC_MAGIC, 5, struct set_deadline)

/* A job may have any deadline, past or far away, and its fence may get another one later. */
static void deadlines(void)
{
	struct vm_client c = vm_client();
	struct set_deadline later = {};
	struct timespec now;
	struct vm_job j;
	int file;

	clock_gettime(CLOCK_MONOTONIC, &now);
	vm_client_job(&c, &j);
	j.job.deadline_ns = 1;
	OK(!vm_submit(c.fd, &j));
	vm_client_good(&c);
	j.job.deadline_ns = INT64_MAX;
	OK(!vm_submit(c.fd, &j));
	file = vm_sync_file(c.fd, c.sync);
	later.deadline_ns = (uint64_t)now.tv_sec * 1000000000 + 1;
	OK(!ioctl(file, SET_DEADLINE, &later));
	EQ(vm_file_result(file), 0);
}

/* Does the job in @c end although the gate is closed? */
static bool ends(struct vm_client *c, struct vm_job *j)
{
	OK(!vm_submit(c->fd, j));
	return !vm_sync_result(c->fd, c->sync);
}

/* Does the job in @c wait as long as the gate is closed? */
static bool waits(struct vm_client *c, struct vm_job *j)
{
	int file;
	bool yes;

	OK(!vm_submit(c->fd, j));
	file = vm_sync_file(c->fd, c->sync);
	yes = vm_file_waits(file);
	close(file);
	return yes;
}

/*
 * NO_IMPLICIT_SYNC: another driver's writer is not waited for, through any slot of the buffer. One
 * slot without the flag is enough to wait.
 */
static void opt_out(void)
{
	struct vm_gate g = vm_gate(4096, true);
	struct vm_client c = gated(&g, false);
	struct vm_job j;

	vm_client_job(&c, &j);
	OK(waits(&c, &j));
	/* The job is in a separate queue, because the first job of VM_QUEUE waits. */
	c = gated(&g, false);
	vm_client_job(&c, &j);
	j.region[1].flags |= DRM_RIVULET_REGION_NO_IMPLICIT_SYNC;
	OK(ends(&c, &j));
	vm_job_region(&j, 9, &c.from, 0, 4096, DRM_RIVULET_REGION_NO_IMPLICIT_SYNC);
	OK(ends(&c, &j));
	j.region[3].flags = 0;
	OK(waits(&c, &j));
	vm_gate_open(&g);
	vm_client_good(&c);
}

/* Values of enum dma_resv_usage of the kernel. */
enum { KERNEL, WRITER, READER, BOOKKEEP, USAGES };

/* Unsignalled fences of one usage at the memory of a dma-buf. */
static uint32_t fences(int harness, int dmabuf, uint32_t usage)
{
	struct harness_fence f = { .dmabuf = dmabuf, .usage = usage };

	OK(!ioctl(harness, HARNESS_COUNT, &f));
	return f.count;
}

static bool waits_for(int fd, uint32_t handle)
{
	struct drm_rivulet_bo_wait w = {
		.handle = handle, .flags = DRM_RIVULET_ACCESS_READ | DRM_RIVULET_ACCESS_WRITE,
	};
	int ret = vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_WAIT, &w);

	OK(!ret || errno == ETIME);
	return ret;
}

/*
 * The fence of a job that waits is added to the buffer that opts out as BOOKKEEP, which neither
 * BO_WAIT nor another job waits for, and without the flag as WRITE.
 */
static void opt_out_fence(void)
{
	struct vm_gate g = vm_gate(4096, true);
	struct vm_client c = gated(&g, false), other = vm_client();
	struct vm_buf theirs = { .fd = other.fd, .size = 4096 };
	int harness = vm_harness(), dmabuf;
	struct vm_job j;

	OK(!vm_export(c.fd, c.to.handle, DRM_RDWR, &dmabuf));
	OK(!vm_import(other.fd, dmabuf, &theirs.handle));
	vm_client_job(&c, &j);
	j.region[2].flags |= DRM_RIVULET_REGION_NO_IMPLICIT_SYNC;
	OK(waits(&c, &j));
	EQ(fences(harness, dmabuf, BOOKKEEP), 1);
	EQ(fences(harness, dmabuf, READER) + fences(harness, dmabuf, WRITER), 0);
	OK(!waits_for(c.fd, c.to.handle));
	vm_copy_job(&j, &other.code, &other.from, &theirs, 4096);
	vm_job_out(&j, other.sync, 0);
	OK(ends(&other, &j));
	vm_client_job(&c, &j);
	OK(waits(&c, &j));
	EQ(fences(harness, dmabuf, WRITER), 1);
	OK(waits_for(c.fd, c.to.handle));
	vm_gate_open(&g);
	vm_client_good(&c);
}

/* A job that opts out waits for a fence of the usage KERNEL, and for none of any other. */
static void opt_out_kernel(void)
{
	for (uint32_t usage = KERNEL; usage < USAGES; usage++) {
		struct vm_client c = vm_client();
		int harness = vm_harness(), dmabuf;
		struct harness_fence f = { .usage = usage };
		struct vm_job j;

		OK(!vm_export(c.fd, c.from.handle, DRM_RDWR, &dmabuf));
		f.dmabuf = dmabuf;
		OK(!ioctl(harness, HARNESS_ADD, &f));
		vm_client_job(&c, &j);
		j.region[1].flags |= DRM_RIVULET_REGION_NO_IMPLICIT_SYNC;
		if (usage == KERNEL)
			OK(waits(&c, &j));
		else
			OK(ends(&c, &j));
		OK(!ioctl(harness, HARNESS_SIGNAL));
		vm_client_good(&c);
		close(harness);
		close(dmabuf);
	}
}

const struct vm_test vm_sync_tests[] = {
	{ "sync_implicit_reader",
	  "a job waits for another driver's writer of the memory that it reads",
	  implicit_reader },
	{ "sync_implicit_writer",
	  "a job that writes waits for another driver's readers; one that reads does not",
	  implicit_writer },
	{ "sync_implicit_out",
	  "others can wait for our jobs on shared memory by poll and EXPORT_SYNC_FILE",
	  implicit_out },
	{ "sync_implicit_import", "IMPORT_SYNC_FILE on our export orders jobs that have no syncobj",
	  implicit_import },
	{ "sync_closed",
	  "a file may be closed, and its device removed, before the fence that its job waits for",
	  closed_while_waiting },
	{ "sync_file", "a fence passes from a syncobj through a sync_file to another file's job",
	  sync_file },
	{ "sync_arrays",
	  "a job waits for all binary syncobjs and timeline points of an array, and signals all",
	  arrays },
	{ "sync_core_waits",
	  "the core's calls work on our fences: wait for any, for all, "
	  "before the submit, eventfd, query, transfer",
	  core_waits },
	{ "sync_deadline", "a job may have any deadline, and its fence a later one", deadlines },
	{ "sync_opt_out_fence",
	  "with NO_IMPLICIT_SYNC the job's fence is added as BOOKKEEP, and nobody waits for it",
	  opt_out_fence },
	{ "sync_opt_out_kernel", "a job with NO_IMPLICIT_SYNC waits for fences of the usage KERNEL",
	  opt_out_kernel },
	{ "sync_opt_out",
	  "a job with NO_IMPLICIT_SYNC waits for no other fence, unless "
	  "another slot of the buffer lacks the flag",
	  opt_out },
	{ 0 },
};
