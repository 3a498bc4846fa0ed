// SPDX-License-Identifier: MIT
/*
 * The client library: the node against a fake driver (umockdev answers the ioctls), the socket against a
 * daemon of this file that answers rightly, or wrongly in one chosen way.
 */
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <umockdev.h>
#include <unistd.h>

#include "rivulet.h"
#include "rivulet_proto.h"

/* ---- the fake driver ---- */

#define NODE "/dev/accel/accel0"

static struct {
	UMockdevTestbed *bed;
	UMockdevIoctlBase *io;
	const char *driver;
	int major;
	uint32_t handles;		/* created so far */
	uint32_t open_handles;
	uint32_t readonly_handle;
	uint32_t refuse_job;		/* index, or UINT32_MAX */
	struct drm_rivulet_job job;	/* last one submitted */
	struct drm_rivulet_region region[RIVULET_SLOTS];
	uint32_t syncobjs;
	int export_error, map_error;	/* errno, or 0 */
	int memory;			/* what every export gives, duplicated; or -1 */
} fake;

static void *field(UMockdevIoctlData *d)
{
	return d->data;
}

static void reply(UMockdevIoctlData *d, const void *bytes, size_t size)
{
	umockdev_ioctl_data_update(d, 0, (guint8 *)(uintptr_t)bytes, (gint)size);
}

static void put_string(UMockdevIoctlData *d, size_t pointer_at, const char *s)
{
	g_autoptr(UMockdevIoctlData) p = umockdev_ioctl_data_resolve(d, pointer_at, strlen(s), NULL);

	if (p)
		reply(p, s, strlen(s));
}

static void do_version(UMockdevIoctlData *d)
{
	struct drm_version v = *(struct drm_version *)field(d);

	if (v.name_len) {
		put_string(d, offsetof(struct drm_version, name), fake.driver);
		put_string(d, offsetof(struct drm_version, date), "-");
		put_string(d, offsetof(struct drm_version, desc), "-");
	}
	v.version_major = fake.major;
	v.name_len = strlen(fake.driver);
	v.date_len = v.desc_len = 1;
	reply(d, &v, sizeof(v));
}

static void do_query(UMockdevIoctlData *d)
{
	struct drm_rivulet_query q = *(struct drm_rivulet_query *)field(d);
	struct drm_rivulet_device dev = { .dev_version = RIVULET_DEV_VERSION, .tm = 16, .tn = 16,
		.dn = 4, .level_count = 2, .level = { { .hz = 100 }, { .hz = 200 } },
		.name = "fake", .current_level = 1 };
	struct drm_rivulet_counters c = { .value = { 11, 22 }, .epoch = 3 };
	const void *from = q.type == DRM_RIVULET_QUERY_DEVICE ? (void *)&dev : (void *)&c;
	size_t size = q.type == DRM_RIVULET_QUERY_DEVICE ? sizeof(dev) : sizeof(c);
	g_autoptr(UMockdevIoctlData) p = umockdev_ioctl_data_resolve(d,
		offsetof(struct drm_rivulet_query, pointer), q.size < size ? q.size : size, NULL);

	reply(p, from, q.size < size ? q.size : size);
}

static int do_create(UMockdevIoctlData *d)
{
	struct drm_rivulet_bo_create c = *(struct drm_rivulet_bo_create *)field(d);

	if (c.size > 1 << 20)
		return ENOMEM;
	c.size = (c.size + 4095) / 4096 * 4096;
	c.handle = ++fake.handles;
	fake.open_handles++;
	reply(d, &c, sizeof(c));
	return 0;
}

static int do_info(UMockdevIoctlData *d)
{
	struct drm_rivulet_bo_info i = *(struct drm_rivulet_bo_info *)field(d);

	i.size = 8192;
	i.flags = DRM_RIVULET_BO_IMPORTED;
	if (i.handle == fake.readonly_handle)
		i.flags |= DRM_RIVULET_BO_READONLY;
	reply(d, &i, sizeof(i));
	return 0;
}

/* The handle that a dma-buf stands for is its fd number + 1000; fd 3 is none. */
static int do_import(UMockdevIoctlData *d)
{
	struct drm_prime_handle h = *(struct drm_prime_handle *)field(d);

	if (h.fd < 0)
		return EBADF;
	h.handle = (uint32_t)h.fd + 1000;
	fake.open_handles++;
	reply(d, &h, sizeof(h));
	return 0;
}

static int do_submit(UMockdevIoctlData *d)
{
	struct drm_rivulet_submit s = *(struct drm_rivulet_submit *)field(d);
	g_autoptr(UMockdevIoctlData) j = umockdev_ioctl_data_resolve(d,
		offsetof(struct drm_rivulet_submit, jobs), s.count * s.stride, NULL);
	struct drm_rivulet_job job = *(struct drm_rivulet_job *)field(j);
	g_autoptr(UMockdevIoctlData) r = job.region_count ? umockdev_ioctl_data_resolve(j,
		offsetof(struct drm_rivulet_job, regions),
		job.region_count * sizeof(fake.region[0]), NULL) : NULL;

	fake.job = job;
	if (r)
		memcpy(fake.region, field(r), job.region_count * sizeof(fake.region[0]));
	if (fake.refuse_job < s.count) {
		struct drm_rivulet_job bad;

		memcpy(&bad, (char *)field(j) + fake.refuse_job * s.stride, sizeof(bad));
		bad.error = -ENOSPC;
		umockdev_ioctl_data_update(j, fake.refuse_job * s.stride, (guint8 *)&bad, sizeof(bad));
		s.queued = fake.refuse_job;
		reply(d, &s, sizeof(s));
		return EINVAL;
	}
	s.queued = s.count;
	reply(d, &s, sizeof(s));
	return 0;
}

