// SPDX-License-Identifier: MIT
/*
 * Pictures as input: resizing, normalisation, layout and the top classes; and a run without a
 * picture. An echo model, whose output is its input, shows the values that reached the input.
 */
#include <check.h>
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <png.h>

#include "../../tool/data/image.h"
#include "../../tool/json.h"
#include "files.h"
#include "pbuild.h"
#include "suite.h"
#include "verb.h"

#define SIM " --device sim:zu3eg-64 "
#define SET "/usr/share/datasets/fashion-mnist/t10k-"

static char dir[64], words[800];

static void setup(void)
{
	make_scratch(dir);
}

static void teardown(void)
{
	remove_scratch(dir);
}

/* Runs a verb. @format may contain %s up to four times for the scratch directory. */
static int in_dir(const char *format)
{
	snprintf(words, sizeof(words), format, dir, dir, dir, dir);
	return verb(words);
}

/* ---- sizes ---- */

static struct rvl_image fit(const uint8_t *data, uint32_t w, uint32_t h, uint32_t tw, uint32_t th,
			    enum rvl_fit how)
{
	struct rvl_image src = { .w = w, .h = h, .channels = 1, .data = (uint8_t *)data }, dst;

	ck_assert_int_eq(rvl_image_fit(&src, tw, th, how, &dst), 0);
	ck_assert(dst.w == tw && dst.h == th && dst.channels == 1);
	return dst;
}

static const struct {
	uint8_t src[8];
	uint32_t w, h, tw, th;
	enum rvl_fit how;
	uint8_t want[16];
} sizes[] = {
	/* The same size leaves the picture unchanged. */
	{ { 1, 200, 3, 4 }, 2, 2, 2, 2, RVL_FIT_CROP, { 1, 200, 3, 4 } },
	/* Twice as large: samples a quarter between the centres of two pixels. */
	{ { 0, 255 }, 2, 1, 4, 1, RVL_FIT_STRETCH, { 0, 64, 191, 255 } },
	/* Half as large: weights 3/7, 3/7, 1/7 of the triangle filter, which spans four pixels. */
	{ { 0, 100, 200, 50 }, 4, 1, 2, 1, RVL_FIT_STRETCH, { 71, 121 } },
	{ { 0, 100, 200, 50 }, 1, 4, 1, 2, RVL_FIT_STRETCH, { 71, 121 } },
	/* The centre of a wide picture and of a tall one. */
	{ { 9, 1, 2, 9, 9, 3, 4, 9 }, 4, 2, 2, 2, RVL_FIT_CROP, { 1, 2, 3, 4 } },
	{ { 9, 9, 1, 2, 3, 4, 9, 9 }, 2, 4, 2, 2, RVL_FIT_CROP, { 1, 2, 3, 4 } },
	/* Black above and below, left and right. */
	{ { 1, 2, 3, 4, 5, 6, 7, 8 }, 4, 2, 4, 4, RVL_FIT_PAD, { 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
								 0, 0, 0, 0 } },
	{ { 1, 2, 3, 4 }, 1, 4, 3, 4, RVL_FIT_PAD, { 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0 } },
};

START_TEST(resizes)
{
	struct rvl_image d = fit(sizes[_i].src, sizes[_i].w, sizes[_i].h, sizes[_i].tw,
				 sizes[_i].th, sizes[_i].how);

	for (uint32_t i = 0; i < d.w * d.h; i++)
		ck_assert_msg(d.data[i] == sizes[_i].want[i], "pixel %u is %u, not %u", i,
			      d.data[i], sizes[_i].want[i]);
	free(d.data);
}
END_TEST

/*
 * Proves that the weights of every pixel sum to one: a uniform picture stays uniform at any size.
 */
START_TEST(keeps_brightness)
{
	uint8_t data[37 * 23];
	struct rvl_image src = { .w = 37, .h = 23, .channels = 1, .data = data }, d;

	memset(data, 77, sizeof(data));
	for (uint32_t w = 1; w < 90; w += 7)
		for (uint32_t h = 1; h < 90; h += 11)
			for (int how = RVL_FIT_CROP; how <= RVL_FIT_STRETCH; how += 2) {
				ck_assert_int_eq(rvl_image_fit(&src, w, h, how, &d), 0);
				for (uint32_t i = 0; i < w * h; i++)
					ck_assert_uint_eq(d.data[i], 77);
				free(d.data);
			}
	ck_assert_int_eq(rvl_image_fit(&src, 36, 23, RVL_FIT_NONE, &d), -EINVAL);
}
END_TEST

