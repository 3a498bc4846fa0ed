// SPDX-License-Identifier: MIT
/* Sharing: dma-bufs between files, read-only rights, other exporters' memory. */
#include "vm.h"

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RDONLY_EXPORT	0
#define ROUNDS		(2000 / vm_slow())	/* of a race between two threads */

static void share_writable(void)
{
	int a = vm_open(), b = vm_open(), dmabuf;
	struct vm_buf one = vm_buf_new(a, 16384), two = { .fd = b, .size = 16384 };
	uint32_t again;

	OK(!vm_export(a, one.handle, DRM_RDWR, &dmabuf));
	OK(!vm_import(b, dmabuf, &two.handle));
	EQ(vm_buf_rights(b, two.handle), 0);
	vm_buf_map(&two);
	vm_noise(one.map, one.size, 3);
	OK(!memcmp(one.map, two.map, one.size));
	two.map[5] ^= 1;
	EQ(one.map[5], two.map[5]);
	OK(!vm_import(b, dmabuf, &again));
	EQ(again, two.handle);
	OK(!vm_import(a, dmabuf, &again));
	EQ(again, one.handle);
	/* The memory is kept while any handle, mapping or dma-buf refers to it. */
	close(dmabuf);
	close(a);
	two.map[6] ^= 1;
}

/* A file that imported a read-only dma-buf has no call by which it can write the memory. */
static void check_readonly(int fd, uint32_t handle, uint64_t size)
{
	struct vm_buf code = vm_buf_new(fd, 4096), from = vm_buf_new(fd, 4096);
	struct vm_buf ro = { .fd = fd, .handle = handle, .size = size };
	struct vm_job j;
	uint64_t offset;
	void *p;
	int out;

	OK(vm_buf_flags(fd, handle) & DRM_RIVULET_BO_READONLY);
	OK(!vm_map_offset(fd, handle, &offset));
	OK(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset) == MAP_FAILED);
	EQ(errno, EACCES);
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, (off_t)offset);
	OK(p != MAP_FAILED);
	FAILS(mprotect(p, size, PROT_READ | PROT_WRITE), EACCES);
	vm_copy_job(&j, &code, &from, &ro, 256);
	FAILS(vm_submit(fd, &j), EACCES);
	FAILS(vm_export(fd, handle, DRM_RDWR, &out), EACCES);
	/* Reading is allowed. */
	vm_copy_job(&j, &code, &ro, &from, 256);
	OK(!vm_submit(fd, &j));
}

static void readonly_own(void)
{
	int a = vm_open(), b = vm_open(), ro, again;
	struct vm_buf one = vm_buf_new(a, 8192);
	uint32_t handle;
	void *p;

	OK(!vm_export(a, one.handle, RDONLY_EXPORT, &ro));
	OK(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0) == MAP_FAILED);
	EQ(errno, EACCES);
	p = mmap(NULL, 8192, PROT_READ, MAP_SHARED, ro, 0);
	OK(p != MAP_FAILED);
	one.map[9] = 42;
	EQ(((uint8_t *)p)[9], 42);
	FAILS(mprotect(p, 8192, PROT_READ | PROT_WRITE), EACCES);
	OK(!vm_import(b, ro, &handle));
	check_readonly(b, handle, 8192);
	/* An export of the read-only handle is read-only. */
	OK(!vm_export(b, handle, RDONLY_EXPORT, &again));
	close(b);
	b = vm_open();
	OK(!vm_import(b, again, &handle));
	check_readonly(b, handle, 8192);
}

/* A read-only and a writable handle of the same buffer in one file keep their rights. */
static void readonly_beside_writable(void)
{
	int fd = vm_open(), ro, rw;
	struct vm_buf one = vm_buf_new(fd, 4096), code = vm_buf_new(fd, 4096);
	struct vm_buf weak = { .fd = fd, .size = 4096 };
	uint32_t handle;
	struct vm_job j;
	int out;

	/* The order of the exports makes no difference. */
	OK(!vm_export(fd, one.handle, RDONLY_EXPORT, &ro));
	OK(!vm_export(fd, one.handle, DRM_RDWR, &rw));
	OK(!vm_import(fd, ro, &weak.handle));
	OK(weak.handle != one.handle);
	OK(vm_buf_flags(fd, weak.handle) & DRM_RIVULET_BO_READONLY);
	EQ(vm_buf_rights(fd, one.handle), 0);
	FAILS(vm_export(fd, weak.handle, DRM_RDWR, &out), EACCES);
	vm_copy_job(&j, &code, &one, &weak, 256);
	FAILS(vm_submit(fd, &j), EACCES);
	OK(!vm_import(fd, rw, &handle));
	EQ(handle, one.handle);
	/* Without the writable handle the file has no right to a writable mapping. */
	vm_buf_free(&one);
	check_readonly(fd, weak.handle, 4096);
	/* A handle that is used again does not inherit the right. */
	OK(!vm_import(fd, ro, &handle));
	check_readonly(fd, handle, 4096);
	/* An import of the writable dma-buf grants the right again. */
	OK(!vm_import(fd, rw, &handle));
	EQ(vm_buf_rights(fd, handle), 0);
}

