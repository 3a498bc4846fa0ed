/* SPDX-License-Identifier: MIT */
/*
 * Results of the front end for small models: the type and shape of a result, or the node that is
 * refused with the reason. Cases are on both sides of each bound.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "onnx/onnx.h"
#include "suite.h"
#include "unit/onnx_text.h"

static struct rvl_err err;

/* "float32 1x2" */
static void describe(const struct rvl_tensor *t, char *s, size_t n)
{
	size_t at = (size_t)snprintf(s, n, "%s ", rvl_type_name(t->type));

	for (int i = 0; i < t->shape.rank; i++)
		at += (size_t)snprintf(s + at, n - at, "%s%lld", i ? "x" : "",
				       (long long)t->shape.dim[i]);
	if (!t->shape.rank)
		snprintf(s + at, n - at, "scalar");
}

/* Reads and infers. @says: the type and shape of y, or the beginning of the error's text. */
static void check(const char *text, int opset, int want, const char *says)
{
	struct pb m = ot_model(text, opset);
	struct rvl_graph *g = NULL;
	char is[RVL_ERR_MAX] = "";
	int rc;

	err.msg[0] = '\0';
	rc = rvl_onnx_load(m.p, m.n, NULL, &g, &err);
	if (!rc)
		rc = rvl_shape_infer(g, &err);
	if (!rc)
		rc = rvl_graph_check_supported(g, &err);
	if (!rc)
		describe(g->outputs[0], is, sizeof(is));
	else
		snprintf(is, sizeof(is), "%s", err.msg);
	ck_assert_msg(rc == want && !strcmp(is, says), "%s\n gives %d, \"%s\"\n not %d, \"%s\"",
		      text, rc, is, want, says);
	rvl_graph_free(g);
	free(m.p);
}

struct model_case {
	const char *text;
	int opset; /* 0: 13 */
	int rc;
	const char *says;
};

#define NO  -EOPNOTSUPP
#define BAD -EBADMSG
#define X   "in x f32 1,2,6,5; out y; "
#define W   "const w f32 4,2,3,3 1; "

