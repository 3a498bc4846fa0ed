/* SPDX-License-Identifier: MIT */
/*
 * The graph, its passes and the interpreter. The models are those of tests/data/qdq with
 * onnxruntime's results, and those of models/ with the first recorded image.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/interp.h"
#include "npu/constraint.h"
#include "npu/partition.h"
#include "onnx/onnx.h"
#include "pass/passes.h"
#include "program/operators_doc.h"
#include "files.h"
#include "suite.h"
#include "unit/pbuild.h"

#define QDQ "tests/data/qdq"

struct file {
	uint8_t *data;
	size_t size;
};

static struct file file_of(const char *path)
{
	struct file f;

	f.data = read_file(path, &f.size);
	return f;
}

static struct rvl_graph *load(const struct file *f)
{
	struct rvl_graph *g;
	struct rvl_err err;
	int rc = rvl_onnx_load(f->data, f->size, NULL, &g, &err);

	ck_assert_msg(rc == 0, "load: %s", err.msg);
	return g;
}

/* Runs a graph on one input. @out receives a copy of output 0, which the caller frees. */
static size_t run(const struct rvl_graph *g, bool reference, const void *in, size_t bytes,
		  uint8_t **out)
{
	struct rvl_interp *it;
	struct rvl_err err;
	int64_t size = rvl_tensor_bytes(g->outputs[0]);
	int rc = rvl_interp_new(g, reference, &it, &err);

	ck_assert_msg(rc == 0, "interpreter: %s", err.msg);
	rc = rvl_interp_set(it, 0, in, bytes, &err);
	ck_assert_msg(rc == 0, "input: %s", err.msg);
	rc = rvl_interp_run(it, &err);
	ck_assert_msg(rc == 0, "run: %s", err.msg);
	ck_assert_int_gt(size, 0);
	*out = malloc((size_t)size);
	memcpy(*out, rvl_interp_data(it, g->outputs[0]), (size_t)size);
	rvl_interp_free(it);
	return (size_t)size;
}

/* Maximum difference of two 8-bit results of one type. */
static int distance(enum rvl_type t, const uint8_t *a, const uint8_t *b, size_t n)
{
	int most = 0;

	for (size_t i = 0; i < n; i++) {
		int d = t == RVL_TYPE_U8 ? a[i] - b[i] : (int8_t)a[i] - (int8_t)b[i];

		if (abs(d) > most)
			most = abs(d);
	}
	return most;
}

/* A model of tests/data/qdq: its folder, input and expected output. */
struct example {
	const char *name;
	struct file model, in_file, want_file;
	const void *in, *want;
	size_t in_bytes, want_bytes;
};

static struct example example(const char *name)
{
	struct example e = { .name = name };
	char path[512];

	snprintf(path, sizeof(path), "%s/%s/model.onnx", QDQ, name);
	e.model = file_of(path);
	snprintf(path, sizeof(path), "%s/%s/input_0.npy", QDQ, name);
	e.in_file = file_of(path);
	snprintf(path, sizeof(path), "%s/%s/expected_0.npy", QDQ, name);
	e.want_file = file_of(path);
	e.in = npy_data(e.in_file.data, e.in_file.size, &e.in_bytes);
	e.want = npy_data(e.want_file.data, e.want_file.size, &e.want_bytes);
	return e;
}

static void example_free(struct example *e)
{
	free(e->model.data);
	free(e->in_file.data);
	free(e->want_file.data);
}

