// SPDX-License-Identifier: MIT
/*
 * The client library: the node against a fake driver (umockdev answers the ioctls), and the socket
 * against the daemon of fake_daemon.h, which answers correctly or with one selected fault.
 */
#include "fake_driver.h"
#include "fake_daemon.h"
#include "suite.h"

#include <dlfcn.h>
#include <sys/resource.h>

START_TEST(opens)
{
	struct drm_rivulet_counters c;
	struct drm_rivulet_clock clock;
	struct rivulet_device *dev, *other;

	ck_assert_msg(!rivulet_device_open(NULL, &dev), "%s", rivulet_last_error());
	ck_assert_str_eq(rivulet_device_path(dev), NODE);
	ck_assert_str_eq(rivulet_device_info(dev)->name, "fake");
	ck_assert_uint_eq(rivulet_device_info(dev)->level[1].hz, 200);
	ck_assert(!rivulet_device_clock(dev, &clock) && clock.level == 1 && clock.hz == 200);
	ck_assert(!rivulet_device_counters(dev, &c) && c.faults == 22 && c.resets == 3);
	fake.no_privilege = true;
	ck_assert_int_eq(rivulet_device_counters(dev, &c), -EACCES);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "CAP_PERFMON"));
	fake.no_privilege = false;
	/* umockdev cannot duplicate a node, so the VM's tests cover success. */
	ck_assert_int_eq(rivulet_device_open_fd(-1, &other), -EBADF);
	ck_assert_int_eq(rivulet_device_open_fd(0, &other), -ENODEV);
	ck_assert_ptr_eq(rivulet_device_ref(dev), dev);
	rivulet_device_unref(dev);
	ck_assert_ptr_null(rivulet_device_unref(dev));
	ck_assert_ptr_null(rivulet_device_unref(NULL));
}
END_TEST

START_TEST(other_drivers)
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
	/* A module of another major version, older or newer, is refused before any other call. */
	for (int major = 1; major <= 3; major += 2) {
		char want[32];

		fake.major = major;
		ck_assert_int_eq(rivulet_device_open(NODE, &dev), -EPROTO);
		ck_assert_int_eq(rivulet_device_open(NULL, &dev), -EPROTO);
		snprintf(want, sizeof(want), "interface %d.0", major);
		ck_assert_ptr_nonnull(strstr(rivulet_last_error(), want));
		ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "needs 2.x"));
	}
	ck_assert_uint_eq(fake.queues, 0);
}
END_TEST

/*
 * A dma-buf that is imported twice is one buffer. Its handle is closed once, with the last
 * reference.
 */
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
	fake.readonly_handle = 0;	/* the same dma-buf, imported again, as writable */
	ck_assert(!rivulet_buffer_import(dev, fd, &c));
	ck_assert_ptr_eq(b, c);
	ck_assert(!(rivulet_buffer_flags(b) & DRM_RIVULET_BO_READONLY));
	ck_assert_int_eq(rivulet_buffer_import(dev, -1, &c), -EBADF);
	/* The kernel counts a handle once, but the fake driver counted the second import. */
	fake.open_handles--;
	rivulet_buffer_unref(b);
	ck_assert_uint_eq(fake.open_handles, 2);
	rivulet_buffer_unref(b);
	ck_assert_uint_eq(fake.open_handles, 1);
	/* A buffer keeps a reference to its device. */
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
	uint32_t refused;

	ck_assert(!rivulet_fence_new(dev, &f));
	ck_assert_uint_eq(rivulet_fence_handle(f), 70);
	ck_assert_int_eq(rivulet_fence_wait(f, 0), -ETIME);
	ck_assert_int_eq(rivulet_fence_wait(f, INT64_MAX), 0);
	ck_assert_int_lt(rivulet_fence_status(0), 0);
	ck_assert_int_eq(rivulet_device_submit(dev, job, 2, &refused), 0);
	ck_assert_uint_eq(refused, 2);
	fake.refuse_job = 1;
	ck_assert_int_eq(rivulet_device_submit(dev, job, 2, &refused), -ENOSPC);
	ck_assert_uint_eq(refused, 1);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "job 1 of 2"));
	ck_assert_int_eq(rivulet_device_submit(dev, job, 0, NULL), -EINVAL);
	ck_assert_int_eq(rivulet_device_submit(dev, job, 65, NULL), -EINVAL);
	ck_assert_ptr_null(rivulet_fence_unref(f));
	rivulet_device_unref(dev);
}
END_TEST

