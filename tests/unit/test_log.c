// SPDX-License-Identifier: MIT
/*
 * Log entries, field by field, in the journal and on stderr; the rate limit of a user; lists. The
 * journal's function is replaced at link time, and stderr is a file.
 */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "log.h"
#include "suite.h"

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

static struct {
	char text[20][800];
	int n, entries;
} journal;

int __wrap_sd_journal_sendv(const struct iovec *iov, int n);
int __wrap_sd_journal_sendv(const struct iovec *iov, int n)
{
	ck_assert_int_le(n, 20);
	journal.n = n;
	journal.entries++;
	for (int i = 0; i < n; i++) {
		ck_assert_uint_lt(iov[i].iov_len, sizeof(journal.text[i]));
		memcpy(journal.text[i], iov[i].iov_base, iov[i].iov_len);
		journal.text[i][iov[i].iov_len] = 0;
	}
	return 0;
}

static int errors = -1; /* file that replaces stderr */

static void setup(void)
{
	errors = memfd_create("stderr", MFD_CLOEXEC);
	ck_assert(errors >= 0 && dup2(errors, STDERR_FILENO) == STDERR_FILENO);
}

/* Returns what was written to stderr since the last call. */
static const char *printed(void)
{
	static char text[4096];
	ssize_t n = pread(errors, text, sizeof(text) - 1, 0);

	ck_assert_int_ge(n, 0);
	text[n] = 0;
	ck_assert(!ftruncate(errors, 0) && !lseek(STDERR_FILENO, 0, SEEK_SET));
	return text;
}

/*
 * Sets JOURNAL_STREAM, by which systemd names the stream that it connected to stderr. @device and
 * @inode are added to the real numbers.
 */
static void journal_stream(unsigned int device, unsigned int inode)
{
	char text[64];
	struct stat st;

	ck_assert(!fstat(STDERR_FILENO, &st));
	snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev + device,
		 (unsigned long long)st.st_ino + inode);
	setenv("JOURNAL_STREAM", text, 1);
}

static void expect_fields(const char *const *field)
{
	int n = 0;

	for (; field[n]; n++)
		ck_assert_str_eq(n < journal.n ? journal.text[n] : "(missing)", field[n]);
	ck_assert_int_eq(journal.n, n);
}

/* ---- where an entry goes ---- */

/* Entries go to the journal only if stderr is the stream that systemd made. */
START_TEST(destination)
{
	unsetenv("JOURNAL_STREAM");
	rvl_log_init(LOG_INFO);
	rvl_log(LOG_INFO, RVL_LOG_STARTED, NULL, "ready at %d", 7);
	ck_assert_str_eq(printed(), "<6>rivuletd: ready at 7\n");
	journal_stream(1, 0);
	rvl_log_init(LOG_INFO);
	rvl_log(LOG_INFO, RVL_LOG_STARTED, NULL, "x");
	ck_assert_str_eq(printed(), "<6>rivuletd: x\n");
	journal_stream(0, 1);
	rvl_log_init(LOG_INFO);
	rvl_log(LOG_INFO, RVL_LOG_STARTED, NULL, "x");
	ck_assert_str_eq(printed(), "<6>rivuletd: x\n");
	setenv("JOURNAL_STREAM", "12", 1);
	rvl_log_init(LOG_INFO);
	rvl_log(LOG_INFO, RVL_LOG_STARTED, NULL, "x");
	ck_assert_str_eq(printed(), "<6>rivuletd: x\n");
	ck_assert_int_eq(journal.entries, 0);
	journal_stream(0, 0);
	rvl_log_init(LOG_INFO);
	rvl_log(LOG_INFO, RVL_LOG_STARTED, NULL, "x");
	ck_assert_str_eq(printed(), "");
	ck_assert_int_eq(journal.entries, 1);
}
END_TEST

/* The least urgent priority that is shown. */
START_TEST(priority)
{
	rvl_log_init(LOG_NOTICE);
	rvl_log(LOG_INFO, RVL_LOG_NONE, NULL, "hidden");
	ck_assert_str_eq(printed(), "");
	rvl_log(LOG_NOTICE, RVL_LOG_NONE, NULL, "shown");
	ck_assert_str_eq(printed(), "<5>rivuletd: shown\n");
	rvl_log(LOG_EMERG, RVL_LOG_NONE, NULL, "shown");
	ck_assert_str_eq(printed(), "<0>rivuletd: shown\n");
}
END_TEST

