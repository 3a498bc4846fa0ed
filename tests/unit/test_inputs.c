// SPDX-License-Identifier: MIT
/*
 * What the `rivulet` command parses before it starts: verbs, numbers and times of options, modes
 * and lengths of bitstreams, labelled data sets, recorded outputs. Tests use values on both sides
 * of each limit.
 */
#include <check.h>
#include <errno.h>
#include <zlib.h>

#include "../../tool/data/dataset.h"
#include "../../tool/data/examples.h"
#include "../../tool/data/npz.h"
#include "../../tool/model/mode.h"
#include "files.h"
#include "suite.h"
#include "verb.h"

#define SIM " --device sim:zu3eg-64 "
#define N(a) (sizeof(a) / sizeof((a)[0]))

static char dir[64];

static void setup(void)
{
	make_scratch(dir);
	rvl_tool_error_clear();
}

static void teardown(void)
{
	remove_scratch(dir);
}

static const char *in_dir(const char *name)
{
	return path_in(dir, name);
}

/* Asserts that the last call failed with exactly this text, and clears the error. */
static void complained(const char *text)
{
	ck_assert_str_eq(rvl_tool_error, text);
	rvl_tool_error_clear();
}

/* ---- verbs and help ---- */

/* Proves that --help lists the verbs in the order of rivulet(1), then the exit codes, on standard output. */
START_TEST(help)
{
	static const char *const verbs[] = { "compile", "run", "explain", "bench", "profile", "eval", "compare", "plan", "info",
					     "status", "policy", "doctor", "asm", "disasm" };
	const char *before;
	char line[32];

	EXPECT("--help", 0);
	ck_assert_str_eq(err_out, "");
	ck_assert(!strncmp(out, "rivulet " RIVULET_VERSION ": models on the Rivulet NPU\n\n"
			   "usage: rivulet VERB [options]\n\n", 40));
	for (size_t i = 0; i < N(verbs); i++) {
		snprintf(line, sizeof(line), "\n  %-9s ", verbs[i]);
		ck_assert_msg(strstr(out, line) != NULL, "no %s", verbs[i]);
	}
	before = strstr(out, "\n  run ");
	ck_assert(before < strstr(out, "\n  bench ") && strstr(out, "\n  bench ") < strstr(out, "\n  profile ") &&
		  strstr(out, "\n  profile ") < strstr(out, "\n  eval ") &&
		  strstr(out, "\n  info ") < strstr(out, "\n  status ") &&
		  strstr(out, "\n  status ") < strstr(out, "\n  policy "));
	SAYS("exit status:\n  0  all went well\n  1  a run, the device or the system failed\n  2  wrong usage\n");
	SAYS("  130, 143  ended by SIGINT");
	EXPECT("-h", 0);
	SAYS("usage: rivulet VERB");
	EXPECT("help", 0);
	SAYS("usage: rivulet VERB");
}
END_TEST

START_TEST(first_words)
{
	EXPECT("", RVL_EXIT_USAGE);
	ck_assert_str_eq(out, "");
	ck_assert_ptr_nonnull(strstr(err_out, "usage: rivulet VERB"));
	EXPECT("--version", 0);
	ck_assert_str_eq(out, "rivulet " RIVULET_VERSION "\n");
	EXPECT("frob --json", RVL_EXIT_USAGE);
	ck_assert_str_eq(err_out, "rivulet: there is no verb \"frob\"; rivulet --help lists them\n");
	EXPECT("bench", RVL_EXIT_USAGE);
	complained("rivulet bench takes one model");
	EXPECT("bench --compare xnnpack", RVL_EXIT_USAGE);
	complained("--compare needs --device cpu");
	/* The libraries are installed by a script, which this process would become. */
	EXPECT("bench no.onnx --device cpu --compare xnnpack", RVL_EXIT_REFUSED);
	complained("no.onnx: No such file or directory");
	EXPECT("bench a b", RVL_EXIT_USAGE);
	complained("rivulet bench takes one model");
	EXPECT("bench --help", 0);
	SAYS("rivulet bench MODEL [options]\n  -d, --device WHERE ");
	SAYS("\n  -n, --runs N                 runs to measure (200)\n      --duration TIME          ");
	SAYS("\n      --counters               what a performance");
	SAYS("\n      --json                   print JSON with a versioned schema\n"
	     "  -h, --help                   print this text\n");
}
END_TEST

