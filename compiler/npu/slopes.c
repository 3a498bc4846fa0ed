/* SPDX-License-Identifier: MIT */
/*
 * The factors by which the ALU computes PRelu between bytes with a slope for each channel: it takes the
 * distance from the zero point of the input times one of two factors of the channel, that for values
 * below it or that for others.
 *
 * A factor is the slope × xs / ys, or a float so near to it that the results of all bytes are those of
 * the CPU. A node with a channel that has no such float stays on the CPU.
 */
#include "npu/slopes.h"

#include "pass/pass.h"
#include "qmath.h"

#include <math.h>

#define TRIES 16 /* floats on each side of the first one */

/* The bytes of a node on one side of the zero point. */
struct side {
	const struct rvl_tensor *x, *y;
	int32_t from, to; /* bytes of x; @to is behind the last */
	int32_t lo, hi;	  /* of y */
};

static struct side side_of(const struct rvl_node *n, bool below)
{
	struct side s = { .x = n->in[0], .y = n->out[0] };
	bool u8 = s.x->type == RVL_TYPE_U8;

	s.from = below ? rvl_qmin(u8) : s.x->quant.zp[0];
	s.to = below ? s.x->quant.zp[0] : rvl_qmax(u8) + 1;
	rvl_node_q_range(n, &s.lo, &s.hi);
	return s;
}

/* Whether @factor gives for all bytes what the CPU computes with @slope. */
static bool is_exact(const struct side *s, float slope, float factor)
{
	int32_t xz = s->x->quant.zp[0], yz = s->y->quant.zp[0];

	for (int32_t q = s->from; q < s->to; q++) {
		float v = slope * rvl_dequantize(q, s->x->quant.scale[0], xz);

		if (rvl_quantize(v, s->y->quant.scale[0], yz, s->lo, s->hi) !=
		    rvl_requant(q - xz, factor, yz, s->lo, s->hi))
			return false;
	}
	return true;
}

bool rvl_slope_factor(const struct rvl_node *n, bool below, float slope, float *factor)
{
	float up = slope * n->in[0]->quant.scale[0] / n->out[0]->quant.scale[0], down = up;
	struct side s = side_of(n, below);

	for (int i = 0; i <= TRIES && isfinite(up) && isfinite(down); i++) {
		*factor = up;
		if (is_exact(&s, slope, up))
			return true;
		*factor = down;
		if (is_exact(&s, slope, down))
			return true;
		up = nextafterf(up, INFINITY);
		down = nextafterf(down, -INFINITY);
	}
	return false;
}

bool rvl_is_slopes(const struct rvl_node *n)
{
	const struct rvl_tensor *x = n->in[0];

	return rvl_prelu_by_channel(n) && (x->shape.rank == 2 || x->shape.rank == 4) &&
	       rvl_is_quant8_tensor(x) && rvl_is_quant8_tensor(n->out[0]) && n->in[1]->type == RVL_TYPE_F32;
}

const char *rvl_slopes_lack(const struct rvl_node *n)
{
	const struct rvl_shape *x = &n->in[0]->shape;
	const float *slope = n->in[1]->data;
	float factor;

	if (x->dim[1] > RVL_MOST_SLOPES)
		return "its slopes differ by channel, and more than 16384 of them are not tried";
	for (int64_t c = 0; c < x->dim[1]; c++)
		if (!rvl_slope_factor(n, true, slope[c], &factor))
			return "its slopes differ by channel, and no factors of the NPU give its bytes exactly";
	return rvl_slope_factor(n, false, 1, &factor) ? NULL :
	       "no factor of the NPU gives the bytes of its values above zero exactly";
}
