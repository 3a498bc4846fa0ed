/* SPDX-License-Identifier: MIT */
#include "onnx/export.h"
#include "onnx/attr_fields.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_AXIS_OPSET 13 /* of ONNX's own DequantizeLinear */
#define CLIP_INPUTS_OPSET 11
#define WIDE_OPSET 21 /* of a QuantizeLinear that takes 16 bits */
#define QLINEAR_OPSET 10 /* the first one whose quantised operators onnxruntime can make of pairs */

/* Fields of the messages. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTR = 5, NODE_DOMAIN = 7 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_T = 5, ATTR_FLOATS = 7, ATTR_INTS = 8,
       ATTR_STRINGS = 9, ATTR_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT, TYPE_STRING, TYPE_TENSOR, TYPE_FLOATS = 6, TYPE_INTS, TYPE_STRINGS };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_OF_TENSOR = 1, ELEM_TYPE = 1, SHAPE = 2, SHAPE_DIM = 1,
       DIM_VALUE = 1 };

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct export {
	const struct rvl_graph *g;
	int64_t opset; /* of the exported model */
	struct rvl_bytes graph;
	bool *written; /* by tensor id: constants that are initializers already */
	bool *repeated; /* by index of the node: its name is that of a node before it */
	const char *node_name; /* of the node that is being written, or NULL */
	bool microsoft; /* an operator of com.microsoft is used */
	int rc;	/* the first failure; what follows does nothing */
	struct rvl_err *err;
};

/* ---- wire format ---- */

static void put(struct export *e, struct rvl_bytes *b, const void *p, size_t n)
{
	if (!e->rc)
		e->rc = rvl_bytes_add(b, p, n, 1, NULL);
	if (e->rc == -E2BIG)
		rvl_fail(e->err, e->rc, "the exported model is too large");
	else if (e->rc == -ENOMEM)
		rvl_fail(e->err, e->rc, "out of memory");
}