static int is_name(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

/* Calls @fn for every folder of tests/data/qdq. There must be at least @least of them. */
static void each_example(void (*fn)(struct example *e), int least)
{
	struct dirent **list;
	int n = scandir(QDQ, &list, is_name, alphasort);

	ck_assert_msg(n >= least, "%s has %d models", QDQ, n);
	for (int i = 0; i < n; i++) {
		struct example e = example(list[i]->d_name);

		fn(&e);
		example_free(&e);
		free(list[i]);
	}
	free(list);
}

/* onnxruntime computes these in float (docs/numerics.md 6), so results may differ by 1. */
static bool float_inside(const char *name)
{
	return !strncmp(name, "relu_any", 8) || !strncmp(name, "clip_binding", 12) ||
	       !strncmp(name, "batch_norm", 10);
}

static void compare_with_onnxruntime(struct example *e)
{
	struct rvl_graph *g = load(&e->model);
	struct rvl_err err;
	int rc = rvl_optimise(g, &err);

	ck_assert_msg(rc == 0, "%s: %s", e->name, err.msg);
	for (int reference = 0; reference < 2; reference++) {
		uint8_t *got;
		size_t n = run(g, reference, e->in, e->in_bytes, &got);
		int d;

		ck_assert_uint_eq(n, e->want_bytes);
		d = distance(g->outputs[0]->type, got, e->want, n);
		ck_assert_msg(d <= float_inside(e->name), "%s: differs by %d", e->name, d);
		free(got);
	}
	rvl_graph_free(g);
}

START_TEST(optimised_models_equal_onnxruntime)
{
	each_example(compare_with_onnxruntime, 20);
}
END_TEST

/*
 * Fusion replaces float arithmetic by integers, so only that pass may change a result, and by at
 * most 1.
 */
static void compare_after_every_pass(struct example *e)
{
	struct rvl_graph *g = load(&e->model);
	uint8_t *before, *after;
	struct rvl_err err;
	int rc = rvl_shape_infer(g, &err);
	size_t n;

	ck_assert_msg(rc == 0, "%s: %s", e->name, err.msg);
	n = run(g, false, e->in, e->in_bytes, &before);
	for (unsigned int i = 0; i < rvl_n_passes; i++) {
		bool fuses = !strcmp(rvl_passes[i].name, "fuse");
		int d;

		rc = rvl_passes[i].run(g, &err);
		ck_assert_msg(rc == 0, "%s after %s: %s", e->name, rvl_passes[i].name, err.msg);
		rc = rvl_graph_verify(g, &err);
		ck_assert_msg(rc == 0, "%s after %s: %s", e->name, rvl_passes[i].name, err.msg);
		ck_assert_uint_eq(run(g, false, e->in, e->in_bytes, &after), n);
		d = distance(g->outputs[0]->type, before, after, n);
		ck_assert_msg(d <= (fuses ? 2 : 0), "%s: %s changes the result by %d", e->name,
			      rvl_passes[i].name, d);
		free(before);
		before = after;
	}
	free(before);
	rvl_graph_free(g);
}

START_TEST(no_pass_changes_the_result)
{
	each_example(compare_after_every_pass, 20);
}
END_TEST

static void partition_keeps_result(struct example *e)
{
	struct rvl_graph *g = load(&e->model);
	struct rvl_err err;
	uint32_t at = 0, npu = 0;
	uint8_t *a, *b;
	size_t n;

	ck_assert_int_eq(rvl_optimise(g, &err), 0);
	n = run(g, false, e->in, e->in_bytes, &a);
	g->npu_average_pool = true;
	ck_assert_int_eq(rvl_pass_partition(g, NULL, NULL, &err), 0);
	ck_assert_msg(rvl_graph_verify(g, &err) == 0, "%s: %s", e->name, err.msg);
	ck_assert_uint_eq(run(g, false, e->in, e->in_bytes, &b), n);
	ck_assert_int_eq(memcmp(a, b, n), 0);
	for (uint32_t s = 0; s < g->n_segs; s++) {
		ck_assert_uint_eq(g->segs[s].first, at);
		ck_assert_uint_gt(g->segs[s].count, 0);
		npu += g->segs[s].place == RVL_PLACE_NPU;
		for (uint32_t i = 0; i < g->segs[s].count; i++, at++) {
			ck_assert_uint_eq(g->nodes[at]->segment, s);
			ck_assert_int_eq(g->nodes[at]->place, g->segs[s].place);
			ck_assert(g->nodes[at]->place == RVL_PLACE_NPU || g->nodes[at]->reason);
		}
	}
	ck_assert_uint_eq(at, g->n_nodes);
	ck_assert_msg(npu == 1, "%s: %u NPU segments", e->name, npu);
	free(a);
	free(b);
	rvl_graph_free(g);
}

START_TEST(every_model_is_one_npu_segment)
{
	each_example(partition_keeps_result, 20);
}
END_TEST

static void clone_is_equal(struct example *e)
{
	struct rvl_graph *g = load(&e->model), *c;
	struct rvl_err err;
	uint8_t *a, *b;
	size_t n;

	ck_assert_int_eq(rvl_optimise(g, &err), 0);
	ck_assert_int_eq(rvl_graph_clone(g, &c, &err), 0);
	ck_assert_int_eq(rvl_graph_verify(c, &err), 0);
	n = run(g, false, e->in, e->in_bytes, &a);
	ck_assert_uint_eq(run(c, false, e->in, e->in_bytes, &b), n);
	ck_assert_int_eq(memcmp(a, b, n), 0);
	free(a);
	free(b);
	rvl_graph_free(c);
	rvl_graph_free(g);
}

START_TEST(a_clone_computes_the_same)
{
	each_example(clone_is_equal, 20);
}
END_TEST

static void clone_counts(struct example *e)
{
	struct rvl_graph *g = load(&e->model), *c;
	size_t held = rvl_arena_held(g->arena);
	struct rvl_err err;

	rvl_arena_limit(g->arena, held + 100);
	ck_assert_int_eq(rvl_graph_clone(g, &c, &err), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err.msg, "of memory or more, the limit is"));
	rvl_arena_limit(g->arena, 4 * held);
	ck_assert_int_eq(rvl_graph_clone(g, &c, &err), 0);
	ck_assert_uint_gt(rvl_arena_held(c->arena), held);
	ck_assert_uint_eq(rvl_arena_held(g->arena), held);
	rvl_graph_free(c);
	rvl_graph_free(g);
}

