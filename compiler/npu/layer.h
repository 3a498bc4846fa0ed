/* SPDX-License-Identifier: MIT */
/* Layers of the NPU: what they read and write, how nodes become layers, and how layers are cut. */
#ifndef RVL_LAYER_H
#define RVL_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/math.h"
#include "graph/graph.h"
#include "npu/function.h"
#include "npu/repeat.h"
#include "rivulet_board.h"
#include "rivulet_isa.h"
#include "rivulet_program.h"

/* Rows, columns or channel blocks of one instruction, which has 12 bits for them: rivulet_isa.h. */
#define RVL_MOST_COUNT 4095

/* An activation as the engines see it: @n images of @c channels, @h rows, @w columns. */
struct rvl_view {
	int64_t n, c, h, w;
	bool inter; /* the plain bytes have the channels innermost: a matrix [w, c] */
	/*
	 * Values of int16: the tn channels of a block are in two words of INP, of which each is a block
	 * of the BLOCKED bytes. Boxes and blocks of layers count channels, rvl_words_of() makes words of
	 * them.
	 */
	bool wide;
};

/*
 * The bytes of one value. Tensors that are the same bytes in another shape share a store; one that
 * is a part of another's bytes has a store whose @base is that other one's.
 */
struct rvl_store {
	struct rvl_tensor *root;
	struct rvl_store *base; /* NULL: not a part */
	bool has_parts;
	uint64_t at;   /* byte of @base, in its layout, at which the part begins */
	enum rivulet_place place;
	uint32_t io;   /* INPUT, OUTPUT: its index */
	bool blocked;  /* BLOCKED in @view, else PLAIN */
	bool plain;    /* something needs it PLAIN */
	bool viewed;   /* @view is set: all NPU layers so far agree on it */
	bool made;     /* a layer writes it, not only a value of which it is a part */
	bool used;     /* by any step */
	uint32_t plan; /* memplan.c's index */
	uint32_t readers; /* operands of layers that are it, once all steps are made */
	bool crosses;	  /* it is among what a step reads or writes */
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
	bool flat;    /* PLAIN, read as one row of words in the order of its bytes: @v is that row */
	/*
	 * Bits: pixels of a word, else 0. Then @v.c is bytes, and @v.w words of a row, each of so many
	 * pixels.
	 */
	int64_t pixels;
};

/* Columns of the image. */
static inline int64_t rvl_operand_cols(const struct rvl_operand *o)
{
	return o->v.w * rvl_max(o->pixels, 1);
}

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
	int64_t bit_words; /* of the bits of a tile, of which there are as many slots as copies */
	int64_t bit_slots;
	/*
	 * Rows of the operand that lie in a ring, of which LOAD fills those that are new to a tile;
	 * 0: each tile is loaded to a slot of its own.
	 */
	int64_t in_ring;
	bool oc_outer; /* output channel groups outside, tiles inside */
	uint64_t cost; /* cycles, estimated without the schedule */
};

/** INP words of all slots of the operand, or of its ring. */
static inline int64_t rvl_in_words(const struct rvl_tiling *t)
{
	return t->in_ring ? t->in_words : t->in_slots * t->in_words;
}

struct rvl_layer;
struct rvl_stream;
struct rvl_ocgroup;
struct rvl_chunk;
struct rvl_kernel_desc;

/* Weights as the model has them: weight (m, k) is @t[m * m_stride + k * k_stride] - its zero point. */
struct rvl_weights {
	const struct rvl_tensor *t;
	int64_t m, k; /* outputs, products of one */
	int64_t m_stride, k_stride;
};

