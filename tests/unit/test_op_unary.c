/* SPDX-License-Identifier: MIT */
/* Element-wise functions of one operand, activations, Clip, PRelu, Dropout and Where. */
#include "op_rig.h"
#include "suite.h"

/* Each function at six places; the expected numbers were computed in double. */
static const float places[6] = { -2.5f, -0.5f, -0.0f, 0.25f, 1.5f, 3.0f };

static const struct {
	const char *op;
	int opset;
	float y[6];
} everywhere[] = {
	{ "Abs", 13, { 2.5, 0.5, 0, 0.25, 1.5, 3 } },
	{ "Neg", 13, { 2.5, 0.5, 0, -0.25, -1.5, -3 } },
	{ "Sign", 13, { -1, -1, 0, 1, 1, 1 } },
	{ "Ceil", 13, { -2, 0, 0, 1, 2, 3 } },
	{ "Floor", 13, { -3, -1, 0, 0, 1, 3 } },
	{ "Round", 11, { -2, -0, -0, 0, 2, 3 } },
	{ "Exp", 13, { 0.082084999, 0.60653066, 1, 1.2840254, 4.4816891, 20.085537 } },
	{ "Erf", 13, { -0.99959305, -0.52049988, -0, 0.27632639, 0.96610515, 0.99997791 } },
	{ "Sin", 7, { -0.59847214, -0.47942554, -0, 0.24740396, 0.99749499, 0.14112001 } },
	{ "Cos", 7, { -0.80114362, 0.87758256, 1, 0.96891242, 0.070737202, -0.9899925 } },
	{ "Tan", 7, { 0.7470223, -0.54630249, -0, 0.25534192, 14.10142, -0.14254654 } },
	{ "Atan", 7, { -1.1902899, -0.46364761, -0, 0.24497866, 0.98279372, 1.2490458 } },
	{ "Sinh", 9, { -6.0502045, -0.52109531, -0, 0.25261232, 2.1292795, 10.017875 } },
	{ "Cosh", 9, { 6.1322895, 1.127626, 1, 1.0314131, 2.3524096, 10.067662 } },
	{ "Tanh", 13, { -0.9866143, -0.46211716, -0, 0.24491866, 0.90514825, 0.99505475 } },
	{ "Asinh", 9, { -1.6472311, -0.48121183, -0, 0.24746646, 1.1947632, 1.8184465 } },
	{ "Relu", 14, { 0, 0, -0, 0.25, 1.5, 3 } },
	{ "LeakyRelu", 16, { -0.025, -0.005, -0, 0.25, 1.5, 3 } },
	{ "ThresholdedRelu", 10, { 0, 0, 0, 0, 1.5, 3 } },
	{ "Elu", 6, { -0.917915, -0.39346934, -0, 0.25, 1.5, 3 } },
	{ "Celu", 12, { -0.917915, -0.39346934, 0, 0.25, 1.5, 3 } },
	{ "Selu", 6, { -1.6137858, -0.69175819, -0, 0.26267525, 1.5760515, 3.1521031 } },
	{ "Softplus", 1, { 0.078889734, 0.47407698, 0.69314718, 0.82593942, 1.7014133,
	  3.0485874 } },
	{ "Softsign", 1, { -0.71428571, -0.33333333, -0, 0.2, 0.6, 0.75 } },
	{ "Sigmoid", 13, { 0.07585818, 0.37754067, 0.5, 0.5621765, 0.81757448, 0.95257413 } },
	{ "HardSigmoid", 6, { 0, 0.4, 0.5, 0.55, 0.8, 1 } },
	{ "HardSwish", 14, { -0.20833333, -0.20833333, -0, 0.13541667, 1.125, 3 } },
	{ "Mish", 18, { -0.1968162, -0.22074377, -0, 0.16957241, 1.4033783, 2.986535 } },
	{ "Gelu", 20, { -0.015524163, -0.15426877, -0, 0.14967658, 1.3997892, 2.9959503 } },
	{ "Swish", 24, { -0.18964545, -0.18877033, -0, 0.14054413, 1.2263617, 2.8577224 } },
	{ "Shrink", 9, { -2.5, 0, 0, 0, 1.5, 3 } },
};

