/* SPDX-License-Identifier: MIT */
/*
 * The graphs that attributes hold. An iteration of a loop reads the nodes of its body again, and
 * with them the subgraphs that these hold. What is found in the bytes of a subgraph is therefore
 * kept by their address: its lists, its names and its constants are read once. So are the tensors
 * of Constant nodes.
 */
#include "onnx/model.h"

#include <errno.h>

#define BUCKETS 256

struct constant {
	struct rvl_span bytes;
	struct rvl_tensor *t;
	struct constant *next;
};

struct rvl_onnx_cache {
	struct rvl_onnx_subgraph *graph[BUCKETS];
	struct constant *constant[BUCKETS];
};

static uint32_t bucket_of(const struct rvl_field *f)
{
	return ((uintptr_t)f->s.p >> 3) % BUCKETS;
}

static bool same_bytes(struct rvl_span a, const struct rvl_field *f)
{
	return a.p == f->s.p && a.len == f->s.len;
}

int rvl_onnx_cache_new(struct rvl_graph *g, struct rvl_onnx_model *m, struct rvl_err *err)
{
	m->cache = rvl_arena_alloc(g->arena, sizeof(*m->cache));
	return m->cache ? 0 : rvl_fail(err, -ENOMEM, "no memory for the subgraphs");
}

/* The names of a list of ValueInfoProto. */
static int read_names(struct rvl_graph *g, const struct rvl_onnx_model *m,
		      const struct rvl_onnx_list *l, struct rvl_onnx_names *out, struct rvl_err *err)
{
	int rc = 0;

	out->name = rvl_arena_array(g->arena, l->n, sizeof(*out->name));
	if (!out->name)
		return rvl_fail(err, -ENOMEM, "no memory for a subgraph's names");
	for (out->n = 0; out->n < l->n && !rc; out->n++) {
		struct rvl_onnx_value v;

		rc = rvl_onnx_value(m, &l->f[out->n], &v);
		out->name[out->n] = v.name;
	}
	return rc;
}

static int read_subgraph(struct rvl_graph *g, const struct rvl_onnx_model *m,
			 const struct rvl_field *f, struct rvl_onnx_subgraph *s,
			 struct rvl_err *err)
{
	struct rvl_onnx_model lists = *m;
	int rc = rvl_onnx_scan_graph(g, rvl_msg_sub(&m->file, f, "GraphProto"), &lists, err);

	s->bytes = f->s;
	s->nodes = lists.nodes;
	s->initializers = lists.initializers;
	if (!rc)
		rc = read_names(g, m, &lists.inputs, &s->inputs, err);
	return rc ? rc : read_names(g, m, &lists.outputs, &s->outputs, err);
}

int rvl_onnx_subgraph(struct rvl_graph *g, const struct rvl_onnx_model *m,
		      const struct rvl_field *f, struct rvl_onnx_subgraph **out, struct rvl_err *err)
{
	struct rvl_onnx_subgraph **at = &m->cache->graph[bucket_of(f)];
	struct rvl_onnx_subgraph *s;
	int rc;

	for (s = *at; s; s = s->next)
		if (same_bytes(s->bytes, f))
			break;
	*out = s;
	if (s)
		return 0;
	s = rvl_arena_alloc(g->arena, sizeof(*s));
	rc = s ? read_subgraph(g, m, f, s, err) : rvl_fail(err, -ENOMEM, "no memory for a subgraph");
	if (rc)
		return rc;
	s->next = *at;
	*at = s;
	*out = s;
	return 0;
}

int rvl_onnx_enter_subgraph(struct rvl_graph *g, const struct rvl_onnx_model *m, const char *name,
			    struct rvl_onnx_subgraph *s, struct rvl_onnx_scope **out,
			    struct rvl_err *err)
{
	struct rvl_onnx_model in = *m;
	int rc = rvl_onnx_enter(g, m, name, 0, out, err);

	if (rc)
		return rc;
	if (s->constants) {
		(*out)->prefix = s->constants;
		return 0;
	}
	in.scope = *out;
	in.file.err = err;
	s->constants = (*out)->prefix;
	return rvl_onnx_constants(g, &in, &s->initializers, err);
}

int rvl_onnx_constant(struct rvl_graph *g, const struct rvl_onnx_model *m,
		      const struct rvl_field *f, const char *name, struct rvl_tensor **out,
		      struct rvl_err *err)
{
	struct constant **at = &m->cache->constant[bucket_of(f)];
	struct constant *c;
	int rc;

	for (c = *at; c; c = c->next)
		if (same_bytes(c->bytes, f))
			break;
	*out = c ? c->t : NULL;
	if (c)
		return 0;
	c = rvl_arena_alloc(g->arena, sizeof(*c));
	if (!c)
		return rvl_fail(err, -ENOMEM, "no memory for a constant");
	rc = rvl_onnx_tensor(g, rvl_msg_sub(&m->file, f, "TensorProto"), name, &c->t);
	if (!rc)
		rc = rvl_onnx_computed(g, c->t, err);
	if (rc)
		return rc;
	c->bytes = f->s;
	c->next = *at;
	*at = c;
	*out = c->t;
	return 0;
}
