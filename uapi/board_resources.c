// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/*
 * The FPGA resources that a board's gateware needs, by the formulas of docs/boards.md, section 5.
 */
#include "rivulet_board.h"
#include "rivulet_binary_conv.h"
#include "rivulet_isa.h"
#include "rivulet_planes.h"
#include "rivulet_sparse.h"

#define DSP_PER_LANE 6	 /* of the ALU */
#define LUT_PER_LANE 600
#define LUT_PER_BINARY_LANE 200 /* more, for int16, parameters per channel and bits */
#define LUT_PER_DSP  350 /* of a multiplier that is none */
#define LUT_FIXED    9500 /* queues, decoder, three address generators with region checks, registers */

static uint32_t div_up(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

/* Memory blocks of @width x @depth bits for @n memories of @bytes bytes in words of @word bytes. */
static uint32_t blocks(uint32_t n, uint32_t word, uint32_t bytes, uint32_t width, uint32_t depth)
{
	return n * div_up(8 * word, width) * div_up(bytes / word, depth);
}

/* INP in banks, ACC in halves, and the FIFOs of LOAD and STORE. */
static uint32_t wide_blocks(const struct rivulet_board *b, uint32_t width, uint32_t depth)
{
	return blocks(b->dn, b->tn, b->inp_bytes / b->dn, width, depth) +
	       blocks(2, 4 * b->tm, b->acc_bytes / 2, width, depth) +
	       blocks(2, b->port_bytes, b->bursts * b->burst_bytes, width, depth);
}

/*
 * WGT in tm banks of dn bytes. A pass reads one word of each bank; a word of LOAD is in tn / dn of
 * them.
 */
static uint32_t weight_blocks(const struct rivulet_board *b, uint32_t width, uint32_t depth)
{
	return blocks(b->tm, b->dn, b->wgt_bytes / b->tm, width, depth);
}

static bool has(const struct rivulet_board *b, enum rivulet_mode mode)
{
	return b->modes >> mode & 1;
}

/*
 * A bit of a multiplexer of @n inputs. Four inputs are a LUT, up to 16 are combined without further
 * LUTs; above, another LUT combines up to four of those.
 */
static uint32_t multiplexer(uint32_t n)
{
	return div_up(n, 4) + (n > 16 ? div_up(n, 64) : 0);
}

/* The operand of each multiplier is one of tn bytes. */
static uint32_t operands(const struct rivulet_board *b)
{
	return b->tm * b->dn * 8 * multiplexer(b->tn);
}

/* Each lane takes the word of one bank, and each row the byte of its channel. */
static uint32_t tap_lanes(const struct rivulet_board *b)
{
	uint32_t banks = 8 * b->tn * b->dn * multiplexer(b->dn) + 64 * b->dn;
	struct rivulet_sparse s = rivulet_sparse_of(b, b->dn);

	if (!has(b, RIVULET_MODE_TAPS))
		return 0;
	return banks + (has(b, RIVULET_MODE_SPARSE) ? b->tm * b->dn * s.bits : operands(b));
}

/*
 * Two LUTs for each one-bit product, for XNOR, mask and adder tree. Each of the lanes takes the word
 * of one of dn banks and has an address of its own.
 */
static uint32_t binary(const struct rivulet_board *b)
{
	uint32_t products = 2 * b->tm * 8 * b->tn;

	if (!has(b, RIVULET_MODE_BINARY))
		return 0;
	return products + LUT_PER_BINARY_LANE * b->alu_lanes + RIVULET_BINARY_LANES * (8 * b->tn * multiplexer(b->dn) + 64) +
	       8 * b->tn * multiplexer(RIVULET_BINARY_LANES);
}

#define BUCKET_LUTS    160 /* of an engine: adder, forwarding of two sums, operands, control */
#define BUCKET_OPTIONS 21  /* pairs of the bits of a weight and the columns of a slice */
#define ROW_SOURCES    15  /* of a bit: shifts by the bits of 1 to 8 planes, 7 places of a piece */

/*
 * The bits of the rows, out of the pieces that WGT delivers: a piece and a row, shifted by a row in
 * a cycle. A row of p planes leaves up to p - 1 of 7 rests behind which the next piece begins.
 */
static uint32_t rows_of_pieces(const struct rivulet_board *b)
{
	return 8 * b->tm * (b->dn + 1) * multiplexer(ROW_SOURCES);
}

/*
 * Engines with their bits and their input, the inputs of the pixels, and on the way to ACC a chain
 * of the pixels' parts and for each kernel a choice, a shift and an adder.
 */
static uint32_t buckets(const struct rivulet_board *b)
{
	uint32_t pixels = RIVULET_PLANES_MORE * b->dn, steps = 1;

	if (!has(b, RIVULET_MODE_BITPLANE))
		return 0;
	while (pixels >> steps)
		steps++; /* powers of two up to @pixels */
	return b->tm * b->dn * (BUCKET_LUTS + 8 * multiplexer(BUCKET_OPTIONS) + 8 * multiplexer(steps) + 32) +
	       8 * pixels * multiplexer(b->tn) + rows_of_pieces(b) +
	       32 * b->tm * (multiplexer(4) + multiplexer(8) + 1);
}

/* Whether the board has the array of multipliers, its adders and accumulators. */
static bool has_array(const struct rivulet_board *b)
{
	return b->modes != 1 << RIVULET_MODE_BITPLANE;
}

static uint32_t lane_luts(const struct rivulet_board *b)
{
	return LUT_PER_LANE + (has_array(b) ? 0 : DSP_PER_LANE * LUT_PER_DSP);
}

static uint32_t luts(const struct rivulet_board *b)
{
	uint32_t rows = has_array(b) ? b->tm * (18 * (b->dn - 1) + 96) : 0; /* adder tree, accumulator, forwarding */
	uint32_t rotate = 8 * b->tm * b->dn;		 /* of the WGT banks */
	uint32_t row_buffers = 2 * (b->row_bytes / 6 + 40 * b->tn);

	uint32_t sparse = has(b, RIVULET_MODE_SPARSE) ? operands(b) : 0;

	return rows + sparse + tap_lanes(b) + binary(b) + buckets(b) + lane_luts(b) * b->alu_lanes + rotate + row_buffers +
	       LUT_FIXED;
}

/* ---- flip-flops ---- */

#define FF_PER_DSP 100 /* of a multiplier that is none; those of a DSP block are in it */
#define ENGINE_FF  144 /* the last two sums, the bucket, the column's sum, input and bits */

/* Weights of a pass, adder tree, accumulator and the last two sums of the rows, and the word of INP. */
static uint32_t array_ffs(const struct rivulet_board *b)
{
	uint32_t ffs = b->tm * (8 * b->dn + 18 * (b->dn - 1) + 96) + 8 * b->tn;

	if (has(b, RIVULET_MODE_SPARSE))
		ffs += b->tm * b->dn * rivulet_sparse_of(b, b->dn).bits;
	if (has(b, RIVULET_MODE_TAPS))
		ffs += b->dn * (8 * b->tn + 32);
	if (has(b, RIVULET_MODE_BINARY))
		ffs += 8 * b->tm * (b->tn - b->dn) + RIVULET_BINARY_LANES * (8 * b->tn + 32) +
		       LUT_PER_BINARY_LANE * b->alu_lanes;
	return has_array(b) ? ffs : 0;
}

/* Engines, a piece and a row of bits, bytes of the pixels, the chain to ACC, and results of kernels. */
static uint32_t bucket_ffs(const struct rivulet_board *b)
{
	if (!has(b, RIVULET_MODE_BITPLANE))
		return 0;
	return b->tm * b->dn * (ENGINE_FF + 32) + 8 * b->tm * (b->dn + 1) +
	       8 * RIVULET_PLANES_MORE * b->dn + 32 * b->tm;
}

/* ALU, decoder and the rest have one behind each LUT. */
static uint32_t flip_flops(const struct rivulet_board *b)
{
	uint32_t lane = LUT_PER_LANE + (has_array(b) ? 0 : DSP_PER_LANE * FF_PER_DSP);

	return array_ffs(b) + bucket_ffs(b) + lane * b->alu_lanes + 2 * 40 * b->tn + LUT_FIXED;
}

/* Of 2^8 words of 32 bits, one for each engine. */
static uint32_t bucket_memories(const struct rivulet_board *b)
{
	return has(b, RIVULET_MODE_BITPLANE) ? b->tm * b->dn : 0;
}

struct rivulet_resources rivulet_board_resources(const struct rivulet_board *b)
{
	return (struct rivulet_resources){
		.dsp = has_array(b) ? b->tm * b->dn + DSP_PER_LANE * b->alu_lanes : 0,
		/* a bank of WGT and a bucket memory use halves of block RAMs, 36 bits x 512 */
		.bram36 = wide_blocks(b, 72, 512) +
			  div_up(weight_blocks(b, 36, 512) + bucket_memories(b), 2),
		.m10k = wide_blocks(b, 40, 256) + weight_blocks(b, 40, 256) + bucket_memories(b),
		.lut = luts(b),
		.ff = flip_flops(b),
	};
}
