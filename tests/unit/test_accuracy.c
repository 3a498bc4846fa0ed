/* SPDX-License-Identifier: MIT */
/*
 * Tests the evaluation of small models whose scores are known: which answers count as right for
 * each type of scores and of data, batches that are not full, threads, and the number of products.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "eval.h"
#include "graph/interp.h"
#include "suite.h"
#include "unit/onnx_text.h"

static struct rvl_err err;

static struct rivulet_eval *open_model(const char *text, const struct rivulet_compile_options *o)
{
	struct pb m = ot_model(text, 13);
	struct rivulet_eval *e = NULL;
	int rc = rivulet_eval_new(m.p, m.n, o, &e, &err);

	ck_assert_msg(!rc, "%s: %s", text, err.msg);
	free(m.p); /* the model was copied */
	return e;
}

static const struct rivulet_eval_spec int8 = { .length = 0 };

static uint64_t right_of(struct rivulet_eval *e, const struct rivulet_eval_data *d,
			 uint32_t threads)
{
	uint64_t right = 99;

	ck_assert_msg(!rivulet_eval_accuracy(e, &int8, d, threads, &right, &err), "%s", err.msg);
	return right;
}

/* Scores are x0, x1 and x0 + x1. */
#define SUM "in x f32 ?,2; out y; const w f32 2,3 1 0 1 0 1 1; MatMul x w -> y"

START_TEST(the_largest_score_is_the_answer)
{
	static const float x[] = { 1, 2, 3, -1, -1, 3, -2, -3, 0, 0, 5, 1, -1, -1 };
	/*
	 * The highest scores: example 0 at index 2; 1 at 2 and 0; 2 at 1; 3 at 0; 4 at 0, the first
	 * of equals; 5 at 2.
	 */
	static const uint8_t labels[] = { 2, 0, 1, 0, 0, 2, 0 }, others[] = { 2, 1, 1, 1, 2, 2, 1 };

	for (int64_t batch = 1; batch <= 8; batch++) {
		const struct rivulet_compile_options o = { .batch = batch };
		struct rivulet_eval_data d = { .f32 = x, .labels = labels, .count = 7, .size = 2 };
		struct rivulet_eval *e = open_model(SUM, &o);

		ck_assert_uint_eq(rivulet_eval_score_bytes(e), 12);
		for (uint32_t threads = 1; threads <= 4; threads++) {
			d.labels = labels;
			ck_assert_uint_eq(right_of(e, &d, threads), 7);
			d.labels = others;
			ck_assert_uint_eq(right_of(e, &d, threads), 3);
		}
		d.count = 1;
		ck_assert_uint_eq(right_of(e, &d, 100), 1);
		ck_assert_ptr_null(rivulet_eval_free(e));
	}
	ck_assert_ptr_null(rivulet_eval_free(NULL));
}
END_TEST

START_TEST(a_batch_has_fifty_examples_unless_asked)
{
	static float x[120];
	float scores[150];
	const struct rivulet_compile_options o = { .batch = 0 };
	struct rivulet_eval_data d = { .f32 = x, .count = 60, .size = 2 };
	struct rivulet_eval *e = open_model(SUM, &o);

	for (int i = 0; i < 120; i++)
		x[i] = (float)i;
	ck_assert_int_eq(rivulet_eval_scores(e, &int8, &d, 0, scores, &err), 50);
	ck_assert_float_eq(scores[49 * 3 + 2], 98 + 99);
	ck_assert_int_eq(rivulet_eval_scores(e, &int8, &d, 50, scores, &err), 10);
	ck_assert_float_eq(scores[0], 100);
	ck_assert_float_eq(scores[9 * 3 + 1], 119);
	rivulet_eval_free(e);
}
END_TEST

/* Examples behind the end of the data are zero, whatever the buffer contained before. */
START_TEST(the_rest_of_a_batch_is_zero)
{
	static const float x[] = { 1, 2, 3, 4, 5, 6 };
	const struct rivulet_compile_options o = { .batch = 2 };
	const struct rivulet_eval_data d = { .f32 = x, .count = 3, .size = 2 };
	struct rivulet_eval *e = open_model(SUM, &o);
	struct rvl_interp *it;
	const float *in;

	ck_assert_int_eq(rvl_interp_new(e->g, false, &it, &err), 0);
	in = rvl_interp_data(it, e->g->inputs[0]);
	ck_assert_int_eq(rvl_eval_feed(e, it, &d, 0, &err), 0);
	ck_assert(in[0] == 1 && in[1] == 2 && in[2] == 3 && in[3] == 4);
	ck_assert_int_eq(rvl_eval_feed(e, it, &d, 2, &err), 0);
	ck_assert(in[0] == 5 && in[1] == 6 && in[2] == 0 && in[3] == 0);
	rvl_interp_free(it);
	rivulet_eval_free(e);
}
END_TEST