static int do_syncobj(UMockdevIoctlData *d, gulong request)
{
	struct drm_syncobj_create c;

	if (request == DRM_IOCTL_SYNCOBJ_DESTROY) {
		fake.syncobjs--;
		return 0;
	}
	if (request == DRM_IOCTL_SYNCOBJ_WAIT)
		return ((struct drm_syncobj_wait *)field(d))->timeout_nsec ? 0 : ETIME;
	c = *(struct drm_syncobj_create *)field(d);
	c.handle = 70 + fake.syncobjs++;
	reply(d, &c, sizeof(c));
	return 0;
}

static int do_export(UMockdevIoctlData *d)
{
	struct drm_prime_handle h = *(struct drm_prime_handle *)field(d);

	/* Foreign memory that is writable is not offered read-only, as the driver has it. */
	if (fake.export_error && !(h.flags & DRM_RDWR))
		return fake.export_error;
	h.fd = dup(fake.memory);
	reply(d, &h, sizeof(h));
	return 0;
}

static int do_map(UMockdevIoctlData *d)
{
	struct drm_rivulet_bo_map m = *(struct drm_rivulet_bo_map *)field(d);

	m.offset = 0;
	reply(d, &m, sizeof(m));
	return fake.map_error;
}

static int do_sync_file(UMockdevIoctlData *d)
{
	struct drm_syncobj_handle h = *(struct drm_syncobj_handle *)field(d);

	if (!fake.job.region_count)
		return EINVAL;	/* nothing was submitted */
	h.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	reply(d, &h, sizeof(h));
	return 0;
}

static int answer_ioctl(UMockdevIoctlData *d, gulong request)
{
	switch (request) {
	case DRM_IOCTL_VERSION: do_version(d); return 0;
	case DRM_IOCTL_RIVULET_QUERY: do_query(d); return 0;
	case DRM_IOCTL_RIVULET_BO_CREATE: return do_create(d);
	case DRM_IOCTL_RIVULET_BO_INFO: return do_info(d);
	case DRM_IOCTL_RIVULET_SUBMIT: return do_submit(d);
	case DRM_IOCTL_PRIME_FD_TO_HANDLE: return do_import(d);
	case DRM_IOCTL_PRIME_HANDLE_TO_FD: return do_export(d);
	case DRM_IOCTL_RIVULET_BO_MAP: return do_map(d);
	case DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD: return do_sync_file(d);
	case DRM_IOCTL_GEM_CLOSE: fake.open_handles--; return 0;
	case DRM_IOCTL_SYNCOBJ_CREATE:
	case DRM_IOCTL_SYNCOBJ_DESTROY:
	case DRM_IOCTL_SYNCOBJ_WAIT: return do_syncobj(d, request);
	default: return ENOTTY;
	}
}

static gboolean on_ioctl(UMockdevIoctlBase *io, UMockdevIoctlClient *client, gpointer data)
{
	gulong request = umockdev_ioctl_client_get_request(client);
	UMockdevIoctlData *arg = umockdev_ioctl_client_get_arg(client);
	g_autoptr(UMockdevIoctlData) d = umockdev_ioctl_data_resolve(arg, 0, request >> 16 & 0x3fff, NULL);
	int err = d ? answer_ioctl(d, request) : EFAULT;

	(void)io;
	(void)data;
	umockdev_ioctl_client_complete(client, err ? -1 : 0, err);
	return TRUE;
}

static void driver_setup(void)
{
	g_autoptr(GError) e = NULL;

	fake.driver = "rivulet";
	fake.major = 1;
	fake.refuse_job = UINT32_MAX;
	fake.memory = -1;
	fake.bed = umockdev_testbed_new();
	ck_assert(umockdev_testbed_add_from_string(fake.bed,
		"P: /devices/pci0000:00/0000:00:04.0/accel/accel0\nN: accel/accel0\n"
		"E: SUBSYSTEM=accel\nE: DEVNAME=/dev/accel/accel0\n", &e));
	fake.io = umockdev_ioctl_base_new();
	g_signal_connect(fake.io, "handle-ioctl", G_CALLBACK(on_ioctl), NULL);
	ck_assert(umockdev_testbed_attach_ioctl(fake.bed, NODE, fake.io, &e));
}

static void driver_teardown(void)
{
	ck_assert_uint_eq(fake.open_handles, 0);
	ck_assert_uint_eq(fake.syncobjs, 0);
	umockdev_testbed_detach_ioctl(fake.bed, NODE, NULL);
	g_object_unref(fake.io);
	g_object_unref(fake.bed);
}

static struct rivulet_device *device(void)
{
	struct rivulet_device *dev;

	ck_assert_msg(!rivulet_device_open(NODE, &dev), "%s", rivulet_last_error());
	return dev;
}

START_TEST(opens)
{
	struct drm_rivulet_counters c;
	struct drm_rivulet_device q;
	struct rivulet_device *dev, *other;

	ck_assert_msg(!rivulet_device_open(NULL, &dev), "%s", rivulet_last_error());
	ck_assert_str_eq(rivulet_device_path(dev), NODE);
	ck_assert_str_eq(rivulet_device_info(dev)->name, "fake");
	ck_assert(!rivulet_device_query(dev, &q) && q.current_level == 1 && q.level[1].hz == 200);
	ck_assert(!rivulet_device_counters(dev, &c) && c.value[1] == 22 && c.epoch == 3);
	/* A duplicate is beyond umockdev; the VM's tests open one. */
	ck_assert_int_eq(rivulet_device_open_fd(-1, &other), -EBADF);
	ck_assert_int_eq(rivulet_device_open_fd(0, &other), -ENODEV);
	ck_assert_ptr_eq(rivulet_device_ref(dev), dev);
	rivulet_device_unref(dev);
	ck_assert_ptr_null(rivulet_device_unref(dev));
	ck_assert_ptr_null(rivulet_device_unref(NULL));
}
END_TEST

