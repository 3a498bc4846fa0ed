/* SPDX-License-Identifier: MIT */
#include "onnx_model.h"

#include <errno.h>
#include <string.h>

bool rvl_span_is(struct rvl_span s, const char *str)
{
	return strlen(str) == s.len && (!s.len || !memcmp(s.p, str, s.len));
}

int rvl_span_name(struct rvl_graph *g, struct rvl_span s, const char **out, struct rvl_err *err)
{
	if (s.len > RVL_MAX_NAME)
		return rvl_fail(err, -E2BIG, "a name in the model has %zu bytes, more than %d", s.len,
				RVL_MAX_NAME);
	if (s.len && memchr(s.p, 0, s.len))
		return rvl_fail(err, -EBADMSG, "malformed ONNX: a name contains a NUL byte");
	*out = rvl_arena_strndup(g->arena, s.len ? (const char *)s.p : "", s.len);
	return *out ? 0 : rvl_fail(err, -ENOMEM, "no memory for a name");
}

/* Domain and version of one OperatorSetIdProto. */
static int scan_opset(const struct rvl_msg *file, const struct rvl_field *f,
		      struct rvl_onnx_model *m)
{
	struct rvl_msg sub = rvl_msg_sub(file, f, "OperatorSetIdProto");
	struct rvl_span domain = { 0 };
	int64_t version = 0;
	struct rvl_field x;
	int rc;

	while ((rc = rvl_msg_next(&sub, &x)) > 0) {
		if (x.num == 1 && !(rc = rvl_field_is(&sub, &x, RVL_WIRE_BYTES)))
			domain = x.s;
		else if (x.num == 2 && !(rc = rvl_field_is(&sub, &x, RVL_WIRE_VARINT)))
			version = (int64_t)x.u;
		if (rc < 0)
			return rc;
	}
	if (!domain.len || rvl_span_is(domain, "ai.onnx"))
		m->opset = version;
	else if (rvl_span_is(domain, "com.microsoft"))
		m->ms_opset = version;
	return rc;
}

static int scan_model_field(const struct rvl_msg *file, const struct rvl_field *f,
			    struct rvl_onnx_model *m)
{
	int rc;

	if (f->num == 1)
		rc = rvl_field_is(file, f, RVL_WIRE_VARINT);
	else if (f->num == 2 || f->num == 7 || f->num == 8)
		rc = rvl_field_is(file, f, RVL_WIRE_BYTES);
	else
		return 0;
	if (rc)
		return rc;
	if (f->num == 1)
		m->ir_version = (int64_t)f->u;
	else if (f->num == 2)
		m->producer = f->s;
	else if (f->num == 8)
		return scan_opset(file, f, m);
	else if (m->graph.p)
		return rvl_fail(file->err, -EBADMSG,
				"malformed ONNX: ModelProto has a second graph at byte %zu", f->at);
	else
		m->graph = rvl_msg_sub(file, f, "GraphProto");
	return 0;
}

/* The list a GraphProto field belongs to, and the most entries it may have. */
static struct rvl_onnx_list *graph_list(struct rvl_onnx_model *m, uint32_t num, uint32_t *max)
{
	*max = RVL_MAX_TENSORS;
	switch (num) {
	case 1:
		*max = RVL_MAX_NODES;
		return &m->nodes;
	case 5:
		return &m->initializers;
	case 11:
		return &m->inputs;
	case 12:
		return &m->outputs;
	case 13:
		return &m->value_infos;
	default:
		return NULL;
	}
}

/* One walk over the graph: counts (fill = false), then stores the fields. */
static int scan_graph(struct rvl_onnx_model *m, bool fill)
{
	struct rvl_msg g = m->graph;
	struct rvl_field f;
	int rc;

	while ((rc = rvl_msg_next(&g, &f)) > 0) {
		uint32_t max;
		struct rvl_onnx_list *l = graph_list(m, f.num, &max);

		if (f.num == 15)
			return rvl_fail(g.err, -EOPNOTSUPP,
					"sparse initializers are not supported (byte %zu)", f.at);
		if ((l || f.num == 2) && (rc = rvl_field_is(&g, &f, RVL_WIRE_BYTES)))
			return rc;
		if (f.num == 2)
			m->graph_name = f.s;
		if (!l)
			continue;
		if (l->n >= max)
			return rvl_fail(g.err, -E2BIG, "GraphProto field %u has more than %u entries",
					f.num, max);
		if (fill)
			l->f[l->n] = f;
		l->n++;
	}
	return rc;
}

static int alloc_list(struct rvl_graph *g, struct rvl_onnx_list *l, struct rvl_err *err)
{
	l->f = rvl_arena_array(g->arena, l->n, sizeof(*l->f));
	if (!l->f)
		return rvl_fail(err, -ENOMEM, "no memory for the model's lists");
	l->n = 0;
	return 0;
}