static void import_udmabuf(void)
{
	int fd = vm_open(), memfd, dmabuf = vm_udmabuf(65536, &memfd), out;
	struct vm_buf code = vm_buf_new(fd, 4096), from = vm_buf_new(fd, 65536);
	struct vm_buf to = { .fd = fd, .size = 65536 };
	uint32_t sync = vm_sync_new(fd);
	struct vm_job j;
	uint8_t *seen;

	OK(!vm_import(fd, dmabuf, &to.handle));
	EQ(vm_buf_rights(fd, to.handle), DRM_RIVULET_BO_IMPORTED);
	vm_buf_map(&to);
	vm_noise(from.map, 65536, 11);
	vm_copy_job(&j, &code, &from, &to, 65536);
	vm_job_out(&j, sync, 0);
	OK(!vm_submit(fd, &j));
	EQ(vm_sync_result(fd, sync), 0);
	seen = mmap(NULL, 65536, PROT_READ, MAP_SHARED, memfd, 0);
	OK(seen != MAP_FAILED);
	OK(!memcmp(seen, from.map, 65536));
	OK(!memcmp(to.map, from.map, 65536));
	/* The driver cannot export another exporter's dma-buf as read-only. */
	FAILS(vm_export(fd, to.handle, RDONLY_EXPORT, &out), EOPNOTSUPP);
	OK(!vm_export(fd, to.handle, DRM_RDWR, &out));
}

static void import_readonly_heap(void)
{
	int heap = vm_heap(8192, O_RDONLY), fd = vm_open(), again;
	uint32_t handle;

	OK(!vm_import(fd, heap, &handle));
	EQ(vm_buf_rights(fd, handle), DRM_RIVULET_BO_READONLY | DRM_RIVULET_BO_IMPORTED);
	check_readonly(fd, handle, 8192);
	OK(!vm_export(fd, handle, RDONLY_EXPORT, &again));
	EQ(fcntl(again, F_GETFL) & O_ACCMODE, O_RDONLY);
}

/* A handle's number, and whether a writable import was seen under it. */
struct watch {
	int fd;
	uint32_t handle;
	_Atomic uint64_t offset;
	_Atomic bool stop, writable;
};

static void *watch_rights(void *arg)
{
	struct watch *w = arg;

	while (!w->stop) {
		struct drm_rivulet_bo_info i = { .handle = w->handle };

		if (!ioctl(w->fd, DRM_IOCTL_RIVULET_BO_INFO, &i) &&
		    (i.flags & DRM_RIVULET_BO_IMPORTED) && !(i.flags & DRM_RIVULET_BO_READONLY))
			w->writable = true;
	}
	return NULL;
}

/*
 * An import gets the handle and memory of a freed buffer while a second thread tries to write it.
 */
static void import_after_own(void)
{
	struct watch w = { .fd = vm_open() };
	int heap = vm_heap(8192, O_RDONLY);
	struct vm_buf own = vm_buf_new(w.fd, 8192);
	uint32_t handle;
	pthread_t thread;

	w.handle = own.handle;
	OK(!pthread_create(&thread, NULL, watch_rights, &w));
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct drm_rivulet_bo_create again = { .size = 8192 };

		vm_close_handle(w.fd, w.handle);
		OK(!vm_import(w.fd, heap, &handle));
		EQ(handle, w.handle);
		vm_close_handle(w.fd, handle);
		OK(!vm_ioctl(w.fd, DRM_IOCTL_RIVULET_BO_CREATE, &again));
		EQ(again.handle, w.handle);
	}
	w.stop = true;
	OK(!pthread_join(thread, NULL));
	OK(!w.writable);
}

