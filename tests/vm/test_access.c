// SPDX-License-Identifier: MIT
/* CPU access to buffers: kinds of mapping, wait, sync, other exporters' memory, accounts. */
#include "vm.h"

#include <linux/dma-buf.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct vm_buf buf_with(int fd, uint64_t size, uint32_t flags)
{
	struct drm_rivulet_bo_create c = { .size = size, .flags = flags };
	struct vm_buf b = { .fd = fd, .size = size };

	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &c));
	b.handle = c.handle;
	vm_buf_map(&b);
	return b;
}

static int sync_range(const struct vm_buf *b, uint32_t op, uint32_t flags, uint64_t offset,
		      uint64_t size)
{
	struct drm_rivulet_range r = { offset, size };
	struct drm_rivulet_bo_sync s = {
		.handle = b->handle, .op = op, .flags = flags, .count = 1, .ranges = (uintptr_t)&r,
	};

	return vm_ioctl(b->fd, DRM_IOCTL_RIVULET_BO_SYNC, &s);
}

static int sync_all(int fd, uint32_t handle, uint32_t op, uint32_t flags)
{
	struct drm_rivulet_bo_sync s = { .handle = handle, .op = op, .flags = flags };

	return vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_SYNC, &s);
}

static int wait_for(int fd, uint32_t handle, uint32_t flags, int64_t timeout)
{
	struct drm_rivulet_bo_wait w = { .handle = handle, .flags = flags, .timeout_ns = timeout };

	return vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_WAIT, &w);
}

#define READ		DRM_RIVULET_ACCESS_READ
#define WRITE		DRM_RIVULET_ACCESS_WRITE
#define FOR_CPU		DRM_RIVULET_SYNC_FOR_CPU
#define FOR_DEVICE	DRM_RIVULET_SYNC_FOR_DEVICE

/* The device copies between buffers of any kind. The CPU syncs what it accesses. */
static void copy_between(uint32_t from_flags, uint32_t to_flags)
{
	struct vm_client c = vm_client();
	struct vm_buf from = buf_with(c.fd, 65536, from_flags),
		      to = buf_with(c.fd, 65536, to_flags);
	struct vm_job j;

	OK(!sync_range(&from, FOR_CPU, WRITE, 4096, 32768));
	vm_noise(from.map + 4096, 32768, from_flags + to_flags);
	OK(!sync_range(&from, FOR_DEVICE, WRITE, 4096, 32768));
	vm_copy_job(&j, &c.code, &from, &to, 65536);
	vm_job_out(&j, c.sync, 0);
	OK(!vm_submit(c.fd, &j));
	OK(!wait_for(c.fd, to.handle, READ, INT64_MAX));
	OK(!sync_range(&to, FOR_CPU, READ, 0, 65536));
	OK(!memcmp(to.map, from.map, 65536));
	OK(!sync_range(&to, FOR_DEVICE, READ, 0, 65536));
}

static void kinds(void)
{
	static const uint32_t kind[] = { 0, DRM_RIVULET_BO_WC, DRM_RIVULET_BO_CACHED };
	struct drm_rivulet_bo_create both = {
		.size = 4096, .flags = DRM_RIVULET_BO_WC | DRM_RIVULET_BO_CACHED,
	};
	int fd = vm_open();

	for (int i = 0; i < 3; i++) {
		struct vm_buf b = buf_with(fd, 4096, kind[i]);
		uint32_t flags = vm_buf_flags(fd, b.handle);

		/* BO_INFO shows CACHED only where the buffer needs BO_SYNC. */
		EQ(flags & ~(DRM_RIVULET_BO_WC | DRM_RIVULET_BO_CACHED), 0);
		OK(!(kind[i] & DRM_RIVULET_BO_WC) || flags == DRM_RIVULET_BO_WC);
		OK(kind[i] || !(flags & DRM_RIVULET_BO_CACHED));
		for (int k = 0; k < 3; k++)
			copy_between(kind[i], kind[k]);
	}
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &both), EINVAL);
	both.flags = DRM_RIVULET_BO_READONLY;
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &both), EINVAL);
	both.flags = DRM_RIVULET_BO_WC | 0x80000000;
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &both), EINVAL);
}

/* A write-combined buffer is mapped write-combined through its dma-buf too. */
static void write_combined_export(void)
{
	int fd = vm_open(), other = vm_open(), dmabuf;
	struct vm_buf b = buf_with(fd, 65536, DRM_RIVULET_BO_WC),
		      theirs = { .fd = other, .size = 65536 };
	uint8_t *map;

	OK(!vm_export(fd, b.handle, DRM_RDWR, &dmabuf));
	OK(!vm_import(other, dmabuf, &theirs.handle));
	EQ(vm_buf_flags(other, theirs.handle), DRM_RIVULET_BO_WC);
	vm_noise(b.map, 65536, 3);
	map = mmap(NULL, 65536, PROT_READ, MAP_SHARED, dmabuf, 0);
	OK(map != MAP_FAILED);
	OK(!memcmp(map, b.map, 65536));
}

