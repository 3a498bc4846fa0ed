/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Time of the device, as docs/isa.md, section 3, specifies it: the cycles for which each
 * instruction occupies its engine and the DMA port, and the cycles in which the four queues start
 * instructions. The model executes along this timeline, and the compiler's estimate walks it
 * without executing anything. Time does not depend on data.
 */
#ifndef RIVULET_COST_H
#define RIVULET_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "rivulet_board.h"
#include "rivulet_isa.h"

#define RIVULET_ALU_COPY  16	/* cycles to copy the table, or at least the parameters of a block */
#define RIVULET_ACC_ACCESS 64	/* bytes of ACC that LOAD and STORE move in a cycle */
#define RIVULET_FETCH_PLACES 32	/* of the fetch buffer */
#define RIVULET_FETCH_BYTES 256	/* instructions of one burst, aligned */
#define RIVULET_FLIGHT	  16	/* instructions of a queue started and not ended */
#define RIVULET_CONV_FILL 8	/* cycles to fill and drain the array, once per CONV */
#define RIVULET_SPARSE_READS 2	/* of WGT in an inner loop of sparse CONV: values, indices */
#define RIVULET_ALU_FILL 8	/* likewise the ALU lanes */
#define RIVULET_TOKEN_MAX 255
#define RIVULET_SHARE	  1024	/* unit of inp_full */
#define RIVULET_PAGE_BYTES 4096u

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
	struct rivulet_insn_a_type a_type;
	struct rivulet_insn_a_sum a_sum;
	struct rivulet_insn_a_ext a_ext;
	struct rivulet_insn_a_slope a_slope;
	struct rivulet_insn_s_dst s_dst;
	struct rivulet_insn_s_src s_src;
	struct rivulet_insn_s_chan s_chan;
	struct rivulet_insn_q_tag q_tag[RIVULET_QUEUES];
	struct rivulet_insn_q_prof q_prof[RIVULET_QUEUES];
	/* offset of byte 0 of each slot in its page; not set by CFG */
	uint16_t base[RIVULET_SLOTS];
};

/** rivulet_config_set() - apply one decoded CFG instruction */
void rivulet_config_set(struct rivulet_config *c, const struct rivulet_decoded *d);

/** struct rivulet_cost - the cost of one instruction */
struct rivulet_cost {
	uint64_t engine;	/* CONV, ALU, CFG, SYNC: cycles when nothing delays it */
	uint64_t bursts, beats;	/* LOAD, STORE: of the port */
	uint64_t port;		/* cycles that they hold it */
	uint64_t pad;		/* LOAD: cycles of writing padding */
	uint64_t spad;		/* LOAD, STORE: cycles of writing, reading the words of data */
	uint64_t strips;	/* through the row buffer; 0: through the FIFO */
	uint64_t words;		/* LOAD, STORE: of data; CONV, but stochastic: cycles of an inner loop; ALU: results of a block */
	uint64_t blocks;	/* ALU: blocks */
	uint64_t table, setup;	/* ALU: cycles of copying the table and the parameters of a block */
	uint64_t result, reads;	/* ALU: cycles of a result word, words of A read for it */
	uint64_t writes;	/* ALU: words of INP that hold a result */
	uint64_t inp_reads;	/* ALU: words of INP read for a result word */
	uint64_t inp_full;	/* CONV: of 1024 cycles, those that read all banks of INP */
	uint64_t read_bytes;
	uint64_t write_bytes;
	uint64_t weights;	/* CONV, but stochastic: of @words cycles, those that read WGT */
	uint64_t acc_free;	/* CONV: of 1024 cycles, those that do not access ACC */
	uint64_t macs;		/* padding included */
	uint64_t sparse_macs;	/* of these, sparse or by tap lanes */
	uint64_t binary_macs;	/* of these, of one bit by one bit */
	uint64_t plane_macs;	/* of these, by bit planes */
	uint64_t plane_adds;	/* their additions */
	uint64_t stream_macs;	/* of these, stochastic */
	uint64_t stream_fj;	/* their energy at the highest level */
};

/** rivulet_conv_channels() - input and output channels that a stochastic CONV multiplies */
void rivulet_conv_channels(const struct rivulet_board *b, const struct rivulet_insn_c_mode *m,
			   const struct rivulet_insn_conv *v, uint64_t *in, uint64_t *out);

/** rivulet_dense_cycles() - the array's time for @blocks pairs of a pixel and a weight block */
uint64_t rivulet_dense_cycles(const struct rivulet_board *b, uint64_t blocks);
/** rivulet_sparse_cycles() - the same for blocks that keep @kept pairs of each row */
uint64_t rivulet_sparse_cycles(const struct rivulet_board *b, uint32_t kept, uint64_t blocks);
/** rivulet_stream_cycles() - time of the lanes for @macs products; saturates */
uint64_t rivulet_stream_cycles(const struct rivulet_board *b, uint32_t circuit, uint32_t length,
			       uint64_t macs);

/** rivulet_strip() - columns of a PLANAR strip, words of @word bytes */
uint64_t rivulet_strip(const struct rivulet_board *b, uint64_t word);
/** rivulet_gather_strip() - columns of a GATHER strip; 0: not even one fits the row buffer */
int64_t rivulet_gather_strip(const struct rivulet_board *b, const struct rivulet_insn_l_gather *g);

