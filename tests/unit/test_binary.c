/* SPDX-License-Identifier: MIT */
/*
 * Binary layers in float models, as exporters write them: each form becomes BinarySign and BinaryConv
 * and computes what the float model does. Layers that are only nearly binary stay.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "graph/interp.h"
#include "onnx/export.h"
#include "onnx/onnx.h"
#include "pass/binary.h"
#include "pass/passes.h"
#include "quant/calibrate.h"
#include "suite.h"
#include "unit/onnx_text.h"

static struct rvl_graph *g;
static struct pb bytes;
static struct rvl_err err;

enum { C = 8, M = 4, SIDE = 5, TEXT = 1 << 16 };

/* Constants that the forms use. w: +-0.5 for each output channel, u: the same before its Sign. */
static char *put_weights(char *p, const char *name, const char *dims, int n, float size, float spread)
{
	uint64_t seed = 7;

	p += sprintf(p, "const %s f32 %s", name, dims);
	for (int i = 0; i < n; i++) {
		bool plus = splitmix(&seed) & 1;

		p += sprintf(p, " %g", (plus ? 1.0 : -1.0) * (double)(size + spread * (float)(i % 3)));
	}
	return p + sprintf(p, "; ");
}

static struct pb model(const char *form)
{
	static const char before[] =
		"in x f32 1,8,5,5; const zero f32 - 0; const one f32 - 1; const minus f32 - -1;"
		"const two f32 - 2; const half f32 - 0.5; const c f32 - 0.25;"
		"const shift f32 1,8,1,1 0.5 -0.25 0 0.125 -0.5 0.75 1 -1;"
		"const negative f32 1,8,1,1 0.5 -0.25 1 2 -2 0.75 1 -1;"
		"const slopes f32 8,1,1 0.5 0.25 1 2 0 0.75 1 1;"
		"const g f32 8 1 -0.5 2 0.25 0 3 1 -1; const b f32 8 0.1 0.2 -0.3 0.4 0.5 -0.6 0.7 0;"
		"const g0 f32 8 0 0 0 0 0 0 1 1; const nan f32 - nan;"
		"const m f32 8 0.3 -0.2 0.1 0 0.2 -0.4 0.5 0.25; const v f32 8 1 2 0.5 0.25 1 4 1 1;"
		"const g4 f32 4 1 -0.5 2 0.25; const b4 f32 4 0.1 0.2 -0.3 0.4;"
		"const m4 f32 4 0.3 -0.2 0.1 0; const v4 f32 4 1 2 0.5 0.25;"
		"const p4 f32 4,1,1 0.25 0.5 0 0.125; const a4 f32 1,4,1,1 0.5 -1 0.25 2;"
		"const pads s64 8 0 0 1 1 0 0 1 1; const r f32 4,1,1,1 0.5 1 -0.25 2;";
	char *text = malloc(TEXT), *p = text + sprintf(text, "%s", before);
	struct pb out;

	p = put_weights(p, "w", "4,8,3,3", M * C * 9, 0.5f, 0);
	p = put_weights(p, "other", "4,8,3,3", M * C * 9, 0.25f, 0);
	p = put_weights(p, "w2", "8,4,3,3", M * C * 9, 1, 0);
	p = put_weights(p, "uneven", "4,8,3,3", M * C * 9, 0.5f, 0.125f);
	p = put_weights(p, "rounded", "4,8,3,3", M * C * 9, 0.5f, 4e-6f);
	p = put_weights(p, "k", "200,4", 800, 1, 0);
	sprintf(p, "%s; out y", form);
	out = ot_model(text, 13);
	free(text);
	return out;
}

static uint32_t count(enum rvl_op op)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += g->nodes[i]->op == op;
	return n;
}

static struct rvl_node *first(enum rvl_op op)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i]->op == op)
			return g->nodes[i];
	ck_abort_msg("no %s", rvl_op_name(op));
}

static void load(const char *form)
{
	bytes = model(form);
	ck_assert_msg(!rvl_onnx_load(bytes.p, bytes.n, NULL, &g, &err), "%s: %s", form, err.msg);
	ck_assert_msg(!rvl_shape_infer(g, &err), "%s: %s", form, err.msg);
}

static void release(void)
{
	rvl_graph_free(g);
	free(bytes.p);
}

/* Multiples of 1/8, so that many values are equal to thresholds; @zeros: also 0. */
static void make_input(float *x, size_t n, bool zeros)
{
	uint64_t seed = 11;

	for (size_t i = 0; i < n; i++) {
		x[i] = (float)((int)chance_range(&seed, 0, 32) - 16) / 8;
		if (!zeros && x[i] == 0)
			x[i] = 0.125f;
	}
}

static float *run(const float *x, size_t *n)
{
	const struct rvl_tensor *y = g->outputs[0];
	struct rvl_interp *it;
	float *out;

	*n = (size_t)rvl_shape_count(&y->shape);
	out = malloc(*n * sizeof(*out));
	ck_assert_msg(!rvl_interp_new(g, true, &it, &err), "%s", err.msg);
	ck_assert(!rvl_interp_set(it, 0, x, (size_t)rvl_tensor_bytes(g->inputs[0]), &err));
	ck_assert_msg(!rvl_interp_run(it, &err), "%s", err.msg);
	memcpy(out, rvl_interp_data(it, y), *n * sizeof(*out));
	rvl_interp_free(it);
	return out;
}

