/* SPDX-License-Identifier: MIT */
/* Loops without branches, which the compiler vectorises for each set. */
#include "int8/convert.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <string.h>

#include "int8/round.h"
#include "isa.h"
#include "qmath.h"
#include "ref.h"

/* Pixels [@i, @n). */
INLINE void interleave_from(const uint8_t *x, int64_t pitch, int64_t i, int64_t n, uint8_t *y)
{
	for (; i < n; i++) {
		y[3 * i] = x[i];
		y[3 * i + 1] = x[pitch + i];
		y[3 * i + 2] = x[2 * pitch + i];
	}
}

static void interleave3_base(const uint8_t *x, int64_t pitch, int64_t n, uint8_t *y)
{
	interleave_from(x, pitch, 0, n, y);
}

#ifdef __x86_64__
/* Sixteen pixels are three registers, of each of which every plane has a third. */
static __attribute__((target("avx2"))) void interleave3_avx2(const uint8_t *x, int64_t pitch, int64_t n,
							     uint8_t *y)
{
	__m128i order[3][3];	/* of bytes of a plane in a register */
	int64_t i = 0;

	for (int r = 0; r < 3; r++) {
		for (int c = 0; c < 3; c++) {
			int8_t at[16];

			for (int b = 0; b < 16; b++)
				at[b] = (int8_t)((16 * r + b) % 3 == c ? (16 * r + b) / 3 : -1);
			order[r][c] = _mm_loadu_si128((const __m128i *)at);
		}
	}
	for (; i + 16 <= n; i += 16) {
		__m128i p0 = _mm_loadu_si128((const __m128i *)(x + i));
		__m128i p1 = _mm_loadu_si128((const __m128i *)(x + pitch + i));
		__m128i p2 = _mm_loadu_si128((const __m128i *)(x + 2 * pitch + i));

		for (int r = 0; r < 3; r++) {
			__m128i v = _mm_or_si128(_mm_shuffle_epi8(p0, order[r][0]),
						 _mm_shuffle_epi8(p1, order[r][1]));

			v = _mm_or_si128(v, _mm_shuffle_epi8(p2, order[r][2]));
			_mm_storeu_si128((__m128i *)(y + 3 * i + 16 * r), v);
		}
	}
	interleave_from(x, pitch, i, n, y);
}

#define interleave3_avx512 interleave3_avx2
#endif

/* Eight bytes at a time: the loads and stores of x and y otherwise limit the loop. */
static void look_up_base(const uint8_t table[256], const uint8_t *x, int64_t n, uint8_t *y)
{
	int64_t i = 0;

	for (; i + 8 <= n; i += 8) {
		uint64_t v, r = 0;

		memcpy(&v, x + i, sizeof(v));
#pragma GCC unroll 8
		for (int b = 0; b < 64; b += 8)
			r |= (uint64_t)table[v >> b & 255] << b;
		memcpy(y + i, &r, sizeof(r));
	}
	for (; i < n; i++)
		y[i] = table[x[i]];
}

#ifdef __x86_64__
#define LEAST 64	/* bytes for which spreading the table over registers pays */
#define ROW 16		/* entries of a table in half of a register */

/*
 * The table by rows: a shuffle gives the entry of the low half of each byte, or 0 where the byte is of
 * another row, which sets the highest bit of its index.
 */
static __attribute__((target("avx2"))) void look_up_avx2(const uint8_t table[256], const uint8_t *x, int64_t n,
							 uint8_t *y)
{
	__m256i row[256 / ROW];
	int64_t i = 0;

	for (int r = 0; n >= LEAST && r < 256 / ROW; r++)
		row[r] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(table + r * ROW)));
	for (; n >= LEAST && i + 32 <= n; i += 32) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(x + i)), sum = _mm256_setzero_si256();

#pragma GCC unroll 16
		for (int r = 0; r < 256 / ROW; r++) {
			__m256i at = _mm256_xor_si256(v, _mm256_set1_epi8((char)(r * ROW)));

			at = _mm256_adds_epu8(at, _mm256_set1_epi8(0x80 - ROW));
			sum = _mm256_or_si256(sum, _mm256_shuffle_epi8(row[r], at));
		}
		_mm256_storeu_si256((__m256i *)(y + i), sum);
	}
	look_up_base(table, x + i, n - i, y + i);
}

#define VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))

/* The halves of the table are in two registers each, of which a permutation takes 64 entries. */
VBMI static inline __m512i entries(const __m512i table[4], __m512i x)
{
	__m512i low = _mm512_permutex2var_epi8(table[0], x, table[1]);
	__m512i high = _mm512_permutex2var_epi8(table[2], x, table[3]);

	return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
}

VBMI static void look_up_vbmi(const uint8_t table[256], const uint8_t *x, int64_t n, uint8_t *y)
{
	__mmask64 left = (1ull << n % 64) - 1;
	__m512i row[4];
	int64_t i = 0;

	for (int r = 0; r < 4; r++)
		row[r] = _mm512_loadu_si512(table + r * 64);
	for (; i + 64 <= n; i += 64)
		_mm512_storeu_si512(y + i, entries(row, _mm512_loadu_si512(x + i)));
	if (left)
		_mm512_mask_storeu_epi8(y + i, left, entries(row, _mm512_maskz_loadu_epi8(left, x + i)));
}

