/* SPDX-License-Identifier: MIT */
/* Normalisation by mean and variance; the expected numbers were computed in double. */
#include "op_rig.h"
#include "suite.h"

static const float x8[8] = { 1, 2, 4, 7, -3, 0, 5, 9 };

#define BEGIN(op, opset, shape) \
	(op_begin(op, opset), op_in(RVL_TYPE_F32, shape, x8, 8))

/* BatchNormalization of [2, 2, 2] with the moments of the model. */
static void batch(int opset)
{
	BEGIN("BatchNormalization", opset, DIMS(2, 2, 2));
	op_float("epsilon", 0.5f);
	IN_F32(DIMS(2), 2, 3);
	IN_F32(DIMS(2), 1, -1);
	IN_F32(DIMS(2), 0.5f, 2);
	IN_F32(DIMS(2), 4, 9);
}

START_TEST(batch_by_given_moments)
{
	static const int opsets[] = { 1, 7, 9, 14, 28 };

	for (size_t i = 0; i < sizeof(opsets) / sizeof(opsets[0]); i++) {
		batch(opsets[i]);
		op_ok(1);
		WANT_F32(0, DIMS(2, 2, 2), 1.4714045f, 2.4142136f, 0.94665705f, 3.8666426f,
			 -2.2998316f, 0.52859548f, 1.9199856f, 5.8132997f);
	}
	batch(7);
	op_ok(5);
	WANT_F32(1, DIMS(2), 0.5f, 2);
	WANT_F32(2, DIMS(2), 4, 9);
	WANT_F32(3, DIMS(2), 0.5f, 2);
	WANT_F32(4, DIMS(2), 4, 9);
	BEGIN("BatchNormalization", 15, DIMS(2, 2, 2));
	IN_F32(DIMS(2), 2, 3);
	IN_F32(DIMS(2), 1, -1);
	IN_F32(DIMS(2), 0.5f, 2);
	IN_F32(DIMS(2), 0, 1e-5f);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2, 2), 317.22777f, 949.6833f, 1340.6408f, 3353.102f, -2212.5944f,
		 -315.22777f, 2011.4612f, 4694.7428f);
}
END_TEST

START_TEST(batch_in_training)
{
	batch(14);
	op_int("training_mode", 1);
	op_float("momentum", 0.75f);
	op_ok(3);
	WANT_F32(0, DIMS(2, 2, 2), 2, 3, -4.298575f, 0.099524999f, -2, 1, -2.8325417f, 3.0315917f);
	WANT_F32(1, DIMS(2), 0.375f, 3.0625f);
	WANT_F32(2, DIMS(2), 3.875f, 7.671875f);
	batch(15);
	op_int("training_mode", 1);
	op_ok(2);
	WANT_F32(1, DIMS(2), 0.45f, 2.425f);
	op_begin("BatchNormalization", 15);
	op_int("training_mode", 1);
	IN_EMPTY(F32, DIMS(0, 1, 2));
	for (int i = 0; i < 4; i++)
		IN_F32(DIMS(1), 1);
	op_fails(3, "it trains on no elements");
	op_begin("BatchNormalization", 15);
	op_int("training_mode", 1);
	IN_EMPTY(F32, DIMS(2, 1, 0));
	for (int i = 0; i < 4; i++)
		IN_F32(DIMS(1), 1);
	op_fails(3, "it trains on no elements");
}
END_TEST

/* Without spatial, which opset 9 removed, every element has parameters of its own. */
START_TEST(batch_by_element)
{
	BEGIN("BatchNormalization", 7, DIMS(2, 2, 2));
	op_int("spatial", 0);
	op_float("epsilon", 0.5f);
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	IN_F32(DIMS(2, 2), 0, 1, 0, -1);
	IN_F32(DIMS(2, 2), 1, 0, 2, 1);
	IN_F32(DIMS(2, 2), 1, 4, 0.5f, 2);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2, 2), 0, 2.8856181f, 6, 14.178933f, -3.2659863f, 1, 9, 19.238577f);
}
END_TEST

