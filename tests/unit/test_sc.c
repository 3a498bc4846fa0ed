// SPDX-License-Identifier: MIT
/*
 * Stochastic arithmetic: the sequences and the product table by their published values, all
 * implementations of a sum compared on random data, and the circuits by their defining properties.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_sc.h"
#include "suite.h"

#define TERMS 300

static uint16_t counts[257 * 257];
static struct rivulet_sc streams;
static struct rivulet_sc_table table;
static uint16_t x[TERMS];
static int16_t w[TERMS];

static void sobol_is(uint32_t dim, uint32_t bits, uint32_t n, const uint32_t *want)
{
	uint32_t got[16];

	rivulet_sobol(dim, n, got);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_eq(got[i] >> (32 - bits), want[i]);
}

START_TEST(sequences)
{
	sobol_is(1, 4, 16, (uint32_t[]){ 0, 8, 12, 4, 6, 14, 10, 2, 3, 11, 15, 7, 5, 13, 9, 1 });
	sobol_is(2, 4, 16, (uint32_t[]){ 0, 8, 4, 12, 6, 14, 2, 10, 5, 13, 1, 9, 3, 11, 7, 15 });
	sobol_is(3, 4, 16, (uint32_t[]){ 0, 8, 4, 12, 10, 2, 14, 6, 15, 7, 11, 3, 5, 13, 1, 9 });
	sobol_is(1, 8, 8, (uint32_t[]){ 0, 128, 192, 64, 96, 224, 160, 32 });
	sobol_is(2, 8, 8, (uint32_t[]){ 0, 128, 64, 192, 96, 224, 32, 160 });
}
END_TEST

/*
 * Dyadic: sequences of n bits over their whole period. Prefix: sequences of 8 bits, stopped after
 * that many cycles.
 */
static const struct {
	uint32_t bits, length, sum;
	uint64_t hash;
} golden[] = {
	{ 4, 16, 1160, 0x61753086a8958791 },   { 5, 32, 8752, 0xfe5892494de8766d },
	{ 6, 64, 67872, 0xabaa3b3125953301 },  { 7, 128, 534720, 0xe3228b0db58f0de1 },
	{ 8, 256, 4227200, 0x37ecd333d0b2e079 }, { 8, 8, 0, 0xa1397d724bc27f99 },
	{ 8, 13, 0, 0x00f45faf5ff3e599 },      { 8, 20, 0, 0x1ce1cbd38e7a3d99 },
	{ 8, 32, 0, 0x41d30021f46ea099 },      { 8, 36, 0, 0xc582a122242e50f9 },
	{ 8, 45, 0, 0xee059793f019aef9 },      { 8, 64, 0, 0x4fd78a18ce99e039 },
	{ 8, 100, 0, 0xeee93c7a6ecf6bc9 },     { 8, 128, 0, 0x4c4472df81d074e1 },
};
#define GOLDEN (int)(sizeof(golden) / sizeof(golden[0]))

START_TEST(product_table)
{
	uint32_t row = (1u << golden[_i].bits) + 1, sum = 0;

	rivulet_sc_counts(golden[_i].bits, golden[_i].length, counts);
	for (uint32_t i = 0; i < row * row; i++)
		sum += counts[i];
	if (golden[_i].sum)
		ck_assert_uint_eq(sum, golden[_i].sum);
	ck_assert_uint_eq(rivulet_sc_hash(counts, row * row), golden[_i].hash);
}
END_TEST

static void random_codes(uint32_t bits)
{
	for (int i = 0; i < TERMS; i++) {
		x[i] = rand() % 4 ? rand() % ((1u << bits) + 1) : 0;
		w[i] = rand() % (2 * (1u << bits) + 1) - (1u << bits);
	}
}

/* AND and popcount, simulation cycle by cycle, and the table of counts give the same number. */
START_TEST(three_sums_agree)
{
	struct rivulet_sc_adder a = { .circuit = RIVULET_SC_AND_BIN };

	for (int n = 0; n < 60; n++) {
		uint32_t bits = 4 + rand() % 5, row = (1u << bits) + 1;
		uint32_t length = 1 + rand() % (1u << bits);
		int32_t sum = 0;

		rivulet_sc_init(&streams, bits, length);
		rivulet_sc_counts(bits, length, counts);
		random_codes(bits);
		for (int i = 0; i < TERMS; i++)
			sum += (w[i] < 0 ? -1 : 1) * (int32_t)counts[x[i] * row + abs(w[i])];
		ck_assert_int_eq(rivulet_sc_sum(&streams, &a, x, w, TERMS), sum);
		ck_assert_int_eq(rivulet_sc_sum_serial(bits, length, x, w, TERMS), sum);
	}
}
END_TEST

/* The table of the device's operands: w has the code 2|w| and a sign. */
START_TEST(device_operands)
{
	struct rivulet_sc_adder a = { .circuit = RIVULET_SC_AND_BIN };

	for (uint32_t length = RIVULET_SC_MIN; length <= RIVULET_SC_MAX; length += 31) {
		rivulet_sc_init(&streams, 8, length);
		rivulet_sc_table_fill(&table, length);
		for (int i = 0; i < 65536; i++) {
			uint16_t cx = rivulet_sc_x(RIVULET_SC_AND_BIN, i >> 8);
			int16_t cw = rivulet_sc_w(RIVULET_SC_AND_BIN, (int8_t)i);

			ck_assert_int_eq(table.t[i >> 8][i & 255],
					 rivulet_sc_sum(&streams, &a, &cx, &cw, 1));
		}
	}
}
END_TEST

