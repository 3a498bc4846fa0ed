// SPDX-License-Identifier: MIT
#include "worker.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *work(void *arg)
{
	struct rvl_worker *w = arg;

	pthread_mutex_lock(&w->lock);
	while (!w->quit) {
		struct rvl_exec *x = w->exec;

		if (!x) {
			pthread_cond_wait(&w->wake, &w->lock);
			continue;
		}
		/* The device may pass the next program as soon as @done of this one is set. */
		w->exec = NULL;
		w->busy = true;
		pthread_mutex_unlock(&w->lock);
		rvl_exec_run(x);
		eventfd_write(w->done_fd, 1);
		pthread_mutex_lock(&w->lock);
		w->busy = false;
		pthread_cond_broadcast(&w->idle);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int rvl_worker_open(struct rvl_worker *w)
{
	int r;

	*w = (struct rvl_worker){ .done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	if (w->done_fd < 0)
		return -errno;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	pthread_cond_init(&w->idle, NULL);
	r = pthread_create(&w->thread, NULL, work, w);
	if (r)
		close(w->done_fd);
	return -r;
}

void rvl_worker_start(void *ctx, struct rvl_exec *x)
{
	struct rvl_worker *w = ctx;

	/* Waking the thread and waiting for it takes longer than a short program. */
	if (rvl_exec_brief(x))
		return;
	pthread_mutex_lock(&w->lock);
	w->exec = x;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

void rvl_worker_wait(struct rvl_worker *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->exec || w->busy)
		pthread_cond_wait(&w->idle, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

void rvl_worker_close(struct rvl_worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->quit = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->wake);
	pthread_cond_destroy(&w->idle);
	pthread_mutex_destroy(&w->lock);
	close(w->done_fd);
}
