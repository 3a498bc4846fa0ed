/* SPDX-License-Identifier: MIT */
/* Operators that read or write elements at places that other tensors name. */
#include <errno.h>
#include <string.h>

#include "rivulet_op.h"

#define MOST ((int64_t)1 << 31)		/* of a kernel's size, stride, padding or dilation */

/* ---- indices ---- */

/* Index @i of input 1 or 2 for an axis of @dim elements, which are counted from the end if negative. */
static int64_t index_at(const struct rvl_value *v, int64_t i, int64_t dim)
{
	int64_t k = rvl_element_int(v->type, v->data, i);

	return k < 0 ? k + dim : k;
}

/* All indices are checked before threads begin, so that only one error is reported. */
static int check_indices(struct rvl_call *c, int64_t dim)
{
	const struct rvl_value *v = &c->in[1];
	int64_t n = rvl_count(v);

	for (int64_t i = 0; i < n; i++) {
		int64_t k = rvl_element_int(v->type, v->data, i);

		if (k < -dim || k >= dim)
			return rvl_op_fail(c, "index %lld of input 1 is %lld, but the axis has %lld elements",
					   (long long)i, (long long)k, (long long)dim);
	}
	return 0;
}

/* Elements of the dimensions from @first up to @past. */
static int64_t product(const struct rvl_shape *s, int first, int past)
{
	int64_t n = 1;

	for (int d = first; d < past; d++)
		n *= s->dim[d];
	return n;
}

static int fixed_axis(struct rvl_call *c, int64_t *axis)
{
	*axis = rvl_attr_int(c, "axis");
	return rvl_fix_axis(c, axis, c->in[0].shape.rank);
}

static void copy_input(const struct rvl_call *c)
{
	size_t bytes = (size_t)rvl_count(&c->in[0]) * rvl_type_size(c->in[0].type);

	if (bytes)
		memcpy(c->out[0].data, c->in[0].data, bytes);
}

/* ---- Gather ---- */

static int infer_gather(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape, *k = &c->in[1].shape;
	struct rvl_shape y = { .rank = x->rank - 1 + k->rank };
	int64_t axis;
	int rc = fixed_axis(c, &axis), n = 0;

	if (rc)
		return rc;
	if (y.rank > RVL_MAX_RANK)
		return rvl_op_fail(c, "its result has %d dimensions, more than %d", y.rank,
				   RVL_MAX_RANK);
	for (int d = 0; d < x->rank; d++) {
		if (d != axis)
			y.dim[n++] = x->dim[d];
		for (int e = 0; d == axis && e < k->rank; e++)
			y.dim[n++] = k->dim[e];
	}
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

/* Blocks of the input, one after the other in the output. */
struct blocks {
	const struct rvl_call *c;
	int64_t dim;		/* size of the axis */
	int64_t n;		/* number of indices */
	size_t bytes;		/* elements of a block */
};

static void gather_blocks(void *arg, int64_t first, int64_t past)
{
	const struct blocks *b = arg;
	const char *x = b->c->in[0].data;
	char *y = b->c->out[0].data;
	int64_t outer = first / b->n, k = first % b->n;

	for (int64_t i = first; i < past; i++) {
		int64_t at = outer * b->dim + index_at(&b->c->in[1], k, b->dim);

		memcpy(y + (size_t)i * b->bytes, x + (size_t)at * b->bytes, b->bytes);
		if (++k == b->n) {
			k = 0;
			outer++;
		}
	}
}

/* Whether the indices, of which there are some, are evenly spaced. */
static bool is_range(const struct rvl_value *v, int64_t dim, int64_t *first, int64_t *step)
{
	int64_t n = rvl_count(v);

	*first = index_at(v, 0, dim);
	*step = n > 1 ? index_at(v, 1, dim) - *first : 0;
	for (int64_t i = 2; i < n; i++)
		if (index_at(v, i, dim) != *first + i * *step)
			return false;
	return true;
}

/* Strides of the call's operands; those of the result for the axes of the indices come first. */
struct gather {
	int axis;
	int64_t dim;			/* of the axis */
	int64_t from[RVL_MAX_RANK], to[RVL_MAX_RANK];
};

/* Copies what one index names, or all @indices, whose elements are @step apart, to @at. */
static void gather_box(const struct rvl_call *c, const struct gather *g, int64_t first, int64_t at,
		       const struct rvl_shape *indices, int64_t step)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int rank = c->in[1].shape.rank;
	struct rvl_region b = rvl_region_between(&c->in[0], first * g->from[g->axis], &c->out[0], at);

	for (int d = 0; d < g->axis; d++)
		rvl_region_dim(&b, x->dim[d], g->from[d], g->to[d]);
	for (int d = 0; indices && d < rank; d++)
		rvl_region_dim(&b, indices->dim[d],
			    step * product(indices, d + 1, rank) * g->from[g->axis], g->to[g->axis + d]);
	for (int d = g->axis + 1; d < x->rank; d++)
		rvl_region_dim(&b, x->dim[d], g->from[d], g->to[d + rank - 1]);
	rvl_region_copy(c, &b);
}

