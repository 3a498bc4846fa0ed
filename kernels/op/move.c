/* SPDX-License-Identifier: MIT */
/* Operators that place elements elsewhere: joins, slices, transpositions, padding. */
#include <string.h>

#include "rivulet_op.h"

#define MOST_ELEMENTS ((int64_t)1 << 40)	/* that rvl_shape_count() allows */

/* ---- lists of numbers ---- */

/* The numbers of input @i, which is of a float type in the oldest opsets. */
static int list_input(struct rvl_call *c, uint32_t i, int64_t *list, uint32_t max, uint32_t *n)
{
	const struct rvl_value *v = &c->in[i];
	int64_t count = rvl_count(v);

	if (v->type != RVL_TYPE_F32)
		return rvl_int_input(c, i, list, max, n);
	c->unknown = count && !v->data;
	if (c->unknown || count > max)
		return rvl_op_fail(c, c->unknown ? "its input %u must be a constant" :
				   "its input %u has more than %u values", i, max);
	for (int64_t k = 0; k < count; k++) {
		double d = rvl_element(v->type, v->data, k);

		list[k] = d > -1e9 && d < 1e9 ? (int64_t)d : -1;
	}
	*n = (uint32_t)count;
	return 0;
}

/*
 * Axes that belong to the values of another list: those of attribute @attr, else of input @i, else
 * all @rank in order. @attr may be NULL.
 */
static int axis_list(struct rvl_call *c, const char *attr, uint32_t i, int64_t rank, int64_t *axis,
		     uint32_t *n)
{
	const int64_t *given = NULL;
	uint32_t seen = 0;
	int rc = 0;

	*n = 0;
	if (attr)
		given = rvl_attr_ints(c, attr, n);
	if (*n > RVL_MAX_RANK)
		return rvl_op_fail(c, "it has %u axes, more than %d", *n, RVL_MAX_RANK);
	if (given)
		memcpy(axis, given, *n * sizeof(*axis));
	else if (rvl_has(c, i))
		rc = rvl_int_input(c, i, axis, RVL_MAX_RANK, n);
	else
		for (; *n < rank; ++*n)
			axis[*n] = *n;
	for (uint32_t k = 0; k < *n && !rc; k++) {
		rc = rvl_fix_axis(c, &axis[k], rank);
		if (!rc && seen >> axis[k] & 1)
			return rvl_op_fail(c, "axis %lld is named twice", (long long)axis[k]);
		if (!rc)
			seen |= 1u << axis[k];
	}
	return rc;
}

/* ---- Concat, Split ---- */

static int infer_concat(struct rvl_call *c)
{
	struct rvl_shape y = c->in[0].shape;
	int64_t axis = rvl_attr_int(c, "axis");
	int rc = rvl_fix_axis(c, &axis, y.rank);

	for (uint32_t i = 1; i < c->n_in && !rc; i++) {
		struct rvl_shape x = c->in[i].shape;

		if (x.rank == y.rank) {
			y.dim[axis] += x.dim[axis];
			x.dim[axis] = y.dim[axis];
		}
		if (!rvl_shape_equal(&x, &y))
			return rvl_op_fail(c, "its input %u differs from input 0 in more than axis %lld",
					   i, (long long)axis);
	}
	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &y);
	return rc;
}

static int run_concat(struct rvl_call *c)
{
	const struct rvl_shape *y = &c->out[0].shape;
	int64_t axis = rvl_attr_int(c, "axis"), to[RVL_MAX_RANK], from[RVL_MAX_RANK], at = 0;
	int rc = rvl_fix_axis(c, &axis, y->rank);

	if (rc)
		return rc;
	rvl_value_strides(&c->out[0], to);
	for (uint32_t i = 0; i < c->n_in; i++) {
		const struct rvl_shape *x = &c->in[i].shape;
		struct rvl_region b = rvl_region_between(&c->in[i], 0, &c->out[0], at * to[axis]);

		rvl_value_strides(&c->in[i], from);
		rvl_region_copy_dims(c, &b, x->dim, from, to, x->rank);
		at += x->dim[axis];
	}
	return 0;
}

static bool has_attr(const struct rvl_call *c, int32_t first, int32_t past)
{
	return c->def->since >= first && c->def->since < past;
}

/* The sizes that the model gives; *n is 0 where it gives none. */
static int given_sizes(struct rvl_call *c, int64_t *size, uint32_t *n)
{
	const int64_t *list;

	*n = 0;
	if (rvl_has(c, 1))
		return list_input(c, 1, size, RVL_MAX_OUT, n);
	if (!has_attr(c, 1, 13))
		return 0;
	list = rvl_attr_ints(c, "split", n);
	if (*n > RVL_MAX_OUT)
		return rvl_op_fail(c, "it has %u parts, more than %d", *n, RVL_MAX_OUT);
	if (list)
		memcpy(size, list, *n * sizeof(*size));
	return 0;
}

