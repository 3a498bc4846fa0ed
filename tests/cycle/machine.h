/* SPDX-License-Identifier: MIT */
/* The state of the cycle-stepped model: the queues, the port and each engine. */
#ifndef RVL_TEST_CYCLE_MACHINE_H
#define RVL_TEST_CYCLE_MACHINE_H

#include <stdbool.h>

#include "cycle.h"

#define CYC_NEVER    UINT64_MAX
#define CYC_FLIGHT   16 /* instructions of a queue started and not ended */
#define CYC_PLACES   32 /* entries of the fetch buffer */
#define CYC_FILL     8	/* cycles from the last work of CONV and ALU to their end */
#define CYC_WRITES   64 /* results of the ALU on their way to a scratchpad */
#define CYC_ACC_MOVE 64 /* bytes of ACC that LOAD and STORE move in a cycle */

/* The configuration that has an effect on time. */
#define CYC_FORMS(F)                                                                               \
	F(l_src) F(l_dst) F(l_chan) F(l_pad) F(l_gather) F(l_bounds)                               \
	F(c_kernel) F(c_input) F(c_out) F(c_mode)                                                  \
	F(a_src) F(a_dst) F(a_pool) F(a_div) F(a_type) F(a_pack)                                                       \
	F(s_dst) F(s_src) F(s_chan)

struct cyc_config {
#define CYC_MEMBER(name) struct rivulet_insn_##name name;
	CYC_FORMS(CYC_MEMBER)
#undef CYC_MEMBER
};

/* ---- transfers: xfer.c ---- */

/* The bytes of a LOAD or STORE in memory, and its words in their order. */
struct cyc_xfer {
	enum rivulet_xfer kind;
	int64_t offset, row_pitch, blk_pitch, ch_pitch;
	int64_t rows, cols, blks;
	int64_t lanes;	  /* channels of a word */
	int64_t elem;	  /* bytes of a channel */
	int64_t moved;	  /* BLOCK: bytes moved of each word */
	int64_t channels; /* PLANAR, INTERLEAVED: valid */
	int64_t piece;	  /* columns of a strip; 0: no strips, one FIFO */
	int64_t pieces;	  /* of a row */
	int64_t joined;	  /* BLOCK: words of a run; INTERLEAVED: pixels of a run */
	struct rivulet_insn_l_gather gather;
	struct rivulet_insn_l_bounds bounds;
};

struct cyc_run_of_bytes {
	uint64_t addr, len;
};

/* One burst; len 0: there is none. */
struct cyc_burst {
	uint64_t addr, len, beats;
	uint64_t strip;
};

/* The position in a transfer that is being cut into bursts. */
struct cyc_cursor {
	uint64_t strip, run;
	struct cyc_run_of_bytes rest; /* of the run; len 0: take the next */
};

struct cyc_word {
	int64_t blk, row, col;
};

void cyc_xfer_finish(const struct rivulet_board *b, struct cyc_xfer *x);
uint64_t cyc_xfer_strips(const struct cyc_xfer *x);
bool cyc_strip_empty(const struct cyc_xfer *x, uint64_t strip);
uint64_t cyc_xfer_words(const struct cyc_xfer *x);
struct cyc_word cyc_word_at(const struct cyc_xfer *x, uint64_t k);
uint64_t cyc_strip_of(const struct cyc_xfer *x, const struct cyc_word *w);
uint64_t cyc_word_bytes(const struct cyc_xfer *x, const struct cyc_word *w);
/* Returns the next burst and moves the cursor behind it. */
struct cyc_burst cyc_cut(const struct rivulet_board *b, const struct cyc_xfer *x,
			 struct cyc_cursor *c);

/* ---- the engines ---- */

/*
 * A burst that is in the FIFO of LOAD, or on its way to it. Bytes are counted from the start of the
 * job.
 */
struct cyc_inflow {
	uint64_t granted, addr, first, len, beats;
};

struct cyc_load_job {
	uint32_t index;
	struct cyc_xfer x;
	struct rivulet_insn_load v;
	struct rivulet_insn_l_dst dst;
	struct rivulet_insn_l_pad pad;
	int64_t rep_y, rep_x;
	uint64_t first_strip;
	uint64_t seen; /* the strip that was examined last, and whether it has no bursts */
	bool seen_empty;
	uint64_t pads; /* words of padding left */
	uint64_t pad_at;
	uint64_t words, word, copy; /* words of data; the one at hand, and the copy of it */
	uint64_t move;		    /* cycles of a word */
};

