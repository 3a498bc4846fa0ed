/* SPDX-License-Identifier: MIT */
/* Compiles a graph for the CPU and runs it once on random bytes, for tests of passes over whole graphs. */
#ifndef GRAPH_RIG_H
#define GRAPH_RIG_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "prog_exec.h"
#include "program/program.h"
#include "qgraph.h"

/* What a run leaves behind. @out: memory of the outputs, @size bytes each. */
struct graph_result {
	uint8_t *out;
	size_t size;
	uint32_t steps;
	uint64_t arena;
};

static inline void run_program(const struct rivulet_blob *program, uint64_t seed, struct graph_result *r)
{
	const struct rivulet_tensor *t;
	struct rivulet_board board;
	struct prog_exec x;
	char why[256];
	uint8_t *in;

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
	ck_assert_msg(!prog_open(&x, &board, NULL, program->data), "%s", x.err);
	t = rivulet_program_tensors(x.p);
	in = malloc(t[0].size);
	for (uint64_t i = 0; i < t[0].size; i++)
		in[i] = (uint8_t)splitmix(&seed);
	x.io[0] = in;
	for (uint32_t i = 0; i < x.p->outputs; i++) {
		ck_assert_uint_le(t[1 + i].size, r->size);
		x.io[1 + i] = r->out + i * r->size;
	}
	ck_assert_msg(!prog_run(&x), "%s", x.err);
	r->steps = x.p->steps;
	r->arena = x.p->arena_size;
	prog_close(&x, true);
	free(in);
}

/* Compiles and runs the graph that @build makes in @q. The caller frees @e. */
static inline void run_graph(struct qg *q, void (*build)(void), const struct rivulet_compile_options *opt,
			     uint64_t seed, struct rivulet_explain *e, struct graph_result *r)
{
	struct rivulet_blob program = { 0 };
	char why[256];

	qg_open(q, 7);
	build();
	ck_assert_msg(!q->rc, "%s", q->err.msg);
	ck_assert_msg(!rvl_compile_graph(q->g, NULL, opt, &program, e, &q->err), "%s", q->err.msg);
	ck_assert_msg(!rivulet_program_check(program.data, program.size, why, sizeof(why)), "%s", why);
	run_program(&program, seed, r);
	rivulet_blob_free(&program);
}

#endif
