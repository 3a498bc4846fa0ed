/* SPDX-License-Identifier: MIT */
/* Products of bytes for AVX2, exact because the packed weights say where: see RVL_I8_QUAD. */
#ifdef __x86_64__
#define TARGET __attribute__((target("avx2,fma")))
#define MR 6
#include "int8/v256.h"
#include "int8/narrow.h"

#define AS_BYTES (2 * RVL_I8_QUAD)	/* where a widened quad has its values as bytes */

TARGET INLINE vec broadcast(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return V_SET1_32(v);
}

/* Sums of two products of bytes. The weights stay in memory, because no register is left for them. */
TARGET INLINE vec multiply_bytes(vec x, const int8_t *w)
{
	vec y;

	__asm__("vpmaddubsw %2, %1, %0" : "=x"(y) : "x"(x), "m"(*(const int8_t(*)[sizeof(vec)])w));
	return y;
}

TARGET INLINE void add_narrow(vec sum[MR][2], const uint8_t *const x[MR], int64_t at, const int8_t *w, vec ones,
			      const int rows)
{
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		vec a = broadcast(x[i] + at + AS_BYTES);

		sum[i][0] = V_ADD32(sum[i][0], V_MADD(multiply_bytes(a, w), ones));
		sum[i][1] = V_ADD32(sum[i][1], V_MADD(multiply_bytes(a, w + 2 * NR), ones));
	}
}

/* Two inputs as int16. */
TARGET INLINE void add_wide(vec sum[MR][2], const uint8_t *const x[MR], int64_t at, const int8_t *w,
			    const int rows)
{
	vec w0 = V_CVTS(V_LOAD_BYTES(w)), w1 = V_CVTS(V_LOAD_BYTES(w + NR));

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		vec a = broadcast(x[i] + at);

		sum[i][0] = V_ADD32(sum[i][0], V_MADD(a, w0));
		sum[i][1] = V_ADD32(sum[i][1], V_MADD(a, w1));
	}
}

TARGET INLINE void tile(const struct rvl_i8_gemm_call *c, const int rows)
{
	const uint8_t *step = c->steps, *past = step + c->narrow, *x[MR];
	vec sum[MR][2], ones = V_SET1_16(1);
	const int8_t *w = c->w;

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++)
		x[i] = c->a[i];
	begin_sums(c, sum, rows);
	for (int64_t at = 0; step < past; step++, w += RVL_I8_QUAD * NR) {
		at += (int64_t)*step * RVL_I8_QUAD_BYTES;
		add_narrow(sum, x, at, w, ones, rows);
	}
	keep(sum, rows);
	past = c->steps + c->kc / RVL_I8_QUAD;
	for (int64_t at = 0; step < past; step++, w += RVL_I8_QUAD * NR) {
		at += (int64_t)*step * RVL_I8_QUAD_BYTES;
		add_wide(sum, x, at, w, rows);
		keep(sum, rows);
		add_wide(sum, x, at + RVL_I8_QUAD, w + 2 * NR, rows);
	}
	end_sums(c, sum, rows);
}

#define TILE(rows) \
	TARGET static void tile_##rows(const struct rvl_i8_gemm_call *c) \
	{ \
		tile(c, rows); \
	}

GEMM_OF_SIX

/* Four quads. */
TARGET INLINE void widen_four(__m128i v, uint8_t *dst)
{
#define Z ((char)0x80)
#define QUAD_OF(i) i, Z, i + 1, Z, i + 2, Z, i + 3, Z
#define BYTES_OF(i) i, i + 1, i + 2, i + 3
	const __m128i a = _mm_setr_epi8(QUAD_OF(0), BYTES_OF(0), 4, Z, 5, Z);
	const __m128i b = _mm_setr_epi8(6, Z, 7, Z, BYTES_OF(4), QUAD_OF(8));
	const __m128i c = _mm_setr_epi8(BYTES_OF(8), QUAD_OF(12), BYTES_OF(12));

	V_STORE_BYTES(dst, _mm_shuffle_epi8(v, a));
	V_STORE_BYTES(dst + 16, _mm_shuffle_epi8(v, b));
	V_STORE_BYTES(dst + 32, _mm_shuffle_epi8(v, c));
}

TARGET static void widen(const uint8_t *p, int64_t n, bool u8, void *to)
{
	const __m128i flip = _mm_set1_epi8(u8 ? 0 : (char)0x80);
	uint8_t *dst = to, part[16] = { 0 }, out[3 * 16];
	int64_t i = 0;

	for (; i + 16 <= n; i += 16, dst += sizeof(out))
		widen_four(_mm_xor_si128(V_LOAD_BYTES(p + i), flip), dst);
	if (i == n)
		return;
	memcpy(part, p + i, (size_t)(n - i));
	widen_four(_mm_xor_si128(V_LOAD_BYTES(part), flip), out);
	memcpy(dst, out, (size_t)(n - i) * RVL_I8_QUAD_BYTES / RVL_I8_QUAD);
}

const struct rvl_i8_kernels rvl_i8_bytes_avx2 = {
	.mr = MR, .nr = NR, .kr = RVL_I8_QUAD, .widened = RVL_I8_QUAD_BYTES / RVL_I8_QUAD,
	.offset = { 128, 0 }, .gemm = gemm, .widen = widen, .convert = &rvl_i8_convert_avx2,
	.requant = requant16,
};
#endif
