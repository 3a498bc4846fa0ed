/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes calls of an operator: the input selects the row of the table, operands with type, shape
 * and data, and attributes. The shape rule runs and, if it accepts a small call, the computation on
 * operands of exact size.
 */
#include <errno.h>

#include "fuzz.h"
#include "rivulet_kernels.h"

#define ELEMENTS 4096	/* limit for an operand */
#define LIST 12

struct attributes {
	struct rvl_attr_value value[RVL_MAX_ATTRS];
	int64_t ints[RVL_MAX_ATTRS][LIST];
	float floats[RVL_MAX_ATTRS][LIST];
	char strings[RVL_MAX_ATTRS][64];
};

/*
 * Sets a string attribute to one of the words that the definition allows, or to bytes of the input.
 */
static void take_string(struct fuzz_bytes *b, const struct rvl_attr_def *def, char *to)
{
	const char *at = def->choices ? def->choices : def->s ? def->s : "";
	size_t n;

	for (uint8_t skip = fuzz_u8(b) % 8; skip && strchr(at, '|'); skip--)
		at = strchr(at, '|') + 1;
	n = strcspn(at, "|");
	memset(to, 0, 64);
	memcpy(to, at, n < 63 ? n : 63);
	if (!n)
		fuzz_take(b, to, fuzz_u8(b) % 32);
}

static int64_t take_int(struct fuzz_bytes *b)
{
	uint8_t how = fuzz_u8(b);
	int64_t v;

	if (how < 240)
		return how - 16;
	fuzz_take(b, &v, sizeof(v));
	return v;
}

static void take_attr(struct fuzz_bytes *b, const struct rvl_attr_def *def, struct attributes *a, int i)
{
	struct rvl_attr_value *v = &a->value[i];

	v->given = fuzz_u8(b) & 1 || def->required;
	if (!v->given)
		return;
	v->n = fuzz_u8(b) % (LIST + 1);
	v->i = take_int(b);
	fuzz_take(b, &v->f, sizeof(v->f));
	for (int k = 0; k < LIST; k++) {
		a->ints[i][k] = take_int(b);
		a->floats[i][k] = (float)a->ints[i][k] / 4;
	}
	switch (def->kind) {
	case RVL_ATTR_STRING:
		take_string(b, def, a->strings[i]);
		v->n = (uint32_t)strlen(a->strings[i]);
		v->data = a->strings[i];
		break;
	case RVL_ATTR_STRINGS:
		v->n = v->n % 3;
		memcpy(a->strings[i], "forward\0reverse\0", 16);
		v->data = a->strings[i];
		break;
	case RVL_ATTR_FLOATS:
		v->data = a->floats[i];
		break;
	case RVL_ATTR_TENSOR:
		v->type = v->i & 1 ? RVL_TYPE_F32 : RVL_TYPE_S64;
		v->data = v->i & 1 ? (void *)a->floats[i] : (void *)a->ints[i];
		break;
	default:
		v->data = a->ints[i];
	}
}

static void take_operand(struct fuzz_bytes *b, struct rvl_kernel_arg *arg)
{
	uint8_t how = fuzz_u8(b);
	int64_t count;
	size_t bytes;
	void *data;

	arg->type = fuzz_u8(b) % RVL_TYPE_COUNT;
	arg->shape.rank = how % (RVL_MAX_RANK + 1);
	for (int d = 0; d < arg->shape.rank; d++)
		arg->shape.dim[d] = fuzz_u8(b) % 9;
	count = rvl_shape_count(&arg->shape);
	if (count > ELEMENTS)
		arg->shape.rank = 1;
	bytes = (size_t)rvl_shape_count(&arg->shape) * rvl_type_size(arg->type);
	data = malloc(bytes ? bytes : 1);
	fuzz_take(b, data, bytes);
	arg->data = data;
}

/*
 * Whether the shapes that a rule accepted are within the limits, and the types are those of the
 * table.
 */
static bool outputs_are_sound(const struct rvl_call *c)
{
	for (uint32_t i = 0; i < c->n_out; i++) {
		const struct rvl_value *v = &c->out[i];

		if (v->type >= RVL_TYPE_COUNT || v->shape.rank < 0 || v->shape.rank > RVL_MAX_RANK)
			return false;
		for (int d = 0; d < v->shape.rank; d++)
			if (v->shape.dim[d] < 0)
				return false;
	}
	return true;
}

