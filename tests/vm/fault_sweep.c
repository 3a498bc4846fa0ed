// SPDX-License-Identifier: MIT
/*
 * fault_sweep [PATTERN]: makes every call of the driver with its first allocation failing, then
 * with its second, and so on until the call completes before the chosen allocation. It uses
 * /proc/PID/fail-nth of a kernel with FAILSLAB and FAIL_PAGE_ALLOC, and fails without it. A call
 * whose allocation failed may succeed or return ENOMEM. It must leave no object behind, and the
 * same call must succeed when memory is available. Output is TAP.
 */
#include "vm.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANY_ERRNO		(-1)
#define MAX_ALLOCATIONS	20000	/* limit for the allocations of one call */

/* The objects that a scenario works with; a new set for every failure. */
struct stage {
	int fd;			/* the node */
	int other;		/* a dma-buf */
	struct vm_buf code, from, to;
	struct vm_job job;
	uint32_t handle, sync, perfmon;
	uint64_t offset;
	const char *path;	/* of the node */
};

struct scenario {
	const char *name;
	void (*prepare)(struct stage *s);
	int (*call)(struct stage *s);	/* 0, or -1 and errno */
	void (*after)(struct stage *s, bool ok);
	/* permitted besides ENOMEM, because the kernel's core returns it; ANY_ERRNO: any errno */
	int error;
};

static int nth = -1;
static unsigned long injected;

/* ---- scenarios ---- */

static void with_node(struct stage *s)
{
	s->fd = vm_open();
}

static void with_buffer(struct stage *s)
{
	with_node(s);
	s->from = vm_buf_new(s->fd, 16384);
	s->handle = s->from.handle;
}

static void with_udmabuf(struct stage *s)
{
	with_node(s);
	s->other = vm_udmabuf(65536, NULL);
}

static void with_heap(struct stage *s)
{
	with_node(s);
	s->other = vm_heap(16384, O_RDWR);
}

static void with_own(struct stage *s)
{
	int fd = vm_open();
	struct vm_buf b = vm_buf_new(fd, 16384);

	with_node(s);
	OK(!vm_export(fd, b.handle, DRM_RDWR, &s->other));
	close(fd);
}

static void with_own_readonly(struct stage *s)
{
	int fd = vm_open();
	struct vm_buf b = vm_buf_new(fd, 16384);

	with_node(s);
	OK(!vm_export(fd, b.handle, 0, &s->other));
	close(fd);
}

static void with_perfmon(struct stage *s)
{
	struct drm_rivulet_perfmon_create m = {};

	with_node(s);
	OK(!ioctl(s->fd, DRM_IOCTL_RIVULET_PERFMON_CREATE, &m));
	s->perfmon = m.perfmon;
}

static void with_job(struct stage *s)
{
	with_perfmon(s);
	s->code = vm_buf_new(s->fd, 4096);
	s->from = vm_buf_new(s->fd, 16384);
	s->to = (struct vm_buf){ .fd = s->fd, .size = 16384 };
	s->other = vm_udmabuf(65536, NULL);
	OK(!vm_import(s->fd, s->other, &s->to.handle));
	vm_buf_map(&s->to);
	vm_noise(s->from.map, s->from.size, 9);
	vm_copy_job(&s->job, &s->code, &s->from, &s->to, 16384);
	s->sync = vm_sync_new(s->fd);
	vm_job_out(&s->job, s->sync, 0);
	vm_job_out(&s->job, vm_sync_new(s->fd), 7);
	OK(!vm_submit(s->fd, &s->job));
	EQ(vm_sync_result(s->fd, s->sync), 0);
	/* The job is submitted a second time, with the fences of the first submit in place. */
	memset(s->to.map, 0, s->to.size);
	vm_job_in(&s->job, s->sync, 0);
	s->job.job.out_sync_count = 0;
	s->sync = vm_sync_new(s->fd);
	vm_job_out(&s->job, s->sync, 0);
	vm_job_out(&s->job, vm_sync_new(s->fd), 8);
	s->job.job.deadline_ns = 1;
	s->job.job.perfmon = s->perfmon;
}

static void with_path(struct stage *s)
{
	s->path = vm_node();
	OK(s->path);
}

static int call_open(struct stage *s)
{
	s->fd = open(s->path, O_RDWR | O_CLOEXEC);
	return s->fd < 0 ? -1 : 0;
}

static int create(struct stage *s, uint64_t size, uint32_t flags)
{
	struct drm_rivulet_bo_create c = { .size = size, .flags = flags };

	return ioctl(s->fd, DRM_IOCTL_RIVULET_BO_CREATE, &c);
}

static int call_create(struct stage *s)
{
	return create(s, 16384, 0);
}

static int call_create_wc(struct stage *s)
{
	return create(s, 4096, DRM_RIVULET_BO_WC);
}

