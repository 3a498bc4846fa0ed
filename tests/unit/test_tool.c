// SPDX-License-Identifier: MIT
/*
 * The `rivulet` command: its readers of untrusted files, its output, and its verbs on the linked
 * model.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <json-c/json.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../tool/data/image.h"
#include "../../tool/device/engine.h"
#include "../../tool/device/sysfs.h"
#include "../../tool/json.h"
#include "../../tool/output.h"
#include "files.h"
#include "suite.h"
#include "verb.h"

#define DATA "/usr/share/datasets/fashion-mnist/"
#define NODES "/usr/share/libonnx-testdata/data/node"

static char dir[64];

static void setup(void)
{
	make_scratch(dir);
}

static void teardown(void)
{
	remove_scratch(dir);
}

static const char *in_dir(const char *name)
{
	return path_in(dir, name);
}

/* ---- files ---- */

START_TEST(npy)
{
	float data[6] = { 1, 2, 3, 4, 5, -6.5f };
	struct rvl_array a = { .dtype = RIVULET_F32, .ndim = 2, .dim = { 2, 3 }, .size = 24,
			       .data = data };
	struct rvl_array b, scalar = { .dtype = RIVULET_S64, .size = 8, .data = &(int64_t){ -9 } };
	struct rvl_blob f;
	char why[160];

	ck_assert_int_eq(rvl_npy_write(in_dir("a.npy"), &a), 0);
	ck_assert_int_eq(rvl_array_read(in_dir("a.npy"), &b), 0);
	ck_assert(b.dtype == a.dtype && b.ndim == 2 && b.dim[1] == 3 && !memcmp(b.data, data, 24));
	rvl_array_clear(&b);
	ck_assert_int_eq(rvl_npy_write(in_dir("s.npy"), &scalar), 0);
	ck_assert_int_eq(rvl_array_read(in_dir("s.npy"), &b), 0);
	ck_assert(b.ndim == 0 && *(int64_t *)b.data == -9);
	rvl_array_clear(&b);
	/* Every truncation is refused. */
	ck_assert_int_eq(rvl_read_file(in_dir("a.npy"), 1 << 20, &f), 0);
	ck_assert_uint_eq(f.size % 8, 0);
	for (size_t n = 0; n < f.size; n++)
		ck_assert_int_lt(rvl_npy_parse(f.data, n, &b, why), 0);
	rvl_blob_clear(&f);
}
END_TEST

