// SPDX-License-Identifier: MIT
/*
 * Root mean square error of y = sum x w for every circuit, with operands of n = log2 L bits,
 * compared with the published errors: x uniform in [0, 1], w uniform in [-1, 1], 2000 trials. Fails
 * if an error exceeds its bound, or if the order of the circuits differs at 64 bits or more.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "rivulet_sc.h"

#define TRIALS 2000
#define TERMS  784
#define SIZES  3
#define LENGTHS 5

static const int size_of[SIZES] = { 64, 256, 784 };

/* By number of terms, length 16 to 256, and circuit in the order of enum rivulet_sc_circuit. */
static const double published[SIZES][LENGTHS][RIVULET_SC_CIRCUIT_COUNT] = {
	{ { 0.257, 0.378, 1.621, 2.310, 3.075, 13.53 },
	  { 0.137, 0.198, 0.873, 1.588, 1.540, 9.34 },
	  { 0.072, 0.103, 0.446, 1.148, 0.786, 6.63 },
	  { 0.039, 0.052, 0.223, 0.802, 0.394, 4.31 },
	  { 0.020, 0.027, 0.112, 0.570, 0.200, 2.58 } },
	{ { 0.534, 0.777, 3.345, 8.07, 9.94, 56.1 },
	  { 0.268, 0.400, 1.803, 5.41, 4.87, 39.2 },
	  { 0.144, 0.203, 0.922, 4.52, 2.55, 28.3 },
	  { 0.076, 0.105, 0.456, 3.23, 1.27, 19.4 },
	  { 0.040, 0.054, 0.235, 2.32, 0.638, 12.8 } },
	{ { 0.917, 1.474, 6.58, 16.8, 26.7, 228 },
	  { 0.464, 0.736, 3.63, 16.0, 13.4, 148 },
	  { 0.248, 0.386, 1.872, 10.0, 7.17, 103 },
	  { 0.135, 0.198, 0.932, 7.72, 3.59, 68.9 },
	  { 0.070, 0.102, 0.472, 4.71, 1.80, 48.7 } },
};

/* Maximum ratio of an error to the published one. */
static const double bound[RIVULET_SC_CIRCUIT_COUNT] = { 1.15, 1.2, 1.25, 1.25, 1.25, 1.25 };

/* From the lowest error to the highest. */
static const int order[] = { RIVULET_SC_AND_LOOP, RIVULET_SC_AND_ACC, RIVULET_SC_UGEMM,
			     RIVULET_SC_AND_SEP, RIVULET_SC_XNOR_MUX };

static int failures;

struct trial {
	uint16_t x[2][TERMS]; /* unipolar, bipolar */
	int16_t w[2][TERMS];
	double y;
};

static void make_trial(struct trial *t, int n, int length)
{
	t->y = 0;
	for (int i = 0; i < n; i++) {
		double x = drand48(), w = 2 * drand48() - 1;

		t->y += x * w;
		t->x[0][i] = (uint16_t)lround(x * length);
		t->w[0][i] = (int16_t)lround(w * length);
		t->x[1][i] = (uint16_t)lround((x + 1) / 2 * length);
		t->w[1][i] = (int16_t)lround((w + 1) / 2 * length);
	}
}

static uint32_t power_of_two(double least)
{
	uint32_t s = 1;

	while (s < least)
		s *= 2;
	return s;
}

/*
 * S exceeds 3.9 standard deviations of the sum; for one-sided sums, their mean plus 3 deviations.
 */
static uint32_t scale_of(int circuit, int n)
{
	if (circuit == RIVULET_SC_AND_SEP)
		return power_of_two(n / 8.0 + 3 * sqrt(n * (1 / 18.0 - 1 / 64.0)));
	return power_of_two(3.9 * sqrt(n / 9.0));
}

static void measure(int n, int bits, double *rmse)
{
	static struct rivulet_sc s;
	static struct trial t;
	double sum[RIVULET_SC_CIRCUIT_COUNT] = { 0 };

	rivulet_sc_init(&s, bits, 1u << bits);
	for (int i = 0; i < TRIALS; i++) {
		make_trial(&t, n, 1 << bits);
		for (int c = 0; c < RIVULET_SC_CIRCUIT_COUNT; c++) {
			struct rivulet_sc_adder a = { c, 4, scale_of(c, n) };
			int form = rivulet_sc_bipolar(c);
			double e = (double)rivulet_sc_sum(&s, &a, t.x[form], t.w[form],
							  n) / (1 << bits);

			sum[c] += (e - t.y) * (e - t.y);
		}
	}
	for (int c = 0; c < RIVULET_SC_CIRCUIT_COUNT; c++)
		rmse[c] = sqrt(sum[c] / TRIALS);
}

static void figure(int n, int circuit, int length, double rmse)
{
	char name[16];
	int i = 0;

	for (const char *p = rivulet_sc_circuit_name(circuit); *p; p++)
		name[i++] = *p == '-' ? '_' : *p;
	name[i] = 0;
	if (n == 256)
		printf("figure sc.rmse.%s.%d %.4g 1\n", name, length, rmse);
	else
		printf("figure sc.rmse.n%d.%s.%d %.4g 1\n", n, name, length, rmse);
}

static void judge(int size, int at, const double *rmse)
{
	int n = size_of[size], length = 16 << at;

	for (int c = 0; c < RIVULET_SC_CIRCUIT_COUNT; c++) {
		figure(n, c, length, rmse[c]);
		if (rmse[c] <= bound[c] * published[size][at][c])
			continue;
		printf("not ok - %s, %d terms, %d bits: %.4g, published %.4g, bound %.2f\n",
		       rivulet_sc_circuit_name(c), n, length, rmse[c], published[size][at][c],
			       bound[c]);
		failures++;
	}
	for (size_t i = 1; length >= 64 && i < sizeof(order) / sizeof(order[0]); i++) {
		if (rmse[order[i - 1]] < rmse[order[i]])
			continue;
		printf("not ok - %d terms, %d bits: %s is no better than %s\n", n, length,
		       rivulet_sc_circuit_name(order[i - 1]), rivulet_sc_circuit_name(order[i]));
		failures++;
	}
}

int main(void)
{
	srand48(20261121);
	for (int size = 0; size < SIZES; size++) {
		for (int at = 0; at < LENGTHS; at++) {
			double rmse[RIVULET_SC_CIRCUIT_COUNT];

			measure(size_of[size], 4 + at, rmse);
			judge(size, at, rmse);
		}
	}
	return failures != 0;
}
