/* SPDX-License-Identifier: MIT */
#include "onnx/model.h"
#include "onnx/onnx.h"
#include "rivulet_sha256.h"

#include <errno.h>
#include <string.h>

/* TensorProto.DataType: X(number, name, our type, field of the typed data, wire type there) */
#define ONNX_TYPES(X) \
	X(1, "float", F32, 4, FIXED32) \
	X(2, "uint8", U8, 5, VARINT) \
	X(3, "int8", S8, 5, VARINT) \
	X(4, "uint16", U16, 5, VARINT) \
	X(5, "int16", S16, 5, VARINT) \
	X(6, "int32", S32, 5, VARINT) \
	X(7, "int64", S64, 7, VARINT) \
	X(8, "string", NONE, 6, BYTES) \
	X(9, "bool", BOOL, 5, VARINT) \
	X(10, "float16", F16, 5, VARINT) \
	X(11, "double", F64, 10, FIXED64) \
	X(12, "uint32", U32, 11, VARINT) \
	X(13, "uint64", U64, 11, VARINT) \
	X(14, "complex64", NONE, 4, FIXED32) \
	X(15, "complex128", NONE, 10, FIXED64) \
	X(16, "bfloat16", BF16, 5, VARINT) \
	X(17, "float8e4m3fn", NONE, 5, VARINT) \
	X(18, "float8e4m3fnuz", NONE, 5, VARINT) \
	X(19, "float8e5m2", NONE, 5, VARINT) \
	X(20, "float8e5m2fnuz", NONE, 5, VARINT) \
	X(21, "uint4", NONE, 5, VARINT) \
	X(22, "int4", NONE, 5, VARINT)

struct onnx_type {
	int64_t num;
	const char *name;
	enum rvl_type type;
	uint32_t field;
	enum rvl_wire wire;
};

static const struct onnx_type onnx_types[] = {
#define ONNX_TYPE_ROW(num, name, type, field, wire) \
	{ num, name, RVL_TYPE_##type, field, RVL_WIRE_##wire },
	ONNX_TYPES(ONNX_TYPE_ROW)
#undef ONNX_TYPE_ROW
};

/* What a tensor of a type without kernels points to, so that it counts as existing. */
static const uint8_t no_data[8];

/* A TensorProto, its typed data not decoded yet. */
struct view {
	int64_t data_type;
	const struct onnx_type *type;
	struct rvl_shape shape;
	struct rvl_span name;
	struct rvl_span raw;
	bool has_raw;
	bool external;			/* the data is in another file */
	struct rvl_span location;
	uint64_t offset, length;	/* length 0: not given */
};

/* StringStringEntryProto */
struct entry {
	struct rvl_span key, value;
};

static const struct onnx_type *find_type(int64_t num)
{
	for (size_t i = 0; i < sizeof(onnx_types) / sizeof(onnx_types[0]); i++)
		if (onnx_types[i].num == num)
			return &onnx_types[i];
	return NULL;
}

enum rvl_type rvl_onnx_type(int64_t data_type)
{
	const struct onnx_type *t = find_type(data_type);

	return t ? t->type : RVL_TYPE_NONE;
}

const char *rvl_onnx_type_name(int64_t data_type)
{
	const struct onnx_type *t = find_type(data_type);

	return t ? t->name : "unknown";
}

static int add_dim(const struct rvl_msg *m, const struct rvl_field *f, uint64_t u, struct view *v)
{
	if (v->shape.rank == RVL_MAX_RANK)
		return rvl_fail(m->err, -E2BIG, "the tensor at byte %zu has more than %d dimensions",
				f->at, RVL_MAX_RANK);
	if (u > RVL_MAX_DIM)
		return rvl_fail(m->err, -E2BIG, "TensorProto field 1 at byte %zu: dimension %lld is not in 0..%d",
				f->at, (long long)u, RVL_MAX_DIM);
	v->shape.dim[v->shape.rank++] = (int64_t)u;
	return 0;
}

static int read_dims(const struct rvl_msg *m, const struct rvl_field *f, struct view *v)
{
	struct rvl_span s = f->s;
	uint64_t u;
	int rc;

	if (f->wire == RVL_WIRE_VARINT)
		return add_dim(m, f, f->u, v);
	rc = rvl_field_is(m, f, RVL_WIRE_BYTES);
	while (!rc && (rc = rvl_packed_next(m, f, &s, RVL_WIRE_VARINT, &u)) > 0)
		rc = add_dim(m, f, u, v);
	return rc;
}

static int entry_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct entry *e = arg;

	if (f->num != 1 && f->num != 2)
		return 0;
	*(f->num == 1 ? &e->key : &e->value) = f->s;
	return rvl_field_is(m, f, RVL_WIRE_BYTES);
}

