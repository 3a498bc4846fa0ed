/* SPDX-License-Identifier: MIT */
/* QLinear operators with constant parameters become Q_* operators. */
#include "pass/fuse.h"
#include "pass/pass.h"

#include <errno.h>

/* The index of each operand among an operator's inputs; -1: the operator does not have it. */
struct qlayout {
	enum rvl_op from, to;
	int8_t a[3], b[3], y[2];	/* value, scale, zero point; y has no value */
	int8_t bias;
};

static const struct qlayout layouts[] = {
	{ RVL_OP_QLINEAR_CONV, RVL_OP_Q_CONV, { 0, 1, 2 }, { 3, 4, 5 }, { 6, 7 }, 8 },
	{ RVL_OP_QLINEAR_MATMUL, RVL_OP_Q_MATMUL, { 0, 1, 2 }, { 3, 4, 5 }, { 6, 7 }, -1 },
	{ RVL_OP_QGEMM, RVL_OP_Q_MATMUL, { 0, 1, 2 }, { 3, 4, 5 }, { 7, 8 }, 6 },
	{ RVL_OP_QLINEAR_ADD, RVL_OP_Q_ADD, { 0, 1, 2 }, { 3, 4, 5 }, { 6, 7 }, -1 },
	{ RVL_OP_QLINEAR_MUL, RVL_OP_Q_MUL, { 0, 1, 2 }, { 3, 4, 5 }, { 6, 7 }, -1 },
	{ RVL_OP_QLINEAR_GLOBAL_AVERAGE_POOL, RVL_OP_Q_GLOBAL_AVERAGE_POOL,
	  { 0, 1, 2 }, { -1, -1, -1 }, { 3, 4 }, -1 },
	{ RVL_OP_QLINEAR_AVERAGE_POOL, RVL_OP_Q_AVERAGE_POOL,
	  { 0, 1, 2 }, { -1, -1, -1 }, { 3, 4 }, -1 },
};

static const struct qlayout *layout_of(enum rvl_op op)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (layouts[i].from == op)
			return &layouts[i];
	return NULL;
}

static struct rvl_tensor *at(const struct rvl_node *n, int8_t i)
{
	return i >= 0 && (uint32_t)i < n->n_in ? n->in[i] : NULL;
}

/* The channel axis of weights: the first axis of a Conv's, the columns of a matrix. */
static int32_t weight_axis(const struct rvl_node *n, const struct rvl_tensor *w)
{
	if (n->op == RVL_OP_QLINEAR_CONV)
		return 0;
	return n->attr.trans_b ? w->shape.rank - 2 : w->shape.rank - 1;
}

static bool ratios_ok(const struct qlayout *l, const struct rvl_qsource *a,
		      const struct rvl_qsource *b, const struct rvl_qsource *y)
{
	if (l->to == RVL_OP_Q_ADD)
		return rvl_add_ratio_ok(a->scale[0], y->scale[0]) &&
		       rvl_add_ratio_ok(b->scale[0], y->scale[0]);
	return true;
}

/* A mean of the whole image is a QGlobalAveragePool (docs/numerics.md 4). */
static bool averages_image(const struct rvl_node *n, const struct qlayout *l)
{
	return l->to == RVL_OP_Q_AVERAGE_POOL && rvl_window_of_image(n);
}

static int rebuild(struct rvl_graph *g, struct rvl_node *n, const struct qlayout *l,
		   struct rvl_err *err)
{
	struct rvl_tensor *in[3] = { at(n, l->a[0]), at(n, l->b[0]), at(n, l->bias) };
	uint32_t k = 0;
	int rc = 0;

	for (uint32_t i = n->n_in; i-- > 0 && !rc;)
		rc = rvl_node_set_in(g, n, i, NULL, err);
	for (uint32_t i = 0; i < 3 && !rc; i++)
		if (in[i])
			rc = rvl_node_set_in(g, n, k++, in[i], err);
	n->op = averages_image(n, l) ? RVL_OP_Q_GLOBAL_AVERAGE_POOL : l->to;
	return rc;
}

int rvl_fuse_qlinear(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	const struct qlayout *l = layout_of(n->op);
	struct rvl_qsource a, b = { .t = NULL }, y;
	struct rvl_tensor *bias;
	int rc;

	if (!l || !rvl_qsource_of(g, n->in[0], at(n, l->a[1]), at(n, l->a[2]), 0, &a) ||
	    !rvl_qsource_of(g, n->out[0], at(n, l->y[0]), at(n, l->y[1]), 0, &y))
		return 0;
	if (l->b[0] >= 0 && !rvl_qsource_of(g, at(n, l->b[0]), at(n, l->b[1]), at(n, l->b[2]),
					    weight_axis(n, at(n, l->b[0])), &b))
		return 0;
	bias = at(n, l->bias);
	if (a.n != 1 || y.n != 1 || !rvl_quant_fits(&a) || !rvl_quant_fits(&y) ||
	    (b.t && (!rvl_quant_fits(&b) || !rvl_quant_agree(&a, &b))) || (bias && !bias->data) || !ratios_ok(l, &a, &b, &y))
		return 0;
	rc = rvl_quant_adopt(g, &a, err);
	if (!rc && b.t)
		rc = rvl_quant_adopt(g, &b, err);
	if (!rc)
		rc = rvl_quant_adopt(g, &y, err);
	return rc ? rc : rebuild(g, n, l, err);
}
