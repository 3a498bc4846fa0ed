/* SPDX-License-Identifier: MIT */
/*
 * The pass of layouts: which images lie in NHWC, what is reordered, and that nothing changes but the
 * order of bytes. Programs whose layouts cannot be are refused.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/interp.h"
#include "npu/partition.h"
#include "pass/passes.h"
#include "prog_exec.h"
#include "program/program.h"
#include "graph_rig.h"
#include "qgraph.h"
#include "rivulet_crc32c.h"
#include "suite.h"

static struct rivulet_board board;
static struct qg q;

static void load_board(void)
{
	char why[256];

	ck_assert(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)));
}

/* ---- graphs ---- */

static struct rvl_tensor *input(struct rvl_shape s)
{
	struct rvl_tensor *t = qg_tensor(&q, "x", RVL_TYPE_U8, s, 0.03f, 3);

	qg_input(&q, t);
	return t;
}

static struct rvl_tensor *conv(struct rvl_tensor *x, int64_t m, int64_t group)
{
	struct qg_conv c = {
		.m = m, .kh = 3, .kw = 3, .sy = 1, .sx = 1, .group = group, .pad = { 1, 1, 1, 1 },
		.wtype = RVL_TYPE_S8, .per_channel = true, .bias = true, .ytype = RVL_TYPE_U8,
		.wscale = 1 / 512.0f, .yscale = 0.05f,
	};

	return qg_conv(&q, NULL, x, &c);
}

static struct rvl_tensor *transpose(struct rvl_tensor *x, const int32_t perm[4])
{
	struct rvl_shape s = { .rank = 4 };
	struct rvl_tensor *y;
	struct rvl_node *n;

	for (int i = 0; i < 4; i++)
		s.dim[i] = x->shape.dim[perm[i]];
	y = qg_tensor(&q, NULL, x->type, s, x->quant.scale[0], x->quant.zp[0]);
	n = qg_node(&q, RVL_OP_TRANSPOSE, NULL, 1, &x, y);
	ck_assert_ptr_nonnull(n);
	n->attr.perm_rank = 4;
	memcpy(n->attr.perm, perm, 4 * sizeof(*perm));
	return y;
}

static const int32_t TO_NCHW[4] = { 0, 3, 1, 2 }, TO_NHWC[4] = { 0, 2, 3, 1 };

static struct rvl_tensor *add(struct rvl_tensor *a, struct rvl_tensor *b)
{
	struct rvl_tensor *in[] = { a, b };
	struct rvl_tensor *y = qg_tensor(&q, NULL, RVL_TYPE_U8, a->shape, 0.06f, 100);

	qg_node(&q, RVL_OP_Q_ADD, NULL, 2, in, y);
	return y;
}

static struct rvl_tensor *flatten(struct rvl_tensor *x)
{
	struct rvl_shape s = { 2, { 1, rvl_shape_count(&x->shape) } };
	struct rvl_tensor *y = qg_tensor(&q, NULL, x->type, s, x->quant.scale[0], x->quant.zp[0]);
	struct rvl_node *n = qg_node(&q, RVL_OP_FLATTEN, NULL, 1, &x, y);

	ck_assert_ptr_nonnull(n);
	n->attr.axis = 1;
	return y;
}

static void chain(void)
{
	struct rvl_tensor *t = input((struct rvl_shape){ 4, { 1, 5, 8, 8 } });

	for (int i = 0; i < 5; i++)
		t = conv(t, 6, 1);
	qg_output(&q, t);
}

/* Pools and sums take the layout of the convolutions around them. */
static void residual(void)
{
	struct rvl_tensor *t = conv(input((struct rvl_shape){ 4, { 1, 5, 9, 9 } }), 8, 1);

	t = qg_max_pool(&q, NULL, t, 3, 2, 1);
	t = add(conv(t, 8, 8), t);
	qg_output(&q, conv(t, 4, 1));
}

/* As a TensorFlow exporter writes it. */
static void edges(void)
{
	struct rvl_tensor *t = input((struct rvl_shape){ 4, { 1, 8, 8, 3 } });

	t = conv(transpose(t, TO_NCHW), 6, 1);
	qg_output(&q, transpose(conv(t, 4, 1), TO_NHWC));
}

/* The rows of the result are pixels, as a model's last product reads them. */
static void flat_edge(void)
{
	struct rvl_tensor *t = conv(input((struct rvl_shape){ 4, { 1, 5, 8, 8 } }), 6, 1);

	qg_output(&q, flatten(transpose(conv(t, 4, 1), TO_NHWC)));
}

/* One value that a convolution reads and that leaves the model. */
static void shared(void)
{
	struct rvl_tensor *t = conv(input((struct rvl_shape){ 4, { 1, 5, 8, 8 } }), 6, 1);

	qg_output(&q, t);
	qg_output(&q, conv(t, 4, 1));
}

