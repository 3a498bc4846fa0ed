/* SPDX-License-Identifier: MIT */
/*
 * Operators behind a BinaryConv that become its parameters: BatchNormalization and other factors and
 * summands by channel, the addition of a shortcut, Relu and PRelu. They are collected in double and
 * rounded once.
 */
#include "pass/binary.h"
#include "pass/pass.h"
#include "pass/passes.h"

#include <errno.h>
#include <string.h>

/* The parameters of a layer while operators are moved into it. One element for each channel. */
struct layer {
	struct rvl_graph *g;
	struct rvl_node *n;
	int64_t m;
	double *scale, *bias, *shortcut, *slope, *after;
	double *f, *h;		/* factor and summand of the operator at hand */
	bool prelu, changed;
	struct rvl_err *err;
};

static struct rvl_tensor *shortcut_of(const struct layer *l)
{
	return l->n->n_in > RVL_B_SHORTCUT ? l->n->in[RVL_B_SHORTCUT] : NULL;
}

static void load(double *to, const float *from, int64_t n, double other)
{
	for (int64_t i = 0; i < n; i++)
		to[i] = from ? (double)from[i] : other;
}

static int layer_new(struct rvl_graph *g, struct rvl_node *n, struct layer *l, struct rvl_err *err)
{
	const float *prelu = rvl_binary_input(n, RVL_B_PRELU);
	int64_t m = n->in[RVL_B_W]->shape.dim[0];
	double *v = rvl_arena_array(g->arena, (size_t)m * 7, sizeof(*v));

	*l = (struct layer) { .g = g, .n = n, .m = m, .prelu = prelu, .err = err };
	if (!v)
		return rvl_fail(err, -ENOMEM, "no memory for a binary layer");
	l->scale = v;
	l->bias = v + m;
	l->shortcut = v + 2 * m;
	l->slope = v + 3 * m;
	l->after = v + 4 * m;
	l->f = v + 5 * m;
	l->h = v + 6 * m;
	load(l->scale, rvl_binary_input(n, RVL_B_SCALE), m, 0);
	load(l->bias, rvl_binary_input(n, RVL_B_BIAS), m, 0);
	load(l->shortcut, rvl_binary_input(n, RVL_B_SHORTCUT_SCALE), m, 1);
	load(l->slope, prelu, m, 1);
	load(l->after, prelu ? prelu + m : NULL, m, 0);
	return 0;
}

/* ---- result * f + h ---- */

static bool all_positive(const double *v, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (!(v[i] > 0))
			return false;
	return true;
}

/* Whether the kernel takes it as a parameter. */
static bool is_parameter(double v)
{
	return fabs(v) < (double)RVL_B_MOST_PARAMETER;
}

static bool fits(const struct layer *l)
{
	for (int64_t m = 0; m < l->m; m++)
		if (!is_parameter(l->scale[m] * l->f[m]) ||
		    !is_parameter(l->bias[m] * l->f[m] + (l->prelu ? 0 : l->h[m])) ||
		    !is_parameter(l->after[m] * l->f[m] + (l->prelu ? l->h[m] : 0)) ||
		    (shortcut_of(l) && !is_parameter(l->shortcut[m] * l->f[m])))
			return false;
	return true;
}

/* Behind a PRelu only factors above 0 move in front of it. */
static bool apply(struct layer *l)
{
	if ((l->prelu && !all_positive(l->f, l->m)) || !fits(l))
		return false;
	for (int64_t m = 0; m < l->m; m++) {
		l->scale[m] *= l->f[m];
		l->bias[m] = l->bias[m] * l->f[m] + (l->prelu ? 0 : l->h[m]);
		l->shortcut[m] *= l->f[m];
		l->after[m] = l->after[m] * l->f[m] + (l->prelu ? l->h[m] : 0);
	}
	return true;
}