/* The loops around one pair of weight blocks, as a mode runs them. */
struct rvl_nest {
	int64_t kh, kw;	    /* taps */
	int64_t channels;   /* of the reduction, of all groups */
	int64_t block_words; /* WGT words of the weights of one output block, input block and tap */
	/*
	 * The same of all taps, if lanes take them together: they are one piece, packed at once, and
	 * the operand has the row pitch of rvl_row_pitch(). 0: taps are computed one by one.
	 */
	int64_t lane_words;
	/*
	 * Lanes of bits: row pitches modulo dn, one bit each, for which no words of a pass conflict.
	 * 0: any for bits, that of rvl_row_pitch() for bytes.
	 */
	uint64_t clear;
	bool bits;
	int64_t tail;	    /* number of the last input block if it takes @tail_words; or 0 */
	int64_t tail_words; /* in place of @block_words */
	int64_t group_channels, block_channels; /* of bits: of a group of the input, of a word's pixel */
};

/* A block of weights: output block (tm), input block (tn) of the whole layer, tap, summand. */
struct rvl_block {
	int64_t oc, ib, ky, kx;
	uint32_t term;
};

/**
 * struct rvl_mode - how CONV computes the products of a layer
 *
 * One file, mode_NAME.c, defines each mode; make collects them in a table. Tiling, packing and
 * emission call the functions of the mode and distinguish none. A node that requests a mode has
 * that one. Otherwise every mode that can compute the layer is a candidate, and the one of the
 * least cost is chosen (choose.c).
 */
struct rvl_mode {
	const char *name;
	enum rivulet_mode isa;
	const char *missing;	     /* why a board without it does not run the node */
	const struct rvl_mode *int8; /* takes its place in variants without a bitstream length */
	bool direct;		     /* never of gathered patches */
	/*
	 * Its engines are not those of other modes, so that it changes what overlaps with the layers beside
	 * it: a step is also decided without the mode (decide.c).
	 */
	bool rival;
	/*
	 * Bytes of l->p.own, on which alone nest, array and emit depend beside the other fields of the
	 * layer: layers of equal bytes take equal time (memo.c). 0: the layers are told apart by the
	 * address.
	 */
	uint32_t own_size;
	/** Whether the node asks for this mode; NULL: no node does. */
	bool (*takes)(const struct rvl_node *n);
	/**
	 * Makes l->p the product as this mode computes it; l->p is that of the node. False: the mode
	 * cannot compute the layer. NULL: it computes only nodes that ask for it.
	 */
	bool (*form)(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l);
	void (*nest)(const struct rivulet_board *b, const struct rvl_layer *l, struct rvl_nest *n);
	/** Cycles of the array for @pairs of a pixel and a weight block, by uapi/cost.c. */
	uint64_t (*array)(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs);
	/**
	 * Cycles that each further part of the reduction takes for @pairs of a pixel and an output block;
	 * NULL: none.
	 */
	uint64_t (*part)(const struct rivulet_board *b, const struct rvl_layer *l, uint64_t pairs);
	/** Femtojoule at a level of those products of @w that the device computes in @isa. */
	double (*energy)(const struct rivulet_board *b, uint32_t level,
			 const struct rivulet_work *w);
	/** Cycles of @macs products in a variant of @length; the least that a layer can take. */
	uint64_t (*cycles)(const struct rivulet_board *b, uint64_t macs, uint32_t length);
	/** Writes one block into zeroed memory; of nests with lane_words, all taps of it. */
	void (*pack)(const struct rivulet_board *b, const struct rvl_layer *l,
		     const struct rvl_block *k, int8_t *out);
	/** Bias of each output channel as the ALU adds it; NULL: that of the layer. */
	const int32_t *(*bias)(const struct rvl_layer *l);
	/** Completes the CONV of a chunk, and writes the configuration that only this mode reads. */
	void (*emit)(struct rvl_stream *s, const struct rvl_layer *l, const struct rvl_ocgroup *g,
		     const struct rvl_chunk *k, struct rivulet_insn_conv *conv);
	/** Length for A_RQ in a variant of @length; NULL: 0, as products are not counted by bits. */
	uint32_t (*rescale)(uint32_t length);
	/** Makes the CPU's operator compute in this mode; NULL where it does anyway. */
	void (*reference)(struct rvl_kernel_desc *d, uint32_t length);
	/** What `explain` says of @l, or of a node that the CPU computes (NULL); NULL for nothing. */
	void (*describe)(const struct rvl_layer *l, char *text, size_t size, uint32_t length);
};

