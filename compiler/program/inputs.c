/* SPDX-License-Identifier: MIT */
/* What a model takes, for those who prepare data for it. */
#include "onnx/onnx.h"
#include "rivulet_compiler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int fill(const struct rvl_graph *g, struct rivulet_model_input **out, uint32_t *n,
		struct rvl_err *err)
{
	struct rivulet_model_input *list = calloc(g->n_inputs + 1u, sizeof(*list));

	if (!list)
		return rvl_fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < g->n_inputs; i++) {
		const struct rvl_tensor *t = g->inputs[i];

		list[i].name = strdup(t->name);
		list[i].dtype = (enum rivulet_dtype)t->type;
		list[i].ndim = (uint32_t)t->shape.rank;
		for (int32_t k = 0; k < t->shape.rank; k++)
			list[i].dim[k] = (uint64_t)t->shape.dim[k];
		if (!list[i].name) {
			rivulet_model_inputs_free(list, g->n_inputs);
			return rvl_fail(err, -ENOMEM, "out of memory");
		}
	}
	*out = list;
	*n = g->n_inputs;
	return 0;
}

int rivulet_model_inputs_of(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
			    struct rivulet_model_input **out, uint32_t *n, struct rvl_err *err)
{
	const struct rvl_onnx_opts o = { .batch = opt->batch, .symbol = opt->symbol };
	struct rvl_graph *g = NULL;
	int rc = rvl_onnx_load(onnx, size, &o, &g, err);

	for (uint32_t i = 0; i < opt->n_frozen && !rc; i++)
		rc = rvl_graph_freeze(g, opt->frozen[i].name, opt->frozen[i].data,
				      opt->frozen[i].size, err);
	if (!rc)
		rc = fill(g, out, n, err);
	rvl_graph_free(g);
	return rc;
}

void rivulet_model_inputs_free(struct rivulet_model_input *list, uint32_t n)
{
	for (uint32_t i = 0; list && i < n; i++)
		free(list[i].name);
	free(list);
}
