/* SPDX-License-Identifier: MIT */
/*
 * Finds tensors of two values: Sign, Where of a comparison, a comparison converted to float and
 * scaled, what training adds to them, and the monotone operators in front of the comparison.
 *
 * The value is a function of one operand, x, that changes once as x grows. The threshold is found by
 * bisection over all floats with the operators' own kernels, so that it is exact: every float below
 * it has one value, and it and every float above have the other.
 */
#include "pass/binary.h"
#include "pass/pass.h"

#include <errno.h>
#include <string.h>

#define MOST_DEPTH 16	/* operators between the comparison and the two values */
#define MOST_CHAIN 8	/* and in front of the comparison */

enum relation { GREATER, NOT_LESS, LESS, NOT_GREATER };

/* @x related to @c is true: the value is @yes, else @no. */
struct decision {
	struct rvl_tensor *x;
	const struct rvl_tensor *c;	/* NULL: 0 */
	enum relation relation;
	float yes, no;
	bool sign_of_zero;
};

bool rvl_is_general(const struct rvl_node *n, const char *name)
{
	return n && n->op == RVL_OP_GENERAL && n->def && !strcmp(n->def->name, name);
}

const float *rvl_channel_constant(const struct rvl_tensor *t, const struct rvl_shape *x, int64_t *step)
{
	int64_t count = t && t->data && t->type == RVL_TYPE_F32 ? rvl_shape_count(&t->shape) : 0;
	int at = t ? 1 - (x->rank - t->shape.rank) : 0;

	*step = count > 1;
	if (count < 1 || t->shape.rank > x->rank)
		return NULL;
	if (count > 1 && (at < 0 || t->shape.dim[at] != count || x->dim[1] != count))
		return NULL;
	return t->data;
}

int rvl_constant_operand(const struct rvl_node *n)
{
	int64_t step;

	if (n->n_in != 2 || !n->in[0] || !n->in[1] || !n->out[0]->shaped)
		return -1;
	for (int i = 0; i < 2; i++)
		if (!n->in[1 - i]->data && n->in[1 - i]->type == RVL_TYPE_F32 &&
		    rvl_shape_equal(&n->in[1 - i]->shape, &n->out[0]->shape) &&
		    rvl_channel_constant(n->in[i], &n->out[0]->shape, &step))
			return i;
	return -1;
}

/* ---- comparisons ---- */

static const struct { const char *name; enum relation relation; } comparisons[] = {
	{ "Greater", GREATER }, { "GreaterOrEqual", NOT_LESS },
	{ "Less", LESS }, { "LessOrEqual", NOT_GREATER },
};

/* c related to x, as x related to c. */
static enum relation exchanged(enum relation r)
{
	static const enum relation other[] = { LESS, NOT_GREATER, GREATER, NOT_LESS };

	return other[r];
}

static enum relation negated(enum relation r)
{
	static const enum relation other[] = { NOT_GREATER, LESS, NOT_LESS, GREATER };

	return other[r];
}

static bool is_float_result(const struct rvl_tensor *t)
{
	return t && !t->data && t->type == RVL_TYPE_F32 && t->shaped && !t->bounded &&
	       (t->shape.rank == 2 || t->shape.rank == 4);
}

/* With a NaN both a comparison and its negation would be constant, and not opposite ones. */
static bool is_bound(const struct rvl_tensor *c, const struct rvl_shape *x)
{
	int64_t step;
	const float *v = rvl_channel_constant(c, x, &step);

	for (int64_t i = 0; v && i < rvl_shape_count(&c->shape); i++)
		if (isnan(v[i]))
			return false;
	return v;
}

static bool compares(const struct rvl_tensor *t, struct decision *d)
{
	const struct rvl_node *n = t->producer;

	if (rvl_is_general(n, "Not") && n->in[0]->producer && compares(n->in[0], d)) {
		d->relation = negated(d->relation);
		return true;
	}
	for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++) {
		if (!rvl_is_general(n, comparisons[i].name))
			continue;
		for (int k = 0; k < 2; k++) {
			d->x = n->in[k];
			d->c = n->in[1 - k];
			d->relation = k ? exchanged(comparisons[i].relation) : comparisons[i].relation;
			if (is_float_result(d->x) && is_bound(d->c, &d->x->shape) &&
			    rvl_shape_equal(&d->x->shape, &t->shape))
				return true;
		}
	}
	return false;
}

/* ---- two values ---- */

