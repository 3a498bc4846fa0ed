/* SPDX-License-Identifier: MIT */
/*
 * Operators on lines (N, C, L) between bytes are operators on images (N, C, 1, L): convolutions and pools of
 * one dimension. Fusion and the NPU have only the forms on images.
 *
 *	x -> DQ -> op -> Q -> y		becomes	x -> Reshape -> DQ -> op of images -> Q -> Reshape -> y
 *
 * A mean of all positions is a global pool. Before calibration, the same operators between floats are rewritten:
 *
 *	x -> op -> y			becomes	x -> Reshape -> op of images -> Reshape -> y
 */
#include "base/math.h"
#include "pass/pass.h"
#include "pass/passes.h"
#include "rivulet_op.h"
#include "window.h"

#include <string.h>

#define MOST 65535 /* of an attribute of a window */

struct line {
	struct rvl_graph *g;
	struct rvl_node *n;
	enum rvl_op op;	       /* on images */
	struct rvl_node *clamp; /* Relu behind the operator, or NULL */
	struct rvl_node *q;
	struct rvl_attr attr;
	bool floats;	       /* before calibration: operands and results are floats */
	struct rvl_err *err;
};

static bool is_bytes(const struct rvl_tensor *t)
{
	return t->type == RVL_TYPE_U8 || t->type == RVL_TYPE_S8;
}

static bool is_dequantised(const struct rvl_tensor *t)
{
	const struct rvl_node *dq = t->producer;

	return dq && dq->op == RVL_OP_DEQUANTIZE && is_bytes(dq->in[0]);
}

/* ---- what is rewritten ---- */

/* Whether a QuantizeLinear reads @t, or what operators that only move values make of it. */
static bool is_quantised(const struct rvl_tensor *t)
{
	const struct rvl_node *n = rvl_only_user(t);

	while (n && rvl_op_moves(n) && n->n_out == 1)
		n = rvl_only_user(n->out[0]);
	return n && n->op == RVL_OP_QUANTIZE && is_bytes(n->out[0]);
}

static bool has_attr(const struct rvl_node *n, const char *name)
{
	for (uint32_t i = 0; i < rvl_op_attrs(n->def); i++)
		if (!strcmp(n->def->attrs[i].name, name))
			return true;
	return false;
}

/* The window along the line; that of the other axis is 1. False for what the image form has not. */
static bool window_of(struct line *l)
{
	const struct rvl_node *n = l->n;
	const struct rvl_window_axis *x;
	struct rvl_attr *a = &l->attr;
	struct rvl_window w;
	struct rvl_call c;

	rvl_node_call(n, &c);
	if (rvl_window_read(&c, &n->in[0]->shape, l->op == RVL_OP_CONV ? n->in[1]->shape.dim + 2 : NULL, &w))
		return false;
	x = &w.axis[0];
	if (w.rank != 1 || x->k > MOST || x->stride > MOST || x->dilation > MOST || x->pad[0] < 0 ||
	    x->pad[0] > MOST || x->pad[1] < 0 || x->pad[1] > MOST)
		return false;
	a->kernel[0] = 1;
	a->kernel[1] = (int32_t)x->k;
	a->stride[1] = (int32_t)x->stride;
	a->dilation[1] = (int32_t)x->dilation;
	a->pad[1] = (int32_t)x->pad[0];
	a->pad[3] = (int32_t)x->pad[1];
	if (has_attr(n, "group"))
		a->group = (int32_t)rvl_attr_int(&c, "group");
	a->ceil_mode = (int32_t)rvl_window_flag(&c, "ceil_mode");
	a->count_include_pad = (int32_t)rvl_window_flag(&c, "count_include_pad");
	return true;
}

/* Constant weights, of bytes or of floats. */
static bool has_weights(const struct line *l)
{
	const struct rvl_tensor *w = l->n->n_in > 1 ? l->n->in[1] : NULL;

	if (l->floats)
		return w && w->data && w->type == RVL_TYPE_F32;
	return w && w->producer && w->producer->op == RVL_OP_DEQUANTIZE && w->producer->in[0]->data;
}

