// SPDX-License-Identifier: MIT
/*
 * Speed of the quantised CPU operators on one core, as the share of the rate at which the processor
 * executes the multiplication that the instruction set in use is built on. Requantisation is
 * included. Every round measures the peak and then each layer once, so that both meet the same load.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/peak.h"
#include "int8/product.h"
#include "isa.h"
#include "rivulet_kernels.h"

#ifndef ROUNDS
#define ROUNDS 41
#endif

/* Processor time of this thread: other load that preempts it does not count. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- the peak ---- */

#ifdef __x86_64__
#define VPDPBUSD(i) "vpdpbusd %%zmm30, %%zmm31, %%zmm" #i "\n"
#define VPDPBUSD_VEX(i) "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm" #i "\n"
#define VPMADDWD(i) "vpmaddwd %%ymm14, %%ymm15, %%ymm" #i "\n"
#define PMADDWD(i) "pmaddwd %%xmm15, %%xmm" #i "\n"
static void loop_vpdpbusd(void) PEAK_LOOP(VPDPBUSD)
static void loop_vpdpbusd_vex(void) PEAK_LOOP(VPDPBUSD_VEX)
static void loop_vpmaddwd(void) PEAK_LOOP(VPMADDWD)
static void loop_pmaddwd(void) PEAK_LOOP(PMADDWD)

static const struct peak peaks[] = {
	{ "avx512vnni", "VPDPBUSD, 512 bits", loop_vpdpbusd, 64 },
	{ "avxvnni", "VPDPBUSD, 256 bits", loop_vpdpbusd_vex, 32 },
	{ "avx2", "VPMADDWD, 256 bits", loop_vpmaddwd, 16 },
	{ "sse4.1", "PMADDWD, 128 bits", loop_pmaddwd, 8 },
};
#else
static const struct peak peaks[1];
#endif

static double gmacs(double macs, uint64_t since)
{
	return macs / (double)(cpu_ns() - since);
}

static double measure_peak(const struct peak *p)
{
	uint64_t t = cpu_ns();

	p->loop();
	return gmacs(peak_macs(p), t);
}

/* ---- layers ---- */

enum weights {
	UNIFORM,	/* over all of int8 */
	HALF,		/* the same, divided by two */
	PEAKED,		/* over all of int8, but like those of trained networks: see tools/zoo/net.py, laplace() */
};

struct layer {
	const char *name;
	int64_t side, channels, kernel, stride;	/* of a convolution */
	bool depthwise;
	enum weights weights;
	bool relu;	/* half of the inputs are zero, the others peaked: see peaked() */
	bool is_signed;	/* the inputs are int8 */
	int64_t rows, terms, columns;	/* of a matrix product; rows is 0 for a convolution */
	struct rvl_kernel *k;
	uint8_t *x, *y;
	void *scratch;
	double rate[ROUNDS], share[ROUNDS];	/* GMAC/s, and part of the peak of the round */
};

#define LAYER(n, s, c, k, st, dw) \
	{ .name = n, .side = s, .channels = c, .kernel = k, .stride = st, .depthwise = dw }
#define POINTWISE(n, s, c, w, r) \
	{ .name = n, .side = s, .channels = c, .kernel = 1, .stride = 1, .weights = w, .relu = r }
#define SIGNED(n, s, c, k) \
	{ .name = n, .side = s, .channels = c, .kernel = k, .stride = 1, .is_signed = true }