static int read_number(const struct rvl_msg *m, const struct entry *e, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < e->value.len; i++) {
		uint8_t c = e->value.p[i];

		if (c < '0' || c > '9' || e->value.len > 18)
			return rvl_fail(m->err, -EBADMSG, "malformed ONNX: external data with %.*s '%.*s'",
					(int)e->key.len, (const char *)e->key.p,
					(int)(e->value.len < 40 ? e->value.len : 40),
					(const char *)e->value.p);
		*out = *out * 10 + (c - '0');
	}
	return 0;
}

/* One of the pairs that say where the data is. A checksum is not compared. */
static int read_external(const struct rvl_msg *m, const struct rvl_field *f, struct view *v)
{
	struct entry e = { .key.len = 0 };
	int rc = rvl_field_is(m, f, RVL_WIRE_BYTES);

	v->external = true;
	if (!rc)
		rc = rvl_msg_each(rvl_msg_sub(m, f, "StringStringEntryProto"), entry_field, &e);
	if (rc)
		return rc;
	if (rvl_span_is(e.key, "location"))
		v->location = e.value;
	if (rvl_span_is(e.key, "offset"))
		return read_number(m, &e, &v->offset);
	return rvl_span_is(e.key, "length") ? read_number(m, &e, &v->length) : 0;
}

static int head_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	struct view *v = arg;

	switch (f->num) {
	case 1:
		return read_dims(m, f, v);
	case 2:
		v->data_type = (int64_t)f->u;
		return rvl_field_is(m, f, RVL_WIRE_VARINT);
	case 8:
		v->name = f->s;
		return rvl_field_is(m, f, RVL_WIRE_BYTES);
	case 9:
		v->raw = f->s;
		v->has_raw = true;
		return rvl_field_is(m, f, RVL_WIRE_BYTES);
	case 13:
		return read_external(m, f, v);
	case 14:
		v->external |= f->u != 0;
		return rvl_field_is(m, f, RVL_WIRE_VARINT);
	default:
		return 0;
	}
}

static int read_head(struct rvl_msg m, struct view *v)
{
	int rc;

	*v = (struct view) { .data_type = 0 };
	rc = rvl_msg_each(m, head_field, v);
	if (rc)
		return rc;
	v->type = find_type(v->data_type);
	if (!v->type)
		return rvl_fail(m.err, -EBADMSG, "malformed ONNX: '%.*s' has element type %lld",
				(int)(v->name.len < 60 ? v->name.len : 60), (const char *)v->name.p,
				(long long)v->data_type);
	return 0;
}

static void store(void *dst, enum rvl_type type, int64_t i, uint64_t u)
{
	size_t size = rvl_type_size(type);

	if (type == RVL_TYPE_BOOL)
		u = u != 0;
	memcpy((uint8_t *)dst + (size_t)i * size, &u, size);	/* little endian, as the file */
}

/* Walks the typed data; @dst NULL only counts. Never stores more than @max elements. */
static int walk_typed(struct rvl_msg m, const struct view *v, void *dst, int64_t max, int64_t *n)
{
	struct rvl_field f;
	int rc;

	*n = 0;
	while ((rc = rvl_msg_next(&m, &f)) > 0) {
		struct rvl_span s = f.s;
		uint64_t u = f.u;
		int more = 1;

		if (f.num != v->type->field)
			continue;
		if (f.wire != v->type->wire) {
			rc = rvl_field_is(&m, &f, RVL_WIRE_BYTES);
			if (rc)
				return rc;
			more = rvl_packed_next(&m, &f, &s, v->type->wire, &u);
		}
		for (; more > 0; (*n)++) {
			if (dst && *n < max)
				store(dst, v->type->type, *n, u);
			more = f.wire == v->type->wire ? 0 :
			       rvl_packed_next(&m, &f, &s, v->type->wire, &u);
		}
		if (more < 0)
			return more;
	}
	return rc;
}

static int size_error(const struct rvl_msg *m, const struct rvl_tensor *t, int64_t has,
		      int64_t wants, const char *unit)
{
	return rvl_fail(m->err, -EBADMSG,
			"malformed ONNX: tensor '%.80s' has %lld %s of data where its shape needs %lld",
			t->name, (long long)has, unit, (long long)wants);
}

static int take_raw(struct rvl_graph *g, const struct rvl_msg *m, const struct view *v,
		    struct rvl_tensor *t, int64_t bytes)
{
	void *copy;

