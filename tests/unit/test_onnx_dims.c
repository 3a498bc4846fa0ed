/* SPDX-License-Identifier: MIT */
/* Symbolic dimensions: shapes of inputs, named values, and contradictions to the model. */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "onnx/onnx.h"
#include "rivulet_compiler.h"
#include "suite.h"
#include "unit/pbuild.h"

static struct rvl_err err;

/* A value whose dimensions are words: numbers, or names. NULL: no shape. */
static struct pb value(const char *name, const char *dims)
{
	struct pb v = { .p = NULL }, t = { .p = NULL }, tt = { .p = NULL }, s = { .p = NULL };
	char buf[64];

	snprintf(buf, sizeof(buf), "%s", dims ? dims : "");
	for (char *save, *w = strtok_r(buf, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		struct pb d = { .p = NULL };

		if (*w == '-' || (*w >= '0' && *w <= '9'))
			pb_int(&d, 1, (uint64_t)(int64_t)atoi(w));
		else
			pb_str(&d, 2, w);
		pb_msg(&s, 1, &d);
	}
	pb_int(&tt, 1, 1);
	if (dims)
		pb_msg(&tt, 2, &s);
	pb_msg(&t, 1, &tt);
	pb_str(&v, 1, name);
	pb_msg(&v, 2, &t);
	free(s.p);
	return v;
}

/* y = x + z with these dimensions, read with the options. */
static int load(const char *x, const char *z, const struct rvl_onnx_opts *o,
		struct rvl_graph **out, struct pb *bytes)
{
	struct pb g = { .p = NULL }, n = pb_node("Add", "x z", "y"), in = value("x", x);
	struct pb in2 = value("z", z), y = { .p = NULL };
	int rc;

