// SPDX-License-Identifier: MIT
/* What belongs to a file besides buffers: queues, performance monitors, and its ban. */
#include "clock.h"
#include "vm.h"

#include <linux/capability.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int submit_to(int fd, uint32_t queue, struct vm_job *j)
{
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)&j->job, .count = 1, .stride = sizeof(j->job), .queue = queue,
	};

	return vm_ioctl(fd, DRM_IOCTL_RIVULET_SUBMIT, &s);
}

static int try_queue(int fd, int32_t priority, uint32_t *queue)
{
	struct drm_rivulet_queue_create c = { .priority = priority };
	int ret = vm_ioctl(fd, DRM_IOCTL_RIVULET_QUEUE_CREATE, &c);

	*queue = c.queue;
	return ret;
}

static void drop_privileges(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = {};

	OK(!syscall(SYS_capset, &h, none));
}

static void priority_privilege(void)
{
	struct vm_client c = vm_client();
	uint32_t high, queue;
	struct vm_job j;

	vm_client_job(&c, &j);
	FAILS(try_queue(c.fd, 2, &queue), EINVAL);
	FAILS(try_queue(c.fd, -2, &queue), EINVAL);
	FAILS(try_queue(c.fd, INT32_MIN, &queue), EINVAL);
	FAILS(try_queue(c.fd, INT32_MAX, &queue), EINVAL);
	OK(!try_queue(c.fd, DRM_RIVULET_PRIORITY_HIGH, &high));
	drop_privileges();
	FAILS(try_queue(c.fd, DRM_RIVULET_PRIORITY_HIGH, &queue), EACCES);
	/*
	 * The privilege is checked when the queue is created, so that the queue works for whoever
	 * gets the file.
	 */
	OK(!submit_to(c.fd, high, &j));
	OK(!try_queue(c.fd, DRM_RIVULET_PRIORITY_NORMAL, &queue) && !submit_to(c.fd, queue, &j));
	OK(!try_queue(c.fd, DRM_RIVULET_PRIORITY_LOW, &queue) && !submit_to(c.fd, queue, &j));
	EQ(vm_sync_result(c.fd, c.sync), 0);
}

struct ranked {
	struct vm_buf to;
	uint32_t sync;
};

/* Submit a job with a target of its own, so that only the queues determine the order. */
static void submit_ranked(struct vm_client *c, uint32_t queue, struct ranked *r)
{
	struct vm_job j;

	r->to = vm_buf_new(c->fd, 8192);
	r->sync = vm_sync_new(c->fd);
	vm_copy_job(&j, &c->code, &c->from, &r->to, 4096);
	j.job.report_slot = 2;
	j.job.report_offset = 4096;
	vm_job_out(&j, r->sync, 0);
	OK(!submit_to(c->fd, queue, &j));
}

static uint64_t start_of(const struct ranked *r)
{
	return ((const struct rivulet_status *)(r->to.map + 4096))->start;
}

/* How many of @count jobs, which have all ended, the device started before job @i. */
static int place_of(const struct ranked *r, int count, int i)
{
	int n = 0;

	for (int k = 0; k < count; k++)
		n += start_of(&r[k]) < start_of(&r[i]);
	return n;
}

/*
 * The first job ends on the command "hurry". Behind it wait one more job in the device, and in the
 * scheduler normal, low, normal and high ones in this order.
 */
static void priority_order(void)
{
	struct vm_client c = vm_client();
	static const int order[] = { 0, 0, -1, 0, 0, 1, 1 };
	enum { JOBS = sizeof(order) / sizeof(order[0]) };
	struct ranked r[JOBS];
	uint32_t queue[3];

	for (int i = 0; i < 3; i++)
		queue[i] = vm_queue_new(c.fd, i - 1);
	vm_control("inject slow@+1:60000");
	for (int i = 0; i < JOBS; i++) {
		submit_ranked(&c, queue[order[i] + 1], &r[i]);
		OK(vm_queue_holds(i ? 2 : 1));
	}
	vm_control("hurry");
	for (int i = 0; i < JOBS; i++)
		EQ(vm_sync_result(c.fd, r[i].sync), 0);
	EQ(place_of(r, JOBS, 0), 0);
	EQ(place_of(r, JOBS, 1), 1);
	EQ(place_of(r, JOBS, 5), 2);
	EQ(place_of(r, JOBS, 6), 3);
	EQ(place_of(r, JOBS, 3), 4);
	EQ(place_of(r, JOBS, 4), 5);
	EQ(place_of(r, JOBS, 2), 6);
}