/* Proves each way to write an option, and each mistake. */
START_TEST(options)
{
	static const struct { const char *words, *says; } wrong[] = {
		{ "bench m --runs", "--runs needs N" },
		{ "bench m --runs 0", "--runs is at least 1, not 0" },
		{ "bench m --runs 1000001", "--runs is at most 1000000, not 1000001" },
		{ "bench m --runs=1001k", "--runs is at most 1000000, not 1001k" },
		{ "bench m -n2M", "--runs is at most 1000000, not 2M" },
		{ "bench m --runs 1x", "--runs: \"1x\" is no whole number" },
		{ "bench m --runs -1", "--runs: \"-1\" is no whole number" },
		{ "bench m --runs 18446744073709551616", "--runs: \"18446744073709551616\" is no whole number" },
		{ "bench m --runs 18446744073709552k", "--runs: \"18446744073709552k\" is no whole number" },
		{ "bench m --counters=1", "--counters takes no value" },
		{ "bench m --run 1", "unknown option --run; see rivulet bench --help" },
		{ "bench m --runss 1", "unknown option --runss; see rivulet bench --help" },
		{ "bench m -x", "unknown option -x; see rivulet bench --help" },
		{ "bench m --duration 5", "--duration: \"5\" is no time; examples are 500ms, 5s and 2min" },
		{ "bench m --duration 1s --runs 2", "give --runs or --duration, not both" },
		{ "bench m --depth 65", "--depth is at most 64, not 65" },
		{ "bench m --threads 65", "--threads is at most 64, not 65" },
		{ "bench -- -x --runs", "rivulet bench takes one model" },
	};

	for (size_t i = 0; i < N(wrong); i++) {
		EXPECT(wrong[i].words, RVL_EXIT_USAGE);
		complained(wrong[i].says);
	}
	/* These values are in range, so the error is that of the file. */
	EXPECT("bench /nonexistent/m --runs 1000k -d sim:zu3eg-64", RVL_EXIT_REFUSED);
	EXPECT("bench /nonexistent/m -n1M --depth=64 --threads 64" SIM, RVL_EXIT_REFUSED);
	EXPECT("bench --device=sim:zu3eg-64 -- /nonexistent/m", RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "/nonexistent/m"));
}
END_TEST

START_TEST(times)
{
	static const struct { const char *text; uint64_t ns; } good[] = {
		{ "1us", 1000 }, { "0.001us", 1 }, { "2.5ms", 2500000 }, { "3s", 3000000000 },
		{ "2min", 120000000000 }, { "1.5h", 5400000000000 }, { "1000000000s", 1000000000000000000 },
	};
	static const char *const bad[] = { "", "s", "5", "0s", "0.0009us", "-1s", "1 s", "1m", "1sec", "1e10s", "infs",
					   "nans", "1000000001s" };
	struct rvl_time t;

	for (size_t i = 0; i < N(good); i++) {
		ck_assert(rvl_time_parse(good[i].text, &t));
		ck_assert_msg(t.ns == good[i].ns, "%s: %llu", good[i].text, (unsigned long long)t.ns);
	}
	for (size_t i = 0; i < N(bad); i++) {
		t.ns = 7;
		ck_assert_msg(!rvl_time_parse(bad[i], &t) && t.ns == 7, "%s is taken", bad[i]);
	}
}
END_TEST

/* ---- lengths and modes ---- */

/* Proves which lengths a list sets, and no others. */
START_TEST(lists_of_lengths)
{
	static const struct { const char *text; unsigned int lo, hi, also; } good[] = {
		{ "8", 8, 8, 0 }, { "256", 256, 256, 0 }, { "8-256", 8, 256, 0 }, { "10-12", 10, 12, 0 },
		{ "10-12,64", 10, 12, 64 }, { "20-20", 20, 20, 0 },
	};
	static const char *const bad[] = { "7", "257", "7-9", "250-257", "12-10", "", ",", "8,", "-9", "x", "8x", "8-",
					   "8 ,9", "+8" };

	for (size_t i = 0; i < N(good); i++) {
		bool set[RIVULET_SC_MAX + 1] = { false };

		ck_assert_int_eq(rvl_lengths_parse(good[i].text, set), 0);
		for (unsigned int l = 0; l <= RIVULET_SC_MAX; l++)
			ck_assert_msg(set[l] == ((l >= good[i].lo && l <= good[i].hi) || (l && l == good[i].also)),
				      "%s: %u", good[i].text, l);
	}
	for (size_t i = 0; i < N(bad); i++) {
		bool set[RIVULET_SC_MAX + 1] = { false };
		char text[128];

		ck_assert_msg(rvl_lengths_parse(bad[i], set) == RVL_EXIT_USAGE, "\"%s\" is taken", bad[i]);
		/* The part of the list that is wrong. */
		snprintf(text, sizeof(text), "--length: \"%s\" is no length of 8 to 256, range, or list of these",
			 !strcmp(bad[i], "8,") ? "" : bad[i]);
		complained(text);
	}
}
END_TEST

