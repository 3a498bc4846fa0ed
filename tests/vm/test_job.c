// SPDX-License-Identifier: MIT
/* Jobs that run: data, fences, queue depth, levels. */
#include "vm.h"

#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Submit the copy and wait for it; the result is 0 or a negative errno. */
static int copy_once(struct vm_client *c, uint32_t bytes)
{
	struct vm_job j;

	vm_copy_job(&j, &c->code, &c->from, &c->to, bytes);
	vm_job_out(&j, c->sync, 0);
	OK(!vm_submit(c->fd, &j));
	return vm_sync_result(c->fd, c->sync);
}

static void copy(void)
{
	struct vm_client c = vm_client_on(vm_open(), 65536);

	for (uint32_t i = 1; i <= 4; i++) {
		vm_noise(c.from.map, 65536, i);
		EQ(copy_once(&c, 16384 * i), 0);
		OK(!memcmp(c.to.map, c.from.map, 16384 * i));
		if (i < 4)
			OK(memcmp(c.to.map + 16384 * i, c.from.map + 16384 * i, 65536 - 16384 * i));
	}
}

/* Slots begin and end at any byte of a buffer whose pages are scattered. */
static void offsets(void)
{
	struct vm_client c = vm_client_on(vm_open(), 1 << 20);
	struct drm_rivulet_device info;

	vm_info(c.fd, &info);
	vm_noise(c.from.map, c.from.size, 5);
	for (uint32_t i = 0; i < 16; i++) {
		uint64_t at = 4096 * 13 * i + 997 * i, to = 4096 * 11 * i + 4095;
		uint32_t bytes = 5 * 4096 / info.tn * info.tn;
		struct vm_prog p = {};
		struct vm_job j;

		memset(c.to.map, 0xcc, c.to.size);
		vm_put_copy(&p, info.tn, 3, 0, 15, 0, bytes / info.tn);
		vm_put_end(&p);
		vm_job_init(&j);
		vm_job_code(&j, &c.code, &p);
		vm_job_region(&j, 3, &c.from, at, bytes, 0);
		vm_job_region(&j, 15, &c.to, to, bytes, DRM_RIVULET_REGION_WRITE);
		vm_job_out(&j, c.sync, 0);
		OK(!vm_submit(c.fd, &j));
		EQ(vm_sync_result(c.fd, c.sync), 0);
		OK(!memcmp(c.to.map + to, c.from.map + at, bytes));
		EQ(c.to.map[to - 1], 0xcc);
		EQ(c.to.map[to + bytes], 0xcc);
	}
}

static void report(void)
{
	struct vm_client c = vm_reporter();
	struct drm_rivulet_counters before, after;
	const struct rivulet_status *st = vm_report(&c);

	vm_stay_awake();
	vm_counters(c.fd, &before);
	vm_client_submit(&c, 1);
	vm_client_good(&c);
	EQ(st->state, RIVULET_STATE_DONE);
	EQ(st->fault, RIVULET_FAULT_NONE);
	EQ(st->variant, st->level);
	EQ(st->insn, 7);
	OK(st->cycles && st->end > st->start && st->read_bytes >= 1024 && st->write_bytes >= 1024);
	vm_counters_after(c.fd, &after, before.jobs + 1);
	OK(after.jobs > before.jobs);
	EQ(after.resets, before.resets);
}

static void syncs_binary(void)
{
	struct vm_client c = vm_client();
	uint32_t second = vm_sync_new(c.fd);
	struct vm_job a, b;

	vm_noise(c.from.map, 256, 21);
	vm_copy_job(&a, &c.code, &c.from, &c.to, 256);
	vm_job_out(&a, c.sync, 0);
	vm_copy_job(&b, &c.code, &c.from, &c.to, 256);
	vm_job_in(&b, c.sync, 0);
	vm_job_out(&b, second, 0);
	OK(!vm_submit(c.fd, &a));
	OK(!vm_submit(c.fd, &b));
	EQ(vm_sync_result(c.fd, second), 0);
	/* The fence that the job waited for has signalled. */
	OK(!vm_sync_wait(c.fd, c.sync, 0, 0));
}

