// SPDX-License-Identifier: MIT
/* Trace events, dumps, uevents, debugfs, sysfs and hwmon. */
#include "../kmod/harness/harness.h"
#include "vm.h"

#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TRACING "/sys/kernel/debug/tracing/"

/* The whole file, NUL terminated, in memory that is freed at the end of the test. */
static char *slurp(const char *path)
{
	size_t size = 1 << 20, n = 0;
	char *text = malloc(size);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t r;

	if (fd < 0)
		vm_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
	OK(text);
	while ((r = read(fd, text + n, size - 1 - n)) > 0)
		n += (size_t)r;
	OK(!r);
	close(fd);
	text[n] = '\0';
	return text;
}

static char *slurp_debugfs(const char *name)
{
	const char *path = vm_debugfs(name);

	OK(path);
	return slurp(path);
}

/** vm_reg() - a register's value, by debugfs */
uint32_t vm_reg(const char *name)
{
	char *text = slurp_debugfs("registers"), word[64];
	unsigned int offset, value;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (sscanf(line, "%x %63s %x", &offset, word, &value) == 3 && !strcmp(word, name))
			return value;
	vm_fail(__FILE__, __LINE__, "no register %s", name);
}

/** vm_await_running() - wait until the device has promoted the job that it was given */
void vm_await_running(void)
{
	for (int i = 0; i < VM_WAIT_MS / 10 && vm_reg("CURRENT_SEQ") == vm_reg("DONE_SEQ"); i++)
		usleep(10000);
	OK(vm_reg("CURRENT_SEQ") != vm_reg("DONE_SEQ"));
}

/* The number after "KEY" in @text, which must be there. */
static long long number(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	if (!at)
		vm_fail(__FILE__, __LINE__, "no \"%s\" in: %.400s", key, text);
	return strtoll(at + strlen(key), NULL, 0);
}

/* A copy of the first line of event @name that contains @key. */
static char *event(const char *trace, const char *name, const char *key)
{
	char *copy = strdup(trace), *line;

	OK(copy);
	for (line = strtok(copy, "\n"); line; line = strtok(NULL, "\n"))
		if (strstr(line, name) && strstr(line, key))
			return line;
	vm_fail(__FILE__, __LINE__, "no event %s with %s", name, key);
}

static void check_end(const char *trace, const char *name, const char *key,
		      const struct rivulet_status *st)
{
	char fence[64];
	char *end;

	end = event(trace, name, key);
	EQ(number(end, "level="), st->level);
	OK(sscanf(strstr(end, "fence="), "%63s", fence) == 1);
	EQ(number(event(trace, "rivulet_job_submit:", fence), "client="), number(end, "client="));
	EQ(number(event(trace, "rivulet_job_start:", fence), "seq="), number(end, "seq="));
	EQ(number(event(trace, "rivulet_job_done:", fence), "cycles="), (long long)st->cycles);
	EQ(number(event(trace, "rivulet_job_done:", fence), "variant="), st->variant);
}

static void trace(void)
{
	struct vm_client good = vm_reporter(), bad = vm_reporter();
	struct drm_rivulet_device info;
	struct vm_prog p = {};
	struct vm_job j;
	char *text, *line;

	vm_info(good.fd, &info);
	/*
	 * Task names are not recorded, because that would change the scheduler's code while it runs
	 * (tests/vm/README).
	 */
	vm_sysfs_write(TRACING "options/record-cmd", "0");
	vm_sysfs_write(TRACING "events/rivulet/enable", "1");
	vm_sysfs_write(TRACING "trace", "\n");
	vm_client_submit(&good, 1);
	EQ(vm_sync_result(good.fd, good.sync), 0);
	/* Reads 1 KiB of a slot of 512 bytes. */
	vm_put_copy(&p, info.tn, 1, 0, 2, 0, 1024 / info.tn);
	vm_put_end(&p);
	vm_job_init(&j);
	vm_job_code(&j, &bad.code, &p);
	vm_job_region(&j, 1, &bad.from, 0, 512, 0);
	vm_job_region(&j, 2, &bad.to, 0, 4096, DRM_RIVULET_REGION_WRITE);
	j.job.report_slot = 2;
	j.job.report_offset = 2048;
	vm_job_out(&j, bad.sync, 0);
	OK(!vm_submit(bad.fd, &j));
	EQ(vm_sync_result(bad.fd, bad.sync), -EIO);
	vm_sysfs_write(TRACING "events/rivulet/enable", "0");
	text = slurp(TRACING "trace");
	check_end(text, "rivulet_job_done:", " error=0", vm_report(&good));
	check_end(text, "rivulet_job_fault:", "", vm_report(&bad));
	line = event(text, "rivulet_job_fault:", "");
	EQ(number(line, "fault="), RIVULET_FAULT_SLOT_LIMIT);
	EQ(number(line, "slot="), 1);
	EQ(number(line, "offset="), (long long)vm_report(&bad)->fault_offset);
	EQ(number(line, "insn="), vm_report(&bad)->insn);
	EQ(number(event(text, "rivulet_job_done:", " error=-5"), "error="), -EIO);
}