/**
 * rivulet_port_cycles() - port time of @n runs of @len bytes, each by itself
 * @aligned: they begin at multiples of the port's width, else anywhere
 */
uint64_t rivulet_port_cycles(const struct rivulet_board *b, uint64_t n, uint64_t len, bool aligned);

/** struct rivulet_alu_stages - what the ALU does for a result word, as far as the time depends on it */
struct rivulet_alu_stages {
	uint64_t positions;	/* of a pool, or 1 */
	bool slopes;		/* of each position */
	bool average;		/* a pool that is a mean */
	bool second;		/* a second operand */
};

/** rivulet_alu_result() - cycles of a result word of @channels */
uint64_t rivulet_alu_result(const struct rivulet_board *b, uint64_t channels,
			    const struct rivulet_alu_stages *s);
/** rivulet_alu_setup() - cycles of copying the parameters of a block of @channels, with slopes or without */
uint64_t rivulet_alu_setup(uint64_t channels, bool slopes);

/** struct rivulet_alu_words - what the ALU reads and writes, in words and cycles */
struct rivulet_alu_words {
	uint64_t channels;	/* of a word of A, and of a block */
	uint64_t params, ext;	/* WGT words of a block: {bias, mult}, and those at A_EXT */
	uint64_t a, b, d;	/* INP or ACC words of a block at one place */
	uint64_t turns;		/* through the lanes, for a result word */
	bool bits;		/* writes a word of bits */
};

/** rivulet_alu_words() - of a legal instruction */
struct rivulet_alu_words rivulet_alu_words(const struct rivulet_board *b,
					   const struct rivulet_config *c,
					   const struct rivulet_insn_alu *a);

/** rivulet_cost_of() - cost of @d under configuration @c; fields were range-checked by the caller */
void rivulet_cost_of(const struct rivulet_board *b, const struct rivulet_config *c,
		     const struct rivulet_decoded *d, struct rivulet_cost *cost);

struct rivulet_timeline;

/**
 * struct rivulet_event - the start or the end of one instruction
 * It belongs to the timeline and is valid until the next call.
 */
struct rivulet_event {
	uint32_t index;		/* in the command stream */
	bool done;		/* this is its end; else its start, and @end is not known yet */
	struct rivulet_decoded insn;
	struct rivulet_cost cost;
	uint32_t tag;		/* of its queue when it started */
	uint64_t start;		/* cycles since the job started */
	uint64_t end;		/* results visible and tokens pushed; latency of DMA included */
};

/** struct rivulet_timeline_stats - totals so far */
struct rivulet_timeline_stats {
	uint64_t cycles;	/* end of the last event */
	uint64_t busy[RIVULET_QUEUES];		/* LOAD, STORE: cycles of the port */
	uint64_t stalls[RIVULET_QUEUES];	/* waiting for tokens with an instruction at hand */
	uint64_t port_busy;
	uint64_t read_bytes, write_bytes, macs;
	uint64_t sparse_macs, binary_macs, plane_macs, plane_adds, stream_macs, stream_fj;
	uint32_t retired;
};

/**
 * rivulet_fetch_fn() - callback that reads instruction @index for the timeline
 * Returns 0 with @out, 1 past the last one, or an enum rivulet_fault negated (e.g.
 * -RIVULET_FAULT_FETCH).
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
 * rivulet_timeline_place() - set the offset of byte 0 of @slot in its page of 4096 bytes; by
 * default 0
 * Must be called before the first event, as must rivulet_timeline_stream_at(), which does the same
 * for the first instruction.
 */
void rivulet_timeline_place(struct rivulet_timeline *t, uint32_t slot, uint64_t position);
void rivulet_timeline_stream_at(struct rivulet_timeline *t, uint64_t position);

/**
 * rivulet_timeline_next() - the next start or end of an instruction, in the order of time
 * Each instruction is returned twice, END once with (*e)->done. Within a cycle ends come first, and
 * the queues in the order LOAD, CONV, ALU, STORE. The function applies CFG and tokens itself. When
 * it returns a start, rivulet_timeline_config() is the configuration under which the instruction
 * runs.
 * Returns 1 with @e, 0 when END has drained, or an enum rivulet_fault negated with (*e)->index set
 * (RESERVED, OPCODE, FIELD, MODE, TOKEN_OVERFLOW, DEADLOCK, ENDLESS, NO_END, or that of the
 * callback).
 */
int rivulet_timeline_next(struct rivulet_timeline *t, const struct rivulet_event **e);
/**
 * rivulet_timeline_drain() - after a fault, let all instructions end that have started; afterwards
 * only the statistics are valid
 */
void rivulet_timeline_drain(struct rivulet_timeline *t);
const struct rivulet_config *rivulet_timeline_config(const struct rivulet_timeline *t);
const struct rivulet_timeline_stats *rivulet_timeline_stats(const struct rivulet_timeline *t);
/** rivulet_timeline_work() - the same for rivulet_board_energy_pj() */
struct rivulet_work rivulet_timeline_work(const struct rivulet_timeline_stats *s);

#endif
