/* SPDX-License-Identifier: MIT */
/*
 * Operators that passes make of others for the NPU: convolutions and pools of lines, means of all
 * positions, and PRelu by channel. The NPU computes all of each model, with the bytes of the CPU's operators.
 */
#include <check.h>
#include <stdio.h>

#include "chance.h"
#include "prog_exec.h"
#include "rivulet_compiler.h"
#include "suite.h"
#include "unit/onnx_text.h"

#define IMAGE(dims) "in i u8 " dims "; const xs f32 - 0.02; const xz u8 - 117; DequantizeLinear i xs xz -> x;"
#define INPUT IMAGE("1,20,30")
#define WEIGHTS(dims) "const w s8 " dims " 9 -70 33 12 -25; const ws f32 - 0.01; const wz s8 - 0; DequantizeLinear w ws wz -> wf;"
#define OUTPUT "const ys f32 - 0.05; const yz u8 - 120; QuantizeLinear y ys yz -> out; out out;"
/* In no simple ratio to the scale of the input, so that no result is in the middle of two steps. */
#define FINER "const ys f32 - 0.0187; const yz u8 - 120; QuantizeLinear y ys yz -> out; out out;"
#define SAME "QuantizeLinear y xs xz -> out; out out;"

/* Convolution a of @channels, quantised, and p, the PRelu of it, in the scale ps. */
#define SLOPES(channels) "Conv x wf -> a; QuantizeLinear a xs xz -> aq; DequantizeLinear aq xs xz -> b;" \
	"const k f32 " channels ",1,1 0.1 -0.25 0 1.5 0.3; PRelu b k -> p; const ps f32 - 0.0187; const pz u8 - 99;"

/* MaxPool with @attributes of a convolution's image, 9 x 11. */
#define POOLED(attributes) \
	IMAGE("1,20,9,11") WEIGHTS("20,20,1,1") "Conv x wf -> a; QuantizeLinear a xs xz -> aq;" \
	"DequantizeLinear aq xs xz -> b; MaxPool b -> y " attributes ";" SAME

/* The result of a convolution, 32 x 3 x 4, with its axes permuted and flattened: f, in the scale xs. */
#define FLATTENED(perm) \
	IMAGE("2,20,5,6") WEIGHTS("32,20,3,3") "Conv x wf -> a; QuantizeLinear a xs xz -> aq; DequantizeLinear aq xs xz -> b;" \
	"Transpose b -> t perm=" perm "; Flatten t -> f;"
/* Weights of a product with a scale for each of 10 results. */
#define BY_CHANNEL(dims, axis) "const v s8 " dims " 7 -60 31 12 -25 0 3; const vs f32 10 0.01 0.02 0.013;" \
	"const vz s8 10 0; DequantizeLinear v vs vz -> vf axis=" axis ";"

struct model {
	const char *what, *text;
	int opset;
	int slack; /* the CPU computes in float: results in the middle of two steps differ by so much */
};

