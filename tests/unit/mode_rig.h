/* SPDX-License-Identifier: MIT */
/* Runs a quantised graph by the interpreter and, compiled, on a board or the CPU; compares the bytes. */
#ifndef RVL_TEST_MODE_RIG_H
#define RVL_TEST_MODE_RIG_H

#include <check.h>

#include "graph/interp.h"
#include "prog_exec.h"
#include "program/program.h"
#include "qgraph.h"
#include "suite.h"

static inline uint8_t *bytes_of(const struct rvl_tensor *t)
{
	uint8_t *p = calloc(1, rvl_tensor_bytes(t));

	ck_assert_ptr_nonnull(p);
	return p;
}

static inline void interpret(struct qg *q, const uint8_t *in, uint8_t *out)
{
	struct rvl_interp *it;

	ck_assert_msg(!rvl_shape_infer(q->g, &q->err), "%s", q->err.msg);
	ck_assert_msg(!rvl_interp_new(q->g, true, &it, &q->err), "%s", q->err.msg);
	ck_assert(!rvl_interp_set(it, 0, in, rvl_tensor_bytes(q->g->inputs[0]), NULL));
	ck_assert_msg(!rvl_interp_run(it, &q->err), "%s", q->err.msg);
	memcpy(out, rvl_interp_data(it, q->g->outputs[0]), rvl_tensor_bytes(q->g->outputs[0]));
	rvl_interp_free(it);
}

/* Compiles a copy of the graph, runs it and compares its output; @e is the caller's to free. */
static inline void run(const struct qg *q, const struct rivulet_board *board,
		       const struct rivulet_compile_options *opt, uint8_t *in, const uint8_t *want,
		       struct rivulet_explain *e)
{
	size_t size = rvl_tensor_bytes(q->g->outputs[0]);
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	struct rvl_graph *g;
	struct prog_exec x;
	uint8_t *out = bytes_of(q->g->outputs[0]);

	ck_assert(!rvl_graph_clone(q->g, &g, &err));
	ck_assert_msg(!rvl_compile_graph(g, board, opt, &program, e, &err), "%s", err.msg);
	ck_assert(!prog_open(&x, board, NULL, program.data));
	x.io[0] = in;
	x.io[1] = out;
	ck_assert_msg(!prog_run(&x), "%s", x.err);
	ck_assert_mem_eq(out, want, size);
	free(out);
	prog_close(&x, true);
	rivulet_blob_free(&program);
}

static inline const struct rivulet_explain_row *row_of(const struct rivulet_explain *e, const char *node)
{
	for (uint32_t i = 0; i < e->n_rows; i++)
		if (!strcmp(e->rows[i].node, node))
			return &e->rows[i];
	ck_abort_msg("explain has no row of %s", node);
}

static inline void fill(struct qg *q, uint8_t *in)
{
	for (int64_t i = 0; i < rvl_tensor_bytes(q->g->inputs[0]); i++)
		in[i] = qg_random(q);
}

static inline void load_board(struct rivulet_board *b, const char *name)
{
	char err[256];

	ck_assert_msg(!rivulet_board_load(b, name, err, sizeof(err)), "%s", err);
}

static inline struct qg_conv plain_conv(int64_t m, int64_t k)
{
	return (struct qg_conv){ .m = m, .kh = k, .kw = k, .pad = { k / 2, k / 2, k / 2, k / 2 },
				 .wtype = RVL_TYPE_S8, .ytype = RVL_TYPE_U8, .bias = true,
				 .wscale = 0.002f, .yscale = 0.05f };
}

static inline struct rvl_tensor *open_image(struct qg *q, uint64_t seed, int64_t c, int64_t h, int64_t w)
{
	struct rvl_tensor *x;

	qg_open(q, seed);
	x = qg_tensor(q, "x", RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, c, h, w } }, 0.02f, 100);
	qg_input(q, x);
	return x;
}

/* Compiles, runs and compares; the rows of explain, the caller's to free. */
static inline void check(struct qg *q, const struct rivulet_board *board,
			 const struct rivulet_compile_options *opt, struct rivulet_explain *e)
{
	uint8_t *in = bytes_of(q->g->inputs[0]), *want = bytes_of(q->g->outputs[0]);

	fill(q, in);
	interpret(q, in, want);
	run(q, board, opt, in, want, e);
	free(in);
	free(want);
}

static inline bool reason_has(const struct rivulet_explain *e, const char *node, const char *text)
{
	return strstr(row_of(e, node)->reason, text);
}

/*
 * Checks graphs that @build makes of random_cases(@n) seeds from @seed on. Returns in how many of them the
 * reason that explain gives for layer @node has @text in it.
 */
static inline uint32_t check_random(const struct rivulet_board *board,
				    const struct rivulet_compile_options *opt,
				    void (*build)(struct qg *q, uint64_t seed), uint64_t seed, int n,
				    const char *node, const char *text)
{
	uint32_t taken = 0;

	for (uint64_t i = seed; i < seed + (uint64_t)random_cases(n); i++) {
		struct rivulet_explain e;
		struct qg q;

		build(&q, i);
		check(&q, board, opt, &e);
		taken += reason_has(&e, node, text);
		rivulet_explain_free(&e);
		rvl_graph_free(q.g);
	}
	return taken;
}

#endif
