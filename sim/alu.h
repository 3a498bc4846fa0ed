/* SPDX-License-Identifier: MIT */
/* What the files of the ALU engine share. */
#ifndef RVL_SIM_ALU_H
#define RVL_SIM_ALU_H

#include "engine.h"

#define RVL_ALU_LANES 64 /* tm and tn at most */

/* One ALU instruction with its configuration in the types of the arithmetic. */
struct rvl_alu_unit {
	struct rvl_core *c;
	const struct rivulet_config *cfg;
	const struct rivulet_insn_alu *a;
	struct rivulet_alu_words words;
	uint32_t lanes; /* channels of an A word */
	uint32_t tn;
	const uint8_t *lut; /* NULL: no stage 2 */
	float ra, rb, bias; /* A_SCALE */
	float mult;	    /* A_DIV */
	float lo, hi;	    /* A_SUM */
};

/** rvl_alu_quantise() - rint(clamp(@v, @lo - @zp, @hi - @zp)) + @zp; the upper bound is applied last */
int32_t rvl_alu_quantise(float v, int64_t zp, int64_t lo, int64_t hi);

/** rvl_alu_operand() - the values of A at (@y, @x) of block @blk, which are @lanes */
void rvl_alu_operand(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x, int32_t *v);

/**
 * rvl_alu_param() - parameter number @field of four bytes of each channel, one after the other
 * @addr: WGT word of the parameters of block 0
 * @per: words of a block
 */
const uint8_t *rvl_alu_param(const struct rvl_alu_unit *u, uint64_t addr, uint64_t per, uint64_t blk,
			     uint32_t field);

/** rvl_alu_real() - the result and the bits of a place by an instruction with `real` */
void rvl_alu_real(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x);

/** rvl_alu_bits() - writes the bits of @lanes channels */
void rvl_alu_bits(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x, const int32_t *v);

#endif