/* Runs the model before and after the passes. Results differ by at most @near of their magnitude. */
static void compare(const char *form, bool zeros, float near)
{
	float x[C * SIDE * SIDE], *want, *have;
	size_t n, again;

	make_input(x, C * SIDE * SIDE, zeros);
	load(form);
	want = run(x, &n);
	ck_assert_msg(!rvl_optimise(g, &err), "%s: %s", form, err.msg);
	have = run(x, &again);
	ck_assert_uint_eq(n, again);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(fabsf(want[i] - have[i]) <= near * (1 + fabsf(want[i])),
			      "%s: result %zu is %g, not %g", form, i, (double)have[i], (double)want[i]);
	free(want);
	free(have);
}

#define THEN "; Conv s w -> y"
#define PADDED "; Conv s w -> y pads=[1,1,1,1]"
#define MASK "Greater x c -> q; Cast q -> i to=1; "

/* Signs as they are exported, in front of one convolution. The weights are +-0.5: sums are exact. */
static const struct {
	const char *text;
	bool no_zeros;		/* a Sign of 0 differs by design */
} forms[] = {
	{ "Sign x -> s" THEN, true },
	{ "Sign x -> s" PADDED, true },
	{ "Clip x minus one -> d; Sign d -> s" THEN, true },
	{ "Tanh x -> d; Sign d -> s" THEN, true },
	{ "Sign x -> d; Add d half -> e; Sign e -> s" THEN, false },
	{ "Sign x -> d; Sub d half -> e; Sign e -> s" PADDED, true },
	{ "GreaterOrEqual x zero -> q; Where q one minus -> s" THEN, false },
	{ "GreaterOrEqual x c -> q; Where q one minus -> s" PADDED, false },
	{ "Greater x c -> q; Where q one minus -> s" PADDED, false },
	{ "Less x c -> q; Where q one minus -> s" PADDED, false },
	{ "LessOrEqual x c -> q; Where q minus one -> s" PADDED, false },
	{ "Greater c x -> q; Where q one minus -> s" PADDED, false },
	{ "LessOrEqual c x -> q; Where q one minus -> s" PADDED, false },
	{ "Greater x shift -> q; Where q one minus -> s" PADDED, false },
	{ "Less x c -> q; Not q -> k2; Where k2 one minus -> s" PADDED, false },
	{ "Mul x two -> d; Mul d zero -> e; GreaterOrEqual e zero -> q; Where q one minus -> s" PADDED, false },
	{ "Mul x two -> d; BatchNormalization d g0 b m v -> e; GreaterOrEqual e zero -> q; "
	  "Where q one minus -> s" PADDED, false },
	{ MASK "Mul i two -> e; Sub e one -> s" PADDED, false },
	{ MASK "Sub i half -> e; Mul e two -> s" PADDED, false },
	{ MASK "Sub i half -> e; Div e half -> s" PADDED, false },
	{ MASK "Mul i two -> e; Sub one e -> s" PADDED, false },
	{ MASK "Sub i half -> s" PADDED, false },
	{ "Clip x minus one -> d; GreaterOrEqual d zero -> q; Where q one minus -> f; Sub f d -> e; "
	  "Add e d -> s" THEN, false },
	{ "Clip x minus one -> d; GreaterOrEqual d zero -> q; Where q one minus -> f; Sub f d -> e; "
	  "Add d e -> s" PADDED, false },
	{ "Add x shift -> d; GreaterOrEqual d zero -> q; Where q one minus -> s" PADDED, false },
	{ "Sub x shift -> d; Greater d zero -> q; Where q one minus -> s" PADDED, false },
	{ "Sub shift x -> d; GreaterOrEqual d zero -> q; Where q one minus -> s" PADDED, false },
	{ "Mul x negative -> d; Add d shift -> e; Greater e c -> q; Where q one minus -> s" PADDED, false },
	{ "BatchNormalization x g b m v -> d; GreaterOrEqual d zero -> q; Where q one minus -> s" PADDED, false },
	{ "BatchNormalization x g b m v -> d; Clip d minus one -> e; Greater e zero -> q; "
	  "Where q one minus -> s" PADDED, false },
	{ "PRelu x slopes -> d; Greater d c -> q; Where q one minus -> s" PADDED, false },
	{ "Relu x -> d; Greater d c -> q; Where q one minus -> s" PADDED, false },
	{ "GreaterOrEqual x zero -> q; Where q one minus -> d; Pad d pads one -> s" THEN, false },
	{ "GreaterOrEqual x zero -> q; Where q one minus -> d; Pad d pads minus -> s" THEN, false },
	{ "GreaterOrEqual x zero -> q; Where q one minus -> d; Pad d pads zero -> s" THEN, false },
	{ "Less x zero -> q; Where q one minus -> d; Pad d pads one -> s" THEN, false },
	{ "GreaterOrEqual x zero -> q; Where q one minus -> d; MaxPool d -> s kernel_shape=[2,2] strides=[2,2] "
	  "pads=[1,1,1,1]" PADDED, false },
	{ "GreaterOrEqual x zero -> q; Where q one minus -> s; Sign w -> e; Mul e r -> f; Conv s f -> y", false },
	{ "GreaterOrEqual x zero -> q; Where q one minus -> s; Conv s w -> y strides=[2,1] dilations=[1,2] "
	  "pads=[0,2,1,2]", false },
	{ "GreaterOrEqual x zero -> q; Where q one minus -> s; Conv s w2 -> y group=2 pads=[1,1,1,1]", false },
	{ "GreaterOrEqual x zero -> q; Where q one minus -> s; Flatten s -> d; const at s64 2 2 100; "
	  "Reshape d at -> e; Slice e st en ax -> f; const st s64 1 0; const en s64 1 4; const ax s64 1 1; "
	  "Transpose k -> h perm=[1,0]; MatMul f h -> y", false },
};

