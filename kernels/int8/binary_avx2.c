/* SPDX-License-Identifier: MIT */
/* Sections 2 and 3 of docs/numerics.md, sixteen elements at a time. */
#include "int8/binary.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "ref.h"

#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline))
#define SIDE 16

/* An operand that is read with a stride of 0 or 1. */
struct operand {
	const uint8_t *p;
	int64_t stride;
	bool u8;
};

struct values {
	__m256i lo, hi;	/* eight int32 each */
};

/* Elements [@at, @at + @n) of an operand; elements that do not exist have any value. */
AVX2 INLINE struct values load(const struct operand *o, int64_t at, int64_t n)
{
	uint8_t part[SIDE] = { 0 };
	__m128i v;

	if (!o->stride) {
		v = _mm_set1_epi8((char)o->p[0]);
	} else if (n >= SIDE) {
		v = _mm_loadu_si128((const __m128i *)(o->p + at));
	} else {
		memcpy(part, o->p + at, (size_t)n);
		v = _mm_loadu_si128((const __m128i *)part);
	}
	if (o->u8)
		return (struct values) { _mm256_cvtepu8_epi32(v),
					 _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)) };
	return (struct values) { _mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)) };
}

AVX2 INLINE __m256i clamped(__m256 v, const struct rvl_qbinary *p)
{
	__m256i q = _mm256_max_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(p->lo));

	return _mm256_min_epi32(q, _mm256_set1_epi32(p->hi));
}

AVX2 INLINE void store(const struct rvl_qbinary *p, __m256 lo, __m256 hi, uint8_t *y, int64_t n)
{
	__m256i v = _mm256_packs_epi32(clamped(lo, p), clamped(hi, p));
	uint8_t out[SIDE];
	__m128i low, high, bytes;

	v = _mm256_permute4x64_epi64(v, 0xd8);
	low = _mm256_castsi256_si128(v);
	high = _mm256_extracti128_si256(v, 1);
	bytes = p->y_u8 ? _mm_packus_epi16(low, high) : _mm_packs_epi16(low, high);
	if (n >= SIDE) {
		_mm_storeu_si128((__m128i *)y, bytes);
		return;
	}
	_mm_storeu_si128((__m128i *)out, bytes);
	memcpy(y, out, (size_t)n);
}

AVX2 INLINE __m256 sum(__m256i a, __m256i b, __m256 ra, __m256 rb, __m256 fixed)
{
	return _mm256_fmadd_ps(_mm256_cvtepi32_ps(a), ra,
			       _mm256_fmadd_ps(_mm256_cvtepi32_ps(b), rb, fixed));
}

AVX2 void rvl_i8_add_avx2(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia,
			  const void *b, int64_t ib, void *y)
{
	const struct operand oa = { a, ia, p->a_u8 }, ob = { b, ib, p->b_u8 };
	const float fa = p->sa / p->sy, fb = p->sb / p->sy;
	const __m256 ra = _mm256_set1_ps(fa), rb = _mm256_set1_ps(fb);
	const __m256 fixed = _mm256_set1_ps((float)p->yz - fmaf(fa, (float)p->az, fb * (float)p->bz));

	for (int64_t i = 0; i < n; i += SIDE) {
		struct values va = load(&oa, i, n - i), vb = load(&ob, i, n - i);

		store(p, sum(va.lo, vb.lo, ra, rb, fixed), sum(va.hi, vb.hi, ra, rb, fixed),
		      (uint8_t *)y + i, n - i);
	}
}

AVX2 INLINE __m256 product(__m256i a, __m256i b, const struct rvl_qbinary *p, __m256 r)
{
	__m256i v = _mm256_mullo_epi32(_mm256_sub_epi32(a, _mm256_set1_epi32(p->az)),
				       _mm256_sub_epi32(b, _mm256_set1_epi32(p->bz)));

	return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(v), r), _mm256_set1_ps((float)p->yz));
}

AVX2 void rvl_i8_mul_avx2(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia,
			  const void *b, int64_t ib, void *y)
{
	const struct operand oa = { a, ia, p->a_u8 }, ob = { b, ib, p->b_u8 };
	const float scale = p->sa * p->sb;
	const __m256 r = _mm256_set1_ps(scale / p->sy);

	for (int64_t i = 0; i < n; i += SIDE) {
		struct values va = load(&oa, i, n - i), vb = load(&ob, i, n - i);

		store(p, product(va.lo, vb.lo, p, r), product(va.hi, vb.hi, p, r), (uint8_t *)y + i,
		      n - i);
	}
}
#endif
