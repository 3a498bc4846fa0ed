/* SPDX-License-Identifier: MIT */
/*
 * Replaces the patterns of a QDQ graph by quantised operators. A pattern is DequantizeLinear on
 * every operand, the operator with its clamp (Relu and Clip were folded into it before), an
 * optional BatchNormalization, and QuantizeLinear. docs/numerics.md 6 lists which patterns are
 * exact.
 */
#include "pass/binary.h"
#include "pass/fuse.h"
#include "pass/pass.h"
#include "pass/passes.h"
#include "qmath.h"

#include <errno.h>
#include <string.h>

/* One pattern found around an operator. */
struct match {
	struct rvl_graph *g;
	struct rvl_node *n;		/* the operator */
	struct rvl_node *bn;		/* BatchNormalization behind it, or NULL */
	struct rvl_node *q;		/* QuantizeLinear at the end */
	struct rvl_qsource a, b, y;
	float lo, hi;			/* clamp of the float result */
	struct rvl_err *err;
};

/* The integers from which a DequantizeLinear makes a float tensor; false if none makes it. */
static bool from_integers(struct rvl_graph *g, const struct rvl_tensor *t, struct rvl_qsource *s)
{
	const struct rvl_node *dq = t ? t->producer : NULL;

	if (!dq || dq->op != RVL_OP_DEQUANTIZE || dq->in[0]->type == RVL_TYPE_S32)
		return false;
	return rvl_qsource_of(g, dq->in[0], dq->in[1], dq->n_in > 2 ? dq->in[2] : NULL,
			      dq->attr.axis, s) && rvl_quant_fits(s);
}

/* The same of bytes. */
static bool dequantised(struct rvl_graph *g, const struct rvl_tensor *t, struct rvl_qsource *s)
{
	return from_integers(g, t, s) && s->t->type != RVL_TYPE_S16;
}

/*
 * Finds the QuantizeLinear behind the operator, and a BatchNormalization between them if allowed.
 */
static bool find_end(struct match *m, bool bn_allowed)
{
	struct rvl_node *next = rvl_only_user(m->n->out[0]);

	m->lo = m->n->attr.f_lo;
	m->hi = m->n->attr.f_hi;
	if (bn_allowed && next && next->op == RVL_OP_BATCH_NORM &&
	    rvl_is_unclamped(&m->n->attr) && next->in[0] == m->n->out[0]) {
		m->bn = next;
		m->lo = next->attr.f_lo;
		m->hi = next->attr.f_hi;
		next = rvl_only_user(next->out[0]);
	}
	if (!next || next->op != RVL_OP_QUANTIZE)
		return false;
	m->q = next;
	return rvl_qsource_of(m->g, next->out[0], next->in[1], next->in[2], next->attr.axis,
			      &m->y) && m->y.n == 1 && rvl_quant_fits(&m->y);
}

static int32_t bound(const struct match *m, float v)
{
	bool u8 = m->y.t->type == RVL_TYPE_U8;

	return rvl_quantize(v, m->y.scale[0], m->y.zp[0], rvl_qmin(u8), rvl_qmax(u8));
}

/* Replaces the pattern by one node; @b and @bias may be NULL. */
static int build(struct match *m, enum rvl_op op, struct rvl_tensor *b, struct rvl_tensor *bias)
{
	struct rvl_node *n;
	int rc = rvl_node_new(m->g, op, m->n->name, &n, m->err);

	if (rc)
		return rc;
	n->attr = m->n->attr;
	n->op_type = m->n->op_type;
	n->fused = m->n->fused;
	n->note = m->n->note;
	n->attr.f_lo = -INFINITY;
	n->attr.f_hi = INFINITY;
	if (rvl_bounds_below(m->lo))
		n->attr.q_lo = bound(m, m->lo);
	if (rvl_bounds_above(m->hi))
		n->attr.q_hi = bound(m, m->hi);
	if (m->bn)
		rvl_note_fused(m->g, n, m->bn);
	rc = m->a.n ? rvl_quant_adopt(m->g, &m->a, m->err) : 0;
	if (!rc)
		rc = rvl_quant_adopt(m->g, &m->y, m->err);
	if (!rc)
		rc = rvl_node_set_in(m->g, n, 0, m->a.t, m->err);
	if (!rc && b)
		rc = rvl_node_set_in(m->g, n, 1, b, m->err);
	if (!rc && bias)
		rc = rvl_node_set_in(m->g, n, 2, bias, m->err);
	if (rc)
		return rc;
	rvl_node_remove(m->g, m->q);
	rvl_node_set_out(n, 0, m->y.t);
	return 0;
}