START_TEST(forms_are_binary)
{
	bool matrix = strstr(forms[_i].text, "MatMul");

	compare(forms[_i].text, !forms[_i].no_zeros, 0);
	ck_assert_msg(count(RVL_OP_B_CONV) == !matrix, "%s", forms[_i].text);
	ck_assert_uint_eq(count(RVL_OP_B_SIGN), !matrix);
	ck_assert_uint_eq(count(RVL_OP_CONV), 0);
	release();
}
END_TEST

#define SIGNED "GreaterOrEqual x zero -> q; Where q one minus -> s; "
#define FIRST SIGNED "Conv s w -> a pads=[1,1,1,1]; "
#define AGAIN(t) "GreaterOrEqual " t " zero -> q2; Where q2 one minus -> s2; Conv s2 w2 -> y pads=[1,1,1,1]"
#define SIGN_OF(t) "GreaterOrEqual " t " zero -> q2; Where q2 one minus -> s2; "
#define BN(a, b) "BatchNormalization " a " g4 b4 m4 v4 -> " b "; "
#define LARGE "const large f32 - 1e20; const v0 f32 4 1 1e-42 1 1; const l4 f32 4,1,1 1 1e20 0 1; "
#define SHORTCUT "Slice x st en ax -> sc; const st s64 1 0; const en s64 1 4; const ax s64 1 1; "

/* What follows a layer, and how many operators and results of two layers remain. */
static const struct {
	const char *text;
	uint32_t convs, nodes;
	bool second_result;
	float near;
} followers[] = {
	{ FIRST "BatchNormalization a g4 b4 m4 v4 -> y", 1, 2, false, 1e-6f },
	{ FIRST "Relu a -> y", 1, 2, false, 0 },
	{ SIGNED "Conv s rounded -> y", 1, 2, false, 1e-4f },
	{ FIRST "Relu a -> d; " BN("d", "y") "Identity y -> z", 1, 2, false, 1e-6f },
	{ FIRST "PRelu a p4 -> y", 1, 2, false, 0 },
	{ FIRST "LeakyRelu a -> y alpha=0.25f", 1, 2, false, 0 },
	{ FIRST "Add a a4 -> d; PRelu d p4 -> e; Add e a4 -> y", 1, 2, false, 1e-6f },
	{ FIRST "Mul a a4 -> d; Sub d a4 -> e; Div e two -> y", 1, 2, false, 1e-6f },
	{ FIRST SHORTCUT "Add a sc -> y", 1, 3, false, 1e-6f },
	{ FIRST SHORTCUT "Add sc a -> d; " BN("d", "y") "Identity y -> z", 1, 3, false, 1e-6f },
	{ FIRST SHORTCUT BN("a", "d") "Add d sc -> e; Add e a4 -> f; PRelu f p4 -> h; Add h a4 -> y", 1, 3,
	  false, 1e-6f },
	{ FIRST SHORTCUT "Mul sc a4 -> d; Add d a -> e; " BN("e", "y") "Identity y -> z", 1, 3, false, 1e-6f },
	{ FIRST SHORTCUT "Mul sc a4 -> d; Add a d -> e; Mul e d -> y", 1, 5, false, 1e-6f },
	{ FIRST SHORTCUT "Mul sc two -> d; Add a d -> e; Conv s other -> f pads=[1,1,1,1]; Concat e f -> h axis=1; "
	  "Mul h half -> y", 2, 5, false, 1e-6f },
	{ FIRST SHORTCUT "Add a sc -> d; Mul d two -> e; Conv s other -> f pads=[1,1,1,1]; Concat f e -> h axis=1; "
	  "Mul h half -> i; Add i shift -> y", 2, 5, false, 1e-6f },
	{ FIRST LARGE SHORTCUT "Mul sc l4 -> d; Add d a -> y", 1, 4, false, 1e-6f },
	{ FIRST LARGE "Mul a large -> y", 1, 3, false, 0 },
	{ FIRST LARGE "PRelu a l4 -> y", 1, 3, false, 0 },
	{ FIRST LARGE "LeakyRelu a -> y alpha=1e20f", 1, 3, false, 0 },
	{ FIRST LARGE "BatchNormalization a g4 b4 m4 v0 -> y epsilon=0.0f", 1, 3, false, 1e-6f },
	{ FIRST "Conv s other -> d pads=[1,1,1,1]; Concat d a -> e axis=1; Add e shift -> f; PRelu f slopes -> h; "
	  "Sub h shift -> i; Mul i two -> y", 2, 4, false, 1e-6f },
	{ FIRST "Conv s other -> d pads=[1,1,1,1]; Concat d a -> e axis=-3; Add e shift -> f; Mul f two -> y", 2, 4,
	  false, 1e-6f },
	{ FIRST "Concat x a -> e axis=1; const more f32 12,1,1 0.5 0.25 1 2 0 0.75 1 1 3 2 1 0; PRelu e more -> y", 1,
	  4, false, 0 },
	{ FIRST "Conv s other -> d pads=[1,1,1,1]; Concat d a -> e axis=2; Add e a4 -> y", 2, 5, false, 1e-6f },
	{ FIRST AGAIN("a"), 2, 3, false, 0 },
	{ FIRST BN("a", "d") AGAIN("d"), 2, 3, false, 0 },
	{ FIRST "Relu a -> d; " BN("d", "e") AGAIN("e"), 2, 3, false, 0 },
	{ FIRST BN("a", "d") "Clip d minus one -> e; " AGAIN("e"), 2, 3, false, 0 },
	{ FIRST "Add a a4 -> d; PRelu d p4 -> e; " AGAIN("e"), 2, 3, false, 0 },
	{ FIRST SHORTCUT BN("a", "d") "Add d sc -> e; " AGAIN("e"), 2, 4, true, 0 },
	{ FIRST SHORTCUT BN("a", "d") "Add d sc -> e; Add e a4 -> f; Sign f -> s2; Conv s2 w2 -> h pads=[1,1,1,1]; "
	  "Slice h st en ax -> i; Add i e -> y", 2, 6, true, 1e-6f },
};