/** The mode that @n asks for, or NULL. */
const struct rvl_mode *rvl_mode_asked(const struct rvl_node *n);
/** The mode that @n asks for, else the dense one, which can compute every product. */
const struct rvl_mode *rvl_mode_of(const struct rvl_node *n);
/** Mode number @i of all, or NULL behind the last. */
const struct rvl_mode *rvl_mode_number(uint32_t i);
/** NULL if @b has what @mode needs, else why it has not. */
const char *rvl_mode_missing(const struct rivulet_board *b, const struct rvl_mode *mode);
/**
 * Whether @mode, which is not that of @l, can compute the layer on @b in place of it; then @l is of
 * @mode.
 */
bool rvl_mode_replaces(struct rvl_graph *g, const struct rivulet_board *b,
		       const struct rvl_mode *mode, struct rvl_layer *l);
/** Femtojoule of all products of @w, each by the mode that the device computes it in. */
double rvl_modes_energy(const struct rivulet_board *b, uint32_t level,
			const struct rivulet_work *w);

/* The product of a layer, before anything is done on drain. */
struct rvl_product {
	struct rvl_window win;
	int64_t group, m, oh, ow;
	bool gather;	/* patches become channels */
	uint32_t terms; /* int8 summands that a weight needs */
	struct rvl_weights w;
	int32_t *bias;	   /* [m], input zero point folded in */
	int32_t *raw_bias; /* [m], without */
	float *mult;	   /* [m] */
	uint64_t prm_off[RIVULET_MODES]; /* of {bias, factor} in the file, by mode */
	uint64_t wgt_off;
	uint64_t macs;
	const void *own; /* the mode's, in the graph's arena */
};

#define RVL_STAGES 5

struct rvl_stage;

/* What the ALU does with a layer's product, or with its operand, in this order. */
struct rvl_epilogue {
	const struct rvl_stage *stage[RVL_STAGES];
	uint32_t stages;
	int32_t rq_zp, rq_lo, rq_hi; /* requantise */
	int32_t slope_zp, slope_out, slope_lo, slope_hi; /* slopes: A_SLOPE */
	uint8_t lut[256];	     /* table */
	uint64_t lut_off;
	enum rivulet_pool pool;
	struct rvl_window pwin;
	int64_t rect[4]; /* top, bottom, left, right: positions that the divisor counts */
	float pool_mult;
	int32_t pool_zp;
	enum rivulet_bin bin; /* second operand */
	float ra, rb, rc;
	float narrow; /* int16 to 8 bits: the factor */
	int32_t az, bz;
	int32_t out_zp, out_lo, out_hi; /* A_OUT; with @real, A_TYPE */
	bool real;	     /* scale, bias and second operand in float32: the bias of the product is one */
	bool prelu;
	float sum_lo, sum_hi; /* A_SUM */
	bool only;	     /* nothing but bits is written */
	/*
	 * The other parameters of channels, block by block of ACC or INP words: @ext_fields runs of a
	 * block's channels. @threshold, [ext_channels], is the last of them.
	 */
	uint32_t *ext;
	int64_t ext_fields, ext_words;
	uint64_t ext_off;
};

/*
 * A value that stays in INP between the layer that makes it and the one that reads it: its rows lie
 * in a ring. Images are @image rows apart, a multiple of the producer's tile height, so that no tile
 * crosses the end of the ring.
 */
struct rvl_ring {
	int64_t rows, width; /* of the ring: words of a row of a block */
	int64_t blocks;	     /* tn channels each; whole ACC words */
	int64_t image;
	/*
	 * For an ALU that reads rows in one run: rows before the first, which are copies of the
	 * last, and rows behind the last, which are copies of the first.
	 */
	int64_t guard, below;
	/*
	 * Blocks of channels that the reader takes at a time, as the producer completes them; then
	 * the ring holds the whole value. 0: the reader takes rows.
	 */
	int64_t chunk;
	/*
	 * Rows by which the producer makes what the reader takes by rows of its window, one after the
	 * other; then the ring holds the whole value, too. 0: the reader takes whole windows.
	 */
	int64_t taps;
	bool kept;    /* a whole value that other cascades or layers read: keep.c */
	int64_t base; /* INP word, set by the segment planner; of a kept value by keep.c */
};

