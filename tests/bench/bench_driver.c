// SPDX-License-Identifier: MIT
/*
 * Measures the overhead of the kernel driver in the VM. The device is bound alternately to rivulet
 * and to floor.ko (tests/kmod/floor), so that both run under the same conditions. Needs root, both
 * modules loaded, and no other user of the device. Exits with 1 if a bar is missed.
 */
#include <fcntl.h>
#include <glob.h>
#include <linux/perf_event.h>
#include <linux/udmabuf.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "kmod/floor/floor.h"
#include "vm/vm.h"

#define ROUNDS		20	/* rounds of each driver */
#define SAMPLES		100	/* per round, after WARM that are not counted */
#define WARM		15
#define DEPTH_ROUNDS	5
#define GAP_ROUNDS	6
#define GAP_JOBS	64
#define GAP_NS		1000000ull
#define IMPORT_BYTES	(64u << 20)
#define IMPORT_ROUNDS	9

struct series {
	const char *name;
	uint64_t ns[ROUNDS * SAMPLES];
	size_t n;
};

static struct series submit = { .name = "driver.submit" }, bell = { .name = "driver.floor" },
		     entry = { .name = "driver.floor.entry" }, raw = { .name = "driver.floor.raw" };
static char device[32];	/* PCI address */
static int missed;

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t median(uint64_t *v, size_t n)
{
	OK(n > 0);
	qsort(v, n, sizeof(v[0]), compare);
	return v[n / 2];
}

static void bar(bool kept, const char *what)
{
	if (!kept)
		printf("missed: %s\n", what);
	missed |= !kept;
}

/* Binds the device to a driver, and waits until udev has handled the new nodes. */
static void bind_device(const char *driver)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver/unbind", device);
	if (!access(path, W_OK))
		vm_sysfs_write(path, device);
	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s/bind", driver);
	vm_sysfs_write(path, device);
	OK(!system("udevadm settle"));
}

