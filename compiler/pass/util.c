/* SPDX-License-Identifier: MIT */
#include "pass/pass.h"

#include "qmath.h"
#include "rivulet_op.h"
#include "window.h"

#include <errno.h>
#include <string.h>

struct rvl_node *rvl_only_user(const struct rvl_tensor *t)
{
	return t->n_users == 1 && !t->is_output ? t->users[0] : NULL;
}

void rvl_note_fused(struct rvl_graph *g, struct rvl_node *n, const struct rvl_node *other)
{
	const char *more = other->fused ? rvl_graph_printf(g, "+%.400s", other->fused) : "";

	if (n->fused)
		n->fused = rvl_graph_printf(g, "%.400s+%.200s%s", n->fused, other->name,
					    more ? more : "");
	else
		n->fused = rvl_graph_printf(g, "%.200s%s", other->name, more ? more : "");
}

bool rvl_const_f32(const struct rvl_tensor *t, float *out)
{
	if (!t || !t->data || t->type != RVL_TYPE_F32 || rvl_shape_count(&t->shape) != 1)
		return false;
	*out = *(const float *)t->data;
	return true;
}

const float *rvl_const_vector(const struct rvl_tensor *t, int64_t n)
{
	const float *v;

	if (!t || !t->data || t->type != RVL_TYPE_F32 || rvl_shape_count(&t->shape) != n)
		return NULL;
	v = t->data;
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(v[i]))
			return NULL;
	return v;
}

/* Whether a node or the model's caller reads the bytes of @data, which tensors of several shapes may have. */
static bool bytes_are_read(const struct rvl_graph *g, const void *data)
{
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct rvl_tensor *t = g->tensors[i];

		if (t->data == data && (t->n_users || t->is_output))
			return true;
	}
	return false;
}

bool rvl_has_bound(const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && n->out[i]->bounded)
			return true;
	return false;
}

void rvl_constant_release(struct rvl_graph *g, struct rvl_tensor *t)
{
	size_t bytes = t && t->data ? (size_t)rvl_tensor_bytes(t) : 0;
	const void *data = t ? t->data : NULL;

	if (bytes < RVL_LARGE_CONSTANT || bytes_are_read(g, data))
		return;
	rvl_arena_release(g->arena, data, bytes);
	g->folded -= g->folded < bytes ? g->folded : bytes;
	for (uint32_t i = 0; i < g->n_tensors; i++)
		if (g->tensors[i]->data == data)
			g->tensors[i]->data = NULL;
}

int rvl_node_bypass(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_tensor *x = n->in[0], *y = n->out[0];
	struct rvl_node *p = x->producer;
	int rc;

	if (!y->is_output) {
		rc = rvl_tensor_replace(g, y, x, err);
		if (rc)
			return rc;
		rvl_node_remove(g, n);
		return 1;
	}
	if (!p || x->is_output)
		return 0;
	rvl_node_remove(g, n);
	rc = rvl_tensor_replace(g, x, y, err);
	if (rc)
		return rc;
	if (x->quant.n && !y->quant.n)
		y->quant = x->quant;
	for (uint32_t i = 0; i < p->n_out; i++)
		if (p->out[i] == x)
			rvl_node_set_out(p, i, y);
	return 1;
}

bool rvl_scale_is_constant(const struct rvl_node *q)
{
	float s;

	return q->n_in > 1 && rvl_const_f32(q->in[1], &s) && s > 0 && isfinite(s) &&
	       (q->n_in < 3 || !q->in[2] || q->in[2]->data);
}

float rvl_scale_of(const struct rvl_node *q)
{
	return *(const float *)q->in[1]->data;
}

int32_t rvl_zero_of(const struct rvl_node *q)
{
	const struct rvl_tensor *z = q->n_in > 2 ? q->in[2] : NULL;

	return z ? rvl_ld8(z->data, 0, z->type == RVL_TYPE_U8) : 0;
}

