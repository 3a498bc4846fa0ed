/* SPDX-License-Identifier: MIT */
/* QLinearConcat: 8-bit tensors of different scales side by side. */
#include <errno.h>
#include <string.h>

#include "qmath.h"
#include "rivulet_op.h"

/* Inputs: scale and zero point of the result, then tensor, scale and zero point of each part. */
enum { Y_SCALE, Y_ZERO, FIRST };

static int check_part(struct rvl_call *c, uint32_t i, int64_t axis)
{
	const struct rvl_shape *first = &c->in[FIRST].shape, *s = &c->in[i].shape;
	enum rvl_type type = c->in[Y_ZERO].type;

	if (c->in[i].type != type || c->in[i + 2].type != type || c->in[i + 1].type != RVL_TYPE_F32)
		return rvl_op_fail(c, "its inputs %u to %u are %s, %s, %s", i, i + 2,
				   rvl_type_name(c->in[i].type), rvl_type_name(c->in[i + 1].type),
				   rvl_type_name(c->in[i + 2].type));
	if (rvl_count(&c->in[i + 1]) != 1 || rvl_count(&c->in[i + 2]) != 1)
		return rvl_op_fail(c, "input %u has more than one scale or zero point", i);
	for (int k = 0; k < first->rank; k++)
		if (s->rank != first->rank || (k != axis && s->dim[k] != first->dim[k]))
			return rvl_op_fail(c, "input %u does not fit input %d beside axis %lld", i, FIRST,
					   (long long)axis);
	return 0;
}

static int infer_concat(struct rvl_call *c)
{
	int64_t axis = rvl_attr_int(c, "axis"), n = 0;
	struct rvl_shape y = c->in[FIRST].shape;
	int rc = 0;

	if (c->n_in % 3 != 2)
		return rvl_op_fail(c, "it has %u inputs, not 2 and 3 for each part", c->n_in);
	if (rvl_count(&c->in[Y_SCALE]) != 1 || rvl_count(&c->in[Y_ZERO]) != 1)
		return rvl_op_fail(c, "its result has more than one scale or zero point");
	if (rvl_fix_axis(c, &axis, y.rank))
		return -EINVAL;
	for (uint32_t i = FIRST; i < c->n_in && !rc; i += 3) {
		rc = check_part(c, i, axis);
		if (!rc && __builtin_add_overflow(n, c->in[i].shape.dim[axis], &n))
			rc = rvl_op_fail(c, "its result is too large");
	}
	y.dim[axis] = n;
	rvl_set_out(c, 0, c->in[Y_ZERO].type, &y);
	return rc;
}

/* What each byte of a part becomes. */
static void make_table(const struct rvl_call *c, uint32_t i, uint8_t *table)
{
	bool u8 = c->in[Y_ZERO].type == RVL_TYPE_U8;
	float from = *(const float *)c->in[i + 1].data, to = *(const float *)c->in[Y_SCALE].data;
	int32_t zero = rvl_ld8(c->in[i + 2].data, 0, u8), y_zero = rvl_ld8(c->in[Y_ZERO].data, 0, u8);

	for (int32_t v = 0; v < 256; v++) {
		uint8_t byte = (uint8_t)v;
		float x = rvl_dequantize(rvl_ld8(&byte, 0, u8), from, zero);

		table[v] = (uint8_t)rvl_quantize(x, to, y_zero, rvl_qmin(u8), rvl_qmax(u8));
	}
}

static int run_concat(struct rvl_call *c)
{
	const struct rvl_shape *y = &c->out[0].shape;
	int64_t axis = rvl_attr_int(c, "axis"), outer = 1, inner = 1, done = 0;

	if (rvl_fix_axis(c, &axis, y->rank))
		return -EINVAL;
	for (int k = 0; k < y->rank; k++)
		*(k < axis ? &outer : &inner) *= y->dim[k];
	for (uint32_t i = FIRST; i < c->n_in; i += 3) {
		int64_t n = inner ? c->in[i].shape.dim[axis] * (inner / y->dim[axis]) : 0;
		uint8_t table[256];

		make_table(c, i, table);
		for (int64_t o = 0; o < outer; o++) {
			const uint8_t *x = (const uint8_t *)c->in[i].data + o * n;
			uint8_t *to = (uint8_t *)c->out[0].data + o * inner + done;

			for (int64_t k = 0; k < n; k++)
				to[k] = table[x[k]];
		}
		done += n;
	}
	return 0;
}

const struct rvl_op_def rvl_ops_qconcat[] = {
	{ .name = "QLinearConcat", .domain = "com.microsoft", .since = 1, .least_in = 5,
	  .most_in = RVL_MAX_IN,
	  .types = { RVL_T_FLOAT, RVL_T(U8) | RVL_T(S8), RVL_T(U8) | RVL_T(S8),
		     RVL_T_FLOAT | RVL_T(U8) | RVL_T(S8) },
	  .attrs = RVL_ATTRS(RVL_INT_REQUIRED("axis")), .infer = infer_concat, .run = run_concat,
	  .doc = "8-bit tensors side by side, each requantised to the scale of the result" },
	RVL_OPS_END
};
