/* SPDX-License-Identifier: MIT */
/*
 * Tests the ONNX reader byte by byte: every wire type where it belongs and where not, typed data of
 * every element type, limits of lists and names, and versions and domains.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "onnx/onnx.h"
#include "suite.h"
#include "unit/pbuild.h"

static struct rvl_graph *g;
static struct rvl_tensor *t;
static struct rvl_err err;

static void setup(void)
{
	g = rvl_graph_new();
	t = NULL;
	err.msg[0] = '\0';
}

static void teardown(void)
{
	rvl_graph_free(g);
}

static void says(int rc, int want, const char *text)
{
	ck_assert_msg(rc == want && !strcmp(err.msg, text), "%d, \"%s\", not %d, \"%s\"", rc,
		      err.msg, want, text);
	err.msg[0] = '\0';
}

/* Reads a TensorProto and frees its bytes, so that the tensor's data must not point into them. */
static int tensor(struct pb *b, const char *name)
{
	int rc = rvl_onnx_load_tensor(g, b->p, b->n, name, &t, &err);

	free(b->p);
	*b = (struct pb){ .p = NULL };
	return rc;
}

/* ---- tensors ---- */

static void put_fixed(struct pb *b, unsigned int field, int wire, const void *v, size_t n)
{
	pb_varint(b, (uint64_t)field << 3 | (unsigned int)wire);
	pb_bytes(b, v, n);
}

/*
 * Element types that the compiler supports: number, field of their data, wire type of that field.
 */
static const struct {
	int type, field, wire;
	enum rvl_type is;
} kinds[] = {
	{ 1, 4, 5, RVL_TYPE_F32 }, { 2, 5, 0, RVL_TYPE_U8 },  { 3, 5, 0, RVL_TYPE_S8 },
	{ 6, 5, 0, RVL_TYPE_S32 }, { 7, 7, 0, RVL_TYPE_S64 }, { 9, 5, 0, RVL_TYPE_BOOL },
};

static int64_t value(int64_t i)
{
	switch (t->type) {
	case RVL_TYPE_F32:
		return (int64_t)((const float *)t->data)[i];
	case RVL_TYPE_S32:
		return ((const int32_t *)t->data)[i];
	case RVL_TYPE_S64:
		return ((const int64_t *)t->data)[i];
	case RVL_TYPE_S8:
		return ((const int8_t *)t->data)[i];
	default:
		return ((const uint8_t *)t->data)[i];
	}
}

/* Three elements: one by one, packed, and the two mixed. */
START_TEST(typed_data_of_every_form)
{
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (int form = 0; form < 3; form++) {
			bool boolean = kinds[k].is == RVL_TYPE_BOOL,
			     byte = kinds[k].is == RVL_TYPE_U8;
			int64_t v[3] = { 100, boolean || byte ? 7 : -3, 1 };
			struct pb b = { .p = NULL }, packed = { .p = NULL };

			pb_int(&b, 1, 3);
			pb_int(&b, 2, (uint64_t)kinds[k].type);
			for (int i = 0; i < 3; i++) {
				struct pb *to = form == 1 || (form == 2 && i) ? &packed : &b;
				float f = (float)v[i];

				if (kinds[k].wire == 5 && to == &b)
					put_fixed(&b, (unsigned int)kinds[k].field, 5, &f, 4);
				else if (kinds[k].wire == 5)
					pb_bytes(to, &f, 4);
				else if (to == &b)
					pb_int(&b, (unsigned int)kinds[k].field, (uint64_t)v[i]);
				else
					pb_varint(to, (uint64_t)v[i]);
			}
			if (form)
				pb_msg(&b, (unsigned int)kinds[k].field, &packed);
			ck_assert_msg(!tensor(&b, NULL), "%s", err.msg);
			ck_assert_int_eq(t->type, kinds[k].is);
			for (int i = 0; i < 3; i++)
				ck_assert_int_eq(value(i), boolean ? v[i] != 0 : v[i]);
		}
	}
}
END_TEST

