/* SPDX-License-Identifier: MIT */
/*
 * Micro-kernels on 16-bit products, for a register size that the including file defines. PMADDWD
 * adds two products exactly; PMADDUBSW, which takes bytes, would saturate.
 *
 * Defined by the including file: TARGET, vec (a register), HALF (its dwords), MR, and the operations
 * load, store, zero-extending and sign-extending loads of 2 * HALF bytes, and so on, as V_NAME.
 */
#include <string.h>

#include "int8/int8.h"

#define INLINE static inline __attribute__((always_inline))
#define NR (2 * HALF)
#define CHUNK 64	/* channels that are widened at a time */

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

TARGET INLINE vec rounded(vec sum, const float *scale, const struct rvl_i8_post *post)
{
	return V_CVTPS(V_MINPS(V_SET1PS(post->hi), V_MULPS(V_CVTI(sum), V_LOADPS(scale))));
}

/* 16-bit results of two registers of sums, lane by lane. */
TARGET INLINE vec narrow(const int32_t *sum, const float *scale, const struct rvl_i8_post *post)
{
	vec a = rounded(V_LOAD(sum), scale, post), b = rounded(V_LOAD(sum + HALF), scale + HALF, post);

	return V_ADDS16(V_PACKS32(a, b), V_SET1_16((int16_t)post->zp));
}

TARGET INLINE void store_bytes(__m128i v, const struct rvl_i8_post *post, uint8_t *y, int64_t n)
{
	uint8_t out[16];

	v = _mm_max_epi8(v, _mm_set1_epi8((char)post->least));
	v = _mm_xor_si128(v, _mm_set1_epi8((char)post->flip));
	if (n >= NR) {
		V_STORE_BYTES(y, v);
		return;
	}
	_mm_storeu_si128((__m128i *)out, v);
	memcpy(y, out, (size_t)n);
}

/* ---- matrix product ---- */

TARGET static __attribute__((noinline)) void store_tile(const struct rvl_i8_gemm_call *c,
							const int32_t *sum)
{
	for (int i = 0; i < c->rows; i++) {
		vec v = V_ORDER(narrow(sum + i * NR, c->scale, c->post));

		store_bytes(V_PACKS16(v), c->post, c->y + i * c->y_stride, c->cols);
	}
}

TARGET INLINE void widen_rows(const uint8_t *const *a, int64_t k, int64_t n, int16_t wide[MR][CHUNK],
			      const int rows, const int x_u8)
{
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		const uint8_t *p = a[i] + k;
		int64_t j = 0;

		for (; j + NR <= n; j += NR)
			V_STORE(&wide[i][j], widen(p + j, x_u8));
		if (j < n)
			V_STORE(&wide[i][j], widen_part(p + j, (size_t)(n - j), x_u8));
	}
}

TARGET INLINE vec pair(const int16_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return V_SET1_32(v);
}

TARGET INLINE void step(vec sum[MR][2], const int16_t *x, const int8_t *w, const int rows)
{
	vec w0 = V_CVTS(V_LOAD_BYTES(w)), w1 = V_CVTS(V_LOAD_BYTES(w + NR));

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		vec a = pair(x + i * CHUNK);

		sum[i][0] = V_ADD32(sum[i][0], V_MADD(a, w0));
		sum[i][1] = V_ADD32(sum[i][1], V_MADD(a, w1));
	}
}

/* store_tile() is a function of its own so that gcc 12 spills no sums inside the loop. */
TARGET INLINE void tile(const struct rvl_i8_gemm_call *c, const int rows, const int x_u8)
{
	int16_t wide[MR][CHUNK] __attribute__((aligned(64)));
	int32_t out[MR * NR] __attribute__((aligned(64)));
	const uint8_t *const *a = c->a;
	const int8_t *w = c->w;
	vec sum[MR][2];

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		sum[i][0] = V_LOAD(c->bias);
		sum[i][1] = V_LOAD(c->bias + HALF);
	}
	for (int64_t at = 0; at < c->taps * c->kc;) {
		int64_t k = at % c->kc, n = c->kc - k < CHUNK ? c->kc - k : CHUNK;

		widen_rows(a + at / c->kc * MR, k, n, wide, rows, x_u8);
		for (int64_t j = 0; j < n; j += 2, w += 2 * NR)
			step(sum, &wide[0][j], w, rows);
		at += n;
	}
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		V_STORE(out + i * NR, sum[i][0]);
		V_STORE(out + i * NR + HALF, sum[i][1]);
	}
	store_tile(c, out);
}

#define TILE(rows) \
	TARGET static void tile_##rows(const struct rvl_i8_gemm_call *c) \
	{ \
		if (c->x_u8) \
			tile(c, rows, 1); \
		else \
			tile(c, rows, 0); \
	}

/* ---- depthwise ---- */

TARGET INLINE vec load_tap(const uint8_t *p, int64_t n, const int x_u8)
{
	return n >= NR ? widen(p, x_u8) : widen_part(p, (size_t)n, x_u8);
}

TARGET INLINE void pixel(const struct rvl_i8_dw_call *c, int64_t at, int64_t x, int64_t n,
			 const int x_u8)
{
	vec lo = V_LOAD(c->bias + at), hi = V_LOAD(c->bias + at + HALF);
	int32_t out[NR] __attribute__((aligned(64)));
	const int8_t *w = c->w + at * c->taps;

	for (int64_t t = 0; t < c->taps; t += 2, w += 2 * NR) {
		vec x0 = load_tap(c->p[t] + x * c->x_step + at, n, x_u8);
		vec x1 = load_tap(c->p[t + 1] + x * c->x_step + at, n, x_u8);
		vec w0 = V_CVTS(V_LOAD_BYTES(w)), w1 = V_CVTS(V_LOAD_BYTES(w + NR));

		lo = V_ADD32(lo, V_MADD(V_UNPACKLO16(x0, x1), w0));
		hi = V_ADD32(hi, V_MADD(V_UNPACKHI16(x0, x1), w1));
	}
	V_STORE(out, lo);
	V_STORE(out + HALF, hi);
	store_bytes(V_PACKS16(narrow(out, c->scale + at, c->post)), c->post,
		    c->y + x * c->y_stride + at, n);
}

TARGET INLINE void dw_tiles(const struct rvl_i8_dw_call *c, const int x_u8)
{
	int64_t at = 0;

	for (; at + NR <= c->channels; at += NR)
		for (int64_t x = 0; x < c->pixels; x++)
			pixel(c, at, x, NR, x_u8);
	for (int64_t x = 0; x < c->pixels && at < c->channels; x++)
		pixel(c, at, x, c->channels - at, x_u8);
}

TARGET static void dw(const struct rvl_i8_dw_call *c)
{
	if (c->x_u8)
		dw_tiles(c, 1);
	else
		dw_tiles(c, 0);
}

TARGET static void requant16(const int32_t *sum, const float *scale, const struct rvl_i8_post *post,
			     uint8_t *dst)
{
	for (int i = 0; i < 16; i += NR)
		store_bytes(V_PACKS16(V_ORDER(narrow(sum + i, scale + i, post))), post, dst + i, NR);
}
