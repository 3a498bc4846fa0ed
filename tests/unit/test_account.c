/* SPDX-License-Identifier: MIT */
/*
 * Compares the compiler's account of each model (layers, cycles, bytes, memory, energy by level)
 * with the one recorded in tests/data/accounts.txt. After an intended change of costs, run the test
 * with RIVULET_ACCOUNTS=write and review the difference.
 */
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "rivulet_compiler.h"
#include "rivulet_program.h"
#include "suite.h"

#define RECORD "tests/data/accounts.txt"
#define QDQ(name) "tests/data/qdq/" name "/model.onnx"

struct account {
	const char *name;
	const char *model, *board;
	struct rivulet_compile_options opt;
};

static const char *const first[] = { "first" };
static const char *const ends[] = { "first", "last" };

#define STOCHASTIC .stochastic = true

static const struct account accounts[] = {
	{ "lenet", "models/lenet.onnx", "zu3eg-64", { 0 } },
	{ "lenet", "models/lenet.onnx", "zu3eg-128", { 0 } },
	{ "lenet", "models/lenet.onnx", "zu3eg-256", { 0 } },
	{ "lenet", "models/lenet.onnx", "cyclonev-64", { 0 } },
	{ "lenet", "models/lenet.onnx", "sc-edge", { 0 } },
	{ "lenet batch=4", "models/lenet.onnx", "zu3eg-128", { .batch = 4 } },
	{ "lenet serial", "models/lenet.onnx", "zu3eg-64", { .serial = true } },
	{ "lenet prof", "models/lenet.onnx", "zu3eg-64", { .prof = true } },
	{ "lenet cpu", "models/lenet.onnx", "zu3eg-64", { .cpu_only = true } },
	{ "lenet bits=32", "models/lenet.onnx", "sc-edge", { STOCHASTIC, .length = { 32, 64 } } },
	{ "lenet keep=first", "models/lenet.onnx", "sc-edge",
	  { STOCHASTIC, .length = { 16 }, .keep_int8 = first, .n_keep_int8 = 1 } },
	{ "lenet keep=ends", "models/lenet.onnx", "sc-edge",
	  { STOCHASTIC, .length = { 8, RIVULET_NO_VARIANT }, .keep_int8 = ends,
	    .n_keep_int8 = 2 } },
	{ "resnet", "models/resnet.onnx", "zu3eg-64", { 0 } },
	{ "resnet", "models/resnet.onnx", "zu3eg-256", { 0 } },
	{ "resnet", "models/resnet.onnx", "cyclonev-64", { 0 } },
	{ "lenet bits=128", "models/lenet.onnx", "sc-edge",
	  { STOCHASTIC, .length = { 128, 256, 8 } } },
	{ "mlp", "models/mlp.onnx", "zu3eg-64", { 0 } },
	{ "mlp", "models/mlp.onnx", "sc-edge", { 0 } },
	{ "add_const_u8", QDQ("add_const_u8"), "zu3eg-64", { 0 } },
	{ "batch_norm_s8", QDQ("batch_norm_s8"), "zu3eg-64", { 0 } },
	{ "clip_binding_s8", QDQ("clip_binding_s8"), "zu3eg-64", { 0 } },
	{ "conv_dilated_s8", QDQ("conv_dilated_s8"), "zu3eg-64", { 0 } },
	{ "conv_float_bias_u8", QDQ("conv_float_bias_u8"), "zu3eg-64", { 0 } },
	{ "conv_grouped_s8", QDQ("conv_grouped_s8"), "zu3eg-64", { 0 } },
	{ "conv_grouped_s8", QDQ("conv_grouped_s8"), "cyclonev-64", { 0 } },
	{ "conv_large_u8", QDQ("conv_large_u8"), "zu3eg-64", { 0 } },
	{ "conv_large_u8", QDQ("conv_large_u8"), "cyclonev-64", { 0 } },
	{ "conv_large_u8", QDQ("conv_large_u8"), "zu3eg-256", { 0 } },
	{ "conv_relu_u8", QDQ("conv_relu_u8"), "zu3eg-64", { 0 } },
	{ "conv_strided_s8", QDQ("conv_strided_s8"), "zu3eg-64", { 0 } },
	{ "depthwise_clip_u8", QDQ("depthwise_clip_u8"), "zu3eg-64", { 0 } },
	{ "gap_gemm_s8", QDQ("gap_gemm_s8"), "zu3eg-64", { 0 } },
	{ "gap_gemm_s8 average", QDQ("gap_gemm_s8"), "zu3eg-64", { .average_within_1 = true } },
	{ "matmul_s8", QDQ("matmul_s8"), "zu3eg-64", { 0 } },
	{ "mlp_u8", QDQ("mlp_u8"), "zu3eg-64", { 0 } },
	{ "pools_u8", QDQ("pools_u8"), "zu3eg-64", { 0 } },
	{ "pools_u8 average", QDQ("pools_u8"), "zu3eg-64", { .average_within_1 = true } },
	{ "qlinear_s8", QDQ("qlinear_s8"), "zu3eg-64", { 0 } },
	{ "qlinear_u8", QDQ("qlinear_u8"), "zu3eg-64", { 0 } },
	{ "relu_any_zero_point_u8", QDQ("relu_any_zero_point_u8"), "zu3eg-64", { 0 } },
	{ "residual_s8", QDQ("residual_s8"), "zu3eg-64", { 0 } },
	{ "residual_u8", QDQ("residual_u8"), "zu3eg-64", { 0 } },
	{ "residual_u8 prof serial", QDQ("residual_u8"), "zu3eg-128",
	  { .prof = true, .serial = true } },
	{ "transpose_s8", QDQ("transpose_s8"), "zu3eg-64", { 0 } },
};

