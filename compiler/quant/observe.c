/* SPDX-License-Identifier: MIT */
#include "quant/observe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST (-160) /* exponent of an empty histogram: below all floats but 0 */
#define MAX_MEAN 0x1p30 /* of a channel in one run; larger ones saturate */

static int bins_new(struct rvl_seen *r)
{
	r->exponent = SMALLEST;
	r->bin = calloc(RVL_BINS, sizeof(*r->bin));
	if (r->channels)
		r->mean = calloc(r->channels, sizeof(*r->mean));
	return r->bin && (r->mean || !r->channels) ? 0 : -ENOMEM;
}

void rvl_seen_clear(struct rvl_seen *seen, uint32_t n)
{
	for (uint32_t i = 0; seen && i < n; i++) {
		free(seen[i].bin);
		free(seen[i].mean);
		seen[i].bin = NULL;
		seen[i].mean = NULL;
	}
}

double rvl_seen_mean(const struct rvl_seen *s, uint32_t c)
{
	const struct rvl_sum *m = &s->mean[c];

	return s->runs ? ((double)m->whole + ldexp((double)m->fraction, -RVL_MEAN_BITS)) /
			 (double)s->runs : 0;
}

static void add_mean(struct rvl_sum *m, double mean)
{
	int64_t v = llrint(ldexp(fmin(fmax(mean, -MAX_MEAN), MAX_MEAN), RVL_MEAN_BITS));
	int64_t whole = v >> RVL_MEAN_BITS; /* rounds down, so that the rest is not negative */

	m->whole += whole;
	m->fraction += (uint64_t)v - ((uint64_t)whole << RVL_MEAN_BITS);
}

/* Widens the bins to 2^exponent. */
static void widen(struct rvl_seen *r, int32_t exponent)
{
	uint64_t wide[RVL_BINS] = { 0 };
	int32_t shift = exponent - r->exponent;

	if (shift <= 0)
		return;
	shift = shift > 31 ? 31 : shift;
	for (int32_t i = 0; i < RVL_BINS; i++) /* >> rounds down, for negative numbers too */
		wide[((i - RVL_BIN_ZERO) >> shift) + RVL_BIN_ZERO] += r->bin[i];
	memcpy(r->bin, wide, sizeof(wide));
	r->exponent = exponent;
}

/* The exponent with which all magnitudes up to @top have a bin. */
static int32_t exponent_of(float top)
{
	return top > 0 ? ilogbf(top) + 1 - (ilogbf(RVL_BIN_ZERO)) : SMALLEST;
}

static void see_values(struct rvl_seen *r, const float *v, uint64_t n)
{
	float lo = 0, hi = 0, inverse;
	bool bad = false;

	for (uint64_t i = 0; i < n; i++) {
		lo = v[i] < lo ? v[i] : lo;
		hi = v[i] > hi ? v[i] : hi;
		bad |= !(v[i] - v[i] == 0); /* infinite or NaN */
	}
	r->bad |= bad;
	if (r->bad)
		return;
	r->lo = fminf(r->lo, lo);
	r->hi = fmaxf(r->hi, hi);
	widen(r, exponent_of(fmaxf(hi, -lo)));
	inverse = ldexpf(1, r->exponent < -126 ? 126 : -r->exponent);
	for (uint64_t i = 0; i < n; i++) {
		r->bin[(int32_t)floorf(v[i] * inverse) + RVL_BIN_ZERO]++;
		r->zeros += v[i] == 0;
	}
	r->n += n;
}

static void see_means(struct rvl_seen *r, const struct rvl_shape *s, const float *v)
{
	int64_t inner = 1;

	for (int32_t i = 2; i < s->rank; i++)
		inner *= s->dim[i];
	for (uint32_t c = 0; c < r->channels; c++) {
		double sum = 0;

		for (int64_t b = 0; b < s->dim[0]; b++)
			for (int64_t i = 0; i < inner; i++)
				sum += (double)v[(b * r->channels + c) * inner + i];
		add_mean(&r->mean[c], sum / (double)(inner * s->dim[0]));
	}
	r->runs++;
}