static const struct { const char *dict; int want; } dicts[] = {
	{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 0 },
	{ "{'shape': (1, 1), 'descr': \"<f4\", 'fortran_order': False}", 0 },
	{ "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 0 },
	{ "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", -EOPNOTSUPP },
	{ "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", -EOPNOTSUPP },
	{ "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", -EOPNOTSUPP },
	{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", -EINVAL },
	{ "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
	  -EOVERFLOW },
	{ "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", -EINVAL },
	{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", -EINVAL },
	{ "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", -EINVAL },
	{ "{'descr': '<f4', 'fortran_order': False, }", -EINVAL },
	{ "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", -EINVAL },
	{ "{'descr': '<f4', 'fortran_order': None, 'shape': (1,), }", -EINVAL },
	{ "{'descr': '<f4', 'evil': 1, 'fortran_order': False, 'shape': (1,), }", -EINVAL },
	{ "{'descr': '<f4'", -EINVAL },
	{ "", -EINVAL },
};

START_TEST(npy_header)
{
	uint8_t file[300] = "\x93NUMPY\x01\x00";
	struct rvl_array a = { 0 };
	size_t n = strlen(dicts[_i].dict);
	char why[160];
	int r;

	file[8] = (uint8_t)n;
	memcpy(file + 10, dicts[_i].dict, n);
	r = rvl_npy_parse(file, 10 + n + 4, &a, why);
	ck_assert_msg(r == dicts[_i].want, "%s: %d, %s", dicts[_i].dict, r, why);
	rvl_array_clear(&a);
}
END_TEST

static bool read_pb(const char *path)
{
	struct rvl_array a = { 0 };
	struct rvl_blob b;
	char why[160];
	int r;

	ck_assert_int_eq(rvl_read_file(path, 1 << 26, &b), 0);
	r = rvl_pb_parse(b.data, b.size, &a, why);
	ck_assert_msg(r == 0 || r == -EOPNOTSUPP || strstr(path, "sequence") ||
		      strstr(path, "optional"), "%s: %d %s", path, r, why);
	/*
	 * A truncated file gives an error, or a smaller consistent message if it was cut between
	 * fields.
	 */
	for (size_t n = 0; n < b.size && n < 64; n++) {
		struct rvl_array cut = { 0 };

		if (!rvl_pb_parse(b.data, n, &cut, why))
			rvl_array_clear(&cut);
	}
	rvl_array_clear(&a);
	rvl_blob_clear(&b);
	return !r;
}

/* Proves that the tensors of the ONNX node tests can be read. */
START_TEST(onnx_tensors)
{
	DIR *d = opendir(NODES);
	struct dirent *e;
	int read = 0;

	ck_assert_msg(d != NULL, NODES);
	while ((e = readdir(d))) {
		char path[600];

		snprintf(path, sizeof(path), NODES "/%s/test_data_set_0/input_0.pb", e->d_name);
		if ((strstr(e->d_name, "conv") || strstr(e->d_name, "pool") ||
		     strstr(e->d_name, "add") ||
		     strstr(e->d_name, "quantize")) && !access(path, R_OK))
			read += read_pb(path);
	}
	closedir(d);
	ck_assert_int_gt(read, 60);
}
END_TEST

static const struct { const char *name, *bytes; size_t size; int want; } tensors[] = {
	{ "floats packed", "\x08\x02\x10\x01\x22\x08\0\0\x80\x3f\0\0\0\x40", 14, 0 },
	{ "int32 unpacked", "\x08\x02\x10\x06\x28\x05\x28\x06", 8, 0 },
	{ "int64 packed", "\x08\x02\x10\x07\x3a\x02\x05\x06", 8, 0 },
	{ "uint8 in int32_data", "\x08\x01\x10\x02\x2a\x02\xff\x01", 8, 0 },
	{ "raw too short", "\x08\x02\x10\x01\x4a\x04\0\0\0\0", 10, -EINVAL },
	{ "too many values", "\x08\x01\x10\x06\x28\x05\x28\x06", 8, -EINVAL },
	{ "no values", "\x08\x01\x10\x06", 4, -EINVAL },
	{ "complex64", "\x08\x01\x10\x0e", 4, -EOPNOTSUPP },
	{ "no type", "\x08\x01", 2, -EOPNOTSUPP },
	{ "huge shape", "\x08\xff\xff\xff\xff\x07\x08\xff\xff\xff\xff\x07\x10\x01\x4a\x00", 16,
	  -EOVERFLOW },
	{ "negative dimension", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01\x4a\x00", 15,
	  -EINVAL },
	{ "nine dimensions",
	  "\x08\1\x08\1\x08\1\x08\1\x08\1\x08\1\x08\1\x08\1\x08\1\x10\x01\x4a\x00", 22,
	  -EINVAL },
	{ "length beyond the end", "\x08\x01\x10\x01\x4a\x7f\0\0", 8, -EINVAL },
	{ "endless varint", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 13, -EINVAL },
	{ "external data", "\x08\x01\x10\x02\x4a\x01\x01\x70\x01", 9, -EINVAL },
	{ "field 0", "\x00\x00", 2, -EINVAL },
};

START_TEST(onnx_tensor)
{
	struct rvl_array a = { 0 };
	char why[160];
	/* A copy of exact size, so that the sanitizer sees a read beyond it. */
	uint8_t *p = malloc(tensors[_i].size);
	int r;

	memcpy(p, tensors[_i].bytes, tensors[_i].size);
	r = rvl_pb_parse(p, tensors[_i].size, &a, why);
	ck_assert_msg(r == tensors[_i].want, "%s: %d, %s", tensors[_i].name, r, why);
	if (_i == 0)
		ck_assert(((float *)a.data)[1] == 2);
	if (_i == 3)
		ck_assert_uint_eq(*(uint8_t *)a.data, 255);
	free(p);
	rvl_array_clear(&a);
}
END_TEST

/* Proves that random changes of valid files do not crash a reader. */
START_TEST(random_changes)
{
	static const char npy_file[] = "\x93NUMPY\x01\x00\x36\x00"
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\0\0\0\0";
	static const char pgm[] = "P5 # c\n2 2\n255\nabcd";
	uint32_t seed = 99;

	for (int round = 0; round < 30000; round++) {
		const char *from = round % 3 == 0 ? npy_file : round % 3 == 1 ? tensors[0].bytes :
			pgm;
		size_t n = round % 3 == 0 ? sizeof(npy_file) - 1 : round % 3 == 1 ? 14 :
			sizeof(pgm) - 1;
		uint8_t *p = malloc(n);
		struct rvl_array a = { 0 };
		struct rvl_image img = { 0 };
		char why[160];

		memcpy(p, from, n);
		for (int k = 0; k < 1 + round % 4; k++) {
			seed = seed * 1664525 + 1013904223;
			p[(seed >> 8) % n] = (uint8_t)(seed >> 24);
		}
		if (round % 3 == 0)
			rvl_npy_parse(p, n, &a, why);
		else if (round % 3 == 1)
			rvl_pb_parse(p, n, &a, why);
		else
			rvl_pnm_parse(p, n, &img, why);
		rvl_array_clear(&a);
		free(img.data);
		free(p);
	}
}
END_TEST

START_TEST(pictures)
{
	png_image png = { .version = PNG_IMAGE_VERSION, .width = 2, .height = 1,
			  .format = PNG_FORMAT_RGB };
	uint8_t rgb[6] = { 10, 20, 30, 40, 50, 60 };
	struct rvl_image img;

	ck_assert(png_image_write_to_file(&png, in_dir("a.png"), 0, rgb, 0, NULL));
	ck_assert_int_eq(rvl_image_read(in_dir("a.png"), &img), 0);
	ck_assert(img.w == 2 && img.h == 1 && img.channels == 3 && !memcmp(img.data, rgb, 6));
	free(img.data);
	png.format = PNG_FORMAT_GRAY;
	ck_assert(png_image_write_to_file(&png, in_dir("g.png"), 0, rgb, 0, NULL));
	ck_assert_int_eq(rvl_image_read(in_dir("g.png"), &img), 0);
	ck_assert(img.channels == 1 && !memcmp(img.data, rgb, 2));
	free(img.data);
	write_file(in_dir("cut.png"), "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
	ck_assert_int_eq(rvl_image_read(in_dir("cut.png"), &img), RVL_EXIT_REFUSED);
	write_file(in_dir("a.pgm"), "P5\n# hello\n2 1\n255\nxy", 21);
	ck_assert_int_eq(rvl_image_read(in_dir("a.pgm"), &img), 0);
	ck_assert(img.w == 2 && img.data[1] == 'y');
	free(img.data);
	write_file(in_dir("b.pgm"), "P5 2 2 255 xy", 13);
	rvl_tool_error_clear();
	ck_assert_int_eq(rvl_image_read(in_dir("b.pgm"), &img), RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "cut off"));
	write_file(in_dir("c.pgm"), "P5 99999 2 255 xy", 17);
	ck_assert_int_eq(rvl_image_read(in_dir("c.pgm"), &img), RVL_EXIT_REFUSED);
}
END_TEST

START_TEST(idx)
{
	struct rvl_array a;

	ck_assert_int_eq(rvl_idx_read(DATA "t10k-images-idx3-ubyte.gz", 3, &a), 0);
	ck_assert(a.dim[0] == 10000 && a.dim[1] == 28 && a.dim[2] == 28 && a.size == 7840000);
	rvl_array_clear(&a);
	ck_assert_int_eq(rvl_idx_read(DATA "t10k-images-idx3-ubyte.gz", 1, &a), RVL_EXIT_REFUSED);
	write_file(in_dir("i"), "\0\0\x08\x01\0\0\0\x03" "abc", 11);
	ck_assert_int_eq(rvl_idx_read(in_dir("i"), 1, &a), 0);
	ck_assert(a.size == 3 && ((char *)a.data)[2] == 'c');
	rvl_array_clear(&a);
	write_file(in_dir("j"), "\0\0\x08\x01\0\0\0\x04" "abc", 11);
	ck_assert_int_eq(rvl_idx_read(in_dir("j"), 1, &a), RVL_EXIT_REFUSED);
	write_file(in_dir("k"), "\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
	ck_assert_int_eq(rvl_idx_read(in_dir("k"), 3, &a), RVL_EXIT_REFUSED);
	write_file(in_dir("l"), "\0\0\x0d\x01\0\0\0\0", 8);
	ck_assert_int_eq(rvl_idx_read(in_dir("l"), 1, &a), RVL_EXIT_REFUSED);
}
END_TEST

START_TEST(records)
{
	static const char good[] = "RVEX\1\0\0\0\2\0\0\0\3\0\0\0abcdef";
	struct rvl_expect x;

	write_file(in_dir("x"), good, 22);
	ck_assert_int_eq(rvl_expect_read(in_dir("x"), &x), 0);
	ck_assert(x.images == 2 && x.classes == 3 && !x.is_signed && x.q[5] == 'f');
	rvl_blob_clear(&x.blob);
	write_file(in_dir("y"), good, 21);
	ck_assert_int_eq(rvl_expect_read(in_dir("y"), &x), RVL_EXIT_REFUSED);
	write_file(in_dir("z"), "RVEX\1\0\0\0\xff\xff\xff\xff\xff\xff\0\0", 16);
	ck_assert_int_eq(rvl_expect_read(in_dir("z"), &x), RVL_EXIT_REFUSED);
	ck_assert_int_eq(rvl_expect_read("models/README", &x), RVL_EXIT_REFUSED);
}
END_TEST

/* Proves that requantising inverts DequantizeLinear for every byte and any scale. */
START_TEST(requantise)
{
	uint32_t seed = 4;

	for (int round = 0; round < 20000; round++) {
		struct rvl_quant_params q = { .is_signed = round & 1 };
		uint32_t bits;

		seed = seed * 1664525 + 1013904223;
		bits = 0x10000000 + (seed >> 2) % 0x60000000;	/* normal floats, small to large */
		memcpy(&q.scale, &bits, 4);
		q.zero_point = q.is_signed ? (int)(seed >> 24) - 128 : (int)(seed >> 24);
		for (int b = 0; b < 256; b++) {
			int v = q.is_signed ? (int8_t)b : b;
			float f = (float)(v - q.zero_point) * q.scale;

			if (isfinite(f) && rvl_requantise(f, &q) != (uint8_t)b)
				ck_abort_msg("scale %g zp %d byte %d", (double)q.scale,
					     q.zero_point, b);
		}
	}
	/* A value that no byte can represent must not cause undefined behaviour. */
	rvl_requantise(INFINITY, &(struct rvl_quant_params){ .scale = 1 });
	rvl_requantise(NAN, &(struct rvl_quant_params){ .scale = 1 });
}
END_TEST

/* ---- output ---- */

START_TEST(units)
{
	char b[128];

	ck_assert_str_eq(rvl_unit(b, 333333333, "Hz"), "333.3 MHz");
	ck_assert_str_eq(rvl_unit(b, 4.6224e-5, "s"), "46.22 us");
	ck_assert_str_eq(rvl_unit(b, 0, "s"), "0 s");
	ck_assert_str_eq(rvl_bytes(b, 1536), "1.5 KiB");
	ck_assert_str_eq(rvl_bytes(b, 12), "12 B");
	ck_assert_str_eq(rvl_shape_text(b, 3, (uint64_t[]){ 1, 2, 3 }), "1x2x3");
	ck_assert_str_eq(rvl_dtype_name(99), "?");
	ck_assert_uint_eq(rvl_dtype_size(RIVULET_S64), 8);
}
END_TEST

static void print_things(void)
{
	static const char *const heads[] = { "name", ">n" };
	struct rvl_table t;

	rvl_json_reset();
	rvl_json_begin("test");
	rvl_json_str("odd", "a\"b\\c\n\x01");
	rvl_json_str("text", "\xc3\xa9 \xff\xc0\x80 \xed\xa0\x80 \xe2\x82");
	rvl_json_num("nan", (double)NAN);
	rvl_json_open("list", '[');
	rvl_json_u64(NULL, 1);
	rvl_json_bool(NULL, false);
	rvl_json_close();
	rvl_json_end();
	rvl_table_init(&t, 2, heads);
	rvl_table_cell(&t, "longer");
	rvl_table_cell(&t, "%d", 12345);
	rvl_table_cell(&t, "x\xc3\xa9\x1b");
	rvl_table_cell(&t, "7");
	rvl_table_cell(&t, "\xc2\x9b" "2J\xff");
	rvl_table_cell(&t, "8");
	rvl_table_print(&t, 1);
}

/* Proves that names are escaped in JSON and on terminals, and that columns count characters. */
START_TEST(writers)
{
	struct capture c = capture_start(stdout, STDOUT_FILENO);
	struct json_object *o;
	char *table;

	print_things();
	capture_end(&c, out, sizeof(out));
	table = strchr(out, '\n') + 1;
	ck_assert_str_eq(table, " name        n\n longer  12345\n x\xc3\xa9?         7\n ??2J?    "
				"   8\n");
	*table = 0;
	o = rvl_json_parse(out);
	ck_assert_ptr_nonnull(o);
	json_object_put(o);
	SAYS("\"odd\":\"a\\\"b\\\\c\\u000a\\u0001\"");
	SAYS("\"text\":\"\xc3\xa9 \\ufffd\\ufffd\\ufffd \\ufffd\\ufffd\\ufffd \\ufffd\\ufffd\"");
	SAYS("\"nan\":null,\"list\":[1,false]");
}
END_TEST

START_TEST(picture)
{
	static const char plain[] = "  ▄▀\n  █░\n  Ba\n\n";
	static const uint8_t p[8] = { 0, 255, 128, 64, 255, 60, 200, 60 };
	const uint8_t *pixels[] = { p };
	const char *labels[] = { "Bag" };
	FILE *f = fopen(in_dir("pic"), "we");
	struct rvl_blob b;

	rvl_picture(f, 1, pixels, 2, 4, labels, false);
	fclose(f);
	rvl_read_file(in_dir("pic"), 1000, &b);
	ck_assert_uint_eq(b.size, strlen(plain));
	ck_assert_mem_eq(b.data, plain, strlen(plain));
	rvl_blob_clear(&b);
	setenv("COLORTERM", "truecolor", 1);
	f = fopen(in_dir("pic"), "we");
	rvl_picture(f, 1, pixels, 2, 4, labels, true);
	fclose(f);
	rvl_read_file(in_dir("pic"), 1000, &b);
	ck_assert_ptr_nonnull(memmem(b.data, b.size,
				     "\x1b[38;2;255;255;255m\x1b[48;2;64;64;64m\xe2\x96\x80", 37));
	rvl_blob_clear(&b);
}
END_TEST

/* ---- verbs ---- */

#define SET "--images " DATA "t10k-images-idx3-ubyte.gz --labels " DATA "t10k-labels-idx1-ubyte.gz "
#define SIM "--device sim:zu3eg-64 "

START_TEST(run_set)
{
	char words[600];
	struct rvl_array a;

	snprintf(words, sizeof(words), "run models/lenet.onnx " SIM SET "--expect "
									"models/lenet.expected "
		 "--count 6 --names tool/fashion-mnist.names --figures t --output %s/o", dir);
	EXPECT(words, 0);
	SAYS("6 of 6");
	SAYS("figure t.bitexact 6 images");
	SAYS("Ankle boot");
	SAYS("measured here");
	ck_assert_int_eq(rvl_array_read(in_dir("o/scores.npy"), &a), 0);
	ck_assert(a.ndim == 3 && a.dim[0] == 6 && a.dim[2] == 10);
	rvl_array_clear(&a);
	EXPECT("run models/resnet.onnx " SIM SET "--expect models/resnet.expected --first 990 "
	       "--count 10 --level 0 --json", 0);
	check_json("rivulet.run/2");
	SAYS("\"bitexact\":10");
	SAYS("\"seconds\":0.00148784");
}
END_TEST

/* Proves that one different byte sets the exit status and is reported with its picture. */
START_TEST(run_differs)
{
	struct rvl_blob b;
	uint8_t *bent;
	char words[600];

	ck_assert_int_eq(rvl_read_file("models/lenet.expected", 1 << 20, &b), 0);
	bent = malloc(b.size);
	ck_assert_ptr_nonnull(bent);
	memcpy(bent, b.data, b.size);
	bent[16 + 10 * 3 + 4] ^= 1;
	write_file(in_dir("bent"), bent, b.size);
	free(bent);
	rvl_blob_clear(&b);
	snprintf(words, sizeof(words), "run models/lenet.onnx " SIM SET "--count 6 --expect "
									"%s/bent", dir);
	EXPECT(words, RVL_EXIT_DIFFERENT);
	SAYS("5 of 6");
	SAYS("FIRST DIFFERENCE: picture 3");
}
END_TEST

START_TEST(run_tensors_and_pictures)
{
	struct rvl_array a = { .dtype = RIVULET_F32, .ndim = 4, .dim = { 1, 1, 28, 28 } };
	char words[700];
	png_image png = { .version = PNG_IMAGE_VERSION, .width = 28, .height = 28,
			  .format = PNG_FORMAT_GRAY };
	struct rvl_array set, one, two;

	ck_assert_int_eq(rvl_idx_read(DATA "t10k-images-idx3-ubyte.gz", 3, &set), 0);
	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	for (int i = 0; i < 784; i++)
		((float *)a.data)[i] = (float)((uint8_t *)set.data)[i] / 255.0f;
	rvl_npy_write(in_dir("in.npy"), &a);
	ck_assert(png_image_write_to_file(&png, in_dir("in.png"), 0, set.data, 0, NULL));
	snprintf(words, sizeof(words), "run models/lenet.onnx " SIM "--input image=%s/in.npy -o "
								    "%s/a", dir, dir);
	EXPECT(words, 0);
	snprintf(words, sizeof(words), "run models/lenet.onnx " SIM "--image %s/in.png -o %s/b "
		 "--labels tool/fashion-mnist.names", dir, dir);
	EXPECT(words, 0);
	SAYS("in.png: Ankle boot");
	ck_assert_int_eq(rvl_array_read(in_dir("a/scores.npy"), &one), 0);
	ck_assert_int_eq(rvl_array_read(in_dir("b/scores.npy"), &two), 0);
	ck_assert(one.size == 40 && two.size == 40 && !memcmp(one.data, two.data, 40));
	ck_assert(one.ndim == 2 && one.dim[0] == 1 && one.dim[1] == 10);
	/* The outputs of two pictures are stacked, in the order of the files. */
	ck_assert(png_image_write_to_file(&png, in_dir("second.png"), 0, (uint8_t *)set.data + 784, 0, NULL));
	snprintf(words, sizeof(words), "run models/lenet.onnx " SIM "--image %s/second.png --image %s/in.png -o %s/c",
		 dir, dir, dir);
	EXPECT(words, 0);
	SAYS(", 2 inferences\n");
	rvl_array_clear(&two);
	ck_assert_int_eq(rvl_array_read(in_dir("c/scores.npy"), &two), 0);
	ck_assert(two.ndim == 3 && two.dim[0] == 2 && two.dim[1] == 1 && two.dim[2] == 10);
	ck_assert(!memcmp((char *)two.data + 40, one.data, 40) && memcmp(two.data, one.data, 40));
	/* A wrong shape, a wrong name and a picture of another size are refused. */
	a.dim[2] = 784;
	a.dim[3] = 1;
	rvl_npy_write(in_dir("bad.npy"), &a);
	snprintf(words, sizeof(words), "run models/lenet.onnx " SIM "--input image=%s/bad.npy",
		 dir);
	EXPECT(words, RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "1x1x784x1"));
	snprintf(words, sizeof(words), "run models/lenet.onnx " SIM "--input pic=%s/in.npy", dir);
	EXPECT(words, RVL_EXIT_USAGE);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "\"image\""));
	write_file(in_dir("s.pgm"), "P5 2 2 255 abcd", 15);
	snprintf(words, sizeof(words), "run models/lenet.onnx " SIM "--resize none --image "
								    "%s/s.pgm", dir);
	EXPECT(words, RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "28 x 28"));
	rvl_array_clear(&a);
	rvl_array_clear(&set);
	rvl_array_clear(&one);
	rvl_array_clear(&two);
}
END_TEST

