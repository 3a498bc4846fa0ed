/* SPDX-License-Identifier: MIT */
/* The compiler from end to end: read, optimise, partition, lower, plan memory, emit, write. */
#include "npu/memo.h"
#include "npu/partition.h"
#include "onnx/export.h"
#include "onnx/onnx.h"
#include "pass/binary.h"
#include "pass/passes.h"
#include "program/program.h"
#include "quant/calibrate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void backend_free(struct rvl_backend *be)
{
	rvl_backend_clear(be);
	rvl_graph_free(be->g);
}

/* ---- outputs that no node makes ---- */

static bool needs_copy(const struct rvl_graph *g, uint32_t i)
{
	const struct rvl_tensor *t = g->outputs[i];

	for (uint32_t j = 0; j < i; j++)
		if (g->outputs[j] == t)
			return true;
	return !t->producer;
}

/*
 * An output that is an input, a constant or a second name of another output is copied by an
 * Identity, because every output has memory of its own. The program file has the model's name for
 * the copy.
 */
static int copy_output(struct rvl_graph *g, uint32_t i, struct rvl_err *err)
{
	struct rvl_tensor *from = g->outputs[i], *to;
	struct rvl_node *n;
	bool again = false;
	int rc = rvl_tensor_like(g, from, &to, err);

	if (!rc)
		rc = rvl_node_new(g, RVL_OP_IDENTITY, NULL, &n, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, 0, from, err);
	if (rc)
		return rc;
	n->n_in = 1;
	n->op_type = "Identity";
	rvl_node_set_out(n, 0, to);
	to->is_output = true;
	g->outputs[i] = to;
	for (uint32_t j = 0; j < g->n_outputs; j++)
		again |= g->outputs[j] == from;
	from->is_output = again;
	return 0;
}

static int own_outputs(struct rvl_backend *be)
{
	struct rvl_graph *g = be->g;
	int rc = 0;

	be->out_name = rvl_arena_array(g->arena, g->n_outputs + 1, sizeof(*be->out_name));
	if (!be->out_name)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n_outputs && !rc; i++) {
		be->out_name[i] = g->outputs[i]->name;
		if (needs_copy(g, i))
			rc = copy_output(g, i, be->err);
	}
	return rc;
}

/* ---- front ---- */

static const char *cpu_asked(struct rvl_graph *g, const struct rvl_node *n, void *arg)
{
	(void)g;
	(void)n;
	(void)arg;
	return "the options request the CPU";
}

static int place(struct rvl_backend *be)
{
	rvl_npu_fits_fn fits = be->board ? rvl_backend_fits : cpu_asked;

	return rvl_pass_partition(be->g, fits, (void *)be->board, be->err);
}

static int assign_layouts(struct rvl_backend *be)
{
	int rc = rvl_pass_layout(be->g, rvl_backend_reads_nhwc, (void *)be->board, be->err);

	return rc ? rc : rvl_graph_verify(be->g, be->err);
}

static int copy_for_cpu(struct rvl_backend *be)
{
	int rc = rvl_copy_for_cpu(be->g, be->board, be->err);

	return rc ? rc : rvl_graph_verify(be->g, be->err);
}

static int assign_pitches(struct rvl_backend *be)
{
	int rc = rvl_pass_pitches(be->g, be->err);

	return rc ? rc : rvl_graph_verify(be->g, be->err);
}

/* Conversions on the CPU only surround what keeps a value in float. */
static bool only_converts(const struct rvl_node *n)
{
	return n->op == RVL_OP_QUANTIZE || n->op == RVL_OP_DEQUANTIZE;
}

/* The first node on the CPU that is more than a conversion, else the first; NULL: there is none. */
static const struct rvl_node *first_on_cpu(const struct rvl_graph *g)
{
	const struct rvl_node *first = NULL;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct rvl_node *n = g->nodes[i];

		if (n->place == RVL_PLACE_NPU || n->free)
			continue;
		if (!only_converts(n))
			return n;
		first = first ? first : n;
	}
	return first;
}

