/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The DMA port, and the stages of LOAD and STORE on both of its sides (docs/isa.md 3.2 to 3.4), in
 * steps of one burst. Inside uapi/: the timeline drives it in the order of time.
 */
#ifndef RIVULET_DMA_H
#define RIVULET_DMA_H

#include "rivulet_cost.h"

#define DMA_NEVER     UINT64_MAX
#define DMA_STEPS_MAX 65536u /* of one instruction; one of more bursts takes several in a step */
#define DMA_FIFO_MAX  1024u  /* steps whose bytes are in a FIFO */
#define DMA_GRANTS    256u   /* bursts outstanding at most: the highest value of the key */

/** enum dma_user - who asks for the port, in the order of docs/isa.md */
enum dma_user { DMA_FETCH, DMA_LOAD, DMA_STORE, DMA_USERS };

/* Steps whose bytes are in the FIFO, and when they leave it. */
struct dma_fifo {
	uint64_t release[DMA_FIFO_MAX], bytes[DMA_FIFO_MAX];
	uint32_t head, count;
	uint64_t used, size;
};

/* An instruction in the stage at the port. */
struct dma_transfer {
	bool on;
	struct rivulet_cost cost;
	uint64_t steps, step;
	uint64_t ready;		/* the next burst is asked for from this cycle on */
	uint64_t spad;		/* LOAD: the fill stage is through; STORE: the drain stage */
	uint64_t strip[2];	/* when the last two strips left the row buffer */
	struct dma_fifo fifo;
};

struct dma {
	const struct rivulet_board *board;
	struct dma_transfer transfer[DMA_USERS]; /* FETCH: ready, and the beats of its burst */
	uint64_t free;				 /* the port is */
	uint64_t grant[DMA_GRANTS];		 /* of the bursts before */
	uint64_t grants;
	enum dma_user last; /* of LOAD and STORE, granted last */
};

void dma_init(struct dma *d, const struct rivulet_board *b);
/** dma_start() - an instruction of LOAD or STORE starts; its transfer is off at once without bursts */
void dma_start(struct dma *d, enum dma_user who, const struct rivulet_cost *cost, uint64_t now);
/** dma_ask() - FETCH asks for a burst of @beats from @now on */
void dma_ask(struct dma *d, uint64_t beats, uint64_t now);
/** dma_next() - cycle of the next grant and whose it is, or DMA_NEVER */
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
 * @slow: of the words at the scratchpad, how many in 1024 take a cycle more
 */
struct dma_grant dma_serve(struct dma *d, enum dma_user who, uint64_t now, uint32_t slow);

#endif
