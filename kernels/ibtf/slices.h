/* SPDX-License-Identifier: MIT */
/* The codes of one slice, and its adds. */
#ifndef RVL_IBTF_SLICES_H
#define RVL_IBTF_SLICES_H

#include "rivulet_ibtf.h"

/* What rivulet_ibtf_scratch() has room for. */
struct rvl_ibtf_scratch {
	uint16_t *code; /* n values */
	uint8_t *seen;	/* 2^RIVULET_IBTF_WIDEST values */
	uint64_t *best; /* m * p + 1 values */
	uint8_t *last;	/* m * p + 1 values */
};

struct rvl_ibtf_scratch rvl_ibtf_scratch(const struct rivulet_ibtf_shape *s, void *memory);

static inline uint32_t rvl_ibtf_columns(const struct rivulet_ibtf_shape *s)
{
	return s->m * s->p;
}

/** Puts column @c into bit @at of the codes of its slice; bit 0 sets the other bits to 0. */
void rvl_ibtf_add_column(const struct rivulet_ibtf_shape *s, const int16_t *w, uint32_t c,
			 uint32_t at, uint16_t *code);

/** Computes the codes of the @a columns from @c on. */
static inline void rvl_ibtf_codes(const struct rivulet_ibtf_shape *s, const int16_t *w, uint32_t c,
				  uint32_t a, uint16_t *code)
{
	for (uint32_t i = 0; i < a; i++)
		rvl_ibtf_add_column(s, w, c + i, i, code);
}

/** How many codes are not 0. */
uint32_t rvl_ibtf_rows(const uint16_t *code, uint32_t n);

/** How many different codes there are, 0 left out; codes are less than 2^@a. */
uint32_t rvl_ibtf_distinct(const uint16_t *code, uint32_t n, uint32_t a, uint8_t *seen);

/** Adds that fold 2^a buckets into a sums. */
static inline uint64_t rvl_ibtf_fold_adds(uint32_t a)
{
	return 2 * ((1ull << a) - 1) - 2 * a;
}

/** Adds that combine the sums of the planes of each kernel. */
static inline uint64_t rvl_ibtf_shift_adds(const struct rivulet_ibtf_shape *s)
{
	return (uint64_t)s->m * (s->p - 1);
}

/** The results of all kernels of the sums of their columns. */
void rvl_ibtf_combine(const struct rivulet_ibtf_shape *s, const uint32_t *sum, uint32_t first,
		      uint32_t n, int32_t *y);

#endif