static void varint(struct export *e, struct rvl_bytes *b, uint64_t v)
{
	uint8_t byte[10];
	size_t n = 0;

	do {
		byte[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		v >>= 7;
	} while (v);
	put(e, b, byte, n);
}

static void number(struct export *e, struct rvl_bytes *b, uint32_t field, int64_t v)
{
	varint(e, b, field << 3 | WIRE_VARINT);
	varint(e, b, (uint64_t)v);
}

static void real(struct export *e, struct rvl_bytes *b, uint32_t field, float v)
{
	varint(e, b, field << 3 | WIRE_FIXED32);
	put(e, b, &v, sizeof(v));
}

static void bytes(struct export *e, struct rvl_bytes *b, uint32_t field, const void *p, size_t n)
{
	varint(e, b, field << 3 | WIRE_BYTES);
	varint(e, b, n);
	put(e, b, p, n);
}

static void text(struct export *e, struct rvl_bytes *b, uint32_t field, const char *s)
{
	bytes(e, b, field, s, strlen(s));
}

/* Appends a message and frees it. */
static void message(struct export *e, struct rvl_bytes *b, uint32_t field, struct rvl_bytes *m)
{
	bytes(e, b, field, m->data, m->size);
	rvl_bytes_free(m);
}

/* ---- tensors ---- */

static int64_t onnx_type(enum rvl_type t)
{
#define ONNX_ROW(name, value, text, bytes, npy, onnx) [RIVULET_##name] = (onnx),
	static const uint8_t map[RIVULET_DTYPE_END] = { RIVULET_DTYPES(ONNX_ROW) };
#undef ONNX_ROW

	return map[t];
}

static void tensor(struct export *e, struct rvl_bytes *b, const char *name, enum rvl_type type,
		   const struct rvl_shape *shape, const void *data)
{
	size_t n = (size_t)rvl_shape_count(shape) * rvl_type_size(type);

	for (int32_t i = 0; i < shape->rank; i++)
		number(e, b, TENSOR_DIMS, shape->dim[i]);
	number(e, b, TENSOR_TYPE, onnx_type(type));
	if (name)
		text(e, b, TENSOR_NAME, name);
	bytes(e, b, TENSOR_RAW, data, n);
}

static void initializer(struct export *e, const struct rvl_tensor *t)
{
	struct rvl_bytes m = { 0 };

	if (e->written[t->id])
		return;
	e->written[t->id] = true;
	tensor(e, &m, t->name, t->type, &t->shape, t->data);
	message(e, &e->graph, GRAPH_INITIALIZER, &m);
}

static void value_info(struct export *e, uint32_t field, const struct rvl_tensor *t)
{
	struct rvl_bytes value = { 0 }, type = { 0 }, of_tensor = { 0 }, shape = { 0 };

	for (int32_t i = 0; i < t->shape.rank && !t->bounded; i++) {
		struct rvl_bytes dim = { 0 };

		number(e, &dim, DIM_VALUE, t->shape.dim[i]);
		message(e, &shape, SHAPE_DIM, &dim);
	}
	number(e, &of_tensor, ELEM_TYPE, onnx_type(t->type));
	if (!t->bounded)
		message(e, &of_tensor, SHAPE, &shape);
	message(e, &type, TYPE_OF_TENSOR, &of_tensor);
	text(e, &value, VALUE_NAME, t->name);
	message(e, &value, VALUE_TYPE, &type);
	message(e, &e->graph, field, &value);
	rvl_bytes_free(&shape);
}

/* ---- attributes ---- */

/* Closes an attribute begun with its name. */
static void end_attr(struct export *e, struct rvl_bytes *node, struct rvl_bytes *attr, int type)
{
	number(e, attr, ATTR_TYPE, type);
	message(e, node, NODE_ATTR, attr);
}

static void attr_int(struct export *e, struct rvl_bytes *node, const char *name, int64_t v)
{
	struct rvl_bytes a = { 0 };

	text(e, &a, ATTR_NAME, name);
	number(e, &a, ATTR_I, v);
	end_attr(e, node, &a, TYPE_INT);
}

static void attr_float(struct export *e, struct rvl_bytes *node, const char *name, float v)
{
	struct rvl_bytes a = { 0 };

	text(e, &a, ATTR_NAME, name);
	real(e, &a, ATTR_F, v);
	end_attr(e, node, &a, TYPE_FLOAT);
}

static void attr_ints(struct export *e, struct rvl_bytes *node, const char *name, const int32_t *v,
		      int32_t n)
{
	struct rvl_bytes a = { 0 };

	text(e, &a, ATTR_NAME, name);
	for (int32_t i = 0; i < n; i++)
		number(e, &a, ATTR_INTS, v[i]);
	end_attr(e, node, &a, TYPE_INTS);
}

/* A value of the table of descriptors. */
static void attr_value(struct export *e, struct rvl_bytes *node, const struct rvl_attr_def *d,
		       const struct rvl_attr_value *v)
{
	static const uint8_t types[] = {
		[RVL_ATTR_INT] = TYPE_INT,	 [RVL_ATTR_FLOAT] = TYPE_FLOAT,
		[RVL_ATTR_STRING] = TYPE_STRING, [RVL_ATTR_INTS] = TYPE_INTS,
		[RVL_ATTR_FLOATS] = TYPE_FLOATS, [RVL_ATTR_STRINGS] = TYPE_STRINGS,
		[RVL_ATTR_TENSOR] = TYPE_TENSOR,
	};
	struct rvl_bytes a = { 0 }, t = { 0 };
	const struct rvl_shape shape = { .rank = 1, .dim = { v->n } };
	const char *s = v->data;

	text(e, &a, ATTR_NAME, d->name);
	if (d->kind == RVL_ATTR_INT)
		number(e, &a, ATTR_I, v->i);
	else if (d->kind == RVL_ATTR_FLOAT)
		real(e, &a, ATTR_F, v->f);
	else if (d->kind == RVL_ATTR_STRING)
		bytes(e, &a, ATTR_S, v->data, v->n);
	for (uint32_t i = 0; d->kind == RVL_ATTR_INTS && i < v->n; i++)
		number(e, &a, ATTR_INTS, ((const int64_t *)v->data)[i]);
	for (uint32_t i = 0; d->kind == RVL_ATTR_FLOATS && i < v->n; i++)
		real(e, &a, ATTR_FLOATS, ((const float *)v->data)[i]);
	for (uint32_t i = 0; d->kind == RVL_ATTR_STRINGS && i < v->n; i++, s += strlen(s) + 1)
		text(e, &a, ATTR_STRINGS, s);
	if (d->kind == RVL_ATTR_TENSOR) {
		tensor(e, &t, NULL, v->type, &shape, v->data);
		message(e, &a, ATTR_T, &t);
	}
	end_attr(e, node, &a, types[d->kind]);
}

static void general_attrs(struct export *e, struct rvl_bytes *node, const struct rvl_node *n)
{
	for (uint32_t i = 0; i < rvl_op_attrs(n->def); i++)
		if (n->value[i].given && n->def->attrs[i].kind != RVL_ATTR_IGNORED)
			attr_value(e, node, &n->def->attrs[i], &n->value[i]);
}

static const char *domain_of(struct export *e, const struct rvl_node *n)
{
	const struct rvl_tensor *integers;

	if (n->op == RVL_OP_GENERAL)
		return n->def->domain;
	if (n->op != RVL_OP_QUANTIZE && n->op != RVL_OP_DEQUANTIZE)
		return NULL;
	integers = n->op == RVL_OP_QUANTIZE ? n->out[0] : n->in[0];
	if (e->opset < (integers->type == RVL_TYPE_S16 ? WIDE_OPSET : PER_AXIS_OPSET))
		return "com.microsoft";
	return NULL;
}

static bool all_are(const int32_t *v, int32_t n, int32_t value)
{
	for (int32_t i = 0; i < n; i++)
		if (v[i] != value)
			return false;
	return true;
}

/* An attribute of struct rvl_attr; what has its default is left out. */
static void attr_field(struct export *e, struct rvl_bytes *node, const struct rvl_attr_def *d,
		       const struct rvl_attr_field *f, struct rvl_attr *a)
{
	const int32_t *v = rvl_attr_at(a, f);
	const float *x = rvl_attr_at(a, f);

	switch (f->kind) {
	case RVL_FIELD_INT:
		if (*v != d->i)
			attr_int(e, node, f->name, *v);
		break;
	case RVL_FIELD_FLOAT:
		if (isfinite(*x) && *x != d->f)
			attr_float(e, node, f->name, *x);
		break;
	case RVL_FIELD_PAIR:
		if (d->required || !all_are(v, 2, 1))
			attr_ints(e, node, f->name, v, 2);
		break;
	case RVL_FIELD_PADS:
		if (!all_are(v, 4, 0))
			attr_ints(e, node, f->name, v, 4);
		break;
	case RVL_FIELD_PERM:
		attr_ints(e, node, f->name, v, a->perm_rank);
		break;
	case RVL_FIELD_AUTO_PAD:	/* shape inference made it pads */
	case RVL_FIELD_NONE:
		break;
	}
}

/* One scale belongs to the whole tensor: it has no axis. */
static bool lacks_axis(const struct rvl_node *n)
{
	return (n->op == RVL_OP_QUANTIZE || n->op == RVL_OP_DEQUANTIZE) &&
	       rvl_shape_count(&n->in[1]->shape) == 1;
}

static void attributes(struct export *e, struct rvl_bytes *node, const struct rvl_node *n)
{
	const char *domain = domain_of(e, n);
	const struct rvl_op_def *def = n->op == RVL_OP_GENERAL ? NULL :
		rvl_op_find(domain, rvl_op_name(n->op), domain ? 1 : e->opset);
	struct rvl_attr a = n->attr;

	if (n->op == RVL_OP_GENERAL)
		general_attrs(e, node, n);
	for (uint32_t i = 0; def && i < rvl_op_attrs(def); i++) {
		const struct rvl_attr_field *f = rvl_attr_field(def->attrs[i].name);

		if (f && !(lacks_axis(n) && !strcmp(f->name, "axis")))
			attr_field(e, node, &def->attrs[i], f, &a);
	}
}

/* ---- nodes ---- */

/* A node with up to two inputs by name. */
static void small_node(struct export *e, const char *op, const char *a, const char *b, const char *out)
{
	struct rvl_bytes m = { 0 };

	text(e, &m, NODE_INPUT, a);
	if (b)
		text(e, &m, NODE_INPUT, b);
	text(e, &m, NODE_OUTPUT, out);
	text(e, &m, NODE_OP, op);
	message(e, &e->graph, GRAPH_NODE, &m);
}

/* A scalar constant NAME/SUFFIX as an input of @node; absent where it bounds nothing. */
static void bound(struct export *e, struct rvl_bytes *node, const char *name, const char *suffix,
		  float v)
{
	const struct rvl_shape scalar = { .rank = 0 };
	struct rvl_bytes m = { 0 };
	char full[RVL_MAX_NAME + 32];

	if (!isfinite(v)) {
		text(e, node, NODE_INPUT, "");
		return;
	}
	snprintf(full, sizeof(full), "%s/%s", name, suffix);
	tensor(e, &m, full, RVL_TYPE_F32, &scalar, &v);
	message(e, &e->graph, GRAPH_INITIALIZER, &m);
	text(e, node, NODE_INPUT, full);
}

static void clip_attrs(struct export *e, struct rvl_bytes *node, const struct rvl_attr *a)
{
	if (isfinite(a->f_lo))
		attr_float(e, node, "min", a->f_lo);
	if (isfinite(a->f_hi))
		attr_float(e, node, "max", a->f_hi);
}

/* Writes the clamp that was folded into a node as a node of its own, from @raw to @name. */
static void clamp(struct export *e, const struct rvl_node *n, const char *raw, const char *name)
{
	const struct rvl_attr *a = &n->attr;
	bool relu = rvl_is_relu_clamp(a);
	struct rvl_bytes m = { 0 };

	text(e, &m, NODE_INPUT, raw);
	if (!relu && e->opset >= CLIP_INPUTS_OPSET) {
		bound(e, &m, raw, "min", a->f_lo);
		bound(e, &m, raw, "max", a->f_hi);
	}
	text(e, &m, NODE_OUTPUT, name);
	text(e, &m, NODE_OP, relu ? "Relu" : "Clip");
	if (!relu && e->opset < CLIP_INPUTS_OPSET)
		clip_attrs(e, &m, a);
	message(e, &e->graph, GRAPH_NODE, &m);
}

static bool is_clamped(const struct rvl_node *n)
{
	return n->op != RVL_OP_CLIP && !rvl_is_unclamped(&n->attr);
}

/* The shape that a Reshape makes. Shape inference may have dropped the operand that gave it. */
static void reshape_operands(struct export *e, struct rvl_bytes *m, const struct rvl_node *n)
{
	const struct rvl_shape *y = &n->out[0]->shape, list = { .rank = 1, .dim = { y->rank } };
	struct rvl_bytes t = { 0 };
	char name[RVL_MAX_NAME + 16];

	snprintf(name, sizeof(name), "%s/shape", n->out[0]->name);
	tensor(e, &t, name, RVL_TYPE_S64, &list, y->dim);
	message(e, &e->graph, GRAPH_INITIALIZER, &t);
	if (n->in[0]->data)
		initializer(e, n->in[0]);
	text(e, m, NODE_INPUT, n->in[0]->name);
	text(e, m, NODE_INPUT, name);
}

static void operands(struct export *e, struct rvl_bytes *m, const struct rvl_node *n)
{
	if (n->op == RVL_OP_RESHAPE) {
		reshape_operands(e, m, n);
		return;
	}
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (n->in[i] && n->in[i]->data)
			initializer(e, n->in[i]);
		text(e, m, NODE_INPUT, n->in[i] ? n->in[i]->name : "");
	}
}

