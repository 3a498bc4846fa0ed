/* SPDX-License-Identifier: MIT */
/*
 * Binary layers as ONNX's operators on floats, for the export of a model: bits become the numbers 1
 * and -1, and what follows the sums of products is computed in float64 and rounded to float32 after
 * each step, which is the fma() of docs/numerics.md 13.
 */
#include "pass/binary.h"
#include "pass/pass.h"
#include "pass/passes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMPARE_OPSET 12 /* of GreaterOrEqual */
#define PAD_OPSET     11 /* of a Pad whose pads are an input */

struct unfold {
	struct rvl_graph *g;
	struct rvl_tensor **numbers; /* by tensor of bits: the image [N, C, H, W] of 1 and -1 */
	uint32_t n_tensors;
	int rc; /* the first failure; what follows does nothing */
	struct rvl_err *err;
};

/* ---- tensors and nodes ---- */

/* NULL after a failure, as of each function that makes a tensor. */
static struct rvl_tensor *constant(struct unfold *u, enum rvl_type type,
				   const struct rvl_shape *shape, const void *data)
{
	struct rvl_tensor *t = NULL;

	if (!u->rc)
		u->rc = rvl_tensor_const(u->g, NULL, type, shape, data, &t, u->err);
	return t;
}

static struct rvl_tensor *scalar(struct unfold *u, enum rvl_type type, const void *data)
{
	const struct rvl_shape none = { .rank = 0 };

	return constant(u, type, &none, data);
}

/* That of a quantised tensor, of its type: uint8, int8 or int16. */
static struct rvl_tensor *zero_point(struct unfold *u, const struct rvl_tensor *t)
{
	const int32_t zp = t->quant.zp[0];
	union {
		int8_t s8;
		uint8_t u8;
		int16_t s16;
	} zero = { 0 };

	if (t->type == RVL_TYPE_S16)
		zero.s16 = (int16_t)zp;
	else if (t->type == RVL_TYPE_U8)
		zero.u8 = (uint8_t)zp;
	else
		zero.s8 = (int8_t)zp;
	return scalar(u, t->type, &zero);
}

static void *memory(struct unfold *u, int64_t n, size_t size)
{
	void *p = u->rc ? NULL : rvl_arena_array(u->g->arena, (size_t)n, size);

	if (!u->rc && !p)
		u->rc = rvl_fail(u->err, -ENOMEM, "no memory for operators of a binary layer");
	return p;
}

/* Values by channel, which are broadcast to an image. */
static struct rvl_tensor *by_channel(struct unfold *u, enum rvl_type type, int64_t n,
				     const void *data)
{
	const struct rvl_shape shape = { .rank = 3, .dim = { n, 1, 1 } };

	return constant(u, type, &shape, data);
}

/* Values by channel times @factor in float32, as float64. @v: NULL for ones. */
static struct rvl_tensor *factors(struct unfold *u, int64_t n, const float *v, float factor)
{
	double *d = memory(u, n, sizeof(*d));

	for (int64_t i = 0; d && i < n; i++)
		d[i] = (double)((v ? v[i] : 1) * factor);
	return by_channel(u, RVL_TYPE_F64, n, d);
}

/* Values by channel divided by @unit in float32, as @type: float32 or float64. */
static struct rvl_tensor *quotients(struct unfold *u, enum rvl_type type, int64_t n, const float *v,
				    float unit)
{
	float *f = memory(u, n, sizeof(*f));
	double *d = memory(u, n, sizeof(*d));

	for (int64_t i = 0; f && d && i < n; i++) {
		f[i] = v[i] / unit;
		d[i] = (double)f[i];
	}
	return by_channel(u, type, n, type == RVL_TYPE_F64 ? (void *)d : f);
}

struct operands {
	struct rvl_tensor *t[3];
};

