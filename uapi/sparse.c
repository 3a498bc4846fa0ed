// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
#include "rivulet_sparse.h"
#include "rivulet_isa.h"

static uint32_t div_up(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static uint32_t log2_up(uint32_t n)
{
	uint32_t bits = 0;

	while (n > UINT32_C(1) << bits)
		bits++;
	return bits;
}

/*
 * Bytes that begin at a multiple of tn, and are at most tm x dn, are in different banks of WGT
 * (docs/boards.md 5). Therefore values and indices are padded to multiples of tn.
 */
struct rivulet_sparse rivulet_sparse_of(const struct rivulet_board *b, uint32_t kept)
{
	struct rivulet_sparse s = {
		.passes = div_up(kept, b->dn),
		.bits = log2_up(b->tn),
		.align = b->tn / gcd(b->tn, RIVULET_WGT_WORD),
	};
	uint32_t pairs = b->tm * b->dn, unit = s.align * RIVULET_WGT_WORD;

	s.values = div_up(pairs, unit) * s.align;
	s.indices = div_up(pairs * s.bits, 8 * unit) * s.align;
	return s;
}

/* At most 6 bits, which lie in one byte or in two. */
uint32_t rivulet_sparse_index(const struct rivulet_sparse *s, const uint8_t *at, uint32_t i)
{
	uint32_t bit = i * s->bits, shift = bit % 8, two = at[bit / 8];

	if (shift + s->bits > 8)
		two |= (uint32_t)at[bit / 8 + 1] << 8;
	return two >> shift & ((UINT32_C(1) << s->bits) - 1);
}

void rivulet_sparse_put(const struct rivulet_sparse *s, uint8_t *at, uint32_t i, uint32_t index)
{
	uint32_t bit = i * s->bits, shift = bit % 8;

	at[bit / 8] |= index << shift;
	if (shift + s->bits > 8)
		at[bit / 8 + 1] |= index >> (8 - shift);
}