static void plain_node(struct export *e, const struct rvl_node *n)
{
	const char *domain = domain_of(e, n);
	const char *op = n->op == RVL_OP_GENERAL ? n->def->name : rvl_op_name(n->op);
	char raw[RVL_MAX_NAME + 16];
	struct rvl_bytes m = { 0 };

	snprintf(raw, sizeof(raw), "%s/unclamped", n->out[0]->name);
	operands(e, &m, n);
	for (uint32_t i = 0; i < n->n_out; i++)
		text(e, &m, NODE_OUTPUT, !n->out[i] ? "" : !i && is_clamped(n) ? raw : n->out[i]->name);
	if (e->node_name)
		text(e, &m, NODE_NAME, e->node_name);
	text(e, &m, NODE_OP, op);
	if (domain)
		text(e, &m, NODE_DOMAIN, domain);
	e->microsoft |= domain != NULL;
	attributes(e, &m, n);
	message(e, &e->graph, GRAPH_NODE, &m);
	if (is_clamped(n))
		clamp(e, n, raw, n->out[0]->name);
}

/* x * Sigmoid(x), where the opset has no Swish. */
static void swish(struct export *e, const struct rvl_node *n)
{
	char name[RVL_MAX_NAME + 16];

	snprintf(name, sizeof(name), "%s/sigmoid", n->out[0]->name);
	small_node(e, "Sigmoid", n->in[0]->name, NULL, name);
	small_node(e, "Mul", n->in[0]->name, name, n->out[0]->name);
}

