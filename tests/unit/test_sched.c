// SPDX-License-Identifier: MIT
/*
 * Rules of the daemon without a daemon: expected times of programs, users, message ids, log lines.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cache.h"
#include "estimate.h"
#include "fair.h"
#include "instance.h"
#include "log.h"
#include "manager.h"
#include "peak.h"
#include "rivulet_board.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "scheduler.h"
#include "suite.h"
#include "user.h"
#include "util.h"

#define MS NSEC_PER_MSEC

static struct rvl_text err;

/* Proves that a time is estimated from cycles until it has been measured. */
START_TEST(expected)
{
	struct rivulet_board b = { .levels = 2, .level = { { .hz = 111000000 },
							   { .hz = 333000000 } } };
	struct rvl_program p = { .cycles_at = { 333, 333 } };
	struct rvl_override own = { 0 };

	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 1, own), 1000);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, own), 3000);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 2, own), 0);
	p.at[1].measured_ns = 77;
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 1, own), 77);
	/*
	 * The measured time is shorter than the device time, because the model does not pace runs.
	 * The other level is estimated from cycles.
	 */
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, own), 3000);
	/* Time outside the device does not depend on the level. */
	p.at[1].measured_ns = 1500;
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, own), 3500);
}
END_TEST

/*
 * Proves that a run with a fixed variant takes the cycles of that variant at each clock, and that
 * with a fixed clock it takes each level's cycles at that clock.
 */
START_TEST(expected_in_part)
{
	struct rivulet_board b = { .levels = 2, .level = { { .hz = 100000000 },
							   { .hz = 200000000 } } };
	struct rvl_program p = { .cycles_at = { 300, 400 } };

	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, (struct rvl_override){ .variant = 2 }),
			  4000);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 1, (struct rvl_override){ .variant = 2 }),
			  2000);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, (struct rvl_override){ .clock = 2 }),
			  1500);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 1, (struct rvl_override){ .clock = 2 }),
			  2000);
	p.at[1].measured_ns = 2100;
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, (struct rvl_override){ .clock = 2 }),
			  1600);
}
END_TEST

/*
 * Proves that the worst case is the longest of the recent runs plus an eighth, where the average
 * would admit more, and that a long run stops counting after two windows.
 */
START_TEST(worst)
{
	struct rivulet_board b = { .levels = 2, .level = { { .hz = 1000000 }, { .hz = 2000000 } } };
	struct rvl_program p = { .cycles_at = { 8000, 8000 }, .at[1].measured_ns = 9 * MS };
	struct rvl_override own = { 0 };
	struct rvl_share user = { .in[0].v = 0 };
	struct rvl_slot run = { .share = &user, .deadline = 15 * MS, .hard = true };
	struct rvl_fair fair;

	rvl_fair_init(&fair);
	/* By the compiler's estimate, 4 ms at the upper level. */
	ck_assert_uint_eq(rvl_program_worst_ns(&p, &b, 1, own), 4500 * NSEC_PER_MSEC / 1000);
	rvl_peak_add(&p.at[1].longest, 0, 16 * MS);
	for (uint64_t n = 1; n < 2 * RVL_PEAK_RUNS; n++)
		rvl_peak_add(&p.at[1].longest, n / RVL_PEAK_RUNS, 8 * MS);
	ck_assert_uint_eq(rvl_program_worst_ns(&p, &b, 1, own), 18 * MS);
	/* At the other level: 8 ms, plus the time by which the longest run exceeded its 4 ms. */
	ck_assert_uint_eq(rvl_program_worst_ns(&p, &b, 0, own), 22500 * NSEC_PER_MSEC / 1000);
	run.worst = rvl_program_expected_ns(&p, &b, 1, own);
	ck_assert_int_eq(rvl_fair_admit(&fair, &run, 0, 0, 0, &err), 0);
	run.worst = rvl_program_worst_ns(&p, &b, 1, own);
	ck_assert_int_eq(rvl_fair_admit(&fair, &run, 0, 0, 0, &err), -ETIME);
	rvl_peak_add(&p.at[1].longest, 2, 8 * MS);
	ck_assert_uint_eq(rvl_program_worst_ns(&p, &b, 1, own), 9 * MS);
}
END_TEST

/*
 * Proves that a program that never ran is assumed to take as long as the longest run of any
 * program, and that excessive cycle counts are limited to an hour.
 */
