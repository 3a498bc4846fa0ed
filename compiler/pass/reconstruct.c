/* SPDX-License-Identifier: MIT */
/*
 * Keeps operators between bytes where a consumer is not quantised. Fusion needs a QuantizeLinear as
 * the only reader of an operator's float result. This pass inserts a pair of QuantizeLinear and
 * DequantizeLinear behind a result that has other readers:
 *
 *	op -> t -> Q, float consumers		becomes	op -> Q -> DQ -> t -> float consumers
 *	function -> t -> Q, float consumers	becomes	function -> Q and function -> t -> float consumers
 *	op -> t -> moves of t -> Q and others	becomes	op -> Q' -> DQ -> t -> the same readers
 *	op with a clamp -> t -> float consumers	becomes	op -> Q' -> DQ -> t -> the same readers
 *
 * The parameters of Q' are those of the QuantizeLinear that reads the moved values, so that its
 * bytes stay the same: Q of a value that Q' rounded to the same steps changes nothing. A clamp gives
 * the range of a result of which nothing else is known. Only what float consumers read is rounded.
 *
 * The range of a QuantizeLinear is taken as that of the value, because the author of the model measured
 * it there. It is not the range of the value if it ends at zero on a side on which the value does not:
 * such a QuantizeLinear is a Relu at the same time, and a float consumer in front of it needs the values
 * that it cuts off. The operator is then left in float.
 */
#include "pass/pass.h"
#include "pass/passes.h"
#include "qmath.h"

#include <stdlib.h>

/* Tensors that are looked at to find the parameters of one result. */
#define MAX_LOOKED_AT 64

#define STEPS 256 /* of a byte */

/* A float result whose operator could compute between bytes. */
struct result {
	struct rvl_graph *g;
	struct rvl_tensor *t;
	struct rvl_node *q;	/* a QuantizeLinear with its parameters, which reads @t or its moved values */
	struct rvl_err *err;
};

static bool is_dequantised(const struct rvl_tensor *t)
{
	return t && t->producer && t->producer->op == RVL_OP_DEQUANTIZE;
}

/* ---- which results ---- */

static bool is_product(const struct rvl_node *n)
{
	return n->op == RVL_OP_CONV || n->op == RVL_OP_GEMM || n->op == RVL_OP_MATMUL;
}

/* Whether operands are bytes, or constants of the function that an element-wise operator is. */
static bool operands_are_bytes(const struct rvl_node *n)
{
	bool any = false;

	for (uint32_t i = 0; i < n->n_in; i++) {
		if (is_dequantised(n->in[i]))
			any = true;
		else if (n->in[i] && (!n->in[i]->data || (is_product(n) && i < 2)))
			return false;
	}
	return any && is_dequantised(n->in[0]);
}

/*
 * Whether the NPU combines the shapes of a sum or a product: equal ones, or that of the result and one
 * value for all or for each channel. On the CPU bytes gain nothing, and a float consumer loses precision.
 */
static bool combines(const struct rvl_node *n)
{
	const struct rvl_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape, *y = &n->out[0]->shape;
	const struct rvl_shape *s = rvl_shape_equal(a, y) ? b : a;
	int64_t count = rvl_shape_count(s);

	if (rvl_shape_equal(a, b) || n->in[0]->data || n->in[1]->data)
		return true;
	if (!rvl_shape_equal(s == a ? b : a, y) || y->rank != 4)
		return false;
	return count == 1 || (count == y->dim[1] && s->rank >= 3 && s->dim[s->rank - 3] == count);
}

/* Whether fusion replaces the operator where a QuantizeLinear reads its result. */
static bool computes_on_bytes(const struct rvl_node *n)
{
	switch (n->op) {
	case RVL_OP_CONV:
	case RVL_OP_GEMM:
	case RVL_OP_MATMUL:
	case RVL_OP_RELU:
	case RVL_OP_CLIP:
	case RVL_OP_AVERAGE_POOL:
	case RVL_OP_GLOBAL_AVERAGE_POOL:
		return operands_are_bytes(n);
	case RVL_OP_ADD:
	case RVL_OP_MUL:
		return operands_are_bytes(n) && combines(n);
	case RVL_OP_BATCH_NORM:
		return n->in[0]->producer && is_product(n->in[0]->producer) &&
		       rvl_only_user(n->in[0]) == n && computes_on_bytes(n->in[0]->producer);
	case RVL_OP_GENERAL:
		return rvl_op_maps_floats(n) && operands_are_bytes(n);
	default:
		return false;
	}
}

/* ---- their parameters ---- */