static int32_t sum_by(uint32_t circuit, uint32_t blocks, uint32_t scale)
{
	struct rivulet_sc_adder a = { circuit, blocks, scale };

	return rivulet_sc_sum(&streams, &a, x, w, TERMS);
}

/* AND-LOOP: the binary sum in steps of S for any number of blocks. With S = 1 it equals AND-BIN. */
START_TEST(output_revision)
{
	for (int n = 0; n < 200; n++) {
		uint32_t length = 8 + rand() % 249, scale = 1u << rand() % 7;
		int32_t all, most = length * scale, revised;

		rivulet_sc_init(&streams, 8, length);
		random_codes(8);
		for (int i = 0; i < TERMS; i++)
			w[i] = w[i] / 16;
		all = sum_by(RIVULET_SC_AND_BIN, 1, 1);
		revised = sum_by(RIVULET_SC_AND_LOOP, 1 + rand() % 8, scale);
		ck_assert_int_eq(revised % (int32_t)scale, 0);
		if (abs(all) < most)
			ck_assert_int_le(2 * abs(revised - all), scale);
		else
			ck_assert_int_eq(abs(revised), most);
		if (abs(all) < most && scale == 1)
			ck_assert_int_eq(revised, all);
	}
}
END_TEST

/* AND-ACC: each block drops less than S of its sum, and outputs at most one bit per cycle. */
START_TEST(blocks_drop_remainders)
{
	int dropped = 0;

	for (int n = 0; n < 200; n++) {
		uint32_t length = 8 + rand() % 249, blocks = 1 + rand() % 8;
		int32_t all, lossy;

		rivulet_sc_init(&streams, 8, length);
		random_codes(8);
		/* Columns stay below S, so that no block keeps a larger remainder. */
		for (int i = 0; i < TERMS; i++)
			w[i] = i < 40 ? w[i] : 0;
		all = sum_by(RIVULET_SC_AND_BIN, 1, 1);
		lossy = sum_by(RIVULET_SC_AND_ACC, blocks, 64);
		ck_assert_int_lt(abs(all - lossy), 64 * blocks);
		ck_assert_int_le(abs(lossy), 64 * length);
		ck_assert_int_eq(lossy % 64, 0);
		dropped += lossy != all;
	}
	ck_assert_int_gt(dropped, 100);
}
END_TEST

/* Inputs for which the circuit is exact: all zero, and one input of full scale. */
START_TEST(bipolar_zero)
{
	rivulet_sc_init(&streams, 8, 256);
	for (int i = 0; i < TERMS; i++) {
		x[i] = rivulet_sc_x(RIVULET_SC_UGEMM, 0);
		w[i] = rivulet_sc_w(RIVULET_SC_UGEMM, 0);
	}
	ck_assert_uint_eq(x[0], 128);
	ck_assert_int_eq(w[0], 128);
	ck_assert_int_lt(abs(sum_by(RIVULET_SC_UGEMM, 1, 64)), 64 * 4);
	/*
	 * 300 inputs of -1 x +1 through the multiplexer of 512: 300 / 512 of its selections, the
	 * others alternate.
	 */
	for (int i = 0; i < TERMS; i++) {
		x[i] = 0;
		w[i] = 256;
	}
	ck_assert_int_lt(abs(sum_by(RIVULET_SC_XNOR_MUX, 1, 1) + 300 * 256), 512 * 8);
}
END_TEST

START_TEST(requantisation)
{
	ck_assert_int_eq(rivulet_sc_bias(32768, 64), 64);
	ck_assert_int_eq(rivulet_sc_bias(-32768, 64), -64);
	ck_assert_int_eq(rivulet_sc_bias(255, 64), 0);
	ck_assert_int_eq(rivulet_sc_bias(256, 64), 1);
	ck_assert_int_eq(rivulet_sc_bias(-256, 64), 0);
	ck_assert_int_eq(rivulet_sc_bias(INT32_MIN, 256), -(1 << 24));
	ck_assert(rivulet_sc_mult(0.5f, 256) == 64.0f);
}
END_TEST

START_TEST(names)
{
	for (uint32_t i = 0; i < RIVULET_SC_CIRCUIT_COUNT; i++)
		ck_assert_int_eq(rivulet_sc_circuit_find(rivulet_sc_circuit_name(i)), (int)i);
	ck_assert_int_eq(rivulet_sc_circuit_find("and"), -1);
	ck_assert_ptr_null(rivulet_sc_circuit_name(RIVULET_SC_CIRCUIT_COUNT));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sc");
	TCase *t = tcase_create("sc");

	srand(20261121);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, sequences);
	tcase_add_loop_test(t, product_table, 0, GOLDEN);
	tcase_add_test(t, three_sums_agree);
	tcase_add_test(t, device_operands);
	tcase_add_test(t, output_revision);
	tcase_add_test(t, blocks_drop_remainders);
	tcase_add_test(t, bipolar_zero);
	tcase_add_test(t, requantisation);
	tcase_add_test(t, names);
	suite_add_tcase(s, t);
	return run_suite(s);
}
