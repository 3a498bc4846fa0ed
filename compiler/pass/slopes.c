/* SPDX-License-Identifier: MIT */
/*
 * PRelu between bytes with a slope for each channel. The NPU has one table for all channels, but a factor
 * for each: that of the requantisation of a convolution. With an NPU as the target
 *
 *	x -> PRelu -> y		becomes	x -> Relu -> p, min(x, 0) -> depthwise convolution -> n, p + n -> y
 *
 * p and n have the scale and the zero point of y, and one of them is zero, so that the sum rounds nothing. If no
 * slope is negative, the clamp of the convolution cuts what is above zero, and min() is left out. The scale of a
 * weight is the slope, or a float so near to it that the results of all bytes are those of PRelu. A node with a
 * channel that has no such float stays.
 */
#include "pass/pass.h"
#include "pass/passes.h"
#include "qmath.h"
#include "rivulet_op.h"

#include <errno.h>

#define TRIES 16 /* floats on each side of a slope */

struct slopes {
	struct rvl_graph *g;
	struct rvl_node *n;
	int64_t channels;
	bool signs;   /* some are negative */
	float *scale; /* of each channel's weight */
	int8_t *weight;
	struct rvl_err *err;
};

/* ---- the weights ---- */

/* What the convolution and the sum make of byte @q. */
static int32_t result_of(const struct slopes *s, int32_t q, int32_t weight, float scale)
{
	const struct rvl_tensor *x = s->n->in[0], *y = s->n->out[0];
	bool u8 = y->type == RVL_TYPE_U8;
	int32_t xz = x->quant.zp[0], yz = y->quant.zp[0], below = s->signs && q > xz ? xz : q, n, p;
	float mult = x->quant.scale[0] * scale;

	mult = mult / y->quant.scale[0];
	n = rvl_requant((below - xz) * weight, mult, yz, rvl_qmin(u8), s->signs ? rvl_qmax(u8) : yz);
	p = rvl_quantize(rvl_dequantize(q, x->quant.scale[0], xz), y->quant.scale[0], yz, yz, rvl_qmax(u8));
	return rvl_clamp(n + p - yz, rvl_qmin(u8), rvl_qmax(u8));
}

static bool is_exact(const struct slopes *s, float slope, int32_t weight, float scale)
{
	const struct rvl_tensor *x = s->n->in[0], *y = s->n->out[0];
	bool u8 = y->type == RVL_TYPE_U8;

	for (int32_t q = rvl_qmin(u8); q <= rvl_qmax(u8); q++) {
		float v = rvl_dequantize(q, x->quant.scale[0], x->quant.zp[0]);

		v = v < 0 ? slope * v : v;
		if (rvl_quantize(v, y->quant.scale[0], y->quant.zp[0], rvl_qmin(u8), rvl_qmax(u8)) !=
		    result_of(s, q, weight, scale))
			return false;
	}
	return true;
}

static bool find_weight(const struct slopes *s, float slope, int8_t *weight, float *scale)
{
	float up = fabsf(slope), down = up;

	*weight = slope > 0 ? 1 : slope < 0 ? -1 : 0;
	if (!*weight)
		up = down = 1;
	for (int i = 0; i <= TRIES; i++) {
		*scale = up;
		if (is_exact(s, slope, *weight, up))
			return true;
		*scale = down;
		if (down > 0 && is_exact(s, slope, *weight, down))
			return true;
		up = nextafterf(up, INFINITY);
		down = nextafterf(down, 0);
	}
	return false;
}

static bool find_weights(struct slopes *s)
{
	const float *slope = s->n->in[1]->data;

	for (int64_t c = 0; c < s->channels; c++)
		s->signs |= slope[c] < 0;
	for (int64_t c = 0; c < s->channels; c++)
		if (!isfinite(slope[c]) || !find_weight(s, slope[c], &s->weight[c], &s->scale[c]))
			return false;
	return true;
}

static bool matches(struct slopes *s)
{
	const struct rvl_node *n = s->n;
	struct rvl_call c;

	if ((n->op != RVL_OP_Q_TABLE && n->op != RVL_OP_Q_GENERAL) || n->def->role != RVL_ROLE_PRELU ||
	    !rvl_is_quant8_tensor(n->in[0]) || !rvl_is_quant8_tensor(n->out[0]) ||
	    n->in[0]->type != n->out[0]->type || n->in[0]->shape.rank < 2 || n->in[0]->shape.rank > 4 ||
	    !rvl_shape_equal(&n->in[0]->shape, &n->out[0]->shape) || !n->in[1]->data ||
	    n->in[1]->type != RVL_TYPE_F32)
		return false;
	rvl_node_call(n, &c);
	if (rvl_constant_axis(&c, 0, 1) != 1)
		return false;
	s->channels = n->in[0]->shape.dim[1];
	if (s->channels > RVL_MOST_SLOPES)
		return false;
	s->scale = rvl_arena_array(s->g->arena, (size_t)s->channels, sizeof(*s->scale));
	s->weight = rvl_arena_array(s->g->arena, (size_t)s->channels, sizeof(*s->weight));
	return s->scale && s->weight && find_weights(s);
}