static void put_layers(FILE *f, const struct rivulet_explain *e)
{
	for (uint32_t i = 0; i < e->n_rows; i++) {
		const struct rivulet_explain_row *r = &e->rows[i];

		fprintf(f, "layer %u %s %s %s out=%s macs=%" PRIu64 " cycles=%" PRIu64
			   " read=%" PRIu64 " write=%" PRIu64 " array=%.4f bound=%s products=%" PRIu64
			   "%s%s\n",
			r->step, r->where, r->op, r->node, r->out, r->macs, r->cycles,
			r->read_bytes, r->write_bytes, r->utilisation, r->bound, r->array_macs,
			*r->fused ? " with=" : "",
			r->fused);
	}
}

static void put_segments(FILE *f, const struct rivulet_explain *e)
{
	for (uint32_t i = 0; i < e->n_segments; i++) {
		const struct rivulet_explain_segment *s = &e->segments[i];

		fprintf(f, "npu %u layers=%u insns=%u macs=%" PRIu64 " array=%" PRIu64
			   " streams=%" PRIu64 " fJ=%" PRIu64 " cycles=%" PRIu64,
			s->step, s->layers, s->instructions, s->macs, s->array_macs, s->stream_macs,
			s->stream_fj, s->cycles);
		fprintf(f, " busy=%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 " port=%" PRIu64
			   " read=%" PRIu64 " write=%" PRIu64 " array=%.4f\n",
			s->busy[0], s->busy[1], s->busy[2], s->busy[3], s->port_busy, s->read_bytes,
			s->write_bytes, s->utilisation);
	}
}

static void put_levels(FILE *f, const struct rivulet_explain *e)
{
	for (uint32_t i = 0; i < e->n_levels; i++)
		fprintf(f, "level %u bits=%u hz=%" PRIu64 " cycles=%" PRIu64 " ms=%.6f mJ=%.6f\n",
			e->level[i].level, e->level[i].length, e->level[i].hz, e->level[i].cycles,
			e->level[i].seconds * 1e3, e->level[i].joule * 1e3);
	fprintf(f, "peak=%u program=%" PRIu64 " weights=%" PRIu64 " arena=%" PRIu64
		   " cascades=%u saved=%" PRId64 " prefetches=%u\n\n", e->peak, e->program_bytes,
		e->weight_bytes, e->arena_bytes, e->cascades, e->cascade_bytes, e->prefetches);
}

