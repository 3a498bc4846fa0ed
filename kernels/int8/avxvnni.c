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
TARGET INLINE void step(vec sum[MR][2], const uint8_t *const *a, int64_t k, const int8_t *w, int64_t ahead,
			const int rows, const int flip)
{
	vec w0 = V_LOAD(w), w1 = V_LOAD(w + 4 * HALF);

	rvl_i8_prefetch(w, ahead);
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
			step(sum, a, k, w, c->ahead, rows, flip);
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
RVL_I8_RANGE(TARGET, _256, vec, _mm256)
#define NAME(x) x##_256
#define OP(x) _mm256_##x
#define BYTES 32
#define XOR V_XOR
#define DPBUSD V_DPBUSD

TARGET INLINE vec load_part_256(const uint8_t *p, int64_t n)
{
	uint8_t part[BYTES] = { 0 };

	memcpy(part, p, (size_t)n);
	return V_LOAD(part);
}

TARGET INLINE void store_part_256(uint8_t *p, vec v, int64_t n)
{
	uint8_t part[BYTES];

	V_STORE(part, v);
	memcpy(p, part, (size_t)n);
}

#include "int8/dw_dot.h"

static void dw(const struct rvl_i8_dw_call *c)
{
	for (int64_t at = 0; at < c->channels; at += DW_NR)
		tile_256(c, at);
}

const struct rvl_i8_kernels KERNELS = {
	.mr = MR, .nr = NR, .kr = 4, .offset = { 128, 0 }, .gemm = gemm, .tables = &rvl_i8_tables_avx2,
	.dw = &(const struct rvl_i8_dw) { .nr = DW_NR, .kr = 4, .run = dw, .slide = &rvl_i8_slide_dot },
	.convert = &rvl_i8_convert_avx2, .requant = requant16,
};
#endif
