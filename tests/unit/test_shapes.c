/* SPDX-License-Identifier: MIT */
/*
 * The shape of every operator's result by the ONNX specification, and the cases that are refused:
 * axes, ranks, sizes, numbers of operands, and attributes that are not supported.
 */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "onnx/model.h"
#include "onnx/onnx.h"
#include "suite.h"
#include "unit/pbuild.h"

/* The tables omit members that a case does not need. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define F32 1
#define S64 7
#define END -1

/* One attribute: a number, a list that ends with NONE, or a string. */
#define NONE INT64_MIN
struct attr {
	const char *name;
	int64_t list[6];
	const char *word;
};

struct shape_case {
	/* names of its inputs; x, a and b have the shapes below */
	const char *op, *in;
	int64_t x[10], a[10], b[10];		/* {0}: absent */
	struct attr attr[3];
	int64_t y[10];				/* the result */
	/* words of the error text, if the node is refused */
	const char *refused;
	int opset;				/* 0 stands for 13 */
};

#define D(...) { __VA_ARGS__, END }
#define SCALAR_SHAPE { END }
#define L(...) { __VA_ARGS__, NONE }

static const struct shape_case cases[] = {
	/* Gemm: (M, K) x (K, N), each transposed or not. */
	{ "Gemm", "x a", D(2, 3), D(3, 5), { 0 }, { { 0 } }, D(2, 5) },
	{ "Gemm", "x a", D(3, 2), D(3, 5), { 0 }, { { "transA", L(1) } }, D(2, 5) },
	{ "Gemm", "x a", D(2, 3), D(5, 3), { 0 }, { { "transB", L(1) } }, D(2, 5) },
	{ "Gemm", "x a", D(3, 2), D(5, 3), { 0 }, { { "transA", L(1) }, { "transB", L(1) } },
	  D(2, 5) },
	{ "Gemm", "x a", D(2, 3), D(4, 5), { 0 }, { { 0 } }, { 0 }, "Gemm" },
	{ "Gemm", "x a", D(2, 3, 1), D(3, 5), { 0 }, { { 0 } }, { 0 },
	  "not matrices (rank 3 and 2)" },
	{ "Gemm", "x a", D(2, 3), D(3), { 0 }, { { 0 } }, { 0 }, "not matrices (rank 2 and 1)" },
	/* MatMul: vectors lose their dimension, the dimensions before the matrix broadcast. */
	{ "MatMul", "x a", D(2, 3), D(3, 5), { 0 }, { { 0 } }, D(2, 5) },
	{ "MatMul", "x a", D(3), D(3, 5), { 0 }, { { 0 } }, D(5) },
	{ "MatMul", "x a", D(2, 3), D(3), { 0 }, { { 0 } }, D(2) },
	{ "MatMul", "x a", D(3), D(3), { 0 }, { { 0 } }, SCALAR_SHAPE },
	{ "MatMul", "x a", D(4, 1, 2, 3), D(7, 3, 5), { 0 }, { { 0 } }, D(4, 7, 2, 5) },
	{ "MatMul", "x a", D(4, 2, 3), D(7, 3, 5), { 0 }, { { 0 } }, { 0 }, "do not fit together" },
	{ "MatMul", "x a", D(2, 3), D(4, 5), { 0 }, { { 0 } }, { 0 }, "MatMul" },
	/* Add, Mul: numpy's broadcasting. */
	{ "Add", "x a", D(2, 3), D(3), { 0 }, { { 0 } }, D(2, 3) },
	{ "Add", "x a", D(3), D(2, 1), { 0 }, { { 0 } }, D(2, 3) },
	{ "Mul", "x a", D(2, 1, 4), D(3, 1), { 0 }, { { 0 } }, D(2, 3, 4) },
	{ "Mul", "x a", D(2, 3), SCALAR_SHAPE, { 0 }, { { 0 } }, D(2, 3) },
	{ "Add", "x a", D(2, 3), D(2), { 0 }, { { 0 } }, { 0 }, "do not broadcast" },
	{ "Mul", "x a", D(2, 3), D(4, 3), { 0 }, { { 0 } }, { 0 }, "do not broadcast" },
	/* Flatten: axis in [-rank, rank]. */
	{ "Flatten", "x", D(2, 3, 4), { 0 }, { 0 }, { { 0 } }, D(2, 12) },
	{ "Flatten", "x", D(2, 3, 4), { 0 }, { 0 }, { { "axis", L(0) } }, D(1, 24) },
	{ "Flatten", "x", D(2, 3, 4), { 0 }, { 0 }, { { "axis", L(2) } }, D(6, 4) },
	{ "Flatten", "x", D(2, 3, 4), { 0 }, { 0 }, { { "axis", L(3) } }, D(24, 1) },
	{ "Flatten", "x", D(2, 3, 4), { 0 }, { 0 }, { { "axis", L(-1) } }, D(6, 4) },
	{ "Flatten", "x", D(2, 3, 4), { 0 }, { 0 }, { { "axis", L(-3) } }, D(1, 24) },
	{ "Flatten", "x", D(2, 3, 4), { 0 }, { 0 }, { { "axis", L(4) } }, { 0 },
	  "axis 4 does not exist" },
	{ "Flatten", "x", D(2, 3, 4), { 0 }, { 0 }, { { "axis", L(-4) } }, { 0 },
	  "axis -4 does not exist" },
	/* Softmax from opset 13: axis in [-rank, rank). */
	{ "Softmax", "x", D(2, 3), { 0 }, { 0 }, { { "axis", L(1) } }, D(2, 3) },
	{ "Softmax", "x", D(2, 3), { 0 }, { 0 }, { { "axis", L(-2) } }, D(2, 3) },
	{ "Softmax", "x", D(2, 3), { 0 }, { 0 }, { { "axis", L(2) } }, { 0 },
	  "axis 2 does not exist" },
	{ "Softmax", "x", D(2, 3), { 0 }, { 0 }, { { "axis", L(-3) } }, { 0 },
	  "axis -3 does not exist" },
	/* Transpose: without perm the axes are reversed. */
	{ "Transpose", "x", D(2, 3, 4), { 0 }, { 0 }, { { 0 } }, D(4, 3, 2) },
	{ "Transpose", "x", D(2, 3, 4), { 0 }, { 0 }, { { "perm", L(1, 0, 2) } }, D(3, 2, 4) },
	{ "Transpose", "x", D(2, 3, 4), { 0 }, { 0 }, { { "perm", L(1, 0) } }, { 0 },
	  "perm has 2 axes" },
	{ "Transpose", "x", D(2, 3), { 0 }, { 0 }, { { "perm", L(0, 2) } }, { 0 }, "perm does not name every axis once" },
	{ "Transpose", "x", D(2, 3), { 0 }, { 0 }, { { "perm", L(-1, 0) } }, { 0 }, "perm does not name every axis once" },
	/* Pools over the whole image need one. */
	{ "GlobalAveragePool", "x", D(2, 3, 4, 5), { 0 }, { 0 }, { { 0 } }, D(2, 3, 1, 1) },
	{ "GlobalMaxPool", "x", D(2, 3, 4), { 0 }, { 0 }, { { 0 } }, D(2, 3, 1) },
	{ "GlobalAveragePool", "x", D(2, 3), { 0 }, { 0 }, { { 0 } }, { 0 },
	  "no spatial dimensions" },
	{ "MaxPool", "x", D(3, 4, 5), { 0 }, { 0 }, { { "kernel_shape", L(2, 2) } }, { 0 },
	  "kernel_shape has 2 values, not 1" },
	{ "MaxPool", "x", D(1, 1, 4, 4), { 0 }, { 0 }, { { "kernel_shape", L(4, 4) } },
	  D(1, 1, 1, 1) },
	{ "MaxPool", "x", D(1, 1, 4, 4), { 0 }, { 0 }, { { "kernel_shape", L(5, 4) } }, { 0 },
	  "5x4 window is larger than the padded 4x4" },
	{ "MaxPool", "x", D(1, 1, 4, 4), { 0 }, { 0 },
	  { { "kernel_shape", L(5, 4) }, { "pads", L(1, 0, 0, 0) } }, D(1, 1, 1, 1) },
	{ "AveragePool", "x", D(1, 1, 6, 5), { 0 }, { 0 },
	  { { "kernel_shape", L(3, 2) }, { "strides", L(2, 3) } }, D(1, 1, 2, 2) },
	/* Conv: the kernel's size from the weights, groups, and contradictions. */
	{ "Conv", "x a", D(1, 2, 5, 6), D(4, 2, 3, 2), { 0 }, { { 0 } }, D(1, 4, 3, 5) },
	{ "Conv", "x a", D(1, 4, 5, 6), D(6, 2, 3, 3), { 0 }, { { "group", L(2) } },
	  D(1, 6, 3, 4) },
	{ "Conv", "x a b", D(1, 2, 5, 6), D(4, 2, 3, 2), D(4), { { 0 } }, D(1, 4, 3, 5) },
	{ "Conv", "x a b", D(1, 2, 5, 6), D(4, 2, 3, 2), D(3), { { 0 } }, { 0 }, "Conv" },
	{ "Conv", "x a", D(1, 3, 5, 6), D(4, 2, 3, 2), { 0 }, { { 0 } }, { 0 }, "Conv" },
	{ "Conv", "x a", D(1, 4, 5, 6), D(5, 2, 3, 3), { 0 }, { { "group", L(2) } }, { 0 },
	  "Conv" },
	{ "Conv", "x a", D(1, 2, 5, 6), D(4, 2, 3), { 0 }, { { 0 } }, { 0 },
	  "its weights have 3 dimensions, its input 4" },
	{ "Conv", "x a", D(1, 2, 5), D(4, 2, 3, 3), { 0 }, { { 0 } }, { 0 },
	  "its weights have 4 dimensions, its input 3" },
	{ "Conv", "x a", D(1, 2, 5), D(4, 2, 3), { 0 }, { { 0 } }, D(1, 4, 3) },
	{ "Conv", "x a", D(1, 2, 5, 6), D(4, 2, 3, 2), { 0 }, { { "kernel_shape", L(3, 3) } },
	  { 0 }, "disagree" },
	{ "Conv", "x a", D(1, 2, 5, 6), D(4, 2, 3, 2), { 0 }, { { "kernel_shape", L(3, 2) } },
	  D(1, 4, 3, 5) },
	/*
	 * Storage order only concerns indices, so it is ignored without them; windows that do not
	 * exist.
	 */
	{ "MaxPool", "x", D(1, 1, 4, 4), { 0 }, { 0 },
	  { { "kernel_shape", L(2, 2) }, { "storage_order", L(1) } }, D(1, 1, 3, 3) },
	{ "MaxPool", "x", D(1, 1, 4, 4), { 0 }, { 0 },
	  { { "kernel_shape", L(2, 2) }, { "strides", L(0, 1) } }, { 0 }, "strides" },
	{ "MaxPool", "x", D(1, 1, 4, 4), { 0 }, { 0 },
	  { { "kernel_shape", L(2, 2) }, { "pads", L(-1, 0, 0, 0) } }, { 0 }, "pads" },
	/* Operators whose result has the shape of the input. */
	{ "Relu", "x", D(3, 1, 2), { 0 }, { 0 }, { { 0 } }, D(3, 1, 2) },
	{ "Identity", "x", SCALAR_SHAPE, { 0 }, { 0 }, { { 0 } }, SCALAR_SHAPE },
	{ "Clip", "x", D(7), { 0 }, { 0 }, { { 0 } }, D(7) },
};

