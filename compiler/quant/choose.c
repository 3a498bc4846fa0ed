/* SPDX-License-Identifier: MIT */
#include "quant/choose.h"

#include "pass/pass.h"
#include "rivulet_op.h"

#include <errno.h>
#include <stdlib.h>

int rvl_chosen_new(const struct rvl_graph *g, struct rvl_chosen *c)
{
	c->node = calloc(g->n_nodes + 1u, sizeof(*c->node));
	c->tensor = calloc(g->n_tensors + 1u, sizeof(*c->tensor));
	return c->node && c->tensor ? 0 : -ENOMEM;
}

void rvl_chosen_free(struct rvl_chosen *c)
{
	free(c->node);
	free(c->tensor);
	*c = (struct rvl_chosen) { .node = NULL };
}

struct rvl_tensor *rvl_source_of(struct rvl_tensor *t)
{
	while (t->producer && rvl_op_moves(t->producer) && t->type == RVL_TYPE_F32)
		t = t->producer->in[0];
	return t;
}

/* ---- products ---- */

/* A bias that can be rounded to the scale of the accumulator: one value per channel, or one. */
static bool constant_bias(const struct rvl_node *n, int64_t channels)
{
	const struct rvl_tensor *b = n->n_in > 2 ? n->in[2] : NULL;
	int64_t count;

	if (!b)
		return true;
	count = b->data && b->type == RVL_TYPE_F32 ? rvl_shape_count(&b->shape) : -1;
	return count == 1 || (count == channels && b->shape.dim[b->shape.rank - 1] == channels);
}

static bool matrix_fits(const struct rvl_node *n)
{
	const struct rvl_shape *w = &n->in[1]->shape;

	if (w->rank != 2 || n->in[0]->shape.rank < 2)
		return false;
	if (n->op == RVL_OP_MATMUL)
		return true;
	return !n->attr.trans_a && n->attr.alpha > 0 &&
	       (n->n_in < 3 || !n->in[2] || n->attr.beta == 1.0f) &&
	       constant_bias(n, w->dim[n->attr.trans_b ? 0 : 1]);
}

bool rvl_is_product(const struct rvl_node *n)
{
	if (n->op != RVL_OP_CONV && n->op != RVL_OP_GEMM && n->op != RVL_OP_MATMUL)
		return false;
	if (!n->in[1] || !n->in[1]->data || n->in[1]->type != RVL_TYPE_F32 || n->in[0]->data ||
	    n->in[0]->type != RVL_TYPE_F32 || rvl_shape_count(&n->in[1]->shape) < 1)
		return false;
	return n->op == RVL_OP_CONV ? constant_bias(n, n->in[1]->shape.dim[0]) : matrix_fits(n);
}

/* ---- what follows them ---- */

/* Whether the second operand can be broadcast on the device: equal, one value, or one per channel. */
static bool broadcast_fits(const struct rvl_shape *a, const struct rvl_shape *b)
{
	int32_t channel = a->rank > 3 ? b->rank - (a->rank - 1) : -1;

	if (rvl_shape_equal(a, b) || rvl_shape_count(b) == 1)
		return true;
	return channel >= 0 && b->dim[channel] == a->dim[1] &&
	       rvl_shape_count(b) == a->dim[1] && a->dim[0] == 1;
}

static bool of_one_value(const struct rvl_node *n)
{
	for (uint32_t i = 1; i < n->n_in; i++)
		if (n->in[i] && (!n->in[i]->data || rvl_shape_count(&n->in[i]->shape) != 1))
			return false;
	return n->n_in <= 3 && n->n_out == 1 && rvl_shape_equal(&n->in[0]->shape, &n->out[0]->shape);
}

/* Whether the quantised form of a node exists, given that its operands are quantised. */
static bool has_quantised_form(const struct rvl_node *n)
{
	switch (n->op) {
	case RVL_OP_ADD:
	case RVL_OP_MUL:
		if (n->in[1]->data)
			return n->def && of_one_value(n);
		return !n->in[0]->data && (broadcast_fits(&n->in[0]->shape, &n->in[1]->shape) ||
					   broadcast_fits(&n->in[1]->shape, &n->in[0]->shape));
	case RVL_OP_AVERAGE_POOL:
		return n->in[0]->shape.rank == 4;
	case RVL_OP_GLOBAL_AVERAGE_POOL:
		return n->in[0]->shape.rank == 4;
	case RVL_OP_RELU:
	case RVL_OP_CLIP:
		return of_one_value(n);
	case RVL_OP_GENERAL:
		return n->def->flags & RVL_OP_ELEMENTWISE && of_one_value(n);
	default:
		return false;
	}
}

static bool floats(const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] && n->in[i]->type != RVL_TYPE_F32)
			return false;
	return n->n_in && n->in[0] && !n->in[0]->data && n->n_out && n->out[0] &&
	       n->out[0]->type == RVL_TYPE_F32 && rvl_shape_count(&n->out[0]->shape) > 0;
}

/* Whether all computed operands have parameters already. */
static bool operands_chosen(const struct rvl_node *n, const struct rvl_chosen *c)
{
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] && !n->in[i]->data && !c->tensor[rvl_source_of(n->in[i])->id])
			return false;
	return true;
}

static void choose_node(struct rvl_chosen *c, const struct rvl_node *n, uint32_t at)
{
	c->node[at] = true;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] && !n->in[i]->data)
			c->tensor[rvl_source_of(n->in[i])->id] = true;
	c->tensor[n->out[0]->id] = true;
}

static bool is_dequantised(const struct rvl_tensor *t)
{
	return t->producer && t->producer->op == RVL_OP_DEQUANTIZE;
}

uint32_t rvl_choose(const struct rvl_graph *g, const bool *keep_float, struct rvl_chosen *c)
{
	uint32_t products = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct rvl_node *n = g->nodes[i];

		if (!rvl_is_product(n) || (keep_float && keep_float[i]))
			continue;
		choose_node(c, n, i);
		products++;
	}
	for (uint32_t i = 0; i < g->n_nodes; i++) { /* in topological order */
		const struct rvl_node *n = g->nodes[i];

		if (!c->node[i] && (!keep_float || !keep_float[i]) && floats(n) &&
		    has_quantised_form(n) && operands_chosen(n, c))
			choose_node(c, n, i);
	}
	for (uint32_t i = 0; i < g->n_tensors; i++) /* the model quantises these itself */
		if (is_dequantised(g->tensors[i]))
			c->tensor[i] = false;
	return products;
}
