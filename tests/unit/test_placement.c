/* SPDX-License-Identifier: MIT */
/*
 * Where the compiler places the operators of small models, and the reasons for the CPU, on both
 * sides of each bound.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rivulet_compiler.h"
#include "rivulet_kernels.h"
#include "suite.h"
#include "unit/onnx_text.h"

static struct rivulet_board board;
static struct rvl_err err;

static void load_board(void)
{
	char why[256];

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
	board.modes = 1; /* dense alone: where nodes run is tested here, not in which mode */
}

struct placed {
	const char *text;
	const char *rows; /* "operator place: reason (fused); ..." */
};

static void describe(const struct rivulet_explain *e, char *s, size_t size)
{
	size_t n = 0;

	for (uint32_t i = 0; i < e->n_rows; i++) {
		const struct rivulet_explain_row *r = &e->rows[i];

		n += (size_t)snprintf(s + n, size - n, "%s%s %s%s%s%s%s%s", i ? "; " : "", r->op,
				      r->where, *r->reason ? ": " : "", r->reason,
				      *r->fused ? " (" : "", r->fused, *r->fused ? ")" : "");
		ck_assert_uint_lt(n, size);
	}
}

static void check_with(const struct placed *p, const struct rivulet_compile_options *o)
{
	struct pb m = ot_model(p->text, 13);
	struct rivulet_explain e;
	char is[4096] = "";
	int rc = rivulet_explain_model(m.p, m.n, &board, o, &e, &err);

	ck_assert_msg(!rc, "%s: %s", p->text, err.msg);
	describe(&e, is, sizeof(is));
	ck_assert_msg(!strcmp(is, p->rows), "%s\n is  %s\n not %s", p->text, is, p->rows);
	rivulet_explain_free(&e);
	free(m.p);
}

#define S	"const h f32 - 0.5; const t f32 - 2; const z u8 - 3; const i s8 - 0; "
#define IMAGE	S "in x u8 1,2,6,5; out y; "
#define WEIGHTS "const w s8 4,2,1,1 1; "
#define CONV	IMAGE WEIGHTS "QLinearConv x h z w h i h z -> "
#define ADD	"@com.microsoft "

