/* SPDX-License-Identifier: MIT */
/*
 * Marks the products that are computed with bitstreams. A product that does not qualify is an error
 * unless the user keeps it int8; none is computed in int8 silently.
 */
#include "pass/passes.h"
#include "rivulet_sc.h"

#include <errno.h>
#include <string.h>

static bool is_product(const struct rvl_node *n)
{
	return (rvl_op_traits(n->op) & (RVL_TRAIT_PRODUCT | RVL_TRAIT_MADE)) ==
	       (RVL_TRAIT_PRODUCT | RVL_TRAIT_MADE);
}

/* Why a quantised product cannot be computed with streams, or NULL. */
static const char *reject(const struct rvl_node *n)
{
	const struct rvl_tensor *x = n->in[0], *w = n->in[1];

	if (x->type != RVL_TYPE_U8 || x->quant.n != 1 || x->quant.zp[0])
		return "its input is not uint8 with zero point 0";
	if (w->type != RVL_TYPE_S8 || !w->data)
		return "its weights are not constant int8";
	for (uint32_t i = 0; i < w->quant.n; i++)
		if (w->quant.zp[i])
			return "its weights have a zero point";
	if (n->n_in > 2 && n->in[2] && !n->in[2]->data)
		return "its bias is not constant";
	return n->op == RVL_OP_Q_MATMUL && w->shape.rank > 2 ? "its weights are a batch of matrices" : NULL;
}

/* Whether @word is "first", "last" or a node's name, and means product @i. */
static bool names(const char *word, const struct rvl_node *n, uint32_t i, uint32_t products)
{
	if (!strcmp(word, "first"))
		return i == 0;
	if (!strcmp(word, "last"))
		return i + 1 == products;
	return !strcmp(word, n->name);
}

static int mark(const struct rvl_graph *g, const char *const *keep, uint32_t n_keep, bool *used,
		uint32_t products, struct rvl_err *err)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct rvl_node *n = g->nodes[i];
		const char *why;

		if (!is_product(n))
			continue;
		n->stochastic = true;
		for (uint32_t k = 0; k < n_keep; k++) {
			if (!names(keep[k], n, at, products))
				continue;
			n->stochastic = false;
			used[k] = true;
		}
		at++;
		why = n->stochastic ? reject(n) : NULL;
		if (why)
			return rvl_fail(err, -EOPNOTSUPP,
					"node \"%s\" (%s) cannot be stochastic: %s; keep it int8, or quantise it so",
					n->name, n->op_type, why);
	}
	return 0;
}

static int refuse_floats(const struct rvl_graph *g, struct rvl_err *err)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct rvl_node *n = g->nodes[i];

		if (rvl_op_traits(n->op) & RVL_TRAIT_PRODUCT && !rvl_is_quant_product(n))
			return rvl_fail(err, -EOPNOTSUPP,
					"node \"%s\" (%s) is float, so that it cannot be stochastic: calibrate the model",
					n->name, n->op_type);
	}
	return 0;
}

int rvl_sc_mark(struct rvl_graph *g, const char *const *keep, uint32_t n_keep, struct rvl_err *err)
{
	bool *used = rvl_arena_array(g->arena, n_keep + 1, sizeof(*used));
	uint32_t products = 0;
	int rc = refuse_floats(g, err);

	if (!used)
		return rvl_fail(err, -ENOMEM, "out of memory");
	memset(used, 0, (n_keep + 1) * sizeof(*used));
	for (uint32_t i = 0; i < g->n_nodes; i++)
		products += is_product(g->nodes[i]);
	if (!rc)
		rc = mark(g, keep, n_keep, used, products, err);
	for (uint32_t k = 0; k < n_keep && !rc; k++)
		if (!used[k])
			rc = rvl_fail(err, -ENOENT, "no convolution or matrix product \"%.80s\" to keep int8",
				      keep[k]);
	return rc;
}
