/* SPDX-License-Identifier: MIT */
/* Element-wise arithmetic of two or more operands, comparisons and logic, with broadcasting. */
#include <math.h>
#include <string.h>

#include "rivulet_op.h"

/* A function on rows: EXPR of a and b. */
#define ROW2(name, in, out, expr) \
	static void name(const struct rvl_call *c, int64_t n, union rvl_row y, \
			 const union rvl_row *x) \
	{ \
		(void)c; \
		for (int64_t i = 0; i < n; i++) { \
			__typeof__(x[0].in[0]) a = x[0].in[i], b = x[1].in[i]; \
			y.out[i] = (expr); \
		} \
	}

/*
 * The functions of an operator, one for each class of element types. NULL: the class is not taken.
 */
struct functions {
	rvl_row_fn f, s, u, d;
};

static rvl_row_fn function_of(const struct functions *fn, enum rvl_class k)
{
	const rvl_row_fn by_class[] = {
		[RVL_CLASS_F32] = fn->f, [RVL_CLASS_S64] = fn->s, [RVL_CLASS_U64] = fn->u,
		[RVL_CLASS_F64] = fn->d,
	};

	return by_class[k];
}

static int run_class(struct rvl_call *c, const struct functions *fn)
{
	enum rvl_class k = rvl_class_of(c->in[0].type);

	return rvl_rows(c, k, k, function_of(fn, k));
}

/* A comparison of rows of a type, whose results are bytes of 0 and 1. */
#define ROW_COMPARE(name, ctype, expr) \
	static void name(const struct rvl_call *c, int64_t n, union rvl_row y, \
			 const union rvl_row *x) \
	{ \
		const ctype *left = (const void *)x[0].u, *right = (const void *)x[1].u; \
		uint8_t *restrict to = (void *)y.u; \
		(void)c; \
		for (int64_t i = 0; i < n; i++) { \
			ctype a = left[i], b = right[i]; \
			to[i] = (expr); \
		} \
	}

/* The rows of a comparison: int32, which models compare most, is not widened. */
struct comparisons {
	rvl_row_fn f32, f64, s32, s64, u64;
};

static int run_compare(struct rvl_call *c, const struct comparisons *fn)
{
	if (c->in[0].type == RVL_TYPE_S32)
		return rvl_rows_typed(c, 2, RVL_TYPE_S32, RVL_TYPE_BOOL, fn->s32);
	switch (rvl_class_of(c->in[0].type)) {
	case RVL_CLASS_F32:
		return rvl_rows_typed(c, 2, RVL_TYPE_F32, RVL_TYPE_BOOL, fn->f32);
	case RVL_CLASS_F64:
		return rvl_rows_typed(c, 2, RVL_TYPE_F64, RVL_TYPE_BOOL, fn->f64);
	case RVL_CLASS_S64:
		return rvl_rows_typed(c, 2, RVL_TYPE_S64, RVL_TYPE_BOOL, fn->s64);
	default:
		return rvl_rows_typed(c, 2, RVL_TYPE_U64, RVL_TYPE_BOOL, fn->u64);
	}
}

#define RUN_CLASS(name, ff, sf, uf, ...) \
	static int run_##name(struct rvl_call *c) \
	{ \
		return run_class(c, &(const struct functions) { .f = ff, .s = sf, .u = uf, __VA_ARGS__ }); \
	}

