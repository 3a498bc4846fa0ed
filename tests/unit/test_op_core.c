/* SPDX-License-Identifier: MIT */
/* The table of operator descriptors itself, and what the compiler makes of its rows. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "prog_exec.h"
#include "rivulet_compiler.h"
#include "suite.h"
#include "unit/edge.h"
#include "unit/onnx_attrs.h"
#include "unit/onnx_opsets.h"
#include "unit/onnx_text.h"

static struct rvl_err err;

/* ---- the rows ---- */

static void check_attr(const struct rvl_op_def *d, const struct rvl_attr_def *a)
{
	ck_assert_msg(a->kind >= RVL_ATTR_INT && a->kind <= RVL_ATTR_IGNORED, "%s %s", d->name,
		      a->name);
	for (const struct rvl_attr_def *b = d->attrs; b < a; b++)
		ck_assert_msg(strcmp(a->name, b->name), "%s: %s twice", d->name, a->name);
	if (a->choices && a->s)
		ck_assert_msg(strstr(a->choices, a->s) != NULL, "%s: default of %s", d->name, a->name);
}

START_TEST(rows_are_complete)
{
	const struct rvl_op_def *d;

	for (uint32_t i = 0; (d = rvl_op_at(i)); i++) {
		ck_assert_msg(d->since >= 1 && (!d->until || d->until > d->since), "%s", d->name);
		ck_assert_msg(d->infer && d->run && d->doc && *d->doc, "%s-%d", d->name, d->since);
		ck_assert_msg(d->least_in <= d->most_in && d->most_in <= RVL_MAX_IN, "%s", d->name);
		ck_assert_msg(d->most_out <= RVL_MAX_OUT && d->least_out <= RVL_MAX_OUT, "%s", d->name);
		ck_assert_msg(!d->most_in || d->types[0], "%s takes no type", d->name);
		ck_assert_msg(rvl_op_attrs(d) <= RVL_MAX_ATTRS, "%s", d->name);
		for (uint32_t k = 0; k < rvl_op_attrs(d); k++)
			check_attr(d, &d->attrs[k]);
		ck_assert_msg(rvl_op_find(d->domain, d->name, d->since) == d, "%s-%d is there twice",
			      d->name, d->since);
	}
	ck_assert_uint_gt(rvl_op_attrs(rvl_op_find("", "Mod", 13)), 0);
}
END_TEST

START_TEST(rows_are_found_by_opset)
{
	const struct rvl_op_def *old = rvl_op_find(NULL, "Squeeze", 12);
	const struct rvl_op_def *now = rvl_op_find("ai.onnx", "Squeeze", 13);

	ck_assert_int_eq(old->since, 1);
	ck_assert_int_eq(now->since, 13);
	ck_assert_ptr_eq(rvl_op_find("", "Squeeze", 28), now);
	ck_assert_ptr_null(rvl_op_find("", "Range", 10));
	ck_assert_ptr_nonnull(rvl_op_find("", "Range", 11));
	ck_assert_ptr_null(rvl_op_find("com.example", "Range", 11));
	ck_assert_ptr_null(rvl_op_find("", "range", 11));
	ck_assert_ptr_null(rvl_op_find("", "Convert", 13));
}
END_TEST

/* What the specification gives the operator at an opset; "" where it has no attributes. */
static const char *attrs_of(const char *name, int opset)
{
	const char *attrs = "";

	for (size_t i = 0; i < sizeof(onnx_attrs) / sizeof(onnx_attrs[0]); i++)
		if (!strcmp(onnx_attrs[i].name, name) && onnx_attrs[i].opset <= opset)
			attrs = onnx_attrs[i].attrs;
	return attrs;
}

/* Whether the row takes, at this opset, exactly the attributes of a list. */
static bool takes_attrs(const struct rvl_op_def *d, int opset, const char *list)
{
	char words[512], *save = NULL;
	uint32_t n = 0, listed = 0;

	for (uint32_t k = 0; k < rvl_op_attrs(d); k++)
		n += rvl_attr_defined(&d->attrs[k], opset);
	snprintf(words, sizeof(words), "%s", list);
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		uint32_t k = 0;

		while (k < rvl_op_attrs(d) && strcmp(d->attrs[k].name, w))
			k++;
		if (k == rvl_op_attrs(d) || !rvl_attr_defined(&d->attrs[k], opset))
			return false;
		listed++;
	}
	return listed == n;
}

