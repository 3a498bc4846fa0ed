/* SPDX-License-Identifier: MIT */
#include "quant/range.h"

#include <math.h>
#include <stdlib.h>

#define STEPS 64 /* bounds tried from 0 to the largest value, each way */
#define LEVELS 256

static double bin_width(const struct rvl_seen *s)
{
	return ldexp(1, s->exponent);
}

/* The lower edge of a bin; bin RVL_BINS is the upper edge of the last one. */
static double edge(const struct rvl_seen *s, int32_t bin)
{
	return (double)(bin - RVL_BIN_ZERO) * bin_width(s);
}

static struct rvl_range clip(const struct rvl_seen *s, double lo, double hi)
{
	return (struct rvl_range) { .lo = fmaxf(s->lo, (float)lo), .hi = fminf(s->hi, (float)hi) };
}

/* ---- percentile ---- */

/* Cuts the whole share at one side where all values have one sign, else half of it at each side. */
static struct rvl_range percentile(const struct rvl_seen *s, double percent)
{
	double cut = (double)s->n * (100 - percent) / 100 + 1e-6;
	int32_t lo = 0, hi = RVL_BINS;
	double sum = 0;

	if (s->lo < 0 && s->hi > 0)
		cut /= 2;
	while (lo < RVL_BIN_ZERO && sum + (double)s->bin[lo] <= cut)
		sum += (double)s->bin[lo++];
	sum = 0;
	while (hi > RVL_BIN_ZERO && sum + (double)s->bin[hi - 1] <= cut)
		sum += (double)s->bin[--hi];
	return clip(s, edge(s, lo), edge(s, hi));
}

/* ---- mean squared error ---- */

/* Sums of the counts, values and squares of the bins below each, for the centres of the bins. */
struct sums {
	double n[RVL_BINS + 1], v[RVL_BINS + 1], vv[RVL_BINS + 1];
};

static void add_up(const struct rvl_seen *s, struct sums *p)
{
	p->n[0] = p->v[0] = p->vv[0] = 0;
	for (int32_t i = 0; i < RVL_BINS; i++) {
		double count = (double)s->bin[i], at = edge(s, i) + bin_width(s) / 2;

		if (i == RVL_BIN_ZERO)
			count -= (double)s->zeros; /* they have no error in any range */
		p->n[i + 1] = p->n[i] + count;
		p->v[i + 1] = p->v[i] + count * at;
		p->vv[i + 1] = p->vv[i] + count * at * at;
	}
}

/* Sum of (v - bound)^2 over the bins [first, past). */
static double beyond(const struct sums *p, int32_t first, int32_t past, double bound)
{
	double n = p->n[past] - p->n[first], v = p->v[past] - p->v[first];

	return p->vv[past] - p->vv[first] - 2 * bound * v + bound * bound * n;
}

/* Rounding inside the range gives step^2 / 12, clipping the distance from the bound. */
static double squared_error(const struct rvl_seen *s, const struct sums *p, int32_t lo, int32_t hi)
{
	double step = (edge(s, hi) - edge(s, lo)) / (LEVELS - 1);

	return (p->n[hi] - p->n[lo]) * step * step / 12 + beyond(p, 0, lo, edge(s, lo)) +
	       beyond(p, hi, RVL_BINS, edge(s, hi));
}

/* The bin at a share of the way from 0 to a bound, rounded away from 0. */
static int32_t bin_at(const struct rvl_seen *s, float bound, int32_t step)
{
	double at = (double)bound * step / STEPS / bin_width(s);

	return RVL_BIN_ZERO + (int32_t)(at < 0 ? floor(at) : ceil(at));
}

static struct rvl_range least_squares(const struct rvl_seen *s)
{
	int32_t best_lo = bin_at(s, s->lo, STEPS), best_hi = bin_at(s, s->hi, STEPS);
	struct sums *p = malloc(sizeof(*p));
	double least;