#define RUN_COMPARE(name, expr) \
	ROW_COMPARE(name##_f32, float, expr) \
	ROW_COMPARE(name##_f64, double, expr) \
	ROW_COMPARE(name##_s32, int32_t, expr) \
	ROW_COMPARE(name##_s64, int64_t, expr) \
	ROW_COMPARE(name##_u64, uint64_t, expr) \
	static int run_##name(struct rvl_call *c) \
	{ \
		return run_compare(c, &(const struct comparisons) { \
			.f32 = name##_f32, .f64 = name##_f64, .s32 = name##_s32, \
			.s64 = name##_s64, .u64 = name##_u64 }); \
	}

/* Sums of integers wrap around, so that they are computed on unsigned integers. */
ROW2(add_f, f, f, a + b)
ROW2(add_d, d, d, a + b)
ROW2(add_u, u, u, a + b)
RUN_CLASS(add, add_f, add_u, add_u, .d = add_d)
ROW2(sub_f, f, f, a - b)
ROW2(sub_d, d, d, a - b)
ROW2(sub_u, u, u, a - b)
RUN_CLASS(sub, sub_f, sub_u, sub_u, .d = sub_d)
ROW2(mul_f, f, f, a * b)
ROW2(mul_d, d, d, a * b)
ROW2(mul_u, u, u, a * b)
RUN_CLASS(mul, mul_f, mul_u, mul_u, .d = mul_d)

/* Division by zero gives 0, and the least integer divided by -1 gives itself. */
ROW2(div_f, f, f, a / b)
ROW2(div_d, d, d, a / b)
ROW2(div_s, s, s, b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b)
ROW2(div_u, u, u, b ? a / b : 0)
RUN_CLASS(div, div_f, div_s, div_u, .d = div_d)

static float mod_sign_of_divisor(float a, float b)
{
	float r = fmodf(a, b);

	return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

static int64_t int_mod(int64_t a, int64_t b)
{
	int64_t r = b == 0 || b == -1 ? 0 : a % b;

	return r && (r < 0) != (b < 0) ? r + b : r;
}

ROW2(mod_f, f, f, mod_sign_of_divisor(a, b))
ROW2(mod_s, s, s, int_mod(a, b))
ROW2(mod_u, u, u, b ? a % b : 0)
ROW2(fmod_f, f, f, fmodf(a, b))
ROW2(fmod_s, s, s, b == 0 || b == -1 ? 0 : a % b)

static int run_mod(struct rvl_call *c)
{
	static const struct functions divisor = { .f = mod_f, .s = mod_s, .u = mod_u };
	static const struct functions dividend = { .f = fmod_f, .s = fmod_s, .u = mod_u };

	return run_class(c, rvl_attr_int(c, "fmod") ? &dividend : &divisor);
}

RUN_COMPARE(equal, a == b)
RUN_COMPARE(greater, a > b)
RUN_COMPARE(greater_equal, a >= b)
RUN_COMPARE(less, a < b)
RUN_COMPARE(less_equal, a <= b)

ROW2(and_u, u, u, a && b)
ROW2(or_u, u, u, a || b)
ROW2(xor_u, u, u, !a != !b)
RUN_CLASS(and, NULL, and_u, and_u)
RUN_CLASS(or, NULL, or_u, or_u)
RUN_CLASS(xor, NULL, xor_u, xor_u)
ROW2(bit_and_u, u, u, a & b)
ROW2(bit_or_u, u, u, a | b)
ROW2(bit_xor_u, u, u, a ^ b)
RUN_CLASS(bit_and, NULL, bit_and_u, bit_and_u)
RUN_CLASS(bit_or, NULL, bit_or_u, bit_or_u)
RUN_CLASS(bit_xor, NULL, bit_xor_u, bit_xor_u)
ROW2(shift_left, u, u, b < 64 ? a << b : 0)
ROW2(shift_right, u, u, b < 64 ? a >> b : 0)

/* A shift by a negative count, or by 64 bits and more, gives 0, or the sign. */
ROW2(shift_left_s, s, s, (uint64_t)b < 64 ? (int64_t)((uint64_t)a << b) : 0)
ROW2(shift_right_s, s, s, (uint64_t)b < 64 ? a >> b : a < 0 ? -1 : 0)

static int run_shift(struct rvl_call *c)
{
	static const struct functions left = { .s = shift_left_s, .u = shift_left };
	static const struct functions right = { .s = shift_right_s, .u = shift_right };

	return run_class(c, rvl_attr_is(c, "direction", "LEFT") ? &left : &right);
}

/* The exponent may be of another type than the base, whose type the result has. */
ROW2(pow_f, f, f, powf(a, b))

static int64_t int_pow(int64_t a, int64_t b)
{
	uint64_t r = 1, x = (uint64_t)a;

	if (b < 0)
		return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
	for (; b; b >>= 1, x *= x)
		if (b & 1)
			r *= x;
	return (int64_t)r;
}

ROW2(pow_s, s, s, int_pow(a, b))

static int run_pow(struct rvl_call *c)
{
	bool floats = c->in[0].type == RVL_TYPE_F32 || c->in[1].type == RVL_TYPE_F32;

	return floats ? rvl_rows(c, RVL_CLASS_F32, RVL_CLASS_F32, pow_f) :
			rvl_rows(c, RVL_CLASS_S64, RVL_CLASS_S64, pow_s);
}

/* A NaN in either operand is the result, as in NumPy. */
ROW2(max_f, f, f, isnan(a) || a > b ? a : b)
ROW2(max_s, s, s, a > b ? a : b)
ROW2(max_u, u, u, a > b ? a : b)
ROW2(min_f, f, f, isnan(a) || a < b ? a : b)
ROW2(min_s, s, s, a < b ? a : b)
ROW2(min_u, u, u, a < b ? a : b)

/* Two operands of the same type and shape. */
static void copy_value(const struct rvl_call *c, const struct rvl_value *x, const struct rvl_value *y)
{
	struct rvl_copy b = { .x = x->data, .y = y->data, .size = rvl_type_size(x->type) };
	int64_t from[RVL_MAX_RANK], to[RVL_MAX_RANK];

	rvl_value_strides(x, from);
	rvl_value_strides(y, to);
	for (int d = 0; d < x->shape.rank; d++)
		rvl_copy_dim(&b, x->shape.dim[d], from[d], to[d]);
	rvl_copy_run(&b, c->pool);
}

/* Any number of operands: the result so far is the first operand of the next step. */
static int run_fold(struct rvl_call *c, const struct functions *fn)
{
	struct rvl_call pair = *c;
	int rc = 0;

	pair.n_in = 2;
	for (uint32_t i = 1; i < c->n_in && !rc; i++) {
		pair.in[0] = i == 1 ? c->in[0] : c->out[0];
		pair.in[1] = c->in[i];
		rc = run_class(&pair, fn);
	}
	if (c->n_in == 1)
		copy_value(c, &c->in[0], &c->out[0]);
	return rc;
}

#define RUN_FOLD(name, ff, sf, uf) \
	static int run_##name(struct rvl_call *c) \
	{ \
		return run_fold(c, &(const struct functions) { .f = ff, .s = sf, .u = uf }); \
	}

RUN_FOLD(sum, add_f, add_u, add_u)
RUN_FOLD(max, max_f, max_s, max_u)
RUN_FOLD(min, min_f, min_s, min_u)

/* The scratch of the call is the number of operands. */
static void mean_f(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	const uint32_t *operands = c->scratch;

	for (int64_t i = 0; i < n; i++)
		y.f[i] = x[0].f[i] / (float)*operands;
}

static int run_mean(struct rvl_call *c)
{
	int rc = run_sum(c);
	struct rvl_call sum = *c;

	sum.n_in = 1;
	sum.in[0] = c->out[0];
	sum.scratch = &c->n_in;
	return rc ? rc : rvl_rows(&sum, RVL_CLASS_F32, RVL_CLASS_F32, mean_f);
}

#define BINARY(op, opset, set, rule, fn, text) { \
	.name = op, .since = (opset), .least_in = 2, .most_in = 2, .types = { set }, \
	.same = RVL_SAME_ALL, .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL, \
	.infer = rule, .run = fn, .doc = text }
#define BROADCAST(op, which, fn, text) { \
	.name = op, .since = 7, .least_in = 2, .most_in = 2, .types = { RVL_T_REAL }, \
	.same = RVL_SAME_ALL, .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL, \
	.infer = rvl_infer_broadcast, .run = fn, .kernel = which, .doc = text }
#define SHIFT(opset, set) { \
	.name = "BitShift", .since = (opset), .least_in = 2, .most_in = 2, .types = { set }, \
	.same = RVL_SAME_ALL, .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL, \
	.attrs = RVL_ATTRS(RVL_STRING_REQUIRED("direction", "LEFT|RIGHT")), \
	.infer = rvl_infer_broadcast, .run = run_shift, .doc = "a shifted by b bits" }
#define VARIADIC(op, opset, set, rule, fn, text, ...) { \
	.name = op, .since = (opset), .least_in = 1, .most_in = RVL_ANY_NUMBER_IN, \
	.types = { set }, .same = RVL_SAME_ALL, .flags = RVL_OP_ELEMENTWISE, \
	.pitched = RVL_PITCHED_ALL, .infer = rule, .run = fn, .doc = text, ##__VA_ARGS__ }
/* Before opset 6. Opset 8 brought broadcasting. */
#define VARIADIC_SAME(op, fn, text) \
	VARIADIC(op, 1, RVL_T_FLOAT, infer_equal_shapes, fn, text, .attrs = RVL_ATTRS(RVL_CONSUMED))
#define VARIADIC_BROADCAST(op, set, fn, text) VARIADIC(op, 6, set, rvl_infer_broadcast, fn, text)

static int infer_equal_shapes(struct rvl_call *c)
{
	for (uint32_t i = 1; i < c->n_in; i++)
		if (!rvl_shape_equal(&c->in[0].shape, &c->in[i].shape))
			return rvl_op_fail(c, "inputs 0 and %u differ in shape", i);
	return rvl_infer_same(c);
}

/*
 * Before opset 7, input 1 is broadcast to input 0 where the attribute says so: its dimensions are
 * those of input 0 from @axis on, by default the last ones. Adds dimensions of 1 to input 1, so
 * that the rule of opset 7 gives the same result.
 */
static int align(struct rvl_call *c)
{
	struct rvl_shape *b = &c->in[1].shape;
	int64_t rank = c->in[0].shape.rank, axis = rank - b->rank;

	if (!rvl_attr_int(c, "broadcast")) {
		if (!rvl_shape_equal(&c->in[0].shape, b))
			return rvl_op_fail(c, "inputs 0 and 1 differ in shape, and broadcast is 0");
		return 0;
	}
	if (b->rank > rank)
		return rvl_op_fail(c, "input 1 has rank %d, more than input 0 with rank %lld", b->rank,
				   (long long)rank);
	if (rvl_attr_given(c, "axis"))
		axis = rvl_attr_int(c, "axis");
	if (axis < 0 || axis + b->rank > rank)
		return rvl_op_fail(c, "axis %lld of an input 1 of rank %d is outside input 0 with rank %lld",
				   (long long)axis, b->rank, (long long)rank);
	for (int i = 0; i < b->rank; i++)
		if (b->dim[i] != c->in[0].shape.dim[axis + i] && b->dim[i] != 1)
			return rvl_op_fail(c, "dimension %d of input 1 is %lld, not that of input 0, %lld", i,
					   (long long)b->dim[i],
					   (long long)c->in[0].shape.dim[axis + i]);
	while (axis + b->rank < rank)
		b->dim[b->rank++] = 1;
	return 0;
}

/* The alignment of a call that the shape rule has accepted. */
static void aligned_shape(const struct rvl_call *c, uint32_t i, struct rvl_shape *s)
{
	struct rvl_call aligned = *c;

	if (i == 1 && !align(&aligned))
		*s = aligned.in[1].shape;
}

static int infer_aligned(struct rvl_call *c)
{
	int rc = align(c);

	return rc ? rc : rvl_infer_broadcast(c);
}

static int infer_aligned_bool(struct rvl_call *c)
{
	int rc = align(c);

	return rc ? rc : rvl_infer_broadcast_bool(c);
}

#define RUN_ALIGNED(name) \
	static int run_##name##_aligned(struct rvl_call *c) \
	{ \
		int rc = align(c); \
\
		return rc ? rc : run_##name(c); \
	}

RUN_ALIGNED(add)
RUN_ALIGNED(sub)
RUN_ALIGNED(mul)
RUN_ALIGNED(div)
RUN_ALIGNED(pow)
RUN_ALIGNED(equal)
RUN_ALIGNED(greater)
RUN_ALIGNED(less)
RUN_ALIGNED(and)
RUN_ALIGNED(or)
RUN_ALIGNED(xor)

#define ALIGNED(op, set, rule, function, what, ...) \
	{ .name = (op), .since = 1, .least_in = 2, .most_in = 2, .types = { set }, \
	  .same = RVL_SAME_ALL, .flags = RVL_OP_ELEMENTWISE, .infer = (rule), .run = (function), \
	  .pitched = RVL_PITCHED_IN(0) | RVL_PITCHED_OUT, .align = aligned_shape, \
	  .attrs = RVL_ATTRS(RVL_FLAG("broadcast", 0), RVL_INT("axis", 0), \
			     ##__VA_ARGS__), \
	  .doc = what ". The dimensions of b are those of a from attribute axis on" }

const struct rvl_op_def rvl_ops_arithmetic[] = {
	ALIGNED("Add", RVL_T_REAL, infer_aligned, run_add_aligned, "a + b", RVL_CONSUMED),
	ALIGNED("Sub", RVL_T_REAL, infer_aligned, run_sub_aligned, "a - b", RVL_CONSUMED),
	ALIGNED("Mul", RVL_T_REAL, infer_aligned, run_mul_aligned, "a * b", RVL_CONSUMED),
	ALIGNED("Div", RVL_T_REAL, infer_aligned, run_div_aligned, "a / b", RVL_CONSUMED),
	ALIGNED("Pow", RVL_T_FLOAT, infer_aligned, run_pow_aligned, "a to the power of b"),
	ALIGNED("Equal", RVL_T_ANY, infer_aligned_bool, run_equal_aligned, "a == b"),
	ALIGNED("Greater", RVL_T_FLOAT, infer_aligned_bool, run_greater_aligned, "a > b"),
	ALIGNED("Less", RVL_T_FLOAT, infer_aligned_bool, run_less_aligned, "a < b"),
	ALIGNED("And", RVL_T(BOOL), infer_aligned, run_and_aligned, "whether both are true"),
	ALIGNED("Or", RVL_T(BOOL), infer_aligned, run_or_aligned, "whether at least one is true"),
	ALIGNED("Xor", RVL_T(BOOL), infer_aligned, run_xor_aligned, "whether exactly one is true"),
	BROADCAST("Add", RVL_OP_ADD, run_add, "a + b with broadcasting"),
	BINARY("Sub", 7, RVL_T_REAL, rvl_infer_broadcast, run_sub, "a - b"),
	BROADCAST("Mul", RVL_OP_MUL, run_mul, "a * b with broadcasting"),
	BINARY("Div", 7, RVL_T_REAL, rvl_infer_broadcast, run_div, "a / b"),
	{ .name = "Mod", .since = 10, .least_in = 2, .most_in = 2, .types = { RVL_T_NUMBER },
	  .same = RVL_SAME_ALL, .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL,
	  .attrs = RVL_ATTRS(RVL_FLAG("fmod", 0)), .infer = rvl_infer_broadcast, .run = run_mod,
	  .doc = "remainder with the sign of the divisor, or of the dividend with fmod" },
	{ .name = "Pow", .since = 7, .least_in = 2, .most_in = 2, .types = { RVL_T_NUMBER },
	  .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL,
	  .infer = rvl_infer_broadcast, .run = run_pow,
	  .doc = "a to the power of b" },
	BINARY("Equal", 7, RVL_T_MOVED, rvl_infer_broadcast_bool, run_equal, "a == b"),
	BINARY("Greater", 7, RVL_T_REAL, rvl_infer_broadcast_bool, run_greater, "a > b"),
	BINARY("GreaterOrEqual", 12, RVL_T_REAL, rvl_infer_broadcast_bool, run_greater_equal,
	       "a >= b"),
	BINARY("Less", 7, RVL_T_REAL, rvl_infer_broadcast_bool, run_less, "a < b"),
	BINARY("LessOrEqual", 12, RVL_T_REAL, rvl_infer_broadcast_bool, run_less_equal, "a <= b"),
	BINARY("And", 7, RVL_T(BOOL), rvl_infer_broadcast, run_and, "whether both are true"),
	BINARY("Or", 7, RVL_T(BOOL), rvl_infer_broadcast, run_or,
	       "whether at least one is true"),
	BINARY("Xor", 7, RVL_T(BOOL), rvl_infer_broadcast, run_xor,
	       "whether exactly one is true"),
	BINARY("BitwiseAnd", 18, RVL_T_INT, rvl_infer_broadcast, run_bit_and, "bits set in both"),
	BINARY("BitwiseOr", 18, RVL_T_INT, rvl_infer_broadcast, run_bit_or, "bits set in either"),
	BINARY("BitwiseXor", 18, RVL_T_INT, rvl_infer_broadcast, run_bit_xor,
	       "bits set in one of the two"),
	SHIFT(11, RVL_T_UNSIGNED),
	SHIFT(28, RVL_T_INT),
	VARIADIC_SAME("Sum", run_sum, "sum of all inputs"),
	VARIADIC_BROADCAST("Sum", RVL_T_FLOAT, run_sum, "sum of all inputs"),
	VARIADIC_SAME("Mean", run_mean, "mean of all inputs"),
	VARIADIC_BROADCAST("Mean", RVL_T_FLOAT, run_mean, "mean of all inputs"),
	VARIADIC_SAME("Max", run_max, "largest of all inputs"),
	VARIADIC_BROADCAST("Max", RVL_T_NUMBER, run_max, "largest of all inputs"),
	VARIADIC_SAME("Min", run_min, "smallest of all inputs"),
	VARIADIC_BROADCAST("Min", RVL_T_NUMBER, run_min, "smallest of all inputs"),
	RVL_OPS_END
};
