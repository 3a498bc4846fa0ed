/* SPDX-License-Identifier: MIT */
/*
 * Reductions over a set of axes. Floats are reduced in double, and so are the integers of reductions
 * that take a root or a logarithm; sums and products of integers wrap around in 64 bits.
 */
#include <math.h>
#include <string.h>

#include "rivulet_op.h"

#define ROW 256		/* elements at a time */

/* A number in the class that it is reduced in. */
union number {
	double d;
	int64_t s;
	uint64_t u;
};

/* Folds x[i] into a[i * step] for all i. shift[i * step] is the shift of that result. */
typedef void (*fold_fn)(union number *a, int64_t step, const union number *x, int64_t n,
			const double *shift);

#define FOLD(name, in, expr) \
	static void name(union number *a, int64_t step, const union number *x, int64_t n, \
			 const double *shift) \
	{ \
		(void)shift; \
		for (int64_t i = 0; i < n; i++) { \
			__typeof__(x[0].in) r = a[i * step].in, v = x[i].in; \
			a[i * step].in = (expr); \
		} \
	}

FOLD(sum_d, d, r + v)
FOLD(sum_u, u, r + v)
FOLD(product_d, d, r * v)
FOLD(product_u, u, r * v)
FOLD(square_d, d, r + v * v)
FOLD(square_u, u, r + v * v)
FOLD(magnitude_d, d, r + fabs(v))
FOLD(magnitude_s, s, (int64_t)((uint64_t)r + (v < 0 ? 0 - (uint64_t)v : (uint64_t)v)))
/* As in NumPy, the maximum and the minimum with a NaN are NaN. */
FOLD(max_d, d, isnan(r) || r > v ? r : v)
FOLD(max_s, s, r > v ? r : v)
FOLD(max_u, u, r > v ? r : v)
FOLD(min_d, d, isnan(r) || r < v ? r : v)
FOLD(min_s, s, r < v ? r : v)
FOLD(min_u, u, r < v ? r : v)

static void sum_of_exp(union number *a, int64_t step, const union number *x, int64_t n,
		       const double *shift)
{
	for (int64_t i = 0; i < n; i++)
		a[i * step].d += exp(x[i].d - shift[i * step]);
}

enum start { FROM_0, FROM_1, FROM_LEAST, FROM_MOST };
enum finish { AS_IT_IS, MEAN, ROOT, LOG, LOG_AND_SHIFT };

/* A reduction; a class without a function is reduced in double. */
struct reduction {
	fold_fn d, s, u;
	enum start start;
	enum finish finish;
};

static const struct reduction sum = { sum_d, sum_u, sum_u, FROM_0, AS_IT_IS };
static const struct reduction mean = { sum_d, sum_u, sum_u, FROM_0, MEAN };
static const struct reduction product = { product_d, product_u, product_u, FROM_1, AS_IT_IS };
static const struct reduction largest = { max_d, max_s, max_u, FROM_LEAST, AS_IT_IS };
static const struct reduction smallest = { min_d, min_s, min_u, FROM_MOST, AS_IT_IS };
static const struct reduction l1 = { magnitude_d, magnitude_s, sum_u, FROM_0, AS_IT_IS };
static const struct reduction l2 = { square_d, NULL, NULL, FROM_0, ROOT };
static const struct reduction log_sum = { sum_d, NULL, NULL, FROM_0, LOG };
static const struct reduction log_sum_exp = { sum_of_exp, NULL, NULL, FROM_0, LOG_AND_SHIFT };
static const struct reduction sum_square = { square_d, square_u, square_u, FROM_0, AS_IT_IS };

/* The operand with neighbouring axes merged that are all kept or all reduced. */
struct reduce {
	const struct rvl_call *c;
	const struct reduction *what;
	fold_fn fold;
	enum rvl_type in;		/* F64, S64 or U64 */
	int rank;
	int64_t dim[RVL_MAX_RANK], stride[RVL_MAX_RANK];
	bool gone[RVL_MAX_RANK];
	int64_t positions;		/* of the reduced axes but the innermost axis */
	int64_t folded;			/* elements that go into one result */
};

/* ---- shape ---- */

static int reduced_axes(struct rvl_call *c, uint32_t *set)
{
	int64_t rank = c->in[0].shape.rank;
	bool given, input = c->def->most_in > 1;
	int rc = rvl_axes(c, input ? NULL : "axes", 1, rank, set, &given);

	if (!rc && !*set && !(input && rvl_attr_int(c, "noop_with_empty_axes")))
		*set = (1u << rank) - 1;
	return rc;
}

static int infer_reduce(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	bool keep = rvl_attr_int(c, "keepdims") != 0;
	struct rvl_shape s = { .rank = 0 };
	uint32_t set;
	int rc = reduced_axes(c, &set);

	for (int i = 0; i < x->rank && !rc; i++) {
		bool gone = set >> i & 1;

		if (keep || !gone)
			s.dim[s.rank++] = gone ? 1 : x->dim[i];
	}
	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &s);
	return rc;
}

/* ---- computation ---- */

