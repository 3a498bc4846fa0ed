// SPDX-License-Identifier: MIT
/*
 * `rivulet run` on models that return their input, so that pictures determine the scores. Classes,
 * confidences, accuracies, records, quantised inputs and the printed outputs are compared with
 * values that the test computes.
 */
#include <check.h>
#include <json-c/json.h>
#include <math.h>

#include "../../tool/data/array.h"
#include "../../tool/json.h"
#include "../../tool/run/run.h"
#include "files.h"
#include "pbuild.h"
#include "suite.h"
#include "verb.h"
#include "verb_out.h"

#define SIM " --device sim:zu3eg-64 "
#define F32 1
#define U8  2
#define S8  3
#define S32 6
#define S64 7
#define W   20		/* classes: the pixels of a picture of one line */

static char dir[SCRATCH_MAX], words[1500];

static void setup(void)
{
	make_scratch(dir);
}

static void teardown(void)
{
	remove_scratch(dir);
}

/* Runs a verb. @format may contain %s up to five times for the scratch directory. */
static int in_dir(const char *format)
{
	snprintf(words, sizeof(words), format, dir, dir, dir, dir, dir);
	return verb(words);
}

/* Proves the exit status of a verb. */
#define RUNS(format, code)                                                                                          \
	do {                                                                                                        \
		int r_ = in_dir(format);                                                                            \
		ck_assert_msg(r_ == (code), "%s: exit %d (%s)", words, r_, rvl_tool_error);                         \
	} while (0)