static int call_create_large(struct stage *s)
{
	return create(s, 1 << 20, 0);
}

static int call_map(struct stage *s)
{
	return vm_map_offset(s->fd, s->handle, &s->offset);
}

static int call_mmap(struct stage *s)
{
	void *p;

	if (vm_map_offset(s->fd, s->handle, &s->offset))
		return -1;
	p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)s->offset);
	return p == MAP_FAILED ? -1 : munmap(p, 16384);
}

static int call_info(struct stage *s)
{
	struct drm_rivulet_bo_info i = { .handle = s->handle };

	return ioctl(s->fd, DRM_IOCTL_RIVULET_BO_INFO, &i);
}

static int call_wait(struct stage *s)
{
	struct drm_rivulet_bo_wait w = { .handle = s->handle, .flags = DRM_RIVULET_ACCESS_WRITE };

	return ioctl(s->fd, DRM_IOCTL_RIVULET_BO_WAIT, &w);
}

static int call_sync(struct stage *s)
{
	struct drm_rivulet_range r = { 4096, 64 };
	struct drm_rivulet_bo_sync a = {
		.handle = s->handle, .flags = DRM_RIVULET_ACCESS_WRITE, .ranges = (uintptr_t)&r,
		.count = 1,
	};

	return ioctl(s->fd, DRM_IOCTL_RIVULET_BO_SYNC, &a);
}

static int call_queue(struct stage *s)
{
	struct drm_rivulet_queue_create c = {};

	return ioctl(s->fd, DRM_IOCTL_RIVULET_QUEUE_CREATE, &c);
}

static int call_queue_destroy(struct stage *s)
{
	struct drm_rivulet_queue_destroy d = { .queue = VM_QUEUE };

	return ioctl(s->fd, DRM_IOCTL_RIVULET_QUEUE_DESTROY, &d);
}

static int call_query_client(struct stage *s)
{
	struct drm_rivulet_client c;
	struct drm_rivulet_query q = {
		.type = DRM_RIVULET_QUERY_CLIENT, .size = sizeof(c), .pointer = (uintptr_t)&c,
	};

	return ioctl(s->fd, DRM_IOCTL_RIVULET_QUERY, &q);
}

static int call_export(struct stage *s)
{
	return vm_export(s->fd, s->handle, DRM_RDWR, &s->other);
}

static int call_export_readonly(struct stage *s)
{
	return vm_export(s->fd, s->handle, 0, &s->other);
}

static int call_import(struct stage *s)
{
	return vm_import(s->fd, s->other, &s->handle);
}

static int call_query(struct stage *s)
{
	struct drm_rivulet_device info;
	struct drm_rivulet_query q = { .size = sizeof(info), .pointer = (uintptr_t)&info };

	return ioctl(s->fd, DRM_IOCTL_RIVULET_QUERY, &q);
}

static int call_query_counters(struct stage *s)
{
	struct drm_rivulet_counters c;
	struct drm_rivulet_query q = {
		.type = DRM_RIVULET_QUERY_COUNTERS, .size = sizeof(c), .pointer = (uintptr_t)&c,
	};

	return ioctl(s->fd, DRM_IOCTL_RIVULET_QUERY, &q);
}

static int call_perfmon(struct stage *s)
{
	struct drm_rivulet_perfmon_create m = {};

	return ioctl(s->fd, DRM_IOCTL_RIVULET_PERFMON_CREATE, &m);
}

static int call_perfmon_read(struct stage *s)
{
	uint64_t values[VM_PERF_VALUES];
	struct drm_rivulet_perfmon_read r = {
		.perfmon = s->perfmon, .values = (uintptr_t)values, .count = VM_PERF_VALUES,
	};

	return ioctl(s->fd, DRM_IOCTL_RIVULET_PERFMON_READ, &r);
}

static int call_perfmon_destroy(struct stage *s)
{
	struct drm_rivulet_perfmon_destroy m = { .perfmon = s->perfmon };

	return ioctl(s->fd, DRM_IOCTL_RIVULET_PERFMON_DESTROY, &m);
}

static int call_submit(struct stage *s)
{
	struct drm_rivulet_submit a = {
		.jobs = (uintptr_t)&s->job.job,
		.count = 1,
		.stride = sizeof(s->job.job),
		.queue = VM_QUEUE,
	};

	return ioctl(s->fd, DRM_IOCTL_RIVULET_SUBMIT, &a);
}

/* A job that was queued completes with the right result; a refused job changes nothing. */
static void after_submit(struct stage *s, bool ok)
{
	if (!ok) {
		FAILS(vm_sync_wait(s->fd, s->sync, 0, 0), EINVAL);
		EQ(s->to.map[0] | s->to.map[8191], 0);
		OK(!call_submit(s));
	}
	EQ(vm_sync_result(s->fd, s->sync), 0);
	OK(!memcmp(s->from.map, s->to.map, 16384));
}