/* The operator on images, if @n is one on lines. */
static bool has_image_form(struct line *l)
{
	const struct rvl_node *n = l->n;
	int32_t rank = n->n_in && n->in[0] ? n->in[0]->shape.rank : 0;

	rvl_attr_init(&l->attr);
	l->op = n->op == RVL_OP_GENERAL ? n->def->kernel : n->op;
	switch (l->op) {
	case RVL_OP_AVERAGE_POOL:
		if (n->op != RVL_OP_GENERAL || n->n_out != 1 || (rank != 3 && rank != 5))
			return false;
		if (!rvl_window_of_image(n))
			return rank == 3 && window_of(l);
		l->op = RVL_OP_GLOBAL_AVERAGE_POOL;
		return true;
	case RVL_OP_GLOBAL_AVERAGE_POOL:
	case RVL_OP_GLOBAL_MAX_POOL:
		return rank == 3 || rank == 5;
	case RVL_OP_CONV:
		return rank == 3 && n->op == RVL_OP_GENERAL && has_weights(l) && window_of(l);
	case RVL_OP_MAX_POOL:
		return rank == 3 && n->op == RVL_OP_GENERAL && n->n_out == 1 && window_of(l);
	case RVL_OP_BATCH_NORM: /* so that it is behind a convolution of images */
		l->attr = n->attr;
		return rank == 3 && l->floats && n->op == RVL_OP_BATCH_NORM && n->n_out == 1;
	default:
		return false;
	}
}

static bool matches(struct line *l)
{
	const struct rvl_tensor *x, *y = l->n->n_out ? l->n->out[0] : NULL;
	struct rvl_node *next;

	if (!y || !has_image_form(l) || !y->shaped || y->bounded || rvl_shape_count(&y->shape) < 1)
		return false;
	x = l->n->in[0];
	if (l->floats)
		return x->type == RVL_TYPE_F32 && y->type == RVL_TYPE_F32 && !x->data;
	if (is_bytes(x) && is_bytes(y))
		return true;
	next = rvl_only_user(y);
	l->clamp = next && next->op == RVL_OP_RELU ? next : NULL;
	next = l->clamp ? rvl_only_user(next->out[0]) : next;
	l->q = next && next->op == RVL_OP_QUANTIZE && is_bytes(next->out[0]) ? next : NULL;
	if (!l->q) /* commuting brings the QuantizeLinear behind moves to the operator */
		l->clamp = NULL;
	return (l->q || is_quantised(y)) && is_dequantised(x) && rvl_shape_count(&x->producer->in[1]->shape) == 1;
}

/* ---- nodes ---- */

/* A tensor like @t with one row, and all of its other positions as columns. */
static int image_like(const struct line *l, const struct rvl_tensor *t, struct rvl_tensor **out)
{
	const struct rvl_shape *s = &t->shape;
	struct rvl_shape image = { .rank = 4, .dim = { s->dim[0], s->dim[1], 1, 1 } };
	int rc = rvl_tensor_like(l->g, t, out, l->err);

	for (int32_t i = 2; i < s->rank; i++)
		image.dim[3] *= s->dim[i];
	if (!rc)
		(*out)->shape = image;
	return rc;
}

/* The operand as an image. */
static int take_image(const struct line *l, struct rvl_tensor *x, struct rvl_tensor **out)
{
	struct rvl_node *dq = is_dequantised(x) ? x->producer : NULL;
	const void *data = dq ? dq->in[0]->data : x->data;
	struct rvl_tensor *bytes;
	int rc = image_like(l, dq ? dq->in[0] : x, &bytes);

	if (rc)
		return rc;
	if (data) /* weights */
		bytes->data = data;
	else
		rc = rvl_add_reshape(l->g, dq ? dq->in[0] : x, bytes, l->err);
	*out = bytes;
	if (!dq || rc)
		return rc;
	rc = image_like(l, x, out);
	return rc ? rc : rvl_dequantise_as(l->g, dq, bytes, dq->attr.axis, *out, l->err);
}

static int add_operator(const struct line *l, struct rvl_tensor *x, struct rvl_tensor *y)
{
	struct rvl_tensor *w;
	struct rvl_node *n;
	int rc = rvl_node_new(l->g, l->op, l->n->name, &n, l->err);

	if (!rc)
		rc = rvl_node_set_in(l->g, n, 0, x, l->err);
	if (!rc && l->op == RVL_OP_CONV) {
		rc = take_image(l, l->n->in[1], &w);
		if (!rc)
			rc = rvl_node_set_in(l->g, n, 1, w, l->err);
	}
	for (uint32_t i = l->op == RVL_OP_CONV ? 2 : 1; i < l->n->n_in && !rc; i++)
		if (l->n->in[i])
			rc = rvl_node_set_in(l->g, n, i, l->n->in[i], l->err);
	if (rc)
		return rc;
	n->op_type = rvl_op_name(l->op);
	n->attr = l->attr;
	if (l->op == RVL_OP_CONV && l->clamp)
		n->attr.f_lo = 0;
	rvl_node_set_out(n, 0, y);
	return 0;
}

