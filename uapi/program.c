// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/*
 * Checks of an untrusted program file. After rivulet_program_check() every offset, count and reference
 * can be used as it stands; what the commands do is the device's to check.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "rivulet_crc32c.h"
#include "rivulet_program.h"

#define ARENA_MAX (1ull << 31)	/* DRM_RIVULET_MAX_BO_SIZE */
#define LIMIT_SLOTS ((1u << RIVULET_SLOTS) - 1)

/** struct ctx - the file under check and where a complaint goes */
struct ctx {
	const struct rivulet_program *p;
	char *err;
	size_t errsize;
};

static int __attribute__((format(printf, 2, 3))) bad(const struct ctx *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->err, c->errsize, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

const char *rivulet_program_string(const struct rivulet_program *p, uint32_t name)
{
	return (const char *)p + p->strings_off + name;
}

const struct rivulet_tensor *rivulet_program_tensors(const struct rivulet_program *p)
{
	return (const void *)((const char *)p + p->tensors_off);
}

const struct rivulet_step *rivulet_program_steps(const struct rivulet_program *p)
{
	return (const void *)((const char *)p + p->steps_off);
}

static int check_crc(const struct ctx *c)
{
	static const uint32_t zero;
	size_t at = offsetof(struct rivulet_program, crc), after = at + sizeof(zero);
	uint32_t crc = rivulet_crc32c(0, c->p, at);

	crc = rivulet_crc32c(crc, &zero, sizeof(zero));
	crc = rivulet_crc32c(crc, (const char *)c->p + after, c->p->size - after);
	if (crc != c->p->crc)
		return bad(c, "program file: checksum %08x, its bytes say %08x", c->p->crc, crc);
	return 0;
}

static int check_header(const struct ctx *c, size_t size)
{
	const struct rivulet_program *p = c->p;

	if (size < sizeof(*p) || size > RIVULET_PROGRAM_MAX)
		return bad(c, "program file: %zu bytes; it has %zu to %u", size, sizeof(*p),
			   RIVULET_PROGRAM_MAX);
	if ((uintptr_t)p % 8)
		return bad(c, "program file: not aligned in memory");
	if (p->magic != RIVULET_PROGRAM_MAGIC)
		return bad(c, "not a program file");
	if (p->version != RIVULET_PROGRAM_VERSION || p->header_size != sizeof(*p))
		return bad(c, "program file of version %u, this is version %u: compile the model again",
			   p->version, RIVULET_PROGRAM_VERSION);
	if (p->size != size)
		return bad(c, "program file: header says %llu bytes, there are %zu",
			   (unsigned long long)p->size, size);
	return check_crc(c);
}

/* A section of @count entries of @each bytes, inside the file and aligned. */
static int check_section(const struct ctx *c, const char *name, uint64_t off, uint64_t count,
			 uint64_t each)
{
	uint64_t size = c->p->size;

	if (off % RIVULET_PROGRAM_ALIGN || off > size || count > (size - off) / each)
		return bad(c, "program file: section %s (offset %llu) is not inside the file", name,
			   (unsigned long long)off);
	return 0;
}

static int check_sections(const struct ctx *c)
{
	const struct rivulet_program *p = c->p;

	if (p->tensors > RIVULET_MAX_TENSORS || p->steps > RIVULET_MAX_STEPS ||
	    p->inputs > p->tensors || p->outputs > p->tensors - p->inputs)
		return bad(c, "program file: %u inputs, %u outputs, %u tensors, %u steps", p->inputs,
			   p->outputs, p->tensors, p->steps);
	if (p->arena_size > ARENA_MAX || p->cpu_scratch > ARENA_MAX)
		return bad(c, "program file: it wants an arena of %llu bytes, the limit is %llu",
			   (unsigned long long)p->arena_size, ARENA_MAX);
	if (check_section(c, "tensors", p->tensors_off, p->tensors, sizeof(struct rivulet_tensor)) ||
	    check_section(c, "steps", p->steps_off, p->steps, sizeof(struct rivulet_step)) ||
	    check_section(c, "strings", p->strings_off, p->strings_size, 1) ||
	    check_section(c, "params", p->params_off, p->params_size, 1) ||
	    check_section(c, "const", p->const_off, p->const_size, 1) ||
	    check_section(c, "commands", p->cmd_off, p->cmd_size, 1))
		return -EINVAL;
	if (!p->strings_size || *rivulet_program_string(p, p->strings_size - 1))
		return bad(c, "program file: the strings do not end");
	if (p->board_name >= p->strings_size || p->model_name >= p->strings_size)
		return bad(c, "program file: a name is outside the strings");
	return 0;
}

static uint64_t element_size(uint32_t dtype)
{
	static const uint8_t size[] = { [RIVULET_F32] = 4, [RIVULET_U8] = 1, [RIVULET_S8] = 1,
					[RIVULET_S32] = 4, [RIVULET_S64] = 8, [RIVULET_BOOL] = 1 };

	return dtype < sizeof(size) ? size[dtype] : 0;
}

static int check_tensor_size(const struct ctx *c, uint32_t i, const struct rivulet_tensor *t)
{
	uint64_t n = element_size(t->dtype);

	if (!n || t->ndim > RIVULET_MAX_DIMS || t->layout > RIVULET_LAYOUT_BLOCKED)
		return bad(c, "program file: tensor %u has type %u, %u dimensions, layout %u", i,
			   t->dtype, t->ndim, t->layout);
	for (uint32_t d = 0; d < t->ndim; d++)
		if (__builtin_mul_overflow(n, t->dim[d], &n))
			return bad(c, "program file: tensor %u: its shape overflows", i);
	/* The blocks of a blocked tensor are padded to tn channels. */
	if (t->layout == RIVULET_LAYOUT_PLAIN ? t->size != n : t->size < n)
		return bad(c, "program file: tensor %u has %llu bytes, its shape says %llu", i,
			   (unsigned long long)t->size, (unsigned long long)n);
	return 0;
}

/* The bytes lie inside their place. Offsets of inputs and outputs are their index. */
static int check_tensor_place(const struct ctx *c, uint32_t i, const struct rivulet_tensor *t)
{
	const struct rivulet_tensor *all = rivulet_program_tensors(c->p);
	uint64_t offset = t->offset, room = 0;

	if (t->place == RIVULET_PLACE_ARENA) {
		room = c->p->arena_size;
	} else if (t->place == RIVULET_PLACE_CONST) {
		room = c->p->size;
	} else if (t->place == RIVULET_PLACE_INPUT && offset < c->p->inputs) {
		room = all[offset].size;
		offset = 0;
	} else if (t->place == RIVULET_PLACE_OUTPUT && offset < c->p->outputs) {
		room = all[c->p->inputs + offset].size;
		offset = 0;
	} else {
		return bad(c, "program file: tensor %u is in no place", i);
	}
	if (offset > room || t->size > room - offset)
		return bad(c, "program file: tensor %u (%llu bytes at %llu) is not inside its place", i,
			   (unsigned long long)t->size, (unsigned long long)offset);
	return 0;
}

static int check_tensor(const struct ctx *c, uint32_t i)
{
	const struct rivulet_tensor *t = &rivulet_program_tensors(c->p)[i];
	uint32_t io = c->p->inputs + c->p->outputs;
	bool output = i >= c->p->inputs;

	if (t->name >= c->p->strings_size || t->rsvd)
		return bad(c, "program file: tensor %u: name or reserved field", i);
	if (i < io && (t->place != (output ? RIVULET_PLACE_OUTPUT : RIVULET_PLACE_INPUT) ||
		       t->offset != (output ? i - c->p->inputs : i) ||
		       t->layout != RIVULET_LAYOUT_PLAIN))
		return bad(c, "program file: tensor %u is not the graph's %s", i,
			   output ? "output" : "input");
	return check_tensor_size(c, i, t) ? -EINVAL : check_tensor_place(c, i, t);
}

static int check_refs(const struct ctx *c, uint32_t i, const struct rivulet_step *s)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(c->p);

	if (s->nread > RIVULET_STEP_REFS || s->nwrite > RIVULET_STEP_REFS)
		return bad(c, "program file: step %u reads %u and writes %u tensors", i, s->nread,
			   s->nwrite);
	for (uint32_t k = 0; k < s->nread; k++)
		if (s->read[k] >= c->p->tensors)
			return bad(c, "program file: step %u reads tensor %u of %u", i, s->read[k],
				   c->p->tensors);
	for (uint32_t k = 0; k < s->nwrite; k++)
		if (s->write[k] >= c->p->tensors || t[s->write[k]].place == RIVULET_PLACE_CONST ||
		    t[s->write[k]].place == RIVULET_PLACE_INPUT)
			return bad(c, "program file: step %u writes tensor %u, which it must not", i,
				   s->write[k]);
	return 0;
}

