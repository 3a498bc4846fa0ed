/* SPDX-License-Identifier: MIT */
/* Tests that quantised networks compute what their float networks do, in bytes from end to end. */
#include <check.h>

#include "chance.h"
#include "suite.h"
#include "unit/calibrate_rig.h"

#define OLD(x, dims, op, attrs) \
	"in x f32 " x "; out y; const w f32 4,4,1,1 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1; const k f32 " dims \
	" 0.5 -1 2 0.25; Conv x w -> a; " op " a k -> b " attrs "; Conv b w -> y"

/* Operators before opset 7, whose constants differ by channel where there are as many columns as channels. */
static const struct {
	const char *text;
	uint32_t tables; /* 0: the operator became part of a product, or is computed between bytes */
	uint32_t between;
} old_operators[] = {
	{ OLD("1,4,4,4", "4", "Mul", "broadcast=1 axis=1"), 1, 0 },
	{ OLD("1,4,4,4", "4,1", "Mul", "broadcast=1 axis=1"), 1, 0 },
	{ OLD("1,4,4,4", "4", "Mul", "broadcast=1"), 1, 0 },
	{ OLD("1,4,4,4", "4", "Add", "broadcast=1 axis=1"), 1, 0 },
	{ OLD("1,4,4,4", "4", "PRelu", ""), 1, 0 },
	{ OLD("1,4,1,1", "1,4,1,1", "Mul", ""), 0, 1 },
	{ OLD("1,4,1,1", "1,4,1,1", "Add", "broadcast=1"), 0, 1 },
	{ "in x f32 1,1,1,1; out y; const w f32 1,1,1,1 1; const k f32 1,1,1,1 0.5; Conv x w -> a; Mul a k -> b; "
	  "Conv b w -> y", 1, 0 },
	{ OLD("1,4,4,4", "4", "Sub", "broadcast=1 axis=1"), 0, 0 },
	{ OLD("1,4,4,4", "4", "Div", "broadcast=1 axis=1"), 0, 0 },
};

START_TEST(old_operators_keep_their_axis)
{
	static float x[64];
	uint64_t seed = 17, size;

	for (size_t i = 0; i < 64; i++)
		x[i] = (float)chance_uniform(&seed, -1, 1);
	opset = 6;
	size = _i == 7 ? 1 : _i == 5 || _i == 6 ? 4 : 64;
	near_float(old_operators[_i].text, x, size, 0.03f);
	ck_assert_uint_eq(count(RVL_OP_Q_TABLE), old_operators[_i].tables);
	ck_assert_uint_eq(count(RVL_OP_Q_GENERAL), old_operators[_i].between);
	release();
	opset = 13;
}
END_TEST

/* Opsets before 13 have no attribute axis: scales by channel lie along axis 1, as by default later. */
START_TEST(scales_lie_along_axis_1)
{
	static const char text[] = "in x f32 2,2; out y; const s f32 2 1 0.5; const z u8 2 0 10; "
				   "QuantizeLinear x s z -> q; DequantizeLinear q s z -> y";
	static const float x[4] = { 1.25f, 1.5f, 2.25f, 2.5f }, want[4] = { 1, 1.5f, 2, 2.5f };
	static const int opsets[] = { 10, 12, 13 };
	float y[4];

	bytes = ot_model(text, opsets[_i]);
	ck_assert_msg(!rvl_onnx_load(bytes.p, bytes.n, NULL, &g, &err), "%s", err.msg);
	ck_assert_msg(!rvl_shape_infer(g, &err), "%s", err.msg);
	ck_assert_int_eq(g->nodes[0]->op, RVL_OP_QUANTIZE);
	run_float(x, y);
	for (int i = 0; i < 4; i++)
		ck_assert_float_eq(y[i], want[i]);
	release();
}
END_TEST

#define TWO(text) \
	"in x f32 1,2,4,4; out y; const w f32 2,2,1,1 1 -0.5 0.25 1; const v f32 2,2,1,1 0.5 1 -1 0.5; " \
	"Conv x w -> a; Conv x v -> b; " text "; Conv c w -> y"

/* Operators between two products, the operator that stands for each, and how many values remain float. */
static const struct {
	const char *text;
	enum rvl_op op;
	uint32_t floats; /* operators in float between the products */
} between_products[] = {
	{ TWO("Sub a b -> c"), RVL_OP_Q_GENERAL, 0 },
	{ TWO("Max a b -> c"), RVL_OP_Q_GENERAL, 0 },
	{ TWO("Min b a -> c"), RVL_OP_Q_GENERAL, 0 },
	{ TWO("Sum a b a -> c"), RVL_OP_Q_GENERAL, 0 },
	{ TWO("Tanh b -> d; const k f32 - 2; Add d k -> e; Div a e -> c"), RVL_OP_Q_GENERAL, 0 },
	{ TWO("const k f32 1,2,4,4 2 -1 3; Sub k a -> c"), RVL_OP_Q_GENERAL, 0 },
	{ TWO("const k f32 1,2,4,4 2 -1 3; PRelu a k -> c"), RVL_OP_Q_GENERAL, 0 },
	{ TWO("ReduceMean b -> d axes=[1]; Mul a d -> c"), RVL_OP_Q_GENERAL, 0 },
	{ TWO("ReduceMean b -> d axes=[1]; Mul a d -> c"), RVL_OP_Q_MUL, 0 },
	{ TWO("ReduceMax b -> d axes=[2,3]; Add a d -> c"), RVL_OP_Q_ADD, 0 },
	{ TWO("ReduceMin b -> d axes=[1]; Add a d -> c"), RVL_OP_Q_ADD, 0 },
	{ TWO("const r f32 0; const n f32 4 1 1 2 2; Resize a r n -> c mode='linear'"), RVL_OP_Q_GENERAL, 0 },
	{ TWO("const r f32 0; const n f32 4 1 1 2 2; Resize a r n -> c mode='cubic'"), RVL_OP_GENERAL, 1 },
	{ TWO("MatMul a b -> c"), RVL_OP_Q_MATMUL, 0 },
	{ TWO("Softmax a -> c axis=1"), RVL_OP_SOFTMAX, 1 },
	{ TWO("const k f32 2 1 2; InstanceNormalization a k k -> c"), RVL_OP_GENERAL, 1 },
};