static const char *path_of(const char *name)
{
	static char path[SCRATCH_MAX + 32];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

/* ---- models ---- */

static void write_model(struct pb *graph)
{
	struct pb model = pb_model(graph, 8, 13);

	write_file(path_of("m.onnx"), model.p, model.n);
	free(model.p);
}

/* A model whose output @name is its input "x" of this type and shape, with all but the first dimension in one. */
static void echo(int type, const int64_t *dim, const char *name)
{
	struct pb node = pb_node("Flatten", "x", name), graph = { .p = NULL };
	struct pb in = pb_value("x", type, dim), result = { .p = NULL };

	pb_msg(&graph, 1, &node);
	pb_str(&graph, 2, "g");
	pb_msg(&graph, 11, &in);
	pb_str(&result, 1, name);
	pb_msg(&graph, 12, &result);
	write_model(&graph);
}

static void echo_line(int type)
{
	const int64_t line[] = { 1, 1, 1, W, -1 };
	struct pb node, graph = { .p = NULL }, in, result;

	if (type == F32) {
		echo(type, line, "y");
		return;
	}
	/*
	 * Max instead of an operator that only moves bytes, because such bytes would get a scale.
	 */
	node = pb_node("Max", "x x", "y");
	in = pb_value("x", type, line);
	result = pb_value("y", type, line);
	pb_msg(&graph, 1, &node);
	pb_str(&graph, 2, "g");
	pb_msg(&graph, 11, &in);
	pb_msg(&graph, 12, &result);
	write_model(&graph);
}

/* A model that dequantises its input of bytes: y = scale * (x - zero). */
static void dequantise(int type, float scale, int zero)
{
	const int64_t line[] = { 1, 1, 1, W, -1 }, none[] = { -1 };
	struct pb node = pb_node("DequantizeLinear", "x s z", "y"), graph = { .p = NULL };
	struct pb in = pb_value("x", type, line), result = pb_value("y", F32, line);
	uint8_t z = (uint8_t)zero;
	struct pb s = pb_tensor("s", F32, none, &scale, 4), zp = pb_tensor("z", type, none, &z, 1);

	pb_msg(&graph, 1, &node);
	pb_str(&graph, 2, "g");
	pb_msg(&graph, 5, &s);
	pb_msg(&graph, 5, &zp);
	pb_msg(&graph, 11, &in);
	pb_msg(&graph, 12, &result);
	write_model(&graph);
}

/* sum = a + b, both of four numbers. */
static void adder(void)
{
	const int64_t four[] = { 4, -1 };
	struct pb node = pb_node("Add", "a b", "sum"), graph = { .p = NULL };
	struct pb a = pb_value("a", F32, four), b = pb_value("b", F32, four), sum = pb_value("sum", F32, four);

	pb_msg(&graph, 1, &node);
	pb_str(&graph, 2, "g");
	pb_msg(&graph, 11, &a);
	pb_msg(&graph, 11, &b);
	pb_msg(&graph, 12, &sum);
	write_model(&graph);
}

/* ---- sets of pictures ---- */

/* IDX files of @n pictures of one line of @w pixels, and of their labels. */
static void put_set(uint32_t n, uint32_t w, const uint8_t *pixels, const uint8_t *labels)
{
	uint8_t *p = calloc(1, 16 + (size_t)n * w);

	memcpy(p, "\0\0\x08\x03", 4);
	p[7] = (uint8_t)n;
	p[11] = 1;
	p[15] = (uint8_t)w;
	memcpy(p + 16, pixels, (size_t)n * w);
	write_file(path_of("i"), p, 16 + (size_t)n * w);
	memset(p, 0, 16);
	memcpy(p, "\0\0\x08\x01", 4);
	p[7] = (uint8_t)n;
	memcpy(p + 8, labels, n);
	write_file(path_of("l"), p, 8 + n);
	free(p);
}

/* Six pictures: the best classes are 1, 0 (as good as 1), 19, 3, 3 and 7. */
static uint8_t pixels[6][W];
static const uint8_t labels[6] = { 1, 1, 0, 3, 4, 9 };

static void six_pictures(void)
{
	memset(pixels, 0, sizeof(pixels));
	pixels[0][1] = 250;
	pixels[1][0] = pixels[1][1] = 200;
	for (int i = 0; i < W; i++)
		pixels[2][i] = (uint8_t)(10 * i);
	pixels[3][3] = 120;
	pixels[4][3] = 121;
	pixels[4][4] = 120;
	pixels[5][7] = 9;
	put_set(6, W, pixels[0], labels);
}

#define SET " --images %s/i --labels %s/l "

/* The k-th best class of a picture; of equal ones the first. */
static uint32_t kth(const uint8_t *p, int k)
{
	bool taken[W] = { false };
	uint32_t best = 0;

	for (int n = 0; n <= k; n++) {
		best = W;
		for (uint32_t i = 0; i < W; i++)
			if (!taken[i] && (best == W || p[i] > p[best]))
				best = i;
		taken[best] = true;
	}
	return best;
}

/* The share of a class in the softmax of the scores, which are samples of 0 to 1. */
static double share(const uint8_t *p, uint32_t class)
{
	double sum = 0;

	for (int i = 0; i < W; i++)
		sum += exp(p[i] / 255.0);
	return exp(p[class] / 255.0) / sum;
}

static void check_classes(struct json_object *list, const uint8_t *p, int n, double tolerance)
{
	ck_assert_uint_eq(json_object_array_length(list), (size_t)n);
	for (int k = 0; k < n; k++) {
		struct json_object *c = rvl_json_item(list, (size_t)k);

		ck_assert_double_eq(number(c, "class"), kth(p, k));
		ck_assert_double_eq_tol(number(c, "confidence"), share(p, kth(p, k)), tolerance);
	}
}

/* Proves class, confidence, label and the order of the best classes of each picture, and both accuracies. */
START_TEST(classes)
{
	struct json_object *o, *p;

	six_pictures();
	echo_line(F32);
	RUNS("run %s/m.onnx --json --top 3" SET SIM, 0);
	o = json_out();
	ck_assert_double_eq(number(o, "runs"), 6);
	/* 1, 3 are right; 1 is second in the second picture, 0 not among the best of the third, 4 is second. */
	ck_assert_double_eq_tol(number(o, "accuracy"), 2 / 6.0, 1e-8);
	ck_assert_double_eq_tol(number(o, "top_accuracy"), 4 / 6.0, 1e-8);
	for (size_t i = 0; i < 6; i++) {
		p = rvl_json_item(rvl_json_member(o, "pictures"), i);
		ck_assert_double_eq(number(p, "index"), (double)i);
		ck_assert_double_eq(number(p, "label"), labels[i]);
		ck_assert_double_eq(number(p, "class"), kth(pixels[i], 0));
		ck_assert(number(p, "width") == W && number(p, "height") == 1);
		ck_assert_str_eq(json_object_get_string(rvl_json_member(p, "resized")), "none");
		ck_assert_ptr_null(rvl_json_member(p, "file"));
		check_classes(rvl_json_member(p, "top"), pixels[i], 3, 1e-6);
	}
	/* The option asks for more classes than exist. */
	RUNS("run %s/m.onnx --json --top 1000 --count 1" SET SIM, 0);
	p = rvl_json_item(rvl_json_member(json_out(), "pictures"), 0);
	check_classes(rvl_json_member(p, "top"), pixels[0], W, 1e-6);
	ck_assert_double_eq(number(json_out(), "top_accuracy"), 1);
	/* Without --top, a set has no list of pictures. */
	RUNS("run %s/m.onnx --json" SET SIM, 0);
	ck_assert_uint_eq(json_object_array_length(rvl_json_member(json_out(), "pictures")), 0);
	ck_assert_ptr_null(rvl_json_member(json_out(), "top_accuracy"));
}
END_TEST

/* Proves that scores that sum to one are used as confidences. */
START_TEST(probabilities)
{
	struct json_object *top;
	uint8_t p[W] = { 0 }, l = 2;

	p[2] = 204;
	p[5] = 51;
	put_set(1, W, p, &l);
	echo_line(F32);
	RUNS("run %s/m.onnx --json --top 3" SET SIM, 0);
	top = rvl_json_member(rvl_json_item(rvl_json_member(json_out(), "pictures"), 0), "top");
	ck_assert_double_eq_tol(number(rvl_json_item(top, 0), "confidence"), 0.8, 1e-6);
	ck_assert_double_eq_tol(number(rvl_json_item(top, 1), "confidence"), 0.2, 1e-6);
	ck_assert_double_eq(number(rvl_json_item(top, 2), "confidence"), 0);
	/* The sum may differ from one by less than a thousandth: 254 / 255 is 0.9961. */
	memset(p, 0, sizeof(p));
	p[0] = 254;
	put_set(1, W, p, &l);
	RUNS("run %s/m.onnx --json --top 1000" SET SIM, 0);
	top = rvl_json_member(rvl_json_item(rvl_json_member(json_out(), "pictures"), 0), "top");
	check_classes(top, p, W, 1e-6);
	/* 0.9995 and 0.9984 by the standard deviation. */
	RUNS("run %s/m.onnx --json --top 1000 --std 0.9966" SET SIM, 0);
	top = rvl_json_member(rvl_json_item(rvl_json_member(json_out(), "pictures"), 0), "top");
	ck_assert_double_gt(number(rvl_json_item(top, 0), "confidence"), 0.99);
	RUNS("run %s/m.onnx --json --top 1000 --std 0.9977" SET SIM, 0);
	top = rvl_json_member(rvl_json_item(rvl_json_member(json_out(), "pictures"), 0), "top");
	ck_assert_double_lt(number(rvl_json_item(top, 0), "confidence"), 0.2);
	/* Negative scores are no probabilities, whatever their sum is. */
	memset(p, 0, sizeof(p));
	p[0] = 255;
	put_set(1, W, p, &l);
	RUNS("run %s/m.onnx --json --top 1000 --mean 0.25 --std 0.75" SET SIM, 0);
	top = rvl_json_member(rvl_json_item(rvl_json_member(json_out(), "pictures"), 0), "top");
	ck_assert_double_eq_tol(number(rvl_json_item(top, 0), "confidence"),
				exp(1) / (exp(1) + 19 * exp(-1 / 3.0)), 1e-6);
}
END_TEST

#define UP "\xe2\x96\x80"

/* Proves the pictures that are shown, four without --pictures, their labels, and the accuracy. */
START_TEST(shown)
{
	six_pictures();
	echo_line(F32);
	RUNS("run %s/m.onnx" SET SIM, 0);
	/*
	 * Below single lines the rows are black. Pixels that exceed black by more than 96 are drawn
	 * as half blocks.
	 */
	snprintf(words, sizeof(words), "   " UP "%20s" UP UP "%30s" UP UP UP UP UP UP UP UP UP UP "     " UP "%16s\n", "", "", "");
	ck_assert_int_eq(strncmp(out, words, strlen(words)), 0);
	SAYS("\n  class 1 12 %, right   class 0 10 %, WRONG   class 19 7 %, WRONG   class 3 8 %, right  \n\n");
	SAYS("  accuracy        33.33 %  2 of 6\n");
	ck_assert_ptr_null(strstr(out, "top accuracy"));
	RUNS("run %s/m.onnx --images %s/i --top 2 --pictures 0" SIM, 0);
	ck_assert_ptr_null(strstr(out, "class"));
	ck_assert_ptr_null(strstr(out, "accuracy"));
	RUNS("run %s/m.onnx --images %s/i --pictures 1" SIM, 0);
	SAYS("\n  class 1 12 %        \n\n");
	ck_assert_ptr_nonnull(strstr(out, "\x1b["));
}
END_TEST

/* Proves how many pictures fit into a row of 120 characters, and that at most 16 are shown. */
START_TEST(rows_of_pictures)
{
	uint8_t all[18][W] = { { 0 } }, l[18] = { 0 };
	const char *p;
	int n = 0, rows = 0;

	put_set(18, W, all[0], l);
	echo_line(F32);
	RUNS("run %s/m.onnx --pictures 99" SET SIM, 0);
	for (p = out; (p = strstr(p, "class 0 5 %, right")); p++)
		n++;
	ck_assert_int_eq(n, 16);
	for (p = out; (p = strstr(p, "\n  class 0 5 %, right    class 0 5 %, right  ")); p++)
		rows++;
	/* 5, 5, 5 and 1 */
	ck_assert_int_eq(rows, 3);
	SAYS("\n  class 0 5 %, right  \n\n");
}
END_TEST

/* Proves names, resizing and the report of single pictures. */
START_TEST(files_and_names)
{
	struct json_object *p;

	echo_line(F32);
	write_file(path_of("a.pgm"), "P5 20 1 255 aaaaaaaaaaaaaaaaaaaz", 32);
	write_file(path_of("b.ppm"), "P6 20 2 255 ", 12);
	{
		FILE *f = fopen(path_of("b.ppm"), "ae");

		for (int i = 0; i < 2 * W; i++)
			fwrite(i % W == 4 ? "\xff\xff\xff" : "\x10\x20\x30", 1, 3, f);
		fclose(f);
	}
	write_file(path_of("n"), "zero\r\none\n\ntwo\nthree\nfour four\n", 31);
	RUNS("run %s/m.onnx --image %s/a.pgm --image %s/b.ppm --names %s/n --top 2 --json" SIM, 0);
	p = rvl_json_item(rvl_json_member(json_out(), "pictures"), 0);
	ck_assert_double_eq(number(p, "class"), 19);
	ck_assert_ptr_null(rvl_json_member(p, "name"));
	ck_assert_ptr_null(rvl_json_member(p, "label"));
	ck_assert_ptr_null(rvl_json_member(p, "index"));
	p = rvl_json_item(rvl_json_member(json_out(), "pictures"), 1);
	ck_assert_str_eq(json_object_get_string(rvl_json_member(p, "file")), path_of("b.ppm"));
	ck_assert_double_eq(number(p, "class"), 4);
	ck_assert_str_eq(json_object_get_string(rvl_json_member(p, "name")), "four four");
	ck_assert_str_eq(json_object_get_string(rvl_json_member(p, "resized")), "crop");
	ck_assert_double_eq(number(p, "height"), 2);
	RUNS("run %s/m.onnx --image %s/b.ppm --labels %s/n --top 2 --resize stretch --pictures 0" SIM, 0);
	snprintf(words, sizeof(words), "%s/b.ppm: four four, 11.3 %%  (20 x 2 pixels, resized by stretch)\n"
		 "   2. zero, 4.7 %%\n", dir);
	ck_assert_int_eq(strncmp(out, words, strlen(words)), 0);
	RUNS("run %s/m.onnx --image %s/a.pgm --pictures 0" SIM, 0);
	snprintf(words, sizeof(words), "%s/a.pgm: class 19, 5.5 %%\n", dir);
	ck_assert_int_eq(strncmp(out, words, strlen(words)), 0);
	RUNS("run %s/m.onnx --image %s/none.pgm" SIM, RVL_EXIT_REFUSED);
	RUNS("run %s/m.onnx --image %s/a.pgm --names %s/none" SIM, RVL_EXIT_REFUSED);
}
END_TEST

/* ---- records ---- */

static void put_record(uint32_t images, uint32_t classes, bool is_signed, const uint8_t *q)
{
	uint8_t file[16 + 6 * W] = { 'R', 'V', 'E', 'X', 1, 0, 0, 0, (uint8_t)images, 0, 0, 0, (uint8_t)classes, 0,
				     is_signed };

	memcpy(file + 16, q, (size_t)images * classes);
	write_file(path_of("e"), file, 16 + (size_t)images * classes);
}

#define EXPECTED " --expect %s/e "

/* Proves that outputs of bytes are compared unchanged, and that the first difference is named. */
START_TEST(records_of_bytes)
{
	six_pictures();
	for (int type = U8; type <= S8; type++) {
		uint8_t q[6][W];

		for (int i = 0; i < 6 * W; i++)
			q[i / W][i % W] = (uint8_t)(pixels[i / W][i % W] - (type == U8 ? 0 : 128));
		echo_line(type);
		put_record(6, W, type == S8, q[0]);
		RUNS("run %s/m.onnx --json" SET EXPECTED SIM, 0);
		ck_assert_double_eq(number(json_out(), "bitexact"), 6);
		q[2][W - 1] ^= 1;
		q[4][0] ^= 1;
		put_record(6, W, type == S8, q[0]);
		RUNS("run %s/m.onnx --figures f" SET EXPECTED SIM, RVL_EXIT_DIFFERENT);
		SAYS("  bit-exact        4 of 6  FIRST DIFFERENCE: picture 2\n");
		SAYS("figure " "f.bitexact 4 images\n");
		snprintf(words, sizeof(words), "2 of 6 outputs differ from %s", path_of("e"));
		ck_assert_str_eq(rvl_tool_error, words);
		RUNS("run %s/m.onnx --first 3 --count 1" SET EXPECTED SIM, 0);
		SAYS("  bit-exact        1 of 1  equal to the record at the last quantised tensor\n");
	}
	echo_line(U8);
	put_record(6, W - 1, false, pixels[0]);
	RUNS("run %s/m.onnx" SET EXPECTED SIM, RVL_EXIT_REFUSED);
	ck_assert_str_eq(rvl_tool_error, "--expect has 19 classes, output y 20");
	put_record(5, W, false, pixels[0]);
	RUNS("run %s/m.onnx" SET EXPECTED SIM, RVL_EXIT_USAGE);
	snprintf(words, sizeof(words), "%s records 5 pictures: --count 5", path_of("e"));
	ck_assert_str_eq(rvl_tool_error, words);
	RUNS("run %s/m.onnx --first 3" SET EXPECTED SIM, RVL_EXIT_USAGE);
	snprintf(words, sizeof(words), "%s records 5 pictures: --count 2", path_of("e"));
	ck_assert_str_eq(rvl_tool_error, words);
	RUNS("run %s/m.onnx --first 2 --count 3" SET EXPECTED SIM, 0);
	RUNS("run %s/m.onnx --first 5" SET EXPECTED SIM, RVL_EXIT_USAGE);
	snprintf(words, sizeof(words), "%s records 5 pictures: --count 0", path_of("e"));
	ck_assert_str_eq(rvl_tool_error, words);
}
END_TEST

/* Proves that a dequantised output is compared as the bytes of which it was made. */
START_TEST(records_of_floats)
{
	uint8_t q[6][W];

	six_pictures();
	/* An input with a scale takes (sample / scale) + zero: here 2 * sample / 255, to 100, 101 and 102. */
	dequantise(U8, 0.5f, 100);
	for (int i = 0; i < 6 * W; i++)
		q[i / W][i % W] = (uint8_t)(100 + lrintf((float)pixels[i / W][i % W] / 255.0f / 0.5f));
	put_record(6, W, false, q[0]);
	RUNS("run %s/m.onnx --json" SET EXPECTED SIM, 0);
	ck_assert_double_eq(number(json_out(), "bitexact"), 6);
	put_record(6, W, true, q[0]);
	RUNS("run %s/m.onnx" SET EXPECTED SIM, RVL_EXIT_REFUSED);
	ck_assert_str_eq(rvl_tool_error, "output y is not a dequantised int8 tensor, as --expect recorded");
	echo_line(F32);
	put_record(6, W, false, q[0]);
	RUNS("run %s/m.onnx" SET EXPECTED SIM, RVL_EXIT_REFUSED);
	ck_assert_str_eq(rvl_tool_error, "output y is not a dequantised uint8 tensor, as --expect recorded");
}
END_TEST

/* ---- inputs of bytes ---- */

/* The output y.npy of one picture, as float. */
static const float *floats(void)
{
	static struct rvl_array a;

	rvl_array_clear(&a);
	ck_assert_int_eq(rvl_array_read(path_of("o/y.npy"), &a), 0);
	ck_assert(a.dtype == RIVULET_F32 && a.size == 4 * W);
	return a.data;
}

/* Proves rounding and both bounds of a quantised input, of both types, with mean and deviation. */
START_TEST(quantised_inputs)
{
	uint8_t p[W], l = 0;

	for (int i = 0; i < W; i++)
		p[i] = (uint8_t)(i * 255 / (W - 1));
	put_set(1, W, p, &l);
	for (int type = U8; type <= S8; type++) {
		int lo = type == U8 ? 0 : -128, zero = type == U8 ? 200 : 60;

		dequantise(type, 0.01f, zero);
		RUNS("run %s/m.onnx --mean 0.5 --std 0.2 -o %s/o" SET SIM, 0);
		for (int i = 0; i < W; i++) {
			float f = ((float)p[i] / 255.0f - 0.5f) / 0.2f;
			float q = fminf(fmaxf(rintf(f / 0.01f) + (float)zero, (float)lo), (float)(lo + 255));

			ck_assert_float_eq_tol(floats()[i], (q - (float)zero) * 0.01f, 1e-6f);
		}
	}
	echo_line(U8);
	RUNS("run %s/m.onnx --mean 0.5" SET SIM, RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error,
			 "--mean and --std: input x is uint8 without a scale, and takes samples as they are");
	RUNS("run %s/m.onnx --std 0.5" SET SIM, RVL_EXIT_USAGE);
}
END_TEST

/* Proves that the scores of an output of bytes are its values. */
START_TEST(scores_of_bytes)
{
	struct json_object *top;

	six_pictures();
	for (int type = U8; type <= S8; type++) {
		echo_line(type);
		RUNS("run %s/m.onnx --json --top 2 --first 4" SET SIM, 0);
		top = rvl_json_member(rvl_json_item(rvl_json_member(json_out(), "pictures"), 0), "top");
		ck_assert_double_eq(number(rvl_json_item(top, 0), "class"), 3);
		ck_assert_double_eq(number(rvl_json_item(top, 1), "class"), 4);
		/* 121 and 120 as scores: e to 1 */
		ck_assert_double_eq_tol(number(rvl_json_item(top, 0), "confidence"), 1 / (1 + exp(-1)), 1e-9);
		ck_assert_double_eq_tol(number(rvl_json_item(top, 1), "confidence"), 1 / (1 + exp(1)), 1e-9);
	}
}
END_TEST

/* Proves which inputs take pictures, and the text about the others. */
START_TEST(inputs_for_pictures)
{
	static const struct { int type; int64_t dim[6]; const char *shape; } bad[] = {
		{ F32, { 1, 1, W, -1 }, "float32 1x1x20" }, { F32, { 2, 1, 1, W, -1 }, "float32 2x1x1x20" },
		{ F32, { 1, 2, 2, W, -1 }, "float32 1x2x2x20" }, { S32, { 1, 1, 1, W, -1 }, "int32 1x1x1x20" },
		{ F32, { 1, 1, 1, 1, W, -1 }, "float32 1x1x1x1x20" }, { F32, { 1, 2, W, 2, -1 }, "float32 1x2x20x2" } };

	six_pictures();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		echo(bad[i].type, bad[i].dim, "y");
		RUNS("run %s/m.onnx" SET SIM, RVL_EXIT_USAGE);
		snprintf(words, sizeof(words), "input x is %s; pictures need [1, C, H, W] or [1, H, W, C] with C = 1 or 3, of "
			 "float32, uint8 or int8", bad[i].shape);
		ck_assert_str_eq(rvl_tool_error, words);
	}
	adder();
	RUNS("run %s/m.onnx" SET SIM, RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error, "pictures need a model of one input, this has 2");
	put_set(2, W, pixels[0], labels);
	echo_line(F32);
	write_file(path_of("l"), "\0\0\x08\x01\0\0\0\3abc", 11);
	RUNS("run %s/m.onnx" SET SIM, RVL_EXIT_REFUSED);
	snprintf(words, sizeof(words), "%s has 3 labels for 2 pictures", path_of("l"));
	ck_assert_str_eq(rvl_tool_error, words);
}
END_TEST

