/* SPDX-License-Identifier: MIT */
/*
 * Operators of com.microsoft that have kernels of their own. tests/onnx/microsoft.py compares them and
 * the compositions with onnxruntime.
 */
#include "op_rig.h"
#include "suite.h"

#define MS "com.microsoft"

static void series(struct rvl_shape s, int64_t step)
{
	float v[64];
	int64_t n = rvl_shape_count(&s);

	ck_assert_int_le(n, 64);
	for (int64_t i = 0; i < n; i++)
		v[i] = (float)((i * step + 3) % 17 - 8) / 8.0f;
	op_in(RVL_TYPE_F32, s, v, (size_t)n);
}

/* ---- FusedMatMul ---- */

START_TEST(fused_matmul_transposes_and_scales)
{
	static const float a[] = { 1, 2, 3, 4, 5, 6 }, at[] = { 1, 4, 2, 5, 3, 6 };
	static const float b[] = { 1, 0, 2, 1, 0, 3 }, bt[] = { 1, 2, 0, 0, 1, 3 };

	for (int ta = 0; ta < 2; ta++) {
		for (int tb = 0; tb < 2; tb++) {
			op_begin_in(MS, tb ? "TransposeMatMul" : "FusedMatMul", 1);
			op_float("alpha", 0.5f);
			op_int("transA", ta);
			op_int("transB", tb);
			op_in(RVL_TYPE_F32, ta ? DIMS(3, 2) : DIMS(2, 3), ta ? at : a, 6);
			op_in(RVL_TYPE_F32, tb ? DIMS(1, 2, 3) : DIMS(1, 3, 2), tb ? bt : b, 6);
			op_ok(1);
			WANT_F32(0, DIMS(1, 2, 2), 2.5f, 5.5f, 7, 11.5f);
		}
	}
}
END_TEST

START_TEST(fused_matmul_is_checked)
{
	op_begin_in(MS, "FusedMatMul", 1);
	op_int("transA", 1);
	IN_F32(DIMS(2, 1), 1, 2);
	IN_F32(DIMS(1, 2), 1, 2);
	op_fails(1, "inner dimensions 2 and 1 differ");
	op_begin_in(MS, "FusedMatMul", 1);
	op_int("transBatchB", 1);
	IN_F32(DIMS(1, 1), 1);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "transBatchA and transBatchB are not supported");
	/* A vector has no axes that could be exchanged. */
	op_begin_in(MS, "FusedMatMul", 1);
	op_int("transA", 1);
	op_int("transB", 1);
	IN_F32(DIMS(2), 1, 2);
	IN_F32(DIMS(2), 3, 4);
	op_ok(1);
	WANT_F32(0, RANK0, 11);
}
END_TEST

/* ---- MatMulNBits ---- */

/* 20 rows in blocks of 16, of two columns: the second block of a column is short. */
static void begin_nbits(int64_t bits, int64_t rows)
{
	uint8_t packed[64];
	size_t n = (size_t)(4 * bits * 2);

	for (size_t i = 0; i < n; i++)
		packed[i] = (uint8_t)(i * 37 + 11);
	op_begin_in(MS, "MatMulNBits", 1);
	op_int("K", 20);
	op_int("N", 2);
	op_int("bits", bits);
	op_int("block_size", 16);
	series(DIMS(rows, 20), 5);
	op_in(RVL_TYPE_U8, DIMS(2, 2, 2 * bits), packed, n);
	IN_F32(DIMS(4), 0.5f, 0.25f, 1, 2);
}

START_TEST(nbits_unpack_blocks)
{
	begin_nbits(4, 2);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), -3.78125f, 0.125f, -0.65625f, -8.5f);

	begin_nbits(4, 2);
	IN_U8(DIMS(2), 0xc3, 0x05);
	op_none();
	IN_F32(DIMS(2), 1, -1);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), -5.84375f, 10.5f, -1.09375f, -13.375f);

	begin_nbits(4, 2);
	IN_F32(DIMS(2, 2), 1.5f, 2, 0, 7.25f);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), -5.3125f, -5.5625f, -2.875f, -13.6875f);
}
END_TEST

/* Without a zero point, the middle of the range of values is the zero point. */
START_TEST(nbits_of_other_widths)
{
	for (int64_t bits = 2; bits <= 8; bits += 6) {
		begin_nbits(bits, 1);
		memset(rig.call.in[1].data, bits == 8 ? 0x80 : 0xaa, (size_t)(8 * bits));
		op_ok(1);
		WANT_F32(0, DIMS(1, 2), 0, 0);
	}
}
END_TEST

