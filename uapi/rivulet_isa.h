/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The instruction set of the Rivulet NPU: 128-bit little-endian instructions in four concurrent
 * queues that meet through counting tokens. Each form is one table of fields below; the C structs,
 * the packer, the unpacker, the assembler, the disassembler and docs/isa.md come from these tables.
 * Memory is named as (slot, byte offset) only; scratchpads are flat and addressed in words:
 * INP tn bytes, WGT 16 bytes, ACC tm int32.
 */
#ifndef RIVULET_ISA_H
#define RIVULET_ISA_H

#include <stddef.h>
#include <stdint.h>

#define RIVULET_ISA_VERSION	1u
#define RIVULET_INSN_BYTES	16u
#define RIVULET_WGT_WORD	16u

/* O(NAME, value, meaning) */
#define RIVULET_ISA_OPS(O)                                                                         \
	O(LOAD, 1, "memory to scratchpad")                                                         \
	O(CONV, 2, "the tm x tn array: scratchpads to accumulators")                               \
	O(ALU, 3, "requantise, table, pool, add or multiply, pack: ACC or INP to INP")             \
	O(STORE, 4, "scratchpad to memory")                                                        \
	O(CFG, 5, "set configuration of the queue it is in")                                       \
	O(SYNC, 6, "tokens without work; END of the program")

#define RIVULET_ISA_OP_ENUM(name, value, doc) RIVULET_OP_##name = (value),
enum rivulet_op { RIVULET_ISA_OPS(RIVULET_ISA_OP_ENUM) };

enum rivulet_queue { RIVULET_Q_LOAD, RIVULET_Q_CONV, RIVULET_Q_ALU, RIVULET_Q_STORE, RIVULET_QUEUES };
enum rivulet_mem { RIVULET_MEM_INP, RIVULET_MEM_WGT, RIVULET_MEM_ACC, RIVULET_MEMS };
enum rivulet_sync_kind { RIVULET_SYNC_NOP, RIVULET_SYNC_END };

/* Data movement of LOAD and STORE: layout in memory; the scratchpad side is always words. */
enum rivulet_xfer {
	RIVULET_XFER_BLOCK,	/* words as in the scratchpad: blks x rows x cols words */
	RIVULET_XFER_PLANAR,	/* NCHW: one element per channel plane at ch_pitch */
	RIVULET_XFER_INTERLEAVED,	/* NHWC: channels adjacent, ch_pitch bytes between pixels */
	RIVULET_XFER_GATHER,	/* LOAD only: NCHW patches, channels = c x kh x kw (few-channel convolution) */
	RIVULET_XFERS
};

enum rivulet_mode {
	RIVULET_MODE_DENSE,	/* int8 x int8 -> int32 */
	RIVULET_MODE_SPARSE,	/* int8, (value, index) pairs of each row and tn-block */
	RIVULET_MODE_BINARY,	/* +-1 x +-1, XNOR-popcount */
	RIVULET_MODE_BITPLANE,	/* weights as 0/1 planes, a columns at a time */
	RIVULET_MODE_STOCHASTIC,	/* sign-magnitude bitstreams; the length comes from C_MODE of the variant */
	RIVULET_MODE_TAPS,	/* int8, depthwise: dn taps of a channel at once */
	RIVULET_MODES
};

enum rivulet_pool {
	RIVULET_POOL_NONE,
	RIVULET_POOL_MAX,
	RIVULET_POOL_AVG_FIXED,	/* sum x mult */
	RIVULET_POOL_AVG_BORDER,	/* sum x (mult / positions inside the divisor rectangle) */
};

/*
 * Stage 4 on v = the result of the stages before, and b. All three end in: clamp to [lo - zp, hi - zp] as a
 * float, round half to even, + zp. az, bz = -128 and zp = -128 compute on the raw bytes of uint8 tensors,
 * which docs/numerics.md 2 and 3 demand.
 */