/* Proves what each combination of the options of a mode sets in the compiler's options. */
START_TEST(modes)
{
	struct rivulet_compile_options o = { 0 };
	struct rvl_mode m = { 0 };

	ck_assert(!rvl_mode_given(&m));
	ck_assert_int_eq(rvl_mode_fill(&m, 4, &o), 0);
	ck_assert(!o.stochastic && o.length[0] == 0 && o.n_keep_int8 == 0);
	m.mode = "int8";
	ck_assert_int_eq(rvl_mode_fill(&m, 4, &o), 0);
	ck_assert(!o.stochastic && o.length[0] == 0 && rvl_mode_given(&m));
	m.mode = "sc";
	ck_assert_int_eq(rvl_mode_fill(&m, 4, &o), 0);
	ck_assert(o.stochastic);
	for (int i = 0; i < RIVULET_LEVELS; i++)
		ck_assert_uint_eq(o.length[i], 64);
	m.length = 9;
	ck_assert_int_eq(rvl_mode_keep(&m, "first"), 0);
	ck_assert_int_eq(rvl_mode_keep(&m, "fc"), 0);
	ck_assert_int_eq(rvl_mode_fill(&m, 4, &o), 0);
	for (int i = 0; i < RIVULET_LEVELS; i++)
		ck_assert_uint_eq(o.length[i], 9);
	ck_assert_uint_eq(o.n_keep_int8, 2);
	ck_assert_str_eq(o.keep_int8[0], "first");
	ck_assert_str_eq(o.keep_int8[1], "fc");
	m = (struct rvl_mode) { .length = 8 };
	ck_assert(rvl_mode_given(&m));
	m = (struct rvl_mode) { .lengths = "8" };
	ck_assert(rvl_mode_given(&m));
	m = (struct rvl_mode) { .n_keep = 1 };
	ck_assert(rvl_mode_given(&m));
	m = (struct rvl_mode) { .quantise.path = { .value = { "x" }, .n = 1 } };
	ck_assert(rvl_mode_given(&m));
}
END_TEST

/* ---- examples for calibration ---- */

static struct rivulet_model_input two_inputs[2] = {
	{ (char *)(uintptr_t)"x", RIVULET_F32, 4, { 1, 3, 2, 2 } },
	{ (char *)(uintptr_t)"ids:0", RIVULET_S64, 2, { 2, 3 } },
};

static const char *write_npy(const char *name, enum rivulet_dtype type, uint32_t ndim,
			     const uint64_t *dim, uint64_t first)
{
	struct rvl_array a = { .dtype = type, .ndim = ndim };
	const char *path = in_dir(name);

	memcpy(a.dim, dim, ndim * sizeof(*dim));
	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	for (uint64_t i = 0; i < a.size / rvl_dtype_size(type); i++) {
		if (type == RIVULET_F32)
			((float *)a.data)[i] = (float)(first + i);
		else if (type == RIVULET_S64)
			((int64_t *)a.data)[i] = (int64_t)(first + i);
		else
			((uint8_t *)a.data)[i] = (uint8_t)(first + i);
	}
	ck_assert_int_eq(rvl_npy_write(path, &a), 0);
	rvl_array_clear(&a);
	return path;
}

static float f32_at(const struct rvl_examples *x, uint64_t i)
{
	return ((const float *)x->list[0].data)[i];
}

/* Pictures, arrays of one and of several examples, and bytes; files of a folder in their order. */
START_TEST(examples_from_files)
{
	static const uint64_t one[] = { 1, 3, 2, 2 }, bare[] = { 3, 2, 2 }, many[] = { 2, 3, 2, 2 };
	struct rvl_picture_options o = { .mean_text = "0.5", .std_text = "0.25" };
	struct rvl_examples x;

	ck_assert_int_eq(rvl_picture_options_check(&o), 0);
	ck_assert_int_eq(rvl_examples_init(&x, &o, two_inputs, 1), 0);
	write_npy("b.npy", RIVULET_F32, 4, one, 100);
	write_npy("c.npy", RIVULET_F32, 3, bare, 200);
	write_npy("d.npy", RIVULET_F32, 4, many, 300);
	write_npy("e.npy", RIVULET_U8, 3, bare, 0);
	write_file(in_dir("a.ppm"), "P6 2 2 255\n\0\0\0\1\2\3\4\5\6\7\10\11", 11 + 12);
	ck_assert_msg(!rvl_examples_add(&x, dir), "%s", rvl_tool_error);
	ck_assert_uint_eq(x.list[0].size, 6 * 12 * sizeof(float));
	ck_assert_float_eq(f32_at(&x, 0), -2);				/* of the picture: R of the first pixel */
	ck_assert_float_eq_tol(f32_at(&x, 5), (2 / 255.0f - 0.5f) / 0.25f, 1e-6f); /* G of the second */
	ck_assert_float_eq(f32_at(&x, 12), 100);
	ck_assert_float_eq(f32_at(&x, 24), 200);
	ck_assert_float_eq(f32_at(&x, 36 + 23), 323);
	ck_assert_float_eq_tol(f32_at(&x, 60 + 11), (11 / 255.0f - 0.5f) / 0.25f, 1e-6f);
	rvl_examples_clear(&x);
}
END_TEST

