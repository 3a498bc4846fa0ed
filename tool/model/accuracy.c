// SPDX-License-Identifier: MIT
#include "model/accuracy.h"

#include <errno.h>

#include "output.h"

#define PIECE_LEAST   50    /* examples for each thread; the evaluator's batch */
#define PIECE_SECONDS 0.3   /* the time that a piece should take */

static struct rivulet_eval_data slice(const struct rivulet_eval_data *d, uint64_t first, uint64_t count)
{
	struct rivulet_eval_data s = *d;

	s.f32 = d->f32 ? d->f32 + first * d->size : NULL;
	s.u8 = d->u8 ? d->u8 + first * d->size : NULL;
	s.labels = d->labels + first;
	s.count = count < d->count - first ? count : d->count - first;
	return s;
}

int rvl_accuracy_measure(struct rivulet_eval *e, const struct rivulet_eval_spec *s,
			 const struct rivulet_eval_data *d, uint32_t threads, struct rvl_progress *p,
			 struct rvl_accuracy *out, struct rvl_err *err)
{
	uint64_t piece = (uint64_t)PIECE_LEAST * threads;

	*out = (struct rvl_accuracy) { 0 };
	while (out->done < d->count) {
		struct rivulet_eval_data part = slice(d, out->done, piece);
		double start = rvl_tool_seconds();
		uint64_t right;
		int rc;

		if (rvl_interrupted())
			return -EINTR;
		rc = rivulet_eval_accuracy(e, s, &part, threads, &right, err);
		if (rc)
			return rc;
		out->right += right;
		out->done += part.count;
		rvl_progress_at(p, out->done);
		if (rvl_tool_seconds() - start < PIECE_SECONDS / 2)
			piece *= 2;
	}
	return 0;
}
