/* SPDX-License-Identifier: MIT */
/*
 * Sums and products of sections 2 and 3 of docs/numerics.md, as rvl_ref_qadd() and rvl_ref_qmul(), for
 * the sets whose registers fuse a product and an addition.
 */
#include <math.h>

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

/* Dense operands and a broadcast one have loops of their own. */
#define SET(set, target, op) \
	target void rvl_i8_##op##_##set(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia, \
					const void *b, int64_t ib, void *y) \
	{ \
		if (ia == 1 && ib == 1) \
			op(p, n, a, 1, b, 1, y); \
		else if (ia == 1 && ib == 0) \
			op(p, n, a, 1, b, 0, y); \
		else \
			op(p, n, a, ia, b, ib, y); \
	}

#ifdef __x86_64__
SET(avx2, __attribute__((target("avx2,fma"))), add)
SET(avx2, __attribute__((target("avx2,fma"))), mul)
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma,prefer-vector-width=512")))
SET(avx512, AVX512, add)
SET(avx512, AVX512, mul)
#elif defined(__aarch64__)
SET(neon, , add)
SET(neon, , mul)
#endif