/* Functions with a domain, at three places within it. */
static const struct {
	const char *op;
	int opset;
	float x[3], y[3];
} within[] = {
	{ "Log", 13, { 0.25, 1, 7.5 }, { -1.3862944, 0, 2.014903 } },
	{ "Sqrt", 13, { 0.25, 1, 7.5 }, { 0.5, 1, 2.7386128 } },
	{ "Reciprocal", 13, { 0.25, 1, -7.5 }, { 4, 1, -0.13333333 } },
	{ "Asin", 7, { -0.75, 0, 0.5 }, { -0.84806208, 0, 0.52359878 } },
	{ "Acos", 7, { -0.75, 0, 0.5 }, { 2.4188584, 1.5707963, 1.0471976 } },
	{ "Acosh", 9, { 1, 2.5, 30 }, { 0, 1.5667992, 4.0940667 } },
	{ "Atanh", 9, { -0.75, 0, 0.5 }, { -0.97295507, 0, 0.54930614 } },
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

START_TEST(float_functions)
{
	op_begin(everywhere[_i].op, everywhere[_i].opset);
	op_in(RVL_TYPE_F32, DIMS(2, 3), places, 6);
	op_ok(1);
	op_want(0, RVL_TYPE_F32, DIMS(2, 3), everywhere[_i].y, 6);
}
END_TEST

START_TEST(float_functions_within)
{
	op_begin(within[_i].op, within[_i].opset);
	op_in(RVL_TYPE_F32, DIMS(3), within[_i].x, 3);
	op_ok(1);
	op_want(0, RVL_TYPE_F32, DIMS(3), within[_i].y, 3);
}
END_TEST

/* The first opset that has an operator, the one before, rank 0, and no elements. */
static const struct {
	const char *op;
	int since;
} first[] = {
	{ "Abs", 1 },	     { "Neg", 1 },	  { "Sign", 9 },	 { "Ceil", 1 },
	{ "Floor", 1 },	     { "Round", 11 },	  { "Exp", 1 },		 { "Log", 1 },
	{ "Sqrt", 1 },	     { "Reciprocal", 1 }, { "Erf", 9 },		 { "Sin", 7 },
	{ "Cos", 7 },	     { "Tan", 7 },	  { "Asin", 7 },	 { "Acos", 7 },
	{ "Atan", 7 },	     { "Sinh", 9 },	  { "Cosh", 9 },	 { "Tanh", 1 },
	{ "Asinh", 9 },	     { "Acosh", 9 },	  { "Atanh", 9 },	 { "Relu", 1 },
	{ "LeakyRelu", 1 },  { "Elu", 1 },	  { "Celu", 12 },	 { "Selu", 1 },
	{ "Softplus", 1 },   { "Softsign", 1 },	  { "Sigmoid", 1 },	 { "HardSigmoid", 1 },
	{ "HardSwish", 14 }, { "Mish", 18 },	  { "Gelu", 20 },	 { "Swish", 24 },
	{ "Shrink", 9 },     { "Clip", 1 },	  { "ThresholdedRelu", 10 },
};

START_TEST(opsets_rank_0_and_no_elements)
{
	ck_assert_ptr_null(rvl_op_find(NULL, first[_i].op, first[_i].since - 1));
	op_begin(first[_i].op, first[_i].since);
	IN_F32(RANK0, 1);
	op_ok(1);
	ck_assert_int_eq(rig.call.out[0].shape.rank, 0);
	op_begin(first[_i].op, first[_i].since);
	IN_EMPTY(F32, DIMS(3, 0, 2));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(3, 0, 2));
}
END_TEST

