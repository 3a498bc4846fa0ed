/* SPDX-License-Identifier: MIT */
/* The accuracy of a model over examples, in pieces: with progress, and interruptible. */
#ifndef RVL_TOOL_ACCURACY_H
#define RVL_TOOL_ACCURACY_H

#include "progress.h"
#include "rivulet_eval.h"

/** struct rvl_accuracy - right answers among the examples that were run */
struct rvl_accuracy {
	uint64_t right, done;
};

/**
 * rvl_accuracy_measure() - run the examples of @d
 * Returns 0; -EINTR when a signal came first, with the examples run until then in @out; or a
 * negative errno with @err.
 */
int rvl_accuracy_measure(struct rivulet_eval *e, const struct rivulet_eval_spec *s,
			 const struct rivulet_eval_data *d, uint32_t threads, struct rvl_progress *p,
			 struct rvl_accuracy *out, struct rvl_err *err);

#endif
