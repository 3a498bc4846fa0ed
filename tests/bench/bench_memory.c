/* SPDX-License-Identifier: MIT */
/*
 * Memory of networks that run on the CPU alone: what the runtime allocates for values, kernels and
 * workspace, over the weights and the values that are live at once. Fails beyond MOST.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "bench/nets.h"
#include "bench/steps.h"
#include "program/program.h"

#define MOST 1.15
#define LINE 64		/* bytes, to which values in the arena are aligned */

static const struct {
	const char *name;
	struct rvl_graph *(*make)(void);
} nets[] = {
	{ "mobilenetv2", make_mobilenetv2 },
	{ "resnet18", make_resnet18 },
	{ "yolo", make_yolo },
};

/* Bytes that the allocator has handed out. */
static size_t allocated(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* Bytes of the constants that steps read, each counted once. */
static uint64_t weight_bytes(const struct rivulet_program *p)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(p);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->tensors; i++) {
		bool seen = t[i].place != RIVULET_PLACE_CONST;

		for (uint32_t k = 0; k < i && !seen; k++)
			seen = t[k].place == RIVULET_PLACE_CONST && t[k].offset == t[i].offset;
		sum += seen ? 0 : t[i].size;
	}
	return sum;
}

/* The steps from the first to the last that has the tensor as an operand; false: none. */
static bool life_of(const struct rivulet_program *p, uint32_t tensor, uint32_t *first, uint32_t *last)
{
	const struct rivulet_step *s = rivulet_program_steps(p);
	bool used = false;

	for (uint32_t i = 0; i < p->steps; i++) {
		bool here = false;

		for (uint32_t k = 0; k < s[i].nread; k++)
			here |= s[i].read[k] == tensor;
		for (uint32_t k = 0; k < s[i].nwrite; k++)
			here |= s[i].write[k] == tensor;
		if (!here)
			continue;
		*first = used ? *first : i;
		*last = i;
		used = true;
	}
	return used;
}

/* Marks the lines of the arena where the tensor lies, in the maps of the steps of its life. */
static void mark(const struct rivulet_program *p, uint32_t tensor, uint8_t *maps, uint64_t lines)
{
	const struct rivulet_tensor *t = &rivulet_program_tensors(p)[tensor];
	uint32_t first = 0, last = 0;

	if (t->place != RIVULET_PLACE_ARENA || !t->size || !life_of(p, tensor, &first, &last))
		return;
	for (uint32_t i = first; i <= last; i++)
		memset(maps + i * lines + t->offset / LINE, 1,
		       (t->offset + t->size - 1) / LINE - t->offset / LINE + 1);
}

/* The most bytes of the arena that are live during a step; values that share memory count once. */
static uint64_t live_bytes(const struct rivulet_program *p)
{
	uint64_t lines = p->arena_size / LINE + 1, most = 0;
	uint8_t *maps = calloc(p->steps, lines);

	for (uint32_t i = 0; maps && i < p->tensors; i++)
		mark(p, i, maps, lines);
	for (uint32_t i = 0; maps && i < p->steps; i++) {
		uint64_t n = 0;

		for (uint64_t k = 0; k < lines; k++)
			n += maps[i * lines + k];
		most = n > most ? n : most;
	}
	free(maps);
	return most * LINE;
}

/* @all: what making the steps allocated. */
static int report(const char *net, const struct prog_exec *x, const struct step *steps,
		  uint64_t scratch, uint64_t all)
{
	uint64_t weights = weight_bytes(x->p), live = live_bytes(x->p), packed = 0;
	double ratio;

	for (uint32_t i = 0; i < x->p->steps; i++)
		packed += rvl_kernel_bytes(steps[i].k);
	ratio = (double)(x->p->arena_size + packed + scratch) / (double)(weights + live);
	printf("figure cpu.memory.%s.arena %" PRIu64 " bytes\n", net, (uint64_t)x->p->arena_size);
	printf("figure cpu.memory.%s.packed %" PRIu64 " bytes\n", net, packed);
	printf("figure cpu.memory.%s.objects %" PRIu64 " bytes\n", net, all - packed);
	printf("figure cpu.memory.%s.workspace %" PRIu64 " bytes\n", net, scratch);
	printf("figure cpu.memory.%s.weights %" PRIu64 " bytes\n", net, weights);
	printf("figure cpu.memory.%s.live %" PRIu64 " bytes\n", net, live);
	printf("figure cpu.memory.%s.ratio %.3f x\n", net, ratio);
	return ratio > MOST;
}

static int measure(const struct rivulet_board *b, size_t net)
{
	const struct rivulet_compile_options opt = { .cpu_only = true };
	struct rvl_graph *g = nets[net].make();
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	struct prog_exec x = { 0 };
	struct step *steps = NULL;
	size_t scratch = 0, before;
	int rc = g ? rvl_compile_graph(g, NULL, &opt, &program, &e, &err) : -1;

	if (!rc)
		rc = prog_open(&x, b, NULL, program.data);
	before = allocated();
	if (!rc)
		rc = steps_make(&x, &steps, &scratch);
	if (rc)
		fprintf(stderr, "bench_memory: %s: %s%s\n", nets[net].name, err.msg, x.err);
	else
		rc = report(nets[net].name, &x, steps, scratch, allocated() - before);
	if (x.p)
		steps_free(&x, steps);
	prog_close(&x, true);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	return rc;
}

int main(void)
{
	struct rivulet_board b;
	char err[256];
	int rc = 0;

	/* Nothing runs on the board; the executor of programs needs one. */
	if (rivulet_board_load(&b, "zu3eg-64", err, sizeof(err))) {
		fprintf(stderr, "bench_memory: %s\n", err);
		return 1;
	}
	for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++)
		rc |= measure(&b, i) != 0;
	return rc;
}
