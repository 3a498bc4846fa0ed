/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Stochastic arithmetic, defined once for device model, CPU operators, compiler and tests: the
 * Sobol sequences, the product table that follows from them, and six circuits that sum products of
 * bitstreams. docs/numerics.md 8 describes it.
 *
 * A number is a stream of L bits. Bit t of code X is X > R[t], where R is one period of a Sobol
 * sequence. An activation is a uint8 X with the value X / 256 and zero point 0. A weight is an int8
 * w with the code 2 |w|, the value 2 |w| / 256, and a sign.
 */
#ifndef RIVULET_SC_H
#define RIVULET_SC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIVULET_SC_BITS		8u	/* of an operand of the device */
#define RIVULET_SC_BITS_MAX	8u
#define RIVULET_SC_MIN		8u	/* shortest stream */
#define RIVULET_SC_MAX		256u	/* longest: the whole period */
#define RIVULET_SC_BLOCKS_MAX	32u
#define RIVULET_SC_TERMS_MAX	65535u	/* products of one sum by circuits with column counters */

/* C(NAME, value, word, meaning): how the product bits become a number */
#define RIVULET_SC_CIRCUITS(C)                                                                     \
	C(AND_BIN, 0, "and-bin", "AND, signed binary accumulator; the mode proper")                \
	C(AND_LOOP, 1, "and-loop", "AND, stream adder of scale S, output revised over all blocks") \
	C(AND_ACC, 2, "and-acc", "AND, stream adder of scale S in each block, no revision")        \
	C(AND_SEP, 3, "and-sep", "AND, positive and negative adders of scale S, one multiplexer")  \
	C(UGEMM, 4, "ugemm", "bipolar, conditional streams, stream adder of scale S")              \
	C(XNOR_MUX, 5, "xnor-mux", "bipolar XNOR, multiplexer over all inputs")

#define RIVULET_SC_CIRCUIT_ENUM(name, value, word, doc) RIVULET_SC_##name = (value),
enum rivulet_sc_circuit { RIVULET_SC_CIRCUITS(RIVULET_SC_CIRCUIT_ENUM) RIVULET_SC_CIRCUIT_COUNT };

/** rivulet_sc_circuit_name() - "and-bin"; NULL for a number outside the table */
const char *rivulet_sc_circuit_name(uint32_t circuit);
/** rivulet_sc_circuit_find() - the circuit of that word, or -1 */
int rivulet_sc_circuit_find(const char *word);
/** rivulet_sc_bipolar() - whether zero is half ones, so that signs are in the codes */
static inline bool rivulet_sc_bipolar(uint32_t circuit)
{
	return circuit == RIVULET_SC_UGEMM || circuit == RIVULET_SC_XNOR_MUX;
}

/**
 * rivulet_sobol() - the first @n values of dimension @dim (1..3), in Gray-code order, 32 bits each
 */
void rivulet_sobol(uint32_t dim, uint32_t n, uint32_t *out);

/**
 * rivulet_sc_counts() - ones of X AND W for all codes: T[X][W] = #{t < length: X > R1[t] and W >
 * R2[t]}
 * @bits: of the sequences, 1..8; @out: (2^bits + 1)^2 entries, X outer
 */
void rivulet_sc_counts(uint32_t bits, uint32_t length, uint16_t *out);
/**
 * rivulet_sc_hash() - FNV-1a of 64 bits over whole entries; tests compare it with reference values
 */
uint64_t rivulet_sc_hash(const uint16_t *t, size_t n);

/** struct rivulet_sc_table - signed products of the device's operands: t[X][(uint8_t)w] */
struct rivulet_sc_table {
	int16_t t[256][256];
};
/** rivulet_sc_table_fill() - for streams of @length bits, 8..256 */
void rivulet_sc_table_fill(struct rivulet_sc_table *t, uint32_t length);

/**
 * rivulet_sc_mult() - the requantise factor of streams of @length bits from that of int8 products
 * A sum of product bits stands for sum x w of bytes times length / 32768.
 */
static inline float rivulet_sc_mult(float mult, uint32_t length)
{
	float k = 32768.0f / (float)length;

	return mult * k;
}

/** rivulet_sc_bias() - a bias of int8 products in units of product bits, nearest, halves up */
static inline int32_t rivulet_sc_bias(int32_t bias, uint32_t length)
{
	return (int32_t)(((int64_t)bias * length + 16384) >> 15);
}

/** struct rivulet_sc - streams of all codes at one length; plain data, 33 KiB */
struct rivulet_sc {
	uint32_t bits, length, words;
	uint64_t x[(1u << RIVULET_SC_BITS_MAX) + 1][RIVULET_SC_MAX / 64];
	uint64_t w[(1u << RIVULET_SC_BITS_MAX) + 1][RIVULET_SC_MAX / 64];
	uint32_t select[RIVULET_SC_MAX]; /* dimension 3, 32 bits */
	uint16_t r1[RIVULET_SC_MAX];	 /* dimension 1, @bits bits */
};
/** rivulet_sc_init() - @bits 1..8, @length 1..256, at most 2^bits */
void rivulet_sc_init(struct rivulet_sc *s, uint32_t bits, uint32_t length);

/** rivulet_sc_x() - code of an activation byte for a circuit of the device's 8 bits */
static inline uint16_t rivulet_sc_x(uint32_t circuit, uint8_t x)
{
	return rivulet_sc_bipolar(circuit) ? 128 + (x + 1) / 2 : x;
}

/** rivulet_sc_w() - likewise of a weight: signed magnitude, or bipolar */
static inline int16_t rivulet_sc_w(uint32_t circuit, int8_t w)
{
	return rivulet_sc_bipolar(circuit) ? 128 + w : 2 * w;
}

/** struct rivulet_sc_adder - how a sum is made of product bits */
struct rivulet_sc_adder {
	uint32_t circuit; /* enum rivulet_sc_circuit */
	/* parallel parts of a stream; block b begins at b * ceil(length / blocks) */
	uint32_t blocks;
	uint32_t scale;	  /* S; AND_BIN and XNOR_MUX ignore it, others need 1 or more */
};

/**
 * rivulet_sc_sum() - length x sum of x w by a circuit, bit by bit where the circuit keeps state
 * @x: codes 0..2^bits; @w: signed codes, or for bipolar circuits 0..2^bits; @n:
 * 1..RIVULET_SC_TERMS_MAX (any number for AND_BIN and AND_LOOP). Sums of all circuits have the same
 * unit.
 */
int32_t rivulet_sc_sum(const struct rivulet_sc *s, const struct rivulet_sc_adder *a,
		       const uint16_t *x, const int16_t *w, size_t n);

/** rivulet_sc_sum_serial() - AND_BIN cycle by cycle, by the definition; for tests */
int32_t rivulet_sc_sum_serial(uint32_t bits, uint32_t length, const uint16_t *x, const int16_t *w,
			      size_t n);

#endif
