// SPDX-License-Identifier: MIT
/*
 * ConvInteger and MatMulInteger on random shapes, by every instruction set of this processor and by the
 * kernels for AVX-VNNI with a model of their instruction, against the sums of their definition.
 */
#include "chance.h"
#include "int8/shapes.h"
#include "isa.h"
#include "op_rig.h"
#include "suite.h"

#define CASES 600
#define PRODUCTS 900
#define MOST_VALUES 40000	/* of an operand or a result */

/* The kernels of a set that the processor lacks, with a model of its instructions, or NULL. */
static const struct rvl_i8_kernels *modelled;

const struct rvl_i8_kernels *__real_rvl_i8_kernels(void);
const struct rvl_i8_kernels *__wrap_rvl_i8_kernels(void);

const struct rvl_i8_kernels *__wrap_rvl_i8_kernels(void)
{
	return modelled ? modelled : __real_rvl_i8_kernels();
}

/* A convolution of three axes, of which the operator has the last @rank; the others have one value. */
struct convolution {
	uint64_t seed;
	uint32_t rank;
	int64_t images, group, channels, columns;	/* the last two: of a group */
	int64_t side[3], kernel[3], stride[3], dilation[3], before[3], behind[3], out[3];
	enum rvl_type x_type, w_type;
	int64_t zeros;	/* of the weights: 0, one or one for each column */
	bool zero, fixed;	/* of the image; whether the weights are constant */
	uint8_t *x, *w, *x_zero, *w_zero;
	int32_t *y;
};

static int64_t within(struct convolution *v, uint32_t lo, uint32_t hi)
{
	return (int64_t)chance_range(&v->seed, lo, hi);
}

/* The positions of a window along an axis, whose image must hold a whole one. */
static void random_axis(struct convolution *v, int d, bool used)
{
	int64_t reach;

	v->kernel[d] = used ? within(v, 1, v->rank == 3 ? 2 : 3) : 1;
	v->stride[d] = used ? within(v, 1, 2) : 1;
	v->dilation[d] = used ? within(v, 1, 2) : 1;
	v->before[d] = used ? within(v, 0, 2) : 0;
	v->behind[d] = used ? within(v, 0, 2) : 0;
	reach = (v->kernel[d] - 1) * v->dilation[d] + 1;
	v->side[d] = used ? within(v, 1, v->rank == 1 ? 60 : 9) : 1;
	if (v->side[d] + v->before[d] + v->behind[d] < reach)
		v->side[d] = reach;
	v->out[d] = (v->side[d] + v->before[d] + v->behind[d] - reach) / v->stride[d] + 1;
}

static int64_t product(const int64_t n[3])
{
	return n[0] * n[1] * n[2];
}

static int64_t image_values(const struct convolution *v)
{
	return v->images * v->group * v->channels * product(v->side);
}

static int64_t weight_values(const struct convolution *v)
{
	return v->group * v->columns * v->channels * product(v->kernel);
}

static int64_t result_values(const struct convolution *v)
{
	return v->images * v->group * v->columns * product(v->out);
}