START_TEST(strangers)
{
	struct rivulet_device *dev;

	ck_assert_int_eq(rivulet_device_open("/dev/accel/accel7", &dev), -ENOENT);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "accel7"));
	ck_assert_int_eq(rivulet_device_open("/dev/null", &dev), -ENODEV);
	fake.driver = "intel_vpu";
	ck_assert_int_eq(rivulet_device_open(NODE, &dev), -ENODEV);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "intel_vpu"));
	ck_assert_int_eq(rivulet_device_open(NULL, &dev), -ENODEV);
	fake.driver = "rivulet";
	fake.major = 2;
	ck_assert_int_eq(rivulet_device_open(NODE, &dev), -EPROTO);
	ck_assert_int_eq(rivulet_device_open(NULL, &dev), -EPROTO);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "2.0"));
}
END_TEST

/* One handle, one buffer: however often a dma-buf comes in, the handle is closed once, at the end. */
START_TEST(buffers)
{
	struct rivulet_device *dev = device();
	struct rivulet_buffer *a, *b, *c;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ck_assert(!rivulet_buffer_create(dev, 5000, &a));
	ck_assert_uint_eq(rivulet_buffer_size(a), 8192);
	ck_assert_int_eq(rivulet_buffer_create(dev, 0, &b), -EINVAL);
	ck_assert_int_eq(rivulet_buffer_create(dev, 1ull << 40, &b), -EINVAL);
	ck_assert_int_eq(rivulet_buffer_create(dev, 2 << 20, &b), -ENOMEM);
	fake.readonly_handle = (uint32_t)fd + 1000;
	ck_assert(!rivulet_buffer_import(dev, fd, &b));
	ck_assert(rivulet_buffer_flags(b) & DRM_RIVULET_BO_READONLY);
	ck_assert_int_eq(rivulet_buffer_export(b, true, &fd), -EACCES);
	fake.readonly_handle = 0;	/* the same, imported writable now */
	ck_assert(!rivulet_buffer_import(dev, fd, &c));
	ck_assert_ptr_eq(b, c);
	ck_assert(!(rivulet_buffer_flags(b) & DRM_RIVULET_BO_READONLY));
	ck_assert_int_eq(rivulet_buffer_import(dev, -1, &c), -EBADF);
	fake.open_handles--;	/* the kernel counts a handle once, the fake counted the second import */
	rivulet_buffer_unref(b);
	ck_assert_uint_eq(fake.open_handles, 2);
	rivulet_buffer_unref(b);
	ck_assert_uint_eq(fake.open_handles, 1);
	/* A buffer keeps its device. */
	rivulet_device_unref(dev);
	ck_assert_ptr_null(rivulet_buffer_unref(a));
	ck_assert_uint_eq(fake.open_handles, 0);
	close(fd);
}
END_TEST

START_TEST(jobs)
{
	struct rivulet_device *dev = device();
	struct drm_rivulet_job job[2] = { { .region_count = 0 }, { .region_count = 0 } };
	struct rivulet_fence *f;
	uint32_t queued;

	ck_assert(!rivulet_fence_new(dev, &f));
	ck_assert_uint_eq(rivulet_fence_handle(f), 70);
	ck_assert_int_eq(rivulet_fence_wait(f, 0), -ETIME);
	ck_assert_int_eq(rivulet_fence_wait(f, INT64_MAX), 0);
	ck_assert_int_lt(rivulet_fence_status(0), 0);
	ck_assert_int_eq(rivulet_device_submit(dev, job, 2, &queued), 0);
	ck_assert_uint_eq(queued, 2);
	fake.refuse_job = 1;
	ck_assert_int_eq(rivulet_device_submit(dev, job, 2, &queued), -ENOSPC);
	ck_assert_uint_eq(queued, 1);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "job 1 of 2"));
	ck_assert_int_eq(rivulet_device_submit(dev, job, 0, NULL), -EINVAL);
	ck_assert_int_eq(rivulet_device_submit(dev, job, 65, NULL), -EINVAL);
	ck_assert_ptr_null(rivulet_fence_unref(f));
	rivulet_device_unref(dev);
}
END_TEST