/* Inputs are named by NAME=PATH, by the members of an archive, or by input_N. */
START_TEST(examples_of_several_inputs)
{
	static const uint64_t image[] = { 1, 3, 2, 2 }, rows[] = { 4, 3 };
	struct rvl_picture_options o = { 0 };
	struct rvl_examples x;
	char value[256];

	ck_assert_int_eq(rvl_picture_options_check(&o), 0);
	ck_assert_int_eq(rvl_examples_init(&x, &o, two_inputs, 2), 0);
	write_npy("input_1.npy", RIVULET_S64, 2, rows, 5);
	write_npy("input_0.npy", RIVULET_F32, 4, image, 0);
	ck_assert_msg(!rvl_examples_add(&x, dir), "%s", rvl_tool_error);
	snprintf(value, sizeof(value), "ids:0=%s", in_dir("input_1.npy"));
	ck_assert_msg(!rvl_examples_add(&x, value), "%s", rvl_tool_error);
	ck_assert_uint_eq(x.list[0].size, 12 * sizeof(float));
	ck_assert_uint_eq(x.list[1].size, 24 * sizeof(int64_t));
	ck_assert_int_eq(((const int64_t *)x.list[1].data)[12], 5);
	rvl_examples_clear(&x);
}
END_TEST

START_TEST(examples_that_do_not_fit_are_named)
{
	static const uint64_t other[] = { 1, 3, 2, 4 }, rows[] = { 4, 3 };
	struct rvl_picture_options o = { 0 };
	struct rvl_examples x;
	char want[400];

	ck_assert_int_eq(rvl_picture_options_check(&o), 0);
	ck_assert_int_eq(rvl_examples_init(&x, &o, two_inputs, 1), 0);
	snprintf(want, sizeof(want), "%s/a.npy: the array is float32 1x3x2x4, input \"x\" takes float32 1x3x2x2", dir);
	ck_assert_int_eq(rvl_examples_add(&x, write_npy("a.npy", RIVULET_F32, 4, other, 0)), RVL_EXIT_REFUSED);
	complained(want);
	snprintf(want, sizeof(want), "%s/a.npy: the array is int64 4x3, input \"x\" takes float32 1x3x2x2", dir);
	ck_assert_int_eq(rvl_examples_add(&x, write_npy("a.npy", RIVULET_S64, 2, rows, 0)), RVL_EXIT_REFUSED);
	complained(want);
	snprintf(want, sizeof(want), "%s/a.txt: no example: .png, .ppm, .pgm, .npy, .npz and .pb are", dir);
	write_file(in_dir("a.txt"), "x", 1);
	ck_assert_int_eq(rvl_examples_add(&x, in_dir("a.txt")), RVL_EXIT_REFUSED);
	complained(want);
	snprintf(want, sizeof(want), "%s/none: No such file or directory", dir);
	ck_assert_int_eq(rvl_examples_add(&x, in_dir("none")), RVL_EXIT_REFUSED);
	complained(want);
	rvl_examples_clear(&x);
	ck_assert_int_eq(rvl_examples_init(&x, &o, two_inputs, 2), 0);
	snprintf(want, sizeof(want), "%s/a.npy: the model has 2 inputs, so name one: --calibrate \"x=%s/a.npy\"", dir, dir);
	ck_assert_int_eq(rvl_examples_add(&x, in_dir("a.npy")), RVL_EXIT_USAGE);
	complained(want);
	rvl_examples_clear(&x);
}
END_TEST

/* An archive with one member "x.npy", stored. */
static size_t make_npz(uint8_t *to, const uint8_t *npy, size_t n)
{
	static const char name[] = "x.npy";
	uint8_t local[30] = { 'P', 'K', 3, 4 }, entry[46] = { 'P', 'K', 1, 2 }, end[22] = { 'P', 'K', 5, 6 };
	uint32_t size = (uint32_t)n, crc = (uint32_t)crc32(0, npy, (unsigned int)n);
	uint32_t at = (uint32_t)(sizeof(local) + 5 + n);
	uint8_t *p = to;

	local[26] = entry[28] = 5;
	memcpy(local + 14, &crc, 4);
	memcpy(local + 18, &size, 4);
	memcpy(local + 22, &size, 4);
	memcpy(entry + 16, &crc, 4);
	memcpy(entry + 20, &size, 4);
	memcpy(entry + 24, &size, 4);
	end[8] = end[10] = 1;
	memcpy(end + 16, &at, 4);
	memcpy(p, local, sizeof(local));
	memcpy(p + 30, name, 5);
	memcpy(p + 35, npy, n);
	memcpy(p + at, entry, sizeof(entry));
	memcpy(p + at + 46, name, 5);
	memcpy(p + at + 51, end, sizeof(end));
	return at + 51 + sizeof(end);
}

static int count_members(void *arg, const char *name, struct rvl_array *a)
{
	ck_assert_uint_le(strlen(name), 255);
	*(int *)arg += (int)a->dim[0];
	rvl_array_clear(a);
	return 0;
}

