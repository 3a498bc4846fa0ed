/* SPDX-License-Identifier: MIT */
#include "pass/binary.h"
#include "pass/pass.h"
#include "pass/passes.h"

#include <errno.h>
#include <string.h>

/*
 * y = (x - mean) * factor + bias by channel, where factor = scale / sqrt(var + epsilon): a
 * BatchNormalization, or an Add or Mul of a constant. An absent vector leaves its step out.
 */
struct bn {
	int64_t channels;
	int64_t step;		/* of the vectors; 0: one element for all channels */
	const float *scale, *bias, *mean, *var;
	float epsilon;
};

static bool all_finite(const float *v, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(v[i]))
			return false;
	return true;
}

static bool constant_params(const struct rvl_node *n, int64_t channels, struct bn *bn)
{
	int at = rvl_constant_operand(n);
	const float *v;

	*bn = (struct bn) { .channels = channels };
	if (at < 0)
		return false;
	v = rvl_channel_constant(n->in[at], &n->out[0]->shape, &bn->step);
	if (!all_finite(v, bn->step ? channels : 1))
		return false;
	if (n->op == RVL_OP_MUL)
		bn->scale = v;
	else
		bn->bias = v;
	return true;
}

static bool bn_params(const struct rvl_node *n, int64_t channels, struct bn *bn)
{
	if (n->op != RVL_OP_BATCH_NORM)
		return constant_params(n, channels, bn);
	*bn = (struct bn) {
		.channels = channels, .step = 1, .epsilon = n->attr.epsilon,
		.scale = rvl_const_vector(n->in[1], channels),
		.bias = rvl_const_vector(n->in[2], channels),
		.mean = rvl_const_vector(n->in[3], channels),
		.var = rvl_const_vector(n->in[4], channels),
	};
	return bn->scale && bn->bias && bn->mean && bn->var;
}

static float factor(const struct bn *bn, int64_t c)
{
	float f = bn->scale ? bn->scale[c * bn->step] : 1;

	return bn->var ? f / sqrtf(bn->var[c] + bn->epsilon) : f;
}

/* What @v of channel @c becomes. */
static float applied(const struct bn *bn, int64_t c, float v)
{
	v = (v - (bn->mean ? bn->mean[c] : 0)) * factor(bn, c);
	return v + (bn->bias ? bn->bias[c * bn->step] : 0);
}

/* A constant of one float for each channel, which has room for them. */
static int channel_constant(struct rvl_graph *g, int64_t channels, struct rvl_tensor **t, float **v,
			    struct rvl_err *err)
{
	const struct rvl_shape shape = { .rank = 1, .dim = { channels } };
	float *zero = rvl_arena_array(g->arena, (size_t)channels, sizeof(*zero));
	int rc = zero ? rvl_tensor_const(g, NULL, RVL_TYPE_F32, &shape, zero, t, err) :
			rvl_fail(err, -ENOMEM, "no memory for a bias");

	if (!rc)
		*v = (float *)(uintptr_t)(*t)->data;
	return rc;
}

/* Weights [channel][rest] for Conv and transposed Gemm, [rest][channel] for a plain Gemm. */
static int scale_weights(struct rvl_graph *g, struct rvl_node *n, const struct bn *bn,
			 struct rvl_err *err)
{
	struct rvl_tensor *w = n->in[1];
	int64_t count = rvl_shape_count(&w->shape);
	bool inner = n->op == RVL_OP_GEMM && !n->attr.trans_b;
	int64_t rest = count / bn->channels;
	struct rvl_tensor *copy;
	float *v;
	int rc = rvl_tensor_const(g, NULL, RVL_TYPE_F32, &w->shape, w->data, &copy, err);

	if (rc)
		return rc;
	v = (float *)(uintptr_t)copy->data;
	for (int64_t i = 0; i < count; i++)
		v[i] *= factor(bn, inner ? i % bn->channels : i / rest);
	rc = rvl_node_set_in(g, n, 1, copy, err);
	if (!rc)
		rvl_constant_release(g, w);
	return rc;
}