/* A job from an NPU step: slots by the house's convention, writable as the step says. */
START_TEST(job_of_step)
{
	static struct {
		struct rivulet_program p;
		struct rivulet_step s[2];
	} file = { .p = { .steps = 2, .inputs = 1, .outputs = 1 } };
	struct rivulet_device *dev = device();
	struct rivulet_buffer *b[4];
	struct drm_rivulet_region region[RIVULET_SLOTS];
	struct drm_rivulet_variant variant[RIVULET_LEVELS];
	struct drm_rivulet_job job;
	struct rivulet_fence *f;
	int fd;

	ck_assert(!rivulet_fence_new(dev, &f));
	ck_assert_int_eq(rivulet_fence_fd(f, &fd), -EINVAL);
	file.p.steps_off = offsetof(typeof(file), s);
	file.s[0].kind = RIVULET_STEP_CPU;
	file.s[1] = (struct rivulet_step) { .kind = RIVULET_STEP_NPU, .slots = 0xf, .writes_mask = 0xa,
		.min_level = 1, .variant = { [1] = { .offset = 128, .length = 64 } } };
	for (int i = 0; i < 4; i++)
		ck_assert(!rivulet_buffer_create(dev, 4096, &b[i]));
	ck_assert_int_eq(rivulet_job_from_step(&file.p, 0, b[0], b[1], b + 2, 2, NULL, 0, &job, region,
					       variant), -EINVAL);
	ck_assert_int_eq(rivulet_job_from_step(&file.p, 2, b[0], b[1], b + 2, 2, NULL, 0, &job, region,
					       variant), -EINVAL);
	ck_assert_int_eq(rivulet_job_from_step(&file.p, 1, b[0], NULL, b + 2, 2, NULL, 0, &job, region,
					       variant), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "slot 1"));
	ck_assert_int_eq(rivulet_job_from_step(&file.p, 1, b[0], b[1], b + 2, 2, NULL, 0, &job, region,
					       variant), 0);
	ck_assert_uint_eq(job.report_slot, DRM_RIVULET_NO_REPORT);
	ck_assert_int_eq(rivulet_job_from_step(&file.p, 1, b[0], b[1], b + 2, 2, b[1], 512, &job, region,
					       variant), 0);
	ck_assert_int_eq(rivulet_device_submit(dev, &job, 1, NULL), 0);
	ck_assert_uint_eq(fake.job.region_count, 5);
	ck_assert_uint_eq(fake.job.variant_count, 2);
	ck_assert_uint_eq(fake.job.min_level, 1);
	ck_assert_uint_eq(fake.job.report_offset, 512);
	ck_assert(!rivulet_fence_fd(f, &fd) && fd >= 0);
	close(fd);
	rivulet_fence_unref(f);
	for (uint32_t i = 0; i < 5; i++) {
		static const uint32_t slot[] = { 0, 1, 2, 3, 15 }, write[] = { 0, 1, 0, 1, 1 };

		ck_assert_uint_eq(fake.region[i].slot, slot[i]);
		ck_assert_uint_eq(fake.region[i].flags, write[i]);
		ck_assert_uint_eq(fake.region[i].size, 4096);
	}
	for (int i = 0; i < 4; i++)
		rivulet_buffer_unref(b[i]);
	rivulet_device_unref(dev);
}
END_TEST

/* A refused mapping says which buffer. (umockdev's node cannot be mapped; the VM's tests map.) */
START_TEST(maps)
{
	struct rivulet_device *dev = device();
	struct rivulet_buffer *b;
	void *p;

	ck_assert(!rivulet_buffer_create(dev, 4096, &b));
	fake.map_error = EPERM;
	ck_assert_int_eq(rivulet_buffer_map(b, &p), -EPERM);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "4096 bytes"));
	fake.map_error = 0;
	ck_assert_int_eq(rivulet_buffer_map(b, &p), -ENODEV);
	ck_assert_ptr_eq(rivulet_buffer_ref(b), b);
	rivulet_buffer_unref(b);
	rivulet_buffer_unref(b);
	rivulet_device_unref(dev);
}
END_TEST

/* ---- the fake daemon ---- */

enum fault {
	NONE, SHORT, LONG, WRONG_TYPE, OTHER_SERIAL, EXTRA_FD, SIZE_LIE, MANY, CLOSED, ERRNO, NO_END,
	VERSION, RESERVED, SILENT, GOODBYE, DIM_OVERFLOW, FAULTS
};

static const struct { uint16_t at; int want; } faults[FAULTS] = {
	[NONE] = { 0, 0 }, [SHORT] = { RIVULET_MSG_TENSOR, -EBADMSG },
	[LONG] = { RIVULET_MSG_LOAD, -EBADMSG }, [WRONG_TYPE] = { RIVULET_MSG_TENSOR, -EBADMSG },
	[OTHER_SERIAL] = { RIVULET_MSG_TENSOR, 0 }, [EXTRA_FD] = { RIVULET_MSG_TENSOR, -EBADMSG },
	[SIZE_LIE] = { RIVULET_MSG_TENSOR, -EBADMSG }, [MANY] = { RIVULET_MSG_LOAD, -EBADMSG },
	[CLOSED] = { RIVULET_MSG_LOAD, -ECONNRESET }, [ERRNO] = { RIVULET_MSG_LOAD, -EOPNOTSUPP },
	[NO_END] = { RIVULET_MSG_TENSOR, -EBADMSG }, [VERSION] = { RIVULET_MSG_HELLO, -EPROTO },
	[RESERVED] = { RIVULET_MSG_TENSOR, 0 }, [SILENT] = { RIVULET_MSG_LOAD, -ETIMEDOUT },
	[GOODBYE] = { RIVULET_MSG_LOAD, -EPERM }, [DIM_OVERFLOW] = { RIVULET_MSG_TENSOR, -EBADMSG },
};

#define WAIT_MS 60000	/* for an answer that comes; sanitizers and a busy machine are slow */
#define BYTES 256	/* of the one input and the one output */

static struct daemon {
	enum fault fault;
	int listener;
	char path[108];
	pthread_t thread;
	int bound[2];		/* memfds of input and output */
	uint64_t offset[2];
	bool hold;		/* RUN is answered only after CANCEL */
	uint32_t held, loads, closes, unloads, priority;
	uint64_t deadline;
	char name[RIVULET_NAME_MAX];
	int give;		/* passed with the answers to LOAD and STATUS, or -1 */
} dm;

static void send_packet(int fd, void *p, size_t size, int pass)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { p, size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (pass >= 0) {
		m.msg_control = control.buf;
		m.msg_controllen = sizeof(control.buf);
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &pass, sizeof(pass));
	}
	sendmsg(fd, &m, MSG_NOSIGNAL);
}

