/* SPDX-License-Identifier: MIT */
/*
 * A Pad of bytes in front of a convolution. A quantised convolution pads with the zero point of its
 * operand, so that a Pad with that byte on the axes of the pixels is padding of the convolution.
 */
#include "pass/pass.h"
#include "pass/passes.h"
#include "qmath.h"

#define MOST_PADDING 255

const int64_t *rvl_pixel_pads(const struct rvl_node *n, int64_t list[8])
{
	const char *name = n->def->since < 2 ? "paddings" : "pads";
	struct rvl_call c;
	const int64_t *p = list;
	uint32_t count = 0;

	rvl_node_call(n, &c);
	if (n->def->since < 11)
		p = rvl_attr_ints(&c, name, &count);
	else if (n->n_in > 3 || rvl_int_input(&c, 1, list, 8, &count))
		return NULL;
	if (count != 8)
		return NULL;
	for (int i = 0; i < 8; i++)
		if (p[i] < 0 || p[i] > (i % 4 < 2 ? 0 : MOST_PADDING))
			return NULL;
	return p;
}

void rvl_add_padding(struct rvl_node *conv, const int64_t *pads)
{
	for (int i = 0; i < 4; i++)
		conv->attr.pad[i] += (int32_t)pads[i < 2 ? 2 + i : 4 + i];
}

/* Whether the Pad writes the zero point of its operand, which is that of its result. */
static bool pads_zero_point(const struct rvl_node *n)
{
	const struct rvl_tensor *x = n->in[0], *y = n->out[0], *v = n->n_in > 2 ? n->in[2] : NULL;
	struct rvl_call c;

	if (n->op != RVL_OP_GENERAL || !(n->def->flags & RVL_OP_PADS) || n->def->since < 11 ||
	    !rvl_is_quant8_tensor(x) || !rvl_is_quant8_tensor(y) || x->shape.rank != 4 || !v || !v->data ||
	    v->type != x->type || rvl_shape_count(&v->shape) != 1)
		return false;
	rvl_node_call(n, &c);
	return rvl_attr_is(&c, "mode", "constant") && x->quant.scale[0] == y->quant.scale[0] &&
	       x->quant.zp[0] == y->quant.zp[0] &&
	       rvl_ld8(v->data, 0, v->type == RVL_TYPE_U8) == x->quant.zp[0];
}

static int fold(struct rvl_graph *g, struct rvl_node *pad, struct rvl_err *err)
{
	struct rvl_node *conv = pad->n_out == 1 ? rvl_only_user(pad->out[0]) : NULL;
	const int64_t *p;
	int64_t list[8];

	if (!conv || conv->op != RVL_OP_Q_CONV || conv->in[0] != pad->out[0] || !pads_zero_point(pad))
		return 0;
	p = rvl_pixel_pads(pad, list);
	for (int i = 0; p && i < 4; i++)
		if (conv->attr.pad[i] + p[i < 2 ? 2 + i : 4 + i] > MOST_PADDING)
			p = NULL;
	if (!p)
		return 0;
	rvl_add_padding(conv, p);
	rvl_note_fused(g, conv, pad);
	return rvl_node_bypass(g, pad, err);
}

int rvl_pass_fold_pad(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0;

	while (i < g->n_nodes) {
		int rc = fold(g, g->nodes[i], err);

		if (rc < 0)
			return rc;
		i += !rc;
	}
	return 0;
}