/* Where the result has what index @i names. */
static int64_t gathered_at(const struct rvl_shape *indices, const struct gather *g, int64_t i)
{
	int64_t at = 0;

	for (int d = indices->rank - 1; d >= 0; d--) {
		at += i % indices->dim[d] * g->to[g->axis + d];
		i /= indices->dim[d];
	}
	return at;
}

static void gather_each(const struct rvl_call *c, const struct gather *g)
{
	const struct rvl_value *v = &c->in[1];
	int64_t n = rvl_count(v);

	for (int64_t i = 0; i < n; i++)
		gather_box(c, g, index_at(v, i, g->dim), gathered_at(&v->shape, g, i), NULL, 0);
}

static int gather_plan(struct rvl_call *c, struct gather *g)
{
	int64_t axis;
	int rc = fixed_axis(c, &axis);

	if (rc)
		return rc;
	if (!c->in[1].data && rvl_count(&c->in[1]))
		return rvl_op_fail(c, "its indices are known at run time only");
	g->axis = (int)axis;
	g->dim = c->in[0].shape.dim[axis];
	rvl_value_strides(&c->in[0], g->from);
	rvl_value_strides(&c->out[0], g->to);
	return check_indices(c, g->dim);
}

static int run_gather(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	struct blocks b = { .c = c, .n = rvl_count(&c->in[1]) };
	int64_t first, step;
	struct gather g;
	int rc = gather_plan(c, &g);

	if (rc || !rvl_count(&c->out[0]))
		return rc;
	if (is_range(&c->in[1], g.dim, &first, &step)) {
		gather_box(c, &g, first, 0, &c->in[1].shape, step);
		return 0;
	}
	if (c->boxes)
		return rvl_op_fail(c, "its indices are not evenly spaced");
	if (c->in[0].pitch || c->out[0].pitch) {
		gather_each(c, &g);
		return 0;
	}
	b.dim = g.dim;
	b.bytes = (size_t)product(x, g.axis + 1, x->rank) * rvl_type_size(c->in[0].type);
	rvl_for_range(c, product(x, 0, g.axis) * b.n, 1 + 16384 / (int64_t)b.bytes, gather_blocks, &b);
	return 0;
}

/* ---- single elements: GatherElements, Scatter, ScatterElements ---- */

/* A walk over the tensor of indices beside the tensor that they point into. */
struct walk {
	struct rvl_call *c;
	const struct rvl_shape *shape;	/* of the indices */
	int axis;
	int64_t dim;			/* of the axis in the tensor pointed into */
	int64_t row;			/* indices in a row */
	int64_t stride[RVL_MAX_RANK];	/* of the tensor pointed into */
};

static int check_element_shapes(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape, *k = &c->in[1].shape;
	int64_t axis;
	int rc = fixed_axis(c, &axis);

	if (!rc && k->rank != x->rank)
		return rvl_op_fail(c, "its input 1 has %d dimensions, input 0 %d", k->rank, x->rank);
	for (int d = 0; d < x->rank && !rc; d++)
		if (d != axis && k->dim[d] > x->dim[d])
			return rvl_op_fail(c, "dimension %d of input 1 is %lld, larger than that of input 0",
					   d, (long long)k->dim[d]);
	return rc;
}

static int begin_walk(struct rvl_call *c, struct walk *w)
{
	int64_t axis;
	int rc = fixed_axis(c, &axis);

	if (rc)
		return rc;
	*w = (struct walk) { .c = c, .shape = &c->in[1].shape, .axis = (int)axis };
	w->dim = c->in[0].shape.dim[axis];
	w->row = w->shape->dim[w->shape->rank - 1];
	rvl_strides(&c->in[0].shape, w->stride);
	return check_indices(c, w->dim);
}

/* The place that row @i of the indices points into where all its indices are 0. */
static int64_t row_place(const struct walk *w, int64_t i)
{
	int64_t at = 0;

	for (int d = w->shape->rank - 2; d >= 0; d--) {
		if (d != w->axis)
			at += i % w->shape->dim[d] * w->stride[d];
		i /= w->shape->dim[d];
	}
	return at;
}

/* The place that index @k of a row points to. */
static int64_t place(const struct walk *w, int64_t row, int64_t base, int64_t k)
{
	int64_t index = index_at(&w->c->in[1], row * w->row + k, w->dim);

	return base + (w->axis == w->shape->rank - 1 ? 0 : k) + index * w->stride[w->axis];
}

static int infer_gather_elements(struct rvl_call *c)
{
	int rc = check_element_shapes(c);

	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &c->in[1].shape);
	return rc;
}

static void gather_rows(void *arg, int64_t first, int64_t past)
{
	const struct walk *w = arg;
	size_t size = rvl_type_size(w->c->in[0].type);
	const char *x = w->c->in[0].data;
	char *y = w->c->out[0].data;

	for (int64_t i = first; i < past; i++) {
		int64_t base = row_place(w, i);

		for (int64_t k = 0; k < w->row; k++)
			memcpy(y + (size_t)(i * w->row + k) * size,
			       x + (size_t)place(w, i, base, k) * size, size);
	}
}