static bool makes_bytes(const struct rvl_node *q)
{
	return q->op == RVL_OP_QUANTIZE && rvl_scale_is_constant(q) &&
	       (q->out[0]->type == RVL_TYPE_U8 || q->out[0]->type == RVL_TYPE_S8);
}

static bool same_parameters(const struct rvl_node *a, const struct rvl_node *b)
{
	return a->out[0]->type == b->out[0]->type && rvl_scale_of(a) == rvl_scale_of(b) &&
	       rvl_zero_of(a) == rvl_zero_of(b);
}

/* Whether commuting moves the QuantizeLinear behind moving operators to the result by itself. */
static bool quantised_alone(const struct rvl_tensor *t)
{
	const struct rvl_node *n = rvl_only_user(t);

	while (n && n->op != RVL_OP_QUANTIZE && rvl_op_moves(n) && n->n_out == 1)
		n = rvl_only_user(n->out[0]);
	return n && makes_bytes(n);
}

/* The QuantizeLinear that reads @t, else one that reads values of it which are only moved. */
static struct rvl_node *quantise_of(const struct rvl_tensor *t, int *left)
{
	struct rvl_node *q = NULL;

	for (uint32_t i = 0; i < t->n_users; i++)
		if (t->users[i]->in[0] == t && makes_bytes(t->users[i]))
			return t->users[i];
	for (uint32_t i = 0; i < t->n_users && !q; i++) {
		const struct rvl_node *u = t->users[i];
		bool moved = u->in[0] == t && rvl_op_moves(u);

		if (!moved && !rvl_op_joins(u))
			continue;
		for (uint32_t k = 0; k < u->n_out && !q && (*left)-- > 0; k++)
			q = u->out[k] ? quantise_of(u->out[k], left) : NULL;
	}
	return q;
}

/* ---- their range ---- */

/* On which sides of zero values can lie, and the least and the largest that occur if lo <= hi. */
struct sides {
	bool below, above;
	float lo, hi;
};

static const struct sides any_value = { true, true, INFINITY, -INFINITY };

static struct sides sides_of_steps(bool u8, float scale, int32_t zero)
{
	return (struct sides){ zero > rvl_qmin(u8), zero < rvl_qmax(u8),
			       rvl_dequantize(rvl_qmin(u8), scale, zero),
			       rvl_dequantize(rvl_qmax(u8), scale, zero) };
}

static struct sides sides_of_operand(const struct rvl_tensor *t)
{
	const struct rvl_node *dq = is_dequantised(t) ? t->producer : NULL;

	if (!dq || !rvl_scale_is_constant(dq))
		return any_value;
	return sides_of_steps(dq->in[0]->type == RVL_TYPE_U8, rvl_scale_of(dq), rvl_zero_of(dq));
}

/* A shape like @x for all bytes of the operand; false if constants differ along its only axis, @axis. */
static bool shape_of_steps(const struct rvl_shape *x, int32_t axis, struct rvl_shape *out)
{
	int32_t spare = axis == 0 ? 1 : 0;

	if (spare >= x->rank)
		return false;
	*out = (struct rvl_shape){ .rank = x->rank };
	for (int32_t i = 0; i < x->rank; i++)
		out->dim[i] = i == spare ? STEPS : i == axis ? x->dim[i] : 1;
	return true;
}

/* Runs the kernel on all bytes of the operand, each @inner times in a row. */
static bool run_on_steps(const struct rvl_kernel_desc *d, const struct rvl_node *dq, int64_t inner, float *x,
			 float *y)
{
	struct rvl_value in[RVL_MAX_IN] = { { .type = RVL_TYPE_NONE } };
	struct rvl_value out[RVL_MAX_OUT] = { { .type = RVL_TYPE_NONE } };
	int32_t first = rvl_qmin(dq->in[0]->type == RVL_TYPE_U8);
	struct rvl_kernel *k;
	void *scratch;
	bool ok;

	for (int64_t i = 0; i < rvl_shape_count(&d->in[0].shape); i++)
		x[i] = rvl_dequantize(first + (int32_t)(i / inner % STEPS), rvl_scale_of(dq), rvl_zero_of(dq));
	for (uint32_t i = 0; i < d->n_in; i++)
		in[i] = (struct rvl_value){ .type = d->in[i].type, .shape = d->in[i].shape,
					    .data = i ? (void *)(uintptr_t)d->in[i].data : x };
	out[0] = (struct rvl_value){ .type = d->out[0].type, .shape = d->out[0].shape, .data = y };
	if (rvl_kernel_new(d, true, &k, NULL))
		return false;
	scratch = aligned_alloc(64, (rvl_kernel_scratch(k) / 64 + 1) * 64);
	ok = scratch && !rvl_kernel_run_values(k, in, out, scratch, NULL, NULL);
	free(scratch);
	rvl_kernel_free(k);
	return ok;
}