	if (!p) /* the whole range is valid too */
		return clip(s, (double)s->lo, (double)s->hi);
	add_up(s, p);
	least = squared_error(s, p, best_lo, best_hi);
	for (int32_t i = s->lo < 0 ? 1 : STEPS; i <= STEPS; i++) {
		for (int32_t k = s->hi > 0 ? 1 : STEPS; k <= STEPS; k++) {
			int32_t lo = bin_at(s, s->lo, i), hi = bin_at(s, s->hi, k);
			double e = squared_error(s, p, lo, hi);

			if (e < least) {
				least = e;
				best_lo = lo;
				best_hi = hi;
			}
		}
	}
	free(p);
	return clip(s, edge(s, best_lo), edge(s, best_hi));
}

/* ---- entropy ---- */

/* Counts of bins [lo, hi), with what lies beyond in the first and in the last of them. */
static double count_at(const struct rvl_seen *s, int32_t lo, int32_t hi, int32_t i, double below,
		       double above)
{
	double n = (double)s->bin[i];

	n += i == lo ? below : 0;
	return n + (i == hi - 1 ? above : 0);
}

/*
 * Divergence of the clipped distribution from the same with LEVELS values, each of which stands for
 * the mean of the bins that are not empty.
 */
static double divergence(const struct rvl_seen *s, int32_t lo, int32_t hi)
{
	double below = 0, above = 0, inside = 0, d = 0;
	int32_t bins = hi - lo;

	for (int32_t i = 0; i < RVL_BINS; i++)
		*(i < lo ? &below : i < hi ? &inside : &above) += (double)s->bin[i];
	if (!(inside > 0))
		return INFINITY;
	for (int32_t k = 0; k < LEVELS; k++) {
		int32_t first = lo + (int32_t)((int64_t)bins * k / LEVELS);
		int32_t past = lo + (int32_t)((int64_t)bins * (k + 1) / LEVELS);
		double sum = 0;
		int32_t full = 0;

		for (int32_t i = first; i < past; i++) {
			sum += (double)s->bin[i];
			full += count_at(s, lo, hi, i, below, above) > 0;
		}
		for (int32_t i = first; i < past; i++) {
			double p = count_at(s, lo, hi, i, below, above) / (double)s->n;
			double q = fmax(sum, 1e-3) / full / inside;

			d += p > 0 ? p * log(p / q) : 0;
		}
	}
	return d;
}

/* Tries bounds that are equal shares of the least and of the largest value. */
static struct rvl_range least_divergence(const struct rvl_seen *s)
{
	int32_t best_lo = bin_at(s, s->lo, STEPS), best_hi = bin_at(s, s->hi, STEPS);
	double least = INFINITY;

	for (int32_t i = STEPS; i > 0; i--) {
		int32_t lo = bin_at(s, s->lo, i), hi = bin_at(s, s->hi, i);
		double d = hi - lo >= LEVELS ? divergence(s, lo, hi) : INFINITY;

		if (d < least) {
			least = d;
			best_lo = lo;
			best_hi = hi;
		}
	}
	return clip(s, edge(s, best_lo), edge(s, best_hi));
}

/* ---- all ---- */

struct rvl_range rvl_range_of(const struct rvl_seen *s, enum rivulet_range method, double percent)
{
	if (!s->n || (s->lo >= 0 && s->hi <= 0))
		return (struct rvl_range) { .lo = 0, .hi = 0 };
	switch (method) {
	case RIVULET_RANGE_PERCENTILE:
		return percentile(s, percent);
	case RIVULET_RANGE_ENTROPY:
		return least_divergence(s);
	case RIVULET_RANGE_MSE:
		return least_squares(s);
	default:
		return (struct rvl_range) { .lo = s->lo, .hi = s->hi };
	}
}

void rvl_range_params(struct rvl_range r, enum rvl_type type, float *scale, int32_t *zp)
{
	int32_t least = type == RVL_TYPE_S8 ? -128 : 0;

	*scale = (r.hi - r.lo) / 255;
	if (!(*scale >= 0x1p-100f) || !isfinite(*scale))
		*scale = isfinite(*scale) ? 1.0f / 255 : 0x1p100f;
	*zp = least + (r.lo < 0 ? (int32_t)fminf(rintf(-r.lo / *scale), 255) : 0);
}