static void put_account(FILE *f, const struct account *a)
{
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	struct rivulet_explain e;
	struct rivulet_board b;
	char why[256];
	size_t size;
	void *onnx = read_file(a->model, &size);

	ck_assert_msg(!rivulet_board_load(&b, a->board, why, sizeof(why)), "%s", why);
	ck_assert_msg(!rivulet_compile(onnx, size, &b, &a->opt, &program, &e, &err), "%s on %s: %s",
		      a->name, a->board, err.msg);
	fprintf(f, "%s on %s\n", a->name, a->board);
	put_layers(f, &e);
	put_segments(f, &e);
	put_levels(f, &e);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	free(onnx);
}

/* Returns the account below @heading, up to the empty line that ends it. */
static char *recorded(const char *all, const char *heading)
{
	const char *at = strstr(all, heading);
	const char *end = at ? strstr(at, "\n\n") : NULL;

	ck_assert_msg(end != NULL, "%s has no \"%s\": run this with RIVULET_ACCOUNTS=write", RECORD,
		      heading);
	return strndup(at, (size_t)(end - at) + 2);
}

/* Fails at the first line that differs. */
static void compare_lines(char *have, char *want, const char *heading)
{
	char *h, *w, *next_h = have, *next_w = want;

	for (;;) {
		h = strsep(&next_h, "\n");
		w = strsep(&next_w, "\n");
		if (!h || !w)
			break;
		ck_assert_msg(!strcmp(h, w), "%s:\n have %s\n want %s\n", heading, h, w);
	}
	ck_assert_ptr_eq(h, w);
}

static bool recording(void)
{
	const char *record = getenv("RIVULET_ACCOUNTS");

	return record && !strcmp(record, "write");
}

static void append(const char *text)
{
	FILE *f = fopen(RECORD, "ae");

	ck_assert_msg(f && fputs(text, f) >= 0 && !fclose(f), "%s: %s", RECORD, strerror(errno));
}

START_TEST(accounts_are_as_recorded)
{
	const struct account *a = &accounts[_i];
	char heading[100], *text = NULL, *all, *want;
	size_t length = 0, size;
	FILE *f = open_memstream(&text, &length);

	put_account(f, a);
	fclose(f);
	if (recording()) {
		append(text);
		free(text);
		return;
	}
	all = read_file(RECORD, &size);
	snprintf(heading, sizeof(heading), "%s on %s\n", a->name, a->board);
	want = recorded(all, heading);
	compare_lines(text, want, a->name);
	free(want);
	free(all);
	free(text);
}
END_TEST

/* ---- the account as text and as JSON ---- */

static struct rivulet_explain_row rows[] = {
	{ .node = "in", .op = "QuantizeLinear", .where = "cpu", .bound = "CPU", .reason = "floats", .fused = "", .pitches = "",
	  .out = "1x3", .layout = "plain", .step = 0 },
	{ .node = "conv", .op = "QConv", .where = "npu", .reason = "gather", .fused = "relu", .pitches = "",
	  .out = "1x6x14x14", .layout = "blocked",
	  .bound = "array", .array_macs = 235200, .step = 1, .macs = 117600, .cycles = 6496, .read_bytes = 1540, .write_bytes = 999,
	  .utilisation = 0.283, .gops = 24.1144, .dense_gops = 12.0572,
	  .contest = { "energy", "planes", "dense", 2100, 1900, 1.5e-6, 1.75e-6 } },
	{ .node = "huge", .op = "QConv", .where = "npu", .reason = "", .fused = "", .pitches = "", .out = "1x6", .layout = "nhwc",
	  .bound = "port", .step = 1,
	  .macs = UINT64_C(12345678901), .cycles = 1000, .read_bytes = 1000000, .write_bytes = 9995,
	  .utilisation = 1, .dense_gops = 8222222.148 },
};