enum rivulet_bin {
	RIVULET_BIN_NONE,
	RIVULET_BIN_ADD,	/* fma(v - az, ra, fma(b - bz, rb, c)) */
	RIVULET_BIN_MUL,	/* float((v - az) * (b - bz)) * ra + c, each rounded */
	RIVULET_BIN_ADD_REV,	/* fma(b - bz, rb, fma(v - az, ra, c)): A is the graph's second operand */
};

/*
 * Fields: F(name, low bit, width, signed, meaning). Bits of no field are reserved: zero and checked.
 * Every instruction starts with the header.
 */
#define RIVULET_ISA_HEADER(F)                                                                      \
	F(op, 0, 4, 0, "enum rivulet_op")                                                          \
	F(queue, 4, 2, 0, "enum rivulet_queue; LOAD, CONV, ALU, STORE only in their own")          \
	F(pop, 6, 4, 0, "bit q: wait for and take a token pushed by queue q; own bit zero")        \
	F(push, 10, 4, 0, "bit q: when done, give queue q a token; own bit zero")                  \
	F(prof, 14, 1, 0, "append a PROF record when done")

#define RIVULET_ISA_LOAD(F)                                                                        \
	F(mem, 16, 2, 0, "destination, enum rivulet_mem")                                          \
	F(addr, 18, 16, 0, "destination word")                                                     \
	F(slot, 34, 4, 0, "region slot of the source")                                             \
	F(kind, 38, 3, 0, "enum rivulet_xfer; WGT and ACC take BLOCK only")                        \
	F(flip, 41, 1, 0, "XOR every byte with 0x80: uint8 <-> int8; INP only")                    \
	F(offset, 42, 36, 0, "byte offset of the first element in the slot")                       \
	F(rows, 78, 12, 0, "rows, 1 or more")                                                      \
	F(cols, 90, 14, 0, "words per row, 1 or more")                                             \
	F(blks, 104, 12, 0, "channel blocks, 1 or more")

#define RIVULET_ISA_STORE(F)                                                                       \
	F(mem, 16, 2, 0, "source, INP or ACC")                                                     \
	F(addr, 18, 16, 0, "source word")                                                          \
	F(slot, 34, 4, 0, "region slot of the destination")                                        \
	F(kind, 38, 3, 0, "enum rivulet_xfer, not GATHER; elements are int8 from INP, int32 from ACC") \
	F(flip, 41, 1, 0, "XOR every byte with 0x80; INP only")                                    \
	F(offset, 42, 36, 0, "byte offset of the first element in the slot")                       \
	F(rows, 78, 12, 0, "rows, 1 or more")                                                      \
	F(cols, 90, 14, 0, "words per row, 1 or more")                                             \
	F(blks, 104, 12, 0, "channel blocks, 1 or more")

#define RIVULET_ISA_CONV(F)                                                                        \
	F(mode, 16, 3, 0, "enum rivulet_mode")                                                     \
	F(keep, 19, 1, 0, "1: add to the accumulators; 0: start from zero")                        \
	F(inp, 20, 16, 0, "INP word of tile row 0, column 0, block 0")                             \
	F(wgt, 36, 16, 0, "WGT word of the first weight block")                                    \
	F(acc, 52, 16, 0, "ACC word of the first output")                                          \
	F(rows, 68, 12, 0, "output rows, 1 or more")                                               \
	F(cols, 80, 12, 0, "output columns, 1 or more")                                            \
	F(icb, 92, 12, 0, "input channel blocks (tn each), 1 or more")                             \
	F(ocb, 104, 10, 0, "output channel blocks (tm each), 1 or more")

