// SPDX-License-Identifier: MIT
/*
 * The fuzzer's table of calls: the driver's ioctls, the core's ioctls on the same objects, and
 * calls that race with them.
 */
#include "fuzz.h"

#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/sync_file.h>
#include <linux/udmabuf.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_CREATE	(1u << 20)	/* bytes of a buffer: the VM is small */

static uint32_t *word(struct fuzz_call *c)
{
	return (uint32_t *)c->arg->bytes;
}

static _Atomic uint32_t *handle(struct fuzz_call *c)
{
	return &c->t->pool->handle[c->file][c->slot % FUZZ_HANDLES];
}

static _Atomic uint32_t *sync_slot(struct fuzz_call *c)
{
	return &c->t->pool->sync[c->file][c->slot % FUZZ_SYNCS];
}

static uint32_t any_sync(struct fuzz_call *c)
{
	return c->t->pool->sync[c->file][fuzz_below(c->t, FUZZ_SYNCS)];
}

static int any_fence(struct fuzz_call *c)
{
	return c->t->pool->fence[fuzz_below(c->t, FUZZ_FENCES)];
}

static void keep_fd(_Atomic int *slot, int fd)
{
	int old = atomic_exchange(slot, fd);

	if (old >= 0)
		close(old);
}

static void keep_buf(struct fuzz_call *c, int fd)
{
	/* The first entries are the inherited dma-bufs, which stay. */
	keep_fd(&c->t->pool->buf[FUZZ_SHARED + c->slot % (FUZZ_BUFS - FUZZ_SHARED)], fd);
}

static void keep_fence(struct fuzz_call *c, int fd)
{
	keep_fd(&c->t->pool->fence[c->slot % FUZZ_FENCES], fd);
}

static void keep_handle(struct fuzz_call *c, uint32_t new, uint64_t size)
{
	uint32_t index = c->slot % FUZZ_HANDLES;
	struct drm_gem_close g = { .handle = atomic_exchange(handle(c), new) };

	c->t->pool->size[c->file][index] = (uint32_t)size;
	/* An import of a buffer that the file has returns the handle that it has. */
	if (g.handle && g.handle != new)
		ioctl(c->fd, DRM_IOCTL_GEM_CLOSE, &g);
}

static void keep_sync(struct fuzz_call *c, uint32_t new)
{
	struct drm_syncobj_destroy d = { .handle = atomic_exchange(sync_slot(c), new) };

	if (d.handle && d.handle != new)
		ioctl(c->fd, DRM_IOCTL_SYNCOBJ_DESTROY, &d);
}

static void make_query(struct fuzz_call *c)
{
	struct drm_rivulet_query *q = &c->arg->query;

	q->type = fuzz_below(c->t, 4);
	q->size = fuzz_percent(c->t, 80) ? sizeof(struct drm_rivulet_device) :
					   fuzz_below(c->t, 1024);
	q->pointer = fuzz_percent(c->t, 90) ? (uintptr_t)c->t->arrays->jobs : 0;
	fuzz_chunk(c, q, sizeof(*q), 2);
}

static void make_create(struct fuzz_call *c)
{
	struct drm_rivulet_bo_create *b = &c->arg->bo_create;

	b->size = 1 + fuzz_below(c->t, fuzz_percent(c->t, 90) ? 32768 : MAX_CREATE);
	if (fuzz_percent(c->t, 30))
		b->flags = fuzz_percent(c->t, 50) ? DRM_RIVULET_BO_WC : DRM_RIVULET_BO_CACHED;
	if (fuzz_percent(c->t, 20))
		b->flags |= DRM_RIVULET_BO_CONTIGUOUS;
	fuzz_chunk(c, b, sizeof(*b), 0);
}

static void fix_create(struct fuzz_call *c)
{
	struct drm_rivulet_bo_create *b = &c->arg->bo_create;

	if (b->size > MAX_CREATE && b->size <= DRM_RIVULET_MAX_BO_SIZE)
		b->size %= MAX_CREATE;
}

static void done_create(struct fuzz_call *c)
{
	keep_handle(c, c->arg->bo_create.handle, c->arg->bo_create.size);
}

/* A struct that begins with a buffer's handle: BO_MAP, BO_INFO or GEM_CLOSE. */
static void make_handle(struct fuzz_call *c)
{
	*word(c) = *handle(c);
	fuzz_chunk(c, c->arg, _IOC_SIZE(c->request), 0);
}

