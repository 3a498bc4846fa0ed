/* SPDX-License-Identifier: MIT */
#include "graph/interp.h"
#include "pass/pass.h"
#include "pass/passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LARGE RVL_LARGE_CONSTANT

/* Dequantised weights are not folded, because fusion needs their scales. */
static bool foldable(const struct rvl_node *n)
{
	if (rvl_has_bound(n))
		return false;
	return n->op != RVL_OP_DEQUANTIZE;
}

/* Returns 1 if the node is now constants. */
static int fold(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_tensor *in[RVL_MAX_IN];
	uint32_t n_in = n->n_in;
	int rc;

	memcpy(in, n->in, n_in * sizeof(in[0]));
	rc = rvl_node_evaluate(g, n, err);
	for (uint32_t i = 0; i < n_in && rc > 0; i++)
		rvl_constant_release(g, in[i]);
	return rc;
}

/* Marks the tensors that are constants once everything is folded. */
static void mark_constants(const struct rvl_graph *g, bool *constant)
{
	for (uint32_t i = 0; i < g->n_tensors; i++)
		constant[g->tensors[i]->id] = g->tensors[i]->data;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct rvl_node *n = g->nodes[i];
		bool all = foldable(n);

		for (uint32_t k = 0; k < n->n_in; k++)
			all &= !n->in[k] || constant[n->in[k]->id];
		for (uint32_t k = 0; k < n->n_out; k++)
			if (n->out[k])
				constant[n->out[k]->id] = all;
	}
}

/* Whether @n makes a large constant that nodes with other operands read, so that it stays. */
static bool makes_lasting(const struct rvl_node *n, const bool *constant)
{
	const struct rvl_tensor *y = n->n_out == 1 ? n->out[0] : NULL;

	if (!y || !constant[y->id] || rvl_tensor_bytes(y) < LARGE)
		return false;
	for (uint32_t u = 0; u < y->n_users; u++)
		for (uint32_t k = 0; k < y->users[u]->n_out; k++)
			if (y->users[u]->out[k] && constant[y->users[u]->out[k]->id])
				return false;
	return true;
}

/* Folds what @leave does not mark as a constant to stay; NULL: everything. */
static int fold_all(struct rvl_graph *g, const bool *leave, struct rvl_err *err)
{
	uint32_t i = 0;

	while (i < g->n_nodes) {
		struct rvl_node *n = g->nodes[i];
		int rc = foldable(n) && !(leave && makes_lasting(n, leave)) ? fold(g, n, err) : 0;

		if (rc < 0)
			return rc;
		i += !rc;	/* the next node has taken the place of an evaluated one */
	}
	return 0;
}

/*
 * Large results that stay are computed last, one after another: their operands, which are as large, have
 * no other readers then and are freed at once.
 */
int rvl_pass_fold(struct rvl_graph *g, struct rvl_err *err)
{
	bool *constant = calloc(g->n_tensors + 1u, sizeof(*constant));
	int rc;

	if (!constant)
		return rvl_fail(err, -ENOMEM, "no memory for folding");
	mark_constants(g, constant);
	rc = fold_all(g, constant, err);
	free(constant);
	return rc ? rc : fold_all(g, NULL, err);
}