static const struct model_case attributes[] = {
	/* A number that must be 0 or 1. */
	{ X "MaxPool x -> y kernel_shape=[2,2] ceil_mode=1", 0, 0, "float32 1x2x5x4" },
	{ X "MaxPool x -> y kernel_shape=[2,2] ceil_mode=2", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute ceil_mode is 2, not one of 0|1" },
	{ X "MaxPool x -> y kernel_shape=[2,2] ceil_mode=-1", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute ceil_mode is -1, not one of 0|1" },
	{ X "MaxPool x -> y kernel_shape=[2,2] storage_order=1", 0, 0, "float32 1x2x5x4" },
	{ X "MaxPool x -> y kernel_shape=[2,2] storage_order=2", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute storage_order is 2, not one of 0|1" },
	{ X "AveragePool x -> y kernel_shape=[2,2] count_include_pad=2", 0, NO,
	  "node 'AveragePool_0' (AveragePool): attribute count_include_pad is 2, not one of 0|1" },
	/* The definition of the opset decides: another operator has the attribute, or a later opset. */
	{ X "MaxPool x -> y kernel_shape=[2,2] channels_last=0", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute 'channels_last' is not supported" },
	{ X "AveragePool x -> y kernel_shape=[2,2] ceil_mode=1", 9, NO,
	  "node 'AveragePool_0' (AveragePool): attribute 'ceil_mode' is not supported" },
	{ X "AveragePool x -> y kernel_shape=[2,2] ceil_mode=1", 10, 0, "float32 1x2x5x4" },
	/* A number of which one value is a definition of its own. */
	{ X "BatchNormalization x s s s s -> y spatial=1 momentum=0.5f; const s f32 2 1", 7, 0,
	  "float32 1x2x6x5" },
	{ X "BatchNormalization x s s s s -> y spatial=0; const s f32 2 1", 7, NO,
	  "node 'BatchNormalization_0' (BatchNormalization): its input 1 has 2 values, not 60" },
	{ X "BatchNormalization x s s s s -> y spatial=2; const s f32 2 1", 7, 0,
	  "float32 1x2x6x5" },
	{ X "BatchNormalization x s s s s -> y training_mode=1; const s f32 2 1", 14, 0,
	  "float32 1x2x6x5" },
	/* Pairs and lists of four pads: their length and their range. */
	{ X "MaxPool x -> y kernel_shape=[1,1]", 0, 0, "float32 1x2x6x5" },
	{ X "MaxPool x -> y kernel_shape=[2]", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute kernel_shape has 1 values, not 2" },
	{ X "MaxPool x -> y kernel_shape=[2,2,2]", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute kernel_shape has 3 values, not 2" },
	{ X "MaxPool x -> y kernel_shape=[2,0]", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute kernel_shape has the value 0, which is not in 1 to 2147483647" },
	{ X "MaxPool x -> y kernel_shape=[1,1] strides=[65535,65535]", 0, 0, "float32 1x2x1x1" },
	{ X "MaxPool x -> y kernel_shape=[1,1] strides=[65536,1]", 0, 0,
	  "float32 1x2x1x5" },
	{ X "MaxPool x -> y kernel_shape=[1,1] dilations=[1,-3]", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute dilations has the value -3, which is not in 1 to 2147483647" },
	{ X "MaxPool x -> y kernel_shape=[2,2] pads=[0,0,1,1]", 0, 0, "float32 1x2x6x5" },
	{ X "MaxPool x -> y kernel_shape=[2,2] pads=[0,0,-1,0]", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute pads has the value -1, which is not in 0 to 2147483647" },
	{ X "MaxPool x -> y kernel_shape=[2,2] pads=[1,1,1]", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute pads has 3 values, not 4" },
	{ X "MaxPool x -> y kernel_shape=[2,2] pads=[1,1,1,65536]", 0, 0,
	  "float32 1x2x7x65541" },
	/* Values of auto_pad. */
	{ X "MaxPool x -> y kernel_shape=[2,2] auto_pad='NOTSET'", 0, 0, "float32 1x2x5x4" },
	{ X "MaxPool x -> y kernel_shape=[2,2] auto_pad='VALID' pads=[1,1,1,1]", 0, 0,
	  "float32 1x2x5x4" },
	{ X "MaxPool x -> y kernel_shape=[2,2] auto_pad='SAME_UPPER'", 0, 0, "float32 1x2x6x5" },
	{ X "MaxPool x -> y kernel_shape=[2,2] auto_pad='SAME_LOWER' strides=[2,2]", 0, 0,
	  "float32 1x2x3x3" },
	{ X "MaxPool x -> y kernel_shape=[2,2] auto_pad='SAME'", 0, NO,
	  "node 'MaxPool_0' (MaxPool): attribute auto_pad is 'SAME', not one of NOTSET|SAME_UPPER|SAME_LOWER|VALID" },
	/* An integer attribute has 32 bits. */
	{ X W "Conv x w -> y group=2147483648", 0, NO,
	  "node 'Conv_0' (Conv): weights do not fit input, output and group" },
	{ X W "Conv x w -> y group=-2147483649", 0, NO,
	  "node 'Conv_0' (Conv): weights do not fit input, output and group" },
	{ X "Softmax x -> y axis=2147483647", 0, NO,
	  "node 'Softmax_0' (Softmax): axis 2147483647 does not exist in a tensor of rank 4" },
	{ X "Softmax x -> y axis=-2147483648", 0, NO,
	  "node 'Softmax_0' (Softmax): axis -2147483648 does not exist in a tensor of rank 4" },
	/* Permutations. */
	{ X "Transpose x -> y perm=[0,2,3,1]", 0, 0, "float32 1x6x5x2" },
	{ X "Transpose x -> y", 0, 0, "float32 5x6x2x1" },
	{ X "Transpose x -> y perm=[0,1,2,4]", 0, NO,
	  "node 'Transpose_0' (Transpose): perm does not name every axis once" },
	{ X "Transpose x -> y perm=[0,1,2,-1]", 0, NO,
	  "node 'Transpose_0' (Transpose): perm does not name every axis once" },
	{ X "Transpose x -> y perm=[0,1,2,2]", 0, NO,
	  "node 'Transpose_0' (Transpose): perm does not name every axis once" },
	{ X "Transpose x -> y perm=[0,1,2]", 0, NO,
	  "node 'Transpose_0' (Transpose): perm has 3 axes, its input has 4" },
	{ X "Transpose x -> y perm=[0,1,2,3,4,5,6,7]", 0, NO,
	  "node 'Transpose_0' (Transpose): perm has 8 axes, its input has 4" },
	{ X "Transpose x -> y perm=[0,1,2,3,4,5,6,7,8]", 0, NO,
	  "node 'Transpose_0' (Transpose): perm has 9 axes, its input has 4" },
	/* Lists longer than any operator's. */
	{ X "MaxPool x -> y "
	    "kernel_shape=[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
	    "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
	  0, NO, "node 'MaxPool_0' (MaxPool): attribute kernel_shape has 66 values, not 2" },
	{ X "Relu x -> y alpha=0.5f", 0, NO,
	  "node 'Relu_0' (Relu): attribute 'alpha' is not supported" },
	{ X "QuantizeLinear x s -> y saturate=0; const s f32 - 1", 19, 0, "uint8 1x2x6x5" },
	{ X "QuantizeLinear x s -> y block_size=1; const s f32 - 1", 21, NO,
	  "node 'QuantizeLinear_0' (QuantizeLinear): its scales do not have the shape of blocks of 1" },
	{ X "QuantizeLinear x s -> y output_dtype=3; const s f32 - 1", 21, 0, "int8 1x2x6x5" },
	{ X "QuantizeLinear x s z -> y output_dtype=3; const s f32 - 1; const z s8 - 0", 21, 0,
	  "int8 1x2x6x5" },
	{ X "QuantizeLinear x s z -> y output_dtype=2; const s f32 - 1; const z s8 - 0", 21, NO,
	  "node 'QuantizeLinear_0' (QuantizeLinear): output_dtype is uint8, its zero point is int8" },
	{ X "QuantizeLinear x s -> y output_dtype=4; const s f32 - 1", 21, NO,
	  "node 'QuantizeLinear_0' (QuantizeLinear): output type uint16 is not supported" },
	/* Constants. */
	{ "out y; Constant -> y value_int=3", 0, 0, "int64 scalar" },
	{ "out y; Constant -> y value_ints=[3,4]", 0, 0, "int64 2" },
	{ "out y; Constant -> y value_float=0.5f", 0, 0, "float32 scalar" },
	{ "out y; Constant -> y", 0, NO,
	  "node 'Constant_0' (Constant): a Constant needs exactly one value attribute" },
	{ "out y; Constant -> y value_int=3 value_float=1.5f", 0, NO,
	  "node 'Constant_0' (Constant): a Constant needs exactly one value attribute" },
	{ "out y; Constant -> y value=3", 0, BAD, "node 'Constant_0' (Constant) has no value" },
};

static const struct model_case operators[] = {
	/* The first opset in which the operator has this meaning. */
	{ X "Relu x -> y", 6, 0, "float32 1x2x6x5" },
	{ X "Relu x -> y", 5, 0,
	  "float32 1x2x6x5" },
	{ X "Clip x -> y min=0.0f", 6, 0, "float32 1x2x6x5" },
	{ X "Clip x -> y min=0.0f", 5, 0,
	  "float32 1x2x6x5" },
	{ X "Add x x -> y", 7, 0, "float32 1x2x6x5" },
	{ X "Add x x -> y", 6, 0, "float32 1x2x6x5" },
	{ X "const w f32 6 1; Mul x w -> y axis=2 broadcast=1", 6, 0, "float32 1x2x6x5" },
	{ X "Mul x x -> y", 7, 0, "float32 1x2x6x5" },
	{ X "Gemm x x -> y", 6, -EBADMSG,
	  "node 'Gemm_0' (Gemm) has 2 inputs, not 3 to 3" },
	{ X "QuantizeLinear x s -> y; const s f32 - 1", 10, 0, "uint8 1x2x6x5" },
	{ X "QuantizeLinear x s -> y; const s f32 - 1", 9, NO,
	  "node 'QuantizeLinear_0' (QuantizeLinear): opset 9 of this operator is older than 10" },
	{ "in x u8 2; out y; DequantizeLinear x s -> y; const s f32 - 1", 9, NO,
	  "node 'DequantizeLinear_0' (DequantizeLinear): opset 9 of this operator is older than "
	  "10" },
	{ X "QuantizeLinear@com.microsoft x s -> y; const s f32 - 1", 9, 0, "uint8 1x2x6x5" },
	{ "in x u8 2; out y; DequantizeLinear@com.microsoft x s -> y; const s f32 - 1", 9, 0,
	  "float32 2" },
	{ X "BatchNormalization x s s s s -> y; const s f32 2 1", 6, 0,
	  "float32 1x2x6x5" },
	{ X "Reshape x s -> y; const s s64 1 60", 5, 0, "float32 60" },
	{ X "Reshape x s -> y; const s s64 1 60", 4, BAD, "node 'Reshape_0' (Reshape) has 2 inputs, not 1 to 1" },
	{ X "Reshape x -> y shape=[0,-1,3]", 4, 0, "float32 1x20x3" },
	{ X "Reshape x -> y shape=[7,-1]", 1, NO,
	  "node 'Reshape_0' (Reshape): its -1 dimension cannot be computed" },
	{ X "Cast x -> y to='INT64'", 5, 0, "int64 1x2x6x5" },
	{ X "Max x x x -> y consumed_inputs=[0,0,0]", 5, 0, "float32 1x2x6x5" },
	{ X "PRelu x s -> y; const s f32 2 1", 1, 0, "float32 1x2x6x5" },
	{ X "Flatten x -> y; Identity x -> unused", 1, 0, "float32 1x60" },
	/* Domains. */
	{ X "Relu@ai.onnx x -> y", 0, 0, "float32 1x2x6x5" },
	{ X "Relu@com.microsoft x -> y", 0, NO,
	  "node 'Relu_0' (Relu): domain 'com.microsoft' is not the one this operator is known in" },
	{ X "QLinearAdd x x x x x x x x -> y", 0, NO,
	  "node 'QLinearAdd_0' (QLinearAdd): domain '' is not the one this operator is known in" },
	{ X "Frob x -> y", 0, NO,
	  "node 'Frob_0' (Frob): operator Frob is not in docs/operators.md" },
	{ X "Frob x -> a; Wobble a -> b; Twist b -> y", 0, NO,
	  "node 'Frob_0' (Frob): operator Frob is not in docs/operators.md; and 2 more" },
	/* Compositions. */
	{ "in x u8 2,4,8; in past f32 2,2,2,3,4; const w s8 8,24 1; const b f32 24 0; const s f32 - 1; out y; out p; "
	  "QAttention@com.microsoft x w b s s _ _ _ past -> y p num_heads=2", 0, 0, "float32 2x4x8" },
	{ "in x f32 2,3,4,8; in p s64 1; const c f32 9,4 1; out y; RotaryEmbedding@com.microsoft x p c c -> y scale=1.0f", 0, 0,
	  "float32 2x3x4x8" },
	{ "in x f32 2,3,4,8; in p s64 2,4; const c f32 9,4 1; out y; RotaryEmbedding@com.microsoft x p c c -> y scale=1.0f", 0, 0,
	  "float32 2x3x4x8" },
	{ "in x f32 2,3,4,8; in p s64 4; const c f32 9,4 1; out y; RotaryEmbedding@com.microsoft x p c c -> y scale=1.0f", 0, NO,
	  "node 'RotaryEmbedding.0/Reshape_6' (Reshape): its shape has another number of elements than its input; and 5 more" },
	{ "in x f32 2,3,4,8; in p s64 1,4; const c f32 9,4 1; out y; RotaryEmbedding@com.microsoft x p c c -> y scale=1.0f", 0, NO,
	  "node 'RotaryEmbedding.0/RotaryEmbedding_21' (RotaryEmbedding): its input 3 does not have the shape that input 0 asks for; and 1 more" },
	{ "in x f32 2,3,4,8; in p s64 2; const c f32 9,4 1; out y; RotaryEmbedding@com.microsoft x p c c -> y scale=1.0f", 0, NO,
	  "node 'RotaryEmbedding.0/Reshape_6' (Reshape): its shape has another number of elements than its input; and 5 more" },
	/* Masks of other samples than the operand, or of another number of positions. */
	{ "in x f32 2,2,8; in m s32 2; const w f32 8,24 1; out y; Attention@com.microsoft x w _ m -> y num_heads=2", 0, 0,
	  "float32 2x2x8" },
	{ "in x f32 2,2,8; in m s32 2; const w f32 8,24 1; out y; "
	  "Attention@com.microsoft x w _ m -> y num_heads=2 mask_filter_value=-1.5f", 0, 0, "float32 2x2x8" },
	{ "in x f32 2,2,8; in m s32 4; const w f32 8,24 1; out y; Attention@com.microsoft x w _ m -> y num_heads=2", 0, NO,
	  "node 'Attention.0/Reshape_33' (Reshape): its shape has another number of elements than its input; and 17 more" },
	{ "in x f32 2,2,8; in m s32 1; const w f32 8,24 1; out y; Attention@com.microsoft x w _ m -> y num_heads=2", 0, NO,
	  "node 'Attention.0/Reshape_33' (Reshape): its shape has another number of elements than its input; and 17 more" },
	{ "in x f32 2,2,8; in m s32 4,2; const w f32 8,24 1; out y; Attention@com.microsoft x w _ m -> y num_heads=2", 0, NO,
	  "node 'Attention.0/Reshape_33' (Reshape): its shape has another number of elements than its input; and 17 more" },
	{ "in x f32 2,2,8; in m s32 1,2; const w f32 8,24 1; out y; Attention@com.microsoft x w _ m -> y num_heads=2", 0, NO,
	  "node 'Attention.0/Reshape_33' (Reshape): its shape has another number of elements than its input; and 17 more" },
	{ "in x f32 2,2,8; in m s32 2,1; const w f32 8,24 1; out y; Attention@com.microsoft x w _ m -> y num_heads=2", 0, NO,
	  "node 'Attention.0/Reshape_26' (Reshape): its -1 dimension cannot be computed; and 18 more" },
	{ "in x f32 2,2,8; in m s32 2,3; const w f32 8,24 1; out y; Attention@com.microsoft x w _ m -> y num_heads=2", 0, NO,
	  "node 'Attention.0/Reshape_26' (Reshape): its -1 dimension cannot be computed; and 18 more" },
	{ "in x f32 2,2,8; in m s32 2,4; const w f32 8,24 1; out y; Attention@com.microsoft x w _ m -> y num_heads=2", 0, NO,
	  "node 'Attention.0/Reshape_40' (Reshape): its shape has another number of elements than its input; and 16 more" },
	{ "in x f32 2,2,8; in m s32 2,4,2; const w f32 8,24 1; out y; Attention@com.microsoft x w _ m -> y num_heads=2", 0, NO,
	  "node 'Attention.0/Attention_69' (Attention): its mask does not broadcast to its scores; and 4 more" },
	{ "in x f32 2,2,8; in m s32 1,2,2; const w f32 8,24 1; out y; Attention@com.microsoft x w _ m -> y num_heads=2", 0, NO,
	  "node 'Attention.0/Reshape_33' (Reshape): its shape has another number of elements than its input; and 17 more" },
	{ "in x f32 2,4,8; in past f32 2,2,2,3,4; const w f32 8,24 1; out p; out y; "
	  "Attention@com.microsoft x w _ _ past -> y p num_heads=2", 0, 0, "float32 2x2x2x7x4" },
	{ "in x s32 2,3; const w u8 10,8 1; const p u8 5,8 1; const g u8 8 1; const s f32 - 1; const z u8 - 0; out y; "
	  "QEmbedLayerNormalization@com.microsoft x _ w p _ g g _ s s _ s s z z _ z z -> y", 0, 0, "float32 2x3x8" },
	/* The number of operands, and which of them are required. */
	{ X "Relu -> y", 0, BAD, "node 'Relu_0' (Relu) has 0 inputs, not 1 to 1" },
	{ X "Relu x x -> y", 0, BAD, "node 'Relu_0' (Relu) has 2 inputs, not 1 to 1" },
	{ X "Relu _ -> y", 0, BAD, "node 'Relu_0' (Relu) lacks input 0" },
	{ X "Conv x -> y", 0, BAD, "node 'Conv_0' (Conv) has 1 inputs, not 2 to 3" },
	{ X W "Conv x w x x -> y", 0, BAD, "node 'Conv_0' (Conv) has 4 inputs, not 2 to 3" },
	{ X W "Conv x w _ -> y", 0, 0, "float32 1x4x4x3" },
	{ X W "Conv _ w -> y", 0, BAD, "node 'Conv_0' (Conv) lacks input 0" },
	{ X "Add x _ -> y", 0, BAD, "node 'Add_0' (Add) lacks input 1" },
	{ X "Relu x -> y z", 0, NO,
	  "node 'Relu_0' (Relu): it has 2 outputs, at most 1 are known" },
	{ X "Relu x -> _", 0, BAD, "node 'Relu_0' (Relu) has no first output" },
	{ X "Relu x ->", 0, BAD, "node 'Relu_0' (Relu) has no first output" },
	{ X "MaxPool x -> y z kernel_shape=[2,2]", 0, 0, "float32 1x2x5x4" },
	{ X "BatchNormalization x s s s s -> y z; const s f32 2 1", 0, 0,
	  "float32 1x2x6x5" },
	{ X "QLinearAdd@com.microsoft x s _ x s _ s -> y; const s f32 - 1", 0, NO,
	  "node 'QLinearAdd_0' (QLinearAdd): its input 0 is float32, which it does not take" },
	{ X "QLinearAdd@com.microsoft _ s _ x s _ s -> y; const s f32 - 1", 0, BAD,
	  "node 'QLinearAdd_0' (QLinearAdd) lacks input 0" },
	{ X "QLinearAdd@com.microsoft x _ _ x s _ s -> y; const s f32 - 1", 0, BAD,
	  "node 'QLinearAdd_0' (QLinearAdd) lacks input 1" },
	{ X "QLinearAdd@com.microsoft x s _ _ s _ s -> y; const s f32 - 1", 0, BAD,
	  "node 'QLinearAdd_0' (QLinearAdd) lacks input 3" },
	{ X "QLinearMul@com.microsoft x s _ x _ _ s -> y; const s f32 - 1", 0, BAD,
	  "node 'QLinearMul_0' (QLinearMul) lacks input 4" },
	{ X "QLinearMul@com.microsoft x s _ x s _ _ x -> y; const s f32 - 1", 0, BAD,
	  "node 'QLinearMul_0' (QLinearMul) lacks input 6" },
	{ X "QGemm@com.microsoft _ s z x s z -> y; const s f32 - 1; const z u8 - 0", 0, BAD,
	  "node 'QGemm_0' (QGemm) lacks input 0" },
	{ X "QGemm@com.microsoft x _ z x s z -> y; const s f32 - 1; const z u8 - 0", 0, BAD,
	  "node 'QGemm_0' (QGemm) lacks input 1" },
	{ X "QGemm@com.microsoft x s z _ s z -> y; const s f32 - 1; const z u8 - 0", 0, BAD,
	  "node 'QGemm_0' (QGemm) lacks input 3" },
	{ X "QGemm@com.microsoft x s z x _ z -> y; const s f32 - 1; const z u8 - 0", 0, BAD,
	  "node 'QGemm_0' (QGemm) lacks input 4" },
	{ X "QGemm@com.microsoft x s _ x s z -> y; const s f32 - 1; const z u8 - 0", 0, BAD,
	  "node 'QGemm_0' (QGemm) lacks input 2" },
	{ X "QGemm@com.microsoft x s z x s _ -> y; const s f32 - 1; const z u8 - 0", 0, BAD,
	  "node 'QGemm_0' (QGemm) lacks input 5" },
	{ X "QGemm@com.microsoft x s z x s -> y; const s f32 - 1; const z u8 - 0", 0, BAD,
	  "node 'QGemm_0' (QGemm) has 5 inputs, not 6 to 9" },
	{ X "QGemm@com.microsoft x s z x s z -> y; const s f32 - 1; const z u8 - 0", 0, NO,
	  "node 'QGemm_0' (QGemm): its input 0 is float32, which it does not take" },
	{ X "QLinearGlobalAveragePool@com.microsoft _ s _ s -> y; const s f32 - 1", 0, BAD,
	  "node 'QLinearGlobalAveragePool_0' (QLinearGlobalAveragePool) lacks input 0" },
	{ X "QLinearGlobalAveragePool@com.microsoft x _ _ s -> y; const s f32 - 1", 0, BAD,
	  "node 'QLinearGlobalAveragePool_0' (QLinearGlobalAveragePool) lacks input 1" },
	{ X "QLinearAveragePool@com.microsoft x s _ _ s -> y; const s f32 - 1", 0, BAD,
	  "node 'QLinearAveragePool_0' (QLinearAveragePool) lacks input 3" },
	/* Names. */
	{ X "Relu x -> a; Relu nowhere -> y", 0, BAD,
	  "node 'Relu_1' (Relu) reads tensor 'nowhere', which no node produces" },
	{ X "Relu x -> x", 0, BAD,
	  "node 'Relu_0' (Relu) makes tensor 'x', which another node, input or initializer already "
	  "is" },
	{ X "Relu x -> w; Relu w -> y; const w f32 1 1", 0, BAD,
	  "node 'Relu_0' (Relu) makes tensor 'w', which another node, input or initializer already "
	  "is" },
	{ X "Relu x -> y; Relu x -> y", 0, BAD,
	  "node 'Relu_1' (Relu) makes tensor 'y', which another node, input or initializer already "
	  "is" },
	{ "in x f32 2; in x f32 2; out y; Relu x -> y", 0, -EEXIST, "tensor 'x' is defined twice" },
	{ "in x f32 2; Relu x -> y", 0, BAD, "the model has no outputs" },
	{ "in x f32 2; out z; Relu x -> y", 0, BAD, "no node produces the model's output 'z'" },
	{ "in x f32 2; out y; out z 10 2; Relu x -> y", 0, BAD, "no node produces the model's output 'z'" },
	{ "in x f32 2; out y; Relu a -> y; Relu y -> a", 0, -ELOOP,
	  "node 'Relu_0' (Relu) needs its own result" },
	/* Fewer and more inputs than an operator has. */
	{ X "Cast -> y to=1", 6, BAD, "node 'Cast_0' (Cast) has 0 inputs, not 1 to 1" },
	{ X "NonZero x x -> y", 9, BAD, "node 'NonZero_0' (NonZero) has 2 inputs, not 1 to 1" },
	/* A list of texts: each names the function of a gate. */
	{ "in x f32 2,1,3; const w f32 1,8,3 0; const r f32 1,8,2 0; out y; "
	  "LSTM x w r -> y hidden_size=2 activations=['Sigmoid','Tanh','Relu']", 14, 0, "float32 2x1x1x2" },
	{ "in x f32 2,1,3; const w f32 1,8,3 0; const r f32 1,8,2 0; out y; "
	  "LSTM x w r -> y hidden_size=2 activations=['Sigmoid','Tanh','Rel']", 14, NO, "node 'LSTM_0' (LSTM): there is no activation 'Rel'" },
	/* An operator outside the tables: an absent output is no output. */
	{ X "Unheard x -> _ y", 13, NO, "node 'Unheard_0' (Unheard): operator Unheard is not in docs/operators.md" },
	/* Inputs that no kernel takes. */
	{ "in x 11 2; out y; Relu x -> y", 0, 0,
	  "float32 2" },
	{ "in x 8 2; out y; Relu x -> y", 0, NO,
	  "node 'Relu_0' (Relu): its input 'x': element type string is not supported" },
	{ "in x 99 2; out y; Relu x -> y", 0, NO,
	  "node 'Relu_0' (Relu): its input 'x': element type unknown is not supported" },
	{ "in x f32 2,?; out y; Relu x -> y", 0, -EINVAL,
	  "input 'x' has a symbolic or unknown dimension; give it a value (symbol, shape)" },
	{ "in x f32 ?,3; out y; Relu x -> y", 0, 0, "float32 1x3" },
	{ "in x f32 1,1,1,1,1,1,1,2; out y; Relu x -> y", 0, 0, "float32 1x1x1x1x1x1x1x2" },
	{ "in x f32 1,1,1,1,1,1,1,1,2; out y; Relu x -> y", 0, NO,
	  "node 'Relu_0' (Relu): its input 'x': it has more than 8 dimensions" },
	{ "in x f32 16777216,16; out y; Relu x -> y", 0, 0, "float32 16777216x16" },
	{ "in x f32 16777216,17; out y; Relu x -> y", 0, -E2BIG,
	  "input 'x' is larger than 1073741824 bytes" },
	{ "in x f32 16777217; out y; Relu x -> y", 0, -E2BIG,
	  "a dimension of 16777217 at byte 28 is not in 0..16777216" },
	{ "in x u8 16777216,4; in z u8 1,17; out y; Add x z -> y", 0, NO,
	  "node 'Add_0' (Add): its operands' shapes do not broadcast" },
	{ "in x u8 16777216,1; in z u8 1,65; out y; Add x z -> y", 0, NO,
	  "node 'Add_0' (Add): its output 'y' is too large" },
	{ "in x u8 4097,4096; out y; Flatten x -> y axis=2", 0, NO,
	  "node 'Flatten_0' (Flatten): a dimension of 'y' is beyond 16777216" },
	{ "in x u8 4096,4096; out y; Flatten x -> y axis=2", 0, 0, "uint8 16777216x1" },
	{ X "Frob x -> a; Relu a -> y", 0, NO,
	  "node 'Frob_0' (Frob): operator Frob is not in docs/operators.md; and 1 more" },
	{ X "Frob x -> a; Relu a -> y; info a f32 1,2", 0, NO,
	  "node 'Frob_0' (Frob): operator Frob is not in docs/operators.md" },
};

static const struct model_case shapes[] = {
	/* Windows: ONNX's formula, which drops the remainder, or counts it with ceil_mode. */
	{ X W "Conv x w -> y", 0, 0, "float32 1x4x4x3" },
	{ X W "Conv x w -> y pads=[1,1,1,1] strides=[2,2]", 0, 0, "float32 1x4x3x3" },
	{ X W "Conv x w -> y pads=[1,0,0,1] dilations=[2,2]", 0, 0, "float32 1x4x3x2" },
	{ X W "Conv x w -> y dilations=[1,2]", 0, 0, "float32 1x4x4x1" },
	{ X W "Conv x w -> y dilations=[1,3]", 0, NO,
	  "node 'Conv_0' (Conv): its 3x7 window is larger than the padded 6x5 input" },
	{ X W "Conv x w -> y dilations=[1,3] pads=[0,1,0,1]", 0, 0, "float32 1x4x4x1" },
	{ X W "Conv x w -> y kernel_shape=[3,3]", 0, 0, "float32 1x4x4x3" },
	{ X W "Conv x w -> y kernel_shape=[3,2]", 0, NO,
	  "node 'Conv_0' (Conv): kernel_shape and the weights' shape disagree" },
	{ X "const w f32 4,2,3,0; Conv x w -> y", 0, NO,
	  "node 'Conv_0' (Conv): kernel_shape and the weights' shape disagree" },
	{ X "const w f32 4,2,1,65535 1; Conv x w -> y pads=[0,65535,0,0]", 0, 0,
	  "float32 1x4x6x6" },
	{ X "const w f32 4,2,1,65536 1; Conv x w -> y pads=[0,65535,0,65535]", 0, 0,
	  "float32 1x4x6x65540" },
	{ X "const w f32 4,2,9 1; Conv x w -> y", 0, NO,
	  "node 'Conv_0' (Conv): its weights have 3 dimensions, its input 4" },
	{ "in x f32 1,2,6; out y; " W "Conv x w -> y", 0, NO,
	  "node 'Conv_0' (Conv): its weights have 4 dimensions, its input 3" },
	{ "in x f32 1,2,6; out y; const w f32 4,2,3 1; Conv x w -> y", 0, 0, "float32 1x4x4" },
	{ X "const w f32 4,3,3,3 1; Conv x w -> y", 0, NO,
	  "node 'Conv_0' (Conv): weights do not fit input, output and group" },
	{ X "const w f32 4,1,3,3 1; Conv x w -> y group=2", 0, 0, "float32 1x4x4x3" },
	{ X "const w f32 3,1,3,3 1; Conv x w -> y group=2", 0, NO,
	  "node 'Conv_0' (Conv): weights do not fit input, output and group" },
	{ X W "Conv x w -> y group=0", 0, NO,
	  "node 'Conv_0' (Conv): weights do not fit input, output and group" },
	{ X W "Conv x w b -> y; const b f32 4 1", 0, 0, "float32 1x4x4x3" },
	{ X W "Conv x w b -> y; const b f32 3 1", 0, NO,
	  "node 'Conv_0' (Conv): bias has not one value per output channel" },
	{ X "const w u8 4,2,3,3 1; Conv x w -> y", 0, NO,
	  "node 'Conv_0' (Conv): its input 1 is uint8, which it does not take" },
	{ X "AveragePool x -> y kernel_shape=[3,3] strides=[2,2]", 0, 0, "float32 1x2x2x2" },
	{ X "AveragePool x -> y kernel_shape=[3,3] strides=[2,2] ceil_mode=1", 10, 0,
	  "float32 1x2x3x2" },
	{ X "AveragePool x -> y kernel_shape=[7,3]", 0, NO,
	  "node 'AveragePool_0' (AveragePool): its 7x3 window is larger than the padded 6x5 "
	  "input" },
	{ X "AveragePool x -> y kernel_shape=[7,3] ceil_mode=1 strides=[2,1]", 10, 0,
	  "float32 1x2x1x3" },
	{ X "AveragePool x -> y kernel_shape=[8,3] ceil_mode=1 strides=[2,1]", 10, NO,
	  "node 'AveragePool_0' (AveragePool): its 8x3 window is larger than the padded 6x5 "
	  "input" },
	{ "in x u8 1,2,6,5; out y; AveragePool x -> y kernel_shape=[2,2]", 0, NO,
	  "node 'AveragePool_0' (AveragePool): its input 0 is uint8, which it does not take" },
	{ "in x u8 1,2,6,5; out y; MaxPool x -> y kernel_shape=[2,2]", 0, 0, "uint8 1x2x5x4" },
	{ "in x s8 1,2,6,5; out y; MaxPool x -> y kernel_shape=[2,2]", 0, 0, "int8 1x2x5x4" },
	{ "in x s32 1,2,6,5; out y; MaxPool x -> y kernel_shape=[2,2]", 0, NO,
	  "node 'MaxPool_0' (MaxPool): its input 0 is int32, which it does not take" },
	{ "in x f32 5; out y; MaxPool x -> y kernel_shape=[2,2]", 0, NO,
	  "node 'MaxPool_0' (MaxPool): its input has no spatial dimensions" },
	{ "in x f32 1,2,5; out y; MaxPool x -> y kernel_shape=[2]", 0, 0, "float32 1x2x4" },
	/* Whole channels. */
	{ X "GlobalAveragePool x -> y", 0, 0, "float32 1x2x1x1" },
	{ "in x f32 3,2,7; out y; GlobalMaxPool x -> y", 0, 0, "float32 3x2x1" },
	{ "in x f32 3,2; out y; GlobalMaxPool x -> y", 0, NO,
	  "node 'GlobalMaxPool_0' (GlobalMaxPool): its input has no spatial dimensions" },
	{ "in x f32 3,2,0; out y; GlobalMaxPool x -> y", 0, 0, "float32 3x2x1" },
	{ "in x s8 1,2,3,3; out y; GlobalMaxPool x -> y", 0, 0, "int8 1x2x1x1" },
	{ "in x s8 1,2,3,3; out y; GlobalAveragePool x -> y", 0, NO,
	  "node 'GlobalAveragePool_0' (GlobalAveragePool): its input 0 is int8, which it does "
	  "not take" },
	/* Matrices. */
	{ "in x f32 2,3; const w f32 3,4 1; out y; Gemm x w -> y", 0, 0, "float32 2x4" },
	{ "in x f32 3,2; const w f32 3,4 1; out y; Gemm x w -> y transA=1", 0, 0, "float32 2x4" },
	{ "in x f32 2,3; const w f32 4,3 1; out y; Gemm x w -> y transB=1", 0, 0, "float32 2x4" },
	{ "in x f32 2,3; const w f32 4,3 1; out y; Gemm x w -> y", 0, NO,
	  "node 'Gemm_0' (Gemm): inner dimensions 3 and 4 differ" },
	{ "in x f32 1,2,3; const w f32 3,4 1; out y; Gemm x w -> y", 0, NO,
	  "node 'Gemm_0' (Gemm): its operands are not matrices (rank 3 and 2)" },
	{ "in x f32 2,3; const w f32 3 1; out y; Gemm x w -> y", 0, NO,
	  "node 'Gemm_0' (Gemm): its operands are not matrices (rank 2 and 1)" },
	{ "in x f32 2,3; const w f32 3,4 1; const c f32 2,1 1; out y; Gemm x w c -> y", 0, 0,
	  "float32 2x4" },
	{ "in x f32 2,3; const w f32 3,4 1; const c f32 3 1; out y; Gemm x w c -> y", 0, NO,
	  "node 'Gemm_0' (Gemm): its input 2 does not broadcast to 2 x 4" },
	{ "in x f32 2,3; const w f32 3,4 1; const c f32 1,2,4 1; out y; Gemm x w c -> y", 0, NO,
	  "node 'Gemm_0' (Gemm): its input 2 does not broadcast to 2 x 4" },
	{ "in x f32 5,2,3; const w f32 3,4 1; out y; MatMul x w -> y", 0, 0, "float32 5x2x4" },
	{ "in x f32 5,1,2,3; const w f32 6,3,4 1; out y; MatMul x w -> y", 0, 0,
	  "float32 5x6x2x4" },
	{ "in x f32 5,2,3; const w f32 6,3,4 1; out y; MatMul x w -> y", 0, NO,
	  "node 'MatMul_0' (MatMul): the dimensions before its matrices do not fit together" },
	{ "in x f32 3; const w f32 3,4 1; out y; MatMul x w -> y", 0, 0, "float32 4" },
	{ "in x f32 2,3; const w f32 3 1; out y; MatMul x w -> y", 0, 0, "float32 2" },
	{ "in x f32 3; const w f32 3 1; out y; MatMul x w -> y", 0, 0, "float32 scalar" },
	{ "in x f32 -; const w f32 3 1; out y; MatMul x w -> y", 0, NO,
	  "node 'MatMul_0' (MatMul): an operand is a scalar" },
	{ "in x f32 3; const w f32 - 1; out y; MatMul x w -> y", 0, NO,
	  "node 'MatMul_0' (MatMul): an operand is a scalar" },
	{ "in x f32 2,3; const w f32 2,4 1; out y; MatMul x w -> y", 0, NO,
	  "node 'MatMul_0' (MatMul): inner dimensions 3 and 2 differ" },
	/* Element by element. */
	{ "in x f32 4,1,3; const w f32 2,1 1; out y; Add x w -> y", 0, 0, "float32 4x2x3" },
	{ "in x f32 4,1,3; const w f32 2,2 1; out y; Mul x w -> y", 0, NO,
	  "node 'Mul_0' (Mul): its operands' shapes do not broadcast" },
	{ "in x f32 4; const w u8 4 1; out y; Mul x w -> y", 0, NO,
	  "node 'Mul_0' (Mul): its input 1 is uint8, input 0 float32" },
	{ "in x bool 4; out y; Mul x x -> y", 0, NO,
	  "node 'Mul_0' (Mul): its input 0 is bool, which it does not take" },
	{ "in x s64 4; out y; Add x x -> y", 0, 0, "int64 4" },
	{ "in x bool 4; out y; Relu x -> y", 0, NO,
	  "node 'Relu_0' (Relu): its input 0 is bool, which it does not take" },
	{ "in x s32 4; out y; Relu x -> y", 14, 0, "int32 4" },
	{ "in x f32 4; const w f32 1 1; out y; Clip x w -> y", 0, 0, "float32 4" },
	{ "in x f32 4; const w f32 2 1; out y; Clip x w -> y", 0, NO,
	  "node 'Clip_0' (Clip): its input 1 has 2 values, not 1" },
	{ "in x f32 4; const w s32 - 1; out y; Clip x _ w -> y", 0, NO,
	  "node 'Clip_0' (Clip): its input 2 is int32, input 0 float32" },
	/* Axes. */
	{ "in x f32 2,3,4; out y; Softmax x -> y axis=-3", 0, 0, "float32 2x3x4" },
	{ "in x f32 2,3,4; out y; Softmax x -> y axis=-4", 0, NO,
	  "node 'Softmax_0' (Softmax): axis -4 does not exist in a tensor of rank 3" },
	{ "in x f32 2,3,4; out y; Softmax x -> y axis=2", 0, 0, "float32 2x3x4" },
	{ "in x f32 2,3,4; out y; Softmax x -> y axis=3", 0, NO,
	  "node 'Softmax_0' (Softmax): axis 3 does not exist in a tensor of rank 3" },
	{ "in x f32 2,3,4; out y; Softmax x -> y axis=3", 12, 0, "float32 2x3x4" },
	{ "in x u8 2,3,4; out y; Softmax x -> y", 0, NO,
	  "node 'Softmax_0' (Softmax): its input 0 is uint8, which it does not take" },
	{ "in x u8 2,3,4; out y; Flatten x -> y axis=0", 0, 0, "uint8 1x24" },
	{ "in x u8 2,3,4; out y; Flatten x -> y", 0, 0, "uint8 2x12" },
	{ "in x u8 2,3,4; out y; Flatten x -> y axis=3", 0, 0, "uint8 24x1" },
	{ "in x u8 2,3,4; out y; Flatten x -> y axis=-1", 0, 0, "uint8 6x4" },
	{ "in x u8 2,3,4; out y; Flatten x -> y axis=4", 0, NO,
	  "node 'Flatten_0' (Flatten): axis 4 does not exist in a tensor of rank 3" },
	{ "in x u8 -; out y; Flatten x -> y axis=0", 0, 0, "uint8 1x1" },
	/* Kernels without elements, or with more than 65,535 elements in a dimension. */
	{ "in x f32 1,1,1,70000; const w f32 1,1,1,65535 0; out y; Conv x w -> y", 0, 0, "float32 1x1x1x4466" },
	{ "in x f32 1,1,1,70000; const w f32 1,1,1,65536 0; out y; Conv x w -> y", 0, 0, "float32 1x1x1x4465" },
	{ "in x f32 1,1,70000,1; const w f32 1,1,65536,1 0; out y; Conv x w -> y", 0, 0, "float32 1x1x4465x1" },
	{ "in x f32 1,1,3,3; const w f32 1,1,0,1; out y; Conv x w -> y", 0, NO,
	  "node 'Conv_0' (Conv): kernel_shape and the weights' shape disagree" },
	{ "in x f32 1,1,3,3; const w f32 1,1,1,0; out y; Conv x w -> y", 0, NO,
	  "node 'Conv_0' (Conv): kernel_shape and the weights' shape disagree" },
	/* New shapes. */
	{ "in x u8 2,3,4; const s s64 3 0 -1 2; out y; Reshape x s -> y", 0, 0, "uint8 2x6x2" },
	{ "in x u8 2,3,4; const s s64 3 0 -1 5; out y; Reshape x s -> y", 0, NO,
	  "node 'Reshape_0' (Reshape): its -1 dimension cannot be computed" },
	{ "in x u8 2,3,4; const s s64 2 -1 -1; out y; Reshape x s -> y", 0, NO,
	  "node 'Reshape_0' (Reshape): its shape is not valid" },
	{ "in x u8 2,3,4; const s s64 2 -2 12; out y; Reshape x s -> y", 0, NO,
	  "node 'Reshape_0' (Reshape): its shape is not valid" },
	{ "in x u8 2,3,4; const s s64 2 5 5; out y; Reshape x s -> y", 0, NO,
	  "node 'Reshape_0' (Reshape): its shape has another number of elements than its input" },
	{ "in x u8 2,3,4; const s s64 4 2 3 4 0; out y; Reshape x s -> y", 0, NO,
	  "node 'Reshape_0' (Reshape): its shape copies dimension 3 of a tensor of rank 3" },
	{ "in x u8 0,3; const s s64 2 0 7; out y; Reshape x s -> y allowzero=1", 14, 0,
	  "uint8 0x7" },
	{ "in x u8 2,3; const s s64 2 0 3; out y; Reshape x s -> y allowzero=1", 14, NO,
	  "node 'Reshape_0' (Reshape): its shape has another number of elements than its input" },
	{ "in x u8 0,3; const s s64 2 0 -1; out y; Reshape x s -> y", 0, NO,
	  "node 'Reshape_0' (Reshape): its -1 dimension cannot be computed" },
	{ "in x u8 2,3,4; const s s64 8 1 1 1 1 1 1 1 24; out y; Reshape x s -> y", 0, 0,
	  "uint8 1x1x1x1x1x1x1x24" },
	{ "in x u8 2,3,4; const s s64 9 1 1 1 1 1 1 1 1 24; out y; Reshape x s -> y", 0, NO,
	  "node 'Reshape_0' (Reshape): its input 1 has 9 values, more than 8" },
	{ "in x u8 4; const s s64 1 16777217; out y; Reshape x s -> y", 0, NO,
	  "node 'Reshape_0' (Reshape): its shape has another number of elements than its input" },
	{ "in x u8 4; in s s64 1; out y; Reshape x s -> y", 0, NO,
	  "node 'Reshape_0' (Reshape): its input 1 must be a constant" },
	{ "in x u8 4; in s s64 2; out y u8 2,2; Reshape x s -> y", 0, 0, "uint8 2x2" },
	{ "in x u8 4; in s s64 2; out y u8 2,3; Reshape x s -> y", 0, 0,
	  "uint8 2x3" },
	/* Quantisation. */
	{ "in x f32 2,3; const s f32 3 1; const z u8 3 0; out y; QuantizeLinear x s z -> y", 0, 0,
	  "uint8 2x3" },
	{ "in x f32 2,3; const s f32 2 1; const z u8 2 0; out y; QuantizeLinear x s z -> y", 0, NO,
	  "node 'QuantizeLinear_0' (QuantizeLinear): it has 2 scales for 3 elements along axis 1" },
	{ "in x f32 2,3; const s f32 2 1; const z u8 2 0; out y; QuantizeLinear x s z -> y axis=0",
	  0, 0, "uint8 2x3" },
	{ "in x f32 2,3; const s f32 3 1; const z u8 3 0; out y; QuantizeLinear x s z -> y axis=-1",
	  0, 0, "uint8 2x3" },
	{ "in x f32 2,3; const s f32 3 1; const z u8 3 0; out y; QuantizeLinear x s z -> y axis=2",
	  0, NO,
	  "node 'QuantizeLinear_0' (QuantizeLinear): axis 2 does not exist in a tensor of rank 2" },
	{ "in x f32 2,3; const s f32 3 1; const z u8 2 0; out y; QuantizeLinear x s z -> y", 0, NO,
	  "node 'QuantizeLinear_0' (QuantizeLinear): it has 2 zero points for 3 scales" },
	{ "in x f32 2,3; const s f32 1,3 1; out y; QuantizeLinear x s -> y", 0, NO,
	  "node 'QuantizeLinear_0' (QuantizeLinear): it has 3 scales for 3 elements along axis 1" },
	{ "in x u8 2,3; const s f32 - 1; out y; QuantizeLinear x s -> y", 0, NO,
	  "node 'QuantizeLinear_0' (QuantizeLinear): its input 0 is uint8, which it does not take" },
	{ "in x s32 2,3; const s f32 - 1; out y; QuantizeLinear x s -> y", 0, 0, "uint8 2x3" },
	{ "in x s32 2,3; const s f32 - 1; out y; DequantizeLinear x s -> y", 0, 0, "float32 2x3" },
	{ "in x f32 2,3; const s f32 - 1; out y; DequantizeLinear x s -> y", 0, NO,
	  "node 'DequantizeLinear_0' (DequantizeLinear): its input 0 is float32, which it does not take" },
	{ "in x u8 2,3; const s f32 - 1; const z s8 - 0; out y; DequantizeLinear x s z -> y", 0, NO,
	  "node 'DequantizeLinear_0' (DequantizeLinear): its input 2 is int8, input 0 uint8" },
	/* Normalisation. */
	{ "in x f32 2,3; const s f32 3 1; out y; BatchNormalization x s s s s -> y", 0, 0,
	  "float32 2x3" },
	{ "in x f32 2,3; const s f32 2 1; const t f32 3 1; out y; BatchNormalization x t t t s -> "
	  "y",
	  0, NO,
	  "node 'BatchNormalization_0' (BatchNormalization): its input 4 has 2 values, not 3"
 },
	{ "in x f32 2; const s f32 1 1; out y; BatchNormalization x s s s s -> y", 0, 0,
	  "float32 2" },
	{ "in x u8 2,3; const s f32 3 1; out y; BatchNormalization x s s s s -> y", 0, NO,
	  "node 'BatchNormalization_0' (BatchNormalization): its input 0 is uint8, which it does not take" },
};

#define Q  "const s f32 - 1; const z u8 - 0; const i s8 - 0; "
#define QC "in x u8 1,2,6,5; const w s8 4,2,3,3 1; const sw f32 4 1; const iw s8 4 0; out y; "

static const struct model_case quantised[] = {
	{ Q QC "QLinearConv x s z w sw iw s i -> y", 0, 0, "int8 1x4x4x3" },
	{ Q QC "QLinearConv x s z w s i s z b -> y; const b s32 4 1", 0, 0, "uint8 1x4x4x3" },
	{ Q QC "QLinearConv x s z w s i s z b -> y; const b s32 3 1", 0, NO,
	  "node 'QLinearConv_0' (QLinearConv): bias has not one value per output channel" },
	{ Q QC "QLinearConv x s z w s i s z b -> y; const b f32 4 1", 0, NO,
	  "node 'QLinearConv_0' (QLinearConv): its bias is float32, not int32" },
	{ Q QC "QLinearConv x sw z w s i s z -> y", 0, NO,
	  "node 'QLinearConv_0' (QLinearConv): its input 1 has 4 values, not 1" },
	{ Q QC "QLinearConv x s iw w s i s z -> y", 0, NO,
	  "node 'QLinearConv_0' (QLinearConv): its input 2 is int8, input 0 uint8" },
	{ Q QC "QLinearConv x s z w sx i s z -> y; const sx f32 3 1", 0, NO,
	  "node 'QLinearConv_0' (QLinearConv): its input 4 has 3 values for 4 output channels" },
	{ Q QC "QLinearConv x s z w sw ix s z -> y; const ix s8 2 0", 0, NO,
	  "node 'QLinearConv_0' (QLinearConv): its input 5 has 2 values for 4 output channels" },
	{ Q QC "QLinearConv x s z w s i s s -> y", 0, NO,
	  "node 'QLinearConv_0' (QLinearConv): its input 7 is float32, not uint8 or int8" },
	{ Q "in x u8 2,3; const w s8 3,4 1; out y; QLinearMatMul x s z w s i s z -> y", 0, 0,
	  "uint8 2x4" },
	{ Q "in x u8 2,3; const w s8 2,4 1; out y; QLinearMatMul x s z w s i s z -> y", 0, NO,
	  "node 'QLinearMatMul_0' (QLinearMatMul): its factors have 3 columns and 2 rows" },
	{ Q "in x u8 2,3; const w s8 3,4 1; const c s32 4 1; out y; QGemm@com.microsoft x s z w s "
	    "i c s z -> y",
	  0, 0, "uint8 2x4" },
	{ Q "in x u8 2,3; const w s8 4,3 1; out y; QGemm@com.microsoft x s z w s i _ s i -> y "
	    "transB=1",
	  0, 0, "int8 2x4" },
	{ Q
	  "in x u8 2,3; const w s8 4,3 1; out y; QGemm@com.microsoft x s z w s i _ s -> y transB=1",
	  0, 0, "uint8 2x4" },
	{ Q "in x u8 2,3; const w s8 3,4 1; out y; QGemm@com.microsoft x s z w s i -> y", 0, 0,
	  "float32 2x4" },
	{ Q "in x u8 2,3; const w s8 3,4 1; const c s32 2,1 1; out y; QGemm@com.microsoft x s z w s i "
	    "c s z -> y",
	  0, 0, "uint8 2x4" },
	{ Q "in x u8 1,3,2,4,4; out y; QLinearAveragePool@com.microsoft x s z s -> y "
	    "kernel_shape=[2,2,2]",
	  0, 0, "uint8 1x3x1x3x3" },
	{ Q "in x u8 2,3; const w s8 3,4 1; const c s32 5 1; out y; QGemm@com.microsoft x s z w s "
	    "i c s z -> y",
	  0, NO, "node 'QGemm_0' (QGemm): its bias does not broadcast to 2 x 4" },
	{ Q "in x u8 2,3; in w s8 3; out y; QLinearAdd@com.microsoft x s z w s i s i -> y", 0, 0,
	  "int8 2x3" },
	{ Q "in x u8 2,3; in w s8 3; out y; QLinearAdd@com.microsoft x s z w s i s -> y", 0, 0,
	  "uint8 2x3" },
	{ Q "in x u8 2,3; in w s8 2; out y; QLinearMul@com.microsoft x s z w s i s -> y", 0, NO,
	  "node 'QLinearMul_0' (QLinearMul): its operands' shapes do not broadcast" },
	{ Q "in x u8 2,3,4; out y; QLinearGlobalAveragePool@com.microsoft x s z s i -> y", 0, 0,
	  "int8 2x3x1" },
	{ Q "in x u8 2,3,4; out y; QLinearGlobalAveragePool@com.microsoft x s _ s -> y", 0, 0,
	  "uint8 2x3x1" },
	{ Q "in x u8 2,3; out y; QLinearGlobalAveragePool@com.microsoft x s z s z -> y", 0, NO,
	  "node 'QLinearGlobalAveragePool_0' (QLinearGlobalAveragePool): its input has no spatial "
	  "dimensions" },
	{ Q "in x u8 1,3,4,4; out y; QLinearAveragePool@com.microsoft x s z s i -> y "
	    "kernel_shape=[2,2]",
	  0, 0, "int8 1x3x3x3" },
};

static void check_all(const struct model_case *c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check(c[i].text, c[i].opset ? c[i].opset : 13, c[i].rc, c[i].says);
}

#define TABLE(name, table)                                                                         \
	START_TEST(name)                                                                           \
	{                                                                                          \
		check_all(table, sizeof(table) / sizeof((table)[0]));                              \
	}                                                                                          \
	END_TEST

TABLE(attributes_and_their_ranges, attributes)
TABLE(operators_and_operands, operators)
TABLE(shapes_of_results, shapes)
TABLE(quantised_operators, quantised)

/*
 * Proves that names from a model file are printed without the characters that text fields of the
 * protocol exclude: C1 controls, which UTF-8 encodes in two bytes, and invalid UTF-8. Other
 * characters are kept.
 */
START_TEST(names_of_untrusted_models)
{
	static const struct { const char *name, *shown; } names[] = {
		{ "a\033[2J", "a?[2J" }, { "a\302\233" "2J", "a??2J" }, { "a\377\376", "a??" },
		{ "a\303", "a?" }, { "f\303\274r", "f\303\274r" },
	};
	char want[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(want, sizeof(want), "node '%s'", names[i].shown);
		ck_assert_int_eq(rvl_fail(&err, -EINVAL, "node '%s'", names[i].name), -EINVAL);
		ck_assert_str_eq(err.msg, want);
	}
}
END_TEST

/* Proves that a NUL in any text of a list is refused, not only in the first one. */
START_TEST(texts_with_a_nul)
{
	for (int at = 0; at < 3; at++) {
		struct pb attr = { .p = NULL }, node = pb_node("LSTM", "x w r", "y"), graph = { .p = NULL }, m;
		struct pb in[] = { pb_value("x", 1, (const int64_t[]){ 2, 1, 3, -1 }),
				   pb_value("w", 1, (const int64_t[]){ 1, 8, 3, -1 }),
				   pb_value("r", 1, (const int64_t[]){ 1, 8, 2, -1 }) };
		struct pb out = { .p = NULL };
		struct rvl_graph *g = NULL;

		pb_str(&attr, 1, "activations");
		for (int i = 0; i < 3; i++)
			pb_len(&attr, 9, "Tanh\0Tanh", i == at ? 9 : 4);
		pb_int(&attr, 20, 8);
		pb_msg(&node, 5, &attr);
		pb_attr_int(&node, "hidden_size", 2);
		pb_msg(&graph, 1, &node);
		pb_str(&graph, 2, "g");
		for (int i = 0; i < 3; i++)
			pb_msg(&graph, 11, &in[i]);
		pb_str(&out, 1, "y");
		pb_msg(&graph, 12, &out);
		m = pb_model(&graph, 8, 14);
		err.msg[0] = '\0';
		if (!rvl_onnx_load(m.p, m.n, NULL, &g, &err))
			ck_assert_int_ne(rvl_graph_check_supported(g, &err), 0);
		ck_assert_msg(strstr(err.msg, "attribute 'activations' holds a NUL byte") != NULL, "text %d: %s",
			      at, err.msg);
		rvl_graph_free(g);
		free(m.p);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("refusals");
	TCase *t = tcase_create("all");

	tcase_add_test(t, attributes_and_their_ranges);
	tcase_add_test(t, operators_and_operands);
	tcase_add_test(t, shapes_of_results);
	tcase_add_test(t, quantised_operators);
	tcase_add_test(t, names_of_untrusted_models);
	tcase_add_test(t, texts_with_a_nul);
	suite_add_tcase(s, t);
	return run_suite(s);
}