#define RIVULET_ISA_ALU(F)                                                                         \
	F(src, 16, 1, 0, "operand A: 0 INP (int8), 1 ACC (int32)")                                 \
	F(dst, 17, 1, 0, "0 INP (int8), 1 ACC (int32, no rounding stages)")                        \
	F(a, 18, 16, 0, "word of operand A")                                                       \
	F(b, 34, 16, 0, "INP word of operand B; zero without bin")                                 \
	F(d, 50, 16, 0, "destination word")                                                        \
	F(prm, 66, 16, 0, "WGT word of {bias, float mult} per channel, bias int32 or with real float; zero without both")     \
	F(rows, 82, 12, 0, "output rows, 1 or more")                                               \
	F(cols, 94, 12, 0, "output columns, 1 or more")                                            \
	F(blks, 106, 10, 0, "blocks of A: tm channels each from ACC, tn from INP")                 \
	F(rq, 116, 1, 0, "stage 1: requantise A to int8 by prm and A_RQ; required from ACC to INP") \
	F(lut, 117, 1, 0, "stage 2: 256-byte table at A_LUT")                                      \
	F(pool, 118, 2, 0, "stage 3: enum rivulet_pool with A_POOL, A_DIV")                        \
	F(bin, 120, 2, 0, "stage 4: enum rivulet_bin with operand B, A_SCALE, A_OUT")              \
	F(pack, 122, 1, 0, "stage 5: bits of the results by A_PACK, 8 channels a byte")            \
	F(real, 123, 1, 0, "scale, bias and B in float32, rounded once, by A_TYPE; without stages 1 to 4") \
	F(slope, 124, 1, 0, "stage 1: factors per channel below and above a zero point, by A_SLOPE, A_EXT")

#define RIVULET_ISA_SYNC(F)                                                                        \
	F(kind, 16, 2, 0, "enum rivulet_sync_kind; END drains all queues, is last, pops and pushes nothing")

/* CFG: payload from bit 32. The index implies the queue, but for Q_TAG and Q_PROF. */
#define RIVULET_ISA_CFG_INDEX(F) F(index, 16, 6, 0, "configuration index")

#define RIVULET_CFG_L_SRC(F)                                                                       \
	F(row_pitch, 32, 32, 0, "bytes between source rows")                                       \
	F(blk_pitch, 64, 32, 0, "bytes between source channel blocks (PLANAR, GATHER: ignored)")   \
	F(ch_pitch, 96, 32, 0, "PLANAR, GATHER: bytes between channel planes; INTERLEAVED: between pixels")
#define RIVULET_CFG_L_DST(F)                                                                       \
	F(row_pitch, 32, 16, 0, "words between destination rows")                                  \
	F(blk_pitch, 48, 16, 0, "words between destination channel blocks")
#define RIVULET_CFG_L_CHAN(F)                                                                      \
	F(channels, 32, 16, 0, "PLANAR, INTERLEAVED: valid channels over all blocks; the rest is filled") \
	F(src_ch, 48, 5, 0, "BLOCK to INP: first byte taken of each source word")                  \
	F(dst_ch, 53, 5, 0, "BLOCK to INP: first byte written of each destination word")           \
	F(count, 58, 6, 0, "BLOCK to INP: bytes moved per word; 0 means all tn")                   \
	F(rep_x, 64, 5, 0, "replicate each pixel so many more times along x")                      \
	F(rep_y, 69, 5, 0, "and along y")                                                          \
	F(fill, 80, 8, 1, "value of padding and of channels past the last, after flip")
#define RIVULET_CFG_L_PAD(F)                                                                       \
	F(top, 32, 8, 0, "rows of fill above, INP only")                                           \
	F(bottom, 40, 8, 0, "rows of fill below")                                                  \
	F(left, 48, 8, 0, "columns of fill before")                                                \
	F(right, 56, 8, 0, "columns of fill after")