	pb_msg(&g, 1, &n);
	pb_msg(&g, 11, &in);
	pb_msg(&g, 11, &in2);
	pb_str(&y, 1, "y");
	pb_msg(&g, 12, &y);
	*bytes = pb_model(&g, 8, 13);
	*out = NULL;
	err.msg[0] = 0;
	rc = rvl_onnx_load(bytes->p, bytes->n, o, out, &err);
	return rc ? rc : rvl_shape_infer(*out, &err);
}

static void has_dims(const char *x, const char *z, const struct rvl_onnx_opts *o, int64_t a,
		     int64_t b)
{
	struct rvl_graph *g;
	struct pb bytes;
	int rc = load(x, z, o, &g, &bytes);

	ck_assert_msg(!rc, "%s", err.msg);
	ck_assert_int_eq(g->outputs[0]->shape.rank, 2);
	ck_assert_int_eq(g->outputs[0]->shape.dim[0], a);
	ck_assert_int_eq(g->outputs[0]->shape.dim[1], b);
	rvl_graph_free(g);
	free(bytes.p);
}

static void fails(const char *x, const char *z, const struct rvl_onnx_opts *o, int rc,
		  const char *text)
{
	struct rvl_graph *g;
	struct pb bytes;
	int got = load(x, z, o, &g, &bytes);

	ck_assert_msg(got == rc, "returned %d: %s", got, err.msg);
	ck_assert_msg(strstr(err.msg, text), "'%s' lacks '%s'", err.msg, text);
	rvl_graph_free(g);
	free(bytes.p);
}

#define SYMBOLS(...) \
	.symbols = (const struct rvl_onnx_symbol[]) { __VA_ARGS__ }, \
	.n_symbols = sizeof((const struct rvl_onnx_symbol[]) { __VA_ARGS__ }) / \
		     sizeof(struct rvl_onnx_symbol)
#define SHAPES(...) \
	.shapes = (const struct rvl_onnx_shape[]) { __VA_ARGS__ }, \
	.n_shapes = sizeof((const struct rvl_onnx_shape[]) { __VA_ARGS__ }) / \
		    sizeof(struct rvl_onnx_shape)
#define OPTS(...) (&(const struct rvl_onnx_opts) { __VA_ARGS__ })
#define DIM2(a, b) { .rank = 2, .dim = { a, b } }

START_TEST(a_name_has_one_value)
{
	has_dims("N T", "N T", OPTS(SYMBOLS({ "N", 4 }, { "T", 7 })), 4, 7);
	/* The value of a name precedes the defaults for the first and for other dimensions. */
	has_dims("N T", "N 9", OPTS(.batch = 2, .symbol = 9, SYMBOLS({ "N", 4 })), 4, 9);
	has_dims("N T", "N 9", OPTS(.batch = 2, SYMBOLS({ "T", 9 })), 2, 9);
}
END_TEST

START_TEST(a_shape_of_one_input_names_dimensions_of_all)
{
	has_dims("N T", "N T", OPTS(SHAPES({ "x", DIM2(3, 5) })), 3, 5);
	has_dims("N T", "N T", OPTS(.batch = 2, .symbol = 4, SHAPES({ "x", DIM2(3, 5) })), 3, 5);
	has_dims("N T", "M 5", OPTS(SHAPES({ "x", DIM2(3, 5) }, { "z", DIM2(1, 5) })), 3, 5);
	/* An input without a shape takes any. */
	has_dims(NULL, "3 1", OPTS(SHAPES({ "x", DIM2(3, 5) })), 3, 5);
	has_dims("N 0", "1 1", OPTS(SHAPES({ "x", DIM2(2, 0) })), 2, 0);
}
END_TEST

/* PaddlePaddle's exporter writes -1 where a dimension is unknown. */
START_TEST(a_negative_dimension_is_unknown)
{
	has_dims("-1 3", "-1 3", OPTS(.batch = 2), 2, 3);
	has_dims("-1 -1", "4 1", OPTS(SHAPES({ "x", DIM2(4, 5) })), 4, 5);
	fails("2 -1", "2 3", OPTS(.batch = 2), -EINVAL, "has a symbolic or unknown dimension");
}
END_TEST

START_TEST(contradictions_are_refused)
{
	fails("N T", "N T", OPTS(SHAPES({ "x", { .rank = 1, .dim = { 3 } } })), -EINVAL,
	      "input 'x' has 2 dimensions, not 1");
	fails("N 4", "N 4", OPTS(SHAPES({ "x", DIM2(3, 5) })), -EINVAL,
	      "dimension 1 of input 'x' is 4, not 5");
	fails("N N", "N N", OPTS(SHAPES({ "x", DIM2(3, 5) })), -EINVAL,
	      "dimension 'N' is given as 3 and as 5");
	fails("N T", "N T", OPTS(SYMBOLS({ "N", 4 }), SHAPES({ "x", DIM2(3, 5) })), -EINVAL,
	      "dimension 'N' is given as 4 and as 3");
	fails("N T", "N T", OPTS(SYMBOLS({ "N", 4 }, { "N", 5 })), -EINVAL,
	      "dimension 'N' is given as 4 and as 5");
}
END_TEST

START_TEST(unknown_names_are_refused)
{
	fails("N T", "N T", OPTS(SHAPES({ "w", DIM2(3, 5) })), -ENOENT,
	      "the model has no input 'w' to give a shape");
	fails("N T", "N T", OPTS(SYMBOLS({ "U", 5 })), -ENOENT,
	      "no input of the model has a dimension 'U'");
	fails("N T", "N T", OPTS(SYMBOLS({ "N", 5 })), -EINVAL, "has a symbolic or unknown dimension");
}
END_TEST

START_TEST(values_are_bounded)
{
	static const int64_t bad[] = { 0, -1, (1 << 24) + 1, INT64_MAX };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		fails("N T", "N T", OPTS(SYMBOLS({ "N", bad[i] })), -EINVAL,
		      "dimension 'N' can be 1 to 16777216 only");
	for (size_t i = 1; i < sizeof(bad) / sizeof(bad[0]); i++)
		fails("N T", "N T", OPTS(SHAPES({ "x", DIM2(bad[i], 1) })), -EINVAL,
		      "a dimension of input 'x' can be 0 to 16777216 only");
	has_dims("N T", "N T", OPTS(SYMBOLS({ "N", 1 << 24 }, { "T", 1 })), 1 << 24, 1);
}
END_TEST

/* The listed inputs have the shapes with which the model is compiled. */
START_TEST(listed_inputs_have_the_shapes_given)
{
	const struct rivulet_input_shape shape = { .name = "x", .rank = 2, .dim = { 3, 5 } };
	const struct rivulet_dimension dim = { "T", 5 };
	const struct rivulet_compile_options opt = { .shapes = &shape, .n_shapes = 1,
						     .dimensions = &dim, .n_dimensions = 1 };
	struct rivulet_model_input *in;
	struct rvl_graph *g;
	struct pb bytes;
	uint32_t n;

	load("N T", "N T", NULL, &g, &bytes);
	rvl_graph_free(g);
	ck_assert_msg(!rivulet_model_inputs_of(bytes.p, bytes.n, &opt, &in, &n, &err), "%s", err.msg);
	ck_assert_uint_eq(n, 2);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(in[i].dim[0], 3);
		ck_assert_uint_eq(in[i].dim[1], 5);
	}
	rivulet_model_inputs_free(in, n);
	free(bytes.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("onnx_dims");
	TCase *t = add_case(s, "dims", 10, NULL, NULL);

	tcase_add_test(t, a_name_has_one_value);
	tcase_add_test(t, a_shape_of_one_input_names_dimensions_of_all);
	tcase_add_test(t, a_negative_dimension_is_unknown);
	tcase_add_test(t, contradictions_are_refused);
	tcase_add_test(t, unknown_names_are_refused);
	tcase_add_test(t, values_are_bounded);
	tcase_add_test(t, listed_inputs_have_the_shapes_given);
	return run_suite(s);
}
