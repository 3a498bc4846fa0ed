// SPDX-License-Identifier: MIT
/*
 * Fences that stay unsignalled for as long as a test needs, on imported buffers: SW_SYNC of the
 * debug kernel (make check-debug). test_sync.c does the same with vgem's fences, which time out.
 */
#include "clock.h"
#include "vm.h"

#include <linux/dma-buf.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE	16384

static int timeline(void)
{
	int fd = open(SW_SYNC, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		vm_skip("no sw_sync: only the kernel of make check-debug has it");
	return fd;
}

static int point(int timeline_fd, uint32_t value)
{
	struct sw_sync_fence f = { .value = value, .name = "test" };

	OK(!ioctl(timeline_fd, SW_SYNC_CREATE, &f));
	return f.fence;
}

static void advance(int timeline_fd)
{
	uint32_t by = 1;

	OK(!ioctl(timeline_fd, SW_SYNC_INC, &by));
}

struct shared {
	int fd, dmabuf;
	struct vm_buf code, own, imported;
	uint32_t sync;
};

static struct shared shared(void)
{
	struct shared s = { .fd = vm_open(), .dmabuf = vm_udmabuf(SIZE, NULL) };

	s.code = vm_buf_new(s.fd, 4096);
	s.own = vm_buf_new(s.fd, SIZE);
	s.imported = (struct vm_buf){ .fd = s.fd, .size = SIZE };
	OK(!vm_import(s.fd, s.dmabuf, &s.imported.handle));
	vm_buf_map(&s.imported);
	s.sync = vm_sync_new(s.fd);
	return s;
}

static void attach(int dmabuf, int fence, uint32_t flags)
{
	struct dma_buf_import_sync_file i = { .flags = flags, .fd = fence };

	OK(!ioctl(dmabuf, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &i));
	close(fence);
}

static int ended(int fence)
{
	struct pollfd p = { .fd = fence, .events = POLLIN };

	return poll(&p, 1, 0);
}

/* Copies the import to the buffer, or the buffer to the import. Returns the job's fence. */
static int copy(struct shared *s, bool from_import)
{
	struct vm_job j;

	vm_copy_job(&j, &s->code, from_import ? &s->imported : &s->own,
		    from_import ? &s->own : &s->imported, SIZE);
	vm_job_out(&j, s->sync, 0);
	OK(!vm_submit(s->fd, &j));
	return vm_sync_file(s->fd, s->sync);
}

/* The job reads what is written before the fence is signalled, so that it has waited. */
static void reader_waits_for_writer(void)
{
	struct shared s = shared();
	int line = timeline(), fence;

	attach(s.dmabuf, point(line, 1), DMA_BUF_SYNC_WRITE);
	vm_noise(s.imported.map, SIZE, 1);
	fence = copy(&s, true);
	EQ(ended(fence), 0);
	vm_noise(s.imported.map, SIZE, 2);
	advance(line);
	EQ(vm_file_result(fence), 0);
	OK(!memcmp(s.own.map, s.imported.map, SIZE));
}

/* A reader delays a job that writes, and does not delay one that reads. */
static void writer_waits_for_reader(void)
{
	struct shared s = shared();
	int line = timeline(), fence;

	vm_noise(s.imported.map, SIZE, 3);
	attach(s.dmabuf, point(line, 1), DMA_BUF_SYNC_READ);
	EQ(vm_file_result(copy(&s, true)), 0);
	OK(!memcmp(s.own.map, s.imported.map, SIZE));
	vm_noise(s.own.map, SIZE, 4);
	fence = copy(&s, false);
	EQ(ended(fence), 0);
	OK(memcmp(s.own.map, s.imported.map, SIZE));
	advance(line);
	EQ(vm_file_result(fence), 0);
	OK(!memcmp(s.own.map, s.imported.map, SIZE));
}

/* The other driver's fence ends with an error, and the job that waits for it runs. */
static void waits_for_no_dead_fence(void)
{
	struct shared s = shared();
	int line = timeline(), fence;

	attach(s.dmabuf, point(line, 1), DMA_BUF_SYNC_WRITE);
	vm_noise(s.imported.map, SIZE, 5);
	fence = copy(&s, true);
	EQ(ended(fence), 0);
	close(line);
	EQ(vm_file_result(fence), 0);
	OK(!memcmp(s.own.map, s.imported.map, SIZE));
}

/* A file whose job waits for another driver is closed. Jobs of other files run nevertheless. */
static void closed_while_waiting(void)
{
	struct shared s = shared(), other = shared();
	int line = timeline(), fence;

	attach(s.dmabuf, point(line, 1), DMA_BUF_SYNC_WRITE);
	fence = copy(&s, true);
	OK(!munmap(s.code.map, 4096) && !munmap(s.own.map, SIZE) && !munmap(s.imported.map, SIZE));
	close(s.fd);
	vm_noise(other.imported.map, SIZE, 6);
	EQ(vm_file_result(copy(&other, true)), 0);
	OK(!memcmp(other.own.map, other.imported.map, SIZE));
	advance(line);
	OK(vm_file_result(fence) <= 0);
}

/* The fence of another driver is an explicit in-fence, through a syncobj. */
static void explicit_in_fence(void)
{
	struct shared s = shared();
	int line = timeline(), fence;
	struct drm_syncobj_handle h = {
		.handle = vm_sync_new(s.fd),
		.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE,
		.fd = point(line, 1),
	};
	struct vm_job j;

	OK(!ioctl(s.fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &h));
	close(h.fd);
	vm_copy_job(&j, &s.code, &s.own, &s.imported, SIZE);
	vm_job_in(&j, h.handle, 0);
	vm_job_out(&j, s.sync, 0);
	OK(!vm_submit(s.fd, &j));
	fence = vm_sync_file(s.fd, s.sync);
	EQ(ended(fence), 0);
	vm_noise(s.own.map, SIZE, 7);
	advance(line);
	EQ(vm_file_result(fence), 0);
	OK(!memcmp(s.own.map, s.imported.map, SIZE));
}

/* SW_SYNC_GET_DEADLINE: the earliest deadline that a fence was given. */
struct sw_deadline {
	uint64_t ns;
	uint32_t pad;
	int32_t fence;
};
#define SW_DEADLINE	_IOWR('W', 2, struct sw_deadline)

/* A job's deadline is passed to the fences that the job waits for. */
static void deadline_reaches(void)
{
	int line = timeline(), camera = point(line, 1);
	int64_t deadline = (int64_t)clock_ns() + 5000000017ll;
	struct vm_client c = vm_client();
	struct sw_deadline got = { .fence = camera };
	struct drm_syncobj_handle h = {
		.handle = vm_sync_new(c.fd), .fd = camera,
		.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE,
	};
	struct vm_job j;

	OK(!ioctl(c.fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &h));
	vm_client_job(&c, &j);
	vm_job_in(&j, h.handle, 0);
	j.job.deadline_ns = deadline;
	OK(!vm_submit(c.fd, &j));
	OK(!ioctl(line, SW_DEADLINE, &got));
	EQ(got.ns, deadline);
	advance(line);
	vm_client_good(&c);
}

const struct vm_test vm_swsync_tests[] = {
	{ "swsync_read", "a job waits for the writers of an imported buffer that it reads",
	  reader_waits_for_writer },
	{ "swsync_write", "a job that writes waits for readers too; one that reads does not",
	  writer_waits_for_reader },
	{ "swsync_dead", "a fence that ends with an error blocks no job", waits_for_no_dead_fence },
	{ "swsync_closed", "closing a file whose job waits for another driver blocks no other file",
	  closed_while_waiting },
	{ "swsync_explicit", "a fence of another driver becomes an in-fence through a syncobj",
	  explicit_in_fence },
	{ "swsync_deadline", "a job's deadline is passed to the fences that it waits for",
	  deadline_reaches },
	{ 0 },
};