START_TEST(bytes_are_taken_as_the_model_takes_them)
{
	static const uint8_t x[] = { 0, 255, 51, 200, 7, 7 }, labels[] = { 1, 1, 0 };
	const struct rivulet_compile_options o = { .batch = 2 };
	struct rivulet_eval_data d = { .u8 = x, .labels = labels, .count = 3, .size = 2 };
	struct rivulet_eval *e = open_model("in x u8 ?,2; out y; Flatten x -> y", &o);
	const float floats[6] = { 0 };
	uint8_t raw[4];
	float scores[6];
	uint64_t right;

	ck_assert_uint_eq(rivulet_eval_score_bytes(e), 2);
	ck_assert_uint_eq(right_of(e, &d, 1), 3);
	ck_assert_int_eq(rivulet_eval_scores(e, &int8, &d, 0, raw, &err), 2);
	ck_assert_mem_eq(raw, x, 4);
	d.f32 = floats;
	ck_assert_int_eq(rivulet_eval_accuracy(e, &int8, &d, 1, &right, &err), -EINVAL);
	ck_assert_str_eq(err.msg, "the model takes bytes, the data is float");
	rivulet_eval_free(e);
	e = open_model(SUM, &o);
	d.f32 = NULL;
	ck_assert_int_eq(rivulet_eval_scores(e, &int8, &d, 0, scores, &err), 2);
	ck_assert_float_eq(scores[0], 0);
	ck_assert_float_eq(scores[1], 1);
	ck_assert_float_eq_tol(scores[3], 0.2f, 1e-7f);
	rivulet_eval_free(e);
}
END_TEST

/* Scores of int8 have a sign, those of uint8 have none. */
START_TEST(scores_of_bytes)
{
	static const float x[] = { -1, 1, 3, -3, -5, -4 };
	static const uint8_t labels[] = { 1, 0, 1 };
	static const char *const models[] = {
		"in x f32 ?,2; out y; const s f32 - 1; const z s8 - 0; QuantizeLinear x s z -> y",
		"in x f32 ?,2; out y; const s f32 - 1; const z u8 - 128; QuantizeLinear x s z -> y",
	};

	for (int i = 0; i < 2; i++) {
		const struct rivulet_compile_options o = { .batch = 3 };
		const struct rivulet_eval_data d = {
			.f32 = x, .labels = labels, .count = 3, .size = 2
		};
		struct rivulet_eval *e = open_model(models[i], &o);

		ck_assert_uint_eq(rivulet_eval_score_bytes(e), 2);
		ck_assert_uint_eq(right_of(e, &d, 1), 3);
		rivulet_eval_free(e);
	}
}
END_TEST

#define Q "const s f32 - 0.5; const z u8 - 0; const i s8 - 0; "
#define NET                                                                                        \
	Q "in x u8 ?,2,3,4; out y; const w s8 6,1,2,3 1; const v s8 %s 1; "                        \
	  "QLinearConv x s z w s i s z -> c group=2; Flatten c -> f; QGemm@com.microsoft f s z v " \
	  "s i _ s z -> y%s"

START_TEST(products_of_one_example)
{
	static const char *const keep[] = { "first", "last" };

	for (int trans = 0; trans < 2; trans++) {
		for (uint32_t kept = 0; kept < 2; kept++) {
			const struct rivulet_compile_options o = { .batch = 5,
								   .stochastic = true,
								   .keep_int8 = keep + kept,
								   .n_keep_int8 = 1 };
			char text[1024];
			struct rivulet_eval *e;
			uint64_t streams = 7;

			/* 6 x 2 x 2 results of 6 products, and 5 of 24. */
			snprintf(text, sizeof(text), NET, trans ? "5,24" : "24,5",
				 trans ? " transB=1" : "");
			e = open_model(text, &o);
			ck_assert_uint_eq(rivulet_eval_macs(e, &streams), 6 * 2 * 2 * 6 + 5 * 24);
			ck_assert_uint_eq(streams, kept ? 6 * 2 * 2 * 6 : 5 * 24);
			rivulet_eval_free(e);
		}
	}
}
END_TEST