/* A type that is computed in float32 is converted at the edges of the model. */
static void convert(struct export *e, const struct rvl_node *n)
{
	struct rvl_bytes m = { 0 };

	operands(e, &m, n);
	text(e, &m, NODE_OUTPUT, n->out[0]->name);
	text(e, &m, NODE_OP, "Cast");
	attr_int(e, &m, "to", onnx_type(n->out[0]->type));
	message(e, &e->graph, GRAPH_NODE, &m);
}

/* The result of an If, whose branches have the same shape, is Where, which broadcasts the condition. */
static void selection(struct export *e, const struct rvl_node *n)
{
	struct rvl_bytes m = { 0 };

	if (n->in[0]->shape.rank > n->in[1]->shape.rank) {
		if (!e->rc)
			e->rc = rvl_fail(e->err, -EOPNOTSUPP, "node \"%s\" (If): its condition has more "
					 "dimensions than its result, which Where would change", n->name);
		return;
	}
	operands(e, &m, n);
	text(e, &m, NODE_OUTPUT, n->out[0]->name);
	if (e->node_name)
		text(e, &m, NODE_NAME, e->node_name);
	text(e, &m, NODE_OP, "Where");
	message(e, &e->graph, GRAPH_NODE, &m);
}

static bool is_own(const struct rvl_node *n, const char *name)
{
	return n->op == RVL_OP_GENERAL && n->def->domain && !strcmp(n->def->domain, "rivulet") &&
	       (!name || !strcmp(n->def->name, name));
}

