// SPDX-License-Identifier: MIT
#include "ibtf/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"

static void *get(size_t size)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		abort();
	return p;
}

void ibtf_draw(const struct rivulet_ibtf_shape *s, double sparsity, uint64_t *seed, int16_t *w)
{
	int32_t least = s->is_signed ? -(1 << (s->p - 1)) : 0;
	uint64_t others = (1u << s->p) - 1;

	for (size_t i = 0; i < (size_t)s->n * s->m; i++) {
		uint64_t chance = splitmix(seed);
		/* The values count from the least one on, without 0. */
		int32_t v = least + (int32_t)((chance & 0xffffffff) * others >> 32);

		w[i] = (int16_t)((double)(chance >> 32) < sparsity * 4294967296.0 ? 0 :
				 v >= 0						  ? v + 1 :
										    v);
	}
}

void ibtf_product_new(struct ibtf_product *p, struct rivulet_ibtf_shape s, double sparsity,
		      uint64_t *seed)
{
	p->shape = s;
	p->w = get((size_t)s.n * s.m * sizeof(*p->w));
	p->cut.width = get((size_t)s.m * s.p);
	p->scratch = get(rivulet_ibtf_scratch(&s));
	ibtf_draw(&s, sparsity, seed, p->w);
}

void ibtf_product_free(struct ibtf_product *p)
{
	free(p->w);
	free(p->cut.width);
	free(p->scratch);
}

/* ---- adds, counted one by one ---- */

/* A sum of inputs of which the program knows whether it has any term. */
struct term {
	bool any;
};

static void add(struct term *to, bool any, uint64_t *adds)
{
	*adds += to->any && any;
	to->any |= any;
}

/*
 * The adds of a slice. The buckets fold as a device does it, which does not know which are empty:
 * every add counts but the first one of each column's sum.
 */
static uint64_t adds_of_slice(const uint16_t *code, uint32_t n, uint32_t a)
{
	static struct term bucket[1 << RIVULET_IBTF_WIDEST];
	uint64_t adds = 0, any = 0;

	memset(bucket, 0, sizeof(bucket));
	for (uint32_t i = 0; i < n; i++) {
		any |= code[i];
		if (code[i])
			add(&bucket[code[i]], true, &adds);
	}
	for (uint32_t half = 1u << (a - 1); any && half; half /= 2) {
		struct term sum = { false };

		for (uint32_t v = 0; v < half; v++) {
			add(&sum, true, &adds);
			adds += v > 0; /* bucket 0 is not needed */
		}
	}
	return adds;
}

static uint64_t adds_of_slices(const struct ibtf_product *p, const uint16_t *codes)
{
	uint64_t adds = (uint64_t)p->shape.m * (p->shape.p - 1);

	for (uint32_t i = 0; i < p->cut.n; i++)
		adds += adds_of_slice(codes + (size_t)i * p->shape.n, p->shape.n, p->cut.width[i]);
	return adds;
}

static uint64_t adds_of_tables(const struct ibtf_product *p, uint32_t g, const uint16_t *codes)
{
	uint32_t columns = p->shape.m * p->shape.p, groups = (p->shape.n + g - 1) / g;
	struct term *sum = get(columns * sizeof(*sum));
	uint64_t adds = (uint64_t)p->shape.m * (p->shape.p - 1);

	memset(sum, 0, columns * sizeof(*sum));
	for (uint32_t i = 0; i < groups; i++) {
		uint32_t n = i == groups - 1 ? p->shape.n - i * g : g;

		for (uint32_t v = 1; v < 1u << n; v++)
			adds += (v & (v - 1)) != 0;
		for (uint32_t c = 0; c < columns; c++)
			add(&sum[c], codes[(size_t)i * columns + c] != 0, &adds);
	}
	free(sum);
	return adds;
}

/* ---- one case ---- */

static void plain_product(const struct ibtf_product *p, const int32_t *x, int32_t *y)
{
	for (uint32_t k = 0; k < p->shape.m; k++) {
		y[k] = 0;
		for (uint32_t i = 0; i < p->shape.n; i++)
			y[k] += x[i] * p->w[(size_t)k * p->shape.n + i];
	}
}

