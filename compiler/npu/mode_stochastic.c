/* SPDX-License-Identifier: MIT */
/*
 * Products of bitstreams, in variants that have a length. Weights, tiling and the order of loads are
 * those of the dense mode, which takes the layer's place in variants without a length; so a variant
 * costs its commands and one set of parameters.
 */
#include "npu/mode.h"
#include "rivulet_cost.h"
#include "rivulet_ops.h"
#include "rivulet_sc.h"

#include <stdio.h>

static bool takes(const struct rvl_node *n)
{
	return n->stochastic;
}

static uint64_t cycles(const struct rivulet_board *b, uint64_t macs, uint32_t length)
{
	return rivulet_stream_cycles(b, RIVULET_SC_AND_BIN, length, macs);
}

/* X is the byte of the uint8 tensor: no zero point is folded in. */
static const int32_t *bias(const struct rvl_layer *l)
{
	return l->p.raw_bias;
}

/* The number of valid channels, because padding would also take time of the lanes. 0: all. */
static void emit(struct rvl_stream *s, const struct rvl_layer *l, const struct rvl_ocgroup *g,
		 const struct rvl_chunk *k, struct rivulet_insn_conv *conv)
{
	int64_t tn = s->board->tn, tm = s->board->tm;
	struct rvl_nest nest;
	struct rivulet_decoded mode = { .c_mode = { .circuit = RIVULET_SC_AND_BIN,
						    .length = s->length } };
	int64_t in, out = rvl_min(l->p.m - g->o0 * tm, g->on * tm);

	rvl_dense_nest(s->board, l, &nest);
	in = rvl_min(nest.channels - (g->ib0 + k->i0) * tn, k->in * tn);
	mode.c_mode.valid = l->p.group > 1 || in == k->in * tn ? 0 : in;
	mode.c_mode.out = out == g->on * tm ? 0 : out;
	rvl_emit_cfg(s, RIVULET_FORM_c_mode, &mode);
	conv->mode = RIVULET_MODE_STOCHASTIC;
}

static uint32_t rescale(uint32_t length)
{
	return length;
}

static void reference(struct rvl_kernel_desc *d, uint32_t length)
{
	d->attr.sc_length = (int32_t)length;
}

static void describe(const struct rvl_layer *l, char *text, size_t size, uint32_t length)
{
	(void)l;
	snprintf(text, size, "streams of %u bits", length);
}

const struct rvl_mode rvl_mode_stochastic = {
	.name = "stochastic",
	.isa = RIVULET_MODE_STOCHASTIC,
	.missing = "this board has no stochastic lanes",
	.int8 = &rvl_mode_dense,
	.takes = takes,
	.nest = rvl_dense_nest,
	.array = rvl_dense_array,
	.energy = rivulet_stream_fj,
	.cycles = cycles,
	.pack = rvl_dense_pack,
	.bias = bias,
	.emit = emit,
	.rescale = rescale,
	.reference = reference,
	.describe = describe,
};
