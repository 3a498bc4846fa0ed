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

#include "rivulet_kernels.h"

#define RUNS 15
#define STEPS 100000	/* of the loop that measures the peak */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the peak ---- */

#ifdef __x86_64__
/* Twelve independent sums hide the latency. */
#define ONE(r, a, b, i) "vfmadd231ps %%" r a ", %%" r b ", %%" r #i "\n"
#define TWELVE(r, a, b) ONE(r, a, b, 0) ONE(r, a, b, 1) ONE(r, a, b, 2) ONE(r, a, b, 3) ONE(r, a, b, 4) \
	ONE(r, a, b, 5) ONE(r, a, b, 6) ONE(r, a, b, 7) ONE(r, a, b, 8) ONE(r, a, b, 9) ONE(r, a, b, 10) \
	ONE(r, a, b, 11)
#define LOOP(body) { \
	long n = STEPS; \
	__asm__ volatile("1:\n" body "dec %0\njnz 1b\n" : "+r"(n) : : "cc", "xmm0", "xmm1", "xmm2", \
			 "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"); \
}

static void loop_512(void) LOOP(TWELVE("zmm", "30", "31"))
static void loop_256(void) LOOP(TWELVE("ymm", "14", "15"))

static const struct peak {
	const char *set;
	void (*loop)(void);
	int macs;	/* of one instruction */
} peaks[] = {
	{ "avx512vnni", loop_512, 16 },
	{ "avx2", loop_256, 8 },
};
#else
static const struct peak {
	const char *set;
	void (*loop)(void);
	int macs;
} peaks[1];
#endif

/* GMAC/s; 0: not known for this instruction set. */
static double measure_peak(const char *set)
{
	double best = 0;

	for (size_t i = 0; i < sizeof(peaks) / sizeof(peaks[0]); i++) {
		if (!peaks[i].set || strcmp(peaks[i].set, set))
			continue;
		for (int r = 0; r < RUNS; r++) {
			double t = seconds(), rate;

			peaks[i].loop();
			rate = 12.0 * STEPS * peaks[i].macs / (seconds() - t) * 1e-9;
			best = rate > best ? rate : best;
		}
	}
	return best;
}

static const char *set_in_use(void)
{
	struct rvl_cpu_set s;

	for (uint32_t i = 0; rvl_cpu_set(i, &s); i++)
		if (s.used)
			return s.name;
	return "";
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
	printf("set %s\npeak %.2f\n", set_in_use(), measure_peak(set_in_use()));
	for (int i = 1; i < argc; i++)
		printf("%s %.9f\n", argv[i], measure(argv[i]));
	return 0;
}
