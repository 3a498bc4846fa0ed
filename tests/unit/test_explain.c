// SPDX-License-Identifier: MIT
/*
 * The account of a model as CSV and as an HTML page. tests/html_strict.py parses the page and compares
 * it with the CSV.
 */
#include <check.h>

#include "files.h"
#include "middle.h"
#include "onnx_text.h"
#include "rivulet_compiler.h"
#include "suite.h"
#include "verb.h"

static char dir[SCRATCH_MAX];

static void setup(void)
{
	make_scratch(dir);
}

static void teardown(void)
{
	remove_scratch(dir);
}

/* Compares DIR/page.html with DIR/table.csv. */
static void check_page(void)
{
	char command[700], said[4000] = "";
	size_t n;
	FILE *f;

	snprintf(command, sizeof(command), "python3 tests/html_strict.py %s %s 2>&1", path_in(dir, "page.html"),
		 path_in(dir, "table.csv"));
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	n = fread(said, 1, sizeof(said) - 1, f);
	said[n] = 0;
	ck_assert_msg(!pclose(f), "%s", said);
}

/* Runs `explain WORDS` into DIR/page.html, and without @device into DIR/table.csv. */
static void explain(const char *words, const char *device)
{
	char text[800];

	snprintf(text, sizeof(text), "explain %s%s --html %s", words, device, path_in(dir, "page.html"));
	EXPECT(text, 0);
	ck_assert_str_eq(out, "");
	snprintf(text, sizeof(text), "explain %s --csv", words);
	EXPECT(text, 0);
	put_file(dir, "table.csv", out);
}

static char *page(void)
{
	size_t size;

	return read_file(path_in(dir, "page.html"), &size);
}

/* Proves that the pages of real models are passive, well formed, and have the numbers of the CSV. */
START_TEST(of_models)
{
	static const char *const words[] = {
		"models/lenet.onnx", "models/resnet.onnx --board zu3eg-256", "models/lenet20.onnx",
		"models/lenet.onnx --cpu-only", "models/resnet.onnx --no-cascade --no-views",
		"models/mlp.onnx --board sc-edge --mode sc --length 64",
	};
	char *text;

	explain(words[_i], "");
	check_page();
	text = page();
	if (strstr(words[_i], "cpu-only"))
		ck_assert_ptr_nonnull(strstr(text, "so there is no roofline"));
	else
		ck_assert_ptr_nonnull(strstr(text, "Estimated: the timeline model"));
	free(text);
}
END_TEST

/* Counts @what in @text. */
static int count(const char *text, const char *what)
{
	int n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/*
 * Proves that with --measure the timeline is that of a run: the page says so, and its cycles are those
 * of the device, which the PROF records delay. The rows are those of the compilation with records.
 */
START_TEST(measured)
{
	char *run, *model, words[300];

	explain("models/resnet.onnx", "");
	model = page();
	snprintf(words, sizeof(words), "explain models/resnet.onnx --measure sim:zu3eg-64 --html %s",
		 path_in(dir, "page.html"));
	EXPECT(words, 0);
	run = page();
	ck_assert_ptr_nonnull(strstr(run, "Measured: the PROF records of a run."));
	ck_assert_ptr_null(strstr(run, "Estimated"));
	ck_assert_ptr_null(strstr(model, "Measured"));
	/* Each of the 11 layers on the NPU has spans of CONV or ALU; few results are stored. */
	ck_assert_int_gt(count(run, ": CONV, cycles "), 8);
	ck_assert_int_gt(count(run, ": ALU, cycles "), 8);
	ck_assert_int_gt(count(run, ": STORE, cycles "), 0);
	ck_assert_int_gt(count(run, "s3b: CONV, cycles "), 0);
	ck_assert_ptr_nonnull(strstr(run, "class=\"port\""));
	free(run);
	free(model);
}
END_TEST

/* Proves the page of a program file: edges from its tensors, spans from its streams. */
START_TEST(of_a_program)
{
	char words[300], path[200], *text;

	snprintf(path, sizeof(path), "%s", path_in(dir, "p.rvp"));
	snprintf(words, sizeof(words), "compile models/lenet.onnx -o %s", path);
	EXPECT(words, 0);
	explain(path, "");
	check_page();
	text = page();
	ck_assert_int_eq(count(text, "<path d="), 2); /* CPU step to NPU step to CPU step */
	ck_assert_int_gt(count(text, ": CONV, cycles "), 0);
	free(text);
	snprintf(words, sizeof(words), "explain %s --measure sim:zu3eg-64 --html x", path);
	EXPECT(words, RVL_EXIT_USAGE);
}
END_TEST

/* Names as a hostile file may have them. */
static const char *const evil[] = {
	"<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "]]></title><style>*{}",
	"a&b;&#x3c;c", "' onload='x", "=HYPERLINK(\"http://x\")", "@SUM(1)", "-1+2", "line\nfeed\r\t\x01\x7f",
	"\xff\xfe\xc0\xaf", "\xef\xbf\xbf\xef\xbf\xbe", "\xed\xa0\x80", "cut \xe2\x82", "\xf0\x9f\x90\xb1 ok",
	"very long name that a box of the graph cannot hold \xe2\x82\xac\xe2\x82\xac\xe2\x82\xac",
};

