/* SPDX-License-Identifier: MIT */
#include "quant/insert.h"

#include "quant/bits.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

struct insertion {
	struct rvl_graph *g;
	const struct rvl_params *params;
	const struct rvl_chosen *chosen;
	const struct rvl_seen *seen;
	struct rvl_err *err;
};

/* ---- nodes ---- */

static int constant(struct insertion *c, enum rvl_type type, int64_t n, const void *data,
		    struct rvl_tensor **out)
{
	struct rvl_shape s = { .rank = n > 1, .dim = { n } };

	return rvl_tensor_const(c->g, NULL, type, &s, data, out, c->err);
}

static int add_node(struct insertion *c, enum rvl_op op, struct rvl_tensor *const in[3], int32_t axis,
		    struct rvl_tensor *out)
{
	struct rvl_node *n;
	int rc = rvl_node_new(c->g, op, NULL, &n, c->err);

	for (uint32_t i = 0; i < 3 && !rc; i++)
		rc = rvl_node_set_in(c->g, n, i, in[i], c->err);
	if (rc)
		return rc;
	n->n_in = 3;
	n->n_out = 1;
	n->op_type = rvl_op_name(op);
	n->attr.axis = axis;
	rvl_node_set_out(n, 0, out);
	return 0;
}

/* The bytes of @t, named after it where that name is free. */
static int new_bytes(struct insertion *c, const struct rvl_tensor *t, const struct rvl_tensor *like,
		     struct rvl_tensor **q)
{
	const char *name = rvl_graph_printf(c->g, "%.1000s" RVL_QUANTISED_SUFFIX, t->name);
	int rc = rvl_tensor_new(c->g, name && !rvl_tensor_find(c->g, name) ? name : NULL, q, c->err);

	if (rc)
		return rc;
	(*q)->type = c->params[t->id].type;
	(*q)->shape = like->shape;
	(*q)->shaped = true;
	return 0;
}

/* @from - QuantizeLinear - DequantizeLinear - @to; @t is the one of them that the model names. */
static int add_pair(struct insertion *c, const struct rvl_tensor *t, struct rvl_tensor *from,
		    struct rvl_tensor *to)
{
	const struct rvl_params *p = &c->params[t->id];
	struct rvl_tensor *in[3] = { from }, *q;
	uint8_t zp = (uint8_t)p->zp;
	int rc = constant(c, RVL_TYPE_F32, 1, &p->scale, &in[1]);

	if (!rc)
		rc = constant(c, p->type, 1, &zp, &in[2]);
	if (!rc)
		rc = new_bytes(c, t, from, &q);
	if (!rc)
		rc = add_node(c, RVL_OP_QUANTIZE, in, 0, q);
	in[0] = q;
	return rc ? rc : add_node(c, RVL_OP_DEQUANTIZE, in, 0, to);
}

/*
 * The tensor that the model names lies behind the pair where a node makes it, and in front of the pair
 * where it is an input, so that its name stays.
 */
static int quantise_tensor(struct insertion *c, struct rvl_tensor *t)
{
	struct rvl_node *maker = t->producer;
	struct rvl_tensor *other;
	int rc = rvl_tensor_like(c->g, t, &other, c->err);

	if (rc)
		return rc;
	if (!maker) {
		rc = rvl_tensor_replace(c->g, t, other, c->err);
		return rc ? rc : add_pair(c, t, t, other);
	}
	for (uint32_t i = 0; i < maker->n_out; i++)
		if (maker->out[i] == t)
			rvl_node_set_out(maker, i, other);
	return add_pair(c, t, other, t);
}

/* ---- weights ---- */

struct rvl_rows rvl_rows_of(const struct rvl_node *n)
{
	const struct rvl_shape *s = &n->in[1]->shape;
	int64_t all = rvl_shape_count(s);
	bool first = rvl_op_quantised(n->op) == RVL_OP_Q_CONV || n->attr.trans_b;
	int32_t axis = first ? 0 : s->rank - 1;
	struct rvl_rows r = { .n = s->dim[axis], .axis = axis };

	r.len = r.n ? all / r.n : 0;
	r.row = first ? r.len : 1;
	r.step = first ? 1 : r.n;
	return r;
}

int8_t rvl_row_quantise(float w, float scale, uint32_t bits)
{
	int32_t most = (1 << (bits - 1)) - 1, least = bits < RVL_MOST_BITS ? -most - 1 : -most;
	float v = rintf(w / scale);

	return (int8_t)(v > (float)most ? (float)most : v < (float)least ? (float)least : v);
}