	if ((uint64_t)bytes != v->raw.len)
		return size_error(m, t, (int64_t)v->raw.len, bytes, "bytes");
	if (bytes == 0) {
		t->data = no_data;
		return 0;
	}
	if ((uintptr_t)v->raw.p % rvl_type_size(t->type) == 0) {
		t->data = v->raw.p;
		return 0;
	}
	copy = rvl_arena_alloc(g->arena, (size_t)bytes);
	if (!copy)
		return rvl_fail(m->err, -ENOMEM, "no memory for tensor '%s'", t->name);
	t->data = memcpy(copy, v->raw.p, (size_t)bytes);
	return 0;
}

static int take_typed(struct rvl_graph *g, const struct rvl_msg *m, const struct view *v,
		      struct rvl_tensor *t, int64_t bytes)
{
	int64_t count = rvl_shape_count(&t->shape);
	int64_t n;
	void *dst;
	int rc = walk_typed(*m, v, NULL, 0, &n);

	if (rc)
		return rc;
	if (n != count)
		return size_error(m, t, n, count, "elements");
	dst = rvl_arena_alloc(g->arena, (size_t)bytes);
	if (!dst)
		return rvl_fail(m->err, -ENOMEM, "no memory for tensor '%s'", t->name);
	t->data = dst;
	return walk_typed(*m, v, dst, count, &n);
}