static bool in_opset(const struct export *e, const struct rvl_node *n)
{
	const struct rvl_op_def *d = n->def;

	if (n->op != RVL_OP_GENERAL)
		return n->op < RVL_OP_Q_CONV && n->op != RVL_OP_UNSUPPORTED;
	return d->domain || rvl_op_find(NULL, d->name, e->opset) == d;
}

static void node(struct export *e, const struct rvl_node *n)
{
	if (is_own(n, "Select"))
		selection(e, n);
	else if (is_own(n, NULL))
		convert(e, n);
	else if (in_opset(e, n))
		plain_node(e, n);
	else if (n->op == RVL_OP_GENERAL && !strcmp(n->def->name, "Swish"))
		swish(e, n);
	else if (!e->rc)
		e->rc = rvl_fail(e->err, -EOPNOTSUPP, "node \"%s\" (%s) has no operator in opset %lld",
				 n->name, n->op_type, (long long)e->opset);
}

/* ---- the model ---- */

struct named {
	const char *name;
	uint32_t index;
};

static int compare_names(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->index > y->index) - (x->index < y->index);
}

/*
 * onnxruntime refuses a model in which two nodes have one name, and a node needs none: only the first
 * of them keeps it.
 */
static int find_repeated(struct export *e)
{
	uint32_t n = e->g->n_nodes;
	struct named *list = calloc(n + 1u, sizeof(*list));

	e->repeated = calloc(n + 1u, sizeof(*e->repeated));
	if (!list || !e->repeated) {
		free(list);
		return rvl_fail(e->err, -ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < n; i++)
		list[i] = (struct named){ e->g->nodes[i]->name, i };
	qsort(list, n, sizeof(*list), compare_names);
	for (uint32_t i = 1; i < n; i++)
		e->repeated[list[i].index] = !strcmp(list[i].name, list[i - 1].name);
	free(list);
	return 0;
}

static void graph(struct export *e)
{
	const struct rvl_graph *g = e->g;

	text(e, &e->graph, GRAPH_NAME, g->name && *g->name ? g->name : "graph");
	for (uint32_t i = 0; i < g->n_inputs; i++)
		value_info(e, GRAPH_INPUT, g->inputs[i]);
	for (uint32_t i = 0; i < g->n_nodes && !e->rc; i++) {
		e->node_name = e->repeated[i] ? NULL : g->nodes[i]->name;
		node(e, g->nodes[i]);
	}
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		if (g->outputs[i]->data)
			initializer(e, g->outputs[i]);
		value_info(e, GRAPH_OUTPUT, g->outputs[i]);
	}
}

static void opset(struct export *e, struct rvl_bytes *model, const char *domain, int64_t version)
{
	struct rvl_bytes m = { 0 };

	text(e, &m, OPSET_DOMAIN, domain);
	number(e, &m, OPSET_VERSION, version);
	message(e, model, MODEL_OPSET, &m);
}

int rvl_onnx_export(const struct rvl_graph *g, struct rvl_bytes *out, struct rvl_err *err)
{
	struct export e = { .g = g, .err = err };

	e.opset = g->opset < QLINEAR_OPSET ? QLINEAR_OPSET : g->opset;
	e.written = calloc(g->n_tensors + 1u, sizeof(*e.written));
	if (!e.written)
		return rvl_fail(err, -ENOMEM, "out of memory");
	e.rc = find_repeated(&e);
	if (!e.rc)
		graph(&e);
	number(&e, out, MODEL_IR, g->ir_version > 4 ? g->ir_version : 4);
	text(&e, out, MODEL_PRODUCER, "rivulet");
	opset(&e, out, "", e.opset);
	if (e.microsoft)
		opset(&e, out, "com.microsoft", 1);
	message(&e, out, MODEL_GRAPH, &e.graph);
	rvl_bytes_free(&e.graph);
	free(e.written);
	free(e.repeated);
	return e.rc;
}
