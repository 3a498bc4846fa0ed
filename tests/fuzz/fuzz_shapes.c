/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes calls of an operator: the input selects the row of the table, operands with type, shape
 * and data, and attributes. The shape rule runs and, if it accepts a small call, the computation on
 * operands of exact size.
 */
#include <errno.h>

#include "chance.h"
#include "fuzz.h"
#include "rivulet_kernels.h"

#define ELEMENTS 4096	/* limit for an operand */
#define LIST 12
#define OPERANDS 8	/* most inputs or outputs, if the row allows that many */

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

/* The @k-th type of a set. */
static enum rvl_type type_of(uint32_t set, uint8_t k)
{
	uint32_t n = (uint32_t)__builtin_popcount(set);

	for (k = n ? k % n : 0; k && set; k--)
		set &= set - 1;
	return set ? (enum rvl_type)__builtin_ctz(set) : RVL_TYPE_NONE;
}

/* What an operand is like. The other bits of the byte are its rank. */
enum how {
	ANY_TYPE = 1 << 4,	/* also a type that the row does not take */
	AS_FIRST = 1 << 5,	/* type and shape of operand 0 */
	BYTES = 1 << 6,		/* elements are bytes of the input, else small numbers */
	WIDE = 1 << 7,		/* dimensions of up to 8, else of up to 3 */
};

/*
 * Elements between -4 and 11, or in a third of the operands 0 and 1, which are indices, axes and
 * steps that a row accepts.
 */
static void small_numbers(enum rvl_type t, void *data, int64_t n, uint8_t seed)
{
	uint64_t state = seed + 1;

	for (int64_t i = 0; i < n; i++) {
		int64_t v = (int64_t)(splitmix(&state) % 16) - 4;

		v = seed % 3 ? v : v & 1;
		if (t == RVL_TYPE_F32)
			((float *)data)[i] = (float)v / (seed & 4 ? 1 : 3);
		else
			memcpy((uint8_t *)data + (size_t)i * rvl_type_size(t), &v, rvl_type_size(t));
		if (t == RVL_TYPE_BOOL)
			((uint8_t *)data)[i] &= 1;
	}
}

static void take_shape(struct fuzz_bytes *b, uint8_t how, struct rvl_shape *s)
{
	s->rank = how % 16 % (RVL_MAX_RANK + 1);
	for (int d = 0; d < s->rank; d++)
		s->dim[d] = fuzz_u8(b) % (how & WIDE ? 9 : 4);
	if (rvl_shape_count(s) > ELEMENTS)
		s->rank = 1;
}

static void take_operand(struct fuzz_bytes *b, struct rvl_kernel_desc *d, uint32_t i)
{
	struct rvl_kernel_arg *arg = &d->in[i];
	uint32_t set = d->def->types[i < 4 ? i : 3];
	uint8_t how = fuzz_u8(b), k = fuzz_u8(b);
	size_t bytes;
	void *data;

	arg->type = how & ANY_TYPE ? k % RVL_TYPE_COUNT : type_of(set ? set : d->def->types[0], k);
	if (d->def->same == RVL_SAME_ALL || d->def->same >> i & 1)
		arg->type = how & ANY_TYPE ? arg->type : d->in[0].type;
	if (i && how & AS_FIRST)
		arg->shape = d->in[0].shape;
	else
		take_shape(b, how, &arg->shape);
	bytes = (size_t)rvl_shape_count(&arg->shape) * rvl_type_size(arg->type);
	data = malloc(bytes ? bytes : 1);
	if (how & BYTES)
		fuzz_take(b, data, bytes);
	else
		small_numbers(arg->type, data, rvl_shape_count(&arg->shape), fuzz_u8(b));
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

/* A number that the row takes, or any. */
static uint32_t number_of(struct fuzz_bytes *b, uint32_t least, uint32_t most, bool any)
{
	uint32_t n = fuzz_u8(b);

	most = most < OPERANDS ? most : OPERANDS;
	most = most < least ? least : most;
	return any ? n % (OPERANDS + 1) : least + n % (most - least + 1);
}

FUZZ_TARGET(shapes)
{
	struct fuzz_bytes b = { data, size };
	struct fuzz_cost cost = fuzz_begin();
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
	d.n_in = number_of(&b, d.def->least_in, d.def->most_in, flags & 2);
	d.n_out = number_of(&b, 1, d.def->most_out, flags & 4);
	for (uint32_t i = 0; i < rvl_op_attrs(d.def); i++)
		take_attr(&b, &d.def->attrs[i], &a, (int)i);
	memcpy(d.value, a.value, sizeof(d.value));
	for (uint32_t i = 0; i < d.n_in; i++)
		take_operand(&b, &d, i);
	try_call(&d, flags & 1);
	for (uint32_t i = 0; i < d.n_in; i++)
		free((void *)d.in[i].data);
	fuzz_end(&cost, 64ull << 20);
	return 0;
}