static void look_up_avx512(const uint8_t table[256], const uint8_t *x, int64_t n, uint8_t *y)
{
	if (rvl_have_vbmi())
		look_up_vbmi(table, x, n, y);
	else
		look_up_avx2(table, x, n, y);
}

#define rvl_i8_transpose_avx512 rvl_i8_transpose_avx2
#endif

/* Of bytes from @i on. */
INLINE void largest_from(const uint8_t *const *p, int64_t taps, uint8_t flip, int64_t i, int64_t n, uint8_t *y)
{
	for (; i < n; i++) {
		uint8_t best = p[0][i] ^ flip;

		for (int64_t t = 1; t < taps; t++) {
			uint8_t v = p[t][i] ^ flip;

			best = v > best ? v : best;
		}
		y[i] = best ^ flip;
	}
}

#ifdef __x86_64__
/* Registers of bytes at a time; the largest ones stay in them. */
#define LARGEST(target, step, reg, op, si) \
	target INLINE int64_t largest_##reg(const uint8_t *const *p, int64_t taps, uint8_t flip, int64_t i, \
					    int64_t n, uint8_t *y) \
	{ \
		const reg sign = op##_set1_epi8((char)flip); \
		for (; i + (step) <= n; i += (step)) { \
			reg best = op##_xor_##si(op##_loadu_##si((const reg *)(const void *)(p[0] + i)), sign); \
			for (int64_t t = 1; t < taps; t++) { \
				reg v = op##_loadu_##si((const reg *)(const void *)(p[t] + i)); \
				best = op##_max_epu8(best, op##_xor_##si(v, sign)); \
			} \
			op##_storeu_##si((reg *)(void *)(y + i), op##_xor_##si(best, sign)); \
		} \
		return i; \
	}

LARGEST(, 16, __m128i, _mm, si128)
LARGEST(__attribute__((target("avx2"))), 32, __m256i, _mm256, si256)

static __attribute__((target("avx2"))) void largest_avx2(const uint8_t *const *p, int64_t taps, uint8_t flip,
							 int64_t n, uint8_t *y)
{
	int64_t i = largest___m256i(p, taps, flip, 0, n, y);

	i = largest___m128i(p, taps, flip, i, n, y);
	largest_from(p, taps, flip, i, n, y);
}

#define largest_avx512 largest_avx2
#endif

static void largest_base(const uint8_t *const *p, int64_t taps, uint8_t flip, int64_t n, uint8_t *y)
{
	int64_t i = 0;

#ifdef __x86_64__
	i = largest___m128i(p, taps, flip, 0, n, y);
#endif
	largest_from(p, taps, flip, i, n, y);
}

INLINE void scale(const struct rvl_i8_floats *f, const int32_t *sum, int64_t n, float *y)
{
	const float *by = f->scale, *added = f->added, lo = f->lo, hi = f->hi;

	for (int64_t i = 0; added && i < n; i++)
		y[i] = rvl_clip((float)sum[i] * by[i] + added[i], lo, hi);
	for (int64_t i = 0; !added && i < n; i++)
		y[i] = rvl_clip((float)sum[i] * by[i], lo, hi);
}

#define SET(set, target) \
	static target void quantize_##set(const struct rvl_i8_quantize *q, const float *x, int64_t n, \
					  uint8_t *y) \
	{ \
		const float lo = (float)(q->lo - q->zp), hi = (float)(q->hi - q->zp), scale = q->scale; \
		const int32_t zp = q->zp; \
		for (int64_t i = 0; i < n; i++) \
			y[i] = rvl_round_to_byte(x[i] / scale, lo, hi, zp); \
	} \
	static target void dequantize_u8_##set(const uint8_t *x, int64_t n, float scale, int32_t zp, \
					       float *y) \
	{ \
		for (int64_t i = 0; i < n; i++) \
			y[i] = (float)(x[i] - zp) * scale; \
	} \
	static target void dequantize_s8_##set(const uint8_t *x, int64_t n, float scale, int32_t zp, \
					       float *y) \
	{ \
		for (int64_t i = 0; i < n; i++) \
			y[i] = (float)((int8_t)x[i] - zp) * scale; \
	} \
	static target void scale_##set(const struct rvl_i8_floats *f, const int32_t *sum, int64_t n, float *y) \
	{ \
		scale(f, sum, n, y); \
	} \
	const struct rvl_i8_convert rvl_i8_convert_##set = { \
		.scale = scale_##set, \
		.quantize = quantize_##set, .dequantize_u8 = dequantize_u8_##set, \
		.dequantize_s8 = dequantize_s8_##set, .interleave3 = interleave3_##set, \
		.add = add_##set, .mul = mul_##set, .look_up = look_up_##set, \
		.transpose = rvl_i8_transpose_##set, .largest = largest_##set, \
	};

#ifdef __aarch64__
#define add_base rvl_i8_add_neon
#define mul_base rvl_i8_mul_neon
#else
#define add_base rvl_ref_qadd
#define mul_base rvl_ref_qmul
#endif
#define add_avx2 rvl_i8_add_avx2
#define mul_avx2 rvl_i8_mul_avx2
#define add_avx512 rvl_i8_add_avx512
#define mul_avx512 rvl_i8_mul_avx512
SET(base, )
#ifdef __x86_64__
SET(avx2, __attribute__((target("avx2"))))
SET(avx512, __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"))))
#endif
