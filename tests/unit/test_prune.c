/* SPDX-License-Identifier: MIT */
/* Pruning: which weights stay, what is spared, the shares, and what is refused. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "graph/interp.h"
#include "onnx/onnx.h"
#include "pass/passes.h"
#include "rivulet_compiler.h"
#include "rivulet_snr.h"
#include "suite.h"
#include "unit/onnx_text.h"

#define CHANNELS 40 /* two runs of 16 and one of 8 */
#define ROWS	 6
#define TAPS	 4

static struct pb model;
static struct rivulet_blob out;
static struct rivulet_prune_report report;
static struct rvl_err err;
static float weights[ROWS * CHANNELS * TAPS];

static size_t add_const(char *text, size_t at, size_t size, const char *name, const char *dims, uint64_t *seed,
			size_t n, float *keep)
{
	at += (size_t)snprintf(text + at, size - at, "const %s f32 %s", name, dims);
	for (size_t i = 0; i < n; i++) {
		float v = (float)chance_uniform(seed, -1, 1);

		if (keep)
			keep[i] = v;
		at += (size_t)snprintf(text + at, size - at, " %.9g", (double)v);
	}
	return at + (size_t)snprintf(text + at, size - at, "; ");
}

/* A first convolution, a depthwise one, the one whose weights are weights[], and a matrix product. */
static void make_model(uint64_t seed)
{
	static char text[65536];
	size_t at = (size_t)snprintf(text, sizeof(text), "in x f32 1,1,4,4; out y; ");

	at = add_const(text, at, sizeof(text), "a", "40,1,1,1", &seed, CHANNELS, NULL);
	at = add_const(text, at, sizeof(text), "d", "40,1,1,1", &seed, CHANNELS, NULL);
	at = add_const(text, at, sizeof(text), "w", "6,40,2,2", &seed, ROWS * CHANNELS * TAPS, weights);
	at = add_const(text, at, sizeof(text), "m", "54,3", &seed, 54 * 3, NULL);
	snprintf(text + at, sizeof(text) - at,
		 "Conv x a -> p; Conv p d -> q group=40; Conv q w -> r; Flatten r -> f; MatMul f m -> y");
	model = ot_model(text, 13);
}

static int prune(double sparsity, bool global)
{
	static float x[16];
	struct rivulet_examples e = { .data = x, .size = sizeof(x) };
	const struct rivulet_compile_options opt = {
		.quantise = { .examples = &e, .n_examples = 1, .threads = 1 }
	};
	const struct rivulet_prune p = { sparsity, global };
	uint64_t seed = 5;

	for (size_t i = 0; i < 16; i++)
		x[i] = (float)chance_uniform(&seed, -1, 1);
	err.msg[0] = '\0';
	return rivulet_prune(model.p, model.n, &opt, &p, &out, &report, &err);
}

static void release(void)
{
	free(model.p);
	rivulet_blob_free(&out);
}

/* The weights of the written model's constant of so many values. */
static void read_weights(int64_t count, float *to)
{
	struct rvl_graph *g = NULL;
	bool found = false;

	ck_assert_msg(!rvl_onnx_load(out.data, out.size, NULL, &g, &err), "%s", err.msg);
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct rvl_tensor *t = g->tensors[i];

		if (!t->data || t->type != RVL_TYPE_F32 || rvl_shape_count(&t->shape) != count)
			continue;
		memcpy(to, t->data, (size_t)count * sizeof(*to));
		found = true;
	}
	ck_assert_msg(found, "no constant of %lld values", (long long)count);
	rvl_graph_free(g);
}

/* Weights that stay have their value, and none that does not is larger. Returns how many of a run stay. */
static uint32_t check_run(const float *got, int64_t m, int64_t c, int64_t tap)
{
	float least = INFINITY, largest = 0;
	uint32_t n = 0;

	for (int64_t i = c; i < c + 16 && i < CHANNELS; i++) {
		size_t at = (size_t)((m * CHANNELS + i) * TAPS + tap);
		bool stays = fabsf(got[at]) > 0;

		ck_assert(!stays || !memcmp(&got[at], &weights[at], sizeof(float)));
		n += stays;
		least = stays ? fminf(least, fabsf(weights[at])) : least;
		largest = stays ? largest : fmaxf(largest, fabsf(weights[at]));
	}
	ck_assert_float_ge(least, largest);
	return n;
}