#define EVIL (sizeof(evil) / sizeof(evil[0]))

static void write_blob(const char *name, struct rivulet_blob *b)
{
	write_file(path_in(dir, name), b->data, b->size);
	rivulet_blob_free(b);
}

/* Text that is compared as XML reads it back cannot have bytes that XML lacks. */
static bool is_text(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f || (unsigned char)*s >= 0x80)
			return false;
	return true;
}

/*
 * Proves that no name reaches the page as markup, in any field, and that the CSV keeps it a text: with
 * names of ASCII the table equals the CSV, with others the page is well formed.
 */
START_TEST(hostile_names)
{
	struct rivulet_explain_row row[EVIL + 1] = { 0 };
	struct rivulet_explain_edge edge[EVIL] = { { 0 } };
	struct rivulet_explain e = { .rows = row, .edges = edge, .peak = 64, .dense_peak = 256, .port_bytes = 16,
				     .n_levels = 1, .level = { { .hz = 333000000 } } };
	struct rivulet_blob html, csv;
	char command[300];

	for (size_t i = 0; i < EVIL; i++) {
		const char *s = evil[i];

		if (_i && !is_text(s))
			continue;
		row[e.n_rows] = (struct rivulet_explain_row){ .node = s, .op = s, .where = e.n_rows % 2 ? "npu" : "cpu",
			.reason = s, .fused = s, .out = s, .layout = "plain", .bound = "array",
			.step = e.n_rows, .macs = e.n_rows % 2 * 1000, .array_macs = 1000, .cycles = 50,
			.read_bytes = 10 * i };
		if (e.n_rows)
			edge[e.n_edges++] = (struct rivulet_explain_edge){ e.n_rows / 2, e.n_rows };
		e.n_rows++;
	}
	rivulet_explain_derive(&e);
	ck_assert_int_eq(rivulet_explain_html(&e, "<b>\"&'\xff", &html), 0);
	ck_assert_int_eq(rivulet_explain_csv(&e, &csv), 0);
	ck_assert_ptr_null(strstr(html.data, "<script"));
	ck_assert_ptr_null(strstr(html.data, "<img"));
	ck_assert_ptr_null(strstr(html.data, "<b>"));
	write_blob("page.html", &html);
	write_blob("table.csv", &csv);
	if (_i) {
		check_page();
		return;
	}
	snprintf(command, sizeof(command), "python3 -c 'import sys,xml.etree.ElementTree as e;"
		 "e.parse(sys.argv[1])' %s", path_in(dir, "page.html"));
	ck_assert_int_eq(system(command), 0);
}
END_TEST