START_TEST(typed_data_that_does_not_fit)
{
	struct pb b = { .p = NULL }, packed = { .p = NULL };

	pb_int(&b, 1, 2);
	pb_int(&b, 2, 6);
	pb_int(&b, 5, 1);
	says(tensor(&b, "w"), -EBADMSG,
	     "malformed ONNX: tensor 'w' has 1 elements of data where its shape needs 2");
	pb_int(&b, 1, 2);
	pb_int(&b, 2, 6);
	for (int i = 0; i < 3; i++)
		pb_int(&b, 5, 1);
	says(tensor(&b, "v"), -EBADMSG,
	     "malformed ONNX: tensor 'v' has 3 elements of data where its shape needs 2");
	/* The field for data of another type is ignored. */
	pb_int(&b, 2, 6);
	pb_int(&b, 7, 1);
	says(tensor(&b, "u"), -EBADMSG,
	     "malformed ONNX: tensor 'u' has 0 elements of data where its shape needs 1");
	pb_int(&b, 2, 1);
	pb_int(&b, 4, 1);
	says(tensor(&b, "s"), -EBADMSG,
	     "malformed ONNX: TensorProto field 4 at byte 2: its wire type does not fit the field");
	pb_int(&b, 2, 1);
	pb_bytes(&packed, "abcde", 5);
	pb_msg(&b, 4, &packed);
	says(tensor(&b, "r"), -EBADMSG,
	     "malformed ONNX: TensorProto field 4 at byte 2: an element of the packed list is cut");
	pb_int(&b, 2, 6);
	pb_bytes(&packed, "\x01\x80", 2);
	pb_msg(&b, 5, &packed);
	says(tensor(&b, "q"), -EBADMSG,
	     "malformed ONNX: TensorProto field 5 at byte 2: an element of the packed list is cut");
}
END_TEST

START_TEST(dimensions_packed_and_not)
{
	struct pb b = { .p = NULL }, packed = { .p = NULL };

	pb_int(&b, 1, 2);
	pb_varint(&packed, 1);
	pb_varint(&packed, 300);
	pb_msg(&b, 1, &packed);
	pb_int(&b, 1, 0);
	pb_int(&b, 2, 2);
	pb_len(&b, 9, "", 0);
	ck_assert_msg(!tensor(&b, NULL), "%s", err.msg);
	ck_assert(t->shape.rank == 4 && t->shape.dim[0] == 2 && t->shape.dim[1] == 1 &&
		  t->shape.dim[2] == 300 && !t->shape.dim[3]);
	ck_assert_ptr_nonnull(t->data);
	pb_int(&b, 1, 1 << 24);
	pb_int(&b, 2, 2);
	says(tensor(&b, "a"), -EBADMSG,
	     "malformed ONNX: tensor 'a' has 0 elements of data where its shape needs 16777216");
	pb_int(&b, 1, (1 << 24) + 1);
	says(tensor(&b, "b"), -E2BIG,
	     "TensorProto field 1 at byte 0: dimension 16777217 is not in 0..16777216");
	pb_int(&b, 1, (uint64_t)-1);
	says(tensor(&b, "c"), -E2BIG,
	     "TensorProto field 1 at byte 0: dimension -1 is not in 0..16777216");
	for (int i = 0; i < 8; i++)
		pb_int(&b, 1, 1);
	pb_int(&b, 2, 2);
	pb_len(&b, 9, "x", 1);
	ck_assert_int_eq(tensor(&b, NULL), 0);
	ck_assert_int_eq(t->shape.rank, 8);
	for (int i = 0; i < 9; i++)
		pb_int(&b, 1, 1);
	says(tensor(&b, "d"), -E2BIG, "the tensor at byte 16 has more than 8 dimensions");
	put_fixed(&b, 1, 5, "abcd", 4);
	says(tensor(&b, "e"), -EBADMSG,
	     "malformed ONNX: TensorProto field 1 at byte 0: its wire type does not fit the field");
	pb_bytes(&packed, "\x80", 1);
	pb_msg(&b, 1, &packed);
	says(tensor(&b, "f"), -EBADMSG,
	     "malformed ONNX: TensorProto field 1 at byte 0: an element of the packed list is cut");
}
END_TEST

