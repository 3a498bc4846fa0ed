// SPDX-License-Identifier: MIT
/* Identical binary tensor factorisation: the seed's figures, exactness, and the choice of a form.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chance.h"
#include "ibtf/cases.h"
#include "suite.h"

static double formula(uint32_t n, uint32_t m, uint32_t p, double rows, uint32_t a)
{
	return rivulet_ibtf_formula(&(struct rivulet_ibtf_shape){ n, m, p, false }, rows, a);
}

/* The example of the seed: 6 kernels of 256 weights of 4 bits. */
START_TEST(test_seed_example)
{
	static const double want[] = { 6192, 3120, 2112, 1632, 1440, 1280,
				       1536, 1536, 2304, 3840, 6912, 8704 };

	for (uint32_t a = 1; a <= 12; a++)
		ck_assert_double_eq(formula(256, 6, 4, 256, a), want[a - 1]);
	ck_assert_uint_eq(
		rivulet_ibtf_formula_best(&(struct rivulet_ibtf_shape){ 256, 6, 4, false }, 256),
		6);
}
END_TEST

START_TEST(test_lambert)
{
	ck_assert_double_eq_tol(rivulet_ibtf_lambert(0), 0, 1e-12);
	ck_assert_double_eq_tol(rivulet_ibtf_lambert(M_E), 1, 1e-12);
	ck_assert_double_eq_tol(rivulet_ibtf_lambert(1e6), 11.383358086140052, 1e-9);
	ck_assert_double_eq_tol(rivulet_ibtf_stationary(32), 4.11, 0.005);
	ck_assert_double_eq_tol(rivulet_ibtf_stationary(256), 6.26, 0.005);
	ck_assert_double_eq_tol(rivulet_ibtf_stationary(1024), 7.85, 0.005);
}
END_TEST

/* The width of the formula's minimum follows from the derivative but for the rounding of slices. */
START_TEST(test_stationary_is_minimum)
{
	for (double rows = 1; rows < 60000; rows *= 1.7) {
		double a = rivulet_ibtf_stationary(rows);

		ck_assert_double_eq_tol(exp2(a) * (a * M_LN2 - 1), rows, 1e-6 * rows);
	}
}
END_TEST

/* Table 2 of the seed: M = 4, N = 1024 and 32, dense weights of 1 to 8 bits. */
START_TEST(test_table_2)
{
	static const uint32_t a[] = { 4, 8, 6, 8, 7, 8, 7, 8 };
	static const double wide[] = { 1040, 1280, 2176, 2560, 3456, 3840, 4608, 5120 };

	for (uint32_t p = 1; p <= 8; p++) {
		struct rivulet_ibtf_shape s = { 1024, 4, p, false };

		ck_assert_uint_eq(rivulet_ibtf_formula_best(&s, 1024), a[p - 1]);
		ck_assert_double_eq(rivulet_ibtf_formula(&s, 1024, a[p - 1]), wide[p - 1]);
		s.n = 32;
		ck_assert_uint_eq(rivulet_ibtf_formula_best(&s, 32), 4);
		ck_assert_double_eq(rivulet_ibtf_formula(&s, 32, 4), 48 * p);
	}
}
END_TEST

/*
 * Table 3 of the seed: N = 1024, M = 4, p = 4, by formula (3), and the rates that the reference
 * counted on one draw of weights in slices of 4, 6 and 8 columns. A rate is compared with the mean
 * of several draws; those of few weights scatter more. The reference has 1.13 for slices of 8
 * columns at 90 %, where a slice expects 195 codes that are not 0, 38 of them different, and 494
 * adds to fold: 1.25.
 */
static const struct {
	double sparsity, adds, rate[3], scatter;
	uint32_t a;
} table_3[] = {
	{ 0, 2560, { 3.96, 5.12, 6.30 }, 0.01, 8 },
	{ 0.1, 2355, { 0 }, 0, 8 },
	{ 0.2, 2150, { 0 }, 0, 8 },
	{ 0.3, 1946, { 0 }, 0, 8 },
	{ 0.4, 1741, { 0 }, 0, 8 },
	{ 0.5, 1536, { 3.92, 3.98, 3.76 }, 0.01, 8 },
	{ 0.6, 1331, { 0 }, 0, 8 },
	{ 0.7, 1114, { 0 }, 0, 6 },
	{ 0.8, 806, { 3.81, 3.06, 2.08 }, 0.04, 6 },
	{ 0.85, 653, { 3.76, 2.84, 1.66 }, 0.04, 6 },
	{ 0.9, 474, { 3.64, 2.55, 1.25 }, 0.05, 4 },
	{ 0.95, 269, { 3.32, 1.91, 0.71 }, 0.05, 4 },
};