static bool bounces(void)
{
	char line[1024] = "";
	FILE *f = fopen("/proc/cmdline", "re");

	OK(f && fgets(line, sizeof(line), f));
	fclose(f);
	return strstr(line, "swiotlb=force");
}

static void sync_dmabuf(const struct vm_buf *b, uint64_t what)
{
	struct dma_buf_sync s = { what | DMA_BUF_SYNC_RW };
	int dmabuf;

	OK(!vm_export(b->fd, b->handle, DRM_RDWR, &dmabuf));
	OK(!ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &s));
	close(dmabuf);
}

#define PART	1000	/* bytes of a range; its ends are no multiples of a page */
#define STEP	12288

/*
 * BO_SYNC makes the CPU's stores visible to the device, and the device's to the CPU, in its ranges.
 * With swiotlb=force (make check-bounce) the device has copies of its own, which show that no other
 * byte is moved.
 */
static void ranges(void)
{
	int fd = vm_open();
	struct vm_buf code = buf_with(fd, 4096, DRM_RIVULET_BO_CACHED),
		      from = buf_with(fd, 65536, DRM_RIVULET_BO_CACHED);
	struct vm_buf to = buf_with(fd, 65536, DRM_RIVULET_BO_CACHED);
	struct drm_rivulet_range r[5];
	struct drm_rivulet_bo_sync a = { .count = 5, .ranges = (uintptr_t)r, .op = FOR_DEVICE };
	struct vm_job j;

	if (bounces())
		EQ(vm_buf_flags(fd, to.handle), DRM_RIVULET_BO_CACHED);
	for (int i = 0; i < 5; i++)
		r[i] = (struct drm_rivulet_range){ STEP * i + 4096 - PART / 2, PART };
	memset(to.map, 0xee, 65536);
	OK(!sync_all(fd, to.handle, FOR_DEVICE, WRITE));
	vm_noise(from.map, 65536, 3);
	a.handle = from.handle;
	a.flags = WRITE;
	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_SYNC, &a));
	vm_copy_job(&j, &code, &from, &to, 65536);
	OK(!sync_all(fd, code.handle, FOR_DEVICE, WRITE));
	OK(!vm_submit(fd, &j));
	OK(!wait_for(fd, to.handle, READ, INT64_MAX));
	a.handle = to.handle;
	a.flags = READ;
	a.op = FOR_CPU;
	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_SYNC, &a));
	for (int i = 0; i < 5; i++) {
		OK(!memcmp(to.map + r[i].offset, from.map + r[i].offset, PART));
		EQ(to.map[r[i].offset - 1] == 0xee || !bounces(), true);
		EQ(to.map[r[i].offset + PART] == 0xee || !bounces(), true);
	}
	/* The device has zeros where the CPU's stores were not synced. */
	OK(!sync_all(fd, to.handle, FOR_CPU, READ));
	for (int at = STEP; bounces() && at < STEP + 4096 - PART / 2; at++)
		EQ(to.map[at], 0);
	/* DMA_BUF_IOCTL_SYNC moves the whole buffer. */
	sync_dmabuf(&from, DMA_BUF_SYNC_END);
	OK(!vm_submit(fd, &j));
	sync_dmabuf(&to, DMA_BUF_SYNC_START);
	OK(!memcmp(to.map, from.map, 65536));
}

static void args(void)
{
	int fd = vm_open();
	struct vm_buf b = vm_buf_new(fd, 65536);
	struct drm_rivulet_range two[2] = { { 0, 4096 }, { 8192, 1 } };
	struct drm_rivulet_range many[DRM_RIVULET_MAX_RANGES + 1];
	struct drm_rivulet_bo_sync good = {
		.handle = b.handle, .flags = READ, .ranges = (uintptr_t)two, .count = 2,
	}, a;

#define TRY(error_, ...)                                                                           \
	do {                                                                                       \
		a = good;                                                                          \
		__VA_ARGS__;                                                                       \
		FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_SYNC, &a), error_);                        \
	} while (0)
	FAILS(wait_for(fd, b.handle, 0, 0), EINVAL);
	FAILS(wait_for(fd, b.handle, READ | 4, 0), EINVAL);
	FAILS(wait_for(fd, 77, READ, 0), ENOENT);
	a = good;
	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_SYNC, &a));
	TRY(EINVAL, a.flags = 0);
	TRY(EINVAL, a.flags = READ | 4);
	TRY(EINVAL, a.op = 2);
	TRY(EINVAL, a.op = 0xffffffff);
	TRY(EINVAL, a.count = DRM_RIVULET_MAX_RANGES + 1);
	TRY(EINVAL, a.count = 0xffffffff);
	TRY(EFAULT, a.ranges = 8);
	TRY(ENOENT, a.handle = 77);
	/* Ranges that overlap, descend, are empty, leave the buffer, or wrap. */
	TRY(EINVAL, two[1].offset = 4095);
	TRY(EINVAL, two[1].offset = 0);
	TRY(EINVAL, two[1] = ((struct drm_rivulet_range){ 8192, 0 }));
	TRY(EINVAL, two[1] = ((struct drm_rivulet_range){ 65535, 2 }));
	TRY(EINVAL, two[1] = ((struct drm_rivulet_range){ 65536, 1 }));
	TRY(EINVAL, two[1] = ((struct drm_rivulet_range){ ~0ull, 2 }));
	TRY(EINVAL, two[1] = ((struct drm_rivulet_range){ 8192, ~0ull }));
	TRY(EINVAL, two[0] = ((struct drm_rivulet_range){ ~0ull - 4095, 4096 }));
