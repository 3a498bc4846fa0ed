/* SPDX-License-Identifier: MIT */
/*
 * The two-slot command queue of docs/device.md section 4 as a state machine without time, memory or
 * threads. It acts through ops, so that the device, the boundary tests and the model checker run
 * the same code.
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
	/*
	 * Copies and checks the descriptor at @addr. The caller has set e->seq; the rest is filled.
	 */
	void (*fetch)(void *ctx, uint64_t addr, struct rvl_entry *e);
	/* Starts to run an entry. */
	void (*start)(void *ctx, const struct rvl_entry *e, uint32_t level);
	/* Returns whether the started entry has ended with its DMA drained, and then fills @o. */
	bool (*ended)(void *ctx, struct rvl_outcome *o);
	/*
	 * Asks the running entry to end, which ended() reports. @reset: for a RESET, not an ABORT.
	 */
	void (*stop)(void *ctx, bool reset);
	/*
	 * Writes the status and the report copy of an entry. @ran: it was started. May change @o.
	 */
	void (*report)(void *ctx, const struct rvl_entry *e, bool ran, struct rvl_outcome *o);
	/* Clears scratchpads and the client tag. */
	void (*clear)(void *ctx);
	/* Called before the level in force, or whether the clock runs (HELD), changes. */
	void (*level)(void *ctx, uint32_t level);
	/* Raises the interrupt if it is enabled. All words that it announces are written. */
	void (*irq)(void *ctx);
	/* Returns whether the running entry ends just before its ABORT is served. NULL: never. */
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
	bool stopping;		/* and was asked to stop */
	bool aborting;		/* by an ABORT that is acknowledged when the entry has retired */
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
