/* SPDX-License-Identifier: MIT */
/*
 * One operator of the table under test: attributes and operands from literals, then the shape rule
 * and the computation through rvl_kernel_new() and rvl_kernel_run_values(). Every operand has memory
 * of exactly its size, so that a sanitizer sees each access outside it. Without a sanitizer, guard
 * bytes behind the memory show what was written there.
 */
#ifndef RVL_TEST_OP_RIG_H
#define RVL_TEST_OP_RIG_H

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_kernels.h"
#include "unit/edge.h"

struct op_rig {
	struct rvl_call call;
	struct rvl_attr_value attr[RVL_MAX_ATTRS];
	bool constant[RVL_MAX_IN];
	char strings[RVL_MAX_ATTRS][64];
	char why[RVL_WHY_MAX];
	const uint8_t *guard[RVL_MAX_IN + RVL_MAX_OUT + 1];
	uint32_t guards;
};

static struct op_rig rig;

#ifdef __SANITIZE_ADDRESS__
#define OP_GUARD 0
#else
#define OP_GUARD 64
#endif

/* Puts guard bytes behind an operand. */
static inline void op_guard(uint8_t *at)
{
	for (int k = 0; k < OP_GUARD; k++)
		at[k] = 0xa6;
	if (rig.guards < sizeof(rig.guard) / sizeof(rig.guard[0]))
		rig.guard[rig.guards++] = at;
}

/* Asserts that nothing was written behind the operands. */
static inline void op_check_guards(void)
{
	for (uint32_t i = 0; i < rig.guards; i++)
		for (int k = 0; k < OP_GUARD; k++)
			ck_assert_msg(rig.guard[i][k] == 0xa6, "%s wrote %d bytes behind an operand",
				      rig.call.def->name, k);
}

/* Frees the operands of the previous operator. */
static inline void op_end(void)
{
	op_check_guards();
	for (uint32_t i = 0; i < RVL_MAX_IN; i++)
		free(rig.call.in[i].data);
	for (uint32_t i = 0; i < RVL_MAX_OUT; i++)
		free(rig.call.out[i].data);
	memset(&rig, 0, sizeof(rig));
}

static inline void op_begin_in(const char *domain, const char *name, int64_t opset)
{
	op_end();
	rig.call.def = rvl_op_find(domain, name, opset);
	ck_assert_msg(rig.call.def, "there is no %s of opset %lld", name, (long long)opset);
	rig.call.attr = rig.attr;
}

static inline void op_begin(const char *name, int64_t opset)
{
	op_begin_in(NULL, name, opset);
}

static inline struct rvl_attr_value *op_attr(const char *name)
{
	const struct rvl_attr_def *a = rig.call.def->attrs;
	uint32_t i = 0;

	while (a && a[i].name && strcmp(a[i].name, name))
		i++;
	ck_assert_msg(a && a[i].name, "%s has no attribute %s", rig.call.def->name, name);
	rig.attr[i].given = true;
	return &rig.attr[i];
}

static inline void op_int(const char *name, int64_t v)
{
	op_attr(name)->i = v;
}

static inline void op_float(const char *name, float v)
{
	op_attr(name)->f = v;
}

static inline void op_string(const char *name, const char *v)
{
	struct rvl_attr_value *a = op_attr(name);
	char *to = rig.strings[a - rig.attr];

	snprintf(to, sizeof(rig.strings[0]), "%s", v);
	a->data = to;
	a->n = (uint32_t)strlen(v);
}

/*
 * Sets an attribute to a list. The list must outlive the run, as literals in the test's function
 * do.
 */
static inline void op_list(const char *name, const void *list, size_t n)
{
	struct rvl_attr_value *a = op_attr(name);

	a->data = list;
	a->n = (uint32_t)n;
}

#define OP_INTS(name, ...) \
	op_list(name, (const int64_t[]) { __VA_ARGS__ }, \
		sizeof((const int64_t[]) { __VA_ARGS__ }) / sizeof(int64_t))
#define OP_FLOATS(name, ...) \
	op_list(name, (const float[]) { __VA_ARGS__ }, \
		sizeof((const float[]) { __VA_ARGS__ }) / sizeof(float))

static inline struct rvl_shape op_shape(size_t rank, const int64_t *dim)
{
	struct rvl_shape s = { .rank = (int32_t)rank };

	memcpy(s.dim, dim, rank * sizeof(*dim));
	return s;
}

#define DIMS(...) \
	op_shape(sizeof((const int64_t[]) { __VA_ARGS__ }) / sizeof(int64_t), \
		 (const int64_t[]) { __VA_ARGS__ })
#define RANK0 ((struct rvl_shape) { .rank = 0 })

/* Memory of exactly @n elements; 1 byte where there are none, so that it is never NULL. */
static inline void *op_memory(enum rvl_type type, int64_t n, const void *from)
{
	size_t bytes = (size_t)n * rvl_type_size(type);
	uint8_t *p = malloc(bytes + OP_GUARD ? bytes + OP_GUARD : 1);

	ck_assert_ptr_nonnull(p);
	op_guard(p + bytes);
	if (from && bytes)
		memcpy(p, from, bytes);
	else
		memset(p, 0x5a, bytes);
	return p;
}

