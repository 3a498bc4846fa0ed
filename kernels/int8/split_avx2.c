/* SPDX-License-Identifier: MIT */
/* Products of bytes for AVX2, exact because the weights are split: see struct rvl_i8_rest. */
#ifdef __x86_64__
#define TARGET __attribute__((target("avx2,fma")))
#define MR 6
#include "int8/v256.h"
#include "int8/narrow.h"

#define HALF_BYTES RVL_I8_REST	/* weights of a quad under half of the columns */
#define QUAD_BYTES (2 * HALF_BYTES)

/* What the loops need of a call, in registers. */
struct operands {
	vec ones, flip;
	const uint8_t *x[MR];
};

#define INPUT "m"(*(const uint8_t(*)[RVL_I8_QUAD])(o->x[i] + at))
#define WEIGHTS(p) "m"(*(const int8_t(*)[HALF_BYTES])(p))

/* A quad of row @i, as uint8. */
TARGET INLINE vec broadcast(const struct operands *o, int i, int64_t at, const int x_u8)
{
	vec a;

	if (x_u8)
		__asm__("vpbroadcastd %1, %0" : "=x"(a) : INPUT);
	else
		__asm__("vpbroadcastd %1, %0\n\tvpxor %2, %0, %0" : "=&x"(a) : INPUT, "x"(o->flip));
	return a;
}

/* A quad at byte @at of all rows. No register is left for weights, and the compiler would spill sums. */
TARGET INLINE void add_quad(vec sum[MR][2], const struct operands *o, int64_t at, const int8_t *w, const int rows,
			    const int x_u8)
{
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		vec a = broadcast(o, i, at, x_u8), b;

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

/* The same of the columns on one side, the first half of them or the last. */
TARGET INLINE void add_half(vec sum[MR][2], const struct operands *o, int64_t at, const int8_t *w, const int side,
			    const int rows, const int x_u8)
{
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		vec a = broadcast(o, i, at, x_u8);

		__asm__("vpmaddubsw %[w], %[a], %[a]\n\t"
			"vpmaddwd %[ones], %[a], %[a]\n\t"
			"vpaddd %[a], %[sum], %[sum]"
			: [sum] "+x"(sum[i][side]), [a] "+x"(a) : [w] WEIGHTS(w), [ones] "x"(o->ones));
	}
}

TARGET INLINE void add_rest(const struct rvl_i8_gemm_call *c, vec sum[MR][2], struct operands *o, const int side,
			    const int rows, const int x_u8)
{
	const int64_t first = side ? c->rest->n[0] : 0;
	const struct rvl_i8_rest_place *p = c->rest->place + first, *past = p + c->rest->n[side];
	const int8_t *w = c->rest->w + first * HALF_BYTES;

	while (p < past) {
		const uint16_t tap = p->tap;

		point_at(c, tap, o, rows);
		for (; p < past && p->tap == tap; p++, w += HALF_BYTES)
			add_half(sum, o, (int64_t)p->quad * RVL_I8_QUAD, w, side, rows, x_u8);
	}
	keep(sum, rows);
}

TARGET INLINE void tile(const struct rvl_i8_gemm_call *c, const int rows, const int x_u8)
{
	struct operands o = { .ones = V_SET1_16(1), .flip = V_SET1_8((char)0x80) };
	const int8_t *w = c->w;
	vec sum[MR][2];

	begin_sums(c, sum, rows);
	for (int64_t t = 0; t < c->taps; t++) {
		point_at(c, t, &o, rows);
		for (int64_t k = 0; k < c->kc; k += RVL_I8_QUAD, w += QUAD_BYTES)
			add_quad(sum, &o, k, w, rows, x_u8);
	}
	keep(sum, rows);
	add_rest(c, sum, &o, 0, rows, x_u8);
	add_rest(c, sum, &o, 1, rows, x_u8);
	end_sums(c, sum, rows);
}

#define TILE(rows) \
	TARGET static void tile_##rows(const struct rvl_i8_gemm_call *c) \
	{ \
		if (c->x_u8) \
			tile(c, rows, 1); \
		else \
			tile(c, rows, 0); \
	}

GEMM_OF_SIX

const struct rvl_i8_kernels rvl_i8_split_avx2 = {
	.mr = MR, .nr = NR, .kr = RVL_I8_QUAD, .offset = { 128, 0 }, .gemm = gemm,
	.convert = &rvl_i8_convert_avx2, .requant = requant16,
};
#endif