static int receive_packet(int fd, union rivulet_packet *p)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { p, sizeof(*p) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };
	int got = -1;
	ssize_t n;

	/* A client that leaves answers unread resets the connection; what it sent before is still there. */
	do {
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == ECONNRESET);
	if (n <= 0)
		return -2;
	if (CMSG_FIRSTHDR(&m))
		memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(got));
	return got;
}

/* Output byte = input byte + 1. */
static void compute(void)
{
	uint8_t b[BYTES];

	if (pread(dm.bound[0], b, BYTES, (off_t)dm.offset[0]) != BYTES)
		return;
	for (int i = 0; i < BYTES; i++)
		b[i]++;
	if (pwrite(dm.bound[1], b, BYTES, (off_t)dm.offset[1]) != BYTES)
		return;
}

static void fill_reply(const union rivulet_packet *q, union rivulet_packet *a, int got)
{
	switch (q->h.type) {
	case RIVULET_MSG_HELLO:
		a->hello_reply.version = dm.fault == VERSION ? 9 : 1;
		a->hello_reply.max_model = 1 << 20;
		strcpy(a->hello_reply.daemon, "0.1-test");
		strcpy(a->hello_reply.board, "fake");
		memcpy(dm.name, q->hello.name, sizeof(dm.name));
		break;
	case RIVULET_MSG_LOAD:
		dm.loads++;
		a->load_reply.inputs = dm.fault == MANY ? 1000000 : 1;
		a->load_reply.outputs = 1;
		a->load_reply.model = 5;
		/* Sealed as the protocol demands, and as long as it says. */
		if ((fcntl(got, F_GET_SEALS) & 7) != 7 ||
		    (uint64_t)lseek(got, 0, SEEK_END) != q->load.size)
			a->load_reply.model = 666;
		break;
	case RIVULET_MSG_TENSOR:
		strcpy(a->tensor_reply.name, q->tensor.dir ? "out" : "in");
		a->tensor_reply.dtype = RIVULET_U8;
		a->tensor_reply.ndim = 2;
		a->tensor_reply.dim[0] = 4;
		a->tensor_reply.dim[1] = 64;
		a->tensor_reply.size = dm.fault == SIZE_LIE ? 1 << 30 : BYTES;
		if (dm.fault == DIM_OVERFLOW) {
			a->tensor_reply.dim[0] = 1ull << 33;
			a->tensor_reply.dim[1] = 1ull << 33;
			a->tensor_reply.size = 0;
		}
		a->tensor_reply.scale = 0.5f;
		a->tensor_reply.zero_point = 3;
		if (dm.fault == NO_END)
			memset(a->tensor_reply.name, 'x', sizeof(a->tensor_reply.name));
		a->tensor_reply.rsvd[1] = dm.fault == RESERVED;
		break;
	case RIVULET_MSG_OPEN:
		a->instance.instance = 9;
		break;
	case RIVULET_MSG_BIND:
		close(dm.bound[q->bind.dir]);
		dm.bound[q->bind.dir] = dup(got);
		dm.offset[q->bind.dir] = q->bind.offset;
		break;
	case RIVULET_MSG_RUN:
		dm.priority = q->run.priority;
		dm.deadline = q->run.deadline;
		compute();
		a->run_reply.cycles = 77;
		a->run_reply.flags = RIVULET_RAN_LATE;
		break;
	case RIVULET_MSG_STATUS: a->status_reply.size = 4; break;
	case RIVULET_MSG_CLOSE: dm.closes++; break;
	case RIVULET_MSG_UNLOAD: dm.unloads++; break;
	}
}

static void send_error(int fd, uint32_t serial, uint16_t version, int error)
{
	union rivulet_packet e;

	rivulet_proto_init(&e, RIVULET_MSG_ERROR, version, serial);
	e.h.error = error;
	strcpy(e.error.text, "node \"Loop_7\" (Loop): no such operator here");
	send_packet(fd, &e, e.h.length, -1);
}

/* Sends the answer, bent in the chosen way. False: the connection ends. */
static bool send_answer(int fd, const union rivulet_packet *q, union rivulet_packet *a)
{
	enum fault f = faults[dm.fault].at == q->h.type ? dm.fault : NONE;
	size_t size = a->h.length;

	if (f == SHORT)
		size -= 4;
	if (f == LONG)
		size += 4;
	if (f == WRONG_TYPE)
		size = rivulet_proto_init(a, RIVULET_MSG_PING | RIVULET_REPLY, 1, q->h.serial);
	if (f == OTHER_SERIAL) {
		union rivulet_packet other = *a;

		other.h.serial += 100;
		send_packet(fd, &other, size, -1);
	}
	if (f == ERRNO || f == GOODBYE)
		send_error(fd, f == ERRNO ? q->h.serial : 0, 1, faults[f].want);
	else if (f != CLOSED && f != SILENT)
		send_packet(fd, a, size, f == EXTRA_FD ? 0 : q->h.type == RIVULET_MSG_LOAD ||
			    q->h.type == RIVULET_MSG_STATUS ? dm.give : -1);
	return f != CLOSED && f != GOODBYE;
}

