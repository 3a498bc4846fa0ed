/* SPDX-License-Identifier: MIT */
#include "pass/pass.h"
#include "pass/passes.h"

#include <errno.h>
#include <string.h>

struct bn {
	int64_t channels;
	const float *scale, *bias, *mean, *var;
	float epsilon;
};

static bool bn_params(const struct rvl_node *n, int64_t channels, struct bn *bn)
{
	*bn = (struct bn) {
		.channels = channels, .epsilon = n->attr.epsilon,
		.scale = rvl_const_vector(n->in[1], channels),
		.bias = rvl_const_vector(n->in[2], channels),
		.mean = rvl_const_vector(n->in[3], channels),
		.var = rvl_const_vector(n->in[4], channels),
	};
	return bn->scale && bn->bias && bn->mean && bn->var;
}

static float factor(const struct bn *bn, int64_t c)
{
	return bn->scale[c] / sqrtf(bn->var[c] + bn->epsilon);
}

/* Weights [channel][rest] for Conv and transposed Gemm, [rest][channel] for a plain Gemm. */
static int scale_weights(struct rvl_graph *g, struct rvl_node *n, const struct bn *bn,
			 struct rvl_err *err)
{
	const struct rvl_tensor *w = n->in[1];
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
	return rvl_node_set_in(g, n, 1, copy, err);
}

/* (b - mean) * factor + bias, one per channel. A Gemm's C may be a scalar or [1, N]. */
static int new_bias(struct rvl_graph *g, struct rvl_node *n, const struct bn *bn,
		    struct rvl_err *err)
{
	const struct rvl_tensor *b = n->n_in > 2 ? n->in[2] : NULL;
	const struct rvl_shape shape = { .rank = 1, .dim = { bn->channels } };
	float *v = rvl_arena_array(g->arena, (size_t)bn->channels, sizeof(*v));
	bool one = b && rvl_shape_count(&b->shape) == 1;
	struct rvl_tensor *t;
	int rc;

	if (!v)
		return rvl_fail(err, -ENOMEM, "no memory for a bias");
	for (int64_t c = 0; c < bn->channels; c++) {
		float old = b ? ((const float *)b->data)[one ? 0 : c] : 0;

		v[c] = (old - bn->mean[c]) * factor(bn, c) + bn->bias[c];
	}
	rc = rvl_tensor_const(g, NULL, RVL_TYPE_F32, &shape, v, &t, err);
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

static int fold_bn(struct rvl_graph *g, struct rvl_node *bn_node, struct rvl_err *err)
{
	struct rvl_node *n = bn_node->in[0]->producer;
	struct bn bn;
	int64_t channels;
	int rc;

	if (!n || rvl_only_user(n->out[0]) != bn_node)
		return 0;
	channels = foldable_channels(n);
	if (!channels || !bn_params(bn_node, channels, &bn))
		return 0;
	rc = scale_weights(g, n, &bn, err);
	if (!rc)
		rc = new_bias(g, n, &bn, err);
	if (rc)
		return rc;
	n->attr.f_lo = bn_node->attr.f_lo;
	n->attr.f_hi = bn_node->attr.f_hi;
	rvl_note_fused(g, n, bn_node);
	return rvl_node_bypass(g, bn_node, err);
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

int rvl_pass_fold_bn(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0;

	while (i < g->n_nodes) {
		struct rvl_node *n = g->nodes[i];
		int rc = n->op == RVL_OP_BATCH_NORM ? fold_bn(g, n, err) :
			 n->op == RVL_OP_RELU || n->op == RVL_OP_CLIP ? fold_clamp(g, n, err) : 0;

		if (rc < 0)
			return rc;
		i += !rc;
	}
	return 0;
}
