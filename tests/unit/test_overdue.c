// SPDX-License-Identifier: MIT
/*
 * Long runs at the daemon's socket: MaxRunSec=, and the service of one user while the runs of
 * another user occupy every slot and every thread.
 */
#include <check.h>

#include "onnx_text.h"
#include "share_rig.h"
#include "suite.h"

#define SMALL_N	16

#define CAROL	1003u

/** struct product - a connection with an instance of a product, which runs on the CPU */
struct product {
	int sock;
	uint32_t instance, serial;
};

static void bind_floats(const struct product *c, uint32_t dir, uint64_t floats)
{
	uint64_t bytes = floats * sizeof(float);
	int fd = memfd_of(NULL, bytes, F_SEAL_SHRINK);

	ck_assert_int_eq(bind_fd(c->sock, c->instance, dir, fd, 0, bytes), 0);
	close(fd);
}

/* Connects as @uid, with a model of one input and one output of so many floats. */
static void text_open(struct product *c, uid_t uid, const char *text, uint64_t in, uint64_t out)
{
	struct pb model = ot_model(text, 13);
	union rivulet_packet p;

	rig_as(uid);
	c->sock = raw_open();
	rig_as_self();
	ck_assert_msg(!raw_load(c->sock, model.p, model.n, 0, &p, NULL), "%s", p.error.text);
	ck_assert_uint_ge(p.load_reply.cpu_steps, 1);
	free(model.p);
	c->instance = open_instance(c->sock, p.load_reply.model);
	bind_floats(c, RIVULET_DIR_INPUT, in);
	bind_floats(c, RIVULET_DIR_OUTPUT, out);
}

static void product_open(struct product *c, uid_t uid, int n)
{
	char text[128];

	snprintf(text, sizeof(text), "in x f32 %d,%d; MatMul x x -> y; out y f32 %d,%d", n, n, n, n);
	text_open(c, uid, text, (uint64_t)n * n, (uint64_t)n * n);
}

/*
 * One sum of 10^12 products: a step of one loop with one share, which takes more than ten minutes.
 * What a test sees before the end of this step has therefore not waited for it.
 */
static void sum_open(struct product *c, uid_t uid)
{
	text_open(c, uid, "in x f32 1000; Einsum x x x x -> y equation='a,b,c,d->'; out y f32 -", 1000, 1);
}

static void product_start(struct product *c)
{
	union rivulet_packet p;

	init_run(&p, c->instance);
	c->serial = p.h.serial;
	ck_assert_int_eq(raw_send(c->sock, &p, p.h.length, NULL, 0), p.h.length);
}

