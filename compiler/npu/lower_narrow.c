/* SPDX-License-Identifier: MIT */
/* QRescale of int16 to 8 bits: one pass of the ALU in float32. */
#include "npu/epilogue.h"
#include "npu/narrow.h"

struct rvl_layer *rvl_build_narrow(struct rvl_graph *g, const struct rvl_node *n, bool values,
				   const char **why)
{
	struct rvl_layer *l = rvl_arena_alloc(g->arena, sizeof(*l));
	int32_t shift = n->out[0]->type == RVL_TYPE_U8 ? 128 : 0;

	(void)values;
	*why = l ? "its input or output has no image form" : "not enough memory";
	if (!l || !rvl_wide_operand_of(n->in[0], &l->in) || !rvl_operand_of(n->out[0], &l->out))
		return NULL;
	l->node = n;
	l->e.out_zp = l->out.zp;
	rvl_node_q_range(n, &l->e.out_lo, &l->e.out_hi);
	l->e.out_lo -= shift;
	l->e.out_hi -= shift;
	l->e.narrow = rvl_narrow_factor(n);
	rvl_epilogue_add(l, &rvl_stage_narrow);
	*why = "no factor of the NPU gives the bytes of both its scales";
	return l->e.narrow > 0 ? l : NULL;
}

bool rvl_narrow_settle(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l)
{
	float mult = l->e.narrow, bias = (float)-l->node->in[0]->quant.zp[0] * mult;
	int64_t lanes = b->tn, channels = rvl_div_up(l->in.v.c, lanes) * lanes;

	if (!rvl_epilogue_params(g, l, 2, lanes, l->in.v.c))
		return false;
	for (int64_t m = 0; m < channels; m++) {
		l->e.ext[2 * m] = rvl_float_bits(bias);
		l->e.ext[2 * m + 1] = rvl_float_bits(mult);
	}
	return true;
}