static const struct placed places[] = {
	/* Operators at the edges of the model, and those that stay float. */
	{ S "in x f32 4; out y; QuantizeLinear x h z -> y",
	  "QuantizeLinear cpu: float in: the NPU takes bytes" },
	{ S "in x u8 4; out y; DequantizeLinear x h z -> y",
	  "DequantizeLinear cpu: float out: the NPU gives bytes" },
	{ "in x f32 1,2,6,5; const w f32 4,2,3,3 1; out y; Conv x w -> y",
	  "Conv cpu: float: its input 'x' is not quantised" },
	{ S "in x u8 4; in v f32 4; out y; DequantizeLinear x h z -> a; Add a v -> y",
	  "DequantizeLinear cpu: float out: the NPU gives bytes; Add cpu: float: its input 'v' is "
	  "not quantised" },
	{ S "in x u8 4; out y; DequantizeLinear x h z -> a; Add a a -> y",
	  "DequantizeLinear cpu: float out: the NPU gives bytes; Add cpu: float: its result is not "
	  "quantised" },
	{ S "in x u8 4; out y; DequantizeLinear x h z -> a; Add a a -> b; Softmax b -> y",
	  "DequantizeLinear cpu: float out: the NPU gives bytes; Add cpu: float: 'Softmax_2' reads "
	  "its "
	  "result, which is not "
	  "quantised; "
	  "Softmax cpu: the NPU has no such arithmetic" },
	{ S "in x u8 4; out y; const k f32 - 1048576; DequantizeLinear x k z -> a; Add a a -> b; "
	    "QuantizeLinear b h z -> y",
	  "DequantizeLinear cpu: float out: the NPU gives bytes; "
	  "Add cpu: float: scales or operands around it do not allow integers; QuantizeLinear cpu: "
	  "float in: the NPU takes bytes" },
	{ "in x f32 4; out y; Relu x -> y", "Relu cpu: float: its input 'x' is not quantised" },
	{ "in x f32 2,3; out y; Transpose x -> a; Relu a -> y",
	  "Relu cpu: float: its input 'a' is not quantised" },
	{ "in x f32 1,2,4,4; out y; GlobalMaxPool x -> y",
	  "GlobalMaxPool cpu: its input is not quantised to 8 bits with one scale" },
	{ S "in x u8 2,3; const s f32 3 0.5 1 2; const zz u8 3 1; out y; DequantizeLinear x s zz "
	    "-> a; Transpose a -> b; "
	    "DequantizeLinear v s zz -> y axis=0; Transpose x -> v",
	  "Transpose cpu: its input is not quantised to 8 bits with one scale; DequantizeLinear "
	  "cpu: float out: the NPU gives bytes" },
	/* Scales that are known at run time only, or that contradict each other. */
	{ S "in x u8 4; in s f32 -; out y; QLinearAdd" ADD "x s z x h z h z -> y",
	  "QLinearAdd cpu: its operand 's' is not constant" },
	{ S "in x u8 4; in s u8 -; out y; QLinearAdd" ADD "x h s x h z h z -> y",
	  "QLinearAdd cpu: its operand 's' is not constant" },
	{ S "in x u8 4; in v u8 4; in s f32 -; out y; QLinearMul" ADD "x h z v h z s z -> y",
	  "QLinearMul cpu: its operand 's' is not constant" },
	{ S "in x u8 4; out y; QLinearAdd" ADD "x h z x h z h z -> y", "QAdd npu" },
	{ S "in x u8 4; out y; QLinearMul" ADD "x h z x h z h z -> y", "QMul npu" },
	{ S "in x u8 4; out y; const zz u8 - 4; QLinearMul" ADD "x h z x h zz h z -> y",
	  "QLinearMul cpu: its quantisation parameters contradict those of its neighbours" },
	{ S "in x u8 4; out y; QLinearAdd" ADD "x h z x t z h z -> y",
	  "QLinearAdd cpu: its quantisation parameters contradict those of its neighbours" },
	/* Products. */
	{ CONV "y", "QConv npu" },
	{ IMAGE "in w s8 4,2,3,3; QLinearConv x h z w h i h z -> y",
	  "QConv cpu: its weights are not constant" },
	{ S "in x u8 2,3; in w s8 3,4; out y; QLinearMatMul x h z w h i h z -> y",
	  "QMatMul cpu: its weights are not constant" },
	{ S "in x u8 2,3; const w s8 3,4 1; out y; QLinearMatMul x h z w h i h z -> y",
	  "QMatMul npu" },
	{ S "in x u8 5,2,3; const w s8 3,4 1; out y; QLinearMatMul x h z w h i h z -> y",
	  "QMatMul npu" },
	{ S "in x u8 3; const w s8 3,4 1; out y; QLinearMatMul x h z w h i h z -> y",
	  "QMatMul cpu: its first operand is a vector" },
	{ S "in x u8 2,2,3; const w s8 2,3,4 1; out y; QLinearMatMul x h z w h i h z -> y",
	  "QMatMul cpu: its second operand is a batch of matrices" },
	{ S "in x u8 3,2; const w s8 3,4 1; out y; QGemm" ADD "x h z w h i _ h z -> y transA=1",
	  "QMatMul cpu: its first operand is transposed" },
	{ S "in x u8 2,3,0,4; const w s8 4,5 1; out y; QLinearMatMul x h z w h i h z -> y",
	  "QMatMul cpu: its input or output has no image form" },
	/* Weights up to 255 above their zero point are split into three int8 summands. */
	{ IMAGE "const w u8 4,2,1,1 0 255; const zw u8 - 0; QLinearConv x h z w h zw h z -> y",
	  "QConv npu" },
	{ IMAGE "const w u8 4,2,1,1 0 255; const zw u8 - 255; QLinearConv x h z w h zw h z -> y",
	  "QConv npu" },
	/* Pools. */
	{ IMAGE "MaxPool x -> y kernel_shape=[2,2]", "MaxPool npu" },
	{ IMAGE "out v; MaxPool x -> y v kernel_shape=[2,2]", "MaxPool cpu: its indices are used" },
	{ IMAGE "MaxPool x -> y v kernel_shape=[2,2]", "MaxPool npu" },
	{ S "in x u8 1,1,255,1; out y; MaxPool x -> y kernel_shape=[255,1]", "MaxPool npu" },
	{ S "in x u8 1,1,256,1; out y; MaxPool x -> y kernel_shape=[256,1]",
	  "MaxPool cpu: the pooling window is larger than 255, or its dilation than 31" },
	{ S "in x u8 1,1,1,256; out y; MaxPool x -> y kernel_shape=[1,255]", "MaxPool npu" },
	{ S "in x u8 1,1,1,256; out y; MaxPool x -> y kernel_shape=[1,256]",
	  "MaxPool cpu: the pooling window is larger than 255, or its dilation than 31" },
	{ S "in x u8 1,1,600,1; out y; MaxPool x -> y kernel_shape=[1,1] strides=[255,1]",
	  "MaxPool npu" },
	{ S "in x u8 1,1,600,1; out y; MaxPool x -> y kernel_shape=[1,1] strides=[256,1]",
	  "MaxPool cpu: the pooling window is larger than 255, or its dilation than 31" },
	{ S "in x u8 1,1,1,600; out y; MaxPool x -> y kernel_shape=[1,1] strides=[1,255]",
	  "MaxPool npu" },
	{ S "in x u8 1,1,1,600; out y; MaxPool x -> y kernel_shape=[1,1] strides=[1,256]",
	  "MaxPool cpu: the pooling window is larger than 255, or its dilation than 31" },
	{ S "in x u8 1,1,64,64; out y; MaxPool x -> y kernel_shape=[2,2] dilations=[31,31]",
	  "MaxPool npu" },
	{ S "in x u8 1,1,64,64; out y; MaxPool x -> y kernel_shape=[2,2] dilations=[32,31]",
	  "MaxPool cpu: the pooling window is larger than 255, or its dilation than 31" },
	{ S "in x u8 1,1,64,64; out y; MaxPool x -> y kernel_shape=[2,2] dilations=[31,32]",
	  "MaxPool cpu: the pooling window is larger than 255, or its dilation than 31" },
	{ S "in x u8 1,2,4,4; out y; QLinearGlobalAveragePool" ADD "x h z t z -> y",
	  "QGlobalAveragePool npu" },
	{ S "in x u8 1,2,4; out y; QLinearGlobalAveragePool" ADD "x h z t z -> y",
	  "QGlobalAveragePool cpu: its input has 3 dimensions, not 4" },
	{ S "in x u8 1,2,4; out y; GlobalMaxPool x -> y", "GlobalMaxPool npu" },
	{ S "in x u8 1,2,4,4; out y; GlobalMaxPool x -> y", "GlobalMaxPool npu" },
	{ S "in x u8 1,1,256,2; out y; GlobalMaxPool x -> y",
	  "GlobalMaxPool cpu: the pooling window is larger than 255, or its dilation than 31" },
	{ S "in x u8 1,2,4,4; out y; const o f32 - 0.1; const zo u8 - 4; QLinearAveragePool" ADD
	    "x o z o zo -> y kernel_shape=[2,2]",
	  "QAveragePool cpu: onnxruntime averages in float, the NPU in integers: up to 1 apart for "
	  "these scales" },
	{ S "in x u8 1,2,4,4; out y; const zo u8 - 4; QLinearAveragePool" ADD
	    "x h zo h zo -> y kernel_shape=[2,2]",
	  "QAveragePool npu" },
	{ S "in x u8 1,1,3,16384; out y; const zo u8 - 4; QLinearAveragePool" ADD
	    "x h zo h zo -> y kernel_shape=[2,2]",
	  "QAveragePool cpu: the image of an average pool is larger than 16384" },
	{ S "in x u8 1,1,3,16383; out y; const zo u8 - 4; QLinearAveragePool" ADD
	    "x h zo h zo -> y kernel_shape=[2,2]",
	  "QAveragePool npu" },
	{ S "in x u8 1,1,16384,3; out y; const zo u8 - 4; QLinearAveragePool" ADD
	    "x h zo h zo -> y kernel_shape=[2,2]",
	  "QAveragePool cpu: the image of an average pool is larger than 16384" },
	{ S "in x u8 1,1,16383,3; out y; const zo u8 - 4; QLinearAveragePool" ADD
	    "x h zo h zo -> y kernel_shape=[2,2]",
	  "QAveragePool npu" },
	/* Additions with one value, or with one value for each channel of an image. */
	{ IMAGE "in v u8 1,2,6,5; QLinearAdd" ADD "x h z v h z h z -> y", "QAdd npu" },
	{ IMAGE "in v u8 1,2,1,1; QLinearAdd" ADD "x h z v h z h z -> y", "QAdd npu" },
	{ IMAGE "in v u8 2,1,1; QLinearMul" ADD "v h z x h z h z -> y", "QMul npu" },
	{ IMAGE "in v u8 1; QLinearAdd" ADD "x h z v h z h z -> y", "QAdd npu" },
	{ IMAGE "in v u8 -; QLinearAdd" ADD "v h z x h z h z -> y", "QAdd npu" },
	{ IMAGE "in v u8 6,1; QLinearAdd" ADD "x h z v h z h z -> y",
	  "QAdd cpu: its operands differ in shape, and neither is one value for each channel" },
	{ IMAGE "in v u8 5; QLinearAdd" ADD "x h z v h z h z -> y",
	  "QAdd cpu: its operands differ in shape, and neither is one value for each channel" },
	{ IMAGE "in v u8 1,1,6,5; QLinearAdd" ADD "x h z v h z h z -> y",
	  "QAdd cpu: its operands differ in shape, and neither is one value for each channel" },
	{ S "in x u8 1,2,1,5; in v u8 1,2,6,1; out y; QLinearAdd" ADD "x h z v h z h z -> y",
	  "QAdd cpu: its operands differ in shape, and neither is one value for each channel" },
	{ S "in x u8 2,3; in v u8 3; out y; QLinearAdd" ADD "x h z v h z h z -> y",
	  "QAdd cpu: its operands differ in shape, and neither is one value for each channel" },
	{ S "in x u8 2,3; in v u8 1; out y; QLinearAdd" ADD "x h z v h z h z -> y",
	  "QAdd cpu: its operands differ in shape, and neither is one value for each channel" },
	{ S "in x u8 1,1,2,2,2; in v u8 1,1,2,2,2; out y; QLinearAdd" ADD "x h z v h z h z -> y",
	  "QAdd cpu: its input or output is not 8 bits with one scale, or has more than four "
	  "dimensions" },
	{ S "in x u8 0,2; in v u8 0,2; out y; QLinearAdd" ADD "x h z v h z h z -> y",
	  "QAdd cpu: its input or output is not 8 bits with one scale, or has more than four "
	  "dimensions" },
	/* The NPU transposes and changes shapes only beside other work. */
	{ IMAGE "Transpose x -> y perm=[0,2,3,1]",
	  "Transpose cpu: an NPU step would only move values" },
	{ CONV "c; Transpose c -> y perm=[0,2,3,1]", "QConv npu" },
	{ CONV "c; Transpose c -> y perm=[0,3,1,2]", "QConv npu; Transpose npu" },
	{ CONV "c; Transpose c -> y perm=[0,1,3,2]",
	  "QConv npu; Transpose cpu: only channels first to channels last and back" },
	{ CONV "c; Flatten c -> y", "QConv npu" },
	{ IMAGE "Flatten x -> y", "Flatten cpu: an NPU step would only move values" },
	{ IMAGE "Identity x -> y", "Identity cpu: an NPU step would only move values" },
	/* Operators that are fused into the drain of a convolution. */
	{ CONV "c; MaxPool c -> y kernel_shape=[2,2] strides=[2,2]", "QConv npu (MaxPool_1)" },
	{ CONV "c; MaxPool c -> y kernel_shape=[3,2] strides=[3,2]", "QConv npu (MaxPool_1)" },
	{ CONV "c; MaxPool c -> y kernel_shape=[2,2] strides=[1,2]",
	  "QConv npu: result stays in INP; MaxPool npu: operand stays in INP" },
	{ CONV "c; MaxPool c -> y kernel_shape=[2,2] strides=[2,1]",
	  "QConv npu: result stays in INP; MaxPool npu: operand stays in INP" },
	{ CONV "c; MaxPool c -> y kernel_shape=[6,5]", "QConv npu (MaxPool_1)" },
	{ CONV "c; GlobalMaxPool c -> y", "QConv npu (GlobalMaxPool_1)" },
	{ CONV "c; QLinearGlobalAveragePool" ADD "c h z t z -> y",
	  "QConv npu (QLinearGlobalAveragePool_1)" },
	{ CONV "c; out c; MaxPool c -> y kernel_shape=[2,2] strides=[2,2]",
	  "QConv npu; MaxPool npu" },
	{ CONV "c; in v u8 1,4,6,5; QLinearAdd" ADD "c h z v t z h z -> y",
	  "QConv npu (QLinearAdd_1)" },
	{ CONV "c; in v u8 1,4,6,5; QLinearMul" ADD "v t z c h z h z -> y",
	  "QConv npu (QLinearMul_1)" },
	{ CONV "c; in v u8 4,1,1; QLinearMul" ADD "v t z c h z h z -> y", "QConv npu; QMul npu" },
	{ CONV "c; QLinearAdd" ADD "c h z c h z h z -> y", "QConv npu (QLinearAdd_1)" },
	{ CONV "c; in v u8 1,4,6,5; QLinearAdd" ADD
	       "c h z v t z h z -> d; MaxPool d -> y kernel_shape=[2,2] strides=[2,2]",
	  "QConv npu: result kept in INP (QLinearAdd_1); MaxPool npu: operand kept in INP" },
	/*
	 * A large kernel over few channels wastes the array, so that the patches are gathered into
	 * channels.
	 */
	{ IMAGE "const w s8 4,2,3,3 1; QLinearConv x h z w h i h z -> y",
	  "QConv npu: patches gathered" },
	{ S "in x u8 1,16,6,5; out y; const w s8 4,16,3,3 1; QLinearConv x h z w h i h z -> y",
	  "QConv npu" },
	/* Unsupported models are explained, too. */
	{ "in x f32 4; out y; Relu x -> a; Frob a -> y",
	  "Relu cpu: float: its input 'x' is not quantised; Frob none: operator Frob is not in "
	  "docs/operators.md" },
};

