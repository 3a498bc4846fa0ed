// SPDX-License-Identifier: MIT
/*
 * bench_choice MODEL.onnx...: networks on zu3eg-64-planes, which has an array of multipliers and bucket
 * engines, compiled with and without the bit-plane mode: with their weights as they are, and with the
 * lowest 4 and 2 bits of these. The choice of a mode by layer must make no network slower.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"
#include "program/program.h"

static const struct rivulet_compile_options without = { .without_modes = 1u << RIVULET_MODE_BITPLANE };

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "bench_choice: %s: %s\n", what, why);
	exit(1);
}

/* Keeps the lowest @bits bits of all int8 weights, with their sign. */
static void narrow(struct rvl_graph *g, uint32_t bits)
{
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		struct rvl_tensor *t = g->tensors[i];
		int8_t *v = (int8_t *)t->data; /* of the model's bytes, which belong to the caller */

		if (!v || t->type != RVL_TYPE_S8 || t->shape.rank < 2)
			continue;
		for (int64_t k = 0; k < rvl_tensor_bytes(t); k++)
			v[k] = (int8_t)((int32_t)((uint32_t)v[k] << (32 - bits)) >> (32 - bits));
	}
}

static bool by_planes(const struct rivulet_explain_row *r)
{
	return strstr(r->reason, "bit planes") != NULL;
}

/* Cycles on the NPU; @planes: how many layers bit planes compute. */
static uint64_t cycles_of(const char *path, uint32_t bits, const struct rivulet_board *b,
			  const struct rivulet_compile_options *opt, uint32_t *planes)
{
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e = { 0 };
	struct rvl_graph *g = NULL;
	struct rvl_err err = { "" };
	uint64_t cycles = 0;
	size_t size;
	void *model = zoo_read(path, &size);

	if (!model || rvl_read_model(model, size, opt, &g, &err))
		fail(path, model ? err.msg : strerror(errno));
	narrow(g, bits);
	if (rvl_compile_graph(g, b, opt, &program, &e, &err))
		fail(path, err.msg);
	*planes = 0;
	for (uint32_t i = 0; i < e.n_rows; i++)
		*planes += by_planes(&e.rows[i]);
	for (uint32_t i = 0; i < e.n_segments; i++)
		cycles += e.segments[i].cycles;
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	free(model);
	return cycles;
}

static const uint32_t widths[] = { 8, 4, 2 };

/* Ratios of the cycles with the mode to those without, by width. False: the CPU computes all layers. */
static bool compare(const char *path, const struct rivulet_board *b, double ratio[3])
{
	static const struct rivulet_compile_options plain = { 0 };

	for (size_t w = 0; w < 3; w++) {
		uint32_t planes, none;
		uint64_t with = cycles_of(path, widths[w], b, &plain, &planes);
		uint64_t alone = cycles_of(path, widths[w], b, &without, &none);

		if (!alone)
			return false;
		ratio[w] = (double)with / (double)alone;
		printf("%s, %u bits: %llu cycles, %llu without bit planes (%.4f), %u layers by them\n", path,
		       widths[w], (unsigned long long)with, (unsigned long long)alone, ratio[w], planes);
		fflush(stdout);
	}
	return true;
}

int main(int argc, char **argv)
{
	double worst = 0, sum[3] = { 0 };
	struct rivulet_board b;
	int models = 0;
	char why[256];

	if (argc < 2)
		fail("usage", "bench_choice MODEL.onnx...");
	if (rivulet_board_load(&b, "zu3eg-64-planes", why, sizeof(why)))
		fail("zu3eg-64-planes", why);
	for (int i = 1; i < argc; i++) {
		double ratio[3];

		if (!compare(argv[i], &b, ratio)) {
			printf("%s: no layer on the NPU\n", argv[i]);
			continue;
		}
		models++;
		for (size_t w = 0; w < 3; w++) {
			worst = ratio[w] > worst ? ratio[w] : worst;
			sum[w] += ratio[w];
		}
	}
	for (size_t w = 0; w < 3 && models; w++)
		printf("figure ibtf.choice.mean.%u %.4f x\n", widths[w], sum[w] / models);
	printf("figure ibtf.choice.models %d models\n", models);
	printf("figure ibtf.choice.worst %.4f x\n", worst);
	return !models || worst > 1;
}