static int demand_npu(const struct rvl_backend *be)
{
	const struct rvl_node *n = be->opt->require_npu ? first_on_cpu(be->g) : NULL;

	if (!n)
		return 0;
	return rvl_fail(be->err, -EOPNOTSUPP, "node \"%s\" (%s) cannot run on the NPU: %s", n->name,
			n->def ? n->def->name : n->op_type, n->reason ? n->reason : "no reason given");
}

static int back(struct rvl_backend *be, const void *onnx, size_t size, struct rivulet_blob *out)
{
	int rc = demand_npu(be);

	rvl_arena_doing(be->g->arena, "deciding the layers");
	if (!rc)
		rc = rvl_choose_bytes_of_bits(be);
	if (!rc)
		rc = rvl_lower(be);
	if (!rc)
		rc = rvl_decide(be);
	if (!rc)
		rvl_steps_sum(be);
	rvl_arena_doing(be->g->arena, "planning the memory of its values");
	if (!rc)
		rc = rvl_memplan(be);
	if (!rc)
		rc = rvl_memplan_check(be);
	rvl_arena_doing(be->g->arena, "writing the program");
	return rc ? rc : rvl_write_program(be, onnx, size, out);
}

/* The error of a compilation that ended with @rc. Its graph is released. */
static int finish(struct rvl_backend *be, int rc, struct rvl_err *err)
{
	if (rc && be->g && rvl_arena_report(be->g->arena, 0, err))
		rc = -ENOMEM;
	else if (rc == -ENOMEM && be->g) /* the reader has a text of its own */
		rvl_fail(err, rc, "out of memory");
	backend_free(be);
	return rc;
}

static void backend_init(struct rvl_backend *be, const struct rivulet_board *board,
			 const struct rivulet_compile_options *opt, struct rvl_err *err)
{
	static const struct rivulet_compile_options defaults;

	*be = (struct rvl_backend){ .opt = opt ? opt : &defaults, .err = err };
	if (be->opt->cpu_only || !board)
		return;
	be->target = *board;
	be->target.modes &= ~be->opt->without_modes;
	be->board = &be->target;
}

/* The other options are checked where they are used. */
static int check_options(const struct rivulet_compile_options *o, struct rvl_err *err)
{
	if ((unsigned int)o->measure < RIVULET_MEASURE_COUNT)
		return 0;
	return rvl_fail(err, -EINVAL, "options: measure %u is none of %u", (unsigned int)o->measure,
			RIVULET_MEASURE_COUNT);
}

/* In ONNX's operators: the graph itself keeps its binary layers. */
static int export_quantised(const struct rvl_graph *g, struct rvl_bytes *out, struct rvl_err *err)
{
	struct rvl_graph *copy;
	int rc = rvl_graph_clone(g, &copy, err);

	if (rc)
		return rc;
	rc = rvl_binary_unfold(copy, err);
	if (!rc)
		rc = rvl_onnx_export(copy, out, err);
	rvl_graph_free(copy);
	return rc;
}

static int quantise(struct rvl_backend *be)
{
	const struct rivulet_quantise *q = &be->opt->quantise;
	struct rvl_bytes b = { 0 };
	int rc = rvl_calibrate(be->g, q, be->err);

	if (!rc && q->exported)
		rc = export_quantised(be->g, &b, be->err);
	if (!rc && q->exported)
		*q->exported = (struct rivulet_blob) { .data = b.data, .size = b.size };
	else
		rvl_bytes_free(&b);
	return rc;
}