/* Remove the dumps of earlier tests, because a device keeps one dump only. */
static void drop_dumps(void)
{
	const char *path;

	while ((path = vm_glob("/sys/class/devcoredump/devcd*/data"))) {
		vm_sysfs_write(path, "0");
		usleep(10000);
	}
}

static char *await_dump(void)
{
	const char *path = NULL;

	for (int i = 0; i < VM_WAIT_MS / 10 && !path; i++) {
		path = vm_glob("/sys/class/devcoredump/devcd*/data");
		if (!path)
			usleep(10000);
	}
	OK(path);
	return slurp(path);
}

/** vm_listen_events() - a socket that receives the kernel's uevents */
int vm_listen_events(void)
{
	struct sockaddr_nl a = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);

	OK(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

/** vm_await_event() - wait for a uevent of the driver with this reason */
void vm_await_event(int fd, const char *what, const char *reason)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char text[8192], want[64], why[64];
	ssize_t n;

	snprintf(want, sizeof(want), "RIVULET_EVENT=%s", what);
	snprintf(why, sizeof(why), "RIVULET_REASON=%s", reason);
	for (;;) {
		bool event = false, because = false;

		EQ(poll(&p, 1, VM_WAIT_MS), 1);
		n = recv(fd, text, sizeof(text) - 1, 0);
		OK(n > 0);
		text[n] = '\0';
		for (char *s = text; s < text + n; s += strlen(s) + 1) {
			event |= !strcmp(s, want);
			because |= !strcmp(s, why);
		}
		if (event && because)
			return;
	}
}

/* The dump of a job that hangs and answers ABORT has the status of the job. */
static void dump_hang(void)
{
	struct vm_client w = vm_reporter();
	char *text, slot[64];

	drop_dumps();
	vm_control("inject hang@+1");
	vm_client_submit(&w, 1);
	EQ(vm_sync_result(w.fd, w.sync), -ETIME);
	text = await_dump();
	OK(!strncmp(text, "rivulet coredump 1\nreason hang\n", 31));
	EQ((uint32_t)number(text, "\nseq "), vm_reg("DONE_SEQ"));
	EQ(number(text, "\nstate "), RIVULET_STATE_ABORTED);
	EQ(number(text, "\ninsn "), vm_report(&w)->insn);
	EQ(number(text, " INSN "), vm_report(&w)->insn);
	EQ(number(text, " MAGIC "), RIVULET_MAGIC);
	EQ(number(text, "\nreport_offset "), 2048);
	OK(number(text, "\nage_us ") >= 1000000);
	/* The dump lists slot 2 with 4096 writable bytes. */
	snprintf(slot, sizeof(slot), "\nregion 2 addr ");
	OK(strstr(text, slot) && strstr(strstr(text, slot), " limit 0x1000 "));
	EQ(number(strstr(text, slot), " flags ") & RIVULET_REGION_WRITE, RIVULET_REGION_WRITE);
	drop_dumps();
}

/*
 * The job ends by itself while the driver aborts it. It succeeds, its client is not blamed, and it
 * leaves no dump. The next hang leaves one.
 */
static void dump_outrun(void)
{
	struct vm_client c = vm_reporter();
	uint64_t resets;

	vm_stay_awake();
	resets = vm_epoch(c.fd);
	drop_dumps();
	vm_param("ban_hangs", "1");
	vm_control("inject outrun_abort@+1");
	vm_client_submit(&c, 1);
	vm_client_good(&c);
	usleep(300000);
	OK(!vm_glob("/sys/class/devcoredump/devcd*/data"));
	vm_client_submit(&c, 2);
	vm_client_good(&c);
	EQ(vm_epoch(c.fd), resets);
	vm_control("inject hang@+1");
	vm_client_submit(&c, 3);
	EQ(vm_sync_result(c.fd, c.sync), -ETIME);
	OK(strstr(await_dump(), "reason hang\n"));
	drop_dumps();
}