static const struct { const char *words; int code; const char *says; } wrong[] = {
	{ "run", RVL_EXIT_USAGE, "one model" },
	{ "run a b", RVL_EXIT_USAGE, "one model" },
	{ "run models/lenet.onnx --image a --images b", RVL_EXIT_USAGE, "give one of" },
	{ "run models/lenet.onnx --frob", RVL_EXIT_USAGE, "--frob" },
	{ "run models/lenet.onnx --count", RVL_EXIT_USAGE, "--count needs N" },
	{ "run models/lenet.onnx --count 0 --images x", RVL_EXIT_USAGE, "at least 1" },
	{ "run models/lenet.onnx --deadline 0 --images x", RVL_EXIT_USAGE, "at least 1" },
	{ "run models/lenet.onnx --count -1 --images x", RVL_EXIT_USAGE, "no whole number" },
	{ "run models/lenet.onnx --count 9x --images x", RVL_EXIT_USAGE, "no whole number" },
	{ "run models/lenet.onnx --require-npu=1", RVL_EXIT_USAGE, "no value" },
	{ "run models/lenet.onnx --priority urgent --image x", RVL_EXIT_USAGE, "--priority" },
	{ "run models/lenet.onnx --device tpu --image x", RVL_EXIT_USAGE, "tpu" },
	{ "run models/lenet.onnx --device sim:z80 --image x", RVL_EXIT_REFUSED, "zu3eg-64" },
	{ "run models/lenet.onnx " SIM "--level 9 --image x", RVL_EXIT_USAGE, "0 to 3" },
	{ "run models/lenet.onnx --device /dev/null --image x", RVL_EXIT_ABSENT, "/dev/null" },
	{ "run models/lenet.onnx --device /dev/accel/accel63 --image x", RVL_EXIT_ABSENT, "accel63" },
	{ "run models/lenet.onnx --device daemon --image x", RVL_EXIT_ABSENT, "no daemon" },
	{ "run models/README " SIM "--image x", RVL_EXIT_REFUSED, "models/README" },
	{ "run /nonexistent " SIM "--image x", RVL_EXIT_REFUSED, "/nonexistent" },
	{ "run models " SIM "--image x", RVL_EXIT_REFUSED, "regular" },
	{ "run models/lenet.onnx " SIM "--input image=/nonexistent", RVL_EXIT_REFUSED, "/nonexistent" },
	{ "run models/lenet.onnx " SIM "--require-npu --image x", RVL_EXIT_REFUSED, "Quantize" },
	{ "run models/lenet.onnx " SIM SET "--first 10000", RVL_EXIT_USAGE, "10000 pictures" },
	{ "run models/lenet.onnx " SIM SET "--expect models/lenet.expected", RVL_EXIT_USAGE,
	  "--count 1000" },
	{ "compile models/lenet.onnx -o /nonexistent/x", RVL_EXIT_FAILED, "/nonexistent/x" },
	{ "compile models/lenet.onnx --freeze image", RVL_EXIT_USAGE, "NAME=FILE" },
	{ "compile models/lenet.onnx --shape image", RVL_EXIT_USAGE, "NAME=D0,D1,..." },
	{ "compile models/lenet.onnx --shape image=1,,2", RVL_EXIT_USAGE, "NAME=D0,D1,..." },
	{ "compile models/lenet.onnx --shape image=1,2,", RVL_EXIT_USAGE, "NAME=D0,D1,..." },
	{ "compile models/lenet.onnx --shape image=-1", RVL_EXIT_USAGE, "NAME=D0,D1,..." },
	{ "compile models/lenet.onnx --shape image=1,1,1,1,1,1,1,1,1", RVL_EXIT_USAGE, "D0,D1" },
	{ "compile models/lenet.onnx --shape =1", RVL_EXIT_USAGE, "NAME=D0,D1,..." },
	{ "explain models/lenet.onnx --symbol N=x", RVL_EXIT_USAGE, "N or NAME=N" },
	{ "explain models/lenet.onnx --symbol =4", RVL_EXIT_USAGE, "N or NAME=N" },
	{ "explain models/lenet.onnx --symbol 99999999999", RVL_EXIT_USAGE, "N or NAME=N" },
	{ "explain models/lenet.onnx --symbol 0", RVL_EXIT_USAGE, "N or NAME=N with N from 1" },
	{ "explain models/lenet.onnx --batch 0", RVL_EXIT_USAGE, "--batch" },
	{ "explain models/lenet.onnx --symbol Batch=4", RVL_EXIT_REFUSED, "has a dimension 'Batch'" },
	{ "explain models/lenet.onnx --shape nothing=4", RVL_EXIT_REFUSED, "no input 'nothing'" },
	{ "compile models/lenet.onnx --board z80", RVL_EXIT_REFUSED, "z80" },
	{ "explain models/README", RVL_EXIT_REFUSED, "models/README" },
	{ "disasm models/lenet.onnx", RVL_EXIT_REFUSED, "models/lenet.onnx" },
	{ "bench models/lenet.onnx --runs 0 " SIM, RVL_EXIT_USAGE, "--runs" },
	{ "bench models/lenet.onnx --counters " SIM, RVL_EXIT_USAGE, "--device /dev/accel" },
	{ "bench models/lenet.onnx --depth 65 " SIM, RVL_EXIT_USAGE, "--depth" },
	{ "info a b", RVL_EXIT_USAGE, "one model" },
	{ "info a --cpu", RVL_EXIT_USAGE, "or --cpu" },
	{ "info --cpu --device daemon", RVL_EXIT_USAGE, "or --cpu" },
	{ "info --device /dev/accel/accel63", RVL_EXIT_ABSENT, "accel63" },
	{ "info --device daemon", RVL_EXIT_ABSENT, "no daemon" },
	{ "doctor now", RVL_EXIT_USAGE, "no operand" },
};

