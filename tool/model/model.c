// SPDX-License-Identifier: MIT
/* What compile and explain share: frozen inputs, plan files, and compile options from arguments. */
#include "model/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/engine.h"
#include "rivulet_isa.h"

#define DEFAULT_BOARD "zu3eg-64"

int rvl_model_freeze(void *member, const char *value)
{
	struct rvl_frozen *z = member;
	const char *eq = strrchr(value, '=');
	int r;

	if (!eq || eq == value || z->n == RVL_FROZEN_MAX)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--freeze takes NAME=FILE, not \"%s\"", value);
	r = rvl_array_read(eq + 1, &z->a[z->n]);
	if (r)
		return r;
	z->name[z->n] = strndup(value, (size_t)(eq - value));
	if (!z->name[z->n])
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	z->f[z->n] = (struct rivulet_frozen) { z->name[z->n], z->a[z->n].data, z->a[z->n].size };
	z->n++;
	return 0;
}

static void clear_frozen(struct rvl_frozen *z)
{
	for (uint32_t i = 0; i < z->n; i++) {
		rvl_array_clear(&z->a[i]);
		free(z->name[i]);
	}
}

static int parse_measure(const char *name, enum rivulet_measure *out)
{
	for (*out = 0; *out < RIVULET_MEASURE_COUNT; (*out)++)
		if (!name || !strcmp(name, rivulet_measure_name(*out)))
			return 0;
	return rvl_tool_fail(RVL_EXIT_USAGE, "--optimise is cycles or energy, not \"%s\"", name);
}

static int fill_options(struct rvl_model_args *a, const struct rivulet_board *b,
			struct rivulet_compile_options *o)
{
	int r;

	*o = (struct rivulet_compile_options) { .batch = (int64_t)a->batch,
		.frozen = a->frozen.f, .n_frozen = a->frozen.n,
		.require_npu = a->require_npu, .cpu_only = a->cpu_only, .serial = a->serial,
		.no_views = a->no_views,
		.no_layouts = a->no_layouts,
		.no_chains = a->no_chains,
		.no_reconstruct = a->no_reconstruct,
		.no_binary = a->no_binary,
		.without_modes = (uint32_t)a->no_sparse << RIVULET_MODE_SPARSE |
				 (uint32_t)a->no_taps << RIVULET_MODE_TAPS |
				 (uint32_t)a->no_planes << RIVULET_MODE_BITPLANE,
		.no_gather = a->no_gather,
		.no_cascade = a->no_cascade,
		.no_prefetch = a->no_prefetch,
		.most_memory = a->memory << 20,
		.prof = a->prof, .files = &a->beside.files };
	r = parse_measure(a->optimise, &o->measure);
	if (r)
		return r;
	rvl_dims_fill(&a->dims, o);
	return rvl_mode_fill(&a->mode, a->cpu_only ? 1 : b->levels, o);
}

/* ---- --plan ---- */

static int read_plan(struct rvl_model_args *a)
{
	struct rvl_err err = { "" };
	struct rvl_blob b;
	int r;

	if (!a->plan_file)
		return 0;
	if (a->mode.mode || a->mode.length || a->mode.lengths || a->mode.n_keep || a->batch ||
	    rvl_dims_given(&a->dims) || a->cpu_only || a->frozen.n)
		return rvl_tool_fail(RVL_EXIT_USAGE, "a --plan contains what --mode, --length, --lengths, "
				     "--keep-int8, --freeze, --batch, --symbol, --shape and --cpu-only set: "
				     "do not give both");
	r = rvl_read_file(a->plan_file, RIVULET_PLAN_FILE_MAX, &b);
	if (r)
		return r;
	if (rivulet_plan_parse(&a->plan, b.data, b.size, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", a->plan_file, err.msg);
	rvl_blob_clear(&b);
	return r;
}

/* Takes lengths and accuracies from the plan, which is refused for another model or board. */
static int follow_plan(const struct rvl_model_args *a, const struct rvl_blob *onnx,
		       const struct rivulet_board *b, struct rivulet_compile_options *o)
{
	struct rvl_err err = { "" };

	if (a->plan_file && rivulet_plan_apply(&a->plan, onnx->data, onnx->size, b, o, &err))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", a->plan_file, err.msg);
	return 0;
}

int rvl_model_prepare(struct rvl_model_args *a, const char *model, struct rivulet_board *board,
		      struct rvl_blob *onnx, struct rivulet_compile_options *o)
{
	int r = read_plan(a);

	if (!r)
		r = rvl_board_of(a->board ? a->board : a->plan_file ? a->plan.board : DEFAULT_BOARD, board);
	if (!r)
		r = rvl_beside_open(&a->beside, model);
	if (!r)
		r = rvl_read_file(model, RIVULET_PROGRAM_MAX, onnx);
	if (r)
		return r;
	r = fill_options(a, board, o);
	if (!r)
		r = rvl_quantise_fill(&a->mode.quantise, model, onnx, o);
	if (!r)
		r = follow_plan(a, onnx, board, o);
	if (r)
		rvl_blob_clear(onnx);
	return r;
}

void rvl_model_clear(struct rvl_model_args *a)
{
	clear_frozen(&a->frozen);
	rvl_dims_clear(&a->dims);
	rvl_beside_clear(&a->beside);
	rvl_mode_clear(&a->mode);
	rivulet_plan_clear(&a->plan);
}
