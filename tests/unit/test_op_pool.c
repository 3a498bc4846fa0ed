// SPDX-License-Identifier: MIT
/* Pools of the table of operators: any number of dimensions, ceil_mode, padding, regions. */
#include <float.h>

#include "op_rig.h"
#include "suite.h"

START_TEST(max_pool_of_one_dimension)
{
	op_begin("MaxPool", 22);
	OP_INTS("kernel_shape", 3);
	OP_INTS("strides", 2);
	OP_INTS("pads", 1, 0);
	IN_F32(DIMS(1, 2, 6), 1, 5, 2, 2, 7, 0, -1, -5, -2, -2, -7, -3);
	op_ok(2);
	WANT_F32(0, DIMS(1, 2, 3), 5, 5, 7, -1, -2, -2);
	WANT_S64(1, DIMS(1, 2, 3), 1, 1, 4, 6, 8, 9);
}
END_TEST

/* Of equal elements the first one in the order of the window is named. */
START_TEST(max_pool_names_the_first_of_equals)
{
	op_begin("MaxPool", 12);
	OP_INTS("kernel_shape", 2, 2);
	IN_U8(DIMS(1, 1, 2, 3), 9, 9, 9, 9, 9, 255);
	op_ok(2);
	WANT_U8(0, DIMS(1, 1, 1, 2), 9, 255);
	WANT_S64(1, DIMS(1, 1, 1, 2), 0, 5);
}
END_TEST

START_TEST(max_pool_of_three_dimensions)
{
	op_begin("MaxPool", 12);
	OP_INTS("kernel_shape", 2, 1, 2);
	OP_INTS("dilations", 1, 1, 2);
	op_int("storage_order", 1);
	IN_S8(DIMS(1, 1, 2, 2, 3), 1, 2, 3, 4, 5, 6, -7, 8, -9, 10, 11, -12);
	op_ok(2);
	WANT_S8(0, DIMS(1, 1, 1, 2, 1), 3, 10);
	/* Element (0, 0, 2) is 2 * (2 * 2), element (1, 1, 0) is 1 + 2. */
	WANT_S64(1, DIMS(1, 1, 1, 2, 1), 8, 3);
}
END_TEST

START_TEST(windows_in_the_padding)
{
	op_begin("MaxPool", 8);
	OP_INTS("kernel_shape", 1);
	OP_INTS("pads", 1, 2);
	IN_F32(DIMS(1, 1, 1), -3);
	op_ok(2);
	WANT_F32(0, DIMS(1, 1, 4), -FLT_MAX, -3, -FLT_MAX, -FLT_MAX);
	WANT_S64(1, DIMS(1, 1, 4), 0, 0, 0, 0);

	op_begin("MaxPool", 12);
	OP_INTS("kernel_shape", 1);
	OP_INTS("pads", 1, 0);
	IN_S8(DIMS(1, 1, 1), -3);
	op_ok(1);
	WANT_S8(0, DIMS(1, 1, 2), -128, -3);

	op_begin("AveragePool", 11);
	OP_INTS("kernel_shape", 1, 1);
	OP_INTS("pads", 0, 1, 0, 0);
	IN_F32(DIMS(1, 1, 1, 1), -3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 2), 0, -3);

	/* A row that is entirely in the padding. */
	op_begin("AveragePool", 11);
	OP_INTS("kernel_shape", 1, 1);
	OP_INTS("pads", 1, 0, 0, 0);
	IN_F32(DIMS(1, 1, 1, 2), -3, 4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2, 2), 0, 0, -3, 4);
}
END_TEST

/*
 * The last window exceeds the padded input. Elements of the padding count, elements beyond it do
 * not.
 */
START_TEST(average_pool_counts_padding)
{
	for (int include = 0; include < 2; include++) {
		op_begin("AveragePool", 10);
		OP_INTS("kernel_shape", 3);
		OP_INTS("strides", 2);
		OP_INTS("pads", 1, 1);
		op_int("ceil_mode", 1);
		op_int("count_include_pad", include);
		IN_F32(DIMS(1, 1, 4), 3, 6, 9, 12);
		op_ok(1);
		if (include)
			WANT_F32(0, DIMS(1, 1, 3), 3, 9, 6);
		else
			WANT_F32(0, DIMS(1, 1, 3), 4.5, 9, 12);
	}
}
END_TEST