#define RIVULET_CFG_L_GATHER(F)                                                                    \
	F(kh, 32, 5, 0, "patch height")                                                            \
	F(kw, 37, 5, 0, "patch width")                                                             \
	F(sy, 42, 5, 0, "vertical stride")                                                         \
	F(sx, 47, 5, 0, "horizontal stride")                                                       \
	F(dy, 52, 6, 0, "vertical dilation")                                                       \
	F(dx, 58, 6, 0, "horizontal dilation")                                                     \
	F(ch, 64, 8, 0, "input channels; patch channel = (c * kh + ky) * kw + kx")                 \
	F(pixel, 72, 4, 0, "NHWC source: bytes between pixels; 0: planes at ch_pitch")
#define RIVULET_CFG_L_BOUNDS(F)                                                                    \
	F(org_y, 32, 16, 1, "input row of output row 0, tap 0")                                    \
	F(org_x, 48, 16, 1, "input column of output column 0, tap 0")                              \
	F(rows, 64, 16, 0, "rows of the source plane; outside is fill")                            \
	F(cols, 80, 16, 0, "columns of the source plane")

#define RIVULET_CFG_C_KERNEL(F)                                                                    \
	F(kh, 32, 5, 0, "kernel height, 1..31")                                                    \
	F(kw, 37, 5, 0, "kernel width, 1..31")                                                     \
	F(sy, 42, 5, 0, "vertical stride, 1..31")                                                  \
	F(sx, 47, 5, 0, "horizontal stride, 1..31")                                                \
	F(dy, 52, 6, 0, "vertical dilation, 1..63")                                                \
	F(dx, 58, 6, 0, "horizontal dilation, 1..63")                                              \
	F(org_y, 64, 16, 1, "tile row of output row 0, tap 0 (negative: padding)")                 \
	F(org_x, 80, 16, 1, "tile column of output column 0, tap 0")
#define RIVULET_CFG_C_INPUT(F)                                                                     \
	F(row_pitch, 32, 16, 0, "INP words between tile rows")                                     \
	F(blk_pitch, 48, 16, 0, "INP words between channel blocks")                                \
	F(rows, 64, 16, 0, "rows of the tile: outside [0, rows) the pad value is read")            \
	F(cols, 80, 16, 0, "columns of the tile")                                                  \
	F(wrap, 96, 16, 0, "rolling buffer: rows in the ring, tile row r lives in ring row (phase + r) mod wrap; 0: none") \
	F(phase, 112, 16, 0, "ring row of tile row 0")
#define RIVULET_CFG_C_PAD(F)                                                                       \
	F(value, 32, 8, 1, "value of positions outside the tile bounds")
#define RIVULET_CFG_C_OUT(F)                                                                       \
	F(row_pitch, 32, 16, 0, "ACC words between output rows")                                   \
	F(blk_pitch, 48, 16, 0, "ACC words between output channel blocks")                         \
	F(wgt_oc_pitch, 64, 24, 0, "WGT words between output channel blocks")                      \
	F(wgt_ic_pitch, 88, 24, 0, "WGT words between input channel blocks; taps are adjacent")    \
	F(inp_oc_pitch, 112, 16, 0, "INP words the input advances per output block (grouped, depthwise)")
#define RIVULET_CFG_C_MODE(F)                                                                      \
	F(wfmt, 32, 4, 0, "weight format; 0: that of the mode")                            \
	F(dn, 36, 6, 0, "sparse: pairs kept of each row of a block; bit-plane: rows kept of a block; 1..tn")                             \
	F(mult, 42, 8, 0, "taps: output channels of an input channel; 0: 1")                       \
	F(lanes, 50, 2, 0, "binary: log2 of the taps of a pass and of the pixels of an INP word, 0..2") \
	F(planes, 53, 4, 0, "bit-plane: weight bits, 1..8")                                        \
	F(group, 57, 4, 0, "bit-plane: columns of a slice, 1..8")                                       \
	F(circuit, 61, 3, 0, "stochastic: enum rivulet_sc_circuit")                                \
	F(length, 64, 9, 0, "stochastic: bitstream length 8..256")                                 \
	F(valid, 73, 16, 0, "binary, stochastic: valid input channels; 0: all (binary: from `first` on)")                    \
	F(border, 89, 1, 0, "binary: taps outside the bounds contribute nothing")                  \
	F(out, 90, 14, 0, "stochastic: valid output channels; 0: all")                             \
	F(scale, 104, 5, 0, "stochastic: log2 of the adder's scale S, 0..20")                      \
	F(first, 109, 14, 0, "taps: output channel of row 0, below mult * tn; binary: first valid input channel")

