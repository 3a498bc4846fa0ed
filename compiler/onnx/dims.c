/* SPDX-License-Identifier: MIT */
/* Values of symbolic dimensions: by shape of an input, by name, and by the two defaults. */
#include "onnx/model.h"

#include <errno.h>
#include <string.h>

static struct rvl_onnx_known *find(const struct rvl_onnx_model *m, struct rvl_span name)
{
	for (uint32_t i = 0; name.len && i < m->n_known; i++)
		if (m->known[i].name.len == name.len &&
		    !memcmp(m->known[i].name.p, name.p, name.len))
			return &m->known[i];
	return NULL;
}

static int add_known(struct rvl_onnx_model *m, struct rvl_span name, int64_t value, bool used,
		     struct rvl_err *err)
{
	struct rvl_onnx_known *k = find(m, name);

	if (k && k->value != value)
		return rvl_fail(err, -EINVAL, "dimension '%.*s' is given as %lld and as %lld",
				(int)(name.len < 60 ? name.len : 60), (const char *)name.p,
				(long long)k->value, (long long)value);
	if (k)
		k->used |= used;
	else if (name.len && m->n_known < m->max_known)
		m->known[m->n_known++] = (struct rvl_onnx_known) { name, value, used };
	return 0;
}

/* The shape that the options give an input of this name, or NULL. */
static const struct rvl_shape *given(const struct rvl_onnx_opts *o, struct rvl_span name)
{
	for (uint32_t i = 0; i < o->n_shapes; i++)
		if (rvl_span_is(name, o->shapes[i].input))
			return &o->shapes[i].shape;
	return NULL;
}

/* A shape given for an input must agree with what the model declares. */
static int take_shape(struct rvl_onnx_model *m, const struct rvl_onnx_value *v,
		      const struct rvl_shape *s, struct rvl_err *err)
{
	int rc = 0;

	if (v->has_shape && (v->too_deep || v->shape.rank != s->rank))
		return rvl_fail(err, -EINVAL, "input '%.*s' has %d dimensions, not %d",
				(int)(v->name.len < 60 ? v->name.len : 60), (const char *)v->name.p,
				v->shape.rank, s->rank);
	for (int i = 0; i < s->rank && !rc; i++) {
		if (v->has_shape && v->shape.dim[i] >= 0 && v->shape.dim[i] != s->dim[i])
			return rvl_fail(err, -EINVAL, "dimension %d of input '%.*s' is %lld, not %lld", i,
					(int)(v->name.len < 60 ? v->name.len : 60),
					(const char *)v->name.p, (long long)v->shape.dim[i],
					(long long)s->dim[i]);
		if (v->has_shape && v->shape.dim[i] < 0)
			rc = add_known(m, v->symbol[i], s->dim[i], true, err);
	}
	return rc;
}

static int scan_inputs(struct rvl_onnx_model *m, const struct rvl_onnx_opts *o, uint32_t *taken,
		       struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < m->inputs.n && !rc; i++) {
		const struct rvl_shape *s;
		struct rvl_onnx_value v;

		rc = rvl_onnx_value(m, &m->inputs.f[i], &v);
		s = rc ? NULL : given(o, v.name);
		if (s)
			rc = take_shape(m, &v, s, err);
		*taken += s != NULL;
		for (int k = 0; k < v.shape.rank && !rc; k++) {
			struct rvl_onnx_known *known = find(m, v.symbol[k]);

			if (known)
				known->used = true;
		}
	}
	return rc;
}

static int check_options(const struct rvl_onnx_opts *o, struct rvl_err *err)
{
	for (uint32_t i = 0; i < o->n_symbols; i++)
		if (o->symbols[i].value < 1 || o->symbols[i].value > RVL_MAX_DIM)
			return rvl_fail(err, -EINVAL, "dimension '%.60s' can be 1 to %d only",
					o->symbols[i].name, RVL_MAX_DIM);
	for (uint32_t i = 0; i < o->n_shapes; i++)
		for (int k = 0; k < o->shapes[i].shape.rank; k++)
			if (o->shapes[i].shape.dim[k] < 0 || o->shapes[i].shape.dim[k] > RVL_MAX_DIM)
				return rvl_fail(err, -EINVAL, "a dimension of input '%.60s' can be 0 to %d only",
						o->shapes[i].input, RVL_MAX_DIM);
	return 0;
}

static bool has_input(const struct rvl_onnx_model *m, const char *name)
{
	for (uint32_t i = 0; i < m->inputs.n; i++) {
		struct rvl_onnx_value v;

		if (!rvl_onnx_value(m, &m->inputs.f[i], &v) && rvl_span_is(v.name, name))
			return true;
	}
	return false;
}

int rvl_onnx_dims(struct rvl_graph *g, struct rvl_onnx_model *m, const struct rvl_onnx_opts *o,
		  struct rvl_err *err)
{
	uint32_t taken = 0;
	int rc = check_options(o, err);

	m->max_known = o->n_symbols + RVL_MAX_RANK * o->n_shapes;
	m->known = rvl_arena_array(g->arena, m->max_known, sizeof(*m->known));
	if (!rc && !m->known)
		rc = rvl_fail(err, -ENOMEM, "no memory for dimensions");
	for (uint32_t i = 0; i < o->n_symbols && !rc; i++) {
		struct rvl_span name = { (const uint8_t *)o->symbols[i].name, strlen(o->symbols[i].name) };

		rc = add_known(m, name, o->symbols[i].value, false, err);
	}
	if (!rc && (o->n_symbols || o->n_shapes))
		rc = scan_inputs(m, o, &taken, err);
	for (uint32_t i = 0; i < o->n_shapes && !rc && taken < o->n_shapes; i++)
		if (!has_input(m, o->shapes[i].input))
			rc = rvl_fail(err, -ENOENT, "the model has no input '%.60s' to give a shape",
				      o->shapes[i].input);
	for (uint32_t i = 0; i < m->n_known && !rc; i++)
		if (!m->known[i].used)
			rc = rvl_fail(err, -ENOENT, "no input of the model has a dimension '%.*s'",
				      (int)(m->known[i].name.len < 60 ? m->known[i].name.len : 60),
				      (const char *)m->known[i].name.p);
	return rc;
}

bool rvl_onnx_fix(const struct rvl_onnx_model *m, const struct rvl_onnx_opts *o,
		  struct rvl_onnx_value *v)
{
	const struct rvl_shape *s = given(o, v->name);
	bool all = true;

	if (s && (!v->has_shape || v->shape.rank == s->rank)) {
		v->shape = *s;
		v->has_shape = true;
		return true;
	}
	for (int i = 0; i < v->shape.rank; i++) {
		const struct rvl_onnx_known *k = find(m, v->symbol[i]);

		if (v->shape.dim[i] >= 0)
			continue;
		v->shape.dim[i] = k ? k->value : i == 0 ? (o->batch ? o->batch : 1) : o->symbol;
		all &= v->shape.dim[i] || k || !i;
	}
	return all;
}