static void syncs_timeline(void)
{
	struct vm_client c = vm_client();
	uint64_t big = 1ull << 40;	/* beyond 32 bits */
	struct vm_job j;

	for (uint64_t i = 0; i < 4; i++) {
		vm_copy_job(&j, &c.code, &c.from, &c.to, 256);
		if (i)
			vm_job_in(&j, c.sync, big + i - 1);
		vm_job_out(&j, c.sync, big + i);
		OK(!vm_submit(c.fd, &j));
	}
	OK(!vm_sync_wait(c.fd, c.sync, big + 3, VM_WAIT_MS));
	vm_job_init(&j);
	vm_copy_job(&j, &c.code, &c.from, &c.to, 256);
	vm_job_in(&j, c.sync, big + 4);
	FAILS(vm_submit(c.fd, &j), EINVAL);
}

/* A chain of jobs through four buffers and two files, which only implicit sync orders. */
static void implicit(void)
{
	int fd[2] = { vm_open(), vm_open() }, dmabuf;
	struct vm_buf code[2], own[5], shared[5];
	struct vm_job j;

	for (int f = 0; f < 2; f++)
		code[f] = vm_buf_new(fd[f], 4096);
	for (int i = 0; i < 5; i++) {
		own[i] = vm_buf_new(fd[0], 65536);
		shared[i] = (struct vm_buf){ .fd = fd[1], .size = 65536 };
		OK(!vm_export(fd[0], own[i].handle, DRM_RDWR, &dmabuf));
		OK(!vm_import(fd[1], dmabuf, &shared[i].handle));
	}
	for (int round = 0; round < 8; round++) {
		struct pollfd p = { .events = POLLIN };

		vm_noise(own[0].map, 65536, 100 + round);
		for (int i = 0; i < 4; i++) {
			struct vm_buf *b = i & 1 ? shared : own;

			vm_copy_job(&j, &code[i & 1], &b[i], &b[i + 1], 65536);
			OK(!vm_submit(fd[i & 1], &j));
		}
		/* Polling a dma-buf for reading waits for its last writer. */
		OK(!vm_export(fd[0], own[4].handle, DRM_RDWR, &p.fd));
		EQ(poll(&p, 1, VM_WAIT_MS), 1);
		close(p.fd);
		OK(!memcmp(own[4].map, own[0].map, 65536));
	}
}