START_TEST(batch_of_other_shapes)
{
	op_begin("BatchNormalization", 15);
	op_float("epsilon", 0);
	IN_F32(DIMS(3), 1, 2, 3);
	IN_F32(DIMS(1), 2);
	IN_F32(DIMS(1), 1);
	IN_F32(DIMS(1), 1);
	IN_F32(DIMS(1), 4);
	op_ok(1);
	WANT_F32(0, DIMS(3), 1, 2, 3);
	op_begin("BatchNormalization", 15);
	IN_EMPTY(F32, DIMS(0, 1, 2));
	for (int i = 0; i < 4; i++)
		IN_F32(DIMS(1), 1);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0, 1, 2));
	op_begin("BatchNormalization", 15);
	IN_F32(RANK0, 3);
	for (int i = 0; i < 4; i++)
		IN_F32(DIMS(1), 1);
	op_ok(1);
	for (int wrong = 1; wrong < 5; wrong++) {
		char text[60];

		BEGIN("BatchNormalization", 15, DIMS(2, 2, 2));
		for (int i = 1; i < 5; i++)
			op_in(RVL_TYPE_F32, DIMS(i == wrong ? 1 : 2), x8, i == wrong ? 1 : 2);
		snprintf(text, sizeof(text), "its input %d has 1 values, not 2", wrong);
		op_fails(1, text);
	}
}
END_TEST

START_TEST(instances)
{
	static const int opsets[] = { 1, 6, 22 };

	for (int i = 0; i < 3; i++) {
		BEGIN("InstanceNormalization", opsets[i], DIMS(2, 2, 2));
		op_float("epsilon", 0.5f);
		IN_F32(DIMS(2), 2, 3);
		IN_F32(DIMS(2), 1, -1);
		op_ok(1);
		WANT_F32(0, DIMS(2, 2, 2), -0.15470054f, 2.1547005f, -3.7136021f, 1.7136021f,
			 -0.80906807f, 2.8090681f, -3.8284271f, 1.8284271f);
	}
	BEGIN("InstanceNormalization", 22, DIMS(8));
	IN_F32(DIMS(1), 2);
	IN_F32(DIMS(1), 1);
	op_fails(1, "its input has rank 1, which has no channels");
	BEGIN("InstanceNormalization", 22, DIMS(2, 2, 2));
	IN_F32(DIMS(2), 2, 3);
	IN_F32(DIMS(3), 1, 2, 3);
	op_fails(1, "its input 2 has 3 values, not 2");
	op_begin("InstanceNormalization", 22);
	IN_EMPTY(F32, DIMS(2, 1, 0));
	IN_F32(DIMS(1), 2);
	IN_F32(DIMS(1), 1);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(2, 1, 0));
}
END_TEST

/* Before opset 21 each group has a scale and a bias, from then on each channel. */
START_TEST(groups)
{
	BEGIN("GroupNormalization", 21, DIMS(1, 4, 2));
	op_int("num_groups", 2);
	op_float("epsilon", 0.5f);
	IN_F32(DIMS(4), 1, 2, 3, 4);
	IN_F32(DIMS(4), 0, 1, 0, -1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 4, 2), -1.0425721f, -0.62554324f, 1.4170288f, 3.9192018f, -3.7041141f,
		 -1.7715328f, 0.93258126f, 4.3682813f);
	BEGIN("GroupNormalization", 18, DIMS(1, 4, 2));
	op_int("num_groups", 2);
	op_float("epsilon", 0.5f);
	IN_F32(DIMS(2), 2, 3);
	IN_F32(DIMS(2), 1, -1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 4, 2), -1.0851441f, -0.25108648f, 1.4170288f, 3.9192018f, -4.7041141f,
		 -2.7715328f, 0.44943594f, 3.026211f);
	for (int64_t n = -1; n <= 3; n++) {
		if (n == 1 || n == 2)
			continue;
		BEGIN("GroupNormalization", 21, DIMS(1, 4, 2));
		op_int("num_groups", n);
		IN_F32(DIMS(4), 1, 2, 3, 4);
		IN_F32(DIMS(4), 0, 1, 0, -1);
		op_fails(1, "of 4 channels");
	}
}
END_TEST

