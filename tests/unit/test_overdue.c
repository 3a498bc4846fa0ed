// SPDX-License-Identifier: MIT
/*
 * Long runs at the daemon's socket: MaxRunSec=, and what another user gets beside a user whose runs
 * hold every slot and every thread.
 */
#include <check.h>

#include "onnx_text.h"
#include "share_rig.h"
#include "suite.h"

#define LONG_N	4096	/* rows and columns of two matrices; their product takes many seconds */
#define SMALL_N	16

/** struct product - a connection with an instance of a matrix product, which runs on the CPU */
struct product {
	int sock;
	uint32_t instance, serial;
};

static void bind_matrix(const struct product *c, uint32_t dir, uint64_t bytes)
{
	int fd = memfd_of(NULL, bytes, F_SEAL_SHRINK);

	ck_assert_int_eq(bind_fd(c->sock, c->instance, dir, fd, 0, bytes), 0);
	close(fd);
}

/* Connects as @uid. */
static void product_open(struct product *c, uid_t uid, int n)
{
	union rivulet_packet p;
	struct pb model;
	char text[128];

	rig_as(uid);
	c->sock = raw_open();
	rig_as_self();
	snprintf(text, sizeof(text), "in x f32 %d,%d; MatMul x x -> y; out y f32 %d,%d", n, n, n, n);
	model = ot_model(text, 13);
	ck_assert_msg(!raw_load(c->sock, model.p, model.n, 0, &p, NULL), "%s", p.error.text);
	ck_assert_uint_ge(p.load_reply.cpu_steps, 1);
	free(model.p);
	c->instance = open_instance(c->sock, p.load_reply.model);
	bind_matrix(c, RIVULET_DIR_INPUT, (uint64_t)n * n * sizeof(float));
	bind_matrix(c, RIVULET_DIR_OUTPUT, (uint64_t)n * n * sizeof(float));
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

/* Starts the products of @c, and returns when they are under way. */
static void start_both(struct product *c)
{
	uint64_t end = rvl_now() + 10 * NSEC_PER_SEC;

	product_start(&c[0]);
	product_start(&c[1]);
	while (running() < 2)
		ck_assert_uint_lt(rvl_now(), end);
}

static void cancel(const struct product *c)
{
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_CANCEL);
	p.cancel.run = c->serial;
	ck_assert_int_eq(raw_send(c->sock, &p, p.h.length, NULL, 0), p.h.length);
	ck_assert_int_eq(raw_answer(c->sock, p.h.serial, &p, NULL), 0);
	ck_assert_int_eq(raw_answer(c->sock, c->serial, &p, NULL), -ECANCELED);
}

/*
 * Proves that a run that takes longer than MaxRunSec= ends in the middle of its only step, with the
 * name of the limit, and that its user's next run is served.
 */
START_TEST(long_run_ends)
{
	struct product all, small;
	uint64_t from, took;
	union rivulet_packet p;

	product_open(&all, ALICE, LONG_N);
	product_open(&small, ALICE, SMALL_N);
	from = rvl_now();
	product_start(&all);
	ck_assert_int_eq(raw_answer(all.sock, all.serial, &p, NULL), -EDQUOT);
	took = rvl_now() - from;
	ck_assert_msg(strstr(p.error.text, "MaxRunSec="), "%s", p.error.text);
	ck_assert_uint_ge(took, NSEC_PER_SEC);
	ck_assert_uint_lt(took, 3 * NSEC_PER_SEC);
	product_start(&small);
	ck_assert_int_eq(raw_answer(small.sock, small.serial, &p, NULL), 0);
	ck_assert_uint_eq(running(), 0);
}
END_TEST

/* Proves that a run queued by the same user starts when the one that was ended has left its step. */
START_TEST(next_run_follows)
{
	struct product all[3];
	union rivulet_packet p;

	for (int i = 0; i < 3; i++)
		product_open(&all[i], ALICE, i < 2 ? LONG_N : SMALL_N);
	start_both(all);
	product_start(&all[2]);
	ck_assert_int_eq(raw_answer(all[0].sock, all[0].serial, &p, NULL), -EDQUOT);
	ck_assert_int_eq(raw_answer(all[1].sock, all[1].serial, &p, NULL), -EDQUOT);
	ck_assert_int_eq(raw_answer(all[2].sock, all[2].serial, &p, NULL), 0);
}
END_TEST

/*
 * Proves that one user whose two long runs hold both slots and both threads does not keep another
 * user from running on the NPU or on the CPU, and that only one user at a time gets the further slot.
 */
START_TEST(other_user_runs)
{
	struct competitor bob;
	struct product all[3], small;
	union rivulet_packet p;

	for (int i = 0; i < 3; i++)
		product_open(&all[i], ALICE, LONG_N);
	competitor_open(&bob, BOB, 1);
	product_open(&small, BOB, SMALL_N);
	start_both(all);
	product_start(&all[2]);
	for (int round = 0; round < 3; round++) {
		competitor_send_all(&bob);
		ck_assert_int_eq(competitor_receive(&bob, &p), 0);
		product_start(&small);
		ck_assert_int_eq(raw_answer(small.sock, small.serial, &p, NULL), 0);
		ck_assert_uint_lt(p.run_reply.queue_ns, NSEC_PER_SEC);
		ck_assert_uint_eq(running(), 2);
	}
	ck_assert_uint_lt(bob.longest_queue, NSEC_PER_SEC);
	for (int i = 0; i < 3; i++)
		ck_assert(!is_answered(&all[i]));
	cancel(&all[2]);
	cancel(&all[0]);
	cancel(&all[1]);
}
END_TEST

static void start_limited(void)
{
	share_start("[Limits]\nMaxRunSec=1\n[Scheduler]\nThreads=2\n", 1000);
}

static void start_default(void)
{
	share_start("[Scheduler]\nThreads=2\n", 1000);
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
	t = add_case(s, "slots", 120, start_default, rig_stop);
	tcase_add_test(t, other_user_runs);
	return run_suite(s);
}
