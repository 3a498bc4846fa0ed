/* SPDX-License-Identifier: MIT */
/* Subgraphs and function bodies: the expansion of If, Loop, Scan and calls, and hostile models. */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "chance.h"
#include "graph/interp.h"
#include "onnx/onnx.h"
#include "suite.h"
#include "unit/pbuild.h"

#define F32 1
#define S64 7
#define BOOL 9

#define DIMS(...) ((const int64_t[]) { __VA_ARGS__, -1 })
#define SCALAR ((const int64_t[]) { -1 })

static struct rvl_err err;

/* ---- messages ---- */

static void add_node(struct pb *g, struct pb n)
{
	pb_msg(g, 1, &n);
}

static void add_io(struct pb *g, unsigned int field, const char *name, int type,
		   const int64_t *dims)
{
	struct pb v = pb_value(name, type, dims);

	pb_msg(g, field, &v);
}

/* An output without type or shape. */
static void add_output(struct pb *g, const char *name)
{
	struct pb v = { .p = NULL };

	pb_str(&v, 1, name);
	pb_msg(g, 12, &v);
}

static void add_const(struct pb *g, const char *name, int type, const int64_t *dims, const void *raw,
		      size_t n)
{
	struct pb t = pb_tensor(name, type, dims, raw, n);

	pb_msg(g, 5, &t);
}

static void add_int(struct pb *g, const char *name, int64_t v)
{
	add_const(g, name, S64, SCALAR, &v, sizeof(v));
}

static void add_float(struct pb *g, const char *name, float v)
{
	add_const(g, name, F32, SCALAR, &v, sizeof(v));
}

static void add_bool(struct pb *g, const char *name, uint8_t v)
{
	add_const(g, name, BOOL, SCALAR, &v, sizeof(v));
}

static void attr_graph(struct pb *node, const char *name, struct pb *graph)
{
	struct pb a = { .p = NULL };

	pb_str(&a, 1, name);
	pb_msg(&a, 6, graph);
	pb_int(&a, 20, 5);
	pb_msg(node, 5, &a);
}

/* An attribute that refers to an attribute of the calling node. */
static void attr_ref(struct pb *node, const char *name, const char *of, int type)
{
	struct pb a = { .p = NULL };

	pb_str(&a, 1, name);
	pb_int(&a, 20, (uint64_t)type);
	pb_str(&a, 21, of);
	pb_msg(node, 5, &a);
}

/* A graph with input x of three floats and an output y. */
static struct pb main_graph(void)
{
	struct pb g = { .p = NULL };

	add_io(&g, 11, "x", F32, DIMS(3));
	add_output(&g, "y");
	return g;
}

/* ---- running ---- */

struct model {
	struct pb bytes;
	struct rvl_graph *g;
	struct rvl_interp *it;
	int rc;
};

static struct model load_bytes(struct pb bytes)
{
	struct model m = { .bytes = bytes };

	err.msg[0] = 0;
	m.rc = rvl_onnx_load(m.bytes.p, m.bytes.n, NULL, &m.g, &err);
	if (!m.rc)
		m.rc = rvl_shape_infer(m.g, &err);
	if (!m.rc)
		m.rc = rvl_graph_check_supported(m.g, &err);
	if (!m.rc)
		m.rc = rvl_graph_verify(m.g, &err);
	return m;
}

static struct model load(struct pb *g, int opset)
{
	return load_bytes(pb_model(g, 8, opset));
}

static void unload(struct model *m)
{
	rvl_interp_free(m->it);
	rvl_graph_free(m->g);
	free(m->bytes.p);
}

static void refused(struct pb *g, int opset, int rc, const char *text)
{
	struct model m = load(g, opset);

	ck_assert_msg(m.rc == rc, "returned %d: %s", m.rc, err.msg);
	ck_assert_msg(strstr(err.msg, text), "'%s' lacks '%s'", err.msg, text);
	unload(&m);
}

/* Runs on x = -1, 2, 3 and compares output @i with @n floats. */
static void start(struct model *m)
{
	static const float x[] = { -1, 2, 3 };

	ck_assert_msg(!m->rc, "%s", err.msg);
	ck_assert_msg(!rvl_interp_new(m->g, true, &m->it, &err), "%s", err.msg);
	ck_assert(!rvl_interp_set(m->it, 0, x, sizeof(x), &err));
}

static void want(struct model *m, uint32_t i, const int64_t *dims, const float *v)
{
	const struct rvl_tensor *y = m->g->outputs[i];
	const struct rvl_shape *s = rvl_interp_shape(m->it, y);
	const float *got = rvl_interp_data(m->it, y);
	int k = 0;

	for (; dims[k] >= 0; k++)
		ck_assert_int_eq(s->dim[k], dims[k]);
	ck_assert_int_eq(s->rank, k);
	for (int64_t e = 0; e < rvl_shape_count(s); e++)
		ck_assert_float_eq(got[e], v[e]);
}

#define WANT(m, i, dims, ...) want(m, i, dims, (const float[]) { __VA_ARGS__ })

static void run(struct model *m)
{
	start(m);
	ck_assert_msg(!rvl_interp_run(m->it, &err), "%s", err.msg);
}

static uint32_t count(const struct rvl_graph *g, const char *op)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += !strcmp(g->nodes[i]->op_type, op);
	return n;
}

/* ---- If ---- */

/* A branch that applies @op to the outer x and a constant of its own; both branches use one name. */
static struct pb branch(const char *op, float by)
{
	struct pb b = { .p = NULL };

	add_float(&b, "by", by);
	add_node(&b, pb_node(op, "x by", "r"));
	add_output(&b, "r");
	return b;
}

