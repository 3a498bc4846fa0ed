/* SPDX-License-Identifier: MIT */
/*
 * Operators whose data determine the number of elements of the result. Their shapes are upper
 * bounds.
 */
#include <string.h>

#include "rivulet_op.h"
#include "sizes.h"

/* ---- sorting ---- */

typedef bool (*before_fn)(const void *ctx, int64_t a, int64_t b);

/* Merges the sorted runs [lo, mid) and [mid, hi). */
static void merge(const int64_t *x, int64_t *y, int64_t lo, int64_t mid, int64_t hi,
		  before_fn before, const void *ctx)
{
	int64_t a = lo, b = mid;

	for (int64_t i = lo; i < hi; i++)
		y[i] = b == hi || (a < mid && !before(ctx, x[b], x[a])) ? x[a++] : x[b++];
}

/* Sorts @n numbers, stable. @spare has room for as many. */
static void sort(int64_t *list, int64_t *spare, int64_t n, before_fn before, const void *ctx)
{
	int64_t *x = list, *y = spare;

	for (int64_t run = 1; run < n; run *= 2) {
		int64_t *done = y;

		for (int64_t lo = 0; lo < n; lo += 2 * run)
			merge(x, y, lo, rvl_least(lo + run, n), rvl_least(lo + 2 * run, n), before, ctx);
		y = x;
		x = done;
	}
	if (x != list && n)
		memcpy(list, x, (size_t)n * sizeof(*list));
}

/* ---- NonZero ---- */

static int infer_non_zero(struct rvl_call *c)
{
	struct rvl_shape y = { .rank = 2, .dim = { c->in[0].shape.rank, rvl_count(&c->in[0]) } };

	c->bounded = true;
	c->varies = 1u << 1;
	rvl_set_out(c, 0, RVL_TYPE_S64, &y);
	return 0;
}

static bool is_zero(const struct rvl_value *v, int64_t i)
{
	return v->type == RVL_TYPE_F32 ? ((const float *)v->data)[i] == 0.0f :
	       !rvl_element_int(v->type, v->data, i);
}

/* The index of the next element in row-major order. */
static void next_index(const struct rvl_shape *s, int64_t *index)
{
	for (int d = s->rank - 1; d >= 0; d--) {
		if (++index[d] < s->dim[d])
			return;
		index[d] = 0;
	}
}

static int run_non_zero(struct rvl_call *c)
{
	const struct rvl_value *x = &c->in[0];
	int64_t count = rvl_count(x), n = 0, at = 0, index[RVL_MAX_RANK] = { 0 };
	int64_t *y = c->out[0].data;

	for (int64_t i = 0; i < count; i++)
		n += !is_zero(x, i);
	c->out[0].shape.dim[1] = n;
	for (int64_t i = 0; i < count; i++, next_index(&x->shape, index)) {
		if (is_zero(x, i))
			continue;
		for (int d = 0; d < x->shape.rank; d++)
			y[d * n + at] = index[d];
		at++;
	}
	return 0;
}

/* ---- an axis, or all elements in order ---- */

struct axis {
	int64_t outer, n, inner;	/* n: along the axis */
	int at;				/* -1: all elements in order */
};

static int find_axis(struct rvl_call *c, struct axis *a)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int64_t axis = rvl_attr_int(c, "axis");
	int rc = 0;

	*a = (struct axis) { .outer = 1, .n = rvl_count(&c->in[0]), .inner = 1, .at = -1 };
	if (!rvl_attr_given(c, "axis"))
		return 0;
	rc = rvl_fix_axis(c, &axis, x->rank);
	if (rc)
		return rc;
	a->at = (int)axis;
	a->n = x->dim[axis];
	for (int d = 0; d < x->rank; d++) {
		a->outer *= d < axis ? x->dim[d] : 1;
		a->inner *= d > axis ? x->dim[d] : 1;
	}
	return 0;
}

