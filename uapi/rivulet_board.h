/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * A board: the description of one NPU for device model, compiler and planner. It comes from a text
 * profile (sim/boards/NAME.board: "key = value" lines, '#' comments) or from the device itself.
 */
#ifndef RIVULET_BOARD_H
#define RIVULET_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rivulet_dev.h"
#include "rivulet_sc.h"

/*
 * Scalar keys: K(key, lowest, highest, unit, meaning); every one must be given once.
 * Levels: "level = HZ MICROVOLT" lines, slowest first, 1 to 8 of them.
 */
#define RIVULET_BOARD_KEYS(K)                                                                      \
	K(tm, 1, 64, "rows", "output channels per ACC word")                                       \
	K(tn, 4, 64, "columns", "input channels per INP word; tm is a multiple of it")             \
	K(dn, 1, 64, "lanes", "multipliers per row; divides tn")                                   \
	K(inp_bytes, 1024, 1048576, "bytes", "input scratchpad")                                   \
	K(wgt_bytes, 1024, 1048576, "bytes", "weight scratchpad")                                  \
	K(acc_bytes, 1024, 1048576, "bytes", "accumulator scratchpad")                             \
	K(port_bytes, 1, 64, "bytes/cycle", "DMA port shared by all engines")                      \
	K(mem_latency, 0, 65536, "cycles", "request to first beat")                                \
	K(dma_bits, 32, 64, "bits", "width of the bus addresses that the DMA port drives")         \
	K(queue_depth, 2, 4096, "instructions", "held per queue")                                  \
	K(modes, 1, 63, "bits", "CONV modes implemented, bit n = mode n")                          \
	K(cycle_cap, 1, 1048576, "2^20 cycles", "a longer program is ENDLESS")                     \
	K(fj_per_mac, 0, 1000000, "fJ", "one int8 MAC at the highest level's voltage")             \
	K(fj_per_byte, 0, 10000000, "fJ", "one DMA byte at the highest level's voltage")           \
	K(static_uw, 0, 100000000, "uW", "leakage and clock tree at the highest level's voltage")

/*
 * Keys that determine the time of transfers and of the ALU: K(key, default, lowest, highest, unit,
 * meaning). A profile may leave them out, and a device that reports 0 has the default.
 */
#define RIVULET_BOARD_COST_KEYS(K)                                                                 \
	K(burst_bytes, 256, 256, 4096, "bytes", "longest burst of the port; a power of two")       \
	K(burst_gap, 2, 1, 64, "cycles", "port held after the beats of a burst")                   \
	K(bursts, 8, 1, 256, "bursts", "outstanding at most")                                      \
	K(row_bytes, 16384, 1024, 1048576, "bytes", "row buffer of LOAD, and another of STORE")    \
	K(alu_lanes, 8, 1, 64, "lanes", "values that the ALU takes a cycle")

/*
 * Keys of the stochastic lanes, in the order of RIVULET_REG_STREAM; required if @modes has them.
 * Per circuit: thousandths of a cycle that a lane needs for a bit of a product, and energy of that
 * bit.
 */
#define RIVULET_BOARD_STREAM_KEYS(K)                                                               \
	K(sc_lanes, 1, 65536, "lanes", "products that are made at once")                           \
	K(sc_blocks, 1, 32, "blocks", "parts of a stream that a lane makes at once")               \
	K(sc_and_bin_mcycles, 1, 1000000, "cycles/1000", "AND-BIN: one bit of a product")          \
	K(sc_and_bin_fj, 0, 1000000000, "fJ", "at the highest level's voltage")                    \
	K(sc_and_loop_mcycles, 1, 1000000, "cycles/1000", "AND-LOOP")                              \
	K(sc_and_loop_fj, 0, 1000000000, "fJ", "")                                                 \
	K(sc_and_acc_mcycles, 1, 1000000, "cycles/1000", "AND-ACC")                                \
	K(sc_and_acc_fj, 0, 1000000000, "fJ", "")                                                  \
	K(sc_and_sep_mcycles, 1, 1000000, "cycles/1000", "AND-SEP")                                \
	K(sc_and_sep_fj, 0, 1000000000, "fJ", "")                                                  \
	K(sc_ugemm_mcycles, 1, 1000000, "cycles/1000", "uGEMM")                                    \
	K(sc_ugemm_fj, 0, 1000000000, "fJ", "")                                                    \
	K(sc_xnor_mux_mcycles, 1, 1000000, "cycles/1000", "XNOR-MUX")                              \
	K(sc_xnor_mux_fj, 0, 1000000000, "fJ", "")

struct rivulet_board_level {
	uint64_t hz;
	uint32_t microvolt;
	uint32_t fj_per_mac;	/* scaled with the square of the voltage */
	uint32_t fj_per_byte;
	uint32_t static_uw;
};