START_TEST(never_measured)
{
	struct rivulet_board b = { .levels = 1, .level = { { .hz = 1000000 } } };
	struct rvl_program p = { .cycles_at = { 8000 } };
	struct rvl_override own = { 0 };
	uint64_t hour = 3600 * NSEC_PER_SEC;

	ck_assert_uint_eq(rvl_program_promised_ns(&p, &b, 0, own, 20 * MS), 20 * MS);
	ck_assert_uint_eq(rvl_program_promised_ns(&p, &b, 0, own, 5 * MS), 9 * MS);
	p.cycles_at[0] = 1ull << (_i ? 63 : 60);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, own), hour);
	ck_assert_uint_eq(rvl_program_promised_ns(&p, &b, 0, own, 5 * MS), hour + hour / 8);
	p.cycles_at[0] = 8000;
	p.at[0].runs = 1;
	p.at[0].measured_ns = 8 * MS;
	rvl_peak_add(&p.at[0].longest, 0, 8 * MS);
	ck_assert_uint_eq(rvl_program_promised_ns(&p, &b, 0, own, 20 * MS), 9 * MS);
	rvl_peak_add(&p.at[0].longest, 0, UINT64_MAX);
	ck_assert_uint_eq(rvl_program_promised_ns(&p, &b, 0, own, 20 * MS), UINT64_MAX);
}
END_TEST

/*
 * Proves which levels a minimum accuracy allows: those from which on every higher level meets it.
 */
START_TEST(accurate)
{
	struct rivulet_program file = { .level = { { 0, 900000 }, { 0, 800000 }, { 0, 850000 },
						   { 0, 870000 } } };
	struct rvl_program p = { .levels = 0xf, .file = &file };

	ck_assert_uint_eq(rvl_program_accurate(&p, 870000), 8);
	ck_assert_uint_eq(rvl_program_accurate(&p, 850000), 8 | 4);
	ck_assert_uint_eq(rvl_program_accurate(&p, 800000), 0xf);
	ck_assert_uint_eq(rvl_program_accurate(&p, 870001), 0);
	p.levels = 0xd;
	ck_assert_uint_eq(rvl_program_accurate(&p, 850000), 0xd);
	memset(file.level, 0, sizeof(file.level));
	ck_assert_uint_eq(rvl_program_accurate(&p, 1), 0);
}
END_TEST

/* Proves that quotas do not overflow, and that a user is freed with its last reference. */
START_TEST(users)
{
	struct rvl_manager m = { .cfg.user_bytes = 1000 };
	struct rvl_user *u, *v;
	uint32_t n = 0;

	rvl_list_init(&m.users);
	rvl_fair_init(&m.sched.fair);
	u = rvl_user_get(&m, 5);
	v = rvl_user_get(&m, 6);
	ck_assert_ptr_eq(rvl_user_get(&m, 5), u);
	ck_assert_int_eq(rvl_user_charge(&m, u, 600, "it", &err), 0);
	ck_assert_int_eq(rvl_user_charge(&m, u, 401, "it", &err), -EDQUOT);
	ck_assert_str_eq(err.s, "it needs 401 bytes, user 5 has 400 of MemoryPerUser=1000 left");
	ck_assert_int_eq(rvl_user_charge(&m, u, UINT64_MAX, "it", &err), -EDQUOT);
	ck_assert_int_eq(rvl_user_charge(&m, v, 1000, "it", &err), 0);
	m.cfg.user_bytes = 10;	/* a reload lowers the limit below what is used */
	ck_assert_int_eq(rvl_user_charge(&m, u, 1, "it", &err), -EDQUOT);
	ck_assert_int_eq(rvl_user_count(&n, 1, "K", &err), 0);
	ck_assert_int_eq(rvl_user_count(&n, 1, "K", &err), -EDQUOT);
	ck_assert_str_eq(err.s, "1 in use, K=1 allows no more");
	rvl_user_put(u);
	rvl_user_put(u);
	ck_assert_ptr_eq(m.users.next, &v->link);
	rvl_user_put(v);
	ck_assert_ptr_eq(m.users.next, &m.users);
}
END_TEST

static int on_timer(sd_event_source *source, uint64_t usec, void *data)
{
	(void)source;
	(void)usec;
	(void)data;
	return 0;
}

/* Proves that the timer of connections that wait for a receiver ends with its user, of whom it has the address. */
START_TEST(a_user_is_freed_with_its_timer)
{
	struct rvl_manager m = { 0 };
	sd_event_source *timer;
	struct rvl_user *u;

	rvl_list_init(&m.users);
	rvl_fair_init(&m.sched.fair);
	ck_assert_int_ge(sd_event_new(&m.event), 0);
	u = rvl_user_get(&m, 5);
	ck_assert_int_ge(sd_event_add_time_relative(m.event, &u->intake.retry, CLOCK_MONOTONIC, USEC_PER_SEC, 0,
						    on_timer, u), 0);
	timer = sd_event_source_ref(u->intake.retry);
	rvl_user_put(u);
	ck_assert_ptr_eq(m.users.next, &m.users);
	ck_assert_int_eq(sd_event_source_get_enabled(timer, NULL), SD_EVENT_OFF);
	sd_event_source_unref(timer);
	sd_event_unref(m.event);
}
END_TEST