/* One per channel. A Gemm's C may be a scalar or [1, N]. */
static int new_bias(struct rvl_graph *g, struct rvl_node *n, const struct bn *bn,
		    struct rvl_err *err)
{
	const struct rvl_tensor *b = n->n_in > 2 ? n->in[2] : NULL;
	bool one = b && rvl_shape_count(&b->shape) == 1;
	struct rvl_tensor *t;
	float *v;
	int rc = channel_constant(g, bn->channels, &t, &v, err);

	for (int64_t c = 0; c < bn->channels && !rc; c++)
		v[c] = applied(bn, c, b ? ((const float *)b->data)[one ? 0 : c] : 0);
	return rc ? rc : rvl_node_set_in(g, n, 2, t, err);
}

/* Channels of a Conv or Gemm whose weights and bias are constant floats; 0 for any other node. */
static int64_t foldable_channels(const struct rvl_node *n)
{
	const struct rvl_tensor *b = n->n_in > 2 ? n->in[2] : NULL;
	int64_t channels;

	if ((n->op != RVL_OP_CONV && n->op != RVL_OP_GEMM) || !n->in[1]->data ||
	    n->in[1]->type != RVL_TYPE_F32 || !rvl_is_unclamped(&n->attr) ||
	    n->attr.alpha != 1.0f || n->attr.beta != 1.0f)
		return 0;
	channels = n->out[0]->shape.dim[1];
	if (b && (!b->data || (rvl_shape_count(&b->shape) != channels &&
			       rvl_shape_count(&b->shape) != 1)))
		return 0;
	/* A matrix [M, 1] also has M values, but one for each row. */
	if (b && b->shape.rank == 2 && b->shape.dim[1] != channels && channels != 1)
		return 0;
	return channels;
}

/* Multiplies the weights of a Conv or Gemm and makes its bias, where both are constant. */
static int fold_into_product(struct rvl_graph *g, struct rvl_node *n, const struct rvl_node *bn_node,
			     struct rvl_err *err)
{
	int64_t channels = foldable_channels(n);
	struct bn bn;
	int rc = 0;

	if (!channels || !bn_params(bn_node, channels, &bn))
		return 0;
	if (bn.scale)
		rc = scale_weights(g, n, &bn, err);
	if (!rc)
		rc = new_bias(g, n, &bn, err);
	return rc ? rc : 1;
}

/* Changes scale and bias of a BatchNormalization. */
static int fold_into_bn(struct rvl_graph *g, struct rvl_node *n, const struct rvl_node *bn_node,
			struct rvl_err *err)
{
	const struct rvl_shape *s = &n->out[0]->shape;
	int64_t channels = s->rank > 1 ? s->dim[1] : 0;
	struct rvl_tensor *scale, *bias;
	struct bn first, bn;
	float *f, *b;
	int rc;

	if (!channels || !rvl_is_unclamped(&n->attr) || !bn_params(n, channels, &first) ||
	    !bn_params(bn_node, channels, &bn))
		return 0;
	rc = channel_constant(g, channels, &scale, &f, err);
	if (!rc)
		rc = channel_constant(g, channels, &bias, &b, err);
	if (rc)
		return rc;
	for (int64_t c = 0; c < channels; c++) {
		f[c] = first.scale[c] * factor(&bn, c);
		b[c] = applied(&bn, c, first.bias[c]);
	}
	rc = rvl_node_set_in(g, n, 1, scale, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, 2, bias, err);
	return rc ? rc : 1;
}

static int fold_bn(struct rvl_graph *g, struct rvl_node *bn_node, struct rvl_err *err)
{
	int at = bn_node->op == RVL_OP_BATCH_NORM ? 1 : rvl_constant_operand(bn_node);
	struct rvl_node *n = at < 0 ? NULL : bn_node->in[1 - at]->producer;
	int rc;

	if (!n || rvl_only_user(n->out[0]) != bn_node)
		return 0;
	rc = n->op == RVL_OP_BATCH_NORM ? fold_into_bn(g, n, bn_node, err) :
					  fold_into_product(g, n, bn_node, err);
	if (rc <= 0)
		return rc;
	n->attr.f_lo = bn_node->attr.f_lo;
	n->attr.f_hi = bn_node->attr.f_hi;
	rvl_note_fused(g, n, bn_node);
	if (at == 0)
		rc = rvl_node_set_in(g, bn_node, 0, n->out[0], err);
	return rc < 0 ? rc : rvl_node_bypass(g, bn_node, err);
}

