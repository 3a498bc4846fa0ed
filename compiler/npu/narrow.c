/* SPDX-License-Identifier: MIT */
/*
 * QRescale of int16 to 8 bits by one factor. The CPU dequantises and quantises, which rounds twice,
 * so that the factor is one with which the ALU makes the CPU's byte of every int16.
 */
#include "npu/narrow.h"

#include "qmath.h"

#define NEIGHBOURS 16 /* floats on each side of the quotient of both scales that are tried */

struct narrow {
	int32_t zp, lo, hi; /* of the byte as int8 */
	int32_t xz, shift;
	float xs, ys;
};

/* As rescale_shorts() of the CPU computes it; the byte as int8. */
static int32_t wanted(const struct narrow *r, int32_t x)
{
	float v = rvl_dequantize(x, r->xs, r->xz);

	return rvl_quantize(v, r->ys, r->zp + r->shift, r->lo + r->shift, r->hi + r->shift) -
	       r->shift;
}

/* As the ALU computes it: docs/isa.md 6, "Real". */
static int32_t made(const struct narrow *r, int32_t x, float mult)
{
	float u = fmaf((float)x, mult, (float)-r->xz * mult);

	return (int32_t)rintf(rvl_clampf(u, (float)(r->lo - r->zp), (float)(r->hi - r->zp))) +
	       r->zp;
}

static bool agrees(const struct narrow *r, float mult)
{
	for (int32_t x = -32768; x < 32768; x++)
		if (wanted(r, x) != made(r, x, mult))
			return false;
	return true;
}

/* The factor nearest to the quotient of the scales with which all bytes agree; 0: none near it. */
static float factor_of(const struct narrow *r)
{
	float up = r->xs / r->ys, down = up;

	for (int i = 0; i <= NEIGHBOURS; i++) {
		if (agrees(r, up))
			return up;
		if (agrees(r, down))
			return down;
		up = nextafterf(up, INFINITY);
		down = nextafterf(down, 0);
	}
	return 0;
}

float rvl_narrow_factor(const struct rvl_node *n)
{
	const struct rvl_quant *x = &n->in[0]->quant, *y = &n->out[0]->quant;
	struct narrow r = { .xs = x->scale[0],
			    .xz = x->zp[0],
			    .ys = y->scale[0],
			    .shift = n->out[0]->type == RVL_TYPE_U8 ? 128 : 0 };

	rvl_node_q_range(n, &r.lo, &r.hi);
	r.lo -= r.shift;
	r.hi -= r.shift;
	r.zp = y->zp[0] - r.shift;
	return factor_of(&r);
}