/* More jobs in submits of 64 than the device's queue holds. The seq numbers wrap meanwhile. */
static void thousand(void)
{
	struct vm_client c = vm_client();
	struct drm_rivulet_counters before, after;
	struct drm_rivulet_job array[DRM_RIVULET_MAX_JOBS];
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)array,
		.count = DRM_RIVULET_MAX_JOBS,
		.stride = sizeof(array[0]),
		.queue = VM_QUEUE,
	};
	struct vm_job j;

	vm_counters(c.fd, &before);
	vm_noise(c.from.map, 256, 9);
	vm_copy_job(&j, &c.code, &c.from, &c.to, 256);
	for (int i = 0; i < DRM_RIVULET_MAX_JOBS; i++)
		array[i] = j.job;
	for (int n = 0; n < 16; n++)
		OK(!vm_ioctl(c.fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
	EQ(copy_once(&c, 256), 0);
	OK(!memcmp(c.to.map, c.from.map, 256));
	vm_counters_after(c.fd, &after, before.jobs + 16 * DRM_RIVULET_MAX_JOBS + 1);
	EQ(after.jobs - before.jobs, 16 * DRM_RIVULET_MAX_JOBS + 1);
	EQ(after.faults, before.faults);
}

/*
 * While a job runs, the device has the next one already, and starts it without the driver. The
 * device counts these jobs. Each job lasts until the test ends it, so that the speed of the machine
 * does not matter.
 */
static void back_to_back(void)
{
	enum { JOBS = 16 };
	struct vm_client c = vm_client();
	struct drm_rivulet_job array[JOBS];
	struct vm_job jobs[JOBS];
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)array,
		.count = JOBS,
		.stride = sizeof(array[0]),
		.queue = VM_QUEUE,
	};
	char spec[32];
	long followed;

	/* With the system's clock a change of level holds the queue. */
	vm_pin_level(c.fd, 0);
	followed = vm_control_stat("followed");
	for (int i = 0; i < JOBS; i++) {
		snprintf(spec, sizeof(spec), "inject slow@+%d:60000", i + 1);
		vm_control(spec);
		vm_copy_job(&jobs[i], &c.code, &c.from, &c.to, 256);
		vm_job_out(&jobs[i], c.sync, i + 1);
		array[i] = jobs[i].job;
	}
	OK(!vm_ioctl(c.fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
	for (int i = 1; i <= JOBS; i++) {
		OK(vm_queue_holds(i < JOBS ? 2 : 1));
		FAILS(vm_sync_wait(c.fd, c.sync, i, 0), ETIME);
		vm_control("hurry");
		OK(!vm_sync_wait(c.fd, c.sync, i, VM_WAIT_MS));
	}
	EQ(vm_control_stat("followed"), followed + JOBS - 1);
	vm_unpin_level(c.fd);
}

/* Submit to a file until a job is refused. Returns the number of jobs that were queued. */
static int fill_file(struct vm_client *c)
{
	struct drm_rivulet_job array[DRM_RIVULET_MAX_JOBS];
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)array,
		.count = DRM_RIVULET_MAX_JOBS,
		.stride = sizeof(array[0]),
		.queue = VM_QUEUE,
	};
	struct vm_job j;
	int n;

	vm_copy_job(&j, &c->code, &c->from, &c->to, 256);
	for (int i = 0; i < DRM_RIVULET_MAX_JOBS; i++)
		array[i] = j.job;
	for (n = 0; n < 100 && !vm_ioctl(c->fd, DRM_IOCTL_RIVULET_SUBMIT, &s); n++)
		;
	EQ(errno, EBUSY);
	return n * DRM_RIVULET_MAX_JOBS;
}

#define FILE_JOBS	4096
#define USER_JOBS	(4 * FILE_JOBS)

/*
 * Queue as many jobs as a file and a user may have behind one that does not end, and close the
 * files.
 */
static void fill_queue(void)
{
	struct vm_client c = vm_client();
	char spec[64];
	int total;

	EQ(copy_once(&c, 256), 0);
	snprintf(spec, sizeof(spec), "inject slow@=%ld:60000", vm_control_stat("client"));
	vm_control(spec);
	total = fill_file(&c);
	OK(total > FILE_JOBS / 2 && total <= FILE_JOBS + DRM_RIVULET_MAX_JOBS);
	for (int i = 0; i < 4; i++) {
		c = vm_client();
		total += fill_file(&c);
	}
	OK(total > USER_JOBS / 2 && total <= USER_JOBS + DRM_RIVULET_MAX_JOBS);
	_exit(0);
}

static void queue_limit(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		fill_queue();
	OK(pid > 0 && waitpid(pid, &status, 0) == pid);
	EQ(status, 0);
	/* Jobs that the device has outlive their file; the others are cancelled. */
	vm_control("hurry");
}

static void two_clients(void)
{
	struct vm_client c[2] = { vm_client(), vm_client() };

	for (int round = 0; round < 32; round++) {
		for (int i = 0; i < 2; i++)
			vm_client_submit(&c[i], round * 2 + i);
		for (int i = 0; i < 2; i++)
			vm_client_good(&c[i]);
	}
}

static void levels(void)
{
	struct vm_client c = vm_reporter();
	struct drm_rivulet_device info;
	const struct rivulet_status *st = vm_report(&c);
	uint64_t cycles = 0;

	vm_info(c.fd, &info);
	for (uint32_t level = 0; level < info.level_count; level++) {
		vm_pin_level(c.fd, level);
		vm_client_submit(&c, level);
		vm_client_good(&c);
		EQ(st->level, level);
		EQ(st->variant, level);
		OK(!cycles || st->cycles == cycles);
		cycles = st->cycles;
	}
	vm_unpin_level(c.fd);
}

