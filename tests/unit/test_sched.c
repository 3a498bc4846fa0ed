// SPDX-License-Identifier: MIT
/*
 * The daemon's rules without the daemon: order and admission of runs, expected times, users, message
 * ids.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "manager.h"
#include "suite.h"

#define MS NSEC_PER_MSEC

static struct rvl_text err;

static struct rvl_slot slot(uint32_t priority, uint64_t deadline_ms, uint64_t arrival,
			    uint64_t work_ms, bool hard)
{
	return (struct rvl_slot){ .priority = priority,
				  .deadline = deadline_ms ? deadline_ms * MS : UINT64_MAX,
				  .arrival = arrival, .expected = work_ms * MS, .hard = hard };
}

/* Proves the order: priority, then deadline (none is last), then arrival. */
START_TEST(order)
{
	struct rvl_slot high = slot(2, 0, 9, 1, false), soon = slot(1, 10, 8, 1, false),
			later = slot(1, 20, 7, 1, false), never = slot(1, 0, 1, 1, false),
			never2 = slot(1, 0, 2, 1, false), low = slot(0, 1, 0, 1, true);
	const struct rvl_slot *sorted[] = { &high, &soon, &later, &never, &never2, &low };

	for (size_t i = 0; i < ARRAY_SIZE(sorted); i++)
		for (size_t k = 0; k < ARRAY_SIZE(sorted); k++)
			ck_assert(rvl_slot_before(sorted[i], sorted[k]) == (i < k));
}
END_TEST

/*
 * Proves that users share: who queues much waits behind who queues little, and waiting is no
 * credit.
 */
START_TEST(turns)
{
	uint64_t much = 0, little = 0, late = 0, now = 0;
	struct rvl_slot a[3], b;

	for (int i = 0; i < 3; i++) {
		a[i] = slot(1, 0, (uint64_t)i, 10, false);
		a[i].turn = rvl_turn(&much, now, a[i].expected);
	}
	b = slot(1, 0, 99, 10, false);
	b.turn = rvl_turn(&little, now, b.expected);
	ck_assert(rvl_slot_before(&a[0], &b));	/* came first, same turn */
	ck_assert(rvl_slot_before(&b, &a[1]));
	ck_assert(rvl_slot_before(&a[1], &a[2]));
	/* After a[2] has started, a user who was away stands behind it, not before everybody. */
	now = a[2].turn;
	ck_assert_uint_eq(rvl_turn(&late, now, 0), a[2].turn);
	ck_assert_uint_eq(late, now + 1);
	late = UINT64_MAX - 1;
	rvl_turn(&late, 0, 10);
	ck_assert_uint_eq(late, UINT64_MAX);
}
END_TEST

static int admit(const struct rvl_slot *a, const struct rvl_slot *b, const struct rvl_slot *fresh,
		 uint64_t busy_ms)
{
	const struct rvl_slot *queue[] = { a, b };

	err.s[0] = 0;
	return rvl_admit(queue, b ? 2 : a ? 1 : 0, fresh, 0, busy_ms * MS, &err);
}

/* Proves what is promised: work under way and before it counts, what comes after it does not. */
START_TEST(promise)
{
	struct rvl_slot first = slot(1, 10, 0, 5, false), last = slot(1, 0, 0, 1000, false);
	struct rvl_slot ok = slot(1, 30, 1, 10, true), tight = slot(1, 17, 1, 10, true),
			soft = slot(1, 1, 1, 10, false);

	ck_assert_int_eq(admit(&first, &last, &ok, 3), 0);
	ck_assert_int_eq(admit(&first, &last, &tight, 2), 0);
	ck_assert_int_eq(admit(&first, &last, &tight, 3), -ETIME);
	ck_assert_str_eq(err.s,
			 "would end in 18000 us (10000 us of it its own), 1000 us after its deadline");
	ck_assert_int_eq(admit(NULL, NULL, &tight, 7), 0);
	ck_assert_int_eq(admit(NULL, NULL, &tight, 8), -ETIME);
	ck_assert_int_eq(admit(NULL, NULL, &soft, 1000), 0);
}
END_TEST

/*
 * Proves that a promise given holds: what would break it is refused, even without a deadline of
 * its own.
 */
