/* SPDX-License-Identifier: MIT */
/*
 * Keeps operators between bytes where a consumer is not quantised. Fusion needs a QuantizeLinear as
 * the only reader of an operator's float result. A result with other readers, directly or behind
 * operators that only move or join values, is rewritten:
 *
 *	product -> t -> Q, float consumers	becomes	product -> Q -> DQ -> t -> float consumers
 *	product -> t -> moves of t -> Q, others	becomes	product -> Q' -> DQ -> t -> the same readers
 *	product with a clamp -> t -> floats	becomes	product -> Q' -> DQ -> t -> the same readers
 *	other -> t -> Q, float consumers	becomes	other -> Q and other -> t -> float consumers
 *	other -> t -> moves -> Q, others	becomes	other -> Q' -> DQ -> moves -> Q and other -> t -> the others
 *
 * The parameters of Q' are those of the QuantizeLinear that reads the moved values, so that its
 * bytes stay the same: Q of a value that Q' rounded to the same steps changes nothing. A clamp gives
 * the range of a result of which nothing else is known. Only what float consumers of a product read is
 * rounded, because computing a product twice, once on the CPU, costs more than all else here. Any other
 * operator costs the CPU little beside the DequantizeLinear that a float consumer needs in any case.
 *
 * The range of a QuantizeLinear is taken as that of the value, because the author of the model measured
 * it there. It is not the range of the value if it ends at zero on a side on which the value does not:
 * such a QuantizeLinear is a Relu at the same time, and a float consumer in front of it needs the values
 * that it cuts off. The product is then left in float.
 */
#include "pass/pass.h"
#include "pass/passes.h"
#include "qmath.h"

#include <stdlib.h>

/* Tensors that are looked at to find the parameters of one result. */
#define MAX_LOOKED_AT 64

