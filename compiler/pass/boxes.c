/* SPDX-License-Identifier: MIT */
#include "pass/boxes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph/view.h"

static bool has_elements(const struct rvl_tensor *t)
{
	return t->type && t->shaped && !t->bounded && !t->bad && rvl_tensor_bytes(t) > 0;
}

static bool one_box(const struct rvl_node *n, struct rvl_op_boxes *boxes)
{
	struct rvl_op_box *b = &boxes->box[0];
	const struct rvl_tensor *x = n->in[0], *y = n->out[0];
	struct rvl_tview from;

	*b = (struct rvl_op_box) { .rank = 1, .dim = { rvl_shape_count(&x->shape) }, .from = { 1 },
				   .to = { 1 } };
	boxes->n = 1;
	if (n->op != RVL_OP_TRANSPOSE)
		return n->n_in < 2 || !n->in[1] || n->in[1]->data;
	if (n->attr.perm_rank != x->shape.rank || !rvl_tview_dense(&from, &x->shape) ||
	    !rvl_tview_permute(&from, n->attr.perm))
		return false;
	b->rank = from.rank;
	memcpy(b->dim, from.dim, sizeof(b->dim));
	memcpy(b->from, from.pitch, sizeof(b->from));
	if (!rvl_tview_dense(&from, &y->shape))
		return false;
	memcpy(b->to, from.pitch, sizeof(b->to));
	return true;
}

static int listed(const struct rvl_node *n, struct rvl_op_boxes *boxes, struct rvl_err *err)
{
	struct rvl_call *c;
	bool ok;

	if (n->op != RVL_OP_GENERAL || !(n->def->flags & RVL_OP_BOXES))
		return 0;
	c = malloc(sizeof(*c));
	if (!c)
		return rvl_fail(err, -ENOMEM, "no memory for views");
	rvl_node_call(n, c);
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i])
			c->out[i].type = n->out[i]->type;
	ok = !rvl_op_list_boxes(c, boxes);
	free(c);
	return ok;
}

int rvl_node_boxes(const struct rvl_node *n, struct rvl_op_boxes *boxes, struct rvl_err *err)
{
	bool moves = rvl_op_renames(n->op) || n->op == RVL_OP_TRANSPOSE;

	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && !has_elements(n->out[i]))
			return 0;
	if (!n->n_in || !n->in[0] || !has_elements(n->in[0]) || n->in[0]->type != n->out[0]->type)
		return 0;
	return moves ? one_box(n, boxes) : listed(n, boxes, err);
}

int64_t rvl_box_count(const struct rvl_op_box *b)
{
	int64_t n = 1;

	for (int d = 0; d < b->rank; d++)
		n *= b->dim[d];
	return n;
}