static struct pb if_node(const char *cond, struct pb a, struct pb b)
{
	struct pb n = pb_node("If", cond, "y");

	attr_graph(&n, "then_branch", &a);
	attr_graph(&n, "else_branch", &b);
	return n;
}

START_TEST(a_constant_condition_takes_one_branch)
{
	for (uint8_t yes = 0; yes < 2; yes++) {
		struct pb g = main_graph();
		struct model m;

		add_bool(&g, "cond", yes);
		add_node(&g, if_node("cond", branch(yes ? "Add" : "Unknown", 10),
				     branch(yes ? "Unknown" : "Mul", 10)));
		m = load(&g, 13);
		run(&m);
		if (yes)
			WANT(&m, 0, DIMS(3), 9, 12, 13);
		else
			WANT(&m, 0, DIMS(3), -10, 20, 30);
		ck_assert_uint_eq(count(m.g, "Select"), 0);
		unload(&m);
	}
}
END_TEST

/* An operand with an empty name is absent. */
START_TEST(a_condition_must_be_there)
{
	struct pb g = main_graph();

	add_node(&g, if_node("", branch("Add", 10), branch("Mul", 10)));
	refused(&g, 13, -EOPNOTSUPP, "it does not have one input");
}
END_TEST

/* The rank of an input is known, so the condition is constant, as in exports of squeeze(). */
START_TEST(a_condition_that_follows_from_shapes_is_constant)
{
	struct pb g = main_graph();
	struct model m;

	add_int(&g, "three", 3);
	add_node(&g, pb_node("Size", "x", "size"));
	add_node(&g, pb_node("Equal", "size three", "cond"));
	add_node(&g, if_node("cond", branch("Add", 1), branch("Unknown", 1)));
	m = load(&g, 13);
	run(&m);
	WANT(&m, 0, DIMS(3), 0, 3, 4);
	unload(&m);
}
END_TEST

static struct pb run_time_if(struct pb a, struct pb b)
{
	struct pb g = main_graph();
	struct pb r = pb_node("ReduceSum", "x", "sum");
	int64_t keep = 0;

	pb_attr_int(&r, "keepdims", keep);
	add_float(&g, "zero", 0);
	add_node(&g, r);
	add_node(&g, pb_node("Greater", "sum zero", "cond"));
	add_node(&g, if_node("cond", a, b));
	return g;
}

START_TEST(a_run_selects_between_branches)
{
	static const float negative[] = { -1, -2, -3 };
	struct pb g = run_time_if(branch("Add", 10), branch("Mul", 10));
	struct model m = load(&g, 13);

	run(&m);
	WANT(&m, 0, DIMS(3), 9, 12, 13);
	ck_assert(!rvl_interp_set(m.it, 0, negative, sizeof(negative), &err));
	ck_assert(!rvl_interp_run(m.it, &err));
	WANT(&m, 0, DIMS(3), -10, -20, -30);
	unload(&m);
}
END_TEST

START_TEST(branches_of_different_shapes_need_a_constant_condition)
{
	struct pb b = { .p = NULL };
	struct pb g;

	add_float(&b, "one", 1);
	add_output(&b, "one");
	g = run_time_if(branch("Add", 10), b);
	refused(&g, 13, -EOPNOTSUPP, "its branches give different shapes, and the branch is known at run time");
}
END_TEST

START_TEST(malformed_ifs_are_refused)
{
	struct pb g = main_graph(), n = pb_node("If", "c", "y"), b = branch("Add", 1);

	add_bool(&g, "c", 1);
	attr_graph(&n, "then_branch", &b);
	add_node(&g, n);
	refused(&g, 13, -EOPNOTSUPP, "it lacks the subgraph else_branch");

	g = main_graph();
	b = branch("Add", 1);
	n = branch("Add", 1);
	add_io(&n, 11, "in", F32, DIMS(3));
	add_bool(&g, "c", 1);
	add_node(&g, if_node("c", b, n));
	refused(&g, 13, -EOPNOTSUPP, "a branch does not have its number of outputs, or has inputs");

	g = main_graph();
	add_int(&g, "c", 1);
	add_node(&g, if_node("c", branch("Add", 1), branch("Add", 1)));
	refused(&g, 13, -EOPNOTSUPP, "its condition is not one bool");

	g = main_graph();
	b = branch("Add", 1);
	add_node(&b, pb_node("Add", "r nowhere", "s"));
	add_bool(&g, "c", 1);
	add_node(&g, if_node("c", b, branch("Add", 1)));
	refused(&g, 13, -EBADMSG, "reads 'nowhere', which no earlier node produces");
}
END_TEST

/* ---- Loop ---- */

/* state += x * i; outputs the state of each iteration; continues while i < @last. */
static struct pb sum_body(int64_t last)
{
	struct pb b = { .p = NULL }, cast = pb_node("Cast", "i", "f");

	pb_attr_int(&cast, "to", F32);
	add_io(&b, 11, "i", S64, SCALAR);
	add_io(&b, 11, "go", BOOL, SCALAR);
	add_io(&b, 11, "s", F32, DIMS(3));
	add_int(&b, "last", last);
	add_node(&b, cast);
	add_node(&b, pb_node("Mul", "x f", "p"));
	add_node(&b, pb_node("Add", "s p", "t"));
	add_node(&b, pb_node("Less", "i last", "more"));
	add_node(&b, pb_node("Identity", "t", "u"));
	add_output(&b, "more");
	add_output(&b, "t");
	add_output(&b, "u");
	return b;
}