#define RIVULET_CFG_A_SRC(F)                                                                       \
	F(a_row, 32, 16, 0, "words between rows of A")                                             \
	F(a_blk, 48, 16, 0, "words between blocks of A")                                           \
	F(b_row, 64, 16, 0, "words between rows of B")                                             \
	F(b_blk, 80, 16, 0, "words between blocks (tn) of B")
#define RIVULET_CFG_A_DST(F)                                                                       \
	F(row, 32, 16, 0, "words between destination rows")                                        \
	F(blk, 48, 16, 0, "words between destination blocks")
#define RIVULET_CFG_A_RQ(F)                                                                        \
	F(zp, 32, 8, 1, "stage 1: zero point added after rounding")                                \
	F(lo, 40, 8, 1, "stage 1: lowest result")                                                  \
	F(hi, 48, 8, 1, "stage 1: highest result")                                                 \
	F(length, 56, 9, 0, "stage 1: A is of streams of so many bits, parameters of int8 products; 0: both int8")
#define RIVULET_CFG_A_SCALE(F)                                                                     \
	F(ra, 32, 32, 0, "ADD: float factor of A; MUL: of the product")                            \
	F(rb, 64, 32, 0, "ADD: float factor of B")                                                 \
	F(c, 96, 32, 0, "ADD, MUL: float constant added before rounding")
#define RIVULET_CFG_A_OUT(F)                                                                       \
	F(zp, 32, 8, 1, "average pool, ADD, MUL: added after rounding")                            \
	F(lo, 40, 8, 1, "average pool, ADD, MUL: lowest result")                                   \
	F(hi, 48, 8, 1, "highest result")                                                          \
	F(az, 56, 8, 1, "ADD, MUL: taken off A")                                                    \
	F(bz, 64, 8, 1, "ADD, MUL: taken off B")
#define RIVULET_CFG_A_POOL(F)                                                                      \
	F(kh, 32, 8, 0, "window height, 1..255")                                                   \
	F(kw, 40, 8, 0, "window width, 1..255")                                                    \
	F(sy, 48, 8, 0, "vertical stride, 1..255")                                                 \
	F(sx, 56, 8, 0, "horizontal stride, 1..255")                                               \
	F(org_y, 64, 16, 1, "source row of output row 0, tap 0 (negative: outside)")               \
	F(org_x, 80, 16, 1, "source column of output column 0, tap 0")                             \
	F(rows, 96, 16, 0, "source rows; positions outside are skipped")                           \
	F(cols, 112, 16, 0, "source columns")
#define RIVULET_CFG_A_DIV(F)                                                                       \
	F(mult, 32, 32, 0, "average: float factor of the sum")                                     \
	F(zp, 64, 8, 1, "average: zero point subtracted from each position")                       \
	F(dy, 72, 5, 0, "pool: vertical dilation, 1..31")                                          \
	F(dx, 77, 5, 0, "pool: horizontal dilation, 1..31")
#define RIVULET_CFG_A_RECT(F)                                                                      \
	F(y_lo, 32, 16, 1, "AVG_BORDER: positions with y_lo <= y < y_hi and x_lo <= x < x_hi count") \
	F(y_hi, 48, 16, 1, "in source coordinates of A_POOL")                                      \
	F(x_lo, 64, 16, 1, "")                                                                     \
	F(x_hi, 80, 16, 1, "")
