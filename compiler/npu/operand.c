/* SPDX-License-Identifier: MIT */
/* The image of a tensor that the NPU reads or writes. */
#include "npu/layer.h"

/* The engines' view of a tensor; false when it has none (rank above 4, dimension 0). */
static bool view_of(const struct rvl_tensor *t, struct rvl_view *v)
{
	const int64_t *d = t->shape.dim;
	int64_t count = rvl_shape_count(&t->shape);

	if (!t->shaped || count <= 0)
		return false;
	switch (t->shape.rank) {
	case 4:
		*v = (struct rvl_view){ d[0], d[1], d[2], d[3], d[2] * d[3] == 1, false };
		return true;
	case 3:
		*v = (struct rvl_view){ 1, d[0], d[1], d[2], d[1] * d[2] == 1, false };
		return true;
	case 2:
		*v = (struct rvl_view){ 1, d[1], 1, d[0], true, false };
		return true;
	default:
		*v = (struct rvl_view){ 1, count, 1, 1, true, false };
		return t->shape.rank < 2;
	}
}

bool rvl_wide_operand_of(const struct rvl_tensor *t, struct rvl_operand *o)
{
	struct rvl_view v;

	if (!rvl_is_quant16_tensor(t) || !view_of(t, &v))
		return rvl_operand_of(t, o);
	v.wide = true;
	v.inter |= v.c == 1; /* LOAD and STORE address pixels of int16, no planes */
	*o = (struct rvl_operand){ .v = v, .zp = t->quant.zp[0] };
	return true;
}

bool rvl_operand_of(const struct rvl_tensor *t, struct rvl_operand *o)
{
	struct rvl_view v;
	struct rvl_as_s8 s8;

	if (!rvl_is_quant8_tensor(t) || !view_of(t, &v))
		return false;
	s8 = rvl_tensor_as_s8(t);
	*o = (struct rvl_operand){ .v = v, .zp = s8.zp, .flip = s8.flip };
	return true;
}