static bool given(const int64_t *shape)
{
	return shape[0] != 0;
}

static void put_attr(struct pb *n, const struct attr *a)
{
	size_t count = 0;

	if (!a->name)
		return;
	while (a->list[count] != NONE)
		count++;
	if (a->word)
		pb_attr_str(n, a->name, a->word);
	else if (count == 1)
		pb_attr_int(n, a->name, a->list[0]);
	else
		pb_attr_ints(n, a->name, a->list, count);
}

static struct pb graph_of(const struct shape_case *c)
{
	struct pb n = pb_node(c->op, c->in, "y"), g = { .p = NULL }, v, out = { .p = NULL };

	for (int i = 0; i < 3; i++)
		put_attr(&n, &c->attr[i]);
	pb_msg(&g, 1, &n);
	pb_str(&g, 2, "g");
	v = pb_value("x", F32, c->x);
	pb_msg(&g, 11, &v);
	if (given(c->a)) {
		v = pb_value("a", F32, c->a);
		pb_msg(&g, 11, &v);
	}
	if (given(c->b)) {
		v = pb_value("b", F32, c->b);
		pb_msg(&g, 11, &v);
	}
	pb_str(&out, 1, "y");
	pb_msg(&g, 12, &out);
	return g;
}

static void expect_shape(const struct rvl_graph *g, const int64_t *dims)
{
	const struct rvl_tensor *y = rvl_tensor_find(g, "y");
	int rank = 0;

	while (dims[rank] != END)
		rank++;
	ck_assert_int_eq(y->type, RVL_TYPE_F32);
	ck_assert_int_eq(y->shape.rank, rank);
	for (int i = 0; i < rank; i++)
		ck_assert_int_eq(y->shape.dim[i], dims[i]);
}

