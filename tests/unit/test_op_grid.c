// SPDX-License-Identifier: MIT
/* GridSample, AffineGrid and RoiAlign of the table of operators. */
#include "op_rig.h"
#include "suite.h"

/* The row 1 2 4 sampled at five places; with align_corners -1 is its first element, 1 its last. */
static void sample_row(const char *mode, const char *padding, int align)
{
	op_begin("GridSample", 20);
	op_string("mode", mode);
	op_string("padding_mode", padding);
	op_int("align_corners", align);
	IN_F32(DIMS(1, 1, 3), 1, 2, 4);
	IN_F32(DIMS(1, 5, 1), -1, 0.5, 1, 1.5, -3);
}

START_TEST(modes_and_padding)
{
	sample_row("linear", "zeros", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 1, 3, 4, 2, 0);
	sample_row("linear", "zeros", 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 0.5, 3.5, 2, 0, 0);
	sample_row("linear", "border", 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 1, 3.5, 4, 4, 1);
	sample_row("linear", "reflection", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 1, 3, 4, 3, 4);
	sample_row("linear", "reflection", 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 1, 3.5, 4, 3.5, 4);
	/* Ties go to the even element. */
	sample_row("nearest", "zeros", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 1, 4, 4, 4, 0);
	/* The fourth place, which is outside of the image, keeps its distance to the border. */
	sample_row("cubic", "border", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 1, 3.09375f, 4, 4.1875f, 1);
	sample_row("cubic", "zeros", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 1, 3.46875f, 4, 2.1875f, 0);
}
END_TEST

/* The first number of a place is the column. */
START_TEST(coordinates_are_reversed)
{
	op_begin("GridSample", 16);
	op_string("mode", "nearest");
	op_int("align_corners", 1);
	IN_F32(DIMS(2, 2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
	IN_F32(DIMS(2, 1, 1, 2), 1, -1, -1, 1);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2, 1, 1), 2, 6, 11, 15);
}
END_TEST

START_TEST(any_coordinate)
{
	static const char *const padding[] = { "zeros", "border", "reflection" };

	for (int i = 0; i < 3; i++) {
		op_begin("GridSample", 20);
		op_string("padding_mode", padding[i]);
		op_int("align_corners", i == 2);
		IN_F32(DIMS(1, 1, 1, 1), 3);
		IN_F32(DIMS(1, 1, 4, 2), NAN, 0, INFINITY, -INFINITY, 1e30f, 0, -1e30f, 1e30f);
		op_ok(1);
		for (int k = 0; k < 4; k++)
			ck_assert_float_eq(((float *)rig.call.out[0].data)[k], i ? 3 : 0);
	}
}
END_TEST

START_TEST(grid_sample_errors)
{
	op_begin("GridSample", 20);
	IN_F32(DIMS(1, 1), 1);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "its input has 2 dimensions, not 3 to 5");
	op_begin("GridSample", 20);
	IN_EMPTY(F32, DIMS(0, 1, 1, 1, 1, 1));
	IN_EMPTY(F32, DIMS(0, 1, 1, 1, 1, 4));
	op_fails(1, "its input has 6 dimensions, not 3 to 5");
	op_begin("GridSample", 20);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_F32(DIMS(1, 1, 2), 1, 1);
	op_fails(1, "the shape of its grid does not fit its input");
	op_begin("GridSample", 20);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_F32(DIMS(2, 1, 1), 1, 1);
	op_fails(1, "the shape of its grid does not fit its input");
	op_begin("GridSample", 20);
	IN_EMPTY(F32, DIMS(1, 1, 0));
	IN_F32(DIMS(1, 1, 1), 1);
	op_fails(1, "it samples an image without elements");
	op_begin("GridSample", 20);
	IN_EMPTY(F32, DIMS(1, 1, 0));
	IN_EMPTY(F32, DIMS(1, 0, 1));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(1, 1, 0));
}
END_TEST

START_TEST(affine_grid)
{
	for (int align = 0; align < 2; align++) {
		op_begin("AffineGrid", 20);
		op_int("align_corners", align);
		IN_F32(DIMS(2, 2, 3), 1, 0, 0, 0, 1, 0, 0, 2, 1, 3, 0, 0.5);
		CONST_S64(DIMS(4), 2, 7, 1, 2);
		op_ok(1);
		if (align)
			WANT_F32(0, DIMS(2, 1, 2, 2), -1, -1, 1, -1, -1, -2.5, -1, 3.5);
		else
			WANT_F32(0, DIMS(2, 1, 2, 2), -0.5, 0, 0.5, 0, 1, -1, 1, 2);
	}
	op_begin("AffineGrid", 20);
	IN_F32(DIMS(1, 3, 4), 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0);
	CONST_S64(DIMS(5), 1, 1, 2, 1, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 1, 1, 3), 0, 0, -0.5, 0, 0, 0.5);
	op_begin("AffineGrid", 20);
	IN_F32(DIMS(1, 2, 3), 1, 0, 0, 0, 1, 0);
	CONST_S64(DIMS(4), 1, 1, 0, 3);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(1, 0, 3, 2));
}
END_TEST

