/* SPDX-License-Identifier: MIT */
/* The random shapes of tests/float. RVL_FLOAT_SHAPES=N tries N shapes instead of 2,000. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "float/shapes.h"
#include "float/softmax.h"
#include "isa.h"
#include "kernels/guarded.h"
#include "rivulet_kernels.h"
#include "shapes_case.h"
#include "suite.h"

START_TEST(every_set_is_close_to_the_reference)
{
	compare_shapes("RVL_FLOAT_SHAPES", _i, float_compare);
}
END_TEST

/* Each result is the bias. A visit of all taps of each image would exceed the limit of a test. */
START_TEST(taps_without_channels_cost_nothing)
{
	enum { IMAGES = 64, SIDE = 46339 };
	static float bias[4] = { 1, 2, 3, 4 }, x[1], y[IMAGES * 4];
	struct rvl_kernel_desc d = { .op = RVL_OP_CONV, .n_in = 3, .n_out = 1 };
	char why[RVL_WHY_MAX];
	struct rvl_kernel *k;

	rvl_attr_init(&d.attr);
	for (int i = 0; i < 2; i++) {
		d.attr.kernel[i] = SIDE;
		d.attr.pad[i] = d.attr.pad[i + 2] = SIDE / 2;
	}
	d.in[0] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { 4, { IMAGES, 0, 1, 1 } } };
	d.in[1] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { 4, { 4, 0, SIDE, SIDE } } };
	d.in[2] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { 1, { 4 } } };
	d.out[0] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { 4, { IMAGES, 4, 1, 1 } } };
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, why), 0);
	ck_assert_uint_eq(rvl_kernel_scratch(k), 0);
	ck_assert_int_eq(rvl_kernel_run(k, (const void *[]) { x, x, bias }, (void *[]) { y }, NULL, NULL),
			 0);
	for (int i = 0; i < IMAGES * 4; i++)
		ck_assert_float_eq(y[i], bias[i % 4]);
	rvl_kernel_free(k);
}
END_TEST

/* ---- convolutions by tiles ---- */

#define TILED_CHANNELS 8
#define TILED_SIDE 32 /* 64 tiles, whole vectors of every instruction set */

/* A 3x3 convolution of images of @side with padding. */
static struct rvl_kernel *new_tiled(int64_t c, int64_t m, int64_t side, const float *weights)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_CONV, .n_in = 2, .n_out = 1 };
	char why[RVL_WHY_MAX];
	struct rvl_kernel *k;

	rvl_attr_init(&d.attr);
	for (int i = 0; i < 2; i++) {
		d.attr.kernel[i] = 3;
		d.attr.pad[i] = d.attr.pad[i + 2] = 1;
	}
	test_image(&d.in[0], RVL_TYPE_F32, 1, c, side, side);
	test_image(&d.in[1], RVL_TYPE_F32, m, c, 3, 3);
	test_image(&d.out[0], RVL_TYPE_F32, 1, m, side, side);
	d.in[1].data = weights;
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, why), 0);
	/* It has the 36 products of a patch, not the 9 taps. */
	ck_assert_uint_ge(rvl_kernel_bytes(k), (size_t)(c * m) * 36 * sizeof(float));
	return k;
}

/* All weights are @w. */
static void run_tiled(const float *x, float w, float *y)
{
	static float weights[TILED_CHANNELS * TILED_CHANNELS * 9];
	struct rvl_kernel *k;
	void *scratch;

	for (size_t i = 0; i < sizeof(weights) / sizeof(*weights); i++)
		weights[i] = w;
	k = new_tiled(TILED_CHANNELS, TILED_CHANNELS, TILED_SIDE, weights);
	scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 127) / 64 * 64);
	ck_assert_ptr_nonnull(scratch);
	rvl_kernel_run(k, (const void *[]) { x, weights }, (void *[]) { y }, scratch, NULL);
	free(scratch);
	rvl_kernel_free(k);
}

