/* SPDX-License-Identifier: MIT */
/* Operators that work on each line of elements along one axis. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "float/softmax.h"
#include "rivulet_op.h"

/* An operand as [outer, n, inner]; its lines have n elements, inner apart. */
struct lines {
	const struct rvl_call *c;
	int64_t outer, n, inner;
	void (*line)(const struct lines *l, int64_t i);	/* computes line @i */
	int64_t k;					/* TopK: elements of a line of the result */
	bool flag, reverse;				/* meanings of the operator */
};

static int64_t product(const struct rvl_shape *s, int64_t first, int64_t past)
{
	int64_t n = 1;

	for (int64_t i = first; i < past; i++)
		n *= s->dim[i];
	return n;
}

static void along(struct lines *l, const struct rvl_shape *s, int64_t axis)
{
	l->outer = product(s, 0, axis);
	l->n = s->rank ? s->dim[axis] : 1;
	l->inner = product(s, axis + 1, s->rank);
}

/* Where line @i begins in a tensor whose lines have @n elements. */
static int64_t start_of(const struct lines *l, int64_t i, int64_t n)
{
	return i / l->inner * n * l->inner + i % l->inner;
}

static void line_range(void *arg, int64_t first, int64_t past)
{
	const struct lines *l = arg;

	for (int64_t i = first; i < past; i++)
		l->line(l, i);
}

static int run_lines(struct lines *l)
{
	rvl_for_range(l->c, l->outer * l->inner, 1 + 4096 / (1 + l->n), line_range, l);
	return 0;
}

/* Attribute axis as one of the axes of input 0; a scalar counts as one element along axis 0. */
static int axis_attr(struct rvl_call *c, int64_t *axis)
{
	int64_t rank = c->in[0].shape.rank;

	*axis = rvl_attr_int(c, "axis");
	return rvl_fix_axis(c, axis, rank ? rank : 1);
}

/*
 * An integer that orders the elements of every type: numbers as they are ordered, -0 equal to 0, and
 * NaN above all.
 */
