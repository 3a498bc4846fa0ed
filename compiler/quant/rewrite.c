/* SPDX-License-Identifier: MIT */
#include "quant/rewrite.h"

#include "base/math.h"
#include "pass/pass.h"
#include "pass/passes.h"
#include "quant/choose.h"
#include "rivulet_op.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_general(const struct rvl_node *n, const char *name)
{
	return n->op == RVL_OP_GENERAL && !n->def->domain && !strcmp(n->def->name, name);
}

static bool is_image(const struct rvl_tensor *t)
{
	return t->type == RVL_TYPE_F32 && t->shaped && !t->bounded && t->shape.rank == 4 &&
	       rvl_shape_count(&t->shape) > 0;
}

static int new_values(struct rvl_graph *g, const struct rvl_shape *s, struct rvl_tensor **out,
		      struct rvl_err *err)
{
	int rc = rvl_tensor_new(g, NULL, out, err);

	if (rc)
		return rc;
	(*out)->type = RVL_TYPE_F32;
	(*out)->shape = *s;
	(*out)->shaped = true;
	return 0;
}

/* A node from @x to @y. @name: of the node that it stands for, or NULL. */
static int new_node(struct rvl_graph *g, const char *name, enum rvl_op op, struct rvl_tensor *x,
		    struct rvl_tensor *y, struct rvl_node **out, struct rvl_err *err)
{
	int rc = rvl_node_new(g, op, name, out, err);

	if (!rc)
		rc = rvl_node_set_in(g, *out, 0, x, err);
	if (rc)
		return rc;
	(*out)->op_type = rvl_op_name(op);
	(*out)->n_out = 1;
	rvl_node_set_out(*out, 0, y);
	return 0;
}

/* A node of the table of descriptors with integer or string attributes at their places. */
static int general_part(struct rvl_graph *g, const struct rvl_op_def *def,
			struct rvl_attr_value *v, struct rvl_tensor *x, struct rvl_tensor *y,
			struct rvl_node **n, struct rvl_err *err)
{
	int rc = rvl_node_general(g, def, v, NULL, n, err);

	if (!rc)
		rc = rvl_node_set_in(g, *n, 0, x, err);
	if (rc)
		return rc;
	(*n)->n_out = 1;
	rvl_node_set_out(*n, 0, y);
	return 0;
}

/* ---- AveragePool ---- */

/* A window of the whole image, which is summed in integers as a GlobalAveragePool. */
static int pool_of_whole(struct rvl_graph *g, struct rvl_node *pool, struct rvl_err *err)
{
	struct rvl_tensor *x = pool->n_in ? pool->in[0] : NULL, *y = pool->n_out ? pool->out[0] : NULL;
	struct rvl_node *n;
	int rc;

	if (pool->op != RVL_OP_AVERAGE_POOL || !is_image(x) || !is_image(y) || !rvl_window_of_image(pool))
		return 0;
	rvl_node_remove(g, pool);
	rc = new_node(g, pool->name, RVL_OP_GLOBAL_AVERAGE_POOL, x, y, &n, err);
	return rc ? rc : 1;
}

#define PAD_OPSET 11
#define MOST_PADDING 255

static int pad_part(struct rvl_graph *g, const int64_t pads[8], struct rvl_tensor *x,
		    struct rvl_tensor *y, struct rvl_err *err)
{
	const struct rvl_op_def *def = rvl_op_find(NULL, "Pad", g->opset > PAD_OPSET ? g->opset : PAD_OPSET);
	struct rvl_attr_value *v = rvl_arena_array(g->arena, RVL_MAX_ATTRS, sizeof(*v));
	const struct rvl_shape eight = { .rank = 1, .dim = { 8 } };
	struct rvl_tensor *list;
	struct rvl_node *n;
	int rc = v ? general_part(g, def, v, x, y, &n, err) :
		     rvl_fail(err, -ENOMEM, "no memory for an operator");