static struct pb loop_graph(const char *in, struct pb body)
{
	struct pb g = main_graph(), n = pb_node("Loop", in, "y all");

	add_output(&g, "all");
	attr_graph(&n, "body", &body);
	add_node(&g, n);
	return g;
}

START_TEST(a_loop_is_unrolled)
{
	struct pb g = loop_graph("m - x", sum_body(1000));
	struct model m;

	add_int(&g, "m", 3);
	m = load(&g, 13);
	run(&m);
	WANT(&m, 0, DIMS(3), -4, 8, 12);
	WANT(&m, 1, DIMS(3, 3), -1, 2, 3, -2, 4, 6, -4, 8, 12);
	ck_assert_uint_eq(count(m.g, "Loop"), 0);
	unload(&m);

	/* The condition of the body ends it: iterations 0, 1 and 2. */
	g = loop_graph("- c x", sum_body(2));
	add_bool(&g, "c", 1);
	m = load(&g, 13);
	run(&m);
	WANT(&m, 0, DIMS(3), -4, 8, 12);
	unload(&m);
}
END_TEST

/* More values than a node has inputs are joined in two steps. */
START_TEST(a_long_loop_gives_every_value)
{
	struct pb g = loop_graph("m - x", sum_body(1000));
	struct model m;
	float all[3 * 70], v = 1;

	add_int(&g, "m", 70);
	m = load(&g, 13);
	run(&m);
	for (int i = 0; i < 70; i++) {
		v += (float)i;
		all[3 * i] = -v;
		all[3 * i + 1] = 2 * v;
		all[3 * i + 2] = 3 * v;
	}
	want(&m, 1, DIMS(70, 3), all);
	unload(&m);
}
END_TEST

START_TEST(a_loop_may_run_no_iteration)
{
	struct pb g = main_graph(), n = pb_node("Loop", "m - x", "y"), b = sum_body(1);
	struct model m;

	attr_graph(&n, "body", &b);
	add_node(&g, n);
	add_int(&g, "m", 0);
	m = load(&g, 13);
	run(&m);
	WANT(&m, 0, DIMS(3), -1, 2, 3);
	unload(&m);

	g = loop_graph("m - x", sum_body(1));
	add_int(&g, "m", -5);
	refused(&g, 13, -EOPNOTSUPP, "it runs no iteration");
}
END_TEST

/* The first output is absent, which does not change the position of the others. */
START_TEST(an_output_of_a_loop_may_be_absent)
{
	struct pb g = { .p = NULL }, n = { .p = NULL }, b = sum_body(1000);
	struct model m;

	add_io(&g, 11, "x", F32, DIMS(3));
	add_output(&g, "all");
	pb_str(&n, 1, "m");
	pb_str(&n, 1, "");
	pb_str(&n, 1, "x");
	pb_str(&n, 2, "");
	pb_str(&n, 2, "all");
	pb_str(&n, 4, "Loop");
	attr_graph(&n, "body", &b);
	add_node(&g, n);
	add_int(&g, "m", 2);
	m = load(&g, 13);
	run(&m);
	WANT(&m, 0, DIMS(2, 3), -1, 2, 3, -2, 4, 6);
	unload(&m);
}
END_TEST

START_TEST(loops_of_a_run_are_refused_by_name)
{
	struct pb g = loop_graph("n - x", sum_body(1000));

	add_io(&g, 11, "n", S64, SCALAR);
	refused(&g, 13, -EOPNOTSUPP, "(Loop): its trip count is known at run time only: freeze the input that 'n'");

	g = loop_graph("m c x", sum_body(1000));
	add_int(&g, "m", 3);
	add_io(&g, 11, "c", BOOL, SCALAR);
	refused(&g, 13, -EOPNOTSUPP, "(Loop): its condition is known at run time only: freeze the input that 'c'");
}
END_TEST

START_TEST(malformed_loops_are_refused)
{
	struct pb g = loop_graph("m - x x", sum_body(1));

	add_int(&g, "m", 3);
	refused(&g, 13, -EOPNOTSUPP, "its body does not fit its inputs and outputs");
	g = loop_graph("m - x", sum_body(1));
	add_float(&g, "m", 3);
	refused(&g, 13, -EOPNOTSUPP, "its trip count is not one int64");
	g = loop_graph("m c x", sum_body(1));
	add_int(&g, "m", 3);
	add_int(&g, "c", 3);
	refused(&g, 13, -EOPNOTSUPP, "its condition is not one bool");
	g = loop_graph("m - -", sum_body(1));
	add_int(&g, "m", 3);
	refused(&g, 13, -EOPNOTSUPP, "it lacks an initial value");
}
END_TEST

/* A small file must not keep the compiler busy without a limit. */
START_TEST(endless_loops_are_bounded)
{
	struct pb g = loop_graph("m - x", sum_body(INT64_MAX));
	struct pb inner = { .p = NULL }, outer = { .p = NULL }, n;

	add_int(&g, "m", INT64_MAX);
	refused(&g, 13, -EOPNOTSUPP, "iterations have more than 16384 nodes");

	/* A loop without nodes in a loop. */
	add_io(&inner, 11, "i", S64, SCALAR);
	add_io(&inner, 11, "c", BOOL, SCALAR);
	add_io(&inner, 11, "s", F32, DIMS(3));
	add_output(&inner, "c");
	add_output(&inner, "s");
	n = pb_node("Loop", "m - s", "t");
	attr_graph(&n, "body", &inner);
	add_io(&outer, 11, "i", S64, SCALAR);
	add_io(&outer, 11, "c", BOOL, SCALAR);
	add_io(&outer, 11, "s", F32, DIMS(3));
	add_node(&outer, n);
	add_output(&outer, "c");
	add_output(&outer, "t");
	g = main_graph();
	n = pb_node("Loop", "m - x", "y");
	attr_graph(&n, "body", &outer);
	add_node(&g, n);
	add_int(&g, "m", 1000000000);
	refused(&g, 13, -EOPNOTSUPP, "iterations have more than 16384 nodes");
}
END_TEST

