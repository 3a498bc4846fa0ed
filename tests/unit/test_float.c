/* SPDX-License-Identifier: MIT */
/* The random shapes of tests/float. RVL_FLOAT_SHAPES=N tries N shapes instead of 2,000. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "float/shapes.h"
#include "isa.h"
#include "rivulet_kernels.h"
#include "suite.h"

#define SHAPES 2000

START_TEST(every_set_is_close_to_the_reference)
{
	const char *given = getenv("RVL_FLOAT_SHAPES");
	long shapes = given ? strtol(given, NULL, 10) : SHAPES;

	for (long i = _i; i < shapes; i += 8) {
		const char *differs = float_compare(i);

		if (differs)
			ck_abort_msg("shape %ld differs with %s", i, differs);
	}
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

/* ---- functions ---- */

#define STEP 4099	/* of the bits of a number: some million numbers of both signs */
#define ROW 257

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
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

int main(void)
{
	Suite *s = suite_create("float");
	TCase *shapes = add_case(s, "shapes", 3600, NULL, NULL);

	tcase_add_loop_test(shapes, every_set_is_close_to_the_reference, 0, 8);
	tcase_add_test(shapes, taps_without_channels_cost_nothing);
	tcase_add_loop_test(shapes, functions_are_exact_in_every_set, 0,
			    sizeof(functions) / sizeof(functions[0]));
	return run_suite(s);
}
