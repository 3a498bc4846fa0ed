// SPDX-License-Identifier: MIT
/*
 * Two users at the daemon's socket: shares of the device beside a flooder, priorities, deadlines,
 * admission. The users are two uids; where the test is not root, the daemon under test reads the
 * uid from a file.
 */
#include <check.h>

#include "share_rig.h"
#include "suite.h"

#define MS NSEC_PER_MSEC
#define RUN_US 15000	/* a client that is woken late by less than that loses no turn */

static struct competitor alice, bob;
static struct competitor *const both[] = { &alice, &bob };

static void tear_down(void)
{
	rig_stop();
}

static void start(const char *config)
{
	share_start(config, RUN_US);
}

static void start_plain(void)
{
	start("");
}

/*
 * Proves that a user who sends one run at a time has half of the device beside a flooder without
 * deadlines, with deadlines 1 ms ahead, and with an expired deadline.
 */
START_TEST(equal_shares)
{
	competitor_open(&alice, ALICE, 1);
	competitor_open(&bob, BOB, 40);
	bob.ahead = _i == 1 ? MS : 0;
	bob.deadline = _i == 2;
	compete(both, 2, 4 * NSEC_PER_SEC);
	ck_assert_uint_ge(alice.runs + bob.runs, 100);
	ck_assert_double_ge(device_share(both, 2, 0), 45);
	ck_assert_double_le(device_share(both, 2, 0), 55);
}
END_TEST

/* Proves that the connections of one user share that user's part. */
START_TEST(connections_do_not_count)
{
	struct competitor more[3];
	struct competitor *const all[] = { &alice, &bob, &more[0], &more[1], &more[2] };

	competitor_open(&alice, ALICE, 1);
	competitor_open(&bob, BOB, 10);
	for (int i = 0; i < 3; i++)
		competitor_open(&more[i], BOB, 10);
	compete(all, 5, 4 * NSEC_PER_SEC);
	ck_assert_double_ge(device_share(all, 5, 0), 45);
	ck_assert_double_le(device_share(all, 5, 0), 55);
}
END_TEST

/* Bob, in a process of his own, repeatedly connects, floods for a short time and disconnects. */
static void reconnect_until(uint64_t until)
{
	while (rvl_now() < until) {
		competitor_open(&bob, BOB, 20);
		competitor_send_all(&bob);
		usleep(100000);
		close(bob.sock);
	}
	_exit(0);
}

/* Proves that a user who disconnects with a debt still has it when it connects again. */
START_TEST(debt_survives_reconnecting)
{
	uint64_t until = rvl_now() + 4 * NSEC_PER_SEC, all;
	union rivulet_packet p;
	pid_t pid;

	competitor_open(&alice, ALICE, 1);
	pid = fork();
	if (!pid)
		reconnect_until(until);
	competitor_send_all(&alice);
	while (rvl_now() < until)
		competitor_send(&alice, (uint32_t)competitor_receive(&alice, &p));
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	all = status_number("\"scheduler\"", "npu_ns");
	ck_assert_uint_ge(alice.npu_ns, all / 100 * 45);
	ck_assert_uint_ge(all, 2 * NSEC_PER_SEC);
	close(alice.sock);
}
END_TEST

static void start_high(void)
{
	start("[Scheduler]\nHighPriorityUsers=1001\n");
}

/*
 * Proves that a HIGH run is started before all NORMAL runs that arrived earlier, also those of
 * another user.
 */