struct cyc_load {
	struct cyc_load_job job[CYC_FLIGHT];
	uint64_t started, filled; /* instructions */
	/* request */
	bool asking;
	uint64_t free_at;
	struct cyc_cursor cursor;
	struct cyc_burst burst;
	uint64_t asked_bytes, asked_strips;
	/* FIFO and row buffer */
	struct cyc_inflow *fifo;
	uint64_t fifo_size, fifo_head, fifo_tail, fifo_used, fifo_bytes;
	uint64_t strip_ready[2], strips_written, next_strip;
	/* fill */
	uint64_t filled_bytes;
	uint64_t moving; /* cycles left of a word of ACC */
};

struct cyc_leave {
	uint64_t when, bytes;
};

struct cyc_store {
	bool active;
	uint32_t index;
	struct cyc_xfer x;
	struct rivulet_insn_store v;
	struct rivulet_insn_s_src src;
	uint64_t free_at;
	/* send */
	struct cyc_cursor cursor;
	struct cyc_burst burst;
	uint64_t sent_bytes;
	struct cyc_leave *leave; /* bytes that leave the FIFO, in the order of time */
	uint64_t leave_size, leave_head, leave_tail, fifo_used, fifo_bytes;
	uint64_t strip_left[2];
	/* drain */
	uint64_t words, word, move, moving;
	uint64_t drained_bytes, drained_strips;
};

enum cyc_planes_phase { CYC_PLANES_TAP, CYC_PLANES_FOLD, CYC_PLANES_RESULTS };

/* Bit planes: what a group of pixels takes, and where it is; loop counts the cycles of the phase. */
struct cyc_planes {
	enum cyc_planes_phase phase;
	int64_t rows, first; /* of a tap; 1: a cycle before them reads the indices */
	int64_t most;	     /* pixels of a group */
	int64_t fold, parts;
	int64_t row_bits, piece_bits;
};

struct cyc_conv {
	bool active;
	bool idle; /* this cycle only reads WGT */
	int64_t loop; /* cycles of the inner loop so far */
	int64_t pixels; /* binary: of an INP word, and taps of a pass */
	uint32_t index;
	struct rivulet_insn_conv v;
	struct rivulet_insn_c_kernel k;
	struct rivulet_insn_c_input in;
	struct rivulet_insn_c_out out;
	int64_t passes;
	int64_t reads; /* of WGT in an inner loop */
	int64_t o, i, ky, kx, pass, y, x;
	int64_t turn;		  /* taps, binary: of the pixel at the banks */
	int64_t pass_of[31 * 31]; /* taps: of each tap */
	struct cyc_planes planes;
};

enum cyc_alu_phase { CYC_ALU_TABLE, CYC_ALU_PARAM, CYC_ALU_WORD };

struct cyc_write {
	enum rivulet_mem mem;
	int64_t addr;
};

struct cyc_alu {
	bool active;
	uint32_t index;
	struct rivulet_insn_alu v;
	struct rivulet_insn_a_src src;
	struct rivulet_insn_a_dst dst;
	struct rivulet_insn_a_pool pool;
	struct rivulet_insn_a_div div;
	struct rivulet_insn_a_type type;
	struct rivulet_insn_a_pack bits;
	int64_t a_words, b_words, d_words; /* of a tn-block: 2 where values are int16 */
	bool only;			   /* bits are all that is written */
	enum cyc_alu_phase phase;
	int64_t left;	      /* cycles of TABLE or PARAM */
	int64_t lanes, parts; /* channels of A's word; words of INP that hold a result */
	int64_t setup, turn, positions, reads;
	int64_t b, y, x, cycle, read; /* the result word at hand */
	struct cyc_write write[CYC_WRITES];
	uint64_t write_head, write_tail;
};

/* ---- one access to a scratchpad in a cycle ---- */

enum cyc_port_of { CYC_NONE, CYC_INP, CYC_WGT, CYC_ACC, CYC_FREE };

