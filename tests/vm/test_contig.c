// SPDX-License-Identifier: MIT
/* Contiguous buffers: their flag, their bytes, jobs on them, and their life after an unbind. */
#include "vm.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES  (256u << 10)
#define COPIED (32u << 10)	/* fits the input scratchpad */

/* A contiguous buffer of @size bytes, mapped. */
static struct vm_buf contig_new(int fd, uint64_t size, uint32_t flags)
{
	struct drm_rivulet_bo_create c = { .size = size,
					   .flags = DRM_RIVULET_BO_CONTIGUOUS | flags };
	struct vm_buf b = { .fd = fd };

	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &c));
	b.handle = c.handle;
	b.size = c.size;
	vm_buf_map(&b);
	return b;
}

static bool all_zero(const struct vm_buf *b)
{
	for (uint64_t i = 0; i < b->size; i++)
		if (b->map[i])
			return false;
	return true;
}

/* A job from one contiguous buffer to another; the device needs no page list for either. */
static void job(void)
{
	int fd = vm_open();
	long lists = vm_objects("list_bytes");
	uint32_t sync = vm_sync_new(fd);
	struct vm_buf from = contig_new(fd, BYTES, 0), to = contig_new(fd, BYTES, 0), code;
	struct vm_job j;

	EQ(vm_objects("list_bytes"), lists);
	OK(vm_buf_flags(fd, from.handle) & DRM_RIVULET_BO_CONTIGUOUS);
	code = vm_buf_new(fd, 4096);
	OK(!(vm_buf_flags(fd, code.handle) & DRM_RIVULET_BO_CONTIGUOUS));
	OK(all_zero(&from) && all_zero(&to));
	vm_noise(from.map, BYTES, 7);
	vm_copy_job(&j, &code, &from, &to, COPIED);
	vm_job_out(&j, sync, 0);
	OK(!vm_submit(fd, &j));
	EQ(vm_sync_result(fd, sync), 0);
	OK(!memcmp(from.map, to.map, COPIED));
}

/* A new buffer shows no bytes of a freed one, whatever run of pages it gets. */
static void zeroed(void)
{
	int fd = vm_open();

	for (int round = 0; round < 8; round++) {
		struct vm_buf b = contig_new(fd, BYTES, round % 2 ? DRM_RIVULET_BO_CACHED : 0);

		OK(all_zero(&b));
		memset(b.map, 0xa5, b.size);
		vm_buf_free(&b);
	}
}

/* Flags that contradict each other, and a run of pages that no machine of the tests has. */
static void refused(void)
{
	struct drm_rivulet_bo_create c = { .size = 4096,
					   .flags = DRM_RIVULET_BO_CONTIGUOUS | DRM_RIVULET_BO_WC };
	int fd = vm_open();
	long buffers = vm_objects("buffers");

	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &c), EINVAL);
	c.flags = 2 * DRM_RIVULET_BO_CONTIGUOUS;
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &c), EINVAL);
	c.flags = DRM_RIVULET_BO_CONTIGUOUS;
	c.size = 256 << 20;
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &c), ENOMEM);
	EQ(vm_objects("buffers"), buffers);
}

/* Mapped and shared when the device is unbound: the bytes stay, and the pages are freed later. */
static void outlives_device(void)
{
	int fd = vm_open(), given;
	struct vm_buf own = contig_new(fd, BYTES, 0);
	struct vm_client c;
	uint8_t *seen;
	char device[64];

	vm_device_name(device);
	OK(!vm_export(fd, own.handle, DRM_RDWR, &given));
	vm_noise(own.map, own.size, 1);
	vm_driver_file("unbind", device);
	seen = mmap(NULL, own.size, PROT_READ | PROT_WRITE, MAP_SHARED, given, 0);
	OK(seen != MAP_FAILED && !memcmp(seen, own.map, own.size));
	vm_driver_file("bind", device);
	munmap(seen, own.size);
	munmap(own.map, own.size);
	close(given);
	close(fd);
	c = vm_client();
	vm_client_submit(&c, 1);
	vm_client_good(&c);
}

const struct vm_test vm_contig_tests[] = {
	{ "contig_job", "jobs run on contiguous buffers without a page list", job },
	{ "contig_zeroed", "a new contiguous buffer never shows the memory of a freed one",
	  zeroed },
	{ "contig_refused", "contradicting flags are EINVAL, and too long a run of pages is ENOMEM",
	  refused },
	{ "contig_unbind", "a contiguous buffer outlives the binding of its device",
	  outlives_device },
	{ 0 },
};
