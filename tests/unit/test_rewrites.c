/* SPDX-License-Identifier: MIT */
/*
 * The results of the passes for small models, as text: which operators are left, with the
 * constants, scales, zero points and clamps that docs/numerics.md prescribes. The scales are powers
 * of two, so that the numbers can be computed by hand.
 */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "onnx/onnx.h"
#include "pass/passes.h"
#include "suite.h"
#include "unit/onnx_text.h"

static struct rvl_err err;

struct line {
	char s[2048];
	size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	l->n += (size_t)vsnprintf(l->s + l->n, sizeof(l->s) - l->n, fmt, ap);
	va_end(ap);
	ck_assert_uint_lt(l->n, sizeof(l->s));
}

static double element(const struct rvl_tensor *t, int64_t i)
{
	switch (t->type) {
	case RVL_TYPE_F32:
		return (double)((const float *)t->data)[i];
	case RVL_TYPE_U8:
		return ((const uint8_t *)t->data)[i];
	case RVL_TYPE_S8:
		return ((const int8_t *)t->data)[i];
	case RVL_TYPE_S32:
		return ((const int32_t *)t->data)[i];
	default:
		return (double)((const int64_t *)t->data)[i];
	}
}

/* "x", or the values of a constant; scales and zero points behind it: "x(0.5,3)", "[1
 * 2](0.25,0|0.5,0)" */
static void add_tensor(struct line *l, const struct rvl_tensor *t)
{
	static const char *const letters[] = { "?", "f", "u", "s", "i", "l", "b" };

	if (!t) {
		add(l, " _");
		return;
	}
	if (t->data)
		add(l, " %s[", letters[t->type]);
	else if (strncmp(t->name, "rvl/", 4))
		add(l, " %s", t->name);
	else
		add(l, " %s", letters[t->type]);
	for (int64_t i = 0; t->data && i < rvl_shape_count(&t->shape); i++)
		add(l, "%s%g", i ? " " : "", element(t, i));
	add(l, t->data ? "]" : "");
	for (uint32_t i = 0; i < t->quant.n; i++)
		add(l, "%s%g,%d", i ? "|" : "(", (double)t->quant.scale[i], t->quant.zp[i]);
	add(l, t->quant.n ? ")" : "");
}

static void add_node(struct line *l, const struct rvl_node *n)
{
	add(l, "%s%s", l->n ? "; " : "", rvl_op_name(n->op));
	for (uint32_t i = 0; i < n->n_in; i++)
		add_tensor(l, n->in[i]);
	add(l, " ->");
	for (uint32_t i = 0; i < n->n_out; i++)
		add_tensor(l, n->out[i]);
	if (n->attr.q_lo != INT32_MIN)
		add(l, " from %d", n->attr.q_lo);
	if (n->attr.q_hi != INT32_MAX)
		add(l, " to %d", n->attr.q_hi);
	if (n->attr.f_lo != -INFINITY)
		add(l, " above %g", (double)n->attr.f_lo);
	if (n->attr.f_hi != INFINITY)
		add(l, " below %g", (double)n->attr.f_hi);
	if (n->fused)
		add(l, " with %s", n->fused);
}

struct rewrite {
	const char *text;
	const char *becomes;
};

static void check(const struct rewrite *r, int64_t opset)
{
	struct pb m = ot_model(r->text, opset);
	struct line is = { .n = 0 };
	struct rvl_graph *g = NULL;
	int rc = rvl_onnx_load(m.p, m.n, NULL, &g, &err);

	ck_assert_msg(!rc, "%s: %s", r->text, err.msg);
	rc = rvl_optimise(g, &err);
	ck_assert_msg(!rc, "%s: %s", r->text, err.msg);
	rc = rvl_graph_check_supported(g, &err);
	ck_assert_msg(!rc, "%s: %s", r->text, err.msg);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		add_node(&is, g->nodes[i]);
	ck_assert_msg(!strcmp(is.s, r->becomes), "%s\n becomes %s\n not     %s", r->text, is.s,
		      r->becomes);
	rvl_graph_free(g);
	free(m.p);
}

/* Scales a half, a quarter, an eighth, two; zero points 3, 0, 10. */
#define S                                                                                          \
	"const h f32 - 0.5; const q f32 - 0.25; const e f32 - 0.125; const t f32 - 2; "            \
	"const z3 u8 - 3; const z0 s8 - 0; const z10 u8 - 10; "
#define XW                                                                                         \
	S "in x u8 1,1,1,2; const w s8 2,1,1,1 4 -3; out y; "                                      \
	  "DequantizeLinear x h z3 -> xf; DequantizeLinear w q z0 -> wf; "

