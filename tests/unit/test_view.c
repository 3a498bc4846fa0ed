/* SPDX-License-Identifier: MIT */
/*
 * Views against lists: the elements of a view are also kept as a list of places in the store, and
 * every operation on the view is done to the list element by element.
 */
#include <check.h>
#include <stdbool.h>
#include <string.h>

#include "chance.h"
#include "graph/view.h"
#include "suite.h"

#define STORE 240	/* elements; it has many divisors */
#define CASES 20000
#define STEPS 6

/* A view, and the place of each element in row-major order. */
struct pair {
	struct rvl_tview v;
	int64_t n, at[STORE * 4];
};

static int64_t place_of(const struct rvl_tview *v, int64_t i)
{
	int64_t at = v->origin;

	for (int d = v->rank - 1; d >= 0; d--) {
		at += i % v->dim[d] * v->pitch[d];
		i /= v->dim[d];
	}
	return at;
}

/* Whether the view has the elements of the list in their order. */
static bool agrees(const struct pair *p)
{
	if (rvl_tview_count(&p->v) != p->n)
		return false;
	for (int64_t i = 0; i < p->n; i++)
		if (place_of(&p->v, i) != p->at[i])
			return false;
	return true;
}

static void start(struct pair *p, uint64_t *seed, int64_t count)
{
	struct rvl_shape s = { .rank = (int32_t)chance_range(seed, 0, 4) };
	int64_t left = count;

	for (int d = 0; d < s.rank; d++) {
		int64_t dim = chance_range(seed, 1, 6);

		s.dim[d] = d == s.rank - 1 ? left : left % dim ? 1 : dim;
		left /= s.dim[d];
	}
	ck_assert(rvl_tview_dense(&p->v, &s));
	p->n = s.rank ? count : 1;
	for (int64_t i = 0; i < p->n; i++)
		p->at[i] = i;
}

/* @n elements of an axis from @first on in steps of @step. */
static void take(struct rvl_tview *v, int32_t axis, int64_t first, int64_t step, int64_t n)
{
	v->origin += first * v->pitch[axis];
	v->pitch[axis] *= n > 1 ? step : 1;
	v->dim[axis] = n;
}

/* Axes of one element, and missing ones in front, repeat along the dimensions of @to. */
static void repeat(struct rvl_tview *v, const struct rvl_shape *to)
{
	struct rvl_tview out = { .origin = v->origin, .rank = to->rank };
	int front = to->rank - v->rank;

	for (int d = 0; d < to->rank; d++) {
		out.dim[d] = to->dim[d];
		if (d >= front && v->dim[d - front] != 1)
			out.pitch[d] = v->pitch[d - front];
	}
	*v = out;
}

/* The elements of the list whose coordinate along @axis is first, first + step, … */
static void slice(struct pair *p, uint64_t *seed)
{
	struct pair old = *p;
	int32_t axis = p->v.rank ? (int32_t)chance_range(seed, 0, (uint32_t)p->v.rank - 1) : 0;
	int64_t dim = p->v.rank ? p->v.dim[axis] : 1, inner = 1, n, step, first;

	if (!p->v.rank || dim < 1)
		return;
	step = (int64_t)chance_range(seed, 1, 3) * (chance_range(seed, 0, 1) ? 1 : -1);
	n = chance_range(seed, chance_range(seed, 0, 20) > 0, (uint32_t)((dim - 1) / (step < 0 ? -step : step) + 1));
	first = n ? (n - 1) * (step < 0 ? -step : 0) : 0;
	if (n)
		first += chance_range(seed, 0, (uint32_t)(dim - 1 - (n - 1) * (step < 0 ? -step : step)));
	for (int d = axis + 1; d < p->v.rank; d++)
		inner *= p->v.dim[d];
	take(&p->v, axis, first, step, n);
	p->n = 0;
	for (int64_t o = 0; inner && o < old.n / (dim * inner); o++)
		for (int64_t k = 0; k < n; k++)
			for (int64_t i = 0; i < inner; i++)
				p->at[p->n++] = old.at[(o * dim + first + k * step) * inner + i];
}

