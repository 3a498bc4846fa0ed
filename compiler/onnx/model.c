/* SPDX-License-Identifier: MIT */
#include "onnx/model.h"

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

struct opset {
	struct rvl_span domain;
	int64_t version;
};

static int opset_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct opset *o = arg;

	if (f->num == 1) {
		o->domain = f->s;
		return rvl_field_is(m, f, RVL_WIRE_BYTES);
	}
	if (f->num == 2) {
		o->version = (int64_t)f->u;
		return rvl_field_is(m, f, RVL_WIRE_VARINT);
	}
	return 0;
}

static int scan_opset(const struct rvl_msg *file, const struct rvl_field *f,
			struct rvl_onnx_model *m)
{
	struct opset o = { .version = 0 };
	int rc = rvl_msg_each(rvl_msg_sub(file, f, "OperatorSetIdProto"), opset_field, &o);

	if (!o.domain.len || rvl_span_is(o.domain, "ai.onnx")) {
		m->opset = o.version;
		m->imports_onnx = true;
	}
	if (rvl_span_is(o.domain, "com.microsoft"))
		m->ms_opset = o.version;
	return rc;
}

/* The wire type a ModelProto field that is read must have; -1 for the others. */
static int wire_of_model(uint32_t num)
{
	if (num == 1)
		return RVL_WIRE_VARINT;
	return num == 2 || num == 7 || num == 8 || num == 25 ? RVL_WIRE_BYTES : -1;
}

static int model_field(const struct rvl_msg *file, const struct rvl_field *f, void *arg)
{
	struct rvl_onnx_model *m = arg;
	int wire = wire_of_model(f->num);
	int rc = wire < 0 ? 0 : rvl_field_is(file, f, (enum rvl_wire)wire);

	if (rc || wire < 0)
		return rc;
	if (f->num == 1)
		m->ir_version = (int64_t)f->u;
	else if (f->num == 2)
		m->producer = f->s;
	else if (f->num == 8)
		return scan_opset(file, f, m);
	else if (f->num == 25)
		m->n_functions++;
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
		return m->inner ? NULL : &m->value_infos;
	default:
		return NULL;
	}
}

/* Puts a field into its list; a list without room yet only counts. */
static int graph_field(const struct rvl_msg *g, const struct rvl_field *f, void *arg)
{
	struct rvl_onnx_model *m = arg;
	uint32_t max;
	struct rvl_onnx_list *l = graph_list(m, f->num, &max);
	int rc = l || f->num == 2 ? rvl_field_is(g, f, RVL_WIRE_BYTES) : 0;

	if (rc)
		return rc;
	if (f->num == 15)
		return rvl_fail(g->err, -EOPNOTSUPP,
				"sparse initializers are not supported (byte %zu)", f->at);
	if (f->num == 2)
		m->graph_name = f->s;
	if (!l)
		return 0;
	if (l->n >= max)
		return rvl_fail(g->err, -E2BIG, "GraphProto field %u has more than %u entries",
				f->num, max);
	if (l->f)
		l->f[l->n] = *f;
	l->n++;
	return 0;
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
	if (m->opset < 0 || m->opset > RVL_ONNX_MAX_OPSET ||
	    (!m->opset && m->imports_onnx))
		return rvl_fail(err, -EOPNOTSUPP, "ONNX opset %lld is not one of 1 to %d",
				(long long)m->opset, RVL_ONNX_MAX_OPSET);
	return 0;
}

/* Counts the entries of every list, makes room for them, and fills the lists. */
static int scan_lists(struct rvl_graph *g, struct rvl_onnx_model *m, struct rvl_err *err)
{
	int rc = rvl_msg_each(m->graph, graph_field, m);

	for (uint32_t i = 1; i <= 13 && !rc; i++) {
		uint32_t max;
		struct rvl_onnx_list *l = graph_list(m, i, &max);

		if (l)
			rc = alloc_list(g, l, err);
	}
	return rc ? rc : rvl_msg_each(m->graph, graph_field, m);
}

struct functions {
	struct rvl_graph *g;
	struct rvl_onnx_model *m;
	uint32_t n;
};

static int function_field(const struct rvl_msg *file, const struct rvl_field *f, void *arg)
{
	struct functions *s = arg;

	if (f->num != 25)
		return 0;
	return rvl_onnx_scan_function(s->g, file, f, &s->m->functions[s->n++]);
}

