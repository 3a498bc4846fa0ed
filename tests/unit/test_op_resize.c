// SPDX-License-Identifier: MIT
/* Resize and Upsample of the table of operators. */
#include "op_rig.h"
#include "suite.h"

/* An image of one row: 1 2 3 4, resized along its last axis by a scale. */
static void resize_row(float scale, const char *mode, const char *transform)
{
	op_begin("Resize", 19);
	op_string("mode", mode);
	op_string("coordinate_transformation_mode", transform);
	IN_F32(DIMS(1, 4), 1, 2, 3, 4);
	op_none();
	CONST_F32(DIMS(2), 1, scale);
}

static void size_row(int64_t size, const char *mode, const char *transform)
{
	op_begin("Resize", 19);
	op_string("mode", mode);
	op_string("coordinate_transformation_mode", transform);
	IN_F32(DIMS(1, 4), 1, 2, 3, 4);
	op_none();
	op_none();
	CONST_S64(DIMS(2), 1, size);
}

START_TEST(transforms)
{
	resize_row(2, "linear", "half_pixel");
	op_ok(1);
	WANT_F32(0, DIMS(1, 8), 1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4);
	resize_row(2, "linear", "asymmetric");
	op_ok(1);
	WANT_F32(0, DIMS(1, 8), 1, 1.5, 2, 2.5, 3, 3.5, 4, 4);
	size_row(7, "linear", "align_corners");
	op_ok(1);
	WANT_F32(0, DIMS(1, 7), 1, 1.5, 2, 2.5, 3, 3.5, 4);
	size_row(1, "linear", "align_corners");
	op_ok(1);
	WANT_F32(0, DIMS(1, 1), 1);
	size_row(1, "linear", "pytorch_half_pixel");
	op_ok(1);
	WANT_F32(0, DIMS(1, 1), 1);
	size_row(2, "linear", "pytorch_half_pixel");
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 1.5, 3.5);
	size_row(2, "linear", "tf_half_pixel_for_nn");
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 2, 4);
	resize_row(0.6f, "linear", "half_pixel_symmetric");
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 1.66666667f, 3.33333333f);
}
END_TEST

/* Bits that onnxruntime 1.31 computes from a 3 x 4 image resized to 5 x 7. */
static const struct {
	const char *transform;
	uint32_t bits[35];
} linear_bits[] = {
	{ "half_pixel",
		{ 0xbf4d4b61, 0xbf7d0f2c, 0xbfa4bdd1, 0xbf494ee8, 0xbe4d6765, 0x3e39f194, 0x3ed74499,
		  0xbcdb0e30, 0xbe921404, 0xbf32f2e8, 0xbf0f76a9, 0xbeb232f8, 0xbe2fec10, 0xbd7c7f88,
		  0x3f9169f9, 0x3f44fdb9, 0x3e3b68a5, 0xbe62c926, 0xbf11b8f1, 0xbf33ae20, 0xbf48e75e,
		  0x3f6756a8, 0x3f7268c6, 0x3f820faf, 0x3ef7a495, 0xbe03a9ac, 0xbf32b0ee, 0xbf86e681,
		  0x3f3fadce, 0x3f885812, 0x3fc926bd, 0x3f742aa8, 0x3e2927ae, 0xbf320823, 0xbf9dddb7 } },
	{ "asymmetric",
		{ 0xbf4d4b61, 0xbf8cdbec, 0xbf95d7b2, 0xbf0e4837, 0xbd6a9802, 0x3ea6597c, 0x3ed74499,
		  0x3eb8c209, 0xbde230d4, 0xbeeb1d38, 0xbee17693, 0xbec9e0aa, 0xbea45b80, 0xbe9afa35,
		  0x3f877fc2, 0x3f30cf56, 0x3e99a7f4, 0xbe2223c2, 0xbf06d4e2, 0xbf4e0fd8, 0xbf5fde95,
		  0x3f53823b, 0x3f8e9618, 0x3f93dd16, 0x3ee9e880, 0xbe7fd379, 0xbf770128, 0xbf92621c,
		  0x3f3fadce, 0x3fa0a592, 0x3fb858c9, 0x3f29734e, 0xbe215378, 0xbf825376, 0xbf9dddb7 } },
	{ "align_corners",
		{ 0xbf4d4b61, 0xbf881524, 0xbfa98498, 0xbf494ee8, 0xbe7e5282, 0x3db036b0, 0x3ed74499,
		  0x3e2b1122, 0xbe616ae6, 0xbf1b79bc, 0xbf010099, 0xbecd0eec, 0xbe9529fe, 0xbe3a8a23,
		  0x3f9169f9, 0x3f1f74d5, 0x3de0adc0, 0xbe62c926, 0xbf0d7a4b, 0xbf2b30d4, 0xbf48e75e,
		  0x3f7140e0, 0x3f684627, 0x3f5f4b6e, 0x3ebb785e, 0xbe0f4c3d, 0xbf13123a, 0xbf8128b3,
		  0x3f3fadce, 0x3f988bbc, 0x3fd14092, 0x3f742aa8, 0x3e8ba859, 0xbef5e742, 0xbf9dddb7 } },
};