#define RIVULET_CFG_A_LUT(F)                                                                       \
	F(addr, 32, 16, 0, "WGT word of the table: entry (uint8)(value + 128)")
#define RIVULET_CFG_A_PACK(F)                                                                      \
	F(d, 32, 16, 0, "INP word of the bits of channel 0, row 0, column 0")                      \
	F(row, 48, 16, 0, "words between rows of bits")                                            \
	F(blk, 64, 16, 0, "words between blocks of bits")                                          \
	F(first, 80, 14, 0, "channel of the first channel of A")                                   \
	F(lanes, 94, 2, 0, "log2 of the pixels of a word of bits, 0..2")                           \
	F(only, 96, 1, 0, "1: nothing but the bits is written; with real, those of the sums")     \
	F(fill, 97, 1, 0, "1: bytes of a pixel behind the bits of the last block become 0")
#define RIVULET_CFG_A_TYPE(F)                                                                      \
	F(lo, 32, 16, 1, "real: lowest result")                                                    \
	F(hi, 48, 16, 1, "real: highest result")                                                   \
	F(zp, 64, 16, 1, "real: added after rounding")                                             \
	F(bz, 80, 16, 1, "real: taken off B")                                                      \
	F(a, 96, 1, 0, "A in INP is int16")                                                        \
	F(b, 97, 1, 0, "B is int16")                                                               \
	F(d, 98, 1, 0, "the result is int16")                                                      \
	F(prelu, 99, 1, 0, "real: slope below zero and summand per channel")
#define RIVULET_CFG_A_SUM(F)                                                                       \
	F(lo, 32, 32, 0, "real: float, lowest value of A")                                         \
	F(hi, 64, 32, 0, "real: float, highest value of A")
#define RIVULET_CFG_A_EXT(F)                                                                       \
	F(addr, 32, 16, 0, "WGT word of the slopes, factors of B, PRelu parameters and thresholds")
#define RIVULET_CFG_A_SLOPE(F)                                                                     \
	F(zp, 32, 8, 1, "slopes: taken off the value, below which the first factor is taken")      \
	F(out, 40, 8, 1, "slopes: zero point added after rounding")                                \
	F(lo, 48, 8, 1, "slopes: lowest result")                                                   \
	F(hi, 56, 8, 1, "slopes: highest result")

#define RIVULET_CFG_S_DST(F)                                                                       \
	F(row_pitch, 32, 32, 0, "bytes between destination rows")                                  \
	F(blk_pitch, 64, 32, 0, "bytes between destination channel blocks (PLANAR: ignored)")      \
	F(ch_pitch, 96, 32, 0, "PLANAR: bytes between channel planes; INTERLEAVED: between pixels")
#define RIVULET_CFG_S_SRC(F)                                                                       \
	F(row_pitch, 32, 16, 0, "words between source rows")                                       \
	F(blk_pitch, 48, 16, 0, "words between source channel blocks")
#define RIVULET_CFG_S_CHAN(F)                                                                      \
	F(channels, 32, 16, 0, "PLANAR, INTERLEAVED: valid channels over all blocks; the rest is not written") \
	F(src_ch, 48, 5, 0, "BLOCK from INP: first byte taken of each word")                       \
	F(dst_ch, 53, 5, 0, "BLOCK from INP: first byte written of each destination word")         \
	F(count, 58, 6, 0, "BLOCK from INP: bytes moved per word; 0 means all tn")

#define RIVULET_CFG_Q_TAG(F)                                                                       \
	F(tag, 32, 32, 0, "written to this queue's PROF records")
#define RIVULET_CFG_Q_PROF(F)                                                                      \
	F(slot, 32, 4, 0, "slot that receives this queue's PROF records")                          \
	F(offset, 36, 36, 0, "byte offset of the next record, multiple of 8")                      \
	F(limit, 72, 20, 0, "records that may be written; further ones are dropped")

