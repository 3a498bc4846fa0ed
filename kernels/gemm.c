/* SPDX-License-Identifier: MIT */
/* The quantised matrix core: packing, the tile loop, the scalar micro-kernel and requantisation. */
#include "internal.h"
#include "qmath.h"

#include <string.h>

struct packer {
	const struct rvl_gemm *g;
	int32_t (*weight)(const void *ctx, int64_t n, int64_t tap, int64_t c);
	const void *ctx;
};

static int64_t pairs_of(const struct rvl_gemm *g)
{
	return (g->kc + 1) / 2;
}

/* int16 values of one tile of RVL_NR output channels. */
static int64_t tile_size(const struct rvl_gemm *g)
{
	return g->taps * pairs_of(g) * RVL_NR * 2;
}

/*
 * Packs one tap of one tile. Weights beyond the last channel or output stay 0 and add nothing to
 * the sums.
 */
static void pack_tap(const struct packer *p, int64_t group, int64_t tile, int64_t tap, int16_t *dst)
{
	const struct rvl_gemm *g = p->g;

	for (int64_t c = 0; c < g->kc; c++) {
		for (int64_t j = 0; j < RVL_NR && tile * RVL_NR + j < g->n; j++) {
			int64_t n = group * g->n + tile * RVL_NR + j;

			dst[(c / 2) * RVL_NR * 2 + j * 2 + c % 2] =
				(int16_t)p->weight(p->ctx, n, tap, c);
		}
	}
}

static void pack_all(const struct packer *p)
{
	const struct rvl_gemm *g = p->g;
	int16_t *dst = g->w;

	for (int64_t group = 0; group < g->groups; group++)
		for (int64_t tile = 0; tile < g->n_tiles; tile++)
			for (int64_t tap = 0; tap < g->taps; tap++, dst += pairs_of(g) * RVL_NR * 2)
				pack_tap(p, group, tile, tap, dst);
}

static void pack_columns(struct rvl_gemm *g, const struct rvl_qparams *q)
{
	for (int64_t i = 0; i < g->groups * g->n; i++) {
		int64_t at = i / g->n * g->n_tiles * RVL_NR + i % g->n;

		g->bias[at] = q->bias ? q->bias[i] : 0;
		g->scale[at] = q->scale[i];
	}
}

struct rvl_gemm *rvl_gemm_new(struct rvl_kernel *k, int64_t groups, int64_t n_per_group,
			      int64_t taps, int64_t kc, const struct rvl_qparams *q,
			      int32_t (*weight)(const void *ctx, int64_t n, int64_t tap, int64_t c),
			      const void *ctx)
{
	struct rvl_gemm *g = rvl_kernel_mem(k, 1, sizeof(*g));
	struct packer p = { .g = g, .weight = weight, .ctx = ctx };
	int64_t columns;

	if (!g)
		return NULL;
	*g = (struct rvl_gemm) {
		.taps = taps, .kc = kc, .n = n_per_group, .groups = groups,
		.n_tiles = (n_per_group + RVL_NR - 1) / RVL_NR,
		.f_lo = (float)(q->lo - q->yz), .f_hi = (float)(q->hi - q->yz), .yz = q->yz,
	};
	columns = groups * g->n_tiles * RVL_NR;
	g->w = rvl_kernel_mem(k, groups * g->n_tiles * tile_size(g), sizeof(*g->w));
	g->bias = rvl_kernel_mem(k, columns, sizeof(*g->bias));
	g->scale = rvl_kernel_mem(k, columns, sizeof(*g->scale));
	g->tap_off = rvl_kernel_mem(k, taps, sizeof(*g->tap_off));
	if (!g->w || !g->bias || !g->scale || !g->tap_off)
		return NULL;
	pack_all(&p);
	pack_columns(g, q);
	return g;
}

static void ukernel_scalar(const int16_t *const a[RVL_MR], const struct rvl_gemm *g,
			   const int16_t *w, const int32_t *bias, int32_t c[RVL_MR * RVL_NR])
{
	for (int i = 0; i < RVL_MR; i++) {
		const int16_t *wp = w;
		int32_t *row = c + i * RVL_NR;

		memcpy(row, bias, RVL_NR * sizeof(*row));
		for (int64_t t = 0; t < g->taps; t++) {
			const int16_t *x = a[i] + g->tap_off[t];

			for (int64_t p = 0; p < pairs_of(g); p++, wp += 2 * RVL_NR)
				for (int j = 0; j < RVL_NR; j++)
					row[j] = rvl_wrap_add(row[j], x[2 * p] * wp[2 * j] +
							      x[2 * p + 1] * wp[2 * j + 1]);
		}
	}
}

void rvl_requant_scalar(const int32_t *c, const float *scale, const struct rvl_gemm *g,
			uint8_t *dst)
{
	for (int j = 0; j < RVL_NR; j++) {
		float v = rvl_clampf((float)c[j] * scale[j], g->f_lo, g->f_hi);

		dst[j] = (uint8_t)((int32_t)rintf(v) + g->yz);
	}
}

static rvl_ukernel_fn choose_ukernel(void)
{
#ifdef __x86_64__
	if (rvl_have_avx2())
		return rvl_ukernel_avx2;
#endif
	return ukernel_scalar;
}

static rvl_requant_fn choose_requant(void)
{
#ifdef __x86_64__
	if (rvl_have_avx2())
		return rvl_requant_avx2;
#endif
	return rvl_requant_scalar;
}

void rvl_requant_tile(const int32_t *c, const float *scale, const struct rvl_gemm *g, uint8_t *dst)
{
	choose_requant()(c, scale, g, dst);
}

void rvl_gemm_rows(const struct rvl_gemm *g, int64_t group, const int16_t *const a[RVL_MR],
		   int rows, uint8_t *y, int64_t y_stride)
{
	rvl_ukernel_fn ukernel = choose_ukernel();
	rvl_requant_fn requant = choose_requant();
	int32_t c[RVL_MR * RVL_NR] __attribute__((aligned(64)));
	uint8_t row[RVL_NR];

	for (int64_t tile = 0; tile < g->n_tiles; tile++) {
		int64_t at = group * g->n_tiles + tile;
		int64_t left = g->n - tile * RVL_NR;
		size_t cols = left < RVL_NR ? (size_t)left : RVL_NR;

		ukernel(a, g, g->w + at * tile_size(g), g->bias + at * RVL_NR, c);
		for (int i = 0; i < rows; i++) {
			requant(c + i * RVL_NR, g->scale + at * RVL_NR, g, row);
			memcpy(y + i * y_stride + group * g->n + tile * RVL_NR, row, cols);
		}
	}
}
