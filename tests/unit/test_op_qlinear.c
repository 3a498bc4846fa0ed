// SPDX-License-Identifier: MIT
/*
 * Rows of the operators on 8-bit tensors whose scales and zero points are inputs: values by hand, all
 * results equal to those of the kernels of their own, and each refusal.
 */
#include "op_rig.h"
#include "suite.h"

#define MS "com.microsoft"

START_TEST(sums_and_products)
{
	op_begin_in(MS, "QLinearAdd", 1);
	IN_U8(DIMS(2, 2), 0, 10, 128, 255);
	IN_F32(RANK0, 0.5);
	IN_U8(RANK0, 10);
	IN_S8(DIMS(2), -4, 4);
	IN_F32(DIMS(1), 2);
	op_none();
	IN_F32(RANK0, 1);
	IN_S8(RANK0, 1);
	op_ok(1);
	/* (0 - 10) / 2 - 8 + 1, 0 + 8 + 1, 59 - 8 + 1, 122.5 + 8 + 1 */
	WANT_S8(0, DIMS(2, 2), -12, 9, 52, 127);

	op_begin_in(MS, "QLinearMul", 1);
	IN_U8(DIMS(3), 0, 3, 20);
	IN_F32(RANK0, 0.5);
	IN_U8(RANK0, 4);
	IN_U8(DIMS(1), 7);
	IN_F32(RANK0, 2);
	IN_U8(RANK0, 5);
	IN_F32(RANK0, 0.25);
	op_ok(1);
	/* Without a zero point the result has the type of input 0 and the zero point 0. */
	WANT_U8(0, DIMS(3), 0, 0, 128);

	op_begin_in(MS, "QLinearAdd", 1);
	IN_EMPTY(U8, DIMS(0, 3));
	IN_F32(RANK0, 1);
	op_none();
	IN_U8(DIMS(3), 1, 2, 3);
	IN_F32(RANK0, 1);
	op_none();
	IN_F32(RANK0, 1);
	op_ok(1);
	WANT_EMPTY(0, U8, DIMS(0, 3));
}
END_TEST

static void gemm(void)
{
	op_begin_in(MS, "QGemm", 1);
	IN_U8(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	IN_F32(RANK0, 0.5);
	IN_U8(RANK0, 1);
	IN_S8(DIMS(3, 2), 1, -2, 3, 4, -5, 6);
	IN_F32(DIMS(2), 2, 4);
	IN_S8(DIMS(2), 1, 0);
}

START_TEST(matrix_products)
{
	/* Sums: 0*0 + 1*2 + 2*-6 = -10, 0 + 4 + 12 = 16; 3*0 + 4*2 + 5*-6 = -22, -6 + 16 + 30 = 40. */
	gemm();
	IN_S32(DIMS(2), 5, -6);
	IN_F32(RANK0, 4);
	IN_U8(RANK0, 100);
	op_ok(1);
	WANT_U8(0, DIMS(2, 2), 99, 105, 96, 117);

	/* Without a scale of the result it is float32; a bias is broadcast. */
	gemm();
	op_float("alpha", 3);
	IN_S32(DIMS(2, 1), 1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), -27, 102, -60, 252);

	op_begin_in(MS, "QGemm", 1);
	op_int("transA", 1);
	op_int("transB", 1);
	IN_U8(DIMS(3, 2), 1, 4, 2, 5, 3, 6);
	IN_F32(RANK0, 0.5);
	IN_U8(RANK0, 0);
	IN_S8(DIMS(2, 3), 1, 3, -5, -2, 4, 6);
	IN_F32(RANK0, 2);
	IN_S8(RANK0, 0);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), -8, 24, -11, 48);
}
END_TEST

static void window(const char *name)
{
	op_begin_in(MS, name, 1);
	IN_U8(DIMS(1, 1, 2, 3), 10, 20, 30, 40, 50, 61);
	IN_F32(RANK0, 0.5);
	IN_U8(RANK0, 10);
	IN_F32(RANK0, 0.25);
	IN_S8(RANK0, -3);
}