/* Proves the weights of the colours in grey, with rounding: 0.299 R + 0.587 G + 0.114 B. */
START_TEST(grey)
{
	static const struct { uint8_t rgb[3], grey; } colours[] = {
		{ { 255, 0, 0 }, 76 }, { { 0, 255, 0 }, 150 }, { { 0, 0, 255 }, 29 }, { { 255, 255, 255 }, 255 },
		{ { 0, 0, 0 }, 0 }, { { 1, 2, 3 }, 2 }, { { 100, 50, 25 }, 62 }, { { 0, 0, 250 }, 29 },
		{ { 0, 0, 4 }, 0 }, { { 0, 0, 5 }, 1 }, { { 2, 0, 0 }, 1 }, { { 1, 0, 1 }, 0 },
		{ { 10, 0, 15 }, 5 }, { { 0, 100, 200 }, 82 } };

	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
		ck_assert_msg(rvl_grey_of(colours[i].rgb) == colours[i].grey, "colour %zu is %u", i,
			      rvl_grey_of(colours[i].rgb));
	for (uint32_t r = 0; r < 256; r += 5)
		for (uint32_t g = 0; g < 256; g += 3) {
			double want = floor(0.299 * r + 0.587 * g + 0.114 * 7 + 0.5 + 1e-9);

			ck_assert_double_eq(rvl_grey_of((uint8_t[]){ (uint8_t)r, (uint8_t)g, 7 }), want);
		}
}
END_TEST

