/* SPDX-License-Identifier: MIT */
/* The ten reductions: every set of axes, both forms of the operator, types, and empty sets. */
#include "op_rig.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* [2, 3, 2], reduced along each axis by hand; expected numbers were computed in double. */
static const float cube[12] = { 1, -2, 3, 4, 0.5f, 6, -7, 8, 9, 1, 2, 5 };

struct expected {
	const char *op;
	float first[6], middle[4], last[6], all;
};

static const struct expected table[] = {
	{ "ReduceSum", { -6, 6, 12, 5, 2.5, 11 },
	  { 4.5, 8, 4, 14 },
	  { -1, 7, 6.5, 1, 10, 7 }, 30.5 },
	{ "ReduceMean", { -3, 3, 6, 2.5, 1.25, 5.5 },
	  { 1.5, 2.6666667, 1.3333333, 4.6666667 },
	  { -0.5, 3.5, 3.25, 0.5, 5, 3.5 }, 2.5416667 },
	{ "ReduceProd", { -7, -16, 27, 4, 1, 30 },
	  { 1.5, -48, -126, 40 },
	  { -2, 12, 3, -56, 9, 10 }, 362880 },
	{ "ReduceMax", { 1, 8, 9, 4, 2, 6 },
	  { 3, 6, 9, 8 },
	  { 1, 4, 6, 8, 9, 5 }, 9 },
	{ "ReduceMin", { -7, -2, 3, 1, 0.5, 5 },
	  { 0.5, -2, -7, 1 },
	  { -2, 3, 0.5, -7, 1, 2 }, -7 },
	{ "ReduceL1", { 8, 10, 12, 5, 2.5, 11 },
	  { 4.5, 12, 18, 14 },
	  { 3, 7, 6.5, 15, 10, 7 }, 48.5 },
	{ "ReduceL2", { 7.0710678, 8.2462113, 9.486833, 4.1231056, 2.0615528, 7.8102497 },
	  { 3.2015621, 7.4833148, 11.575837, 9.486833 },
	  { 2.236068, 5, 6.0207973, 10.630146, 9.0553851, 5.3851648 }, 17.036725 },
	{ "ReduceSumSquare", { 50, 68, 90, 17, 4.25, 61 },
	  { 10.25, 56, 134, 90 },
	  { 5, 25, 36.25, 113, 82, 29 }, 290.25 },
	{ "ReduceLogSum", { NAN, 1.7917595, 2.4849066, 1.6094379, 0.91629073, 2.3978953 },
	  { 1.5040774, 2.0794415, 1.3862944, 2.6390573 },
	  { NAN, 1.9459101, 1.8718022, 0, 2.3025851, 1.9459101 }, 3.4177267 },
	{ "ReduceLogSumExp", { 1.0003354, 8.0000454, 9.0024757, 4.0485874, 2.2014133, 6.3132617 },
	  { 3.1967341, 6.1272234, 9.0009116, 8.0494556 },
	  { 1.0485874, 4.3132617, 6.0040784, 8.0000003, 9.0003354, 5.0485874 }, 9.3694938 },
};

static void run_axes(const struct expected *e, int opset, int64_t axis, int keepdims)
{
	op_begin(e->op, opset);
	op_int("keepdims", keepdims);
	op_in(RVL_TYPE_F32, DIMS(2, 3, 2), cube, 12);
	if (opset < 13)
		op_list("axes", &axis, 1);
	else
		op_const(RVL_TYPE_S64, DIMS(1), &axis, 1);
	op_ok(1);
}

START_TEST(each_axis)
{
	const struct expected *e = &table[_i];

	for (int opset = 11; opset <= 18; opset += 7) {
		run_axes(e, opset, 0, 1);
		op_want(0, RVL_TYPE_F32, DIMS(1, 3, 2), e->first, 6);
		run_axes(e, opset, 1, 0);
		op_want(0, RVL_TYPE_F32, DIMS(2, 2), e->middle, 4);
		run_axes(e, opset, -1, 1);
		op_want(0, RVL_TYPE_F32, DIMS(2, 3, 1), e->last, 6);
		run_axes(e, opset, -1, 0);
		op_want(0, RVL_TYPE_F32, DIMS(2, 3), e->last, 6);
	}
	op_begin(e->op, 1);
	op_in(RVL_TYPE_F32, DIMS(2, 3, 2), cube, 12);
	op_ok(1);
	op_want(0, RVL_TYPE_F32, DIMS(1, 1, 1), &e->all, 1);
	op_begin(e->op, 28);
	op_int("keepdims", 0);
	op_in(RVL_TYPE_F32, DIMS(2, 3, 2), cube, 12);
	op_ok(1);
	op_want(0, RVL_TYPE_F32, RANK0, &e->all, 1);
}
END_TEST

