/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes ONNX models: the input is compiled as `rivulet compile` does it, from reading to the
 * program file. The first byte of the input selects the options. Compiling may take 64 MiB and eight
 * times the size of the model. Calibration runs the model and keeps the results of a few runs: it may
 * take eight times the size of the program's tensors more.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "rivulet_compiler.h"
#include "rivulet_program.h"

#define CPU_ONLY 1
#define AVERAGE_WITHIN_1 2
#define EXPLAIN 4
#define STOCHASTIC 8
#define QUANTISE 16
#define NO_VIEWS 32
#define BOARD_SHIFT 6	/* two bits */
#define EXAMPLE (1u << 14)	/* most bytes of the values of an input */
#define MODEL_MEMORY(size) ((64ull << 20) + 8 * (uint64_t)(size))

static const struct rivulet_board *board_of(uint8_t options)
{
	static const char *const name[] = { "zu3eg-64", "zcu102-binary", "zu3eg-256",
					    "cyclonev-64-nodsp" };
	static struct rivulet_board board[4];
	unsigned int i = options >> BOARD_SHIFT;
	char why[256];

	if (!board[i].tm && rivulet_board_load(&board[i], name[i], why, sizeof(why)))
		abort();
	return &board[i];
}

/* Values for the calibration of one input: a ramp about 0. */
static const float *ramp(void)
{
	static float values[EXAMPLE / sizeof(float)];

	for (size_t i = 0; i < EXAMPLE / sizeof(float) && !values[1]; i++)
		values[EXAMPLE / sizeof(float) - 1 - i] = (float)((int)(i * 37 % 257) - 128) / 64;
	values[1] = 1;
	return values;
}

static uint64_t bytes_of(const struct rivulet_model_input *in)
{
	uint64_t n = sizeof(float);

	for (uint32_t d = 0; d < in->ndim && n <= EXAMPLE; d++)
		n *= in->dim[d] <= EXAMPLE ? in->dim[d] : EXAMPLE + 1;
	return n;
}

/* Examples for every input of a model whose inputs are small and of float32. */
static void add_examples(const uint8_t *model, size_t size, struct rivulet_compile_options *opt,
			 struct rivulet_examples *examples, struct rivulet_blob *exported)
{
	struct rivulet_model_input *in;
	struct rvl_err err;
	uint32_t n;

	if (rivulet_model_inputs_of(model, size, opt, &in, &n, &err))
		return;
	for (uint32_t i = 0; i < n && i < 4; i++) {
		examples[i] = (struct rivulet_examples){ .input = strdup(in[i].name), .data = ramp(),
							 .size = bytes_of(&in[i]) };
		if (in[i].dtype == RIVULET_F32 && examples[i].size && examples[i].size <= EXAMPLE)
			opt->quantise.n_examples = i + 1;
	}
	if (opt->quantise.n_examples) {
		opt->quantise.examples = examples;
		opt->quantise.threads = 1;
		opt->quantise.exported = exported;
	}
	rivulet_model_inputs_free(in, n);
}

static void explain(const uint8_t *model, size_t size, const struct rivulet_board *board,
		    const struct rivulet_compile_options *opt)
{
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	int rc = rivulet_explain_model(model, size, board, opt, &e, &err);

	fuzz_expect(!rc || err.msg[0]);
	rivulet_explain_free(&e);
}

/* Bytes of the tensors that steps write; 0 without a program. */
static uint64_t written_bytes(const struct rivulet_blob *program)
{
	const struct rivulet_program *p = program->data;
	const struct rivulet_tensor *t;
	uint64_t sum = 0;

	for (uint32_t i = 0; p && i < p->tensors; i++) {
		t = &rivulet_program_tensors(p)[i];
		if (t->place == RIVULET_PLACE_ARENA || t->place == RIVULET_PLACE_OUTPUT)
			sum += t->size;
	}
	return sum;
}

FUZZ_TARGET(reader)
{
	struct rivulet_compile_options opt = { .symbol = 3 };
	struct rivulet_blob program = { NULL }, exported = { NULL };
	struct rivulet_examples examples[4] = { { NULL } };
	const struct rivulet_board *board;
	struct rvl_err err = { "" };
	uint64_t more = 0;
	struct fuzz_cost cost;
	int rc;

	if (!size)
		return 0;
	board = board_of(*data);
	cost = fuzz_begin();
	opt.cpu_only = *data & CPU_ONLY;
	opt.average_within_1 = *data & AVERAGE_WITHIN_1;
	opt.no_views = opt.no_cascade = *data & NO_VIEWS;
	opt.stochastic = *data & STOCHASTIC;
	for (uint32_t i = 0; i < RIVULET_LEVELS; i++)
		opt.length[i] = opt.stochastic ? 64 : 0;
	if (*data & QUANTISE)
		add_examples(data + 1, size - 1, &opt, examples, &exported);
	rc = rivulet_compile(data + 1, size - 1, board, &opt, &program, NULL, &err);
	fuzz_expect(!rc || err.msg[0]);
	if (opt.quantise.n_examples)
		more = 8 * written_bytes(&program);
	rivulet_blob_free(&program);
	rivulet_blob_free(&exported);
	if (*data & EXPLAIN)
		explain(data + 1, size - 1, board, &opt);
	rivulet_blob_free(&exported);
	fuzz_end(&cost, MODEL_MEMORY(size) + more);
	for (int i = 0; i < 4; i++)
		free((char *)examples[i].input);
	return 0;
}
