/* SPDX-License-Identifier: MIT */
#include "quant/choose.h"

#include "pass/pass.h"
#include "quant/bits.h"
#include "rivulet_bits.h"
#include "rivulet_op.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int rvl_chosen_new(const struct rvl_graph *g, struct rvl_chosen *c)
{
	c->node = calloc(g->n_nodes + 1u, sizeof(*c->node));
	c->tensor = calloc(g->n_tensors + 1u, sizeof(*c->tensor));
	c->like = calloc(g->n_tensors + 1u, sizeof(*c->like));
	c->leads = calloc(g->n_tensors + 1u, sizeof(*c->leads));
	c->bits = calloc(g->n_nodes + 1u, sizeof(*c->bits));
	if (!c->node || !c->tensor || !c->like || !c->leads || !c->bits)
		return -ENOMEM;
	rvl_chosen_clear(g, c);
	return 0;
}

void rvl_chosen_clear(const struct rvl_graph *g, struct rvl_chosen *c)
{
	memset(c->node, 0, g->n_nodes * sizeof(*c->node));
	memset(c->bits, RVL_MOST_BITS, g->n_nodes * sizeof(*c->bits));
	memset(c->tensor, 0, g->n_tensors * sizeof(*c->tensor));
	memset(c->leads, 0, g->n_tensors * sizeof(*c->leads));
	for (uint32_t i = 0; i < g->n_tensors; i++)
		c->like[i] = i;
}

void rvl_chosen_free(struct rvl_chosen *c)
{
	free(c->node);
	free(c->tensor);
	free(c->like);
	free(c->leads);
	free(c->bits);
	*c = (struct rvl_chosen) { .node = NULL };
}

uint32_t rvl_chosen_like(const struct rvl_chosen *c, uint32_t id)
{
	while (c->like[id] != id)
		id = c->like[id];
	return id;
}

struct rvl_tensor *rvl_source_of(struct rvl_tensor *t)
{
	while (t->producer && t->producer->op != RVL_OP_GENERAL && rvl_op_moves(t->producer) &&
	       t->type == RVL_TYPE_F32)
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

/* What the quantised form of a node is. */
enum form {
	NO_FORM,
	NPU_FORM,    /* an operator on bytes that the NPU has */
	CPU_FORM,    /* one that only the CPU has */
	MOVING_FORM, /* the operator itself, on bytes of the same parameters */
	JOINING_FORM, /* the operator itself, on bytes of the parameters of the result */
};

static enum form form_of_values(const struct rvl_node *n)
{
	int32_t axis;

	if (!rvl_op_of_one_value(n, &axis))
		return NO_FORM;
	return axis == RVL_AXIS_NONE ? NPU_FORM : CPU_FORM;
}

static enum form form_of_general(const struct rvl_node *n)
{
	float value;

	if (rvl_op_moves(n))
		return MOVING_FORM;
	if (rvl_op_pads(n, &value))
		return value == 0 ? MOVING_FORM : CPU_FORM;
	if (rvl_op_joins(n))
		return JOINING_FORM;
	if (n->def->flags & RVL_OP_ELEMENTWISE && form_of_values(n))
		return form_of_values(n);
	return rvl_op_maps_floats(n) ? CPU_FORM : NO_FORM;
}

static enum form form_of_binary(const struct rvl_node *n)
{
	if (n->in[1]->data)
		return n->def ? form_of_values(n) : NO_FORM;
	if (n->in[0]->data)
		return NO_FORM;
	return broadcast_fits(&n->in[0]->shape, &n->in[1]->shape) ||
	       broadcast_fits(&n->in[1]->shape, &n->in[0]->shape) ? NPU_FORM : CPU_FORM;
}

/* A product of two computed matrices, as attention has them. */
static enum form form_of_product(const struct rvl_node *n)
{
	return n->in[0]->data || n->in[1]->data || n->in[0]->shape.rank < 2 || n->in[1]->shape.rank < 2 ?
		       NO_FORM : CPU_FORM;
}

static enum form form_of(const struct rvl_node *n)
{
	if (rvl_op_traits(n->op) & (RVL_TRAIT_MADE | RVL_TRAIT_ROW))
		return NO_FORM;
	switch (rvl_op_quantised(n->op)) {
	case RVL_OP_Q_MATMUL:
		return n->op == RVL_OP_MATMUL ? form_of_product(n) : NO_FORM;
	case RVL_OP_Q_ADD:
	case RVL_OP_Q_MUL:
		return form_of_binary(n);
	case RVL_OP_Q_AVERAGE_POOL:
	case RVL_OP_Q_GLOBAL_AVERAGE_POOL:
		return n->in[0]->shape.rank == 4 ? NPU_FORM : NO_FORM;
	case RVL_OP_Q_RESCALE:
		return form_of_values(n) == NPU_FORM ? NPU_FORM : NO_FORM;
	case RVL_OP_GENERAL:
		return form_of_general(n);
	default:
		return NO_FORM;
	}
}

static bool is_values(const struct rvl_tensor *t)
{
	return t && t->type == RVL_TYPE_F32 && rvl_shape_count(&t->shape) > 0;
}

/* Input @i is data: of a Slice, say, only the first one is. */
static bool is_operand(const struct rvl_node *n, enum form form, uint32_t i)
{
	return n->in[i] && !n->in[i]->data && (form != MOVING_FORM || !i);
}

/* Whether operands and results are floats. */
static bool floats(const struct rvl_node *n, enum form form)
{
	if (!n->n_in || !n->in[0] || (n->in[0]->data && form != CPU_FORM) || !n->n_out)
		return false;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (is_operand(n, form, i) && !is_values(n->in[i]))
			return false;
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && !is_values(n->out[i]))
			return false;
	return n->out[0] != NULL;
}

