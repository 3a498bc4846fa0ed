/* SPDX-License-Identifier: MIT */
/*
 * A table, a rescaling, and an addition or product of values that all depend on one byte are one table
 * of that byte: x * sigmoid(x), or the parts into which exporters split a hard-swish.
 */
#include "npu/function.h"

#include "npu/constraint.h"

static const struct rvl_tensor *value_at(const struct rvl_function *f, uint32_t i)
{
	return i ? f->node[i - 1]->out[0] : f->x;
}

/* Whether a node that reads a value of @f, and is not in it, computes a function of it. */
static bool extends(const struct rvl_function *f, const struct rvl_node *n, uint32_t segment)
{
	enum rvl_joins joins = rvl_npu_joins(n);
	uint32_t operands = joins == RVL_JOINS_AS_SECOND ? 2 : 1;

	if (n->place != RVL_PLACE_NPU || n->segment != segment || n->free || f->n == RVL_FUNCTION_NODES ||
	    (joins != RVL_JOINS_AS_TABLE && joins != RVL_JOINS_AS_SECOND) ||
	    !rvl_shape_equal(&n->out[0]->shape, &f->x->shape))
		return false;
	for (uint32_t i = 0; i < operands; i++)
		if (rvl_function_value(f, n->in[i]) < 0 &&
		    (!n->in[i]->data || rvl_shape_count(&n->in[i]->shape) != 1))
			return false;
	return true;
}

static bool read_outside(const struct rvl_function *f, const struct rvl_tensor *t)
{
	for (uint32_t i = 0; i < t->n_users; i++)
		if (!rvl_function_has(f, t->users[i]))
			return true;
	return t->is_output;
}

/* Whether exactly one result of @f is read outside; then it is @f->y. */
static bool is_closed(struct rvl_function *f)
{
	uint32_t read = 0;

	f->alone = !read_outside(f, f->x);
	for (uint32_t i = 0; i < f->n; i++) {
		if (!read_outside(f, f->node[i]->out[0]))
			continue;
		f->y = f->node[i]->out[0];
		read++;
	}
	return read == 1;
}

/* Adds one node to @f; false if there is none. */
static bool grow(struct rvl_function *f, uint32_t segment)
{
	for (uint32_t i = 0; i <= f->n; i++) {
		const struct rvl_tensor *t = value_at(f, i);

		for (uint32_t k = 0; k < t->n_users; k++) {
			if (rvl_function_has(f, t->users[k]) || !extends(f, t->users[k], segment))
				continue;
			f->node[f->n++] = t->users[k];
			return true;
		}
	}
	return false;
}

bool rvl_function_find(struct rvl_tensor *x, uint32_t segment, bool alone, struct rvl_function *f)
{
	struct rvl_function all = { .x = x };

	f->n = 0;
	if (!rvl_is_quant8_tensor(x))
		return false;
	while (grow(&all, segment))
		if (is_closed(&all) && (all.alone || !alone))
			*f = all;
	return f->n > 0;
}
