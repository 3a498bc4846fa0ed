/* SPDX-License-Identifier: MIT */
/*
 * The ONNX reader: accepted models, refused models and their error texts, and arbitrary bytes,
 * which must not crash it. CI also runs this test with SAN=1.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "npu/partition.h"
#include "onnx/onnx.h"
#include "pass/passes.h"
#include "chance.h"
#include "suite.h"
#include "unit/pbuild.h"

#define F32 1
#define U8 2
#define S8 3
#define S32 6
#define S64 7
#define BOOL 9

#define DIMS(...) ((const int64_t[]) { __VA_ARGS__, -1 })
#define SCALAR ((const int64_t[]) { -1 })

static struct rvl_err err;

/* A graph with input x, output y and one node. Callers may append to it before they load it. */
static struct pb graph_of(struct pb *node, int type, const int64_t *x)
{
	struct pb g = { .p = NULL };
	struct pb in = pb_value("x", type, x), out = { .p = NULL };

	pb_msg(&g, 1, node);
	pb_str(&g, 2, "g");
	pb_msg(&g, 11, &in);
	pb_str(&out, 1, "y");
	pb_msg(&g, 12, &out);
	return g;
}

/* A graph that was loaded and whose shapes were inferred. @g is NULL if that failed with @rc. */
struct loaded {
	struct pb bytes;
	struct rvl_graph *g;
	int rc;
};

static struct loaded load_opset(struct pb *graph, int ir, int opset)
{
	struct loaded l = { .bytes = pb_model(graph, ir, opset) };

	err.msg[0] = 0;
	l.rc = rvl_onnx_load(l.bytes.p, l.bytes.n, NULL, &l.g, &err);
	if (!l.rc) {
		l.rc = rvl_shape_infer(l.g, &err);
		if (!l.rc)
			l.rc = rvl_graph_check_supported(l.g, &err);
	}
	return l;
}

static struct loaded load(struct pb *graph)
{
	return load_opset(graph, 8, 13);
}

static void unload(struct loaded *l)
{
	rvl_graph_free(l->g);
	free(l->bytes.p);
}

static void check_shape(const struct rvl_graph *g, const char *name, enum rvl_type type,
			const int64_t *dims)
{
	const struct rvl_tensor *t = rvl_tensor_find(g, name);
	int i = 0;

	ck_assert_ptr_nonnull(t);
	ck_assert_int_eq(t->type, type);
	for (; dims[i] >= 0; i++) {
		ck_assert_int_lt(i, t->shape.rank);
		ck_assert_int_eq(t->shape.dim[i], dims[i]);
	}
	ck_assert_int_eq(t->shape.rank, i);
}

/* Expects a refusal with an error text that contains both words. */
static void refused(struct pb *graph, int rc, const char *a, const char *b)
{
	struct loaded l = load(graph);

	ck_assert_msg(l.rc == rc, "returned %d: %s", l.rc, err.msg);
	ck_assert_msg(strstr(err.msg, a) && strstr(err.msg, b), "'%s' lacks '%s' or '%s'", err.msg,
		      a, b);
	unload(&l);
}

/* ---- accepted models ---- */

START_TEST(reads_names_versions_and_shapes)
{
	struct pb n = pb_node("Relu", "x", "y");
	struct pb g = graph_of(&n, F32, DIMS(2, 3));
	struct loaded l = load(&g);

	ck_assert_msg(l.rc == 0, "%s", err.msg);
	ck_assert_str_eq(l.g->name, "g");
	ck_assert_str_eq(l.g->producer, "test");
	ck_assert_int_eq(l.g->opset, 13);
	ck_assert_uint_eq(l.g->n_inputs, 1);
	ck_assert_str_eq(l.g->nodes[0]->name, "Relu_0");
	check_shape(l.g, "y", RVL_TYPE_F32, DIMS(2, 3));
	unload(&l);
}
END_TEST