START_TEST(only_marked_products_become_streams)
{
	static const char *const keep[] = { "last" };
	const struct rivulet_compile_options o = {
		.batch = 1, .stochastic = true, .keep_int8 = keep, .n_keep_int8 = 1
	};
	const struct rivulet_eval_spec spec = { .length = 64,
						.circuit = RIVULET_SC_AND_BIN,
						.blocks = 4 };
	char text[1024];
	struct rivulet_eval *e;
	uint32_t marked = 0;

	snprintf(text, sizeof(text), NET, "24,5", "");
	e = open_model(text, &o);
	ck_assert_int_eq(rvl_eval_prepare(e, &spec, &err), 0);
	for (uint32_t i = 0; i < e->g->n_nodes; i++) {
		const struct rvl_attr *a = &e->g->nodes[i]->attr;

		ck_assert_int_eq(a->sc_length, e->g->nodes[i]->op == RVL_OP_Q_CONV ? 64 : 0);
		ck_assert_int_eq(a->sc_blocks, a->sc_length ? 4 : 0);
		ck_assert_int_eq(a->sc_circuit, a->sc_length ? (int)RIVULET_SC_AND_BIN : 0);
		marked += a->sc_length != 0;
	}
	ck_assert_uint_eq(marked, 1);
	rivulet_eval_free(e);
}
END_TEST

/* A single sum determines the scale: 255 x 127 x @n / 32768, whatever its sign. */
START_TEST(the_scale_of_a_single_sum)
{
	static const struct {
		const char *weights;
		int32_t lg;
		int32_t separate; /* positive and negative products have separate sums */
	} cases[] = {
		{ "127", 2, 2 }, { "-127", 2, 2 }, { "127 127 127 -127", 1, 2 }, { "1", 0, 0 }
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int matrix = 0; matrix < 2; matrix++) {
			const struct rivulet_compile_options o = { .batch = 1, .stochastic = true };
			const uint8_t x[4] = { 255, 255, 255, 255 };
			const struct rivulet_eval_data d = { .u8 = x, .count = 1, .size = 4 };
			char text[512];
			struct rivulet_eval *e;

			snprintf(text, sizeof(text),
				 matrix ? Q "in x u8 1,4; out y; const w s8 4,1 %s; QLinearMatMul "
					    "x s z w s i s z -> y" :
					  Q "in x u8 1,4,1,1; out y; const w s8 1,4,1,1 %s; "
					    "QLinearConv x s z w s i s z -> y",
				 cases[i].weights);
			e = open_model(text, &o);
			ck_assert_int_eq(rivulet_eval_scales(e, RIVULET_SC_AND_LOOP, &d, &err), 0);
			ck_assert_int_eq(e->g->nodes[0]->attr.sc_scale, cases[i].lg);
			ck_assert_int_eq(rivulet_eval_scales(e, RIVULET_SC_AND_SEP, &d, &err), 0);
			ck_assert_int_eq(e->g->nodes[0]->attr.sc_scale, cases[i].separate);
			rivulet_eval_free(e);
		}
	}
}
END_TEST

static void refused(const char *text, int want, const char *says)
{
	const struct rivulet_compile_options o = { .batch = 2 };
	struct pb m = ot_model(text, 13);
	struct rivulet_eval *e = NULL;
	int rc = rivulet_eval_new(m.p, m.n, &o, &e, &err);

	ck_assert_msg(rc == want && !strcmp(err.msg, says), "%s: %d, \"%s\"", text, rc, err.msg);
	ck_assert_ptr_null(e);
	free(m.p);
}

START_TEST(models_that_have_no_scores)
{
	refused("in x f32 ?,2; in z f32 ?,2; out y; Add x z -> y", -EINVAL,
		"a model with one input and an output is needed");
	refused("in x s32 ?,2; out y; Add x x -> y", -EINVAL,
		"input \"x\" is not float32 or uint8 examples");
	refused("in x f32 -; out y; Relu x -> y", -EINVAL,
		"input \"x\" is not float32 or uint8 examples");
	refused("in x f32 0,2; out y; Relu x -> y", -EINVAL,
		"input \"x\" is not float32 or uint8 examples");
	refused("in x f32 4,2; out y; Flatten x -> y axis=0", -EINVAL,
		"output \"y\" is not one row of scores for each example");
	refused("in x f32 ?,2; out y; Frob x -> y", -EOPNOTSUPP,
		"node 'Frob_0' (Frob): operator Frob is not in docs/operators.md");
	refused("in x f32 ?; out y; Relu x -> a; Frob a -> y", -EOPNOTSUPP,
		"node 'Frob_1' (Frob): operator Frob is not in docs/operators.md");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("accuracy");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_largest_score_is_the_answer);
	tcase_add_test(t, a_batch_has_fifty_examples_unless_asked);
	tcase_add_test(t, the_rest_of_a_batch_is_zero);
	tcase_add_test(t, bytes_are_taken_as_the_model_takes_them);
	tcase_add_test(t, scores_of_bytes);
	tcase_add_test(t, products_of_one_example);
	tcase_add_test(t, only_marked_products_become_streams);
	tcase_add_test(t, the_scale_of_a_single_sum);
	tcase_add_test(t, models_that_have_no_scores);
	suite_add_tcase(s, t);
	return run_suite(s);
}
