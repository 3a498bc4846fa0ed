// SPDX-License-Identifier: MIT
/*
 * Each test injects one kind of fault into the model. The fault hits a job of one client, the
 * faulting client, while another process, the neighbour, runs a thousand jobs. The faulting job
 * must end with its error, and the output of each of the thousand must be right. Where the device
 * itself is lost, the neighbour continues on a new one.
 */
#include "clock.h"
#include "vm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	JOBS = 1000,	/* of the neighbour */
	BEFORE = 200,	/* number of them that must run before the fault */
	DURING = 700,	/* limit for them while the fault lasts */
	DEPTH = 4,	/* number of them that are queued at a time */
};

static void good(struct vm_client *c, uint64_t seed)
{
	vm_client_submit(c, seed);
	vm_client_good(c);
}

/* Memory that both processes of a test share. */
struct beat {
	_Atomic uint32_t done;		/* the neighbour's jobs whose output was right */
	_Atomic bool over;		/* the faulting client has its result */
	_Atomic uint32_t devices;	/* plugged since the test began */
	/* the neighbour's jobs that ended because a device was lost */
	_Atomic uint32_t lost;
	bool may_lose;
	pid_t neighbour;		/* used by the faulting client only */
};

/* ---- the neighbour ---- */

static void open_all(struct vm_client *c)
{
	c[0] = vm_client();
	for (int i = 1; i < DEPTH; i++)
		c[i] = vm_client_on(c->fd, c->bytes);
}

/* The device is lost with all its jobs: close it and wait for the next one. */
static void change_device(struct beat *b, struct vm_client *c, uint32_t *devices)
{
	OK(b->may_lose);
	close(c->fd);
	for (int i = 0; i < 3 * VM_WAIT_MS && b->devices == *devices; i++)
		usleep(1000);
	EQ(b->devices, *devices + 1);
	*devices = b->devices;
	open_all(c);
}

/*
 * As vm_sync_result(), but the device may be unbound meanwhile, after which all ioctls return
 * ENODEV.
 */
static int result_of(const struct vm_client *c)
{
	struct drm_syncobj_handle h = {
		.handle = c->sync, .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE,
	};

	if (!vm_ioctl(c->fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &h))
		return vm_file_result(h.fd);
	EQ(errno, ENODEV);
	return -ENODEV;
}

/*
 * Submit @n jobs at once; on a lost device, change it. Returns the number of jobs with the right
 * output.
 */
static uint32_t burst(struct beat *b, struct vm_client *c, uint32_t n, uint64_t seed,
		      uint32_t *devices)
{
	uint32_t right_ones = 0, queued = 0;
	bool lost = false;

	while (queued < n && !vm_client_try(&c[queued], seed + queued))
		queued++;
	lost = queued < n;
	OK(!lost || b->may_lose);
	for (uint32_t i = 0; i < queued; i++) {
		int result = result_of(&c[i]);

		if (!b->may_lose)
			EQ(result, 0);
		if (!result)
			OK(vm_client_copied(&c[i]));
		right_ones += !result;
		lost |= result != 0;
	}
	if (lost) {
		b->lost += n - right_ones;
		change_device(b, c, devices);
	}
	return right_ones;
}

static void be_neighbour(struct beat *b)
{
	struct vm_client c[DEPTH];
	uint32_t done = 0, devices = 0;

	alarm(180 * vm_slow());
	open_all(c);
	while (done < JOBS) {
		uint32_t n = JOBS - done < DEPTH ? JOBS - done : DEPTH;

		if (done >= DURING && !b->over) {
			usleep(1000);
			continue;
		}
		done += burst(b, c, n, 1000 + done, &devices);
		b->done = done;
	}
	EQ(b->lost != 0, b->may_lose);
	_exit(0);
}

static struct beat *neighbour(bool may_lose)
{
	struct beat *b =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	pid_t pid;

	OK(b != MAP_FAILED);
	b->may_lose = may_lose;
	fflush(stdout);
	pid = fork();
	OK(pid >= 0);
	if (!pid)
		be_neighbour(b);
	b->neighbour = pid;
	return b;
}

static void started(struct beat *b)
{
	for (int i = 0; i < 3 * VM_WAIT_MS && b->done < BEFORE; i++)
		usleep(1000);
	OK(b->done >= BEFORE);
}

/* Wait until the neighbour's thousand jobs are done and right. */
static void finished(struct beat *b)
{
	int status;

	b->over = true;
	OK(waitpid(b->neighbour, &status, 0) == b->neighbour);
	EQ(status, 0);
	EQ(b->done, JOBS);
	vm_totals->correct += b->done;
	vm_totals->survived++;
}

/* ---- the faulting client ---- */

struct faulty {
	struct vm_client c;
	uint32_t tag;
};

/* No other client has a job, so that the model's last client tag is that of this one. */
static struct faulty faulty(void)
{
	struct faulty g = { .c = vm_client() };

