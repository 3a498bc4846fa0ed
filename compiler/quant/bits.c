/* SPDX-License-Identifier: MIT */
#include "quant/bits.h"

#include <math.h>

uint64_t rvl_bits_sum(const struct rvl_bits_layer *list, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += list[i].macs * list[i].bits;
	return sum;
}

static void widen_all(struct rvl_bits_layer *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		list[i].bits = RVL_MOST_BITS;
}

/* Noise that a change of width adds, for each bit of a multiplication that it saves. */
static double price(const struct rvl_bits_layer *l, uint32_t from, uint32_t to)
{
	return (l->noise[to] - l->noise[from]) / ((double)l->macs * (from - to));
}

/* The cheapest step of all. False: every product has one bit. */
static bool cheapest(const struct rvl_bits_layer *list, uint32_t n, struct rvl_bits_step *out)
{
	double least = INFINITY;
	bool any = false;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t to = list[i].bits; to-- > 1;) {
			double p = price(&list[i], list[i].bits, to);

			if (any && p >= least)
				continue;
			least = p;
			any = true;
			*out = (struct rvl_bits_step){ i, list[i].bits, (uint8_t)to };
		}
	return any;
}

uint32_t rvl_bits_path(struct rvl_bits_layer *list, uint32_t n, struct rvl_bits_step *step)
{
	uint32_t count = 0;

	widen_all(list, n);
	while (cheapest(list, n, &step[count])) {
		list[step[count].layer].bits = step[count].to;
		count++;
	}
	widen_all(list, n);
	return count;
}

void rvl_bits_follow(struct rvl_bits_layer *list, uint32_t n, const struct rvl_bits_step *step,
		     uint32_t count)
{
	widen_all(list, n);
	for (uint32_t i = 0; i < count; i++)
		list[step[i].layer].bits = step[i].to;
}

/* The product and width that remove the most noise with at most @spare bits. False: none does. */
static bool most_useful(const struct rvl_bits_layer *list, uint32_t n, uint64_t spare,
			struct rvl_bits_step *out)
{
	double most = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t to = list[i].bits + 1u; to <= RVL_MOST_BITS; to++) {
			double gain = list[i].noise[list[i].bits] - list[i].noise[to];

			if (list[i].macs * (to - list[i].bits) > spare || gain <= most)
				continue;
			most = gain;
			*out = (struct rvl_bits_step){ i, list[i].bits, (uint8_t)to };
		}
	return most > 0;
}

void rvl_bits_fill(struct rvl_bits_layer *list, uint32_t n, const struct rvl_bits_step *step,
		   uint32_t steps, uint64_t most)
{
	struct rvl_bits_step up;

	widen_all(list, n);
	for (uint32_t i = 0; i < steps && rvl_bits_sum(list, n) > most; i++)
		list[step[i].layer].bits = step[i].to;
	while (most_useful(list, n, most - rvl_bits_sum(list, n), &up))
		list[up.layer].bits = up.to;
}
