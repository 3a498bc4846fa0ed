/* SPDX-License-Identifier: MIT */
/*
 * Micro-kernels for AVX512-VNNI. VPDPBUSD adds four products of uint8 by int8 exactly, without
 * saturation. int8 activations are offset by 128, for which the packed bias corrects.
 */
#include "int8/range.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define INLINE static inline __attribute__((always_inline))

#define MR 12
#define NR 32

RVL_I8_RANGE(VNNI, , __m512i, _mm512)

/* ---- matrix product ---- */

VNNI INLINE __m512i broadcast(const uint8_t *p, const int flip)
{
	int32_t v;
	__m512i a;

	memcpy(&v, p, sizeof(v));
	a = _mm512_set1_epi32(v);
	return flip ? _mm512_xor_si512(a, _mm512_set1_epi8((char)0x80)) : a;
}

/*
 * Adds the products of four channels of every row. The empty statement makes the compiler load the
 * pointers in every step: there are too few registers for them, and moving them to and from vector
 * registers takes time from the products, which loads do not.
 */
VNNI INLINE void step(__m512i sum[MR][2], const uint8_t *const *a, int64_t k, const int8_t *w, int64_t ahead,
		      const int rows, const int vectors, const int flip)
{
	__m512i w0 = _mm512_load_si512(w), w1 = _mm512_load_si512(w + 64);

	rvl_i8_prefetch(w, ahead);
	if (vectors > 1)
		rvl_i8_prefetch(w + 64, ahead);
	__asm__("" : : : "memory");
#pragma GCC unroll 12
	for (int i = 0; i < rows; i++) {
		__m512i x = broadcast(a[i] + k, flip);

		sum[i][0] = _mm512_dpbusd_epi32(sum[i][0], x, w0);
		if (vectors > 1)
			sum[i][1] = _mm512_dpbusd_epi32(sum[i][1], x, w1);
	}
}

/*
 * Stores rows @row and @row + 1, the second one if @both. Narrowing, to uint8 or int8, works on lanes of
 * 128 bits: dword 4 l + 2 r + h of the bytes holds columns of row r, from column 4 l (h = 0) or 16 + 4 l
 * (h = 1). A masked store takes several times as long as a whole one.
 */
VNNI INLINE void store_rows(const struct rvl_i8_gemm_call *c, int row, __m512i bytes, const int whole, bool both)
{
	const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	__m512i v = _mm512_permutexvar_epi32(order, bytes);
	__mmask32 mask = whole ? ~0u : (1u << c->cols) - 1;
	__m256i low = _mm512_castsi512_si256(v), high = _mm512_extracti64x4_epi64(v, 1);
	uint8_t *y = c->y + row * c->y_stride;

	if (whole)
		_mm256_storeu_si256((__m256i *)y, low);
	else
		_mm256_mask_storeu_epi8(y, mask, low);
	if (whole && both)
		_mm256_storeu_si256((__m256i *)(y + c->y_stride), high);
	else if (both)
		_mm256_mask_storeu_epi8(y + c->y_stride, mask, high);
}

/* All rows of @rows but perhaps the last one exist. */
VNNI INLINE void store_tile(const struct rvl_i8_gemm_call *c, const __m512i narrow[MR], const struct range *range,
			    const int rows, const int whole)
{
#pragma GCC unroll 12
	for (int i = 0; i < rows; i += 2) {
		__m512i bytes = bytes_of(narrow[i], narrow[i + 1 < rows ? i + 1 : i], range);

		store_rows(c, i, bytes, whole, i + 2 < rows || i + 1 < c->rows);
	}
}

/* Sums as scaled floats, below 2^31 after the clamp if the scales do not imply it. */
VNNI INLINE void scale_sums(const struct rvl_i8_gemm_call *c, __m512 scaled[MR][2],
			    __m512i sum[MR][2], const int rows)
{
	__m512 s0 = _mm512_load_ps(c->scale), s1 = _mm512_load_ps(c->scale + 16);
	__m512 hi = _mm512_set1_ps(c->post->hi);

#pragma GCC unroll 12
	for (int i = 0; i < rows; i++) {
		scaled[i][0] = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[i][0]), s0);
		scaled[i][1] = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[i][1]), s1);
	}
	if (c->post->bounded)
		return;
#pragma GCC unroll 12
	for (int i = 0; i < rows; i++) {
		scaled[i][0] = _mm512_min_ps(hi, scaled[i][0]);
		scaled[i][1] = _mm512_min_ps(hi, scaled[i][1]);
	}
}

VNNI INLINE void store_sums(int32_t *sums, __m512i sum[MR][2], const int rows)
{
#pragma GCC unroll 12
	for (int i = 0; i < rows; i++, sums += NR) {
		_mm512_storeu_si512(sums, sum[i][0]);
		_mm512_storeu_si512(sums + 16, sum[i][1]);
	}
}

/*
 * The sums stay in registers until they are stored. The empty statements keep gcc 12 from merging the
 * sums with what is computed from them, which would spill them inside the loop.
 */