/* Every prefix and every changed byte of an archive is read or refused, within its memory. */
START_TEST(archives_that_lie)
{
	static const uint64_t dim[] = { 3 };
	struct rvl_blob b;
	uint8_t whole[400], *copy;
	char why[160];
	int members = 0;
	size_t n;

	ck_assert_int_eq(rvl_read_file(write_npy("m.npy", RIVULET_U8, 1, dim, 0), 300, &b), 0);
	n = make_npz(whole, b.data, b.size);
	ck_assert_int_eq(rvl_npz_each(whole, n, count_members, &members, why), 0);
	ck_assert_int_eq(members, 3);
	for (size_t cut = 0; cut < n; cut++) {
		copy = malloc(cut + 1);
		memcpy(copy, whole, cut);
		ck_assert_int_eq(rvl_npz_each(copy, cut, count_members, &members, why), -EINVAL);
		free(copy);
	}
	ck_assert_int_eq(members, 3);
	for (size_t at = 0; at < n; at++) {
		for (int bit = 0; bit < 8; bit++) {
			int r, before = members;

			copy = malloc(n);
			memcpy(copy, whole, n);
			copy[at] ^= (uint8_t)(1 << bit);
			r = rvl_npz_each(copy, n, count_members, &members, why);
			ck_assert_msg(r || members == before + 3 || members == before, "byte %zu", at);
			free(copy);
		}
	}
	rvl_blob_clear(&b);
}
END_TEST

/*
 * Proves that the entries of an archive may not name one member twice. Otherwise a small archive
 * would have any number of large arrays.
 */
START_TEST(archives_that_repeat)
{
	static const uint64_t dim[] = { 300 };
	uint8_t whole[1200], *end;
	struct rvl_blob b;
	char why[160];
	int members = 0;
	size_t n;

	ck_assert_int_eq(rvl_read_file(write_npy("m.npy", RIVULET_U8, 1, dim, 0), 600, &b), 0);
	n = make_npz(whole, b.data, b.size);
	/* A second entry of the directory, equal to the first. */
	end = whole + n - 22;
	memmove(end + 51, end, 22);
	memcpy(end, end - 51, 51);
	end[51 + 8] = end[51 + 10] = 2;
	ck_assert_int_eq(rvl_npz_each(whole, n + 51, count_members, &members, why), -EINVAL);
	ck_assert_str_eq(why, "members of the archive share bytes");
	ck_assert_int_eq(members, 300);
	rvl_blob_clear(&b);
}
END_TEST

START_TEST(lengths_by_level)
{
	struct rivulet_compile_options o = { 0 };
	struct rvl_mode m = { .mode = "sc", .lengths = "8,int8,-,256" };
	static const struct { const char *lengths, *says; } bad[] = {
		{ "8", "--lengths names 1 levels, the board has 4" },
		{ "8,8,8", "--lengths names 3 levels, the board has 4" },
		{ "8,8,8,8,8", "--lengths names 5 levels, the board has 4" },
		{ "8,8,8,7", "--lengths: \"7\" is no length of 8 to 256 bits, int8, or -" },
		{ "257,8,8,8", "--lengths: \"257\" is no length of 8 to 256 bits, int8, or -" },
		{ "8,8x,8,8", "--lengths: \"8x\" is no length of 8 to 256 bits, int8, or -" },
		{ "8,,8,8", "--lengths: \"\" is no length of 8 to 256 bits, int8, or -" },
		{ "8,int,8,8", "--lengths: \"int\" is no length of 8 to 256 bits, int8, or -" },
		{ "8,int9,8,8", "--lengths: \"int9\" is no length of 8 to 256 bits, int8, or -" },
		{ "8,--,8,8", "--lengths: \"--\" is no length of 8 to 256 bits, int8, or -" },
		{ "8,+9,8,8", "--lengths: \"+9\" is no length of 8 to 256 bits, int8, or -" },
	};

	ck_assert_int_eq(rvl_mode_fill(&m, 4, &o), 0);
	ck_assert_uint_eq(o.length[0], 8);
	ck_assert_uint_eq(o.length[1], 0);
	ck_assert_uint_eq(o.length[2], RIVULET_NO_VARIANT);
	ck_assert_uint_eq(o.length[3], 256);
	for (size_t i = 0; i < N(bad); i++) {
		m.lengths = bad[i].lengths;
		ck_assert_int_eq(rvl_mode_fill(&m, 4, &o), RVL_EXIT_USAGE);
		complained(bad[i].says);
	}
}
END_TEST

START_TEST(modes_that_clash)
{
	struct rivulet_compile_options o = { 0 };
	struct rvl_mode m[] = {
		{ .mode = "float" }, { .length = 8 }, { .lengths = "8,8,8,8" }, { .n_keep = 1 },
		{ .mode = "int8", .length = 8 }, { .mode = "sc", .length = 8, .lengths = "8,8,8,8" },
	};

	for (size_t i = 0; i < N(m); i++) {
		ck_assert_int_eq(rvl_mode_fill(&m[i], 4, &o), RVL_EXIT_USAGE);
		complained(i == 0 ? "--mode is int8 or sc, not \"float\"" :
			   i == 5 ? "give --length or --lengths, not both" :
				    "--length, --lengths and --keep-int8 need --mode sc");
	}
	memset(m, 0, sizeof(m));
	for (int i = 0; i < RVL_MODE_KEEP; i++)
		ck_assert_int_eq(rvl_mode_keep(&m[0], "n"), 0);
	ck_assert_int_eq(rvl_mode_keep(&m[0], "n"), RVL_EXIT_USAGE);
	complained("at most 256 --keep-int8");
}
END_TEST

