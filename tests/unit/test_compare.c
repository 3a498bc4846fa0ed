// SPDX-License-Identifier: MIT
/*
 * `rivulet compare` and `rivulet compile --export` on a float model that the test writes: the order
 * of the report, strict JSON, dumped values, and refused arguments.
 */
#include <check.h>
#include <json-c/json.h>
#include <math.h>

#include "../../tool/data/array.h"
#include "files.h"
#include "suite.h"
#include "unit/onnx_text.h"
#include "verb.h"

#define RUNS 3
#define IN 8

static char dir[64];

static void setup(void)
{
	struct pb model = ot_model("in x f32 1,2,2,2; out y; out z; const w f32 2,2,1,1 1 -2 0.5 3; "
				   "Conv x w -> c; Sigmoid c -> s; Mul c s -> m; GlobalAveragePool m -> y; "
				   "Relu c -> z", 13);
	struct rvl_array a = { .dtype = RIVULET_F32, .ndim = 4, .dim = { RUNS, 2, 2, 2 } };
	char path[128];

	make_scratch(dir);
	rvl_tool_error_clear();
	snprintf(path, sizeof(path), "%s/m.onnx", dir);
	write_file(path, model.p, model.n);
	free(model.p);
	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	for (int i = 0; i < RUNS * IN; i++)
		((float *)a.data)[i] = (float)(i % 7) - 2.5f;
	snprintf(path, sizeof(path), "%s/x.npy", dir);
	ck_assert_int_eq(rvl_npy_write(path, &a), 0);
	rvl_array_clear(&a);
}

static void teardown(void)
{
	remove_scratch(dir);
}

/* "VERB DIR/m.onnx OPTIONS", where %s in the options is the folder. */
static const char *words(const char *verb_name, const char *options)
{
	static char line[512];
	int n = snprintf(line, sizeof(line), "%s %s/m.onnx ", verb_name, dir);

	snprintf(line + n, sizeof(line) - (size_t)n, options, dir, dir);
	return line;
}

/* Every tensor has a row, the worst one is first, and the device gives the quantised bits. */
START_TEST(the_worst_tensor_comes_first)
{
	struct json_object *top, *rows, *outputs;
	double last = -1000;

	EXPECT(words("compare", "--calibrate %s/x.npy --range min-max --json"), 0);
	check_json("rivulet.compare/1");
	top = json_tokener_parse(out);
	rows = json_object_object_get(top, "tensors");
	ck_assert_uint_ge(json_object_array_length(rows), 4);
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);
		double db = json_object_get_double(json_object_object_get(row, "snr_db"));

		ck_assert_msg(db >= last, "row %zu has %g dB behind %g dB", i, db, last);
		ck_assert_double_gt(db, 20);
		last = db;
	}
	outputs = json_object_object_get(top, "outputs");
	ck_assert_uint_eq(json_object_array_length(outputs), 2);
	for (size_t i = 0; i < 2; i++)
		ck_assert_int_eq(json_object_get_int(json_object_object_get(
			json_object_array_get_idx(outputs, i), "differ")), 0);
	ck_assert_int_eq(json_object_get_int(json_object_object_get(top, "runs")), RUNS);
	json_object_put(top);
}
END_TEST

START_TEST(the_report_is_a_table)
{
	EXPECT(words("compare", "--calibrate %s/x.npy --count 2"), 0);
	SAYS("quantised tensors against float over 2 runs, the worst first");
	SAYS("QConv");
	SAYS("linked model of zu3eg-64");
}
END_TEST

/* A dumped tensor of four dimensions; its values of all runs are @n. */
static void read_values(const char *name, float *v, uint64_t n)
{
	struct rvl_array a;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	ck_assert_int_eq(rvl_array_read(path, &a), 0);
	ck_assert_uint_eq(a.ndim, 4);
	ck_assert_uint_eq(a.dim[0], RUNS);
	ck_assert_uint_eq(a.size, n * sizeof(float));
	memcpy(v, a.data, a.size);
	rvl_array_clear(&a);
}