static int run_gather_elements(struct rvl_call *c)
{
	struct walk w;
	int rc = begin_walk(c, &w);

	if (!rc && rvl_count(&c->in[1]))
		rvl_for_range(c, rvl_count(&c->in[1]) / w.row, 1 + 1024 / w.row, gather_rows, &w);
	return rc;
}

/* ---- reductions of scattered values ---- */

enum reduction { REPLACE, ADD, MULTIPLY, LARGEST, SMALLEST };

static enum reduction reduction_of(const struct rvl_call *c)
{
	static const char *const name[] = { "none", "add", "mul", "max", "min" };
	enum reduction r = REPLACE;

	for (const struct rvl_attr_def *a = c->def->attrs; a && a->name; a++)
		for (int i = 0; !strcmp(a->name, "reduction") && i < 5; i++)
			if (rvl_attr_is(c, "reduction", name[i]))
				r = (enum reduction)i;
	return r;
}

/* Sums and products of integers wrap; a NaN is larger and smaller than every number. */
#define DEFINE_COMBINE(type, wide) \
static void combine_##type(void *dst, int64_t step, const void *src, int64_t n, enum reduction r) \
{ \
	const type *x = src; \
	type *y = dst; \
	for (int64_t i = 0; i < n; i++, y += step) { \
		if (r == REPLACE) \
			*y = x[i]; \
		else if (r == ADD) \
			*y = (type)((wide)*y + (wide)x[i]); \
		else if (r == MULTIPLY) \
			*y = (type)((wide)*y * (wide)x[i]); \
		else if (r == LARGEST) \
			*y = *y != *y || *y > x[i] ? *y : x[i]; \
		else \
			*y = *y != *y || *y < x[i] ? *y : x[i]; \
	} \
}

DEFINE_COMBINE(int8_t, uint64_t)
DEFINE_COMBINE(int16_t, uint64_t)
DEFINE_COMBINE(int32_t, uint64_t)
DEFINE_COMBINE(int64_t, uint64_t)
DEFINE_COMBINE(uint8_t, uint64_t)
DEFINE_COMBINE(uint16_t, uint64_t)
DEFINE_COMBINE(uint32_t, uint64_t)
DEFINE_COMBINE(uint64_t, uint64_t)
DEFINE_COMBINE(float, float)

/* The sum of two bools is "or", their product "and". */
static void combine_bool(void *dst, int64_t step, const void *src, int64_t n, enum reduction r)
{
	combine_uint8_t(dst, step, src, n, r == ADD ? LARGEST : r == MULTIPLY ? SMALLEST : r);
}

typedef void (*combine_fn)(void *dst, int64_t step, const void *src, int64_t n, enum reduction r);

/* y[i * step] is combined with x[i], for n elements of @type. */
static combine_fn combine_of(enum rvl_type type)
{
	static const combine_fn fn[RVL_TYPE_COUNT] = {
		[RVL_TYPE_S8] = combine_int8_t, [RVL_TYPE_S16] = combine_int16_t,
		[RVL_TYPE_S32] = combine_int32_t, [RVL_TYPE_S64] = combine_int64_t,
		[RVL_TYPE_U8] = combine_uint8_t, [RVL_TYPE_U16] = combine_uint16_t,
		[RVL_TYPE_U32] = combine_uint32_t, [RVL_TYPE_U64] = combine_uint64_t,
		[RVL_TYPE_F32] = combine_float, [RVL_TYPE_BOOL] = combine_bool,
	};

	return fn[type];
}

static int infer_scatter_elements(struct rvl_call *c)
{
	int rc = check_element_shapes(c);

	if (!rc && !rvl_shape_equal(&c->in[1].shape, &c->in[2].shape))
		return rvl_op_fail(c, "its inputs 1 and 2 have different shapes");
	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &c->in[0].shape);
	return rc;
}

static int run_scatter_elements(struct rvl_call *c)
{
	enum reduction r = reduction_of(c);
	combine_fn combine = combine_of(c->in[0].type);
	size_t size = rvl_type_size(c->in[0].type);
	const char *x = c->in[2].data;
	char *y = c->out[0].data;
	int64_t n = rvl_count(&c->in[1]);
	struct walk w;
	int rc = begin_walk(c, &w);

	if (rc)
		return rc;
	copy_input(c);
	for (int64_t i = 0; n && i < n / w.row; i++) {
		int64_t base = row_place(&w, i);

		for (int64_t k = 0; k < w.row; k++)
			combine(y + (size_t)place(&w, i, base, k) * size, 1,
				x + (size_t)(i * w.row + k) * size, 1, r);
	}
	return 0;
}

/* ---- tuples of indices: GatherND, ScatterND ---- */

struct tuples {
	struct rvl_call *c;
	int batch;		/* leading dimensions that data and indices share */
	int k;			/* indices in a tuple */
	int64_t n;		/* tuples */
	int64_t batches;
	int64_t block;		/* elements that a tuple points to */
	int64_t stride[RVL_MAX_RANK];
};