static bool infer(const struct rvl_kernel_desc *d, bool constants, struct rvl_call *c)
{
	memset(c, 0, sizeof(*c));
	c->def = d->def;
	c->attr = d->value;
	c->n_in = d->n_in;
	c->n_out = d->n_out;
	for (uint32_t i = 0; i < d->n_in; i++) {
		c->in[i].type = d->in[i].type;
		c->in[i].shape = d->in[i].shape;
		c->in[i].data = constants ? (void *)d->in[i].data : NULL;
	}
	if (rvl_op_infer(c)) {
		fuzz_expect(c->why[0]);
		return false;
	}
	fuzz_expect(outputs_are_sound(c));
	return true;
}

static void compute(struct rvl_kernel *k, const struct rvl_call *c)
{
	struct rvl_value in[RVL_MAX_IN], out[RVL_MAX_OUT];
	char why[RVL_WHY_MAX] = "";
	size_t need = rvl_kernel_scratch(k);
	void *scratch = need < 1 << 22 ? aligned_alloc(64, need / 64 * 64 + 64) : NULL;
	bool small = scratch;

	memcpy(in, c->in, sizeof(in));
	memcpy(out, c->out, sizeof(out));
	for (uint32_t i = 0; i < c->n_out; i++)
		small = small && rvl_count(&out[i]) <= 1 << 16;
	for (uint32_t i = 0; i < c->n_out && small; i++)
		if (out[i].type)
			out[i].data = malloc((size_t)rvl_count(&out[i]) * rvl_type_size(out[i].type) + 1);
	if (small && rvl_kernel_run_values(k, in, out, scratch, NULL, why) == -EINVAL)
		fuzz_expect(why[0]);
	for (uint32_t i = 0; i < c->n_out && small; i++)
		free(out[i].data);
	free(scratch);
}

static void try_call(struct rvl_kernel_desc *d, bool constants)
{
	struct rvl_call shapes, known;
	struct rvl_kernel *k;
	char why[RVL_WHY_MAX] = "";

	if (!infer(d, constants, &shapes))
		return;
	for (uint32_t i = 0; i < d->n_out; i++) {
		d->out[i].type = shapes.out[i].type;
		d->out[i].shape = shapes.out[i].shape;
	}
	known = shapes;
	for (uint32_t i = 0; i < d->n_in; i++) {
		known.in[i].data = (void *)d->in[i].data;
		if (!constants)
			d->in[i].data = NULL;
	}
	if (rvl_kernel_new(d, false, &k, why)) {
		for (uint32_t i = 0; i < d->n_in; i++)
			d->in[i].data = known.in[i].data;
		return;
	}
	compute(k, &known);
	rvl_kernel_free(k);
	for (uint32_t i = 0; i < d->n_in; i++)
		d->in[i].data = known.in[i].data;
}

FUZZ_TARGET(shapes)
{
	struct fuzz_bytes b = { data, size };
	static struct attributes a;
	static struct rvl_kernel_desc d;
	uint32_t rows = 0;
	uint16_t row;
	uint8_t flags;

	while (rvl_op_at(rows))
		rows++;
	memset(&a, 0, sizeof(a));
	memset(&d, 0, sizeof(d));
	fuzz_take(&b, &row, sizeof(row));
	flags = fuzz_u8(&b);
	d.op = RVL_OP_GENERAL;
	d.def = rvl_op_at(row % rows);
	d.n_in = fuzz_u8(&b) % 8;
	d.n_out = fuzz_u8(&b) % 4;
	for (uint32_t i = 0; i < rvl_op_attrs(d.def); i++)
		take_attr(&b, &d.def->attrs[i], &a, (int)i);
	memcpy(d.value, a.value, sizeof(d.value));
	for (uint32_t i = 0; i < d.n_in; i++)
		take_operand(&b, &d.in[i]);
	try_call(&d, flags & 1);
	for (uint32_t i = 0; i < d.n_in; i++)
		free((void *)d.in[i].data);
	return 0;
}
