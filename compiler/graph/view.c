/* SPDX-License-Identifier: MIT */
/* Algebra on views. Every product and sum of numbers from a model is checked for overflow. */
#include "graph/view.h"
#include "base/math.h"

#include <stdlib.h>
#include <string.h>

bool rvl_tview_dense(struct rvl_tview *v, const struct rvl_shape *s)
{
	int64_t pitch = 1;

	if (rvl_shape_count(s) < 0)
		return false;
	*v = (struct rvl_tview) { .rank = s->rank };
	for (int d = s->rank - 1; d >= 0; d--) {
		v->dim[d] = s->dim[d];
		v->pitch[d] = pitch;
		pitch *= s->dim[d] ? s->dim[d] : 1;
	}
	return true;
}

int64_t rvl_tview_count(const struct rvl_tview *v)
{
	int64_t n = 1;
	bool empty = false;

	for (int d = 0; d < v->rank; d++) {
		empty |= !v->dim[d];
		if (v->dim[d] && __builtin_mul_overflow(n, v->dim[d], &n))
			return -1;
	}
	return empty ? 0 : n;
}

bool rvl_tview_permute(struct rvl_tview *v, const int32_t *perm)
{
	struct rvl_tview old = *v;
	uint32_t seen = 0;

	for (int d = 0; d < old.rank; d++) {
		if (perm[d] < 0 || perm[d] >= old.rank || seen >> perm[d] & 1)
			return false;
		seen |= 1u << perm[d];
		v->dim[d] = old.dim[perm[d]];
		v->pitch[d] = old.pitch[perm[d]];
	}
	return true;
}

void rvl_tview_normalise(struct rvl_tview *v)
{
	int n = 0;

	for (int d = 0; d < v->rank; d++) {
		int64_t whole;

		if (v->dim[d] == 1)
			continue;
		if (n && !__builtin_mul_overflow(v->pitch[d], v->dim[d], &whole) &&
		    v->pitch[n - 1] == whole &&
		    !__builtin_mul_overflow(v->dim[n - 1], v->dim[d], &whole)) {
			v->dim[n - 1] = whole;
			v->pitch[n - 1] = v->pitch[d];
			continue;
		}
		v->dim[n] = v->dim[d];
		v->pitch[n++] = v->pitch[d];
	}
	v->rank = n;
}

/* Divides an axis of a normalised view, from the innermost on, into the dimensions of a shape. */
struct divider {
	const struct rvl_tview *v;
	int axis;
	int64_t left, pitch; /* of the axis, still to be divided */
};

static bool divide(struct divider *s, int64_t dim, int64_t *pitch)
{
	if (dim == 1) {
		*pitch = 1;
		return true;
	}
	if (s->left == 1) {
		if (--s->axis < 0)
			return false;
		s->left = s->v->dim[s->axis];
		s->pitch = s->v->pitch[s->axis];
	}
	*pitch = s->pitch;
	if (s->left % dim)
		return false;
	s->left /= dim;
	return !__builtin_mul_overflow(s->pitch, dim, &s->pitch);
}

bool rvl_tview_reshape(struct rvl_tview *v, const int64_t *dim, int32_t rank)
{
	struct rvl_tview merged = *v, out = { .origin = v->origin, .rank = rank };
	struct divider s = { .v = &merged, .left = 1 };

	if (rank < 0 || rank > RVL_TVIEW_RANK)
		return false;
	if (rank)
		memcpy(out.dim, dim, (size_t)rank * sizeof(*dim));
	if (rvl_tview_count(&out) != rvl_tview_count(v) || rvl_tview_count(v) < 0)
		return false;
	rvl_tview_normalise(&merged);
	s.axis = merged.rank;
	for (int d = rank - 1; d >= 0 && rvl_tview_count(v); d--)
		if (!divide(&s, dim[d], &out.pitch[d]))
			return false;
	*v = out;
	return true;
}

bool rvl_tview_is_dense(const struct rvl_tview *v)
{
	struct rvl_tview n = *v;

	rvl_tview_normalise(&n);
	return !n.rank || (n.rank == 1 && n.pitch[0] == 1);
}

/* ---- views of views ---- */

/* Where an element of a row-major tensor lies, axis by axis of its normalised view. */
struct digits {
	int64_t weight[RVL_TVIEW_RANK]; /* elements of the tensor by which one step of the axis moves */
	int64_t least[RVL_TVIEW_RANK], most[RVL_TVIEW_RANK]; /* places that are used of each axis */
};

static void take_digits(const struct rvl_tview *of, int64_t origin, struct digits *g)
{
	int64_t weight = 1;

	for (int k = of->rank - 1; k >= 0; k--) {
		g->weight[k] = weight;
		g->least[k] = g->most[k] = origin / weight % of->dim[k];
		weight *= of->dim[k];
	}
}