START_TEST(operators_and_their_places)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		check_with(&places[i], NULL);
}
END_TEST

START_TEST(averages_within_1_are_accepted)
{
	const struct rivulet_compile_options o = { .average_within_1 = true };
	const struct placed p = {
		S "in x u8 1,2,4,4; out y; const o f32 - 0.1; QLinearAveragePool" ADD
		  "x o z o z -> y kernel_shape=[2,2]",
		"QAveragePool npu"
	};

	check_with(&p, &o);
}
END_TEST

START_TEST(the_cpu_can_be_asked_for)
{
	const struct rivulet_compile_options o = { .cpu_only = true };
	const struct placed p = { CONV "y", "QConv cpu: the options request the CPU" };

	check_with(&p, &o);
}
END_TEST

/* Inputs and outputs beyond the device's slots, of which it has 12. */
START_TEST(slots_for_inputs_and_outputs)
{
	for (int inputs = 10; inputs <= 13; inputs++) {
		struct placed p;
		char text[2048], rows[2048];
		size_t n = (size_t)snprintf(text, sizeof(text), S), r = 0;

		for (int i = 0; i < inputs; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "in x%d u8 1,2,6,5; ", i);
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "out y; out v; "
				      "QLinearAdd@com.microsoft x0 h z x1 t z h z -> y; "
				      "QLinearAdd@com.microsoft x2 h z x%d t z h z -> v",
				      inputs - 1);
		r = (size_t)snprintf(rows, sizeof(rows),
				     inputs <= 11 ? "QAdd npu; " :
						    "QAdd cpu: the device reaches only the first "
						    "12 inputs and outputs; ");
		snprintf(rows + r, sizeof(rows) - r,
			 inputs <= 10 ? "QAdd npu" :
					"QAdd cpu: the device reaches only the first 12 inputs and "
					"outputs");
		if (inputs == 11)
			snprintf(rows, sizeof(rows), "%s",
				 "QAdd cpu: the device reaches only the first 12 inputs and "
				 "outputs; QAdd npu");
		p = (struct placed){ text, rows };
		check_with(&p, NULL);
	}
}
END_TEST

