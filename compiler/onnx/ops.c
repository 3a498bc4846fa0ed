/* SPDX-License-Identifier: MIT */
/*
 * From NodeProto to node. Two tables say what is understood: operators with the opsets they are
 * known in, and the attributes of each. Whatever is not in a table makes the node UNSUPPORTED.
 */
#include "onnx/model.h"
#include "onnx/onnx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum attr_kind {
	K_INT,		/* int32 */
	K_FLAG,		/* 0 or 1 */
	K_FLOAT,
	K_PAIR,		/* two values in 1..65535 */
	K_PADS,		/* four values in 0..65535 */
	K_PERM,
	K_AUTO_PAD,
	K_IGNORE,	/* understood, changes nothing in inference */
	K_ZERO,		/* only 0 is supported */
	K_ONE,		/* only 1 is supported */
	K_SPECIAL,	/* read by the operator's own function */
};

struct attr_spec {
	const char *name;
	enum attr_kind kind;
	size_t off;
};

#define AT(field) offsetof(struct rvl_attr, field)

static const struct attr_spec none_attrs[] = { { NULL, K_INT, 0 } };

static const struct attr_spec conv_attrs[] = {
	{ "kernel_shape", K_PAIR, AT(kernel) },
	{ "strides", K_PAIR, AT(stride) },
	{ "dilations", K_PAIR, AT(dilation) },
	{ "pads", K_PADS, AT(pad) },
	{ "auto_pad", K_AUTO_PAD, AT(auto_pad) },
	{ "group", K_INT, AT(group) },
	{ NULL, K_INT, 0 },
};

static const struct attr_spec pool_attrs[] = {
	{ "kernel_shape", K_PAIR, AT(kernel) },
	{ "strides", K_PAIR, AT(stride) },
	{ "dilations", K_PAIR, AT(dilation) },
	{ "pads", K_PADS, AT(pad) },
	{ "auto_pad", K_AUTO_PAD, AT(auto_pad) },
	{ "ceil_mode", K_FLAG, AT(ceil_mode) },
	{ "count_include_pad", K_FLAG, AT(count_include_pad) },
	{ "storage_order", K_FLAG, AT(storage_order) },
	{ "channels_last", K_ZERO, 0 },
	{ NULL, K_INT, 0 },
};

static const struct attr_spec gemm_attrs[] = {
	{ "alpha", K_FLOAT, AT(alpha) },
	{ "beta", K_FLOAT, AT(beta) },
	{ "transA", K_FLAG, AT(trans_a) },
	{ "transB", K_FLAG, AT(trans_b) },
	{ NULL, K_INT, 0 },
};

static const struct attr_spec axis_attrs[] = {
	{ "axis", K_INT, AT(axis) },
	{ NULL, K_INT, 0 },
};

static const struct attr_spec quant_attrs[] = {
	{ "axis", K_INT, AT(axis) },
	{ "saturate", K_IGNORE, 0 },
	{ "block_size", K_ZERO, 0 },
	{ "output_dtype", K_SPECIAL, 0 },
	{ NULL, K_INT, 0 },
};

static const struct attr_spec clip_attrs[] = {
	{ "min", K_FLOAT, AT(f_lo) },
	{ "max", K_FLOAT, AT(f_hi) },
	{ NULL, K_INT, 0 },
};

static const struct attr_spec reshape_attrs[] = {
	{ "allowzero", K_FLAG, AT(allowzero) },
	{ NULL, K_INT, 0 },
};

static const struct attr_spec transpose_attrs[] = {
	{ "perm", K_PERM, AT(perm) },
	{ NULL, K_INT, 0 },
};

static const struct attr_spec bn_attrs[] = {
	{ "epsilon", K_FLOAT, AT(epsilon) },
	{ "momentum", K_IGNORE, 0 },
	{ "spatial", K_ONE, 0 },
	{ "training_mode", K_ZERO, 0 },
	{ NULL, K_INT, 0 },
};

static const struct attr_spec gap_attrs[] = {
	{ "channels_last", K_ZERO, 0 },
	{ NULL, K_INT, 0 },
};