START_TEST(heads_of_tensors)
{
	struct pb b = { .p = NULL };

	pb_int(&b, 2, 99);
	pb_str(&b, 8, "w");
	says(tensor(&b, NULL), -EBADMSG, "malformed ONNX: 'w' has element type 99");
	pb_int(&b, 2, 0);
	says(tensor(&b, NULL), -EBADMSG, "malformed ONNX: '' has element type 0");
	pb_str(&b, 2, "x");
	says(tensor(&b, NULL), -EBADMSG,
	     "malformed ONNX: TensorProto field 2 at byte 0: its wire type does not fit the field");
	pb_int(&b, 8, 1);
	says(tensor(&b, NULL), -EBADMSG,
	     "malformed ONNX: TensorProto field 8 at byte 0: its wire type does not fit the field");
	pb_int(&b, 9, 1);
	says(tensor(&b, NULL), -EBADMSG,
	     "malformed ONNX: TensorProto field 9 at byte 0: its wire type does not fit the field");
	pb_str(&b, 14, "");
	says(tensor(&b, NULL), -EBADMSG,
	     "malformed ONNX: TensorProto field 14 at byte 0: its wire type does not fit the field");
	pb_int(&b, 13, 1);
	says(tensor(&b, NULL), -EBADMSG,
	     "malformed ONNX: TensorProto field 13 at byte 0: its wire type does not fit the field");
	pb_int(&b, 14, 0);
	pb_int(&b, 2, 2);
	pb_int(&b, 77, 5);
	pb_str(&b, 8, "inner");
	pb_len(&b, 9, "\x05", 1);
	ck_assert_msg(!rvl_onnx_load_tensor(g, b.p, b.n, NULL, &t, &err), "%s", err.msg);
	ck_assert_str_eq(t->name, "inner");
	ck_assert_uint_eq(*(const uint8_t *)t->data, 5);
	ck_assert_msg(!rvl_onnx_load_tensor(g, b.p, b.n, "outer", &t, &err), "%s", err.msg);
	ck_assert_str_eq(t->name, "outer");
	free(b.p);
	b = (struct pb){ .p = NULL };
	pb_int(&b, 1, 2);
	pb_int(&b, 2, 1);
	pb_len(&b, 9, "1234567", 7);
	says(tensor(&b, "r"), -EBADMSG,
	     "malformed ONNX: tensor 'r' has 7 bytes of data where its shape needs 8");
	pb_int(&b, 1, 1 << 24);
	pb_int(&b, 1, 65);
	pb_int(&b, 2, 2);
	says(tensor(&b, "l"), -E2BIG, "tensor 'l' is larger than 1073741824 bytes");
	/* Types without kernels become tensors that no node can read. */
	pb_int(&b, 2, 14);
	ck_assert_int_eq(tensor(&b, "complex"), 0);
	ck_assert_str_eq(t->bad, "element type complex64 is not supported");
	ck_assert_int_eq(t->type, RVL_TYPE_NONE);
	ck_assert_ptr_nonnull(t->data);
}
END_TEST

/* ---- models ---- */

/* x - Relu - y; extra bytes follow in the node, the graph and the model. */
static struct pb model_with(struct pb *node, struct pb *graph, struct pb *model, int ir, int opset,
			    const char *domain)
{
	static const int64_t dims[] = { 2, -1 };
	struct pb n = pb_node("Relu", "x", "y"), gr = { .p = NULL }, v = pb_value("x", 1, dims),
		  o = { .p = NULL };
	struct pb m = { .p = NULL }, s = { .p = NULL };

	if (node)
		pb_bytes(&n, node->p, node->n);
	pb_msg(&gr, 1, &n);
	pb_msg(&gr, 11, &v);
	pb_str(&o, 1, "y");
	pb_msg(&gr, 12, &o);
	if (graph)
		pb_bytes(&gr, graph->p, graph->n);
	pb_int(&m, 1, (uint64_t)ir);
	pb_msg(&m, 7, &gr);
	if (domain)
		pb_str(&s, 1, domain);
	pb_int(&s, 2, (uint64_t)opset);
	pb_msg(&m, 8, &s);
	if (model)
		pb_bytes(&m, model->p, model->n);
	return m;
}