	if (!rc)
		rc = rvl_tensor_const(g, NULL, RVL_TYPE_S64, &eight, pads, &list, err);
	return rc ? rc : rvl_node_set_in(g, n, 1, list, err);
}

/*
 * A window that ends behind the padded image (ceil_mode) is divided by its padded positions in float,
 * but by all its positions on bytes. Behind a Pad of the same zeros the padded positions are those of
 * the image, and without count_include_pad both forms divide by them. @pads: of the Pad, without what
 * no window covers, so that the number of windows stays.
 */
static bool windows_hang(const struct rvl_node *pool, int64_t pads[8])
{
	const struct rvl_attr *a = &pool->attr;
	bool hang = false;

	for (int i = 0; i < 2; i++) {
		int64_t reach = (int64_t)a->dilation[i] * (a->kernel[i] - 1) + 1;
		int64_t end = (pool->out[0]->shape.dim[2 + i] - 1) * a->stride[i] + reach;
		int64_t beyond = end - pool->in[0]->shape.dim[2 + i] - a->pad[i];

		pads[2 + i] = a->pad[i];
		pads[6 + i] = rvl_clamp(beyond, 0, a->pad[2 + i]);
		hang |= beyond > a->pad[2 + i];
	}
	return hang && a->count_include_pad;
}

static int pad_of_pool(struct rvl_graph *g, struct rvl_node *pool, struct rvl_err *err)
{
	struct rvl_tensor *x = pool->n_in ? pool->in[0] : NULL, *wide;
	int64_t pads[8] = { 0 };
	struct rvl_shape s;
	int rc = 0;

	if (pool->op != RVL_OP_AVERAGE_POOL || !is_image(x) || !is_image(pool->out[0]) ||
	    !windows_hang(pool, pads))
		return 0;
	s = x->shape;
	for (int i = 2; i < 4; i++)
		s.dim[i] += pads[i] + pads[4 + i];
	if (!rvl_shape_equal(&s, &x->shape)) {
		rc = new_values(g, &s, &wide, err);
		if (!rc)
			rc = pad_part(g, pads, x, wide, err);
		if (!rc)
			rc = rvl_node_set_in(g, pool, 0, wide, err);
	}
	memset(pool->attr.pad, 0, sizeof(pool->attr.pad));
	pool->attr.count_include_pad = 0;
	return rc ? rc : 1;
}

/* ---- Pad ---- */

static bool pads_zeros(const struct rvl_node *n)
{
	struct rvl_call c;
	float value = 0;

	if (!is_general(n, "Pad") || !is_image(n->in[0]))
		return false;
	rvl_node_call(n, &c);
	if (n->def->since < 11)
		value = rvl_attr_float(&c, "value");
	else if (!rvl_op_pads(n, &value))
		return false;
	return rvl_attr_is(&c, "mode", "constant") && value == 0;
}

/* A Pad of zeros that only a convolution reads is done by the convolution. */
static int pad_of_conv(struct rvl_graph *g, struct rvl_node *pad, struct rvl_err *err)
{
	struct rvl_node *conv = rvl_only_user(pad->out[0]);
	int64_t list[8];
	const int64_t *p = NULL;

	if (pads_zeros(pad) && conv && conv->op == RVL_OP_CONV && conv->in[0] == pad->out[0])
		p = rvl_pixel_pads(pad, list);
	if (!p)
		return 0;
	rvl_add_padding(conv, p);
	rvl_note_fused(g, conv, pad);
	return rvl_node_bypass(g, pad, err);
}

/* ---- ConvTranspose ---- */

/*
 * Row o of the result is row r = (o + pad) % s of row q = (o + pad) / s of a convolution that makes
 * s x s pixels of each position: a sum over t of x[q - taps + 1 + t] w[r + (taps - 1 - t) s].
 */
struct transposed {
	const struct rvl_node *n;
	const struct rvl_tensor *w;
	int64_t stride, group, per_group; /* outputs of a group */
	int64_t taps[2], before[2];	  /* of the convolution, and its padding in front and behind */
	int64_t behind[2], rows[2];	  /* rows: positions of the convolution */
	int64_t first[2];		  /* of the result in what the convolution makes */
};

