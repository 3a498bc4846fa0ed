// SPDX-License-Identifier: MIT
/*
 * rivulet eval: accuracy over a data set, by the CPU operators, which compute the bits of the
 * device.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset.h"
#include "model/accuracy.h"
#include "model/dims.h"
#include "model/mode.h"
#include "output.h"
#include "rivulet_eval.h"
#include "rivulet_proto.h"

struct eval {
	/* options */
	const char *data, *labels, *length, *circuit, *figures;
	uint64_t blocks, first, count, threads, batch;
	struct rvl_dims dims;
	struct rvl_mode keep; /* of the mode, only RVL_KEEP_OPTIONS are options */
	/* state */
	struct rvl_dataset data_set;
	struct rivulet_eval *e;
	bool circuits[RIVULET_SC_CIRCUIT_COUNT], lengths[RIVULET_SC_MAX + 1];
	struct rvl_table table;
	struct rvl_progress progress;
	uint32_t evaluations, begun; /* in total, and begun so far */
};

/* ---- what to evaluate ---- */

static int parse_circuit(struct eval *v)
{
	int c = v->circuit ? rivulet_sc_circuit_find(v->circuit) : RIVULET_SC_AND_BIN;

	for (int i = 0; v->circuit && !strcmp(v->circuit, "all") && i < RIVULET_SC_CIRCUIT_COUNT; i++)
		v->circuits[i] = true;
	if (c >= 0)
		v->circuits[c] = true;
	else if (strcmp(v->circuit, "all"))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--circuit is and-bin, and-loop, and-acc, and-sep, "
				     "ugemm, xnor-mux or all, not \"%s\"", v->circuit);
	return 0;
}

/* ---- evaluation ---- */

static void report(struct eval *v, const struct rivulet_eval_spec *s, const struct rvl_accuracy *a,
		   double seconds)
{
	const char *circuit = s->length ? rivulet_sc_circuit_name(s->circuit) : "int8";
	double accuracy = (double)a->right / (double)a->done;
	bool part = a->done < v->data_set.set.count;
	char name[64];

	if (rvl_tool_json) {
		rvl_json_open(NULL, '{');
		rvl_json_str("circuit", circuit);
		rvl_json_u64("length", s->length);
		rvl_json_num("accuracy", accuracy);
		rvl_json_u64("right", a->right);
		rvl_json_u64("examples", a->done);
		rvl_json_num("seconds", seconds);
		rvl_json_close();
		return;
	}
	rvl_table_cell(&v->table, "%s", circuit);
	rvl_table_cell(&v->table, s->length ? "%u" : "", s->length);
	rvl_table_cell(&v->table, "%.2f %%", 100 * accuracy);
	rvl_table_cell(&v->table, "%llu", (unsigned long long)a->right);
	rvl_table_cell(&v->table, "%.2f s", seconds);
	rvl_table_cell(&v->table, part ? "of %llu examples" : "", (unsigned long long)a->done);
	if (part)
		return;
	if (s->circuit == RIVULET_SC_AND_BIN)
		snprintf(name, sizeof(name), s->length ? "accuracy.%u" : "accuracy.int8", s->length);
	else
		snprintf(name, sizeof(name), "accuracy.%s.%u", circuit, s->length);
	rvl_figure(v->figures, name, 100 * accuracy, "%");
}

static int one(struct eval *v, uint32_t circuit, uint32_t length)
{
	struct rivulet_eval_spec s = { .length = length, .circuit = circuit,
				       .blocks = (uint32_t)v->blocks };
	double start = rvl_tool_seconds();
	struct rvl_err err = { "" };
	struct rvl_accuracy a;
	int rc;

	rvl_progress_start(&v->progress, v->data_set.set.count, "examples", "evaluation %u of %u, %s, %u bits",
			   ++v->begun, v->evaluations,
			   length ? rivulet_sc_circuit_name(circuit) : "int8", length ? length : 8);
	rc = rvl_accuracy_measure(v->e, &s, &v->data_set.set, (uint32_t)v->threads, &v->progress, &a, &err);
	if (rc && rc != -EINTR)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s", err.msg);
	if (a.done)
		report(v, &s, &a, rvl_tool_seconds() - start);
	return rc ? RVL_EXIT_FAILED : 0;
}

static bool has_scale(int circuit)
{
	return circuit != RIVULET_SC_AND_BIN && circuit != RIVULET_SC_XNOR_MUX;
}

static int all(struct eval *v)
{
	struct rvl_err err = { "" };
	int r;

	v->evaluations = 1;
	for (int c = 0; c < RIVULET_SC_CIRCUIT_COUNT; c++)
		for (uint32_t l = 0; l <= RIVULET_SC_MAX; l++)
			v->evaluations += v->circuits[c] && v->lengths[l];
	r = one(v, RIVULET_SC_AND_BIN, 0);

	for (int c = 0; !r && c < RIVULET_SC_CIRCUIT_COUNT; c++) {
		if (!v->circuits[c])
			continue;
		if (has_scale(c) && rivulet_eval_scales(v->e, (uint32_t)c, &v->data_set.set, &err))
			return rvl_tool_fail(RVL_EXIT_REFUSED, "%s", err.msg);
		for (uint32_t l = RIVULET_SC_MAX; !r && l >= RIVULET_SC_MIN; l--)
			if (v->lengths[l])
				r = one(v, (uint32_t)c, l);
	}
	rvl_progress_end(&v->progress);
	return r;
}