/* ---- products: Conv, Gemm, MatMul ---- */

struct product {
	int64_t channels;
	float *ws;			/* weight scale of each channel */
	int32_t *wz;
	double *bias;			/* real bias of each channel */
	bool has_bias;
	bool exact;			/* the bias is int32 with the right scale already */
};

static float alpha_of(const struct match *m)
{
	return m->n->op == RVL_OP_GEMM ? m->n->attr.alpha : 1.0f;
}

/* The scale of the accumulator of channel c: f32(f32(alpha * xs) * ws). */
static float acc_scale(const struct match *m, const struct product *p, int64_t c)
{
	float xs = alpha_of(m) * m->a.scale[0];

	return xs * p->ws[c];
}

static bool spread_scales(struct match *m, struct product *p)
{
	size_t n = (size_t)p->channels;

	p->ws = rvl_arena_array(m->g->arena, n, sizeof(*p->ws));
	p->wz = rvl_arena_array(m->g->arena, n, sizeof(*p->wz));
	p->bias = rvl_arena_array(m->g->arena, n, sizeof(*p->bias));
	if (!p->ws || !p->wz || !p->bias)
		return false;
	for (int64_t c = 0; c < p->channels; c++) {
		p->ws[c] = m->b.scale[m->b.n > 1 ? c : 0];
		p->wz[c] = m->b.zp[m->b.n > 1 ? c : 0];
	}
	return true;
}

/* Whether a tensor of @shape holds one value for each of the last axis' @n columns, or one for all. */
static bool is_row(const struct rvl_shape *s, int64_t n)
{
	int64_t count = rvl_shape_count(s);

	return count == 1 || (count == n && s->rank > 0 && s->dim[s->rank - 1] == n);
}

/*
 * The bias as real numbers. An int32 bias behind a DequantizeLinear with the accumulator's scale is
 * used unchanged. A bias with another scale, or a float bias, is rounded to the accumulator's scale
 * as onnxruntime does.
 */
static bool read_bias(struct match *m, struct product *p)
{
	const struct rvl_tensor *t = m->n->n_in > 2 ? m->n->in[2] : NULL;
	const struct rvl_node *dq = t ? t->producer : NULL;
	struct rvl_qsource s = { .t = NULL };
	int64_t count;

	if (!t)
		return true;
	p->has_bias = true;
	if (dq && (dq->op != RVL_OP_DEQUANTIZE || !dq->in[0]->data ||
		   dq->in[0]->type != RVL_TYPE_S32 ||
		   !rvl_qsource_of(m->g, dq->in[0], dq->in[1], dq->n_in > 2 ? dq->in[2] : NULL,
				   dq->attr.axis, &s)))
		return false;
	if (!dq && (!t->data || t->type != RVL_TYPE_F32))
		return false;
	if (!is_row(&t->shape, p->channels))
		return false;
	count = rvl_shape_count(&t->shape);
	p->exact = s.t != NULL;
	for (int64_t c = 0; c < p->channels; c++) {
		int64_t i = count > 1 ? c : 0;
		uint32_t k = s.n > 1 ? (uint32_t)i : 0;
		float want = acc_scale(m, p, c);

		if (!s.t) {
			p->bias[c] = (double)((const float *)t->data)[i];
			continue;
		}
		p->exact &= s.zp[k] == 0 && fabsf(s.scale[k] - want) <= 1e-5f * fabsf(want);
		p->bias[c] = ((double)((const int32_t *)s.t->data)[i] - s.zp[k]) *
			     (double)s.scale[k];
	}
	return true;
}

