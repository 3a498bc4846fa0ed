/* SPDX-License-Identifier: MIT */
/* Attributes of operators of the table, by their definitions, from a NodeProto into the arena. */
#include <errno.h>
#include <string.h>

#include "onnx/model.h"

/* AttributeProto.AttributeType of each kind; TENSOR is 4. */
static int64_t proto_type(enum rvl_attr_kind kind)
{
	switch (kind) {
	case RVL_ATTR_FLOAT:
		return 1;
	case RVL_ATTR_INT:
		return 2;
	case RVL_ATTR_STRING:
		return 3;
	case RVL_ATTR_TENSOR:
		return 4;
	case RVL_ATTR_FLOATS:
		return 6;
	case RVL_ATTR_INTS:
		return 7;
	default:
		return 8;
	}
}

static const char *copy_strings(struct rvl_graph *g, const struct rvl_onnx_attr *a)
{
	size_t n = 0;
	char *s, *p;

	for (uint32_t i = 0; i < a->n_strings; i++)
		n += a->strings[i].len + 1;
	s = rvl_arena_alloc(g->arena, n + 1);
	p = s;
	for (uint32_t i = 0; s && i < a->n_strings; i++) {
		memcpy(p, a->strings[i].p, a->strings[i].len);
		p += a->strings[i].len + 1;	/* the arena is zeroed */
	}
	return s;
}

static const void *copy_list(struct rvl_graph *g, const void *src, uint32_t n, size_t size)
{
	void *p = rvl_arena_alloc(g->arena, n * size + 1);

	return p ? memcpy(p, src, n * size) : NULL;
}

static int read_tensor(struct rvl_graph *g, const struct rvl_onnx_model *m,
		       const struct rvl_onnx_attr *a, struct rvl_attr_value *v, const char **why)
{
	struct rvl_tensor *t;
	int rc;

	if (!a->has_tensor) {
		*why = "has no tensor";
		return 0;
	}
	rc = rvl_onnx_tensor(g, rvl_msg_sub(&m->file, &a->tensor, "TensorProto"), NULL, &t);
	if (rc)
		return rc;
	if (t->bad) {
		*why = t->bad;
		return 0;
	}
	rc = rvl_onnx_computed(g, t, m->file.err);
	v->type = t->type;
	v->n = (uint32_t)rvl_shape_count(&t->shape);
	v->data = t->data;
	return rc;
}

static bool has_nul(const struct rvl_onnx_attr *a)
{
	for (uint32_t i = 0; i < a->n_strings; i++)
		if (memchr(a->strings[i].p, 0, a->strings[i].len))
			return true;
	return a->s.len && memchr(a->s.p, 0, a->s.len);
}

static int read_value(struct rvl_graph *g, const struct rvl_onnx_model *m, enum rvl_attr_kind kind,
		      const struct rvl_onnx_attr *a, struct rvl_attr_value *v, const char **why)
{
	const char *none = "";

	*v = (struct rvl_attr_value) { .given = true, .i = a->i, .f = a->f, .data = none };
	switch (kind) {
	case RVL_ATTR_STRING:
		v->n = (uint32_t)a->s.len;
		v->data = rvl_arena_strndup(g->arena, (const char *)a->s.p, a->s.len);
		break;
	case RVL_ATTR_STRINGS:
		v->n = a->n_strings;
		v->data = copy_strings(g, a);
		break;
	case RVL_ATTR_INTS:
		v->n = a->n_ints;
		v->data = copy_list(g, a->ints, a->n_ints, sizeof(*a->ints));
		break;
	case RVL_ATTR_FLOATS:
		v->n = a->n_floats;
		v->data = copy_list(g, a->floats, a->n_floats, sizeof(*a->floats));
		break;
	case RVL_ATTR_TENSOR:
		return read_tensor(g, m, a, v, why);
	default:
		break;
	}
	return v->data ? 0 : rvl_fail(m->file.err, -ENOMEM, "no memory for an attribute");
}

static int read_one(struct rvl_graph *g, const struct rvl_onnx_model *m,
		    const struct rvl_op_def *def, const struct rvl_onnx_attr *a,
		    struct rvl_attr_value *values, const char **why)
{
	bool ms = def->domain && !strcmp(def->domain, "com.microsoft");
	const char *bad = NULL;
	uint32_t i = 0;
	int rc = 0;

	while (i < rvl_op_attrs(def) && !rvl_span_is(a->name, def->attrs[i].name))
		i++;
	if (i == rvl_op_attrs(def) || !rvl_attr_defined(&def->attrs[i], ms ? m->ms_opset : m->opset))
		bad = "is not supported";
	else if (def->attrs[i].kind == RVL_ATTR_IGNORED)
		return 0;
	else if (a->type && a->type != proto_type(def->attrs[i].kind))
		bad = "has another type than the operator's definition";
	else if (a->too_long)
		bad = "has too many values";
	else if (has_nul(a))
		bad = "holds a NUL byte";
	else
		rc = read_value(g, m, def->attrs[i].kind, a, &values[i], &bad);
	if (bad && !*why)
		*why = rvl_graph_printf(g, "attribute '%.*s' %s",
					(int)(a->name.len < 60 ? a->name.len : 60),
					(const char *)a->name.p, bad);
	return rc;
}

int rvl_onnx_attr_values(struct rvl_graph *g, const struct rvl_onnx_model *m,
			 const struct rvl_onnx_node *on, const struct rvl_op_def *def,
			 struct rvl_attr_value **out, const char **why)
{
	int rc = 0;

	*why = NULL;
	*out = rvl_arena_array(g->arena, rvl_op_attrs(def) + 1, sizeof(**out));
	if (!*out)
		return rvl_fail(m->file.err, -ENOMEM, "no memory for attributes");
	for (uint32_t i = 0; i < on->n_attr && !rc; i++)
		rc = read_one(g, m, def, &on->attr[i], *out, why);
	return rc;
}
