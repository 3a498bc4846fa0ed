// SPDX-License-Identifier: MIT
/* The NPU by raw ioctls, for tests. A function that cannot do its work ends the test as failed. */
#include "chance.h"
#include "vm.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <drm_mode.h>
#include <linux/dma-heap.h>
#include <linux/sync_file.h>
#include <linux/udmabuf.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static bool is_rivulet(int fd)
{
	char name[16] = "";
	struct drm_version v = { .name = name, .name_len = sizeof(name) - 1 };

	return !ioctl(fd, DRM_IOCTL_VERSION, &v) && !strcmp(name, "rivulet");
}

/** vm_slow() - factor by which this machine is slower than usual (vm-run.sh --slow) */
unsigned int vm_slow(void)
{
	const char *text = getenv("RIVULET_SLOW");

	return text && atoi(text) > 0 ? (unsigned int)atoi(text) : 1;
}

/** vm_node() - path of the first node of the driver rivulet, or NULL */
const char *vm_node(void)
{
	static char path[64];

	for (int i = 0; i < 16; i++) {
		snprintf(path, sizeof(path), i < 8 ? "/dev/accel/accel%d" : "/dev/dri/renderD%d",
			 i < 8 ? i : 120 + i);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		bool ours = fd >= 0 && is_rivulet(fd);

		if (fd >= 0)
			close(fd);
		if (ours)
			return path;
	}
	return NULL;
}

bool vm_may_sleep;

/** vm_queue_new() - the handle of a new queue */
uint32_t vm_queue_new(int fd, int32_t priority)
{
	struct drm_rivulet_queue_create c = { .priority = priority };

	OK(!ioctl(fd, DRM_IOCTL_RIVULET_QUEUE_CREATE, &c));
	return c.queue;
}

int vm_open(void)
{
	const char *node = vm_node();
	int fd = node ? open(node, O_RDWR | O_CLOEXEC) : -1, control;

	OK(fd >= 0);
	EQ(vm_queue_new(fd, DRM_RIVULET_PRIORITY_NORMAL), VM_QUEUE);
	/*
	 * A new binding allows runtime sleep, from which the device wakes by a reset. Tests that
	 * count resets do not expect that one.
	 */
	control = vm_may_sleep ? -1 : open(vm_sysfs("power/control"), O_WRONLY | O_CLOEXEC);
	if (control >= 0) {
		OK(write(control, "on", 2) == 2);
		close(control);
	}
	return fd;
}

int vm_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg);
}

static void query(int fd, uint32_t type, void *data, uint32_t size)
{
	struct drm_rivulet_query q = { .type = type, .size = size, .pointer = (uintptr_t)data };

	OK(!ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q));
	EQ(q.size, size);
}

void vm_info(int fd, struct drm_rivulet_device *info)
{
	query(fd, DRM_RIVULET_QUERY_DEVICE, info, sizeof(*info));
}

/** vm_level() - the V/F level in force */
uint32_t vm_level(int fd)
{
	struct drm_rivulet_clock clock;

	query(fd, DRM_RIVULET_QUERY_CLOCK, &clock, sizeof(clock));
	return clock.level;
}

void vm_counters(int fd, struct drm_rivulet_counters *c)
{
	query(fd, DRM_RIVULET_QUERY_COUNTERS, c, sizeof(*c));
}

uint64_t vm_epoch(int fd)
{
	struct drm_rivulet_counters n;

	vm_counters(fd, &n);
	return n.resets;
}

/** vm_counters_after() - read the counters until they include @jobs, at most for VM_WAIT_MS */
void vm_counters_after(int fd, struct drm_rivulet_counters *c, uint64_t jobs)
{
	for (int i = 0; i < VM_WAIT_MS / 10; i++) {
		vm_counters(fd, c);
		if (c->jobs >= jobs)
			return;
		usleep(10000);
	}
}

struct vm_buf vm_buf_new(int fd, uint64_t size)
{
	struct drm_rivulet_bo_create c = { .size = size };
	struct vm_buf b = { .fd = fd };

	OK(!ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &c));
	b.handle = c.handle;
	b.size = c.size;
	vm_buf_map(&b);
	return b;
}