START_TEST(linear_has_the_bits_of_onnxruntime)
{
	op_begin("Resize", 19);
	op_string("mode", "linear");
	op_string("coordinate_transformation_mode", linear_bits[_i].transform);
	IN_F32(DIMS(1, 1, 3, 4), -0x1.9a96c2p-1f, -0x1.530930p+0f, -0x1.fca504p-3f,
		  0x1.ae8932p-2f, 0x1.22d3f2p+0f, 0x1.c15b80p-4f,
		  -0x1.1af496p-1f, -0x1.91cebcp-1f, 0x1.7f5b9cp-1f,
		  0x1.a28124p+0f, 0x1.1750b2p-2f, -0x1.3bbb6ep+0f);
	op_none();
	op_none();
	CONST_S64(DIMS(4), 1, 1, 5, 7);
	op_ok(1);
	for (int i = 0; i < 35; i++) {
		uint32_t bits;

		memcpy(&bits, (const float *)rig.call.out[0].data + i, sizeof(bits));
		ck_assert_msg(bits == linear_bits[_i].bits[i], "%s: result %d is %08x, not %08x",
			      linear_bits[_i].transform, i, bits, linear_bits[_i].bits[i]);
	}
}
END_TEST

/* Rows and columns in front of channels, and bytes, are resized like rows and columns behind them. */
START_TEST(linear_in_any_layout)
{
	op_begin("Resize", 19);
	op_string("mode", "linear");
	IN_F32(DIMS(1, 1, 2, 2), 1, 10, 3, 30);
	op_none();
	CONST_F32(DIMS(4), 1, 2, 2, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 4, 2), 1, 10, 1.5, 15, 2.5, 25, 3, 30, 1, 10, 1.5, 15, 2.5, 25, 3, 30);
	op_begin("Resize", 19);
	op_string("mode", "linear");
	IN_U8(DIMS(2, 2), 0, 100, 200, 40);
	op_none();
	CONST_F32(DIMS(2), 1.5, 1.5);
	op_ok(1);
	WANT_U8(0, DIMS(3, 3), 0, 50, 100, 100, 85, 70, 200, 120, 40);
}
END_TEST

