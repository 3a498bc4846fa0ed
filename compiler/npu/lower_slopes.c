/* SPDX-License-Identifier: MIT */
/* PRelu between bytes with a slope for each channel: a stage of a layer, or a layer of its own. */
#include "npu/epilogue.h"
#include "npu/slopes.h"

#include <string.h>

enum { BELOW, ABOVE, FIELDS }; /* parameters of a channel at A_EXT */

static void put_factor(const struct rvl_layer *l, int64_t lanes, int64_t field, int64_t c, float factor)
{
	memcpy(rvl_epilogue_param(l, lanes, field, c), &factor, sizeof(factor));
}

/* The output's bytes are @l->out from here on. Channels behind the last have factors of 0. */
static void take_output(struct rvl_layer *l, const struct rvl_node *n, const struct rvl_operand *y)
{
	int32_t lo, hi, shift = n->out[0]->type == RVL_TYPE_U8 ? 128 : 0;

	rvl_node_q_range(n, &lo, &hi);
	l->e.slope_zp = l->out.zp;
	l->e.slope_out = y->zp;
	l->e.slope_lo = lo - shift;
	l->e.slope_hi = hi - shift;
	l->out.zp = y->zp;
	l->out.flip = y->flip;
}

bool rvl_slopes_settle(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l,
		       const struct rvl_node *n)
{
	int64_t lanes = l->mode ? b->tm : b->tn, channels = n->in[0]->shape.dim[1];
	const float *slope = n->in[1]->data;
	float factor;

	if (!rvl_epilogue_params(g, l, FIELDS, lanes, channels) || !rvl_slope_factor(n, false, 1, &factor))
		return false;
	for (int64_t c = 0; c < channels; c++)
		put_factor(l, lanes, ABOVE, c, factor);
	for (int64_t c = 0; c < channels; c++) {
		if (!rvl_slope_factor(n, true, slope[c], &factor))
			return false;
		put_factor(l, lanes, BELOW, c, factor);
	}
	return true;
}

bool rvl_layer_take_slopes(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l,
			   const struct rvl_node *n)
{
	struct rvl_operand y;

	if (l->e.ext_fields || !rvl_operand_of(n->out[0], &y) || !rvl_view_equal(&y.v, &l->out.v) ||
	    !rvl_slopes_settle(g, b, l, n))
		return false;
	rvl_epilogue_add(l, &rvl_stage_slopes);
	take_output(l, n, &y);
	return true;
}

struct rvl_layer *rvl_build_slopes(struct rvl_graph *g, const struct rvl_node *n, bool values,
				   const char **why)
{
	struct rvl_layer *l = rvl_arena_alloc(g->arena, sizeof(*l));
	struct rvl_operand y;

	(void)values;
	*why = l ? "its input or output has no image form" : "not enough memory";
	if (!l || !rvl_operand_of(n->in[0], &l->in) || !rvl_operand_of(n->out[0], &y))
		return NULL;
	l->node = n;
	l->out = y;
	l->out.zp = l->in.zp;
	rvl_epilogue_add(l, &rvl_stage_slopes);
	take_output(l, n, &y);
	return l;
}
