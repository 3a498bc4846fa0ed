/* SPDX-License-Identifier: MIT */
/* Starts this program as one of its own helper processes, `rivuletd --worker`, `--receiver` or `--end`. */
#ifndef RVL_CHILD_H
#define RVL_CHILD_H

#include <sys/types.h>

#define RVL_CHILD_FD	3	/* number of the first descriptor in the process */
#define RVL_CHILD_FDS	3

/**
 * rvl_child_start() - start @exe with the one argument @mode
 * The process has /dev/null as standard input and output, this one's standard error, @fd[0..n)
 * and no other descriptor; no environment, and no signal blocked or ignored. @fd stays the
 * caller's.
 */
int rvl_child_start(const char *exe, const char *mode, const int *fd, int n, pid_t *pid);

#endif