#undef TRY
	for (int i = 0; i <= DRM_RIVULET_MAX_RANGES; i++)
		many[i] = (struct drm_rivulet_range){ i * 16, 16 };
	a = good;
	a.ranges = (uintptr_t)many;
	a.count = DRM_RIVULET_MAX_RANGES;
	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_SYNC, &a));
}

/* A read waits for writers, a write for readers too, and none longer than its timeout. */
static void waits(void)
{
	struct vm_gate g = vm_gate(4096, true);
	struct vm_client c = vm_client();
	struct vm_buf gated = { .fd = c.fd, .size = 4096 };
	struct vm_job j;

	OK(!vm_import(c.fd, g.dmabuf, &gated.handle));
	vm_copy_job(&j, &c.code, &c.from, &c.to, 4096);
	vm_job_region(&j, 9, &gated, 0, 4096, 0);
	vm_job_out(&j, c.sync, 0);
	OK(!vm_submit(c.fd, &j));
	FAILS(wait_for(c.fd, c.to.handle, READ, 0), ETIME);
	FAILS(wait_for(c.fd, c.to.handle, READ, 1), ETIME);
	FAILS(wait_for(c.fd, c.to.handle, READ, -1), ETIME);
	OK(!wait_for(c.fd, c.from.handle, READ, 0));
	FAILS(wait_for(c.fd, c.from.handle, WRITE, 0), ETIME);
	FAILS(wait_for(c.fd, gated.handle, READ, 0), ETIME);
	/* A sync never waits. */
	OK(!sync_all(c.fd, c.to.handle, FOR_CPU, READ | WRITE));
	OK(!sync_all(c.fd, c.to.handle, FOR_DEVICE, WRITE));
	vm_gate_open(&g);
	OK(!wait_for(c.fd, c.to.handle, READ | WRITE, INT64_MAX));
	OK(!wait_for(c.fd, gated.handle, WRITE, INT64_MAX));
	OK(!sync_all(c.fd, gated.handle, FOR_CPU, WRITE));
	OK(!sync_all(c.fd, gated.handle, FOR_DEVICE, WRITE));
}

static void rights(void)
{
	int a = vm_open(), b = vm_open(), ro;
	struct vm_buf one = vm_buf_new(a, 4096);
	uint32_t handle;

	OK(!vm_export(a, one.handle, 0, &ro));
	OK(!vm_import(b, ro, &handle));
	OK(!sync_all(b, handle, FOR_CPU, READ));
	FAILS(sync_all(b, handle, FOR_CPU, WRITE), EACCES);
	FAILS(sync_all(b, handle, FOR_DEVICE, WRITE), EACCES);
	FAILS(sync_all(b, handle, FOR_CPU, READ | WRITE), EACCES);
	OK(!sync_all(b, handle, FOR_DEVICE, READ));
	/* A wait with WRITE needs no right to write. */
	OK(!wait_for(b, handle, WRITE, 0));
}

/* DMA_BUF_IOCTL_SYNC on a dma-buf of this driver waits for jobs as BO_WAIT does. */
static void exported(void)
{
	struct vm_client c = vm_client();
	struct dma_buf_sync begin = { DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	struct dma_buf_sync end = { DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW };
	int writable, readonly;
	uint8_t *map;

	OK(!vm_export(c.fd, c.to.handle, DRM_RDWR, &writable));
	OK(!vm_export(c.fd, c.to.handle, 0, &readonly));
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, readonly, 0);
	OK(map != MAP_FAILED);
	for (int i = 0; i < 50; i++) {
		vm_client_submit(&c, 100 + i);
		OK(!ioctl(i & 1 ? writable : readonly, DMA_BUF_IOCTL_SYNC, &begin));
		OK(!memcmp(map, c.from.map, 4096));
		OK(!ioctl(i & 1 ? writable : readonly, DMA_BUF_IOCTL_SYNC, &end));
	}
}