/* A window that would begin behind the input is left out. */
START_TEST(ceil_mode_begins_windows_inside)
{
	op_begin("AveragePool", 19);
	OP_INTS("kernel_shape", 1);
	OP_INTS("strides", 3);
	op_int("ceil_mode", 1);
	IN_F32(DIMS(1, 1, 3), 1, 2, 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1), 1);

	op_begin("AveragePool", 19);
	OP_INTS("kernel_shape", 1);
	OP_INTS("strides", 3);
	IN_F32(DIMS(1, 1, 4), 1, 2, 3, 4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2), 1, 4);

	/* Even the first window may exceed the input. */
	op_begin("AveragePool", 19);
	OP_INTS("kernel_shape", 3);
	OP_INTS("strides", 2);
	op_int("ceil_mode", 1);
	IN_F32(DIMS(1, 1, 2), 1, 4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1), 2.5);
}
END_TEST

START_TEST(auto_pad)
{
	op_begin("AveragePool", 19);
	OP_INTS("kernel_shape", 2);
	op_string("auto_pad", "SAME_UPPER");
	IN_F32(DIMS(1, 1, 3), 2, 4, 6);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), 3, 5, 6);

	op_begin("AveragePool", 19);
	OP_INTS("kernel_shape", 2);
	op_string("auto_pad", "SAME_LOWER");
	op_int("count_include_pad", 1);
	IN_F32(DIMS(1, 1, 3), 2, 4, 6);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), 1, 3, 5);

	op_begin("AveragePool", 19);
	OP_INTS("kernel_shape", 2);
	OP_INTS("pads", 1, 1);
	op_string("auto_pad", "VALID");
	IN_F32(DIMS(1, 1, 3), 2, 4, 6);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2), 3, 5);

	/* Nothing is padded where the stride is larger than the window. */
	op_begin("MaxPool", 12);
	OP_INTS("kernel_shape", 1);
	OP_INTS("strides", 3);
	op_string("auto_pad", "SAME_UPPER");
	IN_F32(DIMS(1, 1, 5), 1, 2, 3, 4, 5);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2), 1, 4);
}
END_TEST

/* Rows are computed in pieces; each piece begins at its own input. */
START_TEST(long_rows)
{
	enum { N = 700 };
	static float x[N];

	for (int i = 0; i < N; i++)
		x[i] = (float)((i * 7919) % 1000);
	op_begin("AveragePool", 19);
	OP_INTS("kernel_shape", 3);
	OP_INTS("pads", 2, 2);
	OP_INTS("dilations", 2);
	op_int("count_include_pad", 1);
	op_in(RVL_TYPE_F32, DIMS(1, 1, N), x, N);
	op_ok(1);
	ck_assert_int_eq(rig.call.out[0].shape.dim[2], N);
	for (int i = 0; i < N; i++) {
		float low = i < 2 ? 0 : x[i - 2], high = i + 2 < N ? x[i + 2] : 0;
		float got = ((float *)rig.call.out[0].data)[i];

		ck_assert_float_eq_tol(got, (low + x[i] + high) / 3, 1e-3);
	}
}
END_TEST

/* Windows with far more taps than the image has elements take no additional time. */
START_TEST(huge_windows)
{
	op_begin("AveragePool", 19);
	OP_INTS("kernel_shape", 2000000001, 2000000001);
	OP_INTS("pads", 1000000000, 1000000000, 1000000000, 1000000000);
	IN_F32(DIMS(1, 1, 1, 1), 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 1), 3);
}
END_TEST

START_TEST(lp_pool)
{
	op_begin("LpPool", 18);
	OP_INTS("kernel_shape", 2);
	IN_F32(DIMS(1, 1, 3), 3, -4, 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2), 5, 4);

	op_begin("LpPool", 11);
	OP_INTS("kernel_shape", 2);
	op_int("p", 1);
	IN_F32(DIMS(1, 1, 3), 3, -4, 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2), 7, 4);

	op_begin("LpPool", 2);
	OP_INTS("kernel_shape", 2);
	op_int("p", 3);
	IN_F32(DIMS(1, 1, 2), 2, -3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1), 3.27106631f);

	op_begin("LpPool", 1);
	OP_INTS("kernel_shape", 2);
	op_float("p", 0.5f);
	IN_F32(DIMS(1, 1, 2), 4, -9);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1), 25);

	op_begin("LpPool", 18);
	OP_INTS("kernel_shape", 2);
	op_int("p", 0);
	IN_F32(DIMS(1, 1, 2), 4, -9);
	op_fails(1, "attribute p is 0, not positive");
}
END_TEST

