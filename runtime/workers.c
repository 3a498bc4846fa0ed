// SPDX-License-Identifier: MIT
/*
 * Worker threads. They run tasks (CPU steps) in order, and shares of a kernel's parallel loop.
 * Loops come first, because the thread that started the loop waits for its end. That thread works
 * on the loop too, so a loop ends even when no worker is free.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "internal.h"

#define MAX_THREADS 64

/* A parallel loop, on the stack of the thread that started it, which returns when @helpers is 0. */
struct loop {
	struct loop *next;
	void (*fn)(void *arg, uint32_t i);
	void *arg;
	uint32_t n;
	_Atomic uint32_t taken;
	uint32_t helpers;	/* workers inside, under the lock */
};

struct rivulet_workers {
	atomic_int refs;
	pthread_mutex_t lock;		/* the queues and @stop */
	pthread_cond_t work;		/* something was queued */
	pthread_cond_t left;		/* a helper left a loop */
	struct rvl_rt_task *first, **last;
	struct loop *loops;
	bool stop;
	struct rvl_pool kernel;
	uint32_t n;
	uint32_t numbered;		/* workers that have their number, under the lock */
	pthread_t thread[MAX_THREADS];
};

static _Thread_local uint32_t worker_number; /* from 1; 0 on every other thread */

uint32_t rvl_rt_worker(void)
{
	return worker_number;
}

static void loop_work(struct loop *l)
{
	for (;;) {
		uint32_t i = atomic_fetch_add(&l->taken, 1);

		if (i >= l->n)
			return;
		l->fn(l->arg, i);
	}
}

/* Called with the lock. Returns a loop that has shares left, or NULL. */
static struct loop *open_loop(struct rivulet_workers *p)
{
	struct loop *l = p->loops;

	while (l && atomic_load(&l->taken) >= l->n)
		l = l->next;
	return l;
}

/* Called with the lock, which is released during the work. */
static void help(struct rivulet_workers *p, struct loop *l)
{
	l->helpers++;
	pthread_mutex_unlock(&p->lock);
	loop_work(l);
	pthread_mutex_lock(&p->lock);
	if (!--l->helpers)
		pthread_cond_broadcast(&p->left);
}

static void run_task(struct rivulet_workers *p)
{
	struct rvl_rt_task *t = p->first;

	p->first = t->next;
	if (!p->first)
		p->last = &p->first;
	pthread_mutex_unlock(&p->lock);
	t->work(t);
	pthread_mutex_lock(&p->lock);
}

static void *worker(void *arg)
{
	struct rivulet_workers *p = arg;

	pthread_mutex_lock(&p->lock);
	worker_number = ++p->numbered;
	for (;;) {
		struct loop *l = open_loop(p);

		if (l)
			help(p, l);
		else if (p->first)
			run_task(p);
		else if (p->stop)
			break;
		else
			pthread_cond_wait(&p->work, &p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void close_loop(struct rivulet_workers *p, struct loop *l)
{
	struct loop **at = &p->loops;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	while (l->helpers)
		pthread_cond_wait(&p->left, &p->lock);
}

/* struct rvl_pool: the kernels' parallel loop. */
static void parallel(void *ctx, uint32_t n, void (*fn)(void *arg, uint32_t i), void *arg)
{
	struct rivulet_workers *p = ctx;
	struct loop l = { .fn = fn, .arg = arg, .n = n };

	if (n < 2) {
		if (n)
			fn(arg, 0);
		return;
	}
	pthread_mutex_lock(&p->lock);
	l.next = p->loops;
	p->loops = &l;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	loop_work(&l);
	pthread_mutex_lock(&p->lock);
	close_loop(p, &l);
	pthread_mutex_unlock(&p->lock);
}

static uint32_t processors(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	return n < 1 ? 1 : (uint32_t)n;
}

int rivulet_workers_new(uint32_t threads, struct rivulet_workers **out)
{
	struct rivulet_workers *p = calloc(1, sizeof(*p));
	uint32_t want = threads ? threads : processors();
	int r = 0;

	if (!p)
		return -ENOMEM;
	atomic_init(&p->refs, 1);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->left, NULL);
	p->last = &p->first;
	p->kernel = (struct rvl_pool) { .parallel = parallel, .ctx = p };
	if (want > MAX_THREADS)
		want = MAX_THREADS;
	while (!r && p->n < want) {
		r = pthread_create(&p->thread[p->n], NULL, worker, p);
		p->n += !r;
	}
	/* Fewer workers than requested are accepted, none is an error. */
	if (!p->n) {
		rivulet_workers_unref(p);
		return -r;
	}
	p->kernel.threads = p->n;
	*out = p;
	return 0;
}

struct rivulet_workers *rivulet_workers_ref(struct rivulet_workers *p)
{
	if (p)
		atomic_fetch_add(&p->refs, 1);
	return p;
}

struct rivulet_workers *rivulet_workers_unref(struct rivulet_workers *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return NULL;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (uint32_t i = 0; i < p->n; i++)
		pthread_join(p->thread[i], NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->work);
	pthread_cond_destroy(&p->left);
	free(p);
	return NULL;
}

uint32_t rivulet_workers_threads(const struct rivulet_workers *p)
{
	return p->n;
}

void rvl_rt_workers_push(struct rivulet_workers *p, struct rvl_rt_task *t)
{
	t->next = NULL;
	pthread_mutex_lock(&p->lock);
	*p->last = t;
	p->last = &t->next;
	pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
}

const struct rvl_pool *rvl_rt_workers_kernel(struct rivulet_workers *p)
{
	return &p->kernel;
}
