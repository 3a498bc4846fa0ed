// SPDX-License-Identifier: MIT
/*
 * Tests of what only a device of the Device Tree has: clock, supply, reset line, power domain and
 * polling. The test board (tests/kmod/board) records the requests that it gets.
 */
#include "vm.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENTS_FILE	"/sys/kernel/debug/rivulet-board/events"
#define EVENTS		4096

struct event {
	char what[16];
	long value;
	int held;
};

/* Read all recorded events. Returns their number. */
static int read_events(struct event *e)
{
	FILE *f = fopen(EVENTS_FILE, "re");
	int n = 0;

	OK(f);
	while (n < EVENTS && fscanf(f, "%15s %ld held %d", e[n].what, &e[n].value, &e[n].held) == 3)
		n++;
	OK(feof(f));
	fclose(f);
	return n;
}

/* The last value of @what before event @end, or -1. */
static long last(const struct event *e, int end, const char *what)
{
	while (--end >= 0)
		if (!strcmp(e[end].what, what))
			return e[end].value;
	return -1;
}

/*
 * Wait for the rate, because the driver requests the level before the clock has changed. Returns
 * the number of events recorded by then.
 */
static int await_rate(struct event *e, uint64_t hz)
{
	int n = read_events(e);

	for (int i = 0; i < VM_WAIT_MS / 10 && last(e, n, "rate") != (long)hz; i++) {
		usleep(10000);
		n = read_events(e);
	}
	EQ(last(e, n, "rate"), hz);
	return n;
}

/*
 * At every level the clock has the level's rate and the supply its voltage, and no rate was changed
 * under a job.
 */
static void clocked(void)
{
	static struct event e[EVENTS];
	struct drm_rivulet_device info;
	int fd = vm_open(), from = read_events(e), n = from, rates = 0;

	/* A device that sleeps would change its rate with the next job only. */
	vm_stay_awake();
	vm_info(fd, &info);
	for (uint32_t k = 0; k < 2 * info.level_count; k++) {
		uint32_t l = k % 2 ? info.level_count - 1 - k / 2 : k / 2;

		vm_pin_level(fd, l);
		n = await_rate(e, info.level[l].hz);
		EQ(last(e, n, "volt"), info.level[l].microvolt);
	}
	vm_unpin_level(fd);
	for (int i = from; i < n; i++) {
		if (strcmp(e[i].what, "rate"))
			continue;
		rates++;
		EQ(e[i].held, 1);
		/* When the rate changes, the voltage suffices for the new rate. */
		for (uint32_t l = 0; l < info.level_count; l++)
			if ((long)info.level[l].hz == e[i].value)
				OK(last(e, i, "volt") >= info.level[l].microvolt);
	}
	OK(rates >= (int)info.level_count);
}

static void submit_copy(int fd, struct vm_buf *b, uint32_t sync)
{
	struct vm_job j;

	vm_noise(b[1].map, 4096, 5);
	vm_copy_job(&j, &b[0], &b[1], &b[2], 4096);
	vm_job_out(&j, sync, 0);
	OK(!vm_submit(fd, &j));
}

static bool running_now(void)
{
	return vm_reg("CURRENT_SEQ") != vm_reg("DONE_SEQ");
}

/*
 * Request the highest level while a job runs at the lowest. Returns whether the job was running for
 * all of that time.
 */
static bool request_meanwhile(int fd, struct vm_buf *b, uint32_t sync,
			  const struct drm_rivulet_device *info)
{
	static struct event e[EVENTS];
	bool running;
	int from, n;

	vm_pin_level(fd, 0);
	from = await_rate(e, info->level[0].hz);
	vm_control("inject slow@+1:3000");
	submit_copy(fd, b, sync);
	while (!running_now() && vm_sync_wait(fd, sync, 0, 10))
		;
	/* The write returns when the driver has ended its first attempts. */
	vm_limit_level(info, info->level_count - 1, info->level_count - 1);
	n = read_events(e);
	running = running_now();
	for (int i = from; running && i < n; i++)
		OK(strcmp(e[i].what, "rate"));
	EQ(vm_sync_result(fd, sync), 0);
	OK(!memcmp(b[1].map, b[2].map, 4096));
	return running;
}