static void *serve(void *arg)
{
	int fd = accept(dm.listener, NULL, NULL);
	union rivulet_packet q, a;
	int got;

	(void)arg;
	while ((got = receive_packet(fd, &q)) != -2) {
		char why[200];
		bool more = true;

		/* Our own requests must be well formed, whatever the answers are. */
		if (rivulet_proto_check(&q, q.h.length, got >= 0, true,
					q.h.type == RIVULET_MSG_HELLO ? 0 : 1, why, sizeof(why)))
			abort();
		rivulet_proto_init(&a, q.h.type | RIVULET_REPLY, q.h.version, q.h.serial);
		fill_reply(&q, &a, got);
		if (got >= 0)
			close(got);
		if (q.h.type == RIVULET_MSG_RUN && dm.hold)
			dm.held = q.h.serial;
		else
			more = send_answer(fd, &q, &a);
		if (q.h.type == RIVULET_MSG_CANCEL)
			send_error(fd, dm.held, 1, -ECANCELED);
		if (!more)
			break;
	}
	close(fd);
	return NULL;
}

static void daemon_start(enum fault fault)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	dm = (struct daemon) { .fault = fault, .bound = { -1, -1 }, .give = -1 };
	snprintf(dm.path, sizeof(dm.path), "/tmp/rvl-test-%d", getpid());
	strcpy(a.sun_path, dm.path);
	unlink(dm.path);
	dm.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert(!bind(dm.listener, (struct sockaddr *)&a, sizeof(a)) && !listen(dm.listener, 1));
	ck_assert(!pthread_create(&dm.thread, NULL, serve, NULL));
}

static void daemon_stop(void)
{
	pthread_join(dm.thread, NULL);
	close(dm.listener);
	close(dm.bound[0]);
	close(dm.bound[1]);
	unlink(dm.path);
}

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Every wrong answer is one error, and leaves no descriptor behind; two strange ones are tolerated. */
START_TEST(wrong_answers)
{
	/* Short only where it is waited for in vain. */
	struct rivulet_load_options o = { .timeout_ms = _i == SILENT ? 300 : WAIT_MS };
	struct rivulet_client *c = NULL;
	struct rivulet_model *m = NULL;
	int before = count_fds(), r;

	daemon_start((enum fault)_i);
	r = rivulet_open(dm.path, &c);
	if (!r)
		r = rivulet_model_load_memory(c, "onnx", 4, &o, &m);
	ck_assert_msg(r == faults[_i].want, "fault %d: %d (%s), not %d", _i, r, rivulet_last_error(),
		      faults[_i].want);
	if (r)
		ck_assert_uint_gt(strlen(rivulet_last_error()), 8);
	if (_i == ERRNO) {
		ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "Loop_7"));
		ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), 0);	/* the connection lives on */
	}
	if (r == -EBADMSG)
		ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), -EBADMSG);
	rivulet_model_unref(m);
	rivulet_client_unref(c);
	daemon_stop();
	ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(whole_way)
{
	struct rivulet_tensor_info t;
	struct rivulet_run_options o = { .deadline = 123456789012345, .priority = 1 };
	struct rivulet_run_stats stats;
	struct rivulet_daemon_info info;
	struct rivulet_client *c;
	struct rivulet_model *m;
	struct rivulet_request *q;
	uint8_t in[BYTES], out[BYTES];
	int fd = memfd_create("large", MFD_CLOEXEC);
	char large[32];

	snprintf(large, sizeof(large), "/proc/self/fd/%d", fd);
	ck_assert(!ftruncate(fd, 2 << 20));
	daemon_start(NONE);
	ck_assert_msg(!rivulet_open(dm.path, &c), "%s", rivulet_last_error());
	rivulet_client_info(c, &info);
	ck_assert_str_eq(info.version, "0.1-test");
	ck_assert_str_eq(dm.name, program_invocation_short_name);
	ck_assert_int_eq(rivulet_model_load_memory(c, "", 0, NULL, &m), -EINVAL);
	ck_assert_int_eq(rivulet_model_load(c, "/nonexistent", NULL, &m), -ENOENT);
	ck_assert_int_eq(rivulet_model_load(c, "/dev/zero", NULL, &m), -EINVAL);
	ck_assert_int_eq(rivulet_model_load(c, large, NULL, &m), -EFBIG);
	ck_assert_uint_eq(dm.loads, 0);
	ck_assert_msg(!rivulet_model_load_memory(c, "onnx", 4, NULL, &m), "%s", rivulet_last_error());
	ck_assert(!rivulet_model_tensor(m, 0, &t) && !t.output && t.size == BYTES && t.dim[1] == 64);
	ck_assert(!rivulet_model_tensor(m, 1, &t) && t.output && t.zero_point == 3);
	ck_assert_int_eq(rivulet_model_tensor(m, 2, &t), -ERANGE);
	ck_assert_int_eq(rivulet_model_find(m, "out"), 1);
	ck_assert_int_eq(rivulet_model_find(m, "nil"), -ENOENT);
	ck_assert_int_eq(rivulet_model_program(m, &(int){ 0 }), -ENODATA);
	ck_assert(!rivulet_request_new(m, &q));
	ck_assert_int_eq(rivulet_request_start(q, NULL), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "input in"));
	ck_assert_int_eq(rivulet_bind_memory(q, 0, in, BYTES - 1), -EINVAL);
	ck_assert_int_eq(rivulet_bind_memory(q, 2, in, BYTES), -ERANGE);
	ck_assert(!rivulet_bind_memory(q, 0, in, BYTES) && !rivulet_bind_memory(q, 1, out, BYTES));
	ck_assert_int_eq(rivulet_request_stats(q, &stats), -ENODATA);
	for (int round = 0; round < 3; round++) {
		memset(in, 40 + round, BYTES);
		ck_assert_int_eq(rivulet_request_run(q, round ? NULL : &o), 0);
		ck_assert(out[0] == 41 + round && out[BYTES - 1] == 41 + round);
		ck_assert_uint_eq(dm.priority, round ? RIVULET_PRIO_NORMAL : RIVULET_PRIO_HIGH);
		ck_assert_uint_eq(dm.deadline, round ? 0 : 123456789012345);
	}
	ck_assert(!rivulet_request_stats(q, &stats) && stats.cycles == 77 && stats.late);
	o.priority = 2;
	ck_assert_int_eq(rivulet_request_start(q, &o), -EINVAL);
	/* Objects keep what they were made of. */
	rivulet_client_unref(c);
	rivulet_model_unref(m);
	ck_assert_int_eq(rivulet_request_run(q, NULL), 0);
	ck_assert_ptr_null(rivulet_request_unref(q));
	daemon_stop();
	close(fd);
	ck_assert_uint_eq(dm.closes, 1);
	ck_assert_uint_eq(dm.unloads, 1);
}
END_TEST