START_TEST(floats_that_are_no_numbers)
{
	static const char *const passed_on[] = { "Abs", "Neg", "Sign", "Ceil", "Exp", "Relu",
						 "LeakyRelu", "Elu", "Sigmoid", "Softplus" };

	for (size_t i = 0; i < COUNT(passed_on); i++) {
		op_begin(passed_on[i], 28);
		IN_F32(DIMS(1), NAN);
		op_ok(1);
		WANT_F32(0, DIMS(1), NAN);
	}
	op_begin("Softplus", 22);
	IN_F32(DIMS(3), 200, -200, INFINITY);
	op_ok(1);
	WANT_F32(0, DIMS(3), 200, 0, INFINITY);
	op_begin("Sigmoid", 13);
	IN_F32(DIMS(2), 200, -200);
	op_ok(1);
	WANT_F32(0, DIMS(2), 1, 0);
	op_begin("Round", 22);
	IN_F32(DIMS(5), 0.5f, 1.5f, 2.5f, -1.5f, 2.51f);
	op_ok(1);
	WANT_F32(0, DIMS(5), 0, 2, 2, -2, 3);
}
END_TEST

START_TEST(integers)
{
	op_begin("Abs", 13);
	IN_S8(DIMS(4), -128, -3, 0, 127);
	op_ok(1);
	WANT_S8(0, DIMS(4), -128, 3, 0, 127);
	op_begin("Abs", 13);
	OP_IN(U64, uint64_t, DIMS(2), UINT64_MAX, 5);
	op_ok(1);
	OP_WANT(0, U64, uint64_t, DIMS(2), UINT64_MAX, 5);
	op_begin("Neg", 13);
	IN_S64(DIMS(4), INT64_MIN, INT64_MAX, -7, 0);
	op_ok(1);
	WANT_S64(0, DIMS(4), INT64_MIN, -INT64_MAX, 7, 0);
	op_begin("Sign", 13);
	IN_S32(DIMS(3), INT32_MIN, 0, 9);
	op_ok(1);
	WANT_S32(0, DIMS(3), -1, 0, 1);
	op_begin("Sign", 13);
	IN_U8(DIMS(3), 0, 1, 255);
	op_ok(1);
	WANT_U8(0, DIMS(3), 0, 1, 1);
	op_begin("Relu", 14);
	IN_S32(DIMS(3), -4, 0, 9);
	op_ok(1);
	WANT_S32(0, DIMS(3), 0, 0, 9);
	op_begin("Erf", 9);
	IN_S32(DIMS(3), -9, 0, 9);
	op_ok(1);
	WANT_S32(0, DIMS(3), -1, 0, 1);
}
END_TEST

START_TEST(bits_and_classes)
{
	op_begin("Not", 1);
	OP_IN(BOOL, uint8_t, DIMS(2), 1, 0);
	op_ok(1);
	OP_WANT(0, BOOL, uint8_t, DIMS(2), 0, 1);
	op_begin("BitwiseNot", 18);
	IN_U8(DIMS(2), 0x0f, 0);
	op_ok(1);
	WANT_U8(0, DIMS(2), 0xf0, 0xff);
	op_begin("BitwiseNot", 18);
	IN_S32(DIMS(2), 0, -6);
	op_ok(1);
	WANT_S32(0, DIMS(2), -1, 5);
	op_begin("IsNaN", 9);
	IN_F32(DIMS(3), NAN, 1, INFINITY);
	op_ok(1);
	OP_WANT(0, BOOL, uint8_t, DIMS(3), 1, 0, 0);
	for (int below = 0; below < 2; below++)
		for (int above = 0; above < 2; above++) {
			op_begin("IsInf", 10);
			op_int("detect_negative", below);
			op_int("detect_positive", above);
			IN_F32(DIMS(4), -INFINITY, INFINITY, NAN, 3);
			op_ok(1);
			OP_WANT(0, BOOL, uint8_t, DIMS(4), below, above, 0, 0);
		}
	op_begin("IsInf", 20);
	IN_F32(DIMS(3), -INFINITY, INFINITY, 1);
	op_ok(1);
	OP_WANT(0, BOOL, uint8_t, DIMS(3), 1, 1, 0);
}
END_TEST

