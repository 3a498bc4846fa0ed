/* SPDX-License-Identifier: MIT */
/* Examples bound to the inputs of a graph, and runs of a graph over them. */
#ifndef RVL_SAMPLES_H
#define RVL_SAMPLES_H

#include "graph/interp.h"
#include "rivulet_compiler.h"

/* The examples of one input. A run takes @per_run of them, @bytes each. */
struct rvl_sample_input {
	const uint8_t *data;
	uint64_t count, per_run, bytes;
};

struct rvl_samples {
	const struct rvl_graph *g;
	struct rvl_sample_input *in; /* by index in g->inputs; in the graph's arena */
	uint64_t runs;
	uint32_t threads;
};

/** Binds examples to inputs by name. -EINVAL names the input without examples or of another size. */
int rvl_samples_bind(struct rvl_graph *g, const struct rivulet_quantise *q, struct rvl_samples *s,
		     struct rvl_err *err);

/** Sets all inputs of an interpreter of s->g, or of a clone of it, to those of run @run. */
int rvl_samples_feed(const struct rvl_samples *s, struct rvl_interp *it, uint64_t run,
		     struct rvl_err *err);

/**
 * Runs @g over runs [0, @runs), on the threads of @s, and calls see(arg, it, thread, run) after each.
 * Calls of one thread come one after the other. The error of the earliest failing run is reported.
 */
int rvl_samples_run(const struct rvl_samples *s, const struct rvl_graph *g, uint64_t runs,
		    void (*see)(void *arg, const struct rvl_interp *it, uint32_t thread, uint64_t run),
		    void *arg, struct rvl_err *err);

#endif