static int begin_tuples(struct rvl_call *c, int64_t batch, struct tuples *t)
{
	const struct rvl_shape *x = &c->in[0].shape, *k = &c->in[1].shape;

	if (x->rank < 1 || k->rank < 1)
		return rvl_op_fail(c, "its inputs 0 and 1 have no dimensions");
	if (batch < 0 || batch >= x->rank || batch >= k->rank)
		return rvl_op_fail(c, "batch_dims is %lld", (long long)batch);
	for (int d = 0; d < batch; d++)
		if (x->dim[d] != k->dim[d])
			return rvl_op_fail(c, "its inputs 0 and 1 differ in dimension %d", d);
	if (k->dim[k->rank - 1] < 1 || k->dim[k->rank - 1] > x->rank - batch)
		return rvl_op_fail(c, "its tuples have %lld indices for a tensor of rank %d",
				   (long long)k->dim[k->rank - 1], x->rank);
	*t = (struct tuples) { .c = c, .batch = (int)batch, .k = (int)k->dim[k->rank - 1] };
	t->n = product(k, 0, k->rank - 1);
	t->batches = product(k, 0, t->batch);
	t->block = product(x, t->batch + t->k, x->rank);
	rvl_strides(x, t->stride);
	return 0;
}

/* The first element that tuple @i points to. */
static int tuple_place(const struct tuples *t, int64_t i, int64_t *at)
{
	const int64_t *dim = t->c->in[0].shape.dim + t->batch;
	const int64_t *index = (const int64_t *)t->c->in[1].data + i * t->k;

	*at = t->batch ? i / (t->n / t->batches) * t->stride[t->batch - 1] : 0;
	for (int d = 0; d < t->k; d++) {
		if (index[d] < -dim[d] || index[d] >= dim[d])
			return rvl_op_fail(t->c, "index %d of tuple %lld is %lld, but the axis has %lld elements",
					   d, (long long)i, (long long)index[d], (long long)dim[d]);
		*at += (index[d] < 0 ? index[d] + dim[d] : index[d]) * t->stride[t->batch + d];
	}
	return 0;
}

/* The shape of the indices without the last dimension, then what the tuples leave of the data's. */
static int tuple_shape(struct rvl_call *c, const struct tuples *t, struct rvl_shape *y)
{
	const struct rvl_shape *x = &c->in[0].shape, *k = &c->in[1].shape;
	int skip = t->batch + t->k;

	*y = *k;
	y->rank = k->rank - 1 + x->rank - skip;
	if (y->rank > RVL_MAX_RANK)
		return rvl_op_fail(c, "its result has %d dimensions, more than %d", y->rank,
				   RVL_MAX_RANK);
	for (int d = skip; d < x->rank; d++)
		y->dim[k->rank - 1 + d - skip] = x->dim[d];
	return 0;
}

static int begin_gather_nd(struct rvl_call *c, struct tuples *t)
{
	return begin_tuples(c, c->def->attrs ? rvl_attr_int(c, "batch_dims") : 0, t);
}

static int infer_gather_nd(struct rvl_call *c)
{
	struct rvl_shape y;
	struct tuples t;
	int rc = begin_gather_nd(c, &t);

	if (!rc)
		rc = tuple_shape(c, &t, &y);
	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &y);
	return rc;
}

static int run_gather_nd(struct rvl_call *c)
{
	size_t size = rvl_type_size(c->in[0].type);
	struct tuples t;
	int64_t at;
	int rc = begin_gather_nd(c, &t);

	for (int64_t i = 0; !rc && i < t.n; i++) {
		rc = tuple_place(&t, i, &at);
		if (!rc && t.block)
			memcpy((char *)c->out[0].data + (size_t)(i * t.block) * size,
			       (const char *)c->in[0].data + (size_t)at * size,
			       (size_t)t.block * size);
	}
	return rc;
}

static int infer_scatter_nd(struct rvl_call *c)
{
	struct rvl_shape want;
	struct tuples t;
	int rc = begin_tuples(c, 0, &t);

	if (!rc)
		rc = tuple_shape(c, &t, &want);
	if (!rc && !rvl_shape_equal(&want, &c->in[2].shape))
		return rvl_op_fail(c, "its input 2 does not have one block for each tuple");
	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &c->in[0].shape);
	return rc;
}

static int run_scatter_nd(struct rvl_call *c)
{
	size_t size = rvl_type_size(c->in[0].type);
	combine_fn combine = combine_of(c->in[0].type);
	struct tuples t;
	int64_t at;
	int rc = begin_tuples(c, 0, &t);

	copy_input(c);
	for (int64_t i = 0; !rc && i < t.n; i++) {
		rc = tuple_place(&t, i, &at);
		if (!rc)
			combine((char *)c->out[0].data + (size_t)at * size, 1,
				(const char *)c->in[2].data + (size_t)(i * t.block) * size, t.block,
				reduction_of(c));
	}
	return rc;
}

/* ---- TensorScatter ---- */

static int infer_tensor_scatter(struct rvl_call *c)
{
	struct rvl_shape x = c->in[1].shape;
	int64_t axis, most;
	int rc = fixed_axis(c, &axis);

	if (rc)
		return rc;
	if (!axis)
		return rvl_op_fail(c, "its axis is 0, which is that of the batch");
	most = c->in[0].shape.dim[axis];
	if (x.rank == c->in[0].shape.rank && x.dim[axis] <= most)
		x.dim[axis] = most;
	if (!rvl_shape_equal(&x, &c->in[0].shape))
		return rvl_op_fail(c, "its input 1 does not fit into input 0");
	if (rvl_has(c, 2) && (c->in[2].shape.rank != 1 || c->in[2].shape.dim[0] != x.dim[0]))
		return rvl_op_fail(c, "its input 2 does not have one index for each of %lld samples",
				   (long long)x.dim[0]);
	return rvl_infer_same(c);
}

