/* SPDX-License-Identifier: MIT */
/*
 * From NodeProto to node. The operator's row in the table of descriptors says what operands and
 * attributes it has. Where a kernel of its own takes the node, struct rvl_attr holds the attributes,
 * too. A node of no row is UNSUPPORTED.
 */
#include "onnx/attr_fields.h"
#include "onnx/model.h"
#include "onnx/onnx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MS "com.microsoft"

/* What one import needs everywhere. */
struct import {
	struct rvl_graph *g;
	const struct rvl_onnx_model *m;
	const struct rvl_onnx_node *on;
	struct rvl_node *n;
	struct rvl_err *err;
};

static struct rvl_span domain_of(const struct rvl_onnx_node *on)
{
	struct rvl_span domain = on->domain;

	if (rvl_span_is(domain, "ai.onnx"))
		domain.len = 0;
	return domain;
}

static int64_t opset_of(const struct import *im)
{
	return rvl_span_is(im->on->domain, MS) ? im->m->ms_opset : im->m->opset;
}

/* Refuses the node with a reason (the first one stays). Always returns 0: the load goes on. */
#define refuse(im, ...) do { \
	if ((im)->n->op != RVL_OP_UNSUPPORTED) { \
		(im)->n->op = RVL_OP_UNSUPPORTED; \
		(im)->n->reason = rvl_graph_printf((im)->g, __VA_ARGS__); \
	} \
} while (0)

static void set_ints(struct import *im, const struct rvl_attr_field *f,
		     const struct rvl_attr_value *v, uint32_t n, int64_t lo)
{
	const int64_t *list = v->data;
	int32_t *dst = rvl_attr_at(&im->n->attr, f);

	if (v->n != n) {
		refuse(im, "attribute %s has %u values: only 2-D windows are supported", f->name, v->n);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (list[i] < lo || list[i] > 65535) {
			refuse(im, "attribute %s has the value %lld, not one of %lld to 65535",
			       f->name, (long long)list[i], (long long)lo);
			return;
		}
		dst[i] = (int32_t)list[i];
	}
}

static void set_int(struct import *im, const struct rvl_attr_field *f, int64_t v)
{
	if (v < INT32_MIN || v > INT32_MAX)
		refuse(im, "attribute %s = %lld is not supported", f->name, (long long)v);
	else
		*(int32_t *)rvl_attr_at(&im->n->attr, f) = (int32_t)v;
}

static void set_perm(struct import *im, const struct rvl_attr_field *f,
		     const struct rvl_attr_value *v)
{
	const int64_t *list = v->data;
	uint32_t seen = 0;

	if (v->n > RVL_MAX_RANK) {
		refuse(im, "attribute perm has %u axes, more than %d", v->n, RVL_MAX_RANK);
		return;
	}
	for (uint32_t i = 0; i < v->n; i++) {
		if (list[i] < 0 || list[i] >= v->n || (seen & (1u << list[i]))) {
			refuse(im, "attribute %s is not a permutation", f->name);
			return;
		}
		seen |= 1u << list[i];
		im->n->attr.perm[i] = (int32_t)list[i];
	}
	im->n->attr.perm_rank = (int32_t)v->n;
}

static void set_auto_pad(struct import *im, const char *text)
{
	static const char * const names[] = {
		[RVL_PAD_EXPLICIT] = "NOTSET", [RVL_PAD_SAME_UPPER] = "SAME_UPPER",
		[RVL_PAD_SAME_LOWER] = "SAME_LOWER", [RVL_PAD_VALID] = "VALID",
	};

	for (int i = 0; i < 4; i++) {
		if (!strcmp(text, names[i])) {
			im->n->attr.auto_pad = i;
			return;
		}
	}
	refuse(im, "attribute auto_pad '%.40s' is unknown", text);
}

