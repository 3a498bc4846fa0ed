/* SPDX-License-Identifier: MIT */
/* Declarations that the files of this folder share. */
#ifndef RVL_KERNELS_INTERNAL_H
#define RVL_KERNELS_INTERNAL_H

#include <errno.h>

#include "rivulet_kernels.h"

#define RVL_KERNEL_MEM 16
#define RVL_MAX_SCRATCH ((int64_t)RVL_KERNELS_MOST)
/* Floats of packed weights. More are packed in each run, a piece at a time. */
#define RVL_MAX_PACKED ((int64_t)1 << 27)

/* Elements between neighbours of an image along each dimension. */
struct rvl_pitch {
	int64_t n, c, y, x;
};

/* A 2-D convolution or window. */
struct rvl_conv_geom {
	int64_t n, c, h, w;	/* input */
	int64_t m, oh, ow;	/* output */
	int64_t group;
	int64_t k[2], s[2], d[2];
	int64_t pad[2];		/* top, left; the other edges follow from oh, ow */
	struct rvl_pitch xp, yp;	/* of the input and the output */
};

/* A batch of matrix products, [m, k] by [k, n]; strides in elements. */
struct rvl_matmul_geom {
	int64_t m, n, k;
	int64_t a_row, a_k;
	int64_t b_k, b_col;
	struct rvl_shape batch;		/* of the result */
	int64_t a_batch[RVL_MAX_RANK];	/* stride of each batch dimension, 0 = broadcast */
	int64_t b_batch[RVL_MAX_RANK];
};

/* The numbers of a quantised product. wz, bias, scale: one for each output channel. */
struct rvl_qparams {
	bool x_u8, w_u8, y_u8;
	int32_t xz;
	const int32_t *wz;
	const int32_t *bias;	/* or NULL */
	const float *scale;
	int32_t yz;
	int32_t lo, hi;		/* clamp, within the type of y */
	/* Results are floats: sum * scale + added, clamped to [f_lo, f_hi]; @added may be NULL. */
	bool floats;
	const float *added;
	float f_lo, f_hi;
};

/* The numbers of QLinearAdd (docs/numerics.md 2) or QLinearMul (3). */
struct rvl_qbinary {
	bool a_u8, b_u8, y_u8;
	float sa, sb, sy;
	int32_t az, bz, yz;
	int32_t lo, hi;
};

/* A broadcast operation, walked span by span. Strides: elements, 0 where broadcast. */
struct rvl_bcast {
	int rank;
	int64_t dim[RVL_MAX_RANK];
	int64_t sa[RVL_MAX_RANK];
	int64_t sb[RVL_MAX_RANK];
	int64_t sy[RVL_MAX_RANK];
	int64_t span;		/* elements of the innermost run */
	int64_t ia, ib, iy;	/* strides inside it: 1, or 0 where broadcast, unless there are pitches */
};

struct rvl_i8_mat;
struct rvl_chain;
struct rvl_row_kernel;
struct rvl_sc;
struct rvl_b_conv;

struct rvl_kernel {
	struct rvl_kernel_desc d;
	int (*run)(const struct rvl_kernel *k, const void *const *in, void *const *out,
		   void *scratch, const struct rvl_pool *pool);
	size_t scratch;
	struct rvl_conv_geom g;
	struct rvl_matmul_geom mm;
	struct rvl_qparams q;
	struct rvl_qbinary qb;
	struct rvl_bcast bc;
	struct rvl_i8_mat *i8;	/* packed weights of a quantised product */
	float *f32;		/* those of a float product, or NULL */
	uint8_t *zeros;		/* the pixel under a tap in the padding: of the zero point; or NULL */
	struct rvl_sc *sc;
	struct rvl_b_conv *bin;
	struct rvl_kernel *inner;	/* Q_GENERAL: the operator on floats */
	struct rvl_chain *chain;	/* CHAIN: the operators and their stripes */
	const struct rvl_row_kernel *rows;	/* how it computes some rows of an image; or NULL */
	bool reference;
	bool swapped;		/* operands of an addition are exchanged */
	bool too_large;		/* rvl_kernel_mem() refused a size beyond the limit */
	bool moving;		/* the shapes of the outputs are known at run time only */
	uint8_t *lut;		/* results for the 256 bytes */
	void *mem[RVL_KERNEL_MEM];
	uint32_t n_mem;
	size_t mem_bytes;
};