START_TEST(a_clone_keeps_the_limit_of_memory)
{
	each_example(clone_counts, 1);
}
END_TEST

/* ---- the models of the demo ---- */

/*
 * The pixels of test image 0 are not in the repository, but any image serves to compare passes with
 * each other.
 */
static void demo_model(const char *path, unsigned int most_cpu)
{
	struct file f = file_of(path);
	struct rvl_graph *g = load(&f);
	struct rvl_err err;
	float image[28 * 28];
	float *before, *after;
	unsigned int cpu = 0;
	size_t n;

	for (int i = 0; i < 28 * 28; i++)
		image[i] = (float)(i * 37 % 256) / 255.0f;
	ck_assert_int_eq(rvl_shape_infer(g, &err), 0);
	n = run(g, false, image, sizeof(image), (uint8_t **)&before);
	ck_assert_msg(rvl_optimise(g, &err) == 0, "%s: %s", path, err.msg);
	ck_assert_int_eq(rvl_pass_partition(g, NULL, NULL, &err), 0);
	ck_assert_uint_eq(run(g, false, image, sizeof(image), (uint8_t **)&after), n);
	for (size_t i = 0; i < n / sizeof(float); i++)
		ck_assert_float_eq_tol(before[i], after[i], 1.0f);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		cpu += g->nodes[i]->place == RVL_PLACE_CPU;
	ck_assert_msg(cpu <= most_cpu, "%s: %u nodes on the CPU", path, cpu);
	free(before);
	free(after);
	rvl_graph_free(g);
	free(f.data);
}

START_TEST(demo_models_keep_only_the_ends_on_the_cpu)
{
	demo_model("models/lenet.onnx", 3);
	demo_model("models/resnet.onnx", 3);
}
END_TEST

/* ---- graphs built by hand ---- */

static struct rvl_graph *two_relus(struct rvl_tensor **x, struct rvl_tensor **y)
{
	struct rvl_graph *g = rvl_graph_new();
	struct rvl_tensor *mid;
	struct rvl_node *a, *b;

	ck_assert_ptr_nonnull(g);
	ck_assert_int_eq(rvl_tensor_new(g, "x", x, NULL), 0);
	(*x)->type = RVL_TYPE_F32;
	(*x)->shape = (struct rvl_shape) { .rank = 1, .dim = { 4 } };
	(*x)->shaped = true;
	ck_assert_int_eq(rvl_tensor_new(g, "mid", &mid, NULL), 0);
	ck_assert_int_eq(rvl_tensor_new(g, "y", y, NULL), 0);
	ck_assert_int_eq(rvl_graph_add_input(g, *x, NULL), 0);
	ck_assert_int_eq(rvl_graph_add_output(g, *y, NULL), 0);
	ck_assert_int_eq(rvl_node_new(g, RVL_OP_RELU, "second", &b, NULL), 0);
	ck_assert_int_eq(rvl_node_new(g, RVL_OP_RELU, "first", &a, NULL), 0);
	ck_assert_int_eq(rvl_node_set_in(g, a, 0, *x, NULL), 0);
	rvl_node_set_out(a, 0, mid);
	ck_assert_int_eq(rvl_node_set_in(g, b, 0, mid, NULL), 0);
	rvl_node_set_out(b, 0, *y);
	return g;
}

START_TEST(sort_restores_order)
{
	struct rvl_tensor *x, *y;
	struct rvl_graph *g = two_relus(&x, &y);
	struct rvl_err err;

	ck_assert_int_eq(rvl_graph_verify(g, &err), -EINVAL);
	ck_assert_int_eq(rvl_graph_sort(g, &err), 0);
	ck_assert_int_eq(rvl_graph_verify(g, &err), 0);
	ck_assert_str_eq(g->nodes[0]->name, "first");
	rvl_graph_free(g);
}
END_TEST