/* G(NAME, index, queue): configuration words */
#define RIVULET_ISA_CFGS(G)                                                                        \
	G(L_SRC, 0, LOAD) G(L_DST, 1, LOAD) G(L_CHAN, 2, LOAD) G(L_PAD, 3, LOAD)                   \
	G(L_GATHER, 4, LOAD) G(L_BOUNDS, 5, LOAD)                                                  \
	G(C_KERNEL, 16, CONV) G(C_INPUT, 17, CONV) G(C_PAD, 18, CONV) G(C_OUT, 19, CONV)           \
	G(C_MODE, 20, CONV)                                                                        \
	G(A_SRC, 32, ALU) G(A_DST, 33, ALU) G(A_RQ, 34, ALU) G(A_SCALE, 35, ALU)                   \
	G(A_OUT, 36, ALU) G(A_POOL, 37, ALU) G(A_DIV, 38, ALU) G(A_RECT, 39, ALU)                  \
	G(A_LUT, 40, ALU) G(A_PACK, 41, ALU) G(A_TYPE, 42, ALU) G(A_SUM, 43, ALU)                  \
	G(A_EXT, 44, ALU) G(A_SLOPE, 45, ALU)                                                      \
	G(S_DST, 48, STORE) G(S_SRC, 49, STORE) G(S_CHAN, 50, STORE)                               \
	G(Q_TAG, 60, ANY) G(Q_PROF, 61, ANY)

#define RIVULET_CFG_COUNT 64
#define RIVULET_ISA_CFG_ENUM(name, index, queue) RIVULET_CFG_##name = (index),
enum rivulet_cfg { RIVULET_ISA_CFGS(RIVULET_ISA_CFG_ENUM) };

/* Every form by name: M(name, table). The order is enum rivulet_form. */
#define RIVULET_ISA_FORMS(M)                                                                       \
	M(load, RIVULET_ISA_LOAD) M(conv, RIVULET_ISA_CONV) M(alu, RIVULET_ISA_ALU)                \
	M(store, RIVULET_ISA_STORE) M(sync, RIVULET_ISA_SYNC)                                      \
	M(l_src, RIVULET_CFG_L_SRC) M(l_dst, RIVULET_CFG_L_DST) M(l_chan, RIVULET_CFG_L_CHAN)      \
	M(l_pad, RIVULET_CFG_L_PAD) M(l_gather, RIVULET_CFG_L_GATHER)                              \
	M(l_bounds, RIVULET_CFG_L_BOUNDS)                                                          \
	M(c_kernel, RIVULET_CFG_C_KERNEL) M(c_input, RIVULET_CFG_C_INPUT)                          \
	M(c_pad, RIVULET_CFG_C_PAD) M(c_out, RIVULET_CFG_C_OUT) M(c_mode, RIVULET_CFG_C_MODE)      \
	M(a_src, RIVULET_CFG_A_SRC) M(a_dst, RIVULET_CFG_A_DST) M(a_rq, RIVULET_CFG_A_RQ)          \
	M(a_scale, RIVULET_CFG_A_SCALE) M(a_out, RIVULET_CFG_A_OUT)                                \
	M(a_pool, RIVULET_CFG_A_POOL) M(a_div, RIVULET_CFG_A_DIV) M(a_rect, RIVULET_CFG_A_RECT)    \
	M(a_lut, RIVULET_CFG_A_LUT) M(a_pack, RIVULET_CFG_A_PACK)                                  \
	M(a_type, RIVULET_CFG_A_TYPE) M(a_sum, RIVULET_CFG_A_SUM) M(a_ext, RIVULET_CFG_A_EXT)      \
	M(a_slope, RIVULET_CFG_A_SLOPE)                                                            \
	M(s_dst, RIVULET_CFG_S_DST) M(s_src, RIVULET_CFG_S_SRC) M(s_chan, RIVULET_CFG_S_CHAN)      \
	M(q_tag, RIVULET_CFG_Q_TAG) M(q_prof, RIVULET_CFG_Q_PROF)

