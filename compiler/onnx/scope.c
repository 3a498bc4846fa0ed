/* SPDX-License-Identifier: MIT */
/* Names of subgraphs and function bodies, and the reading of their nodes. */
#include "onnx/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same_name(struct rvl_span a, struct rvl_span b)
{
	return a.len == b.len && (!a.len || !memcmp(a.p, b.p, a.len));
}

/* The name of a tensor that the body of a scope makes. @buf has RVL_MAX_NAME + 1 bytes. */
static int full_name(const struct rvl_onnx_scope *s, struct rvl_span name, char *buf,
		     struct rvl_err *err)
{
	size_t n = strlen(s->prefix);

	if (n + name.len > RVL_MAX_NAME)
		return rvl_fail(err, -E2BIG, "a name in '%.60s' has %zu bytes, more than %d", s->prefix,
				n + name.len, RVL_MAX_NAME);
	if (name.len && memchr(name.p, 0, name.len))
		return rvl_fail(err, -EBADMSG, "malformed ONNX: a name contains a NUL byte");
	memcpy(buf, s->prefix, n);
	if (name.len)
		memcpy(buf + n, name.p, name.len);
	buf[n + name.len] = 0;
	return 0;
}

/* 1: found, *out may be NULL for an absent operand; 0: this scope does not have the name. */
static int look_here(const struct rvl_graph *g, const struct rvl_onnx_scope *s,
		     struct rvl_span name, struct rvl_tensor **out, struct rvl_err *err)
{
	char buf[RVL_MAX_NAME + 1];
	int rc;

	for (uint32_t i = 0; i < s->n_alias; i++) {
		if (same_name(s->alias[i].name, name)) {
			*out = s->alias[i].t;
			return 1;
		}
	}
	for (uint32_t i = s->n_alias; s->fn && i < s->fn->inputs.n; i++) {
		if (same_name(s->fn->inputs.f[i].s, name)) {
			*out = NULL;
			return 1;
		}
	}
	rc = full_name(s, name, buf, err);
	*out = rc ? NULL : rvl_tensor_find(g, buf);
	return rc ? rc : *out != NULL;
}

/* A tensor of the model's graph. The first use of a name makes it, without type or producer. */
static int top_tensor(struct rvl_graph *g, struct rvl_span name, bool make,
		      struct rvl_tensor **out, struct rvl_err *err)
{
	const char *s;
	int rc = rvl_span_name(g, name, &s, err);

	if (rc)
		return rc;
	*out = rvl_tensor_find(g, s);
	return *out || !make ? 0 : rvl_tensor_new(g, s, out, err);
}

static void take_computed(struct rvl_tensor **t)
{
	if (*t && (*t)->computed)
		*t = (*t)->computed;
}

int rvl_onnx_reads(struct rvl_graph *g, const struct rvl_onnx_model *m, struct rvl_span name,
		   struct rvl_tensor **out, struct rvl_err *err)
{
	const struct rvl_onnx_scope *s = m->scope;
	int rc = 0;

	*out = NULL;
	for (; s && !rc && !(rc = look_here(g, s, name, out, err)); s = s->outer)
		if (s->closed)
			break;
	if (rc < 0)
		return rc;
	if (!rc && !s)
		rc = top_tensor(g, name, !m->scope, out, err);
	if (rc < 0)
		return rc;
	if (!rc && m->scope && !*out)
		return rvl_fail(err, -EBADMSG, "a node of '%.60s' reads '%.*s', which no earlier node produces",
				m->scope->prefix, (int)(name.len < 60 ? name.len : 60),
				(const char *)name.p);
	take_computed(out);
	return 0;
}

int rvl_onnx_makes(struct rvl_graph *g, const struct rvl_onnx_model *m, struct rvl_span name,
		   struct rvl_tensor **out, struct rvl_err *err)
{
	char buf[RVL_MAX_NAME + 1];
	int rc;

