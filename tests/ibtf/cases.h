/* SPDX-License-Identifier: MIT */
/* Weights of the seed's rule, and random products compared with an integer product. */
#ifndef RVL_TEST_IBTF_CASES_H
#define RVL_TEST_IBTF_CASES_H

#include "rivulet_ibtf.h"

/** The seed's equation (6): 0 with probability @sparsity, else one of the other values of P bits.
 */
void ibtf_draw(const struct rivulet_ibtf_shape *s, double sparsity, uint64_t *seed, int16_t *w);

/** Memory for one product: weights, slices and scratch. Aborts without memory. */
struct ibtf_product {
	struct rivulet_ibtf_shape shape;
	int16_t *w;
	struct rivulet_ibtf_slices cut;
	void *scratch;
};

void ibtf_product_new(struct ibtf_product *p, struct rivulet_ibtf_shape s, double sparsity,
		      uint64_t *seed);
void ibtf_product_free(struct ibtf_product *p);

/**
 * One random product: shape, sparsity, sign, slices and groups. Returns NULL if both forms give the
 * integers of a plain product and execute as many adds as are counted, or what is wrong.
 */
const char *ibtf_random_case(uint64_t seed);

#endif
