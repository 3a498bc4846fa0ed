/* SPDX-License-Identifier: MIT */
/*
 * DequantizeLinear and QuantizeLinear are monotone and work value by value. An operator that only
 * moves or selects values therefore gives the same bytes on either side of them. DequantizeLinear
 * moves below such operators and QuantizeLinear above them, so that they are next to the
 * arithmetic, and the operators between move bytes.
 */
#include "pass/pass.h"
#include "pass/passes.h"
#include "qmath.h"

/* The per-channel axis of a DequantizeLinear behind a transpose; false if there is none. */
static bool moved_axis(const struct rvl_node *dq, const struct rvl_node *n, int32_t *axis)
{
	*axis = dq->attr.axis;
	if (rvl_shape_count(&dq->in[1]->shape) == 1)
		return rvl_scale_is_constant(dq);
	if (n->op != RVL_OP_TRANSPOSE || !dq->in[1]->data)
		return false;
	for (int i = 0; i < n->attr.perm_rank; i++) {
		if (n->attr.perm[i] == dq->attr.axis) {
			*axis = i;
			return true;
		}
	}
	return false;
}

/* ---- what a Pad adds ---- */

/* The byte that QuantizeLinear makes of the padded value, as input 2 of the Pad. */
static int pad_with_byte(struct rvl_graph *g, struct rvl_node *pad, float value,
			 const struct rvl_node *q, enum rvl_type type, struct rvl_err *err)
{
	const struct rvl_shape scalar = { .rank = 0 };
	bool u8 = type == RVL_TYPE_U8;
	uint8_t byte = (uint8_t)rvl_quantize(value, rvl_scale_of(q), rvl_zero_of(q), rvl_qmin(u8), rvl_qmax(u8));
	struct rvl_tensor *t;
	int rc = rvl_tensor_const(g, NULL, type, &scalar, &byte, &t, err);

	if (!rc)
		rc = rvl_node_set_in(g, pad, 2, t, err);
	if (!rc && pad->n_in < 3)
		pad->n_in = 3;
	return rc;
}

/* A Pad that adds copies of elements needs no value, which would not be of the type of bytes. */
static int drop_value(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	if (n->op != RVL_OP_GENERAL || !(n->def->flags & RVL_OP_PADS) || n->n_in < 3)
		return 0;
	return rvl_node_set_in(g, n, 2, NULL, err);
}

/* Whether a byte stands for exactly this value. */
static bool has_byte(float value, const struct rvl_node *dq)
{
	bool u8 = dq->in[0]->type == RVL_TYPE_U8;
	int32_t q;

	if (!rvl_scale_is_constant(dq))
		return false;
	q = rvl_quantize(value, rvl_scale_of(dq), rvl_zero_of(dq), rvl_qmin(u8), rvl_qmax(u8));
	return rvl_dequantize(q, rvl_scale_of(dq), rvl_zero_of(dq)) == value;
}

/* ---- operators with one operand ---- */

/* Output @k of @n becomes bytes, which a DequantizeLinear makes what it was. */
static int bytes_out(struct rvl_graph *g, struct rvl_node *n, uint32_t k, const struct rvl_node *dq,
		     int32_t axis, struct rvl_err *err)
{
	struct rvl_tensor *y = n->out[k], *moved;
	int rc = rvl_tensor_like(g, y, &moved, err);

	if (rc)
		return rc;
	moved->type = dq->in[0]->type;
	rvl_node_set_out(n, k, moved);
	return rvl_dequantise_as(g, dq, moved, axis, y, err);
}

/* x -> DQ -> n -> y becomes x -> n -> new -> DQ' -> y, for every output y. */
static int push_down(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	bool moves = rvl_op_moves(n), pads;
	struct rvl_node *dq;
	int32_t axis;
	float value;
	int rc;

	pads = !moves && rvl_op_pads(n, &value);
	dq = moves || pads ? n->in[0]->producer : NULL;
	if (!dq || dq->op != RVL_OP_DEQUANTIZE ||
	    (dq->in[0]->type != RVL_TYPE_U8 && dq->in[0]->type != RVL_TYPE_S8) ||
	    !moved_axis(dq, n, &axis) ||
	    (pads && !has_byte(value, dq)))
		return 0;
	rc = pads ? pad_with_byte(g, n, value, dq, dq->in[0]->type, err) : drop_value(g, n, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, 0, dq->in[0], err);
	for (uint32_t k = 0; k < n->n_out && !rc; k++)
		if (n->out[k])
			rc = bytes_out(g, n, k, dq, axis, err);
	return rc;
}

/* The QuantizeLinear that alone reads the result of @n and can go before it, or NULL. */
static struct rvl_node *quantised_by(const struct rvl_node *n)
{
	struct rvl_node *q = n->n_out == 1 ? rvl_only_user(n->out[0]) : NULL;

	return q && q->op == RVL_OP_QUANTIZE && q->in[0] == n->out[0] && rvl_scale_is_constant(q) ? q : NULL;
}

