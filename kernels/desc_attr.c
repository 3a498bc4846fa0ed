/* SPDX-License-Identifier: MIT */
/*
 * The part of a packed descriptor that RVL_OP_GENERAL adds: which operator of the table it is, and
 * the attributes that are given, by name. Everything is aligned to 8 bytes.
 */
#include <string.h>

#include "internal.h"

#define ATTRS_VERSION 1

struct packed_def {
	uint32_t version;
	int32_t since;
	uint32_t attrs;
	uint32_t name_bytes;	/* name and domain, each ended by NUL */
};

struct packed_value {
	uint32_t kind;
	uint32_t type;
	uint32_t n;
	float f;
	int64_t i;
	uint32_t name_bytes;	/* with NUL */
	uint32_t data_bytes;
};

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static size_t data_bytes(enum rvl_attr_kind kind, const struct rvl_attr_value *v)
{
	const char *s = v->data;
	size_t n = 0;

	switch (kind) {
	case RVL_ATTR_INTS:
		return v->n * sizeof(int64_t);
	case RVL_ATTR_FLOATS:
		return v->n * sizeof(float);
	case RVL_ATTR_TENSOR:
		return v->n * rvl_type_size(v->type);
	case RVL_ATTR_STRING:
		return strlen(s) + 1;
	case RVL_ATTR_STRINGS:
		for (uint32_t i = 0; i < v->n; i++)
			n += strlen(s + n) + 1;
		return n;
	default:
		return 0;
	}
}

static const char *domain_of(const struct rvl_op_def *def)
{
	return def->domain ? def->domain : "";
}

static bool is_packed(const struct rvl_kernel_desc *d, uint32_t i)
{
	return d->value[i].given && d->def->attrs[i].kind != RVL_ATTR_IGNORED;
}

int64_t rvl_attrs_size(const struct rvl_kernel_desc *d)
{
	size_t size = sizeof(struct packed_def) +
		      padded(strlen(d->def->name) + strlen(domain_of(d->def)) + 2);

	for (uint32_t i = 0; i < rvl_op_attrs(d->def); i++) {
		if (!is_packed(d, i))
			continue;
		size += sizeof(struct packed_value) + padded(strlen(d->def->attrs[i].name) + 1) +
			padded(data_bytes(d->def->attrs[i].kind, &d->value[i]));
	}
	return (int64_t)size;
}

/* The rest up to the next multiple of 8 was cleared before. */
static uint8_t *put(uint8_t *p, const void *src, size_t n)
{
	if (n)
		memcpy(p, src, n);
	return p + padded(n);
}

static uint8_t *pack_value(uint8_t *p, const struct rvl_attr_def *a, const struct rvl_attr_value *v)
{
	struct packed_value h = {
		.kind = a->kind, .type = v->type, .n = v->n, .f = v->f, .i = v->i,
		.name_bytes = (uint32_t)strlen(a->name) + 1,
		.data_bytes = (uint32_t)data_bytes(a->kind, v),
	};

	p = put(p, &h, sizeof(h));
	p = put(p, a->name, h.name_bytes);
	return put(p, v->data, h.data_bytes);
}

void rvl_attrs_pack(const struct rvl_kernel_desc *d, void *buf)
{
	struct packed_def h = { .version = ATTRS_VERSION, .since = d->def->since };
	size_t name = strlen(d->def->name) + 1, domain = strlen(domain_of(d->def)) + 1;
	uint8_t *p = buf;

	memset(buf, 0, (size_t)rvl_attrs_size(d));
	h.name_bytes = (uint32_t)(name + domain);
	for (uint32_t i = 0; i < rvl_op_attrs(d->def); i++)
		h.attrs += is_packed(d, i);
	p = put(p, &h, sizeof(h));
	memcpy(p, d->def->name, name);
	memcpy(p + name, domain_of(d->def), domain);
	p += padded(name + domain);
	for (uint32_t i = 0; i < rvl_op_attrs(d->def); i++)
		if (is_packed(d, i))
			p = pack_value(p, &d->def->attrs[i], &d->value[i]);
}

/* ---- reading: the bytes are untrusted ---- */

struct reader {
	const uint8_t *p;
	size_t left;
};

/* The next @n bytes and their padding; NULL behind the end. */
static const void *take(struct reader *r, size_t n)
{
	const uint8_t *p = r->p;

	if (n > r->left || padded(n) > r->left)
		return NULL;
	r->p += padded(n);
	r->left -= padded(n);
	return p;
}

/* @n bytes that hold exactly @count strings, the last byte being NUL. */
static bool are_strings(const char *s, size_t n, uint32_t count)
{
	uint32_t ends = 0;

	for (size_t i = 0; i < n; i++)
		ends += !s[i];
	return ends == count && (!n || !s[n - 1]);
}

static bool fits(const struct packed_value *h, const void *data)
{
	uint64_t n = h->n;

	switch (h->kind) {
	case RVL_ATTR_INTS:
		return h->data_bytes == n * sizeof(int64_t);
	case RVL_ATTR_FLOATS:
		return h->data_bytes == n * sizeof(float);
	case RVL_ATTR_TENSOR:
		return rvl_type_size((enum rvl_type)h->type) &&
		       h->data_bytes == n * rvl_type_size((enum rvl_type)h->type);
	case RVL_ATTR_STRING:
		return are_strings(data, h->data_bytes, 1);
	case RVL_ATTR_STRINGS:
		return are_strings(data, h->data_bytes, h->n);
	default:
		return !h->data_bytes;
	}
}

static int unpack_value(struct reader *r, struct rvl_kernel_desc *d)
{
	const struct packed_value *h = take(r, sizeof(*h));
	const char *name = h ? take(r, h->name_bytes) : NULL;
	const void *data = name ? take(r, h->data_bytes) : NULL;

	if (!data || !are_strings(name, h->name_bytes, 1) || !fits(h, data))
		return -EBADMSG;
	for (uint32_t i = 0; i < rvl_op_attrs(d->def); i++) {
		if (strcmp(d->def->attrs[i].name, name) || d->def->attrs[i].kind != h->kind ||
		    d->value[i].given)
			continue;
		d->value[i] = (struct rvl_attr_value) {
			.given = true, .type = (enum rvl_type)h->type, .n = h->n, .i = h->i,
			.f = h->f, .data = data,
		};
		return 0;
	}
	return -EBADMSG;
}

int rvl_attrs_unpack(const void *buf, size_t size, struct rvl_kernel_desc *d)
{
	struct reader r = { .p = buf, .left = size };
	const struct packed_def *h = take(&r, sizeof(*h));
	const char *name = h ? take(&r, h->name_bytes) : NULL;
	int rc = 0;

	if (!name || h->version != ATTRS_VERSION || !are_strings(name, h->name_bytes, 2))
		return -EBADMSG;
	d->def = rvl_op_find(name + strlen(name) + 1, name, h->since);
	if (!d->def || d->def->since != h->since || h->attrs > rvl_op_attrs(d->def))
		return -EBADMSG;
	for (uint32_t i = 0; i < h->attrs && !rc; i++)
		rc = unpack_value(&r, d);
	return rc;
}
