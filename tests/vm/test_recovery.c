// SPDX-License-Identifier: MIT
/* The model misbehaves on purpose; the guilty job pays and its neighbour does not notice. */
#include "vm.h"

#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct client {
	int fd;
	struct vm_buf code, from, to;
	uint32_t sync;
};

static struct client client(void)
{
	struct client c = { .fd = vm_open() };

	c.code = vm_buf_new(c.fd, 4096);
	c.from = vm_buf_new(c.fd, 4096);
	c.to = vm_buf_new(c.fd, 4096);
	c.sync = vm_sync_new(c.fd);
	return c;
}

static void submit(struct client *c, uint64_t seed)
{
	struct vm_job j;

	vm_noise(c->from.map, 4096, seed);
	vm_copy_job(&j, &c->code, &c->from, &c->to, 4096);
	vm_job_out(&j, c->sync, 0);
	OK(!vm_submit(c->fd, &j));
}

static void good(struct client *c)
{
	EQ(vm_sync_result(c->fd, c->sync), 0);
	OK(!memcmp(c->to.map, c->from.map, 4096));
}

static uint64_t epoch(int fd)
{
	struct drm_rivulet_counters n;

	vm_counters(fd, &n);
	return n.epoch;
}

/* @what happens to the first of three jobs of two clients; @resets: how often the device is reset. */
static void misbehave(const char *what, int result, uint64_t resets)
{
	struct client guilty = client(), bystander = client();
	uint64_t before = epoch(guilty.fd);
	uint32_t later = vm_sync_new(guilty.fd);
	struct vm_job j;

	vm_control(what);
	submit(&guilty, 1);
	submit(&bystander, 2);
	vm_copy_job(&j, &guilty.code, &guilty.from, &guilty.to, 4096);
	vm_job_out(&j, later, 0);
	OK(!vm_submit(guilty.fd, &j));
	EQ(vm_sync_result(guilty.fd, guilty.sync), result);
	good(&bystander);
	EQ(vm_sync_result(guilty.fd, later), 0);
	OK(!memcmp(guilty.to.map, guilty.from.map, 4096));
	EQ(epoch(guilty.fd), before + resets);
}

static void hang(void)
{
	misbehave("inject hang@+1", -ETIME, 0);
}

static void stuck(void)
{
	misbehave("inject stuck@+1", -ETIME, 1);
}

static void twice(void)
{
	misbehave("inject hang@+1", -ETIME, 0);
	misbehave("inject stuck@+1", -ETIME, 1);
	misbehave("inject hang@+1", -ETIME, 0);
}

/* The one behind the hanging job hangs too. */
static void both(void)
{
	struct client a = client(), b = client(), c = client();

	vm_control("inject hang@+1,hang@+2");
	submit(&a, 1);
	submit(&b, 2);
	submit(&c, 3);
	EQ(vm_sync_result(a.fd, a.sync), -ETIME);
	EQ(vm_sync_result(b.fd, b.sync), -ETIME);
	good(&c);
}

static void lost_irq(void)
{
	misbehave("inject lost_irq@+1", 0, 0);
	/* Alone in the queue, no later interrupt makes up for it. */
	struct client c = client();

	vm_control("inject lost_irq@+1");
	submit(&c, 4);
	good(&c);
}

static void dup_irq(void)
{
	misbehave("inject dup_irq@+1", 0, 0);
}

static void corrupt_status(void)
{
	misbehave("inject corrupt_status@+1", -EIO, 0);
}

static void internal(void)
{
	misbehave("inject internal@+1", -EIO, 0);
}

/* Slow is not hanging. */
static void slow(void)
{
	misbehave("inject slow@+1:1500", 0, 0);
}

static void killed_while_hanging(void)
{
	struct client c = client();
	int status;
	pid_t pid;

	vm_control("inject hang@+1");
	pid = fork();
	if (pid == 0) {
		struct client mine = client();

		submit(&mine, 1);
		raise(9);
	}
	OK(pid > 0 && waitpid(pid, &status, 0) == pid);
	submit(&c, 2);
	good(&c);
}

static void driver_file(const char *what, const char *bdf)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/rivulet/%s", what);
	vm_sysfs_write(path, bdf);
}

/* Taken away under an open file with a job running: errors, no crash, and a fresh start. */
static void unbind(void)
{
	char link[128], target[512];
	struct client c = client();
	struct drm_rivulet_query q = {};
	ssize_t n;
	char *bdf;
	int fence;

	snprintf(link, sizeof(link), "/sys/class/%s/%s/device",
		 strstr(vm_node(), "/dri/") ? "drm" : "accel", strrchr(vm_node(), '/') + 1);
	n = readlink(link, target, sizeof(target) - 1);
	OK(n > 0);
	target[n] = '\0';
	bdf = basename(target);
	vm_control("inject slow@+1:1500");
	submit(&c, 1);
	fence = vm_sync_file(c.fd, c.sync);
	driver_file("unbind", bdf);
	EQ(vm_file_result(fence), -ENODEV);
	FAILS(vm_ioctl(c.fd, DRM_IOCTL_RIVULET_QUERY, &q), ENODEV);
	vm_noise(c.to.map, 4096, 1);
	OK(!memcmp(c.from.map, c.to.map, 4096));
	driver_file("bind", bdf);
	struct client d = client();

	submit(&d, 2);
	good(&d);
}

