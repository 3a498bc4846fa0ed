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
/*
 * Longer than the daemon is kept from running by a busy machine, because the scheduler counts the time
 * of runs under way by the clock.
 */
#define RUN_US 15000
#define QUICK_US 4000	/* where only the order matters */
#define TURNS 50	/* of Alice, whose share is measured */
#define DEPTH 20	/* of Alice: a client that is woken late by less than their time loses no turn */

static struct competitor alice, bob;
static struct competitor *const both[] = { &alice, &bob };
static struct competitor more[3];

/* Asserts that the share of the first competitor is from @least to @most percent. */
static void expect_share(struct competitor *const *c, uint32_t n, double least, double most)
{
	double share = share_of_turns(c, n);

	ck_assert_msg(share >= least && share <= most, "%.1f %%, %llu refused: %s", share,
		      (unsigned long long)c[0]->refused, c[0]->text);
}

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
 * Proves that a user has half of the device beside a flooder without deadlines, with deadlines 1 ms
 * ahead, and with an expired deadline. tests/attacks/share.c measures a user who sends one run at a
 * time.
 */
START_TEST(equal_shares)
{
	competitor_open(&alice, ALICE, DEPTH);
	competitor_open(&bob, BOB, 40);
	bob.ahead = _i == 1 ? MS : 0;
	bob.deadline = _i == 2;
	compete_turns(both, 2, TURNS);
	expect_share(both, 2, 45, 55);
}
END_TEST

/* Proves that the connections of one user share that user's part. */
START_TEST(connections_do_not_count)
{
	struct competitor *const all[] = { &alice, &bob, &more[0], &more[1], &more[2] };

	competitor_open(&alice, ALICE, DEPTH);
	competitor_open(&bob, BOB, 10);
	for (int i = 0; i < 3; i++)
		competitor_open(&more[i], BOB, 10);
	compete_turns(all, 5, TURNS);
	expect_share(all, 5, 45, 55);
}
END_TEST

static void start_debtor(void)
{
	start("[Scheduler]\nHighPriorityUsers=1002\n");
}

/* Counts the runs of @c that arrived before @at and were started after it. */
static uint32_t waiting_at(const struct competitor *c, uint64_t at)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < c->runs; i++)
		count += c->ran[i].arrival < at && c->ran[i].start > at;
	return count;
}

/** struct flood - what the process of a user who floods the device shares with the test */
struct flood {
	_Atomic bool stop;
	struct competitor user;
};

/* Keeps the depth of @f->user in a process of its own until @f->stop. */
static pid_t start_flood(struct flood *f)
{
	struct competitor *c = &f->user;
	union rivulet_packet p;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	competitor_send_all(c);
	while (!f->stop)
		compete_once(&c, 1);
	while (competitor_waits(c))
		competitor_receive(c, &p);
	_exit(0);
}

/*
 * Bob has @runs HIGH runs, all of them queued at once, and then a NORMAL one on another connection.
 * Returns the start of the first.
 */
static uint64_t run_into_debt(uint32_t runs)
{
	union rivulet_packet p;
	uint64_t from;

	competitor_open(&bob, BOB, runs);
	bob.priority = RIVULET_PRIO_HIGH;
	competitor_send_all(&bob);
	while (competitor_waits(&bob))
		competitor_receive(&bob, &p);
	from = bob.ran[0].start;
	close(bob.sock);
	competitor_open(&bob, BOB, 1);
	competitor_send(&bob, 0);
	competitor_receive(&bob, &p);
	close(bob.sock);
	return from;
}

/*
 * Proves that a user who disconnects with a debt still has it when it connects again. The time of
 * HIGH runs is a debt among NORMAL ones, which another user sends all the time.
 */