/* The device reads and writes memory of the system's DMA heap without a copy. */
static void heap(void)
{
	int heap = vm_heap(1 << 20, O_RDWR);
	struct vm_client c = vm_client();
	struct vm_buf b = { .fd = c.fd, .size = 1 << 20 };
	struct dma_buf_sync begin = { DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	struct vm_job j;
	uint8_t *map;

	map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, heap, 0);
	OK(map != MAP_FAILED);
	OK(!vm_import(c.fd, heap, &b.handle));
	EQ(vm_buf_flags(c.fd, b.handle), DRM_RIVULET_BO_IMPORTED);
	OK(!wait_for(c.fd, b.handle, WRITE, INT64_MAX) &&
	   !sync_all(c.fd, b.handle, FOR_CPU, WRITE));
	vm_noise(map, 65536, 9);
	OK(!sync_all(c.fd, b.handle, FOR_DEVICE, WRITE));
	/* One job copies the first 64 KiB to the last, with two slots of one buffer. */
	vm_copy_job(&j, &c.code, &c.from, &c.to, 65536);
	j.region[1] = (struct drm_rivulet_region){ .slot = 1, .handle = b.handle, .size = 65536 };
	j.region[2] = (struct drm_rivulet_region){
		.slot = 2, .handle = b.handle, .offset = (1 << 20) - 65536, .size = 65536,
		.flags = DRM_RIVULET_REGION_WRITE,
	};
	OK(!vm_submit(c.fd, &j));
	OK(!ioctl(heap, DMA_BUF_IOCTL_SYNC, &begin));
	OK(!memcmp(map, map + (1 << 20) - 65536, 65536));
	/* The import keeps the memory after the descriptor is closed. */
	close(heap);
	vm_buf_map(&b);
	OK(!memcmp(map, b.map, 1 << 20));
}

static int create(int fd, uint64_t size, uint32_t *handle)
{
	struct drm_rivulet_bo_create c = { .size = size };
	int ret = vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &c);

	*handle = c.handle;
	return ret;
}

static struct drm_rivulet_client client_of(int fd)
{
	struct drm_rivulet_client client;
	struct drm_rivulet_query q = {
		.type = DRM_RIVULET_QUERY_CLIENT,
		.size = sizeof(client),
		.pointer = (uintptr_t)&client,
	};

	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q));
	return client;
}

#define MIB	(1ull << 20)
#define SOMEONE	12345	/* a user without privilege, who has nothing pinned yet */

/*
 * The memory that a user has pinned is limited over all files, imports included; freed memory is
 * uncharged.
 */
static void pinned(void)
{
	int a = vm_open(), b = vm_open(), camera = vm_udmabuf(4 * MIB, NULL), dmabuf;
	uint32_t root, first, second, same;

	vm_param("user_mib", "8");
	OK(!create(a, 9 * MIB, &root));
	EQ(client_of(a).pinned_limit, -1);
	OK(!setresuid(SOMEONE, SOMEONE, SOMEONE));
	EQ(client_of(a).pinned, 0);
	EQ(client_of(a).pinned_limit, 8 * MIB);
	OK(!create(a, 5 * MIB, &first));
	FAILS(create(a, 5 * MIB, &second), EDQUOT);
	/* Another file of the same user has no limit of its own. */
	EQ(client_of(b).pinned, 5 * MIB);
	FAILS(create(b, 5 * MIB, &second), EDQUOT);
	FAILS(vm_import(b, camera, &second), EDQUOT);
	OK(!create(b, 3 * MIB - 100, &second));
	EQ(client_of(b).pinned, 8 * MIB);
	FAILS(create(b, 1, &same), EDQUOT);
	/* A shared buffer is charged once, until its last reference is gone. */
	OK(!vm_export(a, first, DRM_RDWR, &dmabuf) && !vm_import(b, dmabuf, &same));
	EQ(client_of(b).pinned, 8 * MIB);
	vm_close_handle(a, first);
	close(dmabuf);
	EQ(client_of(b).pinned, 8 * MIB);
	vm_close_handle(b, same);
	EQ(client_of(b).pinned, 3 * MIB);
	OK(!vm_import(a, camera, &first));
	EQ(client_of(a).pinned, 7 * MIB);
	close(b);
	for (int i = 0; i < 500 && client_of(a).pinned != 4 * MIB; i++)
		usleep(10000);
	EQ(client_of(a).pinned, 4 * MIB);
}

#define SUBORDINATE	700000	/* the first of SOMEONE's subordinate user IDs */

/*
 * Map the users of a child's new namespace, the first to SOMEONE, as newuidmap would for SOMEONE.
 */