/* Of an element-wise function of one value: on which sides it leaves zero by more than @least. */
static struct sides sides_of_function(const struct rvl_node *n, int32_t axis, float least)
{
	const struct rvl_node *dq = n->in[0]->producer;
	struct sides sides = any_value;
	struct rvl_kernel_desc d;
	float *x, *y;
	int64_t count;

	rvl_node_desc(n, &d);
	if ((dq->in[0]->type != RVL_TYPE_U8 && dq->in[0]->type != RVL_TYPE_S8) || !rvl_scale_is_constant(dq) ||
	    !shape_of_steps(&n->in[0]->shape, axis, &d.in[0].shape))
		return sides;
	d.out[0].shape = d.in[0].shape;
	count = rvl_shape_count(&d.in[0].shape);
	x = calloc((size_t)count, sizeof(*x));
	y = calloc((size_t)count, sizeof(*y));
	if (x && y && run_on_steps(&d, dq, axis == 0 ? 1 : count / STEPS, x, y)) {
		sides = (struct sides){ false, false, INFINITY, -INFINITY };
		for (int64_t i = 0; i < count; i++) {
			sides.below |= y[i] < -least;
			sides.above |= y[i] > least;
			sides.lo = fminf(sides.lo, y[i]);
			sides.hi = fmaxf(sides.hi, y[i]);
		}
	}
	free(x);
	free(y);
	return sides;
}

static struct sides sides_of_general(const struct rvl_node *n, float least)
{
	int32_t axis;

	if (rvl_op_blends(n))
		return sides_of_operand(n->in[0]);
	return n->def->flags & RVL_OP_ELEMENTWISE && n->in[0]->shape.rank && rvl_op_of_one_value(n, &axis) ?
		       sides_of_function(n, axis, least) : any_value;
}

static struct sides clamp(struct sides a, float lo, float hi)
{
	struct sides c = { (a.below && !(lo >= 0)) || hi < 0, (a.above && !(hi <= 0)) || lo > 0, a.lo, a.hi };

	if (a.lo <= a.hi) {
		c.lo = fminf(fmaxf(a.lo, lo), hi);
		c.hi = fminf(fmaxf(a.hi, lo), hi);
	}
	return c;
}

static struct sides sides_of_clip(const struct rvl_node *n, struct sides a)
{
	float lo = n->attr.f_lo, hi = n->attr.f_hi;

	rvl_const_f32(n->n_in > 1 ? n->in[1] : NULL, &lo);
	rvl_const_f32(n->n_in > 2 ? n->in[2] : NULL, &hi);
	return clamp(a, lo, hi);
}

/*
 * Of operators whose result is a mean, a sum or a product of operands, of those that cut one, and of
 * functions.
 */
static struct sides sides_of_operator(const struct rvl_node *n, float least)
{
	struct sides a = sides_of_operand(n->in[0]), b;

	switch (n->op) {
	case RVL_OP_RELU:
		return clamp(a, 0, INFINITY);
	case RVL_OP_CLIP:
		return sides_of_clip(n, a);
	case RVL_OP_AVERAGE_POOL:
	case RVL_OP_GLOBAL_AVERAGE_POOL:
		return (struct sides){ a.below, a.above, INFINITY, -INFINITY };
	case RVL_OP_GENERAL:
		return sides_of_general(n, least);
	case RVL_OP_ADD:
		b = sides_of_operand(n->in[1]);
		return (struct sides){ a.below || b.below, a.above || b.above, INFINITY, -INFINITY };
	case RVL_OP_MUL:
		b = sides_of_operand(n->in[1]);
		return (struct sides){ (a.below && b.above) || (a.above && b.below),
				       (a.below && b.below) || (a.above && b.above), INFINITY, -INFINITY };
	default:
		return any_value;
	}
}

/*
 * Whether the steps of @r->q leave out a side of zero on which the result can lie, or a value that it has
 * by more than half a step.
 */