/* Proves the limit of both sides of the pictures of a set. */
START_TEST(wide_pictures)
{
	uint8_t file[16 + 16385] = { 0, 0, 8, 3, 0, 0, 0, 1 };

	echo_line(F32);
	for (int wide = 0; wide < 2; wide++)
		for (uint32_t side = 16384; side <= 16385; side++) {
			uint32_t h = wide ? 1 : side, w = wide ? side : 1;

			file[10] = (uint8_t)(h >> 8);
			file[11] = (uint8_t)h;
			file[14] = (uint8_t)(w >> 8);
			file[15] = (uint8_t)w;
			write_file(path_of("i"), file, 16 + side);
			RUNS("run %s/m.onnx --images %s/i --pictures 0" SIM, side > 16384 ? RVL_EXIT_REFUSED : 0);
			snprintf(words, sizeof(words), "%s: pictures of more than 16384 a side", path_of("i"));
			ck_assert_str_eq(rvl_tool_error, side > 16384 ? words : "");
		}
}
END_TEST

/* ---- tensors ---- */

static void put_npy(const char *name, enum rivulet_dtype type, uint32_t ndim, const uint64_t *dim, const void *data)
{
	struct rvl_array a = { .dtype = type, .ndim = ndim };

	memcpy(a.dim, dim, ndim * sizeof(*dim));
	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	memcpy(a.data, data, a.size);
	ck_assert_int_eq(rvl_npy_write(path_of(name), &a), 0);
	rvl_array_clear(&a);
}