START_TEST(two_axes_that_are_not_neighbours)
{
	op_begin("ReduceSum", 13);
	op_in(RVL_TYPE_F32, DIMS(2, 3, 2), cube, 12);
	CONST_S64(DIMS(2), 2, 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 3, 1), 0, 17, 13.5f);
	op_begin("ReduceSum", 11);
	OP_INTS("axes", 0, 1);
	op_int("keepdims", 0);
	op_in(RVL_TYPE_F32, DIMS(2, 3, 2), cube, 12);
	op_ok(1);
	WANT_F32(0, DIMS(2), 8.5f, 22);
}
END_TEST

/* An empty set of axes reduces all, or none, where the other steps of the operator remain. */
START_TEST(no_axes)
{
	op_begin("ReduceSumSquare", 18);
	op_int("noop_with_empty_axes", 1);
	IN_F32(DIMS(3), 1, -2, 3);
	op_ok(1);
	WANT_F32(0, DIMS(3), 1, 4, 9);
	op_begin("ReduceSumSquare", 18);
	op_int("noop_with_empty_axes", 1);
	IN_F32(DIMS(3), 1, -2, 3);
	op_const(RVL_TYPE_S64, DIMS(0), NULL, 0);
	op_ok(1);
	WANT_F32(0, DIMS(3), 1, 4, 9);
	op_begin("ReduceSumSquare", 18);
	IN_F32(DIMS(3), 1, -2, 3);
	op_const(RVL_TYPE_S64, DIMS(0), NULL, 0);
	op_ok(1);
	WANT_F32(0, DIMS(1), 14);
	op_begin("ReduceMean", 18);
	IN_F32(RANK0, 7);
	op_ok(1);
	WANT_F32(0, RANK0, 7);
}
END_TEST

static const struct {
	const char *op;
	float y;
} nothing[] = {
	{ "ReduceSum", 0 },	    { "ReduceProd", 1 },	  { "ReduceMax", -INFINITY },
	{ "ReduceMin", INFINITY },  { "ReduceL1", 0 },		  { "ReduceL2", 0 },
	{ "ReduceLogSum", -INFINITY }, { "ReduceLogSumExp", -INFINITY },
	{ "ReduceSumSquare", 0 },   { "ReduceMean", NAN },
};

START_TEST(empty_sets)
{
	float y[2] = { nothing[_i].y, nothing[_i].y };

	op_begin(nothing[_i].op, 18);
	IN_EMPTY(F32, DIMS(2, 0, 1));
	CONST_S64(DIMS(1), 1);
	op_ok(1);
	op_want(0, RVL_TYPE_F32, DIMS(2, 1, 1), y, 2);
	op_begin(nothing[_i].op, 18);
	IN_EMPTY(F32, DIMS(0, 2));
	CONST_S64(DIMS(1), 0);
	op_ok(1);
	op_want(0, RVL_TYPE_F32, DIMS(1, 2), y, 2);
	op_begin(nothing[_i].op, 18);
	IN_EMPTY(F32, DIMS(2, 0));
	CONST_S64(DIMS(1), 0);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(1, 0));
}
END_TEST

#define EMPTY_OF(op, T, ctype, value) \
	do { \
		op_begin(op, 20); \
		IN_EMPTY(T, DIMS(0)); \
		op_ok(1); \
		OP_WANT(0, T, ctype, DIMS(1), value); \
	} while (0)

START_TEST(empty_sets_of_integers)
{
	EMPTY_OF("ReduceMax", S8, int8_t, INT8_MIN);
	EMPTY_OF("ReduceMin", S8, int8_t, INT8_MAX);
	EMPTY_OF("ReduceMax", S64, int64_t, INT64_MIN);
	EMPTY_OF("ReduceMin", S64, int64_t, INT64_MAX);
	EMPTY_OF("ReduceMax", U16, uint16_t, 0);
	EMPTY_OF("ReduceMin", U16, uint16_t, UINT16_MAX);
	EMPTY_OF("ReduceMin", U64, uint64_t, UINT64_MAX);
	EMPTY_OF("ReduceMax", BOOL, uint8_t, 0);
	EMPTY_OF("ReduceMin", BOOL, uint8_t, 1);
	EMPTY_OF("ReduceMean", S32, int32_t, 0);
	EMPTY_OF("ReduceProd", U32, uint32_t, 1);
	EMPTY_OF("ReduceSum", S64, int64_t, 0);
}
END_TEST

#define OF_LIST(op, T, ctype, value, ...) \
	do { \
		op_begin(op, 20); \
		OP_IN(T, ctype, DIMS((int64_t)OP_N(ctype, __VA_ARGS__)), __VA_ARGS__); \
		op_ok(1); \
		OP_WANT(0, T, ctype, DIMS(1), value); \
	} while (0)