START_TEST(shapes)
{
	const struct shape_case *c = &cases[_i];
	struct pb g = graph_of(c), m = pb_model(&g, 8, c->opset ? c->opset : 13);
	struct rvl_err err = { "" };
	struct rvl_graph *graph;
	int rc;

	ck_assert_msg(!rvl_onnx_load(m.p, m.n, NULL, &graph, &err), "case %d: %s", _i, err.msg);
	ck_assert_msg(!rvl_shape_infer(graph, &err), "case %d: %s", _i, err.msg);
	rc = rvl_graph_check_supported(graph, &err);
	if (c->refused) {
		ck_assert_msg(rc == -EOPNOTSUPP && strstr(err.msg, c->refused),
			      "case %d (%s): %d, '%s' lacks '%s'", _i, c->op, rc, err.msg,
				      c->refused);
	} else {
		ck_assert_msg(!rc, "case %d (%s): %s", _i, c->op, err.msg);
		expect_shape(graph, c->y);
	}
	rvl_graph_free(graph);
	free(m.p);
}
END_TEST

/* Appends an initializer of 64-bit numbers. */
static void put_numbers(struct pb *g, const char *name, const int64_t *v, int64_t n)
{
	const int64_t dims[] = { n, END };
	struct pb t = pb_tensor(name, S64, dims, v, (size_t)n * 8);

	pb_msg(g, 5, &t);
}