static double square_error(const struct rvl_rows *r, const float *w, int64_t m, float scale, uint32_t bits)
{
	double sum = 0;

	for (int64_t i = 0; i < r->len; i++) {
		float v = w[m * r->row + i * r->step];
		double e = (double)v - (double)rvl_row_quantise(v, scale, bits) * (double)scale;

		sum += e * e;
	}
	return sum;
}

#define SCALES 64 /* between 0 and the one that holds the largest magnitude */

float rvl_row_scale(const struct rvl_rows *r, const float *w, int64_t m, uint32_t bits)
{
	int32_t steps = bits > 1 ? (1 << (bits - 1)) - 1 : 1;
	double least = INFINITY;
	float top = 0, full, best;

	for (int64_t i = 0; i < r->len; i++)
		top = fmaxf(top, fabsf(w[m * r->row + i * r->step]));
	best = full = top > 0x1p-100f ? top / (float)steps : 1 / (float)steps;
	for (int32_t i = bits < RVL_MOST_BITS ? SCALES : 0; i > SCALES / 16; i--) {
		float scale = full * ((float)i / SCALES);
		double e = square_error(r, w, m, scale, bits);

		if (e < least) {
			least = e;
			best = scale;
		}
	}
	return best;
}

/*
 * Neighbouring pixels have similar values, so that the errors of the taps of a channel add up by their
 * sum. Where it is more than half a step, the weight that is farthest from its value in that
 * direction is rounded to the other side, and so on (SQuant, Guo et al., ICLR 2022, its first two
 * levels).
 */
static void balance(const float *w, int64_t taps, float scale, uint32_t bits, int8_t *q)
{
	int32_t most = (1 << (bits - 1)) - 1;
	float sum = 0;

	for (int64_t i = 0; i < taps; i++)
		sum += (float)q[i] - w[i] / scale;
	while (fabsf(sum) > 0.5f) {
		int8_t step = sum > 0 ? -1 : 1;
		float far = 0;
		int64_t at = -1;

		for (int64_t i = 0; i < taps; i++) {
			float e = -(float)step * ((float)q[i] - w[i] / scale);

			if (e <= far || q[i] + step > most || q[i] + step < -most - 1)
				continue;
			far = e;
			at = i;
		}
		if (at < 0)
			return;
		q[at] = (int8_t)(q[at] + step);
		sum += (float)step;
	}
}

/* @least: by row, the least scale with which its bias is an int32; NULL: there is none. */
static void quantise_rows(const struct rvl_rows *r, const float *w, const float *least, uint32_t bits,
			  int8_t *q, float *scale)
{
	for (int64_t m = 0; m < r->n; m++) {
		scale[m] = fmaxf(rvl_row_scale(r, w, m, bits), least ? least[m] : 0);
		for (int64_t i = 0; i < r->len; i++)
			q[m * r->row + i * r->step] =
				rvl_row_quantise(w[m * r->row + i * r->step], scale[m], bits);
	}
}

/* A convolution's weights of a row are channel after channel. */
static void balance_rows(const struct rvl_node *n, const struct rvl_rows *r, const float *w, uint32_t bits,
			 int8_t *q, const float *scale)
{
	int64_t channels = n->op == RVL_OP_CONV ? n->in[1]->shape.dim[1] : r->len;
	int64_t taps = r->len / (channels ? channels : 1);

	for (int64_t m = 0; m < r->n && bits < RVL_MOST_BITS && taps > 1; m++)
		for (int64_t at = m * r->row; at < (m + 1) * r->row; at += taps)
			balance(w + at, taps, scale[m], bits, q + at);
}

/* ---- biases ---- */

/* Mean of the input that weight @i of a row of product @n multiplies. */
static double mean_of_input(const struct rvl_node *n, const struct rvl_rows *r,
			    const struct rvl_seen *x, int64_t m, int64_t i)
{
	int64_t channel = i;

	if (n->op == RVL_OP_CONV) {
		int64_t per_group = n->in[1]->shape.dim[1], group = m / (r->n / n->attr.group);

		channel = group * per_group + i / (r->len / per_group);
	}
	return channel < x->channels ? rvl_seen_mean(x, (uint32_t)channel) : 0;
}

/*
 * The mean error that the rounding of row @m of the weights causes in its sums. Padding is counted as
 * if it were input.
 */