const struct vm_test vm_recovery_tests[] = {
	{ "recover_hang", "a hanging job is aborted as ETIME without a reset; the neighbour's job completes", hang },
	{ "recover_stuck", "a job that ignores ABORT costs one reset; the neighbour's job is issued again", stuck },
	{ "recover_again", "recovery works more than once, in any order", twice },
	{ "recover_both", "two hanging jobs in the queue at once each end by themselves", both },
	{ "recover_lost_irq", "a completion without interrupt is found, not called a hang", lost_irq },
	{ "recover_dup_irq", "an interrupt too many retires nothing twice", dup_irq },
	{ "recover_corrupt_status", "a status with a wrong checksum fails its job only", corrupt_status },
	{ "recover_internal", "a fault of the device fails its job only", internal },
	{ "recover_slow", "a slow job is not taken for a hanging one", slow },
	{ "recover_killed", "a client killed while its job hangs holds up nobody for long", killed_while_hanging },
	{ "unbind", "unbinding under an open file with a job running gives errors, and binding again works", unbind },
	{ 0 },
};

/* The device answers nothing any more. Nothing can follow but removal. */
static void dead(void)
{
	struct client c = client(), d = client();
	struct vm_job j;

	vm_control("inject dead@+1");
	submit(&c, 1);
	submit(&d, 2);
	EQ(vm_sync_result(c.fd, c.sync), -ETIME);
	EQ(vm_sync_result(d.fd, d.sync), -EIO);
	vm_copy_job(&j, &c.code, &c.from, &c.to, 4096);
	FAILS(vm_submit(c.fd, &j), EIO);
}

static void await_node(bool there)
{
	for (int i = 0; i < 400 && (vm_node() != NULL) != there; i++)
		usleep(50000);
	EQ(vm_node() != NULL, there);
}

/*
 * Take the NPU out of its slot and put a new one in: the model starts anew with the connection.
 * QEMU never forgets the name of a connection (@old, @new).
 */
static void replug(const char *old, const char *new)
{
	char remove[64], add[64], plug[96];
	bool removed = false;

	snprintf(remove, sizeof(remove), "chardev-remove %s", old);
	snprintf(add, sizeof(add), "chardev-add socket,id=%s,path=npu.sock", new);
	snprintf(plug, sizeof(plug),
		 "device_add ivshmem-doorbell,id=npu0,bus=rp0,chardev=%s,vectors=1", new);

	OK(vm_monitor("device_del npu0"));
	await_node(false);
	/* QEMU is done with it a little later than the kernel. */
	for (int i = 0; i < 200 && !removed; i++) {
		removed = vm_monitor(remove);
		usleep(removed ? 0 : 50000);
	}
	OK(removed);
	OK(vm_monitor(add));
	OK(vm_monitor(plug));
	await_node(true);
}

static void plug_again(void)
{
	replug("npu", "npu1");
	struct client c = client();

	submit(&c, 3);
	good(&c);
}

/* Pulled without warning: first the registers are gone, later the kernel is told. */
static void surprise(void)
{
	struct client c = client(), d = client();
	struct drm_rivulet_query q = {};
	struct vm_job j;
	int fence[2];

	vm_control("inject allones@+1");
	submit(&c, 1);
	fence[0] = vm_sync_file(c.fd, c.sync);
	submit(&d, 2);
	fence[1] = vm_sync_file(d.fd, d.sync);
	EQ(vm_file_result(fence[0]), -ENODEV);
	EQ(vm_file_result(fence[1]), -ENODEV);
	vm_copy_job(&j, &c.code, &c.from, &c.to, 4096);
	FAILS(vm_submit(c.fd, &j), ENODEV);
	replug("npu1", "npu2");
	FAILS(vm_ioctl(c.fd, DRM_IOCTL_RIVULET_QUERY, &q), ENODEV);
	vm_noise(d.to.map, 4096, 2);
	OK(!memcmp(d.from.map, d.to.map, 4096));
	struct client e = client();

	submit(&e, 4);
	good(&e);
}

const struct vm_test vm_last_tests[] = {
	{ "last_dead_device", "a device that answers neither ABORT nor RESET fails its jobs and refuses new ones", dead },
	{ "last_plug_again", "a lost device can be taken out and a new one plugged in", plug_again },
	{ "last_surprise", "a device pulled while jobs run ends them as ENODEV; memory stays, a new one works", surprise },
	{ 0 },
};
