// SPDX-License-Identifier: MIT
/* The worker threads of the runtime: their loops, their tasks, and when they wait for work. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "../../runtime/internal.h"
#include "suite.h"

static struct rivulet_workers *workers;

/* Workers poll where each of them has a processor, so the tests pretend to have eight. */
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid;
	(void)size;
	CPU_ZERO(set);
	for (size_t i = 0; i < 8; i++)
		CPU_SET(i, set);
	return 0;
}

/* A worker begins to poll with the clock. One stays there as if its processor was taken. */
static struct {
	atomic_bool wanted;
	sem_t late, go_on;
} poller;

int64_t __real_rvl_rt_now(void);
int64_t __wrap_rvl_rt_now(void);

int64_t __wrap_rvl_rt_now(void)
{
	if (rvl_rt_worker() && atomic_exchange(&poller.wanted, false)) {
		sem_post(&poller.late);
		sem_wait(&poller.go_on);
	}
	return __real_rvl_rt_now();
}

static void setup(void)
{
	ck_assert(!rivulet_workers_new(2, &workers));
}

static void teardown(void)
{
	ck_assert_ptr_null(rivulet_workers_unref(workers));
}

#define ANY UINT32_MAX	/* lanes, of a loop whose lanes have no memory */

static void add_index(void *arg, uint32_t lane, uint32_t i)
{
	(void)lane;
	atomic_fetch_add((atomic_uint *)arg, i + 1);
}

static void nested(void *arg, uint32_t lane, uint32_t i)
{
	const struct rvl_pool *k = rvl_rt_workers_kernel(workers);

	(void)lane;
	(void)i;
	k->parallel(k->ctx, ANY, 50, add_index, arg);
}

/* Nested loops on two workers run every index once and terminate. */
START_TEST(parallel_loops)
{
	const struct rvl_pool *k = rvl_rt_workers_kernel(workers);
	atomic_uint sum = 0;

	for (int i = 0; i < 200; i++)
		k->parallel(k->ctx, ANY, 5, nested, &sum);
	ck_assert_uint_eq(sum, 200 * 5 * 1275);
	k->parallel(k->ctx, ANY, 0, add_index, &sum);
	ck_assert_uint_eq(sum, 200 * 5 * 1275);
	ck_assert_uint_eq(rivulet_workers_threads(workers), 2);
}
END_TEST

struct crowd {
	atomic_int inside, most;
};

static void enter(void *arg, uint32_t lane, uint32_t i)
{
	struct crowd *c = arg;
	int inside = atomic_fetch_add(&c->inside, 1) + 1, most = atomic_load(&c->most);

	(void)lane;
	(void)i;
	while (inside > most && !atomic_compare_exchange_weak(&c->most, &most, inside))
		;
	nanosleep(&(struct timespec) { .tv_nsec = 200000 }, NULL);
	atomic_fetch_sub(&c->inside, 1);
}

/* A loop of a thread that is no worker has no more threads than there are workers. */
START_TEST(callers_take_the_place_of_a_worker)
{
	const struct rvl_pool *k = rvl_rt_workers_kernel(workers);
	struct crowd c = { 0 };

	for (int i = 0; i < 20; i++)
		k->parallel(k->ctx, ANY, 16, enter, &c);
	ck_assert_int_le(c.most, 2);
}
END_TEST

/** struct meeting - a task of owner B whose loop ends only when the test says so, and two of A */
struct meeting {
	struct rvl_rt_task a[2], b;
	sem_t begin_loop, in_loop, end_loop;	/* of B's loop */
	sem_t first_runs, end_first, second_ran;	/* of A's tasks */
};

static struct meeting meeting;

/* sem_wait() with a limit that only ends a hang; of what blocks the others, it is the longer one. */
#define HANG_SECONDS 20

static bool comes_in(sem_t *s, int seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	while (sem_timedwait(s, &until))
		if (errno != EINTR)
			return false;
	return true;
}

static bool comes(sem_t *s)
{
	return comes_in(s, HANG_SECONDS);
}

static void blocked_part(void *arg, uint32_t lane, uint32_t i)
{
	struct meeting *m = arg;

	(void)lane;
	(void)i;
	sem_post(&m->in_loop);
	comes_in(&m->end_loop, 5 * HANG_SECONDS);
	sem_post(&m->end_loop);
}

static void loop_of_b(struct rvl_rt_task *t)
{
	const struct rvl_pool *k = rvl_rt_workers_kernel(workers);

	(void)t;
	comes(&meeting.begin_loop);
	k->parallel(k->ctx, ANY, 8, blocked_part, &meeting);
}

static void first_of_a(struct rvl_rt_task *t)
{
	(void)t;
	sem_post(&meeting.first_runs);
	comes(&meeting.end_first);
}

static void second_of_a(struct rvl_rt_task *t)
{
	(void)t;
	sem_post(&meeting.second_ran);
}

static pthread_barrier_t all;

static void meet(struct rvl_rt_task *t)
{
	(void)t;
	pthread_barrier_wait(&all);
}