/* Parts of equal size; with num_outputs the last ones may be smaller. */
static int equal_sizes(struct rvl_call *c, int64_t dim, int64_t *size)
{
	bool ragged = has_attr(c, 18, 99) && rvl_attr_given(c, "num_outputs");
	int64_t n = ragged ? rvl_attr_int(c, "num_outputs") : c->n_out, part;

	if (n < c->n_out || n > RVL_MAX_OUT)
		return rvl_op_fail(c, "num_outputs is %lld, but it has %u outputs", (long long)n,
				   c->n_out);
	if (!ragged && dim % n)
		return rvl_op_fail(c, "%lld elements do not split into %lld equal parts",
				   (long long)dim, (long long)n);
	part = (dim + n - 1) / n;
	for (int64_t i = 0; i < n; i++) {
		size[i] = dim < part ? dim : part;
		dim -= size[i];
	}
	return 0;
}

static int split_sizes(struct rvl_call *c, int64_t dim, int64_t *size)
{
	int64_t sum = 0;
	uint32_t n;
	int rc = given_sizes(c, size, &n);

	if (rc)
		return rc;
	if (!n)
		return equal_sizes(c, dim, size);
	if (n < c->n_out)
		return rvl_op_fail(c, "it has %u outputs but only %u sizes", c->n_out, n);
	for (uint32_t i = 0; i < n; i++) {
		if (size[i] < 0 || size[i] > dim)
			return rvl_op_fail(c, "part %u has %lld of %lld elements", i,
					   (long long)size[i], (long long)dim);
		sum += size[i];
	}
	return sum == dim ? 0 : rvl_op_fail(c, "its parts have %lld elements together, not %lld",
					    (long long)sum, (long long)dim);
}

static int split_plan(struct rvl_call *c, int64_t *axis, int64_t *size)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int rc;

	*axis = rvl_attr_int(c, "axis");
	rc = rvl_fix_axis(c, axis, x->rank);
	return rc ? rc : split_sizes(c, x->dim[*axis], size);
}

static int infer_split(struct rvl_call *c)
{
	struct rvl_shape y = c->in[0].shape;
	int64_t axis, size[RVL_MAX_OUT];
	int rc = split_plan(c, &axis, size);

	for (uint32_t i = 0; i < c->n_out && !rc; i++) {
		y.dim[axis] = size[i];
		rvl_set_out(c, i, c->in[0].type, &y);
	}
	return rc;
}

static int run_split(struct rvl_call *c)
{
	int64_t axis, size[RVL_MAX_OUT], from[RVL_MAX_RANK], to[RVL_MAX_RANK], at = 0;
	int rc = split_plan(c, &axis, size);

	if (rc)
		return rc;
	rvl_value_strides(&c->in[0], from);
	for (uint32_t i = 0; i < c->n_out; i++) {
		const struct rvl_value *y = &c->out[i];
		struct rvl_region b = rvl_region_between(&c->in[0], at * from[axis], y, 0);

		at += size[i];
		rvl_value_strides(y, to);
		if (rvl_wants(c, i) && (y->data || c->boxes))
			rvl_region_copy_dims(c, &b, y->shape.dim, from, to, y->shape.rank);
	}
	return 0;
}

/* ---- Slice ---- */

struct slice {
	int64_t first[RVL_MAX_RANK], step[RVL_MAX_RANK], n[RVL_MAX_RANK];
};

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* Elements from @start up to @end, exclusive, of an axis of @dim; both may count from the end. */
static void slice_axis(struct slice *s, int64_t axis, int64_t dim, int64_t start, int64_t end,
		       int64_t step)
{
	int64_t lowest = step < 0 ? -1 : 0;

	start = clamp(start < 0 ? start + dim : start, step < 0 && !dim ? -1 : 0, dim + lowest);
	end = clamp(end < 0 ? end + dim : end, lowest, dim + lowest);
	step = clamp(step, -MOST_ELEMENTS, MOST_ELEMENTS);
	s->first[axis] = start;
	s->step[axis] = step;
	if (step > 0)
		s->n[axis] = start < end ? (end - start - 1) / step + 1 : 0;
	else
		s->n[axis] = start > end ? (start - end - 1) / -step + 1 : 0;
}

/* Bounds from attributes (opset 1) or inputs 1 and 2, as lists of one length. */
static int slice_bounds(struct rvl_call *c, int64_t *start, int64_t *end, uint32_t *n)
{
	uint32_t ends;
	int rc;

	if (has_attr(c, 1, 10)) {
		const int64_t *a = rvl_attr_ints(c, "starts", n), *b = rvl_attr_ints(c, "ends", &ends);

		if (*n == ends && *n <= RVL_MAX_RANK && a && b) {
			memcpy(start, a, *n * sizeof(*start));
			memcpy(end, b, *n * sizeof(*end));
		}
	} else {
		rc = rvl_int_input(c, 1, start, RVL_MAX_RANK, n);
		if (!rc)
			rc = rvl_int_input(c, 2, end, RVL_MAX_RANK, &ends);
		if (rc)
			return rc;
	}
	if (*n != ends || *n > RVL_MAX_RANK)
		return rvl_op_fail(c, "it has %u starts and %u ends", *n, ends);
	return 0;
}

static int slice_steps(struct rvl_call *c, int64_t *step, uint32_t n)
{
	uint32_t steps = n;
	int rc = 0;

	for (uint32_t k = 0; k < n; k++)
		step[k] = 1;
	if (rvl_has(c, 4))
		rc = rvl_int_input(c, 4, step, RVL_MAX_RANK, &steps);
	if (!rc && steps != n)
		return rvl_op_fail(c, "it has %u starts and %u steps", n, steps);
	for (uint32_t k = 0; k < n && !rc; k++)
		if (!step[k])
			return rvl_op_fail(c, "step %u is 0", k);
	return rc;
}