/* On stderr an entry names the client that it is about. */
START_TEST(client_on_stderr)
{
	rvl_log_init(LOG_INFO);
	rvl_log(LOG_ERR, RVL_LOG_NONE, &(struct rvl_about){ .pid = 12, .client = "camera" }, "x");
	ck_assert_str_eq(printed(), "<3>rivuletd: [12 camera] x\n");
	rvl_log(LOG_ERR, RVL_LOG_NONE, &(struct rvl_about){ .pid = 1 }, "x");
	ck_assert_str_eq(printed(), "<3>rivuletd: [1 ] x\n");
	rvl_log(LOG_ERR, RVL_LOG_NONE, &(struct rvl_about){ .client = "camera" }, "x");
	ck_assert_str_eq(printed(), "<3>rivuletd: x\n");
}
END_TEST

/* The last error always goes to stderr, with a prefix where journald does not add the unit's name.
 */
START_TEST(last)
{
	unsetenv("JOURNAL_STREAM");
	rvl_log_init(LOG_EMERG);
	rvl_log_last("%s: %d", "out of luck", 5);
	ck_assert_str_eq(printed(), "<3>rivuletd: out of luck: 5\n");
	journal_stream(0, 0);
	rvl_log_init(LOG_EMERG);
	rvl_log_last("%s: %d", "out of luck", 5);
	ck_assert_str_eq(printed(), "<3>out of luck: 5\n");
	ck_assert_int_eq(journal.entries, 0);
}
END_TEST

/* ---- the fields of a journal entry ---- */

static void setup_journal(void)
{
	setup();
	journal_stream(0, 0);
	rvl_log_init(LOG_DEBUG);
}

START_TEST(fields)
{
	const struct rvl_about all = { .device = "/dev/accel/accel0",
				       .model = "lenet",
				       .job = 9,
				       .client = "camera",
				       .pid = 77,
				       .uid = 1000,
				       .have_level = true,
				       .level = 3,
				       .have_charge = true,
				       .charge = 427003,
				       .reason = "battery" };
	const struct rvl_about none = {
		.device = "", .model = "", .client = "", .level = 3, .charge = 5, .uid = 4
	};
	const struct rvl_about zero = { .have_level = true, .have_charge = true, .pid = 1 };

	rvl_log(LOG_WARNING, RVL_LOG_POLICY_LEVEL, &all, "level %d", 3);
	expect_fields((const char *const[]){
		"MESSAGE=level 3", "PRIORITY=4", "SYSLOG_IDENTIFIER=rivuletd",
		"MESSAGE_ID=27e9d6aa6fe24b9f9d3aaf6f0fb8fbb1", "RIVULET_DEVICE=/dev/accel/accel0",
		"RIVULET_MODEL=lenet", "RIVULET_JOB=9", "RIVULET_LEVEL=3", "RIVULET_CHARGE=42.7003",
		"RIVULET_REASON=battery", "RIVULET_CLIENT=camera", "RIVULET_PID=77",
		"RIVULET_UID=1000", NULL });
	/* An unknown value has no field. */
	rvl_log(LOG_DEBUG, RVL_LOG_NONE, &none, "x");
	expect_fields((const char *const[]){ "MESSAGE=x", "PRIORITY=7",
					     "SYSLOG_IDENTIFIER=rivuletd", NULL });
	rvl_log(LOG_DEBUG, RVL_LOG_NONE, NULL, "x");
	expect_fields((const char *const[]){ "MESSAGE=x", "PRIORITY=7",
					     "SYSLOG_IDENTIFIER=rivuletd", NULL });
	/* Level 0, an empty battery and root are valid values. */
	rvl_log(LOG_DEBUG, RVL_LOG_NONE, &zero, "x");
	expect_fields((const char *const[]){
		"MESSAGE=x", "PRIORITY=7", "SYSLOG_IDENTIFIER=rivuletd", "RIVULET_LEVEL=0",
		"RIVULET_CHARGE=0.0000", "RIVULET_PID=1", "RIVULET_UID=0", NULL });
}
END_TEST

