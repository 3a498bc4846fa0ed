// SPDX-License-Identifier: MIT
/*
 * The sparse weights of CONV. The engine multiplies pairs in the order of their passes; the sum does
 * not depend on the order, so that a block of pairs can also be written out as a dense one.
 */
#include "conv_sparse.h"

#include <string.h>

void rvl_sparse_add(const struct rivulet_board *b, const struct rivulet_sparse *s, const int8_t *x,
		    const uint8_t *w, uint32_t *sum)
{
	for (uint32_t pass = 0; pass < s->passes; pass++) {
		const uint8_t *indices = w + s->values * RIVULET_WGT_WORD;

		for (uint32_t i = 0; i < b->tm * b->dn; i++) {
			uint32_t n = rivulet_sparse_index(s, indices, i);

			if (n < b->tn)
				sum[i / b->dn] += x[n] * (int8_t)w[i];
		}
		w = indices + s->indices * RIVULET_WGT_WORD;
	}
}

bool rvl_sparse_expand(const struct rivulet_board *b, const struct rivulet_sparse *s,
		       const uint8_t *w, int8_t *dense)
{
	memset(dense, 0, b->tm * b->tn);
	for (uint32_t pass = 0; pass < s->passes; pass++) {
		const uint8_t *indices = w + s->values * RIVULET_WGT_WORD;

		for (uint32_t i = 0; i < b->tm * b->dn; i++) {
			uint32_t n = rivulet_sparse_index(s, indices, i);
			int8_t *to = dense + i / b->dn * b->tn + n;

			if (n < b->tn && __builtin_add_overflow(*to, (int8_t)w[i], to))
				return false;
		}
		w = indices + s->indices * RIVULET_WGT_WORD;
	}
	return true;
}