static bool two_values(struct rvl_tensor *t, struct decision *d, int depth);

/* Sign(Sign(x) + c) with 0 < |c| < 1 has no third value. */
static bool sign_of_sign(const struct rvl_node *n, struct decision *d)
{
	const struct rvl_node *add = n->in[0]->producer, *first;
	int at = add && add->op == RVL_OP_ADD ? rvl_constant_operand(add) : -1;
	float c;

	if (at < 0 || !rvl_const_f32(add->in[at], &c) || !(fabsf(c) > 0) || !(fabsf(c) < 1))
		return false;
	first = add->in[1 - at]->producer;
	if (!rvl_is_general(first, "Sign") || !is_float_result(first->in[0]))
		return false;
	*d = (struct decision) { .x = first->in[0], .relation = c > 0 ? NOT_LESS : GREATER,
				 .yes = 1, .no = -1 };
	return true;
}

static bool sign_values(const struct rvl_node *n, struct decision *d)
{
	if (sign_of_sign(n, d))
		return true;
	*d = (struct decision) { .x = n->in[0], .relation = NOT_LESS, .yes = 1, .no = -1,
				 .sign_of_zero = true };
	return is_float_result(n->in[0]);
}

static bool where_values(const struct rvl_node *n, struct decision *d)
{
	return compares(n->in[0], d) && rvl_const_f32(n->in[1], &d->yes) &&
	       rvl_const_f32(n->in[2], &d->no);
}

static bool cast_values(const struct rvl_node *n, struct decision *d)
{
	d->yes = 1;
	d->no = 0;
	return n->in[0]->type == RVL_TYPE_BOOL && n->out[0]->type == RVL_TYPE_F32 &&
	       compares(n->in[0], d);
}

static float applied(const struct rvl_node *n, int at, float c, float v)
{
	if (n->op == RVL_OP_ADD)
		return v + c;
	if (n->op == RVL_OP_MUL)
		return v * c;
	if (rvl_is_general(n, "Sub"))
		return at ? v - c : c - v;
	return v / c;
}

/* Two values and one constant. */
static bool affine_values(const struct rvl_node *n, struct decision *d, int depth)
{
	int at = rvl_constant_operand(n);
	float c;

	if (at < 0 || !rvl_const_f32(n->in[at], &c) || (!at && rvl_is_general(n, "Div")) ||
	    !two_values(n->in[1 - at], d, depth))
		return false;
	d->yes = applied(n, at, c, d->yes);
	d->no = applied(n, at, c, d->no);
	return true;
}

/* (values - other) + other: how training code passes a gradient of its own. */
static bool straight_through(const struct rvl_node *n, struct decision *d, int depth)
{
	for (int i = 0; i < 2 && n->op == RVL_OP_ADD; i++) {
		const struct rvl_node *sub = n->in[i]->producer;

		if (rvl_is_general(sub, "Sub") && sub->in[1] == n->in[1 - i] &&
		    two_values(sub->in[0], d, depth))
			return true;
	}
	return false;
}

static bool clip_values(const struct rvl_node *n, struct decision *d, int depth)
{
	float lo = n->attr.f_lo, hi = n->attr.f_hi;

	if ((n->n_in > 1 && n->in[1] && !rvl_const_f32(n->in[1], &lo)) ||
	    (n->n_in > 2 && n->in[2] && !rvl_const_f32(n->in[2], &hi)) ||
	    !two_values(n->in[0], d, depth))
		return false;
	d->yes = fminf(fmaxf(d->yes, lo), hi);
	d->no = fminf(fmaxf(d->no, lo), hi);
	return true;
}

static bool two_values(struct rvl_tensor *t, struct decision *d, int depth)
{
	const struct rvl_node *n = t->producer;
	bool affine;

	if (!n || depth > MOST_DEPTH || n->n_out != 1 || t->type != RVL_TYPE_F32)
		return false;
	if (rvl_is_general(n, "Sign"))
		return sign_values(n, d);
	if (rvl_is_general(n, "Where"))
		return where_values(n, d);
	if (rvl_is_general(n, "Cast"))
		return cast_values(n, d);
	if (n->op == RVL_OP_CLIP)
		return clip_values(n, d, depth + 1);
	affine = n->op == RVL_OP_ADD || n->op == RVL_OP_MUL || rvl_is_general(n, "Sub") ||
		 rvl_is_general(n, "Div");
	return affine && (straight_through(n, d, depth + 1) || affine_values(n, d, depth + 1));
}

