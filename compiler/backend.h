/* SPDX-License-Identifier: MIT */
/*
 * Inside the back end: what the lowering, the tiler, the emitter and the program writer share.
 *
 * A segment of the graph becomes a list of layers; a layer is one pass of the engines over an
 * activation: convolution (with what is done on drain), pool, element-wise, table or copy. Layers
 * become operations, one per LOAD, CONV, ALU and STORE, in an order that is correct when executed
 * one by one; sched.c finds out from what each reads and writes which must wait for which, and
 * turns that into tokens. So overlap is never a question of correctness.
 */
#ifndef RVL_BACKEND_H
#define RVL_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "graph.h"
#include "rivulet_board.h"
#include "rivulet_compiler.h"
#include "rivulet_cost.h"
#include "rivulet_isa.h"
#include "rivulet_program.h"

#define RVL_NONE UINT32_MAX

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

#define RVL_OP_ACCESSES 4

/* What an operation reads or writes: words [lo, hi) of a scratchpad, or a box of a store. */
struct rvl_op_access {
	enum { RVL_AT_INP, RVL_AT_WGT, RVL_AT_ACC, RVL_AT_STORE } at;
	bool write;
	uint32_t lo, hi;
	const struct rvl_operand *o;
	int32_t box[4][2]; /* image, channel, row, column: [first, past) */
};

struct rvl_insn_op {
	struct rivulet_insn insn;
	uint8_t queue;
	bool cfg;
	uint32_t layer;
	uint32_t accesses;
	uint32_t seq[4]; /* operations of each queue done before this one starts */
	struct rvl_op_access access[RVL_OP_ACCESSES];
};

struct rvl_mempool { /* ring of a scratchpad, from which layers take their buffers */
	int64_t size, next;
};

/* A stream of operations being built. */
struct rvl_stream {
	const struct rivulet_board *board;
	bool prof;
	uint32_t variant, length; /* being emitted; length 0: int8 */
	struct rvl_insn_op *op;
	uint32_t n, cap;
	uint32_t layer;
	struct rivulet_insn shadow[4][RIVULET_CFG_COUNT];
	bool shadowed[4][RIVULET_CFG_COUNT];
	struct rvl_mempool pool[RIVULET_MEMS];
	uint64_t acc_turn;	 /* accumulator tiles so far */
	bool replicates;	 /* the last LOAD of INP wrote each pixel more than once */
	struct rvl_insn_op sink; /* what is touched after an error */
	int rc;			 /* first error; later calls do nothing */
	struct rvl_err *err;
};

struct rvl_bytes {
	uint8_t *data;
	size_t size, cap;
};

/* A command stream: bytes of be->cmds. */
struct rvl_bcmd {
	uint64_t off, len, cycles;
};

/* One step of the program being built. */
struct rvl_bstep {
	bool npu;
	const struct rvl_node *node; /* CPU: the node; NPU: of the first layer */
	uint32_t layer0, layers;     /* NPU: of be->layer */
	uint32_t nread, nwrite;
	struct rvl_tensor *read[RIVULET_STEP_REFS]; /* CPU: by operand, NULL where absent */
	struct rvl_tensor *write[RIVULET_STEP_REFS];
	struct rvl_bcmd cmd[RIVULET_LEVELS]; /* by variant */
	uint64_t params_off, params_size;
	uint32_t slots, writes_mask;
	uint64_t macs;
	const char *name;
};

/* Cycles and traffic of one layer, from the timeline. */
struct rvl_layer_cost {
	uint64_t cycles, read_bytes, write_bytes;
	bool array; /* uses CONV */
};

struct rvl_backend {
	struct rvl_graph *g;
	const struct rivulet_board *board; /* NULL: CPU only */
	const struct rivulet_compile_options *opt;
	const char **out_name;	  /* of each output, as the model names it */
	struct rvl_store **store; /* by tensor id; NULL: weights and other private constants */
	struct rvl_layer **layer;
	uint32_t n_layers, cap_layers;
	struct rvl_bstep *step;
	uint32_t n_steps, cap_steps;
	/* Variants: one for each length that some level asks for; the last is the highest level's. */
	uint32_t n_variants;
	uint32_t length[RIVULET_LEVELS];   /* by variant; 0: int8 */
	uint32_t of_level[RIVULET_LEVELS]; /* variant, or RVL_NONE */
	uint64_t arena_size;
	struct rvl_bytes consts, params, cmds;
	uint64_t const_off; /* of consts in the file */
	uint64_t weight_bytes;
	uint64_t cpu_scratch;
	struct rvl_layer_cost *cost;	     /* by layer */
	struct rivulet_explain_segment *seg; /* by variant and step; zero for CPU steps */
	struct rvl_err *err;
};

