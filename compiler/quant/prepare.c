/* SPDX-License-Identifier: MIT */
#include "quant/prepare.h"

#include "pass/pass.h"
#include "pass/passes.h"
#include "quant/choose.h"
#include "quant/rewrite.h"
#include "rivulet_op.h"

#include <errno.h>
#include <string.h>

/* Whether a constant holds one value for each of the @n last elements, or one for all. */
static bool is_row(const struct rvl_tensor *t, int64_t n)
{
	int64_t count = t->data && t->type == RVL_TYPE_F32 ? rvl_shape_count(&t->shape) : 0;

	return count == 1 || (count == n && t->shape.dim[t->shape.rank - 1] == n);
}

/* MatMul + constant row: Gemm. */
static int bias_of_add(struct rvl_graph *g, struct rvl_node *add, struct rvl_err *err)
{
	uint32_t at = add->in[0]->data ? 1 : 0;
	struct rvl_tensor *x = add->in[at], *row = add->in[1 - at];
	struct rvl_node *n = x->producer;
	int rc;

	if (!n || n->op != RVL_OP_MATMUL || rvl_only_user(x) != add || !rvl_is_unclamped(&n->attr) ||
	    n->in[0]->shape.rank != 2 || !rvl_is_product(n) ||
	    !is_row(row, x->shape.dim[1]) || !rvl_shape_equal(&x->shape, &add->out[0]->shape))
		return 0;
	rc = rvl_node_set_in(g, n, 2, row, err);
	if (rc)
		return rc;
	n->op = RVL_OP_GEMM;
	n->op_type = "Gemm";
	n->attr.f_lo = add->attr.f_lo;
	n->attr.f_hi = add->attr.f_hi;
	rvl_note_fused(g, n, add);
	return rvl_node_bypass(g, add, err);
}

static const struct rvl_node *sigmoid_of(const struct rvl_tensor *t)
{
	const struct rvl_node *n = t->producer;

	return n && n->op == RVL_OP_GENERAL && !strcmp(n->def->name, "Sigmoid") ? n : NULL;
}

/* x * Sigmoid(x): Swish. */
static int swish_of_mul(struct rvl_graph *g, struct rvl_node *mul, struct rvl_err *err)
{
	const struct rvl_op_def *def = rvl_op_find(NULL, "Swish", 24);
	struct rvl_attr_value *v;
	struct rvl_node *n = NULL;
	struct rvl_tensor *y = mul->out[0];
	uint32_t x = 0;
	int rc;

	while (x < 2 && (!sigmoid_of(mul->in[1 - x]) ||
			 sigmoid_of(mul->in[1 - x])->in[0] != mul->in[x]))
		x++;
	if (x == 2 || !def || !rvl_is_unclamped(&mul->attr))
		return 0;
	v = rvl_arena_array(g->arena, rvl_op_attrs(def) + 1, sizeof(*v));
	if (!v)
		return rvl_fail(err, -ENOMEM, "no memory for an operator");
	for (uint32_t i = 0; i < rvl_op_attrs(def); i++)
		v[i] = (struct rvl_attr_value) { .i = def->attrs[i].i, .f = def->attrs[i].f };
	rc = rvl_node_general(g, def, v, mul->name, &n, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, 0, mul->in[x], err);
	if (rc)
		return rc;
	rvl_note_fused(g, n, sigmoid_of(mul->in[1 - x]));
	rvl_node_remove(g, mul);
	rvl_node_set_out(n, 0, y);
	return 1;
}

static int merge(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0;

	while (i < g->n_nodes) {
		struct rvl_node *n = g->nodes[i];
		int rc = n->op == RVL_OP_ADD ? bias_of_add(g, n, err) :
			 n->op == RVL_OP_MUL ? swish_of_mul(g, n, err) : 0;

		if (rc < 0)
			return rc;
		i += !rc;
	}
	return rvl_graph_sort(g, err);
}

int rvl_prepare(struct rvl_graph *g, struct rvl_err *err)
{
	int (*const steps[])(struct rvl_graph *, struct rvl_err *) = {
		rvl_shape_infer, rvl_pass_fold,	      rvl_pass_clean,	rvl_pass_binary,
		rvl_lines_of_floats, /* before what rewrites images */
		rvl_rewrite,
		rvl_lines_of_floats, /* of means that are pools then */
		rvl_pass_fold_bn, merge,	      rvl_pass_clean,	rvl_pass_fold_bn,
		rvl_rewrite_scales, rvl_pass_fold_bn, rvl_pass_clean,
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !rc; i++)
		rc = steps[i](g, err);
	return rc ? rc : rvl_graph_check_supported(g, err);
}