static int slice_plan(struct rvl_call *c, struct slice *s)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int64_t start[RVL_MAX_RANK], end[RVL_MAX_RANK], axis[RVL_MAX_RANK], step[RVL_MAX_RANK];
	uint32_t n, axes;
	int rc = slice_bounds(c, start, end, &n);
	bool all = !rvl_has(c, 3) && !(has_attr(c, 1, 10) && rvl_attr_given(c, "axes"));

	if (!rc)
		rc = axis_list(c, has_attr(c, 1, 10) ? "axes" : NULL, 3, x->rank, axis, &axes);
	if (!rc && (all ? n > axes : n != axes))
		return rvl_op_fail(c, "it has %u starts for %u axes", n, axes);
	if (!rc)
		rc = slice_steps(c, step, n);
	for (int d = 0; d < x->rank && !rc; d++)
		slice_axis(s, d, x->dim[d], 0, x->dim[d], 1);
	for (uint32_t k = 0; k < n && !rc; k++)
		slice_axis(s, axis[k], x->dim[axis[k]], start[k], end[k], step[k]);
	return rc;
}

/* The axes that a Slice cuts, where they are known before the run; its starts or ends are not. */
static bool cut_axes(struct rvl_call *c, uint32_t *set)
{
	int64_t axis[RVL_MAX_RANK];
	uint32_t n;

	if (axis_list(c, has_attr(c, 1, 10) ? "axes" : NULL, 3, c->in[0].shape.rank, axis, &n))
		return false;
	*set = 0;
	for (uint32_t i = 0; i < n; i++)
		*set |= 1u << axis[i];
	return true;
}

/* Whatever is cut off, the input is the bound. */
static int infer_slice(struct rvl_call *c)
{
	struct rvl_shape y = c->in[0].shape;
	struct slice s;
	int rc = slice_plan(c, &s);

	if (rc && c->unknown && cut_axes(c, &c->varies)) {
		c->unknown = false;
		c->bounded = true;
		rvl_set_out(c, 0, c->in[0].type, &y);
		return 0;
	}
	if (rc)
		return rc;
	for (int d = 0; d < y.rank; d++)
		y.dim[d] = s.n[d];
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

static int run_slice(struct rvl_call *c)
{
	const struct rvl_shape *y = &c->out[0].shape;
	int64_t from[RVL_MAX_RANK], to[RVL_MAX_RANK], first = 0;
	struct slice s;
	struct rvl_region b;
	int rc = slice_plan(c, &s);

	if (rc || !rvl_count(&c->out[0]))
		return rc;
	rvl_value_strides(&c->in[0], from);
	rvl_value_strides(&c->out[0], to);
	for (int d = 0; d < y->rank; d++) {
		first += s.first[d] * from[d];
		from[d] *= s.n[d] > 1 ? s.step[d] : 1;
	}
	b = rvl_region_between(&c->in[0], first, &c->out[0], 0);
	rvl_region_copy_dims(c, &b, y->dim, from, to, y->rank);
	return 0;
}

/* ---- Transpose ---- */

static int permutation(struct rvl_call *c, int64_t *perm)
{
	int rank = c->in[0].shape.rank;
	uint32_t n, seen = 0;
	const int64_t *given = rvl_attr_ints(c, "perm", &n);

	if (given && n != (uint32_t)rank)
		return rvl_op_fail(c, "perm has %u axes, its input has %d", n, rank);
	for (int d = 0; d < rank; d++) {
		perm[d] = given ? given[d] : rank - 1 - d;
		if (perm[d] < 0 || perm[d] >= rank || seen >> perm[d] & 1)
			return rvl_op_fail(c, "perm does not name every axis once");
		seen |= 1u << perm[d];
	}
	return 0;
}

static int infer_transpose(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	struct rvl_shape y = *x;
	int64_t perm[RVL_MAX_RANK];
	int rc = permutation(c, perm);

	for (int d = 0; d < x->rank && !rc; d++)
		y.dim[d] = x->dim[perm[d]];
	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &y);
	return rc;
}

static int run_transpose(struct rvl_call *c)
{
	const struct rvl_shape *y = &c->out[0].shape;
	int64_t perm[RVL_MAX_RANK], own[RVL_MAX_RANK], from[RVL_MAX_RANK], to[RVL_MAX_RANK];
	struct rvl_region b = rvl_region_between(&c->in[0], 0, &c->out[0], 0);
	int rc = permutation(c, perm);

	if (rc)
		return rc;
	rvl_value_strides(&c->in[0], own);
	rvl_value_strides(&c->out[0], to);
	for (int d = 0; d < y->rank; d++)
		from[d] = own[perm[d]];
	rvl_region_copy_dims(c, &b, y->dim, from, to, y->rank);
	return 0;
}

/* ---- Pad, CenterCropPad ---- */

/* What is added before and behind each axis; a negative number is cut off. */
struct pads {
	int64_t before[RVL_MAX_RANK], behind[RVL_MAX_RANK];
};

