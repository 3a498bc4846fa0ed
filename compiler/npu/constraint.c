/* SPDX-License-Identifier: MIT */
/*
 * What the NPU computes: one row per operator, with the conditions as code and as the sentences that
 * docs/operators.md prints, and the function that makes its layer. Whether a tile of the layer fits
 * the board is asked in lower.c.
 */
#include "npu/constraint.h"
#include "npu/layer.h"
#include "npu/slopes.h"
#include "pass/pass.h"

#include <string.h>

static const char *bytes_in_and_out(struct rvl_graph *g, const struct rvl_node *n)
{
	(void)g;
	if (!rvl_is_quant8_tensor(n->in[0]))
		return "its input is not quantised to 8 bits with one scale";
	if (!rvl_is_quant8_tensor(n->out[0]))
		return "its output is not quantised to 8 bits with one scale";
	return NULL;
}

static const char *second_bytes(struct rvl_graph *g, const struct rvl_node *n)
{
	(void)g;
	return rvl_is_quant8_tensor(n->in[1]) ? NULL :
	       "its second operand is not quantised to 8 bits with one scale";
}

static const char *constant_weights(struct rvl_graph *g, const struct rvl_node *n)
{
	(void)g;
	if (!n->in[1]->data)
		return "its weights are not constant";
	return n->n_in > 2 && n->in[2] && !n->in[2]->data ? "its bias is not constant" : NULL;
}

static const char *plain_matrix(struct rvl_graph *g, const struct rvl_node *n)
{
	(void)g;
	if (n->in[1]->shape.rank != 2)
		return "its second operand is a batch of matrices";
	if (n->attr.trans_a)
		return "its first operand is transposed";
	return n->in[0]->shape.rank < 2 ? "its first operand is a vector" : NULL;
}

static const char *four_dimensions(struct rvl_graph *g, const struct rvl_node *n)
{
	if (n->in[0]->shape.rank == 4)
		return NULL;
	return rvl_graph_printf(g, "its input has %d dimensions, not 4", n->in[0]->shape.rank);
}

/* A model has few pools with windows; one with thousands must not make the compiler work for hours. */
#define MAX_AVERAGE_TRIES 256

static const char *average_accepted(struct rvl_graph *g, const struct rvl_node *n)
{
	if (g->npu_average_pool || (g->average_tries++ < MAX_AVERAGE_TRIES && rvl_average_exact(n)))
		return NULL;
	return "onnxruntime averages in float, the NPU in integers: up to 1 apart for these scales";
}

static const char *one_table(struct rvl_graph *g, const struct rvl_node *n)
{
	int32_t axis;

	(void)g;
	if (rvl_is_slopes(n))
		return rvl_slopes_lack(n);
	return rvl_op_of_one_value(n, &axis) && axis == RVL_AXIS_NONE ? NULL :
	       "its constants differ along an axis, and the NPU has one table for all values";
}

static const char *no_indices(struct rvl_graph *g, const struct rvl_node *n)
{
	(void)g;
	return n->n_out > 1 ? "its indices are used" : NULL;
}

static const char *edge(struct rvl_graph *g, const struct rvl_node *n)
{
	(void)g;
	return n->op == RVL_OP_QUANTIZE ? "float in: the NPU takes bytes" :
					  "float out: the NPU gives bytes";
}

static const char *dynamic_scales(struct rvl_graph *g, const struct rvl_node *n)
{
	for (uint32_t i = 1; i < n->n_in; i++)
		if (n->in[i] && !n->in[i]->data && i != 3)
			return rvl_graph_printf(g, "its operand '%.80s' is not constant",
						n->in[i]->name);
	return "its quantisation parameters contradict those of its neighbours";
}

/* Why a float operator was not fused: looks for the quantisation around it. */
static const char *float_operator(struct rvl_graph *g, const struct rvl_node *n)
{
	bool is_product = rvl_op_traits(n->op) & RVL_TRAIT_PRODUCT;

	for (uint32_t i = 0; i < n->n_in && i < 2; i++) {
		const struct rvl_tensor *t = n->in[i];

		if (t && !t->data && !rvl_is_quant8_tensor(t) &&
		    (!t->producer || t->producer->op != RVL_OP_DEQUANTIZE))
			return rvl_graph_printf(g, "float: its input '%.80s' is not quantised",
						t->name);
	}
	if (!n->out[0]->n_users)
		return "float: its result is not quantised";
	if (n->out[0]->users[0]->op != RVL_OP_QUANTIZE)
		return rvl_graph_printf(g, "float: '%.80s' reads its result, which is not quantised%s",
					n->out[0]->users[0]->name,
					is_product ? "; --calibrate finds a scale" : "");
	return "float: scales or operands around it do not allow integers";
}