int vm_map_offset(int fd, uint32_t handle, uint64_t *offset)
{
	struct drm_rivulet_bo_map m = { .handle = handle };
	int ret = ioctl(fd, DRM_IOCTL_RIVULET_BO_MAP, &m);

	*offset = m.offset;
	return ret;
}

void vm_buf_map(struct vm_buf *b)
{
	uint64_t offset;

	OK(!vm_map_offset(b->fd, b->handle, &offset));
	b->map = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, (off_t)offset);
	OK(b->map != MAP_FAILED);
}

void vm_buf_free(struct vm_buf *b)
{
	OK(!munmap(b->map, b->size));
	vm_close_handle(b->fd, b->handle);
}

uint32_t vm_buf_flags(int fd, uint32_t handle)
{
	struct drm_rivulet_bo_info i = { .handle = handle };

	OK(!ioctl(fd, DRM_IOCTL_RIVULET_BO_INFO, &i));
	return i.flags;
}

/** vm_buf_rights() - the flags of vm_buf_flags() that do not depend on the machine's caches */
uint32_t vm_buf_rights(int fd, uint32_t handle)
{
	return vm_buf_flags(fd, handle) & (DRM_RIVULET_BO_READONLY | DRM_RIVULET_BO_IMPORTED);
}

int vm_export(int fd, uint32_t handle, uint32_t flags, int *out)
{
	struct drm_prime_handle p = { .handle = handle, .flags = flags | DRM_CLOEXEC };
	int ret = ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &p);

	*out = ret ? -1 : p.fd;
	return ret;
}

int vm_import(int fd, int dmabuf, uint32_t *handle)
{
	struct drm_prime_handle p = { .fd = dmabuf };
	int ret = ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &p);

	*handle = p.handle;
	return ret;
}

void vm_close_handle(int fd, uint32_t handle)
{
	struct drm_gem_close c = { .handle = handle };

	OK(!ioctl(fd, DRM_IOCTL_GEM_CLOSE, &c));
}

/** vm_noise() - pseudo-random bytes, the same for the same @seed */
void vm_noise(void *p, size_t n, uint64_t seed)
{
	uint8_t *b = p;

	seed = seed * 0x9e3779b97f4a7c15ull + 1;
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(xorshift(&seed) >> 24);
}

void vm_put(struct vm_prog *p, struct rivulet_decoded d)
{
	const char *bad = "";

	OK(p->count < sizeof(p->code) / sizeof(p->code[0]));
	if (rivulet_encode(&d, &p->code[p->count], &bad))
		vm_fail(__FILE__, __LINE__, "field %s does not fit", bad);
	p->count++;
}

/** vm_put_copy() - add a LOAD and a STORE that copy @words scratchpad words between two slots */
void vm_put_copy(struct vm_prog *p, uint32_t tn, uint32_t from, uint64_t from_off, uint32_t to,
		 uint64_t to_off, uint32_t words)
{
	int64_t pitch = (int64_t)words * tn;

	PUT(p, l_src, .row_pitch = pitch, .blk_pitch = pitch);
	PUT(p, l_dst, .row_pitch = words, .blk_pitch = words);
	PUT(p, load, .push = 1 << RIVULET_Q_STORE, .mem = RIVULET_MEM_INP, .slot = from,
	    .offset = (int64_t)from_off, .rows = 1, .cols = words, .blks = 1);
	PUT(p, s_dst, .row_pitch = pitch, .blk_pitch = pitch);
	PUT(p, s_src, .row_pitch = words, .blk_pitch = words);
	PUT(p, store, .pop = 1 << RIVULET_Q_LOAD, .mem = RIVULET_MEM_INP, .slot = to,
	    .offset = (int64_t)to_off, .rows = 1, .cols = words, .blks = 1);
}

void vm_put_end(struct vm_prog *p)
{
	PUT(p, sync, .kind = RIVULET_SYNC_END);
}