static uint64_t rank_of(enum rvl_type type, const void *data, int64_t i)
{
	uint32_t bits;
	float f;

	if (type != RVL_TYPE_F32) {
		uint64_t v = (uint64_t)rvl_element_int(type, data, i);

		return rvl_class_of(type) == RVL_CLASS_S64 ? v ^ (uint64_t)1 << 63 : v;
	}
	f = ((const float *)data)[i] + 0.0f;
	if (isnan(f))
		return UINT32_MAX;
	memcpy(&bits, &f, sizeof(bits));
	return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* ---- ArgMax, ArgMin ---- */

static int infer_arg(struct rvl_call *c)
{
	struct rvl_shape s = c->in[0].shape;
	int64_t axis;
	int rc = axis_attr(c, &axis);

	if (rc)
		return rc;
	if (s.rank && !s.dim[axis])
		return rvl_op_fail(c, "its input has no elements along axis %lld", (long long)axis);
	if (s.rank && rvl_attr_int(c, "keepdims")) {
		s.dim[axis] = 1;
	} else if (s.rank) {
		s.rank--;
		for (int64_t i = axis; i < s.rank; i++)
			s.dim[i] = s.dim[i + 1];
	}
	rvl_set_out(c, 0, RVL_TYPE_S64, &s);
	return 0;
}

/* reverse: the smallest; flag: of equal elements the last one. */
static void arg_line(const struct lines *l, int64_t i)
{
	const struct rvl_value *x = &l->c->in[0];
	uint64_t turn = l->reverse ? UINT64_MAX : 0;
	int64_t at = start_of(l, i, l->n), best = 0;
	uint64_t top = rank_of(x->type, x->data, at) ^ turn;

	for (int64_t k = 1; k < l->n; k++) {
		uint64_t v = rank_of(x->type, x->data, at + k * l->inner) ^ turn;

		if (v > top || (l->flag && v == top)) {
			best = k;
			top = v;
		}
	}
	((int64_t *)l->c->out[0].data)[i] = best;
}

static int run_arg(struct rvl_call *c, bool smallest)
{
	struct lines l = { .c = c, .line = arg_line, .reverse = smallest };
	int64_t axis;
	int rc = axis_attr(c, &axis);

	if (rc)
		return rc;
	l.flag = c->def->since >= 12 && rvl_attr_int(c, "select_last_index");
	along(&l, &c->in[0].shape, axis);
	return run_lines(&l);
}

static int run_arg_max(struct rvl_call *c)
{
	return run_arg(c, false);
}

static int run_arg_min(struct rvl_call *c)
{
	return run_arg(c, true);
}

/* ---- CumSum, CumProd ---- */

static int cumulative_axis(struct rvl_call *c, int64_t *axis)
{
	int64_t rank = c->in[0].shape.rank;

	*axis = rvl_element_int(c->in[1].type, c->in[1].data, 0);
	return rvl_fix_axis(c, axis, rank ? rank : 1);
}

static int infer_cumulative(struct rvl_call *c)
{
	int64_t axis;

	if (rvl_count(&c->in[1]) != 1)
		return rvl_op_fail(c, "its axis, input 1, has %lld values, not 1",
				   (long long)rvl_count(&c->in[1]));
	if (c->in[1].data && cumulative_axis(c, &axis))
		return -EINVAL;
	return rvl_infer_same(c);
}

/* flag: products. Exclusive results leave out the element at their own place. */
static void cumulate_float(const struct lines *l, int64_t first, int64_t step, bool exclusive)
{
	const float *x = l->c->in[0].data;
	float *y = l->c->out[0].data;
	double a = l->flag ? 1.0 : 0.0;

	for (int64_t k = 0, at = first; k < l->n; k++, at += step) {
		double next = l->flag ? a * (double)x[at] : a + (double)x[at];

		y[at] = (float)(exclusive ? a : next);
		a = next;
	}
}

static void cumulate_int(const struct lines *l, int64_t first, int64_t step, bool exclusive)
{
	const struct rvl_value *x = &l->c->in[0], *y = &l->c->out[0];
	size_t size = rvl_type_size(y->type);
	uint64_t a = l->flag;

	for (int64_t k = 0, at = first; k < l->n; k++, at += step) {
		uint64_t v = (uint64_t)rvl_element_int(x->type, x->data, at);
		uint64_t next = l->flag ? a * v : a + v;

		rvl_convert(y->type, (char *)y->data + (size_t)at * size, RVL_TYPE_U64,
			    exclusive ? &a : &next, 1);
		a = next;
	}
}

static void cumulate_line(const struct lines *l, int64_t i)
{
	bool exclusive = rvl_attr_int(l->c, "exclusive") != 0;
	int64_t at = start_of(l, i, l->n);
	int64_t first = l->reverse ? at + (l->n - 1) * l->inner : at;
	int64_t step = l->reverse ? -l->inner : l->inner;

	if (l->c->in[0].type == RVL_TYPE_F32)
		cumulate_float(l, first, step, exclusive);
	else
		cumulate_int(l, first, step, exclusive);
}

static int run_cumulative(struct rvl_call *c, bool products)
{
	struct lines l = { .c = c, .line = cumulate_line, .flag = products };
	int64_t axis;
	int rc = cumulative_axis(c, &axis);

	if (rc)
		return rc;
	l.reverse = rvl_attr_int(c, "reverse") != 0;
	along(&l, &c->in[0].shape, axis);
	return run_lines(&l);
}

static int run_cum_sum(struct rvl_call *c)
{
	return run_cumulative(c, false);
}

static int run_cum_prod(struct rvl_call *c)
{
	return run_cumulative(c, true);
}

/* ---- Softmax, LogSoftmax, Hardmax, LpNormalization ---- */

/* Before opset 13 the operand is a matrix, split at the axis, which may be the rank. */
static int softmax_lines(struct rvl_call *c, struct lines *l)
{
	const struct rvl_shape *s = &c->in[0].shape;
	int64_t axis = rvl_attr_int(c, "axis");

	if (!(c->def->flags & RVL_OP_FLAT_AXES)) {
		if (axis_attr(c, &axis))
			return -EINVAL;
		along(l, s, axis);
		return 0;
	}
	if (axis != s->rank && rvl_fix_axis(c, &axis, s->rank))
		return -EINVAL;
	l->outer = product(s, 0, axis);
	l->n = product(s, axis, s->rank);
	l->inner = 1;
	return 0;
}

static int infer_softmax(struct rvl_call *c)
{
	struct lines l;

	return softmax_lines(c, &l) ? -EINVAL : rvl_infer_same(c);
}

/* flag: the logarithm of the result. */
static void softmax_line(const struct lines *l, int64_t i)
{
	int64_t at = start_of(l, i, l->n), step = l->inner;
	const float *x = (const float *)l->c->in[0].data + at;
	float *y = (float *)l->c->out[0].data + at;
	float top = -INFINITY;
	double sum, factor;
	float log_sum;

	for (int64_t k = 0; k < l->n; k++)
		top = fmaxf(top, x[k * step]);
	sum = rvl_f32_exp_line(x, l->n, step, top, y);
	factor = 1.0 / sum;
	log_sum = (float)log(sum);
	for (int64_t k = 0; k < l->n; k++)
		y[k * step] = l->flag ? x[k * step] - top - log_sum :
			      (float)((double)y[k * step] * factor);
}

static void hardmax_line(const struct lines *l, int64_t i)
{
	int64_t at = start_of(l, i, l->n), best = 0;
	const float *x = l->c->in[0].data;
	float *y = l->c->out[0].data;

	for (int64_t k = 1; k < l->n; k++)
		if (rank_of(RVL_TYPE_F32, x, at + k * l->inner) >
		    rank_of(RVL_TYPE_F32, x, at + best * l->inner))
			best = k;
	for (int64_t k = 0; k < l->n; k++)
		y[at + k * l->inner] = k == best ? 1.0f : 0.0f;
}

static int run_softmax_lines(struct rvl_call *c, bool logarithm,
			     void (*line)(const struct lines *l, int64_t i))
{
	struct lines l = { .c = c, .line = line, .flag = logarithm };

	return softmax_lines(c, &l) ? -EINVAL : run_lines(&l);
}

static int run_softmax(struct rvl_call *c)
{
	return run_softmax_lines(c, false, softmax_line);
}

static int run_log_softmax(struct rvl_call *c)
{
	return run_softmax_lines(c, true, softmax_line);
}

static int run_hardmax(struct rvl_call *c)
{
	return run_softmax_lines(c, false, hardmax_line);
}

static int infer_lp_norm(struct rvl_call *c)
{
	int64_t axis, p = rvl_attr_int(c, "p");

	if (p != 1 && p != 2)
		return rvl_op_fail(c, "attribute p is %lld, not 1 or 2", (long long)p);
	return axis_attr(c, &axis) ? -EINVAL : rvl_infer_same(c);
}

/* flag: p is 1. A line of zeros stays zero. */
static void lp_norm_line(const struct lines *l, int64_t i)
{
	int64_t at = start_of(l, i, l->n), step = l->inner;
	const float *x = (const float *)l->c->in[0].data + at;
	float *y = (float *)l->c->out[0].data + at;
	double norm = 0.0;

	for (int64_t k = 0; k < l->n; k++) {
		double v = (double)x[k * step];

		norm += l->flag ? fabs(v) : v * v;
	}
	norm = l->flag ? norm : sqrt(norm);
	for (int64_t k = 0; k < l->n; k++)
		y[k * step] = norm == 0.0 ? 0.0f : (float)((double)x[k * step] / norm);
}

static int run_lp_norm(struct rvl_call *c)
{
	struct lines l = { .c = c, .line = lp_norm_line, .flag = rvl_attr_int(c, "p") == 1 };
	int64_t axis;

	if (axis_attr(c, &axis))
		return -EINVAL;
	along(&l, &c->in[0].shape, axis);
	return run_lines(&l);
}

/* ---- TopK ---- */

/* The number of requested elements. *known is false where it is known at run time only. */
static int top_k_number(struct rvl_call *c, int64_t most, int64_t *k, bool *known)
{
	uint32_t n;

	*known = true;
	if (c->def->since < 10) {
		*k = rvl_attr_int(c, "k");
	} else {
		if (rvl_count(&c->in[1]) != 1)
			return rvl_op_fail(c, "its input 1 has %lld values, not 1",
					   (long long)rvl_count(&c->in[1]));
		*known = c->in[1].data != NULL;
		*k = most;
		if (*known && rvl_int_input(c, 1, k, 1, &n))
			return -EINVAL;
	}
	if (*k < 0 || *k > most)
		return rvl_op_fail(c, "it requests %lld of %lld elements", (long long)*k,
				   (long long)most);
	return 0;
}

static int infer_top_k(struct rvl_call *c)
{
	struct rvl_shape s = c->in[0].shape;
	int64_t axis = rvl_attr_int(c, "axis");
	bool known;

	if (rvl_fix_axis(c, &axis, s.rank) ||
	    top_k_number(c, s.dim[axis], &s.dim[axis], &known))
		return -EINVAL;
	c->bounded = !known;
	c->varies = known ? 0 : 1u << axis;
	rvl_set_out(c, 0, c->in[0].type, &s);
	rvl_set_out(c, 1, RVL_TYPE_S64, &s);
	return 0;
}

/* Indices of each line, while they are selected and sorted. */
static int64_t scratch_top_k(const struct rvl_call *c)
{
	return rvl_count(&c->out[0]) * (int64_t)sizeof(int64_t);
}

/* Whether element @a of the line comes before element @b. reverse: the smallest come first. */
static bool before(const struct lines *l, int64_t at, int64_t a, int64_t b)
{
	const struct rvl_value *x = &l->c->in[0];
	uint64_t turn = l->reverse ? UINT64_MAX : 0;
	uint64_t va = rank_of(x->type, x->data, at + a * l->inner) ^ turn;
	uint64_t vb = rank_of(x->type, x->data, at + b * l->inner) ^ turn;

	return va != vb ? va > vb : a < b;
}

/*
 * Sifts element @v down from node @i of a heap of @n nodes. Its root is the element that comes
 * last.
 */
static void sink(const struct lines *l, int64_t at, int64_t *heap, int64_t n, int64_t i, int64_t v)
{
	for (int64_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && before(l, at, heap[child], heap[child + 1]))
			child++;
		if (!before(l, at, v, heap[child]))
			break;
		heap[i] = heap[child];
	}
	heap[i] = v;
}