/* The loader would refuse such a program: the compiler does, and names the node. */
START_TEST(workspaces_beyond_the_limit)
{
	struct rivulet_compile_options o = { .cpu_only = true, .stochastic = true };
	struct pb m = ot_model(S "in x u8 32768,32768; const w s8 32768,1 1; const o u8 - 0; "
			       "out y; QLinearMatMul x h o w h i h o -> y", 13);
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	int rc;

	for (int level = 0; level < RIVULET_LEVELS; level++)
		o.length[level] = 64;
	rc = rivulet_compile(m.p, m.n, &board, &o, &program, NULL, &err);
	ck_assert_msg(rc == -E2BIG, "%d: %s", rc, err.msg);
	ck_assert_str_eq(err.msg, "node \"QLinearMatMul_0\" (QLinearMatMul): it needs 1027 MiB of "
				  "workspace, at most 1024 MiB are allowed");
	ck_assert_ptr_null(program.data);
	free(m.p);
}
END_TEST

/* What the kernels of a program keep is added up. */
START_TEST(packed_weights_beyond_the_limit)
{
	static const float scale = 0.1f;
	static const int32_t zero;
	static int8_t w[1 << 20];
	const struct rvl_kernel_quant q = { .n = 1, .scale = &scale, .zp = &zero };
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_MATMUL, .n_in = 2, .n_out = 1,
		.in = { { .type = RVL_TYPE_U8, .shape = { 2, { 1, 1024 } }, .quant = q },
			{ .type = RVL_TYPE_S8, .shape = { 2, { 1024, 1024 } }, .quant = q, .data = w } },
		.out = { { .type = RVL_TYPE_U8, .shape = { 2, { 1, 1024 } }, .quant = q } },
	};
	struct rvl_kernels_need need = { 0 };
	char why[RVL_WHY_MAX] = "", want[RVL_WHY_MAX];
	struct rvl_kernel *k;
	uint64_t bytes, most;

	/* Weights of all 8 bits, so that no table stands for them. */
	for (size_t i = 0; i < sizeof(w); i++)
		w[i] = (int8_t)(i * 37);
	rvl_attr_init(&d.attr);
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, why), 0);
	bytes = rvl_kernel_bytes(k);
	ck_assert_uint_ge(bytes, sizeof(w));
	most = RVL_KERNELS_MOST / bytes;
	for (uint64_t i = 0; i < most; i++)
		if (rvl_kernels_add(&need, k, why))
			ck_abort_msg("kernel %llu: %s", (unsigned long long)i, why);
	ck_assert_int_eq(rvl_kernels_add(&need, k, why), -E2BIG);
	snprintf(want, sizeof(want), "with its %llu MiB of packed weights and tables the CPU steps keep "
		 "%llu MiB, at most 1024 MiB are allowed", (unsigned long long)((bytes + 0xfffff) >> 20),
		 (unsigned long long)(((most + 1) * bytes + 0xfffff) >> 20));
	ck_assert_str_eq(why, want);
	rvl_kernel_free(k);
}
END_TEST

