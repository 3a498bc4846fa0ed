// SPDX-License-Identifier: MIT
/* Streams of the client library, against a daemon: order, overlap, limits, and frames that fail. */
#include <check.h>

#include "rivulet.h"
#include "share_rig.h"
#include "suite.h"

#define FRAMES	8
#define PLACES	4	/* most requests of a ring here */
#define PIXELS	784
#define CLASSES 10

/* A stream of LeNet, with memory behind every place of its ring. */
struct movie {
	struct rivulet_client *c;
	struct rivulet_stream *s;
	float in[PLACES][PIXELS], out[PLACES][CLASSES];
};

static void movie_open(struct movie *m, uint32_t depth, uint32_t want)
{
	struct rivulet_model *lenet;

	ck_assert_msg(!rivulet_open(NULL, &m->c), "%s", rivulet_last_error());
	ck_assert_msg(!rivulet_model_load(m->c, "models/lenet.onnx", NULL, &lenet), "%s",
		      rivulet_last_error());
	ck_assert_msg(!rivulet_stream_new(lenet, depth, &m->s), "%s", rivulet_last_error());
	rivulet_model_unref(lenet);
	ck_assert_uint_eq(rivulet_stream_depth(m->s), want);
	for (uint32_t i = 0; i < want; i++) {
		struct rivulet_request *r = rivulet_stream_request(m->s, i);

		ck_assert(!rivulet_bind_memory(r, 0, m->in[i], sizeof(m->in[i])) &&
			  !rivulet_bind_memory(r, 1, m->out[i], sizeof(m->out[i])));
		ck_assert_msg(!rivulet_request_prepare(r), "%s", rivulet_last_error());
	}
	ck_assert_ptr_null(rivulet_stream_request(m->s, want));
}

static void movie_close(struct movie *m)
{
	rivulet_stream_unref(m->s);
	rivulet_client_unref(m->c);
}

static uint32_t place_of(const struct movie *m, const struct rivulet_request *r)
{
	uint32_t i = 0;

	while (rivulet_stream_request(m->s, i) != r)
		ck_assert_uint_lt(i++, rivulet_stream_depth(m->s));
	return i;
}

/* A vertical bar that moves from frame to frame. */
static void draw(float *picture, uint32_t frame)
{
	for (uint32_t i = 0; i < PIXELS; i++)
		picture[i] = i % 28 / 3 == frame ? 1 : 0;
}

static int submit(struct movie *m, uint32_t frame, const struct rivulet_run_options *o)
{
	struct rivulet_request *r = rivulet_stream_next(m->s);

	if (r)
		draw(m->in[place_of(m, r)], frame);
	return rivulet_stream_submit(m->s, o);
}

/* Takes a frame. Returns its result, and the scores if it ended well. */
static int take(struct movie *m, float *scores)
{
	struct rivulet_request *r;
	int e = rivulet_stream_take(m->s, WAIT_MS, &r);

	ck_assert_ptr_nonnull(r);
	ck_assert_int_eq(e, rivulet_request_result(r));
	memcpy(scores, m->out[place_of(m, r)], sizeof(m->out[0]));
	return e;
}

/* The scores of every frame, which runs alone. */
static void alone(float want[FRAMES][CLASSES])
{
	struct movie *m = calloc(1, sizeof(*m));

	movie_open(m, 1, 1);
	for (uint32_t i = 0; i < FRAMES; i++) {
		ck_assert_int_eq(submit(m, i, NULL), 0);
		ck_assert_int_eq(take(m, want[i]), 0);
	}
	movie_close(m);
	free(m);
}

/*
 * Proves that each frame has its own result, in the order of submission, for rings of one to four
 * requests, and that the default ring has three.
 */
START_TEST(in_order)
{
	float want[FRAMES][CLASSES], got[CLASSES];
	struct movie *m = calloc(1, sizeof(*m));
	uint32_t depth = (uint32_t)_i, size = depth ? depth : RIVULET_STREAM_DEPTH, next = 0;

	rig_start("");
	alone(want);
	movie_open(m, depth, size);
	for (uint32_t i = 0; i < FRAMES; i++) {
		if (i >= size) {
			ck_assert_ptr_null(rivulet_stream_next(m->s));
			ck_assert_int_eq(submit(m, i, NULL), -EAGAIN);
			ck_assert_int_eq(take(m, got), 0);
			ck_assert_mem_eq(got, want[next++], sizeof(got));
		}
		ck_assert_int_eq(submit(m, i, NULL), 0);
	}
	while (next < FRAMES) {
		ck_assert_int_eq(take(m, got), 0);
		ck_assert_mem_eq(got, want[next++], sizeof(got));
	}
	for (uint32_t i = 1; i < FRAMES; i++)
		ck_assert_mem_ne(want[i], want[i - 1], sizeof(got));
	movie_close(m);
	free(m);
	rig_stop();
}
END_TEST

static struct rivulet_run_stats stats_of(const struct movie *m, uint32_t place)
{
	struct rivulet_run_stats s = { .size = sizeof(s) };

	ck_assert_int_eq(rivulet_request_stats(rivulet_stream_request(m->s, place), &s), 0);
	return s;
}

/*
 * Proves that the daemon starts the frames of a ring together, in their order, and that the NPU serves
 * one at a time: a later frame starts before an earlier one ends, by the daemon's own clock.
 */
