// SPDX-License-Identifier: MIT
/*
 * bench_float LAYER...: seconds of float32 operators on one core, and the peak of the instruction
 * set in use. LAYER is conv:CHANNELS:OUTPUTS:SIDE:KERNEL:STRIDE:GROUPS:DILATION,
 * matmul:ROWS:COLUMNS:INNER or, where the right operand is not constant, dynamic:ROWS:COLUMNS:INNER.
 * Every layer is run RUNS times; the median of the processor time is printed.
 * tests/bench/bench_float.py compares it with onnxruntime.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/peak.h"
#include "rivulet_kernels.h"

#define RUNS 15

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the peak ---- */

#ifdef __x86_64__
#define FMA512(i) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #i "\n"
#define FMA256(i) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #i "\n"
static void loop_512(void) PEAK_LOOP(FMA512)
static void loop_256(void) PEAK_LOOP(FMA256)

static const struct peak peaks[] = {
	{ "amx", "VFMADD231PS, 512 bits", loop_512, 16 },
	{ "avx512vnni", "VFMADD231PS, 512 bits", loop_512, 16 },
	{ "avx2", "VFMADD231PS, 256 bits", loop_256, 8 },
};
#else
static const struct peak peaks[1];
#endif

/* GMAC/s; 0: not known for this instruction set. */
static double measure_peak(const char *set)
{
	const struct peak *p = peak_of(peaks, sizeof(peaks) / sizeof(peaks[0]), set);
	double best = 0;

	for (int r = 0; p && r < RUNS; r++) {
		double t = seconds(), rate;

		p->loop();
		rate = peak_macs(p) / (seconds() - t) * 1e-9;
		best = rate > best ? rate : best;
	}
	return best;
}

/* ---- layers ---- */

static __attribute__((noreturn)) void die(const char *why)
{
	fprintf(stderr, "bench_float: %s\n", why);
	exit(1);
}

static float *floats(const struct rvl_shape *s)
{
	size_t n = (size_t)rvl_shape_count(s);
	float *p = aligned_alloc(64, (n * sizeof(*p) + 63) / 64 * 64);

	if (!p)
		die("no memory");
	for (size_t i = 0; i < n; i++)
		p[i] = (float)rand() / (float)RAND_MAX - 0.5f;
	return p;
}

static struct rvl_kernel_arg operand(int32_t rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
	return (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { rank, { a, b, c, d } } };
}

static void make_conv(struct rvl_kernel_desc *d, const long n[7])
{
	long side = (n[2] + (n[3] / 2 * 2 - n[3] + 1) * n[6] - 1) / n[4] + 1;

	d->op = RVL_OP_CONV;
	d->attr.group = (int32_t)n[5];
	for (int i = 0; i < 2; i++) {
		d->attr.kernel[i] = (int32_t)n[3];
		d->attr.stride[i] = (int32_t)n[4];
		d->attr.pad[i] = d->attr.pad[i + 2] = (int32_t)(n[3] / 2 * n[6]);
		d->attr.dilation[i] = (int32_t)n[6];
	}
	d->in[0] = operand(4, 1, n[0], n[2], n[2]);
	d->in[1] = operand(4, n[1], n[0] / n[5], n[3], n[3]);
	d->out[0] = operand(4, 1, n[1], side, side);
}

static void make_layer(struct rvl_kernel_desc *d, const char *name)
{
	long n[7];

	rvl_attr_init(&d->attr);
	if (sscanf(name, "conv:%ld:%ld:%ld:%ld:%ld:%ld:%ld", n, n + 1, n + 2, n + 3, n + 4, n + 5,
		   n + 6) == 7) {
		make_conv(d, n);
		return;
	}
	if (sscanf(name, "matmul:%ld:%ld:%ld", n, n + 1, n + 2) != 3 &&
	    sscanf(name, "dynamic:%ld:%ld:%ld", n, n + 1, n + 2) != 3)
		die("usage: bench_float LAYER...");
	d->op = RVL_OP_MATMUL;
	d->in[0] = operand(2, n[0], n[2], 0, 0);
	d->in[1] = operand(2, n[2], n[1], 0, 0);
	d->out[0] = operand(2, n[0], n[1], 0, 0);
}

static int ascending(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return (d > 0) - (d < 0);
}

static double measure(const char *name)
{
	struct rvl_kernel_desc d = { .n_in = 2, .n_out = 1 };
	char why[RVL_WHY_MAX];
	struct rvl_kernel *k;
	double took[RUNS];
	float *x, *w, *y;
	void *scratch;

	make_layer(&d, name);
	x = floats(&d.in[0].shape);
	w = floats(&d.in[1].shape);
	y = floats(&d.out[0].shape);
	d.in[1].data = strncmp(name, "dynamic", 7) ? w : NULL;
	if (rvl_kernel_new(&d, false, &k, why))
		die(why);
	scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 127) / 64 * 64);
	for (int r = -2; r < RUNS; r++) {
		double t = seconds();

		rvl_kernel_run(k, (const void *[]) { x, w }, (void *[]) { y }, scratch, NULL);
		if (r >= 0)
			took[r] = seconds() - t;
	}
	qsort(took, RUNS, sizeof(*took), ascending);
	rvl_kernel_free(k);
	free(scratch);
	free(x);
	free(w);
	free(y);
	return took[RUNS / 2];
}

int main(int argc, char **argv)
{
	char why[RVL_WHY_MAX];

	if (rvl_cpu_check(why))
		die(why);
	printf("set %s\npeak %.2f\n", peak_set(), measure_peak(peak_set()));
	for (int i = 1; i < argc; i++)
		printf("%s %.9f\n", argv[i], measure(argv[i]));
	return 0;
}
