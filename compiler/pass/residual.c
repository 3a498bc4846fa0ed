/* SPDX-License-Identifier: MIT */
/*
 * A float convolution of one tap whose result only an addition reads adds the other image itself, on
 * the CPU, because the NPU has no floats:
 *
 *	x -> Conv (1 x 1) -> Add (z) -> y		becomes		x, z -> Conv (1 x 1) -> y
 *
 * The sum needs no memory and no visit of its own. Larger windows stay apart, because their kernels
 * (tiles, depthwise sums) add nothing.
 */
#include "pass/pass.h"
#include "pass/passes.h"

static bool is_plain(const struct rvl_tensor *t)
{
	return !t->pitched && !t->bounded && t->layout == RIVULET_LAYOUT_PLAIN && t->type == RVL_TYPE_F32 &&
	       !t->quant.n;
}

/* The convolution that makes @t for @add alone, or NULL. */
static struct rvl_node *conv_of(const struct rvl_tensor *t, const struct rvl_node *add)
{
	struct rvl_node *n = t->producer;

	if (!n || n->op != RVL_OP_CONV || n->free || n->stochastic || n->n_out != 1 || n->n_in > 3)
		return NULL;
	if (!is_plain(t) || t->is_output || t->holds_output || t->base || t->n_users != 1)
		return NULL;
	if (n->in[0]->type != RVL_TYPE_F32 || n->in[1]->shape.rank != 4 || !rvl_is_unclamped(&n->attr))
		return NULL;
	if (n->attr.kernel[0] * n->attr.kernel[1] != 1 || n->in[1]->shape.dim[1] < 2 ||
	    !rvl_shape_equal(&t->shape, &add->out[0]->shape))
		return NULL;
	return n;
}

static bool may_add(const struct rvl_node *n)
{
	return n->op == RVL_OP_ADD && !n->free && n->n_in == 2 && n->n_out == 1 &&
	       is_plain(n->out[0]);
}

/* The addition becomes the convolution. */
static int join(struct rvl_graph *g, struct rvl_node *add, struct rvl_node *conv, struct rvl_tensor *image,
		struct rvl_err *err)
{
	float lo = add->attr.f_lo, hi = add->attr.f_hi;
	int rc = 0;

	add->op = conv->op;
	add->op_type = conv->op_type;
	add->def = conv->def;
	add->value = conv->value;
	add->attr = conv->attr;
	add->attr.f_lo = lo;
	add->attr.f_hi = hi;
	for (uint32_t i = 0; i < 3 && !rc; i++)
		rc = rvl_node_set_in(g, add, i, i < conv->n_in ? conv->in[i] : NULL, err);
	if (!rc)
		rc = rvl_node_set_in(g, add, 3, image, err);
	if (rc)
		return rc;
	rvl_note_fused(g, conv, add);
	add->name = conv->name;
	add->fused = conv->fused;
	rvl_node_remove(g, conv);
	return 0;
}

int rvl_pass_residual(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0;

	while (i < g->n_nodes) {
		struct rvl_node *n = g->nodes[i++], *conv = NULL;
		struct rvl_tensor *image = NULL;
		int rc;

		for (uint32_t j = 0; may_add(n) && j < 2 && !conv; j++) {
			image = n->in[1 - j];
			if (is_plain(image) && rvl_shape_equal(&image->shape, &n->out[0]->shape))
				conv = conv_of(n->in[j], n);
		}
		if (!conv)
			continue;
		rc = join(g, n, conv, image, err);
		if (rc)
			return rc;
		i--;	/* the convolution was before the addition */
	}
	return 0;
}