static const struct rewrite products[] = {
	{ XW "Conv xf wf -> c; QuantizeLinear c t z10 -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> y(2,10)" },
	/* A clamp is given in units of the result. */
	{ XW "Conv xf wf -> c; Relu c -> r; QuantizeLinear r t z10 -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> y(2,10) from 10 with Relu_3" },
	{ XW "Conv xf wf -> c; Clip c lo hi -> r; QuantizeLinear r h z10 -> y; const lo f32 - -1; "
	     "const hi f32 - 2.5",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> y(0.5,10) from 8 to 15 with Clip_3" },
	{ XW "Conv xf wf -> c; Clip c _ hi -> r; QuantizeLinear r h z10 -> y; const hi f32 - 1000",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> y(0.5,10) to 255 with Clip_3" },
	{ XW "Conv xf wf -> c; Relu c -> r; Clip r lo hi -> d; QuantizeLinear d h z10 -> y; const "
	     "lo f32 - 1; const hi f32 - 3",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> y(0.5,10) from 12 to 16 with Relu_3+Clip_4" },
	/* The transposition moves to the bytes of the result. */
	{ XW "Conv xf wf -> c; Transpose c -> m perm=[0,1,3,2]; QuantizeLinear m t z10 -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> u(2,10); Transpose u(2,10) -> y(2,10)" },
	/* onnxruntime sums integers over the whole image, and floats in other pools. */
	{ S "in x u8 1,3,1,2; DequantizeLinear x h z3 -> a; AveragePool a -> f kernel_shape=[1,2]; "
	    "QuantizeLinear f t z10 -> y; out y",
	  "QGlobalAveragePool x(0.5,3) -> y(2,10)" },
	{ S "in x u8 1,3,2; DequantizeLinear x h z3 -> a; AveragePool a -> f kernel_shape=[2]; "
	    "QuantizeLinear f t z10 -> y; out y",
	  "Reshape x(0.5,3) -> u(0.5,3); QGlobalAveragePool u(0.5,3) -> u(2,10); Reshape u(2,10) -> y(2,10)" },
	{ S "in x u8 1,3,2,1,2; DequantizeLinear x h z3 -> a; AveragePool a -> f kernel_shape=[2,1,2]; "
	    "QuantizeLinear f t z10 -> y; out y",
	  "Reshape x(0.5,3) -> u(0.5,3); QGlobalAveragePool u(0.5,3) -> u(2,10); Reshape u(2,10) -> y(2,10)" },
	{ S "in x u8 1,3,2,3,2; DequantizeLinear x h z3 -> a; AveragePool a -> f kernel_shape=[2,2,1] strides=[1,2,1]; "
	    "QuantizeLinear f t z10 -> y; out y",
	  "General x(0.5,3) f[0.5] u[3] f[2] u[10] -> y" },
	{ S "in x u8 1,3,1,2; QLinearAveragePool@com.microsoft x h z3 t z10 -> y kernel_shape=[1,2]; out y",
	  "QGlobalAveragePool x(0.5,3) -> y(2,10)" },
	{ XW "Conv xf wf -> c; QuantizeLinear c h z10 -> d; DequantizeLinear d h z10 -> e1; AveragePool e1 -> f "
	     "kernel_shape=[1,2]; QuantizeLinear f t z10 -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> d(0.5,10); QGlobalAveragePool d(0.5,10) -> y(2,10)" },
	{ XW "Conv xf wf -> c; QuantizeLinear c h z10 -> d; DequantizeLinear d h z10 -> e1; AveragePool e1 -> f "
	     "kernel_shape=[1,1]; QuantizeLinear f t z10 -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> d(0.5,10); QAveragePool d(0.5,10) -> y(2,10)" },
	{ XW "Conv xf wf -> c; QuantizeLinear c h z10 -> d; DequantizeLinear d h z10 -> e1; AveragePool e1 -> f "
	     "kernel_shape=[1,2] pads=[0,0,0,1] strides=[1,2]; QuantizeLinear f t z10 -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> d(0.5,10); QAveragePool d(0.5,10) -> y(2,10)" },
	/* The factor of the mean has no integer form below 2^-32 and from 256 on. */
	{ XW "Conv xf wf -> c; QuantizeLinear c h z10 -> d; DequantizeLinear d h z10 -> e1; AveragePool e1 -> f "
	     "kernel_shape=[1,2]; const s f32 - 0.0009765625; QuantizeLinear f s z10 -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> d(0.5,10); QAveragePool d(0.5,10) -> y(0.000976562,10)" },
	{ XW "Conv xf wf -> c; QuantizeLinear c h z10 -> d; DequantizeLinear d h z10 -> e1; AveragePool e1 -> f "
	     "kernel_shape=[1,2]; const s f32 - 2147483648; QuantizeLinear f s z10 -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> d(0.5,10); QAveragePool d(0.5,10) -> y(2.14748e+09,10)" },
	/* A float bias is rounded to the sum's scale, an eighth, ties to even. */
	{ XW "Conv xf wf b -> c; QuantizeLinear c t z10 -> y; const b f32 2 0.1875 -3.0625",
	  "QConv x(0.5,3) s[4 -3](0.25,0) i[2 -24] -> y(2,10)" },
	{ XW "Conv xf wf b -> c; QuantizeLinear c t z10 -> y; const b f32 2 3e9 -3e9",
	  "QConv x(0.5,3) s[4 -3](0.25,0) i[2.14748e+09 -2.14748e+09] -> y(2,10)" },
	/* An int32 bias with that scale is unchanged; with another scale it is converted. */
	{ XW "DequantizeLinear b e -> bf; Conv xf wf bf -> c; QuantizeLinear c t z10 -> y; const b "
	     "s32 2 1000000 -7",
	  "QConv x(0.5,3) s[4 -3](0.25,0) i[1e+06 -7] -> y(2,10)" },
	{ XW "DequantizeLinear b s zb -> bf; Conv xf wf bf -> c; QuantizeLinear c t z10 -> y; "
	     "const b s32 2 8 -6; "
	     "const s f32 - 0.25; const zb s32 - 2",
	  "QConv x(0.5,3) s[4 -3](0.25,0) i[12 -16] -> y(2,10)" },
	{ XW "DequantizeLinear b s -> bf; Conv xf wf bf -> c; QuantizeLinear c t z10 -> y; const b "
	     "s32 2 100000 1; "
	     "const s f32 - 0.12500112",
	  "QConv x(0.5,3) s[4 -3](0.25,0) i[100000 1] -> y(2,10)" },
	{ XW "DequantizeLinear b s -> bf; Conv xf wf bf -> c; QuantizeLinear c t z10 -> y; const b "
	     "s32 2 100000 1; "
	     "const s f32 - 0.1250025",
	  "QConv x(0.5,3) s[4 -3](0.25,0) i[100002 1] -> y(2,10)" },
	{ XW "DequantizeLinear b s zb -> bf axis=0; Conv xf wf bf -> c; QuantizeLinear c t z10 -> "
	     "y; const b s32 2 8 9; "
	     "const s f32 2 0.25 0.125; const zb s32 2 0 1; ",
	  "QConv x(0.5,3) s[4 -3](0.25,0) i[16 8] -> y(2,10)" },
	/* Scales by output channel. */
	{ S "in x u8 1,1,1,2; const w s8 2,1,1,1 4 -3; const ws f32 2 0.25 0.5; const wz s8 2 0; "
	    "out y; "
	    "DequantizeLinear x h z3 -> xf; DequantizeLinear w ws wz -> wf axis=0; Conv xf wf b -> "
	    "c; "
	    "QuantizeLinear c t z10 -> y; const b f32 2 1",
	  "QConv x(0.5,3) s[4 -3](0.25,0|0.5,0) i[8 4] -> y(2,10)" },
	{ S "in x u8 1,2,1,2; const w s8 2,2,1,1 4 -3 2 1; const ws f32 2 0.25 0.5; const wz s8 2 "
	    "0; out y; "
	    "DequantizeLinear x h z3 -> xf; DequantizeLinear w ws wz -> wf axis=1; Conv xf wf -> "
	    "c; QuantizeLinear c t z10 -> y",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; Conv xf f[1 -1.5 0.5 0.5] -> c; "
	  "QuantizeLinear c f[2] u[10] -> y(2,10)" },
	/* BatchNormalization: factor 2 / sqrt(15 + 1) = 1/2 and -1; bias (b - mean) factor + beta.
	 */
	{ XW "Conv xf wf b -> c; BatchNormalization c g bb m v -> n epsilon=1f; QuantizeLinear n t "
	     "z10 -> y; "
	     "const b f32 2 1; const g f32 2 2 -4; const bb f32 2 1 0.5; const m f32 2 0.5 0.25; "
	     "const v f32 2 15 15",
	  "QConv x(0.5,3) s[4 -3](0.125,0|-0.25,0) i[20 2] -> y(2,10) with BatchNormalization_3" },
	{ XW "Conv xf wf -> c; BatchNormalization c g bb m v -> n epsilon=1f; Relu n -> r; "
	     "QuantizeLinear r t z10 -> y; "
	     "const g f32 2 2; const bb f32 2 1 0.5; const m f32 2 0.5 0.25; const v f32 2 15 15",
	  "QConv x(0.5,3) s[4 -3](0.125,0|0.125,0) i[12 6] -> y(2,10) from 10 with "
	  "BatchNormalization_3+Relu_4" },
	/* A factor of 0 would make the scale 0. */
	{ XW "Conv xf wf -> c; BatchNormalization c g bb m v -> n epsilon=1f; QuantizeLinear n t "
	     "z10 -> y; "
	     "const g f32 2 2 0; const bb f32 2 1; const m f32 2 0; const v f32 2 15",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; Conv xf f[1 -0.75] -> c; "
	  "BatchNormalization c f[2 0] f[1 1] f[0 0] "
	  "f[15 15] -> n; QuantizeLinear n f[2] u[10] -> y(2,10)" },
	/* Matrices: the columns are the channels, or the rows when the weights are transposed. */
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; const ws f32 2 0.25 0.5; const wz s8 2 0; out y; "
	    "DequantizeLinear x h z3 -> xf; DequantizeLinear w ws wz -> wf; MatMul xf wf -> c; "
	    "QuantizeLinear c t z10 -> y",
	  "QMatMul x(0.5,3) s[1 2 3 4](0.25,0|0.5,0) -> y(2,10)" },
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; const ws f32 2 0.25 0.5; const wz s8 2 0; out y; "
	    "DequantizeLinear x h z3 -> xf; DequantizeLinear w ws wz -> wf axis=0; Gemm xf wf b -> "
	    "c transB=1; "
	    "QuantizeLinear c t z10 -> y; const b f32 2 1",
	  "QMatMul x(0.5,3) s[1 2 3 4](0.25,0|0.5,0) i[8 4] -> y(2,10)" },
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; const ws f32 2 0.25 0.5; const wz s8 2 0; out y; "
	    "DequantizeLinear x h z3 -> xf; DequantizeLinear w ws wz -> wf axis=0; MatMul xf wf -> "
	    "c; QuantizeLinear c t z10 -> y",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; MatMul xf f[0.25 0.5 1.5 2] -> c; "
	  "QuantizeLinear c f[2] u[10] -> y(2,10)" },
	/*
	 * alpha is part of the accumulator's scale; a single value of C is used for all columns;
	 * beta must be 1.
	 */
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; out y; DequantizeLinear x h z3 -> xf; "
	    "DequantizeLinear w q z0 -> wf; "
	    "Gemm xf wf b -> c alpha=2.0f; QuantizeLinear c t z10 -> y; const b f32 1 1",
	  "QMatMul x(0.5,3) s[1 2 3 4](0.25,0) i[4 4] -> y(2,10)" },
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; out y; DequantizeLinear x h z3 -> xf; "
	    "DequantizeLinear w q z0 -> wf; "
	    "Gemm xf wf -> c beta=2.0f; QuantizeLinear c t z10 -> y",
	  "QMatMul x(0.5,3) s[1 2 3 4](0.25,0) -> y(2,10)" },
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; out y; DequantizeLinear x h z3 -> xf; "
	    "DequantizeLinear w q z0 -> wf; "
	    "Gemm xf wf b -> c beta=2.0f; QuantizeLinear c t z10 -> y; const b f32 2 1",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; Gemm xf f[0.25 0.5 0.75 1] f[1 1] -> c; "
	  "QuantizeLinear c f[2] u[10] -> "
	  "y(2,10)" },
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; out y; DequantizeLinear x h z3 -> xf; "
	    "DequantizeLinear w q z0 -> wf; "
	    "Gemm xf wf -> c alpha=-2.0f; QuantizeLinear c t z10 -> y",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; Gemm xf f[0.25 0.5 0.75 1] -> c; "
	  "QuantizeLinear c f[2] u[10] -> y(2,10)" },
	{ S "in x u8 2,1; const w s8 2,2 1 2 3 4; out y; DequantizeLinear x h z3 -> xf; "
	    "DequantizeLinear w q z0 -> wf; "
	    "Gemm xf wf -> c transA=1; QuantizeLinear c t z10 -> y",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; Gemm xf f[0.25 0.5 0.75 1] -> c; "
	  "QuantizeLinear c f[2] u[10] -> y(2,10)" },
	/* A C with one value for each row is not a bias. */
	{ S "in x u8 2,2; const w s8 2,2 1 2 3 4; out y; DequantizeLinear x h z3 -> xf; "
	    "DequantizeLinear w q z0 -> wf; "
	    "Gemm xf wf b -> c; QuantizeLinear c t z10 -> y; const b f32 2,1 1",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; Gemm xf f[0.25 0.5 0.75 1] f[1 1] -> c; "
	  "QuantizeLinear c f[2] u[10] -> "
	  "y(2,10)" },
	/* The result has a second reader, which needs it as a float. */
	{ XW "out c; Conv xf wf -> c; QuantizeLinear c t z10 -> y",
	  "Conv x(0.5,3) s[4 -3](0.25,0) -> c; QuantizeLinear c f[2] u[10] -> y(2,10)" },
	/* The result is a float: the sums are still those of bytes, and the bias is added as it is. */
	{ XW "out c; Conv xf wf b -> c; const b f32 2 0.3 -0.2; Relu c -> y",
	  "Conv x(0.5,3) s[4 -3](0.25,0) f[0.3 -0.2] -> c; Relu c -> y" },
	/* Groups of few channels stay float, because bytes of several groups would be multiplied as one. */
	{ S "in x u8 1,2,1,1; const w s8 2,1,1,1 4 -3; out y; DequantizeLinear x h z3 -> xf; "
	    "DequantizeLinear w q z0 -> wf; Conv xf wf -> y group=2",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; Conv xf f[1 -0.75] -> y" },
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; out y; DequantizeLinear x h z3 -> xf; "
	    "DequantizeLinear w q z0 -> wf; Gemm xf wf b -> y alpha=2.0f; const b f32 2 1",
	  "Gemm x(0.5,3) s[1 2 3 4](0.25,0) f[1 1] -> y" },
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; out y; DequantizeLinear x h z3 -> xf; "
	    "DequantizeLinear w q z0 -> wf; MatMul xf wf -> y",
	  "MatMul x(0.5,3) s[1 2 3 4](0.25,0) -> y" },
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; out y; DequantizeLinear x h z3 -> xf; "
	    "DequantizeLinear w q z0 -> wf; Gemm xf wf b -> y; const b f32 1 1",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; Gemm xf f[0.25 0.5 0.75 1] f[1] -> y" },
	/* A float input. */
	{ "in x f32 1,1,1,2; " S
	  "const w s8 2,1,1,1 4 -3; out y; DequantizeLinear w q z0 -> wf; Conv x wf -> c; "
	  "QuantizeLinear c t z10 -> y",
	  "Conv x f[1 -0.75] -> c; QuantizeLinear c f[2] u[10] -> y(2,10)" },
};