/* Proves the exact text of a CSV: quotes, formulas, control characters, decimals. */
START_TEST(csv_text)
{
	struct rivulet_explain_row row = { .node = "a \"b\", c", .op = "=1+1", .where = "npu", .reason = "x\ny",
		.fused = "", .out = "1x2", .layout = "nhwc", .step = 3, .bound = "port", .macs = 64, .array_macs = 128,
		.cycles = 4, .read_bytes = 5, .write_bytes = 6 };
	struct rivulet_explain e = { .rows = &row, .n_rows = 1, .peak = 64, .n_levels = 1,
				     .level = { { .hz = 1000000000 } } };
	struct rivulet_blob csv;

	rivulet_explain_derive(&e);
	ck_assert_int_eq(rivulet_explain_csv(&e, &csv), 0);
	ck_assert_str_eq(csv.data,
			 "step,node,op,where,out,layout,macs,array_macs,cycles,read_bytes,write_bytes,utilisation,"
			 "gops,dense_gops,bound,fused,reason\r\n"
			 "3,\"a \"\"b\"\", c\",\"'=1+1\",\"npu\",\"1x2\",\"nhwc\",64,128,4,5,6,0.250000,64.000,32.000,"
			 "\"port\",\"\",\"x?y\"\r\n");
	ck_assert_uint_eq(csv.size, strlen(csv.data));
	rivulet_blob_free(&csv);
}
END_TEST

/* One that the CPU computes, and one that nothing computes. */
static const char *const middle[] = {
	MIDDLE("CumSum ad one -> b;"),
	MIDDLE("Frobnicate ad -> b;"),
};

static void put_model(const char *text)
{
	struct pb model = ot_model(text, 13);

	write_file(path_in(dir, "m.onnx"), model.p, model.n);
	free(model.p);
}

/*
 * Proves that edges lead through values that are joined and divided without a copy: results that are
 * parts of one value, and operands that are other parts of it, one with bytes of both results.
 */
START_TEST(edges_of_parts)
{
	char words[300], *text;

	put_model("in a f32 2; in b f32 2; Neg a -> c; Abs b -> d; Concat c d -> e axis=0;"
		  "const h s64 2 1 3; Split e h -> f g axis=0; Exp f -> y; Sqrt g -> z; out y; out z");
	snprintf(words, sizeof(words), "explain %s --html %s", path_in(dir, "m.onnx"), path_in(dir, "page.html"));
	EXPECT(words, 0);
	text = page();
	ck_assert_int_eq(count(text, "<rect "), 4); /* neither Concat nor Split is a step */
	ck_assert_int_eq(count(text, "<path d="), 3);
	free(text);
}
END_TEST

/* Proves that a value read late is drawn in front of its reader, and that ranks begin at the left edge. */
START_TEST(places_of_boxes)
{
	struct rivulet_explain_row row[5] = { 0 };
	struct rivulet_explain_edge edge[] = { { 0, 1 }, { 1, 2 }, { 2, 4 }, { 3, 4 } };
	struct rivulet_explain e = { .rows = row, .edges = edge, .n_rows = 5, .n_edges = 4 };
	/* Boxes are 40 high in ranks of 66. Row 3 depends on none and is beside row 2. */
	static const char *const rect[] = { "x=\"20\" y=\"26\"", "x=\"20\" y=\"92\"", "x=\"20\" y=\"158\"",
					    "x=\"256\" y=\"158\"", "x=\"20\" y=\"224\"" };
	struct rivulet_blob html;
	const char *at;

	for (size_t i = 0; i < 5; i++)
		row[i] = (struct rivulet_explain_row){ .node = "n", .op = "Abs", .where = "cpu", .reason = "",
			.fused = "", .out = "1", .layout = "plain", .bound = "CPU", .step = i };
	ck_assert_int_eq(rivulet_explain_html(&e, "page", &html), 0);
	at = html.data;
	for (size_t i = 0; i < 5; i++) {
		at = strstr(at, "<rect ");
		ck_assert_ptr_nonnull(at);
		at += strlen("<rect ");
		ck_assert_msg(!strncmp(at, rect[i], strlen(rect[i])), "box %zu: %.30s", i, at);
	}
	rivulet_blob_free(&html);
}
END_TEST

