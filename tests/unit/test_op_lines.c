/* SPDX-License-Identifier: MIT */
/* ArgMax, ArgMin, CumSum, CumProd, the softmaxes, LpNormalization and TopK. */
#include "op_rig.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const float pair[6] = { 1, 5, 5, 7, -2, -2 };

static void arg(const char *op, int opset, int64_t axis, int keepdims, int last)
{
	op_begin(op, opset);
	op_int("axis", axis);
	op_int("keepdims", keepdims);
	if (last)
		op_int("select_last_index", last);
	op_in(RVL_TYPE_F32, DIMS(2, 3), pair, 6);
	op_ok(1);
}

START_TEST(indices_of_extremes)
{
	arg("ArgMax", 1, 1, 1, 0);
	WANT_S64(0, DIMS(2, 1), 1, 0);
	arg("ArgMax", 13, -1, 0, 1);
	WANT_S64(0, DIMS(2), 2, 0);
	arg("ArgMax", 12, 0, 0, 0);
	WANT_S64(0, DIMS(3), 1, 0, 0);
	arg("ArgMin", 11, 1, 1, 0);
	WANT_S64(0, DIMS(2, 1), 0, 1);
	arg("ArgMin", 13, 1, 0, 1);
	WANT_S64(0, DIMS(2), 0, 2);
	arg("ArgMin", 13, 0, 1, 0);
	WANT_S64(0, DIMS(1, 3), 0, 1, 1);
	op_begin("ArgMin", 13);
	op_in(RVL_TYPE_F32, DIMS(2, 3), pair, 6);
	op_ok(1);
	WANT_S64(0, DIMS(1, 3), 0, 1, 1);
}
END_TEST

#define FLAT_ARG(op, T, ctype, want, ...) \
	do { \
		op_begin(op, 13); \
		OP_IN(T, ctype, DIMS((int64_t)OP_N(ctype, __VA_ARGS__)), __VA_ARGS__); \
		op_ok(1); \
		WANT_S64(0, DIMS(1), want); \
	} while (0)

START_TEST(order_of_every_type)
{
	FLAT_ARG("ArgMax", S64, int64_t, 1, -1, INT64_MAX, INT64_MIN);
	FLAT_ARG("ArgMin", S64, int64_t, 2, -1, INT64_MAX, INT64_MIN);
	FLAT_ARG("ArgMax", U64, uint64_t, 2, 0, INT64_MAX, UINT64_MAX);
	FLAT_ARG("ArgMin", U64, uint64_t, 1, 1, 0, UINT64_MAX);
	FLAT_ARG("ArgMax", S8, int8_t, 2, -128, -1, 127);
	FLAT_ARG("ArgMax", U8, uint8_t, 0, 255, 127, 128);
	FLAT_ARG("ArgMax", F32, float, 1, -INFINITY, INFINITY, 3e38f);
	FLAT_ARG("ArgMin", F32, float, 0, -INFINITY, INFINITY, -3e38f);
	FLAT_ARG("ArgMax", F32, float, 1, 1, NAN, INFINITY);
	FLAT_ARG("ArgMax", F32, float, 0, -0.0f, 0.0f);
	FLAT_ARG("ArgMin", F32, float, 0, 0.0f, -0.0f);
	FLAT_ARG("ArgMax", F32, float, 2, -3, -2, -1);
}
END_TEST

START_TEST(scalars_and_empty_axes)
{
	op_begin("ArgMax", 13);
	IN_F32(RANK0, 3);
	op_ok(1);
	WANT_S64(0, RANK0, 0);
	op_begin("ArgMax", 13);
	IN_EMPTY(F32, DIMS(0, 2));
	op_fails(1, "its input has no elements along axis 0");
	op_begin("ArgMax", 13);
	op_int("axis", 1);
	IN_EMPTY(F32, DIMS(0, 2));
	op_ok(1);
	WANT_EMPTY(0, S64, DIMS(0, 1));
	op_begin("ArgMin", 13);
	op_int("axis", 2);
	IN_F32(DIMS(1, 1), 2);
	op_fails(1, "axis 2 does not exist in a tensor of rank 2");
}
END_TEST