/* Proves that every input must be given, once, and in its type and shape. */
START_TEST(tensors)
{
	const float a[4] = { 1, 2, 3, 4 }, b[4] = { 0.5f, 10, 100, -4 };
	const uint64_t four[] = { 4 }, row[] = { 1, 4 };

	adder();
	put_npy("a.npy", RIVULET_F32, 1, four, a);
	put_npy("b.npy", RIVULET_F32, 1, four, b);
	put_npy("r.npy", RIVULET_F32, 2, row, a);
	put_npy("i.npy", RIVULET_S32, 1, four, a);
	RUNS("run %s/m.onnx --input b=%s/b.npy --input a=%s/a.npy" SIM, 0);
	SAYS("\noutput sum, float32 4: 1.5 12 103 0\n");
	RUNS("run %s/m.onnx -ia=%s/a.npy" SIM, RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error, "input \"b\" is missing: --input b=FILE");
	RUNS("run %s/m.onnx --input b=%s/b.npy --input b=%s/b.npy" SIM, RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error, "input b is given twice");
	RUNS("run %s/m.onnx --input c=%s/b.npy" SIM, RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error, "the model has no input \"c\"; its first is \"a\"");
	RUNS("run %s/m.onnx --input b=%s/r.npy" SIM, RVL_EXIT_REFUSED);
	snprintf(words, sizeof(words), "%s: float32 1x4, input b is float32 4", path_of("r.npy"));
	ck_assert_str_eq(rvl_tool_error, words);
	RUNS("run %s/m.onnx --input b=%s/i.npy" SIM, RVL_EXIT_REFUSED);
	snprintf(words, sizeof(words), "%s: int32 4, input b is float32 4", path_of("i.npy"));
	ck_assert_str_eq(rvl_tool_error, words);
	RUNS("run %s/m.onnx --input b=%s/none" SIM, RVL_EXIT_REFUSED);
}
END_TEST