/* ---- values that reach the input ---- */

#define F32 1

/* Writes the model @name, whose output is its input of these dimensions, flattened before @axis. */
static void flatten_model(const char *name, const int64_t *dims, int64_t axis)
{
	struct pb node = pb_node("Flatten", "x", "y"), graph = { .p = NULL },
		out_info = { .p = NULL }, model;
	struct pb in = pb_value("x", F32, dims);

	pb_attr_int(&node, "axis", axis);
	pb_msg(&graph, 1, &node);
	pb_str(&graph, 2, "g");
	pb_msg(&graph, 11, &in);
	pb_str(&out_info, 1, "y");
	pb_msg(&graph, 12, &out_info);
	model = pb_model(&graph, 8, 13);
	snprintf(words, sizeof(words), "%s/%s.onnx", dir, name);
	write_file(words, model.p, model.n);
	free(model.p);
}

/* A model of one row. */
static void echo_model(int64_t a, int64_t b, int64_t c)
{
	flatten_model("echo", (const int64_t[]){ 1, a, b, c, -1 }, 1);
}

/* A model whose input of shape [1, 3, 2, 2] is seen as rows. */
static void matrix_model(void)
{
	flatten_model("matrix", (const int64_t[]){ 1, 3, 2, 2, -1 }, 3);
}

/* Returns the input, which the model wrote to y.npy. */
static const float *echoed(uint64_t n)
{
	static float values[64];
	struct rvl_array a;

	snprintf(words, sizeof(words), "%s/o/y.npy", dir);
	ck_assert_int_eq(rvl_array_read(words, &a), 0);
	ck_assert(a.dtype == RIVULET_F32 && a.size == n * 4);
	memcpy(values, a.data, a.size);
	rvl_array_clear(&a);
	return values;
}

static void colour_picture(void)
{
	static const uint8_t rgb[12] = { 0, 51, 102, 153, 204, 255, 10, 20, 30, 40, 50, 60 };
	png_image png = { .version = PNG_IMAGE_VERSION, .width = 2, .height = 2,
			  .format = PNG_FORMAT_RGB };

	snprintf(words, sizeof(words), "%s/c.png", dir);
	ck_assert(png_image_write_to_file(&png, words, 0, rgb, 0, NULL));
}

/* Proves mean, standard deviation and both layouts by their values. */
START_TEST(normalises)
{
	static const uint8_t rgb[12] = { 0, 51, 102, 153, 204, 255, 10, 20, 30, 40, 50, 60 };
	static const float mean[3] = { 0.485f, 0.456f, 0.406f }, std[3] = { 0.229f, 0.224f,
									    0.225f };
	const float *v;

	colour_picture();
	for (int nhwc = 0; nhwc < 2; nhwc++) {
		echo_model(nhwc ? 2 : 3, 2, nhwc ? 3 : 2);
		ck_assert_int_eq(in_dir("run %s/echo.onnx --image %s/c.png --output %s/o --mean "
					"0.485,0.456,0.406 "
					"--std 0.229,0.224,0.225" SIM), 0);
		v = echoed(12);
		for (int i = 0; i < 12; i++) {
			int c = i % 3, at = nhwc ? i : c * 4 + i / 3;
			float want = ((float)rgb[i] / 255.0f - mean[c]) / std[c];

			ck_assert_msg(!memcmp(&v[at], &want, 4), "sample %d is %g, not %g", i,
				      (double)v[at], (double)want);
		}
	}
	/* A shape that fits both layouts is nchw, unless the option says nhwc. */
	echo_model(3, 2, 3);
	ck_assert_int_eq(in_dir("run %s/echo.onnx --image %s/c.png --resize none" SIM),
			 RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "2 x 2 pixels, the model takes 3 x 2"));
	ck_assert_int_eq(in_dir("run %s/echo.onnx --image %s/c.png --resize none --layout nhwc"
				SIM),
			 RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "the model takes 2 x 3"));
	echo_model(3, 2, 2);
	ck_assert_int_eq(in_dir("run %s/echo.onnx --image %s/c.png --output %s/o --mean 0.5 --std "
				"0.25" SIM), 0);
	ck_assert_double_eq((double)echoed(12)[0], -2);
}
END_TEST

/* ---- classes ---- */