/* A job from an NPU step: the slots of rivulet_program.h, writable as the step declares. */
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
	file.s[1] = (struct rivulet_step) { .kind = RIVULET_STEP_NPU, .slots = 0xf,
					    .writes_mask = 0xa,
		.min_level = 1, .variant = { [1] = { .offset = 128, .length = 64 },
			/* the device has two levels */
			[3] = { .offset = 192, .length = 64 } } };
	for (int i = 0; i < 4; i++)
		ck_assert(!rivulet_buffer_create(dev, 4096, &b[i]));
	ck_assert_int_eq(rivulet_job_from_step(&file.p, 0, b[0], b[1], b + 2, 2, NULL, 0, &job,
					       region, variant), -EINVAL);
	ck_assert_int_eq(rivulet_job_from_step(&file.p, 2, b[0], b[1], b + 2, 2, NULL, 0, &job,
					       region, variant), -EINVAL);
	ck_assert_int_eq(rivulet_job_from_step(&file.p, 1, b[0], NULL, b + 2, 2, NULL, 0, &job,
					       region, variant), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "slot 1"));
	ck_assert_int_eq(rivulet_job_from_step(&file.p, 1, b[0], b[1], b + 2, 2, NULL, 0, &job,
					       region, variant), 0);
	ck_assert_uint_eq(job.report_slot, DRM_RIVULET_NO_REPORT);
	ck_assert_int_eq(rivulet_job_from_step(&file.p, 1, b[0], b[1], b + 2, 2, b[1], 512, &job,
					       region, variant), 0);
	ck_assert_int_eq(rivulet_device_submit(dev, &job, 1, NULL), 0);
	ck_assert_uint_eq(fake.job.region_count, 5);
	ck_assert_uint_eq(fake.job.variant_count, 2);
	/* Levels without commands must not keep the previous caller's commands. */
	for (uint32_t i = 0; i < RIVULET_LEVELS; i++) {
		ck_assert_uint_eq(variant[i].offset, i == 1 ? 128 : i == 3 ? 192 : 0);
		ck_assert_uint_eq(variant[i].length, i == 1 || i == 3 ? 64 : 0);
		ck_assert_uint_eq(variant[i].slot, i == 1 || i == 3 ? RIVULET_SLOT_PROGRAM : 0);
	}
	memset(variant, 0xff, sizeof(variant));
	ck_assert_uint_eq(rivulet_job_variants(&file.p, 1, variant), 4);
	ck_assert(!variant[0].length && !variant[2].length && !variant[4].offset);
	ck_assert_uint_eq(rivulet_job_variants(&file.p, 0, variant), 0);
	ck_assert_uint_eq(rivulet_job_variants(&file.p, 2, variant), 0);
	for (uint32_t i = 0; i < RIVULET_LEVELS; i++)
		ck_assert(!variant[i].length && !variant[i].offset);
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

/*
 * The error of a mapping that was refused names the buffer. umockdev's node cannot be mapped, so
 * the VM's tests cover success.
 */
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

