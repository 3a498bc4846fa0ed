/* SPDX-License-Identifier: MIT */
/* Layers of the NPU: what they read and write, how nodes become layers, and how layers are cut. */
#ifndef RVL_LAYER_H
#define RVL_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/math.h"
#include "graph/graph.h"
#include "rivulet_board.h"
#include "rivulet_isa.h"
#include "rivulet_program.h"

/* An activation as the engines see it: @n images of @c channels, @h rows, @w columns. */
struct rvl_view {
	int64_t n, c, h, w;
	bool inter; /* the plain bytes have the channels innermost: a matrix [w, c] */
};

/* The bytes of one value. Tensors that are the same bytes in another shape share a store. */
struct rvl_store {
	struct rvl_tensor *root;
	enum rivulet_place place;
	uint32_t io;   /* INPUT, OUTPUT: its index */
	bool blocked;  /* BLOCKED in @view, else PLAIN */
	bool plain;    /* something needs it PLAIN */
	bool viewed;   /* @view is set: all NPU layers so far agree on it */
	bool used;     /* by any step */
	uint32_t plan; /* memplan.c's index */
	struct rvl_view view;
	uint32_t slot;
	uint64_t offset; /* ARENA: after planning; CONST: in the file */
	uint64_t size;
};

struct rvl_operand {
	struct rvl_store *s;
	struct rvl_view v;
	int32_t zp;   /* of the bytes as int8 */
	uint8_t flip; /* XOR that turns the plain bytes into int8 */
};

struct rvl_window {
	int64_t kh, kw, sy, sx, dy, dx;
	int64_t top, left;
};

/* How a layer is cut: see tile.c. */
struct rvl_tiling {
	int64_t th, tw; /* result rows and columns of a tile */
	int64_t og;	/* convolution: ACC blocks (tm) of a group; others: INP blocks (tn) */
	int64_t ig;	/* INP blocks of a chunk of the reduction */
	int64_t ph, pw; /* kernel rows and columns of a piece */
	int64_t in_slots, wgt_slots, prm_slots, acc_slots, out_slots, b_slots;
	int64_t in_words, wgt_words, prm_words, acc_words, out_words; /* of one slot */
	bool oc_outer; /* output channel groups outside, tiles inside */
	uint64_t cost; /* cycles, estimated without the schedule */
};

enum rvl_layer_kind {
	RVL_LAYER_CONV,
	RVL_LAYER_POOL,
	RVL_LAYER_BIN,
	RVL_LAYER_LUT,
	RVL_LAYER_COPY
};

struct rvl_layer {
	enum rvl_layer_kind kind;
	const struct rvl_node *node; /* named in `explain` */
	const char *fused;	     /* nodes done in the same pass, or NULL */
	const char *note;	     /* what was decided, or NULL */
	struct rvl_operand in, b, out;
	bool has_b;
	bool spread;  /* B is one value, or one for each channel, written to every pixel */
	bool swapped; /* A is the node's second operand */
	/* CONV: the product before anything is done on drain */
	struct rvl_window win;
	int64_t group, m, oh, ow;
	bool gather;
	bool too_long; /* a cut was refused for the length of its command stream */
	uint32_t terms; /* int8 summands that a weight needs */
	int16_t *w;	/* w - zp: [m][c / group][kh][kw] */
	int32_t *bias;	/* [m], input zero point folded in */
	int32_t *raw_bias; /* [m], without */
	float *mult;	/* [m] */
	int32_t rq_zp, rq_lo, rq_hi;
	/* POOL, or pool on drain of CONV */
	enum rivulet_pool pool;
	struct rvl_window pwin;
	int64_t rect[4]; /* top, bottom, left, right: positions that the divisor counts */
	float pool_mult;
	int32_t pool_zp;
	/* BIN, or bin on drain of CONV */
	enum rivulet_bin bin;
	float ra, rb, rc;
	int32_t az, bz;
	int32_t out_zp, out_lo, out_hi; /* A_OUT */
	uint8_t lut[256];
	struct rvl_tiling t;
	bool stochastic; /* in variants that have a length */
	uint64_t prm_off[2]; /* in the file: for int8 products, for streams */
	uint64_t wgt_off, lut_off;
	uint64_t macs;
};

/* Input blocks that a run of output blocks reads (grouped convolutions read only a part). */
struct rvl_ocgroup {
	int64_t o0, on;	  /* ACC blocks */
	int64_t ib0, ibn; /* INP blocks of the first of them */
	int64_t step;	  /* by which the next one's blocks advance */
};

/* A part of the reduction: kernel piece and run of input blocks, relative to the group's ib0. */
struct rvl_chunk {
	int64_t ky, kh, kx, kw;
	int64_t i0, in;
	uint32_t term;
	uint32_t part; /* number of (piece, blocks), the same for all terms */
};

static inline bool rvl_view_equal(const struct rvl_view *a, const struct rvl_view *b)
{
	return a->n == b->n && a->c == b->c && a->h == b->h && a->w == b->w;
}

/**
 * rvl_layer_build() - the layer of one node by itself, nothing fused
 * @values: also weights, tables and factors, else shapes only
 * Operands have no stores yet. NULL with *why (static or in the arena) when the device cannot.
 */
struct rvl_layer *rvl_layer_build(struct rvl_graph *g, const struct rivulet_board *b,
				  const struct rvl_node *n, bool values, const char **why);
struct rvl_layer *rvl_build_conv(struct rvl_graph *g, const struct rvl_node *n, bool values,
				 const char **why);
struct rvl_layer *rvl_build_matmul(struct rvl_graph *g, const struct rvl_node *n, bool values,
				   const char **why);
struct rvl_layer *rvl_build_pool(struct rvl_graph *g, const struct rvl_node *n, const char **why);
struct rvl_layer *rvl_build_bin(struct rvl_graph *g, const struct rvl_node *n, const char **why);
struct rvl_layer *rvl_build_lut(struct rvl_graph *g, const struct rvl_node *n, const char **why);
struct rvl_layer *rvl_build_copy(struct rvl_graph *g, const struct rvl_node *n, const char **why);
struct rvl_layer *rvl_build_transpose(struct rvl_graph *g, const struct rvl_node *n,
				      const char **why);
/** Zero point, flip and view of a quantised tensor as operand. */
bool rvl_operand_of(const struct rvl_tensor *t, struct rvl_operand *o);
/** Reads a matmul over a flattened image as a convolution whose kernel is the image. */
void rvl_matmul_over_image(struct rvl_layer *l, const struct rvl_view *image);

/** For rvl_pass_partition(): @arg is the board. */
const char *rvl_backend_fits(struct rvl_graph *g, const struct rvl_node *n, void *arg);

/** Chooses l->t for the least estimated time; false when no cut fits the scratchpads and fields. */
bool rvl_tile(const struct rivulet_board *b, struct rvl_layer *l);

/** The runs of output blocks with regular inputs, at most @og long; returns how many. */
int64_t rvl_ocgroups(const struct rivulet_board *b, const struct rvl_layer *l, int64_t og,
		     struct rvl_ocgroup *out);
/** The parts of the reduction of @g in order; returns how many, @out may be NULL. */
int64_t rvl_chunks(const struct rvl_layer *l, const struct rvl_tiling *t,
		   const struct rvl_ocgroup *g, struct rvl_chunk *out);
int64_t rvl_chunk_words(const struct rivulet_board *b, const struct rvl_chunk *c, int64_t on);

#endif
