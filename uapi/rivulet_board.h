/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * A board: everything that model, compiler and planner must know of one NPU instance. It comes from
 * a text profile (sim/boards/NAME.board: "key = value" lines, '#' comments) or from the device itself.
 */
#ifndef RIVULET_BOARD_H
#define RIVULET_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rivulet_dev.h"

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
	K(queue_depth, 2, 4096, "instructions", "held per queue")                                  \
	K(modes, 1, 31, "bits", "CONV modes implemented, bit n = mode n")                          \
	K(cycle_cap, 1, 1048576, "2^20 cycles", "a longer program is ENDLESS")                     \
	K(fj_per_mac, 0, 1000000, "fJ", "one int8 MAC at the highest level's voltage")             \
	K(fj_per_byte, 0, 10000000, "fJ", "one DMA byte at the highest level's voltage")           \
	K(static_uw, 0, 100000000, "uW", "leakage and clock tree at the highest level's voltage")

struct rivulet_board_level {
	uint64_t hz;
	uint32_t microvolt;
	uint32_t fj_per_mac;	/* scaled with the square of the voltage */
	uint32_t fj_per_byte;
	uint32_t static_uw;
};

#define RIVULET_BOARD_FIELD(key, lo, hi, unit, doc) uint32_t key;
/** struct rivulet_board - a parsed profile; plain data, no ownership */
struct rivulet_board {
	char name[32];
	RIVULET_BOARD_KEYS(RIVULET_BOARD_FIELD)
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

/** rivulet_board_peak() - multiplications per cycle, dense: tm x dn */
uint32_t rivulet_board_peak(const struct rivulet_board *b);

/** rivulet_board_energy_pj() - dynamic and static energy of a job at one level, picojoule */
uint64_t rivulet_board_energy_pj(const struct rivulet_board_level *l, uint64_t macs,
				 uint64_t bytes, uint64_t cycles);

#endif