static void map_users(pid_t pid)
{
	char path[64], map[64];
	int n = snprintf(map, sizeof(map), "0 %u 1\n1 %u 1000\n", SOMEONE, SUBORDINATE);
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	OK(fd >= 0);
	EQ(write(fd, map, (size_t)n), n);
	close(fd);
}

/* In a user namespace that SOMEONE has created: every ID in it pays from SOMEONE's account. */
static void pin_as_subordinate(int fd, int ready, int mapped)
{
	uint32_t handle;
	char byte = 0;

	OK(!setresuid(SOMEONE, SOMEONE, SOMEONE));
	OK(!create(fd, 5 * MIB, &handle));
	OK(!unshare(CLONE_NEWUSER));
	/* /proc/PID belongs to root after a change of user, unless the process is dumpable. */
	OK(!prctl(PR_SET_DUMPABLE, 1));
	OK(write(ready, &byte, 1) == 1 && read(mapped, &byte, 1) == 1);
	for (uid_t uid = 0; uid < 3; uid++) {
		OK(!seteuid(0) && !setresuid(uid, uid, 0));
		EQ(client_of(fd).pinned, 5 * MIB);
		EQ(client_of(fd).pinned_limit, 8 * MIB);
		FAILS(create(fd, 5 * MIB, &handle), EDQUOT);
	}
}

static void pinned_by_subordinates(void)
{
	int fd = vm_open(), ready[2], mapped[2], status;
	char byte = 0;
	pid_t pid;

	if (access("/proc/self/ns/user", F_OK))
		vm_skip("PCI only: the board's kernel has no user namespaces");
	vm_param("user_mib", "8");
	OK(!pipe(ready) && !pipe(mapped));
	fflush(stdout);
	pid = fork();
	OK(pid >= 0);
	if (!pid) {
		pin_as_subordinate(fd, ready[1], mapped[0]);
		fflush(stdout);
		_exit(0);
	}
	close(ready[1]);
	OK(read(ready[0], &byte, 1) == 1);
	map_users(pid);
	OK(write(mapped[1], &byte, 1) == 1);
	OK(waitpid(pid, &status, 0) == pid);
	EQ(status, 0);
}

/*
 * A reader's sync does not discard what a writer has stored and not yet given to the device. With
 * swiotlb=force the sync copies from the device's copy, so that a discarded store is seen.
 */