static void make_ranges(struct fuzz_call *c, struct drm_rivulet_range *r, uint32_t n, uint32_t size)
{
	uint32_t step = size / n;

	for (uint32_t i = 0; i < n; i++) {
		r[i].offset = i * step + fuzz_below(c->t, step / 2);
		r[i].size = 1 + fuzz_below(c->t, step / 2);
	}
	fuzz_chunk(c, r, n * sizeof(*r), 0);
}

/* The timeout is short. A wait that mutation makes long is ended by a signal. */
static void make_wait(struct fuzz_call *c)
{
	struct drm_rivulet_bo_wait *w = &c->arg->bo_wait;
	struct timespec now;

	w->handle = *handle(c);
	w->flags = 1 + fuzz_below(c->t, 3);
	if (fuzz_percent(c->t, 60)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		w->timeout_ns = now.tv_sec * 1000000000ll + now.tv_nsec +
				fuzz_below(c->t, 3) * 1000000ll;
	}
	fuzz_chunk(c, w, sizeof(*w), 0);
}

static void make_sync(struct fuzz_call *c)
{
	struct drm_rivulet_bo_sync *a = &c->arg->bo_sync;
	struct drm_rivulet_range *r = (struct drm_rivulet_range *)c->t->arrays->jobs;
	uint32_t size = c->t->pool->size[c->file][c->slot % FUZZ_HANDLES];

	a->handle = *handle(c);
	a->flags = 1 + fuzz_below(c->t, 3);
	a->op = fuzz_below(c->t, 2);
	if (size >= 4096 && fuzz_percent(c->t, 70)) {
		a->count = 1 + fuzz_below(c->t, 5);
		a->ranges = (uintptr_t)r;
		make_ranges(c, r, a->count, size);
	}
	fuzz_chunk(c, a, sizeof(*a), 4);
}

/* Without ranges, a mutated count makes the call read from address 0. */
static void fix_sync(struct fuzz_call *c)
{
	if (!c->arg->bo_sync.ranges)
		c->wild = true;
}

static _Atomic uint32_t *queue(struct fuzz_call *c)
{
	return &c->t->pool->queue[c->file][c->slot % FUZZ_QUEUES];
}

static void make_queue(struct fuzz_call *c)
{
	c->arg->queue_create.priority = (int32_t)fuzz_below(c->t, 3) - 1;
	fuzz_chunk(c, c->arg, sizeof(c->arg->queue_create), 0);
}

static void done_queue(struct fuzz_call *c)
{
	struct drm_rivulet_queue_destroy old = {
		.queue = atomic_exchange(queue(c), c->arg->queue_create.queue),
	};

	if (old.queue)
		ioctl(c->fd, DRM_IOCTL_RIVULET_QUEUE_DESTROY, &old);
}

static void make_queue_destroy(struct fuzz_call *c)
{
	c->arg->queue_destroy.queue = *queue(c);
	fuzz_chunk(c, c->arg, sizeof(c->arg->queue_destroy), 0);
}

static _Atomic uint32_t *perfmon(struct fuzz_call *c)
{
	return &c->t->pool->perfmon[c->file][c->slot % FUZZ_PERFMONS];
}

static void make_perfmon(struct fuzz_call *c)
{
	fuzz_chunk(c, c->arg, sizeof(c->arg->perfmon_create), 0);
}

static void done_perfmon(struct fuzz_call *c)
{
	struct drm_rivulet_perfmon_destroy old = {
		.perfmon = atomic_exchange(perfmon(c), c->arg->perfmon_create.perfmon),
	};

	if (old.perfmon)
		ioctl(c->fd, DRM_IOCTL_RIVULET_PERFMON_DESTROY, &old);
}

static void make_perfmon_destroy(struct fuzz_call *c)
{
	c->arg->perfmon_destroy.perfmon = *perfmon(c);
	fuzz_chunk(c, c->arg, sizeof(c->arg->perfmon_destroy), 0);
}

static void make_perfmon_read(struct fuzz_call *c)
{
	struct drm_rivulet_perfmon_read *r = &c->arg->perfmon_read;

	r->perfmon = *perfmon(c);
	r->flags = fuzz_below(c->t, 2);
	r->count = fuzz_below(c->t, 16);
	r->values = (uintptr_t)c->t->arrays->jobs;
	fuzz_chunk(c, r, sizeof(*r), 2);
}

