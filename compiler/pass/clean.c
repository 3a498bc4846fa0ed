/* SPDX-License-Identifier: MIT */
#include "pass/binary.h"
#include "pass/pass.h"
#include "pass/passes.h"

#include <errno.h>
#include <stdlib.h>

static bool is_read(const struct rvl_node *n, uint32_t out)
{
	const struct rvl_tensor *t = out < n->n_out ? n->out[out] : NULL;

	return t && (t->n_users || t->is_output);
}

/* Whether the result has the same type, shape and bytes as the operand. */
static bool is_copy(const struct rvl_node *n)
{
	const struct rvl_tensor *x = n->in[0], *y = n->out[0];

	if (rvl_op_renames(n->op))
		return x->type == y->type && rvl_shape_equal(&x->shape, &y->shape);
	if (rvl_is_general(n, "Dropout"))
		return !is_read(n, 1);	/* it trains nowhere: its descriptor refuses that */
	if (rvl_is_general(n, "Cast")) /* to float16 or float64, say, which are float32 here */
		return x->type == y->type;
	if (n->op != RVL_OP_TRANSPOSE)
		return false;
	for (int i = 0; i < n->attr.perm_rank; i++)
		if (n->attr.perm[i] != i)
			return false;
	return true;
}

/* A Reshape of a Reshape takes the first operand. */
static int join_reshapes(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	const struct rvl_node *before = n->in[0] ? n->in[0]->producer : NULL;

	if (n->op != RVL_OP_RESHAPE || !before || before->op != RVL_OP_RESHAPE || before->in[0]->bounded ||
	    n->out[0]->bounded || before->in[0]->type != n->out[0]->type)
		return 0;
	return rvl_node_set_in(g, n, 0, before->in[0], err);
}

static int drop_copies(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0;

	while (i < g->n_nodes) {
		int rc = join_reshapes(g, g->nodes[i], err);

		if (!rc)
			rc = is_copy(g->nodes[i]) ? rvl_node_bypass(g, g->nodes[i], err) : 0;
		if (rc < 0)
			return rc;
		i += !rc;
	}
	return 0;
}

/* Removes operands that only inference needs: a Reshape's shape, MaxPool's unread indices. */
static int drop_operands(struct rvl_graph *g, struct rvl_err *err)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct rvl_node *n = g->nodes[i];
		int rc = 0;

		if (n->op == RVL_OP_RESHAPE && n->n_in > 1)
			rc = rvl_node_set_in(g, n, 1, NULL, err);
		if (rc)
			return rc;
		if (n->op == RVL_OP_MAX_POOL && n->n_out > 1 && n->out[1] && !is_read(n, 1)) {
			n->out[1]->producer = NULL;
			n->n_out = 1;
		}
	}
	return 0;
}

static void mark(const struct rvl_graph *g, unsigned char *live)
{
	for (uint32_t i = 0; i < g->n_outputs; i++)
		live[g->outputs[i]->id] = 1;
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		const struct rvl_node *n = g->nodes[i];
		bool used = n->op == RVL_OP_UNSUPPORTED;

		for (uint32_t k = 0; k < n->n_out; k++)
			used |= n->out[k] && live[n->out[k]->id];
		for (uint32_t k = 0; used && k < n->n_in; k++)
			if (n->in[k])
				live[n->in[k]->id] = 1;
	}
}

static bool is_live(const struct rvl_node *n, const unsigned char *live)
{
	for (uint32_t k = 0; k < n->n_out; k++)
		if (n->out[k] && live[n->out[k]->id])
			return true;
	return n->op == RVL_OP_UNSUPPORTED;
}

static int drop_dead(struct rvl_graph *g, struct rvl_err *err)
{
	unsigned char *live = calloc(g->n_tensors + 1u, 1);

	if (!live)
		return rvl_fail(err, -ENOMEM, "no memory to find dead nodes");
	mark(g, live);
	for (uint32_t i = g->n_nodes; i-- > 0;)
		if (!is_live(g->nodes[i], live))
			rvl_node_remove(g, g->nodes[i]);
	free(live);
	return 0;
}

int rvl_pass_clean(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = drop_operands(g, err);

	if (!rc)
		rc = drop_copies(g, err);
	return rc ? rc : drop_dead(g, err);
}