START_TEST(mistakes)
{
	setenv(RIVULET_SOCKET_ENV, "/nonexistent/sock", 1);
	EXPECT(wrong[_i].words, wrong[_i].code);
	ck_assert_msg(strstr(rvl_tool_error, wrong[_i].says) != NULL, "%s: %s", wrong[_i].words,
		      rvl_tool_error);
	ck_assert_ptr_null(strchr(rvl_tool_error, '\n'));
}
END_TEST

START_TEST(compile_and_list)
{
	char words[400];

	snprintf(words, sizeof(words), "compile models/lenet.onnx -o %s/l.rvp", dir);
	EXPECT(words, 0);
	SAYS("1 NPU and 2 CPU steps");
	snprintf(words, sizeof(words), "compile models/lenet.onnx -o %s/l.rvp --json", dir);
	EXPECT(words, 0);
	check_json("rivulet.compile/1");
	snprintf(words, sizeof(words), "disasm %s/l.rvp", dir);
	EXPECT(words, 0);
	SAYS("conv c_kernel");
	SAYS("store sync kind=1");
	snprintf(words, sizeof(words), "disasm %s/l.rvp --json", dir);
	EXPECT(words, 0);
	check_json("rivulet.disasm/1");
	snprintf(words, sizeof(words), "info %s/l.rvp", dir);
	EXPECT(words, 0);
	SAYS("1x1x28x28");
	/* A compiled program runs like the model, but only on its board. */
	snprintf(words, sizeof(words), "run %s/l.rvp " SIM SET "--count 3 --expect "
							       "models/lenet.expected", dir);
	EXPECT(words, 0);
	snprintf(words, sizeof(words), "run %s/l.rvp --device sim:zu3eg-256 " SET "--count 3", dir);
	EXPECT(words, RVL_EXIT_REFUSED);
	snprintf(words, sizeof(words), "compile models/lenet.onnx -q --cpu-only -o %s/c.rvp", dir);
	EXPECT(words, 0);
	ck_assert_str_eq(out, "");
	snprintf(words, sizeof(words), "run %s/c.rvp --device sim:zu3eg-256 " SET "--count 3 "
		 "--expect models/lenet.expected", dir);
	EXPECT(words, 0);
}
END_TEST

