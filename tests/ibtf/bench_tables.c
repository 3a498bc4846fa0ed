// SPDX-License-Identifier: MIT
/*
 * Quantised products with weights of 1 to 4 bits on one core of the CPU, by tables and by the
 * kernels that multiply, for each instruction set: whole operators, which requantise and make the
 * tables of their rows. Where the operators choose tables, these must not be slower by more than
 * measurements vary. Each time is the least of several; time of this thread, so that other load
 * that preempts it does not count.
 *
 * bench_tables SHAPE BITS RUNS [off]: runs one product and prints its multiplications, for
 * scripts/count-arm64-kernels; off: without tables.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chance.h"
#include "isa.h"
#include "rivulet_kernels.h"

#define ROUNDS	 9
#define LEAST	 0.01 /* seconds of a round */
#define VARIANCE 0.93
#define MOST	 ((size_t)4096 * 4096)

static const struct shape {
	const char *name;
	int64_t rows, inputs, columns;
} shapes[] = {
	{ "small", 196, 576, 64 }, { "wide", 196, 2304, 256 },	   { "few", 4, 1024, 1024 },
	{ "tiny", 1, 576, 64 },	   { "classifier", 1, 512, 1000 }, { "vector", 1, 4096, 4096 },
};

#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static uint8_t *x, *y, *w, *scratch;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *why)
{
	fprintf(stderr, "bench_tables: %s\n", why);
	exit(1);
}

static struct rvl_kernel_arg matrix(enum rvl_type t, int64_t rows, int64_t columns)
{
	static const float scale = 0.01f;
	static const int32_t zero;

	return (struct rvl_kernel_arg){ .type = t,
					.shape = { 2, { rows, columns } },
					.quant = { .n = 1, .scale = &scale, .zp = &zero } };
}

static struct rvl_kernel *product(const struct shape *s)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_MATMUL, .n_in = 2, .n_out = 1 };
	struct rvl_kernel *k;
	char why[RVL_WHY_MAX];

	rvl_attr_init(&d.attr);
	d.in[0] = matrix(RVL_TYPE_U8, s->rows, s->inputs);
	d.in[1] = matrix(RVL_TYPE_S8, s->inputs, s->columns);
	d.in[1].data = w;
	d.out[0] = matrix(RVL_TYPE_U8, s->rows, s->columns);
	if (rvl_kernel_new(&d, false, &k, why))
		fail(why);
	free(scratch);
	scratch = malloc(rvl_kernel_scratch(k) + 64);
	if (!scratch)
		fail("no memory");
	return k;
}

static void run(const struct rvl_kernel *k, int times)
{
	uint8_t *aligned = scratch + 64 - (uintptr_t)scratch % 64;

	for (int i = 0; i < times; i++)
		rvl_kernel_run(k, (const void *[]){ x, w }, (void *[]){ y }, aligned, NULL);
}

static double time_of(const struct rvl_kernel *k, int times)
{
	double start = now();

	run(k, times);
	return now() - start;
}

static double macs_of(const struct shape *s)
{
	return (double)(s->rows * s->inputs * s->columns);
}

/* 1e9 multiplications of the product a second. @bytes: of its packed weights. */
static double rate(const struct shape *s, enum rvl_tables tables, size_t *bytes)
{
	double least = INFINITY;
	struct rvl_kernel *k;
	int times = 1;

	rvl_tables_force(tables);
	k = product(s);
	*bytes = rvl_kernel_bytes(k);
	while (time_of(k, times) < LEAST)
		times *= 2;
	for (int i = 0; i < ROUNDS; i++)
		least = fmin(least, time_of(k, times));
	rvl_kernel_free(k);
	return macs_of(s) * times / least / 1e9;
}

/* Whether the operator chooses tables: its weights are as large as those of one that must. */
static bool chooses_tables(const struct shape *s, size_t bytes)
{
	struct rvl_kernel *k;
	size_t chosen;

	rvl_tables_force(RVL_TABLES_MEASURED);
	k = product(s);
	chosen = rvl_kernel_bytes(k);
	rvl_kernel_free(k);
	return chosen == bytes;
}

/* Prints the rates with tables and without. The gain where the operator chooses them, else 1. */
static double compare(const char *set, const struct shape *s, int bits)
{
	size_t multiplied, looked_up;
	double plain = rate(s, RVL_TABLES_OFF, &multiplied);
	double tables = rate(s, RVL_TABLES_ALWAYS, &looked_up);
	bool chosen = multiplied != looked_up && chooses_tables(s, looked_up);

	if (multiplied == looked_up)
		return 1;
	printf("figure ibtf.cpu.tables.%s.%s.%d %.1f GMAC/s\n", set, s->name, bits, tables);
	printf("figure ibtf.cpu.tables.%s.%s.%d.gain %.2f x\n", set, s->name, bits, tables / plain);
	printf("%s\n", chosen ? "chosen" : "not chosen");
	return chosen ? tables / plain : 1;
}

/* Weights of all values of @bits bits, in two's complement; of one bit -1 and 0. */
static void draw(int bits)
{
	uint64_t seed = (uint64_t)bits;

	for (size_t i = 0; i < MOST; i++)
		w[i] = (uint8_t)((int)(splitmix(&seed) >> (64 - bits)) - (1 << (bits - 1)));
}

static int count(char **argv)
{
	for (size_t i = 0; i < SHAPES; i++) {
		if (strcmp(shapes[i].name, argv[1]))
			continue;
		draw(atoi(argv[2]));
		rvl_tables_force(argv[4] ? RVL_TABLES_OFF : RVL_TABLES_ALWAYS);
		run(product(&shapes[i]), atoi(argv[3]));
		printf("%.0f\n", macs_of(&shapes[i]));
		return 0;
	}
	fail("there is no such shape");
	return 1;
}

int main(int argc, char **argv)
{
	struct rvl_cpu_set set;
	double worst = INFINITY;
	uint64_t seed = 7;

	x = malloc(MOST);
	y = malloc(MOST);
	w = malloc(MOST);
	if (!x || !y || !w)
		fail("no memory");
	for (size_t i = 0; i < MOST; i++)
		x[i] = (uint8_t)splitmix(&seed);
	if (argc > 3)
		return count(argv);
	for (int bits = 1; bits <= RVL_TABLES_BITS; bits++) {
		draw(bits);
		for (uint32_t i = 0; rvl_cpu_set(i, &set); i++)
			for (size_t n = 0; !rvl_cpu_force(set.name, NULL) && n < SHAPES; n++)
				worst = fmin(worst, compare(set.name, &shapes[n], bits));
	}
	printf("figure ibtf.cpu.tables.worst %.2f x\n", worst);
	return worst < VARIANCE;
}