static void cumulate(const char *op, int64_t axis, int exclusive, int reverse)
{
	op_begin(op, 28);
	op_int("exclusive", exclusive);
	op_int("reverse", reverse);
	IN_F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	op_in(RVL_TYPE_S64, RANK0, &axis, 1);
	op_ok(1);
}

START_TEST(running_sums_and_products)
{
	cumulate("CumSum", 1, 0, 0);
	WANT_F32(0, DIMS(2, 3), 1, 3, 6, 4, 9, 15);
	cumulate("CumSum", -2, 0, 0);
	WANT_F32(0, DIMS(2, 3), 1, 2, 3, 5, 7, 9);
	cumulate("CumSum", 1, 1, 0);
	WANT_F32(0, DIMS(2, 3), 0, 1, 3, 0, 4, 9);
	cumulate("CumSum", 1, 0, 1);
	WANT_F32(0, DIMS(2, 3), 6, 5, 3, 15, 11, 6);
	cumulate("CumSum", 0, 1, 1);
	WANT_F32(0, DIMS(2, 3), 4, 5, 6, 0, 0, 0);
	cumulate("CumProd", 1, 0, 0);
	WANT_F32(0, DIMS(2, 3), 1, 2, 6, 4, 20, 120);
	cumulate("CumProd", 1, 1, 0);
	WANT_F32(0, DIMS(2, 3), 1, 1, 2, 1, 4, 20);
	cumulate("CumProd", 1, 1, 1);
	WANT_F32(0, DIMS(2, 3), 6, 3, 1, 30, 6, 1);
}
END_TEST

START_TEST(running_sums_of_integers)
{
	op_begin("CumSum", 11);
	IN_S64(DIMS(3), INT64_MAX, 1, 1);
	IN_S32(DIMS(1), 0);
	op_ok(1);
	WANT_S64(0, DIMS(3), INT64_MAX, INT64_MIN, INT64_MIN + 1);
	op_begin("CumProd", 26);
	op_int("exclusive", 1);
	OP_IN(U32, uint32_t, DIMS(3), UINT32_MAX, 2, 9);
	IN_S32(RANK0, -1);
	op_ok(1);
	OP_WANT(0, U32, uint32_t, DIMS(3), 1, UINT32_MAX, UINT32_MAX - 1);
	op_begin("CumSum", 14);
	IN_EMPTY(S32, DIMS(2, 0));
	IN_S32(RANK0, 1);
	op_ok(1);
	WANT_EMPTY(0, S32, DIMS(2, 0));
	op_begin("CumSum", 14);
	IN_F32(RANK0, 5);
	IN_S32(RANK0, 0);
	op_ok(1);
	WANT_F32(0, RANK0, 5);
}
END_TEST

START_TEST(running_sums_along_no_axis)
{
	op_begin("CumSum", 14);
	IN_F32(DIMS(2), 1, 2);
	IN_S64(RANK0, 1);
	op_fails(1, "axis 1 does not exist in a tensor of rank 1");
	op_begin("CumSum", 14);
	IN_F32(DIMS(2), 1, 2);
	CONST_S64(RANK0, INT64_MIN);
	op_fails(1, "does not exist in a tensor of rank 1");
	op_begin("CumSum", 14);
	IN_F32(DIMS(2), 1, 2);
	CONST_S64(DIMS(2), 0, 0);
	op_fails(1, "its axis, input 1, has 2 values, not 1");
}
END_TEST

/* Opset 13 normalises along one axis, opset 1 along all from that axis on. */
#define E1 0.731058579f
#define E2 0.268941421f

