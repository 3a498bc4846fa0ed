/* SPDX-License-Identifier: MIT */
#include "pass/pass.h"

struct rvl_node *rvl_only_user(const struct rvl_tensor *t)
{
	return t->n_users == 1 && !t->is_output ? t->users[0] : NULL;
}

void rvl_note_fused(struct rvl_graph *g, struct rvl_node *n, const struct rvl_node *other)
{
	const char *more = other->fused ? rvl_graph_printf(g, "+%.400s", other->fused) : "";

	if (n->fused)
		n->fused = rvl_graph_printf(g, "%.400s+%.200s%s", n->fused, other->name,
					    more ? more : "");
	else
		n->fused = rvl_graph_printf(g, "%.200s%s", other->name, more ? more : "");
}

bool rvl_const_f32(const struct rvl_tensor *t, float *out)
{
	if (!t || !t->data || t->type != RVL_TYPE_F32 || rvl_shape_count(&t->shape) != 1)
		return false;
	*out = *(const float *)t->data;
	return true;
}

const float *rvl_const_vector(const struct rvl_tensor *t, int64_t n)
{
	const float *v;

	if (!t || !t->data || t->type != RVL_TYPE_F32 || rvl_shape_count(&t->shape) != n)
		return NULL;
	v = t->data;
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(v[i]))
			return NULL;
	return v;
}

int rvl_node_bypass(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_tensor *x = n->in[0], *y = n->out[0];
	struct rvl_node *p = x->producer;
	int rc;

	if (!y->is_output) {
		rc = rvl_tensor_replace(g, y, x, err);
		if (rc)
			return rc;
		rvl_node_remove(g, n);
		return 1;
	}
	if (!p || x->is_output)
		return 0;
	rvl_node_remove(g, n);
	rc = rvl_tensor_replace(g, x, y, err);
	if (rc)
		return rc;
	if (x->quant.n && !y->quant.n)
		y->quant = x->quant;
	for (uint32_t i = 0; i < p->n_out; i++)
		if (p->out[i] == x)
			rvl_node_set_out(p, i, y);
	return 1;
}

bool rvl_op_moves(const struct rvl_node *n)
{
	bool picks = n->op == RVL_OP_MAX_POOL || n->op == RVL_OP_GLOBAL_MAX_POOL ||
		     n->op == RVL_OP_TRANSPOSE;

	return (picks || rvl_op_renames(n->op)) && n->n_out == 1;
}
