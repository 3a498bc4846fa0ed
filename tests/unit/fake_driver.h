/* SPDX-License-Identifier: MIT */
/*
 * The accel node as umockdev simulates it, for tests of the client library. Its ioctls answer,
 * refuse or count.
 */
#ifndef RVL_FAKE_DRIVER_H
#define RVL_FAKE_DRIVER_H

#include <check.h>
#include <dirent.h>
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
#include <unistd.h>

#include "mock.h"
#include "rivulet.h"
#include "rivulet_accel.h"
#include "rivulet_proto.h"

#define NODE "/dev/accel/accel0"

static struct {
	UMockdevTestbed *bed;
	UMockdevIoctlBase *io;
	const char *driver;
	int major;
	uint32_t handles;		/* number of handles created */
	uint32_t open_handles;
	uint32_t readonly_handle;
	uint32_t refuse_job;		/* index of the job that is refused, or UINT32_MAX */
	struct drm_rivulet_job job;	/* the last one submitted */
	struct drm_rivulet_region region[RIVULET_SLOTS];
	uint32_t syncobjs;
	int export_error, map_error;	/* errno, or 0 */
	int memory;			/* file that every export duplicates, or -1 */
	struct drm_rivulet_submit submit;	/* the last one */
	struct drm_rivulet_bo_wait wait;	/* the last one */
	struct drm_rivulet_bo_sync sync;	/* the last one, and its ranges */
	struct drm_rivulet_range range[4];
	uint32_t create_flags;
	uint64_t size[16];		/* sizes of the buffers created, by handle */
	uint32_t monitors, monitor_reads, resets;
	uint32_t queues;		/* number created; bit n of @open_queues: queue n is open */
	uint32_t open_queues;
	int32_t priority;		/* of the last queue created */
	bool no_privilege;		/* refuses QUERY_COUNTERS */
	struct drm_rivulet_device device;	/* answer to QUERY_DEVICE, unless its version is 0 */
	int error;			/* errno of ... */
	gulong error_of;		/* ... this ioctl, or 0 */
} fake;

static void *field(UMockdevIoctlData *d)
{
	return d->data;
}

static int do_query(UMockdevIoctlData *d)
{
	struct drm_rivulet_query q = *(struct drm_rivulet_query *)field(d);
	struct drm_rivulet_device dev = { .dev_version = RIVULET_DEV_VERSION, .tm = 16, .tn = 16,
		.dn = 4, .level_count = 2, .level = { { .hz = 100 }, { .hz = 200 } },
		.name = "fake" };
	struct drm_rivulet_clock clock = { .level = 1, .hz = 200 };
	struct drm_rivulet_counters c = { .jobs = 11, .faults = 22, .resets = 3 };
	struct drm_rivulet_client client = { .flags = DRM_RIVULET_CLIENT_BANNED, .hangs = 4,
					     .energy_pj = 5 };
	const struct { const void *from; size_t size; } answer[] = {
		[DRM_RIVULET_QUERY_DEVICE] = { fake.device.dev_version ? &fake.device : &dev, sizeof(dev) },
		[DRM_RIVULET_QUERY_CLOCK] = { &clock, sizeof(clock) },
		[DRM_RIVULET_QUERY_CLIENT] = { &client, sizeof(client) },
		[DRM_RIVULET_QUERY_COUNTERS] = { &c, sizeof(c) },
	};
	const void *from = answer[q.type].from;
	size_t size = answer[q.type].size;
	g_autoptr(UMockdevIoctlData) p = umockdev_ioctl_data_resolve(d,
		offsetof(struct drm_rivulet_query, pointer), q.size < size ? q.size : size, NULL);

	if (fake.no_privilege && q.type == DRM_RIVULET_QUERY_COUNTERS)
		return EACCES;
	mock_reply(p, from, q.size < size ? q.size : size);
	return 0;
}

static int do_create(UMockdevIoctlData *d)
{
	struct drm_rivulet_bo_create c = *(struct drm_rivulet_bo_create *)field(d);

	if (c.size > 1 << 20)
		return ENOMEM;
	fake.create_flags = c.flags;
	c.size = (c.size + 4095) / 4096 * 4096;
	c.handle = ++fake.handles;
	fake.size[c.handle % 16] = c.size;
	fake.open_handles++;
	mock_reply(d, &c, sizeof(c));
	return 0;
}

