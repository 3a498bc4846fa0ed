/* SPDX-License-Identifier: MIT */
/* A thread that runs programs, so that the device still answers ABORT, RESET and HOLD meanwhile. */
#ifndef RVL_SIM_WORKER_H
#define RVL_SIM_WORKER_H

#include <pthread.h>

#include "device.h"

/** struct rvl_worker - @lock guards @exec, @busy and @quit; one program at a time */
struct rvl_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;	/* a program to run, or quit */
	pthread_cond_t idle;	/* the program ended */
	struct rvl_exec *exec;	/* the program to run, which rvl_exec_brief() left unfinished */
	bool busy;
	bool quit;
	int done_fd;		/* eventfd, written after every program; the caller polls it */
};

/** rvl_worker_open() - start the thread; 0 or a negative errno */
int rvl_worker_open(struct rvl_worker *w);
/** rvl_worker_start() - struct rvl_runner start; runs a short program itself */
void rvl_worker_start(void *ctx, struct rvl_exec *x);
/** rvl_worker_wait() - until no program runs (set its abort flag before) */
void rvl_worker_wait(struct rvl_worker *w);
void rvl_worker_close(struct rvl_worker *w);

#endif
