/* SPDX-License-Identifier: MIT */
/* The table of operators: look-up, attributes, and the checks that all shape rules share. */
#include "rivulet_op.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One declaration, then one entry, for each file of kernels/op/. Made by kernels/part.mk. */
#define RVL_OP_FAMILY(name) extern const struct rvl_op_def rvl_ops_##name[];
#include "op_families.inc"
#undef RVL_OP_FAMILY

static const struct rvl_op_def *const families[] = {
#define RVL_OP_FAMILY(name) rvl_ops_##name,
#include "op_families.inc"
#undef RVL_OP_FAMILY
};

#define FAMILIES (sizeof(families) / sizeof(families[0]))

static const char *domain_of(const char *domain)
{
	return domain && strcmp(domain, "ai.onnx") ? domain : "";
}

const struct rvl_op_def *rvl_op_find(const char *domain, const char *name, int64_t opset)
{
	const struct rvl_op_def *best = NULL;

	for (size_t i = 0; i < FAMILIES; i++)
		for (const struct rvl_op_def *d = families[i]; d->name; d++)
			if (d->since <= opset && (!best || d->since > best->since) &&
			    !strcmp(d->name, name) &&
			    !strcmp(domain_of(d->domain), domain_of(domain)))
				best = d;
	return best && best->until && opset >= best->until ? NULL : best;
}

const struct rvl_op_def *rvl_op_of_role(enum rvl_role role, int64_t opset)
{
	const struct rvl_op_def *d, *found;

	for (uint32_t i = 0; (d = rvl_op_at(i)); i++) {
		found = d->role == role ? rvl_op_find(d->domain, d->name, opset) : NULL;
		if (found && found->role == role)
			return found;
	}
	return NULL;
}

const struct rvl_op_def *rvl_op_of_kernel(enum rvl_op kernel)
{
	const struct rvl_op_def *best = NULL;

	for (size_t i = 0; i < FAMILIES; i++)
		for (const struct rvl_op_def *d = families[i]; d->name; d++)
			if (d->kernel == kernel && (!best || d->since > best->since))
				best = d;
	return best;
}

const struct rvl_op_def *rvl_op_at(uint32_t i)
{
	for (size_t k = 0; k < FAMILIES; k++)
		for (const struct rvl_op_def *d = families[k]; d->name; d++)
			if (!i--)
				return d;
	return NULL;
}

uint32_t rvl_op_attrs(const struct rvl_op_def *def)
{
	uint32_t n = 0;

	while (def->attrs && def->attrs[n].name)
		n++;
	return n;
}

int rvl_op_fail(struct rvl_call *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* ---- attributes ---- */

static uint32_t attr_index(const struct rvl_call *c, const char *name)
{
	uint32_t i = 0;

	while (c->def->attrs && c->def->attrs[i].name && strcmp(c->def->attrs[i].name, name))
		i++;
	assert(c->def->attrs && c->def->attrs[i].name);
	return i;
}

static bool knows_attr(const struct rvl_call *c, const char *name)
{
	for (const struct rvl_attr_def *a = c->def->attrs; a && a->name; a++)
		if (!strcmp(a->name, name))
			return true;
	return false;
}

int64_t rvl_attr_int(const struct rvl_call *c, const char *name)
{
	uint32_t i = attr_index(c, name);

	return c->attr[i].given ? c->attr[i].i : c->def->attrs[i].i;
}

float rvl_attr_float(const struct rvl_call *c, const char *name)
{
	uint32_t i = attr_index(c, name);

	return c->attr[i].given ? c->attr[i].f : c->def->attrs[i].f;
}

const char *rvl_attr_string(const struct rvl_call *c, const char *name)
{
	uint32_t i = attr_index(c, name);

	if (c->attr[i].given)
		return c->attr[i].data;
	return c->def->attrs[i].s ? c->def->attrs[i].s : "";
}

const char *rvl_attr_string_at(const struct rvl_call *c, const char *name, uint32_t i)
{
	const struct rvl_attr_value *v = &c->attr[attr_index(c, name)];
	const char *s = v->data;

	if (!v->given || i >= v->n)
		return NULL;
	while (i--)
		s += strlen(s) + 1;
	return s;
}

bool rvl_attr_is(const struct rvl_call *c, const char *name, const char *value)
{
	return !strcmp(rvl_attr_string(c, name), value);
}

bool rvl_attr_given(const struct rvl_call *c, const char *name)
{
	return c->attr[attr_index(c, name)].given;
}

const int64_t *rvl_attr_ints(const struct rvl_call *c, const char *name, uint32_t *n)
{
	const struct rvl_attr_value *v = &c->attr[attr_index(c, name)];

	*n = v->given ? v->n : 0;
	return *n ? v->data : NULL;
}

const float *rvl_attr_floats(const struct rvl_call *c, const char *name, uint32_t *n)
{
	const struct rvl_attr_value *v = &c->attr[attr_index(c, name)];

	*n = v->given ? v->n : 0;
	return *n ? v->data : NULL;
}

const struct rvl_attr_value *rvl_attr_tensor(const struct rvl_call *c, const char *name)
{
	const struct rvl_attr_value *v = &c->attr[attr_index(c, name)];

	return v->given ? v : NULL;
}

/* ---- operands ---- */

enum rvl_type rvl_type_of_onnx(int64_t onnx)
{
	static const uint8_t map[] = {
#define ONNX_ROW(name, value, text, bytes, npy, number) [number] = RVL_TYPE_##name,
		RIVULET_DTYPES(ONNX_ROW)
#undef ONNX_ROW
	};
	enum rvl_type t = onnx >= 0 && onnx < (int64_t)sizeof(map) ? map[onnx] : RVL_TYPE_NONE;

	return t == RVL_TYPE_F64 || t == RVL_TYPE_F16 || t == RVL_TYPE_BF16 ? RVL_TYPE_F32 : t;
}

int64_t rvl_work(int64_t a, int64_t b)
{
	int64_t product;

	if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product))
		return INT64_MAX;
	return product;
}