static const char *try_slices(const struct ibtf_product *p, const int32_t *x, const int32_t *want)
{
	static uint32_t buckets[1 << RIVULET_IBTF_WIDEST];
	uint16_t *codes = get((size_t)p->cut.n * p->shape.n * sizeof(*codes));
	int32_t *y = get(p->shape.m * sizeof(*y));
	const char *wrong = NULL;

	rivulet_ibtf_factorise(&p->shape, p->w, &p->cut, codes);
	rivulet_ibtf_run(&p->shape, &p->cut, codes, x, buckets, y);
	if (memcmp(y, want, p->shape.m * sizeof(*y)))
		wrong = "buckets give other integers";
	else if (rivulet_ibtf_count(&p->shape, p->w, &p->cut, p->scratch) !=
		 adds_of_slices(p, codes))
		wrong = "buckets take another number of adds";
	free(codes);
	free(y);
	return wrong;
}

static const char *try_tables(const struct ibtf_product *p, uint32_t g, const int32_t *x,
			      const int32_t *want)
{
	size_t columns = (size_t)p->shape.m * p->shape.p, groups = (p->shape.n + g - 1) / g;
	static uint32_t table[1 << RIVULET_IBTF_WIDEST];
	uint16_t *codes = get(columns * groups * sizeof(*codes));
	int32_t *y = get(p->shape.m * sizeof(*y));
	const char *wrong = NULL;

	rivulet_ibtf_tables_factorise(&p->shape, p->w, g, codes);
	rivulet_ibtf_tables_run(&p->shape, g, codes, x, table, y);
	if (memcmp(y, want, p->shape.m * sizeof(*y)))
		wrong = "tables give other integers";
	else if (rivulet_ibtf_tables_count(&p->shape, p->w, g) != adds_of_tables(p, g, codes))
		wrong = "tables take another number of adds";
	free(codes);
	free(y);
	return wrong;
}

/* The fitted slices, those of one width, those that end with kernels, or any. */
static const char *cut_somehow(struct ibtf_product *p, uint64_t *seed)
{
	uint32_t columns = p->shape.m * p->shape.p, a = chance_range(seed, 1, RIVULET_IBTF_WIDEST);
	uint64_t least;

	switch (chance_range(seed, 0, 3)) {
	case 0:
		rivulet_ibtf_cut_evenly(&p->shape, a, &p->cut);
		return NULL;
	case 1:
		rivulet_ibtf_cut_kernels(&p->shape, a, &p->cut);
		return NULL;
	case 2:
		p->cut.n = 0;
		for (uint32_t left = columns, w; left; left -= w) {
			w = chance_range(seed, 1,
					 left < RIVULET_IBTF_WIDEST ? left : RIVULET_IBTF_WIDEST);
			p->cut.width[p->cut.n++] = (uint8_t)w;
		}
		return NULL;
	}
	rivulet_ibtf_cut_evenly(&p->shape, a, &p->cut);
	least = rivulet_ibtf_count(&p->shape, p->w, &p->cut, p->scratch);
	if (rivulet_ibtf_cut_best(&p->shape, p->w, p->scratch, &p->cut) > least)
		return "the fitted slices take more adds than even ones";
	return NULL;
}

static const char *try_product(struct ibtf_product *p, uint64_t *seed)
{
	int32_t *x = get(p->shape.n * sizeof(*x)), *want = get(p->shape.m * sizeof(*want));
	const char *wrong = cut_somehow(p, seed);

	for (uint32_t i = 0; i < p->shape.n; i++)
		x[i] = (int32_t)chance_range(seed, 0, 511) - 256;
	plain_product(p, x, want);
	wrong = wrong ? wrong : try_slices(p, x, want);
	wrong = wrong ? wrong : try_tables(p, chance_range(seed, 1, 10), x, want);
	free(x);
	free(want);
	return wrong;
}

const char *ibtf_random_case(uint64_t seed)
{
	static const uint32_t most_n[] = { 16, 64, 300 };
	struct rivulet_ibtf_shape s = { .n = chance_range(&seed, 1, most_n[seed % 3]),
					.m = chance_range(&seed, 1, 12),
					.p = chance_range(&seed, 1, RIVULET_IBTF_BITS),
					.is_signed = chance_range(&seed, 0, 1) };
	double sparsity = seed & 64 ? 0 : chance_uniform(&seed, 0, 1);
	struct ibtf_product p;
	const char *wrong;

	ibtf_product_new(&p, s, sparsity, &seed);
	wrong = try_product(&p, &seed);
	ibtf_product_free(&p);
	return wrong;
}