static int call_fdinfo(struct stage *s)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", s->fd);
	return vm_read_all(path);
}

static int call_debugfs(struct stage *s)
{
	static const char *const names[] = { "objects", "queue", "registers", "buffers" };
	const char *first = vm_debugfs("objects");
	char path[128];
	int ret = 0;

	(void)s;
	if (!first)
		/*
		 * the listing of the directory failed to allocate, which is no call of the driver
		 */
		return 0;
	for (int i = 0; i < 4 && !ret; i++) {
		snprintf(path, sizeof(path), "%.*s/%s", (int)(strrchr(first, '/') - first), first,
			 names[i]);
		ret = vm_read_all(path);
	}
	return ret;
}

static char name[64];	/* name of the NPU on its bus */

static void setting(const char *file, const char *text)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s", file);
	vm_sysfs_write(path, text);
}

/* @what: "require": only allocations below these addresses fail; "reject": all but those. */
static void limit_to(const char *what, unsigned long long start, unsigned long long end)
{
	static const char *const kinds[] = { "failslab", "fail_page_alloc" };
	char file[64], text[32];

	for (int i = 0; i < 4; i++) {
		snprintf(file, sizeof(file), "%s/%s-%s", kinds[i / 2], what,
			 i % 2 ? "end" : "start");
		snprintf(text, sizeof(text), "0x%llx", i % 2 ? end : start);
		setting(file, text);
	}
}

/*
 * Only allocations of the driver fail, not those of the bus. When drm_sysfs_minor_alloc() fails,
 * drm_minor_alloc() of 6.12 puts an error pointer, and the kernel crashes. That is a bug of the
 * kernel, so that this function is excepted.
 */
static void limit_to_driver(void)
{
	unsigned long long start = 0, end, size;
	FILE *f = fopen("/proc/modules", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "rivulet %llu %*s %*s %*s %llx", &size, &start) == 2)
			break;
	OK(f && start);
	fclose(f);
	limit_to("require", start, start + size);
	start = vm_symbol("drm_sysfs_minor_alloc", &end);
	limit_to("reject", start, end);
}

/* The file is opened here, so that failures affect the write only. */
static void bound_to(struct stage *s, const char *what)
{
	char path[64];

	limit_to_driver();
	vm_device_name(name);
	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/rivulet/%s", what);
	s->other = open(path, O_WRONLY | O_CLOEXEC);
	OK(s->other >= 0);
}

static void to_bind(struct stage *s)
{
	bound_to(s, "bind");
	vm_driver_file("unbind", name);
}

static void to_unbind(struct stage *s)
{
	bound_to(s, "unbind");
}

static int call_write(struct stage *s)
{
	return write(s->other, name, strlen(name)) < 0 ? -1 : 0;
}

static bool bound(void)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/rivulet/%s", name);
	return !access(path, F_OK);
}

static void bind_again(void)
{
	vm_driver_file("bind", name);
	OK(vm_node());
}

/* A device whose binding failed must not be bound in part. */
static void after_bind(struct stage *s, bool ok)
{
	(void)s;
	EQ(bound(), ok);
	if (!ok)
		bind_again();
}

static void after_unbind(struct stage *s, bool ok)
{
	(void)s;
	OK(ok);
	EQ(bound(), false);
	bind_again();
}

static const struct scenario scenarios[] = {
	{ "open", with_path, call_open, NULL, 0 },
	{ "bo_create", with_node, call_create, NULL, ENOSPC },
	{ "bo_create_wc", with_node, call_create_wc, NULL, ENOSPC },
	{ "bo_create_large", with_node, call_create_large, NULL, ENOSPC },
	{ "bo_map", with_buffer, call_map, NULL, 0 },
	{ "bo_info", with_buffer, call_info, NULL, 0 },
	{ "bo_wait", with_buffer, call_wait, NULL, 0 },
	{ "bo_sync", with_buffer, call_sync, NULL, 0 },
	{ "queue_create", with_node, call_queue, NULL, 0 },
	{ "queue_destroy", with_node, call_queue_destroy, NULL, 0 },
	{ "mmap", with_buffer, call_mmap, NULL, 0 },
	{ "export", with_buffer, call_export, NULL, 0 },
	{ "export_readonly", with_buffer, call_export_readonly, NULL, 0 },
	{ "import_udmabuf", with_udmabuf, call_import, NULL, 0 },
	{ "import_heap", with_heap, call_import, NULL, 0 },
	{ "import_own", with_own, call_import, NULL, 0 },
	{ "import_own_readonly", with_own_readonly, call_import, NULL, 0 },
	{ "query", with_node, call_query, NULL, 0 },
	{ "query_client", with_node, call_query_client, NULL, 0 },
	{ "query_counters", with_node, call_query_counters, NULL, 0 },
	{ "perfmon_create", with_node, call_perfmon, NULL, 0 },
	{ "perfmon_read", with_perfmon, call_perfmon_read, NULL, 0 },
	{ "perfmon_destroy", with_perfmon, call_perfmon_destroy, NULL, 0 },
	{ "submit", with_job, call_submit, after_submit, 0 },
	{ "fdinfo", with_buffer, call_fdinfo, NULL, ANY_ERRNO },
	{ "debugfs", with_buffer, call_debugfs, NULL, ANY_ERRNO },
	{ "bind", to_bind, call_write, after_bind, ANY_ERRNO },
	{ "unbind", to_unbind, call_write, after_unbind, ANY_ERRNO },
};