/* The elements of axis @d of the input that stay, and where they lie in the output. */
static int64_t kept(const struct rvl_shape *x, const struct pads *p, int d)
{
	int64_t cut = (p->before[d] < 0 ? p->before[d] : 0) + (p->behind[d] < 0 ? p->behind[d] : 0);

	return x->dim[d] + cut;
}

static int64_t padded_first(const struct pads *p, int d)
{
	return p->before[d] > 0 ? p->before[d] : 0;
}

static const char *pad_attr(const struct rvl_call *c)
{
	return c->def->since == 1 ? "paddings" : "pads";
}

/* The list of pads: all before, then all behind. */
static int pad_numbers(struct rvl_call *c, int64_t *list, uint32_t *n)
{
	const int64_t *given;

	if (c->def->since >= 11)
		return rvl_int_input(c, 1, list, 2 * RVL_MAX_RANK, n);
	given = rvl_attr_ints(c, pad_attr(c), n);
	if (*n > 2 * RVL_MAX_RANK)
		return rvl_op_fail(c, "it has %u pads", *n);
	if (given)
		memcpy(list, given, *n * sizeof(*list));
	return 0;
}

static int pad_plan(struct rvl_call *c, struct pads *p)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int64_t list[2 * RVL_MAX_RANK], axis[RVL_MAX_RANK];
	uint32_t n, axes = 0;
	int rc = pad_numbers(c, list, &n);

	memset(p, 0, sizeof(*p));
	if (!rc)
		rc = axis_list(c, NULL, 3, x->rank, axis, &axes);
	if (!rc && n != 2 * axes)
		return rvl_op_fail(c, "it has %u pads for %u axes", n, axes);
	for (uint32_t k = 0; k < n && !rc; k++) {
		if (list[k] < -MOST_ELEMENTS || list[k] > MOST_ELEMENTS)
			return rvl_op_fail(c, "pad %u is %lld", k, (long long)list[k]);
		*(k < axes ? &p->before[axis[k]] : &p->behind[axis[k - axes]]) = list[k];
	}
	return rc;
}

static int infer_pad(struct rvl_call *c)
{
	bool copies = !rvl_attr_is(c, "mode", "constant");
	struct rvl_shape y = c->in[0].shape;
	struct pads p;
	int rc = pad_plan(c, &p);

	for (int d = 0; d < y.rank && !rc; d++) {
		int64_t n = kept(&c->in[0].shape, &p, d);

		y.dim[d] += p.before[d] + p.behind[d];
		if (n < 0 || y.dim[d] < 0)
			return rvl_op_fail(c, "more is cut off axis %d than its %lld elements", d,
					   (long long)c->in[0].shape.dim[d]);
		if (copies && !n && y.dim[d])
			return rvl_op_fail(c, "axis %d is empty, so there is nothing to pad it with", d);
	}
	if (!rc && rvl_has(c, 2) && rvl_count(&c->in[2]) != 1)
		return rvl_op_fail(c, "its constant_value has %lld elements, not 1",
				   (long long)rvl_count(&c->in[2]));
	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &y);
	return rc;
}

/* The input without what is cut off, at its place in the output. */
static void copy_kept(const struct rvl_call *c, const struct pads *p)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int64_t from[RVL_MAX_RANK], to[RVL_MAX_RANK], dim[RVL_MAX_RANK], first = 0, at = 0;
	struct rvl_region b;

	rvl_value_strides(&c->in[0], from);
	rvl_value_strides(&c->out[0], to);
	for (int d = 0; d < x->rank; d++) {
		dim[d] = kept(x, p, d);
		first += (p->before[d] < 0 ? -p->before[d] : 0) * from[d];
		at += padded_first(p, d) * to[d];
		if (!dim[d])
			return;
	}
	b = rvl_region_between(&c->in[0], first, &c->out[0], at);
	rvl_region_copy_dims(c, &b, dim, from, to, x->rank);
}

struct fill {
	char *y;
	size_t size;
	const void *value;
};

#define FILL_BYTES 4096	/* that are copied from the beginning, which stays in the cache */

static void fill_range(void *arg, int64_t first, int64_t past)
{
	const struct fill *f = arg;
	char *y = f->y + (size_t)first * f->size;
	size_t n = (size_t)(past - first) * f->size, done = f->size;

	if (!n)
		return;
	memcpy(y, f->value, f->size);
	for (size_t more; done < n; done += more) {
		more = done < FILL_BYTES ? done : FILL_BYTES / f->size * f->size;
		more = more < n - done ? more : n - done;
		memcpy(y + done, y, more);
	}
}

static void fill_output(const struct rvl_call *c, const void *value)
{
	const struct rvl_value *y = &c->out[0];
	struct fill f = { y->data, rvl_type_size(y->type), value };
	struct rvl_copy one = { .x = value, .y = y->data, .size = f.size };
	int64_t to[RVL_MAX_RANK];

	if (!y->pitch) {
		rvl_for_range(c, rvl_count(y), 4096, fill_range, &f);
		return;
	}
	rvl_value_strides(y, to);
	for (int d = 0; d < y->shape.rank; d++)
		rvl_copy_dim(&one, y->shape.dim[d], 0, to[d]);
	rvl_copy_run(&one, c->pool);
}

