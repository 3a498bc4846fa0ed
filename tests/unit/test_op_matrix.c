/* SPDX-License-Identifier: MIT */
/* Products of matrices, determinants and Einsum. */
#include "op_rig.h"
#include "suite.h"

START_TEST(products_of_floats)
{
	op_begin("MatMul", 1);
	IN_F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	IN_F32(DIMS(3, 2), 1, -1, 0, 2, 3, 1);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 10, 6, 22, 12);
	op_begin("MatMul", 13);
	IN_F32(DIMS(2), 1, 2);
	IN_F32(DIMS(2), 3, 4);
	op_ok(1);
	WANT_F32(0, RANK0, 11);
	op_begin("MatMul", 13);
	IN_F32(DIMS(2), 1, 2);
	IN_F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	op_ok(1);
	WANT_F32(0, DIMS(3), 9, 12, 15);
	op_begin("MatMul", 13);
	IN_F32(DIMS(2, 1, 2), 1, 2, 3, 4);
	IN_F32(DIMS(2), 1, 10);
	op_ok(1);
	WANT_F32(0, DIMS(2, 1), 21, 43);
	/* Batches broadcast on either side. */
	op_begin("MatMul", 13);
	IN_F32(DIMS(2, 1, 1, 2), 1, 2, 3, 4);
	IN_F32(DIMS(3, 2, 1), 1, 0, 0, 1, 1, 1);
	op_ok(1);
	WANT_F32(0, DIMS(2, 3, 1, 1), 1, 2, 3, 3, 4, 7);
	op_begin("MatMul", 13);
	IN_EMPTY(F32, DIMS(2, 0));
	IN_EMPTY(F32, DIMS(0, 2));
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 0, 0, 0, 0);
	op_begin("MatMul", 13);
	IN_F32(DIMS(2, 1), 1, 2);
	IN_EMPTY(F32, DIMS(1, 0));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(2, 0));
}
END_TEST

START_TEST(products_of_integers)
{
	op_begin("MatMul", 9);
	IN_S64(DIMS(1, 2), INT64_MAX, 1);
	IN_S64(DIMS(2, 1), 1, 1);
	op_ok(1);
	WANT_S64(0, DIMS(1, 1), INT64_MIN);
	op_begin("MatMul", 9);
	IN_S32(DIMS(1, 2), -3, 2);
	IN_S32(DIMS(2, 1), 5, -7);
	op_ok(1);
	WANT_S32(0, DIMS(1, 1), -29);
	op_begin("MatMul", 9);
	OP_IN(U32, uint32_t, DIMS(1, 1), UINT32_MAX);
	OP_IN(U32, uint32_t, DIMS(1, 1), 2);
	op_ok(1);
	OP_WANT(0, U32, uint32_t, DIMS(1, 1), UINT32_MAX - 1);
	op_begin("MatMul", 9);
	OP_IN(U64, uint64_t, DIMS(1, 1), UINT64_MAX);
	OP_IN(U64, uint64_t, DIMS(1, 1), 2);
	op_ok(1);
	OP_WANT(0, U64, uint64_t, DIMS(1, 1), UINT64_MAX - 1);
	op_begin("MatMul", 13);
	OP_IN(U16, uint16_t, DIMS(1, 1), 40000);
	OP_IN(U16, uint16_t, DIMS(1, 1), 3);
	op_ok(1);
	OP_WANT(0, U16, uint16_t, DIMS(1, 1), (uint16_t)120000);
	op_begin("MatMul", 13);
	OP_IN(S16, int16_t, DIMS(1, 1), -40);
	OP_IN(S16, int16_t, DIMS(1, 1), -3);
	op_ok(1);
	OP_WANT(0, S16, int16_t, DIMS(1, 1), 120);
}
END_TEST

