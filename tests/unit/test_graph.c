/* SPDX-License-Identifier: MIT */
/*
 * The graph, its passes and the interpreter. The models are those of tests/data/qdq with what
 * onnxruntime answered, and models/ with its first recorded image.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

#define QDQ "tests/data/qdq"

struct file {
	uint8_t *data;
	size_t size;
};

static struct file read_file(const char *path)
{
	FILE *fp = fopen(path, "rb");
	struct file f = { NULL, 0 };

	ck_assert_msg(fp != NULL, "%s: %s", path, strerror(errno));
	fseek(fp, 0, SEEK_END);
	f.size = (size_t)ftell(fp);
	rewind(fp);
	f.data = malloc(f.size + 1);
	ck_assert_uint_eq(fread(f.data, 1, f.size, fp), f.size);
	fclose(fp);
	return f;
}

/* The elements of a .npy file: behind the magic, the version and the header's length. */
static const void *npy_data(const struct file *f, size_t *bytes)
{
	size_t header;

	ck_assert(f->size > 10 && !memcmp(f->data, "\x93NUMPY", 6));
	header = 10 + (size_t)f->data[8] + (size_t)f->data[9] * 256;
	ck_assert_uint_lt(header, f->size);
	*bytes = f->size - header;
	return f->data + header;
}

static struct rvl_graph *load(const struct file *f)
{
	struct rvl_graph *g;
	struct rvl_err err;
	int rc = rvl_onnx_load(f->data, f->size, NULL, &g, &err);

	ck_assert_msg(rc == 0, "load: %s", err.msg);
	return g;
}

/* Runs a graph on one input; a copy of output 0 in *out, for the caller to free. */
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

/* Greatest difference of two 8-bit results of one type. */
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
	e.model = read_file(path);
	snprintf(path, sizeof(path), "%s/%s/input_0.npy", QDQ, name);
	e.in_file = read_file(path);
	snprintf(path, sizeof(path), "%s/%s/expected_0.npy", QDQ, name);
	e.want_file = read_file(path);
	e.in = npy_data(&e.in_file, &e.in_bytes);
	e.want = npy_data(&e.want_file, &e.want_bytes);
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

/* Calls fn for every folder of tests/data/qdq; there must be at least @least. */
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

/* docs/numerics.md 6: onnxruntime computes these in float, so they may be 1 apart. */
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

/* Fusion replaces float arithmetic by integers, so one step of difference may appear there only. */
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

/* ---- the models of the demo ---- */

/* Pixels of test image 0 are not in the repository: any image will do for passes against each other. */
static void demo_model(const char *path, unsigned int most_cpu)
{
	struct file f = read_file(path);
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

/* ---- the graph by hand ---- */

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

START_TEST(the_documentation_is_that_of_the_tables)
{
	struct file f = read_file("docs/operators.md");
	char *text = rvl_operators_doc();

	f.data[f.size] = 0;
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
	SRunner *r = srunner_create(s);
	int failed;

	tcase_set_timeout(models, 120);
	tcase_add_test(models, optimised_models_equal_onnxruntime);
	tcase_add_test(models, no_pass_changes_the_result);
	tcase_add_test(models, every_model_is_one_npu_segment);
	tcase_add_test(models, a_clone_computes_the_same);
	tcase_add_test(models, demo_models_keep_only_the_ends_on_the_cpu);
	tcase_add_test(graph, sort_restores_order);
	tcase_add_test(graph, a_cycle_is_named);
	tcase_add_test(graph, frozen_inputs_become_constants);
	tcase_add_test(graph, names_are_unique_and_bounded);
	tcase_add_test(graph, scales_that_are_no_numbers_are_refused);
	tcase_add_test(graph, messages_hide_control_characters);
	tcase_add_test(graph, the_documentation_is_that_of_the_tables);
	suite_add_tcase(s, models);
	suite_add_tcase(s, graph);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