/* Only operators without a quantised form are in float: one conversion in front of each and one behind. */
START_TEST(values_between_products_are_bytes)
{
	static float x[64];
	uint64_t seed = 23;

	for (size_t i = 0; i < 64; i++)
		x[i] = (float)chance_uniform(&seed, -1, 1);
	near_float(between_products[_i].text, x, 64, 0.06f);
	ck_assert_uint_ge(count(between_products[_i].op), 1);
	ck_assert_uint_eq(count(RVL_OP_QUANTIZE), 1 + between_products[_i].floats);
	ck_assert_uint_eq(count(RVL_OP_DEQUANTIZE), 1 + between_products[_i].floats);
	release();
}
END_TEST

#define POOLED(attrs) \
	"in x f32 1,2,6,6; out y; const w f32 2,2,1,1 1 0 0 1; Conv x w -> a; " \
	"AveragePool a -> b kernel_shape=[3,3] strides=[2,2] " attrs "; Conv b w -> y"

/* Windows that end behind the padded image, which only the first, fourth and last one do, divide alike. */
static const char *const pools_at_borders[] = {
	POOLED("ceil_mode=1 count_include_pad=1"),
	POOLED("ceil_mode=1"),
	POOLED("ceil_mode=1 count_include_pad=1 pads=[0,0,1,1]"),
	POOLED("ceil_mode=1 count_include_pad=1 pads=[0,0,1,0]"),
	POOLED("count_include_pad=1"),
	POOLED("ceil_mode=1 count_include_pad=1 pads=[1,1,1,1]"),
};

#define LINE(first, text) \
	"in x f32 1,2,24; out y; const w f32 4,2,3 0.5 -1 0.25; const v f32 4,4,2 1 -0.5 0.75; const d f32 4,1,3 0.5 1; " \
	"const f f32 4 0.5 2; const o f32 4 0.25; Conv x w -> a " first "; " text "; Conv c v -> y"

/* Networks of one dimension, and their convolutions. */
static const struct {
	const char *text;
	uint32_t products;
} lines[] = {
	{ LINE("", "Relu a -> c"), 2 },
	{ LINE("auto_pad='SAME_UPPER' strides=[3]", "MaxPool a -> c kernel_shape=[2] strides=[2]"), 2 },
	{ LINE("auto_pad='SAME_LOWER' dilations=[2]", "Conv a d -> c group=4 pads=[2,0]"), 3 },
	{ LINE("pads=[1,1]", "BatchNormalization a f o o f -> b; LeakyRelu b -> e; Add b e -> c"), 2 },
	{ LINE("", "AveragePool a -> c kernel_shape=[3] ceil_mode=1 strides=[2] pads=[1,1] count_include_pad=1"), 2 },
	{ LINE("", "GlobalAveragePool a -> b; Sigmoid b -> e; Mul a e -> c"), 2 },
	{ LINE("", "ReduceMean a -> b axes=[2]; Sigmoid b -> e; Mul a e -> c"), 2 },
};

/* One conversion at each end: convolutions, pools and normalisations of lines are those of images. */
START_TEST(networks_of_one_dimension_are_bytes)
{
	static float x[48];
	uint64_t seed = 29;

	for (size_t i = 0; i < 48; i++)
		x[i] = (float)chance_uniform(&seed, -1, 1);
	opset = 17;
	near_float(lines[_i].text, x, 48, 0.06f);
	ck_assert_uint_eq(count(RVL_OP_Q_CONV), lines[_i].products);
	if (_i == 0) /* none between the convolutions */
		ck_assert_uint_eq(count(RVL_OP_RESHAPE), 2);
	ck_assert_uint_eq(count(RVL_OP_QUANTIZE), 1);
	ck_assert_uint_eq(count(RVL_OP_DEQUANTIZE), 1);
	release();
	opset = 13;
}
END_TEST

START_TEST(pools_divide_alike_at_borders)
{
	static float x[72];
	uint64_t seed = 19;

	for (size_t i = 0; i < 72; i++)
		x[i] = (float)chance_uniform(&seed, 0.5, 1);
	near_float(pools_at_borders[_i], x, 72, 0.03f);
	ck_assert_uint_eq(count(RVL_OP_Q_AVERAGE_POOL), 1);
	release();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("quantised");
	TCase *t = add_case(s, "all", 60, NULL, NULL);

	tcase_add_loop_test(t, pools_divide_alike_at_borders, 0,
			    (int)(sizeof(pools_at_borders) / sizeof(pools_at_borders[0])));
	tcase_add_loop_test(t, scales_lie_along_axis_1, 0, 3);
	tcase_add_loop_test(t, old_operators_keep_their_axis, 0,
			    (int)(sizeof(old_operators) / sizeof(old_operators[0])));
	tcase_add_loop_test(t, values_between_products_are_bytes, 0,
			    (int)(sizeof(between_products) / sizeof(between_products[0])));
	tcase_add_loop_test(t, networks_of_one_dimension_are_bytes, 0, (int)(sizeof(lines) / sizeof(lines[0])));
	return run_suite(s);
}
