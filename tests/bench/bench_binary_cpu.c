// SPDX-License-Identifier: MIT
/*
 * bench_binary_cpu [SET...]: the binary convolutions of BiRealNet-18 at 224 on one core, for each set of
 * kernels, and the peak of the same processor: XOR, count and addition in registers. A layer takes
 * scale, bias and an int16 shortcut, and gives the int16 result and the bits of the next layer. A layer
 * from float to float is what bench_lce.py measures: the signs of a float image in front of the layer,
 * whose padding is +1, and scale and bias behind it.
 * A layer is run until the median of its processor time is known to be stable; its rate counts one
 * product for each pair of bits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chance.h"
#include "rivulet_bits.h"
#include "rivulet_kernels.h"

#define RUNS 31
#define STEPS 200000	/* of the loop that measures the peak */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* ---- the peak ---- */

#ifdef __x86_64__
#include <immintrin.h>

/* Twelve independent sums hide the latency. */
__attribute__((target("avx512f,avx512vpopcntdq"))) static uint64_t loop_vpopcnt(void)
{
	__m512i x = _mm512_set1_epi64(1), w = _mm512_set1_epi64(2), s[12];

	for (int i = 0; i < 12; i++)
		s[i] = _mm512_setzero_si512();
	for (long n = 0; n < STEPS; n++) {
		__asm__ volatile("" : "+v"(x), "+v"(w));
#pragma GCC unroll 12
		for (int i = 0; i < 12; i++) {
			__m512i d;

			__asm__ volatile("vpxorq %1, %2, %0\nvpopcntq %0, %0" : "=v"(d) : "v"(x), "v"(w));
			s[i] = _mm512_add_epi64(s[i], d);
		}
	}
	for (int i = 1; i < 12; i++)
		s[0] = _mm512_add_epi64(s[0], s[i]);
	return (uint64_t)_mm512_reduce_add_epi64(s[0]);
}

__attribute__((target("avx2"))) static uint64_t loop_avx2(void)
{
	const __m256i table = _mm256_set1_epi64x(0x0302020102010100), low = _mm256_set1_epi8(15);
	__m256i x = _mm256_set1_epi64x(1), w = _mm256_set1_epi64x(2), s[8];

	for (int i = 0; i < 8; i++)
		s[i] = _mm256_setzero_si256();
	for (long n = 0; n < STEPS; n++) {
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++) {
			__m256i d, a, b;

			__asm__ volatile("vpxor %1, %2, %0" : "=x"(d) : "x"(x), "x"(w));
			a = _mm256_shuffle_epi8(table, _mm256_and_si256(d, low));
			b = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi64(d, 4), low));
			s[i] = _mm256_add_epi8(s[i], _mm256_add_epi8(a, b));
		}
	}
	for (int i = 1; i < 8; i++)
		s[0] = _mm256_add_epi8(s[0], s[i]);
	return (uint64_t)_mm256_extract_epi64(s[0], 0);
}

static const struct peak {
	const char *set, *needs;
	uint64_t (*loop)(void);
	double bits;	/* of a step */
} peaks[] = {
	{ "avx512vnni", "VPOPCNTDQ", loop_vpopcnt, 12 * 512 },
	{ "avx2", "AVX2", loop_avx2, 8 * 256 },
};

static double peak_of(const char *set)
{
	double best = 0;

	for (size_t i = 0; i < sizeof(peaks) / sizeof(peaks[0]); i++) {
		if (strcmp(peaks[i].set, set) || (!i && !__builtin_cpu_supports("avx512vpopcntdq")))
			continue;
		for (int r = 0; r < RUNS; r++) {
			double t = seconds();
			volatile uint64_t sum = peaks[i].loop();

			(void)sum;
			t = peaks[i].bits * STEPS / (seconds() - t) * 1e-9;
			best = t > best ? t : best;
		}
	}
	return best;
}
#else
static double peak_of(const char *set)
{
	(void)set;
	return 0;
}
#endif

/* ---- layers ---- */

static const struct shape {
	int64_t c, m, side;	/* of the input */
	int32_t stride;
	int times;		/* in the network */
} shapes[] = {
	{ 64, 64, 56, 1, 4 },	{ 64, 128, 56, 2, 1 },	{ 128, 128, 28, 1, 3 },
	{ 128, 256, 28, 2, 1 }, { 256, 256, 14, 1, 3 }, { 256, 512, 14, 2, 1 },
	{ 512, 512, 7, 1, 3 },
};

