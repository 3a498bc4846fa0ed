/* SPDX-License-Identifier: MIT */
/*
 * Operators that become parts of layers, with the bytes of the CPU's operators. A function of one
 * quantised value is a stage of the layer that makes the value, also where several nodes compute it.
 * Pixels are repeated by LOAD.
 */
#include <check.h>
#include <stdio.h>

#include "chance.h"
#include "prog_exec.h"
#include "program/program.h"
#include "suite.h"
#include "unit/onnx_text.h"

#define MOST_BYTES (1 << 17)

struct function {
	const char *what;
	const char *nodes; /* from x to y; [a b]: QuantizeLinear and DequantizeLinear */
	int opset;
	int layers;
};

static const struct function functions[] = {
	{ "relu", "Relu x -> y;", 13, 1 },
	{ "clip", "const lo f32 - -1; const hi f32 - 2; Clip x lo hi -> y;", 13, 1 },
	{ "relu6", "const lo f32 - 0; const hi f32 - 6; Clip x lo hi -> y;", 13, 1 },
	{ "leaky relu", "LeakyRelu x -> y alpha=0.125f;", 13, 1 },
	{ "prelu, one slope", "const k f32 1 0.25; PRelu x k -> y;", 13, 1 },
	{ "elu", "Elu x -> y;", 13, 1 },
	{ "sigmoid", "Sigmoid x -> y;", 13, 1 },
	{ "tanh", "Tanh x -> y;", 13, 1 },
	{ "hard sigmoid", "HardSigmoid x -> y alpha=0.2f beta=0.5f;", 13, 1 },
	{ "hard swish", "HardSwish x -> y;", 14, 1 },
	{ "mish", "Mish x -> y;", 18, 1 },
	{ "gelu", "Gelu x -> y;", 20, 1 },
	{ "gelu by tanh", "Gelu x -> y approximate='tanh';", 20, 1 },
	{ "silu in two nodes", "Sigmoid x -> a; [a b] Mul x b -> y;", 13, 1 },
	{ "hard swish in four nodes",
	  "const k f32 - 1.5; Add x k -> a; [a b] const lo f32 - 0; const hi f32 - 3; Clip b lo hi -> c;"
	  "[c d] Mul x d -> e; [e f] const sixth f32 - 0.5; Mul f sixth -> y;", 13, 1 },
	{ "hard sigmoid times the value", "HardSigmoid x -> a; [a b] Mul b x -> y;", 13, 1 },
	{ "the value added to itself", "Add x x -> y;", 13, 1 },
	{ "a function of a function", "Sigmoid x -> a; [a b] Tanh b -> c; [c d] Relu d -> y;", 13, 1 },
	{ "then a pool", "Sigmoid x -> a; [a b] MaxPool b -> y kernel_shape=[2,2] strides=[2,2];", 13, 1 },
	{ "then an addition", "LeakyRelu x -> a alpha=0.125f; [a b] Add b r -> y;", 13, 1 },
	{ "silu, then an addition", "Sigmoid x -> a; [a b] Mul x b -> c; [c d] Add r d -> y;", 13, 1 },
	{ "a pad in front of a convolution",
	  "const p s64 8 0 0 1 2 0 0 2 1; Pad x p -> a; const v s8 8,8,3,3 9 -7 3 1 -2; const vs f32 - 0.01;"
	  "const vz s8 - 0; DequantizeLinear v vs vz -> vf; Conv a vf -> y pads=[0,1,0,1];", 13, 2 },
	{ "two functions of one value", "Sigmoid x -> a; [a b] Tanh x -> c; [c d] MaxPool b -> e kernel_shape=[3,3]"
	  " pads=[1,1,1,1]; [e f] Add d f -> y;", 13, 3 },
};

#define FUNCTIONS ((int)(sizeof(functions) / sizeof(functions[0])))