static bool leads(const struct rvl_chosen *c, const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && c->leads[n->out[i]->id])
			return true;
	return false;
}

/* Whether all computed operands have parameters, or between two products at least one. */
static bool operands_chosen(const struct rvl_node *n, enum form form, const struct rvl_chosen *c)
{
	uint32_t with = 0, without = 0;

	for (uint32_t i = 0; i < n->n_in; i++)
		if (is_operand(n, form, i))
			++*(c->tensor[rvl_source_of(n->in[i])->id] ? &with : &without);
	return with && (!without || leads(c, n));
}

/* Whether the model quantises a tensor itself. */
static bool is_dequantised(const struct rvl_tensor *t)
{
	return t->producer && t->producer->op == RVL_OP_DEQUANTIZE;
}

static bool fits(const struct rvl_node *n, enum form form, const struct rvl_chosen *c)
{
	if (form == NO_FORM || !floats(n, form) || !operands_chosen(n, form, c))
		return false;
	if (form == MOVING_FORM && is_dequantised(rvl_source_of(n->in[0])))
		return false;
	return form == NPU_FORM || leads(c, n);
}

/*
 * The results of an operator that moves values have the parameters of its operand. The operands of one
 * that joins values have the parameters of its result.
 */
static void share_params(struct rvl_chosen *c, const struct rvl_node *n, enum form form)
{
	if (form == MOVING_FORM)
		for (uint32_t i = 0; i < n->n_out; i++)
			if (n->out[i])
				c->like[n->out[i]->id] = rvl_source_of(n->in[0])->id;
	for (uint32_t i = 0; i < n->n_in && form == JOINING_FORM; i++) {
		const struct rvl_tensor *t = n->in[i];

		if (!t->data && t->producer && rvl_only_user(t) == n && c->like[t->id] == t->id &&
		    !rvl_op_moves(t->producer))
			c->like[t->id] = n->out[0]->id;
	}
}

/*
 * An operand behind operators that move values has the parameters of their source. Where several nodes
 * read it, it has a pair of its own, because onnxruntime moves none there from the source.
 */
static void choose_operand(struct rvl_chosen *c, struct rvl_tensor *t)
{
	const struct rvl_tensor *source = rvl_source_of(t);

	c->tensor[source->id] = true;
	if (t == source || t->n_users < 2 || is_dequantised(source))
		return;
	c->tensor[t->id] = true;
	c->like[t->id] = source->id;
}

static void choose_node(struct rvl_chosen *c, const struct rvl_node *n, enum form form, uint32_t at)
{
	c->node[at] = true;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (is_operand(n, form, i))
			choose_operand(c, n->in[i]);
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i])
			c->tensor[n->out[i]->id] = true;
	share_params(c, n, form);
}

/*
 * A layer on bits makes floats, and may have a shortcut of floats; a sign reads floats. The bits
 * themselves need no parameters.
 */
static bool choose_binary(struct rvl_chosen *c, const struct rvl_node *n)
{
	struct rvl_tensor *x = n->op == RVL_OP_B_SIGN ? n->in[0] :
			       n->n_in > RVL_B_SHORTCUT ? n->in[RVL_B_SHORTCUT] : NULL;

	if (n->op != RVL_OP_B_SIGN && (n->op != RVL_OP_B_CONV || !is_values(n->out[0])))
		return false;
	if (is_values(x)) {
		choose_operand(c, x);
		c->leads[x->id] = true;
	}
	if (n->op == RVL_OP_B_CONV)
		c->tensor[n->out[0]->id] = true;
	return n->op == RVL_OP_B_CONV;
}

static uint32_t choose_products(const struct rvl_graph *g, const bool *keep_float, struct rvl_chosen *c)
{
	uint32_t products = 0;

	for (uint32_t i = g->n_nodes; i-- > 0;) {
		const struct rvl_node *n = g->nodes[i];
		bool kept = keep_float && keep_float[i];
		bool product = rvl_is_product(n) && !kept, bytes = !kept && rvl_op_lacks_scale(n);

		if (product)
			choose_node(c, n, NPU_FORM, i);
		products += product + bytes + (!kept && choose_binary(c, n));
		if (bytes)
			c->tensor[n->out[0]->id] = true;
		for (uint32_t k = 0; k < n->n_in && (product || leads(c, n)); k++)
			if (n->in[k])
				c->leads[n->in[k]->id] = true;
	}
	return products;
}

uint32_t rvl_choose(const struct rvl_graph *g, const bool *keep_float, struct rvl_chosen *c)
{
	uint32_t products = choose_products(g, keep_float, c);

	for (uint32_t i = 0; i < g->n_nodes; i++) { /* in topological order */
		const struct rvl_node *n = g->nodes[i];
		enum form form = c->node[i] || (keep_float && keep_float[i]) ? NO_FORM : form_of(n);

		if (fits(n, form, c))
			choose_node(c, n, form, i);
	}
	for (uint32_t i = 0; i < g->n_tensors; i++)
		if (is_dequantised(g->tensors[i]))
			c->tensor[i] = false;
	return products;
}