static int64_t attr_at(const struct rvl_call *c, const char *name, uint32_t i, int64_t other)
{
	uint32_t n;
	const int64_t *v = rvl_attr_ints(c, name, &n);

	return i < n ? v[i] : other;
}

static bool plan_axis(struct transposed *t, const struct rvl_call *c, uint32_t i)
{
	int64_t in = t->n->in[0]->shape.dim[2 + i], out = t->n->out[0]->shape.dim[2 + i];
	int64_t kernel = t->w->shape.dim[2 + i], pad = attr_at(c, "pads", i, 0);

	if (attr_at(c, "dilations", i, 1) != 1 || attr_at(c, "strides", i, 1) != t->stride || pad < 0 ||
	    pad > MOST_PADDING || kernel > MOST_PADDING)
		return false;
	t->taps[i] = (kernel + t->stride - 1) / t->stride;
	if (t->taps[i] * t->stride > 2 * kernel) /* the rest of the weights would be zeros */
		return false;
	t->before[i] = t->taps[i] - 1 - pad / t->stride;
	t->first[i] = pad % t->stride;
	t->behind[i] = (t->first[i] + out + t->stride - 1) / t->stride - in - t->before[i] + t->taps[i] - 1;
	t->behind[i] = t->behind[i] > 0 ? t->behind[i] : 0;
	t->rows[i] = in + t->before[i] + t->behind[i] - t->taps[i] + 1;
	return t->before[i] >= 0 && t->behind[i] <= MOST_PADDING;
}

static bool plan_transposed(struct transposed *t, const struct rvl_node *n)
{
	struct rvl_call c;
	uint32_t given;

	if (!is_general(n, "ConvTranspose") || !is_image(n->in[0]) || !is_image(n->out[0]) ||
	    !n->in[1]->data || (n->n_in > 2 && n->in[2] && !n->in[2]->data))
		return false;
	rvl_node_call(n, &c);
	rvl_attr_ints(&c, "output_shape", &given);
	*t = (struct transposed) { .n = n, .w = n->in[1], .group = rvl_attr_int(&c, "group"),
				   .stride = attr_at(&c, "strides", 0, 1) };
	t->per_group = t->w->shape.dim[1];
	return !given && (rvl_attr_is(&c, "auto_pad", "NOTSET") || rvl_attr_is(&c, "auto_pad", "")) &&
	       t->stride >= 1 && t->stride <= 16 && plan_axis(t, &c, 0) && plan_axis(t, &c, 1);
}

/* The channel that holds pixel (y, x) of the s x s pixels of output @m. */
static int64_t channel_of(const struct transposed *t, int64_t m, int64_t y, int64_t x)
{
	int64_t s = t->stride;

	return t->group > 1 ? (m * s + y) * s + x : (y * s + x) * t->per_group + m;
}

/* The weights of output @m, pixel (@y, @x), into @w. */
static void fill_weights(const struct transposed *t, int64_t m, int64_t y, int64_t x, float *w)
{
	const int64_t *dim = t->w->shape.dim;
	int64_t per_group = dim[0] / t->group, first = m / t->per_group * per_group;
	const float *from = t->w->data;

	for (int64_t c = 0; c < per_group; c++)
		for (int64_t ty = 0; ty < t->taps[0]; ty++)
			for (int64_t tx = 0; tx < t->taps[1]; tx++, w++) {
				int64_t ky = y + (t->taps[0] - 1 - ty) * t->stride;
				int64_t kx = x + (t->taps[1] - 1 - tx) * t->stride;
				int64_t at = (first + c) * t->per_group + m % t->per_group;

				*w = ky < dim[2] && kx < dim[3] ?
				     from[(at * dim[2] + ky) * dim[3] + kx] : 0;
			}
}