static const struct rewrite rest[] = {
	/* Sums and products. */
	{ S "in x u8 2; in w s8 2; out y; DequantizeLinear x h z3 -> xf; DequantizeLinear w q z0 "
	    "-> wf; Add xf wf -> c; "
	    "QuantizeLinear c t z10 -> y",
	  "QAdd x(0.5,3) w(0.25,0) -> y(2,10)" },
	{ S "in x u8 2; in w s8 2; out y; DequantizeLinear x h z3 -> xf; DequantizeLinear w q z0 "
	    "-> wf; Mul xf wf -> c; "
	    "Relu c -> r; QuantizeLinear r t z10 -> y",
	  "QMul x(0.5,3) w(0.25,0) -> y(2,10) from 10 with Relu_3" },
	{ S "in x u8 2; in w s8 2; out y; DequantizeLinear x k z3 -> xf; DequantizeLinear w q z0 "
	    "-> wf; Add xf wf -> c; "
	    "QuantizeLinear c h z10 -> y; const k f32 - 524287",
	  "QAdd x(524287,3) w(0.25,0) -> y(0.5,10)" },
	{ S "in x u8 2; in w s8 2; out y; DequantizeLinear x k z3 -> xf; DequantizeLinear w q z0 "
	    "-> wf; Add xf wf -> c; "
	    "QuantizeLinear c h z10 -> y; const k f32 - 524288",
	  "DequantizeLinear x(524288,3) f[524288] u[3] -> xf; DequantizeLinear w(0.25,0) f[0.25] "
	  "s[0] -> wf; Add xf wf -> c; "
	  "QuantizeLinear c f[0.5] u[10] -> y(0.5,10)" },
	{ S "in x u8 2; in w s8 2; out y; DequantizeLinear x k z3 -> xf; DequantizeLinear w q z0 "
	    "-> wf; Add wf xf -> c; "
	    "QuantizeLinear c h z10 -> y; const k f32 - 524288",
	  "DequantizeLinear x(524288,3) f[524288] u[3] -> xf; DequantizeLinear w(0.25,0) f[0.25] "
	  "s[0] -> wf; Add wf xf -> c; "
	  "QuantizeLinear c f[0.5] u[10] -> y(0.5,10)" },
	{ S "in x u8 2; in w s8 2; out y; DequantizeLinear x k z3 -> xf; DequantizeLinear w q z0 "
	    "-> wf; Mul wf xf -> c; "
	    "QuantizeLinear c h z10 -> y; const k f32 - 524288",
	  "QMul w(0.25,0) x(524288,3) -> y(0.5,10)" },
	/* One tensor read with two scales has no parameters of its own. */
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; DequantizeLinear x h z3 -> wf; Mul "
	    "xf wf -> c; "
	    "QuantizeLinear c t z10 -> y",
	  "QMul x(0.5,3) x(0.5,3) -> y(2,10)" },
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; DequantizeLinear x q z3 -> wf; Add "
	    "xf wf -> c; "
	    "QuantizeLinear c t z10 -> y",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; DequantizeLinear x(0.5,3) f[0.25] u[3] -> "
	  "wf; Add xf wf -> c; "
	  "QuantizeLinear c f[2] u[10] -> y(2,10)" },
	{ S "in x u8 2,2; out y; DequantizeLinear x h z3 -> xf; DequantizeLinear x h z10 -> wf; "
	    "MatMul xf wf -> c; "
	    "QuantizeLinear c t z10 -> y",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; DequantizeLinear x(0.5,3) f[0.5] u[10] -> "
	  "wf; MatMul xf wf -> c; "
	  "QuantizeLinear c f[2] u[10] -> y(2,10)" },
	/* Pools: the type stays; a mean's factor is in [2^-32, 256). */
	{ S "in x u8 1,1,2,4; out y; DequantizeLinear x h z3 -> xf; AveragePool xf -> c "
	    "kernel_shape=[2,2]; "
	    "QuantizeLinear c t z10 -> y",
	  "QAveragePool x(0.5,3) -> y(2,10)" },
	{ S "in x u8 1,1,2,2; out y; DequantizeLinear x h z3 -> xf; AveragePool xf -> c "
	    "kernel_shape=[2,2]; "
	    "QuantizeLinear c t z0 -> y",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; AveragePool xf -> c; QuantizeLinear c f[2] "
	  "s[0] -> y(2,0)" },
	{ S "in x u8 1,1,2,2; out y; DequantizeLinear x h z3 -> xf; GlobalAveragePool xf -> c; "
	    "QuantizeLinear c t z10 -> y",
	  "QGlobalAveragePool x(0.5,3) -> y(2,10)" },
	{ S "in x u8 1,1,2,2; out y; DequantizeLinear x k z3 -> xf; GlobalAveragePool xf -> c; "
	    "QuantizeLinear c h z10 -> y; "
	    "const k f32 - 511.5",
	  "QGlobalAveragePool x(511.5,3) -> y(0.5,10)" },
	{ S "in x u8 1,1,2,2; out y; DequantizeLinear x k z3 -> xf; GlobalAveragePool xf -> c; "
	    "QuantizeLinear c h z10 -> y; "
	    "const k f32 - 512",
	  "DequantizeLinear x(512,3) f[512] u[3] -> xf; GlobalAveragePool xf -> c; QuantizeLinear "
	  "c f[0.5] u[10] -> y(0.5,10)" },
	{ S "in x u8 1,3,2,2; out y; DequantizeLinear x h z3 -> xf; GlobalAveragePool xf -> c; "
	    "QuantizeLinear c k z10 -> y; "
	    "const k f32 - 536870912",
	  "QGlobalAveragePool x(0.5,3) -> y(5.36871e+08,10)" },
	{ S "in x u8 1,3,2,2; out y; DequantizeLinear x h z3 -> xf; GlobalAveragePool xf -> c; "
	    "QuantizeLinear c k z10 -> y; "
	    "const k f32 - 536870976",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; GlobalAveragePool xf -> c; QuantizeLinear "
	  "c f[5.36871e+08] u[10] -> "
	  "y(5.36871e+08,10)" },
	/*
	 * A clamp alone, or a change of scale, is a table. Equal parameters without a clamp are a
	 * copy.
	 */
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; Relu xf -> c; QuantizeLinear c t z10 "
	    "-> y",
	  "QRescale x(0.5,3) -> y(2,10) from 10" },
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; Clip xf lo hi -> c; QuantizeLinear c "
	    "h z10 -> y; "
	    "const lo f32 - 1; const hi f32 - 4",
	  "QRescale x(0.5,3) -> y(0.5,10) from 12 to 18" },
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; Clip xf _ hi -> c; QuantizeLinear c "
	    "h z10 -> y; "
	    "const hi f32 - 4",
	  "QRescale x(0.5,3) -> y(0.5,10) to 18" },
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; Clip xf lo -> c; QuantizeLinear c h "
	    "z10 -> y; "
	    "const lo f32 - 1",
	  "QRescale x(0.5,3) -> y(0.5,10) from 12" },
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; Clip xf lo hi -> c; QuantizeLinear c "
	    "h z10 -> y; "
	    "const lo f32 - 4; const hi f32 - 1",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; Clip xf f[4] f[1] -> c; QuantizeLinear c "
	  "f[0.5] u[10] -> y(0.5,10)" },
	{ S "in x u8 2; in lo f32 -; out y; DequantizeLinear x h z3 -> xf; Clip xf lo -> c; "
	    "QuantizeLinear c h z10 -> y",
	  "DequantizeLinear x(0.5,3) f[0.5] u[3] -> xf; Clip xf lo -> c; QuantizeLinear c f[0.5] "
	  "u[10] -> y(0.5,10)" },
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; QuantizeLinear xf h z10 -> y",
	  "QRescale x(0.5,3) -> y(0.5,10)" },
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; QuantizeLinear xf q z3 -> y",
	  "QRescale x(0.5,3) -> y(0.25,3)" },
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; QuantizeLinear xf h z0 -> y",
	  "QRescale x(0.5,3) -> y(0.5,0)" },
	{ S "in x u8 2; out y; DequantizeLinear x h z3 -> xf; QuantizeLinear xf h z3 -> y",
	  "Identity x(0.5,3) -> y(0.5,3)" },
	/* Operators that only move values move bytes. */
	{ S "in x u8 1,2,3,3; out y; DequantizeLinear x h z3 -> xf; MaxPool xf -> c "
	    "kernel_shape=[2,2]; "
	    "QuantizeLinear c h z3 -> y",
	  "MaxPool x(0.5,3) -> y(0.5,3)" },
	{ S "in x u8 1,2,3,3; out y; DequantizeLinear x h z3 -> xf; Transpose xf -> c; Flatten c "
	    "-> d; "
	    "QuantizeLinear d t z10 -> y",
	  "Transpose x(0.5,3) -> u(0.5,3); Flatten u(0.5,3) -> u(0.5,3); QRescale u(0.5,3) -> "
	  "y(2,10)" },
	{ S "in x u8 1,2,3,3; out y; MaxPool x -> y kernel_shape=[2,2]",
	  "MaxPool x(1,0) -> y(1,0)" },
	{ S "in x s32 4; const s s64 2 2 2; out y; Reshape x s -> y", "Reshape x -> y" },
	{ S "in x u8 4; const s s64 2 2 2; out y; Reshape x s -> c; DequantizeLinear c h z3 -> y",
	  "Reshape x(0.5,3) -> c(0.5,3); DequantizeLinear c(0.5,3) f[0.5] u[3] -> y" },
	/*
	 * With a scale for each channel, only a transposition can be exchanged, and the axis of the
	 * scale follows it.
	 */
	{ "in x u8 2,3; const s f32 3 0.5 1 2; const z u8 3 1 2 3; out y; DequantizeLinear x s z "
	  "-> xf; Transpose xf -> y",
	  "Transpose x(0.5,1|1,2|2,3) -> u(0.5,1|1,2|2,3); DequantizeLinear u(0.5,1|1,2|2,3) f[0.5 "
	  "1 2] u[1 2 3] -> y" },
	{ "in x u8 2,3; const s f32 3 0.5 1 2; const z u8 3 1 2 3; out y; DequantizeLinear x s z "
	  "-> xf; Flatten xf -> y axis=0",
	  "DequantizeLinear x(0.5,1|1,2|2,3) f[0.5 1 2] u[1 2 3] -> xf; Flatten xf -> y" },
	/* A negative scale turns a maximum into a minimum. */
	{ S "in x u8 1,2,3,3; out y; DequantizeLinear x m z3 -> xf; MaxPool xf -> y "
	    "kernel_shape=[2,2]; const m f32 - -0.5",
	  "DequantizeLinear x f[-0.5] u[3] -> xf; MaxPool xf -> y" },
	{ S "in x u8 1,2,3,3; in m f32 -; out y; DequantizeLinear x m z3 -> xf; MaxPool xf -> y "
	    "kernel_shape=[2,2]",
	  "DequantizeLinear x m u[3] -> xf; MaxPool xf -> y" },
	/* Copies, nodes without readers, and constants. */
	{ "in x f32 2,3; out y; Identity x -> a; Relu a -> b; Softmax a -> c; Identity b -> y",
	  "Relu x -> y" },
	{ "in x f32 2,3; out y; Transpose x -> a perm=[0,1]; Relu a -> b; Flatten b -> y",
	  "Relu x -> y" },
	{ "in x f32 2,3; out y; Transpose x -> a perm=[1,0]; Relu a -> y",
	  "Transpose x -> a; Relu a -> y" },
	{ "in x f32 2; const a f32 2 1 2; const b f32 2 3; out y; Add a b -> c; Mul c a -> d; Add "
	  "x d -> y",
	  "Add x f[4 10] -> y" },
	{ "in x f32 2; out y; Identity x -> y", "Identity x -> y" },
	{ "in x f32 2; out y; out z; Relu x -> y; Identity y -> z",
	  "Relu x -> y; Identity y -> z" },
	/* Folding into float weights: f = 2 / sqrt(15 + 1) and -1. */
	{ "in x f32 1,1,1,2; const w f32 2,1,1,1 4 -3; const b f32 2 1 3; const g f32 2 2 -4; "
	  "const bb f32 2 1 0.5; "
	  "const m f32 2 0.5 0.25; const v f32 2 15; out y; Conv x w b -> c; BatchNormalization c "
	  "g bb m v -> n epsilon=1f; Relu n -> y",
	  "Conv x f[2 3] f[1.25 -2.25] -> y above 0 with BatchNormalization_1+Relu_2" },
	{ "in x f32 1,2; const w f32 2,2 1 2 3 4; const g f32 2 2 -4; const bb f32 2 1 0.5; "
	  "const m f32 2 0.5 0.25; const v f32 2 15; out y; Gemm x w -> c; BatchNormalization c g "
	  "bb m v -> y epsilon=1f",
	  "Gemm x f[0.5 -2 1.5 -4] f[0.75 0.75] -> y with BatchNormalization_1" },
	{ "in x f32 1,2; const w f32 2,2 1 2 3 4; const b f32 1 3; const g f32 2 2 -4; const bb "
	  "f32 2 1 0.5; "
	  "const m f32 2 0.5 0.25; const v f32 2 15; out y; Gemm x w b -> c transB=1; "
	  "BatchNormalization c g bb m v -> y epsilon=1f",
	  "Gemm x f[0.5 1 -3 -4] f[2.25 -2.25] -> y with BatchNormalization_1" },
	/* Factors and summands of constants, on either side. */
	{ "in x f32 1,1,1,2; const w f32 2,1,1,1 4 -3; const b f32 2 1 3; const k f32 2,1,1 2 -1; "
	  "const l f32 1,2,1,1 0.5 8; out y; Conv x w b -> c; Mul k c -> d; Add d l -> e; Relu e -> y",
	  "Conv x f[8 3] f[2.5 5] -> y above 0 with Mul_1+Add_2+Relu_3" },
	{ "in x f32 1,1,1,2; const w f32 2,1,1,1 4 -3; const k f32 1 2; out y; Conv x w -> c; "
	  "Add c k -> y", "Conv x f[4 -3] f[2 2] -> y with Add_1" },
	{ "in x f32 1,2; const w f32 2,2 1 2 3 4; const k f32 2 2 -4; out y; Gemm x w -> c; Mul c k -> y",
	  "Gemm x f[2 -8 6 -16] f[0 0] -> y with Mul_1" },
	{ "in x f32 1,2,1,1; const g f32 2 2 -4; const bb f32 2 1 0.5; const m f32 2 0.5 0.25; "
	  "const v f32 2 15; const k f32 2,1,1 2 -1; const l f32 2,1,1 0.5 8; out y; "
	  "BatchNormalization x g bb m v -> n epsilon=1f; Mul n k -> d; Add l d -> e; Relu e -> y",
	  "BatchNormalization x f[4 4] f[2.5 7.5] f[0.5 0.25] f[15 15] -> y above 0 with Mul_1+Add_2+Relu_3" },
	{ "in x f32 1,1,1,2; const w f32 2,1,1,1 4 -3; const k f32 2 2 -1; out y; Conv x w -> c; "
	  "Mul c k -> y", "Conv x f[4 -3] -> c; Mul c f[2 -1] -> y" },
	{ "in x f32 1,1,1,2; const w f32 2,1,1,1 4 -3; const k f32 2,1,1 2 -1; out y; Conv x w -> c; "
	  "Relu c -> d; Mul d k -> y", "Conv x f[4 -3] -> c above 0 with Relu_1; Mul c f[2 -1] -> y" },
	{ "in x f32 1,2,1,1; const g f32 2 1; const k f32 2,1,1 2 -1; out y; "
	  "BatchNormalization x g g g g -> n epsilon=0f; Relu n -> d; Mul d k -> y",
	  "BatchNormalization x f[1 1] f[1 1] f[1 1] f[1 1] -> n above 0 with Relu_1; Mul n f[2 -1] -> y" },
	{ "in x f32 1,1,1,2; const w f32 2,1,1,1 4 -3; const k f32 2,1,1 2 -1; out c; out y; "
	  "Conv x w -> c; Mul c k -> y", "Conv x f[4 -3] -> c; Mul c f[2 -1] -> y" },
	/* A Sum of two floats is an Add, which takes a clamp. */
	{ "in x f32 1,2; in z f32 1,2; out y; Sum x z -> a; Relu a -> y", "Add x z -> y above 0 with Relu_1" },
	{ "in x f32 1,2; in z f32 1,2; out y; Sum x z x -> y", "General x z x -> y" },
	/* A Dropout is a copy unless its mask is read. */
	{ "in x f32 2; out y; Relu x -> a; Dropout a -> b; Relu b -> y", "Relu x -> a; Relu a -> y" },
	/* Parameters that are computed at run time cannot be folded. */
	{ "in x f32 1,2; in v f32 2; const w f32 2,2 1; const g f32 2 2; out y; Gemm x w -> c; "
	  "BatchNormalization c v g g g -> y",
	  "Gemm x f[1 1 1 1] -> c; BatchNormalization c v f[2 2] f[2 2] f[2 2] -> y" },
	{ "in x f32 1,2; in v f32 2; const w f32 2,2 1; const g f32 2 2; out y; Gemm x w -> c; "
	  "BatchNormalization c g v g g -> y",
	  "Gemm x f[1 1 1 1] -> c; BatchNormalization c f[2 2] v f[2 2] f[2 2] -> y" },
	{ "in x f32 1,2; in v f32 2; const w f32 2,2 1; const g f32 2 2; out y; Gemm x w -> c; "
	  "BatchNormalization c g g v g -> y",
	  "Gemm x f[1 1 1 1] -> c; BatchNormalization c f[2 2] f[2 2] v f[2 2] -> y" },
	{ "in x f32 1,2; in v f32 2; const w f32 2,2 1; const g f32 2 2; out y; Gemm x w -> c; "
	  "BatchNormalization c g g g v -> y",
	  "Gemm x f[1 1 1 1] -> c; BatchNormalization c f[2 2] f[2 2] f[2 2] v -> y" },
	{ "in x f32 1,2; const w f32 2,2 1; const g f32 2 2; out y; Gemm x w -> c alpha=2.0f; "
	  "BatchNormalization c g g g g -> y",
	  "Gemm x f[1 1 1 1] -> c; BatchNormalization c f[2 2] f[2 2] f[2 2] f[2 2] -> y" },
	{ "in x f32 1,2; const w f32 2,2 1; const g f32 2 2; out y; Gemm x w -> c; Relu c -> d; "
	  "BatchNormalization d g g g g -> y",
	  "Gemm x f[1 1 1 1] -> c above 0 with Relu_1; BatchNormalization c f[2 2] f[2 2] f[2 2] "
	  "f[2 2] -> y" },
	{ "in x f32 2,2; const w f32 2,2 1; const b f32 2,1 1; const g f32 2 2; out y; Gemm x w b "
	  "-> c; "
	  "BatchNormalization c g g g g -> y",
	  "Gemm x f[1 1 1 1] f[1 1] -> c; BatchNormalization c f[2 2] f[2 2] f[2 2] f[2 2] -> y" },
	{ "in x f32 2; const a f32 - -1; const b f32 - 2; const c f32 - 1; const d f32 - 5; out y; "
	  "Add x x -> e; Clip e a b -> f; "
	  "Clip f c d -> y",
	  "Add x x -> y above 1 below 2 with Clip_1+Clip_2" },
	{ "in x f32 2; const a f32 - 3; const b f32 - 2; out y; Add x x -> e; Clip e a b -> y",
	  "Add x x -> e; Clip e f[3] f[2] -> y" },
	{ "in x f32 2; in a f32 -; out y; Add x x -> e; Clip e a -> y",
	  "Add x x -> e; Clip e a -> y" },
	{ "in x f32 2; in b f32 -; const a f32 - 1; out y; Add x x -> e; Clip e a b -> y",
	  "Add x x -> e; Clip e f[1] b -> y" },
	{ "in x s32 2; out y; Add x x -> e; Relu e -> y", "Add x x -> e; Relu e -> y" },
	{ "in x f32 2; out y; Softmax x -> e; Relu e -> y", "Softmax x -> e; Relu e -> y" },
};

