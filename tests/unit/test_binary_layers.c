/* SPDX-License-Identifier: MIT */
/*
 * The random layers and signs of tests/binary. RVL_BINARY_LAYERS=N tries N layers instead of 2,000, and
 * RVL_BINARY_SIGNS=N so many signs.
 */
#include <check.h>

#include "binary/binary.h"
#include "binary/layers.h"
#include "binary/signs.h"
#include "isa.h"
#include "shapes_case.h"
#include "suite.h"

/* Kernels in place of those that the processor prefers; NULL: these. */
static const struct rvl_b_kernels *instead;

const struct rvl_b_kernels *__real_rvl_b_kernels(void);
const struct rvl_b_kernels *__wrap_rvl_b_kernels(void);
const struct rvl_b_kernels *__wrap_rvl_b_kernels(void)
{
	return instead ? instead : __real_rvl_b_kernels();
}

START_TEST(every_set_equals_the_oracle)
{
	compare_shapes("RVL_BINARY_LAYERS", _i, binary_compare);
	ck_assert_uint_gt(binary_ties, 0);
}
END_TEST

START_TEST(signs_of_every_set_equal_the_oracle)
{
	compare_shapes("RVL_BINARY_SIGNS", _i, sign_compare);
	ck_assert_uint_gt(sign_ties, 0);
}
END_TEST

#ifdef __x86_64__
/* The kernels for processors that have AVX-512 without VPOPCNTDQ. */
START_TEST(look_ups_equal_the_oracle)
{
	if (rvl_isa() < RVL_ISA_AVX512VNNI)
		return;
	instead = &rvl_b_avx512;
	for (long i = 0; i < 100; i++) {
		const char *differs = binary_compare(i);

		ck_assert_msg(!differs, "layer %ld differs with %s", i, differs);
	}
	instead = NULL;
}
END_TEST
#endif

int main(void)
{
	Suite *s = suite_create("binary layers");
	TCase *t = add_case(s, "layers", 60, NULL, NULL);

	tcase_add_loop_test(t, every_set_equals_the_oracle, 0, SHAPE_PARTS);
	tcase_add_loop_test(t, signs_of_every_set_equal_the_oracle, 0, SHAPE_PARTS);
#ifdef __x86_64__
	tcase_add_test(t, look_ups_equal_the_oracle);
#endif
	return run_suite(s);
}