static int transposed_weights(struct rvl_graph *g, const struct transposed *t, struct rvl_tensor *in[2],
			      struct rvl_err *err)
{
	const struct rvl_tensor *old = t->n->n_in > 2 ? t->n->in[2] : NULL;
	int64_t outputs = t->group * t->per_group, s = t->stride;
	struct rvl_shape w = { .rank = 4, .dim = { outputs * s * s, t->w->shape.dim[0] / t->group,
						   t->taps[0], t->taps[1] } };
	struct rvl_shape b = { .rank = 1, .dim = { outputs * s * s } };
	int64_t row = w.dim[1] * w.dim[2] * w.dim[3];
	float *v = rvl_arena_array(g->arena, (size_t)(w.dim[0] * row), sizeof(*v));
	float *bias = rvl_arena_array(g->arena, (size_t)w.dim[0], sizeof(*bias));
	int rc;

	if (!v || !bias)
		return rvl_fail(err, -ENOMEM, "no memory for weights");
	for (int64_t i = 0; i < outputs * s * s; i++) {
		int64_t m = i / (s * s), y = i / s % s, x = i % s, at = channel_of(t, m, y, x);

		fill_weights(t, m, y, x, v + at * row);
		bias[at] = old ? ((const float *)old->data)[m] : 0;
	}
	rc = new_values(g, &w, &in[0], err);
	if (!rc)
		rc = new_values(g, &b, &in[1], err);
	if (rc)
		return rc;
	in[0]->data = v;
	in[1]->data = bias;
	return 0;
}

static int conv_part(struct rvl_graph *g, const struct transposed *t, struct rvl_tensor *y,
		     struct rvl_err *err)
{
	struct rvl_tensor *in[2];
	struct rvl_node *conv;
	int rc = transposed_weights(g, t, in, err);

	if (!rc)
		rc = new_node(g, t->n->name, RVL_OP_CONV, t->n->in[0], y, &conv, err);
	for (uint32_t i = 0; i < 2 && !rc; i++)
		rc = rvl_node_set_in(g, conv, 1 + i, in[i], err);
	if (rc)
		return rc;
	conv->attr.group = (int32_t)t->group;
	for (int i = 0; i < 2; i++) {
		conv->attr.kernel[i] = (int32_t)t->taps[i];
		conv->attr.pad[i] = (int32_t)t->before[i];
		conv->attr.pad[2 + i] = (int32_t)t->behind[i];
	}
	return 0;
}

static int space_part(struct rvl_graph *g, const struct transposed *t, const struct rvl_op_def *def,
		      struct rvl_tensor *x, struct rvl_tensor *y, struct rvl_err *err)
{
	struct rvl_attr_value *v = rvl_arena_array(g->arena, RVL_MAX_ATTRS, sizeof(*v));
	struct rvl_node *n;

	if (!v)
		return rvl_fail(err, -ENOMEM, "no memory for an operator");
	for (uint32_t i = 0; i < rvl_op_attrs(def); i++)
		if (!strcmp(def->attrs[i].name, "blocksize"))
			v[i] = (struct rvl_attr_value) { .given = true, .i = t->stride };
		else if (t->group > 1)
			v[i] = (struct rvl_attr_value) { .given = true, .n = 3, .data = "CRD" };
	return general_part(g, def, v, x, y, &n, err);
}

/* The rows and columns of the result in what the convolution made. */
static int cut_part(struct rvl_graph *g, const struct transposed *t, const struct rvl_op_def *def,
		    struct rvl_tensor *x, struct rvl_err *err)
{
	struct rvl_tensor *y = t->n->out[0], *in;
	const struct rvl_shape two = { .rank = 1, .dim = { 2 } };
	const int64_t list[3][2] = { { t->first[0], t->first[1] },
				     { t->first[0] + y->shape.dim[2], t->first[1] + y->shape.dim[3] },
				     { 2, 3 } };
	struct rvl_attr_value *v = rvl_arena_array(g->arena, RVL_MAX_ATTRS, sizeof(*v));
	struct rvl_node *n;
	int rc = v ? general_part(g, def, v, x, y, &n, err) :
		     rvl_fail(err, -ENOMEM, "no memory for an operator");