START_TEST(followers_are_folded)
{
	const struct rvl_node *n;

	compare(followers[_i].text, true, followers[_i].near);
	ck_assert_uint_eq(count(RVL_OP_B_CONV), followers[_i].convs);
	ck_assert_uint_eq(count(RVL_OP_CONV), 0);
	ck_assert_msg(g->n_nodes <= followers[_i].nodes, "%s: %u nodes", followers[_i].text, g->n_nodes);
	n = first(RVL_OP_B_CONV);
	ck_assert_int_eq(n->n_out > 1, followers[_i].second_result);
	release();
}
END_TEST

/* Layers that are only nearly binary, and a word of the reason. */
static const struct {
	const char *text, *why;
} others[] = {
	{ SIGNED "Conv s uneven -> y", "mean magnitude is 0.625" },
	{ "Conv x w -> y", "no sign" },
	{ "Clip x minus one -> s; Conv s w -> y", "no sign" },
	{ "Greater x c -> q; Cast q -> s to=1; Conv s w -> y", "values 0 and 1" },
	{ "Greater x c -> q; Where q two minus -> s; Conv s w -> y", "values -1 and 2" },
	{ SIGNED "Sub w half -> d; Sign d -> e; Conv s e -> y", "mean magnitude" },
	{ "Relu x -> d; Sign d -> s; Conv s w -> y", "0 over a range" },
	{ "Relu x -> d; Sign d -> s; Conv s w -> e; Slice d st en ax -> f; ReduceMean f -> h; Add e h -> y; "
	  "const st s64 1 0; const en s64 1 4; const ax s64 1 1", "0 over a range" },
	{ "Clip x minus zero -> d; Sign d -> s; Conv s w -> y", "0 over a range" },
	{ "Relu x -> d; MaxPool d -> e kernel_shape=[2,2]; Sign e -> s; Conv s w -> y", "0 over a range" },
	{ "const l f32 - 0.25; const z u8 - 0; QuantizeLinear x l z -> d; DequantizeLinear d l z -> e; "
	  "Sign e -> s; Conv s w -> y", "0 over a range" },
	{ "Mul x zero -> d; Sign d -> s; Conv s w -> y", "0 over a range" },
	{ "Relu x -> d; Mul d two -> e; Sign e -> s; Conv s w -> y", "0 over a range" },
	{ "Relu x -> d; MaxPool d -> e kernel_shape=[2,2]; Neg e -> f; Sign f -> s; Conv s w -> y", "0 over a range" },
	{ "Less x nan -> q; Not q -> k2; Where k2 one minus -> s; Conv s w -> y", "no sign" },
	{ SIGNED "Conv s w huge -> y; const huge f32 4 0 1e20 0 0", "below 2^60" },
	{ SIGNED "Mul s large -> d; Conv d w -> y; const large f32 - 1e20", "below 2^60" },
	{ SIGNED "Pad s pads half -> d; Conv d w -> y", "padding" },
	{ "Less x zero -> q; Where q one minus -> s; MaxPool s -> d kernel_shape=[2,2]; Conv d w -> y", "MaxPool" },
};