#define DENSE(n, m, k, c) { .name = n, .rows = m, .terms = k, .columns = c }
static struct layer layers[] = {
	LAYER("conv1x1_56_128", 56, 128, 1, 1, false),
	LAYER("conv1x1_28_256", 28, 256, 1, 1, false),
	LAYER("conv1x1_14_512", 14, 512, 1, 1, false),
	POINTWISE("conv1x1_56_64_half", 56, 64, HALF, false),
	POINTWISE("conv1x1_14_1024_half", 14, 1024, HALF, false),
	POINTWISE("conv1x1_56_64_peaked", 56, 64, PEAKED, false),
	POINTWISE("conv1x1_14_1024_peaked", 14, 1024, PEAKED, false),
	POINTWISE("conv1x1_56_128_relu", 56, 128, PEAKED, true),
	POINTWISE("conv1x1_28_256_relu", 28, 256, PEAKED, true),
	POINTWISE("conv1x1_14_512_relu", 14, 512, PEAKED, true),
	LAYER("conv3x3_56_128", 56, 128, 3, 1, false),
	LAYER("conv3x3_28_256", 28, 256, 3, 1, false),
	LAYER("conv3x3_14_512", 14, 512, 3, 1, false),
	SIGNED("conv1x1_28_256_int8", 28, 256, 1),
	SIGNED("conv3x3_28_256_int8", 28, 256, 3),
	LAYER("depthwise_112_32", 112, 32, 3, 1, true),
	LAYER("depthwise_56_144", 56, 144, 3, 1, true),
	LAYER("depthwise_14_384", 14, 384, 3, 1, true),
	LAYER("depthwise_112_32_by2", 112, 32, 3, 2, true),
	LAYER("depthwise_56_144_by2", 56, 144, 3, 2, true),
	DENSE("dense_1_4096_4096", 1, 4096, 4096),
	DENSE("dense_4_4096_4096", 4, 4096, 4096),
	DENSE("dense_1_9216_4096", 1, 9216, 4096),
};

#define LAYERS (sizeof(layers) / sizeof(layers[0]))

static int64_t results(const struct layer *l)
{
	return (l->side + l->stride - 1) / l->stride;
}

static double macs_of(const struct layer *l)
{
	double out;

	if (l->rows)
		return (double)(l->rows * l->terms * l->columns);
	out = (double)(results(l) * results(l) * l->channels);
	return out * (double)(l->kernel * l->kernel * (l->depthwise ? 1 : l->channels));
}

static void *bytes(int64_t n)
{
	uint8_t *p = aligned_alloc(64, (size_t)(n + 63) / 64 * 64);

	if (!p)
		exit(1);
	for (int64_t i = 0; i < n; i++)
		p[i] = (uint8_t)rand();
	return p;
}

static struct rvl_kernel_arg image(const struct rvl_kernel_quant *q, int64_t channels, int64_t side)
{
	return (struct rvl_kernel_arg) {
		.type = RVL_TYPE_U8, .shape = { 4, { 1, channels, side, side } }, .quant = *q,
		.layout = RIVULET_LAYOUT_NHWC,
	};
}

static const float scale = 0.01f, y_scale = 2.0f;
static const int32_t zero, x_zero = 120;
static const struct rvl_kernel_quant x_quant = { .n = 1, .scale = &scale, .zp = &x_zero };
static const struct rvl_kernel_quant zero_quant = { .n = 1, .scale = &scale, .zp = &zero };
static const struct rvl_kernel_quant y_quant = { .n = 1, .scale = &y_scale, .zp = &x_zero };

static void describe_conv(const struct layer *l, struct rvl_kernel_desc *d)
{
	int64_t cg = l->depthwise ? 1 : l->channels;

	d->op = RVL_OP_Q_CONV;
	d->attr.group = l->depthwise ? (int32_t)l->channels : 1;
	for (int i = 0; i < 2; i++) {
		d->attr.kernel[i] = (int32_t)l->kernel;
		d->attr.stride[i] = (int32_t)l->stride;
		d->attr.pad[i] = d->attr.pad[i + 2] = (int32_t)l->kernel / 2;
	}
	d->in[0] = image(l->relu ? &zero_quant : &x_quant, l->channels, l->side);
	if (l->is_signed)
		d->in[0].type = RVL_TYPE_S8;
	d->in[1].shape = (struct rvl_shape) { 4, { l->channels, cg, l->kernel, l->kernel } };
	d->out[0] = image(&y_quant, l->channels, results(l));
}

static struct rvl_kernel_arg matrix(const struct rvl_kernel_quant *q, int64_t rows, int64_t columns)
{
	return (struct rvl_kernel_arg) {
		.type = RVL_TYPE_U8, .shape = { 2, { rows, columns } }, .quant = *q,
	};
}