static const struct attr_spec constant_attrs[] = {
	{ "value", K_SPECIAL, 0 },
	{ "value_float", K_SPECIAL, 0 },
	{ "value_floats", K_SPECIAL, 0 },
	{ "value_int", K_SPECIAL, 0 },
	{ "value_ints", K_SPECIAL, 0 },
	{ NULL, K_INT, 0 },
};

struct importer {
	const char *op_type;
	const char *domain;
	enum rvl_op op;
	int32_t since;		/* first opset whose meaning this is */
	const struct attr_spec *attrs;
};

#define MS "com.microsoft"

static const struct importer importers[] = {
	{ "QuantizeLinear", "", RVL_OP_QUANTIZE, 10, quant_attrs },
	{ "DequantizeLinear", "", RVL_OP_DEQUANTIZE, 10, quant_attrs },
	{ "QuantizeLinear", MS, RVL_OP_QUANTIZE, 1, quant_attrs },
	{ "DequantizeLinear", MS, RVL_OP_DEQUANTIZE, 1, quant_attrs },
	{ "QLinearConv", "", RVL_OP_QLINEAR_CONV, 10, conv_attrs },
	{ "QLinearMatMul", "", RVL_OP_QLINEAR_MATMUL, 10, none_attrs },
	{ "QLinearAdd", MS, RVL_OP_QLINEAR_ADD, 1, none_attrs },
	{ "QLinearMul", MS, RVL_OP_QLINEAR_MUL, 1, none_attrs },
	{ "QGemm", MS, RVL_OP_QGEMM, 1, gemm_attrs },
	{ "QLinearGlobalAveragePool", MS, RVL_OP_QLINEAR_GLOBAL_AVERAGE_POOL, 1, gap_attrs },
	{ "QLinearAveragePool", MS, RVL_OP_QLINEAR_AVERAGE_POOL, 1, pool_attrs },
	{ "Conv", "", RVL_OP_CONV, 1, conv_attrs },
	{ "Gemm", "", RVL_OP_GEMM, 7, gemm_attrs },
	{ "MatMul", "", RVL_OP_MATMUL, 1, none_attrs },
	{ "Relu", "", RVL_OP_RELU, 6, none_attrs },
	{ "Clip", "", RVL_OP_CLIP, 6, clip_attrs },
	{ "Add", "", RVL_OP_ADD, 7, none_attrs },
	{ "Mul", "", RVL_OP_MUL, 7, none_attrs },
	{ "MaxPool", "", RVL_OP_MAX_POOL, 1, pool_attrs },
	{ "AveragePool", "", RVL_OP_AVERAGE_POOL, 1, pool_attrs },
	{ "GlobalAveragePool", "", RVL_OP_GLOBAL_AVERAGE_POOL, 1, none_attrs },
	{ "GlobalMaxPool", "", RVL_OP_GLOBAL_MAX_POOL, 1, none_attrs },
	{ "Flatten", "", RVL_OP_FLATTEN, 1, axis_attrs },
	{ "Reshape", "", RVL_OP_RESHAPE, 5, reshape_attrs },
	{ "Transpose", "", RVL_OP_TRANSPOSE, 1, transpose_attrs },
	{ "Softmax", "", RVL_OP_SOFTMAX, 1, axis_attrs },
	{ "BatchNormalization", "", RVL_OP_BATCH_NORM, 7, bn_attrs },
	{ "Identity", "", RVL_OP_IDENTITY, 1, none_attrs },
	{ "Constant", "", RVL_OP_CONSTANT, 1, constant_attrs },
};

bool rvl_onnx_op(size_t i, struct rvl_onnx_op *out)
{
	if (i >= sizeof(importers) / sizeof(importers[0]))
		return false;
	*out = (struct rvl_onnx_op) {
		.op_type = importers[i].op_type, .domain = importers[i].domain,
		.op = importers[i].op, .since = importers[i].since,
	};
	return true;
}

const char *rvl_onnx_op_attr(size_t i, size_t k)
{
	return importers[i].attrs[k].name;
}