static const char *always_float(struct rvl_graph *g, const struct rvl_node *n)
{
	(void)g;
	(void)n;
	return "the NPU has no such arithmetic";
}

/* An element-wise function of one quantised value would be a table. */
static const char *general(struct rvl_graph *g, const struct rvl_node *n)
{
	const char *why = rvl_transposed_lack(n);
	float value;

	if (why)
		return why;
	if (n->def->role == RVL_ROLE_TRANSPOSED_CONV)
		return float_operator(g, n);
	if ((rvl_op_moves(n) || rvl_op_joins(n) || rvl_op_pads(n, &value)) &&
	    n->in[0]->type != RVL_TYPE_F32)
		return "the NPU does not move or select values in this way; the CPU does, on bytes";
	return n->def->flags & RVL_OP_ELEMENTWISE ? float_operator(g, n) : always_float(g, n);
}

static const char *repeats_pixels(struct rvl_graph *g, const struct rvl_node *n)
{
	struct rvl_repeat rep;
	const char *why = bytes_in_and_out(g, n);

	if (why)
		return general(g, n);
	if (rvl_repeats_pixels(n, &rep))
		return NULL;
	if (rvl_op_moves(n) && rvl_repeat_costs_too_much(n))
		return "copies of pixels are looked for only in images of up to 16 MiB";
	return general(g, n);
}

static const char *bytes_on_cpu(struct rvl_graph *g, const struct rvl_node *n)
{
	if (n->def->flags & RVL_OP_BLENDS_IF_LINEAR)
		return "the NPU interpolates by whole factors up to 4 and channels that fill whole words, from pixel centres or corners";
	if (rvl_is_slopes(n))
		return rvl_slopes_lack(n);
	return rvl_graph_printf(g, "the NPU has no arithmetic of %s; the CPU computes it between bytes",
				n->def->name);
}

/* Of a pool of bits that pass/binary_pool.c has left. */
static const char *bits_on_cpu(struct rvl_graph *g, const struct rvl_node *n)
{
	const struct rvl_node *p = n->in[0]->producer;
	const struct rvl_tensor *x = p && p->op == RVL_OP_B_SIGN ? p->in[0] : p ? p->out[0] : NULL;

	if (g->npu_bits && x && rvl_is_quant16_tensor(x))
		return "binary: the CPU pools the bits of an image of int16; the NPU pools bytes, "
		       "which --wide-binary no makes";
	return "binary: the CPU computes it on packed bits";
}

/*
 * Why an image of int16 is none that the NPU reads or makes, or NULL. LOAD and STORE address no planes of
 * it, so that its layout must be free.
 */
static const char *wide_lacks(const struct rvl_graph *g, const struct rvl_tensor *t)
{
	bool view = t->base || (t->producer && t->producer->free);

	for (uint32_t i = 0; i < t->n_users && !view; i++)
		view = t->users[i]->free;
	if (g->npu_no_wide)
		return "binary: an image of int16 needs a layout, and layouts are not chosen";
	if (t->is_input || t->is_output || t->holds_output || t->data)
		return "binary: an image of int16 that is an input, an output or a constant lies in planes, of "
		       "which the NPU addresses bytes only; --wide-binary no makes bytes";
	return view ? "binary: an image of int16 that is a view or has views lies in planes, of which the NPU "
		      "addresses bytes only; --wide-binary no makes bytes" : NULL;
}

/* Why @t is no quantised image that layers of bits read or make, or NULL; @other: the reason but for int16. */
static const char *image_lacks(const struct rvl_graph *g, const struct rvl_tensor *t, const char *other)
{
	if (rvl_is_quant8_tensor(t))
		return NULL;
	return rvl_is_quant16_tensor(t) && t->shape.rank == 4 ? wide_lacks(g, t) : other;
}