static void make_export(struct fuzz_call *c)
{
	static const uint32_t flags[] = { 0, DRM_CLOEXEC, DRM_RDWR, DRM_RDWR | DRM_CLOEXEC };

	c->arg->prime.handle = *handle(c);
	c->arg->prime.flags = flags[fuzz_below(c->t, 4)];
	fuzz_chunk(c, c->arg, 8, 0);
}

static void done_export(struct fuzz_call *c)
{
	keep_buf(c, c->arg->prime.fd);
}

static void make_import(struct fuzz_call *c)
{
	c->arg->prime.fd = c->t->pool->buf[fuzz_below(c->t, FUZZ_BUFS)];
}

static void done_import(struct fuzz_call *c)
{
	struct drm_rivulet_bo_info i = { .handle = c->arg->prime.handle };

	if (!ioctl(c->fd, DRM_IOCTL_RIVULET_BO_INFO, &i))
		keep_handle(c, i.handle, i.size);
}

static void make_sync_create(struct fuzz_call *c)
{
	c->arg->sync_create.flags = fuzz_below(c->t, 2);
	fuzz_chunk(c, c->arg, 4, 0);
}

static void done_sync_create(struct fuzz_call *c)
{
	keep_sync(c, c->arg->sync_create.handle);
}

static void make_sync_destroy(struct fuzz_call *c)
{
	c->arg->sync_destroy.handle = any_sync(c);
}

static void make_sync_export(struct fuzz_call *c)
{
	c->arg->sync_handle.handle = any_sync(c);
	c->arg->sync_handle.flags = fuzz_percent(c->t, 80) ? 1 : 0;
	fuzz_chunk(c, c->arg, 8, 0);
}

static void done_sync_export(struct fuzz_call *c)
{
	keep_fence(c, c->arg->sync_handle.fd);
}

static void make_sync_import(struct fuzz_call *c)
{
	struct drm_syncobj_handle *h = &c->arg->sync_handle;

	h->fd = any_fence(c);
	h->flags = fuzz_percent(c->t, 70) ? 1 : 0;
	h->handle = h->flags ? any_sync(c) : 0;
	fuzz_chunk(c, c->arg, 8, 0);
}

static void done_sync_import(struct fuzz_call *c)
{
	if (!(c->arg->sync_handle.flags & 1))
		keep_sync(c, c->arg->sync_handle.handle);
}

static void make_sync_transfer(struct fuzz_call *c)
{
	struct drm_syncobj_transfer *s = &c->arg->sync_transfer;

	s->src_handle = any_sync(c);
	s->dst_handle = any_sync(c);
	s->dst_point = fuzz_percent(c->t, 50) ? ++c->t->point : 0;
	fuzz_chunk(c, s, sizeof(*s), 0);
}

/* Like make_wait(), for syncobjs. */
static void make_sync_wait(struct fuzz_call *c)
{
	struct drm_syncobj_timeline_wait *w = &c->arg->sync_wait;
	uint64_t *points = (uint64_t *)c->t->arrays->jobs;
	uint32_t *handles = (uint32_t *)(points + 4);
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	w->count_handles = 1 + fuzz_below(c->t, 3);
	for (uint32_t i = 0; i < w->count_handles; i++) {
		handles[i] = any_sync(c);
		points[i] = fuzz_percent(c->t, 20) ? c->t->point : 0;
	}
	w->handles = (uintptr_t)handles;
	w->points = (uintptr_t)points;
	w->timeout_nsec = now.tv_sec * 1000000000ll + now.tv_nsec + fuzz_below(c->t, 3) * 1000000ll;
	w->flags = fuzz_below(c->t, 4);
	fuzz_chunk(c, w, 16, 3);
}

static void make_sync_array(struct fuzz_call *c)
{
	struct drm_syncobj_timeline_array *a = &c->arg->sync_array;
	uint64_t *points = (uint64_t *)c->t->arrays->jobs;
	uint32_t *handles = (uint32_t *)(points + 4);

	a->count_handles = 1 + fuzz_below(c->t, 3);
	for (uint32_t i = 0; i < a->count_handles; i++) {
		handles[i] = any_sync(c);
		points[i] = ++c->t->point;
	}
	a->handles = (uintptr_t)handles;
	a->points = (uintptr_t)points;
}

