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

/* ---- answers ---- */

/* The values of a position are @step apart from class to class. */
struct classes {
	uint64_t n, step, positions;
};

static struct classes classes_of(const struct rvl_tensor *t)
{
	struct classes c = { .n = 0 };

	if (!elements(t) || t->shape.rank < 2 || t->shape.dim[1] < 2)
		return c;
	c.n = (uint64_t)t->shape.dim[1];
	c.positions = elements(t) / c.n;
	c.step = c.positions / (uint64_t)t->shape.dim[0];
	return c;
}

static uint32_t largest(const float *v, const struct classes *c, uint64_t position)
{
	const float *first = v + position / c->step * c->step * c->n + position % c->step;
	uint32_t best = 0;

	for (uint32_t i = 1; i < c->n; i++)
		if (first[i * c->step] > first[best * c->step])
			best = i;
	return best;
}

/* Answers of a run to @out unless NULL; returns how many are not those of @want, 0 if it is NULL. */
static uint64_t answer(const struct rvl_graph *g, const struct rvl_interp *it, const uint32_t *want,
		       uint32_t *out)
{
	uint64_t changed = 0, at = 0;

	for (uint32_t i = 0; i < g->n_outputs; i++) {
		struct classes c = classes_of(g->outputs[i]);

		for (uint64_t k = 0; k < c.positions; k++, at++) {
			uint32_t best = largest(rvl_interp_data(it, g->outputs[i]), &c, k);

			if (out)
				out[at] = best;
			changed += want && want[at] != best;
		}
	}
	return changed;
}

struct answering {
	const struct rvl_graph *g;
	const struct rvl_answers *a;
	uint64_t *changed; /* by run; NULL: the answers are kept */
};

static void see_answers(void *arg, const struct rvl_interp *it, uint32_t thread, uint64_t run)
{
	struct answering *w = arg;
	uint32_t *of_run = w->a->of_run + run * w->a->per_run;

	(void)thread;
	if (w->changed)
		w->changed[run] = answer(w->g, it, of_run, NULL);
	else
		answer(w->g, it, NULL, of_run);
}

int rvl_answers_make(const struct rvl_samples *s, struct rvl_answers *a, struct rvl_err *err)
{
	struct answering w = { .g = s->g, .a = a };

	*a = (struct rvl_answers){ .runs = s->runs };
	for (uint32_t i = 0; i < s->g->n_outputs; i++)
		a->per_run += classes_of(s->g->outputs[i]).positions;
	if (!a->per_run)
		return rvl_fail(err, -EINVAL,
				"no float output of the model has classes along its second dimension");
	a->of_run = a->runs <= SIZE_MAX / sizeof(*a->of_run) / a->per_run ?
			    calloc(a->runs * a->per_run + 1, sizeof(*a->of_run)) : NULL;
	if (!a->of_run)
		return rvl_fail(err, -ENOMEM, "no memory for the answers of the float model");
	return rvl_samples_run(s, s->g, a->runs, see_answers, &w, err);
}

void rvl_answers_free(struct rvl_answers *a)
{
	free(a->of_run);
	a->of_run = NULL;
}

int rvl_answers_changed(const struct rvl_samples *s, const struct rvl_graph *g,
			const struct rvl_answers *a, double *share, struct rvl_err *err)
{
	struct answering w = { .g = g, .a = a };
	uint64_t sum = 0;
	int rc;

	w.changed = calloc(a->runs + 1, sizeof(*w.changed));
	if (!w.changed)
		return rvl_fail(err, -ENOMEM, "no memory for calibration");
	rc = rvl_samples_run(s, g, a->runs, see_answers, &w, err);
	for (uint64_t i = 0; i < a->runs; i++)
		sum += w.changed[i];
	*share = (double)sum / (double)(a->runs * a->per_run);
	free(w.changed);
	return rc;
}