static void pad_constant(const struct rvl_call *c, const struct pads *p)
{
	static const int64_t zero;
	float value = c->def->since < 11 ? rvl_attr_float(c, "value") : 0.0f;
	const void *v = c->def->since < 11 ? (const void *)&value : &zero;

	fill_output(c, rvl_has(c, 2) ? c->in[2].data : v);
	copy_kept(c, p);
}

/* The index among @n elements of the one that element @i outside of them is a copy of. */
static int64_t copied_from(const char *mode, int64_t i, int64_t n)
{
	int64_t period = mode[0] == 'r' ? 2 * (n - 1) : n;

	if (mode[0] == 'e' || n == 1)
		return i < 0 ? 0 : n - 1;
	i %= period;
	i = i < 0 ? i + period : i;
	return i < n ? i : period - i;
}

/*
 * Fills the padding along axis @d with copies of elements. Axes behind @d are complete, so that
 * their whole extent is copied. Of axes before @d only the kept elements are copied, because their
 * padding follows.
 */
static void pad_axis(const struct rvl_call *c, const struct pads *p, int d)
{
	const struct rvl_value *y = &c->out[0];
	const char *mode = rvl_attr_string(c, "mode");
	int64_t dim[RVL_MAX_RANK], to[RVL_MAX_RANK], n = kept(&c->in[0].shape, p, d), at = 0;

	rvl_value_strides(y, to);
	memcpy(dim, y->shape.dim, sizeof(dim));
	for (int k = 0; k < d; k++) {
		dim[k] = kept(&c->in[0].shape, p, k);
		at += padded_first(p, k) * to[k];
	}
	dim[d] = 1;
	for (int64_t i = 0; i < y->shape.dim[d]; i++) {
		int64_t own = i - padded_first(p, d);
		struct rvl_region b;

		if (own >= 0 && own < n)
			continue;
		own = padded_first(p, d) + copied_from(mode, own, n);
		b = rvl_region_between(y, at + own * to[d], y, at + i * to[d]);
		rvl_region_copy_dims(c, &b, dim, to, to, y->shape.rank);
	}
}

static int run_pad(struct rvl_call *c)
{
	struct pads p;
	int rc = pad_plan(c, &p);

	if (rc || !rvl_count(&c->out[0]))
		return rc;
	if (rvl_attr_is(c, "mode", "constant")) {
		pad_constant(c, &p);
		return 0;
	}
	copy_kept(c, &p);
	for (int d = c->out[0].shape.rank - 1; d >= 0; d--)
		pad_axis(c, &p, d);
	return 0;
}

static int center_plan(struct rvl_call *c, struct rvl_shape *y, struct pads *p)
{
	int64_t axis[RVL_MAX_RANK], size[RVL_MAX_RANK];
	uint32_t n, axes;
	int rc = axis_list(c, "axes", RVL_MAX_IN, c->in[0].shape.rank, axis, &axes);

	*y = c->in[0].shape;
	memset(p, 0, sizeof(*p));
	if (!rc)
		rc = rvl_int_input(c, 1, size, RVL_MAX_RANK, &n);
	if (!rc && n != axes)
		return rvl_op_fail(c, "it has %u sizes for %u axes", n, axes);
	for (uint32_t k = 0; k < axes && !rc; k++) {
		int64_t d = axis[k], more = size[k] - y->dim[d];

		if (size[k] < 0 || size[k] > MOST_ELEMENTS)
			return rvl_op_fail(c, "size %u is %lld", k, (long long)size[k]);
		p->before[d] = more / 2;
		p->behind[d] = more - p->before[d];
		y->dim[d] = size[k];
	}
	return rc;
}

static int infer_center(struct rvl_call *c)
{
	struct rvl_shape y;
	struct pads p;
	int rc = center_plan(c, &y, &p);

	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &y);
	return rc;
}

static int run_center(struct rvl_call *c)
{
	static const int64_t zero;
	struct rvl_shape y;
	struct pads p;
	int rc = center_plan(c, &y, &p);

	if (rc || !rvl_count(&c->out[0]))
		return rc;
	fill_output(c, &zero);
	copy_kept(c, &p);
	return 0;
}

/* ---- Tile ---- */

/* How often the input is repeated along each axis. */
static int tile_plan(struct rvl_call *c, int64_t *times)
{
	int rank = c->in[0].shape.rank;
	int64_t list[RVL_MAX_RANK], axis = 0;
	uint32_t n = 0, one = 1;
	int rc = list_input(c, 1, list, RVL_MAX_RANK, &n);

	if (!rc && c->def->since < 6) {
		rc = list_input(c, 2, &axis, 1, &one);
		if (!rc && (n != 1 || one != 1))
			return rvl_op_fail(c, "its tiles and its axis are not one number each");
		if (!rc)
			rc = rvl_fix_axis(c, &axis, rank);
		for (int d = 0; d < rank && !rc; d++)
			times[d] = d == axis ? list[0] : 1;
	} else if (!rc && n != (uint32_t)rank) {
		return rvl_op_fail(c, "it has %u repeats for %d axes", n, rank);
	} else if (!rc) {
		memcpy(times, list, n * sizeof(*list));
	}
	for (int d = 0; d < rank && !rc; d++)
		if (times[d] < 0 || times[d] > MOST_ELEMENTS)
			return rvl_op_fail(c, "axis %d is repeated %lld times", d, (long long)times[d]);
	return rc;
}