static const char *narrows(struct rvl_graph *g, const struct rvl_node *n)
{
	const char *why;

	if (!rvl_is_narrow(n))
		return bytes_in_and_out(g, n);
	why = image_lacks(g, n->in[0], "its input of int16 is no image");
	if (why)
		return why;
	return rvl_is_quant8_tensor(n->out[0]) && n->out[0]->shape.rank == 4 ?
		       NULL : "its output is no image quantised to 8 bits with one scale";
}

static const char *sign_of_bytes(struct rvl_graph *g, const struct rvl_node *n)
{
	static const char other[] = "binary: the NPU compares bytes or int16, and its input is neither";
	const char *why = image_lacks(g, n->in[0], other);

	if (why || n->in[1]->type != RVL_TYPE_S32)
		return why ? why : other;
	return n->in[0]->shape.rank == 4 ? NULL : "binary: the NPU makes bits of images";
}

static const char *binary_of_bytes(struct rvl_graph *g, const struct rvl_node *n)
{
	static const char result[] = "binary: its result is no image quantised to 8 or 16 bits";
	const struct rvl_tensor *shortcut = n->n_in > 5 ? n->in[5] : NULL, *y = n->out[0];
	const char *why = y->type == RVL_TYPE_U64 ? NULL : y->shape.rank != 4 ? result : image_lacks(g, y, result);

	if (why || !shortcut)
		return why;
	return image_lacks(g, shortcut, "binary: its shortcut is not quantised to 8 or 16 bits");
}

#define BYTES "input and output quantised to 8 bits per tensor", bytes_in_and_out
#define SECOND "second operand quantised to 8 bits per tensor", second_bytes
#define WEIGHTS "weights and bias constant", constant_weights
#define IMAGE "input of 4 dimensions", four_dimensions

/* An operator that has no layer, and the function that gives the reason. */
#define CPU_ONLY(id, why) static const struct rvl_npu_op npu_##id = { .condition = { { NULL, why } } }

static const struct rvl_npu_op npu_Q_CONV = {
	.condition = { { BYTES }, { WEIGHTS } },
	.build = rvl_build_conv,
};

static const struct rvl_npu_op npu_Q_MATMUL = {
	.condition = { { BYTES }, { WEIGHTS },
		       { "second operand one matrix, first not transposed", plain_matrix } },
	.build = rvl_build_matmul,
};

static const struct rvl_npu_op npu_Q_ADD = {
	.condition = { { BYTES }, { SECOND } },
	.build = rvl_build_bin, .joins = RVL_JOINS_AS_SECOND,
};

static const struct rvl_npu_op npu_Q_MUL = {
	.condition = { { BYTES }, { SECOND } },
	.build = rvl_build_bin, .joins = RVL_JOINS_AS_SECOND,
};

static const struct rvl_npu_op npu_Q_AVERAGE_POOL = {
	.condition = { { BYTES },
		       { "provably equal to onnxruntime's float sum for its scales, or up to 1 apart is accepted",
			 average_accepted } },
	.build = rvl_build_pool, .joins = RVL_JOINS_AS_POOL,
};

static const struct rvl_npu_op npu_Q_GLOBAL_AVERAGE_POOL = {
	.condition = { { BYTES }, { IMAGE } },
	.build = rvl_build_pool, .joins = RVL_JOINS_AS_POOL,
};

static const struct rvl_npu_op npu_Q_RESCALE = {
	.condition = { { "input quantised to 8 bits per tensor, or an image to int16 whose factor gives the CPU's bytes; output quantised to 8 bits per tensor",
			 narrows } },
	.build = rvl_build_lut, .joins = RVL_JOINS_AS_TABLE,
};

static const struct rvl_npu_op npu_Q_TABLE = {
	.condition = { { BYTES }, { "the function's constants are single values, or slopes by channel of a PRelu of rank 2 or 4, and factors give its bytes", one_table } },
	.build = rvl_build_lut, .joins = RVL_JOINS_AS_TABLE,
};

static const struct rvl_npu_op npu_Q_GENERAL = {
	.condition = { { "a PRelu of rank 2 or 4 whose slopes differ by channel, and factors that give its bytes", bytes_on_cpu } },
	.build = rvl_build_slopes,
};

static const struct rvl_npu_op npu_MAX_POOL = {
	.condition = { { "indices not used", no_indices }, { BYTES } },
	.build = rvl_build_pool, .joins = RVL_JOINS_AS_POOL,
};

