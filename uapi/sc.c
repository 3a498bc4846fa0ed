// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/* Sobol sequences, the product table, and the streams of all codes. */
#include "rivulet_sc.h"

#include <string.h>

static const char *const circuit_name[] = {
#define CIRCUIT_NAME(name, value, word, doc) [value] = word,
	RIVULET_SC_CIRCUITS(CIRCUIT_NAME)
#undef CIRCUIT_NAME
};

const char *rivulet_sc_circuit_name(uint32_t circuit)
{
	return circuit < RIVULET_SC_CIRCUIT_COUNT ? circuit_name[circuit] : NULL;
}

int rivulet_sc_circuit_find(const char *word)
{
	for (int i = 0; i < RIVULET_SC_CIRCUIT_COUNT; i++)
		if (!strcmp(circuit_name[i], word))
			return i;
	return -1;
}

/* Joe and Kuo's primitive polynomials: degree, inner coefficients, first direction numbers. */
struct polynomial {
	uint32_t degree, inner, m[2];
};

static const struct polynomial poly[] = {
	{ 0, 0, { 0 } }, /* dimension 1: van der Corput */
	{ 1, 0, { 1 } },
	{ 2, 1, { 1, 3 } },
};

static void directions(const struct polynomial *p, uint32_t v[32])
{
	for (uint32_t i = 0; i < 32; i++) {
		if (!p->degree) {
			v[i] = UINT32_C(1) << (31 - i);
			continue;
		}
		if (i < p->degree) {
			v[i] = p->m[i] << (31 - i);
			continue;
		}
		v[i] = v[i - p->degree] ^ v[i - p->degree] >> p->degree;
		for (uint32_t k = 1; k < p->degree; k++)
			if (p->inner >> (p->degree - 1 - k) & 1)
				v[i] ^= v[i - k];
	}
}

void rivulet_sobol(uint32_t dim, uint32_t n, uint32_t *out)
{
	uint32_t v[32], x = 0;

	directions(&poly[dim - 1], v);
	for (uint32_t k = 0; k < n; k++) {
		out[k] = x;
		x ^= v[__builtin_ctz(~k)];
	}
}

/* Counts the points below (X, W) by summing along both axes. */
void rivulet_sc_counts(uint32_t bits, uint32_t length, uint16_t *out)
{
	uint32_t one = 1u << bits, row = one + 1, r1[RIVULET_SC_MAX], r2[RIVULET_SC_MAX];

	rivulet_sobol(1, length, r1);
	rivulet_sobol(2, length, r2);
	memset(out, 0, (size_t)row * row * sizeof(*out));
	for (uint32_t t = 0; t < length; t++)
		out[((r1[t] >> (32 - bits)) + 1) * row + (r2[t] >> (32 - bits)) + 1]++;
	for (uint32_t x = 1; x <= one; x++) {
		for (uint32_t w = 1, run = 0; w <= one; w++) {
			run += out[x * row + w];
			out[x * row + w] = out[(x - 1) * row + w] + run;
		}
	}
}

uint64_t rivulet_sc_hash(const uint16_t *t, size_t n)
{
	uint64_t h = UINT64_C(1469598103934665603);

	for (size_t i = 0; i < n; i++)
		h = (h ^ t[i]) * UINT64_C(1099511628211);
	return h;
}

void rivulet_sc_table_fill(struct rivulet_sc_table *t, uint32_t length)
{
	uint16_t counts[257 * 257];

	rivulet_sc_counts(RIVULET_SC_BITS, length, counts);
	for (int x = 0; x < 256; x++) {
		for (int w = -128; w < 128; w++) {
			int16_t ones = (int16_t)counts[x * 257 + 2 * (w < 0 ? -w : w)];

			t->t[x][(uint8_t)w] = w < 0 ? -ones : ones;
		}
	}
}

static void fill_stream(uint64_t *bits, uint32_t code, const uint16_t *r, uint32_t length)
{
	for (uint32_t t = 0; t < length; t++)
		bits[t / 64] |= (uint64_t)(code > r[t]) << t % 64;
}

void rivulet_sc_init(struct rivulet_sc *s, uint32_t bits, uint32_t length)
{
	uint32_t raw[2][RIVULET_SC_MAX];
	uint16_t r2[RIVULET_SC_MAX];

	memset(s, 0, sizeof(*s));
	s->bits = bits;
	s->length = length;
	s->words = (length + 63) / 64;
	rivulet_sobol(1, length, raw[0]);
	rivulet_sobol(2, length, raw[1]);
	rivulet_sobol(3, length, s->select);
	for (uint32_t t = 0; t < length; t++) {
		s->r1[t] = raw[0][t] >> (32 - bits);
		r2[t] = raw[1][t] >> (32 - bits);
	}
	for (uint32_t code = 0; code <= 1u << bits; code++) {
		fill_stream(s->x[code], code, s->r1, length);
		fill_stream(s->w[code], code, r2, length);
	}
}