/* Scales of weights times the factor; bias' = (bias - mean) * factor + beta. */
static bool apply_bn(struct match *m, struct product *p)
{
	const float *v[4];

	if (!m->bn)
		return true;
	for (int i = 0; i < 4; i++) {
		v[i] = rvl_const_vector(m->bn->in[i + 1], p->channels);
		if (!v[i])
			return false;
	}
	for (int64_t c = 0; c < p->channels; c++) {
		float f = v[0][c] / sqrtf(v[3][c] + m->bn->attr.epsilon);

		p->ws[c] *= f;
		p->bias[c] = (p->bias[c] - (double)v[2][c]) * (double)f + (double)v[1][c];
		if (!isfinite(p->ws[c]) || p->ws[c] == 0.0f)
			return false;
	}
	p->has_bias = true;
	p->exact = false;
	return true;
}

static int32_t to_int32(double v)
{
	return v >= 2147483647.0 ? INT32_MAX : v <= -2147483648.0 ? INT32_MIN : (int32_t)rint(v);
}

static const int32_t *bias_ints(const struct match *m)
{
	const struct rvl_node *dq = m->n->in[2]->producer;

	return dq->in[0]->data;
}

static int make_bias(struct match *m, const struct product *p, struct rvl_tensor **out)
{
	const struct rvl_shape shape = { .rank = 1, .dim = { p->channels } };
	int32_t *v = rvl_arena_array(m->g->arena, (size_t)p->channels, sizeof(*v));
	bool one;

	*out = NULL;
	if (!p->has_bias)
		return 0;
	if (!v)
		return rvl_fail(m->err, -ENOMEM, "no memory for a bias");
	one = p->exact && rvl_shape_count(&m->n->in[2]->shape) == 1;
	for (int64_t c = 0; c < p->channels; c++) {
		if (p->exact)
			v[c] = bias_ints(m)[one ? 0 : c];
		else if (m->bn)
			v[c] = to_int32(p->bias[c] / (double)acc_scale(m, p, c));
		else	/* onnxruntime divides in float */
			v[c] = to_int32((double)((float)p->bias[c] / acc_scale(m, p, c)));
	}
	return rvl_tensor_const(m->g, NULL, RVL_TYPE_S32, &shape, v, out, m->err);
}

/*
 * The weights with the parameters of this node. With a BatchNormalization they get a tensor of
 * their own, because its factors change the scales.
 */
static int make_weights(struct match *m, const struct product *p, int32_t axis,
			struct rvl_tensor **out)
{
	const struct rvl_tensor *w = m->b.t;
	int rc;

	if (!m->bn) {
		*out = m->b.t;
		return rvl_quant_adopt(m->g, &m->b, m->err);
	}
	rc = rvl_tensor_like(m->g, w, out, m->err);
	if (rc)
		return rc;
	(*out)->data = w->data;
	return rvl_tensor_set_quant(m->g, *out, (uint32_t)p->channels, axis, p->ws, p->wz, m->err);
}

static int fuse_product(struct match *m, enum rvl_op op, int64_t channels, int32_t axis)
{
	struct product p = { .channels = channels };
	struct rvl_tensor *w, *bias;
	int rc;

	if (m->a.n != 1 || (m->b.n > 1 && m->b.axis != axis) || !rvl_quant_agree(&m->a, &m->b))
		return 0;
	if (!spread_scales(m, &p) || !read_bias(m, &p) || !apply_bn(m, &p))
		return 0;
	rc = make_bias(m, &p, &bias);
	if (!rc)
		rc = make_weights(m, &p, axis, &w);
	return rc ? rc : build(m, op, w, bias);
}

/* Whether sums of as many products as the operator adds are int32. */
static bool sums_fit(const struct rvl_node *n)
{
	uint64_t results = (uint64_t)rvl_shape_count(&n->out[0]->shape);

	return !results || rvl_node_macs(n) / results <= INT32_MAX / (255 * 255);
}

#define LEAST_COLUMNS 32	/* output channels of a group; as wide as the widest block of the kernels */

/*
 * Whether the kernels for bytes would compute several groups as one product, with weights of zero between
 * them, or leave columns of a block empty. The float kernels have none of this work.
 */
