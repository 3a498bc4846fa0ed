// SPDX-License-Identifier: MIT
/*
 * Worker threads. They run tasks (CPU steps) in order, and parts of a kernel's parallel loop.
 * Loops come first, because the thread that started the loop waits for its end. That thread works
 * on the loop too, so a loop ends even when no worker is free.
 *
 * When the tasks of some owners occupy all workers, spare threads run those of the other owners,
 * one thread for each owner, so that a long task delays only tasks of its own owner.
 *
 * A run starts a loop for every operator, often of less time than the wake-up of a sleeping thread
 * takes. A worker without work therefore polls for POLL_NS before it sleeps, and so does the thread that
 * waits for the last parts of its loop. One worker at least never polls: the thread that is about to
 * start a loop, often none of the workers, has its processor.
 *
 * Cancellation. A client decides how long a kernel computes, and no kernel looks at the state of
 * its run. rvl_rt_workers_interrupt() therefore sends a signal to every worker. Its handler leaves
 * the kernel by longjmp() if the run that the thread works for was stopped, and returns otherwise.
 * This is safe because a kernel owns nothing (see struct rvl_pool), and because a thread has an
 * exit only while it executes kernel code: the pool removes the exit before it takes its lock.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "internal.h"

#define MAX_THREADS 64
#define MAX_SPARE 16
#define MAX_LANES 64	/* threads inside a loop */
#define POLL_NS 50000

/* A worker that polls, on its own stack. */
struct poller {
	struct poller *next;
	bool called;
};

/*
 * Adjacent parts of a loop. The thread that begins with them takes them from the front, and others from the
 * back, so that each computes parts that lie side by side. In a cache line of its own, because several
 * threads write it.
 */
struct share {
	_Alignas(64) _Atomic uint64_t left;	/* the first part, and in the upper half one past the last */
};

/* A parallel loop, on the stack of the thread that started it, which returns when @helpers is 0. */
struct loop {
	struct loop *next;
	rvl_part_fn fn;
	void *arg;
	const atomic_bool *stop;	/* or NULL */
	uint32_t most;			/* helpers */
	_Atomic uint32_t helpers;	/* workers inside; changed under the lock */
	uint32_t lanes;			/* at most MAX_LANES */
	uint64_t busy;			/* lanes, as bits; as @helpers, but the first before others see it */
	uint32_t shares;
	struct share share[MAX_THREADS];
};

struct rivulet_workers {
	atomic_int refs;
	pthread_mutex_t lock;		/* the queues and @stop */
	pthread_cond_t work;		/* something was queued */
	pthread_cond_t left;		/* a helper left a loop */
	pthread_cond_t unserved;	/* a task's owner is served by no thread */
	struct rvl_rt_task *first, **last;
	uint32_t tasks, idle;		/* queued tasks, workers that wait */
	_Atomic uint32_t queued;	/* loops and tasks since the start; changed under the lock */
	struct poller *pollers;		/* those that were not called */
	uint32_t polling;		/* workers that poll, with and without a call */
	bool polls;			/* whether a thread that waits leaves a processor to the others */
	/* By the number of a thread: the owner of its task. */
	const void *serving[MAX_THREADS + MAX_SPARE + 1];
	struct loop *loops;
	bool stop;
	struct rvl_pool kernel;
	uint32_t n;
	uint32_t numbered;		/* workers that have their number, under the lock */
	pthread_t thread[MAX_THREADS];
	uint32_t n_spare, idle_spare;	/* under the lock */
	pthread_t spare[MAX_SPARE];
};

static _Thread_local uint32_t worker_number; /* from 1; 0 on every other thread */

uint32_t rvl_rt_worker(void)
{
	return worker_number;
}

#define INTERRUPT SIGURG	/* ignored by default, and unused by the daemon and the tool */

/*
 * Where this thread leaves the kernel code that it executes; NULL while it executes none. The
 * handler reads it.
 */
static _Thread_local struct rvl_rt_exit *volatile kernel_exit;

static bool is_stopped(const atomic_bool *stop)
{
	return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

/*
 * After a loop with parts left out, the kernel would compute with memory that was not written, so
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

/*
 * The check follows the store. So a stop that comes before the store is found here, and the signal
 * of one that comes later finds the exit.
 */
void rvl_rt_workers_exit(struct rvl_rt_exit *e)
{
	kernel_exit = e;
	atomic_signal_fence(memory_order_seq_cst);
	leave_if_stopped();
}

static void on_interrupt(int sig)
{
	(void)sig;
	leave_if_stopped();
}

/* SA_NODEFER: the handler may be left by longjmp(), which restores no signal mask. */
static void handle_interrupt(void)
{
	struct sigaction sa = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART | SA_NODEFER };

	sigaction(INTERRUPT, &sa, NULL);
}

static void admit_interrupt(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, INTERRUPT);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* Divides @n parts into shares of @threads threads. */
static void divide(struct loop *l, uint32_t n, uint32_t threads)
{
	l->shares = n < threads ? n : threads;
	for (uint32_t i = 0; i < l->shares; i++) {
		uint64_t first = (uint64_t)n * i / l->shares, past = (uint64_t)n * (i + 1) / l->shares;

		atomic_init(&l->share[i].left, past << 32 | first);
	}
}