/* ---- data sets ---- */

static void put_npy(const char *name, enum rivulet_dtype type, uint64_t rows, uint64_t columns, const void *values)
{
	struct rvl_array a = { .dtype = type, .ndim = columns ? 2 : 1, .dim = { rows, columns } };

	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	memcpy(a.data, values, a.size);
	ck_assert_int_eq(rvl_npy_write(in_dir(name), &a), 0);
	rvl_array_clear(&a);
}

static const float values[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
static const uint8_t bytes[] = { 20, 21, 22, 23, 24, 25, 26, 27 }, classes[] = { 5, 6, 7, 8 };
static const int64_t wide[] = { 5, 6, 7, 8 };

/* Proves size, count and the first element of examples of each type and labels of each type. */
START_TEST(data_sets)
{
	struct rvl_dataset d = { 0 };

	put_npy("f.npy", RIVULET_F32, 4, 3, values);
	put_npy("u.npy", RIVULET_U8, 4, 2, bytes);
	put_npy("l.npy", RIVULET_U8, 4, 0, classes);
	put_npy("w.npy", RIVULET_S64, 4, 0, wide);
	ck_assert_int_eq(rvl_dataset_read(in_dir("f.npy"), in_dir("w.npy"), 0, UINT64_MAX, &d), 0);
	ck_assert_uint_eq(d.set.count, 4);
	ck_assert_uint_eq(d.set.size, 3);
	ck_assert_ptr_null(d.set.u8);
	ck_assert(d.set.f32[0] == 0 && d.set.f32[11] == 11);
	ck_assert(d.set.labels[0] == 5 && d.set.labels[3] == 8);
	rvl_dataset_clear(&d);
	ck_assert_int_eq(rvl_dataset_read(in_dir("f.npy"), in_dir("l.npy"), 1, 2, &d), 0);
	ck_assert_uint_eq(d.set.count, 2);
	ck_assert(d.set.f32[0] == 3 && d.set.labels[0] == 6 && d.set.labels[1] == 7);
	rvl_dataset_clear(&d);
	ck_assert_int_eq(rvl_dataset_read(in_dir("u.npy"), in_dir("l.npy"), 3, 2, &d), 0);
	ck_assert_uint_eq(d.set.count, 1);
	ck_assert_uint_eq(d.set.size, 2);
	ck_assert_ptr_null(d.set.f32);
	ck_assert(d.set.u8[0] == 26 && d.set.u8[1] == 27 && d.set.labels[0] == 8);
	rvl_dataset_clear(&d);
}
END_TEST

static void refuses(const char *data, const char *labels, uint64_t first, uint64_t count, int code, const char *text)
{
	struct rvl_dataset d = { 0 };
	char path[64], say[256];

	/* The names are in the scratch folder, and errors contain them. */
	snprintf(path, sizeof(path), "%s", in_dir(data));
	snprintf(say, sizeof(say), text, in_dir(code == RVL_EXIT_REFUSED && strstr(text, "labels are") ? labels : data));
	ck_assert_int_eq(rvl_dataset_read(path, in_dir(labels), first, count, &d), code);
	complained(say);
	rvl_dataset_clear(&d);
}

START_TEST(data_sets_that_do_not_fit)
{
	static const int8_t bad[8] = { 0 };

	put_npy("f.npy", RIVULET_F32, 4, 3, values);
	put_npy("one.npy", RIVULET_F32, 4, 0, values);
	put_npy("s.npy", RIVULET_S8, 4, 2, bad);
	put_npy("l.npy", RIVULET_U8, 4, 0, classes);
	put_npy("l3.npy", RIVULET_U8, 3, 0, classes);
	put_npy("l2.npy", RIVULET_U8, 2, 2, classes);
	put_npy("ls.npy", RIVULET_S8, 4, 0, bad);
	refuses("one.npy", "l.npy", 0, 9, RVL_EXIT_REFUSED, "%s: examples are uint8 or float32, one in each row");
	refuses("s.npy", "l.npy", 0, 9, RVL_EXIT_REFUSED, "%s: examples are uint8 or float32, one in each row");
	refuses("f.npy", "l2.npy", 0, 9, RVL_EXIT_REFUSED, "%s: labels are one row of uint8 or int64");
	refuses("f.npy", "ls.npy", 0, 9, RVL_EXIT_REFUSED, "%s: labels are one row of uint8 or int64");
	refuses("f.npy", "l3.npy", 0, 9, RVL_EXIT_REFUSED, "4 examples but 3 labels");
	refuses("f.npy", "l.npy", 4, 9, RVL_EXIT_USAGE, "--first and --count leave no examples of 4");
	refuses("f.npy", "l.npy", 0, 0, RVL_EXIT_USAGE, "--first and --count leave no examples of 4");
}
END_TEST

/* ---- recorded outputs ---- */

static int record(const char *magic, uint32_t version, uint32_t images, uint16_t columns, uint8_t is_signed,
		  size_t size, struct rvl_expect *x)
{
	uint8_t file[64] = { 0 };

	memcpy(file, magic, 4);
	memcpy(file + 4, &version, 4);
	memcpy(file + 8, &images, 4);
	memcpy(file + 12, &columns, 2);
	file[14] = is_signed;
	file[16] = 77;
	ck_assert_int_eq(rvl_write_file(in_dir("x"), file, size), 0);
	return rvl_expect_read(in_dir("x"), x);
}

/* Proves that each field of the header is checked, and that the size must be exact. */
START_TEST(recorded_outputs)
{
	struct rvl_expect x;
	int bad = 0;

	for (uint8_t s = 0; s < 2; s++) {
		ck_assert_int_eq(record("RVEX", 1, 3, 4, s, 28, &x), 0);
		ck_assert(x.images == 3 && x.classes == 4 && x.is_signed == s && x.q[0] == 77);
		rvl_blob_clear(&x.blob);
	}
	bad += record("RVEY", 1, 3, 4, 0, 28, &x) == RVL_EXIT_REFUSED;
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "/x: not a file of recorded outputs"));
	rvl_tool_error_clear();
	bad += record("RVEX", 1, 3, 4, 0, 15, &x) == RVL_EXIT_REFUSED;
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "/x: not a file of recorded outputs"));
	rvl_tool_error_clear();
	bad += record("RVEX", 2, 3, 4, 0, 28, &x) == RVL_EXIT_REFUSED;
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "/x: version 2, 3 images x 4 classes do not fit 28 bytes"));
	bad += record("RVEX", 1, 3, 4, 2, 28, &x) == RVL_EXIT_REFUSED;
	bad += record("RVEX", 1, 3, 4, 0, 27, &x) == RVL_EXIT_REFUSED;
	bad += record("RVEX", 1, 3, 4, 0, 29, &x) == RVL_EXIT_REFUSED;
	bad += record("RVEX", 1, 3, 0, 0, 16, &x) == RVL_EXIT_REFUSED;
	ck_assert_int_eq(bad, 7);
}
END_TEST