START_TEST(others_stay)
{
	const struct rvl_node *n;

	compare(others[_i].text, true, 1e-6f);
	ck_assert_uint_eq(count(RVL_OP_B_CONV), 0);
	ck_assert_uint_eq(count(RVL_OP_B_SIGN), 0);
	n = first(RVL_OP_CONV);
	ck_assert_msg(n->note && strstr(n->note, others[_i].why), "%s: %s", others[_i].text,
		      n->note ? n->note : "no note");
	release();
}
END_TEST

START_TEST(a_mean_is_no_binary_layer)
{
	load("const mean f32 4,8,3,3 0.125; Conv x mean -> y");
	ck_assert(!rvl_optimise(g, &err));
	ck_assert_ptr_null(first(RVL_OP_CONV)->note);
	release();
}
END_TEST

START_TEST(a_sign_of_zero_is_noted)
{
	load("Sign x -> s; Conv s w -> y");
	ck_assert(!rvl_optimise(g, &err));
	ck_assert_str_eq(first(RVL_OP_B_SIGN)->note, "Sign(0) is 0 in ONNX and 1 here");
	release();
	load(SIGNED "Conv s w -> y");
	ck_assert(!rvl_optimise(g, &err));
	ck_assert_ptr_null(first(RVL_OP_B_SIGN)->note);
	release();
}
END_TEST

/*
 * A calibrated residual network: with int16 images the results are nearer to the float ones than with
 * bytes, and what else reads such an image gets bytes by one rescale.
 */
START_TEST(images_are_quantised)
{
	static const char form[] = FIRST SHORTCUT BN("a", "d") "Add d sc -> e; Sign e -> s2; "
		"Conv s2 w2 -> h pads=[1,1,1,1]; Slice h st en ax -> i; Add i e -> j; "
		"MaxPool j -> f kernel_shape=[2,2]; const l f32 4,4,1,1 0.5 -0.25 1 2; Conv f l -> y";
	float x[C * SIDE * SIDE], error[2] = { 0, 0 };

	make_input(x, C * SIDE * SIDE, true);
	for (int wide = 0; wide < 2; wide++) {
		struct rivulet_examples e = { "x", x, sizeof(x) };
		struct rivulet_quantise q = { .examples = &e, .n_examples = 1, .threads = 1,
					      .range = RIVULET_RANGE_MIN_MAX,
				      .wide = wide ? RIVULET_WIDE_YES : RIVULET_WIDE_NO };
		float *want, *have;
		size_t n;

		load(form);
		want = run(x, &n);
		ck_assert_msg(!rvl_calibrate(g, &q, &err), "%s", err.msg);
		ck_assert_msg(!rvl_optimise(g, &err), "%s", err.msg);
		ck_assert_int_eq(first(RVL_OP_B_CONV)->out[0]->type, wide ? RVL_TYPE_S16 : RVL_TYPE_U8);
		ck_assert_int_eq(first(RVL_OP_B_CONV)->in[5]->type, RVL_TYPE_U8);
		have = run(x, &n);
		for (size_t i = 0; i < n; i++)
			error[wide] += fabsf(want[i] - have[i]) / (float)n;
		free(want);
		free(have);
		release();
	}
	ck_assert_msg(error[1] <= error[0], "%g, and %g with int16", (double)error[0], (double)error[1]);
	ck_assert_float_lt(error[1], 0.5f);
}
END_TEST

/* Without an order, images are int16 where that brings the outputs nearer to those of the float model. */
START_TEST(width_follows_the_outputs)
{
	static const struct {
		const char *form;
		bool wide;
	} nets[] = {
		{ FIRST SHORTCUT BN("a", "d") "Add d sc -> e; Sign e -> s2; Conv s2 w2 -> h pads=[1,1,1,1]; "
		  "Slice h st en ax -> i; Add i e -> y", true }, /* an image is added to the output */
		{ FIRST SHORTCUT BN("a", "d") "Add d sc -> e; MaxPool e -> f kernel_shape=[2,2]; "
		  "const l f32 4,4,1,1 0.5 -0.25 1 2; Conv f l -> y", false }, /* bytes are read and made */
	};
	float x[C * SIDE * SIDE];
	struct rivulet_examples e = { "x", x, sizeof(x) };
	struct rivulet_quantise q = { .examples = &e, .n_examples = 1, .threads = 1,
				      .range = RIVULET_RANGE_MIN_MAX };

	make_input(x, C * SIDE * SIDE, true);
	load(nets[_i].form);
	ck_assert_msg(!rvl_calibrate(g, &q, &err), "%s", err.msg);
	ck_assert_ptr_nonnull(g->binary_note);
	ck_assert_msg(!strncmp(g->binary_note, nets[_i].wide ? "int16: " : "8 bits: ", 7), "%s", g->binary_note);
	ck_assert_msg(!rvl_optimise(g, &err), "%s", err.msg);
	ck_assert_msg((first(RVL_OP_B_CONV)->out[0]->type == RVL_TYPE_S16) == nets[_i].wide, "%s", g->binary_note);
	release();
}
END_TEST