/* ---- small arithmetic ---- */

static inline int64_t rvl_div_up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static inline int64_t rvl_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t rvl_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t rvl_clamp(int64_t v, int64_t lo, int64_t hi)
{
	return rvl_min(rvl_max(v, lo), hi);
}

static inline bool rvl_view_equal(const struct rvl_view *a, const struct rvl_view *b)
{
	return a->n == b->n && a->c == b->c && a->h == b->h && a->w == b->w;
}

/* ---- bytes.c: growing buffers ---- */

/** Appends @n bytes (zeroes when @p is NULL) at the next multiple of @align; -ENOMEM, -E2BIG. */
int rvl_bytes_add(struct rvl_bytes *b, const void *p, size_t n, size_t align, uint64_t *offset);
void rvl_bytes_free(struct rvl_bytes *b);

/* ---- lower.c, lower_conv.c, lower_misc.c: nodes to layers ---- */

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
/** Zero point, flip and view of a quantised tensor as operand. */
bool rvl_operand_of(const struct rvl_tensor *t, struct rvl_operand *o);
/** Reads a matmul over a flattened image as a convolution whose kernel is the image. */
void rvl_matmul_over_image(struct rvl_layer *l, const struct rvl_view *image);

/** For rvl_pass_partition(): @arg is the board. */
const char *rvl_backend_fits(struct rvl_graph *g, const struct rvl_node *n, void *arg);

/** Steps and layers of the partitioned graph, stores of all tensors, forms decided. */
int rvl_lower(struct rvl_backend *be);

/* ---- steps.c ---- */

/** A store for every tensor of the partitioned graph. */
int rvl_stores_make(struct rvl_backend *be);
/** The steps in order; @node_layer: by node id, RVL_NONE on the CPU. */
int rvl_steps_make(struct rvl_backend *be, const uint32_t *node_layer);

/* ---- tile.c ---- */

/** Chooses l->t for the least estimated time; false when no cut fits the scratchpads and fields. */
bool rvl_tile(const struct rivulet_board *b, struct rvl_layer *l);

/** The runs of output blocks with regular inputs, at most @og long; returns how many. */
int64_t rvl_ocgroups(const struct rivulet_board *b, const struct rvl_layer *l, int64_t og,
		     struct rvl_ocgroup *out);
/** The parts of the reduction of @g in order; returns how many, @out may be NULL. */
int64_t rvl_chunks(const struct rvl_layer *l, const struct rvl_tiling *t,
		   const struct rvl_ocgroup *g, struct rvl_chunk *out);
int64_t rvl_chunk_words(const struct rivulet_board *b, const struct rvl_chunk *c, int64_t on);

/* ---- pack.c ---- */

/** Puts weights (in the order the stream loads them), {bias, factor} and tables into be->consts. */
int rvl_pack_layer(struct rvl_backend *be, struct rvl_layer *l);

/* ---- emit.c, emit_conv.c, emit_misc.c ---- */

void rvl_stream_init(struct rvl_stream *s, const struct rivulet_board *b, bool prof,
		     struct rvl_err *err);
void rvl_stream_free(struct rvl_stream *s);
void rvl_emit_cfg(struct rvl_stream *s, enum rivulet_form form, const struct rivulet_decoded *d);
struct rvl_insn_op *rvl_emit(struct rvl_stream *s, enum rivulet_form form, enum rivulet_queue q,
			     const struct rivulet_decoded *d);
/** PROF records of a stream: before the first operation, and after the last. */
void rvl_emit_prof_setup(struct rvl_stream *s);
void rvl_emit_prof_finish(struct rvl_stream *s);
/** Base word of @words words that no other buffer of this layer has; sizes were checked by tile.c.
 */
int64_t rvl_take(struct rvl_stream *s, enum rivulet_mem mem, int64_t words);
void rvl_touch_spad(struct rvl_insn_op *op, int at, int64_t lo, int64_t words, bool write);

/* A rectangle of an operand: channels from block @b0 (tn each), rows, columns of one image. */
struct rvl_box {
	int64_t n, b0, bn, y, h, x, w;
};

void rvl_emit_load(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		   int64_t addr);
/** One pixel of @o to all of @box's pixels; of a single value, to all channels too. */
void rvl_emit_spread(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		     int64_t addr);
void rvl_emit_store(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		    int64_t addr, int64_t row_pitch, int64_t blk_pitch);
void rvl_emit_load_wgt(struct rvl_stream *s, uint64_t offset, int64_t words, int64_t addr);
void rvl_emit_layer(struct rvl_stream *s, const struct rvl_layer *l);
void rvl_emit_conv_layer(struct rvl_stream *s, const struct rvl_layer *l);
void rvl_emit_plain_layer(struct rvl_stream *s, const struct rvl_layer *l);
/** Window of a pool for the result rectangle @r, whose source is the tile @src. */
void rvl_emit_pool(struct rvl_stream *s, const struct rvl_layer *l, const struct rvl_box *r,
		   const struct rvl_box *src);
