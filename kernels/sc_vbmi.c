/* SPDX-License-Identifier: MIT */
/*
 * The product table as a byte permutation. The 128 counts of one input fill two registers, and one
 * permutation looks up the products with 64 weights. Four inputs are interleaved, so that one dot
 * product with the signs adds them. Position 16 l + 4 q + i of a vector of magnitudes holds output
 * 16 q + 4 l + i; the two rounds of interleaving bring the outputs into the order of the sums.
 */
#include "sc.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#define VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vnni")))

VBMI static inline __m512i products(const struct rvl_sc *s, uint8_t x, const uint8_t *mag)
{
	const uint8_t *row = s->ones + 128 * x;

	return _mm512_permutex2var_epi8(_mm512_load_si512(row), _mm512_load_si512(mag),
					_mm512_load_si512(row + 64));
}

VBMI static inline void quad(const struct rvl_sc *s, const uint8_t *x, const uint8_t *mag,
			     const int8_t *sign, __m512i sum[4])
{
	__m512i p0 = products(s, x[0], mag), p1 = products(s, x[1], mag + 64);
	__m512i p2 = products(s, x[2], mag + 128), p3 = products(s, x[3], mag + 192);
	__m512i a = _mm512_unpacklo_epi8(p0, p1), b = _mm512_unpackhi_epi8(p0, p1);
	__m512i c = _mm512_unpacklo_epi8(p2, p3), d = _mm512_unpackhi_epi8(p2, p3);

	sum[0] = _mm512_dpbusd_epi32(sum[0], _mm512_unpacklo_epi16(a, c),
				     _mm512_load_si512(sign));
	sum[1] = _mm512_dpbusd_epi32(sum[1], _mm512_unpackhi_epi16(a, c),
				     _mm512_load_si512(sign + 64));
	sum[2] = _mm512_dpbusd_epi32(sum[2], _mm512_unpacklo_epi16(b, d),
				     _mm512_load_si512(sign + 128));
	sum[3] = _mm512_dpbusd_epi32(sum[3], _mm512_unpackhi_epi16(b, d),
				     _mm512_load_si512(sign + 192));
}

VBMI void rvl_sc_tile_vbmi(const struct rvl_sc *s, const uint8_t *x, const uint8_t *mag,
			   const int8_t *sign, int32_t *acc)
{
	int64_t quads = rvl_sc_quads(s);
	__m512i sum[4];

	for (int i = 0; i < 4; i++)
		sum[i] = _mm512_load_si512(acc + 16 * i);
	for (int64_t r = 0; r < s->runs; r++) {
		const uint8_t *from = x + s->off[r];

		for (int64_t q = 0; q < quads; q++, from += 4, mag += 256, sign += 256) {
			uint32_t any;

			memcpy(&any, from, sizeof(any));
			if (any)
				quad(s, from, mag, sign, sum);
		}
	}
	for (int i = 0; i < 4; i++)
		_mm512_store_si512(acc + 16 * i, sum[i]);
}
#endif
