/* SPDX-License-Identifier: MIT */
/*
 * PRelu of lines (N, C, L) between bytes with a slope for each channel is, with an NPU as the target, one
 * of images (N, C, 1, L), whose channels the NPU has in its words:
 *
 *	x -> PRelu -> y		becomes	x -> Reshape -> PRelu -> Reshape -> y
 *
 * Where x is a reshaped image of the same channels, PRelu reads that image.
 */
#include "pass/pass.h"
#include "pass/passes.h"
#include "rivulet_op.h"

bool rvl_prelu_by_channel(const struct rvl_node *n)
{
	struct rvl_call c;

	if ((n->op != RVL_OP_Q_TABLE && n->op != RVL_OP_Q_GENERAL) || n->def->role != RVL_ROLE_PRELU ||
	    n->in[0]->shape.rank < 2 || !rvl_shape_equal(&n->in[0]->shape, &n->out[0]->shape) ||
	    !n->in[1]->data)
		return false;
	rvl_node_call(n, &c);
	return rvl_constant_axis(&c, 0, 1) == 1;
}

static int image_like(struct rvl_graph *g, const struct rvl_tensor *t, const struct rvl_shape *shape,
		      struct rvl_tensor **out, struct rvl_err *err)
{
	int rc = rvl_tensor_like(g, t, out, err);

	if (!rc)
		(*out)->shape = *shape;
	return rc;
}

/* The image of which @x is another shape, or NULL. */
static struct rvl_tensor *image_of(const struct rvl_tensor *x)
{
	const struct rvl_node *p = x->producer;
	struct rvl_tensor *image = p && p->op == RVL_OP_RESHAPE ? p->in[0] : NULL;

	return image && image->shape.rank == 4 && image->shape.dim[0] == x->shape.dim[0] &&
	       image->shape.dim[1] == x->shape.dim[1] ? image : NULL;
}

/* A slope for each channel as (C, 1, 1), which belongs to the same axis in both shapes. */
static int set_slopes(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_shape shape = { .rank = 3, .dim = { n->in[0]->shape.dim[1], 1, 1 } };
	struct rvl_tensor *slope;
	int rc = rvl_tensor_const(g, NULL, n->in[1]->type, &shape, n->in[1]->data, &slope, err);

	return rc ? rc : rvl_node_set_in(g, n, 1, slope, err);
}

static int rewrite(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_tensor *from = n->in[0], *x = image_of(from), *old = n->out[0], *y;
	struct rvl_shape shape = { .rank = 4, .dim = { from->shape.dim[0], from->shape.dim[1], 1,
						       from->shape.dim[2] } };
	int rc = set_slopes(g, n, err);

	if (!rc && !x) {
		rc = image_like(g, from, &shape, &x, err);
		if (!rc)
			rc = rvl_add_reshape(g, from, x, err);
	}
	if (!rc)
		rc = image_like(g, old, &x->shape, &y, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, 0, x, err);
	if (rc)
		return rc;
	rvl_node_set_out(n, 0, y);
	return rvl_add_reshape(g, y, old, err);
}

int rvl_pass_slopes(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc;

	if (!g->word)
		return 0;
	rc = rvl_graph_nodes(g, &list, &n, err);
	for (uint32_t i = 0; !rc && i < n; i++)
		if (rvl_prelu_by_channel(list[i]) && list[i]->in[0]->shape.rank == 3)
			rc = rewrite(g, list[i], err);
	return rc ? rc : rvl_graph_sort(g, err);
}
