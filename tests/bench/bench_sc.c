// SPDX-License-Identifier: MIT
/*
 * Speed of the stochastic CPU operators on one core at every length, on inputs without zeros, which
 * would be skipped; and the size of a program with variants for three levels compared with one
 * level.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "rivulet_compiler.h"
#include "rivulet_kernels.h"
#include "rivulet_sc.h"

#define ROWS  64
#define TERMS 784
#define OUTS  200
#define LEAST 0.8 /* GMAC/s */
#define MOST  1.1 /* times the memory of one level */

static uint8_t x[ROWS * TERMS], y[ROWS * OUTS];
static int8_t w[OUTS * TERMS];

static double now(void)
{
	return 1e-9 * (double)clock_ns();
}

static struct rvl_kernel *make_kernel(uint32_t length)
{
	static const float scale = 0.01f;
	static const int32_t zero;
	const struct rvl_kernel_quant q = { .n = 1, .scale = &scale, .zp = &zero };
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_MATMUL, .n_in = 2, .n_out = 1 };
	struct rvl_kernel *k = NULL;
	char why[RVL_WHY_MAX];

	rvl_attr_init(&d.attr);
	d.attr.trans_b = 1;
	d.attr.sc_length = (int32_t)length;
	d.in[0] = (struct rvl_kernel_arg){ RVL_TYPE_U8, { 2, { ROWS, TERMS } }, q, NULL };
	d.in[1] = (struct rvl_kernel_arg){ RVL_TYPE_S8, { 2, { OUTS, TERMS } }, q, w };
	d.out[0] = (struct rvl_kernel_arg){ RVL_TYPE_U8, { 2, { ROWS, OUTS } }, q, NULL };
	if (rvl_kernel_new(&d, false, &k, why)) {
		fprintf(stderr, "bench_sc: %s\n", why);
		exit(1);
	}
	return k;
}

/* The best of several runs, because other load only reduces the speed. */
static double speed(uint32_t length)
{
	struct rvl_kernel *k = make_kernel(length);
	void *scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 127) / 64 * 64);
	const void *in[2] = { x, w };
	void *out[1] = { y };
	double best = 1e9;

	for (int i = 0; i < 20; i++) {
		double start = now();

		rvl_kernel_run(k, in, out, scratch, NULL);
		if (now() - start < best)
			best = now() - start;
	}
	free(scratch);
	rvl_kernel_free(k);
	return 1e-9 * ROWS * TERMS * OUTS / best;
}

static double slowest(void)
{
	double least = 1e9;

	for (uint32_t l = RIVULET_SC_MIN; l <= RIVULET_SC_MAX; l++) {
		double s = speed(l);

		least = s < least ? s : least;
	}
	return least;
}

static size_t program_bytes(const char *path, const uint32_t *length)
{
	struct rivulet_compile_options o = { .stochastic = true };
	struct rivulet_blob p = { 0 };
	struct rivulet_board b;
	struct rvl_err err;
	char why[256];
	static char onnx[1 << 20];
	FILE *f = fopen(path, "rb");
	size_t size = f ? fread(onnx, 1, sizeof(onnx), f) : 0;

	if (f)
		fclose(f);
	memcpy(o.length, length, sizeof(o.length));
	if (rivulet_board_load(&b, "sc-edge", why, sizeof(why)) ||
	    rivulet_compile(onnx, size, &b, &o, &p, NULL, &err)) {
		fprintf(stderr, "bench_sc: %s does not compile for sc-edge\n", path);
		exit(1);
	}
	size = p.size + ((const struct rivulet_program *)p.data)->arena_size;
	rivulet_blob_free(&p);
	return size;
}

static double plan_memory(void)
{
	static const char *const models[] = { "models/mlp.onnx", "models/lenet540.onnx" };
	const uint32_t no = RIVULET_NO_VARIANT;
	const uint32_t one[RIVULET_LEVELS] = { no, no, no, no, no, 64 };
	const uint32_t three[RIVULET_LEVELS] = { no, no, 20, 32, no, 64 };
	double most = 0;

	for (int i = 0; i < 2; i++) {
		double r = (double)program_bytes(models[i], three) /
			   (double)program_bytes(models[i], one);

		most = r > most ? r : most;
	}
	return most;
}

int main(void)
{
	double plain, fast, memory;

	for (size_t i = 0; i < sizeof(x); i++)
		x[i] = (uint8_t)(1 + rand() % 255);
	for (size_t i = 0; i < sizeof(w); i++)
		w[i] = (int8_t)(rand() % 255 - 127);
	fast = slowest();
	rvl_cpu_force("scalar", NULL);
	plain = speed(64);
	rvl_cpu_force(NULL, NULL);
	memory = plan_memory();
	printf("figure sc.cpu.gmacs %.2f GMAC/s\n", fast);
	printf("figure sc.cpu.gmacs.plain %.2f GMAC/s\n", plain);
	printf("figure sc.plan.memory %.3f x\n", memory);
	return fast < LEAST || memory > MOST;
}