#define DRAWS 20

static double counted_rate(double sparsity, uint32_t a)
{
	struct rivulet_ibtf_shape s = { 1024, 4, 4, false };
	uint64_t seed = 7, eq_mac = 0, adds = 0;

	for (uint32_t i = 0; i < DRAWS; i++) {
		struct ibtf_product p;

		ibtf_product_new(&p, s, sparsity, &seed);
		rivulet_ibtf_cut_evenly(&s, a, &p.cut);
		eq_mac += rivulet_ibtf_nonzero(&s, p.w) * s.p;
		adds += rivulet_ibtf_count(&s, p.w, &p.cut, p.scratch);
		ibtf_product_free(&p);
	}
	return (double)eq_mac / (double)adds;
}

START_TEST(test_table_3)
{
	struct rivulet_ibtf_shape s = { 1024, 4, 4, false };
	double rows = 1024 * (1 - table_3[_i].sparsity);

	ck_assert_uint_eq(rivulet_ibtf_formula_best(&s, rows), table_3[_i].a);
	ck_assert_double_eq_tol(rivulet_ibtf_formula(&s, rows, table_3[_i].a), table_3[_i].adds,
				0.51);
	for (uint32_t i = 0; i < 3 && table_3[_i].rate[i] > 0; i++) {
		double want = table_3[_i].rate[i];

		ck_assert_double_eq_tol(counted_rate(table_3[_i].sparsity, 4 + 2 * i), want,
					table_3[_i].scatter * want);
	}
}
END_TEST

/* The adds that the reference measured on the seed's example: 1899 at a = 3, 1262 at a = 6. */
START_TEST(test_counts)
{
	struct rivulet_ibtf_shape s = { 256, 6, 4, false };
	struct ibtf_product p;
	uint64_t seed = 1;

	ibtf_product_new(&p, s, 0, &seed);
	rivulet_ibtf_cut_evenly(&s, 3, &p.cut);
	ck_assert_uint_eq(p.cut.n, 8);
	ck_assert_double_eq_tol((double)rivulet_ibtf_count(&s, p.w, &p.cut, p.scratch), 1899, 50);
	rivulet_ibtf_cut_evenly(&s, 6, &p.cut);
	ck_assert_uint_eq(p.cut.n, 4);
	ck_assert_double_eq_tol((double)rivulet_ibtf_count(&s, p.w, &p.cut, p.scratch), 1262, 10);
	ibtf_product_free(&p);
}
END_TEST

/*
 * Formula (3) is no upper bound where a slice spans kernels of sparse weights; fitted slices end
 * with the kernels there, and take fewer adds than the formula.
 */
START_TEST(test_sparse_slices_end_with_kernels)
{
	struct rivulet_ibtf_shape s = { 1024, 4, 4, false };
	struct ibtf_product p;
	uint64_t seed = 3, even;
	uint32_t at = 0;

	ibtf_product_new(&p, s, 0.8, &seed);
	rivulet_ibtf_cut_evenly(&s, 6, &p.cut);
	even = rivulet_ibtf_count(&s, p.w, &p.cut, p.scratch);
	ck_assert_double_gt((double)even, rivulet_ibtf_formula(&s, 1024 * 0.2, 6));
	ck_assert_uint_lt(rivulet_ibtf_cut_best(&s, p.w, p.scratch, &p.cut), even);
	for (uint32_t i = 0; i < p.cut.n; i++) {
		ck_assert_uint_eq(at / 4, (at + p.cut.width[i] - 1) / 4);
		at += p.cut.width[i];
	}
	ck_assert_uint_eq(at, 16);
	ibtf_product_free(&p);
}
END_TEST

/* No cut of a small matrix has fewer adds than the one that cut_best() finds. */
START_TEST(test_fitted_is_least)
{
	uint64_t seed = (uint64_t)_i + 1, least = UINT64_MAX, found;
	struct rivulet_ibtf_shape s = { 20, 3, 3, _i & 1 };
	struct ibtf_product p;

	ibtf_product_new(&p, s, 0.1 * (_i % 8), &seed);
	found = rivulet_ibtf_cut_best(&s, p.w, p.scratch, &p.cut);
	ck_assert_uint_eq(rivulet_ibtf_count(&s, p.w, &p.cut, p.scratch), found);
	for (uint32_t ends = 0; ends < 1u << 8; ends++) {
		uint64_t adds;

		p.cut.n = 0;
		for (uint32_t c = 0, from = 0; c < 9; c++)
			if (c == 8 || ends >> c & 1) {
				p.cut.width[p.cut.n++] = (uint8_t)(c + 1 - from);
				from = c + 1;
			}
		adds = rivulet_ibtf_count(&s, p.w, &p.cut, p.scratch);
		least = adds < least ? adds : least;
	}
	ck_assert_uint_eq(found, least);
	ibtf_product_free(&p);
}
END_TEST