START_TEST(other_verbs)
{
	EXPECT("explain models/lenet.onnx", 0);
	SAYS("float in");
	EXPECT("explain models/resnet.onnx --board zu3eg-256 --json", 0);
	check_json("rivulet.explain/1");
	EXPECT("explain " NODES "/test_tfidfvectorizer_tf_only_bigrams_skip0/model.onnx", RVL_EXIT_REFUSED);
	SAYS("none");
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "1 of 1 layers cannot run"));
	EXPECT("info models/lenet.onnx --json", 0);
	check_json("rivulet.model/1");
	SAYS("\"shape\":[1,1,28,28]");
	EXPECT("info --device sim:cyclonev-64", 0);
	SAYS("peak");
	EXPECT("info --device sim:cyclonev-64 --json", 0);
	SAYS("\"volt\":1.1,");
	check_json("rivulet.info/2");
	EXPECT("info --cpu", 0);
	SAYS("in use: ");
	EXPECT("info --cpu --json", 0);
	SAYS("\"name\":\"scalar\"");
	check_json("rivulet.cpu/1");
	EXPECT("bench models/lenet.onnx -n 20 --depth 3 --threads 2 --figures b " SIM, 0);
	SAYS("figure b.latency.p99");
	EXPECT("bench models/lenet.onnx -n 20 --depth 0 --json --device cpu", 0);
	SAYS("\"device\":\"CPU (");
	SAYS("\"throughput_runs\":0,");
	SAYS("\"processor_median_s\":");
	EXPECT("run models/lenet.onnx --device cpu " SET "--count 3 --expect models/lenet.expected", 0);
	EXPECT("bench models/lenet.onnx -n 20 --json " SIM, 0);
	check_json("rivulet.bench/1");
	EXPECT("run --help", 0);
	SAYS("--expect FILE");
}
END_TEST

/* Proves each remaining --json output, and that every failure is a JSON object. */
START_TEST(json_outputs)
{
	char words[600];

	EXPECT("run models/lenet.onnx --json " SIM, 0);
	check_json("rivulet.run/2");
	EXPECT("run models/lenet.onnx --json --top 2 --names tool/fashion-mnist.names --count 3 "
	       "--expect models/lenet.expected " SIM SET, 0);
	check_json("rivulet.run/2");
	EXPECT("eval models/mlp.onnx --json --count 50 --length 20 --data " DATA
	       "t10k-images-idx3-ubyte.gz --labels " DATA "t10k-labels-idx1-ubyte.gz", 0);
	check_json("rivulet.eval/1");
	snprintf(words, sizeof(words), "profile models/lenet.onnx --json -o %s/t.json " SIM, dir);
	EXPECT(words, 0);
	check_json("rivulet.profile/1");
	/* The error contains the name of a file that is not valid UTF-8. */
	EXPECT("run --json \xff\x1b[0m " SIM, RVL_EXIT_REFUSED);
	check_json("rivulet.error/1");
	EXPECT("run --json \xc2\x9b" "2J " SIM, RVL_EXIT_REFUSED);
	check_json("rivulet.error/1");
	SAYS("??2J");
	EXPECT("bench --frob --json", RVL_EXIT_USAGE);
	check_json("rivulet.error/1");
	EXPECT("status --json all", RVL_EXIT_USAGE);
	check_json("rivulet.error/1");
	setenv("RIVULETD_SOCKET", "/nonexistent/sock", 1);
	EXPECT("status --json", RVL_EXIT_ABSENT);
	check_json("rivulet.error/1");
	EXPECT("plan models/mlp.onnx --json", RVL_EXIT_USAGE);
	check_json("rivulet.error/1");
}
END_TEST

/* ---- doctor: one directory tree for each diagnosis ---- */

static void put(const char *path, const char *text)
{
	put_file(dir, path, text);
}

static void put_link(const char *path, const char *target)
{
	char full[512];

	put(path, "");
	snprintf(full, sizeof(full), "%s/%s", dir, path);
	unlink(full);
	ck_assert_int_eq(symlink(target, full), 0);
}

