// SPDX-License-Identifier: MIT
/*
 * Inside the VM: client library and runtime on the real driver. client_test PROGRAM MODEL; PROGRAM
 * is one NPU step from uint8 [1,1,7,7] to uint8 [1,1,7,7]. Prints TAP lines. The exit status is 0
 * if all tests passed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rivulet.h"
#include "rivulet_accel.h"
#include "rivulet_compiler.h"
#include "rivulet_crc32c.h"
#include "rivulet_isa.h"
#include "rivulet_runtime.h"

#define N 49	/* bytes of the program's input and output */
#define PIXELS 784
#define SCORES 10

static void *program;
static size_t program_size;
static const char *model_path;
static struct rivulet_runtime_error err;

static void __attribute__((noreturn)) fail(int line, const char *what)
{
	printf("# line %d: %s (%s; %s; %s)\n", line, what, strerror(errno), rivulet_last_error(), err.text);
	fflush(stdout);
	_exit(1);
}

#define OK(cond)                                                                                   \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fail(__LINE__, #cond);                                                     \
	} while (0)

static void *read_file(const char *path, size_t *size)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p;

	OK(fd >= 0 && !fstat(fd, &st));
	p = aligned_alloc(64, ((size_t)st.st_size + 63) / 64 * 64);
	OK(read(fd, p, (size_t)st.st_size) == st.st_size);
	close(fd);
	*size = (size_t)st.st_size;
	return p;
}

static struct rivulet_device *device(void)
{
	struct rivulet_device *dev;

	OK(!rivulet_device_open(NULL, &dev));
	return dev;
}

static struct rivulet_runtime *runtime(struct rivulet_device *dev, bool sim)
{
	struct rivulet_workers *w;
	struct rivulet_runtime *rt;
	struct rivulet_board b;
	char text[256];

	OK(!rivulet_workers_new(2, &w));
	if (sim) {
		OK(!rivulet_board_load(&b, "zu3eg-64", text, sizeof(text)));
		OK(!rivulet_runtime_new_sim(&b, w, &rt, &err));
	} else {
		OK(!rivulet_runtime_new_device(dev, w, &rt, &err));
	}
	rivulet_workers_unref(w);
	return rt;
}

static struct rivulet_exec *exec_of(struct rivulet_runtime *rt, const void *file, size_t size)
{
	struct rivulet_image *img;
	struct rivulet_exec *x;

	OK(!rivulet_image_load(rt, file, size, &img, &err));
	OK(!rivulet_exec_new(img, &x, &err));
	rivulet_image_unref(img);
	return x;
}

static int run(struct rivulet_exec *x)
{
	OK(!rivulet_exec_start(x, NULL, &err));
	return rivulet_exec_wait(x, 60000);
}

/* The output of the linked model for this input, which the device must equal. */
static void expected(const uint8_t *in, uint8_t *out)
{
	struct rivulet_runtime *rt = runtime(NULL, true);
	struct rivulet_exec *x = exec_of(rt, program, program_size);

	OK(!rivulet_exec_bind_memory(x, 0, (void *)(uintptr_t)in, N, &err));
	OK(!rivulet_exec_bind_memory(x, 1, out, N, &err));
	OK(!run(x));
	rivulet_exec_unref(x);
	rivulet_runtime_unref(rt);
}

static void pattern(uint8_t *p, unsigned int seed)
{
	for (int i = 0; i < N; i++) {
		seed = seed * 69069 + 1;
		p[i] = (uint8_t)(seed >> 16);
	}
}

/* ---- tests, each in a process of its own ---- */

