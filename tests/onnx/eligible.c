/* SPDX-License-Identifier: MIT */
/*
 * Searches the messages of an ONNX model for types and operators that are excluded from the score.
 */
#include "onnx/wire.h"
#include "eligible.h"

#include <stdint.h>
#include <string.h>

/* The messages of a model that contain types and operators, by their fields. */
enum message { MODEL, GRAPH, NODE, ATTRIBUTE, TENSOR, VALUE, TYPE, TENSOR_TYPE, FUNCTION, MESSAGES };

struct edge {
	enum message from;
	uint32_t field;
	enum message to;
};

static const struct edge edges[] = {
	{ MODEL, 7, GRAPH },	 { MODEL, 25, FUNCTION }, { GRAPH, 1, NODE },
	{ GRAPH, 5, TENSOR },	 { GRAPH, 11, VALUE },	  { GRAPH, 12, VALUE },
	{ NODE, 5, ATTRIBUTE },	 { ATTRIBUTE, 5, TENSOR }, { ATTRIBUTE, 6, GRAPH },
	{ ATTRIBUTE, 10, TENSOR }, { ATTRIBUTE, 11, GRAPH }, { VALUE, 2, TYPE },
	{ TYPE, 1, TENSOR_TYPE }, { FUNCTION, 7, NODE },
};

static bool is(struct rvl_span s, const char *word)
{
	return s.len == strlen(word) && !memcmp(s.p, word, s.len);
}

static bool excluded(struct rvl_span op)
{
	static const char *const names[] = {
		"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
		"Multinomial", "Bernoulli", "ImageDecoder", "TfIdfVectorizer",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is(op, names[i]))
			return true;
	return op.len > 4 && !memcmp(op.p + op.len - 4, "Loss", 4);
}

/* TensorProto.DataType: all types except strings, complex numbers, and integers below 8 bits. */
static bool measured_type(uint64_t t)
{
	return (t >= 1 && t <= 13 && t != 8) || t == 16;
}

static int walk(const struct rvl_msg *m, const struct rvl_field *f, void *arg);

static int field_of(enum message kind, const struct rvl_msg *m, const struct rvl_field *f)
{
	bool types = (kind == TENSOR && f->num == 2) || (kind == TENSOR_TYPE && f->num == 1);

	if (types && f->wire == RVL_WIRE_VARINT)
		return measured_type(f->u) ? 0 : 1;
	if (kind == TYPE && f->num != 1 && f->num != 6)
		return 1;	/* a sequence, a map, an optional value */
	if (kind == NODE && f->num == 4)
		return excluded(f->s);
	if (kind == NODE && f->num == 7)
		return f->s.len && !is(f->s, "ai.onnx");
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		enum message to = edges[i].to;

		if (edges[i].from == kind && edges[i].field == f->num && f->wire == RVL_WIRE_BYTES)
			return rvl_msg_each(rvl_msg_sub(m, f, "message"), walk, &to);
	}
	return 0;
}

static int walk(const struct rvl_msg *m, const struct rvl_field *f, void *arg)
{
	return field_of(*(const enum message *)arg, m, f);
}

bool test_is_eligible(const void *model, size_t size)
{
	enum message kind = MODEL;

	return !rvl_msg_each(rvl_msg_file(model, size, "ModelProto", NULL), walk, &kind);
}
