/* SPDX-License-Identifier: MIT */
/* Arithmetic, comparisons, logic and shifts of bits, at the ends of each type. */
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

/* A folded constant has the type that the model declares. */
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

/* ---- all pairs of some values, compared with arithmetic on wider numbers ---- */

#define PAIRS_MAX 400

/* The result of an operator for a pair. 128 bits hold each product of two 64-bit numbers. */
__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

static wide ref_add(wide a, wide b)
{
	return a + b;
}

static wide ref_sub(wide a, wide b)
{
	return a - b;
}

static wide ref_mul(wide a, wide b)
{
	return (wide)((unsigned_wide)a * (unsigned_wide)b);
}

static wide ref_div(wide a, wide b)
{
	return b ? a / b : 0;
}

/* The remainder with the sign of the divisor. */
static wide ref_mod(wide a, wide b)
{
	wide r = b ? a % b : 0;

	return r && (r < 0) != (b < 0) ? r + b : r;
}

static wide ref_fmod(wide a, wide b)
{
	return b ? a % b : 0;
}

static wide ref_pow(wide a, wide b)
{
	unsigned_wide r = 1;

	if (b < 0)
		return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
	for (wide i = 0; i < b && i < 300; i++)
		r *= (unsigned_wide)a;
	return (wide)r;
}

static wide ref_max(wide a, wide b)
{
	return a > b ? a : b;
}

static wide ref_min(wide a, wide b)
{
	return a < b ? a : b;
}

static wide ref_and(wide a, wide b)
{
	return a & b;
}

static wide ref_or(wide a, wide b)
{
	return a | b;
}

static wide ref_xor(wide a, wide b)
{
	return a ^ b;
}

static const struct {
	const char *name;
	int64_t opset;
	bool fmod;
	wide (*ref)(wide a, wide b);
} binaries[] = {
	{ "Add", 14, false, ref_add },	     { "Sub", 14, false, ref_sub },	  { "Mul", 14, false, ref_mul },
	{ "Div", 14, false, ref_div },	     { "Mod", 13, false, ref_mod },	  { "Mod", 13, true, ref_fmod },
	{ "Pow", 15, false, ref_pow },	     { "Max", 13, false, ref_max },	  { "Min", 13, false, ref_min },
	{ "BitwiseAnd", 18, false, ref_and }, { "BitwiseOr", 18, false, ref_or }, { "BitwiseXor", 18, false, ref_xor },
};

static const struct {
	enum rvl_type type;
	int bits;
	bool is_signed;
} integers[] = { { RVL_TYPE_S8, 8, true }, { RVL_TYPE_U8, 8, false }, { RVL_TYPE_S32, 32, true },
		 { RVL_TYPE_U16, 16, false }, { RVL_TYPE_S64, 64, true }, { RVL_TYPE_U64, 64, false } };

/* A number as its type stores it: the low bits. */
static wide kept(wide v, int bits, bool is_signed)
{
	wide modulus = (wide)1 << bits;

	v &= modulus - 1;
	return is_signed && v >= modulus / 2 ? v - modulus : v;
}

static void store(enum rvl_type type, void *data, int i, wide v)
{
	size_t size = rvl_type_size(type);
	uint64_t low = (uint64_t)v;

	memcpy((char *)data + (size_t)i * size, &low, size);
}

static wide loaded(enum rvl_type type, const void *data, int i, bool is_signed)
{
	size_t size = rvl_type_size(type);
	uint64_t low = 0;

	memcpy(&low, (const char *)data + (size_t)i * size, size);
	return kept((wide)low, (int)size * 8, is_signed);
}

/* The ends of a type and the numbers next to zero, in all pairs. Returns how many pairs there are. */
static int all_pairs(int bits, bool is_signed, wide *a, wide *b)
{
	wide low = is_signed ? -((wide)1 << (bits - 1)) : 0, high = low + ((wide)1 << bits) - 1;
	const wide ends[] = { low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 11, high / 3, is_signed ? -1 : 5,
			      is_signed ? -2 : 6, is_signed ? -3 : 10, is_signed ? -7 : 100 };
	int n = 0, count = sizeof(ends) / sizeof(ends[0]);

	for (int i = 0; i < count; i++)
		for (int k = 0; k < count; k++) {
			a[n] = ends[i];
			b[n++] = ends[k];
		}
	ck_assert_int_le(n, PAIRS_MAX);
	return n;
}

