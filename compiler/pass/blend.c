/* SPDX-License-Identifier: MIT */
/*
 * Linear interpolation of an image between bytes, by a whole factor s along both axes: with an NPU as the
 * target, a transposed depthwise convolution with stride s of the image and copies of its edges, whose
 * kernel is a triangle along each axis. rvl_pass_transposed() makes its phases of it.
 *
 * Row o of the result is at (o + shift) / s - shift of the operand, shift 1/2 or 0, and takes row i by
 * max(0, 1 - distance). With o = i * s + k - pad that is 1 - |2 * k - n + 1| / (2 * s), where the n
 * numbers k that are not 0 begin at 0. All weights are whole multiples of 1 / unit^2.
 */
#include "base/math.h"
#include "pass/pass.h"
#include "pass/passes.h"
#include "rivulet_op.h"

#include <errno.h>
#include <string.h>

#define MOST_FACTOR 4	 /* the largest weight, (2 * s - 1)^2, is an int8 */
#define OPSET 13	 /* whose Pad and ConvTranspose are used, if the model's is older */

struct blend {
	struct rvl_graph *g;
	struct rvl_node *n;
	struct rvl_node *dq;	/* of the operand */
	int64_t factor, taps, pad; /* pad: without the copies of the edge */
	int64_t unit;
	struct rvl_err *err;
};

/* ---- what is rewritten ---- */

static bool has_attr(const struct rvl_node *n, const char *name)
{
	for (uint32_t i = 0; i < rvl_op_attrs(n->def); i++)
		if (!strcmp(n->def->attrs[i].name, name))
			return true;
	return false;
}

/* Factors that the node names are those of its shapes: of all axes, or of those of the pixels. */
static bool factors_agree(const float *f, int64_t n, int64_t factor)
{
	for (int64_t i = 0; i < n; i++)
		if (f[i] != (n == 4 && i < 2 ? 1.0f : (float)factor))
			return false;
	return n == 4 || n == 2;
}

/* Whether positions follow from the shapes alone. */
static bool named_factors_agree(const struct blend *b)
{
	const struct rvl_node *n = b->n;
	uint32_t at = has_attr(n, "coordinate_transformation_mode") ? 2 : 1, count;
	const struct rvl_tensor *f = n->n_in > at ? n->in[at] : NULL;
	struct rvl_call c;

	if (has_attr(n, "scales")) {
		const float *list;

		rvl_node_call(n, &c);
		list = rvl_attr_floats(&c, "scales", &count);
		return factors_agree(list, count, b->factor);
	}
	if (!f || !rvl_shape_count(&f->shape))
		return n->n_in > 3 && n->in[3]; /* sizes, which are those of the result */
	return f->data && f->type == RVL_TYPE_F32 && factors_agree(f->data, rvl_shape_count(&f->shape), b->factor);
}

/* The triangle. */
static bool set_kernel(struct blend *b)
{
	int64_t s = b->factor;
	bool half = false;
	struct rvl_call c;

	rvl_node_call(b->n, &c);
	if (has_attr(b->n, "coordinate_transformation_mode")) {
		half = rvl_attr_is(&c, "coordinate_transformation_mode", "half_pixel") ||
		       rvl_attr_is(&c, "coordinate_transformation_mode", "pytorch_half_pixel");
		if (!half && !rvl_attr_is(&c, "coordinate_transformation_mode", "asymmetric"))
			return false;
	}
	if (has_attr(b->n, "antialias") && rvl_attr_int(&c, "antialias"))
		return false;
	b->taps = half && s % 2 == 0 ? 2 * s : 2 * s - 1;
	b->pad = half ? (s - s % 2) / 2 : s - 1;
	b->unit = b->taps % 2 ? s : 2 * s;
	return true;
}

static bool matches(struct blend *b)
{
	const struct rvl_node *n = b->n;
	const struct rvl_tensor *x = n->n_in ? n->in[0] : NULL, *y = n->n_out == 1 ? n->out[0] : NULL;
	const struct rvl_node *q = y ? rvl_only_user(y) : NULL;

	if (!q || q->op != RVL_OP_QUANTIZE || !rvl_scale_is_constant(q) || n->op != RVL_OP_GENERAL ||
	    !(n->def->flags & RVL_OP_BLENDS_IF_LINEAR) || !rvl_op_blends(n) || y->bounded || !x->producer ||
	    x->producer->op != RVL_OP_DEQUANTIZE || !rvl_scale_is_constant(x->producer) || x->shape.rank != 4 ||
	    x->shape.dim[1] % b->g->word || rvl_shape_count(&x->shape) < 1)
		return false;
	b->dq = x->producer;
	b->factor = y->shape.dim[2] / x->shape.dim[2];
	for (int i = 0; i < 4; i++)
		if (y->shape.dim[i] != x->shape.dim[i] * (i < 2 ? 1 : b->factor))
			return false;
	return b->factor >= 2 && b->factor <= MOST_FACTOR && named_factors_agree(b) && set_kernel(b);
}

/* ---- nodes ---- */