static struct rvl_tensor *result(struct unfold *u, enum rvl_type type,
				 const struct rvl_shape *shape)
{
	struct rvl_tensor *y = NULL;

	if (!u->rc)
		u->rc = rvl_tensor_new(u->g, NULL, &y, u->err);
	if (!u->rc) {
		y->type = type;
		y->shaped = true;
		y->shape = *shape;
	}
	return u->rc ? NULL : y;
}

/* The result of the operator @name. */
static struct rvl_tensor *apply(struct unfold *u, const char *name,
				const struct rvl_named_value *set, enum rvl_type type,
				const struct rvl_shape *shape, struct operands in)
{
	const struct rvl_op_def *def = rvl_op_find(NULL, name, u->g->opset);
	struct rvl_tensor *y = result(u, type, shape);
	struct rvl_node *n;

	if (!u->rc && !def)
		u->rc = rvl_fail(u->err, -EOPNOTSUPP,
				 "a binary layer needs %s, which opset %lld has not", name,
				 (long long)u->g->opset);
	if (!u->rc)
		u->rc = rvl_node_of_role(u->g, def, set, set ? 1 : 0, y, &n, u->err);
	for (uint32_t i = 0; i < 3 && !u->rc && in.t[i]; i++)
		u->rc = rvl_node_set_in(u->g, n, i, in.t[i], u->err);
	return u->rc ? NULL : y;
}

/* @type: float32, float64 or int32. */
static struct rvl_tensor *cast(struct unfold *u, struct rvl_tensor *x, enum rvl_type type)
{
	/* Numbers of TensorProto. */
	const int64_t number = type == RVL_TYPE_F32 ? 1 : type == RVL_TYPE_F64 ? 11 : 6;
	const struct rvl_named_value to = { "to", { .given = true, .i = number } };

	return u->rc ? NULL : apply(u, "Cast", &to, type, &x->shape, (struct operands){ { x } });
}

static struct rvl_tensor *both(struct unfold *u, const char *name, struct rvl_tensor *x,
			       struct rvl_tensor *b)
{
	return u->rc ? NULL :
		       apply(u, name, NULL, x->type, &x->shape, (struct operands){ { x, b } });
}

/* Another shape, of the same elements. */
static struct rvl_tensor *reshape(struct unfold *u, struct rvl_tensor *x,
				  const struct rvl_shape *shape)
{
	const struct rvl_shape list = { .rank = 1, .dim = { shape->rank } };
	struct rvl_tensor *dims = constant(u, RVL_TYPE_S64, &list, shape->dim);

	return u->rc ? NULL :
		       apply(u, "Reshape", NULL, x->type, shape, (struct operands){ { x, dims } });
}

/* A matrix [N, C] as images of one pixel. */
static struct rvl_tensor *image(struct unfold *u, struct rvl_tensor *x)
{
	struct rvl_shape shape = { .rank = 4, .dim = { 0, 0, 1, 1 } };

	if (u->rc || x->shape.rank == 4)
		return x;
	shape.dim[0] = x->shape.dim[0];
	shape.dim[1] = x->shape.dim[1];
	return reshape(u, x, &shape);
}

/* The integers of a quantised image minus their zero point, which float32 holds. Others stay. */
static struct rvl_tensor *steps(struct unfold *u, struct rvl_tensor *x)
{
	const float one = 1;
	struct rvl_tensor *y;

	if (u->rc || x->type == RVL_TYPE_F32)
		return x;
	y = result(u, RVL_TYPE_F32, &x->shape);
	if (!u->rc)
		u->rc = rvl_dequantise(u->g, x, scalar(u, RVL_TYPE_F32, &one), zero_point(u, x), y, u->err);
	return y;
}

/* ---- signs ---- */

/*
 * Thresholds of integers as those of steps(), which are below 2^24: what none or all of them reach stays so.
 * Those are the ends of int32, so that the difference has 64 bits.
 */