START_TEST(a_cycle_is_named)
{
	struct rvl_tensor *x, *y;
	struct rvl_graph *g = two_relus(&x, &y);
	struct rvl_err err;

	ck_assert_int_eq(rvl_node_set_in(g, g->nodes[1], 0, y, NULL), 0);
	ck_assert_int_eq(rvl_graph_sort(g, &err), -ELOOP);
	ck_assert_ptr_nonnull(strstr(err.msg, "second"));
	rvl_graph_free(g);
}
END_TEST

START_TEST(frozen_inputs_become_constants)
{
	struct rvl_tensor *x, *y;
	struct rvl_graph *g = two_relus(&x, &y);
	const float v[4] = { -1, 2, -3, 4 };
	struct rvl_err err;

	ck_assert_int_eq(rvl_graph_freeze(g, "nobody", v, sizeof(v), &err), -ENOENT);
	ck_assert_int_eq(rvl_graph_freeze(g, "x", v, 4, &err), -EINVAL);
	ck_assert_int_eq(rvl_graph_freeze(g, "x", v, sizeof(v), &err), 0);
	ck_assert_uint_eq(g->n_inputs, 0);
	ck_assert_int_eq(rvl_graph_sort(g, &err), 0);
	ck_assert_int_eq(rvl_optimise(g, &err), 0);
	ck_assert_uint_eq(g->n_nodes, 0);
	ck_assert_float_eq(((const float *)y->data)[1], 2.0f);
	ck_assert_float_eq(((const float *)y->data)[2], 0.0f);
	rvl_graph_free(g);
}
END_TEST

/* ---- small models built here ---- */

#define F32 1
#define U8 2
#define S8 3
#define DIMS(...) ((const int64_t[]) { __VA_ARGS__, -1 })
#define SCALAR ((const int64_t[]) { -1 })

static uint32_t rnd_state = 1;

static float rnd_float(void)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (float)(rnd_state >> 8) / (float)(1 << 24) * 2 - 1;
}

struct model {
	struct pb graph;
	struct file bytes;
	struct rvl_graph *g;
};

static void put_node(struct model *m, struct pb *n)
{
	pb_msg(&m->graph, 1, n);
}

/* An initializer of @n random floats; @positive for variances. */
static void put_floats(struct model *m, const char *name, const int64_t *dims, bool positive)
{
	float v[512];
	int64_t n = 1;
	struct pb t;

	for (const int64_t *d = dims; *d >= 0; d++)
		n *= *d;
	ck_assert_int_le(n, 512);
	for (int64_t i = 0; i < n; i++)
		v[i] = positive ? fabsf(rnd_float()) + 0.1f : rnd_float();
	t = pb_tensor(name, F32, dims, v, (size_t)n * 4);
	pb_msg(&m->graph, 5, &t);
}

static void put_bytes(struct model *m, const char *name, int type, const int64_t *dims,
		      const void *data, size_t n)
{
	struct pb t = pb_tensor(name, type, dims, data, n);

	pb_msg(&m->graph, 5, &t);
}

static void put_scalar(struct model *m, const char *name, float v)
{
	put_bytes(m, name, F32, SCALAR, &v, sizeof(v));
}

/* Adds input x of @dims and output y, then loads and infers. */
static void finish(struct model *m, int type, const int64_t *dims)
{
	struct pb in = pb_value("x", type, dims), out = { .p = NULL }, bytes;
	struct rvl_err err;

	pb_msg(&m->graph, 11, &in);
	pb_str(&out, 1, "y");
	pb_msg(&m->graph, 12, &out);
	bytes = pb_model(&m->graph, 8, 13);
	m->bytes = (struct file) { bytes.p, bytes.n };
	m->g = load(&m->bytes);
	ck_assert_msg(rvl_shape_infer(m->g, &err) == 0, "%s", err.msg);
	ck_assert_msg(rvl_graph_check_supported(m->g, &err) == 0, "%s", err.msg);
}

static void model_free(struct model *m)
{
	rvl_graph_free(m->g);
	free(m->bytes.data);
}

/*
 * Runs the model before and after optimisation on random input. The results are equal within @tol,
 * and @nodes nodes are left.
 */