START_TEST(products_that_do_not_fit)
{
	op_begin("MatMul", 13);
	IN_F32(RANK0, 1);
	IN_F32(DIMS(1), 1);
	op_fails(1, "an operand is a scalar");
	op_begin("MatMul", 13);
	IN_F32(DIMS(1), 1);
	IN_F32(RANK0, 1);
	op_fails(1, "an operand is a scalar");
	op_begin("MatMul", 13);
	IN_F32(DIMS(2), 1, 2);
	IN_F32(DIMS(1), 1);
	op_fails(1, "inner dimensions 2 and 1 differ");
	op_begin("MatMul", 13);
	IN_F32(DIMS(2, 1, 1), 1, 2);
	IN_F32(DIMS(3, 1, 1), 1, 2, 3);
	op_fails(1, "the dimensions before its matrices do not fit together");
	op_begin("MatMul", 13);
	IN_F32(DIMS(1), 1);
	IN_S32(DIMS(1), 1);
	op_fails(1, "its input 1 is int32, input 0 float32");
}
END_TEST

/* More columns than a block of the loop, and a sum that float32 would lose. */
START_TEST(long_rows)
{
	enum { N = 600 };
	static float b[3 * N], y[N];

	for (int i = 0; i < N; i++) {
		b[i] = b[N + i] = (float)i;
		b[2 * N + i] = 1;
		y[i] = 1;
	}
	op_begin("MatMul", 13);
	IN_F32(DIMS(1, 3), 1e3f, -1e3f, 1);
	op_in(RVL_TYPE_F32, DIMS(3, N), b, 3 * N);
	op_ok(1);
	op_want(0, RVL_TYPE_F32, DIMS(1, N), y, N);
}
END_TEST

START_TEST(products_with_zero_points)
{
	op_begin("MatMulInteger", 10);
	IN_U8(DIMS(2, 2), 10, 11, 200, 255);
	IN_S8(DIMS(2, 2), 1, -128, 3, 127);
	op_ok(1);
	WANT_S32(0, DIMS(2, 2), 43, 117, 965, 6785);
	op_begin("MatMulInteger", 10);
	IN_U8(DIMS(2, 2), 10, 11, 200, 255);
	IN_U8(DIMS(2, 2), 1, 2, 3, 4);
	IN_U8(DIMS(2), 10, 200);
	IN_U8(DIMS(2), 1, 3);
	op_ok(1);
	WANT_S32(0, DIMS(2, 2), 2, 1, 110, 55);
	op_begin("MatMulInteger", 10);
	IN_S8(DIMS(1, 2), 1, 2);
	IN_S8(DIMS(2, 1), 3, 4);
	op_none();
	IN_S8(RANK0, 1);
	op_ok(1);
	WANT_S32(0, DIMS(1, 1), 8);
	/* A zero point for each row of every matrix. */
	op_begin("MatMulInteger", 10);
	IN_U8(DIMS(2, 1, 2), 1, 2, 3, 4);
	IN_U8(DIMS(2, 2, 1), 1, 1, 1, 1);
	IN_U8(DIMS(2, 1, 1), 1, 3);
	IN_U8(DIMS(2, 1, 1), 0, 2);
	op_ok(1);
	WANT_S32(0, DIMS(2, 1, 1), 1, -1);
	/* No rows, by weights that are packed. */
	op_begin("MatMulInteger", 10);
	IN_EMPTY(U8, DIMS(0, 2));
	OP_CONST(U8, uint8_t, DIMS(2, 1), 3, 4);
	op_ok(1);
	op_want(0, RVL_TYPE_S32, DIMS(0, 1), NULL, 0);
	op_begin("MatMulInteger", 10);
	IN_EMPTY(U8, DIMS(0, 8));
	OP_CONST(U8, uint8_t, DIMS(8, 1), 3, 4, 5, 6, 7, 8, 9, 10);
	op_ok(1);
	op_want(0, RVL_TYPE_S32, DIMS(0, 1), NULL, 0);
	op_begin("MatMulInteger", 10);
	IN_U8(DIMS(1, 2), 1, 2);
	IN_U8(DIMS(2, 1), 3, 4);
	IN_U8(DIMS(3), 1, 2, 3);
	op_fails(1, "its input 2 has 3 zero points, not 1 or 1");
	op_begin("MatMulInteger", 10);
	IN_U8(DIMS(1, 2), 1, 2);
	IN_U8(DIMS(2, 1), 3, 4);
	IN_U8(RANK0, 1);
	IN_S8(RANK0, 1);
	op_fails(1, "its input 3 is int8, input 1 uint8");
}
END_TEST