#define Z S "const zw u8 - 130; "

static const struct rewrite qlinear[] = {
	{ S "in x u8 1,1,1,2; const w s8 2,1,1,1 4 -3; const b s32 2 5 6; out y; QLinearConv x h "
	    "z3 w q z0 t z10 b -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0) i[5 6] -> y(2,10)" },
	{ S "in x u8 1,1,1,2; const w s8 2,1,1,1 4 -3; const ws f32 2 0.25 0.5; const wz s8 2 0; "
	    "out y; "
	    "QLinearConv x h z3 w ws wz t z10 -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0|0.5,0) -> y(2,10)" },
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; const ws f32 2 0.25 0.5; const wz s8 2 0; out y; "
	    "QLinearMatMul x h z3 w ws wz t z10 -> y",
	  "QMatMul x(0.5,3) s[1 2 3 4](0.25,0|0.5,0) -> y(2,10)" },
	{ S "in x u8 1,2; const w s8 2,2 1 2 3 4; const ws f32 2 0.25 0.5; const wz s8 2 0; const "
	    "b s32 2 7 8; out y; "
	    "QGemm@com.microsoft x h z3 w ws wz b t z10 -> y transB=1",
	  "QMatMul x(0.5,3) s[1 2 3 4](0.25,0|0.5,0) i[7 8] -> y(2,10)" },
	{ S "in x u8 2; in w s8 2; out y; QLinearAdd@com.microsoft x h z3 w q z0 t z10 -> y",
	  "QAdd x(0.5,3) w(0.25,0) -> y(2,10)" },
	{ S "in x u8 2; in w u8 2; out y; QLinearAdd@com.microsoft x h _ w q _ t -> y",
	  "QAdd x(0.5,0) w(0.25,0) -> y(2,0)" },
	{ S "in x u8 2; in w s8 2; out y; QLinearMul@com.microsoft x h z3 w q z0 t z10 -> y",
	  "QMul x(0.5,3) w(0.25,0) -> y(2,10)" },
	{ S "in x u8 2; in w s8 2; out y; QLinearMul@com.microsoft x k z3 w q z0 h z10 -> y; const "
	    "k f32 - 524288",
	  "QMul x(524288,3) w(0.25,0) -> y(0.5,10)" },
	{ S "in x u8 2; in w s8 2; out y; QLinearAdd@com.microsoft x k z3 w q z0 h z10 -> y; const "
	    "k f32 - 524288",
	  "QLinearAdd x f[524288] u[3] w f[0.25] s[0] f[0.5] u[10] -> y" },
	{ S "in x u8 2; in w s8 2; out y; QLinearAdd@com.microsoft x h z3 w k z0 h z10 -> y; const "
	    "k f32 - 524288",
	  "QLinearAdd x f[0.5] u[3] w f[524288] s[0] f[0.5] u[10] -> y" },
	{ S "in x u8 1,1,2,2; out y; QLinearGlobalAveragePool@com.microsoft x h z3 t z10 -> y",
	  "QGlobalAveragePool x(0.5,3) -> y(2,10)" },
	{ S "in x u8 1,1,2,4; out y; QLinearAveragePool@com.microsoft x h z3 t z10 -> y "
	    "kernel_shape=[2,2]",
	  "QAveragePool x(0.5,3) -> y(2,10)" },
	/* Parameters that a run computes stay operands. */
	{ S "in x u8 1,1,2,2; in s f32 -; out y; QLinearGlobalAveragePool@com.microsoft x s z3 t "
	    "z10 -> y",
	  "QLinearGlobalAveragePool x s u[3] f[2] u[10] -> y" },
	{ S "in x u8 1,2; const w s8 2,2 1; in s f32 -; out y; QLinearMatMul x h z3 w s z0 t z10 "
	    "-> y",
	  "QLinearMatMul x f[0.5] u[3] s[1 1 1 1] s s[0] f[2] u[10] -> y" },
	{ S "in x u8 1,2; const w s8 2,2 1; in s f32 -; out y; QLinearMatMul x h z3 w q z0 s z10 "
	    "-> y",
	  "QLinearMatMul x f[0.5] u[3] s[1 1 1 1] f[0.25] s[0] s u[10] -> y" },
	{ S "in x u8 1,1,1,2; const w s8 2,1,1,1 4 -3; in b s32 2; out y; QLinearConv x h z3 w q "
	    "z0 t z10 b -> y",
	  "QLinearConv x f[0.5] u[3] s[4 -3] f[0.25] s[0] f[2] u[10] b -> y" },
	/* A tensor with two different scales keeps the scale of its first reader. */
	{ S
	  "in x u8 2; in w s8 2; out y; out v; QLinearMul@com.microsoft x h z3 w q z0 t z10 -> y; "
	  "QLinearMul@com.microsoft x q z3 w q z0 t z10 -> v",
	  "QMul x(0.5,3) w(0.25,0) -> y(2,10); QLinearMul x(0.5,3) f[0.25] u[3] w(0.25,0) f[0.25] "
	  "s[0] f[2] u[10] -> v" },
	/*
	 * Weights become int8 with zero point 0 if all of them fit; otherwise they are shifted by
	 * 128.
	 */
	{ Z "in x u8 1,2; const w u8 2,2 2 130 131 255; out y; QLinearMatMul x h z3 w q zw t z10 "
	    "-> y",
	  "QMatMul x(0.5,3) s[-128 0 1 125](0.25,0) -> y(2,10)" },
	{ Z "in x u8 1,2; const w u8 2,2 1 130 131 255; out y; QLinearMatMul x h z3 w q zw t z10 "
	    "-> y",
	  "QMatMul x(0.5,3) s[-127 2 3 127](0.25,2) -> y(2,10)" },
	{ S
	  "in x u8 1,2; const w u8 2,2 3 130 20 131; out y; QLinearMatMul x h z3 w q z3 t z10 -> y",
	  "QMatMul x(0.5,3) s[-125 2 -108 3](0.25,-125) -> y(2,10)" },
	{ S
	  "in x u8 1,2; const w u8 2,2 3 130 20 129; out y; QLinearMatMul x h z3 w q z3 t z10 -> y",
	  "QMatMul x(0.5,3) s[0 127 17 126](0.25,0) -> y(2,10)" },
	{ S "in x u8 1,2; const w s8 2,2 -128 127 1 2; const m s8 - 1; out y; QLinearMatMul x h z3 "
	    "w q m t z10 -> y",
	  "QMatMul x(0.5,3) s[-128 127 1 2](0.25,1) -> y(2,10)" },
	{ S "in x u8 1,2; const w s8 2,2 -127 127 1 2; const m s8 - 1; out y; QLinearMatMul x h z3 "
	    "w q m t z10 -> y",
	  "QMatMul x(0.5,3) s[-128 126 0 1](0.25,0) -> y(2,10)" },
	{ S "in x u8 1,2; const w u8 2,2 1 20 3 40; const ws f32 2 0.25 0.5; const wz u8 2 1 20; "
	    "out y; "
	    "QLinearMatMul x h z3 w ws wz t z10 -> y",
	  "QMatMul x(0.5,3) s[0 0 2 20](0.25,0|0.5,0) -> y(2,10)" },
	{ S "in x u8 1,1,1,2; const w u8 2,1,1,2 1 2 20 30; const ws f32 2 0.25 0.5; const wz u8 2 "
	    "1 20; out y; "
	    "QLinearConv x h z3 w ws wz t z10 -> y",
	  "QConv x(0.5,3) s[0 1 0 10](0.25,0|0.5,0) -> y(2,10)" },
};

