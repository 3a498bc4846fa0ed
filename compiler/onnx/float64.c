/* SPDX-License-Identifier: MIT */
/*
 * Whether a model computes in float64. It does if it has a float64 input or output and the rows of all
 * its operators take float64. Else every float64 tensor is computed in float32, so that one model has
 * one precision.
 */
#include "onnx/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int has_float64(const struct rvl_onnx_model *m, const struct rvl_onnx_list *values, bool *has)
{
	struct rvl_onnx_value v;
	int rc = 0;

	for (uint32_t i = 0; i < values->n && !rc; i++) {
		rc = rvl_onnx_value(m, &values->f[i], &v);
		*has |= !rc && rvl_onnx_type(v.elem_type) == RVL_TYPE_F64;
	}
	return rc;
}

static int takes_float64(struct rvl_graph *g, const struct rvl_onnx_model *m,
			 const struct rvl_onnx_node *n, bool *takes, struct rvl_err *err)
{
	const struct rvl_op_def *def;
	const char *name;
	int rc = rvl_span_name(g, n->op_type, &name, err);

	*takes = false;
	if (rc || n->domain.len || rvl_onnx_function(m, n))
		return rc;
	def = rvl_op_find(NULL, name, m->opset);
	*takes = !strcmp(name, "Constant") || (def && def->types[0] & RVL_T(F64));
	return 0;
}

int rvl_onnx_float64(struct rvl_graph *g, const struct rvl_onnx_model *m, struct rvl_err *err)
{
	struct rvl_onnx_node *n;
	bool all = false;
	int rc = has_float64(m, &m->inputs, &all);

	if (!rc)
		rc = has_float64(m, &m->outputs, &all);
	if (rc || !all)
		return rc;
	n = malloc(sizeof(*n));
	if (!n)
		return rvl_fail(err, -ENOMEM, "no memory for a node");
	for (uint32_t i = 0; i < m->nodes.n && all && !rc; i++) {
		rc = rvl_onnx_node(m, &m->nodes.f[i], n);
		if (!rc)
			rc = takes_float64(g, m, n, &all, err);
	}
	free(n);
	g->float64 = all && !rc;
	return rc;
}
