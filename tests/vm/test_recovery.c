// SPDX-License-Identifier: MIT
/* Several faults at once or in a row. test_faults.c has one fault at a time. */
#include "vm.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * @what happens to the first of three jobs of two clients; @resets: how often the device is reset.
 */
static void misbehave(const char *what, int result, uint64_t resets)
{
	struct vm_client guilty = vm_client(), bystander = vm_client();
	vm_stay_awake();
	uint64_t before = vm_epoch(guilty.fd);
	uint32_t later = vm_sync_new(guilty.fd);
	struct vm_job j;

	vm_control(what);
	vm_client_submit(&guilty, 1);
	vm_client_submit(&bystander, 2);
	vm_copy_job(&j, &guilty.code, &guilty.from, &guilty.to, 4096);
	vm_job_out(&j, later, 0);
	OK(!vm_submit(guilty.fd, &j));
	EQ(vm_sync_result(guilty.fd, guilty.sync), result);
	vm_client_good(&bystander);
	EQ(vm_sync_result(guilty.fd, later), 0);
	OK(!memcmp(guilty.to.map, guilty.from.map, 4096));
	EQ(vm_epoch(guilty.fd), before + resets);
}

static void twice(void)
{
	misbehave("inject hang@+1", -ETIME, 0);
	misbehave("inject stuck@+1", -ETIME, 1);
	misbehave("inject hang@+1", -ETIME, 0);
}

/* The job behind a hanging job hangs too. */
static void both(void)
{
	struct vm_client a = vm_client(), b = vm_client(), c = vm_client();

	vm_control("inject hang@+1,hang@+2");
	vm_client_submit(&a, 1);
	vm_client_submit(&b, 2);
	vm_client_submit(&c, 3);
	EQ(vm_sync_result(a.fd, a.sync), -ETIME);
	EQ(vm_sync_result(b.fd, b.sync), -ETIME);
	vm_client_good(&c);
}

static void killed_while_hanging(void)
{
	struct vm_client c = vm_client();
	int status;
	pid_t pid;

	vm_control("inject hang@+1");
	pid = fork();
	if (pid == 0) {
		struct vm_client mine = vm_client();

		vm_client_submit(&mine, 1);
		/*
		 * A job that is still in the scheduler would be cancelled, and the next job would
		 * hang instead.
		 */
		OK(vm_queue_holds(1));
		raise(9);
	}
	OK(pid > 0 && waitpid(pid, &status, 0) == pid);
	vm_client_submit(&c, 2);
	vm_client_good(&c);
}

/*
 * The device is unbound while a file is open and a job runs: calls fail, and the next binding
 * works.
 */
static void unbind(void)
{
	char name[64];
	struct vm_client c = vm_client();
	struct drm_rivulet_query q = {};
	int fence;

	vm_device_name(name);
	vm_control("inject slow@+1:60000");
	vm_client_submit(&c, 1);
	fence = vm_sync_file(c.fd, c.sync);
	vm_driver_file("unbind", name);
	EQ(vm_file_result(fence), -ENODEV);
	FAILS(vm_ioctl(c.fd, DRM_IOCTL_RIVULET_QUERY, &q), ENODEV);
	vm_noise(c.to.map, 4096, 1);
	OK(!memcmp(c.from.map, c.to.map, 4096));
	vm_driver_file("bind", name);
	struct vm_client d = vm_client();

	vm_client_submit(&d, 2);
	vm_client_good(&d);
}

/*
 * Was @lock the next one that was taken in a fence-signalling path? Lockdep follows dependencies
 * from there only if no recursive read lock, such as that of SRCU, lies between.
 */
static bool first_in_signalling(const char *lock)
{
	FILE *f = fopen("/proc/lockdep_chains", "re");
	char line[256], name[128];
	bool signalling = false, found = false;

	if (!f)
		vm_skip("no PROVE_LOCKING in this kernel");
	while (fgets(line, sizeof(line), f) && !found) {
		if (sscanf(line, "[%*[^]]] %127s", name) != 1)
			name[0] = '\0';
		found = signalling && !strcmp(name, lock);
		signalling = !strcmp(name, "dma_fence_map");
	}
	fclose(f);
	return found;
}

/*
 * The driver marks run_job and recovery for lockdep, which then reports an allocation there, or a
 * lock under which others allocate. Lockdep knows a lock from its first use on.
 */
static void annotated(void)
{
	struct vm_client c = vm_client();

	vm_control("inject hang@+1");
	vm_client_submit(&c, 1);
	EQ(vm_sync_result(c.fd, c.sync), -ETIME);
	/* The locks that run_job and recovery take first. */
	OK(first_in_signalling("&rdev->lock"));
	OK(first_in_signalling("&rdev->request_lock"));
}

const struct vm_test vm_recovery_tests[] = {
	{ "recover_again", "recovery works several times, with and without a reset", twice },
	{ "recover_both", "of two hanging jobs in the queue each ends as ETIME", both },
	{ "recover_killed",
	  "a client may be killed while its job hangs: the job is aborted, and others go on",
	  killed_while_hanging },
	{ "recover_annotated",
	  "lockdep takes run_job and recovery for parts of the fence-signalling path", annotated },
	{ "unbind", "an unbind while a job runs gives errors, and a later bind works", unbind },
	{ 0 },
};