/*
 * A job that is longer than the driver waits for a HOLD keeps level and clock, and the HOLD is
 * released.
 */
static void patient(void)
{
	struct drm_rivulet_device info;
	int fd = vm_open(), tries = 0;
	struct vm_buf b[3];
	uint32_t sync = vm_sync_new(fd);

	for (int i = 0; i < 3; i++)
		b[i] = vm_buf_new(fd, 4096);
	vm_stay_awake();
	vm_info(fd, &info);
	/* On a loaded machine the job may end before the request. */
	while (!request_meanwhile(fd, b, sync, &info))
		OK(++tries < 5);
	vm_pin_level(fd, info.level_count - 1);
	vm_unpin_level(fd);
	submit_copy(fd, b, sync);
	EQ(vm_sync_result(fd, sync), 0);
}

/*
 * Stop devfreq's timer, or start it again. Without it devfreq requests a level only when a limit is
 * written.
 */
static void stop_devfreq(bool stop)
{
	char name[64], path[160];

	vm_device_name(name);
	snprintf(path, sizeof(path), "/sys/class/devfreq/%s/polling_interval", name);
	vm_sysfs_write(path, stop ? "0" : "50");
}

/*
 * A level is requested once, as by the governor `userspace`, while a long job runs. The device
 * changes to it after the job.
 */
static void requested_once(void)
{
	static struct event e[EVENTS];
	struct drm_rivulet_device info;
	int fd = vm_open(), tries = 0;
	struct vm_buf b[3];
	uint32_t sync = vm_sync_new(fd);

	for (int i = 0; i < 3; i++)
		b[i] = vm_buf_new(fd, 4096);
	vm_stay_awake();
	vm_info(fd, &info);
	stop_devfreq(true);
	while (!request_meanwhile(fd, b, sync, &info))
		OK(++tries < 5);
	await_rate(e, info.level[info.level_count - 1].hz);
	EQ(vm_level(fd), info.level_count - 1);
	stop_devfreq(false);
	vm_unpin_level(fd);
}

/* How often the reset line was pulsed in some events. It must be released afterwards. */
static int pulses(const struct event *e, int from, int to)
{
	int n = 0;

	for (int i = from; i < to; i++)
		n += !strcmp(e[i].what, "reset") && e[i].value;
	EQ(last(e, to, "reset"), 0);
	return n;
}

/*
 * When the driver binds, it enables the clock and pulses the reset line before it accesses a
 * register. When it unbinds, it pulses the reset line again and disables all.
 */
static void powered(void)
{
	static struct event e[EVENTS];
	char name[64];
	int from, n;

	vm_device_name(name);
	from = read_events(e);
	vm_driver_file("unbind", name);
	n = read_events(e);
	OK(n > from);
	EQ(last(e, n, "clock"), 0);
	/* The core turns the domain off asynchronously. */
	for (int i = 0; i < VM_WAIT_MS / 10 && last(e, n, "power"); i++) {
		usleep(10000);
		n = read_events(e);
	}
	EQ(last(e, n, "power"), 0);
	OK(pulses(e, from, n));
	from = n;
	vm_driver_file("bind", name);
	n = read_events(e);
	OK(n >= from + 4);
	OK(!strcmp(e[from].what, "power") && e[from].value == 1);
	OK(!strcmp(e[from + 1].what, "clock") && e[from + 1].value == 1);
	OK(!strcmp(e[from + 2].what, "reset") && e[from + 2].value == 1);
	OK(!strcmp(e[from + 3].what, "reset") && e[from + 3].value == 0);
}

static bool timer_runs(void)
{
	static char line[400];
	FILE *f = fopen("/proc/timer_list", "re");
	bool found = false;

	OK(f);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, "rvl_tick") != NULL;
	fclose(f);
	return found;
}

/* Was the timer seen while a job ran? The timer is in no list while its handler runs. */
static bool timer_seen(int fd, struct vm_buf *b, uint32_t sync)
{
	bool seen = false;

	vm_control("inject slow@+1:500");
	submit_copy(fd, b, sync);
	while (vm_sync_wait(fd, sync, 0, 10))
		seen |= timer_runs();
	EQ(vm_sync_result(fd, sync), 0);
	return seen;
}

/*
 * With an interrupt the timer never runs. Without one it runs while there is a job, and the device
 * raises no interrupt.
 */