static int infer_tile(struct rvl_call *c)
{
	struct rvl_shape y = c->in[0].shape;
	int64_t times[RVL_MAX_RANK];
	int rc = tile_plan(c, times);

	for (int d = 0; d < y.rank && !rc; d++)
		if (__builtin_mul_overflow(y.dim[d], times[d], &y.dim[d]))
			return rvl_op_fail(c, "its result is too large");
	if (!rc)
		rvl_set_out(c, 0, c->in[0].type, &y);
	return rc;
}

static int run_tile(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	struct rvl_region b = rvl_region_between(&c->in[0], 0, &c->out[0], 0);
	int64_t times[RVL_MAX_RANK], from[RVL_MAX_RANK], to[RVL_MAX_RANK];
	int rc = tile_plan(c, times);

	if (rc)
		return rc;
	rvl_value_strides(&c->in[0], from);
	rvl_value_strides(&c->out[0], to);
	for (int d = 0; d < x->rank; d++) {
		rvl_region_dim(&b, times[d], 0, x->dim[d] * to[d]);
		rvl_region_dim(&b, x->dim[d], from[d], to[d]);
	}
	rvl_region_copy(c, &b);
	return 0;
}

/* ---- DepthToSpace, SpaceToDepth ---- */

/* @wide: which of the two tensors has the larger pictures. */
static int infer_blocks(struct rvl_call *c, bool to_space)
{
	struct rvl_shape y = c->in[0].shape;
	int64_t k = rvl_attr_int(c, "blocksize");

	if (y.rank != 4)
		return rvl_op_fail(c, "its input has %d dimensions, not 4", y.rank);
	if (k < 1 || k > 1 << 20)
		return rvl_op_fail(c, "blocksize is %lld", (long long)k);
	if (to_space ? y.dim[1] % (k * k) : y.dim[2] % k || y.dim[3] % k)
		return rvl_op_fail(c, "its input does not divide into blocks of %lld", (long long)k);
	y.dim[1] = to_space ? y.dim[1] / (k * k) : y.dim[1] * k * k;
	y.dim[2] = to_space ? y.dim[2] * k : y.dim[2] / k;
	y.dim[3] = to_space ? y.dim[3] * k : y.dim[3] / k;
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

static int infer_to_space(struct rvl_call *c)
{
	return infer_blocks(c, true);
}

static int infer_to_depth(struct rvl_call *c)
{
	return infer_blocks(c, false);
}

static bool columns_last(const struct rvl_call *c)
{
	for (const struct rvl_attr_def *a = c->def->attrs; a->name; a++)
		if (!strcmp(a->name, "mode"))
			return rvl_attr_is(c, "mode", "CRD");
	return false;
}

static int run_blocks(struct rvl_call *c, const struct rvl_shape *space, bool to_space)
{
	struct rvl_region b = rvl_region_between(&c->in[0], 0, &c->out[0], 0);
	int64_t k = rvl_attr_int(c, "blocksize"), channels = space->dim[1];
	/* Channels of the deep tensor by which a channel and a place in a block differ. */
	int64_t channel = columns_last(c) ? k * k : 1, place = columns_last(c) ? 1 : channels;
	const int64_t dim[6] = { space->dim[0], channels, space->dim[2] / k, k, space->dim[3] / k, k };
	/* Along these dimensions: the axis of either tensor, and how many of its indices are passed. */
	const int64_t deep_axis[6] = { 0, 1, 2, 1, 3, 1 }, deep_step[6] = { 1, channel, 1, k * place, 1, place };
	const int64_t wide_axis[6] = { 0, 1, 2, 2, 3, 3 }, wide_step[6] = { 1, 1, k, 1, k, 1 };
	int64_t own[RVL_MAX_RANK], deep[6], wide[6];

	rvl_value_strides(to_space ? &c->in[0] : &c->out[0], own);
	for (int d = 0; d < 6; d++)
		deep[d] = deep_step[d] * own[deep_axis[d]];
	rvl_value_strides(to_space ? &c->out[0] : &c->in[0], own);
	for (int d = 0; d < 6; d++)
		wide[d] = wide_step[d] * own[wide_axis[d]];
	rvl_region_copy_dims(c, &b, dim, to_space ? deep : wide, to_space ? wide : deep, 6);
	return 0;
}

static int run_to_space(struct rvl_call *c)
{
	return run_blocks(c, &c->out[0].shape, true);
}

static int run_to_depth(struct rvl_call *c)
{
	return run_blocks(c, &c->in[0].shape, false);
}

/* ---- Trilu ---- */

struct triangle {
	const char *x;
	char *y;
	size_t size;
	int64_t rows, cols, k;
	bool upper;
};

static int infer_trilu(struct rvl_call *c)
{
	if (c->in[0].shape.rank < 2)
		return rvl_op_fail(c, "its input has %d dimensions, not 2 or more",
				   c->in[0].shape.rank);
	if (rvl_has(c, 1) && rvl_count(&c->in[1]) != 1)
		return rvl_op_fail(c, "its input 1 is not one number");
	return rvl_infer_same(c);
}

static void trilu_rows(void *arg, int64_t first, int64_t past)
{
	const struct triangle *t = arg;
	size_t row = (size_t)t->cols * t->size;

	for (int64_t i = first; i < past; i++) {
		size_t at = (size_t)i * row;
		size_t cut = t->size * (size_t)clamp(i % t->rows + t->k + !t->upper, 0, t->cols);

		memcpy(t->y + at, t->x + at, row);
		if (t->upper)
			memset(t->y + at, 0, cut);
		else
			memset(t->y + at + cut, 0, row - cut);
	}
}

static int run_trilu(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	struct triangle t = {
		.x = c->in[0].data, .y = c->out[0].data, .size = rvl_type_size(c->in[0].type),
		.rows = x->dim[x->rank - 2], .cols = x->dim[x->rank - 1],
		.upper = rvl_attr_int(c, "upper"),
	};
	int64_t n = rvl_count(&c->in[0]);

	if (rvl_has(c, 1))
		t.k = clamp(*(const int64_t *)c->in[1].data, -MOST_ELEMENTS, MOST_ELEMENTS);
	if (n)
		rvl_for_range(c, n / t.cols, 1 + 4096 / t.cols, trilu_rows, &t);
	return 0;
}

/* ---- ReverseSequence ---- */

static int infer_reverse(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape, *n = &c->in[1].shape;
	int64_t batch = rvl_attr_int(c, "batch_axis"), time = rvl_attr_int(c, "time_axis");

	if (batch < 0 || batch > 1 || time != 1 - batch)
		return rvl_op_fail(c, "batch_axis is %lld and time_axis %lld, not 0 and 1",
				   (long long)batch, (long long)time);
	if (x->rank < 2)
		return rvl_op_fail(c, "its input has %d dimensions, not 2 or more", x->rank);
	if (n->rank != 1 || n->dim[0] != x->dim[batch])
		return rvl_op_fail(c, "its input 1 does not have one length for each of %lld sequences",
				   (long long)x->dim[batch]);
	return rvl_infer_same(c);
}

static int run_reverse(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int batch = (int)rvl_attr_int(c, "batch_axis"), time = 1 - batch;
	const int64_t *length = c->in[1].data;
	int64_t from[RVL_MAX_RANK], step;

	rvl_strides(x, from);
	step = from[time];
	for (int64_t i = 0; i < x->dim[batch]; i++) {
		int64_t n = length[i], at = i * from[batch], inner = from[1];
		struct rvl_region head, tail;

		if (n < 0 || n > x->dim[time])
			return rvl_op_fail(c, "sequence %lld has length %lld, not 0 to %lld", (long long)i,
					   (long long)n, (long long)x->dim[time]);
		head = rvl_region_between(&c->in[0], at + (n ? n - 1 : 0) * step, &c->out[0], at);
		rvl_region_dim(&head, n, -step, step);
		rvl_region_dim(&head, inner, 1, 1);
		rvl_region_copy(c, &head);
		tail = rvl_region_between(&c->in[0], at + n * step, &c->out[0], at + n * step);
		rvl_region_dim(&tail, x->dim[time] - n, step, step);
		rvl_region_dim(&tail, inner, 1, 1);
		rvl_region_copy(c, &tail);
	}
	return 0;
}

/* ---- the table ---- */

#define BOX_MOVES \
	.flags = RVL_OP_MOVES | RVL_OP_BOXES, .pitched = RVL_PITCHED_IN(0) | RVL_PITCHED_OUT
#define PAD_OLD(opset, list) { \
	.name = "Pad", .since = (opset), .least_in = 1, .most_in = 1, .types = { RVL_T_FLOAT }, \
	.pitched = RVL_PITCHED_ALL, \
	.attrs = RVL_ATTRS(RVL_FLOAT("value", 0.0f), RVL_INTS_REQUIRED(list), \
			   RVL_STRING("mode", "constant", "constant|reflect|edge")), \
	.infer = infer_pad, .run = run_pad, .doc = "elements added at the ends of axes" }