/* ---- rivulet plan ---- */

#define PLAN "plan models/mlp.onnx --length 64 --data x,y --time-constraint "
#define LEVELS "1s --levels l6,l4,l3 "

/* Proves the text for each option that is just beyond its limit. */
START_TEST(plan_mistakes)
{
	static const struct { const char *words, *says; } wrong[] = {
		{ "1s --levels l7", "\"l7\" is no level of sc-edge: l1 (slowest) to l6, or 0 to 5" },
		{ "1s --levels l0", "\"l0\" is no level of sc-edge: l1 (slowest) to l6, or 0 to 5" },
		{ "1s --levels 6", "\"6\" is no level of sc-edge: l1 (slowest) to l6, or 0 to 5" },
		{ "1s --levels 5,", "\"\" is no level of sc-edge: l1 (slowest) to l6, or 0 to 5" },
		{ "1s --levels 5x,4", "\"5x\" is no level of sc-edge: l1 (slowest) to l6, or 0 to 5" },
		{ "1s --levels 4,5", "--levels: \"4,5\" does not fall: the battery passes the fastest first" },
		{ "1s --levels 4,4", "--levels: \"4,4\" does not fall: the battery passes the fastest first" },
		{ LEVELS "--accuracy 100.1", "--accuracy: \"100.1\" is no list of numbers of 0 to 100" },
		{ LEVELS "--accuracy -0.1", "--accuracy: \"-0.1\" is no list of numbers of 0 to 100" },
		{ LEVELS "--accuracy nan", "--accuracy: \"nan\" is no list of numbers of 0 to 100" },
		{ LEVELS "--accuracy 1,2", "--accuracy has 2 values for 3 levels" },
		{ LEVELS "--accuracy 1,2,3,4", "--accuracy has 4 values for 3 levels" },
		{ LEVELS "--accuracy 1;2", "--accuracy: \"1;2\" is no list of numbers of 0 to 100" },
		{ LEVELS "--accuracy 1,", "--accuracy: \"1,\" is no list of numbers of 0 to 100" },
		{ LEVELS "--shares 0", "--shares: \"0\" is no list of numbers of 1e-06 to 1e+06" },
		{ LEVELS "--shares 1,2", "--shares has 2 values for 3 levels" },
		{ LEVELS "--margin 100.5", "--margin: \"100.5\" is no number of 0 to 100" },
		{ LEVELS "--margin -1", "--margin: \"-1\" is no number of 0 to 100" },
		{ LEVELS "--margin 1x", "--margin: \"1x\" is no number of 0 to 100" },
		{ LEVELS "--battery 0", "--battery: \"0\" is no number of 1e-09 to 1e+09" },
		{ LEVELS "--charge 100.5", "--charge: \"100.5\" is no number of 0 to 100" },
		{ LEVELS "--rate 0", "--rate: \"0\" is no number of 1e-06 to 1e+09" },
		{ LEVELS "--base-power -1", "--base-power: \"-1\" is no number of 0 to 1e+06" },
		{ LEVELS "--reward-range 90,90", "--reward-range: \"90,90\" does not rise" },
		{ LEVELS "--reward-range 50", "--reward-range: \"50\" does not rise" },
		{ LEVELS "--reward-range 0,101", "--reward-range: \"0,101\" is no list of numbers of 0 to 100" },
		{ LEVELS "--penalty -0.1", "--penalty: \"-0.1\" is no number of 0 to 1e+06" },
		{ LEVELS "--tolerance 100.5", "--tolerance: \"100.5\" is no number of 0 to 100" },
		{ LEVELS "--objective fun", "--objective is accuracy, runs or reward, not \"fun\"" },
		{ LEVELS "--modes sc,sc", "--modes is sc, int8 or sc,int8, not \"sc,sc\"" },
		{ LEVELS "--modes int8", "--length and --keep-int8 go with --modes sc" },
		{ LEVELS "--data x,", "--data takes IMAGES,LABELS, not \"x,\"" },
		{ LEVELS "--data ,y", "--data takes IMAGES,LABELS, not \",y\"" },
		{ LEVELS "--data xy", "--data takes IMAGES,LABELS, not \"xy\"" },
	};
	static const char *const no_times[] = { "5", "0s", "-1s", "infs", "nans", "1m", "s", "1*7@l6", "1*257@l6",
						"0*64@l6", "-1*64@l6", "1*64", "inf*64@l6", "*64@l6" };
	char line[300], text[200];

	for (size_t i = 0; i < N(wrong); i++) {
		snprintf(line, sizeof(line), PLAN "%s", wrong[i].words);
		EXPECT(line, RVL_EXIT_USAGE);
		complained(wrong[i].says);
	}
	for (size_t i = 0; i < N(no_times); i++) {
		snprintf(line, sizeof(line), PLAN "%s", no_times[i]);
		EXPECT(line, RVL_EXIT_USAGE);
		snprintf(text, sizeof(text), "--time-constraint: \"%s\" is no time (143ms, 0.2s) and no FACTOR*BITS@LEVEL "
			 "(1.005*64@l6)", no_times[i]);
		complained(text);
	}
	EXPECT("plan models/mlp.onnx --time-constraint 1s", RVL_EXIT_USAGE);
	complained("rivulet plan takes --time-constraint and --data");
	EXPECT("plan models/mlp.onnx --data x,y", RVL_EXIT_USAGE);
	complained("rivulet plan takes --time-constraint and --data");
}
END_TEST

