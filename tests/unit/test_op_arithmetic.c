/* SPDX-License-Identifier: MIT */
/* Shifts of bits, at the ends of each type. */
#include "op_rig.h"
#include "suite.h"

static void begin_shift(int64_t opset, const char *direction)
{
	op_begin("BitShift", opset);
	op_string("direction", direction);
}

START_TEST(unsigned_shifts)
{
	begin_shift(11, "LEFT");
	IN_U8(DIMS(5), 1, 3, 255, 255, 255);
	IN_U8(DIMS(5), 0, 7, 1, 8, 200);
	op_ok(1);
	WANT_U8(0, DIMS(5), 1, 128, 254, 0, 0);
	begin_shift(28, "RIGHT");
	OP_IN(U64, uint64_t, DIMS(4), UINT64_MAX, UINT64_MAX, UINT64_MAX, 1);
	OP_IN(U64, uint64_t, DIMS(4), 63, 64, UINT64_MAX, 0);
	op_ok(1);
	OP_WANT(0, U64, uint64_t, DIMS(4), 1, 0, 0, 1);
}
END_TEST

START_TEST(signed_left_shifts_discard_bits)
{
	begin_shift(28, "LEFT");
	IN_S8(DIMS(6), 64, 1, -64, -1, -1, -1);
	IN_S8(DIMS(6), 1, 7, 1, 8, -1, 0);
	op_ok(1);
	WANT_S8(0, DIMS(6), -128, -128, -128, 0, 0, -1);
	begin_shift(28, "LEFT");
	IN_S64(DIMS(4), -1, -1, -1, 3);
	IN_S64(DIMS(4), 63, 64, -64, 62);
	op_ok(1);
	WANT_S64(0, DIMS(4), INT64_MIN, 0, 0, (int64_t)((uint64_t)3 << 62));
}
END_TEST

START_TEST(signed_right_shifts_keep_the_sign)
{
	begin_shift(28, "RIGHT");
	IN_S32(DIMS(6), -8, 4, -8, 4, -1, INT32_MIN);
	IN_S32(DIMS(6), 1, 1, 32, 33, -64, 31);
	op_ok(1);
	WANT_S32(0, DIMS(6), -4, 2, -1, 0, -1, -1);
	begin_shift(28, "RIGHT");
	IN_S64(DIMS(4), INT64_MIN, INT64_MIN, INT64_MIN, INT64_MAX);
	IN_S64(RANK0, 63);
	op_ok(1);
	WANT_S64(0, DIMS(4), -1, -1, -1, 0);
	begin_shift(28, "RIGHT");
	IN_S64(DIMS(2), -1, 1);
	IN_S64(RANK0, INT64_MIN);
	op_ok(1);
	WANT_S64(0, DIMS(2), -1, 0);
}
END_TEST

START_TEST(signed_numbers_came_with_opset_28)
{
	begin_shift(27, "LEFT");
	IN_S32(DIMS(1), 1);
	IN_S32(DIMS(1), 1);
	op_fails(1, "its input 0 is int32, which it does not take");
	begin_shift(28, "up");
	IN_S32(DIMS(1), 1);
	IN_S32(DIMS(1), 1);
	op_fails(1, "attribute direction is 'up', not one of LEFT|RIGHT");
}
END_TEST

/* A folded constant leaves the model in the type that the model declares. */
START_TEST(a_copy_takes_every_type)
{
	static const enum rvl_type types[] = { RVL_TYPE_F64, RVL_TYPE_F16, RVL_TYPE_BF16, RVL_TYPE_BOOL };
	const double from = 1.0 / 3;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct rvl_kernel_arg a = { .type = types[i], .shape = { .rank = 0 } };
		struct rvl_kernel_desc d = { .op = RVL_OP_IDENTITY, .n_in = 1, .n_out = 1,
					     .in = { a }, .out = { a } };
		const void *in[] = { &from };
		double to = 0;
		void *out[] = { &to };
		struct rvl_kernel *k;
		char why[RVL_WHY_MAX] = "";

		ck_assert_msg(!rvl_kernel_new(&d, false, &k, why), "%s", why);
		ck_assert_int_eq(rvl_kernel_run(k, in, out, NULL, NULL), 0);
		ck_assert_mem_eq(&to, &from, rvl_type_size(types[i]));
		rvl_kernel_free(k);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_arithmetic");
	TCase *t = add_case(s, "shifts", 10, NULL, NULL);

	tcase_add_test(t, unsigned_shifts);
	tcase_add_test(t, signed_left_shifts_discard_bits);
	tcase_add_test(t, signed_right_shifts_keep_the_sign);
	tcase_add_test(t, signed_numbers_came_with_opset_28);
	tcase_add_test(t, a_copy_takes_every_type);
	return run_suite(s);
}