START_TEST(nearest_modes)
{
	static const char *const mode[] = { "floor", "ceil", "round_prefer_floor",
					    "round_prefer_ceil" };
	static const float want[4][8] = {
		{ 1, 1, 2, 2, 3, 3, 4, 4 }, { 1, 2, 2, 3, 3, 4, 4, 4 },
		{ 1, 1, 2, 2, 3, 3, 4, 4 }, { 1, 2, 2, 3, 3, 4, 4, 4 },
	};

	for (int i = 0; i < 4; i++) {
		resize_row(2, "nearest", "asymmetric");
		op_string("nearest_mode", mode[i]);
		op_ok(1);
		op_want(0, RVL_TYPE_F32, DIMS(1, 8), want[i], 8);
	}
	resize_row(0.4f, "nearest", "half_pixel");
	op_ok(1);
	WANT_F32(0, DIMS(1, 1), 2);
	resize_row(1, "nearest", "half_pixel");
	op_ok(1);
	WANT_F32(0, DIMS(1, 4), 1, 2, 3, 4);
}
END_TEST

START_TEST(nearest_of_any_type)
{
	op_begin("Resize", 13);
	op_in(RVL_TYPE_S64, DIMS(2, 1), (const int64_t[]) { INT64_MAX, INT64_MIN + 1 }, 2);
	op_none();
	CONST_F32(DIMS(2), 2, 2);
	op_ok(1);
	WANT_S64(0, DIMS(4, 2), INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MIN + 1,
		 INT64_MIN + 1, INT64_MIN + 1, INT64_MIN + 1);
}
END_TEST

/* Images of any width, doubled along both axes; rows that do not fill a register included. */
START_TEST(doubled_bytes)
{
	enum { PLANES = 2, ROWS = 3, WIDEST = 70 };
	static uint8_t x[PLANES * ROWS * WIDEST], y[4 * PLANES * ROWS * WIDEST];

	for (int w = 1; w <= WIDEST; w++) {
		int n = PLANES * ROWS * w;

		for (int i = 0; i < n; i++)
			x[i] = (uint8_t)(7 * i + i / 13);
		for (int i = 0; i < 4 * n; i++)
			y[i] = x[i / (4 * w) * w + i % (2 * w) / 2];
		op_begin("Resize", 19);
		op_string("mode", "nearest");
		op_string("coordinate_transformation_mode", "asymmetric");
		op_string("nearest_mode", "floor");
		op_in(RVL_TYPE_U8, DIMS(1, PLANES, ROWS, w), x, (size_t)n);
		op_none();
		CONST_F32(DIMS(4), 1, 1, 2, 2);
		op_ok(1);
		op_want(0, RVL_TYPE_U8, DIMS(1, PLANES, 2 * ROWS, 2 * w), y, (size_t)(4 * n));
	}
}
END_TEST

START_TEST(cubic)
{
	resize_row(2, "cubic", "half_pixel");
	op_ok(1);
	WANT_F32(0, DIMS(1, 8), 0.89453125f, 1.19140625f, 1.66796875f, 2.296875f, 2.703125f,
		 3.33203125f, 3.80859375f, 4.10546875f);
	/* Weights outside the image are dropped, and the other weights are scaled up. */
	resize_row(2, "cubic", "half_pixel");
	op_int("exclude_outside", 1);
	op_float("cubic_coeff_a", -0.5f);
	op_ok(1);
	ck_assert_float_eq_tol(((float *)rig.call.out[0].data)[0],
			       (0.8671875f - 2 * 0.0703125f) / 0.796875f, 1e-5);
}
END_TEST

START_TEST(integers_are_rounded_and_kept_in_range)
{
	op_begin("Resize", 13);
	op_string("mode", "cubic");
	IN_U8(DIMS(4), 0, 0, 255, 255);
	op_none();
	op_none();
	CONST_S64(DIMS(1), 8);
	op_ok(1);
	WANT_U8(0, DIMS(8), 0, 0, 0, 58, 197, 255, 255, 255);

	op_begin("Resize", 13);
	op_string("mode", "linear");
	IN_S8(DIMS(2), -128, 127);
	op_none();
	op_none();
	CONST_S64(DIMS(1), 4);
	op_ok(1);
	WANT_S8(0, DIMS(4), -128, -64, 63, 127);
}
END_TEST