/* An attribute that the model gives. */
static void set_attr(struct import *im, const struct rvl_attr_field *f,
		     const struct rvl_attr_value *v)
{
	switch (f->kind) {
	case RVL_FIELD_INT:
		set_int(im, f, v->i);
		break;
	case RVL_FIELD_FLOAT:
		*(float *)rvl_attr_at(&im->n->attr, f) = v->f;
		break;
	case RVL_FIELD_PAIR:
		set_ints(im, f, v, 2, 1);
		break;
	case RVL_FIELD_PADS:
		set_ints(im, f, v, 4, 0);
		break;
	case RVL_FIELD_PERM:
		set_perm(im, f, v);
		break;
	case RVL_FIELD_AUTO_PAD:
		set_auto_pad(im, v->data);
		break;
	case RVL_FIELD_NONE:
		break;
	}
}

/* The default of an attribute that the model does not give. Lists without elements are neutral. */
static void set_default(struct import *im, const struct rvl_attr_field *f,
			const struct rvl_attr_def *d)
{
	if (f->kind == RVL_FIELD_INT)
		set_int(im, f, d->i);
	else if (f->kind == RVL_FIELD_FLOAT)
		*(float *)rvl_attr_at(&im->n->attr, f) = d->f;
	else if (f->kind == RVL_FIELD_PAIR && !strcmp(f->name, "kernel_shape"))
		im->n->attr.kernel[0] = im->n->attr.kernel[1] = 0;	/* from the weights, in shape inference */
}