static bool leaves_out(const struct result *r)
{
	const struct rvl_node *n = r->t->producer;
	float half = rvl_scale_of(r->q) / 2;
	struct sides q = sides_of_steps(r->q->out[0]->type == RVL_TYPE_U8, rvl_scale_of(r->q),
					rvl_zero_of(r->q));
	struct sides y = sides_of_operator(n, half);

	if (n->op != RVL_OP_CLIP) /* its limits may be operands and are those of the sides already */
		y = clamp(y, n->attr.f_lo, n->attr.f_hi);
	return (y.below && !q.below) || (y.above && !q.above) ||
	       (y.lo <= y.hi && (y.lo < q.lo - half || y.hi > q.hi + half));
}

/* ---- nodes ---- */

static int add_quantise(struct result *r, struct rvl_tensor *x, struct rvl_tensor *scale,
			struct rvl_tensor *zp, enum rvl_type type)
{
	struct rvl_tensor *bytes;
	int rc = rvl_tensor_like(r->g, r->t, &bytes, r->err);

	if (rc)
		return rc;
	bytes->type = type;
	rc = rvl_quantise(r->g, x, scale, zp, bytes, r->err);
	r->q = bytes->producer;
	return rc;
}

/* The operator makes a new tensor, and @r->t comes from the bytes of @r->q. */
static int split(struct result *r, struct rvl_tensor **raw)
{
	struct rvl_node *n = r->t->producer;
	int rc = rvl_tensor_like(r->g, r->t, raw, r->err);

	if (!rc)
		rvl_node_set_out(n, 0, *raw);
	return rc;
}

/* QuantizeLinear nodes of @r->t with the parameters of @r->q become it. */
static int merge_equal(struct result *r)
{
	for (uint32_t i = 0; i < r->t->n_users;) {
		struct rvl_node *u = r->t->users[i];
		int rc;

		if (u == r->q || u->in[0] != r->t || !makes_bytes(u) ||
		    !same_parameters(u, r->q)) {
			i++;
			continue;
		}
		rc = rvl_tensor_replace(r->g, u->out[0], r->q->out[0], r->err);
		if (rc)
			return rc;
		rvl_node_remove(r->g, u);
	}
	return 0;
}

/* The same operator on the same operands, with the result @y. */
static int copy_maker(struct result *r, const struct rvl_node *n, struct rvl_tensor *y)
{
	struct rvl_node *copy;
	int rc = rvl_node_like(r->g, n, NULL, &copy, r->err);

	for (uint32_t i = 0; i < n->n_in && !rc; i++)
		if (n->in[i])
			rc = rvl_node_set_in(r->g, copy, i, n->in[i], r->err);
	if (!rc)
		rvl_node_set_out(copy, 0, y);
	return rc;
}

static int copy_operator(struct result *r, const struct rvl_node *n, struct rvl_tensor *y)
{
	struct rvl_tensor *x;
	int rc;

	if (n->op != RVL_OP_BATCH_NORM)
		return copy_maker(r, n, y);
	rc = copy_maker(r, n, y);
	if (!rc)
		rc = rvl_tensor_like(r->g, n->in[0], &x, r->err);
	if (!rc)
		rc = copy_maker(r, n->in[0]->producer, x);
	return rc ? rc : rvl_node_set_in(r->g, y->producer, 0, x, r->err);
}

/* The QuantizeLinear @q gets the operator a second time. */
static int part(struct result *r, struct rvl_node *q)
{
	struct rvl_tensor *y;
	int rc = rvl_tensor_like(r->g, r->t, &y, r->err);

	if (!rc)
		rc = copy_operator(r, r->t->producer, y);
	return rc ? rc : rvl_node_set_in(r->g, q, 0, y, r->err);
}

/*
 * QuantizeLinear nodes of @r->t with other parameters than @r->q each get the operator a second
 * time: rounding what is rounded already would change their bytes.
 */
static int part_others(struct result *r)
{
	int rc = 0;

	for (uint32_t i = 0; i < r->t->n_users && !rc;) {
		struct rvl_node *u = r->t->users[i];

		if (u == r->q || u->in[0] != r->t || !makes_bytes(u)) {
			i++;
			continue;
		}
		rc = part(r, u);
	}
	return rc;
}

/* ---- the three forms ---- */

/* Whether the CPU computes the operator again with little work beside that of a DequantizeLinear. */
static bool is_function(const struct rvl_node *n)
{
	int32_t axis;

	return n->op == RVL_OP_RELU || n->op == RVL_OP_CLIP ||
	       (n->op == RVL_OP_GENERAL && n->def->flags & RVL_OP_ELEMENTWISE && rvl_op_of_one_value(n, &axis));
}