/* A transposition whose bytes the caller binds on both sides is a copy. */
static void between_caller(void)
{
	qg_output(&q, transpose(input((struct rvl_shape){ 4, { 1, 8, 8, 3 } }), TO_NCHW));
}

/* ---- compilations ---- */

struct result {
	uint32_t steps, reorders, copies;
	uint64_t reordered;
	uint8_t out[2][1024];
};

static void compile(void (*build)(void), bool layouts, struct result *r)
{
	const struct rivulet_compile_options opt = { .cpu_only = true, .no_layouts = !layouts };
	struct graph_result run = { .out = r->out[0], .size = sizeof(r->out[0]) };
	struct rivulet_explain e;

	memset(r->out, 0, sizeof(r->out));
	run_graph(&q, build, &opt, 5, &e, &run);
	r->reorders = e.reorders;
	r->reordered = e.reorder_bytes;
	r->copies = e.copies;
	r->steps = run.steps;
	rivulet_explain_free(&e);
}

START_TEST(what_is_reordered)
{
	static const struct {
		void (*build)(void);
		uint32_t steps, reorders, copies;	/* with layouts */
		uint32_t steps_off, reorders_off;	/* without */
	} want[] = {
		/* The first convolution reads the input, the last one writes the output. */
		{ chain, 5, 2, 0, 5, 10 },
		{ residual, 5, 2, 0, 5, 6 },
		{ edges, 2, 0, 0, 4, 4 },
		{ flat_edge, 2, 1, 0, 3, 4 },
		/* A Reorder makes the output. */
		{ shared, 3, 3, 1, 2, 4 },
		{ between_caller, 1, 0, 1, 1, 0 },
	};
	struct result on, off;

	compile(want[_i].build, true, &on);
	compile(want[_i].build, false, &off);
	ck_assert(!memcmp(on.out, off.out, sizeof(on.out)));
	ck_assert_uint_eq(on.steps, want[_i].steps);
	ck_assert_uint_eq(on.reorders, want[_i].reorders);
	ck_assert_uint_eq(on.copies, want[_i].copies);
	ck_assert_uint_eq(off.steps, want[_i].steps_off);
	ck_assert_uint_eq(off.reorders, want[_i].reorders_off);
	ck_assert_uint_le(on.reordered, off.reordered);
}
END_TEST

/* The graph after the pass computes what it computed before, and satisfies its invariants. */
START_TEST(the_interpreter_agrees)
{
	static void (*const build[])(void) = { chain, residual, edges, flat_edge, shared, between_caller };
	struct rvl_interp *it;
	uint8_t in[1024], want[1024];
	uint64_t seed = 9;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)splitmix(&seed);
	for (int turn = 0; turn < 2; turn++) {
		size_t bytes;

		if (!turn) {
			qg_open(&q, 7);
			build[_i]();
			ck_assert_msg(!q.rc && !rvl_optimise(q.g, &q.err), "%s", q.err.msg);
		} else {
			ck_assert_msg(!rvl_pass_views(q.g, true, &q.err), "%s", q.err.msg);
			ck_assert_msg(!rvl_pass_layout(q.g, NULL, NULL, &q.err), "%s", q.err.msg);
			ck_assert_msg(!rvl_graph_verify(q.g, &q.err), "%s", q.err.msg);
		}
		ck_assert_msg(!rvl_interp_new(q.g, true, &it, &q.err), "%s", q.err.msg);
		ck_assert(!rvl_interp_set(it, 0, in, (size_t)rvl_tensor_bytes(q.g->inputs[0]), NULL));
		ck_assert_msg(!rvl_interp_run(it, &q.err), "%s", q.err.msg);
		bytes = (size_t)rvl_tensor_bytes(q.g->outputs[0]);
		if (turn)
			ck_assert(!memcmp(want, rvl_interp_data(it, q.g->outputs[0]), bytes));
		else
			memcpy(want, rvl_interp_data(it, q.g->outputs[0]), bytes);
		rvl_interp_free(it);
	}
	rvl_graph_free(q.g);
}
END_TEST

/* ---- with the NPU ---- */

#define BEYOND 13	/* inputs: the NPU does not reach the last one, nor an output */

/*
 * Layers of the NPU between steps on the CPU. @channels: that the first step makes.
 */
static void between_steps(int64_t channels, bool pool)
{
	struct rvl_tensor *t = NULL;

	for (int i = 0; i < BEYOND; i++) {
		char name[16];

		snprintf(name, sizeof(name), "x%d", i);
		t = qg_tensor(&q, name, RVL_TYPE_U8, (struct rvl_shape){ 4, { 2, 5, 8, 7 } }, 0.03f, 3);
		qg_input(&q, t);
	}
	t = conv(conv(t, channels, 1), 128, 1);
	t = pool ? qg_max_pool(&q, NULL, t, 2, 2, 0) : add(t, conv(t, 128, 1));
	qg_output(&q, conv(t, 6, 1));
}