int rvl_dequantise_as(struct rvl_graph *g, const struct rvl_node *like, struct rvl_tensor *bytes,
		      int32_t axis, struct rvl_tensor *y, struct rvl_err *err)
{
	struct rvl_node *dq;
	int rc = rvl_node_new(g, RVL_OP_DEQUANTIZE, NULL, &dq, err);

	if (rc)
		return rc;
	dq->attr = like->attr;
	dq->attr.axis = axis;
	dq->op_type = "DequantizeLinear";
	rc = rvl_node_set_in(g, dq, 0, bytes, err);
	for (uint32_t i = 1; i < like->n_in && !rc; i++)
		rc = rvl_node_set_in(g, dq, i, like->in[i], err);
	if (!rc)
		rvl_node_set_out(dq, 0, y);
	return rc;
}

/* The node @op that makes @y of @x. */
static int convert(struct rvl_graph *g, enum rvl_op op, struct rvl_tensor *x, struct rvl_tensor *scale,
		   struct rvl_tensor *zp, struct rvl_tensor *y, struct rvl_err *err)
{
	struct rvl_node *q;
	int rc = rvl_node_new(g, op, NULL, &q, err);

	if (!rc)
		rc = rvl_node_set_in(g, q, 0, x, err);
	if (!rc)
		rc = rvl_node_set_in(g, q, 1, scale, err);
	if (!rc)
		rc = rvl_node_set_in(g, q, 2, zp, err);
	if (rc)
		return rc;
	q->op_type = rvl_op_name(op);
	rvl_node_set_out(q, 0, y);
	return 0;
}

int rvl_quantise(struct rvl_graph *g, struct rvl_tensor *x, struct rvl_tensor *scale, struct rvl_tensor *zp,
		 struct rvl_tensor *bytes, struct rvl_err *err)
{
	return convert(g, RVL_OP_QUANTIZE, x, scale, zp, bytes, err);
}

int rvl_dequantise(struct rvl_graph *g, struct rvl_tensor *x, struct rvl_tensor *scale, struct rvl_tensor *zp,
		   struct rvl_tensor *floats, struct rvl_err *err)
{
	return convert(g, RVL_OP_DEQUANTIZE, x, scale, zp, floats, err);
}

int rvl_node_of_role(struct rvl_graph *g, const struct rvl_op_def *def, const struct rvl_named_value *set,
		     uint32_t count, struct rvl_tensor *y, struct rvl_node **n, struct rvl_err *err)
{
	struct rvl_attr_value *v = rvl_arena_array(g->arena, RVL_MAX_ATTRS, sizeof(*v));
	int rc = v ? rvl_node_general(g, def, v, NULL, n, err) :
		     rvl_fail(err, -ENOMEM, "no memory for an operator");

	for (uint32_t i = 0; i < rvl_op_attrs(def) && !rc; i++)
		for (uint32_t k = 0; k < count; k++)
			if (!strcmp(def->attrs[i].name, set[k].name))
				v[i] = set[k].value;
	if (!rc)
		rvl_node_set_out(*n, 0, y);
	return rc;
}

/* Attribute @name of a node of the table of descriptors is the string @value. */
static bool attr_is(const struct rvl_node *n, const char *name, const char *value)
{
	const struct rvl_call c = { .def = n->def, .attr = n->value };

	for (uint32_t i = 0; i < rvl_op_attrs(n->def); i++)
		if (!strcmp(n->def->attrs[i].name, name))
			return rvl_attr_is(&c, name, value);
	return false;
}

/*
 * Whether the operator takes bytes in the place of floats, and its shapes are known. A reduction of
 * no elements has a result that is none of them.
 */
static bool takes_bytes(const struct rvl_node *n)
{
	const uint32_t bytes = RVL_T(U8) | RVL_T(S8);

	if (n->op != RVL_OP_GENERAL || (n->def->types[0] & bytes) != bytes || !n->in[0] ||
	    rvl_shape_count(&n->in[0]->shape) == 0)
		return false;
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && n->out[i]->bounded)
			return false;
	return true;
}

static bool general_moves(const struct rvl_node *n)
{
	const uint32_t flags = n->def->flags;

	return flags & RVL_OP_MOVES ||
	       (flags & RVL_OP_PADS && !attr_is(n, "mode", "constant")) ||
	       (flags & RVL_OP_MOVES_IF_NEAREST && attr_is(n, "mode", "nearest") &&
		!attr_is(n, "coordinate_transformation_mode", "tf_crop_and_resize"));
}