static int middle(struct rvl_backend *be)
{
	int rc;

	rvl_arena_doing(be->g->arena, "optimising the graph");
	be->params.arena = be->cmds.arena = be->spans.arena = be->g->arena;
	be->g->npu_average_pool = be->opt->average_within_1;
	be->g->npu_no_wide = be->opt->no_layouts;
	be->g->no_binary = be->opt->no_binary;
	be->g->word = be->board ? be->board->tn : 0;
	be->g->npu_bits = be->board && be->board->modes >> RIVULET_MODE_BINARY & 1;
	be->g->reconstruct = be->board && !be->opt->no_reconstruct;
	if (be->opt->quantise.n_examples) {
		be->g->target = be->board;
		be->g->keeps_int8 = be->board ? rvl_binary_keeps_int8 : NULL;
		rc = quantise(be);
		if (rc)
			return rc;
	}
	rc = rvl_optimise(be->g, be->err);
	if (!rc)
		rc = rvl_variants_choose(be);
	if (!rc)
		rc = own_outputs(be);
	be->views = !be->opt->no_views;
	if (!rc && be->views && rvl_graph_check_supported(be->g, NULL) == 0)
		rc = rvl_pass_views(be->g, be->board != NULL, be->err);
	return rc;
}

static int whole(struct rvl_backend *be, const void *onnx, size_t size,
		 struct rivulet_blob *program, struct rivulet_explain *explain)
{
	struct rivulet_blob out = { 0 };
	int rc = rvl_graph_check_supported(be->g, be->err);

	rvl_arena_doing(be->g->arena, "placing the nodes");
	if (!rc)
		rc = rvl_pass_residual(be->g, be->err);
	if (!rc)
		rc = place(be);
	if (!rc && !be->opt->no_layouts)
		rc = assign_layouts(be);
	if (!rc && be->views && be->board)
		rc = copy_for_cpu(be);
	if (!rc && be->views)
		rc = assign_pitches(be);
	if (!rc && !be->opt->no_chains)
		rc = rvl_pass_chains(be->g, be->err);
	if (!rc)
		rc = back(be, onnx, size, &out);
	if (rvl_arena_failed(be->g->arena))
		rc = -ENOMEM;
	rvl_arena_doing(be->g->arena, "the account of its layers");
	if (!rc && explain)
		rc = rvl_explain_fill(be, out.size, explain);
	if (rc || !program)
		rivulet_blob_free(&out);
	else
		*program = out;
	return rc;
}

int rivulet_compile(const void *onnx, size_t size, const struct rivulet_board *board,
		    const struct rivulet_compile_options *opt, struct rivulet_blob *program,
		    struct rivulet_explain *explain, struct rvl_err *err)
{
	struct rvl_backend be;
	int rc;

	backend_init(&be, board, opt, err);
	if (explain)
		memset(explain, 0, sizeof(*explain));
	rc = check_options(be.opt, be.err);
	if (!rc)
		rc = rvl_read_model(onnx, size, be.opt, &be.g, be.err);
	if (!rc)
		rc = middle(&be);
	if (!rc)
		rc = whole(&be, onnx, size, program, explain);
	return finish(&be, rc, err);
}

int rvl_compile_graph(struct rvl_graph *g, const struct rivulet_board *board,
		      const struct rivulet_compile_options *opt, struct rivulet_blob *program,
		      struct rivulet_explain *explain, struct rvl_err *err)
{
	struct rvl_backend be;
	int rc;

	backend_init(&be, board, opt, err);
	be.g = g;
	rc = check_options(be.opt, be.err);
	if (!rc)
		rc = middle(&be);
	if (!rc)
		rc = whole(&be, "", 0, program, explain);
	return finish(&be, rc, err);
}

int rivulet_explain_model(const void *onnx, size_t size, const struct rivulet_board *board,
			  const struct rivulet_compile_options *opt,
			  struct rivulet_explain *explain, struct rvl_err *err)
{
	struct rvl_backend be;
	int rc;

	backend_init(&be, board, opt, err);
	memset(explain, 0, sizeof(*explain));
	rc = check_options(be.opt, be.err);
	if (!rc)
		rc = rvl_read_model(onnx, size, be.opt, &be.g, be.err);
	if (!rc)
		rc = middle(&be);
	if (!rc && rvl_graph_check_supported(be.g, NULL))
		rc = rvl_explain_nodes(&be, explain);
	else if (!rc)
		rc = whole(&be, onnx, size, NULL, explain);
	return finish(&be, rc, err);
}