static void reader_keeps(void)
{
	int writer = vm_open(), reader = vm_open(), readonly;
	struct vm_buf b = buf_with(writer, 65536, DRM_RIVULET_BO_CACHED);
	struct dma_buf_sync begin = { DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	struct dma_buf_sync end = { DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW };
	uint32_t handle;

	OK(!vm_export(writer, b.handle, 0, &readonly) && !vm_import(reader, readonly, &handle));
	memset(b.map, 0x11, 65536);
	OK(!sync_all(writer, b.handle, FOR_DEVICE, WRITE));
	OK(!sync_range(&b, FOR_CPU, WRITE, 8192, 8192));
	memset(b.map + 8192, 0x22, 8192);
	OK(!sync_all(reader, handle, FOR_CPU, READ));
	EQ(b.map[8192] + b.map[16383], 2 * 0x22);
	OK(!ioctl(readonly, DMA_BUF_IOCTL_SYNC, &begin));
	EQ(b.map[8192] + b.map[16383], 2 * 0x22);
	/* The end of the reader's access does not move the writer's stores to the device. */
	OK(!ioctl(readonly, DMA_BUF_IOCTL_SYNC, &end));
	/* The reader sees the device's bytes where the writer has not begun an access. */
	memset(b.map, 0x33, 4096);
	OK(!sync_all(reader, handle, FOR_CPU, READ));
	EQ(b.map[0], bounces() ? 0x11 : 0x33);
	EQ(b.map[8192], 0x22);
	OK(!sync_range(&b, FOR_DEVICE, WRITE, 8192, 8192));
	OK(!sync_all(reader, handle, FOR_CPU, READ));
	EQ(b.map[8192] + b.map[16383], 2 * 0x22);
}

/*
 * A writer that closes its handle or its file without FOR_DEVICE is forgotten: readers see the
 * device's bytes again. Only bounced DMA has two copies of the bytes, which can differ.
 */
static void writer_goes(void)
{
	int owner = vm_open(), reader = vm_open(), writer, readonly, writable;
	struct vm_buf b = buf_with(owner, 65536, DRM_RIVULET_BO_CACHED);
	uint32_t handle, theirs;

	OK(!vm_export(owner, b.handle, 0, &readonly) && !vm_import(reader, readonly, &handle));
	OK(!vm_export(owner, b.handle, DRM_RDWR, &writable));
	memset(b.map, 0x11, 65536);
	OK(!sync_all(owner, b.handle, FOR_DEVICE, WRITE));
	for (int closes_handle = 0; closes_handle < 2; closes_handle++) {
		writer = vm_open();
		OK(!vm_import(writer, writable, &theirs));
		OK(!sync_all(writer, theirs, FOR_CPU, WRITE));
		b.map[0] = 0x22;
		OK(!sync_all(reader, handle, FOR_CPU, READ));
		EQ(b.map[0], 0x22);
		if (closes_handle)
			vm_close_handle(writer, theirs);
		else
			close(writer);
		OK(!sync_all(reader, handle, FOR_CPU, READ));
		EQ(b.map[0], bounces() ? 0x11 : 0x22);
	}
}

/*
 * When the writable dma-buf is freed, a reader with a read-only dma-buf sees the device's bytes
 * again.
 */
static void dmabuf_goes(void)
{
	int fd = vm_open(), readonly, writable;
	struct vm_buf b = buf_with(fd, 65536, DRM_RIVULET_BO_CACHED);
	struct dma_buf_sync begin = { DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };

	OK(!vm_export(fd, b.handle, 0, &readonly) && !vm_export(fd, b.handle, DRM_RDWR, &writable));
	memset(b.map, 0x11, 65536);
	OK(!sync_all(fd, b.handle, FOR_DEVICE, WRITE));
	OK(!ioctl(writable, DMA_BUF_IOCTL_SYNC, &begin));
	b.map[0] = 0x22;
	OK(!ioctl(readonly, DMA_BUF_IOCTL_SYNC, &begin));
	EQ(b.map[0], 0x22);
	close(writable);
	vm_close_handle(fd, b.handle);
	/* The file of a dma-buf is released when the call that closed it returns to user mode. */
	OK(!ioctl(readonly, DMA_BUF_IOCTL_SYNC, &begin));
	EQ(b.map[0], bounces() ? 0x11 : 0x22);
}

struct sync_race {
	struct drm_rivulet_bo_sync sync;
	int fd;
	_Atomic bool over;
};

static void *read_on(void *arg)
{
	struct sync_race *r = arg;

	while (!r->over)
		OK(!vm_ioctl(r->fd, DRM_IOCTL_RIVULET_BO_SYNC, &r->sync));
	return NULL;
}

#define RACES	20000
#define TAIL	64	/* bytes at the end of a page, which a sync of the page reaches last */

/*
 * A reader and a writer sync the same page at the same time. The reader's sync must not overwrite
 * the stores that the writer makes after its own sync. With bounced DMA an overwritten store shows
 * as the device's old byte.
 */
static void reader_races(void)
{
	int writer = vm_open(), readonly;
	struct vm_buf b = buf_with(writer, 4096, DRM_RIVULET_BO_CACHED);
	struct sync_race r = { .fd = vm_open(), .sync = { .flags = READ, .op = FOR_CPU } };
	volatile uint8_t *last = &b.map[4095];
	pthread_t thread;

	OK(!vm_export(writer, b.handle, 0, &readonly) &&
	   !vm_import(r.fd, readonly, &r.sync.handle));
	OK(!pthread_create(&thread, NULL, read_on, &r));
	for (uint32_t n = 1; n <= RACES; n++) {
		OK(!sync_range(&b, FOR_CPU, WRITE, 4096 - TAIL, TAIL));
		*last = (uint8_t)n;
		for (int look = 0; look < 100; look++)
			EQ(*last, (uint8_t)n);
		OK(!sync_range(&b, FOR_DEVICE, WRITE, 0, 4096));
	}
	r.over = true;
	OK(!pthread_join(thread, NULL));
}

static void writer_stays(void)
{
	int owner = vm_open(), other = vm_open(), reader = vm_open(), readonly, writable;
	struct vm_buf b = buf_with(owner, 65536, DRM_RIVULET_BO_CACHED), theirs = { .fd = other };
	uint32_t handle;

	OK(!vm_export(owner, b.handle, 0, &readonly) && !vm_import(reader, readonly, &handle));
	OK(!vm_export(owner, b.handle, DRM_RDWR, &writable) &&
	   !vm_import(other, writable, &theirs.handle));
	OK(!sync_range(&b, FOR_CPU, WRITE, 0, 4096));
	OK(!sync_range(&theirs, FOR_CPU, WRITE, 4096, 4096));
	b.map[0] = b.map[4096] = 0x22;
	/* The first writer stays when the second one and a read-only dma-buf are closed. */
	close(readonly);
	close(other);
	OK(!sync_all(reader, handle, FOR_CPU, READ));
	EQ(b.map[0], 0x22);
	EQ(b.map[4096], bounces() ? 0 : 0x22);
}

/* Bounced pages are refused where nobody would sync them: write-combined, or imported. */
static void bounced(void)
{
	struct drm_rivulet_bo_create wc = { .size = 65536, .flags = DRM_RIVULET_BO_WC };
	int fd = vm_open(), heap = vm_heap(65536, O_RDWR), camera = vm_udmabuf(65536, NULL);
	uint32_t handle;

	if (!bounces()) {
		OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &wc));
		OK(!vm_import(fd, heap, &handle) && !vm_import(fd, camera, &handle));
		return;
	}
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &wc), EOPNOTSUPP);
	FAILS(vm_import(fd, heap, &handle), EOPNOTSUPP);
	FAILS(vm_import(fd, camera, &handle), EOPNOTSUPP);
	OK(!create(fd, 65536, &handle));
	EQ(vm_buf_flags(fd, handle), DRM_RIVULET_BO_CACHED);
}