static struct rivulet_explain_segment segment = {
	.step = 1, .layers = 2, .instructions = 140, .macs = 1, .array_macs = 2, .stream_macs = 3,
	.stream_fj = 4, .cycles = 15408, .busy = { 4590, 11500, 1020, 134 }, .port_busy = 4700,
	.read_bytes = 70000, .write_bytes = 1800, .layer_wait = 900, .weight_wait = 30,
	.utilisation = 0.422,
};

static void made_up(struct rivulet_explain *e)
{
	*e = (struct rivulet_explain){ .board = "made", .peak = 64, .n_rows = 3, .rows = rows,
		.n_segments = 1, .segments = &segment, .n_levels = 2, .program_bytes = 76200,
		.weight_bytes = 68100, .arena_bytes = 2500, .cascades = 2, .cascade_bytes = 4700,
		.views = 3, .view_bytes = 1200, .copies = 1, .copy_bytes = 400, .prefetches = 1,
		.level = { { .level = 0, .hz = 100000000, .cycles = 15408, .seconds = 0.00015408,
			     .joule = 0.000139 },
			   { .level = 1, .length = 32, .hz = 333000000, .cycles = 15408,
			     .seconds = 0.0000462, .joule = 0.0000641 } } };
}

static const char *const made_text =
	"board made, peak 64 MACs per cycle\n"
	"step  layer  op              result     layout   on       MACs   cycles   read B  wri"
	"te B  array     GOPS    dense  bound  notes\n"
	"   0  in     QuantizeLinear  1x3        plain    cpu         -        -        -        -     "
	" -        -        -  CPU    floats\n"
	"   1  conv   QConv           1x6x14x14  blocked  npu     118 k   6.50 k   1.54 k    999   28.3"
	" %    24.11    12.06  array  gather; with relu\n"
	"   1  huge   QConv           1x6        nhwc     npu    12.3 G   1.00 k   1.00 M   10.0 k 100."
	"0 %     0.00 8222222.15  port   \n"
	"\n"
	"modes chosen by energy, with the layer before; and those that came next\n"
	"   1  conv                       planes:   2.10 k cycles      1.500 uJ;    dense:   1.90 k cycles      1.750 uJ\n"
	"\n"
	"NPU step  layers     insns    cycles      LOAD      CONV       ALU     STORE      por"
	"t    array\n"
	"       1       2       140    15.4 k    4.59 k    11.5 k    1.02 k     134      4.70 "
	"k   42.2 %\n"
	"\n"
	"level         clock   bits       cycles     NPU time     NPU energy\n"
	"       0    100 MHz   int8        15408     0.154 ms       0.139 mJ\n"
	"       1    333 MHz     32        15408     0.046 ms       0.064 mJ\n"
	"\n"
	"program 76.2 kB, weights 68.1 kB, arena 2.50 kB\n"
	"3 values that nothing moves, being views of others: 1.20 kB\n"
	"1 copy of values that cannot be views: 400  B\n"
	"2 values kept in the NPU between layers: 4.70 kB fewer moved\n"
	"1 layer whose first weights load before the end of the layer before\n";

