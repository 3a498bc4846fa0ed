/* SPDX-License-Identifier: MIT */
/*
 * The evaluator: counts of right answers, partial batches, bytes and floats as examples, and
 * refused input. The adder scales of the circuits that have one are compared with a second
 * computation by their definition.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval.h"
#include "graph/interp.h"
#include "files.h"
#include "suite.h"
#include "unit/pbuild.h"

#define EXAMPLES 7
#define PIXELS 784
#define CLASSES 10

static struct rvl_err err;
static struct rivulet_eval *e;
static uint8_t bytes[EXAMPLES * PIXELS];
static float values[EXAMPLES * PIXELS];
static uint8_t labels[EXAMPLES];
static struct rivulet_eval_data data;

static struct rivulet_eval *open_model(const char *path, const struct rivulet_compile_options *o)
{
	struct rivulet_eval *made;
	size_t size;
	void *onnx = read_file(path, &size);

	ck_assert_msg(!rivulet_eval_new(onnx, size, o, &made, &err), "%s", err.msg);
	free(onnx);
	return made;
}

/* LeNet in batches of three: of seven examples, the third batch is not full. */
static void setup(void)
{
	struct rivulet_compile_options o = { .stochastic = true, .batch = 3 };

	for (uint32_t i = 0; i < EXAMPLES * PIXELS; i++) {
		uint32_t y = i % PIXELS / 28, x = i % 28, n = i / PIXELS;

		bytes[i] = y > 3 + n % 3 && y < 24 && x > 5 && x < 12 + 2 * n ?
			255 - (uint8_t)(i * 7 % 90) : 0;
		values[i] = (float)bytes[i] / 255.0f;
	}
	data = (struct rivulet_eval_data){ .f32 = values, .labels = labels, .count = EXAMPLES,
					   .size = PIXELS };
	e = open_model("models/lenet20.onnx", &o);
}

static void teardown(void)
{
	ck_assert_ptr_null(rivulet_eval_free(e));
}

/* The scores of all examples, computed one batch at a time. */
static void all_scores(const struct rivulet_eval_spec *s, float *scores)
{
	static const int64_t want[] = { 3, 3, 1 };

	for (uint64_t first = 0, i = 0; first < EXAMPLES; first += 3, i++)
		ck_assert_int_eq(rivulet_eval_scores(e, s, &data, first, scores + first * CLASSES,
				 &err), want[i]);
}

static uint8_t best(const float *scores)
{
	uint8_t at = 0;

	for (uint8_t i = 1; i < CLASSES; i++)
		at = scores[i] > scores[at] ? i : at;
	return at;
}

START_TEST(right_answers_are_counted)
{
	struct rivulet_eval_spec s = { .length = 0 };
	float scores[EXAMPLES * CLASSES];
	uint64_t right;

	ck_assert_uint_eq(rivulet_eval_score_bytes(e), CLASSES * sizeof(float));
	all_scores(&s, scores);
	for (uint32_t i = 0; i < EXAMPLES; i++)
		labels[i] = best(scores + i * CLASSES);
	for (uint32_t threads = 1; threads < 5; threads++) {
		ck_assert_int_eq(rivulet_eval_accuracy(e, &s, &data, threads, &right, &err), 0);
		ck_assert_uint_eq(right, EXAMPLES);
	}
	labels[0] ^= 1;
	labels[EXAMPLES - 1] ^= 1;
	ck_assert_int_eq(rivulet_eval_accuracy(e, &s, &data, 2, &right, &err), 0);
	ck_assert_uint_eq(right, EXAMPLES - 2);
	data.count = 4;
	ck_assert_int_eq(rivulet_eval_accuracy(e, &s, &data, 2, &right, &err), 0);
	ck_assert_uint_eq(right, 3);
}
END_TEST

START_TEST(bytes_are_fractions_of_255)
{
	struct rivulet_eval_spec s = { .length = 64 };
	float by_float[EXAMPLES * CLASSES], by_byte[EXAMPLES * CLASSES];

	all_scores(&s, by_float);
	data.f32 = NULL;
	data.u8 = bytes;
	all_scores(&s, by_byte);
	ck_assert_mem_eq(by_float, by_byte, sizeof(by_float));
}
END_TEST

/* Examples that are missing from the last batch do not change the scores of the others. */
START_TEST(a_partial_batch_is_exact)
{
	struct rivulet_eval_spec s = { .length = 0 };
	float scores[EXAMPLES * CLASSES], last[3 * CLASSES];

	all_scores(&s, scores);
	ck_assert_int_eq(rivulet_eval_scores(e, &s, &data, 4, last, &err), 3);
	ck_assert_mem_eq(last, scores + 4 * CLASSES, sizeof(last));
}
END_TEST