/* An attribute of another opset is refused, as onnxruntime does. */
START_TEST(rows_take_the_attributes_of_their_opset)
{
	const struct rvl_op_def *d;

	for (uint32_t i = 0; (d = rvl_op_at(i)); i++)
		for (int opset = d->since; opset <= 28 && !d->domain; opset++)
			if (rvl_op_find(NULL, d->name, opset) == d &&
			    !takes_attrs(d, opset, attrs_of(d->name, opset)))
				ck_abort_msg("%s of opset %d does not take the attributes \"%s\"", d->name,
					     opset, attrs_of(d->name, opset));
}
END_TEST

static bool changed_in(const char *name, int opset)
{
	for (size_t i = 0; i < sizeof(onnx_opsets) / sizeof(onnx_opsets[0]); i++)
		for (int k = 0; k < 10 && !strcmp(onnx_opsets[i].name, name); k++)
			if (onnx_opsets[i].opset[k] == opset)
				return true;
	return false;
}

/* Proves that each row begins, and ends, where the specification changes the operator. */
START_TEST(rows_begin_where_the_operator_changes)
{
	const struct rvl_op_def *d;
	uint32_t n = 0;

	for (uint32_t i = 0; (d = rvl_op_at(i)); i++) {
		if (d->domain && *d->domain)
			continue;
		ck_assert_msg(changed_in(d->name, d->since), "%s since %d", d->name, d->since);
		ck_assert_msg(!d->until || changed_in(d->name, d->until), "%s until %d", d->name, d->until);
		n++;
	}
	ck_assert_uint_gt(n, 150);
}
END_TEST

/* Operators of sequences, optionals and strings, of chance, and of training, and those that are control flow. */
static const char * const without_row[] = {
	"Bernoulli", "ConcatFromSequence", "Constant", "If", "ImageDecoder", "Loop", "Multinomial",
	"NegativeLogLikelihoodLoss", "Optional", "OptionalGetElement", "OptionalHasElement", "RandomNormal",
	"RandomNormalLike", "RandomUniform", "RandomUniformLike", "RegexFullMatch", "Scan", "SequenceAt",
	"SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap",
	"SoftmaxCrossEntropyLoss", "SplitToSequence", "StringConcat", "StringNormalizer", "StringSplit",
	"TfIdfVectorizer",
};

static bool may_lack_rows(const char *name)
{
	for (size_t i = 0; i < sizeof(without_row) / sizeof(without_row[0]); i++)
		if (!strcmp(without_row[i], name))
			return true;
	return false;
}

/* Every other operator of the specification has a row for its first opset and for all later ones. */
START_TEST(every_opset_of_every_operator_has_a_row)
{
	for (size_t i = 0; i < sizeof(onnx_opsets) / sizeof(onnx_opsets[0]); i++) {
		const char *name = onnx_opsets[i].name;
		const struct rvl_op_def *d = rvl_op_find(NULL, name, onnx_opsets[i].opset[0]);

		if (may_lack_rows(name))
			ck_assert_msg(!d, "%s has a row", name);
		else
			ck_assert_msg(d, "%s has no row for opset %d", name, onnx_opsets[i].opset[0]);
	}
}
END_TEST

/* ---- conversions ---- */