START_TEST(nbits_are_checked)
{
	static const int64_t blocks[] = { 0, 8, 24, 2048, -16 };

	begin_nbits(4, 1);
	op_int("bits", 3);
	op_fails(1, "attribute bits is 3, not 2, 4 or 8");
	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		begin_nbits(4, 1);
		op_int("block_size", blocks[i]);
		op_fails(1, "not a power of 2 from 16 to 1024");
	}
	begin_nbits(4, 1);
	op_int("K", 0);
	op_fails(1, "its matrix is 0 x 2");
	begin_nbits(4, 1);
	op_int("N", INT64_MAX);
	op_fails(1, "its matrix is 20 x 9223372036854775807");
	begin_nbits(4, 1);
	op_int("K", 21);
	op_fails(1, "its input 0 does not have 21 columns");
	begin_nbits(4, 1);
	op_int("N", 3);
	op_fails(1, "its input 1 has 32 values, not 48");
	begin_nbits(4, 1);
	rig.call.in[2].shape = DIMS(3);
	op_fails(1, "its input 2 has 3 values, not 4");
	begin_nbits(4, 1);
	IN_U8(DIMS(3), 1, 2, 3);
	op_fails(1, "its input 3 has 3 values, not 2");
	begin_nbits(4, 1);
	IN_F32(DIMS(2), 1, 2);
	op_fails(1, "its input 3 has 2 values, not 4");
	begin_nbits(4, 1);
	op_none();
	IN_S32(DIMS(1), 0);
	op_fails(1, "its input 4, an order of groups, is not supported");
	begin_nbits(4, 1);
	op_none();
	op_none();
	IN_F32(DIMS(1), 0);
	op_fails(1, "its input 5 has 1 values, not 2");
	begin_nbits(4, 1);
	op_none();
	op_none();
	IN_U8(DIMS(2), 0, 0);
	op_fails(1, "its input 5 is uint8, not float32");
}
END_TEST

/* ---- QLinearConcat ---- */

static void begin_concat(int64_t axis)
{
	op_begin_in(MS, "QLinearConcat", 1);
	op_int("axis", axis);
	IN_F32(RANK0, 0.5f);
	IN_U8(RANK0, 10);
	IN_U8(DIMS(2, 1), 12, 255);
	IN_F32(RANK0, 0.25f);
	IN_U8(RANK0, 2);
	IN_U8(DIMS(2, 2), 1, 2, 3, 4);
	IN_F32(RANK0, 1);
	IN_U8(RANK0, 3);
}

START_TEST(concat_requantises_each_part)
{
	begin_concat(-1);
	op_ok(1);
	WANT_U8(0, DIMS(2, 3), 15, 6, 8, 136, 10, 12);

	op_begin_in(MS, "QLinearConcat", 1);
	op_int("axis", 0);
	IN_F32(RANK0, 1);
	IN_S8(RANK0, 0);
	IN_S8(DIMS(2), -128, 127);
	IN_F32(RANK0, 2);
	IN_S8(RANK0, -1);
	IN_EMPTY(S8, DIMS(0));
	IN_F32(RANK0, 2);
	IN_S8(RANK0, -1);
	op_ok(1);
	WANT_S8(0, DIMS(2), -128, 127);
}
END_TEST

START_TEST(concat_is_checked)
{
	begin_concat(2);
	op_fails(1, "axis 2 does not exist in a tensor of rank 2");
	begin_concat(0);
	op_fails(1, "input 5 does not fit input 2 beside axis 0");
	begin_concat(1);
	IN_U8(RANK0, 1);
	op_fails(1, "it has 9 inputs, not 2 and 3 for each part");
	begin_concat(1);
	rig.call.in[1].shape = DIMS(2);
	op_fails(1, "its result has more than one scale or zero point");
	begin_concat(1);
	rig.call.in[6].shape = DIMS(2);
	op_fails(1, "input 5 has more than one scale or zero point");
	begin_concat(1);
	rig.call.in[5].type = RVL_TYPE_S8;
	op_fails(1, "its inputs 5 to 7 are int8, float32, uint8");
	begin_concat(1);
	rig.call.in[5].shape = DIMS(4);
	op_fails(1, "input 5 does not fit input 2");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_microsoft");
	TCase *t = add_case(s, "values", 10, NULL, NULL);

	tcase_add_test(t, fused_matmul_transposes_and_scales);
	tcase_add_test(t, fused_matmul_is_checked);
	tcase_add_test(t, nbits_unpack_blocks);
	tcase_add_test(t, nbits_of_other_widths);
	tcase_add_test(t, nbits_are_checked);
	tcase_add_test(t, concat_requantises_each_part);
	tcase_add_test(t, concat_is_checked);
	return run_suite(s);
}
