/* SPDX-License-Identifier: MIT */
/*
 * Operators by channel behind a Concat of the results of BinaryConv, as the RPReLU of a layer that
 * doubles the channels: each moves in front of the Concat, once for each result with its part of the
 * constants, so that the layers can take it.
 */
#include "pass/binary.h"
#include "pass/pass.h"

static bool joins_layers(const struct rvl_node *n)
{
	struct rvl_call c = { .def = n->def, .attr = n->value };
	int64_t axis;

	if (!rvl_is_general(n, "Concat") || n->out[0]->shape.rank != 4 || n->out[0]->type != RVL_TYPE_F32)
		return false;
	axis = rvl_attr_int(&c, "axis");
	if (axis != 1 && axis != 1 - n->out[0]->shape.rank)
		return false;
	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct rvl_node *layer = n->in[i]->producer;

		if (!layer || layer->op != RVL_OP_B_CONV || layer->n_out != 1 ||
		    rvl_only_user(n->in[i]) != n)
			return false;
	}
	return true;
}

/* Whether @n computes each element of @x by itself, with constants that are one or by channel. */
static bool is_by_channel(const struct rvl_node *n, const struct rvl_tensor *x)
{
	bool norm = n->op == RVL_OP_BATCH_NORM;
	int64_t step;

	if (n->n_out != 1 || !rvl_shape_equal(&n->out[0]->shape, &x->shape) || !rvl_is_unclamped(&n->attr) ||
	    !(norm || n->op == RVL_OP_ADD || n->op == RVL_OP_MUL || rvl_is_general(n, "Sub") ||
	      rvl_is_general(n, "Div") || rvl_is_general(n, "PRelu")))
		return false;
	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct rvl_tensor *t = n->in[i];
		bool constant = t && (norm ? rvl_const_vector(t, x->shape.dim[1]) :
					     rvl_channel_constant(t, &x->shape, &step));

		if (t != x && !constant)
			return false;
	}
	return true;
}

/* Channels [@first, @first + @n) of constant @t, or all of it where it has one value. */
static int part_of(struct rvl_graph *g, struct rvl_tensor *t, int64_t first, int64_t n,
		   struct rvl_tensor **out, struct rvl_err *err)
{
	struct rvl_shape shape = t->shape;
	int64_t count = rvl_shape_count(&shape);

	*out = t;
	if (count == 1)
		return 0;
	for (int i = 0; i < shape.rank; i++)
		if (shape.dim[i] == count)
			shape.dim[i] = n;
	return rvl_tensor_const(g, NULL, RVL_TYPE_F32, &shape, (const float *)t->data + first, out, err);
}

/* The operator on input @i of the Concat, whose channels begin at @first. */
static int move_one(struct rvl_graph *g, const struct rvl_node *n, struct rvl_node *concat, uint32_t i,
		    int64_t first, struct rvl_err *err)
{
	struct rvl_tensor *x = concat->in[i], *y, *in;
	struct rvl_node *made;
	int rc = rvl_node_like(g, n, n->name, &made, err);

	for (uint32_t k = 0; k < n->n_in && !rc; k++) {
		in = x;
		if (n->in[k] != concat->out[0])
			rc = part_of(g, n->in[k], first, x->shape.dim[1], &in, err);
		if (!rc)
			rc = rvl_node_set_in(g, made, k, in, err);
	}
	if (!rc)
		rc = rvl_tensor_like(g, x, &y, err);
	if (rc)
		return rc;
	rvl_node_set_out(made, 0, y);
	return rvl_node_set_in(g, concat, i, y, err);
}

static int move(struct rvl_graph *g, struct rvl_node *n, struct rvl_node *concat, struct rvl_err *err)
{
	struct rvl_tensor *y = n->out[0];
	int64_t first = 0;
	int rc = 0;

	for (uint32_t i = 0; i < concat->n_in && !rc; i++) {
		int64_t channels = concat->in[i]->shape.dim[1];

		rc = move_one(g, n, concat, i, first, err);
		first += channels;
	}
	if (rc)
		return rc;
	rvl_node_remove(g, n);
	rvl_node_set_out(concat, 0, y);
	return 0;
}

/* Moves the operators behind the Concat, one after the other. */
static int split(struct rvl_graph *g, struct rvl_node *concat, bool *moved, struct rvl_err *err)
{
	struct rvl_node *n;
	int rc = 0;

	while (!rc && (n = rvl_only_user(concat->out[0])) && is_by_channel(n, concat->out[0])) {
		rc = move(g, n, concat, err);
		*moved = true;
	}
	return rc;
}

int rvl_binary_concat(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	bool moved = false;
	uint32_t n;
	int rc = rvl_graph_nodes(g, &list, &n, err);

	for (uint32_t i = 0; i < n && !rc; i++)
		if (list[i]->op == RVL_OP_GENERAL && joins_layers(list[i]))
			rc = split(g, list[i], &moved, err);
	if (rc || !moved)
		return rc;
	rc = rvl_graph_sort(g, err);
	return rc ? rc : rvl_binary_fold(g, err);
}