/* @r->q reads the result itself. */
static int beside_quantise(struct result *r)
{
	struct rvl_tensor *raw;
	int rc = merge_equal(r);

	if (!rc)
		rc = part_others(r);
	if (rc || rvl_only_user(r->t) == r->q)
		return rc;
	if (is_function(r->t->producer))
		return part(r, r->q);
	rc = split(r, &raw);
	if (!rc)
		rc = rvl_node_set_in(r->g, r->q, 0, raw, r->err);
	return rc ? rc : rvl_dequantise_as(r->g, r->q, r->q->out[0], r->q->attr.axis, r->t, r->err);
}

/* @r->q reads what is moved from the result. */
static int before_moves(struct result *r)
{
	const struct rvl_node *like = r->q;
	struct rvl_tensor *raw;
	int rc = split(r, &raw);

	if (!rc)
		rc = add_quantise(r, raw, like->in[1], like->n_in > 2 ? like->in[2] : NULL,
				  like->out[0]->type);
	return rc ? rc : rvl_dequantise_as(r->g, r->q, r->q->out[0], 0, r->t, r->err);
}

/* The range of a product with two bounds, 0 included. */
static bool bounded(const struct rvl_node *n, float *lo, float *hi)
{
	*lo = fminf(n->attr.f_lo, 0);
	*hi = fmaxf(n->attr.f_hi, 0);
	return (is_product(n) || n->op == RVL_OP_BATCH_NORM) && rvl_bounds_below(n->attr.f_lo) &&
	       rvl_bounds_above(n->attr.f_hi) && *hi - *lo >= 0x1p-100f && isfinite(*hi - *lo);
}

/* Bytes of the type of the operand, whose steps cover the clamp. */
static int within_bounds(struct result *r)
{
	static const struct rvl_shape scalar;
	const struct rvl_node *n = r->t->producer;
	struct rvl_tensor *raw, *scale, *zp;
	enum rvl_type type;
	float lo, hi, step;
	uint8_t zero;
	int rc;

	if (!bounded(n, &lo, &hi))
		return 0;
	type = (is_product(n) ? n : n->in[0]->producer)->in[0]->producer->in[0]->type;
	if (type != RVL_TYPE_U8 && type != RVL_TYPE_S8)
		return 0;
	step = (hi - lo) / 255;
	zero = (uint8_t)(rvl_qmin(type == RVL_TYPE_U8) + (int32_t)rintf(-lo / step));
	rc = rvl_tensor_const(r->g, NULL, RVL_TYPE_F32, &scalar, &step, &scale, r->err);
	if (!rc)
		rc = rvl_tensor_const(r->g, NULL, type, &scalar, &zero, &zp, r->err);
	if (!rc)
		rc = split(r, &raw);
	if (!rc)
		rc = add_quantise(r, raw, scale, zp, type);
	return rc ? rc : rvl_dequantise_as(r->g, r->q, r->q->out[0], 0, r->t, r->err);
}

bool rvl_op_lacks_scale(const struct rvl_node *n)
{
	const struct rvl_tensor *t = n->n_out == 1 ? n->out[0] : NULL;
	const struct rvl_node *next = t ? rvl_only_user(t) : NULL;
	int left = MAX_LOOKED_AT;

	if (!t || t->type != RVL_TYPE_F32 || (!is_product(n) && n->op != RVL_OP_BATCH_NORM) ||
	    (next && next->op == RVL_OP_BATCH_NORM))
		return false;
	return computes_on_bytes(n) && !quantised_alone(t) && !quantise_of(t, &left);
}

static int reconstruct(struct result *r)
{
	int left = MAX_LOOKED_AT;
	bool beside;

	if (r->t->type != RVL_TYPE_F32 || r->t->bounded || (!r->t->n_users && !r->t->is_output) ||
	    !computes_on_bytes(r->t->producer) || quantised_alone(r->t))
		return 0;
	r->q = quantise_of(r->t, &left);
	if (!r->q)
		return within_bounds(r);
	beside = r->q->in[0] == r->t;
	if (!(beside && is_function(r->t->producer)) && leaves_out(r))
		return 0;
	return beside ? beside_quantise(r) : before_moves(r);
}

int rvl_pass_reconstruct(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc;

	if (!g->reconstruct)
		return 0;
	rc = rvl_graph_nodes(g, &list, &n, err);
	for (uint32_t i = 0; !rc && i < n; i++) {
		struct result r = { .g = g, .err = err };

		if (list[i]->n_out != 1 || !list[i]->out[0] || list[i]->out[0]->producer != list[i])
			continue;
		r.t = list[i]->out[0];
		rc = reconstruct(&r);
	}
	return rc ? rc : rvl_graph_sort(g, err);
}