static void permute(struct pair *p, uint64_t *seed)
{
	struct pair old = *p;
	int64_t own[RVL_TVIEW_RANK], w = 1;
	int32_t perm[RVL_TVIEW_RANK];

	for (int d = p->v.rank - 1; d >= 0; d--) {
		own[d] = w;
		w *= p->v.dim[d];
		perm[d] = d;
	}
	for (int d = p->v.rank - 1; d > 0; d--) {
		int k = (int)chance_range(seed, 0, (uint32_t)d);
		int32_t t = perm[d];

		perm[d] = perm[k];
		perm[k] = t;
	}
	ck_assert(rvl_tview_permute(&p->v, perm));
	for (int64_t i = 0; i < p->n; i++) {
		int64_t left = i, from = 0;

		for (int d = p->v.rank - 1; d >= 0; d--) {
			from += left % p->v.dim[d] * own[perm[d]];
			left /= p->v.dim[d];
		}
		p->at[i] = old.at[from];
	}
}

/* Whether any pitches would do for these dimensions: each is the step of the list along its axis. */
static bool has_pitches(const struct pair *p, const int64_t *dim, int rank)
{
	struct pair q = *p;
	int64_t w = 1;

	q.v.rank = rank;
	q.v.origin = p->n ? p->at[0] : 0;
	for (int d = rank - 1; d >= 0; d--) {
		q.v.dim[d] = dim[d];
		q.v.pitch[d] = dim[d] > 1 && p->n ? p->at[w] - p->at[0] : 0;
		w *= dim[d];
	}
	return agrees(&q);
}

static void reshape(struct pair *p, uint64_t *seed)
{
	int64_t dim[RVL_TVIEW_RANK], left = p->n;
	int rank = (int)chance_range(seed, 1, 5);
	struct rvl_tview old = p->v;

	for (int d = 0; d < rank; d++) {
		int64_t k = chance_range(seed, 1, 6);

		dim[d] = d == rank - 1 ? left : left % k ? 1 : k;
		left /= dim[d] ? dim[d] : 1;
	}
	if (rvl_tview_reshape(&p->v, dim, rank)) {
		ck_assert_int_eq(p->v.rank, rank);
		return;
	}
	ck_assert_msg(!has_pitches(p, dim, rank), "a reshape that needs no copy was refused");
	p->v = old;
}

static void expand(struct pair *p, uint64_t *seed)
{
	struct rvl_shape to = { .rank = p->v.rank + (int)chance_range(seed, 0, 1) };
	int front = to.rank - p->v.rank;
	struct pair old = *p;
	int64_t n = 1;

	if (to.rank > RVL_MAX_RANK)
		return;
	for (int d = 0; d < to.rank; d++) {
		int64_t own = d < front ? 1 : p->v.dim[d - front];

		to.dim[d] = own == 1 ? (int64_t)chance_range(seed, 1, 3) : own;
		n *= to.dim[d];
	}
	if (n > STORE * 4)
		return;
	repeat(&p->v, &to);
	p->n = n;
	for (int64_t i = 0; i < n; i++) {
		int64_t left = i, from = 0, w = 1;

		for (int d = to.rank - 1; d >= front; d--) {
			from += old.v.dim[d - front] == 1 ? 0 : left % to.dim[d] * w;
			left /= to.dim[d];
			w *= old.v.dim[d - front];
		}
		p->at[i] = old.at[from];
	}
}

static void step(struct pair *p, uint64_t *seed)
{
	static void (*const op[])(struct pair *, uint64_t *) = { slice, slice, permute, reshape,
								 expand };

	op[chance_range(seed, 0, 4)](p, seed);
}

static void chain(struct pair *p, uint64_t *seed, int64_t count)
{
	uint32_t n = chance_range(seed, 0, STEPS);

	start(p, seed, count);
	for (uint32_t i = 0; i < n; i++)
		step(p, seed);
}

/* Proves that chains of operations name the elements that the same operations on a list give. */
START_TEST(chains)
{
	uint64_t seed = 1;
	int bad = 0;

	for (int i = 0; i < CASES && !bad; i++) {
		struct pair p;

		chain(&p, &seed, STORE);
		bad += !agrees(&p);
	}
	ck_assert_int_eq(bad, 0);
}
END_TEST

/* Proves that merging axes keeps the elements and their order, and that none can be merged further. */
START_TEST(merged)
{
	uint64_t seed = 2;
	int bad = 0;

	for (int i = 0; i < CASES && !bad; i++) {
		struct pair p;
		int32_t rank;

		chain(&p, &seed, STORE);
		rvl_tview_normalise(&p.v);
		rank = p.v.rank;
		bad += !agrees(&p);
		rvl_tview_normalise(&p.v);
		bad += rank != p.v.rank;
		for (int d = 0; d < rank; d++)
			bad += p.v.dim[d] == 1;
	}
	ck_assert_int_eq(bad, 0);
}
END_TEST

