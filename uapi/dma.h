/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The DMA port, and the stages of LOAD and STORE on both of its sides (docs/isa.md 3.2 to 3.4), in
 * steps of one burst. Internal to uapi/: the timeline calls it in the order of time.
 */
#ifndef RIVULET_DMA_H
#define RIVULET_DMA_H

#include "rivulet_cost.h"

#define DMA_NEVER     UINT64_MAX
#define DMA_STEPS_MAX 65536u /* of one instruction; with more bursts, a step has several */
#define DMA_FIFO_MAX  1024u  /* steps whose bytes are in a FIFO */
#define DMA_GRANTS    256u   /* bursts outstanding at most: the highest value of the key */

/** enum dma_user - the units that request bursts, in the order of docs/isa.md */
enum dma_user { DMA_FETCH, DMA_LOAD, DMA_STORE, DMA_USERS };

/* The steps whose bytes are in the FIFO, and the cycles in which they leave it. */
struct dma_fifo {
	uint64_t release[DMA_FIFO_MAX], bytes[DMA_FIFO_MAX];
	uint32_t head, count;
	uint64_t used, size;
};

/*
 * A total that is divided among @n steps: the first i have total * i / n of it. The parts are taken
 * in order.
 */
struct dma_parts {
	uint64_t each, rest, n;
	uint64_t sum; /* rest times the number of parts that were taken, modulo n */
};

/* An instruction in the stage at the port. */
struct dma_transfer {
	bool on, stripped;	/* stripped: through the row buffer, not through the FIFO */
	uint64_t steps, step;
	struct dma_parts bursts, beats, bytes; /* of a step; bytes: in the FIFO */
	struct dma_parts words;	 /* cycles at the scratchpad: of a step, or of a strip */
	struct dma_parts strips; /* that end with a step: 0 or 1 */
	struct {
		uint64_t bursts, beats, bytes, words;
		bool first, last; /* of its strip */
	} part;			/* of step @step */
	uint64_t ready;		/* cycle from which on the next burst is requested */
	/* LOAD: cycle in which the fill stage ends; STORE: the drain stage */
	uint64_t spad;
	uint64_t strip[2];	/* cycles in which the last two strips left the row buffer */
	struct dma_fifo *fifo;
};

struct dma {
	const struct rivulet_board *board;
	struct dma_transfer transfer[DMA_USERS]; /* FETCH: ready, and the beats of its burst */
	uint64_t free;				 /* the port is */
	uint64_t grant[DMA_GRANTS];		 /* of the bursts before */
	uint64_t grants;
	enum dma_user last; /* the one of LOAD and STORE that was granted last */
	struct dma_fifo fifo[DMA_USERS]; /* last: dma_init() leaves the places in it as they are */
};

void dma_init(struct dma *d, const struct rivulet_board *b);
/** dma_start() - an instruction of LOAD or STORE starts; without bursts it does not use the port */
void dma_start(struct dma *d, enum dma_user who, const struct rivulet_cost *cost, uint64_t now);
/** dma_ask() - FETCH requests a burst of @beats from cycle @now on */
void dma_ask(struct dma *d, uint64_t beats, uint64_t now);
/** dma_next() - the cycle of the next grant, with its unit in @who, or DMA_NEVER */
uint64_t dma_next(const struct dma *d, enum dma_user *who);
/** struct dma_grant - what was granted */
struct dma_grant {
	uint64_t words; /* cycles at the scratchpad of the step */
	uint64_t free;	/* cycle after the port time */
	uint64_t end;	/* of the instruction; valid with last */
	bool last;	/* burst of the instruction */
};
/**
 * dma_serve() - grant the step of @who at cycle @now
 * @slow: of 1024 words at the scratchpad, the number that take a cycle more
 */
struct dma_grant dma_serve(struct dma *d, enum dma_user who, uint64_t now, uint32_t slow);
/** struct dma_run - steps that were granted one after the other */
struct dma_run {
	uint64_t last; /* cycle of the last grant */
	uint64_t next; /* cycle of the one that follows, which is not made */
	uint64_t busy; /* cycles for which they hold the port */
};
/**
 * dma_run() - grant the steps of @who from cycle @at on that are before cycle @until, but not the last
 * one of its instruction, while no other unit has a request
 * The same as dma_serve() and dma_next() in turns, in less time. @who is LOAD or STORE.
 */
struct dma_run dma_run(struct dma *d, enum dma_user who, uint64_t at, uint64_t until, uint32_t slow);

#endif