static void merge_axes(struct reduce *r, const struct rvl_shape *x, uint32_t set)
{
	for (int i = 0; i < x->rank; i++) {
		bool gone = set >> i & 1;

		if (x->dim[i] == 1)
			continue;
		if (r->rank && r->gone[r->rank - 1] == gone) {
			r->dim[r->rank - 1] *= x->dim[i];
			continue;
		}
		r->gone[r->rank] = gone;
		r->dim[r->rank++] = x->dim[i];
	}
	if (!r->rank)
		r->dim[r->rank++] = 1;
	r->positions = 1;
	r->folded = 1;
	for (int64_t i = r->rank - 1, n = 1; i >= 0; i--) {
		r->stride[i] = n;
		n *= r->dim[i];
		r->folded *= r->gone[i] ? r->dim[i] : 1;
		r->positions *= r->gone[i] && i < r->rank - 1 ? r->dim[i] : 1;
	}
}

/* Where position @at of the kept (or reduced) axes but the innermost one begins. */
static int64_t place_of(const struct reduce *r, int64_t at, bool gone)
{
	int64_t pos = 0;

	for (int i = r->rank - 2; i >= 0; i--) {
		if (r->gone[i] != gone)
			continue;
		pos += at % r->dim[i] * r->stride[i];
		at /= r->dim[i];
	}
	return pos;
}

static void load(const struct reduce *r, int64_t pos, int64_t n, union number *x)
{
	const struct rvl_value *v = &r->c->in[0];

	if (v->type == RVL_TYPE_F32)
		for (int64_t i = 0; i < n; i++)
			x[i].d = (double)((const float *)v->data)[pos + i];
	else
		rvl_convert(r->in, x, v->type,
			    (const char *)v->data + (size_t)pos * rvl_type_size(v->type), n);
}

/* Folds all elements of @n adjacent results, the first of which begin at @pos. */
static void fold_all(const struct reduce *r, int64_t pos, int64_t n, fold_fn fold,
		     const double *shift, union number *a)
{
	int64_t inner = r->dim[r->rank - 1];
	union number x[ROW];

	for (int64_t p = 0; p < r->positions; p++) {
		int64_t from = pos + place_of(r, p, true);

		if (!r->gone[r->rank - 1]) {
			load(r, from, n, x);
			fold(a, 1, x, n, shift);
			continue;
		}
		for (int64_t i = 0; i < inner; i += ROW) {
			int64_t part = inner - i < ROW ? inner - i : ROW;

			load(r, from + i, part, x);
			fold(a, 0, x, part, shift);
		}
	}
}

/* The bound that every value of an integer type or bool is within; infinity in double. */
static union number bound(const struct reduce *r, bool most)
{
	enum rvl_type t = r->c->in[0].type;
	uint32_t bits = 8 * (uint32_t)rvl_type_size(t);

	if (r->in == RVL_TYPE_F64)
		return (union number) { .d = most ? INFINITY : -INFINITY };
	if (t == RVL_TYPE_BOOL)
		return (union number) { .u = most };
	if (r->in == RVL_TYPE_U64)
		return (union number) { .u = most ? UINT64_MAX >> (64 - bits) : 0 };
	return (union number) { .s = most ? INT64_MAX >> (64 - bits) : INT64_MIN >> (64 - bits) };
}

static union number start_of(const struct reduce *r)
{
	if (r->what->start == FROM_LEAST || r->what->start == FROM_MOST)
		return bound(r, r->what->start == FROM_MOST);
	if (r->in == RVL_TYPE_F64)
		return (union number) { .d = r->what->start == FROM_1 ? 1.0 : 0.0 };
	return (union number) { .u = r->what->start == FROM_1 };
}

static void divide(const struct reduce *r, union number *a)
{
	if (r->in == RVL_TYPE_F64)
		a->d /= (double)r->folded;
	else if (!r->folded)
		a->u = 0;
	else if (r->in == RVL_TYPE_S64)
		a->s /= r->folded;
	else
		a->u /= (uint64_t)r->folded;
}

static void finish(const struct reduce *r, int64_t n, const double *shift, union number *a)
{
	for (int64_t i = 0; i < n; i++) {
		switch (r->what->finish) {
		case AS_IT_IS:
			break;
		case MEAN:
			divide(r, &a[i]);
			break;
		case ROOT:
			a[i].d = sqrt(a[i].d);
			break;
		case LOG:
			a[i].d = log(a[i].d);
			break;
		case LOG_AND_SHIFT:
			a[i].d = log(a[i].d) + shift[i];
			break;
		}
	}
}

/* The largest element of each result, so that no exponential overflows. */
static void find_shift(const struct reduce *r, int64_t pos, int64_t n, double *shift)
{
	union number top[ROW];

	for (int64_t i = 0; i < n; i++)
		top[i].d = -INFINITY;
	fold_all(r, pos, n, max_d, NULL, top);
	for (int64_t i = 0; i < n; i++)
		shift[i] = isfinite(top[i].d) ? top[i].d : 0.0;
}