/* Writes the first picture of the set, an ankle boot, twice as large and 28 pixels wider. */
static void large_boot(void)
{
	png_image png = { .version = PNG_IMAGE_VERSION, .width = 84, .height = 56,
			  .format = PNG_FORMAT_GRAY };
	uint8_t *data = calloc(84, 56);
	struct rvl_array set;

	ck_assert_int_eq(rvl_idx_read(SET "images-idx3-ubyte.gz", 3, &set), 0);
	for (int i = 0; i < 56 * 56; i++)
		data[i / 56 * 84 + 14 + i % 56] =
			((uint8_t *)set.data)[i / 56 / 2 * 28 + i % 56 / 2];
	snprintf(words, sizeof(words), "%s/boot.png", dir);
	ck_assert(png_image_write_to_file(&png, words, 0, data, 0, NULL));
	rvl_array_clear(&set);
	free(data);
}

static double number(struct json_object *o, const char *key)
{
	ck_assert_msg(rvl_json_member(o, key) != NULL, "no member %s in %.500s", key, out);
	return json_object_get_double(rvl_json_member(o, key));
}

/* Proves that JSON has class, name and confidence of each picture, and the top classes in order. */
START_TEST(json_classes)
{
	struct json_object *o, *p, *top;
	double last = 1, sum = 0;
	char name[64];

	large_boot();
	ck_assert_int_eq(in_dir("run models/lenet.onnx --image %s/boot.png --labels "
				"tool/fashion-mnist.names "
				"--top 3 --json" SIM), 0);
	o = rvl_json_parse(out);
	ck_assert_msg(o != NULL, "%.500s", out);
	p = rvl_json_item(rvl_json_member(o, "pictures"), 0);
	ck_assert_double_eq(number(p, "class"), 9);
	ck_assert_str_eq(rvl_json_text(p, "name", name, sizeof(name)), "Ankle boot");
	ck_assert_str_eq(rvl_json_text(p, "resized", name, sizeof(name)), "crop");
	ck_assert_double_eq(number(p, "width"), 84);
	top = rvl_json_member(p, "top");
	ck_assert_double_eq(number(rvl_json_item(top, 0), "confidence"), number(p, "confidence"));
	for (int k = 0; k < 3; k++) {
		double c = number(rvl_json_item(top, (size_t)k), "confidence");

		ck_assert(c > 0 && c <= last);
		last = c;
		sum += c;
	}
	ck_assert(sum > 0.5 && sum <= 1 + 1e-9);
	ck_assert_ptr_null(rvl_json_item(top, 3));
	json_object_put(o);
}
END_TEST

START_TEST(text_classes)
{
	large_boot();
	ck_assert_int_eq(in_dir("run models/lenet.onnx --image %s/boot.png --names "
				"tool/fashion-mnist.names "
				"--top 2" SIM), 0);
	SAYS("boot.png: Ankle boot, ");
	SAYS("(84 x 56 pixels, resized by crop)");
	SAYS("\n   2. ");
	ck_assert_int_eq(in_dir("run models/lenet.onnx --image %s/boot.png --resize none" SIM),
			 RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "84 x 56 pixels, the model takes 28 x 28"));
	/* The top-3 accuracy is at least the top-1 accuracy. */
	ck_assert_int_eq(verb("run models/lenet.onnx --images " SET "images-idx3-ubyte.gz "
								    "--labels " SET
			      "labels-idx1-ubyte.gz --count 60 --top 3 --json" SIM), 0);
	{
		struct json_object *o = rvl_json_parse(out), *p = rvl_json_member(o, "pictures");
		double right = 0, right3 = 0;

		for (size_t i = 0; i < 60; i++) {
			struct json_object *a = rvl_json_item(p, i),
				*top = rvl_json_member(a, "top");

			ck_assert_double_eq(number(a, "index"), (double)i);
			right += number(a, "class") == number(a, "label");
			for (size_t k = 0; k < 3; k++)
				right3 += number(rvl_json_item(top, k), "class") == number(a,
											   "label");
		}
		ck_assert_double_eq_tol(number(o, "accuracy"), right / 60, 1e-6);
		ck_assert_double_eq_tol(number(o, "top_accuracy"), right3 / 60, 1e-6);
		ck_assert(right3 >= right && right > 45);
		json_object_put(o);
	}
}
END_TEST

