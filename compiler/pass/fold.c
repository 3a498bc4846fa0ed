/* SPDX-License-Identifier: MIT */
#include "graph/interp.h"
#include "pass/passes.h"

#include <string.h>

#define LARGE 65536 /* bytes of a tensor that is not kept */

/* Dequantised weights are not folded, because fusion needs their scales. */
static bool foldable(const struct rvl_node *n)
{
	return n->op != RVL_OP_DEQUANTIZE;
}

static bool shared(const struct rvl_graph *g, const struct rvl_tensor *t)
{
	for (uint32_t i = 0; i < g->n_tensors; i++)
		if (g->tensors[i] != t && g->tensors[i]->data == t->data)
			return true;
	return false;
}

/* A large constant is freed when the last node that reads it has been folded. */
static void release(struct rvl_graph *g, struct rvl_tensor *t)
{
	size_t bytes = t && t->data ? (size_t)rvl_tensor_bytes(t) : 0;

	if (bytes < LARGE || t->n_users || t->is_output || shared(g, t))
		return;
	rvl_arena_release(g->arena, t->data, bytes);
	t->data = NULL;
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
		release(g, in[i]);
	return rc;
}

int rvl_pass_fold(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0;

	while (i < g->n_nodes) {
		int rc = foldable(g->nodes[i]) ? fold(g, g->nodes[i], err) : 0;

		if (rc < 0)
			return rc;
		i += !rc;	/* the next node has taken the place of an evaluated one */
	}
	return 0;
}
