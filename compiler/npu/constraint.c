/* SPDX-License-Identifier: MIT */
/*
 * What the NPU computes, as code: one row per operator and condition, with the sentence that
 * docs/operators.md prints for it. Geometry (does a tile fit?) is the back end's question.
 */
#include "npu/constraint.h"
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
	for (uint32_t i = 0; i < n->n_in && i < 2; i++) {
		const struct rvl_tensor *t = n->in[i];

		if (t && (!t->producer || t->producer->op != RVL_OP_DEQUANTIZE))
			return rvl_graph_printf(g, "float: its input '%.80s' is not quantised",
						t->name);
	}
	if (!n->out[0]->n_users || n->out[0]->users[0]->op != RVL_OP_QUANTIZE)
		return "float: its result is not quantised";
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
	float value;

	if ((rvl_op_moves(n) || rvl_op_joins(n) || rvl_op_pads(n, &value)) &&
	    n->in[0]->type != RVL_TYPE_F32)
		return "the NPU does not move values in this way; the CPU moves the bytes";
	return n->def->flags & RVL_OP_ELEMENTWISE ? float_operator(g, n) : always_float(g, n);
}

static const struct rvl_constraint table[] = {
	{ RVL_OP_GENERAL, NULL, general },
	{ RVL_OP_Q_CONV, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_Q_CONV, "weights and bias constant", constant_weights },
	{ RVL_OP_Q_MATMUL, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_Q_MATMUL, "weights and bias constant", constant_weights },
	{ RVL_OP_Q_MATMUL, "second operand one matrix, first not transposed", plain_matrix },
	{ RVL_OP_Q_ADD, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_Q_ADD, "second operand quantised to 8 bits per tensor", second_bytes },
	{ RVL_OP_Q_MUL, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_Q_MUL, "second operand quantised to 8 bits per tensor", second_bytes },
	{ RVL_OP_Q_AVERAGE_POOL, "input and output quantised to 8 bits per tensor",
	  bytes_in_and_out },
	{ RVL_OP_Q_AVERAGE_POOL, "provably equal to onnxruntime's float sum for its scales, or up to 1 apart is accepted",
	  average_accepted },
	{ RVL_OP_Q_GLOBAL_AVERAGE_POOL, "input and output quantised to 8 bits per tensor",
	  bytes_in_and_out },
	{ RVL_OP_Q_GLOBAL_AVERAGE_POOL, "input of 4 dimensions", four_dimensions },
	{ RVL_OP_Q_RESCALE, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_Q_TABLE, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_Q_TABLE, "the function's constants are single values", one_table },
	{ RVL_OP_MAX_POOL, "indices not used", no_indices },
	{ RVL_OP_MAX_POOL, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_GLOBAL_MAX_POOL, "input and output quantised to 8 bits per tensor",
	  bytes_in_and_out },
	{ RVL_OP_GLOBAL_MAX_POOL, "input of 4 dimensions", four_dimensions },
	{ RVL_OP_FLATTEN, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_RESHAPE, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_TRANSPOSE, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_IDENTITY, "input and output quantised to 8 bits per tensor", bytes_in_and_out },
	{ RVL_OP_QUANTIZE, NULL, edge },
	{ RVL_OP_DEQUANTIZE, NULL, edge },
	{ RVL_OP_QLINEAR_CONV, NULL, dynamic_scales },
	{ RVL_OP_QLINEAR_MATMUL, NULL, dynamic_scales },
	{ RVL_OP_QLINEAR_ADD, NULL, dynamic_scales },
	{ RVL_OP_QLINEAR_MUL, NULL, dynamic_scales },
	{ RVL_OP_QGEMM, NULL, dynamic_scales },
	{ RVL_OP_QLINEAR_GLOBAL_AVERAGE_POOL, NULL, dynamic_scales },
	{ RVL_OP_QLINEAR_AVERAGE_POOL, NULL, dynamic_scales },
	{ RVL_OP_CONV, NULL, float_operator },
	{ RVL_OP_GEMM, NULL, float_operator },
	{ RVL_OP_MATMUL, NULL, float_operator },
	{ RVL_OP_ADD, NULL, float_operator },
	{ RVL_OP_MUL, NULL, float_operator },
	{ RVL_OP_RELU, NULL, float_operator },
	{ RVL_OP_CLIP, NULL, float_operator },
	{ RVL_OP_AVERAGE_POOL, NULL, float_operator },
	{ RVL_OP_GLOBAL_AVERAGE_POOL, NULL, float_operator },
	{ RVL_OP_BATCH_NORM, NULL, float_operator },
	{ RVL_OP_SOFTMAX, NULL, always_float },
};

const struct rvl_constraint *rvl_constraints(size_t *n)
{
	*n = sizeof(table) / sizeof(table[0]);
	return table;
}

const char *rvl_npu_reject(struct rvl_graph *g, const struct rvl_node *n)
{
	bool known = false;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const char *why;

		if (table[i].op != n->op)
			continue;
		known = true;
		why = table[i].check(g, n);
		if (why)
			return why;
	}
	return known ? NULL : "the NPU does not know this operator";
}
