/* SPDX-License-Identifier: MIT */
#include "quant/measure.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t elements(const struct rvl_tensor *t)
{
	int64_t n = t->type == RVL_TYPE_F32 ? rvl_shape_count(&t->shape) : 0;

	return n > 0 ? (uint64_t)n : 0;
}

/* ---- the float graph ---- */

struct keeping {
	const struct rvl_samples *s;
	struct rvl_reference *r;
};

static void keep(void *arg, const struct rvl_interp *it, uint32_t thread, uint64_t run)
{
	struct keeping *k = arg;

	(void)thread;
	for (uint32_t i = 0; i < k->s->g->n_outputs; i++) {
		const struct rvl_tensor *t = k->s->g->outputs[i];

		if (k->r->of_output[i])
			memcpy(k->r->of_output[i] + run * elements(t), rvl_interp_data(it, t),
			       elements(t) * sizeof(float));
	}
}

int rvl_reference_make(const struct rvl_samples *s, uint64_t runs, struct rvl_reference *r,
		       struct rvl_err *err)
{
	struct keeping k = { s, r };

	r->runs = runs < s->runs ? runs : s->runs;
	r->of_output = calloc(s->g->n_outputs + 1u, sizeof(*r->of_output));
	if (!r->of_output)
		return rvl_fail(err, -ENOMEM, "no memory for calibration");
	for (uint32_t i = 0; i < s->g->n_outputs; i++) {
		uint64_t n = elements(s->g->outputs[i]);

		r->of_output[i] = n ? calloc(n * r->runs, sizeof(float)) : NULL;
		if (n && !r->of_output[i])
			return rvl_fail(err, -ENOMEM, "no memory for calibration");
	}
	return rvl_samples_run(s, s->g, r->runs, keep, &k, err);
}

void rvl_reference_free(const struct rvl_samples *s, struct rvl_reference *r)
{
	for (uint32_t i = 0; r->of_output && i < s->g->n_outputs; i++)
		free(r->of_output[i]);
	free(r->of_output);
	r->of_output = NULL;
}

/* ---- a quantised graph ---- */

struct measuring {
	const struct rvl_graph *g;
	const struct rvl_reference *r;
	struct rvl_snr *snr; /* by run, then by output: added up in that order */
};

static void compare(void *arg, const struct rvl_interp *it, uint32_t thread, uint64_t run)
{
	struct measuring *m = arg;

	(void)thread;
	for (uint32_t i = 0; i < m->g->n_outputs; i++) {
		const struct rvl_tensor *t = m->g->outputs[i];
		uint64_t n = elements(t);

		if (m->r->of_output[i])
			rvl_snr_add(&m->snr[run * m->g->n_outputs + i],
				    m->r->of_output[i] + run * n, rvl_interp_data(it, t), n);
	}
}

static double worst(const struct measuring *m)
{
	double least = RVL_SNR_EXACT;

	for (uint32_t i = 0; i < m->g->n_outputs; i++) {
		struct rvl_snr sum = { 0 };

		for (uint64_t run = 0; run < m->r->runs; run++) {
			const struct rvl_snr *s = &m->snr[run * m->g->n_outputs + i];

			sum.n += s->n;
			sum.sum += s->sum;
			sum.square += s->square;
			sum.noise += s->noise;
		}
		if (m->r->of_output[i])
			least = fmin(least, rvl_snr_db(&sum));
	}
	return least;
}

int rvl_measure(const struct rvl_samples *s, const struct rvl_graph *g,
		const struct rvl_reference *r, double *db, struct rvl_err *err)
{
	struct measuring m = { .g = g, .r = r };
	int rc;

	m.snr = calloc(r->runs * g->n_outputs + 1, sizeof(*m.snr));
	if (!m.snr)
		return rvl_fail(err, -ENOMEM, "no memory for calibration");
	rc = rvl_samples_run(s, g, r->runs, compare, &m, err);
	if (!rc)
		*db = worst(&m);
	free(m.snr);
	return rc;
}