/* Every element has the same part in a mean of four. */
START_TEST(antialias)
{
	size_row(1, "linear", "half_pixel");
	op_int("antialias", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1), 2.5);
	size_row(2, "linear", "half_pixel");
	op_int("antialias", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 1.625, 3.375);
	size_row(2, "linear", "half_pixel");
	op_int("antialias", 1);
	op_int("exclude_outside", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 1.71428571f, 3.28571429f);
	/* Antialiasing does not change an enlargement. */
	size_row(8, "linear", "half_pixel");
	op_int("antialias", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 8), 1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4);
	size_row(2, "nearest", "half_pixel");
	op_int("antialias", 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 1, 3);
}
END_TEST

static void crop(float from, float to, int64_t size)
{
	op_begin("Resize", 11);
	op_string("mode", "linear");
	op_string("coordinate_transformation_mode", "tf_crop_and_resize");
	op_float("extrapolation_value", 9);
	IN_F32(DIMS(1, 3), 1, 2, 4);
	op_in(RVL_TYPE_F32, DIMS(4), (const float[]) { 0, from, 1, to }, 4);
	op_none();
	CONST_S64(DIMS(2), 1, size);
}

START_TEST(crop_and_resize)
{
	crop(0.5f, 1, 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 3), 2, 3, 4);
	crop(0.5f, 1.5f, 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 2, 9);
	crop(-0.5f, 0, 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 9, 1);
	crop(0, 0.5f, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1), 1.5);
	crop(NAN, 1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 9, 9);

	crop(0, 1, 2);
	rig.call.in[1].shape.dim[0] = 3;
	op_fails(1, "its input 1, the region, does not have 4 values");
}
END_TEST

static void policy(const char *name)
{
	op_begin("Resize", 18);
	op_string("keep_aspect_ratio_policy", name);
	IN_F32(DIMS(1, 2, 3), 1, 2, 3, 4, 5, 6);
	op_none();
	op_none();
	CONST_S64(DIMS(2), 6, 4);
}

START_TEST(axes_and_aspect_ratio)
{
	static const int64_t axes[] = { -1, 1 }, one[] = { 2 }, twice[] = { 2, -1 };
	static const int64_t many[] = { 0, 1, 2, 3 }, beyond[] = { 0, 3 };

	policy("not_larger");
	op_list("axes", axes, 2);
	op_infer(1);
	ck_assert_int_eq(rig.call.out[0].shape.dim[1], 4);
	ck_assert_int_eq(rig.call.out[0].shape.dim[2], 6);
	policy("not_smaller");
	op_list("axes", axes + 1, 1);
	op_fails(1, "its input 3 has 2 values for 1 axes");
	policy("stretch");
	op_list("axes", axes, 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 4, 6), 1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 4, 4, 5,
		 5, 6, 6);
	policy("stretch");
	op_list("axes", twice, 2);
	op_fails(1, "axis 2 is named twice");
	policy("stretch");
	op_list("axes", many, 4);
	op_fails(1, "attribute axes has 4 values for a tensor of rank 3");
	policy("stretch");
	op_list("axes", beyond, 2);
	op_fails(1, "axis 3 does not exist");

	op_begin("Resize", 18);
	op_list("axes", one, 1);
	IN_F32(DIMS(1, 2, 1), 1, 2);
	op_none();
	CONST_F32(DIMS(1), 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 3), 1, 1, 1, 2, 2, 2);
}
END_TEST

