/* SPDX-License-Identifier: MIT */
/* Which instruction sets the kernels of this process use. */
#ifndef RVL_ISA_H
#define RVL_ISA_H

#include "float/float.h"
#include "int8/int8.h"

/*
 * Instruction sets, the least preferred first. A set needs all features that it lists. The last one
 * that the processor has is used. X(ID, name, description, int8 kernels,
 * float kernels)
 */
#ifdef __x86_64__
#define RVL_ISAS(X) \
	X(SCALAR, "scalar", "no vector units", rvl_i8_scalar, rvl_f32_scalar) \
	X(SSE41, "sse4.1", "products of 16 bits, 128-bit registers", rvl_i8_sse41, rvl_f32_sse) \
	X(AVX2, "avx2", "products of 16 bits, 256-bit registers", rvl_i8_avx2, rvl_f32_avx2) \
	X(AVXVNNI, "avxvnni", "dot products of 8 bits, 256-bit registers", rvl_i8_avxvnni, rvl_f32_avx2) \
	X(AVX512VNNI, "avx512vnni", "dot products of 8 bits, 512-bit registers", rvl_i8_avx512vnni, \
	  rvl_f32_avx512) \
	X(AMX, "amx", "tiles of dot products of 8 bits", rvl_i8_amx, rvl_f32_avx512)
#elif defined(__aarch64__)
#define RVL_ISAS(X) \
	X(SCALAR, "scalar", "no vector units", rvl_i8_scalar, rvl_f32_scalar) \
	X(NEON, "neon", "products of 16 bits, 128-bit registers", rvl_i8_neon, rvl_f32_neon) \
	X(DOTPROD, "dotprod", "dot products of 8 bits, 128-bit registers", rvl_i8_dotprod, rvl_f32_neon) \
	X(I8MM, "i8mm", "products of 2x8 by 8x2 matrices of 8 bits", rvl_i8_i8mm, rvl_f32_neon)
#else
#define RVL_ISAS(X) \
	X(SCALAR, "scalar", "no vector units", rvl_i8_scalar, rvl_f32_scalar)
#endif

enum rvl_isa {
#define RVL_ISA_ENUM(id, ...) RVL_ISA_##id,
	RVL_ISAS(RVL_ISA_ENUM)
#undef RVL_ISA_ENUM
	RVL_ISA_COUNT,
};

/** Whether the processor has all features of a set. */
bool rvl_isa_available(enum rvl_isa isa);

/** The instruction set in use. */
enum rvl_isa rvl_isa(void);

/** Whether, with AVX512-VNNI in use, the processor also permutes bytes of two registers (AVX512-VBMI). */
bool rvl_have_vbmi(void);

/* When products with weights of few bits look up sums in tables (int8/tables.h). */
enum rvl_tables {
	RVL_TABLES_MEASURED,	/* where that measured faster */
	RVL_TABLES_OFF,
	RVL_TABLES_ALWAYS,	/* wherever there are kernels, for tests and measurements */
};

/* The widest weights for which there are tables, and the fewest columns and inputs where they pay. */
#define RVL_TABLES_BITS	   4
#define RVL_TABLES_COLUMNS 32
#define RVL_TABLES_INPUTS  64

/** The choice: measured, unless RIVULET_TABLES=off forbids tables. */
enum rvl_tables rvl_tables(void);
void rvl_tables_force(enum rvl_tables t);

/** Its quantised kernels, and those on float32. */
const struct rvl_i8_kernels *rvl_i8_kernels(void);
const struct rvl_f32_kernels *rvl_f32_kernels(void);

#endif
