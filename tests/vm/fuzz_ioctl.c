// SPDX-License-Identifier: MIT
/*
 * fuzz_ioctl [--calls N] [--seed S] [--workers W] [--threads T] [--replug NAME] [--slow F]
 *            [--rounds FIRST-LAST]
 *
 * Calls the driver's ioctls, N times in all, with valid and with mutated arguments, from processes
 * and threads that close, replace, map and unmap each other's descriptors. A run consists of
 * rounds. In some rounds the device is unbound and bound; with NAME, the name of QEMU's connection
 * to the model, it is also unplugged and plugged in; in others the callers are killed. After each
 * round the driver must hold no object, and a good job must run.
 *
 * A finding is an unexpected errno, a call that does not return, a leak, a good job that fails, or
 * a warning in the kernel log. It is printed with the seed, the round and the last calls. "--seed S
 * --rounds R-R" repeats that round.
 */
#include "clock.h"
#include "fuzz.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUND_CALLS	4000	/* of all workers together */
#define STUCK_S		60	/* s; a call that takes longer is a finding */
#define MAX_FINDINGS	5	/* after which the run stops */
#define GROWTH_KB	16384	/* by which SUnreclaim may grow after WARM_ROUNDS */
#define WARM_ROUNDS	8

enum kind { CALM, RACE, LEVELS, KILL, UNBIND, REPLUG };

static const char *const kind_names[] = { "calm", "race", "levels", "kill", "unbind", "replug" };

struct options {
	uint64_t calls, seed;
	uint32_t workers, threads, slow, first, last;
	const char *replug;	/* name of QEMU's connection to the model, or NULL */
};

static struct fuzz_shared *sh;
static int kernel_log = -1;
static uint32_t plugged;	/* how often the device was plugged in again */

void vm_fail(const char *file, int line, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fuzz_finding(sh, "%s:%d: %s", file, line, text);
	_exit(1);
}

void vm_skip(const char *why)
{
	vm_fail(__FILE__, __LINE__, "%s", why);
}

static uint64_t now_ms(void)
{
	return clock_ns() / 1000000;
}

/* ---- a worker ---- */

static void nothing(int signal)
{
	(void)signal;
}

/* Shorter time slices than the scheduler's default let threads interleave at more places. */
static void slice(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} a = { .size = 48, .runtime = 100000 };

	syscall(SYS_sched_setattr, 0, &a, 0);
}

static void *thread_main(void *arg)
{
	struct fuzz_thread *t = arg;

	slice();
	for (uint64_t n = 0; n < sh->quota; n++)
		fuzz_call(t);
	return NULL;
}

static int memory_file(const void *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	OK(fd >= 0 && !ftruncate(fd, FUZZ_CODE_SIZE + 65536));
	OK(pwrite(fd, data, size, 0) == (ssize_t)size);
	return fd;
}

static void *area(size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	OK(p != MAP_FAILED);
	return p;
}

static void pool_init(struct fuzz_pool *p)
{
	memset(p, 0, sizeof(*p));
	memset(p->file, 0xff, sizeof(p->file));
	memset(p->buf, 0xff, sizeof(p->buf));
	memset(p->fence, 0xff, sizeof(p->fence));
	memset(p->timeline, 0xff, sizeof(p->timeline));
	for (uint32_t i = 0; i < FUZZ_SHARED; i++)
		p->buf[i] = sh->inherited[i];
	p->window = area(FUZZ_MAPS * FUZZ_WINDOW, PROT_NONE);
	p->programs = memory_file(sh->programs, sizeof(sh->programs));
	p->scratch = memory_file("", 1);
	p->udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	p->heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
}

static void thread_init(struct fuzz_thread *t, struct fuzz_pool *pool, uint32_t worker, uint32_t n)
{
	memset(t, 0, sizeof(*t));
	t->shared = sh;
	t->pool = pool;
	t->trace = &sh->trace[worker][n];
	t->arrays = area(sizeof(*t->arrays), PROT_READ | PROT_WRITE);
	t->edge = area(8192, PROT_READ | PROT_WRITE);
	munmap(t->edge + 4096, 4096);
	t->random = sh->seed;
	t->random = fuzz_random(t) + sh->round;
	t->random = fuzz_random(t) + worker * FUZZ_THREADS + n;
}