/* A loop with a trip count and no condition input ignores the condition that its body gives. */
START_TEST(a_loop_without_condition_takes_all_iterations)
{
	struct pb g = loop_graph("m - x", sum_body(2)), b = { .p = NULL };
	struct model m;

	add_int(&g, "m", 4);
	m = load(&g, 13);
	run(&m);
	WANT(&m, 0, DIMS(3), -7, 14, 21);
	unload(&m);

	/* The same if only a run would know the condition. */
	add_io(&b, 11, "i", S64, SCALAR);
	add_io(&b, 11, "go", BOOL, SCALAR);
	add_io(&b, 11, "s", F32, DIMS(3));
	add_node(&b, pb_node("ReduceSum", "s", "sum"));
	add_node(&b, pb_node("Less", "sum sum", "more"));
	add_node(&b, pb_node("Add", "s s", "t"));
	add_output(&b, "more");
	add_output(&b, "t");
	add_output(&b, "t");
	g = loop_graph("m - x", b);
	add_int(&g, "m", 3);
	m = load(&g, 13);
	run(&m);
	WANT(&m, 0, DIMS(3), -8, 16, 24);
	unload(&m);
}
END_TEST

/*
 * Each of 2,000 iterations contains an If with large branches: a list of value_infos, an
 * initializer that is not aligned in the file, and the same in a Constant. Each is read once.
 */
START_TEST(a_body_is_read_once)
{
	struct pb body = { .p = NULL }, g = main_graph(), n = pb_node("Loop", "m - x", "y");
	struct pb b[2] = { branch("Add", 1), branch("Add", 2) };
	float *zeros = calloc(1 << 16, sizeof(float));
	struct model m;

	for (int i = 0; i < 2; i++) {
		struct pb c = pb_node("Constant", "", "large"), a = { .p = NULL };
		struct pb t = pb_tensor("", F32, DIMS(1 << 16), zeros, (1 << 16) * sizeof(float));

		add_const(&b[i], "odd", F32, DIMS(1 << 16), zeros, (1 << 16) * sizeof(float));
		add_const(&b[i], "even", F32, DIMS(1 << 16), zeros, (1 << 16) * sizeof(float));
		for (int k = 0; k < 20000; k++)
			add_io(&b[i], 13, "v", F32, DIMS(3));
		pb_str(&a, 1, "value");
		pb_msg(&a, 5, &t);
		pb_msg(&c, 5, &a);
		add_node(&b[i], c);
	}
	add_io(&body, 11, "i", S64, SCALAR);
	add_io(&body, 11, "go", BOOL, SCALAR);
	add_io(&body, 11, "x", F32, DIMS(3));
	add_bool(&body, "c", 1);
	add_node(&body, if_node("c", b[0], b[1]));
	add_output(&body, "go");
	add_output(&body, "y");
	attr_graph(&n, "body", &body);
	add_node(&g, n);
	add_int(&g, "m", 2000);
	m = load(&g, 13);
	run(&m);
	ck_assert_uint_le(rvl_arena_held(m.g->arena), (64u << 20) + 8 * m.bytes.n);
	WANT(&m, 0, DIMS(3), 1999, 2002, 2003);
	unload(&m);
	free(zeros);
}
END_TEST

static struct pb nested_ifs(int depth)
{
	struct pb b = branch("Add", 1);

	while (depth--) {
		struct pb outer = { .p = NULL }, n = pb_node("If", "c", "y"), e = branch("Add", 1);

		attr_graph(&n, "then_branch", &b);
		attr_graph(&n, "else_branch", &e);
		add_node(&outer, n);
		add_output(&outer, "y");
		b = outer;
	}
	return b;
}

START_TEST(depth_is_bounded)
{
	for (int depth = 4; depth <= 6; depth += 2) {
		struct pb g = main_graph();

		add_bool(&g, "c", 1);
		add_node(&g, if_node("c", nested_ifs(depth), branch("Add", 1)));
		if (depth == 4) {
			struct model m = load(&g, 13);

			run(&m);
			WANT(&m, 0, DIMS(3), 0, 3, 4);
			unload(&m);
		} else {
			refused(&g, 13, -E2BIG, "is more than 12 subgraphs or functions deep");
		}
	}
}
END_TEST

/* ---- Scan ---- */

/* s + e is the new state and the value of the iteration. */
static struct pb scan_body(void)
{
	struct pb b = { .p = NULL };

	add_io(&b, 11, "s", F32, DIMS(1));
	add_io(&b, 11, "e", F32, DIMS(1));
	add_node(&b, pb_node("Add", "s e", "t"));
	add_node(&b, pb_node("Identity", "t", "u"));
	add_output(&b, "t");
	add_output(&b, "u");
	return b;
}

static struct pb scan_graph(struct pb *n)
{
	struct pb g = main_graph(), b = scan_body();

	add_output(&g, "all");
	attr_graph(n, "body", &b);
	add_node(&g, *n);
	return g;
}