static void buffers(void)
{
	struct rivulet_device *dev = device(), *other;
	struct rivulet_buffer *a, *b, *c;
	int fd, ro;
	char *p, *q;

	OK(!rivulet_buffer_create(dev, 10000, &a));
	OK(rivulet_buffer_size(a) == 12288 && !rivulet_buffer_flags(a));
	OK(!rivulet_buffer_map(a, (void **)&p) && p[0] == 0 && p[9999] == 0);
	OK(!rivulet_buffer_map(a, (void **)&q) && p == q);
	p[5] = 42;
	OK(!rivulet_buffer_export(a, true, &fd) && !rivulet_buffer_export(a, false, &ro));
	OK(!rivulet_buffer_import(dev, fd, &b) && b == a);
	rivulet_buffer_unref(b);
	/* The device is opened again in this process, which gives another client. */
	OK(!rivulet_device_open_fd(rivulet_device_fd(dev), &other));
	rivulet_device_unref(other);
	OK(!rivulet_device_open(rivulet_device_path(dev), &other));
	OK(!rivulet_buffer_import(other, ro, &c));
	OK(rivulet_buffer_flags(c) & DRM_RIVULET_BO_READONLY);
	OK(!rivulet_buffer_map(c, (void **)&q) && q[5] == 42);
	OK(rivulet_buffer_export(c, true, &fd) == -EACCES);
	rivulet_buffer_unref(c);
	rivulet_buffer_unref(a);
	rivulet_device_unref(other);
	rivulet_device_unref(dev);
}

/* A one-step program without daemon and runtime: check, job, submit, fence, report. */
static void direct(void)
{
	struct rivulet_device *dev = device();
	struct rivulet_buffer *prog, *io[2], *report;
	struct drm_rivulet_region region[RIVULET_SLOTS];
	struct drm_rivulet_variant variant[RIVULET_LEVELS];
	struct drm_rivulet_sync sync = { 0 };
	struct drm_rivulet_job job;
	struct rivulet_fence *fence;
	const struct rivulet_status *st;
	uint8_t want[N];
	struct pollfd p = { .events = POLLIN };
	void *m, *in, *out, *rep;

	OK(!rivulet_check_program(dev, program, program_size));
	OK(!rivulet_buffer_create(dev, program_size, &prog) && !rivulet_buffer_map(prog, &m));
	memcpy(m, program, program_size);
	OK(!rivulet_buffer_create(dev, N, &io[0]) && !rivulet_buffer_map(io[0], &in));
	OK(!rivulet_buffer_create(dev, N, &io[1]) && !rivulet_buffer_map(io[1], &out));
	OK(!rivulet_buffer_create(dev, 4096, &report) && !rivulet_buffer_map(report, &rep));
	pattern(in, 1);
	expected(in, want);
	OK(!rivulet_job_from_step(program, 0, prog, NULL, io, 2, report, 512, &job, region, variant));
	OK(!rivulet_fence_new(dev, &fence));
	OK(rivulet_fence_fd(fence, &p.fd) < 0);
	sync.handle = rivulet_fence_handle(fence);
	job.out_syncs = (uintptr_t)&sync;
	job.out_sync_count = 1;
	job.variant_count = rivulet_device_info(dev)->level_count;
	OK(!rivulet_device_submit(dev, &job, 1, NULL));
	OK(!rivulet_fence_fd(fence, &p.fd));
	OK(poll(&p, 1, 60000) == 1 && rivulet_fence_status(p.fd) == 1);
	OK(!rivulet_fence_wait(fence, 0));
	close(p.fd);
	OK(!memcmp(out, want, N));
	st = (void *)((char *)rep + 512);
	OK(st->state == RIVULET_STATE_DONE && st->cycles > 100);
	OK(st->crc == rivulet_crc32c(0, st, offsetof(struct rivulet_status, crc)));
	/* Only the output slot is writable, so that the program must be unchanged. */
	OK(!memcmp(m, program, program_size));
	rivulet_fence_unref(fence);
	rivulet_buffer_unref(prog);
	rivulet_buffer_unref(io[0]);
	rivulet_buffer_unref(io[1]);
	rivulet_buffer_unref(report);
	rivulet_device_unref(dev);
}

