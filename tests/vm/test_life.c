// SPDX-License-Identifier: MIT
/*
 * Sleep and resume, unbinding and unloading under load, and the state that an earlier driver left.
 */
#include "vm.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rivulet_crc32c.h"

/* First line of a file, in memory that the next call reuses; "" if it cannot be read. */
static const char *first_line(const char *path)
{
	static char text[256];
	FILE *f = fopen(path, "re");

	OK(f);
	text[0] = '\0';
	if (fgets(text, sizeof(text), f))
		text[strcspn(text, "\n")] = '\0';
	fclose(f);
	return text;
}

static const char *attribute(const char *name)
{
	return first_line(vm_sysfs(name));
}

static bool asleep(void)
{
	return !strcmp(attribute("power/runtime_status"), "suspended");
}

static void await_sleep(void)
{
	for (int i = 0; i < VM_WAIT_MS / 10 && !asleep(); i++)
		usleep(10000);
	OK(asleep());
}

/*
 * A suspended device is held. Neither its sensors nor a request for a level resume it; a job does.
 */
static void runtime_sleep(void)
{
	struct vm_client c;
	uint64_t before;
	char energy[256];

	vm_may_sleep = true;
	c = vm_reporter();
	vm_client_submit(&c, 1);
	vm_client_good(&c);
	before = vm_epoch(c.fd);
	await_sleep();
	EQ(vm_control_stat("held"), 1);
	snprintf(energy, sizeof(energy), "%s", attribute("hwmon/hwmon*/energy1_input"));
	OK(atoll(energy) > 0);
	vm_pin_level(c.fd, 0);
	EQ(vm_level(c.fd), 0);
	EQ(atoll(attribute("hwmon/hwmon*/power1_average")), 0);
	OK(!*attribute("hwmon/hwmon*/temp1_input"));
	usleep(200000);
	OK(!strcmp(attribute("hwmon/hwmon*/energy1_input"), energy));
	OK(asleep());
	/* The device must not suspend again before it was checked. */
	vm_sysfs_write(vm_sysfs("power/autosuspend_delay_ms"), "60000");
	vm_client_submit(&c, 2);
	vm_client_good(&c);
	EQ(vm_report(&c)->level, 0);
	EQ(vm_control_stat("held"), 0);
	EQ(vm_epoch(c.fd), before + 1);
	vm_sysfs_write(vm_sysfs("power/autosuspend_delay_ms"), "100");
	vm_unpin_level(c.fd);
}

/*
 * Autosuspend of a stalled device fails and is tried again. When the stall ends, the device takes
 * jobs and suspends. A stall during the resume that is shorter than the driver's timeout for RESET
 * only delays the job.
 */
static void stalled_sleep(void)
{
	struct vm_client c;

	vm_may_sleep = true;
	c = vm_reporter();
	vm_sysfs_write(vm_sysfs("power/autosuspend_delay_ms"), "1500");
	vm_client_submit(&c, 1);
	vm_client_good(&c);
	vm_control("stall 600000");
	OK(!asleep());
	sleep(12);
	OK(!asleep());
	OK(strcmp(attribute("power/runtime_status"), "error"));
	vm_control("stall 0");
	/* Autosuspend is tried again although no job ends meanwhile. */
	await_sleep();
	vm_client_submit(&c, 2);
	vm_client_good(&c);
	vm_sysfs_write(vm_sysfs("power/autosuspend_delay_ms"), "100");
	await_sleep();
	vm_control("stall 2000");
	vm_client_submit(&c, 3);
	vm_client_good(&c);
}

/*
 * A device that leaves the RESET of its resume unanswered is lost: its jobs end with EIO, and
 * runtime PM keeps no error. It works again when it is bound again.
 */