static bool fold_bn(struct layer *l, const struct rvl_node *n)
{
	const float *v[4];

	for (int i = 0; i < 4; i++) {
		v[i] = rvl_const_vector(n->in[i + 1], l->m);
		if (!v[i])
			return false;
	}
	for (int64_t m = 0; m < l->m; m++) {
		l->f[m] = (double)v[0][m] / sqrt((double)v[3][m] + (double)n->attr.epsilon);
		l->h[m] = (double)v[1][m] - (double)v[2][m] * l->f[m];
		if (!isfinite(l->f[m]) || !isfinite(l->h[m]))
			return false;
	}
	return apply(l);
}

/* Add, Mul, Sub or Div of one constant. */
static bool fold_constant(struct layer *l, const struct rvl_node *n)
{
	int at = rvl_constant_operand(n);
	bool sub = rvl_is_general(n, "Sub"), div = rvl_is_general(n, "Div");
	int64_t step;
	const float *c;

	if (at < 0 || (div && !at))
		return false;
	c = rvl_channel_constant(n->in[at], &n->out[0]->shape, &step);
	for (int64_t m = 0; m < l->m; m++) {
		double v = (double)c[m * step];

		if (!isfinite(v) || (div && v == 0))
			return false;
		l->f[m] = n->op == RVL_OP_MUL ? v : div ? 1 / v : sub && !at ? -1 : 1;
		l->h[m] = n->op == RVL_OP_ADD || (sub && !at) ? v : sub ? -v : 0;
	}
	return apply(l);
}

/* ---- other operators ---- */

static bool sums_only(const struct layer *l)
{
	for (int64_t m = 0; m < l->m; m++)
		if (l->bias[m] != 0 || !(l->scale[m] >= 0))
			return false;
	return !shortcut_of(l) && !l->prelu;
}

static bool fold_relu(struct layer *l)
{
	if (l->prelu)
		return false;
	if (sums_only(l)) {
		l->n->attr.f_lo = 0;
		return true;
	}
	load(l->slope, NULL, l->m, 0);
	l->prelu = true;
	return true;
}

static bool fold_prelu(struct layer *l, const struct rvl_node *n)
{
	int64_t step;
	const float *c = n->n_in > 1 ? rvl_channel_constant(n->in[1], &n->out[0]->shape, &step) : NULL;

	if (l->prelu || !c || n->in[0] != l->n->out[0])
		return false;
	for (int64_t m = 0; m < l->m; m++) {
		if (!is_parameter((double)c[m * step]))
			return false;
		l->slope[m] = (double)c[m * step];
	}
	l->prelu = true;
	return true;
}

static bool fold_leaky(struct layer *l, const struct rvl_node *n)
{
	struct rvl_call c = { .def = n->def, .attr = n->value };
	double alpha = (double)rvl_attr_float(&c, "alpha");

	if (l->prelu || !is_parameter(alpha))
		return false;
	load(l->slope, NULL, l->m, alpha);
	l->prelu = true;
	return true;
}

/*
 * The factor of each channel by which @t is the product of another value, which alone @t is made for, as the
 * shortcut's; that value, or @t.
 */
static struct rvl_tensor *scaled_by(struct layer *l, struct rvl_tensor *t)
{
	const struct rvl_node *mul = t->producer;
	int at = mul && mul->op == RVL_OP_MUL && rvl_only_user(t) ? rvl_constant_operand(mul) : -1;
	int64_t step;
	const float *c;

	load(l->shortcut, NULL, l->m, 1);
	if (at < 0)
		return t;
	c = rvl_channel_constant(mul->in[at], &t->shape, &step);
	for (int64_t m = 0; m < l->m; m++)
		if (!is_parameter((double)c[m * step]))
			return t;
	for (int64_t m = 0; m < l->m; m++)
		l->shortcut[m] = (double)c[m * step];
	return mul->in[1 - at];
}