void vm_job_init(struct vm_job *j)
{
	memset(j, 0, sizeof(*j));
	j->job.regions = (uintptr_t)j->region;
	j->job.variants = (uintptr_t)j->variant;
	j->job.in_syncs = (uintptr_t)j->in;
	j->job.out_syncs = (uintptr_t)j->out;
	j->job.report_slot = DRM_RIVULET_NO_REPORT;
}

void vm_job_region(struct vm_job *j, uint32_t slot, const struct vm_buf *b, uint64_t offset,
		   uint64_t size, uint32_t flags)
{
	j->region[j->job.region_count++] = (struct drm_rivulet_region){
		.slot = slot, .handle = b->handle, .offset = offset, .size = size, .flags = flags,
	};
}

/* Set one variant for each level of the device, all with the same commands. */
static void job_commands(struct vm_job *j, int fd, uint32_t slot, uint64_t offset, uint32_t length)
{
	struct drm_rivulet_device info;

	vm_info(fd, &info);
	j->job.variant_count = info.level_count;
	for (uint32_t i = 0; i < info.level_count; i++)
		j->variant[i] = (struct drm_rivulet_variant){ offset, length, slot };
}

/** vm_job_code() - write the program to @b, bind @b as slot 0, and have it run at every level */
void vm_job_code(struct vm_job *j, const struct vm_buf *b, const struct vm_prog *p)
{
	uint32_t bytes = p->count * RIVULET_INSN_BYTES;

	OK(bytes <= b->size);
	memcpy(b->map, p->code, bytes);
	vm_job_region(j, 0, b, 0, b->size, 0);
	job_commands(j, b->fd, 0, 0, bytes);
}

void vm_job_in(struct vm_job *j, uint32_t sync, uint64_t point)
{
	j->in[j->job.in_sync_count++] = (struct drm_rivulet_sync){ sync, 0, point };
}

void vm_job_out(struct vm_job *j, uint32_t sync, uint64_t point)
{
	j->out[j->job.out_sync_count++] = (struct drm_rivulet_sync){ sync, 0, point };
}

int vm_submit(int fd, struct vm_job *j)
{
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)&j->job, .count = 1, .stride = sizeof(j->job), .queue = VM_QUEUE,
	};

	return ioctl(fd, DRM_IOCTL_RIVULET_SUBMIT, &s);
}

/** vm_copy_job() - a job that copies @bytes, a multiple of tn, from slot 1 to slot 2 */
void vm_copy_job(struct vm_job *j, const struct vm_buf *code, const struct vm_buf *from,
		 const struct vm_buf *to, uint32_t bytes)
{
	struct drm_rivulet_device info;
	struct vm_prog p = {};

	vm_info(code->fd, &info);
	vm_put_copy(&p, info.tn, 1, 0, 2, 0, bytes / info.tn);
	vm_put_end(&p);
	vm_job_init(j);
	vm_job_code(j, code, &p);
	vm_job_region(j, 1, from, 0, from->size, 0);
	vm_job_region(j, 2, to, 0, to->size, DRM_RIVULET_REGION_WRITE);
}

/** vm_client_on() - a client on an open node, whose source and target have @bytes each */
struct vm_client vm_client_on(int fd, uint32_t bytes)
{
	struct vm_client c = { .fd = fd, .bytes = bytes };

	c.code = vm_buf_new(fd, 4096);
	c.from = vm_buf_new(fd, bytes);
	c.to = vm_buf_new(fd, bytes);
	c.sync = vm_sync_new(fd);
	return c;
}

/** vm_client() - a client with an open node of its own, to copy 4096 bytes */
struct vm_client vm_client(void)
{
	return vm_client_on(vm_open(), 4096);
}

/** vm_reporter() - a client that copies 1024 bytes and has vm_report() of its last job */
struct vm_client vm_reporter(void)
{
	struct vm_client c = vm_client();

	c.bytes = 1024;
	c.report = 2048;
	return c;
}

/** vm_client_job() - a job that copies, reports if @c is a reporter, and signals its syncobj */
void vm_client_job(struct vm_client *c, struct vm_job *j)
{
	vm_copy_job(j, &c->code, &c->from, &c->to, c->bytes);
	if (c->report) {
		j->job.report_slot = 2;
		j->job.report_offset = c->report;
	}
	vm_job_out(j, c->sync, 0);
}