bool rvl_op_moves(const struct rvl_node *n)
{
	if (takes_bytes(n))
		return general_moves(n);
	return rvl_op_traits(n->op) & RVL_TRAIT_MOVES && n->n_out == 1;
}

bool rvl_op_joins(const struct rvl_node *n)
{
	return takes_bytes(n) && n->def->flags & RVL_OP_JOINS;
}

bool rvl_op_pads(const struct rvl_node *n, float *value)
{
	const struct rvl_tensor *v = n->n_in > 2 ? n->in[2] : NULL;

	*value = 0;
	return takes_bytes(n) && n->def->flags & RVL_OP_PADS && attr_is(n, "mode", "constant") &&
	       (!v || rvl_const_f32(v, value));
}

bool rvl_op_blends(const struct rvl_node *n)
{
	if (n->op != RVL_OP_GENERAL)
		return false;
	if (!(n->def->flags & RVL_OP_BLENDS) &&
	    (!(n->def->flags & RVL_OP_BLENDS_IF_LINEAR) ||
	     (!attr_is(n, "mode", "linear") && !attr_is(n, "mode", "bilinear")) ||
	     attr_is(n, "coordinate_transformation_mode", "tf_crop_and_resize")))
		return false;
	for (uint32_t i = 1; i < n->n_in; i++)
		if (n->in[i] && !n->in[i]->data)
			return false;
	return true;
}

static bool is_float(const struct rvl_tensor *t)
{
	return t && t->type == RVL_TYPE_F32 && t->shaped && !t->bounded;
}

bool rvl_op_maps_floats(const struct rvl_node *n)
{
	if (n->op != RVL_OP_GENERAL || n->n_out != 1 || !n->n_in || !is_float(n->in[0]) ||
	    !is_float(n->out[0]))
		return false;
	if (rvl_op_blends(n))
		return true;
	for (uint32_t i = 1; i < n->n_in; i++)
		if (n->in[i] && !n->in[i]->data && !is_float(n->in[i]))
			return false;
	return n->def->flags & RVL_OP_ELEMENTWISE;
}

bool rvl_op_of_one_value(const struct rvl_node *n, int32_t *axis)
{
	const struct rvl_shape *x = n->in[0] ? &n->in[0]->shape : NULL;
	struct rvl_call c;

	*axis = RVL_AXIS_NONE;
	if (n->n_in > 3 || n->n_out != 1 || !x || !rvl_shape_equal(x, &n->out[0]->shape))
		return false;
	rvl_node_call(n, &c);
	for (uint32_t i = 1; i < n->n_in; i++) {
		int32_t a = n->in[i] ? rvl_constant_axis(&c, 0, i) : RVL_AXIS_NONE;

		if ((n->in[i] && !n->in[i]->data) || a == RVL_AXIS_SEVERAL ||
		    (a >= 0 && *axis >= 0 && a != *axis))
			return false;
		*axis = a >= 0 ? a : *axis;
	}
	return *axis < 0 || rvl_tables_fit(x, *axis);
}

bool rvl_window_of_image(const struct rvl_node *n)
{
	const struct rvl_shape *x = &n->in[0]->shape, *y = &n->out[0]->shape;
	const struct rvl_attr *a = &n->attr;
	struct rvl_window w;
	struct rvl_call c;

	if (n->op == RVL_OP_GENERAL) {
		rvl_node_call(n, &c);
		return !rvl_window_read(&c, x, NULL, &w) && rvl_window_is_image(&w);
	}
	for (int i = 0; i < 2; i++)
		if (x->rank != 4 || a->kernel[i] != x->dim[2 + i] || a->pad[i] || a->pad[2 + i] ||
		    a->dilation[i] != 1 || y->dim[2 + i] != 1)
			return false;
	return true;
}

int rvl_add_reshape(struct rvl_graph *g, struct rvl_tensor *x, struct rvl_tensor *y, struct rvl_err *err)
{
	struct rvl_node *n;
	int rc = rvl_node_new(g, RVL_OP_RESHAPE, NULL, &n, err);

	if (!rc)
		rc = rvl_node_set_in(g, n, 0, x, err);
	if (rc)
		return rc;
	n->op_type = rvl_op_name(RVL_OP_RESHAPE);
	rvl_node_set_out(n, 0, y);
	return 0;
}