static struct rvl_tensor *thresholds_of_steps(struct unfold *u, const struct rvl_tensor *x,
					      struct rvl_tensor *threshold)
{
	int64_t n = rvl_shape_count(&threshold->shape), zp = x->type == RVL_TYPE_F32 ? 0 : x->quant.zp[0];
	const int32_t *t = threshold->data;
	float *v;

	if (threshold->type == RVL_TYPE_F32)
		return threshold;
	v = memory(u, n, sizeof(*v));
	for (int64_t i = 0; v && i < n; i++)
		v[i] = (float)(t[i] - zp);
	return constant(u, RVL_TYPE_F32, &threshold->shape, v);
}

/* The floats before those of @threshold. */
static struct rvl_tensor *below(struct unfold *u, const struct rvl_tensor *threshold)
{
	int64_t n = rvl_shape_count(&threshold->shape);
	const float *t = threshold->data;
	float *v = memory(u, n, sizeof(*v));

	for (int64_t i = 0; v && i < n; i++)
		v[i] = nextafterf(t[i], -INFINITY);
	return by_channel(u, RVL_TYPE_F32, n, v);
}

static struct rvl_tensor *truth(struct unfold *u, const char *name, struct rvl_tensor *x, struct rvl_tensor *c)
{
	return u->rc ? NULL : apply(u, name, NULL, RVL_TYPE_BOOL, &x->shape, (struct operands){ { x, c } });
}

/*
 * Floats of @x below the bound of their channel, which is 0 where the threshold is -infinity, and
 * -infinity elsewhere: what is not greater than the float before the threshold, but reaches it. NULL: none.
 */
static struct rvl_tensor *least(struct unfold *u, struct rvl_tensor *x, const struct rvl_tensor *threshold)
{
	int64_t n = rvl_shape_count(&threshold->shape);
	const float *t = threshold->data;
	float *v = memory(u, n, sizeof(*v));
	bool any = false;

	for (int64_t i = 0; v && i < n; i++) {
		v[i] = t[i] == -INFINITY ? 0 : -INFINITY;
		any |= v[i] == 0;
	}
	return any ? truth(u, "Less", x, by_channel(u, RVL_TYPE_F32, n, v)) : NULL;
}

/*
 * Where @x reaches the threshold of its channel. Opsets below 12 compare by what is above the float before
 * the threshold, which a NaN is not either.
 */
static struct rvl_tensor *reaches(struct unfold *u, struct rvl_tensor *x, const struct rvl_tensor *threshold)
{
	int64_t n = rvl_shape_count(&threshold->shape);
	struct rvl_tensor *more, *above;

	if (u->g->opset >= COMPARE_OPSET)
		return truth(u, "GreaterOrEqual", x, by_channel(u, RVL_TYPE_F32, n, threshold->data));
	more = least(u, x, threshold);
	above = truth(u, "Greater", x, below(u, threshold));
	return more ? truth(u, "Or", above, more) : above;
}

/*
 * 1 where @x reaches the threshold of its channel, else -1. Integers are compared as floats, as a reader of
 * the model finds signs.
 */
static struct rvl_tensor *signs(struct unfold *u, struct rvl_tensor *x, struct rvl_tensor *threshold)
{
	const float one = 1, minus_one = -1;
	struct rvl_tensor *plus = scalar(u, RVL_TYPE_F32, &one),
			  *minus = scalar(u, RVL_TYPE_F32, &minus_one), *c;

	threshold = thresholds_of_steps(u, x, threshold);
	x = image(u, steps(u, x));
	c = u->rc ? NULL : reaches(u, x, threshold);
	return u->rc ? NULL :
		       apply(u, "Where", NULL, RVL_TYPE_F32, &x->shape, (struct operands){ { c, plus, minus } });
}

static void set_numbers(struct unfold *u, const struct rvl_tensor *bits, struct rvl_tensor *numbers)
{
	u->numbers[bits->id] = numbers;
}

