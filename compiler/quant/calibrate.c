/* SPDX-License-Identifier: MIT */
/*
 * Float models become QDQ models: the graph runs in float over calibration data, then inputs and results
 * of convolutions and matrix products get QuantizeLinear and DequantizeLinear, their weights int8 bytes with a
 * scale for each row. The passes behind see what a quantiser would have written.
 */
#include "graph/interp.h"
#include "pass/passes.h"
#include "quant/calibrate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BINS	 4096
#define QUANTILE 0.999

/* What a tensor was seen to hold. */
struct range {
	bool wanted, input;
	float lo, hi;
	uint64_t n;
	uint64_t *bin; /* of |v|, up to the larger bound */
};

struct calib {
	struct rvl_graph *g;
	struct rvl_interp *it;
	struct range *r; /* by tensor id */
	uint32_t n_tensors;
	const float *data;
	uint64_t runs, elements; /* of the input */
	struct rvl_err *err;
};

static bool is_product(const struct rvl_node *n)
{
	return (n->op == RVL_OP_CONV || n->op == RVL_OP_GEMM || n->op == RVL_OP_MATMUL) && n->in[1] &&
	       n->in[1]->data && n->in[1]->type == RVL_TYPE_F32;
}

static bool only_moves(const struct rvl_node *n)
{
	return n->op == RVL_OP_MAX_POOL || n->op == RVL_OP_GLOBAL_MAX_POOL || n->op == RVL_OP_FLATTEN ||
	       n->op == RVL_OP_RESHAPE || n->op == RVL_OP_TRANSPOSE || n->op == RVL_OP_IDENTITY;
}

/* Quantisation moves through what only moves values, so it is put where the values arise. */
static struct rvl_tensor *source_of(struct rvl_tensor *t)
{
	while (t->producer && only_moves(t->producer))
		t = t->producer->in[0];
	return t;
}

static void want(struct calib *c, struct rvl_tensor *t)
{
	if (t->type != RVL_TYPE_F32 || t->data ||
	    (t->producer && t->producer->op == RVL_OP_DEQUANTIZE))
		return;
	c->r[t->id].wanted = true;
	c->r[t->id].input = t->is_input;
}

static uint32_t find_wanted(struct calib *c)
{
	uint32_t products = 0;

	for (uint32_t i = 0; i < c->g->n_nodes; i++) {
		const struct rvl_node *n = c->g->nodes[i];

		if (!is_product(n))
			continue;
		want(c, source_of(n->in[0]));
		want(c, n->out[0]);
		products++;
	}
	return products;
}

/* ---- ranges ---- */

static void see_bounds(struct range *r, const float *v, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		r->lo = v[i] < r->lo ? v[i] : r->lo;
		r->hi = v[i] > r->hi ? v[i] : r->hi;
	}
}

static float most(const struct range *r)
{
	return r->hi > -r->lo ? r->hi : -r->lo;
}

static void see_bins(struct range *r, const float *v, uint64_t n)
{
	float step = most(r) / BINS;

	for (uint64_t i = 0; i < n && step > 0; i++) {
		int at = (int)(fabsf(v[i]) / step);

		r->bin[at < BINS ? at : BINS - 1]++;
		r->n++;
	}
}

/* The value that 99.9 % of all magnitudes stay below; a graph's input is not clipped. */
static float clip(const struct range *r)
{
	uint64_t sum = 0;

	if (r->input || !r->n)
		return most(r);
	for (int i = 0; i < BINS; i++) {
		sum += r->bin[i];
		if ((double)sum >= QUANTILE * (double)r->n)
			return most(r) * (float)(i + 1) / BINS;
	}
	return most(r);
}

static int look(struct calib *c, void (*see)(struct range *r, const float *v, uint64_t n))
{
	int rc = 0;

	for (uint64_t run = 0; run < c->runs && !rc; run++) {
		rc = rvl_interp_set(c->it, 0, c->data + run * c->elements,
				    c->elements * sizeof(float), c->err);
		if (!rc)
			rc = rvl_interp_run(c->it, c->err);
		for (uint32_t i = 0; i < c->n_tensors && !rc; i++)
			if (c->r[i].wanted)
				see(&c->r[i], rvl_interp_data(c->it, c->g->tensors[i]),
				    (uint64_t)rvl_shape_count(&c->g->tensors[i]->shape));
	}
	return rc;
}