/* An infinity, or what stands for one, changes the results under whose window it lies, and not their tiles. */
START_TEST(infinities_stay_in_their_windows)
{
	static const float values[] = { INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 1e30f, 1e13f };
	enum { PLANE = TILED_SIDE * TILED_SIDE, AT = 9 };
	static float x[TILED_CHANNELS * PLANE], y[TILED_CHANNELS * PLANE];

	for (int i = 0; i < TILED_CHANNELS * PLANE; i++)
		x[i] = 1;
	x[AT * TILED_SIDE + AT] = values[_i];
	run_tiled(x, 0.5f, y);
	for (int i = AT - 4; i <= AT + 4; i++)
		for (int k = AT - 4; k <= AT + 4; k++)
			if (abs(i - AT) < 2 && abs(k - AT) < 2)
				ck_assert(fabsf(y[i * TILED_SIDE + k] - 0.5f * values[_i]) <= 1e7f ||
					  y[i * TILED_SIDE + k] == values[_i]);
			else
				ck_assert_float_eq_tol(y[i * TILED_SIDE + k], 36, 1e-4f);
}
END_TEST

/* The transform of a patch of the largest numbers is infinite. */
START_TEST(large_numbers_do_not_overflow_between_transforms)
{
	enum { PLANE = TILED_SIDE * TILED_SIDE, MIDDLE = TILED_SIDE / 2 * (TILED_SIDE + 1) };
	static float x[TILED_CHANNELS * PLANE], y[TILED_CHANNELS * PLANE];

	for (int i = 0; i < TILED_CHANNELS * PLANE; i++)
		x[i] = 3e38f;
	run_tiled(x, 1e-3f, y);
	ck_assert_float_eq_tol(y[MIDDLE], 72 * 3e35f, 1e32f);
	ck_assert_float_eq_tol(y[0], 32 * 3e35f, 1e32f);
}
END_TEST

/* Every lane has memory of its own, but not as much as 16 threads could use; nor do they share as much. */
START_TEST(scratch_of_tiles_is_limited)
{
	static const int64_t sides[] = { 16, 32, 100, 144, 200 };
	enum { IN = 1024, OUT = 256 };
	float *weights = calloc((size_t)IN * OUT * 9, sizeof(*weights));
	struct rvl_kernel *k;

	ck_assert_ptr_nonnull(weights);
	k = new_tiled(IN, OUT, sides[_i], weights);
	ck_assert_uint_le(rvl_kernel_scratch(k), 40 << 20);
	rvl_kernel_free(k);
	free(weights);
}
END_TEST

/* ---- division ---- */

#define MOST_ITEMS 256

/* Results that each item of a run writes. */
struct shares {
	float *y;
	size_t n;
	size_t item[MOST_ITEMS];
	uint32_t items;
};

static void count_results(void *ctx, uint32_t lanes, uint32_t n, rvl_part_fn fn, void *arg)
{
	struct shares *s = ctx;

	ck_assert_uint_le(n, MOST_ITEMS);
	s->items = n;
	for (uint32_t i = 0; i < n; i++) {
		for (size_t k = 0; k < s->n; k++)
			s->y[k] = NAN;
		fn(arg, i % lanes, i);
		s->item[i] = 0;
		for (size_t k = 0; k < s->n; k++)
			s->item[i] += !isnan(s->y[k]);
	}
}

/* The most results that a thread computes if each takes the next item as soon as it is idle. */
static size_t busiest_thread(const struct shares *s, uint32_t threads)
{
	size_t load[MOST_ITEMS] = { 0 }, most = 0;

	for (uint32_t i = 0; i < s->items; i++) {
		uint32_t idle = 0;

		for (uint32_t t = 1; t < threads; t++)
			if (load[t] < load[idle])
				idle = t;
		load[idle] += s->item[i];
		most = load[idle] > most ? load[idle] : most;
	}
	return most;
}

/* The number of input channels does not change the division. */
#define FEW_CHANNELS 2

static const struct layer {
	const char *name;
	int32_t outputs, side, kernel;
} layers[] = {
	{ "MobileNetV1, 512 of 14x14", 512, 14, 1 },
	{ "MobileNetV1, 1024 of 7x7", 1024, 7, 1 },
	{ "MobileNetV1, 128 of 56x56", 128, 56, 1 },
	{ "ResNet50, 256 of 14x14", 256, 14, 3 },
	{ "ResNet50, 1024 of 14x14", 1024, 14, 1 },
	{ "ResNet50, 512 of 7x7", 512, 7, 3 },
	{ "ResNet50, 128 of 28x28", 128, 28, 3 },
	{ "VGG, 512 of 14x14", 512, 14, 3 },
	{ "VGG, 512 of 28x28", 512, 28, 3 },
	{ "VGG, 64 of 112x112", 64, 112, 3 },
};