/* HardSwish of float32 in operators, and what only resembles it: other numbers, or a value that is read twice. */
#define X6 "in x f32 1,4; const t f32 - 3; const z f32 - 0; const s f32 - 6; const i f32 1 0.16666667; out y; "
static const struct rewrite hard_swishes[] = {
	{ X6 "Add x t -> a; Clip a z s -> c; Mul x c -> m; Div m s -> y", "General x -> y with Add_0+Clip_1+Mul_2" },
	{ X6 "Add t x -> a; Clip a z s -> c; Mul c x -> m; Mul i m -> y", "General x -> y with Add_0+Clip_1+Mul_2" },
	{ X6 "Add x t -> a; Clip a z s -> c; Div c s -> d; Mul d x -> y", "General x -> y with Add_0+Clip_1+Div_2" },
	{ X6 "Add x t -> a; Clip a z s -> c; Mul c i -> d; Mul x d -> y", "General x -> y with Add_0+Clip_1+Mul_2" },
	{ X6 "HardSigmoid x -> c alpha=0.16666667f; Mul x c -> y", "General x -> y with HardSigmoid_0" },
	{ X6 "HardSigmoid x -> c; Mul x c -> y", "General x -> c; Mul x c -> y" },
	{ X6 "Add x t -> a; Clip a z t -> c; Mul x c -> m; Div m s -> y",
	  "Add x f[3] -> a above 0 below 3 with Clip_1; Mul x a -> m; General m f[6] -> y" },
	{ X6 "Add x s -> a; Clip a z s -> c; Mul x c -> m; Div m s -> y",
	  "Add x f[6] -> a above 0 below 6 with Clip_1; Mul x a -> m; General m f[6] -> y" },
	{ X6 "Add x t -> a; Clip a z s -> c; Mul x c -> m; Div m t -> y",
	  "Add x f[3] -> a above 0 below 6 with Clip_1; Mul x a -> m; General m f[3] -> y" },
	{ X6 "Add x t -> a; Clip a z s -> c; Mul x c -> m; Div s m -> y",
	  "Add x f[3] -> a above 0 below 6 with Clip_1; Mul x a -> m; General f[6] m -> y" },
	{ X6 "in v f32 1,4; Add x t -> a; Clip a z s -> c; Mul v c -> m; Div m s -> y",
	  "Add x f[3] -> a above 0 below 6 with Clip_1; Mul v a -> m; General m f[6] -> y" },
	{ X6 "out m; Add x t -> a; Clip a z s -> c; Mul x c -> m; Div m s -> y",
	  "Add x f[3] -> a above 0 below 6 with Clip_1; Mul x a -> m; General m f[6] -> y" },
	{ X6 "const k f32 - 0.25; Add x t -> a; Clip a z s -> c; Mul x c -> m; Mul m k -> y",
	  "Add x f[3] -> a above 0 below 6 with Clip_1; Mul x a -> m; Mul m f[0.25] -> y" },
	{ X6 "const l f32 - -1; Add x t -> a; Clip a l s -> c; Mul x c -> m; Div m s -> y",
	  "Add x f[3] -> a above -1 below 6 with Clip_1; Mul x a -> m; General m f[6] -> y" },
	{ X6 "Add x t -> a; Clip a z s -> c; Mul x c -> m; Mul m i -> r; Relu r -> y",
	  "Add x f[3] -> a above 0 below 6 with Clip_1; Mul x a -> m; Mul m f[0.166667] -> y above 0 with Relu_4" },
	{ X6 "Add x t -> a; Clip a z s -> c; Mul x c -> m; Relu m -> r; Div r s -> y",
	  "Add x f[3] -> a above 0 below 6 with Clip_1; Mul x a -> m above 0 with Relu_3; General m f[6] -> y" },
	{ X6 "HardSigmoid x -> c alpha=0.16666667f beta=0.4f; Mul x c -> y", "General x -> c; Mul x c -> y" },
	{ X6 "const u f32 1,1,1 3; Add x u -> a; Clip a z s -> c; Mul x c -> m; Div m s -> y",
	  "Add x f[3] -> a above 0 below 6 with Clip_1; Mul x a -> m; General m f[6] -> y" },
};