/*
 * Proves that a user in debt is kept when it leaves, and that the number of such users is limited.
 */
START_TEST(users_in_debt)
{
	struct rvl_manager m = { .cfg.user_bytes = 1000 };
	struct rvl_user *u;
	uint32_t n = 0;

	rvl_list_init(&m.users);
	rvl_fair_init(&m.sched.fair);
	u = rvl_user_get(&m, 5);
	u->share.in[RIVULET_PRIO_NORMAL].v = 100;
	rvl_user_put(u);
	ck_assert_ptr_eq(rvl_user_get(&m, 5), u);
	ck_assert_uint_eq(u->share.in[RIVULET_PRIO_NORMAL].v, 100);
	rvl_user_put(u);
	for (uid_t i = 0; i < 1000; i++) {
		u = rvl_user_get(&m, 100 + i);
		u->share.in[RIVULET_PRIO_LOW].v = 1;
		rvl_user_put(u);
	}
	rvl_list_each(u, &m.users, link)
		n++;
	ck_assert_uint_eq(n, 64);
	/* Once the other users have used as much time, the debt is gone. */
	m.sched.fair.v[RIVULET_PRIO_LOW] = 1;
	rvl_user_put(rvl_user_get(&m, 1));
	ck_assert_ptr_eq(m.users.next, &m.users);
}
END_TEST

/* Proves that the catalog explains every message id, and nothing else. */
START_TEST(catalog)
{
	static char text[16384];
	FILE *f = fopen("daemon/systemd/rivulet.catalog", "r");
	char entry[64];
	int entries = 0;
	size_t n;

	ck_assert_ptr_nonnull(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	for (int id = RVL_LOG_NONE + 1; id < RVL_LOG_COUNT; id++) {
		snprintf(entry, sizeof(entry), "\n-- %s\nSubject: ", rvl_log_message_id(id));
		ck_assert_msg(strstr(text, entry), "no entry %s", entry);
	}
	for (char *p = text; (p = strstr(p, "\n-- ")); p++)
		entries++;
	ck_assert_int_eq(entries, RVL_LOG_COUNT - 1);
}
END_TEST

/* Proves the format of a line without the journal, and that less urgent lines are left out. */
START_TEST(log_lines)
{
	struct rvl_about about = { .client = "me", .pid = 42 };
	char path[] = "/tmp/rivulet-log-XXXXXX", text[256];
	int fd = mkstemp(path), old = dup(2);
	ssize_t n;

	ck_assert_int_ge(fd, 0);
	unlink(path);
	unsetenv("JOURNAL_STREAM");
	rvl_log_init(LOG_INFO);
	dup2(fd, 2);
	rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL, "one %d", 1);
	rvl_log(LOG_DEBUG, RVL_LOG_NONE, NULL, "not this");
	rvl_log(LOG_INFO, RVL_LOG_PROTOCOL, &about, "two");
	dup2(old, 2);
	n = pread(fd, text, sizeof(text) - 1, 0);
	ck_assert_int_gt(n, 0);
	text[n] = 0;
	ck_assert_str_eq(text, "<4>rivuletd: one 1\n<6>rivuletd: [42 me] two\n");
	close(fd);
}
END_TEST

/* The answer about an instance's shapes if it had no run, or if there is no device. */
START_TEST(shape_of_no_run)
{
	struct rvl_run run = { .running = true };
	struct rvl_instance x = { .id = 7, .run = &run };
	uint64_t dim[RIVULET_MAX_DIMS];
	struct rvl_text why;

	ck_assert_int_eq(rvl_instance_shape(&x, 0, dim, &why), -EBUSY);
	x.run = NULL;
	ck_assert_int_eq(rvl_instance_shape(&x, 0, dim, &why), -ENODATA);
	/* The run ended well, and the device was removed after it. */
	x.ran = true;
	ck_assert_int_eq(rvl_instance_shape(&x, 0, dim, &why), -ENODEV);
	ck_assert_ptr_nonnull(strstr(why.s, "instance 7"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sched");
	TCase *t = tcase_create("rules");

	tcase_add_test(t, expected);
	tcase_add_test(t, expected_in_part);
	tcase_add_test(t, worst);
	tcase_add_loop_test(t, never_measured, 0, 2);
	tcase_add_test(t, accurate);
	tcase_add_test(t, users);
	tcase_add_test(t, a_user_is_freed_with_its_timer);
	tcase_add_test(t, users_in_debt);
	tcase_add_test(t, catalog);
	tcase_add_test(t, log_lines);
	tcase_add_test(t, shape_of_no_run);
	suite_add_tcase(s, t);
	return run_suite(s);
}