static const struct model models[] = {
	{ "convolution", INPUT WEIGHTS("7,20,3") "Conv x wf -> y pads=[1,2] strides=[2] dilations=[2];" OUTPUT, 13, 0 },
	{ "convolution and relu", INPUT WEIGHTS("16,20,5") "Conv x wf -> r pads=[2,2]; Relu r -> y;" OUTPUT, 13, 0 },
	{ "depthwise convolution", INPUT WEIGHTS("20,1,3") "Conv x wf -> y group=20;" OUTPUT, 13, 0 },
	{ "two convolutions",
	  INPUT WEIGHTS("20,20,3") "Conv x wf -> a pads=[1,1]; QuantizeLinear a xs xz -> aq;"
	  "DequantizeLinear aq xs xz -> b; Conv b wf -> y;" OUTPUT, 13, 0 },
	{ "convolution and maximum",
	  INPUT WEIGHTS("20,20,3") "Conv x wf -> a; QuantizeLinear a xs xz -> aq; DequantizeLinear aq xs xz -> b;"
	  "MaxPool b -> y kernel_shape=[3] strides=[2] pads=[1,0];" SAME, 13, 0 },
	{ "maximum of large windows",
	  POOLED("kernel_shape=[5,5] pads=[2,2,2,2]"), 13, 0 },
	{ "maximum of large windows apart, some of which end behind the padding",
	  POOLED("kernel_shape=[5,4] strides=[1,2] pads=[3,0,1,2] ceil_mode=1"), 13, 0 },
	{ "maximum of large windows with gaps",
	  POOLED("kernel_shape=[4,3] strides=[2,1] pads=[1,2,2,0] dilations=[2,2]"), 13, 0 },
	{ "convolution and mean",
	  INPUT WEIGHTS("20,20,3") "Conv x wf -> a; QuantizeLinear a xs xz -> aq; DequantizeLinear aq xs xz -> b;"
	  "GlobalAveragePool b -> y;" OUTPUT, 13, 0 },
	{ "mean of lines", INPUT "ReduceMean x -> y axes=[2] keepdims=0;" OUTPUT, 13, 0 },
	{ "mean of images",
	  IMAGE("1,20,5,6")
	  "ReduceMean x -> y axes=[2,3] keepdims=0;" OUTPUT, 13, 0 },
	{ "slopes by channel",
	  INPUT WEIGHTS("20,20,3") "Conv x wf -> a; QuantizeLinear a xs xz -> aq; DequantizeLinear aq xs xz -> b;"
	  "const k f32 20,1 0.1 0.25 0 1.5 0.3; PRelu b k -> y;" FINER, 13, 0 },
	{ "slopes of both signs",
	  IMAGE("1,20,5,6")
	  "const k f32 20,1,1 0.1 -0.25 0 1.5 0.3; PRelu x k -> y;" FINER, 13, 0 },
	{ "slopes of a row",
	  IMAGE("1,20")
	  "const k f32 20 0.1 0.25 0 1.5 0.3; PRelu x k -> y;" FINER, 13, 0 },
	{ "slopes of a matrix product and its sum with constants",
	  IMAGE("1,20")
	  "const w s8 20,24 9 -70 33 12 -25; const ws f32 - 0.01; const wz s8 - 0; DequantizeLinear w ws wz -> wf;"
	  "MatMul x wf -> a; QuantizeLinear a xs xz -> aq; DequantizeLinear aq xs xz -> b;"
	  "const k f32 24 0.1 -0.25 0 1.5 0.3; PRelu b k -> y;" FINER, 13, 0 },
	{ "slopes and a maximum on drain",
	  IMAGE("1,20,9,8") WEIGHTS("40,20,3,3") SLOPES("40") "QuantizeLinear p ps pz -> pq; DequantizeLinear pq ps pz -> q;"
	  "MaxPool q -> y kernel_shape=[2,2] strides=[2,2]; QuantizeLinear y ps pz -> out; out out;", 13, 0 },
	{ "slopes and a function",
	  IMAGE("1,20,9,8") WEIGHTS("40,20,3,3") SLOPES("40") "QuantizeLinear p ps pz -> pq; DequantizeLinear pq ps pz -> q;"
	  "Sigmoid q -> y;" FINER, 13, 0 },
	{ "convolution from channels last to channels last",
	  IMAGE("1,9,8,20")
	  WEIGHTS("40,20,3,3") "Transpose x -> t perm=[0,3,1,2]; Conv t wf -> c; Transpose c -> y perm=[0,2,3,1];" OUTPUT, 13, 0 },
	{ "slopes of few pixels to channels last",
	  IMAGE("1,3,4,3") WEIGHTS("64,3,2,2") SLOPES("64") "QuantizeLinear p ps pz -> pq; DequantizeLinear pq ps pz -> q;"
	  "Transpose q -> y perm=[0,2,3,1]; QuantizeLinear y ps pz -> out; out out;", 13, 0 },
	{ "convolution of channels last",
	  IMAGE("1,9,8,16") WEIGHTS("40,16,3,3") "Transpose x -> t perm=[0,3,1,2]; Conv t wf -> y;" OUTPUT, 13, 0 },
	{ "convolution of few channels that are last",
	  IMAGE("1,9,8,3") WEIGHTS("40,3,3,3") "Transpose x -> t perm=[0,3,1,2]; Conv t wf -> y;" OUTPUT, 13, 0 },
	{ "convolution to channels last",
	  IMAGE("1,20,9,8") WEIGHTS("40,20,3,3") "Conv x wf -> c; Transpose c -> y perm=[0,2,3,1];" OUTPUT, 13, 0 },
	{ "product of an image whose channels were moved last",
	  FLATTENED("[0,2,3,1]") BY_CHANNEL("384,10", "1") "MatMul f vf -> y;" OUTPUT, 13, 0 },
	{ "product of an image in the order column, row, channel, by transposed weights",
	  FLATTENED("[0,3,2,1]") BY_CHANNEL("10,384", "0") "Gemm f vf -> y transB=1;" OUTPUT, 13, 0 },
	{ "two products of a permuted image",
	  FLATTENED("[0,1,3,2]") BY_CHANNEL("384,10", "1")
	  "const u s8 384,10 -5 9 80 -33 1; const us f32 - 0.008; const uz s8 - 0; DequantizeLinear u us uz -> uf;"
	  "MatMul f vf -> m; QuantizeLinear m xs xz -> mq; DequantizeLinear mq xs xz -> md; MatMul f uf -> n;"
	  "QuantizeLinear n xs xz -> nq; DequantizeLinear nq xs xz -> nd; Add md nd -> y;" OUTPUT, 13, 0 },
	{ "copies of the edges",
	  IMAGE("1,20,5,6")
	  WEIGHTS("16,20,1,1") "const p s64 8 0 0 1 2 0 0 2 3; Pad x p -> a mode='edge'; Conv a wf -> y;" OUTPUT, 13, 0 },
	{ "copies of the edges of a convolution",
	  IMAGE("1,20,5,6")
	  WEIGHTS("16,20,1,1") "Conv x wf -> a; QuantizeLinear a xs xz -> aq; DequantizeLinear aq xs xz -> b;"
	  "const p s64 8 0 0 0 1 0 0 7 0; Pad b p -> y mode='edge';" SAME, 13, 0 },
	{ "interpolation",
	  IMAGE("1,16,5,6")
	  "const f f32 4 1 1 2 2; Resize x _ f -> y mode='linear';" FINER, 13, 1 },
	{ "interpolation from corner to corner of a convolution",
	  IMAGE("1,20,5,6")
	  WEIGHTS("16,20,1,1") "Conv x wf -> a; QuantizeLinear a xs xz -> aq; DequantizeLinear aq xs xz -> b;"
	  "const f f32 4 1 1 3 3; Resize b _ f -> y mode='linear' coordinate_transformation_mode='asymmetric';"
	  FINER, 13, 1 },
	{ "interpolation by given sizes",
	  "in i s8 1,32,3,5; const xs f32 - 0.02; const xz s8 - -7; DequantizeLinear i xs xz -> x;"
	  "const to s64 4 1 32 12 20; Resize x _ _ to -> y mode='linear'; QuantizeLinear y xs xz -> out; out out;",
	  13, 1 },
	{ "mean of images by an operand",
	  IMAGE("1,20,5,6")
	  "const axes s64 2 -1 -2; ReduceMean x axes -> y;" OUTPUT, 18, 0 },
};