static void top_k_line(const struct lines *l, int64_t i)
{
	const struct rvl_value *x = &l->c->in[0];
	int64_t at = start_of(l, i, l->n), to = start_of(l, i, l->k);
	int64_t *heap = (int64_t *)l->c->scratch + i * l->k;
	size_t size = rvl_type_size(x->type);

	for (int64_t k = 0; k < l->k; k++)
		heap[k] = k;
	for (int64_t k = l->k / 2; k-- > 0;)
		sink(l, at, heap, l->k, k, heap[k]);
	for (int64_t k = l->k; k < l->n; k++)
		if (before(l, at, k, heap[0]))
			sink(l, at, heap, l->k, 0, k);
	for (int64_t n = l->k - 1; n > 0; n--) {
		int64_t last = heap[0];

		sink(l, at, heap, n, 0, heap[n]);
		heap[n] = last;
	}
	for (int64_t k = 0; k < l->k; k++, to += l->inner) {
		if (rvl_wants(l->c, 0))
			memcpy((char *)l->c->out[0].data + (size_t)to * size,
			       (const char *)x->data + (size_t)(at + heap[k] * l->inner) * size, size);
		if (rvl_wants(l->c, 1))
			((int64_t *)l->c->out[1].data)[to] = heap[k];
	}
}