	for (uint32_t i = 0; i < 3 && !rc; i++) {
		rc = rvl_tensor_const(g, NULL, RVL_TYPE_S64, &two, list[i], &in, err);
		if (!rc)
			rc = rvl_node_set_in(g, n, 1 + i, in, err);
	}
	return rc;
}

#define SLICE_OPSET 10
#define CRD_OPSET 11

static int conv_of_transposed(struct rvl_graph *g, struct rvl_node *old, struct rvl_err *err)
{
	int64_t opset = g->opset > SLICE_OPSET ? g->opset : SLICE_OPSET;
	const struct rvl_op_def *space = rvl_op_of_role(RVL_ROLE_CHANNELS_TO_PIXELS, opset);
	const struct rvl_op_def *slice = rvl_op_of_role(RVL_ROLE_CUT, opset);
	struct rvl_tensor *wide = old->out[0], *deep;
	struct rvl_shape s = old->out[0]->shape;
	struct transposed t;
	bool cut;
	int rc;

	if (!plan_transposed(&t, old) || !space || !slice || (t.group > 1 && opset < CRD_OPSET))
		return 0;
	s.dim[2] = t.rows[0] * t.stride;
	s.dim[3] = t.rows[1] * t.stride;
	cut = !rvl_shape_equal(&s, &wide->shape);
	rc = cut ? new_values(g, &s, &wide, err) : 0;
	s.dim[1] *= t.stride * t.stride;
	s.dim[2] = t.rows[0];
	s.dim[3] = t.rows[1];
	deep = wide;
	if (!rc && t.stride > 1)
		rc = new_values(g, &s, &deep, err);
	if (!rc)
		rc = conv_part(g, &t, deep, err);
	if (!rc && deep != wide)
		rc = space_part(g, &t, space, deep, wide, err);
	if (!rc && cut)
		rc = cut_part(g, &t, slice, wide, err);
	if (rc)
		return rc;
	rvl_node_remove(g, old);
	return 1;
}

int rvl_rewrite(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0;
	int rc;

	while (i < g->n_nodes) {
		rc = rvl_pool_of_mean(g, g->nodes[i], err);
		if (!rc)
			rc = pool_of_whole(g, g->nodes[i], err);
		if (!rc)
			rc = pad_of_pool(g, g->nodes[i], err);
		if (!rc)
			rc = pad_of_conv(g, g->nodes[i], err);
		if (!rc)
			rc = conv_of_transposed(g, g->nodes[i], err);
		if (rc < 0)
			return rc;
		i += !rc;
	}
	return rvl_graph_sort(g, err);
}

/* ---- factors and summands ---- */

/* y = x * factor + summand, by channel. */
struct scale {
	struct rvl_tensor *x;
	float *factor, *summand;
	int64_t channels;
	bool spread; /* they differ by channel */
};

/* The factor and the summand of a binary operator whose operand @at is the constant @v. */
static bool coefficients(const struct rvl_node *n, uint32_t at, float v, float *factor, float *summand)
{
	*factor = 1;
	*summand = 0;
	if (n->op == RVL_OP_MUL)
		*factor = v;
	else if (n->op == RVL_OP_ADD)
		*summand = v;
	else if (is_general(n, "Sub"))
		*summand = at ? -v : v;
	else if (at)
		*factor = 1 / v;
	else
		return false;
	if (!at && is_general(n, "Sub"))
		*factor = -1;
	return isfinite(*factor) && isfinite(*summand);
}