/* Opset 10: a Clip without an attribute has a bound of FLT_MAX there. f = 2 / sqrt(15 + 1) and -1. */
static const struct rewrite clips[] = {
	{ XW "Conv xf wf -> c; Clip c -> r min=0.0f; QuantizeLinear r t z10 -> y",
	  "QConv x(0.5,3) s[4 -3](0.25,0) -> y(2,10) from 10 with Clip_3" },
	{ "in x f32 1,1,1,2; const w f32 2,1,1,1 4 -3; const g f32 2 2 -4; const b f32 2 1 2; "
	  "const m f32 2 0.5 0.25; const v f32 2 15; out y; Conv x w -> c; Clip c -> d; "
	  "BatchNormalization d g b m v -> y epsilon=1f",
	  "Conv x f[2 3] f[0.75 2.25] -> y with Clip_1+BatchNormalization_2" },
};

#define TABLE(name, table, opset)                                                                  \
	START_TEST(name)                                                                           \
	{                                                                                          \
		for (size_t i = 0; i < sizeof(table) / sizeof((table)[0]); i++)                    \
			check(&(table)[i], opset);                                                        \
	}                                                                                          \
	END_TEST

TABLE(products_are_fused, products, 13)
TABLE(other_operators_are_fused_and_moved, rest, 13)
TABLE(qlinear_operators_are_fused, qlinear, 13)
TABLE(default_bounds_of_clip_are_none, clips, 10)
TABLE(hard_swish_becomes_one_operator, hard_swishes, 13)

