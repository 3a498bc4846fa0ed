// SPDX-License-Identifier: MIT
/* `rivulet ibtf`: which products of a model it counts, with which weights, and its three formats.
 */
#include <check.h>
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "files.h"
#include "rivulet_factor.h"
#include "suite.h"
#include "unit/onnx_text.h"
#include "verb.h"

static char dir[64];
static struct pb model;
static struct rivulet_factor f;

static void setup(void)
{
	make_scratch(dir);
	rvl_tool_error_clear();
}

static void teardown(void)
{
	rivulet_factor_free(&f);
	free(model.p);
	model.p = NULL;
	remove_scratch(dir);
}

/* An int8 convolution with weights of 3 bits, one of them 0. */
#define QUANTISED                                                                                  \
	"in x u8 1,2,2,2; out y; const s f32 - 0.5; const z u8 - 128; const wz s8 - 0; "           \
	"const w s8 2,2,1,1 1 -2 0 3; DequantizeLinear x s z -> xf; DequantizeLinear w s wz -> "   \
	"wf; "                                                                                     \
	"Conv xf wf -> c; QuantizeLinear c s z -> y"

static void count(const char *text, uint32_t bits)
{
	struct rivulet_compile_options opt = { 0 };
	struct rvl_err err = { "" };

	model = ot_model(text, 13);
	ck_assert_msg(!rivulet_factor_model(model.p, model.n, &opt, bits, &f, &err), "%s", err.msg);
}

/* Integer weights are counted as they are, with the least bits that hold them. */
START_TEST(test_integers)
{
	static const int16_t w[] = { 1, -2, 0, 3 };
	struct rivulet_ibtf_shape shape = { 2, 2, 3, true };
	_Alignas(16) uint8_t scratch[8192], width[6];
	struct rivulet_ibtf_slices cut = { .width = width };
	struct rivulet_ibtf_choice want;
	const struct rivulet_factor_row *r;

	count(QUANTISED, 0);
	ck_assert_uint_eq(f.n_rows, 1);
	r = &f.rows[0];
	ck_assert_uint_eq(r->groups, 1);
	ck_assert_uint_eq(r->n, 2);
	ck_assert_uint_eq(r->m, 2);
	ck_assert_uint_eq(r->p, 3);
	ck_assert_uint_eq(r->windows, 4);
	ck_assert_uint_eq(r->of.nonzero, 3);
	ck_assert_uint_eq(r->of.eq_mac, 9);
	ck_assert_uint_le(rivulet_ibtf_scratch(&shape), sizeof(scratch));
	rivulet_ibtf_choose(&shape, w, scratch, &cut, &want);
	ck_assert_uint_eq(r->of.adds, want.adds);
	ck_assert_uint_eq(rivulet_factor_sums(&f).of.adds, 4 * want.adds);
}
END_TEST

/* --bits rounds what is wider, and leaves what is not. */
START_TEST(test_rounded_integers)
{
	count(QUANTISED, 2);
	/* 1 -2 becomes 0 or 1, and -1; 0 3 becomes 0 and 1 */
	ck_assert_uint_eq(f.rows[0].p, 2);
	rivulet_factor_free(&f);
	free(model.p);
	count(QUANTISED, 4);
	ck_assert_uint_eq(f.rows[0].p, 3);
}
END_TEST

/* Weights without a sign, less their zero point. */
START_TEST(test_zero_point)
{
	count("in x u8 1,2; out y; const s f32 - 0.5; const z u8 - 128; const wz u8 - 7; const w "
	      "u8 2,3 7 8 9 10 14 7; "
	      "DequantizeLinear x s z -> xf; DequantizeLinear w s wz -> wf; MatMul xf wf -> c; "
	      "QuantizeLinear c s z -> y",
	      0);
	ck_assert_uint_eq(f.n_rows, 1);
	ck_assert_uint_eq(f.rows[0].n, 2);
	ck_assert_uint_eq(f.rows[0].m, 3);
	ck_assert_uint_eq(f.rows[0].p, 3); /* 0 1 2, 3 7 0 */
	ck_assert_uint_eq(f.rows[0].of.nonzero, 4);
}
END_TEST