/** vm_client_try() - submit a copy of vm_noise(@seed) over zeros; returns as vm_submit() */
int vm_client_try(struct vm_client *c, uint64_t seed)
{
	struct vm_job j;

	vm_noise(c->from.map, c->bytes, seed);
	memset(c->to.map, 0, c->to.size);
	vm_client_job(c, &j);
	return vm_submit(c->fd, &j);
}

void vm_client_submit(struct vm_client *c, uint64_t seed)
{
	OK(!vm_client_try(c, seed));
}

/** vm_client_copied() - does the target hold what the job should have written? */
bool vm_client_copied(const struct vm_client *c)
{
	return !memcmp(c->to.map, c->from.map, c->bytes);
}

/** vm_client_good() - the last job ended without an error and copied all bytes */
void vm_client_good(struct vm_client *c)
{
	EQ(vm_sync_result(c->fd, c->sync), 0);
	OK(vm_client_copied(c));
}

const struct rivulet_status *vm_report(const struct vm_client *c)
{
	return (const struct rivulet_status *)(c->to.map + c->report);
}

uint32_t vm_sync_new(int fd)
{
	struct drm_syncobj_create c = {};

	OK(!ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &c));
	return c.handle;
}

/** vm_sync_wait() - 0, or -1 with errno (ETIME: not in @ms) */
int vm_sync_wait(int fd, uint32_t sync, uint64_t point, unsigned int ms)
{
	struct drm_syncobj_timeline_wait w = {
		.handles = (uintptr_t)&sync, .points = (uintptr_t)&point, .count_handles = 1,
	};
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	w.timeout_nsec = now.tv_sec * 1000000000ll + now.tv_nsec + ms * 1000000ll;
	return ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &w);
}

/** vm_sync_file() - the fence in a syncobj as a sync_file */
int vm_sync_file(int fd, uint32_t sync)
{
	struct drm_syncobj_handle h = {
		.handle = sync, .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE,
	};

	OK(!ioctl(fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &h));
	return h.fd;
}