static void unfold_sign(struct unfold *u, struct rvl_node *n)
{
	struct rvl_tensor *x = n->in[0], *bits = n->out[0], *threshold = n->in[1];

	rvl_node_remove(u->g, n);
	set_numbers(u, bits, signs(u, x, threshold));
}

/* ---- sums of products ---- */

/* A node that computes as @n, with its attributes but those of bits. */
static struct rvl_tensor *native(struct unfold *u, enum rvl_op op, const struct rvl_node *n,
				 const struct rvl_shape *shape, struct rvl_tensor *x,
				 struct rvl_tensor *w)
{
	struct rvl_tensor *y = result(u, RVL_TYPE_F32, shape);
	struct rvl_attr neutral;
	struct rvl_node *made;

	if (!u->rc)
		u->rc = rvl_node_new(u->g, op, n->name, &made, u->err);
	if (!u->rc) {
		neutral = made->attr;
		made->op_type = rvl_op_name(op);
		made->attr = n->attr;
		made->attr.block = neutral.block;
		made->attr.count_include_pad = neutral.count_include_pad;
		made->attr.q_lo = neutral.q_lo;
		made->attr.q_hi = neutral.q_hi;
		u->rc = rvl_node_set_in(u->g, made, 0, x, u->err);
	}
	if (!u->rc && w)
		u->rc = rvl_node_set_in(u->g, made, 1, w, u->err);
	if (!u->rc)
		rvl_node_set_out(made, 0, y);
	return u->rc ? NULL : y;
}

/* The weights as the bytes 1 and -1, which take a quarter of the file that floats would, and a
 * Cast. */
static struct rvl_tensor *weights(struct unfold *u, const struct rvl_node *n)
{
	const struct rvl_shape *packed = &n->in[RVL_B_W]->shape;
	const uint64_t *bits = n->in[RVL_B_W]->data;
	int64_t m = packed->dim[0], taps = packed->dim[1] * packed->dim[2], words = packed->dim[3];
	int64_t channels = n->attr.block / n->attr.group;
	struct rvl_shape shape = { .rank = 4,
				   .dim = { m, channels, packed->dim[1], packed->dim[2] } };
	int8_t *w = memory(u, m * channels * taps, sizeof(*w));
	struct rvl_tensor *t;

	for (int64_t i = 0; w && i < m * taps; i++)
		for (int64_t c = 0; c < channels; c++)
			w[(i / taps * channels + c) * taps + i % taps] =
				bits[i * words + c / 64] >> c % 64 & 1 ? 1 : -1;
	t = constant(u, RVL_TYPE_S8, &shape, w);
	return cast(u, t, RVL_TYPE_F32);
}

/* The image with a border of 1 or -1, if the padding counts as that; @n then pads no more. */
static struct rvl_tensor *padded(struct unfold *u, struct rvl_node *n, struct rvl_tensor *x)
{
	int32_t *pad = n->attr.pad;
	const float value = (float)n->attr.count_include_pad;
	const int64_t list[8] = { 0, 0, pad[0], pad[1], 0, 0, pad[2], pad[3] };
	const struct rvl_shape eight = { .rank = 1, .dim = { 8 } };
	struct rvl_shape shape;

	if (u->rc || !n->attr.count_include_pad || !(pad[0] | pad[1] | pad[2] | pad[3]))
		return x;
	if (u->g->opset < PAD_OPSET) {
		u->rc = rvl_fail(u->err, -EOPNOTSUPP,
				 "node \"%s\": the export of a binary layer that is padded by "
				 "%g needs opset %d",
				 n->name, (double)value, PAD_OPSET);
		return NULL;
	}
	shape = x->shape;
	shape.dim[2] += pad[0] + pad[2];
	shape.dim[3] += pad[1] + pad[3];
	memset(pad, 0, sizeof(n->attr.pad));
	return apply(u, "Pad", NULL, RVL_TYPE_F32, &shape,
		     (struct operands){ { x, constant(u, RVL_TYPE_S64, &eight, list),
					  scalar(u, RVL_TYPE_F32, &value) } });
}

