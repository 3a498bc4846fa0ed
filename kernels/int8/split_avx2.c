/* SPDX-License-Identifier: MIT */
/* Products of bytes for AVX2, exact because the weights are split: see struct rvl_i8_rest. */
#ifdef __x86_64__
#define TARGET __attribute__((target("avx2,fma")))
#define MR 6
#include "int8/v256.h"
#include "int8/narrow.h"

#define HALF_BYTES (HALF * RVL_I8_QUAD)	/* weights of a quad under half of the columns */
#define QUAD_BYTES (2 * HALF_BYTES)

_Static_assert(NR == 2 * RVL_I8_HALF && HALF == RVL_I8_HALF, "a register has the sums of half of a block's columns");
_Static_assert(RVL_I8_WINDOW * RVL_I8_QUAD == sizeof(vec), "a register has the quads of a window");

/* What the loops need of a call, in registers. The rows are uint8. */
struct operands {
	vec ones;
	const uint8_t *x[MR];
};

#define WEIGHTS(p) "m"(*(const int8_t(*)[HALF_BYTES])(p))

TARGET INLINE vec broadcast(const void *p)
{
	vec a;

	__asm__("vpbroadcastd %1, %0" : "=x"(a) : "m"(*(const uint8_t(*)[RVL_I8_QUAD])p));
	return a;
}

/* A quad at byte @at of all rows. No register is left for weights, and the compiler would spill sums. */
TARGET INLINE void add_quad(vec sum[MR][2], const struct operands *o, int64_t at, const int8_t *w, const int rows)
{
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		vec a = broadcast(o->x[i] + at), b;

		__asm__("vpmaddubsw %[w0], %[a], %[b]\n\t"
			"vpmaddubsw %[w1], %[a], %[a]\n\t"
			"vpmaddwd %[ones], %[b], %[b]\n\t"
			"vpmaddwd %[ones], %[a], %[a]\n\t"
			"vpaddd %[b], %[lo], %[lo]\n\t"
			"vpaddd %[a], %[hi], %[hi]"
			: [lo] "+x"(sum[i][0]), [hi] "+x"(sum[i][1]), [a] "+x"(a), [b] "=&x"(b)
			: [w0] WEIGHTS(w), [w1] WEIGHTS(w + HALF_BYTES), [ones] "x"(o->ones));
	}
}

TARGET INLINE void point_at(const struct rvl_i8_gemm_call *c, int64_t tap, struct operands *o, const int rows)
{
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++)
		o->x[i] = c->a[tap * MR + i];
}

/* A step of the rests of the columns on one side, the first half of them or the last. */
TARGET INLINE void add_step(vec sum[MR][2], const struct operands *o, int64_t at, const struct rvl_i8_rest_step *s,
			    const int side, const int rows)
{
	const vec columns = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), second = V_SET1_32(RVL_I8_SECOND_PAIR);
	vec place = _mm256_srlv_epi32(broadcast(s->place), _mm256_mullo_epi32(columns, V_SET1_32(RVL_I8_PLACE_BITS)));
	vec w = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)s->w));

	/* A byte, to the first byte of its pair. */
	w = _mm256_sllv_epi32(w, V_SLL32(_mm256_and_si256(place, second), 1));
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		vec a;

		/* VPERMD reads the lowest three bits of a place. */
		__asm__("vmovdqu %[x], %[a]\n\t"
			"vpermd %[a], %[place], %[a]\n\t"
			"vpmaddubsw %[w], %[a], %[a]\n\t"
			"vpmaddwd %[ones], %[a], %[a]\n\t"
			"vpaddd %[a], %[sum], %[sum]"
			: [sum] "+x"(sum[i][side]), [a] "=&x"(a)
			: [x] "m"(*(const uint8_t(*)[RVL_I8_WINDOW * RVL_I8_QUAD])(o->x[i] + at)),
			  [place] "x"(place), [w] "x"(w), [ones] "x"(o->ones));
	}
}

TARGET INLINE void add_rest(const struct rvl_i8_gemm_call *c, vec sum[MR][2], struct operands *o, const int side,
			    const int rows)
{
	const struct rvl_i8_rest_step *s = c->rest->step + (side ? c->rest->n[0] : 0), *past = s + c->rest->n[side];

	for (int64_t first = 0, tap = 0; s < past; first += c->kc, tap++) {
		point_at(c, tap, o, rows);
		for (; s < past && s->quad * RVL_I8_QUAD < first + c->kc; s++)
			add_step(sum, o, s->quad * RVL_I8_QUAD - first, s, side, rows);
	}
	keep(sum, rows);
}

TARGET INLINE void tile(const struct rvl_i8_gemm_call *c, const int rows)
{
	struct operands o = { .ones = V_SET1_16(1) };
	const int8_t *w = c->w;
	vec sum[MR][2];

	begin_sums(c, sum, rows);
	for (int64_t t = 0; t < c->taps; t++) {
		point_at(c, t, &o, rows);
		for (int64_t k = 0; k < c->kc; k += RVL_I8_QUAD, w += QUAD_BYTES)
			add_quad(sum, &o, k, w, rows);
	}
	keep(sum, rows);
	add_rest(c, sum, &o, 0, rows);
	add_rest(c, sum, &o, 1, rows);
	end_sums(c, sum, rows);
}

#define TILE(rows) \
	TARGET static void tile_##rows(const struct rvl_i8_gemm_call *c) \
	{ \
		tile(c, rows); \
	}

GEMM_OF_SIX

/* Converts a run of int8, which has the inputs of a window at least: vectors, the last of which ends with it. */
TARGET INLINE void as_uint8(const uint8_t *p, int64_t n, vec flip, uint8_t *to)
{
	int64_t last = n - (int64_t)sizeof(vec);

	for (int64_t i = 0; i < last; i += sizeof(vec))
		V_STORE(to + i, V_XOR(V_LOAD(p + i), flip));
	V_STORE(to + last, V_XOR(V_LOAD(p + last), flip));
}

/* Rows of uint8 are read where they lie. To convert each quad of int8 in every block takes longer than a copy. */
TARGET static void widen(const uint8_t *const *p, int64_t runs, int64_t step, int64_t n, bool u8, void *dst)
{
	const vec flip = V_SET1_8((char)(u8 ? 0 : 0x80));

	for (int64_t i = 0; i < runs; i++)
		as_uint8(p[i * step], n, flip, (uint8_t *)dst + i * n);
}

const struct rvl_i8_kernels rvl_i8_split_avx2 = {
	.mr = MR, .nr = NR, .kr = RVL_I8_QUAD, .widened = 1, .offset = { 128, 0 }, .gemm = gemm,
	.widen = widen, .convert = &rvl_i8_convert_avx2, .requant = requant16,
};
#endif