/* Proves that bounds are the least and greatest place, and that dense and repeating views are recognised. */
START_TEST(extent)
{
	uint64_t seed = 3;
	int bad = 0, repeating = 0;

	for (int i = 0; i < CASES && !bad; i++) {
		struct pair p;
		int64_t lo, hi, least = INT64_MAX, greatest = INT64_MIN;
		bool twice = false, dense = true;
		bool seen[STORE] = { false };

		chain(&p, &seed, STORE);
		for (int64_t k = 0; k < p.n; k++) {
			least = p.at[k] < least ? p.at[k] : least;
			greatest = p.at[k] > greatest ? p.at[k] : greatest;
			twice |= seen[p.at[k]];
			seen[p.at[k]] = true;
			dense &= p.at[k] == p.at[0] + k;
		}
		if (!p.n)
			continue;
		bad += !rvl_tview_bounds(&p.v, &lo, &hi) || lo != least || hi != greatest;
		bad += !rvl_tview_inside(&p.v, greatest + 1) || rvl_tview_inside(&p.v, greatest);
		bad += rvl_tview_is_dense(&p.v) != dense;
		bad += twice && !rvl_tview_repeats(&p.v);
		repeating += rvl_tview_repeats(&p.v) && !twice;
	}
	ck_assert_int_eq(bad, 0);
	ck_assert_int_lt(repeating, CASES / 10);
}
END_TEST

static bool share(const struct pair *a, const struct pair *b)
{
	bool seen[STORE] = { false };

	for (int64_t i = 0; i < a->n; i++)
		seen[a->at[i]] = true;
	for (int64_t i = 0; i < b->n; i++)
		if (seen[b->at[i]])
			return true;
	return false;
}

/*
 * Proves that views with a common element are never reported as disjoint, and disjoint views seldom
 * as overlapping.
 */
START_TEST(overlaps)
{
	uint64_t seed = 4;
	int missed = 0, cautious = 0, apart = 0;

	for (int i = 0; i < CASES && !missed; i++) {
		struct pair a, b;
		bool meet;

		chain(&a, &seed, STORE);
		chain(&b, &seed, STORE);
		meet = rvl_tview_overlap(&a.v, &b.v);
		missed += !meet && share(&a, &b);
		cautious += meet && !share(&a, &b);
		apart += !meet;
	}
	ck_assert_int_eq(missed, 0);
	ck_assert_int_gt(apart, 4 * cautious);
}
END_TEST

/*
 * Proves that parts of a Concat along any axis are recognised as disjoint, and that overlapping
 * neighbours are not, wherever in memory the result begins.
 */
START_TEST(parts_of_an_axis)
{
	const struct rvl_shape s = { .rank = 4, .dim = { 2, 6, 5, 4 } };

	for (int i = 0; i < 4 * 240; i++)
		for (int64_t cut = 1; cut < s.dim[i / 240]; cut++) {
			int axis = i / 240;
			struct rvl_tview a, b, c;

			ck_assert(rvl_tview_dense(&a, &s));
			a.origin = i % 240;
			b = c = a;
			take(&a, axis, 0, 1, cut);
			take(&b, axis, cut, 1, s.dim[axis] - cut);
			take(&c, axis, cut - 1, 1, 2);
			ck_assert(!rvl_tview_overlap(&a, &b) && !rvl_tview_overlap(&b, &a));
			ck_assert(rvl_tview_overlap(&a, &c) && rvl_tview_overlap(&c, &b));
		}
}
END_TEST

/*
 * Proves that the bytes of different channels are disjoint where some pixels of one are read and all of
 * the other, whose axes merge, are written; the same channel is not.
 */
START_TEST(bytes_of_channels)
{
	const struct rvl_tview part = { 3236, 3, { 172, 208, 4 }, { 9888, 32, 1 } };
	struct rvl_tview all = { 28, 3, { 172, 309, 4 }, { 9888, 32, 1 } };

	ck_assert(!rvl_tview_overlap(&part, &all) && !rvl_tview_overlap(&all, &part));
	all.origin = 4;
	ck_assert(rvl_tview_overlap(&part, &all) && rvl_tview_overlap(&all, &part));
	all.origin = 7;
	ck_assert(rvl_tview_overlap(&part, &all));
}
END_TEST

