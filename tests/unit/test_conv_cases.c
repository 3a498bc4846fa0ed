// SPDX-License-Identifier: MIT
/* The two files of recorded convolutions agree on the cases that both contain. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conv/conv_cases.h"
#include "rivulet_crc32c.h"
#include "suite.h"

#ifndef RIVULET_TEST_DATA
#define RIVULET_TEST_DATA "tests/data"
#endif

static struct rvl_conv_reader *open_cases(const char *name, int count)
{
	struct rvl_conv_reader *r = NULL;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", RIVULET_TEST_DATA, name);
	ck_assert_int_eq(rvl_conv_open(path, &r), count);
	return r;
}

static void assert_same(const struct rvl_conv *a, const struct rvl_conv *b)
{
	ck_assert_uint_eq(a->p.index, b->p.index);
	ck_assert_uint_eq(a->x_bytes, b->x_bytes);
	ck_assert_uint_eq(a->w_bytes, b->w_bytes);
	ck_assert_uint_eq(a->ws_count, b->ws_count);
	ck_assert_mem_eq(a->x, b->x, a->x_bytes);
	ck_assert_mem_eq(a->w, b->w, a->w_bytes);
	ck_assert_mem_eq(a->ws, b->ws, 4 * a->ws_count);
	ck_assert(!a->bias == !b->bias);
	if (a->bias)
		ck_assert_mem_eq(a->bias, b->bias, 4u * a->p.m);
	ck_assert_uint_eq(a->y_crc32c, b->y_crc32c);
}

/*
 * A reader that generates a different input would report mismatches that the operator did not
 * cause.
 */
START_TEST(compact_cases_are_the_full_ones)
{
	struct rvl_conv_reader *full = open_cases("conv_500.bin", 500);
	struct rvl_conv_reader *compact = open_cases("conv_10000.bin", 10000);
	struct rvl_conv a, b;

	for (int i = 0; i < 500; i++) {
		ck_assert_int_eq(rvl_conv_next(full, &a), 1);
		ck_assert_int_eq(rvl_conv_next(compact, &b), 1);
		ck_assert_ptr_null(b.y);
		assert_same(&a, &b);
		ck_assert(rvl_conv_match(&b, a.y));
	}
	ck_assert_int_eq(rvl_conv_next(full, &a), 0);
	for (int i = 500; i < 10000; i++)
		ck_assert_int_eq(rvl_conv_next(compact, &b), 1);
	ck_assert_int_eq(rvl_conv_next(compact, &b), 0);
	rvl_conv_close(full);
	rvl_conv_close(compact);
}
END_TEST

START_TEST(one_wrong_value_does_not_match)
{
	struct rvl_conv_reader *full = open_cases("conv_500.bin", 500);
	struct rvl_conv_reader *compact = open_cases("conv_10000.bin", 10000);
	struct rvl_conv a, b;
	uint8_t *y;

	ck_assert_int_eq(rvl_conv_next(full, &a), 1);
	ck_assert_int_eq(rvl_conv_next(compact, &b), 1);
	y = malloc(a.y_bytes);
	memcpy(y, a.y, a.y_bytes);
	ck_assert(rvl_conv_match(&a, y) && rvl_conv_match(&b, y));
	y[a.y_bytes - 1] ^= 1;
	ck_assert(!rvl_conv_match(&a, y) && !rvl_conv_match(&b, y));
	free(y);
	rvl_conv_close(full);
	rvl_conv_close(compact);
}
END_TEST

START_TEST(other_files_are_refused)
{
	struct rvl_conv_reader *r = NULL;

	ck_assert_int_eq(rvl_conv_open(RIVULET_TEST_DATA "/vgg16.npy", &r), -EBADMSG);
	ck_assert_int_eq(rvl_conv_open(RIVULET_TEST_DATA "/absent", &r), -ENOENT);
	ck_assert_ptr_null(r);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("conv_cases");
	TCase *tc = tcase_create("files");

	tcase_add_test(tc, compact_cases_are_the_full_ones);
	tcase_add_test(tc, one_wrong_value_does_not_match);
	tcase_add_test(tc, other_files_are_refused);
	suite_add_tcase(suite, tc);
	return run_suite(suite);
}