/* A text that comes from a client's file stays one line, and a long one is cut. */
START_TEST(hostile_text)
{
	char text[2000], want[800];

	rvl_log(LOG_INFO, RVL_LOG_NONE, NULL, "layer %s", "a\nPRIORITY=0\xff\033[2J");
	ck_assert_str_eq(journal.text[0], "MESSAGE=layer a?PRIORITY=0??[2J");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	rvl_log(LOG_INFO, RVL_LOG_NONE, NULL, "%s", text);
	snprintf(want, sizeof(want), "MESSAGE=%.630s", text);
	ck_assert_str_eq(journal.text[0], want);
	/* A field from a client's file is treated in the same way. */
	rvl_log(LOG_INFO, RVL_LOG_NONE, &(struct rvl_about){ .model = text }, "y");
	snprintf(want, sizeof(want), "RIVULET_MODEL=%.625s", text);
	ck_assert_str_eq(journal.text[3], want);
}
END_TEST

/* Every event has an id of 32 hexadecimal digits of its own. */
START_TEST(message_ids)
{
	ck_assert_str_eq(rvl_log_message_id(RVL_LOG_NONE), "");
	for (int i = RVL_LOG_NONE + 1; i < RVL_LOG_COUNT; i++) {
		const char *id = rvl_log_message_id((enum rvl_log_id)i);

		ck_assert_uint_eq(strlen(id), 32);
		ck_assert_uint_eq(strspn(id, "0123456789abcdef"), 32);
		for (int j = RVL_LOG_NONE; j < i; j++)
			ck_assert_str_ne(id, rvl_log_message_id((enum rvl_log_id)j));
	}
}
END_TEST

/* ---- the rate ---- */

static uint64_t now_ns = 1;

static uint64_t test_clock(void)
{
	return now_ns;
}

/*
 * Three entries are written at once and one per second after that. The next entry that is written
 * has the number of suppressed ones.
 */
START_TEST(rate)
{
	struct rvl_rate r = RVL_RATE(3, NSEC_PER_SEC);
	const struct rvl_about a = { .rate = &r, .uid = 1000 };
	uint64_t suppressed = 77;

	rvl_clock = test_clock;
	r.refilled = now_ns;
	for (int i = 0; i < 10; i++)
		rvl_log(LOG_INFO, RVL_LOG_NONE, &a, "event %d", i);
	ck_assert_int_eq(journal.entries, 3);
	ck_assert_str_eq(journal.text[0], "MESSAGE=event 2");
	ck_assert(!rvl_rate_is_full(&r));
	now_ns += NSEC_PER_SEC - 1;
	rvl_log(LOG_INFO, RVL_LOG_NONE, &a, "early");
	ck_assert_int_eq(journal.entries, 3);
	/* An entry that is not urgent enough takes no token. */
	now_ns += 1;
	rvl_log_init(LOG_NOTICE);
	rvl_log(LOG_INFO, RVL_LOG_NONE, &a, "hidden");
	rvl_log(LOG_NOTICE, RVL_LOG_NONE, &a, "in time");
	ck_assert_int_eq(journal.entries, 5);
	ck_assert_str_eq(journal.text[0], "MESSAGE=in time");
	ck_assert_uint_eq(r.suppressed, 0);
	/* After a long time there are as many tokens as at first, and no more. */
	now_ns += 100 * NSEC_PER_SEC;
	ck_assert(rvl_rate_is_full(&r));
	for (int i = 0; i < 3; i++) {
		ck_assert(rvl_rate_allows(&r, &suppressed));
		ck_assert_uint_eq(suppressed, 0);
	}
	ck_assert(!rvl_rate_allows(&r, &suppressed));
	ck_assert_uint_eq(r.suppressed, 1);
	/*
	 * Tokens that came back one by one are available. A bucket that refused an entry is not
	 * refilled at once.
	 */
	now_ns += 2 * NSEC_PER_SEC;
	ck_assert(!rvl_rate_is_full(&r));
	ck_assert(rvl_rate_allows(&r, &suppressed));
	ck_assert_uint_eq(suppressed, 1);
	ck_assert_uint_eq(r.tokens, 1);
	now_ns += 2 * NSEC_PER_SEC - 1;
	ck_assert(!rvl_rate_is_full(&r));
	now_ns += 1;
	ck_assert(rvl_rate_is_full(&r));
	/* Without an interval nothing is refused. */
	r = RVL_RATE(1, 0);
	for (int i = 0; i < 5; i++)
		ck_assert(rvl_rate_allows(&r, &suppressed));
}
END_TEST

