// SPDX-License-Identifier: MIT
/*
 * ONNX TensorProto files (test_data_set_N/input_0.pb): dims, data_type, raw_data, or the typed repeated
 * fields. A bounded reader of just that message; untrusted input. External data is refused.
 */
#include <errno.h>
#include <string.h>

#include "tool.h"

enum { F_DIMS = 1, F_TYPE = 2, F_FLOATS = 4, F_INT32S = 5, F_INT64S = 7, F_RAW = 9, F_LOCATION = 14 };

struct wire {
	const uint8_t *p, *end;
};

static bool varint(struct wire *w, uint64_t *out)
{
	*out = 0;
	for (int shift = 0; shift < 64 && w->p < w->end; shift += 7) {
		uint8_t b = *w->p++;

		*out |= (uint64_t)(b & 127) << shift;
		if (!(b & 128))
			return true;
	}
	return false;
}

/* One field: its number and type, and for length-delimited ones the bytes. */
struct field {
	uint32_t number, type;
	uint64_t value;
	struct wire bytes;
};

static bool next(struct wire *w, struct field *f)
{
	uint64_t key, n;

	if (!varint(w, &key) || key >> 3 == 0 || key >> 3 > 1000)
		return false;
	f->number = (uint32_t)(key >> 3);
	f->type = key & 7;
	f->bytes = (struct wire) { w->p, w->p };
	if (f->type == 0)
		return varint(w, &f->value);
	if (f->type == 2) {
		if (!varint(w, &n))
			return false;
	} else if (f->type == 1 || f->type == 5) {
		n = f->type == 1 ? 8 : 4;
	} else {
		return false;
	}
	if (n > (uint64_t)(w->end - w->p))
		return false;
	f->bytes = (struct wire) { w->p, w->p + n };
	w->p += n;
	return true;
}

static enum rivulet_dtype onnx_type(uint64_t t)
{
	static const uint8_t map[] = { [1] = RIVULET_F32, [2] = RIVULET_U8, [3] = RIVULET_S8,
				       [6] = RIVULET_S32, [7] = RIVULET_S64, [9] = RIVULET_BOOL };

	return t < sizeof(map) ? map[t] : 0;
}

static bool add_dim(struct rvl_array *a, uint64_t v)
{
	if (a->ndim == RIVULET_MAX_DIMS || v > RVL_ARRAY_MAX)
		return false;
	a->dim[a->ndim++] = v;
	return true;
}

/* First pass: type and shape, and where raw data is. */
static int scan_header(struct wire w, struct rvl_array *a, struct wire *raw, char *why)
{
	uint64_t type = 0, v;
	struct field f;

	while (w.p < w.end) {
		bool ok = next(&w, &f);

		if (ok && f.number == F_DIMS && f.type == 0)
			ok = add_dim(a, f.value);
		else if (ok && f.number == F_DIMS && f.type == 2)
			while (ok && f.bytes.p < f.bytes.end)
				ok = varint(&f.bytes, &v) && add_dim(a, v);
		else if (ok && f.number == F_TYPE && f.type == 0)
			type = f.value;
		else if (ok && f.number == F_RAW && f.type == 2)
			*raw = f.bytes;
		else if (ok && f.number == F_LOCATION && f.value)
			ok = false;
		if (!ok)
			return -EINVAL;
	}
	a->dtype = onnx_type(type);
	if (a->dtype)
		return 0;
	snprintf(why, 160, "not an .npy file, and as an ONNX tensor its element type %llu is not supported",
		 (unsigned long long)type);
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

static bool put_packed(struct sink *s, struct wire w, bool fixed)
{
	uint64_t v;
	uint32_t bits;

	while (w.p < w.end) {
		if (fixed) {
			if (w.end - w.p < 4)
				return false;
			memcpy(&bits, w.p, 4);
			w.p += 4;
			v = bits;
		} else if (!varint(&w, &v)) {
			return false;
		}
		if (!put(s, v))
			return false;
	}
	return true;
}

static uint32_t data_field(enum rivulet_dtype t)
{
	return t == RIVULET_F32 ? F_FLOATS : t == RIVULET_S64 ? F_INT64S : F_INT32S;
}

static int fill_typed(struct wire w, struct rvl_array *a)
{
	struct sink s = { .a = a };
	struct field f;

	while (w.p < w.end) {
		bool ok = next(&w, &f);

		if (ok && f.number == data_field(a->dtype))
			ok = f.type == 0 ? put(&s, f.value) :
			     put_packed(&s, f.bytes, a->dtype == RIVULET_F32);
		if (!ok)
			return -EINVAL;
	}
	return s.at == a->size ? 0 : -EINVAL;
}

int rvl_pb_parse(const uint8_t *p, size_t size, struct rvl_array *out, char *why)
{
	struct wire w = { p, p + size }, raw = { NULL, NULL };
	struct rvl_array a = { 0 };
	int r;

	strcpy(why, "neither an .npy file nor an ONNX tensor");
	r = scan_header(w, &a, &raw, why);
	if (r)
		return r;
	strcpy(why, "ONNX tensor: data and shape differ in size");
	r = rvl_array_alloc(&a);
	if (!r && raw.p)
		r = (uint64_t)(raw.end - raw.p) == a.size ? 0 : -EINVAL;
	if (!r && raw.p)
		memcpy(a.data, raw.p, a.size);
	else if (!r)
		r = fill_typed(w, &a);
	if (r) {
		rvl_array_clear(&a);
		return r;
	}
	*out = a;
	return 0;
}
