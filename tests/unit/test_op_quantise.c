// SPDX-License-Identifier: MIT
/* Quantisation and products of quantised matrices of the table of operators. */
#include "op_rig.h"
#include "suite.h"

#define IN_U16(dims, ...) OP_IN(U16, uint16_t, dims, __VA_ARGS__)
#define IN_S16(dims, ...) OP_IN(S16, int16_t, dims, __VA_ARGS__)

START_TEST(quantize_per_tensor)
{
	op_begin("QuantizeLinear", 10);
	IN_F32(DIMS(7), -1e9, -2, 0.5, 1.5, 0.75, 1e9, NAN);
	IN_F32(RANK0, 0.5);
	IN_S8(RANK0, 1);
	op_ok(1);
	WANT_S8(0, DIMS(7), -128, -3, 2, 4, 3, 127, -128);

	/* Without a zero point the result is uint8. */
	op_begin("QuantizeLinear", 13);
	IN_S32(DIMS(3), -4, 5, 2000);
	IN_F32(DIMS(1), 2);
	op_ok(1);
	WANT_U8(0, DIMS(3), 0, 2, 255);

	op_begin("QuantizeLinear", 21);
	IN_F32(DIMS(3), -1e9, 3, 1e9);
	IN_F32(DIMS(1), 1);
	IN_U16(DIMS(1), 40000);
	op_ok(1);
	OP_WANT(0, U16, uint16_t, DIMS(3), 0, 40003, 65535);

	op_begin("QuantizeLinear", 21);
	op_int("output_dtype", 5);
	IN_F32(DIMS(3), -1e9, 3, 1e9);
	IN_F32(DIMS(1), 1);
	op_ok(1);
	OP_WANT(0, S16, int16_t, DIMS(3), -32768, 3, 32767);
}
END_TEST

START_TEST(quantize_per_axis_and_block)
{
	op_begin("QuantizeLinear", 13);
	op_int("axis", -2);
	IN_F32(DIMS(2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8);
	IN_F32(DIMS(2), 1, 0.5);
	IN_U8(DIMS(2), 0, 10);
	op_ok(1);
	WANT_U8(0, DIMS(2, 2, 2), 1, 2, 16, 18, 5, 6, 24, 26);

	/* The last block is shorter. */
	op_begin("QuantizeLinear", 23);
	op_int("block_size", 2);
	IN_F32(DIMS(2, 3, 2), 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6);
	IN_F32(DIMS(2, 2, 2), 1, 2, 1, 0.5, 0.5, 1, 0.25, 1);
	op_ok(1);
	WANT_U8(0, DIMS(2, 3, 2), 1, 1, 3, 2, 5, 12, 2, 2, 6, 4, 20, 6);
}
END_TEST

/* Opset 10 has no attribute axis: the scales lie along axis 1, as by default from opset 13 on. */
START_TEST(scales_along_the_default_axis)
{
	static const int64_t opsets[] = { 10, 12, 13 };

	op_begin("QuantizeLinear", opsets[_i]);
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	IN_F32(DIMS(2), 1, 0.5);
	IN_U8(DIMS(2), 0, 10);
	op_ok(1);
	WANT_U8(0, DIMS(2, 2), 1, 14, 3, 18);

	op_begin("DequantizeLinear", opsets[_i]);
	IN_U8(DIMS(2, 2), 1, 14, 3, 18);
	IN_F32(DIMS(2), 1, 0.5);
	IN_U8(DIMS(2), 0, 10);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 1, 2, 3, 4);
}
END_TEST

START_TEST(dequantize)
{
	op_begin("DequantizeLinear", 10);
	IN_U8(DIMS(3), 0, 128, 255);
	IN_F32(RANK0, 0.5);
	IN_U8(RANK0, 128);
	op_ok(1);
	WANT_F32(0, DIMS(3), -64, 0, 63.5);

	op_begin("DequantizeLinear", 13);
	op_int("axis", 0);
	IN_S32(DIMS(2, 1), -3, 100000);
	IN_F32(DIMS(2), 2, 0.25);
	op_ok(1);
	WANT_F32(0, DIMS(2, 1), -6, 25000);

	op_begin("DequantizeLinear", 23);
	op_int("axis", 0);
	op_int("block_size", 2);
	op_int("output_dtype", 10);
	IN_S16(DIMS(3), 10, 20, -32768);
	IN_F32(DIMS(2), 1, 2);
	IN_S16(DIMS(2), 0, 1);
	op_ok(1);
	WANT_F32(0, DIMS(3), 10, 20, -65538);

	op_begin_in("com.microsoft", "DequantizeLinear", 1);
	IN_EMPTY(S8, DIMS(0, 2));
	IN_F32(DIMS(2), 1, 2);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0, 2));
}
END_TEST