/* The shape of the result as an image. */
static struct rvl_shape image_shape(const struct rvl_node *n)
{
	const struct rvl_tensor *y = n->out[0];
	int64_t m = n->in[RVL_B_W]->shape.dim[0];
	bool bits = y->type == RVL_TYPE_U64;

	if (!bits && y->shape.rank == 4)
		return y->shape;
	return (struct rvl_shape){
		.rank = 4,
		.dim = { y->shape.dim[0], m, bits ? y->shape.dim[1] : 1,
			 bits ? y->shape.dim[2] / rvl_b_words(m) : 1 },
	};
}

/* ---- what follows the sums ---- */

/* f32(x * factor + u), in which float64 holds product and sum; @u is float64. */
static struct rvl_tensor *fused(struct unfold *u, struct rvl_tensor *x, struct rvl_tensor *factor,
				struct rvl_tensor *summand)
{
	x = both(u, "Mul", cast(u, x, RVL_TYPE_F64), factor);
	return cast(u, both(u, "Add", x, summand), RVL_TYPE_F32);
}

static float unit_of(const struct rvl_tensor *t)
{
	return t->type == RVL_TYPE_F32 ? 1 : t->quant.scale[0];
}

static struct rvl_tensor *add_shortcut(struct unfold *u, const struct rvl_node *n,
				       struct rvl_tensor *v, float unit)
{
	struct rvl_tensor *r = n->n_in > RVL_B_SHORTCUT ? n->in[RVL_B_SHORTCUT] : NULL;

	if (!r || u->rc)
		return v;
	return fused(u, image(u, steps(u, r)),
		     factors(u, n->in[RVL_B_W]->shape.dim[0],
			     rvl_binary_input(n, RVL_B_SHORTCUT_SCALE), unit_of(r) / unit),
		     cast(u, v, RVL_TYPE_F64));
}

static struct rvl_tensor *prelu(struct unfold *u, const struct rvl_node *n, struct rvl_tensor *v,
				float unit)
{
	const float *p = rvl_binary_input(n, RVL_B_PRELU);
	int64_t m = n->in[RVL_B_W]->shape.dim[0];

	if (!p)
		return v;
	v = both(u, "PRelu", v, by_channel(u, RVL_TYPE_F32, m, p));
	return both(u, "Add", v, quotients(u, RVL_TYPE_F32, m, p + m, unit));
}

static struct rvl_tensor *limited(struct unfold *u, const char *name, struct rvl_tensor *v,
				  int32_t bound)
{
	const float f = (float)bound;

	return both(u, name, v, scalar(u, RVL_TYPE_F32, &f));
}

/* The bounds of the result, where they cut more than its type does. */
static struct rvl_tensor *cut(struct unfold *u, const struct rvl_node *n, struct rvl_tensor *v)
{
	const struct rvl_tensor *y = n->out[0];
	int32_t least = y->type == RVL_TYPE_U8 ? 0 : y->type == RVL_TYPE_S8 ? -128 : -32768;
	int32_t most = y->type == RVL_TYPE_U8 ? 255 : y->type == RVL_TYPE_S8 ? 127 : 32767;

	if (n->attr.q_lo > least)
		v = limited(u, "Max", v, n->attr.q_lo - y->quant.zp[0]);
	if (n->attr.q_hi < most)
		v = limited(u, "Min", v, n->attr.q_hi - y->quant.zp[0]);
	return v;
}

/* The stored integers: @v is in units of their steps already. */
static struct rvl_tensor *stored(struct unfold *u, const struct rvl_node *n, struct rvl_tensor *v)
{
	const struct rvl_tensor *y = n->out[0];
	const float one = 1;
	struct rvl_tensor *q;