START_TEST(means)
{
	window("QLinearAveragePool");
	OP_INTS("kernel_shape", 2, 2);
	op_ok(1);
	WANT_S8(0, DIMS(1, 1, 1, 2), 37, 58);

	/* A window of the whole image is summed in integers, and the zero point added behind the rounding: 2.5 and -3. */
	op_begin_in(MS, "QLinearAveragePool", 1);
	IN_U8(DIMS(1, 1, 1, 1, 2), 10, 15);
	IN_F32(RANK0, 0.5);
	IN_U8(RANK0, 10);
	IN_F32(RANK0, 0.5);
	IN_S8(RANK0, -3);
	OP_INTS("kernel_shape", 1, 1, 2);
	op_ok(1);
	WANT_S8(0, DIMS(1, 1, 1, 1, 1), -1);

	/* Padding counts where it is asked for: (10 + 30) / 2 of 4 elements or of 2. */
	window("QLinearAveragePool");
	OP_INTS("kernel_shape", 1, 2);
	OP_INTS("pads", 0, 1, 0, 0);
	OP_INTS("strides", 1, 2);
	op_int("count_include_pad", 1);
	op_ok(1);
	WANT_S8(0, DIMS(1, 1, 2, 2), -3, 27, 27, 88);
	window("QLinearAveragePool");
	OP_INTS("kernel_shape", 1, 2);
	OP_INTS("pads", 0, 1, 0, 0);
	OP_INTS("strides", 1, 2);
	op_ok(1);
	WANT_S8(0, DIMS(1, 1, 2, 2), -3, 27, 57, 88);

	window("QLinearGlobalAveragePool");
	op_ok(1);
	WANT_S8(0, DIMS(1, 1, 1, 1), 47);
}
END_TEST

START_TEST(errors)
{
	gemm();
	IN_F32(DIMS(2), 5, -6);
	op_fails(1, "its input 6 is float32, which it does not take");
	gemm();
	IN_S32(DIMS(3), 1, 2, 3);
	op_fails(1, "its bias does not broadcast to 2 x 2");
	gemm();
	op_none();
	op_none();
	IN_U8(RANK0, 3);
	op_fails(1, "it has a zero point for its result and no scale");
	gemm();
	op_int("transA", 1);
	op_fails(1, "its factors have 2 columns and 3 rows");
	gemm();
	op_none();
	IN_F32(RANK0, 0);
	op_fails(1, "scale 0 of its input 7 is 0");
	gemm();
	op_none();
	IN_F32(DIMS(2), 1, 1);
	op_fails(1, "its input 7 has 2 values, not 1");
	op_begin_in(MS, "QGemm", 1);
	IN_U8(DIMS(3), 1, 2, 3);
	IN_F32(RANK0, 0.5);
	IN_U8(RANK0, 0);
	IN_S8(DIMS(3, 2), 1, -2, 3, 4, -5, 6);
	IN_F32(DIMS(3), 2, 4, 1);
	IN_S8(RANK0, 0);
	op_fails(1, "its operands are not matrices (rank 1 and 2)");
	op_begin_in(MS, "QGemm", 1);
	IN_U8(DIMS(1, 3), 1, 2, 3);
	IN_F32(RANK0, 0.5);
	IN_U8(RANK0, 0);
	IN_S8(DIMS(3, 2), 1, -2, 3, 4, -5, 6);
	IN_F32(DIMS(3), 2, 4, 1);
	IN_S8(RANK0, 0);
	op_fails(1, "its input 4 has 3 values, neither 1 nor 2");

	window("QLinearAveragePool");
	OP_INTS("kernel_shape", 2, 2);
	op_int("channels_last", 1);
	op_fails(1, "attribute channels_last is 1, only 0 is supported");
	window("QLinearAveragePool");
	op_fails(1, "it lacks attribute kernel_shape");
	op_begin_in(MS, "QLinearGlobalAveragePool", 1);
	IN_U8(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	IN_F32(RANK0, 0.5);
	op_none();
	IN_F32(RANK0, 0.5);
	op_fails(1, "its input has no spatial dimensions");

	op_begin_in(MS, "QLinearAdd", 1);
	IN_U8(DIMS(3), 0, 3, 20);
	IN_F32(RANK0, NAN);
	op_none();
	IN_U8(DIMS(2), 7, 8);
	IN_F32(RANK0, 2);
	op_none();
	IN_F32(RANK0, 0.25);
	op_fails(1, "its operands' shapes do not broadcast");
	op_begin_in(MS, "QLinearAdd", 1);
	IN_U8(DIMS(3), 0, 3, 20);
	IN_F32(RANK0, NAN);
	op_none();
	IN_U8(DIMS(1), 7);
	IN_F32(RANK0, 2);
	op_none();
	IN_F32(RANK0, 0.25);
	op_fails(1, "scale 0 of its input 1 is nan");
	op_begin_in(MS, "QLinearAdd", 1);
	IN_U8(DIMS(3), 0, 3, 20);
	op_none();
	op_none();
	IN_U8(DIMS(1), 7);
	IN_F32(RANK0, 2);
	op_none();
	IN_F32(RANK0, 0.25);
	op_fails(1, "it lacks input 1");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_qlinear");
	TCase *t = add_case(s, "all", 20, NULL, NULL);

	tcase_add_checked_fixture(t, NULL, op_end);
	tcase_add_test(t, sums_and_products);
	tcase_add_test(t, matrix_products);
	tcase_add_test(t, means);
	tcase_add_test(t, errors);
	return run_suite(s);
}
