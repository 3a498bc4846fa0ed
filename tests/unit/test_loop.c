// SPDX-License-Identifier: MIT
/*
 * The event loop's measurement of its callbacks, the threads that take work off the loop, and the
 * estimates of a program's time at a level.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "estimate.h"
#include "loop.h"
#include "offload.h"
#include "peak.h"
#include "rivulet_board.h"
#include "rivulet_program.h"
#include "suite.h"
#include "util.h"

static uint64_t now_ns = 1;

static uint64_t test_clock(void)
{
	return now_ns;
}

/* ---- peaks ---- */

START_TEST(peaks)
{
	struct rvl_peak p = { 0 };

	ck_assert_uint_eq(rvl_peak(&p), 0);
	rvl_peak_add(&p, 5, 30);
	rvl_peak_add(&p, 5, 20);
	ck_assert_uint_eq(rvl_peak(&p), 30);
	rvl_peak_add(&p, 6, 10);
	ck_assert_uint_eq(rvl_peak(&p), 30);
	rvl_peak_add(&p, 7, 5);
	ck_assert_uint_eq(rvl_peak(&p), 10);
	rvl_peak_add(&p, 7, 40);
	ck_assert_uint_eq(rvl_peak(&p), 40);
	/* An epoch without a value discards the values of earlier epochs. */
	rvl_peak_add(&p, 9, 1);
	ck_assert_uint_eq(rvl_peak(&p), 1);
}
END_TEST

/* ---- the loop ---- */

static uint64_t durations[] = { 3000, 9000, 5000 };
static size_t calls;