static bool readable_within(int file, int ms)
{
	struct pollfd p = { .fd = file, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/** vm_file_waits() - is a sync_file or dma-buf still not readable after 100 ms? */
bool vm_file_waits(int file)
{
	return !readable_within(file, 100);
}

/** vm_file_ends() - does a sync_file or dma-buf become readable? It waits long, as the machine may be slow. */
bool vm_file_ends(int file)
{
	return readable_within(file, VM_WAIT_MS);
}

/** vm_file_result() - wait for a sync_file and close it; returns 0 or its negative errno */
int vm_file_result(int file)
{
	struct sync_file_info info = {};

	OK(vm_file_ends(file));
	OK(!ioctl(file, SYNC_IOC_FILE_INFO, &info));
	close(file);
	return info.status == 1 ? 0 : info.status;
}

/** vm_sync_result() - wait for the fence of a syncobj; returns 0 or its negative errno */
int vm_sync_result(int fd, uint32_t sync)
{
	return vm_file_result(vm_sync_file(fd, sync));
}

/* Copied from the kernel's vgem_drm.h, which no package installs. */
struct vgem_attach {
	uint32_t handle;
	uint32_t flags;		/* 1: a writer's */
	uint32_t out_fence;
	uint32_t pad;
};
struct vgem_signal {
	uint32_t fence;
	uint32_t flags;
};
#define VGEM_ATTACH	DRM_IOWR(DRM_COMMAND_BASE + 1, struct vgem_attach)
#define VGEM_SIGNAL	DRM_IOW(DRM_COMMAND_BASE + 2, struct vgem_signal)

static int vgem_node(void)
{
	char name[16], path[32];

	for (int i = 0; i < 16; i++) {
		struct drm_version v = { .name = name, .name_len = sizeof(name) - 1 };

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		int fd = open(path, O_RDWR | O_CLOEXEC);

		memset(name, 0, sizeof(name));
		if (fd >= 0 && !ioctl(fd, DRM_IOCTL_VERSION, &v) && !strcmp(name, "vgem"))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

/* vgem is a module or built into the kernel. */
int vm_vgem(void)
{
	int fd = vgem_node();

	if (fd < 0 && system("modprobe -q vgem"))
		vm_skip("no module vgem");
	if (fd < 0)
		fd = vgem_node();
	if (fd < 0)
		vm_fail(__FILE__, __LINE__, "vgem is loaded but has no node");
	return fd;
}

/**
 * vm_gate() - memory whose dma-buf has a fence (@write: a writer's) until vm_gate_open()
 *
 * Jobs that use the memory wait for that fence. vgem signals it with an error after 10 s.
 */
struct vm_gate vm_gate(uint64_t size, bool write)
{
	struct drm_mode_create_dumb d = { .width = (uint32_t)(size / 4096),
					  .height = 1024,
					  .bpp = 32 };
	struct vm_gate g = { .vgem = vm_vgem() };
	struct vgem_attach a = { .flags = write };

	OK(!ioctl(g.vgem, DRM_IOCTL_MODE_CREATE_DUMB, &d));
	EQ(d.size, size);
	OK(!vm_export(g.vgem, d.handle, DRM_RDWR, &g.dmabuf));
	a.handle = d.handle;
	OK(!ioctl(g.vgem, VGEM_ATTACH, &a));
	g.fence = a.out_fence;
	return g;
}

void vm_gate_open(struct vm_gate *g)
{
	struct vgem_signal s = { .fence = g->fence };

	OK(!ioctl(g->vgem, VGEM_SIGNAL, &s));
}

/** vm_harness() - open the test module's node; loads the module when it is not loaded */
int vm_harness(void)
{
	int fd = open("/dev/rivulet-harness", O_RDWR | O_CLOEXEC);

	if (fd < 0 && access(HARNESS_MODULE, F_OK) && !vm_on_pci())
		vm_skip("PCI only: the board has no test module");
	if (fd < 0) {
		OK(!system(access(HARNESS_INSTALLED, F_OK) ? "insmod " HARNESS_MODULE :
							     "insmod " HARNESS_INSTALLED));
		fd = open("/dev/rivulet-harness", O_RDWR | O_CLOEXEC);
	}
	OK(fd >= 0);
	return fd;
}

/** vm_number() - the number that follows @key at the beginning of a line, -1 if no line has it */
long vm_number(const char *path, const char *key)
{
	char line[128];
	long value = -1;
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)) &&
		    sscanf(line + strlen(key), "%ld", &value) == 1)
			break;
	if (f)
		fclose(f);
	return value;
}

/** vm_read_all() - read a file to its end and discard the bytes; 0, or -1 with errno */
int vm_read_all(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC), n;

	if (fd < 0)
		return -1;
	while ((n = (int)read(fd, text, sizeof(text))) > 0)
		;
	close(fd);
	return n;
}

/** vm_glob() - the first path that matches, valid until the next call, or NULL */
const char *vm_glob(const char *pattern)
{
	static char path[512];
	glob_t g;

	if (glob(pattern, GLOB_BRACE, NULL, &g))
		return NULL;
	snprintf(path, sizeof(path), "%s", g.gl_pathv[0]);
	globfree(&g);
	return path;
}

/** vm_debugfs() - path of a file of the driver in debugfs; returns as vm_glob() */
const char *vm_debugfs(const char *name)
{
	char pattern[128];

	snprintf(pattern, sizeof(pattern), "/sys/kernel/debug/{accel,dri}/*/%s", name);
	return vm_glob(pattern);
}

/** vm_fdinfo() - the number of @key in a file's fdinfo, or 0 */
unsigned long long vm_fdinfo(int fd, const char *key)
{
	char path[64], start[64];
	long value;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	snprintf(start, sizeof(start), "%s:", key);
	value = vm_number(path, start);
	return value < 0 ? 0 : (unsigned long long)value;
}

/** vm_param() - set a parameter of the module; kmod_test restores it after the test */
void vm_param(const char *name, const char *value)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/module/rivulet/parameters/%s", name);
	vm_sysfs_write(path, value);
}

/** vm_on_pci() - is the NPU a PCI device? Else it is one of the Device Tree. */
bool vm_on_pci(void)
{
	return !access("/sys/bus/pci/drivers/rivulet", F_OK);
}