/* Interrupt a call that has waited for a while. A wait may be long, but a signal must end it. */
static void interrupt_waits(pthread_t *id, const struct fuzz_thread *t)
{
	uint64_t seen[FUZZ_THREADS] = { 0 };
	uint32_t running = sh->threads;

	while (running) {
		usleep(20000);
		running = 0;
		for (uint32_t i = 0; i < sh->threads; i++) {
			uint64_t calls = t[i].trace->calls;

			if (id[i] && pthread_tryjoin_np(id[i], NULL) == 0)
				id[i] = 0;
			else if (id[i] && calls == seen[i])
				pthread_kill(id[i], SIGUSR1);
			seen[i] = calls;
			running += id[i] != 0;
		}
	}
}

static void worker_main(uint32_t worker)
{
	static struct fuzz_pool pool;
	static struct fuzz_thread t[FUZZ_THREADS];
	pthread_t id[FUZZ_THREADS];
	struct sigaction a = { .sa_handler = nothing, .sa_flags = worker & 1 ? SA_RESTART : 0 };

	sigaction(SIGUSR1, &a, NULL);
	pool_init(&pool);
	for (uint32_t i = 0; i < sh->threads; i++)
		thread_init(&t[i], &pool, worker, i);
	fuzz_start(&t[0]);
	for (uint32_t i = 0; i < sh->threads; i++)
		OK(!pthread_create(&id[i], NULL, thread_main, &t[i]));
	interrupt_waits(id, t);
	_exit(0);
}

/* ---- checks after a round ---- */

static bool all_zero(void)
{
	return !vm_objects("buffers") && !vm_objects("jobs") && !vm_objects("clients");
}

static void check_leaks(const struct options *o)
{
	uint64_t end = now_ms() + 60000 * o->slow;
	long users;

	/* A work frees a job after its fence; the last fence drops the reference to the module. */
	do {
		users = vm_number("/sys/module/rivulet/refcnt", "");
		if (all_zero() && users == 0)
			return;
		usleep(20000);
	} while (now_ms() < end);
	fuzz_finding(sh, "left in the driver: %ld buffers, %ld jobs, %ld clients, %ld module users",
		     vm_objects("buffers"), vm_objects("jobs"), vm_objects("clients"), users);
}

/* A new client gets a right result. This runs in a process of its own, because vm_fail() exits. */
static void good_job(void)
{
	struct vm_client c = vm_client();

	vm_client_submit(&c, sh->round + 1);
	vm_client_good(&c);
	_exit(0);
}

static void in_child(void (*what)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		what();
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		fuzz_finding(sh, "the good job failed");
}

static bool complaint(const char *line)
{
	static const char *const words[] = {
		"WARNING:", "BUG:", "BUG ", "Oops", "KASAN", "KFENCE", "general protection",
		"leaked:", "blocked for more", "use-after-free", "refcount_t", "DMA-API",
		"INFO: task", "ODEBUG", "possible circular", "possible recursive",
		"inconsistent lock", "suspicious RCU", "device is lost", "corrupt",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(line, words[i]))
			return true;
	return false;
}

/* Report each warning of the kernel, and print the log that follows the first one. */
static void check_log(void)
{
	static int more = 120;
	static bool found;
	char line[8192];
	ssize_t n;

	while ((n = read(kernel_log, line, sizeof(line) - 1)) > 0 || (n < 0 && errno == EPIPE)) {
		line[n > 0 ? n : 0] = '\0';
		if (n > 0 && complaint(line)) {
			fuzz_finding(sh, "in the kernel log: %s", line);
			found = true;
		} else if (n > 0 && found && more-- > 0) {
			printf("#   %s", line);
		}
	}
}

/* ---- disturbances while workers run ---- */

static void find_device(void)
{
	const char *node = vm_node(), *objects = vm_debugfs("objects");

	OK(node && objects);
	snprintf(sh->node, sizeof(sh->node), "%s", node);
	snprintf(sh->debugfs, sizeof(sh->debugfs), "%.*s", (int)(strrchr(objects, '/') - objects),
		 objects);
}

static void unbind(void)
{
	char name[64];

	vm_device_name(name);
	vm_driver_file("unbind", name);
	usleep(20000);
	vm_driver_file("bind", name);
	vm_await_node(true);
	find_device();
}

static void replug(const char *name)
{
	char old[32], fresh[32];

	if (plugged)
		snprintf(old, sizeof(old), "fuzz%u", plugged);
	else
		snprintf(old, sizeof(old), "%s", name);
	snprintf(fresh, sizeof(fresh), "fuzz%u", ++plugged);
	vm_replug(old, fresh);
	find_device();
}

static void change_level(struct fuzz_thread *t)
{
	int fd = open(sh->node, O_RDWR | O_CLOEXEC);
	struct drm_rivulet_device info;

	OK(fd >= 0);
	vm_info(fd, &info);
	vm_limit_level(&info, fuzz_below(t, info.level_count), info.level_count - 1);
	usleep(5000);
	vm_unpin_level(fd);
	close(fd);
}

