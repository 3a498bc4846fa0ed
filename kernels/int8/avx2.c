/* SPDX-License-Identifier: MIT */
/* Micro-kernels for AVX2. */
#ifdef __x86_64__
#define TARGET __attribute__((target("avx2,fma")))
#define MR 6
#include "int8/v256.h"
#include "int8/madd.h"
#include "int8/wino_madd.h"

GEMM_OF_SIX

const struct rvl_i8_kernels rvl_i8_avx2 = {
	.mr = MR, .nr = NR, .kr = 2, .gemm = gemm, .widen = widen_runs, .widened = 2,
	.widen_window = widen_window,
	.tables = &rvl_i8_tables_avx2, .table_bits = RVL_I8_TABLE_BITS,
	.bytes = &rvl_i8_bytes_avx2, .split = &rvl_i8_split_avx2, .winograd = filters,
	.dw = &(const struct rvl_i8_dw) { .nr = NR, .kr = 2, .run = dw, .slide = &rvl_i8_slide_pairs },
	.convert = &rvl_i8_convert_avx2, .requant = requant16,
};
#endif