START_TEST(layers)
{
	BEGIN("LayerNormalization", 17, DIMS(2, 2, 2));
	op_int("axis", 1);
	op_float("epsilon", 0.5f);
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	IN_F32(DIMS(2, 2), 0, 1, 0, -1);
	op_ok(3);
	WANT_F32(0, DIMS(2, 2, 2), -1.0425721f, -0.25108648f, 0.62554324f, 4.8384036f, -1.2347047f,
		 -0.18102188f, 1.4494359f, 4.3682813f);
	WANT_F32(1, DIMS(2, 1, 1), 3.5f, 2.75f);
	WANT_F32(2, DIMS(2, 1, 1), 0.41702883f, 0.21473125f);
	BEGIN("LayerNormalization", 17, DIMS(2, 2, 2));
	IN_F32(DIMS(2), 1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2, 2), -0.99998f, 1.99996f, -0.99999778f, 1.9999956f, -0.99999778f,
		 1.9999956f, -0.99999875f, 1.9999975f);
	BEGIN("LayerNormalization", 17, DIMS(2, 4));
	IN_F32(DIMS(4), 1, 2, 3, 4);
	IN_F32(DIMS(3), 1, 2, 3);
	op_fails(1, "its input 2 does not broadcast to input 0");
	BEGIN("LayerNormalization", 17, DIMS(2, 4));
	IN_F32(DIMS(1, 1, 4), 1, 2, 3, 4);
	op_fails(1, "its input 1 does not broadcast to input 0");
	BEGIN("LayerNormalization", 17, DIMS(2, 4));
	op_int("axis", 2);
	IN_F32(DIMS(4), 1, 2, 3, 4);
	op_fails(1, "axis 2 does not exist in a tensor of rank 2");
}
END_TEST

START_TEST(root_mean_squares)
{
	BEGIN("RMSNormalization", 23, DIMS(2, 4));
	op_float("epsilon", 0.5f);
	IN_F32(DIMS(4), 1, 2, 3, 4);
	op_ok(1);
	WANT_F32(0, DIMS(2, 4), 0.23570226f, 0.94280904f, 2.8284271f, 6.5996633f, -0.5547002f, 0,
		 2.773501f, 6.6564024f);
	op_begin("RMSNormalization", 23);
	IN_EMPTY(F32, DIMS(0, 4));
	IN_F32(DIMS(1), 1);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0, 4));
}
END_TEST

START_TEST(mean_and_variance)
{
	BEGIN("MeanVarianceNormalization", 13, DIMS(2, 2, 1, 2));
	op_ok(1);
	WANT_F32(0, DIMS(2, 2, 1, 2), 0.53452248f, 1.069045f, -1.1717002f, 0.39056673f, -1.6035675f,
		 0, -0.65094455f, 1.432078f);
	BEGIN("MeanVarianceNormalization", 9, DIMS(2, 2, 2));
	OP_INTS("axes", 0, 2);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2, 2), 0.53452248f, 1.069045f, -1.1717002f, 0.39056673f, -1.6035675f, 0,
		 -0.65094455f, 1.432078f);
	BEGIN("MeanVarianceNormalization", 9, DIMS(2, 2, 2));
	OP_INTS("axes", 1);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2, 2), -1, -1, 1, 1, -1, -1, 1, 1);
	/* Equal elements become 0, because the deviation is kept above 0. */
	op_begin("MeanVarianceNormalization", 9);
	OP_INTS("axes", 0);
	IN_F32(DIMS(2), 3, 3);
	op_ok(1);
	WANT_F32(0, DIMS(2), 0, 0);
	op_begin("MeanVarianceNormalization", 9);
	OP_INTS("axes", 0);
	IN_F32(DIMS(2), 1e-9f, -1e-9f);
	op_ok(1);
	WANT_F32(0, DIMS(2), 0.5f, -0.5f);
	op_begin("MeanVarianceNormalization", 9);
	OP_INTS("axes", 1);
	IN_EMPTY(F32, DIMS(2, 0));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(2, 0));
	BEGIN("MeanVarianceNormalization", 9, DIMS(2, 2, 2));
	op_fails(1, "its input has rank 3, less than the default axes need");
	BEGIN("MeanVarianceNormalization", 9, DIMS(2, 2, 2));
	OP_INTS("axes", 3);
	op_fails(1, "axis 3 does not exist in a tensor of rank 3");
}
END_TEST