static int destroy_queue(int fd, uint32_t queue)
{
	struct drm_rivulet_queue_destroy d = { .queue = queue };

	return vm_ioctl(fd, DRM_IOCTL_RIVULET_QUEUE_DESTROY, &d);
}

static void queue_args(void)
{
	int fd = vm_open(), other = vm_open();
	struct drm_rivulet_queue_create c = { .flags = 1 };
	struct drm_rivulet_queue_destroy d = { .queue = VM_QUEUE, .pad = 1 };
	uint32_t second = vm_queue_new(other, 0), queue;

	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_QUEUE_CREATE, &c), EINVAL);
	c = (struct drm_rivulet_queue_create){ .pad = 1 };
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_QUEUE_CREATE, &c), EINVAL);
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_QUEUE_DESTROY, &d), EINVAL);
	/* A queue belongs to its file. */
	FAILS(destroy_queue(fd, second), ENOENT);
	FAILS(destroy_queue(fd, 0), ENOENT);
	FAILS(destroy_queue(fd, 0xffffffff), ENOENT);
	for (int i = 1; i < DRM_RIVULET_MAX_QUEUES; i++)
		vm_queue_new(fd, 0);
	FAILS(try_queue(fd, 0, &queue), EBUSY);
	OK(!destroy_queue(fd, VM_QUEUE));
	FAILS(destroy_queue(fd, VM_QUEUE), ENOENT);
	OK(!try_queue(fd, 0, &queue));
}

/*
 * Of five jobs the device has two, which run to their ends. The other three end unstarted when
 * their queue is destroyed; another queue of the file goes on.
 */
static void queue_destroy(void)
{
	enum { JOBS = 5 };
	struct vm_client c = vm_client();
	struct ranked r[JOBS], later;
	uint32_t queue = vm_queue_new(c.fd, 0);
	struct vm_job j;
	long started;

	vm_control("inject slow@+1:60000,slow@+2:60000");
	started = vm_control_stat("started");
	for (int i = 0; i < JOBS; i++)
		submit_ranked(&c, queue, &r[i]);
	OK(vm_queue_holds(2));
	OK(!destroy_queue(c.fd, queue));
	vm_client_job(&c, &j);
	FAILS(submit_to(c.fd, queue, &j), ENOENT);
	submit_ranked(&c, VM_QUEUE, &later);
	vm_control("hurry");
	EQ(vm_sync_result(c.fd, r[0].sync), 0);
	vm_await_running();
	vm_control("hurry");
	EQ(vm_sync_result(c.fd, r[1].sync), 0);
	for (int i = 2; i < JOBS; i++)
		EQ(vm_sync_result(c.fd, r[i].sync), -ESRCH);
	EQ(vm_sync_result(c.fd, later.sync), 0);
	EQ(vm_control_stat("started"), started + 3);
}

static long unreclaimable_kib(void)
{
	return vm_number("/proc/meminfo", "SUnreclaim:");
}

/*
 * A leak of the smallest object, 8 bytes, for each file is 31 KiB in sum, which noise must stay
 * below.
 */
#define NOISE_KIB	1024

/*
 * How much memory the kernel has taken for itself after thousands of files. Memory that it frees
 * late is not counted.
 */
static long churned_kib(void)
{
	long before = unreclaimable_kib(), grown = NOISE_KIB;

	for (int i = 0; i < 4000; i++)
		close(vm_open());
	for (int i = 0; i < 50 && grown >= NOISE_KIB; i++) {
		usleep(i ? 100000 : 0);
		grown = unreclaimable_kib() - before;
	}
	return grown;
}

/*
 * The memory of an open file is freed. A leak grows with each repetition, which memory of other
 * processes does not.
 */
static void churn(void)
{
	int again = 4;

	for (int i = 0; i < 500; i++)
		close(vm_open());
	while (churned_kib() >= NOISE_KIB)
		OK(--again);
}