/* The shape of the result when @n parts of the axis are in it. */
static struct rvl_shape selected_shape(const struct rvl_call *c, const struct axis *a, int64_t n)
{
	struct rvl_shape y = c->in[0].shape;

	if (a->at < 0)
		return (struct rvl_shape) { .rank = 1, .dim = { n } };
	y.dim[a->at] = n;
	return y;
}

/* Part @from of the axis of the input becomes part @to of @n in the output. */
static void copy_part(const struct rvl_call *c, const struct axis *a, int64_t from, int64_t to,
		      int64_t n)
{
	size_t bytes = (size_t)a->inner * rvl_type_size(c->in[0].type);

	for (int64_t o = 0; bytes && o < a->outer; o++)
		memcpy((char *)c->out[0].data + (size_t)(o * n + to) * bytes,
		       (const char *)c->in[0].data + (size_t)(o * a->n + from) * bytes, bytes);
}

/* ---- Compress ---- */

static int infer_compress(struct rvl_call *c)
{
	struct rvl_shape y;
	struct axis a;
	int rc = find_axis(c, &a);

	if (rc)
		return rc;
	if (c->in[1].shape.rank != 1)
		return rvl_op_fail(c, "its input 1 has %d dimensions, not 1", c->in[1].shape.rank);
	y = selected_shape(c, &a, rvl_least(a.n, c->in[1].shape.dim[0]));
	c->bounded = true;
	c->varies = 1u << (a.at < 0 ? 0 : a.at);
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

static int run_compress(struct rvl_call *c)
{
	const uint8_t *take = c->in[1].data;
	int64_t n = 0, to = 0;
	struct axis a;
	int rc = find_axis(c, &a);

	for (int64_t i = 0; i < c->in[1].shape.dim[0] && !rc; i++) {
		if (take[i] && i >= a.n)
			return rvl_op_fail(c, "its condition selects element %lld of %lld", (long long)i,
					   (long long)a.n);
		n += take[i] != 0;
	}
	if (rc)
		return rc;
	c->out[0].shape = selected_shape(c, &a, n);
	for (int64_t i = 0; to < n; i++)
		if (take[i])
			copy_part(c, &a, i, to++, n);
	return 0;
}

/* ---- Unique ---- */

static int infer_unique(struct rvl_call *c)
{
	struct rvl_shape y, list = { .rank = 1 };
	struct axis a;
	int rc = find_axis(c, &a);

	if (rc)
		return rc;
	y = selected_shape(c, &a, a.n);
	list.dim[0] = a.n;
	c->bounded = true;
	c->varies = 1u << (a.at < 0 ? 0 : a.at);
	rvl_set_out(c, 0, c->in[0].type, &y);
	for (uint32_t i = 1; i < c->n_out; i++)
		rvl_set_out(c, i, RVL_TYPE_S64, &list);
	return 0;
}

/* -1, 0 or 1. NaN is equal to NaN and larger than every number. */
static int compare_floats(float a, float b)
{
	if (a != a || b != b)
		return (a != a) - (b != b);
	return (a > b) - (a < b);
}

static int compare_elements(const struct rvl_value *v, int64_t i, int64_t k)
{
	int64_t a, b;

	if (v->type == RVL_TYPE_F32)
		return compare_floats(((const float *)v->data)[i], ((const float *)v->data)[k]);
	a = rvl_element_int(v->type, v->data, i);
	b = rvl_element_int(v->type, v->data, k);
	if (v->type == RVL_TYPE_U64)
		return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
	return (a > b) - (a < b);
}

struct parts {
	const struct rvl_value *x;
	struct axis a;
};

static int compare_parts(const struct parts *p, int64_t i, int64_t k)
{
	int64_t inner = p->a.inner;
	int sign = 0;

	for (int64_t o = 0; o < p->a.outer && !sign; o++) {
		int64_t base = o * p->a.n * inner;

		for (int64_t e = 0; e < inner && !sign; e++)
			sign = compare_elements(p->x, base + i * inner + e, base + k * inner + e);
	}
	return sign;
}

static bool part_before(const void *ctx, int64_t a, int64_t b)
{
	return compare_parts(ctx, a, b) < 0;
}

/* Four lists of one number for each part. */
static int64_t scratch_unique(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct axis a;

	return find_axis(&copy, &a) ? 0 : 4 * a.n * (int64_t)sizeof(int64_t);
}

/* group[i] becomes the number of the value that part @i has, in ascending order of values. */
static void group_parts(const struct parts *p, int64_t *order, int64_t *spare, int64_t *group)
{
	int64_t g = 0;

	for (int64_t i = 0; i < p->a.n; i++)
		order[i] = i;
	sort(order, spare, p->a.n, part_before, p);
	for (int64_t i = 0; i < p->a.n; i++) {
		g += i && compare_parts(p, order[i - 1], order[i]);
		group[order[i]] = g;
	}
}

/* Copies the first @n numbers of a list to an optional output. */
static void give(struct rvl_call *c, uint32_t i, const int64_t *list, int64_t n)
{
	if (!rvl_wants(c, i))
		return;
	c->out[i].shape.dim[0] = n;
	if (n)
		memcpy(c->out[i].data, list, (size_t)n * sizeof(*list));
}

static int run_unique(struct rvl_call *c)
{
	bool sorted = rvl_attr_int(c, "sorted");
	struct parts p = { .x = &c->in[0] };
	int64_t *first, *id, *group, *count, n = 0;
	int rc = find_axis(c, &p.a);

	if (rc)
		return rc;
	first = c->scratch;
	id = first + p.a.n;
	group = id + p.a.n;
	count = group + p.a.n;
	group_parts(&p, first, id, group);
	for (int64_t i = 0; i < p.a.n; i++)
		id[i] = -1;
	memset(count, 0, (size_t)p.a.n * sizeof(*count));
	for (int64_t i = 0; i < p.a.n; i++) {
		int64_t g = group[i];

		if (id[g] < 0) {
			id[g] = sorted ? g : n;
			first[id[g]] = i;
			n++;
		}
		group[i] = id[g];
		count[id[g]]++;
	}
	if (rvl_wants(c, 0))
		c->out[0].shape = selected_shape(c, &p.a, n);
	for (int64_t i = 0; i < n && rvl_wants(c, 0); i++)
		copy_part(c, &p.a, first[i], i, n);
	give(c, 1, first, n);
	give(c, 2, group, p.a.n);
	give(c, 3, count, n);
	return 0;
}

/* ---- NonMaxSuppression ---- */

struct boxes {
	const struct rvl_call *c;
	int64_t classes, n;		/* n: boxes */
	int64_t most;			/* boxes that are selected for a class */
	float overlap, score;
	bool has_score, centered;
	int64_t *order, *chosen;	/* n numbers for each batch and class, n + 1 of the chosen */
	struct rectangles *area;	/* groups() of them for each batch and class */
};

/* The number of input @i, or NULL where it is absent, empty or not known yet. */
static const void *number_of(const struct rvl_call *c, uint32_t i)
{
	return rvl_has(c, i) && rvl_count(&c->in[i]) ? c->in[i].data : NULL;
}

static int64_t most_boxes(const struct rvl_call *c)
{
	const int64_t *given = number_of(c, 2);
	int64_t n = c->in[0].shape.dim[1];

	if (!rvl_has(c, 2) || !rvl_count(&c->in[2]))
		return 0;
	return !given || *given > n ? n : *given < 0 ? 0 : *given;
}

static int infer_suppression(struct rvl_call *c)
{
	const struct rvl_shape *b = &c->in[0].shape, *s = &c->in[1].shape;
	struct rvl_shape y = { .rank = 2, .dim = { 0, 3 } };

	if (b->rank != 3 || b->dim[2] != 4)
		return rvl_op_fail(c, "its input 0 is not three-dimensional with boxes of 4 numbers");
	if (s->rank != 3 || s->dim[0] != b->dim[0] || s->dim[2] != b->dim[1])
		return rvl_op_fail(c, "its input 1 does not have a score for each class and box");
	for (uint32_t i = 2; i < c->n_in; i++)
		if (rvl_has(c, i) && rvl_count(&c->in[i]) > 1)
			return rvl_op_fail(c, "its input %u is not one number", i);
	y.dim[0] = s->dim[0] * s->dim[1] * most_boxes(c);
	c->bounded = true;
	c->varies = 1u << 0;
	rvl_set_out(c, 0, RVL_TYPE_S64, &y);
	return 0;
}

struct rectangle {
	float x0, x1, y0, y1;
};

#define LANES 16

/* So many rectangles beside each other. Those of zeros overlap nothing. */
struct rectangles {
	float x0[LANES], x1[LANES], y0[LANES], y1[LANES], area[LANES];
};

static int64_t groups(int64_t n)
{
	return (n + LANES - 1) / LANES;
}

/* Each box against all that are selected. */
static int64_t work_suppression(const struct rvl_call *c)
{
	int64_t n = c->in[1].shape.dim[2];

	return rvl_work(rvl_count(&c->in[1]), rvl_work(n + 1, 8));
}

/* For each class of each batch two lists of boxes, the number of those selected, and their rectangles. */
static int64_t scratch_suppression(const struct rvl_call *c)
{
	const struct rvl_shape *s = &c->in[1].shape;

	return s->dim[0] * s->dim[1] * ((2 * s->dim[2] + 1) * (int64_t)sizeof(int64_t) +
					groups(s->dim[2]) * (int64_t)sizeof(struct rectangles));
}

static struct rectangle rectangle_of(const struct boxes *b, const float *v)
{
	float w = v[2] / 2, h = v[3] / 2;

	if (b->centered)
		return (struct rectangle) { v[0] - w, v[0] + w, v[1] - h, v[1] + h };
	return (struct rectangle) { fminf(v[1], v[3]), fmaxf(v[1], v[3]), fminf(v[0], v[2]),
				    fmaxf(v[0], v[2]) };
}

static float area_of(const struct rectangle *r)
{
	return (r->x1 - r->x0) * (r->y1 - r->y0);
}

/* Neither number is NaN: with fminf() and fmaxf() the loop below would not be vectorised. */
static float lesser(float a, float b)
{
	return a < b ? a : b;
}

static float greater(float a, float b)
{
	return a > b ? a : b;
}

/* Whether @p, of an area above 0, overlaps one of the first @n rectangles by more than the limit. */
static bool overlaps(const struct boxes *b, const struct rectangle *p, const struct rectangles *q, int64_t n)
{
	float area = area_of(p);

	for (; n > 0; n -= LANES, q++) {
		int hits = 0;

		for (int i = 0; i < LANES; i++) {
			float w = lesser(p->x1, q->x1[i]) - greater(p->x0, q->x0[i]);
			float h = lesser(p->y1, q->y1[i]) - greater(p->y0, q->y0[i]);
			float common = w * h;

			hits |= (w > 0) & (h > 0) & (common / (area + q->area[i] - common) > b->overlap);
		}
		if (hits)
			return true;
	}
	return false;
}

static void add_rectangle(struct rectangles *q, int64_t n, const struct rectangle *p)
{
	int64_t i = n % LANES;

	q += n / LANES;
	if (!i)
		*q = (struct rectangles) { .area = { 0 } };
	q->x0[i] = p->x0;
	q->x1[i] = p->x1;
	q->y0[i] = p->y0;
	q->y1[i] = p->y1;
	q->area[i] = area_of(p);
}

/* The higher score is first; of equal ones the order of the boxes stays. */
static bool score_before(const void *ctx, int64_t a, int64_t b)
{
	const float *score = ctx;

	return score[a] > score[b];
}

/* Selects the boxes of one class in one batch. The first entry of its list is their number. */
static void select_class(void *arg, uint32_t at)
{
	const struct boxes *b = arg;
	const float *score = (const float *)b->c->in[1].data + at * b->n;
	const float *box = (const float *)b->c->in[0].data + at / b->classes * b->n * 4;
	int64_t *order = b->order + at * b->n, *chosen = b->chosen + at * (b->n + 1);
	struct rectangles *area = b->area + at * groups(b->n);
	int64_t candidates = 0, n = 0, areas = 0;

	for (int64_t i = 0; i < b->n; i++)
		if (!b->has_score || score[i] > b->score)
			order[candidates++] = i;
	sort(order, chosen + 1, candidates, score_before, score);
	for (int64_t i = 0; i < candidates && n < b->most; i++) {
		struct rectangle r = rectangle_of(b, box + order[i] * 4);
		bool has_area = area_of(&r) > 0; /* no coordinate is NaN; others overlap nothing */

		if (has_area && overlaps(b, &r, area, areas))
			continue;
		if (has_area)
			add_rectangle(area, areas++, &r);
		chosen[1 + n++] = order[i];
	}
	chosen[0] = n;
}

static int run_suppression(struct rvl_call *c)
{
	const struct rvl_shape *s = &c->in[1].shape;
	const float *overlap = number_of(c, 3), *score = number_of(c, 4);
	struct boxes b = {
		.c = c, .classes = s->dim[1], .n = s->dim[2], .most = most_boxes(c),
		.overlap = overlap ? *overlap : 0.0f, .score = score ? *score : 0.0f,
		.has_score = score, .centered = rvl_attr_int(c, "center_point_box"),
	};
	int64_t lists = s->dim[0] * s->dim[1], *y = c->out[0].data, n = 0;

	b.order = c->scratch;
	b.chosen = b.order + lists * b.n;
	b.area = (struct rectangles *)(b.chosen + lists * (b.n + 1));
	if (!b.most)
		lists = 0;
	rvl_for(c, (uint32_t)lists, select_class, &b);
	for (int64_t i = 0; i < lists; i++)
		for (int64_t k = 0; k < b.chosen[i * (b.n + 1)]; k++) {
			y[3 * n] = i / b.classes;
			y[3 * n + 1] = i % b.classes;
			y[3 * n + 2] = b.chosen[i * (b.n + 1) + 1 + k];
			n++;
		}
	c->out[0].shape.dim[0] = n;
	return 0;
}

/* ---- the table ---- */

const struct rvl_op_def rvl_ops_select[] = {
	{ .name = "NonZero", .since = 9, .least_in = 1, .most_in = 1, .types = { RVL_T_ANY },
	  .infer = infer_non_zero, .run = run_non_zero,
	  .doc = "the indices of the elements that are not 0" },
	{ .name = "Compress", .since = 9, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_ANY, RVL_T(BOOL) }, .flags = RVL_OP_MOVES,
	  .attrs = RVL_ATTRS(RVL_INT("axis", 0)), .infer = infer_compress, .run = run_compress,
	  .doc = "the parts of an axis that a condition selects" },
	{ .name = "Unique", .since = 11, .least_in = 1, .most_in = 1, .least_out = 1, .most_out = 4,
	  .types = { RVL_T_ANY }, .attrs = RVL_ATTRS(RVL_INT("axis", 0), RVL_INT("sorted", 1)),
	  .infer = infer_unique, .run = run_unique, .scratch = scratch_unique,
	  .doc = "the distinct values, or the distinct slices of an axis" },
	{ .name = "NonMaxSuppression", .since = 10, .work = work_suppression,
	  .least_in = 2, .most_in = 5,
	  .types = { RVL_T_FLOAT, RVL_T_FLOAT, RVL_T(S64), RVL_T_FLOAT },
	  .attrs = RVL_ATTRS(RVL_INT("center_point_box", 0)), .infer = infer_suppression,
	  .run = run_suppression, .scratch = scratch_suppression,
	  .doc = "the boxes of highest score that do not overlap" },
	RVL_OPS_END
};