	good(&g.c, 1);
	g.tag = (uint32_t)vm_control_stat("client");
	return g;
}

static void hit(const struct faulty *g, const char *kind, const char *arg)
{
	char spec[80];

	snprintf(spec, sizeof(spec), "inject %s@=%u%s", kind, g->tag, arg);
	vm_control(spec);
}

/* The number of faults of a kind that the model has made. */
static long hits(const char *kind)
{
	char name[40];

	snprintf(name, sizeof(name), "hits_%s", kind);
	return vm_control_stat(name);
}

/*
 * How often the model makes an injected fault. It has no interrupt to lose or to repeat when the
 * device is polled, because the driver leaves the interrupt disabled.
 */
static long expected_hits(const char *kind)
{
	return !strstr(kind, "_irq") || !vm_polled();
}

/*
 * The faulting client's job ends with @result after @resets of the device, and the model made the
 * fault as often as expected. A later job of the same file is good.
 */
static void beside(const char *kind, const char *arg, int result, uint64_t resets)
{
	struct faulty g;
	struct beat *b;
	uint64_t before;
	long made = hits(kind);

	vm_totals->kinds++;
	g = faulty();
	before = vm_epoch(g.c.fd);
	b = neighbour(false);
	started(b);
	hit(&g, kind, arg);
	vm_client_submit(&g.c, 2);
	EQ(vm_sync_result(g.c.fd, g.c.sync), result);
	OK(result || vm_client_copied(&g.c));
	good(&g.c, 3);
	EQ(vm_epoch(g.c.fd), before + resets);
	EQ(hits(kind), made + expected_hits(kind));
	finished(b);
}

static void hang(void)
{
	beside("hang", "", -ETIME, 0);
}

static void stuck(void)
{
	beside("stuck", "", -ETIME, 1);
}

static void lost_token(void)
{
	beside("lost_token", "", -EIO, 0);
}

static void corrupt_status(void)
{
	beside("corrupt_status", "", -EIO, 0);
}

static void internal(void)
{
	beside("internal", "", -EIO, 0);
}

/* Longer than two times timeout_ms, so that the driver checks twice whether the job hangs. */
#define SLOW_MS	4500

static void slow(void)
{
	uint64_t start = clock_ns();

	beside("slow", ":4500", 0, 0);
	OK(clock_ns() - start >= SLOW_MS * 1000000ull);
}

static void dup_irq(void)
{
	beside("dup_irq", "", 0, 0);
}

static void lost_irq(void)
{
	beside("lost_irq", "", 0, 0);
	/* The job is alone in the queue, so that no later interrupt replaces the lost one. */
	struct faulty g = faulty();
	long made = hits("lost_irq");

	hit(&g, "lost_irq", "");
	good(&g.c, 4);
	EQ(hits("lost_irq"), made + expected_hits("lost_irq"));
}

/*
 * Magic, seq, flags, report, status, a variant, a region's address and limit, the checksum itself.
 */
static void flip_desc(void)
{
	static const size_t at[] = {
		offsetof(struct rivulet_desc, magic),
		offsetof(struct rivulet_desc, seq),
		offsetof(struct rivulet_desc, flags),
		offsetof(struct rivulet_desc, report_slot),
		offsetof(struct rivulet_desc, status),
		offsetof(struct rivulet_desc, variant[0].length),
		offsetof(struct rivulet_desc, region[0].addr),
		offsetof(struct rivulet_desc, region[2].limit),
		offsetof(struct rivulet_desc, crc),
	};
	enum { FLIPS = sizeof(at) / sizeof(at[0]) };
	struct faulty g[FLIPS];
	struct beat *b;
	long made = hits("flip_desc");

	vm_totals->kinds++;
	for (int i = 0; i < FLIPS; i++)
		g[i] = faulty();
	b = neighbour(false);
	started(b);
	for (int i = 0; i < FLIPS; i++) {
		char bit[20];

		snprintf(bit, sizeof(bit), ":%zu", 8 * at[i] + 2 * (size_t)i);
		hit(&g[i], "flip_desc", bit);
		vm_client_submit(&g[i].c, 2);
		EQ(vm_sync_result(g[i].c.fd, g[i].c.sync), -EIO);
		OK(!vm_client_copied(&g[i].c));
		good(&g[i].c, 3);
	}
	EQ(hits("flip_desc"), made + FLIPS);
	finished(b);
}

/*
 * Between the driver's ABORT and the acknowledge of the RESET the device may write the job's
 * buffers. The pages must not have another user then, also when the client is gone.
 */
