/* SPDX-License-Identifier: MIT */
/* Counts the values of the tensors of a float graph over all examples, in bounded memory. */
#ifndef RVL_OBSERVE_H
#define RVL_OBSERVE_H

#include "quant/samples.h"

#define RVL_BINS 4096 /* of both signs */
#define RVL_BIN_ZERO (RVL_BINS / 2) /* first bin of values from 0 on */

/*
 * A sum of numbers of RVL_MEAN_BITS fractional bits, which is exact in any order. The integer parts and
 * the fractions, each 0 or more, are summed separately, so that neither sum overflows within 2^32
 * summands.
 */
struct rvl_sum {
	int64_t whole;
	uint64_t fraction;
};

#define RVL_MEAN_BITS 32

/*
 * Bin i counts values from (i - RVL_BIN_ZERO) * 2^exponent on. The exponent grows with the largest
 * magnitude, and neighbouring bins merge. Therefore the counts do not depend on the order of the examples.
 */
struct rvl_seen {
	bool wanted;
	bool bad; /* a value was infinite or no number */
	float lo, hi; /* bounds, 0 included */
	uint64_t n, zeros; /* values, and how many of them are 0 */
	int32_t exponent;
	uint64_t *bin;
	/* By channel, axis 1 of the tensor; 0: not wanted. */
	uint32_t channels;
	struct rvl_sum *mean; /* over runs, of the mean of each run */
	uint64_t runs;
};

/**
 * Runs the graph of @s over all examples and fills seen[], by tensor id, where wanted.
 * -EINVAL names a tensor with values that are no numbers.
 */
int rvl_observe(const struct rvl_samples *s, struct rvl_seen *seen, struct rvl_err *err);

/** Frees what rvl_observe() has allocated, of @n tensors. */
void rvl_seen_clear(struct rvl_seen *seen, uint32_t n);

/** The mean of channel @c of all examples. */
double rvl_seen_mean(const struct rvl_seen *s, uint32_t c);

#endif