/* The convolution's float values, and the same rounded to 8 bits, of every run. */
START_TEST(values_are_dumped)
{
	float f[RUNS * IN], q[RUNS * IN];

	EXPECT(words("compare", "--calibrate %s/x.npy --range min-max --dump c --output %s"), 0);
	read_values("c.float.npy", f, RUNS * IN);
	read_values("c.quantised.npy", q, RUNS * IN);
	for (int i = 0; i < RUNS * IN; i += IN) {
		float x = (float)(i % 7) - 2.5f, u = (float)((i + 4) % 7) - 2.5f;

		ck_assert_float_eq_tol(f[i], x - 2 * u, 1e-6f);
		ck_assert_float_eq_tol(f[i + 4], 0.5f * x + 3 * u, 1e-6f);
	}
	for (int i = 0; i < RUNS * IN; i++)
		ck_assert_msg(fabsf(f[i] - q[i]) < 0.15f, "value %d: %g, not %g", i, (double)q[i],
			      (double)f[i]);
	ck_assert(memcmp(f, q, sizeof(f)) != 0);
}
END_TEST

/* Outputs are compared over all runs: quantised and device have the SNR of the dumped values. */
START_TEST(every_run_counts)
{
	struct json_object *top, *row;
	double sum = 0, square = 0, noise = 0, db;
	float f[RUNS * 2], q[RUNS * 2];

	EXPECT(words("compare", "--calibrate %s/x.npy --range min-max --dump y --output %s --json"), 0);
	read_values("y.float.npy", f, RUNS * 2);
	read_values("y.quantised.npy", q, RUNS * 2);
	for (int i = 0; i < RUNS * 2; i++) {
		sum += (double)f[i];
		square += (double)f[i] * (double)f[i];
		noise += pow((double)q[i] - (double)f[i], 2);
	}
	db = 10 * log10((square - sum * sum / (RUNS * 2)) / noise);
	top = json_tokener_parse(out);
	row = json_object_array_get_idx(json_object_object_get(top, "outputs"), 0);
	ck_assert_str_eq(json_object_get_string(json_object_object_get(row, "output")), "y");
	ck_assert_double_eq_tol(json_object_get_double(json_object_object_get(row, "quantised_db")), db, 0.01);
	ck_assert_double_eq_tol(json_object_get_double(json_object_object_get(row, "device_db")), db, 0.01);
	json_object_put(top);
}
END_TEST

/* Each run keeps 2 + 8 values of the outputs in two forms. The tensors are compared over all runs. */
START_TEST(kept_values_are_bounded)
{
	struct json_object *top;
	struct rvl_array a;
	char path[128];

	EXPECT(words("compare", "--calibrate %s/x.npy --json --keep-bytes 239"), 0);
	top = json_tokener_parse(out);
	ck_assert_int_eq(json_object_get_int(json_object_object_get(top, "runs")), RUNS);
	ck_assert_int_eq(json_object_get_int(json_object_object_get(top, "output_runs")), 2);
	json_object_put(top);
	EXPECT(words("compare", "--calibrate %s/x.npy --keep-bytes 239"), 0);
	SAYS("over 3 runs");
	SAYS("outputs of the first 2 runs (--keep-bytes)");
	EXPECT(words("compare", "--calibrate %s/x.npy --keep-bytes 240"), 0);
	SAYS("outputs of all runs");
	EXPECT(words("compare", "--calibrate %s/x.npy --keep-bytes 144 --dump c --output %s"), 0);
	snprintf(path, sizeof(path), "%s/c.float.npy", dir);
	ck_assert_int_eq(rvl_array_read(path, &a), 0);
	ck_assert_uint_eq(a.dim[0], 1);
	rvl_array_clear(&a);
	EXPECT(words("compare", "--calibrate %s/x.npy --keep-bytes 79"), RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "the outputs of one run take 80 bytes, more than the 79 that are kept"));
}
END_TEST

