/* SPDX-License-Identifier: MIT */
/*
 * Micro-kernels of quantised products, one set for each instruction set. Activations are bytes of
 * either sign, channels last; weights are int8, packed once in the order that the set reads. The
 * arithmetic is section 1 of docs/numerics.md: every set gives the same bits.
 */
#ifndef RVL_INT8_H
#define RVL_INT8_H

#include <stdbool.h>
#include <stdint.h>

#include "int8/convert.h"

/* Requantisation of a sum, in the values of the type of the result. */
struct rvl_i8_post {
	float lo, hi;		/* clamp before rounding, zero point subtracted */
	int32_t zp;		/* zero point of the result */
	int32_t least, most;	/* clamp of the result */
	bool clamps;		/* which is narrower than the range of its type */
	bool bounded;		/* no scaled sum reaches 2^31: the clamp of the result suffices */
	bool u8;		/* the results are uint8, else int8 */
};

/*
 * One tile: up to @mr rows by up to @nr columns. Row i reads @kc bytes, a multiple of the set's @kr,
 * at a[t * mr + i] for each tap t, and no byte outside them. All pointers are valid, whatever @rows
 * is. If @widened, the rows are what widen() or widen_less() wrote, and there is one tap.
 */
struct rvl_i8_gemm_call {
	const uint8_t *const *a;
	int64_t taps, kc;
	const void *w;		/* int8 [tap][kc / kr][nr][kr]; bits: tables.h */
	/*
	 * Bytes behind the weights in use of which a kernel may bring others into the second-level cache, those of the
	 * next blocks of columns, too: processors do so only up to the end of a page. 0: they are in the cache.
	 */
	int64_t ahead;
	const struct rvl_i8_quads *quads;	/* of the rows, of a set that sorts them; else NULL */
	const struct rvl_i8_rest *rest;	/* of the weights, of a set that splits them; else NULL */
	const int32_t *bias;	/* [nr], as all that follows corrected for the zero point */
	const float *scale;	/* [nr] */
	uint8_t *y;
	int64_t y_stride;	/* bytes between rows */
	int32_t *sums;		/* [mr][nr]: takes the sums, and @scale, @y and @post are not used; or NULL */
	int rows, cols;
	int planes;		/* bits of the weights of a set with tables, of which */
	bool is_signed;		/* ... the highest one is negative */
	bool x_u8, widened;
	const struct rvl_i8_post *post;
};

/*
 * VPMADDUBSW multiplies uint8 by int8 and adds two adjacent products as int16. Sums of four products take
 * three operations instead of four, but the int16 saturate. A quad, four adjacent inputs of all rows of a
 * tile, is narrow if no value in it exceeds 127: two products are then within 2 * 127 * 128, whatever the
 * weights are. It is small if no value exceeds 63: the int16 of two small quads are added before they are
 * widened to int32. Wide quads are multiplied as int16. Quads of zeros alone add nothing and are in no list.
 *
 * Values have a constant subtracted: rvl_i8_mat.less. Widened rows have, for each group of four quads, the
 * 16 values modulo 256 as bytes, then as int16, those of each quad in the order 0, 2, 1, 3.
 */
#define RVL_I8_QUAD 4
#define RVL_I8_MOST_LESS 128	/* up to this, no value below zero is a byte up to 127 */

/* Where a quad begins: byte @x of the widened rows, as bytes or int16, and quad @w of the weights of a block. */
struct rvl_i8_place {
	uint16_t x, w;
};

/*
 * The quads of a tile. Of the first rvl_i8_places() places, an even number in front are of small quads, and
 * those at the end of wide ones; as many places behind them begin with the narrow ones.
 */
struct rvl_i8_quads {
	int64_t small, narrow, wide;
	struct rvl_i8_place place[];
};

/* More than the quads, because four places at a time are written to both ends, whatever their kind is. */
static inline int64_t rvl_i8_places(int64_t kc)
{
	return kc / RVL_I8_QUAD + 4;
}

/*
 * The other way to exact products of bytes: VPMADDUBSW never saturates where the sum of both weights of a pair
 * is within RVL_I8_MOST_PAIR, whatever the uint8 are. What a pair has beyond that is subtracted from its first
 * weight and is a rest. If all channels of trained networks have one scale, hardly any pair has a rest; if each
 * has its own, about one of a hundred. FBGEMM splits weights between two products for the same reason (D. Khudia
 * et al., FBGEMM: Enabling High-Performance Low-Precision Deep Learning Inference, 2021).
 *
 * Few of the quads under a half of a block's columns have more than one rest. A step thus adds the rests of
 * different quads at once: from a window of inputs, each column takes a quad in which it has a rest.
 */
#define RVL_I8_MOST_PAIR 128
#define RVL_I8_WINDOW 8	/* quads, adjacent ones of a tap */
#define RVL_I8_HALF 8	/* columns */
#define RVL_I8_PLACE_BITS 4
#define RVL_I8_SECOND_PAIR 8	/* in a place, beside the quad of the window */