/* The same without points, for SYNCOBJ_RESET. */
static void make_sync_reset(struct fuzz_call *c)
{
	struct drm_syncobj_array *a = (struct drm_syncobj_array *)c->arg;
	uint32_t *handles = (uint32_t *)c->t->arrays->jobs;

	a->count_handles = 1 + fuzz_below(c->t, 2);
	for (uint32_t i = 0; i < a->count_handles; i++)
		handles[i] = any_sync(c);
	a->handles = (uintptr_t)handles;
}

/*
 * Any request number of the core or the driver, and any size. The words are small, so that none is
 * a long timeout or a large count.
 */
static void make_any(struct fuzz_call *c)
{
	static const uint8_t words[] = { 0, 1, 2, 3, 5, 8 };

	for (uint32_t i = 0; i < 32; i++)
		word(c)[i] = words[fuzz_below(c->t, sizeof(words))];
	c->request = _IOC(fuzz_below(c->t, 4), 'd',
			  fuzz_percent(c->t, 50) ? DRM_COMMAND_BASE + fuzz_below(c->t, 16)
						 : fuzz_below(c->t, 256), fuzz_below(c->t, 128));
}

static void make_buf_sync(struct fuzz_call *c)
{
	((struct dma_buf_sync *)c->arg)->flags = fuzz_below(c->t, 8);
	fuzz_chunk(c, c->arg, 8, 0);
}

static void make_buf_export(struct fuzz_call *c)
{
	((struct dma_buf_export_sync_file *)c->arg)->flags = 1 + fuzz_below(c->t, 3);
}

static void done_buf_export(struct fuzz_call *c)
{
	keep_fence(c, ((struct dma_buf_export_sync_file *)c->arg)->fd);
}

static void make_buf_import(struct fuzz_call *c)
{
	struct dma_buf_import_sync_file *i = (void *)c->arg;

	i->flags = 1 + fuzz_below(c->t, 3);
	i->fd = any_fence(c);
}

static void make_fence_info(struct fuzz_call *c)
{
	struct sync_file_info *i = (void *)c->arg;

	i->num_fences = fuzz_below(c->t, 3);
	i->sync_fence_info = (uintptr_t)c->t->arrays->jobs;
}

static void make_merge(struct fuzz_call *c)
{
	((struct sync_merge_data *)c->arg)->fd2 = any_fence(c);
}

static void done_merge(struct fuzz_call *c)
{
	keep_fence(c, ((struct sync_merge_data *)c->arg)->fence);
}

static void make_udmabuf(struct fuzz_call *c)
{
	struct udmabuf_create *u = (void *)c->arg;
	int fd = memfd_create("fuzz", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (fd >= 0 && (ftruncate(fd, 65536) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)))
		perror("memfd");
	u->memfd = (uint32_t)fd;
	u->flags = UDMABUF_FLAGS_CLOEXEC;
	u->offset = 4096 * fuzz_below(c->t, 8);
	u->size = 4096 * (1 + fuzz_below(c->t, 8));
}

/* The result of UDMABUF_CREATE is the descriptor, and the memfd in its argument must be closed. */
static int run_udmabuf(struct fuzz_call *c)
{
	struct udmabuf_create *u = (void *)c->arg;
	int fd = ioctl(c->fd, c->request, u), error = errno;

	close((int)u->memfd);
	if (fd >= 0)
		keep_buf(c, fd);
	errno = error;
	return fd;
}

static void make_heap(struct fuzz_call *c)
{
	struct dma_heap_allocation_data *h = (void *)c->arg;

	h->len = 4096 * (1 + fuzz_below(c->t, 16));
	h->fd_flags = (fuzz_percent(c->t, 80) ? O_RDWR : O_RDONLY) | O_CLOEXEC;
}

static void done_heap(struct fuzz_call *c)
{
	keep_buf(c, (int)((struct dma_heap_allocation_data *)c->arg)->fd);
}

static void make_sw_fence(struct fuzz_call *c)
{
	((struct sw_sync_fence *)c->arg)->value = fuzz_below(c->t, 4);
}

static void done_sw_fence(struct fuzz_call *c)
{
	keep_fence(c, ((struct sw_sync_fence *)c->arg)->fence);
}

static void make_sw_inc(struct fuzz_call *c)
{
	*word(c) = 1;
}

/* The calls that follow are not ioctls, but race with them. */

