/* SPDX-License-Identifier: MIT */
/* Sums of stochastic products: what op_sc.c and its micro-kernel share. */
#ifndef RVL_KERNELS_SC_H
#define RVL_KERNELS_SC_H

#include "int8/product.h"
#include "rivulet_sc.h"

#define RVL_SC_NR 64 /* outputs of a tile */

/*
 * Weights of an operator. A sum covers @runs runs of @run adjacent input bytes each (a kernel row,
 * or a row of a matrix), four bytes at a time. @mag and @sign are in the order that the micro-kernel
 * reads; @w is in the order [group][output][run][byte].
 */
struct rvl_sc {
	int64_t groups, n, tiles;	/* outputs and tiles of a group */
	int64_t runs, run;
	int64_t *off;			/* of each run from the base, bytes */
	int8_t *w;
	uint8_t *mag;			/* [group][tile][run][quad][4][64] */
	int8_t *sign;			/* [group][tile][run][quad][4][16][4] */
	uint8_t *ones;			/* [256][128]: the table's row of an input, by |w| */
	struct rivulet_sc_table *table;
	struct rivulet_sc *streams;	/* other circuits than AND-BIN */
	struct rivulet_sc_adder adder;
	bool wide;			/* a weight is -128, which @ones has no entry for */
	int32_t *bias;			/* [group][tile * 64] */
	float *scale;
	struct rvl_i8_post post;
};

static inline int64_t rvl_sc_quads(const struct rvl_sc *s)
{
	return (s->run + 3) / 4;
}

/** acc[64] += sums of one tile. @x: base of the inputs, readable three bytes past the last run */
void rvl_sc_tile_vbmi(const struct rvl_sc *s, const uint8_t *x, const uint8_t *mag,
		      const int8_t *sign, int32_t *acc);

#endif
