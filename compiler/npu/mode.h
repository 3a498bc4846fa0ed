/* SPDX-License-Identifier: MIT */
/* What modes share: those with the dense format of weights take its functions. */
#ifndef RVL_MODE_H
#define RVL_MODE_H

#include "npu/stream.h"

extern const struct rvl_mode rvl_mode_dense;

void rvl_dense_nest(const struct rivulet_board *b, const struct rvl_layer *l, struct rvl_nest *n);
uint64_t rvl_dense_array(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs);
void rvl_dense_pack(const struct rivulet_board *b, const struct rvl_layer *l,
		    const struct rvl_block *k, int8_t *out);
/** Summand @term of a weight in [-255, 255]. */
int8_t rvl_summand(int v, uint32_t term);

#endif