/** Configuration of the ALU stages 1 to 4 that a layer uses. */
void rvl_emit_alu_stages(struct rvl_stream *s, const struct rvl_layer *l);

/* ---- sched.c ---- */

/** Finds dependences and sets the token bits of every operation. */
int rvl_schedule(struct rvl_stream *s, bool serial);

/* ---- memplan.c ---- */

/** Gives every ARENA store its offset; -E2BIG when the arena would pass RIVULET_PROGRAM_MAX. */
int rvl_memplan(struct rvl_backend *be);
/** Proves the plan: no two stores whose lives may overlap share a byte. -EINVAL names two. */
int rvl_memplan_check(struct rvl_backend *be);

/* ---- variant.c ---- */

/** Variants and levels from the options; marks the graph's nodes. -EINVAL: lengths out of range. */
int rvl_variants_choose(struct rvl_backend *be);
/** The one length of CPU steps. -EOPNOTSUPP naming @n when levels differ: the CPU has no level. */
int rvl_variants_of_cpu(const struct rvl_backend *be, const struct rvl_node *n, int32_t *length);
/** Cycles of @macs products: of streams of @length bits, or of the int8 array with 0. */
uint64_t rvl_stream_cycles(const struct rivulet_board *b, uint32_t length, uint64_t macs);
/** Cycles of a layer in the longest of the variants. */
uint64_t rvl_layer_cycles(const struct rvl_backend *be, const struct rvl_layer *l);
/** Whether some variant computes in int8 throughout. */
bool rvl_variants_have_int8(const struct rvl_backend *be);
/** Whether any layer of the step is stochastic. */
bool rvl_step_stochastic(const struct rvl_backend *be, const struct rvl_bstep *s);
/** Segment of step @i in variant @v. */
static inline struct rivulet_explain_segment *rvl_seg(const struct rvl_backend *be, uint32_t v,
						      uint32_t i)
{
	return &be->seg[v * be->n_steps + i];
}

/* ---- writer.c ---- */

int rvl_write_program(struct rvl_backend *be, const void *onnx, size_t size,
		      struct rivulet_blob *out);

/* ---- compile.c ---- */

/** rivulet_compile() of a graph made in memory, not yet optimised; takes @g over in any case. */
int rvl_compile_graph(struct rvl_graph *g, const struct rivulet_board *board,
		      const struct rivulet_compile_options *opt, struct rivulet_blob *program,
		      struct rivulet_explain *explain, struct rvl_err *err);

/** Command streams of all NPU steps, checked and estimated; offsets of everything else are final.
 */
int rvl_emit_steps(struct rvl_backend *be);
/** The name of a tensor as the model knows it. */
const char *rvl_public_name(const struct rvl_backend *be, const struct rvl_tensor *t);

/* ---- verify.c ---- */

/** -EINVAL with the checker's words when the step's stream is not sound. */
int rvl_check_stream(const struct rvl_backend *be, const struct rvl_bstep *step,
		     const struct rvl_bcmd *cmd);

/* ---- estimate.c ---- */

/** Walks a command stream; @layer (may be NULL) maps instructions to layers for @cost. */
int rvl_estimate_stream(const struct rivulet_board *b, const void *cmd, size_t bytes,
			const uint32_t *layer, struct rvl_layer_cost *cost,
			struct rivulet_explain_segment *seg, struct rvl_err *err);
/** Adds a segment to the work of a program. */
void rvl_add_work(struct rivulet_work *w, const struct rivulet_explain_segment *seg);
/** The work of all NPU steps of a checked program at one level. */
int rvl_work_at(const struct rivulet_program *program, const struct rivulet_board *board,
		uint32_t level, struct rivulet_work *w, struct rvl_err *err);
/** Time and energy of @w at one level. */
void rvl_estimate_level(const struct rivulet_board *b, uint32_t level,
			const struct rivulet_work *w, struct rivulet_estimate_row *row);

/* ---- explain.c ---- */

int rvl_explain_fill(const struct rvl_backend *be, size_t program_bytes, struct rivulet_explain *e);
/** Places and reasons only, of a graph that was not lowered. */
int rvl_explain_nodes(const struct rvl_backend *be, struct rivulet_explain *e);

#endif