static void polled(void)
{
	bool polls = vm_polled();
	long before = vm_control_stat("irqs");
	int fd = vm_open(), tries = 0;
	struct vm_buf b[3];
	uint32_t sync = vm_sync_new(fd);

	for (int i = 0; i < 3; i++)
		b[i] = vm_buf_new(fd, 4096);
	while (timer_seen(fd, b, sync) != polls)
		OK(polls && ++tries < 20);
	for (int i = 0; i < VM_WAIT_MS / 10 && timer_runs(); i++)
		usleep(10000);
	OK(!timer_runs());
	OK(polls ? vm_control_stat("irqs") == 0 : vm_control_stat("irqs") > before);
}

/* Write to a file of the test board. */
static void board_file(const char *name, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/rivulet-board/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	OK(fd >= 0);
	EQ(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* Request the highest level in a child, whose write returns when the clock has its rate. */
static pid_t ask_highest(const struct drm_rivulet_device *info)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	OK(pid >= 0);
	if (!pid) {
		vm_limit_level(info, info->level_count - 1, info->level_count - 1);
		_exit(0);
	}
	return pid;
}

/*
 * A change of the clock's rate takes longer than a job may wait. The job's fence does not wait for
 * the clock: it signals as cancelled while the change is still under way, and later jobs run.
 */
static void rate_blocked(void)
{
	static struct event e[EVENTS];
	struct drm_rivulet_device info;
	int fd = vm_open(), status;
	struct vm_buf b[3];
	uint32_t sync = vm_sync_new(fd);
	pid_t pid;

	for (int i = 0; i < 3; i++)
		b[i] = vm_buf_new(fd, 4096);
	vm_stay_awake();
	vm_info(fd, &info);
	vm_pin_level(fd, 0);
	await_rate(e, info.level[0].hz);
	board_file("rate_delay_ms", "15000");
	pid = ask_highest(&info);
	for (int i = 0; i < VM_WAIT_MS / 10 && !vm_reg("HELD"); i++)
		usleep(10000);
	OK(vm_reg("HELD"));
	submit_copy(fd, b, sync);
	EQ(vm_sync_result(fd, sync), -ECANCELED);
	EQ(last(e, read_events(e), "rate"), info.level[0].hz);
	board_file("rate_delay_ms", "0");
	OK(waitpid(pid, &status, 0) == pid);
	EQ(status, 0);
	await_rate(e, info.level[info.level_count - 1].hz);
	submit_copy(fd, b, sync);
	EQ(vm_sync_result(fd, sync), 0);
	OK(!memcmp(b[1].map, b[2].map, 4096));
	vm_unpin_level(fd);
}

/* Allow runtime sleep, and wait until the device is suspended. */
static void await_suspended(void)
{
	char state[32] = "";

	vm_sysfs_write(vm_sysfs("power/control"), "auto");
	for (int i = 0; i < VM_WAIT_MS / 10 && strcmp(state, "suspended\n"); i++) {
		int status = open(vm_sysfs("power/runtime_status"), O_RDONLY | O_CLOEXEC);

		OK(status >= 0);
		memset(state, 0, sizeof(state));
		OK(read(status, state, sizeof(state) - 1) > 0);
		close(status);
		usleep(10000);
	}
	OK(!strcmp(state, "suspended\n"));
}

/* A level is requested while the device sleeps: the clock changes when a job wakes the device. */
static void asked_asleep(void)
{
	static struct event e[EVENTS];
	struct drm_rivulet_device info;
	struct vm_buf b[3];
	uint32_t sync;
	int fd, from, n;

	vm_may_sleep = true;
	fd = vm_open();
	sync = vm_sync_new(fd);
	for (int i = 0; i < 3; i++)
		b[i] = vm_buf_new(fd, 4096);
	vm_info(fd, &info);
	vm_limit_level(&info, 0, 0);
	submit_copy(fd, b, sync);
	EQ(vm_sync_result(fd, sync), 0);
	await_rate(e, info.level[0].hz);
	await_suspended();
	from = read_events(e);
	vm_limit_level(&info, info.level_count - 1, info.level_count - 1);
	n = read_events(e);
	for (int i = from; i < n; i++)
		OK(strcmp(e[i].what, "rate"));
	submit_copy(fd, b, sync);
	EQ(vm_sync_result(fd, sync), 0);
	await_rate(e, info.level[info.level_count - 1].hz);
	vm_limit_level(&info, 0, info.level_count - 1);
}

/*
 * The clock cannot be enabled when a job wakes the device: the job fails, and jobs run after
 * another binding.
 */
static void clock_fails(void)
{
	char name[64];
	struct vm_buf b[3];
	uint32_t sync;
	int fd;

	vm_may_sleep = true;
	fd = vm_open();
	sync = vm_sync_new(fd);
	for (int i = 0; i < 3; i++)
		b[i] = vm_buf_new(fd, 4096);
	await_suspended();
	board_file("clock_fails", "1");
	submit_copy(fd, b, sync);
	EQ(vm_sync_result(fd, sync), -EIO);
	board_file("clock_fails", "0");
	vm_device_name(name);
	vm_driver_file("unbind", name);
	vm_driver_file("bind", name);
	vm_await_node(true);
	fd = vm_open();
	sync = vm_sync_new(fd);
	for (int i = 0; i < 3; i++)
		b[i] = vm_buf_new(fd, 4096);
	submit_copy(fd, b, sync);
	EQ(vm_sync_result(fd, sync), 0);
}

/* The references to the module, which files, jobs and quarantines hold. */
static long module_users(void)
{
	return vm_number("/sys/module/rivulet/refcnt", "");
}

static void await_objects(const char *name, long count)
{
	for (int i = 0; i < VM_WAIT_MS / 10 && vm_objects(name) != count; i++)
		usleep(10000);
	EQ(vm_objects(name), count);
}

/* Close a file and unmap @count of its buffers, each of which keeps the file. */
static void close_all(int fd, const struct vm_buf *b, int count)
{
	for (int i = 0; i < count; i++)
		OK(!munmap(b[i].map, b[i].size));
	close(fd);
}

/*
 * Lose the device while it has two jobs, with a reset line that cannot be asserted. The jobs'
 * fences end, but their buffers, three each, stay pinned although their file is closed: the device
 * may still write them.
 */
static void lose_amid_jobs(void)
{
	int fd = vm_open();
	uint32_t first = vm_sync_new(fd), second = vm_sync_new(fd);
	struct vm_buf b[6];

	for (int i = 0; i < 6; i++)
		b[i] = vm_buf_new(fd, 65536);
	vm_stay_awake();
	board_file("reset_fails", "1");
	vm_control("inject slow@+1:60000");
	submit_copy(fd, b, first);
	submit_copy(fd, b + 3, second);
	vm_await_running();
	OK(vm_queue_holds(2));
	vm_control("stall 600000");
	/* The first job hung; the device was lost when its reset was tried. */
	EQ(vm_sync_result(fd, first), -ETIME);
	EQ(vm_sync_result(fd, second), -EIO);
	close_all(fd, b, 6);
	await_objects("jobs", 0);
	/* The buffers' reservations keep the jobs' fences, which keep the client. */
	EQ(vm_objects("buffers"), 6);
	OK(module_users() > 0);
}

static void await_unused(void)
{
	for (int i = 0; i < VM_WAIT_MS / 10 && module_users(); i++)
		usleep(10000);
	EQ(module_users(), 0);
}

static void bind_again(const char *name)
{
	int fd;
	struct vm_buf b[3];
	uint32_t sync;

	board_file("reset_fails", "0");
	vm_driver_file("bind", name);
	vm_await_node(true);
	await_unused();
	fd = vm_open();
	sync = vm_sync_new(fd);
	for (int i = 0; i < 3; i++)
		b[i] = vm_buf_new(fd, 4096);
	submit_copy(fd, b, sync);
	EQ(vm_sync_result(fd, sync), 0);
	close_all(fd, b, 3);
	await_objects("buffers", 0);
}

/* The buffers are released when the device answers the RESET of its unbind. */
static void quarantined(void)
{
	char name[64];

	vm_device_name(name);
	lose_amid_jobs();
	vm_control("stall 0");
	vm_driver_file("unbind", name);
	await_unused();
	bind_again(name);
}

/*
 * The device answers no RESET while it is unbound: the buffers are released when it is bound again
 * and answers.
 */
static void quarantined_unbound(void)
{
	char name[64];

	vm_device_name(name);
	lose_amid_jobs();
	vm_driver_file("unbind", name);
	OK(module_users() > 0);
	vm_control("stall 0");
	bind_again(name);
}

/* The errno of binding the driver to a device, or 0. */
static int bind_error(const char *device)
{
	int fd = open("/sys/bus/platform/drivers/rivulet/bind", O_WRONLY | O_CLOEXEC), error = 0;

	OK(fd >= 0);
	if (write(fd, device, strlen(device)) < 0)
		error = errno;
	close(fd);
	return error;
}

/* The FPGA region is programmed before the board gets any other request for the NPU. */
static void programmed(void)
{
	static struct event e[EVENTS];
	int n = read_events(e);

	OK(n > 1);
	OK(!strcmp(e[0].what, "program"));
	EQ(e[0].value, 4096);
	OK(last(e, n, "clock") != -1);
}

/* Where the logic is not configured, binding fails, and neither clock nor reset line is used. */
static void unconfigured(void)
{
	static struct event e[EVENTS];
	struct vm_client c;
	char name[64];
	int from, n;

	vm_device_name(name);
	vm_driver_file("unbind", name);
	board_file("configured", "0");
	from = read_events(e);
	EQ(bind_error(name), ENODEV);
	n = read_events(e);
	for (int i = from; i < n; i++)
		OK(strcmp(e[i].what, "clock") && strcmp(e[i].what, "reset"));
	board_file("configured", "1");
	vm_driver_file("bind", name);
	c = vm_client();
	vm_client_submit(&c, 1);
	vm_client_good(&c);
}

/* Wait until the device has the highest level (@top), or until it has another one. */
static void await_top(int fd, bool top)
{
	struct drm_rivulet_device info;

	vm_info(fd, &info);
	for (int i = 0; i < VM_WAIT_MS / 10; i++) {
		if ((vm_level(fd) == info.level_count - 1) == top)
			return;
		usleep(10000);
	}
	vm_fail(__FILE__, __LINE__, "the level is %u", vm_level(fd));
}

/*
 * The thermal zone of the Device Tree reads the device's sensor, and lowers its level while the
 * device is too hot.
 */
static void thermal(void)
{
	int fd = vm_open();
	struct drm_rivulet_device info;

	vm_stay_awake();
	vm_info(fd, &info);
	vm_control("temp 25000");
	vm_pin_level(fd, info.level_count - 1);
	vm_control("temp 95000");
	await_top(fd, false);
	vm_control("temp 25000");
	await_top(fd, true);
	vm_unpin_level(fd);
}

const struct vm_test vm_platform_tests[] = {
	{ "platform_clock",
	  "clock and supply follow the level, and change only while the device is held",
	  clocked },
	{ "platform_patient", "the clock does not change during a long job, but after it",
	  patient },
	{ "platform_asked_once",
	  "a level that is requested once, during a long job, is in force after it",
	  requested_once },
	{ "platform_rate",
	  "no fence waits for the clock: a job behind a change of "
	  "rate that takes too long is cancelled",
	  rate_blocked },
	{ "platform_asked_asleep",
	  "the clock of a device that sleeps changes when a job wakes the device", asked_asleep },
	{ "platform_clock_fails", "a clock that cannot be enabled fails the job, not runtime PM",
	  clock_fails },
	{ "platform_quarantine",
	  "buffers that a lost device may still write stay pinned until it answers a reset",
	  quarantined },
	{ "platform_quarantine_unbound",
	  "they stay pinned after an unbind too, until the device is bound again and answers",
	  quarantined_unbound },
	{ "platform_power",
	  "binding enables power domain, clock and reset line in this "
	  "order; unbinding undoes it in reverse",
	  powered },
	{ "platform_programmed", "the FPGA region programs the logic before the NPU is probed",
	  programmed },
	{ "platform_unconfigured",
	  "the driver does not access logic that is not configured, and the binding fails",
	  unconfigured },
	{ "platform_thermal",
	  "a thermal zone of the tree reads the sensor and lowers the level while it is too hot",
	  thermal },
	{ "platform_polled", "the timer that replaces the interrupt runs only while there is a job",
	  polled },
	{ 0 },
};
