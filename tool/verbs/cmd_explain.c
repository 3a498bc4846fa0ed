// SPDX-License-Identifier: MIT
/* rivulet explain: which layer runs where, why, and at what cost. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "model/explain_program.h"
#include "model/explain_run.h"
#include "model/model.h"
#include "output.h"
#include "rivulet_proto.h"

struct explain_args {
	struct rvl_model_args model;
	bool csv;
	const char *html, *device;
	struct rvl_bytes spans; /* of a run */
};

/* The table names them all with their reasons; the error counts them and names the first. */
static int refuse_unsupported(const struct rivulet_explain *e)
{
	const struct rivulet_explain_row *first = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->n_rows; i++) {
		if (strcmp(e->rows[i].where, "none"))
			continue;
		first = first ? first : &e->rows[i];
		n++;
	}
	return !n ? RVL_EXIT_OK : rvl_tool_fail(RVL_EXIT_REFUSED, "%u of %u layers cannot run, first "
						"\"%s\" (%s): %s", n, e->n_rows, first->node,
						first->op, first->reason);
}

static int print_json(const struct rivulet_blob *text)
{
	struct json_object *o = rvl_json_parse(text->data);

	if (!o)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	rvl_json_begin("explain");
	rvl_json_put("explain", o);
	rvl_json_end();
	json_object_put(o);
	return 0;
}

static int failed_blob(int rc)
{
	return rc ? rvl_tool_fail(RVL_EXIT_FAILED, "out of memory") : 0;
}

static int write_html(const struct explain_args *a, const char *model, const struct rivulet_explain *e)
{
	struct rivulet_blob page = { 0 };
	int r = failed_blob(rivulet_explain_html(e, model, &page));

	if (!r)
		r = rvl_write_file(a->html, page.data, page.size);
	rivulet_blob_free(&page);
	return r;
}

static int print_explain(const struct explain_args *a, const char *model, const struct rivulet_explain *e)
{
	struct rivulet_blob text = { 0 };
	int r;

	if (a->html) {
		r = write_html(a, model, e);
		return r ? r : refuse_unsupported(e);
	}
	r = failed_blob(rvl_tool_json ? rivulet_explain_json(e, &text) :
			a->csv ? rivulet_explain_csv(e, &text) : rivulet_explain_text(e, &text));
	if (r)
		return r;
	if (rvl_tool_json)
		r = print_json(&text);
	else
		fwrite(text.data, 1, text.size, stdout);
	rivulet_blob_free(&text);
	return r ? r : refuse_unsupported(e);
}

/* Compiles for the device with PROF records, and runs the program there. */
static int measure(struct explain_args *a, const char *model, const struct rvl_blob *b,
		   const struct rivulet_board *board, struct rivulet_compile_options *o, struct rivulet_explain *e)
{
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	int r;

	o->prof = true;
	if (rivulet_compile(b->data, b->size, board, o, &program, e, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", model, err.msg);
	else
		r = rvl_explain_run(model, program.data, program.size, a->device, e, &a->spans);
	rivulet_blob_free(&program);
	return r;
}

static int explain_model(struct explain_args *a, const char *model)
{
	struct rivulet_compile_options o;
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	struct rivulet_board board;
	struct rvl_blob b;
	int r;

	if (a->device && !a->model.board)
		a->model.board = a->device;
	r = rvl_model_prepare(&a->model, model, &board, &b, &o);
	if (r)
		return r;
	o.drawing = a->html;
	if (a->device)
		r = measure(a, model, &b, &board, &o, &e);
	else if (rivulet_explain_model(b.data, b.size, &board, &o, &e, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", model, err.msg);
	if (!r)
		r = print_explain(a, model, &e);
	rivulet_explain_free(&e);
	rvl_blob_clear(&b);
	return r;
}

/* Whatever decides how a model is compiled has been decided in a program. */
static bool compiles(const struct rvl_model_args *a)
{
	return a->plan_file || a->batch || a->dims.symbol || a->dims.n_shapes ||
	       a->dims.n_names || a->require_npu || a->cpu_only || a->frozen.n ||
	       rvl_mode_given(&a->mode);
}

static int explain_program(const struct explain_args *a, const char *path, const struct rvl_blob *file)
{
	struct rivulet_explain e;
	int r;

	if (compiles(&a->model) || a->device)
		return rvl_tool_fail(RVL_EXIT_USAGE, "%s is compiled already: of the options only --board, --csv "
				     "and --html are for programs", path);
	r = rvl_explain_program(path, file, a->model.board, &e);
	if (!r)
		r = print_explain(a, path, &e);
	rvl_explain_program_free(&e);
	return r;
}

static int check_forms(const struct explain_args *a)
{
	if (rvl_tool_json + a->csv + !!a->html > 1)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--csv and --html exclude each other, and JSON");
	if (a->device && !a->html)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--measure is for the timeline of --html");
	return 0;
}

static int run_explain(void *args, int n, char **operand)
{
	struct rvl_blob file;
	int r = check_forms(args);

	(void)n;
	if (!r)
		r = rvl_read_file(operand[0], RIVULET_PROGRAM_MAX, &file);
	if (r)
		return r;
	if (rvl_is_program(&file))
		r = explain_program(args, operand[0], &file);
	else
		r = explain_model(args, operand[0]);
	rvl_blob_clear(&file);
	return r;
}

static void clear(void *args)
{
	struct explain_args *a = args;

	rvl_model_clear(&a->model);
	rvl_bytes_free(&a->spans);
}

static const struct rvl_option options[] = {
	{ "csv", 0, NULL, "the layers as comma-separated values", RVL_MEMBER(struct explain_args, csv) },
	{ "html", 0, "FILE", "one page with graph, roofline, timeline and layers",
	  RVL_MEMBER(struct explain_args, html) },
	{ "measure", 0, "WHERE", "/dev/accel/accelN or sim:BOARD: take the timeline of --html from a run there",
	  RVL_MEMBER(struct explain_args, device) },
	RVL_MODEL_OPTIONS(struct explain_args, model),
	{ 0 }
};

const struct rvl_verb rvl_verb_explain = {
	.name = "explain", .summary = "what of a model runs where, why, and at what cost", .order = 20,
	.operands = "MODEL or PROGRAM", .least = 1, .most = 1, .takes = "one model or program", .options = options,
	.args_size = sizeof(struct explain_args), .run = run_explain, .clear = clear,
};
