/* SPDX-License-Identifier: MIT */
/* Products of bytes for AVX2, exact because the lists of a tile say where: see RVL_I8_QUAD. */
#ifdef __x86_64__
#define TARGET __attribute__((target("avx2,fma")))
#define MR 6
#include "int8/v256.h"
#include "int8/narrow.h"

#define QUADS 4		/* in a group */
#define QUAD_BYTES (RVL_I8_QUAD * NR)	/* weights of a block */
#define GROUP (QUADS * RVL_I8_QUAD)
#define GROUP_BYTES (3 * GROUP)	/* of a widened row: the bytes, then the int16 */

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
		vec a = broadcast(x[i] + at);

		sum[i][0] = V_ADD32(sum[i][0], V_MADD(multiply_bytes(a, w), ones));
		sum[i][1] = V_ADD32(sum[i][1], V_MADD(multiply_bytes(a, w + 2 * NR), ones));
	}
}

/* Two small quads. */
TARGET INLINE void add_small(vec sum[MR][2], const uint8_t *const x[MR], const struct rvl_i8_place *p,
			     const int8_t *w, vec ones, const int rows)
{
	const int8_t *w0 = w + p[0].w * QUAD_BYTES, *w1 = w + p[1].w * QUAD_BYTES;

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		vec a = broadcast(x[i] + p[0].x), b = broadcast(x[i] + p[1].x);
		vec lo = V_ADD16(multiply_bytes(a, w0), multiply_bytes(b, w1));
		vec hi = V_ADD16(multiply_bytes(a, w0 + 2 * NR), multiply_bytes(b, w1 + 2 * NR));

		sum[i][0] = V_ADD32(sum[i][0], V_MADD(lo, ones));
		sum[i][1] = V_ADD32(sum[i][1], V_MADD(hi, ones));
	}
}

/* Inputs 0 and 2 of a quad, or 1 and 3, as int16: the bytes of @w that are lower or higher in a word. */
TARGET INLINE vec weights_of(const int8_t *w, const int odd)
{
	vec v = V_LOAD(w);

	return _mm256_srai_epi16(odd ? v : _mm256_slli_epi16(v, 8), 8);
}

TARGET INLINE void add_wide(vec sum[MR][2], const uint8_t *const x[MR], int64_t at, const int8_t *w,
			    const int rows, const int odd)
{
	vec w0 = weights_of(w, odd), w1 = weights_of(w + 2 * NR, odd);

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		vec a, b;

		/* The compiler would read the rows of several steps ahead, and spill sums. */
		__asm__("vpbroadcastd %[x], %[a]\n\t"
			"vpmaddwd %[w0], %[a], %[b]\n\t"
			"vpmaddwd %[w1], %[a], %[a]\n\t"
			"vpaddd %[b], %[lo], %[lo]\n\t"
			"vpaddd %[a], %[hi], %[hi]"
			: [lo] "+x"(sum[i][0]), [hi] "+x"(sum[i][1]), [a] "=&x"(a), [b] "=&x"(b)
			: [x] "m"(*(const int8_t(*)[RVL_I8_QUAD])(x[i] + at)), [w0] "x"(w0), [w1] "x"(w1));
	}
}

TARGET INLINE void tile(const struct rvl_i8_gemm_call *c, const int rows)
{
	const struct rvl_i8_quads *q = c->quads;
	const struct rvl_i8_place *p = q->place, *past = p + q->small, *end = p + rvl_i8_places(c->kc);
	const int8_t *w = c->w;
	const uint8_t *x[MR];
	vec sum[MR][2], ones = V_SET1_16(1);

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++)
		x[i] = c->a[i];
	begin_sums(c, sum, rows);
	for (; p < past; p += 2)
		add_small(sum, x, p, w, ones, rows);
	keep(sum, rows);
	past = end + q->narrow;
	for (p = end; p < past; p++)
		add_narrow(sum, x, p->x, w + p->w * QUAD_BYTES, ones, rows);
	keep(sum, rows);
	for (p = end - q->wide; p < end; p++) {
		const int8_t *v = w + p->w * QUAD_BYTES;

		add_wide(sum, x, p->x, v, rows, 0);
		__asm__("" : "+r"(v));	/* else the compiler keeps the weights and spills sums */
		add_wide(sum, x, p->x + RVL_I8_QUAD, v, rows, 1);
	}
	end_sums(c, sum, rows);
}

#define TILE(rows) \
	TARGET static void tile_##rows(const struct rvl_i8_gemm_call *c) \
	{ \
		tile(c, rows); \
	}

GEMM_OF_SIX