START_TEST(softmaxes)
{
	op_begin("Softmax", 13);
	op_int("axis", 1);
	IN_F32(DIMS(1, 2, 2), 1, 1000, 2, 999);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), E2, E1, E1, E2);
	op_begin("Softmax", 11);
	IN_F32(DIMS(1, 2, 2), 1, 2, 2, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), E2 / 2, E1 / 2, E1 / 2, E2 / 2);
	op_begin("Softmax", 13);
	IN_F32(DIMS(1, 2, 2), 1, 2, 3, 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), E2, E1, E1, E2);
	op_begin("LogSoftmax", 13);
	IN_F32(DIMS(2), -1000, -1001);
	op_ok(1);
	WANT_F32(0, DIMS(2), -0.313261688f, -1.31326169f);
	op_begin("LogSoftmax", 1);
	op_int("axis", 0);
	IN_F32(DIMS(2, 2), 3, 3, 3, 3);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), -1.38629436f, -1.38629436f, -1.38629436f, -1.38629436f);
	op_begin("Hardmax", 13);
	IN_F32(DIMS(2, 2), 3, 3, 2, 4);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 1, 0, 0, 1);
	op_begin("Hardmax", 13);
	op_int("axis", 0);
	IN_F32(DIMS(2, 2), 3, 3, 2, 4);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 1, 0, 0, 1);
	op_begin("Hardmax", 11);
	IN_F32(DIMS(1, 2, 2), 3, 3, 2, 4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), 0, 0, 0, 1);
}
END_TEST

START_TEST(softmaxes_at_the_edge)
{
	/* A scalar is one line of one element, because the old axis equals the rank. */
	op_begin("Softmax", 1);
	IN_F32(DIMS(2), 3, 4);
	op_ok(1);
	WANT_F32(0, DIMS(2), 1, 1);
	op_begin("Softmax", 13);
	IN_F32(RANK0, 3);
	op_ok(1);
	WANT_F32(0, RANK0, 1);
	op_begin("Softmax", 13);
	IN_EMPTY(F32, DIMS(2, 0));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(2, 0));
	op_begin("LogSoftmax", 13);
	op_int("axis", 2);
	IN_F32(DIMS(1, 1), 3);
	op_fails(1, "axis 2 does not exist in a tensor of rank 2");
	op_begin("Hardmax", 11);
	op_int("axis", 3);
	IN_F32(DIMS(1, 1), 3);
	op_fails(1, "axis 3 does not exist in a tensor of rank 2");
}
END_TEST

START_TEST(lp_normalization)
{
	op_begin("LpNormalization", 1);
	IN_F32(DIMS(2, 2), 3, -4, 0, 0);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 0.6f, -0.8f, 0, 0);
	op_begin("LpNormalization", 22);
	op_int("p", 1);
	op_int("axis", 0);
	IN_F32(DIMS(2, 2), 3, -4, -1, 0);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 0.75f, -1, -0.25f, 0);
	op_begin("LpNormalization", 22);
	op_int("p", 3);
	IN_F32(DIMS(1), 1);
	op_fails(1, "attribute p is 3, not 1 or 2");
	op_begin("LpNormalization", 22);
	op_int("p", 0);
	IN_F32(DIMS(1), 1);
	op_fails(1, "attribute p is 0, not 1 or 2");
	op_begin("LpNormalization", 22);
	op_int("axis", 1);
	IN_F32(DIMS(1), 1);
	op_fails(1, "axis 1 does not exist");
}
END_TEST

/* Every k of a line with equal elements, against a selection by hand. */
START_TEST(top_k_of_every_size)
{
	static const float x[7] = { 3, 9, -1, 9, 0, 3, 4 };
	static const float down[7] = { 9, 9, 4, 3, 3, 0, -1 }, up[7] = { -1, 0, 3, 3, 4, 9, 9 };
	static const int64_t of_down[7] = { 1, 3, 6, 0, 5, 4, 2 }, of_up[7] = { 2, 4, 0, 5, 6, 1, 3 };

	for (int64_t k = 0; k <= 7; k++)
		for (int largest = 0; largest < 2; largest++) {
			op_begin("TopK", 11);
			op_int("largest", largest);
			op_in(RVL_TYPE_F32, DIMS(7), x, 7);
			op_const(RVL_TYPE_S64, DIMS(1), &k, 1);
			op_ok(2);
			op_want(0, RVL_TYPE_F32, DIMS(k), largest ? down : up, (size_t)k);
			op_want(1, RVL_TYPE_S64, DIMS(k), largest ? of_down : of_up, (size_t)k);
		}
}
END_TEST

