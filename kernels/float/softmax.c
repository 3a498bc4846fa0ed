/* SPDX-License-Identifier: MIT */
/* Softmax, and its exponentials. Sums are of double, in an order that depends on the length alone. */
#include "float/softmax.h"

#include "isa.h"
#include "sizes.h"

#define PART 256	/* elements of a line, or of short lines, at a time */
#define COLUMNS 128	/* most columns at a time */
#define LEAST_COLUMNS 16
#define BLOCK 8192	/* elements of these columns, which stay in the first-level cache */
#define LANES 4

double rvl_f32_exp_line(const float *x, int64_t n, int64_t step, float top, float *y)
{
	double sum = 0.0;
	float part[PART];

	for (int64_t at = 0; at < n; at += PART) {
		int64_t left = n - at < PART ? n - at : PART;

		for (int64_t i = 0; i < left; i++)
			part[i] = x[(at + i) * step] - top;
		rvl_f32_kernels()->math->exp(part, left, part);
		for (int64_t i = 0; i < left; i++) {
			y[(at + i) * step] = part[i];
			sum += (double)part[i];
		}
	}
	return sum;
}

static inline float larger(float a, float b)
{
	return a > b ? a : b;
}

static float largest(const float *x, int64_t n)
{
	float top[LANES], best = x[0];
	int64_t i = 0;

	for (int j = 0; j < LANES; j++)
		top[j] = x[0];
	for (; i + LANES <= n; i += LANES)
		for (int j = 0; j < LANES; j++)
			top[j] = larger(x[i + j], top[j]);
	for (; i < n; i++)
		best = larger(x[i], best);
	for (int j = 0; j < LANES; j++)
		best = larger(top[j], best);
	return best;
}

/* LANES sums, then what is left. */
static double sum_of(const float *x, int64_t n)
{
	double sum[LANES] = { 0 }, all = 0;
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (int j = 0; j < LANES; j++)
			sum[j] += (double)x[i + j];
	for (int j = 0; j < LANES; j++)
		all += sum[j];
	for (; i < n; i++)
		all += (double)x[i];
	return all;
}

static void scale(const float *x, int64_t n, double factor, float *y)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = (float)((double)x[i] * factor);
}

/* Lines of at most PART elements together. */
static void short_rows(const float *x, int64_t rows, int64_t n, float *y)
{
	float part[PART];

	for (int64_t r = 0; r < rows; r++) {
		float top = largest(x + r * n, n);

		for (int64_t i = 0; i < n; i++)
			part[r * n + i] = x[r * n + i] - top;
	}
	rvl_f32_kernels()->math->exp(part, rows * n, part);
	for (int64_t r = 0; r < rows; r++)
		scale(part + r * n, n, 1.0 / sum_of(part + r * n, n), y + r * n);
}

void rvl_f32_softmax_rows(const float *x, int64_t rows, int64_t n, float *y)
{
	int64_t many = n <= PART ? PART / n : 1;

	for (int64_t r = 0; r < rows; r += many, x += many * n, y += many * n) {
		if (n <= PART)
			short_rows(x, rvl_least(many, rows - r), n, y);
		else
			scale(y, n, 1.0 / rvl_f32_exp_line(x, n, 1, largest(x, n), y), y);
	}
}

static void block_of_columns(const float *x, int64_t n, int64_t columns, int64_t step, float *y)
{
	float top[COLUMNS];
	double sum[COLUMNS] = { 0 };

	for (int64_t i = 0; i < columns; i++)
		top[i] = x[i];
	for (int64_t k = 1; k < n; k++)
		for (int64_t i = 0; i < columns; i++)
			top[i] = x[k * step + i] > top[i] ? x[k * step + i] : top[i];
	for (int64_t k = 0; k < n; k++) {
		float *line = y + k * step;

		for (int64_t i = 0; i < columns; i++)
			line[i] = x[k * step + i] - top[i];
		rvl_f32_kernels()->math->exp(line, columns, line);
		for (int64_t i = 0; i < columns; i++)
			sum[i] += (double)line[i];
	}
	for (int64_t i = 0; i < columns; i++)
		sum[i] = 1.0 / sum[i];
	for (int64_t k = 0; k < n; k++)
		for (int64_t i = 0; i < columns; i++)
			y[k * step + i] = (float)((double)y[k * step + i] * sum[i]);
}

void rvl_f32_softmax_columns(const float *x, int64_t n, int64_t columns, int64_t step, float *y)
{
	int64_t many = BLOCK / n < LEAST_COLUMNS ? LEAST_COLUMNS : rvl_least(BLOCK / n, COLUMNS);

	for (int64_t i = 0; i < columns; i += many)
		block_of_columns(x + i, n, rvl_least(many, columns - i), step, y + i);
}