/* 1: the other operand, or what it is a multiple of, is the shortcut. */
static int fold_shortcut(struct layer *l, const struct rvl_node *n)
{
	struct rvl_tensor *y = l->n->out[0], *other = n->in[0] == y ? n->in[1] : n->in[0];
	int rc;

	if (l->prelu || shortcut_of(l) || other->data || other->type != RVL_TYPE_F32 ||
	    !other->shaped || other->bounded || !rvl_shape_equal(&other->shape, &y->shape) ||
	    !rvl_shape_equal(&n->out[0]->shape, &y->shape))
		return 0;
	rc = rvl_node_set_in(l->g, l->n, RVL_B_SHORTCUT, scaled_by(l, other), l->err);
	return rc ? rc : 1;
}

static int fold_one(struct layer *l, const struct rvl_node *n)
{
	switch (n->op) {
	case RVL_OP_BATCH_NORM:
		return fold_bn(l, n);
	case RVL_OP_RELU:
		return fold_relu(l);
	case RVL_OP_ADD:
		return fold_constant(l, n) ? 1 : rvl_constant_operand(n) < 0 ? fold_shortcut(l, n) : 0;
	case RVL_OP_MUL:
		return fold_constant(l, n);
	case RVL_OP_GENERAL:
		break;
	default:
		return 0;
	}
	if (rvl_is_general(n, "PRelu"))
		return fold_prelu(l, n);
	if (rvl_is_general(n, "LeakyRelu"))
		return fold_leaky(l, n);
	return rvl_is_general(n, "Sub") || rvl_is_general(n, "Div") ? fold_constant(l, n) : 0;
}

/* ---- the result ---- */

static int store(struct layer *l, uint32_t i, const double *v, int64_t rows)
{
	float *f = rvl_arena_array(l->g->arena, (size_t)(l->m * rows), sizeof(*f));

	if (!f)
		return rvl_fail(l->err, -ENOMEM, "no memory for a binary layer");
	for (int64_t k = 0; k < l->m * rows; k++)
		f[k] = (float)v[k];
	return rvl_binary_floats(l->g, l->n, i, f, rows, l->m, l->err);
}

static int store_all(struct layer *l)
{
	bool scaled = rvl_binary_input(l->n, RVL_B_SHORTCUT_SCALE); /* of a fold before, maybe all 1 now */
	int rc = store(l, RVL_B_SCALE, l->scale, 1);

	for (int64_t m = 0; m < l->m; m++)
		scaled |= l->shortcut[m] != 1;
	if (!rc)
		rc = store(l, RVL_B_BIAS, l->bias, 1);
	if (!rc && shortcut_of(l) && scaled)
		rc = store(l, RVL_B_SHORTCUT_SCALE, l->shortcut, 1);
	return rc || !l->prelu ? rc : store(l, RVL_B_PRELU, l->slope, 2);
}

/* The next operator that may move into the layer: the only reader of its result. */
static struct rvl_node *next_of(const struct layer *l)
{
	struct rvl_tensor *y = l->n->out[0];

	return y->type == RVL_TYPE_F32 && l->n->n_out == 1 ? rvl_only_user(y) : NULL;
}

static int fold_layer(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_node *next;
	struct layer l;
	int rc = layer_new(g, n, &l, err);

	while (!rc && (next = next_of(&l))) {
		struct rvl_tensor *y = next->out[0];

		rc = fold_one(&l, next);
		if (rc <= 0)
			break;
		rvl_note_fused(g, n, next);
		rvl_node_remove(g, next);
		rvl_node_set_out(n, 0, y);
		l.changed = true;
		rc = 0;
	}
	return rc || !l.changed ? rc : store_all(&l);
}

int rvl_binary_fold(struct rvl_graph *g, struct rvl_err *err)
{
	bool any = false;
	int rc = 0;

	for (uint32_t i = 0; i < g->n_nodes && !rc; i++) {
		struct rvl_node *n = g->nodes[i];

		if (n->op != RVL_OP_B_CONV || n->out[0]->type != RVL_TYPE_F32)
			continue;
		rc = fold_layer(g, n, err);
		any = true;
	}
	if (!rc && any)
		rc = rvl_graph_sort(g, err);
	return rc || !any ? rc : rvl_pass_clean(g, err);
}