static void *filled(size_t size, bool floats)
{
	uint64_t seed = 3;
	uint8_t *p = aligned_alloc(64, (size + 127) / 64 * 64);

	for (size_t i = 0; i + 8 <= size + 8; i += 8) {
		uint64_t v = splitmix(&seed);
		float f[2] = { 0.25f, 0.25f };

		memcpy(p + i, floats ? (void *)f : &v, 8);
	}
	return p;
}

static struct rvl_kernel_arg arg(enum rvl_type t, int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
	return (struct rvl_kernel_arg) { .type = t, .shape = { rank, { a, b, c, d } } };
}

/* A kernel with memory for all operands; the buffers are kept. */
struct bench {
	struct rvl_kernel_desc d;
	const void *in[RVL_B_INPUTS];
	void *out[2];
};

static struct rvl_kernel_arg image_bits(int64_t c, int64_t side)
{
	return arg(RVL_TYPE_U64, 3, 1, side, side * rvl_b_words(c), 0);
}

static struct rvl_kernel_arg image(enum rvl_type type, int64_t c, int64_t side)
{
	static const float scale = 0.02f;
	static const int32_t zero;
	struct rvl_kernel_arg a = arg(type, 4, 1, c, side, side);

	a.layout = RIVULET_LAYOUT_NHWC;
	if (type != RVL_TYPE_F32)
		a.quant = (struct rvl_kernel_quant) { .n = 1, .scale = &scale, .zp = &zero };
	return a;
}

/* Memory for all operands. Inputs from @first on are constants, but for @varies. */
static void allocate(struct bench *b, uint32_t first, uint32_t varies)
{
	struct rvl_kernel_desc *d = &b->d;

	for (uint32_t i = 0; i < d->n_in; i++) {
		b->in[i] = filled((size_t)rvl_shape_count(&d->in[i].shape) * rvl_type_size(d->in[i].type),
				  d->in[i].type == RVL_TYPE_F32);
		if (i >= first && i != varies)
			d->in[i].data = b->in[i];
	}
	for (uint32_t i = 0; i < d->n_out; i++)
		b->out[i] = filled((size_t)rvl_shape_count(&d->out[i].shape) * rvl_type_size(d->out[i].type), false);
}

/* A layer as far as its scale and bias. */
static struct bench layer(const struct shape *s)
{
	struct bench b = { .d = { .op = RVL_OP_B_CONV, .n_in = RVL_B_BIAS + 1, .n_out = 1 } };
	struct rvl_kernel_desc *d = &b.d;

	rvl_attr_init(&d->attr);
	for (int i = 0; i < 4; i++)
		d->attr.pad[i] = 1;
	for (int i = 0; i < 2; i++) {
		d->attr.kernel[i] = 3;
		d->attr.stride[i] = s->stride;
	}
	d->attr.block = (int32_t)s->c;
	d->in[RVL_B_X] = image_bits(s->c, s->side);
	d->in[RVL_B_W] = arg(RVL_TYPE_U64, 4, s->m, 3, 3, rvl_b_words(s->c));
	d->in[RVL_B_SCALE] = d->in[RVL_B_BIAS] = arg(RVL_TYPE_F32, 1, s->m, 0, 0, 0);
	return b;
}

/* With an int16 shortcut and result, and the bits of the next layer. */
static struct bench integer_layer(const struct shape *s)
{
	int64_t side = s->side / s->stride;
	struct bench b = layer(s);

	b.d.n_in = RVL_B_SHORTCUT + 1;
	b.d.n_out = 2;
	b.d.in[RVL_B_THRESHOLD] = arg(RVL_TYPE_S32, 1, s->m, 0, 0, 0);
	b.d.in[RVL_B_SHORTCUT] = b.d.out[0] = image(RVL_TYPE_S16, s->m, side);
	b.d.out[1] = image_bits(s->m, side);
	allocate(&b, RVL_B_W, RVL_B_SHORTCUT);
	return b;
}

static struct bench float_layer(const struct shape *s)
{
	struct bench b = layer(s);