static bool has_narrow_groups(const struct rvl_node *n, int64_t channels)
{
	return n->attr.group > 1 && channels < n->attr.group * (int64_t)LEAST_COLUMNS;
}

/*
 * A product whose result is float still multiplies bytes: exact sums, times the scales, plus the float
 * bias. The operator stays and reads the integers.
 */
static int fuse_operands(struct match *m, int64_t channels, int32_t axis)
{
	struct rvl_node *n = m->n;
	const struct rvl_tensor *bias = n->n_in > 2 ? n->in[2] : NULL;
	int rc;

	if (m->a.n != 1 || (m->b.n > 1 && m->b.axis != axis) || !rvl_quant_agree(&m->a, &m->b) || !sums_fit(n) ||
	    n->out[0]->type != RVL_TYPE_F32 ||
	    (bias && (rvl_shape_count(&bias->shape) != channels || !is_row(&bias->shape, channels))))
		return 0;
	rc = rvl_quant_adopt(m->g, &m->a, m->err);
	if (!rc)
		rc = rvl_quant_adopt(m->g, &m->b, m->err);
	if (!rc)
		rc = rvl_node_set_in(m->g, n, 0, m->a.t, m->err);
	return rc ? rc : rvl_node_set_in(m->g, n, 1, m->b.t, m->err);
}

static int fuse_conv(struct match *m)
{
	int64_t channels = m->n->out[0]->shape.dim[1];

	if (!m->n->in[1]->producer || !dequantised(m->g, m->n->in[0], &m->a) ||
	    !dequantised(m->g, m->n->in[1], &m->b) || !m->b.t->data)
		return 0;
	if (!find_end(m, true))
		return has_narrow_groups(m->n, channels) ? 0 : fuse_operands(m, channels, 0);
	return fuse_product(m, RVL_OP_Q_CONV, channels, 0);
}

static int fuse_matmul(struct match *m)
{
	const struct rvl_attr *a = &m->n->attr;
	bool gemm = m->n->op == RVL_OP_GEMM;
	int32_t rank, axis;
	int64_t channels;

	if (!dequantised(m->g, m->n->in[0], &m->a) || !dequantised(m->g, m->n->in[1], &m->b))
		return 0;
	if (gemm && (a->trans_a || (m->n->n_in > 2 && a->beta != 1.0f) || !(a->alpha > 0)))
		return 0;
	rank = m->b.t->shape.rank;
	if (rank < 2 || (m->b.n > 1 && rank > 2))
		return 0;
	axis = rank - (a->trans_b ? 2 : 1);
	channels = m->b.t->shape.dim[axis];
	if (find_end(m, gemm && m->b.t->data))
		return fuse_product(m, RVL_OP_Q_MATMUL, channels, axis);
	return m->b.t->data && rank == 2 ? fuse_operands(m, channels, axis) : 0;
}

/* ---- element-wise and pools ---- */

static int fuse_binary(struct match *m)
{
	enum rvl_op form = rvl_op_quantised(m->n->op);
	int rc;

	if (!dequantised(m->g, m->n->in[0], &m->a) || !dequantised(m->g, m->n->in[1], &m->b) ||
	    m->a.n != 1 || m->b.n != 1 || !rvl_quant_agree(&m->a, &m->b) || !find_end(m, false))
		return 0;
	if (form == RVL_OP_Q_ADD && (!rvl_add_ratio_ok(m->a.scale[0], m->y.scale[0]) ||
				     !rvl_add_ratio_ok(m->b.scale[0], m->y.scale[0])))
		return 0;
	rc = rvl_quant_adopt(m->g, &m->b, m->err);
	return rc ? rc : build(m, form, m->b.t, NULL);
}

static int fuse_pool(struct match *m)
{
	const struct rvl_shape *x = &m->n->in[0]->shape;
	bool global;

	if (!dequantised(m->g, m->n->in[0], &m->a) || m->a.n != 1 || !find_end(m, false) ||
	    m->a.t->type != m->y.t->type)
		return 0;
	global = rvl_op_quantised(m->n->op) == RVL_OP_Q_GLOBAL_AVERAGE_POOL || rvl_window_of_image(m->n);
	if (global && !rvl_mean_scale_ok(m->a.scale[0], m->y.scale[0],
					 rvl_shape_count(x) / (x->dim[0] * x->dim[1]))) {
		if (rvl_op_quantised(m->n->op) == RVL_OP_Q_GLOBAL_AVERAGE_POOL)
			return 0;
		global = false;
	}
	return build(m, global ? RVL_OP_Q_GLOBAL_AVERAGE_POOL : RVL_OP_Q_AVERAGE_POOL, NULL, NULL);
}