/** vm_device_name() - the NPU's name on its bus; @name: at least 64 bytes */
void vm_device_name(char *name)
{
	char link[128], target[512];
	ssize_t n;

	snprintf(link, sizeof(link), "/sys/class/%s/%s/device",
		 strstr(vm_node(), "/dri/") ? "drm" : "accel", strrchr(vm_node(), '/') + 1);
	n = readlink(link, target, sizeof(target) - 1);
	OK(n > 0);
	target[n] = '\0';
	snprintf(name, 64, "%.63s", strrchr(target, '/') + 1);
}

/** vm_driver_file() - write @name, from vm_device_name(), to "bind" or "unbind" of the driver */
void vm_driver_file(const char *what, const char *name)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/bus/%s/drivers/rivulet/%s",
		 vm_on_pci() ? "pci" : "platform", what);
	vm_sysfs_write(path, name);
}

/** vm_polled() - is the NPU a device of the Device Tree without an interrupt? */
bool vm_polled(void)
{
	char name[64], path[160];

	vm_device_name(name);
	snprintf(path, sizeof(path), "/sys/bus/platform/devices/%s/of_node", name);
	if (access(path, F_OK))
		return false;
	strcat(path, "/interrupts");
	return access(path, F_OK);
}

/* A virtio port; without PCI the second UART, which is set to raw mode. */
static int open_control(void)
{
	int fd = open("/dev/virtio-ports/rivulet.control", O_RDWR | O_CLOEXEC);
	struct termios t;

	if (fd >= 0 || vm_on_pci())
		return fd;
	fd = open("/dev/ttyPS1", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0) {
		OK(!tcgetattr(fd, &t));
		cfmakeraw(&t);
		OK(!tcsetattr(fd, TCSAFLUSH, &t));
	}
	return fd;
}

/* Send one command to the model. The last line of its answer must be "ok"; @answer: all lines. */
static void control(const char *command, char *answer, size_t size)
{
	size_t n = 0, line = 0;
	int fd = open_control();

	if (fd < 0)
		vm_skip("no control port to the model");
	OK(dprintf(fd, "%s\n", command) > 0);
	while (n < size - 1 && read(fd, answer + n, 1) == 1) {
		if (answer[n++] != '\n')
			continue;
		answer[n] = '\0';
		if (!strcmp(answer + line, "ok\n") || !strncmp(answer + line, "error", 5))
			break;
		line = n;
	}
	answer[n] = '\0';
	close(fd);
	if (strcmp(answer + line, "ok\n"))
		vm_fail(__FILE__, __LINE__, "the model answers \"%s\" to \"%s\"", answer, command);
}

/** vm_control() - send one command to the model; skips the test without a control port */
void vm_control(const char *command)
{
	char answer[256];

	control(command, answer, sizeof(answer));
}

/** vm_control_stat() - a number of the model's state, by its name in the answer to "stat" */
long vm_control_stat(const char *name)
{
	char answer[4096], *at = answer;
	size_t n = strlen(name);

	control("stat", answer, sizeof(answer));
	while (at && (strncmp(at, name, n) || at[n] != ' ')) {
		at = strchr(at, '\n');
		at += at != NULL;
	}
	if (!at)
		vm_fail(__FILE__, __LINE__, "the model's stat has no %s", name);
	return atol(at + n);
}

/** vm_monitor() - send one command to QEMU's monitor; returns whether it was accepted */
bool vm_monitor(const char *command)
{
	static char answer[65536];	/* the monitor echoes the whole line after each character */
	int fd = open("/dev/virtio-ports/rivulet.monitor", O_RDWR | O_CLOEXEC);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	const char *error;
	bool done = false;
	size_t n = 0;

	if (fd < 0)
		vm_skip("no port to QEMU's monitor");
	/* Discard the greeting, or an answer to an earlier command. */
	while (poll(&p, 1, 200) == 1 && read(fd, answer, sizeof(answer)) > 0)
		;
	OK(dprintf(fd, "%s\n", command) > 0);
	while (!done && n < sizeof(answer) - 1 && read(fd, answer + n, 1) == 1) {
		answer[++n] = '\0';
		/* The prompt that follows the command, not a late one of the greeting. */
		done = n >= 8 && !strcmp(answer + n - 8, "\n(qemu) ") && strstr(answer, command);
	}
	close(fd);
	OK(done);
	error = strstr(answer, "Error");
	if (error && !strstr(error, "busy"))
		printf("# QEMU refuses %s: %.*s\n", command, (int)strcspn(error, "\r\n"), error);
	return !error;
}

