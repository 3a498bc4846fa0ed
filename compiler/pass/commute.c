/* SPDX-License-Identifier: MIT */
/*
 * DequantizeLinear and QuantizeLinear are monotone and work value by value, so an operator that
 * only moves or picks values gives the same bytes on either side of them. Pushing the first down
 * and the second up lets arithmetic meet its scales and leaves the moving to bytes.
 */
#include "pass/pass.h"
#include "pass/passes.h"

static bool per_tensor(const struct rvl_node *q)
{
	return q->in[1] && rvl_shape_count(&q->in[1]->shape) == 1;
}

/* Constant and positive: with a scale computed at run time nothing is known about the order. */
static bool positive_scale(const struct rvl_node *q)
{
	float s;

	return per_tensor(q) && rvl_const_f32(q->in[1], &s) && s > 0 && isfinite(s) &&
	       (q->n_in < 3 || !q->in[2] || q->in[2]->data);
}

/* The per-channel axis of a Dequantize after a transpose; false if it does not go along. */
static bool moved_axis(const struct rvl_node *dq, const struct rvl_node *n, int32_t *axis)
{
	*axis = dq->attr.axis;
	if (per_tensor(dq))
		return positive_scale(dq);
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

/* x -> DQ -> n -> y becomes x -> n -> new -> DQ' -> y. */
static int push_down(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_node *dq = n->in[0]->producer;
	struct rvl_tensor *y = n->out[0], *moved;
	struct rvl_node *after;
	int32_t axis;
	int rc;

	if (!dq || dq->op != RVL_OP_DEQUANTIZE || dq->in[0]->type == RVL_TYPE_S32 ||
	    !moved_axis(dq, n, &axis))
		return 0;
	rc = rvl_tensor_like(g, y, &moved, err);
	if (!rc)
		rc = rvl_node_new(g, RVL_OP_DEQUANTIZE, NULL, &after, err);
	if (rc)
		return rc;
	moved->type = dq->in[0]->type;
	after->attr = dq->attr;
	after->attr.axis = axis;
	rc = rvl_node_set_in(g, n, 0, dq->in[0], err);
	if (!rc)
		rc = rvl_node_set_in(g, after, 0, moved, err);
	for (uint32_t i = 1; i < dq->n_in && !rc; i++)
		rc = rvl_node_set_in(g, after, i, dq->in[i], err);
	if (rc)
		return rc;
	rvl_node_set_out(n, 0, moved);
	rvl_node_set_out(after, 0, y);
	return 0;
}

/* x -> n -> t -> Q -> y becomes x -> Q -> new -> n -> y. */
static int pull_up(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_node *q = rvl_only_user(n->out[0]);
	struct rvl_tensor *x = n->in[0], *y, *bytes;
	int rc;

	if (!q || q->op != RVL_OP_QUANTIZE || !positive_scale(q) || !x->producer ||
	    rvl_only_user(x) != n || x->producer->op == RVL_OP_DEQUANTIZE ||
	    x->type != RVL_TYPE_F32)
		return 0;
	y = q->out[0];
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

int rvl_pass_commute(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < g->n_nodes && !rc; i++)
		if (rvl_op_moves(g->nodes[i]))
			rc = push_down(g, g->nodes[i], err);
	for (uint32_t i = g->n_nodes; i-- > 0 && !rc;)
		if (rvl_op_moves(g->nodes[i]))
			rc = pull_up(g, g->nodes[i], err);
	return rc ? rc : rvl_graph_sort(g, err);
}
