/* SPDX-License-Identifier: MIT */
/*
 * Programs with a stochastic variant for each level. On the model each variant gives the bits of
 * the CPU operators at its length, the estimate is exact, weights are stored once, and a product
 * that streams cannot compute is refused by name.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "graph/interp.h"
#include "pass/passes.h"
#include "program/program.h"
#include "files.h"
#include "prog_exec.h"
#include "qgraph.h"
#include "rivulet_eval.h"
#include "suite.h"

static struct rivulet_board board;
static struct rvl_err err;

static void load_board(void)
{
	char why[256];

	ck_assert_msg(!rivulet_board_load(&board, "sc-edge", why, sizeof(why)), "%s", why);
}

/* ---- random networks ---- */

static void zero_point_0(struct rvl_tensor *t)
{
	*(int32_t *)(uintptr_t)t->quant.zp = 0;
}

static struct rvl_tensor *random_layer(struct qg *q, struct rvl_tensor *x)
{
	int64_t k = qg_range(q, 1, 3), pad = qg_range(q, 0, 1);
	struct qg_conv c = {
		.m = qg_range(q, 1, 40), .kh = k, .kw = k, .sy = qg_range(q, 1, 2),
		.pad = { pad, pad, pad, pad }, .wtype = RVL_TYPE_S8, .bias = true,
		.per_channel = true, .relu = true, .ytype = RVL_TYPE_U8, .wscale = 0.004f,
		.yscale = 0.05f,
	};
	struct rvl_tensor *y;

	if (x->shape.dim[1] % 2 == 0 && qg_range(q, 0, 3) == 0) {
		c.group = 2;
		c.m *= 2;
	}
	y = qg_conv(q, NULL, x, &c);
	zero_point_0(y);
	return qg_range(q, 0, 2) || y->shape.dim[2] < 3 || y->shape.dim[3] < 3 ?
		       y :
		       qg_max_pool(q, NULL, y, qg_range(q, 1, 2), 2, 0);
}

static struct rvl_graph *random_net(uint64_t seed)
{
	struct qg q;
	struct rvl_tensor *x;
	struct rvl_shape s = { 4, { 1, 0, 0, 0 } };
	int layers;

	qg_open(&q, seed);
	for (int i = 1; i < 4; i++)
		s.dim[i] = qg_range(&q, i == 1 ? 1 : 6, i == 1 ? 20 : 14);
	layers = (int)qg_range(&q, 1, 4);
	x = qg_tensor(&q, "x", RVL_TYPE_U8, s, 0.02f, 0);
	qg_input(&q, x);
	for (int i = 0; i < layers && x->shape.dim[2] >= 4 && x->shape.dim[3] >= 4; i++)
		x = random_layer(&q, x);
	qg_output(&q, x);
	ck_assert_int_eq(q.rc, 0);
	return q.g;
}

static void random_lengths(struct qg *q, struct rivulet_compile_options *o)
{
	*o = (struct rivulet_compile_options){ .stochastic = true };
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
		int64_t kind = qg_range(q, 0, 9);

		o->length[l] = kind == 0 ? 0 : kind == 1 ? RIVULET_NO_VARIANT : qg_range(q, 8, 256);
		if (l + 1 == board.levels && kind == 1)
			o->length[l] = 64;
	}
}

/* Computes the first output by the CPU operators at one length; 0: int8. */
static void reference(uint64_t seed, uint32_t length, const uint8_t *x, uint8_t *y)
{
	struct rvl_graph *g = random_net(seed);
	struct rvl_interp *it;
	const struct rvl_tensor *in, *out;

	ck_assert_int_eq(rvl_optimise(g, &err), 0);
	ck_assert_int_eq(rvl_sc_mark(g, NULL, 0, &err), 0);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i]->stochastic)
			g->nodes[i]->attr.sc_length = (int32_t)length;
	in = g->inputs[0];
	out = g->outputs[0];
	ck_assert_int_eq(rvl_interp_new(g, false, &it, &err), 0);
	ck_assert_int_eq(rvl_interp_set(it, 0, x, (size_t)rvl_tensor_bytes(in), &err), 0);
	ck_assert_int_eq(rvl_interp_run(it, &err), 0);
	memcpy(y, rvl_interp_data(it, out), (size_t)rvl_tensor_bytes(out));
	rvl_interp_free(it);
	rvl_graph_free(g);
}