/* Proves that a run with random input prints its seed and is reproducible with it. */
START_TEST(random_input)
{
	float first[12];
	const float *v;

	echo_model(3, 2, 2);
	ck_assert_int_eq(in_dir("run %s/echo.onnx --output %s/o" SIM), 0);
	SAYS("random input, seed 1");
	SAYS("output y, float32 1x12:");
	memcpy(first, echoed(12), sizeof(first));
	for (int i = 0; i < 12; i++)
		ck_assert(first[i] >= 0 && first[i] < 1 && (!i || first[i] != first[i - 1]));
	ck_assert_int_eq(in_dir("run %s/echo.onnx --seed 1 --output %s/o --json" SIM), 0);
	SAYS("\"seed\":1,");
	ck_assert_mem_eq(first, echoed(12), sizeof(first));
	ck_assert_int_eq(in_dir("run %s/echo.onnx --seed 2 --output %s/o" SIM), 0);
	SAYS("random input, seed 2");
	v = echoed(12);
	ck_assert_int_ne(memcmp(first, v, sizeof(first)), 0);
}
END_TEST

/* Writes a model whose output "y" is its input "x", of this ONNX type and of 4 x 4 x 4 elements. */
static void cube_model(int type)
{
	static const int64_t cube[] = { 1, 4, 4, 4, -1 }, row[] = { 1, 64, -1 };
	struct pb node = pb_node("Flatten", "x", "y"), graph = { .p = NULL }, model;
	struct pb in = pb_value("x", type, cube), result = pb_value("y", type, row);

	pb_msg(&graph, 1, &node);
	pb_str(&graph, 2, "g");
	pb_msg(&graph, 11, &in);
	pb_msg(&graph, 12, &result);
	model = pb_model(&graph, 8, 13);
	snprintf(words, sizeof(words), "%s/cube.onnx", dir);
	write_file(words, model.p, model.n);
	free(model.p);
}

/* The generator of random input: xorshift64* from a seed that a multiplication spread. */
static uint64_t draw(uint64_t *x)
{
	*x ^= *x >> 12;
	*x ^= *x << 25;
	*x ^= *x >> 27;
	return *x * 2685821657736338717ull;
}

/* Proves every element of random inputs of each type: an input's last element is as random as its first. */
START_TEST(random_types)
{
	static const struct { int onnx; enum rivulet_dtype type; } types[] = {
		{ 1, RIVULET_F32 }, { 2, RIVULET_U8 }, { 3, RIVULET_S8 }, { 9, RIVULET_BOOL } };
	struct rvl_array a;

	for (size_t i = 0; i < 4; i++) {
		uint64_t state = (7 + 1) * 0x9e3779b97f4a7c15ull;

		cube_model(types[i].onnx);
		ck_assert_int_eq(in_dir("run %s/cube.onnx --seed 7 --output %s/o" SIM), 0);
		snprintf(words, sizeof(words), "%s/o/y.npy", dir);
		ck_assert_int_eq(rvl_array_read(words, &a), 0);
		ck_assert(a.dtype == types[i].type && a.ndim == 2 && a.dim[1] == 64);
		for (int k = 0; k < 64; k++) {
			uint64_t r = draw(&state);

			if (types[i].type == RIVULET_F32)
				ck_assert_float_eq(((float *)a.data)[k], (float)(r >> 40) / 16777216.0f);
			else
				ck_assert_uint_eq(((uint8_t *)a.data)[k], types[i].type == RIVULET_BOOL ? r >> 63 : r >> 56);
		}
		rvl_array_clear(&a);
	}
}
END_TEST

/* ---- classes and reference of a run on tensors ---- */

/* Writes an .npy file of these floats, of shape [1, 3, 2, 2] for the echo model or [1, 12] for its output. */
static void write_floats(const char *name, bool output, const float *values)
{
	struct rvl_array a = { .ndim = output ? 2 : 4, .dim = { 1, output ? 12 : 3, 2, 2 }, .size = 48,
			       .dtype = RIVULET_F32, .data = (void *)values };

	snprintf(words, sizeof(words), "%s/%s.npy", dir, name);
	ck_assert_int_eq(rvl_npy_write(words, &a), 0);
}