static bool scale_of_binary(const struct rvl_node *n, struct scale *s)
{
	uint32_t at = n->in[0] && n->in[0]->data ? 0 : 1;
	const struct rvl_tensor *c = n->in[at];
	struct rvl_call call;
	int32_t axis;

	if (n->n_in != 2 || !c || !c->data || c->type != RVL_TYPE_F32 || !n->in[1 - at])
		return false;
	s->x = n->in[1 - at];
	rvl_node_call(n, &call);
	axis = rvl_constant_axis(&call, 1 - at, at);
	s->spread = axis == 1;
	if (axis != 1 && axis != RVL_AXIS_NONE)
		return false;
	for (int64_t i = 0; i < s->channels; i++)
		if (!coefficients(n, at, ((const float *)c->data)[axis == 1 ? i : 0], &s->factor[i],
				  &s->summand[i]))
			return false;
	return true;
}

static bool scale_of_norm(const struct rvl_node *n, struct scale *s)
{
	const float *v[4];

	s->x = n->in[0];
	s->spread = true;
	for (int i = 0; i < 4; i++) {
		v[i] = rvl_const_vector(n->in[i + 1], s->channels);
		if (!v[i])
			return false;
	}
	for (int64_t i = 0; i < s->channels; i++) {
		s->factor[i] = v[0][i] / sqrtf(v[3][i] + n->attr.epsilon);
		s->summand[i] = v[1][i] - v[2][i] * s->factor[i];
		if (!isfinite(s->factor[i]) || !isfinite(s->summand[i]))
			return false;
	}
	return true;
}

/* The arrays of @s have room for the channels of the node's result. */
static bool scale_of(const struct rvl_node *n, struct scale *s)
{
	bool binary = n->op == RVL_OP_ADD || n->op == RVL_OP_MUL || is_general(n, "Sub") ||
		      is_general(n, "Div");

	if (!(binary ? scale_of_binary(n, s) : n->op == RVL_OP_BATCH_NORM && scale_of_norm(n, s)))
		return false;
	return !s->x->data && rvl_shape_equal(&s->x->shape, &n->out[0]->shape);
}

static int vector(struct rvl_graph *g, const float *v, int64_t n, int32_t rank, struct rvl_tensor **out,
		  struct rvl_err *err)
{
	const struct rvl_shape s = { .rank = rank, .dim = { n, 1, 1, 1 } };

	return rvl_tensor_const(g, NULL, RVL_TYPE_F32, &s, v, out, err);
}

static int set_operands(struct rvl_graph *g, struct rvl_node *n, enum rvl_op op, struct rvl_tensor *const *in,
			uint32_t count, struct rvl_err *err)
{
	const float lo = n->attr.f_lo, hi = n->attr.f_hi;
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++)
		rc = rvl_node_set_in(g, n, i, in[i], err);
	n->op = op;
	n->op_type = rvl_op_name(op);
	n->def = NULL;
	n->value = NULL;
	rvl_attr_init(&n->attr);
	n->attr.f_lo = lo;
	n->attr.f_hi = hi;
	return rc;
}

/* What rvl_pass_fold_bn() folds into the convolution in front. */
static int make_norm(struct rvl_graph *g, struct rvl_node *n, const struct scale *s, struct rvl_err *err)
{
	struct rvl_tensor *in[5] = { s->x };
	float *zero = rvl_arena_array(g->arena, (size_t)s->channels, sizeof(*zero));
	float *one = rvl_arena_array(g->arena, (size_t)s->channels, sizeof(*one));
	int rc = zero && one ? 0 : rvl_fail(err, -ENOMEM, "no memory for scales");

	for (int64_t i = 0; i < s->channels && !rc; i++)
		one[i] = 1;
	if (!rc)
		rc = vector(g, s->factor, s->channels, 1, &in[1], err);
	if (!rc)
		rc = vector(g, s->summand, s->channels, 1, &in[2], err);
	if (!rc)
		rc = vector(g, zero, s->channels, 1, &in[3], err);
	if (!rc)
		rc = vector(g, one, s->channels, 1, &in[4], err);
	if (!rc)
		rc = set_operands(g, n, RVL_OP_BATCH_NORM, in, 5, err);
	n->attr.epsilon = 0;
	return rc;
}