/* What an export writes of a calibrated graph, read again. The graph needs @out. */
static struct rvl_graph *exported(const char *form, struct rvl_bytes *out)
{
	struct rvl_graph *unfolded, *again = NULL;

	ck_assert(!rvl_graph_clone(g, &unfolded, &err));
	ck_assert_msg(!rvl_binary_unfold(unfolded, &err), "%s: %s", form, err.msg);
	ck_assert_msg(!rvl_graph_verify(unfolded, &err), "%s: %s", form, err.msg);
	ck_assert_msg(!rvl_onnx_export(unfolded, out, &err), "%s: %s", form, err.msg);
	ck_assert_msg(!rvl_onnx_load(out->data, out->size, NULL, &again, &err), "%s: %s", form, err.msg);
	rvl_graph_free(unfolded);
	return again;
}

/*
 * The graph exported in @opset and read back, with binary layers or without, makes the results that @g makes
 * of @x. Both are released.
 */
static void compare_read_back(const char *form, const float *x, int64_t opset, bool no_binary)
{
	struct rvl_graph *whole = g;
	struct rvl_bytes out = { 0 };
	float *y[2];
	size_t n;

	y[0] = run(x, &n);
	whole->opset = opset;
	g = exported(form, &out);
	g->no_binary = no_binary;
	ck_assert_msg(!rvl_optimise(g, &err), "%s: %s", form, err.msg);
	ck_assert(!no_binary || !count(RVL_OP_B_CONV));
	y[1] = run(x, &n);
	ck_assert_msg(!memcmp(y[0], y[1], n * sizeof(*y[0])), "%s: results differ", form);
	free(y[0]);
	free(y[1]);
	release();
	rvl_graph_free(whole);
	rvl_bytes_free(&out);
}

/*
 * A NaN reaches no threshold, and -infinity reaches a threshold of -infinity, also where the export compares
 * in another way: opsets below 12.
 */
START_TEST(exports_compare_all_floats)
{
	float x[C * SIDE * SIDE];

	make_input(x, C * SIDE * SIDE, true);
	for (size_t i = 0; i < C * SIDE * SIDE; i += 3)
		x[i] = (const float[]){ NAN, 0, -INFINITY, INFINITY }[i % 4];
	load("const l f32 1,8,1,1 0 -inf 0.5 inf -inf -0 1 -1; GreaterOrEqual x l -> q; "
	     "Where q one minus -> s; Conv s w -> y");
	ck_assert(!rvl_optimise(g, &err));
	ck_assert_uint_eq(count(RVL_OP_B_CONV), 1);
	compare_read_back("of NaN and infinity", x, _i, true);
}
END_TEST

/*
 * An export holds ONNX's operators, which compute what the layers compute. A reader finds the layers in them
 * again, with the same bits. One that does not look for layers makes float32 of the operators' float64, so
 * that a sum may round twice, which moves no result of these models to another step.
 */
static void unfold(const char *form, bool zeros, int wide)
{
	float x[C * SIDE * SIDE], *y[3];
	struct rivulet_examples e = { "x", x, sizeof(x) };
	struct rivulet_quantise q = { .examples = &e, .n_examples = 1, .threads = 1,
				      .range = RIVULET_RANGE_MIN_MAX,
				      .wide = wide ? RIVULET_WIDE_YES : RIVULET_WIDE_NO };
	struct rvl_bytes out[2] = { { 0 } };
	struct rvl_graph *of[3];
	uint32_t layers = 0;
	size_t n;

	make_input(x, C * SIDE * SIDE, zeros);
	load(form);
	ck_assert_msg(!rvl_calibrate(g, &q, &err), "%s: %s", form, err.msg);
	of[0] = g;
	of[1] = exported(form, &out[0]);
	of[2] = exported(form, &out[1]);
	of[2]->no_binary = true;
	for (int i = 0; i < 3; i++) {
		g = of[i];
		ck_assert_msg(!rvl_optimise(g, &err), "%s: %s", form, err.msg);
		layers = i ? layers : count(RVL_OP_B_CONV);
		ck_assert_msg(count(RVL_OP_B_CONV) == (i < 2 ? layers : 0), "%s, %d: %u layers, not %u", form, wide,
			      count(RVL_OP_B_CONV), layers);
		y[i] = run(x, &n);
	}
	for (size_t i = 0; i < n; i++) {
		ck_assert_msg(y[0][i] == y[1][i], "%s, %d: result %zu is %g, not %g", form, wide, i,
			      (double)y[1][i], (double)y[0][i]);
		ck_assert_msg(fabsf(y[0][i] - y[2][i]) <= 1e-6f * fabsf(y[0][i]), "%s, %d: result %zu is %g, not %g",
			      form, wide, i, (double)y[2][i], (double)y[0][i]);
	}
	for (int i = 0; i < 3; i++)
		free(y[i]);
	for (int i = 0; i < 2; i++) {
		rvl_graph_free(of[i + 1]);
		rvl_bytes_free(&out[i]);
	}
	g = of[0];
	release();
}

