/* SPDX-License-Identifier: MIT */
/* Changes of a program file that keep the parameters of a step and its tensors equal. */
#include "fuzz/change.h"

#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "rivulet_crc32c.h"
#include "rivulet_kernels.h"
#include "rivulet_program.h"

#define MOST_ARGS (RVL_MAX_IN + RVL_MAX_OUT)
#define MOST_ARENA (1u << 20)	/* to which a change makes the arena larger */

struct operand {
	struct rvl_kernel_arg *arg;
	struct rivulet_tensor *tensor;
	uint32_t *number;	/* of the tensor, in the step */
};

/* A step whose parameters are unpacked. */
struct change {
	struct rivulet_program *p;
	struct rivulet_tensor *tensors;
	struct rivulet_step *step;
	struct rvl_kernel_desc d;
	struct operand operand[MOST_ARGS];	/* those that are present */
	uint32_t operands;
	uint64_t *seed;
};

static uint32_t below(struct change *c, uint32_t n)
{
	return (uint32_t)(splitmix(c->seed) % n);
}

void fuzz_set_checksum(uint8_t *file, size_t size)
{
	struct rivulet_program h;

	memcpy(&h, file, sizeof(h));
	h.crc = 0;
	memcpy(file, &h, sizeof(h));
	h.crc = rivulet_crc32c(0, file, size);
	memcpy(file, &h, sizeof(h));
}

static uint8_t *params_of(const struct change *c)
{
	return (uint8_t *)c->p + c->p->params_off + c->step->params;
}

static void add_operands(struct change *c, struct rvl_kernel_arg *arg, uint32_t n, uint32_t *number,
			 uint32_t count)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < n && used < count; i++)
		if (arg[i].type != RVL_TYPE_NONE) {
			c->operand[c->operands++] = (struct operand){ &arg[i], &c->tensors[number[used]],
								      &number[used] };
			used++;
		}
}

static bool open_step(struct change *c, uint32_t i)
{
	c->step = (struct rivulet_step *)rivulet_program_steps(c->p) + i;
	c->operands = 0;
	if (c->step->kind != RIVULET_STEP_CPU ||
	    rvl_desc_unpack(params_of(c), c->step->params_size, &c->d))
		return false;
	add_operands(c, c->d.in, c->d.n_in, c->step->read, c->step->nread);
	add_operands(c, c->d.out, c->d.n_out, c->step->write, c->step->nwrite);
	return c->operands;
}

/* ---- numbers ---- */

static uint32_t dimension(struct change *c, uint32_t old)
{
	static const uint32_t edge[] = { 0, 1, 255, 256, 65535, 65536, 1u << 20, 1u << 28, 1u << 30,
					 0x7fffffff, 0xffffffff };

	switch (below(c, 16)) {
	case 0:
		return edge[below(c, sizeof(edge) / sizeof(*edge))];
	case 1:
	case 2:
		return old / 2;
	case 3 ... 6:
		return old + 1;
	case 7 ... 9:
		return old ? old - 1 : 1;
	default:
		return below(c, 20);
	}
}

static uint32_t scale_bits(struct change *c)
{
	static const uint32_t edge[] = { 0, 1, 0x00800000, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0xff800000,
					 0x80000000, 0xbf800000, 0x3f800000, 0x33800000, 0x4b000000 };

	if (below(c, 3))
		return 0x34000000 + below(c, 0x0d000000);	/* 2^-23 to 8 */
	return edge[below(c, sizeof(edge) / sizeof(*edge))];
}

static int32_t zero_point(struct change *c)
{
	static const int32_t edge[] = { 0, 1, -1, 127, 128, -128, -129, 255, 256, INT32_MIN, INT32_MAX };

	return edge[below(c, sizeof(edge) / sizeof(*edge))];
}

/* ---- a tensor that follows its operand ---- */

/* Bytes from the lowest to the highest byte of any element. */
static uint64_t span(const struct rivulet_tensor *t, uint64_t element)
{
	uint64_t size = element;

	for (uint32_t d = 0; d < t->ndim; d++) {
		uint64_t pitch = t->pitch[d] < 0 ? 0 - (uint64_t)t->pitch[d] : (uint64_t)t->pitch[d];

		if (!t->dim[d])
			return 0;
		size += (t->dim[d] - 1) * pitch;
	}
	return size;
}

static void follow(const struct operand *o)
{
	struct rivulet_tensor *t = o->tensor;
	uint64_t element = rvl_type_size(o->arg->type);

	if (rvl_shape_count(&o->arg->shape) < 0)
		return;
	t->dtype = o->arg->type;
	t->layout = o->arg->layout;
	t->ndim = (uint32_t)o->arg->shape.rank;
	for (uint32_t d = 0; d < RIVULET_MAX_DIMS; d++) {
		t->dim[d] = d < t->ndim ? (uint64_t)o->arg->shape.dim[d] : 0;
		t->pitch[d] = d < t->ndim && t->dim[d] != 1 ? t->pitch[d] : 0;
	}
	t->size = t->flags & RIVULET_TENSOR_PITCHED ? span(t, element) :
		(uint64_t)rvl_shape_count(&o->arg->shape) * element;
}