struct rvl_i8_rest_step {
	uint16_t quad;		/* at which the window begins, counted over all taps */
	uint16_t place[2];	/* of each column, the first one in the lowest bits, as one uint32 in two halves */
	int8_t w[RVL_I8_HALF];	/* rests, of the first weight of the pair */
};

/* The rests of a block, those under its first half of columns in front. */
struct rvl_i8_rest {
	const struct rvl_i8_rest_step *step;
	int64_t n[2];	/* steps of each half */
};

/*
 * Depthwise: @pixels results of one row. Pixel i reads @channels bytes at p[t] + i * x_step for each
 * tap t. @taps is a multiple of the set's taps in a group.
 */
struct rvl_i8_dw_call {
	const uint8_t *const *p;
	int64_t taps, pixels, x_step, channels;
	/* [tile][taps / kr][nr][kr], int16 if the set multiplies int16, channels as rvl_i8_dw_channel() says */
	const void *w;
	const int32_t *bias;	/* [tile * nr], in the same order */
	const float *scale;
	uint8_t *y;
	int64_t y_stride;	/* bytes between pixels */
	bool x_u8;
	/*
	 * Taps in the order of the kernel's @slide: the bytes from column to column, of which x_step
	 * is one or two times as many; else 0. Then @p are the rows of a window, in column 0, the
	 * first one of the first window; columns outside of [first, past) are not read, their values
	 * are @pad.
	 */
	int64_t column, first, past;
	uint8_t pad;
	const struct rvl_i8_post *post;
};

/*
 * The order in which a depthwise kernel reads the taps of windows of 3 x 3 that are one or two columns
 * apart: position i has tap @tap[i], counted by rows, or none (-1). The last @repeated positions have taps
 * that others have too, and add no products.
 */
struct rvl_i8_slide {
	const int8_t *tap;
	int taps, repeated;
};

/* Depthwise kernel for tiles of @nr channels that takes @kr taps at a time. */
struct rvl_i8_dw {
	int nr, kr;
	void (*run)(const struct rvl_i8_dw_call *c);
	const struct rvl_i8_slide *slide;	/* or NULL */
};

#define RVL_I8_TILE 1024	/* most sums of a tile */
#define RVL_I8_DW_TAPS 256
#define RVL_I8_BEYOND 32

/* Most values of a transformed tile, and most results of a tile. */
#define RVL_I8_WINO_VALUES 36
#define RVL_I8_WINO_RESULTS 16

/* Requantises the results of a tile in up to @nr columns. */
struct rvl_i8_wino_out {
	const int32_t *m;	/* products: value i of the tile begins at m + i * step */
	int64_t step;
	const int32_t *bias;	/* as of struct rvl_i8_gemm_call */
	const float *scale;
	uint8_t *y[RVL_I8_WINO_RESULTS];	/* by rows; NULL: the result is not in the image */
	int cols;
	const struct rvl_i8_post *post;
};

/*
 * Convolutions of 3 x 3 by Winograd's minimal filtering F(r x r, 3 x 3): tiles of (r + 2) x (r + 2) pixels
 * and the weights are transformed, multiplied value by value with sums over the channels, and the sums of
 * a tile transformed back to r x r results. With r = 2 that takes 16 products instead of 36, with r = 4 it
 * takes 36 instead of 144. S. Winograd, Arithmetic Complexity of Computations, 1980; A. Lavin and S. Gray,
 * Fast Algorithms for Convolutional Neural Networks, CVPR 2016.
 *
 * All values are integers: each row of the weights' transform is multiplied by its denominators, so that it
 * divides nothing, and the sums are multiples of the results, by 4 for r = 2, by 9 and a power of two up to
 * 2^6 for r = 4. They are computed modulo 2^32. The inverse of 9 modulo 2^32 and a shift then give the
 * results, exactly if these are within their @bits.
 */
struct rvl_i8_winograd {
	int results;	/* r */
	int side;	/* r + 2 */
	int bits;	/* results without the bias are less than 2^bits, and not less than -2^bits */
	/* The time of a transformed pixel, and of a sum that is transformed to results, in products. */
	int pixel_cost, result_cost;
	/* Writes @n channels of the pixels p, by rows: of value i, from v + i * step on, whole tiles of nr. */
	void (*input)(const uint8_t *const *p, int64_t n, bool u8, int16_t *v, int64_t step);
	/*
	 * Transforms @n channels of a block of columns, packed for gemm() as nine taps that are @tap bytes apart:
	 * value i to [n / kr][nr][kr] from u + i * step on.
	 */
	void (*weights)(const int8_t *w, int64_t tap, int64_t n, int16_t *u, int64_t step);
	/*
	 * m[row][nr] of one value and @n channels, for @rows of @mr rows; row i of @v begins at i * v_step. @more:
	 * adds to what is in @m.
	 */
	void (*multiply)(const int16_t *v, int64_t v_step, const int16_t *u, int64_t n, int rows, bool more,
			 int32_t *m);
	void (*output)(const struct rvl_i8_wino_out *o);
};

#define RVL_I8_FILTERS 2