static void lost_at_wake(void)
{
	struct vm_client c;
	char device[64];

	vm_may_sleep = true;
	c = vm_client();
	vm_client_submit(&c, 1);
	vm_client_good(&c);
	await_sleep();
	vm_control("stall 600000");
	vm_client_submit(&c, 2);
	EQ(vm_sync_result(c.fd, c.sync), -EIO);
	FAILS(vm_client_try(&c, 3), EIO);
	OK(strcmp(attribute("power/runtime_status"), "error"));
	vm_control("stall 0");
	vm_device_name(device);
	vm_driver_file("unbind", device);
	vm_driver_file("bind", device);
	vm_await_node(true);
	c = vm_client();
	vm_client_submit(&c, 4);
	vm_client_good(&c);
}

/*
 * Suspend all devices for a second by the kernel's pm_test. Returns false if the kernel gave up
 * before, because on a loaded machine some process did not freeze in time.
 */
static bool sleep_system(void)
{
	int fd = open("/sys/power/state", O_WRONLY | O_CLOEXEC);
	bool slept;

	vm_sysfs_write("/sys/module/suspend/parameters/pm_test_delay", "1");
	vm_sysfs_write("/sys/power/pm_test", "devices");
	OK(fd >= 0);
	slept = write(fd, "freeze", 6) == 6;
	OK(slept || errno == EBUSY);
	close(fd);
	vm_sysfs_write("/sys/power/pm_test", "none");
	return slept;
}

/*
 * Suspend while the first of three jobs runs, for @ms. Returns false if the suspend began after its
 * end.
 */
static bool sleep_amid(struct vm_client *a, struct vm_client *b, struct vm_client *c, int ms)
{
	uint64_t before = vm_epoch(a->fd);
	char slow[32];
	bool slept;

	snprintf(slow, sizeof(slow), "inject slow@+1:%d", ms);
	vm_control(slow);
	vm_client_submit(a, 1);
	vm_client_submit(b, 2);
	vm_client_submit(c, 3);
	slept = sleep_system();
	if (slept)
		EQ(vm_epoch(a->fd), before + 1);
	vm_client_good(a);
	vm_client_good(b);
	vm_client_good(c);
	OK(vm_report(b)->start >= vm_report(a)->end && vm_report(c)->start >= vm_report(b)->end);
	/* One job ran before the suspend and one after it. */
	return slept && vm_report(b)->start - vm_report(a)->end > 500000000;
}

static void system_sleep(void)
{
	struct vm_client a = vm_reporter(), b = vm_reporter(), c = vm_reporter();
	int tries = 0;

	if (access("/sys/power/pm_test", W_OK))
		vm_skip("the kernel has no CONFIG_PM_DEBUG");
	vm_stay_awake();
	while (!sleep_amid(&a, &b, &c, 3000 * (tries + 1)))
		OK(++tries < 6);
	while (!sleep_system())
		OK(++tries < 8);
	vm_client_submit(&a, 4);
	vm_client_good(&a);
}

/* The device's name on the PCI bus; skips the test on another bus. */
static const char *bdf(void)
{
	static char name[64];

	if (!vm_on_pci())
		vm_skip("PCI only");
	vm_device_name(name);
	return name;
}

/*
 * Submit jobs until the device is removed. Then every call returns ENODEV, and the mappings keep
 * their bytes.
 */
static void work(uint64_t seed, int ready)
{
	struct vm_client c = vm_reporter();
	struct drm_rivulet_submit s = {
		.count = 1, .stride = sizeof(struct drm_rivulet_job), .queue = VM_QUEUE,
		.flags = DRM_RIVULET_SUBMIT_FENCE_FD,
	};
	struct drm_rivulet_query q = {};
	struct vm_job j;
	int result;

	for (bool announced = false;; announced = true) {
		vm_noise(c.from.map, 1024, ++seed);
		/* vm_copy_job() is called once only, because it calls QUERY. */
		if (!announced)
			vm_copy_job(&j, &c.code, &c.from, &c.to, 1024);
		s.jobs = (uintptr_t)&j.job;
		if (vm_ioctl(c.fd, DRM_IOCTL_RIVULET_SUBMIT, &s)) {
			EQ(errno, ENODEV);
			break;
		}
		result = vm_file_result(s.fence_fd);
		if (result == -ENODEV)
			break;
		EQ(result, 0);
		OK(!memcmp(c.from.map, c.to.map, 1024));
		if (!announced)
			OK(write(ready, "", 1) == 1);
	}
	FAILS(vm_ioctl(c.fd, DRM_IOCTL_RIVULET_QUERY, &q), ENODEV);
	vm_noise(c.to.map, 1024, seed);
	OK(!memcmp(c.from.map, c.to.map, 1024));
}