static void reduce_range(void *arg, int64_t first, int64_t past)
{
	const struct reduce *r = arg;
	int64_t width = r->gone[r->rank - 1] ? 1 : r->dim[r->rank - 1];
	size_t size = rvl_type_size(r->c->out[0].type);
	double shift[ROW] = { 0 };
	union number a[ROW];

	for (int64_t at = first, n; at < past; at += n) {
		int64_t pos = place_of(r, at / width, false) + at % width;

		n = width - at % width;
		n = n > past - at ? past - at : n;
		n = n > ROW ? ROW : n;
		for (int64_t i = 0; i < n; i++)
			a[i] = start_of(r);
		if (r->what->finish == LOG_AND_SHIFT)
			find_shift(r, pos, n, shift);
		fold_all(r, pos, n, r->fold, shift, a);
		finish(r, n, shift, a);
		rvl_convert(r->c->out[0].type, (char *)r->c->out[0].data + (size_t)at * size, r->in,
			    a, n);
	}
}

static int run_reduction(struct rvl_call *c, const struct reduction *what)
{
	enum rvl_class k = rvl_class_of(c->in[0].type);
	struct reduce r = { .c = c, .what = what, .in = RVL_TYPE_F64, .fold = what->d };
	uint32_t set;
	int rc = reduced_axes(c, &set);

	if (rc)
		return rc;
	if (k == RVL_CLASS_S64 && what->s) {
		r.in = RVL_TYPE_S64;
		r.fold = what->s;
	} else if (k == RVL_CLASS_U64 && what->u) {
		r.in = RVL_TYPE_U64;
		r.fold = what->u;
	}
	merge_axes(&r, &c->in[0].shape, set);
	rvl_for_range(c, rvl_count(&c->out[0]), 1 + 4096 / (1 + r.folded), reduce_range, &r);
	return 0;
}

#define RUN(name) \
	static int run_##name(struct rvl_call *c) \
	{ \
		return run_reduction(c, &name); \
	}

RUN(sum)
RUN(mean)
RUN(product)
RUN(largest)
RUN(smallest)
RUN(l1)
RUN(l2)
RUN(log_sum)
RUN(log_sum_exp)
RUN(sum_square)

/* ---- descriptors ---- */

#define BY_ATTRIBUTE(op, fn, about, part, text) { \
	.name = op, .since = 1, .least_in = 1, .most_in = 1, .types = { RVL_T_NUMBER }, .flags = (about), \
	.attrs = RVL_ATTRS(RVL_INTS("axes"), RVL_FLAG("keepdims", 1)), \
	.infer = infer_reduce, .run = fn, .role = (part), .doc = text }

#define BY_INPUT(op, opset, set, fn, about, part, text) { \
	.name = op, .since = (opset), .least_in = 1, .most_in = 2, .types = { set, RVL_T(S64) }, \
	.flags = (about), \
	.attrs = RVL_ATTRS(RVL_FLAG("keepdims", 1), RVL_INT("noop_with_empty_axes", 0)), \
	.infer = infer_reduce, .run = fn, .role = (part), .doc = text }

#define REDUCTION(op, opset, set, fn, text) \
	BY_ATTRIBUTE(op, fn, 0, RVL_ROLE_NONE, text), BY_INPUT(op, opset, set, fn, 0, RVL_ROLE_NONE, text)

#define MEAN(op, opset, set, fn, text) \
	BY_ATTRIBUTE(op, fn, RVL_OP_BLENDS, RVL_ROLE_MEAN, text), \
	BY_INPUT(op, opset, set, fn, RVL_OP_BLENDS, RVL_ROLE_MEAN, text)

/*
 * The result is an element of the operand, because bytes have the order of their dequantised
 * values.
 */
#define SELECTION(op, opset, set, fn, text) \
	BY_ATTRIBUTE(op, fn, RVL_OP_MOVES, RVL_ROLE_NONE, text), \
	BY_INPUT(op, opset, set, fn, RVL_OP_MOVES, RVL_ROLE_NONE, text)

const struct rvl_op_def rvl_ops_reduce[] = {
	REDUCTION("ReduceSum", 13, RVL_T_NUMBER, run_sum, "sum along axes"),
	MEAN("ReduceMean", 18, RVL_T_NUMBER, run_mean, "mean along axes"),
	REDUCTION("ReduceProd", 18, RVL_T_NUMBER, run_product, "product along axes"),
	SELECTION("ReduceMax", 18, RVL_T_ANY, run_largest, "largest element along axes"),
	SELECTION("ReduceMin", 18, RVL_T_ANY, run_smallest, "smallest element along axes"),
	REDUCTION("ReduceL1", 18, RVL_T_NUMBER, run_l1, "sum of magnitudes along axes"),
	REDUCTION("ReduceL2", 18, RVL_T_NUMBER, run_l2, "root of the sum of squares along axes"),
	REDUCTION("ReduceLogSum", 18, RVL_T_NUMBER, run_log_sum, "logarithm of the sum along axes"),
	REDUCTION("ReduceLogSumExp", 18, RVL_T_NUMBER, run_log_sum_exp,
		  "logarithm of the sum of exponentials along axes"),
	REDUCTION("ReduceSumSquare", 18, RVL_T_NUMBER, run_sum_square,
		  "sum of squares along axes"),
	RVL_OPS_END
};
