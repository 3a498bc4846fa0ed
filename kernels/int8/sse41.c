/* SPDX-License-Identifier: MIT */
/* Micro-kernels for SSE4.1. */
#ifdef __x86_64__
#include "int8/v128.h"
#define MR 4

#include "int8/madd.h"
#include "int8/wino_madd.h"

GEMM_OF_FOUR

const struct rvl_i8_kernels rvl_i8_sse41 = {
	.mr = MR, .nr = NR, .kr = 2, .gemm = gemm, .widen = widen_runs, .widened = 2,
	.widen_window = widen_window,
	.tables = &rvl_i8_tables_sse41, .table_bits = RVL_I8_TABLE_BITS,
	.winograd = filters,
	.dw = &(const struct rvl_i8_dw) { .nr = NR, .kr = 2, .run = dw, .slide = &rvl_i8_slide_pairs },
	.convert = &rvl_i8_convert_base, .requant = requant16,
};
#endif
