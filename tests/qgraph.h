/* SPDX-License-Identifier: MIT */
/* Small quantised graphs made in memory from a seed, for tests and benches of the compiler. */
#ifndef RVL_TEST_QGRAPH_H
#define RVL_TEST_QGRAPH_H

#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "chance.h"

struct qg {
	struct rvl_graph *g;
	uint64_t seed;
	int rc; /* first error */
	struct rvl_err err;
};

static inline uint64_t qg_random(struct qg *q)
{
	return splitmix(&q->seed);
}

/* A uniform number in [lo, hi] */
static inline int64_t qg_range(struct qg *q, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(qg_random(q) % (uint64_t)(hi - lo + 1));
}

static inline void qg_open(struct qg *q, uint64_t seed)
{
	*q = (struct qg){ .g = rvl_graph_new(), .seed = seed };
	if (!q->g)
		q->rc = -1;
}

/* A tensor without quantisation parameters; named when @name is not NULL. */
static inline struct rvl_tensor *qg_plain_tensor(struct qg *q, const char *name, enum rvl_type type,
						 struct rvl_shape shape)
{
	struct rvl_tensor *t = NULL;

	if (!q->rc)
		q->rc = rvl_tensor_new(q->g, name, &t, &q->err);
	if (q->rc)
		return NULL;
	t->type = type;
	t->shape = shape;
	t->shaped = true;
	return t;
}

/* An activation with one scale and zero point. */
static inline struct rvl_tensor *qg_tensor(struct qg *q, const char *name, enum rvl_type type,
					   struct rvl_shape shape, float scale, int32_t zp)
{
	struct rvl_tensor *t = qg_plain_tensor(q, name, type, shape);

	if (t)
		q->rc = rvl_tensor_set_quant(q->g, t, 1, 0, &scale, &zp, &q->err);
	return t;
}

static inline struct rvl_tensor *qg_float_tensor(struct qg *q, struct rvl_shape shape)
{
	return qg_plain_tensor(q, NULL, RVL_TYPE_F32, shape);
}

static inline int32_t qg_zp(struct qg *q, enum rvl_type type)
{
	return type == RVL_TYPE_U8 ? qg_range(q, 0, 255) : qg_range(q, -128, 127);
}

/*
 * Constant bytes in [lo, hi] around a zero point. With @channels > 1, each index of @axis has a
 * scale of its own.
 */
static inline struct rvl_tensor *qg_weights(struct qg *q, enum rvl_type type,
					    struct rvl_shape shape, uint32_t channels, int axis,
					    float scale, int32_t zp)
{
	int64_t n = rvl_shape_count(&shape);
	uint8_t *data = malloc(n);
	float *s = calloc(channels, sizeof(*s));
	int32_t *z = calloc(channels, sizeof(*z));
	struct rvl_tensor *t = NULL;

	for (int64_t i = 0; data && i < n; i++)
		data[i] = qg_random(q);
	for (uint32_t i = 0; s && z && i < channels; i++) {
		s[i] = scale * (1.0f + (float)qg_range(q, 0, 1000) / 1000.0f);
		z[i] = zp;
	}
	if (!q->rc)
		q->rc = data && s && z ?
				rvl_tensor_const(q->g, NULL, type, &shape, data, &t, &q->err) :
				-1;
	if (!q->rc)
		q->rc = rvl_tensor_set_quant(q->g, t, channels, axis, s, z, &q->err);
	free(data);
	free(s);
	free(z);
	return t;
}

static inline struct rvl_tensor *qg_bias(struct qg *q, int64_t m, int32_t top)
{
	struct rvl_shape shape = { 1, { m } };
	int32_t *data = calloc(m, sizeof(*data));
	struct rvl_tensor *t = NULL;

	for (int64_t i = 0; data && i < m; i++)
		data[i] = qg_range(q, -top, top);
	if (!q->rc)
		q->rc = data ? rvl_tensor_const(q->g, NULL, RVL_TYPE_S32, &shape, data, &t,
						&q->err) :
			       -1;
	free(data);
	return t;
}

/* A constant tensor, from a copy of @data. */
static inline struct rvl_tensor *qg_const(struct qg *q, enum rvl_type type, struct rvl_shape shape,
					  const void *data)
{
	struct rvl_tensor *t = NULL;

	if (!q->rc)
		q->rc = rvl_tensor_const(q->g, NULL, type, &shape, data, &t, &q->err);
	return t;
}

static inline struct rvl_node *qg_node(struct qg *q, enum rvl_op op, const char *name,
				       uint32_t n_in, struct rvl_tensor *const *in,
				       struct rvl_tensor *out)
{
	struct rvl_node *n = NULL;

	if (!q->rc)
		q->rc = rvl_node_new(q->g, op, name, &n, &q->err);
	for (uint32_t i = 0; i < n_in && !q->rc; i++)
		q->rc = rvl_node_set_in(q->g, n, i, in[i], &q->err);
	if (q->rc)
		return NULL;
	n->n_in = n_in;
	n->op_type = rvl_op_name(op);
	rvl_node_set_out(n, 0, out);
	n->n_out = 1;
	return n;
}