/* A float result whose operator could compute between bytes. */
struct result {
	struct rvl_graph *g;
	struct rvl_tensor *t;
	struct rvl_node *q;	/* a QuantizeLinear with its parameters, which reads @t or what is moved of it */
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

static bool computes_products(const struct rvl_node *n)
{
	return is_product(n) || n->op == RVL_OP_BATCH_NORM; /* behind a product */
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

/* QuantizeLinear nodes: all (@like is NULL), those with its parameters, or those with others. */
struct wanted {
	const struct rvl_node *like;
	bool equal;
};

static bool is_wanted(const struct rvl_node *q, const struct wanted *w)
{
	return makes_bytes(q) && (!w->like || same_parameters(q, w->like) == w->equal);
}

/* Whether @u only moves the values of @t, or joins them with others. */
static bool passes_on(const struct rvl_node *u, const struct rvl_tensor *t)
{
	return (u->in[0] == t && rvl_op_moves(u)) || rvl_op_joins(u);
}

/* The QuantizeLinear that reads @t, else one that reads values of it which are only moved or joined. */
static struct rvl_node *quantise_of(const struct rvl_tensor *t, const struct wanted *w, int *left)
{
	struct rvl_node *q = NULL;

	for (uint32_t i = 0; i < t->n_users; i++)
		if (t->users[i]->in[0] == t && is_wanted(t->users[i], w))
			return t->users[i];
	for (uint32_t i = 0; i < t->n_users && !q; i++) {
		const struct rvl_node *u = t->users[i];

		for (uint32_t k = 0; passes_on(u, t) && k < u->n_out && !q && (*left)-- > 0; k++)
			q = u->out[k] ? quantise_of(u->out[k], w, left) : NULL;
	}
	return q;
}

static struct rvl_node *first_quantise(const struct rvl_tensor *t, const struct rvl_node *like,
				       bool equal)
{
	const struct wanted w = { like, equal };
	int left = MAX_LOOKED_AT;

	return quantise_of(t, &w, &left);
}

/* Whether there is another reader than QuantizeLinear with the parameters of @like (NULL: with any). */
static bool has_other_readers(const struct rvl_tensor *t, const struct rvl_node *like, int *left)
{
	const struct wanted w = { like, true };

	if (t->is_output)
		return true;
	for (uint32_t i = 0; i < t->n_users; i++) {
		const struct rvl_node *u = t->users[i];

		if (u->in[0] == t && is_wanted(u, &w))
			continue;
		if (!passes_on(u, t))
			return true;
		for (uint32_t k = 0; k < u->n_out; k++)
			if (u->out[k] && ((*left)-- <= 0 || has_other_readers(u->out[k], like, left)))
				return true;
	}
	return false;
}

/* Whether a step on one side of zero is missing on which the clamped product can lie. */
static bool leaves_out(const struct result *r)
{
	const struct rvl_attr *a = &r->t->producer->attr;
	bool u8 = r->q->out[0]->type == RVL_TYPE_U8;
	int32_t zero = rvl_zero_of(r->q);

	return (!(a->f_lo >= 0) && zero == rvl_qmin(u8)) || (!(a->f_hi <= 0) && zero == rvl_qmax(u8));
}

/* ---- nodes ---- */

/* The bytes of @x with the parameters of @like. */
static int add_quantise(struct result *r, struct rvl_tensor *x, const struct rvl_node *like,
			struct rvl_tensor **bytes)
{
	int rc = rvl_tensor_like(r->g, x, bytes, r->err);

	if (rc)
		return rc;
	(*bytes)->type = like->out[0]->type;
	return rvl_quantise(r->g, x, like->in[1], like->n_in > 2 ? like->in[2] : NULL, *bytes, r->err);
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

/* Whether @u is another QuantizeLinear of @r->t with the parameters of @r->q. */
static bool equals_chosen(const struct result *r, const struct rvl_node *u)
{
	return u != r->q && u->in[0] == r->t && makes_bytes(u) && same_parameters(u, r->q);
}

/*
 * QuantizeLinear nodes of @r->t with the parameters of @r->q become it. One whose bytes are an output stays,
 * because an output has its name from its tensor; @r->q becomes one of these, if there are any.
 */
static int merge_equal(struct result *r)
{
	for (uint32_t i = 0; i < r->t->n_users && !r->q->out[0]->is_output; i++)
		if (equals_chosen(r, r->t->users[i]) && r->t->users[i]->out[0]->is_output)
			r->q = r->t->users[i];
	for (uint32_t i = 0; i < r->t->n_users;) {
		struct rvl_node *u = r->t->users[i];
		int rc;

		if (!equals_chosen(r, u) || u->out[0]->is_output) {
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

/* The QuantizeLinear @q, which reads the result itself, gets the operator a second time. */
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

		if (u == r->q || u->in[0] != r->t || !makes_bytes(u) || equals_chosen(r, u)) {
			i++;
			continue;
		}
		rc = part(r, u);
	}
	return rc;
}

/* ---- operators that move or join ---- */

/* All operands of @u that are @from become @to. */
static int redirect(struct result *r, struct rvl_node *u, const struct rvl_tensor *from,
		    struct rvl_tensor *to)
{
	int rc = 0;

	for (uint32_t i = 0; i < u->n_in && !rc; i++)
		if (u->in[i] == from)
			rc = rvl_node_set_in(r->g, u, i, to, r->err);
	return rc;
}

/* A node that computes as @u, on @to where @u reads @from, with results of its own. */
static int copy_mover(struct result *r, const struct rvl_node *u, const struct rvl_tensor *from,
		      struct rvl_tensor *to, struct rvl_node **copy)
{
	int rc = rvl_node_like(r->g, u, NULL, copy, r->err);

	for (uint32_t i = 0; i < u->n_in && !rc; i++)
		if (u->in[i])
			rc = rvl_node_set_in(r->g, *copy, i, u->in[i] == from ? to : u->in[i], r->err);
	for (uint32_t k = 0; k < u->n_out && !rc; k++) {
		struct rvl_tensor *y;

		if (!u->out[k])
			continue;
		rc = rvl_tensor_like(r->g, u->out[k], &y, r->err);
		if (!rc)
			rvl_node_set_out(*copy, k, y);
	}
	return rc;
}

/* Whether a QuantizeLinear with the parameters of @like reads what @u passes on. */
static bool leads_to(const struct rvl_node *u, const struct rvl_node *like)
{
	for (uint32_t k = 0; k < u->n_out; k++)
		if (u->out[k] && first_quantise(u->out[k], like, true))
			return true;
	return false;
}

static bool leads_elsewhere(const struct rvl_node *u, const struct rvl_node *like)
{
	int left = MAX_LOOKED_AT;

	for (uint32_t k = 0; k < u->n_out; k++)
		if (u->out[k] && has_other_readers(u->out[k], like, &left))
			return true;
	return false;
}

/*
 * QuantizeLinear nodes with the parameters of @like that read @from, or what is passed on of it, read
 * @to in its place. An operator between that has other readers, too, is copied for them.
 */
static int redirect_readers(struct result *r, struct rvl_tensor *from, struct rvl_tensor *to,
			    const struct rvl_node *like)
{
	const struct wanted w = { like, true };
	int rc = 0;

	for (uint32_t i = 0; i < from->n_users && !rc;) {
		struct rvl_node *u = from->users[i], *copy;
		bool passes = passes_on(u, from) && leads_to(u, like);

		if (!passes && (u->in[0] != from || !is_wanted(u, &w))) {
			i++;
			continue;
		}
		if (!passes || !leads_elsewhere(u, like)) {
			rc = redirect(r, u, from, to);
			continue;
		}
		rc = copy_mover(r, u, from, to, &copy);
		for (uint32_t k = 0; k < u->n_out && !rc; k++)
			if (u->out[k])
				rc = redirect_readers(r, u->out[k], copy->out[k], like);
		i++;
	}
	return rc;
}

/* QuantizeLinear nodes like @like of what is passed on from @r->t get the operator a second time. */
static int part_moved(struct result *r, struct rvl_node *like)
{
	struct rvl_tensor *y, *bytes, *t;
	int rc = rvl_tensor_like(r->g, r->t, &y, r->err);

	if (!rc)
		rc = copy_operator(r, r->t->producer, y);
	if (!rc)
		rc = add_quantise(r, y, like, &bytes);
	if (!rc)
		rc = rvl_tensor_like(r->g, r->t, &t, r->err);
	if (!rc)
		rc = rvl_dequantise_as(r->g, bytes->producer, bytes, 0, t, r->err);
	return rc ? rc : redirect_readers(r, r->t, t, like);
}

/* The same for all others than @r->q; 1 if too many remain. */
static int part_others_moved(struct result *r)
{
	struct rvl_node *q;
	int rc = 0;

	for (int i = 0; i < MAX_LOOKED_AT && !rc; i++) {
		q = first_quantise(r->t, r->q, false);
		if (!q)
			return 0;
		rc = part_moved(r, q);
	}
	return rc ? rc : 1;
}

/* ---- the forms ---- */

/* The operator computes bytes alone, which float consumers read, too. */
static int round_result(struct result *r)
{
	struct rvl_tensor *raw, *bytes;
	int rc;

	if (rvl_only_user(r->t) == r->q || quantised_alone(r->t))
		return 0;
	rc = split(r, &raw);
	if (rc)
		return rc;
	if (r->q->in[0] == r->t)
		rc = rvl_node_set_in(r->g, r->q, 0, raw, r->err);
	else
		rc = add_quantise(r, raw, r->q, &bytes);
	if (rc)
		return rc;
	bytes = r->q->in[0] == raw ? r->q->out[0] : bytes;
	return rvl_dequantise_as(r->g, bytes->producer, bytes, 0, r->t, r->err);
}

/* The operator computes bytes for @r->q and those like it, and floats for the others. */
static int part_all(struct result *r)
{
	struct rvl_node *like = r->q;
	int rc = like->in[0] == r->t ? part(r, like) : 0;

	return rc || !first_quantise(r->t, like, true) ? rc : part_moved(r, like);
}

/* The range of a product with two bounds, 0 included. */
static bool bounded(const struct rvl_node *n, float *lo, float *hi)
{
	*lo = fminf(n->attr.f_lo, 0);
	*hi = fmaxf(n->attr.f_hi, 0);
	return computes_products(n) && rvl_bounds_below(n->attr.f_lo) &&
	       rvl_bounds_above(n->attr.f_hi) && *hi - *lo >= 0x1p-100f && isfinite(*hi - *lo);
}

/* Bytes of the type of the operand, whose steps cover the clamp. */
static int within_bounds(struct result *r)
{
	static const struct rvl_shape scalar;
	const struct rvl_node *n = r->t->producer;
	struct rvl_tensor *raw, *scale, *zp, *bytes;
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
		rc = rvl_tensor_like(r->g, r->t, &bytes, r->err);
	if (rc)
		return rc;
	bytes->type = type;
	rc = rvl_quantise(r->g, raw, scale, zp, bytes, r->err);
	return rc ? rc : rvl_dequantise_as(r->g, bytes->producer, bytes, 0, r->t, r->err);
}

bool rvl_op_lacks_scale(const struct rvl_node *n)
{
	const struct rvl_tensor *t = n->n_out == 1 ? n->out[0] : NULL;
	const struct rvl_node *next = t ? rvl_only_user(t) : NULL;

	if (!t || t->type != RVL_TYPE_F32 || !computes_products(n) ||
	    (next && next->op == RVL_OP_BATCH_NORM))
		return false;
	return computes_on_bytes(n) && !quantised_alone(t) && !first_quantise(t, NULL, false);
}

static int reconstruct(struct result *r)
{
	const struct rvl_node *n = r->t->producer;
	int left = MAX_LOOKED_AT, rc;
	bool rounds;

	if (r->t->type != RVL_TYPE_F32 || r->t->bounded || (!r->t->n_users && !r->t->is_output) ||
	    !computes_on_bytes(n) || quantised_alone(r->t))
		return 0;
	r->q = first_quantise(r->t, NULL, false);
	if (!r->q)
		return within_bounds(r);
	rounds = computes_products(n) || !has_other_readers(r->t, NULL, &left);
	left = MAX_LOOKED_AT;
	if (computes_products(n) && leaves_out(r) && has_other_readers(r->t, NULL, &left))
		return 0;
	rc = merge_equal(r);
	if (!rc)
		rc = part_others(r);
	if (!rc)
		rc = part_others_moved(r);
	if (rc)
		return rc < 0 ? rc : 0;
	return rounds ? round_result(r) : part_all(r);
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