static const struct importer *find_importer(const struct rvl_onnx_node *on, bool *other_domain)
{
	struct rvl_span domain = on->domain;

	if (rvl_span_is(domain, "ai.onnx"))
		domain.len = 0;
	*other_domain = false;
	for (size_t i = 0; i < sizeof(importers) / sizeof(importers[0]); i++) {
		if (!rvl_span_is(on->op_type, importers[i].op_type))
			continue;
		if (rvl_span_is(domain, importers[i].domain))
			return &importers[i];
		*other_domain = true;
	}
	return NULL;
}

/* What one import needs everywhere. */
struct import {
	struct rvl_graph *g;
	const struct rvl_onnx_model *m;
	const struct rvl_onnx_node *on;
	struct rvl_node *n;
	struct rvl_err *err;
};

/* Refuses the node with a reason (the first one stays). Always returns 0: the load goes on. */
#define refuse(im, ...) do { \
	if ((im)->n->op != RVL_OP_UNSUPPORTED) { \
		(im)->n->op = RVL_OP_UNSUPPORTED; \
		(im)->n->reason = rvl_graph_printf((im)->g, __VA_ARGS__); \
	} \
} while (0)

static void set_ints(struct import *im, const struct attr_spec *s, const struct rvl_onnx_attr *a,
		     uint32_t n, int64_t lo)
{
	int32_t *dst = (int32_t *)((char *)&im->n->attr + s->off);

	if (a->n_ints != n) {
		refuse(im, "attribute %s has %u values: only 2-D windows are supported", s->name,
		       a->n_ints);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (a->ints[i] < lo || a->ints[i] > 65535) {
			refuse(im, "attribute %s has the value %lld, not one of %lld to 65535",
			       s->name, (long long)a->ints[i], (long long)lo);
			return;
		}
		dst[i] = (int32_t)a->ints[i];
	}
}

static void set_int(struct import *im, const struct attr_spec *s, const struct rvl_onnx_attr *a,
		    int64_t lo, int64_t hi)
{
	if (a->i < lo || a->i > hi)
		refuse(im, "attribute %s = %lld is not supported", s->name, (long long)a->i);
	else
		*(int32_t *)((char *)&im->n->attr + s->off) = (int32_t)a->i;
}

static void set_perm(struct import *im, const struct attr_spec *s, const struct rvl_onnx_attr *a)
{
	uint32_t seen = 0;

	if (a->n_ints > RVL_MAX_RANK) {
		refuse(im, "attribute perm has %u axes, more than %d", a->n_ints, RVL_MAX_RANK);
		return;
	}
	for (uint32_t i = 0; i < a->n_ints; i++) {
		if (a->ints[i] < 0 || a->ints[i] >= a->n_ints || (seen & (1u << a->ints[i]))) {
			refuse(im, "attribute %s is not a permutation", s->name);
			return;
		}
		seen |= 1u << a->ints[i];
		im->n->attr.perm[i] = (int32_t)a->ints[i];
	}
	im->n->attr.perm_rank = (int32_t)a->n_ints;
}

