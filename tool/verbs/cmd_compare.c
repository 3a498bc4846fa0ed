// SPDX-License-Identifier: MIT
/*
 * rivulet compare: a float model beside its quantised form, tensor by tensor, and beside the program
 * on the linked device model.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/engine.h"
#include "model/model.h"
#include "output.h"
#include "rivulet_snr.h"

#define KEPT_BYTES (1ull << 30)

/* One output over the runs whose values are kept. */
struct output_report {
	struct rvl_snr quantised, device;
	uint64_t differ; /* elements whose bits differ between quantised and device */
};

struct compare {
	struct rvl_model_args model;
	const char *dump, *output;
	uint64_t count, keep;
	/* state */
	struct rivulet_board board;
	struct rivulet_compare result;
	struct rivulet_blob program;
	struct rvl_engine *engine;
	struct output_report *report; /* by output */
};

/* ---- the device ---- */

/* The program as a file that the engine can open. */
static int program_file(const struct rivulet_blob *p, char *path, size_t size, int *fd)
{
	size_t at = 0;

	*fd = memfd_create("rivulet-compare", MFD_CLOEXEC);
	while (*fd >= 0 && at < p->size) {
		ssize_t n = write(*fd, (const char *)p->data + at, p->size - at);

		if (n < 0 && errno != EINTR)
			break;
		at += n > 0 ? (size_t)n : 0;
	}
	if (*fd < 0 || at < p->size)
		return rvl_tool_fail(RVL_EXIT_FAILED, "program in memory: %s", strerror(errno));
	snprintf(path, size, "/proc/self/fd/%d", *fd);
	return 0;
}

static int open_device(struct compare *c)
{
	char path[64], device[4096];
	struct rvl_engine_options o = { .device = device };
	int fd = -1;
	int r = program_file(&c->program, path, sizeof(path), &fd);

	snprintf(device, sizeof(device), "sim:%s", c->model.board ? c->model.board : c->board.name);
	if (!r)
		r = rvl_engine_open(path, &o, &c->engine);
	if (fd >= 0)
		close(fd);
	return r;
}

/* The examples of run @run, from the first one again behind the last one. */
static void feed(struct compare *c, uint64_t run)
{
	const struct rvl_examples *x = &c->model.mode.quantise.examples;

	for (uint32_t i = 0; i < rvl_engine_inputs(c->engine) && i < x->n; i++) {
		uint64_t bytes = rvl_engine_tensor(c->engine, i)->bytes;
		uint8_t *to = rvl_engine_memory(c->engine, 0, i);

		for (uint64_t k = 0; k < bytes; k++)
			to[k] = ((const uint8_t *)x->list[i].data)[(run * bytes + k) % x->list[i].size];
	}
}

/* ---- outputs ---- */

static uint64_t elements(const struct rivulet_compare_tensor *t)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < t->ndim; i++)
		n *= t->dim[i];
	return n;
}

/* The device's outputs of run @run against those of both graphs. */
static void add_outputs(struct compare *c, uint64_t run)
{
	for (uint32_t i = 0; i < c->result.n_outputs; i++) {
		const struct rivulet_compare_tensor *t = &c->result.output[i];
		const float *device = rvl_engine_memory(c->engine, 0, rvl_engine_inputs(c->engine) + i);
		uint64_t n = elements(t);
		const float *want = t->want + run * n, *got = t->got + run * n;

		if (!t->name)
			continue;
		rvl_snr_add(&c->report[i].quantised, want, got, n);
		rvl_snr_add(&c->report[i].device, want, device, n);
		for (uint64_t k = 0; k < n; k++)
			c->report[i].differ += memcmp(&device[k], &got[k], sizeof(float)) != 0;
	}
}

