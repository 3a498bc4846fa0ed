/* SPDX-License-Identifier: MIT */
/* A float model in text that a test quantises by its own examples, and the results of either form. */
#ifndef RVL_TEST_CALIBRATE_RIG_H
#define RVL_TEST_CALIBRATE_RIG_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/interp.h"
#include "onnx/onnx.h"
#include "pass/passes.h"
#include "quant/calibrate.h"
#include "unit/onnx_text.h"

static struct rvl_graph *g;
static struct pb bytes;
static struct rvl_err err;
static int opset = 13;

/* Default settings of the tests. */
static struct rivulet_quantise how = { .range = RIVULET_RANGE_MIN_MAX, .threads = 2 };

/* @size values for each input, the inputs one after the other. */
static inline int calibrate(const char *text, const float *data, uint64_t size)
{
	struct rivulet_examples e[4];
	struct rivulet_quantise q = how;
	int rc;

	bytes = ot_model(text, opset);
	err.msg[0] = '\0';
	rc = rvl_onnx_load(bytes.p, bytes.n, NULL, &g, &err);
	ck_assert_msg(!rc, "%s: %s", text, err.msg);
	q.examples = e;
	for (q.n_examples = 0; q.n_examples < g->n_inputs; q.n_examples++)
		e[q.n_examples] = (struct rivulet_examples){ g->inputs[q.n_examples]->name,
							     data + q.n_examples * size,
							     size * sizeof(float) };
	rc = rvl_calibrate(g, &q, &err);
	if (!rc)
		rc = rvl_optimise(g, &err);
	return rc;
}

static inline void release(void)
{
	rvl_graph_free(g);
	free(bytes.p);
}

static inline struct rvl_node *only(enum rvl_op op)
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

static inline uint32_t count(enum rvl_op op)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += g->nodes[i]->op == op;
	return n;
}

static inline void run_float(const float *x, float *y)
{
	const struct rvl_tensor *out = g->outputs[0];
	struct rvl_interp *it;

	ck_assert_msg(!rvl_interp_new(g, false, &it, &err), "%s", err.msg);
	ck_assert_int_eq(rvl_interp_set(it, 0, x, (size_t)rvl_tensor_bytes(g->inputs[0]), &err), 0);
	ck_assert_int_eq(rvl_interp_run(it, &err), 0);
	memcpy(y, rvl_interp_data(it, out), (size_t)rvl_tensor_bytes(out));
	rvl_interp_free(it);
}

/* The outputs of the quantised model are those of the float model, within @part of the largest one. */
static inline void near_float(const char *text, const float *x, uint64_t size, float part)
{
	static float want[4096], got[4096];
	float most = 0;
	int64_t n;

	bytes = ot_model(text, opset);
	ck_assert_msg(!rvl_onnx_load(bytes.p, bytes.n, NULL, &g, &err), "%s", err.msg);
	ck_assert_msg(!rvl_shape_infer(g, &err), "%s", err.msg);
	run_float(x, want);
	release();
	ck_assert_msg(!calibrate(text, x, size), "%s: %s", text, err.msg);
	run_float(x, got);
	n = rvl_shape_count(&g->outputs[0]->shape);
	for (int64_t i = 0; i < n; i++)
		most = fmaxf(most, fabsf(want[i]));
	for (int64_t i = 0; i < n; i++)
		ck_assert_msg(fabsf(got[i] - want[i]) <= part * most, "%s: value %lld is %g, not %g", text,
			      (long long)i, (double)got[i], (double)want[i]);
}

#endif