/* Rows that a window reads below those by which the window of the next row begins later. */
static inline int64_t rvl_rows_below(const struct rvl_window *w)
{
	return rvl_max(0, (w->kh - 1) * w->dy + 1 - w->sy - w->top);
}

/* Words between the blocks of a ring. */
static inline int64_t rvl_ring_pitch(const struct rvl_ring *r)
{
	return (r->guard + r->rows + r->below) * r->width;
}

static inline int64_t rvl_ring_words(const struct rvl_ring *r)
{
	return r->blocks * rvl_ring_pitch(r);
}

/*
 * One pass of the engines over an activation: the operand as it is or its product in a mode, then
 * the epilogue.
 */
/* Cost of a layer behind the one before it; joule at the highest level. */
struct rvl_offer {
	const struct rvl_mode *mode;
	uint64_t cycles;
	double joule;
};

/* The best offers of two modes. */
struct rvl_contest {
	struct rvl_offer first, second;
};

struct rvl_layer {
	const struct rvl_node *node; /* named in `explain` */
	const char *fused;	     /* nodes done in the same pass, or NULL */
	const char *note;	     /* what was decided, or NULL */
	struct rvl_operand in, b, out;
	bool has_b;
	struct rvl_operand bits; /* second result: bits of the first one, or of the sums */
	bool has_bits;
	bool spread;  /* B is one value, or one for each channel, written to every pixel */
	bool swapped; /* A is the node's second operand */
	struct rvl_repeat rep; /* copies: LOAD writes each pixel so often; rows 0: once */
	const struct rvl_mode *mode; /* NULL: no product */
	struct rvl_product p;
	struct rvl_epilogue e;
	/* Where the operand, the second operand or the result stays in INP, else NULL. */
	struct rvl_ring *from, *b_from, *to;
	int64_t inp[2]; /* first layer of a cascade: INP words of the buffers, [first, past); 0, 0:
			   all */
	struct rvl_tiling t;
	uint32_t ahead; /* tiles of the layer before that are emitted behind the first weights */
	bool early;	/* the weights of later layers load between its tiles: segment.c */
	bool look;	/* first layer of a cascade: its layers look ahead when they take turns: turns.c */
	bool too_long; /* a cut was refused for the length of its command stream */
	const struct rvl_contest *contest; /* how @mode was chosen, or NULL */
};

/** Whether the next layer takes turns with @l, whose result it reads in a ring. */
static inline bool rvl_continues(const struct rvl_layer *l)
{
	return l->to && !l->to->kept;
}

/** Whether @l takes turns with the layer before, whose result it reads in a ring. */
static inline bool rvl_continued(const struct rvl_layer *l)
{
	return l->from && !l->from->kept;
}

/** Whether the second operand is loaded. */
static inline bool rvl_loads_b(const struct rvl_layer *l)
{
	return l->has_b && !l->b_from;
}

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

/** The mode of @l in a variant of @length; NULL without a product. */
static inline const struct rvl_mode *rvl_mode_at(const struct rvl_layer *l, uint32_t length)
{
	return l->mode && !length && l->mode->int8 ? l->mode->int8 : l->mode;
}

static inline bool rvl_view_equal(const struct rvl_view *a, const struct rvl_view *b)
{
	return a->n == b->n && a->c == b->c && a->h == b->h && a->w == b->w && a->wide == b->wide &&
	       (a->inter == b->inter || a->c == 1 || a->h * a->w == 1);
}

/**
 * rvl_layer_build() - the layer of one node by itself, nothing fused
 * @values: also weights, tables and factors, else shapes only
 * Operands have no stores yet. NULL with *why (static or in the arena) when the device cannot.
 */