static void describe_dense(const struct layer *l, struct rvl_kernel_desc *d)
{
	d->op = RVL_OP_Q_MATMUL;
	d->in[0] = matrix(&x_quant, l->rows, l->terms);
	d->in[1].shape = (struct rvl_shape) { 2, { l->terms, l->columns } };
	d->out[0] = matrix(&y_quant, l->rows, l->columns);
}

static int8_t peaked(int8_t w)
{
	double above = 1 - fabs(w + 0.5) / 128;

	return (int8_t)lround(copysign(127 / log(256) * log(above), w + 0.5));
}

static const int8_t *make_weights(int64_t n, enum weights kind)
{
	int8_t *w = bytes(n);

	for (int64_t i = 0; i < n && kind != UNIFORM; i++)
		w[i] = kind == HALF ? w[i] / 2 : peaked(w[i]);
	return w;
}

static uint8_t *make_inputs(int64_t n, bool relu)
{
	uint8_t *x = bytes(n);

	for (int64_t i = 0; i < n && relu; i++) {
		int8_t v = peaked((int8_t)x[i]);

		x[i] = (uint8_t)(v > 0 ? 2 * v : 0);
	}
	return x;
}

static void make_layer(struct layer *l)
{
	struct rvl_kernel_desc d = { .n_in = 2, .n_out = 1 };
	char why[RVL_WHY_MAX];

	rvl_attr_init(&d.attr);
	if (l->rows)
		describe_dense(l, &d);
	else
		describe_conv(l, &d);
	d.in[1].type = RVL_TYPE_S8;
	d.in[1].quant = zero_quant;
	d.in[1].data = make_weights(rvl_shape_count(&d.in[1].shape), l->weights);
	if (rvl_kernel_new(&d, false, &l->k, why)) {
		fprintf(stderr, "bench_cpu: %s\n", why);
		exit(1);
	}
	l->x = make_inputs(rvl_shape_count(&d.in[0].shape), l->relu);
	l->y = bytes(rvl_shape_count(&d.out[0].shape));
	l->scratch = bytes((int64_t)rvl_kernel_scratch(l->k));
}

/* The run before leaves the image in the cache, as the layer before it does in a network. */
static double measure(const struct layer *l)
{
	const void *in[2] = { l->x };
	uint64_t t;

	rvl_kernel_run(l->k, in, (void *[]) { l->y }, l->scratch, NULL);
	t = cpu_ns();
	rvl_kernel_run(l->k, in, (void *[]) { l->y }, l->scratch, NULL);
	return gmacs(macs_of(l), t);
}

/* ---- tiles ---- */

/*
 * The micro-kernel alone: one whole tile after the other, whose rows and weights stay in the first-level cache.
 */
static struct tile {
	const char *name;
	struct rvl_i8_gemm_call call;
	double rate[ROUNDS], share[ROUNDS];
} tiles[] = {
	{ .name = "tile_128", .call.kc = 128 },
	{ .name = "tile_256", .call.kc = 256 },
	{ .name = "tile_512", .call.kc = 512 },
};

#define TILES (sizeof(tiles) / sizeof(tiles[0]))
#define TILE_MACS 5e6	/* of a round */

static double tile_macs(const struct tile *t)
{
	return (double)(t->call.rows * t->call.cols * t->call.kc);
}

static void make_tile(struct tile *t)
{
	static struct rvl_i8_post post;
	static float scales[RVL_I8_TILE] __attribute__((aligned(64)));
	static int32_t biases[RVL_I8_TILE] __attribute__((aligned(64)));
	const struct rvl_i8_kernels *f = rvl_i8_kernels();
	int64_t row = t->call.kc * (f->widened > 1 ? f->widened : 1);
	const uint8_t **a = (const uint8_t **)bytes(f->mr * (int64_t)sizeof(*a)), *x = bytes(f->mr * row);

	for (int i = 0; i < f->mr; i++)
		a[i] = x + i * row;
	post = rvl_i8_post(0, UINT8_MAX, x_zero, true);
	post.bounded = true;
	t->call.a = a;
	t->call.taps = 1;
	t->call.w = bytes(t->call.kc * f->nr);
	t->call.bias = biases;
	t->call.scale = scales;
	t->call.y = bytes(f->mr * f->nr);
	t->call.y_stride = t->call.cols = f->nr;
	t->call.rows = f->mr;
	t->call.x_u8 = true;
	t->call.widened = f->widened > 1;
	t->call.post = &post;
}