/* Plain memory is copied, buffers and dma-bufs are not. Rights are checked. */
static void bindings(void)
{
	struct rivulet_device *dev = device();
	struct rivulet_runtime *rt = runtime(dev, false);
	struct rivulet_exec *x = exec_of(rt, program, program_size);
	struct rivulet_buffer *b;
	uint8_t in[64] __attribute__((aligned(8))), out[64] __attribute__((aligned(8))), want[64];
	int rw, ro, mem;
	char *p, *q;

	pattern(in, 2);
	expected(in, want);
	OK(!rivulet_exec_bind_memory(x, 0, in, N, &err) && !rivulet_exec_bind_memory(x, 1, out, N, &err));
	OK(!run(x) && !memcmp(out, want, N));
	OK(!rivulet_buffer_create(dev, 4096, &b) && !rivulet_buffer_map(b, (void **)&p));
	OK(!rivulet_buffer_export(b, true, &rw) && !rivulet_buffer_export(b, false, &ro));
	pattern((uint8_t *)p + 128, 3);
	expected((uint8_t *)p + 128, want);
	OK(!rivulet_exec_bind_fd(x, 0, ro, 128, &err));
	OK(!rivulet_exec_bind_buffer(x, 1, b, 1024, &err));
	OK(!run(x) && !memcmp(p + 1024, want, N) && !p[1023] && !p[1024 + N]);
	/* Memfds, as clients pass them to the daemon, are copied for the NPU. */
	mem = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	OK(!ftruncate(mem, 8192) && !fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK));
	q = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
	pattern((uint8_t *)q + 64, 6);
	expected((uint8_t *)q + 64, want);
	OK(!rivulet_exec_bind_fd(x, 0, mem, 64, &err) && !rivulet_exec_bind_fd(x, 1, mem, 4096 + 64, &err));
	OK(!run(x) && !memcmp(q + 4096 + 64, want, N) && !q[4096 + 64 + N]);
	OK(rivulet_exec_bind_buffer(x, 1, b, 4096 - 48, &err) == -EINVAL);
	OK(rivulet_exec_bind_buffer(x, 1, b, 4096, &err) == -EINVAL);
	rivulet_exec_unref(x);
	rivulet_buffer_unref(b);
	rivulet_runtime_unref(rt);
	rivulet_device_unref(dev);
	/*
	 * A read-only dma-buf is refused as an output, in a client that never had the writable
	 * handle.
	 */
	dev = device();
	rt = runtime(dev, false);
	x = exec_of(rt, program, program_size);
	OK(rivulet_exec_bind_fd(x, 1, ro, 0, &err) == -EACCES);
	OK(!rivulet_exec_bind_fd(x, 1, rw, 2048, &err));
	OK(!rivulet_exec_bind_memory(x, 0, in, N, &err));
	OK(!run(x));
	rivulet_exec_unref(x);
	rivulet_runtime_unref(rt);
	rivulet_device_unref(dev);
}

/*
 * Memory of another exporter: a memfd made a dma-buf by udmabuf, used as input and output in place.
 */
