// SPDX-License-Identifier: MIT
/*
 * ONNX TensorProto files (test_data_set_N/input_0.pb): dims, data_type, raw_data, or the typed
 * repeated fields. The input is untrusted. The compiler's reader of the wire format checks every
 * length. External data is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "onnx/wire.h"
#include "data/array.h"

enum {
	F_DIMS = 1, F_TYPE = 2, F_FLOATS = 4, F_INT32S = 5, F_INT64S = 7, F_RAW = 9, F_DOUBLES = 10,
	F_UINT64S = 11, F_LOCATION = 14
};

static enum rivulet_dtype onnx_type(uint64_t t)
{
#define DTYPE_ROW(name, value, text, bytes, npy, onnx) [onnx] = RIVULET_##name,
	static const uint8_t map[] = { RIVULET_DTYPES(DTYPE_ROW) };
#undef DTYPE_ROW

	return t < sizeof(map) ? map[t] : 0;
}

static bool add_dim(struct rvl_array *a, uint64_t v)
{
	if (a->ndim == RIVULET_MAX_DIMS || v > RVL_ARRAY_MAX)
		return false;
	a->dim[a->ndim++] = v;
	return true;
}

/* What the first pass over the message finds besides the shape. */
struct header {
	struct rvl_array *a;
	uint64_t type;
	struct rvl_span raw;	/* p NULL: no raw data */
};

static int scan_dims(const struct rvl_msg *m, const struct rvl_field *f, struct rvl_array *a)
{
	struct rvl_span s = f->s;
	uint64_t v;
	int r;

	if (f->wire == RVL_WIRE_VARINT)
		return add_dim(a, f->u) ? 0 : -EINVAL;
	if (f->wire != RVL_WIRE_BYTES)
		return 0;
	while ((r = rvl_packed_next(m, f, &s, RVL_WIRE_VARINT, &v)) > 0)
		if (!add_dim(a, v))
			return -EINVAL;
	return r;
}

static int scan_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct header *h = arg;

	if (f->num == F_DIMS)
		return scan_dims(m, f, h->a);
	if (f->num == F_TYPE && f->wire == RVL_WIRE_VARINT)
		h->type = f->u;
	if (f->num == F_RAW && f->wire == RVL_WIRE_BYTES)
		h->raw = f->s;
	return f->num == F_LOCATION && f->u ? -EINVAL : 0;
}

static int scan_header(const struct rvl_msg *m, struct rvl_array *a, struct rvl_span *raw, char *why)
{
	struct header h = { .a = a };

	if (rvl_msg_each(*m, scan_field, &h))
		return -EINVAL;
	*raw = h.raw;
	a->dtype = onnx_type(h.type);
	if (a->dtype)
		return 0;
	snprintf(why, 160, "not an .npy file, and as an ONNX tensor its element type %llu is not supported",
		 (unsigned long long)h.type);
	return -EOPNOTSUPP;
}

struct sink {
	struct rvl_array *a;
	uint64_t at;	/* bytes filled */
};

static bool put(struct sink *s, uint64_t v)
{
	uint32_t size = rvl_dtype_size(s->a->dtype);

	if (s->at + size > s->a->size)
		return false;
	memcpy((char *)s->a->data + s->at, &v, size);	/* little endian host, as everywhere here */
	s->at += size;
	return true;
}

static uint32_t data_field(enum rivulet_dtype t)
{
	switch (t) {
	case RIVULET_F32:
		return F_FLOATS;
	case RIVULET_F64:
		return F_DOUBLES;
	case RIVULET_S64:
		return F_INT64S;
	case RIVULET_U32:
	case RIVULET_U64:
		return F_UINT64S;
	default:
		return F_INT32S;
	}
}

static enum rvl_wire wire_of(enum rivulet_dtype t)
{
	return t == RIVULET_F32 ? RVL_WIRE_FIXED32 : t == RIVULET_F64 ? RVL_WIRE_FIXED64 :
	       RVL_WIRE_VARINT;
}

static int fill_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct sink *s = arg;
	enum rvl_wire wire = wire_of(s->a->dtype);
	struct rvl_span span = f->s;
	uint64_t v;
	int r;

	if (f->num != data_field(s->a->dtype))
		return 0;
	if (f->wire == wire)
		return put(s, f->u) ? 0 : -EINVAL;
	r = rvl_field_is(m, f, RVL_WIRE_BYTES);
	while (!r && (r = rvl_packed_next(m, f, &span, wire, &v)) > 0)
		r = put(s, v) ? 0 : -EINVAL;
	return r;
}

static int fill_typed(const struct rvl_msg *m, struct rvl_array *a)
{
	struct sink s = { .a = a };

	return !rvl_msg_each(*m, fill_field, &s) && s.at == a->size ? 0 : -EINVAL;
}

int rvl_pb_parse(const uint8_t *p, size_t size, struct rvl_array *out, char *why)
{
	struct rvl_msg m = rvl_msg_file(p, size, "TensorProto", NULL);
	struct rvl_span raw = { .p = NULL };
	struct rvl_array a = { 0 };
	int r;

	strcpy(why, "neither an .npy file nor an ONNX tensor");
	r = scan_header(&m, &a, &raw, why);
	if (r)
		return r;
	strcpy(why, "ONNX tensor: data and shape differ in size");
	r = rvl_array_measure(&a);
	/* Before memory is allocated: an element of a list has a byte at least. */
	if (!r && (raw.p ? raw.len != a.size : a.size / rvl_dtype_size(a.dtype) > size))
		r = -EINVAL;
	if (!r)
		r = rvl_array_alloc(&a);
	if (!r && raw.p)
		memcpy(a.data, raw.p, a.size);
	else if (!r)
		r = fill_typed(&m, &a);
	if (r) {
		rvl_array_clear(&a);
		return r;
	}
	*out = a;
	return 0;
}
