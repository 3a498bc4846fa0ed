/* SPDX-License-Identifier: MIT */
/* Micro-kernels in plain C, for processors without a set of their own. */
#include <string.h>

#include "int8/int8.h"
#include "qmath.h"

#define MR 4
#define NR 8

static void requant(const int32_t *sum, const float *scale, const struct rvl_i8_post *post, int n,
		    uint8_t *dst)
{
	for (int j = 0; j < n; j++) {
		float v = rvl_clampf((float)sum[j] * scale[j], post->lo, post->hi);

		dst[j] = (uint8_t)((int32_t)rintf(v) + post->zp);
	}
}

static void requant16(const int32_t *sum, const float *scale, const struct rvl_i8_post *post,
		      uint8_t *dst)
{
	requant(sum, scale, post, 16, dst);
}

static void gemm_row(const struct rvl_i8_gemm_call *c, int row)
{
	const int8_t *w = c->w;
	int32_t sum[NR];

	memcpy(sum, c->bias, sizeof(sum));
	for (int64_t t = 0; t < c->taps; t++) {
		const uint8_t *x = c->a[t * MR + row];

		for (int64_t k = 0; k < c->kc; k++, w += NR) {
			int32_t v = rvl_ld8(x, k, c->x_u8);

			for (int j = 0; j < NR; j++)
				sum[j] = rvl_wrap_add(sum[j], v * w[j]);
		}
	}
	if (c->sums)
		memcpy(c->sums + row * NR, sum, sizeof(sum));
	else
		requant(sum, c->scale, c->post, c->cols, c->y + row * c->y_stride);
}

static void gemm(const struct rvl_i8_gemm_call *c)
{
	for (int i = 0; i < c->rows; i++)
		gemm_row(c, i);
}

static void dw_tile(const struct rvl_i8_dw_call *c, int64_t pixel, int64_t at)
{
	int n = c->channels - at < NR ? (int)(c->channels - at) : NR;
	const int8_t *w = (const int8_t *)c->w + at * c->taps;
	int32_t sum[NR];

	memcpy(sum, c->bias + at, sizeof(sum));
	for (int64_t t = 0; t < c->taps; t++, w += NR)
		for (int j = 0; j < n; j++)
			sum[j] = rvl_wrap_add(sum[j], w[j] * rvl_ld8(c->p[t] + pixel * c->x_step, at + j,
								     c->x_u8));
	requant(sum, c->scale + at, c->post, n, c->y + pixel * c->y_stride + at);
}

static void dw(const struct rvl_i8_dw_call *c)
{
	for (int64_t i = 0; i < c->pixels; i++)
		for (int64_t at = 0; at < c->channels; at += NR)
			dw_tile(c, i, at);
}

const struct rvl_i8_kernels rvl_i8_scalar = {
	.mr = MR, .nr = NR, .kr = 1, .gemm = gemm, .dw = &(const struct rvl_i8_dw) { .nr = NR, .kr = 1, .run = dw },
	.convert = &rvl_i8_convert_base, .requant = requant16,
};