START_TEST(affine_grid_errors)
{
	static const int64_t size[][4] = { { 1, 1, -1, 1 }, { 2, 1, 1, 1 },
					   { 1, 1, (int64_t)1 << 30, (int64_t)1 << 30 } };
	static const char *const text[] = { "size 2 is -1", "the shape of its transform does not fit",
					    "its result is too large" };

	for (int i = 0; i < 3; i++) {
		op_begin("AffineGrid", 20);
		IN_F32(DIMS(1, 2, 3), 1, 0, 0, 0, 1, 0);
		op_const(RVL_TYPE_S64, DIMS(4), size[i], 4);
		op_fails(1, text[i]);
	}
	op_begin("AffineGrid", 20);
	IN_F32(DIMS(1, 1, 2), 1, 0);
	CONST_S64(DIMS(3), 1, 1, 1);
	op_fails(1, "its size has 3 values, not 4 or 5");
	op_begin("AffineGrid", 20);
	IN_F32(DIMS(1, 2, 3), 1, 0, 0, 0, 1, 0);
	IN_S64(DIMS(4), 1, 1, 1, 1);
	op_fails(1, "its input 1 must be a constant");
}
END_TEST

static void roi_align(int64_t opset, const float *roi, int64_t image)
{
	op_begin("RoiAlign", opset);
	op_int("output_height", 1);
	op_int("output_width", 2);
	IN_F32(DIMS(2, 1, 2, 2), 0, 0, 0, 0, 1, 2, 3, 4);
	op_in(RVL_TYPE_F32, DIMS(1, 4), roi, 4);
	op_in(RVL_TYPE_S64, DIMS(1), &image, 1);
}

START_TEST(roi_align_modes)
{
	static const float whole[] = { 0, 0, 2, 2 }, far[] = { 9, 9, 11, 11 };
	static const float empty[] = { 1, 1, 1, 1 };

	roi_align(16, whole, 1);
	op_int("sampling_ratio", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 2), 2, 3);
	roi_align(10, whole, 1);
	op_int("sampling_ratio", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 2), 3.5, 4);
	roi_align(16, whole, 1);
	op_string("coordinate_transformation_mode", "output_half_pixel");
	op_int("sampling_ratio", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 2), 3.5, 4);
	roi_align(16, whole, 1);
	op_string("mode", "max");
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 2), 3, 4);
	roi_align(16, far, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 2), 0, 0);
	/* An empty region has no samples; the older operator makes it one element large. */
	roi_align(16, empty, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 2), 0, 0);
	roi_align(10, empty, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 2), 4, 4);
	roi_align(16, whole, 1);
	op_float("spatial_scale", 0.5f);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 2), 1, 1.25);
}
END_TEST

START_TEST(roi_align_errors)
{
	static const float whole[] = { 0, 0, 2, 2 }, huge[] = { 0, 0, 1e30f, 2 };
	static const float nan[] = { 0, NAN, 1, 2 };

	roi_align(16, whole, 2);
	op_fails(1, "region 0 is of image 2, there are 2");
	roi_align(16, whole, -1);
	op_fails(1, "region 0 is of image -1, there are 2");
	roi_align(16, huge, 0);
	op_fails(1, "region 0 has more than 1024 samples along a side of a bin");
	roi_align(16, nan, 0);
	op_fails(1, "region 0 has more than 1024 samples along a side of a bin");
	roi_align(16, whole, 0);
	op_int("sampling_ratio", 1025);
	op_fails(1, "attribute sampling_ratio is 1025, not 0 to 1024");
	roi_align(16, whole, 0);
	op_int("sampling_ratio", -1);
	op_fails(1, "attribute sampling_ratio is -1, not 0 to 1024");
	roi_align(16, whole, 0);
	op_int("output_height", 0);
	op_fails(1, "its result of 0 by 2 is out of range");
	roi_align(16, whole, 0);
	rig.call.in[1].shape.rank = 1;
	op_fails(1, "its regions are not rows of 4 numbers");
	roi_align(16, whole, 0);
	rig.call.in[2].shape.rank = 0;
	op_fails(1, "it has not one image index for each region");
	roi_align(16, whole, 0);
	rig.call.in[0].shape.rank = 3;
	op_fails(1, "its input has 3 dimensions, not 4");
	roi_align(16, whole, 0);
	rig.call.in[0].shape.dim[3] = 0;
	op_fails(1, "its images have no elements");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_grid");
	TCase *t = add_case(s, "all", 20, NULL, NULL);

	tcase_add_checked_fixture(t, NULL, op_end);
	tcase_add_test(t, modes_and_padding);
	tcase_add_test(t, coordinates_are_reversed);
	tcase_add_test(t, any_coordinate);
	tcase_add_test(t, grid_sample_errors);
	tcase_add_test(t, affine_grid);
	tcase_add_test(t, affine_grid_errors);
	tcase_add_test(t, roi_align_modes);
	tcase_add_test(t, roi_align_errors);
	return run_suite(s);
}