/* Returns when both workers wait for work. Until then a task would start a spare thread. */
static void await_workers(void)
{
	static struct rvl_rt_task each[2];

	pthread_barrier_init(&all, NULL, 3);
	for (int i = 0; i < 2; i++) {
		each[i] = (struct rvl_rt_task) { .work = meet };
		rvl_rt_workers_push(workers, &each[i]);
	}
	pthread_barrier_wait(&all);
	pthread_barrier_destroy(&all);
}

/*
 * Proves that a task does not wait for the end of another owner's loop when the worker that would
 * have taken it joins that loop: A's second task is queued while one worker runs A's first task and
 * the other one B's loop.
 */
START_TEST(loops_hold_up_nobody)
{
	struct meeting *m = &meeting;
	sem_t *const sems[] = { &m->begin_loop, &m->in_loop, &m->end_loop, &m->first_runs,
				&m->end_first, &m->second_ran };

	for (size_t i = 0; i < sizeof(sems) / sizeof(sems[0]); i++)
		sem_init(sems[i], 0, 0);
	m->b = (struct rvl_rt_task) { .work = loop_of_b, .owner = &m->b };
	m->a[0] = (struct rvl_rt_task) { .work = first_of_a, .owner = &m->a };
	m->a[1] = (struct rvl_rt_task) { .work = second_of_a, .owner = &m->a };
	await_workers();
	rvl_rt_workers_push(workers, &m->b);
	rvl_rt_workers_push(workers, &m->a[0]);
	ck_assert(comes(&m->first_runs));
	rvl_rt_workers_push(workers, &m->a[1]);
	sem_post(&m->begin_loop);
	ck_assert(comes(&m->in_loop));
	sem_post(&m->end_first);
	ck_assert(comes(&m->second_ran));
	sem_post(&m->end_loop);
}
END_TEST

static void meet_in_loop(void *arg, uint32_t lane, uint32_t i)
{
	(void)arg;
	(void)lane;
	(void)i;
	pthread_barrier_wait(&all);
}

static void spin(int64_t ns)
{
	int64_t end = rvl_rt_now() + ns;

	while (rvl_rt_now() < end)
		;
}

/*
 * Each share of a loop needs a thread of its own, because the shares wait for each other. The pauses
 * let the other threads poll, sleep, or be between the two.
 */
START_TEST(loops_call_all_they_need)
{
	static const uint32_t threads[] = { 2, 3, 6 };
	uint32_t n = threads[_i];
	struct rivulet_workers *p;
	const struct rvl_pool *k;

	ck_assert(!rivulet_workers_new(n, &p));
	k = rvl_rt_workers_kernel(p);
	pthread_barrier_init(&all, NULL, n);
	for (int i = 0; i < 400; i++) {
		k->parallel(k->ctx, ANY, n, meet_in_loop, NULL);
		spin(i % 7 * 12000);
	}
	pthread_barrier_destroy(&all);
	ck_assert_ptr_null(rivulet_workers_unref(p));
}
END_TEST

/* The same for tasks: a worker that polls answers for one of them only. */
START_TEST(tasks_call_all_they_need)
{
	for (int i = 0; i < 400; i++) {
		await_workers();
		spin(i % 7 * 12000);
	}
}
END_TEST

/* A task whose loop has a share for each of the two workers. */
struct loop_task {
	struct rvl_rt_task t;
	uint32_t worker[2];	/* that computed the share */
	sem_t ended;
};

static void note_worker(void *arg, uint32_t lane, uint32_t i)
{
	struct loop_task *l = arg;

	(void)lane;
	l->worker[i] = rvl_rt_worker();
	pthread_barrier_wait(&all);
}

static void run_loop(struct rvl_rt_task *t)
{
	const struct rvl_pool *k = rvl_rt_workers_kernel(workers);

	k->parallel(k->ctx, ANY, 2, note_worker, t);
	sem_post(&((struct loop_task *)(void *)t)->ended);
}

/* A worker computes the same part of every loop, whichever of the two starts it. */
START_TEST(workers_keep_their_parts)
{
	pthread_barrier_init(&all, NULL, 2);
	for (int i = 0; i < 200; i++) {
		struct loop_task l = { .t.work = run_loop };

		sem_init(&l.ended, 0, 0);
		rvl_rt_workers_push(workers, &l.t);
		ck_assert(comes(&l.ended));
		ck_assert_uint_eq(l.worker[0], 2);
		ck_assert_uint_eq(l.worker[1], 1);
		spin(i % 7 * 12000);
	}
	pthread_barrier_destroy(&all);
}
END_TEST

/* Lanes of a loop, and how many threads have each of them. */
struct lanes {
	uint32_t n;
	atomic_int inside[8], parts;
	atomic_bool failed;
};

static void use_lane(void *arg, uint32_t lane, uint32_t i)
{
	struct lanes *l = arg;

	(void)i;
	if (lane >= l->n || atomic_fetch_add(&l->inside[lane], 1))
		atomic_store(&l->failed, true);
	nanosleep(&(struct timespec) { .tv_nsec = 20000 }, NULL);
	if (lane < l->n)
		atomic_fetch_sub(&l->inside[lane], 1);
	atomic_fetch_add(&l->parts, 1);
}

