// SPDX-License-Identifier: MIT
/*
 * bench_binary_cpu [SET...]: the binary convolutions of BiRealNet-18 at 224 on one core, for each set of
 * kernels, and the peak of the same processor: XOR, count and addition in registers. A layer takes
 * scale, bias and an int16 shortcut, and gives the int16 result and the bits of the next layer.
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

/* A layer with memory for all operands; the buffers are kept. */
struct bench {
	struct rvl_kernel_desc d;
	const void *in[RVL_B_INPUTS];
	void *out[2];
	double macs;
};

static void prepare(const struct shape *s, struct bench *b)
{
	static const float scale[2] = { 0.02f, 0.03f };
	static const int32_t zero;
	struct rvl_kernel_desc *d = &b->d;
	int64_t side = s->side / s->stride;

	*b = (struct bench) { .d = { .op = RVL_OP_B_CONV, .n_in = RVL_B_SHORTCUT + 1, .n_out = 2 } };
	rvl_attr_init(&d->attr);
	for (int i = 0; i < 4; i++)
		d->attr.pad[i] = 1;
	for (int i = 0; i < 2; i++) {
		d->attr.kernel[i] = 3;
		d->attr.stride[i] = s->stride;
	}
	d->attr.block = (int32_t)s->c;
	d->in[RVL_B_X] = arg(RVL_TYPE_U64, 3, 1, s->side, s->side * rvl_b_words(s->c), 0);
	d->in[RVL_B_W] = arg(RVL_TYPE_U64, 4, s->m, 3, 3, rvl_b_words(s->c));
	d->in[RVL_B_SCALE] = d->in[RVL_B_BIAS] = arg(RVL_TYPE_F32, 1, s->m, 0, 0, 0);
	d->in[RVL_B_THRESHOLD] = arg(RVL_TYPE_S32, 1, s->m, 0, 0, 0);
	d->in[RVL_B_SHORTCUT] = d->out[0] = arg(RVL_TYPE_S16, 4, 1, s->m, side, side);
	d->out[1] = arg(RVL_TYPE_U64, 3, 1, side, side * rvl_b_words(s->m), 0);
	for (int i = 0; i < 2; i++) {
		struct rvl_kernel_arg *a = i ? &d->in[RVL_B_SHORTCUT] : &d->out[0];

		a->layout = RIVULET_LAYOUT_NHWC;
		a->quant = (struct rvl_kernel_quant) { .n = 1, .scale = &scale[i], .zp = &zero };
	}
	for (uint32_t i = 0; i < d->n_in; i++) {
		bool floats = i == RVL_B_SCALE || i == RVL_B_BIAS;

		b->in[i] = filled((size_t)rvl_shape_count(&d->in[i].shape) * rvl_type_size(d->in[i].type), floats);
		if (i && i != RVL_B_SHORTCUT)
			d->in[i].data = b->in[i];
	}
	for (int i = 0; i < 2; i++)
		b->out[i] = filled((size_t)rvl_shape_count(&d->out[i].shape) * rvl_type_size(d->out[i].type), false);
	b->macs = (double)(side * side * s->m * s->c * 9);
}

/* Median seconds of a run; -1: the kernel cannot be made. */
static double time_layer(struct bench *b)
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

static int run_set(const char *set)
{
	double total = 0, macs = 0, peak;
	struct bench b;

	if (rvl_cpu_force(set, NULL))
		return 0;
	peak = peak_of(set);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		const struct shape *s = &shapes[i];
		double t;

		prepare(s, &b);
		t = time_layer(&b);
		if (t < 0)
			return 1;
		printf("%-11s %4lld -> %4lld  %2lldx%-2lld /%d  %8.1f us  %7.1f Gbit-MAC/s\n", set, (long long)s->c,
		       (long long)s->m, (long long)s->side, (long long)s->side, s->stride, t * 1e6,
		       b.macs / t * 1e-9);
		total += t * s->times;
		macs += b.macs * s->times;
	}
	printf("figure binary.cpu.%s.rate %.1f Gbit-MAC/s\n", set, macs / total * 1e-9);
	printf("figure binary.cpu.%s.ms %.3f ms\n", set, total * 1e3);
	if (peak > 0)
		printf("figure binary.cpu.%s.peak %.1f Gbit-MAC/s\nfigure binary.cpu.%s.share %.1f %%\n", set,
		       peak, set, 100 * macs / total * 1e-9 / peak);
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