/* Kind of buffer, direction, ranges and deadline of a CPU access reach the driver unchanged. */
START_TEST(cpu_access)
{
	const struct drm_rivulet_range two[] = { { 64, 100 }, { 4096, 1 } };
	struct rivulet_device *dev = device();
	struct rivulet_buffer *wc, *cached;

	ck_assert(!rivulet_buffer_create_as(dev, 8192, DRM_RIVULET_BO_WC, &wc));
	ck_assert_uint_eq(fake.create_flags, DRM_RIVULET_BO_WC);
	ck_assert_uint_eq(rivulet_buffer_flags(wc), DRM_RIVULET_BO_WC);
	/* The device of the fake driver is coherent, so the driver does not return the flag. */
	ck_assert(!rivulet_buffer_create_as(dev, 8192, DRM_RIVULET_BO_CACHED, &cached));
	ck_assert_uint_eq(fake.create_flags, DRM_RIVULET_BO_CACHED);
	ck_assert_uint_eq(rivulet_buffer_flags(cached), 0);
	ck_assert(!rivulet_buffer_begin(cached, DRM_RIVULET_ACCESS_READ, two, 2, INT64_MAX));
	ck_assert_uint_eq(fake.wait.handle, rivulet_buffer_handle(cached));
	ck_assert_uint_eq(fake.wait.flags, DRM_RIVULET_ACCESS_READ);
	ck_assert_uint_eq(fake.sync.handle, rivulet_buffer_handle(cached));
	ck_assert_uint_eq(fake.sync.flags, DRM_RIVULET_ACCESS_READ);
	ck_assert_uint_eq(fake.sync.op, DRM_RIVULET_SYNC_FOR_CPU);
	ck_assert(!memcmp(fake.range, two, sizeof(two)));
	ck_assert(!rivulet_buffer_end(cached, DRM_RIVULET_ACCESS_WRITE, two, 1));
	ck_assert_uint_eq(fake.sync.flags, DRM_RIVULET_ACCESS_WRITE);
	ck_assert_uint_eq(fake.sync.op, DRM_RIVULET_SYNC_FOR_DEVICE);
	ck_assert_uint_eq(fake.sync.count, 1);
	ck_assert(!rivulet_buffer_sync(cached, DRM_RIVULET_SYNC_FOR_CPU, DRM_RIVULET_ACCESS_READ,
				       NULL, 0));
	ck_assert_uint_eq(fake.sync.count, 0);
	fake.sync.handle = 0;	/* stays 0 when the wait fails */
	ck_assert_int_eq(rivulet_buffer_begin(cached, DRM_RIVULET_ACCESS_WRITE, NULL, 0, 123),
			 -ETIME);
	ck_assert_int_eq(fake.wait.timeout_ns, 123);
	ck_assert_uint_eq(fake.sync.handle, 0);
	ck_assert_int_eq(rivulet_buffer_wait(cached, DRM_RIVULET_ACCESS_READ, 7), -ETIME);
	ck_assert_int_eq(fake.wait.timeout_ns, 7);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "still in use"));
	rivulet_buffer_unref(wc);
	rivulet_buffer_unref(cached);
	rivulet_device_unref(dev);
}
END_TEST

START_TEST(monitors)
{
	struct rivulet_device *dev = device();
	struct rivulet_perfmon *m, *n, *none;
	uint64_t v[RIVULET_PERF_VALUES] = { 0 };
	const char *unit;

	ck_assert(!rivulet_perfmon_new(dev, &m) && !rivulet_perfmon_new(dev, &n));
	ck_assert_int_eq(rivulet_perfmon_new(dev, &none), -EBUSY);
	ck_assert_uint_eq(rivulet_perfmon_id(m), 41);
	v[RIVULET_PERF_VALUES - 1] = 99;
	ck_assert(!rivulet_perfmon_read(m, false, v, RIVULET_PERF_VALUES));
	ck_assert_uint_eq(v[DRM_RIVULET_PERF_CYCLES], 10 * DRM_RIVULET_PERF_CYCLES + 7);
	ck_assert_uint_eq(v[RIVULET_PERF_VALUES - 1], 0);
	ck_assert(!rivulet_perfmon_read(m, true, v, 1));
	ck_assert_uint_eq(fake.monitor_reads, 2);
	ck_assert_uint_eq(fake.resets, 1);
	ck_assert_int_eq(rivulet_perfmon_read(n, false, v, 1), -ENOENT);
	ck_assert_str_eq(rivulet_perfmon_counter(DRM_RIVULET_PERF_ENERGY, &unit), "energy");
	ck_assert_str_eq(unit, "pJ");
	ck_assert_ptr_null(rivulet_perfmon_counter(RIVULET_PERF_VALUES, &unit));
	ck_assert_ptr_eq(rivulet_perfmon_ref(n), n);
	rivulet_perfmon_unref(n);
	ck_assert_uint_eq(fake.monitors, 2);
	rivulet_perfmon_unref(n);
	ck_assert_ptr_null(rivulet_perfmon_unref(m));
	rivulet_device_unref(dev);
}
END_TEST