#define MODELS ((int)(sizeof(models) / sizeof(models[0])))
#define MOST_BYTES 8192

static int run_on(const struct model *m, const struct rivulet_board *b, bool cpu, uint8_t *out)
{
	const struct rivulet_compile_options opt = { .cpu_only = cpu };
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	struct pb onnx = ot_model(m->text, m->opset);
	uint8_t x[2048];
	uint64_t seed = 1;
	struct prog_exec run;
	int on_cpu = 0;

	for (size_t i = 0; i < sizeof(x); i++)
		x[i] = (uint8_t)splitmix(&seed);
	ck_assert_msg(!rivulet_compile(onnx.p, onnx.n, b, &opt, &program, &e, &err), "%s: %s", m->what, err.msg);
	for (uint32_t i = 0; i < e.n_rows; i++)
		on_cpu += strcmp(e.rows[i].where, "npu") != 0;
	ck_assert_int_eq(prog_open(&run, b, NULL, program.data), 0);
	ck_assert_uint_le(rivulet_program_tensors(program.data)[0].size, sizeof(x));
	ck_assert_uint_le(rivulet_program_tensors(program.data)[1].size, MOST_BYTES);
	run.io[0] = x;
	run.io[1] = out;
	ck_assert_msg(!prog_run(&run), "%s: %s", m->what, run.err);
	prog_close(&run, true);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	free(onnx.p);
	return on_cpu;
}

