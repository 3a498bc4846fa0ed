// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/*
 * Checks a program file from an untrusted source. Readers of the file rely on these checks and
 * repeat none of them: sections inside the file and disjoint, counts within their limits, strings
 * terminated, references to existing tensors, and steps that use only slots that they declare.
 */
#include "rivulet_program.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "rivulet_board.h"
#include "rivulet_crc32c.h"
#include "rivulet_isa.h"
#include "rivulet_sc.h"

#define MAX_NAME  4096
#define SHAPE_MAX (UINT64_C(1) << 40)

struct check {
	const uint8_t *base;
	const struct rivulet_program *p;
	char *err;
	size_t errsize;
};

__attribute__((format(printf, 2, 3))) static int bad(const struct check *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (c->err && c->errsize)
		vsnprintf(c->err, c->errsize, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

const struct rivulet_tensor *rivulet_program_tensors(const struct rivulet_program *p)
{
	return (const void *)((const uint8_t *)p + p->tensors_off);
}

const struct rivulet_step *rivulet_program_steps(const struct rivulet_program *p)
{
	return (const void *)((const uint8_t *)p + p->steps_off);
}

const char *rivulet_program_string(const struct rivulet_program *p, uint32_t name)
{
	return (const char *)p + p->strings_off + name;
}

uint64_t rivulet_tensor_first(const struct rivulet_tensor *t)
{
	uint64_t at = 0;

	for (uint32_t d = 0; d < t->ndim; d++)
		if (t->pitch[d] < 0)
			at += (t->dim[d] - 1) * (0 - (uint64_t)t->pitch[d]);
	return at;
}

static bool inside(uint64_t off, uint64_t size, uint64_t limit)
{
	return off <= limit && size <= limit - off;
}

uint32_t rivulet_program_levels(const struct rivulet_program *p)
{
	const struct rivulet_step *s = rivulet_program_steps(p);
	uint32_t mask = (1u << RIVULET_LEVELS) - 1;

	for (uint32_t i = 0; i < p->steps; i++)
		for (uint32_t l = 0; s[i].kind == RIVULET_STEP_NPU && l < RIVULET_LEVELS; l++)
			if (!s[i].variant[l].length || l < s[i].min_level)
				mask &= ~(1u << l);
	return mask;
}

/* ---- header ---- */

static int check_crc(const struct check *c, size_t size)
{
	static const uint32_t zero;
	size_t at = offsetof(struct rivulet_program, crc);
	uint32_t crc = rivulet_crc32c(0, c->base, at);

	crc = rivulet_crc32c(crc, &zero, sizeof(zero));
	crc = rivulet_crc32c(crc, c->base + at + sizeof(zero), size - at - sizeof(zero));
	if (crc != c->p->crc)
		return bad(c, "checksum 0x%08x, expected 0x%08x: the file is damaged", crc,
			   c->p->crc);
	return 0;
}

static int check_identity(const struct check *c, size_t size)
{
	const struct rivulet_program *p = c->p;

	if (size < sizeof(*p))
		return bad(c, "%zu bytes are no program file: the header alone has %zu", size,
			   sizeof(*p));
	if (p->magic != RIVULET_PROGRAM_MAGIC)
		return bad(c, "no program file: magic 0x%08x", p->magic);
	if (p->version != RIVULET_PROGRAM_VERSION)
		return bad(c, "program file of version %u; this is version %u", p->version,
			   RIVULET_PROGRAM_VERSION);
	if (p->header_size != sizeof(*p))
		return bad(c, "header of %u bytes, expected %zu", p->header_size, sizeof(*p));
	if (p->size != size)
		return bad(c, "%zu bytes; the header says %llu", size, (unsigned long long)p->size);
	return check_crc(c, size);
}

static int check_counts(const struct check *c)
{
	const struct rivulet_program *p = c->p;

	if (p->tensors > RIVULET_MAX_TENSORS || p->steps > RIVULET_MAX_STEPS)
		return bad(c, "%u tensors and %u steps; at most %u and %u", p->tensors, p->steps,
			   RIVULET_MAX_TENSORS, RIVULET_MAX_STEPS);
	if (p->inputs > p->tensors || p->outputs > p->tensors - p->inputs)
		return bad(c, "%u inputs and %u outputs among %u tensors", p->inputs, p->outputs,
			   p->tensors);
	if (p->arena_size > RIVULET_ARENA_MAX || p->cpu_scratch > RIVULET_ARENA_MAX)
		return bad(c, "arena of %llu bytes, workspace of %llu; at most %u",
			   (unsigned long long)p->arena_size, (unsigned long long)p->cpu_scratch,
			   RIVULET_ARENA_MAX);
	for (size_t i = 0; i < sizeof(p->rsvd) / sizeof(p->rsvd[0]); i++)
		if (p->rsvd[i])
			return bad(c, "a reserved word of the header is not zero");
	return 0;
}

static int check_levels(const struct check *c)
{
	for (uint32_t i = 0; i < RIVULET_LEVELS; i++) {
		const struct rivulet_level_info *l = &c->p->level[i];

		if (l->length && (l->length < RIVULET_SC_MIN ||
				  l->length > RIVULET_SC_MAX))
			return bad(c, "level %u: a bitstream of %u bits, not %u to %u", i,
				   l->length, RIVULET_SC_MIN, RIVULET_SC_MAX);
		if (l->accuracy > 1000000)
			return bad(c, "level %u: an accuracy of %u ppm", i, l->accuracy);
	}
	return 0;
}

struct section {
	const char *name;
	uint64_t off, size;
};

static int check_sections(const struct check *c)
{
	const struct rivulet_program *p = c->p;
	const struct section s[] = {
		{ "tensor", p->tensors_off, (uint64_t)p->tensors * sizeof(struct rivulet_tensor) },
		{ "step", p->steps_off, (uint64_t)p->steps * sizeof(struct rivulet_step) },
		{ "string", p->strings_off, p->strings_size },
		{ "parameter", p->params_off, p->params_size },
		{ "constant", p->const_off, p->const_size },
		{ "command", p->cmd_off, p->cmd_size },
	};
	uint64_t past = sizeof(*p);

	for (size_t i = 0; i < sizeof(s) / sizeof(s[0]); i++) {
		if (s[i].off % RIVULET_PROGRAM_ALIGN || s[i].off < past ||
		    !inside(s[i].off, s[i].size, p->size))
			return bad(
				c,
				"%s section at %llu, %llu bytes: not inside the file behind %llu",
				s[i].name, (unsigned long long)s[i].off,
				(unsigned long long)s[i].size, (unsigned long long)past);
		past = s[i].off + s[i].size;
	}
	if (!p->strings_size || c->base[p->strings_off + p->strings_size - 1])
		return bad(c, "the string section does not end in NUL");
	return 0;
}

static int check_string(const struct check *c, const char *what, uint32_t name)
{
	if (name >= c->p->strings_size)
		return bad(c, "name of %s at %u, behind %llu bytes of strings", what, name,
			   (unsigned long long)c->p->strings_size);
	if (strnlen(rivulet_program_string(c->p, name), MAX_NAME + 1) > MAX_NAME)
		return bad(c, "name of %s longer than %d bytes", what, MAX_NAME);
	return 0;
}

/* ---- tensors ---- */

static uint64_t dtype_bytes(uint32_t dtype)
{
#define DTYPE_BYTES(name, value, text, bytes, npy, onnx) [RIVULET_##name] = (bytes),
	static const uint8_t size[] = { RIVULET_DTYPES(DTYPE_BYTES) };
#undef DTYPE_BYTES

	return dtype < sizeof(size) ? size[dtype] : 0;
}

/* Bytes of the tensor by its shape, type and layout. Returns false on overflow. */
static bool shape_bytes(const struct check *c, const struct rivulet_tensor *t, uint64_t *bytes)
{
	uint64_t n = dtype_bytes(t->dtype);
	bool blocked = t->layout == RIVULET_LAYOUT_BLOCKED;

	for (uint32_t i = 0; i < t->ndim; i++) {
		uint64_t d = t->dim[i];

		if (blocked && i + 3 == t->ndim) {
			if (d > SHAPE_MAX)
				return false;
			d = (d + c->p->target.tn - 1) / c->p->target.tn * c->p->target.tn;
		}
		if (__builtin_mul_overflow(n, d, &n) || n > SHAPE_MAX)
			return false;
	}
	*bytes = n;
	return true;
}

static uint64_t magnitude(int64_t pitch)
{
	return pitch < 0 ? 0 - (uint64_t)pitch : (uint64_t)pitch;
}

/* Bytes from the lowest to the highest of a pitched tensor. Returns false on overflow. */
static bool pitched_bytes(const struct rivulet_tensor *t, uint64_t *bytes)
{
	uint64_t n = dtype_bytes(t->dtype), reach;

	for (uint32_t i = 0; i < t->ndim; i++)
		if (!t->dim[i] || __builtin_mul_overflow(t->dim[i] - 1, magnitude(t->pitch[i]), &reach) ||
		    __builtin_add_overflow(n, reach, &n) || n > SHAPE_MAX)
			return false;
	*bytes = n;
	return true;
}

/* The axis of the smallest pitch of those that are not in the set @done. */
static uint32_t next_axis(const struct rivulet_tensor *t, uint32_t done)
{
	uint32_t axis = t->ndim;

	for (uint32_t d = 0; d < t->ndim; d++)
		if (!(done >> d & 1) &&
		    (axis == t->ndim || magnitude(t->pitch[d]) < magnitude(t->pitch[axis])))
			axis = d;
	return axis;
}

/* Whether two elements may be the same bytes: a pitch is not beyond what all smaller ones reach. */
static bool repeats(const struct rivulet_tensor *t)
{
	uint64_t reach = 0;

	for (uint32_t n = 0, done = 0; n < t->ndim; n++) {
		uint32_t axis = next_axis(t, done);
		uint64_t pitch = magnitude(t->pitch[axis]);

		if (t->dim[axis] > 1 && pitch <= reach)
			return true;
		reach += (t->dim[axis] - 1) * pitch;
		done |= 1u << axis;
	}
	return false;
}

static int check_pitches(const struct check *c, uint32_t i, const struct rivulet_tensor *t)
{
	bool pitched = t->flags & RIVULET_TENSOR_PITCHED;

	for (uint32_t d = 0; d < RIVULET_MAX_DIMS; d++)
		if (t->pitch[d] && (!pitched || d >= t->ndim || t->dim[d] <= 1))
			return bad(c, "tensor %u: a pitch that it does not have is not zero", i);
	for (uint32_t d = 0; d < t->ndim; d++)
		if (magnitude(t->pitch[d]) % dtype_bytes(t->dtype))
			return bad(c, "tensor %u: pitch %u is no multiple of its elements", i, d);
	if (pitched && (i < c->p->inputs + c->p->outputs || t->layout == RIVULET_LAYOUT_BLOCKED ||
			t->flags & RIVULET_TENSOR_BOUNDED))
		return bad(c, "tensor %u has pitches, but is an input, an output, bounded or in channel blocks",
			   i);
	return 0;
}

static int check_shape(const struct check *c, uint32_t i, const struct rivulet_tensor *t)
{
	bool pitched = t->flags & RIVULET_TENSOR_PITCHED;
	uint64_t bytes = 0;

	if (!dtype_bytes(t->dtype) || t->layout >= RIVULET_LAYOUT_END ||
	    t->flags & ~(uint32_t)(RIVULET_TENSOR_BOUNDED | RIVULET_TENSOR_PITCHED) ||
	    (t->flags & RIVULET_TENSOR_BOUNDED && t->layout != RIVULET_LAYOUT_PLAIN) ||
	    t->ndim > RIVULET_MAX_DIMS)
		return bad(c, "tensor %u: type %u, layout %u, %u dimensions", i, t->dtype,
			   t->layout, t->ndim);
	for (uint32_t d = t->ndim; d < RIVULET_MAX_DIMS; d++)
		if (t->dim[d])
			return bad(c, "tensor %u: a dimension beyond its %u is not zero", i,
				   t->ndim);
	if (t->layout == RIVULET_LAYOUT_BLOCKED &&
	    (t->ndim < 3 || !c->p->target.tn || dtype_bytes(t->dtype) > 2))
		return bad(c, "tensor %u cannot be in channel blocks", i);
	if (t->layout == RIVULET_LAYOUT_NHWC && t->ndim != 4)
		return bad(c, "tensor %u has %u dimensions and cannot be an image in NHWC", i,
			   t->ndim);
	if (!shape_bytes(c, t, &bytes) || (pitched && !pitched_bytes(t, &bytes)) || bytes != t->size)
		return bad(c, "tensor %u: %llu bytes are not what its shape takes", i,
			   (unsigned long long)t->size);
	if (!__builtin_isfinite(t->scale))
		return bad(c, "tensor %u: its scale is no number", i);
	return 0;
}

static int check_place(const struct check *c, uint32_t i, const struct rivulet_tensor *t)
{
	const struct rivulet_program *p = c->p;
	uint64_t align = dtype_bytes(t->dtype);
	bool ok = false;

	switch (t->place) {
	case RIVULET_PLACE_INPUT:
		ok = t->offset < p->inputs && t->at % align == 0;
		break;
	case RIVULET_PLACE_OUTPUT:
		ok = t->offset < p->outputs && t->at % align == 0;
		break;
	case RIVULET_PLACE_ARENA:
		ok = t->offset % align == 0 && !t->at && inside(t->offset, t->size, p->arena_size);
		break;
	case RIVULET_PLACE_CONST:
		ok = t->offset % align == 0 && !t->at && t->offset >= p->const_off &&
		     inside(t->offset - p->const_off, t->size, p->const_size);
		break;
	}
	if (!ok)
		return bad(c, "tensor %u: %llu bytes at %llu of place %u", i,
			   (unsigned long long)t->size, (unsigned long long)t->offset, t->place);
	if (t->layout == RIVULET_LAYOUT_BLOCKED && t->place != RIVULET_PLACE_ARENA)
		return bad(c, "tensor %u is in channel blocks outside the arena", i);
	return 0;
}

/*
 * The first tensors are the inputs and outputs in order. Other tensors may only be parts of them.
 */
static int check_io(const struct check *c, uint32_t i, const struct rivulet_tensor *t)
{
	const struct rivulet_program *p = c->p;
	const struct rivulet_tensor *all = rivulet_program_tensors(p);

	if (t->layout == RIVULET_LAYOUT_NHWC &&
	    (i < p->inputs + p->outputs || t->place == RIVULET_PLACE_CONST))
		return bad(c, "tensor %u, an input, output or constant, is in NHWC", i);
	if (i < p->inputs)
		return t->place == RIVULET_PLACE_INPUT && t->offset == i && !t->at ?
			       0 :
			       bad(c, "tensor %u is not input %u", i, i);
	if (i < p->inputs + p->outputs)
		return t->place == RIVULET_PLACE_OUTPUT && t->offset == i - p->inputs && !t->at ?
			       0 :
			       bad(c, "tensor %u is not output %u", i, i - p->inputs);
	if (t->place == RIVULET_PLACE_INPUT && !inside(t->at, t->size, all[t->offset].size))
		return bad(c, "tensor %u is larger than input %llu", i,
			   (unsigned long long)t->offset);
	if (t->place == RIVULET_PLACE_OUTPUT &&
	    !inside(t->at, t->size, all[p->inputs + t->offset].size))
		return bad(c, "tensor %u is larger than output %llu", i,
			   (unsigned long long)t->offset);
	return 0;
}

static int check_tensor(const struct check *c, uint32_t i)
{
	const struct rivulet_tensor *t = &rivulet_program_tensors(c->p)[i];
	int rc = check_string(c, "a tensor", t->name);

	if (!rc)
		rc = check_shape(c, i, t);
	if (!rc)
		rc = check_pitches(c, i, t);
	if (!rc)
		rc = check_place(c, i, t);
	return rc ? rc : check_io(c, i, t);
}

/* ---- steps ---- */

static uint32_t known_slots(const struct rivulet_program *p)
{
	uint64_t io =
		(UINT64_C(1) << (p->inputs + p->outputs < RIVULET_MAX_IO ? p->inputs + p->outputs :
									   RIVULET_MAX_IO)) -
		1;

	return 1u << RIVULET_SLOT_PROGRAM | 1u << RIVULET_SLOT_ARENA |
	       (uint32_t)io << RIVULET_SLOT_IO | 1u << RIVULET_SLOT_PROF |
	       1u << RIVULET_SLOT_REPORT;
}

static uint32_t input_slots(const struct rivulet_program *p)
{
	uint32_t n = p->inputs < RIVULET_MAX_IO ? p->inputs : RIVULET_MAX_IO;

	return ((1u << n) - 1) << RIVULET_SLOT_IO;
}

static int check_slots(const struct check *c, uint32_t i, const struct rivulet_step *s)
{
	if (s->slots & ~known_slots(c->p) || s->writes_mask & ~s->slots)
		return bad(c, "step %u: slots 0x%x, written 0x%x", i, s->slots, s->writes_mask);
	if (s->writes_mask & (1u << RIVULET_SLOT_PROGRAM | input_slots(c->p)))
		return bad(c, "step %u writes its program or an input", i);
	return 0;
}

static int check_variants(const struct check *c, uint32_t i, const struct rivulet_step *s)
{
	const struct rivulet_program *p = c->p;
	bool any = false;

	for (int l = 0; l < RIVULET_LEVELS; l++) {
		const struct rivulet_step_variant *v = &s->variant[l];

		any |= v->length != 0;
		if (v->rsvd || (!v->length && (v->offset || v->cycles)))
			return bad(c, "step %u: a reserved word of variant %d is not zero", i, l);
		if (v->length && (s->kind != RIVULET_STEP_NPU || v->offset % 64 || v->length % 16 ||
				  v->offset < p->cmd_off ||
				  !inside(v->offset - p->cmd_off, v->length, p->cmd_size)))
			return bad(c, "step %u: variant %d has %u bytes of commands at %llu", i, l,
				   v->length, (unsigned long long)v->offset);
	}
	if (s->kind == RIVULET_STEP_NPU && !any)
		return bad(c, "step %u has no command stream at any level", i);
	return 0;
}

static int check_refs(const struct check *c, uint32_t i, const struct rivulet_step *s)
{
	const struct rivulet_program *p = c->p;
	const struct rivulet_tensor *t = rivulet_program_tensors(p);

	if (s->nread > RIVULET_STEP_REFS || s->nwrite > RIVULET_STEP_REFS)
		return bad(c, "step %u: %u reads and %u writes", i, s->nread, s->nwrite);
	for (uint32_t j = 0; j < RIVULET_STEP_REFS; j++) {
		if ((j >= s->nread && s->read[j]) || (j >= s->nwrite && s->write[j]))
			return bad(c, "step %u: a reference behind the last is not zero", i);
		if ((j < s->nread && s->read[j] >= p->tensors) ||
		    (j < s->nwrite && s->write[j] >= p->tensors))
			return bad(c, "step %u names a tensor that does not exist", i);
		if (j < s->nwrite && (t[s->write[j]].place == RIVULET_PLACE_INPUT ||
				      t[s->write[j]].place == RIVULET_PLACE_CONST))
			return bad(c, "step %u writes tensor %u, an input or a constant", i,
				   s->write[j]);
	}
	return 0;
}

/*
 * Steps of the CPU may have operands with pitches. No step may write one element over another.
 * Pitches address the elements of one shape, which a bounded operand would change from run to run.
 */
static int check_pitched_refs(const struct check *c, uint32_t i, const struct rivulet_step *s)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(c->p);
	uint32_t flags = 0;

	for (uint32_t j = 0; j < s->nread + s->nwrite; j++) {
		uint32_t n = j < s->nread ? s->read[j] : s->write[j - s->nread];

		flags |= t[n].flags;
		if (!(t[n].flags & RIVULET_TENSOR_PITCHED))
			continue;
		if (s->kind == RIVULET_STEP_NPU)
			return bad(c, "step %u runs on the NPU, but tensor %u has pitches", i, n);
		if (j >= s->nread && repeats(&t[n]))
			return bad(c, "step %u writes tensor %u, of which elements are the same bytes", i, n);
	}
	if (flags & RIVULET_TENSOR_PITCHED && flags & RIVULET_TENSOR_BOUNDED)
		return bad(c, "step %u has operands with pitches and bounded ones", i);
	return 0;
}

static int check_step(const struct check *c, uint32_t i)
{
	const struct rivulet_step *s = &rivulet_program_steps(c->p)[i];
	int rc = check_string(c, "a step", s->name);

	if (rc)
		return rc;
	if (s->kind != RIVULET_STEP_CPU && s->kind != RIVULET_STEP_NPU)
		return bad(c, "step %u is of kind %u", i, s->kind);
	if (s->kind == RIVULET_STEP_CPU && (s->slots || s->writes_mask || s->min_level))
		return bad(c, "step %u runs on the CPU but has slots", i);
	if (s->kind == RIVULET_STEP_NPU && (s->params || s->params_size || s->op))
		return bad(c, "step %u runs on the NPU but has parameters", i);
	if (!inside(s->params, s->params_size, c->p->params_size) || s->params % 8)
		return bad(c, "step %u: parameters of %llu bytes at %llu", i,
			   (unsigned long long)s->params_size, (unsigned long long)s->params);
	if (s->min_level >= RIVULET_LEVELS)
		return bad(c, "step %u: least level %u", i, s->min_level);
	rc = check_slots(c, i, s);
	if (!rc)
		rc = check_variants(c, i, s);
	if (!rc)
		rc = check_refs(c, i, s);
	return rc ? rc : check_pitched_refs(c, i, s);
}

static bool has_npu_step(const struct rivulet_program *p)
{
	const struct rivulet_step *s = rivulet_program_steps(p);

	for (uint32_t i = 0; i < p->steps; i++)
		if (s[i].kind == RIVULET_STEP_NPU)
			return true;
	return false;
}

/* The device addresses the whole file as one buffer. */
static int check_buffer(const struct check *c)
{
	if (c->p->size > RIVULET_PROGRAM_NPU_MAX && has_npu_step(c->p))
		return bad(c, "%llu bytes with NPU steps; at most %llu", (unsigned long long)c->p->size,
			   RIVULET_PROGRAM_NPU_MAX);
	return 0;
}

int rivulet_program_check(const void *p, size_t size, char *err, size_t errsize)
{
	struct check c = { .base = p, .p = p, .err = err, .errsize = errsize };
	int rc;

	if (!p || size > RIVULET_PROGRAM_MAX || (uintptr_t)p % 8)
		return bad(&c, "%zu bytes: not an aligned program file of at most %llu bytes", size,
			   RIVULET_PROGRAM_MAX);
	rc = check_identity(&c, size);
	if (!rc)
		rc = check_counts(&c);
	if (!rc)
		rc = check_levels(&c);
	if (!rc)
		rc = check_sections(&c);
	if (!rc)
		rc = check_string(&c, "the board", c.p->board_name);
	if (!rc)
		rc = check_string(&c, "the model", c.p->model_name);
	for (uint32_t i = 0; !rc && i < c.p->tensors; i++)
		rc = check_tensor(&c, i);
	for (uint32_t i = 0; !rc && i < c.p->steps; i++)
		rc = check_step(&c, i);
	return rc ? rc : check_buffer(&c);
}

/* ---- target ---- */

static int differs(char *err, size_t errsize, const char *what, uint32_t want, uint32_t have)
{
	if (err && errsize)
		snprintf(err, errsize, "the program was compiled for %s %u; the device has %u",
			 what, want, have);
	return -ENOEXEC;
}

int rivulet_program_fits(const struct rivulet_program *p, const struct rivulet_target *device,
			 char *err, size_t errsize)
{
	const struct rivulet_target *t = &p->target;
	const struct {
		const char *name;
		uint32_t want, have;
	} same[] = {
		{ "ISA version", t->isa_version, device->isa_version },
		{ "tm =", t->tm, device->tm },
		{ "tn =", t->tn, device->tn },
		{ "dn =", t->dn, device->dn },
		{ "inp_bytes =", t->inp_bytes, device->inp_bytes },
		{ "wgt_bytes =", t->wgt_bytes, device->wgt_bytes },
		{ "acc_bytes =", t->acc_bytes, device->acc_bytes },
	};

	if (!has_npu_step(p))
		return 0;
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		if (same[i].want != same[i].have)
			return differs(err, errsize, same[i].name, same[i].want, same[i].have);
	if (t->modes & ~device->modes)
		return differs(err, errsize, "CONV modes", t->modes, device->modes);
	if (t->queue_depth > device->queue_depth)
		return differs(err, errsize, "a queue depth of at least", t->queue_depth,
			       device->queue_depth);
	return 0;
}
