/* SPDX-License-Identifier: MIT */
/* Element-wise functions of one operand, activations, and the choice between two operands. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "isa.h"
#include "rivulet_op.h"

/* A function on rows: EXPR of a. */
#define ROW1(name, in, out, expr) \
	static void name(const struct rvl_call *c, int64_t n, union rvl_row y, \
			 const union rvl_row *x) \
	{ \
		(void)c; \
		for (int64_t i = 0; i < n; i++) { \
			__typeof__(x[0].in[0]) a = x[0].in[i]; \
			y.out[i] = (expr); \
		} \
	}

/* The same with float attributes p and q; Q may be NULL. */
#define ROW1_ATTR(name, P, Q, expr) \
	static void name##_f(const struct rvl_call *c, int64_t n, union rvl_row y, \
			     const union rvl_row *x) \
	{ \
		const char *second = (Q); \
		float p = rvl_attr_float(c, P), q = second ? rvl_attr_float(c, second) : 0.0f; \
		(void)q; \
		for (int64_t i = 0; i < n; i++) { \
			float a = x[0].f[i]; \
			y.f[i] = (expr); \
		} \
	} \
	RUN_FLOAT(name, name##_f)

#define RUN_FLOAT(name, fn) \
	static int run_##name(struct rvl_call *c) \
	{ \
		return rvl_rows(c, RVL_CLASS_F32, RVL_CLASS_F32, fn); \
	}

/* A function that ONNX defines on floats alone; integers, where allowed, are converted. */
#define FLOAT1(name, expr) \
	ROW1(name##_f, f, f, expr) \
	RUN_FLOAT(name, name##_f)

/* A function of the vector units. */
#define MATH1(name) \
	static void name##_f(const struct rvl_call *c, int64_t n, union rvl_row y, \
			     const union rvl_row *x) \
	{ \
		(void)c; \
		rvl_f32_kernels()->math->name(x[0].f, n, y.f); \
	} \
	RUN_FLOAT(name, name##_f)

/* The functions of an operator, one for each class of element types. */
struct functions {
	rvl_row_fn f, s, u;
};

static rvl_row_fn of_class(const struct functions *fn, enum rvl_class k)
{
	return k == RVL_CLASS_F32 ? fn->f : k == RVL_CLASS_S64 ? fn->s : fn->u;
}

#define RUN_CLASS(name, ff, sf, uf) \
	static int run_##name(struct rvl_call *c) \
	{ \
		static const struct functions fn = { ff, sf, uf }; \
		enum rvl_class k = rvl_class_of(c->in[0].type); \
		return rvl_rows(c, k, k, of_class(&fn, k)); \
	}

/* ---- arithmetic ---- */

/* The least integer is its own negative and its own magnitude. */
ROW1(same_u, u, u, a)
ROW1(abs_f, f, f, fabsf(a))
ROW1(abs_s, s, u, a < 0 ? 0 - (uint64_t)a : (uint64_t)a)
RUN_CLASS(abs, abs_f, abs_s, same_u)
ROW1(neg_f, f, f, -a)
ROW1(neg_u, u, u, 0 - a)
RUN_CLASS(neg, neg_f, neg_u, neg_u)
ROW1(sign_f, f, f, isnan(a) ? a : (float)((a > 0.0f) - (a < 0.0f)))
ROW1(sign_s, s, s, (a > 0) - (a < 0))
ROW1(sign_u, u, u, a != 0)
RUN_CLASS(sign, sign_f, sign_s, sign_u)

FLOAT1(ceil, ceilf(a))
FLOAT1(floor, floorf(a))
FLOAT1(round, rintf(a))
MATH1(exp)
FLOAT1(log, logf(a))
FLOAT1(sqrt, sqrtf(a))
FLOAT1(reciprocal, 1.0f / a)
MATH1(erf)
FLOAT1(sin, sinf(a))
FLOAT1(cos, cosf(a))
FLOAT1(tan, tanf(a))
FLOAT1(asin, asinf(a))
FLOAT1(acos, acosf(a))
FLOAT1(atan, atanf(a))
FLOAT1(sinh, sinhf(a))
FLOAT1(cosh, coshf(a))
MATH1(tanh)
FLOAT1(asinh, asinhf(a))
FLOAT1(acosh, acoshf(a))
FLOAT1(atanh, atanhf(a))

/* ---- bits and classification ---- */

ROW1(not_u, u, u, !a)
ROW1(bit_not_u, u, u, ~a)
RUN_CLASS(not, NULL, NULL, not_u)
RUN_CLASS(bit_not, NULL, bit_not_u, bit_not_u)
ROW1(is_nan_f, f, u, isnan(a))

static int infer_bool(struct rvl_call *c)
{
	rvl_set_out(c, 0, RVL_TYPE_BOOL, &c->in[0].shape);
	return 0;
}

static int run_is_nan(struct rvl_call *c)
{
	return rvl_rows(c, RVL_CLASS_F32, RVL_CLASS_U64, is_nan_f);
}

static void is_inf_f(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	bool below = rvl_attr_int(c, "detect_negative") != 0;
	bool above = rvl_attr_int(c, "detect_positive") != 0;

	for (int64_t i = 0; i < n; i++)
		y.u[i] = isinf(x[0].f[i]) && (x[0].f[i] < 0.0f ? below : above);
}

static int run_is_inf(struct rvl_call *c)
{
	return rvl_rows(c, RVL_CLASS_F32, RVL_CLASS_U64, is_inf_f);
}

/* ---- activations ---- */

static float sigmoid(float a)
{
	return 1.0f / (1.0f + expf(-a));
}

/* log(1 + exp(a)) without overflow. */
static float softplus(float a)
{
	return fmaxf(a, 0.0f) + log1pf(expf(-fabsf(a)));
}

static float within(float a, float lo, float hi)
{
	return a < lo ? lo : a > hi ? hi : a;
}

static void gelu_tanh_f(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	const float *a = x[0].f;

	(void)c;
	for (int64_t i = 0; i < n; i++)
		y.f[i] = 0.797884561f * (a[i] + 0.044715f * a[i] * a[i] * a[i]);
	rvl_f32_kernels()->math->tanh(y.f, n, y.f);
	for (int64_t i = 0; i < n; i++)
		y.f[i] = 0.5f * a[i] * (1.0f + y.f[i]);
}

static void gelu_erf_f(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	const float *a = x[0].f;

	(void)c;
	for (int64_t i = 0; i < n; i++)
		y.f[i] = a[i] * -0.707106781f;
	rvl_f32_kernels()->math->erfc(y.f, n, y.f);
	for (int64_t i = 0; i < n; i++)
		y.f[i] = 0.5f * a[i] * y.f[i];
}

static void swish_f(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	float alpha = rvl_attr_float(c, "alpha");
	const float *a = x[0].f;

	for (int64_t i = 0; i < n; i++)
		y.f[i] = alpha * a[i];
	rvl_f32_kernels()->math->sigmoid(y.f, n, y.f);
	for (int64_t i = 0; i < n; i++)
		y.f[i] = a[i] * y.f[i];
}

ROW1(relu_f, f, f, a < 0.0f ? 0.0f : a)
ROW1(relu_s, s, s, a < 0 ? 0 : a)
RUN_CLASS(relu, relu_f, relu_s, same_u)
MATH1(sigmoid)
FLOAT1(softplus, isnan(a) ? a : softplus(a))
FLOAT1(softsign, a / (1.0f + fabsf(a)))
MATH1(hard_swish)
FLOAT1(mish, a * tanhf(softplus(a)))
RUN_FLOAT(gelu_erf, gelu_erf_f)
RUN_FLOAT(gelu_tanh, gelu_tanh_f)
RUN_FLOAT(swish, swish_f)
ROW1_ATTR(leaky_relu, "alpha", NULL, a < 0.0f ? p * a : a)
ROW1_ATTR(thresholded_relu, "alpha", NULL, a > p ? a : 0.0f)
ROW1_ATTR(elu, "alpha", NULL, a < 0.0f ? p * expm1f(a) : a)
ROW1_ATTR(celu, "alpha", NULL, fmaxf(a, 0.0f) + fminf(0.0f, p * expm1f(a / p)))
ROW1_ATTR(selu, "alpha", "gamma", q * (a > 0.0f ? a : p * expm1f(a)))
ROW1_ATTR(hard_sigmoid, "alpha", "beta", within(p * a + q, 0.0f, 1.0f))
ROW1_ATTR(shrink_float, "lambd", "bias", a < -p ? a + q : a > p ? a - q : 0.0f)

static int run_gelu(struct rvl_call *c)
{
	return rvl_attr_is(c, "approximate", "tanh") ? run_gelu_tanh(c) : run_gelu_erf(c);
}

/* On integers the sum with the bias, which is a float, loses its fraction. */
static void shrink_s(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	double lambd = (double)rvl_attr_float(c, "lambd"), bias = (double)rvl_attr_float(c, "bias");

	for (int64_t i = 0; i < n; i++) {
		double a = (double)x[0].s[i];
		double v = a < -lambd ? a + bias : a > lambd ? a - bias : 0.0;

		rvl_convert(RVL_TYPE_S64, &y.s[i], RVL_TYPE_F64, &v, 1);
	}
}

static int run_shrink(struct rvl_call *c)
{
	if (c->in[0].type == RVL_TYPE_F32)
		return run_shrink_float(c);
	return rvl_rows(c, RVL_CLASS_S64, RVL_CLASS_S64, shrink_s);
}

/* ---- activations with an operand ---- */

static void swiglu_f(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	float alpha = rvl_attr_float(c, "alpha");

	for (int64_t i = 0; i < n; i++)
		y.f[i] = x[0].f[i] * sigmoid(alpha * x[0].f[i]) * x[1].f[i];
}

RUN_FLOAT(swiglu, swiglu_f)

static int infer_swiglu(struct rvl_call *c)
{
	if (!rvl_shape_equal(&c->in[0].shape, &c->in[1].shape))
		return rvl_op_fail(c, "its two inputs differ in shape");
	return rvl_infer_same(c);
}

static void prelu_f(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	(void)c;
	for (int64_t i = 0; i < n; i++) {
		float v = x[0].f[i], scaled = v * x[1].f[i];

		y.f[i] = v < 0.0f ? scaled : v;
	}
}

static void prelu_s(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	(void)c;
	for (int64_t i = 0; i < n; i++)
		y.u[i] = x[0].s[i] < 0 ? x[0].u[i] * x[1].u[i] : x[0].u[i];
}

/* An unsigned number is never below 0. */
static void prelu_u(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	(void)c;
	memcpy(y.u, x[0].u, (size_t)n * sizeof(*y.u));
}

/* Before opset 7 a slope of more than one value has one for each channel, which is axis 1. */
static void slope_shape(const struct rvl_call *c, uint32_t i, struct rvl_shape *s)
{
	const struct rvl_shape *x = &c->in[0].shape;

	*s = c->in[i].shape;
	if (i != 1 || c->def->since >= 7 || s->rank != 1 || s->dim[0] == 1 || x->rank < 2)
		return;
	s->rank = x->rank - 1;
	for (int k = 1; k < s->rank; k++)
		s->dim[k] = 1;
}

static int infer_prelu(struct rvl_call *c)
{
	struct rvl_shape slope, s;

	slope_shape(c, 1, &slope);
	if (rvl_shape_broadcast(&c->in[0].shape, &slope, &s) ||
	    !rvl_shape_equal(&s, &c->in[0].shape))
		return rvl_op_fail(c, "its slope does not broadcast to its input");
	return rvl_infer_same(c);
}

static int run_prelu(struct rvl_call *c)
{
	static const struct functions fn = { prelu_f, prelu_s, prelu_u };
	enum rvl_class k = rvl_class_of(c->in[0].type);
	struct rvl_call shaped = *c;

	slope_shape(c, 1, &shaped.in[1].shape);
	return rvl_rows(&shaped, k, k, of_class(&fn, k));
}

/* ---- Clip ---- */

#define CLIP(name, in, least, most) \
	static void name(const struct rvl_call *c, int64_t n, union rvl_row y, \
			 const union rvl_row *x) \
	{ \
		for (int64_t i = 0; i < n; i++) { \
			__typeof__(x[0].in[0]) a = x[0].in[i]; \
			__typeof__(a) lo = rvl_has(c, 1) ? x[1].in[i] : (least); \
			__typeof__(a) hi = rvl_has(c, 2) ? x[2].in[i] : (most); \
			a = a < lo ? lo : a; \
			y.in[i] = a > hi ? hi : a; \
		} \
	}

CLIP(clip_f, f, -INFINITY, INFINITY)
CLIP(clip_s, s, INT64_MIN, INT64_MAX)
CLIP(clip_u, u, 0, UINT64_MAX)
RUN_CLASS(clip, clip_f, clip_s, clip_u)

static int infer_clip(struct rvl_call *c)
{
	for (uint32_t i = 1; i < c->n_in; i++)
		if (rvl_has(c, i) && rvl_count(&c->in[i]) != 1)
			return rvl_op_fail(c, "its input %u has %lld values, not 1", i,
					   (long long)rvl_count(&c->in[i]));
	return rvl_infer_same(c);
}

static void clip_attr_f(const struct rvl_call *c, int64_t n, union rvl_row y,
			const union rvl_row *x)
{
	float lo = rvl_attr_float(c, "min"), hi = rvl_attr_float(c, "max");

	for (int64_t i = 0; i < n; i++)
		y.f[i] = within(x[0].f[i], lo, hi);
}

RUN_FLOAT(clip_attr, clip_attr_f)

/* ---- Dropout ---- */

/* In training it sets elements to 0 at random, which is refused when a model is compiled. */
static int check_training(struct rvl_call *c)
{
	if (!rvl_has(c, 2))
		return 0;
	if (!c->in[2].data)
		return rvl_op_fail(c, "its input 2, whether it trains, must be a constant");
	if (!rvl_element_int(RVL_TYPE_BOOL, c->in[2].data, 0))
		return 0;
	if (!rvl_has(c, 1) || !c->in[1].data || rvl_element(c->in[1].type, c->in[1].data, 0) != 0.0)
		return rvl_op_fail(c, "it is in training and drops elements at random");
	return 0;
}

static int infer_dropout(struct rvl_call *c)
{
	rvl_set_out(c, 0, c->in[0].type, &c->in[0].shape);
	rvl_set_out(c, 1, c->def->since < 10 ? c->in[0].type : RVL_TYPE_BOOL, &c->in[0].shape);
	for (uint32_t i = 1; i < c->n_in; i++)
		if (rvl_has(c, i) && rvl_count(&c->in[i]) != 1)
			return rvl_op_fail(c, "its input %u has %lld values, not 1", i,
					   (long long)rvl_count(&c->in[i]));
	return check_training(c);
}

static int run_dropout(struct rvl_call *c)
{
	const uint8_t all = 1;
	int64_t n = rvl_count(&c->in[0]);

	rvl_convert(c->out[0].type, c->out[0].data, c->in[0].type, c->in[0].data, n);
	for (int64_t i = 0; rvl_wants(c, 1) && i < n; i++)
		rvl_convert(c->out[1].type,
			    (char *)c->out[1].data + (size_t)i * rvl_type_size(c->out[1].type),
			    RVL_TYPE_U8, &all, 1);
	return 0;
}

/* ---- Where ---- */

static int infer_where(struct rvl_call *c)
{
	if (c->in[1].type != c->in[2].type)
		return rvl_op_fail(c, "its input 1 is %s, input 2 %s",
				   rvl_type_name(c->in[1].type), rvl_type_name(c->in[2].type));
	if (rvl_infer_broadcast(c))
		return -EINVAL;
	c->out[0].type = c->in[1].type;
	return 0;
}

#define WHERE(name, in) \
	static void name(const struct rvl_call *c, int64_t n, union rvl_row y, \
			 const union rvl_row *x) \
	{ \
		(void)c; \
		for (int64_t i = 0; i < n; i++) \
			y.in[i] = x[0].in[i] != 0 ? x[1].in[i] : x[2].in[i]; \
	}

WHERE(where_f, f)
WHERE(where_u, u)

static int run_where(struct rvl_call *c)
{
	enum rvl_class k = rvl_class_of(c->in[1].type);

	return rvl_rows(c, k, k, k == RVL_CLASS_F32 ? where_f : where_u);
}

/* ---- descriptors ---- */

#define UNARY(op, opset, set, fn, text, ...) { \
	.name = op, .since = (opset), .least_in = 1, .most_in = 1, .types = { set }, \
	.flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL, \
	.infer = rvl_infer_same, .run = fn, .doc = text, ##__VA_ARGS__ }
#define ATTRS(...) .attrs = RVL_ATTRS(__VA_ARGS__)

#define DROPOUT(opset, in, ...) { \
	.name = "Dropout", .since = (opset), .least_in = 1, .most_in = (in), .most_out = 2, \
	.types = { RVL_T_FLOAT, RVL_T_FLOAT, RVL_T(BOOL) }, \
	.attrs = RVL_ATTRS(__VA_ARGS__), .infer = infer_dropout, .run = run_dropout, \
	.doc = "a copy, and a mask of ones" }

#define CLIP_OLD(opset, most) { \
	.name = "Clip", .since = (opset), .least_in = 1, .most_in = 1, .types = { RVL_T_FLOAT }, \
	.flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL, \
	.attrs = RVL_ATTRS(RVL_FLOAT("min", -most), RVL_FLOAT("max", most), \
			   RVL_CONSUMED), \
	.infer = rvl_infer_same, .run = run_clip_attr, .kernel = RVL_OP_CLIP, \
	.doc = "x within min and max" }

#define PRELU_ROW(opset) { \
	.name = "PRelu", .since = (opset), .least_in = 2, .most_in = 2, .types = { RVL_T_NUMBER }, \
	.same = RVL_SAME_ALL, .flags = RVL_OP_ELEMENTWISE, \
	.pitched = RVL_PITCHED_IN(0) | RVL_PITCHED_OUT, \
	.attrs = RVL_ATTRS(RVL_CONSUMED), .infer = infer_prelu, \
	.align = slope_shape, .run = run_prelu, .role = RVL_ROLE_PRELU, \
	.doc = "x, or slope * x where x is below 0" }