static struct rvl_kernel *make_layer(const struct layer *l, const float *w)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_CONV, .n_in = 2, .n_out = 1 };
	char why[RVL_WHY_MAX];
	struct rvl_kernel *k;

	rvl_attr_init(&d.attr);
	for (int i = 0; i < 2; i++) {
		d.attr.kernel[i] = l->kernel;
		d.attr.pad[i] = d.attr.pad[i + 2] = l->kernel / 2;
	}
	for (int i = 0; i < 2; i++)
		d.in[i].type = RVL_TYPE_F32;
	d.in[0].shape = (struct rvl_shape) { 4, { 1, FEW_CHANNELS, l->side, l->side } };
	d.in[1].shape = (struct rvl_shape) { 4, { l->outputs, FEW_CHANNELS, l->kernel, l->kernel } };
	d.in[1].data = w;
	d.out[0] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32,
					     .shape = { 4, { 1, l->outputs, l->side, l->side } } };
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, why), 0);
	return k;
}

START_TEST(threads_share_layers_evenly)
{
	static float x[FEW_CHANNELS * 112 * 112], w[1024 * FEW_CHANNELS * 9];
	const struct layer *l = &layers[_i];
	struct shares s = { .n = (size_t)l->outputs * (size_t)l->side * (size_t)l->side };
	struct rvl_kernel *k = make_layer(l, w);
	void *scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 127) / 64 * 64);

	s.y = calloc(s.n, sizeof(*s.y));
	ck_assert(s.y && scratch);
	for (uint32_t threads = 2; threads <= 8; threads *= 2) {
		const struct rvl_pool pool = { .parallel = count_results, .threads = threads, .ctx = &s };
		double limit = threads > 2 ? 1.35 : 1.15;	/* of the mean */

		rvl_kernel_run(k, (const void *[]) { x, w }, (void *[]) { s.y }, scratch, &pool);
		if ((double)busiest_thread(&s, threads) * threads > limit * (double)s.n)
			ck_abort_msg("%s: one of %u threads has %zu of %zu results", l->name,
				     threads, busiest_thread(&s, threads), s.n);
	}
	free(s.y);
	free(scratch);
	rvl_kernel_free(k);
}
END_TEST

/* ---- convolutions of 1x1 ---- */

#define POINTS 1024	/* most elements under a result */

/* Two loops of a run fill panels and multiply them; one does both. */
static void count_loops(void *ctx, uint32_t lanes, uint32_t n, rvl_part_fn fn, void *arg)
{
	++*(int *)ctx;
	while (n-- > 0)
		fn(arg, n % lanes, n);
}

/* The results [outputs, width] of a row of @width pixels, element j of pixel i being x[j][i]. */
static void run_row(int32_t outputs, int32_t inputs, int32_t width, const float x[][64], const float *w,
		    const struct rvl_pool *pool, float *y)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_CONV, .n_in = 3, .n_out = 1 };
	float *image = malloc((size_t)inputs * (size_t)width * sizeof(*image) + 64);
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;
	void *scratch;

	rvl_attr_init(&d.attr);
	d.attr.kernel[0] = d.attr.kernel[1] = 1;
	d.in[0] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { 4, { 1, inputs, 1, width } } };
	d.in[1] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { 4, { outputs, inputs, 1, 1 } },
					    .data = w };
	d.in[2] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { 1, { outputs } }, .data = w };
	d.out[0] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { 4, { 1, outputs, 1, width } } };
	for (int32_t j = 0; j < inputs; j++)
		memcpy(image + j * width, x[j], (size_t)width * sizeof(*image));
	ck_assert_msg(!rvl_kernel_new(&d, false, &k, why), "%s", why);
	scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 127) / 64 * 64);
	ck_assert_int_eq(rvl_kernel_run(k, (const void *[]) { image, w, w }, (void *[]) { y }, scratch, pool),
			 0);
	rvl_kernel_free(k);
	free(scratch);
	free(image);
}

static void fill_row(float x[POINTS][64], float *w, int n)
{
	for (int i = 0; i < POINTS * 64; i++)
		x[i / 64][i % 64] = (float)(i % 1009 * 79 % 1009 - 504) / 311;
	for (int i = 0; i < n; i++)
		w[i] = (float)(i % 2003 * 47 % 2003 - 1001) / 1999;
}