static void load_programs(struct fuzz_pool *p, int fd, uint32_t handle)
{
	struct drm_rivulet_bo_map m = { .handle = handle };
	void *to;

	ioctl(fd, DRM_IOCTL_RIVULET_BO_MAP, &m);
	to = mmap(NULL, FUZZ_CODE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)m.offset);
	if (to == MAP_FAILED)
		return;
	pread(p->programs, to, FUZZ_CODE_SIZE, 0);
	munmap(to, FUZZ_CODE_SIZE);
}

/* Open a file and create all objects that a job needs, so that later calls can succeed. */
static int open_file(struct fuzz_thread *t, uint32_t file)
{
	int fd = open(t->shared->node, O_RDWR | O_CLOEXEC);
	struct fuzz_pool *p = t->pool;

	if (fd < 0)
		return -1;
	for (uint32_t i = 0; i < FUZZ_HANDLES; i++) {
		struct drm_rivulet_bo_create b = { .size = i ? 4096 << i % 4 : FUZZ_CODE_SIZE };

		ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &b);
		p->handle[file][i] = b.handle;
		p->size[file][i] = (uint32_t)b.size;
	}
	load_programs(p, fd, p->handle[file][0]);
	for (uint32_t i = 0; i < FUZZ_PERFMONS; i++) {
		struct drm_rivulet_perfmon_create m = {};

		ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_CREATE, &m);
		p->perfmon[file][i] = m.perfmon;
	}
	for (uint32_t i = 0; i < FUZZ_QUEUES; i++) {
		struct drm_rivulet_queue_create q = { .priority = (int32_t)(i % 3) - 1 };

		ioctl(fd, DRM_IOCTL_RIVULET_QUEUE_CREATE, &q);
		p->queue[file][i] = q.queue;
	}
	for (uint32_t i = 0; i < FUZZ_SYNCS; i++) {
		struct drm_syncobj_create s = { .flags = i & 1 };

		ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &s);
		p->sync[file][i] = s.handle;
	}
	keep_fd(&p->file[file], fd);
	return 0;
}

/** fuzz_start() - open the worker's files */
void fuzz_start(struct fuzz_thread *t)
{
	for (uint32_t i = 0; i < FUZZ_FILES; i++)
		open_file(t, i);
}

static int run_open(struct fuzz_call *c)
{
	return open_file(c->t, c->file);
}

static int run_close(struct fuzz_call *c)
{
	keep_fd(&c->t->pool->file[c->file], -1);
	return 0;
}

static int run_dup(struct fuzz_call *c)
{
	int fd = dup(c->t->pool->file[fuzz_below(c->t, FUZZ_FILES)]);

	if (fd >= 0)
		keep_fd(&c->t->pool->file[c->file], fd);
	return fd;
}

static int run_close_buf(struct fuzz_call *c)
{
	keep_buf(c, -1);
	return 0;
}

static int run_close_fence(struct fuzz_call *c)
{
	keep_fence(c, -1);
	return 0;
}

static uint8_t *window(struct fuzz_call *c)
{
	return c->t->pool->window + c->slot % FUZZ_MAPS * FUZZ_WINDOW;
}

static int close_window(struct fuzz_call *c)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	c->t->pool->mapped[c->slot % FUZZ_MAPS] = 0;
	return mmap(window(c), FUZZ_WINDOW, PROT_NONE, flags, -1, 0) == MAP_FAILED ? -1 : 0;
}

static int map(struct fuzz_call *c, uint64_t offset, uint32_t size)
{
	int prot = PROT_READ | (fuzz_percent(c->t, 80) ? PROT_WRITE : 0);
	int flags = fuzz_percent(c->t, 95) ? MAP_SHARED : MAP_PRIVATE, error;

	if (fuzz_percent(c->t, 10))
		offset += 4096 * fuzz_below(c->t, 4);
	if (fuzz_percent(c->t, 10) || size > FUZZ_WINDOW)
		size = 4096 * (1 + fuzz_below(c->t, 8));
	if (mmap(window(c), size, prot, flags | MAP_FIXED, c->fd, (off_t)offset) == MAP_FAILED) {
		error = errno;
		close_window(c);	/* MAP_FIXED may have removed the old mapping */
		errno = error;
		return -1;
	}
	c->t->pool->mapped[c->slot % FUZZ_MAPS] = size;
	return 0;
}

static int run_map(struct fuzz_call *c)
{
	struct drm_rivulet_bo_map m = { .handle = *handle(c) };
	uint32_t size = c->t->pool->size[c->file][c->slot % FUZZ_HANDLES];

	c->fd = c->t->pool->file[c->file];
	if (ioctl(c->fd, DRM_IOCTL_RIVULET_BO_MAP, &m))
		return -1;
	return map(c, m.offset, size ? size : 4096);
}