static int make_depthwise(struct rvl_graph *g, struct rvl_node *n, const struct scale *s, struct rvl_err *err)
{
	struct rvl_tensor *in[3] = { s->x };
	int rc = vector(g, s->factor, s->channels, 4, &in[1], err);

	if (!rc)
		rc = vector(g, s->summand, s->channels, 1, &in[2], err);
	while (!rc && n->n_in > 3)
		rc = rvl_node_set_in(g, n, n->n_in - 1, NULL, err);
	if (!rc)
		rc = set_operands(g, n, RVL_OP_CONV, in, 3, err);
	n->attr.group = (int32_t)s->channels;
	return rc;
}

static bool folds(const struct rvl_node *n, const struct scale *s)
{
	const struct rvl_node *p = s->x->producer;

	return p && p->op == RVL_OP_CONV && rvl_is_product(p) && rvl_only_user(s->x) == n && rvl_is_unclamped(&p->attr);
}

/* Tensors that come from a product and that a product is computed from, by id. */
struct between {
	bool *after, *before;
};

static bool any(const bool *set, struct rvl_tensor *const *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (t[i] && set[t[i]->id])
			return true;
	return false;
}

static void mark(bool *set, struct rvl_tensor *const *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (t[i])
			set[t[i]->id] = true;
}

static int find_between(const struct rvl_graph *g, struct between *b)
{
	b->after = calloc(g->n_tensors + 1u, sizeof(*b->after));
	b->before = calloc(g->n_tensors + 1u, sizeof(*b->before));
	if (!b->after || !b->before)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct rvl_node *n = g->nodes[i];

		if (rvl_is_product(n) || any(b->after, n->in, n->n_in))
			mark(b->after, n->out, n->n_out);
	}
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		const struct rvl_node *n = g->nodes[i];

		if (rvl_is_product(n) || any(b->before, n->out, n->n_out))
			mark(b->before, n->in, n->n_in);
	}
	return 0;
}

/* 1: a BatchNormalization is to be folded; 0; or a negative errno. */
static int rewrite_scale(struct rvl_graph *g, struct rvl_node *n, const struct between *b,
			 struct rvl_err *err)
{
	const struct rvl_tensor *y = n->n_out == 1 ? n->out[0] : NULL;
	const struct rvl_node *p = n->n_in && n->in[0] ? n->in[0]->producer : NULL;
	bool binary = n->op == RVL_OP_ADD || n->op == RVL_OP_MUL || n->op == RVL_OP_GENERAL;
	struct scale s = { .channels = y && is_image(y) ? y->shape.dim[1] : 0 };
	int rc = 0;

	if (!s.channels || (!binary && n->op != RVL_OP_BATCH_NORM) || (p && p->op == RVL_OP_BATCH_NORM))
		return 0;
	s.factor = calloc((size_t)s.channels, 2 * sizeof(*s.factor));
	if (!s.factor)
		return rvl_fail(err, -ENOMEM, "no memory for scales");
	s.summand = s.factor + s.channels;
	if (scale_of(n, &s)) {
		if (folds(n, &s) && binary)
			rc = make_norm(g, n, &s, err) ? -ENOMEM : 1;
		else if (s.spread && !folds(n, &s) && b->after[s.x->id] && b->before[y->id])
			rc = make_depthwise(g, n, &s, err);
	}
	free(s.factor);
	return rc;
}

#define ROUNDS 64 /* scales one behind the other */

int rvl_rewrite_scales(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = 0, more = 1;

	for (int round = 0; round < ROUNDS && more && !rc; round++) {
		struct between b = { NULL };

		more = 0;
		rc = find_between(g, &b) ? rvl_fail(err, -ENOMEM, "no memory for scales") : 0;
		for (uint32_t i = 0; i < g->n_nodes && rc >= 0; i++) {
			rc = rewrite_scale(g, g->nodes[i], &b, err);
			more |= rc > 0;
		}
		free(b.after);
		free(b.before);
		rc = rc > 0 ? 0 : rc;
		if (!rc && more)
			rc = rvl_pass_fold_bn(g, err);
	}
	return rc;
}