/* Calls at the same time have different lanes, however few there are for the threads. */
START_TEST(lanes_have_one_thread)
{
	struct rivulet_workers *p;
	const struct rvl_pool *k;

	ck_assert(!rivulet_workers_new(6, &p));
	k = rvl_rt_workers_kernel(p);
	for (uint32_t n = 1; n <= 8; n++) {
		struct lanes l = { .n = n };

		for (int i = 0; i < 20; i++)
			k->parallel(k->ctx, n, 40, use_lane, &l);
		ck_assert_msg(!l.failed, "with %u lanes", n);
		ck_assert_int_eq(l.parts, 20 * 40);
	}
	ck_assert_ptr_null(rivulet_workers_unref(p));
}
END_TEST

/* Parts in the order in which one worker takes them, while the other one is in the first part it took. */
struct order {
	struct rvl_rt_task t;
	sem_t ended;
	atomic_bool begun;
	atomic_uint n;
	uint32_t part[16];
	sem_t others;
};

static void note_order(void *arg, uint32_t lane, uint32_t i)
{
	struct order *o = arg;

	(void)lane;
	if (!atomic_exchange(&o->begun, true)) {
		comes(&o->others);
		return;
	}
	o->part[o->n] = i;
	if (++o->n == 15)
		sem_post(&o->others);
}

static void run_in_order(struct rvl_rt_task *t)
{
	const struct rvl_pool *k = rvl_rt_workers_kernel(workers);
	struct order *o = (void *)t;

	k->parallel(k->ctx, ANY, 16, note_order, o);
	sem_post(&o->ended);
}

/* A worker computes its share from the front, then what is left of the other one from the back. */
START_TEST(parts_are_taken_from_the_back)
{
	for (int i = 0; i < 20; i++) {
		struct order o = { .t.work = run_in_order };
		uint32_t own, other;

		sem_init(&o.others, 0, 0);
		sem_init(&o.ended, 0, 0);
		rvl_rt_workers_push(workers, &o.t);
		ck_assert(comes(&o.ended));
		ck_assert_uint_eq(o.n, 15);
		own = o.part[0] < 8 ? 0 : 8;
		other = 8 - own;
		for (uint32_t j = 0; j < 8; j++)
			ck_assert_uint_eq(o.part[j], own + j);
		for (uint32_t j = 0; j < 7; j++)
			ck_assert_uint_eq(o.part[8 + j], other + 7 - j);
	}
}
END_TEST

/* Tasks that say when they run, and end when they are told to. */
struct held_task {
	struct rvl_rt_task t;
	sem_t runs, end;
};

static void hold(struct rvl_rt_task *t)
{
	struct held_task *h = (void *)t;

	sem_post(&h->runs);
	comes_in(&h->end, 5 * HANG_SECONDS);
}

static void push_held(struct rivulet_workers *p, struct held_task *h, bool held)
{
	*h = (struct held_task) { .t.work = hold };
	sem_init(&h->runs, 0, 0);
	sem_init(&h->end, 0, !held);
	rvl_rt_workers_push(p, &h->t);
}

/*
 * Proves that a worker that polls, and notices its call late, is not called again in place of one
 * that sleeps: one worker of three is late, one computes.
 */
START_TEST(a_late_worker_is_called_once)
{
	static struct held_task first[3], second, third;
	struct rivulet_workers *p;
	bool ran;

	sem_init(&poller.late, 0, 0);
	sem_init(&poller.go_on, 0, 0);
	ck_assert(!rivulet_workers_new(3, &p));
	for (int i = 0; i < 3; i++) {
		push_held(p, &first[i], true);
		ck_assert(comes(&first[i].runs));
	}
	atomic_store(&poller.wanted, true);
	sem_post(&first[0].end);
	ck_assert(comes(&poller.late));
	push_held(p, &second, false);
	sem_post(&first[1].end);
	ck_assert(comes(&second.runs));
	/* The worker of the second task polls and then sleeps. */
	nanosleep(&(struct timespec) { .tv_nsec = 20000000 }, NULL);
	push_held(p, &third, false);
	ran = comes(&third.runs);
	sem_post(&poller.go_on);
	sem_post(&first[2].end);
	ck_assert_ptr_null(rivulet_workers_unref(p));
	ck_assert(ran);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("workers");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, parallel_loops);
	tcase_add_test(t, callers_take_the_place_of_a_worker);
	tcase_add_test(t, lanes_have_one_thread);
	tcase_add_test(t, parts_are_taken_from_the_back);
	tcase_add_loop_test(t, loops_call_all_they_need, 0, 3);
	tcase_add_test(t, workers_keep_their_parts);
	tcase_add_test(t, tasks_call_all_they_need);
	tcase_add_test(t, a_late_worker_is_called_once);
	tcase_add_test(t, loops_hold_up_nobody);
	suite_add_tcase(s, t);
	return run_suite(s);
}
