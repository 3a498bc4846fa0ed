/* SPDX-License-Identifier: MIT */
#include "quant/insert.h"

#include <errno.h>
#include <math.h>
#include <string.h>

struct insertion {
	struct rvl_graph *g;
	const struct rvl_params *params;
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

/* A result keeps its tensor behind the pair, which so keeps its name; an input keeps it in front. */
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
	bool first = n->op == RVL_OP_CONV || (n->op == RVL_OP_GEMM && n->attr.trans_b);
	int32_t axis = first ? 0 : s->rank - 1;
	struct rvl_rows r = { .n = s->dim[axis], .axis = axis };

	r.len = r.n ? all / r.n : 0;
	r.row = first ? r.len : 1;
	r.step = first ? 1 : r.n;
	return r;
}

float rvl_row_scale(const struct rvl_rows *r, const float *w, int64_t m)
{
	float top = 0;

	for (int64_t i = 0; i < r->len; i++)
		top = fmaxf(top, fabsf(w[m * r->row + i * r->step]));
	return top > 0x1p-100f ? top / 127 : 1.0f / 127;
}

int8_t rvl_row_quantise(float w, float scale)
{
	float v = rintf(w / scale);

	return (int8_t)(v > 127 ? 127 : v < -127 ? -127 : v);
}

static void quantise_rows(const struct rvl_rows *r, const float *w, int8_t *q, float *scale)
{
	for (int64_t m = 0; m < r->n; m++) {
		scale[m] = rvl_row_scale(r, w, m);
		for (int64_t i = 0; i < r->len; i++)
			q[m * r->row + i * r->step] =
				rvl_row_quantise(w[m * r->row + i * r->step], scale[m]);
	}
}

static int quantise_weights(struct insertion *c, struct rvl_node *n)
{
	struct rvl_tensor *w = n->in[1], *in[3], *dq;
	struct rvl_rows r = rvl_rows_of(n);
	int8_t *q = rvl_arena_alloc(c->g->arena, (size_t)(r.n * r.len + 1));
	float *scale = rvl_arena_array(c->g->arena, (size_t)r.n + 1, sizeof(*scale));
	int8_t *zero = rvl_arena_array(c->g->arena, (size_t)r.n + 1, 1);
	int rc;

	if (!q || !scale || !zero)
		return rvl_fail(c->err, -ENOMEM, "no memory for weights");
	quantise_rows(&r, w->data, q, scale);
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
	       struct rvl_err *err)
{
	struct insertion c = { .g = g, .params = params, .err = err };
	uint32_t nodes = g->n_nodes, tensors = g->n_tensors;
	int rc = 0;

	for (uint32_t i = 0; i < nodes && !rc; i++)
		if (chosen->node[i] && rvl_is_product(g->nodes[i]))
			rc = quantise_weights(&c, g->nodes[i]);
	for (uint32_t i = 0; i < tensors && !rc; i++)
		if (chosen->tensor[i])
			rc = quantise_tensor(&c, g->tensors[i]);
	return rc ? rc : rvl_graph_sort(g, err);
}