/* The first part of what is left, or the last one. Returns false if there is none. */
static bool take_part(struct share *s, bool last, uint32_t *part)
{
	uint64_t left = atomic_load_explicit(&s->left, memory_order_relaxed), rest;

	do {
		uint64_t first = (uint32_t)left, past = left >> 32;

		if (first >= past)
			return false;
		*part = (uint32_t)(last ? past - 1 : first);
		rest = last ? (past - 1) << 32 | first : past << 32 | (first + 1);
	} while (!atomic_compare_exchange_weak_explicit(&s->left, &left, rest, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

static bool has_parts(const struct loop *l)
{
	for (uint32_t i = 0; i < l->shares; i++) {
		uint64_t left = atomic_load_explicit(&l->share[i].left, memory_order_relaxed);

		if ((uint32_t)left < left >> 32)
			return true;
	}
	return false;
}

/* A lane for this thread: the same in every loop, if no other thread has it. */
static uint32_t take_lane(struct loop *l)
{
	uint32_t lane = worker_number % l->lanes;

	if (l->busy >> lane & 1)
		lane = (uint32_t)__builtin_ctzll(~l->busy);
	l->busy |= UINT64_C(1) << lane;
	return lane;
}

/*
 * Executes parts until none is left, or until the run of the loop is stopped. A worker begins with the
 * same share in every loop: the operators of a network divide their images alike, so that it reads most
 * of what it has written itself, which lies in its own cache. Other threads, and those that are spare,
 * begin with the share of one of the workers. A share without parts is only read, because many threads
 * come by.
 */
static void loop_work(struct loop *l, uint32_t lane)
{
	struct rvl_rt_exit here = { .stop = l->stop };
	uint32_t part;

	if (setjmp(here.to))
		return;
	rvl_rt_workers_exit(&here);
	for (uint32_t i = 0; i < l->shares; i++)
		while (take_part(&l->share[(worker_number + i) % l->shares], i > 0, &part)) {
			l->fn(l->arg, lane, part);
			leave_if_stopped();
		}
	rvl_rt_workers_exit(NULL);
}

/* Called with the lock. Returns a loop that has parts left and room for a helper, or NULL. */
static struct loop *open_loop(struct rivulet_workers *p)
{
	struct loop *l = p->loops;

	while (l && (!has_parts(l) || l->helpers >= l->most || is_stopped(l->stop)))
		l = l->next;
	return l;
}

static void *spare_worker(void *arg);

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

/*
 * Called with the lock. Makes sure that a thread takes the first unserved task. If there are as
 * many spare threads as there may be, or no more can be created, the task waits for one of the
 * threads.
 */
static void serve_all(struct rivulet_workers *p)
{
	if (p->tasks <= p->idle || !unserved(p))
		return;
	if (p->idle_spare)
		pthread_cond_signal(&p->unserved);
	else if (p->n_spare < MAX_SPARE)
		p->n_spare += !pthread_create(&p->spare[p->n_spare], NULL, spare_worker, p);
}

/*
 * Called with the lock, which is released during the work. A queued task may have counted on this
 * thread, and the loop may last as long as its owner's kernel, so a spare thread takes the task.
 */
static void help(struct rivulet_workers *p, struct loop *l)
{
	uint32_t lane = take_lane(l);

	l->helpers++;
	serve_all(p);
	pthread_mutex_unlock(&p->lock);
	loop_work(l, lane);
	pthread_mutex_lock(&p->lock);
	l->busy &= ~(UINT64_C(1) << lane);
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
	/* This thread may have been the one that served the owner of a task further back. */
	serve_all(p);
	pthread_mutex_unlock(&p->lock);
	t->work(t);
	pthread_mutex_lock(&p->lock);
	p->serving[worker_number] = NULL;
}

static void pause_processor(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * Called with the lock, which is released meanwhile. Waits for POLL_NS, or until @value is no longer
 * @old.
 */
static void poll_value(struct rivulet_workers *p, const _Atomic uint32_t *value, uint32_t old)
{
	int64_t end;

	if (!p->polls)
		return;
	pthread_mutex_unlock(&p->lock);
	end = rvl_rt_now() + POLL_NS;
	for (uint32_t i = 1; atomic_load(value) == old && (i % 64 || rvl_rt_now() < end); i++)
		pause_processor();
	pthread_mutex_lock(&p->lock);
}

/*
 * Called with the lock when a loop or a task was queued. Calls @n idle workers, or all if there are
 * fewer: first those that poll, because they need no wake-up. One whose processor was taken notices
 * its call late, and is not called again before.
 */
static void call_workers(struct rivulet_workers *p, uint32_t n)
{
	atomic_fetch_add(&p->queued, 1);
	for (; n && p->pollers; n--) {
		p->pollers->called = true;
		p->pollers = p->pollers->next;
	}
	for (; n; n--)
		pthread_cond_signal(&p->work);
}

static void remove_poller(struct rivulet_workers *p, const struct poller *me)
{
	struct poller **at = &p->pollers;

	while (*at != me)
		at = &(*at)->next;
	*at = me->next;
}

/* As poll_value() of @queued. */
static void poll_queue(struct rivulet_workers *p, uint32_t seen)
{
	struct poller me = { .next = p->pollers };

	if (p->polling + 1 >= p->n)
		return;
	p->polling++;
	p->pollers = &me;
	poll_value(p, &p->queued, seen);
	if (!me.called)
		remove_poller(p, &me);
	p->polling--;
}

/* A signal that comes while this thread polls is lost, so @queued is read again under the lock. */
static void wait_idle(struct rivulet_workers *p)
{
	uint32_t seen = atomic_load(&p->queued);

	p->idle++;
	poll_queue(p, seen);
	if (atomic_load(&p->queued) == seen && !p->stop)
		pthread_cond_wait(&p->work, &p->lock);
	p->idle--;
}

static void *worker(void *arg)
{
	struct rivulet_workers *p = arg;

	admit_interrupt();
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

static void *spare_worker(void *arg)
{
	struct rivulet_workers *p = arg;
	struct rvl_rt_task **at;

	admit_interrupt();
	pthread_mutex_lock(&p->lock);
	worker_number = ++p->numbered;
	while (!p->stop) {
		at = unserved(p);
		if (at) {
			run_task(p, at);
			continue;
		}
		p->idle_spare++;
		pthread_cond_wait(&p->unserved, &p->lock);
		p->idle_spare--;
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
	for (uint32_t n = l->helpers; n; n = l->helpers) {
		poll_value(p, &l->helpers, n);
		if (l->helpers == n)
			break;
	}
	while (l->helpers)
		pthread_cond_wait(&p->left, &p->lock);
}

/* A thread that is no worker takes the place of one. */
static void shared_loop(struct rivulet_workers *p, struct loop *l, uint32_t n)
{
	uint32_t lane;

	if (!n)
		return;
	l->most = p->n - !worker_number;
	if (l->most > l->lanes - 1)
		l->most = l->lanes - 1;
	atomic_init(&l->helpers, 0);
	divide(l, n, p->n);
	l->busy = 0;
	lane = take_lane(l);
	pthread_mutex_lock(&p->lock);
	l->next = p->loops;
	p->loops = l;
	call_workers(p, n - 1 < l->most ? n - 1 : l->most);
	pthread_mutex_unlock(&p->lock);
	loop_work(l, lane);
	pthread_mutex_lock(&p->lock);
	close_loop(p, l);
	pthread_mutex_unlock(&p->lock);
}

/* struct rvl_pool: the kernels' parallel loop. The parts of a loop may have loops of their own. */
static void parallel(void *ctx, uint32_t lanes, uint32_t n, rvl_part_fn fn, void *arg)
{
	struct rvl_rt_exit *e = kernel_exit;
	struct loop l;

	l.fn = fn;
	l.arg = arg;
	l.stop = e ? e->stop : NULL;
	l.lanes = lanes < MAX_LANES ? lanes : MAX_LANES;
	rvl_rt_workers_exit(NULL);
	shared_loop(ctx, &l, n);
	rvl_rt_workers_exit(e);
}

static uint32_t processors(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	return n < 1 ? 1 : (uint32_t)n;
}

int rivulet_workers_new(uint32_t threads, struct rivulet_workers **out)
{
	static pthread_once_t handler = PTHREAD_ONCE_INIT;
	struct rivulet_workers *p = calloc(1, sizeof(*p));
	uint32_t want = threads ? threads : processors();
	int r = 0;

	if (!p)
		return -ENOMEM;
	pthread_once(&handler, handle_interrupt);
	atomic_init(&p->refs, 1);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->left, NULL);
	pthread_cond_init(&p->unserved, NULL);
	p->last = &p->first;
	p->kernel = (struct rvl_pool) { .parallel = parallel, .ctx = p };
	p->polls = want > 1 && want <= processors();
	if (want > MAX_THREADS)
		want = MAX_THREADS;
	/* A worker compares @n with the number of those that poll. */
	pthread_mutex_lock(&p->lock);
	while (!r && p->n < want) {
		r = pthread_create(&p->thread[p->n], NULL, worker, p);
		p->n += !r;
	}
	pthread_mutex_unlock(&p->lock);
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
	for (uint32_t i = 0; i < p->n_spare; i++)
		pthread_join(p->spare[i], NULL);
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

void rvl_rt_workers_push(struct rivulet_workers *p, struct rvl_rt_task *t)
{
	t->next = NULL;
	pthread_mutex_lock(&p->lock);
	*p->last = t;
	p->last = &t->next;
	p->tasks++;
	call_workers(p, 1);
	serve_all(p);
	pthread_mutex_unlock(&p->lock);
}

void rvl_rt_workers_interrupt(struct rivulet_workers *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		pthread_kill(p->thread[i], INTERRUPT);
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < p->n_spare; i++)
		pthread_kill(p->spare[i], INTERRUPT);
	pthread_mutex_unlock(&p->lock);
}

const struct rvl_pool *rvl_rt_workers_kernel(struct rivulet_workers *p)
{
	return &p->kernel;
}