static void read_perfmon(int fd, uint32_t id, uint32_t flags, uint64_t *value)
{
	struct drm_rivulet_perfmon_read r = {
		.perfmon = id, .flags = flags, .values = (uintptr_t)value,
		.count = VM_PERF_VALUES,
	};

	memset(value, 0xee, 8 * VM_PERF_VALUES);
	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_READ, &r));
	EQ(r.count, VM_PERF_VALUES);
}

static uint32_t perfmon(int fd)
{
	struct drm_rivulet_perfmon_create p = {};

	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_CREATE, &p));
	OK(p.perfmon);
	return p.perfmon;
}

/* A monitor's values are the sum of the reports of just the jobs attached to it. */
static void perfmon_values(void)
{
	struct vm_client c = vm_client();
	struct vm_buf reports = vm_buf_new(c.fd, 4096);
	uint64_t got[VM_PERF_VALUES], sum[VM_PERF_VALUES] = {};
	uint32_t mine = perfmon(c.fd), idle = perfmon(c.fd);
	struct vm_job j;

	for (int i = 0; i < 8; i++) {
		const struct rivulet_status *st = (const void *)(reports.map + 256 * i);

		vm_client_job(&c, &j);
		vm_job_region(&j, 3, &reports, 0, 4096, DRM_RIVULET_REGION_WRITE);
		j.job.report_slot = 3;
		j.job.report_offset = 256 * i;
		j.job.perfmon = i % 2 ? 0 : mine;
		OK(!vm_submit(c.fd, &j));
		vm_client_good(&c);
		if (i % 2)
			continue;
		sum[DRM_RIVULET_PERF_JOBS]++;
		sum[DRM_RIVULET_PERF_TIME] += st->end - st->start;
		sum[DRM_RIVULET_PERF_CYCLES] += st->cycles;
		sum[DRM_RIVULET_PERF_LOAD_BUSY] += st->load_busy;
		sum[DRM_RIVULET_PERF_CONV_BUSY] += st->conv_busy;
		sum[DRM_RIVULET_PERF_ALU_BUSY] += st->alu_busy;
		sum[DRM_RIVULET_PERF_STORE_BUSY] += st->store_busy;
		sum[DRM_RIVULET_PERF_STALLS] += st->stalls;
		sum[DRM_RIVULET_PERF_READ_BYTES] += st->read_bytes;
		sum[DRM_RIVULET_PERF_WRITE_BYTES] += st->write_bytes;
		sum[DRM_RIVULET_PERF_MACS] += st->macs;
		sum[DRM_RIVULET_PERF_ENERGY] += st->energy;
	}
	read_perfmon(c.fd, mine, DRM_RIVULET_PERFMON_RESET, got);
	for (int i = 0; i < VM_PERF_VALUES; i++)
		EQ(got[i], sum[i]);
	OK(got[DRM_RIVULET_PERF_CYCLES] && got[DRM_RIVULET_PERF_WRITE_BYTES] >= 4 * 4096);
	read_perfmon(c.fd, mine, 0, got);
	for (int i = 0; i < VM_PERF_VALUES; i++)
		EQ(got[i], 0);
	read_perfmon(c.fd, idle, 0, got);
	EQ(got[DRM_RIVULET_PERF_JOBS], 0);
}

/* A failed job is counted as failed. A monitor that is destroyed while it has jobs harms no job. */
static void perfmon_life(void)
{
	struct vm_client c = vm_client();
	uint64_t got[VM_PERF_VALUES];
	struct drm_rivulet_perfmon_destroy p = { .perfmon = perfmon(c.fd) };
	struct vm_job j;

	vm_control("inject internal@+1");
	vm_client_job(&c, &j);
	j.job.perfmon = p.perfmon;
	OK(!vm_submit(c.fd, &j));
	EQ(vm_sync_result(c.fd, c.sync), -EIO);
	read_perfmon(c.fd, p.perfmon, 0, got);
	EQ(got[DRM_RIVULET_PERF_JOBS], 1);
	EQ(got[DRM_RIVULET_PERF_FAILED], 1);
	for (int i = 0; i < 20; i++)
		OK(!vm_submit(c.fd, &j));
	OK(!vm_ioctl(c.fd, DRM_IOCTL_RIVULET_PERFMON_DESTROY, &p));
	FAILS(vm_ioctl(c.fd, DRM_IOCTL_RIVULET_PERFMON_DESTROY, &p), ENOENT);
	FAILS(vm_submit(c.fd, &j), ENOENT);
	vm_client_good(&c);
}