static void run_between(int64_t channels, bool pool, bool layouts, uint8_t *out, struct rivulet_explain *e)
{
	const struct rivulet_compile_options opt = { .no_layouts = !layouts };
	struct rivulet_blob program = { 0 };
	static uint8_t in[BEYOND][1024];
	struct prog_exec x;
	uint64_t seed = 3;

	qg_open(&q, 7);
	between_steps(channels, pool);
	ck_assert_msg(!q.rc, "%s", q.err.msg);
	ck_assert_msg(!rvl_compile_graph(q.g, &board, &opt, &program, e, &q.err), "%s", q.err.msg);
	ck_assert(!prog_open(&x, &board, NULL, program.data));
	for (int i = 0; i < BEYOND; i++) {
		for (size_t j = 0; j < sizeof(in[i]); j++)
			in[i][j] = (uint8_t)splitmix(&seed);
		x.io[i] = in[i];
	}
	x.io[BEYOND] = out;
	ck_assert_msg(!prog_run(&x), "%s", x.err);
	prog_close(&x, true);
	rivulet_blob_free(&program);
}

/*
 * The steps and the layers exchange NHWC: only the first convolution, which reads an input, and the last
 * one reorder. LOAD gathers up to 15 channels from NHWC too; more that it gathers stay PLAIN. The
 * layers take as long.
 */
START_TEST(layers_between_steps)
{
	static const struct {
		int64_t channels;
		bool pool;
		uint32_t reorders;
	} want[] = { { 64, false, 2 }, { 128, true, 2 }, { 3, false, 2 }, { 8, true, 2 }, { 70, false, 3 } };
	uint8_t out[2][1024] = { { 0 } };
	uint32_t reorders[2], layers[2];
	uint64_t cycles[2] = { 0 };

	for (int layouts = 0; layouts < 2; layouts++) {
		struct rivulet_explain e;

		run_between(want[_i].channels, want[_i].pool, layouts, out[layouts], &e);
		reorders[layouts] = e.reorders;
		layers[layouts] = 0;
		for (uint32_t i = 0; i < e.n_segments; i++) {
			layers[layouts] += e.segments[i].layers;
			cycles[layouts] += e.segments[i].cycles;
		}
		rivulet_explain_free(&e);
	}
	ck_assert(!memcmp(out[0], out[1], sizeof(out[0])));
	ck_assert_uint_eq(layers[0], layers[1]);
	ck_assert_uint_gt(layers[1], 0);
	ck_assert_uint_eq(reorders[0], 4);
	ck_assert_uint_eq(reorders[1], want[_i].reorders);
	ck_assert_uint_le(cycles[1], cycles[0] + cycles[0] / 20);
}
END_TEST

/* ---- programs that cannot be ---- */

static uint32_t find_nhwc(const struct rivulet_program *p)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(p);

	for (uint32_t i = 0; i < p->tensors; i++)
		if (t[i].layout == RIVULET_LAYOUT_NHWC)
			return i;
	ck_abort_msg("no tensor is in NHWC");
	return 0;
}

START_TEST(layouts_refused)
{
	const struct rivulet_compile_options opt = { .cpu_only = true };
	struct rivulet_blob program = { 0 };
	struct rivulet_program *p;
	struct rivulet_tensor *t;
	char why[256] = "";
	uint32_t i;

	qg_open(&q, 7);
	chain();
	ck_assert_msg(!rvl_compile_graph(q.g, NULL, &opt, &program, NULL, &q.err), "%s", q.err.msg);
	p = program.data;
	t = (void *)((uint8_t *)program.data + p->tensors_off);
	i = find_nhwc(p);
	switch (_i) {
	case 0: t[0].layout = RIVULET_LAYOUT_NHWC; break;	/* the input */
	case 1: t[1].layout = RIVULET_LAYOUT_NHWC; break;	/* the output */
	case 2: t[i].layout = RIVULET_LAYOUT_END; break;
	case 3:							/* no image */
		t[i].ndim = 3;
		t[i].dim[2] *= t[i].dim[3];
		t[i].dim[3] = 0;
		break;
	case 4:
		t[i].place = RIVULET_PLACE_CONST;
		t[i].offset = p->const_off;
		break;
	case 5: t[i].flags = RIVULET_TENSOR_BOUNDED; break;
	}
	p->crc = 0;
	p->crc = rivulet_crc32c(0, program.data, program.size);
	ck_assert_int_eq(rivulet_program_check(program.data, program.size, why, sizeof(why)), -EINVAL);
	ck_assert_msg(strstr(why, "tensor"), "%s", why);
	rivulet_blob_free(&program);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("layout_pass");
	TCase *t = add_case(s, "pass", 60, load_board, NULL);

	tcase_add_loop_test(t, what_is_reordered, 0, 6);
	tcase_add_loop_test(t, the_interpreter_agrees, 0, 6);
	tcase_add_loop_test(t, layers_between_steps, 0, 5);
	t = add_case(s, "programs", 60, NULL, NULL);
	tcase_add_loop_test(t, layouts_refused, 0, 6);
	return run_suite(s);
}