START_TEST(whole_channels)
{
	op_begin("GlobalAveragePool", 22);
	IN_F32(DIMS(1, 2, 2, 1, 2), 1, 2, 3, 6, -1, 0, 0, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 1, 1, 1), 3, 0);

	op_begin("GlobalMaxPool", 1);
	IN_F32(DIMS(2, 1, 3), -1, -2, -3, 1, NAN, 3);
	op_ok(1);
	WANT_F32(0, DIMS(2, 1, 1), -1, NAN);

	op_begin("GlobalLpPool", 2);
	IN_F32(DIMS(1, 1, 2), 3, -4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1), 5);

	op_begin("GlobalLpPool", 1);
	op_float("p", 1);
	IN_F32(DIMS(1, 1, 2), 3, -4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1), 7);

	op_begin("GlobalLpPool", 2);
	op_int("p", -1);
	IN_F32(DIMS(1, 1, 2), 3, -4);
	op_fails(1, "attribute p is -1, not positive");

	op_begin("GlobalMaxPool", 1);
	IN_F32(DIMS(1, 2), 3, -4);
	op_fails(1, "no spatial dimensions");
}
END_TEST

START_TEST(empty_tensors)
{
	op_begin("MaxPool", 12);
	OP_INTS("kernel_shape", 2);
	IN_EMPTY(F32, DIMS(0, 3, 4));
	op_ok(2);
	WANT_EMPTY(0, F32, DIMS(0, 3, 3));

	op_begin("AveragePool", 19);
	OP_INTS("kernel_shape", 2);
	op_string("auto_pad", "SAME_UPPER");
	IN_EMPTY(F32, DIMS(1, 3, 0));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(1, 3, 0));

	op_begin("GlobalAveragePool", 19);
	IN_EMPTY(F32, DIMS(1, 1, 0));
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1), NAN);

	op_begin("MaxRoiPool", 1);
	OP_INTS("pooled_shape", 1, 1);
	IN_F32(DIMS(1, 1, 1, 1), 1);
	IN_EMPTY(F32, DIMS(0, 5));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0, 1, 1, 1));
}
END_TEST

/* The bins of a region overlap where its size is no multiple of theirs. */
START_TEST(max_roi_pool)
{
	op_begin("MaxRoiPool", 1);
	OP_INTS("pooled_shape", 1, 2);
	op_float("spatial_scale", 0.5f);
	IN_F32(DIMS(2, 1, 2, 4), 0, 0, 0, 0, 0, 0, 0, 0, -9, 2, -5, 4, -9, -6, 3, 8);
	IN_F32(DIMS(3, 5), 1, 0, 0, 4, 2, 1, 4, 2, 6, 2, 0, 0, 0, 2, 2);
	op_ok(1);
	WANT_F32(0, DIMS(3, 1, 1, 2), 2, 3, 3, 8, 0, 0);

	/* Regions outside the image are empty, and give 0. */
	op_begin("MaxRoiPool", 1);
	OP_INTS("pooled_shape", 1, 1);
	IN_F32(DIMS(1, 1, 1, 2), -1, -2);
	IN_F32(DIMS(4, 5), 0, 5, 0, 9, 0, 0, -1e30, 0, 1e30, 0, 0, NAN, 0, 0, NAN, 0, 1, 0, 0, 0);
	op_ok(1);
	ck_assert_float_eq(((float *)rig.call.out[0].data)[0], 0);
	ck_assert_float_eq(((float *)rig.call.out[0].data)[1], -1);
	ck_assert_float_eq(((float *)rig.call.out[0].data)[3], -2);
}
END_TEST