static int run_top_k(struct rvl_call *c)
{
	struct lines l = { .c = c, .line = top_k_line };
	int64_t axis = rvl_attr_int(c, "axis");
	bool known;

	if (rvl_fix_axis(c, &axis, c->in[0].shape.rank) ||
	    top_k_number(c, c->in[0].shape.dim[axis], &l.k, &known))
		return -EINVAL;
	l.reverse = c->def->since >= 11 && !rvl_attr_int(c, "largest");
	along(&l, &c->in[0].shape, axis);
	return l.k ? run_lines(&l) : 0;
}

/* ---- descriptors ---- */

#define ARG(op, opset, fn, text, ...) { \
	.name = op, .since = (opset), .least_in = 1, .most_in = 1, .types = { RVL_T_NUMBER }, \
	.attrs = RVL_ATTRS(RVL_INT("axis", 0), RVL_FLAG("keepdims", 1), ##__VA_ARGS__), \
	.infer = infer_arg, .run = fn, .doc = text }

#define CUMULATIVE(op, opset, fn, text) { \
	.name = op, .since = (opset), .least_in = 2, .most_in = 2, \
	.types = { RVL_T_NUMBER, RVL_T_INDEX }, \
	.attrs = RVL_ATTRS(RVL_FLAG("exclusive", 0), RVL_INT("reverse", 0)), \
	.infer = infer_cumulative, .run = fn, .doc = text }