START_TEST(submit_options)
{
	struct rivulet_device *dev = device();
	struct drm_rivulet_job jobs[3] = { { .min_level = 1, .perfmon = 9 } };
	struct drm_rivulet_client state;
	int fd = 77;
	struct rivulet_submit_options o = { .size = sizeof(o) };
	uint32_t refused = 0;

	ck_assert_int_eq(rivulet_job_queue_new(dev, DRM_RIVULET_PRIORITY_HIGH, &o.queue), -EACCES);
	ck_assert(!rivulet_job_queue_new(dev, DRM_RIVULET_PRIORITY_LOW, &o.queue));
	ck_assert_int_eq(fake.priority, -1);
	ck_assert(!rivulet_device_submit_with(dev, jobs, 3, &o, &refused));
	ck_assert_uint_eq(refused, 3);
	ck_assert_uint_eq(fake.submit.queue, 1);
	ck_assert_uint_eq(fake.submit.flags, 0);
	ck_assert_uint_eq(fake.job.perfmon, 9);
	/* Submits without a queue share one queue, which belongs to the device object. */
	for (int i = 0; i < 2; i++) {
		ck_assert(!rivulet_device_submit(dev, jobs, 1, NULL));
		ck_assert_uint_eq(fake.submit.queue, 2);
		ck_assert_int_eq(fake.priority, DRM_RIVULET_PRIORITY_NORMAL);
	}
	o.fence_fd = &fd;
	ck_assert(!rivulet_device_submit_with(dev, jobs, 1, &o, NULL));
	ck_assert_uint_eq(fake.submit.flags, DRM_RIVULET_SUBMIT_FENCE_FD);
	ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
	close(fd);
	fake.refuse_job = 1;
	fd = 77;
	ck_assert_int_eq(rivulet_device_submit_with(dev, jobs, 3, &o, &refused), -ENOSPC);
	ck_assert_uint_eq(refused, 1);
	ck_assert_int_eq(fd, -1);
	ck_assert_ptr_eq(rivulet_job_queue_ref(o.queue), o.queue);
	rivulet_job_queue_unref(o.queue);
	ck_assert_uint_eq(fake.open_queues, 1 << 1 | 1 << 2);
	ck_assert_ptr_null(rivulet_job_queue_unref(o.queue));
	ck_assert_uint_eq(fake.open_queues, 1 << 2);
	ck_assert(!rivulet_device_client(dev, &state));
	ck_assert_uint_eq(state.energy_pj, 5);
	ck_assert_uint_eq(state.flags, DRM_RIVULET_CLIENT_BANNED);
	ck_assert_uint_eq(state.hangs, 4);
	rivulet_device_unref(dev);
}
END_TEST

/* Asserts that the text of the last error is exactly this. */
static void says(const char *text)
{
	ck_assert_str_eq(rivulet_last_error(), text);
}

/* Values that the library could not work with are refused, on both sides of each limit. */
START_TEST(impossible_devices)
{
	const struct drm_rivulet_device good = { .dev_version = RIVULET_DEV_VERSION + 1, .tm = 1, .tn = 1, .dn = 1,
		.level_count = DRM_RIVULET_MAX_LEVELS, .name = "edge" };
	struct rivulet_device *dev;

	setlocale(LC_MESSAGES, "C");	/* the texts contain those of errno */
	fake.device = good;
	memset(fake.device.name, 'n', sizeof(fake.device.name) - 1);
	ck_assert_msg(!rivulet_device_open(NODE, &dev), "%s", rivulet_last_error());
	ck_assert_ptr_null(rivulet_device_unref(dev));
	for (int i = 0; i < 6; i++) {
		fake.device = good;
		if (i < 3)
			*(i == 0 ? &fake.device.tm : i == 1 ? &fake.device.tn : &fake.device.dn) = 0;
		else if (i < 5)
			fake.device.level_count = i == 3 ? 0 : DRM_RIVULET_MAX_LEVELS + 1;
		else
			memset(fake.device.name, 'n', sizeof(fake.device.name));
		ck_assert_int_eq(rivulet_device_open(NODE, &dev), -EPROTO);
		says(NODE ": the driver reports a device that cannot be");
	}
	fake.device = good;
	fake.device.dev_version = 9 << 16 | 3;
	ck_assert_int_eq(rivulet_device_open(NODE, &dev), -EPROTO);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), NODE ": device version 9.3, this library speaks "));
	fake.device = (struct drm_rivulet_device) { 0 };
	/* A device that cannot be used ends the search for a device. */
	fake.error_of = DRM_IOCTL_RIVULET_QUERY;
	fake.error = EIO;
	ck_assert_int_eq(rivulet_device_open(NODE, &dev), -EIO);
	says(NODE ": the driver refused query 0: Input/output error");
	fake.error_of = 0;
}
END_TEST