static int open_floor(void)
{
	char path[32], name[16];

	for (int i = 0; i < 8; i++) {
		struct drm_version v = { .name = name, .name_len = sizeof(name) - 1 };
		int fd;

		snprintf(path, sizeof(path), "/dev/accel/accel%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		memset(name, 0, sizeof(name));
		if (fd >= 0 && !ioctl(fd, DRM_IOCTL_VERSION, &v) && !strcmp(name, "floor"))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	vm_fail(__FILE__, __LINE__, "no node of floor.ko");
}

/* A job whose program consists of END only. */
struct empty {
	int fd;
	struct vm_buf code;
	uint32_t sync;
	struct vm_job job;
};

static void empty_open(struct empty *e)
{
	struct vm_prog p = {};

	e->fd = vm_open();
	e->code = vm_buf_new(e->fd, 4096);
	e->sync = vm_sync_new(e->fd);
	vm_put_end(&p);
	vm_job_init(&e->job);
	vm_job_code(&e->job, &e->code, &p);
}

static void empty_close(struct empty *e)
{
	vm_buf_free(&e->code);
	close(e->fd);
}

/* Adds the duration of repeated calls of @call to @s. */
static void sample(struct series *s, void (*call)(void *ctx), void *ctx)
{
	for (int i = -WARM; i < SAMPLES; i++) {
		uint64_t start = clock_ns();

		call(ctx);
		if (i >= 0)
			s->ns[s->n++] = clock_ns() - start;
	}
}

static void submit_once(void *ctx)
{
	struct empty *e = ctx;
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)&e->job.job, .count = 1, .stride = sizeof(e->job.job),
			.queue = VM_QUEUE,
	};

	OK(!ioctl(e->fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
	OK(!vm_sync_wait(e->fd, e->sync, 0, VM_WAIT_MS));
}

struct floor {
	int fd;
	struct floor_submit args;
};

static void floor_once(void *ctx)
{
	struct floor *f = ctx;

	OK(!ioctl(f->fd, FLOOR_SUBMIT, &f->args));
	OK(!vm_sync_wait(f->fd, f->args.sync, 0, VM_WAIT_MS));
}

static void raw_once(void *ctx)
{
	struct floor *f = ctx;

	OK(!ioctl(f->fd, FLOOR_RAW));
}

static void sample_rivulet(void)
{
	struct empty e;

	bind_device("rivulet");
	empty_open(&e);
	vm_job_out(&e.job, e.sync, 0);
	sample(&submit, submit_once, &e);
	empty_close(&e);
}

static void sample_floor(void)
{
	struct vm_prog p = {};
	struct floor f;

	bind_device("rivulet-floor");
	f.fd = open_floor();
	f.args = (struct floor_submit){ .sync = vm_sync_new(f.fd), .kind = FLOOR_BELL };
	vm_put_end(&p);
	memcpy(f.args.code, &p.code[0], sizeof(f.args.code));
	sample(&raw, raw_once, &f);
	sample(&bell, floor_once, &f);
	f.args.kind = FLOOR_ENTRY;
	sample(&entry, floor_once, &f);
	close(f.fd);
}

/* Prints and returns the median. */
static double show(struct series *s)
{
	double mid = (double)median(s->ns, s->n) / 1e3;

	printf("figure %s.median %.1f us\n", s->name, mid);
	printf("figure %s.min %.1f us\n", s->name, (double)s->ns[0] / 1e3);
	return mid;
}

static void bench_latency(void)
{
	double cost, least;

	for (int i = 0; i < ROUNDS; i++) {
		sample_rivulet();
		sample_floor();
	}
	bind_device("rivulet");
	show(&raw);
	least = show(&bell);
	show(&entry);
	cost = show(&submit);
	printf("figure driver.submit.ratio %.2f x\n", cost / least);
	bar(cost <= 1.3 * least, "driver.submit.ratio is to be 1.3 at most");
}

/* Runs @jobs with @depth of them in the driver, by a timeline. Returns ns for all. */
static uint64_t run_depth(int depth, int jobs)
{
	struct empty e;
	uint64_t start, end;

	empty_open(&e);
	vm_job_out(&e.job, e.sync, 1);
	start = clock_ns();
	for (int i = 1; i <= jobs; i++) {
		e.job.out[0].point = i;
		OK(!vm_submit(e.fd, &e.job));
		if (i >= depth)
			OK(!vm_sync_wait(e.fd, e.sync, i - depth + 1, VM_WAIT_MS));
	}
	OK(!vm_sync_wait(e.fd, e.sync, jobs, VM_WAIT_MS));
	end = clock_ns();
	empty_close(&e);
	return end - start;
}

static void bench_depth(int depth, int jobs)
{
	uint64_t ns[DEPTH_ROUNDS];

	for (int i = 0; i < DEPTH_ROUNDS; i++)
		ns[i] = run_depth(depth, jobs);
	printf("figure driver.jobs_per_s.%d %.0f 1/s\n", depth,
	       jobs * 1e9 / median(ns, DEPTH_ROUNDS));
}

/* Counts all ioctls of this thread. */
static int count_ioctls(void)
{
	static const char file[] = "/sys/kernel/tracing/events/syscalls/sys_enter_ioctl/id";
	struct perf_event_attr a = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(a) };
	FILE *f = fopen(file, "re");
	int fd, id;

	if (!f || fscanf(f, "%d", &id) != 1)
		vm_fail(__FILE__, __LINE__, "cannot read %s", file);
	fclose(f);
	a.config = id;
	fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	OK(fd >= 0);
	return fd;
}

static void run_by_fd(struct empty *e, const struct rivulet_status *st)
{
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)&e->job.job, .count = 1, .stride = sizeof(e->job.job),
			.queue = VM_QUEUE,
		.flags = DRM_RIVULET_SUBMIT_FENCE_FD,
	};
	struct pollfd p = { .events = POLLIN };

	OK(!ioctl(e->fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
	p.fd = s.fence_fd;
	EQ(poll(&p, 1, VM_WAIT_MS), 1);
	close(p.fd);
	EQ(st->state, RIVULET_STATE_DONE);
}

static void bench_ioctls(void)
{
	enum { JOBS = 500 };
	struct vm_buf report;
	struct empty e;
	uint64_t before, after;
	int counter;

	empty_open(&e);
	report = vm_buf_new(e.fd, 4096);
	vm_job_region(&e.job, 1, &report, 0, 4096, DRM_RIVULET_REGION_WRITE);
	e.job.job.report_slot = 1;
	counter = count_ioctls();
	OK(read(counter, &before, 8) == 8);
	for (int i = 0; i < JOBS; i++) {
		memset(report.map, 0, sizeof(struct rivulet_status));
		run_by_fd(&e, (const void *)report.map);
	}
	OK(read(counter, &after, 8) == 8);
	close(counter);
	printf("figure driver.ioctls_per_job %.2f ioctls\n", (double)(after - before) / JOBS);
	bar(after - before == JOBS, "driver.ioctls_per_job is to be 1");
	vm_buf_free(&report);
	empty_close(&e);
}

/* Scattered pages: those of a memfd. */
static int scattered(void **map)
{
	int mem = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;
	struct udmabuf_create c = { .memfd = mem, .flags = UDMABUF_FLAGS_CLOEXEC,
				    .size = IMPORT_BYTES };

	OK(mem >= 0 && udmabuf >= 0 && !ftruncate(mem, IMPORT_BYTES));
	*map = mmap(NULL, IMPORT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, mem, 0);
	OK(*map != MAP_FAILED && !fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK));
	fd = ioctl(udmabuf, UDMABUF_CREATE, &c);
	OK(fd >= 0);
	close(udmabuf);
	close(mem);
	return fd;
}