static void check_level(struct prog_exec *x, uint64_t seed, uint32_t level, uint32_t length,
			uint64_t cycles)
{
	static uint8_t want[1 << 16];
	uint64_t n = rivulet_program_tensors(x->p)[1].size;

	x->level = level;
	memset(x->io[1], 0x77, n);
	ck_assert_msg(!prog_run(x), "%s", x->err);
	reference(seed, length, x->io[0], want);
	ck_assert_msg(!memcmp(x->io[1], want, n), "seed %llu level %u length %u",
		      (unsigned long long)seed, level, length);
	ck_assert_uint_eq(x->cycles, cycles);
}

START_TEST(every_variant_equals_the_cpu)
{
	struct qg pick = { .seed = 1000 + (uint64_t)_i };
	struct rivulet_estimate_row row[RIVULET_LEVELS];
	struct rivulet_compile_options o;
	struct rivulet_blob p = { 0 };
	struct prog_exec x;
	static uint8_t in[1 << 16], out[1 << 16];
	char why[256];

	board.sc_lanes = 1u << qg_range(&pick, 0, 4);
	board.sc_blocks = qg_range(&pick, 1, 5);
	random_lengths(&pick, &o);
	ck_assert_msg(!rvl_compile_graph(random_net(_i), &board, &o, &p, NULL, &err), "%s",
		      err.msg);
	ck_assert_msg(!rivulet_program_check(p.data, p.size, why, sizeof(why)), "%s", why);
	ck_assert_int_eq(rivulet_estimate(p.data, &board, row, &err), (int)board.levels);
	ck_assert(!prog_open(&x, &board, NULL, p.data));
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)qg_random(&pick);
	x.io[0] = in;
	x.io[1] = out;
	for (uint32_t l = 0; l < board.levels; l++) {
		bool there = rivulet_program_levels(p.data) >> l & 1;

		ck_assert_int_eq(there, o.length[l] != RIVULET_NO_VARIANT);
		ck_assert_uint_eq(x.p->level[l].length, there ? o.length[l] : 0);
		if (there)
			check_level(&x, _i, l, o.length[l], row[l].cycles);
		else
			ck_assert_uint_eq(row[l].cycles, 0);
	}
	prog_close(&x, true);
	rivulet_blob_free(&p);
}
END_TEST

/*
 * On a board without lanes, and without a board, the CPU steps give the same bits, and all levels
 * must have one length.
 */
START_TEST(without_lanes_the_cpu_gives_the_same_bits)
{
	struct rivulet_compile_options o = { .stochastic = true };
	static uint8_t in[1 << 16], out[1 << 16], want[1 << 16];
	struct rivulet_blob p = { 0 };
	struct prog_exec x;
	uint64_t n;

	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		o.length[l] = 40;
	o.cpu_only = _i;
	board.modes = 1;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i * 37);
	ck_assert_msg(!rvl_compile_graph(random_net(3), &board, &o, &p, NULL, &err), "%s", err.msg);
	ck_assert(!prog_open(&x, &board, NULL, p.data));
	x.io[0] = in;
	x.io[1] = out;
	n = rivulet_program_tensors(x.p)[1].size;
	ck_assert_msg(!prog_run(&x), "%s", x.err);
	reference(3, 40, in, want);
	ck_assert_mem_eq(out, want, n);
	prog_close(&x, true);
	rivulet_blob_free(&p);
	if (o.cpu_only)
		return;
	o.length[2] = 41;
	ck_assert_int_eq(rvl_compile_graph(random_net(3), &board, &o, &p, NULL, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.msg, "the CPU (this board has no stochastic lanes)"));
}
END_TEST

/* ---- refused models ---- */

static void refused(struct rvl_graph *g, const struct rivulet_compile_options *o, int rc,
		    const char *what)
{
	struct rivulet_blob p = { 0 };

	ck_assert_int_eq(rvl_compile_graph(g, &board, o, &p, NULL, &err), rc);
	ck_assert_msg(strstr(err.msg, what), "%s", err.msg);
}