static int take_time(sd_event_source *source, void *data)
{
	now_ns += durations[calls++];
	if (calls == ARRAY_SIZE(durations))
		sd_event_exit(sd_event_source_get_event(source), *(int *)data);
	else
		sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

/*
 * The longest callback, the sum and number of all callbacks, and the exit code, which may be 0 or
 * negative.
 */
START_TEST(measured)
{
	static int codes[] = { 7, 0, -5 };
	struct rvl_loop loop = { 0 };
	sd_event_source *s;
	sd_event *e;

	rvl_clock = test_clock;
	ck_assert_int_ge(sd_event_new(&e), 0);
	ck_assert_int_ge(sd_event_add_defer(e, &s, take_time, &codes[_i]), 0);
	ck_assert_int_eq(rvl_loop_run(&loop, e), codes[_i]);
	ck_assert_uint_eq(calls, 3);
	ck_assert_uint_eq(loop.stall_ns, 9000);
	ck_assert_uint_eq(loop.busy_ns, 17000);
	/* The last turn runs the exit sources. */
	ck_assert_uint_ge(loop.turns, 3);
	ck_assert_uint_le(loop.turns, 4);
	ck_assert_uint_eq(rvl_loop_recent(&loop), 9000);
	/* The recent values are those of the present and the previous minute. */
	rvl_peak_add(&loop.recent, 1, 100);
	ck_assert_uint_eq(rvl_loop_recent(&loop), 9000);
	rvl_peak_add(&loop.recent, 2, 50);
	ck_assert_uint_eq(rvl_loop_recent(&loop), 100);
	sd_event_source_unref(s);
	sd_event_unref(e);
}
END_TEST

/* ---- threads ---- */

struct item {
	struct rvl_work work;
	char name;
	sem_t *wait;
};

static struct rvl_offload o;
static sd_event *event;
static char ran[300], done_with[300];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t gate, at_gate;

static void note(char *list, char name)
{
	pthread_mutex_lock(&lock);
	list[strlen(list)] = name;
	pthread_mutex_unlock(&lock);
}

static void run_item(struct rvl_work *w)
{
	struct item *i = rvl_container(w, struct item, work);

	if (i->wait) {
		sem_post(&at_gate);
		sem_wait(i->wait);
	}
	note(ran, i->name);
}

static void item_done(struct rvl_work *w)
{
	note(done_with, rvl_container(w, struct item, work)->name);
}

static void submit(struct item *i, char name, struct rvl_work_owner *owner, bool waits)
{
	*i = (struct item){ .work = { .owner = owner, .run = run_item, .done = item_done },
			    .name = name,
			    .wait = waits ? &gate : NULL };
	rvl_offload_submit(&o, &i->work);
	if (waits)
		sem_wait(&at_gate);
}

static void threads(uint32_t n)
{
	ck_assert_int_ge(sd_event_new(&event), 0);
	sem_init(&gate, 0, 0);
	sem_init(&at_gate, 0, 0);
	ck_assert_int_eq(rvl_offload_start(&o, event, n), 0);
	ck_assert_uint_eq(o.threads, n);
}

static uint64_t in_a_minute(void)
{
	return rvl_now() + 60 * NSEC_PER_SEC;
}

static void stop(void)
{
	ck_assert(rvl_offload_drain(&o, in_a_minute()));
	rvl_offload_stop(&o);
	ck_assert_int_eq(o.event, -1);
	rvl_offload_stop(&o);
	sd_event_unref(event);
}

/*
 * Items without an owner are first. Then the owner that was served least recently is next. The
 * items of an owner run in their order.
 */
START_TEST(order)
{
	struct rvl_work_owner a = { 0 }, b = { 0 }, c = { 0 };
	struct item item[8];

	threads(1);
	submit(&item[0], '0', NULL, true);
	submit(&item[1], '1', &a, false);
	submit(&item[2], '2', &a, false);
	submit(&item[3], '3', &a, false);
	submit(&item[4], '4', &b, false);
	submit(&item[5], '5', &b, false);
	submit(&item[6], '6', &c, false);
	submit(&item[7], '7', NULL, false);
	ck_assert_str_eq(done_with, "");
	sem_post(&gate);
	ck_assert(rvl_offload_drain(&o, in_a_minute()));
	ck_assert_str_eq(ran, "07146253");
	ck_assert_str_eq(done_with, ran);
	stop();
}
END_TEST

/*
 * Two items of one owner do not run at the same time, although threads are free; items of another
 * owner do.
 */
START_TEST(one_at_a_time)
{
	struct rvl_work_owner a = { 0 }, b = { 0 };
	struct item item[4];

	threads(2);
	submit(&item[0], '0', &a, true);
	submit(&item[1], '1', &a, false);
	submit(&item[2], '2', &b, false);
	/* The loop receives the item back. */
	while (!*done_with)
		ck_assert_int_ge(sd_event_run(event, 60 * USEC_PER_SEC), 0);
	ck_assert_str_eq(ran, "2");
	ck_assert_str_eq(done_with, "2");
	sem_post(&gate);
	stop();
	ck_assert_str_eq(ran, "201");
	ck_assert(!a.busy && !b.busy);
}
END_TEST

/*
 * A drain ends at its deadline while items are still in progress. A later drain finds nothing to
 * do.
 */
START_TEST(drain)
{
	struct item item;

	ck_assert(rvl_offload_drain(&o, 0));
	threads(1);
	ck_assert(rvl_offload_drain(&o, 0));
	submit(&item, 'x', NULL, true);
	ck_assert(!rvl_offload_drain(&o, 0));
	ck_assert(!rvl_offload_drain(&o, rvl_now() + 20 * NSEC_PER_MSEC));
	ck_assert_str_eq(done_with, "");
	sem_post(&gate);
	stop();
	ck_assert_str_eq(done_with, "x");
}
END_TEST

/*
 * At most 256 items may be handed over for a release. Without threads nothing may be handed over.
 */
START_TEST(room)
{
	static struct item item[256];

	ck_assert(!rvl_offload_has_room(&o));
	threads(1);
	submit(&item[0], '0', NULL, true);
	for (int i = 1; i < 255; i++)
		submit(&item[i], '.', NULL, false);
	ck_assert(rvl_offload_has_room(&o));
	submit(&item[255], '.', NULL, false);
	ck_assert(!rvl_offload_has_room(&o));
	sem_post(&gate);
	ck_assert(rvl_offload_drain(&o, in_a_minute()));
	ck_assert(rvl_offload_has_room(&o));
	ck_assert_uint_eq(o.active, 0);
	stop();
}
END_TEST

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* A thread closes the descriptor. It is closed at once if there is no thread or no room. */
START_TEST(closing)
{
	static struct item item[256];
	int fd[3];

	for (int i = 0; i < 3; i++)
		fd[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(rvl_offload_close(&o, fd[0]), -1);
	ck_assert(!is_open(fd[0]));
	threads(1);
	ck_assert_int_eq(rvl_offload_close(&o, -1), -1);
	ck_assert_uint_eq(o.active, 0);
	submit(&item[0], '0', NULL, true);
	ck_assert_int_eq(rvl_offload_close(&o, fd[1]), -1);
	ck_assert(is_open(fd[1]));
	for (int i = 1; i < 255; i++)
		submit(&item[i], '.', NULL, false);
	ck_assert_int_eq(rvl_offload_close(&o, fd[2]), -1);
	ck_assert(!is_open(fd[2]));
	sem_post(&gate);
	stop();
	ck_assert(!is_open(fd[1]));
	/* Descriptor 0 is valid. */
	close(0);
	ck_assert_int_eq(open("/dev/null", O_RDONLY), 0);
	ck_assert_int_eq(rvl_offload_close(&o, 0), -1);
	ck_assert(!is_open(0));
}
END_TEST

/* ---- estimates ---- */

static const struct rivulet_board board = {
	.name = "b",
	.levels = 3,
	.level = { { .hz = 100000000 }, { .hz = 200000000 }, { .hz = 400000000 } }
};
static struct rivulet_program file;
static const struct rvl_override own;

static struct rvl_program program(void)
{
	return (struct rvl_program){ .file = &file,
				     .levels = 0xf,
				     .cycles_at = { 1000, 2000, 3000 } };
}

static void expect(const struct rvl_program *p, struct rvl_override over, uint64_t a, uint64_t b,
		   uint64_t c)
{
	ck_assert_uint_eq(rvl_program_expected_ns(p, &board, 0, over), a);
	ck_assert_uint_eq(rvl_program_expected_ns(p, &board, 1, over), b);
	ck_assert_uint_eq(rvl_program_expected_ns(p, &board, 2, over), c);
	ck_assert_uint_eq(rvl_program_expected_ns(p, &board, 3, over), 0);
}

/*
 * The time is that of the compiler's cycles at the level's clock, or at the levels that an override
 * names.
 */
START_TEST(reckoned)
{
	struct rvl_program p = program();
	struct rivulet_board b = board;

	expect(&p, own, 10000, 10000, 7500);
	expect(&p, (struct rvl_override){ .variant = 3 }, 30000, 15000, 7500);
	expect(&p, (struct rvl_override){ .clock = 1 }, 10000, 20000, 30000);
	expect(&p, (struct rvl_override){ .variant = 1, .clock = 3 }, 2500, 2500, 2500);
	b.level[1].hz = 0;
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &b, 1, own), 0);
	/* An estimate is at most an hour, whatever the file says. */
	p.cycles_at[0] = 360000000000;
	p.cycles_at[1] = UINT64_MAX;
	p.cycles_at[2] = 1440000000000 - 400;
	expect(&p, own, 3600000000000, 3600000000000, 3599999999000);
}
END_TEST