START_TEST(high_overtakes)
{
	union rivulet_packet p;

	competitor_open(&alice, ALICE, 1);
	competitor_open(&bob, _i ? ALICE : BOB, 40);
	alice.priority = RIVULET_PRIO_HIGH;
	bob.ahead = MS;
	for (int round = 0; round < 5; round++) {
		competitor_send_all(&bob);
		raw_barrier(alice.sock);
		competitor_send(&alice, 0);
		ck_assert_int_eq(competitor_receive(&alice, &p), 0);
		ck_assert_uint_le(p.run_reply.queue_ns, 4 * RUN_US * 1000);
		while (competitor_waits(&bob))
			competitor_receive(&bob, &p);
	}
	ck_assert_uint_gt(bob.longest_queue, 20 * RUN_US * 1000);
	/* Bob has no permission for HIGH. */
	if (!_i) {
		raw_init(&p, RIVULET_MSG_RUN);
		p.run.instance = bob.instance[0];
		p.run.priority = RIVULET_PRIO_HIGH;
		ck_assert_int_eq(raw_call(bob.sock, &p, -1, NULL), -EPERM);
	}
}
END_TEST

/* Proves that LOW has at least 5 % of the time beside a flood, and little more. */
START_TEST(low_has_its_floor)
{
	competitor_open(&alice, ALICE, 1);
	competitor_open(&bob, BOB, 40);
	alice.priority = RIVULET_PRIO_LOW;
	bob.ahead = MS;
	compete(both, 2, 6 * NSEC_PER_SEC);
	ck_assert_double_ge(device_share(both, 2, 0), 5);
	ck_assert_double_le(device_share(both, 2, 0), 10);
}
END_TEST

static void start_serial(void)
{
	start("[Scheduler]\nParallelRuns=1\n");
}

/*
 * Proves that of one user's runs the one with the earlier deadline is first, and of equal deadlines
 * the earlier arrival.
 */
START_TEST(earlier_deadline_first)
{
	static const uint64_t due[] = { 0, 70, 30, 0, 50, 10, 30, 90, 20 };
	static const int order[] = { 5, 8, 2, 6, 4, 1, 7, 0, 3 };
	uint64_t far = rvl_now() + 1000 * NSEC_PER_SEC;
	union rivulet_packet p;

	competitor_open(&alice, ALICE, ARRAY_SIZE(due));
	rig_hold();
	for (uint32_t i = 0; i < ARRAY_SIZE(due); i++) {
		alice.deadline = due[i] ? far + due[i] * MS : 0;
		competitor_send(&alice, i);
	}
	rig_go();
	for (uint32_t i = 0; i < ARRAY_SIZE(due); i++)
		ck_assert_int_eq(competitor_receive(&alice, &p), order[i]);
}
END_TEST

/*
 * Proves that an admitted run meets its deadline beside a flooder with deadlines of its own, and
 * that a flood of hard deadlines is admitted for no more than its user's share.
 */
START_TEST(promises)
{
	competitor_open(&alice, ALICE, 1);
	competitor_open(&bob, BOB, 40);
	alice.flags = _i ? 0 : RIVULET_RUN_HARD;
	alice.ahead = 2 * NSEC_PER_SEC;
	bob.flags = _i ? RIVULET_RUN_HARD : 0;
	bob.ahead = _i ? 40 * MS : MS;
	compete(both, 2, 4 * NSEC_PER_SEC);
	ck_assert_msg(device_share(both, 2, 0) >= 45, "%.1f %%, %llu refused: %s",
		      device_share(both, 2, 0), (unsigned long long)alice.refused, alice.text);
	if (_i)
		ck_assert_uint_gt(bob.refused, 100);
	else
		ck_assert_uint_le(alice.late, 2);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;

	rig_main(argc, argv, rvl_worker_main);
	s = suite_create("share");
	t = add_case(s, "shares", 120, start_plain, tear_down);
	tcase_add_loop_test(t, equal_shares, 0, 3);
	tcase_add_test(t, connections_do_not_count);
	tcase_add_test(t, debt_survives_reconnecting);
	tcase_add_test(t, low_has_its_floor);
	tcase_add_loop_test(t, promises, 0, 2);
	t = add_case(s, "high", 120, start_high, tear_down);
	tcase_add_loop_test(t, high_overtakes, 0, 2);
	t = add_case(s, "serial", 120, start_serial, tear_down);
	tcase_add_test(t, earlier_deadline_first);
	return run_suite(s);
}