static const char *const boards[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256" };

#define BOARDS (sizeof(boards) / sizeof(boards[0]))

struct text {
	char s[1 << 15];
	size_t n;
};

static void put_pair(struct text *t, const char *from, const char *to, int k)
{
	t->n += (size_t)snprintf(t->s + t->n, sizeof(t->s) - t->n,
				 "QuantizeLinear %s qs qz -> p%d; DequantizeLinear p%d qs qz -> %s;", from, k, k, to);
}

/* Copies the nodes, and writes out the pairs. */
static void put_nodes(struct text *t, const char *nodes)
{
	char from[8], to[8];
	int k = 0, used;

	while (*nodes) {
		if (sscanf(nodes, "[%7[a-z] %7[a-z]]%n", from, to, &used) == 2) {
			put_pair(t, from, to, k++);
			nodes += used;
		} else {
			t->s[t->n++] = *nodes++;
		}
	}
	t->s[t->n] = '\0';
}

/* A convolution in front of the function, or the input itself. */
static void write_model(struct text *t, const struct function *f, const char *type, bool conv, uint64_t seed)
{
	t->n = (size_t)snprintf(t->s, sizeof(t->s),
				"in i %s 1,8,6,6; in j %s 1,8,6,6; const qs f32 - 0.03; const qz %s - %d;"
				"const ys f32 - 0.021; DequantizeLinear i qs qz -> %s; DequantizeLinear j qs qz -> r;",
				type, type, type, *type == 'u' ? 117 : -11, conv ? "z" : "x");
	if (conv) {
		t->n += (size_t)snprintf(t->s + t->n, sizeof(t->s) - t->n, "const w s8 8,8,3,3");
		for (int i = 0; i < 8 * 8 * 9; i++)
			t->n += (size_t)snprintf(t->s + t->n, sizeof(t->s) - t->n, " %d",
						 (int)(splitmix(&seed) % 201) - 100);
		t->n += (size_t)snprintf(t->s + t->n, sizeof(t->s) - t->n,
					 "; const ws f32 - 0.002; const wz s8 - 0; DequantizeLinear w ws wz -> wf;"
					 "Conv z wf -> m pads=[1,1,1,1]; QuantizeLinear m qs qz -> n; DequantizeLinear n qs qz -> x;");
	}
	put_nodes(t, f->nodes);
	t->n += (size_t)snprintf(t->s + t->n, sizeof(t->s) - t->n, "QuantizeLinear y %s qz -> out; out out;",
				 strstr(f->nodes, "MaxPool b -> y") ? "qs" : "ys");
}

struct outcome {
	uint8_t out[MOST_BYTES];
	size_t size;
	int layers, steps; /* of the NPU, of the CPU */
};

static void compile_and_run(const struct text *t, int opset, const struct rivulet_board *b, bool cpu,
			    uint8_t *const in[2], struct outcome *o)
{
	const struct rivulet_compile_options opt = { .cpu_only = cpu };
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	struct pb onnx = ot_model(t->s, opset);
	struct prog_exec run;

	memset(o, 0, sizeof(*o));
	ck_assert_msg(!rivulet_compile(onnx.p, onnx.n, b, &opt, &program, &e, &err), "%s: %s", err.msg, t->s);
	for (uint32_t i = 0; i < e.n_rows; i++)
		++*(strcmp(e.rows[i].where, "npu") ? &o->steps : &o->layers);
	ck_assert_int_eq(prog_open(&run, b, NULL, program.data), 0);
	o->size = rivulet_program_tensors(program.data)[run.p->inputs].size;
	ck_assert_uint_le(o->size, sizeof(o->out));
	for (uint32_t i = 0; i < run.p->inputs; i++)
		run.io[i] = in[i];
	run.io[run.p->inputs] = o->out;
	ck_assert_msg(!prog_run(&run), "%s", run.err);
	prog_close(&run, true);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	free(onnx.p);
}

/* The model on the NPU equals the CPU's operators. */
static void compare(const char *what, const struct text *t, int opset, const struct rivulet_board *b,
		    struct outcome *npu)
{
	static struct outcome cpu;
	static uint8_t x[1 << 16], r[1 << 16];
	uint8_t *const in[2] = { x, r };
	uint64_t seed = 7;

	for (size_t i = 0; i < sizeof(x); i++) {
		x[i] = (uint8_t)splitmix(&seed);
		r[i] = (uint8_t)splitmix(&seed);
	}
	compile_and_run(t, opset, b, false, in, npu);
	compile_and_run(t, opset, b, true, in, &cpu);
	ck_assert_uint_eq(npu->size, cpu.size);
	ck_assert_msg(!memcmp(npu->out, cpu.out, cpu.size), "%s on %s differs", what, b->name);
}

static void load_board(struct rivulet_board *b, size_t i)
{
	char why[256];

	ck_assert_msg(!rivulet_board_load(b, boards[i], why, sizeof(why)), "%s", why);
}

START_TEST(function_joins_the_layer_in_front)
{
	const struct function *f = &functions[_i];
	static struct outcome o;
	static struct text t;
	struct rivulet_board b;

	for (size_t i = 0; i < BOARDS; i++) {
		load_board(&b, i);
		for (int k = 0; k < 4; k++) {
			bool conv = k < 2;

			write_model(&t, f, k % 2 ? "s8" : "u8", conv, 7);
			compare(f->what, &t, f->opset, &b, &o);
			ck_assert_msg(!conv || (o.layers == f->layers && !o.steps),
				      "%s: %d layers, not %d; %d steps on the CPU", f->what, o.layers,
				      f->layers, o.steps);
		}
	}
}
END_TEST

/* A Pad that copies elements computes on bytes, although its value, which it does not use, is a float. */
START_TEST(pad_that_copies_ignores_its_value)
{
	static const char *const modes[] = { "edge", "reflect" };
	static struct outcome o;
	static struct text t;
	struct rivulet_board b;
	struct function pad = { .what = "pad", .opset = 13 };
	char nodes[128];

	load_board(&b, 0);
	for (int k = 0; k < 4; k++) {
		snprintf(nodes, sizeof(nodes), "const p s64 8 0 0 1 2 0 0 2 1; const v f32 - 0; Pad x p v -> y mode='%s';",
			 modes[k / 2]);
		pad.nodes = nodes;
		write_model(&t, &pad, k % 2 ? "s8" : "u8", false, 7);
		compare(pad.what, &t, pad.opset, &b, &o);
	}
}
END_TEST

/* ---- pixels ---- */

struct repeat {
	const char *node; /* from x to y */
	const char *shape; /* of the input */
	bool npu;
};

#define RESIZE "const e f32 0; const k f32 4 1 1 "

static const struct repeat repeats[] = {
	{ RESIZE "2 2; Resize x e k -> y coordinate_transformation_mode='asymmetric' nearest_mode='floor';", "1,8,7,5", true },
	{ RESIZE "2 2; Resize x e k -> y;", "1,8,7,5", true },
	{ RESIZE "3 1; Resize x e k -> y coordinate_transformation_mode='asymmetric' nearest_mode='floor';", "1,20,4,9", true },
	{ RESIZE "1 4; Resize x e k -> y coordinate_transformation_mode='asymmetric' nearest_mode='floor';", "1,3,5,6", true },
	{ RESIZE "16 16; Resize x e k -> y coordinate_transformation_mode='asymmetric' nearest_mode='floor';", "1,2,9,7", true },
	{ RESIZE "2 2; Resize x e k -> y coordinate_transformation_mode='asymmetric' nearest_mode='floor';", "2,17,3,3", true },
	{ RESIZE "2 2; Resize x e k -> y coordinate_transformation_mode='asymmetric' nearest_mode='floor';", "1,3,90,60", true },
	{ "const e s64 4 1 6 8 16; Expand x e -> y;", "1,6,1,1", true },
	{ RESIZE "3 3; Resize x e k -> y coordinate_transformation_mode='align_corners';", "1,8,7,5", false },
	{ RESIZE "1.5 2; Resize x e k -> y coordinate_transformation_mode='asymmetric' nearest_mode='floor';", "1,8,6,5", false },
	{ RESIZE "64 1; Resize x e k -> y coordinate_transformation_mode='asymmetric' nearest_mode='floor';", "1,2,2,5", false },
};

#define REPEATS ((int)(sizeof(repeats) / sizeof(repeats[0])))

/* Between two pools, or at the edge of the model, the operator is a layer that copies. */
START_TEST(pixels_are_repeated_by_load)
{
	const struct repeat *r = &repeats[_i];
	static struct outcome o;
	static struct text t;
	struct rivulet_board b;

	for (size_t i = 0; i < BOARDS; i++) {
		load_board(&b, i);
		for (int k = 0; k < 2; k++) {
			t.n = (size_t)snprintf(t.s, sizeof(t.s), "in i %s %s; out out; %s %s", k ? "s8" : "u8", r->shape,
					       "MaxPool i -> x kernel_shape=[1,1] pads=[0,0,0,0] strides=[1,1];", r->node);
			t.n += (size_t)snprintf(t.s + t.n, sizeof(t.s) - t.n,
						"MaxPool y -> out kernel_shape=[3,3] pads=[1,1,1,1];");
			compare(r->node, &t, 13, &b, &o);
			ck_assert_msg((!o.steps && o.layers == 3) == r->npu, "%s of %s: %d layers, %d steps on the CPU",
				      r->node, r->shape, o.layers, o.steps);
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("function");
	TCase *t = add_case(s, "function", 300, NULL, NULL);

	tcase_add_loop_test(t, function_joins_the_layer_in_front, 0, FUNCTIONS);
	tcase_add_test(t, pad_that_copies_ignores_its_value);
	tcase_add_loop_test(t, pixels_are_repeated_by_load, 0, REPEATS);
	return run_suite(s);
}