static void bench_import(void)
{
	uint64_t import[IMPORT_ROUNDS], fill[IMPORT_ROUNDS], start;
	long list = 0;
	void *map;
	int dmabuf = scattered(&map), fd = vm_open();
	double ratio;

	for (int i = 0; i < IMPORT_ROUNDS; i++) {
		uint32_t handle;

		start = clock_ns();
		OK(!vm_import(fd, dmabuf, &handle));
		import[i] = clock_ns() - start;
		list = vm_objects("list_bytes");
		vm_close_handle(fd, handle);
		start = clock_ns();
		memset(map, i + 1, IMPORT_BYTES);
		fill[i] = clock_ns() - start;
	}
	ratio = (double)median(import, IMPORT_ROUNDS) / median(fill, IMPORT_ROUNDS);
	printf("figure driver.import.time %.2f ms\n", import[IMPORT_ROUNDS / 2] / 1e6);
	printf("figure driver.import.write %.2f ms\n", fill[IMPORT_ROUNDS / 2] / 1e6);
	printf("figure driver.import.ratio %.3f x\n", ratio);
	bar(ratio <= 0.5, "driver.import.ratio is to be 0.5 at most");
	OK(list > 0);
	printf("figure driver.pagelist.overhead %.3f %%\n", 100.0 * list / IMPORT_BYTES);
	bar(400 * list <= IMPORT_BYTES, "driver.pagelist.overhead is to be 0.25 % at most");
	munmap(map, IMPORT_BYTES);
	close(dmabuf);
	close(fd);
}

/* Jobs of a millisecond each, and their reports. */
struct train {
	int fd;
	uint32_t sync;
	struct vm_buf code, from, to, reports;
	struct vm_job job[GAP_JOBS];
	struct drm_rivulet_job array[GAP_JOBS];
};

static const struct rivulet_status *train_status(const struct train *t, int i)
{
	return (const void *)(t->reports.map + 4096 * i);
}

static void train_open(struct train *t)
{
	t->fd = vm_open();
	t->sync = vm_sync_new(t->fd);
	t->code = vm_buf_new(t->fd, 16384);
	t->from = vm_buf_new(t->fd, 65536);
	t->to = vm_buf_new(t->fd, 65536);
	t->reports = vm_buf_new(t->fd, 4096 * GAP_JOBS);
	vm_pin_level(t->fd, 0);
}