const struct rvl_op_def rvl_ops_unary[] = {
	UNARY("Abs", 1, RVL_T_NUMBER, run_abs, "magnitude", ATTRS(RVL_CONSUMED)),
	UNARY("Neg", 1, RVL_T_SIGNED | RVL_T_FLOAT, run_neg, "-x", ATTRS(RVL_CONSUMED)),
	UNARY("Sign", 9, RVL_T_NUMBER, run_sign, "-1, 0 or 1"),
	UNARY("Ceil", 1, RVL_T_FLOAT, run_ceil, "rounded up", ATTRS(RVL_CONSUMED)),
	UNARY("Floor", 1, RVL_T_FLOAT, run_floor, "rounded down", ATTRS(RVL_CONSUMED)),
	UNARY("Round", 11, RVL_T_FLOAT, run_round, "rounded to the nearest integer, ties to even"),
	UNARY("Exp", 1, RVL_T_FLOAT, run_exp, "e to the power of x", ATTRS(RVL_CONSUMED)),
	UNARY("Log", 1, RVL_T_FLOAT, run_log, "natural logarithm", ATTRS(RVL_CONSUMED)),
	UNARY("Sqrt", 1, RVL_T_FLOAT, run_sqrt, "square root", ATTRS(RVL_CONSUMED)),
	UNARY("Reciprocal", 1, RVL_T_FLOAT, run_reciprocal, "1 / x", ATTRS(RVL_CONSUMED)),
	UNARY("Erf", 9, RVL_T_NUMBER, run_erf, "error function"),
	UNARY("Sin", 7, RVL_T_FLOAT, run_sin, "sine"),
	UNARY("Cos", 7, RVL_T_FLOAT, run_cos, "cosine"),
	UNARY("Tan", 7, RVL_T_FLOAT, run_tan, "tangent"),
	UNARY("Asin", 7, RVL_T_FLOAT, run_asin, "inverse sine"),
	UNARY("Acos", 7, RVL_T_FLOAT, run_acos, "inverse cosine"),
	UNARY("Atan", 7, RVL_T_FLOAT, run_atan, "inverse tangent"),
	UNARY("Sinh", 9, RVL_T_FLOAT, run_sinh, "hyperbolic sine"),
	UNARY("Cosh", 9, RVL_T_FLOAT, run_cosh, "hyperbolic cosine"),
	UNARY("Tanh", 1, RVL_T_FLOAT, run_tanh, "hyperbolic tangent", ATTRS(RVL_CONSUMED)),
	UNARY("Asinh", 9, RVL_T_FLOAT, run_asinh, "inverse hyperbolic sine"),
	UNARY("Acosh", 9, RVL_T_FLOAT, run_acosh, "inverse hyperbolic cosine"),
	UNARY("Atanh", 9, RVL_T_FLOAT, run_atanh, "inverse hyperbolic tangent"),
	UNARY("Not", 1, RVL_T(BOOL), run_not, "the other truth value"),
	UNARY("BitwiseNot", 18, RVL_T_INT, run_bit_not, "every bit inverted"),
	{ .name = "IsNaN", .since = 9, .least_in = 1, .most_in = 1, .types = { RVL_T_FLOAT },
	  .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL, .infer = infer_bool,
	  .run = run_is_nan, .doc = "whether x is NaN" },
	{ .name = "IsInf", .since = 10, .least_in = 1, .most_in = 1, .types = { RVL_T_FLOAT },
	  .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL,
	  .attrs = RVL_ATTRS(RVL_INT("detect_negative", 1), RVL_INT("detect_positive", 1)),
	  .infer = infer_bool, .run = run_is_inf, .doc = "whether x is infinite" },
	{ .name = "Relu", .since = 1, .least_in = 1, .most_in = 1, .types = { RVL_T_NUMBER },
	  .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL,
	  .attrs = RVL_ATTRS(RVL_CONSUMED),
	  .infer = rvl_infer_same, .run = run_relu, .kernel = RVL_OP_RELU, .doc = "max(x, 0)" },
	UNARY("LeakyRelu", 1, RVL_T_FLOAT, run_leaky_relu, "x, or alpha * x where x is below 0",
	      ATTRS(RVL_FLOAT("alpha", 0.01f), RVL_CONSUMED)),
	UNARY("ThresholdedRelu", 10, RVL_T_FLOAT, run_thresholded_relu,
	      "x above alpha, else 0", ATTRS(RVL_FLOAT("alpha", 1.0f))),
	UNARY("Elu", 1, RVL_T_FLOAT, run_elu, "x, or alpha * (exp(x) - 1) where x is below 0",
	      ATTRS(RVL_FLOAT("alpha", 1.0f), RVL_CONSUMED)),
	UNARY("Celu", 12, RVL_T_FLOAT, run_celu,
	      "x, or alpha * (exp(x / alpha) - 1) where x is below 0", ATTRS(RVL_FLOAT("alpha", 1.0f))),
	UNARY("Selu", 1, RVL_T_FLOAT, run_selu, "gamma times Elu of x",
	      ATTRS(RVL_FLOAT("alpha", 1.6732f), RVL_FLOAT("gamma", 1.0507f), RVL_CONSUMED)),
	UNARY("Selu", 6, RVL_T_FLOAT, run_selu, "gamma times Elu of x",
	      ATTRS(RVL_FLOAT("alpha", 1.67326319f), RVL_FLOAT("gamma", 1.05070102f))),
	UNARY("Softplus", 1, RVL_T_FLOAT, run_softplus, "log(1 + exp(x))"),
	UNARY("Softsign", 1, RVL_T_FLOAT, run_softsign, "x / (1 + |x|)"),
	UNARY("Sigmoid", 1, RVL_T_FLOAT, run_sigmoid, "1 / (1 + exp(-x))", ATTRS(RVL_CONSUMED)),
	UNARY("HardSigmoid", 1, RVL_T_FLOAT, run_hard_sigmoid,
	      "alpha * x + beta within 0 and 1", ATTRS(RVL_FLOAT("alpha", 0.2f), RVL_FLOAT("beta", 0.5f),
		    RVL_CONSUMED)),
	UNARY("HardSwish", 14, RVL_T_FLOAT, run_hard_swish, "x times HardSigmoid of x, alpha = 1/6"),
	UNARY("Mish", 18, RVL_T_FLOAT, run_mish, "x * tanh(log(1 + exp(x)))"),
	UNARY("Gelu", 20, RVL_T_FLOAT, run_gelu, "x times the normal distribution's share below x",
	      ATTRS(RVL_STRING("approximate", "none", "none|tanh"))),
	UNARY("Swish", 24, RVL_T_FLOAT, run_swish, "x / (1 + exp(-alpha * x))",
	      ATTRS(RVL_FLOAT("alpha", 1.0f))),
	UNARY("Shrink", 9, RVL_T_NUMBER, run_shrink, "x - bias above lambd, x + bias below -lambd, 0 between",
	      ATTRS(RVL_FLOAT("bias", 0.0f), RVL_FLOAT("lambd", 0.5f))),
	{ .name = "SwiGLU", .since = 28, .least_in = 2, .most_in = 2, .types = { RVL_T_FLOAT },
	  .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL,
	  .attrs = RVL_ATTRS(RVL_FLOAT("alpha", 1.0f)), .infer = infer_swiglu, .run = run_swiglu, .doc = "Swish of input 0, times input 1" },
	PRELU_ROW(1),
	PRELU_ROW(7),
	CLIP_OLD(1, INFINITY),
	CLIP_OLD(6, FLT_MAX),
	{ .name = "Clip", .since = 11, .least_in = 1, .most_in = 3, .types = { RVL_T_NUMBER },
	  .same = RVL_SAME_ALL, .flags = RVL_OP_ELEMENTWISE,
	  .pitched = RVL_PITCHED_IN(0) | RVL_PITCHED_OUT, .infer = infer_clip, .run = run_clip,
	  .kernel = RVL_OP_CLIP, .doc = "x within two bounds" },
	DROPOUT(1, 1, RVL_CONSUMED, RVL_IGNORED_UNTIL("is_test", 7), RVL_IGNORED("ratio")),
	DROPOUT(10, 1, RVL_IGNORED("ratio")),
	DROPOUT(12, 3, RVL_IGNORED("seed")),
	{ .name = "Where", .since = 9, .least_in = 3, .most_in = 3,
	  .types = { RVL_T(BOOL), RVL_T_ANY, RVL_T_ANY }, .flags = RVL_OP_ELEMENTWISE,
	  .pitched = RVL_PITCHED_ALL,
	  .infer = infer_where, .run = run_where,
	  .doc = "input 1 where the condition holds, else input 2" },
	RVL_OPS_END
};