/* The attributes of @n that @def has, too; false where another one is set to more than its default. */
static bool pool_attributes(const struct rvl_node *n, const struct rvl_op_def *def,
			    struct rvl_named_value *set, uint32_t *count)
{
	*count = 0;
	for (uint32_t i = 0; i < rvl_op_attrs(n->def); i++) {
		const char *name = n->def->attrs[i].name;

		if (!strcmp(name, "dilations") && n->value[i].given)
			for (uint32_t k = 0; k < n->value[i].n; k++)
				if (((const int64_t *)n->value[i].data)[k] != 1)
					return false;
		for (uint32_t k = 0; k < rvl_op_attrs(def); k++)
			if (!strcmp(def->attrs[k].name, name))
				set[(*count)++] = (struct rvl_named_value) { name, n->value[i] };
	}
	return true;
}

/* An AveragePool of volumes, which has no form of bytes: onnxruntime's QLinearAveragePool on the CPU. */
static int fuse_volumes(struct match *m)
{
	const struct rvl_op_def *def = rvl_op_find("com.microsoft", "QLinearAveragePool", 1);
	const struct rvl_node *dq = m->n->in[0]->producer;
	struct rvl_named_value set[RVL_MAX_ATTRS];
	struct rvl_tensor *in[5];
	struct rvl_node *n;
	uint32_t count;
	int rc;

	if (!dequantised(m->g, m->n->in[0], &m->a) || m->a.n != 1 || !find_end(m, false) ||
	    m->a.t->type != m->y.t->type || !pool_attributes(m->n, def, set, &count))
		return 0;
	memcpy(in, (struct rvl_tensor *[]) { m->a.t, dq->in[1], dq->n_in > 2 ? dq->in[2] : NULL, m->q->in[1],
					      m->q->n_in > 2 ? m->q->in[2] : NULL }, sizeof(in));
	rvl_node_remove(m->g, m->q);
	rc = rvl_node_of_role(m->g, def, set, count, m->y.t, &n, m->err);
	for (uint32_t i = 0; i < 5 && !rc; i++)
		if (in[i])
			rc = rvl_node_set_in(m->g, n, i, in[i], m->err);
	if (!rc)
		n->name = m->n->name;
	return rc;
}

/* DequantizeLinear - Relu|Clip - QuantizeLinear. */
static int fuse_clamp(struct match *m)
{
	float lo = m->n->op == RVL_OP_RELU ? 0 : m->n->attr.f_lo;
	float hi = m->n->op == RVL_OP_RELU ? INFINITY : m->n->attr.f_hi;

	if ((m->n->n_in > 1 && m->n->in[1] && !rvl_const_f32(m->n->in[1], &lo)) ||
	    (m->n->n_in > 2 && m->n->in[2] && !rvl_const_f32(m->n->in[2], &hi)) || !(lo <= hi))
		return 0;
	if (!dequantised(m->g, m->n->in[0], &m->a) || m->a.n != 1 || !find_end(m, false))
		return 0;
	m->lo = lo;
	m->hi = hi;
	return build(m, RVL_OP_Q_RESCALE, NULL, NULL);
}

static bool is_table(const struct rvl_node *n)
{
	int32_t axis;

	return n->def && n->def->flags & RVL_OP_ELEMENTWISE && rvl_op_of_one_value(n, &axis);
}

/*
 * DequantizeLinear - an element-wise function of one value - QuantizeLinear: a table of 256 bytes, or
 * one for each index of an axis along which the function's constants differ.
 */