/*
 * The interrupt of the job's end comes while the driver decides whether the job hangs: after it has
 * read the state of the device, and before it takes the lock of the queue, if it takes that only
 * then. The job succeeds, its client is not blamed, and the next hang leaves a dump.
 *
 * The device begins no job for 5.5 s. The driver looks after timeout_ms, 2 s, and is delayed for
 * 5.5 s. The job ends in the delay, and a host that holds the machine up for 3 s does not change
 * that. The test cannot end the stall itself when the delay has begun, because the delayed
 * processor, which may be its own, takes no interrupts.
 */
static void dump_retired(void)
{
	struct harness_late late = { .function = "rvl_sched_timedout", .ms = 5500 };
	int harness = vm_harness();
	struct vm_client c = vm_reporter();

	vm_stay_awake();
	drop_dumps();
	vm_param("ban_hangs", "1");
	OK(!ioctl(harness, HARNESS_LATE, &late));
	vm_control("stall 5500");
	vm_client_submit(&c, 1);
	vm_client_good(&c);
	EQ(ioctl(harness, HARNESS_BEGUN), 1);
	close(harness);
	vm_client_submit(&c, 2);
	vm_client_good(&c);
	OK(!vm_glob("/sys/class/devcoredump/devcd*/data"));
	vm_control("inject hang@+1");
	vm_client_submit(&c, 3);
	EQ(vm_sync_result(c.fd, c.sync), -ETIME);
	OK(strstr(await_dump(), "reason hang\n"));
	drop_dumps();
}

/* A fault of the device leaves a dump for whoever maintains it. */
static void dump_device(void)
{
	static const char *const inject[] = { "inject internal@+1", "inject corrupt_status@+1" };
	struct vm_client c = vm_reporter();

	for (int i = 0; i < 2; i++) {
		drop_dumps();
		vm_control(inject[i]);
		vm_client_submit(&c, 1);
		EQ(vm_sync_result(c.fd, c.sync), -EIO);
		OK(strstr(await_dump(), "reason device\n"));
	}
	drop_dumps();
}

/* The dump of a job that ended by a reset has registers, but no status. */
static void dump_reset(void)
{
	struct vm_client w = vm_reporter();
	int events = vm_listen_events();
	char *text;

	drop_dumps();
	vm_control("inject stuck@+1");
	vm_client_submit(&w, 1);
	EQ(vm_sync_result(w.fd, w.sync), -ETIME);
	vm_await_event(events, "RESET", "hang");
	text = await_dump();
	EQ(number(text, "\nstate "), RIVULET_STATE_NONE);
	EQ(number(text, " INSN "), 7);
	EQ(number(text, " CURRENT_SEQ "), (uint32_t)number(text, "\nseq "));
	drop_dumps();
}

static void force_reset(void)
{
	struct vm_client w = vm_reporter(), other = vm_reporter();
	struct drm_rivulet_counters before, after;
	int events = vm_listen_events();

	vm_stay_awake();
	vm_counters(w.fd, &before);
	vm_control("inject slow@+1:60000");
	vm_client_submit(&w, 1);
	vm_await_running();
	vm_client_submit(&other, 1);
	vm_sysfs_write(vm_debugfs("force_reset"), "1");
	vm_await_event(events, "RESET", "forced");
	EQ(vm_sync_result(w.fd, w.sync), -ECANCELED);
	EQ(vm_sync_result(other.fd, other.sync), 0);
	OK(!memcmp(other.to.map, other.from.map, 1024));
	vm_counters(w.fd, &after);
	EQ(after.resets, before.resets + 1);
	vm_client_submit(&w, 1);
	EQ(vm_sync_result(w.fd, w.sync), 0);
	drop_dumps();
}