#define WORKERS 3

static void start_work(pid_t *pid, uint64_t seed)
{
	int ready[2];
	char byte;

	OK(!pipe(ready));
	for (int i = 0; i < WORKERS; i++) {
		fflush(stdout);
		pid[i] = fork();
		OK(pid[i] >= 0);
		if (!pid[i]) {
			work(seed + 1000 * (uint64_t)i, ready[1]);
			fflush(stdout);
			_exit(0);
		}
	}
	for (int i = 0; i < WORKERS; i++)
		OK(read(ready[0], &byte, 1) == 1);
	close(ready[0]);
	close(ready[1]);
}

static void end_work(const pid_t *pid)
{
	int status;

	for (int i = 0; i < WORKERS; i++) {
		OK(waitpid(pid[i], &status, 0) == pid[i]);
		EQ(status, 0);
	}
}

static void one_job(void)
{
	struct vm_client c;

	vm_await_node(true);
	c = vm_reporter();
	vm_client_submit(&c, 77);
	vm_client_good(&c);
	close(c.fd);
}

static void unbind_load(void)
{
	pid_t pid[WORKERS];
	char device[64];

	vm_device_name(device);
	for (uint64_t n = 0; n < 5; n++) {
		start_work(pid, n);
		vm_driver_file("unbind", device);
		end_work(pid);
		vm_driver_file("bind", device);
		one_job();
	}
}

/*
 * Unbind with buffers that the device reaches: its own by a page list, and an import, both shared.
 */