/** vm_await_node() - wait until a node exists (@there) or none does; fails after VM_WAIT_MS */
void vm_await_node(bool there)
{
	for (int i = 0; i < VM_WAIT_MS / 10 && (vm_node() != NULL) != there; i++)
		usleep(10000);
	EQ(vm_node() != NULL, there);
}

/**
 * vm_replug() - unplug the NPU and plug in a new one
 * @old, @fresh: names of QEMU's connections to the model. QEMU accepts no name twice.
 *
 * A new connection resets the model. An NPU in programmable logic is unbound, powered off and on,
 * and bound again.
 */
void vm_replug(const char *old, const char *fresh)
{
	char command[96], name[64];
	bool removed = false;

	if (!vm_on_pci()) {
		vm_device_name(name);
		vm_driver_file("unbind", name);
		vm_control("power");
		vm_driver_file("bind", name);
		vm_await_node(true);
		return;
	}
	OK(vm_monitor("device_del npu0"));
	vm_await_node(false);
	snprintf(command, sizeof(command), "chardev-remove %s", old);
	/* QEMU ends its use of the connection a moment after the kernel has removed the device. */
	for (int i = 0; i < VM_WAIT_MS / 50 && !removed; i++) {
		removed = vm_monitor(command);
		usleep(removed ? 0 : 50000);
	}
	OK(removed);
	snprintf(command, sizeof(command), "chardev-add socket,id=%s,path=npu.sock", fresh);
	OK(vm_monitor(command));
	snprintf(command, sizeof(command),
		 "device_add ivshmem-doorbell,id=npu0,bus=rp0,chardev=%s,vectors=1", fresh);
	OK(vm_monitor(command));
	vm_await_node(true);
}

void vm_sysfs_write(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);

	OK(fd >= 0);
	EQ(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/** vm_symbol() - the address of a kernel function; @end: NULL, or set to that of the next symbol */
unsigned long long vm_symbol(const char *name, unsigned long long *end)
{
	unsigned long long address, start = 0;
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[256], symbol[128];

	OK(f);
	while (fgets(line, sizeof(line), f) &&
	       sscanf(line, "%llx %*c %127s", &address, symbol) == 2) {
		if (start)
			break;
		if (!strcmp(symbol, name))
			start = address;
	}
	fclose(f);
	OK(start && (!end || address > start));
	if (end)
		*end = address;
	return start;
}

/** vm_udmabuf() - a dma-buf of the pages of a new memfd; @memfd: NULL, or set to that memfd */
int vm_udmabuf(uint64_t size, int *memfd)
{
	struct udmabuf_create c = { .size = size };
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), memory, fd;

	if (dev < 0)
		vm_skip("no /dev/udmabuf");
	memory = memfd_create("camera", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	OK(memory >= 0 && !ftruncate(memory, (off_t)size));
	OK(!fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK));
	c.memfd = (uint32_t)memory;
	fd = ioctl(dev, UDMABUF_CREATE, &c);
	OK(fd >= 0);
	close(dev);
	if (memfd)
		*memfd = memory;
	else
		close(memory);
	return fd;
}

/** vm_heap() - a dma-buf of the system's DMA heap; @flags: O_RDWR or O_RDONLY */
int vm_heap(uint64_t size, uint32_t flags)
{
	struct dma_heap_allocation_data h = { .len = size, .fd_flags = flags | O_CLOEXEC };
	int dev = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);

	if (dev < 0)
		vm_skip("no system heap");
	OK(!ioctl(dev, DMA_HEAP_IOCTL_ALLOC, &h));
	close(dev);
	return (int)h.fd;
}