struct rvl_layer *rvl_layer_build(struct rvl_graph *g, const struct rvl_node *n, bool values,
				  const char **why);
struct rvl_layer *rvl_build_conv(struct rvl_graph *g, const struct rvl_node *n, bool values,
				 const char **why);
struct rvl_layer *rvl_build_matmul(struct rvl_graph *g, const struct rvl_node *n, bool values,
				   const char **why);
struct rvl_layer *rvl_build_pool(struct rvl_graph *g, const struct rvl_node *n, bool values,
				 const char **why);
struct rvl_layer *rvl_build_bin(struct rvl_graph *g, const struct rvl_node *n, bool values,
				const char **why);
struct rvl_layer *rvl_build_lut(struct rvl_graph *g, const struct rvl_node *n, bool values,
				const char **why);
/** The table of a function of one value; a layer, or a stage of @l, whose result is its operand. */
struct rvl_layer *rvl_build_function(struct rvl_graph *g, const struct rvl_function *f,
				     const char **why);
bool rvl_layer_take_table(struct rvl_layer *l, const struct rvl_function *f, const char **why);
struct rvl_layer *rvl_build_binary_conv(struct rvl_graph *g, const struct rvl_node *n, bool values,
					const char **why);
struct rvl_layer *rvl_build_binary_sign(struct rvl_graph *g, const struct rvl_node *n, bool values,
					const char **why);
/** PRelu by channel: a layer, whose factors rvl_layer_settle() sets. */
struct rvl_layer *rvl_build_slopes(struct rvl_graph *g, const struct rvl_node *n, bool values,
				   const char **why);
/** Sets the factors of @l for PRelu node @n on @b, in @g's arena; false where there are none. */
bool rvl_slopes_settle(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l,
		       const struct rvl_node *n);
/** Makes PRelu node @n, which reads the result of @l, a stage of @l; false where that cannot be. */
bool rvl_layer_take_slopes(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l,
			   const struct rvl_node *n);
/** Rows and columns of the result's image, of which a layer may write the bits only. */
static inline int64_t rvl_result_rows(const struct rvl_layer *l)
{
	return l->out.v.h;
}

static inline int64_t rvl_result_cols(const struct rvl_layer *l)
{
	return rvl_operand_cols(&l->out);
}

/** The image that a layer without a product computes; of a sign, that which it reads. */
static inline const struct rvl_view *rvl_plain_view(const struct rvl_layer *l)
{
	return l->e.only && !l->e.pool ? &l->in.v : &l->out.v;
}

/** The second operand of the layer's own node. */
static inline struct rvl_tensor *rvl_layer_second(const struct rvl_layer *l)
{
	return l->node->in[l->e.real ? 5 : !l->swapped];
}
/** Completes a layer just built by what depends on the board; false with *why if that lacks it. */
bool rvl_layer_settle(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l,
		      const char **why);
/**
 * Makes the bits of BinarySign node @n a second result of @l, whose result it reads; @only: nothing
 * else reads that. False where it cannot.
 */
bool rvl_layer_take_bits(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l,
			 const struct rvl_node *n, bool only);
struct rvl_layer *rvl_build_copy(struct rvl_graph *g, const struct rvl_node *n, bool values,
				 const char **why);
struct rvl_layer *rvl_build_repeat(struct rvl_graph *g, const struct rvl_node *n, bool values,
				   const char **why);
struct rvl_layer *rvl_build_transpose(struct rvl_graph *g, const struct rvl_node *n, bool values,
				      const char **why);
/** Zero point, flip and view of a quantised tensor as operand. */
bool rvl_operand_of(const struct rvl_tensor *t, struct rvl_operand *o);
/** The same, and of a tensor of int16, which few layers read or make. */
bool rvl_wide_operand_of(const struct rvl_tensor *t, struct rvl_operand *o);
/** One QRescale of int16 to 8 bits. */
struct rvl_layer *rvl_build_narrow(struct rvl_graph *g, const struct rvl_node *n, bool values,
				   const char **why);
