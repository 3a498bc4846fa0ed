/* SPDX-License-Identifier: MIT */
/*
 * Shapes as values, other shapes for the same values, and tensors that follow from a shape alone.
 */
#include <math.h>
#include <string.h>

#include "rivulet_op.h"

static int copy_all(struct rvl_call *c)
{
	size_t bytes = (size_t)rvl_count(&c->in[0]) * rvl_type_size(c->in[0].type);

	if (c->boxes)
		c->boxes->box[c->boxes->n++] = (struct rvl_op_box) {
			.rank = 1, .dim = { rvl_count(&c->in[0]) }, .from = { 1 }, .to = { 1 } };
	else if (bytes)
		memcpy(c->out[0].data, c->in[0].data, bytes);
	return 0;
}

/* ---- Shape, Size ---- */

/* The end of a range of axes, counted from the back where negative and kept within the rank. */
static int64_t clamp_axis(int64_t a, int64_t rank)
{
	a = a < 0 ? a + rank : a;
	return a < 0 ? 0 : a > rank ? rank : a;
}

static void shape_range(const struct rvl_call *c, int64_t *first, int64_t *past)
{
	int64_t rank = c->in[0].shape.rank;

	*first = 0;
	*past = rank;
	if (!c->def->attrs)
		return;
	*first = clamp_axis(rvl_attr_int(c, "start"), rank);
	if (rvl_attr_given(c, "end"))
		*past = clamp_axis(rvl_attr_int(c, "end"), rank);
	*past = *past < *first ? *first : *past;
}

static int infer_shape(struct rvl_call *c)
{
	int64_t first, past;

	shape_range(c, &first, &past);
	rvl_set_out(c, 0, RVL_TYPE_S64,
		    &(const struct rvl_shape) { .rank = 1, .dim = { past - first } });
	return 0;
}

static int run_shape(struct rvl_call *c)
{
	int64_t first, past;

	shape_range(c, &first, &past);
	for (int64_t i = first; i < past; i++)
		((int64_t *)c->out[0].data)[i - first] = c->in[0].shape.dim[i];
	return 0;
}

static int infer_size(struct rvl_call *c)
{
	rvl_set_out(c, 0, RVL_TYPE_S64, &(const struct rvl_shape) { .rank = 0 });
	return 0;
}

static int run_size(struct rvl_call *c)
{
	*(int64_t *)c->out[0].data = rvl_count(&c->in[0]);
	return 0;
}

/* ---- the same values in another shape ---- */

static int reshape_to(struct rvl_call *c, const int64_t *want, uint32_t n, bool keep_zero)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int64_t known = 1, count = rvl_count(&c->in[0]);
	struct rvl_shape y = { .rank = (int32_t)n };
	int unknown = -1;

	for (int i = 0; i < y.rank; i++) {
		y.dim[i] = want[i];
		if (!want[i] && !keep_zero) {
			if (i >= x->rank)
				return rvl_op_fail(c, "its shape copies dimension %d of a tensor of rank %d",
						   i, x->rank);
			y.dim[i] = x->dim[i];
		}
		if (y.dim[i] < -1 || (y.dim[i] == -1 && unknown >= 0))
			return rvl_op_fail(c, "its shape is not valid");
		if (y.dim[i] == -1)
			unknown = i;
		else if (__builtin_mul_overflow(known, y.dim[i], &known))
			return rvl_op_fail(c, "its shape is too large");
	}
	if (unknown >= 0) {
		if (!known || count % known)
			return rvl_op_fail(c, "its -1 dimension cannot be computed");
		y.dim[unknown] = count / known;
	}
	if (rvl_shape_count(&y) != count)
		return rvl_op_fail(c, "its shape has another number of elements than its input");
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

static int infer_reshape(struct rvl_call *c)
{
	int64_t want[RVL_MAX_RANK];
	uint32_t n;
	int rc = rvl_int_input(c, 1, want, RVL_MAX_RANK, &n);

	return rc ? rc : reshape_to(c, want, n, rvl_attr_int(c, "allowzero") != 0);
}

/* Opsets before 5 give the shape as an attribute. */
static int infer_reshape_attr(struct rvl_call *c)
{
	uint32_t n;
	const int64_t *want = rvl_attr_ints(c, "shape", &n);

	if (n > RVL_MAX_RANK)
		return rvl_op_fail(c, "attribute shape has %u values, more than %d", n, RVL_MAX_RANK);
	return reshape_to(c, want, n, false);
}