/* The entry that counts the suppressed ones names the user, and is written before the next one. */
START_TEST(suppressed_are_counted)
{
	struct rvl_rate r = RVL_RATE(1, NSEC_PER_SEC);
	const struct rvl_about a = { .rate = &r, .uid = 1000 };

	unsetenv("JOURNAL_STREAM");
	rvl_log_init(LOG_INFO);
	rvl_clock = test_clock;
	r.refilled = now_ns;
	for (int i = 0; i < 5; i++)
		rvl_log(LOG_ERR, RVL_LOG_NONE, &a, "event %d", i);
	now_ns += NSEC_PER_SEC;
	rvl_log(LOG_ERR, RVL_LOG_NONE, &a, "event");
	ck_assert_str_eq(printed(), "<3>rivuletd: event 0\n"
				    "<5>rivuletd: 4 entries about user 1000 were suppressed\n"
				    "<3>rivuletd: event\n");
}
END_TEST

/* ---- helpers ---- */

START_TEST(pages)
{
	ck_assert_uint_eq(rvl_pages(0), 0);
	ck_assert_uint_eq(rvl_pages(1), 4096);
	ck_assert_uint_eq(rvl_pages(4096), 4096);
	ck_assert_uint_eq(rvl_pages(4097), 8192);
}
END_TEST

struct member {
	int n;
	struct rvl_list link;
};

/* Members are visited in the order in which they were added, and the current one may be removed. */
START_TEST(lists)
{
	struct member a[4] = { { .n = 0 }, { .n = 1 }, { .n = 2 }, { .n = 3 } }, *m;
	struct rvl_list head;
	int sum = 0;

	rvl_list_init(&head);
	rvl_list_each(m, &head, link) ck_abort_msg("an empty list has a member");
	for (int i = 0; i < 4; i++)
		rvl_list_add_tail(&head, &a[i].link);
	rvl_list_each(m, &head, link)
	{
		sum = 10 * sum + m->n;
		if (m->n % 2)
			rvl_list_del(&m->link);
	}
	ck_assert_int_eq(sum, 123);
	rvl_list_del(&a[1].link); /* it is in no list, so the call has no effect */
	sum = 0;
	rvl_list_each(m, &head, link) sum = 10 * sum + m->n + 1;
	ck_assert_int_eq(sum, 13);
	ck_assert_ptr_eq(head.prev, &a[2].link);
	ck_assert_ptr_eq(a[2].link.prev, &a[0].link);
}
END_TEST

/* The clock is that of the kernel's monotonic time. */
START_TEST(monotonic_clock)
{
	struct timespec before, after;
	uint64_t now;

	clock_gettime(CLOCK_MONOTONIC, &before);
	now = rvl_now();
	clock_gettime(CLOCK_MONOTONIC, &after);
	ck_assert_uint_ge(now, (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec);
	ck_assert_uint_le(now, (uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log");
	TCase *t = tcase_create("stderr"), *j = tcase_create("journal");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, destination);
	tcase_add_test(t, priority);
	tcase_add_test(t, client_on_stderr);
	tcase_add_test(t, last);
	tcase_add_test(t, message_ids);
	tcase_add_test(t, suppressed_are_counted);
	tcase_add_test(t, pages);
	tcase_add_test(t, lists);
	tcase_add_test(t, monotonic_clock);
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(j, setup_journal, NULL);
	tcase_add_test(j, fields);
	tcase_add_test(j, hostile_text);
	tcase_add_test(j, rate);
	suite_add_tcase(s, j);
	return run_suite(s);
}