void rvl_set_out(struct rvl_call *c, uint32_t i, enum rvl_type type, const struct rvl_shape *shape)
{
	if (i >= c->n_out)
		return;
	c->out[i].type = type;
	c->out[i].shape = *shape;
}

int rvl_infer_same(struct rvl_call *c)
{
	for (uint32_t i = 0; i < c->n_out; i++)
		rvl_set_out(c, i, c->in[0].type, &c->in[0].shape);
	return 0;
}

static int broadcast_all(struct rvl_call *c, enum rvl_type type)
{
	struct rvl_shape s = c->in[0].shape;

	for (uint32_t i = 1; i < c->n_in; i++)
		if (rvl_has(c, i) && rvl_shape_broadcast(&s, &c->in[i].shape, &s))
			return rvl_op_fail(c, "its operands' shapes do not broadcast");
	rvl_set_out(c, 0, type, &s);
	return 0;
}

int rvl_infer_broadcast(struct rvl_call *c)
{
	return broadcast_all(c, c->in[0].type);
}

int rvl_infer_broadcast_bool(struct rvl_call *c)
{
	return broadcast_all(c, RVL_TYPE_BOOL);
}

int rvl_fix_axis(struct rvl_call *c, int64_t *axis, int64_t rank)
{
	if (*axis < -rank || *axis >= rank)
		return rvl_op_fail(c, "axis %lld does not exist in a tensor of rank %lld",
				   (long long)*axis, (long long)rank);
	if (*axis < 0)
		*axis += rank;
	return 0;
}

int rvl_int_input(struct rvl_call *c, uint32_t i, int64_t *list, uint32_t max, uint32_t *n)
{
	const struct rvl_value *v = &c->in[i];
	int64_t count = rvl_count(v);

	if (v->type != RVL_TYPE_S64 && v->type != RVL_TYPE_S32)
		return rvl_op_fail(c, "its input %u is %s, not int32 or int64", i,
				   rvl_type_name(v->type));
	if (count > max)
		return rvl_op_fail(c, "its input %u has %lld values, more than %u", i,
				   (long long)count, max);
	if (count && !v->data) {
		c->unknown = true;
		return rvl_op_fail(c, "its input %u must be a constant", i);
	}
	for (int64_t k = 0; k < count; k++)
		list[k] = rvl_element_int(v->type, v->data, k);
	*n = (uint32_t)count;
	return 0;
}