#define WITH(op, opset, name, value) (op_begin(op, opset), op_float(name, value))

START_TEST(attributes)
{
	WITH("LeakyRelu", 6, "alpha", 0.5f);
	IN_F32(DIMS(2), -2, 2);
	op_ok(1);
	WANT_F32(0, DIMS(2), -1, 2);
	WITH("ThresholdedRelu", 10, "alpha", 2);
	IN_F32(DIMS(3), 1.9f, 2, 2.1f);
	op_ok(1);
	WANT_F32(0, DIMS(3), 0, 0, 2.1f);
	WITH("Elu", 6, "alpha", 2);
	IN_F32(DIMS(3), -3, -1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(3), -1.9004259f, -1.2642411f, 2);
	WITH("Celu", 12, "alpha", 2);
	IN_F32(DIMS(3), -3, -1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(3), -1.5537397f, -0.78693868f, 2);
	WITH("Selu", 6, "alpha", 2);
	op_float("gamma", 3);
	IN_F32(DIMS(3), -3, -1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(3), -5.7012776f, -3.7927234f, 6);
	WITH("HardSigmoid", 6, "alpha", 0.5f);
	op_float("beta", 0.25f);
	IN_F32(DIMS(4), -3, -0.25f, 1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(4), 0, 0.125f, 0.75f, 1);
	WITH("Swish", 24, "alpha", 2);
	IN_F32(DIMS(3), -3, -1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(3), -0.0074178695f, -0.11920292f, 1.9640276f);
	op_begin("Gelu", 20);
	op_string("approximate", "tanh");
	IN_F32(DIMS(4), -2.5f, -0.5f, 1.5f, 3);
	op_ok(1);
	WANT_F32(0, DIMS(4), -0.015084266f, -0.15428599f, 1.3995716f, 2.9963626f);
	op_begin("Gelu", 20);
	op_string("approximate", "sine");
	IN_F32(DIMS(1), 1);
	op_fails(1, "attribute approximate is 'sine', not one of none|tanh");
}
END_TEST

/* Opset 1 had fewer digits in the defaults of Selu. */
START_TEST(defaults_of_opset_1)
{
	op_begin("Selu", 1);
	IN_F32(DIMS(2), -2, 4096);
	op_ok(1);
	ck_assert_float_eq(((float *)rig.call.out[0].data)[1], 1.0507f * 4096);
	op_begin("Selu", 6);
	IN_F32(DIMS(2), -2, 4096);
	op_ok(1);
	ck_assert_float_eq(((float *)rig.call.out[0].data)[1], 1.05070102f * 4096);
	op_begin("Selu", 1);
	IN_F32(DIMS(1), -30);
	op_ok(1);
	ck_assert_float_eq_tol(((float *)rig.call.out[0].data)[0], -1.0507f * 1.6732f, 1e-6f);
	op_begin("Selu", 6);
	IN_F32(DIMS(1), -30);
	op_ok(1);
	ck_assert_float_eq_tol(((float *)rig.call.out[0].data)[0], -1.0507f * 1.67326319f, 3e-6f);
}
END_TEST

START_TEST(shrink)
{
	WITH("Shrink", 9, "lambd", 1.5f);
	op_float("bias", 1.5f);
	IN_F32(DIMS(5), -2, -1.5f, 0, 1.5f, 2);
	op_ok(1);
	WANT_F32(0, DIMS(5), -0.5f, 0, 0, 0, 0.5f);
	WITH("Shrink", 9, "lambd", 2.5f);
	op_float("bias", 1);
	IN_S32(DIMS(5), -9, -2, 0, 2, 3);
	op_ok(1);
	WANT_S32(0, DIMS(5), -8, 0, 0, 0, 2);
	WITH("Shrink", 9, "lambd", 1);
	op_float("bias", 3e38f);
	IN_S64(DIMS(2), -9, 9);
	op_ok(1);
	WANT_S64(0, DIMS(2), INT64_MAX, INT64_MIN);
}
END_TEST

