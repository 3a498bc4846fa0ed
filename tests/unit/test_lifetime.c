// SPDX-License-Identifier: MIT
/*
 * What changes during the daemon's life: its configuration, connections that send nothing, and its
 * own end.
 */
#include "share_rig.h"
#include "suite.h"

static char *read_log(void)
{
	char path[96];
	size_t size;

	snprintf(path, sizeof(path), "%s/log", rig.dir);
	return read_file(path, &size);
}

static void await_log(const char *text, int times)
{
	uint64_t deadline = rvl_now() + 60 * NSEC_PER_SEC;
	int n;

	do {
		char *log = read_log();

		n = 0;
		for (const char *at = log; (at = strstr(at, text)); at++)
			n++;
		ck_assert_msg(rvl_now() < deadline, "no \"%s\" in: %s", text, log);
		free(log);
		usleep(10000);
	} while (n < times);
}

/*
 * Proves that a reload names every changed key that takes effect only at a restart, at each reload
 * while it differs.
 */
START_TEST(restart_only_keys)
{
	rig_config("[Device]\nNode=/dev/accel/accel3\n[Scheduler]\nThreads=3\n"
		   "[Power]\nStateDirectory=off\n[Metrics]\nSocket=off\n");
	for (int i = 1; i <= 2; i++) {
		ck_assert_int_eq(kill(rig.pid, SIGHUP), 0);
		await_log("Node=, Threads=, StateDirectory=, Socket= changed: this takes effect "
			  "when "
			  "rivuletd is restarted", i);
	}
	rig_config("[Limits]\nModelsPerUser=9\n");
	ck_assert_int_eq(kill(rig.pid, SIGHUP), 0);
	await_log("configuration reloaded", 3);
	await_log("takes effect when", 2);
}
END_TEST

/*
 * Proves that a connection that sends nothing is closed with the reason, and that one that sent
 * HELLO stays. The daemon is held while the test connects, so that it finds HELLO when it accepts
 * the connection, however slow the test is.
 */
START_TEST(hello_timeout)
{
	union rivulet_packet p;
	int silent, good;

	rig_hold();
	silent = raw_connect();
	good = raw_connect();
	hello_init(&p);
	ck_assert_int_eq(raw_send(good, &p, p.h.length, NULL, 0), p.h.length);
	rig_go();
	ck_assert_int_eq(raw_answer(good, p.h.serial, &p, NULL), 0);
	ck_assert_int_gt(raw_recv(silent, &p, NULL), 0);
	ck_assert_uint_eq(p.h.type, RIVULET_MSG_ERROR);
	ck_assert_uint_eq(p.h.serial, 0);
	ck_assert_ptr_nonnull(strstr(p.error.text, "HelloTimeout="));
	ck_assert_int_eq(raw_recv(silent, &p, NULL), 0);
	usleep(100000);
	ck_assert_int_eq(raw_ping(good), 0);
}
END_TEST

/* Proves that the daemon's stop does not wait for the end of a run of 15 s. */
START_TEST(stop_is_bounded)
{
	struct competitor c;
	uint64_t from;

	share_start("[Scheduler]\nStopTimeout=300ms\n", 15000000);
	competitor_open(&c, getuid(), 1);
	from = rvl_now();
	competitor_send(&c, 0);
	while (!status_number("\"scheduler\"", "running"))
		usleep(1000);
	rig_stop();
	ck_assert_uint_lt(rvl_now() - from, 15 * NSEC_PER_SEC);
}
END_TEST

static void start_with_log(void)
{
	setenv("RIG_LOG", "1", 1);
	rig_start("");
	/* When the daemon answers, it has blocked its signals and opened its log. */
	close(raw_open());
}

static void start_impatient(void)
{
	rig_start("[Limits]\nHelloTimeout=2s\n");
}

int main(int argc, char **argv)
{
	Suite *s;

	rig_main(argc, argv, rvl_worker_main);
	s = suite_create("lifetime");
	tcase_add_test(add_case(s, "reload", 120, start_with_log, rig_stop), restart_only_keys);
	tcase_add_test(add_case(s, "hello", 120, start_impatient, rig_stop), hello_timeout);
	tcase_add_test(add_case(s, "stop", 120, NULL, NULL), stop_is_bounded);
	return run_suite(s);
}