/*
 * Sums beyond 2^24, which float does not hold, over several blocks and panels; few rows or many; b constant or
 * not; with a whole number of steps of every set or not; of uint8 or int8.
 */
START_TEST(long_products_of_bytes)
{
	enum { M = 21, MOST = 704, N = 37 };
	int m = _i & 2 ? M : 5, length = _i & 4 ? MOST : 701;
	enum rvl_type type = _i & 8 ? RVL_TYPE_S8 : RVL_TYPE_U8;
	int32_t least = type == RVL_TYPE_S8 ? -128 : 0;
	static uint8_t a[M * MOST], b[MOST * N], za[M], z[N];
	static int32_t y[M * N];

	for (int i = 0; i < M * length; i++)
		a[i] = (uint8_t)(least + (i % 5 ? 255 : i & 255));
	for (int i = 0; i < length * N; i++)
		b[i] = (uint8_t)(least + (i % 7 ? 255 - i % 3 : i & 255));
	for (int i = 0; i < N; i++)
		z[i] = (uint8_t)(least + i % 4);
	for (int i = 0; i < M; i++)
		za[i] = (uint8_t)(least + i % 3);
	for (int i = 0; i < M * N; i++) {
		y[i] = 0;
		for (int k = 0; k < length; k++)	/* both add @least, to values and zero points */
			y[i] += ((uint8_t)(a[i / N * length + k] - least) - i / N % 3) *
				((uint8_t)(b[k * N + i % N] - least) - i % N % 4);
	}
	ck_assert_int_gt(y[N], 1 << 24);
	op_begin("MatMulInteger", 10);
	op_in(type, DIMS(m, length), a, m * length);
	(_i & 1 ? op_const : op_in)(type, DIMS(length, N), b, length * N);
	op_in(type, DIMS(m), za, m);
	op_in(type, DIMS(N), z, N);
	op_ok(1);
	op_want(0, RVL_TYPE_S32, DIMS(m, N), y, m * N);
}
END_TEST

/* a is 2 x 3, b 3 x 2; both may be given transposed. */
START_TEST(general_products)
{
	for (int t = 0; t < 4; t++) {
		op_begin("Gemm", 13);
		op_int("transA", t & 1);
		op_int("transB", t >> 1);
		op_float("alpha", 0.5f);
		op_float("beta", 2);
		if (t & 1)
			IN_F32(DIMS(3, 2), 1, 4, 2, 5, 3, 6);
		else
			IN_F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
		if (t >> 1)
			IN_F32(DIMS(2, 3), 1, 0, 3, -1, 2, 1);
		else
			IN_F32(DIMS(3, 2), 1, -1, 0, 2, 3, 1);
		IN_F32(DIMS(2), 1, 10);
		op_ok(1);
		WANT_F32(0, DIMS(2, 2), 7, 23, 13, 26);
	}
	op_begin("Gemm", 11);
	IN_F32(DIMS(1, 1), 2);
	IN_F32(DIMS(1, 2), 3, 4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 6, 8);
	op_begin("Gemm", 7);
	IN_F32(DIMS(2, 1), 2, 3);
	IN_F32(DIMS(1, 2), 3, 4);
	IN_F32(DIMS(2, 1), 10, 20);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 16, 18, 29, 32);
	op_begin("Gemm", 9);
	IN_S64(DIMS(1, 1), INT64_MAX);
	IN_S64(DIMS(1, 1), 1);
	IN_S64(RANK0, -1);
	op_ok(1);
	WANT_S64(0, DIMS(1, 1), INT64_MAX - 1);
	op_begin("Gemm", 9);
	op_float("alpha", 0.5f);
	IN_S32(DIMS(1, 1), -6);
	IN_S32(DIMS(1, 1), 3);
	IN_S32(RANK0, 1);
	op_ok(1);
	WANT_S32(0, DIMS(1, 1), -8);
	op_begin("Gemm", 9);
	op_float("beta", 3);
	OP_IN(U64, uint64_t, DIMS(1, 1), 6);
	OP_IN(U64, uint64_t, DIMS(1, 1), 3);
	OP_IN(U64, uint64_t, RANK0, 2);
	op_ok(1);
	OP_WANT(0, U64, uint64_t, DIMS(1, 1), 24);
}
END_TEST