static int scan_functions(struct rvl_graph *g, struct rvl_onnx_model *m, struct rvl_err *err)
{
	struct functions s = { .g = g, .m = m };

	if (m->n_functions > RVL_MAX_NODES)
		return rvl_fail(err, -E2BIG, "the model has more than %d functions", RVL_MAX_NODES);
	m->functions = rvl_arena_array(g->arena, m->n_functions, sizeof(*m->functions));
	if (!m->functions)
		return rvl_fail(err, -ENOMEM, "no memory for the model's functions");
	return rvl_msg_each(m->file, function_field, &s);
}

int rvl_onnx_scan(struct rvl_graph *g, const void *buf, size_t len, struct rvl_onnx_model *m,
		  struct rvl_err *err)
{
	struct rvl_msg file = rvl_msg_file(buf, len, "ModelProto", err);
	int rc;

	*m = (struct rvl_onnx_model) { .file = file };
	rc = rvl_msg_each(file, model_field, m);
	if (!rc)
		rc = check_versions(m, err);
	if (!rc)
		rc = scan_functions(g, m, err);
	return rc ? rc : scan_lists(g, m, err);
}

int rvl_onnx_scan_graph(struct rvl_graph *g, struct rvl_msg graph, struct rvl_onnx_model *m,
			struct rvl_err *err)
{
	const struct rvl_onnx_list none = { .f = NULL };

	m->graph = graph;
	m->inner = true;
	m->nodes = none;
	m->initializers = none;
	m->inputs = none;
	m->outputs = none;
	m->value_infos = none;
	return scan_lists(g, m, err);
}

/* TensorShapeProto.Dimension: the value, or -1 and perhaps the name of a symbol. A negative value is unknown. */
struct dim {
	int64_t value;
	struct rvl_span symbol;
};

static int dim_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct dim *dim = arg;

	if (f->num == 2) {
		dim->symbol = f->s;
		return rvl_field_is(m, f, RVL_WIRE_BYTES);
	}
	if (f->num != 1)
		return 0;
	if (rvl_field_is(m, f, RVL_WIRE_VARINT))
		return -EBADMSG;
	dim->value = (int64_t)f->u < 0 ? -1 : (int64_t)f->u;
	if (dim->value > RVL_MAX_DIM)
		return rvl_fail(m->err, -E2BIG, "a dimension of %lld at byte %zu is not in 0..%d",
				(long long)dim->value, f->at, RVL_MAX_DIM);
	return 0;
}

static int shape_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct rvl_onnx_value *v = arg;
	struct dim dim = { .value = -1 };
	int rc = f->num == 1 ? rvl_field_is(m, f, RVL_WIRE_BYTES) : 0;

	if (rc || f->num != 1)
		return rc;
	rc = rvl_msg_each(rvl_msg_sub(m, f, "Dimension"), dim_field, &dim);
	if (v->shape.rank == RVL_MAX_RANK) {
		v->too_deep = true;
		return rc;
	}
	v->symbol[v->shape.rank] = dim.symbol;
	v->shape.dim[v->shape.rank++] = dim.value;
	return rc;
}

static int tensor_type_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct rvl_onnx_value *v = arg;
	int rc;

	if (f->num == 1) {
		v->elem_type = (int64_t)f->u;
		return rvl_field_is(m, f, RVL_WIRE_VARINT);
	}
	if (f->num != 2)
		return 0;
	v->has_shape = true;
	rc = rvl_field_is(m, f, RVL_WIRE_BYTES);
	return rc ? rc : rvl_msg_each(rvl_msg_sub(m, f, "TensorShapeProto"), shape_field, v);
}

static int type_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	int rc = f->num == 1 ? rvl_field_is(m, f, RVL_WIRE_BYTES) : 0;

	if (rc || f->num != 1)
		return rc;
	return rvl_msg_each(rvl_msg_sub(m, f, "TypeProto.Tensor"), tensor_type_field, arg);
}

static int value_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct rvl_onnx_value *v = arg;
	int rc = f->num == 1 || f->num == 2 ? rvl_field_is(m, f, RVL_WIRE_BYTES) : 0;

	if (rc)
		return rc;
	if (f->num == 1)
		v->name = f->s;
	if (f->num == 2)
		return rvl_msg_each(rvl_msg_sub(m, f, "TypeProto"), type_field, v);
	return 0;
}