START_TEST(a_scan_takes_elements)
{
	struct pb n = pb_node("Scan", "zero x", "y all"), g;
	struct model m;

	pb_attr_int(&n, "num_scan_inputs", 1);
	g = scan_graph(&n);
	add_float(&g, "zero", 0);
	m = load(&g, 13);
	run(&m);
	WANT(&m, 0, SCALAR, 4);
	WANT(&m, 1, DIMS(3), -1, 1, 4);
	unload(&m);

	n = pb_node("Scan", "zero x", "y all");
	pb_attr_int(&n, "num_scan_inputs", 1);
	pb_attr_ints(&n, "scan_input_directions", (const int64_t[]) { 1 }, 1);
	pb_attr_ints(&n, "scan_input_axes", (const int64_t[]) { -1 }, 1);
	pb_attr_ints(&n, "scan_output_directions", (const int64_t[]) { 1 }, 1);
	g = scan_graph(&n);
	add_float(&g, "zero", 0);
	m = load(&g, 13);
	run(&m);
	WANT(&m, 1, DIMS(3), 4, 5, 3);
	unload(&m);
}
END_TEST

/* The scanned axis is the second one of the operand, the stacked one the second of the result. */
START_TEST(a_scan_has_axes)
{
	struct pb n = pb_node("Scan", "zero w", "y all"), g;
	const float w[] = { 1, 2, 3, 4, 5, 6 }, zero[] = { 0, 0 };
	struct model m;

	pb_attr_int(&n, "num_scan_inputs", 1);
	pb_attr_ints(&n, "scan_input_axes", (const int64_t[]) { 1 }, 1);
	pb_attr_ints(&n, "scan_output_axes", (const int64_t[]) { -1 }, 1);
	g = scan_graph(&n);
	add_const(&g, "zero", F32, DIMS(2), zero, sizeof(zero));
	add_const(&g, "w", F32, DIMS(2, 3), w, sizeof(w));
	m = load(&g, 13);
	run(&m);
	WANT(&m, 0, DIMS(2), 6, 15);
	WANT(&m, 1, DIMS(2, 3), 1, 3, 6, 4, 9, 15);
	unload(&m);
}
END_TEST

START_TEST(a_scan_of_opset_8_has_a_batch)
{
	const float w[] = { 1, 2, 3, 4, 5, 6 }, zero[] = { 0, 10 };
	struct pb n = pb_node("Scan", "- zero w", "y all"), g;
	struct model m;

	pb_attr_int(&n, "num_scan_inputs", 1);
	g = scan_graph(&n);
	add_const(&g, "zero", F32, DIMS(2), zero, sizeof(zero));
	add_const(&g, "w", F32, DIMS(2, 3), w, sizeof(w));
	m = load(&g, 8);
	run(&m);
	WANT(&m, 0, DIMS(2), 6, 25);
	WANT(&m, 1, DIMS(2, 3), 1, 3, 6, 14, 19, 25);
	unload(&m);

	n = pb_node("Scan", "lens zero w", "y all");
	pb_attr_int(&n, "num_scan_inputs", 1);
	g = scan_graph(&n);
	refused(&g, 8, -EBADMSG, "no node produces");
}
END_TEST

