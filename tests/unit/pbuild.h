/* SPDX-License-Identifier: MIT */
/* Encodes ONNX messages, valid or not, for the tests of the reader. */
#ifndef RVL_PBUILD_H
#define RVL_PBUILD_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct pb {
	uint8_t *p;
	size_t n, cap;
};

static inline void pb_bytes(struct pb *b, const void *p, size_t n)
{
	if (b->n + n > b->cap) {
		b->cap = (b->n + n) * 2 + 64;
		b->p = realloc(b->p, b->cap);
	}
	if (n)
		memcpy(b->p + b->n, p, n);
	b->n += n;
}

static inline void pb_varint(struct pb *b, uint64_t v)
{
	do {
		uint8_t c = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));

		pb_bytes(b, &c, 1);
		v >>= 7;
	} while (v);
}

static inline void pb_int(struct pb *b, unsigned int field, uint64_t v)
{
	pb_varint(b, (uint64_t)field << 3);
	pb_varint(b, v);
}

static inline void pb_float(struct pb *b, unsigned int field, float v)
{
	pb_varint(b, (uint64_t)field << 3 | 5);
	pb_bytes(b, &v, sizeof(v));
}

static inline void pb_len(struct pb *b, unsigned int field, const void *p, size_t n)
{
	pb_varint(b, (uint64_t)field << 3 | 2);
	pb_varint(b, n);
	pb_bytes(b, p, n);
}

static inline void pb_str(struct pb *b, unsigned int field, const char *s)
{
	pb_len(b, field, s, strlen(s));
}

/* Appends the message @m as a field of @b and frees it. */
static inline void pb_msg(struct pb *b, unsigned int field, struct pb *m)
{
	pb_len(b, field, m->p, m->n);
	free(m->p);
	*m = (struct pb) { .p = NULL };
}

/* TensorProto with raw data; @dims ends with -1. */
static inline struct pb pb_tensor(const char *name, int type, const int64_t *dims, const void *raw,
				  size_t n)
{
	struct pb t = { .p = NULL };

	for (; *dims >= 0; dims++)
		pb_int(&t, 1, (uint64_t)*dims);
	pb_int(&t, 2, (uint64_t)type);
	pb_str(&t, 8, name);
	pb_len(&t, 9, raw, n);
	return t;
}

/* ValueInfoProto; a dimension of -2 is symbolic, -1 ends the list. */
static inline struct pb pb_value(const char *name, int type, const int64_t *dims)
{
	struct pb v = { .p = NULL }, t = { .p = NULL }, tt = { .p = NULL }, s = { .p = NULL };

	for (; *dims != -1; dims++) {
		struct pb d = { .p = NULL };

		if (*dims == -2)
			pb_str(&d, 2, "N");
		else
			pb_int(&d, 1, (uint64_t)*dims);
		pb_msg(&s, 1, &d);
	}
	pb_int(&tt, 1, (uint64_t)type);
	pb_msg(&tt, 2, &s);
	pb_msg(&t, 1, &tt);
	pb_str(&v, 1, name);
	pb_msg(&v, 2, &t);
	return v;
}

/* NodeProto; inputs separated by spaces, "-" is an absent one. The caller appends attributes. */
static inline struct pb pb_node(const char *op, const char *in, const char *out)
{
	struct pb n = { .p = NULL };
	char buf[256];

	strcpy(buf, in);
	for (char *save, *s = strtok_r(buf, " ", &save); s; s = strtok_r(NULL, " ", &save))
		pb_str(&n, 1, strcmp(s, "-") ? s : "");
	strcpy(buf, out);
	for (char *save, *s = strtok_r(buf, " ", &save); s; s = strtok_r(NULL, " ", &save))
		pb_str(&n, 2, s);
	pb_str(&n, 4, op);
	return n;
}

static inline void pb_attr_int(struct pb *node, const char *name, int64_t v)
{
	struct pb a = { .p = NULL };

	pb_str(&a, 1, name);
	pb_int(&a, 3, (uint64_t)v);
	pb_int(&a, 20, 2);
	pb_msg(node, 5, &a);
}

static inline void pb_attr_float(struct pb *node, const char *name, float v)
{
	struct pb a = { .p = NULL };

	pb_str(&a, 1, name);
	pb_float(&a, 2, v);
	pb_int(&a, 20, 1);
	pb_msg(node, 5, &a);
}

static inline void pb_attr_str(struct pb *node, const char *name, const char *v)
{
	struct pb a = { .p = NULL };

	pb_str(&a, 1, name);
	pb_str(&a, 4, v);
	pb_int(&a, 20, 3);
	pb_msg(node, 5, &a);
}

/* A list of @n integers, not packed, as most writers encode it. */
static inline void pb_attr_ints(struct pb *node, const char *name, const int64_t *v, size_t n)
{
	struct pb a = { .p = NULL };

	pb_str(&a, 1, name);
	for (size_t i = 0; i < n; i++)
		pb_int(&a, 8, (uint64_t)v[i]);
	pb_int(&a, 20, 7);
	pb_msg(node, 5, &a);
}

/* A ModelProto that contains @graph. */
static inline struct pb pb_model(struct pb *graph, int ir, int opset)
{
	struct pb m = { .p = NULL }, o = { .p = NULL }, ms = { .p = NULL };

	pb_int(&m, 1, (uint64_t)ir);
	pb_str(&m, 2, "test");
	pb_msg(&m, 7, graph);
	pb_str(&o, 1, "");
	pb_int(&o, 2, (uint64_t)opset);
	pb_msg(&m, 8, &o);
	pb_str(&ms, 1, "com.microsoft");
	pb_int(&ms, 2, 1);
	pb_msg(&m, 8, &ms);
	return m;
}

#endif
