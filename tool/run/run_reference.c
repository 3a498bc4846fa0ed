// SPDX-License-Identifier: MIT
/*
 * rivulet run --reference: the outputs of a run on tensors against those that another run wrote, as
 * the device's against the float model's.
 */
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "run/run.h"

/* The reference's best class, which the report prints beside the answer's. */
static int reference_class(struct rvl_run *r, const struct rvl_array *a)
{
	uint64_t n = a->size / rvl_dtype_size(a->dtype);

	if (!r->n_answers || a->dtype != RIVULET_F32)
		return 0;
	return rvl_run_rank(a->data, (uint32_t)n, 1, &r->answer[0].reference);
}

static int compare(struct rvl_run *r, uint32_t output, const struct rvl_array *a, const char *path)
{
	uint32_t t = rvl_engine_inputs(r->engine) + output;
	const struct rivulet_tensor_info *info = rvl_engine_tensor(r->engine, t);
	const void *got = rvl_engine_memory(r->engine, r->instance, t);
	char have[128], want[128];

	if (a->dtype != info->dtype || a->ndim != info->ndim ||
	    memcmp(a->dim, info->dim, a->ndim * sizeof(a->dim[0])))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s %s, output %s is %s %s", path,
				     rvl_dtype_name(a->dtype), rvl_shape_text(have, a->ndim, a->dim),
				     info->name, rvl_dtype_name(info->dtype),
				     rvl_shape_text(want, info->ndim, info->dim));
	for (uint64_t i = 0; i < a->size / rvl_dtype_size(a->dtype); i++) {
		float w = (float)rvl_dtype_value(a->dtype, a->data, i);
		float g = (float)rvl_dtype_value(a->dtype, got, i);

		rvl_snr_add(&r->snr[output], &w, &g, 1);
	}
	return output ? 0 : reference_class(r, a);
}

int rvl_run_reference(struct rvl_run *r)
{
	uint32_t n = rvl_engine_outputs(r->engine);
	char path[4096];
	int e = 0;

	r->snr = calloc(n + 1, sizeof(*r->snr));
	if (!r->snr)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (uint32_t i = 0; !e && i < n; i++) {
		struct rvl_array a;

		rvl_run_output_path(path, sizeof(path), r->reference,
				    rvl_engine_tensor(r->engine, rvl_engine_inputs(r->engine) + i)->name);
		e = rvl_array_read(path, &a);
		if (e)
			return e;
		e = compare(r, i, &a, path);
		rvl_array_clear(&a);
	}
	return e;
}