/* A few columns that fill no vector are computed in another way. */
START_TEST(a_column_has_the_same_bits_beside_fewer)
{
	enum { OUT = 101, IN = 400, WIDE = 64 };
	static float x[POINTS][64], w[OUT * IN], wide[OUT * WIDE], y[OUT * WIDE];

	fill_row(x, w, OUT * IN);
	run_row(OUT, IN, WIDE, x, w, NULL, wide);
	for (int32_t width = 2; width < 50; width++) {
		run_row(OUT, IN, width, x, w, NULL, y);
		for (int i = 0; i < OUT * width; i++)
			if (memcmp(&y[i], &wide[i / width * WIDE + i % width], sizeof(*y)))
				ck_abort_msg("result %d of %d columns is %g", i, width, (double)y[i]);
	}
}
END_TEST

START_TEST(threads_share_gathered_panels)
{
	enum { OUT = 512, IN = 1024, WIDTH = 49 };
	static float x[POINTS][64], w[OUT * IN], one[OUT * WIDTH], y[OUT * WIDTH];

	int loops = 0, runs = 0;

	fill_row(x, w, OUT * IN);
	run_row(OUT, IN, WIDTH, x, w, NULL, one);
	for (uint32_t threads = 2; threads <= 20; threads += 3, runs++) {
		const struct rvl_pool pool = { .parallel = count_loops, .threads = threads, .ctx = &loops };

		memset(y, 0xff, sizeof(y));
		run_row(OUT, IN, WIDTH, x, w, &pool, y);
		ck_assert_msg(!memcmp(y, one, sizeof(y)), "another result with %u threads", threads);
	}
	ck_assert_int_gt(loops, runs);
}
END_TEST

/* Two loops of a run transform the only strip of 14 x 14 results and multiply it. */
START_TEST(threads_share_the_only_strip)
{
	enum { C = 32, SIDE = 14, PLANE = SIDE * SIDE };
	static float x[C * PLANE], w[C * C * 9], one[C * PLANE], y[C * PLANE];
	struct rvl_kernel *k;
	void *scratch;

	for (int i = 0; i < C * PLANE; i++)
		x[i] = (float)(i % 1009 - 504) / 311;
	for (int i = 0; i < C * C * 9; i++)
		w[i] = (float)(i % 2003 - 1001) / 1999;
	k = new_tiled(C, C, SIDE, w);
	scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 127) / 64 * 64);
	ck_assert_ptr_nonnull(scratch);
	rvl_kernel_run(k, (const void *[]) { x, w }, (void *[]) { one }, scratch, NULL);
	for (uint32_t threads = 2; threads <= 20; threads += 3) {
		int loops = 0;
		const struct rvl_pool pool = { .parallel = count_loops, .threads = threads, .ctx = &loops };

		memset(y, 0xff, sizeof(y));
		rvl_kernel_run(k, (const void *[]) { x, w }, (void *[]) { y }, scratch, &pool);
		ck_assert_msg(!memcmp(y, one, sizeof(y)), "another result with %u threads", threads);
		ck_assert_int_eq(loops, 2);
	}
	free(scratch);
	rvl_kernel_free(k);
}
END_TEST

/* ---- functions ---- */

#define STEP 4099	/* of the bits of a number: some million numbers of both signs */
#define ROW 257

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

/* Rounded as ONNX's function HardSwish in float: the exact value is far from it beside -3, where terms cancel. */
static double hard_swish(double x)
{
	float factor = (float)x * (1.0f / 6.0f) + 0.5f;

	return x * (double)(isnan(factor) ? factor : fminf(fmaxf(factor, 0.0f), 1.0f));
}

static const struct function {
	const char *name;
	size_t at;
	double (*exact)(double x);
} functions[] = {
	{ "exp", offsetof(struct rvl_f32_math, exp), exp },
	{ "sigmoid", offsetof(struct rvl_f32_math, sigmoid), sigmoid },
	{ "tanh", offsetof(struct rvl_f32_math, tanh), tanh },
	{ "erf", offsetof(struct rvl_f32_math, erf), erf },
	{ "erfc", offsetof(struct rvl_f32_math, erfc), erfc },
	{ "hard_swish", offsetof(struct rvl_f32_math, hard_swish), hard_swish },
};

static void call(const struct function *f, const float *x, float *y)
{
	const struct rvl_f32_math *math = rvl_f32_kernels()->math;

	(*(void (*const *)(const float *, int64_t, float *))((const char *)math + f->at))(x, ROW, y);
}