static struct rivulet_request *request(struct rivulet_client **c, uint8_t *in, uint8_t *out)
{
	struct rivulet_request *q;
	struct rivulet_model *m;

	ck_assert(!rivulet_open(dm.path, c));
	ck_assert(!rivulet_model_load_memory(*c, "onnx", 4, NULL, &m));
	ck_assert(!rivulet_request_new(m, &q));
	rivulet_model_unref(m);
	ck_assert(!rivulet_bind_memory(q, 0, in, BYTES) && !rivulet_bind_memory(q, 1, out, BYTES));
	return q;
}

/* Buffers and dma-bufs reach the daemon as they are; a file is loaded, its program and status come back. */
START_TEST(zero_copy)
{
	struct rivulet_load_options o = { .keep_program = true, .name = "x" };
	struct rivulet_client *c;
	struct rivulet_model *m;
	struct rivulet_request *q;
	struct rivulet_device *dev;
	struct rivulet_buffer *b;
	uint64_t size;
	uint8_t *map;
	int fd;

	driver_setup();
	daemon_start(NONE);
	fake.memory = memfd_create("m", MFD_CLOEXEC);
	dm.give = fake.memory;
	ck_assert(!ftruncate(fake.memory, 4096) && write(fake.memory, "[{}]", 4) == 4);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fake.memory, 0);
	ck_assert(!rivulet_open(dm.path, &c));
	ck_assert(!rivulet_client_status(c, &fd, &size) && size == 4);
	close(fd);
	ck_assert_msg(!rivulet_model_load(c, "models/README", &o, &m), "%s", rivulet_last_error());
	ck_assert(!rivulet_model_program(m, &fd) && lseek(fd, 0, SEEK_END) == 4096);
	close(fd);
	ck_assert(!rivulet_request_new(m, &q));
	dev = device();
	ck_assert(!rivulet_buffer_import(dev, fake.memory, &b));
	fake.export_error = EOPNOTSUPP;
	ck_assert_msg(!rivulet_bind_buffer(q, 0, b, 0), "%s", rivulet_last_error());
	ck_assert(!rivulet_bind_dmabuf(q, 1, fake.memory, 1024));
	ck_assert_int_eq(rivulet_bind_buffer(q, 7, b, 0), -ERANGE);
	rivulet_buffer_unref(b);
	ck_assert_uint_eq(fake.open_handles, 1);	/* the request keeps it */
	memset(map, 9, BYTES);
	ck_assert_int_eq(rivulet_request_run(q, NULL), 0);
	ck_assert(map[1024] == 10 && map[1024 + BYTES - 1] == 10 && !map[1024 + BYTES]);
	fake.export_error = EIO;
	ck_assert(!rivulet_buffer_import(dev, fake.memory, &b));
	fake.open_handles--;
	ck_assert_int_eq(rivulet_bind_buffer(q, 0, b, 0), -EIO);
	rivulet_buffer_unref(b);
	ck_assert_ptr_eq(rivulet_request_ref(q), q);
	rivulet_request_unref(q);
	rivulet_request_unref(q);
	ck_assert_uint_eq(fake.open_handles, 0);
	rivulet_model_unref(m);
	rivulet_client_unref(c);
	rivulet_device_unref(dev);
	daemon_stop();
	munmap(map, 4096);
	close(fake.memory);
	driver_teardown();
}
END_TEST

static int ended;

static void on_done(struct rivulet_request *r, void *data)
{
	ended++;
	ck_assert_ptr_eq(data, &ended);
	ck_assert_int_eq(rivulet_request_result(r), 0);
}

/* One fd to poll; the callback comes from dispatch, also when another call took the answer. */
START_TEST(asynchronous)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	struct rivulet_client *c;
	struct rivulet_request *q;
	struct pollfd p = { .events = POLLIN };

	daemon_start(NONE);
	q = request(&c, in, out);
	p.fd = rivulet_client_fd(c);
	rivulet_request_on_done(q, on_done, &ended);
	ck_assert_int_eq(rivulet_client_dispatch(c), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert(!rivulet_request_start(q, NULL));
	ck_assert_int_eq(rivulet_request_start(q, NULL), -EBUSY);
	ck_assert_int_eq(rivulet_bind_memory(q, 0, in, BYTES), -EBUSY);
	while (!ended) {
		ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
		ck_assert_int_ge(rivulet_client_dispatch(c), 0);
	}
	ck_assert_int_eq(out[0], 2);
	ck_assert(!rivulet_request_start(q, NULL));
	ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), 0);	/* answered after the run */
	ck_assert_int_eq(ended, 1);
	ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
	ck_assert_int_eq(rivulet_client_dispatch(c), 1);
	ck_assert_int_eq(ended, 2);
	rivulet_request_unref(q);
	rivulet_client_unref(c);
	daemon_stop();
}
END_TEST