static int infer_flatten(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	struct rvl_shape y = { .rank = 2, .dim = { 1, 1 } };
	int64_t axis = rvl_attr_int(c, "axis");

	if (axis < -x->rank || axis > x->rank)
		return rvl_op_fail(c, "axis %lld does not exist in a tensor of rank %d",
				   (long long)axis, x->rank);
	axis = axis < 0 ? axis + x->rank : axis;
	for (int i = 0; i < x->rank; i++)
		y.dim[i >= axis] *= x->dim[i];
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

static int infer_squeeze(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	struct rvl_shape y = { .rank = 0 };
	uint32_t set;
	bool given;
	int rc = rvl_axes(c, "axes", 1, x->rank, &set, &given);

	if (rc)
		return rc;
	for (int i = 0; i < x->rank; i++) {
		bool drop = given ? set >> i & 1 : x->dim[i] == 1;

		if (drop && x->dim[i] != 1)
			return rvl_op_fail(c, "axis %d has %lld elements, not 1", i,
					   (long long)x->dim[i]);
		if (!drop)
			y.dim[y.rank++] = x->dim[i];
	}
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

/* The axes are those of the result, whose rank follows from how many there are. */
static int infer_unsqueeze(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	struct rvl_shape y = { .rank = x->rank };
	uint32_t set, n = 0;
	int64_t list[RVL_MAX_RANK];
	bool given;
	int rc = 0, from = 0;

	if (c->def->since >= 13)
		rc = rvl_int_input(c, 1, list, RVL_MAX_RANK, &n);
	else
		rvl_attr_ints(c, "axes", &n);
	if (!rc && x->rank + n > RVL_MAX_RANK)
		return rvl_op_fail(c, "its result has %u dimensions, more than %d", x->rank + n,
				   RVL_MAX_RANK);
	if (!rc)
		rc = rvl_axes(c, "axes", 1, x->rank + n, &set, &given);
	if (rc)
		return rc;
	y.rank += (int32_t)n;
	for (int i = 0; i < y.rank; i++)
		y.dim[i] = set >> i & 1 ? 1 : x->dim[from++];
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

/* ---- tensors of one value, ranges, ones ---- */

/* A shape from a list of sizes. */
static int shape_of_list(struct rvl_call *c, const int64_t *dim, uint32_t n, struct rvl_shape *s)
{
	*s = (struct rvl_shape) { .rank = (int32_t)n };
	for (uint32_t i = 0; i < n; i++) {
		if (dim[i] < 0)
			return rvl_op_fail(c, "dimension %u is %lld", i, (long long)dim[i]);
		s->dim[i] = dim[i];
	}
	return rvl_shape_count(s) < 0 ? rvl_op_fail(c, "its result is too large") : 0;
}

static int infer_constant_of_shape(struct rvl_call *c)
{
	const struct rvl_attr_value *v = rvl_attr_tensor(c, "value");
	int64_t dim[RVL_MAX_RANK];
	struct rvl_shape s;
	uint32_t n;
	int rc = rvl_int_input(c, 0, dim, RVL_MAX_RANK, &n);

	if (!rc)
		rc = shape_of_list(c, dim, n, &s);
	if (!rc && v && v->n != 1)
		return rvl_op_fail(c, "attribute value has %u elements, not 1", v->n);
	if (!rc)
		rvl_set_out(c, 0, v ? v->type : RVL_TYPE_F32, &s);
	return rc;
}

static int run_constant_of_shape(struct rvl_call *c)
{
	const struct rvl_attr_value *v = rvl_attr_tensor(c, "value");
	size_t size = rvl_type_size(c->out[0].type);
	int64_t n = rvl_count(&c->out[0]);
	char *y = c->out[0].data;

	for (int64_t i = 0; i < n; i++) {
		if (v)
			memcpy(y + (size_t)i * size, v->data, size);
		else
			memset(y + (size_t)i * size, 0, size);
	}
	return 0;
}

/* A dimension of 1 in the wanted shape keeps the input's. */
static int infer_expand(struct rvl_call *c)
{
	int64_t dim[RVL_MAX_RANK];
	struct rvl_shape s;
	uint32_t n;
	int rc = rvl_int_input(c, 1, dim, RVL_MAX_RANK, &n);

	if (!rc)
		rc = shape_of_list(c, dim, n, &s);
	if (!rc && rvl_shape_broadcast(&c->in[0].shape, &s, &s))
		return rvl_op_fail(c, "its input does not broadcast to the shape wanted");
	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &s);
	return rc;
}

static int run_expand(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	struct rvl_region b = rvl_region_between(&c->in[0], 0, &c->out[0], 0);
	int64_t from[RVL_MAX_RANK], to[RVL_MAX_RANK];
	int front = y->rank - x->rank;

	rvl_value_strides(&c->in[0], from);
	rvl_value_strides(&c->out[0], to);
	for (int d = 0; d < y->rank; d++)
		rvl_region_dim(&b, y->dim[d], d < front || x->dim[d - front] == 1 ? 0 : from[d - front],
			    to[d]);
	rvl_region_copy(c, &b);
	return 0;
}

/* The number of steps; NaN and infinity give none. */
static int64_t range_length(const struct rvl_call *c)
{
	enum rvl_type t = c->in[0].type;
	double first = rvl_element(t, c->in[0].data, 0), past = rvl_element(t, c->in[1].data, 0);
	double n = (past - first) / rvl_element(t, c->in[2].data, 0);

	return n > 0 && n < 1e12 ? (int64_t)ceil(n) : 0;
}

static int infer_range(struct rvl_call *c)
{
	for (uint32_t i = 0; i < 3; i++) {
		if (rvl_count(&c->in[i]) != 1)
			return rvl_op_fail(c, "its input %u is not one value", i);
		if (!c->in[i].data) {
			c->unknown = true;
			return rvl_op_fail(c, "its input %u must be a constant", i);
		}
	}
	if (rvl_element(c->in[2].type, c->in[2].data, 0) == 0.0)
		return rvl_op_fail(c, "its step is 0");
	rvl_set_out(c, 0, c->in[0].type,
		    &(const struct rvl_shape) { .rank = 1, .dim = { range_length(c) } });
	return 0;
}

static int run_range(struct rvl_call *c)
{
	enum rvl_type t = c->in[0].type;
	int64_t n = rvl_count(&c->out[0]);

	for (int64_t i = 0; i < n; i++) {
		double d = rvl_element(t, c->in[0].data, 0) +
			   (double)i * rvl_element(t, c->in[2].data, 0);
		int64_t v = 0;

		if (t == RVL_TYPE_F32) {
			((float *)c->out[0].data)[i] = (float)d;
			continue;
		}
		v = (int64_t)((uint64_t)rvl_element_int(t, c->in[0].data, 0) +
			      (uint64_t)i * (uint64_t)rvl_element_int(t, c->in[2].data, 0));
		rvl_convert(t, (char *)c->out[0].data + (size_t)i * rvl_type_size(t), RVL_TYPE_S64,
			    &v, 1);
	}
	return 0;
}

static int infer_eye_like(struct rvl_call *c)
{
	int64_t to = rvl_attr_int(c, "dtype");
	enum rvl_type t = rvl_attr_given(c, "dtype") ? rvl_type_of_onnx(to) : c->in[0].type;

	if (c->in[0].shape.rank != 2)
		return rvl_op_fail(c, "its input has %d dimensions, not 2", c->in[0].shape.rank);
	if (!t)
		return rvl_op_fail(c, "element type %lld of ONNX is not supported", (long long)to);
	rvl_set_out(c, 0, t, &c->in[0].shape);
	return 0;
}

static int run_eye_like(struct rvl_call *c)
{
	int64_t rows = c->out[0].shape.dim[0], cols = c->out[0].shape.dim[1];
	int64_t k = rvl_attr_int(c, "k");
	size_t size = rvl_type_size(c->out[0].type);
	const int64_t one = 1;
	char *y = c->out[0].data;

	memset(y, 0, (size_t)(rows * cols) * size);
	for (int64_t i = 0; i < rows; i++)
		if (k >= -i && k < cols - i)
			rvl_convert(c->out[0].type, y + (size_t)(i * cols + i + k) * size,
				    RVL_TYPE_S64, &one, 1);
	return 0;
}

#define RESHAPED(op, opset, in, rule, list, text, ...) { \
	.name = op, .since = (opset), .least_in = (in), .most_in = (in), \
	.types = { RVL_T_MOVED, RVL_T(S64) }, .flags = RVL_OP_MOVES | RVL_OP_BOXES, .attrs = list, \
	.infer = rule, .run = copy_all, .doc = text, ##__VA_ARGS__ }

const struct rvl_op_def rvl_ops_shape[] = {
	{ .name = "Shape", .since = 1, .least_in = 1, .most_in = 1, .types = { RVL_T_ANY },
	  .flags = RVL_OP_NEEDS_NO_DATA, .infer = infer_shape, .run = run_shape,
	  .doc = "the dimensions" },
	{ .name = "Shape", .since = 15, .least_in = 1, .most_in = 1, .types = { RVL_T_ANY },
	  .flags = RVL_OP_NEEDS_NO_DATA, .attrs = RVL_ATTRS(RVL_INT("start", 0), RVL_INT("end", 0)),
	  .infer = infer_shape, .run = run_shape, .doc = "the dimensions from start to end" },
	{ .name = "Size", .since = 1, .least_in = 1, .most_in = 1, .types = { RVL_T_ANY },
	  .flags = RVL_OP_NEEDS_NO_DATA, .infer = infer_size, .run = run_size,
	  .doc = "the number of elements" },
	RESHAPED("Reshape", 1, 1, infer_reshape_attr, RVL_ATTRS(RVL_INTS("shape"), RVL_CONSUMED),
		 "the same elements in another shape"),
	RESHAPED("Reshape", 5, 2, infer_reshape, RVL_ATTRS(RVL_FLAG_FROM("allowzero", 0, 14)),
		 "the same elements in another shape", .kernel = RVL_OP_RESHAPE),
	RESHAPED("Flatten", 1, 1, infer_flatten, RVL_ATTRS(RVL_INT("axis", 1)),
		 "reshape to a matrix, split at an axis", .kernel = RVL_OP_FLATTEN),
	RESHAPED("Squeeze", 1, 1, infer_squeeze, RVL_ATTRS(RVL_INTS("axes")),
		 "the same elements without axes of one element"),
	{ .name = "Squeeze", .since = 13, .least_in = 1, .most_in = 2,
	  .types = { RVL_T_MOVED, RVL_T(S64) }, .flags = RVL_OP_MOVES | RVL_OP_BOXES,
	  .infer = infer_squeeze, .run = copy_all, .doc = "the same elements without axes of one element" },
	RESHAPED("Unsqueeze", 1, 1, infer_unsqueeze, RVL_ATTRS(RVL_INTS_REQUIRED("axes")),
		 "the same elements with new axes of one element"),
	RESHAPED("Unsqueeze", 13, 2, infer_unsqueeze, NULL, "the same elements with new axes of one element"),
	{ .name = "Identity", .since = 1, .least_in = 1, .most_in = 1, .types = { RVL_T_MOVED },
	  .flags = RVL_OP_MOVES | RVL_OP_ELEMENTWISE | RVL_OP_BOXES, .infer = rvl_infer_same,
	  .run = copy_all, .kernel = RVL_OP_IDENTITY, .doc = "copy" },
	{ .name = "ConstantOfShape", .since = 9, .least_in = 1, .most_in = 1,
	  .types = { RVL_T(S64) }, .attrs = RVL_ATTRS(RVL_TENSOR("value")),
	  .infer = infer_constant_of_shape, .run = run_constant_of_shape,
	  .doc = "a tensor of one value, whose shape is the input" },
	{ .name = "Expand", .since = 8, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_MOVED, RVL_T(S64) }, .flags = RVL_OP_MOVES | RVL_OP_BOXES,
	  .pitched = RVL_PITCHED_IN(0) | RVL_PITCHED_OUT, .infer = infer_expand, .run = run_expand,
	  .doc = "broadcast to a shape" },
	{ .name = "Range", .since = 11, .least_in = 3, .most_in = 3, .types = { RVL_T_NUMBER },
	  .same = RVL_SAME_ALL, .attrs = RVL_ATTRS(RVL_IGNORED_FROM("stash_type", 27)), .infer = infer_range, .run = run_range,
	  .doc = "numbers from start to limit in steps" },
	{ .name = "EyeLike", .since = 9, .least_in = 1, .most_in = 1, .types = { RVL_T_ANY },
	  .flags = RVL_OP_NEEDS_NO_DATA, .attrs = RVL_ATTRS(RVL_INT("dtype", 0), RVL_INT("k", 0)),
	  .infer = infer_eye_like, .run = run_eye_like, .doc = "ones on a diagonal" },
	RVL_OPS_END
};
