/* SPDX-License-Identifier: MIT */
/* What modes share: those with the dense format of weights take its functions. */
#ifndef RVL_MODE_H
#define RVL_MODE_H

#include "npu/stream.h"

extern const struct rvl_mode rvl_mode_dense, rvl_mode_binary;

/* What the binary mode computes once of a layer (l->p.own). */
struct rvl_binary_layer {
	uint32_t lanes;	 /* log2 of the pixels of a word */
	uint32_t passes; /* of a block */
	uint64_t clear;	 /* struct rvl_nest */
	int64_t channels;
	int64_t padding; /* what a position of the padding is: 0, 1, -1 */
};

/** Sets l->p.own; l->in.pixels and l->p.win are set. False without memory. */
bool rvl_binary_form(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l);

void rvl_dense_nest(const struct rivulet_board *b, const struct rvl_layer *l, struct rvl_nest *n);
uint64_t rvl_dense_array(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs);
void rvl_dense_pack(const struct rivulet_board *b, const struct rvl_layer *l,
		    const struct rvl_block *k, int8_t *out);
/** Summand @term of a weight in [-255, 255]. */
int8_t rvl_summand(int v, uint32_t term);

#endif