static void train_close(struct train *t)
{
	vm_unpin_level(t->fd);
	vm_buf_free(&t->code);
	vm_buf_free(&t->from);
	vm_buf_free(&t->to);
	vm_buf_free(&t->reports);
	close(t->fd);
}

/* Runs @count jobs of @copies of 64 KiB each, and waits for them. */
static void train_run(struct train *t, int count, unsigned int copies)
{
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)t->array, .count = count, .stride = sizeof(t->array[0]),
			.queue = VM_QUEUE,
	};
	struct drm_rivulet_device info;
	struct vm_prog p = {};

	vm_info(t->fd, &info);
	for (unsigned int i = 0; i < copies; i++)
		vm_put_copy(&p, info.tn, 1, 0, 2, 0, 65536 / info.tn);
	vm_put_end(&p);
	for (int i = 0; i < count; i++) {
		struct vm_job *j = &t->job[i];

		vm_job_init(j);
		vm_job_code(j, &t->code, &p);
		vm_job_region(j, 1, &t->from, 0, 65536, 0);
		vm_job_region(j, 2, &t->to, 0, 65536, DRM_RIVULET_REGION_WRITE);
		vm_job_region(j, 3, &t->reports, 4096 * i, 4096, DRM_RIVULET_REGION_WRITE);
		j->job.report_slot = 3;
		if (i == count - 1)
			vm_job_out(j, t->sync, 0);
		t->array[i] = j->job;
	}
	OK(!ioctl(t->fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
	EQ(vm_sync_result(t->fd, t->sync), 0);
}

/* Copies that take the device a millisecond. */
static unsigned int train_copies(struct train *t)
{
	const struct rivulet_status *st = train_status(t, 0);

	train_run(t, 1, 4);
	return 1 + 4 * GAP_NS / (st->end - st->start);
}

/* ns between one job's end and the next one's start on the device, with @depth credits. */
static void gap_round(const char *depth, struct series *s)
{
	struct train t;
	unsigned int copies;

	vm_sysfs_write("/sys/module/rivulet/parameters/queue_depth", depth);
	bind_device("rivulet");
	train_open(&t);
	copies = train_copies(&t);
	train_run(&t, GAP_JOBS, copies);
	for (int i = 1; i < GAP_JOBS; i++)
		s->ns[s->n++] = train_status(&t, i)->start - train_status(&t, i - 1)->end;
	train_close(&t);
}

static double gap_show(const char *name, struct series *s)
{
	uint64_t sum = 0, mid = median(s->ns, s->n);

	for (size_t i = 0; i < s->n; i++)
		sum += s->ns[i];
	printf("figure driver.gap.%s.median %.2f us\n", name, mid / 1e3);
	printf("figure driver.gap.%s.mean %.2f us\n", name, (double)sum / s->n / 1e3);
	return (double)mid;
}

static void bench_gap(void)
{
	static struct series depth1, depth2;
	struct drm_rivulet_device info;
	double one, two, cycle;
	int fd;

	for (int i = 0; i < GAP_ROUNDS; i++) {
		gap_round("1", &depth1);
		gap_round("2", &depth2);
	}
	fd = vm_open();
	vm_info(fd, &info);
	close(fd);
	one = gap_show("one", &depth1);
	two = gap_show("two", &depth2);
	/* A gap cannot be measured more exactly than a cycle of the device. */
	cycle = 1e9 / info.level[0].hz;
	printf("figure driver.gap.ratio %.1f x\n", one / (two > cycle ? two : cycle));
	bar(one >= 5 * two, "driver.gap.ratio is to be 5 at least");
}

static void find_device(void)
{
	glob_t g;

	OK(!glob("/sys/bus/pci/drivers/rivulet/0000:*", 0, NULL, &g));
	snprintf(device, sizeof(device), "%s", strrchr(g.gl_pathv[0], '/') + 1);
	globfree(&g);
}

int main(void)
{
	find_device();
	bench_latency();
	bench_depth(1, 500);
	bench_depth(2, 1000);
	bench_depth(16, 2000);
	bench_depth(256, 4000);
	bench_ioctls();
	bench_import();
	bench_gap();
	return missed;
}