/* A relative path without ".", ".." and empty parts. */
static bool safe_location(const char *s)
{
	size_t n;

	do {
		n = strcspn(s, "/");
		if (!n || (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
			return false;
		s += n;
	} while (*s++);
	return true;
}

/*
 * The data from files has one hash, which is extended by the 32-byte hash of each piece, so that
 * another division into pieces gives another hash.
 */
static void hash_data(struct rvl_graph *g, const void *data, size_t size)
{
	uint8_t both[64];

	memcpy(both, g->files_hash, 32);
	rivulet_sha256(data, size, both + 32);
	rivulet_sha256(both, sizeof(both), g->files_hash);
	g->from_files = true;
}

/*
 * Adds @bytes at @offset of a file to what the model has. Bytes that several tensors have count once:
 * those of a file are at most the largest end of a tensor's, and at most their sum.
 */
static int count_external(struct rvl_graph *g, const char *location, uint64_t offset, uint64_t bytes)
{
	struct rvl_shared *s = g->shared;
	uint64_t before, more;

	while (s && strcmp(s->location, location))
		s = s->next;
	if (!s) {
		s = rvl_arena_alloc(g->arena, sizeof(*s));
		if (!s)
			return -ENOMEM;
		*s = (struct rvl_shared){ .next = g->shared, .location = location };
		g->shared = s;
	}
	before = s->end < s->sum ? s->end : s->sum;
	s->end = offset + bytes > s->end ? offset + bytes : s->end;
	s->sum += bytes;
	more = (s->end < s->sum ? s->end : s->sum) - before;
	g->given += more;
	rvl_arena_raise(g->arena, g->memory_per_byte * more);
	return rvl_arena_count(g->arena, more) ? 0 : -ENOMEM;
}

static int take_external(struct rvl_graph *g, const struct rvl_msg *m, struct view *v,
			 struct rvl_tensor *t, int64_t bytes)
{
	const char *location;
	const void *data;
	int rc = rvl_span_name(g, v->location, &location, m->err);

	if (rc)
		return rc;
	if (!safe_location(location))
		return rvl_fail(m->err, -EBADMSG, "tensor '%.80s' has its data in '%.80s', which is not a path below the model's folder",
				t->name, location);
	if (!g->files)
		return rvl_fail(m->err, -EOPNOTSUPP, "tensor '%.80s' has its data in the file '%.80s': use rivulet compile, which reads it, and load the program",
				t->name, location);
	if (v->has_raw || (v->length && v->length != (uint64_t)bytes))
		return size_error(m, t, (int64_t)(v->has_raw ? v->raw.len : v->length), bytes, "bytes");
	rc = g->files->read(g->files->arg, location, v->offset, (uint64_t)bytes, &data, m->err);
	if (rc)
		return rc;
	rc = count_external(g, location, v->offset, (uint64_t)bytes);
	if (rc)
		return rc;
	if (bytes)
		hash_data(g, data, (size_t)bytes);
	v->raw = (struct rvl_span) { data, (size_t)bytes };
	return take_raw(g, m, v, t, bytes);
}

static int take_data(struct rvl_graph *g, const struct rvl_msg *m, struct view *v,
		     struct rvl_tensor *t, int64_t bytes)
{
	if (v->external)
		return take_external(g, m, v, t, bytes);
	g->given += (uint64_t)bytes;
	return v->has_raw ? take_raw(g, m, v, t, bytes) : take_typed(g, m, v, t, bytes);
}

#define UINT4 21
#define INT4 22

/* Values of 4 bits, two in a byte, the first one in the low bits: as bytes of the same values. */
static int take_nibbles(struct rvl_graph *g, const struct rvl_msg *m, struct view *v,
			struct rvl_tensor *t)
{
	struct onnx_type byte = *v->type;
	struct rvl_tensor packed = *t;
	int64_t n = rvl_shape_count(&t->shape);
	uint8_t *dst = rvl_arena_alloc(g->arena, (size_t)n + 1);
	int rc;

	if (!dst)
		return rvl_fail(m->err, -ENOMEM, "no memory for tensor '%s'", t->name);
	byte.type = packed.type = RVL_TYPE_U8;
	v->type = &byte;
	packed.shape = (struct rvl_shape) { .rank = 1, .dim = { (n + 1) / 2 } };
	rc = take_data(g, m, v, &packed, (n + 1) / 2);
	if (rc)
		return rc;
	for (int64_t i = 0; i < n; i++) {
		uint8_t c = ((const uint8_t *)packed.data)[i / 2] >> (i % 2 * 4) & 0xf;

		dst[i] = t->type == RVL_TYPE_S8 && c & 8 ? c | 0xf0 : c;
	}
	t->data = dst;
	t->nibbles = true;
	return 0;
}

static int tensor_name(struct rvl_graph *g, const struct view *v, const char *name,
		       const char **out, struct rvl_err *err)
{
	*out = name;
	if (name || !v->name.len)
		return 0;
	return rvl_span_name(g, v->name, out, err);
}

static int name_field(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	if (f->num != 8)
		return 0;
	*(struct rvl_span *)arg = f->s;
	return rvl_field_is(m, f, RVL_WIRE_BYTES);
}

int rvl_onnx_tensor_name(struct rvl_msg m, struct rvl_span *name)
{
	*name = (struct rvl_span) { 0 };
	return rvl_msg_each(m, name_field, name);
}

int rvl_onnx_tensor(struct rvl_graph *g, struct rvl_msg m, const char *name,
		    struct rvl_tensor **out)
{
	struct rvl_tensor *t;
	struct view v;
	int64_t bytes;
	int rc = read_head(m, &v);

	if (!rc)
		rc = tensor_name(g, &v, name, &name, m.err);
	if (!rc)
		rc = rvl_tensor_new(g, name, &t, m.err);
	if (rc)
		return rc;
	*out = t;
	t->type = v.type->type;
	t->shape = v.shape;
	t->shaped = true;
	if (v.data_type == UINT4 || v.data_type == INT4)
		t->type = v.data_type == INT4 ? RVL_TYPE_S8 : RVL_TYPE_U8;
	if (t->type == RVL_TYPE_NONE) {
		t->bad = rvl_graph_printf(g, "element type %s is not supported", v.type->name);
		t->data = no_data;
		return t->bad ? 0 : -ENOMEM;
	}
	bytes = rvl_tensor_bytes(t);
	if (bytes < 0)
		return rvl_fail(m.err, -E2BIG, "tensor '%s' is larger than %lld bytes", t->name,
				(long long)RVL_MAX_TENSOR_BYTES);
	return v.type->type ? take_data(g, &m, &v, t, bytes) : take_nibbles(g, &m, &v, t);
}

int rvl_onnx_computed(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_err *err)
{
	int64_t n = rvl_shape_count(&t->shape);
	void *data;

	if (t->bad || rvl_onnx_computed_type(g, t->type) == t->type)
		return 0;
	data = rvl_arena_alloc(g->arena, (size_t)n * sizeof(float) + 1);
	if (!data)
		return rvl_fail(err, -ENOMEM, "no memory for tensor '%s'", t->name);
	rvl_convert(RVL_TYPE_F32, data, t->type, t->data, n);
	t->data = data;
	t->type = RVL_TYPE_F32;
	return 0;
}

enum rvl_type rvl_onnx_computed_type(const struct rvl_graph *g, enum rvl_type t)
{
	if (t == RVL_TYPE_F64 && g->float64)
		return t;
	return t == RVL_TYPE_F16 || t == RVL_TYPE_BF16 || t == RVL_TYPE_F64 ? RVL_TYPE_F32 : t;
}

int rvl_onnx_load_tensor(struct rvl_graph *g, const void *buf, size_t len, const char *name,
			 struct rvl_tensor **out, struct rvl_err *err)
{
	return rvl_onnx_tensor(g, rvl_msg_file(buf, len, "TensorProto", err), name, out);
}