/* Where the update of sample @i begins. */
static int write_index(struct rvl_call *c, int64_t i, int64_t n, int64_t most, int64_t *at)
{
	int64_t k = rvl_has(c, 2) ? ((const int64_t *)c->in[2].data)[i] : 0;

	*at = k;
	if (rvl_attr_is(c, "mode", "circular")) {
		*at = k % most < 0 ? k % most + most : k % most;
		return 0;
	}
	if (k < 0 || k > most - n)
		return rvl_op_fail(c, "write index %lld is %lld, not 0 to %lld", (long long)i,
				   (long long)k, (long long)(most - n));
	return 0;
}

static int run_tensor_scatter(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int64_t axis, most, n, outer, at = 0;
	size_t bytes = rvl_type_size(c->in[0].type);
	const char *src = c->in[1].data;
	char *dst = c->out[0].data;
	int rc = fixed_axis(c, &axis);

	copy_input(c);
	if (rc || !rvl_count(&c->in[1]))
		return rc;
	most = x->dim[axis];
	n = c->in[1].shape.dim[axis];
	outer = product(x, 0, (int)axis);
	bytes *= (size_t)product(x, (int)axis + 1, x->rank);
	for (int64_t i = 0; i < outer; i++) {
		int64_t head;

		rc = write_index(c, i / (outer / x->dim[0]), n, most, &at);
		if (rc)
			return rc;
		head = at + n > most ? most - at : n;
		memcpy(dst + (size_t)(i * most + at) * bytes, src + (size_t)(i * n) * bytes,
		       (size_t)head * bytes);
		memcpy(dst + (size_t)(i * most) * bytes, src + (size_t)(i * n + head) * bytes,
		       (size_t)(n - head) * bytes);
	}
	return rc;
}

/* ---- OneHot ---- */

static int infer_one_hot(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	struct rvl_shape y = { .rank = x->rank + 1 };
	int64_t axis = rvl_attr_int(c, "axis");
	double depth;
	int from = 0, rc;

	if (y.rank > RVL_MAX_RANK)
		return rvl_op_fail(c, "its result has more than %d dimensions", RVL_MAX_RANK);
	rc = rvl_fix_axis(c, &axis, y.rank);
	if (rc)
		return rc;
	if (rvl_count(&c->in[1]) != 1 || rvl_count(&c->in[2]) != 2)
		return rvl_op_fail(c, "its inputs 1 and 2 do not have one and two elements");
	c->unknown = !c->in[1].data;
	if (c->unknown)
		return rvl_op_fail(c, "its input 1 must be a constant");
	depth = rvl_element(c->in[1].type, c->in[1].data, 0);
	if (!(depth >= 0 && depth <= (double)MOST))
		return rvl_op_fail(c, "its depth is %g", depth);
	for (int d = 0; d < y.rank; d++)
		y.dim[d] = d == axis ? (int64_t)depth : x->dim[from++];
	rvl_set_out(c, 0, c->in[2].type, &y);
	return 0;
}

struct one_hot {
	const struct rvl_call *c;
	int64_t depth, inner;
	size_t size;
};

static void one_hot_rows(void *arg, int64_t first, int64_t past)
{
	const struct one_hot *h = arg;
	const struct rvl_value *x = &h->c->in[0];
	const char *off = h->c->in[2].data, *on = off + h->size;
	char *y = h->c->out[0].data;

	for (int64_t o = first; o < past; o++) {
		char *at = y + (size_t)(o * h->depth * h->inner) * h->size;

		for (int64_t i = 0; i < h->depth * h->inner; i++)
			memcpy(at + (size_t)i * h->size, off, h->size);
		for (int64_t i = 0; i < h->inner; i++) {
			double k = trunc(rvl_element(x->type, x->data, o * h->inner + i));

			k += k < 0 ? (double)h->depth : 0;
			if (k >= 0 && k < (double)h->depth)
				memcpy(at + (size_t)((int64_t)k * h->inner + i) * h->size, on,
				       h->size);
		}
	}
}

static int run_one_hot(struct rvl_call *c)
{
	const struct rvl_shape *y = &c->out[0].shape;
	struct one_hot h = { .c = c, .size = rvl_type_size(c->in[2].type) };
	int64_t axis = rvl_attr_int(c, "axis");
	int rc = rvl_fix_axis(c, &axis, y->rank);

	if (rc || !rvl_count(&c->out[0]))
		return rc;
	h.depth = y->dim[axis];
	h.inner = product(y, (int)axis + 1, y->rank);
	rvl_for_range(c, product(y, 0, (int)axis), 1 + 4096 / (h.depth * h.inner), one_hot_rows, &h);
	return 0;
}

/* ---- lists for each axis of a picture: MaxUnpool, Col2Im ---- */