/* The least normal number is the unit below it, because a factor of a denormal result is rounded. */
static bool is_exact(float y, double exact)
{
	if (isnan(exact) || isnan(y))
		return isnan(exact) && isnan(y);
	if (fabs(exact) > FLT_MAX)
		return y == (exact > 0 ? INFINITY : -INFINITY);
	return fabs((double)y - exact) <= 1e-6 * fabs(exact) + (double)FLT_MIN;
}

START_TEST(functions_are_exact_in_every_set)
{
	const struct function *f = &functions[_i];
	float x[ROW], y[ROW], first[ROW];
	struct rvl_cpu_set set;

	for (uint64_t u = 0; u < (uint64_t)1 << 32; u += (uint64_t)STEP * ROW) {
		for (uint64_t i = 0; i < ROW; i++)
			memcpy(&x[i], &(uint32_t) { (uint32_t)(u + i * STEP) }, sizeof(*x));
		for (uint32_t s = 0; rvl_cpu_set(s, &set); s++) {
			if (rvl_cpu_force(set.name, NULL))
				continue;
			call(f, x, s ? y : first);
			for (int i = 0; i < ROW && !s; i++)
				if (!is_exact(first[i], f->exact((double)x[i])))
					ck_abort_msg("%s(%.9g) is %.9g", f->name, (double)x[i],
						     (double)first[i]);
			for (int i = 0; i < ROW && s; i++)
				if (y[i] != first[i] && !(isnan(y[i]) && isnan(first[i])))
					ck_abort_msg("%s(%.9g) differs with %s", f->name,
						     (double)x[i], set.name);
		}
	}
}
END_TEST

/* Asserts that each column of @y [n][columns] is the Softmax of that of @x. */
static void check_softmax(const float *x, const float *y, int64_t n, int64_t columns)
{
	for (int64_t i = 0; i < columns; i++) {
		double sum = 0;

		for (int64_t k = 0; k < n; k++)
			sum += exp((double)x[k * columns + i]);
		for (int64_t k = 0; k < n; k++) {
			double want = exp((double)x[k * columns + i]) / sum;

			if (fabs((double)y[k * columns + i] - want) > 2e-6 * want)
				ck_abort_msg("element %ld of column %ld is %.9g, not %.9g", (long)k, (long)i,
					     (double)y[k * columns + i], want);
		}
	}
}

/* Rows and columns of lengths on both sides of the blocks in which they are computed. */
START_TEST(softmax_of_any_length)
{
	static const int64_t lengths[] = { 1, 2, 3, 7, 16, 85, 128, 255, 256, 257, 700 };
	int64_t n = lengths[_i], many = 300;
	struct test_guarded x = test_guarded((size_t)(n * many) * sizeof(float), sizeof(float));
	struct test_guarded y = test_guarded((size_t)(n * many) * sizeof(float), sizeof(float));
	float *from = (float *)(void *)x.p, *to = (float *)(void *)y.p;

	for (int64_t i = 0; i < n * many; i++)
		from[i] = (float)(i * 7919 % 2003) / 100.0f - 10.0f;
	rvl_f32_softmax_rows(from, many, n, to);
	for (int64_t i = 0; i < many; i++)
		check_softmax(from + i * n, to + i * n, n, 1);
	/* Two parts, as two threads compute them. */
	rvl_f32_softmax_columns(from, n, 131, many, to);
	rvl_f32_softmax_columns(from + 131, n, many - 131, many, to + 131);
	check_softmax(from, to, n, many);
	test_drop(&x);
	test_drop(&y);
}
END_TEST

static float combined(const struct rvl_f32_binary_call *c, bool mul, int64_t i)
{
	float a = c->a[c->one_a ? 0 : i], b = c->b[c->one_b ? 0 : i], v = mul ? a * b : a + b;

	return v < c->lo ? c->lo : v > c->hi ? c->hi : v;
}

