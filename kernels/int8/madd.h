/* SPDX-License-Identifier: MIT */
/*
 * Micro-kernels on 16-bit products, for a register size that the including file defines. PMADDWD
 * adds two products exactly; PMADDUBSW, which takes bytes, would saturate (but see split_avx2.c).
 *
 * Defined by the including file: TARGET, vec and vecps (a register), HALF (its dwords), MR, and the
 * operations load, store, zero-extending and sign-extending loads of 2 * HALF bytes, and so on, as
 * V_NAME.
 */
#include "int8/narrow.h"

#define CHUNK 128	/* channels that are widened at a time */

/* 2 * HALF values of int16 from as many bytes. */
TARGET INLINE vec widen(const uint8_t *p, const int x_u8)
{
	return x_u8 ? V_CVTU(V_LOAD_BYTES(p)) : V_CVTS(V_LOAD_BYTES(p));
}

/* The same where only @n bytes exist. */
TARGET INLINE vec widen_part(const uint8_t *p, size_t n, const int x_u8)
{
	uint8_t v[NR] = { 0 };

	memcpy(v, p, n);
	return widen(v, x_u8);
}

/* ---- matrix product ---- */

/* Adds the products of channels @k and @k + 1 of every row, with the weights @w0 and @w1. */
TARGET INLINE void step(vec sum[MR][2], const int16_t *const x[MR], int64_t k, vec w0, vec w1, const int rows)
{
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		int32_t pair;
		vec a;

		memcpy(&pair, x[i] + k, sizeof(pair));
		a = V_SET1_32(pair);
		sum[i][0] = V_ADD32(sum[i][0], V_MADD(a, w0));
		sum[i][1] = V_ADD32(sum[i][1], V_MADD(a, w1));
	}
}

/* NR weights as int16. */
TARGET INLINE vec load_weights(const int8_t *w)
{
	return V_CVTS(V_LOAD_BYTES(w));
}

TARGET INLINE void tile(const struct rvl_i8_gemm_call *c, const int rows)
{
	const int64_t kc = c->kc;
	const int8_t *w = c->w;
	const int16_t *x[MR];
	vec sum[MR][2];

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++)
		x[i] = (const int16_t *)(const void *)c->a[i];
	begin_sums(c, sum, rows);
	for (int64_t k = 0; k < kc; k += 2, w += 2 * NR) {
		__asm__("" : "+r"(w));	/* else the compiler scales the index of a row, which takes a step longer to load */
		step(sum, x, k, load_weights(w), load_weights(w + NR), rows);
	}
	end_sums(c, sum, rows);
}

TARGET INLINE void widen_all(const uint8_t *p, int64_t n, int16_t *dst, const int x_u8)
{
	int64_t i = 0;
	vec part;

	for (; i + NR <= n; i += NR)
		V_STORE(dst + i, widen(p + i, x_u8));
	if (i == n)
		return;
	part = widen_part(p + i, (size_t)(n - i), x_u8);
	memcpy(dst + i, &part, (size_t)(n - i) * sizeof(*dst));
}

/* The tile for rows of bytes, which widens them chunk by chunk. */
TARGET INLINE void byte_tile(const struct rvl_i8_gemm_call *c, const int rows, const int x_u8)
{
	int16_t chunk[MR][CHUNK] __attribute__((aligned(64)));
	const int8_t *w = c->w;
	const int16_t *x[MR];
	vec sum[MR][2];

	for (int i = 0; i < rows; i++)
		x[i] = chunk[i];
	begin_sums(c, sum, rows);
	for (int64_t at = 0; at < c->taps * c->kc;) {
		int64_t first = at % c->kc, n = c->kc - first < CHUNK ? c->kc - first : CHUNK;

#pragma GCC unroll 8
		for (int i = 0; i < rows; i++)
			widen_all(c->a[at / c->kc * MR + i] + first, n, chunk[i], x_u8);
		for (int64_t k = 0; k < n; k += 2, w += 2 * NR)
			step(sum, x, k, load_weights(w), load_weights(w + NR), rows);
		at += n;
	}
	end_sums(c, sum, rows);
}

#define TILE(rows) \
	TARGET static void tile_##rows(const struct rvl_i8_gemm_call *c) \
	{ \
		if (c->widened) \
			tile(c, rows); \
		else if (c->x_u8) \
			byte_tile(c, rows, 1); \
		else \
			byte_tile(c, rows, 0); \
	}

TARGET static void widen_runs(const uint8_t *const *p, int64_t runs, int64_t step, int64_t n, bool u8, void *dst)
{
	for (int64_t i = 0; i < runs; i++) {
		int16_t *to = (int16_t *)dst + i * n;

		if (u8)
			widen_all(p[i * step], n, to, 1);
		else
			widen_all(p[i * step], n, to, 0);
	}
}

TARGET INLINE void window(const uint8_t *p, int64_t pitch, int64_t rows, int64_t n, int16_t *dst,
			  const int x_u8)
{
	for (int64_t y = 0; y < rows; y++, p += pitch, dst += n)
		for (int64_t i = 0; i < n; i += NR)
			V_STORE(dst + i, widen(p + i, x_u8));
}

TARGET static void widen_window(const uint8_t *p, int64_t pitch, int64_t rows, int64_t n, bool u8,
				int16_t *dst)
{
	if (u8)
		window(p, pitch, rows, n, dst, 1);
	else
		window(p, pitch, rows, n, dst, 0);
}

/* ---- depthwise ---- */

TARGET INLINE vec load_tap(const uint8_t *p, int64_t n, const int x_u8)
{
	return n >= NR ? widen(p, x_u8) : widen_part(p, (size_t)n, x_u8);
}

TARGET INLINE void pixel(const struct rvl_i8_dw_call *c, const struct range *range, int64_t at, int64_t x,
			 int64_t n, const int x_u8)
{
	vec lo = V_LOAD(c->bias + at), hi = V_LOAD(c->bias + at + HALF);
	const int16_t *w = (const int16_t *)c->w + at * c->taps;

	for (int64_t t = 0; t < c->taps; t += 2, w += 2 * NR) {
		vec x0 = load_tap(c->p[t] + x * c->x_step + at, n, x_u8);
		vec x1 = load_tap(c->p[t + 1] + x * c->x_step + at, n, x_u8);

		lo = V_ADD32(lo, V_MADD(V_UNPACKLO16(x0, x1), V_LOAD(w)));
		hi = V_ADD32(hi, V_MADD(V_UNPACKHI16(x0, x1), V_LOAD(w + NR)));
	}
	lo = narrow(lo, hi, c->scale + at, c->post);
	place(&lo, 1, range);
	store_part(c->y + x * c->y_stride + at, V_FIRST(V_PIXELS(bytes_of(lo, lo, range))), n);
}

#include "int8/slide.h"

TARGET INLINE void dw_tiles(const struct rvl_i8_dw_call *c, const int x_u8)
{
	const struct range range = range_of(c->post);
	int64_t at = 0;

	for (; at + NR <= c->channels; at += NR)
		for (int64_t x = 0; x < c->pixels; x++)
			pixel(c, &range, at, x, NR, x_u8);
	for (int64_t x = 0; x < c->pixels && at < c->channels; x++)
		pixel(c, &range, at, x, c->channels - at, x_u8);
}

TARGET static void dw(const struct rvl_i8_dw_call *c)
{
	if (c->column)
		slide_tiles(c);
	else if (c->x_u8)
		dw_tiles(c, 1);
	else
		dw_tiles(c, 0);
}