/** Whether a layer of rvl_build_narrow() reads and makes the operands of @n. */
static inline bool rvl_is_narrow(const struct rvl_node *n)
{
	return n->op == RVL_OP_Q_RESCALE && rvl_is_quant16_tensor(n->in[0]);
}
/** Sets the parameters of such a layer on @b, in @g's arena; false without memory. */
bool rvl_narrow_settle(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l);
/** Reads a matmul over a flattened image as a convolution whose kernel is the image. */
void rvl_matmul_over_image(struct rvl_layer *l, const struct rvl_view *image);

/**
 * Where weight (@m, @k) lies; those of the same output are @w->k_stride bytes apart. The value without
 * the zero point @zp is (int8_t)(byte ^ @flip) + @flip - @zp.
 */
static inline const uint8_t *rvl_weights_at(const struct rvl_weights *w, int64_t m, int64_t k, int *flip, int *zp)
{
	*flip = w->t->type == RVL_TYPE_U8 ? 128 : 0;
	*zp = w->t->quant.zp[w->t->quant.n > 1 ? m : 0];
	return (const uint8_t *)w->t->data + m * w->m_stride + k * w->k_stride;
}

/** Weight (@m, @k) without its zero point, in [-255, 255]. */
static inline int rvl_weight(const struct rvl_weights *w, int64_t m, int64_t k)
{
	int flip, zp;
	const uint8_t *p = rvl_weights_at(w, m, k, &flip, &zp);

	return (int8_t)(*p ^ flip) + flip - zp;
}

/** For struct rvl_graph's keeps_int8. */
const char *rvl_binary_keeps_int8(const void *board, int64_t m, int64_t group);
/** For rvl_pass_partition(): @arg is the board. */
const char *rvl_backend_fits(struct rvl_graph *g, const struct rvl_node *n, void *arg);
/**
 * Whether a layer reads its operands in NHWC as fast as PLAIN: not a convolution that a gathering LOAD
 * serves with fewer blocks of channels, if LOAD gathers so many only from planes. @board: a struct
 * rivulet_board.
 */
bool rvl_backend_reads_nhwc(const struct rvl_node *n, void *board);

/** Chooses l->t for the least estimated time; false when no cut fits the scratchpads and fields. */
bool rvl_tile(const struct rivulet_board *b, struct rvl_layer *l);
/** Whether any cut fits, which is found sooner; l->t is then a cut that fits. */
bool rvl_fits(const struct rivulet_board *b, struct rvl_layer *l);

/*
 * Words of the scratchpads that a layer may use, the most result rows of a tile, and the most
 * output blocks of a group; 0: any.
 */
struct rvl_room {
	int64_t inp, wgt, acc, th, og;
	bool whole; /* a chunk of the reduction has all input blocks */
};

/**
 * The best @n cuts of a layer with a product by the estimate, the best first; returns how many.
 * @room NULL: the scratchpads are its own.
 */
uint32_t rvl_cuts(const struct rivulet_board *b, struct rvl_layer *l, const struct rvl_room *room,
		  struct rvl_tiling *cut, uint32_t n);

/** INP blocks of words of an image, and those that a convolution writes of it: whole words of ACC. */
static inline int64_t rvl_blocks(const struct rivulet_board *b, const struct rvl_view *v)
{
	return rvl_div_up(v->c, b->tn) << v->wide;
}
static inline int64_t rvl_blocks_made(const struct rivulet_board *b, const struct rvl_view *v)
{
	return rvl_div_up(v->c, b->tm) * (b->tm / b->tn) << v->wide;
}

/**
 * rvl_tile_regroup() - makes groups of at most @og output blocks
 *
 * Tiles, and what stays in WGT, are as they were; the layer may then need more words of WGT. Only
 * for layers with a product.
 */
void rvl_tile_regroup(const struct rivulet_board *b, struct rvl_layer *l, int64_t og);
/**
 * The same for a layer that shares the scratchpads with another layer. If an operand or the result
 * lies in a ring, tiles are whole rows, one after the other.
 */