/* Boards that lack a feature or a size that the model needs. */
START_TEST(boards_without_what_is_needed)
{
	const struct placed dense = { CONV "y", "QConv cpu: this board's array has no dense mode" };
	const struct placed cap = {
		S "in x u8 1,1024,1024; const w s8 1024,1024 1; out y; QLinearMatMul x h z w h i h "
		  "z -> y",
		"QMatMul cpu: it takes more cycles than this board allows a program"
	};
	const struct placed small = {
		S "in x u8 1,2,64,64; out y; QLinearGlobalAveragePool" ADD "x h z t z -> y",
		"QGlobalAveragePool cpu: no tile of it fits this board's scratchpads"
	};
	const struct placed fits = { cap.text, "QMatMul npu" };

	board.modes = 1u << 2;
	check_with(&dense, NULL);
	load_board();
	check_with(&fits, NULL);
	/* 2^30 products, 64 in a cycle: 16 Mi cycles, which is not less than the cap. */
	board.cycle_cap = 16;
	check_with(&cap, NULL);
	board.cycle_cap = 17;
	check_with(&fits, NULL);
	load_board();
	board.inp_bytes = 4096 * board.tn;
	check_with(&small, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("placement");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, load_board, NULL);
	tcase_add_test(t, operators_and_their_places);
	tcase_add_test(t, averages_within_1_are_accepted);
	tcase_add_test(t, the_cpu_can_be_asked_for);
	tcase_add_test(t, slots_for_inputs_and_outputs);
	tcase_add_test(t, boards_without_what_is_needed);
	tcase_add_test(t, workspaces_beyond_the_limit);
	tcase_add_test(t, packed_weights_beyond_the_limit);
	suite_add_tcase(s, t);
	return run_suite(s);
}