/* Proves an operator on all pairs of a type. */
static void check_pairs(size_t op, size_t t)
{
	static uint64_t x[PAIRS_MAX], y[PAIRS_MAX];
	static wide a[PAIRS_MAX], b[PAIRS_MAX];
	int bits = integers[t].bits, n = all_pairs(bits, integers[t].is_signed, a, b);
	enum rvl_type type = integers[t].type;

	for (int i = 0; i < n; i++) {
		/* Only exponents that a loop of products can compute. */
		if (binaries[op].ref == ref_pow && b[i] > 11)
			b[i] = 11;
		store(type, x, i, a[i]);
		store(type, y, i, b[i]);
	}
	op_begin(binaries[op].name, binaries[op].opset);
	if (binaries[op].fmod)
		op_int("fmod", 1);
	op_in(type, DIMS(n), x, (size_t)n);
	op_in(type, DIMS(n), y, (size_t)n);
	op_ok(1);
	ck_assert_int_eq(rig.call.out[0].type, type);
	for (int i = 0; i < n; i++) {
		wide want = kept(binaries[op].ref(a[i], b[i]), bits, integers[t].is_signed);

		ck_assert_msg(loaded(type, rig.call.out[0].data, i, integers[t].is_signed) == want,
			      "%s of %lld and %lld, of %d bits", binaries[op].name, (long long)a[i], (long long)b[i], bits);
	}
}

START_TEST(integer_pairs)
{
	for (size_t op = 0; op < sizeof(binaries) / sizeof(binaries[0]); op++)
		for (size_t t = 0; t < sizeof(integers) / sizeof(integers[0]); t++)
			check_pairs(op, t);
}
END_TEST

/* Proves each comparison for less, equal and greater, of each class of types. */
START_TEST(comparisons)
{
	static const struct { const char *name; int64_t opset; bool want[3]; } ops[] = {
		{ "Equal", 13, { false, true, false } }, { "Greater", 13, { false, false, true } },
		{ "GreaterOrEqual", 16, { false, true, true } }, { "Less", 13, { true, false, false } },
		{ "LessOrEqual", 16, { true, true, false } } };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		const bool *w = ops[i].want;

		op_begin(ops[i].name, ops[i].opset);
		IN_S64(DIMS(3), INT64_MIN, -1, 5);
		IN_S64(DIMS(3), INT64_MAX, -1, -5);
		op_ok(1);
		OP_WANT(0, BOOL, uint8_t, DIMS(3), w[0], w[1], w[2]);
		op_begin(ops[i].name, ops[i].opset);
		IN_S32(DIMS(2, 1), INT32_MIN, 7);
		IN_S32(DIMS(3), INT32_MAX, 7, INT32_MIN);
		op_ok(1);
		OP_WANT(0, BOOL, uint8_t, DIMS(2, 3), w[0], w[0], w[1], w[0], w[1], w[2]);
		op_begin(ops[i].name, ops[i].opset);
		OP_IN(F64, double, DIMS(3), -1, 0x1p-60, 1 + 0x1p-50);
		OP_IN(F64, double, DIMS(3), 1, 0x1p-60, 1);
		op_ok(1);
		OP_WANT(0, BOOL, uint8_t, DIMS(3), w[0], w[1], w[2]);
		op_begin(ops[i].name, ops[i].opset);
		OP_IN(U64, uint64_t, DIMS(3), 1, UINT64_MAX, UINT64_MAX);
		OP_IN(U64, uint64_t, DIMS(3), UINT64_MAX, UINT64_MAX, 1);
		op_ok(1);
		OP_WANT(0, BOOL, uint8_t, DIMS(3), w[0], w[1], w[2]);
		op_begin(ops[i].name, ops[i].opset);
		IN_F32(DIMS(4), -1.5f, 0.0f, INFINITY, NAN);
		IN_F32(DIMS(4), 0.5f, -0.0f, -INFINITY, NAN);
		op_ok(1);
		OP_WANT(0, BOOL, uint8_t, DIMS(4), w[0], w[1], w[2], 0);
	}
}
END_TEST

START_TEST(logic)
{
	static const struct { const char *name; uint8_t want[4]; } ops[] = {
		{ "And", { 0, 0, 0, 1 } }, { "Or", { 0, 1, 1, 1 } }, { "Xor", { 0, 1, 1, 0 } } };

	for (size_t i = 0; i < 3; i++) {
		op_begin(ops[i].name, 7);
		OP_IN(BOOL, uint8_t, DIMS(2, 1), 0, 1);
		OP_IN(BOOL, uint8_t, DIMS(2), 0, 1);
		op_ok(1);
		op_want(0, RVL_TYPE_BOOL, DIMS(2, 2), ops[i].want, 4);
	}
}
END_TEST