static void disturb(enum kind kind, const struct options *o, struct fuzz_thread *t, pid_t *pids)
{
	switch (kind) {
	case LEVELS:
		change_level(t);
		break;
	case KILL:
		usleep(10000 + fuzz_below(t, 200000));
		if (pids[0] > 0)
			kill(pids[0], SIGKILL);
		break;
	case UNBIND:
		usleep(100000 + fuzz_below(t, 200000));
		unbind();
		break;
	case REPLUG:
		replug(o->replug);
		break;
	default:
		usleep(20000);
	}
}

/* ---- rounds ---- */

static uint64_t total_calls(void)
{
	uint64_t n = 0;

	for (uint32_t w = 0; w < FUZZ_WORKERS; w++)
		for (uint32_t i = 0; i < FUZZ_THREADS; i++)
			n += sh->trace[w][i].calls;
	return n;
}

static void report_stuck(const struct options *o, pid_t *pids)
{
	char command[64];

	fuzz_finding(sh, "no call has returned for %u s", STUCK_S * o->slow);
	for (uint32_t w = 0; w < o->workers; w++) {
		if (pids[w] <= 0)
			continue;
		for (uint32_t i = 0; i < sh->threads; i++)
			fuzz_dump(sh, &sh->trace[w][i], 2);
		snprintf(command, sizeof(command), "grep -H . /proc/%d/task/*/stack", pids[w]);
		if (system(command))
			printf("#   no stacks\n");
		kill(pids[w], SIGKILL);
	}
}

static bool reap(const struct options *o, pid_t *pids, bool killed)
{
	bool left = false;
	int status;

	for (uint32_t w = 0; w < o->workers; w++) {
		if (pids[w] <= 0)
			continue;
		if (waitpid(pids[w], &status, WNOHANG) != pids[w]) {
			left = true;
			continue;
		}
		pids[w] = 0;
		if (WIFSIGNALED(status) && !killed)
			fuzz_finding(sh, "worker %u was ended by signal %d", w, WTERMSIG(status));
	}
	return left;
}

/* Disturb the workers until all have ended. */
static void attend(const struct options *o, enum kind kind, pid_t *pids)
{
	struct fuzz_thread t = { .random = sh->seed ^ sh->round };
	uint64_t seen = 0, since = now_ms();

	while (reap(o, pids, kind == KILL)) {
		disturb(kind, o, &t, pids);
		if (total_calls() != seen)
			since = now_ms();
		seen = total_calls();
		if (now_ms() - since > 1000ull * STUCK_S * o->slow) {
			report_stuck(o, pids);
			since = now_ms();
			kind = KILL;
		}
	}
}

static int export_new(uint32_t flags)
{
	int fd = vm_open(), out;
	struct drm_rivulet_bo_create b = { .size = 16384 };

	OK(!ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &b));
	OK(!vm_export(fd, b.handle, flags, &out));
	close(fd);
	return out;
}

static void make_inherited(void)
{
	sh->inherited[0] = vm_udmabuf(32768, NULL);
	sh->inherited[1] = vm_heap(16384, O_RDWR);
	sh->inherited[2] = export_new(DRM_RDWR);
	sh->inherited[3] = export_new(0);
}

static enum kind kind_of(uint32_t round, const struct options *o)
{
	static const enum kind order[] = { CALM, RACE, RACE, LEVELS, RACE, UNBIND, KILL, RACE };
	uint32_t n = sizeof(order) / sizeof(order[0]);

	/* A replug takes seconds. */
	if (o->replug && round % (4 * n) == 4 * n - 1)
		return REPLUG;
	return order[round % n];
}

static void round_begin(uint32_t round, enum kind kind, const struct options *o)
{
	struct drm_rivulet_device info;
	int fd;

	sh->round = round;
	sh->racing = kind != CALM;
	sh->unplugs = kind == UNBIND || kind == REPLUG;
	sh->threads = kind == CALM ? 1 : o->threads;
	sh->quota = ROUND_CALLS / (sh->threads * o->workers);
	for (uint32_t w = 0; w < FUZZ_WORKERS; w++)
		for (uint32_t i = 0; i < FUZZ_THREADS; i++)
			sh->trace[w][i].calls = 0;
	find_device();
	fd = vm_open();
	vm_info(fd, &info);
	close(fd);
	fuzz_make_programs(sh, info.tn);
	make_inherited();
}

