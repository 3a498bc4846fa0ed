/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * What one instruction accesses (words of the scratchpads and bytes of a slot), and whether its
 * fields are legal. The model derives faults from it, and the static checker its proofs.
 */
#ifndef RIVULET_FOOTPRINT_H
#define RIVULET_FOOTPRINT_H

#include "rivulet_cost.h"

#define RIVULET_ACCESSES 8 /* of one instruction at most */

/**
 * struct rivulet_access - words of one scratchpad
 *
 * grps x blks x rows runs of @cols words each, at the pitches given in words. Counts are 1 or more.
 */
struct rivulet_access {
	enum rivulet_mem mem;
	bool read;
	bool write;
	uint64_t addr;
	uint64_t grps, grp_pitch;
	uint64_t blks, blk_pitch;
	uint64_t rows, row_pitch;
	uint64_t cols;
};

/**
 * struct rivulet_extent - the bytes of a slot that an instruction accesses
 *
 * All DMA is in blks x rows runs of @run bytes that begin at @first, at the pitches given in bytes.
 * Only with a mask (count below tn) does an instruction not access all bytes of a run.
 */
struct rivulet_extent {
	bool used; /* the instruction accesses memory */
	bool write;
	uint32_t slot;
	uint64_t first; /* byte offset */
	uint64_t end;	/* one past the last byte of the last run */
	uint64_t blks, blk_pitch;
	uint64_t rows, row_pitch;
	uint64_t run;
};

/** struct rivulet_footprint - everything an instruction touches */
struct rivulet_footprint {
	int count;
	struct rivulet_access access[RIVULET_ACCESSES];
	struct rivulet_extent dma;
};

/** struct rivulet_span - a half-open range of rows or columns; empty when lo >= hi */
struct rivulet_span {
	int64_t lo, hi;
};

/**
 * rivulet_taps() - hull of the positions org + i * stride + k * dilation, i < n, k < taps, inside
 * [0, bound) n and taps are 1 or more.
 */
struct rivulet_span rivulet_taps(int64_t org, int64_t n, int64_t stride, int64_t taps,
				 int64_t dilation, int64_t bound);

/** rivulet_mem_words() - words of a scratchpad */
uint32_t rivulet_mem_words(const struct rivulet_board *b, enum rivulet_mem mem);
/** rivulet_mem_word() - bytes of a word: INP tn, WGT 16, ACC 4 * tm */
uint32_t rivulet_mem_word(const struct rivulet_board *b, enum rivulet_mem mem);

/**
 * rivulet_insn_check() - whether @d is legal under configuration @c on board @b
 * Returns 0, RIVULET_FAULT_FIELD or RIVULET_FAULT_MODE. rivulet_cost_of() and
 * rivulet_footprint_of() need a legal instruction.
 */
int rivulet_insn_check(const struct rivulet_board *b, const struct rivulet_config *c,
		       const struct rivulet_decoded *d);

/**
 * rivulet_footprint_of() - what a legal instruction accesses
 * Returns 0, or RIVULET_FAULT_SPAD if a word is outside its scratchpad. @f is complete in both
 * cases.
 */
int rivulet_footprint_of(const struct rivulet_board *b, const struct rivulet_config *c,
			 const struct rivulet_decoded *d, struct rivulet_footprint *f);

#endif