START_TEST(forms_are_unfolded)
{
	if (!strstr(forms[_i].text, "MatMul"))
		unfold(forms[_i].text, !forms[_i].no_zeros, 0);
}
END_TEST

START_TEST(followers_are_unfolded)
{
	unfold(followers[_i].text, true, 0);
	unfold(followers[_i].text, true, 1);
}
END_TEST

/* Decimal parameters by channel, with which many results lie near the middle of two steps. */
static char *put_decimals(char *p, const char *name, uint64_t *seed, int n)
{
	p += sprintf(p, "const %s f32 1,%d,1,1", name, n);
	for (int i = 0; i < n; i++)
		p += sprintf(p, " %g", (double)chance_range(seed, 1, 40) / 20 - 1);
	return p + sprintf(p, "; ");
}

/*
 * A quantised layer with a shortcut: one rounding of a product and a sum to float32 more or less is one step
 * more or less of many results. 453 of the 640 values of such a model differed once.
 */
START_TEST(exports_round_as_layers)
{
	static const char layer[] =
		"const z u8 - 128; QuantizeLinear x one z -> xq; DequantizeLinear xq one z -> f; "
		"GreaterOrEqual f shift -> q; Where q one minus -> s; Conv s w -> a pads=[1,1,1,1]; Mul a scale -> d; "
		"Add d bias -> e; Slice f st en ax -> sc; Mul sc ratio -> h; Add e h -> i; QuantizeLinear i one z -> j; "
		"DequantizeLinear j one z -> y; const st s64 1 0; const en s64 1 4; const ax s64 1 1";

	for (int i = 0; i < random_cases(40); i++) {
		float x[C * SIDE * SIDE];
		uint64_t seed = (uint64_t)i;
		char text[2048], *p;

		p = put_decimals(text, "scale", &seed, M);
		p = put_decimals(p, "bias", &seed, M);
		strcpy(put_decimals(p, "ratio", &seed, M), layer);
		for (int k = 0; k < C * SIDE * SIDE; k++)
			x[k] = (float)chance_range(&seed, 0, 40) - 20;
		load(text);
		ck_assert_msg(!rvl_optimise(g, &err), "%s", err.msg);
		ck_assert_uint_eq(count(RVL_OP_B_CONV), 1);
		ck_assert_int_eq(first(RVL_OP_B_CONV)->out[0]->type, RVL_TYPE_U8);
		compare_read_back(text, x, g->opset, false);
	}
}
END_TEST

/* Thresholds that all integers of a type reach, or none, stay so where the export takes the zero point off. */
START_TEST(exports_compare_beyond_a_type)
{
	static const char *const zeros[] = { "u8 - 128", "s8 - -128", "u8 - 255", "s8 - 127", "u8 - 0" };
	float x[C * SIDE * SIDE];
	char text[512];

	make_input(x, C * SIDE * SIDE, true);
	sprintf(text, "const z %s; QuantizeLinear x half z -> d; DequantizeLinear d half z -> e; "
		"const far f32 1,8,1,1 -1000 1000 0.5 -inf inf 1e30 -1e30 0; GreaterOrEqual e far -> q; "
		"Where q one minus -> s; Conv s w -> y", zeros[_i / 2]);
	load(text);
	ck_assert_msg(!rvl_optimise(g, &err), "%s", err.msg);
	ck_assert_int_eq(first(RVL_OP_B_SIGN)->in[1]->type, RVL_TYPE_S32);
	compare_read_back(text, x, _i % 2 ? 11 : 13, false);
}
END_TEST

/*
 * Calibrated layers behind which a Concat and an RPReLU stand make bytes, and the Concat joins bytes. Signs of
 * bytes near their threshold differ, so that the bound on the error is wide.
 */
START_TEST(joined_layers_are_quantised)
{
	static const char form[] = FIRST "Conv s other -> d pads=[1,1,1,1]; Concat d a -> e axis=1; Add e shift -> f; "
		"PRelu f slopes -> h; Sub h shift -> i; Sign i -> s2; Conv s2 w -> j pads=[1,1,1,1]; "
		"Conv s2 other -> k2 pads=[1,1,1,1]; Concat j k2 -> t axis=1; Add t i -> u; "
		"MaxPool u -> o kernel_shape=[2,2]; Conv o w -> y";
	struct rivulet_quantise q = { .n_examples = 1, .threads = 1, .range = RIVULET_RANGE_MIN_MAX };
	float x[C * SIDE * SIDE], *want, *have, error = 0, power = 0;
	struct rivulet_examples e = { "x", x, sizeof(x) };
	size_t n;

	make_input(x, C * SIDE * SIDE, true);
	q.examples = &e;
	load(form);
	want = run(x, &n);
	ck_assert_msg(!rvl_calibrate(g, &q, &err), "%s", err.msg);
	ck_assert_msg(!rvl_optimise(g, &err), "%s", err.msg);
	have = run(x, &n);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		ck_assert_msg(g->nodes[i]->op != RVL_OP_B_CONV || g->nodes[i]->out[0]->type == RVL_TYPE_U8,
			      "%s makes no bytes", g->nodes[i]->name);
	for (size_t i = 0; i < n; i++) {
		error += (want[i] - have[i]) * (want[i] - have[i]);
		power += want[i] * want[i];
	}
	ck_assert_msg(error < power / 8, "error %g of %g", (double)error, (double)power);
	free(want);
	free(have);
	release();
}
END_TEST