/* @form: which operand is one number, or (3) that the result lies in the place of the first one. */
static void check_combined(bool mul, int form, int64_t n, bool bounded, uint64_t *seed)
{
	const struct rvl_f32_math *math = rvl_f32_kernels()->math;
	struct test_guarded a = test_guarded(form == 1 ? 4 : (size_t)n * 4, 4);
	struct test_guarded b = test_guarded(form == 2 ? 4 : (size_t)n * 4, 4);
	struct test_guarded y = test_guarded((size_t)n * 4, 4);
	struct rvl_f32_binary_call c = {
		.a = (float *)(void *)a.p, .b = (float *)(void *)b.p, .one_a = form == 1, .one_b = form == 2,
		.n = n, .y = (float *)(void *)(form == 3 ? a.p : y.p), .lo = bounded ? -0.5f : -INFINITY,
		.hi = bounded ? 2 : INFINITY,
	};
	float want[64];

	for (size_t i = 0; i < a.size / 4; i++)
		((float *)(void *)a.p)[i] = splitmix(seed) % 9 ? (float)(splitmix(seed) % 99) / 9 - 5 : NAN;
	for (size_t i = 0; i < b.size / 4; i++)
		((float *)(void *)b.p)[i] = splitmix(seed) % 9 ? (float)(splitmix(seed) % 99) / 9 - 5 : INFINITY;
	for (int64_t i = 0; i < n; i++)
		want[i] = combined(&c, mul, i);
	(mul ? math->mul : math->add)(&c);
	for (int64_t i = 0; i < n; i++)
		ck_assert_msg(c.y[i] == want[i] || (isnan(c.y[i]) && isnan(want[i])), "%g is not %g",
			      (double)c.y[i], (double)want[i]);
	test_drop(&a);
	test_drop(&b);
	test_drop(&y);
}

START_TEST(sums_and_products_are_exact_in_every_set)
{
	struct rvl_cpu_set set;
	uint64_t seed = 5;

	for (uint32_t s = 0; rvl_cpu_set(s, &set); s++) {
		if (rvl_cpu_force(set.name, NULL))
			continue;
		for (int64_t n = 1; n <= 64; n++)
			for (int i = 0; i < 16; i++)
				check_combined(i & 1, i / 4, n, i & 2, &seed);
	}
}
END_TEST

/* Sums of products of bytes, of which the memory ends with the last row. */
static void check_sums(const struct rvl_f32_sum_call *call, uint64_t *seed)
{
	struct rvl_f32_sum_call c = *call;
	int64_t last = (c.k - 1) * c.w_row + c.n;
	struct test_guarded w = test_guarded((size_t)last, 1);
	int16_t v[6 * 21];
	uint32_t y[6 * 80], sum[6 * 80];

	c.w = w.p;
	c.v = v;
	c.y = y;
	for (int64_t i = 0; i < last; i++)
		((uint8_t *)w.p)[i] = (uint8_t)splitmix(seed);
	for (int64_t i = 0; i < c.rows * c.v_row; i++)
		v[i] = (int16_t)((int)(splitmix(seed) % 511) - 255);
	for (int64_t i = 0; i < c.rows * c.y_row; i++)
		y[i] = sum[i] = (uint32_t)splitmix(seed);
	for (int64_t r = 0; r < c.rows; r++)
		for (int64_t j = 0; j < c.k; j++)
			for (int64_t i = 0; i < c.n; i++) {
				const uint8_t *at = (const uint8_t *)w.p + j * c.w_row + i;

				sum[r * c.y_row + i] += (uint32_t)(v[r * c.v_row + j] *
								   (c.u8 ? *at : (int8_t)*at));
			}
	rvl_f32_kernels()->bytes->sum(&c);
	ck_assert_mem_eq(y, sum, (size_t)(c.rows * c.y_row) * sizeof(*y));
	test_drop(&w);
}

START_TEST(sums_of_bytes_are_exact_in_every_set)
{
	struct rvl_cpu_set set;
	uint64_t seed = 5;

	for (uint32_t s = 0; rvl_cpu_set(s, &set); s++) {
		if (rvl_cpu_force(set.name, NULL))
			continue;
		for (int i = 0; i < random_cases(300); i++) {
			struct rvl_f32_sum_call c = {
				.rows = 1 + (int64_t)(splitmix(&seed) % 6), .k = 1 + (int64_t)(splitmix(&seed) % 21),
				.n = 1 + (int64_t)(splitmix(&seed) % 80), .u8 = i % 2, .v_row = 21, .y_row = 80,
			};

			c.w_row = c.n + (int64_t)(splitmix(&seed) % 3);
			check_sums(&c, &seed);
		}
	}
}
END_TEST

/* Where element (j, i) of bytes [k, n] lies in panels of pairs. */
static uint8_t *paired(uint8_t *w, int64_t panel, int64_t j, int64_t i)
{
	return w + i / RVL_F32_PAIR_COLS * panel + (j / 2 * RVL_F32_PAIR_COLS + i % RVL_F32_PAIR_COLS) * 2 +
	       j % 2;
}