static const struct rvl_npu_op npu_GLOBAL_MAX_POOL = {
	.condition = { { BYTES }, { IMAGE } },
	.build = rvl_build_pool, .joins = RVL_JOINS_AS_POOL,
};

static const struct rvl_npu_op npu_GENERAL = {
	.condition = { { "makes up to 32 x 32 pixels of each pixel of a quantised image, repeated, or each of other channels; or repeats its edges up to 32 times", repeats_pixels } },
	.build = rvl_build_repeat,
};

#define COPY(id, layer) static const struct rvl_npu_op npu_##id = { \
	.condition = { { BYTES } }, .build = layer, \
}

COPY(FLATTEN, rvl_build_copy);
COPY(RESHAPE, rvl_build_copy);
COPY(IDENTITY, rvl_build_copy);
COPY(TRANSPOSE, rvl_build_transpose);

CPU_ONLY(QUANTIZE, edge);
CPU_ONLY(DEQUANTIZE, edge);
CPU_ONLY(QLINEAR_CONV, dynamic_scales);
CPU_ONLY(QLINEAR_MATMUL, dynamic_scales);
CPU_ONLY(QLINEAR_ADD, dynamic_scales);
CPU_ONLY(QLINEAR_MUL, dynamic_scales);
CPU_ONLY(QGEMM, dynamic_scales);
CPU_ONLY(QLINEAR_GLOBAL_AVERAGE_POOL, dynamic_scales);
CPU_ONLY(QLINEAR_AVERAGE_POOL, dynamic_scales);
CPU_ONLY(CONV, float_operator);
CPU_ONLY(GEMM, float_operator);
CPU_ONLY(MATMUL, float_operator);
CPU_ONLY(ADD, float_operator);
CPU_ONLY(MUL, float_operator);
CPU_ONLY(RELU, float_operator);
CPU_ONLY(CLIP, float_operator);
CPU_ONLY(AVERAGE_POOL, float_operator);
CPU_ONLY(GLOBAL_AVERAGE_POOL, float_operator);
CPU_ONLY(BATCH_NORM, float_operator);
CPU_ONLY(SOFTMAX, always_float);
CPU_ONLY(UNSUPPORTED, always_float);
CPU_ONLY(CONSTANT, always_float);
CPU_ONLY(PACK_BLOCKED, always_float);
CPU_ONLY(UNPACK_BLOCKED, always_float);
CPU_ONLY(REORDER, always_float);
CPU_ONLY(CHAIN, always_float);
static const struct rvl_npu_op npu_B_SIGN = {
	.condition = { { "an image of int8, uint8 or int16 in", sign_of_bytes } },
	.build = rvl_build_binary_sign, .joins = RVL_JOINS_AS_BITS,
};

static const struct rvl_npu_op npu_B_CONV = {
	.condition = { { "result and shortcut of int8, uint8 or int16, or bits",
			 binary_of_bytes } },
	.build = rvl_build_binary_conv,
};

CPU_ONLY(B_MAX_POOL, bits_on_cpu);

const struct rvl_npu_op *rvl_npu_op(enum rvl_op op)
{
	static const struct rvl_npu_op *const rows[] = {
#define ROW(id, ...) [RVL_OP_##id] = &npu_##id,
		RVL_OPS(ROW)
#undef ROW
	};

	return rows[op];
}

enum rvl_joins rvl_npu_joins(const struct rvl_node *n)
{
	return rvl_is_slopes(n) ? RVL_JOINS_AS_SLOPES : rvl_npu_op(n->op)->joins;
}

const char *rvl_npu_reject(struct rvl_graph *g, const struct rvl_node *n)
{
	const struct rvl_npu_op *row = rvl_npu_op(n->op);
	const char *why = NULL;

	for (int i = 0; i < RVL_NPU_CONDITIONS && row->condition[i].check && !why; i++)
		why = row->condition[i].check(g, n);
	return why;
}

struct rvl_layer *rvl_layer_build(struct rvl_graph *g, const struct rvl_node *n, bool values,
				  const char **why)
{
	const struct rvl_npu_op *row = rvl_npu_op(n->op);

	*why = "no layer of the device computes this operator";
	return row->build ? row->build(g, n, values, why) : NULL;
}