static int load(struct pb *m)
{
	struct rvl_graph *h = NULL;
	int rc = rvl_onnx_load(m->p, m->n, NULL, &h, &err);

	if (!rc)
		rc = rvl_shape_infer(h, &err);
	if (!rc)
		rc = rvl_graph_check_supported(h, &err);
	rvl_graph_free(h);
	free(m->p);
	return rc;
}

static int load_with(struct pb *node, struct pb *graph, struct pb *model)
{
	struct pb m = model_with(node, graph, model, 8, 13, NULL);

	if (node)
		free(node->p);
	if (graph)
		free(graph->p);
	if (model)
		free(model->p);
	return load(&m);
}

START_TEST(versions)
{
	static const struct {
		int ir, opset;
		const char *domain;
		int rc;
		const char *says;
	} cases[] = {
		{ 3, 13, NULL, 0, "" },
		{ 2, 13, NULL, -EOPNOTSUPP, "ONNX IR version 2 is not one of 3 to 14" },
		{ 10, 13, NULL, 0, "" },
		{ 15, 13, NULL, -EOPNOTSUPP, "ONNX IR version 15 is not one of 3 to 14" },
		{ 8, 21, "", 0, "" },
		{ 8, 29, NULL, -EOPNOTSUPP, "ONNX opset 29 is not one of 1 to 28" },
		{ 8, 29, "ai.onnx", -EOPNOTSUPP, "ONNX opset 29 is not one of 1 to 28" },
		{ 8, 6, "ai.onnx", 0, "" },
		{ 8, 0, NULL, -EOPNOTSUPP, "ONNX opset 0 is not one of 1 to 28" },
		{ 8, -1, NULL, -EOPNOTSUPP, "ONNX opset -1 is not one of 1 to 28" },
		/* Opsets of other domains do not count. */
		{ 8, 99, "com.microsoft", -EOPNOTSUPP,
		  "node 'Relu_0' (Relu): opset 0 of this operator is older than 1" },
		{ 8, 99, "ai.onnx.ml", -EOPNOTSUPP,
		  "node 'Relu_0' (Relu): opset 0 of this operator is older than 1" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pb m =
			model_with(NULL, NULL, NULL, cases[i].ir, cases[i].opset, cases[i].domain);

		says(load(&m), cases[i].rc, cases[i].says);
	}
}
END_TEST

/* A known field with another wire type: a varint instead of bytes, or the reverse. */
START_TEST(wire_types_of_known_fields)
{
	static const struct {
		char where;
		unsigned int field;
		bool varint;
		const char *message;
	} cases[] = {
		{ 'm', 1, true, "ModelProto" },	  { 'm', 2, false, "ModelProto" },
		{ 'm', 7, false, "ModelProto" },  { 'm', 8, false, "ModelProto" },
		{ 'g', 1, false, "GraphProto" },  { 'g', 2, false, "GraphProto" },
		{ 'g', 5, false, "GraphProto" },  { 'g', 11, false, "GraphProto" },
		{ 'g', 12, false, "GraphProto" }, { 'g', 13, false, "GraphProto" },
		{ 'n', 1, false, "NodeProto" },	  { 'n', 2, false, "NodeProto" },
		{ 'n', 3, false, "NodeProto" },	  { 'n', 4, false, "NodeProto" },
		{ 'n', 5, false, "NodeProto" },	  { 'n', 6, false, "NodeProto" },
		{ 'n', 7, false, "NodeProto" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pb b = { .p = NULL };
		char want[64];
		int rc;

		if (cases[i].varint)
			pb_str(&b, cases[i].field, "x");
		else
			pb_int(&b, cases[i].field, 1);
		rc = load_with(cases[i].where == 'n' ? &b : NULL, cases[i].where == 'g' ? &b : NULL,
			       cases[i].where == 'm' ? &b : NULL);
		snprintf(want, sizeof(want), "malformed ONNX: %s field %u at byte",
			 cases[i].message, cases[i].field);
		ck_assert_msg(rc == -EBADMSG && !strncmp(err.msg, want, strlen(want)) &&
				      strstr(err.msg, ": its wire type does not fit the field"),
			      "%s: %d, %s", want, rc, err.msg);
	}
}
END_TEST

/* Unknown fields of every wire type are skipped. */
START_TEST(unknown_fields_are_skipped)
{
	for (int where = 0; where < 3; where++) {
		struct pb b = { .p = NULL };

		pb_int(&b, 100, 7);
		put_fixed(&b, 101, 1, "12345678", 8);
		pb_str(&b, 102, "text");
		put_fixed(&b, 103, 5, "1234", 4);
		says(load_with(where == 0 ? &b : NULL, where == 1 ? &b : NULL,
			       where == 2 ? &b : NULL),
		     0, "");
	}
}
END_TEST

START_TEST(second_graphs_and_wide_keys)
{
	struct pb b = { .p = NULL };

	pb_str(&b, 7, "");
	says(load_with(NULL, NULL, &b), -EBADMSG,
	     "malformed ONNX: ModelProto has a second graph at byte 44");
	b = (struct pb){ .p = NULL };
	pb_varint(&b, (uint64_t)UINT32_MAX + 1);
	pb_bytes(&b, "\x01", 1);
	says(load_with(NULL, NULL, &b), -EBADMSG,
	     "malformed ONNX: ModelProto field 0 at byte 44: no such field number");
	b = (struct pb){ .p = NULL };
	pb_varint(&b, UINT32_MAX & ~7u);
	pb_bytes(&b, "\x01", 1);
	says(load_with(NULL, NULL, &b), 0, "");
	b = (struct pb){ .p = NULL };
	pb_bytes(&b, "\x80", 1);
	says(load_with(NULL, NULL, &b), -EBADMSG,
	     "malformed ONNX: ModelProto field 0 at byte 44: the key is cut or too long");
}
END_TEST

/* Numbers of ten bytes: the last may hold one bit. */
START_TEST(numbers_have_64_bits)
{
	static const struct {
		const char *bytes;
		size_t n;
		int rc;
		const char *says;
	} cases[] = {
		{ "\xa0\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, 0, "" },
		{ "\xa0\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 12, -EBADMSG,
		  "malformed ONNX: ModelProto field 100 at byte 44: the number is cut or too "
		  "long" },
		{ "\xa0\x06\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12, 0, "" },
		{ "\xa0\x06\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 13, -EBADMSG,
		  "malformed ONNX: ModelProto field 100 at byte 44: the number is cut or too "
		  "long" },
		{ "\xa2\x06\x80", 3, -EBADMSG,
		  "malformed ONNX: ModelProto field 100 at byte 44: the length is cut or too "
		  "long" },
		{ "\xa2\x06\x01", 3, -EBADMSG,
		  "malformed ONNX: ModelProto field 100 at byte 44: it is longer than its "
		  "message" },
		{ "\xa1\x06"
		  "1234567",
		  9, -EBADMSG,
		  "malformed ONNX: ModelProto field 100 at byte 44: the 64-bit number is cut" },
		{ "\xa5\x06"
		  "123",
		  5, -EBADMSG,
		  "malformed ONNX: ModelProto field 100 at byte 44: the 32-bit number is cut" },
		{ "\xa3\x06", 2, -EBADMSG,
		  "malformed ONNX: ModelProto field 100 at byte 44: wire type is not of proto3" },
		{ "\xa6\x06", 2, -EBADMSG,
		  "malformed ONNX: ModelProto field 100 at byte 44: wire type is not of proto3" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pb b = { .p = NULL };

		pb_bytes(&b, cases[i].bytes, cases[i].n);
		says(load_with(NULL, NULL, &b), cases[i].rc, cases[i].says);
	}
}
END_TEST

/* ---- attributes and operands ---- */

static struct pb attribute(const char *name)
{
	struct pb a = { .p = NULL };

	pb_str(&a, 1, name);
	return a;
}

START_TEST(attributes_have_their_wire_types)
{
	static const struct {
		unsigned int field;
		bool varint;
	} cases[] = {
		{ 1, false }, { 2, false }, { 3, true },  { 4, false },
		{ 5, false }, { 7, false }, { 20, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pb n = { .p = NULL }, a = attribute("a");
		char want[64];
		int rc;

		if (cases[i].varint)
			pb_str(&a, cases[i].field, "x");
		else
			pb_int(&a, cases[i].field, 1);
		pb_msg(&n, 5, &a);
		rc = load_with(&n, NULL, NULL);
		snprintf(want, sizeof(want), "malformed ONNX: AttributeProto field %u at byte",
			 cases[i].field);
		ck_assert_msg(rc == -EBADMSG && !strncmp(err.msg, want, strlen(want)), "%s: %d, %s",
			      want, rc, err.msg);
	}
}
END_TEST

START_TEST(as_many_attributes_as_there_may_be)
{
	for (int count = 64; count <= 65; count++) {
		struct pb n = { .p = NULL };

		for (int i = 0; i < count; i++) {
			struct pb a = attribute("a");

			pb_msg(&n, 5, &a);
		}
		says(load_with(&n, NULL, NULL), count == 64 ? -EOPNOTSUPP : -E2BIG,
		     count == 64 ? "node 'Relu_0' (Relu): attribute 'a' is not supported" :
				   "the node at byte 5 has more than 64 attributes");
	}
}
END_TEST

START_TEST(as_many_operands_as_there_may_be)
{
	for (int count = 1024; count <= 1025; count++) {
		for (unsigned int field = 1; field <= 2; field++) {
			struct pb n = { .p = NULL };
			int rc;

			for (int i = 1; i < count; i++)
				pb_str(&n, field, "");
			rc = load_with(&n, NULL, NULL);
			if (count == 1025)
				says(rc, -E2BIG, "a node has more than 1024 inputs or outputs");
			else if (field == 1)
				says(rc, -EBADMSG,
				     "node 'Relu_0' (Relu) has 1024 inputs, not 1 to 1");
			else
				ck_assert_int_eq(rc, 0);	/* shape inference refuses them */
		}
	}
}
END_TEST

/* Packed lists of numbers, and invalid ones. */
START_TEST(packed_lists)
{
	static const int64_t dims[] = { 1, 1, 6, 6, -1 };
	struct pb n = pb_node("MaxPool", "x", "y"), a = attribute("kernel_shape"),
		  list = { .p = NULL }, gr = { .p = NULL };
	struct pb v = pb_value("x", 1, dims), m;
	struct rvl_graph *h;

	pb_varint(&list, 3);
	pb_varint(&list, 2);
	pb_msg(&a, 8, &list);
	pb_msg(&n, 5, &a);
	pb_msg(&gr, 1, &n);
	pb_msg(&gr, 11, &v);
	pb_str(&v, 1, "y");
	pb_msg(&gr, 12, &v);
	m = pb_model(&gr, 8, 13);
	ck_assert_msg(!rvl_onnx_load(m.p, m.n, NULL, &h, &err), "%s", err.msg);
	ck_assert(h->nodes[0]->attr.kernel[0] == 3 && h->nodes[0]->attr.kernel[1] == 2);
	rvl_graph_free(h);
	free(m.p);
	n = (struct pb){ .p = NULL };
	a = attribute("a");
	pb_len(&a, 8, "\x01\x80", 2);
	pb_msg(&n, 5, &a);
	says(load_with(&n, NULL, NULL), -EBADMSG,
	     "malformed ONNX: AttributeProto field 8 at byte 23: an element of the packed list is "
	     "cut");
	n = (struct pb){ .p = NULL };
	a = attribute("a");
	pb_len(&a, 7, "12345", 5);
	pb_msg(&n, 5, &a);
	says(load_with(&n, NULL, NULL), -EBADMSG,
	     "malformed ONNX: AttributeProto field 7 at byte 23: an element of the packed list is "
	     "cut");
}
END_TEST

START_TEST(options_have_ranges)
{
	static const struct {
		int64_t batch, symbol;
		int rc;
	} cases[] = {
		{ RVL_MAX_DIM, 0, 0 }, { RVL_MAX_DIM + 1, 0, -EINVAL },
		{ 0, RVL_MAX_DIM, 0 }, { 0, RVL_MAX_DIM + 1, -EINVAL },
		{ -1, 0, -EINVAL },    { 0, -1, -EINVAL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct rvl_onnx_opts o = { .batch = cases[i].batch,
						 .symbol = cases[i].symbol };
		struct pb m = model_with(NULL, NULL, NULL, 8, 13, NULL);
		struct rvl_graph *h = NULL;

		says(rvl_onnx_load(m.p, m.n, &o, &h, &err), cases[i].rc,
		     cases[i].rc ? "a symbolic dimension can be fixed to 1..16777216 only" : "");
		rvl_graph_free(h);
		free(m.p);
	}
}
END_TEST

/* The first dimension takes the batch, the others the symbol; known ones stay. */
START_TEST(symbols_take_their_values)
{
	static const int64_t dims[] = { -2, 3, -2, -1 };
	struct pb n = pb_node("Relu", "x", "y"), gr = { .p = NULL }, v = pb_value("x", 1, dims), m;
	const struct rvl_onnx_opts o = { .batch = 5, .symbol = 7 };
	struct rvl_graph *h;

	pb_msg(&gr, 1, &n);
	pb_msg(&gr, 11, &v);
	pb_str(&v, 1, "y");
	pb_msg(&gr, 12, &v);
	m = pb_model(&gr, 8, 13);
	ck_assert_int_eq(rvl_onnx_load(m.p, m.n, &o, &h, &err), 0);
	ck_assert(h->inputs[0]->shaped && h->inputs[0]->declared && h->inputs[0]->is_input);
	ck_assert(h->inputs[0]->shape.dim[0] == 5 && h->inputs[0]->shape.dim[1] == 3 &&
		  h->inputs[0]->shape.dim[2] == 7);
	rvl_graph_free(h);
	ck_assert_int_eq(rvl_onnx_load(m.p, m.n, NULL, &h, &err), 0);
	ck_assert(!h->inputs[0]->shaped && !h->inputs[0]->declared);
	rvl_graph_free(h);
	free(m.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("reader");
	TCase *c = tcase_create("all");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, typed_data_of_every_form);
	tcase_add_test(c, typed_data_that_does_not_fit);
	tcase_add_test(c, dimensions_packed_and_not);
	tcase_add_test(c, heads_of_tensors);
	tcase_add_test(c, versions);
	tcase_add_test(c, wire_types_of_known_fields);
	tcase_add_test(c, unknown_fields_are_skipped);
	tcase_add_test(c, second_graphs_and_wide_keys);
	tcase_add_test(c, numbers_have_64_bits);
	tcase_add_test(c, attributes_have_their_wire_types);
	tcase_add_test(c, as_many_attributes_as_there_may_be);
	tcase_add_test(c, as_many_operands_as_there_may_be);
	tcase_add_test(c, packed_lists);
	tcase_add_test(c, options_have_ranges);
	tcase_add_test(c, symbols_take_their_values);
	suite_add_tcase(s, c);
	return run_suite(s);
}