/* Attribute @name of @n numbers from @least on, @missing where it is not given. */
static int numbers(struct rvl_call *c, const char *name, uint32_t n, int64_t least, int64_t missing,
		   int64_t *list)
{
	uint32_t given;
	const int64_t *v = rvl_attr_ints(c, name, &given);

	if (v && given != n)
		return rvl_op_fail(c, "attribute %s has %u values, not %u", name, given, n);
	for (uint32_t i = 0; i < n; i++) {
		list[i] = v ? v[i] : missing;
		if (list[i] < least || list[i] > MOST)
			return rvl_op_fail(c, "value %u of attribute %s is %lld", i, name,
					   (long long)list[i]);
	}
	return 0;
}

/* The shape of what was pooled, which the indices point into. */
static int unpooled_shape(struct rvl_call *c, struct rvl_shape *y)
{
	int64_t kernel[RVL_MAX_RANK], stride[RVL_MAX_RANK], pad[2 * RVL_MAX_RANK];
	uint32_t n;
	int rc = 0;

	*y = c->in[0].shape;
	if (y->rank < 3)
		return rvl_op_fail(c, "its input has %d dimensions, not 3 or more", y->rank);
	n = (uint32_t)y->rank - 2;
	if (numbers(c, "kernel_shape", n, 1, 1, kernel) || numbers(c, "strides", n, 1, 1, stride) ||
	    numbers(c, "pads", 2 * n, 0, 0, pad))
		return -EINVAL;
	for (uint32_t i = 0; i < n && !rc; i++) {
		int64_t *dim = &y->dim[2 + i];

		if (__builtin_mul_overflow(*dim - 1, stride[i], dim) ||
		    __builtin_add_overflow(*dim, kernel[i] - pad[i] - pad[n + i], dim) || *dim < 0)
			rc = rvl_op_fail(c, "dimension %u of its result is not valid", 2 + i);
	}
	if (!rc && rvl_shape_count(y) < 0)
		return rvl_op_fail(c, "its result is too large");
	return rc;
}

static int infer_max_unpool(struct rvl_call *c)
{
	struct rvl_shape pooled, y;
	int64_t list[RVL_MAX_RANK];
	uint32_t n;
	int rc = unpooled_shape(c, &pooled);

	if (rc)
		return rc;
	if (!rvl_shape_equal(&c->in[0].shape, &c->in[1].shape))
		return rvl_op_fail(c, "its inputs 0 and 1 have different shapes");
	y = pooled;
	if (rvl_has(c, 2)) {
		rc = rvl_int_input(c, 2, list, RVL_MAX_RANK, &n);
		if (!rc && n != (uint32_t)y.rank)
			return rvl_op_fail(c, "its output_shape has %u dimensions, not %d", n, y.rank);
		for (int d = 0; d < y.rank && !rc; d++) {
			if (list[d] < y.dim[d])
				return rvl_op_fail(c, "dimension %d of output_shape is %lld, less than %lld",
						   d, (long long)list[d], (long long)y.dim[d]);
			y.dim[d] = list[d];
		}
	}
	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &y);
	return rc;
}

/* Element @i of a tensor of shape @from is which one of a tensor with strides @to. */
static int64_t moved(const struct rvl_shape *from, const int64_t *to, int64_t i)
{
	int64_t at = 0;

	for (int d = from->rank - 1; d >= 0; d--) {
		at += i % from->dim[d] * to[d];
		i /= from->dim[d];
	}
	return at;
}

static int run_max_unpool(struct rvl_call *c)
{
	const int64_t *index = c->in[1].data;
	const float *x = c->in[0].data;
	float *y = c->out[0].data;
	int64_t to[RVL_MAX_RANK], most;
	struct rvl_shape pooled;
	int rc = unpooled_shape(c, &pooled);

	if (rc)
		return rc;
	most = rvl_shape_count(&pooled);
	rvl_strides(&c->out[0].shape, to);
	for (int64_t i = rvl_count(&c->out[0]) - 1; i >= 0; i--)
		y[i] = 0.0f;
	for (int64_t i = 0; i < rvl_count(&c->in[0]); i++) {
		if (index[i] < 0 || index[i] >= most)
			return rvl_op_fail(c, "index %lld of input 1 is %lld, not 0 to %lld", (long long)i,
					   (long long)index[i], (long long)most - 1);
		y[moved(&pooled, to, index[i])] = x[i];
	}
	return 0;
}

/* ---- Col2Im ---- */

/* Columns of a picture's blocks. */
struct columns {
	const struct rvl_call *c;
	int n;				/* spatial dimensions */
	int64_t image[RVL_MAX_RANK], block[RVL_MAX_RANK], stride[RVL_MAX_RANK];
	int64_t dilation[RVL_MAX_RANK], pad[2 * RVL_MAX_RANK];
	int64_t steps[RVL_MAX_RANK];	/* blocks along each dimension */
	int64_t pixels, places, count;	/* of an image; elements of a block; blocks */
};

