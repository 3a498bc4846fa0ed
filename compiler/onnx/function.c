/* SPDX-License-Identifier: MIT */
/* Functions of a model: a node that calls one is replaced by the nodes of its body. */
#include "onnx/model.h"

#include <errno.h>
#include <string.h>

static struct rvl_span domain_of(struct rvl_span domain)
{
	if (rvl_span_is(domain, "ai.onnx"))
		domain.len = 0;
	return domain;
}

static bool same(struct rvl_span a, struct rvl_span b)
{
	return a.len == b.len && (!a.len || !memcmp(a.p, b.p, a.len));
}

const struct rvl_onnx_function *rvl_onnx_function(const struct rvl_onnx_model *m,
						  const struct rvl_onnx_node *on)
{
	for (uint32_t i = 0; i < m->n_functions; i++) {
		const struct rvl_onnx_function *fn = &m->functions[i];

		if (same(fn->name, on->op_type) && same(fn->overload, on->overload) &&
		    same(domain_of(fn->domain), domain_of(on->domain)))
			return fn;
	}
	return NULL;
}

/* The formal inputs stand for the operands of the call; those behind the last one for none. */
static int bind_inputs(struct rvl_graph *g, const struct rvl_onnx_model *m,
		       const struct rvl_onnx_node *on, const struct rvl_onnx_function *fn,
		       struct rvl_onnx_scope *s, struct rvl_err *err)
{
	if (on->n_in > fn->inputs.n)
		return rvl_fail(err, -EBADMSG, "a call of function '%.*s' has %u inputs, more than %u",
				(int)(fn->name.len < 60 ? fn->name.len : 60),
				(const char *)fn->name.p, on->n_in, fn->inputs.n);
	for (uint32_t i = 0; i < on->n_in; i++) {
		struct rvl_onnx_alias *a = &s->alias[s->n_alias++];
		int rc = 0;

		a->name = fn->inputs.f[i].s;
		if (on->in[i].len)
			rc = rvl_onnx_reads(g, m, on->in[i], &a->t, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int bind_attrs(struct rvl_graph *g, const struct rvl_onnx_node *on,
		      struct rvl_onnx_scope *s, struct rvl_err *err)
{
	s->given = rvl_arena_array(g->arena, on->n_attr, sizeof(*s->given));
	if (!s->given)
		return rvl_fail(err, -ENOMEM, "no memory for the attributes of a call");
	for (uint32_t i = 0; i < on->n_attr; i++)
		s->given[s->n_given++] = (struct rvl_onnx_given) { on->attr[i].name,
								   on->attr[i].field };
	return 0;
}

/* What the body made goes to the tensors that the call names. */
static int hand_out(struct rvl_graph *g, const struct rvl_onnx_model *m,
		    const struct rvl_onnx_model *body, const struct rvl_onnx_node *on,
		    const struct rvl_onnx_function *fn, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < on->n_out && !rc; i++) {
		struct rvl_tensor *from, *to;

		if (!on->out[i].len)
			continue;
		if (i >= fn->outputs.n)
			return rvl_fail(err, -EBADMSG, "a call of function '%.*s' has %u outputs, more than %u",
					(int)(fn->name.len < 60 ? fn->name.len : 60),
					(const char *)fn->name.p, on->n_out, fn->outputs.n);
		rc = rvl_onnx_reads(g, body, fn->outputs.f[i].s, &from, err);
		if (!rc)
			rc = rvl_onnx_makes(g, m, on->out[i], &to, err);
		if (!rc && !from)
			rc = rvl_fail(err, -EBADMSG, "a function returns an operand that the call omits");
		if (!rc && (to->producer || to->data || to->is_input))
			rc = rvl_fail(err, -EBADMSG, "a function makes tensor '%s', which another node, input or initializer already is",
				      to->name);
		if (!rc)
			rc = rvl_onnx_copy(g, from, to, err);
	}
	return rc;
}

int rvl_onnx_call(struct rvl_graph *g, const struct rvl_onnx_model *m,
		  const struct rvl_onnx_node *on, const struct rvl_onnx_function *fn,
		  struct rvl_err *err)
{
	struct rvl_onnx_model body = *m;
	struct rvl_onnx_scope *s;
	const char *name;
	int rc = rvl_span_name(g, on->name.len ? on->name : on->op_type, &name, err);

	if (!rc)
		rc = rvl_onnx_enter(g, m, name, on->n_in, &s, err);
	if (!rc)
		rc = bind_inputs(g, m, on, fn, s, err);
	if (!rc)
		rc = bind_attrs(g, on, s, err);
	if (rc)
		return rc;
	s->closed = true;
	s->fn = fn;
	body.scope = s;
	if (fn->imports_onnx)
		body.opset = fn->opset;
	if (fn->ms_opset)
		body.ms_opset = fn->ms_opset;
	rc = rvl_onnx_nodes(g, &body, &fn->nodes, err);
	return rc ? rc : hand_out(g, m, &body, on, fn, err);
}
