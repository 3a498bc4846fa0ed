/* SPDX-License-Identifier: MIT */
/*
 * The protobuf wire format, read in place: no allocation, no copy, no recursion of its own. Every
 * read is checked against the end of the enclosing message, and an error names the message, the
 * field and the byte offset in the file.
 */
#ifndef RVL_ONNX_WIRE_H
#define RVL_ONNX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Wire types of protobuf that may appear in a proto3 file. */
enum rvl_wire {
	RVL_WIRE_VARINT = 0,
	RVL_WIRE_FIXED64 = 1,
	RVL_WIRE_BYTES = 2,
	RVL_WIRE_FIXED32 = 5,
};

/* A run of bytes of the file. Not terminated. */
struct rvl_span {
	const uint8_t *p;
	size_t len;
};

/* A message being read. */
struct rvl_msg {
	const uint8_t *file;	/* start of the file, for offsets */
	const uint8_t *p;	/* next byte */
	const uint8_t *end;
	const char *what;	/* "NodeProto", for errors */
	struct rvl_err *err;
};

/* One field of a message. */
struct rvl_field {
	uint32_t num;
	enum rvl_wire wire;
	size_t at;		/* offset of the field in the file */
	uint64_t u;		/* VARINT, FIXED64, FIXED32 */
	struct rvl_span s;	/* BYTES */
};

/** A message over the whole file. */
struct rvl_msg rvl_msg_file(const void *buf, size_t len, const char *what, struct rvl_err *err);

/** The message inside a BYTES field of @parent. */
struct rvl_msg rvl_msg_sub(const struct rvl_msg *parent, const struct rvl_field *f,
			   const char *what);

/** Reads the next field: 1 = *f is set, 0 = end of the message, -EBADMSG = malformed. */
int rvl_msg_next(struct rvl_msg *m, struct rvl_field *f);

/**
 * Calls fn(m, field, arg) for every field of the message; the first result that is not 0 ends the
 * walk and is returned.
 */
int rvl_msg_each(struct rvl_msg m, int (*fn)(const struct rvl_msg *m, const struct rvl_field *f,
					     void *arg), void *arg);

/** 0 if the field has this wire type, else -EBADMSG with a message that says so. */
int rvl_field_is(const struct rvl_msg *m, const struct rvl_field *f, enum rvl_wire wire);

/**
 * One element of a repeated number that may be packed. Start with *@s = the field's span and call
 * until it returns 0. 1 = *out is set. @wire: how an element is encoded. -EBADMSG on a cut element.
 */
int rvl_packed_next(const struct rvl_msg *m, const struct rvl_field *f, struct rvl_span *s,
		    enum rvl_wire wire, uint64_t *out);

/** The float whose bits are the low 32 of @u. */
float rvl_bits_f32(uint64_t u);

#endif