/* One initializer of each type as typed data, packed or as single elements. */
static void typed_tensor(int type, unsigned int field, int wire, bool packed)
{
	struct pb t = { .p = NULL }, list = { .p = NULL };
	struct rvl_graph *g = rvl_graph_new();
	struct rvl_tensor *out;

	pb_int(&t, 1, 3);
	pb_int(&t, 2, (uint64_t)type);
	for (int i = 0; i < 3; i++) {
		float f = (float)i;

		if (!packed && wire == 5)
			pb_float(&t, field, f);
		else if (!packed)
			pb_int(&t, field, (uint64_t)i);
		else if (wire == 5)
			pb_bytes(&list, &f, 4);
		else
			pb_varint(&list, (uint64_t)i);
	}
	if (packed)
		pb_msg(&t, field, &list);
	ck_assert_msg(rvl_onnx_load_tensor(g, t.p, t.n, "t", &out, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(rvl_shape_count(&out->shape), 3);
	switch (out->type) {
	case RVL_TYPE_F32:
		ck_assert_float_eq(((const float *)out->data)[2], 2.0f);
		break;
	case RVL_TYPE_S64:
		ck_assert_int_eq(((const int64_t *)out->data)[2], 2);
		break;
	case RVL_TYPE_S32:
		ck_assert_int_eq(((const int32_t *)out->data)[2], 2);
		break;
	default:
		ck_assert_int_eq(((const uint8_t *)out->data)[2], type == BOOL ? 1 : 2);
		break;
	}
	rvl_graph_free(g);
	free(t.p);
}

START_TEST(reads_typed_data_packed_or_not)
{
	for (int packed = 0; packed < 2; packed++) {
		typed_tensor(F32, 4, 5, packed);
		typed_tensor(S32, 5, 0, packed);
		typed_tensor(U8, 5, 0, packed);
		typed_tensor(S8, 5, 0, packed);
		typed_tensor(BOOL, 5, 0, packed);
		typed_tensor(S64, 7, 0, packed);
	}
}
END_TEST

#define UINT4 21
#define INT4 22

/* Five values of 4 bits in three bytes, as raw data or typed, with the first value in the low bits. */
static void check_nibbles(int type, bool raw, const int *want)
{
	static const uint8_t bytes[] = { 0x21, 0xf8, 0x07 };
	struct pb t = { .p = NULL };
	struct rvl_graph *g = rvl_graph_new();
	struct rvl_tensor *out;

	pb_int(&t, 1, 5);
	pb_int(&t, 2, (uint64_t)type);
	if (raw)
		pb_len(&t, 9, bytes, sizeof(bytes));
	for (int i = 0; !raw && i < 3; i++)
		pb_int(&t, 5, bytes[i]);
	ck_assert_msg(rvl_onnx_load_tensor(g, t.p, t.n, "t", &out, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(out->type, type == INT4 ? RVL_TYPE_S8 : RVL_TYPE_U8);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(type == INT4 ? ((const int8_t *)out->data)[i] :
				 ((const uint8_t *)out->data)[i], want[i]);
	rvl_graph_free(g);
	free(t.p);
}

START_TEST(values_of_4_bits_become_bytes)
{
	static const int with_sign[] = { 1, 2, -8, -1, 7 }, without[] = { 1, 2, 8, 15, 7 };

	for (int raw = 0; raw < 2; raw++) {
		check_nibbles(INT4, raw, with_sign);
		check_nibbles(UINT4, raw, without);
	}
}
END_TEST

/* A graph of one node that reads float x and the 4-bit constant w. */
static struct pb nibble_graph(const char *op, const char *in, size_t bytes)
{
	static const uint8_t raw[] = { 0x21, 0xf8 };
	static const float one = 1.0f;
	struct pb n = pb_node(op, in, "y"), g, w, s;

	g = graph_of(&n, F32, DIMS(4));
	w = pb_tensor("w", INT4, DIMS(4), raw, bytes);
	pb_msg(&g, 5, &w);
	s = pb_tensor("s", F32, SCALAR, &one, sizeof(one));
	pb_msg(&g, 5, &s);
	return g;
}

/* Another operator would compute with the range of bytes, as a QuantizeLinear to such a zero point. */
START_TEST(values_of_4_bits_are_dequantised_only)
{
	struct pb g = nibble_graph("DequantizeLinear", "w s", 2);
	struct loaded l = load_opset(&g, 10, 21);

	ck_assert_msg(!l.rc, "%s", err.msg);
	check_shape(l.g, "y", RVL_TYPE_F32, DIMS(4));
	unload(&l);
	g = nibble_graph("Identity", "w", 2);
	refused(&g, -EOPNOTSUPP, "'w'", "4 bits, which only DequantizeLinear takes");
	g = nibble_graph("QuantizeLinear", "x s w", 2);
	refused(&g, -EOPNOTSUPP, "'w'", "4 bits, which only DequantizeLinear takes");
	g = nibble_graph("DequantizeLinear", "w s", 1);
	refused(&g, -EBADMSG, "'w'", "1 bytes of data where its shape needs 2");
}
END_TEST

START_TEST(copies_only_misaligned_raw_data)
{
	const float v[2] = { 1, 2 };
	uint8_t buf[128] __attribute__((aligned(64)));

	for (size_t shift = 0; shift < 4; shift++) {
		struct pb t = pb_tensor("t", F32, DIMS(2), v, sizeof(v));
		struct rvl_graph *g = rvl_graph_new();
		struct rvl_tensor *out;
		bool inside;

		memcpy(buf + shift, t.p, t.n);
		ck_assert_int_eq(rvl_onnx_load_tensor(g, buf + shift, t.n, NULL, &out, &err), 0);
		ck_assert_str_eq(out->name, "t");
		ck_assert_float_eq(((const float *)out->data)[1], 2.0f);
		inside = (const uint8_t *)out->data >= buf &&
			(const uint8_t *)out->data < buf + 128;
		ck_assert_int_eq(inside, (shift + t.n - sizeof(v)) % 4 == 0);
		rvl_graph_free(g);
		free(t.p);
	}
}
END_TEST

START_TEST(fixes_a_symbolic_batch)
{
	struct pb n = pb_node("Relu", "x", "y");
	struct pb g = graph_of(&n, F32, DIMS(-2, 3));
	struct pb m = pb_model(&g, 8, 13);
	struct rvl_onnx_opts opts = { .batch = 5 };
	struct rvl_graph *graph;

	ck_assert_int_eq(rvl_onnx_load(m.p, m.n, NULL, &graph, &err), 0);
	ck_assert_int_eq(rvl_shape_infer(graph, &err), 0);
	check_shape(graph, "y", RVL_TYPE_F32, DIMS(1, 3));
	rvl_graph_free(graph);
	ck_assert_int_eq(rvl_onnx_load(m.p, m.n, &opts, &graph, &err), 0);
	ck_assert_int_eq(rvl_shape_infer(graph, &err), 0);
	check_shape(graph, "y", RVL_TYPE_F32, DIMS(5, 3));
	rvl_graph_free(graph);
	opts.batch = -1;
	ck_assert_int_eq(rvl_onnx_load(m.p, m.n, &opts, &graph, &err), -EINVAL);
	free(m.p);
}
END_TEST

START_TEST(other_symbols_are_refused)
{
	struct pb n = pb_node("Relu", "x", "y");
	struct pb g = graph_of(&n, F32, DIMS(1, -2));

	refused(&g, -EINVAL, "'x'", "symbolic");
}
END_TEST

START_TEST(an_initializer_may_be_listed_as_input)
{
	const float v[3] = { 1, 2, 3 };
	struct pb n = pb_node("Add", "x w", "y");
	struct pb g = graph_of(&n, F32, DIMS(2, 3));
	struct pb w = pb_tensor("w", F32, DIMS(3), v, sizeof(v));
	struct pb vi = pb_value("w", F32, DIMS(3));
	struct loaded l;

	pb_msg(&g, 5, &w);
	pb_msg(&g, 11, &vi);
	l = load_opset(&g, 3, 7);
	ck_assert_msg(l.rc == 0, "%s", err.msg);
	ck_assert_uint_eq(l.g->n_inputs, 1);
	unload(&l);
}
END_TEST

START_TEST(constants_of_every_form)
{
	static const char * const forms[] = { "value_int", "value_ints", "value_float", "value" };
	const int64_t ints[] = { 3, -1 };

	for (int i = 0; i < 4; i++) {
		struct pb n = pb_node("Constant", "", "y");
		struct pb g, t, a = { .p = NULL };
		struct loaded l;

		if (i == 0) {
			pb_attr_int(&n, forms[i], 3);
		} else if (i == 1) {
			pb_attr_ints(&n, forms[i], ints, 2);
		} else if (i == 2) {
			pb_attr_float(&n, forms[i], 3.0f);
		} else {
			t = pb_tensor("", S64, DIMS(2), ints, sizeof(ints));
			pb_str(&a, 1, "value");
			pb_msg(&a, 5, &t);
			pb_msg(&n, 5, &a);
		}
		g = graph_of(&n, F32, DIMS(1));
		l = load(&g);
		ck_assert_msg(l.rc == 0, "%s: %s", forms[i], err.msg);
		ck_assert_uint_eq(l.g->n_nodes, 0);
		ck_assert_ptr_nonnull(l.g->outputs[0]->data);
		check_shape(l.g, "y", i == 2 ? RVL_TYPE_F32 : RVL_TYPE_S64,
			    i % 2 ? DIMS(2) : SCALAR);
		unload(&l);
	}
}
END_TEST

/* ---- shapes ---- */

struct window_case {
	int64_t kernel[2], stride[2], dilation[2], pads[4];
	const char *auto_pad;
	int64_t ceil;
	int64_t out[2];		/* of a 10 x 7 input */
	int32_t top, left;
};

static const struct window_case windows[] = {
	{ { 3, 3 }, { 1, 1 }, { 1, 1 }, { 0, 0, 0, 0 }, NULL, 0, { 8, 5 }, 0, 0 },
	{ { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1, 1, 1 }, NULL, 0, { 5, 4 }, 1, 1 },
	{ { 2, 2 }, { 2, 2 }, { 1, 1 }, { 0, 0, 0, 0 }, NULL, 1, { 5, 4 }, 0, 0 },
	{ { 3, 2 }, { 4, 4 }, { 1, 1 }, { 0, 0, 0, 0 }, NULL, 1, { 3, 2 }, 0, 0 },
	{ { 3, 3 }, { 1, 1 }, { 2, 3 }, { 0, 0, 0, 0 }, NULL, 0, { 6, 1 }, 0, 0 },
	{ { 3, 3 }, { 2, 2 }, { 1, 1 }, { 0, 0, 0, 0 }, "SAME_UPPER", 0, { 5, 4 }, 0, 1 },
	{ { 3, 3 }, { 2, 2 }, { 1, 1 }, { 0, 0, 0, 0 }, "SAME_LOWER", 0, { 5, 4 }, 1, 1 },
	{ { 2, 2 }, { 1, 1 }, { 1, 1 }, { 0, 0, 0, 0 }, "SAME_LOWER", 0, { 10, 7 }, 1, 1 },
	{ { 4, 4 }, { 3, 3 }, { 1, 1 }, { 0, 0, 0, 0 }, "VALID", 0, { 3, 2 }, 0, 0 },
	{ { 3, 8 }, { 3, 2 }, { 1, 1 }, { 0, 0, 0, 0 }, NULL, 1, { 4, 1 }, 0, 0 },
	/* A ceil_mode window that would begin behind the input is omitted. */
	{ { 1, 1 }, { 3, 3 }, { 1, 1 }, { 0, 0, 2, 2 }, NULL, 1, { 4, 3 }, 0, 0 },
};

START_TEST(windows_of_pools)
{
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		const struct window_case *w = &windows[i];
		struct pb n = pb_node("MaxPool", "x", "y");
		struct pb g;
		struct loaded l;

		pb_attr_ints(&n, "kernel_shape", w->kernel, 2);
		pb_attr_ints(&n, "strides", w->stride, 2);
		pb_attr_ints(&n, "dilations", w->dilation, 2);
		if (w->auto_pad)
			pb_attr_str(&n, "auto_pad", w->auto_pad);
		else
			pb_attr_ints(&n, "pads", w->pads, 4);
		pb_attr_int(&n, "ceil_mode", w->ceil);
		g = graph_of(&n, F32, DIMS(1, 2, 10, 7));
		l = load(&g);
		ck_assert_msg(l.rc == 0, "case %zu: %s", i, err.msg);
		check_shape(l.g, "y", RVL_TYPE_F32, DIMS(1, 2, w->out[0], w->out[1]));
		ck_assert_int_eq(l.g->nodes[0]->attr.pad[0], w->top);
		ck_assert_int_eq(l.g->nodes[0]->attr.pad[1], w->left);
		unload(&l);
	}
}
END_TEST

START_TEST(softmax_depends_on_the_opset)
{
	for (int opset = 12; opset < 14; opset++) {
		struct pb n = pb_node("Softmax", "x", "y");
		struct pb g = graph_of(&n, F32, DIMS(2, 3, 4));
		struct loaded l = load_opset(&g, 7, opset);

		ck_assert_int_eq(l.rc, 0);
		ck_assert_int_eq(l.g->nodes[0]->attr.axis, opset < 13 ? 1 : 2);
		ck_assert_int_eq(l.g->nodes[0]->attr.flat_softmax, opset < 13);
		unload(&l);
	}
}
END_TEST

START_TEST(clip_accepts_bounds_as_attributes_or_operands)
{
	const float six = 6;
	struct pb n = pb_node("Clip", "x", "y");
	struct pb g, hi;
	struct loaded l;

	pb_attr_float(&n, "min", 0);
	pb_attr_float(&n, "max", 6);
	g = graph_of(&n, F32, DIMS(4));
	l = load_opset(&g, 4, 7);
	ck_assert_int_eq(l.rc, 0);
	ck_assert_float_eq(l.g->nodes[0]->attr.f_hi, 6);
	unload(&l);
	n = pb_node("Clip", "x - hi", "y");
	hi = pb_tensor("hi", F32, SCALAR, &six, 4);
	g = graph_of(&n, F32, DIMS(4));
	pb_msg(&g, 5, &hi);
	l = load(&g);
	ck_assert_msg(l.rc == 0, "%s", err.msg);
	ck_assert_ptr_null(l.g->nodes[0]->in[1]);
	ck_assert_ptr_nonnull(l.g->nodes[0]->in[2]);
	unload(&l);
}
END_TEST

struct reshape_case {
	int64_t want[4];
	size_t n;
	int64_t allowzero;
	int64_t out[5];		/* -9: refused */
};

START_TEST(reshapes)
{
	static const struct reshape_case cases[] = {
		{ { 4, 6 }, 2, 0, { 4, 6, -1 } },
		{ { 0, -1 }, 2, 0, { 2, 12, -1 } },
		{ { -1 }, 1, 0, { 24, -1 } },
		{ { 0, 0, 0, 1 }, 4, 0, { 2, 3, 4, 1, -1 } },
		{ { -1, -1 }, 2, 0, { -9 } },
		{ { 5, -1 }, 2, 0, { -9 } },
		{ { 5, 5 }, 2, 0, { -9 } },
		{ { -2, 12 }, 2, 0, { -9 } },
		{ { 0, -1 }, 2, 1, { -9 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct reshape_case *c = &cases[i];
		struct pb n = pb_node("Reshape", "x s", "y"), g, s;
		struct loaded l;

		pb_attr_int(&n, "allowzero", c->allowzero);
		s = pb_tensor("s", S64, DIMS((int64_t)c->n), c->want, c->n * 8);
		g = graph_of(&n, F32, DIMS(2, 3, 4));
		pb_msg(&g, 5, &s);
		l = load_opset(&g, 8, 14);
		if (c->out[0] == -9) {
			ck_assert_msg(l.rc == -EOPNOTSUPP, "case %zu", i);
		} else {
			ck_assert_msg(l.rc == 0, "case %zu: %s", i, err.msg);
			check_shape(l.g, "y", RVL_TYPE_F32, c->out);
		}
		unload(&l);
	}
}
END_TEST

START_TEST(quantize_gives_the_requested_type)
{
	static const struct { int dtype; enum rvl_type type; } cases[] = {
		{ 0, RVL_TYPE_U8 }, { U8, RVL_TYPE_U8 }, { S8, RVL_TYPE_S8 }, { 17, RVL_TYPE_NONE },
	};
	const float scale = 0.5f;

	for (size_t i = 0; i < 4; i++) {
		struct pb n = pb_node("QuantizeLinear", "x s", "y"), g, s;
		struct loaded l;

		if (cases[i].dtype)
			pb_attr_int(&n, "output_dtype", cases[i].dtype);
		s = pb_tensor("s", F32, SCALAR, &scale, 4);
		g = graph_of(&n, F32, DIMS(4));
		pb_msg(&g, 5, &s);
		l = load_opset(&g, 10, 21);
		ck_assert_int_eq(l.rc, cases[i].type ? 0 : -EOPNOTSUPP);
		if (!l.rc)
			check_shape(l.g, "y", cases[i].type, DIMS(4));
		unload(&l);
	}
}
END_TEST

/* ---- unsupported models ---- */

static struct pb plain(const char *op)
{
	struct pb n = pb_node(op, "x", "y");

	return graph_of(&n, F32, DIMS(1, 1, 4, 4));
}

START_TEST(unknown_operators_and_attributes_are_named)
{
	struct pb g = plain("Frobnicate"), n;
	const int64_t three[3] = { 2, 2, 2 }, zero[2] = { 0, 2 };

	refused(&g, -EOPNOTSUPP, "Frobnicate", "operators.md");
	n = pb_node("Relu", "x", "y");
	pb_attr_int(&n, "colour", 1);
	g = graph_of(&n, F32, DIMS(4));
	refused(&g, -EOPNOTSUPP, "Relu", "colour");
	n = pb_node("MaxPool", "x", "y");
	pb_attr_ints(&n, "kernel_shape", three, 3);
	g = graph_of(&n, F32, DIMS(1, 1, 4, 4));
	refused(&g, -EOPNOTSUPP, "MaxPool", "kernel_shape has 3 values, not 2");
	n = pb_node("MaxPool", "x", "y");
	pb_attr_ints(&n, "kernel_shape", zero, 2);
	g = graph_of(&n, F32, DIMS(1, 1, 4, 4));
	refused(&g, -EOPNOTSUPP, "kernel_shape", "0");
	n = pb_node("MaxPool", "x", "y");
	pb_attr_str(&n, "auto_pad", "SOMEHOW");
	g = graph_of(&n, F32, DIMS(1, 1, 4, 4));
	refused(&g, -EOPNOTSUPP, "auto_pad", "SOMEHOW");
	n = pb_node("Transpose", "x", "y");
	pb_attr_ints(&n, "perm", three, 3);
	g = graph_of(&n, F32, DIMS(1, 1, 4));
	refused(&g, -EOPNOTSUPP, "perm", "every axis once");
	n = pb_node("QLinearAdd", "x", "y");
	g = graph_of(&n, F32, DIMS(4));
	refused(&g, -EOPNOTSUPP, "QLinearAdd", "domain");
}
END_TEST

START_TEST(every_unsupported_node_is_counted)
{
	struct pb n = pb_node("Gelu", "x", "a"), g, more;

	more = pb_node("Erf", "a", "y");
	g = graph_of(&n, F32, DIMS(4));
	pb_msg(&g, 1, &more);
	refused(&g, -EOPNOTSUPP, "Gelu", "1 more");
}
END_TEST

START_TEST(types_without_kernels_are_named)
{
	struct pb n = pb_node("Relu", "x", "y");
	struct pb g = graph_of(&n, 14, DIMS(4));

	refused(&g, -EOPNOTSUPP, "'x'", "complex64");
	n = pb_node("Relu", "x", "y");
	g = graph_of(&n, BOOL, DIMS(4));
	refused(&g, -EOPNOTSUPP, "Relu", "bool");
}
END_TEST

START_TEST(contradictions_are_found)
{
	struct pb n = pb_node("Add", "x nowhere", "y");
	struct pb g = graph_of(&n, F32, DIMS(4)), m;

	refused(&g, -EBADMSG, "nowhere", "no node produces");
	n = pb_node("Add", "x", "y");
	g = graph_of(&n, F32, DIMS(4));
	refused(&g, -EBADMSG, "Add", "inputs");
	n = pb_node("Add", "x -", "y");
	g = graph_of(&n, F32, DIMS(4));
	refused(&g, -EBADMSG, "Add", "lacks input 1");
	n = pb_node("Relu", "x", "x");
	g = graph_of(&n, F32, DIMS(4));
	refused(&g, -EBADMSG, "'x'", "already");
	n = pb_node("Relu", "y", "y");
	g = graph_of(&n, F32, DIMS(4));
	refused(&g, -ELOOP, "Relu", "own result");
	n = pb_node("Relu", "x", "z");
	g = graph_of(&n, F32, DIMS(4));
	refused(&g, -EBADMSG, "output 'y'", "no node");
	n = pb_node("Relu", "x", "y");
	g = graph_of(&n, F32, DIMS(4));
	m = pb_node("Relu", "x", "y");
	pb_msg(&g, 1, &m);
	refused(&g, -EBADMSG, "'y'", "already");
}
END_TEST

START_TEST(versions_outside_the_range_are_refused)
{
	static const int versions[][2] = { { 2, 13 }, { 15, 13 }, { 8, 0 }, { 8, 29 } };

	for (int i = 0; i < 4; i++) {
		struct pb g = plain("Relu");
		struct loaded l = load_opset(&g, versions[i][0], versions[i][1]);

		ck_assert_int_eq(l.rc, -EOPNOTSUPP);
		ck_assert_ptr_nonnull(strstr(err.msg, i < 2 ? "IR version" : "opset"));
		unload(&l);
	}
}
END_TEST

/* ---- malformed bytes ---- */

static int load_bytes(const struct pb *b)
{
	struct rvl_graph *g = NULL;
	int rc;

	err.msg[0] = 0;
	rc = rvl_onnx_load(b->p, b->n, NULL, &g, &err);
	if (!rc)
		rvl_graph_free(g);
	return rc;
}

START_TEST(malformed_bytes_name_message_field_and_offset)
{
	static const struct { const char *bytes; size_t n; const char *say; } cases[] = {
		{ "\x08", 1, "ModelProto field 1 at byte 0" },
		{ "\x3a\x7f", 2, "ModelProto field 7 at byte 0" },
		{ "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "too long" },
		{ "\x0b", 1, "wire type" },
		{ "\x00\x00", 2, "no such field number" },
		{ "\x08\x08\x42\x02\x10\x0d\x3a\x03\x0a\x05\x00", 11,
		  "GraphProto field 1 at byte 8" },
		{ "\x0d\x01\x02", 3, "32-bit number is cut" },
		{ "\x09\x01\x02", 3, "64-bit number is cut" },
		{ "\x38\x01", 2, "does not fit the field" },
		{ "", 0, "no graph" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pb b = { .p = (uint8_t *)(uintptr_t)cases[i].bytes, .n = cases[i].n };

		ck_assert_int_eq(load_bytes(&b), -EBADMSG);
		ck_assert_msg(strstr(err.msg, cases[i].say), "'%s' lacks '%s'", err.msg,
			      cases[i].say);
	}
}
END_TEST

START_TEST(hostile_tensors_are_refused)
{
	const float v = 1;
	static const struct { int64_t dims[10]; int rc; const char *say; } cases[] = {
		{ { 2, -1 }, -EBADMSG, "needs 8" },
		{ { (1 << 24) + 1, -1 }, -E2BIG, "dimension" },
		{ { 1 << 20, 1 << 20, -1 }, -E2BIG, "larger" },
		{ { 1, 1, 1, 1, 1, 1, 1, 1, 1, -1 }, -E2BIG, "more than 8 dimensions" },
	};

	for (size_t i = 0; i < 4; i++) {
		struct pb t = pb_tensor("w", F32, cases[i].dims, &v, sizeof(v));
		struct pb g = plain("Relu");

		pb_msg(&g, 5, &t);
		refused(&g, cases[i].rc, cases[i].say, "");
	}
}
END_TEST

START_TEST(external_and_sparse_data_are_refused)
{
	struct pb g = plain("Relu"), t = { .p = NULL }, e = { .p = NULL };

	pb_int(&t, 1, 1);
	pb_int(&t, 2, F32);
	pb_str(&t, 8, "w");
	pb_str(&e, 1, "location");
	pb_str(&e, 2, "/etc/passwd");
	pb_msg(&t, 13, &e);
	pb_msg(&g, 5, &t);
	refused(&g, -EBADMSG, "'/etc/passwd', which is not a path below the model's folder", "");
	g = plain("Relu");
	pb_str(&g, 15, "");
	refused(&g, -EOPNOTSUPP, "sparse", "");
}
END_TEST

START_TEST(long_names_are_refused)
{
	char name[RVL_MAX_NAME + 2];
	struct pb n = pb_node("Relu", "x", "y"), g;

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = 0;
	pb_str(&n, 3, name);
	g = graph_of(&n, F32, DIMS(4));
	refused(&g, -E2BIG, "name", "1024");
	n = pb_node("Relu", "x", "y");
	pb_len(&n, 3, "a\0b", 3);
	g = graph_of(&n, F32, DIMS(4));
	refused(&g, -EBADMSG, "NUL", "");
}
END_TEST

START_TEST(too_many_nodes_are_refused)
{
	struct pb g = plain("Relu");

	for (int i = 0; i < RVL_MAX_NODES; i++)
		pb_len(&g, 1, "", 0);
	refused(&g, -E2BIG, "more than", "16384");
}
END_TEST

/* ---- arbitrary bytes ---- */

static struct pb read_model(const char *path)
{
	FILE *fp = fopen(path, "rb");
	struct pb b = { .p = NULL };
	uint8_t buf[4096];
	size_t n;

	ck_assert_msg(fp != NULL, "%s", path);
	while ((n = fread(buf, 1, sizeof(buf), fp)) > 0)
		pb_bytes(&b, buf, n);
	fclose(fp);
	return b;
}

/*
 * Runs all of a compilation that precedes the generation of code. Any result but a crash is
 * accepted.
 */
static void compile_any(const uint8_t *p, size_t n)
{
	struct rvl_graph *g;

	err.msg[0] = 0;
	if (rvl_onnx_load(p, n, NULL, &g, &err)) {
		ck_assert_uint_gt(strlen(err.msg), 0);
		return;
	}
	if (!rvl_optimise(g, &err) && !rvl_graph_check_supported(g, &err)) {
		ck_assert_msg(!rvl_pass_partition(g, NULL, NULL, &err), "%s", err.msg);
		ck_assert_msg(!rvl_graph_verify(g, &err), "%s", err.msg);
	} else {
		ck_assert_uint_gt(strlen(err.msg), 0);
	}
	ck_assert_uint_lt(rvl_arena_held(g->arena), (size_t)64 << 20);
	rvl_graph_free(g);
}

static const char * const seeds[] = {
	"tests/data/qdq/conv_relu_u8/model.onnx",
	"tests/data/qdq/qlinear_s8/model.onnx",
	"tests/data/qdq/pools_u8/model.onnx",
	"tests/data/qdq/batch_norm_s8/model.onnx",
	"tests/data/qdq/matmul_s8/model.onnx",
};

START_TEST(truncation_at_every_byte_is_survived)
{
	struct pb b = read_model(seeds[_i]);

	for (size_t n = 0; n < b.n; n++) {
		/* exact size, so that the sanitizer reports overreads */
		uint8_t *copy = malloc(n ? n : 1);

		memcpy(copy, b.p, n);
		compile_any(copy, n);
		free(copy);
	}
	free(b.p);
}
END_TEST

/* Flips, overwrites, deletes, repeats or exchanges some bytes. */
static size_t mutate(uint8_t *p, size_t n, uint64_t *s)
{
	uint64_t edits = 1 + xorshift(s) % 4;

	while (edits--) {
		size_t at = xorshift(s) % n, from = xorshift(s) % n;
		size_t len = 1 + xorshift(s) % 8;

		len = at + len > n ? n - at : len;
		len = from + len > n ? n - from : len;
		switch (xorshift(s) % 5) {
		case 0:
			p[at] ^= (uint8_t)(1u << xorshift(s) % 8);
			break;
		case 1:
			p[at] = (uint8_t)xorshift(s);
			break;
		case 2:
			memmove(p + at, p + from, len);
			break;
		case 3:
			memset(p + at, xorshift(s) % 2 ? 0xff : 0, len);
			break;
		default:
			if (n > len + 1) {
				memmove(p + at, p + at + len, n - at - len);
				n -= len;
			}
			break;
		}
	}
	return n;
}

START_TEST(mutations_are_survived)
{
	struct pb b = read_model(seeds[_i]);
	uint64_t s = 0x9e3779b97f4a7c15u + (uint64_t)_i;

	for (int i = 0; i < 4000; i++) {
		uint8_t *copy = malloc(b.n), *exact;
		size_t n;

		memcpy(copy, b.p, b.n);
		n = mutate(copy, b.n, &s);
		exact = malloc(n);
		memcpy(exact, copy, n);
		compile_any(exact, n);
		free(exact);
		free(copy);
	}
	free(b.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("onnx");
	TCase *read = tcase_create("read"), *shape = tcase_create("shape");
	TCase *refuse = tcase_create("refuse"), *fuzz = tcase_create("fuzz");
	int n_seeds = sizeof(seeds) / sizeof(seeds[0]);

	tcase_add_test(read, reads_names_versions_and_shapes);
	tcase_add_test(read, reads_typed_data_packed_or_not);
	tcase_add_test(read, values_of_4_bits_become_bytes);
	tcase_add_test(read, values_of_4_bits_are_dequantised_only);
	tcase_add_test(read, copies_only_misaligned_raw_data);
	tcase_add_test(read, fixes_a_symbolic_batch);
	tcase_add_test(read, other_symbols_are_refused);
	tcase_add_test(read, an_initializer_may_be_listed_as_input);
	tcase_add_test(read, constants_of_every_form);
	tcase_add_test(shape, windows_of_pools);
	tcase_add_test(shape, softmax_depends_on_the_opset);
	tcase_add_test(shape, clip_accepts_bounds_as_attributes_or_operands);
	tcase_add_test(shape, reshapes);
	tcase_add_test(shape, quantize_gives_the_requested_type);
	tcase_add_test(refuse, unknown_operators_and_attributes_are_named);
	tcase_add_test(refuse, every_unsupported_node_is_counted);
	tcase_add_test(refuse, types_without_kernels_are_named);
	tcase_add_test(refuse, contradictions_are_found);
	tcase_add_test(refuse, versions_outside_the_range_are_refused);
	tcase_add_test(refuse, malformed_bytes_name_message_field_and_offset);
	tcase_add_test(refuse, hostile_tensors_are_refused);
	tcase_add_test(refuse, external_and_sparse_data_are_refused);
	tcase_add_test(refuse, long_names_are_refused);
	tcase_add_test(refuse, too_many_nodes_are_refused);
	tcase_set_timeout(fuzz, 120);
	tcase_add_loop_test(fuzz, truncation_at_every_byte_is_survived, 0, n_seeds);
	tcase_add_loop_test(fuzz, mutations_are_survived, 0, n_seeds);
	suite_add_tcase(s, read);
	suite_add_tcase(s, shape);
	suite_add_tcase(s, refuse);
	suite_add_tcase(s, fuzz);
	return run_suite(s);
}