/* Whole steps of the kernels and parts of them; few and many columns. */
static void random_shape(struct convolution *v, uint64_t seed)
{
	do {
		*v = (struct convolution) { .seed = seed = seed * 1000003 + 1 };
		v->rank = chance_range(&v->seed, 1, 3);
		v->images = within(v, 1, 2);
		v->group = within(v, 0, 3) ? 1 : within(v, 2, 3);
		v->channels = within(v, 0, 1) ? 4 * within(v, 1, 20) : within(v, 1, 70);
		v->columns = within(v, 1, 70);
		for (int d = 0; d < 3; d++)
			random_axis(v, d, d >= 3 - (int)v->rank);
		v->x_type = within(v, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
		v->w_type = within(v, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
		v->zero = within(v, 0, 1);
		v->zeros = within(v, 0, 2) ? within(v, 0, 1) : v->group * v->columns;
		v->fixed = within(v, 0, 3);
	} while (image_values(v) > MOST_VALUES || weight_values(v) > MOST_VALUES || result_values(v) > MOST_VALUES);
}

static uint8_t *random_bytes(struct convolution *v, int64_t n)
{
	uint8_t *p = malloc((size_t)n + 1);

	ck_assert_ptr_nonnull(p);
	for (int64_t i = 0; i < n; i++)
		p[i] = (uint8_t)splitmix(&v->seed);
	return p;
}

static int32_t value(enum rvl_type type, const uint8_t *p, int64_t i)
{
	return type == RVL_TYPE_U8 ? p[i] : (int8_t)p[i];
}

/* The sum over one plane of the image, less the zero points @xz and @wz. */
static int32_t plane_sum(const struct convolution *v, const uint8_t *x, const uint8_t *w, const int64_t at[3],
			 int32_t xz, int32_t wz)
{
	int32_t sum = 0;

	for (int64_t t = 0; t < product(v->kernel); t++) {
		int64_t tap[3] = {
			t / v->kernel[2] / v->kernel[1], t / v->kernel[2] % v->kernel[1], t % v->kernel[2]
		};
		int64_t pixel = 0;
		bool inside = true;

		for (int d = 0; d < 3; d++) {
			int64_t i = at[d] * v->stride[d] + tap[d] * v->dilation[d] - v->before[d];

			inside = inside && i >= 0 && i < v->side[d];
			pixel = pixel * v->side[d] + i;
		}
		if (inside)
			sum += (value(v->x_type, x, pixel) - xz) * (value(v->w_type, w, t) - wz);
	}
	return sum;
}

static int32_t expected(const struct convolution *v, int64_t image, int64_t column, int64_t position)
{
	int64_t at[3] = {
		position / v->out[2] / v->out[1], position / v->out[2] % v->out[1], position % v->out[2]
	};
	int32_t xz = v->zero ? value(v->x_type, v->x_zero, 0) : 0, sum = 0;
	int32_t wz = v->zeros ? value(v->w_type, v->w_zero, v->zeros > 1 ? column : 0) : 0;

	for (int64_t c = 0; c < v->channels; c++) {
		int64_t plane = (image * v->group + column / v->columns) * v->channels + c;
		int64_t kernel = column * v->channels + c;

		sum += plane_sum(v, v->x + plane * product(v->side), v->w + kernel * product(v->kernel), at, xz, wz);
	}
	return sum;
}

static void fill(struct convolution *v)
{
	int64_t all = v->group * v->columns, n = product(v->out);

	v->x = random_bytes(v, image_values(v));
	v->w = random_bytes(v, weight_values(v));
	v->x_zero = random_bytes(v, 1);
	v->w_zero = random_bytes(v, v->zeros);
	v->y = calloc((size_t)result_values(v), sizeof(*v->y));
	ck_assert_ptr_nonnull(v->y);
	for (int64_t i = 0; i < result_values(v); i++)
		v->y[i] = expected(v, i / n / all, i / n % all, i % n);
}

static void drop(struct convolution *v)
{
	free(v->x);
	free(v->w);
	free(v->x_zero);
	free(v->w_zero);
	free(v->y);
}

static struct rvl_shape shape_of(const struct convolution *v, int64_t first, int64_t second, const int64_t side[3])
{
	struct rvl_shape s = { .rank = 2 + (int)v->rank, .dim = { first, second } };

	memcpy(s.dim + 2, side + 3 - v->rank, v->rank * sizeof(*side));
	return s;
}

static void compare(const void *of, const char *set, int i)
{
	const struct convolution *v = of;
	int64_t first = 3 - v->rank, pads[6];
	struct rvl_shape zeros = { .rank = v->zeros > 1, .dim = { v->zeros } };

	memcpy(pads, v->before + first, v->rank * sizeof(*pads));
	memcpy(pads + v->rank, v->behind + first, v->rank * sizeof(*pads));
	op_begin("ConvInteger", 10);
	op_int("group", v->group);
	op_list("pads", pads, 2 * v->rank);
	op_list("strides", v->stride + first, v->rank);
	op_list("dilations", v->dilation + first, v->rank);
	op_in(v->x_type, shape_of(v, v->images, v->group * v->channels, v->side), v->x, (size_t)image_values(v));
	(v->fixed ? op_const : op_in)(v->w_type, shape_of(v, v->group * v->columns, v->channels, v->kernel), v->w,
				      (size_t)weight_values(v));
	v->zero ? op_in(v->x_type, RANK0, v->x_zero, 1) : op_none();
	v->zeros ? op_in(v->w_type, zeros, v->w_zero, (size_t)v->zeros) : op_none();
	op_ok(1);
	if (memcmp(rig.call.out[0].data, v->y, (size_t)result_values(v) * sizeof(*v->y)))
		ck_abort_msg("%s: convolution %d differs", set, i);
}

/* Calls @compare for every instruction set and the model. */
static void with_every_set(void (*compare)(const void *v, const char *set, int i), const void *v, int i)
{
	struct rvl_cpu_set s;

	for (uint32_t set = 0; rvl_cpu_set(set, &s); set++)
		if (!rvl_cpu_force(s.name, NULL))
			compare(v, s.name, i);
#ifdef __x86_64__
	if (!rvl_cpu_force("avx2", NULL)) {
		modelled = &int8_avxvnni_model;
		compare(v, "avxvnni's model", i);
		modelled = NULL;
	}
#endif
	rvl_cpu_force(NULL, NULL);
}

static void compare_all(int i)
{
	struct convolution v;

	random_shape(&v, (uint64_t)i);
	fill(&v);
	with_every_set(compare, &v, i);
	drop(&v);
}

START_TEST(convolutions_of_random_shapes)
{
	for (int i = 0; i < random_cases(CASES); i++)
		compare_all(i);
}
END_TEST

/* No image at all: the memory for pairs of channels, which depends on their number, is less than that for bytes. */
START_TEST(convolution_of_no_images)
{
	static const int8_t w[8 * 16];

#ifdef __x86_64__
	if (!rvl_cpu_force("avx2", NULL))
		modelled = &int8_avxvnni_model;
#endif
	op_begin("ConvInteger", 10);
	IN_EMPTY(U8, DIMS(0, 16, 300, 300));
	op_const(RVL_TYPE_S8, DIMS(8, 16, 1, 1), w, sizeof(w));
	op_ok(1);
	op_want(0, RVL_TYPE_S32, DIMS(0, 8, 300, 300), NULL, 0);
	modelled = NULL;
	rvl_cpu_force(NULL, NULL);
}
END_TEST

/* ---- matrices ---- */

/* The left operand is [@batch, @m, @k], or [@m, @k], or [@k] with one row. The right one is [@k, @n]. */
struct matrices {
	uint64_t seed;
	uint32_t rank;	/* of the left operand */
	int64_t batch, m, n, k;
	enum rvl_type x_type, w_type;
	int64_t x_zeros, w_zeros;	/* 0, one, or one for each row of a matrix, of all of them, or column */
	bool fixed;
	uint8_t *x, *w, *x_zero, *w_zero;
	int32_t *y;
};

/* Half of the bytes are at an end of the range of uint8 or int8, so that these are frequent as zero points. */
static uint8_t *extreme_bytes(uint64_t *seed, int64_t n)
{
	static const uint8_t ends[] = { 0, 127, 128, 255 };
	uint8_t *p = malloc((size_t)n + 1);

	ck_assert_ptr_nonnull(p);
	for (int64_t i = 0; i < n; i++)
		p[i] = chance_range(seed, 0, 1) ? (uint8_t)splitmix(seed) : ends[chance_range(seed, 0, 3)];
	return p;
}

static void random_matrices(struct matrices *v, uint64_t seed)
{
	*v = (struct matrices) { .seed = seed * 1000003 + 1 };
	v->rank = chance_range(&v->seed, 1, 3);
	v->batch = v->rank > 2 ? chance_range(&v->seed, 1, 3) : 1;
	v->m = v->rank > 1 ? chance_range(&v->seed, 0, 20) : 1;
	v->k = chance_range(&v->seed, 0, 3) ? 4 * chance_range(&v->seed, 0, 20) : chance_range(&v->seed, 0, 70);
	v->n = chance_range(&v->seed, 0, 70);
	v->x_type = chance_range(&v->seed, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
	v->w_type = chance_range(&v->seed, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
	v->x_zeros = (const int64_t []) { 0, 1, v->m, v->batch * v->m }[chance_range(&v->seed, 0, 3)];
	v->w_zeros = (const int64_t []) { 0, 1, v->n }[chance_range(&v->seed, 0, 2)];
	v->fixed = chance_range(&v->seed, 0, 3);
}

/* The result of row @r of all matrices and column @c. */
static int32_t element(const struct matrices *v, int64_t r, int64_t c)
{
	int64_t xz = v->x_zeros > 1 ? r % v->x_zeros : 0, wz = v->w_zeros > 1 ? c : 0;
	int32_t sum = 0;

	for (int64_t k = 0; k < v->k; k++)
		sum += (value(v->x_type, v->x, r * v->k + k) - (v->x_zeros ? value(v->x_type, v->x_zero, xz) : 0)) *
		       (value(v->w_type, v->w, k * v->n + c) - (v->w_zeros ? value(v->w_type, v->w_zero, wz) : 0));
	return sum;
}

static void compare_product(const void *of, const char *set, int i)
{
	const struct matrices *v = of;
	const int64_t all[] = { v->batch, v->m, v->k };
	int64_t rows = v->batch * v->m;

	op_begin("MatMulInteger", 10);
	op_in(v->x_type, op_shape(v->rank, all + 3 - v->rank), v->x, (size_t)(rows * v->k));
	(v->fixed ? op_const : op_in)(v->w_type, DIMS(v->k, v->n), v->w, (size_t)(v->k * v->n));
	v->x_zeros ? op_in(v->x_type, DIMS(v->x_zeros), v->x_zero, (size_t)v->x_zeros) : op_none();
	v->w_zeros ? op_in(v->w_type, DIMS(v->w_zeros), v->w_zero, (size_t)v->w_zeros) : op_none();
	op_ok(1);
	ck_assert_int_eq(rvl_count(&rig.call.out[0]), rows * v->n);
	if (memcmp(rig.call.out[0].data, v->y, (size_t)(rows * v->n) * sizeof(*v->y)))
		ck_abort_msg("%s: product %d differs", set, i);
}

START_TEST(products_of_random_shapes)
{
	for (int i = 0; i < random_cases(PRODUCTS); i++) {
		struct matrices v;

		random_matrices(&v, (uint64_t)i);
		v.x = extreme_bytes(&v.seed, v.batch * v.m * v.k);
		v.w = extreme_bytes(&v.seed, v.k * v.n);
		v.x_zero = extreme_bytes(&v.seed, v.x_zeros);
		v.w_zero = extreme_bytes(&v.seed, v.w_zeros);
		v.y = calloc((size_t)(v.batch * v.m * v.n) + 1, sizeof(*v.y));
		ck_assert_ptr_nonnull(v.y);
		for (int64_t at = 0; at < v.batch * v.m * v.n; at++)
			v.y[at] = element(&v, at / v.n, at % v.n);
		with_every_set(compare_product, &v, i);
		free(v.x);
		free(v.w);
		free(v.x_zero);
		free(v.w_zero);
		free(v.y);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_integer");

	TCase *t = add_case(s, "op_integer", 60, NULL, op_end);

	tcase_add_test(t, convolutions_of_random_shapes);
	tcase_add_test(t, convolution_of_no_images);
	tcase_add_test(t, products_of_random_shapes);
	return run_suite(s);
}
