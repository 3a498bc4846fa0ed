/* SPDX-License-Identifier: MIT */
/*
 * Values that layers of the NPU and steps of the CPU read: the CPU reads copies where the value is then
 * BLOCKED in fewer cycles, and the bytes are those of the CPU's operators.
 */
#include <check.h>
#include <stdio.h>

#include "chance.h"
#include "prog_exec.h"
#include "rivulet_compiler.h"
#include "suite.h"
#include "unit/onnx_text.h"

#define BYTES(name, dims) "in " name " u8 " dims "; const xs f32 - 0.02; const xz u8 - 117; DequantizeLinear " name " xs xz -> x;"
#define WEIGHTS(to, dims) "const w" to " s8 " dims " 9 -70 33 12 -25; const ws" to " f32 - 0.01; const wz" to " s8 - 0;" \
	"DequantizeLinear w" to " ws" to " wz" to " -> wf" to ";"
#define SIZES " const ys f32 - 0.05; const yz u8 - 120; "
/* Value b, 48 channels of 9 x 11, made by one convolution and read by another one. */
#define SHARED BYTES("i", "1,20,9,11") WEIGHTS("a", "48,20,3,3") WEIGHTS("b", "24,48,3,3") SIZES \
	"Conv x wfa -> a pads=[1,1,1,1]; QuantizeLinear a ys yz -> aq; DequantizeLinear aq ys yz -> b;" \
	"Conv b wfb -> y strides=[2,2]; QuantizeLinear y ys yz -> out; out out;"
#define CHANNELS(first, past, to) "const f" to " s64 1 " first "; const p" to " s64 1 " past "; const x" to " s64 1 1;" \
	"Slice b f" to " p" to " x" to " -> " to "; "

/* Value b and its signs, which the layer that makes it makes beside it. */
#define SIGNED BYTES("i", "1,20,9,11") WEIGHTS("a", "48,20,3,3") SIZES \
	"const wb f32 24,48,3,3 0.5 -0.5 0.5 0.5 -0.5; const zero f32 - 0; const one f32 - 1; const minus f32 - -1;" \
	"Conv x wfa -> a pads=[1,1,1,1]; QuantizeLinear a ys yz -> aq; DequantizeLinear aq ys yz -> b;" \
	"GreaterOrEqual b zero -> q; Where q one minus -> t; Conv t wb -> y strides=[2,2];" \
	"QuantizeLinear y ys yz -> out; out out; Softmax b -> s; out s;"

#define DENSE "zu3eg-64"
#define BINARY "zcu102-binary"

static const struct model {
	const char *what, *text;
	int copies;
	const char *layout; /* of the shared value */
	const char *board;
} models[] = {
	{ "a channel", SHARED CHANNELS("0", "1", "c") "Softmax c -> s; out s;", 1, "blocked", DENSE },
	{ "channels that begin a block", SHARED CHANNELS("16", "20", "c") "Softmax c -> s; out s;", 1, "blocked", DENSE },
	{ "channels inside a block", SHARED CHANNELS("8", "9", "c") "Softmax c -> s; out s;", 1, "blocked", DENSE },
	{ "all of it", SHARED "Softmax b -> s; out s;", 1, "blocked", DENSE },
	{ "all of it in another shape",
	  SHARED "const to s64 2 48 99; Reshape b to -> r; Softmax r -> s; out s;", 1, "blocked", DENSE },
	{ "all of it twice, and two parts",
	  SHARED "Softmax b -> s; out s; const to s64 2 99 48; Reshape b to -> r; Softmax r -> t; out t;"
	  CHANNELS("32", "48", "c") "Softmax c -> u; out u;" CHANNELS("0", "2", "d") "Softmax d -> v; out v;", 3,
	  "blocked", DENSE },
	{ "channels that another layer reads, too",
	  SHARED CHANNELS("0", "32", "c") "Softmax c -> s; out s;" WEIGHTS("c", "8,32,3,3")
	  "Conv c wfc -> z; QuantizeLinear z ys yz -> third; out third;", 0, "plain", DENSE },
	{ "rows of whole bursts",
	  BYTES("i", "1,16,2,256") WEIGHTS("a", "16,16,1,1") WEIGHTS("b", "8,16,1,1") SIZES
	  "Conv x wfa -> a; QuantizeLinear a ys yz -> aq; DequantizeLinear aq ys yz -> b;"
	  "Conv b wfb -> y; QuantizeLinear y ys yz -> out; out out; Softmax b -> s; out s;", 0, "plain", DENSE },
	{ "all of it, of which a layer that computes on bits takes the signs", SIGNED, 0, "plain", BINARY },
};

