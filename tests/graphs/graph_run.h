/* SPDX-License-Identifier: MIT */
/* Compiles a model and runs it once, in one of several ways. */
#ifndef RVL_TEST_GRAPH_RUN_H
#define RVL_TEST_GRAPH_RUN_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "graph/interp.h"
#include "onnx/onnx.h"
#include "prog_exec.h"
#include "rivulet_compiler.h"

enum how {
	HOW_INTERPRETED,	/* the graph as it was read, by the interpreter */
	HOW_CPU,		/* a program without the NPU */
	HOW_NPU,		/* a program for a board, on the linked device model */
	HOW_NPU_COPIES,		/* the same without views, cascades and the sparse mode */
};

#define GRAPH_MOST_IO 64

struct graph_buffer {
	void *data;
	uint32_t size;
};

struct graph_parts {
	uint32_t npu_steps;
	uint32_t modes;		/* bit n: CONV mode n is used */
	uint32_t outputs;
};

/* A model with the values of its inputs. */
struct graph_run {
	struct graph_buffer model, in[GRAPH_MOST_IO];
	uint16_t n_in;
	uint8_t how;	/* enum how */
	const struct rivulet_board *board;
	struct rvl_core *core;
	/* receive the results: first what the program is made of, then each output */
	void (*head)(void *arg, const struct graph_parts *parts);
	void (*value)(void *arg, const struct rvl_value *v);
	void *arg;
};

/* ---- the interpreter ---- */

static inline void graph_give_interpreted(const struct graph_run *r, const struct rvl_interp *it,
					  const struct rvl_graph *g)
{
	r->head(r->arg, &(struct graph_parts){ .outputs = g->n_outputs });
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct rvl_tensor *y = g->outputs[i];
		struct rvl_value v = { .type = y->type, .shape = *rvl_interp_shape(it, y),
				       .data = (void *)(uintptr_t)rvl_interp_data(it, y) };

		r->value(r->arg, &v);
	}
}

static inline int graph_interpret(const struct graph_run *r, const struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_interp *it;
	int rc = rvl_interp_new(g, false, &it, err);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < g->n_inputs && i < r->n_in && !rc; i++)
		rc = rvl_interp_set(it, i, r->in[i].data, r->in[i].size, err);
	if (!rc)
		rc = rvl_interp_run(it, err);
	if (!rc)
		graph_give_interpreted(r, it, g);
	rvl_interp_free(it);
	return rc;
}

static inline int graph_run_interpreted(const struct graph_run *r, struct rvl_err *err)
{
	struct rvl_graph *g;
	int rc = rvl_onnx_load(r->model.data, r->model.size, NULL, &g, err);

	if (rc)
		return rc;
	rc = rvl_shape_infer(g, err);
	if (!rc)
		rc = rvl_graph_check_supported(g, err);
	if (!rc)
		rc = graph_interpret(r, g, err);
	rvl_graph_free(g);
	return rc;
}

/* ---- programs ---- */

static inline int graph_bind(struct prog_exec *x, const struct graph_run *r, struct rvl_err *err)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(x->p);
	uint32_t n = x->p->inputs + x->p->outputs;

	if (x->p->inputs != r->n_in || n > GRAPH_MOST_IO)
		return rvl_fail(err, -EINVAL, "%u inputs, %u given", x->p->inputs, r->n_in);
	for (uint32_t i = 0; i < x->p->inputs; i++) {
		if (t[i].size != r->in[i].size)
			return rvl_fail(err, -EINVAL, "input %u has %llu bytes, %u given", i,
					(unsigned long long)t[i].size, r->in[i].size);
		x->io[i] = r->in[i].data;
	}
	for (uint32_t i = x->p->inputs; i < n; i++)
		x->io[i] = aligned_alloc(64, (t[i].size + 127) / 64 * 64);
	return 0;
}

static inline void graph_give_outputs(const struct graph_run *r, struct prog_exec *x)
{
	const struct rivulet_step *s = rivulet_program_steps(x->p);
	struct graph_parts parts = { .modes = x->p->target.modes, .outputs = x->p->outputs };

	for (uint32_t i = 0; i < x->p->steps; i++)
		parts.npu_steps += s[i].kind == RIVULET_STEP_NPU;
	r->head(r->arg, &parts);
	for (uint32_t i = 0; i < x->p->outputs; i++) {
		struct rvl_value v = prog_value(x, x->p->inputs + i);

		r->value(r->arg, &v);
	}
}

static inline int graph_run_program(const struct graph_run *r, const struct rivulet_program *p,
				    struct rvl_err *err)
{
	struct prog_exec x;
	int rc = prog_open(&x, r->board, r->core, p);

	if (!rc)
		rc = graph_bind(&x, r, err);
	if (!rc) {
		rc = prog_run(&x);
		if (rc)
			rvl_fail(err, rc, "program: %.200s", x.err);
		else
			graph_give_outputs(r, &x);
		for (uint32_t i = p->inputs; i < p->inputs + p->outputs; i++)
			free(x.io[i]);
	}
	prog_close(&x, false);
	return rc;
}

static inline int graph_run_compiled(const struct graph_run *r, struct rvl_err *err)
{
	struct rivulet_compile_options opt = { .cpu_only = r->how == HOW_CPU,
					       .no_views = r->how == HOW_NPU_COPIES,
					       .no_cascade = r->how == HOW_NPU_COPIES,
					       .without_modes = r->how == HOW_NPU_COPIES ?
						       1u << RIVULET_MODE_SPARSE : 0 };
	struct rivulet_blob program = { .data = NULL };
	char why[200] = "";
	int rc = rivulet_compile(r->model.data, r->model.size, r->board, &opt, &program, NULL,
				 err);

	if (rc)
		return rc;
	rc = rivulet_program_check(program.data, program.size, why, sizeof(why));
	if (rc)
		rvl_fail(err, rc, "program file: %s", why);
	else
		rc = graph_run_program(r, program.data, err);
	rivulet_blob_free(&program);
	return rc;
}

/** Compiles and runs; 0, or a negative errno with the reason in @err. */
static inline int graph_run(const struct graph_run *r, struct rvl_err *err)
{
	return r->how == HOW_INTERPRETED ? graph_run_interpreted(r, err) : graph_run_compiled(r, err);
}

#endif