static void foreign_memory(void)
{
	struct udmabuf_create c = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = 8192 };
	int node = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;
	struct rivulet_device *dev = device();
	struct rivulet_runtime *rt = runtime(dev, false);
	struct rivulet_exec *x = exec_of(rt, program, program_size);
	uint8_t want[N];
	char *p;

	if (node < 0 && errno == ENOENT) {
		printf("# skipped: no /dev/udmabuf\n");
		fflush(stdout);
		_exit(77);
	}
	OK(node >= 0);
	c.memfd = (uint32_t)memfd_create("camera", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	OK(!ftruncate((int)c.memfd, 8192) && !fcntl((int)c.memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, (int)c.memfd, 0);
	fd = ioctl(node, UDMABUF_CREATE, &c);
	OK(p != MAP_FAILED && fd >= 0);
	pattern((uint8_t *)p, 4);
	expected((uint8_t *)p, want);
	OK(!rivulet_exec_bind_fd(x, 0, fd, 0, &err) && !rivulet_exec_bind_fd(x, 1, fd, 4096, &err));
	OK(!run(x) && !memcmp(p + 4096, want, N) && !p[4096 + N]);
	rivulet_exec_unref(x);
	rivulet_runtime_unref(rt);
	rivulet_device_unref(dev);
}

static void compile(struct rivulet_blob *out)
{
	struct rivulet_runtime *rt = runtime(NULL, true);
	struct rvl_err e = { "" };
	size_t size;
	void *onnx = read_file(model_path, &size);

	OK(!rivulet_compile(onnx, size, rivulet_runtime_board(rt), NULL, out, NULL, &e));
	free(onnx);
	rivulet_runtime_unref(rt);
}

/*
 * Eight runs of a whole model are in flight at once. Each result equals that of the linked model.
 */
static void many(void)
{
	static float x[8][PIXELS], y[8][SCORES], want[SCORES];
	struct rivulet_device *dev = device();
	struct rivulet_runtime *rt = runtime(dev, false), *sim = runtime(NULL, true);
	struct rivulet_blob p;
	struct rivulet_exec *e[8], *s;

	compile(&p);
	s = exec_of(sim, p.data, p.size);
	for (int i = 0; i < 8; i++) {
		for (int k = 0; k < PIXELS; k++)
			x[i][k] = (float)((i * 37 + k * 11) % 256) / 255.0f;
		e[i] = exec_of(rt, p.data, p.size);
		OK(!rivulet_exec_bind_memory(e[i], 0, x[i], sizeof(x[i]), &err));
		OK(!rivulet_exec_bind_memory(e[i], 1, y[i], sizeof(y[i]), &err));
	}
	for (int round = 0; round < 3; round++) {
		memset(y, 0, sizeof(y));
		for (int i = 0; i < 8; i++)
			OK(!rivulet_exec_start(e[i], NULL, &err));
		for (int i = 0; i < 8; i++) {
			OK(!rivulet_exec_wait(e[i], 60000));
			OK(!rivulet_exec_bind_memory(s, 0, x[i], sizeof(x[i]), &err));
			OK(!rivulet_exec_bind_memory(s, 1, want, sizeof(want), &err));
			OK(!run(s) && !memcmp(y[i], want, sizeof(want)));
			OK(rivulet_exec_result(e[i])->cycles == rivulet_exec_result(s)->cycles);
		}
	}
	for (int i = 0; i < 8; i++)
		rivulet_exec_unref(e[i]);
	rivulet_exec_unref(s);
	rivulet_runtime_unref(rt);
	rivulet_runtime_unref(sim);
	rivulet_device_unref(dev);
	rivulet_blob_free(&p);
}

/*
 * The first LOAD reads far outside its slot. The run fails with code, slot and offset, and the next
 * run succeeds.
 */
static void faults(void)
{
	struct rivulet_device *dev = device();
	struct rivulet_runtime *rt = runtime(dev, false);
	const struct rivulet_step *s = rivulet_program_steps(program);
	struct rivulet_program *bad = aligned_alloc(64, (program_size + 63) / 64 * 64);
	struct rivulet_insn *in = (void *)((char *)bad + s->variant[0].offset);
	const struct rivulet_exec_result *r;
	uint8_t a[64] __attribute__((aligned(8))), b[64] __attribute__((aligned(8)));
	struct rivulet_exec *x, *y;

	memcpy(bad, program, program_size);
	for (uint32_t i = 0; i < s->variant[0].length / 16; i++) {
		struct rivulet_decoded d;

		if (rivulet_decode(&in[i], &d) || d.form != RIVULET_FORM_load)
			continue;
		d.load.offset = 0x7fffffff;
		OK(!rivulet_encode(&d, &in[i], NULL));
		break;
	}
	bad->crc = 0;
	bad->crc = rivulet_crc32c(0, bad, program_size);
	x = exec_of(rt, bad, program_size);
	y = exec_of(rt, program, program_size);
	for (int i = 0; i < 2; i++) {
		OK(!rivulet_exec_bind_memory(i ? y : x, 0, a, N, &err));
		OK(!rivulet_exec_bind_memory(i ? y : x, 1, b, N, &err));
	}
	pattern(a, 5);
	r = rivulet_exec_result(x);
	OK(run(x) == -EIO);
	printf("# %s\n", r->text);
	OK(r->status.state == RIVULET_STATE_FAULT && r->status.fault == RIVULET_FAULT_SLOT_LIMIT);
	OK(strstr(r->text, "offset 0x7fffffff"));
	OK(!run(y));
	OK(run(x) == -EIO && !run(y));
	rivulet_exec_unref(x);
	rivulet_exec_unref(y);
	rivulet_runtime_unref(rt);
	rivulet_device_unref(dev);
}

/*
 * The driver's counters of a monitor equal the sum of the reports of its jobs, without other jobs.
 */
static void counters(void)
{
	struct rivulet_device *dev = device();
	struct rivulet_runtime *rt = runtime(dev, false);
	struct rivulet_exec *x = exec_of(rt, program, program_size);
	const struct rivulet_exec_result *r = rivulet_exec_result(x);
	uint64_t v[RIVULET_PERF_VALUES], cycles = 0, energy = 0, jobs = 0;
	uint8_t a[64] __attribute__((aligned(8))), b[64] __attribute__((aligned(8)));
	struct drm_rivulet_client standing;
	struct rivulet_perfmon *m;

	pattern(a, 8);
	OK(!rivulet_exec_bind_memory(x, 0, a, N, &err) && !rivulet_exec_bind_memory(x, 1, b, N, &err));
	OK(!rivulet_perfmon_new(dev, &m));
	OK(!run(x));
	OK(!rivulet_runtime_monitor(rt, m));
	for (int i = 0; i < 5; i++) {
		OK(!run(x));
		jobs += r->npu_steps;
		cycles += r->cycles;
		energy += r->energy_pj;
	}
	OK(!rivulet_perfmon_read(m, true, v, RIVULET_PERF_VALUES));
	OK(v[DRM_RIVULET_PERF_JOBS] == jobs && !v[DRM_RIVULET_PERF_FAILED]);
	OK(v[DRM_RIVULET_PERF_CYCLES] == cycles && v[DRM_RIVULET_PERF_ENERGY] == energy);
	OK(v[DRM_RIVULET_PERF_CONV_BUSY] && v[DRM_RIVULET_PERF_CONV_BUSY] < cycles);
	OK(!rivulet_runtime_monitor(rt, NULL));
	OK(!run(x));
	OK(!rivulet_perfmon_read(m, false, v, RIVULET_PERF_VALUES) && !v[DRM_RIVULET_PERF_JOBS]);
	OK(!rivulet_device_client(dev, &standing) && !standing.flags && !standing.hangs);
	OK(standing.cycles >= cycles && standing.energy_pj >= energy && standing.pinned >= program_size);
	rivulet_perfmon_unref(m);
	rivulet_exec_unref(x);
	rivulet_runtime_unref(rt);
	rivulet_device_unref(dev);
}

/*
 * The CPU accesses the buffers before and after a job of the client. rivulet_buffer_begin() waits
 * for the job, and no other wait is needed.
 */
static void turns(void)
{
	static const struct drm_rivulet_range input = { 0, N };
	struct rivulet_device *dev = device();
	struct rivulet_buffer *prog, *io[2], *report;
	struct drm_rivulet_region region[RIVULET_SLOTS];
	struct drm_rivulet_variant variant[RIVULET_LEVELS];
	struct drm_rivulet_job job;
	uint8_t want[N];
	int fd = -1;
	struct rivulet_submit_options o = { .size = sizeof(o), .fence_fd = &fd };
	struct pollfd p = { .events = POLLIN };
	void *m, *in, *out;

	OK(!rivulet_buffer_create(dev, program_size, &prog) && !rivulet_buffer_map(prog, &m));
	memcpy(m, program, program_size);
	OK(!rivulet_buffer_create_as(dev, N, DRM_RIVULET_BO_WC, &io[0]) && !rivulet_buffer_map(io[0], &in));
	OK(rivulet_buffer_flags(io[0]) == DRM_RIVULET_BO_WC);
	OK(!rivulet_buffer_create_as(dev, N, DRM_RIVULET_BO_CACHED, &io[1]) && !rivulet_buffer_map(io[1], &out));
	OK(!rivulet_buffer_create(dev, 4096, &report));
	OK(!rivulet_job_from_step(program, 0, prog, NULL, io, 2, report, 0, &job, region, variant));
	job.variant_count = rivulet_device_info(dev)->level_count;
	OK(!rivulet_job_queue_new(dev, DRM_RIVULET_PRIORITY_LOW, &o.queue));
	for (unsigned int i = 0; i < 20; i++) {
		OK(!rivulet_buffer_begin(io[0], DRM_RIVULET_ACCESS_WRITE, &input, 1, INT64_MAX));
		pattern(in, i);
		OK(!rivulet_buffer_end(io[0], DRM_RIVULET_ACCESS_WRITE, &input, 1));
		expected(in, want);
		OK(!rivulet_device_submit_with(dev, &job, 1, &o, NULL));
		OK(!rivulet_buffer_begin(io[1], DRM_RIVULET_ACCESS_READ, NULL, 0, INT64_MAX));
		OK(!memcmp(out, want, N));
		OK(!rivulet_buffer_end(io[1], DRM_RIVULET_ACCESS_READ, NULL, 0));
		p.fd = fd;
		OK(poll(&p, 1, 60000) == 1 && rivulet_fence_status(fd) == 1);
		close(fd);
	}
	rivulet_job_queue_unref(o.queue);
	rivulet_buffer_unref(prog);
	rivulet_buffer_unref(io[0]);
	rivulet_buffer_unref(io[1]);
	rivulet_buffer_unref(report);
	rivulet_device_unref(dev);
}

/* Runs are dropped while they are in flight, after which process and device continue. */
static void dropped(void)
{
	struct rivulet_device *dev = device();
	struct rivulet_runtime *rt = runtime(dev, false);
	uint8_t a[64] __attribute__((aligned(8))), b[64] __attribute__((aligned(8)));

	for (int i = 0; i < 20; i++) {
		struct rivulet_exec *x = exec_of(rt, program, program_size);
		struct rivulet_exec_params late = { .deadline = 1 };

		OK(!rivulet_exec_bind_memory(x, 0, a, N, &err));
		OK(!rivulet_exec_bind_memory(x, 1, b, N, &err));
		if (i % 3 == 2) {
			OK(!rivulet_exec_start(x, &late, &err) && rivulet_exec_wait(x, 60000) == -ETIME);
		} else {
			OK(!rivulet_exec_start(x, NULL, &err));
			if (i % 3)
				rivulet_exec_cancel(x);
		}
		rivulet_exec_unref(x);
	}
	rivulet_runtime_unref(rt);
	rivulet_device_unref(dev);
}

static const struct {
	const char *name, *proves;
	void (*run)(void);
} tests[] = {
	{ "buffers", "create, map, export, import, rights by the library", buffers },
	{ "direct", "a one-step program submitted by the client itself", direct },
	{ "bindings", "plain memory, buffers and dma-bufs give the model's bytes", bindings },
	{ "foreign-memory", "udmabuf memory in and out without a copy", foreign_memory },
	{ "many", "eight runs in flight equal the linked model", many },
	{ "faults", "a fault names slot and offset, the next run is fine", faults },
	{ "counters", "a performance monitor sums the reports of its jobs, and of no others", counters },
	{ "turns", "the CPU's turns at buffers of every kind order it with jobs; a fence comes with the submit", turns },
	{ "dropped", "runs cancelled, late, or dropped disturb nothing", dropped },
};

int main(int argc, char **argv)
{
	const char *text = getenv("RIVULET_SLOW");
	unsigned int slow = text && atoi(text) > 0 ? (unsigned int)atoi(text) : 1;
	int bad = 0;

	if (argc != 3)
		return 2;
	program = read_file(argv[1], &program_size);
	model_path = argv[2];
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		int status;
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (!pid) {
			alarm(180 * slow);
			tests[i].run();
			fflush(stdout);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
			printf("ok c%zu - %s # SKIP\n", i + 1, tests[i].name);
			continue;
		}
		bad += status != 0;
		printf("%sok c%zu - %s: %s\n", status ? "not " : "", i + 1, tests[i].name, tests[i].proves);
	}
	return bad ? 1 : 0;
}