START_TEST(keeping)
{
	struct rvl_slot promised = slot(1, 20, 0, 10, true), late = slot(1, 5, 0, 10, true);
	struct rvl_slot urgent = slot(2, 0, 1, 15, false), small = slot(2, 0, 1, 9, false),
			after = slot(0, 0, 1, 500, false);

	ck_assert_int_eq(admit(&promised, NULL, &urgent, 0), -ETIME);
	ck_assert_ptr_nonnull(strstr(err.s, "promised before would miss its deadline by 5000 us"));
	ck_assert_int_eq(admit(&promised, NULL, &small, 0), 0);
	ck_assert_int_eq(admit(&promised, NULL, &after, 0), 0);
	/* Too late already: not the newcomer's fault. */
	ck_assert_int_eq(admit(&late, NULL, &urgent, 0), 0);
	/* Times beyond the end of time do not wrap. */
	urgent.expected = UINT64_MAX;
	ck_assert_int_eq(admit(&promised, NULL, &urgent, 0), -ETIME);
}
END_TEST

/* ---- expected times ---- */

/* Proves that a time is reckoned from cycles until it has been measured. */
START_TEST(expected)
{
	struct rivulet_board b = { .levels = 2, .level = { { .hz = 111000000 }, { .hz = 333000000 } } };
	struct rvl_program p = { .cycles_at = { 333, 333 } };
	struct rvl_way own = { 0 };

	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 1, own), 1000);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, own), 3000);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 2, own), 0);
	p.at[1].measured_ns = 77;
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 1, own), 77);
	/* Faster than the device can be: measured on the model. */
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, own), 3000);
	/* What is not the device's stays as it was measured. */
	p.at[1].measured_ns = 1500;
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, own), 3500);
}
END_TEST

/* Proves that a kept variant costs its own cycles at each clock, and a kept clock each level's cycles. */
START_TEST(expected_in_part)
{
	struct rivulet_board b = { .levels = 2, .level = { { .hz = 100000000 }, { .hz = 200000000 } } };
	struct rvl_program p = { .cycles_at = { 300, 400 } };

	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, (struct rvl_way){ .variant = 2 }), 4000);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 1, (struct rvl_way){ .variant = 2 }), 2000);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, (struct rvl_way){ .clock = 2 }), 1500);
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 1, (struct rvl_way){ .clock = 2 }), 2000);
	p.at[1].measured_ns = 2100;
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 0, (struct rvl_way){ .clock = 2 }), 1600);
}
END_TEST

/* Proves which levels a wish for accuracy leaves: those from which on upward it is met. */
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

/*
 * Proves that quotas cannot be passed by arithmetic, and users disappear with their last
 * reference.
 */
START_TEST(users)
{
	struct rvl_manager m = { .cfg.user_bytes = 1000 };
	struct rvl_user *u, *v;
	uint32_t n = 0;

	rvl_list_init(&m.users);
	u = rvl_user_get(&m, 5);
	v = rvl_user_get(&m, 6);
	ck_assert_ptr_eq(rvl_user_get(&m, 5), u);
	ck_assert_int_eq(rvl_user_charge(&m, u, 600, "it", &err), 0);
	ck_assert_int_eq(rvl_user_charge(&m, u, 401, "it", &err), -EDQUOT);
	ck_assert_str_eq(err.s, "it needs 401 bytes, user 5 has 400 of MemoryPerUser=1000 left");
	ck_assert_int_eq(rvl_user_charge(&m, u, UINT64_MAX, "it", &err), -EDQUOT);
	ck_assert_int_eq(rvl_user_charge(&m, v, 1000, "it", &err), 0);
	m.cfg.user_bytes = 10;	/* a reload lowers it below what is used */
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

/*
 * Proves that every message id is explained by the catalog, and the catalog explains nothing else.
 */
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

/* Proves what a line without the journal looks like, and that less urgent ones are left out. */
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

int main(void)
{
	Suite *s = suite_create("sched");
	TCase *t = tcase_create("rules");

	tcase_add_test(t, order);
	tcase_add_test(t, turns);
	tcase_add_test(t, promise);
	tcase_add_test(t, keeping);
	tcase_add_test(t, expected);
	tcase_add_test(t, expected_in_part);
	tcase_add_test(t, accurate);
	tcase_add_test(t, users);
	tcase_add_test(t, catalog);
	tcase_add_test(t, log_lines);
	suite_add_tcase(s, t);
	return run_suite(s);
}