TARGET static void widen_less(const uint8_t *p, int64_t n, bool u8, int less, uint8_t *dst)
{
	const __m128i flip = _mm_set1_epi8(u8 ? 0 : (char)0x80), move = _mm_set1_epi8((char)less);
	const vec move16 = V_SET1_16((int16_t)less);

	for (int64_t i = 0; i < n; i += GROUP, dst += GROUP_BYTES) {
		__m128i v = _mm_xor_si128(V_LOAD_BYTES(p + i), flip);
		vec wide = V_SUB16(V_CVTU(v), move16);

		V_STORE_BYTES(dst, _mm_sub_epi8(v, move));
		wide = _mm256_shufflelo_epi16(_mm256_shufflehi_epi16(wide, 0xd8), 0xd8);
		V_STORE(dst + GROUP, wide);
	}
}

/* Where the next place of each kind is written; wide ones are written backwards. */
struct lists {
	struct rvl_i8_place *small, *narrow, *wide;
};

/* The quads of a group that are of a kind, as bits. */
struct kinds {
	unsigned int small, narrow, wide;
};

static const uint8_t count[1 << QUADS] = { 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4 };

/* The places of the quads in @kind first; behind them some place. */
TARGET INLINE __m128i chosen(__m128i places, unsigned int kind)
{
	static const uint8_t order[1 << QUADS][QUADS] = {
		{ 0 }, { 0 }, { 1 }, { 0, 1 }, { 2 }, { 0, 2 }, { 1, 2 }, { 0, 1, 2 },
		{ 3 }, { 0, 3 }, { 1, 3 }, { 0, 1, 3 }, { 2, 3 }, { 0, 2, 3 }, { 1, 2, 3 }, { 0, 1, 2, 3 },
	};
	int32_t v;

	memcpy(&v, order[kind], sizeof(v));
	return _mm_castps_si128(_mm_permutevar_ps(_mm_castsi128_ps(places),
						  _mm_cvtepu8_epi32(_mm_cvtsi32_si128(v))));
}

/* Writes four places to each list, of which the next ones overwrite those that are not of its kind. */
TARGET INLINE void list_group(__m128i bytes, __m128i words, const struct kinds *of, struct lists *to)
{
	V_STORE_BYTES(to->small, chosen(bytes, of->small));
	to->small += count[of->small];
	V_STORE_BYTES(to->narrow, chosen(bytes, of->narrow));
	to->narrow += count[of->narrow];
	V_STORE_BYTES(to->wide - QUADS, _mm_shuffle_epi32(chosen(words, of->wide), 0x1b));
	to->wide -= count[of->wide];
}

/* The quads of @v without any bit of @mask, as bits. */
TARGET INLINE unsigned int without(__m128i v, char mask)
{
	__m128i none = _mm_cmpeq_epi32(_mm_and_si128(v, _mm_set1_epi8(mask)), _mm_setzero_si128());

	return (unsigned int)_mm_movemask_ps(_mm_castsi128_ps(none));
}

/* A place as it lies in memory. */
#define PLACE(x, w) ((int32_t)(x) | (w) << 16)

TARGET static void sort(const uint8_t *x, int64_t row_bytes, int rows, int64_t kc, struct rvl_i8_quads *q)
{
	struct rvl_i8_place *end = q->place + rvl_i8_places(kc);
	struct lists to = { q->place, end, end };
	__m128i bytes = _mm_setr_epi32(PLACE(0, 0), PLACE(RVL_I8_QUAD, 1), PLACE(2 * RVL_I8_QUAD, 2),
				       PLACE(3 * RVL_I8_QUAD, 3));
	__m128i words = _mm_setr_epi32(PLACE(GROUP, 0), PLACE(GROUP + 2 * RVL_I8_QUAD, 1),
				       PLACE(GROUP + 4 * RVL_I8_QUAD, 2), PLACE(GROUP + 6 * RVL_I8_QUAD, 3));
	const __m128i next = _mm_set1_epi32(PLACE(GROUP_BYTES, QUADS));

	for (int64_t g = 0; g < kc / GROUP; g++, x += GROUP_BYTES) {
		__m128i any = V_LOAD_BYTES(x);
		unsigned int zero, small, low;

		for (int i = 1; i < rows; i++)
			any = _mm_or_si128(any, V_LOAD_BYTES(x + i * row_bytes));
		zero = without(any, (char)0xff);
		small = without(any, (char)0xc0);
		low = without(any, (char)0x80);
		list_group(bytes, words, &(struct kinds) { small & ~zero, low & ~small, ~low & 0xf }, &to);
		bytes = _mm_add_epi16(bytes, next);
		words = _mm_add_epi16(words, next);
	}
	if ((to.small - q->place) % 2)
		*to.narrow++ = *--to.small;
	q->small = to.small - q->place;
	q->narrow = to.narrow - end;
	q->wide = end - to.wide;
}

const struct rvl_i8_kernels rvl_i8_bytes_avx2 = {
	.mr = MR, .nr = NR, .kr = RVL_I8_QUAD, .widened = GROUP_BYTES / GROUP,
	.offset = { 128, 0 }, .gemm = gemm, .widen_less = widen_less, .sort = sort, .group = GROUP,
	.convert = &rvl_i8_convert_avx2, .requant = requant16,
};
#endif