/*
 * Proves that each option accepts the values at its limits: the error is then about missing data.
 */
START_TEST(plan_limits)
{
	static const char *const words[] = {
		"1us", "1ms", "1s", "1e-9s", "1*64@l6", "0.5*8@0", "2*256@5", LEVELS "--accuracy 0", LEVELS "--accuracy 100",
		LEVELS "--accuracy 1,2,3", LEVELS "--shares 1e-6,1e6,1", LEVELS "--margin 0", LEVELS "--margin 100",
		LEVELS "--battery 1e-9", LEVELS "--battery 1e9", LEVELS "--charge 0", LEVELS "--charge 100",
		LEVELS "--rate 1e-6", LEVELS "--rate 1e9", LEVELS "--base-power 0", LEVELS "--reward-range 0,100",
		LEVELS "--penalty 0", LEVELS "--tolerance 0", LEVELS "--tolerance 100", LEVELS "--objective accuracy",
		LEVELS "--objective reward", LEVELS "--modes sc,int8", LEVELS "--modes int8,sc", LEVELS "--modes sc",
		"1s --levels 5,4,3,2,1,0", "1s --levels l6,0",
	};
	char line[300];

	for (size_t i = 0; i < N(words); i++) {
		snprintf(line, sizeof(line), PLAN "%s", words[i]);
		EXPECT(line, RVL_EXIT_REFUSED);
		complained("x: No such file or directory");
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("inputs");
	TCase *t = tcase_create("inputs");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, help);
	tcase_add_test(t, first_words);
	tcase_add_test(t, options);
	tcase_add_test(t, times);
	tcase_add_test(t, lists_of_lengths);
	tcase_add_test(t, modes);
	tcase_add_test(t, examples_from_files);
	tcase_add_test(t, examples_of_several_inputs);
	tcase_add_test(t, examples_that_do_not_fit_are_named);
	tcase_add_test(t, archives_that_lie);
	tcase_add_test(t, archives_that_repeat);
	tcase_add_test(t, lengths_by_level);
	tcase_add_test(t, modes_that_clash);
	tcase_add_test(t, data_sets);
	tcase_add_test(t, data_sets_that_do_not_fit);
	tcase_add_test(t, recorded_outputs);
	tcase_add_test(t, plan_mistakes);
	tcase_add_test(t, plan_limits);
	suite_add_tcase(s, t);
	return run_suite(s);
}
