/* SPDX-License-Identifier: MIT */
/*
 * Time and energy of the candidates of a model. One compilation has eight lengths, as variants of
 * the levels of a temporary board. The costs are those of the timeline of each variant's commands.
 */
#include "base/math.h"
#include "npu/estimate.h"
#include "rivulet_plan.h"

#include <errno.h>

/*
 * The board with as many levels as a program can have. The commands do not depend on clock rates.
 */
static void eight_levels(const struct rivulet_board *b, struct rivulet_board *out)
{
	*out = *b;
	for (uint32_t l = b->levels; l < RIVULET_LEVELS; l++)
		out->level[l] = b->level[b->levels - 1];
	out->levels = RIVULET_LEVELS;
}

static int fill_candidate(const struct rivulet_board *board, const struct rivulet_work *w,
		    struct rivulet_plan_candidate *candidate, struct rvl_err *err)
{
	if (!w->cycles)
		return rvl_fail(err, -EOPNOTSUPP, "nothing of the model runs on the NPU of %s",
				board->name);
	for (uint32_t l = 0; l < board->levels; l++) {
		struct rivulet_estimate_row row;

		rvl_estimate_level(board, l, w, &row);
		candidate->seconds[l] = row.seconds;
		candidate->joule[l] = row.joule;
	}
	return 0;
}

static int predict_some(const void *onnx, size_t size, const struct rivulet_board *board,
			const struct rivulet_compile_options *opt,
				struct rivulet_plan_candidate *candidate,
			uint32_t n, struct rvl_err *err)
{
	struct rivulet_compile_options o = *opt;
	struct rivulet_blob program = { 0 };
	struct rivulet_board eight;
	int rc;

	eight_levels(board, &eight);
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
		o.length[l] = candidate[l < n ? l : n - 1].length;
		o.accuracy[l] = 0;
	}
	rc = rivulet_compile(onnx, size, &eight, &o, &program, NULL, err);
	for (uint32_t l = 0; l < n && !rc; l++) {
		struct rivulet_work w;

		rc = rvl_work_at(program.data, &eight, l, &w, err);
		if (!rc)
			rc = fill_candidate(board, &w, &candidate[l], err);
	}
	rivulet_blob_free(&program);
	return rc;
}

int rivulet_plan_predict(const void *onnx, size_t size, const struct rivulet_board *board,
			 const struct rivulet_compile_options *opt,
				 struct rivulet_plan_candidate *candidate,
			 uint32_t n, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < n && !rc; i += RIVULET_LEVELS)
		rc = predict_some(onnx, size, board, opt, candidate + i,
				  rvl_min(n - i, RIVULET_LEVELS), err);
	return rc;
}
