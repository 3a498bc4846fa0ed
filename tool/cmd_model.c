// SPDX-License-Identifier: MIT
/* rivulet compile, explain, disasm: what can be done with a model without running it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_isa.h"
#include "rivulet_plan.h"
#include "tool.h"

#define DEFAULT_BOARD "zu3eg-64"
#define MAX_FROZEN 256

/* ---- --freeze NAME=FILE ---- */

struct frozen {
	uint32_t n;
	struct rivulet_frozen f[MAX_FROZEN];
	struct rvl_array a[MAX_FROZEN];
	char *name[MAX_FROZEN];
};

static int add_frozen(void *ctx, const char *value)
{
	struct frozen *z = ctx;
	const char *eq = strrchr(value, '=');
	int r;

	if (!eq || eq == value || z->n == MAX_FROZEN)
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

static void clear_frozen(struct frozen *z)
{
	for (uint32_t i = 0; i < z->n; i++) {
		rvl_array_clear(&z->a[i]);
		free(z->name[i]);
	}
}

/* ---- options that compile and explain share ---- */

struct model_args {
	const char *board, *output;
	uint64_t batch, symbol;
	bool require_npu, cpu_only, serial, prof, quiet;
	struct frozen frozen;
	struct rvl_mode mode;
	const char *plan_file;
	struct rivulet_plan plan; /* of it */
};

static int fill_options(struct model_args *a, const struct rivulet_board *b,
			struct rivulet_compile_options *o)
{
	*o = (struct rivulet_compile_options) { .batch = (int64_t)a->batch,
		.symbol = (int64_t)a->symbol, .frozen = a->frozen.f, .n_frozen = a->frozen.n,
		.require_npu = a->require_npu, .cpu_only = a->cpu_only, .serial = a->serial,
		.prof = a->prof };
	return rvl_mode_fill(&a->mode, a->cpu_only ? 1 : b->levels, o);
}

static int parse_model_args(int argc, char **argv, struct model_args *a, const char *usage)
{
	const struct rvl_option o[] = {
		{ "board", 'b', "BOARD", "profile name or file, sim:NAME or /dev/accel/accelN (zu3eg-64)",
		  .text = &a->board },
		{ "output", 'o', "FILE", "compile: the program file (MODEL.rvp)", .text = &a->output },
		{ "freeze", 0, "NAME=FILE", "make an input a constant (.npy or ONNX tensor); repeatable",
		  .fn = add_frozen, .ctx = &a->frozen },
		{ "batch", 0, "N", "value of a symbolic first dimension (1)", .number = &a->batch },
		{ "symbol", 0, "N", "value of other symbolic dimensions", .number = &a->symbol },
		{ "require-npu", 0, NULL, "refuse a model with steps on the CPU", .flag = &a->require_npu },
		{ "cpu-only", 0, NULL, "everything on the CPU", .flag = &a->cpu_only },
		{ "serial", 0, NULL, "one instruction at a time, for debugging", .flag = &a->serial },
		{ "prof", 0, NULL, "every instruction writes a PROF record", .flag = &a->prof },
		{ "quiet", 'q', NULL, "compile: no summary", .flag = &a->quiet },
		{ "plan", 0, "FILE", "a plan of rivulet plan: lengths and accuracies by level",
		  .text = &a->plan_file },
		RVL_MODE_OPTIONS(&a->mode),
		{ 0 }
	};
	int n = rvl_tool_options(argc, argv, o, usage);

	if (n >= 0 && n != 1)
		return -1 - rvl_tool_fail(RVL_EXIT_USAGE, "rivulet %s takes one model", argv[0]);
	if (a->batch > INT32_MAX || a->symbol > INT32_MAX)
		return -1 - rvl_tool_fail(RVL_EXIT_USAGE, "--batch and --symbol are below 2^31");
	return n;
}

/* ---- --plan ---- */

static int read_plan(struct model_args *a)
{
	struct rvl_err err = { "" };
	struct rvl_blob b;
	int r;

	if (!a->plan_file)
		return 0;
	if (a->mode.mode || a->mode.length || a->mode.lengths || a->mode.n_keep || a->batch || a->symbol ||
	    a->cpu_only || a->frozen.n)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--plan says it all: no --mode, --length, --lengths, "
				     "--keep-int8, --freeze, --batch, --symbol or --cpu-only beside it");
	r = rvl_read_file(a->plan_file, RIVULET_PLAN_FILE_MAX, &b);
	if (r)
		return r;
	if (rivulet_plan_parse(&a->plan, b.data, b.size, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", a->plan_file, err.msg);
	rvl_blob_clear(&b);
	return r;
}

/* Lengths, accuracies and what else a plan says; only of its own model and board. */
static int follow_plan(const struct model_args *a, const struct rvl_blob *onnx,
		       const struct rivulet_board *b, struct rivulet_compile_options *o)
{
	struct rvl_err err = { "" };

	if (a->plan_file && rivulet_plan_apply(&a->plan, onnx->data, onnx->size, b, o, &err))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", a->plan_file, err.msg);
	return 0;
}

/* Board, model and options; the model is the caller's to clear when that went well. */
static int prepare(struct model_args *a, const char *model, struct rivulet_board *board,
		   struct rvl_blob *onnx, struct rivulet_compile_options *o)
{
	int r = read_plan(a);

	if (!r)
		r = rvl_board_of(a->board ? a->board : a->plan_file ? a->plan.board : DEFAULT_BOARD, board);
	if (!r)
		r = rvl_read_file(model, RIVULET_MODEL_MAX, onnx);
	if (r)
		return r;
	r = fill_options(a, board, o);
	if (!r)
		r = follow_plan(a, onnx, board, o);
	if (r)
		rvl_blob_clear(onnx);
	return r;
}

static void clear_args(struct model_args *a)
{
	clear_frozen(&a->frozen);
	rvl_mode_clear(&a->mode);
	rivulet_plan_clear(&a->plan);
}

/* ---- compile ---- */

static int write_program(const char *path, const struct rivulet_blob *p)
{
	FILE *f = fopen(path, "wbe");

	if (!f)
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", path, strerror(errno));
	fwrite(p->data, 1, p->size, f);
	if (ferror(f) | fclose(f))
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", path, strerror(errno));
	return 0;
}

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
}

static int compile_to(struct model_args *a, const char *model, const char *path)
{
	struct rivulet_compile_options o;
	struct rivulet_blob program = { 0 };
	struct rivulet_explain explain = { 0 };
	struct rvl_err err = { "" };
	struct rivulet_board board;
	struct rvl_blob b;
	int r = prepare(a, model, &board, &b, &o);

	if (r)
		return r;
	if (rivulet_compile(b.data, b.size, a->cpu_only ? NULL : &board, &o, &program, &explain, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", model, err.msg);
	if (!r)
		r = write_program(path, &program);
	if (!r && !a->quiet)
		summary(path, program.data, &explain);
	rivulet_blob_free(&program);
	rivulet_explain_free(&explain);
	rvl_blob_clear(&b);
	return r;
}

int rvl_cmd_compile(int argc, char **argv)
{
	struct model_args a = { 0 };
	char path[4096];
	int n = parse_model_args(argc, argv, &a, "MODEL.onnx [-o FILE]"), r;

	if (n < 0) {
		clear_args(&a);
		return -1 - n;
	}
	snprintf(path, sizeof(path), "%s.rvp", argv[1]);
	r = compile_to(&a, argv[1], a.output ? a.output : path);
	clear_args(&a);
	return r;
}

/* ---- explain ---- */

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

static int print_explain(const struct rivulet_explain *e)
{
	struct rivulet_blob text = { 0 };
	int r = rvl_tool_json ? rivulet_explain_json(e, &text) : rivulet_explain_text(e, &text);

	if (r)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	if (rvl_tool_json) {
		rvl_json_begin("explain");
		rvl_json_raw("explain", text.data);
		rvl_json_end();
	} else {
		fwrite(text.data, 1, text.size, stdout);
	}
	rivulet_blob_free(&text);
	return refuse_unsupported(e);
}

static int explain_model(struct model_args *a, const char *model)
{
	struct rivulet_compile_options o;
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	struct rivulet_board board;
	struct rvl_blob b;
	int r = prepare(a, model, &board, &b, &o);

	if (r)
		return r;
	if (rivulet_explain_model(b.data, b.size, &board, &o, &e, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", model, err.msg);
	else
		r = print_explain(&e);
	rivulet_explain_free(&e);
	rvl_blob_clear(&b);
	return r;
}

int rvl_cmd_explain(int argc, char **argv)
{
	struct model_args a = { 0 };
	int n = parse_model_args(argc, argv, &a, "MODEL.onnx"), r;

	r = n < 0 ? -1 - n : explain_model(&a, argv[1]);
	clear_args(&a);
	return r;
}

/* ---- disasm ---- */

static void list_stream(const struct rivulet_program *p, const struct rivulet_step_variant *v)
{
	const struct rivulet_insn *in = (const void *)((const char *)p + v->offset);
	char text[512];

	for (uint32_t i = 0; i < v->length / sizeof(*in); i++) {
		if (rivulet_disassemble(&in[i], text, sizeof(text)) < 0)
			snprintf(text, sizeof(text), "(line too long)");
		if (rvl_tool_json)
			rvl_json_str(NULL, text);
		else
			printf("%6u  %s\n", i, text);
	}
}

/* Levels whose variant is the same stream are listed once. */
static bool first_of_kind(const struct rivulet_step *s, uint32_t level)
{
	for (uint32_t l = 0; l < level; l++)
		if (s->variant[l].length && s->variant[l].offset == s->variant[level].offset)
			return false;
	return s->variant[level].length != 0;
}

static void list_step(const struct rivulet_program *p, uint32_t i, bool json)
{
	const struct rivulet_step *s = &rivulet_program_steps(p)[i];

	for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
		if (!first_of_kind(s, l))
			continue;
		if (json) {
			rvl_json_open(NULL, '{');
			rvl_json_u64("step", i);
			rvl_json_str("name", rivulet_program_string(p, s->name));
			rvl_json_u64("level", l);
			rvl_json_u64("cycles", s->variant[l].cycles);
			rvl_json_open("instructions", '[');
			list_stream(p, &s->variant[l]);
			rvl_json_close();
			rvl_json_close();
			continue;
		}
		printf("# step %u, %s: level %u on, %u instructions, %llu cycles estimated\n", i,
		       rivulet_program_string(p, s->name), l, s->variant[l].length / 16,
		       (unsigned long long)s->variant[l].cycles);
		list_stream(p, &s->variant[l]);
	}
}

static int list_program(const char *path)
{
	struct rvl_blob b;
	char why[256];
	int r = rvl_read_file(path, RIVULET_MODEL_MAX, &b);

	if (r)
		return r;
	if (rivulet_program_check(b.data, b.size, why, sizeof(why))) {
		rvl_blob_clear(&b);
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, why);
	}
	if (rvl_tool_json) {
		rvl_json_begin("disasm");
		rvl_json_open("streams", '[');
	}
	for (uint32_t i = 0; i < ((struct rivulet_program *)b.data)->steps; i++)
		list_step((void *)b.data, i, rvl_tool_json);
	if (rvl_tool_json) {
		rvl_json_close();
		rvl_json_end();
	}
	rvl_blob_clear(&b);
	return 0;
}

int rvl_cmd_disasm(int argc, char **argv)
{
	const struct rvl_option o[] = { { 0 } };
	int n = rvl_tool_options(argc, argv, o, "PROGRAM.rvp");

	if (n < 0)
		return -1 - n;
	if (n != 1)
		return rvl_tool_fail(RVL_EXIT_USAGE, "rivulet disasm takes one program file");
	return list_program(argv[1]);
}
