/* SPDX-License-Identifier: MIT */
#include "onnx/model.h"
#include "onnx/onnx.h"

#include <errno.h>
#include <string.h>

static int load_initializers(struct rvl_graph *g, const struct rvl_onnx_model *m,
			     struct rvl_err *err)
{
	for (uint32_t i = 0; i < m->initializers.n; i++) {
		struct rvl_msg sub = rvl_msg_sub(&m->file, &m->initializers.f[i], "TensorProto");
		struct rvl_tensor *t;
		int rc = rvl_onnx_tensor(g, sub, NULL, &t);

		if (rc)
			return rc;
		if (*t->name)
			rc = rvl_onnx_computed(g, t, err);
		if (rc)
			return rc;
		if (!*t->name)
			return rvl_fail(err, -EBADMSG,
					"malformed ONNX: the initializer at byte %zu has no name",
					m->initializers.f[i].at);
	}
	return 0;
}

/* Type and shape as declared; symbolic dimensions by the options. */
static int declare(struct rvl_graph *g, const struct rvl_onnx_model *m, struct rvl_tensor *t,
		   const struct rvl_onnx_value *declared, const struct rvl_onnx_opts *o)
{
	struct rvl_onnx_value v = *declared;
	bool fixed = rvl_onnx_fix(m, o, &v);

	t->type = rvl_onnx_type(v.elem_type);
	if (t->type == RVL_TYPE_NONE) {
		t->bad = v.elem_type ? rvl_graph_printf(g, "element type %s is not supported",
							rvl_onnx_type_name(v.elem_type)) :
				       "it is not a tensor";
		return t->bad ? 0 : -ENOMEM;
	}
	if (v.too_deep)
		t->bad = "it has more than 8 dimensions";
	t->shape = v.shape;
	t->shaped = v.has_shape && !v.too_deep && fixed;
	t->declared = t->shaped;
	return 0;
}

/* The float32 tensor that nodes read or make in place of @t. */
static int make_computed(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_err *err)
{
	struct rvl_tensor *c;
	const char *name = rvl_graph_printf(g, "%.900s/float32", t->name);
	int rc = rvl_tensor_new(g, name && !rvl_tensor_find(g, name) ? name : NULL, &c, err);

	if (rc)
		return rc;
	c->type = RVL_TYPE_F32;
	c->shape = t->shape;
	c->shaped = t->shaped;
	t->computed = c;
	return 0;
}

/* The node that converts between a tensor of the model and the one computed in. */
static int add_convert(struct rvl_graph *g, struct rvl_tensor *from, struct rvl_tensor *to,
		       enum rvl_type type, struct rvl_err *err)
{
	const struct rvl_op_def *def = rvl_op_find("rivulet", "Convert", 1);
	struct rvl_attr_value *v = rvl_arena_alloc(g->arena, sizeof(*v));
	struct rvl_node *n;
	int rc;

	if (!v)
		return rvl_fail(err, -ENOMEM, "no memory for a conversion");
	*v = (struct rvl_attr_value) { .given = true, .i = type };
	rc = rvl_node_general(g, def, v, NULL, &n, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, 0, from, err);
	if (!rc)
		rvl_node_set_out(n, 0, to);
	return rc;
}

static int load_input(struct rvl_graph *g, const struct rvl_onnx_model *m, uint32_t i,
		      const struct rvl_onnx_opts *o, struct rvl_err *err)
{
	struct rvl_onnx_value v;
	struct rvl_tensor *t;
	const char *name;
	int rc = rvl_onnx_value(m, &m->inputs.f[i], &v);

	if (!rc)
		rc = rvl_span_name(g, v.name, &name, err);
	if (rc)
		return rc;
	t = rvl_tensor_find(g, name);
	if (t && t->data)
		return 0;	/* before IR 4 every initializer is an input too */
	rc = rvl_tensor_new(g, name, &t, err);
	if (!rc)
		rc = declare(g, m, t, &v, o);
	if (!rc)
		rc = rvl_graph_add_input(g, t, err);
	if (rc || t->bad || rvl_onnx_computed_type(g, t->type) == t->type)
		return rc;
	rc = make_computed(g, t, err);
	return rc ? rc : add_convert(g, t, t->computed, RVL_TYPE_F32, err);
}

/* An output in a type that is not computed in gets its tensor before the nodes are read. */
static int reserve_output(struct rvl_graph *g, const struct rvl_onnx_model *m,
			  const struct rvl_field *f, const struct rvl_onnx_opts *o,
			  struct rvl_err *err)
{
	enum rvl_type type;
	struct rvl_onnx_value v;
	struct rvl_tensor *t;
	const char *name;
	int rc = rvl_onnx_value(m, f, &v);

	if (!rc)
		rc = rvl_span_name(g, v.name, &name, err);
	type = rvl_onnx_type(v.elem_type);
	if (rc || rvl_onnx_computed_type(g, type) == type || rvl_tensor_find(g, name))
		return rc;
	rc = rvl_tensor_new(g, name, &t, err);
	if (!rc)
		rc = declare(g, m, t, &v, o);
	return rc ? rc : make_computed(g, t, err);
}

static int convert_outputs(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t n = g->n_tensors;
	int rc = 0;

	for (uint32_t i = 0; i < n && !rc; i++) {
		struct rvl_tensor *t = g->tensors[i];

		if (t->computed && !t->is_input && t->computed->producer)
			rc = add_convert(g, t->computed, t, t->type, err);
	}
	return rc;
}