static void one_round(uint32_t round, const struct options *o)
{
	enum kind kind = kind_of(round, o);
	pid_t pids[FUZZ_WORKERS] = { 0 };
	uint64_t start = now_ms(), before = sh->ioctls;

	round_begin(round, kind, o);
	/* Printed before the round, because a kernel that panics prints nothing afterwards. */
	printf("# round %u, seed %llu: %s", round, (unsigned long long)sh->seed, kind_names[kind]);
	fflush(stdout);
	for (uint32_t w = 0; w < o->workers; w++) {
		pids[w] = fork();
		OK(pids[w] >= 0);
		if (!pids[w])
			worker_main(w);
	}
	attend(o, kind, pids);
	for (uint32_t i = 0; i < FUZZ_SHARED; i++)
		close(sh->inherited[i]);
	check_leaks(o);
	in_child(good_job);
	check_log();
	printf(", %llu ioctls, %llu ms\n", (unsigned long long)(sh->ioctls - before),
	       (unsigned long long)(now_ms() - start));
	fflush(stdout);
}

/* ---- the run ---- */

/* Each row must have succeeded at least once, else the fuzzer would test refusals only. */
static void check_rows(void)
{
	for (uint32_t i = 0; i < fuzz_row_count(); i++) {
		bool absent = fuzz_rows[i].target == FUZZ_TIMELINE && !sh->sw_sync;

		printf("# %-14s %9llu accepted %9llu refused\n", fuzz_rows[i].name,
		       (unsigned long long)sh->accepted[i], (unsigned long long)sh->refused[i]);
		if (!sh->accepted[i] && !absent)
			fuzz_finding(sh, "%s was never accepted", fuzz_rows[i].name);
	}
}

/* FIRST-LAST. Not separated by a comma, which separates the arguments of vm-run.sh. */
static void rounds(struct options *o, const char *text)
{
	char end;

	if (sscanf(text, "%u-%u%c", &o->first, &o->last, &end) == 2 && o->first <= o->last)
		return;
	fprintf(stderr, "fuzz_ioctl: --rounds FIRST-LAST, not \"%s\"\n", text);
	exit(2);
}

static void parse(struct options *o, int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *v = argv[i + 1];

		if (!strcmp(argv[i], "--calls"))
			o->calls = strtoull(v, NULL, 0);
		else if (!strcmp(argv[i], "--seed"))
			o->seed = strtoull(v, NULL, 0);
		else if (!strcmp(argv[i], "--workers"))
			o->workers = (uint32_t)strtoul(v, NULL, 0);
		else if (!strcmp(argv[i], "--threads"))
			o->threads = (uint32_t)strtoul(v, NULL, 0);
		else if (!strcmp(argv[i], "--slow"))
			o->slow = (uint32_t)strtoul(v, NULL, 0);
		else if (!strcmp(argv[i], "--replug"))
			o->replug = v;
		else if (!strcmp(argv[i], "--rounds"))
			rounds(o, v);
	}
	if (!o->workers || o->workers > FUZZ_WORKERS || !o->threads || o->threads > FUZZ_THREADS ||
	    !o->slow || !o->calls) {
		fprintf(stderr,
			"fuzz_ioctl: up to %d workers of %d threads, slow and calls not 0\n",
			FUZZ_WORKERS, FUZZ_THREADS);
		exit(2);
	}
}

static void setup(const struct options *o)
{
	struct rlimit files = { 16384, 16384 };

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		exit(2);
	sh->seed = o->seed;
	sh->sw_sync = !access(SW_SYNC, F_OK);
	setrlimit(RLIMIT_NOFILE, &files);
	kernel_log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	OK(kernel_log >= 0 && lseek(kernel_log, 0, SEEK_END) >= 0);
}

static void run(const struct options *o)
{
	long first = 0, now = 0;

	for (uint32_t r = o->first; sh->ioctls < o->calls && sh->findings < MAX_FINDINGS; r++) {
		if (r > o->last)
			return;
		one_round(r, o);
		now = vm_number("/proc/meminfo", "SUnreclaim:");
		if (r == o->first + WARM_ROUNDS)
			first = now;
	}
	check_rows();
	if (first && now - first > GROWTH_KB)
		fuzz_finding(sh, "the kernel's memory grew from %ld to %ld KiB", first, now);
}

int main(int argc, char **argv)
{
	struct options o = { .calls = 20000, .seed = 1, .workers = 2, .threads = 3, .slow = 1,
			     .last = ~0u };

	parse(&o, argc, argv);
	setup(&o);
	run(&o);
	printf("figure fuzz.ioctl.calls %llu calls\n", (unsigned long long)sh->ioctls);
	printf("figure fuzz.ioctl.findings %u findings\n", sh->findings);
	return sh->findings ? EXIT_FAILURE : EXIT_SUCCESS;
}
