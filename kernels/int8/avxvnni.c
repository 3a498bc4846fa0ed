/* SPDX-License-Identifier: MIT */
/*
 * Micro-kernels for AVX-VNNI: VPDPBUSD in registers of 256 bits, of processors without AVX-512. int8
 * activations are offset by 128, for which the packed bias corrects. tests/int8 compiles this file with
 * a model of the instruction.
 */
#ifdef __x86_64__
#ifndef RVL_AVXVNNI_MODEL
#define TARGET __attribute__((target("avx2,fma,avxvnni")))
#define V_DPBUSD _mm256_dpbusd_avx_epi32
#define KERNELS rvl_i8_avxvnni
#endif
#define MR 6
#include "int8/v256.h"

#include "int8/narrow.h"

/* ---- matrix product ---- */

TARGET INLINE vec flipped(vec v, const int flip)
{
	return flip ? V_XOR(v, V_SET1_8((char)0x80)) : v;
}

/* Adds the products of four channels of every row. */
TARGET INLINE void step(vec sum[MR][2], const uint8_t *const *a, int64_t k, const int8_t *w,
			const int rows, const int flip)
{
	vec w0 = V_LOAD(w), w1 = V_LOAD(w + 4 * HALF);

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		int32_t four;
		vec x;

		memcpy(&four, a[i] + k, sizeof(four));
		x = flipped(V_SET1_32(four), flip);
		sum[i][0] = V_DPBUSD(sum[i][0], x, w0);
		sum[i][1] = V_DPBUSD(sum[i][1], x, w1);
	}
}

TARGET INLINE void tile(const struct rvl_i8_gemm_call *c, const int rows, const int flip)
{
	const uint8_t *const *a = c->a;
	const int8_t *w = c->w;
	vec sum[MR][2];

	begin_sums(c, sum, rows);
	for (int64_t t = 0; t < c->taps; t++, a += MR)
		for (int64_t k = 0; k < c->kc; k += 4, w += 4 * NR)
			step(sum, a, k, w, rows, flip);
	end_sums(c, sum, rows);
}

#define TILE(rows) \
	TARGET static void tile_##rows(const struct rvl_i8_gemm_call *c) \
	{ \
		if (c->x_u8) \
			tile(c, rows, 0); \
		else \
			tile(c, rows, 1); \
	}

GEMM_OF_SIX

/* ---- depthwise ---- */

#define DW_NR 32

TARGET INLINE vec load32(const uint8_t *p, int64_t n, const int flip)
{
	uint8_t part[DW_NR] = { 0 };

	if (n < DW_NR)
		p = memcpy(part, p, (size_t)n);
	return flipped(V_LOAD(p), flip);
}

/* Byte t of dword e in lane l of v[j]: tap t of channel 16 l + 4 j + e. */
TARGET INLINE void interleave(vec v[4], const uint8_t *const *p, int64_t at, int64_t n, const int flip)
{
	vec x0 = load32(p[0] + at, n, flip), x1 = load32(p[1] + at, n, flip);
	vec x2 = load32(p[2] + at, n, flip), x3 = load32(p[3] + at, n, flip);
	vec a = _mm256_unpacklo_epi8(x0, x1), b = _mm256_unpackhi_epi8(x0, x1);
	vec c = _mm256_unpacklo_epi8(x2, x3), d = _mm256_unpackhi_epi8(x2, x3);

	v[0] = V_UNPACKLO16(a, c);
	v[1] = V_UNPACKHI16(a, c);
	v[2] = V_UNPACKLO16(b, d);
	v[3] = V_UNPACKHI16(b, d);
}

TARGET INLINE void store32(uint8_t *y, vec v, int64_t n)
{
	uint8_t part[DW_NR];

	if (n >= DW_NR) {
		V_STORE(y, v);
		return;
	}
	V_STORE(part, v);
	memcpy(y, part, (size_t)n);
}

TARGET INLINE void pixel(const struct rvl_i8_dw_call *c, int64_t at, int64_t x, int64_t n, const int flip)
{
	const int8_t *w = (const int8_t *)c->w + at * c->taps;
	vec sum[4], v[4], q;

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		sum[j] = V_LOAD(c->bias + at + HALF * j);
	for (int64_t t = 0; t < c->taps; t += 4, w += 4 * DW_NR) {
		interleave(v, c->p + t, x * c->x_step + at, n, flip);
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			sum[j] = V_DPBUSD(sum[j], v[j], V_LOAD(w + DW_NR * j));
	}
	q = _mm256_packs_epi16(narrow(sum[0], sum[1], c->scale + at, c->post),
			       narrow(sum[2], sum[3], c->scale + at + 2 * HALF, c->post));
	store32(c->y + x * c->y_stride + at, finish(q, c->post), n);
}

TARGET INLINE void dw_tiles(const struct rvl_i8_dw_call *c, const int flip)
{
	int64_t at = 0;

	for (; at + DW_NR <= c->channels; at += DW_NR)
		for (int64_t x = 0; x < c->pixels; x++)
			pixel(c, at, x, DW_NR, flip);
	for (int64_t x = 0; x < c->pixels && at < c->channels; x++)
		pixel(c, at, x, c->channels - at, flip);
}

TARGET static void dw(const struct rvl_i8_dw_call *c)
{
	if (c->x_u8)
		dw_tiles(c, 0);
	else
		dw_tiles(c, 1);
}

const struct rvl_i8_kernels KERNELS = {
	.mr = MR, .nr = NR, .kr = 4, .offset = { 128, 0 }, .gemm = gemm, .tables = &rvl_i8_tables_avx2,
	.dw = { { .nr = DW_NR, .kr = 4, .run = dw } },
	.convert = &rvl_i8_convert_avx2, .requant = requant16,
};
#endif