static double mean_error(const struct insertion *c, const struct rvl_node *n, const struct rvl_rows *r,
			 int64_t m, float scale, const int8_t *q)
{
	const struct rvl_seen *x = c->seen ? &c->seen[n->in[0]->id] : NULL;
	const float *w = n->in[1]->data;
	double sum = 0;

	if (!x || !x->mean)
		return 0;
	for (int64_t i = 0; i < r->len; i++) {
		int64_t at = m * r->row + i * r->step;
		double e = (double)w[at] - (double)q[at] * (double)scale;

		sum += e * mean_of_input(n, r, x, m, i);
	}
	return sum;
}

static int32_t to_int32(float v)
{
	return v >= 2147483520.0f ? INT32_MAX : v <= -2147483648.0f ? INT32_MIN : (int32_t)rintf(v);
}

/* The factor of the product's sums, which its bias does not have. */
static float bias_factor(const struct rvl_node *n)
{
	return n->op == RVL_OP_GEMM ? n->attr.alpha : 1.0f;
}

/* The scale of a product's sums before that of the row is multiplied in. */
static float input_scale(const struct insertion *c, const struct rvl_node *n)
{
	return c->params[rvl_source_of(n->in[0])->id].scale * bias_factor(n);
}

/* Whether the scale of the sums becomes 0, which makes all of them 0. */
static bool loses_sums(const struct insertion *c, const struct rvl_node *n)
{
	return c->chosen->tensor[rvl_source_of(n->in[0])->id] && input_scale(c, n) == 0;
}

/* Whether the product takes a bias: all do but a MatMul. */
static bool takes_bias(const struct insertion *c, const struct rvl_node *n)
{
	const struct rvl_tensor *source = rvl_source_of(n->in[0]);

	return n->op != RVL_OP_MATMUL && c->chosen->tensor[source->id] &&
	       ((n->n_in > 2 && n->in[2]) || (c->seen && c->seen[n->in[0]->id].mean)) &&
	       (n->op != RVL_OP_GEMM || n->attr.beta == 1.0f);
}

/* The bias as int32 of the accumulator's scale, which is that of input and row: @ws by row. */
static int quantise_bias(struct insertion *c, struct rvl_node *n, const struct rvl_rows *r,
			 const float *ws, const int8_t *weights)
{
	float xs = input_scale(c, n);
	const struct rvl_tensor *b = n->n_in > 2 ? n->in[2] : NULL;
	bool one = b && rvl_shape_count(&b->shape) == 1;
	struct rvl_tensor *in[3] = { NULL }, *dq;
	int32_t *q = rvl_arena_array(c->g->arena, (size_t)r->n + 1, sizeof(*q));
	float *scale = rvl_arena_array(c->g->arena, (size_t)r->n + 1, sizeof(*scale));
	int32_t *zero = rvl_arena_array(c->g->arena, (size_t)r->n + 1, sizeof(*zero));
	const struct rvl_shape row = { .rank = 1, .dim = { r->n } }; /* also where it has one element */
	int rc;

	if (!q || !scale || !zero)
		return rvl_fail(c->err, -ENOMEM, "no memory for a bias");
	for (int64_t m = 0; m < r->n; m++) {
		float v = b ? ((const float *)b->data)[one ? 0 : m] : 0;

		scale[m] = xs * ws[m];
		v += (float)mean_error(c, n, r, m, ws[m], weights);
		q[m] = to_int32(v / scale[m]);
	}
	rc = rvl_tensor_const(c->g, NULL, RVL_TYPE_S32, &row, q, &in[0], c->err);
	if (!rc)
		rc = constant(c, RVL_TYPE_F32, r->n, scale, &in[1]);
	if (!rc)
		rc = constant(c, RVL_TYPE_S32, r->n, zero, &in[2]);
	if (!rc)
		rc = rvl_tensor_like(c->g, in[0], &dq, c->err);
	if (rc)
		return rc;
	dq->type = RVL_TYPE_F32;
	dq->data = NULL;
	rc = add_node(c, RVL_OP_DEQUANTIZE, in, 0, dq);
	return rc ? rc : rvl_node_set_in(c->g, n, 2, dq, c->err);
}

/* Whether no value is infinite or NaN: no scale represents those. */
static bool is_finite(const struct rvl_tensor *t)
{
	const float *v = t && t->data && t->type == RVL_TYPE_F32 ? t->data : NULL;
	int64_t n = v ? rvl_shape_count(&t->shape) : 0;

	for (int64_t i = 0; i < n; i++)
		if (!isfinite(v[i]))
			return false;
	return true;
}

