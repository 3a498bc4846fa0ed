/* SPDX-License-Identifier: MIT */
/* Pseudo-random numbers from a seed, so that a run can be repeated. */
#ifndef RVL_TEST_CHANCE_H
#define RVL_TEST_CHANCE_H

#include <stdint.h>

/* splitmix64, which takes any seed */
static inline uint64_t splitmix(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* xorshift64, which takes any seed except 0 */
static inline uint64_t xorshift(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* A uniform number in [lo, hi], by splitmix64 */
static inline uint32_t chance_range(uint64_t *seed, uint32_t lo, uint32_t hi)
{
	return lo + (uint32_t)(splitmix(seed) % (hi - lo + 1));
}

static inline double chance_uniform(uint64_t *seed, double lo, double hi)
{
	return lo + (hi - lo) * (double)(splitmix(seed) >> 11) / 9007199254740992.0;
}

#endif