static int read_columns(struct rvl_call *c, struct columns *k)
{
	uint32_t n = 0, m = 0;
	int rc = rvl_int_input(c, 1, k->image, RVL_MAX_RANK - 2, &n);

	if (!rc)
		rc = rvl_int_input(c, 2, k->block, RVL_MAX_RANK - 2, &m);
	if (!rc && (n != m || !n))
		return rvl_op_fail(c, "its image has %u dimensions, its blocks %u", n, m);
	if (!rc && (numbers(c, "strides", n, 1, 1, k->stride) ||
		    numbers(c, "dilations", n, 1, 1, k->dilation) ||
		    numbers(c, "pads", 2 * n, 0, 0, k->pad)))
		return -EINVAL;
	k->n = (int)n;
	return rc;
}

static int count_blocks(struct rvl_call *c, struct columns *k)
{
	struct rvl_shape image = { .rank = k->n }, block = image, steps = image;

	for (int d = 0; d < k->n; d++) {
		int64_t room;

		if (k->image[d] < 0 || k->image[d] > MOST || k->block[d] < 1 || k->block[d] > MOST)
			return rvl_op_fail(c, "dimension %d of its image is %lld, of its blocks %lld", d,
					   (long long)k->image[d], (long long)k->block[d]);
		room = k->image[d] + k->pad[d] + k->pad[k->n + d] -
		       k->dilation[d] * (k->block[d] - 1) - 1;
		k->steps[d] = room < 0 ? 0 : room / k->stride[d] + 1;
		image.dim[d] = k->image[d];
		block.dim[d] = k->block[d];
		steps.dim[d] = k->steps[d];
	}
	k->pixels = rvl_shape_count(&image);
	k->places = rvl_shape_count(&block);
	k->count = rvl_shape_count(&steps);
	if (k->pixels < 0 || k->places < 0 || k->count < 0)
		return rvl_op_fail(c, "its image is too large");
	return 0;
}

static int column_plan(struct rvl_call *c, struct columns *k)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int rc;

	*k = (struct columns) { .c = c };
	rc = read_columns(c, k);
	if (!rc)
		rc = count_blocks(c, k);
	if (!rc && x->rank != 3)
		return rvl_op_fail(c, "its input has %d dimensions, not 3", x->rank);
	if (!rc && (x->dim[1] % k->places || x->dim[2] != k->count))
		return rvl_op_fail(c, "its input does not have %lld blocks of %lld elements",
				   (long long)k->count, (long long)k->places);
	return rc;
}

static int infer_col2im(struct rvl_call *c)
{
	struct rvl_shape y = { .rank = 2 };
	struct columns k;
	int rc = column_plan(c, &k);

	if (rc)
		return rc;
	y.dim[0] = c->in[0].shape.dim[0];
	y.dim[1] = c->in[0].shape.dim[1] / k.places;
	for (int d = 0; d < k.n; d++)
		y.dim[y.rank++] = k.image[d];
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

/* The steps from *first up to *past of the last dimension that lie in the image at @offset. */
static void inside(const struct columns *k, int64_t offset, int64_t *first, int64_t *past)
{
	int d = k->n - 1;
	int64_t stride = k->stride[d], room = k->image[d] - offset;

	*first = offset < 0 ? (-offset + stride - 1) / stride : 0;
	*past = room > 0 ? (room + stride - 1) / stride : 0;
	*past = *past > k->steps[d] ? k->steps[d] : *past;
}

/* Adds one row of blocks, at element @place of each, to an image. */
static void add_row(const struct columns *k, int64_t place, int64_t row, const char *x, char *y)
{
	size_t size = rvl_type_size(k->c->in[0].type);
	int64_t at = 0, last = 0, scale = 1, first, past;

	for (int d = k->n - 1; d >= 0; d--) {
		int64_t pixel = place % k->block[d] * k->dilation[d] - k->pad[d];

		place /= k->block[d];
		if (d == k->n - 1) {
			last = pixel;
		} else {
			pixel += row % k->steps[d] * k->stride[d];
			row /= k->steps[d];
			if (pixel < 0 || pixel >= k->image[d])
				return;
			at += pixel * scale;
		}
		scale *= k->image[d];
	}
	inside(k, last, &first, &past);
	if (first < past)
		combine_of(k->c->in[0].type)(y + (size_t)(at + last + first * k->stride[k->n - 1]) * size,
					     k->stride[k->n - 1], x + (size_t)first * size, past - first,
					     ADD);
}

static void add_image(void *arg, int64_t first, int64_t past)
{
	const struct columns *k = arg;
	size_t size = rvl_type_size(k->c->in[0].type);
	int64_t row = k->steps[k->n - 1], rows = k->count / row;

	for (int64_t i = first; i < past; i++) {
		const char *x = (const char *)k->c->in[0].data +
				(size_t)(i * k->places * k->count) * size;
		char *y = (char *)k->c->out[0].data + (size_t)(i * k->pixels) * size;

		memset(y, 0, (size_t)k->pixels * size);
		for (int64_t j = 0; j < k->places * rows; j++)
			add_row(k, j / rows, j % rows, x + (size_t)(j * row) * size, y);
	}
}

static int run_col2im(struct rvl_call *c)
{
	int64_t n = rvl_count(&c->out[0]);
	struct columns k;
	int rc = column_plan(c, &k);

	if (rc || !n)
		return rc;
	if (k.count)
		rvl_for_range(c, n / k.pixels, 1, add_image, &k);
	else
		memset(c->out[0].data, 0, (size_t)n * rvl_type_size(c->out[0].type));
	return 0;
}

/* ---- the table ---- */

#define SCATTER(op, opset, indices, rule, work, ...) { \
	.name = op, .since = (opset), .least_in = 3, .most_in = 3, \
	.types = { RVL_T_ANY, indices, RVL_T_ANY }, .same = 1u << 2, \
	.attrs = RVL_ATTRS(__VA_ARGS__), .infer = rule, .run = work, \
	.doc = "a copy with elements written at indices" }