/* The axis of @of along which steps of @pitch elements go. */
static int axis_of(const struct rvl_tview *of, const struct digits *g, int64_t pitch)
{
	int64_t size = llabs(pitch);

	for (int k = 0; k < of->rank; k++)
		if (size >= g->weight[k])
			return size % g->weight[k] ? -1 : k;
	return -1;
}

/*
 * One axis of the outer view as an axis of the store. A long one that crosses axes of @of was not
 * merged there, so it has no single pitch; the caller divides it first where it can.
 */
static bool walk(const struct rvl_tview *of, struct digits *g, int64_t dim, int64_t pitch, int64_t *out)
{
	int64_t reach;
	int k;

	*out = 0;
	if (!pitch || dim == 1)
		return true;
	k = axis_of(of, g, pitch);
	if (k < 0)
		return false;
	pitch /= g->weight[k];
	if (__builtin_mul_overflow(dim - 1, pitch, &reach) ||
	    __builtin_add_overflow(pitch < 0 ? g->least[k] : g->most[k], reach, &reach) || reach < 0 ||
	    reach >= of->dim[k])
		return false;
	*(pitch < 0 ? &g->least[k] : &g->most[k]) = reach;
	return !__builtin_mul_overflow(pitch, of->pitch[k], out);
}

/*
 * Divides axis @d of a view where its steps pass from one axis of @of to the next outer one, so that
 * each part walks along one axis.
 */
static bool divide_axis(struct rvl_tview *v, int d, const struct rvl_tview *of, const struct digits *g)
{
	int k = v->pitch[d] > 0 ? axis_of(of, g, v->pitch[d]) : -1;
	int64_t steps;

	if (k < 0 || of->dim[k] % (v->pitch[d] / g->weight[k]))
		return true;
	steps = of->dim[k] / (v->pitch[d] / g->weight[k]);
	if (v->dim[d] <= steps || v->dim[d] % steps)
		return true;
	if (v->rank == RVL_TVIEW_RANK)
		return false;
	memmove(&v->dim[d + 1], &v->dim[d], (size_t)(v->rank - d) * sizeof(v->dim[0]));
	memmove(&v->pitch[d + 1], &v->pitch[d], (size_t)(v->rank - d) * sizeof(v->pitch[0]));
	v->rank++;
	v->dim[d] /= steps;
	v->dim[d + 1] = steps;
	return !__builtin_mul_overflow(v->pitch[d + 1], steps, &v->pitch[d]);
}

static bool place_origin(const struct rvl_tview *of, const struct digits *g, int64_t *origin)
{
	*origin = of->origin;
	for (int k = 0; k < of->rank; k++) {
		int64_t at;

		if (__builtin_mul_overflow(g->least[k], of->pitch[k], &at) ||
		    __builtin_add_overflow(*origin, at, origin))
			return false;
	}
	return true;
}

bool rvl_tview_compose(struct rvl_tview *v, const struct rvl_tview *of)
{
	struct rvl_tview base = *of, out = *v;
	struct digits g;

	if (!rvl_tview_inside(v, rvl_tview_count(of)))
		return false;
	if (!rvl_tview_count(v)) {
		v->origin = of->origin;
		return true;
	}
	rvl_tview_normalise(&base);
	take_digits(&base, v->origin, &g);
	if (!place_origin(&base, &g, &out.origin))
		return false;
	for (int d = out.rank - 1; d >= 0;) {
		int rank = out.rank;

		if (!divide_axis(&out, d, &base, &g))
			return false;
		d -= out.rank == rank;
	}
	for (int d = 0; d < out.rank; d++)
		if (!walk(&base, &g, out.dim[d], out.pitch[d], &out.pitch[d]))
			return false;
	if (!rvl_tview_reshape(&out, v->dim, v->rank))
		return false;
	*v = out;
	return true;
}

/* ---- what a view touches ---- */

bool rvl_tview_bounds(const struct rvl_tview *v, int64_t *least, int64_t *greatest)
{
	int64_t lo = v->origin, hi = v->origin;

	for (int d = 0; d < v->rank; d++) {
		int64_t reach;

		if (v->dim[d] <= 0 || __builtin_mul_overflow(v->dim[d] - 1, v->pitch[d], &reach) ||
		    __builtin_add_overflow(reach < 0 ? lo : hi, reach, reach < 0 ? &lo : &hi))
			return false;
	}
	*least = lo;
	*greatest = hi;
	return true;
}

bool rvl_tview_inside(const struct rvl_tview *v, int64_t count)
{
	int64_t least, greatest;

	for (int d = 0; d < v->rank; d++)
		if (v->dim[d] < 0)
			return false;
	if (!rvl_tview_count(v))
		return true;
	return rvl_tview_bounds(v, &least, &greatest) && least >= 0 && greatest < count;
}

