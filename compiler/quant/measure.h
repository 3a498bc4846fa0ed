/* SPDX-License-Identifier: MIT */
/* How near a quantised graph is to the float graph it was made of. */
#ifndef RVL_MEASURE_H
#define RVL_MEASURE_H

#include "quant/samples.h"
#include "rivulet_snr.h"

/* Results of the float graph, for comparison: by output, run behind run. */
struct rvl_reference {
	float **of_output; /* NULL: not float32 */
	uint64_t runs;
};

/** Runs the float graph of @s over its first @runs runs. Free the reference in any case. */
int rvl_reference_make(const struct rvl_samples *s, uint64_t runs, struct rvl_reference *r,
		       struct rvl_err *err);
void rvl_reference_free(const struct rvl_samples *s, struct rvl_reference *r);

/** The worst SNR of the outputs of @g, an optimised graph with the inputs and outputs of s->g. */
int rvl_measure(const struct rvl_samples *s, const struct rvl_graph *g,
		const struct rvl_reference *r, double *db, struct rvl_err *err);

/*
 * What the float graph answers: for every output with more than one class, which are along axis 1,
 * the one with the largest value at each position; run behind run.
 */
struct rvl_answers {
	uint32_t *of_run;
	uint64_t runs, per_run;
};

/** Runs the float graph of @s over all runs. -EINVAL: no output has classes. Free in any case. */
int rvl_answers_make(const struct rvl_samples *s, struct rvl_answers *a, struct rvl_err *err);
void rvl_answers_free(struct rvl_answers *a);

/** The share of answers, 0 to 1, that are others in @g, an optimised graph with the outputs of s->g. */
int rvl_answers_changed(const struct rvl_samples *s, const struct rvl_graph *g,
			const struct rvl_answers *a, double *share, struct rvl_err *err);

#endif
