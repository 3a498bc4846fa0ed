/* SPDX-License-Identifier: MIT */
#include "graph/tensor_view.h"

void rvl_tensor_dense_view(const struct rvl_tensor *t, struct rvl_tview *v)
{
	static const int32_t from_nhwc[4] = { 0, 3, 1, 2 };
	const int64_t *dim = t->shape.dim;
	struct rvl_shape s = t->shape;

	if (t->layout == RIVULET_LAYOUT_NHWC)
		s = (struct rvl_shape) { .rank = 4, .dim = { dim[0], dim[2], dim[3], dim[1] } };
	rvl_tview_dense(v, &s);
	if (t->layout == RIVULET_LAYOUT_NHWC)
		rvl_tview_permute(v, from_nhwc);
}

void rvl_tensor_view(const struct rvl_tensor *t, struct rvl_tview *v)
{
	int64_t size = (int64_t)rvl_type_size(t->type);

	rvl_tensor_dense_view(t, v);
	v->origin = (int64_t)t->base_at / size;
	for (int d = 0; t->pitched && d < t->shape.rank; d++) {
		v->pitch[d] = t->pitch[d] / size;
		if (v->pitch[d] < 0)
			v->origin -= (v->dim[d] - 1) * v->pitch[d];
	}
}