#define ELEMENTS(op, opset, ...) \
	SCATTER(op, opset, RVL_T_INDEX, infer_scatter_elements, run_scatter_elements, __VA_ARGS__)
#define TUPLES(opset, ...) \
	SCATTER("ScatterND", opset, RVL_T(S64), infer_scatter_nd, run_scatter_nd, __VA_ARGS__)
#define AXIS RVL_INT("axis", 0)
#define SOME_REDUCTIONS RVL_STRING("reduction", "none", "none|add|mul")
#define ALL_REDUCTIONS RVL_STRING("reduction", "none", "none|add|mul|max|min")

const struct rvl_op_def rvl_ops_gather[] = {
	{ .name = "Gather", .since = 1, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_ANY, RVL_T_INDEX }, .flags = RVL_OP_MOVES | RVL_OP_BOXES,
	  .pitched = RVL_PITCHED_IN(0) | RVL_PITCHED_OUT,
	  .attrs = RVL_ATTRS(RVL_INT("axis", 0)), .infer = infer_gather, .run = run_gather,
	  .doc = "parts of an axis at indices" },
	{ .name = "GatherElements", .since = 11, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_ANY, RVL_T_INDEX }, .flags = RVL_OP_MOVES,
	  .attrs = RVL_ATTRS(RVL_INT("axis", 0)), .infer = infer_gather_elements,
	  .run = run_gather_elements, .doc = "single elements of an axis at indices" },
	{ .name = "GatherND", .since = 11, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_ANY, RVL_T(S64) }, .flags = RVL_OP_MOVES, .infer = infer_gather_nd,
	  .run = run_gather_nd, .doc = "blocks at tuples of indices" },
	{ .name = "GatherND", .since = 12, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_ANY, RVL_T(S64) }, .flags = RVL_OP_MOVES,
	  .attrs = RVL_ATTRS(RVL_INT("batch_dims", 0)), .infer = infer_gather_nd,
	  .run = run_gather_nd, .doc = "blocks at tuples of indices, in batches" },
	ELEMENTS("Scatter", 9, AXIS),
	ELEMENTS("ScatterElements", 11, AXIS),
	ELEMENTS("ScatterElements", 16, AXIS, SOME_REDUCTIONS),
	ELEMENTS("ScatterElements", 18, AXIS, ALL_REDUCTIONS),
	{ .name = "ScatterND", .since = 11, .least_in = 3, .most_in = 3,
	  .types = { RVL_T_ANY, RVL_T(S64), RVL_T_ANY }, .same = 1u << 2,
	  .infer = infer_scatter_nd, .run = run_scatter_nd,
	  .doc = "a copy with blocks written at tuples of indices" },
	TUPLES(16, SOME_REDUCTIONS),
	TUPLES(18, ALL_REDUCTIONS),
	{ .name = "TensorScatter", .since = 24, .least_in = 2, .most_in = 3,
	  .types = { RVL_T_ANY, RVL_T_ANY, RVL_T(S64) }, .same = 1u << 1,
	  .attrs = RVL_ATTRS(RVL_INT("axis", -2), RVL_STRING("mode", "linear", "linear|circular")),
	  .infer = infer_tensor_scatter, .run = run_tensor_scatter,
	  .doc = "a cache with new elements written at an index for each sample" },
	{ .name = "OneHot", .since = 9, .least_in = 3, .most_in = 3,
	  .types = { RVL_T_NUMBER, RVL_T_NUMBER, RVL_T_ANY },
	  .attrs = RVL_ATTRS(RVL_INT("axis", -1)), .infer = infer_one_hot, .run = run_one_hot,
	  .doc = "one value where the position along an axis equals the index, another value elsewhere" },
	{ .name = "MaxUnpool", .since = 9, .least_in = 2, .most_in = 3,
	  .types = { RVL_T_FLOAT, RVL_T(S64), RVL_T(S64) },
	  .attrs = RVL_ATTRS(RVL_INTS_REQUIRED("kernel_shape"), RVL_INTS("pads"),
			     RVL_INTS("strides")),
	  .infer = infer_max_unpool, .run = run_max_unpool,
	  .doc = "the values at the indices that MaxPool gave, zeros elsewhere" },
	{ .name = "Col2Im", .since = 18, .least_in = 3, .most_in = 3,
	  .types = { RVL_T_ANY, RVL_T(S64), RVL_T(S64) },
	  .attrs = RVL_ATTRS(RVL_INTS("dilations"), RVL_INTS("pads"), RVL_INTS("strides")),
	  .infer = infer_col2im, .run = run_col2im, .doc = "the sum of a picture's blocks" },
	RVL_OPS_END
};