START_TEST(the_largest_of_each_run_stay)
{
	static float got[ROWS * CHANNELS * TAPS];

	make_model(1);
	ck_assert_msg(!prune(75, false), "%s", err.msg);
	read_weights(ROWS * CHANNELS * TAPS, got);
	for (int64_t m = 0; m < ROWS; m++)
		for (int64_t c = 0; c < CHANNELS; c += 16)
			for (int64_t tap = 0; tap < TAPS; tap++)
				ck_assert_uint_eq(check_run(got, m, c, tap), 4);
	ck_assert_uint_eq(report.layers, 2);
	ck_assert_uint_eq(report.spared, 2);
	ck_assert_uint_eq(report.weights, ROWS * CHANNELS * TAPS + 54 * 3);
	ck_assert_uint_eq(report.runs, 1);
	ck_assert_double_gt(report.snr_db, -10);
	ck_assert_double_lt(report.snr_db, 60);
	release();
}
END_TEST

/* 80 % is 3.2 of 16: no run keeps more than four, and the share is met. */
START_TEST(a_broken_number_is_shared_among_the_runs)
{
	static float got[ROWS * CHANNELS * TAPS];
	uint32_t count[5] = { 0 }, runs = 0;

	make_model(2);
	ck_assert_msg(!prune(80, false), "%s", err.msg);
	read_weights(ROWS * CHANNELS * TAPS, got);
	for (int64_t m = 0; m < ROWS; m++)
		for (int64_t c = 0; c < CHANNELS; c += 16)
			for (int64_t tap = 0; tap < TAPS; tap++, runs++) {
				uint32_t n = check_run(got, m, c, tap);

				ck_assert_uint_ge(n, 3);
				ck_assert_uint_le(n, 4);
				count[n]++;
			}
	ck_assert_uint_eq(count[4], runs / 5);
	release();
}
END_TEST

START_TEST(all_layers_share_one_goal)
{
	make_model(3);
	ck_assert_msg(!prune(60, true), "%s", err.msg);
	ck_assert_double_le((double)report.kept, 0.5 * (double)report.weights);
	ck_assert_double_ge((double)report.kept, 0.2 * (double)report.weights);
	release();
}
END_TEST

/* What is sparse already keeps every weight, so that the outputs do not change. */
START_TEST(a_pruned_model_stays_as_it_is)
{
	uint64_t kept;

	make_model(4);
	ck_assert_msg(!prune(75, false), "%s", err.msg);
	kept = report.kept;
	free(model.p);
	model.p = out.data;
	model.n = out.size;
	out = (struct rivulet_blob){ 0 };
	ck_assert_msg(!prune(75, false), "%s", err.msg);
	ck_assert_uint_eq(report.kept, kept);
	ck_assert_double_ge(report.snr_db, RVL_SNR_EXACT);
	release();
}
END_TEST

/* ---- an If whose condition depends on the data ---- */

static void put(struct pb *g, unsigned int field, struct pb part)
{
	pb_msg(g, field, &part);
}

/* An attribute that is a graph with the node @op of q. */
static void put_branch(struct pb *n, const char *name, const char *op)
{
	struct pb a = { .p = NULL }, g = { .p = NULL };

	put(&g, 1, pb_node(op, "q", "r"));
	put(&g, 12, pb_value("r", 1, (const int64_t[]) { 2, 4, -1 }));
	pb_str(&a, 1, name);
	put(&a, 6, g);
	pb_int(&a, 20, 5);
	put(n, 5, a);
}