static int check_cpu(const struct ctx *c, uint32_t i, const struct rivulet_step *s)
{
	if (s->params % 4 || s->params > c->p->params_size ||
	    s->params_size > c->p->params_size - s->params)
		return bad(c, "program file: step %u: its parameters are outside the section", i);
	if (s->slots || s->writes_mask)
		return bad(c, "program file: step %u is a CPU step with slots", i);
	return 0;
}

/* The slots that the file may make the kernel bind: its own conventions, inputs never writable. */
static uint32_t allowed_slots(const struct rivulet_program *p, bool write)
{
	uint32_t io = p->inputs + p->outputs;
	uint32_t mask = 1u << RIVULET_SLOT_ARENA | 1u << RIVULET_SLOT_PROF;

	mask |= write ? 0 : 1u << RIVULET_SLOT_PROGRAM;
	for (uint32_t i = write ? p->inputs : 0; i < io && i < RIVULET_MAX_IO; i++)
		mask |= 1u << (RIVULET_SLOT_IO + i);
	return mask & LIMIT_SLOTS;
}

static int check_npu(const struct ctx *c, uint32_t i, const struct rivulet_step *s)
{
	bool any = false;

	if (s->slots & ~allowed_slots(c->p, false) || s->writes_mask & ~s->slots ||
	    s->writes_mask & ~allowed_slots(c->p, true) || s->min_level >= RIVULET_LEVELS)
		return bad(c, "program file: step %u: slots 0x%x, written 0x%x, least level %u", i,
			   s->slots, s->writes_mask, s->min_level);
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
		const struct rivulet_step_variant *v = &s->variant[l];

		any |= v->length != 0;
		if (v->offset % 64 || v->length % 16 || v->rsvd || v->offset > c->p->size ||
		    v->length > c->p->size - v->offset)
			return bad(c, "program file: step %u: variant %u is not inside the file", i, l);
	}
	return any ? 0 : bad(c, "program file: step %u has no commands", i);
}