/* What decides from how many bits on a multiplication takes less time than a table. */
enum rvl_i8_rows {
	RVL_I8_SEVERAL_ROWS,
	RVL_I8_ONE_ROW,
	RVL_I8_ONE_ROW_LARGE,	/* with more weights than the second-level cache holds as int8 */
	RVL_I8_ROWS,
};

/* Where tables measured faster than products of 16 bits on x86 (make bench-ibtf-cpu). */
#define RVL_I8_TABLE_BITS \
	{ [RVL_I8_SEVERAL_ROWS] = 1, [RVL_I8_ONE_ROW] = 3, [RVL_I8_ONE_ROW_LARGE] = 4 }

struct rvl_i8_kernels {
	int mr, nr, kr;
	/* What the kernels add to a byte before they multiply: [0] to int8, [1] to uint8. */
	int32_t offset[2];
	void (*gemm)(const struct rvl_i8_gemm_call *c);
	/*
	 * Writes @runs runs of @n bytes, the first ones of p[0], p[step] and so on, one behind the other as int16, as
	 * uint8, or as tables; NULL: there is none. gemm() also takes rows of bytes as they are, unless it is of a
	 * set for split weights or tables. @widened: the bytes that it writes for each.
	 */
	void (*widen)(const uint8_t *const *p, int64_t runs, int64_t step, int64_t n, bool u8, void *dst);
	int widened;
	int least_run;	/* bytes from which on copying a run as uint8 takes less time than it saves gemm() */
	/*
	 * Of a set that sorts quads, in place of widen(), for one run: subtracts @less from the values, of int8 with 128
	 * added. @n is a multiple of @group. sort() lists the quads of widened rows.
	 */
	void (*widen_less)(const uint8_t *p, int64_t n, bool u8, int less, uint8_t *dst);
	void (*sort)(const uint8_t *x, int64_t row_bytes, int rows, int64_t kc, struct rvl_i8_quads *q);
	int group;
	/*
	 * Writes @rows rows of @n bytes, @pitch apart, one behind the other as int16; NULL: there is none. Reads
	 * and writes whole registers, up to RVL_I8_BEYOND bytes behind the last byte and the last result.
	 */
	void (*widen_window)(const uint8_t *p, int64_t pitch, int64_t rows, int64_t n, bool u8, int16_t *dst);
	/* Those for weights of few bits, which gemm() looks up in tables; or NULL. */
	const struct rvl_i8_kernels *tables;
	/* The widest weights with which these are faster; 0: none. On x86, dot products of bytes have no bits. */
	int table_bits[RVL_I8_ROWS];
	/* Those that sort quads, for products of many columns; or NULL. */
	const struct rvl_i8_kernels *bytes;
	/* Those for weights that are split, of which few have a rest; or NULL. */
	const struct rvl_i8_kernels *split;
	const struct rvl_i8_winograd *winograd;	/* RVL_I8_FILTERS, of r = 2 and of 4; or NULL */
	const struct rvl_i8_dw *dw;
	const struct rvl_i8_convert *convert;
	/* dst[i] = requantised sum[i] for i < 16 */
	void (*requant)(const int32_t *sum, const float *scale, const struct rvl_i8_post *post,
			uint8_t *dst);
};

/* Brings the line of weights @ahead bytes behind @w into the second-level cache. */
static inline void rvl_i8_prefetch(const int8_t *w, int64_t ahead)
{
	__builtin_prefetch((const void *)((uintptr_t)w + (uintptr_t)ahead), 0, 2);
}

/*
 * The channel at position @i of a tile. Interleaving the taps of adjacent channels leaves the
 * channels in this order, and narrowing the sums to bytes restores the natural one.
 */
static inline int rvl_i8_dw_channel(const struct rvl_i8_dw *dw, int i)
{
	int per_vector = dw->nr / dw->kr;

	return i % per_vector / 4 * 4 * dw->kr + i / per_vector * 4 + i % 4;
}

extern const struct rvl_i8_kernels rvl_i8_scalar;
extern const struct rvl_i8_slide rvl_i8_slide_pairs, rvl_i8_slide_dot;	/* order of slide.h, of dw_dot.h */
#ifdef __x86_64__
extern const struct rvl_i8_kernels rvl_i8_tables_sse41, rvl_i8_tables_avx2, rvl_i8_tables_avx512;
extern const struct rvl_i8_kernels rvl_i8_bytes_avx2, rvl_i8_split_avx2;
extern const struct rvl_i8_kernels rvl_i8_sse41, rvl_i8_avx2, rvl_i8_avxvnni, rvl_i8_avx512vnni, rvl_i8_amx;

/* Those of AVX512-VNNI that AMX uses, too. */
extern const struct rvl_i8_dw rvl_i8_dw_avx512;
void rvl_vnni_requant16(const int32_t *sum, const float *scale, const struct rvl_i8_post *post,
			uint8_t *dst);
#endif
#ifdef __aarch64__
extern const struct rvl_i8_kernels rvl_i8_tables_neon;
extern const struct rvl_i8_kernels rvl_i8_neon, rvl_i8_dotprod, rvl_i8_i8mm;
#endif

#endif