/* Proves the errno and the text of each call that the driver refuses, and that nothing is left open. */
START_TEST(refused_calls)
{
	struct drm_rivulet_job job = { .region_count = 0 };
	struct rivulet_device *dev = device();
	struct rivulet_buffer *b, *other;
	struct rivulet_job_queue *q;
	struct rivulet_fence *f;
	uint32_t refused = 7;
	int fd;

	setlocale(LC_MESSAGES, "C");	/* the texts contain those of errno */
	ck_assert(!rivulet_buffer_create(dev, 4096, &b) && !rivulet_fence_new(dev, &f));
	fake.error = EIO;
	fake.error_of = DRM_IOCTL_RIVULET_BO_INFO;
	ck_assert_int_eq(rivulet_buffer_create(dev, 4096, &other), -EIO);
	says(NODE ": no buffer of 4096 bytes: Input/output error");
	ck_assert_uint_eq(fake.open_handles, 1);
	ck_assert_int_eq(rivulet_buffer_import(dev, 0, &other), -EIO);
	says(NODE ": cannot import dma-buf fd 0: Input/output error");
	ck_assert_uint_eq(fake.open_handles, 1);
	fake.error_of = DRM_IOCTL_RIVULET_BO_WAIT;
	ck_assert_int_eq(rivulet_buffer_wait(b, 0, INT64_MAX), -EIO);
	says(NODE ": waiting for buffer 1: Input/output error");
	fake.error_of = DRM_IOCTL_RIVULET_BO_SYNC;
	ck_assert_int_eq(rivulet_buffer_sync(b, 0, 0, NULL, 0), -EIO);
	says(NODE ": CPU access to buffer 1: Input/output error");
	fake.error_of = DRM_IOCTL_PRIME_HANDLE_TO_FD;
	ck_assert_int_eq(rivulet_buffer_export(b, false, &fd), -EIO);
	says(NODE ": cannot export buffer 1: Input/output error");
	fake.error_of = DRM_IOCTL_SYNCOBJ_CREATE;
	ck_assert_int_eq(rivulet_fence_new(dev, &f), -EIO);
	says(NODE ": cannot create a syncobj: Input/output error");
	fake.error_of = DRM_IOCTL_SYNCOBJ_WAIT;
	ck_assert_int_eq(rivulet_fence_wait(f, INT64_MAX), -EIO);
	says(NODE ": waiting for a job: Input/output error");
	fake.error_of = DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD;
	ck_assert_int_eq(rivulet_fence_fd(f, &fd), -EIO);
	says(NODE ": the fence has no job yet: Input/output error");
	fake.error_of = DRM_IOCTL_RIVULET_QUEUE_CREATE;
	ck_assert_int_eq(rivulet_job_queue_new(dev, 0, &q), -EIO);
	says(NODE ": no queue of priority 0: Input/output error");
	ck_assert_int_eq(rivulet_device_submit(dev, &job, 1, &refused), -EIO);
	says(NODE ": no queue of priority 0: Input/output error");
	ck_assert_uint_eq(refused, 1);
	fake.error_of = DRM_IOCTL_RIVULET_SUBMIT;
	ck_assert_int_eq(rivulet_device_submit(dev, &job, 1, &refused), -EIO);
	says(NODE ": submit of 1 jobs: Input/output error");
	ck_assert_uint_eq(refused, 1);
	fake.error_of = 0;
	ck_assert_int_eq(rivulet_device_submit(dev, &job, 0, NULL), -EINVAL);
	says("a submit has 1 to 64 jobs, not 0");
	ck_assert_int_eq(rivulet_buffer_create(dev, 0, &other), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), " bytes, not 0"));
	ck_assert_int_eq(rivulet_fence_status(0), -ENOTTY);
	ck_assert_ptr_eq(rivulet_fence_ref(f), f);
	ck_assert_ptr_null(rivulet_fence_unref(f));
	ck_assert_uint_eq(fake.syncobjs, 1);
	rivulet_fence_unref(f);
	rivulet_buffer_unref(b);
	rivulet_device_unref(dev);
}
END_TEST