	if (!m->scope) {
		rc = top_tensor(g, name, true, out, err);
	} else {
		rc = full_name(m->scope, name, buf, err);
		*out = rc ? NULL : rvl_tensor_find(g, buf);
		if (!rc && !*out)
			rc = rvl_tensor_new(g, buf, out, err);
	}
	if (!rc)
		take_computed(out);
	return rc;
}

int rvl_onnx_enter(struct rvl_graph *g, const struct rvl_onnx_model *m, const char *name,
		   uint32_t n_alias, struct rvl_onnx_scope **out, struct rvl_err *err)
{
	struct rvl_onnx_scope *s = rvl_arena_alloc(g->arena, sizeof(*s));

	if (!s)
		return rvl_fail(err, -ENOMEM, "no memory for a scope");
	s->outer = m->scope;
	s->depth = m->scope ? m->scope->depth + 1 : 1;
	if (s->depth > RVL_ONNX_MAX_DEPTH)
		return rvl_fail(err, -E2BIG, "'%.60s' is more than %d subgraphs or functions deep", name,
				RVL_ONNX_MAX_DEPTH);
	s->prefix = rvl_graph_printf(g, "%s%.40s.%u/", m->scope ? m->scope->prefix : "", name,
				     g->next_scope++);
	s->alias = rvl_arena_array(g->arena, n_alias, sizeof(*s->alias));
	if (!s->prefix || !s->alias)
		return rvl_fail(err, -ENOMEM, "no memory for a scope");
	*out = s;
	return 0;
}

int rvl_onnx_nodes(struct rvl_graph *g, const struct rvl_onnx_model *m,
		   const struct rvl_onnx_list *nodes, struct rvl_err *err)
{
	struct rvl_onnx_node *on = malloc(sizeof(*on));
	int rc = on ? 0 : rvl_fail(err, -ENOMEM, "no memory for a node");

	if (!rc && m->scope) {
		g->expanded += nodes->n;
		if (g->expanded > RVL_MAX_NODES)
			rc = rvl_fail(err, -E2BIG, "subgraphs and functions have more than %d nodes in all",
				      RVL_MAX_NODES);
	}
	for (uint32_t i = 0; i < nodes->n && !rc; i++) {
		rc = rvl_onnx_node(m, &nodes->f[i], on);
		if (!rc)
			rc = m->import(g, m, on, err);
	}
	free(on);
	return rc;
}

int rvl_onnx_constants(struct rvl_graph *g, const struct rvl_onnx_model *m,
		       const struct rvl_onnx_list *initializers, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < initializers->n && !rc; i++) {
		struct rvl_msg sub = rvl_msg_sub(&m->file, &initializers->f[i], "TensorProto");
		char buf[RVL_MAX_NAME + 1];
		struct rvl_tensor *t;
		struct rvl_span name;

		rc = rvl_onnx_tensor_name(sub, &name);
		if (!rc)
			rc = full_name(m->scope, name, buf, err);
		if (!rc)
			rc = rvl_onnx_tensor(g, sub, buf, &t);
		if (!rc)
			rc = rvl_onnx_computed(g, t, err);
	}
	return rc;
}

int rvl_onnx_copy(struct rvl_graph *g, struct rvl_tensor *from, struct rvl_tensor *to,
		  struct rvl_err *err)
{
	struct rvl_node *n;
	int rc = rvl_node_new(g, RVL_OP_IDENTITY, NULL, &n, err);

	if (rc)
		return rc;
	n->def = rvl_op_find(NULL, "Identity", RVL_ONNX_MAX_OPSET);
	n->value = rvl_arena_array(g->arena, rvl_op_attrs(n->def), sizeof(*n->value));
	if (!n->value)
		return rvl_fail(err, -ENOMEM, "no memory for a copy");
	rc = rvl_node_set_in(g, n, 0, from, err);
	if (!rc)
		rvl_node_set_out(n, 0, to);
	return rc;
}
