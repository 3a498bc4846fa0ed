/* SPDX-License-Identifier: MIT */
#include "graph/graph.h"

#include <string.h>

static void fill_arg(const struct rvl_tensor *t, struct rvl_kernel_arg *a)
{
	*a = (struct rvl_kernel_arg) { .type = RVL_TYPE_NONE };
	if (!t)
		return;
	a->type = t->type;
	a->shape = t->shape;
	a->quant = (struct rvl_kernel_quant) {
		.n = t->quant.n, .axis = t->quant.axis, .scale = t->quant.scale, .zp = t->quant.zp,
	};
	a->data = t->data;
	a->layout = t->layout;
	a->pitched = t->pitched;
	memcpy(a->pitch, t->pitch, sizeof(a->pitch));
}

void rvl_node_desc(const struct rvl_node *n, struct rvl_kernel_desc *d)
{
	*d = (struct rvl_kernel_desc) {
		.op = n->op, .attr = n->attr, .n_in = n->n_in, .n_out = n->n_out,
	};
	if (n->def && rvl_op_traits(n->op) & RVL_TRAIT_ROW)
		d->op = RVL_OP_GENERAL;
	if (rvl_op_names_def(d->op)) {
		d->def = n->def;
		memcpy(d->value, n->value, rvl_op_attrs(n->def) * sizeof(*d->value));
	}
	for (uint32_t i = 0; i < n->n_in; i++)
		fill_arg(n->in[i], &d->in[i]);
	for (uint32_t i = 0; i < n->n_out; i++)
		fill_arg(n->out[i], &d->out[i]);
}