/* NULL references are ignored. */
START_TEST(null_references)
{
	ck_assert_ptr_null(rivulet_device_ref(NULL));
	ck_assert_ptr_null(rivulet_buffer_ref(NULL));
	ck_assert_ptr_null(rivulet_buffer_unref(NULL));
	ck_assert_ptr_null(rivulet_fence_ref(NULL));
	ck_assert_ptr_null(rivulet_fence_unref(NULL));
	ck_assert_ptr_null(rivulet_job_queue_ref(NULL));
	ck_assert_ptr_null(rivulet_job_queue_unref(NULL));
	ck_assert_str_eq(rivulet_version(), RIVULET_VERSION);
}
END_TEST

/* Proves which dma-bufs share a buffer when several are listed, whichever was closed first. */
START_TEST(listed_buffers)
{
	struct rivulet_device *dev = device();
	struct rivulet_buffer *b[3], *again;

	for (int i = 0; i < 3; i++)
		ck_assert(!rivulet_buffer_import(dev, 10 + i, &b[i]));
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(rivulet_buffer_handle(b[i]), 1010 + (uint32_t)i);
		ck_assert(!rivulet_buffer_import(dev, 10 + i, &again));
		ck_assert_ptr_eq(again, b[i]);
		/* The kernel counts a handle once, but the fake driver counted the second import. */
		fake.open_handles--;
		rivulet_buffer_unref(again);
	}
	rivulet_buffer_unref(b[1]);
	ck_assert_uint_eq(fake.open_handles, 2);
	ck_assert(!rivulet_buffer_import(dev, 10, &again));
	ck_assert_ptr_eq(again, b[0]);
	fake.open_handles--;
	rivulet_buffer_unref(again);
	rivulet_buffer_unref(b[0]);
	rivulet_buffer_unref(b[2]);
	ck_assert_uint_eq(fake.open_handles, 0);
	rivulet_device_unref(dev);
}
END_TEST

/*
 * Each faulty answer gives one error and leaks no descriptor. An unknown serial and a reserved
 * field that is not zero are accepted.
 */
START_TEST(wrong_answers)
{
	/* Only the daemon that does not answer makes the test wait for the timeout. */
	struct rivulet_load_options o = { .size = sizeof(o),
					  .timeout_ms = _i == SILENT ? 300 : WAIT_MS };
	struct rivulet_client *c = NULL;
	struct rivulet_model *m = NULL;
	int before = count_fds(), r;

	daemon_start((enum fault)_i);
	r = rivulet_open(dm.path, &c);
	if (!r)
		r = rivulet_model_load_memory(c, "onnx", 4, &o, &m);
	ck_assert_msg(r == faults[_i].want, "fault %d: %d (%s), not %d", _i, r,
		      rivulet_last_error(), faults[_i].want);
	if (r)
		ck_assert_uint_gt(strlen(rivulet_last_error()), 8);
	if (_i == ERRNO) {
		ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "Loop_7"));
		/* the connection is still usable */
		ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), 0);
	}
	if (r == -EBADMSG)
		ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), -EBADMSG);
	rivulet_model_unref(m);
	rivulet_client_unref(c);
	daemon_stop();
	ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(load_and_run)
{
	struct rivulet_tensor_info t = { .size = sizeof(t) };
	struct rivulet_run_options o = { .size = sizeof(o), .deadline = 123456789012345,
					 .priority = 1 };
	struct rivulet_run_stats stats = { .size = sizeof(stats) };
	struct rivulet_daemon_info info = { .size = sizeof(info) };
	struct rivulet_client *c;
	struct rivulet_model *m;
	struct rivulet_request *q;
	uint8_t in[BYTES], out[BYTES];
	struct rlimit limit, none;
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
	ck_assert_msg(!rivulet_model_load_memory(c, "onnx", 4, NULL, &m), "%s",
		      rivulet_last_error());
	ck_assert(!rivulet_model_tensor(m, 0, &t) && !t.output && t.bytes == BYTES &&
		  t.dim[1] == 64);
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
	/* The copy that is shared with the daemon needs a descriptor. */
	ck_assert(!getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = (rlim_t)dup(0);
	close((int)none.rlim_cur);
	ck_assert(!setrlimit(RLIMIT_NOFILE, &none));
	ck_assert_int_eq(rivulet_bind_memory(q, 0, in, BYTES), -EMFILE);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "shared memory of 256 bytes: "));
	ck_assert(!setrlimit(RLIMIT_NOFILE, &limit));
	ck_assert_int_eq(rivulet_request_start(q, NULL), -EINVAL);
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
	/* A request keeps references to its model and its client. */
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