START_TEST(swiglu)
{
	WITH("SwiGLU", 28, "alpha", 2);
	IN_F32(DIMS(3), -3, -1, 2);
	IN_F32(DIMS(3), 2, -5, 0.5f);
	op_ok(1);
	WANT_F32(0, DIMS(3), -0.014835739f, 0.59601461f, 0.98201379f);
	op_begin("SwiGLU", 28);
	IN_F32(DIMS(1), -2.5f);
	IN_F32(DIMS(1), 2);
	op_ok(1);
	WANT_F32(0, DIMS(1), -0.3792909f);
	op_begin("SwiGLU", 28);
	IN_F32(DIMS(2), 1, 2);
	IN_F32(DIMS(1), 2);
	op_fails(1, "its two inputs differ in shape");
}
END_TEST

START_TEST(prelu)
{
	op_begin("PRelu", 16);
	IN_F32(DIMS(2, 3), -1, 2, -3, 0, -5, -6);
	IN_F32(DIMS(3), 2, 3, 4);
	op_ok(1);
	WANT_F32(0, DIMS(2, 3), -2, 2, -12, 0, -15, -24);
	op_begin("PRelu", 9);
	IN_S32(DIMS(3), -7, 0, 7);
	IN_S32(DIMS(1), 3);
	op_ok(1);
	WANT_S32(0, DIMS(3), -21, 0, 7);
	op_begin("PRelu", 9);
	OP_IN(U32, uint32_t, DIMS(2), 7, UINT32_MAX);
	OP_IN(U32, uint32_t, DIMS(1), 3);
	op_ok(1);
	OP_WANT(0, U32, uint32_t, DIMS(2), 7, UINT32_MAX);
	op_begin("PRelu", 7);
	IN_F32(DIMS(2), -1, 2);
	IN_F32(DIMS(1, 1, 1), 2);
	op_fails(1, "its slope does not broadcast to its input");
	op_begin("PRelu", 7);
	IN_F32(DIMS(2), -1, 2);
	IN_F32(DIMS(3), 2, 2, 2);
	op_fails(1, "its slope does not broadcast to its input");
}
END_TEST

/* Before opset 7 a slope with a value for each channel belongs to axis 1. */
START_TEST(prelu_by_channel)
{
	op_begin("PRelu", 6);
	IN_F32(DIMS(1, 2, 2), -1, -1, -1, -1);
	IN_F32(DIMS(2), 2, 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), -2, -2, -3, -3);
	op_begin("PRelu", 7);
	IN_F32(DIMS(1, 2, 2), -1, -1, -1, -1);
	IN_F32(DIMS(2), 2, 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), -2, -3, -2, -3);
	op_begin("PRelu", 6);
	IN_F32(DIMS(1, 2, 2), -1, -1, -1, -1);
	IN_F32(DIMS(1), 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), -2, -2, -2, -2);
	op_begin("PRelu", 1);
	IN_F32(DIMS(2), -1, -2);
	IN_F32(DIMS(2), 2, 3);
	op_ok(1);
	WANT_F32(0, DIMS(2), -2, -6);
	op_begin("PRelu", 6);
	IN_F32(DIMS(1, 3, 2), 1, 1, 1, 1, 1, 1);
	IN_F32(DIMS(2), 2, 3);
	op_fails(1, "its slope does not broadcast to its input");
}
END_TEST

