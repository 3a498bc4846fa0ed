/* SPDX-License-Identifier: MIT */
/* Streams of operations: emission, and the schedule. */
#ifndef RVL_STREAM_H
#define RVL_STREAM_H

#include "npu/layer.h"
#include "rivulet_isa.h"

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

/** Finds dependences and sets the token bits of every operation. */
int rvl_schedule(struct rvl_stream *s, bool serial);

#endif