START_TEST(cancel)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	struct rivulet_client *c;
	struct rivulet_request *q;

	daemon_start(NONE);
	dm.hold = true;
	q = request(&c, in, out);
	ck_assert_int_eq(rivulet_request_cancel(q), -EALREADY);
	ck_assert(!rivulet_request_start(q, NULL));
	ck_assert_int_eq(rivulet_request_wait(q, 50), -ETIMEDOUT);
	ck_assert_int_eq(rivulet_request_result(q), -EINPROGRESS);
	ck_assert(!rivulet_request_cancel(q));
	ck_assert_int_eq(rivulet_request_wait(q, WAIT_MS), -ECANCELED);
	ck_assert_uint_gt(strlen(rivulet_request_error(q)), 3);
	ck_assert_int_eq(out[0], 0);
	/* Dropped in flight: CLOSE goes out, nothing of ours is touched any more. */
	ck_assert(!rivulet_request_start(q, NULL));
	rivulet_request_unref(q);
	rivulet_client_unref(c);
	daemon_stop();
	ck_assert_uint_eq(dm.closes, 1);
}
END_TEST

static void on_lost(struct rivulet_request *r, void *data)
{
	ck_assert_int_eq(rivulet_request_result(r), -ECONNRESET);
	++*(int *)data;
}

/* The daemon dies under a run: the run ends, the fd says so, later calls say why. */
START_TEST(daemon_dies)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	struct rivulet_client *c;
	struct rivulet_request *q;
	struct pollfd p = { .events = POLLIN };
	int lost = 0;

	daemon_start(NONE);
	dm.hold = true;
	q = request(&c, in, out);
	rivulet_request_on_done(q, on_lost, &lost);
	ck_assert(!rivulet_request_start(q, NULL));
	dm.fault = CLOSED;
	/* A LOAD makes this daemon hang up. */
	ck_assert_int_eq(rivulet_model_load_memory(c, "onnx", 4, NULL, &(struct rivulet_model *){ NULL }),
			 -ECONNRESET);
	p.fd = rivulet_client_fd(c);
	ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
	ck_assert_int_eq(rivulet_client_dispatch(c), 1);
	ck_assert_int_eq(lost, 1);
	ck_assert_int_eq(rivulet_client_dispatch(c), -ECONNRESET);
	ck_assert_int_eq(rivulet_request_start(q, NULL), -ECONNRESET);
	rivulet_request_unref(q);
	rivulet_client_unref(c);
	daemon_stop();
}
END_TEST

START_TEST(no_daemon)
{
	struct rivulet_client *c;
	char longer[200];

	ck_assert_int_eq(rivulet_open("/nonexistent/sock", &c), -ENOENT);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "no daemon"));
	memset(longer, 'a', sizeof(longer));
	longer[199] = 0;
	ck_assert_int_eq(rivulet_open(longer, &c), -ENAMETOOLONG);
	setenv(RIVULET_SOCKET_ENV, "/nonexistent/other", 1);
	ck_assert_int_eq(rivulet_open(NULL, &c), -ENOENT);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "/nonexistent/other"));
}
END_TEST

/* Every function of the header is in the shared library, by its version, and nothing else is. */
START_TEST(exports)
{
	void *lib = dlopen(RVL_LIBRIVULET, RTLD_NOW | RTLD_LOCAL);
	FILE *map = fopen("libclient/librivulet.map", "re");
	char line[128], name[128];
	int n = 0;

	ck_assert_msg(lib != NULL, "%s", dlerror());
	while (fgets(line, sizeof(line), map))
		if (sscanf(line, " %127[a-z_0-9];", name) == 1 && !strncmp(name, "rivulet_", 8)) {
			ck_assert_msg(dlvsym(lib, name, "RIVULET_0") != NULL, "%s", name);
			n++;
		}
	ck_assert_int_gt(n, 50);
	ck_assert_ptr_null(dlsym(lib, "rvl_lib_fail"));
	ck_assert_ptr_null(dlsym(lib, "rivulet_crc32c"));
	fclose(map);
	dlclose(lib);
}
END_TEST

/* umockdev works by LD_PRELOAD: start again under it. The sanitizer's runtime need not come first. */
static void under_umockdev(char **argv)
{
	const char *preload = getenv("LD_PRELOAD");

	if (preload && strstr(preload, "libumockdev-preload"))
		return;
	setenv("LD_PRELOAD", "libumockdev-preload.so.0", 1);
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 0);
	execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	Suite *s = suite_create("libclient");
	TCase *node = tcase_create("node"), *socket = tcase_create("socket");
	SRunner *r;
	int failed;

	(void)argc;
	under_umockdev(argv);
	tcase_add_checked_fixture(node, driver_setup, driver_teardown);
	tcase_set_timeout(node, 120);
	tcase_set_timeout(socket, 120);
	tcase_add_test(node, opens);
	tcase_add_test(node, strangers);
	tcase_add_test(node, buffers);
	tcase_add_test(node, jobs);
	tcase_add_test(node, job_of_step);
	tcase_add_test(node, maps);
	tcase_add_loop_test(socket, wrong_answers, 0, FAULTS);
	tcase_add_test(socket, whole_way);
	tcase_add_test(socket, zero_copy);
	tcase_add_test(socket, asynchronous);
	tcase_add_test(socket, cancel);
	tcase_add_test(socket, daemon_dies);
	tcase_add_test(socket, no_daemon);
	tcase_add_test(socket, exports);
	suite_add_tcase(s, node);
	suite_add_tcase(s, socket);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