START_TEST(errors)
{
	static const float bad[] = { 0, -1, NAN, INFINITY, 1e30f };

	for (int i = 0; i < 5; i++) {
		resize_row(bad[i], "linear", "half_pixel");
		op_fails(1, "is not a positive number that the result can have");
	}
	size_row(-1, "linear", "half_pixel");
	op_fails(1, "size -1 is out of range");
	size_row((int64_t)1 << 41, "linear", "half_pixel");
	op_fails(1, "size 2199023255552 is out of range");
	op_begin("Resize", 13);
	IN_F32(DIMS(1), 1);
	op_fails(1, "it needs either scales or sizes");
	resize_row(2, "linear", "half_pixel");
	CONST_S64(DIMS(2), 1, 2);
	op_fails(1, "it needs either scales or sizes");
	op_begin("Resize", 13);
	IN_F32(DIMS(1), 1);
	op_none();
	IN_F32(DIMS(1), 1);
	op_fails(1, "its input 2 must be a constant");
	ck_assert(rig.call.unknown);
	op_begin("Resize", 13);
	IN_F32(DIMS(1), 1);
	op_none();
	CONST_F32(DIMS(2), 1, 1);
	op_fails(1, "its input 2 has 2 values for 1 axes");
	op_begin("Resize", 13);
	IN_EMPTY(F32, DIMS(0));
	op_none();
	op_none();
	CONST_S64(DIMS(1), 3);
	op_fails(1, "a dimension of 0 cannot become 3");
	op_begin("Resize", 13);
	IN_F32(DIMS(1, 1), 1);
	op_none();
	op_none();
	CONST_S64(DIMS(2), (int64_t)1 << 40, 2);
	op_fails(1, "its result is too large");
}
END_TEST

START_TEST(empty_tensors)
{
	size_row(0, "linear", "half_pixel");
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(1, 0));
	op_begin("Resize", 13);
	IN_EMPTY(F32, DIMS(0, 2));
	op_none();
	CONST_F32(DIMS(2), 2, 2);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0, 4));
}
END_TEST

START_TEST(old_opsets)
{
	op_begin("Resize", 10);
	IN_F32(DIMS(1, 3), 1, 2, 3);
	CONST_F32(DIMS(2), 1, 0.7f);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 1, 2);

	op_begin("Upsample", 9);
	op_string("mode", "linear");
	IN_F32(DIMS(2), 1, 3);
	CONST_F32(DIMS(1), 2);
	op_ok(1);
	WANT_F32(0, DIMS(4), 1, 2, 3, 3);

	op_begin("Upsample", 7);
	OP_FLOATS("scales", 1, 2);
	IN_F32(DIMS(1, 2), 1, 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 4), 1, 1, 3, 3);
	op_begin("Upsample", 7);
	OP_FLOATS("scales", 1);
	IN_F32(DIMS(1, 2), 1, 3);
	op_fails(1, "attribute scales has 1 values for 2 axes");

	op_begin("Upsample", 1);
	op_float("height_scale", 2);
	op_float("width_scale", 3);
	IN_F32(DIMS(1, 1, 1, 1), 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2, 3), 1, 1, 1, 1, 1, 1);
	op_begin("Upsample", 1);
	op_float("height_scale", 2);
	op_float("width_scale", 3);
	IN_F32(DIMS(1, 1, 1), 1);
	op_fails(1, "its input has 3 dimensions, not 4");
	ck_assert_ptr_null(rvl_op_find(NULL, "Upsample", 10));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_resize");
	TCase *t = add_case(s, "all", 20, NULL, NULL);

	tcase_add_checked_fixture(t, NULL, op_end);
	tcase_add_test(t, transforms);
	tcase_add_loop_test(t, linear_has_the_bits_of_onnxruntime, 0,
			    (int)(sizeof(linear_bits) / sizeof(*linear_bits)));
	tcase_add_test(t, linear_in_any_layout);
	tcase_add_test(t, nearest_modes);
	tcase_add_test(t, nearest_of_any_type);
	tcase_add_test(t, doubled_bytes);
	tcase_add_test(t, cubic);
	tcase_add_test(t, integers_are_rounded_and_kept_in_range);
	tcase_add_test(t, antialias);
	tcase_add_test(t, crop_and_resize);
	tcase_add_test(t, axes_and_aspect_ratio);
	tcase_add_test(t, errors);
	tcase_add_test(t, empty_tensors);
	tcase_add_test(t, old_opsets);
	return run_suite(s);
}