static bool is_answered(const struct product *c)
{
	struct pollfd pfd = { .fd = c->sock, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

static uint64_t running(void)
{
	return status_number("\"scheduler\"", "running");
}

static void await_running(uint64_t count)
{
	uint64_t end = rvl_now() + 60 * NSEC_PER_SEC;

	while (running() != count)
		ck_assert_uint_lt(rvl_now(), end);
}

/* Starts the products of @c, and returns when they are in progress. */
static void start_both(struct product *c)
{
	product_start(&c[0]);
	product_start(&c[1]);
	await_running(2);
}

/*
 * Sets MaxRunSec= of the runs that start from here on. Those in progress keep theirs. The daemon
 * handles the signal before @sock's second request, which it receives later.
 */
static void set_limit(int sock, const char *limit)
{
	char text[96];

	snprintf(text, sizeof(text), "[Limits]\nMaxRunSec=%s\n[Scheduler]\nThreads=2\n", limit);
	rig_config(text);
	rig_hold();
	ck_assert_int_eq(kill(rig.pid, SIGHUP), 0);
	rig_go();
	ck_assert_int_eq(raw_ping(sock), 0);
	ck_assert_int_eq(raw_ping(sock), 0);
}

/* The answers of the run and of the CANCEL arrive in either order. */
static void cancel(const struct product *c)
{
	union rivulet_packet p;
	uint32_t serial;

	raw_init(&p, RIVULET_MSG_CANCEL);
	serial = p.h.serial;
	p.cancel.run = c->serial;
	ck_assert_int_eq(raw_send(c->sock, &p, p.h.length, NULL, 0), p.h.length);
	for (bool run = false, answer = false; !run || !answer;) {
		ck_assert_int_gt(raw_recv(c->sock, &p, NULL), 0);
		if (p.h.serial == c->serial) {
			ck_assert_int_eq(p.h.error, -ECANCELED);
			run = true;
		} else {
			ck_assert_uint_eq(p.h.serial, serial);
			ck_assert_uint_eq(p.h.type, RIVULET_MSG_CANCEL | RIVULET_REPLY);
			answer = true;
		}
	}
}

/*
 * Proves that a run that takes longer than MaxRunSec= ends in the middle of its only step, with the
 * name of the limit, and that its user's next run is served.
 */
START_TEST(long_run_ends)
{
	struct product all, small;
	uint64_t from;
	union rivulet_packet p;

	sum_open(&all, ALICE);
	product_open(&small, ALICE, SMALL_N);
	from = rvl_now();
	product_start(&all);
	ck_assert_int_eq(raw_answer(all.sock, all.serial, &p, NULL), -EDQUOT);
	ck_assert_uint_ge(rvl_now() - from, NSEC_PER_SEC);
	ck_assert_msg(strstr(p.error.text, "MaxRunSec="), "%s", p.error.text);
	set_limit(small.sock, "1h");
	product_start(&small);
	ck_assert_int_eq(raw_answer(small.sock, small.serial, &p, NULL), 0);
	ck_assert_uint_eq(running(), 0);
}
END_TEST

/*
 * Proves that a queued run of the same user starts after the run that was ended has left its step.
 * On a machine that stops for longer than the limit, the two runs have ended before the third is
 * queued.
 */
START_TEST(next_run_follows)
{
	struct product all[3];
	union rivulet_packet p;

	sum_open(&all[0], ALICE);
	sum_open(&all[1], ALICE);
	product_open(&all[2], ALICE, SMALL_N);
	product_start(&all[0]);
	product_start(&all[1]);
	while (running() != 2 && !(is_answered(&all[0]) && is_answered(&all[1])))
		;
	set_limit(all[2].sock, "1h");
	product_start(&all[2]);
	ck_assert_int_eq(raw_answer(all[0].sock, all[0].serial, &p, NULL), -EDQUOT);
	ck_assert_int_eq(raw_answer(all[1].sock, all[1].serial, &p, NULL), -EDQUOT);
	ck_assert_int_eq(raw_answer(all[2].sock, all[2].serial, &p, NULL), 0);
}
END_TEST

/*
 * Proves that one user whose two long runs hold both slots and both threads does not keep another
 * user from running on the NPU or on the CPU, and that the user gets no further slot.
 */
START_TEST(other_user_runs)
{
	struct competitor bob;
	struct product all[3], small;
	union rivulet_packet p;

	for (int i = 0; i < 3; i++)
		sum_open(&all[i], ALICE);
	competitor_open(&bob, BOB, 1);
	product_open(&small, BOB, SMALL_N);
	start_both(all);
	product_start(&all[2]);
	for (int round = 0; round < 3; round++) {
		competitor_send_all(&bob);
		ck_assert_int_eq(competitor_receive(&bob, &p), 0);
		product_start(&small);
		ck_assert_int_eq(raw_answer(small.sock, small.serial, &p, NULL), 0);
		ck_assert_uint_eq(running(), 2);
	}
	for (int i = 0; i < 3; i++)
		ck_assert(!is_answered(&all[i]));
	cancel(&all[2]);
	cancel(&all[0]);
	cancel(&all[1]);
}
END_TEST

/*
 * Proves that a step without any loop boundary stops when its run is cancelled, and that the same
 * instance runs again.
 */
START_TEST(single_share_is_cancelled)
{
	struct product sum;

	sum_open(&sum, ALICE);
	for (int i = 0; i < 2; i++) {
		product_start(&sum);
		await_running(1);
		cancel(&sum);
	}
	await_running(0);
}
END_TEST

/* Proves the same of a run that has taken MaxRunSec=. */
START_TEST(single_share_is_left)
{
	union rivulet_packet p;
	struct product sum;

	sum_open(&sum, ALICE);
	for (int i = 0; i < 2; i++) {
		product_start(&sum);
		ck_assert_int_eq(raw_answer(sum.sock, sum.serial, &p, NULL), -EDQUOT);
	}
	await_running(0);
}
END_TEST

/*
 * Proves that such a step delays neither the end of its connection nor the end of the daemon, which
 * would wait for it longer than the test may take.
 */
START_TEST(single_share_at_the_end)
{
	struct product sum[2];

	share_start("[Scheduler]\nThreads=2\nParallelRuns=2\nStopTimeout=3600\n", 1000);
	sum_open(&sum[0], ALICE);
	sum_open(&sum[1], BOB);
	start_both(sum);
	close(sum[0].sock);
	await_running(1);
	rig_stop();
}
END_TEST

/*
 * Proves that with one slot and one thread, long runs of two users do not keep a third user from
 * running, neither on the CPU nor on the NPU.
 */
START_TEST(one_slot_for_three)
{
	struct product sum[2], small;
	struct competitor carol;
	union rivulet_packet p;

	sum_open(&sum[0], ALICE);
	sum_open(&sum[1], BOB);
	product_open(&small, CAROL, SMALL_N);
	competitor_open(&carol, CAROL, 1);
	start_both(sum);
	for (int round = 0; round < 3; round++) {
		product_start(&small);
		ck_assert_int_eq(raw_answer(small.sock, small.serial, &p, NULL), 0);
		competitor_send_all(&carol);
		ck_assert_int_eq(competitor_receive(&carol, &p), 0);
	}
	ck_assert(!is_answered(&sum[0]) && !is_answered(&sum[1]));
	cancel(&sum[0]);
	cancel(&sum[1]);
}
END_TEST

static void start_limited(void)
{
	share_start("[Limits]\nMaxRunSec=1\n[Scheduler]\nThreads=2\nParallelRuns=2\n", 1000);
}

static void start_default(void)
{
	share_start("[Scheduler]\nThreads=2\nParallelRuns=2\n", 1000);
}

static void start_single(void)
{
	share_start("[Scheduler]\nThreads=1\nParallelRuns=1\n", 1000);
}

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;

	rig_main(argc, argv, rvl_worker_main);
	s = suite_create("overdue");
	t = add_case(s, "limit", 120, start_limited, rig_stop);
	tcase_add_test(t, long_run_ends);
	tcase_add_test(t, next_run_follows);
	tcase_add_test(t, single_share_is_left);
	t = add_case(s, "slots", 120, start_default, rig_stop);
	tcase_add_test(t, other_user_runs);
	tcase_add_test(t, single_share_is_cancelled);
	t = add_case(s, "one", 120, start_single, rig_stop);
	tcase_add_test(t, one_slot_for_three);
	t = add_case(s, "end", 120, NULL, NULL);
	tcase_add_test(t, single_share_at_the_end);
	return run_suite(s);
}