static void doctor(int code)
{
	char words[200];

	snprintf(words, sizeof(words), "doctor --root %s", dir);
	EXPECT(words, code);
}

static void device_and_module(void)
{
	put("sys/bus/pci/devices/0000:00:04.0/vendor", "0x1af4\n");
	put("sys/bus/pci/devices/0000:00:04.0/device", "0x1110\n");
	put("lib/modules/6.12.9+deb12-amd64/updates/rivulet.ko", "");
}

START_TEST(doctor_kernel)
{
	put("proc/sys/kernel/osrelease", "6.12.9+deb12-cloud-amd64\n");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("-cloud- flavour");
	SAYS("apt install linux-image-6.12-amd64");
	ck_assert_ptr_null(strstr(out, "modprobe"));
	put("proc/sys/kernel/osrelease", "6.1.0-40-amd64\n");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("older than 6.12");
}
END_TEST

START_TEST(doctor_module)
{
	put("proc/sys/kernel/osrelease", "6.12.9+deb12-amd64\n");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("no PCI device that could be a Rivulet NPU");
	SAYS("apt install linux-headers-6.12.9+deb12-amd64");
	put("lib/modules/6.12.9+deb12-amd64/build", NULL);
	doctor(RVL_EXIT_DIFFERENT);
	ck_assert_ptr_null(strstr(out, "linux-headers"));
	device_and_module();
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("installed for kernel 6.12.9+deb12-amd64 but not loaded");
	SAYS("fix: modprobe rivulet");
}
END_TEST

/* Proves the diagnosis for each of the four cases in which a kernel refuses unsigned modules. */
START_TEST(doctor_unsigned)
{
	put("proc/sys/kernel/osrelease", "6.12.9+deb12-amd64\n");
	device_and_module();
	put("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
	    "\6\1\1\1\1");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("Secure Boot is on");
	SAYS("make install-dkms");
	SAYS("mokutil --import /var/lib/dkms/mok.pub");
	put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	put("lib/modules/6.12.9+deb12-amd64/updates/dkms/rivulet.ko.xz", "");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("Secure Boot is on");
	SAYS("the key that DKMS signed it with");
	ck_assert_ptr_null(strstr(out, "make install-dkms"));
	/* With the validation of shim off, Secure Boot does not restrict modules. */
	put("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("fix: modprobe rivulet");
	ck_assert_ptr_null(strstr(out, "mokutil"));
	put("sys/module/module/parameters/sig_enforce", "Y\n");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("module.sig_enforce=1");
	SAYS("mokutil");
	put("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", "\6\1\1\1");
	put("sys/module/module/parameters/sig_enforce", "N\n");
	put("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("the kernel is locked down");
}
END_TEST

START_TEST(doctor_node)
{
	char node[200];

	put("proc/sys/kernel/osrelease", "6.12.9+deb12-amd64\n");
	device_and_module();
	put("sys/module/rivulet/version", "0.1.0\n");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("is bound to no device");
	/* The node of another driver does not count. */
	put_link("sys/class/accel/accel0/device/driver", "../../bus/pci/drivers/intel_vpu");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("is bound to no device");
	put_link("sys/class/accel/accel1/device/driver", "../../bus/pci/drivers/rivulet");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("/dev/accel/accel1 is missing");
	put("dev/accel/accel1", "");
	snprintf(node, sizeof(node), "%s/dev/accel/accel1", dir);
	chmod(node, 0600);
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("the udev rule is not installed");
	put("usr/lib/udev/rules.d/70-rivulet.rules", "");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("although the udev rule is installed");
	SAYS("udevadm trigger");
}
END_TEST

/* Proves that a render node of this driver is found beside one of another driver. */
START_TEST(doctor_render_node)
{
	put("proc/sys/kernel/osrelease", "6.12.9+deb12-arm64\n");
	put("sys/module/rivulet/version", "0.1.0\n");
	put_link("sys/class/drm/card0/device/driver", "../../bus/pci/drivers/rivulet");
	put_link("sys/class/drm/renderD128/device/driver", "../../bus/pci/drivers/panfrost");
	put_link("sys/class/drm/renderD129/device/driver", "../../bus/pci/drivers/rivulet");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("/dev/dri/renderD129 is missing");
	put("dev/dri/renderD129", "");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("/dev/dri/renderD129 does not belong to group render");
}
END_TEST

START_TEST(doctor_daemon)
{
	char words[200];

	put("proc/sys/kernel/osrelease", "6.12.9+deb12-amd64\n");
	put("sys/module/rivulet/version", "0.1.0\n");
	doctor(RVL_EXIT_DIFFERENT);
	SAYS("systemctl enable --now rivuletd.socket");
	SAYS("waits for a device");
	put("run/rivuletd/rivuletd.sock", "");
	doctor(RVL_EXIT_OK);
	snprintf(words, sizeof(words), "doctor --json --root %s", dir);
	EXPECT(words, RVL_EXIT_OK);
	check_json("rivulet.doctor/1");
	SAYS("\"problems\":0");
}
END_TEST

/* ---- plans ---- */

#define PLAN_EXAMPLES 160

/* A few examples, so that planning is fast. */
static void plan_data(void)
{
	struct rvl_array a = { .dtype = RIVULET_U8, .ndim = 2, .dim = { PLAN_EXAMPLES, 784 } }, set;
	struct rvl_array b = { .dtype = RIVULET_U8, .ndim = 1, .dim = { PLAN_EXAMPLES } };

	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	ck_assert_int_eq(rvl_array_alloc(&b), 0);
	ck_assert_int_eq(rvl_idx_read(DATA "t10k-images-idx3-ubyte.gz", 3, &set), 0);
	memcpy(a.data, set.data, a.size);
	rvl_array_clear(&set);
	ck_assert_int_eq(rvl_idx_read(DATA "t10k-labels-idx1-ubyte.gz", 1, &set), 0);
	memcpy(b.data, set.data, b.size);
	rvl_array_clear(&set);
	rvl_npy_write(in_dir("x.npy"), &a);
	rvl_npy_write(in_dir("y.npy"), &b);
	rvl_array_clear(&a);
	rvl_array_clear(&b);
}

/* Runs rivulet plan for the MLP with that data and cache. Words in @more override earlier ones. */
static int plan_verb(const char *more)
{
	char words[1500];

	snprintf(words, sizeof(words), "plan models/mlp.onnx --levels l6,l4,l3 --time-constraint "
				       "1.005*64@l6 "
		 "--data %s/x.npy,%s/y.npy --cache %s/a/b --threads 2 %s", dir, dir, dir, more);
	return verb(words);
}

/* The files of measured accuracies in the cache of plan_verb(). */
static size_t kept_accuracies(void)
{
	char pattern[200];
	glob_t g = { 0 };
	size_t n;

	snprintf(pattern, sizeof(pattern), "%s/a/b/*.accuracy", dir);
	n = glob(pattern, 0, NULL, &g) ? 0 : g.gl_pathc;
	globfree(&g);
	return n;
}

/*
 * Proves that eval, plan and info take the shape of an input as compile does, that a plan keeps it, and
 * that accuracies measured with it are not taken for those of another shape.
 */
START_TEST(shapes_of_all_verbs)
{
	char words[700];
	uint8_t *p;
	size_t size;

	plan_data();
	snprintf(words, sizeof(words), "eval models/mlp.onnx --shape image=3,1,28,28 --length 64 --count 20 "
		 "--data %s/x.npy --labels %s/y.npy", dir, dir);
	EXPECT(words, 0);
	SAYS("20 examples");
	snprintf(words, sizeof(words), "eval models/mlp.onnx --shape image=3,1,28,27 --data %s/x.npy "
		 "--labels %s/y.npy", dir, dir);
	EXPECT(words, RVL_EXIT_REFUSED);
	snprintf(words, sizeof(words), "eval models/mlp.onnx --symbol nothing=3 --data %s/x.npy "
		 "--labels %s/y.npy", dir, dir);
	EXPECT(words, RVL_EXIT_REFUSED);
	EXPECT("info models/mlp.onnx --shape image=3,1,28,28", 0);
	SAYS("3x1x28x28");

	snprintf(words, sizeof(words), "--shape image=3,1,28,28 --objective accuracy -o %s/s.plan", dir);
	ck_assert_msg(!plan_verb(words), "%s", rvl_tool_error);
	p = read_file(in_dir("s.plan"), &size);
	ck_assert_ptr_nonnull(memmem(p, size, "\nshape 4 3 1 28 28 image\n", 25));
	free(p);
	snprintf(words, sizeof(words), "compile models/mlp.onnx -q --plan %s/s.plan -o %s/s.rvp", dir, dir);
	EXPECT(words, 0);
	snprintf(words, sizeof(words), "info %s/s.rvp", dir);
	EXPECT(words, 0);
	SAYS("3x1x28x28");
	/* Accuracies are kept by shape and by dimension. */
	ck_assert_uint_eq(kept_accuracies(), 1);
	ck_assert_msg(!plan_verb("--shape image=3,1,28,28 --objective accuracy"), "%s", rvl_tool_error);
	ck_assert_uint_eq(kept_accuracies(), 1);
	ck_assert_msg(!plan_verb("--shape image=4,1,28,28 --objective accuracy"), "%s", rvl_tool_error);
	ck_assert_uint_eq(kept_accuracies(), 2);
}
END_TEST

static void check_planned_program(void)
{
	size_t size;
	uint8_t *p = read_file(in_dir("m.rvp"), &size);
	const struct rivulet_program *h = (const void *)p;

	ck_assert_uint_eq(rivulet_program_levels(h), 1u << 5 | 1u << 3 | 1u << 2);
	ck_assert_uint_eq(h->level[5].length, 64);
	ck_assert_uint_eq(h->level[3].length, 45);
	ck_assert_uint_eq(h->level[2].length, 36);
	for (int l = 2; l < 6; l++)
		ck_assert_int_eq(h->level[l].accuracy > 700000, l != 4);
	free(p);
}

/*
 * Proves that the longest lengths that meet the constraint are 64, 45 and 36, and that the program
 * has them with their accuracies.
 */
START_TEST(plan_and_compile)
{
	char words[500];
	uint8_t *p;
	size_t size;

	plan_data();
	snprintf(words, sizeof(words), "--objective accuracy -o %s/m.plan --svg %s/m.svg "
				       "--figures f", dir, dir);
	ck_assert_msg(!plan_verb(words), "%s", rvl_tool_error);
	SAYS("figure f.l6.length 64 bits");
	SAYS("figure f.l4.length 45 bits");
	SAYS("l3 (800.0 MHz) is dominated by l4 (1.000 GHz) at no higher voltage: this plan uses "
	     "it nevertheless");
	SAYS("int8 throughout");
	p = read_file(in_dir("m.svg"), &size);
	ck_assert(!memcmp(p, "<?xml", 5) && !memcmp(p + size - 7, "</svg>\n", 7));
	free(p);
	snprintf(words, sizeof(words), "compile models/mlp.onnx -q --plan %s/m.plan -o %s/m.rvp",
		 dir, dir);
	EXPECT(words, 0);
	check_planned_program();
	snprintf(words, sizeof(words), "compile models/mlp20.onnx --plan %s/m.plan -o %s/x.rvp",
		 dir, dir);
	EXPECT(words, RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "of another model"));
	snprintf(words, sizeof(words), "compile models/mlp.onnx --plan %s/m.plan --board zu3eg-64",
		 dir);
	EXPECT(words, RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "it has level 5, the board 4 levels"));
	snprintf(words, sizeof(words), "explain models/mlp.onnx --plan %s/m.plan --length 64", dir);
	EXPECT(words, RVL_EXIT_USAGE);
	snprintf(words, sizeof(words), "compile models/mlp.onnx --plan %s/m.svg", dir);
	EXPECT(words, RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "not a plan file"));
}
END_TEST