/* Proves that a view of a view names the elements of the inner one that the outer one names. */
START_TEST(views_of_views)
{
	uint64_t seed = 5;
	int bad = 0, composed = 0, refused = 0;

	for (int i = 0; i < CASES && !bad; i++) {
		struct pair in, out, both;
		int64_t dims[RVL_TVIEW_RANK];

		chain(&in, &seed, STORE);
		if (in.n < 1 || in.n > STORE)
			continue;
		chain(&out, &seed, in.n);
		both = out;
		for (int64_t k = 0; k < out.n; k++)
			both.at[k] = in.at[out.at[k]];
		memcpy(dims, out.v.dim, sizeof(dims));
		if (rvl_tview_compose(&both.v, &in.v)) {
			bad += !agrees(&both) || both.v.rank != out.v.rank ||
			       memcmp(dims, both.v.dim, (size_t)out.v.rank * sizeof(*dims)) != 0;
			composed++;
		} else {
			refused += has_pitches(&both, out.v.dim, out.v.rank);
		}
	}
	ck_assert_int_eq(bad, 0);
	ck_assert_int_gt(composed, 20 * refused);
}
END_TEST

/* A channel shuffle of 2 groups, and DepthToSpace, are one view each; their whole result is no reshape. */
START_TEST(shuffles)
{
	const struct rvl_shape s = { .rank = 4, .dim = { 1, 8, 3, 3 } };
	const int64_t groups[] = { 1, 2, 4, 3, 3 }, back[] = { 1, 8, 3, 3 };
	const int64_t depth[] = { 1, 2, 2, 2, 3, 3 }, space[] = { 1, 2, 6, 6 };
	const int32_t swap[] = { 0, 2, 1, 3, 4 }, spread[] = { 0, 3, 4, 1, 5, 2 };
	struct rvl_tview v;

	ck_assert(rvl_tview_dense(&v, &s));
	ck_assert(rvl_tview_reshape(&v, groups, 5) && rvl_tview_permute(&v, swap));
	ck_assert(v.pitch[1] == 9 && v.pitch[2] == 36 && !rvl_tview_is_dense(&v));
	ck_assert(!rvl_tview_reshape(&v, back, 4));
	ck_assert(rvl_tview_dense(&v, &s));
	ck_assert(rvl_tview_reshape(&v, depth, 6) && rvl_tview_permute(&v, spread));
	ck_assert(!rvl_tview_repeats(&v) && rvl_tview_inside(&v, 72) && !rvl_tview_inside(&v, 71));
	ck_assert(!rvl_tview_reshape(&v, space, 4));
}
END_TEST

/* Proves that numbers beyond 64 bits, and axes or orders that do not exist, are refused. */
START_TEST(refused)
{
	const struct rvl_shape s = { .rank = 2, .dim = { 4, 6 } };
	const int32_t twice[] = { 0, 0 };
	const int64_t other[] = { 5, 5 };
	struct rvl_tview v, wide = { .rank = 2, .dim = { 1 << 20, 2 }, .pitch = { INT64_MAX / 2, 1 } };
	int64_t lo, hi;

	ck_assert(rvl_tview_dense(&v, &s));
	ck_assert(!rvl_tview_permute(&v, twice) && !rvl_tview_reshape(&v, other, 2));
	ck_assert(!rvl_tview_bounds(&wide, &lo, &hi) && !rvl_tview_inside(&wide, INT64_MAX));
	ck_assert(rvl_tview_overlap(&wide, &v) && rvl_tview_repeats(&wide));
	v.origin = -1;
	ck_assert(!rvl_tview_inside(&v, 24));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("view");
	TCase *t = add_case(s, "view", 60, NULL, NULL);

	tcase_add_test(t, chains);
	tcase_add_test(t, merged);
	tcase_add_test(t, extent);
	tcase_add_test(t, overlaps);
	tcase_add_test(t, parts_of_an_axis);
	tcase_add_test(t, bytes_of_channels);
	tcase_add_test(t, views_of_views);
	tcase_add_test(t, shuffles);
	tcase_add_test(t, refused);
	return run_suite(s);
}