START_TEST(integers)
{
	OF_LIST("ReduceSum", S64, int64_t, INT64_MIN, INT64_MAX, 1);
	OF_LIST("ReduceSum", U8, uint8_t, 4, 250, 10);
	OF_LIST("ReduceProd", S32, int32_t, -60, 3, -4, 5);
	OF_LIST("ReduceMean", S32, int32_t, -2, -5, -4, 1);
	OF_LIST("ReduceMean", U64, uint64_t, UINT64_MAX / 2, UINT64_MAX - 1, 0);
	OF_LIST("ReduceMax", S64, int64_t, INT64_MAX, INT64_MAX - 1, INT64_MAX, -1);
	OF_LIST("ReduceMin", S64, int64_t, INT64_MIN, INT64_MIN + 1, INT64_MIN, 1);
	OF_LIST("ReduceMax", U64, uint64_t, UINT64_MAX, UINT64_MAX, UINT64_MAX - 1);
	OF_LIST("ReduceMin", U64, uint64_t, UINT64_MAX - 1, UINT64_MAX, UINT64_MAX - 1);
	OF_LIST("ReduceL1", S64, int64_t, 6, -1, 2, -3);
	OF_LIST("ReduceL1", U64, uint64_t, UINT64_MAX, UINT64_MAX - 1, 1);
	OF_LIST("ReduceL2", S32, int32_t, 5, 3, -4);
	OF_LIST("ReduceSumSquare", S32, int32_t, 25, 3, -4);
	OF_LIST("ReduceSumSquare", U32, uint32_t, 25, 3, 4);
	OF_LIST("ReduceLogSum", S32, int32_t, 2, 3, 5);
	OF_LIST("ReduceLogSumExp", S32, int32_t, 9, 9, 1);
	OF_LIST("ReduceMax", BOOL, uint8_t, 1, 0, 1, 0);
	OF_LIST("ReduceMin", BOOL, uint8_t, 0, 1, 0, 1);
}
END_TEST

START_TEST(floats_at_their_limits)
{
	OF_LIST("ReduceMax", F32, float, NAN, 1, NAN, 3);
	OF_LIST("ReduceMin", F32, float, NAN, 1, NAN, 3);
	OF_LIST("ReduceLogSumExp", F32, float, 1000.6931472f, 1000, 1000);
	OF_LIST("ReduceLogSumExp", F32, float, -1000, -1000, -INFINITY);
	OF_LIST("ReduceLogSumExp", F32, float, INFINITY, 1, INFINITY);
	OF_LIST("ReduceLogSumExp", F32, float, -INFINITY, -INFINITY, -INFINITY);
	OF_LIST("ReduceSum", F32, float, 1, 1e12f, 1, -1e12f);
}
END_TEST

/* More elements than a block of the loops, along the innermost axis and across it. */
START_TEST(long_rows)
{
	enum { N = 1000 };
	static float x[2 * N], twice[N];

	for (int i = 0; i < 2 * N; i++)
		x[i] = (float)(i % N);
	for (int i = 0; i < N; i++)
		twice[i] = 2 * (float)i;
	op_begin("ReduceSum", 13);
	op_in(RVL_TYPE_F32, DIMS(2, N), x, 2 * N);
	CONST_S64(DIMS(1), 1);
	op_ok(1);
	WANT_F32(0, DIMS(2, 1), 499500, 499500);
	op_begin("ReduceSum", 13);
	op_in(RVL_TYPE_F32, DIMS(2, N), x, 2 * N);
	CONST_S64(DIMS(1), 0);
	op_ok(1);
	op_want(0, RVL_TYPE_F32, DIMS(1, N), twice, N);
}
END_TEST

START_TEST(what_is_refused)
{
	op_begin("ReduceSum", 13);
	IN_F32(DIMS(2), 1, 2);
	CONST_S64(DIMS(1), 1);
	op_fails(1, "axis 1 does not exist in a tensor of rank 1");
	op_begin("ReduceSum", 11);
	OP_INTS("axes", 0, -1);
	IN_F32(DIMS(2), 1, 2);
	op_fails(1, "axis 0 is named twice");
	op_begin("ReduceSum", 13);
	IN_F32(DIMS(2), 1, 2);
	IN_S64(DIMS(1), 0);
	op_fails(1, "its input 1 must be a constant");
	ck_assert(rig.call.unknown);
	op_begin("ReduceMax", 13);
	OP_IN(BOOL, uint8_t, DIMS(1), 1);
	op_fails(1, "its input 0 is bool, which it does not take");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_reduce");
	TCase *t = add_case(s, "reduce", 10, NULL, op_end);

	tcase_add_loop_test(t, each_axis, 0, COUNT(table));
	tcase_add_test(t, two_axes_that_are_not_neighbours);
	tcase_add_test(t, no_axes);
	tcase_add_loop_test(t, empty_sets, 0, COUNT(nothing));
	tcase_add_test(t, empty_sets_of_integers);
	tcase_add_test(t, integers);
	tcase_add_test(t, floats_at_their_limits);
	tcase_add_test(t, long_rows);
	tcase_add_test(t, what_is_refused);
	return run_suite(s);
}