/* Reshapes 24 values. @why receives the error text, or "" if the node is accepted. */
static void reshape(const int64_t *want, int64_t n, char *why, size_t size)
{
	const struct shape_case c = { "Reshape", "x s", D(2, 3, 4) };
	struct rvl_err err = { "" };
	struct rvl_graph *graph;
	struct pb g = graph_of(&c), m;

	put_numbers(&g, "s", want, n);
	m = pb_model(&g, 8, 13);
	ck_assert_msg(!rvl_onnx_load(m.p, m.n, NULL, &graph, &err), "%s", err.msg);
	ck_assert_int_eq(rvl_shape_infer(graph, &err), 0);
	why[0] = '\0';
	if (rvl_graph_check_supported(graph, &err))
		snprintf(why, size, "%s", err.msg);
	rvl_graph_free(graph);
	free(m.p);
}

START_TEST(reshape_says_what_is_wrong)
{
	static const int64_t many[9] = { 24, 1, 1, 1, 1, 1, 1, 1, 1 };
	static const int64_t odd[2] = { -1, 7 }, none[2] = { -1, INT64_C(1) << 24 };
	static const int64_t short_of[2] = { 4, 5 }, twice[2] = { -1, -1 },
		huge[2] = { 1, (1 << 24) + 1 };
	static const int64_t zero[4] = { 2, 3, 4, 0 };
	char why[256];

	reshape(many, 8, why, sizeof(why));
	ck_assert_str_eq(why, "");
	reshape(many, 9, why, sizeof(why));
	ck_assert_ptr_nonnull(strstr(why, "its input 1 has 9 values, more than 8"));
	reshape(odd, 2, why, sizeof(why));
	ck_assert_ptr_nonnull(strstr(why, "its -1 dimension cannot be computed"));
	reshape(none, 2, why, sizeof(why));
	ck_assert_ptr_nonnull(strstr(why, "its -1 dimension cannot be computed"));
	reshape(short_of, 2, why, sizeof(why));
	ck_assert_ptr_nonnull(strstr(why, "another number of elements"));
	reshape(twice, 2, why, sizeof(why));
	ck_assert_ptr_nonnull(strstr(why, "its shape is not valid"));
	reshape(huge, 2, why, sizeof(why));
	ck_assert_ptr_nonnull(strstr(why, "another number of elements"));
	reshape(zero, 4, why, sizeof(why));
	ck_assert_ptr_nonnull(strstr(why, "its shape copies dimension 3 of a tensor of rank 3"));
}
END_TEST