START_TEST(top_k_along_an_axis)
{
	op_begin("TopK", 1);
	op_int("k", 1);
	op_int("axis", 0);
	IN_F32(DIMS(2, 3), 1, 5, 3, 4, 2, 6);
	op_ok(2);
	WANT_F32(0, DIMS(1, 3), 4, 5, 6);
	WANT_S64(1, DIMS(1, 3), 1, 0, 1);
	op_begin("TopK", 10);
	IN_F32(DIMS(2, 3), 1, 5, 3, 4, 2, 6);
	CONST_S64(DIMS(1), 2);
	op_ok(2);
	WANT_F32(0, DIMS(2, 2), 5, 3, 6, 4);
	WANT_S64(1, DIMS(2, 2), 1, 2, 2, 0);
	op_begin("TopK", 24);
	OP_IN(U64, uint64_t, DIMS(3), 7, UINT64_MAX, INT64_MAX);
	CONST_S64(DIMS(1), 2);
	op_ok(2);
	OP_WANT(0, U64, uint64_t, DIMS(2), UINT64_MAX, INT64_MAX);
	WANT_S64(1, DIMS(2), 1, 2);
	op_begin("TopK", 24);
	OP_IN(U8, uint8_t, DIMS(3), 7, 255, 128);
	CONST_S64(DIMS(1), 1);
	op_ok(1);
	OP_WANT(0, U8, uint8_t, DIMS(1), 255);
}
END_TEST

/* If k is an input of the run, the bound of its result is the length of the line. */
START_TEST(top_k_of_a_run)
{
	op_begin("TopK", 11);
	IN_F32(DIMS(3), 1, 5, 3);
	IN_S64(DIMS(1), 2);
	ck_assert_int_eq(op_infer(2), 0);
	ck_assert(rig.call.bounded);
	ck_assert_int_eq(rig.call.out[1].shape.dim[0], 3);
	op_ok(2);
	WANT_F32(0, DIMS(2), 5, 3);
	WANT_S64(1, DIMS(2), 1, 2);
	for (int i = 0; i < 3; i++) {
		static const int64_t wrong[] = { 4, -1, INT64_MIN };

		op_begin("TopK", 11);
		IN_F32(DIMS(3), 1, 5, 3);
		op_in(RVL_TYPE_S64, DIMS(1), &wrong[i], 1);
		op_fails(2, i ? "of 3 elements" : "it requests 4 of 3 elements");
	}
	op_begin("TopK", 11);
	IN_F32(DIMS(3), 1, 5, 3);
	IN_S64(DIMS(2), 1, 1);
	op_fails(2, "its input 1 has 2 values, not 1");
	op_begin("TopK", 11);
	IN_F32(RANK0, 1);
	CONST_S64(DIMS(1), 1);
	op_fails(2, "axis -1 does not exist in a tensor of rank 0");
	op_begin("TopK", 1);
	IN_F32(DIMS(1), 1);
	op_fails(2, "it lacks attribute k");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_lines");
	TCase *t = add_case(s, "lines", 10, NULL, op_end);

	tcase_add_test(t, indices_of_extremes);
	tcase_add_test(t, order_of_every_type);
	tcase_add_test(t, scalars_and_empty_axes);
	tcase_add_test(t, running_sums_and_products);
	tcase_add_test(t, running_sums_of_integers);
	tcase_add_test(t, running_sums_along_no_axis);
	tcase_add_test(t, softmaxes);
	tcase_add_test(t, softmaxes_at_the_edge);
	tcase_add_test(t, lp_normalization);
	tcase_add_test(t, top_k_of_every_size);
	tcase_add_test(t, top_k_along_an_axis);
	tcase_add_test(t, top_k_of_a_run);
	return run_suite(s);
}
