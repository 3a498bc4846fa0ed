// SPDX-License-Identifier: MIT
/* rivulet compile: a program file for one board. */
#include <stdio.h>

#include "data/array.h"
#include "data/built_file.h"
#include "model/model.h"
#include "output.h"

struct compile_args {
	struct rvl_model_args model;
	const char *output, *export;
	bool quiet;
};

static void count_steps(const struct rivulet_program *p, uint32_t *npu, uint32_t *cpu)
{
	*npu = 0;
	for (uint32_t i = 0; i < p->steps; i++)
		*npu += rivulet_program_steps(p)[i].kind == RIVULET_STEP_NPU;
	*cpu = p->steps - *npu;
}

static void summary(const char *path, const struct rivulet_program *p, const struct rivulet_explain *e)
{
	const struct rivulet_estimate_row *top = e->n_levels ? &e->level[e->n_levels - 1] : NULL;
	uint32_t npu, cpu;
	char a[32], b[32], c[32], d[32];

	count_steps(p, &npu, &cpu);
	if (rvl_tool_json) {
		rvl_json_begin("compile");
		rvl_json_str("file", path);
		rvl_json_str("board", e->board);
		rvl_json_u64("bytes", p->size);
		rvl_json_u64("arena_bytes", p->arena_size);
		rvl_json_u64("npu_steps", npu);
		rvl_json_u64("cpu_steps", cpu);
		rvl_json_u64("cycles", top ? top->cycles : 0);
		rvl_json_end();
		return;
	}
	printf("%s: %s for %s, %u NPU and %u CPU steps, arena %s\n", path, rvl_bytes(a, p->size),
	       *e->board ? e->board : "any board", npu, cpu, rvl_bytes(b, p->arena_size));
	if (top && top->cycles)
		printf("estimated on the NPU at %s: %llu cycles, %s\n", rvl_unit(c, (double)top->hz, "Hz"),
		       (unsigned long long)top->cycles, rvl_unit(d, top->seconds, "s"));
	if (e->binary && *e->binary)
		printf("images of binary layers in %s\n", e->binary);
}

static int reserve(void *file, size_t size, struct rivulet_blob *out, struct rvl_err *err)
{
	return rvl_built_reserve(file, size, out, err);
}

static int compile_to(struct compile_args *c, const char *model, const char *path)
{
	struct rvl_model_args *a = &c->model;
	struct rivulet_compile_options o;
	struct rivulet_blob program = { 0 }, quantised = { 0 };
	struct rivulet_explain explain = { 0 };
	struct rvl_err err = { "" };
	struct rivulet_board board;
	struct rvl_built_file file = { .path = path, .mapped_from = RVL_BUILT_MAPPED, .fd = -1 };
	struct rvl_blob b;
	int r = rvl_model_prepare(a, model, &board, &b, &o);

	if (r)
		return r;
	o.reserve = reserve;
	o.reserve_arg = &file;
	if (c->export && !o.quantise.n_examples)
		r = rvl_tool_fail(RVL_EXIT_USAGE, "--export is for a model that --calibrate quantises");
	o.quantise.exported = c->export ? &quantised : NULL;
	if (!r && rivulet_compile(b.data, b.size, a->cpu_only ? NULL : &board, &o, &program, &explain, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", model, err.msg);
	if (!r && c->export)
		r = rvl_write_file(c->export, quantised.data, quantised.size);
	if (!r)
		r = rvl_built_put(&file, &program);
	if (!r && !c->quiet)
		summary(path, program.data, &explain);
	rivulet_blob_free(&quantised);
	rivulet_blob_free(&program);
	rvl_built_close(&file);
	rivulet_explain_free(&explain);
	rvl_blob_clear(&b);
	return r;
}

static int run_compile(void *args, int n, char **operand)
{
	struct compile_args *c = args;
	char path[4096];

	(void)n;
	snprintf(path, sizeof(path), "%s.rvp", operand[0]);
	return compile_to(c, operand[0], c->output ? c->output : path);
}

static void clear(void *args)
{
	rvl_model_clear(args);
}

static const struct rvl_option options[] = {
	{ "output", 'o', "FILE", "the program file (MODEL.rvp)", RVL_MEMBER(struct compile_args, output) },
	{ "export", 0, "FILE", "with --calibrate: also the quantised model, as ONNX",
	  RVL_MEMBER(struct compile_args, export) },
	RVL_MODEL_OPTIONS(struct compile_args, model),
	{ "serial", 0, NULL, "one instruction at a time, for debugging",
	  RVL_MEMBER(struct compile_args, model.serial) },
	{ "prof", 0, NULL, "every instruction writes a PROF record",
	  RVL_MEMBER(struct compile_args, model.prof) },
	{ "quiet", 'q', NULL, "no summary", RVL_MEMBER(struct compile_args, quiet) },
	{ 0 }
};

const struct rvl_verb rvl_verb_compile = {
	.name = "compile", .summary = "make a program file of an ONNX model", .order = 30,
	.operands = "MODEL.onnx [-o FILE]", .least = 1, .most = 1, .takes = "one model",
	.options = options, .args_size = sizeof(struct compile_args), .run = run_compile, .clear = clear,
};