static int check_versions(const struct rvl_onnx_model *m, struct rvl_err *err)
{
	if (!m->graph.p)
		return rvl_fail(err, -EBADMSG, "this is no ONNX model: it has no graph");
	if (m->ir_version < RVL_ONNX_MIN_IR || m->ir_version > RVL_ONNX_MAX_IR)
		return rvl_fail(err, -EOPNOTSUPP, "ONNX IR version %lld is not one of %d to %d",
				(long long)m->ir_version, RVL_ONNX_MIN_IR, RVL_ONNX_MAX_IR);
	if (m->opset < 1 || m->opset > RVL_ONNX_MAX_OPSET)
		return rvl_fail(err, -EOPNOTSUPP, "ONNX opset %lld is not one of 1 to %d",
				(long long)m->opset, RVL_ONNX_MAX_OPSET);
	return 0;
}

int rvl_onnx_scan(struct rvl_graph *g, const void *buf, size_t len, struct rvl_onnx_model *m,
		  struct rvl_err *err)
{
	struct rvl_msg file = rvl_msg_file(buf, len, "ModelProto", err);
	struct rvl_field f;
	int rc;

	*m = (struct rvl_onnx_model) { .file = file };
	while ((rc = rvl_msg_next(&file, &f)) > 0)
		if ((rc = scan_model_field(&file, &f, m)) < 0)
			return rc;
	if (!rc)
		rc = check_versions(m, err);
	if (!rc)
		rc = scan_graph(m, false);
	for (uint32_t i = 1; i <= 13 && !rc; i++) {
		uint32_t max;
		struct rvl_onnx_list *l = graph_list(m, i, &max);

		if (l)
			rc = alloc_list(g, l, err);
	}
	return rc ? rc : scan_graph(m, true);
}

/* TensorShapeProto.Dimension: the value, or -1 for a symbol or nothing. */
static int read_dim(const struct rvl_msg *parent, const struct rvl_field *f, int64_t *dim)
{
	struct rvl_msg m = rvl_msg_sub(parent, f, "Dimension");
	struct rvl_field x;
	int rc;

	*dim = -1;
	while ((rc = rvl_msg_next(&m, &x)) > 0) {
		if (x.num == 1 && (rc = rvl_field_is(&m, &x, RVL_WIRE_VARINT)))
			return rc;
		if (x.num == 1 && (int64_t)x.u >= 0)
			*dim = (int64_t)x.u;
		if (x.num == 1 && (x.u > RVL_MAX_DIM))
			return rvl_fail(m.err, -E2BIG, "a dimension of %lld at byte %zu is beyond %d",
					(long long)x.u, x.at, RVL_MAX_DIM);
	}
	return rc;
}

static int read_shape(const struct rvl_msg *parent, const struct rvl_field *f,
		      struct rvl_onnx_value *v)
{
	struct rvl_msg m = rvl_msg_sub(parent, f, "TensorShapeProto");
	struct rvl_field x;
	int rc;

	v->has_shape = true;
	while ((rc = rvl_msg_next(&m, &x)) > 0) {
		int64_t dim;

		if (x.num != 1)
			continue;
		rc = rvl_field_is(&m, &x, RVL_WIRE_BYTES);
		if (!rc)
			rc = read_dim(&m, &x, &dim);
		if (rc)
			return rc;
		if (v->shape.rank == RVL_MAX_RANK)
			v->too_deep = true;
		else
			v->shape.dim[v->shape.rank++] = dim;
	}
	return rc;
}

static int read_tensor_type(const struct rvl_msg *parent, const struct rvl_field *f,
			    struct rvl_onnx_value *v)
{
	struct rvl_msg m = rvl_msg_sub(parent, f, "TypeProto.Tensor");
	struct rvl_field x;
	int rc;

	while ((rc = rvl_msg_next(&m, &x)) > 0) {
		if (x.num == 1 && !(rc = rvl_field_is(&m, &x, RVL_WIRE_VARINT)))
			v->elem_type = (int64_t)x.u;
		if (x.num == 2 && !(rc = rvl_field_is(&m, &x, RVL_WIRE_BYTES)))
			rc = read_shape(&m, &x, v);
		if (rc < 0)
			return rc;
	}
	return rc;
}

static int read_type(const struct rvl_msg *parent, const struct rvl_field *f,
		     struct rvl_onnx_value *v)
{
	struct rvl_msg m = rvl_msg_sub(parent, f, "TypeProto");
	struct rvl_field x;
	int rc;

	while ((rc = rvl_msg_next(&m, &x)) > 0) {
		if (x.num == 1 && !(rc = rvl_field_is(&m, &x, RVL_WIRE_BYTES)))
			rc = read_tensor_type(&m, &x, v);
		if (rc < 0)
			return rc;
	}
	return rc;
}

int rvl_onnx_value(const struct rvl_onnx_model *m, const struct rvl_field *f,
		   struct rvl_onnx_value *v)
{
	struct rvl_msg msg = rvl_msg_sub(&m->file, f, "ValueInfoProto");
	struct rvl_field x;
	int rc;

	*v = (struct rvl_onnx_value) { .elem_type = 0 };
	while ((rc = rvl_msg_next(&msg, &x)) > 0) {
		if ((x.num == 1 || x.num == 2) && (rc = rvl_field_is(&msg, &x, RVL_WIRE_BYTES)))
			return rc;
		if (x.num == 1)
			v->name = x.s;
		if (x.num == 2)
			rc = read_type(&msg, &x, v);
		if (rc < 0)
			return rc;
	}
	return rc;
}
