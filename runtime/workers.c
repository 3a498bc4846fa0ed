// SPDX-License-Identifier: MIT
/*
 * Worker threads. They run tasks (CPU steps) in order, and shares of a kernel's parallel loop.
 * Loops come first, because the thread that started the loop waits for its end. That thread works
 * on the loop too, so a loop ends even when no worker is free. When the run that a loop belongs to is
 * stopped, no further share of it is begun.
 *
 * When the tasks of one owner occupy all workers, a spare thread runs those of an owner that none of
 * them serves.
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
	const atomic_bool *stop;	/* or NULL */
	uint32_t n;
	_Atomic uint32_t taken;
	uint32_t helpers;	/* workers inside, under the lock */
};

struct rivulet_workers {
	atomic_int refs;
	pthread_mutex_t lock;		/* the queues and @stop */
	pthread_cond_t work;		/* something was queued */
	pthread_cond_t left;		/* a helper left a loop */
	pthread_cond_t unserved;	/* more tasks than idle workers */
	struct rvl_rt_task *first, **last;
	uint32_t tasks, idle;		/* queued tasks, workers that wait */
	const void *serving[MAX_THREADS + 2];	/* by the number of a thread: its task's owner */
	struct loop *loops;
	bool stop;
	struct rvl_pool kernel;
	uint32_t n;
	uint32_t numbered;		/* workers that have their number, under the lock */
	pthread_t thread[MAX_THREADS];
	pthread_t spare;
	bool has_spare;
};

static _Thread_local uint32_t worker_number; /* from 1; 0 on every other thread */

uint32_t rvl_rt_worker(void)
{
	return worker_number;
}

/* Of the kernel that this thread runs outside of any loop, or NULL. */
static _Thread_local struct rvl_rt_exit *kernel_exit;

void rvl_rt_workers_exit(struct rvl_rt_exit *e)
{
	kernel_exit = e;
}

static bool is_stopped(const atomic_bool *stop)
{
	return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

/*
 * After a loop with shares left out, the kernel would compute with memory that nobody has written, so
 * it is not continued.
 */
static void leave_if_stopped(void)
{
	struct rvl_rt_exit *e = kernel_exit;

	if (!e || !is_stopped(e->stop))
		return;
	kernel_exit = NULL;
	longjmp(e->to, 1);
}

static void loop_work(struct loop *l)
{
	while (!is_stopped(l->stop)) {
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

	while (l && (atomic_load(&l->taken) >= l->n || is_stopped(l->stop)))
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

/* Called with the lock, which is released during the work. @at: where the task is in the queue */
static void run_task(struct rivulet_workers *p, struct rvl_rt_task **at)
{
	struct rvl_rt_task *t = *at;

	*at = t->next;
	if (!*at)
		p->last = at;
	p->tasks--;
	p->serving[worker_number] = t->owner;
	pthread_mutex_unlock(&p->lock);
	t->work(t);
	pthread_mutex_lock(&p->lock);
	p->serving[worker_number] = NULL;
}

static void wait_idle(struct rivulet_workers *p)
{
	p->idle++;
	pthread_cond_wait(&p->work, &p->lock);
	p->idle--;
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
			run_task(p, &p->first);
		else if (p->stop)
			break;
		else
			wait_idle(p);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static bool is_served(const struct rivulet_workers *p, const void *owner)
{
	for (uint32_t i = 1; i <= p->numbered; i++)
		if (p->serving[i] == owner)
			return true;
	return false;
}

/* The first task of an owner that no thread serves, or NULL. */
static struct rvl_rt_task **unserved(struct rivulet_workers *p)
{
	struct rvl_rt_task **at;

	for (at = &p->first; *at; at = &(*at)->next)
		if ((*at)->owner && !is_served(p, (*at)->owner))
			return at;
	return NULL;
}

static void *spare_worker(void *arg)
{
	struct rivulet_workers *p = arg;
	struct rvl_rt_task **at;

	pthread_mutex_lock(&p->lock);
	worker_number = ++p->numbered;
	while (!p->stop) {
		at = unserved(p);
		if (at)
			run_task(p, at);
		else
			pthread_cond_wait(&p->unserved, &p->lock);
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

static void shared_loop(struct rivulet_workers *p, uint32_t n, void (*fn)(void *arg, uint32_t i),
			void *arg, const atomic_bool *stop)
{
	struct loop l = { .fn = fn, .arg = arg, .n = n, .stop = stop };

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

/*
 * struct rvl_pool: the kernels' parallel loop. A loop inside a share must not jump out of the loop
 * around it, so it runs to its end.
 */
static void parallel(void *ctx, uint32_t n, void (*fn)(void *arg, uint32_t i), void *arg)
{
	struct rvl_rt_exit *e = kernel_exit;

	leave_if_stopped();
	kernel_exit = NULL;
	if (n > 1)
		shared_loop(ctx, n, fn, arg, e ? e->stop : NULL);
	else if (n)
		fn(arg, 0);
	kernel_exit = e;
	leave_if_stopped();
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
	pthread_cond_init(&p->unserved, NULL);
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
	pthread_cond_broadcast(&p->unserved);
	pthread_mutex_unlock(&p->lock);
	for (uint32_t i = 0; i < p->n; i++)
		pthread_join(p->thread[i], NULL);
	if (p->has_spare)
		pthread_join(p->spare, NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->work);
	pthread_cond_destroy(&p->left);
	pthread_cond_destroy(&p->unserved);
	free(p);
	return NULL;
}

uint32_t rivulet_workers_threads(const struct rivulet_workers *p)
{
	return p->n;
}

/* Called with the lock. Without a spare thread, the tasks wait for the workers. */
static void wake_spare(struct rivulet_workers *p)
{
	if (!p->has_spare)
		p->has_spare = !pthread_create(&p->spare, NULL, spare_worker, p);
	pthread_cond_signal(&p->unserved);
}

void rvl_rt_workers_push(struct rivulet_workers *p, struct rvl_rt_task *t)
{
	t->next = NULL;
	pthread_mutex_lock(&p->lock);
	*p->last = t;
	p->last = &t->next;
	p->tasks++;
	pthread_cond_signal(&p->work);
	if (t->owner && p->tasks > p->idle)
		wake_spare(p);
	pthread_mutex_unlock(&p->lock);
}

const struct rvl_pool *rvl_rt_workers_kernel(struct rivulet_workers *p)
{
	return &p->kernel;
}
