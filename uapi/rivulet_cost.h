/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Time of the device, as docs/device.md rules it: how many cycles each instruction occupies its
 * engine and the DMA port, and when the four queues start it. The model executes along this timeline;
 * the compiler's estimate walks it without executing anything. Nothing here depends on data.
 */
#ifndef RIVULET_COST_H
#define RIVULET_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "rivulet_board.h"
#include "rivulet_isa.h"

#define RIVULET_CONV_FILL 8	/* cycles to fill and drain the array, once per CONV */
#define RIVULET_ALU_FILL 8	/* likewise the ALU lanes */
#define RIVULET_TOKEN_MAX 255

/** struct rivulet_config - configuration in force, one struct per CFG form, all zero at job start */
struct rivulet_config {
	struct rivulet_insn_l_src l_src;
	struct rivulet_insn_l_dst l_dst;
	struct rivulet_insn_l_chan l_chan;
	struct rivulet_insn_l_pad l_pad;
	struct rivulet_insn_l_gather l_gather;
	struct rivulet_insn_l_bounds l_bounds;
	struct rivulet_insn_c_kernel c_kernel;
	struct rivulet_insn_c_input c_input;
	struct rivulet_insn_c_pad c_pad;
	struct rivulet_insn_c_out c_out;
	struct rivulet_insn_c_mode c_mode;
	struct rivulet_insn_a_src a_src;
	struct rivulet_insn_a_dst a_dst;
	struct rivulet_insn_a_rq a_rq;
	struct rivulet_insn_a_scale a_scale;
	struct rivulet_insn_a_out a_out;
	struct rivulet_insn_a_pool a_pool;
	struct rivulet_insn_a_div a_div;
	struct rivulet_insn_a_rect a_rect;
	struct rivulet_insn_a_lut a_lut;
	struct rivulet_insn_a_pack a_pack;
	struct rivulet_insn_s_dst s_dst;
	struct rivulet_insn_s_src s_src;
	struct rivulet_insn_s_chan s_chan;
	struct rivulet_insn_q_tag q_tag[RIVULET_QUEUES];
	struct rivulet_insn_q_prof q_prof[RIVULET_QUEUES];
};

/** rivulet_config_set() - take over one decoded CFG instruction */
void rivulet_config_set(struct rivulet_config *c, const struct rivulet_decoded *d);

/** struct rivulet_cost - what one instruction costs */
struct rivulet_cost {
	uint64_t engine;	/* cycles its engine is busy, port time not included */
	uint64_t beats;		/* cycles it holds the DMA port; 0 for CONV, ALU, CFG, SYNC */
	uint64_t read_bytes;
	uint64_t write_bytes;
	uint64_t macs;		/* padding included */
	uint64_t stream_macs;	/* of these, stochastic */
	uint64_t stream_fj;	/* their energy at the highest level */
};

/** rivulet_conv_channels() - input and output channels that a stochastic CONV multiplies */
void rivulet_conv_channels(const struct rivulet_board *b, const struct rivulet_insn_c_mode *m,
			   const struct rivulet_insn_conv *v, uint64_t *in, uint64_t *out);

/** rivulet_cost_of() - cost of @d under configuration @c; fields were range-checked by the caller */
void rivulet_cost_of(const struct rivulet_board *b, const struct rivulet_config *c,
		     const struct rivulet_decoded *d, struct rivulet_cost *cost);

struct rivulet_timeline;

/** struct rivulet_event - one instruction at the moment its engine takes it */
struct rivulet_event {
	uint32_t index;		/* in the command stream */
	struct rivulet_decoded insn;
	struct rivulet_cost cost;
	uint64_t start;		/* cycles since the job started */
	uint64_t end;		/* results visible and tokens pushed; latency of DMA included */
};

/** struct rivulet_timeline_stats - totals so far */
struct rivulet_timeline_stats {
	uint64_t cycles;	/* end of the last event */
	uint64_t busy[RIVULET_QUEUES];
	uint64_t stalls[RIVULET_QUEUES];	/* waiting for tokens with an instruction at hand */
	uint64_t port_busy;
	uint64_t read_bytes, write_bytes, macs;
	uint64_t stream_macs, stream_fj;
	uint32_t retired;
};

/**
 * rivulet_fetch_fn() - how the timeline gets instruction @index
 * Returns 0 with @out, 1 past the last one, or an enum rivulet_fault negated (e.g. -RIVULET_FAULT_FETCH).
 */
typedef int (*rivulet_fetch_fn)(void *ctx, uint32_t index, struct rivulet_insn *out);

/**
 * rivulet_timeline_new() - start a job's timeline; the board must outlive it
 * Returns NULL without memory. Owned by the caller, rivulet_timeline_free() (NULL is fine).
 */
struct rivulet_timeline *rivulet_timeline_new(const struct rivulet_board *b, rivulet_fetch_fn fetch,
					      void *ctx);
struct rivulet_timeline *rivulet_timeline_free(struct rivulet_timeline *t);

/**
 * rivulet_timeline_next() - the next instruction in the device's deterministic order
 * CFG and token effects are applied inside; @c of rivulet_timeline_config() is then the configuration
 * under which the event runs. Order: among queue heads whose tokens are there, the one that can start
 * first, ties in the order LOAD, CONV, ALU, STORE. All side effects of an event count as done at its end.
 * Returns 1 with @e, 0 when END has drained, or an enum rivulet_fault negated with e->index set
 * (RESERVED, OPCODE, FIELD for zero counts, TOKEN_OVERFLOW, DEADLOCK, ENDLESS, NO_END, or fetch's).
 */
int rivulet_timeline_next(struct rivulet_timeline *t, struct rivulet_event *e);
const struct rivulet_config *rivulet_timeline_config(const struct rivulet_timeline *t);
const struct rivulet_timeline_stats *rivulet_timeline_stats(const struct rivulet_timeline *t);
/** rivulet_timeline_work() - the same for rivulet_board_energy_pj() */
struct rivulet_work rivulet_timeline_work(const struct rivulet_timeline_stats *s);

#endif
