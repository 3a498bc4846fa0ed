/* SPDX-License-Identifier: MIT */
/* Operators that the compiler makes from control flow. */
#include <string.h>

#include "rivulet_op.h"

/* Branches of different shapes can be selected only when the condition is known. */
static int infer_select(struct rvl_call *c)
{
	const uint8_t *cond = c->in[0].data;
	uint32_t taken = cond && !*cond ? 2 : 1;

	if (rvl_count(&c->in[0]) != 1)
		return rvl_op_fail(c, "its condition is not one bool");
	if (c->in[1].type != c->in[2].type)
		return rvl_op_fail(c, "its branches give %s and %s", rvl_type_name(c->in[1].type),
				   rvl_type_name(c->in[2].type));
	if (!cond && !rvl_shape_equal(&c->in[1].shape, &c->in[2].shape)) {
		return rvl_op_fail(c, "its branches give different shapes, and the branch is known at run time only");
	}
	rvl_set_out(c, 0, c->in[taken].type, &c->in[taken].shape);
	return 0;
}

static int run_select(struct rvl_call *c)
{
	const struct rvl_value *taken = &c->in[*(const uint8_t *)c->in[0].data ? 1 : 2];

	/*
	 * Without a bound the shapes must be equal, because the output has room for one of them
	 * only.
	 */
	if (!rvl_shape_equal(&taken->shape, &c->out[0].shape))
		return rvl_op_fail(c, "its branches give different shapes");
	memcpy(c->out[0].data, taken->data, (size_t)rvl_count(taken) * rvl_type_size(taken->type));
	return 0;
}

const struct rvl_op_def rvl_ops_control[] = {
	{ .name = "Select", .domain = "rivulet", .since = 1, .least_in = 3, .most_in = 3,
	  .types = { RVL_T(BOOL), RVL_T_STORED, RVL_T_STORED }, .infer = infer_select,
	  .run = run_select,
	  .doc = "the result of one branch of an If whose condition is known at run time only" },
	RVL_OPS_END
};