START_TEST(clip_by_attributes)
{
	WITH("Clip", 6, "min", -1);
	IN_F32(DIMS(3), -2, 0, 9);
	op_ok(1);
	WANT_F32(0, DIMS(3), -1, 0, 9);
	WITH("Clip", 1, "max", 3);
	IN_F32(DIMS(3), -INFINITY, 0, 9);
	op_ok(1);
	WANT_F32(0, DIMS(3), -INFINITY, 0, 3);
	op_begin("Clip", 6);
	IN_F32(DIMS(2), -INFINITY, INFINITY);
	op_ok(1);
	WANT_F32(0, DIMS(2), -3.40282347e+38f, 3.40282347e+38f);
	op_begin("Clip", 1);
	IN_F32(DIMS(2), -INFINITY, INFINITY);
	op_ok(1);
	WANT_F32(0, DIMS(2), -INFINITY, INFINITY);
}
END_TEST

START_TEST(clip_by_inputs)
{
	op_begin("Clip", 11);
	IN_F32(DIMS(5), -2, NAN, 0, 9, INFINITY);
	IN_F32(RANK0, -1);
	IN_F32(RANK0, 4);
	op_ok(1);
	WANT_F32(0, DIMS(5), -1, NAN, 0, 4, 4);
	op_begin("Clip", 13);
	IN_S8(DIMS(3), -128, 0, 127);
	op_none();
	IN_S8(DIMS(1), 5);
	op_ok(1);
	WANT_S8(0, DIMS(3), -128, 0, 5);
	op_begin("Clip", 13);
	OP_IN(U64, uint64_t, DIMS(3), 0, 7, UINT64_MAX);
	OP_IN(U64, uint64_t, RANK0, 2);
	op_ok(1);
	OP_WANT(0, U64, uint64_t, DIMS(3), 2, 7, UINT64_MAX);
	op_begin("Clip", 13);
	IN_S64(DIMS(3), INT64_MIN, 7, INT64_MAX);
	op_ok(1);
	WANT_S64(0, DIMS(3), INT64_MIN, 7, INT64_MAX);
	/* Where the bounds cross, the upper bound is applied last. */
	op_begin("Clip", 13);
	OP_IN(U32, uint32_t, DIMS(2), 1, 9);
	OP_IN(U32, uint32_t, RANK0, 6);
	OP_IN(U32, uint32_t, RANK0, 4);
	op_ok(1);
	OP_WANT(0, U32, uint32_t, DIMS(2), 4, 4);
	op_begin("Clip", 13);
	IN_F32(DIMS(2), 1, 9);
	IN_F32(DIMS(2), 1, 9);
	op_fails(1, "its input 1 has 2 values, not 1");
	op_begin("Clip", 13);
	IN_F32(DIMS(2), 1, 9);
	op_none();
	IN_EMPTY(F32, DIMS(0));
	op_fails(1, "its input 2 has 0 values, not 1");
}
END_TEST

START_TEST(dropout)
{
	op_begin("Dropout", 7);
	IN_F32(DIMS(2), 3, 4);
	op_ok(2);
	WANT_F32(0, DIMS(2), 3, 4);
	WANT_F32(1, DIMS(2), 1, 1);
	op_begin("Dropout", 10);
	IN_F32(DIMS(2), 3, 4);
	op_ok(2);
	OP_WANT(1, BOOL, uint8_t, DIMS(2), 1, 1);
	op_begin("Dropout", 13);
	IN_F32(DIMS(2), 3, 4);
	IN_F32(RANK0, 0.5f);
	OP_CONST(BOOL, uint8_t, RANK0, 0);
	op_ok(1);
	WANT_F32(0, DIMS(2), 3, 4);
	op_begin("Dropout", 13);
	IN_F32(DIMS(2), 3, 4);
	CONST_F32(RANK0, 0);
	OP_CONST(BOOL, uint8_t, RANK0, 1);
	op_ok(2);
	WANT_F32(0, DIMS(2), 3, 4);
	OP_WANT(1, BOOL, uint8_t, DIMS(2), 1, 1);
}
END_TEST

