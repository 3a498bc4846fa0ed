/* SPDX-License-Identifier: MIT */
#include "onnx/model.h"

#include <errno.h>
#include <string.h>

/* AttributeProto fields and how they must be encoded. */
enum {
	ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_T = 5, ATTR_G = 6,
	ATTR_FLOATS = 7, ATTR_INTS = 8, ATTR_STRINGS = 9, ATTR_TYPE = 20, ATTR_REF = 21,
};

static int add_int(struct rvl_onnx_attr *a, uint64_t v)
{
	if (a->n_ints == RVL_ONNX_MAX_INTS)
		a->too_long = true;
	else
		a->ints[a->n_ints++] = (int64_t)v;
	return 0;
}

static int add_float(struct rvl_onnx_attr *a, uint64_t v)
{
	if (a->n_floats == RVL_ONNX_MAX_INTS)
		a->too_long = true;
	else
		a->floats[a->n_floats++] = rvl_bits_f32(v);
	return 0;
}

/* A repeated number, packed or one by one. */
static int read_list(const struct rvl_msg *m, const struct rvl_field *f, enum rvl_wire wire,
		     int (*add)(struct rvl_onnx_attr *, uint64_t), struct rvl_onnx_attr *a)
{
	struct rvl_span s = f->s;
	uint64_t v;
	int rc;

	if (f->wire == wire)
		return add(a, f->u);
	rc = rvl_field_is(m, f, RVL_WIRE_BYTES);
	if (rc)
		return rc;
	while ((rc = rvl_packed_next(m, f, &s, wire, &v)) > 0)
		add(a, v);
	return rc;
}

static int wire_of_attr(uint32_t num)
{
	switch (num) {
	case ATTR_F:
		return RVL_WIRE_FIXED32;
	case ATTR_I:
	case ATTR_TYPE:
		return RVL_WIRE_VARINT;
	case ATTR_NAME:
	case ATTR_S:
	case ATTR_T:
	case ATTR_G:
	case ATTR_REF:
	case ATTR_STRINGS:
		return RVL_WIRE_BYTES;
	default:
		return -1;
	}
}

static int add_string(struct rvl_onnx_attr *a, struct rvl_span s)
{
	if (a->n_strings == RVL_ONNX_MAX_STRINGS)
		a->too_long = true;
	else
		a->strings[a->n_strings++] = s;
	return 0;
}

static int attr_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct rvl_onnx_attr *a = arg;
	int wire = wire_of_attr(f->num);
	int rc = wire < 0 ? 0 : rvl_field_is(m, f, (enum rvl_wire)wire);

	if (rc)
		return rc;
	switch (f->num) {
	case ATTR_NAME:
		a->name = f->s;
		return 0;
	case ATTR_F:
		a->f = rvl_bits_f32(f->u);
		return 0;
	case ATTR_I:
		a->i = (int64_t)f->u;
		return 0;
	case ATTR_S:
		a->s = f->s;
		return 0;
	case ATTR_T:
		a->tensor = *f;
		a->has_tensor = true;
		return 0;
	case ATTR_G:
		a->graph = *f;
		a->has_graph = true;
		return 0;
	case ATTR_REF:
		a->ref = f->s;
		return 0;
	case ATTR_FLOATS:
		return read_list(m, f, RVL_WIRE_FIXED32, add_float, a);
	case ATTR_INTS:
		return read_list(m, f, RVL_WIRE_VARINT, add_int, a);
	case ATTR_STRINGS:
		return add_string(a, f->s);
	case ATTR_TYPE:
		a->type = (int64_t)f->u;
		return 0;
	default:
		return 0;
	}
}

static int parse_attr(const struct rvl_msg *parent, const struct rvl_field *f,
		      struct rvl_onnx_attr *a)
{
	memset(a, 0, sizeof(*a));
	a->field = *f;
	return rvl_msg_each(rvl_msg_sub(parent, f, "AttributeProto"), attr_field, a);
}

