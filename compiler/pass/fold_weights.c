/* SPDX-License-Identifier: MIT */
#include "graph/interp.h"
#include "pass/pass.h"
#include "pass/passes.h"

int rvl_pass_fold_weights(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0;

	while (i < g->n_nodes) {
		int rc = rvl_has_bound(g->nodes[i]) ? 0 : rvl_node_evaluate(g, g->nodes[i], err);

		if (rc < 0)
			return rc;
		i += !rc;
	}
	return 0;
}
