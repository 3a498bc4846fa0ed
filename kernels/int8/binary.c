/* SPDX-License-Identifier: MIT */
/*
 * Sums and products of sections 2 and 3 of docs/numerics.md, as rvl_ref_qadd() and rvl_ref_qmul(), for
 * the sets whose registers fuse a product and an addition.
 */
#include <math.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "int8/convert.h"
#include "int8/round.h"
#include "ref.h"

/* Bytes of either sign as numbers: (byte ^ flip) - bias. */
struct sign {
	uint8_t flip;
	int32_t bias;
};

INLINE struct sign sign_of(bool u8)
{
	return (struct sign) { .flip = u8 ? 0 : 0x80, .bias = u8 ? 0 : 128 };
}

INLINE int32_t number(uint8_t v, struct sign s)
{
	return (uint8_t)(v ^ s.flip) - s.bias;
}

INLINE void add(const struct rvl_qbinary *p, int64_t n, const uint8_t *a, const int64_t ia,
		const uint8_t *b, const int64_t ib, uint8_t *y)
{
	const struct sign sa = sign_of(p->a_u8), sb = sign_of(p->b_u8);
	const float ra = p->sa / p->sy, rb = p->sb / p->sy;
	const float fixed = (float)p->yz - fmaf(ra, (float)p->az, rb * (float)p->bz);
	const float lo = (float)p->lo, hi = (float)p->hi;

	for (int64_t i = 0; i < n; i++) {
		float v = fmaf((float)number(b[i * ib], sb), rb, fixed);

		y[i] = rvl_cvt_to_byte(fmaf((float)number(a[i * ia], sa), ra, v), lo, hi);
	}
}

