/* SPDX-License-Identifier: MIT */
#include "ref.h"
#include "qmath.h"

float rvl_requant_scale(float xs, float ws, float ys)
{
	float p = xs * ws;

	return p / ys;
}

static bool inside(int64_t i, int64_t n)
{
	return i >= 0 && i < n;
}

/* The products of one tap, whose first elements are @xi and @wi, with all channels. */
static int32_t tap_acc(const struct rvl_conv_geom *g, const struct rvl_qparams *q, const void *x, int64_t xi,
		       const void *w, int64_t wi, int32_t wz)
{
	int64_t taps = g->k[0] * g->k[1];
	int32_t acc = 0;

	for (int64_t c = 0; c < g->c / g->group; c++, xi += g->xp.c, wi += taps)
		acc = rvl_wrap_add(acc, (rvl_ld8(x, xi, q->x_u8) - q->xz) * (rvl_ld8(w, wi, q->w_u8) - wz));
	return acc;
}

/* The accumulator of one output, bias not added. */
static int32_t conv_acc(const struct rvl_conv_geom *g, const struct rvl_qparams *q, const void *x,
			const void *w, int64_t m, int64_t oy, int64_t ox)
{
	int64_t cg = g->c / g->group, wi = m * cg * g->k[0] * g->k[1];
	int64_t first = m / (g->m / g->group) * cg * g->xp.c;
	int32_t acc = 0;

	for (int64_t ky = 0; ky < g->k[0]; ky++) {
		int64_t iy = oy * g->s[0] + ky * g->d[0] - g->pad[0];

		for (int64_t kx = 0; kx < g->k[1]; kx++, wi++) {
			int64_t ix = ox * g->s[1] + kx * g->d[1] - g->pad[1];

			if (inside(iy, g->h) && inside(ix, g->w))
				acc = rvl_wrap_add(acc, tap_acc(g, q, x, first + iy * g->xp.y + ix * g->xp.x,
								w, wi, q->wz[m]));
		}
	}
	return acc;
}

/* Stores the result of channel @m as element @at. */
static void store_result(const struct rvl_qparams *q, int32_t acc, int64_t m, void *y, int64_t at)
{
	float v;

	acc = rvl_wrap_add(acc, q->bias ? q->bias[m] : 0);
	if (!q->floats) {
		rvl_st8(y, at, rvl_requant(acc, q->scale[m], q->yz, q->lo, q->hi));
		return;
	}
	v = (float)acc * q->scale[m];
	((float *)y)[at] = rvl_clip(q->added ? v + q->added[m] : v, q->f_lo, q->f_hi);
}

void rvl_ref_qconv(const struct rvl_conv_geom *g, const struct rvl_qparams *q, const void *x,
		   const void *w, void *y)
{
	int64_t out = g->oh * g->ow;

	for (int64_t i = 0; i < g->n * g->m * out; i++) {
		int64_t m = i / out % g->m;
		int64_t n = i / out / g->m, oy = i % out / g->ow, ox = i % g->ow;
		int64_t at = n * g->yp.n + m * g->yp.c + oy * g->yp.y + ox * g->yp.x;

		store_result(q, conv_acc(g, q, (const char *)x + n * g->xp.n, w, m, oy, ox), m, y, at);
	}
}

void rvl_ref_qmatmul(const struct rvl_matmul_geom *g, const struct rvl_qparams *q, const void *a,
		     const void *b, void *y)
{
	for (int64_t i = 0; i < g->m * g->n; i++) {
		int64_t row = i / g->n, col = i % g->n;
		int32_t acc = 0;

		for (int64_t k = 0; k < g->k; k++)
			acc = rvl_wrap_add(acc, (rvl_ld8(a, row * g->a_row + k * g->a_k, q->x_u8) -
						 q->xz) *
						(rvl_ld8(b, k * g->b_k + col * g->b_col, q->w_u8) -
						 q->wz[col]));
		store_result(q, acc, col, y, i);
	}
}

static double conv_sum(const struct rvl_conv_geom *g, const float *x, const float *w, int64_t m,
		       int64_t oy, int64_t ox)
{
	int64_t cg = g->c / g->group;
	int64_t c0 = m / (g->m / g->group) * cg;
	double sum = 0;

	for (int64_t c = 0; c < cg; c++) {
		for (int64_t t = 0; t < g->k[0] * g->k[1]; t++) {
			int64_t iy = oy * g->s[0] + t / g->k[1] * g->d[0] - g->pad[0];
			int64_t ix = ox * g->s[1] + t % g->k[1] * g->d[1] - g->pad[1];

			if (inside(iy, g->h) && inside(ix, g->w))
				sum += (double)x[((c0 + c) * g->h + iy) * g->w + ix] *
				       (double)w[(m * cg + c) * g->k[0] * g->k[1] + t];
		}
	}
	return sum;
}

void rvl_ref_conv(const struct rvl_conv_geom *g, const float *x, const float *w, const float *b,
		  float lo, float hi, float *y)
{
	int64_t out = g->oh * g->ow;

	for (int64_t i = 0; i < g->n * g->m * out; i++) {
		int64_t m = i / out % g->m;
		const float *image = x + i / out / g->m * g->c * g->h * g->w;
		double sum = conv_sum(g, image, w, m, i % out / g->ow, i % g->ow);

		y[i] = rvl_clip((float)(sum + (b ? (double)b[m] : 0.0)), lo, hi);
	}
}

void rvl_ref_matmul(const struct rvl_matmul_geom *g, const float *a, const float *b, float *y)
{
	for (int64_t i = 0; i < g->m * g->n; i++) {
		int64_t row = i / g->n, col = i % g->n;
		double sum = 0;

		for (int64_t k = 0; k < g->k; k++)
			sum += (double)a[row * g->a_row + k * g->a_k] *
			       (double)b[k * g->b_k + col * g->b_col];
		y[i] = (float)sum;
	}
}

void rvl_ref_qadd(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia, const void *b,
		  int64_t ib, void *y)
{
	float ra = p->sa / p->sy;
	float rb = p->sb / p->sy;
	float fixed = (float)p->yz - fmaf(ra, (float)p->az, rb * (float)p->bz);

	for (int64_t i = 0; i < n; i++) {
		float va = (float)rvl_ld8(a, i * ia, p->a_u8);
		float vb = (float)rvl_ld8(b, i * ib, p->b_u8);
		float v = fmaf(va, ra, fmaf(vb, rb, fixed));

		rvl_st8(y, i, rvl_clamp(rvl_cvt(v), p->lo, p->hi));
	}
}

void rvl_ref_qmul(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia, const void *b,
		  int64_t ib, void *y)
{
	float sab = p->sa * p->sb;
	float r = sab / p->sy;

	for (int64_t i = 0; i < n; i++) {
		int32_t prod = (rvl_ld8(a, i * ia, p->a_u8) - p->az) *
			       (rvl_ld8(b, i * ib, p->b_u8) - p->bz);
		float v = (float)prod * r;

		v = v + (float)p->yz;
		rvl_st8(y, i, rvl_clamp(rvl_cvt(v), p->lo, p->hi));
	}
}

int32_t rvl_ref_qmean(const void *x, int64_t n, bool u8, int32_t xz, float scale, int32_t yz,
		      int32_t lo, int32_t hi)
{
	int32_t sum = rvl_wrap_mul(-xz, (int32_t)n);

	for (int64_t i = 0; i < n; i++)
		sum = rvl_wrap_add(sum, rvl_ld8(x, i, u8));
	return rvl_requant(sum, scale, yz, lo, hi);
}
