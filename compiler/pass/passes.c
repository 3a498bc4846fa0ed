/* SPDX-License-Identifier: MIT */
#include "pass/passes.h"

#include <errno.h>
#include <string.h>

/*
 * Folding runs again after commuting, because commuting turns transposed weights into constants.
 * Cleaning runs after each group of passes that leaves unused nodes.
 */
const struct rvl_pass rvl_passes[] = {
	{ "fold", rvl_pass_fold },
	{ "clean", rvl_pass_clean },
	{ "binary", rvl_pass_binary },
	{ "fold-bn", rvl_pass_fold_bn },
	{ "lines", rvl_pass_lines },
	{ "reconstruct", rvl_pass_reconstruct },
	{ "blend", rvl_pass_blend },
	{ "transposed", rvl_pass_transposed },
	{ "commute", rvl_pass_commute },
	{ "fold-moved", rvl_pass_fold },
	{ "fuse", rvl_pass_fuse },
	{ "hard-swish", rvl_pass_hard_swish },
	{ "clean-fused", rvl_pass_clean },
	{ "binary-pool", rvl_pass_binary_pool },
	{ "slopes", rvl_pass_slopes },
	{ "fold-pad", rvl_pass_fold_pad },
	{ "pools", rvl_pass_pools },
	{ "flattened", rvl_pass_flattened },
	{ "s8-weights", rvl_pass_s8_weights },
	{ "fold-weights", rvl_pass_fold_weights },
	{ "clean-weights", rvl_pass_clean },
};

const unsigned int rvl_n_passes = sizeof(rvl_passes) / sizeof(rvl_passes[0]);

/*
 * A pass cannot distinguish a refused request for memory from a pattern that does not apply. It
 * then succeeds without its effect, so the arena is checked after each pass.
 */
static int check_memory(const struct rvl_graph *g, struct rvl_err *err)
{
	return rvl_arena_failed(g->arena) ? rvl_fail(err, -ENOMEM, "no memory for the graph") : 0;
}

int rvl_optimise(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = rvl_shape_infer(g, err);

	if (!rc)
		rc = check_memory(g, err);

	for (unsigned int i = 0; i < rvl_n_passes && !rc; i++) {
		char msg[RVL_ERR_MAX];

		rc = rvl_passes[i].run(g, err);
		if (!rc)
			rc = check_memory(g, err);
		if (!rc)
			rc = rvl_graph_verify(g, err);
		if (!rc || !err)
			continue;
		memcpy(msg, err->msg, sizeof(msg));
		rvl_fail(err, rc, "pass %s: %.200s", rvl_passes[i].name, msg);
	}
	return rc;
}