/*
 * A measured level uses its measurement. The time beyond its estimate is added at the other levels.
 */
START_TEST(measured_levels)
{
	struct rvl_program p = program();

	p.at[1].measured_ns = 12000;
	expect(&p, own, 12000, 12000, 9500);
	p.at[2].measured_ns = 7600;
	expect(&p, own, 12000, 12000, 7600);
	p.at[2].measured_ns = 10500;
	expect(&p, own, 13000, 12000, 10500);
	/*
	 * A program that is faster than its estimate does not lower the estimate of other levels.
	 */
	p.at[1].measured_ns = 0;
	p.at[2].measured_ns = 100;
	expect(&p, own, 10000, 10000, 100);
	p.at[2].measured_ns = UINT64_MAX;
	ck_assert_uint_eq(rvl_program_expected_ns(&p, &board, 0, own), UINT64_MAX);
}
END_TEST

/* The worst case is the longest recent run plus an eighth. */
START_TEST(worst)
{
	struct rvl_program p = program();

	p.at[0].measured_ns = 5;
	ck_assert_uint_eq(rvl_program_worst_ns(&p, &board, 0, own), 11250);
	rvl_peak_add(&p.at[1].longest, 1, 16000);
	ck_assert_uint_eq(rvl_program_worst_ns(&p, &board, 1, own), 18000);
	ck_assert_uint_eq(rvl_program_worst_ns(&p, &board, 0, own), 18000);
	ck_assert_uint_eq(rvl_program_worst_ns(&p, &board, 2, own), 15187);
	ck_assert_uint_eq(rvl_program_worst_ns(&p, &board, 3, own), 0);
	rvl_peak_add(&p.at[1].longest, 1, UINT64_MAX);
	ck_assert_uint_eq(rvl_program_worst_ns(&p, &board, 1, own), UINT64_MAX);
}
END_TEST