static int load(struct eval *v, const char *model)
{
	struct rivulet_compile_options o = { .batch = (int64_t)v->batch };
	struct rvl_err err = { "" };
	struct rvl_blob b;
	int r = rvl_mode_fill(&v->keep, 1, &o);

	rvl_dims_fill(&v->dims, &o);
	if (!r)
		r = rvl_read_file(model, RIVULET_MODEL_MAX, &b);
	if (r)
		return r;
	r = rvl_quantise_fill(&v->keep.quantise, model, &b, &o);
	if (!r && rivulet_eval_new(b.data, b.size, &o, &v->e, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", model, err.msg);
	rvl_blob_clear(&b);
	return r;
}

static int evaluate(struct eval *v, const char *model)
{
	static const char *const heads[] = { "circuit", ">bits", ">accuracy", ">right", ">time", "" };
	uint64_t streams, macs;
	int r = load(v, model);

	if (!r)
		r = rvl_dataset_read(v->data, v->labels, v->first, v->count, &v->data_set);
	if (r)
		return r;
	rvl_interrupt_catch();
	macs = rivulet_eval_macs(v->e, &streams);
	if (rvl_tool_json) {
		rvl_json_begin("eval");
		rvl_json_str("model", model);
		rvl_json_u64("examples", v->data_set.set.count);
		rvl_json_u64("macs", macs);
		rvl_json_u64("stream_macs", streams);
		rvl_json_open("results", '[');
		r = all(v);
		rvl_json_close();
		rvl_json_bool("interrupted", rvl_interrupted());
		rvl_json_end();
		return r;
	}
	printf("%s: %llu examples, %llu products each, %llu of them stochastic\n", model,
	       (unsigned long long)v->data_set.set.count, (unsigned long long)macs,
	       (unsigned long long)streams);
	rvl_table_init(&v->table, 6, heads);
	r = all(v);
	rvl_table_print(&v->table, 2);
	if (rvl_interrupted())
		printf("  interrupted: %u of %u evaluations were begun\n", v->begun, v->evaluations);
	return r;
}

static int check_args(struct eval *v)
{
	int r;

	if (!v->data || !v->labels)
		return rvl_tool_fail(RVL_EXIT_USAGE, "rivulet eval takes --data and --labels");
	if (!v->threads)
		v->threads = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	r = rvl_lengths_parse(v->length ? v->length : "256,128,64,32,20", v->lengths);
	return r ? r : parse_circuit(v);
}

static int run_eval(void *args, int n, char **operand)
{
	struct eval *v = args;
	int r = check_args(v);

	(void)n;
	return r ? r : evaluate(v, operand[0]);
}

static void clear(void *args)
{
	struct eval *v = args;

	rivulet_eval_free(v->e);
	rvl_mode_clear(&v->keep);
	rvl_dataset_clear(&v->data_set);
	rvl_dims_clear(&v->dims);
}

static const struct rvl_option options[] = {
	{ "data", 0, "FILE", "examples: IDX of bytes (plain or .gz), or .npy of uint8 or float32",
	  RVL_MEMBER(struct eval, data) },
	{ "labels", 0, "FILE", "their classes: IDX, or .npy of uint8 or int64",
	  RVL_MEMBER(struct eval, labels) },
	{ "length", 0, "LIST", "bits of a stream: 64, 8-256, or several (256,128,64,32,20)",
	  RVL_MEMBER(struct eval, length) },
	{ "circuit", 0, "NAME", "and-bin (default), and-loop, and-acc, and-sep, ugemm, xnor-mux, all",
	  RVL_MEMBER(struct eval, circuit) },
	{ "blocks", 0, "K", "and-acc: parts of a stream (1)", RVL_MEMBER(struct eval, blocks), .least = 1,
	  .most = RIVULET_SC_BLOCKS_MAX },
	RVL_KEEP_OPTIONS(struct eval, keep),
	{ "first", 0, "N", "first example (0)", RVL_MEMBER(struct eval, first) },
	{ "count", 'n', "N", "examples (all)", RVL_MEMBER(struct eval, count), .least = 1 },
	{ "batch", 0, "N", "value of a symbolic first dimension (50)", RVL_MEMBER(struct eval, batch),
	  .least = 1, .most = INT32_MAX },
	RVL_DIMS_OPTIONS(struct eval, dims),
	{ "threads", 0, "N", "threads (one per processor)", RVL_MEMBER(struct eval, threads), .most = 64 },
	{ "figures", 0, "PREFIX", "print `figure PREFIX.NAME VALUE UNIT` lines",
	  RVL_MEMBER(struct eval, figures) },
	{ 0 }
};

const struct rvl_verb rvl_verb_eval = {
	.name = "eval", .summary = "accuracy of a model over a data set, by bitstream length", .order = 60,
	.operands = "MODEL.onnx --data FILE --labels FILE", .least = 1, .most = 1, .takes = "one model",
	.options = options, .args_size = sizeof(struct eval),
	.defaults = &(const struct eval) { .blocks = 1, .count = UINT64_MAX, .keep.mode = "sc" },
	.run = run_eval, .clear = clear,
};