static void two_scales(int64_t opset)
{
	op_begin("QuantizeLinear", opset);
	IN_F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	IN_F32(DIMS(2), 1, 2);
}

START_TEST(quantize_errors)
{
	two_scales(10);
	op_fails(1, "it has 2 scales for 3 elements along axis 1");
	two_scales(10);
	op_int("axis", 0);
	op_fails(1, "attribute axis is not of this opset");
	two_scales(13);
	op_fails(1, "it has 2 scales for 3 elements along axis 1");
	two_scales(13);
	op_int("axis", 2);
	op_fails(1, "axis 2 does not exist in a tensor of rank 2");
	two_scales(13);
	op_int("axis", 0);
	IN_U8(DIMS(3), 0, 1, 2);
	op_fails(1, "it has 3 zero points for 2 scales");
	two_scales(21);
	op_int("block_size", -1);
	op_fails(1, "attribute block_size is -1");
	two_scales(21);
	op_int("block_size", INT64_MAX);
	op_fails(1, "attribute block_size is 9223372036854775807");
	two_scales(21);
	op_int("block_size", 2);
	op_fails(1, "its scales do not have the shape of blocks of 2");
	two_scales(21);
	rig.call.in[1].shape = DIMS(2, 1);
	op_int("block_size", 2);
	op_fails(1, "its scales do not have the shape of blocks of 2");
	two_scales(21);
	op_int("axis", 0);
	op_int("output_dtype", 1);
	op_fails(1, "it cannot quantise to the type");
	two_scales(21);
	op_int("axis", 0);
	op_int("output_dtype", 3);
	IN_U8(DIMS(2), 0, 1);
	op_fails(1, "it cannot quantise to the type");
	op_begin("DequantizeLinear", 23);
	op_int("output_dtype", 3);
	IN_U8(DIMS(1), 1);
	IN_F32(DIMS(1), 1);
	op_fails(1, "attribute output_dtype is 3, no float type");
}
END_TEST

START_TEST(dynamic)
{
	op_begin("DynamicQuantizeLinear", 11);
	IN_F32(DIMS(2, 2), -1, 0, 2, 1.5);
	op_ok(3);
	WANT_U8(0, DIMS(2, 2), 0, 85, 255, 213);
	WANT_F32(1, RANK0, 3.0f / 255);
	WANT_U8(2, RANK0, 85);

	op_begin("DynamicQuantizeLinear", 11);
	IN_F32(DIMS(2), 5.1f, 2.55f);
	op_ok(3);
	WANT_U8(0, DIMS(2), 255, 128);
	WANT_U8(2, RANK0, 0);

	op_begin("DynamicQuantizeLinear", 11);
	IN_F32(DIMS(2), 0, 0);
	op_ok(3);
	WANT_U8(0, DIMS(2), 0, 0);
	WANT_F32(1, RANK0, 1);

	op_begin("DynamicQuantizeLinear", 11);
	IN_F32(DIMS(3), NAN, INFINITY, -INFINITY);
	op_ok(1);
	op_begin("DynamicQuantizeLinear", 11);
	IN_EMPTY(F32, DIMS(0));
	op_ok(3);
	WANT_EMPTY(0, U8, DIMS(0));
	WANT_U8(2, RANK0, 0);
}
END_TEST

/* Scales of 0.5 and 0.25 for the columns; the scale of the result is 0.5. */
static void product(struct rvl_shape a, struct rvl_shape b)
{
	static const uint8_t x[] = { 10, 20, 30, 255 };
	static const int8_t w[] = { 1, -1, 2, 127 };

	op_begin("QLinearMatMul", 10);
	op_in(RVL_TYPE_U8, a, x, (size_t)rvl_shape_count(&a));
	IN_F32(RANK0, 1);
	IN_U8(RANK0, 10);
	op_in(RVL_TYPE_S8, b, w, (size_t)rvl_shape_count(&b));
	IN_F32(DIMS(2), 0.5, 0.25);
	IN_S8(DIMS(2), 0, 1);
	IN_F32(RANK0, 0.5);
	IN_S8(RANK0, -3);
}