/* ---- all tensors, on several threads ---- */

struct observation {
	const struct rvl_samples *s;
	struct rvl_seen **of_thread;
};

static void see_run(void *arg, const struct rvl_interp *it, uint32_t thread, uint64_t run)
{
	struct observation *o = arg;
	struct rvl_seen *seen = o->of_thread[thread];

	(void)run;
	for (uint32_t i = 0; i < o->s->g->n_tensors; i++) {
		const struct rvl_tensor *t = o->s->g->tensors[i];
		const struct rvl_shape *shape = rvl_interp_shape(it, t);
		const float *v = rvl_interp_data(it, t);

		if (!seen[i].wanted || rvl_shape_count(shape) < 1)
			continue;
		see_values(&seen[i], v, (uint64_t)rvl_shape_count(shape));
		if (seen[i].channels && !seen[i].bad)
			see_means(&seen[i], shape, v);
	}
}

static void merge(struct rvl_seen *to, struct rvl_seen *from)
{
	if (from->exponent > to->exponent)
		widen(to, from->exponent);
	else
		widen(from, to->exponent);
	for (uint32_t i = 0; i < RVL_BINS; i++)
		to->bin[i] += from->bin[i];
	for (uint32_t c = 0; c < to->channels; c++) {
		to->mean[c].whole += from->mean[c].whole;
		to->mean[c].fraction += from->mean[c].fraction;
	}
	to->bad |= from->bad;
	to->lo = fminf(to->lo, from->lo);
	to->hi = fmaxf(to->hi, from->hi);
	to->n += from->n;
	to->zeros += from->zeros;
	to->runs += from->runs;
}

static int prepare(struct observation *o, const struct rvl_seen *wanted)
{
	uint32_t n = o->s->g->n_tensors;

	for (uint32_t k = 0; k < o->s->threads; k++) {
		o->of_thread[k] = calloc(n + 1u, sizeof(**o->of_thread));
		if (!o->of_thread[k])
			return -ENOMEM;
		for (uint32_t i = 0; i < n; i++) {
			struct rvl_seen *r = &o->of_thread[k][i];

			r->wanted = wanted[i].wanted;
			r->channels = wanted[i].channels;
			if (r->wanted && bins_new(r))
				return -ENOMEM;
		}
	}
	return 0;
}

static int collect(const struct observation *o, struct rvl_seen *seen, struct rvl_err *err)
{
	const struct rvl_graph *g = o->s->g;

	for (uint32_t i = 0; i < g->n_tensors; i++) {
		if (!seen[i].wanted)
			continue;
		for (uint32_t k = 1; k < o->s->threads; k++)
			merge(&o->of_thread[0][i], &o->of_thread[k][i]);
		seen[i] = o->of_thread[0][i];
		o->of_thread[0][i].bin = NULL; /* moved to @seen */
		o->of_thread[0][i].mean = NULL;
	}
	for (uint32_t i = 0; i < g->n_tensors; i++)
		if (seen[i].wanted && seen[i].bad)
			return rvl_fail(err, -EINVAL, "calibration gives infinite values or NaN in \"%s\"",
					g->tensors[i]->name);
	return 0;
}

int rvl_observe(const struct rvl_samples *s, struct rvl_seen *seen, struct rvl_err *err)
{
	struct observation o = { .s = s };
	int rc;

	o.of_thread = calloc(s->threads, sizeof(*o.of_thread));
	if (!o.of_thread)
		return rvl_fail(err, -ENOMEM, "no memory for calibration");
	rc = prepare(&o, seen);
	if (rc)
		rvl_fail(err, rc, "no memory for calibration");
	if (!rc)
		rc = rvl_samples_run(s, s->g, s->runs, see_run, &o, err);
	if (!rc)
		rc = collect(&o, seen, err);
	for (uint32_t k = 0; k < s->threads; k++) {
		if (o.of_thread[k])
			rvl_seen_clear(o.of_thread[k], s->g->n_tensors);
		free(o.of_thread[k]);
	}
	free(o.of_thread);
	return rc;
}