static int fuse_table(struct match *m)
{
	const struct rvl_node *n = m->n;
	struct rvl_node *made;
	int rc;

	if (!is_table(n) || !dequantised(m->g, n->in[0], &m->a) || m->a.n != 1 || !find_end(m, false))
		return 0;
	rc = build(m, RVL_OP_Q_TABLE, n->n_in > 1 ? n->in[1] : NULL, n->n_in > 2 ? n->in[2] : NULL);
	if (rc)
		return rc;
	made = m->y.t->producer;
	made->def = n->def;
	made->value = n->value;
	return 0;
}

/*
 * DequantizeLinear on each computed operand - an operator of the table of descriptors -
 * QuantizeLinear: the CPU computes the operator between bytes.
 */
static int fuse_general(struct match *m)
{
	const struct rvl_node *n = m->n;
	struct rvl_qsource s[RVL_MAX_IN];
	struct rvl_node *made;
	uint32_t bytes = 0;
	int rc = 0;

	if (!rvl_op_maps_floats(n))
		return 0;
	for (uint32_t i = 0; i < n->n_in; i++) {
		s[i] = (struct rvl_qsource) { .t = n->in[i] };
		if (!n->in[i] || n->in[i]->data)
			continue;
		if (!dequantised(m->g, n->in[i], &s[i]) || s[i].n != 1)
			return 0;
		for (uint32_t k = 0; k < i; k++)
			if (s[k].n && !rvl_quant_agree(&s[k], &s[i]))
				return 0;
		bytes++;
	}
	if (!bytes || !find_end(m, false))
		return 0;
	m->a = s[0];
	for (uint32_t i = 0; i < n->n_in && !rc; i++)
		rc = s[i].n ? rvl_quant_adopt(m->g, &s[i], m->err) : 0;
	if (!rc)
		rc = build(m, RVL_OP_Q_GENERAL, NULL, NULL);
	if (rc)
		return rc;
	made = m->y.t->producer;
	for (uint32_t i = 1; i < n->n_in && !rc; i++)
		rc = rvl_node_set_in(m->g, made, i, s[i].t, m->err);
	made->n_in = n->n_in;
	made->def = n->def;
	made->value = n->value;
	return rc;
}

/*
 * DequantizeLinear followed by QuantizeLinear: a rescale, or an Identity if the parameters are
 * equal.
 */
static int fuse_pair(struct rvl_graph *g, struct rvl_node *q, struct rvl_err *err)
{
	struct match m = { .g = g, .n = q, .q = q, .lo = -INFINITY, .hi = INFINITY, .err = err };
	int rc;

	if (!from_integers(g, q->in[0], &m.a) || m.a.n != 1 ||
	    !rvl_qsource_of(g, q->out[0], q->in[1], q->in[2], q->attr.axis, &m.y) ||
	    m.y.n != 1 || !rvl_quant_fits(&m.y))
		return 0;
	if (m.a.t->type != m.y.t->type || m.a.scale[0] != m.y.scale[0] || m.a.zp[0] != m.y.zp[0])
		return build(&m, RVL_OP_Q_RESCALE, NULL, NULL);
	rc = rvl_quant_adopt(g, &m.a, err);
	for (uint32_t i = q->n_in; i-- > 1 && !rc;)
		rc = rvl_node_set_in(g, q, i, NULL, err);
	if (!rc)
		rc = rvl_node_set_in(g, q, 0, m.a.t, err);
	q->op = RVL_OP_IDENTITY;
	return rc ? rc : rvl_quant_adopt(g, &m.y, err);
}

/* What is done with a node depends on the quantised form of its operator. */
static int fuse_node(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct match m = { .g = g, .n = n, .err = err };

	if (rvl_op_traits(n->op) & RVL_TRAIT_BITS)
		return rvl_binary_quantise(g, n, err);
	if (rvl_op_traits(n->op) & RVL_TRAIT_MADE)
		return 0;
	if (rvl_op_traits(n->op) & RVL_TRAIT_ROW)
		return rvl_fuse_qlinear(g, n, err);
	switch (rvl_op_quantised(n->op)) {
	case RVL_OP_Q_CONV:
		return fuse_conv(&m);
	case RVL_OP_Q_MATMUL:
		return fuse_matmul(&m);
	case RVL_OP_Q_ADD:
	case RVL_OP_Q_MUL:
		return n->in[1]->data ? fuse_table(&m) : fuse_binary(&m);
	case RVL_OP_GENERAL:
		if (n->def->kernel == RVL_OP_AVERAGE_POOL)
			return fuse_volumes(&m);
		return is_table(n) ? fuse_table(&m) : fuse_general(&m);
	case RVL_OP_Q_AVERAGE_POOL:
	case RVL_OP_Q_GLOBAL_AVERAGE_POOL:
		return fuse_pool(&m);
	case RVL_OP_Q_RESCALE:
		return fuse_clamp(&m);
	case RVL_OP_QUANTIZE:
		return fuse_pair(g, n, err);
	default:
		return 0;
	}
}