static int measure(struct calib *c)
{
	int rc = rvl_interp_new(c->g, false, &c->it, c->err);

	if (!rc)
		rc = look(c, see_bounds);
	for (uint32_t i = 0; i < c->n_tensors && !rc; i++) {
		if (!c->r[i].wanted)
			continue;
		if (!isfinite(c->r[i].lo) || !isfinite(c->r[i].hi))
			return rvl_fail(c->err, -EINVAL, "calibration gives no numbers in \"%s\"",
					c->g->tensors[i]->name);
		c->r[i].bin = calloc(BINS, sizeof(*c->r[i].bin));
		if (!c->r[i].bin)
			return rvl_fail(c->err, -ENOMEM, "out of memory");
	}
	return rc ? rc : look(c, see_bins);
}

/* ---- nodes ---- */

static int constant(struct calib *c, enum rvl_type type, int64_t n, const void *data,
		    struct rvl_tensor **out)
{
	struct rvl_shape s = { .rank = n > 1, .dim = { n } };

	return rvl_tensor_const(c->g, NULL, type, &s, data, out, c->err);
}

static int add_node(struct calib *c, enum rvl_op op, struct rvl_tensor *const in[3], int32_t axis,
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

/* uint8: zero point 0 where nothing is negative, so that the next layer may be stochastic. */
static void params_of(const struct range *r, float *scale, uint8_t *zp)
{
	float lo = r->lo, hi = r->hi;

	if (lo >= 0) {
		*scale = clip(r) / 255;
		*zp = 0;
	} else {
		hi = hi > 0 ? hi : 0;
		*scale = (hi - lo) / 255;
		*zp = (uint8_t)rintf(-lo / *scale);
	}
	if (!(*scale > 0))
		*scale = 1.0f / 255;
}

/* @from - QuantizeLinear - DequantizeLinear - @to */
static int add_pair(struct calib *c, const struct range *r, struct rvl_tensor *from,
		    struct rvl_tensor *to)
{
	struct rvl_tensor *in[3] = { from }, *q;
	float scale;
	uint8_t zp;
	int rc;

	params_of(r, &scale, &zp);
	rc = constant(c, RVL_TYPE_F32, 1, &scale, &in[1]);
	if (!rc)
		rc = constant(c, RVL_TYPE_U8, 1, &zp, &in[2]);
	if (!rc)
		rc = rvl_tensor_like(c->g, from, &q, c->err);
	if (rc)
		return rc;
	q->type = RVL_TYPE_U8;
	rc = add_node(c, RVL_OP_QUANTIZE, in, 0, q);
	in[0] = q;
	return rc ? rc : add_node(c, RVL_OP_DEQUANTIZE, in, 0, to);
}

/* A result keeps its tensor behind the pair, which so keeps its name; an input keeps it in front. */
static int quantise_tensor(struct calib *c, struct rvl_tensor *t)
{
	const struct range *r = &c->r[t->id];
	struct rvl_node *maker = t->producer;
	struct rvl_tensor *other;
	int rc = rvl_tensor_like(c->g, t, &other, c->err);

	if (rc)
		return rc;
	if (!maker) {
		rc = rvl_tensor_replace(c->g, t, other, c->err);
		return rc ? rc : add_pair(c, r, t, other);
	}
	for (uint32_t i = 0; i < maker->n_out; i++)
		if (maker->out[i] == t)
			rvl_node_set_out(maker, i, other);
	return add_pair(c, r, other, t);
}

/* ---- weights ---- */

struct rows {
	int64_t n, len, row, step; /* rows of @len elements: element i of row m is at m row + i step */
	int32_t axis;
};

static struct rows rows_of(const struct rvl_node *n)
{
	const struct rvl_shape *s = &n->in[1]->shape;
	int64_t all = rvl_shape_count(s);
	bool first = n->op == RVL_OP_CONV || (n->op == RVL_OP_GEMM && n->attr.trans_b);
	int32_t axis = first ? 0 : s->rank - 1;
	struct rows r = { .n = s->dim[axis], .axis = axis };

	r.len = r.n ? all / r.n : 0;
	r.row = first ? r.len : 1;
	r.step = first ? 1 : r.n;
	return r;
}

static void quantise_rows(const struct rows *r, const float *w, int8_t *q, float *scale)
{
	for (int64_t m = 0; m < r->n; m++) {
		float top = 0;

		for (int64_t i = 0; i < r->len; i++)
			top = fmaxf(top, fabsf(w[m * r->row + i * r->step]));
		scale[m] = top > 0 ? top / 127 : 1.0f / 127;
		for (int64_t i = 0; i < r->len; i++) {
			float v = rintf(w[m * r->row + i * r->step] / scale[m]);

			q[m * r->row + i * r->step] = (int8_t)(v > 127 ? 127 : v < -127 ? -127 : v);
		}
	}
}

static int quantise_weights(struct calib *c, struct rvl_node *n)
{
	struct rvl_tensor *w = n->in[1], *in[3], *dq;
	struct rows r = rows_of(n);
	int8_t *q = rvl_arena_alloc(c->g->arena, (size_t)(r.n * r.len + 1));
	float *scale = rvl_arena_array(c->g->arena, (size_t)r.n + 1, sizeof(*scale));
	int8_t *zero = rvl_arena_array(c->g->arena, (size_t)r.n + 1, 1);
	int rc;

	if (!q || !scale || !zero)
		return rvl_fail(c->err, -ENOMEM, "no memory for weights");
	memset(zero, 0, (size_t)r.n);
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

static int rewrite(struct calib *c)
{
	uint32_t nodes = c->g->n_nodes;
	int rc = 0;

	for (uint32_t i = 0; i < nodes && !rc; i++)
		if (is_product(c->g->nodes[i]))
			rc = quantise_weights(c, c->g->nodes[i]);
	for (uint32_t i = 0; i < c->n_tensors && !rc; i++)
		if (c->r[i].wanted)
			rc = quantise_tensor(c, c->g->tensors[i]);
	return rc ? rc : rvl_graph_sort(c->g, c->err);
}

static int check_input(struct calib *c, uint64_t size)
{
	const struct rvl_tensor *in = c->g->n_inputs == 1 ? c->g->inputs[0] : NULL;

	if (!in || in->type != RVL_TYPE_F32)
		return rvl_fail(c->err, -EINVAL, "calibration needs a model with one float32 input");
	c->elements = (uint64_t)rvl_shape_count(&in->shape);
	c->runs = c->elements ? size / c->elements : 0;
	if (!c->runs || c->runs * c->elements != size)
		return rvl_fail(c->err, -EINVAL,
				"calibration data of %llu values is no multiple of the input's %llu",
				(unsigned long long)size, (unsigned long long)c->elements);
	return 0;
}

/* Clamps in their products, constants folded: what the ranges are to be of. */
static int prepare(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = rvl_shape_infer(g, err);

	if (!rc)
		rc = rvl_pass_fold(g, err);
	if (!rc)
		rc = rvl_pass_clean(g, err);
	if (!rc)
		rc = rvl_pass_fold_bn(g, err);
	if (!rc)
		rc = rvl_pass_clean(g, err);
	return rc ? rc : rvl_graph_check_supported(g, err);
}

int rvl_calibrate(struct rvl_graph *g, const float *data, uint64_t size, struct rvl_err *err)
{
	struct calib c = { .g = g, .data = data, .err = err };
	int rc = prepare(g, err);

	c.n_tensors = g->n_tensors;
	c.r = calloc(c.n_tensors + 1, sizeof(*c.r));
	if (!rc && !c.r)
		rc = rvl_fail(err, -ENOMEM, "out of memory");
	if (!rc)
		rc = check_input(&c, size);
	if (!rc && !find_wanted(&c))
		rc = rvl_fail(err, -EINVAL,
			      "nothing to calibrate: no float convolution or matrix product with constant weights");
	if (!rc)
		rc = measure(&c);
	if (!rc)
		rc = rewrite(&c);
	rvl_interp_free(c.it);
	for (uint32_t i = 0; c.r && i < c.n_tensors; i++)
		free(c.r[i].bin);
	free(c.r);
	return rc;
}