START_TEST(narrow_floats)
{
	/*
	 * Each 16-bit number is converted to itself. The middle between two of them is rounded to
	 * even.
	 */
	for (uint32_t h = 0; h < 65536; h++) {
		float f = rvl_f16_to_f32((uint16_t)h), b = rvl_bf16_to_f32((uint16_t)h);

		if (!isnan(f))
			ck_assert_uint_eq(rvl_f32_to_f16(f), h);
		if (!isnan(b))
			ck_assert_uint_eq(rvl_f32_to_bf16(b), h);
	}
	ck_assert_uint_eq(rvl_f32_to_f16(1.0f + 0x1p-11f), 0x3c00);
	ck_assert_uint_eq(rvl_f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);
	ck_assert_uint_eq(rvl_f32_to_f16(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
	ck_assert_uint_eq(rvl_f32_to_f16(65519.0f), 0x7bff);
	ck_assert_uint_eq(rvl_f32_to_f16(65520.0f), 0x7c00);
	ck_assert_uint_eq(rvl_f32_to_f16(-INFINITY), 0xfc00);
	ck_assert_uint_eq(rvl_f32_to_f16(0x1p-25f), 0);
	ck_assert_uint_eq(rvl_f32_to_f16(0x1p-24f), 1);
	ck_assert_uint_eq(rvl_f32_to_f16(-0.0f), 0x8000);
	ck_assert(isnan(rvl_f16_to_f32(rvl_f32_to_f16(NAN))));
	ck_assert(isnan(rvl_bf16_to_f32(rvl_f32_to_bf16(NAN))));
	ck_assert_uint_eq(rvl_f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
	ck_assert_uint_eq(rvl_f32_to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);
}
END_TEST

START_TEST(conversions_saturate_where_C_would_be_undefined)
{
	const float x[] = { -1.5f, 1e30f, -1e30f, NAN, 300.7f, 0.0f };
	const int64_t wide[] = { -1, 256, 65535, INT64_MIN };
	int64_t s[6];
	uint64_t u[6];
	uint8_t b[6];
	int8_t n[4];

	rvl_convert(RVL_TYPE_S64, s, RVL_TYPE_F32, x, 6);
	ck_assert_int_eq(s[0], -1);
	ck_assert_int_eq(s[1], INT64_MAX);
	ck_assert_int_eq(s[2], INT64_MIN);
	ck_assert_int_eq(s[3], 0);
	ck_assert_int_eq(s[4], 300);
	rvl_convert(RVL_TYPE_U64, u, RVL_TYPE_F32, x, 6);
	ck_assert_uint_eq(u[1], UINT64_MAX);
	ck_assert_uint_eq(u[4], 300);
	rvl_convert(RVL_TYPE_BOOL, b, RVL_TYPE_F32, x, 6);
	ck_assert_uint_eq(b[0], 1);
	ck_assert_uint_eq(b[3], 1);
	ck_assert_uint_eq(b[5], 0);
	rvl_convert(RVL_TYPE_S8, n, RVL_TYPE_S64, wide, 4);
	ck_assert_int_eq(n[0], -1);
	ck_assert_int_eq(n[1], 0);
	ck_assert_int_eq(n[2], -1);
	ck_assert_int_eq(n[3], 0);
	ck_assert(rvl_element(RVL_TYPE_U64, (const uint64_t[]) { UINT64_MAX }, 0) > 1e19);
}
END_TEST

/* ---- models ---- */

static struct rivulet_board board;

static void load_board(void)
{
	char why[256];

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
}

struct ran {
	struct rivulet_blob program;
	struct prog_exec x;
};

/* Compiles a model and runs it once; buffers of the caller in the order inputs, outputs. */
static void run_model(struct ran *r, const char *text, int opset,
		      const struct rivulet_compile_options *opt, void *const *io)
{
	struct pb m = ot_model(text, opset);
	char why[256];
	int rc = rivulet_compile(m.p, m.n, &board, opt, &r->program, NULL, &err);

	ck_assert_msg(!rc, "%s: %s", text, err.msg);
	ck_assert_msg(!rivulet_program_check(r->program.data, r->program.size, why, sizeof(why)),
		      "%s", why);
	ck_assert_int_eq(prog_open(&r->x, &board, NULL, r->program.data), 0);
	for (uint32_t i = 0; i < r->x.p->inputs + r->x.p->outputs; i++)
		r->x.io[i] = io[i];
	rc = prog_run(&r->x);
	ck_assert_msg(!rc, "%s: %d %s", text, rc, r->x.err);
	free(m.p);
}

static void end_run(struct ran *r)
{
	prog_close(&r->x, true);
	rivulet_blob_free(&r->program);
}

/* An element-wise function between the two quantisers is a table, which the NPU computes. */
START_TEST(a_function_of_bytes_is_a_table_on_the_NPU)
{
	static const char text[] =
		"const h f32 - 0.5; const k f32 - 0.25; const two f32 - 2; const z u8 - 3; "
		"const o u8 - 7; in x u8 1,2,16,8; out y; DequantizeLinear x h z -> a; Pow a two -> b; "
		"QuantizeLinear b k o -> y";
	const struct rivulet_compile_options opt = { .require_npu = true };
	uint8_t x[256] __attribute__((aligned(64))), y[256] __attribute__((aligned(64)));
	struct ran r;

	for (int i = 0; i < 256; i++)
		x[i] = (uint8_t)i;
	run_model(&r, text, 13, &opt, (void *[]) { x, y });
	ck_assert_uint_gt(r.x.cycles, 0);
	for (int i = 0; i < 256; i++) {
		double q = nearbyint((i - 3) * 0.5 * ((i - 3) * 0.5) / 0.25) + 7;

		ck_assert_int_eq(y[i], q > 255 ? 255 : (int)q);
	}
	end_run(&r);
}
END_TEST

/* The same for a function that reads a constant: a Mul by one number. */
START_TEST(a_product_with_a_constant_is_a_table)
{
	static const char text[] =
		"const h f32 - 0.5; const m f32 - -3; const z s8 - -4; in x s8 1,2,16,8; out y; "
		"DequantizeLinear x h z -> a; Mul a m -> b; QuantizeLinear b h z -> y";
	const struct rivulet_compile_options opt = { .require_npu = true };
	int8_t x[256] __attribute__((aligned(64))), y[256] __attribute__((aligned(64)));
	struct ran r;

	for (int i = 0; i < 256; i++)
		x[i] = (int8_t)i;
	run_model(&r, text, 13, &opt, (void *[]) { x, y });
	for (int i = 0; i < 256; i++) {
		int q = (x[i] + 4) * -3 - 4;

		ck_assert_int_eq(y[i], q > 127 ? 127 : q < -128 ? -128 : q);
	}
	end_run(&r);
}
END_TEST

/* Max takes no float64, so the model computes float32. */
START_TEST(float64_and_float16_at_the_edges)
{
	double x[4] __attribute__((aligned(64))) = { 1.5, -2, 1e300, 0.1 };
	uint16_t h[4] __attribute__((aligned(64))) = { 0x3c00, 0xc000, 0x0001, 0x7bff };
	double y[4] __attribute__((aligned(64)));
	uint16_t z[4] __attribute__((aligned(64)));
	struct ran r;

	run_model(&r, "in x 11 4; in h 10 4; out y 11 4; out z 10 4; Max x x -> m; Add m m -> y; Add h h -> z",
		  14, NULL, (void *[]) { x, h, y, z });
	ck_assert(y[0] == 3.0 && y[1] == -4.0 && isinf(y[2]) && y[3] == (double)(2 * 0.1f));
	ck_assert_uint_eq(z[0], 0x4000);
	ck_assert_uint_eq(z[1], 0xc400);
	ck_assert_uint_eq(z[2], 0x0002);
	ck_assert_uint_eq(z[3], 0x7c00);
	end_run(&r);
}
END_TEST

/* A model all of whose operators take float64 keeps its values and its precision. */
START_TEST(float64_as_such)
{
	static const char text[] =
		"in x 11 2,2; in h 10 4; const k s64 2 1 4; out y 11 1,4; out b bool 1,4; out z 10 4; "
		"Add x x -> s; Sub s x -> d; Mul d x -> m; Div m x -> q; Transpose q -> t; "
		"Reshape t k -> y; Transpose x -> o; Reshape o k -> p; Less p y -> b; Add h h -> z";
	double x[4] __attribute__((aligned(64))) = { 1.5e150, -2e120, 1e-130, 0.1 };
	uint16_t h[4] __attribute__((aligned(64))) = { 0x3c00, 0, 0, 0 };
	double y[4] __attribute__((aligned(64)));
	uint8_t b[4] __attribute__((aligned(64)));
	uint16_t z[4] __attribute__((aligned(64)));
	struct ran r;

	run_model(&r, text, 14, NULL, (void *[]) { x, h, y, b, z });
	for (int i = 0; i < 4; i++) {
		double v = x[i / 2 + i % 2 * 2];
		double q = (v + v - v) * v / v;

		ck_assert_mem_eq(&y[i], &q, sizeof(q));
		ck_assert_uint_eq(b[i], v < q);
	}
	ck_assert_uint_eq(z[0], 0x4000);
	end_run(&r);
}
END_TEST

/* The rows of opsets before 7, and a constant beyond float32. */
START_TEST(float64_of_old_opsets)
{
	static const double k[] = { 1e200, 2e200, -1e200 };
	double x[6] __attribute__((aligned(64))) = { 1, 2, 3, 4, 5, 6 }, y[6] __attribute__((aligned(64)));
	struct ran r;

	run_model(&r, "in x 11 2,3; const k 11 3 1e200 2e200 -1e200; out y 11 2,3; "
		      "Add x k -> y broadcast=1 axis=1", 6, NULL, (void *[]) { x, y });
	for (int i = 0; i < 6; i++)
		ck_assert_double_eq(y[i], x[i] + k[i % 3]);
	end_run(&r);
}
END_TEST

/* What follows from shapes is known when the model is compiled. */
START_TEST(shapes_computed_by_nodes)
{
	static const char text[] =
		"in x f32 2,3,4; out y; Shape x -> s; Size s -> c; Size x -> n; "
		"const two s64 - 2; Div n two -> m; Add m m -> k; Unsqueeze k zero -> r; const zero s64 1 0; "
		"Reshape x r -> y";
	float x[24] __attribute__((aligned(64))), y[24] __attribute__((aligned(64)));
	struct ran r;

	for (int i = 0; i < 24; i++)
		x[i] = (float)i;
	run_model(&r, text, 13, NULL, (void *[]) { x, y });
	ck_assert_uint_eq(r.x.p->steps, 1);
	ck_assert_uint_eq(rivulet_program_tensors(r.x.p)[1].dim[0], 24);
	ck_assert(!memcmp(x, y, sizeof(x)));
	end_run(&r);
}
END_TEST

/* ---- bytes of a descriptor ---- */

static void mod_desc(struct rvl_kernel_desc *d)
{
	static const struct rvl_shape four = { .rank = 1, .dim = { 4 } };

	*d = (struct rvl_kernel_desc) { .op = RVL_OP_GENERAL, .n_in = 2, .n_out = 1 };
	d->def = rvl_op_find("", "Mod", 13);
	d->value[0] = (struct rvl_attr_value) { .given = true, .i = 1, .data = "" };
	d->in[0] = (struct rvl_kernel_arg) { .type = RVL_TYPE_S32, .shape = four };
	d->in[1] = d->in[0];
	d->out[0] = d->in[0];
}

START_TEST(descriptors_travel_as_bytes)
{
	uint8_t buf[1024] __attribute__((aligned(8))) = { 0 }, *edge;
	struct rvl_kernel_desc d, back;
	int64_t size;

	mod_desc(&d);
	size = rvl_desc_pack(&d, NULL, 0);
	ck_assert_int_gt(size, 0);
	ck_assert_int_eq(rvl_desc_pack(&d, buf, sizeof(buf)), size);
	ck_assert_int_eq(rvl_desc_unpack(buf, (size_t)size, &back), 0);
	ck_assert_ptr_eq(back.def, d.def);
	ck_assert(back.value[0].given && back.value[0].i == 1);
	ck_assert_int_eq(rvl_desc_unpack(buf + 4, (size_t)size - 4, &back), -EBADMSG);
	/* What is cut off lies in a page without access; the head claims, or hides, that it is cut. */
	edge = edge_new();
	for (int64_t n = 0; n < size; n += 4) {
		uint32_t *head = memcpy(edge - n, buf, (size_t)n);

		ck_assert_int_eq(rvl_desc_unpack(head, (size_t)n, &back), -EBADMSG);
		if (n < 8)
			continue;
		head[1] = (uint32_t)n;
		ck_assert_int_eq(rvl_desc_unpack(head, (size_t)n, &back), -EBADMSG);
	}
}
END_TEST

/* If any byte is changed, the result is an error or a valid descriptor of the table. */
START_TEST(damaged_descriptors_are_refused)
{
	uint8_t good[1024] __attribute__((aligned(8))) = { 0 }, bad[1024] __attribute__((aligned(8)));
	struct rvl_kernel_desc d, back;
	size_t size, at;

	mod_desc(&d);
	size = (size_t)rvl_desc_pack(&d, good, sizeof(good));
	at = size - 8 * 7;	/* the operator's name and its attribute */
	for (size_t i = at; i < size; i++) {
		for (int v = 0; v < 256; v += 5) {
			memcpy(bad, good, size);
			bad[i] = (uint8_t)v;
			if (!rvl_desc_unpack(bad, size, &back))
				ck_assert_ptr_eq(back.def, d.def);
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_core");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, load_board, NULL);
	tcase_add_test(t, rows_are_complete);
	tcase_add_test(t, rows_are_found_by_opset);
	tcase_add_test(t, rows_take_the_attributes_of_their_opset);
	tcase_add_test(t, rows_begin_where_the_operator_changes);
	tcase_add_test(t, every_opset_of_every_operator_has_a_row);
	tcase_add_test(t, narrow_floats);
	tcase_add_test(t, conversions_saturate_where_C_would_be_undefined);
	tcase_add_test(t, a_function_of_bytes_is_a_table_on_the_NPU);
	tcase_add_test(t, a_product_with_a_constant_is_a_table);
	tcase_add_test(t, float64_and_float16_at_the_edges);
	tcase_add_test(t, float64_as_such);
	tcase_add_test(t, float64_of_old_opsets);
	tcase_add_test(t, shapes_computed_by_nodes);
	tcase_add_test(t, descriptors_travel_as_bytes);
	tcase_add_test(t, damaged_descriptors_are_refused);
	suite_add_tcase(s, t);
	return run_suite(s);
}