static const char *const made_json =
	"{\n"
	"  \"board\": \"made\",\n"
	"  \"peak\": 64,\n"
	"  \"layers\": [\n"
	"    {\"step\": 0, \"node\": \"in\", \"op\": \"QuantizeLinear\", \"where\": \"cpu\", "
	"\"reason\": \"floats\", \"fused\": \"\", \"out\": \"1x3\", \"layout\": \"plain\", \"pitches\": \"\", \"bound\": \"CPU\", \"mac"
	"s\": 0, \"array_macs\": 0, \"cycles\": 0, \"read_bytes\": 0, \"write_bytes\": 0, \"utilisa"
	"tion\": 0.000000, \"gops\": 0.000, \"dense_gops\": 0.000},\n"
	"    {\"step\": 1, \"node\": \"conv\", \"op\": \"QConv\", \"where\": \"npu\", \"reason"
	"\": \"gather\", \"fused\": \"relu\", \"out\": \"1x6x14x14\", \"layout\": \"blocked\", \"pitches\": \"\", \"bound\": \"array\", \""
	"macs\": 117600, \"array_macs\": 235200, \"cycles\": 6496, \"read_bytes\": 1540, \"write_by"
	"tes\": 999, \"utilisation\": 0.283000, \"gops\": 24.114, \"dense_gops\": 12.057, "
	"\"contest\": {\"measure\": \"energy\", \"chosen\": \"planes\", \"chosen_cycles\": 2100, "
	"\"chosen_joule\": 1.5e-06, \"other\": \"dense\", \"other_cycles\": 1900, \"other_joule\": 1.75e-06}},\n"
	"    {\"step\": 1, \"node\": \"huge\", \"op\": \"QConv\", \"where\": \"npu\", \"reason"
	"\": \"\", \"fused\": \"\", \"out\": \"1x6\", \"layout\": \"nhwc\", \"pitches\": \"\", \"bound\": \"port\", \"macs\": 1234567890"
	"1, \"array_macs\": 0, \"cycles\": 1000, \"read_bytes\": 1000000, \"write_bytes\": 9995, \"u"
	"tilisation\": 1.000000, \"gops\": 0.000, \"dense_gops\": 8222222.148}\n"
	"  ],\n"
	"  \"segments\": [\n"
	"    {\"step\": 1, \"layers\": 2, \"instructions\": 140, \"macs\": 1, \"array_macs\": "
	"2, \"cycles\": 15408, \"load_busy\": 4590, \"conv_busy\": 11500, \"alu_busy\": 1020, "
	"\"store_busy\": 134, \"port_busy\": 4700, \"read_bytes\": 70000, \"write_bytes\": 180"
	"0, \"layer_wait\": 900, \"weight_wait\": 30, \"utilisation\": 0.422000}\n"
	"  ],\n"
	"  \"levels\": [\n"
	"    {\"level\": 0, \"hz\": 100000000, \"length\": 0, \"cycles\": 15408, \"seconds\": "
	"0.00015408, \"joule\": 0.000139},\n"
	"    {\"level\": 1, \"hz\": 333000000, \"length\": 32, \"cycles\": 15408, \"seconds\":"
	" 4.62e-05, \"joule\": 6.41e-05}\n"
	"  ],\n"
	"  \"program_bytes\": 76200,\n"
	"  \"weight_bytes\": 68100,\n"
	"  \"arena_bytes\": 2500,\n"
	"  \"views\": 3,\n"
	"  \"view_bytes\": 1200,\n"
	"  \"copies\": 1,\n"
	"  \"copy_bytes\": 400,\n"
	"  \"reorders\": 0,\n"
	"  \"reorder_bytes\": 0,\n"
	"  \"cascades\": 2,\n"
	"  \"cascade_bytes\": 4700,\n"
	"  \"prefetches\": 1,\n"
	"  \"binary\": \"\"\n"
	"}\n";

START_TEST(text_and_json)
{
	struct rivulet_blob text = { 0 }, json = { 0 };
	struct rivulet_explain e;

	made_up(&e);
	ck_assert_int_eq(rivulet_explain_text(&e, &text), 0);
	ck_assert_int_eq(rivulet_explain_json(&e, &json), 0);
	ck_assert_str_eq(text.data, made_text);
	ck_assert_uint_eq(text.size, strlen(made_text));
	ck_assert_str_eq(json.data, made_json);
	ck_assert_uint_eq(json.size, strlen(made_json));
	rivulet_blob_free(&text);
	rivulet_blob_free(&json);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("account");
	TCase *t = tcase_create("all");

	if (recording())
		unlink(RECORD);
	tcase_add_loop_test(t, accounts_are_as_recorded, 0, sizeof(accounts) / sizeof(accounts[0]));
	tcase_add_test(t, text_and_json);
	suite_add_tcase(s, t);
	return run_suite(s);
}