/* Makes room for a tensor that became larger, where there is any. */
static void find_room(struct change *c, struct rivulet_tensor *t)
{
	uint64_t end = c->p->const_off + c->p->const_size;

	if (t->place == RIVULET_PLACE_ARENA && t->offset < MOST_ARENA && t->size <= MOST_ARENA - t->offset)
		c->p->arena_size = t->offset + t->size > c->p->arena_size ? MOST_ARENA : c->p->arena_size;
	if (t->place == RIVULET_PLACE_CONST && t->size <= c->p->const_size && t->offset > end - t->size)
		t->offset = (end - t->size) / RIVULET_PROGRAM_ALIGN * RIVULET_PROGRAM_ALIGN;
}

/* The operand of another step takes what its tensor is. */
static void lead(const struct operand *o)
{
	const struct rivulet_tensor *t = o->tensor;

	if (t->dtype >= RVL_TYPE_COUNT || t->ndim > RVL_MAX_RANK)
		return;
	o->arg->type = (enum rvl_type)t->dtype;
	o->arg->layout = (enum rivulet_layout)t->layout;
	o->arg->shape.rank = (int)t->ndim;
	for (uint32_t d = 0; d < t->ndim; d++)
		o->arg->shape.dim[d] = (int64_t)t->dim[d];
}

/* ---- changes ---- */

/* All dimensions of one size, of all tensors. */
static void change_size(struct change *c, struct operand *o)
{
	struct rvl_shape *s = &o->arg->shape;
	uint64_t old, fresh;

	if (!s->rank)
		return;
	old = (uint64_t)s->dim[below(c, (uint32_t)s->rank)];
	fresh = dimension(c, (uint32_t)old);
	for (uint32_t i = 0; i < c->p->tensors; i++) {
		struct rvl_kernel_arg arg = { .type = RVL_TYPE_NONE };
		struct operand any = { .arg = &arg, .tensor = &c->tensors[i] };

		lead(&any);
		for (int d = 0; d < arg.shape.rank; d++)
			if ((uint64_t)arg.shape.dim[d] == old)
				arg.shape.dim[d] = (int64_t)fresh;
		follow(&any);
	}
	for (uint32_t i = 0; i < c->operands; i++)
		lead(&c->operand[i]);
}

/* One dimension, of all operands that have one of this size or of one operand. */
static void change_dimension(struct change *c, struct operand *o)
{
	struct rvl_shape *s = &o->arg->shape;
	bool all = below(c, 4);
	int64_t old, fresh;
	int at;

	if (!s->rank)
		return;
	at = (int)below(c, (uint32_t)s->rank);
	old = s->dim[at];
	fresh = dimension(c, (uint32_t)old);
	for (uint32_t i = 0; all && i < c->operands; i++)
		for (int d = 0; d < c->operand[i].arg->shape.rank; d++)
			if (c->operand[i].arg->shape.dim[d] == old)
				c->operand[i].arg->shape.dim[d] = fresh;
	s->dim[at] = fresh;
}

static void change_rank(struct change *c, struct operand *o)
{
	struct rvl_shape *s = &o->arg->shape;

	s->rank = (int)below(c, RVL_MAX_RANK + 1);
	for (int d = 0; d < s->rank; d++)
		s->dim[d] = s->dim[d] ? s->dim[d] : 1;
}

static void change_type(struct change *c, struct operand *o)
{
	o->arg->type = (enum rvl_type)(1 + below(c, RVL_TYPE_COUNT - 1));
	o->arg->layout = below(c, 4) ? o->arg->layout : (enum rivulet_layout)below(c, RIVULET_LAYOUT_END);
}

/* The arrays are part of the parameters. */
static void change_quant(struct change *c, struct operand *o)
{
	const struct rvl_kernel_quant *q = &o->arg->quant;
	uint32_t bits = scale_bits(c);
	int32_t zp = zero_point(c);

	if (!q->n)
		return;
	for (uint32_t i = below(c, 2) ? 0 : below(c, q->n); i < q->n; i++) {
		if (below(c, 4))
			memcpy((float *)(uintptr_t)q->scale + i, &bits, sizeof(bits));
		if (!below(c, 3))
			((int32_t *)(uintptr_t)q->zp)[i] = zp;
	}
	memcpy(&o->tensor->scale, q->scale, sizeof(float));
	o->tensor->zero_point = q->zp[0];
}

static void change_pitches(struct change *c, struct operand *o)
{
	int64_t element = (int64_t)rvl_type_size(o->arg->type), pitch = element;

	if (o->tensor->place != RIVULET_PLACE_ARENA && below(c, 8))
		return;
	o->tensor->flags |= RIVULET_TENSOR_PITCHED;
	memset(o->tensor->pitch, 0, sizeof(o->tensor->pitch));
	for (int d = o->arg->shape.rank - 1; d >= 0; d--) {
		int64_t n = o->arg->shape.dim[d];

		o->tensor->pitch[d] = n > 1 ? (below(c, 5) ? pitch : -pitch) : 0;
		if (!below(c, 6))
			o->tensor->pitch[d] = element * ((int64_t)below(c, 64) - 16);
		pitch = n > 0 && n < 65536 && pitch < 1 << 24 ? pitch * n : pitch;
		pitch += below(c, 3) ? 0 : element * below(c, 5);
	}
}