/* A copy at no level below @min_level. */
static void submit_at(struct vm_client *c, uint32_t min_level)
{
	struct vm_job j;

	vm_client_job(c, &j);
	j.job.min_level = min_level;
	OK(!vm_submit(c->fd, &j));
}

static uint32_t level_of(struct vm_client *c)
{
	EQ(vm_sync_result(c->fd, c->sync), 0);
	return vm_report(c)->level;
}

/*
 * Request the lowest level while a job runs at the highest level and another one is queued behind
 * it.
 */
static uint32_t level_behind(struct vm_client *first, struct vm_client *next, uint32_t min_level)
{
	struct drm_rivulet_device info;

	vm_info(first->fd, &info);
	vm_pin_level(first->fd, info.level_count - 1);
	vm_control("inject slow@+1:60000");
	submit_at(first, 0);
	submit_at(next, min_level);
	OK(vm_queue_holds(2));
	vm_await_running();
	vm_limit_level(&info, 0, 0);
	EQ(vm_level(first->fd), info.level_count - 1);
	vm_control("hurry");
	EQ(level_of(first), info.level_count - 1);
	return level_of(next);
}

/* The level changes after the running job, and later if the queued job has a higher minimum. */
static void min_level(void)
{
	struct vm_client c[2] = { vm_reporter(), vm_reporter() };
	struct drm_rivulet_device info;

	vm_info(c[0].fd, &info);
	EQ(level_behind(&c[0], &c[1], info.level_count - 1), info.level_count - 1);
	vm_pin_level(c[0].fd, 0);
	submit_at(&c[0], 0);
	EQ(level_of(&c[0]), 0);
	/* With the system's clock, the change may come after the job behind has started. */
	if (vm_on_pci())
		EQ(level_behind(&c[0], &c[1], 0), 0);
	vm_unpin_level(c[0].fd);
}

static void await_level(int fd, uint32_t level)
{
	for (int i = 0; i < VM_WAIT_MS / 10 && vm_level(fd) != level; i++)
		usleep(10000);
	EQ(vm_level(fd), level);
}

/* The frequency that the governor chose last, Hz. */
static uint64_t wanted_hz(void)
{
	unsigned long long hz = 0;
	FILE *f;
	glob_t g;

	OK(!glob("/sys/class/devfreq/*/target_freq", 0, NULL, &g));
	f = fopen(g.gl_pathv[0], "re");
	OK(f && fscanf(f, "%llu", &hz) == 1);
	fclose(f);
	globfree(&g);
	return hz;
}

/*
 * The governor lowers the level of an idle device and raises it while a job runs, for the next job.
 */
static void ondemand(void)
{
	struct vm_client c[2] = { vm_reporter(), vm_reporter() };
	struct drm_rivulet_device info;
	uint32_t top, next;

	vm_info(c[0].fd, &info);
	top = info.level_count - 1;
	vm_unpin_level(c[0].fd);
	await_level(c[0].fd, 0);
	vm_limit_level(&info, 0, 0);
	vm_control("inject slow@+1:60000");
	submit_at(&c[0], 0);
	submit_at(&c[1], 0);
	OK(vm_queue_holds(2));
	vm_await_running();
	vm_unpin_level(c[0].fd);
	for (int i = 0; i < VM_WAIT_MS / 10 && wanted_hz() != info.level[top].hz; i++)
		usleep(10000);
	EQ(wanted_hz(), info.level[top].hz);
	EQ(vm_level(c[0].fd), 0);
	vm_control("hurry");
	EQ(level_of(&c[0]), 0);
	/* With the system's clock, the change may come after the job behind has started. */
	next = level_of(&c[1]);
	OK(next == top || !vm_on_pci());
	await_level(c[0].fd, 0);
}

/*
 * A job with a command stream for one level ends with ENOEXEC at the others, and no other job is
 * affected.
 */