START_TEST(dropout_in_training)
{
	op_begin("Dropout", 12);
	IN_F32(DIMS(2), 3, 4);
	CONST_F32(RANK0, 0.5f);
	OP_CONST(BOOL, uint8_t, RANK0, 1);
	op_fails(1, "it is in training and drops elements at random");
	op_begin("Dropout", 12);
	IN_F32(DIMS(2), 3, 4);
	op_none();
	OP_CONST(BOOL, uint8_t, RANK0, 1);
	op_fails(1, "it is in training");
	op_begin("Dropout", 12);
	IN_F32(DIMS(2), 3, 4);
	IN_F32(RANK0, 0);
	OP_CONST(BOOL, uint8_t, RANK0, 1);
	op_fails(1, "it is in training");
	op_begin("Dropout", 12);
	IN_F32(DIMS(2), 3, 4);
	op_none();
	OP_IN(BOOL, uint8_t, RANK0, 0);
	op_fails(1, "its input 2, whether it trains, must be a constant");
	op_begin("Dropout", 12);
	IN_F32(DIMS(2), 3, 4);
	IN_F32(DIMS(2), 0, 0);
	op_fails(1, "its input 1 has 2 values, not 1");
}
END_TEST

START_TEST(where)
{
	op_begin("Where", 16);
	OP_IN(BOOL, uint8_t, DIMS(2, 1), 1, 0);
	IN_F32(DIMS(3), 1, NAN, 3);
	IN_F32(RANK0, 9);
	op_ok(1);
	WANT_F32(0, DIMS(2, 3), 1, NAN, 3, 9, 9, 9);
	op_begin("Where", 9);
	OP_IN(BOOL, uint8_t, DIMS(2), 0, 1);
	IN_S64(DIMS(2), 1, INT64_MIN);
	IN_S64(DIMS(2), INT64_MAX, 4);
	op_ok(1);
	WANT_S64(0, DIMS(2), INT64_MAX, INT64_MIN);
	op_begin("Where", 9);
	OP_IN(BOOL, uint8_t, DIMS(1), 0);
	OP_IN(BOOL, uint8_t, DIMS(1), 0);
	OP_IN(BOOL, uint8_t, DIMS(1), 1);
	op_ok(1);
	OP_WANT(0, BOOL, uint8_t, DIMS(1), 1);
	op_begin("Where", 9);
	OP_IN(BOOL, uint8_t, DIMS(1), 0);
	IN_U8(DIMS(1), 0);
	IN_S8(DIMS(1), 1);
	op_fails(1, "its input 1 is uint8, input 2 int8");
	op_begin("Where", 9);
	OP_IN(BOOL, uint8_t, DIMS(1), 0);
	IN_U8(DIMS(2), 0, 1);
	IN_U8(DIMS(3), 0, 1, 2);
	op_fails(1, "its operands' shapes do not broadcast");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_unary");
	TCase *t = add_case(s, "unary", 10, NULL, op_end);

	tcase_add_loop_test(t, float_functions, 0, COUNT(everywhere));
	tcase_add_loop_test(t, float_functions_within, 0, COUNT(within));
	tcase_add_loop_test(t, opsets_rank_0_and_no_elements, 0, COUNT(first));
	tcase_add_test(t, floats_that_are_no_numbers);
	tcase_add_test(t, integers);
	tcase_add_test(t, bits_and_classes);
	tcase_add_test(t, attributes);
	tcase_add_test(t, defaults_of_opset_1);
	tcase_add_test(t, shrink);
	tcase_add_test(t, swiglu);
	tcase_add_test(t, prelu);
	tcase_add_test(t, prelu_by_channel);
	tcase_add_test(t, clip_by_attributes);
	tcase_add_test(t, clip_by_inputs);
	tcase_add_test(t, dropout);
	tcase_add_test(t, dropout_in_training);
	tcase_add_test(t, where);
	return run_suite(s);
}