/** vm_sysfs() - path of a file of the bound device, as vm_glob(); @name may have wildcards */
const char *vm_sysfs(const char *name)
{
	const char *path;
	char pattern[192];

	snprintf(pattern, sizeof(pattern), "/sys/class/{accel,drm}/%s/device/%s",
		 strrchr(vm_node(), '/') + 1, name);
	path = vm_glob(pattern);
	if (!path)
		vm_fail(__FILE__, __LINE__, "no %s", pattern);
	return path;
}

/** vm_window() - map the register window of a PCI device that no driver has requested */
volatile uint32_t *vm_window(const char *device)
{
	char path[128];
	void *p;
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource2", device);
	fd = open(path, O_RDWR | O_CLOEXEC);
	OK(fd >= 0);
	p = mmap(NULL, RIVULET_WINDOW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	OK(p != MAP_FAILED);
	close(fd);
	return p;
}

/** vm_stay_awake() - forbid runtime sleep, and its reset at each wake, until the next test */
void vm_stay_awake(void)
{
	vm_sysfs_write(vm_sysfs("power/control"), "on");
}

static void set_limit(const char *which, uint64_t hz)
{
	char dir[] = "/sys/class/devfreq", path[400], text[32];
	struct dirent *e;
	DIR *d = opendir(dir);

	OK(d);
	while ((e = readdir(d)) && e->d_name[0] == '.')
		;
	OK(e);
	snprintf(path, sizeof(path), "%s/%s/%s", dir, e->d_name, which);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)hz);
	closedir(d);
	vm_sysfs_write(path, text);
}

/** vm_limit_level() - have devfreq stay between two levels of the device that @info describes */
void vm_limit_level(const struct drm_rivulet_device *info, uint32_t lowest, uint32_t highest)
{
	set_limit("min_freq", 0);
	set_limit("max_freq", info->level[highest].hz);
	set_limit("min_freq", info->level[lowest].hz);
}

/** vm_pin_level() - have devfreq keep one level, and wait until that is in force */
void vm_pin_level(int fd, uint32_t level)
{
	struct drm_rivulet_device info;

	vm_unpin_level(fd);
	vm_info(fd, &info);
	set_limit("max_freq", info.level[level].hz);
	set_limit("min_freq", info.level[level].hz);
	for (int i = 0; i < VM_WAIT_MS / 10 && vm_level(fd) != level; i++)
		usleep(10000);
	EQ(vm_level(fd), level);
}

void vm_unpin_level(int fd)
{
	struct drm_rivulet_device info;

	vm_info(fd, &info);
	set_limit("min_freq", info.level[0].hz);
	set_limit("max_freq", info.level[info.level_count - 1].hz);
}

/* Number of jobs in the device, and the age of the youngest in @ms. */
static unsigned int queue_slots(int64_t *ms)
{
	unsigned int n = 0;
	char line[96];
	const char *path = vm_debugfs("queue");
	FILE *f = path ? fopen(path, "re") : NULL;

	OK(f);
	*ms = INT64_MAX;
	while (fgets(line, sizeof(line), f)) {
		long long age;

		if (sscanf(line, "slot %*u: seq %*u client %*u for %lld", &age) != 1)
			continue;
		n++;
		*ms = age < *ms ? age : *ms;
	}
	fclose(f);
	return n;
}

/** vm_queue_holds() - wait until the device has @jobs jobs; returns false after VM_WAIT_MS */
bool vm_queue_holds(unsigned int jobs)
{
	int64_t ms;

	for (int i = 0; i < VM_WAIT_MS / 10 && queue_slots(&ms) != jobs; i++)
		usleep(10000);
	return queue_slots(&ms) == jobs;
}

/** vm_queue_age() - age in @ms of the only job in the device; returns false unless there is one */
bool vm_queue_age(int64_t *ms)
{
	return queue_slots(ms) == 1;
}

/** vm_objects() - how many "buffers", "jobs" or "clients" are alive in the driver, or -1 */
long vm_objects(const char *name)
{
	const char *path = vm_debugfs("objects");

	return path ? vm_number(path, name) : -1;
}