static int run_device(struct compare *c)
{
	int r = open_device(c);

	c->report = calloc(c->result.n_outputs + 1u, sizeof(*c->report));
	if (!r && !c->report)
		r = rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (uint64_t run = 0; run < c->result.kept && !r; run++) {
		feed(c, run);
		r = rvl_engine_run(c->engine, 0, NULL);
		if (!r)
			add_outputs(c, run);
	}
	return r;
}

static void print_db(struct rvl_table *t, double db)
{
	if (db < RVL_SNR_EXACT)
		rvl_table_cell(t, "%.1f dB", db);
	else
		rvl_table_cell(t, "exact");
}

/* ---- reports ---- */

static void text_layers(const struct compare *c)
{
	static const char *const heads[] = { ">SNR", "tensor", "operator", "node", ">scale", ">zero" };
	struct rvl_table t;

	rvl_table_init(&t, 6, heads);
	for (uint32_t i = 0; i < c->result.n_rows; i++) {
		const struct rivulet_compare_row *r = &c->result.rows[i];

		print_db(&t, r->snr_db);
		rvl_table_cell(&t, "%s", r->tensor);
		rvl_table_cell(&t, "%s", r->op);
		rvl_table_cell(&t, "%s", r->node);
		rvl_table_cell(&t, "%.6g", (double)r->scale);
		rvl_table_cell(&t, "%d", r->zero_point);
	}
	rvl_table_print(&t, 2);
}

static void text_outputs(struct compare *c)
{
	static const char *const heads[] = { "output", ">quantised", ">device", ">differ" };
	struct rvl_table t;

	rvl_table_init(&t, 4, heads);
	for (uint32_t i = 0; i < c->result.n_outputs; i++) {
		const struct output_report *r = &c->report[i];

		if (!c->result.output[i].name)
			continue;
		rvl_table_cell(&t, "%s", c->result.output[i].name);
		print_db(&t, rvl_snr_db(&r->quantised));
		print_db(&t, rvl_snr_db(&r->device));
		rvl_table_cell(&t, "%llu", (unsigned long long)r->differ);
	}
	rvl_table_print(&t, 2);
}

static void text_report(struct compare *c, const char *model)
{
	printf("%s: %u quantised tensors against float over %llu runs, the worst first\n", model,
	       c->result.n_rows, (unsigned long long)c->result.runs);
	text_layers(c);
	if (c->result.kept < c->result.runs)
		printf("outputs of the first %llu runs (--keep-bytes)", (unsigned long long)c->result.kept);
	else
		printf("outputs of all runs");
	printf(" against float, quantised and on %s; values that differ between these two\n",
	       rvl_engine_name(c->engine));
	text_outputs(c);
}

static void json_report(struct compare *c, const char *model)
{
	rvl_json_begin("compare");
	rvl_json_str("model", model);
	rvl_json_str("device", rvl_engine_name(c->engine));
	rvl_json_u64("runs", c->result.runs);
	rvl_json_u64("output_runs", c->result.kept);
	rvl_json_open("tensors", '[');
	for (uint32_t i = 0; i < c->result.n_rows; i++) {
		const struct rivulet_compare_row *r = &c->result.rows[i];

		rvl_json_open(NULL, '{');
		rvl_json_str("tensor", r->tensor);
		rvl_json_str("operator", r->op);
		rvl_json_str("node", r->node);
		rvl_json_num("snr_db", r->snr_db);
		rvl_json_num("scale", (double)r->scale);
		rvl_json_i64("zero_point", r->zero_point);
		rvl_json_close();
	}
	rvl_json_close();
	rvl_json_open("outputs", '[');
	for (uint32_t i = 0; i < c->result.n_outputs; i++) {
		const struct output_report *r = &c->report[i];

		if (!c->result.output[i].name)
			continue;
		rvl_json_open(NULL, '{');
		rvl_json_str("output", c->result.output[i].name);
		rvl_json_num("quantised_db", rvl_snr_db(&r->quantised));
		rvl_json_num("device_db", rvl_snr_db(&r->device));
		rvl_json_u64("differ", r->differ);
		rvl_json_close();
	}
	rvl_json_close();
	rvl_json_end();
}