/* ---- the sweep ---- */

/* Makes the @n-th allocation of this thread from here on fail, once. */
static void arm(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	OK(pwrite(nth, text, (size_t)len, 0) == len);
}

/* Ends the injection. Returns whether an allocation has failed. */
static bool disarm(void)
{
	char text[16] = "";
	int error = errno;

	OK(pread(nth, text, sizeof(text) - 1, 0) > 0);
	OK(pwrite(nth, "0", 1, 0) == 1);
	errno = error;
	return atoi(text) == 0;
}

/* Runs in one child process for each failure, whose exit closes everything that it left open. */
static void attempt(const struct scenario *sc, unsigned int n)
{
	static struct stage s;
	bool hit;
	int ret;

	s.fd = s.other = -1;
	if (sc->prepare)
		sc->prepare(&s);
	/* Faults in all mappings, so that no page of the program is allocated during the call. */
	OK(!mlockall(MCL_CURRENT));
	arm(n);
	errno = 0;
	ret = sc->call(&s);
	hit = disarm();
	if (ret && !hit)
		vm_fail(__FILE__, __LINE__, "%s failed by itself: %s", sc->name, strerror(errno));
	if (ret && errno != ENOMEM && errno != sc->error && sc->error != ANY_ERRNO)
		vm_fail(__FILE__, __LINE__, "%s, allocation %u: %s", sc->name, n, strerror(errno));
	if (sc->after)
		sc->after(&s, ret == 0);
	else if (ret && sc->call(&s))
		vm_fail(__FILE__, __LINE__, "%s fails after its allocation %u failed: %s", sc->name, n,
			strerror(errno));
	fflush(stdout);
	_exit(hit ? 0 : 2);
}

static int child(const struct scenario *sc, unsigned int n)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		char path[64];

		alarm(120 * vm_slow());
		snprintf(path, sizeof(path), "/proc/self/task/%ld/fail-nth", syscall(SYS_gettid));
		nth = open(path, O_RDWR | O_CLOEXEC);
		OK(nth >= 0);
		attempt(sc, n);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 1;
	return WEXITSTATUS(status);
}

static long left(void)
{
	long n = -1;

	for (unsigned int i = 0; i < 500 * vm_slow() && n; i++) {
		n = vm_objects("buffers") + vm_objects("jobs") + vm_objects("clients");
		if (n)
			usleep(10000);
	}
	return n;
}

static bool sweep(const struct scenario *sc, unsigned int *count)
{
	int result = 0;

	*count = 0;
	for (unsigned int n = 1; n < MAX_ALLOCATIONS && !result; n++) {
		result = child(sc, n);
		*count += result == 0;
	}
	injected += *count;
	if (result == 2 && left())
		printf("# %ld objects left\n", left());
	return result == 2 && !left();
}

int main(int argc, char **argv)
{
	unsigned int n = 0, failed = 0, count;

	/* The messages of failures belong to the TAP output. */
	dup2(STDOUT_FILENO, STDERR_FILENO);
	/*
	 * Allocations that may sleep fail, too; they are most. The failures print no stack trace.
	 */
	setting("failslab/ignore-gfp-wait", "N");
	setting("failslab/verbose", "0");
	setting("fail_page_alloc/ignore-gfp-wait", "N");
	setting("fail_page_alloc/ignore-gfp-highmem", "N");
	setting("fail_page_alloc/min-order", "0");
	setting("fail_page_alloc/verbose", "0");
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		bool ok;

		if (argc > 1 && !strstr(scenarios[i].name, argv[1]))
			continue;
		ok = sweep(&scenarios[i], &count);
		failed += !ok;
		printf("%s %u - sweep_%s: each of its %u allocations fails once without harm\n",
		       ok ? "ok" : "not ok", ++n, scenarios[i].name, count);
	}
	printf("figure debug.faults.injected %lu faults\n", injected);
	printf("1..%u\n# %u passed, %u failed\n", n, n - failed, failed);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