static void perfmon_args(void)
{
	int fd = vm_open(), other = vm_open();
	uint64_t value[VM_PERF_VALUES + 1];
	struct drm_rivulet_perfmon_create p = { .flags = 1 };
	struct drm_rivulet_perfmon_destroy d = { .pad = 1 };
	struct drm_rivulet_perfmon_read good = {
		.perfmon = perfmon(fd), .values = (uintptr_t)value, .count = 2,
	}, r = good;

	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_CREATE, &p), EINVAL);
	d.perfmon = good.perfmon;
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_DESTROY, &d), EINVAL);
	FAILS(vm_ioctl(other, DRM_IOCTL_RIVULET_PERFMON_READ, &r), ENOENT);
	r.flags = 2;
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_READ, &r), EINVAL);
	r = good;
	r.pad = 1;
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_READ, &r), EINVAL);
	r = good;
	r.values = 8;
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_READ, &r), EFAULT);
	/* A read copies no more values than the caller has room for, and no more than there are. */
	memset(value, 0xee, sizeof(value));
	r = good;
	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_READ, &r));
	EQ(r.count, VM_PERF_VALUES);
	EQ(value[1], 0);
	EQ(value[2], 0xeeeeeeeeeeeeeeeell);
	r.count = 0xffffffff;
	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_READ, &r));
	EQ(value[VM_PERF_VALUES - 1], 0);
	EQ(value[VM_PERF_VALUES], 0xeeeeeeeeeeeeeeeell);
	p.flags = 0;
	for (int i = 1; i < DRM_RIVULET_MAX_PERFMONS; i++)
		perfmon(fd);
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_PERFMON_CREATE, &p), EBUSY);
}

static struct drm_rivulet_client client_state(int fd)
{
	struct drm_rivulet_client s = { .flags = 9, .hangs = 9 };
	struct drm_rivulet_query q = {
		.type = DRM_RIVULET_QUERY_CLIENT, .size = sizeof(s), .pointer = (uintptr_t)&s,
	};

	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q));
	EQ(q.size, sizeof(s));
	return s;
}

static int query(int fd, uint32_t type, void *to, uint32_t size)
{
	struct drm_rivulet_query q = { .type = type, .size = size, .pointer = (uintptr_t)to };

	return vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q);
}

static unsigned int mode_of(const char *name)
{
	struct stat st;

	OK(!stat(vm_sysfs(name), &st));
	return st.st_mode & 07777;
}

/* Totals of all clients need privilege. A file sees its own values and those of no other file. */
static void privacy(void)
{
	struct vm_client c = vm_reporter(), other = vm_client();
	struct drm_rivulet_counters all;
	uint64_t value[VM_PERF_VALUES];
	uint32_t monitor = perfmon(c.fd), others = perfmon(other.fd);
	const struct rivulet_status *st = vm_report(&c);
	struct vm_job j;

	OK(!query(c.fd, DRM_RIVULET_QUERY_COUNTERS, &all, sizeof(all)));
	EQ(mode_of("hwmon/hwmon*/energy1_input"), 0440);
	EQ(mode_of("hwmon/hwmon*/power1_average"), 0440);
	EQ(mode_of("npu_busy_time_us"), 0440);
	drop_privileges();
	FAILS(query(c.fd, DRM_RIVULET_QUERY_COUNTERS, &all, sizeof(all)), EACCES);
	vm_client_job(&c, &j);
	j.job.perfmon = monitor;
	OK(!vm_submit(c.fd, &j));
	EQ(vm_sync_result(c.fd, c.sync), 0);
	OK(st->energy && st->cycles);
	/* The number of the device would show how many jobs others have run. */
	EQ(st->seq, 0);
	EQ(client_state(c.fd).energy_pj, st->energy);
	EQ(client_state(c.fd).cycles, st->cycles);
	EQ(client_state(c.fd).busy_ns, st->end - st->start);
	EQ(vm_fdinfo(c.fd, "rivulet-energy-npu"), st->energy);
	read_perfmon(c.fd, monitor, 0, value);
	EQ(value[DRM_RIVULET_PERF_ENERGY], st->energy);
	/* The other file sees nothing of the job. */
	EQ(client_state(other.fd).energy_pj + client_state(other.fd).busy_ns, 0);
	EQ(vm_fdinfo(other.fd, "rivulet-energy-npu"), 0);
	read_perfmon(other.fd, others, 0, value);
	EQ(value[DRM_RIVULET_PERF_ENERGY], 0);
	/* Nor can a job be counted by another file's monitor. */
	others = perfmon(other.fd);
	j.job.perfmon = others;
	FAILS(vm_submit(c.fd, &j), ENOENT);
}

