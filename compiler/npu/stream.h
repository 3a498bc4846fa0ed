/* SPDX-License-Identifier: MIT */
/* Streams of operations: emission, and the schedule. */
#ifndef RVL_STREAM_H
#define RVL_STREAM_H

#include "npu/layer.h"
#include "rivulet_isa.h"

#define RVL_OP_ACCESSES 8

/*
 * What an operation reads or writes: words [lo, hi) of a scratchpad and as many at each of @runs
 * multiples of @step, or a box of a store.
 */
struct rvl_op_access {
	enum { RVL_AT_INP, RVL_AT_WGT, RVL_AT_ACC, RVL_AT_STORE } at;
	bool write;
	union {
		struct { /* of a scratchpad */
			uint32_t lo, hi, step, runs;
		};
		struct { /* of a store */
			const struct rvl_operand *o;
			int32_t box[4][2]; /* image, channel, row, column: [first, past) */
		};
	};
};

struct rvl_insn_op {
	struct rivulet_insn insn;
	uint8_t queue;
	bool cfg;
	uint32_t layer;
	uint32_t accesses;
	uint32_t seq[4]; /* operations of each queue done before this one starts */
	struct rvl_op_access *access; /* NULL for configuration */
};

struct rvl_op_accesses;

/* A stream of operations being built. */
struct rvl_stream {
	const struct rivulet_board *board;
	struct rvl_arena *arena; /* that the stream counts as held by; NULL: none */
	bool prof;
	uint32_t variant, length; /* being emitted; length 0: int8 */
	struct rvl_insn_op *op;
	uint32_t n, cap;
	uint32_t last_op; /* the last that is no configuration, if there is one */
	struct rvl_op_accesses *accesses; /* of all operations */
	uint32_t most; /* instructions, with END */
	uint32_t layer;
	struct rivulet_insn shadow[4][RIVULET_CFG_COUNT];
	bool shadowed[4][RIVULET_CFG_COUNT];
	struct rivulet_decoded given[RIVULET_FORM_COUNT]; /* the last of each form that has a queue of its own */
	struct rivulet_insn_c_out c_out; /* the last of each that was configured */
	struct rivulet_insn_a_src a_src;
	struct rivulet_insn_a_dst a_dst;
	const struct rvl_layer *configured; /* whose epilogue the ALU is configured for */
	bool wide_a;		 /* it reads int16 */
	uint32_t preloads;	 /* layers whose first weights were loaded before the last tiles of another */
	uint64_t acc_turn;	 /* accumulator tiles so far */
	bool replicates;	 /* the last LOAD of INP wrote each pixel more than once */
	struct rvl_insn_op sink; /* what is touched after an error */
	struct rvl_op_access sunk[RVL_OP_ACCESSES];
	int rc;			 /* first error; later calls do nothing */
	struct rvl_err *err;
};

void rvl_stream_init(struct rvl_stream *s, const struct rivulet_board *b, bool prof,
		     struct rvl_err *err);
void rvl_stream_free(struct rvl_stream *s);
void rvl_emit_cfg(struct rvl_stream *s, enum rivulet_form form, const struct rivulet_decoded *d);
struct rvl_insn_op *rvl_emit(struct rvl_stream *s, enum rivulet_form form, enum rivulet_queue q,
			     const struct rivulet_decoded *d);
/** PROF records of a stream: before the first operation, and after the last. */
void rvl_emit_prof_setup(struct rvl_stream *s);
void rvl_emit_prof_finish(struct rvl_stream *s);
void rvl_touch_spad(struct rvl_insn_op *op, int at, int64_t lo, int64_t words, bool write);

/* Where a block's rows lie in INP: first word, words between rows, words between blocks. */
struct rvl_spad {
	int64_t addr, row, blk;
};

/** @blks blocks of @rows rows of @cols words of INP. */
void rvl_touch_blocks(struct rvl_insn_op *op, const struct rvl_spad *d, int64_t rows, int64_t cols,
		      int64_t blks, bool write);

/* A rectangle of an operand: channels from block @b0 (tn each), rows, columns of one image. */
struct rvl_box {
	int64_t n, b0, bn, y, h, x, w;
};

/** The box of @o's words: of int16 a block of channels is two blocks of words. */
struct rvl_box rvl_words_of(const struct rvl_operand *o, struct rvl_box box);

/* Words of INP at regular places: the first one, and words between rows and columns. */
struct rvl_lattice {
	int64_t addr, row, col;
};

void rvl_emit_load(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		   int64_t addr);
/** The same with rows at a pitch of @pitch words. */
void rvl_emit_load_rows(struct rvl_stream *s, const struct rvl_operand *o,
			const struct rvl_box *box, int64_t addr, int64_t pitch);
/** The same, each pixel written so often as @rep says; @box is what is read. */
void rvl_emit_repeat(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		     const struct rvl_repeat *rep, int64_t addr);
/** The same into a part of a larger image in INP, whose rows and blocks are as far apart as @to says. */
void rvl_emit_part(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		   const struct rvl_repeat *rep, const struct rvl_spad *to);
/**
 * One block of @o, whose pixels come to lie @to->col words apart, and its rows @to->row words: @box is what
 * is read.
 */
