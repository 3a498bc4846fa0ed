// SPDX-License-Identifier: MIT
/* The account of a compiled program: its steps, and time by walking their command streams. */
#include "model/explain_program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/engine.h"
#include "npu/estimate.h"
#include "rivulet_kernels.h"
#include "rivulet_ops.h"
#include "verb.h"

#define DEFAULT_BOARD "zu3eg-64"

bool rvl_is_program(const struct rvl_blob *b)
{
	uint32_t magic = 0;

	memcpy(&magic, b->data, b->size < 4 ? b->size : 4);
	return magic == RIVULET_PROGRAM_MAGIC;
}

/* ---- time of a command stream ---- */

static int walk(const struct rivulet_board *b, const void *cmd, uint32_t bytes,
		struct rivulet_explain_segment *seg)
{
	struct rvl_err err = { "out of memory" };
	int rc = rvl_estimate_stream(b, cmd, bytes, NULL, NULL, seg, &err);

	return rc ? rvl_tool_fail(rc == -ENOMEM ? RVL_EXIT_FAILED : RVL_EXIT_REFUSED, "%s", err.msg) : 0;
}

/* ---- rows ---- */

/* The highest level at which the step runs: explain shows the costs of that one. */
static const struct rivulet_step_variant *top_variant(const struct rivulet_step *s)
{
	uint32_t l = RIVULET_LEVELS;

	while (l && !s->variant[l - 1].length)
		l--;
	return l ? &s->variant[l - 1] : NULL;
}

static const char *shape_of(const struct rivulet_program *p, const struct rivulet_step *s, char *buf)
{
	const struct rivulet_tensor *t = s->nwrite ? &rivulet_program_tensors(p)[s->write[0]] : NULL;

	return t ? rvl_shape_text(buf, t->ndim, t->dim) : strcpy(buf, "?");
}

/* The order of a step's result in memory. A checked program has no other layouts. */
static const char *layout_of(const struct rivulet_program *p, const struct rivulet_step *s)
{
	return rvl_layout_text(s->nwrite ? rivulet_program_tensors(p)[s->write[0]].layout :
					   RIVULET_LAYOUT_PLAIN);
}

static int add_segment(const struct rivulet_program *p, const struct rivulet_board *b, uint32_t i,
		       struct rivulet_explain *e, struct rivulet_explain_row *row)
{
	const struct rivulet_step *s = &rivulet_program_steps(p)[i];
	const struct rivulet_step_variant *v = top_variant(s);
	struct rivulet_explain_segment *seg = &e->segments[e->n_segments++];
	int r;

	*seg = (struct rivulet_explain_segment) { .step = i, .layers = 1, .macs = s->macs };
	r = v ? walk(b, (const char *)p + v->offset, v->length, seg) : 0;
	row->op = "segment";
	row->where = "npu";
	row->reason = "";
	row->bound = rvl_bound(seg->busy[RIVULET_Q_CONV], seg->busy[RIVULET_Q_ALU], seg->port_busy);
	row->array_macs = seg->array_macs;
	row->cycles = seg->cycles;
	row->read_bytes = seg->read_bytes;
	row->write_bytes = seg->write_bytes;
	return r;
}

static int add_step(const struct rivulet_program *p, const struct rivulet_board *b, uint32_t i,
		    struct rivulet_explain *e)
{
	const struct rivulet_step *s = &rivulet_program_steps(p)[i];
	struct rivulet_explain_row *row = &e->rows[e->n_rows++];
	char shape[128];
	char *out = strdup(shape_of(p, s, shape));

	*row = (struct rivulet_explain_row) { .node = rivulet_program_string(p, s->name), .fused = "",
					      .out = out, .layout = layout_of(p, s), .pitches = "",
					      .step = i, .macs = s->macs };
	if (!out)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	if (s->kind == RIVULET_STEP_NPU)
		return add_segment(p, b, i, e, row);
	row->op = rvl_desc_op_name((const char *)p + p->params_off + s->params, s->params_size);
	row->where = "cpu";
	row->bound = "CPU";
	row->reason = "a program does not record why";
	return 0;
}

/* ---- edges and timeline ---- */

/* Whether two tensors of a program may share bytes. */
static bool overlap(const struct rivulet_program *p, uint32_t a, uint32_t b)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(p), *x = &t[a], *y = &t[b];

	if (a == b || x->place != RIVULET_PLACE_ARENA || y->place != RIVULET_PLACE_ARENA)
		return a == b;
	return x->offset < y->offset + y->size && y->offset < x->offset + x->size;
}

static bool writes(const struct rivulet_program *p, const struct rivulet_step *s, uint32_t tensor, bool *all)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(p), *x = &t[tensor];
	bool any = false;

	for (uint32_t i = 0; i < s->nwrite; i++) {
		const struct rivulet_tensor *y = &t[s->write[i]];

		if (!overlap(p, tensor, s->write[i]))
			continue;
		any = true;
		*all |= y->offset <= x->offset && y->offset + y->size >= x->offset + x->size;
	}
	return any;
}

