/* SPDX-License-Identifier: MIT */
/*
 * A table, a rescaling, and an addition or product of values that all depend on one byte are one table
 * of that byte: x * sigmoid(x), or the parts into which exporters split a hard-swish.
 */
#include "npu/function.h"

#include "npu/constraint.h"
#include "rivulet_kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Number of @t among the values of @f: 0 is x, i + 1 the result of node i; -1: it is none of them. */
static int value_of(const struct rvl_function *f, const struct rvl_tensor *t)
{
	if (t == f->x)
		return 0;
	for (uint32_t i = 0; i < f->n; i++)
		if (t == f->node[i]->out[0])
			return (int)i + 1;
	return -1;
}

static const struct rvl_tensor *value_at(const struct rvl_function *f, uint32_t i)
{
	return i ? f->node[i - 1]->out[0] : f->x;
}

bool rvl_function_has(const struct rvl_function *f, const struct rvl_node *n)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->node[i] == n)
			return true;
	return false;
}

/* Whether a node that reads a value of @f, and is not in it, computes a function of it. */
static bool extends(const struct rvl_function *f, const struct rvl_node *n, uint32_t segment)
{
	enum rvl_joins joins = rvl_npu_op(n->op)->joins;
	uint32_t operands = joins == RVL_JOINS_AS_SECOND ? 2 : 1;

	if (n->place != RVL_PLACE_NPU || n->segment != segment || n->free || f->n == RVL_FUNCTION_NODES ||
	    (joins != RVL_JOINS_AS_TABLE && joins != RVL_JOINS_AS_SECOND) ||
	    !rvl_shape_equal(&n->out[0]->shape, &f->x->shape))
		return false;
	for (uint32_t i = 0; i < operands; i++)
		if (value_of(f, n->in[i]) < 0 &&
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

void rvl_function_of(const struct rvl_node *n, struct rvl_function *f)
{
	*f = (struct rvl_function){ .x = n->in[0], .y = n->out[0], .node = { n }, .n = 1 };
}

/* A line of bytes: neither the values of a constant nor the form of an image. */
static void as_line(struct rvl_kernel_arg *a, int64_t n)
{
	a->shape = (struct rvl_shape){ .rank = 1, .dim = { n } };
	a->layout = RIVULET_LAYOUT_PLAIN;
	a->pitched = false;
}

static int tabulate(const struct rvl_function *f, const struct rvl_node *n, uint8_t (*value)[256],
		    uint8_t *result)
{
	const void *in[RVL_MAX_IN] = { NULL };
	void *out[RVL_MAX_OUT] = { result };
	struct rvl_kernel_desc d;
	struct rvl_kernel *k;
	void *scratch;
	int rc;

	rvl_node_desc(n, &d);
	for (uint32_t i = 0; i < n->n_in; i++) {
		int v = n->in[i] ? value_of(f, n->in[i]) : -1;

		in[i] = v < 0 ? d.in[i].data : value[v];
		if (v >= 0) {
			as_line(&d.in[i], 256);
			d.in[i].data = NULL;
		} else if (rvl_npu_op(n->op)->joins == RVL_JOINS_AS_SECOND) {
			as_line(&d.in[i], 1);
		}
	}
	as_line(&d.out[0], 256);
	rc = rvl_kernel_new(&d, true, &k, NULL);
	if (rc)
		return rc;
	scratch = malloc(rvl_kernel_scratch(k) + 1);
	rc = scratch ? rvl_kernel_run(k, in, out, scratch, NULL) : -ENOMEM;
	free(scratch);
	rvl_kernel_free(k);
	return rc;
}

int rvl_function_table(const struct rvl_function *f, uint8_t table[256])
{
	uint8_t value[RVL_FUNCTION_NODES + 1][256];
	int rc = 0;

	for (int i = 0; i < 256; i++)
		value[0][i] = (uint8_t)i;
	for (uint32_t i = 0; i < f->n && !rc; i++)
		rc = tabulate(f, f->node[i], value, value[i + 1]);
	if (!rc)
		memcpy(table, value[value_of(f, f->y)], 256);
	return rc;
}