static void unbind_open(void)
{
	int fd = vm_open(), memfd, lent = vm_udmabuf(1 << 20, &memfd), given;
	struct vm_buf own = vm_buf_new(fd, 1 << 20), other = { .fd = fd, .size = 1 << 20 };
	uint8_t *seen, *camera;
	char device[64];

	vm_device_name(device);
	OK(!vm_import(fd, lent, &other.handle));
	OK(!vm_export(fd, own.handle, DRM_RDWR, &given));
	OK(vm_objects("list_bytes") > 0);
	camera = mmap(NULL, other.size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	OK(camera != MAP_FAILED);
	vm_noise(own.map, own.size, 1);
	vm_noise(camera, other.size, 2);
	vm_driver_file("unbind", device);
	/* The mapping is new, so that its pages are faulted in after the unbind. */
	seen = mmap(NULL, own.size, PROT_READ | PROT_WRITE, MAP_SHARED, given, 0);
	OK(seen != MAP_FAILED && !memcmp(seen, own.map, own.size));
	seen[77] ^= 1;
	EQ(own.map[77], seen[77]);
	FAILS(vm_import(fd, lent, &other.handle), ENODEV);
	vm_driver_file("bind", device);
	one_job();
	EQ(vm_objects("list_bytes"), 0);
	/* The new device imports the old device's buffer as that of another exporter. */
	fd = vm_open();
	OK(!vm_import(fd, given, &other.handle));
	EQ(vm_buf_flags(fd, other.handle), DRM_RIVULET_BO_IMPORTED);
	vm_noise(camera, other.size, 2);
}

/* Wait until the device has no higher level than @highest. */
static void await_level(int fd, uint32_t highest)
{
	for (int i = 0; i < VM_WAIT_MS / 10 && vm_level(fd) > highest; i++)
		usleep(10000);
	OK(vm_level(fd) <= highest);
}

/*
 * The states of the cooling device limit the level, whatever the load. A thermal zone would set
 * them.
 */
static void cooling(void)
{
	struct vm_client c = vm_reporter();
	struct drm_rivulet_device info;
	char dir[256] = "", path[300], text[32];
	glob_t g;

	OK(!glob("/sys/class/thermal/cooling_device*", 0, NULL, &g));
	for (size_t i = 0; i < g.gl_pathc && !*dir; i++) {
		snprintf(path, sizeof(path), "%s/type", g.gl_pathv[i]);
		if (strstr(first_line(path), "devfreq"))
			snprintf(dir, sizeof(dir), "%s", g.gl_pathv[i]);
	}
	globfree(&g);
	OK(*dir);
	vm_info(c.fd, &info);
	snprintf(path, sizeof(path), "%s/max_state", dir);
	EQ(atoi(first_line(path)), (int)info.level_count - 1);
	snprintf(path, sizeof(path), "%s/cur_state", dir);
	for (uint32_t hot = info.level_count; hot-- > 0;) {
		snprintf(text, sizeof(text), "%u", hot);
		vm_limit_level(&info, 0, info.level_count - 1);
		vm_sysfs_write(path, text);
		await_level(c.fd, info.level_count - 1 - hot);
		vm_client_submit(&c, hot);
		vm_client_good(&c);
		OK(vm_report(&c)->level <= info.level_count - 1 - hot);
	}
	vm_pin_level(c.fd, info.level_count - 1);
	vm_client_submit(&c, 99);
	vm_client_good(&c);
	EQ(vm_report(&c)->level, info.level_count - 1);
	vm_unpin_level(c.fd);
}

static void pci_remove(void)
{
	char path[128];
	pid_t pid[WORKERS];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/remove", bdf());
	start_work(pid, 1);
	vm_sysfs_write(path, "1");
	end_work(pid);
	vm_sysfs_write("/sys/bus/pci/rescan", "1");
	one_job();
}

/* The installed module, opened. */
static int module_file(void)
{
	char pattern[PATH_MAX];
	struct utsname name;
	const char *path;
	int fd;

	OK(!uname(&name));
	/* The arm64 machine has the module in its root directory. */
	snprintf(pattern, sizeof(pattern), "{/lib/modules/%s/*,}/rivulet.ko", name.release);
	path = vm_glob(pattern);
	OK(path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	OK(fd >= 0);
	return fd;
}

static int unload(void)
{
	return (int)syscall(SYS_delete_module, "rivulet", O_NONBLOCK);
}

static void load(int file)
{
	OK(!syscall(SYS_finit_module, file, "", 0));
}

static void rmmod_load(void)
{
	int file = module_file(), tries = 0;
	struct vm_client c = vm_reporter();
	struct vm_buf *map[] = { &c.code, &c.from, &c.to };

	vm_control("inject slow@+1:500");
	vm_client_submit(&c, 1);
	FAILS(unload(), EWOULDBLOCK);
	vm_client_good(&c);
	vm_control("inject slow@+1:500");
	vm_client_submit(&c, 2);
	vm_client_submit(&c, 3);
	for (int i = 0; i < 3; i++)
		OK(!munmap(map[i]->map, map[i]->size));
	close(c.fd);
	/* The running job keeps the module; the queued one was cancelled with its file. */
	while (unload()) {
		EQ(errno, EWOULDBLOCK);
		OK(++tries < 500);
		usleep(10000);
	}
	OK(!vm_node());
	load(file);
	one_job();
}

/* Objects of the general caches that are in use, by cache. */
static size_t slabs(long *active, size_t max)
{
	FILE *f = fopen("/proc/slabinfo", "re");
	char line[512];
	size_t n = 0;

	OK(f);
	while (fgets(line, sizeof(line), f) && n < max)
		if (!strncmp(line, "kmalloc-", 8) && strncmp(line, "kmalloc-rcl", 11) &&
		    strncmp(line, "kmalloc-cg", 10))
			n += sscanf(line, "%*s %ld", &active[n]) == 1;
	fclose(f);
	return n;
}

static void reload(int file, int times)
{
	for (int i = 0; i < times; i++) {
		int tries = 0;

		/* Another process, such as udev, may have the node open. */
		while (unload()) {
			EQ(errno, EWOULDBLOCK);
			OK(++tries < 500);
			usleep(2000);
		}
		load(file);
	}
	OK(!system("! command -v udevadm || udevadm settle -t 20"));
}

#define RELOADS 100

/* The use of each general cache in objects, then that of vmalloc and per-cpu memory in pages. */
static size_t in_use(long *n, size_t max)
{
	size_t caches = slabs(n, max - 2);

	n[caches] = vm_number("/proc/meminfo", "VmallocUsed:") / 4;
	n[caches + 1] = vm_number("/proc/meminfo", "Percpu:") / 4;
	return caches + 2;
}

/* Which of these grew by an object or page for each load, or -1. */
static int leak(const long *before)
{
	long now[32];
	size_t n = in_use(now, 32);

	for (size_t i = 0; i < n; i++)
		if (now[i] - before[i] >= RELOADS)
			return (int)i;
	return -1;
}

static void reloads(void)
{
	int file = module_file();
	long before[32];
	int grew;

	reload(file, 5);
	OK(in_use(before, 32) > 5);
	reload(file, RELOADS);
	/* Memory that other processes need for a moment is freed later, but a leak stays. */
	grew = leak(before);
	/*
	 * KASAN delays frees, so that freed objects count as used. On such a kernel kmemleak finds
	 * the leaks.
	 */
	if (!access("/sys/kernel/debug/kmemleak", F_OK))
		grew = -1;
	for (int i = 0; i < 200 && grew >= 0; i++) {
		usleep(100000);
		grew = leak(before);
	}
	EQ(grew, -1);
	one_job();
	printf("figure life.reloads %d loads\n", RELOADS);
}

/* The physical address of a page of this process. */
static uint64_t physical(const void *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	OK(fd >= 0);
	OK(pread(fd, &entry, 8, (off_t)((uintptr_t)p / 4096 * 8)) == 8);
	close(fd);
	OK(entry >> 63 && (entry & ((1ull << 55) - 1)));
	return (entry & ((1ull << 55) - 1)) * 4096;
}

static volatile void *resource(const char *device, int n, size_t *offset)
{
	char path[128];
	volatile void *p;
	uint64_t from = 0;
	FILE *f;
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource", device);
	f = fopen(path, "re");
	OK(f);
	for (int i = 0; i <= n; i++)
		OK(fscanf(f, "%lx %*x %*x", &from) == 1);
	fclose(f);
	*offset = from % 4096;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource%d", device, n);
	fd = open(path, O_RDWR | O_CLOEXEC);
	OK(fd >= 0);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	OK(p != MAP_FAILED);
	close(fd);
	return p;
}

/*
 * Fill the page of an earlier driver's job: the descriptor, the status at 1024, the commands at
 * 2048.
 */
static void predecessor_job(uint8_t *page, uint32_t seq, uint32_t levels, uint32_t tn)
{
	struct rivulet_desc *d = (struct rivulet_desc *)page;
	uint64_t at = physical(page);
	struct vm_prog p = {};

	vm_put_copy(&p, tn, 0, 3072, 0, 3584, 256 / tn);
	vm_put_end(&p);
	memcpy(page + 2048, p.code, p.count * RIVULET_INSN_BYTES);
	*d = (struct rivulet_desc){
		.magic = RIVULET_DESC_MAGIC, .size = sizeof(*d), .seq = seq, .client = 99,
		.flags = RIVULET_DESC_IRQ, .report_slot = RIVULET_NO_SLOT, .status = at + 1024,
		.region[0] = { at, 4096, 0, RIVULET_REGION_VALID | RIVULET_REGION_WRITE },
	};
	for (uint32_t i = 0; i < levels; i++)
		d->variant[i] = (struct rivulet_variant){ 2048, p.count * RIVULET_INSN_BYTES, 0 };
	d->crc = rivulet_crc32c(0, d, offsetof(struct rivulet_desc, crc));
}

/*
 * Leave the device as after a crash: a job runs, HOLD and LEVEL are pending, interrupts and DMA are
 * on.
 */
static uint32_t leave_a_mess(const char *device, uint8_t *page, uint32_t levels, uint32_t tn)
{
	size_t at, bell_at;
	volatile uint32_t *reg = resource(device, 2, &at), *bell = resource(device, 0, &bell_at);
	uint32_t seq = reg[RIVULET_REG_DONE_SEQ / 4] + 1;
	uint32_t slot = seq & 1 ? RIVULET_REG_SLOT1_ADDR_LO : RIVULET_REG_SLOT0_ADDR_LO;
	uint64_t address = physical(page);

	predecessor_job(page, seq, levels, tn);
	reg[RIVULET_REG_IRQ_ENABLE / 4] = 1;
	reg[slot / 4] = (uint32_t)address;
	reg[slot / 4 + 1] = (uint32_t)(address >> 32);
	__sync_synchronize();
	reg[slot / 4 + 2] = seq;
	bell[(bell_at + 12) / 4] = reg[RIVULET_REG_DOORBELL_PEER / 4];
	for (int i = 0; i < 500 && reg[RIVULET_REG_CURRENT_SEQ / 4] != seq; i++)
		usleep(10000);
	EQ(reg[RIVULET_REG_CURRENT_SEQ / 4], seq);
	reg[RIVULET_REG_HOLD_VALUE / 4] = 1;
	reg[RIVULET_REG_HOLD_REQ / 4]++;
	reg[RIVULET_REG_LEVEL_VALUE / 4] = RIVULET_LEVEL_FORCE;
	reg[RIVULET_REG_LEVEL_REQ / 4]++;
	bell[(bell_at + 12) / 4] = reg[RIVULET_REG_DOORBELL_PEER / 4];
	return reg[RIVULET_REG_EPOCH / 4];
}

static void dirty_predecessor(void)
{
	struct drm_rivulet_device info;
	struct vm_client c = vm_reporter();
	const char *device = bdf();
	uint8_t *page;
	uint32_t before;

	vm_info(c.fd, &info);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		    -1, 0);
	OK(page != MAP_FAILED && !mlock(page, 4096));
	vm_driver_file("unbind", device);
	vm_control("inject hang@+1");
	before = leave_a_mess(device, page, info.level_count, info.tn);
	vm_driver_file("bind", device);
	vm_await_node(true);
	c = vm_reporter();
	OK(vm_epoch(c.fd) > before);
	vm_client_submit(&c, 5);
	vm_client_good(&c);
	/* The reset discarded the job: the device has written no status for it. */
	EQ(((struct rivulet_status *)(page + 1024))->state, RIVULET_STATE_NONE);
	EQ(vm_control_stat("held"), 0);
}

const struct vm_test vm_life_tests[] = {
	{ "life_sleep",
	  "an idle device is held; sensors do not wake it, and a job wakes it at its level",
	  runtime_sleep },
	{ "life_stall",
	  "a device that stalls for 12 s while idle, or for 2 s "
	  "while it wakes, takes jobs afterwards",
	  stalled_sleep },
	{ "life_wake_lost",
	  "a device that does not answer the reset of its resume is "
	  "lost, and runtime PM keeps no error",
	  lost_at_wake },
	{ "life_unbind",
	  "the device is unbound and bound five times while three clients submit jobs",
	  unbind_load },
	{ "life_unbind_open",
	  "after an unbind the buffers of an open file stay readable "
	  "and shared, and are mapped for no device",
	  unbind_open },
	{ "life_cooling", "each state of the cooling device bounds the level at which jobs run",
	  cooling },
	{ "life_remove", "the device is removed from the bus while jobs run, and is found again",
	  pci_remove },
	{ "life_rmmod",
	  "the module stays loaded while there is a file or job, and unloads right after",
	  rmmod_load },
	{ "life_dirty", "probe ends the job, the hold and the level request of an earlier driver",
	  dirty_predecessor },
	{ "life_reload", "the module loads and unloads 100 times and leaves no memory behind",
	  reloads },
	{ 0 },
};

/* The 9p file system of 6.12 cannot resume, so that this test is the last one. */
const struct vm_test vm_suspend_tests[] = {
	{ "life_suspend",
	  "at a system sleep one job ends before and the next one runs after it, each once",
	  system_sleep },
	{ 0 },
};