#define PAD(opset, most, modes) { \
	.name = "Pad", .since = (opset), .least_in = 2, .most_in = most, \
	.types = { RVL_T_ANY, RVL_T(S64), RVL_T_ANY, RVL_T_INDEX }, .same = 1u << 2, \
	.flags = RVL_OP_PADS, .pitched = RVL_PITCHED_IN(0) | RVL_PITCHED_OUT, \
	.attrs = RVL_ATTRS(RVL_STRING("mode", "constant", modes)), \
	.infer = infer_pad, .run = run_pad, .role = RVL_ROLE_PAD, \
	.doc = "elements added at the ends of axes" }
#define MOVED(op, opset, rule, work, text, ...) { \
	.name = op, .since = (opset), .least_in = 1, .most_in = 1, .types = { RVL_T_MOVED }, \
	BOX_MOVES, .attrs = RVL_ATTRS(__VA_ARGS__), .infer = rule, \
	.run = work, .doc = text }
#define SPLIT(opset, most, type, ...) { \
	.name = "Split", .since = (opset), .least_in = 1, .most_in = most, \
	.least_out = 1, .most_out = RVL_MAX_OUT, .types = { RVL_T_MOVED, type }, \
	BOX_MOVES, \
	.attrs = RVL_ATTRS(RVL_INT("axis", 0), __VA_ARGS__), .infer = infer_split, \
	.run = run_split, .doc = "parts along an axis" }