#define MODELS ((int)(sizeof(models) / sizeof(models[0])))
#define OUTPUTS 5
#define MOST_BYTES 32768

static struct rivulet_board board(const struct model *m)
{
	struct rivulet_board b;
	char why[256];

	ck_assert_msg(!rivulet_board_load(&b, m->board, why, sizeof(why)), "%s", why);
	return b;
}

static void compile(const struct model *m, bool cpu, struct rivulet_blob *program, struct rivulet_explain *e)
{
	const struct rivulet_compile_options opt = { .cpu_only = cpu };
	struct rivulet_board b = board(m);
	struct rvl_err err = { "" };
	struct pb onnx = ot_model(m->text, 13);

	ck_assert_msg(!rivulet_compile(onnx.p, onnx.n, &b, &opt, program, e, &err), "%s: %s", m->what, err.msg);
	free(onnx.p);
}

static void run_on(const struct model *m, bool cpu, uint8_t out[OUTPUTS][MOST_BYTES])
{
	struct rivulet_blob program = { 0 };
	struct rivulet_board b = board(m);
	struct rivulet_explain e;
	uint8_t x[8192];
	uint64_t seed = 1;
	struct prog_exec run;

	for (size_t i = 0; i < sizeof(x); i++)
		x[i] = (uint8_t)splitmix(&seed);
	compile(m, cpu, &program, &e);
	ck_assert_int_eq(prog_open(&run, &b, NULL, program.data), 0);
	ck_assert_uint_le(rivulet_program_tensors(program.data)[0].size, sizeof(x));
	ck_assert_uint_le(run.p->outputs, OUTPUTS);
	run.io[0] = x;
	for (uint32_t i = 0; i < run.p->outputs; i++) {
		ck_assert_uint_le(rivulet_program_tensors(program.data)[1 + i].size, MOST_BYTES);
		run.io[1 + i] = out[i];
	}
	ck_assert_msg(!prog_run(&run), "%s: %s", m->what, run.err);
	prog_close(&run, true);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
}

START_TEST(both_sides_read_its_bytes)
{
	static uint8_t cpu[OUTPUTS][MOST_BYTES], npu[OUTPUTS][MOST_BYTES];
	const struct model *m = &models[_i];

	memset(cpu, 0, sizeof(cpu));
	memset(npu, 0, sizeof(npu));
	run_on(m, true, cpu);
	run_on(m, false, npu);
	ck_assert_msg(!memcmp(cpu, npu, sizeof(cpu)), "%s: other bytes than the CPU's", m->what);
}
END_TEST

START_TEST(the_cpu_reads_copies)
{
	const struct model *m = &models[_i];
	struct rivulet_blob program = { 0 };
	const char *layout = NULL;
	struct rivulet_explain e;
	int copies = 0, bits = 0;

	compile(m, false, &program, &e);
	for (uint32_t i = 0; i < e.n_rows; i++) {
		bool npu = !strcmp(e.rows[i].where, "npu");

		copies += npu && !strcmp(e.rows[i].op, "Identity");
		bits += npu && !strcmp(e.rows[i].op, "BinaryConv");
		if (npu && !layout)
			layout = e.rows[i].layout;
	}
	ck_assert_msg((bits > 0) == !strcmp(m->board, BINARY), "%s: %d layers on bits", m->what, bits);
	ck_assert_msg(copies == m->copies, "%s: %d copies", m->what, copies);
	ck_assert_msg(!strcmp(layout, m->layout), "%s: %s", m->what, layout);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("host_copies");
	TCase *t = add_case(s, "host copies", 60, NULL, NULL);

	tcase_add_loop_test(t, both_sides_read_its_bytes, 0, MODELS);
	tcase_add_loop_test(t, the_cpu_reads_copies, 0, MODELS);
	return run_suite(s);
}