START_TEST(general_products_that_do_not_fit)
{
	op_begin("Gemm", 13);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "its operands are not matrices (rank 3 and 2)");
	op_begin("Gemm", 13);
	IN_F32(DIMS(1, 1), 1);
	IN_F32(DIMS(1), 1);
	op_fails(1, "its operands are not matrices (rank 2 and 1)");
	op_begin("Gemm", 13);
	op_int("transB", 1);
	IN_F32(DIMS(1, 1), 1);
	IN_F32(DIMS(1, 2), 1, 2);
	op_fails(1, "inner dimensions 1 and 2 differ");
	op_begin("Gemm", 13);
	IN_F32(DIMS(1, 1), 1);
	IN_F32(DIMS(1, 2), 1, 2);
	IN_F32(DIMS(2, 1), 1, 2);
	op_fails(1, "its input 2 does not broadcast to 1 x 2");
	op_begin("Gemm", 7);
	IN_F32(DIMS(1, 1), 1);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "it has 2 inputs, not 3 to 3");
}
END_TEST

START_TEST(determinants)
{
	op_begin("Det", 11);
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	op_ok(1);
	WANT_F32(0, RANK0, -2);
	/* A 0 on the diagonal, equal rows, and the unit matrix. */
	op_begin("Det", 22);
	IN_F32(DIMS(3, 3, 3), 0, 2, 1, 3, 0, 4, 5, 1, 0, 1, 2, 3, 1, 2, 3, 4, 5, 6, 1, 0, 0, 0, 1, 0,
	       0, 0, 1);
	op_ok(1);
	WANT_F32(0, DIMS(3), 43, 0, 1);
	op_begin("Det", 22);
	IN_EMPTY(F32, DIMS(2, 0, 0));
	op_ok(1);
	WANT_F32(0, DIMS(2), 1, 1);
	op_begin("Det", 22);
	IN_F32(DIMS(1, 2), 1, 2);
	op_fails(1, "its input has no square matrices");
	op_begin("Det", 22);
	IN_F32(DIMS(1), 1);
	op_fails(1, "its input has no square matrices");
}
END_TEST

static void einsum(const char *equation)
{
	op_begin("Einsum", 12);
	op_string("equation", equation);
}

START_TEST(equations_of_one_operand)
{
	einsum("ij->ji");
	IN_F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	op_ok(1);
	WANT_F32(0, DIMS(3, 2), 1, 4, 2, 5, 3, 6);
	einsum("ij->i");
	IN_F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	op_ok(1);
	WANT_F32(0, DIMS(2), 6, 15);
	einsum("ii");
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	op_ok(1);
	WANT_F32(0, RANK0, 5);
	einsum("...ii ->... i");
	IN_F32(DIMS(2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 1, 4, 5, 8);
	einsum("bA");
	IN_F32(DIMS(1, 2), 1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(2, 1), 1, 2);
	einsum("->");
	IN_F32(RANK0, 7);
	op_ok(1);
	WANT_F32(0, RANK0, 7);
	einsum("zZ->Zz");
	IN_S64(DIMS(2, 1), INT64_MIN, 4);
	op_ok(1);
	WANT_S64(0, DIMS(1, 2), INT64_MIN, 4);
}
END_TEST

START_TEST(equations_of_more_operands)
{
	einsum("ij,jk");
	IN_F32(DIMS(1, 2), 1, 2);
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 7, 10);
	einsum("...ij,...jk->...ik");
	IN_F32(DIMS(2, 1, 1, 2), 1, 2, 3, 4);
	IN_F32(DIMS(3, 2, 1), 1, 0, 0, 1, 1, 1);
	op_ok(1);
	WANT_F32(0, DIMS(2, 3, 1, 1), 1, 2, 3, 3, 4, 7);
	einsum("i,i,i->");
	IN_S32(DIMS(2), 1, -2);
	IN_S32(DIMS(2), 3, 4);
	IN_S32(DIMS(1), 10);
	op_ok(1);
	WANT_S32(0, RANK0, -50);
	einsum("abc,cb->a");
	IN_F32(DIMS(1, 2, 2), 1, 2, 3, 4);
	IN_F32(DIMS(2, 2), 1, 10, 100, 1000);
	op_ok(1);
	WANT_F32(0, DIMS(1), 4231);
	einsum("ij,j->i");
	IN_EMPTY(F32, DIMS(2, 0));
	IN_EMPTY(F32, DIMS(0));
	op_ok(1);
	WANT_F32(0, DIMS(2), 0, 0);
}
END_TEST