#define MOST_BIAS 0x1p30f /* in steps of the accumulator; the rest is for its correction */

/*
 * A row of weights that are tiny beside its bias, as pruning leaves them, needs a scale that is coarser
 * than its weights ask for: in steps of a finer one the bias would not be an int32. The scale of the
 * accumulator, which is that of the bias, must be a normal number. The quotients are formed so that
 * none overflows that has a value.
 */
static const float *least_scales(struct insertion *c, const struct rvl_node *n, const struct rvl_rows *r)
{
	const struct rvl_tensor *b = n->n_in > 2 ? n->in[2] : NULL;
	bool one = b && rvl_shape_count(&b->shape) == 1;
	float xs, *v;

	if (!takes_bias(c, n))
		return NULL;
	xs = input_scale(c, n);
	v = rvl_arena_array(c->g->arena, (size_t)r->n + 1, sizeof(*v));
	for (int64_t m = 0; v && m < r->n; m++) {
		float bias = b ? fabsf(((const float *)b->data)[one ? 0 : m]) : 0;

		v[m] = fmaxf(bias / MOST_BIAS, 2 * FLT_MIN) / xs;
	}
	return v;
}

static int quantise_weights(struct insertion *c, struct rvl_node *n, uint32_t bits)
{
	struct rvl_tensor *w = n->in[1], *in[3], *dq;
	struct rvl_rows r = rvl_rows_of(n);
	int8_t *q = rvl_arena_alloc(c->g->arena, (size_t)(r.n * r.len + 1));
	float *scale = rvl_arena_array(c->g->arena, (size_t)r.n + 1, sizeof(*scale));
	int8_t *zero = rvl_arena_array(c->g->arena, (size_t)r.n + 1, 1);
	const float *least;
	int rc;

	if (!q || !scale || !zero)
		return rvl_fail(c->err, -ENOMEM, "no memory for weights");
	if (!is_finite(w) || !is_finite(n->n_in > 2 ? n->in[2] : NULL))
		return rvl_fail(c->err, -EINVAL,
				"weights or bias of node \"%s\" are infinite or NaN; --keep-float leaves it out",
				n->name);
	if (loses_sums(c, n))
		return rvl_fail(c->err, -EINVAL,
				"the input scale of node \"%s\" times its alpha is too small for a float; --keep-float leaves it out",
				n->name);
	least = least_scales(c, n, &r);
	for (int64_t m = 0; least && m < r.n; m++)
		if (!isfinite(least[m]))
			return rvl_fail(c->err, -EINVAL,
					"the bias of row %lld of node \"%s\" is too large beside its input; --keep-float leaves it out",
					(long long)m, n->name);
	quantise_rows(&r, w->data, least, bits, q, scale);
	balance_rows(n, &r, w->data, bits, q, scale);
	rc = takes_bias(c, n) ? quantise_bias(c, n, &r, scale, q) : 0;
	if (!rc)
		rc = rvl_tensor_const(c->g, NULL, RVL_TYPE_S8, &w->shape, q, &in[0], c->err);
	if (!rc)
		rc = constant(c, RVL_TYPE_F32, r.n, scale, &in[1]);
	if (!rc)
		rc = constant(c, RVL_TYPE_S8, r.n, zero, &in[2]);
	if (!rc)
		rc = rvl_tensor_like(c->g, w, &dq, c->err);
	if (rc)
		return rc;
	dq->type = RVL_TYPE_F32;
	dq->data = NULL;
	rc = add_node(c, RVL_OP_DEQUANTIZE, in, r.axis, dq);
	return rc ? rc : rvl_node_set_in(c->g, n, 1, dq, c->err);
}

/* ---- all ---- */

int rvl_insert(struct rvl_graph *g, const struct rvl_chosen *chosen, const struct rvl_params *params,
	       const struct rvl_seen *seen, struct rvl_err *err)
{
	struct insertion c = { .g = g, .params = params, .chosen = chosen, .seen = seen, .err = err };
	uint32_t nodes = g->n_nodes, tensors = g->n_tensors;
	int rc = 0;

	g->calibrated = true;
	for (uint32_t i = 0; i < nodes && !rc; i++)
		if (chosen->node[i] && rvl_is_product(g->nodes[i]))
			rc = quantise_weights(&c, g->nodes[i], chosen->bits[i]);
	for (uint32_t i = 0; i < tensors && !rc; i++)
		if (chosen->tensor[i])
			rc = quantise_tensor(&c, g->tensors[i]);
	return rc ? rc : rvl_graph_sort(g, err);
}