#define MPOL_DEFAULT		0
#define MPOL_INTERLEAVE	3
#define FAR_NODE		"/sys/devices/system/node/node1"

/*
 * scripts/check-bounce boots a machine with two memory nodes, of which a device with 32 address
 * bits reaches the first one directly and the second one only through bounce buffers.
 */
static bool has_far_node(void)
{
	return !access(FAR_NODE, F_OK);
}

/* Take the pages of new memory from both nodes in turn, or from any node again. */
static void interleave(bool on)
{
	unsigned long nodes = 3;

	if (!has_far_node())
		return;
	OK(!syscall(SYS_set_mempolicy, on ? MPOL_INTERLEAVE : MPOL_DEFAULT, on ? &nodes : NULL,
		    on ? 8 * sizeof(nodes) : 0));
}

#define MIXED_PAGES	8
#define MIXED_BYTES	(4096 * MIXED_PAGES)
#define ALL_PAGES	((1u << MIXED_PAGES) - 1)
#define EVEN_PAGES	(ALL_PAGES / 3)

/* A bit for each page of @b whose first bytes equal those of @other. */
static uint32_t equal_pages(const struct vm_buf *b, const struct vm_buf *other)
{
	uint32_t equal = 0;

	for (uint32_t i = 0; i < MIXED_PAGES; i++)
		equal |= (uint32_t)!memcmp(b->map + 4096 * i, other->map + 4096 * i, 64) << i;
	return equal;
}

/*
 * A job copies between two buffers with pages of both nodes. Returns a bit for each page of the
 * target that the CPU sees without a sync, because the device wrote to the page itself.
 */
static uint32_t copy_mixed(int fd, uint64_t seed)
{
	struct vm_buf code = buf_with(fd, 4096, DRM_RIVULET_BO_CACHED), from, to;
	uint32_t direct, sync = vm_sync_new(fd);
	struct vm_job j;

	interleave(true);
	from = buf_with(fd, MIXED_BYTES, DRM_RIVULET_BO_CACHED);
	to = buf_with(fd, MIXED_BYTES, DRM_RIVULET_BO_CACHED);
	interleave(false);
	vm_noise(from.map, MIXED_BYTES, seed);
	OK(!sync_all(fd, from.handle, FOR_DEVICE, WRITE));
	vm_copy_job(&j, &code, &from, &to, MIXED_BYTES);
	OK(!sync_all(fd, code.handle, FOR_DEVICE, WRITE));
	vm_job_out(&j, sync, 0);
	OK(!vm_submit(fd, &j));
	EQ(vm_sync_result(fd, sync), 0);
	direct = equal_pages(&to, &from);
	OK(!sync_all(fd, to.handle, FOR_CPU, READ));
	EQ(equal_pages(&to, &from), ALL_PAGES);
	OK(!memcmp(to.map, from.map, MIXED_BYTES));
	return direct;
}

/*
 * Where only some pages of a buffer are bounced, all of these are synced, whether the first page is
 * one of them or not.
 */
static void partly_bounced(void)
{
	bool first_direct = false, first_bounced = false;
	int fd = vm_open();

	for (int i = 0; i < 8; i++) {
		uint32_t direct = copy_mixed(fd, (uint64_t)i);

		if (has_far_node())
			OK(direct == EVEN_PAGES || direct == (ALL_PAGES ^ EVEN_PAGES));
		else
			EQ(direct, bounces() ? 0 : ALL_PAGES);
		first_direct |= direct & 1;
		first_bounced |= !(direct & 1);
	}
	EQ(first_direct && first_bounced, has_far_node());
}

/* Memory of which only some pages are bounced is refused where nobody would sync those. */
static void partly_bounced_refused(void)
{
	int fd = vm_open(), want = has_far_node() || bounces() ? EOPNOTSUPP : 0;

	for (int i = 0; i < 8; i++) {
		struct drm_rivulet_bo_create wc = { .size = MIXED_BYTES,
						    .flags = DRM_RIVULET_BO_WC };
		uint32_t handle;
		int camera, error;

		interleave(true);
		camera = vm_udmabuf(MIXED_BYTES, NULL);
		error = vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &wc) ? errno : 0;
		interleave(false);
		EQ(error, want);
		EQ(vm_import(fd, camera, &handle) ? errno : 0, want);
		close(camera);
	}
}

