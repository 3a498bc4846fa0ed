// SPDX-License-Identifier: MIT
/* rivulet prune: a float model with block-sparse weights. */
#include <stdio.h>
#include <stdlib.h>

#include "data/array.h"
#include "model/model.h"
#include "output.h"
#include "rivulet_snr.h"

struct prune_args {
	struct rvl_model_args model;
	const char *output, *sparsity;
	bool global;
};

static int parse_sparsity(const struct prune_args *a, double *out)
{
	char *end;

	*out = a->sparsity ? strtod(a->sparsity, &end) : 75;
	if (a->sparsity && (end == a->sparsity || *end || !(*out > 0 && *out < 100)))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--sparsity is a number between 0 and 100, not \"%s\"",
				     a->sparsity);
	return 0;
}

static double percent(const struct rivulet_prune_report *r)
{
	return 100.0 * (double)(r->weights - r->kept) / (double)r->weights;
}

static void text_report(const char *path, const struct rivulet_prune_report *r)
{
	printf("%s: %u layers pruned, %u spared; %llu of %llu weights are zero (%.2f %%)\n", path, r->layers,
	       r->spared, (unsigned long long)(r->weights - r->kept), (unsigned long long)r->weights,
	       percent(r));
	if (r->runs && r->snr_db < RVL_SNR_EXACT)
		printf("outputs over %llu runs: SNR of the worst %.1f dB\n", (unsigned long long)r->runs,
		       r->snr_db);
	else if (r->runs)
		printf("outputs over %llu runs: unchanged\n", (unsigned long long)r->runs);
}

static void json_report(const char *path, const struct rivulet_prune_report *r)
{
	rvl_json_begin("prune");
	rvl_json_str("file", path);
	rvl_json_u64("layers", r->layers);
	rvl_json_u64("spared", r->spared);
	rvl_json_u64("weights", r->weights);
	rvl_json_u64("kept", r->kept);
	rvl_json_u64("runs", r->runs);
	if (r->runs)
		rvl_json_num("snr_db", r->snr_db);
	rvl_json_end();
}

static int prune_model(struct prune_args *a, const char *model, const struct rivulet_prune *p)
{
	struct rivulet_prune_report report;
	struct rivulet_blob out = { 0 };
	struct rivulet_compile_options o;
	struct rvl_err err = { "" };
	struct rivulet_board board;
	struct rvl_blob b;
	int r = rvl_model_prepare(&a->model, model, &board, &b, &o);

	if (r)
		return r;
	if (rivulet_prune(b.data, b.size, &o, p, &out, &report, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", model, err.msg);
	if (!r)
		r = rvl_write_file(a->output, out.data, out.size);
	if (!r && rvl_tool_json)
		json_report(a->output, &report);
	else if (!r)
		text_report(a->output, &report);
	rivulet_blob_free(&out);
	rvl_blob_clear(&b);
	return r;
}

static int run_prune(void *args, int n, char **operand)
{
	struct prune_args *a = args;
	struct rivulet_prune p = { .global = a->global };
	int r = parse_sparsity(a, &p.sparsity);

	(void)n;
	if (!r && !a->output)
		r = rvl_tool_fail(RVL_EXIT_USAGE, "rivulet prune takes --output");
	return r ? r : prune_model(a, operand[0], &p);
}

static void clear(void *args)
{
	rvl_model_clear(args);
}

static const struct rvl_option options[] = {
	{ "sparsity", 0, "PERCENT", "of the weights of the layers that are pruned (75)",
	  RVL_MEMBER(struct prune_args, sparsity) },
	{ "global", 0, NULL, "of all layers together, by what each loses",
	  RVL_MEMBER(struct prune_args, global) },
	{ "output", 'o', "FILE", "the pruned model", RVL_MEMBER(struct prune_args, output) },
	{ "calibrate", 0, "[NAME=]PATH", "examples that show the change of the outputs; repeatable",
	  RVL_CALL(struct prune_args, model.mode.quantise.path, rvl_list_add) },
	{ "freeze", 0, "NAME=FILE", "make an input a constant (.npy or ONNX tensor); repeatable",
	  RVL_CALL(struct prune_args, model.frozen, rvl_model_freeze) },
	{ "batch", 0, "N", RVL_BATCH_HELP, RVL_MEMBER(struct prune_args, model.batch), .least = 1, .most = INT32_MAX },
	RVL_DIMS_OPTIONS(struct prune_args, model.dims),
	{ 0 }
};

const struct rvl_verb rvl_verb_prune = {
	.name = "prune", .summary = "set weights to zero that the NPU then skips", .order = 67,
	.operands = "MODEL.onnx [--sparsity PERCENT] -o FILE", .least = 1, .most = 1, .takes = "one model",
	.options = options, .args_size = sizeof(struct prune_args), .run = run_prune, .clear = clear,
};