/* x -> n -> t -> Q -> y becomes x -> Q -> new -> n -> y. */
static int pull_up(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	bool moves = rvl_op_moves(n), pads;
	struct rvl_node *q = quantised_by(n);
	struct rvl_tensor *x = n->in[0], *y, *bytes;
	float value;
	int rc;

	pads = !moves && rvl_op_pads(n, &value);
	if (!q || (!moves && !pads) || !x->producer || rvl_only_user(x) != n ||
	    (moves && x->producer->op == RVL_OP_DEQUANTIZE) || x->type != RVL_TYPE_F32)
		return 0;
	y = q->out[0];
	rc = pads ? pad_with_byte(g, n, value, q, y->type, err) : drop_value(g, n, err);
	if (!rc)
		rc = rvl_tensor_like(g, x, &bytes, err);
	if (!rc)
		rc = rvl_node_set_in(g, q, 0, x, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, 0, bytes, err);
	if (rc)
		return rc;
	bytes->type = y->type;
	rvl_node_set_out(n, 0, y);
	rvl_node_set_out(q, 0, bytes);
	y->producer = n;
	return 0;
}

/* ---- operators that join their operands ---- */

#define MAX_JOINS 8 /* one behind the other */

/* Whether values come from bytes, by way of up to @joins other joins, or are constant. */
static bool from_bytes(const struct rvl_tensor *t, int joins)
{
	const struct rvl_node *n = t ? t->producer : NULL;

	if (!t || !n)
		return t && t->data && t->type == RVL_TYPE_F32;
	if (n->op == RVL_OP_DEQUANTIZE)
		return n->in[0]->type == RVL_TYPE_U8 || n->in[0]->type == RVL_TYPE_S8;
	if (!joins || !rvl_op_joins(n) || !rvl_only_user(t))
		return false;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (!from_bytes(n->in[i], joins - 1))
			return false;
	return true;
}

/* a, b -> n -> t -> Q -> y becomes a -> Q', b -> Q'' -> n -> y. */
static int quantise_operands(struct rvl_graph *g, struct rvl_node *n, struct rvl_node *q,
			     struct rvl_err *err)
{
	struct rvl_tensor *y = q->out[0];
	int rc = 0;

	for (uint32_t i = 0; i < n->n_in && !rc; i++) {
		struct rvl_node *before;
		struct rvl_tensor *bytes;

		rc = rvl_tensor_like(g, n->in[i], &bytes, err);
		if (!rc)
			rc = rvl_node_new(g, RVL_OP_QUANTIZE, NULL, &before, err);
		if (!rc)
			rc = rvl_node_set_in(g, before, 0, n->in[i], err);
		for (uint32_t k = 1; k < q->n_in && !rc; k++)
			rc = rvl_node_set_in(g, before, k, q->in[k], err);
		if (rc)
			return rc;
		bytes->type = y->type;
		bytes->data = NULL;
		before->n_out = 1;
		rvl_node_set_out(before, 0, bytes);
		rc = rvl_node_set_in(g, n, i, bytes, err);
	}
	if (rc)
		return rc;
	rvl_node_remove(g, q);
	rvl_node_set_out(n, 0, y);
	return 0;
}

static int pull_up_join(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_node *q = quantised_by(n);

	if (!q || q->n_in < 3 || !q->in[2])
		return 0;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (!from_bytes(n->in[i], MAX_JOINS))
			return 0;
	return quantise_operands(g, n, q, err);
}

/* Whether all operands are bytes with the same parameters. */
static bool same_bytes(const struct rvl_node *n)
{
	const struct rvl_node *a = n->in[0] ? n->in[0]->producer : NULL;

	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct rvl_node *b = n->in[i] ? n->in[i]->producer : NULL;

		if (!b || b->op != RVL_OP_DEQUANTIZE || !rvl_scale_is_constant(b) ||
		    (b->in[0]->type != RVL_TYPE_U8 && b->in[0]->type != RVL_TYPE_S8) ||
		    b->in[0]->type != a->in[0]->type ||
		    rvl_scale_of(b) != rvl_scale_of(a) || rvl_zero_of(b) != rvl_zero_of(a))
			return false;
	}
	return a != NULL;
}

/* a -> DQ, b -> DQ -> n -> y becomes a, b -> n -> DQ' -> y. */
static int push_down_join(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	const struct rvl_node *dq = same_bytes(n) ? n->in[0]->producer : NULL;
	int rc = 0;

	if (!dq)
		return 0;
	for (uint32_t i = 0; i < n->n_in && !rc; i++)
		rc = rvl_node_set_in(g, n, i, n->in[i]->producer->in[0], err);
	return rc ? rc : bytes_out(g, n, 0, dq, dq->attr.axis, err);
}

int rvl_pass_commute(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < g->n_nodes && !rc; i++)
		rc = rvl_op_joins(g->nodes[i]) ? push_down_join(g, g->nodes[i], err) :
						 push_down(g, g->nodes[i], err);
	for (uint32_t i = g->n_nodes; i-- > 0 && !rc;)
		rc = rvl_op_joins(g->nodes[i]) ? pull_up_join(g, g->nodes[i], err) :
						 pull_up(g, g->nodes[i], err);
	return rc ? rc : rvl_graph_sort(g, err);
}