/* Proves that the sentence of a mode is whole: that of a layer with fewer pairs in its last block is long. */
START_TEST(whole_notes)
{
	EXPECT("explain models/lenet20.onnx --csv", 0);
	SAYS("sparse: at most 16 weights of a block's row, 6 of the last block's");
}
END_TEST

/*
 * Proves that an operator in the middle that the NPU lacks is a step that explain names, with a reason,
 * and that --require-npu names it too. An operator that nothing computes has "none" in all forms.
 */
START_TEST(operator_in_the_middle)
{
	char words[300], *text;

	put_model(middle[_i]);
	snprintf(words, sizeof(words), "explain %s --csv", path_in(dir, "m.onnx"));
	EXPECT(words, _i ? RVL_EXIT_REFUSED : 0);
	SAYS(_i ? "\"Frobnicate\",\"none\"" : "\"CumSum\",\"cpu\"");
	if (!_i)
		ck_assert_int_eq(count(out, "\"QConv\",\"npu\""), 2);
	put_file(dir, "table.csv", out);
	snprintf(words, sizeof(words), "explain %s --html %s", path_in(dir, "m.onnx"), path_in(dir, "page.html"));
	EXPECT(words, _i ? RVL_EXIT_REFUSED : 0);
	check_page();
	text = page();
	ck_assert_ptr_nonnull(strstr(text, _i ? "<g class=\"none\">" : "<g class=\"cpu\">"));
	free(text);
	snprintf(words, sizeof(words), "explain %s --require-npu", path_in(dir, "m.onnx"));
	EXPECT(words, RVL_EXIT_REFUSED);
	ck_assert_msg(strstr(rvl_tool_error, _i ? "Frobnicate" : "CumSum"), "%s", rvl_tool_error);
	snprintf(words, sizeof(words), "run %s --require-npu --device sim:zu3eg-64", path_in(dir, "m.onnx"));
	EXPECT(words, RVL_EXIT_REFUSED);
	ck_assert_msg(strstr(rvl_tool_error, _i ? "Frobnicate" : "CumSum"), "%s", rvl_tool_error);
}
END_TEST

/* Proves which options exclude each other, and that a page that cannot be written is an error. */
START_TEST(usage)
{
	EXPECT("explain models/lenet.onnx --csv --json", RVL_EXIT_USAGE);
	EXPECT("explain models/lenet.onnx --csv --html x", RVL_EXIT_USAGE);
	EXPECT("explain models/lenet.onnx --measure sim:zu3eg-64", RVL_EXIT_USAGE);
	EXPECT("explain models/lenet.onnx --measure daemon --board zu3eg-64 --html /dev/null", RVL_EXIT_USAGE);
	EXPECT("explain models/lenet.onnx --html /nowhere/x", RVL_EXIT_FAILED);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("explain");
	TCase *t = add_case(s, "forms", 60, setup, teardown);

	tcase_add_loop_test(t, of_models, 0, 6);
	tcase_add_test(t, measured);
	tcase_add_test(t, of_a_program);
	tcase_add_loop_test(t, hostile_names, 0, 2);
	tcase_add_test(t, csv_text);
	tcase_add_test(t, edges_of_parts);
	tcase_add_test(t, places_of_boxes);
	tcase_add_test(t, whole_notes);
	tcase_add_loop_test(t, operator_in_the_middle, 0, 2);
	tcase_add_test(t, usage);
	return run_suite(s);
}
