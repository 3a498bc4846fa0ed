/* SPDX-License-Identifier: MIT */
#include "onnx/wire.h"

#include <errno.h>
#include <string.h>

struct rvl_msg rvl_msg_file(const void *buf, size_t len, const char *what, struct rvl_err *err)
{
	const uint8_t *p = buf;

	return (struct rvl_msg) { .file = p, .p = p, .end = p + len, .what = what, .err = err };
}

struct rvl_msg rvl_msg_sub(const struct rvl_msg *parent, const struct rvl_field *f,
			   const char *what)
{
	return (struct rvl_msg) {
		.file = parent->file, .p = f->s.p, .end = f->s.p + f->s.len, .what = what,
		.err = parent->err,
	};
}

/* 0, or -EBADMSG when the bytes end first or the number has more than 64 bits. */
static int read_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
	uint64_t v = 0;

	for (unsigned int shift = 0; shift < 70 && *p < end; shift += 7) {
		uint8_t b = *(*p)++;

		if (shift == 63 && b > 1)
			return -EBADMSG;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			*out = v;
			return 0;
		}
	}
	return -EBADMSG;
}

static int read_fixed(const uint8_t **p, const uint8_t *end, unsigned int bytes, uint64_t *out)
{
	uint64_t v = 0;

	if ((size_t)(end - *p) < bytes)
		return -EBADMSG;
	for (unsigned int i = 0; i < bytes; i++)
		v |= (uint64_t)*(*p)++ << (8 * i);
	*out = v;
	return 0;
}

static int malformed(const struct rvl_msg *m, const struct rvl_field *f, const char *why)
{
	return rvl_fail(m->err, -EBADMSG, "malformed ONNX: %s field %u at byte %zu: %s", m->what,
			f->num, f->at, why);
}

static int read_bytes(struct rvl_msg *m, struct rvl_field *f)
{
	uint64_t len;

	if (read_varint(&m->p, m->end, &len))
		return malformed(m, f, "the length is cut or too long");
	if (len > (uint64_t)(m->end - m->p))
		return malformed(m, f, "it is longer than its message");
	f->s = (struct rvl_span) { .p = m->p, .len = (size_t)len };
	m->p += len;
	return 1;
}

static int read_value(struct rvl_msg *m, struct rvl_field *f)
{
	switch (f->wire) {
	case RVL_WIRE_VARINT:
		if (read_varint(&m->p, m->end, &f->u))
			return malformed(m, f, "the number is cut or too long");
		return 1;
	case RVL_WIRE_FIXED64:
		if (read_fixed(&m->p, m->end, 8, &f->u))
			return malformed(m, f, "the 64-bit number is cut");
		return 1;
	case RVL_WIRE_FIXED32:
		if (read_fixed(&m->p, m->end, 4, &f->u))
			return malformed(m, f, "the 32-bit number is cut");
		return 1;
	case RVL_WIRE_BYTES:
		return read_bytes(m, f);
	default:
		return malformed(m, f, "wire type is not of proto3");
	}
}

int rvl_msg_next(struct rvl_msg *m, struct rvl_field *f)
{
	uint64_t key;

	*f = (struct rvl_field) { .at = (size_t)(m->p - m->file) };
	if (m->p == m->end)
		return 0;
	if (read_varint(&m->p, m->end, &key))
		return malformed(m, f, "the key is cut or too long");
	if (key >> 32 || !(key >> 3))
		return malformed(m, f, "no such field number");
	f->num = (uint32_t)(key >> 3);
	f->wire = (enum rvl_wire)(key & 7);
	return read_value(m, f);
}

int rvl_msg_each(struct rvl_msg m, int (*fn)(const struct rvl_msg *m, const struct rvl_field *f,
					     void *arg), void *arg)
{
	struct rvl_field f;
	int rc = rvl_msg_next(&m, &f);

	while (rc > 0) {
		rc = fn(&m, &f, arg);
		if (rc)
			return rc;
		rc = rvl_msg_next(&m, &f);
	}
	return rc;
}

int rvl_field_is(const struct rvl_msg *m, const struct rvl_field *f, enum rvl_wire wire)
{
	if (f->wire == wire)
		return 0;
	return malformed(m, f, "its wire type does not fit the field");
}

int rvl_packed_next(const struct rvl_msg *m, const struct rvl_field *f, struct rvl_span *s,
		    enum rvl_wire wire, uint64_t *out)
{
	const uint8_t *p = s->p;
	const uint8_t *end = s->p + s->len;
	int rc;

	if (p == end)
		return 0;
	if (wire == RVL_WIRE_VARINT)
		rc = read_varint(&p, end, out);
	else
		rc = read_fixed(&p, end, wire == RVL_WIRE_FIXED32 ? 4 : 8, out);
	if (rc)
		return malformed(m, f, "an element of the packed list is cut");
	s->p = p;
	s->len = (size_t)(end - p);
	return 1;
}

float rvl_bits_f32(uint64_t u)
{
	uint32_t bits = (uint32_t)u;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}