static bool same_name(struct rvl_span a, struct rvl_span b)
{
	return a.len == b.len && (!a.len || !memcmp(a.p, b.p, a.len));
}

/* The attribute of the call, or the default of the function. */
static const struct rvl_field *find_given(const struct rvl_onnx_scope *s, struct rvl_span name)
{
	for (; s; s = s->closed ? NULL : s->outer) {
		for (uint32_t i = 0; i < s->n_given; i++)
			if (same_name(s->given[i].name, name))
				return &s->given[i].f;
		for (uint32_t i = 0; s->fn && i < s->fn->defaults.n; i++)
			if (same_name(s->fn->default_name[i], name))
				return &s->fn->defaults.f[i];
	}
	return NULL;
}

/* An attribute of the calling node under the name of the body's; it is absent where that one is. */
static int resolve_attr(const struct rvl_onnx_model *m, struct rvl_onnx_node *n,
			struct rvl_onnx_attr *a)
{
	const struct rvl_field *given = find_given(m->scope, a->ref);
	struct rvl_span name = a->name;
	int rc;

	if (!given) {
		n->n_attr--;
		return 0;
	}
	rc = parse_attr(&m->file, given, a);
	a->name = name;
	a->ref.len = 0;
	return rc;
}

struct reader {
	const struct rvl_onnx_model *m;
	struct rvl_onnx_node *n;
};

static int read_attr(const struct rvl_msg *parent, const struct rvl_field *f,
		     const struct reader *r)
{
	struct rvl_onnx_node *n = r->n;
	struct rvl_onnx_attr *a = &n->attr[n->n_attr];
	int rc;

	if (n->n_attr == RVL_ONNX_MAX_ATTRS)
		return rvl_fail(parent->err, -E2BIG,
				"the node at byte %zu has more than %d attributes", n->at,
				RVL_ONNX_MAX_ATTRS);
	n->n_attr++;
	rc = parse_attr(parent, f, a);
	return rc || !a->ref.len ? rc : resolve_attr(r->m, n, a);
}

static int add_name(const struct rvl_msg *m, struct rvl_span s, struct rvl_span *list, uint32_t *n)
{
	if (*n == RVL_ONNX_MAX_IO)
		return rvl_fail(m->err, -E2BIG, "a node has more than %d inputs or outputs",
				RVL_ONNX_MAX_IO);
	list[(*n)++] = s;
	return 0;
}

static int node_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	const struct reader *r = arg;
	struct rvl_onnx_node *n = r->n;
	int rc = f->num <= 8 ? rvl_field_is(m, f, RVL_WIRE_BYTES) : 0;

	if (rc)
		return rc;
	switch (f->num) {
	case 1:
		return add_name(m, f->s, n->in, &n->n_in);
	case 2:
		return add_name(m, f->s, n->out, &n->n_out);
	case 3:
		n->name = f->s;
		return 0;
	case 4:
		n->op_type = f->s;
		return 0;
	case 5:
		return read_attr(m, f, r);
	case 7:
		n->domain = f->s;
		return 0;
	case 8:
		n->overload = f->s;
		return 0;
	default:
		return 0;
	}
}

int rvl_onnx_node(const struct rvl_onnx_model *m, const struct rvl_field *f,
		  struct rvl_onnx_node *n)
{
	struct reader r = { .m = m, .n = n };

	n->at = f->at;
	n->name = (struct rvl_span) { 0 };
	n->op_type = (struct rvl_span) { 0 };
	n->domain = (struct rvl_span) { 0 };
	n->overload = (struct rvl_span) { 0 };
	n->n_in = 0;
	n->n_out = 0;
	n->n_attr = 0;
	return rvl_msg_each(rvl_msg_sub(&m->file, f, "NodeProto"), node_field, &r);
}

const struct rvl_onnx_attr *rvl_onnx_attr(const struct rvl_onnx_node *n, const char *name)
{
	for (uint32_t i = 0; i < n->n_attr; i++)
		if (rvl_span_is(n->attr[i].name, name))
			return &n->attr[i];
	return NULL;
}
