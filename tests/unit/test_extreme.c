/* SPDX-License-Identifier: MIT */
/* Shapes that follow from a size which only a run knows: the bounds of the compiler and the true ones. */
#include <check.h>
#include <errno.h>

#include "graph/graph.h"
#include "graph/interp.h"
#include "onnx/onnx.h"
#include "suite.h"
#include "unit/onnx_text.h"

#define N 6

static struct rvl_err err;

/* x is 1 at n places and 0 elsewhere, w is 0 to 35; s: n, the number of them, as a list; k: 6. */
static const struct {
	const char *text;
	int64_t bound;
	int64_t scale, shift;	/* y has scale * n + shift elements, or n * n if the shift is negative */
	int64_t most;		/* but no more than that */
	double sum[N + 1];	/* of y, for each n */
} rows[] = {
	{ "ConstantOfShape s -> y", N, 1, 0, N, { 0 } },
	{ "Squeeze s -> c; Range z c o -> y", N, 1, 0, N, { 0, 0, 1, 3, 6, 10, 15 } },
	{ "Squeeze s -> c; Add c o -> d; Range o d o -> y", N, 1, 0, N, { 0, 1, 3, 6, 10, 15, 21 } },
	/* What a list lacks to a fixed length: most if the list is empty. */
	{ "Sub k s -> r; ConstantOfShape r -> c; Cast c -> d to=1; Exp d -> y", N, -1, N, N, { 6, 5, 4, 3, 2, 1, 0 } },
	{ "Squeeze i zl -> j; Gather x j -> v; Sub k s -> r; Concat zl r -> p axis=0; Pad v p -> y",
	  N, 0, N, N, { 0, 1, 2, 3, 4, 5, 6 } },
	{ "Min s four -> m; TopK x m -> y t", 4, 1, 0, 4, { 0, 1, 2, 3, 4, 4, 4 } },
	{ "Concat s two -> e axis=0; Expand f e -> y", 2 * N, 2, 0, 2 * N, { 0, 2, 4, 6, 8, 10, 12 } },
	{ "Tile f s -> y", N, 1, 0, N, { 0, 1, 2, 3, 4, 5, 6 } },
	{ "Add s two -> e; Tile f e -> y", N + 2, 1, 2, N + 2, { 2, 3, 4, 5, 6, 7, 8 } },
	{ "Slice w zl s zl -> y", 6 * N, 6, 0, 6 * N, { 0, 15, 66, 153, 276, 435, 630 } },
	{ "Slice x zl s -> y", N, 1, 0, N, { 0, 1, 2, 3, 4, 5, 6 } },
	/* An end that is data, not a size: the operand is the bound. */
	{ "ReduceSum x -> t keepdims=1; Cast t -> e to=7; Slice w zl e zl -> y", 6 * N, 6, 0, 6 * N,
	  { 0, 15, 66, 153, 276, 435, 630 } },
	{ "Slice w zl s zl -> v; Concat s three -> e axis=0; Concat e two -> g axis=0; Reshape v g -> y",
	  6 * N, 6, 0, 6 * N, { 0, 15, 66, 153, 276, 435, 630 } },
	{ "Squeeze i zl -> j; OneHot j s v01 -> y", N * N, 0, -1, N * N, { 0, 1, 2, 3, 4, 5, 6 } },
};

static struct rvl_graph *load(const char *text, struct pb *m)
{
	static char all[2048];
	struct rvl_graph *g = NULL;

	snprintf(all, sizeof(all),
		 "in x f32 6; out y; const z s64 - 0; const o s64 - 1; const zl s64 1 0; const k s64 1 6; "
		 "const two s64 1 2; const three s64 1 3; const four s64 1 4; const f f32 1 1; "
		 "const v01 f32 2 0 1; "
		 "const w f32 6,6 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 "
		 "30 31 32 33 34 35; "
		 "NonZero x -> i; Shape i -> s start=1; %s", text);
	*m = ot_model(all, 18);
	ck_assert_msg(!rvl_onnx_load(m->p, m->n, NULL, &g, &err), "%s", err.msg);
	ck_assert_msg(!rvl_shape_infer(g, &err) && !rvl_graph_check_supported(g, &err), "%s: %s", text, err.msg);
	return g;
}

static int run(struct rvl_interp *it, int n)
{
	float x[N];

	for (int i = 0; i < N; i++)
		x[i] = i < n;
	ck_assert_msg(!rvl_interp_set(it, 0, x, sizeof(x), &err), "%s", err.msg);
	return rvl_interp_run(it, &err);
}

static double sum_of(const struct rvl_interp *it, const struct rvl_tensor *y)
{
	const void *data = rvl_interp_data(it, y);
	double sum = 0;

	for (int64_t i = 0; i < rvl_shape_count(rvl_interp_shape(it, y)); i++)
		sum += y->type == RVL_TYPE_F32 ? (double)((const float *)data)[i] :
		       (double)((const int64_t *)data)[i];
	return sum;
}

START_TEST(sizes_of_a_run_have_bounds)
{
	struct pb m;
	struct rvl_graph *g = load(rows[_i].text, &m);
	const struct rvl_tensor *y = g->outputs[0];
	struct rvl_interp *it;

	ck_assert_int_eq(rvl_shape_count(&y->shape), rows[_i].bound);
	ck_assert(y->bounded);
	ck_assert_msg(!rvl_interp_new(g, true, &it, &err), "%s", err.msg);
	for (int n = 0; n <= N; n++) {
		int64_t want = rows[_i].shift < 0 ? n * n : rows[_i].scale * n + rows[_i].shift;

		ck_assert_msg(!run(it, n), "%s, n = %d: %s", rows[_i].text, n, err.msg);
		ck_assert_int_eq(rvl_shape_count(rvl_interp_shape(it, y)),
				 want < rows[_i].most ? want : rows[_i].most);
		ck_assert_double_eq_tol(sum_of(it, y), rows[_i].sum[n], 1e-5);
	}
	rvl_interp_free(it);
	rvl_graph_free(g);
	free(m.p);
}
END_TEST

/* n * (6 - n) is 0 for none and for all of the elements: the run refuses the sizes between. */
START_TEST(a_size_beyond_the_bound_is_an_error)
{
	struct pb m;
	struct rvl_graph *g = load("Sub k s -> r; Mul s r -> q; ConstantOfShape q -> y", &m);
	struct rvl_interp *it;

	ck_assert_int_eq(rvl_shape_count(&g->outputs[0]->shape), 0);
	ck_assert_msg(!rvl_interp_new(g, true, &it, &err), "%s", err.msg);
	ck_assert_int_eq(run(it, N), 0);
	ck_assert_int_eq(run(it, 3), -EINVAL);
	ck_assert_msg(strstr(err.msg, "(ConstantOfShape)") &&
		      strstr(err.msg, "its output 0 is larger than its bound of 0 elements"), "%s", err.msg);
	rvl_interp_free(it);
	rvl_graph_free(g);
	free(m.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("extreme");
	TCase *t = tcase_create("extreme");

	tcase_add_loop_test(t, sizes_of_a_run_have_bounds, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(t, a_size_beyond_the_bound_is_an_error);
	suite_add_tcase(s, t);
	return run_suite(s);
}