/* Float weights have 8 bits, groups are products of their own, computed operands are left out. */
START_TEST(test_floats)
{
	count("in x f32 1,4,2,2; out y; out d; const w f32 4,2,1,1 1 -2 0.5 3 1 0 0 0.25; Conv x w -> c "
	      "group=2; "
	      "const m f32 2,3 1 2 3 4 5 6; MatMul c m -> d; MatMul c c -> y",
	      0);
	ck_assert_uint_eq(f.n_rows, 2);
	ck_assert_uint_eq(f.left_out, 1);
	ck_assert_uint_eq(f.rows[0].groups, 2);
	ck_assert_uint_eq(f.rows[0].n, 2);
	ck_assert_uint_eq(f.rows[0].m, 2);
	ck_assert_uint_eq(f.rows[0].p, 8);
	ck_assert_uint_eq(f.rows[0].windows, 4);
	ck_assert_uint_eq(f.rows[0].of.nonzero, 6);
	ck_assert_uint_eq(f.rows[1].p, 7); /* the largest of each kernel is 127, none is negative */
}
END_TEST

/* Weights that no integer stands for are refused; the smallest ones are rounded as any others. */
START_TEST(test_odd_floats)
{
	static const char *const text[] = {
		"in x f32 1,2; out y; const w f32 2,1 1 nan; MatMul x w -> y",
		"in x f32 1,2; out y; const w f32 2,1 1 inf; MatMul x w -> y",
		"in x f32 1,2; out y; const w f32 2,1 -inf 1; MatMul x w -> y",
	};
	struct rivulet_compile_options opt = { 0 };
	struct rvl_err err = { "" };

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
		model = ot_model(text[i], 13);
		ck_assert_int_eq(rivulet_factor_model(model.p, model.n, &opt, 0, &f, &err), -EINVAL);
		ck_assert_ptr_nonnull(strstr(err.msg, "infinite or NaN"));
		rivulet_factor_free(&f);
		free(model.p);
	}
	count("in x f32 1,2; out y; const w f32 2,1 1e-40 -1e-40; MatMul x w -> y", 0);
	ck_assert_uint_eq(f.rows[0].of.nonzero, 2);
	ck_assert_uint_eq(f.rows[0].p, 8);
}
END_TEST

/*
 * A transposed convolution has a product for each pixel of its operand: the channels of a group are
 * the inputs, the taps of its outputs the kernels.
 */
START_TEST(test_transposed)
{
	/* 3 bits: 3 and -4 are the largest magnitudes of the kernels; each kernel has two inputs. */
	count("in x f32 1,4,2,3; out y; const w f32 4,1,1,2 3 0 0 3 3 -3 0 3; ConvTranspose x w -> y group=2 "
	      "kernel_shape=[1,2]",
	      3);
	ck_assert_uint_eq(f.n_rows, 1);
	ck_assert_uint_eq(f.left_out, 0);
	ck_assert_uint_eq(f.rows[0].groups, 2);
	ck_assert_uint_eq(f.rows[0].n, 2);
	ck_assert_uint_eq(f.rows[0].m, 2);
	ck_assert_uint_eq(f.rows[0].windows, 6);
	ck_assert_uint_eq(f.rows[0].of.nonzero, 5);
	ck_assert_uint_eq(f.rows[0].p, 3);
}
END_TEST