/* Gives bytes without parameters scale 1 and zero point 0, so that they stand for themselves. */
static void plain_numbers(struct rvl_tensor *t)
{
	static const float one = 1.0f;
	static const int32_t zero;

	if ((t->type == RVL_TYPE_U8 || t->type == RVL_TYPE_S8) && !t->quant.n)
		t->quant = (struct rvl_quant) { .n = 1, .scale = &one, .zp = &zero, .plain = true };
}

/* Gives the parameters of @from to @to, where it has none. */
static void spread_to(struct rvl_tensor *to, const struct rvl_tensor *from)
{
	if (rvl_is_quant8_tensor(from) && !to->quant.n && to->type == from->type)
		to->quant = from->quant;
}

static void spread_down(const struct rvl_node *n)
{
	for (uint32_t k = 0; k < n->n_out; k++)
		if (n->out[k])
			spread_to(n->out[k], n->in[0]);
}

/* Whether all operands are bytes of the same parameters. */
static bool operands_agree(const struct rvl_node *n)
{
	const struct rvl_tensor *a = n->in[0];

	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct rvl_tensor *b = n->in[i];

		if (!b || !rvl_is_quant8_tensor(b) || b->type != a->type ||
		    b->quant.scale[0] != a->quant.scale[0] || b->quant.zp[0] != a->quant.zp[0])
			return false;
	}
	return true;
}

/* Bytes that an operator only moves or joins keep their meaning: parameters spread through it. */
static void spread(struct rvl_graph *g)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (rvl_op_moves(g->nodes[i]) || (rvl_op_joins(g->nodes[i]) && operands_agree(g->nodes[i])))
			spread_down(g->nodes[i]);
	for (uint32_t i = g->n_nodes; i-- > 0;)
		if (rvl_op_moves(g->nodes[i]) && g->nodes[i]->out[0])
			spread_to(g->nodes[i]->in[0], g->nodes[i]->out[0]);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct rvl_node *n = g->nodes[i];

		if (n->op == RVL_OP_GENERAL || !rvl_op_moves(n) || n->out[0]->quant.n)
			continue;
		plain_numbers(n->in[0]);
		spread_down(n);
	}
}

/* Gives tensors the parameters of the QuantizeLinear and DequantizeLinear that were not fused. */
static int adopt_edges(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < g->n_nodes && !rc; i++) {
		struct rvl_node *n = g->nodes[i];
		struct rvl_qsource s;
		struct rvl_tensor *t = n->op == RVL_OP_QUANTIZE ? n->out[0] : n->in[0];

		if ((n->op != RVL_OP_QUANTIZE && n->op != RVL_OP_DEQUANTIZE) ||
		    t->type == RVL_TYPE_S32)
			continue;
		if (rvl_qsource_of(g, t, n->in[1], n->n_in > 2 ? n->in[2] : NULL, n->attr.axis,
				   &s) && rvl_quant_fits(&s))
			rc = rvl_quant_adopt(g, &s, err);
	}
	return rc;
}

int rvl_pass_fuse(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc = rvl_graph_nodes(g, &list, &n, err);

	for (uint32_t i = 0; !rc && i < n; i++)
		if (list[i]->n_out)
			rc = fuse_node(g, list[i], err);
	if (!rc)
		rc = adopt_edges(g, err);
	if (!rc)
		rc = rvl_graph_sort(g, err);
	if (!rc)
		spread(g);
	return rc;
}