/*
 * Buffers and dma-bufs are passed to the daemon without a copy. Then a file is loaded, and its
 * program and the daemon's status are read.
 */
START_TEST(zero_copy)
{
	struct rivulet_load_options o = { .size = sizeof(o), .keep_program = true, .name = "x" };
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
	dm.extra_fd = fake.memory;
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
	ck_assert_uint_eq(fake.open_handles, 1);	/* the request keeps a reference */
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

/*
 * One descriptor is polled. Callbacks run in dispatch, even when another call received the answer.
 */
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
	/* A request that is released in flight sends CLOSE, and its bound memory is not written. */
	ck_assert(!rivulet_request_start(q, NULL));
	rivulet_request_unref(q);
	rivulet_client_unref(c);
	daemon_stop();
	ck_assert_uint_eq(dm.closes, 1);
}
END_TEST

static void on_failed(struct rivulet_request *r, void *data)
{
	ck_assert_int_eq(rivulet_request_result(r), -ECONNRESET);
	++*(int *)data;
}

/*
 * When the daemon ends during a run, the run fails, the descriptor is readable, and later calls
 * return the reason.
 */
START_TEST(daemon_dies)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	struct rivulet_client *c;
	struct rivulet_request *q;
	struct pollfd p = { .events = POLLIN };
	int failed = 0;

	daemon_start(NONE);
	dm.hold = true;
	q = request(&c, in, out);
	rivulet_request_on_done(q, on_failed, &failed);
	ck_assert(!rivulet_request_start(q, NULL));
	dm.fault = CLOSED;
	/* This daemon closes the connection on LOAD. */
	ck_assert_int_eq(rivulet_model_load_memory(c, "onnx", 4, NULL,
			 &(struct rivulet_model *){ NULL }), -ECONNRESET);
	p.fd = rivulet_client_fd(c);
	ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
	ck_assert_int_eq(rivulet_client_dispatch(c), 1);
	ck_assert_int_eq(failed, 1);
	ck_assert_int_eq(rivulet_client_dispatch(c), -ECONNRESET);
	/* Without a daemon, each call tries to connect and returns the error. */
	daemon_stop();
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(rivulet_request_start(q, NULL), -ENOENT);
		ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "no daemon"));
	}
	ck_assert_int_eq(rivulet_client_wait_device(c, 50), -ETIMEDOUT);
	rivulet_request_unref(q);
	rivulet_client_unref(c);
}
END_TEST

/*
 * Programs built with an older or a newer header share the fields that both sides know. Other sizes
 * are refused.
 */
START_TEST(sized_structs)
{
	struct newer {
		struct rivulet_run_options o;
		uint64_t later[2];
	} in = { .o = { .size = sizeof(in), .priority = 1 } };
	struct {
		struct rivulet_daemon_info i;
		uint64_t later[2];
		uint64_t beyond;
	} info = { .i = { .size = offsetof(typeof(info), beyond) }, .later = { 7, 7 },
		   .beyond = 9 };
	struct rivulet_daemon_info unsized = { .size = 0 };
	uint8_t a[BYTES] = { 1 }, b[BYTES];
	struct rivulet_client *c;
	struct rivulet_request *q;

	daemon_start(NONE);
	q = request(&c, a, b);
	ck_assert_int_eq(rivulet_request_run(q, &in.o), 0);
	ck_assert_uint_eq(dm.priority, RIVULET_PRIO_HIGH);
	in.later[1] = 1;
	ck_assert_int_eq(rivulet_request_run(q, &in.o), -E2BIG);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "struct rivulet_run_options"));
	in.o.size = 0;
	ck_assert_int_eq(rivulet_request_run(q, &in.o), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "sizeof(struct rivulet_run_options)"));
	in.o.size = sizeof(size_t);
	ck_assert_int_eq(rivulet_request_run(q, &in.o), -EINVAL);
	ck_assert_int_eq(rivulet_client_info(c, &info.i), 0);
	ck_assert_str_eq(info.i.version, "0.1-test");
	ck_assert_uint_eq(info.i.size, offsetof(typeof(info), beyond));
	ck_assert(!info.later[0] && !info.later[1] && info.beyond == 9);
	ck_assert_int_eq(rivulet_client_info(c, &unsized), -EINVAL);
	ck_assert_uint_eq(unsized.protocol, 0);
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
}
END_TEST