/* ---- --dump ---- */

/* The runs lie along the first axis; a scalar has one of its own. */
static int dump_values(const struct compare *c, const char *what, float *values)
{
	const struct rivulet_compare_tensor *t = &c->result.dump;
	struct rvl_array a = { .dtype = RIVULET_F32, .ndim = t->ndim ? t->ndim : 1, .data = values };
	char path[4096];
	int n = snprintf(path, sizeof(path), "%s/", c->output ? c->output : ".");

	for (const char *p = t->name; *p && n < (int)sizeof(path) - 32; p++)
		path[n++] = *p == '/' || (unsigned char)*p < 0x20 ? '_' : *p;
	snprintf(path + n, sizeof(path) - (size_t)n, ".%s.npy", what);
	memcpy(a.dim, t->dim, sizeof(a.dim));
	a.dim[0] = (t->ndim ? t->dim[0] : 1) * c->result.kept;
	a.size = elements(t) * c->result.kept * sizeof(float);
	return rvl_npy_write(path, &a);
}

static int dump(const struct compare *c)
{
	int r = c->dump ? dump_values(c, "float", c->result.dump.want) : 0;

	return !r && c->dump ? dump_values(c, "quantised", c->result.dump.got) : r;
}

/* ---- all ---- */

static int compare_model(struct compare *c, const char *model)
{
	struct rivulet_compile_options o;
	struct rvl_err err = { "" };
	struct rvl_blob b;
	int r = rvl_model_prepare(&c->model, model, &c->board, &b, &o);

	if (r)
		return r;
	if (rivulet_compare(b.data, b.size, &c->board, &o, c->count, c->keep ? c->keep : KEPT_BYTES,
			    c->dump, &c->program, &c->result, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", model, err.msg);
	rvl_blob_clear(&b);
	return r;
}

static int run_compare(void *args, int n, char **operand)
{
	struct compare *c = args;
	int r;

	(void)n;
	if (!rvl_quantise_given(&c->model.mode.quantise))
		return rvl_tool_fail(RVL_EXIT_USAGE, "rivulet compare takes --calibrate");
	r = compare_model(c, operand[0]);
	if (!r)
		r = dump(c);
	if (!r)
		r = run_device(c);
	if (!r && rvl_tool_json)
		json_report(c, operand[0]);
	else if (!r)
		text_report(c, operand[0]);
	return r;
}

static void clear(void *args)
{
	struct compare *c = args;

	rvl_engine_close(c->engine);
	rivulet_compare_free(&c->result);
	free(c->report);
	rivulet_blob_free(&c->program);
	rvl_model_clear(&c->model);
}

static const struct rvl_option options[] = {
	{ "count", 'n', "N", "runs to compare (all of --calibrate)", RVL_MEMBER(struct compare, count),
	  .least = 1 },
	{ "keep-bytes", 0, "N", "of outputs and --dump to keep: the first runs that fit (1 GiB)",
	  RVL_MEMBER(struct compare, keep), .least = 1 },
	{ "dump", 0, "TENSOR", "write its values of all kept runs: TENSOR.float.npy, TENSOR.quantised.npy",
	  RVL_MEMBER(struct compare, dump) },
	{ "output", 'o', "DIR", "where --dump writes (.)", RVL_MEMBER(struct compare, output) },
	RVL_MODEL_OPTIONS(struct compare, model),
	{ 0 }
};

const struct rvl_verb rvl_verb_compare = {
	.name = "compare", .summary = "a float model against its quantised form, layer by layer", .order = 65,
	.operands = "MODEL.onnx --calibrate PATH", .least = 1, .most = 1, .takes = "one model",
	.options = options, .args_size = sizeof(struct compare), .run = run_compare, .clear = clear,
};