static void set_auto_pad(struct import *im, const struct rvl_onnx_attr *a)
{
	static const char * const names[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID" };

	for (int i = 0; i < 4; i++) {
		if (rvl_span_is(a->s, names[i])) {
			im->n->attr.auto_pad = i;
			return;
		}
	}
	refuse(im, "attribute auto_pad '%.*s' is unknown", (int)(a->s.len < 40 ? a->s.len : 40),
	       (const char *)a->s.p);
}

static void set_attr(struct import *im, const struct attr_spec *s, const struct rvl_onnx_attr *a)
{
	switch (s->kind) {
	case K_INT:
		set_int(im, s, a, INT32_MIN, INT32_MAX);
		break;
	case K_FLAG:
		set_int(im, s, a, 0, 1);
		break;
	case K_FLOAT:
		*(float *)((char *)&im->n->attr + s->off) = a->f;
		break;
	case K_PAIR:
		set_ints(im, s, a, 2, 1);
		break;
	case K_PADS:
		set_ints(im, s, a, 4, 0);
		break;
	case K_PERM:
		set_perm(im, s, a);
		break;
	case K_AUTO_PAD:
		set_auto_pad(im, a);
		break;
	case K_ZERO:
	case K_ONE:
		if (a->i != (s->kind == K_ONE))
			refuse(im, "attribute %s = %lld is not supported", s->name, (long long)a->i);
		break;
	case K_IGNORE:
	case K_SPECIAL:
		break;
	}
}

static void read_attrs(struct import *im, const struct importer *imp)
{
	for (uint32_t i = 0; i < im->on->n_attr; i++) {
		const struct rvl_onnx_attr *a = &im->on->attr[i];
		const struct attr_spec *s = imp->attrs;

		while (s->name && !rvl_span_is(a->name, s->name))
			s++;
		if (!s->name)
			refuse(im, "attribute '%.*s' is not supported",
			       (int)(a->name.len < 60 ? a->name.len : 60), (const char *)a->name.p);
		else if (a->too_long && s->kind != K_SPECIAL)
			refuse(im, "attribute '%s' has more than %d values", s->name,
			       RVL_ONNX_MAX_INTS);
		else
			set_attr(im, s, a);
	}
}

/* Defaults that differ from rvl_attr_init(), some by opset. */
static void default_attrs(struct import *im)
{
	struct rvl_attr *a = &im->n->attr;

	switch (im->n->op) {
	case RVL_OP_CONV:
	case RVL_OP_QLINEAR_CONV:
		a->kernel[0] = a->kernel[1] = 0;	/* from the weights, in shape inference */
		break;
	case RVL_OP_SOFTMAX:
		a->flat_softmax = im->m->opset < 13;
		a->axis = im->m->opset < 13 ? 1 : -1;
		break;
	case RVL_OP_FLATTEN:
	case RVL_OP_QUANTIZE:
	case RVL_OP_DEQUANTIZE:
		a->axis = 1;
		break;
	default:
		break;
	}
}

/* Whether the operands of a variadic operator may be taken in parts. Mean divides by their number. */
static bool takes_parts(const struct rvl_op_def *d)
{
	return d->most_in == RVL_ANY_NUMBER_IN && strcmp(d->name, "Mean");
}

static int read_operands(struct import *im, struct rvl_tensor **t)
{
	int rc = 0;

	for (uint32_t i = 0; i < im->on->n_in && !rc; i++)
		rc = rvl_onnx_reads(im->g, im->m, im->on->in[i], &t[i], im->err);
	return rc;
}

/* A node like the one that is read, of part of its operands. */
static int part_of(struct import *im, struct rvl_tensor **in, uint32_t n, struct rvl_tensor **out)
{
	const char *name = rvl_graph_printf(im->g, "%.900s/%u", im->n->name, im->g->next_node_id);
	struct rvl_node *part;
	int rc = name ? rvl_node_general(im->g, im->n->def, im->n->value, name, &part, im->err) :
			rvl_fail(im->err, -ENOMEM, "no memory for a node's name");

	for (uint32_t i = 0; i < n && !rc; i++)
		rc = rvl_node_set_in(im->g, part, i, in[i], im->err);
	if (!rc)
		rc = rvl_tensor_new(im->g, NULL, out, im->err);
	if (!rc)
		rvl_node_set_out(part, 0, *out);
	return rc;
}

/* More operands than a node has: RVL_MAX_IN at a time, until the results are few enough. */
static int connect_parts(struct import *im)
{
	struct rvl_tensor **t = rvl_arena_array(im->g->arena, im->on->n_in, sizeof(*t));
	uint32_t n = im->on->n_in, at = im->g->n_nodes - 1;
	int rc = t ? read_operands(im, t) : rvl_fail(im->err, -ENOMEM, "no memory for operands");

	while (n > RVL_MAX_IN && !rc) {
		uint32_t made = 0;

		for (uint32_t i = 0; i < n && !rc; i += RVL_MAX_IN) {
			uint32_t part = n - i < RVL_MAX_IN ? n - i : RVL_MAX_IN;

			rc = part_of(im, t + i, part, &t[made++]);
		}
		n = made;
	}
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = rvl_node_set_in(im->g, im->n, i, t[i], im->err);
	/* The parts come before the node that reads them. */
	memmove(im->g->nodes + at, im->g->nodes + at + 1,
		(im->g->n_nodes - at - 1) * sizeof(*im->g->nodes));
	im->g->nodes[im->g->n_nodes - 1] = im->n;
	return rc;
}

static int connect_inputs(struct import *im)
{
	uint32_t max = im->on->n_in < RVL_MAX_IN ? im->on->n_in : RVL_MAX_IN;

	if (im->on->n_in > RVL_MAX_IN && im->n->op == RVL_OP_GENERAL && takes_parts(im->n->def))
		return connect_parts(im);
	for (uint32_t i = 0; i < max; i++) {
		struct rvl_tensor *t;
		int rc;

		if (!im->on->in[i].len)
			continue;
		rc = rvl_onnx_reads(im->g, im->m, im->on->in[i], &t, im->err);
		if (!rc)
			rc = rvl_node_set_in(im->g, im->n, i, t, im->err);
		if (rc)
			return rc;
	}
	return 0;
}

/* A result beyond RVL_MAX_OUT exists only as a name, and a node that reads it is refused. */
static int connect_output(struct import *im, struct rvl_span name, uint32_t i)
{
	struct rvl_tensor *t;
	int rc = rvl_onnx_makes(im->g, im->m, name, &t, im->err);

	if (rc)
		return rc;
	if (t->producer || t->data || t->is_input)
		return rvl_fail(im->err, -EBADMSG,
				"node '%s' (%s) makes tensor '%s', which another node, input or initializer already is",
				im->n->name, im->n->op_type, t->name);
	if (i < RVL_MAX_OUT) {
		rvl_node_set_out(im->n, i, t);
		return 0;
	}
	t->bad = "a result of an unsupported operator";
	t->data = "";
	return 0;
}

/* The first output may be unnamed, as of an LSTM of which only the last state is read. */
static int unused_output(struct import *im)
{
	struct rvl_tensor *t;
	int rc = rvl_tensor_new(im->g, NULL, &t, im->err);

	if (!rc)
		rvl_node_set_out(im->n, 0, t);
	return rc;
}

static int connect_outputs(struct import *im)
{
	/* Of an operator outside the tables it is not known which outputs are optional. */
	bool control = rvl_onnx_is_control(im->on);
	bool close_up = im->n->op == RVL_OP_UNSUPPORTED && !control;
	uint32_t at = 0;
	int rc = 0;

	for (uint32_t i = 0; i < im->on->n_out && !rc; i++, at++) {
		if (im->on->out[i].len)
			rc = connect_output(im, im->on->out[i], at);
		else if (close_up)
			at--;
	}
	if (rc || (im->n->n_out && im->n->out[0]))
		return rc;
	if (!im->n->n_out || (!im->n->def && !control))
		return rvl_fail(im->err, -EBADMSG, "node '%s' (%s) has no first output", im->n->name,
				im->n->op_type);
	return unused_output(im);
}

static uint32_t least_inputs(enum rvl_op op)
{
	switch (op) {
#define OP_LEAST(id, num, name, domain, lo, ...) case RVL_OP_##id: return lo;
	RVL_OPS(OP_LEAST)
#undef OP_LEAST
	default:
		return 0;
	}
}

static uint32_t most_inputs(enum rvl_op op)
{
	switch (op) {
#define OP_MOST(id, num, name, domain, lo, hi, ...) case RVL_OP_##id: return hi;
	RVL_OPS(OP_MOST)
#undef OP_MOST
	default:
		return RVL_MAX_IN;
	}
}

/* Bit i: input i must be there. Zero points in the middle of com.microsoft's operators need not. */
static uint32_t required_inputs(enum rvl_op op)
{
	switch (op) {
	case RVL_OP_QLINEAR_ADD:
	case RVL_OP_QLINEAR_MUL:
		return 1u << 0 | 1u << 1 | 1u << 3 | 1u << 4 | 1u << 6;
	case RVL_OP_QGEMM:
		return 1u << 0 | 1u << 1 | 1u << 3 | 1u << 4;
	case RVL_OP_QLINEAR_GLOBAL_AVERAGE_POOL:
	case RVL_OP_QLINEAR_AVERAGE_POOL:
		return 1u << 0 | 1u << 1 | 1u << 3;
	default:
		return (1u << least_inputs(op)) - 1;
	}
}

static int check_arity(struct import *im)
{
	const struct rvl_onnx_node *on = im->on;
	uint32_t least = least_inputs(im->n->op);

	if (im->n->op == RVL_OP_UNSUPPORTED)
		return 0;
	if (on->n_in > most_inputs(im->n->op) || on->n_in < least)
		return rvl_fail(im->err, -EBADMSG, "node '%s' (%s) has %u inputs, not %u to %u",
				im->n->name, im->n->op_type, on->n_in, least,
				most_inputs(im->n->op));
	for (uint32_t i = 0; i < RVL_MAX_IN; i++)
		if ((required_inputs(im->n->op) & (1u << i)) &&
		    (i >= on->n_in || !on->in[i].len))
			return rvl_fail(im->err, -EBADMSG, "node '%s' (%s) lacks input %u",
					im->n->name, im->n->op_type, i);
	if (on->n_out > 1 && im->n->op == RVL_OP_BATCH_NORM)
		refuse(im, "training mode (more than one output) is not supported");
	else if (on->n_out > 1 && im->n->op != RVL_OP_MAX_POOL)
		return rvl_fail(im->err, -EBADMSG, "node '%s' (%s) has %u outputs, not 1",
				im->n->name, im->n->op_type, on->n_out);
	return 0;
}

/* A constant as the node's result; the node itself is dropped. */
static int constant_value(struct import *im, enum rvl_type type, const void *data, int64_t n,
			  bool scalar)
{
	struct rvl_shape shape = { .rank = scalar ? 0 : 1, .dim = { n } };
	struct rvl_tensor *out = im->n->out[0];
	struct rvl_tensor *c;
	int rc = rvl_tensor_const(im->g, NULL, type, &shape, data, &c, im->err);

	if (rc)
		return rc;
	rvl_node_remove(im->g, im->n);
	out->type = type;
	out->shape = shape;
	out->shaped = true;
	out->data = c->data;
	return 0;
}

static int constant_tensor(struct import *im, const struct rvl_onnx_attr *a)
{
	struct rvl_tensor *out = im->n->out[0];
	struct rvl_tensor *c;
	const char *fresh = rvl_graph_printf(im->g, "%.900s/value", out->name);
	int rc;

	if (!fresh)
		return rvl_fail(im->err, -ENOMEM, "no memory for a constant");
	rc = rvl_onnx_constant(im->g, im->m, &a->tensor,
			       rvl_tensor_find(im->g, fresh) ? NULL : fresh, &c, im->err);
	if (rc)
		return rc;
	rvl_node_remove(im->g, im->n);
	out->type = c->type;
	out->shape = c->shape;
	out->shaped = true;
	out->data = c->data;
	out->bad = c->bad;
	return 0;
}

static int import_constant(struct import *im)
{
	const struct rvl_onnx_attr *a = im->on->n_attr == 1 ? &im->on->attr[0] : NULL;

	if (im->n->op == RVL_OP_UNSUPPORTED)
		return 0;
	if (!a || a->too_long) {
		refuse(im, "a Constant needs exactly one value attribute");
		return 0;
	}
	if (rvl_span_is(a->name, "value") && a->has_tensor)
		return constant_tensor(im, a);
	if (rvl_span_is(a->name, "value_float"))
		return constant_value(im, RVL_TYPE_F32, &a->f, 1, true);
	if (rvl_span_is(a->name, "value_floats"))
		return constant_value(im, RVL_TYPE_F32, a->floats, a->n_floats, false);
	if (rvl_span_is(a->name, "value_int"))
		return constant_value(im, RVL_TYPE_S64, &a->i, 1, true);
	if (rvl_span_is(a->name, "value_ints"))
		return constant_value(im, RVL_TYPE_S64, a->ints, a->n_ints, false);
	return rvl_fail(im->err, -EBADMSG, "node '%s' (Constant) has no value", im->n->name);
}

/* QuantizeLinear's output type is that of its zero point: make one where the model gives none. */
static int add_zero_point(struct import *im)
{
	const struct rvl_onnx_attr *a = rvl_onnx_attr(im->on, "output_dtype");
	enum rvl_type type = a && a->i ? rvl_onnx_type(a->i) : RVL_TYPE_U8;
	struct rvl_shape scalar = { .rank = 0 };
	const uint8_t zero = 0;
	struct rvl_tensor *zp;
	int rc;

	if (im->n->op != RVL_OP_QUANTIZE)
		return 0;
	if (im->n->n_in > 2 && im->n->in[2]) {
		if (a && a->i && im->n->in[2]->type && im->n->in[2]->type != type)
			refuse(im, "output_dtype is %s, its zero point is %s", rvl_onnx_type_name(a->i),
			       rvl_type_name(im->n->in[2]->type));
		return 0;
	}
	if (type != RVL_TYPE_U8 && type != RVL_TYPE_S8) {
		refuse(im, "output type %s is not supported", rvl_onnx_type_name(a->i));
		return 0;
	}
	rc = rvl_tensor_const(im->g, NULL, type, &scalar, &zero, &zp, im->err);
	return rc ? rc : rvl_node_set_in(im->g, im->n, 2, zp, im->err);
}

static int set_op_type(struct import *im)
{
	const char *s;
	int rc = rvl_span_name(im->g, im->on->op_type, &s, im->err);

	if (rc)
		return rc;
	im->n->op_type = s;
	return 0;
}

static int new_node(struct import *im, enum rvl_op op)
{
	const char *prefix = im->m->scope ? im->m->scope->prefix : "";
	const char *name;
	int rc = rvl_span_name(im->g, im->on->name, &name, im->err);

	if (!rc)
		rc = rvl_node_new(im->g, op, NULL, &im->n, im->err);
	if (!rc)
		rc = set_op_type(im);
	if (rc)
		return rc;
	if (*name)
		im->n->name = rvl_graph_printf(im->g, "%s%.900s", prefix, name);
	else
		im->n->name = rvl_graph_printf(im->g, "%s%.900s_%u", prefix, im->n->op_type,
					       im->n->id);
	return im->n->name ? 0 : rvl_fail(im->err, -ENOMEM, "no memory for a node's name");
}

static void choose_op(struct import *im, const struct importer *imp, bool other_domain)
{
	bool ms = imp && !strcmp(imp->domain, MS);

	if (!imp && other_domain)
		refuse(im, "domain '%.*s' is not the one this operator is known in",
		       (int)(im->on->domain.len < 60 ? im->on->domain.len : 60),
		       (const char *)im->on->domain.p);
	else if (!imp)
		refuse(im, "operator %.60s is not in docs/operators.md", im->n->op_type);
	else if ((ms ? im->m->ms_opset : im->m->opset) < imp->since)
		refuse(im, "opset %lld of this operator is older than %d",
		       (long long)(ms ? im->m->ms_opset : im->m->opset), imp->since);
}

/* A model that breaks the definition of an operator is malformed. */
static int check_def_arity(struct import *im)
{
	const struct rvl_op_def *d = im->n->def;
	const struct rvl_onnx_node *on = im->on;
	bool variadic = d->most_in == RVL_ANY_NUMBER_IN;

	if (on->n_in < d->least_in || (on->n_in > d->most_in && !variadic))
		return rvl_fail(im->err, -EBADMSG, "node '%s' (%s) has %u inputs, not %u to %u",
				im->n->name, im->n->op_type, on->n_in, d->least_in, d->most_in);
	for (uint32_t i = 0; i < d->least_in; i++)
		if (!on->in[i].len)
			return rvl_fail(im->err, -EBADMSG, "node '%s' (%s) lacks input %u",
					im->n->name, im->n->op_type, i);
	return 0;
}

/* The operator's row in the table of descriptors, and its attributes there. */
static int find_def(struct import *im, const char **why)
{
	const char *domain;
	struct rvl_attr_value *values;
	int rc = rvl_span_name(im->g, im->on->domain, &domain, im->err);

	*why = NULL;
	if (rc)
		return rc;
	im->n->def = rvl_op_find(domain, im->n->op_type,
				 !strcmp(domain, MS) ? im->m->ms_opset : im->m->opset);
	if (!im->n->def || !strcmp(domain, "rivulet")) {
		im->n->def = NULL;
		return 0;
	}
	rc = check_def_arity(im);
	if (rc)
		return rc;
	rc = rvl_onnx_attr_values(im->g, im->m, im->on, im->n->def, &values, why);
	im->n->value = values;
	if (!rc && !*why && im->on->n_in > RVL_MAX_IN && !takes_parts(im->n->def))
		*why = rvl_graph_printf(im->g, "it has %u inputs, more than %d", im->on->n_in,
					RVL_MAX_IN);
	return rc;
}

/* A node that no kernel of its own takes is executed by the row of its descriptor. */
static void fall_back(struct import *im, const char *why, bool special)
{
	if (im->n->op != RVL_OP_UNSUPPORTED || !im->n->def)
		return;
	if (!why) {
		im->n->op = RVL_OP_GENERAL;
		im->n->reason = NULL;
	} else if (!special) {
		im->n->reason = why;
	}
	if (why)
		im->n->def = NULL;
}

static int import_special(struct import *im, const struct importer *imp, bool other_domain)
{
	int rc;

	choose_op(im, imp, other_domain);
	default_attrs(im);
	if (imp)
		read_attrs(im, imp);
	rc = check_arity(im);
	if (rc == -EBADMSG && im->n->def) {	/* the definition of another opset may take them */
		refuse(im, "it has %u inputs and %u outputs", im->on->n_in, im->on->n_out);
		rc = 0;
	}
	return rc;
}

/* If, Loop or Scan: connected, and UNSUPPORTED until shape inference expands it. */
static int import_control(struct import *im)
{
	int rc = new_node(im, RVL_OP_UNSUPPORTED);

	if (!rc)
		rc = connect_inputs(im);
	if (!rc)
		rc = connect_outputs(im);
	return rc ? rc : rvl_onnx_control(im->g, im->m, im->on, im->n, im->err);
}

/* A composition of other operators: its nodes, or the node with the reason why they cannot be. */
static int import_body(struct import *im)
{
	const char *why;
	int rc = rvl_onnx_body(im->g, im->m, im->on, &why, im->err);

	if (rc || !why)
		return rc;
	rc = new_node(im, RVL_OP_UNSUPPORTED);
	if (rc)
		return rc;
	im->n->reason = why;
	rc = connect_inputs(im);
	return rc ? rc : connect_outputs(im);
}

int rvl_onnx_import(struct rvl_graph *g, const struct rvl_onnx_model *m,
		    const struct rvl_onnx_node *on, struct rvl_err *err)
{
	struct import im = { .g = g, .m = m, .on = on, .err = err };
	bool other_domain;
	const struct importer *imp = find_importer(on, &other_domain);
	const struct rvl_onnx_function *fn = rvl_onnx_function(m, on);
	const char *why;
	int rc;

	if (fn)
		return rvl_onnx_call(g, m, on, fn, err);
	if (rvl_onnx_is_control(on))
		return import_control(&im);
	if (rvl_onnx_has_body(on))
		return import_body(&im);
	rc = new_node(&im, imp ? imp->op : RVL_OP_IDENTITY);
	if (!rc)
		rc = find_def(&im, &why);
	if (!rc)
		rc = import_special(&im, imp, other_domain);
	if (rc)
		return rc;
	fall_back(&im, why, imp != NULL);
	rc = connect_inputs(&im);
	if (!rc)
		rc = connect_outputs(&im);
	if (!rc && imp && imp->op == RVL_OP_CONSTANT)
		return import_constant(&im);
	return rc ? rc : add_zero_point(&im);
}
