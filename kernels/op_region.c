/* SPDX-License-Identifier: MIT */
/* The boxes of elements that operators of RVL_OP_BOXES copy or list. */
#include <string.h>

#include "rivulet_op.h"

struct rvl_region rvl_region_between(const struct rvl_value *x, int64_t from,
				     const struct rvl_value *y, int64_t to)
{
	return (struct rvl_region) { .x = x, .y = y, .x_at = from, .y_at = to,
				  .copy = { .size = rvl_type_size(x->type) } };
}

void rvl_region_dim(struct rvl_region *b, int64_t dim, int64_t from, int64_t to)
{
	struct rvl_copy *c = &b->copy;
	int last = c->rank - 1;

	if (dim == 1)
		return;
	if (last < 0 || c->from[last] != from * dim || c->to[last] != to * dim) {
		rvl_copy_dim(c, dim, from, to);
		return;
	}
	c->dim[last] *= dim;
	c->from[last] = from;
	c->to[last] = to;
}

static void list_box(const struct rvl_call *c, const struct rvl_region *b)
{
	struct rvl_op_boxes *list = c->boxes;
	struct rvl_op_box *out;

	if (list->n++ >= RVL_MAX_IN)
		return;
	out = &list->box[list->n - 1];
	*out = (struct rvl_op_box) { .in = (uint32_t)(b->x - c->in), .out = (uint32_t)(b->y - c->out),
				     .from_at = b->x_at, .to_at = b->y_at, .rank = b->copy.rank };
	memcpy(out->dim, b->copy.dim, sizeof(out->dim));
	memcpy(out->from, b->copy.from, sizeof(out->from));
	memcpy(out->to, b->copy.to, sizeof(out->to));
}

void rvl_region_copy(const struct rvl_call *c, struct rvl_region *b)
{
	if (!b->copy.rank)
		rvl_copy_dim(&b->copy, 1, 1, 1);
	if (c->boxes) {
		list_box(c, b);
		return;
	}
	b->copy.x = (const char *)b->x->data + b->x_at * (int64_t)b->copy.size;
	b->copy.y = (char *)b->y->data + b->y_at * (int64_t)b->copy.size;
	rvl_copy_run(&b->copy, c->pool);
}

void rvl_region_copy_dims(const struct rvl_call *c, struct rvl_region *b, const int64_t *dim,
			  const int64_t *from, const int64_t *to, int rank)
{
	for (int d = 0; d < rank; d++)
		rvl_region_dim(b, dim[d], from[d], to[d]);
	rvl_region_copy(c, b);
}