#define RIVULET_BOARD_FIELD(key, lo, hi, unit, doc) uint32_t key;
#define RIVULET_BOARD_COST_INIT(key, value, lo, hi, unit, doc) .key = value, /* of a struct */
#define RIVULET_BOARD_COST_FIELD(key, value, lo, hi, unit, doc) uint32_t key;
/** struct rivulet_board - a parsed profile; plain data, no ownership */
struct rivulet_board {
	char name[32];
	RIVULET_BOARD_KEYS(RIVULET_BOARD_FIELD)
	RIVULET_BOARD_COST_KEYS(RIVULET_BOARD_COST_FIELD)
	union { /* zero without stochastic lanes */
		struct {
			RIVULET_BOARD_STREAM_KEYS(RIVULET_BOARD_FIELD)
		};
		uint32_t stream[RIVULET_STREAM_WORDS];
	};
	bool pace_real;		/* "pace = real" (default) or "pace = fast" */
	uint32_t levels;
	struct rivulet_board_level level[RIVULET_LEVELS];
};

/**
 * rivulet_board_parse() - read a profile from text
 * @name: the board's name; @origin: what to call the text in errors (a file name)
 * Returns 0, or -EINVAL with @err = "ORIGIN:LINE: what is wrong".
 */
int rivulet_board_parse(struct rivulet_board *b, const char *name, const char *origin,
			const char *text, size_t len, char *err, size_t errsize);

/**
 * rivulet_board_load() - find and read a profile
 * @which: a path when it holds a '/', else the name of NAME.board in $RIVULET_BOARD_PATH, the
 * installed directory, or the source tree's sim/boards, in that order.
 * Returns 0, -ENOENT with the names that exist in @err, or as rivulet_board_parse().
 */
int rivulet_board_load(struct rivulet_board *b, const char *which, char *err, size_t errsize);

/** rivulet_board_defaults() - give the keys of RIVULET_BOARD_COST_KEYS that are 0 their default */
void rivulet_board_defaults(struct rivulet_board *b);

/**
 * struct rivulet_resources - FPGA resources of a board's gateware, by the formulas of
 * docs/boards.md
 */
struct rivulet_resources {
	uint32_t dsp;
	uint32_t bram36; /* UltraScale+, 72 bits x 512 */
	uint32_t m10k;	 /* Cyclone V, 40 bits x 256 */
	uint32_t lut;
	uint32_t ff; /* outside of DSP and memory blocks */
};

/** rivulet_board_resources() - @b without its stochastic lanes */
struct rivulet_resources rivulet_board_resources(const struct rivulet_board *b);

/** rivulet_board_peak() - multiplications per cycle, dense: tm x dn */
uint32_t rivulet_board_peak(const struct rivulet_board *b);

/** rivulet_board_mcycles(), rivulet_board_bit_fj() - one bit of a product by a circuit of rivulet_sc.h */
static inline uint32_t rivulet_board_mcycles(const struct rivulet_board *b, uint32_t circuit)
{
	return b->stream[2 + 2 * circuit];
}

static inline uint32_t rivulet_board_bit_fj(const struct rivulet_board *b, uint32_t circuit)
{
	return b->stream[3 + 2 * circuit];
}

/** struct rivulet_work - the work of a job as energy and reports count it */
struct rivulet_work {
	uint64_t macs;	/* int8 and binary products */
	uint64_t bytes;	/* DMA, both ways */
	uint64_t cycles;
	uint64_t sparse_macs;	/* of these, by (value, index) pairs or by tap lanes */
	uint64_t binary_macs;	/* of these, of one bit by one bit */
	uint64_t plane_macs;	/* of these, by bit planes */
	uint64_t plane_adds;	/* the additions of those */
	uint64_t stream_macs;	/* stochastic products */
	uint64_t stream_fj;	/* their energy at the highest level's voltage */
};

/**
 * rivulet_dense_fj(), rivulet_sparse_fj(), rivulet_binary_fj(), rivulet_planes_fj(),
 * rivulet_stream_fj() - energy of the dense int8, of the sparse int8, of the binary, of the bit-plane
 * and of the stochastic products of @w at one level, femtojoule
 */
double rivulet_dense_fj(const struct rivulet_board *b, uint32_t level,
			const struct rivulet_work *w);
double rivulet_sparse_fj(const struct rivulet_board *b, uint32_t level,
			 const struct rivulet_work *w);
double rivulet_binary_fj(const struct rivulet_board *b, uint32_t level,
			 const struct rivulet_work *w);
double rivulet_planes_fj(const struct rivulet_board *b, uint32_t level,
			 const struct rivulet_work *w);
double rivulet_stream_fj(const struct rivulet_board *b, uint32_t level,
			 const struct rivulet_work *w);
/** rivulet_job_pj() - picojoule of @w: transfers, static power, and products of @products_fj */
uint64_t rivulet_job_pj(const struct rivulet_board *b, uint32_t level,
			const struct rivulet_work *w, double products_fj);
/** rivulet_board_energy_pj() - dynamic and static energy of a job at one level, picojoule */
uint64_t rivulet_board_energy_pj(const struct rivulet_board *b, uint32_t level,
				 const struct rivulet_work *w);

#endif