/*
 * The access that an engine requests. @unit is the bank of INP or the half of ACC. CYC_FREE cannot
 * conflict.
 */
struct cyc_want {
	enum cyc_port_of mem;
	uint32_t unit;
};

struct cyc_queue {
	uint32_t *list; /* the instructions of the queue, in order */
	uint32_t dispatched, started, retired;
	uint32_t token[RIVULET_QUEUES]; /* by the queue that pushed */
	uint64_t free_at;		/* CFG and SYNC occupy the engine up to this cycle */
};

struct cyc_fetch {
	uint32_t next, dispatched; /* instructions requested from memory; dispatched */
	uint64_t *arrival;	   /* of each instruction's last beat */
	uint32_t places;
	uint64_t at;
};

struct cyc_port {
	uint64_t free_at;
	uint64_t *expiry; /* of the outstanding bursts, a ring of board->bursts */
	uint64_t head, tail;
	bool store_last;
};

struct cyc_machine {
	const struct rivulet_board *board;
	struct rivulet_decoded *insn;
	struct cyc_times *times;
	uint32_t count;
	uint64_t now;
	uint64_t progress; /* the last cycle in which something happened */
	struct cyc_config config;
	struct cyc_queue queue[RIVULET_QUEUES];
	struct cyc_fetch fetch;
	struct cyc_port port;
	struct cyc_load load;
	struct cyc_conv conv;
	struct cyc_alu alu;
	struct cyc_store store;
	bool acc_conv[2]; /* the last user of the half was CONV */
	struct cyc_result *r;
};

static inline uint64_t cyc_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline int64_t cyc_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t cyc_up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static inline struct cyc_want cyc_inp(const struct cyc_machine *m, int64_t addr)
{
	return (struct cyc_want){ CYC_INP, (uint64_t)addr % m->board->dn };
}

static inline struct cyc_want cyc_acc(const struct cyc_machine *m, int64_t addr)
{
	int64_t words = m->board->acc_bytes / (4 * m->board->tm);

	return (struct cyc_want){ CYC_ACC, addr >= words / 2 };
}

static inline uint64_t cyc_acc_move(const struct rivulet_board *b)
{
	return cyc_up(4 * (int64_t)b->tm, CYC_ACC_MOVE);
}

/*
 * The functions of each engine: start takes an instruction in this cycle; asks returns whether the
 * engine requests a burst in this cycle; granted receives the burst that begins in this cycle;
 * wants returns the access of this cycle; step does the cycle's work, with or without the access.
 */
int cyc_load_init(struct cyc_machine *m);
void cyc_load_start(struct cyc_machine *m, uint32_t index);
bool cyc_load_asks(const struct cyc_machine *m);
void cyc_load_granted(struct cyc_machine *m);
struct cyc_want cyc_load_wants(struct cyc_machine *m);
void cyc_load_step(struct cyc_machine *m, bool got);

int cyc_store_init(struct cyc_machine *m);
void cyc_store_start(struct cyc_machine *m, uint32_t index);
bool cyc_store_asks(const struct cyc_machine *m);
void cyc_store_granted(struct cyc_machine *m);
struct cyc_want cyc_store_wants(struct cyc_machine *m);
void cyc_store_step(struct cyc_machine *m, bool got);

void cyc_conv_start(struct cyc_machine *m, uint32_t index);
struct cyc_want cyc_conv_wants(const struct cyc_machine *m);
uint64_t cyc_conv_banks(const struct cyc_machine *m);
bool cyc_conv_reads_weights(const struct cyc_machine *m);
void cyc_conv_step(struct cyc_machine *m);

/* planes.c: what conv.c does of a bit-plane CONV. */
void cyc_planes_start(struct cyc_machine *m);
bool cyc_planes_writes(const struct cyc_conv *c, int64_t *column);
bool cyc_planes_reads(const struct cyc_conv *c);
bool cyc_planes_looks(const struct cyc_conv *c, int64_t *column);
bool cyc_planes_step(struct cyc_conv *c);

void cyc_alu_start(struct cyc_machine *m, uint32_t index);
struct cyc_want cyc_alu_reads(const struct cyc_machine *m);
struct cyc_want cyc_alu_writes(const struct cyc_machine *m);
void cyc_alu_step(struct cyc_machine *m, bool got, bool wrote);

#endif