static void damage_cache(void)
{
	char cmd[200];

	snprintf(cmd, sizeof(cmd), "for f in %s/a/b/*.accuracy; do echo 0 64 1 >> $f; done", dir);
	ck_assert_int_eq(system(cmd), 0);
}

/* Proves that the plan is the same with measurements, with the cache, and with a damaged cache. */
START_TEST(plan_keeps_accuracies)
{
	static char first[1 << 16];
	size_t size;
	uint8_t *p;
	char words[200];

	plan_data();
	snprintf(words, sizeof(words), "--accuracy 80,75,70 --length 32-96 --objective reward -o %s/m.plan", dir);
	for (int i = 0; i < 4; i++) {
		ck_assert_msg(!plan_verb(i == 3 ? strcat(words, " --no-cache") : words), "%s",
			      rvl_tool_error);
		p = read_file(in_dir("m.plan"), &size);
		if (!i)
			memcpy(first, p, size);
		ck_assert_mem_eq(first, p, size);
		free(p);
		if (i == 1)
			damage_cache();
	}
}
END_TEST

/* Proves that the shortest feasible time, which the error reports, is feasible. */
START_TEST(plan_infeasible)
{
	char words[200], *at;

	plan_data();
	ck_assert_int_eq(plan_verb("--time-constraint 20ms --accuracy 80,75,70"),
			 RVL_EXIT_DIFFERENT);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "l3: nothing fits the time"));
	at = strstr(rvl_tool_error, "the least time constraint is ");
	ck_assert_ptr_nonnull(at);
	snprintf(words, sizeof(words), "--accuracy 80,75,70 --time-constraint %.12g",
		 strtod(at + 29, NULL));
	strcat(words, "ms");
	ck_assert_msg(!plan_verb(words), "%s: %s", words, rvl_tool_error);
	ck_assert_int_eq(plan_verb("--accuracy 100 --length 8-40"), RVL_EXIT_DIFFERENT);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "100.00 % at no length"));
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "no time constraint makes it feasible"));
}
END_TEST

START_TEST(plan_other_reports)
{
	plan_data();
	ck_assert_msg(!plan_verb("--rate 5 --base-power 0.01 --battery 0.5 --shares 2,1,1 "
				 "--choose 100 "
				 "--charge 25"), "%s", rvl_tool_error);
	SAYS("race to idle");
	SAYS("at 25 % of the charge");
	SAYS("awake between");
	SAYS("100 examples choose, 60 hold out");
	SAYS("a charge of 1.800 kJ");
	ck_assert_msg(!plan_verb("--modes sc,int8 --accuracy 85"), "%s", rvl_tool_error);
	SAYS("int8");
	ck_assert_msg(!plan_verb("--rate 5 --json"), "%s", rvl_tool_error);
	check_json("rivulet.plan/2");
	SAYS("\"dominated_by\":3");
}
END_TEST