static int run_map_buf(struct fuzz_call *c)
{
	c->fd = c->t->pool->buf[fuzz_below(c->t, FUZZ_BUFS)];
	return map(c, 0, 4096 * (1 + fuzz_below(c->t, 2)));
}

static int run_unmap(struct fuzz_call *c)
{
	return close_window(c);
}

/* The kernel accesses the mapping, so that a missing page causes an error instead of a signal. */
static int run_touch(struct fuzz_call *c)
{
	uint32_t size = c->t->pool->mapped[c->slot % FUZZ_MAPS];

	c->wild = true;
	if (size > FUZZ_CODE_SIZE)
		size = FUZZ_CODE_SIZE;
	if (fuzz_percent(c->t, 50))
		return (int)pread(c->t->pool->programs, window(c), size, 0);
	return (int)pwrite(c->t->pool->scratch, window(c), size, 0);
}

static int run_protect(struct fuzz_call *c)
{
	if (!c->t->pool->mapped[c->slot % FUZZ_MAPS])
		return 0;
	if (fuzz_percent(c->t, 30))
		return madvise(window(c), 4096, MADV_DONTNEED);
	return mprotect(window(c), 4096,
			fuzz_percent(c->t, 70) ? PROT_READ | PROT_WRITE : PROT_READ);
}

static int run_fork(struct fuzz_call *c)
{
	pid_t pid;

	/* Reap children of earlier calls that have exited. */
	while (!c->t->child && waitpid(-1, NULL, WNOHANG) > 0)
		;
	if (c->t->child)
		return 0;
	pid = fork();
	if (pid)
		return pid < 0 ? -1 : 0;
	alarm(20);
	c->t->child = true;
	c->t->random ^= 0x5555;
	for (uint32_t n = fuzz_below(c->t, 12); n; n--)
		fuzz_call(c->t);
	_exit(0);
}

static int run_fdinfo(struct fuzz_call *c)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", c->t->pool->file[c->file]);
	return vm_read_all(path);
}

static int run_debugfs(struct fuzz_call *c)
{
	static const char *const names[] = {
		"objects", "queue", "registers", "buffers", "clients", "name", "gem_names",
	};
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", c->t->shared->debugfs,
		 names[fuzz_below(c->t, sizeof(names) / sizeof(names[0]))]);
	return vm_read_all(path);
}

static int run_poll(struct fuzz_call *c)
{
	struct pollfd p[2] = {
		{ .fd = any_fence(c), .events = POLLIN },
		{ .fd = c->t->pool->buf[c->slot % FUZZ_BUFS], .events = POLLIN | POLLOUT },
	};

	return poll(p, 2, (int)fuzz_below(c->t, 3));
}

static int run_seek(struct fuzz_call *c)
{
	c->fd = c->t->pool->buf[c->slot % FUZZ_BUFS];
	return lseek(c->fd, 0, fuzz_percent(c->t, 50) ? SEEK_END : SEEK_SET) < 0 ? -1 : 0;
}