INLINE void mul(const struct rvl_qbinary *p, int64_t n, const uint8_t *a, const int64_t ia,
		const uint8_t *b, const int64_t ib, uint8_t *y)
{
	struct sign sa = sign_of(p->a_u8), sb = sign_of(p->b_u8);
	const float scale = p->sa * p->sb, r = scale / p->sy, yz = (float)p->yz;
	const float lo = (float)p->lo, hi = (float)p->hi;

	sa.bias += p->az;
	sb.bias += p->bz;
	for (int64_t i = 0; i < n; i++) {
		float v = (float)(number(a[i * ia], sa) * number(b[i * ib], sb)) * r;

		y[i] = rvl_cvt_to_byte(v + yz, lo, hi);
	}
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE_AVX2 static inline __attribute__((always_inline, target("avx2,fma")))
#define STEP 32	/* elements that steps() computes at a time */

/* The constants of a sum or product, in all lanes. */
struct lanes {
	__m256 ra, rb, fixed;
	__m256 az, bz;
	__m256i lo, hi;
};

INLINE_AVX2 __m256 load8(const uint8_t *p, bool u8)
{
	__m128i v = _mm_loadl_epi64((const __m128i *)(const void *)p);

	return _mm256_cvtepi32_ps(u8 ? _mm256_cvtepu8_epi32(v) : _mm256_cvtepi8_epi32(v));
}

INLINE_AVX2 __m256 result8(const struct lanes *l, __m256 a, __m256 b, bool mul)
{
	if (!mul)
		return _mm256_fmadd_ps(a, l->ra, _mm256_fmadd_ps(b, l->rb, l->fixed));
	a = _mm256_mul_ps(_mm256_sub_ps(a, l->az), _mm256_sub_ps(b, l->bz));
	return _mm256_add_ps(_mm256_mul_ps(a, l->ra), l->fixed);
}

/*
 * Rounds, saturates and clamps 32 results. What int32 cannot hold becomes INT32_MIN, and so the lower
 * bound.
 */
INLINE_AVX2 void store32(const struct lanes *l, const __m256 *v, bool u8, uint8_t *y)
{
	__m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
	__m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32(v[2]), _mm256_cvtps_epi32(v[3]));
	__m256i r = u8 ? _mm256_packus_epi16(low, high) : _mm256_packs_epi16(low, high);

	/* Packing joins the halves of the registers one by one. */
	r = _mm256_permutevar8x32_epi32(r, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	r = u8 ? _mm256_max_epu8(r, l->lo) : _mm256_max_epi8(r, l->lo);
	r = u8 ? _mm256_min_epu8(r, l->hi) : _mm256_min_epi8(r, l->hi);
	_mm256_storeu_si256((__m256i *)(void *)y, r);
}

INLINE_AVX2 void steps(const struct lanes *l, int64_t n, const uint8_t *a, bool a_u8, const uint8_t *b,
		       bool b_u8, uint8_t *y, bool y_u8, bool mul)
{
	for (int64_t i = 0; i < n; i += STEP) {
		__m256 v[4];

		for (int j = 0; j < 4; j++)
			v[j] = result8(l, load8(a + i + 8 * j, a_u8), load8(b + i + 8 * j, b_u8), mul);
		store32(l, v, y_u8, y + i);
	}
}

/* The first elements of dense operands, a multiple of STEP. Returns their number. */
INLINE_AVX2 int64_t dense(const struct rvl_qbinary *p, int64_t n, const uint8_t *a, const uint8_t *b,
			  uint8_t *y, bool mul)
{
	const float ra = mul ? p->sa * p->sb / p->sy : p->sa / p->sy, rb = p->sb / p->sy;
	const float yz = (float)p->yz, fixed = yz - fmaf(ra, (float)p->az, rb * (float)p->bz);
	const struct lanes l = {
		.ra = _mm256_set1_ps(ra), .rb = _mm256_set1_ps(rb),
		.fixed = _mm256_set1_ps(mul ? yz : fixed),
		.az = _mm256_set1_ps((float)p->az), .bz = _mm256_set1_ps((float)p->bz),
		.lo = _mm256_set1_epi8((char)p->lo), .hi = _mm256_set1_epi8((char)p->hi),
	};

	n -= n % STEP;
	if (p->a_u8 && p->b_u8 && p->y_u8)
		steps(&l, n, a, true, b, true, y, true, mul);
	else if (!p->a_u8 && !p->b_u8 && !p->y_u8)
		steps(&l, n, a, false, b, false, y, false, mul);
	else
		steps(&l, n, a, p->a_u8, b, p->b_u8, y, p->y_u8, mul);
	return n;
}

INLINE_AVX2 int64_t add_avx2(const struct rvl_qbinary *p, int64_t n, const uint8_t *a, const uint8_t *b,
			     uint8_t *y)
{
	return dense(p, n, a, b, y, false);
}

INLINE_AVX2 int64_t mul_avx2(const struct rvl_qbinary *p, int64_t n, const uint8_t *a, const uint8_t *b,
			     uint8_t *y)
{
	return dense(p, n, a, b, y, true);
}
#endif

/*
 * Dense operands and a broadcast one have loops of their own. @first computes the first elements of
 * dense operands and returns their number.
 */
#define SET(set, target, op, first) \
	target void rvl_i8_##op##_##set(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia, \
					const void *b, int64_t ib, void *y) \
	{ \
		const uint8_t *pa = a, *pb = b; \
		uint8_t *py = y; \
		if (ia == 1 && ib == 1) { \
			int64_t i = first(p, n, pa, pb, py); \
			op(p, n - i, pa + i, 1, pb + i, 1, py + i); \
		} else if (ia == 1 && ib == 0) { \
			op(p, n, pa, 1, pb, 0, py); \
		} else { \
			op(p, n, pa, ia, pb, ib, py); \
		} \
	}
#define NONE(...) 0

#ifdef __x86_64__
SET(avx2, AVX2, add, add_avx2)
SET(avx2, AVX2, mul, mul_avx2)
/* With registers of 512 bits, the loops that gcc 12 makes take up to twice as long as steps(). */
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma,prefer-vector-width=512")))
SET(avx512, AVX512, add, add_avx2)
SET(avx512, AVX512, mul, mul_avx2)
#elif defined(__aarch64__)
SET(neon, , add, NONE)
SET(neon, , mul, NONE)
#endif