START_TEST(what_has_no_streams_is_refused)
{
	struct rivulet_compile_options o = { .stochastic = true };
	const char *keep[] = { "first", "nobody" };
	struct rvl_graph *g = random_net(5);

	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		o.length[l] = 64;
	*(int32_t *)(uintptr_t)g->inputs[0]->quant.zp = 7;
	refused(g, &o, -EOPNOTSUPP, "not uint8 with zero point 0");
	o.length[3] = 7;
	refused(random_net(5), &o, -EINVAL, "level 3: a bitstream of 7 bits");
	o.length[3] = 257;
	refused(random_net(5), &o, -EINVAL, "level 3: a bitstream of 257 bits");
	o.length[3] = 64;
	o.keep_int8 = keep;
	o.n_keep_int8 = 2;
	refused(random_net(5), &o, -ENOENT, "nobody");
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		o.length[l] = RIVULET_NO_VARIANT;
	o.n_keep_int8 = 0;
	refused(random_net(5), &o, -EINVAL, "no level has a variant");
}
END_TEST

/* ---- whole models ---- */

static const char *const models[] = { "models/mlp.onnx", "models/lenet540.onnx" };

static size_t program_size(const void *onnx, size_t size, const uint32_t *length)
{
	struct rivulet_compile_options o = { .stochastic = true };
	struct rivulet_blob p = { 0 };
	size_t bytes;

	memcpy(o.length, length, sizeof(o.length));
	ck_assert_msg(!rivulet_compile(onnx, size, &board, &o, &p, NULL, &err), "%s", err.msg);
	bytes = p.size;
	rivulet_blob_free(&p);
	return bytes;
}

/* With three lengths, weights and parameters are stored once and commands once for each length. */
START_TEST(variants_share_their_weights)
{
	const uint32_t no = RIVULET_NO_VARIANT;
	const uint32_t one[RIVULET_LEVELS] = { no, no, no, no, no, 64 };
	const uint32_t three[RIVULET_LEVELS] = { no, no, 20, 32, no, 64 };
	size_t size;
	void *onnx = read_file(models[_i], &size);
	size_t a = program_size(onnx, size, one), b = program_size(onnx, size, three);

	ck_assert_msg(b * 100 <= a * 112, "%zu bytes for one level, %zu for three", a, b);
	free(onnx);
}
END_TEST

/*
 * The scores of whole models on the device at each level equal the evaluator's; the highest level
 * is int8.
 */
START_TEST(models_equal_the_evaluator)
{
	const uint32_t lengths[RIVULET_LEVELS] = { 8, 20, 33, 64, 256, 0 };
	struct rivulet_compile_options o = { .stochastic = true, .batch = 1 };
	static float image[784], want[10], got[10];
	struct rivulet_eval_data d = { .f32 = image, .count = 1, .size = 784 };
	struct rivulet_eval *e;
	struct rivulet_blob p = { 0 };
	struct prog_exec x;
	size_t size;
	void *onnx = read_file(models[_i], &size);

	memcpy(o.length, lengths, sizeof(o.length));
	for (int i = 0; i < 784; i++)
		image[i] = i / 28 > 4 && i / 28 < 24 && i % 28 > 6 &&
			i % 28 < 20 ? (float)(i % 7) / 6 : 0;
	ck_assert_msg(!rivulet_compile(onnx, size, &board, &o, &p, NULL, &err), "%s", err.msg);
	ck_assert_msg(!rivulet_eval_new(onnx, size, &o, &e, &err), "%s", err.msg);
	ck_assert_uint_eq(rivulet_eval_score_bytes(e), sizeof(want));
	ck_assert(!prog_open(&x, &board, NULL, p.data));
	x.io[0] = image;
	x.io[1] = got;
	for (uint32_t l = 0; l < board.levels; l++) {
		struct rivulet_eval_spec s = { .length = lengths[l] };

		x.level = l;
		ck_assert_msg(!prog_run(&x), "%s", x.err);
		ck_assert_int_eq(rivulet_eval_scores(e, &s, &d, 0, want, &err), 1);
		ck_assert_mem_eq(got, want, sizeof(want));
	}
	prog_close(&x, true);
	rivulet_eval_free(e);
	rivulet_blob_free(&p);
	free(onnx);
}
END_TEST