/* Panels that end with their memory, and results behind the last column that stay as they are. */
static void check_paired_sums(struct rvl_f32_sum_call c, uint64_t *seed)
{
	int64_t panels = (c.n + RVL_F32_PAIR_COLS - 1) / RVL_F32_PAIR_COLS;
	struct test_guarded w;
	int16_t v[14 * 21];
	uint32_t y[14 * 90], sum[14 * 90];

	c.panel = (c.k + 1) / 2 * 2 * RVL_F32_PAIR_COLS;
	w = test_guarded((size_t)(panels * c.panel), 1);
	c.w = w.p;
	c.v = v;
	c.y = y;
	for (int64_t i = 0; i < c.rows * c.v_row; i++)
		v[i] = (int16_t)((int)(splitmix(seed) % 511) - 255);
	for (int64_t i = 0; i < c.rows * c.y_row; i++)
		y[i] = sum[i] = (uint32_t)splitmix(seed);
	for (int64_t r = 0; r < c.rows; r++)
		for (int64_t j = 0; j < c.k; j++)
			for (int64_t i = 0; i < c.n; i++) {
				uint8_t b = *paired(w.p, c.panel, j, i);

				sum[r * c.y_row + i] += (uint32_t)(v[r * c.v_row + j] * (c.u8 ? b : (int8_t)b));
			}
	rvl_f32_kernels()->bytes->sum(&c);
	ck_assert_mem_eq(y, sum, (size_t)(c.rows * c.y_row) * sizeof(*y));
	test_drop(&w);
}

START_TEST(sums_of_pairs_of_bytes_are_exact_in_every_set)
{
	struct rvl_cpu_set set;
	uint64_t seed = 6;

	for (uint32_t s = 0; rvl_cpu_set(s, &set); s++) {
		if (rvl_cpu_force(set.name, NULL))
			continue;
		for (int i = 0; i < random_cases(300); i++)
			check_paired_sums((struct rvl_f32_sum_call) {
				.rows = 1 + (int64_t)(splitmix(&seed) % 14), .k = 1 + (int64_t)(splitmix(&seed) % 21),
				.n = 1 + (int64_t)(splitmix(&seed) % 85), .u8 = i % 2, .v_row = 21, .y_row = 90,
			}, &seed);
	}
}
END_TEST

/* Rows of bytes, of which the memory ends with the last one, as int16 and as pairs of two rows. */
static void check_bytes(struct rvl_f32_bytes_call c, uint64_t *seed)
{
	struct test_guarded x = test_guarded((size_t)((c.rows - 1) * c.x_row + c.n), 1);
	int16_t wide[5 * 70], pairs[3 * 70 * 2];

	memset(wide, 0x55, sizeof(wide));
	memset(pairs, 0x55, sizeof(pairs));
	c.zero = (int32_t)(splitmix(seed) % 128);
	c.x = x.p;
	c.y_row = 70;
	c.y = wide;
	rvl_f32_kernels()->bytes->widen(&c);
	c.y = pairs;
	rvl_f32_kernels()->bytes->pair(&c);
	for (int64_t r = 0; r < c.rows; r++)
		for (int64_t i = 0; i < c.y_row; i++) {
			const uint8_t *at = x.p + r * c.x_row + i;
			int want = i < c.n ? (c.u8 ? *at : (int8_t)*at) - c.zero : 0x5555;

			ck_assert_int_eq(wide[r * c.y_row + i], want);
			ck_assert_int_eq(pairs[(r / 2 * c.y_row + i) * 2 + r % 2], want);
		}
	for (int64_t i = 0; i < c.n && c.rows % 2; i++)
		ck_assert_int_eq(pairs[(c.rows / 2 * c.y_row + i) * 2 + 1], 0);
	test_drop(&x);
}

START_TEST(bytes_become_pairs_in_every_set)
{
	struct rvl_cpu_set set;
	uint64_t seed = 7;

	for (uint32_t s = 0; rvl_cpu_set(s, &set); s++) {
		if (rvl_cpu_force(set.name, NULL))
			continue;
		for (int i = 0; i < random_cases(100); i++) {
			struct rvl_f32_bytes_call c = {
				.rows = 1 + (int64_t)(splitmix(&seed) % 5), .n = 1 + (int64_t)(splitmix(&seed) % 70),
				.u8 = i % 2,
			};

			c.x_row = c.n + (int64_t)(splitmix(&seed) % 3);
			check_bytes(c, &seed);
		}
	}
}
END_TEST

