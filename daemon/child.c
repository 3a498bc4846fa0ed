// SPDX-License-Identifier: MIT
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include "util.h"

/* Duplicates above the numbers that dup2() assigns in the process, so that none is overwritten. */
static int dup_high(const int *from, int n, int *to)
{
	for (int i = 0; i < n; i++) {
		to[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16);
		if (to[i] < 0)
			return -errno;
	}
	return 0;
}

static int file_actions(posix_spawn_file_actions_t *fa, const int *fd, int n)
{
	int r = posix_spawn_file_actions_addopen(fa, 0, "/dev/null", O_RDWR, 0);

	r = r ?: posix_spawn_file_actions_adddup2(fa, 0, 1);
	for (int i = 0; i < n; i++)
		r = r ?: posix_spawn_file_actions_adddup2(fa, fd[i], RVL_CHILD_FD + i);
	return r ?: posix_spawn_file_actions_addclosefrom_np(fa, RVL_CHILD_FD + n);
}

static int spawn_with(const char *exe, const char *mode, const int *fd, int n, pid_t *pid)
{
	char *const argv[] = { (char *)"rivuletd", (char *)mode, NULL };
	char *const envp[] = { NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	r = file_actions(&fa, fd, n);
	r = r ?: posix_spawn(pid, exe, &fa, &attr, argv, envp);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&attr);
	return -r;
}

int rvl_child_start(const char *exe, const char *mode, const int *fd, int n, pid_t *pid)
{
	int high[RVL_CHILD_FDS] = { -1, -1, -1 };
	int r = dup_high(fd, n, high);

	r = r ?: spawn_with(exe, mode, high, n, pid);
	for (int i = 0; i < n; i++)
		rvl_close(high[i]);
	return r;
}