/* The first and the last layer stay int8, on the device and in the evaluator. */
START_TEST(layers_may_stay_int8)
{
	const char *keep[] = { "first", "fc2" };
	struct rivulet_compile_options o = { .stochastic = true, .keep_int8 = keep,
					     .n_keep_int8 = 2 };
	struct rivulet_explain e;
	struct rivulet_eval *v;
	uint64_t streams;
	size_t size;
	void *onnx = read_file(models[0], &size);

	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		o.length[l] = 32;
	ck_assert_msg(!rivulet_compile(onnx, size, &board, &o, NULL, &e, &err), "%s", err.msg);
	ck_assert_ptr_null(strstr(e.rows[1].reason, "streams"));
	ck_assert_ptr_nonnull(strstr(e.rows[2].reason, "streams of 32 bits"));
	ck_assert_ptr_null(strstr(e.rows[3].reason, "streams"));
	ck_assert_uint_eq(e.level[0].length, 32);
	rivulet_explain_free(&e);
	ck_assert(!rivulet_eval_new(onnx, size, &o, &v, &err));
	ck_assert_uint_eq(rivulet_eval_macs(v, &streams), 163520);
	ck_assert_uint_eq(streams, 6400);
	rivulet_eval_free(v);
	free(onnx);
}
END_TEST

/* ---- float models ---- */

#define CALIB_IN  (3 * 6 * 6)
#define CALIB_RUNS 50

static struct rvl_tensor *float_tensor(struct qg *q, const char *name, struct rvl_shape s)
{
	struct rvl_tensor *t = NULL;

	ck_assert_int_eq(rvl_tensor_new(q->g, name, &t, &err), 0);
	t->type = RVL_TYPE_F32;
	t->shape = s;
	t->shaped = true;
	return t;
}

static struct rvl_tensor *float_const(struct qg *q, struct rvl_shape s)
{
	struct rvl_tensor *t = NULL;
	float v[1024];

	for (int64_t i = 0; i < rvl_shape_count(&s); i++)
		v[i] = (float)qg_range(q, -1000, 1000) / 3000;
	ck_assert_int_eq(rvl_tensor_const(q->g, NULL, RVL_TYPE_F32, &s, v, &t, &err), 0);
	return t;
}

/* Conv, Relu, MaxPool, Flatten, Gemm in floats. */
static struct rvl_graph *float_net(void)
{
	struct qg q;
	struct rvl_tensor *x, *y, *in[3] = { NULL };

	qg_open(&q, 11);
	x = float_tensor(&q, "x", (struct rvl_shape){ 4, { 1, 3, 6, 6 } });
	qg_input(&q, x);
	in[0] = x;
	in[1] = float_const(&q, (struct rvl_shape){ 4, { 8, 3, 3, 3 } });
	in[2] = float_const(&q, (struct rvl_shape){ 1, { 8 } });
	y = float_tensor(&q, NULL, (struct rvl_shape){ 4, { 1, 8, 4, 4 } });
	qg_node(&q, RVL_OP_CONV, "conv", 3, in, y)->attr.kernel[0] = 3;
	y->producer->attr.kernel[1] = 3;
	x = float_tensor(&q, NULL, y->shape);
	qg_node(&q, RVL_OP_RELU, "relu", 1, &y, x);
	y = float_tensor(&q, NULL, (struct rvl_shape){ 4, { 1, 8, 2, 2 } });
	qg_node(&q, RVL_OP_MAX_POOL, "pool", 1, &x, y);
	for (int i = 0; i < 2; i++)
		y->producer->attr.kernel[i] = y->producer->attr.stride[i] = 2;
	x = float_tensor(&q, NULL, (struct rvl_shape){ 2, { 1, 32 } });
	qg_node(&q, RVL_OP_FLATTEN, "flat", 1, &y, x)->attr.axis = 1;
	in[0] = x;
	in[1] = float_const(&q, (struct rvl_shape){ 2, { 5, 32 } });
	in[2] = float_const(&q, (struct rvl_shape){ 1, { 5 } });
	y = float_tensor(&q, "scores", (struct rvl_shape){ 2, { 1, 5 } });
	qg_node(&q, RVL_OP_GEMM, "fc", 3, in, y)->attr.trans_b = 1;
	qg_output(&q, y);
	ck_assert_int_eq(q.rc, 0);
	return q.g;
}