/* y is the Neg or the Abs of two products with positive weights, by the sign of their sum. */
static void make_if(void)
{
	static const float w[2][16] = { { 1, 2, 3, 4, 5, 6 }, { 1, 2, 3, 4, 1, 1, 2, 5, 9 } }, zero;
	struct pb g = { .p = NULL }, n = pb_node("If", "cond", "y"), sum = pb_node("ReduceSum", "q", "s");

	pb_attr_int(&sum, "keepdims", 0);
	put_branch(&n, "then_branch", "Neg");
	put_branch(&n, "else_branch", "Abs");
	put(&g, 11, pb_value("x", 1, (const int64_t[]) { 2, 4, -1 }));
	put(&g, 12, pb_value("y", 1, (const int64_t[]) { 2, 4, -1 }));
	for (int i = 0; i < 2; i++)
		put(&g, 5, pb_tensor(i ? "b" : "a", 1, (const int64_t[]) { 4, 4, -1 }, w[i], sizeof(w[i])));
	put(&g, 5, pb_tensor("zero", 1, (const int64_t[]) { -1 }, &zero, sizeof(zero)));
	put(&g, 1, pb_node("MatMul", "x a", "p"));
	put(&g, 1, pb_node("MatMul", "p b", "q"));
	put(&g, 1, sum);
	put(&g, 1, pb_node("Greater", "s zero", "cond"));
	put(&g, 1, n);
	model = pb_model(&g, 8, 13);
}

/* The result of a model for an operand of eight times @x. */
static void run_written(float x, float *y)
{
	float in[8] = { x, x, x, x, x, x, x, x };
	struct rvl_graph *g = NULL;
	struct rvl_interp *it;

	ck_assert_msg(!rvl_onnx_load(out.data, out.size, NULL, &g, &err), "%s", err.msg);
	ck_assert_msg(!rvl_optimise(g, &err), "%s", err.msg);
	ck_assert_msg(!rvl_interp_new(g, false, &it, &err), "%s", err.msg);
	ck_assert(!rvl_interp_set(it, 0, in, sizeof(in), &err));
	ck_assert_msg(!rvl_interp_run(it, &err), "%s", err.msg);
	memcpy(y, rvl_interp_data(it, g->outputs[0]), 8 * sizeof(*y));
	rvl_interp_free(it);
	rvl_graph_free(g);
}

/* It is supported once it is expanded. Of the branches, one is never positive and one never negative. */
START_TEST(an_if_that_depends_on_the_data_is_kept)
{
	float up[8], down[8];

	make_if();
	ck_assert_msg(!rivulet_prune(model.p, model.n, &(const struct rivulet_compile_options) { 0 },
				     &(const struct rivulet_prune) { 75, false }, &out, &report, &err),
		      "%s", err.msg);
	ck_assert_uint_eq(report.layers, 1);
	run_written(1, up);
	run_written(-1, down);
	for (int i = 0; i < 8; i++) {
		float least = fminf(up[i], down[i]), most = fmaxf(up[i], down[i]);

		ck_assert_float_le(least, 0);
		ck_assert_float_eq(most, -least);
	}
	ck_assert_float_ne(up[0], down[0]);
	release();
}
END_TEST

static const struct {
	const char *text;
	double sparsity;
	const char *error;
} refused[] = {
	{ "in x f32 1,1,2,2; out y; const w f32 2,1,1,1 1 2; Conv x w -> y", 75, "can be pruned" },
	{ "in x f32 1,1,2,2; out y; Relu x -> y", 75, "can be pruned" },
	{ "in x f32 1,1,2,2; out y; Relu x -> y", 0, "between 0 and 100" },
	{ "in x f32 1,1,2,2; out y; Relu x -> y", 100, "between 0 and 100" },
};

START_TEST(what_cannot_be_pruned_is_refused)
{
	model = ot_model(refused[_i].text, 13);
	ck_assert_int_eq(prune(refused[_i].sparsity, false), -EINVAL);
	ck_assert_msg(strstr(err.msg, refused[_i].error), "%s", err.msg);
	ck_assert_ptr_null(out.data);
	release();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("prune");
	TCase *t = add_case(s, "all", 60, NULL, NULL);

	tcase_add_test(t, the_largest_of_each_run_stay);
	tcase_add_test(t, a_broken_number_is_shared_among_the_runs);
	tcase_add_test(t, all_layers_share_one_goal);
	tcase_add_test(t, a_pruned_model_stays_as_it_is);
	tcase_add_test(t, an_if_that_depends_on_the_data_is_kept);
	tcase_add_loop_test(t, what_cannot_be_pruned_is_refused, 0, sizeof(refused) / sizeof(refused[0]));
	return run_suite(s);
}