static bool takes_clamp(const struct rvl_node *n)
{
	return rvl_op_traits(n->op) & RVL_TRAIT_CLAMPS && n->out[0]->type == RVL_TYPE_F32;
}

/* Bounds of a Relu, or of a Clip whose bounds are constant. */
static bool clamp_bounds(const struct rvl_node *n, float *lo, float *hi)
{
	*lo = n->op == RVL_OP_RELU ? 0 : n->attr.f_lo;
	*hi = n->op == RVL_OP_RELU ? INFINITY : n->attr.f_hi;
	if (n->op != RVL_OP_RELU && n->op != RVL_OP_CLIP)
		return false;
	if (n->n_in > 1 && n->in[1] && !rvl_const_f32(n->in[1], lo))
		return false;
	if (n->n_in > 2 && n->in[2] && !rvl_const_f32(n->in[2], hi))
		return false;
	return !isnan(*lo) && !isnan(*hi) && *lo <= *hi;
}

static float bound(float v, float lo, float hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/*
 * The operator that can apply the clamp: the producer of the clamp's input, or an operator further
 * up if only operators lie between that move or select values, which give the same result.
 */
static struct rvl_node *clamp_target(const struct rvl_node *act)
{
	const struct rvl_node *user = act;
	struct rvl_node *n = act->in[0]->producer;

	while (n && rvl_only_user(n->out[0]) == user) {
		if (takes_clamp(n))
			return n;
		if (!rvl_op_moves(n) || n->n_out != 1)
			return NULL;
		user = n;
		n = n->in[0]->producer;
	}
	return NULL;
}

static int fold_clamp(struct rvl_graph *g, struct rvl_node *act, struct rvl_err *err)
{
	struct rvl_node *n = clamp_target(act);
	float lo, hi;

	if (!n || !clamp_bounds(act, &lo, &hi))
		return 0;
	n->attr.f_lo = bound(n->attr.f_lo, lo, hi);
	n->attr.f_hi = bound(n->attr.f_hi, lo, hi);
	rvl_note_fused(g, n, act);
	return rvl_node_bypass(g, act, err);
}

static bool is_dequantised(const struct rvl_tensor *t)
{
	return t->producer && t->producer->op == RVL_OP_DEQUANTIZE;
}

/*
 * A Sum of two floats is an Add, which has a kernel of its own and takes a clamp. One between bytes
 * stays, because fusion would round its result otherwise.
 */
static void add_of_sum(struct rvl_node *n)
{
	if (!rvl_is_general(n, "Sum") || n->n_in != 2 || !n->in[0] || !n->in[1] ||
	    n->out[0]->type != RVL_TYPE_F32 || is_dequantised(n->in[0]) || is_dequantised(n->in[1]))
		return;
	n->op = RVL_OP_ADD;
	n->op_type = rvl_op_name(RVL_OP_ADD);
	n->def = NULL;
	n->value = NULL;
	rvl_attr_init(&n->attr);
}

int rvl_pass_fold_bn(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0;

	while (i < g->n_nodes) {
		struct rvl_node *n = g->nodes[i];
		bool scales;
		int rc;

		add_of_sum(n);
		scales = n->op == RVL_OP_BATCH_NORM || n->op == RVL_OP_ADD || n->op == RVL_OP_MUL;
		rc = scales ? fold_bn(g, n, err) :
			 n->op == RVL_OP_RELU || n->op == RVL_OP_CLIP ? fold_clamp(g, n, err) : 0;

		if (rc < 0)
			return rc;
		i += !rc;
	}
	return 0;
}