static void optimises_to(struct model *m, uint32_t nodes, float tol)
{
	size_t bytes = (size_t)rvl_tensor_bytes(m->g->inputs[0]), n;
	float *x = malloc(bytes), *before, *after;
	struct rvl_err err;

	for (size_t i = 0; i < bytes / 4; i++)
		x[i] = rnd_float();
	n = run(m->g, false, x, bytes, (uint8_t **)&before);
	ck_assert_msg(rvl_optimise(m->g, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(run(m->g, false, x, bytes, (uint8_t **)&after), n);
	for (size_t i = 0; i < n / 4; i++)
		ck_assert(fabsf(before[i] - after[i]) <= tol);
	ck_assert_msg(m->g->n_nodes == nodes, "%u nodes are left", m->g->n_nodes);
	free(x);
	free(before);
	free(after);
}

static void put_bn(struct model *m, const char *in, const char *out, int64_t channels)
{
	struct pb n;
	char inputs[64];

	snprintf(inputs, sizeof(inputs), "%s gamma beta mean var", in);
	n = pb_node("BatchNormalization", inputs, out);
	put_node(m, &n);
	put_floats(m, "gamma", DIMS(channels), false);
	put_floats(m, "beta", DIMS(channels), false);
	put_floats(m, "mean", DIMS(channels), false);
	put_floats(m, "var", DIMS(channels), true);
}

START_TEST(batch_norm_and_clip_are_fused_into_a_float_convolution)
{
	for (int bias = 0; bias < 2; bias++) {
		struct model m = { .g = NULL };
		struct pb n = pb_node("Conv", bias ? "x w b" : "x w", "c");

		put_node(&m, &n);
		put_bn(&m, "c", "d", 5);
		n = pb_node("Clip", "d lo hi", "e");
		put_node(&m, &n);
		n = pb_node("Relu", "e", "y");
		put_node(&m, &n);
		put_floats(&m, "w", DIMS(5, 3, 3, 3), false);
		put_floats(&m, "b", DIMS(5), false);
		put_scalar(&m, "lo", -0.5f);
		put_scalar(&m, "hi", 0.75f);
		finish(&m, F32, DIMS(1, 3, 6, 6));
		optimises_to(&m, 1, 1e-4f);
		ck_assert_float_eq(m.g->nodes[0]->attr.f_lo, 0);
		ck_assert_float_eq(m.g->nodes[0]->attr.f_hi, 0.75f);
		ck_assert_ptr_nonnull(strstr(m.g->nodes[0]->fused, "Relu"));
		model_free(&m);
	}
}
END_TEST

START_TEST(batch_norm_is_fused_into_a_gemm_transposed_or_not)
{
	for (int trans = 0; trans < 2; trans++) {
		struct model m = { .g = NULL };
		struct pb n = pb_node("Gemm", "x w b", "c");

		pb_attr_int(&n, "transB", trans);
		put_node(&m, &n);
		put_bn(&m, "c", "y", 7);
		put_floats(&m, "w", trans ? DIMS(7, 4) : DIMS(4, 7), false);
		put_floats(&m, "b", DIMS(1, 7), false);
		finish(&m, F32, DIMS(3, 4));
		optimises_to(&m, 1, 1e-4f);
		model_free(&m);
	}
}
END_TEST

START_TEST(a_result_with_two_readers_keeps_its_batch_norm)
{
	struct model m = { .g = NULL };
	struct pb n = pb_node("Conv", "x w", "c");

	put_node(&m, &n);
	put_bn(&m, "c", "d", 5);
	n = pb_node("Add", "c d", "y");
	put_node(&m, &n);
	put_floats(&m, "w", DIMS(5, 3, 3, 3), false);
	finish(&m, F32, DIMS(1, 3, 6, 6));
	optimises_to(&m, 3, 0);
	model_free(&m);
}
END_TEST

START_TEST(a_relu_behind_a_pool_is_fused_into_the_convolution)
{
	const int64_t two[] = { 2, 2 };
	struct model m = { .g = NULL };
	struct pb n = pb_node("Conv", "x w", "c");

	put_node(&m, &n);
	n = pb_node("MaxPool", "c", "p");
	pb_attr_ints(&n, "kernel_shape", two, 2);
	put_node(&m, &n);
	n = pb_node("Relu", "p", "y");
	put_node(&m, &n);
	put_floats(&m, "w", DIMS(5, 3, 3, 3), false);
	finish(&m, F32, DIMS(1, 3, 6, 6));
	optimises_to(&m, 2, 0);
	ck_assert_float_eq(m.g->nodes[0]->attr.f_lo, 0);
	model_free(&m);
}
END_TEST

START_TEST(identities_and_dead_nodes_are_removed)
{
	struct model m = { .g = NULL };
	struct pb n = pb_node("Identity", "x", "a");

	put_node(&m, &n);
	n = pb_node("Relu", "a", "b");
	put_node(&m, &n);
	n = pb_node("Softmax", "a", "unused");
	put_node(&m, &n);
	n = pb_node("Identity", "b", "y");
	put_node(&m, &n);
	finish(&m, F32, DIMS(2, 3));
	optimises_to(&m, 1, 0);
	ck_assert_str_eq(m.g->nodes[0]->out[0]->name, "y");
	model_free(&m);
}
END_TEST

/*
 * One quantised operator between DequantizeLinear and QuantizeLinear of x, with a scale of 1/8
 * everywhere.
 */
static void put_quantised(struct model *m, const char *op, const char *in, const char *out)
{
	char name[3][64], list[256];
	struct pb n;

	snprintf(name[0], 64, "%s_f", out);
	snprintf(name[1], 64, "%s_r", out);
	snprintf(list, sizeof(list), "%s s z", in);
	n = pb_node("DequantizeLinear", list, name[0]);
	put_node(m, &n);
	n = pb_node(op, name[0], name[1]);
	put_node(m, &n);
	snprintf(list, sizeof(list), "%s s z", name[1]);
	n = pb_node("QuantizeLinear", list, out);
	put_node(m, &n);
}

/* a and b are global pools on the NPU; between them is a softmax that only the CPU supports. */
START_TEST(side_branches_do_not_cost_segments)
{
	const uint8_t zero = 0;
	struct model m = { .g = NULL };
	struct rvl_err err;
	struct pb n;
	uint32_t npu = 0;

	put_scalar(&m, "s", 0.125f);
	put_bytes(&m, "z", U8, SCALAR, &zero, 1);
	put_quantised(&m, "GlobalAveragePool", "x", "a");
	put_quantised(&m, "Softmax", "a", "soft");
	put_quantised(&m, "GlobalAveragePool", "x", "b");
	put_quantised(&m, "GlobalAveragePool", "soft", "c");
	n = pb_node("DequantizeLinear", "b s z", "b_d");
	put_node(&m, &n);
	n = pb_node("DequantizeLinear", "c s z", "c_d");
	put_node(&m, &n);
	n = pb_node("Add", "b_d c_d", "sum");
	put_node(&m, &n);
	n = pb_node("QuantizeLinear", "sum s z", "y");
	put_node(&m, &n);
	finish(&m, U8, DIMS(1, 3, 4, 4));
	ck_assert_msg(rvl_optimise(m.g, &err) == 0, "%s", err.msg);
	ck_assert_msg(rvl_pass_partition(m.g, NULL, NULL, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(rvl_graph_verify(m.g, &err), 0);
	for (uint32_t i = 0; i < m.g->n_segs; i++)
		npu += m.g->segs[i].place == RVL_PLACE_NPU;
	/*
	 * a and b share a segment, which the softmax follows, then the segment of c and the sum. b
	 * must not have a segment of its own.
	 */
	ck_assert_uint_eq(m.g->n_segs, 3);
	ck_assert_uint_eq(npu, 2);
	ck_assert_uint_eq(m.g->segs[0].count, 2);
	ck_assert_uint_eq(m.g->segs[2].count, 2);
	model_free(&m);
}
END_TEST

static const char *nothing_fits(struct rvl_graph *g, const struct rvl_node *n, void *arg)
{
	(void)g;
	(void)n;
	return arg;
}

START_TEST(the_back_end_may_refuse_a_node)
{
	struct example e = example("conv_relu_u8");
	struct rvl_graph *g = load(&e.model);
	struct rvl_err err;

	ck_assert_int_eq(rvl_optimise(g, &err), 0);
	ck_assert_int_eq(rvl_pass_partition(g, nothing_fits, "too big", &err), 0);
	ck_assert_uint_eq(g->n_segs, 1);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i]->op == RVL_OP_Q_CONV)
			ck_assert_str_eq(g->nodes[i]->reason, "too big");
	rvl_graph_free(g);
	example_free(&e);
}
END_TEST

/* Quantised weights of every type keep their values when they are converted to int8. */
static void weights_case(int type, uint8_t zp, uint8_t lowest, bool becomes_s8)
{
	const int8_t zero = 0;
	struct model m = { .g = NULL };
	uint8_t w[12], x[8] = { 1, 2, 3, 4, 250, 251, 252, 253 }, *before, *after;
	struct rvl_err err;
	const struct rvl_tensor *t;
	struct pb n;

	for (int i = 0; i < 12; i++)
		w[i] = (uint8_t)(lowest + i * 20);
	put_scalar(&m, "s", 0.125f);
	put_bytes(&m, "z", S8, SCALAR, &zero, 1);
	put_bytes(&m, "wz", type, SCALAR, &zp, 1);
	put_bytes(&m, "w", type, DIMS(4, 3), w, sizeof(w));
	n = pb_node("QLinearMatMul", "x s z w s wz s z", "y");
	put_node(&m, &n);
	finish(&m, S8, DIMS(2, 4));
	run(m.g, false, x, sizeof(x), &before);
	ck_assert_int_eq(rvl_optimise(m.g, &err), 0);
	run(m.g, false, x, sizeof(x), &after);
	ck_assert_int_eq(memcmp(before, after, 6), 0);
	ck_assert_int_eq(m.g->nodes[0]->op, RVL_OP_Q_MATMUL);
	t = m.g->nodes[0]->in[1];
	ck_assert_int_eq(t->type, RVL_TYPE_S8);
	ck_assert_int_eq(t->quant.zp[0] == 0, becomes_s8);
	free(before);
	free(after);
	model_free(&m);
}

START_TEST(weights_become_int8)
{
	weights_case(U8, 128, 10, true);
	weights_case(U8, 30, 10, false);
	weights_case(S8, 5, 0, true);
	weights_case(S8, 0, 0, true);
}
END_TEST

/* A 2x2 average pool of a 5x5 image, with @pad at the left and top. */
static struct rvl_graph *average_pool(float xs, int xz, float ys, int yz, int pad)
{
	const struct rvl_shape in = { .rank = 4, .dim = { 1, 1, 5, 5 } };
	const struct rvl_shape out = { .rank = 4, .dim = { 1, 1, 4 + pad, 4 + pad } };
	const float s[2] = { xs, ys };
	const int32_t z[2] = { xz, yz };
	struct rvl_graph *g = rvl_graph_new();
	struct rvl_tensor *t[2];
	struct rvl_node *n;

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(rvl_tensor_new(g, i ? "y" : "x", &t[i], NULL), 0);
		t[i]->type = RVL_TYPE_U8;
		t[i]->shape = i ? out : in;
		t[i]->shaped = true;
		ck_assert_int_eq(rvl_tensor_set_quant(g, t[i], 1, 0, &s[i], &z[i], NULL), 0);
	}
	ck_assert_int_eq(rvl_graph_add_input(g, t[0], NULL), 0);
	ck_assert_int_eq(rvl_graph_add_output(g, t[1], NULL), 0);
	ck_assert_int_eq(rvl_node_new(g, RVL_OP_Q_AVERAGE_POOL, NULL, &n, NULL), 0);
	memcpy(n->attr.kernel, (int32_t[]) { 2, 2 }, 8);
	memcpy(n->attr.pad, (int32_t[]) { pad, pad, 0, 0 }, 16);
	ck_assert_int_eq(rvl_node_set_in(g, n, 0, t[0], NULL), 0);
	rvl_node_set_out(n, 0, t[1]);
	return g;
}

/*
 * The integer average of docs/isa.md: the sum without its zero points times (xs / ys) / n, rounded
 * and clamped.
 */
static int integer_average(const uint8_t *x, int oy, int ox, int pad, const float s[2],
			   const int32_t z[2])
{
	int sum = 0, n = 0;
	float m = s[0] / s[1], v;

	for (int k = 0; k < 4; k++) {
		int y = oy + k / 2 - pad, c = ox + k % 2 - pad;

		if (y < 0 || c < 0)
			continue;
		sum += x[y * 5 + c] - z[0];
		n++;
	}
	m = m / (float)n;
	v = rintf((float)sum * m) + (float)z[1];
	return v < 0 ? 0 : v > 255 ? 255 : (int)v;
}

START_TEST(proved_average_pools_are_exact)
{
	unsigned int proved = 0;

	for (int i = 0; i < 400; i++) {
		int pad = i % 2;
		float s[2] = { i % 5 ? 0.02f + 0.01f * rnd_float() : 0.03125f,
			       0.02f + 0.01f * rnd_float() };
		int32_t z[2] = { i % 3 ? 0 : (int)(rnd_float() * 127 + 128), i % 7 * 20 };
		struct rvl_graph *g = average_pool(s[0], z[0], s[1], z[1], pad);
		bool exact = rvl_average_exact(g->nodes[0]);
		int side = 4 + pad;

		proved += exact;
		for (int k = 0; k < 20; k++) {
			uint8_t x[25], *y;

			for (int j = 0; j < 25; j++)
				x[j] = (uint8_t)(rnd_float() * 127 + 128);
			run(g, true, x, sizeof(x), &y);
			for (int j = 0; j < side * side; j++) {
				bool same = y[j] == integer_average(x, j / side, j % side, pad, s,
								    z);

				ck_assert_msg(same || !exact, "case %d", i);
			}
			free(y);
		}
		rvl_graph_free(g);
	}
	ck_assert_uint_gt(proved, 100);
	ck_assert_uint_lt(proved, 400);
}
END_TEST

START_TEST(ties_decide_whether_an_average_is_exact)
{
	static const struct { float xs; int yz; bool exact; } cases[] = {
		{ 0.125f, 4, true },	/* float sums are exact, and ties round the same way */
		{ 0.125f, 5, false },	/* odd zero point: onnxruntime's ties round the other way */
		{ 0.1f, 4, false },	/* rounding errors decide the ties */
	};

	for (int i = 0; i < 3; i++) {
		struct rvl_graph *g = average_pool(cases[i].xs, 0, cases[i].xs, cases[i].yz, 0);

		ck_assert_msg(rvl_average_exact(g->nodes[0]) == cases[i].exact, "case %d", i);
		rvl_graph_free(g);
	}
}
END_TEST

START_TEST(names_are_unique_and_bounded)
{
	struct rvl_graph *g = rvl_graph_new();
	char name[RVL_MAX_NAME + 2];
	struct rvl_tensor *t;
	struct rvl_err err;

	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 1] = 0;
	ck_assert_int_eq(rvl_tensor_new(g, name, &t, &err), -E2BIG);
	ck_assert_int_eq(rvl_tensor_new(g, "a", &t, &err), 0);
	ck_assert_int_eq(rvl_tensor_new(g, "a", &t, &err), -EEXIST);
	ck_assert_ptr_nonnull(strstr(err.msg, "'a'"));
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		ck_assert_int_eq(rvl_tensor_new(g, name, &t, &err), 0);
	}
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		ck_assert_ptr_nonnull(rvl_tensor_find(g, name));
	}
	ck_assert_ptr_null(rvl_tensor_find(g, "n500"));
	rvl_graph_free(g);
}
END_TEST