static void debugfs_files(void)
{
	struct vm_client w = vm_reporter();
	char *text, line[64];

	EQ(vm_reg("MAGIC"), RIVULET_MAGIC);
	EQ(vm_reg("DONE_SEQ"), vm_reg("CURRENT_SEQ"));
	snprintf(line, sizeof(line), " handle %u size 4096 ", w.to.handle);
	OK(strstr(slurp_debugfs("buffers"), line));
	vm_control("inject slow@+1:60000");
	vm_client_submit(&w, 1);
	vm_await_running();
	text = slurp_debugfs("queue");
	OK(strstr(text, "slot ") && strstr(text, " client "));
	vm_control("hurry");
	EQ(vm_sync_result(w.fd, w.sync), 0);
	OK(!strstr(slurp_debugfs("queue"), "slot "));
}

static void busy_time(void)
{
	struct vm_client w = vm_reporter();
	long long before, after;

	before = number(slurp(vm_sysfs("npu_busy_time_us")), "");
	vm_control("inject slow@+1:300");
	vm_client_submit(&w, 1);
	EQ(vm_sync_result(w.fd, w.sync), 0);
	after = number(slurp(vm_sysfs("npu_busy_time_us")), "");
	OK(after - before >= 300000);
	usleep(50000);
	EQ(number(slurp(vm_sysfs("npu_busy_time_us")), ""), after);
}

static void sensors(void)
{
	struct vm_client w = vm_reporter();
	struct drm_rivulet_device info;
	long long energy, power;

	vm_stay_awake();
	vm_info(w.fd, &info);
	energy = number(slurp(vm_sysfs("hwmon/hwmon*/energy1_input")), "");
	usleep(200000);
	vm_control("inject slow@+1:300");
	vm_client_submit(&w, 1);
	EQ(vm_sync_result(w.fd, w.sync), 0);
	OK(number(slurp(vm_sysfs("hwmon/hwmon*/energy1_input")), "") > energy);
	power = number(slurp(vm_sysfs("hwmon/hwmon*/power1_average")), "");
	/* The power is positive and below ten times the static power of the highest level. */
	OK(power > 0 && power < 10ll * info.level[info.level_count - 1].static_uw);
	vm_control("temp 61500");
	EQ(number(slurp(vm_sysfs("hwmon/hwmon*/temp1_input")), ""), 61500);
	vm_control("temp -5250");
	EQ(number(slurp(vm_sysfs("hwmon/hwmon*/temp1_input")), ""), -5250);
	vm_control("temp 25000");
}

#define JOULES	5000	/* in microjoule more than 32 bits hold */

/* energy1_input shows all bits of a counter of some thousand joules. */
static void much_energy(void)
{
	const char *pattern = "hwmon/hwmon*/energy1_input";
	long long before, after;
	char command[32];

	vm_stay_awake();
	before = number(slurp(vm_sysfs(pattern)), "");
	snprintf(command, sizeof(command), "consume %d", JOULES);
	vm_control(command);
	after = number(slurp(vm_sysfs(pattern)), "");
	OK(after >= before + JOULES * 1000000ll);
	/* The idle device uses less than 1,000 J between the two reads. */
	OK(after < before + (JOULES + 1000) * 1000000ll);
	/* The next average of the power begins after the consumption. */
	usleep(200000);
	slurp(vm_sysfs("hwmon/hwmon*/power1_average"));
}

const struct vm_test vm_observe_tests[] = {
	{ "trace", "the tracepoints submit, start, done and fault agree with the job's status",
	  trace },
	{ "dump_hang", "a hang leaves a dump with job, descriptor, regions, status and registers",
	  dump_hang },
	{ "dump_outrun",
	  "a job that ends while it is being aborted succeeds, without blame and without a dump",
	  dump_outrun },
	{ "dump_retired",
	  "a job that the interrupt retires while the driver judges it is not condemned",
	  dump_retired },
	{ "dump_device", "a fault of the device leaves a dump", dump_device },
	{ "dump_reset",
	  "a reset because of a job that ignores ABORT sends a uevent and leaves a dump",
	  dump_reset },
	{ "force_reset", "a forced reset cancels the running job only, and sends a uevent",
	  force_reset },
	{ "debugfs", "debugfs shows registers, queue and buffers", debugfs_files },
	{ "busy_time", "npu_busy_time_us counts while a job runs and at no other time", busy_time },
	{ "sensors_energy", "energy1_input counts beyond 32 bits of microjoule", much_energy },
	{ "sensors", "hwmon has a rising energy, a power in range, and the sensor's temperature",
	  sensors },
	{ 0 },
};