/* Bytes that differ; more than @slack is too much. */
static int differing(const uint8_t *a, const uint8_t *b, int slack)
{
	int n = 0;

	for (int i = 0; i < MOST_BYTES; i++) {
		int apart = (int8_t)(a[i] - b[i]); /* also of int8 */

		if (abs(apart) > slack)
			ck_abort_msg("byte %d is %d and %d", i, a[i], b[i]);
		n += a[i] != b[i];
	}
	return n;
}

START_TEST(the_npu_computes_all_of_it)
{
	uint8_t cpu[MOST_BYTES] = { 0 }, npu[MOST_BYTES] = { 0 };
	const struct model *m = &models[_i];
	struct rivulet_board b;
	char why[256];

	ck_assert_msg(!rivulet_board_load(&b, "zu3eg-64", why, sizeof(why)), "%s", why);
	run_on(m, &b, true, cpu);
	ck_assert_msg(!run_on(m, &b, false, npu), "%s: a step of the CPU", m->what);
	if (m->slack)
		ck_assert_int_lt(differing(cpu, npu, m->slack), MOST_BYTES / 16);
	else
		ck_assert_msg(!memcmp(cpu, npu, sizeof(cpu)), "%s: other bytes than the CPU's", m->what);
}
END_TEST

#define SLOPED IMAGE("1,20,9,8") WEIGHTS("40,20,3,3") SLOPES("40")
#define BEHIND SLOPED "QuantizeLinear p ps pz -> pq; DequantizeLinear pq ps pz -> q;"

/* Models that the NPU computes in one layer. */
static const char *const one_layer[] = {
	SLOPED "QuantizeLinear p ps pz -> out; out out;",
	BEHIND "MaxPool q -> y kernel_shape=[2,2] strides=[2,2]; QuantizeLinear y ps pz -> out; out out;",
	BEHIND "Sigmoid q -> y;" FINER,
	/* images in NHWC, read and written as such */
	IMAGE("1,9,8,3") WEIGHTS("40,3,3,3") "Transpose x -> t perm=[0,3,1,2]; Conv t wf -> y;" OUTPUT,
	IMAGE("1,20,9,8") WEIGHTS("40,20,3,3") "Conv x wf -> c; Transpose c -> y perm=[0,2,3,1];" OUTPUT,
	IMAGE("1,3,4,3") WEIGHTS("64,3,2,2") SLOPES("64") "QuantizeLinear p ps pz -> pq; DequantizeLinear pq ps pz -> q;"
	"Transpose q -> y perm=[0,2,3,1]; QuantizeLinear y ps pz -> out; out out;",
};

/* Those of @op, or all, on the NPU or anywhere. */
static int layers(const char *text, const char *op, const char *where)
{
	struct rivulet_board b;
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	char why[256];
	struct pb onnx;
	int n = 0;

	onnx = ot_model(text, 13);
	ck_assert_msg(!rivulet_board_load(&b, "zu3eg-128", why, sizeof(why)), "%s", why);
	ck_assert_msg(!rivulet_explain_model(onnx.p, onnx.n, &b, NULL, &e, &err), "%s", err.msg);
	for (uint32_t i = 0; i < e.n_rows; i++)
		n += (!where || !strcmp(e.rows[i].where, where)) && (!op || !strcmp(e.rows[i].op, op));
	rivulet_explain_free(&e);
	free(onnx.p);
	return n;
}

static int npu_layers(const char *text, const char *op)
{
	return layers(text, op, "npu");
}

START_TEST(one_layer_is_enough)
{
	ck_assert_int_eq(npu_layers(one_layer[_i], NULL), 1);
}
END_TEST

/*
 * A maximum is one along each axis only where that takes at most half of the positions. The one that
 * divides its image is done on drain.
 */
START_TEST(large_windows_are_two)
{
	ck_assert_int_eq(npu_layers(POOLED("kernel_shape=[5,5] pads=[2,2,2,2]"), "MaxPool"), 2);
	ck_assert_int_eq(npu_layers(POOLED("kernel_shape=[9,9] strides=[2,2] pads=[4,4,4,4]"), "MaxPool"), 2);
	ck_assert_int_eq(npu_layers(POOLED("kernel_shape=[4,4]"), "MaxPool"), 1);
	ck_assert_int_eq(npu_layers(POOLED("kernel_shape=[3,3] pads=[1,1,1,1]"), "MaxPool"), 1);
	ck_assert_int_eq(npu_layers(POOLED("kernel_shape=[5,5] strides=[5,5]"), "MaxPool"), 0);
	ck_assert_int_eq(npu_layers(POOLED("kernel_shape=[1,9]"), "MaxPool"), 1);
}
END_TEST

