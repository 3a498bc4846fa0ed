/* SPDX-License-Identifier: MIT */
/* Shared by eval.c and eval_scale.c. */
#ifndef RVL_EVAL_H
#define RVL_EVAL_H

#include "eval.h"
#include "graph/interp.h"
#include "rivulet_eval.h"

struct rivulet_eval {
	void *onnx; /* holds the constants of the graph */
	struct rvl_graph *g;
	uint64_t batch; /* examples of a run */
	uint64_t elements, score_bytes;
};

/** rvl_eval_prepare() - set the nodes' attributes for @s; -EINVAL when it is out of range */
int rvl_eval_prepare(struct rivulet_eval *e, const struct rivulet_eval_spec *s, struct rvl_err *err);
/**
 * rvl_eval_feed() - put examples [first, first + batch) of @d into @it; zeroes beyond the last
 * example
 */
int rvl_eval_feed(const struct rivulet_eval *e, struct rvl_interp *it,
		  const struct rivulet_eval_data *d, uint64_t first, struct rvl_err *err);

#endif