static void float_scores(const float *x, float *y)
{
	struct rvl_graph *g = float_net();
	struct rvl_interp *it;

	ck_assert_int_eq(rvl_optimise(g, &err), 0);
	ck_assert_int_eq(rvl_interp_new(g, false, &it, &err), 0);
	ck_assert_int_eq(rvl_interp_set(it, 0, x, CALIB_IN * sizeof(float), &err), 0);
	ck_assert_int_eq(rvl_interp_run(it, &err), 0);
	memcpy(y, rvl_interp_data(it, g->outputs[0]), 5 * sizeof(float));
	rvl_interp_free(it);
	rvl_graph_free(g);
}

/*
 * A calibrated model has all products on the device. The results of int8 and of 256 bits are near
 * those of the float model.
 */
START_TEST(float_models_are_calibrated)
{
	static float data[CALIB_RUNS * CALIB_IN];
	const struct rivulet_examples e = { .data = data, .size = sizeof(data) };
	struct rivulet_compile_options o = { .stochastic = true,
					     .quantise = { .examples = &e, .n_examples = 1 } };
	struct rivulet_blob p = { 0 };
	struct prog_exec x;
	float want[5], got[5];

	for (int i = 0; i < CALIB_RUNS * CALIB_IN; i++)
		data[i] = (float)(rand() % 256) / 255;
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		o.length[l] = l == 5 ? 0 : 256;
	ck_assert_msg(!rvl_compile_graph(float_net(), &board, &o, &p, NULL, &err), "%s", err.msg);
	ck_assert(!prog_open(&x, &board, NULL, p.data));
	ck_assert_uint_eq(x.p->target.modes,
			  1 << RIVULET_MODE_DENSE | 1 << RIVULET_MODE_STOCHASTIC);
	ck_assert_str_eq(rivulet_program_string(x.p, rivulet_program_tensors(x.p)[1].name),
			 "scores");
	for (int run = 0; run < 10; run++) {
		x.io[0] = data + run * CALIB_IN;
		x.io[1] = got;
		float_scores(x.io[0], want);
		for (x.level = 0; x.level < 6; x.level += 5) {
			ck_assert_msg(!prog_run(&x), "%s", x.err);
			for (int i = 0; i < 5; i++)
				ck_assert_float_eq_tol(got[i], want[i], x.level ? 0.05f : 0.1f);
		}
	}
	prog_close(&x, true);
	rivulet_blob_free(&p);
}
END_TEST

START_TEST(calibration_that_does_not_fit_is_refused)
{
	static float data[CALIB_IN];
	struct rivulet_examples e = { .data = data, .size = sizeof(data) - sizeof(float) };
	struct rivulet_compile_options o = { .quantise = { .examples = &e, .n_examples = 1 } };

	refused(float_net(), &o, -EINVAL, "no multiple of an example's 432 of input");
	e.size = 0;
	refused(float_net(), &o, -EINVAL, "there are no calibration data of input");
	e.size = sizeof(data);
	data[5] = INFINITY;
	refused(float_net(), &o, -EINVAL, "NaN in");
	data[5] = 0;
	e.input = "somebody";
	refused(float_net(), &o, -EINVAL, "which is no input of the model");
	o = (struct rivulet_compile_options){ .stochastic = true };
	refused(float_net(), &o, -EOPNOTSUPP, "calibrate the model");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("stochastic");
	TCase *t = tcase_create("stochastic");

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, load_board, NULL);
	tcase_add_loop_test(t, every_variant_equals_the_cpu, 0, 40);
	tcase_add_loop_test(t, without_lanes_the_cpu_gives_the_same_bits, 0, 2);
	tcase_add_test(t, what_has_no_streams_is_refused);
	tcase_add_loop_test(t, variants_share_their_weights, 0, 2);
	tcase_add_loop_test(t, models_equal_the_evaluator, 0, 2);
	tcase_add_test(t, layers_may_stay_int8);
	tcase_add_test(t, float_models_are_calibrated);
	tcase_add_test(t, calibration_that_does_not_fit_is_refused);
	suite_add_tcase(s, t);
	return run_suite(s);
}
