/* SPDX-License-Identifier: MIT */
/*
 * A MaxPool of bytes with a large window is, with an NPU as the target, one along one axis of the image
 * and another one along the other axis:
 *
 *	x -> MaxPool (kh x kw) -> y		becomes		x -> MaxPool (1 x kw) -> MaxPool (kh x 1) -> y
 *
 * The largest value of a window is that of the largest values of its rows, so that results are equal. The
 * ALU takes each position of each window in turn: kh * kw of a result are more than kw of each of its rows,
 * which windows above and below share, and kh. The second layer moves one more value and waits for the
 * first; therefore the turns must become half as many.
 */
#include "pass/pass.h"
#include "pass/passes.h"

enum axis { ROWS, COLS };

/* Positions of all windows, of one plane, if the pool along axis @first comes first. */
static int64_t positions(const struct rvl_node *n, enum axis first)
{
	const struct rvl_shape *x = &n->in[0]->shape, *y = &n->out[0]->shape;
	enum axis other = first == ROWS ? COLS : ROWS;
	int64_t between = y->dim[2 + first] * x->dim[2 + other];

	return between * n->attr.kernel[first] + y->dim[2] * y->dim[3] * n->attr.kernel[other];
}

/* Whether two pools take at most half of the positions, and which one comes first. */
static bool gains(const struct rvl_node *n, enum axis *first)
{
	const struct rvl_shape *y;
	int64_t whole;

	if (n->op != RVL_OP_MAX_POOL || n->n_out != 1 || !rvl_is_quant8_tensor(n->in[0]) ||
	    n->in[0]->shape.rank != 4)
		return false;
	y = &n->out[0]->shape;
	whole = y->dim[2] * y->dim[3] * n->attr.kernel[0] * n->attr.kernel[1];
	*first = positions(n, COLS) <= positions(n, ROWS) ? COLS : ROWS;
	return 2 * positions(n, *first) <= whole;
}

/* Makes the window of @n one position along @axis. */
static void narrow(struct rvl_node *n, enum axis axis)
{
	n->attr.kernel[axis] = n->attr.stride[axis] = n->attr.dilation[axis] = 1;
	n->attr.pad[axis] = n->attr.pad[axis + 2] = 0;
}

/* The pool along axis @first, behind which @n is the one along the other axis. */
static int split(struct rvl_graph *g, struct rvl_node *n, enum axis first, struct rvl_err *err)
{
	struct rvl_tensor *between;
	struct rvl_node *pool;
	int rc = rvl_tensor_like(g, n->in[0], &between, err);

	if (!rc)
		rc = rvl_node_new(g, RVL_OP_MAX_POOL, n->name, &pool, err);
	if (!rc)
		rc = rvl_node_set_in(g, pool, 0, n->in[0], err);
	if (rc)
		return rc;
	between->shape.dim[2 + first] = n->out[0]->shape.dim[2 + first];
	pool->op_type = n->op_type;
	pool->attr = n->attr;
	narrow(pool, first == ROWS ? COLS : ROWS);
	narrow(n, first);
	rvl_node_set_out(pool, 0, between);
	return rvl_node_set_in(g, n, 0, between, err);
}

int rvl_pass_pools(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc;

	if (!g->word)
		return 0;
	rc = rvl_graph_nodes(g, &list, &n, err);
	for (uint32_t i = 0; !rc && i < n; i++) {
		enum axis first;

		if (gains(list[i], &first))
			rc = split(g, list[i], first, err);
	}
	return rc ? rc : rvl_graph_sort(g, err);
}