#define TRAINED(w, x, y) \
	"const w" w " f32 262144,1 0.5 -2 1; Reshape w" w " dims -> r" w "; Sign r" w " -> s" w "; " \
	"Conv " x " s" w " -> c" w " pads=[3,3,4,4]; Abs r" w " -> a" w "; ReduceMean a" w " -> m" w \
	" axes=[1,2,3]; const d" w " s64 3 64 1 1; Reshape m" w " d" w " -> k" w "; Mul c" w " k" w " -> " y "; "

/*
 * Weights as PyTorch exports those of binary layers: each is read by a Sign, whose result stays, and by a
 * mean. Besides the weights of all layers, one of the results that are as large is held at a time.
 */
START_TEST(folding_holds_weights_once)
{
	const size_t weights = (size_t)262144 * sizeof(float);
	struct pb m = ot_model("in x f32 1,64,8,8; out y; const dims s64 4 64 64 8 8; "
			       TRAINED("1", "x", "b") TRAINED("2", "b", "c") TRAINED("3", "c", "y"), 13);
	struct rvl_graph *g = NULL;

	ck_assert_msg(!rvl_onnx_load(m.p, m.n, NULL, &g, &err), "%s", err.msg);
	ck_assert_msg(!rvl_optimise(g, &err), "%s", err.msg);
	ck_assert_uint_gt(rvl_arena_most(g->arena), 3 * weights);
	ck_assert_uint_lt(rvl_arena_most(g->arena), 4 * weights + weights / 2);
	rvl_graph_free(g);
	free(m.p);
}
END_TEST