/* struct rivulet_insn_load, rivulet_insn_conv, ...: header then fields, one int64_t each. */
#define RIVULET_ISA_MEMBER(name, lsb, width, sgn, doc) int64_t name;
#define RIVULET_ISA_STRUCT(name, table)                                                            \
	struct rivulet_insn_##name {                                                                    \
		RIVULET_ISA_HEADER(RIVULET_ISA_MEMBER)                                             \
		table(RIVULET_ISA_MEMBER)                                                          \
	};
RIVULET_ISA_FORMS(RIVULET_ISA_STRUCT)

#define RIVULET_ISA_FORM_ENUM(name, table) RIVULET_FORM_##name,
enum rivulet_form { RIVULET_ISA_FORMS(RIVULET_ISA_FORM_ENUM) RIVULET_FORM_COUNT };

/* A decoded instruction; h names the header of whichever form it is. */
struct rivulet_header { RIVULET_ISA_HEADER(RIVULET_ISA_MEMBER) };
#define RIVULET_ISA_UNION(name, table) struct rivulet_insn_##name name;
struct rivulet_decoded {
	enum rivulet_form form;
	union {
		struct rivulet_header h;
		RIVULET_ISA_FORMS(RIVULET_ISA_UNION)
	};
};

/** struct rivulet_insn - one encoded instruction, two little-endian 64-bit words */
struct rivulet_insn {
	uint64_t w[2];
};

/** struct rivulet_field - one field of a form, for generic code */
struct rivulet_field {
	const char *name;
	uint8_t lsb;
	uint8_t width;
	uint8_t sgn;
	const char *doc;
};

/** struct rivulet_form_info - one form: name, fields (header first), what selects it */
struct rivulet_form_info {
	const char *name;
	const struct rivulet_field *field;
	int fields;
	int op;
	int index;	/* of a CFG, else -1 */
	int queue;	/* it belongs to, or -1 for any */
	uint64_t mask[2];	/* bits that may be set */
};

/** struct rivulet_prof - one PROF record in memory, little endian */
struct rivulet_prof {
	uint32_t tag;
	uint32_t queue;
	uint64_t start;		/* cycles since the job started */
	uint64_t end;
};

/** rivulet_form_table() - information of a form, by enum rivulet_form */
const struct rivulet_form_info *rivulet_form_table(enum rivulet_form form);
/** rivulet_cfg_form() - the form of a configuration index, or -1 */
int rivulet_cfg_form(unsigned int index);

/**
 * rivulet_encode() - pack a decoded instruction
 * The op, CFG index, and for forms with one queue the queue, follow from @d->form and need not be
 * set. Returns 0, or -ERANGE with *bad (may be NULL) the field whose value does not fit.
 */
int rivulet_encode(const struct rivulet_decoded *d, struct rivulet_insn *out, const char **bad);

/**
 * rivulet_decode() - unpack and check what needs no device: opcode, index, queue, reserved bits
 * Returns 0, or an enum rivulet_fault (RESERVED, OPCODE).
 */
int rivulet_decode(const struct rivulet_insn *in, struct rivulet_decoded *d);

/**
 * rivulet_disassemble() - one line of text: "queue form field=value ... pop=Q push=Q"
 * Zero fields are left out. Returns the length, or -ENOSPC; an undecodable instruction is ".insn 0x... 0x...".
 */
int rivulet_disassemble(const struct rivulet_insn *in, char *text, size_t size);

/**
 * rivulet_assemble() - the inverse, of one line; '#' starts a comment
 * Returns 1 with @out set, 0 on an empty line, or -EINVAL with @err saying what and at which column.
 */
int rivulet_assemble(const char *line, struct rivulet_insn *out, char *err, size_t errsize);

#endif
