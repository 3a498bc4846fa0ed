/* SPDX-License-Identifier: MIT */
/* Blocks of (value, index) pairs, for rvl_conv(). */
#ifndef RVL_SIM_CONV_SPARSE_H
#define RVL_SIM_CONV_SPARSE_H

#include "engine.h"
#include "rivulet_sparse.h"

/** rvl_sparse_add() - adds the products of block @w and the INP word @x to the tm sums */
void rvl_sparse_add(const struct rivulet_board *b, const struct rivulet_sparse *s, const int8_t *x,
		    const uint8_t *w, uint32_t *sum);
/**
 * rvl_sparse_expand() - block @w as tm x tn weights
 * Pairs of a row that have the same index are added. False: their sum is not an int8.
 */
bool rvl_sparse_expand(const struct rivulet_board *b, const struct rivulet_sparse *s,
		       const uint8_t *w, int8_t *dense);

#endif
