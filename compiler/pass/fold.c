/* SPDX-License-Identifier: MIT */
#include "graph/interp.h"
#include "pass/passes.h"

/* Dequantised weights are not folded, because fusion needs their scales. */
static bool foldable(const struct rvl_node *n)
{
	return n->op != RVL_OP_DEQUANTIZE;
}

int rvl_pass_fold(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0;

	while (i < g->n_nodes) {
		int rc = foldable(g->nodes[i]) ? rvl_node_evaluate(g, g->nodes[i], err) : 0;

		if (rc < 0)
			return rc;
		i += !rc;	/* the next node has taken the place of an evaluated one */
	}
	return 0;
}