/*
 * Adds an input whose data is known at run time only. @n: elements of @data, which checks the
 * literal.
 */
static inline void op_in(enum rvl_type type, struct rvl_shape s, const void *data, size_t n)
{
	struct rvl_value *v = &rig.call.in[rig.call.n_in++];

	ck_assert_int_eq((int64_t)n, rvl_shape_count(&s));
	*v = (struct rvl_value) { .type = type, .shape = s, .data = op_memory(type, (int64_t)n, data) };
}

/* Adds an input that is known when the operator is compiled. */
static inline void op_const(enum rvl_type type, struct rvl_shape s, const void *data, size_t n)
{
	rig.constant[rig.call.n_in] = true;
	op_in(type, s, data, n);
}

/* An optional input that is absent. */
static inline void op_none(void)
{
	rig.call.n_in++;
}

#define OP_N(ctype, ...) (sizeof((const ctype[]) { __VA_ARGS__ }) / sizeof(ctype))
#define OP_IN(T, ctype, dims, ...) \
	op_in(RVL_TYPE_##T, dims, (const ctype[]) { __VA_ARGS__ }, OP_N(ctype, __VA_ARGS__))
#define OP_CONST(T, ctype, dims, ...) \
	op_const(RVL_TYPE_##T, dims, (const ctype[]) { __VA_ARGS__ }, OP_N(ctype, __VA_ARGS__))
#define IN_F32(dims, ...) OP_IN(F32, float, dims, __VA_ARGS__)
#define IN_U8(dims, ...) OP_IN(U8, uint8_t, dims, __VA_ARGS__)
#define IN_S8(dims, ...) OP_IN(S8, int8_t, dims, __VA_ARGS__)
#define IN_S32(dims, ...) OP_IN(S32, int32_t, dims, __VA_ARGS__)
#define IN_S64(dims, ...) OP_IN(S64, int64_t, dims, __VA_ARGS__)
#define CONST_F32(dims, ...) OP_CONST(F32, float, dims, __VA_ARGS__)
#define CONST_S64(dims, ...) OP_CONST(S64, int64_t, dims, __VA_ARGS__)
/* An operand with a dimension of 0. */
#define IN_EMPTY(T, dims) op_in(RVL_TYPE_##T, dims, NULL, 0)

/* Applies the shape rule, with the data of constants only. */
static inline int op_infer(uint32_t n_out)
{
	struct rvl_call c = rig.call;
	int rc;

	c.n_out = n_out;
	for (uint32_t i = 0; i < c.n_in; i++)
		if (!rig.constant[i])
			c.in[i].data = NULL;
	rc = rvl_op_infer(&c);
	memcpy(rig.why, c.why, sizeof(rig.why));
	rig.call.n_out = n_out;
	rig.call.bounded = c.bounded;
	rig.call.unknown = c.unknown;
	memcpy(rig.call.out, c.out, sizeof(c.out));
	return rc;
}

static inline void op_describe(struct rvl_kernel_desc *d)
{
	memset(d, 0, sizeof(*d));
	d->op = RVL_OP_GENERAL;
	d->def = rig.call.def;
	d->n_in = rig.call.n_in;
	d->n_out = rig.call.n_out;
	memcpy(d->value, rig.attr, sizeof(d->value));
	for (uint32_t i = 0; i < d->n_in; i++) {
		const struct rvl_value *v = &rig.call.in[i];

		d->in[i] = (struct rvl_kernel_arg) {
			.type = v->type, .shape = v->shape,
			.data = rig.constant[i] ? v->data : NULL,
		};
	}
	for (uint32_t i = 0; i < d->n_out; i++)
		d->out[i] = (struct rvl_kernel_arg) {
			.type = rig.call.out[i].type, .shape = rig.call.out[i].shape,
		};
}

/*
 * Infers and runs with @n_out outputs. Returns the first error; rig.why has its text. If only the
 * data of a run determines the shape, the test must set rig.call.out[] to bounds before.
 */
static inline int op_run(uint32_t n_out)
{
	struct rvl_kernel_desc d;
	struct rvl_kernel *k;
	uint8_t *scratch;
	size_t room;
	int rc = op_infer(n_out);

	if (rc)
		return rc;
	op_describe(&d);
	rc = rvl_kernel_new(&d, false, &k, rig.why);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < n_out; i++)
		if (rig.call.out[i].type)
			rig.call.out[i].data = op_memory(rig.call.out[i].type,
							 rvl_count(&rig.call.out[i]), NULL);
	room = rvl_kernel_scratch(k);
	ck_assert(!posix_memalign((void **)&scratch, 64, room + OP_GUARD ? room + OP_GUARD : 1));
	memset(scratch, 0x5a, room);
	op_guard(scratch + room);
	rc = rvl_kernel_run_values(k, rig.call.in, rig.call.out, scratch, NULL, rig.why);
	op_check_guards();
	rig.guards--;
	free(scratch);
	rvl_kernel_free(k);
	return rc;
}

/* Counts the elements of a box that the operator placed elsewhere, and marks those it placed. */
static inline int64_t op_box_errors(const struct rvl_op_box *b, uint8_t *placed)
{
	const struct rvl_value *x = &rig.call.in[b->in], *y = &rig.call.out[b->out];
	size_t size = rvl_type_size(x->type);
	int64_t n = 1, bad = 0;

	for (int d = 0; d < b->rank; d++)
		n *= b->dim[d];
	for (int64_t i = 0; i < n; i++) {
		int64_t from = b->from_at, to = b->to_at, left = i;

		for (int d = b->rank - 1; d >= 0; d--) {
			from += left % b->dim[d] * b->from[d];
			to += left % b->dim[d] * b->to[d];
			left /= b->dim[d];
		}
		if (from < 0 || from >= rvl_count(x) || to < 0 || to >= rvl_count(y))
			return n;
		bad += memcmp((const char *)x->data + (size_t)from * size,
			      (const char *)y->data + (size_t)to * size, size) != 0;
		bad += placed[to]++ != 0;
	}
	return bad;
}

/* Proves that the boxes that an operator lists are what it copied, all of it, and each element once. */
static inline void op_check_boxes(void)
{
	static struct rvl_op_boxes boxes;
	struct rvl_call c = rig.call;
	int rc = rvl_op_list_boxes(&c, &boxes);

	ck_assert_msg(!rc, "%s lists no boxes: %s", rig.call.def->name, c.why);
	for (uint32_t o = 0; o < c.n_out; o++) {
		int64_t n = c.out[o].type ? rvl_count(&c.out[o]) : 0, bad = 0;
		uint8_t *placed = calloc((size_t)n + 1, 1);

		ck_assert_ptr_nonnull(placed);
		for (uint32_t i = 0; n && i < boxes.n; i++)
			if (boxes.box[i].out == o)
				bad += op_box_errors(&boxes.box[i], placed);
		for (int64_t i = 0; i < n; i++)
			bad += placed[i] != 1;
		free(placed);
		ck_assert_msg(!bad, "%s: %lld elements of output %u lie elsewhere than its boxes say",
			      rig.call.def->name, (long long)bad, o);
	}
}

/* Runs an operator that must succeed. */
static inline void op_ok(uint32_t n_out)
{
	int rc = op_run(n_out);

	ck_assert_msg(!rc, "%s: %s", rig.call.def->name, rig.why);
	if (rig.call.def->flags & RVL_OP_BOXES && !rig.call.bounded && !rig.call.unknown)
		op_check_boxes();
}

/* Runs an operator that must fail with @text in its reason. */
static inline void op_fails(uint32_t n_out, const char *text)
{
	int rc = op_run(n_out);

	ck_assert_msg(rc == -EINVAL, "%s: returned %d", rig.call.def->name, rc);
	ck_assert_msg(strstr(rig.why, text), "'%s' is not in '%s'", text, rig.why);
}

/* Asserts type, shape and data of output @i: floats within 1e-5, NaN equal to NaN. */
static inline void op_want(uint32_t i, enum rvl_type type, struct rvl_shape s, const void *data,
			   size_t n)
{
	const struct rvl_value *y = &rig.call.out[i];

	ck_assert_int_eq((int64_t)n, rvl_shape_count(&s));
	ck_assert_int_eq(y->type, type);
	ck_assert_int_eq(y->shape.rank, s.rank);
	for (int32_t k = 0; k < s.rank; k++)
		ck_assert_int_eq(y->shape.dim[k], s.dim[k]);
	for (int64_t k = 0; k < (int64_t)n; k++) {
		double a = rvl_element(type, y->data, k), b = rvl_element(type, data, k);

		if (type == RVL_TYPE_F32)
			ck_assert_msg(a == b || fabs(a - b) <= 1e-5 * (1.0 + fabs(b)) ||
				      (isnan(a) && isnan(b)),
				      "element %lld is %.9g, not %.9g", (long long)k, a, b);
		else
			ck_assert_msg(rvl_element_int(type, y->data, k) ==
				      rvl_element_int(type, data, k),
				      "element %lld is %.20g, not %.20g", (long long)k, a, b);
	}
}

#define OP_WANT(i, T, ctype, dims, ...) \
	op_want(i, RVL_TYPE_##T, dims, (const ctype[]) { __VA_ARGS__ }, OP_N(ctype, __VA_ARGS__))
#define WANT_F32(i, dims, ...) OP_WANT(i, F32, float, dims, __VA_ARGS__)
#define WANT_U8(i, dims, ...) OP_WANT(i, U8, uint8_t, dims, __VA_ARGS__)
#define WANT_S8(i, dims, ...) OP_WANT(i, S8, int8_t, dims, __VA_ARGS__)
#define WANT_S32(i, dims, ...) OP_WANT(i, S32, int32_t, dims, __VA_ARGS__)
#define WANT_S64(i, dims, ...) OP_WANT(i, S64, int64_t, dims, __VA_ARGS__)
#define WANT_EMPTY(i, T, dims) op_want(i, RVL_TYPE_##T, dims, NULL, 0)

#endif
