/* SPDX-License-Identifier: MIT */
/*
 * Small ONNX models written as text, for tables of tests. Statements end with ';':
 *
 *	in NAME TYPE DIMS		an input; a dimension of ? is symbolic, DIMS of - is a scalar
 *	const NAME TYPE DIMS VALUES	an initializer; one value fills it, more are its elements, and ~1.5 is
 *					different values from -1.5 to 1.5
 *	out NAME [TYPE DIMS]
 *	info NAME TYPE DIMS		what the model declares of a value inside
 *	OP IN... -> OUT... ATTR...	a node; an operand of _ is absent, OP may end with @DOMAIN
 *
 * TYPE is f32, u8, s8, s16, s32, s64, bool or a number of ONNX (11: float64). ATTR is name=3, name=[1,2], name=0.5f or
 *name='text' or name=['a','b'].
 */
#ifndef RVL_ONNX_TEXT_H
#define RVL_ONNX_TEXT_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/pbuild.h"

static inline int ot_type(const char *s)
{
	static const struct {
		const char *name;
		int type;
	} types[] = {
		{ "f32", 1 }, { "u8", 2 }, { "s8", 3 }, { "s16", 5 }, { "s32", 6 }, { "s64", 7 }, { "bool", 9 },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(s, types[i].name))
			return types[i].type;
	return atoi(s);
}

/* Parses "1,?,3" into @dim, which -1 ends. Returns the number of dimensions. */
static inline int ot_dims(const char *s, int64_t *dim)
{
	int n = 0;

	while (*s && strcmp(s, "-")) {
		char *end;

		dim[n] = *s == '?' ? -2 : strtoll(s, &end, 10);
		s = *s == '?' ? s + 1 : end;
		s += *s == ',';
		n++;
	}
	dim[n] = -1;
	return n;
}

static inline void ot_put(struct pb *raw, int type, double v)
{
	float f = (float)v;
	int64_t i = (int64_t)v;

	if (type == 1)
		pb_bytes(raw, &f, 4);
	else if (type == 11)
		pb_bytes(raw, &v, 8);
	else
		pb_bytes(raw, &i, type == 7 ? 8 : type == 6 ? 4 : type == 5 ? 2 : 1);
}

static inline void ot_const(struct pb *graph, char **save)
{
	const char *name = strtok_r(NULL, " ", save);
	int type = ot_type(strtok_r(NULL, " ", save));
	struct pb raw = { .p = NULL }, t;
	int64_t dim[16], n = 1, k = 0;
	bool spread = false;
	double v = 0;

	ot_dims(strtok_r(NULL, " ", save), dim);
	for (int i = 0; dim[i] >= 0; i++)
		n *= dim[i];
	for (const char *w = strtok_r(NULL, " ", save); w; w = strtok_r(NULL, " ", save)) {
		spread = *w == '~';
		v = strtod(w + spread, NULL);
		if (!spread)
			ot_put(&raw, type, v);
		k += !spread;
	}
	for (; k < n; k++)
		ot_put(&raw, type, spread ? v * ((double)(k * 7919 % 2003) / 1001 - 1) : v);
	t = pb_tensor(name, type, dim, raw.p, raw.n);
	free(raw.p);
	pb_msg(graph, 5, &t);
}

static inline void ot_value(struct pb *graph, unsigned int field, char **save)
{
	const char *name = strtok_r(NULL, " ", save), *type = strtok_r(NULL, " ", save);
	struct pb v = { .p = NULL };
	int64_t dim[16];

	if (type) {
		ot_dims(strtok_r(NULL, " ", save), dim);
		v = pb_value(name, ot_type(type), dim);
	} else {
		pb_str(&v, 1, name);
	}
	pb_msg(graph, field, &v);
}

static inline void ot_attr(struct pb *node, const char *name, const char *v)
{
	char text[64];
	int64_t list[80];
	int n = 0;

	if (v[0] == '[' && v[1] == '\'') {
		struct pb a = { .p = NULL };

		pb_str(&a, 1, name);
		for (v += 2; *v && *v != ']'; v += strspn(v, "',")) {
			n = (int)strcspn(v, "'");
			snprintf(text, sizeof(text), "%.*s", n, v);
			pb_str(&a, 9, text);
			v += n;
		}
		pb_int(&a, 20, 8);
		pb_msg(node, 5, &a);
	} else if (*v == '[') {
		for (v++; *v && *v != ']'; v += *v == ',') {
			char *end;

			list[n++] = strtoll(v, &end, 10);
			v = end;
		}
		pb_attr_ints(node, name, list, (size_t)n);
	} else if (*v == '\'') {
		snprintf(text, sizeof(text), "%.*s", (int)strcspn(v + 1, "'"), v + 1);
		pb_attr_str(node, name, text);
	} else if (strchr(v, 'f')) {
		pb_attr_float(node, name, strtof(v, NULL));
	} else {
		pb_attr_int(node, name, atoll(v));
	}
}

static inline void ot_node(struct pb *graph, char *op, char **save)
{
	struct pb n = { .p = NULL };
	char *domain = strchr(op, '@');
	unsigned int field = 1;

	if (domain)
		*domain++ = '\0';
	for (char *w = strtok_r(NULL, " ", save); w; w = strtok_r(NULL, " ", save)) {
		char *eq = strchr(w, '=');

		if (!strcmp(w, "->")) {
			field = 2;
		} else if (!eq) {
			pb_str(&n, field, strcmp(w, "_") ? w : "");
		} else {
			*eq = '\0';
			ot_attr(&n, w, eq + 1);
		}
	}
	pb_str(&n, 4, op);
	if (domain)
		pb_str(&n, 7, domain);
	pb_msg(graph, 1, &n);
}

/* The bytes of a model; the caller frees them. */
static inline struct pb ot_model(const char *text, int opset)
{
	struct pb graph = { .p = NULL };
	char *copy = strdup(text), *save = NULL;

	pb_str(&graph, 2, "g");
	for (char *s = strtok_r(copy, ";", &save); s; s = strtok_r(NULL, ";", &save)) {
		char *words = NULL, *first = strtok_r(s, " ", &words);

		if (!first)
			continue;
		if (!strcmp(first, "in"))
			ot_value(&graph, 11, &words);
		else if (!strcmp(first, "out"))
			ot_value(&graph, 12, &words);
		else if (!strcmp(first, "info"))
			ot_value(&graph, 13, &words);
		else if (!strcmp(first, "const"))
			ot_const(&graph, &words);
		else
			ot_node(&graph, first, &words);
	}
	free(copy);
	return pb_model(&graph, 8, opset);
}

#endif
