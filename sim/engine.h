/* SPDX-License-Identifier: MIT */
/* What the engines of the compute core share. */
#ifndef RVL_SIM_ENGINE_H
#define RVL_SIM_ENGINE_H

#include "core.h"
#include "rivulet_cost.h"
#include "rivulet_footprint.h"

#define RVL_ABORTED (-1) /* returned by an engine beside 0 and enum rivulet_fault */

/** struct rvl_prof_target - where a queue's PROF records go */
struct rvl_prof_target {
	uint32_t slot;
	uint64_t offset;
	uint64_t limit;
};

/* Places of the records of instructions that have started and not ended. */
struct rvl_prof_ring {
	struct rvl_prof_target place[RIVULET_FLIGHT];
	uint32_t head, count;
};

/**
 * struct rvl_core - scratchpads and the job in progress
 * @row: one line of bytes on its way between memory and a scratchpad, RVL_ROW_BYTES
 * @conv: working memory of the vector convolution, NULL until it first runs
 * @sc: tables of the stochastic lanes, NULL until they first run
 * @run: the state of the program
 */
struct rvl_core {
	const struct rivulet_board *board;
	uint8_t *inp;
	uint8_t *wgt;
	int32_t *acc;
	uint8_t *row;
	void *conv;
	struct rvl_sc *sc;
	struct rvl_run *run;
	struct rvl_regions *regions;
	const atomic_bool *abort;
	struct rvl_prof_target prof[RIVULET_QUEUES];
	struct rvl_prof_ring reserved[RIVULET_QUEUES];
};

#define RVL_ROW_BYTES                                                                              \
	(16384u * 64u) /* the longest row of INP words: 14 bits of columns, tn <= 64 */

static inline bool rvl_core_aborted(const struct rvl_core *c)
{
	return c->abort && atomic_load_explicit(c->abort, memory_order_relaxed);
}

/*
 * The engines. The instruction is legal and all its scratchpad words exist (rivulet_insn_check(),
 * rivulet_footprint_of()). Return 0, an enum rivulet_fault with regions->bad set, or RVL_ABORTED.
 */
int rvl_load(struct rvl_core *c, const struct rivulet_config *cfg,
	     const struct rivulet_insn_load *l);
int rvl_conv(struct rvl_core *c, const struct rivulet_config *cfg,
	     const struct rivulet_insn_conv *v);
/** rvl_conv_stochastic() - the stochastic lanes; FAULT_INTERNAL without memory for their tables */
int rvl_conv_stochastic(struct rvl_core *c, const struct rivulet_config *cfg,
			const struct rivulet_insn_conv *v);
int rvl_alu(struct rvl_core *c, const struct rivulet_config *cfg, const struct rivulet_insn_alu *a);
int rvl_store(struct rvl_core *c, const struct rivulet_config *cfg,
	      const struct rivulet_insn_store *s);

/** rvl_conv_row() - words from a block's first to row @y of the tile, or -1 outside the bounds */
static inline int64_t rvl_conv_row(const struct rivulet_insn_c_input *in, int64_t y)
{
	if (y < 0 || y >= in->rows)
		return -1;
	return (in->wrap ? (in->phase + y) % in->wrap : y) * in->row_pitch;
}

/** enum rvl_simd - instruction sets of the host that the vector convolution can use */
enum rvl_simd { RVL_SIMD_NONE, RVL_SIMD_AVX2, RVL_SIMD_VNNI };
/** rvl_conv_force() - use at most this from now on, for tests; returns what will really be used */
enum rvl_simd rvl_conv_force(enum rvl_simd most);

#endif