/* Proves the values that are printed of each type, ten at most, and the JSON of an output. */
START_TEST(printed_outputs)
{
	static const int64_t wide[11] = { -1, 2, -3000000000, 4, 5, 6, 7, 8, 9, 10, 11 };
	static const int32_t ints[11] = { -70000, 2, 3 };
	static const uint8_t small[11] = { 250, 1, 2 };
	static const struct { int onnx; enum rivulet_dtype type; const void *data; const char *first; } types[] = {
		{ S64, RIVULET_S64, wide, "int64 1x11: -1 2 -3e+09 4 5 6 7 8 9 10" },
		{ S32, RIVULET_S32, ints, "int32 1x11: -70000 2 3 0 0 0 0 0 0 0" },
		{ U8, RIVULET_U8, small, "uint8 1x11: 250 1 2 0 0 0 0 0 0 0" },
		{ S8, RIVULET_S8, small, "int8 1x11: -6 1 2 0 0 0 0 0 0 0" } };
	const int64_t shape[] = { 1, 11, -1 }, ten[] = { 1, 10, -1 };
	const uint64_t dim[] = { 1, 11 }, dim10[] = { 1, 10 };

	for (size_t i = 0; i < 4; i++) {
		echo(types[i].onnx, shape, "out/one");
		put_npy("x.npy", types[i].type, 2, dim, types[i].data);
		RUNS("run %s/m.onnx --input x=%s/x.npy" SIM, 0);
		snprintf(words, sizeof(words), "\noutput out/one, %s ... (--output DIR keeps all)\n", types[i].first);
		SAYS(words);
		/* A slash in a tensor's name is not a path separator. */
		RUNS("run %s/m.onnx --input x=%s/x.npy --output %s/o" SIM, 0);
		snprintf(words, sizeof(words), "\noutput out/one, %s ...\n", types[i].first);
		SAYS(words);
		ck_assert_int_eq(access(path_of("o/out_one.npy"), R_OK), 0);
	}
	RUNS("run %s/m.onnx --input x=%s/x.npy --json" SIM, 0);
	SAYS("\"outputs\":[{\"name\":\"out/one\",\"type\":\"int8\",\"shape\":[1,11],\"first\":[-6,1,2,0,0,0,0,0,0,0]}]}\n");
	echo(U8, ten, "y");
	put_npy("x.npy", RIVULET_U8, 2, dim10, small);
	RUNS("run %s/m.onnx --input x=%s/x.npy" SIM, 0);
	SAYS("\noutput y, uint8 1x10: 250 1 2 0 0 0 0 0 0 0\n");
	SAYS("  utilisation       0.0 %  model MACs of the array's peak\n");
	ck_assert_ptr_null(strstr(out, "V/F level"));
	RUNS("run %s/m.onnx --input x=%s/x.npy --json" SIM, 0);
	ck_assert_uint_eq(json_object_array_length(rvl_json_member(json_out(), "levels")), 0);
	RUNS("run %s/m.onnx --input x=%s/x.npy -o %s/x.npy" SIM, RVL_EXIT_FAILED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "x.npy/y.npy: Not a directory"));
	RUNS("run %s/m.onnx --input x=%s/x.npy -o %s/no/dir" SIM, RVL_EXIT_FAILED);
	snprintf(words, sizeof(words), "%s: No such file or directory", path_of("no/dir"));
	ck_assert_str_eq(rvl_tool_error, words);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("scores");
	TCase *t = add_case(s, "scores", 60, setup, teardown);

	tcase_add_test(t, classes);
	tcase_add_test(t, probabilities);
	tcase_add_test(t, shown);
	tcase_add_test(t, rows_of_pictures);
	tcase_add_test(t, files_and_names);
	tcase_add_test(t, records_of_bytes);
	tcase_add_test(t, records_of_floats);
	tcase_add_test(t, quantised_inputs);
	tcase_add_test(t, scores_of_bytes);
	tcase_add_test(t, inputs_for_pictures);
	tcase_add_test(t, grey);
	tcase_add_test(t, wide_pictures);
	tcase_add_test(t, tensors);
	tcase_add_test(t, printed_outputs);
	return run_suite(s);
}