/* @count jobs in one call, each with a syncobj of its own. */
static void submit_many(struct vm_client *c, uint32_t *sync, uint32_t count)
{
	struct drm_rivulet_job array[16];
	struct vm_job j[16];
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)array,
		.count = count,
		.stride = sizeof(array[0]),
		.queue = VM_QUEUE,
	};

	vm_noise(c->from.map, 4096, 17);
	for (uint32_t i = 0; i < count; i++) {
		sync[i] = vm_sync_new(c->fd);
		vm_copy_job(&j[i], &c->code, &c->from, &c->to, 4096);
		vm_job_out(&j[i], sync[i], 0);
		array[i] = j[i].job;
	}
	OK(!vm_ioctl(c->fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
}

/* @what makes the first two jobs hang; the third stands behind the second in the device. */
static void ban_after_two(const char *what)
{
	struct vm_client guilty = vm_client(), good = vm_client(), again;
	uint32_t sync[10];
	struct vm_job j;

	vm_param("ban_hangs", "2");
	vm_control(what);
	EQ(client_state(guilty.fd).flags, 0);
	EQ(client_state(guilty.fd).hangs, 0);
	submit_many(&guilty, sync, 10);
	vm_client_submit(&good, 3);
	EQ(vm_sync_result(guilty.fd, sync[0]), -ETIME);
	EQ(vm_sync_result(guilty.fd, sync[1]), -ETIME);
	for (int i = 2; i < 10; i++)
		EQ(vm_sync_result(guilty.fd, sync[i]), -ECANCELED);
	vm_client_good(&good);
	EQ(client_state(guilty.fd).flags, DRM_RIVULET_CLIENT_BANNED);
	EQ(client_state(guilty.fd).hangs, 2);
	vm_client_job(&guilty, &j);
	FAILS(vm_submit(guilty.fd, &j), ECANCELED);
	/* The banned file's buffers stay usable, and another file of the process is not banned. */
	vm_noise(guilty.to.map, 4096, 17);
	OK(!memcmp(guilty.to.map, guilty.from.map, 4096));
	EQ(client_state(good.fd).flags, 0);
	again = vm_client();
	vm_client_submit(&again, 4);
	vm_client_good(&again);
}

static void ban(void)
{
	ban_after_two("inject hang@+1,hang@+2");
}

static void ban_by_reset(void)
{
	ban_after_two("inject stuck@+1,stuck@+2");
}

static void ban_never(void)
{
	struct vm_client c = vm_client();

	vm_param("ban_hangs", "0");
	for (int i = 1; i <= 2; i++) {
		vm_control("inject hang@+1");
		vm_client_submit(&c, 1);
		EQ(vm_sync_result(c.fd, c.sync), -ETIME);
		EQ(client_state(c.fd).hangs, i);
	}
	vm_client_submit(&c, 2);
	vm_client_good(&c);
}

/* A job that makes progress for ever is aborted, and no other job is. */
static void cap(void)
{
	struct vm_client guilty = vm_client(), good = vm_client();

	vm_param("cap_ms", "1000");
	vm_control("inject slow@+1:20000");
	vm_client_submit(&guilty, 1);
	vm_client_submit(&good, 2);
	EQ(vm_sync_result(guilty.fd, guilty.sync), -ETIME);
	vm_client_good(&good);
}

/* The job makes progress between all checks of the timeout. */
static void slow_for_long(void)
{
	struct vm_client c = vm_client();

	vm_control("inject slow@+1:6000");
	vm_client_submit(&c, 1);
	vm_client_good(&c);
}

static int64_t now_ms(void)
{
	return (int64_t)(clock_ns() / 1000000);
}

/*
 * cap_ms limits the time for which a job is the first in the device. The time behind another job
 * does not count.
 */
static void cap_is_per_job(void)
{
	struct vm_client a = vm_client(), b = vm_client();
	int64_t running, age;

	vm_control("inject slow@+1:60000,slow@+2:60000");
	vm_client_submit(&a, 1);
	vm_client_submit(&b, 2);
	OK(vm_queue_holds(2));
	usleep(500000);
	running = now_ms();
	vm_control("hurry");
	vm_client_good(&a);
	OK(vm_queue_holds(1));
	OK(vm_queue_age(&age));
	OK(age <= now_ms() - running + 1);
	vm_control("hurry");
	vm_client_good(&b);
}

/*
 * The scheduler takes one job at a time, and a file may close at any moment of that. No pointer to
 * its queues may remain: the kernel's checks of freed memory would report the access at the next
 * job.
 */
static void closed_busy(void)
{
	struct vm_client good = vm_reporter();
	struct drm_rivulet_job jobs[16];
	struct vm_job j;

	for (unsigned int i = 0; i < 300; i++) {
		struct vm_client c = vm_client();
		struct drm_rivulet_submit s = {
			.jobs = (uintptr_t)jobs,
			.count = 16,
			.stride = sizeof(jobs[0]),
			.queue = VM_QUEUE,
		};

		vm_client_job(&c, &j);
		for (int n = 0; n < 16; n++)
			jobs[n] = j.job;
		OK(!vm_ioctl(c.fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
		OK(!munmap(c.code.map, c.code.size));
		OK(!munmap(c.from.map, c.from.size));
		OK(!munmap(c.to.map, c.to.size));
		usleep(i * 37 % 700);
		OK(!close(c.fd));
		vm_client_submit(&good, i);
	}
	vm_client_good(&good);
}

const struct vm_test vm_client_tests[] = {
	{ "priority_privilege", "raising the priority needs CAP_SYS_NICE, lowering it does not",
	  priority_privilege },
	{ "priority_order",
	  "queued jobs of a higher priority overtake others; jobs "
	  "of equal priority keep their order",
	  priority_order },
	{ "queue_args",
	  "queues belong to their file and are limited; flags and padding are checked",
	  queue_args },
	{ "queue_destroy",
	  "destroying a queue ends its jobs unstarted, except those that the device has",
	  queue_destroy },
	{ "client_privacy",
	  "counters of all clients need privilege; each file sees its own energy and time",
	  privacy },
	{ "client_closed_busy",
	  "files that are closed while the scheduler takes their jobs leave no queue behind",
	  closed_busy },
	{ "client_churn", "opening and closing thousands of files costs no memory", churn },
	{ "perfmon_values",
	  "a monitor has the sum over its jobs as soon as their fences are signalled",
	  perfmon_values },
	{ "perfmon_life", "failed jobs are counted; a monitor may be destroyed before its jobs end",
	  perfmon_life },
	{ "perfmon_args", "monitors belong to their file, are limited, and copy no more than asked",
	  perfmon_args },
	{ "ban",
	  "a client's second hang, with ban_hangs=2, cancels its queued jobs "
	  "and refuses new ones, but not those of others",
	  ban },
	{ "ban_by_reset", "a client is banned too if each of its hangs needs a reset",
	  ban_by_reset },
	{ "ban_never", "with ban_hangs=0 hangs are counted and no client is banned", ban_never },
	{ "cap", "a job that runs for cap_ms is aborted although it makes progress", cap },
	{ "cap_slow", "a job that makes progress is not aborted before cap_ms", slow_for_long },
	{ "cap_per_job", "the time of a job begins when the job before it ends", cap_is_per_job },
	{ 0 },
};