START_TEST(test_kernel_cuts)
{
	static const uint8_t want[][4] = { { 3, 4, 3, 4 }, { 7, 7, 0, 0 }, { 14, 0, 0, 0 } };
	uint8_t width[14];
	struct rivulet_ibtf_slices cut = { .width = width };
	struct rivulet_ibtf_shape s = { 8, 2, 7, false };
	const uint32_t a[] = { 5, 9, 14 };

	for (uint32_t i = 0; i < 2; i++) {
		rivulet_ibtf_cut_kernels(&s, a[i], &cut);
		ck_assert_uint_eq(cut.n, i ? 2 : 4);
		for (uint32_t k = 0; k < cut.n; k++)
			ck_assert_uint_eq(width[k], want[i][k]);
	}
}
END_TEST

/* Buckets win where N > M * p, tables where M * p > N. */
START_TEST(test_dual)
{
	static const struct rivulet_ibtf_shape shapes[] = { { 1024, 4, 4, true },
							    { 32, 256, 4, true } };
	struct rivulet_ibtf_choice c;
	struct ibtf_product p;
	uint64_t seed = 5;

	ibtf_product_new(&p, shapes[_i], 0, &seed);
	rivulet_ibtf_choose(&p.shape, p.w, p.scratch, &p.cut, &c);
	ck_assert_uint_eq(c.form == RIVULET_IBTF_TABLES, _i);
	ck_assert_uint_eq(c.adds, _i ? c.tables : c.fitted < c.even ? c.fitted : c.even);
	ck_assert_uint_lt(c.adds, c.eq_mac);
	ck_assert_uint_eq(c.eq_mac, (uint64_t)p.shape.n * p.shape.m * 4);
	ck_assert_uint_eq(c.storage, c.eq_mac);
	ibtf_product_free(&p);
}
END_TEST

/* Sparse codes are stored by their distances, and take less than the weights. */
START_TEST(test_storage)
{
	struct rivulet_ibtf_shape s = { 4096, 4, 4, true };
	struct ibtf_product p;
	uint64_t seed = 5, dense = 4096 * 16, bits;

	ibtf_product_new(&p, s, 0.95, &seed);
	rivulet_ibtf_cut_kernels(&s, 4, &p.cut);
	bits = rivulet_ibtf_storage(&s, p.w, &p.cut, p.scratch);
	/* 819 codes of 4 bits with distances of 5: 20 on average, 31 at most in most cases */
	ck_assert_uint_lt(bits, 819 * 12);
	ck_assert_uint_gt(bits, 819 * 8);
	ck_assert_uint_lt(bits, dense / 6);
	ibtf_product_free(&p);
}
END_TEST

/* The storage of a choice is that of its form, also where fitted slices take as many adds. */
START_TEST(test_storage_of_choice)
{
	struct rivulet_ibtf_shape s = { 33, 3, 3, false };
	uint32_t even = 0;

	for (uint64_t seed = 0; seed < 300; seed++) {
		struct rivulet_ibtf_choice c;
		struct ibtf_product p;
		uint64_t state = seed;

		ibtf_product_new(&p, s, 0.9, &state);
		rivulet_ibtf_choose(&s, p.w, p.scratch, &p.cut, &c);
		if (c.form == RIVULET_IBTF_EVEN) {
			rivulet_ibtf_cut_evenly(&s, c.even_a, &p.cut);
			ck_assert_uint_eq(c.storage,
					  rivulet_ibtf_storage(&s, p.w, &p.cut, p.scratch));
			even++;
		}
		ibtf_product_free(&p);
	}
	ck_assert_uint_gt(even, 0);
}
END_TEST

START_TEST(test_bits)
{
	static const struct {
		int16_t w[2];
		uint32_t bits;
		bool is_signed;
	} want[] = {
		{ { 0, 0 }, 1, false },	    { { 0, 1 }, 1, false },   { { 3, 4 }, 3, false },
		{ { 255, 0 }, 8, false },   { { 0, -1 }, 1, true },   { { 1, -1 }, 2, true },
		{ { -128, 127 }, 8, true }, { { -129, 0 }, 9, true }, { { -2, 0 }, 2, true },
		{ { -1, 7 }, 4, true },
	};
	bool is_signed;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		ck_assert_uint_eq(rivulet_ibtf_bits(want[i].w, 2, &is_signed), want[i].bits);
		ck_assert(is_signed == want[i].is_signed);
	}
}
END_TEST