/* Before opset 7, an attribute gives the axis of input 0 at which the shape of input 1 begins. */
START_TEST(operands_from_an_axis_on)
{
	op_begin("Sub", 6);
	op_int("broadcast", 1);
	op_int("axis", 0);
	IN_F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	IN_F32(DIMS(2), 1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(2, 3), 0, 1, 2, 2, 3, 4);
	op_begin("Mul", 1);
	op_int("broadcast", 1);
	IN_F32(DIMS(2, 3), 1, 2, 3, 4, 5, 6);
	IN_F32(DIMS(3), 1, 10, 100);
	op_ok(1);
	WANT_F32(0, DIMS(2, 3), 1, 20, 300, 4, 50, 600);
	op_begin("Less", 6);
	op_int("broadcast", 1);
	op_int("axis", 1);
	IN_F32(DIMS(1, 2, 2), 1, 2, 3, 4);
	IN_F32(DIMS(2, 1), 2, 4);
	op_ok(1);
	OP_WANT(0, BOOL, uint8_t, DIMS(1, 2, 2), 1, 0, 1, 0);
	op_begin("Add", 6);
	IN_F32(DIMS(2), 1, 2);
	IN_F32(DIMS(2), 3, 4);
	op_ok(1);
	WANT_F32(0, DIMS(2), 4, 6);
	op_begin("Pow", 1);
	op_int("broadcast", 1);
	IN_F32(DIMS(2), 3, 4);
	IN_F32(RANK0, 2);
	op_ok(1);
	WANT_F32(0, DIMS(2), 9, 16);
}
END_TEST

/* Add-6 of operands of zeros. @axis -100: broadcast is 0; 100: the axis is not given. */
static void refuses_axis(struct rvl_shape a, struct rvl_shape b, int axis, const char *text)
{
	static const float zeros[16];

	op_begin("Add", 6);
	op_int("broadcast", axis != -100);
	if (axis != -100 && axis != 100)
		op_int("axis", axis);
	op_in(RVL_TYPE_F32, a, zeros, (size_t)rvl_shape_count(&a));
	op_in(RVL_TYPE_F32, b, zeros, (size_t)rvl_shape_count(&b));
	op_fails(1, text);
}

START_TEST(operands_outside_the_axes)
{
	refuses_axis(DIMS(2, 3), DIMS(3), -100, "inputs 0 and 1 differ in shape, and broadcast is 0");
	refuses_axis(DIMS(3), DIMS(2, 3), 100, "input 1 has rank 2, more than input 0 with rank 1");
	refuses_axis(DIMS(2, 3), DIMS(3), 2,
		     "axis 2 of an input 1 of rank 1 is outside input 0 with rank 2");
	refuses_axis(DIMS(2, 3), DIMS(3), -1,
		     "axis -1 of an input 1 of rank 1 is outside input 0 with rank 2");
	refuses_axis(DIMS(2, 3), DIMS(3), 0, "dimension 0 of input 1 is 3, not that of input 0, 2");
	refuses_axis(DIMS(2, 1), DIMS(3), 100, "dimension 0 of input 1 is 3, not that of input 0, 1");
}
END_TEST

START_TEST(floats)
{
	op_begin("Div", 14);
	IN_F32(DIMS(3), 1, -1, 3);
	IN_F32(DIMS(3), 0, 0, 2);
	op_ok(1);
	WANT_F32(0, DIMS(3), INFINITY, -INFINITY, 1.5f);
	op_begin("Mod", 13);
	IN_F32(DIMS(5), 5.5f, -5.5f, 5.5f, -5.5f, 6);
	IN_F32(DIMS(5), 2, 2, -2, -2, 3);
	op_ok(1);
	WANT_F32(0, DIMS(5), 1.5f, 0.5f, -0.5f, -1.5f, 0);
	op_begin("Mod", 13);
	op_int("fmod", 1);
	IN_F32(DIMS(4), 5.5f, -5.5f, 5.5f, -5.5f);
	IN_F32(DIMS(4), 2, 2, -2, -2);
	op_ok(1);
	WANT_F32(0, DIMS(4), 1.5f, -1.5f, 1.5f, -1.5f);
	/* The result has the type of the base, whatever the type of the exponent is. */
	op_begin("Pow", 15);
	IN_F32(DIMS(3), 2, 9, -3);
	IN_S64(DIMS(3), -2, 0, 3);
	op_ok(1);
	WANT_F32(0, DIMS(3), 0.25f, 1, -27);
	op_begin("Pow", 15);
	IN_S32(DIMS(3), 2, 9, -3);
	IN_F32(DIMS(3), 10, 0.5f, 3);
	op_ok(1);
	WANT_S32(0, DIMS(3), 1024, 3, -27);
}
END_TEST