/* The axes by pitch, the greatest first, all pitches made positive. */
static void sort_axes(struct rvl_tview *v)
{
	for (int d = 0; d < v->rank; d++) {
		if (v->pitch[d] < 0) {
			v->origin += (v->dim[d] - 1) * v->pitch[d];
			v->pitch[d] = -v->pitch[d];
		}
		for (int k = d; k && v->pitch[k - 1] < v->pitch[k]; k--) {
			int64_t dim = v->dim[k], pitch = v->pitch[k];

			v->dim[k] = v->dim[k - 1];
			v->pitch[k] = v->pitch[k - 1];
			v->dim[k - 1] = dim;
			v->pitch[k - 1] = pitch;
		}
	}
}

bool rvl_tview_repeats(const struct rvl_tview *v)
{
	struct rvl_tview s = *v;
	int64_t least, greatest, inner = 0;

	if (!rvl_tview_count(v))
		return false;
	if (!rvl_tview_bounds(v, &least, &greatest))
		return true;
	rvl_tview_normalise(&s);
	sort_axes(&s);
	for (int d = s.rank - 1; d >= 0; d--) {
		if (s.pitch[d] <= inner)
			return true;
		inner += (s.dim[d] - 1) * s.pitch[d];
	}
	return false;
}

static int64_t gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

/* Every difference of two elements is a multiple of all pitches' common divisor. */
static bool meets_modulo(const struct rvl_tview *a, const struct rvl_tview *b)
{
	int64_t g = 0;

	for (int d = 0; d < a->rank; d++)
		g = gcd(a->pitch[d], g);
	for (int d = 0; d < b->rank; d++)
		g = gcd(b->pitch[d], g);
	return g ? (a->origin - b->origin) % g == 0 : a->origin == b->origin;
}

/* From the first to the last element of the innermost axis. */
static int64_t innermost_reach(const struct rvl_tview *v)
{
	return v->rank ? (v->dim[v->rank - 1] - 1) * v->pitch[v->rank - 1] : 0;
}

/*
 * Modulo the common divisor of all pitches but the innermost ones, each view lies in one interval of a
 * circle.
 */
static bool meets_as_intervals(const struct rvl_tview *a, const struct rvl_tview *b)
{
	int64_t g = 0, behind;

	for (int d = 0; d < a->rank - 1; d++)
		g = gcd(a->pitch[d], g);
	for (int d = 0; d < b->rank - 1; d++)
		g = gcd(b->pitch[d], g);
	if (!g)
		return true;
	behind = (b->origin - a->origin) % g;
	behind += behind < 0 ? g : 0;
	return behind <= innermost_reach(a) || innermost_reach(b) >= g - behind;
}

/*
 * Two boxes of one row-major grid: the pitches of both, each dividing the next larger one, are the
 * weights of a number system in which the elements of a view are a box. They meet if they do along
 * every weight. Returns true where the views are no such boxes.
 */
static bool meets_as_boxes(const struct rvl_tview *a, const struct rvl_tview *b)
{
	int64_t ra = a->origin, rb = b->origin;
	int i = 0, j = 0;
	bool apart = false;

	while (i < a->rank || j < b->rank) {
		int64_t pa = i < a->rank ? a->pitch[i] : 0, pb = j < b->rank ? b->pitch[j] : 0;
		int64_t weight = pa > pb ? pa : pb, na = 1, nb = 1, reach_a = 0, reach_b = 0;

		if (pa == weight)
			na = a->dim[i++];
		if (pb == weight)
			nb = b->dim[j++];
		for (int k = i; k < a->rank; k++)
			reach_a += (a->dim[k] - 1) * a->pitch[k];
		for (int k = j; k < b->rank; k++)
			reach_b += (b->dim[k] - 1) * b->pitch[k];
		if (ra % weight + reach_a >= weight || rb % weight + reach_b >= weight)
			return true; /* the inner axes carry over into this one */
		apart |= ra / weight + na <= rb / weight || rb / weight + nb <= ra / weight;
		ra %= weight;
		rb %= weight;
	}
	return !apart && ra == rb;
}

bool rvl_tview_overlap(const struct rvl_tview *a, const struct rvl_tview *b)
{
	struct rvl_tview x = *a, y = *b;
	int64_t alo, ahi, blo, bhi;

	if (!rvl_tview_count(a) || !rvl_tview_count(b))
		return false;
	if (!rvl_tview_bounds(a, &alo, &ahi) || !rvl_tview_bounds(b, &blo, &bhi) || alo < 0 ||
	    blo < 0)
		return true;
	if (ahi < blo || bhi < alo)
		return false;
	rvl_tview_normalise(&x);
	rvl_tview_normalise(&y);
	sort_axes(&x);
	sort_axes(&y);
	while (x.rank && !x.pitch[x.rank - 1])
		x.rank--;
	while (y.rank && !y.pitch[y.rank - 1])
		y.rank--;
	if (!meets_modulo(&x, &y) || !meets_as_intervals(&x, &y) || !meets_as_boxes(&x, &y))
		return false;
	x.origin -= rvl_min(alo, blo); /* the grid may begin anywhere */
	y.origin -= rvl_min(alo, blo);
	return meets_as_boxes(&x, &y);
}