/* Optimises a model; its graph never holds more than 64 MiB and eight times the model. */
static void bounded(const char *text)
{
	struct pb m = ot_model(text, 13);
	struct rvl_graph *g = NULL;

	ck_assert_msg(!rvl_onnx_load(m.p, m.n, NULL, &g, &err), "%s", err.msg);
	ck_assert_msg(!rvl_optimise(g, &err), "%s", err.msg);
	ck_assert_uint_lt(rvl_arena_most(g->arena), (64u << 20) + 8 * m.n);
	rvl_graph_free(g);
	free(m.p);
}

/* Constants that double from node to node, and many that are small each. */
START_TEST(folding_is_bounded_by_the_model)
{
	static char text[16384];
	size_t n;

	n = (size_t)snprintf(text, sizeof(text), "in x f32 1; out y; const w0 f32 65536 1; ");
	for (int i = 0; i < 9; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "Concat w%d w%d -> w%d axis=0; ", i, i, i + 1);
	snprintf(text + n, sizeof(text) - n, "ReduceMax w9 -> m; Add x m -> y");
	bounded(text);
	n = (size_t)snprintf(text, sizeof(text), "in y0 f32 262144; out y100; const s s64 1 262144; ");
	for (int i = 0; i < 100; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "ConstantOfShape s -> c%d; Add y%d c%d -> y%d; ",
				      i, i, i, i + 1);
	bounded(text);
}
END_TEST

/* The operators whose work their rows state, on constants; the last one is beyond the bound. */
static const struct {
	const char *text;	/* from constant a of 4 x 4 and b of 1 x 1 x 4 x 4 to e */
	bool folded;
	float first;		/* of e, if it is folded */
} costly[] = {
	{ "MatMul a a -> e", true, 4.0f },
	{ "Gemm a a a -> e transB=1", true, 5.0f },
	{ "Einsum a a -> e equation='ij,jk->ik'", true, 4.0f },
	{ "Conv b b -> e", true, 16.0f },
	{ "ConvTranspose b b -> e", true, 1.0f },
	{ "MaxPool b -> e kernel_shape=[2,2]", true, 1.0f },
	{ "LpPool b -> e kernel_shape=[2,2]", true, 2.0f },
	{ "LRN b -> e size=3 alpha=0.0f beta=0.75f bias=1.0f", true, 1.0f },
	{ "Det c -> e", true, 1.0f },
	{ "DFT d -> e axis=1", true, 16.0f },
	/* 2^28 products of two elements. */
	{ "Expand a l -> la; Einsum la la -> e equation='abcd,efgh->'", false, 0 },
	/* A window of 2^26 taps, nearly all of them in the padding. */
	{ "MaxPool b -> e kernel_shape=[8192,8192] pads=[8191,8191,8191,8191]", false, 0 },
	/* 2^24 multiply-accumulates, 5 times: a model may have 2^26. */
	{ "Expand c m -> p; MatMul p p -> p0; MatMul p0 p -> p1; MatMul p1 p -> p2; MatMul p2 p -> p3; "
	  "MatMul p3 p -> p4; Identity p4 -> e", false, 0 },
	/* 2^18 points in 2^9 transforms. */
	{ "Expand d t -> p; DFT p -> e axis=1", false, 0 },
};

START_TEST(costly_operators_are_folded_up_to_their_work)
{
	static char text[2048];
	const struct rvl_tensor *e;
	struct rvl_graph *g = NULL;
	struct pb m;

	snprintf(text, sizeof(text),
		 "in x f32 1; out y; const a f32 4,4 1; const b f32 1,1,4,4 1; const c f32 1,1 1; "
		 "const l s64 4 64,16,4,4; const m s64 2 256,256; const d f32 1,16,1 1; "
		 "const t s64 4 256,16,64,1; %s; Add x e -> y", costly[_i].text);
	m = ot_model(text, 17);
	ck_assert_msg(!rvl_onnx_load(m.p, m.n, NULL, &g, &err), "%s", err.msg);
	ck_assert_msg(!rvl_optimise(g, &err), "%s", err.msg);
	e = g->nodes[g->n_nodes - 1]->in[1];
	ck_assert_msg((e->data != NULL) == costly[_i].folded, "%s: %s", costly[_i].text,
		      e->data ? "folded" : "not folded");
	if (e->data)
		ck_assert_float_eq_tol(((const float *)e->data)[0], costly[_i].first, 1e-6f);
	rvl_graph_free(g);
	free(m.p);
}
END_TEST

/* A chain of functions of 1 MiB, each released once it is read: only some are computed. */
START_TEST(folding_is_bounded_in_time)
{
	static char text[16384];
	struct rvl_graph *g = NULL;
	struct pb m;
	size_t n;

	n = (size_t)snprintf(text, sizeof(text), "in x f32 1; out y; const s s64 1 262144; ConstantOfShape s -> c0; ");
	for (int i = 0; i < 400; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "Sin c%d -> c%d; ", i, i + 1);
	snprintf(text + n, sizeof(text) - n, "ReduceMax c400 -> m; Add x m -> y");
	m = ot_model(text, 13);
	ck_assert_msg(!rvl_onnx_load(m.p, m.n, NULL, &g, &err), "%s", err.msg);
	ck_assert_msg(!rvl_optimise(g, &err), "%s", err.msg);
	ck_assert_uint_gt(g->n_nodes, 400 - 128);
	ck_assert_uint_lt(g->n_nodes, 400 - 100);
	rvl_graph_free(g);
	free(m.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rewrites");
	TCase *t = tcase_create("all");

	tcase_add_test(t, products_are_fused);
	tcase_add_test(t, other_operators_are_fused_and_moved);
	tcase_add_test(t, qlinear_operators_are_fused);
	tcase_add_test(t, default_bounds_of_clip_are_none);
	tcase_add_test(t, hard_swish_becomes_one_operator);
	tcase_add_test(t, folding_holds_weights_once);
	tcase_add_test(t, folding_is_bounded_by_the_model);
	tcase_add_loop_test(t, costly_operators_are_folded_up_to_their_work, 0,
			     sizeof(costly) / sizeof(costly[0]));
	tcase_add_test(t, folding_is_bounded_in_time);
	suite_add_tcase(s, t);
	return run_suite(s);
}