static int run_timeline(struct fuzz_call *c)
{
	int fd;

	if (!c->t->shared->sw_sync)
		return 0;
	fd = open(SW_SYNC, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	keep_fd(&c->t->pool->timeline[c->slot % FUZZ_TIMELINES], fd);
	return 0;
}

#define E(...) (const short[]){ __VA_ARGS__, 0 }
#define DEV(n) DRM_IOCTL_RIVULET_##n
#define SYNC(n) DRM_IOCTL_SYNCOBJ_##n

const struct fuzz_row fuzz_rows[] = {
	/* EIO: the model was descheduled while it wrote the counters. */
	{ "query", DEV(QUERY), FUZZ_FILE, 30, 30, make_query, NULL, NULL, NULL, E(EINVAL, EIO) },
	{ "bo_create", DEV(BO_CREATE), FUZZ_FILE, 60, 20, make_create, fix_create, done_create,
	  NULL, E(EINVAL) },
	{ "bo_map", DEV(BO_MAP), FUZZ_FILE, 30, 20, make_handle, NULL, NULL, NULL,
	  E(EINVAL, ENOENT) },
	{ "bo_info", DEV(BO_INFO), FUZZ_FILE, 40, 20, make_handle, NULL, NULL, NULL,
	  E(EINVAL, ENOENT) },
	{ "bo_wait", DEV(BO_WAIT), FUZZ_FILE, 40, 20, make_wait, NULL, NULL, NULL,
	  E(EINVAL, ENOENT, ETIME) },
	{ "bo_sync", DEV(BO_SYNC), FUZZ_FILE, 40, 20, make_sync, fix_sync, NULL, NULL,
	  E(EINVAL, ENOENT, EACCES) },
	{ "queue_create", DEV(QUEUE_CREATE), FUZZ_FILE, 20, 10, make_queue, NULL, done_queue, NULL,
	  E(EINVAL, EBUSY) },
	{ "queue_destroy", DEV(QUEUE_DESTROY), FUZZ_FILE, 5, 10, make_queue_destroy, NULL, NULL,
	  NULL, E(EINVAL, ENOENT) },
	{ "perfmon_create", DEV(PERFMON_CREATE), FUZZ_FILE, 20, 10, make_perfmon, NULL,
	  done_perfmon, NULL, E(EINVAL, EBUSY) },
	{ "perfmon_destroy", DEV(PERFMON_DESTROY), FUZZ_FILE, 5, 10, make_perfmon_destroy, NULL,
	  NULL, NULL, E(EINVAL, ENOENT) },
	{ "perfmon_read", DEV(PERFMON_READ), FUZZ_FILE, 40, 20, make_perfmon_read, NULL, NULL, NULL,
	  E(EINVAL, ENOENT) },
	{ "submit", DEV(SUBMIT), FUZZ_FILE, 300, 40, fuzz_make_submit, fuzz_fix_submit, NULL, NULL,
	  E(EINVAL, ENOENT, EACCES, EBUSY, E2BIG) },
	{ "gem_close", DRM_IOCTL_GEM_CLOSE, FUZZ_FILE, 10, 10, make_handle, NULL, NULL, NULL,
	  E(EINVAL) },
	{ "export", DRM_IOCTL_PRIME_HANDLE_TO_FD, FUZZ_FILE, 40, 10, make_export, NULL, done_export,
	  NULL, E(EINVAL, ENOENT, EACCES, EOPNOTSUPP) },
	{ "import", DRM_IOCTL_PRIME_FD_TO_HANDLE, FUZZ_FILE, 50, 0, make_import, NULL, done_import,
	  NULL, E(EINVAL, ENOENT, EBADF) },
	{ "sync_create", SYNC(CREATE), FUZZ_FILE, 40, 5, make_sync_create, NULL, done_sync_create,
	  NULL, E(EINVAL) },
	{ "sync_destroy", SYNC(DESTROY), FUZZ_FILE, 5, 0, make_sync_destroy, NULL, NULL, NULL,
	  E(EINVAL) },
	{ "sync_export", SYNC(HANDLE_TO_FD), FUZZ_FILE, 30, 5, make_sync_export, NULL,
	  done_sync_export, NULL, E(EINVAL, ENOENT) },
	{ "sync_import", SYNC(FD_TO_HANDLE), FUZZ_FILE, 20, 5, make_sync_import, NULL,
	  done_sync_import, NULL, E(EINVAL, ENOENT, EBADF) },
	{ "sync_transfer", SYNC(TRANSFER), FUZZ_FILE, 15, 10, make_sync_transfer, NULL, NULL, NULL,
	  E(EINVAL, ENOENT) },
	{ "sync_wait", SYNC(TIMELINE_WAIT), FUZZ_FILE, 30, 5, make_sync_wait, NULL, NULL, NULL,
	  E(EINVAL, ENOENT, ETIME) },
	{ "sync_signal", SYNC(TIMELINE_SIGNAL), FUZZ_FILE, 10, 0, make_sync_array, NULL, NULL, NULL,
	  E(EINVAL, ENOENT) },
	{ "sync_query", SYNC(QUERY), FUZZ_FILE, 10, 0, make_sync_array, NULL, NULL, NULL,
	  E(EINVAL, ENOENT) },
	{ "sync_reset", SYNC(RESET), FUZZ_FILE, 5, 0, make_sync_reset, NULL, NULL, NULL,
	  E(EINVAL, ENOENT) },
	{ "any", DRM_IO(0xff), FUZZ_FILE, 40, 0, make_any, NULL, NULL, NULL,
	  E(EINVAL, ENOTTY, EACCES, EPERM, ENOENT, EOPNOTSUPP, EFAULT, EBADF, EBUSY, ETIME,
	    ENOSYS) },
	{ "buf_sync", DMA_BUF_IOCTL_SYNC, FUZZ_BUF, 20, 5, make_buf_sync, NULL, NULL, NULL,
	  E(EINVAL, ENOTTY) },
	{ "buf_export", DMA_BUF_IOCTL_EXPORT_SYNC_FILE, FUZZ_BUF, 15, 0, make_buf_export, NULL,
	  done_buf_export, NULL, E(EINVAL) },
	{ "buf_import", DMA_BUF_IOCTL_IMPORT_SYNC_FILE, FUZZ_BUF, 15, 0, make_buf_import, NULL,
	  NULL, NULL, E(EINVAL) },
	/* The descriptor may be that of a syncobj, not of a sync_file. */
	{ "fence_info", SYNC_IOC_FILE_INFO, FUZZ_FENCE, 10, 0, make_fence_info, NULL, NULL, NULL,
	  E(EINVAL, ENOTTY) },
	{ "fence_merge", SYNC_IOC_MERGE, FUZZ_FENCE, 10, 0, make_merge, NULL, done_merge, NULL,
	  E(ENOENT, ENOTTY) },
	{ "udmabuf", UDMABUF_CREATE, FUZZ_UDMABUF, 8, 0, make_udmabuf, NULL, NULL, run_udmabuf,
	  NULL },
	{ "heap", DMA_HEAP_IOCTL_ALLOC, FUZZ_HEAP, 8, 0, make_heap, NULL, done_heap, NULL, NULL },
	{ "sw_fence", SW_SYNC_CREATE, FUZZ_TIMELINE, 10, 0, make_sw_fence, NULL, done_sw_fence,
	  NULL, NULL },
	{ "sw_inc", SW_SYNC_INC, FUZZ_TIMELINE, 20, 0, make_sw_inc, NULL, NULL, NULL, NULL },
	{ .name = "open", .target = FUZZ_NONE, .weight = 12, .run = run_open, .errors = E(ENOENT) },
	{ .name = "close", .target = FUZZ_NONE, .weight = 4, .run = run_close },
	{ .name = "dup", .target = FUZZ_NONE, .weight = 4, .run = run_dup },
	{ .name = "close_buf", .target = FUZZ_NONE, .weight = 6, .run = run_close_buf },
	{ .name = "close_fence", .target = FUZZ_NONE, .weight = 6, .run = run_close_fence },
	{ .name = "map",
	  .target = FUZZ_NONE,
	  .weight = 25,
	  .run = run_map,
	  .errors = E(EACCES, EINVAL, ENOENT) },
	{ .name = "map_buf",
	  .target = FUZZ_NONE,
	  .weight = 10,
	  .run = run_map_buf,
	  .errors = E(EACCES, EINVAL) },
	{ .name = "unmap", .target = FUZZ_NONE, .weight = 10, .run = run_unmap },
	{ .name = "touch", .target = FUZZ_NONE, .weight = 30, .run = run_touch },
	{ .name = "protect",
	  .target = FUZZ_NONE,
	  .weight = 5,
	  .run = run_protect,
	  .errors = E(EACCES, EINVAL, ENOMEM) },
	/*
	 * fork fails with ENOMEM also for mappings that it cannot copy. x86 cannot copy one of the
	 * system heap (remap_pfn_range) whose first page was dropped by madvise.
	 */
	{ .name = "fork",
	  .target = FUZZ_NONE,
	  .weight = 2,
	  .run = run_fork,
	  .errors = E(ENOMEM, EAGAIN) },
	{ .name = "fdinfo",
	  .target = FUZZ_NONE,
	  .weight = 8,
	  .run = run_fdinfo,
	  .errors = E(ENOENT) },
	/* EIO: the file of debugfs is being removed. */
	{ .name = "debugfs",
	  .target = FUZZ_NONE,
	  .weight = 8,
	  .run = run_debugfs,
	  .errors = E(ENOENT, EIO) },
	{ .name = "poll", .target = FUZZ_NONE, .weight = 10, .run = run_poll },
	{ .name = "seek", .target = FUZZ_NONE, .weight = 4, .run = run_seek },
	{ .name = "timeline", .target = FUZZ_NONE, .weight = 3, .run = run_timeline },
};

uint32_t fuzz_row_count(void)
{
	return sizeof(fuzz_rows) / sizeof(fuzz_rows[0]);
}