/* ---- monotone operators in front of the comparison ---- */

/* Operators on one computed operand, and their kernels for one pixel. */
struct chain {
	const struct rvl_node *node[MOST_CHAIN];	/* the one next to the comparison first */
	int operand[MOST_CHAIN];
	struct rvl_kernel *kernel[MOST_CHAIN];
	int n;
	struct rvl_tensor *x;
};

static bool constant_from(const struct rvl_node *n, uint32_t first)
{
	for (uint32_t i = first; i < n->n_in; i++)
		if (n->in[i] && !n->in[i]->data)
			return false;
	return true;
}

/* A PRelu whose slopes are constant by channel and not negative. */
static bool rises(const struct rvl_node *n)
{
	int64_t step, channels = n->in[0]->shape.dim[1];
	const float *slope = rvl_channel_constant(n->in[1], &n->in[0]->shape, &step);

	for (int64_t c = 0; slope && c < channels; c++)
		if (!(slope[c * step] >= 0))
			return false;
	return slope;
}

/* The computed operand of an operator that rises or falls with it in each channel, or -1. */
static int monotone(const struct rvl_node *n)
{
	static const char *const functions[] = { "Neg", "Tanh", "Sigmoid", "HardSigmoid" };
	int at = rvl_constant_operand(n);

	switch (n->op) {
	case RVL_OP_ADD:
	case RVL_OP_MUL:
		return at < 0 ? -1 : 1 - at;
	case RVL_OP_RELU:
	case RVL_OP_CLIP:
	case RVL_OP_BATCH_NORM:
		return constant_from(n, 1) ? 0 : -1;
	case RVL_OP_GENERAL:
		break;
	default:
		return -1;
	}
	if (rvl_is_general(n, "Sub"))
		return at < 0 ? -1 : 1 - at;
	if (rvl_is_general(n, "Div"))
		return at == 1 ? 0 : -1;
	if (rvl_is_general(n, "PRelu"))
		return rises(n) ? 0 : -1;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (rvl_is_general(n, functions[i]))
			return 0;
	return -1;
}

/*
 * A value that something else reads is needed anyway, so that the comparison of it costs nothing more;
 * only clamps, which training adds, are looked through.
 */
static bool seen_through(const struct rvl_tensor *t)
{
	const struct rvl_node *n = t->producer;

	return n->op == RVL_OP_CLIP || rvl_is_general(n, "Tanh") || rvl_only_user(t);
}

/* @all: also values that something else reads. */
static void follow(struct chain *c, bool all)
{
	while (c->n < MOST_CHAIN && c->x->producer && (all || seen_through(c->x))) {
		const struct rvl_node *n = c->x->producer;
		int operand = monotone(n);

		if (operand < 0 || n->n_out != 1 || !is_float_result(n->in[operand]) ||
		    !rvl_shape_equal(&n->in[operand]->shape, &c->x->shape))
			return;
		c->node[c->n] = n;
		c->operand[c->n++] = operand;
		c->x = n->in[operand];
	}
}

static int make_kernels(struct chain *c, const struct rvl_shape *pixel)
{
	struct rvl_kernel_desc d;
	int rc = 0;

	for (int i = 0; i < c->n && !rc; i++) {
		rvl_node_desc(c->node[i], &d);
		d.in[c->operand[i]].shape = d.out[0].shape = *pixel;
		rc = rvl_kernel_new(&d, true, &c->kernel[i], NULL);
	}
	return rc == -ENOMEM ? rc : rc ? -ENOENT : 0;
}

static void drop_kernels(struct chain *c)
{
	for (int i = 0; i < c->n; i++) {
		rvl_kernel_free(c->kernel[i]);
		c->kernel[i] = NULL;
	}
}

/* The chain's result for one value of each channel in @v. */
static int evaluate(const struct chain *c, float *v, float *other, void *scratch, int64_t n)
{
	for (int i = c->n - 1; i >= 0; i--) {
		const void *in[RVL_MAX_IN] = { NULL };

		in[c->operand[i]] = v;
		if (rvl_kernel_run(c->kernel[i], in, (void *[]) { other }, scratch, NULL))
			return -ENOENT;
		memcpy(v, other, (size_t)n * sizeof(*v));
	}
	return 0;
}

/* ---- thresholds ---- */

