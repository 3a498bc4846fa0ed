// SPDX-License-Identifier: MIT
/* Recovery, more than once and in the midst of other things; one fault at a time is test_faults.c's. */
#include "vm.h"

#include <fcntl.h>
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
	vm_stay_awake();
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
		/* A job that the device never saw would be dropped, and the next one hang. */
		OK(vm_queue_holds(1));
		raise(9);
	}
	OK(pid > 0 && waitpid(pid, &status, 0) == pid);
	submit(&c, 2);
	good(&c);
}

/* Taken away under an open file with a job running: errors, no crash, and a fresh start. */
static void unbind(void)
{
	char name[64];
	struct client c = client();
	struct drm_rivulet_query q = {};
	int fence;

	vm_device_name(name);
	vm_control("inject slow@+1:60000");
	submit(&c, 1);
	fence = vm_sync_file(c.fd, c.sync);
	vm_driver_file("unbind", name);
	EQ(vm_file_result(fence), -ENODEV);
	FAILS(vm_ioctl(c.fd, DRM_IOCTL_RIVULET_QUERY, &q), ENODEV);
	vm_noise(c.to.map, 4096, 1);
	OK(!memcmp(c.from.map, c.to.map, 4096));
	vm_driver_file("bind", name);
	struct client d = client();

	submit(&d, 2);
	good(&d);
}

const struct vm_test vm_recovery_tests[] = {
	{ "recover_again", "recovery works more than once, in any order", twice },
	{ "recover_both", "two hanging jobs in the queue at once each end by themselves", both },
	{ "recover_killed", "a client killed while its job hangs holds up nobody for long", killed_while_hanging },
	{ "unbind", "unbinding under an open file with a job running gives errors, and binding again works", unbind },
	{ 0 },
};