/* Declared types of the nodes' results. They are kept where inference finds none. */
static int load_value_info(struct rvl_graph *g, const struct rvl_onnx_model *m,
			   const struct rvl_field *f, const struct rvl_onnx_opts *o, bool output,
			   struct rvl_err *err)
{
	struct rvl_onnx_value v;
	struct rvl_tensor *t;
	const char *name;
	int rc = rvl_onnx_value(m, f, &v);

	if (!rc)
		rc = rvl_span_name(g, v.name, &name, err);
	if (rc)
		return rc;
	t = rvl_tensor_find(g, name);
	if (output && (!t || (!t->producer && !t->data && !t->is_input)))
		return rvl_fail(err, -EBADMSG, "no node produces the model's output '%s'", name);
	if (!t)
		return 0;
	if (t->producer && v.elem_type && !t->declared && !t->computed) {
		rc = declare(g, m, t, &v, o);
		t->type = rvl_onnx_computed_type(g, t->type);
		if (!rc && t->producer->op != RVL_OP_UNSUPPORTED)
			t->bad = NULL;	/* shape inference decides */
	}
	return !rc && output ? rvl_graph_add_output(g, t, err) : rc;
}

static int check_sources(const struct rvl_graph *g, struct rvl_err *err)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct rvl_node *n = g->nodes[i];

		for (uint32_t k = 0; k < n->n_in; k++) {
			const struct rvl_tensor *t = n->in[k];

			if (t && !t->producer && !t->data && !t->is_input)
				return rvl_fail(err, -EBADMSG,
						"node '%s' (%s) reads tensor '%s', which no node produces",
						n->name, n->op_type, t->name);
		}
	}
	return 0;
}

static int load_graph(struct rvl_graph *g, const struct rvl_onnx_model *m,
		      const struct rvl_onnx_opts *o, struct rvl_err *err)
{
	int rc = rvl_onnx_float64(g, m, err);

	if (!rc)
		rc = load_initializers(g, m, err);
	for (uint32_t i = 0; i < m->inputs.n && !rc; i++)
		rc = load_input(g, m, i, o, err);
	for (uint32_t i = 0; i < m->outputs.n && !rc; i++)
		rc = reserve_output(g, m, &m->outputs.f[i], o, err);
	if (!rc)
		rc = rvl_onnx_nodes(g, m, &m->nodes, err);
	if (!rc)
		rc = convert_outputs(g, err);
	for (uint32_t i = 0; i < m->outputs.n && !rc; i++)
		rc = load_value_info(g, m, &m->outputs.f[i], o, true, err);
	for (uint32_t i = 0; i < m->value_infos.n && !rc; i++)
		rc = load_value_info(g, m, &m->value_infos.f[i], o, false, err);
	if (!rc && !g->n_outputs)
		return rvl_fail(err, -EBADMSG, "the model has no outputs");
	if (!rc)
		rc = check_sources(g, err);
	return rc ? rc : rvl_graph_sort(g, err);
}

static int check_opts(const struct rvl_onnx_opts *o, struct rvl_err *err)
{
	if (o->batch < 0 || o->batch > RVL_MAX_DIM || o->symbol < 0 || o->symbol > RVL_MAX_DIM)
		return rvl_fail(err, -EINVAL, "a symbolic dimension can be fixed to 1..%d only",
				RVL_MAX_DIM);
	return 0;
}

static int load_into(struct rvl_graph *g, const void *buf, size_t len,
		     const struct rvl_onnx_opts *o, struct rvl_err *err)
{
	/* Nodes of control flow read their subgraphs later. */
	struct rvl_onnx_model *m = rvl_arena_alloc(g->arena, sizeof(*m));
	int rc = check_opts(o, err);

	if (!rc && !m)
		rc = rvl_fail(err, -ENOMEM, "no memory for the model");
	if (!rc)
		rc = rvl_onnx_scan(g, buf, len, m, err);
	if (!rc)
		rc = rvl_onnx_cache_new(g, m, err);
	if (m)
		m->import = rvl_onnx_import;
	if (!rc)
		rc = rvl_onnx_dims(g, m, o, err);
	if (rc)
		return rc;
	g->files = o->files;
	g->memory_per_byte = o->memory_per_byte;
	g->ir_version = m->ir_version;
	g->opset = m->opset;
	rc = rvl_span_name(g, m->graph_name, &g->name, err);
	if (!rc)
		rc = rvl_span_name(g, m->producer, &g->producer, err);
	return rc ? rc : load_graph(g, m, o, err);
}

int rvl_onnx_load(const void *buf, size_t len, const struct rvl_onnx_opts *opts,
		  struct rvl_graph **out, struct rvl_err *err)
{
	const struct rvl_onnx_opts none = { 0 };
	struct rvl_graph *g = rvl_graph_new();
	int rc;

	if (!g)
		return rvl_fail(err, -ENOMEM, "no memory for a graph");
	opts = opts ? opts : &none;
	rvl_arena_limit(g->arena, opts->memory);
	rvl_arena_doing(g->arena, "reading the model");
	rc = rvl_arena_count(g->arena, opts->memory_held) ? load_into(g, buf, len, opts, err) : -ENOMEM;
	if (rc == -ENOMEM)
		rvl_fail(err, rc, "out of memory");
	rc = rvl_arena_report(g->arena, rc, err);
	if (rc) {
		rvl_graph_free(g);
		return rc;
	}
	*out = g;
	return 0;
}