/* A QuantizeLinear or DequantizeLinear of these parameters, from @x to @y. */
static inline struct rvl_tensor *qg_convert(struct qg *q, enum rvl_op op, struct rvl_tensor *x, struct rvl_tensor *y,
					    float scale, uint8_t zp)
{
	const struct rvl_shape one = { 0, { 0 } };
	struct rvl_tensor *in[3] = { x, qg_const(q, RVL_TYPE_F32, one, &scale),
				     qg_const(q, y->type == RVL_TYPE_F32 ? x->type : y->type, one, &zp) };

	qg_node(q, op, NULL, 3, in, y);
	return y;
}

static inline int64_t qg_out_dim(int64_t in, int64_t k, int64_t s, int64_t d, int64_t p0,
				 int64_t p1)
{
	return (in + p0 + p1 - d * (k - 1) - 1) / s + 1;
}

/** struct qg_conv - a convolution to add; sizes, strides, dilations and groups left out are 1 */
struct qg_conv {
	int64_t m, kh, kw, sy, sx, dy, dx, pad[4], group;
	enum rvl_type wtype;
	int32_t wzp;
	bool per_channel, bias, relu;
	enum rvl_type ytype;
	float wscale, yscale;
};

static inline int64_t qg_or_1(int64_t n)
{
	return n ? n : 1;
}

static inline struct rvl_tensor *qg_conv(struct qg *q, const char *name, struct rvl_tensor *x,
					 const struct qg_conv *c)
{
	int64_t kh = qg_or_1(c->kh), kw = qg_or_1(c->kw), sy = qg_or_1(c->sy), sx = qg_or_1(c->sx);
	int64_t dy = qg_or_1(c->dy), dx = qg_or_1(c->dx), group = qg_or_1(c->group);
	const int64_t *d;
	struct rvl_tensor *in[3], *y;
	struct rvl_shape ws, ys;
	struct rvl_node *n;

	if (q->rc)
		return NULL;
	d = x->shape.dim;
	ws = (struct rvl_shape){ 4, { c->m, d[1] / group, kh, kw } };
	ys = (struct rvl_shape){ 4,
				 { d[0], c->m,
				   qg_out_dim(d[2], kh, sy, dy, c->pad[0], c->pad[2]),
				   qg_out_dim(d[3], kw, sx, dx, c->pad[1], c->pad[3]) } };
	in[0] = x;
	in[1] = qg_weights(q, c->wtype, ws, c->per_channel ? c->m : 1, 0, c->wscale, c->wzp);
	in[2] = c->bias ? qg_bias(q, c->m, 20000) : NULL;
	y = qg_tensor(q, NULL, c->ytype, ys, c->yscale, qg_zp(q, c->ytype));
	n = qg_node(q, RVL_OP_Q_CONV, name, c->bias ? 3 : 2, in, y);
	if (q->rc)
		return NULL;
	n->attr.group = group;
	for (int i = 0; i < 4; i++)
		n->attr.pad[i] = c->pad[i];
	n->attr.kernel[0] = kh;
	n->attr.kernel[1] = kw;
	n->attr.stride[0] = sy;
	n->attr.stride[1] = sx;
	n->attr.dilation[0] = dy;
	n->attr.dilation[1] = dx;
	if (c->relu)
		n->attr.q_lo = y->quant.zp[0];
	return y;
}

/* Keeps the lowest @bits bits of the int8 weights of all products, with their sign. */
static inline void qg_narrow(struct qg *q, uint32_t bits)
{
	for (uint32_t i = 0; i < q->g->n_nodes; i++) {
		struct rvl_tensor *w = q->g->nodes[i]->in[1];
		int8_t *v;

		if (!w || !w->data || w->type != RVL_TYPE_S8)
			continue;
		v = (int8_t *)w->data;
		for (int64_t k = 0; k < rvl_tensor_bytes(w); k++)
			v[k] = (int8_t)((int32_t)((uint32_t)v[k] << (32 - bits)) >> (32 - bits));
	}
}

static inline struct rvl_tensor *qg_max_pool(struct qg *q, const char *name, struct rvl_tensor *x,
					     int64_t k, int64_t s, int64_t pad)
{
	struct rvl_tensor *y;
	struct rvl_shape ys;
	struct rvl_node *n;

	if (q->rc)
		return NULL;
	ys = x->shape;
	ys.dim[2] = qg_out_dim(x->shape.dim[2], k, s, 1, pad, pad);
	ys.dim[3] = qg_out_dim(x->shape.dim[3], k, s, 1, pad, pad);
	y = qg_tensor(q, NULL, x->type, ys, x->quant.scale[0], x->quant.zp[0]);
	n = qg_node(q, RVL_OP_MAX_POOL, name, 1, &x, y);
	if (q->rc)
		return NULL;
	n->attr.kernel[0] = n->attr.kernel[1] = k;
	n->attr.stride[0] = n->attr.stride[1] = s;
	for (int i = 0; i < 4; i++)
		n->attr.pad[i] = pad;
	return y;
}

static inline void qg_input(struct qg *q, struct rvl_tensor *t)
{
	if (!q->rc)
		q->rc = rvl_graph_add_input(q->g, t, &q->err);
}

static inline void qg_output(struct qg *q, struct rvl_tensor *t)
{
	if (!q->rc)
		q->rc = rvl_graph_add_output(q->g, t, &q->err);
}

#endif
