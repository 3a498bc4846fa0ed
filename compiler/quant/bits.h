/* SPDX-License-Identifier: MIT */
/* How many bits the weights of each product get. */
#ifndef RVL_BITS_ALLOCATION_H
#define RVL_BITS_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#define RVL_MOST_BITS 8

/* A product, and the noise of the outputs when its weights alone have fewer than 8 bits. */
struct rvl_bits_layer {
	uint32_t node; /* index in the graph's nodes; of no concern to the search */
	uint64_t macs; /* of an inference */
	double noise[RVL_MOST_BITS + 1]; /* by bits, 1 to 8 */
	uint8_t bits;			 /* the allocation */
};

/* One product gets fewer bits. */
struct rvl_bits_step {
	uint32_t layer;
	uint8_t from, to;
};

/** The bits of the weights of all multiplications of an inference, by the allocation. */
uint64_t rvl_bits_sum(const struct rvl_bits_layer *list, uint32_t n);

/**
 * All steps from 8 bits to 1 bit in each product, those that add the least noise for each bit saved
 * first. Noise of several products is taken to add up. Leaves 8 bits in @list.
 * @step: room for n * (RVL_MOST_BITS - 1). Returns how many there are.
 */
uint32_t rvl_bits_path(struct rvl_bits_layer *list, uint32_t n, struct rvl_bits_step *step);

/** Allocates what the first @count steps say. */
void rvl_bits_follow(struct rvl_bits_layer *list, uint32_t n, const struct rvl_bits_step *step,
		     uint32_t count);

/**
 * Follows a path until rvl_bits_sum() is at most @most, and gives what remains to the products
 * where it removes the most noise. @most is at least the multiplications of an inference.
 */
void rvl_bits_fill(struct rvl_bits_layer *list, uint32_t n, const struct rvl_bits_step *step,
		   uint32_t steps, uint64_t most);

#endif