	v = cut(u, n, v);
	q = u->rc ? NULL : result(u, y->type, &v->shape);
	if (!u->rc)
		u->rc = rvl_quantise(u->g, v, scalar(u, RVL_TYPE_F32, &one), zero_point(u, y), q,
				     u->err);
	return q;
}

/* The image of the layer, from its sums. */
static struct rvl_tensor *values(struct unfold *u, const struct rvl_node *n,
				 struct rvl_tensor *sums)
{
	int64_t m = n->in[RVL_B_W]->shape.dim[0];
	float unit = unit_of(n->out[0]);
	struct rvl_tensor *v;

	v = fused(u, sums, quotients(u, RVL_TYPE_F64, m, rvl_binary_input(n, RVL_B_SCALE), unit),
		  quotients(u, RVL_TYPE_F64, m, rvl_binary_input(n, RVL_B_BIAS), unit));
	v = add_shortcut(u, n, v, unit);
	v = prelu(u, n, v, unit);
	return n->out[0]->type == RVL_TYPE_F32 ? v : stored(u, n, v);
}

static void unfold_layer(struct unfold *u, struct rvl_node *n)
{
	struct rvl_tensor *x = u->numbers[n->in[RVL_B_X]->id], *y = n->out[0];
	struct rvl_tensor *bits = n->n_out > 1 ? n->out[1] : NULL, *v;
	struct rvl_shape shape = image_shape(n);
	bool only_bits = y->type == RVL_TYPE_U64;

	x = padded(u, n, x);
	v = native(u, RVL_OP_CONV, n, &shape, x, weights(u, n));
	if (!only_bits)
		v = values(u, n, v);
	if (!only_bits && !u->rc && y->shape.rank != 4)
		v = reshape(u, v, &y->shape);
	if (u->rc)
		return;
	if (only_bits) {
		set_numbers(u, y, signs(u, v, n->in[RVL_B_THRESHOLD]));
	} else if (bits) {
		set_numbers(u, bits, signs(u, y, n->in[RVL_B_THRESHOLD]));
	}
	rvl_node_remove(u->g, n);
	if (!only_bits)
		rvl_node_set_out(v->producer, 0, y);
}

static void unfold_pool(struct unfold *u, struct rvl_node *n)
{
	struct rvl_tensor *bits = n->out[0];
	int64_t words = rvl_b_words(n->attr.block);
	const struct rvl_shape shape = { .rank = 4,
					 .dim = { bits->shape.dim[0], n->attr.block,
						  bits->shape.dim[1],
						  bits->shape.dim[2] / words } };

	set_numbers(u, bits, native(u, RVL_OP_MAX_POOL, n, &shape, u->numbers[n->in[0]->id], NULL));
	rvl_node_remove(u->g, n);
}

static void unfold_node(struct unfold *u, struct rvl_node *n)
{
	if (n->op == RVL_OP_B_SIGN)
		unfold_sign(u, n);
	else if (n->op == RVL_OP_B_CONV)
		unfold_layer(u, n);
	else if (n->op == RVL_OP_B_MAX_POOL)
		unfold_pool(u, n);
}

int rvl_binary_unfold(struct rvl_graph *g, struct rvl_err *err)
{
	struct unfold u = { .g = g, .err = err };
	struct rvl_node **list;
	uint32_t n;

	/* As rvl_optimise() does first: bits compare stored integers only where something reads
	 * these. */
	u.rc = rvl_pass_clean(g, err);
	if (u.rc)
		return u.rc;
	u.n_tensors = g->n_tensors;
	u.numbers = calloc(u.n_tensors + 1u, sizeof(*u.numbers));
	u.rc = u.numbers ? rvl_graph_nodes(g, &list, &n, err) :
			   rvl_fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; !u.rc && i < n; i++)
		u.rc = rvl_binary_quantise(g, list[i], err);
	for (uint32_t i = 0; !u.rc && i < n; i++)
		unfold_node(&u, list[i]);
	free(u.numbers);
	return u.rc ? u.rc : rvl_graph_sort(g, err);
}