/* ---- nodes ---- */

static int add_node(const struct slopes *s, enum rvl_op op, struct rvl_tensor *x, struct rvl_tensor *y,
		    struct rvl_node **n)
{
	int rc = rvl_node_new(s->g, op, NULL, n, s->err);

	if (!rc)
		rc = rvl_node_set_in(s->g, *n, 0, x, s->err);
	if (rc)
		return rc;
	(*n)->op_type = rvl_op_name(op);
	rvl_node_set_out(*n, 0, y);
	return 0;
}

/* A tensor like @t with four dimensions. */
static int image_like(const struct slopes *s, const struct rvl_tensor *t, struct rvl_tensor **out)
{
	int rc = rvl_tensor_like(s->g, t, out, s->err);

	if (rc)
		return rc;
	for (int32_t i = t->shape.rank; i < 4; i++)
		(*out)->shape.dim[i] = 1;
	(*out)->shape.rank = 4;
	return 0;
}

static int add_weights(const struct slopes *s, struct rvl_node *conv)
{
	const struct rvl_shape shape = { .rank = 4, .dim = { s->channels, 1, 1, 1 } };
	int32_t *zero = rvl_arena_array(s->g->arena, (size_t)s->channels, sizeof(*zero));
	struct rvl_tensor *w;
	int rc = zero ? rvl_tensor_const(s->g, NULL, RVL_TYPE_S8, &shape, s->weight, &w, s->err) :
			rvl_fail(s->err, -ENOMEM, "no memory for slopes");

	if (!rc)
		rc = rvl_tensor_set_quant(s->g, w, (uint32_t)s->channels, 0, s->scale, zero, s->err);
	return rc ? rc : rvl_node_set_in(s->g, conv, 1, w, s->err);
}

/* What is below zero, times the slopes. */
static int add_below(const struct slopes *s, struct rvl_tensor *x, struct rvl_tensor *y)
{
	struct rvl_tensor *below = x;
	struct rvl_node *cut, *conv;
	int rc = 0;

	if (s->signs) {
		rc = rvl_tensor_like(s->g, x, &below, s->err);
		if (!rc)
			rc = add_node(s, RVL_OP_Q_RESCALE, x, below, &cut);
		if (rc)
			return rc;
		cut->attr.q_hi = x->quant.zp[0];
	}
	rc = add_node(s, RVL_OP_Q_CONV, below, y, &conv);
	if (rc)
		return rc;
	conv->attr.group = (int32_t)s->channels;
	conv->attr.kernel[0] = conv->attr.kernel[1] = 1;
	if (!s->signs)
		conv->attr.q_hi = y->quant.zp[0];
	return add_weights(s, conv);
}

static int rewrite(const struct slopes *s)
{
	struct rvl_tensor *old = s->n->out[0], *from = s->n->in[0], *x = from, *y = old, *above, *below;
	bool image = x->shape.rank == 4;
	struct rvl_node *node;
	int rc = 0;

	rvl_node_remove(s->g, s->n);
	if (!image)
		rc = image_like(s, from, &x);
	if (!rc && !image)
		rc = add_node(s, RVL_OP_RESHAPE, from, x, &node);
	if (!rc)
		rc = image_like(s, old, &above);
	if (!rc)
		rc = image_like(s, old, &below);
	if (!rc && !image)
		rc = image_like(s, old, &y);
	if (!rc)
		rc = add_node(s, RVL_OP_Q_RESCALE, x, above, &node);
	if (rc)
		return rc;
	node->attr.q_lo = old->quant.zp[0];
	rc = add_below(s, x, below);
	if (!rc)
		rc = add_node(s, RVL_OP_Q_ADD, below, y, &node);
	if (!rc)
		rc = rvl_node_set_in(s->g, node, 1, above, s->err);
	if (rc)
		return rc;
	node->name = s->n->name;
	node->fused = s->n->fused;
	return image ? 0 : add_node(s, RVL_OP_RESHAPE, y, old, &node);
}

int rvl_pass_slopes(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc;

	if (!g->word)
		return 0;
	rc = rvl_graph_nodes(g, &list, &n, err);
	for (uint32_t i = 0; !rc && i < n; i++) {
		struct slopes s = { .g = g, .n = list[i], .err = err };

		if (matches(&s))
			rc = rewrite(&s);
	}
	return rc ? rc : rvl_graph_sort(g, err);
}
