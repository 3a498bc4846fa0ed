/* SPDX-License-Identifier: MIT */
/* Depthwise convolution: 16 channels at a time, two kernel taps a step. */
#include "internal.h"
#include "qmath.h"

#include <string.h>

#define DW_TILE 16
#define DW_TAPS 256	/* kernel positions that the pointer table holds */

struct rvl_dwconv {
	struct rvl_gemm g;		/* scale, bias, clamp; n = channels, one group */
	int64_t taps;			/* rounded up to an even number */
	int64_t stride_w;
	int64_t kernel[2], dilation[2];
	int64_t ow;
};

static void pack_weights(struct rvl_dwconv *dw, const struct rvl_qparams *q, const void *w)
{
	int64_t taps = dw->kernel[0] * dw->kernel[1];

	for (int64_t c = 0; c < dw->g.n; c++) {
		int16_t *tile = dw->g.w + c / DW_TILE * dw->taps * DW_TILE;

		for (int64_t t = 0; t < taps; t++)
			tile[t * DW_TILE + c % DW_TILE] =
				(int16_t)(rvl_ld8(w, c * taps + t, q->w_u8) - q->wz[c]);
		dw->g.bias[c] = q->bias ? q->bias[c] : 0;
		dw->g.scale[c] = q->scale[c];
	}
}

struct rvl_dwconv *rvl_dwconv_new(struct rvl_kernel *k, const struct rvl_conv_geom *g,
				  const struct rvl_qparams *q, const void *w)
{
	struct rvl_dwconv *dw = rvl_kernel_mem(k, 1, sizeof(*dw));
	int64_t tiles = (g->c + DW_TILE - 1) / DW_TILE;
	int64_t taps = (g->k[0] * g->k[1] + 1) / 2 * 2;

	if (!dw)
		return NULL;
	*dw = (struct rvl_dwconv) {
		.g = { .n = g->c, .n_tiles = tiles, .yz = q->yz,
		       .f_lo = (float)(q->lo - q->yz), .f_hi = (float)(q->hi - q->yz) },
		.taps = taps, .stride_w = g->s[1], .ow = g->ow,
		.kernel = { g->k[0], g->k[1] }, .dilation = { g->d[0], g->d[1] },
	};
	dw->g.w = rvl_kernel_mem(k, tiles * taps * DW_TILE, sizeof(*dw->g.w));
	dw->g.bias = rvl_kernel_mem(k, tiles * DW_TILE, sizeof(*dw->g.bias));
	dw->g.scale = rvl_kernel_mem(k, tiles * DW_TILE, sizeof(*dw->g.scale));
	if (!dw->g.w || !dw->g.bias || !dw->g.scale)
		return NULL;
	pack_weights(dw, q, w);
	return dw;
}

static void dw_tile_scalar(const int16_t *const *x, int64_t taps, const int16_t *w,
			   const int32_t *bias, int32_t acc[16])
{
	memcpy(acc, bias, DW_TILE * sizeof(*acc));
	for (int64_t t = 0; t < taps; t++)
		for (int j = 0; j < DW_TILE; j++)
			acc[j] = rvl_wrap_add(acc[j], x[t][j] * w[t * DW_TILE + j]);
}

/*
 * Pointers to the first channel under every tap of one output. Where the number of taps was rounded
 * up, the last pointer repeats the first; its weights are zero.
 */
static void tap_pointers(const struct rvl_dwconv *dw, const int16_t *x, int64_t row_stride,
			 const int16_t **p)
{
	int64_t t = 0;

	for (int64_t ky = 0; ky < dw->kernel[0]; ky++)
		for (int64_t kx = 0; kx < dw->kernel[1]; kx++)
			p[t++] = x + ky * dw->dilation[0] * row_stride +
				 kx * dw->dilation[1] * dw->g.n;
	if (t < dw->taps)
		p[t] = p[0];
}

static void one_pixel(const struct rvl_dwconv *dw, const int16_t **p, uint8_t *y, bool avx2)
{
	int32_t acc[DW_TILE] __attribute__((aligned(64)));
	uint8_t out[DW_TILE];

	for (int64_t tile = 0; tile < dw->g.n_tiles; tile++) {
		int64_t c = tile * DW_TILE;
		int64_t left = dw->g.n - c;
		const int16_t *w = dw->g.w + tile * dw->taps * DW_TILE;

#ifdef __x86_64__
		if (avx2) {
			rvl_dw_tile_avx2(p, dw->taps, w, dw->g.bias + c, acc);
			rvl_requant_avx2(acc, dw->g.scale + c, &dw->g, out);
		} else
#endif
		{
			dw_tile_scalar(p, dw->taps, w, dw->g.bias + c, acc);
			rvl_requant_scalar(acc, dw->g.scale + c, &dw->g, out);
		}
		memcpy(y + c, out, left < DW_TILE ? (size_t)left : DW_TILE);
		for (int64_t t = 0; t < dw->taps; t++)
			p[t] += DW_TILE;
	}
}

void rvl_dwconv_row(const struct rvl_dwconv *dw, const int16_t *x, int64_t row_stride, uint8_t *y)
{
	const int16_t *p[DW_TAPS];
	bool avx2 = rvl_have_avx2();

	for (int64_t ox = 0; ox < dw->ow; ox++) {
		tap_pointers(dw, x + ox * dw->stride_w * dw->g.n, row_stride, p);
		one_pixel(dw, p, y + ox * dw->g.n, avx2);
	}
}