int rvl_axes(struct rvl_call *c, const char *attr, uint32_t i, int64_t rank, uint32_t *set,
	     bool *given)
{
	int64_t list[RVL_MAX_RANK];
	const int64_t *axes = list;
	uint32_t n = 0;
	int rc = 0;

	*set = 0;
	*given = true;
	if (attr && knows_attr(c, attr) && rvl_attr_given(c, attr))
		axes = rvl_attr_ints(c, attr, &n);
	else if (rvl_has(c, i))
		rc = rvl_int_input(c, i, list, RVL_MAX_RANK, &n);
	else
		*given = false;
	for (uint32_t k = 0; k < n && !rc; k++) {
		int64_t axis = axes[k];

		rc = rvl_fix_axis(c, &axis, rank);
		if (!rc && *set >> axis & 1)
			return rvl_op_fail(c, "axis %lld is named twice", (long long)axis);
		if (!rc)
			*set |= 1u << axis;
	}
	return rc;
}

/* ---- checks before a shape rule ---- */

static int check_number(struct rvl_call *c)
{
	const struct rvl_op_def *d = c->def;
	uint32_t most = d->most_out ? d->most_out : 1;

	if (c->n_in < d->least_in || c->n_in > d->most_in)
		return rvl_op_fail(c, "it has %u inputs, not %u to %u", c->n_in, d->least_in,
				   d->most_in);
	if (c->n_out > most)
		return rvl_op_fail(c, "it has %u outputs, at most %u are known", c->n_out, most);
	if (!c->n_out)
		return rvl_op_fail(c, "it has no output");
	/* None of any number of inputs can be left out. */
	for (uint32_t i = 0; i < (d->most_in == RVL_ANY_NUMBER_IN ? c->n_in : d->least_in); i++)
		if (!rvl_has(c, i) && !rvl_op_may_lack(d, i))
			return rvl_op_fail(c, "it lacks input %u", i);
	return 0;
}

static int check_types(struct rvl_call *c)
{
	const struct rvl_op_def *d = c->def;

	for (uint32_t i = 0; i < c->n_in; i++) {
		uint32_t set = d->types[i < 4 ? i : 3];
		bool same = d->same == RVL_SAME_ALL || (i < 32 && d->same >> i & 1);

		if (!rvl_has(c, i))
			continue;
		if (!(1u << c->in[i].type & (set ? set : d->types[0])))
			return rvl_op_fail(c, "its input %u is %s, which it does not take", i,
					   rvl_type_name(c->in[i].type));
		if (same && c->in[i].type != c->in[0].type)
			return rvl_op_fail(c, "its input %u is %s, input 0 %s", i,
					   rvl_type_name(c->in[i].type),
					   rvl_type_name(c->in[0].type));
	}
	return 0;
}

static bool listed(const char *choices, const char *value)
{
	size_t n = strlen(value);

	for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
		if (!strncmp(p, value, n) && (p[n] == '|' || !p[n]))
			return true;
	return false;
}

static int check_attrs(struct rvl_call *c)
{
	const struct rvl_attr_def *a = c->def->attrs;

	for (uint32_t i = 0; a && a[i].name; i++) {
		if (a[i].required && !c->attr[i].given)
			return rvl_op_fail(c, "it lacks attribute %s", a[i].name);
		if (a[i].fixed && c->attr[i].given)
			return rvl_op_fail(c, "attribute %s is not of this opset", a[i].name);
		if (!a[i].choices || !c->attr[i].given)
			continue;
		if (a[i].kind == RVL_ATTR_INT && (c->attr[i].i < 0 || c->attr[i].i > 1))
			return rvl_op_fail(c, "attribute %s is %lld, not one of %s", a[i].name,
					   (long long)c->attr[i].i, a[i].choices);
		if (a[i].kind == RVL_ATTR_STRING && !listed(a[i].choices, c->attr[i].data))
			return rvl_op_fail(c, "attribute %s is '%.40s', not one of %s", a[i].name,
					   (const char *)c->attr[i].data, a[i].choices);
	}
	return 0;
}

int rvl_op_infer(struct rvl_call *c)
{
	int rc = check_number(c);

	c->bounded = false;
	c->unknown = false;
	c->varies = 0;
	if (!rc)
		rc = check_attrs(c);
	if (!rc)
		rc = check_types(c);
	return rc ? rc : c->def->infer(c);
}

int rvl_op_list_boxes(struct rvl_call *c, struct rvl_op_boxes *boxes)
{
	int rc;

	if (!(c->def->flags & RVL_OP_BOXES))
		return -EOPNOTSUPP;
	boxes->n = 0;
	rc = rvl_op_infer(c);
	if (rc || c->bounded)
		return rc ? rc : -EOPNOTSUPP;
	c->boxes = boxes;
	rc = c->def->run(c);
	c->boxes = NULL;
	return rc ? rc : boxes->n > RVL_MAX_IN ? -E2BIG : 0;
}