static void late_dma(void)
{
	enum { MINE = 64 };
	struct vm_buf mine[MINE];
	struct faulty g;
	struct beat *b;
	uint64_t before;
	int fd, fence;
	long made = hits("late_dma");

	vm_totals->kinds++;
	g = faulty();
	fd = vm_open();
	before = vm_epoch(fd);
	b = neighbour(false);
	started(b);
	hit(&g, "late_dma", "");
	vm_client_submit(&g.c, 2);
	fence = vm_sync_file(g.c.fd, g.c.sync);
	OK(!munmap(g.c.from.map, 4096) && !munmap(g.c.to.map, 4096) && !close(g.c.fd));
	for (int i = 0; i < MINE; i++) {
		mine[i] = vm_buf_new(fd, 65536);
		memset(mine[i].map, 0xa5, 65536);
	}
	EQ(vm_file_result(fence), -ETIME);
	EQ(vm_epoch(fd), before + 1);
	EQ(hits("late_dma"), made + 1);
	for (int i = 0; i < MINE; i++)
		for (int k = 0; k < 65536; k++)
			OK(mine[i].map[k] == 0xa5);
	finished(b);
}

const struct vm_test vm_fault_tests[] = {
	{ "fault_hang",
	  "a hanging job is aborted as ETIME without a reset; "
	  "1,000 jobs of another client are right",
	  hang },
	{ "fault_stuck",
	  "a job that ignores ABORT costs one reset; 1,000 jobs of another client are right",
	  stuck },
	{ "fault_late_dma",
	  "what a job writes until its reset is acknowledged reaches no "
	  "other buffer, even after its client has exited",
	  late_dma },
	{ "fault_lost_token",
	  "queues that wait for each other are a fault of their job; "
	  "1,000 jobs of another client are right",
	  lost_token },
	{ "fault_flip_desc",
	  "a descriptor with a flipped bit is refused and not "
	  "executed; 1,000 jobs of another client are right",
	  flip_desc },
	{ "fault_corrupt_status",
	  "a status with a wrong checksum fails its job only; "
	  "1,000 jobs of another client are right",
	  corrupt_status },
	{ "fault_internal",
	  "a fault of the device fails its job only; 1,000 jobs of another client are right",
	  internal },
	{ "fault_slow",
	  "a slow job is not treated as a hang; 1,000 jobs of another client are right",
	  slow },
	{ "fault_lost_irq",
	  "a completion without an interrupt is found and is no hang; "
	  "1,000 jobs of another client are right",
	  lost_irq },
	{ "fault_dup_irq",
	  "an additional interrupt retires no job twice; 1,000 jobs of another client are right",
	  dup_irq },
	{ 0 },
};

/* ---- faults that lose the device: the neighbour repeats its lost jobs on the next device ---- */

static void lose(const char *kind, int first, int later, const char *old, const char *fresh)
{
	struct drm_rivulet_query q = {};
	struct faulty g;
	struct beat *b;
	long made = hits(kind);

	vm_totals->kinds++;
	g = faulty();
	b = neighbour(true);
	started(b);
	hit(&g, kind, "");
	vm_client_submit(&g.c, 2);
	EQ(vm_sync_result(g.c.fd, g.c.sync), first);
	EQ(hits(kind), made + 1);
	FAILS(vm_client_try(&g.c, 3), -later);
	vm_replug(old, fresh);
	b->devices++;
	/* The old device's file keeps nothing but its mapped memory. */
	FAILS(vm_ioctl(g.c.fd, DRM_IOCTL_RIVULET_QUERY, &q), ENODEV);
	vm_noise(g.c.to.map, g.c.bytes, 3);
	OK(vm_client_copied(&g.c));
	struct vm_client next = vm_client();

	good(&next, 4);
	finished(b);
}

/* The device answers nothing, so that it can only be removed. */
static void dead(void)
{
	int events = vm_listen_events();

	lose("dead", -ETIME, -EIO, "npu", "npu1");
	vm_await_event(events, "LOST", "unresponsive");
}

/* Surprise removal: the registers read all ones before the kernel removes the device. */
static void allones(void)
{
	lose("allones", -ENODEV, -ENODEV, "npu1", "npu2");
}

static void figures(void)
{
	printf("figure faults.kinds %u kinds\n", vm_totals->kinds);
	printf("figure faults.survived %u kinds\n", vm_totals->survived);
	printf("figure faults.neighbour.correct %u jobs\n", vm_totals->correct);
	EQ(vm_totals->survived, vm_totals->kinds);
	EQ(vm_totals->correct, JOBS * vm_totals->kinds);
}

const struct vm_test vm_last_tests[] = {
	{ "fault_dead",
	  "a device that answers neither ABORT nor RESET fails its jobs; after a replug jobs run",
	  dead },
	{ "fault_allones",
	  "removing the device amid jobs ends them as ENODEV; buffers "
	  "keep their bytes, and a new device works",
	  allones },
	{ "fault_figures",
	  "the driver survived every kind of fault, and all jobs of the other clients were right",
	  figures },
	{ 0 },
};
