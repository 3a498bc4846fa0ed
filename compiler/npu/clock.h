/* SPDX-License-Identifier: MIT */
/* The clock of layers that take turns: CONV, ALU, the halves of ACC, and the port for some weights. */
#ifndef RVL_CLOCK_H
#define RVL_CLOCK_H

#include "npu/chain.h"
#include "npu/stream.h"

#define RVL_NEVER INT64_MAX

struct rvl_turn {
	struct rvl_emission *e;
	/* Cycles of the next tile and group of output blocks; array 0: ALU alone. And of all of them: */
	int64_t array, alu;
	struct rvl_busy sum;
	/* Rows of a tile, and of an image of the result; 0: all tiles count as equally long. */
	int64_t tall, rows;
	bool halves;   /* its accumulators lie in the halves of ACC in turn */
	int64_t *done; /* when the ALU has drained them, by number */
	/* Of a layer that takes rows of its window, or blocks and looks ahead: */
	int64_t load;	/* cycles of the port for the weights of a chunk */
	int64_t slots;	/* for them */
	int64_t loaded; /* when those of the next chunk are there */
	int64_t *used;	/* when the array is done with them, by number */
};

struct rvl_turns {
	struct rvl_stream *s;
	uint32_t n;
	int64_t conv, alu; /* when they are idle */
	int64_t half[2];   /* when the halves of ACC are drained */
	uint32_t turn;
	int64_t *log; /* what the members' done and used point to */
	size_t logged;
	uint8_t *order; /* the members in the order of their tiles (order.c); NULL: by the rule */
	uint64_t next;	/* of them */
	struct rvl_turn m[RVL_CHAIN];
};

/** Adds a member; @exact: its last tiles may be short, and its weights by blocks take the port. */
void rvl_clock_add(struct rvl_turns *t, struct rvl_emission *e, bool exact);
/** When the operand of the next tile of member @i is there; RVL_NEVER where it is not made yet. */
int64_t rvl_clock_operand(const struct rvl_turns *t, uint32_t i);
/** The cycle in which the array could begin the next tile of member @i, or RVL_NEVER. */
int64_t rvl_clock_start(const struct rvl_turns *t, uint32_t i);
/** Moves the clock behind the next tile of member @i, which is not emitted. */
void rvl_clock_pass(struct rvl_turns *t, uint32_t i);
/** Emits the next tile of member @i, and moves the clock behind it. */
void rvl_clock_emit(struct rvl_turns *t, uint32_t i);
#endif
