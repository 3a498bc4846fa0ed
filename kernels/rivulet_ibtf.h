/* SPDX-License-Identifier: MIT */
/*
 * Products with constant weights of few bits, computed without a multiplication: identical binary
 * tensor factorisation (IBTF).
 *
 * The weights of M kernels over N inputs, P bits each, are C = M * P columns of N bits; column k *
 * P + b holds bit b of kernel k. A slice is a run of up to RIVULET_IBTF_WIDEST columns. Each input
 * has a code in each slice, its bits of these columns, and is added to the bucket of that number;
 * then the buckets fold into one sum for each column, and the sums of a kernel's columns, shifted,
 * into its result. The dual form groups inputs in place of columns: a table holds the sum of each
 * subset of a group, and each column adds one entry of each table. Both are exact. In two's
 * complement the plane of the sign counts negative. Sums are modulo 2^32, as those of an int8
 * product.
 *
 * No function allocates. Adds of a shape are counted as they are executed: an input whose code is 0
 * costs none, nor does the first one of a bucket.
 */
#ifndef RIVULET_IBTF_H
#define RIVULET_IBTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIVULET_IBTF_BITS   9  /* of a weight; a uint8 less its zero point needs 9 */
#define RIVULET_IBTF_WIDEST 12 /* columns of a slice, and inputs of a group */

/** struct rivulet_ibtf_shape - of the weights of one product */
struct rivulet_ibtf_shape {
	uint32_t n;	/* inputs of a kernel */
	uint32_t m;	/* kernels */
	uint32_t p;	/* bits of a weight, 1 to RIVULET_IBTF_BITS */
	bool is_signed; /* two's complement */
};

/** struct rivulet_ibtf_slices - how the columns are cut: the widths of the slices, in order */
struct rivulet_ibtf_slices {
	uint32_t n;
	uint8_t *width; /* room for m * p */
};

/** rivulet_ibtf_bits() - the least width that holds all of @count weights. @is_signed: any is
 * negative */
uint32_t rivulet_ibtf_bits(const int16_t *w, size_t count, bool *is_signed);

/* ---- formulas ---- */

/** rivulet_ibtf_lambert() - W0(x), the solution of W * exp(W) = x for x >= 0 */
double rivulet_ibtf_lambert(double x);
/** rivulet_ibtf_stationary() - the real width at which formula (3) is least; @rows: (1 - sparsity)
 * * N */
double rivulet_ibtf_stationary(double rows);
/** rivulet_ibtf_formula() - (@rows + 2^@a) * ceil(M * P / @a), formula (3) */
double rivulet_ibtf_formula(const struct rivulet_ibtf_shape *s, double rows, uint32_t a);
/** rivulet_ibtf_formula_best() - the width for which formula (3) is least */
uint32_t rivulet_ibtf_formula_best(const struct rivulet_ibtf_shape *s, double rows);
/** rivulet_ibtf_nonzero() - the weights that are not 0; times P they are the adds of Eq_MAC */
uint64_t rivulet_ibtf_nonzero(const struct rivulet_ibtf_shape *s, const int16_t *w);

/* ---- slices ---- */

/** rivulet_ibtf_scratch() - bytes that functions with a @scratch need; aligned as malloc() does */
size_t rivulet_ibtf_scratch(const struct rivulet_ibtf_shape *s);

/** rivulet_ibtf_cut_evenly() - slices of @a columns, whichever kernels these belong to */
void rivulet_ibtf_cut_evenly(const struct rivulet_ibtf_shape *s, uint32_t a,
			     struct rivulet_ibtf_slices *out);
/** rivulet_ibtf_cut_kernels() - slices of at most @a columns that end where a kernel ends */
void rivulet_ibtf_cut_kernels(const struct rivulet_ibtf_shape *s, uint32_t a,
			      struct rivulet_ibtf_slices *out);
/**
 * rivulet_ibtf_cut_best() - the slices with the fewest adds
 * All cuts of the columns, in their order, are compared by counting, so that slices end with their
 * kernels where the weights are sparse, and span kernels where they are dense. Returns the adds.
 */
uint64_t rivulet_ibtf_cut_best(const struct rivulet_ibtf_shape *s, const int16_t *w, void *scratch,
			       struct rivulet_ibtf_slices *out);

/** struct rivulet_ibtf_parts - what makes up the adds of a product by buckets */
struct rivulet_ibtf_parts {
	uint64_t rows;	  /* codes that are not 0, over all slices */
	uint64_t first;	  /* of them, the first ones of a bucket, which cost no add */
	uint64_t fold;	  /* adds that fold the buckets */
	uint64_t columns; /* adds of the columns of all kernels */
};

/** rivulet_ibtf_parts() - the parts of a product with these slices */
void rivulet_ibtf_parts(const struct rivulet_ibtf_shape *s, const int16_t *w,
			const struct rivulet_ibtf_slices *cut, void *scratch,
			struct rivulet_ibtf_parts *out);
/** rivulet_ibtf_count() - the adds of a product with these slices: rows - first + fold + columns */
uint64_t rivulet_ibtf_count(const struct rivulet_ibtf_shape *s, const int16_t *w,
			    const struct rivulet_ibtf_slices *cut, void *scratch);
/**
 * rivulet_ibtf_storage() - bits that the codes need
 * By rows each slice takes its width for each input; by columns each code that is not 0 takes its
 * width and the distance from the one before. The smaller of both counts.
 */
