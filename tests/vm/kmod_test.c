// SPDX-License-Identifier: MIT
/*
 * Tests of the kernel driver, from userspace. Each test is a child process, after which the driver
 * must hold no object of it. Output is TAP; "kmod_test PATTERN..." runs the tests whose name
 * contains one of the patterns.
 */
#include "clock.h"
#include "vm.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S		(180 * vm_slow())	/* of one test, to end what hangs */

struct vm_totals *vm_totals;

static int run(const struct vm_test *t)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(LIMIT_S);
		if (vm_node())
			vm_sysfs_write(vm_sysfs("power/control"), "auto");
		t->run();
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	if (WIFSIGNALED(status)) {
		printf("# killed by signal %d%s\n", WTERMSIG(status),
		       WTERMSIG(status) == SIGALRM ? " (too slow)" : "");
		return 1;
	}
	return WEXITSTATUS(status);
}

/*
 * Module parameters that tests may set. They are read before the first test and restored after
 * each.
 */
static struct {
	const char *name;
	char value[16];
} params[] = { { .name = "cap_ms" }, { .name = "ban_hangs" }, { .name = "user_mib" } };

static void read_params(void)
{
	char path[96];

	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
		snprintf(path, sizeof(path), "/sys/module/rivulet/parameters/%s", params[i].name);
		FILE *f = fopen(path, "re");

		OK(f && fgets(params[i].value, sizeof(params[i].value), f));
		fclose(f);
	}
}

static void restore_params(void)
{
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
		vm_param(params[i].name, params[i].value);
}

/* The scheduler frees jobs a moment after their fences. */
static int leaks(void)
{
	static const char *const names[] = { "buffers", "jobs", "clients" };
	int bad = 0;

	for (int i = 0; i < 3; i++) {
		long n = -1;

		for (int tries = 0; tries < VM_WAIT_MS / 10 && n; tries++) {
			n = vm_objects(names[i]);
			if (n)
				usleep(10000);
		}
		if (n)
			printf("# %ld %s left in the driver\n", n, names[i]);
		bad |= n != 0;
	}
	return bad;
}

static double seconds(void)
{
	return (double)clock_ns() / 1e9;
}

/* Is a test wanted by any of the patterns, or are there none? */
static bool wanted(const char *name, char **patterns)
{
	/* No test can run after this one, so that it runs only if its whole name is given. */
	if (!strcmp(name, vm_suspend_tests->name))
		return *patterns && !strcmp(name, *patterns);
	if (!*patterns)
		return true;
	while (*patterns && !strstr(name, *patterns))
		patterns++;
	return *patterns;
}

static const struct vm_test *const lists[] = {
	vm_buffer_tests, vm_contig_tests, vm_submit_tests, vm_prime_tests, vm_readonly_tests,
	vm_access_tests, vm_job_tests, vm_sync_tests, vm_swsync_tests, vm_client_tests,
	vm_isolation_tests, vm_recovery_tests, vm_fault_tests, vm_observe_tests, vm_platform_tests,
	vm_probe_tests, vm_life_tests, vm_last_tests, vm_suspend_tests,
};

int main(int argc __attribute__((unused)), char **argv)
{
	unsigned int n = 0, failed = 0, skipped = 0;

	/* Messages of failures belong to the TAP output. */
	dup2(STDOUT_FILENO, STDERR_FILENO);
	if (!vm_node()) {
		printf("not ok 1 - node: no node of the rivulet driver\n# 0 passed, 1 failed\n");
		return EXIT_FAILURE;
	}
	vm_totals = mmap(NULL, sizeof(*vm_totals), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (vm_totals == MAP_FAILED)
		return EXIT_FAILURE;
	read_params();
	for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++) {
		if (lists[l] == vm_platform_tests && vm_on_pci())
			continue;
		for (const struct vm_test *t = lists[l]; t->name; t++) {
			double start = seconds();
			int result;

			if (!wanted(t->name, argv + 1))
				continue;
			result = run(t);
			restore_params();
			if (result != VM_SKIPPED && leaks())
				result = 1;
			failed += result && result != VM_SKIPPED;
			skipped += result == VM_SKIPPED;
			printf("%s %u - %s: %s # %s%.1f s\n",
			       result && result != VM_SKIPPED ? "not ok" : "ok", ++n, t->name,
			       t->proves, result == VM_SKIPPED ? "SKIP " : "", seconds() - start);
		}
	}
	printf("1..%u\n# %u passed, %u failed, %u skipped\n", n, n - failed - skipped, failed,
	       skipped);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