static void refused(const struct rivulet_eval_spec *s, const char *say)
{
	float scores[3 * CLASSES];
	uint64_t right;

	err.msg[0] = '\0';
	ck_assert_int_eq(rivulet_eval_accuracy(e, s, &data, 1, &right, &err), -EINVAL);
	ck_assert_msg(strstr(err.msg, say), "'%s' lacks '%s'", err.msg, say);
	err.msg[0] = '\0';
	ck_assert_int_eq(rivulet_eval_scores(e, s, &data, 0, scores, &err), -EINVAL);
	ck_assert_msg(strstr(err.msg, say), "'%s' lacks '%s'", err.msg, say);
}

START_TEST(data_and_streams_that_do_not_fit)
{
	struct rivulet_eval_spec s = { .length = 8 };
	uint64_t right;

	s.length = RIVULET_SC_MIN;
	ck_assert_int_eq(rivulet_eval_accuracy(e, &s, &data, 1, &right, &err), 0);
	s.length = RIVULET_SC_MAX;
	ck_assert_int_eq(rivulet_eval_accuracy(e, &s, &data, 1, &right, &err), 0);
	s.length = RIVULET_SC_MIN - 1;
	refused(&s, "no bitstreams of 7 bits by circuit 0");
	s.length = RIVULET_SC_MAX + 1;
	refused(&s, "no bitstreams of 257 bits by circuit 0");
	s = (struct rivulet_eval_spec){ .length = 64, .circuit = RIVULET_SC_CIRCUIT_COUNT };
	refused(&s, "by circuit");
	s = (struct rivulet_eval_spec){ .length = 64, .blocks = RIVULET_SC_BLOCKS_MAX + 1 };
	refused(&s, "blocks");
	s.blocks = 0;
	data.size = PIXELS + 1;
	refused(&s, "takes 784 values an example, the data has 785");
	data.size = PIXELS;
	data.count = 0;
	refused(&s, "no examples");
}
END_TEST

/* A graph of one node with input x, and input a if @two; @type is ONNX's. */
static struct pb model_of(struct pb *node, int type, bool two)
{
	static const int64_t dims[] = { 2, 3, -1 };
	struct pb g = { .p = NULL }, v = pb_value("x", type, dims), out = { .p = NULL };

	pb_msg(&g, 1, node);
	pb_str(&g, 2, "g");
	pb_msg(&g, 11, &v);
	if (two) {
		v = pb_value("a", type, dims);
		pb_msg(&g, 11, &v);
	}
	pb_str(&out, 1, "y");
	pb_msg(&g, 12, &out);
	return pb_model(&g, 8, 13);
}

static void cannot_be_evaluated(struct pb *m, const char *say)
{
	struct rivulet_compile_options o = { .batch = 2 };
	struct rivulet_eval *made = NULL;

	err.msg[0] = '\0';
	ck_assert_int_eq(rivulet_eval_new(m->p, m->n, &o, &made, &err), -EINVAL);
	ck_assert_msg(strstr(err.msg, say), "'%s' lacks '%s'", err.msg, say);
	ck_assert_ptr_null(made);
	free(m->p);
}

START_TEST(models_that_cannot_be_evaluated)
{
	struct pb n = pb_node("Add", "x a", "y"), m = model_of(&n, 1, true);

	cannot_be_evaluated(&m, "a model with one input");
	n = pb_node("Relu", "x", "y");
	m = model_of(&n, 3, false);
	cannot_be_evaluated(&m, "input \"x\" is not float32 or uint8");
	n = pb_node("Flatten", "x", "y");
	pb_attr_int(&n, "axis", 0);
	m = model_of(&n, 1, false);
	cannot_be_evaluated(&m, "output \"y\" is not one row of scores");
}
END_TEST

/* ---- the adders' scales by their definition ---- */

struct product_sums {
	double *v;
	size_t n;
};

static void add_sum(struct product_sums *s, const int64_t by_sign[2], bool one_sided)
{
	int64_t v = one_sided ? (by_sign[0] > by_sign[1] ? by_sign[0] : by_sign[1]) :
				llabs(by_sign[0] - by_sign[1]);

	s->v[s->n++] = (double)v / (256.0 * 128.0);
}

/*
 * Output (m, y, x) of image @img: the sum of its positive products and that of its negative ones.
 */
static void conv_sum(const struct rvl_node *n, const uint8_t *img, const int64_t at[3],
		     int64_t by_sign[2])
{
	const struct rvl_attr *a = &n->attr;
	const int64_t *xd = n->in[0]->shape.dim, *wd = n->in[1]->shape.dim;
	const int8_t *w = n->in[1]->data;

	for (int64_t c = 0; c < wd[1]; c++)
		for (int64_t i = 0; i < wd[2]; i++)
			for (int64_t j = 0; j < wd[3]; j++) {
				int64_t y = at[1] * a->stride[0] + i * a->dilation[0] - a->pad[0];
				int64_t x = at[2] * a->stride[1] + j * a->dilation[1] - a->pad[1];
				int64_t channel = at[0] / (wd[0] / a->group) * wd[1] + c;
				const uint8_t *plane = img + channel * xd[2] * xd[3];
				int v = w[((at[0] * wd[1] + c) * wd[2] + i) * wd[3] + j];

				if (y >= 0 && y < xd[2] && x >= 0 && x < xd[3])
					by_sign[v < 0] += abs(v) * (int64_t)plane[y * xd[3] + x];
			}
}