/* Another tensor of the program, with its type and shape. */
static void change_tensor(struct change *c, struct operand *o)
{
	uint32_t n = below(c, c->p->tensors);

	*o->number = n;
	o->tensor = &c->tensors[n];
	lead(o);
}

/* Numbers in the data of a constant, such as axes, shapes, scales and bounds. */
static void change_constant(struct change *c, struct operand *o)
{
	uint32_t width = (uint32_t)rvl_type_size(o->arg->type), n;
	const struct rivulet_tensor *t = o->tensor;
	int64_t value = (int64_t)dimension(c, 3) - (below(c, 3) ? 0 : 8);
	uint32_t bits = scale_bits(c);

	if (t->place != RIVULET_PLACE_CONST || t->size < width || !width ||
	    t->offset > c->p->size || t->size > c->p->size - t->offset)
		return;
	n = below(c, (uint32_t)(t->size / width));
	if (o->arg->type == RVL_TYPE_F32)
		memcpy((uint8_t *)c->p + t->offset + n * width, &bits, sizeof(bits));
	else
		memcpy((uint8_t *)c->p + t->offset + n * width, &value, width);
}

/* Attributes of the operators with an enum of their own, then those of the table. */
static void change_attribute(struct change *c, struct operand *o)
{
	uint32_t words = sizeof(c->d.attr) / sizeof(uint32_t), at = below(c, words);
	uint32_t word = below(c, 4) ? dimension(c, 2) : scale_bits(c);
	struct rvl_attr_value *v = &c->d.value[below(c, RVL_MAX_ATTRS)];

	(void)o;
	memcpy((uint8_t *)&c->d.attr + at * sizeof(word), &word, sizeof(word));
	if (!c->d.def)
		return;
	v->i = (int64_t)dimension(c, (uint32_t)v->i) - (below(c, 2) ? 0 : 4);
	memcpy(&v->f, &(uint32_t){ scale_bits(c) }, sizeof(v->f));
}

static void change_memory(struct change *c, struct operand *o)
{
	switch (below(c, 4)) {
	case 0:
		o->tensor->offset += 64;
		break;
	case 1:
		o->tensor->at += below(c, 64);
		break;
	case 2:
		c->p->arena_size = 1u << below(c, 24);
		break;
	default:
		c->p->cpu_scratch = 1u << below(c, 24);
	}
}

static void change_one(struct change *c)
{
	static void (*const how[])(struct change *, struct operand *) = {
		change_size, change_size, change_dimension, change_rank, change_type, change_quant, change_quant,
		change_pitches, change_tensor, change_constant, change_attribute, change_memory,
	};

	how[below(c, sizeof(how) / sizeof(*how))](c, &c->operand[below(c, c->operands)]);
}

/* Writes the parameters back, which have the same size unless an array changed. */
static void put_params(struct change *c)
{
	int64_t size = rvl_desc_pack(&c->d, NULL, 0);
	void *packed = size > 0 ? aligned_alloc(8, (size_t)(size + 7) / 8 * 8) : NULL;

	if (packed && (uint64_t)size <= c->step->params_size &&
	    rvl_desc_pack(&c->d, packed, (size_t)size) == size)
		memcpy(params_of(c), packed, (size_t)size);
	free(packed);
}

/* The tensors follow the step, the other steps follow the tensors. */
static void close_step(struct change *c)
{
	for (uint32_t i = 0; i < c->operands; i++)
		follow(&c->operand[i]);
	put_params(c);
	for (uint32_t i = 0; i < c->p->tensors; i++)
		find_room(c, &c->tensors[i]);
	for (uint32_t i = 0; i < c->p->steps; i++) {
		if (!open_step(c, i))
			continue;
		for (uint32_t k = 0; k < c->operands; k++)
			lead(&c->operand[k]);
		put_params(c);
	}
}

bool fuzz_change_program(uint8_t *file, size_t size, uint64_t *seed)
{
	struct change c = { .p = (struct rivulet_program *)file, .seed = seed };
	bool changed = false;
	char why[256];

	if (size < sizeof(*c.p))
		return false;
	fuzz_set_checksum(file, size);
	if (rivulet_program_check(file, size, why, sizeof(why)) || !c.p->steps)
		return false;
	c.tensors = (struct rivulet_tensor *)rivulet_program_tensors(c.p);
	for (uint32_t i = 0, n = 1 + !below(&c, 6); i < n; i++) {
		if (!open_step(&c, below(&c, c.p->steps)))
			continue;
		for (uint32_t k = 0, m = 1 + !below(&c, 3); k < m; k++)
			change_one(&c);
		close_step(&c);
		changed = true;
	}
	fuzz_set_checksum(file, size);
	return changed;
}