static int16_t half_of(const float *pair, int second)
{
	int16_t h[2];

	memcpy(h, pair, sizeof(h));
	return h[second];
}

/* A tile of every size that the micro-kernel takes, on panels that end with their memory. */
static void check_pairs(int rows, bool one_vector, int64_t k, bool add, uint64_t *seed)
{
	const struct rvl_f32_kernels *f = rvl_f32_kernels();
	struct test_guarded a = test_guarded((size_t)(k * f->mr) * sizeof(float), 4);
	struct test_guarded b = test_guarded((size_t)(k * f->nr) * sizeof(float), 4);
	int cols = one_vector ? f->vl : f->nr;
	uint32_t y[RVL_F32_MR * (RVL_F32_NR + 1)], sum[RVL_F32_MR * (RVL_F32_NR + 1)];
	struct rvl_f32_pairs_call c = {
		.a = (const float *)(void *)a.p, .b = (const float *)(void *)b.p, .k = k, .add = add, .y = y,
		.y_row = RVL_F32_NR + 1, .rows = rows, .cols = cols,
	};

	for (int64_t i = 0; i < 2 * k * f->mr; i++)
		((int16_t *)(void *)a.p)[i] = (int16_t)((int)(splitmix(seed) % 511) - 255);
	for (int64_t i = 0; i < 2 * k * f->nr; i++)
		((int16_t *)(void *)b.p)[i] = (int16_t)((int)(splitmix(seed) % 511) - 255);
	for (int i = 0; i < RVL_F32_MR * (RVL_F32_NR + 1); i++)
		y[i] = sum[i] = (uint32_t)splitmix(seed);
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < cols; i++) {
			uint32_t *s = sum + r * c.y_row + i;

			*s = add ? *s : 0;
			for (int64_t j = 0; j < 2 * k; j++)
				*s += (uint32_t)(half_of(c.a + j / 2 * f->mr + r, j % 2) *
						 half_of(c.b + j / 2 * f->nr + i, j % 2));
		}
	f->pairs(&c);
	ck_assert_mem_eq(y, sum, sizeof(y));
	test_drop(&a);
	test_drop(&b);
}

START_TEST(tiles_of_pairs_are_exact_in_every_set)
{
	struct rvl_cpu_set set;
	uint64_t seed = 8;

	for (uint32_t s = 0; rvl_cpu_set(s, &set); s++) {
		if (rvl_cpu_force(set.name, NULL))
			continue;
		for (int rows = 1; rows <= rvl_f32_kernels()->mr; rows++)
			for (int i = 0; i < 4; i++)
				check_pairs(rows, i & 1, 1 + (int64_t)(splitmix(&seed) % 9), i & 2, &seed);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("float");
	TCase *shapes = add_case(s, "shapes", 3600, NULL, NULL);

	tcase_add_loop_test(shapes, every_set_is_close_to_the_reference, 0, SHAPE_PARTS);
	tcase_add_test(shapes, a_column_has_the_same_bits_beside_fewer);
	tcase_add_test(shapes, threads_share_gathered_panels);
	tcase_add_test(shapes, threads_share_the_only_strip);
	tcase_add_loop_test(shapes, threads_share_layers_evenly, 0,
			    (int)(sizeof(layers) / sizeof(layers[0])));
	tcase_add_test(shapes, taps_without_channels_cost_nothing);
	tcase_add_loop_test(shapes, infinities_stay_in_their_windows, 0, 6);
	tcase_add_loop_test(shapes, scratch_of_tiles_is_limited, 0, 5);
	tcase_add_test(shapes, large_numbers_do_not_overflow_between_transforms);
	tcase_add_test(shapes, sums_and_products_are_exact_in_every_set);
	tcase_add_test(shapes, sums_of_bytes_are_exact_in_every_set);
	tcase_add_test(shapes, sums_of_pairs_of_bytes_are_exact_in_every_set);
	tcase_add_test(shapes, bytes_become_pairs_in_every_set);
	tcase_add_test(shapes, tiles_of_pairs_are_exact_in_every_set);
	tcase_add_loop_test(shapes, softmax_of_any_length, 0, 11);
	tcase_add_loop_test(shapes, functions_are_exact_in_every_set, 0,
			    sizeof(functions) / sizeof(functions[0]));
	return run_suite(s);
}