/* The Relu of a pool is one of its own. */
static int add_clamp(const struct line *l, struct rvl_tensor *x, struct rvl_tensor **y)
{
	struct rvl_node *n;
	int rc;

	*y = x;
	if (!l->clamp || l->op == RVL_OP_CONV)
		return 0;
	rc = rvl_tensor_like(l->g, x, y, l->err);
	if (!rc)
		rc = rvl_node_new(l->g, RVL_OP_RELU, l->clamp->name, &n, l->err);
	if (!rc)
		rc = rvl_node_set_in(l->g, n, 0, x, l->err);
	if (rc)
		return rc;
	n->op_type = rvl_op_name(RVL_OP_RELU);
	rvl_node_set_out(n, 0, *y);
	return 0;
}

static int rewrite(const struct line *l)
{
	struct rvl_tensor *old = l->q ? l->q->out[0] : l->n->out[0], *x, *y, *last, *bytes;
	int rc = take_image(l, l->n->in[0], &x);

	if (!rc)
		rc = image_like(l, l->n->out[0], &y);
	if (!rc)
		rc = add_operator(l, x, y);
	if (!rc)
		rc = add_clamp(l, y, &last);
	bytes = last;
	if (!rc && l->q)
		rc = image_like(l, old, &bytes);
	if (!rc && l->q)
		rc = rvl_quantise(l->g, last, l->q->in[1], l->q->n_in > 2 ? l->q->in[2] : NULL, bytes, l->err);
	if (!rc)
		rc = rvl_add_reshape(l->g, bytes, old, l->err);
	if (rc)
		return rc;
	if (l->q)
		rvl_node_remove(l->g, l->q);
	if (l->clamp)
		rvl_node_remove(l->g, l->clamp);
	rvl_node_remove(l->g, l->n);
	return 0;
}

/* ---- means ---- */

/* Whether a mean is that of all positions of each channel. */
static bool averages_positions(const struct rvl_node *n)
{
	const struct rvl_tensor *x = n->n_in ? n->in[0] : NULL;
	struct rvl_call c;
	uint32_t set = 0;
	bool given;

	if (n->op != RVL_OP_GENERAL || n->def->role != RVL_ROLE_MEAN || x->type != RVL_TYPE_F32 || !x->shaped ||
	    x->bounded || n->out[0]->bounded || x->shape.rank < 3 || x->shape.rank > 5 ||
	    rvl_shape_count(&x->shape) < 1)
		return false;
	rvl_node_call(n, &c);
	return !rvl_axes(&c, n->def->since < 18 ? "axes" : NULL, 1, x->shape.rank, &set, &given) &&
	       set == (1u << x->shape.rank) - 4;
}

int rvl_pool_of_mean(struct rvl_graph *g, struct rvl_node *mean, struct rvl_err *err)
{
	struct rvl_tensor *x = mean->n_in ? mean->in[0] : NULL, *y = mean->n_out ? mean->out[0] : NULL, *pooled = y;
	struct rvl_node *pool;
	int rc = 0;

	if (!averages_positions(mean))
		return 0;
	if (y->shape.rank != x->shape.rank) {
		rc = rvl_tensor_like(g, x, &pooled, err);
		if (rc)
			return rc;
		for (int32_t i = 2; i < x->shape.rank; i++)
			pooled->shape.dim[i] = 1;
	}
	rvl_node_remove(g, mean);
	rc = rvl_node_new(g, RVL_OP_GLOBAL_AVERAGE_POOL, mean->name, &pool, err);
	if (!rc)
		rc = rvl_node_set_in(g, pool, 0, x, err);
	if (rc)
		return rc;
	pool->op_type = rvl_op_name(RVL_OP_GLOBAL_AVERAGE_POOL);
	rvl_node_set_out(pool, 0, pooled);
	if (pooled != y)
		rc = rvl_add_reshape(g, pooled, y, err);
	return rc ? rc : 1;
}

static bool mean_of_bytes(const struct rvl_node *n)
{
	return n->n_out == 1 && n->n_in && n->in[0] && is_dequantised(n->in[0]) && is_quantised(n->out[0]);
}

/* Rewrites all operators on lines that match. */
static int rewrite_lines(struct rvl_graph *g, bool floats, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc = rvl_graph_nodes(g, &list, &n, err);

	for (uint32_t i = 0; rc >= 0 && i < n; i++) {
		struct line l = { .g = g, .n = list[i], .floats = floats, .err = err };

		if (matches(&l))
			rc = rewrite(&l);
	}
	return rc < 0 ? rc : rvl_graph_sort(g, err);
}

int rvl_lines_of_floats(struct rvl_graph *g, struct rvl_err *err)
{
	return rewrite_lines(g, true, err);
}

int rvl_pass_lines(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc = rvl_graph_nodes(g, &list, &n, err);

	for (uint32_t i = 0; rc >= 0 && i < n; i++)
		if (mean_of_bytes(list[i]))
			rc = rvl_pool_of_mean(g, list[i], err);
	return rc < 0 ? rc : rewrite_lines(g, false, err);
}