VNNI INLINE void tile(const struct rvl_i8_gemm_call *c, const int rows, const int vectors,
		      const int flip)
{
	const uint8_t *const *a = c->a;
	const int64_t taps = c->taps, kc = c->kc, ahead = c->ahead;
	const int8_t *w = c->w;
	__m512i sum[MR][2], narrow[MR];
	struct range range;
	__m512 scaled[MR][2];

#pragma GCC unroll 12
	for (int i = 0; i < rows; i++) {
		sum[i][0] = _mm512_load_si512(c->bias);
		sum[i][1] = _mm512_load_si512(c->bias + 16);
	}
	for (int64_t t = 0; t < taps; t++, a += MR)
		for (int64_t k = 0; k < kc; k += 4, w += 4 * NR)
			step(sum, a, k, w, ahead, rows, vectors, flip);
#pragma GCC unroll 12
	for (int i = 0; i < rows; i++)
		__asm__("" : "+v"(sum[i][0]), "+v"(sum[i][1]));
	if (c->sums) {
		store_sums(c->sums, sum, rows);
		return;
	}
	range = range_of(c->post);
	scale_sums(c, scaled, sum, rows);
#pragma GCC unroll 12
	for (int i = 0; i < rows; i++)
		narrow[i] = _mm512_packs_epi32(_mm512_cvtps_epi32(scaled[i][0]),
					       _mm512_cvtps_epi32(scaled[i][1]));
	place(narrow, rows, &range);
	if (c->cols >= NR)
		store_tile(c, narrow, &range, rows, 1);
	else
		store_tile(c, narrow, &range, rows, 0);
}

typedef void (*tile_fn)(const struct rvl_i8_gemm_call *c);

#define TILE(rows, vectors, flip) \
	VNNI static void tile_##rows##_##vectors##_##flip(const struct rvl_i8_gemm_call *c) \
	{ \
		tile(c, rows, vectors, flip); \
	}
#define TILES(rows) TILE(rows, 1, 0) TILE(rows, 1, 1) TILE(rows, 2, 0) TILE(rows, 2, 1)
TILES(1)
TILES(2)
TILES(4)
TILES(6)
TILES(8)
TILES(10)
TILES(12)

/* A number of rows that has no function of its own is computed by the next larger one. */
#define ENTRY(rows) { { tile_##rows##_1_0, tile_##rows##_1_1 }, { tile_##rows##_2_0, tile_##rows##_2_1 } }
static const tile_fn tiles[MR][2][2] = {
	ENTRY(1), ENTRY(2), ENTRY(4), ENTRY(4), ENTRY(6), ENTRY(6),
	ENTRY(8), ENTRY(8), ENTRY(10), ENTRY(10), ENTRY(12), ENTRY(12),
};

static void gemm(const struct rvl_i8_gemm_call *c)
{
	tiles[c->rows - 1][c->cols > 16][!c->x_u8 && !c->widened](c);
}

/* ---- rows of int8 ---- */

#define BYTES 64

/* Registers, the last of which ends with the run. */
VNNI INLINE void flip_long(const uint8_t *p, int64_t n, __m512i flip, uint8_t *to)
{
	int64_t i = 0;

	for (; i + BYTES < n; i += BYTES)
		_mm512_storeu_si512(to + i, _mm512_xor_si512(_mm512_loadu_si512(p + i), flip));
	i = n - BYTES;
	_mm512_storeu_si512(to + i, _mm512_xor_si512(_mm512_loadu_si512(p + i), flip));
}

VNNI INLINE void flip_short(const uint8_t *p, int64_t n, __m512i flip, uint8_t *to)
{
	__mmask64 mask = (1ull << n) - 1;

	_mm512_mask_storeu_epi8(to, mask, _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, p), flip));
}

VNNI static void widen(const uint8_t *const *p, int64_t runs, int64_t step, int64_t n, bool u8, void *dst)
{
	const __m512i flip = _mm512_set1_epi8((char)(u8 ? 0 : 0x80));
	uint8_t *to = dst;

	for (int64_t i = 0; i < runs; i++, to += n) {
		if (n >= BYTES)
			flip_long(p[i * step], n, flip, to);
		else
			flip_short(p[i * step], n, flip, to);
	}
}

/* ---- all ---- */

VNNI void rvl_vnni_requant16(const int32_t *sum, const float *scale, const struct rvl_i8_post *post,
			     uint8_t *dst)
{
	__m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(sum)), _mm512_loadu_ps(scale));
	__m512i v = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_set1_ps(post->hi), scaled));

	v = _mm512_add_epi32(_mm512_max_epi32(v, _mm512_set1_epi32(post->least - post->zp)),
			     _mm512_set1_epi32(post->zp));
	_mm_storeu_si128((__m128i *)dst, _mm512_cvtepi32_epi8(v));
}

const struct rvl_i8_kernels rvl_i8_avx512vnni = {
	.mr = MR, .nr = NR, .kr = 4, .offset = { 128, 0 }, .gemm = gemm, .widen = widen, .widened = 1,
	.least_run = 32, .tables = &rvl_i8_tables_avx512, .dw = &rvl_i8_dw_avx512, .convert = &rvl_i8_convert_avx512,
	.requant = rvl_vnni_requant16,
};
#endif