#define SOFTMAX(op, opset, axis, bits, which, fn, text) { \
	.name = op, .since = (opset), .least_in = 1, .most_in = 1, .types = { RVL_T_FLOAT }, \
	.flags = (bits), .attrs = RVL_ATTRS(RVL_INT("axis", axis)), .infer = infer_softmax, \
	.run = fn, .kernel = which, .doc = text }
#define SOFTMAX_FLAT(op, which, fn, text) SOFTMAX(op, 1, 1, RVL_OP_FLAT_AXES, which, fn, text)
#define SOFTMAX_AXIS(op, which, fn, text) SOFTMAX(op, 13, -1, 0, which, fn, text)

#define TOP_K(opset, in, ...) { \
	.name = "TopK", .since = (opset), .least_in = (in), .most_in = (in), .most_out = 2, \
	.types = { RVL_T_NUMBER, RVL_T(S64) }, \
	.attrs = RVL_ATTRS(RVL_INT("axis", -1), ##__VA_ARGS__), .infer = infer_top_k, \
	.run = run_top_k, .scratch = scratch_top_k, \
	.doc = "the largest or smallest elements along an axis, and their indices" }

const struct rvl_op_def rvl_ops_lines[] = {
	ARG("ArgMax", 1, run_arg_max, "index of the largest element along an axis"),
	ARG("ArgMax", 12, run_arg_max, "index of the largest element along an axis",
	    RVL_FLAG("select_last_index", 0)),
	ARG("ArgMin", 1, run_arg_min, "index of the smallest element along an axis"),
	ARG("ArgMin", 12, run_arg_min, "index of the smallest element along an axis",
	    RVL_FLAG("select_last_index", 0)),
	CUMULATIVE("CumSum", 11, run_cum_sum, "sums of all elements so far along an axis"),
	CUMULATIVE("CumProd", 26, run_cum_prod, "products of all elements so far along an axis"),
	SOFTMAX_FLAT("Softmax", RVL_OP_SOFTMAX, run_softmax, "exp(x) / sum(exp(x)) over all axes from one on"),
	SOFTMAX_AXIS("Softmax", RVL_OP_SOFTMAX, run_softmax, "exp(x) / sum(exp(x)) along an axis"),
	SOFTMAX_FLAT("LogSoftmax", RVL_OP_UNSUPPORTED, run_log_softmax,
		"logarithm of the softmax over all axes from one on"),
	SOFTMAX_AXIS("LogSoftmax", RVL_OP_UNSUPPORTED, run_log_softmax, "logarithm of the softmax along an axis"),
	SOFTMAX_FLAT("Hardmax", RVL_OP_UNSUPPORTED, run_hardmax,
		"1 for the first largest element over all axes from one on, else 0"),
	SOFTMAX_AXIS("Hardmax", RVL_OP_UNSUPPORTED, run_hardmax,
		"1 for the first largest element along an axis, else 0"),
	{ .name = "LpNormalization", .since = 1, .least_in = 1, .most_in = 1,
	  .types = { RVL_T_FLOAT }, .attrs = RVL_ATTRS(RVL_INT("axis", -1), RVL_INT("p", 2)),
	  .infer = infer_lp_norm, .run = run_lp_norm,
	  .doc = "x divided by its norm along an axis" },
	TOP_K(1, 1, RVL_INT_REQUIRED("k")),
	TOP_K(10, 2),
	TOP_K(11, 2, RVL_FLAG("largest", 1), RVL_IGNORED("sorted")),
	RVL_OPS_END
};