START_TEST(qlinear_matmul)
{
	product(DIMS(2, 2), DIMS(2, 2));
	op_ok(1);
	/* Sums 20, 1260; 510, 30830. */
	WANT_S8(0, DIMS(2, 2), 17, 127, 127, 127);
	product(DIMS(2, 2, 1), DIMS(1, 2));
	op_ok(1);
	WANT_S8(0, DIMS(2, 2, 2), -3, -3, 7, -13, 17, -23, 127, -128);
	product(DIMS(2), DIMS(2, 2));
	op_ok(1);
	WANT_S8(0, DIMS(2), 17, 127);
	/* A vector as second factor has one column. */
	product(DIMS(2, 2), DIMS(2));
	rig.call.in[4].shape = rig.call.in[5].shape = DIMS(1);
	op_ok(1);
	WANT_S8(0, DIMS(2), -13, -128);
	/* Scales and zero points for the rows. */
	op_begin("QLinearMatMul", 21);
	IN_S8(DIMS(2, 1), 1, 2);
	IN_F32(DIMS(2), 1, 2);
	IN_S8(DIMS(2), 0, 1);
	IN_S8(DIMS(1, 1), 3);
	IN_F32(DIMS(1), 1);
	IN_S8(DIMS(1), 1);
	IN_F32(DIMS(1), 1);
	IN_U8(DIMS(1), 100);
	op_ok(1);
	WANT_U8(0, DIMS(2, 1), 102, 104);
}
END_TEST

START_TEST(wide_products)
{
	enum { N = 300 };
	static int8_t w[N];

	for (int i = 0; i < N; i++)
		w[i] = (int8_t)(i % 100);
	op_begin("QLinearMatMul", 10);
	IN_U8(DIMS(1, 1), 1);
	IN_F32(RANK0, 1);
	IN_U8(RANK0, 0);
	op_in(RVL_TYPE_S8, DIMS(1, N), w, N);
	IN_F32(RANK0, 1);
	IN_S8(RANK0, 0);
	IN_F32(RANK0, 1);
	IN_U8(RANK0, 1);
	op_ok(1);
	for (int i = 0; i < N; i++)
		ck_assert_int_eq(((uint8_t *)rig.call.out[0].data)[i], i % 100 + 1);
}
END_TEST

static void product_with(uint32_t input, enum rvl_type type, const char *text)
{
	product(DIMS(2, 2), DIMS(2, 2));
	rig.call.in[input].type = type;
	op_fails(1, text);
}

START_TEST(qlinear_matmul_errors)
{
	product(DIMS(2, 2), DIMS(1, 2));
	op_fails(1, "its factors have 2 columns and 1 rows");
	product(DIMS(2, 1, 2), DIMS(1, 2, 2));
	rig.call.in[3].shape = DIMS(3, 2, 2);
	op_fails(1, "the shapes of its factors do not broadcast");
	product(RANK0, DIMS(2, 2));
	op_fails(1, "a factor has no dimensions");
	product(DIMS(2, 2), DIMS(2, 2));
	rig.call.in[4].shape = DIMS(1, 2);
	op_fails(1, "its input 4 has 2 values, neither 1 nor 2");
	product(DIMS(2, 2), DIMS(2, 2));
	rig.call.in[6].shape = DIMS(2);
	op_fails(1, "its input 6 has 2 values, neither 1 nor 1");
	product_with(3, RVL_TYPE_BOOL, "its input 3 is bool");
	product_with(4, RVL_TYPE_S8, "its input 4 is int8, not float32");
	product_with(5, RVL_TYPE_U8, "its input 5 is uint8, not int8");
	product_with(7, RVL_TYPE_F32, "its input 7 is float32, not uint8 or int8");
}
END_TEST

START_TEST(empty_products)
{
	product(DIMS(2, 2), DIMS(2, 2));
	rig.call.in[0].shape = DIMS(2, 0);
	rig.call.in[3].shape = DIMS(0, 2);
	op_ok(1);
	WANT_S8(0, DIMS(2, 2), -3, -3, -3, -3);
	product(DIMS(2, 2), DIMS(2, 2));
	rig.call.in[0].shape = DIMS(0, 2);
	op_ok(1);
	WANT_EMPTY(0, S8, DIMS(0, 2));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_quantise");
	TCase *t = add_case(s, "all", 20, NULL, NULL);

	tcase_add_checked_fixture(t, NULL, op_end);
	tcase_add_test(t, quantize_per_tensor);
	tcase_add_test(t, quantize_per_axis_and_block);
	tcase_add_loop_test(t, scales_along_the_default_axis, 0, 3);
	tcase_add_test(t, dequantize);
	tcase_add_test(t, quantize_errors);
	tcase_add_test(t, dynamic);
	tcase_add_test(t, qlinear_matmul);
	tcase_add_test(t, wide_products);
	tcase_add_test(t, qlinear_matmul_errors);
	tcase_add_test(t, empty_products);
	return run_suite(s);
}
