/* SPDX-License-Identifier: MIT */
/* The seed's formulas: the adds that it expects, and the width for which they are least. */
#include <math.h>

#include "rivulet_ibtf.h"

double rivulet_ibtf_lambert(double x)
{
	double w = log1p(x);

	/* Halley's iteration; from log1p(x) it converges to the last bits in less than ten steps.
	 */
	for (int i = 0; i < 20; i++) {
		double e = exp(w), f = w * e - x;

		w -= f / (e * (w + 1) - (w + 2) * f / (2 * w + 2));
	}
	return w;
}

double rivulet_ibtf_stationary(double rows)
{
	return (1 + rivulet_ibtf_lambert(rows / M_E)) / M_LN2;
}

double rivulet_ibtf_formula(const struct rivulet_ibtf_shape *s, double rows, uint32_t a)
{
	uint64_t columns = (uint64_t)s->m * s->p;

	return (rows + (double)(1u << a)) * (double)((columns + a - 1) / a);
}

uint32_t rivulet_ibtf_formula_best(const struct rivulet_ibtf_shape *s, double rows)
{
	uint32_t best = 1;

	for (uint32_t a = 2; a <= RIVULET_IBTF_WIDEST; a++)
		if (rivulet_ibtf_formula(s, rows, a) < rivulet_ibtf_formula(s, rows, best))
			best = a;
	return best;
}

uint64_t rivulet_ibtf_nonzero(const struct rivulet_ibtf_shape *s, const int16_t *w)
{
	uint64_t n = 0;

	for (size_t i = 0; i < (size_t)s->n * s->m; i++)
		n += w[i] != 0;
	return n;
}

uint32_t rivulet_ibtf_bits(const int16_t *w, size_t count, bool *is_signed)
{
	int32_t least = 0, most = 0, negative;
	uint32_t bits = 1;

	for (size_t i = 0; i < count; i++) {
		least = w[i] < least ? w[i] : least;
		most = w[i] > most ? w[i] : most;
	}
	*is_signed = least < 0;
	negative = *is_signed ? -(least + 1) : 0;
	while ((most | negative) >> bits)
		bits++;
	return *is_signed ? bits + ((most | negative) > 0) : bits;
}