START_TEST(scales_that_are_no_numbers_are_refused)
{
	struct rvl_graph *g = rvl_graph_new();
	const float bad[] = { 0.0f, NAN, INFINITY };
	const int32_t zp = 0;
	struct rvl_tensor *t;
	struct rvl_err err;

	ck_assert_int_eq(rvl_tensor_new(g, "t", &t, &err), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(rvl_tensor_set_quant(g, t, 1, 0, &bad[i], &zp, &err), -EINVAL);
	ck_assert_uint_eq(t->quant.n, 0);
	rvl_graph_free(g);
}
END_TEST

START_TEST(messages_hide_control_characters)
{
	struct rvl_err err;

	ck_assert_int_eq(rvl_fail(&err, -EINVAL, "a%cb%cc", 27, 10), -EINVAL);
	ck_assert_str_eq(err.msg, "a?b?c");
}
END_TEST

START_TEST(the_documentation_equals_the_tables)
{
	struct file f = file_of("docs/operators.md");
	char *text = rvl_operators_doc();

	ck_assert_ptr_nonnull(text);
	ck_assert_msg(!strcmp(text, (char *)f.data), "run make docs/operators.md");
	free(text);
	free(f.data);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("graph");
	TCase *models = tcase_create("models");
	TCase *graph = tcase_create("graph");

	tcase_set_timeout(models, 120);
	tcase_add_test(models, optimised_models_equal_onnxruntime);
	tcase_add_test(models, no_pass_changes_the_result);
	tcase_add_test(models, every_model_is_one_npu_segment);
	tcase_add_test(models, a_clone_computes_the_same);
	tcase_add_test(models, a_clone_keeps_the_limit_of_memory);
	tcase_add_test(models, demo_models_keep_only_the_ends_on_the_cpu);
	tcase_add_test(models, batch_norm_and_clip_are_fused_into_a_float_convolution);
	tcase_add_test(models, batch_norm_is_fused_into_a_gemm_transposed_or_not);
	tcase_add_test(models, a_result_with_two_readers_keeps_its_batch_norm);
	tcase_add_test(models, a_relu_behind_a_pool_is_fused_into_the_convolution);
	tcase_add_test(models, identities_and_dead_nodes_are_removed);
	tcase_add_test(models, side_branches_do_not_cost_segments);
	tcase_add_test(models, the_back_end_may_refuse_a_node);
	tcase_add_test(models, weights_become_int8);
	tcase_add_test(models, proved_average_pools_are_exact);
	tcase_add_test(models, ties_decide_whether_an_average_is_exact);
	tcase_add_test(graph, sort_restores_order);
	tcase_add_test(graph, a_cycle_is_named);
	tcase_add_test(graph, frozen_inputs_become_constants);
	tcase_add_test(graph, names_are_unique_and_bounded);
	tcase_add_test(graph, scales_that_are_no_numbers_are_refused);
	tcase_add_test(graph, messages_hide_control_characters);
	tcase_add_test(graph, the_documentation_equals_the_tables);
	suite_add_tcase(s, models);
	suite_add_tcase(s, graph);
	return run_suite(s);
}