static int add_edge(struct rvl_bytes *b, uint32_t from, uint32_t to)
{
	struct rivulet_explain_edge e = { from, to };

	return rvl_bytes_add(b, &e, sizeof(e), 1, NULL);
}

/* From the steps that wrote the bytes of a tensor last, back to the one that wrote all of them. */
static int add_readers(const struct rivulet_program *p, uint32_t step, uint32_t tensor, struct rvl_bytes *b)
{
	const struct rivulet_step *s = rivulet_program_steps(p);
	bool all = false;
	int rc = 0;

	for (uint32_t i = step; !rc && !all && i-- > 0;)
		if (writes(p, &s[i], tensor, &all))
			rc = add_edge(b, i, step);
	return rc;
}

/* A row for each step, so that steps and rows have the same numbers. */
static int add_edges(const struct rivulet_program *p, struct rivulet_explain *e)
{
	const struct rivulet_step *s = rivulet_program_steps(p);
	struct rvl_bytes b = { 0 };
	int rc = 0;

	for (uint32_t i = 0; !rc && i < p->steps; i++)
		for (uint32_t k = 0; !rc && k < s[i].nread; k++)
			rc = add_readers(p, i, s[i].read[k], &b);
	e->edges = (struct rivulet_explain_edge *)b.data;
	e->n_edges = (uint32_t)(b.size / sizeof(*e->edges));
	return rc;
}

static int add_spans(const struct rivulet_program *p, const struct rivulet_board *board, struct rivulet_explain *e)
{
	struct rvl_bytes b = { 0 };
	int rc = 0;

	for (uint32_t i = 0; !rc && i < e->n_segments; i++) {
		uint32_t step = e->segments[i].step;
		const struct rivulet_step_variant *v = top_variant(&rivulet_program_steps(p)[step]);
		struct rivulet_explain_span base = { .step = step, .row = step };

		if (v)
			rc = rvl_spans_of_stream(board, (const char *)p + v->offset, v->length, NULL, base,
						 rvl_spans_pause(e->segments[i].cycles), &b);
	}
	e->spans = (struct rivulet_explain_span *)b.data;
	e->n_spans = (uint32_t)(b.size / sizeof(*e->spans));
	return rc;
}

static int fill(const struct rivulet_program *p, const struct rivulet_board *b, struct rivulet_explain *e)
{
	struct rvl_err err = { "" };
	int r = 0, levels;

	rivulet_explain_board(e, b);
	e->rows = calloc(p->steps + 1, sizeof(*e->rows));
	e->segments = calloc(p->steps + 1, sizeof(*e->segments));
	if (!e->rows || !e->segments)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (uint32_t i = 0; !r && i < p->steps; i++)
		r = add_step(p, b, i, e);
	if (r)
		return r;
	levels = rivulet_estimate(p, b, e->level, &err);
	if (levels < 0)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s", err.msg);
	e->n_levels = (uint32_t)levels;
	rivulet_explain_derive(e);
	if (add_edges(p, e) || add_spans(p, b, e))
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	e->program_bytes = p->size;
	e->weight_bytes = p->const_size;
	e->arena_bytes = p->arena_size;
	return 0;
}

/* The board of the option, or of the program. A program for the CPU alone has a board without levels. */
static int find_board(const char *option, const char *made_for, struct rivulet_board *board)
{
	if (!option && !strcmp(made_for, "cpu")) {
		*board = (struct rivulet_board) { .name = "cpu" };
		return 0;
	}
	return rvl_board_of(option ? option : *made_for ? made_for : DEFAULT_BOARD, board);
}

int rvl_explain_program(const char *path, const struct rvl_blob *file, const char *board_name,
			struct rivulet_explain *out)
{
	const struct rivulet_program *p = (const void *)file->data;
	struct rivulet_target target;
	struct rivulet_board board;
	const char *made_for;
	char why[256];
	int r;

	memset(out, 0, sizeof(*out));
	if (rivulet_program_check(p, file->size, why, sizeof(why)))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, why);
	made_for = rivulet_program_string(p, p->board_name);
	r = find_board(board_name, made_for, &board);
	if (r)
		return r;
	rivulet_target_of(&board, &target);
	if (rivulet_program_fits(p, &target, why, sizeof(why)))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, why);
	return fill(p, &board, out);
}

void rvl_explain_program_free(struct rivulet_explain *e)
{
	for (uint32_t i = 0; i < e->n_rows; i++)
		free((char *)e->rows[i].out);
	free(e->rows);
	free(e->segments);
	free(e->edges);
	free(e->spans);
	memset(e, 0, sizeof(*e));
}
