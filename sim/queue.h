/* SPDX-License-Identifier: MIT */
/*
 * The two-slot command queue of docs/device.md section 4 as a pure state machine: plain data, no time, no
 * memory, no threads. What it needs done goes through ops; so the device, the boundary tests and the
 * model checker run the same code.
 */
#ifndef RVL_SIM_QUEUE_H
#define RVL_SIM_QUEUE_H

#include <stdbool.h>

#include "regs.h"

/** struct rvl_entry - what the queue must know of an entry's descriptor */
struct rvl_entry {
	uint32_t seq;
	uint32_t fault;		/* enum rivulet_fault of the descriptor's checks */
	uint32_t min_level;
	uint32_t variants;	/* bit l: there is a variant for level l */
	bool irq;
};

/** struct rvl_outcome - how an entry ends */
struct rvl_outcome {
	uint32_t state;		/* enum rivulet_state */
	uint32_t fault;
};

/** struct rvl_queue_ops - the rest of the device */
struct rvl_queue_ops {
	/* Copy and check the descriptor at @addr; e->seq is set, the rest is to be. */
	void (*fetch)(void *ctx, uint64_t addr, struct rvl_entry *e);
	/* Begin to run. */
	void (*start)(void *ctx, const struct rvl_entry *e, uint32_t level);
	/* Has the entry that was started ended, its DMA drained? Then @o. */
	bool (*ended)(void *ctx, struct rvl_outcome *o);
	/* Make it end; ended() tells when it has. @reset: a RESET demands it, not an ABORT. */
	void (*stop)(void *ctx, bool reset);
	/* Write the status (and report copy) of an entry; @ran tells whether it was started. May change @o. */
	void (*report)(void *ctx, const struct rvl_entry *e, bool ran, struct rvl_outcome *o);
	/* Clear scratchpads and the client tag. */
	void (*clear)(void *ctx);
	/* The level in force, or whether the clock runs (HELD), is about to change. */
	void (*level)(void *ctx, uint32_t level);
	/* Interrupt, if enabled; everything it tells of is written. */
	void (*irq)(void *ctx);
	/* Does the running entry end just before the ABORT that is about to be served? NULL: never. */
	bool (*outruns_abort)(void *ctx);
};

/** struct rvl_queue - all state of the queue; may be copied and compared */
struct rvl_queue {
	uint32_t done;		/* DONE_SEQ as published */
	uint32_t current;	/* seq promoted last; equals done when nothing is CURRENT */
	uint32_t taken;		/* seq taken from a slot last */
	uint32_t frozen_seq;
	uint32_t level;
	uint32_t levels;
	uint32_t ack_reset, ack_abort, ack_resume, ack_level, ack_hold;
	uint32_t abort_req;	/* the request that stops CURRENT; valid with aborting */
	uint32_t epoch;
	struct rvl_entry cur;
	struct rvl_outcome outcome;	/* of a CURRENT that cannot run */
	struct {
		struct rvl_entry e;
		bool queued;
		bool aborted;
	} slot[2];
	bool active;		/* there is a CURRENT */
	bool running;		/* and it was started */
	bool stopping;		/* and told to stop */
	bool aborting;		/* by an ABORT to be acknowledged when it has retired */
	bool live;		/* a RESET was served */
	bool frozen;
	bool held;
	bool irq;		/* raise when this transition is published */
};

/** rvl_queue_init() - state after power on, written to the window; @levels: of the board, 1..8 */
void rvl_queue_init(struct rvl_queue *q, const struct rvl_window *w, uint32_t levels);

/**
 * rvl_queue_step() - one transition: at most one retirement, or the requests that can be served
 * Returns whether anything changed; then another step may change more. Never blocks.
 */
bool rvl_queue_step(struct rvl_queue *q, const struct rvl_window *w,
		    const struct rvl_queue_ops *ops, void *ctx);

#endif