void rvl_emit_phase(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		    const struct rvl_lattice *to);
/** One pixel of @o to all of @box's pixels; of a single value, to all channels too. */
void rvl_emit_spread(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		     int64_t addr);
void rvl_emit_store(struct rvl_stream *s, const struct rvl_operand *o, const struct rvl_box *box,
		    int64_t addr, int64_t row_pitch, int64_t blk_pitch);
void rvl_emit_load_wgt(struct rvl_stream *s, uint64_t offset, int64_t words, int64_t addr);

/* Words that a layer's buffers take of each scratchpad, or the first word of them. */
struct rvl_words3 {
	int64_t mem[RIVULET_MEMS];
};

/* The operations of one layer, tile by tile. */
struct rvl_emission {
	struct rvl_stream *s;
	const struct rvl_layer *l;
	uint32_t layer;	    /* tag of its operations */
	int64_t table;	    /* WGT word of the epilogue's constants */
	uint64_t at, count; /* tiles emitted, and of the layer */
	bool preloaded;	    /* some weights were loaded ahead of the first tile */
	bool constants;	    /* those of the epilogue are loaded */
	void (*next)(struct rvl_emission *e);
	/*
	 * Rows are those of a ring; where the reader takes blocks, "row" stands for a block of
	 * channels.
	 */
	/** Rows of the operand, in the numbering of its ring, that the next tile reads. */
	void (*reads)(const struct rvl_emission *e, int64_t rows[2]);
	/** Rows of the result, in the numbering of its ring, that are complete. */
	int64_t (*made)(const struct rvl_emission *e);
	/** Tiles after which row @row of the result is complete. */
	uint64_t (*tiles_to)(const struct rvl_emission *e, int64_t row);
	/**
	 * Loads at most @words of WGT of the weights of the first @groups of output blocks, ahead of the
	 * first tile and in the order in which tiles need them, as far as there are slots; returns how many.
	 * NULL where there are no weights.
	 */
	int64_t (*preload)(struct rvl_emission *e, int64_t words, int64_t groups);
	/** Loads the operand of the next tile of which nothing is emitted, if there is a slot. NULL: not needed. */
	void (*operand)(struct rvl_emission *e);
	void (*close)(struct rvl_emission *e);
};

/**
 * What the buffers of @l take. Those in WGT begin with its weights and take a multiple of rvl_wgt_step(), so that
 * the weights of the next layer begin there, too.
 */
struct rvl_words3 rvl_layer_words(const struct rivulet_board *b, const struct rvl_layer *l);
/** WGT words of the slots by which @l has fewer than it has chunks of weights and blocks of parameters. */
int64_t rvl_layer_more_words(const struct rivulet_board *b, const struct rvl_layer *l);
/**
 * Begins the emission of @l with its buffers at @at; NULL with s->rc set. It may take @more words of WGT
 * for slots than its cut has.
 */
struct rvl_emission *rvl_emission_open(struct rvl_stream *s, const struct rvl_layer *l, uint32_t layer,
				       const struct rvl_words3 *at, int64_t more);
/** Emits the next tile. */
void rvl_emission_next(struct rvl_emission *e);
/**
 * Loads the constants of the epilogue, unless that is done. The first results of the layer need them, so
 * that what the array needs for the first tile is loaded before them.
 */
void rvl_emission_constants(struct rvl_emission *e);
/**
 * Loads at most @words of the weights ahead of the first tile, as preload() does, those of the first tile's
 * group or of all; returns how many.
 */
int64_t rvl_emission_preload(struct rvl_emission *e, int64_t words, bool first);
void rvl_emission_close(struct rvl_emission *e);

struct rvl_words3 rvl_product_words(const struct rvl_layer *l);
int64_t rvl_product_more_words(const struct rivulet_board *b, const struct rvl_layer *l);
struct rvl_emission *rvl_product_open(struct rvl_stream *s, const struct rvl_layer *l,
				   const struct rvl_words3 *at, int64_t more);
struct rvl_words3 rvl_plain_words(const struct rvl_layer *l);
struct rvl_emission *rvl_plain_open(struct rvl_stream *s, const struct rvl_layer *l,
				    const struct rvl_words3 *at);

/* The order in which the layers of a cascade emit their tiles. */
struct rvl_turns;

/** For the @n emissions of @e, each of which reads the ring of the one before. NULL: no memory. */
struct rvl_turns *rvl_turns_new(struct rvl_emission *const *e, uint32_t n);
struct rvl_turns *rvl_turns_free(struct rvl_turns *t);
/** Emits the next tile of one of them; returns the cycles that it takes by the estimate, but not of the port. */
struct rvl_busy rvl_turns_next(struct rvl_turns *t);

/** All layers of a step in order, those of a cascade in turns; the first has the tag @first. */
void rvl_segment_emit(struct rvl_stream *s, struct rvl_layer *const *l, uint32_t n,
		      uint32_t first);

/** The instructions of the stream and END: s->n + 1 of them. */
int rvl_stream_code(const struct rvl_stream *s, struct rivulet_insn *out);

/** Finds dependences and sets the token bits of every operation. */
int rvl_schedule(struct rvl_stream *s, bool serial);

#endif