static const struct {
	int64_t size;
	float y[8];
} windows[] = {
	{ 2, { 0.4f, 0.51214752f, 1.3926212f, 1.8543453f, -0.9258201f, 0, 1.7407766f,
	       1.9079962f } },
	{ 3, { 0.45485883f, 0.60764362f, 1.5894388f, 2.1267527f, -0.93325653f, 0, 1.8057878f,
	       2.2860023f } },
	{ 4, { 0.43643578f, 0.68100522f, 1.3821895f, 1.6165808f, -1.0444659f, 0, 2, 2.5846494f } },
	{ 99, { 0.66554716f, 1.2224318f, 2.6621886f, 4.2785115f, -1.9966415f, 0, 3.3277358f,
		5.5009433f } },
};

START_TEST(neighbouring_channels)
{
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		BEGIN("LRN", 13, DIMS(1, 4, 2));
		op_int("size", windows[i].size);
		op_float("alpha", 0.5f);
		op_float("beta", 0.5f);
		op_float("bias", 2);
		op_ok(1);
		op_want(0, RVL_TYPE_F32, DIMS(1, 4, 2), windows[i].y, 8);
	}
	op_begin("LRN", 1);
	op_int("size", 3);
	IN_F32(DIMS(1, 4, 2), 100, 200, 400, 700, -300, 0, 500, 900);
	op_ok(1);
	WANT_F32(0, DIMS(1, 4, 2), 24.102853f, 22.270497f, 72.962958f, 77.946741f, -34.81411f, 0,
		 75.973066f, 73.93907f);
}
END_TEST

START_TEST(windows_of_any_size)
{
	BEGIN("LRN", 13, DIMS(1, 4, 2));
	op_int("size", INT64_MAX);
	op_float("alpha", 0);
	op_float("bias", 1);
	op_ok(1);
	op_want(0, RVL_TYPE_F32, DIMS(1, 4, 2), x8, 8);
	BEGIN("LRN", 13, DIMS(1, 4, 2));
	op_int("size", 0);
	op_fails(1, "attribute size is 0");
	BEGIN("LRN", 13, DIMS(8));
	op_int("size", 1);
	op_fails(1, "its input has rank 1, which has no channels");
	op_begin("LRN", 13);
	op_int("size", 1);
	IN_EMPTY(F32, DIMS(2, 0, 3));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(2, 0, 3));
}
END_TEST

/* More places of a channel than the loop takes at a time. */
START_TEST(long_channels)
{
	enum { N = 300 };
	static float x[2 * N], y[2 * N];

	for (int i = 0; i < 2 * N; i++) {
		x[i] = (float)(i % N);
		y[i] = x[i] / (1.0f + x[i] * x[i]);
	}
	op_begin("LRN", 13);
	op_int("size", 3);
	op_float("alpha", 1.5f);
	op_float("beta", 1);
	op_in(RVL_TYPE_F32, DIMS(1, 2, N), x, 2 * N);
	op_ok(1);
	op_want(0, RVL_TYPE_F32, DIMS(1, 2, N), y, 2 * N);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_norm");
	TCase *t = add_case(s, "norm", 10, NULL, op_end);

	tcase_add_test(t, batch_by_given_moments);
	tcase_add_test(t, batch_in_training);
	tcase_add_test(t, batch_by_element);
	tcase_add_test(t, batch_of_other_shapes);
	tcase_add_test(t, instances);
	tcase_add_test(t, groups);
	tcase_add_test(t, layers);
	tcase_add_test(t, root_mean_squares);
	tcase_add_test(t, mean_and_variance);
	tcase_add_test(t, neighbouring_channels);
	tcase_add_test(t, windows_of_any_size);
	tcase_add_test(t, long_channels);
	return run_suite(s);
}