/* make check-ibtf tries 100,000. */
START_TEST(test_random)
{
	char text[100];

	for (uint64_t seed = 0; seed < 2000; seed++) {
		const char *wrong = ibtf_random_case(seed);

		if (wrong) {
			snprintf(text, sizeof(text), "case %llu: %s", (unsigned long long)seed,
				 wrong);
			ck_abort_msg("%s", text);
		}
	}
}
END_TEST

/* ---- several pixels at once ---- */

#define MOST_INPUTS 700

static _Alignas(64) int16_t lanes_x[MOST_INPUTS * RIVULET_IBTF_LANES];
static _Alignas(64) int32_t lanes_y[12 * RIVULET_IBTF_LANES];

static void compare_lanes(const struct ibtf_product *p, const int32_t *y)
{
	for (uint32_t k = 0; k < p->shape.m; k++)
		for (uint32_t i = 0; i < RIVULET_IBTF_LANES; i++) {
			int32_t want = 0;

			for (uint32_t n = 0; n < p->shape.n; n++)
				want += lanes_x[n * RIVULET_IBTF_LANES + i] * p->w[(size_t)k * p->shape.n + n];
			ck_assert_int_eq(y[k * RIVULET_IBTF_LANES + i], want);
		}
}

/*
 * Every set of registers that the processor has gives the integers of a plain product; also where most
 * weights are equal, so that a bucket gets more inputs of the largest magnitude than it holds.
 */
START_TEST(test_lanes)
{
	static struct rivulet_ibtf_lanes scratch;

	if (!rivulet_ibtf_has((enum rivulet_ibtf_vector)_i))
		return;
	for (uint64_t i = 0; i < (uint64_t)random_cases(100); i++) {
		uint64_t seed = i;
		struct rivulet_ibtf_shape s = { .n = chance_range(&seed, 1, MOST_INPUTS),
						.m = chance_range(&seed, 1, 12),
						.p = chance_range(&seed, 1, RIVULET_IBTF_BITS),
						.is_signed = chance_range(&seed, 0, 1) };
		struct ibtf_product p;
		uint16_t *codes;

		ibtf_product_new(&p, s, chance_uniform(&seed, 0, 0.9), &seed);
		for (size_t k = 0; i % 3 == 0 && k < (size_t)s.n * s.m; k++)
			p.w[k] = p.w[0];
		for (size_t k = 0; k < (size_t)s.n * RIVULET_IBTF_LANES; k++)
			lanes_x[k] = i % 4 ? (int16_t)((int32_t)chance_range(&seed, 0, 511) - 256) :
				     i % 8 ? 255 : -256;
		rivulet_ibtf_cut_evenly(&s, chance_range(&seed, 1, RIVULET_IBTF_LANES_WIDEST), &p.cut);
		codes = calloc((size_t)p.cut.n * s.n, sizeof(*codes));
		ck_assert_ptr_nonnull(codes);
		rivulet_ibtf_factorise(&s, p.w, &p.cut, codes);
		rivulet_ibtf_run_lanes(&s, &p.cut, codes, lanes_x, (enum rivulet_ibtf_vector)_i, &scratch,
				       lanes_y);
		compare_lanes(&p, lanes_y);
		free(codes);
		ibtf_product_free(&p);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ibtf");
	TCase *t = add_case(s, "formulas", 60, NULL, NULL);

	tcase_add_test(t, test_seed_example);
	tcase_add_test(t, test_lambert);
	tcase_add_test(t, test_stationary_is_minimum);
	tcase_add_test(t, test_table_2);
	tcase_add_loop_test(t, test_table_3, 0, sizeof(table_3) / sizeof(table_3[0]));
	t = add_case(s, "counts", 60, NULL, NULL);
	tcase_add_test(t, test_counts);
	tcase_add_test(t, test_sparse_slices_end_with_kernels);
	tcase_add_loop_test(t, test_fitted_is_least, 0, 16);
	tcase_add_test(t, test_kernel_cuts);
	tcase_add_loop_test(t, test_dual, 0, 2);
	tcase_add_test(t, test_storage);
	tcase_add_test(t, test_storage_of_choice);
	tcase_add_test(t, test_bits);
	t = add_case(s, "exact", 300, NULL, NULL);
	tcase_add_test(t, test_random);
	tcase_add_loop_test(t, test_lanes, 0, RIVULET_IBTF_VECTORS);
	return run_suite(s);
}