bool rvl_tile_within(const struct rivulet_board *b, struct rvl_layer *l,
		     const struct rvl_room *room);
/** Whether @l reduces its operand chunk by chunk, as the layer before completes the channels. */
static inline bool rvl_takes_blocks(const struct rvl_layer *l)
{
	return l->from && l->from->chunk;
}
/**
 * Whether @l can do so: one image whose result fits a part of ACC, and an operand of more blocks
 * than one group of the convolution reads.
 */
bool rvl_may_take_blocks(const struct rivulet_board *b, const struct rvl_layer *l);
/** Whether @l reduces its operand by rows of its window, as the layer before makes rows. */
static inline bool rvl_takes_taps(const struct rvl_layer *l)
{
	return l->from && l->from->taps;
}
/** Whether the sums of @l stay in ACC while other layers of the cascade compute. */
static inline bool rvl_takes_parts(const struct rvl_layer *l)
{
	return rvl_takes_blocks(l) || rvl_takes_taps(l);
}
/**
 * Whether @l can take rows of its window: one image whose result is one row that fits a part of
 * ACC, and a window of several rows.
 */
bool rvl_may_take_taps(const struct rivulet_board *b, const struct rvl_layer *l);
/** Cycles of the port for the weights of a chunk of @l, which takes parts, on average. */
int64_t rvl_chunk_cycles(const struct rivulet_board *b, const struct rvl_layer *l);
/** Cycles of the array if nothing delays it. */
uint64_t rvl_array_time(const struct rivulet_board *b, const struct rvl_layer *l);
/** Words of WGT at whose multiples the weights of any mode of the board may begin. */
int64_t rvl_wgt_step(const struct rivulet_board *b);
/** Words of WGT, up to the next such multiple. */
int64_t rvl_wgt_round(const struct rivulet_board *b, int64_t words);
/** Words of WGT for buffers: all but those behind the last such multiple. */
int64_t rvl_wgt_words(const struct rivulet_board *b);
/** WGT words of all weights, parameters and tables of a layer, a multiple of rvl_wgt_step(). */
int64_t rvl_resident_words(const struct rivulet_board *b, const struct rvl_layer *l);

/* Cycles that a layer occupies the array, the ALU and the port. */
struct rvl_busy {
	int64_t array, alu, port;
};

/** Those of a layer that is cut as l->t is. */
struct rvl_busy rvl_layer_busy(const struct rivulet_board *b, const struct rvl_layer *l);
/** Rows of the operand that result rows [@y, @y + @h) need: [rows[0], rows[1]). */
void rvl_rows_read(const struct rvl_layer *l, int64_t y, int64_t h, int64_t rows[2]);

/** The runs of output blocks with regular inputs, at most @og long; returns how many. */
int64_t rvl_ocgroups(const struct rivulet_board *b, const struct rvl_layer *l, int64_t og,
		     struct rvl_ocgroup *out);
/** The parts of the reduction of @g in order; returns how many, @out may be NULL. */
int64_t rvl_chunks(const struct rvl_layer *l, const struct rvl_nest *nest,
		   const struct rvl_tiling *t, const struct rvl_ocgroup *g, struct rvl_chunk *out);
/** INP words between the rows of an operand of @cols columns. */
int64_t rvl_row_pitch(const struct rivulet_board *b, const struct rvl_nest *nest, int64_t cols);
/** WGT words of one output block and input block, all @taps of it; not of the tail. */
int64_t rvl_tap_words(const struct rvl_nest *nest, int64_t taps);
/** Input blocks of a chunk, from its block @at on, that one CONV computes: those before the tail. */
int64_t rvl_chunk_run(const struct rvl_nest *nest, const struct rvl_chunk *c, int64_t at);
/** WGT words of a chunk for @on output blocks. */
int64_t rvl_chunk_words(const struct rvl_nest *nest, const struct rvl_chunk *c, int64_t on);

#endif