/*
 * A model that quantises the result of a layer of itself: the sign of the same result compares the float
 * in front of the rounding, by steps of which the bits would differ.
 */
START_TEST(a_sign_in_front_of_quantisation_is_exact)
{
	static const char form[] = "const l f32 - 3; const z s8 - 0; " FIRST SHORTCUT
		"QuantizeLinear a l z -> e; DequantizeLinear e l z -> f; " SIGN_OF("a")
		"Conv s2 w2 -> h pads=[1,1,1,1]; Slice h st en ax -> i; Add i f -> y";

	compare(form, true, 0);
	ck_assert_uint_eq(count(RVL_OP_B_CONV), 2);
	ck_assert_int_eq(first(RVL_OP_B_CONV)->out[0]->type, RVL_TYPE_F32);
	ck_assert_msg(first(RVL_OP_B_CONV)->note && strstr(first(RVL_OP_B_CONV)->note, "compare floats"),
		      "no note");
	release();
}
END_TEST

/* A NaN is -1, as of Where(x >= c, 1, -1). */
START_TEST(nan_is_minus_one)
{
	float x[C * SIDE * SIDE], *want, *have;
	size_t n;

	make_input(x, C * SIDE * SIDE, true);
	for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i += 7)
		x[i] = NAN;
	load("GreaterOrEqual x c -> q; Where q one minus -> s" PADDED);
	want = run(x, &n);
	ck_assert(!rvl_optimise(g, &err));
	ck_assert_uint_eq(count(RVL_OP_B_SIGN), 1);
	have = run(x, &n);
	ck_assert_mem_eq(have, want, n * sizeof(*want));
	free(want);
	free(have);
	release();
}
END_TEST

static const char *keep_groups(const void *target, int64_t m, int64_t group)
{
	ck_assert_int_eq(m, group > 1 ? C : M);
	return group > 1 ? target : NULL;
}

/* The target decides which layers it computes in int8. */
START_TEST(a_target_keeps_layers)
{
	for (int grouped = 0; grouped < 2; grouped++) {
		load(grouped ? SIGNED "Conv s w2 -> y group=2 pads=[1,1,1,1]" : SIGNED "Conv s w -> y");
		g->keeps_int8 = keep_groups;
		g->target = "int8: groups";
		ck_assert(!rvl_optimise(g, &err));
		ck_assert_uint_eq(count(RVL_OP_B_CONV), !grouped);
		if (grouped)
			ck_assert_str_eq(first(RVL_OP_CONV)->note, "int8: groups");
		release();
	}
}
END_TEST

/* A zero point of int16 is one; two bytes behind it may hold anything. */
START_TEST(zero_points_of_int16_are_read)
{
	static const char form[] = "const l f32 - 0.015625; const z s16 - 3; const z1 s16 - -7; const step f32 - 0.25; "
		"const z8 s8 - 10; QuantizeLinear x l z -> i1; DequantizeLinear i1 l z -> i2; "
		"QuantizeLinear i2 l z1 -> i3; DequantizeLinear i3 l z1 -> i4; "
		"QuantizeLinear i4 step z8 -> i5; DequantizeLinear i5 step z8 -> y";

	compare(form, true, 0);
	release();
}
END_TEST

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

int main(void)
{
	Suite *s = suite_create("binary");
	TCase *t = add_case(s, "models", 15, NULL, NULL);

	tcase_add_loop_test(t, forms_are_binary, 0, COUNT(forms));
	tcase_add_loop_test(t, followers_are_folded, 0, COUNT(followers));
	tcase_add_loop_test(t, others_stay, 0, COUNT(others));
	tcase_add_test(t, a_sign_of_zero_is_noted);
	tcase_add_test(t, a_mean_is_no_binary_layer);
	tcase_add_test(t, images_are_quantised);
	tcase_add_loop_test(t, width_follows_the_outputs, 0, 2);
	tcase_add_loop_test(t, exports_compare_all_floats, 10, 14);
	tcase_add_test(t, a_sign_in_front_of_quantisation_is_exact);
	tcase_add_test(t, nan_is_minus_one);
	tcase_add_test(t, joined_layers_are_quantised);
	tcase_add_test(t, a_target_keeps_layers);
	tcase_add_test(t, zero_points_of_int16_are_read);
	tcase_add_loop_test(t, forms_are_unfolded, 0, COUNT(forms));
	tcase_add_loop_test(t, followers_are_unfolded, 0, COUNT(followers));
	tcase_add_test(t, exports_round_as_layers);
	tcase_add_loop_test(t, exports_compare_beyond_a_type, 0, 10);
	return run_suite(s);
}