static int check_step(const struct ctx *c, uint32_t i)
{
	const struct rivulet_step *s = &rivulet_program_steps(c->p)[i];

	if (s->name >= c->p->strings_size)
		return bad(c, "program file: step %u: its name is outside the strings", i);
	if (check_refs(c, i, s))
		return -EINVAL;
	if (s->kind == RIVULET_STEP_CPU)
		return check_cpu(c, i, s);
	if (s->kind == RIVULET_STEP_NPU)
		return check_npu(c, i, s);
	return bad(c, "program file: step %u is of kind %u", i, s->kind);
}

int rivulet_program_check(const void *p, size_t size, char *err, size_t errsize)
{
	struct ctx c = { .p = p, .err = err, .errsize = errsize };
	int r = check_header(&c, size);

	if (!r)
		r = check_sections(&c);
	for (uint32_t i = 0; !r && i < c.p->tensors; i++)
		r = check_tensor(&c, i);
	for (uint32_t i = 0; !r && i < c.p->steps; i++)
		r = check_step(&c, i);
	return r;
}

int rivulet_program_fits(const struct rivulet_program *p, const struct rivulet_target *device,
			 char *err, size_t errsize)
{
#define EQUAL(field) { #field, p->target.field, device->field }
	const struct { const char *name; uint32_t want, have; } equal[] = {
		EQUAL(isa_version), EQUAL(tm), EQUAL(tn), EQUAL(dn), EQUAL(inp_bytes),
		EQUAL(wgt_bytes), EQUAL(acc_bytes),
	};
#undef EQUAL

	for (size_t i = 0; i < sizeof(equal) / sizeof(equal[0]); i++)
		if (equal[i].want != equal[i].have) {
			snprintf(err, errsize, "program made for %s %u, the device has %u: compile the "
				 "model for this device", equal[i].name, equal[i].want, equal[i].have);
			return -ENOEXEC;
		}
	if (p->target.modes & ~device->modes) {
		snprintf(err, errsize, "program uses CONV modes 0x%x, the device has 0x%x",
			 p->target.modes, device->modes);
		return -ENOEXEC;
	}
	if (p->target.queue_depth > device->queue_depth) {
		snprintf(err, errsize, "program needs a queue depth of %u, the device has %u",
			 p->target.queue_depth, device->queue_depth);
		return -ENOEXEC;
	}
	return 0;
}