/* Integer products have their weights less the zero point of the operand, of each column or of all. */
START_TEST(test_integer_operators)
{
	count("in x u8 5,2; out y; const w u8 2,3 7 8 9 10 14 7; const z u8 - 7; const xz u8 - 3; "
	      "MatMulInteger x w xz z -> y",
	      0);
	ck_assert_uint_eq(f.n_rows, 1);
	ck_assert_uint_eq(f.rows[0].n, 2);
	ck_assert_uint_eq(f.rows[0].m, 3);
	ck_assert_uint_eq(f.rows[0].p, 3); /* 0 1 2, 3 7 0 */
	ck_assert_uint_eq(f.rows[0].windows, 5);
	ck_assert_uint_eq(f.rows[0].of.nonzero, 4);
	rivulet_factor_free(&f);
	free(model.p);
	count("in x u8 5,2; out y; const w u8 2,3 7 8 9 10 14 7; const z u8 3 7 8 7; const xz u8 - 3; "
	      "MatMulInteger x w xz z -> y",
	      0);
	ck_assert_uint_eq(f.rows[0].of.nonzero, 3); /* 0 0 2, 3 6 0 */
	rivulet_factor_free(&f);
	free(model.p);
	count("in x u8 1,2,3,3; out y; const w u8 2,1,2,2 1 2 3 0 0 0 0 1; ConvInteger x w -> y group=2", 0);
	ck_assert_uint_eq(f.rows[0].groups, 2);
	ck_assert_uint_eq(f.rows[0].n, 4);
	ck_assert_uint_eq(f.rows[0].m, 1);
	ck_assert_uint_eq(f.rows[0].p, 2);
	ck_assert_uint_eq(f.rows[0].windows, 4);
	ck_assert_uint_eq(f.rows[0].of.nonzero, 4);
	rivulet_factor_free(&f);
	free(model.p);
	/* Zero points that are computed are not known. */
	count("in x u8 5,2; in z u8 -; out y; const w u8 2,3 7 8 9 10 14 7; const xz u8 - 3; "
	      "MatMulInteger x w xz z -> y",
	      0);
	ck_assert_uint_eq(f.n_rows, 0);
	ck_assert_uint_eq(f.left_out, 1);
}
END_TEST

static const char *words(const char *options)
{
	static char line[256];

	snprintf(line, sizeof(line), "ibtf %s/m.onnx %s", dir, options);
	return line;
}

static void write_model(void)
{
	char path[128];

	model = ot_model(QUANTISED, 13);
	snprintf(path, sizeof(path), "%s/m.onnx", dir);
	write_file(path, model.p, model.n);
}

START_TEST(test_formats)
{
	struct json_object *top, *row;
	double adds;

	write_model();
	EXPECT(words("--json"), 0);
	check_json("rivulet.ibtf/1");
	top = json_tokener_parse(out);
	row = json_object_array_get_idx(json_object_object_get(top, "products"), 0);
	ck_assert_int_eq(json_object_get_int(json_object_object_get(row, "bits")), 3);
	adds = json_object_get_double(json_object_object_get(row, "adds"));
	top = (json_object_put(top), NULL);
	ck_assert_double_gt(adds, 0);
	EXPECT(words("--csv"), 0);
	SAYS("node,groups,inputs,kernels,bits,windows,nonzero,eq_mac,formula,");
	SAYS(",1,2,2,3,4,3,9,");
	EXPECT(words(""), 0);
	SAYS("Eq_MAC");
	SAYS("times fewer");
	EXPECT(words("--bits 2"), 0);
	EXPECT(words("--bits 1"), 2);
	EXPECT(words("--csv --json"), 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("factor");
	TCase *t = add_case(s, "model", 60, setup, teardown);

	tcase_add_test(t, test_integers);
	tcase_add_test(t, test_rounded_integers);
	tcase_add_test(t, test_zero_point);
	tcase_add_test(t, test_floats);
	tcase_add_test(t, test_odd_floats);
	tcase_add_test(t, test_transposed);
	tcase_add_test(t, test_integer_operators);
	t = add_case(s, "verb", 60, setup, teardown);
	tcase_add_test(t, test_formats);
	return run_suite(s);
}
