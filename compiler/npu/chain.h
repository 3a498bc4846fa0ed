/* SPDX-License-Identifier: MIT */
/* A cascade of layers as it is cut: their tiles, and the rings between them. */
#ifndef RVL_CHAIN_H
#define RVL_CHAIN_H

#include "npu/layer.h"

#define RVL_CHAIN 6 /* layers of a cascade at most */

struct rvl_chain {
	uint32_t n;
	struct rvl_layer l[RVL_CHAIN];
	struct rvl_ring ring[RVL_CHAIN]; /* ring[i] holds the result of l[i]; the last is not used */
	int64_t inp;			 /* words of INP for all of them; 0: all words */
	bool fine;			 /* pools between products are made row by row */
	bool deep;			 /* rings hold whole values */
	uint64_t cost;			 /* estimated cycles */
};

/* The cuts of the least estimate, the best first. */
struct rvl_chain_cuts {
	struct rvl_chain *cut;
	uint32_t n, most;
};

/**
 * Adds the cuts of the layers of @form, which is not cut, to the best of @cuts. The first layer may
 * read a kept value, and the last one may make one.
 */
void rvl_chain_search(const struct rivulet_board *b, const struct rvl_chain *form,
		      struct rvl_chain_cuts *cuts);
/**
 * The same for cuts with which the last layer takes its operand by blocks of channels or by rows of
 * its window, if it may (rvl_may_take_blocks(), rvl_may_take_taps()).
 */
void rvl_chain_search_parts(const struct rivulet_board *b, const struct rvl_chain *form,
			    struct rvl_chain_cuts *cuts);
/** Makes layers @l those of @c; rings are copied to @ring, which the layers then point to. */
void rvl_chain_use(const struct rvl_chain *c, struct rvl_layer *const *l, struct rvl_ring *ring);

#endif