START_TEST(malformed_scans_are_refused)
{
	static const struct { const char *in, *attr; int64_t n, v[2]; const char *text; } bad[] = {
		{ "zero x", "num_scan_inputs", 0, { 0 }, "num_scan_inputs is not one of" },
		{ "zero x", "num_scan_inputs", 0, { 3 }, "num_scan_inputs is not one of" },
		{ "zero x x", "num_scan_inputs", 0, { 1 }, "its body does not fit" },
		{ "zero x", "scan_input_axes", 2, { 0, 0 }, "does not have a value for each scan" },
		{ "zero x", "scan_output_axes", 2, { 0, 0 }, "does not have a value for each scan" },
		{ "zero x", "scan_input_axes", 1, { 1 }, "it scans an axis that 'x' lacks" },
		{ "zero x", "scan_input_axes", 1, { -2 }, "it scans an axis that 'x' lacks" },
		{ "zero empty", NULL, 0, { 0 }, "it runs no iteration" },
		{ "- x", NULL, 0, { 0 }, "it lacks an operand" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pb n = pb_node("Scan", bad[i].in, "y all"), g;

		if (!bad[i].attr || bad[i].n)
			pb_attr_int(&n, "num_scan_inputs", 1);
		if (bad[i].n)
			pb_attr_ints(&n, bad[i].attr, bad[i].v, (size_t)bad[i].n);
		else if (bad[i].attr)
			pb_attr_int(&n, bad[i].attr, bad[i].v[0]);
		g = scan_graph(&n);
		add_float(&g, "zero", 0);
		add_const(&g, "empty", F32, DIMS(0), NULL, 0);
		refused(&g, 13, -EOPNOTSUPP, bad[i].text);
	}
}
END_TEST

/* ---- functions ---- */

static struct pb function(const char *domain, const char *name, const char *in, const char *out)
{
	struct pb f = { .p = NULL }, o = { .p = NULL };
	char buf[64];

	pb_str(&f, 1, name);
	snprintf(buf, sizeof(buf), "%s", in);
	for (char *save, *s = strtok_r(buf, " ", &save); s; s = strtok_r(NULL, " ", &save))
		pb_str(&f, 4, s);
	pb_str(&f, 5, out);
	pb_str(&f, 10, domain);
	pb_str(&o, 1, "");
	pb_int(&o, 2, 16);
	pb_msg(&f, 9, &o);
	return f;
}

static void add_to(struct pb *f, struct pb n)
{
	pb_msg(f, 7, &n);
}

static struct pb call(const char *name, const char *in, const char *out)
{
	struct pb n = pb_node(name, in, out);

	pb_str(&n, 7, "mine");
	return n;
}

/* leak(x, b) = LeakyRelu<alpha=@slope>(x) + b; slope is 0.5 if the call does not give it */
static struct pb leak_function(void)
{
	struct pb f = function("mine", "Leak", "x b", "r"), n = pb_node("LeakyRelu", "x", "l");
	struct pb d = { .p = NULL };

	attr_ref(&n, "alpha", "slope", 1);
	add_to(&f, n);
	add_to(&f, pb_node("Sum", "l b", "r"));
	pb_str(&d, 1, "slope");
	pb_float(&d, 2, 0.5f);
	pb_int(&d, 20, 1);
	pb_msg(&f, 11, &d);
	return f;
}

static struct model load_with(struct pb *g, struct pb *f, int n)
{
	struct pb m = pb_model(g, 8, 13);

	for (int i = 0; i < n; i++)
		pb_msg(&m, 25, &f[i]);
	return load_bytes(m);
}

START_TEST(a_call_is_its_body)
{
	struct pb g = main_graph(), f = leak_function(), n = call("Leak", "x x", "a");
	struct model m;

	pb_attr_float(&n, "slope", 0.25f);
	add_node(&g, n);
	add_node(&g, call("Leak", "a x", "y"));
	m = load_with(&g, &f, 1);
	run(&m);
	WANT(&m, 0, DIMS(3), -1.625f, 6, 9);
	unload(&m);
}
END_TEST

/* twice(x) = leak<slope=@s>(leak<slope=@s>(x, x), x); s is passed through both calls */
START_TEST(functions_call_functions)
{
	struct pb g = main_graph(), n = call("Twice", "x", "y");
	struct pb f[2] = { function("mine", "Twice", "x", "r"), leak_function() };
	struct model m;

	for (int i = 0; i < 2; i++) {
		struct pb c = call("Leak", i ? "l x" : "x x", i ? "r" : "l");

		attr_ref(&c, "slope", "s", 1);
		add_to(&f[0], c);
	}
	pb_attr_float(&n, "s", 1);
	add_node(&g, n);
	m = load_with(&g, f, 2);
	run(&m);
	WANT(&m, 0, DIMS(3), -3, 6, 9);
	unload(&m);
}
END_TEST

/* An absent operand of the call is absent in the body: Clip has no upper bound. */
START_TEST(an_operand_of_a_call_may_be_absent)
{
	struct pb g = main_graph(), f = function("mine", "Bound", "x low high", "r");
	struct model m;

	add_to(&f, pb_node("Clip", "x low high", "r"));
	add_float(&g, "zero", 0);
	add_node(&g, call("Bound", "x zero", "y"));
	m = load_with(&g, &f, 1);
	run(&m);
	WANT(&m, 0, DIMS(3), 0, 2, 3);
	unload(&m);
}
END_TEST

/* A subgraph in a body reads the body's names and the attributes of the call. */
START_TEST(a_body_may_hold_subgraphs)
{
	struct pb g = main_graph(), f = function("mine", "Pick", "c x", "y");
	struct pb b[2] = { { .p = NULL }, { .p = NULL } }, n = call("Pick", "c x", "y");
	struct model m;

	for (int i = 0; i < 2; i++) {
		struct pb l = pb_node("LeakyRelu", "x", "r");

		attr_ref(&l, "alpha", i ? "no" : "yes", 1);
		add_node(&b[i], l);
		add_output(&b[i], "r");
	}
	add_to(&f, if_node("c", b[0], b[1]));
	pb_attr_float(&n, "yes", 3);
	add_bool(&g, "c", 1);
	add_node(&g, n);
	m = load_with(&g, &f, 1);
	run(&m);
	WANT(&m, 0, DIMS(3), -3, 2, 3);
	unload(&m);
}
END_TEST

/* The condition of an If may be a formal input that the call omits. */
START_TEST(a_condition_of_a_body_may_be_absent)
{
	for (int named = 0; named < 2; named++) {
		struct pb g = main_graph(), f = function("mine", "Pick", "x c", "y");
		struct model m;

		add_to(&f, if_node("c", branch("Add", 1), branch("Mul", 2)));
		add_node(&g, call("Pick", named ? "x -" : "x", "y"));
		m = load_with(&g, &f, 1);
		ck_assert_int_eq(m.rc, -EOPNOTSUPP);
		ck_assert_msg(strstr(err.msg, "its condition is not one bool"), "%s", err.msg);
		unload(&m);
	}
}
END_TEST

static void call_refused(struct pb *f, struct pb n, int rc, const char *text)
{
	struct pb g = main_graph();
	struct model m;

	add_node(&g, n);
	m = load_with(&g, f, 1);
	ck_assert_msg(m.rc == rc, "returned %d: %s", m.rc, err.msg);
	ck_assert_msg(strstr(err.msg, text), "'%s' lacks '%s'", err.msg, text);
	unload(&m);
}

START_TEST(malformed_calls_are_refused)
{
	struct pb f = leak_function();

	call_refused(&f, call("Leak", "x x x", "y"), -EBADMSG, "has 3 inputs, more than 2");
	f = leak_function();
	call_refused(&f, call("Leak", "x x", "y z"), -EBADMSG, "has 2 outputs, more than 1");
	f = leak_function();
	call_refused(&f, call("Leak", "x x", "x"), -EBADMSG, "makes tensor 'x', which another");
	f = function("mine", "Give", "a b", "b");
	call_refused(&f, call("Give", "x", "y"), -EBADMSG, "returns an operand that the call omits");
	f = function("mine", "Blind", "a", "r");
	add_to(&f, pb_node("Neg", "x", "r"));
	call_refused(&f, call("Blind", "x", "y"), -EBADMSG, "reads 'x', which no earlier node produces");
	f = function("other", "Leak", "a", "a");
	call_refused(&f, call("Leak", "x", "y"), -EOPNOTSUPP, "operator Leak is not in");
}
END_TEST

START_TEST(recursion_is_bounded)
{
	struct pb f = function("mine", "Again", "a", "r");

	add_to(&f, call("Again", "a", "r"));
	call_refused(&f, call("Again", "x", "y"), -E2BIG, "subgraphs or functions deep");
	/* Each body calls itself 40 times, to the maximum depth. */
	f = function("mine", "Bomb", "a", "r");
	for (int i = 0; i < 40; i++)
		add_to(&f, call("Bomb", "a", i ? "s" : "r"));
	call_refused(&f, call("Bomb", "x", "y"), -E2BIG, "subgraphs or functions deep");
}
END_TEST

/* Each function calls the next one 20 times: 20 ^ 5 nodes. */
START_TEST(expansion_is_bounded)
{
	struct pb g = main_graph(), f[5];
	struct model m;

	for (int i = 0; i < 5; i++) {
		char name[16], next[16], out[16];

		snprintf(name, sizeof(name), "F%d", i);
		snprintf(next, sizeof(next), "F%d", i + 1);
		f[i] = function("mine", name, "a", "r0");
		for (int k = 0; k < 20; k++) {
			snprintf(out, sizeof(out), "r%d", k);
			add_to(&f[i], i < 4 ? call(next, "a", out) : pb_node("Neg", "a", out));
		}
	}
	add_node(&g, call("F0", "x", "y"));
	m = load_with(&g, f, 5);
	ck_assert_int_eq(m.rc, -E2BIG);
	ck_assert_msg(strstr(err.msg, "more than 16384 nodes in all"), "%s", err.msg);
	unload(&m);
}
END_TEST

/* ---- compositions ---- */

static struct pb ms_node(const char *op, const char *in, const char *out)
{
	struct pb n = pb_node(op, in, out);

	pb_str(&n, 7, "com.microsoft");
	return n;
}

/* Every composition consists of nodes of the table, whatever operands the call omits. */
START_TEST(compositions_are_known_operators)
{
	const char *op, *domain;

	for (size_t i = 0; (op = rvl_onnx_body_op(i, &domain)); i++) {
		for (int n = 1; n <= 9; n++) {
			static const char list[] = "x x x x x x x x x";
			char in[32];
			struct pb node, g = main_graph();
			struct model m;

			snprintf(in, sizeof(in), "%.*s", 2 * n - 1, list);
			node = pb_node(op, in, "y");
			pb_str(&node, 7, domain);
			add_node(&g, node);
			m = load(&g, 13);
			ck_assert_msg(!strstr(err.msg, "is not in docs") &&
				      !strstr(err.msg, "has another type than"),
				      "%s of %d inputs: %s", op, n, err.msg);
			unload(&m);
		}
	}
}
END_TEST

START_TEST(a_composition_copies_where_an_operand_is_absent)
{
	struct pb g = main_graph();
	struct model m;

	add_node(&g, ms_node("FastGelu", "x", "a"));
	add_node(&g, ms_node("FastGelu", "a x", "y"));
	m = load(&g, 13);
	ck_assert_msg(!m.rc, "%s", err.msg);
	ck_assert_uint_eq(count(m.g, "Add"), 1);
	ck_assert_uint_eq(count(m.g, "Gelu"), 2);
	unload(&m);
}
END_TEST

START_TEST(a_call_beyond_its_composition_is_refused)
{
	struct pb g = main_graph(), n = ms_node("BiasGelu", "x x", "y");

	pb_attr_int(&n, "more", 1);
	add_node(&g, n);
	refused(&g, 13, -EOPNOTSUPP, "(BiasGelu): attribute 'more' is not supported");
	g = main_graph();
	add_node(&g, ms_node("BiasGelu", "x x x", "y"));
	refused(&g, 13, -EOPNOTSUPP, "(BiasGelu): its input 2 is not supported");
	g = main_graph();
	add_node(&g, ms_node("BiasGelu", "x x", "y z"));
	refused(&g, 13, -EOPNOTSUPP, "(BiasGelu): its output 1 is not supported");
	g = main_graph();
	add_node(&g, ms_node("MultiHeadAttention", "x x x x", "y"));
	refused(&g, 13, -EOPNOTSUPP, "(MultiHeadAttention): its input 3 is not supported");
	g = main_graph();
	add_node(&g, ms_node("QLinearSigmoid", "x x x x", "y"));
	refused(&g, 13, -EOPNOTSUPP, "(QLinearSigmoid): it lacks input 4");
	g = main_graph();
	n = ms_node("Attention", "x x", "y");
	pb_attr_int(&n, "num_heads", 1);
	pb_attr_int(&n, "do_rotary", 1);
	add_node(&g, n);
	refused(&g, 13, -EOPNOTSUPP, "(Attention): attribute 'do_rotary' is not supported");
}
END_TEST

/* ---- many operands ---- */

static struct model many(const char *op, int n)
{
	struct pb g = main_graph(), node = { .p = NULL };

	for (int i = 0; i < n; i++)
		pb_str(&node, 1, i == 40 ? "twice" : "x");
	pb_str(&node, 2, "y");
	pb_str(&node, 4, op);
	if (!strcmp(op, "Concat"))
		pb_attr_int(&node, "axis", 0);
	add_node(&g, node);
	add_node(&g, pb_node("Add", "x x", "twice"));
	return load(&g, 13);
}

START_TEST(operators_take_more_operands_than_a_node)
{
	struct model m = many("Concat", 1000);
	const float *y;

	run(&m);
	y = rvl_interp_data(m.it, m.g->outputs[0]);
	ck_assert_int_eq(rvl_interp_shape(m.it, m.g->outputs[0])->dim[0], 3000);
	for (int i = 0; i < 1000; i++)
		ck_assert_float_eq(y[3 * i + 1], i == 40 ? 4 : 2);
	unload(&m);
	m = many("Sum", 70);
	run(&m);
	WANT(&m, 0, DIMS(3), -71, 142, 213);
	unload(&m);
	m = many("Max", 33);
	run(&m);
	WANT(&m, 0, DIMS(3), -1, 2, 3);
	unload(&m);
	m = many("Mean", 33);
	ck_assert_int_eq(m.rc, -EOPNOTSUPP);
	ck_assert_msg(strstr(err.msg, "it has 33 inputs, more than 32"), "%s", err.msg);
	unload(&m);
}
END_TEST

/* ---- arbitrary bytes ---- */

/* A model with all constructs of this file. */
static struct pb everything(void)
{
	struct pb g = main_graph(), f = leak_function(), scan = pb_node("Scan", "zero d", "q all");
	struct pb loop = pb_node("Loop", "m - d", "e"), body = sum_body(2), b = scan_body(), m;

	add_bool(&g, "c", 1);
	add_int(&g, "m", 2);
	add_float(&g, "zero", 0);
	add_node(&g, call("Leak", "x x", "d"));
	attr_graph(&loop, "body", &body);
	add_node(&g, loop);
	pb_attr_int(&scan, "num_scan_inputs", 1);
	attr_graph(&scan, "body", &b);
	add_node(&g, scan);
	add_node(&g, if_node("c", branch("Add", 1), branch("Mul", 2)));
	add_output(&g, "all");
	m = pb_model(&g, 8, 13);
	pb_msg(&m, 25, &f);
	return m;
}

static void try_bytes(const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);	/* the exact size, for the sanitizer */
	struct rvl_graph *g;

	memcpy(copy, p, n);
	if (!rvl_onnx_load(copy, n, NULL, &g, &err)) {
		if (!rvl_shape_infer(g, &err))
			ck_assert(!rvl_graph_verify(g, &err));
		rvl_graph_free(g);
	}
	free(copy);
}