/* Fills struct rvl_attr from the attributes that the operator's row defines. */
static void take_attrs(struct import *im)
{
	const struct rvl_op_def *def = im->n->def;

	im->n->attr.flat_softmax = (def->flags & RVL_OP_FLAT_AXES) != 0;
	for (uint32_t i = 0; i < rvl_op_attrs(def); i++) {
		const struct rvl_attr_def *d = &def->attrs[i];
		const struct rvl_attr_value *v = &im->n->value[i];
		const struct rvl_attr_field *f = rvl_attr_field(d->name);

		if (v->given && d->kind == RVL_ATTR_INT && d->choices && (v->i < 0 || v->i > 1))
			refuse(im, "attribute %s = %lld is not supported", d->name, (long long)v->i);
		else if (f && v->given)
			set_attr(im, f, v);
		else if (f)
			set_default(im, f, d);
		else if (v->given && d->kind == RVL_ATTR_INT && v->i != d->i)
			refuse(im, "attribute %s = %lld is not supported", d->name, (long long)v->i);
		else if (v->given && d->kind != RVL_ATTR_INT)
			refuse(im, "attribute %s is not supported", d->name);
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

/* Results that the kernels of their own do not compute. */
static void check_outputs(struct import *im)
{
	if (im->on->n_out <= 1)
		return;
	if (im->n->op == RVL_OP_BATCH_NORM)
		refuse(im, "training mode (more than one output) is not supported");
	else if (im->n->op != RVL_OP_MAX_POOL)
		refuse(im, "it has %u inputs and %u outputs", im->on->n_in, im->on->n_out);
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
	out->nibbles = c->nibbles;
	return 0;
}

enum { FORM_TENSOR, FORM_FLOAT, FORM_FLOATS, FORM_INT, FORM_INTS, FORMS };

static const char *const forms[FORMS] = {
	[FORM_TENSOR] = "value", [FORM_FLOAT] = "value_float", [FORM_FLOATS] = "value_floats",
	[FORM_INT] = "value_int", [FORM_INTS] = "value_ints",
};

const char *rvl_onnx_constant_attr(size_t i)
{
	return i < FORMS ? forms[i] : NULL;
}

static int import_constant(struct import *im)
{
	const struct rvl_onnx_attr *a = im->on->n_attr == 1 ? &im->on->attr[0] : NULL;
	size_t form = 0;

	if (!a || a->too_long) {
		refuse(im, "a Constant needs exactly one value attribute");
		return 0;
	}
	while (form < FORMS && !rvl_span_is(a->name, forms[form]))
		form++;
	switch (form) {
	case FORM_TENSOR:
		if (a->has_tensor)
			return constant_tensor(im, a);
		break;
	case FORM_FLOAT:
		return constant_value(im, RVL_TYPE_F32, &a->f, 1, true);
	case FORM_FLOATS:
		return constant_value(im, RVL_TYPE_F32, a->floats, a->n_floats, false);
	case FORM_INT:
		return constant_value(im, RVL_TYPE_S64, &a->i, 1, true);
	case FORM_INTS:
		return constant_value(im, RVL_TYPE_S64, a->ints, a->n_ints, false);
	default:
		refuse(im, "attribute '%.*s' is not supported",
		       (int)(a->name.len < 60 ? a->name.len : 60), (const char *)a->name.p);
		return 0;
	}
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

/* Why there is no row for the node: another domain, an older opset, or an unknown operator. */
static void refuse_unknown(struct import *im)
{
	const struct rvl_op_def *d, *oldest = NULL;
	bool other_domain = false;

	for (uint32_t i = 0; (d = rvl_op_at(i)); i++) {
		if (strcmp(d->name, im->n->op_type) || (d->domain && !strcmp(d->domain, "rivulet")))
			continue;
		if (!rvl_span_is(domain_of(im->on), d->domain ? d->domain : ""))
			other_domain = true;
		else if (!oldest || d->since < oldest->since)
			oldest = d;
	}
	if (rvl_span_is(im->on->domain, MS ".nchwc"))
		refuse(im, "its layout is of one processor: optimise the model to ORT_ENABLE_EXTENDED");
	else if (oldest && opset_of(im) < oldest->since)
		refuse(im, "opset %lld of this operator is older than %d", (long long)opset_of(im),
		       oldest->since);
	else if (!oldest && other_domain)
		refuse(im, "domain '%.*s' is not the one this operator is known in",
		       (int)(im->on->domain.len < 60 ? im->on->domain.len : 60),
		       (const char *)im->on->domain.p);
	else
		refuse(im, "operator %.60s is not in docs/operators.md", im->n->op_type);
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
		if (!on->in[i].len && !rvl_op_may_lack(d, i))
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
	im->n->def = rvl_op_find(domain, im->n->op_type, opset_of(im));
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

/*
 * The operator that executes the node: a kernel of its own, else the row of the table. @why says
 * what is wrong with its attributes, or is NULL.
 */
static void choose_op(struct import *im, const char *why)
{
	const struct rvl_op_def *d = im->n->def;

	if (!d) {
		refuse_unknown(im);
		return;
	}
	if (why) {
		refuse(im, "%s", why);
		im->n->def = NULL;
		return;
	}
	im->n->op = d->kernel;
	if (d->kernel) {
		take_attrs(im);
		check_outputs(im);
	}
	if (im->n->op == RVL_OP_UNSUPPORTED) {
		im->n->op = RVL_OP_GENERAL;
		im->n->reason = NULL;
	}
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

/* Becomes an initializer: no node stays. */
static int import_constant_node(struct import *im)
{
	int rc = new_node(im, RVL_OP_CONSTANT);

	if (!rc)
		rc = connect_outputs(im);
	return rc ? rc : import_constant(im);
}

int rvl_onnx_import(struct rvl_graph *g, const struct rvl_onnx_model *m,
		    const struct rvl_onnx_node *on, struct rvl_err *err)
{
	struct import im = { .g = g, .m = m, .on = on, .err = err };
	const struct rvl_onnx_function *fn = rvl_onnx_function(m, on);
	const char *why;
	int rc;

	if (fn)
		return rvl_onnx_call(g, m, on, fn, err);
	if (rvl_onnx_is_control(on))
		return import_control(&im);
	if (rvl_onnx_has_body(on))
		return import_body(&im);
	if (rvl_span_is(on->op_type, "Constant") && rvl_span_is(domain_of(on), ""))
		return import_constant_node(&im);
	rc = new_node(&im, RVL_OP_IDENTITY);
	if (!rc)
		rc = find_def(&im, &why);
	if (rc)
		return rc;
	choose_op(&im, why);
	rc = connect_inputs(&im);
	if (!rc)
		rc = connect_outputs(&im);
	return rc ? rc : add_zero_point(&im);
}