static double measure_tile(const struct tile *t)
{
	const struct rvl_i8_kernels *f = rvl_i8_kernels();
	int64_t n = 1 + (int64_t)(TILE_MACS / tile_macs(t));
	uint64_t since = cpu_ns();

	for (int64_t i = 0; i < n; i++)
		f->gemm(&t->call);
	return gmacs((double)n * tile_macs(t), since);
}

/* ---- report ---- */

static int ascending(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return (d > 0) - (d < 0);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), ascending);
	return v[ROUNDS / 2];
}

static void report(const char *name, double rates[ROUNDS], double shares[ROUNDS], double peak)
{
	double mid = 100 * median(shares), rate = median(rates), best = rates[ROUNDS - 1];

	printf("figure cpu.%s.rate %.1f GMAC/s\n", name, rate);
	if (peak <= 0)
		return;
	printf("figure cpu.%s.share %.1f %%\n", name, mid);
	printf("figure cpu.%s.share.best %.1f %%\n", name, 100 * best / peak);
}

static struct layer *find(const char *name)
{
	for (size_t i = 0; i < LAYERS; i++)
		if (!strcmp(layers[i].name, name))
			return &layers[i];
	fprintf(stderr, "bench_cpu: there is no layer %s\n", name);
	exit(1);
}

/* Runs one layer and prints its products: scripts/count-arm64-kernels counts the instructions. */
static int run_layer(const char *name, long runs)
{
	struct layer *l = find(name);
	const void *in[2];

	make_layer(l);
	in[0] = l->x;
	for (long i = 0; i < runs; i++)
		rvl_kernel_run(l->k, in, (void *[]) { l->y }, l->scratch, NULL);
	printf("%.0f\n", macs_of(l));
	return 0;
}

/* Whether the layer or tile is wanted: the argument, if any, is a part of its name. */
static bool wanted(const char *name, int argc, char **argv)
{
	return argc < 2 || strstr(name, argv[1]);
}

/* The peak, and immediately behind it what is measured against it, into round @r. */
static void measure_round(const struct peak *p, struct layer *l, struct tile *t, int r, double *peak)
{
	double now = p ? measure_peak(p) : 0, rate = l ? measure(l) : measure_tile(t);

	*peak = now > *peak ? now : *peak;
	(l ? l->rate : t->rate)[r] = rate;
	(l ? l->share : t->share)[r] = p ? rate / now : 0;
}

int main(int argc, char **argv)
{
	char why[RVL_WHY_MAX];
	const struct peak *p = peak_of(peaks, sizeof(peaks) / sizeof(peaks[0]), peak_set());
	double peak = 0;

	if (rvl_cpu_check(why)) {
		fprintf(stderr, "bench_cpu: %s\n", why);
		return 1;
	}
	if (argc == 3)
		return run_layer(argv[1], strtol(argv[2], NULL, 10));
	printf("instruction set %s%s%s\n", peak_set(), p ? ", peak by " : "", p ? p->instruction : "");
	for (size_t i = 0; i < LAYERS; i++)
		if (wanted(layers[i].name, argc, argv))
			make_layer(&layers[i]);
	for (size_t i = 0; i < TILES; i++)
		if (wanted(tiles[i].name, argc, argv))
			make_tile(&tiles[i]);
	for (int r = 0; r < ROUNDS; r++) {
		for (size_t i = 0; i < LAYERS; i++)
			if (layers[i].k)
				measure_round(p, &layers[i], NULL, r, &peak);
		for (size_t i = 0; i < TILES; i++)
			if (tiles[i].call.a)
				measure_round(p, NULL, &tiles[i], r, &peak);
	}
	printf("figure cpu.peak %.1f GMAC/s\n", peak);
	for (size_t i = 0; i < LAYERS; i++)
		if (layers[i].k)
			report(layers[i].name, layers[i].rate, layers[i].share, peak);
	for (size_t i = 0; i < TILES; i++)
		if (tiles[i].call.a)
			report(tiles[i].name, tiles[i].rate, tiles[i].share, peak);
	return 0;
}
