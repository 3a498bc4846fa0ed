/* SPDX-License-Identifier: MIT */
/* Stages that the ALU applies to a layer's product or operand, each a record of functions. */
#ifndef RVL_EPILOGUE_H
#define RVL_EPILOGUE_H

#include "npu/stream.h"
#include "rivulet_cost.h"

#include <string.h>

/** The bits of a float, as configurations and parameters hold it. */
static inline uint32_t rvl_float_bits(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

/* One ALU instruction: what it reads and writes, in words. */
struct rvl_alu_pass {
	bool acc; /* A is in ACC, else in INP */
	int64_t a, a_row, a_blk, a_words;
	struct rvl_spad b; /* second operand */
	struct rvl_spad d; /* result */
	int64_t prm, table; /* WGT words */
	int64_t rows, cols;
	int64_t blks; /* of A's words */
	int64_t out_blks; /* of the result */
	int64_t block0; /* number of the first block of A in the layer */
	struct rvl_spad bits; /* words of bits of the tile, of channel 0 */
	struct rvl_box res, src; /* rectangle of the result, and of what A holds */
};

struct rvl_stage {
	const char *name;
	int64_t wgt_words; /* constants of the whole layer in WGT */
	/** Loads the constants to @wgt; or NULL. */
	void (*load)(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt);
	/** Writes the configuration that is the same for the whole layer. */
	void (*config)(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt);
	/** Completes the instruction and writes what depends on the rectangle. */
	void (*apply)(struct rvl_stream *s, const struct rvl_layer *l,
		      const struct rvl_alu_pass *p, struct rivulet_insn_alu *alu);
	/** Records what @op reads for this stage; or NULL. */
	void (*touch)(struct rvl_insn_op *op, const struct rvl_layer *l,
		      const struct rvl_alu_pass *p);
};

extern const struct rvl_stage rvl_stage_requantise, rvl_stage_slopes, rvl_stage_table, rvl_stage_pool,
	rvl_stage_second, rvl_stage_real, rvl_stage_narrow, rvl_stage_bits;

void rvl_epilogue_add(struct rvl_layer *l, const struct rvl_stage *stage);
/**
 * Room for @fields parameters of four bytes of each channel at A_EXT, in blocks of @lanes channels, all
 * zero, in @g's arena; false without memory.
 */
bool rvl_epilogue_params(struct rvl_graph *g, struct rvl_layer *l, int64_t fields, int64_t lanes,
			 int64_t channels);
/** Parameter @field of channel @m. */
uint32_t *rvl_epilogue_param(const struct rvl_layer *l, int64_t lanes, int64_t field, int64_t m);
bool rvl_epilogue_has(const struct rvl_layer *l, const struct rvl_stage *stage);
/** What the time of a result word depends on. */
struct rivulet_alu_stages rvl_epilogue_stages(const struct rvl_layer *l);
/** WGT words of the constants of all stages. */
int64_t rvl_epilogue_words(const struct rvl_layer *l);
/** Loads the constants of all stages to WGT word @wgt. */
void rvl_epilogue_load(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt);
/** Configures the ALU for @l, if it is configured for another layer. */
void rvl_epilogue_config(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt);
/** The ALU instruction of one rectangle. */
void rvl_epilogue_run(struct rvl_stream *s, const struct rvl_layer *l,
		      const struct rvl_alu_pass *p);

#endif