/* The man pages name the variable that the library reads, and no other variable has an effect. */
START_TEST(socket_variable)
{
	static const char *const pages[] = { "docs/man/rivulet.1", "docs/man/librivulet.3" };
	struct rivulet_client *c;

	setenv("RIVULET_SOCKET", "/nonexistent/wrong", 1);
	setenv("RIVULETD_SOCKET", "/nonexistent/right", 1);
	ck_assert_int_eq(rivulet_open(NULL, &c), -ENOENT);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "/nonexistent/right"));
	setenv("RIVULETD_SOCKET", "", 1);
	ck_assert_int_ne(rivulet_open(NULL, &c), -EINVAL);
	ck_assert_ptr_null(strstr(rivulet_last_error(), "/nonexistent"));
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		static char text[65536];
		FILE *f = fopen(pages[i], "re");

		ck_assert_ptr_nonnull(f);
		text[fread(text, 1, sizeof(text) - 1, f)] = 0;
		fclose(f);
		ck_assert_msg(strstr(text, RIVULET_SOCKET_ENV), "%s", pages[i]);
	}
}
END_TEST

/* The shared library exports every function of the header with its version, and nothing else. */
START_TEST(exports)
{
	void *lib = dlopen(RVL_LIBRIVULET, RTLD_NOW | RTLD_LOCAL);
	FILE *map = fopen("libclient/librivulet.map", "re");
	char line[128], name[128];
	int n = 0;

	ck_assert_msg(lib != NULL, "%s", dlerror());
	while (fgets(line, sizeof(line), map))
		if (sscanf(line, " %127[a-z_0-9];", name) == 1 && !strncmp(name, "rivulet_", 8)) {
			ck_assert_msg(dlvsym(lib, name, "RIVULET_1") != NULL, "%s", name);
			n++;
		}
	ck_assert_int_gt(n, 50);
	ck_assert_ptr_null(dlsym(lib, "rvl_lib_fail"));
	ck_assert_ptr_null(dlsym(lib, "rivulet_crc32c"));
	fclose(map);
	dlclose(lib);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s = suite_create("libclient");
	TCase *node = tcase_create("node"), *socket = tcase_create("socket");

	(void)argc;
	under_umockdev(argv);
	tcase_add_checked_fixture(node, driver_setup, driver_teardown);
	tcase_set_timeout(node, 120);
	tcase_set_timeout(socket, 120);
	tcase_add_test(node, opens);
	tcase_add_test(node, other_drivers);
	tcase_add_test(node, buffers);
	tcase_add_test(node, listed_buffers);
	tcase_add_test(node, impossible_devices);
	tcase_add_test(node, refused_calls);
	tcase_add_test(node, null_references);
	tcase_add_test(node, jobs);
	tcase_add_test(node, job_of_step);
	tcase_add_test(node, maps);
	tcase_add_test(node, cpu_access);
	tcase_add_test(node, monitors);
	tcase_add_test(node, submit_options);
	tcase_add_loop_test(socket, wrong_answers, 0, FAULTS);
	tcase_add_test(socket, load_and_run);
	tcase_add_test(socket, zero_copy);
	tcase_add_test(socket, asynchronous);
	tcase_add_test(socket, cancel);
	tcase_add_test(socket, daemon_dies);
	tcase_add_test(socket, sized_structs);
	tcase_add_test(socket, no_daemon);
	tcase_add_test(socket, socket_variable);
	tcase_add_test(socket, exports);
	suite_add_tcase(s, node);
	suite_add_tcase(s, socket);
	return run_library_suite(s);
}
