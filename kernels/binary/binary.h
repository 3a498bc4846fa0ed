/* SPDX-License-Identifier: MIT */
/* What the files of binary layers share. The operators are described in rivulet_bits.h. */
#ifndef RVL_BINARY_H
#define RVL_BINARY_H

#include "internal.h"
#include "rivulet_bits.h"

/* What BinaryConv computes from a sum. Arrays have one element for each output channel. */
struct rvl_b_post {
	bool clamped;
	float lo, hi;			/* clamp of the sum */
	const float *scale, *bias;	/* NULL: the bits are those of the sum */
	const float *shortcut_scale;	/* NULL: no shortcut */
	const float *slope, *after;	/* NULL: no PRelu */
	const float *t_float;		/* at most one of both */
	const int32_t *t_int;
	enum rvl_type y, shortcut;
	int32_t y_zero, shortcut_zero;
	int32_t q_lo, q_hi;		/* clamp of an integer result */
};

#define RVL_B_MR 8	/* most pixels and channels of a tile */
#define RVL_B_NR 32

/*
 * Sums of @rows pixels: @n channels from @m on, a multiple of the set's vectors, adjacent in memory.
 * Pointers are those of pixels, behind which the panel begins by so many elements or bytes.
 */
struct rvl_b_tile {
	int64_t m;
	int n, rows;
	const int32_t *pop;		/* [row][n]: products that are -1; a sum is base - 2 * pop */
	const int32_t *const *base;	/* the panel's begin @m elements behind */
	const char *const *shortcut;
	char *const *y;
	int64_t shortcut_at, y_at;	/* bytes */
	uint64_t bits[RVL_B_MR];	/* set */
};

/*
 * Counts of different bits: pop[i * nr + j] of pixel i and channel j. A pixel has @runs runs of @run
 * words, which begin @off words behind its pointer. Weights lie [word][nr]. All mr pointers are valid.
 */
struct rvl_b_call {
	const uint64_t *const *x;
	const int64_t *off;
	int64_t runs, run;
	const uint64_t *w;
	int32_t *pop;
};

/*
 * Bits of @pixels pixels: whether elements, which are @type, reach the threshold of their channel. One
 * of both steps, counted in elements from one channel and one pixel to the next, is 1.
 */
struct rvl_b_reach {
	enum rvl_type type;
	const char *x;			/* the first pixel */
	const void *t;			/* float for a float @type, else int32_t */
	uint64_t *y;			/* set: rvl_b_words(channels) of each pixel, which lie together */
	int64_t pixels, channels, channel_step, pixel_step;
};

/* The kernels of an instruction set. nr is a multiple of 8 that divides 64, and of the vectors of post(). */
struct rvl_b_kernels {
	const char *name;
	int mr, nr;
	void (*count)(const struct rvl_b_call *c);
	void (*post)(const struct rvl_b_post *p, struct rvl_b_tile *t);
	void (*reach)(const struct rvl_b_reach *r);
};

extern const struct rvl_b_kernels rvl_b_scalar, rvl_b_avx2, rvl_b_avx512, rvl_b_vpopcnt, rvl_b_neon;

/** Those of the instruction set in use. */
const struct rvl_b_kernels *rvl_b_kernels(void);

/* The image that the windows slide over: of one group, with its padding. */
struct rvl_b_padded {
	int64_t h, w, words;	/* words of a pixel */
	bool copied;		/* it lies in the scratch memory; else it is the input */
};

struct rvl_b_conv {
	struct rvl_b_post post;
	int64_t words, group_words, out_words;	/* of a pixel, of a group's channels, of a pixel's result */
	int32_t padding;		/* what a position of the padding counts as: 0, 1 or -1 */
	struct rvl_pitch sp;		/* of the shortcut */
	const struct rvl_b_kernels *kernels;
	int64_t y_size, s_size;		/* bytes of an element of the result and of the shortcut */
	struct rvl_b_padded padded;
	uint64_t *w;			/* [group][panel of nr channels][word][nr] */
	int64_t panels;			/* of a group */
	int64_t runs, run, *off;
	/*
	 * What a sum without different bits is, [row class][column class][M + RVL_B_NR]: the products, and
	 * the weights of taps in padding that contributes nothing. Rows of the result of which the same taps
	 * lie inside the image are one class, and columns, too.
	 */
	int32_t *base;
	int32_t *classes[2], n_classes[2];	/* of rows and columns: [oh], [ow] */
};

/* Ones of a word, for processors without an instruction. */
static inline int32_t rvl_b_ones(uint64_t v)
{
	v -= v >> 1 & 0x5555555555555555;
	v = (v & 0x3333333333333333) + (v >> 2 & 0x3333333333333333);
	v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return (int32_t)(v * 0x0101010101010101 >> 56);
}

/** Bits of up to 64 channels from @first on, one by one, of the pixel whose channel 0 is element @at. */
uint64_t rvl_b_reach_word(const struct rvl_b_reach *r, int64_t at, int64_t first, int64_t n);
/** All bits of @r in that way, whatever its steps are. */
void rvl_b_reach_elements(const struct rvl_b_reach *r);

/** Element @at of an integer tensor. */
int32_t rvl_b_integer(enum rvl_type type, const void *data, int64_t at);

/** Whether an operand is a tensor of bits: words of @channels channels for each of n * h * w pixels. */
bool rvl_b_is_image(const struct rvl_kernel_arg *a, int64_t channels, const int64_t nhw[3]);

/** Whether operand @i is a constant of one element of @type for each of @n channels. */
bool rvl_b_is_vector(const struct rvl_kernel_desc *d, uint32_t i, enum rvl_type type, int64_t n);

/** Images of the operand as [N, C, H, W]; a matrix [N, C] has one pixel. */
bool rvl_b_image_shape(const struct rvl_shape *s, int64_t nchw[4]);
/** Its pitches. */
struct rvl_pitch rvl_b_pitch(const struct rvl_kernel_arg *a);

/** Packs the weights and chooses the kernels for rvl_b_conv_fast(). */
int rvl_b_conv_pack(struct rvl_kernel *k);
int rvl_b_conv_fast(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool);

/** The scalar reference of BinaryConv. */
int rvl_b_conv_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
		   void *scratch, const struct rvl_pool *pool);

#endif