/*
 * Loads, infers and checks a graph of one node. Returns the result; @err receives the error text.
 */
static int outcome(struct pb *node, struct rvl_err *err)
{
	static const int64_t x[] = { 2, 3, 4, 5, END };
	struct pb g = { .p = NULL }, v = pb_value("x", F32, x), out = { .p = NULL }, m;
	struct rvl_graph *graph;
	int rc;

	pb_msg(&g, 1, node);
	pb_str(&g, 2, "g");
	pb_msg(&g, 11, &v);
	pb_str(&out, 1, "y");
	pb_msg(&g, 12, &out);
	m = pb_model(&g, 8, 13);
	*err = (struct rvl_err){ "" };
	rc = rvl_onnx_load(m.p, m.n, NULL, &graph, err);
	if (!rc) {
		rc = rvl_shape_infer(graph, err);
		rc = rc ? rc : rvl_graph_check_supported(graph, err);
		rvl_graph_free(graph);
	}
	free(m.p);
	return rc;
}

struct node_case {
	const char *op, *in, *out;
	struct attr attr;
	int rc;
	const char *say;
};

static const struct node_case nodes[] = {
	{ "Relu", "x x", "y", { 0 }, -EBADMSG, "has 2 inputs, not 1 to 1" },
	{ "Add", "x x x", "y", { 0 }, -EBADMSG, "has 3 inputs, not 2 to 2" },
	{ "Add", "- x", "y", { 0 }, -EBADMSG, "lacks input 0" },
	{ "Relu", "x", "y z", { 0 }, -EOPNOTSUPP, "it has 2 outputs, at most 1 are known" },
	{ "BatchNormalization", "x x x x x", "y z", { 0 }, -EOPNOTSUPP, "its input 1 has 120 values, not 3" },
	{ "Constant", "", "y", { 0 }, -EOPNOTSUPP, "exactly one value attribute" },
	{ "Constant", "", "y", { "value_string", L(1) }, -EOPNOTSUPP, "value_string" },
	{ "Constant", "", "y", { "value_int", L(5) }, 0, "" },
	{ "Transpose", "x", "y", { "perm", L(0, 1, 2, 3) }, 0, "" },
	{ "Transpose", "x", "y", { "perm", L(0, 1, 1, 3) }, -EOPNOTSUPP, "perm does not name every axis once" },
	{ "Softmax", "x", "y", { "axis", L(INT64_C(1) << 40) }, -EOPNOTSUPP, "axis" },
	{ "Flatten", "x", "y", { "axis", { NONE }, "middle" }, -EOPNOTSUPP, "axis' has another type" },
};