#define CONCAT(opset, axis) { \
	.name = "Concat", .since = (opset), .least_in = 1, .most_in = RVL_ANY_NUMBER_IN, \
	.types = { RVL_T_MOVED }, .same = RVL_SAME_ALL, \
	.flags = RVL_OP_JOINS | RVL_OP_BOXES, .pitched = RVL_PITCHED_ALL, \
	.attrs = RVL_ATTRS(axis), \
	.infer = infer_concat, .run = run_concat, .role = RVL_ROLE_JOIN, .doc = "the inputs one behind the other along an axis" }
#define BLOCK_MODE RVL_STRING("mode", "DCR", "DCR|CRD")
#define TO_SPACE(opset, ...) { \
	.name = "DepthToSpace", .since = (opset), .least_in = 1, .most_in = 1, \
	.types = { RVL_T_MOVED }, BOX_MOVES, \
	.attrs = RVL_ATTRS(__VA_ARGS__), .infer = infer_to_space, .run = run_to_space, \
	.role = RVL_ROLE_CHANNELS_TO_PIXELS, .doc = "channels as blocks of pixels" }

const struct rvl_op_def rvl_ops_move[] = {
	CONCAT(1, RVL_INT("axis", 1)),
	CONCAT(4, RVL_INT_REQUIRED("axis")),
	SPLIT(1, 2, RVL_T_FLOAT, RVL_INTS("split")),
	SPLIT(2, 1, 0, RVL_INTS("split")),
	{ .name = "Split", .since = 13, .least_in = 1, .most_in = 2, .least_out = 1,
	  .most_out = RVL_MAX_OUT, .types = { RVL_T_MOVED, RVL_T(S64) },
	  BOX_MOVES, .attrs = RVL_ATTRS(RVL_INT("axis", 0)),
	  .infer = infer_split, .run = run_split, .doc = "parts along an axis" },
	SPLIT(18, 2, RVL_T(S64), RVL_INT("num_outputs", 0)),
	MOVED("Slice", 1, infer_slice, run_slice, "a part of every axis", RVL_INTS("axes"),
	      RVL_INTS_REQUIRED("starts"), RVL_INTS_REQUIRED("ends")),
	{ .name = "Slice", .since = 10, .least_in = 3, .most_in = 5,
	  .types = { RVL_T_MOVED, RVL_T_INDEX, RVL_T_INDEX, RVL_T_INDEX },
	  BOX_MOVES, .infer = infer_slice, .run = run_slice,
	  .role = RVL_ROLE_CUT, .doc = "a part of every axis, in steps" },
	{ .name = "Transpose", .since = 1, .least_in = 1, .most_in = 1, .types = { RVL_T_MOVED },
	  BOX_MOVES, .attrs = RVL_ATTRS(RVL_INTS("perm")),
	  .infer = infer_transpose, .run = run_transpose, .kernel = RVL_OP_TRANSPOSE,
	  .doc = "the axes permuted" },
	PAD_OLD(1, "paddings"),
	PAD_OLD(2, "pads"),
	PAD(11, 3, "constant|reflect|edge"),
	PAD(18, 4, "constant|reflect|edge"),
	PAD(19, 4, "constant|reflect|edge|wrap"),
	{ .name = "CenterCropPad", .since = 18, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_ANY, RVL_T_INDEX }, .pitched = RVL_PITCHED_IN(0) | RVL_PITCHED_OUT,
	  .attrs = RVL_ATTRS(RVL_INTS("axes")), .infer = infer_center, .run = run_center,
	  .doc = "axes cut or padded with zeros at both ends" },
	{ .name = "Tile", .since = 1, .least_in = 3, .most_in = 3, .types = { RVL_T_FLOAT },
	  BOX_MOVES, .infer = infer_tile, .run = run_tile,
	  .doc = "the input repeated along one axis" },
	{ .name = "Tile", .since = 6, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_MOVED, RVL_T(S64) }, BOX_MOVES,
	  .infer = infer_tile, .run = run_tile, .doc = "the input repeated along every axis" },
	TO_SPACE(1, RVL_INT_REQUIRED("blocksize")),
	TO_SPACE(11, RVL_INT_REQUIRED("blocksize"), BLOCK_MODE),
	MOVED("SpaceToDepth", 1, infer_to_depth, run_to_depth, "blocks of pixels as channels",
	      RVL_INT_REQUIRED("blocksize")),
	MOVED("SpaceToDepth", 28, infer_to_depth, run_to_depth, "blocks of pixels as channels",
	      RVL_INT_REQUIRED("blocksize"), BLOCK_MODE),
	{ .name = "Trilu", .since = 14, .least_in = 1, .most_in = 2,
	  .types = { RVL_T_ANY, RVL_T(S64) }, .attrs = RVL_ATTRS(RVL_INT("upper", 1)),
	  .infer = infer_trilu, .run = run_trilu,
	  .doc = "the upper or lower triangle of matrices, zeros elsewhere" },
	{ .name = "ReverseSequence", .since = 10, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_ANY, RVL_T(S64) }, .flags = RVL_OP_MOVES,
	  .attrs = RVL_ATTRS(RVL_INT("batch_axis", 1), RVL_INT("time_axis", 0)),
	  .infer = infer_reverse, .run = run_reverse, .doc = "each sequence with its first elements in reverse order" },
	RVL_OPS_END
};