static void *export_writable(void *arg)
{
	struct watch *w = arg;
	int dmabuf;

	while (!w->stop)
		if (!vm_export(w->fd, w->handle, DRM_RDWR, &dmabuf))
			close(dmabuf);
	return NULL;
}

/*
 * The number of a writable handle becomes that of a read-only one of the same buffer, while a
 * second thread exports it. Where that thread gets a second dma-buf, the first one stays valid
 * memory, and the kernel prints no warning.
 */
static void export_twice(void)
{
	struct watch w = { .fd = vm_open(), .handle = 1 };
	uint32_t weak, strong;
	pthread_t thread;
	int ro, rw;

	OK(!pthread_create(&thread, NULL, export_writable, &w));
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct drm_rivulet_bo_create own = { .size = 8192 };

		OK(!vm_ioctl(w.fd, DRM_IOCTL_RIVULET_BO_CREATE, &own));
		EQ(own.handle, w.handle);
		OK(!vm_export(w.fd, own.handle, RDONLY_EXPORT, &ro));
		OK(!vm_export(w.fd, own.handle, DRM_RDWR, &rw));
		vm_close_handle(w.fd, own.handle);
		OK(!vm_import(w.fd, ro, &weak));
		EQ(weak, w.handle);
		OK(!vm_import(w.fd, rw, &strong));
		OK(!(vm_buf_flags(w.fd, strong) & DRM_RIVULET_BO_READONLY));
		vm_close_handle(w.fd, weak);
		if (strong != weak)
			vm_close_handle(w.fd, strong);
		close(ro);
		close(rw);
	}
	w.stop = true;
	OK(!pthread_join(thread, NULL));
}

static void *map_again(void *arg)
{
	struct watch *w = arg;

	while (!w->stop) {
		void *p = mmap(NULL, 8192, PROT_READ, MAP_SHARED, w->fd, (off_t)w->offset);

		if (p != MAP_FAILED)
			munmap(p, 8192);
	}
	return NULL;
}

/* The last handle is closed at the same time, so that the core drops the dma-buf from its cache. */
static void map_while_closing(void)
{
	struct watch w = { .fd = vm_open() };
	int heap = vm_heap(8192, O_RDONLY);
	uint64_t offset;
	pthread_t thread;

	OK(!pthread_create(&thread, NULL, map_again, &w));
	for (unsigned int i = 0; i < ROUNDS; i++) {
		OK(!vm_import(w.fd, heap, &w.handle));
		OK(!vm_map_offset(w.fd, w.handle, &offset));
		w.offset = offset;
		vm_close_handle(w.fd, w.handle);
	}
	w.stop = true;
	OK(!pthread_join(thread, NULL));
}

/* The descriptor or the handle is replaced after the driver checked it. */
static void bad_imports(void)
{
	int fd = vm_open(), plain = memfd_create("plain", MFD_CLOEXEC);
	uint32_t handle;

	FAILS(vm_import(fd, plain, &handle), EINVAL);
	FAILS(vm_import(fd, -1, &handle), EBADF);
	FAILS(vm_import(fd, fd, &handle), EINVAL);
}

const struct vm_test vm_prime_tests[] = {
	{ "prime_writable",
	  "a buffer that two files share is one memory, with one handle in each file",
	  share_writable },
	{ "prime_readonly",
	  "a read-only export can be neither mapped, bound nor "
	  "exported writable, also after further exports",
	  readonly_own },
	{ "prime_rights",
	  "rights belong to a handle: two handles of one buffer in one file stay separate",
	  readonly_beside_writable },
	{ "prime_udmabuf", "the device writes scattered pages of another exporter in place",
	  import_udmabuf },
	{ "prime_heap_readonly", "another exporter's read-only dma-buf stays read-only",
	  import_readonly_heap },
	{ "prime_after_own",
	  "a read-only import is read-only from the start, also if "
	  "the file had a writable handle before",
	  import_after_own },
	{ "prime_twice", "a race that makes a second writable dma-buf of one buffer does no harm",
	  export_twice },
	{ "prime_map_close",
	  "an import that loses its last handle while it is being mapped stays valid memory",
	  map_while_closing },
	{ "prime_bad", "a descriptor that is no dma-buf is refused", bad_imports },
	{ 0 },
};