static void no_variant(void)
{
	struct vm_client c = vm_client();
	struct drm_rivulet_device info;
	struct vm_job j;

	vm_info(c.fd, &info);
	if (info.level_count < 2)
		vm_skip("one level only");
	vm_pin_level(c.fd, 0);
	vm_copy_job(&j, &c.code, &c.from, &c.to, 256);
	memset(&j.variant[0], 0, sizeof(j.variant[0]));
	vm_job_out(&j, c.sync, 0);
	OK(!vm_submit(c.fd, &j));
	EQ(vm_sync_result(c.fd, c.sync), -ENOEXEC);
	EQ(copy_once(&c, 256), 0);
	vm_unpin_level(c.fd);
}

static void usage(void)
{
	struct vm_client c = vm_client_on(vm_open(), 65536);
	int other = vm_open();

	EQ(vm_fdinfo(c.fd, "drm-engine-npu"), 0);
	EQ(copy_once(&c, 65536), 0);
	OK(vm_fdinfo(c.fd, "drm-engine-npu") > 0);
	OK(vm_fdinfo(c.fd, "drm-cycles-npu") > 0);
	OK(vm_fdinfo(c.fd, "drm-maxfreq-npu") > 1000000);
	EQ(vm_fdinfo(c.fd, "drm-total-memory"), (4096 + 2 * 65536) / 1024);
	EQ(vm_fdinfo(other, "drm-engine-npu"), 0);
}

/*
 * A client that is killed with jobs queued leaves nothing in the driver, and other clients go on.
 */
static void killed_client(void)
{
	struct vm_client c = vm_client();
	int status, ready[2];
	char go;
	pid_t pid;

	OK(!pipe(ready));
	pid = fork();
	if (pid == 0) {
		struct vm_client mine = vm_client();
		struct vm_job j;

		vm_copy_job(&j, &mine.code, &mine.from, &mine.to, 256);
		for (int i = 0; i < 200; i++)
			OK(!vm_submit(mine.fd, &j));
		OK(write(ready[1], "g", 1) == 1);
		pause();
		_exit(0);
	}
	OK(pid > 0 && read(ready[0], &go, 1) == 1);
	OK(!kill(pid, 9) && waitpid(pid, &status, 0) == pid);
	EQ(copy_once(&c, 256), 0);
}

const struct vm_test vm_job_tests[] = {
	{ "job_copy", "a program of LOAD and STORE copies exactly the bytes that it names", copy },
	{ "job_offsets", "slots may begin and end at any byte of scattered pages", offsets },
	{ "job_report", "the copy of the status is in its slot and has cycles, bytes and times",
	  report },
	{ "job_syncobj", "binary syncobjs order jobs and signal their end", syncs_binary },
	{ "job_timeline",
	  "timeline points beyond 32 bits order jobs; a point without a fence is refused",
	  syncs_timeline },
	{ "job_implicit",
	  "reservations order readers and writers of a buffer across files without a syncobj",
	  implicit },
	{ "job_thousand",
	  "1,025 jobs in sequence, across the wrap of the seq, are each retired once",
	  thousand },
	{ "job_back_to_back",
	  "the device starts the next job by itself, because the queue has two entries",
	  back_to_back },
	{ "job_two_clients", "two clients take turns, and each gets its own data", two_clients },
	{ "job_levels", "devfreq limits reach the device, and the variant follows the level",
	  levels },
	{ "job_min_level",
	  "a level changes between jobs only, and not before a job whose min_level is higher",
	  min_level },
	{ "job_ondemand",
	  "the governor sees busy and idle time: lowest level when idle, highest under load",
	  ondemand },
	{ "job_no_variant",
	  "a job without commands for the level ends as ENOEXEC and does not stop the queue",
	  no_variant },
	{ "job_fdinfo", "fdinfo accounts device time, cycles and memory to the right file", usage },
	{ "job_queue_limit",
	  "a file and a user can queue a limited number of jobs; a "
	  "file may be closed with all of them queued",
	  queue_limit },
	{ "job_killed", "a client that is killed with jobs queued leaves no object in the driver",
	  killed_client },
	{ 0 },
};
