/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Weights of sparse CONV: of each row of a tm x tn block only (value, index) pairs, dn of the board
 * in each pass (docs/isa.md 5).
 */
#ifndef RIVULET_SPARSE_H
#define RIVULET_SPARSE_H

#include "rivulet_board.h"

/**
 * struct rivulet_sparse - the pairs of one block, as they lie in WGT
 *
 * A block is @passes passes of tm * dn pairs. A pass is @values words of values, and behind them
 * @indices words of indices of @bits each.
 */
struct rivulet_sparse {
	uint32_t passes;
	uint32_t values, indices; /* WGT words of a pass */
	uint32_t bits;
	uint32_t align; /* WGT words; every block begins at a multiple of it */
};

/** rivulet_sparse_of() - the format of blocks that keep @kept pairs of each row; 0 has no passes */
struct rivulet_sparse rivulet_sparse_of(const struct rivulet_board *b, uint32_t kept);

/** rivulet_sparse_words() - WGT words of a block */
static inline uint32_t rivulet_sparse_words(const struct rivulet_sparse *s)
{
	return s->passes * (s->values + s->indices);
}

/** rivulet_sparse_index() - index of pair @i of the pass whose indices begin at @at */
uint32_t rivulet_sparse_index(const struct rivulet_sparse *s, const uint8_t *at, uint32_t i);
/** rivulet_sparse_put() - sets that index, in zeroed memory */
void rivulet_sparse_put(const struct rivulet_sparse *s, uint8_t *at, uint32_t i, uint32_t index);

#endif