/*
 * A program that never ran is assumed to take as long as the longest run of any program. A program
 * that ran, at any level, is not.
 */
START_TEST(promised)
{
	struct rvl_program p = program();

	ck_assert_uint_eq(rvl_program_promised_ns(&p, &board, 0, own, 0), 11250);
	ck_assert_uint_eq(rvl_program_promised_ns(&p, &board, 0, own, 11249), 11250);
	ck_assert_uint_eq(rvl_program_promised_ns(&p, &board, 0, own, 11251), 11251);
	p.at[RIVULET_LEVELS - 1].runs = 1;
	ck_assert_uint_eq(rvl_program_promised_ns(&p, &board, 0, own, 11251), 11250);
	p.at[RIVULET_LEVELS - 1].runs = 0;
	p.at[0].runs = 1;
	ck_assert_uint_eq(rvl_program_promised_ns(&p, &board, 0, own, 11251), 11250);
}
END_TEST

/*
 * The levels that reach an accuracy, from the fastest down. An unknown accuracy ends the list, or
 * is skipped.
 */
START_TEST(accurate)
{
	struct rvl_program p = program();
	static const uint32_t ppm[] = { 700000, 800000, 900000, 0 };

	for (int l = 0; l < 4; l++)
		file.level[l].accuracy = ppm[l];
	ck_assert_uint_eq(rvl_program_accurate(&p, 800000), 6);
	ck_assert_uint_eq(rvl_program_accurate(&p, 800001), 4);
	ck_assert_uint_eq(rvl_program_accurate(&p, 900000), 4);
	ck_assert_uint_eq(rvl_program_accurate(&p, 900001), 0);
	ck_assert_uint_eq(rvl_program_accurate(&p, 1), 7);
	p.levels = 0xb;
	ck_assert_uint_eq(rvl_program_accurate(&p, 700000), 3);
	file.level[1].accuracy = 0;
	p.levels = 0x7;
	ck_assert_uint_eq(rvl_program_accurate(&p, 700000), 4);
	file.level[0].accuracy = 950000;
	file.level[2].accuracy = 0;
	ck_assert_uint_eq(rvl_program_accurate(&p, 900000), 1);
	file.level[7].accuracy = 1000000;
	p.levels = 0x80;
	ck_assert_uint_eq(rvl_program_accurate(&p, 1000000), 0x80);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("loop");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, peaks);
	tcase_add_loop_test(t, measured, 0, 3);
	tcase_add_test(t, order);
	tcase_add_test(t, one_at_a_time);
	tcase_add_test(t, drain);
	tcase_add_test(t, room);
	tcase_add_test(t, closing);
	tcase_add_test(t, reckoned);
	tcase_add_test(t, measured_levels);
	tcase_add_test(t, worst);
	tcase_add_test(t, promised);
	tcase_add_test(t, accurate);
	suite_add_tcase(s, t);
	return run_suite(s);
}