static void conv_sums(const struct rvl_node *n, const uint8_t *x, bool one_sided,
		      struct product_sums *s)
{
	const int64_t *xd = n->in[0]->shape.dim, *yd = n->out[0]->shape.dim;
	int64_t at[3];

	for (int64_t b = 0; b < yd[0]; b++)
		for (at[0] = 0; at[0] < yd[1]; at[0]++)
			for (at[1] = 0; at[1] < yd[2]; at[1]++)
				for (at[2] = 0; at[2] < yd[3]; at[2]++) {
					int64_t by_sign[2] = { 0, 0 };

					conv_sum(n, x + b * xd[1] * xd[2] * xd[3], at, by_sign);
					add_sum(s, by_sign, one_sided);
				}
}

static void matrix_sums(const struct rvl_node *n, const uint8_t *x, bool one_sided,
			struct product_sums *s)
{
	const int64_t *wd = n->in[1]->shape.dim;
	bool t = n->attr.trans_b;
	int64_t depth = wd[t ? 1 : 0], columns = wd[t ? 0 : 1];
	int64_t rows = rvl_shape_count(&n->in[0]->shape) / depth;
	const int8_t *w = n->in[1]->data;

	for (int64_t r = 0; r < rows; r++)
		for (int64_t j = 0; j < columns; j++) {
			int64_t by_sign[2] = { 0, 0 };

			for (int64_t i = 0; i < depth; i++) {
				int v = t ? w[j * depth + i] : w[i * columns + j];

				by_sign[v < 0] += abs(v) * (int64_t)x[r * depth + i];
			}
			add_sum(s, by_sign, one_sided);
		}
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* log2 of the smallest power of two that 99.95 % of the sums do not exceed. */
static int32_t scale_of(const struct rvl_node *n, const uint8_t *x, bool one_sided)
{
	struct product_sums s = { .v = calloc(1 << 20, sizeof(double)) };
	double v;

	if (n->op == RVL_OP_Q_CONV)
		conv_sums(n, x, one_sided, &s);
	else
		matrix_sums(n, x, one_sided, &s);
	qsort(s.v, s.n, sizeof(*s.v), ascending);
	v = s.v[(size_t)((double)(s.n - 1) * 0.9995)];
	free(s.v);
	return v > 1 ? (int32_t)ceil(log2(v)) : 0;
}

static uint32_t check_scales(struct rivulet_eval *of, bool one_sided)
{
	struct rvl_interp *it;
	uint32_t layers = 0;

	ck_assert_int_eq(rvl_interp_new(of->g, false, &it, &err), 0);
	ck_assert_int_eq(rvl_eval_prepare(of, &(struct rivulet_eval_spec){ .length = 0 }, &err), 0);
	ck_assert_int_eq(rvl_eval_feed(of, it, &data, 0, &err), 0);
	ck_assert_int_eq(rvl_interp_run(it, &err), 0);
	for (uint32_t i = 0; i < of->g->n_nodes; i++) {
		const struct rvl_node *n = of->g->nodes[i];

		if (!n->stochastic)
			continue;
		ck_assert_int_eq(n->attr.sc_scale, scale_of(n, rvl_interp_data(it, n->in[0]),
							    one_sided));
		layers++;
	}
	rvl_interp_free(it);
	return layers;
}

START_TEST(scales_follow_their_definition)
{
	ck_assert_msg(!rivulet_eval_scales(e, RIVULET_SC_AND_LOOP, &data, &err), "%s", err.msg);
	ck_assert_uint_eq(check_scales(e, false), 5);
	ck_assert_msg(!rivulet_eval_scales(e, RIVULET_SC_AND_SEP, &data, &err), "%s", err.msg);
	ck_assert_uint_eq(check_scales(e, true), 5);
	data.size--;
	ck_assert_int_eq(rivulet_eval_scales(e, RIVULET_SC_AND_SEP, &data, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "does not fit"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("eval");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, right_answers_are_counted);
	tcase_add_test(t, bytes_are_fractions_of_255);
	tcase_add_test(t, a_partial_batch_is_exact);
	tcase_add_test(t, data_and_streams_that_do_not_fit);
	tcase_add_test(t, models_that_cannot_be_evaluated);
	tcase_add_test(t, scales_follow_their_definition);
	suite_add_tcase(s, t);
	return run_suite(s);
}