START_TEST(max_roi_pool_errors)
{
	static const float image[] = { -1, 1, NAN };
	static const char *const text[] = { "is of image -1, there are 1", "is of image 1, there are 1",
					    "region 0 is of image" };

	for (int i = 0; i < 3; i++) {
		op_begin("MaxRoiPool", 1);
		OP_INTS("pooled_shape", 1, 1);
		IN_F32(DIMS(1, 1, 1, 1), 1);
		IN_F32(DIMS(1, 5), image[i], 0, 0, 1, 1);
		op_fails(1, text[i]);
	}
	op_begin("MaxRoiPool", 1);
	OP_INTS("pooled_shape", 1, 0);
	IN_F32(DIMS(1, 1, 1, 1), 1);
	IN_F32(DIMS(1, 5), 0, 0, 0, 1, 1);
	op_fails(1, "pooled_shape is not two positive numbers");
	op_begin("MaxRoiPool", 1);
	OP_INTS("pooled_shape", 1, 1);
	IN_F32(DIMS(1, 1, 1, 1), 1);
	IN_F32(DIMS(1, 4), 0, 0, 0, 1);
	op_fails(1, "its regions are not rows of 5 numbers");
	op_begin("MaxRoiPool", 1);
	OP_INTS("pooled_shape", 1, 1);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_F32(DIMS(1, 5), 0, 0, 0, 1, 1);
	op_fails(1, "its input has 3 dimensions, not 4");
}
END_TEST

static void max_pool_with(const char *attr, const int64_t *list, size_t n)
{
	static const int64_t two[] = { 2, 2 };

	op_begin("MaxPool", 12);
	op_list("kernel_shape", two, 2);
	op_list(attr, list, n);
	IN_F32(DIMS(1, 1, 2, 2), 1, 2, 3, 4);
}

START_TEST(attributes_out_of_range)
{
	max_pool_with("kernel_shape", (const int64_t[]) { 1, 2, 3 }, 3);
	op_fails(1, "attribute kernel_shape has 3 values, not 2");
	max_pool_with("kernel_shape", (const int64_t[]) { 0, 1 }, 2);
	op_fails(1, "attribute kernel_shape has the value 0, which is not in 1 to 2147483647");
	max_pool_with("strides", (const int64_t[]) { 1, 0 }, 2);
	op_fails(1, "attribute strides has the value 0");
	max_pool_with("dilations", (const int64_t[]) { 2147483648, 1 }, 2);
	op_fails(1, "attribute dilations has the value 2147483648");
	max_pool_with("pads", (const int64_t[]) { 0, 0, 0, -1 }, 4);
	op_fails(1, "attribute pads has the value -1, which is not in 0 to");
	max_pool_with("pads", (const int64_t[]) { 0, 0 }, 2);
	op_fails(1, "attribute pads has 2 values, not 4");
	max_pool_with("kernel_shape", (const int64_t[]) { 3, 1 }, 2);
	op_fails(1, "its 3x1 window is larger than the padded 2x2 input");
	max_pool_with("dilations", (const int64_t[]) { 1, 2 }, 2);
	op_fails(1, "its 2x3 window is larger than the padded 2x2 input");
	max_pool_with("strides", (const int64_t[]) { 1, 1 }, 2);
	op_int("ceil_mode", 2);
	op_fails(1, "attribute ceil_mode is 2, not one of 0|1");
	max_pool_with("strides", (const int64_t[]) { 1, 1 }, 2);
	op_int("storage_order", -1);
	op_fails(1, "attribute storage_order is -1, not one of 0|1");
	op_begin("MaxPool", 12);
	OP_INTS("kernel_shape", 1);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "its input has no spatial dimensions");
	op_begin("MaxPool", 12);
	OP_INTS("kernel_shape", 1);
	op_in(RVL_TYPE_F32, DIMS(0, 1, 2147483648), NULL, 0);
	op_fails(1, "dimension 2 of its input is 2147483648");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_pool");
	TCase *t = add_case(s, "all", 20, NULL, NULL);

	tcase_add_checked_fixture(t, NULL, op_end);
	tcase_add_test(t, max_pool_of_one_dimension);
	tcase_add_test(t, max_pool_names_the_first_of_equals);
	tcase_add_test(t, max_pool_of_three_dimensions);
	tcase_add_test(t, windows_in_the_padding);
	tcase_add_test(t, average_pool_counts_padding);
	tcase_add_test(t, ceil_mode_begins_windows_inside);
	tcase_add_test(t, auto_pad);
	tcase_add_test(t, long_rows);
	tcase_add_test(t, huge_windows);
	tcase_add_test(t, lp_pool);
	tcase_add_test(t, whole_channels);
	tcase_add_test(t, empty_tensors);
	tcase_add_test(t, max_roi_pool);
	tcase_add_test(t, max_roi_pool_errors);
	tcase_add_test(t, attributes_out_of_range);
	return run_suite(s);
}