int rvl_onnx_value(const struct rvl_onnx_model *m, const struct rvl_field *f,
		   struct rvl_onnx_value *v)
{
	*v = (struct rvl_onnx_value) { .elem_type = 0 };
	return rvl_msg_each(rvl_msg_sub(&m->file, f, "ValueInfoProto"), value_field, v);
}

/* ---- FunctionProto ---- */

enum {
	FN_NAME = 1, FN_INPUT = 4, FN_OUTPUT = 5, FN_NODE = 7, FN_OPSET = 9, FN_DOMAIN = 10,
	FN_DEFAULT = 11, FN_OVERLOAD = 13,
};

struct function_scan {
	struct rvl_onnx_function *fn;
	struct rvl_onnx_model opsets;	/* keeps the opsets alone */
};

static struct rvl_onnx_list *list_of(struct rvl_onnx_function *fn, uint32_t num)
{
	switch (num) {
	case FN_INPUT:
		return &fn->inputs;
	case FN_OUTPUT:
		return &fn->outputs;
	case FN_NODE:
		return &fn->nodes;
	case FN_DEFAULT:
		return &fn->defaults;
	default:
		return NULL;
	}
}

static int fn_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct function_scan *s = arg;
	struct rvl_onnx_list *l = list_of(s->fn, f->num);
	bool known = l || f->num == FN_NAME || f->num == FN_OPSET || f->num == FN_DOMAIN ||
		     f->num == FN_OVERLOAD;
	int rc = known ? rvl_field_is(m, f, RVL_WIRE_BYTES) : 0;

	if (rc || !known)
		return rc;
	if (f->num == FN_OPSET)
		return scan_opset(m, f, &s->opsets);
	if (f->num == FN_NAME)
		s->fn->name = f->s;
	else if (f->num == FN_DOMAIN)
		s->fn->domain = f->s;
	else if (f->num == FN_OVERLOAD)
		s->fn->overload = f->s;
	else if (l->f)
		l->f[l->n++] = *f;
	else
		l->n++;
	return 0;
}

static int make_function_room(struct rvl_graph *g, struct rvl_onnx_list *l, uint32_t max,
		     struct rvl_err *err)
{
	if (l->n > max)
		return rvl_fail(err, -E2BIG, "a function has more than %u nodes, inputs or outputs", max);
	l->f = rvl_arena_array(g->arena, l->n, sizeof(*l->f));
	if (!l->f)
		return rvl_fail(err, -ENOMEM, "no memory for a function");
	l->n = 0;
	return 0;
}

/* AttributeProto.name */
static int attr_name(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	if (f->num != 1)
		return 0;
	*(struct rvl_span *)arg = f->s;
	return rvl_field_is(m, f, RVL_WIRE_BYTES);
}

static int name_defaults(struct rvl_graph *g, const struct rvl_msg *file,
			 struct rvl_onnx_function *fn)
{
	int rc = 0;

	fn->default_name = rvl_arena_array(g->arena, fn->defaults.n, sizeof(*fn->default_name));
	if (!fn->default_name)
		return rvl_fail(file->err, -ENOMEM, "no memory for a function");
	for (uint32_t i = 0; i < fn->defaults.n && !rc; i++)
		rc = rvl_msg_each(rvl_msg_sub(file, &fn->defaults.f[i], "AttributeProto"),
				  attr_name, &fn->default_name[i]);
	return rc;
}

int rvl_onnx_scan_function(struct rvl_graph *g, const struct rvl_msg *file,
			   const struct rvl_field *f, struct rvl_onnx_function *fn)
{
	struct function_scan s = { .fn = fn, .opsets = { .file = *file } };
	struct rvl_msg m = rvl_msg_sub(file, f, "FunctionProto");
	int rc = rvl_msg_each(m, fn_field, &s);

	for (uint32_t num = FN_INPUT; num <= FN_DEFAULT && !rc; num++) {
		struct rvl_onnx_list *l = list_of(fn, num);

		if (l)
			rc = make_function_room(g, l, num == FN_NODE ? RVL_MAX_NODES : RVL_ONNX_MAX_IO, file->err);
	}
	if (!rc)
		rc = rvl_msg_each(m, fn_field, &s);
	if (!rc)
		rc = name_defaults(g, file, fn);
	fn->imports_onnx = s.opsets.imports_onnx;
	fn->opset = s.opsets.opset;
	fn->ms_opset = s.opsets.ms_opset;
	return rc;
}
