/* SPDX-License-Identifier: MIT */
/*
 * Tests calibration against numbers computed by hand, and the proof that an average pool is exact
 * against pools that try every sum.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/interp.h"
#include "npu/constraint.h"
#include "onnx/onnx.h"
#include "pass/passes.h"
#include "quant/calibrate.h"
#include "chance.h"
#include "suite.h"
#include "unit/onnx_text.h"

static struct rvl_graph *g;
static struct pb bytes;
static struct rvl_err err;

static int calibrate(const char *text, const float *data, uint64_t size)
{
	int rc;

	bytes = ot_model(text, 13);
	err.msg[0] = '\0';
	rc = rvl_onnx_load(bytes.p, bytes.n, NULL, &g, &err);
	ck_assert_msg(!rc, "%s: %s", text, err.msg);
	rc = rvl_calibrate(g, data, size, &err);
	if (!rc)
		rc = rvl_optimise(g, &err);
	return rc;
}

static void release(void)
{
	rvl_graph_free(g);
	free(bytes.p);
}

static void refused(const char *text, const float *data, uint64_t size, int want, const char *says)
{
	int rc = calibrate(text, data, size);

	ck_assert_msg(rc == want && !strcmp(err.msg, says), "%d, \"%s\", not %d, \"%s\"", rc,
		      err.msg, want, says);
	release();
}

static struct rvl_node *only(enum rvl_op op)
{
	struct rvl_node *found = NULL;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (g->nodes[i]->op != op)
			continue;
		ck_assert_ptr_null(found);
		found = g->nodes[i];
	}
	ck_assert_msg(found != NULL, "no %s", rvl_op_name(op));
	return found;
}

static void has(const struct rvl_tensor *t, double scale, int32_t zp)
{
	ck_assert_uint_eq(t->quant.n, 1);
	ck_assert_msg(fabs((double)t->quant.scale[0] - scale) <= 1e-6 * scale &&
			      t->quant.zp[0] == zp,
		      "'%s' has scale %.9g and zero point %d, not %.9g and %d", t->name,
		      (double)t->quant.scale[0], t->quant.zp[0], scale, zp);
}

#define CONV(w) "in x f32 1,1,1,4; out y; const w f32 1,1,1,1 " w "; Conv x w -> c; Relu c -> y"

/* Inputs keep their whole range; a result of a clamp has zero point 0. */
START_TEST(ranges_become_scales)
{
	static const struct {
		float v[8];
		const char *w;
		double xs;
		int32_t xz;
		double ys;
		int32_t yz;
	} cases[] = {
		{ { 1, -2, 3, 4, 0.5f, 2.5f, -1, 0 }, CONV("2"), 6.0 / 255, 85, 8.0 / 255, 0 },
		{ { 1, 2, 3, 4, 0.5f, 2.5f, 1, 0 }, CONV("2"), 4.0 / 255, 0, 8.0 / 255, 0 },
		/* Nothing above 0: the range ends at 0. */
		{ { -1, -2, -3, -4, -0.5f, -2.5f, -1, -5 },
		  CONV("-2"),
		  5.0 / 255,
		  255,
		  10.0 / 255,
		  0 },
		/* Nothing but zeroes. */
		{ { 0 }, CONV("2"), 1.0 / 255, 0, 1.0 / 255, 0 },
		{ { 1, 2, 3, 4, 1, 1, 1, 1 }, CONV("-2"), 4.0 / 255, 0, 1.0 / 255, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct rvl_node *n;

		ck_assert_msg(!calibrate(cases[i].w, cases[i].v, 8), "%s", err.msg);
		n = only(RVL_OP_Q_CONV);
		has(n->in[0], cases[i].xs, cases[i].xz);
		has(n->out[0], cases[i].ys, cases[i].yz);
		ck_assert_str_eq(only(RVL_OP_QUANTIZE)->in[0]->name, "x");
		ck_assert_str_eq(only(RVL_OP_DEQUANTIZE)->out[0]->name, "y");
		ck_assert_int_eq(n->in[0]->type, RVL_TYPE_U8);
		release();
	}
}
END_TEST

/* Without a clamp the result has both signs and its whole range. */
START_TEST(signed_results_are_not_clipped)
{
	static const float v[8] = { 1, -2, 3, 4, 0.5f, 2.5f, -1, 0 };

	ck_assert_msg(!calibrate("in x f32 1,1,1,4; out y; const w f32 1,1,1,1 -3; Conv x w -> y",
				 v, 8),
		      "%s", err.msg);
	has(only(RVL_OP_Q_CONV)->out[0], 18.0 / 255, 170);
	release();
}
END_TEST

/* 99.9 % of the magnitudes of a result without negative values stay below its clip, found in 4096
 * steps. */
START_TEST(outliers_are_clipped)
{
	static float v[2000];

	for (int large = 1; large <= 4; large++) {
		for (int i = 0; i < 2000; i++)
			v[i] = i < 2000 - large ? 1 : 100;
		ck_assert_msg(!calibrate("in x f32 1,1,1,1000; out y; const w f32 1,1,1,1 1; Conv "
					 "x w -> c; Relu c -> y",
					 v, 2000),
			      "%s", err.msg);
		has(only(RVL_OP_Q_CONV)->in[0], 100.0 / 255, 0);
		has(only(RVL_OP_Q_CONV)->out[0], (large <= 2 ? 100.0 * 41 / 4096 : 100.0) / 255, 0);
		release();
	}
}
END_TEST

/* Rows: output channels of a convolution, columns of a matrix or rows of a transposed one; 127 is
 * the largest byte. */
START_TEST(weights_have_a_scale_by_row)
{
	static const float v[4] = { 1, 2, 3, 4 };
	static const struct {
		const char *text;
		enum rvl_op op;
		int32_t axis;
		double scale[2];
		int8_t w[4];
	} cases[] = {
		{ "in x f32 1,2,1,2; out y; const w f32 2,2,1,1 1 -0.25 0 0.5; Conv x w -> y",
		  RVL_OP_Q_CONV,
		  0,
		  { 1.0 / 127, 0.5 / 127 },
		  { 127, -32, 0, 127 } },
		{ "in x f32 2,2; out y; const w f32 2,2 1 -0.25 0 0.5; MatMul x w -> y",
		  RVL_OP_Q_MATMUL,
		  1,
		  { 1.0 / 127, 0.5 / 127 },
		  { 127, -64, 0, 127 } },
		{ "in x f32 2,2; out y; const w f32 2,2 1 -0.25 0 0.5; Gemm x w -> y",
		  RVL_OP_Q_MATMUL,
		  1,
		  { 1.0 / 127, 0.5 / 127 },
		  { 127, -64, 0, 127 } },
		{ "in x f32 2,2; out y; const w f32 2,2 1 -0.25 0 0.5; Gemm x w -> y transB=1",
		  RVL_OP_Q_MATMUL,
		  0,
		  { 1.0 / 127, 0.5 / 127 },
		  { 127, -32, 0, 127 } },
		/* A row of zeroes has a scale, too. */
		{ "in x f32 2,2; out y; const w f32 2,2 -2 1 0 0; Gemm x w -> y transB=1",
		  RVL_OP_Q_MATMUL,
		  0,
		  { 2.0 / 127, 1.0 / 127 },
		  { -127, 64, 0, 0 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct rvl_tensor *w;

		ck_assert_msg(!calibrate(cases[i].text, v, 4), "%s", err.msg);
		w = only(cases[i].op)->in[1];
		ck_assert_int_eq(w->type, RVL_TYPE_S8);
		ck_assert_uint_eq(w->quant.n, 2);
		ck_assert_int_eq(w->quant.axis, cases[i].axis);
		for (int k = 0; k < 2; k++)
			ck_assert_msg(fabs((double)w->quant.scale[k] - cases[i].scale[k]) < 1e-8,
				      "case %zu: scale %d", i, k);
		ck_assert_msg(!memcmp(w->data, cases[i].w, 4), "case %zu", i);
		release();
	}
}
END_TEST

/* What only moves values takes bytes: the parameters are those of what made the values. */
START_TEST(quantisation_moves_to_where_values_arise)
{
	static const float v[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 1, 1, 1, 16 };

	ck_assert_msg(!calibrate("in x f32 1,1,4,4; out y; MaxPool x -> p kernel_shape=[2,2] "
				 "strides=[2,2]; Flatten p -> f; "
				 "const w f32 4,2 1; MatMul f w -> y",
				 v, 16),
		      "%s", err.msg);
	has(only(RVL_OP_MAX_POOL)->in[0], 16.0 / 255, 0);
	has(only(RVL_OP_Q_MATMUL)->in[0], 16.0 / 255, 0);
	ck_assert_int_eq(only(RVL_OP_QUANTIZE)->in[0]->is_input, true);
	release();
}
END_TEST

START_TEST(data_and_models_that_do_not_fit)
{
	static const float v[8] = { 1, NAN, 3, 4, INFINITY, 6, 7, 8 };

	refused(CONV("1"), v, 7, -EINVAL,
		"calibration data of 7 values is no multiple of the input's 4");
	refused(CONV("1"), v, 3, -EINVAL,
		"calibration data of 3 values is no multiple of the input's 4");
	refused(CONV("1"), v, 0, -EINVAL,
		"calibration data of 0 values is no multiple of the input's 4");
	refused("in x u8 4; out y; Relu x -> y", v, 4, -EINVAL,
		"calibration needs a model with one float32 input");
	refused("in x f32 4; in z f32 4; out y; Add x z -> y", v, 4, -EINVAL,
		"calibration needs a model with one float32 input");
	refused("in x f32 4; out y; Relu x -> y", v, 4, -EINVAL,
		"nothing to calibrate: no float convolution or matrix product with constant "
		"weights");
	refused("in x f32 2,2; out y; MatMul x x -> y", v, 4, -EINVAL,
		"nothing to calibrate: no float convolution or matrix product with constant "
		"weights");
	refused(CONV("1"), v + 4, 4, -EINVAL, "calibration gives no numbers in \"x\"");
	refused("in x f32 4; out y; Frob x -> y", v, 4, -EOPNOTSUPP,
		"node 'Frob_0' (Frob): operator Frob is not in docs/operators.md");
}
END_TEST

/* ---- average pools ---- */

#define WINDOWS 1021 /* sums of four bytes */
#define FORMS	3    /* summands of each */
#define PROVED                                                                                     \
	417 /* pools of the test; the bound of the rounding errors leaves 19 more undecided */

static struct rvl_graph *pool(float xs, int32_t xz, float ys, int32_t yz)
{
	struct rvl_tensor *t[2];
	struct rvl_node *n;

	g = rvl_graph_new();
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(rvl_tensor_new(g, NULL, &t[i], &err), 0);
		t[i]->type = RVL_TYPE_U8;
		t[i]->shape = (struct rvl_shape){ 4, { 1, 1, 1, WINDOWS * FORMS * (i ? 1 : 4) } };
		t[i]->shaped = true;
		ck_assert_int_eq(
			rvl_tensor_set_quant(g, t[i], 1, 0, i ? &ys : &xs, i ? &yz : &xz, &err), 0);
	}
	ck_assert_int_eq(rvl_graph_add_input(g, t[0], &err), 0);
	ck_assert_int_eq(rvl_graph_add_output(g, t[1], &err), 0);
	ck_assert_int_eq(rvl_node_new(g, RVL_OP_Q_AVERAGE_POOL, NULL, &n, &err), 0);
	n->attr.kernel[1] = n->attr.stride[1] = 4;
	ck_assert_int_eq(rvl_node_set_in(g, n, 0, t[0], &err), 0);
	rvl_node_set_out(n, 0, t[1]);
	return g;
}

/* Bytes of every sum: as even as possible, as uneven as possible from the front, and from the back.
 */
static void every_sum(uint8_t *x)
{
	for (int sum = 0; sum < WINDOWS; sum++) {
		for (int form = 0; form < FORMS; form++, x += 4) {
			int left = sum;

			for (int k = 0; k < 4; k++) {
				int v = form ? (left > 255 ? 255 : left) : left / (4 - k);

				x[form == 2 ? 3 - k : k] = (uint8_t)v;
				left -= v;
			}
		}
	}
}

/* docs/isa.md, AVG_BORDER. */
static int integers(const uint8_t *x, float xs, int32_t xz, float ys, int32_t yz)
{
	int sum = x[0] + x[1] + x[2] + x[3] - 4 * xz;
	float m = xs / ys, v;

	m = m / 4;
	v = (float)sum * m;
	v = fminf(fmaxf(v, (float)-yz), (float)(255 - yz));
	return (int)rintf(v) + yz;
}

/* How many sums onnxruntime's arithmetic and the NPU's disagree about. */
static int differences(const uint8_t *x, float xs, int32_t xz, float ys, int32_t yz)
{
	struct rvl_interp *it;
	const uint8_t *y;
	int n = 0;

	ck_assert_int_eq(rvl_interp_new(g, true, &it, &err), 0);
	ck_assert_int_eq(rvl_interp_set(it, 0, x, WINDOWS * FORMS * 4, &err), 0);
	ck_assert_int_eq(rvl_interp_run(it, &err), 0);
	y = rvl_interp_data(it, g->outputs[0]);
	for (int i = 0; i < WINDOWS * FORMS; i++)
		n += y[i] != integers(x + 4 * i, xs, xz, ys, yz);
	rvl_interp_free(it);
	return n;
}

/*
 * What is called exact is exact for every sum. Scales with few bits add without an error, so that
 * the answer is exact in the other direction, too; of the others as many are proved as the error's
 * bound allows.
 */
START_TEST(proofs_of_average_pools)
{
	static uint8_t x[WINDOWS * FORMS * 4];
	int proved = 0, differ = 0;
	uint64_t seed = 5;

	every_sum(x);
	for (int i = 0; i < 500; i++) {
		bool few = i % 2;
		float xs = few ? (float)chance_range(&seed, 1, 63) / 1024 :
				 (float)chance_uniform(&seed, 0.01, 0.03);
		float ys = i % 5 == 0 ? xs : (float)chance_uniform(&seed, 0.01, 0.03);
		int32_t xz = i % 3 ? 0 : (int32_t)chance_range(&seed, 0, 255),
			yz = (int32_t)chance_range(&seed, 0, 255);
		bool exact;
		int n;

		pool(xs, xz, ys, yz);
		exact = rvl_average_exact(g->nodes[0]);
		n = differences(x, xs, xz, ys, yz);
		ck_assert_msg(!exact || !n, "pool %d is called exact, but %d sums differ", i, n);
		ck_assert_msg(!few || exact == !n,
			      "pool %d adds without an error, and no sum differs", i);
		proved += exact;
		differ += n != 0;
		rvl_graph_free(g);
	}
	ck_assert_msg(proved >= PROVED && differ >= 50, "%d proved, %d differ", proved, differ);
}
END_TEST

START_TEST(windows_that_are_too_large_to_try)
{
	/* Every result is 255, the zero point, because no sum is negative. */
	pool(0.3f, 0, 0.7f, 255);
	ck_assert(rvl_average_exact(g->nodes[0]));
	g->nodes[0]->attr.kernel[1] = 64;
	ck_assert(rvl_average_exact(g->nodes[0]));
	g->nodes[0]->attr.kernel[1] = 65;
	ck_assert(!rvl_average_exact(g->nodes[0]));
	/* Windows that begin behind the image hold nothing. */
	g->nodes[0]->attr.kernel[1] = 1;
	g->nodes[0]->attr.pad[1] = 1;
	ck_assert(!rvl_average_exact(g->nodes[0]));
	g->nodes[0]->attr.count_include_pad = 1;
	ck_assert(rvl_average_exact(g->nodes[0]));
	rvl_graph_free(g);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("calibrate");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, ranges_become_scales);
	tcase_add_test(t, signed_results_are_not_clipped);
	tcase_add_test(t, outliers_are_clipped);
	tcase_add_test(t, weights_have_a_scale_by_row);
	tcase_add_test(t, quantisation_moves_to_where_values_arise);
	tcase_add_test(t, data_and_models_that_do_not_fit);
	tcase_add_test(t, proofs_of_average_pools);
	tcase_add_test(t, windows_that_are_too_large_to_try);
	suite_add_tcase(s, t);
	return run_suite(s);
}