/* Products read a permuted image as it was stored, where they are all that reads it. */
START_TEST(products_take_the_image)
{
	const char *product = "MatMul f vf -> y;" OUTPUT;
	char text[2048];

	snprintf(text, sizeof(text), "%s%s", FLATTENED("[0,3,2,1]") BY_CHANNEL("384,10", "1"), product);
	ck_assert_int_eq(layers(text, "Transpose", NULL), 0);
	ck_assert_int_eq(npu_layers(text, NULL), 2);
	snprintf(text, sizeof(text), "%s%s", FLATTENED("[0,3,2,1]") BY_CHANNEL("384,10", "1")
		 "QuantizeLinear f xs xz -> other; out other;", product);
	ck_assert_int_eq(layers(text, "Transpose", NULL), 1);
}
END_TEST

/* Forms that the NPU does not compute, and the rule that explain names. */
static const struct model left[] = {
	{ "only transposed convolutions with equal strides up to 4, explicit pads and no dilation",
	  IMAGE("1,20,5,6")
	  WEIGHTS("20,16,2,2") "ConvTranspose x wf -> y strides=[2,1];" OUTPUT, 13, 0 },
	{ "float: its input 'r' is not quantised",
	  IMAGE("1,20,5,6")
	  WEIGHTS("20,16,2,2") "Sin x -> r; ConvTranspose r wf -> y;" OUTPUT, 13, 0 },
	{ "its padding is larger than 16384 pixels",
	  INPUT WEIGHTS("7,20,3") "Conv x wf -> y pads=[20000,0];" OUTPUT, 13, 0 },
	{ "the NPU interpolates by whole factors up to 4",
	  IMAGE("1,20,5,6")
	  "const f f32 4 1 1 2 2; Resize x _ f -> y mode='linear';" OUTPUT, 13, 0 },
	{ "no factors of the NPU give its bytes exactly",
	  IMAGE("1,20,5,6")
	  "const k f32 20,1,1 0.1 -0.25 0 1.5 0.3; PRelu x k -> y;" OUTPUT, 13, 0 },
	{ "copies of pixels are looked for only in images of up to 16 MiB",
	  IMAGE("1,1,4096,4096")
	  "const p s64 8 0 0 1 1 0 0 1 1; Pad x p -> y mode='edge';" OUTPUT, 13, 0 },
	{ "more than 16384 of them are not tried", /* which would take 40 us each */
	  IMAGE("1,16385,1,1")
	  "const n s64 3 16385 1 1; ConstantOfShape n -> k; PRelu x k -> y;" OUTPUT, 13, 0 },
};

START_TEST(a_step_of_the_cpu_names_its_rule)
{
	const struct model *m = &left[_i];
	struct rivulet_board b;
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	struct pb onnx = ot_model(m->text, m->opset);
	bool named = false;
	char why[256];

	ck_assert_msg(!rivulet_board_load(&b, "zu3eg-64", why, sizeof(why)), "%s", why);
	ck_assert_msg(!rivulet_explain_model(onnx.p, onnx.n, &b, NULL, &e, &err), "%s", err.msg);
	for (uint32_t i = 0; i < e.n_rows; i++)
		named |= !strcmp(e.rows[i].where, "cpu") && strstr(e.rows[i].reason, m->what);
	ck_assert_msg(named, "no step of the CPU says \"%s\"", m->what);
	rivulet_explain_free(&e);
	free(onnx.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lines");
	TCase *t = add_case(s, "lines", 60, NULL, NULL);

	tcase_add_loop_test(t, the_npu_computes_all_of_it, 0, MODELS);
	tcase_add_loop_test(t, one_layer_is_enough, 0, (int)(sizeof(one_layer) / sizeof(one_layer[0])));
	tcase_add_test(t, large_windows_are_two);
	tcase_add_test(t, products_take_the_image);
	tcase_add_loop_test(t, a_step_of_the_cpu_names_its_rule, 0, (int)(sizeof(left) / sizeof(left[0])));
	return run_suite(s);
}