static int do_info(UMockdevIoctlData *d)
{
	struct drm_rivulet_bo_info i = *(struct drm_rivulet_bo_info *)field(d);

	i.size = i.handle > 1000 ? 8192 : fake.size[i.handle % 16];
	i.flags = i.handle > 1000 ? DRM_RIVULET_BO_IMPORTED : fake.create_flags & DRM_RIVULET_BO_WC;
	if (i.handle == fake.readonly_handle)
		i.flags |= DRM_RIVULET_BO_READONLY;
	mock_reply(d, &i, sizeof(i));
	return 0;
}

/* The handle of a dma-buf is its fd number + 1000. */
static int do_import(UMockdevIoctlData *d)
{
	struct drm_prime_handle h = *(struct drm_prime_handle *)field(d);

	if (h.fd < 0)
		return EBADF;
	h.handle = (uint32_t)h.fd + 1000;
	fake.open_handles++;
	mock_reply(d, &h, sizeof(h));
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

	fake.submit = s;
	fake.job = job;
	if (r)
		memcpy(fake.region, field(r), job.region_count * sizeof(fake.region[0]));
	s.refused = s.count;
	if (s.queue > 31 || !(fake.open_queues >> s.queue & 1))
		return ENOENT;
	if (fake.refuse_job < s.count) {
		s.refused = fake.refuse_job;
		mock_reply(d, &s, sizeof(s));
		return ENOSPC;
	}
	if (s.flags & DRM_RIVULET_SUBMIT_FENCE_FD)
		s.fence_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	mock_reply(d, &s, sizeof(s));
	return 0;
}

static int do_queue(UMockdevIoctlData *d, gulong request)
{
	struct drm_rivulet_queue_create c;
	uint32_t bit;

	if (request == DRM_IOCTL_RIVULET_QUEUE_DESTROY) {
		bit = 1u << ((struct drm_rivulet_queue_destroy *)field(d))->queue;
		if (!(fake.open_queues & bit))
			return ENOENT;
		fake.open_queues &= ~bit;
		return 0;
	}
	c = *(struct drm_rivulet_queue_create *)field(d);
	if (c.priority > DRM_RIVULET_PRIORITY_NORMAL)
		return EACCES;
	fake.priority = c.priority;
	c.queue = ++fake.queues;
	fake.open_queues |= 1u << c.queue;
	mock_reply(d, &c, sizeof(c));
	return 0;
}

/* Answers that a job of another client uses every buffer until INT64_MAX. */
static int do_wait(UMockdevIoctlData *d)
{
	fake.wait = *(struct drm_rivulet_bo_wait *)field(d);
	return fake.wait.timeout_ns == INT64_MAX ? 0 : ETIME;
}

static int do_sync(UMockdevIoctlData *d)
{
	struct drm_rivulet_bo_sync a = *(struct drm_rivulet_bo_sync *)field(d);
	g_autoptr(UMockdevIoctlData) r = a.count ? umockdev_ioctl_data_resolve(d,
		offsetof(struct drm_rivulet_bo_sync, ranges), a.count * sizeof(fake.range[0]),
			NULL) : NULL;

	fake.sync = a;
	if (r)
		memcpy(fake.range, field(r), a.count * sizeof(fake.range[0]));
	return 0;
}

/*
 * Allows two monitors at most. The values are 7, 17, 27 and so on, one counter fewer than the
 * library knows.
 */
static int do_monitor(UMockdevIoctlData *d, gulong request)
{
	struct drm_rivulet_perfmon_create p;

	if (request == DRM_IOCTL_RIVULET_PERFMON_DESTROY) {
		fake.monitors--;
		p.perfmon = ((struct drm_rivulet_perfmon_destroy *)field(d))->perfmon;
		return p.perfmon == 41 + fake.monitors ? 0 : ENOENT;
	}
	if (fake.monitors == 2)
		return EBUSY;
	p = *(struct drm_rivulet_perfmon_create *)field(d);
	p.perfmon = 41 + fake.monitors++;
	mock_reply(d, &p, sizeof(p));
	return 0;
}