/* fdinfo counts in MiB if the size is a multiple of one. */
#define MIB_AND_PAGE	((1 << 20) + 4096)

/*
 * fdinfo tells the memory of all handles, how much is shared, and how much jobs use at the moment.
 */
static void memory_account(void)
{
	struct vm_gate g = vm_gate(4096, true);
	struct vm_client c = vm_client();
	struct vm_buf gated = { .fd = c.fd, .size = 4096 }, big = vm_buf_new(c.fd, MIB_AND_PAGE);
	struct vm_job j;
	int other = vm_open(), dmabuf;
	uint32_t handle;

	EQ(vm_fdinfo(c.fd, "drm-total-memory"), 12 + 1028);
	EQ(vm_fdinfo(c.fd, "drm-resident-memory"), 12 + 1028);
	EQ(vm_fdinfo(c.fd, "drm-shared-memory"), 0);
	EQ(vm_fdinfo(c.fd, "drm-active-memory"), 0);
	OK(!vm_export(c.fd, big.handle, DRM_RDWR, &dmabuf));
	OK(!vm_import(other, dmabuf, &handle));
	EQ(vm_fdinfo(c.fd, "drm-shared-memory"), 1028);
	EQ(vm_fdinfo(other, "drm-total-memory"), 1028);
	OK(!vm_import(c.fd, g.dmabuf, &gated.handle));
	EQ(vm_fdinfo(c.fd, "drm-total-memory"), 16 + 1028);
	vm_copy_job(&j, &c.code, &gated, &big, 4096);
	vm_job_out(&j, c.sync, 0);
	OK(!vm_submit(c.fd, &j));
	/* The commands, the source and the target of the waiting job. */
	EQ(vm_fdinfo(c.fd, "drm-active-memory"), 8 + 1028);
	EQ(vm_fdinfo(other, "drm-active-memory"), 1028);
	vm_gate_open(&g);
	EQ(vm_sync_result(c.fd, c.sync), 0);
	EQ(vm_fdinfo(c.fd, "drm-active-memory"), 0);
	vm_close_handle(other, handle);
	EQ(vm_fdinfo(other, "drm-total-memory"), 0);
	vm_buf_free(&big);
	EQ(vm_fdinfo(c.fd, "drm-total-memory"), 16);
}

const struct vm_test vm_access_tests[] = {
	{ "access_kinds", "the device copies between cached, write-combined and ordinary buffers",
	  kinds },
	{ "access_wc_export",
	  "a write-combined buffer is mapped write-combined by every file that imports it",
	  write_combined_export },
	{ "access_ranges",
	  "the ranges of BO_SYNC are moved between CPU and device, "
	  "and with bounced DMA no other byte",
	  ranges },
	{ "access_args",
	  "ranges ascend, do not overlap, stay inside and are few; flags and padding are checked",
	  args },
	{ "access_waits",
	  "BO_WAIT waits for writers, with WRITE for readers too, and no longer than its timeout",
	  waits },
	{ "access_reader",
	  "a read-only holder's sync keeps what a writer has not given to the device",
	  reader_keeps },
	{ "access_writer_goes",
	  "readers see the device's bytes again when a writer closes "
	  "its file or handle without FOR_DEVICE",
	  writer_goes },
	{ "access_dmabuf_goes",
	  "closing a writable dma-buf gives back the pages that were synced through it",
	  dmabuf_goes },
	{ "access_races",
	  "a reader's sync that runs beside a writer's discards none of the writer's stores",
	  reader_races },
	{ "access_writer_stays",
	  "a writer that closes its file gives back no page of another writer",
	  writer_stays },
	{ "access_bounced", "write-combined and imported buffers with bounced pages are refused",
	  bounced },
	{ "access_partly_synced",
	  "every bounced page of a buffer is synced, whether its first page is bounced or not",
	  partly_bounced },
	{ "access_partly_refused",
	  "write-combined and imported memory with one bounced page is refused",
	  partly_bounced_refused },
	{ "access_pinned", "a user's pinned memory is limited over all its files, imports included",
	  pinned },
	{ "access_subordinates",
	  "the subordinate IDs of a user namespace are charged to the account of its creator",
	  pinned_by_subordinates },
	{ "access_rights", "a read-only handle gives no write access", rights },
	{ "access_exported", "DMA_BUF_IOCTL_SYNC on an exported dma-buf waits for jobs", exported },
	{ "access_heap", "the device reads and writes memory of the system's DMA heap in place",
	  heap },
	{ "access_memory", "fdinfo shows total, shared, resident and active memory of a file",
	  memory_account },
	{ 0 },
};