START_TEST(damaged_bodies_are_survived)
{
	struct pb m = everything();
	uint64_t s = 0x9e3779b97f4a7c15u;

	for (size_t n = 0; n <= m.n; n += (size_t)case_step())
		try_bytes(m.p, n);
	for (int i = 0; i < random_cases(6000); i++) {
		uint8_t *copy = malloc(m.n);

		memcpy(copy, m.p, m.n);
		for (uint64_t edits = 1 + xorshift(&s) % 3; edits--;)
			copy[xorshift(&s) % m.n] = (uint8_t)xorshift(&s);
		try_bytes(copy, m.n);
		free(copy);
	}
	free(m.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("onnx_bodies");
	TCase *t = add_case(s, "if", 10, NULL, NULL);

	tcase_add_test(t, a_constant_condition_takes_one_branch);
	tcase_add_test(t, a_condition_must_be_there);
	tcase_add_test(t, a_condition_that_follows_from_shapes_is_constant);
	tcase_add_test(t, a_run_selects_between_branches);
	tcase_add_test(t, branches_of_different_shapes_need_a_constant_condition);
	tcase_add_test(t, malformed_ifs_are_refused);
	t = add_case(s, "loop", 10, NULL, NULL);
	tcase_add_test(t, a_loop_is_unrolled);
	tcase_add_test(t, a_long_loop_gives_every_value);
	tcase_add_test(t, a_loop_may_run_no_iteration);
	tcase_add_test(t, an_output_of_a_loop_may_be_absent);
	tcase_add_test(t, loops_of_a_run_are_refused_by_name);
	tcase_add_test(t, malformed_loops_are_refused);
	tcase_add_test(t, a_loop_without_condition_takes_all_iterations);
	tcase_add_test(t, a_body_is_read_once);
	tcase_add_test(t, endless_loops_are_bounded);
	tcase_add_test(t, depth_is_bounded);
	t = add_case(s, "scan", 10, NULL, NULL);
	tcase_add_test(t, a_scan_takes_elements);
	tcase_add_test(t, a_scan_has_axes);
	tcase_add_test(t, a_scan_of_opset_8_has_a_batch);
	tcase_add_test(t, malformed_scans_are_refused);
	t = add_case(s, "functions", 10, NULL, NULL);
	tcase_add_test(t, a_call_is_its_body);
	tcase_add_test(t, functions_call_functions);
	tcase_add_test(t, an_operand_of_a_call_may_be_absent);
	tcase_add_test(t, a_body_may_hold_subgraphs);
	tcase_add_test(t, a_condition_of_a_body_may_be_absent);
	tcase_add_test(t, malformed_calls_are_refused);
	tcase_add_test(t, recursion_is_bounded);
	tcase_add_test(t, expansion_is_bounded);
	t = add_case(s, "compositions", 20, NULL, NULL);
	tcase_add_test(t, compositions_are_known_operators);
	tcase_add_test(t, a_composition_copies_where_an_operand_is_absent);
	tcase_add_test(t, a_call_beyond_its_composition_is_refused);
	tcase_add_test(t, operators_take_more_operands_than_a_node);
	t = add_case(s, "damage", 60, NULL, NULL);
	tcase_add_test(t, damaged_bodies_are_survived);
	return run_suite(s);
}