static int do_monitor_read(UMockdevIoctlData *d)
{
	struct drm_rivulet_perfmon_read p = *(struct drm_rivulet_perfmon_read *)field(d);
	uint64_t value[RIVULET_PERF_VALUES - 1];
	size_t room = p.count * sizeof(value[0]), size = room < sizeof(value) ? room :
		sizeof(value);
	g_autoptr(UMockdevIoctlData) v = umockdev_ioctl_data_resolve(d,
		offsetof(struct drm_rivulet_perfmon_read, values), size, NULL);

	if (p.perfmon != 41)
		return ENOENT;
	for (int i = 0; i < RIVULET_PERF_VALUES - 1; i++)
		value[i] = 10 * i + 7;
	mock_reply(v, value, size);
	fake.monitor_reads++;
	fake.resets += p.flags == DRM_RIVULET_PERFMON_RESET;
	p.count = RIVULET_PERF_VALUES - 1;
	mock_reply(d, &p, sizeof(p));
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
	mock_reply(d, &c, sizeof(c));
	return 0;
}

static int do_export(UMockdevIoctlData *d)
{
	struct drm_prime_handle h = *(struct drm_prime_handle *)field(d);

	/* Like the driver, refuses a read-only export of imported memory that is writable. */
	if (fake.export_error && !(h.flags & DRM_RDWR))
		return fake.export_error;
	h.fd = dup(fake.memory);
	mock_reply(d, &h, sizeof(h));
	return 0;
}

static int do_map(UMockdevIoctlData *d)
{
	struct drm_rivulet_bo_map m = *(struct drm_rivulet_bo_map *)field(d);

	m.offset = 0;
	mock_reply(d, &m, sizeof(m));
	return fake.map_error;
}

static int do_sync_file(UMockdevIoctlData *d)
{
	struct drm_syncobj_handle h = *(struct drm_syncobj_handle *)field(d);

	if (!fake.job.region_count)
		return EINVAL;	/* nothing was submitted */
	h.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	mock_reply(d, &h, sizeof(h));
	return 0;
}

static int answer_ioctl(UMockdevIoctlData *d, gulong request)
{
	if (request == fake.error_of)
		return fake.error;
	switch (request) {
	case DRM_IOCTL_VERSION: return mock_version(d, fake.driver, fake.major);
	case DRM_IOCTL_RIVULET_QUERY: return do_query(d);
	case DRM_IOCTL_RIVULET_BO_CREATE: return do_create(d);
	case DRM_IOCTL_RIVULET_BO_INFO: return do_info(d);
	case DRM_IOCTL_RIVULET_SUBMIT: return do_submit(d);
	case DRM_IOCTL_RIVULET_BO_WAIT: return do_wait(d);
	case DRM_IOCTL_RIVULET_BO_SYNC: return do_sync(d);
	case DRM_IOCTL_RIVULET_QUEUE_CREATE:
	case DRM_IOCTL_RIVULET_QUEUE_DESTROY: return do_queue(d, request);
	case DRM_IOCTL_RIVULET_PERFMON_CREATE:
	case DRM_IOCTL_RIVULET_PERFMON_DESTROY: return do_monitor(d, request);
	case DRM_IOCTL_RIVULET_PERFMON_READ: return do_monitor_read(d);
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
	g_autoptr(UMockdevIoctlData) d = umockdev_ioctl_data_resolve(arg, 0, request >> 16 & 0x3fff,
								     NULL);
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
	fake.major = 2;
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
	ck_assert_uint_eq(fake.monitors, 0);
	umockdev_testbed_detach_ioctl(fake.bed, NODE, NULL);
	g_object_unref(fake.io);
	g_object_unref(fake.bed);
}

static inline struct rivulet_device *device(void)
{
	struct rivulet_device *dev;

	ck_assert_msg(!rivulet_device_open(NODE, &dev), "%s", rivulet_last_error());
	return dev;
}

#endif