static const struct {
	const char *equation, *text;
} bad_equations[] = {
	{ "i->i", "its input 0 has rank 2, its equation names 1" },
	{ "ijk", "its input 0 has rank 2, its equation names 3" },
	{ "...ijk", "its input 0 has rank 2, its equation names 3" },
	{ "ij,ij->", "its equation does not have 1 operands" },
	{ "i1", "its input 0 has rank 2, its equation names 1" },
	{ "i1j", "its equation has '1j', which is no term" },
	{ "i...j...", "its equation has '...', which is no term" },
	{ "i..j", "its equation has '..j', which is no term" },
	{ "ij-", "its equation has '-', which is no term" },
	{ "ij=", "its equation has '=', which is no term" },
	{ "ij->i,j", "its equation has ',j' after the result" },
	{ "ij->ij->", "its equation has '->' after the result" },
	{ "ij->ii", "a label of the result is in no operand or there twice" },
	{ "ij->k", "a label of the result is in no operand or there twice" },
	{ "ii->i", "a label of its equation stands for 2 and 3" },
	{ "...->", "the result of its equation lacks the ellipsis" },
	{ "ij->ijabcdefg", "a term of its equation has more than 8 dimensions" },
};

START_TEST(equations_that_are_refused)
{
	einsum(bad_equations[_i].equation);
	IN_F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	op_fails(1, bad_equations[_i].text);
}
END_TEST

START_TEST(equations_that_are_too_large)
{
	static const float zeros[1 << 14];

	einsum("abcde,fghij->abcdefghij");
	IN_F32(DIMS(1, 1, 1, 1, 1), 1);
	IN_F32(DIMS(1, 1, 1, 1, 1), 1);
	op_fails(1, "a term of its equation has more than 8 dimensions");
	einsum("a,b,c->");
	for (int i = 0; i < 3; i++)
		op_in(RVL_TYPE_F32, DIMS(1 << 14), zeros, 1 << 14);
	op_fails(1, "it sums more than 2^40 products");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_matrix");
	TCase *t = add_case(s, "matrix", 10, NULL, op_end);

	tcase_add_test(t, products_of_floats);
	tcase_add_test(t, products_of_integers);
	tcase_add_test(t, products_that_do_not_fit);
	tcase_add_test(t, long_rows);
	tcase_add_test(t, products_with_zero_points);
	tcase_add_loop_test(t, long_products_of_bytes, 0, 16);
	tcase_add_test(t, general_products);
	tcase_add_test(t, general_products_that_do_not_fit);
	tcase_add_test(t, determinants);
	tcase_add_test(t, equations_of_one_operand);
	tcase_add_test(t, equations_of_more_operands);
	tcase_add_loop_test(t, equations_that_are_refused, 0,
			    sizeof(bad_equations) / sizeof(bad_equations[0]));
	tcase_add_test(t, equations_that_are_too_large);
	return run_suite(s);
}