	b.d.attr.count_include_pad = 1;
	b.d.out[0] = image(RVL_TYPE_F32, s->m, s->side / s->stride);
	allocate(&b, RVL_B_W, RVL_B_INPUTS);
	return b;
}

/* The signs of a float image in front of a layer. */
static struct bench signs_of(const struct shape *s)
{
	struct bench b = { .d = { .op = RVL_OP_B_SIGN, .n_in = 2, .n_out = 1 } };

	rvl_attr_init(&b.d.attr);
	b.d.in[0] = image(RVL_TYPE_F32, s->c, s->side);
	b.d.in[1] = arg(RVL_TYPE_F32, 1, s->c, 0, 0, 0);
	b.d.out[0] = image_bits(s->c, s->side);
	allocate(&b, 1, RVL_B_INPUTS);
	return b;
}

/* Median seconds of a run; -1: the kernel cannot be made. */
static double time_of(const struct bench *b)
{
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;
	double t[RUNS];
	void *scratch;

	if (rvl_kernel_new(&b->d, false, &k, why)) {
		fprintf(stderr, "%s\n", why);
		return -1;
	}
	scratch = filled(rvl_kernel_scratch(k) + 64, false);
	for (int r = 0; r < RUNS; r++) {
		double from = seconds();

		rvl_kernel_run(k, b->in, b->out, scratch, NULL);
		t[r] = seconds() - from;
	}
	qsort(t, RUNS, sizeof(*t), by_value);
	free(scratch);
	rvl_kernel_free(k);
	return t[RUNS / 2];
}

/* Seconds and products of all layers of the network. */
struct total {
	double integer, floats, signs, macs;
};

static int run_shape(const char *set, const struct shape *s, struct total *sum)
{
	struct bench integer = integer_layer(s), floats = float_layer(s), signs = signs_of(s);
	double side = (double)(s->side / s->stride), macs = side * side * (double)(s->m * s->c * 9);
	double t = time_of(&integer), f = time_of(&floats), b = time_of(&signs);

	if (t < 0 || f < 0 || b < 0)
		return 1;
	printf("%-11s %4lld -> %4lld  %2lldx%-2lld /%d  %8.1f us  %7.1f Gbit-MAC/s"
	       "  float %8.1f + %6.1f us  %7.1f Gbit-MAC/s\n",
	       set, (long long)s->c, (long long)s->m, (long long)s->side, (long long)s->side, s->stride, t * 1e6,
	       macs / t * 1e-9, f * 1e6, b * 1e6, macs / (f + b) * 1e-9);
	sum->integer += t * s->times;
	sum->floats += (f + b) * s->times;
	sum->signs += b * s->times;
	sum->macs += macs * s->times;
	return 0;
}

static int run_set(const char *set)
{
	struct total sum = { 0 };
	double peak;

	if (rvl_cpu_force(set, NULL))
		return 0;
	peak = peak_of(set);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (run_shape(set, &shapes[i], &sum))
			return 1;
	printf("figure binary.cpu.%s.rate %.1f Gbit-MAC/s\n", set, sum.macs / sum.integer * 1e-9);
	printf("figure binary.cpu.%s.ms %.3f ms\n", set, sum.integer * 1e3);
	printf("figure binary.cpu.%s.float.rate %.1f Gbit-MAC/s\n", set, sum.macs / sum.floats * 1e-9);
	printf("figure binary.cpu.%s.float.ms %.3f ms\n", set, sum.floats * 1e3);
	printf("figure binary.cpu.%s.float.signs %.1f %%\n", set, 100 * sum.signs / sum.floats);
	if (peak > 0)
		printf("figure binary.cpu.%s.peak %.1f Gbit-MAC/s\nfigure binary.cpu.%s.share %.1f %%\n", set,
		       peak, set, 100 * sum.macs / sum.integer * 1e-9 / peak);
	return 0;
}

int main(int argc, char **argv)
{
	struct rvl_cpu_set set;
	int status = 0;

	for (int i = 1; i < argc; i++)
		status |= run_set(argv[i]);
	for (uint32_t i = 0; argc < 2 && rvl_cpu_set(i, &set); i++)
		if (set.available)
			status |= run_set(set.name);
	return status;
}