/* The operand's bytes with a copy of each edge, dequantised. */
static int add_edges(const struct blend *b, struct rvl_tensor **out)
{
	const struct rvl_op_def *def = rvl_op_of_role(RVL_ROLE_PAD, rvl_max(b->g->opset, OPSET));
	const struct rvl_named_value mode = { "mode", { .given = true, .n = 4, .data = "edge" } };
	static const int64_t pads[8] = { 0, 0, 1, 1, 0, 0, 1, 1 };
	const struct rvl_shape eight = { .rank = 1, .dim = { 8 } };
	struct rvl_tensor *bytes, *list;
	struct rvl_node *n;
	int rc = rvl_tensor_like(b->g, b->dq->in[0], &bytes, b->err);

	if (!rc)
		rc = rvl_tensor_like(b->g, b->n->in[0], out, b->err);
	if (!rc)
		rc = rvl_tensor_const(b->g, NULL, RVL_TYPE_S64, &eight, pads, &list, b->err);
	if (!rc)
		rc = rvl_node_of_role(b->g, def, &mode, 1, bytes, &n, b->err);
	if (!rc)
		rc = rvl_node_set_in(b->g, n, 0, b->dq->in[0], b->err);
	if (!rc)
		rc = rvl_node_set_in(b->g, n, 1, list, b->err);
	for (int i = 2; i < 4 && !rc; i++)
		bytes->shape.dim[i] += 2;
	if (rc)
		return rc;
	(*out)->shape = bytes->shape;
	return rvl_dequantise_as(b->g, b->dq, bytes, 0, *out, b->err);
}

/* Weight @k of the triangle, in units. */
static int64_t weight_at(const struct blend *b, int64_t k)
{
	int64_t away = 2 * k - b->taps + 1;

	return (2 * b->factor - (away < 0 ? -away : away)) * b->unit / (2 * b->factor);
}

static int add_weights(const struct blend *b, struct rvl_tensor **out)
{
	int64_t channels = b->n->in[0]->shape.dim[1], area = b->taps * b->taps;
	const struct rvl_shape s = { .rank = 4, .dim = { channels, 1, b->taps, b->taps } };
	static const struct rvl_shape scalar;
	int8_t *w = rvl_arena_alloc(b->g->arena, (size_t)(channels * area)), zero = 0;
	float scale = 1.0f / (float)(b->unit * b->unit);
	struct rvl_tensor *in[3];
	struct rvl_node *dq;
	int rc = w ? 0 : rvl_fail(b->err, -ENOMEM, "no memory for weights");

	for (int64_t i = 0; i < channels * area && !rc; i++)
		w[i] = (int8_t)(weight_at(b, i % area / b->taps) * weight_at(b, i % b->taps));
	if (!rc)
		rc = rvl_tensor_const(b->g, NULL, RVL_TYPE_S8, &s, w, &in[0], b->err);
	if (!rc)
		rc = rvl_tensor_const(b->g, NULL, RVL_TYPE_F32, &scalar, &scale, &in[1], b->err);
	if (!rc)
		rc = rvl_tensor_const(b->g, NULL, RVL_TYPE_S8, &scalar, &zero, &in[2], b->err);
	if (!rc)
		rc = rvl_tensor_like(b->g, in[0], out, b->err);
	if (!rc)
		rc = rvl_node_new(b->g, RVL_OP_DEQUANTIZE, NULL, &dq, b->err);
	for (uint32_t i = 0; i < 3 && !rc; i++)
		rc = rvl_node_set_in(b->g, dq, i, in[i], b->err);
	if (rc)
		return rc;
	(*out)->type = RVL_TYPE_F32;
	(*out)->data = NULL;
	dq->op_type = rvl_op_name(RVL_OP_DEQUANTIZE);
	rvl_node_set_out(dq, 0, *out);
	return 0;
}

static int add_product(const struct blend *b, struct rvl_tensor *x, struct rvl_tensor *w)
{
	const struct rvl_op_def *def = rvl_op_of_role(RVL_ROLE_TRANSPOSED_CONV, rvl_max(b->g->opset, OPSET));
	int64_t *list = rvl_arena_array(b->g->arena, 6, sizeof(*list)), s = b->factor;
	const struct rvl_named_value set[] = {
		{ "strides", { .given = true, .n = 2, .data = list } },
		{ "pads", { .given = true, .n = 4, .data = list + 2 } },
		{ "group", { .given = true, .i = x->shape.dim[1] } },
	};
	struct rvl_node *n;
	int rc;

	if (!list)
		return rvl_fail(b->err, -ENOMEM, "no memory for an operator");
	list[0] = list[1] = s;
	list[2] = list[3] = b->pad + s; /* also what is made of the copies of the edges */
	list[4] = list[5] = b->taps - b->pad;
	rc = rvl_node_of_role(b->g, def, set, 3, b->n->out[0], &n, b->err);
	if (!rc)
		rc = rvl_node_set_in(b->g, n, 0, x, b->err);
	if (!rc)
		rc = rvl_node_set_in(b->g, n, 1, w, b->err);
	if (rc)
		return rc;
	n->name = b->n->name;
	rvl_node_remove(b->g, b->n);
	return 0;
}

static int rewrite(const struct blend *b)
{
	struct rvl_tensor *x, *w;
	int rc = add_edges(b, &x);

	if (!rc)
		rc = add_weights(b, &w);
	return rc ? rc : add_product(b, x, w);
}

int rvl_pass_blend(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc;

	if (!g->word)
		return 0;
	rc = rvl_graph_nodes(g, &list, &n, err);
	for (uint32_t i = 0; !rc && i < n; i++) {
		struct blend b = { .g = g, .n = list[i], .err = err };

		if (matches(&b))
			rc = rewrite(&b);
	}
	return rc ? rc : rvl_graph_sort(g, err);
}