START_TEST(overlapping)
{
	struct movie *m = calloc(1, sizeof(*m));
	struct rivulet_run_stats first, second, third;
	float got[CLASSES];
	uint64_t last;

	share_start("", 50000);
	movie_open(m, 0, 3);
	rig_hold();
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(submit(m, i, NULL), 0);
	rig_go();
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(take(m, got), 0);
	first = stats_of(m, 0);
	second = stats_of(m, 1);
	third = stats_of(m, 2);
	ck_assert_uint_le(first.start, second.start);
	ck_assert_uint_le(second.start, third.start);
	ck_assert_uint_lt(third.start, first.end);
	ck_assert_uint_lt(third.start, second.end);
	ck_assert(first.npu_steps && first.cpu_steps);
	/*
	 * The runs share the NPU, so each is on it for its own time. The workers decide which run's CPU
	 * steps end first, and so whose NPU step goes first.
	 */
	last = first.end > second.end ? first.end : second.end;
	last = third.end > last ? third.end : last;
	ck_assert_uint_ge(last - first.start, first.npu_ns + second.npu_ns + third.npu_ns);
	movie_close(m);
	free(m);
	rig_stop();
}
END_TEST

/* Proves that a ring is as large as the limits of the user allow, and that one request is the least. */
START_TEST(limited)
{
	struct movie *m = calloc(1, sizeof(*m));
	struct rivulet_model *lenet;
	struct rivulet_stream *s;
	float got[CLASSES];

	rig_start("[Limits]\nInstancesPerUser=2\n");
	movie_open(m, 0, 2);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(submit(m, i, NULL), 0);
	ck_assert_int_eq(submit(m, 2, NULL), -EAGAIN);
	ck_assert(!rivulet_model_load(m->c, "models/lenet.onnx", NULL, &lenet));
	ck_assert_int_eq(rivulet_stream_new(lenet, 1, &s), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "InstancesPerUser"));
	ck_assert_int_eq(rivulet_stream_new(lenet, 65, &s), -EINVAL);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(take(m, got), 0);
	rivulet_model_unref(lenet);
	movie_close(m);
	free(m);
	rig_stop();
}
END_TEST

/*
 * Proves that a frame whose deadline has passed and one that is cancelled end alone, in their places,
 * and that waiting in vain takes no frame.
 */
START_TEST(frames_fail_alone)
{
	struct rivulet_run_options hard = { .size = sizeof(hard), .deadline = 1, .hard = true };
	float want[FRAMES][CLASSES], got[CLASSES];
	struct movie *m = calloc(1, sizeof(*m));
	struct rivulet_request *r;

	rig_start("");
	alone(want);
	movie_open(m, 4, 4);
	ck_assert_int_eq(rivulet_stream_take(m->s, -1, &r), -ENODATA);
	ck_assert_ptr_null(r);
	rig_hold();
	ck_assert_int_eq(submit(m, 0, NULL), 0);
	ck_assert_int_eq(submit(m, 1, &hard), 0);
	ck_assert_int_eq(submit(m, 2, NULL), 0);
	ck_assert_int_eq(submit(m, 3, NULL), 0);
	ck_assert_int_eq(rivulet_stream_take(m->s, 1, &r), -ETIMEDOUT);
	ck_assert_ptr_null(r);
	ck_assert_int_eq(rivulet_request_cancel(rivulet_stream_request(m->s, 2)), 0);
	rig_go();
	ck_assert_int_eq(take(m, got), 0);
	ck_assert_mem_eq(got, want[0], sizeof(got));
	ck_assert_int_eq(take(m, got), -ETIME);
	ck_assert_int_eq(take(m, got), -ECANCELED);
	ck_assert_int_eq(take(m, got), 0);
	ck_assert_mem_eq(got, want[3], sizeof(got));
	ck_assert_int_eq(submit(m, 4, NULL), 0);
	ck_assert_int_eq(take(m, got), 0);
	ck_assert_mem_eq(got, want[4], sizeof(got));
	movie_close(m);
	free(m);
	rig_stop();
}
END_TEST

/* Proves that a stream whose frames are in flight can be released, and that it holds its objects. */
START_TEST(released_in_flight)
{
	struct movie *m = calloc(1, sizeof(*m));
	float want[FRAMES][CLASSES];
	int before;

	rig_start("");
	alone(want);	/* from here on the daemon has the program in its cache */
	before = rig_quiet_fds();
	movie_open(m, 0, 3);
	ck_assert_ptr_eq(rivulet_stream_ref(m->s), m->s);
	ck_assert_ptr_null(rivulet_stream_unref(m->s));
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(submit(m, i, NULL), 0);
	movie_close(m);
	ck_assert_ptr_null(rivulet_stream_unref(NULL));
	rig_settle(before);
	free(m);
	rig_stop();
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s = suite_create("stream");
	TCase *t = tcase_create("stream");

	rig_main(argc, argv, rvl_worker_main);
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, in_order, 0, PLACES + 1);
	tcase_add_test(t, overlapping);
	tcase_add_test(t, limited);
	tcase_add_test(t, frames_fail_alone);
	tcase_add_test(t, released_in_flight);
	suite_add_tcase(s, t);
	return run_suite(s);
}
