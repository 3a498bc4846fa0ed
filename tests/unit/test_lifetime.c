// SPDX-License-Identifier: MIT
/* What ends or changes while the daemon lives: its configuration, silent connections, the daemon itself. */
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
	uint64_t deadline = rvl_now() + 30 * NSEC_PER_SEC;
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

/* Proves that a reload names every changed key that only a restart takes over, as long as it differs. */
START_TEST(restart_only_keys)
{
	rig_config("[Device]\nNode=/dev/accel/accel3\n[Scheduler]\nThreads=3\n"
		   "[Power]\nStateDirectory=off\n[Metrics]\nSocket=off\n");
	for (int i = 1; i <= 2; i++) {
		ck_assert_int_eq(kill(rig.pid, SIGHUP), 0);
		await_log("Node=, Threads=, StateDirectory=, Socket= changed: this takes effect when "
			  "rivuletd is restarted", i);
	}
	rig_config("[Limits]\nModelsPerUser=9\n");
	ck_assert_int_eq(kill(rig.pid, SIGHUP), 0);
	await_log("configuration reloaded", 3);
	await_log("takes effect when", 2);
}
END_TEST

/* Proves that a connection that says nothing is closed with the reason, and one that said HELLO is not. */
START_TEST(hello_timeout)
{
	int silent = raw_connect(), good = raw_open();
	union rivulet_packet p;

	ck_assert_int_gt(raw_recv(silent, &p, NULL), 0);
	ck_assert_uint_eq(p.h.type, RIVULET_MSG_ERROR);
	ck_assert_uint_eq(p.h.serial, 0);
	ck_assert_ptr_nonnull(strstr(p.error.text, "HelloTimeout="));
	ck_assert_int_eq(raw_recv(silent, &p, NULL), 0);
	usleep(400000);
	ck_assert_int_eq(raw_ping(good), 0);
}
END_TEST

/* Proves that a run of 15 s does not keep the daemon from stopping within StopTimeout=. */
START_TEST(stop_is_bounded)
{
	struct competitor c;
	uint64_t from;

	share_start("[Scheduler]\nStopTimeout=300ms\n", 15000000);
	competitor_open(&c, getuid(), 1);
	competitor_send(&c, 0);
	ck_assert_int_eq(raw_ping(c.sock), 0);
	usleep(100000);
	from = rvl_now();
	rig_stop();
	ck_assert_uint_lt(rvl_now() - from, 5 * NSEC_PER_SEC);
}
END_TEST

static void start_with_log(void)
{
	setenv("RIG_LOG", "1", 1);
	rig_start("");
	/* It has blocked its signals and opened its log once it answers. */
	close(raw_open());
}

static void start_impatient(void)
{
	rig_start("[Limits]\nHelloTimeout=200ms\n");
}

static void add_case(Suite *s, const char *name, void (*start)(void), const TTest *test)
{
	TCase *t = tcase_create(name);

	tcase_set_timeout(t, 120);
	if (start)
		tcase_add_checked_fixture(t, start, rig_stop);
	tcase_add_test(t, test);
	suite_add_tcase(s, t);
}

int main(int argc, char **argv)
{
	Suite *s;

	rig_main(argc, argv, rvl_worker_main);
	s = suite_create("lifetime");
	add_case(s, "reload", start_with_log, restart_only_keys);
	add_case(s, "hello", start_impatient, hello_timeout);
	add_case(s, "stop", NULL, stop_is_bounded);
	return run_suite(s);
}