/* Proves operators of one, two and three operands, and that NaN is propagated. */
START_TEST(any_number_of_operands)
{
	static const struct { const char *name; float one[2], two[2], three[2]; } ops[] = {
		{ "Sum", { 4, -1 }, { 10, -6 }, { 11, -6 } }, { "Mean", { 4, -1 }, { 5, -3 }, { 11 / 3.0f, -2 } },
		{ "Max", { 4, -1 }, { 6, -1 }, { 6, 0 } }, { "Min", { 4, -1 }, { 4, -5 }, { 1, -5 } } };

	for (size_t i = 0; i < 4; i++)
		for (int n = 1; n <= 3; n++) {
			op_begin(ops[i].name, 13);
			IN_F32(DIMS(2), 4, -1);
			if (n > 1)
				IN_F32(DIMS(2), 6, -5);
			if (n > 2)
				IN_F32(DIMS(2), 1, 0);
			op_ok(1);
			op_want(0, RVL_TYPE_F32, DIMS(2), n == 1 ? ops[i].one : n == 2 ? ops[i].two : ops[i].three, 2);
		}
	for (int i = 0; i < 2; i++) {
		op_begin(i ? "Max" : "Min", 13);
		IN_F32(DIMS(4), NAN, 1, NAN, 2);
		IN_F32(DIMS(4), 1, NAN, NAN, 2);
		op_ok(1);
		WANT_F32(0, DIMS(4), NAN, NAN, NAN, 2);
	}
}
END_TEST

/* Until opset 5 they do not broadcast. */
START_TEST(any_number_of_operands_of_one_shape)
{
	static const struct { const char *name; float y[2]; } ops[] = {
		{ "Sum", { 11, -6 } }, { "Mean", { 11 / 3.0f, -2 } }, { "Max", { 6, 0 } }, { "Min", { 1, -5 } } };

	for (size_t i = 0; i < 4; i++) {
		op_begin(ops[i].name, 5);
		OP_INTS("consumed_inputs", 0, 0, 0);
		IN_F32(DIMS(2), 4, -1);
		IN_F32(DIMS(2), 6, -5);
		IN_F32(DIMS(2), 1, 0);
		op_ok(1);
		op_want(0, RVL_TYPE_F32, DIMS(2), ops[i].y, 2);
		op_begin(ops[i].name, 1);
		IN_F32(DIMS(2), 4, -1);
		IN_F32(DIMS(2), 6, -5);
		IN_F32(DIMS(1), 1);
		op_fails(1, "inputs 0 and 2 differ in shape");
	}
}
END_TEST

START_TEST(a_cast_of_old_opsets_names_its_type)
{
	op_begin("Cast", 5);
	op_string("to", "INT32");
	IN_F32(DIMS(3), 1.5f, -2.5f, 0.0f);
	op_ok(1);
	WANT_S32(0, DIMS(3), 1, -2, 0);
	op_begin("Cast", 1);
	op_string("to", "DOUBLE");	/* which is computed as float32 */
	IN_U8(DIMS(2), 255, 3);
	op_ok(1);
	WANT_F32(0, DIMS(2), 255, 3);
	op_begin("Cast", 1);
	op_string("to", "STRING");
	IN_U8(DIMS(2), 255, 3);
	op_fails(1, "element type 'STRING' is not supported");
}
END_TEST

START_TEST(bit_cast_keeps_the_bits)
{
	op_begin("BitCast", 26);
	op_int("to", 6);
	IN_F32(DIMS(3), 1.0f, -2.5f, 0.0f);
	op_ok(1);
	WANT_S32(0, DIMS(3), 0x3f800000, (int32_t)0xc0200000, 0);

	op_begin("BitCast", 26);
	op_int("to", 7);
	IN_F32(DIMS(1), 1.0f);
	op_fails(1, "element type 7 of ONNX does not have the size of its input's");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_arithmetic");
	TCase *t = add_case(s, "arithmetic", 10, NULL, NULL);

	tcase_add_test(t, unsigned_shifts);
	tcase_add_test(t, bit_cast_keeps_the_bits);
	tcase_add_test(t, any_number_of_operands_of_one_shape);
	tcase_add_test(t, a_cast_of_old_opsets_names_its_type);
	tcase_add_test(t, signed_left_shifts_discard_bits);
	tcase_add_test(t, signed_right_shifts_keep_the_sign);
	tcase_add_test(t, signed_numbers_came_with_opset_28);
	tcase_add_test(t, a_copy_takes_every_type);
	tcase_add_test(t, integer_pairs);
	tcase_add_test(t, comparisons);
	tcase_add_test(t, logic);
	tcase_add_test(t, floats);
	tcase_add_test(t, operands_from_an_axis_on);
	tcase_add_test(t, operands_outside_the_axes);
	tcase_add_test(t, any_number_of_operands);
	return run_suite(s);
}