START_TEST(debt_survives_reconnecting)
{
	struct flood *other = mmap(NULL, sizeof(*other), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t from;
	int status;
	pid_t pid;

	ck_assert_ptr_ne(other, MAP_FAILED);
	competitor_open(&other->user, ALICE, DEPTH_MAX);
	pid = start_flood(other);
	from = run_into_debt(50);
	other->stop = true;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_lt(other->user.runs, RUNS_KEPT);
	ck_assert_uint_ge(started_between(&other->user, from, bob.ran[0].start), 25);
}
END_TEST

static void start_high(void)
{
	share_start("[Scheduler]\nHighPriorityUsers=1001\n", QUICK_US);
}

/*
 * Proves that a HIGH run is started before all NORMAL runs that arrived earlier, also those of
 * another user. A round counts if enough of them still waited when the HIGH run arrived.
 */
START_TEST(high_overtakes)
{
	union rivulet_packet p;
	int rounds = 0;

	competitor_open(&alice, ALICE, 1);
	competitor_open(&bob, _i ? ALICE : BOB, 40);
	alice.priority = RIVULET_PRIO_HIGH;
	bob.ahead = MS;
	while (rounds < 5) {
		struct ran *high = &alice.ran[alice.runs];

		competitor_send_all(&bob);
		raw_barrier(alice.sock);
		competitor_send(&alice, 0);
		ck_assert_int_eq(competitor_receive(&alice, &p), 0);
		while (competitor_waits(&bob))
			competitor_receive(&bob, &p);
		ck_assert_uint_lt(bob.runs, RUNS_KEPT);
		rounds += waiting_at(&bob, high->arrival) >= 10;
		ck_assert_uint_eq(started_between(&bob, high->arrival, high->start), 0);
	}
	/* Bob has no permission for HIGH. */
	if (!_i) {
		raw_init(&p, RIVULET_MSG_RUN);
		p.run.instance = bob.instance[0];
		p.run.priority = RIVULET_PRIO_HIGH;
		ck_assert_int_eq(raw_call(bob.sock, &p, -1, NULL), -EPERM);
	}
}
END_TEST

/*
 * Proves that LOW has at least 5 % of the time beside a flood, and little more. The flood comes first,
 * because LOW must earn the expected time of a run, which rises on a busy machine.
 */
START_TEST(low_has_its_floor)
{
	struct competitor *const alone[] = { &bob };

	competitor_open(&alice, ALICE, DEPTH);
	competitor_open(&bob, BOB, 40);
	alice.priority = RIVULET_PRIO_LOW;
	bob.ahead = MS;
	compete_turns(alone, 1, 30);
	compete_turns(both, 2, 20);
	expect_share(both, 2, 5, 10);
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
	competitor_open(&alice, ALICE, DEPTH);
	competitor_open(&bob, BOB, 40);
	alice.flags = _i ? 0 : RIVULET_RUN_HARD;
	alice.ahead = 15 * NSEC_PER_SEC;
	bob.flags = _i ? RIVULET_RUN_HARD : 0;
	bob.ahead = _i ? 400 * MS : MS;
	compete_turns(both, 2, TURNS);
	expect_share(both, 2, 45, 100);
	if (_i)
		ck_assert_uint_gt(bob.refused, 100);
	else
		ck_assert_uint_eq(alice.late, 0);
}
END_TEST

static void start_long(void)
{
	share_start("[Scheduler]\nParallelRuns=1\n", 4000000);
}

/* Proves that a LOW run is started before the end of a long NORMAL run of another user. */
START_TEST(low_beside_a_long_run)
{
	union rivulet_packet p;
	uint64_t end;

	competitor_open(&alice, ALICE, 1);
	competitor_open(&bob, BOB, 1);
	alice.priority = RIVULET_PRIO_LOW;
	competitor_send(&bob, 0);
	raw_barrier(bob.sock);
	competitor_send(&alice, 0);
	ck_assert_int_eq(competitor_receive(&bob, &p), 0);
	end = p.run_reply.end;
	ck_assert_int_eq(competitor_receive(&alice, &p), 0);
	ck_assert_uint_lt(p.run_reply.start, end);
	close(alice.sock);
	close(bob.sock);
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
	tcase_add_test(t, low_has_its_floor);
	tcase_add_loop_test(t, promises, 0, 2);
	t = add_case(s, "debt", 120, start_debtor, tear_down);
	tcase_add_test(t, debt_survives_reconnecting);
	t = add_case(s, "high", 120, start_high, tear_down);
	tcase_add_loop_test(t, high_overtakes, 0, 2);
	t = add_case(s, "serial", 120, start_serial, tear_down);
	tcase_add_test(t, earlier_deadline_first);
	t = add_case(s, "long", 120, start_long, tear_down);
	tcase_add_test(t, low_beside_a_long_run);
	return run_suite(s);
}