/* Floats in the order of their values as integers. */
static float float_at(int32_t key)
{
	uint32_t bits = key < 0 ? (uint32_t)INT32_MIN - (uint32_t)key : (uint32_t)key;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

#define KEY_MOST 0x7f7fffff	/* of FLT_MAX */
#define KEY_HALF 0x00800000	/* between a float and its double */

static bool holds(const struct decision *d, float v, int64_t channel)
{
	int64_t step = 0;
	const float *c = d->c ? rvl_channel_constant(d->c, &d->x->shape, &step) : NULL;
	float bound = c ? c[channel * step] : 0;

	switch (d->relation) {
	case GREATER:
		return v > bound;
	case NOT_LESS:
		return v >= bound;
	case LESS:
		return v < bound;
	default:
		return v <= bound;
	}
}

/* The bounds of the search in each channel, and the results of the comparison at them. */
struct search {
	const struct decision *d;
	const struct chain *c;
	int64_t n;
	int64_t least;		/* key of the least value */
	int64_t *lo, *hi;
	bool *at_lo, *at_hi, *now;
	float *v, *other;
	void *scratch;
	bool ends_at_0;		/* the operators give 0 at a bound, and so for a range of values */
};

/* Compares the key of each channel, which @keys gives. */
static int try_keys(struct search *s, const int64_t *keys, bool *result)
{
	int rc;

	for (int64_t i = 0; i < s->n; i++)
		s->v[i] = float_at((int32_t)keys[i]);
	rc = evaluate(s->c, s->v, s->other, s->scratch, s->n);
	for (int64_t i = 0; i < s->n && !rc; i++)
		result[i] = holds(s->d, s->v[i], i);
	return rc;
}

/*
 * Compares one bound of each channel. Where an overflow in the operators leaves no number, as of an
 * infinity times 0, the bound is halved by @step until there is one.
 */
static int try_bounds(struct search *s, int64_t *keys, int64_t step, bool *result)
{
	bool again = true;
	int rc = 0;

	for (int k = 0; k < 255 && again && !rc; k++) {
		rc = try_keys(s, keys, result);
		again = false;
		for (int64_t i = 0; i < s->n && !rc; i++) {
			again |= isnan(s->v[i]);
			keys[i] += k < 254 && isnan(s->v[i]) ? step : 0;
			s->ends_at_0 |= s->v[i] == 0;
		}
	}
	return rc;
}

static int bisect(struct search *s, int64_t *middle)
{
	int rc = 0;

	for (int64_t i = 0; i < s->n; i++) {
		s->lo[i] = s->least;
		s->hi[i] = KEY_MOST;
	}
	rc = try_bounds(s, s->lo, KEY_HALF, s->at_lo);
	if (!rc)
		rc = try_bounds(s, s->hi, -KEY_HALF, s->at_hi);
	for (int k = 0; k < 33 && !rc; k++) {
		for (int64_t i = 0; i < s->n; i++)
			middle[i] = (s->lo[i] + s->hi[i]) >> 1;
		rc = try_keys(s, middle, s->now);
		for (int64_t i = 0; i < s->n && !rc; i++)
			*(s->now[i] == s->at_lo[i] ? &s->lo[i] : &s->hi[i]) = middle[i];
	}
	return rc;
}

static int make_thresholds(struct rvl_graph *g, struct search *s, struct rvl_signs *out)
{
	int64_t *middle = rvl_arena_array(g->arena, (size_t)s->n, sizeof(*middle));
	int rc = middle ? bisect(s, middle) : -ENOMEM;

	for (int64_t i = 0; i < s->n && !rc; i++) {
		bool falls = s->at_lo[i] && !s->at_hi[i];

		out->threshold[i] = float_at((int32_t)s->hi[i]);
		if (s->at_lo[i] == s->at_hi[i])
			out->threshold[i] = s->at_lo[i] ? -INFINITY : NAN;
		out->inverted[i] = falls != (s->d->yes < s->d->no);
	}
	return rc;
}

static int search_new(struct rvl_graph *g, struct search *s, struct rvl_signs *out)
{
	size_t n = (size_t)s->n, scratch = 64;

	for (int i = 0; i < s->c->n; i++)
		scratch = rvl_kernel_scratch(s->c->kernel[i]) > scratch ?
			  rvl_kernel_scratch(s->c->kernel[i]) : scratch;
	s->lo = rvl_arena_array(g->arena, n, sizeof(*s->lo));
	s->hi = rvl_arena_array(g->arena, n, sizeof(*s->hi));
	s->at_lo = rvl_arena_array(g->arena, 3 * n, sizeof(*s->at_lo));
	s->v = rvl_arena_array(g->arena, 2 * n + 64, sizeof(*s->v));
	s->scratch = rvl_arena_alloc(g->arena, scratch);
	out->threshold = rvl_arena_array(g->arena, n, sizeof(*out->threshold));
	out->inverted = rvl_arena_array(g->arena, n, sizeof(*out->inverted));
	if (!s->lo || !s->hi || !s->at_lo || !s->v || !s->scratch || !out->threshold || !out->inverted)
		return -ENOMEM;
	s->at_hi = s->at_lo + n;
	s->now = s->at_hi + n;
	s->other = s->v + n + 32;
	return 0;
}

/* @least: key of the least value that the chain reads */
static int thresholds(struct rvl_graph *g, const struct decision *d, struct chain *c, int64_t least,
		      struct rvl_signs *out, bool *ends_at_0)
{
	struct rvl_shape pixel = d->x->shape;
	struct search s = { .d = d, .c = c, .n = pixel.dim[1], .least = least };
	int rc;

	pixel.dim[0] = 1;
	for (int i = 2; i < pixel.rank; i++)
		pixel.dim[i] = 1;
	rc = make_kernels(c, &pixel);
	if (!rc)
		rc = search_new(g, &s, out);
	if (!rc)
		rc = make_thresholds(g, &s, out);
	drop_kernels(c);
	*ends_at_0 = s.ends_at_0;
	return rc;
}

/* Whether the zero point is the least integer of the type, so that no value is below 0. */
static bool is_least_zero(const struct rvl_node *dq)
{
	const struct rvl_tensor *q = dq->in[0], *zp = dq->n_in > 2 ? dq->in[2] : NULL;

	if (!zp)
		return q->type == RVL_TYPE_U8;
	if (!zp->data || rvl_shape_count(&zp->shape) < 1)
		return false;
	return (zp->type == RVL_TYPE_U8 && *(const uint8_t *)zp->data == 0) ||
	       (zp->type == RVL_TYPE_S8 && *(const int8_t *)zp->data == -128);
}

/* Whether @t is a Relu, pooled or quantised. */
static bool never_below_0(const struct rvl_tensor *t)
{
	const struct rvl_node *n = t->producer;

	while (n && n->op == RVL_OP_MAX_POOL)
		n = n->in[0]->producer;
	return n && (n->op == RVL_OP_RELU || (n->op == RVL_OP_DEQUANTIZE && is_least_zero(n)));
}

/* Whether a Sign reads what is 0 for a range of values, such as a Relu, so that it has three values. */
static int is_often_0(struct rvl_graph *g, const struct decision *d, bool *often)
{
	struct chain c = { .x = d->x };
	struct rvl_signs unused;

	follow(&c, true);
	return thresholds(g, d, &c, never_below_0(c.x) ? 0 : -KEY_MOST, &unused, often);
}

static int find_signs(struct rvl_graph *g, const struct decision *d, struct rvl_signs *s,
		      const char **why)
{
	struct chain c = { .x = d->x };
	bool often = false;
	int rc = d->sign_of_zero ? is_often_0(g, d, &often) : 0;

	if (!rc && often) {
		*why = "not binary: its input is the Sign of a value that is 0 over a range";
		return -ENOENT;
	}
	follow(&c, false);
	*s = (struct rvl_signs) { .x = c.x, .channels = d->x->shape.dim[1], .size = fabsf(d->yes),
				  .sign_of_zero = d->sign_of_zero };
	rc = rc ? rc : thresholds(g, d, &c, -KEY_MOST, s, &often);
	if (rc)
		s->x = NULL;
	return rc;
}

int rvl_binary_signs(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_signs *s,
		     const char **why, struct rvl_err *err)
{
	struct decision d = { .x = NULL };
	int rc;

	*why = NULL;
	if (!is_float_result(t) || !two_values(t, &d, 0) || !rvl_shape_equal(&d.x->shape, &t->shape))
		return -ENOENT;
	if (!isfinite(d.yes) || d.yes == 0 || d.yes != -d.no) {
		*why = rvl_graph_printf(g, "not binary: its input has the values %g and %g, not -s and s",
					(double)d.no, (double)d.yes);
		return -ENOENT;
	}
	rc = find_signs(g, &d, s, why);
	return rc == -ENOMEM ? rvl_fail(err, rc, "no memory for thresholds") : rc;
}