uint64_t rivulet_ibtf_storage(const struct rivulet_ibtf_shape *s, const int16_t *w,
			      const struct rivulet_ibtf_slices *cut, void *scratch);

/** rivulet_ibtf_factorise() - the codes: N values for each slice */
void rivulet_ibtf_factorise(const struct rivulet_ibtf_shape *s, const int16_t *w,
			    const struct rivulet_ibtf_slices *cut, uint16_t *codes);
/**
 * rivulet_ibtf_run() - y = W x by buckets
 * @buckets: 2^RIVULET_IBTF_WIDEST values
 */
void rivulet_ibtf_run(const struct rivulet_ibtf_shape *s, const struct rivulet_ibtf_slices *cut,
		      const uint16_t *codes, const int32_t *x, uint32_t *buckets, int32_t *y);

/* ---- the dual form ---- */

/** rivulet_ibtf_tables_count() - the adds of a product by tables over groups of @g inputs */
uint64_t rivulet_ibtf_tables_count(const struct rivulet_ibtf_shape *s, const int16_t *w,
				   uint32_t g);
/** rivulet_ibtf_tables_factorise() - the codes: M * P values for each of ceil(N / @g) groups */
void rivulet_ibtf_tables_factorise(const struct rivulet_ibtf_shape *s, const int16_t *w, uint32_t g,
				   uint16_t *codes);
/**
 * rivulet_ibtf_tables_run() - y = W x by tables
 * @table: 2^@g values
 */
void rivulet_ibtf_tables_run(const struct rivulet_ibtf_shape *s, uint32_t g, const uint16_t *codes,
			     const int32_t *x, uint32_t *table, int32_t *y);

/* ---- several pixels at once ---- */

#define RIVULET_IBTF_LANES	  32
#define RIVULET_IBTF_LANES_WIDEST 8 /* columns of a slice */

/** enum rivulet_ibtf_vector - the registers that a product uses */
enum rivulet_ibtf_vector {
	RIVULET_IBTF_128, /* SSE2, NEON, or what the compiler makes of it */
	RIVULET_IBTF_AVX2,
	RIVULET_IBTF_AVX512,
	RIVULET_IBTF_VECTORS,
};

/** rivulet_ibtf_has() - whether the processor has these registers */
bool rivulet_ibtf_has(enum rivulet_ibtf_vector v);

/** struct rivulet_ibtf_lanes - scratch memory of rivulet_ibtf_run_lanes() */
struct rivulet_ibtf_lanes {
	_Alignas(64) int16_t bucket[RIVULET_IBTF_LANES << RIVULET_IBTF_LANES_WIDEST];
	_Alignas(64) int32_t wide[RIVULET_IBTF_LANES << RIVULET_IBTF_LANES_WIDEST];
	uint16_t count[1 << RIVULET_IBTF_LANES_WIDEST]; /* inputs of a bucket */
};

/**
 * rivulet_ibtf_run_lanes() - y = W x of RIVULET_IBTF_LANES pixels by buckets
 * @cut: slices of at most RIVULET_IBTF_LANES_WIDEST columns
 * @x: N inputs of -256 to 255, RIVULET_IBTF_LANES values each, and @y: M results; aligned to 64 bytes
 */
void rivulet_ibtf_run_lanes(const struct rivulet_ibtf_shape *s, const struct rivulet_ibtf_slices *cut,
			    const uint16_t *codes, const int16_t *x, enum rivulet_ibtf_vector v,
			    struct rivulet_ibtf_lanes *l, int32_t *y);

/* ---- choice ---- */

/* How a product is computed. X(identifier, name, what it is) */
#define RIVULET_IBTF_FORMS(X)                                                                      \
	X(EVEN, "even", "buckets, all slices of one width")                                        \
	X(FITTED, "fitted", "buckets, the widths of the slices fitted to the weights")             \
	X(TABLES, "tables", "tables of the sums of groups of inputs")

enum rivulet_ibtf_form {
#define RIVULET_IBTF_FORM_ENUM(id, name, doc) RIVULET_IBTF_##id,
	RIVULET_IBTF_FORMS(RIVULET_IBTF_FORM_ENUM)
#undef RIVULET_IBTF_FORM_ENUM
};

/** rivulet_ibtf_form_name() - "even", "fitted" or "tables" */
const char *rivulet_ibtf_form_name(enum rivulet_ibtf_form form);

/** struct rivulet_ibtf_choice - the adds of one product in each form, and the least of them */
struct rivulet_ibtf_choice {
	uint64_t nonzero; /* weights */
	uint64_t eq_mac;  /* of the seed: @nonzero * P */
	uint32_t formula_a;
	double formula;	 /* (3) at @formula_a */
	uint32_t even_a; /* with the fewest adds */
	uint64_t even, fitted;
	uint32_t group; /* inputs of a table, with the fewest adds */
	uint64_t tables;
	enum rivulet_ibtf_form form; /* with the fewest adds; the plainer one of equals */
	uint64_t adds;
	uint64_t storage; /* bits, in this form */
};

/** rivulet_ibtf_choose() - count all forms; @cut receives the fitted slices */
void rivulet_ibtf_choose(const struct rivulet_ibtf_shape *s, const int16_t *w, void *scratch,
			 struct rivulet_ibtf_slices *cut, struct rivulet_ibtf_choice *out);

#endif
