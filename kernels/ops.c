/* SPDX-License-Identifier: MIT */
#include "rivulet_ops.h"

#include <errno.h>

#define MAX_ELEMENTS ((int64_t)1 << 40)

const char *rvl_type_name(enum rvl_type t)
{
	switch (t) {
#define TYPE_NAME(id, num, text, size, npy, onnx) case RVL_TYPE_##id: return text;
	RIVULET_DTYPES(TYPE_NAME)
#undef TYPE_NAME
	default:
		return "none";
	}
}

size_t rvl_type_size(enum rvl_type t)
{
	switch (t) {
#define TYPE_SIZE(id, num, text, size, npy, onnx) case RVL_TYPE_##id: return size;
	RIVULET_DTYPES(TYPE_SIZE)
#undef TYPE_SIZE
	default:
		return 0;
	}
}

const char *rvl_op_name(enum rvl_op op)
{
	switch (op) {
#define OP_NAME(id, num, name, ...) case RVL_OP_##id: return name;
	RVL_OPS(OP_NAME)
#undef OP_NAME
	default:
		return NULL;
	}
}

uint32_t rvl_op_traits(enum rvl_op op)
{
	switch (op) {
#define OP_TRAITS(id, num, name, inputs, kernel, rule, form, traits, doc) \
	case RVL_OP_##id: return traits;
	RVL_OPS(OP_TRAITS)
#undef OP_TRAITS
	default:
		return 0;
	}
}

enum rvl_op rvl_op_quantised(enum rvl_op op)
{
	switch (op) {
#define OP_FORM(id, num, name, inputs, kernel, rule, form, traits, doc) \
	case RVL_OP_##id: return RVL_OP_##form;
	RVL_OPS(OP_FORM)
#undef OP_FORM
	default:
		return op;
	}
}

int64_t rvl_shape_count(const struct rvl_shape *s)
{
	int64_t n = 1;
	bool empty = false;

	if (s->rank < 0 || s->rank > RVL_MAX_RANK)
		return -1;
	/*
	 * Dimensions besides a 0 are checked too, because their products are used as strides and
	 * sizes.
	 */
	for (int i = 0; i < s->rank; i++) {
		if (s->dim[i] < 0 || __builtin_mul_overflow(n, s->dim[i] ? s->dim[i] : 1, &n) ||
		    n > MAX_ELEMENTS)
			return -1;
		empty |= !s->dim[i];
	}
	return empty ? 0 : n;
}

bool rvl_shape_equal(const struct rvl_shape *a, const struct rvl_shape *b)
{
	if (a->rank != b->rank)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->dim[i] != b->dim[i])
			return false;
	return true;
}

/* Dimension @i of the shape, extended to @rank dimensions by 1s in front. */
static int64_t dim_from_right(const struct rvl_shape *s, int rank, int i)
{
	int j = i - (rank - s->rank);

	return j < 0 ? 1 : s->dim[j];
}

int rvl_shape_broadcast(const struct rvl_shape *a, const struct rvl_shape *b,
			struct rvl_shape *out)
{
	struct rvl_shape r = { .rank = a->rank > b->rank ? a->rank : b->rank };

	for (int i = 0; i < r.rank; i++) {
		int64_t da = dim_from_right(a, r.rank, i);
		int64_t db = dim_from_right(b, r.rank, i);

		if (da != db && da != 1 && db != 1)
			return -EINVAL;
		r.dim[i] = da == 1 ? db : da;
	}
	*out = r;
	return 0;
}