/* Proves SNR and classes beside those of a reference, on an output whose values are the input's. */
START_TEST(reference)
{
	static const float got[12] = { 0, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0 },
		want[12] = { 0, 0, 0, 0, 4, 0, 0, 0, 4.5f, 0, 0, 0 };
	double mean = 8.5 / 12, power = 16 + 4.5 * 4.5 - 12 * mean * mean;
	struct json_object *o, *p;

	echo_model(3, 2, 2);
	write_floats("x", false, got);
	write_floats("y", true, want);
	ck_assert_int_eq(in_dir("run %s/echo.onnx --input x=%s/x.npy --top 2 --reference %s --json" SIM), 0);
	o = rvl_json_parse(out);
	ck_assert_double_eq_tol(number(o, "snr_db"), 10 * log10(power / (1.5 * 1.5)), 1e-4);
	p = rvl_json_item(rvl_json_member(o, "pictures"), 0);
	ck_assert_double_eq(number(p, "class"), 4);
	ck_assert_double_eq_tol(number(p, "confidence"), exp(4) / (exp(4) + exp(3) + 10), 1e-6);
	ck_assert_double_eq(number(rvl_json_item(rvl_json_member(p, "top"), 1), "class"), 8);
	ck_assert_double_eq(number(rvl_json_member(p, "reference"), "class"), 8);
	ck_assert_ptr_null(rvl_json_member(p, "width"));
	json_object_put(o);

	ck_assert_int_eq(in_dir("run %s/echo.onnx --input x=%s/x.npy --names tool/fashion-mnist.names "
				"--reference %s --figures t" SIM), 0);
	SAYS("x.npy: Coat, ");
	SAYS("(reference: Bag, ");
	snprintf(words, sizeof(words), "%s t.snr %.9g dB", "figure", 10 * log10(power / (1.5 * 1.5)));
	ck_assert_msg(strstr(out, words) != NULL, "no %s in %s", words, out);
	/* Equal values have no noise. */
	write_floats("y", true, got);
	ck_assert_int_eq(in_dir("run %s/echo.onnx --input x=%s/x.npy --reference %s" SIM), 0);
	SAYS("reference         exact  SNR of the worst output");
}
END_TEST

/* Proves that a reference of another shape, and an output that is no list of scores, are refused. */
START_TEST(reference_refused)
{
	static const float values[12] = { 1 };

	echo_model(3, 2, 2);
	write_floats("x", false, values);
	write_floats("y", false, values);
	ck_assert_int_eq(in_dir("run %s/echo.onnx --input x=%s/x.npy --reference %s" SIM), RVL_EXIT_REFUSED);
	ck_assert_msg(strstr(rvl_tool_error, "float32 1x3x2x2, output y is float32 1x12"), "%s",
		      rvl_tool_error);
	ck_assert_int_ne(in_dir("run %s/echo.onnx --input x=%s/x.npy --reference %s/none" SIM), 0);
	matrix_model();
	ck_assert_int_eq(in_dir("run %s/matrix.onnx --input x=%s/x.npy --top 1" SIM), RVL_EXIT_REFUSED);
	ck_assert_msg(strstr(rvl_tool_error, "no single list of scores"), "%s", rvl_tool_error);
}
END_TEST

static const struct { const char *words, *says; } mistakes[] = {
	{ "--image x --seed 3", "--seed is for random input" },
	{ "--labels x", "need --image or --images" },
	{ "--top 3", "need --image, --images or --input" },
	{ "--names x", "need --image, --images or --input" },
	{ "--reference x", "--reference needs --input" },
	{ "--image x --reference x", "--reference needs --input" },
	{ "--image x --top 0", "--top is at least 1" },
	{ "--image x --resize fill", "crop, pad, stretch or none" },
	{ "--image x --layout chw", "nchw or nhwc" },
	{ "--image x --mean 1,2", "one number, or three" },
	{ "--image x --mean 1,2,3,4", "one number, or three" },
	{ "--image x --mean nan", "one number, or three" },
	{ "--image x --std 0", "each is above 0" },
	{ "--image x --std 0.2,", "one number, or three" },
	{ "--image x --layout nhwc", "pictures need [1, C, H, W]" },
};

START_TEST(refuses)
{
	snprintf(words, sizeof(words), "run models/lenet.onnx %s" SIM, mistakes[_i].words);
	EXPECT(words, RVL_EXIT_USAGE);
	ck_assert_msg(strstr(rvl_tool_error, mistakes[_i].says) != NULL, "%s: %s", words,
		      rvl_tool_error);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("picture");
	TCase *t = tcase_create("picture");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, resizes, 0, (int)(sizeof(sizes) / sizeof(sizes[0])));
	tcase_add_test(t, keeps_brightness);
	tcase_add_test(t, normalises);
	tcase_add_test(t, json_classes);
	tcase_add_test(t, text_classes);
	tcase_add_test(t, random_input);
	tcase_add_test(t, random_types);
	tcase_add_test(t, reference);
	tcase_add_test(t, reference_refused);
	tcase_add_loop_test(t, refuses, 0, (int)(sizeof(mistakes) / sizeof(mistakes[0])));
	suite_add_tcase(s, t);
	return run_suite(s);
}