START_TEST(arity_and_attributes)
{
	const struct node_case *c = &nodes[_i];
	struct pb n = pb_node(c->op, c->in, c->out);
	struct rvl_err err;
	int rc;

	put_attr(&n, &c->attr);
	rc = outcome(&n, &err);
	ck_assert_msg(rc == c->rc && strstr(err.msg, c->say), "case %d (%s): %d, '%s'", _i, c->op,
		      rc, err.msg);
}
END_TEST

START_TEST(too_many_axes_or_values)
{
	struct pb n = pb_node("Transpose", "x", "y");
	int64_t many[RVL_ONNX_MAX_INTS + 1] = { 0 };
	struct rvl_err err;

	pb_attr_ints(&n, "perm", many, 9);
	ck_assert_int_eq(outcome(&n, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.msg, "perm"));
	n = pb_node("MaxPool", "x", "y");
	pb_attr_ints(&n, "kernel_shape", many, RVL_ONNX_MAX_INTS + 1);
	ck_assert_int_eq(outcome(&n, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.msg, "kernel_shape"));
	n = pb_node("Constant", "", "y");
	pb_attr_ints(&n, "value_ints", many, RVL_ONNX_MAX_INTS + 1);
	ck_assert_int_eq(outcome(&n, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.msg, "exactly one value attribute"));
}
END_TEST

START_TEST(sizes_beyond_the_limits)
{
	static const int64_t large[] = { 1 << 15, 1, END }, large_too[] = { 1 << 15, END };
	const struct shape_case product = { "MatMul", "x a", D(1 << 24, 1), D(1, 1 << 24) };
	struct rvl_err err = { "" };
	struct rvl_graph *graph;
	struct pb g = graph_of(&product), m = pb_model(&g, 8, 13), n, v, out = { .p = NULL };

	ck_assert_int_eq(rvl_onnx_load(m.p, m.n, NULL, &graph, &err), 0);
	ck_assert_int_eq(rvl_shape_infer(graph, &err), 0);
	ck_assert_int_eq(rvl_graph_check_supported(graph, &err), -EOPNOTSUPP);
	ck_assert_msg(strstr(err.msg, "its output 'y' is too large"), "%s", err.msg);
	rvl_graph_free(graph);
	free(m.p);

	/* 2^30 values of four bytes: each operand is within the limits, the result is not. */
	n = pb_node("Add", "x a", "y");
	g = (struct pb){ .p = NULL };
	pb_msg(&g, 1, &n);
	v = pb_value("x", F32, large);
	pb_msg(&g, 11, &v);
	v = pb_value("a", F32, large_too);
	pb_msg(&g, 11, &v);
	pb_str(&out, 1, "y");
	pb_msg(&g, 12, &out);
	m = pb_model(&g, 8, 13);
	ck_assert_int_eq(rvl_onnx_load(m.p, m.n, NULL, &graph, &err), 0);
	ck_assert_int_eq(rvl_shape_infer(graph, &err), 0);
	ck_assert_int_eq(rvl_graph_check_supported(graph, &err), -EOPNOTSUPP);
	ck_assert_msg(strstr(err.msg, "too large"), "%s", err.msg);
	rvl_graph_free(graph);
	free(m.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("shapes");
	TCase *t = tcase_create("all");

	tcase_add_loop_test(t, shapes, 0, sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(t, reshape_says_what_is_wrong);
	tcase_add_loop_test(t, arity_and_attributes, 0, sizeof(nodes) / sizeof(nodes[0]));
	tcase_add_test(t, too_many_axes_or_values);
	tcase_add_test(t, sizes_beyond_the_limits);
	suite_add_tcase(s, t);
	return run_suite(s);
}