static const struct { const char *words; int code; const char *says; } plan_errors[] = {
	{ "second", RVL_EXIT_USAGE, "takes one model" },
	{ "--levels l7", RVL_EXIT_USAGE, "l1 (slowest) to l6" },
	{ "--levels l0", RVL_EXIT_USAGE, "\"l0\" is no level" },
	{ "--levels 6", RVL_EXIT_USAGE, "0 to 5" },
	{ "--levels l3,l4", RVL_EXIT_USAGE, "does not fall" },
	{ "--levels l4,l4", RVL_EXIT_USAGE, "does not fall" },
	{ "--levels l6,", RVL_EXIT_USAGE, "\"\" is no level" },
	{ "--time-constraint 5", RVL_EXIT_USAGE, "is no time" },
	{ "--time-constraint 0ms", RVL_EXIT_USAGE, "is no time" },
	{ "--time-constraint nans", RVL_EXIT_USAGE, "is no time" },
	{ "--time-constraint infs", RVL_EXIT_USAGE, "is no time" },
	{ "--time-constraint 1*300@l6", RVL_EXIT_USAGE, "is no time" },
	{ "--time-constraint 1*64", RVL_EXIT_USAGE, "is no time" },
	{ "--time-constraint 1*64@l9", RVL_EXIT_USAGE, "\"l9\" is no level" },
	{ "--accuracy 87,84", RVL_EXIT_USAGE, "2 values for 3 levels" },
	{ "--accuracy 101", RVL_EXIT_USAGE, "no list of numbers of 0 to 100" },
	{ "--accuracy 87,,79", RVL_EXIT_USAGE, "no list" },
	{ "--data x.npy", RVL_EXIT_USAGE, "IMAGES,LABELS" },
	{ "--data /nowhere/x,/nowhere/y", RVL_EXIT_REFUSED, "/nowhere/x" },
	{ "--objective fun", RVL_EXIT_USAGE, "accuracy, runs or reward" },
	{ "--modes fp8", RVL_EXIT_USAGE, "sc, int8 or sc,int8" },
	{ "--modes int8 --length 8-9", RVL_EXIT_USAGE, "go with --modes sc" },
	{ "--length 7", RVL_EXIT_USAGE, "no length of 8 to 256" },
	{ "--rate -1", RVL_EXIT_USAGE, "--rate" },
	{ "--base-power x", RVL_EXIT_USAGE, "--base-power" },
	{ "--battery 0", RVL_EXIT_USAGE, "--battery" },
	{ "--charge 101", RVL_EXIT_USAGE, "--charge" },
	{ "--margin x", RVL_EXIT_USAGE, "--margin" },
	{ "--accuracy 99 --margin 2 --length 8-40", RVL_EXIT_DIFFERENT, "at no length" },
	{ "--shares 1,2", RVL_EXIT_USAGE, "2 values for 3 levels" },
	{ "--shares 0", RVL_EXIT_USAGE, "--shares" },
	{ "--reward-range 90,60", RVL_EXIT_USAGE, "does not rise" },
	{ "--penalty -1", RVL_EXIT_USAGE, "--penalty" },
	{ "--tolerance 101", RVL_EXIT_USAGE, "--tolerance" },
	{ "--threads 65", RVL_EXIT_USAGE, "at most 64" },
	{ "--board nowhere", RVL_EXIT_REFUSED, "nowhere" },
	{ "--board zu3eg-64 --levels l3 --time-constraint 1s", RVL_EXIT_REFUSED,
	  "no stochastic lanes" },
	{ "--keep-int8 nobody", RVL_EXIT_REFUSED, "nobody" },
	{ "--rate 1000", RVL_EXIT_DIFFERENT, "which the rate leaves; l6: nothing fits the time" },
	{ "--output /nowhere/p", RVL_EXIT_FAILED, "/nowhere/p" },
	{ "--length 32-96 --svg /nowhere/p", RVL_EXIT_FAILED, "/nowhere/p" },
};

START_TEST(plan_mistakes)
{
	int r;

	plan_data();
	r = plan_verb(plan_errors[_i].words);
	ck_assert_msg(r == plan_errors[_i].code, "%s: exit %d (%s)", plan_errors[_i].words, r,
		      rvl_tool_error);
	ck_assert_msg(strstr(rvl_tool_error, plan_errors[_i].says) != NULL, "%s: %s",
		      plan_errors[_i].words, rvl_tool_error);
}
END_TEST

START_TEST(devfreq)
{
	char name[64];

	put_link("sys/class/accel/accel0/device", "../../../0000:00:04.0");
	put_link("sys/class/devfreq/other/device", "../../../0000:00:05.0");
	put_link("sys/class/devfreq/ours/device", "../../../0000:00:04.0");
	rvl_sys_root = dir;
	ck_assert(rvl_sys_devfreq("accel0", name, sizeof(name)));
	ck_assert_str_eq(name, "ours");
	ck_assert(!rvl_sys_devfreq("accel1", name, sizeof(name)));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tool");
	TCase *files = tcase_create("files"), *verbs = tcase_create("verbs");

	tcase_add_checked_fixture(files, setup, teardown);
	tcase_add_checked_fixture(verbs, setup, teardown);
	tcase_set_timeout(files, 60);
	tcase_set_timeout(verbs, 120);
	tcase_add_test(files, npy);
	tcase_add_loop_test(files, npy_header, 0, (int)(sizeof(dicts) / sizeof(dicts[0])));
	tcase_add_test(files, onnx_tensors);
	tcase_add_loop_test(files, onnx_tensor, 0, (int)(sizeof(tensors) / sizeof(tensors[0])));
	tcase_add_test(files, random_changes);
	tcase_add_test(files, pictures);
	tcase_add_test(files, idx);
	tcase_add_test(files, records);
	tcase_add_test(files, requantise);
	tcase_add_test(files, units);
	tcase_add_test(files, writers);
	tcase_add_test(files, picture);
	tcase_add_test(verbs, run_set);
	tcase_add_test(verbs, run_differs);
	tcase_add_test(verbs, run_tensors_and_pictures);
	tcase_add_loop_test(verbs, mistakes, 0, (int)(sizeof(wrong) / sizeof(wrong[0])));
	tcase_add_test(verbs, compile_and_list);
	tcase_add_test(verbs, other_verbs);
	tcase_add_test(verbs, json_outputs);
	tcase_add_test(verbs, doctor_kernel);
	tcase_add_test(verbs, doctor_module);
	tcase_add_test(verbs, doctor_unsigned);
	tcase_add_test(verbs, doctor_node);
	tcase_add_test(verbs, doctor_render_node);
	tcase_add_test(verbs, doctor_daemon);
	tcase_add_test(verbs, plan_and_compile);
	tcase_add_test(verbs, shapes_of_all_verbs);
	tcase_add_test(verbs, plan_keeps_accuracies);
	tcase_add_test(verbs, plan_infeasible);
	tcase_add_test(verbs, plan_other_reports);
	tcase_add_loop_test(verbs, plan_mistakes, 0,
			    (int)(sizeof(plan_errors) / sizeof(plan_errors[0])));
	tcase_add_test(verbs, devfreq);
	suite_add_tcase(s, files);
	suite_add_tcase(s, verbs);
	return run_suite(s);
}