/* Prepares one operator: checks, packs, sets k->run and k->scratch. */
typedef int (*rvl_setup_fn)(struct rvl_kernel *k, bool reference, char *why);

/** Zeroed, 64-byte aligned memory freed with the kernel; NULL without memory or on overflow. */
void *rvl_kernel_mem(struct rvl_kernel *k, int64_t n, size_t size);
/** Frees such memory, which only the setup needed. */
void rvl_kernel_drop(struct rvl_kernel *k, const void *p, int64_t n, size_t size);

/** Formats one line into @why, which may be NULL. Always returns -EINVAL. */
int rvl_why(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** Calls fn(arg, i) for every i < n: on the pool, or on this thread where @pool is NULL. */
void rvl_parallel(const struct rvl_pool *pool, uint32_t n, void (*fn)(void *arg, uint32_t i),
		  void *arg);

#define RVL_LANES 16	/* most lanes that have memory */

/** Lanes that have memory: one for each thread of the pool, but no more than RVL_LANES. */
static inline int64_t rvl_lanes(const struct rvl_pool *pool)
{
	int64_t threads = pool ? (int64_t)pool->threads : 1;

	return threads < 1 ? 1 : threads < RVL_LANES ? threads : RVL_LANES;
}

/** Calls fn(arg, lane, i) for every i < n, below 2^32, as struct rvl_pool says, or on this thread as lane 0. */
void rvl_parallel_lanes(const struct rvl_pool *pool, int64_t lanes, int64_t n, rvl_part_fn fn, void *arg);

/**
 * Splits [0, n) into pieces of at least @grain and calls fn(arg, first, past) for each, on the pool or
 * on this thread.
 */
void rvl_parallel_range(const struct rvl_pool *pool, int64_t n, int64_t grain,
			void (*fn)(void *arg, int64_t first, int64_t past), void *arg);

int rvl_setup_qconv(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_qmatmul(struct rvl_kernel *k, bool reference, char *why);
/** Q_CONV and Q_MATMUL with attr.sc_length; k->q and the geometry are there already. */
int rvl_setup_sc(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_conv(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_gemm(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_matmul(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_binary(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_qbinary(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_unary(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_pool(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_global_pool(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_move(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_transpose(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_chain(struct rvl_kernel *k, bool reference, char *why);
void rvl_chain_free(struct rvl_chain *c);
int rvl_setup_reorder(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_b_sign(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_b_conv(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_b_pool(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_blocked(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_softmax(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_bn(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_quantize(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_dequantize(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_rescale(struct rvl_kernel *k, bool reference, char *why);
/* The call with types and shapes of the kernel's descriptor, and the data of constants. */
void rvl_desc_call(const struct rvl_kernel_desc *d, struct rvl_call *c);
int rvl_setup_q_table(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_q_general(struct rvl_kernel *k, bool reference, char *why);
int rvl_setup_general(struct rvl_kernel *k, bool reference, char *why);

/** Whether an operand is quantised to 8 bits with one scale. */
static inline bool rvl_is_bytes(const struct rvl_kernel_arg *a)
{
	return (a->type == RVL_TYPE_U8 || a->type == RVL_TYPE_S8) && a->quant.n == 1;
}

/** Bytes of the operator and the attributes of RVL_OP_GENERAL in a packed descriptor. */
int64_t rvl_attrs_size(const struct rvl_kernel_desc *d);
void rvl_attrs_pack(const struct rvl_kernel_desc *d, void *buf);
/** Reads them; -EBADMSG on anything wrong. @buf is aligned to 8 bytes. */
int rvl_attrs_unpack(const void *buf, size_t size, struct rvl_kernel_desc *d);

/** rvl_kernel_run_values() of a kernel of RVL_OP_GENERAL. */
int rvl_general_run(const struct rvl_kernel *k, const struct rvl_value *in, struct rvl_value *out,
		    void *scratch, const struct rvl_pool *pool, char *why);

/* ---- layouts: layout.c ---- */

/** Whether the images of the operator are in NHWC. */
bool rvl_in_nhwc(const struct rvl_kernel_desc *d);

/** Pitches of an operand of rank 4, in elements. */
struct rvl_pitch rvl_pitch_of(const struct rvl_kernel_arg *a);

/** Pitches of any operand, in elements. */
void rvl_arg_strides(const struct rvl_kernel_arg *a, int64_t *stride);

/*
 * Runs of dense elements that an operand and the result of an element-wise kernel have in common: run
 * i begins at element i * x and i * y. Pitches part only the pixels of images in NHWC.
 */
struct rvl_runs {
	int64_t n, length, x, y;
};

struct rvl_runs rvl_runs_of(const struct rvl_kernel_arg *x, const struct rvl_kernel_arg *y);

/** The shape in the order of memory: of an image in NHWC (N, H, W, C). 1s are added in front. */
struct rvl_shape rvl_memory_shape(const struct rvl_shape *s, bool nhwc);

/** Elements from one index of @axis to the next as if the operand were dense. */
int64_t rvl_axis_pitch(const struct rvl_kernel_arg *a, int32_t axis);

/**
 * Copies input 0 to output 0, whose axis d is axis perm[d] of the input; NULL: d. Their pitches and
 * layouts may be any.
 */
void rvl_copy_args(const struct rvl_kernel *k, const int32_t *perm, const void *x, void *y,
		   const struct rvl_pool *pool);

/** y[c * rows + r] = x[r * cols + c] of elements of @size bytes, in tiles that fit the cache. */
void rvl_transpose_matrix(const void *x, int64_t rows, int64_t cols, size_t size, void *y);

/** Geometry of a Conv or pool from the descriptor; @w NULL for a pool (then m = c). */
int rvl_conv_geometry(const struct rvl_kernel_desc *d, const struct rvl_kernel_arg *w,
		      struct rvl_conv_geom *g, char *why);

/** Geometry of a MatMul or Gemm with operands @a and @b and result @y. */
int rvl_matmul_geometry(const struct rvl_kernel_desc *d, const struct rvl_kernel_arg *a,
			const struct rvl_kernel_arg *b, const struct rvl_kernel_arg *y,
			struct rvl_matmul_geom *g, char *why);

/** Offsets of the operands of batch number @i (row-major) of a batched product. */
void rvl_matmul_batch(const struct rvl_matmul_geom *g, int64_t i, int64_t *a, int64_t *b);

/** Strides for @a and @b broadcast into @out, all dense; -EINVAL if they do not fit it. */
int rvl_bcast_init(struct rvl_bcast *bc, const struct rvl_shape *a, const struct rvl_shape *b,
		   const struct rvl_shape *out);

/** A shape and its strides, in elements. */
struct rvl_strided {
	struct rvl_shape shape;
	int64_t stride[RVL_MAX_RANK];
};

/** The same for operands with strides. */
int rvl_bcast_strided(struct rvl_bcast *bc, const struct rvl_strided *a, const struct rvl_strided *b,
		      const struct rvl_strided *out);

/** The same for the operands and the result of an element-wise kernel, as they lie. */
int rvl_bcast_args(struct rvl_bcast *bc, const struct rvl_kernel_arg *a,
		   const struct rvl_kernel_arg *b, const struct rvl_kernel_arg *out);

/* @n elements of a span, from elements @a and @b of the operands and element @y of the result on. */
typedef void (*rvl_span_fn)(void *ctx, int64_t n, int64_t a, int64_t b, int64_t y);

/** Calls fn for all elements, on the pool or on this thread. */
void rvl_bcast_run(const struct rvl_bcast *bc, const struct rvl_pool *pool, rvl_span_fn fn, void *ctx);

/**
 * QLinearAdd, or QLinearMul where @mul, of operands that are broadcast. A broadcast operand of a sum is
 * @b (docs/numerics.md 2). @reference: only scalar code.
 */
void rvl_qbinary_run(const struct rvl_qbinary *p, bool mul, bool reference,
		     const struct rvl_bcast *bc, const void *a, const void *b, void *y,
		     const struct rvl_pool *pool);

#endif