/* Tensors that are only moved, and those that stay float, are dumped too. */
START_TEST(any_tensor_is_dumped)
{
	struct pb model = ot_model("in x f32 1,2,2,2; out y; const w f32 2,2,1,1 1 -2 0.5 3; Conv x w -> c; "
				   "const h s64 2 1 1; Split c h -> a b axis=1; Concat b a -> d axis=1; "
				   "Conv d w -> e; Softmax e -> y axis=1", 13);
	static const char *const names[] = { "x", "c", "b", "d", "e", "y" };
	char path[128], line[512];

	snprintf(path, sizeof(path), "%s/moves.onnx", dir);
	write_file(path, model.p, model.n);
	free(model.p);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(line, sizeof(line), "compare %s --calibrate %s/x.npy --dump %s --output %s", path, dir,
			 names[i], dir);
		EXPECT(line, 0);
		snprintf(line, sizeof(line), "%s/%s.quantised.npy", dir, names[i]);
		ck_assert_msg(!access(line, R_OK), "%s", line);
	}
	SAYS("Concat");
	SAYS("Split");
}
END_TEST

START_TEST(what_cannot_be_compared)
{
	EXPECT(words("compare", ""), RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error, "rivulet compare takes --calibrate");
	EXPECT(words("compare", "--calibrate %s/x.npy --dump nobody"), RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "no tensor \"nobody\" of both the float and the quantised model"));
	EXPECT(words("compare", "--calibrate %s/x.npy --mixed 0"), RVL_EXIT_USAGE);
	EXPECT(words("compare", "--calibrate %s/x.npy --bias-correction maybe"), RVL_EXIT_USAGE);
	EXPECT(words("compare", "--calibrate %s/x.npy --bits 9"), RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error, "--bits is a mean of 1 to 8 bits, not \"9\"");
	EXPECT(words("compare", "--calibrate %s/x.npy --bits-loss 0"), RVL_EXIT_USAGE);
	EXPECT(words("compare", "--calibrate %s/x.npy --bits 4 --bits-loss 1"), RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error, "--bits and --bits-loss exclude each other");
	EXPECT(words("compare", "--calibrate %s/x.npy --range best"), RVL_EXIT_USAGE);
	EXPECT(words("compare", "--calibrate %s/x.npy --percentile 40"), RVL_EXIT_USAGE);
	EXPECT(words("compile", "--export %s/q.onnx"), RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error, "--export is for a model that --calibrate quantises");
	EXPECT(words("compile", "--range mse"), RVL_EXIT_USAGE);
	EXPECT(words("compile", "--optimise joy"), RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error, "--optimise is cycles or energy, not \"joy\"");
}
END_TEST

/* The shapes that the options give are those of both forms of the model. */
START_TEST(shapes_of_the_options)
{
	struct pb model = ot_model("in x f32 1,2,?,?; out y; const w f32 2,2,1,1 1 -2 0.5 3; "
				   "Conv x w -> y", 13);
	char path[128], line[256];

	snprintf(path, sizeof(path), "%s/open.onnx", dir);
	write_file(path, model.p, model.n);
	free(model.p);
	snprintf(line, sizeof(line), "compare %s --calibrate %s/x.npy --shape x=1,2,2,2", path, dir);
	EXPECT(line, 0);
	snprintf(line, sizeof(line), "compare %s --calibrate %s/x.npy", path, dir);
	EXPECT(line, RVL_EXIT_REFUSED);
}
END_TEST

/* The exported model compiles to the NPU without examples. */
START_TEST(the_exported_model_is_quantised)
{
	char line[256];

	EXPECT(words("compile", "--calibrate %s/x.npy --export %s/q.onnx --range mse"), 0);
	snprintf(line, sizeof(line), "explain %s/q.onnx", dir);
	EXPECT(line, 0);
	SAYS("QConv");
	SAYS("npu");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("compare");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_worst_tensor_comes_first);
	tcase_add_test(t, the_report_is_a_table);
	tcase_add_test(t, values_are_dumped);
	tcase_add_test(t, every_run_counts);
	tcase_add_test(t, kept_values_are_bounded);
	tcase_add_test(t, any_tensor_is_dumped);
	tcase_add_test(t, what_cannot_be_compared);
	tcase_add_test(t, shapes_of_the_options);
	tcase_add_test(t, the_exported_model_is_quantised);
	suite_add_tcase(s, t);
	return run_suite(s);
}
